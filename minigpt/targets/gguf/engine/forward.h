/* The forward pass: from token ids to latents and logits. */
#ifndef MINIGPT_FORWARD_H
#define MINIGPT_FORWARD_H

#include "model.h"

/* What a block keeps of the tokens that were read. */
typedef struct {
    float *keys;      /* [G, capacity, K] */
    float *values;    /* [G, capacity, U] */
    float *inputs[2]; /* [capacity, D], of the convolutions; NULL without them */
} Cache;

/* Where the passes write what is shown of the last token that is read. */
typedef struct {
    float *attention; /* [L, H, capacity]: its attention weights */
    float *cross;     /* [L, H, source_length]: those over the encoded source; NULL in a GPT */
    float *latents;   /* [L, D]: the output of each block */
} Watch;

/* What decoding stores: caches of all blocks, and for an encoder-decoder those of the encoded source. */
typedef struct {
    uint32_t capacity;  /* tokens, at most max_len */
    uint32_t length;    /* tokens that were read */
    Cache *caches;      /* [L] */
    int32_t *ids;       /* [capacity]: the tokens; NULL without n-grams */
    uint32_t source_length;
    Cache *sources;     /* [L], of capacity source_length */
    const Watch *watch; /* NULL if nothing is shown */
} Context;

/* Takes the memory for `capacity` tokens. */
bool open_context(Context *context, const Model *model, uint32_t capacity);

/* Encodes the source of an encoder-decoder. source_length: 1 to max_len. */
bool encode_source(Context *context, const Model *model, const int32_t *ids, uint32_t source_length);

/* Tokens that are computed together: more of them read the weights less often, but need more memory. */
enum { SPAN = 64 };

/* Reads tokens that follow those in the context, and writes the latents of each: [count, D].
   context->length + count is at most the capacity. */
bool read_tokens(Context *context, const Model *model, const int32_t *ids, uint32_t count, float *latents);

/* Reads tokens of several texts together, at least one: contexts[t] is that of the token ids[t], and the tokens of a text are in
   their order. Each latent is the same, bit for bit, whatever is read together with it. */
bool read_together(Context *const *contexts, const Model *model, const int32_t *ids, uint32_t count, float *latents);

/* Replaces the outputs of a block, [count, D], by what the head takes. Without effect in a post-norm model. */
void normalize_outputs(const Model *model, uint32_t count, float *x);

/* latents: [count, D]; logits: [count, V]. */
bool compute_logits(const Model *model, const float *latents, uint32_t count, float *logits);

#endif
