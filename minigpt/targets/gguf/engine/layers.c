/* Embedding, norms, and the feed-forward network. */
#include "layers.h"

bool make_span(Span *span, const Model *model, const uint32_t *positions, uint32_t count)
{
    *span = (Span){.positions = positions, .count = count};
    if (model->position != ROTARY)
        return true;
    uint32_t half = model->head_dim / 2;
    float *cosines = allocate((uint64_t)count * half * 4), *sines = allocate((uint64_t)count * half * 4);
    if (!cosines || !sines)
        return false;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < half; i++) {
            /* In float32, as in TensorFlow. */
            float angle = (float)positions[t] * model->rotary_frequencies[i];
            sine_cosine(angle, &sines[t * half + i], &cosines[t * half + i]);
        }
    span->cosines = cosines;
    span->sines = sines;
    return true;
}

void embed(const Model *model, const int32_t *ids, const Span *span, float *x)
{
    uint32_t width = model->embed_dim;
    float scale = model->scale_embeddings ? square_root((float)width) : 1.0f;
    for (uint32_t t = 0; t < span->count; t++, x += width) {
        copy_row(&model->tokens, (uint32_t)ids[t], x);
        const float *position = model->positions ? model->positions + (uint64_t)span->positions[t] * width : NULL;
        for (uint32_t i = 0; i < width; i++)
            x[i] = x[i] * scale + (position ? position[i] : 0.0f);
    }
}

uint32_t ngram_row(const Model *model, uint32_t order_index, const int32_t *newest)
{
    uint32_t rows = model->ngram_rows, row = 0;
    /* About rows / phi: see minigpt/models/layers/ngrams.py. */
    uint32_t multiplier = (uint32_t)(rows * 0.6180339887) | 1;
    for (int32_t before = model->ngrams[order_index] - 1; before >= 0; before--)
        row = (row * multiplier + (uint32_t)newest[-before]) % rows;
    return order_index * rows + row;
}

bool add_ngrams(const Model *model, Context *const *contexts, const int32_t *ids, const Span *span, float *x)
{
    uint32_t mark = memory_mark(), width = model->embed_dim;
    float *vector = allocate((uint64_t)width * 4);
    if (!vector)
        return false;
    for (uint32_t t = 0; t < span->count; t++, x += width) {
        uint32_t position = span->positions[t];
        const int32_t *newest = contexts[t]->ids + position;
        contexts[t]->ids[position] = ids[t];
        for (uint32_t i = 0; i < model->ngram_count; i++) {
            if (position + 1 < (uint32_t)model->ngrams[i])
                continue;
            copy_row(&model->ngram_table, ngram_row(model, i, newest), vector);
            for (uint32_t d = 0; d < width; d++)
                x[d] += vector[d];
        }
    }
    release_to(mark);
    return true;
}

const float *convolve(const Model *model, const Block *block, uint32_t sublayer, const float *x, const Span *span,
    const Target *targets, float *y)
{
    uint32_t width = model->embed_dim;
    const float *weights = block->convolutions[sublayer];
    if (!weights)
        return x;
    float *sums = y;
    for (uint32_t t = 0; t < span->count; t++, x += width, sums += width) {
        float *newest = targets[t].cache->inputs[sublayer] + (uint64_t)span->positions[t] * width;
        memcpy(newest, x, (uint64_t)width * 4);
        for (uint32_t d = 0; d < width; d++)
            sums[d] = x[d] + weights[d] * x[d];
        for (uint32_t k = 1; k < model->taps && k <= span->positions[t]; k++)
            for (uint32_t d = 0; d < width; d++)
                sums[d] += weights[(uint64_t)k * width + d] * (newest - (uint64_t)k * width)[d];
    }
    return y;
}

static float sum_of_squares(const float *x, uint32_t width, float mean)
{
    f32x4 sums = {0};
    uint32_t i = 0;
    for (; i + 4 <= width; i += 4) {
        f32x4 centered = load4(x + i) - splat4(mean);
        sums += centered * centered;
    }
    float sum = sum4(sums);
    for (; i < width; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static float mean_of(const float *x, uint32_t width)
{
    f32x4 sums = {0};
    uint32_t i = 0;
    for (; i + 4 <= width; i += 4)
        sums += load4(x + i);
    float sum = sum4(sums);
    for (; i < width; i++)
        sum += x[i];
    return sum / (float)width;
}

void normalize(const Model *model, const Norm *norm, const float *x, uint32_t count, float *y)
{
    uint32_t width = model->embed_dim;
    for (uint32_t t = 0; t < count; t++, x += width, y += width) {
        float mean = model->block == MODERN ? 0.0f : mean_of(x, width);
        float variance = sum_of_squares(x, width, mean) / (float)width;
        float factor = 1.0f / square_root(variance + model->norm_epsilon);
        for (uint32_t i = 0; i < width; i++)
            y[i] = (x[i] - mean) * factor * norm->weight[i] + (norm->bias ? norm->bias[i] : 0.0f);
    }
}

bool apply_dense(const Dense *dense, const float *x, uint32_t count, float *y)
{
    uint32_t rows = dense->weight.rows;
    if (!multiply(&dense->weight, x, count, y))
        return false;
    if (dense->bias)
        for (uint32_t t = 0; t < count; t++, y += rows)
            for (uint32_t r = 0; r < rows; r++)
                y[r] += dense->bias[r];
    return true;
}

bool feed_forward(const Model *model, const Block *block, const float *x, uint32_t count, float *y)
{
    uint32_t mark = memory_mark();
    uint64_t size = (uint64_t)count * model->ff_dim;
    bool is_gated = model->block == MODERN;
    float *inner = allocate(size * 4), *gate = is_gated ? allocate(size * 4) : inner;
    if (!inner || !gate || !apply_dense(&block->up, x, count, inner))
        return false;
    if (is_gated && !apply_dense(&block->gate, x, count, gate))
        return false;
    activate(model->activation, gate, size);
    if (is_gated)
        for (uint64_t i = 0; i < size; i++)
            inner[i] *= gate[i];
    bool done = apply_dense(&block->down, inner, count, y);
    release_to(mark);
    return done;
}
