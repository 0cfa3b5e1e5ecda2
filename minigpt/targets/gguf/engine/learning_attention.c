/* Attention of the tokens of a window to those before them, with its gradients. */
#include "learning.h"
#include "products.h"

/* Rows of attention that are computed together: up to the last of them, no later token is read. */
enum { TOKENS = 32 };

static float *d_queries, *d_keys, *d_values, *d_heads, *d_attention;

/* The widths of all heads of a token. */
typedef struct {
    uint32_t queries, keys, values, outputs;
} Widths;

static Widths widths_of(const Model *model)
{
    return (Widths){model->num_heads * model->head_dim, model->num_kv_heads * model->head_dim,
        model->num_kv_heads * model->value_dim, model->num_heads * model->value_dim};
}

bool open_attention(const Learning *learning)
{
    Widths widths = widths_of(learning->model);
    uint64_t count = learning->count;
    d_queries = allocate(count * widths.queries * 4);
    d_keys = allocate(count * widths.keys * 4);
    d_values = allocate(count * widths.values * 4);
    d_heads = allocate(count * widths.outputs * 4);
    d_attention = allocate((uint64_t)TOKENS * learning->length * 4);
    return d_queries && d_keys && d_values && d_heads && d_attention;
}

/* Some tokens of a window, for one head: where their first entries are. */
typedef struct {
    uint32_t first, rows, visible; /* tokens; they see those before `visible` */
    size_t query, output, attention;
    size_t key, value; /* of the first token of the window */
} Tile;

static Tile tile_at(const Learning *learning, uint32_t window, uint32_t head, uint32_t first)
{
    const Model *model = learning->model;
    uint32_t length = learning->length, heads = model->num_heads, groups = model->num_kv_heads;
    uint32_t group = head / (heads / groups), rows = length - first < TOKENS ? length - first : TOKENS;
    size_t start = (size_t)window * length, query = (start + first) * heads + head, key = start * groups + group;
    return (Tile){.first = first, .rows = rows, .visible = first + rows, .query = query * model->head_dim,
        .output = query * model->value_dim, .key = key * model->head_dim, .value = key * model->value_dim,
        .attention = (((size_t)window * heads + head) * length + first) * length};
}

static void attend_tile(const Model *model, const Kept *kept, Widths widths, Tile tile, uint32_t length)
{
    View queries = view(kept->queries + tile.query, widths.queries), keys = view(kept->keys + tile.key, widths.keys);
    View values = view(kept->values + tile.value, widths.values);
    float *scores = kept->attention + tile.attention, *heads = kept->heads + tile.output;
    compute_product(queries, transposed(keys), tile.rows, model->head_dim, tile.visible, scores, length, false);
    for (uint32_t i = 0; i < tile.rows; i++) {
        uint32_t seen = tile.first + i + 1;
        softmax(scores + (size_t)i * length, seen);
        memset(scores + (size_t)i * length + seen, 0, (tile.visible - seen) * 4);
    }
    compute_product(view(scores, length), values, tile.rows, tile.visible, model->value_dim, heads, widths.outputs, false);
}

void attend_windows(const Learning *learning, const BlockCopy *block, const Kept *kept, const Kept *first, float *y)
{
    const Model *model = learning->model;
    Widths widths = widths_of(model);
    uint32_t count = learning->count, width = model->embed_dim, heads = model->num_heads, groups = model->num_kv_heads;
    float *queries = kept->raw_queries ? kept->raw_queries : kept->queries;
    float *keys = kept->raw_keys ? kept->raw_keys : kept->keys;
    float *values = kept->own_values ? kept->own_values : kept->values;
    apply_part(&block->query, kept->inputs[0], count, width, widths.queries, queries);
    apply_part(&block->key, kept->inputs[0], count, width, widths.keys, keys);
    apply_part(&block->value, kept->inputs[0], count, width, widths.values, values);
    if (kept->raw_queries) {
        memcpy(kept->queries, queries, (size_t)count * widths.queries * 4);
        memcpy(kept->keys, keys, (size_t)count * widths.keys * 4);
        normalize_heads(model, block->query_norm, kept->queries, (uint64_t)count * heads);
        normalize_heads(model, block->key_norm, kept->keys, (uint64_t)count * groups);
    }
    if (learning->span.cosines) {
        rotate(model, &learning->span, kept->queries, heads);
        rotate(model, &learning->span, kept->keys, groups);
    }
    float root = square_root((float)model->head_dim);
    for (size_t i = 0; i < (size_t)count * widths.queries; i++)
        kept->queries[i] /= root;
    for (size_t i = 0; kept->own_values && i < (size_t)count * widths.values; i++)
        kept->values[i] = values[i] + *block->value_mix * (first->values[i] - values[i]);
    for (uint32_t window = 0; window < learning->batch; window++)
        for (uint32_t head = 0; head < heads; head++)
            for (uint32_t t = 0; t < learning->length; t += TOKENS)
                attend_tile(model, kept, widths, tile_at(learning, window, head, t), learning->length);
    apply_part(&block->output, kept->heads, count, widths.outputs, width, y);
}

static void attend_tile_backward(const Model *model, const Kept *kept, Widths widths, Tile tile, uint32_t length)
{
    View queries = view(kept->queries + tile.query, widths.queries), keys = view(kept->keys + tile.key, widths.keys);
    View values = view(kept->values + tile.value, widths.values), outputs = view(d_heads + tile.output, widths.outputs);
    const float *attention = kept->attention + tile.attention;
    uint32_t rows = tile.rows, visible = tile.visible;
    compute_product(outputs, transposed(values), rows, model->value_dim, visible, d_attention, length, false);
    compute_product(transposed(view(attention, length)), outputs, visible, rows, model->value_dim, d_values + tile.value,
        widths.values, true);
    /* The gradients of the scores replace those of the weights. */
    float *gradients = d_attention;
    for (uint32_t i = 0; i < rows; i++, attention += length, gradients += length) {
        float sum = dot(attention, gradients, visible);
        for (uint32_t s = 0; s < visible; s++)
            gradients[s] = attention[s] * (gradients[s] - sum);
    }
    View scores = view(d_attention, length);
    compute_product(scores, keys, rows, visible, model->head_dim, d_queries + tile.query, widths.queries, false);
    compute_product(transposed(scores), queries, visible, rows, model->head_dim, d_keys + tile.key, widths.keys, true);
}

/* values = own + mix (first - own) */
static void mix_backward(const Learning *learning, const BlockCopy *block, const Kept *kept, const Kept *first,
    size_t size, float *d_first)
{
    float mix = *block->value_mix;
    double d_mix = 0;
    for (size_t i = 0; i < size; i++) {
        d_mix += (double)d_values[i] * (first->values[i] - kept->own_values[i]);
        d_first[i] += mix * d_values[i];
        d_values[i] -= mix * d_values[i];
    }
    *gradient_of(learning, block->value_mix) += (float)d_mix;
}

void attend_backward(const Learning *learning, const BlockCopy *block, const Kept *kept, const Kept *first, const float *dy,
    float *d_first, float *dx)
{
    const Model *model = learning->model;
    Widths widths = widths_of(model);
    uint32_t count = learning->count, width = model->embed_dim, heads = model->num_heads, groups = model->num_kv_heads;
    size_t value_size = (size_t)count * widths.values;
    apply_part_backward(learning, &block->output, kept->heads, dy, count, widths.outputs, width, d_heads, false);
    memset(d_keys, 0, (size_t)count * widths.keys * 4);
    memset(d_values, 0, value_size * 4);
    for (uint32_t window = 0; window < learning->batch; window++)
        for (uint32_t head = 0; head < heads; head++)
            for (uint32_t t = 0; t < learning->length; t += TOKENS)
                attend_tile_backward(model, kept, widths, tile_at(learning, window, head, t), learning->length);
    float root = square_root((float)model->head_dim);
    for (size_t i = 0; i < (size_t)count * widths.queries; i++)
        d_queries[i] /= root;
    if (learning->back.cosines) {
        rotate(model, &learning->back, d_queries, heads);
        rotate(model, &learning->back, d_keys, groups);
    }
    if (kept->raw_queries) {
        Part query_norm = {block->query_norm, NULL}, key_norm = {block->key_norm, NULL};
        uint64_t vectors = (uint64_t)count * heads, key_vectors = (uint64_t)count * groups;
        normalize_backward(learning, &query_norm, kept->raw_queries, d_queries, vectors, model->head_dim, d_queries);
        normalize_backward(learning, &key_norm, kept->raw_keys, d_keys, key_vectors, model->head_dim, d_keys);
    }
    if (kept->own_values)
        mix_backward(learning, block, kept, first, value_size, d_first);
    else
        for (size_t i = 0; kept == first && d_first && i < value_size; i++)
            d_values[i] += d_first[i];
    apply_part_backward(learning, &block->query, kept->inputs[0], d_queries, count, width, widths.queries, dx, false);
    apply_part_backward(learning, &block->key, kept->inputs[0], d_keys, count, width, widths.keys, dx, true);
    apply_part_backward(learning, &block->value, kept->inputs[0], d_values, count, width, widths.values, dx, true);
}
