/* Nearly all time of learning is spent here. Both matrices are first copied in the order in which the innermost loop reads them. */
#include "products.h"

#include "vectors.h"

enum { ROWS = 4, COLUMNS = 8 };

static float *left_copy;  /* [rows / ROWS, inner, ROWS] */
static float *right_copy; /* [inner, COLUMNS] */

bool open_products(uint64_t left, uint64_t inner)
{
    left_copy = allocate(left * 4);
    right_copy = allocate(inner * COLUMNS * 4);
    return left_copy && right_copy;
}

/* Copies `count` rows from `first` on, in groups of `width`; missing rows of the last group are zeros. */
static void copy_groups(View matrix, uint32_t first, uint32_t count, uint32_t inner, uint32_t width, float *to)
{
    for (uint32_t r = 0; r < count; r += width) {
        const float *from = matrix.entries + (first + r) * matrix.row_step;
        uint32_t present = count - r < width ? count - r : width;
        for (uint32_t k = 0; k < inner; k++, from += matrix.column_step, to += width) {
            for (uint32_t i = 0; i < present; i++)
                to[i] = from[i * matrix.row_step];
            for (uint32_t i = present; i < width; i++)
                to[i] = 0;
        }
    }
}

/* Computes ROWS times COLUMNS entries. Each is added in the order of `inner`. */
static inline void compute_tile(const float *a, const float *b, uint32_t inner, f32x4 sums[ROWS][2])
{
    f32x4 totals[ROWS][2] = {0};
    for (uint32_t k = 0; k < inner; k++, a += ROWS, b += COLUMNS) {
        f32x4 left = load4(b), right = load4(b + 4);
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)
        {
            f32x4 entry = splat4(a[i]);
            totals[i][0] += entry * left;
            totals[i][1] += entry * right;
        }
    }
    memcpy(sums, totals, sizeof totals);
}

void compute_product(
    View a, View b, uint32_t rows, uint32_t inner, uint32_t columns, float *c, size_t step, bool adds)
{
    copy_groups(a, 0, rows, inner, ROWS, left_copy);
    for (uint32_t j = 0; j < columns; j += COLUMNS) {
        uint32_t width = columns - j < COLUMNS ? columns - j : COLUMNS;
        copy_groups(transposed(b), j, width, inner, COLUMNS, right_copy);
        const float *group = left_copy;
        for (uint32_t r = 0; r < rows; r += ROWS, group += (size_t)ROWS * inner) {
            f32x4 sums[ROWS][2];
            compute_tile(group, right_copy, inner, sums);
            for (uint32_t i = 0; i < ROWS && r + i < rows; i++) {
                float *to = c + (r + i) * step + j;
                if (width == COLUMNS) {
                    store4(to, adds ? load4(to) + sums[i][0] : sums[i][0]);
                    store4(to + 4, adds ? load4(to + 4) + sums[i][1] : sums[i][1]);
                } else {
                    for (uint32_t n = 0; n < width; n++)
                        to[n] = (adds ? to[n] : 0) + sums[i][n / 4][n % 4];
                }
            }
        }
    }
}
