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

/* Returns four sums of eight products each, of 32 weights and 32 numbers. No sum exceeds 32 bits. */
static inline i32x4 dot32(const int8_t *weights, const int16_t *numbers)
{
#ifdef __wasm_simd128__
    v128_t sums = wasm_i32x4_const_splat(0);
    for (int half = 0; half < 2; half++) {
        v128_t bytes = wasm_v128_load(weights + 16 * half);
        v128_t low = wasm_v128_load(numbers + 16 * half), high = wasm_v128_load(numbers + 16 * half + 8);
        sums = wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(bytes), low));
        sums = wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(bytes), high));
    }
    return (i32x4)sums;
#else
    i32x4 sums = {0};
    for (int i = 0; i < 32; i++)
        sums[i / 2 % 4] += (int32_t)weights[i] * numbers[i];
    return sums;
#endif
}

static inline f32x4 to_floats(i32x4 integers)
{
    return __builtin_convertvector(integers, f32x4);
}

static inline float sum_blocks(
    const int8_t *weights, const float *weight_scales, const int16_t *numbers, const float *scales, uint32_t blocks)
{
    f32x4 sums = {0};
    for (uint32_t block = 0; block < blocks; block++)
        sums += to_floats(dot32(weights + 32 * block, numbers + 32 * block)) * splat4(weight_scales[block] * scales[block]);
    return sum4(sums);
}

/* Does the same for four rows: their additions need not wait for each other. */
static inline void sum_blocks_of_4(const int8_t *weights, const float *weight_scales, const int16_t *numbers,
    const float *scales, uint32_t blocks, float *results)
{
    f32x4 sums[4] = {0};
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t r = 0; r < 4; r++) {
            uint64_t at = (uint64_t)r * blocks + block;
            sums[r] += to_floats(dot32(weights + 32 * at, numbers + 32 * block)) * splat4(weight_scales[at] * scales[block]);
        }
    for (int r = 0; r < 4; r++)
        results[r] = sum4(sums[r]);
}

#endif
