/* Vectors of four floats or eight integers. Without SIMD, the compiler makes the same operations of single numbers, with the
   same results. */
#ifndef MINIGPT_VECTORS_H
#define MINIGPT_VECTORS_H

#include "engine.h"

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef float unaligned_f32x4 __attribute__((vector_size(16), aligned(4)));

static inline f32x4 load4(const float *from)
{
    return *(const unaligned_f32x4 *)from;
}

static inline void store4(float *to, f32x4 vector)
{
    *(unaligned_f32x4 *)to = vector;
}

static inline f32x4 splat4(float value)
{
    return (f32x4){value, value, value, value};
}

static inline float sum4(f32x4 vector)
{
    return (vector[0] + vector[1]) + (vector[2] + vector[3]);
}

/* Returns four sums: of the products of 32 numbers with each of four times 32 weights. No sum exceeds 32 bits. */
static inline i32x4 dot_group(const int8_t *weights, const int16_t *numbers)
{
#ifdef __wasm_simd128__
    v128_t x[4], sums[4];
    for (int part = 0; part < 4; part++)
        x[part] = wasm_v128_load(numbers + 8 * part);
    for (int row = 0; row < 4; row++, weights += 32) {
        v128_t first = wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights), x[0]);
        v128_t second = wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights + 8), x[1]);
        v128_t third = wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights + 16), x[2]);
        v128_t fourth = wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights + 24), x[3]);
        sums[row] = wasm_i32x4_add(wasm_i32x4_add(first, second), wasm_i32x4_add(third, fourth));
    }
    /* Transposed: each row has four partial sums. */
    v128_t left = wasm_i32x4_add(wasm_i32x4_shuffle(sums[0], sums[1], 0, 4, 1, 5), wasm_i32x4_shuffle(sums[0], sums[1], 2, 6, 3, 7));
    v128_t right = wasm_i32x4_add(wasm_i32x4_shuffle(sums[2], sums[3], 0, 4, 1, 5), wasm_i32x4_shuffle(sums[2], sums[3], 2, 6, 3, 7));
    return (i32x4)wasm_i32x4_add(wasm_i32x4_shuffle(left, right, 0, 1, 4, 5), wasm_i32x4_shuffle(left, right, 2, 3, 6, 7));
#else
    i32x4 sums = {0};
    for (int i = 0; i < 4 * 32; i++)
        sums[i / 32] += (int32_t)weights[i] * numbers[i % 32];
    return sums;
#endif
}

static inline f32x4 to_floats(i32x4 integers)
{
    return __builtin_convertvector(integers, f32x4);
}

#endif
