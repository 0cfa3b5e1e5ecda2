/* The model of a portable file: sizes, variants and weights. Letters are those of docs/settings.md. */
#ifndef MINIGPT_MODEL_H
#define MINIGPT_MODEL_H

#include "functions.h"
#include "matrix.h"

typedef enum { GPT, ENCODER_DECODER } ModelKind;
typedef enum { POST_NORM, PRE_NORM, MODERN } BlockKind;
typedef enum { LEARNED, SINUSOIDAL, ROTARY } PositionKind;

/* LayerNorm, or RMSNorm in a modern block, which has no bias. */
typedef struct {
    const float *weight, *bias;
} Norm;

/* bias: NULL if there is none. */
typedef struct {
    Matrix weight;
    const float *bias;
} Dense;

typedef struct {
    Norm norm;
    Dense query, key, value, output;
    const float *query_norm, *key_norm; /* NULL except in a modern block */
    const float *value_mix;             /* share of the first block's values; NULL without them */
    bool *is_off;                       /* [H]: heads that are left out */
} Attention;

typedef struct {
    Attention attention, cross; /* cross: in the decoder of an encoder-decoder only */
    Norm ff_norm;
    Dense gate, up, down;       /* gate: in a modern block only */
    const float *convolutions[2]; /* [taps, D], before attention and feed-forward network; NULL without them */
    bool is_off;                  /* left out: the block returns its input */
} Block;

typedef struct {
    ModelKind kind;
    BlockKind block;
    PositionKind position;
    Activation activation;
    bool scale_embeddings, tie_embeddings;
    float norm_epsilon;
    uint32_t vocab_size, max_len, embed_dim, num_heads, num_kv_heads, head_dim, value_dim, ff_dim, num_layers;
    bool value_residual;
    uint32_t taps;                   /* of the convolutions; 0 without them */
    const int32_t *ngrams;           /* [ngram_count]: their orders */
    uint32_t ngram_count, ngram_rows;
    Matrix ngram_table;              /* [ngram_count * ngram_rows, D] */
    const float *rotary_frequencies; /* [K / 2] */
    Matrix tokens;                   /* [V, D] */
    const float *positions;          /* [max_len, D]; NULL with rotary positions */
    Block *encoder_blocks, *blocks;  /* [L] */
    Norm encoder_norm, final_norm;   /* no weights with post-norm */
    Dense head;
} Model;

/* Reads description and weights. */
bool read_model(Model *model, const Gguf *file);

#endif
