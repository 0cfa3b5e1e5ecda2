/* Multi-head attention with a cache. */
#include "layers.h"

void normalize_heads(const Model *model, const float *weight, float *x, uint64_t vectors)
{
    uint32_t width = model->head_dim;
    for (uint64_t v = 0; v < vectors; v++, x += width) {
        float sum = 0;
        for (uint32_t i = 0; i < width; i++)
            sum += x[i] * x[i];
        float factor = 1.0f / square_root(sum / (float)width + model->norm_epsilon);
        for (uint32_t i = 0; i < width; i++)
            x[i] = x[i] * factor * weight[i];
    }
}

void rotate(const Model *model, const Span *span, float *x, uint32_t heads)
{
    uint32_t half = model->head_dim / 2;
    for (uint32_t t = 0; t < span->count; t++) {
        const float *cosines = span->cosines + (uint64_t)t * half, *sines = span->sines + (uint64_t)t * half;
        for (uint32_t h = 0; h < heads; h++, x += 2 * half)
            for (uint32_t i = 0; i < half; i++) {
                float first = x[i], second = x[half + i];
                x[i] = first * cosines[i] - second * sines[i];
                x[half + i] = second * cosines[i] + first * sines[i];
            }
    }
}

bool write_keys_and_values(
    const Model *model, const Attention *attention, const float *x, const Span *span, bool rotates, const Target *targets)
{
    uint32_t mark = memory_mark(), groups = model->num_kv_heads, count = span->count;
    uint32_t key_dim = model->head_dim, value_dim = model->value_dim;
    float *keys = allocate((uint64_t)count * groups * key_dim * 4);
    float *values = allocate((uint64_t)count * groups * value_dim * 4);
    if (!keys || !values || !apply_dense(&attention->key, x, count, keys) || !apply_dense(&attention->value, x, count, values))
        return false;
    if (attention->key_norm)
        normalize_heads(model, attention->key_norm, keys, (uint64_t)count * groups);
    if (rotates && span->cosines)
        rotate(model, span, keys, groups);
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t g = 0; g < groups; g++) {
            uint64_t from = (uint64_t)t * groups + g, to = (uint64_t)g * targets[t].capacity + span->positions[t];
            if (attention->value_mix) {
                const float *first = targets[t].first->values + to * value_dim;
                float *value = values + from * value_dim;
                for (uint32_t i = 0; i < value_dim; i++)
                    value[i] += *attention->value_mix * (first[i] - value[i]);
            }
            memcpy(targets[t].cache->keys + to * key_dim, keys + from * key_dim, key_dim * 4);
            memcpy(targets[t].cache->values + to * value_dim, values + from * value_dim, value_dim * 4);
        }
    release_to(mark);
    return true;
}

/* The sum of the rows of `values`, each times its weight. */
static void weighted_sum(const float *weights, const float *values, uint32_t count, uint32_t size, float *sum)
{
    uint32_t i = 0;
    for (; i + 4 <= size; i += 4) {
        f32x4 total = {0};
        for (uint32_t s = 0; s < count; s++)
            total += splat4(weights[s]) * load4(values + (uint64_t)s * size + i);
        store4(sum + i, total);
    }
    for (; i < size; i++) {
        float total = 0;
        for (uint32_t s = 0; s < count; s++)
            total += weights[s] * values[(uint64_t)s * size + i];
        sum[i] = total;
    }
}

bool attend(const Model *model, const Attention *attention, const float *x, const Span *span, bool rotates, const Target *targets,
    float *shown, float *y)
{
    uint32_t mark = memory_mark(), heads = model->num_heads, shared = heads / model->num_kv_heads, count = span->count;
    uint32_t key_dim = model->head_dim, value_dim = model->value_dim;
    uint32_t most = 0;
    for (uint32_t t = 0; t < count; t++)
        most = targets[t].visible > most ? targets[t].visible : most;
    float *queries = allocate((uint64_t)count * heads * key_dim * 4);
    float *outputs = allocate((uint64_t)count * heads * value_dim * 4);
    float *scores = allocate((uint64_t)most * 4);
    if (!queries || !outputs || !scores || !apply_dense(&attention->query, x, count, queries))
        return false;
    if (attention->query_norm)
        normalize_heads(model, attention->query_norm, queries, (uint64_t)count * heads);
    if (rotates && span->cosines)
        rotate(model, span, queries, heads);
    float root = square_root((float)key_dim);
    for (uint64_t i = 0; i < (uint64_t)count * heads * key_dim; i++)
        queries[i] /= root;
    for (uint32_t t = 0; t < count; t++) {
        const Cache *cache = targets[t].cache;
        uint32_t capacity = targets[t].capacity, visible = targets[t].visible;
        for (uint32_t h = 0; h < heads; h++) {
            uint64_t group = (uint64_t)(h / shared) * capacity, at = (uint64_t)t * heads + h;
            for (uint32_t s = 0; s < visible; s++)
                scores[s] = dot(queries + at * key_dim, cache->keys + (group + s) * key_dim, key_dim);
            softmax(scores, visible);
            if (shown && t + 1 == count)
                memcpy(shown + (uint64_t)h * capacity, scores, (uint64_t)visible * 4);
            /* The output of a head that is left out stays zero. */
            if (!attention->is_off[h])
                weighted_sum(scores, cache->values + group * value_dim, visible, value_dim, outputs + at * value_dim);
        }
    }
    bool done = apply_dense(&attention->output, outputs, count, y);
    release_to(mark);
    return done;
}
