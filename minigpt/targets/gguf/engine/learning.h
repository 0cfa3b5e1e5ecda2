/* Learning: float32 copies of the weights of a GPT, their gradients, and the passes over a batch of windows.

   A batch has B windows of T tokens. x is [B T, D] unless said otherwise. Each window starts at position 0. */
#ifndef MINIGPT_LEARNING_H
#define MINIGPT_LEARNING_H

#include "layers.h"

/* The weights of a dense layer, [outputs, inputs], or of a norm. bias: NULL if there is none. */
typedef struct {
    float *weight, *bias;
} Part;

typedef struct {
    Part norms[2]; /* of attention and of the feed-forward network */
    Part query, key, value, output, gate, up, down;
    float *query_norm, *key_norm, *value_mix, *convolutions[2]; /* NULL without them */
} BlockCopy;

typedef struct {
    float *tokens, *positions, *ngrams; /* positions: NULL unless they are learned */
    BlockCopy *blocks;
    Part final_norm, head; /* head: the tokens if they are tied */
} ModelCopy;

/* What the forward pass of a block keeps for the backward pass. */
typedef struct {
    float *summed[2]; /* what the norms read */
    float *normed[2]; /* what the convolutions read */
    float *inputs[2]; /* of attention and of the feed-forward network: `normed` without convolutions */
    float *raw_queries, *raw_keys; /* before their norms */
    float *queries, *keys;         /* [B T, H K], divided by the root of K, and [B T, G K] */
    float *own_values, *values;    /* [B T, G U]: before and after mixing */
    float *attention;              /* [B, H, T, T]: weights */
    float *heads;                  /* [B T, H U]: outputs */
    float *up, *inner;             /* [B T, F] */
    float *gate, *activated;       /* [B T, F]; NULL except in a modern block */
} Kept;

typedef struct {
    const Model *model;
    ModelCopy copy;
    uint64_t size;              /* of all weights together */
    float *values, *gradients;  /* [size]; the parts of `copy` are inside `values` */
    uint32_t batch, length, count; /* B, T, B T */
    int32_t *ids, *targets;     /* [B T] */
    Span span, back;            /* of the tokens; with the sines of the opposite rotation */
    Kept *kept;                 /* [L] */
    float *last, *latents;      /* what the final norm reads and returns */
} Learning;

/* parameters.c */

/* Takes the memory for copies of the weights and for their gradients, and reads the weights. */
bool copy_weights(Learning *learning);
/* Writes the copies to the model and to the open file, rounded to the types of the tensors. */
void write_weights(void);
/* Writes the matrices of the model into a copy of its file, in the order of a file. */
bool write_tensors(const Model *model, const uint8_t *file, uint8_t *data);

/* learning_passes.c */

/* Takes the memory for the passes over batches. */
bool open_passes(Learning *learning);
/* Returns the mean cross-entropy of a batch in nats, and writes the gradients of all weights. */
double compute_gradients(Learning *learning);

/* learning_attention.c and learning_layers.c: dy are the gradients of the outputs; those of the inputs are written to dx. Gradients
   of weights are added. */

/* The gradients of weights. */
static inline float *gradient_of(const Learning *learning, const float *weight)
{
    return learning->gradients + (weight - learning->values);
}

void apply_part(const Part *part, const float *x, uint32_t count, uint32_t inputs, uint32_t outputs, float *y);
/* dx may be x. Adds to dx if `adds`. */
void apply_part_backward(const Learning *learning, const Part *part, const float *x, const float *dy, uint32_t count,
    uint32_t inputs, uint32_t outputs, float *dx, bool adds);
/* x: [count, width]. dx may be dy. */
void normalize_backward(const Learning *learning, const Part *norm, const float *x, const float *dy, uint64_t count,
    uint32_t width, float *dx);
void convolve_windows(const Learning *learning, const float *weights, const float *x, float *y);
void convolve_backward(const Learning *learning, const float *weights, const float *x, const float *dy, float *dx);
void run_feed_forward(const Learning *learning, const BlockCopy *block, const Kept *kept, float *y);
void feed_forward_backward(const Learning *learning, const BlockCopy *block, const Kept *kept, const float *dy, float *dx);

/* Takes the memory for the backward pass. */
bool open_attention(const Learning *learning);
/* first: what the first block keeps. */
void attend_windows(const Learning *learning, const BlockCopy *block, const Kept *kept, const Kept *first, float *y);
/* Adds the gradients of the first block's values to d_first, [B T, G U]. In the first block, which is last, these are added to the
   gradients of its values. */
void attend_backward(const Learning *learning, const BlockCopy *block, const Kept *kept, const Kept *first, const float *dy,
    float *d_first, float *dx);

#endif
