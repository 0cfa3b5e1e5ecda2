/* Matrices of weights, in float32 or in blocks of 8-bit integers, and their products with vectors. */
#ifndef MINIGPT_MATRIX_H
#define MINIGPT_MATRIX_H

#include "gguf.h"

typedef struct {
    uint32_t rows, columns;
    const float *floats;     /* [rows, columns]; NULL if the weights are integers */
    const int8_t *integers;  /* [rows, columns] */
    const float *scales;     /* [rows, columns / 32]: the factor of each block of 32 integers */
} Matrix;

/* Reads a tensor. float16 becomes float32; Q8_0 is stored as integers and scales apart. */
bool read_matrix(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows);
/* Returns rows [first, first + count) of a matrix. */
Matrix matrix_rows(const Matrix *matrix, uint32_t first, uint32_t count);
/* Writes one row as floats. */
void copy_row(const Matrix *matrix, uint32_t row, float *to);

/* Computes the products of a matrix with several vectors: y[t][r] = sum over c of m[r][c] x[t][c].
   x: [count, columns]; y: [count, rows]. A result does not depend on count. */
bool multiply(const Matrix *matrix, const float *x, uint32_t count, float *y);

#endif
