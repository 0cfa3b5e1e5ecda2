/* Choosing the next token: the settings and their order are those of minigpt/generation/sampling.py. */
#ifndef MINIGPT_SAMPLING_H
#define MINIGPT_SAMPLING_H

#include "engine.h"
#include "sampling_settings.h"

/* Returns the token with the largest logit, the lowest id among equals. */
uint32_t most_probable(const float *logits, uint32_t vocab_size);

/* Draws a token. logits: [vocab_size], -inf for banned tokens, penalties applied.
   step: the number of tokens drawn before. Returns a negative number after `fail`. */
int32_t draw_token(const float *logits, uint32_t vocab_size, const SamplingSettings *settings, int32_t step);

/* A part of the line from 0 to 1: the tokens that can be drawn have one each, the most probable one first. */
typedef struct {
    float start;
    float share; /* 0: the token cannot be drawn */
} Place;

/* Writes the places of tokens, [count]. `draw_token` returns the token whose place holds `uniform`. Returns false after `fail`. */
bool place_tokens(const float *logits, uint32_t vocab_size, const SamplingSettings *settings, const int32_t *ids, uint32_t count,
    Place *places);

/* random.c: a float32 in [0, 1), the same as tf.random.stateless_uniform([], [seed, step], alg="philox"). */
float uniform(int32_t seed, int32_t step);

#endif
