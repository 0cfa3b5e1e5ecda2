/* Products of matrices of float32, as learning needs them: of any of the two, rows may be read as columns. */
#ifndef MINIGPT_PRODUCTS_H
#define MINIGPT_PRODUCTS_H

#include "engine.h"

/* Entry [i][j] is entries[i * row_step + j * column_step]. */
typedef struct {
    const float *entries;
    size_t row_step, column_step;
} View;

static inline View view(const float *entries, size_t row_step)
{
    return (View){entries, row_step, 1};
}

static inline View transposed(View matrix)
{
    return (View){matrix.entries, matrix.column_step, matrix.row_step};
}

/* Computes c = a b, or c += a b if `adds`. a: [rows, inner]; b: [inner, columns]; c: [rows, columns], its rows `step` apart. */
void compute_product(
    View a, View b, uint32_t rows, uint32_t inner, uint32_t columns, float *c, size_t step, bool adds);

#endif
