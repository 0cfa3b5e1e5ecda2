/* The layers of a transformer. x is [count, D] unless said otherwise. */
#ifndef MINIGPT_LAYERS_H
#define MINIGPT_LAYERS_H

#include "forward.h"

/* The tokens that are computed together, with the cosines and sines of their positions. They may be of different texts. */
typedef struct {
    uint32_t count;
    const uint32_t *positions; /* [count] */
    const float *cosines;      /* [count, K / 2]; NULL without rotary positions */
    const float *sines;
} Span;

/* What a token of a span attends to in a layer. */
typedef struct {
    const Cache *cache;
    const Cache *first; /* that of the first block; read if values are mixed with its values */
    uint32_t capacity; /* of the cache */
    uint32_t visible;  /* how many tokens of the cache */
} Target;

/* positions: [count]; they stay where they are. */
bool make_span(Span *span, const Model *model, const uint32_t *positions, uint32_t count);

/* Writes the sum of the vectors of tokens and positions. */
void embed(const Model *model, const int32_t *ids, const Span *span, float *x);

/* Adds the vectors of the n-grams that end with each token, and keeps the ids. contexts: [count], that of each token. */
bool add_ngrams(const Model *model, Context *const *contexts, const int32_t *ids, const Span *span, float *x);

/* Returns the row of the table of n-grams for the n-gram of an order, which ends with the token at `newest`. */
uint32_t ngram_row(const Model *model, uint32_t order_index, const int32_t *newest);

/* Applies the convolution before sublayer 0 or 1 of a block. Returns x itself if there is none, otherwise y. */
const float *convolve(const Model *model, const Block *block, uint32_t sublayer, const float *x, const Span *span,
    const Target *targets, float *y);

void normalize(const Model *model, const Norm *norm, const float *x, uint32_t count, float *y);

/* Divides each head's vector by its root mean square (modern blocks). */
void normalize_heads(const Model *model, const float *weight, float *x, uint64_t vectors);

/* Rotates entry i with entry i + K / 2 of every head's vector. x: [count, heads, K]. */
void rotate(const Model *model, const Span *span, float *x, uint32_t heads);

bool apply_dense(const Dense *dense, const float *x, uint32_t count, float *y);

/* Computes keys and values of x and writes them to the caches, at the positions of the tokens. Rotates the keys if `rotates`. */
bool write_keys_and_values(
    const Model *model, const Attention *attention, const float *x, const Span *span, bool rotates, const Target *targets);

/* Attends from each token of x to its target. Rotates the queries if `rotates`. Writes the weights of the last token to `shown`,
   [H, capacity], unless it is NULL. */
bool attend(const Model *model, const Attention *attention, const float *x, const Span *span, bool rotates, const Target *targets,
    float *shown, float *y);

bool feed_forward(const Model *model, const Block *block, const float *x, uint32_t count, float *y);

#endif
