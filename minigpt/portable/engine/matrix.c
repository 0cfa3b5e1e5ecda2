/* Reading matrices and multiplying by them. Nearly all time is spent here. */
#include "matrix.h"

#include "vectors.h"

enum { BLOCK = 32 };

static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff, bits;
    if (rest >= 0x7c00)
        bits = sign | 0x7f800000 | (rest & 0x3ff) << 13; /* infinity, NaN */
    else if (rest >= 0x400)
        bits = sign | (rest + (112 << 10)) << 13;
    else { /* Subnormal numbers are multiples of 2^-24. */
        float value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static bool read_halves(Matrix *matrix, const uint8_t *data, uint64_t count)
{
    float *floats = allocate(count * 4);
    if (!floats)
        return false;
    const uint16_t *halves = (const uint16_t *)data;
    for (uint64_t i = 0; i < count; i++)
        floats[i] = half_to_float(halves[i]);
    matrix->floats = floats;
    return true;
}

static bool read_integers(Matrix *matrix, const uint8_t *data, uint64_t count)
{
    int8_t *integers = allocate(count);
    float *scales = allocate(count / BLOCK * 4);
    if (!integers || !scales)
        return false;
    for (uint64_t block = 0; block < count / BLOCK; block++, data += 2 + BLOCK) {
        uint16_t scale;
        memcpy(&scale, data, 2);
        scales[block] = half_to_float(scale);
        memcpy(integers + block * BLOCK, data + 2, BLOCK);
    }
    matrix->integers = integers;
    matrix->scales = scales;
    return true;
}

bool read_matrix(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows)
{
    const uint8_t *data;
    const Tensor *tensor = find_tensor(file, name, columns, rows, &data);
    if (!tensor)
        return false;
    *matrix = (Matrix){.rows = (uint32_t)rows, .columns = (uint32_t)columns};
    if (tensor->type == TENSOR_F16)
        return read_halves(matrix, data, rows * columns);
    if (tensor->type == TENSOR_Q8_0)
        return read_integers(matrix, data, rows * columns);
    matrix->floats = (const float *)data;
    return true;
}

Matrix matrix_rows(const Matrix *matrix, uint32_t first, uint32_t count)
{
    Matrix part = *matrix;
    uint64_t start = (uint64_t)first * matrix->columns;
    part.rows = count;
    if (matrix->floats) {
        part.floats += start;
    } else {
        part.integers += start;
        part.scales += start / BLOCK;
    }
    return part;
}

void copy_row(const Matrix *matrix, uint32_t row, float *to)
{
    uint64_t start = (uint64_t)row * matrix->columns;
    for (uint32_t c = 0; c < matrix->columns; c++)
        to[c] = matrix->floats ? matrix->floats[start + c]
                               : (float)matrix->integers[start + c] * matrix->scales[(start + c) / BLOCK];
}

/* The products of ROWS rows with VECTORS vectors. The order of the additions is the same for every ROWS and VECTORS. */
#define FLOAT_KERNEL(ROWS, VECTORS)                                                                                 \
    static void floats_##ROWS##x##VECTORS(const float *w, const float *x, uint32_t columns, float *y, uint32_t rows)  \
    {                                                                                                               \
        f32x4 sums[ROWS][VECTORS] = {0};                                                                            \
        uint32_t whole = columns & ~3u;                                                                             \
        for (uint32_t c = 0; c < whole; c += 4) {                                                                   \
            f32x4 columns_of[VECTORS];                                                                              \
            _Pragma("unroll") for (int v = 0; v < VECTORS; v++) columns_of[v] = load4(x + (uint64_t)v * columns + c);  \
            _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                      \
                f32x4 weights = load4(w + (uint64_t)r * columns + c);                                               \
                _Pragma("unroll") for (int v = 0; v < VECTORS; v++) sums[r][v] += weights * columns_of[v];          \
            }                                                                                                       \
        }                                                                                                           \
        for (int r = 0; r < ROWS; r++)                                                                              \
            for (int v = 0; v < VECTORS; v++) {                                                                     \
                float sum = sum4(sums[r][v]);                                                                       \
                for (uint32_t c = whole; c < columns; c++)                                                          \
                    sum += w[(uint64_t)r * columns + c] * x[(uint64_t)v * columns + c];                             \
                y[(uint64_t)v * rows + r] = sum;                                                                    \
            }                                                                                                       \
    }

FLOAT_KERNEL(8, 1)
FLOAT_KERNEL(4, 2)
FLOAT_KERNEL(1, 2)
FLOAT_KERNEL(1, 1)

static void multiply_floats(const Matrix *matrix, const float *x, uint32_t count, float *y)
{
    uint32_t rows = matrix->rows, columns = matrix->columns, t = 0;
    for (; t + 2 <= count; t += 2) {
        const float *vectors = x + (uint64_t)t * columns;
        float *results = y + (uint64_t)t * rows;
        uint32_t r = 0;
        for (; r + 4 <= rows; r += 4)
            floats_4x2(matrix->floats + (uint64_t)r * columns, vectors, columns, results + r, rows);
        for (; r < rows; r++)
            floats_1x2(matrix->floats + (uint64_t)r * columns, vectors, columns, results + r, rows);
    }
    for (; t < count; t++) {
        const float *vector = x + (uint64_t)t * columns;
        float *results = y + (uint64_t)t * rows;
        uint32_t r = 0;
        for (; r + 8 <= rows; r += 8)
            floats_8x1(matrix->floats + (uint64_t)r * columns, vector, columns, results + r, rows);
        for (; r < rows; r++)
            floats_1x1(matrix->floats + (uint64_t)r * columns, vector, columns, results + r, rows);
    }
}

/* Rounds each block of 32 entries to 16-bit integers, which are much more exact than the 8-bit weights. */
static void round_vector(const float *x, uint32_t columns, int16_t *integers, float *scales)
{
    for (uint32_t block = 0; block < columns / BLOCK; block++, x += BLOCK, integers += BLOCK) {
        float largest = 0;
        for (int i = 0; i < BLOCK; i++) {
            float size = x[i] < 0 ? -x[i] : x[i];
            largest = size > largest ? size : largest;
        }
        float scale = largest / 32767.0f, inverse = largest > 0 ? 32767.0f / largest : 0;
        scales[block] = scale;
        for (int i = 0; i < BLOCK; i++) {
            /* NaN and infinity give 0: converting them is not defined. */
            float scaled = x[i] * inverse;
            bool is_number = scaled >= -32768.0f && scaled <= 32768.0f;
            integers[i] = (int16_t)(is_number ? (int32_t)(scaled + (scaled < 0 ? -0.5f : 0.5f)) : 0);
        }
    }
}

static bool multiply_integers(const Matrix *matrix, const float *x, uint32_t count, float *y)
{
    uint32_t columns = matrix->columns, blocks = columns / BLOCK, mark = memory_mark();
    int16_t *integers = allocate((uint64_t)columns * 2);
    float *scales = allocate((uint64_t)blocks * 4);
    if (!integers || !scales)
        return false;
    for (uint32_t t = 0; t < count; t++, x += columns, y += matrix->rows) {
        round_vector(x, columns, integers, scales);
        const int8_t *weights = matrix->integers;
        const float *weight_scales = matrix->scales;
        uint32_t r = 0;
        for (; r + 4 <= matrix->rows; r += 4, weights += 4 * (uint64_t)columns, weight_scales += 4 * (uint64_t)blocks)
            sum_blocks_of_4(weights, weight_scales, integers, scales, blocks, y + r);
        for (; r < matrix->rows; r++, weights += columns, weight_scales += blocks)
            y[r] = sum_blocks(weights, weight_scales, integers, scales, blocks);
    }
    release_to(mark);
    return true;
}

bool multiply(const Matrix *matrix, const float *x, uint32_t count, float *y)
{
    if (!matrix->floats)
        return multiply_integers(matrix, x, count, y);
    multiply_floats(matrix, x, count, y);
    return true;
}
