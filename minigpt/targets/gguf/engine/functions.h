/* Functions of numbers. They are part of the engine so that every machine and browser computes the same bits. */
#ifndef MINIGPT_FUNCTIONS_H
#define MINIGPT_FUNCTIONS_H

#include "vectors.h"

/* e^x within 2 units in the last place; 0 below -87.3, the largest float above 88.37. */
f32x4 exp4(f32x4 x);
float exp1(float x);
/* The error function within 1.2e-7 (Press et al., Numerical Recipes, section 6.2). */
float erf1(float x);
/* The natural logarithm of a positive number. */
double logarithm(double x);
void sine_cosine(double angle, float *sine, float *cosine);

static inline float square_root(float x)
{
    return __builtin_sqrtf(x);
}

/* The values of `model.activation`. */
typedef enum { RELU, GELU, GELU_TANH, SILU, RELU_SQUARED } Activation;

/* Replaces each of the count numbers by its activation. */
void activate(Activation activation, float *x, uint64_t count);

/* Multiplies gradients, those of the activations of x, by the derivatives at x. */
void multiply_by_slopes(Activation activation, const float *x, float *gradients, uint64_t count);

/* The sum of the products of two vectors. */
float dot(const float *a, const float *b, uint32_t size);

/* Replaces scores by their softmax. The largest one is subtracted first, so that nothing overflows. */
void softmax(float *scores, uint32_t count);

#endif
