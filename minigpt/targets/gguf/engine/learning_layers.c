/* Dense layers, norms, convolutions and feed-forward networks with their gradients. */
#include "learning.h"
#include "products.h"

void apply_part(const Part *part, const float *x, uint32_t count, uint32_t inputs, uint32_t outputs, float *y)
{
    for (uint32_t t = 0; part->bias && t < count; t++)
        memcpy(y + (uint64_t)t * outputs, part->bias, (uint64_t)outputs * 4);
    compute_product(view(x, inputs), transposed(view(part->weight, inputs)), count, inputs, outputs, y, outputs, part->bias);
}

void apply_part_backward(const Learning *learning, const Part *part, const float *x, const float *dy, uint32_t count,
    uint32_t inputs, uint32_t outputs, float *dx, bool adds)
{
    float *d_weight = gradient_of(learning, part->weight);
    compute_product(transposed(view(dy, outputs)), view(x, inputs), outputs, count, inputs, d_weight, inputs, true);
    if (part->bias) {
        float *d_bias = gradient_of(learning, part->bias);
        for (uint32_t t = 0; t < count; t++)
            for (uint32_t r = 0; r < outputs; r++)
                d_bias[r] += dy[(uint64_t)t * outputs + r];
    }
    compute_product(view(dy, outputs), view(part->weight, inputs), count, outputs, inputs, dx, inputs, adds);
}

/* y = weight normed + bias with normed = (x - mean) factor. */
void normalize_backward(const Learning *learning, const Part *norm, const float *x, const float *dy, uint64_t count,
    uint32_t width, float *dx)
{
    bool is_centered = learning->model->block != MODERN;
    float *d_weight = gradient_of(learning, norm->weight);
    float *d_bias = norm->bias ? gradient_of(learning, norm->bias) : NULL;
    for (uint64_t t = 0; t < count; t++, x += width, dy += width, dx += width) {
        float mean = 0, squares = 0, sum = 0, along = 0;
        for (uint32_t i = 0; is_centered && i < width; i++)
            mean += x[i];
        mean /= (float)width;
        for (uint32_t i = 0; i < width; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        float factor = 1.0f / square_root(squares / (float)width + learning->model->norm_epsilon);
        for (uint32_t i = 0; i < width; i++) {
            float normed = (x[i] - mean) * factor, gradient = dy[i] * norm->weight[i];
            d_weight[i] += dy[i] * normed;
            if (d_bias)
                d_bias[i] += dy[i];
            sum += gradient;
            along += gradient * normed;
        }
        sum = is_centered ? sum / (float)width : 0;
        along /= (float)width;
        for (uint32_t i = 0; i < width; i++)
            dx[i] = factor * (dy[i] * norm->weight[i] - sum - (x[i] - mean) * factor * along);
    }
}

void convolve_windows(const Learning *learning, const float *weights, const float *x, float *y)
{
    uint32_t width = learning->model->embed_dim;
    for (uint32_t t = 0; t < learning->count; t++, x += width, y += width) {
        memcpy(y, x, (uint64_t)width * 4);
        for (uint32_t k = 0; k < learning->model->taps && k <= t % learning->length; k++)
            for (uint32_t i = 0; i < width; i++)
                y[i] += weights[(uint64_t)k * width + i] * (x - (uint64_t)k * width)[i];
    }
}

void convolve_backward(const Learning *learning, const float *weights, const float *x, const float *dy, float *dx)
{
    uint32_t width = learning->model->embed_dim;
    float *d_weights = gradient_of(learning, weights);
    memcpy(dx, dy, (uint64_t)learning->count * width * 4);
    for (uint32_t t = 0; t < learning->count; t++, x += width, dy += width, dx += width)
        for (uint32_t k = 0; k < learning->model->taps && k <= t % learning->length; k++) {
            uint64_t row = (uint64_t)k * width;
            for (uint32_t i = 0; i < width; i++) {
                d_weights[row + i] += dy[i] * (x - row)[i];
                (dx - row)[i] += weights[row + i] * dy[i];
            }
        }
}

void run_feed_forward(const Learning *learning, const BlockCopy *block, const Kept *kept, float *y)
{
    const Model *model = learning->model;
    uint32_t count = learning->count, width = model->embed_dim, inner = model->ff_dim;
    uint64_t size = (uint64_t)count * inner;
    float *activated = kept->gate ? kept->activated : kept->inner;
    apply_part(&block->up, kept->inputs[1], count, width, inner, kept->up);
    if (kept->gate)
        apply_part(&block->gate, kept->inputs[1], count, width, inner, kept->gate);
    memcpy(activated, kept->gate ? kept->gate : kept->up, size * 4);
    activate(model->activation, activated, size);
    for (uint64_t i = 0; kept->gate && i < size; i++)
        kept->inner[i] = activated[i] * kept->up[i];
    apply_part(&block->down, kept->inner, count, inner, width, y);
}

void feed_forward_backward(const Learning *learning, const BlockCopy *block, const Kept *kept, const float *dy, float *dx)
{
    const Model *model = learning->model;
    uint32_t count = learning->count, width = model->embed_dim, inner = model->ff_dim;
    uint64_t size = (uint64_t)count * inner;
    /* Gradients replace what was kept. */
    float *gradients = kept->inner;
    apply_part_backward(learning, &block->down, kept->inner, dy, count, inner, width, gradients, false);
    if (!kept->gate) {
        multiply_by_slopes(model->activation, kept->up, gradients, size);
        apply_part_backward(learning, &block->up, kept->inputs[1], gradients, count, width, inner, dx, false);
        return;
    }
    for (uint64_t i = 0; i < size; i++) {
        float gradient = gradients[i];
        gradients[i] *= kept->up[i];
        kept->up[i] = gradient * kept->activated[i];
    }
    multiply_by_slopes(model->activation, kept->gate, gradients, size);
    apply_part_backward(learning, &block->up, kept->inputs[1], kept->up, count, width, inner, dx, false);
    apply_part_backward(learning, &block->gate, kept->inputs[1], gradients, count, width, inner, dx, true);
}
