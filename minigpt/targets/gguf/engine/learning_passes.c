/* The forward and the backward pass over a batch: the same blocks in the same order as in forward.c. */
#include "learning.h"
#include "products.h"

/* Tokens whose logits are in memory together. */
enum { LOGITS = 128 };

static float *x, *y, *dx, *d_input; /* [B T, D] */
static float *d_first;              /* gradients of the first block's values; NULL unless they are mixed */
static float *logits;               /* [LOGITS, V] */

static float *floats(uint64_t count, bool *done)
{
    float *memory = *done ? allocate(count * 4) : NULL;
    *done = memory;
    return memory;
}

static bool open_kept(Kept *kept, const Learning *learning, uint32_t layer)
{
    const Model *model = learning->model;
    uint64_t count = learning->count, size = count * model->embed_dim, inner = count * model->ff_dim;
    uint64_t queries = count * model->num_heads * model->head_dim, keys = count * model->num_kv_heads * model->head_dim;
    uint64_t values = count * model->num_kv_heads * model->value_dim;
    bool done = true, is_modern = model->block == MODERN;
    for (uint32_t i = 0; i < 2; i++) {
        kept->summed[i] = floats(size, &done);
        kept->normed[i] = floats(size, &done);
        kept->inputs[i] = model->taps ? floats(size, &done) : kept->normed[i];
    }
    kept->queries = floats(queries, &done);
    kept->keys = floats(keys, &done);
    kept->raw_queries = is_modern ? floats(queries, &done) : NULL;
    kept->raw_keys = is_modern ? floats(keys, &done) : NULL;
    kept->values = floats(values, &done);
    kept->own_values = model->value_residual && layer ? floats(values, &done) : NULL;
    kept->attention = floats(count * model->num_heads * learning->length, &done);
    kept->heads = floats(count * model->num_heads * model->value_dim, &done);
    kept->up = floats(inner, &done);
    kept->inner = floats(inner, &done);
    kept->gate = is_modern ? floats(inner, &done) : NULL;
    kept->activated = is_modern ? floats(inner, &done) : NULL;
    return done;
}

/* Positions, and with rotary positions the cosines and sines. */
static bool open_spans(Learning *learning)
{
    const Model *model = learning->model;
    uint32_t *positions = allocate((uint64_t)learning->count * 4);
    if (!positions)
        return false;
    for (uint32_t t = 0; t < learning->count; t++)
        positions[t] = t % learning->length;
    if (!make_span(&learning->span, model, positions, learning->count))
        return false;
    learning->back = learning->span;
    if (!learning->span.cosines)
        return true;
    uint64_t size = (uint64_t)learning->count * (model->head_dim / 2);
    float *sines = allocate(size * 4);
    for (uint64_t i = 0; sines && i < size; i++)
        sines[i] = -learning->span.sines[i];
    return learning->back.sines = sines;
}

bool open_passes(Learning *learning)
{
    const Model *model = learning->model;
    uint32_t count = learning->count, vocab_size = model->vocab_size;
    uint64_t size = (uint64_t)count * model->embed_dim;
    bool done = open_attention(learning) && open_spans(learning);
    x = floats(size, &done);
    y = floats(size, &done);
    dx = floats(size, &done);
    d_input = floats(size, &done);
    learning->last = floats(size, &done);
    learning->latents = floats(size, &done);
    logits = floats((uint64_t)LOGITS * vocab_size, &done);
    d_first = model->value_residual ? floats((uint64_t)count * model->num_kv_heads * model->value_dim, &done) : NULL;
    learning->kept = done ? allocate((uint64_t)model->num_layers * sizeof(Kept)) : NULL;
    if (!learning->kept)
        return false;
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        if (!open_kept(&learning->kept[layer], learning, layer))
            return false;
    return true;
}

/* The rows of tables whose sum is the embedding of a token: of the token, of its position if that is learned, of its n-grams. */
typedef struct {
    float *rows[2 + 8];
    uint32_t count;
} Embedded;

static Embedded embedded(const Learning *learning, uint32_t t)
{
    const Model *model = learning->model;
    const ModelCopy *copy = &learning->copy;
    uint32_t width = model->embed_dim, position = t % learning->length;
    Embedded found = {{copy->tokens + (uint64_t)learning->ids[t] * width}, 1};
    if (copy->positions)
        found.rows[found.count++] = copy->positions + (uint64_t)position * width;
    for (uint32_t i = 0; i < model->ngram_count; i++)
        if (position + 1 >= (uint32_t)model->ngrams[i])
            found.rows[found.count++] = copy->ngrams + (uint64_t)ngram_row(model, i, learning->ids + t) * width;
    return found;
}

static float token_scale(const Model *model)
{
    return model->scale_embeddings ? square_root((float)model->embed_dim) : 1.0f;
}

static void embed_windows(const Learning *learning)
{
    const Model *model = learning->model;
    uint32_t width = model->embed_dim;
    float scale = token_scale(model), *to = x;
    for (uint32_t t = 0; t < learning->count; t++, to += width) {
        Embedded found = embedded(learning, t);
        for (uint32_t i = 0; i < width; i++)
            to[i] = found.rows[0][i] * scale;
        for (uint32_t k = 1; k < found.count; k++)
            for (uint32_t i = 0; i < width; i++)
                to[i] += found.rows[k][i];
        if (model->position == SINUSOIDAL)
            for (uint32_t i = 0; i < width; i++)
                to[i] += model->positions[(uint64_t)(t % learning->length) * width + i];
    }
}

static void embed_backward(const Learning *learning)
{
    uint32_t width = learning->model->embed_dim;
    const float *from = dx;
    for (uint32_t t = 0; t < learning->count; t++, from += width) {
        Embedded found = embedded(learning, t);
        for (uint32_t k = 0; k < found.count; k++) {
            float *gradient = gradient_of(learning, found.rows[k]), scale = k ? 1.0f : token_scale(learning->model);
            for (uint32_t i = 0; i < width; i++)
                gradient[i] += from[i] * scale;
        }
    }
}

static void normalize_part(const Learning *learning, const Part *norm, const float *from, float *to)
{
    Norm weights = {norm->weight, norm->bias};
    normalize(learning->model, &weights, from, learning->count, to);
}

/* sublayer: 0 for attention, 1 for the feed-forward network. Replaces x by the output. */
static void run_sublayer(const Learning *learning, uint32_t layer, uint32_t sublayer)
{
    const BlockCopy *block = &learning->copy.blocks[layer];
    const Kept *kept = &learning->kept[layer];
    uint64_t size = (uint64_t)learning->count * learning->model->embed_dim;
    bool is_post_norm = learning->model->block == POST_NORM;
    memcpy(is_post_norm ? kept->normed[sublayer] : kept->summed[sublayer], x, size * 4);
    if (!is_post_norm)
        normalize_part(learning, &block->norms[sublayer], x, kept->normed[sublayer]);
    if (block->convolutions[sublayer])
        convolve_windows(learning, block->convolutions[sublayer], kept->normed[sublayer], kept->inputs[sublayer]);
    if (sublayer == 0)
        attend_windows(learning, block, kept, &learning->kept[0], y);
    else
        run_feed_forward(learning, block, kept, y);
    for (uint64_t i = 0; i < size; i++)
        x[i] += y[i];
    if (is_post_norm) {
        memcpy(kept->summed[sublayer], x, size * 4);
        normalize_part(learning, &block->norms[sublayer], kept->summed[sublayer], x);
    }
}

/* Replaces dx, the gradients of the outputs, by those of the inputs. */
static void sublayer_backward(const Learning *learning, uint32_t layer, uint32_t sublayer)
{
    const Model *model = learning->model;
    const BlockCopy *block = &learning->copy.blocks[layer];
    const Kept *kept = &learning->kept[layer];
    uint64_t size = (uint64_t)learning->count * model->embed_dim;
    const Part *norm = &block->norms[sublayer];
    if (model->block == POST_NORM)
        normalize_backward(learning, norm, kept->summed[sublayer], dx, learning->count, model->embed_dim, dx);
    if (sublayer == 0)
        attend_backward(learning, block, kept, &learning->kept[0], dx, d_first, d_input);
    else
        feed_forward_backward(learning, block, kept, dx, d_input);
    if (block->convolutions[sublayer]) {
        memcpy(y, d_input, size * 4);
        convolve_backward(learning, block->convolutions[sublayer], kept->normed[sublayer], y, d_input);
    }
    if (model->block != POST_NORM)
        normalize_backward(learning, norm, kept->summed[sublayer], d_input, learning->count, model->embed_dim, d_input);
    for (uint64_t i = 0; i < size; i++)
        dx[i] += d_input[i];
}

/* Replaces logits by their gradients: softmax - 1 at the target, divided by the number of tokens. Returns the cross-entropy. */
static double compute_loss(float *scores, uint32_t vocab_size, int32_t target, uint32_t count)
{
    double score = scores[target], largest = scores[0], sum = 0;
    for (uint32_t i = 1; i < vocab_size; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    for (uint32_t i = 0; i < vocab_size; i++)
        scores[i] -= (float)largest;
    uint32_t i = 0;
    for (; i + 4 <= vocab_size; i += 4)
        store4(scores + i, exp4(load4(scores + i)));
    for (; i < vocab_size; i++)
        scores[i] = exp1(scores[i]);
    for (i = 0; i < vocab_size; i++)
        sum += scores[i];
    float inverse = (float)(1 / sum / count);
    for (i = 0; i < vocab_size; i++)
        scores[i] *= inverse;
    scores[target] -= 1.0f / (float)count;
    return logarithm(sum) + largest - score;
}

/* Computes the mean loss, and the gradients of the latents. */
static double run_head(const Learning *learning)
{
    const Model *model = learning->model;
    uint32_t width = model->embed_dim, vocab_size = model->vocab_size;
    double sum = 0;
    for (uint32_t first = 0; first < learning->count; first += LOGITS) {
        uint32_t part = learning->count - first < LOGITS ? learning->count - first : LOGITS;
        const float *latents = learning->latents + (uint64_t)first * width;
        apply_part(&learning->copy.head, latents, part, width, vocab_size, logits);
        for (uint32_t t = 0; t < part; t++)
            sum += compute_loss(logits + (uint64_t)t * vocab_size, vocab_size, learning->targets[first + t], learning->count);
        apply_part_backward(learning, &learning->copy.head, latents, logits, part, width, vocab_size,
            dx + (uint64_t)first * width, false);
    }
    return sum / learning->count;
}

double compute_gradients(Learning *learning)
{
    const Model *model = learning->model;
    uint64_t bytes = (uint64_t)learning->count * model->embed_dim * 4;
    memset(learning->gradients, 0, learning->size * 4);
    if (d_first)
        memset(d_first, 0, (uint64_t)learning->count * model->num_kv_heads * model->value_dim * 4);
    embed_windows(learning);
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        run_sublayer(learning, layer, 0);
        run_sublayer(learning, layer, 1);
    }
    memcpy(learning->last, x, bytes);
    if (model->block == POST_NORM)
        memcpy(learning->latents, x, bytes);
    else
        normalize_part(learning, &learning->copy.final_norm, x, learning->latents);
    double loss = run_head(learning);
    if (model->block != POST_NORM)
        normalize_backward(learning, &learning->copy.final_norm, learning->last, dx, learning->count, model->embed_dim, dx);
    for (uint32_t layer = model->num_layers; layer--;) {
        sublayer_backward(learning, layer, 1);
        sublayer_backward(learning, layer, 0);
    }
    embed_backward(learning);
    return loss;
}
