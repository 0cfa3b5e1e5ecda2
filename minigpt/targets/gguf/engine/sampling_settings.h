/* Written by scripts/make_sampling_files.py from minigpt/config/sampling.py. */
#ifndef MINIGPT_SAMPLING_SETTINGS_H
#define MINIGPT_SAMPLING_SETTINGS_H

#include <stdint.h>

/* The host checks the limits. Other values do no harm. */
typedef struct {
    float temperature; /* at least 0, at most 1e+30; 1: no effect */
    int32_t top_k; /* at least 0, less than 2147483648; 0: no effect */
    float top_p; /* more than 0, at most 1; 1: no effect */
    float min_p; /* at least 0, at most 1; 0: no effect */
    float typical_p; /* more than 0, at most 1; 1: no effect */
    float repetition_penalty; /* more than 0, at most 1e+30; 1: no effect */
    int32_t seed; /* at least 0, less than 2147483648 */
} SamplingSettings;

/* What exported functions take, in this order, and an initializer made of it. */
#define SAMPLING_PARAMETERS \
    float temperature, int32_t top_k, float top_p, float min_p, float typical_p, float repetition_penalty, int32_t seed
#define SAMPLING_ARGUMENTS \
    {temperature, top_k, top_p, min_p, typical_p, repetition_penalty, seed}
#define NEUTRAL_SETTINGS {1, 0, 1, 0, 1, 1, 0}

#endif
