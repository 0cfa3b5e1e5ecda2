/* The probabilities from which a token is chosen. */
#ifndef MINIGPT_CHOICES_H
#define MINIGPT_CHOICES_H

#include "engine.h"

enum { GUESSES = 10 };

/* Probabilities are those of the model: temperature 1, no token banned or cut off. */
typedef struct {
    float probability;            /* of the chosen token */
    int32_t ids[GUESSES];         /* the most probable tokens, the first one first; -1 beyond the vocabulary */
    float probabilities[GUESSES];
} Choice;

/* Fills a choice. logits: [vocab_size]; chosen: a token, or a negative number for none. */
void describe_choice(const float *logits, uint32_t vocab_size, int32_t chosen, Choice *choice);

#endif
