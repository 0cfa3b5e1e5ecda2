/* Nearly all time of learning is spent here. Parts of both matrices that fit into the caches are first copied in the order in which
   the innermost loop reads them (Goto and van de Geijn 2008). */
#include "products.h"

#include "vectors.h"

enum { ROWS = 4, COLUMNS = 8 };
/* Of a part: a multiple of ROWS, entries of the sums, a multiple of COLUMNS. */
enum { MOST_ROWS = 64, MOST_INNER = 256, MOST_COLUMNS = 512 };

static float left_copy[MOST_ROWS * MOST_INNER];     /* [rows / ROWS, inner, ROWS] */
static float right_copy[MOST_COLUMNS * MOST_INNER]; /* [columns / COLUMNS, inner, COLUMNS] */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Copies four rows of four entries as columns. */
static inline void transpose4(const float *from, size_t row_step, float *to, uint32_t width)
{
    f32x4 a = load4(from), b = load4(from + row_step), c = load4(from + 2 * row_step), d = load4(from + 3 * row_step);
    f32x4 low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    f32x4 low2 = __builtin_shufflevector(c, d, 0, 4, 1, 5), high2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to, __builtin_shufflevector(low, low2, 0, 1, 4, 5));
    store4(to + width, __builtin_shufflevector(low, low2, 2, 3, 6, 7));
    store4(to + 2 * width, __builtin_shufflevector(high, high2, 0, 1, 4, 5));
    store4(to + 3 * width, __builtin_shufflevector(high, high2, 2, 3, 6, 7));
}

/* Copies a part of a matrix in groups of `width` rows, ROWS or COLUMNS; missing rows of the last group are zeros. */
static inline void copy_groups(
    View matrix, uint32_t first, uint32_t count, uint32_t start, uint32_t inner, uint32_t width, float *to)
{
    for (uint32_t r = 0; r < count; r += width, to += (size_t)inner * width) {
        const float *from = matrix.entries + (first + r) * matrix.row_step + start * matrix.column_step;
        uint32_t present = smaller(count - r, width), k = 0;
        if (present == width && matrix.row_step == 1)
            for (; k < inner; k++)
                for (uint32_t i = 0; i < width; i += 4)
                    store4(to + (size_t)k * width + i, load4(from + k * matrix.column_step + i));
        if (present == width && matrix.column_step == 1)
            for (; k + 4 <= inner; k += 4)
                for (uint32_t i = 0; i < width; i += 4)
                    transpose4(from + i * matrix.row_step + k, matrix.row_step, to + (size_t)k * width + i, width);
        for (; k < inner; k++)
            for (uint32_t i = 0; i < width; i++)
                to[(size_t)k * width + i] = i < present ? from[i * matrix.row_step + k * matrix.column_step] : 0;
    }
}

/* Computes ROWS times COLUMNS entries. Each is added in the order of `inner`. */
static inline void compute_tile(const float *a, const float *b, uint32_t inner, f32x4 totals[ROWS][2])
{
    for (uint32_t k = 0; k < inner; k++, a += ROWS, b += COLUMNS) {
        f32x4 left = load4(b), right = load4(b + 4);
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)
        {
            f32x4 entry = splat4(a[i]);
            totals[i][0] += entry * left;
            totals[i][1] += entry * right;
        }
    }
}

/* As compute_tile; c has only some of the rows and columns. */
static void compute_edge(
    const float *a, const float *b, uint32_t inner, uint32_t rows, uint32_t columns, float *c, size_t step, bool adds)
{
    f32x4 totals[ROWS][2] = {0};
    for (uint32_t i = 0; adds && i < rows; i++)
        for (uint32_t n = 0; n < columns; n++)
            totals[i][n / 4][n % 4] = c[i * step + n];
    compute_tile(a, b, inner, totals);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t n = 0; n < columns; n++)
            c[i * step + n] = totals[i][n / 4][n % 4];
}

static void compute_whole(const float *a, const float *b, uint32_t inner, float *c, size_t step, bool adds)
{
    f32x4 totals[ROWS][2];
    _Pragma("unroll") for (int i = 0; i < ROWS; i++)
    {
        totals[i][0] = adds ? load4(c + i * step) : splat4(0);
        totals[i][1] = adds ? load4(c + i * step + 4) : splat4(0);
    }
    compute_tile(a, b, inner, totals);
    _Pragma("unroll") for (int i = 0; i < ROWS; i++)
    {
        store4(c + i * step, totals[i][0]);
        store4(c + i * step + 4, totals[i][1]);
    }
}

static void compute_part(uint32_t rows, uint32_t inner, uint32_t columns, float *c, size_t step, bool adds)
{
    const float *b = right_copy;
    for (uint32_t j = 0; j < columns; j += COLUMNS, b += (size_t)inner * COLUMNS) {
        const float *a = left_copy;
        for (uint32_t r = 0; r < rows; r += ROWS, a += (size_t)inner * ROWS)
            if (r + ROWS <= rows && j + COLUMNS <= columns)
                compute_whole(a, b, inner, c + r * step + j, step, adds);
            else
                compute_edge(a, b, inner, smaller(rows - r, ROWS), smaller(columns - j, COLUMNS), c + r * step + j, step, adds);
    }
}

void compute_product(
    View a, View b, uint32_t rows, uint32_t inner, uint32_t columns, float *c, size_t step, bool adds)
{
    for (uint32_t j = 0; j < columns; j += MOST_COLUMNS) {
        uint32_t width = smaller(columns - j, MOST_COLUMNS);
        for (uint32_t k = 0; k < inner; k += MOST_INNER) {
            uint32_t depth = smaller(inner - k, MOST_INNER);
            copy_groups(transposed(b), j, width, k, depth, COLUMNS, right_copy);
            for (uint32_t r = 0; r < rows; r += MOST_ROWS) {
                uint32_t height = smaller(rows - r, MOST_ROWS);
                copy_groups(a, r, height, k, depth, ROWS, left_copy);
                compute_part(height, depth, width, c + r * step + j, step, adds || k);
            }
        }
    }
}
