/* Reading matrices and multiplying by them. Nearly all time is spent here. */
#include "matrix.h"

#include "vectors.h"

enum { BLOCK = 32, GROUP = 4 };

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

/* Rounds to the nearest, to the even one of two. Numbers that are too large become infinite. */
static uint16_t float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (size >= 0x47800000) /* 65536 and more, infinity, NaN */
        return sign | (size > 0x7f800000 ? 0x7e00 : 0x7c00);
    if (size < 0x38800000) { /* Below 2^-14: adding 2^-1 rounds to a multiple of 2^-24. */
        float rounded;
        memcpy(&rounded, &size, 4);
        rounded += 0.5f;
        memcpy(&size, &rounded, 4);
        return sign | (uint16_t)(size - 0x3f000000);
    }
    return sign | (uint16_t)((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

static float *read_halves(const uint8_t *data, uint64_t count)
{
    float *floats = allocate(count * 4);
    const uint16_t *halves = (const uint16_t *)data;
    for (uint64_t i = 0; floats && i < count; i++)
        floats[i] = half_to_float(halves[i]);
    return floats;
}

/* Where an entry of a group of rows is. */
static size_t place(uint32_t columns, uint32_t row, uint32_t column)
{
    uint32_t whole = columns - columns % 4;
    if (column >= whole)
        return (size_t)GROUP * whole + row * (columns % 4) + column % 4;
    return (size_t)GROUP * (column - column % 4) + 4 * row + column % 4;
}

/* Brings the rows of each group together, so that products read one entry after the other. Takes no memory for a second copy. */
static bool group_rows(Matrix *matrix, float *floats)
{
    uint32_t columns = matrix->columns, mark = memory_mark();
    float *group = allocate((uint64_t)GROUP * columns * 4);
    if (!group)
        return false;
    matrix->floats = floats;
    for (uint32_t r = 0; r + GROUP <= matrix->rows; r += GROUP, floats += (size_t)GROUP * columns) {
        memcpy(group, floats, (size_t)GROUP * columns * 4);
        for (uint32_t i = 0; i < GROUP; i++)
            for (uint32_t c = 0; c < columns; c++)
                floats[place(columns, i, c)] = group[(size_t)i * columns + c];
    }
    release_to(mark);
    return true;
}

static bool read_integers(Matrix *matrix, const uint8_t *data)
{
    uint32_t blocks = matrix->columns / BLOCK, groups = (matrix->rows + GROUP - 1) / GROUP;
    int8_t *integers = allocate((uint64_t)groups * GROUP * matrix->columns);
    float *scales = allocate((uint64_t)groups * GROUP * blocks * 4);
    if (!integers || !scales)
        return false;
    for (uint32_t r = 0; r < matrix->rows; r++)
        for (uint32_t block = 0; block < blocks; block++, data += 2 + BLOCK) {
            size_t at = ((size_t)(r / GROUP) * blocks + block) * GROUP + r % GROUP;
            uint16_t scale;
            memcpy(&scale, data, 2);
            scales[at] = half_to_float(scale);
            memcpy(integers + at * BLOCK, data + 2, BLOCK);
        }
    matrix->integers = integers;
    matrix->scales = scales;
    return true;
}

bool read_rows(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows, uint32_t first, uint32_t count)
{
    const uint8_t *data;
    const Tensor *tensor = find_tensor(file, name, columns, rows, &data);
    if (!tensor)
        return false;
    data += first * row_bytes(tensor->type, columns);
    *matrix = (Matrix){.rows = count, .columns = (uint32_t)columns, .data = data, .type = tensor->type};
    if (tensor->type == TENSOR_Q8_0)
        return read_integers(matrix, data);
    float *floats = tensor->type == TENSOR_F16 ? read_halves(data, count * columns) : (float *)data;
    return floats && group_rows(matrix, floats);
}

bool read_matrix(Matrix *matrix, const Gguf *file, const char *name, uint64_t columns, uint64_t rows)
{
    return read_rows(matrix, file, name, columns, rows, 0, (uint32_t)rows);
}

/* Where an entry is among the floats. */
static size_t float_place(const Matrix *matrix, uint32_t row, uint32_t column)
{
    uint32_t columns = matrix->columns, first = row - row % GROUP;
    bool is_grouped = first + GROUP <= matrix->rows;
    return (size_t)first * columns + (is_grouped ? place(columns, row % GROUP, column) : (size_t)(row % GROUP) * columns + column);
}

/* Where the scale of an entry's block is; its 32 integers are at 32 times that. */
static size_t scale_place(const Matrix *matrix, uint32_t row, uint32_t block)
{
    return ((size_t)(row / GROUP) * (matrix->columns / BLOCK) + block) * GROUP + row % GROUP;
}

void copy_row(const Matrix *matrix, uint32_t row, float *to)
{
    uint32_t columns = matrix->columns;
    if (matrix->floats) {
        for (uint32_t c = 0; c < columns; c++)
            to[c] = matrix->floats[float_place(matrix, row, c)];
        return;
    }
    for (uint32_t c = 0; c < columns; c++) {
        size_t at = scale_place(matrix, row, c / BLOCK);
        to[c] = (float)matrix->integers[at * BLOCK + c % BLOCK] * matrix->scales[at];
    }
}

/* Rounds 32 numbers as the library of the format does: the largest one becomes 127 or -127. */
static void round_block(const float *values, uint16_t *scale, int8_t *integers)
{
    float largest = 0;
    for (int i = 0; i < BLOCK; i++) {
        float size = values[i] < 0 ? -values[i] : values[i];
        largest = size > largest ? size : largest;
    }
    float step = largest / 127.0f, inverse = step > 0 ? 1.0f / step : 0;
    *scale = float_to_half(step);
    for (int i = 0; i < BLOCK; i++) {
        float scaled = values[i] * inverse;
        bool is_number = scaled > -127.5f && scaled < 127.5f;
        integers[i] = (int8_t)(is_number ? (int32_t)(scaled + (scaled < 0 ? -0.5f : 0.5f)) : 0);
    }
}

static void write_integers(const Matrix *matrix, uint32_t row, const float *values, uint8_t *file_row)
{
    for (uint32_t block = 0; block < matrix->columns / BLOCK; block++, file_row += 2 + BLOCK) {
        size_t at = scale_place(matrix, row, block);
        int8_t *integers = (int8_t *)matrix->integers + at * BLOCK;
        uint16_t scale;
        round_block(values + (size_t)block * BLOCK, &scale, integers);
        ((float *)matrix->scales)[at] = half_to_float(scale);
        memcpy(file_row, &scale, 2);
        memcpy(file_row + 2, integers, BLOCK);
    }
}

void write_matrix(const Matrix *matrix, const float *values)
{
    uint32_t columns = matrix->columns;
    uint64_t bytes = row_bytes(matrix->type, columns);
    for (uint32_t r = 0; r < matrix->rows; r++, values += columns) {
        uint8_t *file_row = (uint8_t *)matrix->data + r * bytes;
        if (matrix->type == TENSOR_Q8_0) {
            write_integers(matrix, r, values, file_row);
            continue;
        }
        for (uint32_t c = 0; c < columns; c++) {
            float value = values[c];
            if (matrix->type == TENSOR_F16) {
                uint16_t half = float_to_half(value);
                memcpy(file_row + 2 * c, &half, 2);
                value = half_to_float(half);
            }
            ((float *)matrix->floats)[float_place(matrix, r, c)] = value;
        }
    }
}

void copy_tensor(const Matrix *matrix, uint8_t *to)
{
    uint64_t bytes = row_bytes(matrix->type, matrix->columns);
    /* Floats are in groups in the file, too. */
    if (matrix->type == TENSOR_F32)
        for (uint32_t r = 0; r < matrix->rows; r++)
            copy_row(matrix, r, (float *)(to + r * bytes));
    else
        memcpy(to, matrix->data, matrix->rows * bytes);
}

/* The products of a group of ROWS rows with VECTORS vectors, which are `columns` and `rows` apart. Each is added in the same order,
   whatever is computed together with it. */
#define FLOAT_KERNEL(ROWS, VECTORS)                                                                                 \
    static void floats_##ROWS##x##VECTORS(const float *w, const float *x, uint32_t columns, float *y, uint32_t rows)  \
    {                                                                                                               \
        f32x4 sums[ROWS][VECTORS] = {0};                                                                            \
        uint32_t rest = columns % 4, whole = columns - rest;                                                        \
        for (uint32_t c = 0; c < whole; c += 4, w += 4 * ROWS)                                                      \
            _Pragma("unroll") for (uint32_t v = 0; v < VECTORS; v++)                                                \
            {                                                                                                       \
                f32x4 entries = load4(x + v * columns + c);                                                         \
                _Pragma("unroll") for (uint32_t r = 0; r < ROWS; r++) sums[r][v] += load4(w + 4 * r) * entries;      \
            }                                                                                                       \
        for (uint32_t r = 0; r < ROWS; r++)                                                                         \
            for (uint32_t v = 0; v < VECTORS; v++) {                                                                \
                float sum = sum4(sums[r][v]);                                                                       \
                for (uint32_t c = 0; c < rest; c++)                                                                 \
                    sum += w[r * rest + c] * x[v * columns + whole + c];                                            \
                y[v * rows + r] = sum;                                                                              \
            }                                                                                                       \
    }

FLOAT_KERNEL(4, 2)
FLOAT_KERNEL(4, 1)
FLOAT_KERNEL(1, 1)

/* Each group of rows is read once, and then multiplied by all vectors. More rows or vectors at a time need more registers than
   there are. */
static void multiply_floats(const Matrix *matrix, const float *x, uint32_t count, float *y)
{
    uint32_t rows = matrix->rows, columns = matrix->columns, r = 0;
    const float *w = matrix->floats;
    for (; r + GROUP <= rows; r += GROUP, w += GROUP * (size_t)columns) {
        uint32_t t = 0;
        for (; t + 2 <= count; t += 2)
            floats_4x2(w, x + t * (size_t)columns, columns, y + t * (size_t)rows + r, rows);
        if (t < count)
            floats_4x1(w, x + t * (size_t)columns, columns, y + t * (size_t)rows + r, rows);
    }
    for (; r < rows; r++, w += columns)
        for (uint32_t t = 0; t < count; t++)
            floats_1x1(w, x + t * (size_t)columns, columns, y + t * (size_t)rows + r, rows);
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
        for (uint32_t r = 0; r < matrix->rows; r += GROUP) {
            f32x4 sums = {0};
            for (uint32_t block = 0; block < blocks; block++, weights += GROUP * BLOCK, weight_scales += GROUP)
                sums += to_floats(dot_group(weights, integers + block * BLOCK)) * (load4(weight_scales) * splat4(scales[block]));
            for (uint32_t i = 0; i < GROUP && r + i < matrix->rows; i++)
                y[r + i] = sums[i];
        }
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
