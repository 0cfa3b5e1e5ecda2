/* The passes of a GPT, an encoder and a decoder: the same blocks in the same order as in minigpt/models. */
#include "layers.h"

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
        for (uint32_t i = 0; model->taps && i < 2; i++)
            if (!(cache->inputs[i] = allocate((uint64_t)capacity * model->embed_dim * 4)))
                return false;
    }
    return true;
}

bool open_context(Context *context, const Model *model, uint32_t capacity)
{
    *context = (Context){.capacity = capacity};
    if (model->ngram_count && !(context->ids = allocate((uint64_t)capacity * 4)))
        return false;
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

/* sources: the encoded source of each token; NULL in a GPT and in the encoder. */
static bool run_block(const Model *model, const Block *block, const Span *span, const Target *targets, const Target *sources,
    WatchedBlock watched, float *x)
{
    uint32_t mark = memory_mark(), count = span->count;
    uint64_t bytes = (uint64_t)count * model->embed_dim * 4;
    float *buffer = allocate(bytes), *y = allocate(bytes), *sums = allocate(model->taps ? bytes : 0);
    if (!buffer || !y || !sums)
        return false;
    const float *input = sublayer_input(model, &block->attention.norm, x, count, buffer);
    input = convolve(model, block, 0, input, span, targets, sums);
    if (!write_keys_and_values(model, &block->attention, input, span, true, targets))
        return false;
    if (!block->is_off) {
        if (!attend(model, &block->attention, input, span, true, targets, watched.attention, y))
            return false;
        add_residual(model, &block->attention.norm, x, y, count);
        if (sources) {
            input = sublayer_input(model, &block->cross.norm, x, count, buffer);
            if (!attend(model, &block->cross, input, span, false, sources, watched.cross, y))
                return false;
            add_residual(model, &block->cross.norm, x, y, count);
        }
        input = sublayer_input(model, &block->ff_norm, x, count, buffer);
        input = convolve(model, block, 1, input, span, targets, sums);
        if (!feed_forward(model, block, input, count, y))
            return false;
        add_residual(model, &block->ff_norm, x, y, count);
    }
    if (watched.latents)
        memcpy(watched.latents, x + (uint64_t)(count - 1) * model->embed_dim, (uint64_t)model->embed_dim * 4);
    release_to(mark);
    return true;
}

/* Every token attends to all of a cache. */
static void set_targets(Target *targets, uint32_t count, const Cache *cache, uint32_t capacity)
{
    for (uint32_t t = 0; t < count; t++)
        targets[t] = (Target){.cache = cache, .capacity = capacity, .visible = capacity};
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
    uint32_t *positions = allocate((uint64_t)source_length * 4);
    Target *targets = allocate((uint64_t)source_length * sizeof(Target));
    if (!x || !positions || !targets || !open_caches(&caches, model, source_length))
        return false;
    for (uint32_t t = 0; t < source_length; t++)
        positions[t] = t;
    if (!make_span(&span, model, positions, source_length))
        return false;
    embed(model, ids, &span, x);
    WatchedBlock unwatched = {0};
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        set_targets(targets, source_length, &caches[layer], source_length);
        if (!run_block(model, &model->encoder_blocks[layer], &span, targets, NULL, unwatched, x))
            return false;
    }
    if (model->block != POST_NORM)
        normalize(model, &model->encoder_norm, x, source_length, x);
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        set_targets(targets, source_length, &context->sources[layer], source_length);
        if (!write_keys_and_values(model, &model->blocks[layer].cross, x, &span, false, targets))
            return false;
    }
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

static bool compute_rows(
    Context *const *contexts, const Model *model, const int32_t *ids, const uint32_t *positions, uint32_t count, float *x)
{
    bool has_sources = model->kind == ENCODER_DECODER;
    Span span;
    Target *targets = allocate((uint64_t)count * sizeof(Target));
    Target *sources = has_sources ? allocate((uint64_t)count * sizeof(Target)) : NULL;
    if (!targets || (has_sources && !sources) || !make_span(&span, model, positions, count))
        return false;
    embed(model, ids, &span, x);
    if (model->ngram_count && !add_ngrams(model, contexts, ids, &span, x))
        return false;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        for (uint32_t t = 0; t < count; t++) {
            const Context *context = contexts[t];
            targets[t] = (Target){&context->caches[layer], &context->caches[0], context->capacity, positions[t] + 1};
            if (has_sources)
                sources[t] = (Target){
                    &context->sources[layer], NULL, context->source_length, context->source_length};
        }
        WatchedBlock watched = watched_block(contexts[count - 1], model, layer);
        if (!run_block(model, &model->blocks[layer], &span, targets, sources, watched, x))
            return false;
    }
    normalize_outputs(model, count, x);
    return true;
}

bool read_together(Context *const *contexts, const Model *model, const int32_t *ids, uint32_t count, float *latents)
{
    uint32_t mark = memory_mark(), *positions = allocate((uint64_t)count * 4);
    if (!positions)
        return false;
    for (uint32_t t = 0; t < count; t++)
        positions[t] = contexts[t]->length++;
    bool done = compute_rows(contexts, model, ids, positions, count, latents);
    if (!done)
        for (uint32_t t = 0; t < count; t++)
            contexts[t]->length--;
    release_to(mark);
    return done;
}

void normalize_outputs(const Model *model, uint32_t count, float *x)
{
    if (model->block != POST_NORM)
        normalize(model, &model->final_norm, x, count, x);
}

bool read_tokens(Context *context, const Model *model, const int32_t *ids, uint32_t count, float *latents)
{
    Context *contexts[SPAN];
    for (uint32_t t = 0; t < SPAN; t++)
        contexts[t] = context;
    for (uint32_t t = 0; t < count; t += SPAN) {
        uint32_t part = count - t < SPAN ? count - t : SPAN;
        if (!read_together(contexts, model, ids + t, part, latents + (uint64_t)t * model->embed_dim))
            return false;
    }
    return true;
}

bool compute_logits(const Model *model, const float *latents, uint32_t count, float *logits)
{
    return apply_dense(&model->head, latents, count, logits);
}
