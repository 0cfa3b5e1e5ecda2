/* Matrices of weights, in float32 or in blocks of 8-bit integers, and their products with vectors. */
#ifndef MINIGPT_MATRIX_H
#define MINIGPT_MATRIX_H

#include "gguf.h"

/* Rows are stored in groups of four. Of floats, for every four columns, the four entries of each row; then the columns that are left,
   one row after the other. Up to three rows that are left follow as they are. Of integers, for each block of 32 columns, the 32
   integers of every row, and four scales. Missing rows of the last group are zeros. */
typedef struct {
    uint32_t rows, columns;
    const float *floats;     /* [rows / 4, columns / 4, 4, 4], and what is left; NULL if the weights are integers */
    const int8_t *integers;  /* [rows / 4, columns / 32, 4, 32] */
    const float *scales;     /* [rows / 4, columns / 32, 4] */
    const uint8_t *data;     /* the rows in the file */
    uint32_t type;           /* that of the tensor */
} Matrix;

/* Reads a tensor. float16 becomes float32; float32 is brought into groups where it is, so that it can be read only once. */
bool read_matrix(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows);
/* Reads `count` rows of a tensor, from `first` on. */
bool read_rows(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows, uint32_t first, uint32_t count);
/* Writes one row as floats. */
void copy_row(const Matrix *matrix, uint32_t row, float *to);

/* Replaces the numbers, here and in the file, by values [rows, columns], rounded to the type of the tensor. */
void write_matrix(const Matrix *matrix, const float *values);
/* Writes the rows as a file has them. */
void copy_tensor(const Matrix *matrix, uint8_t *to);

/* Computes the products of a matrix with several vectors: y[t][r] = sum over c of m[r][c] x[t][c].
   x: [count, columns]; y: [count, rows]. */
bool multiply(const Matrix *matrix, const float *x, uint32_t count, float *y);

#endif
