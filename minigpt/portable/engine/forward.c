/* The passes of a GPT, an encoder and a decoder: the same blocks in the same order as in minigpt/models. */
#include "layers.h"

/* Tokens that are computed together: more of them read the weights less often, but need more memory. */
enum { SPAN = 64 };

static bool open_caches(Cache **caches, const Model *model, uint32_t capacity)
{
    *caches = allocate((uint64_t)model->num_layers * sizeof(Cache));
    if (!*caches)
        return false;
    uint64_t vectors = (uint64_t)model->num_kv_heads * capacity;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        Cache *cache = &(*caches)[layer];
        cache->keys = allocate(vectors * model->head_dim * 4);
        cache->values = allocate(vectors * model->value_dim * 4);
        if (!cache->keys || !cache->values)
            return false;
    }
    return true;
}

bool open_context(Context *context, const Model *model, uint32_t capacity)
{
    *context = (Context){.capacity = capacity};
    return open_caches(&context->caches, model, capacity);
}

/* The input of a sublayer: normalized, except in a post-norm block. */
static const float *sublayer_input(const Model *model, const Norm *norm, const float *x, uint32_t count, float *buffer)
{
    if (model->block == POST_NORM)
        return x;
    normalize(model, norm, x, count, buffer);
    return buffer;
}

/* x = x + y, normalized in a post-norm block. */
static void add_residual(const Model *model, const Norm *norm, float *x, const float *y, uint32_t count)
{
    uint64_t size = (uint64_t)count * model->embed_dim;
    for (uint64_t i = 0; i < size; i++)
        x[i] += y[i];
    if (model->block == POST_NORM)
        normalize(model, norm, x, count, x);
}

/* What a block shows of its last token; see `Watch`. */
typedef struct {
    float *attention, *cross, *latents;
} WatchedBlock;

/* source: keys and values of the encoded source, NULL in a GPT and in the encoder. */
static bool run_block(const Model *model, const Block *block, const Span *span, bool is_causal, Cache *cache, uint32_t capacity,
    const Cache *source, uint32_t source_length, WatchedBlock watched, float *x)
{
    uint32_t mark = memory_mark(), count = span->count;
    uint64_t bytes = (uint64_t)count * model->embed_dim * 4;
    float *buffer = allocate(bytes), *y = allocate(bytes);
    if (!buffer || !y)
        return false;
    const float *input = sublayer_input(model, &block->attention.norm, x, count, buffer);
    if (!write_keys_and_values(model, &block->attention, input, span, true, cache, capacity)
        || !attend(model, &block->attention, input, span, true, is_causal, span->first + count, cache, capacity,
            watched.attention, y))
        return false;
    add_residual(model, &block->attention.norm, x, y, count);
    if (source) {
        input = sublayer_input(model, &block->cross.norm, x, count, buffer);
        if (!attend(model, &block->cross, input, span, false, false, source_length, source, source_length,
                watched.cross, y))
            return false;
        add_residual(model, &block->cross.norm, x, y, count);
    }
    input = sublayer_input(model, &block->ff_norm, x, count, buffer);
    if (!feed_forward(model, block, input, count, y))
        return false;
    add_residual(model, &block->ff_norm, x, y, count);
    if (watched.latents)
        memcpy(watched.latents, x + (uint64_t)(count - 1) * model->embed_dim, (uint64_t)model->embed_dim * 4);
    release_to(mark);
    return true;
}

bool encode_source(Context *context, const Model *model, const int32_t *ids, uint32_t source_length)
{
    if (!open_caches(&context->sources, model, source_length))
        return false;
    context->source_length = source_length;
    uint32_t mark = memory_mark();
    Span span;
    Cache *caches;
    float *x = allocate((uint64_t)source_length * model->embed_dim * 4);
    if (!x || !make_span(&span, model, 0, source_length) || !open_caches(&caches, model, source_length))
        return false;
    embed(model, ids, &span, x);
    WatchedBlock unwatched = {0};
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        if (!run_block(model, &model->encoder_blocks[layer], &span, false, &caches[layer], source_length, NULL, 0, unwatched, x))
            return false;
    if (model->block != POST_NORM)
        normalize(model, &model->encoder_norm, x, source_length, x);
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        if (!write_keys_and_values(
                model, &model->blocks[layer].cross, x, &span, false, &context->sources[layer], source_length))
            return false;
    release_to(mark);
    return true;
}

static WatchedBlock watched_block(const Context *context, const Model *model, uint32_t layer)
{
    WatchedBlock watched = {0};
    const Watch *watch = context->watch;
    if (watch) {
        uint64_t heads = (uint64_t)layer * model->num_heads;
        watched.attention = watch->attention + heads * context->capacity;
        watched.cross = watch->cross ? watch->cross + heads * context->source_length : NULL;
        watched.latents = watch->latents + (uint64_t)layer * model->embed_dim;
    }
    return watched;
}

static bool read_span(Context *context, const Model *model, const int32_t *ids, uint32_t count, float *x)
{
    uint32_t mark = memory_mark();
    Span span;
    if (!make_span(&span, model, context->length, count))
        return false;
    embed(model, ids, &span, x);
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        const Cache *source = context->sources ? &context->sources[layer] : NULL;
        if (!run_block(model, &model->blocks[layer], &span, true, &context->caches[layer], context->capacity, source,
                context->source_length, watched_block(context, model, layer), x))
            return false;
    }
    normalize_outputs(model, count, x);
    context->length += count;
    release_to(mark);
    return true;
}

void normalize_outputs(const Model *model, uint32_t count, float *x)
{
    if (model->block != POST_NORM)
        normalize(model, &model->final_norm, x, count, x);
}

bool read_tokens(Context *context, const Model *model, const int32_t *ids, uint32_t count, float *latents)
{
    for (uint32_t t = 0; t < count; t += SPAN) {
        uint32_t part = count - t < SPAN ? count - t : SPAN;
        if (!read_span(context, model, ids + t, part, latents + (uint64_t)t * model->embed_dim))
            return false;
    }
    return true;
}

bool compute_logits(const Model *model, const float *latents, uint32_t count, float *logits)
{
    return apply_dense(&model->head, latents, count, logits);
}
