/* How a token was chosen: attention weights, and what the head makes of the output of each block (the logit lens). */
#include "choices.h"
#include "forward.h"
#include "parts.h"
#include "session.h"

typedef struct {
    const float *attention; /* [L, H, stride] */
    const float *cross;     /* [L, H, source_length]; NULL in a GPT */
    const Choice *lens;     /* [L] */
    uint32_t stride, source_length;
} Inspection;

static const int32_t *inspected;
static uint32_t inspected_count;
static Context context;
static Watch watch;
static float *latents, *logits;
static Choice *lens;
static uint32_t prepared; /* the memory that `inspect` may use begins here */

void end_inspection(void)
{
    inspected_count = 0;
}

/* Prepares the inspection of a text, and of its source in an encoder-decoder. The host frees earlier texts by `finish`, and
   writes these before; they stay until it calls `finish` again. */
EXPORT("open_inspection")
bool open_inspection(const int32_t *ids, uint32_t count, const int32_t *source, uint32_t source_count)
{
    const Model *model = open_model();
    inspected_count = 0;
    if (!model || !are_tokens(ids, count) || !are_tokens(source, source_count))
        return false;
    if (count == 0 || count > model->max_len || source_count > model->max_len
        || (source_count > 0) != (model->kind == ENCODER_DECODER))
        return fail("a text has too many tokens, or none", NULL);
    uint64_t heads = (uint64_t)model->num_layers * model->num_heads;
    latents = allocate((uint64_t)count * model->embed_dim * 4);
    logits = allocate((uint64_t)model->vocab_size * 4);
    lens = allocate(model->num_layers * sizeof(Choice));
    watch = (Watch){
        .attention = allocate(heads * count * 4),
        .cross = source_count ? allocate(heads * source_count * 4) : NULL,
        .latents = allocate((uint64_t)model->num_layers * model->embed_dim * 4),
    };
    if (!latents || !logits || !lens || !watch.attention || (source_count && !watch.cross) || !watch.latents)
        return false;
    if (!open_context(&context, model, count) || (source_count && !encode_source(&context, model, source, source_count)))
        return false;
    prepared = memory_mark();
    inspected = ids;
    inspected_count = count;
    return true;
}

/* Inspects how the token after `position` is chosen. chosen: that token, or a negative number. Positions can be inspected in any
   order; one after the other is fastest, because each token is then read once. Returns NULL after an error. */
EXPORT("inspect") const Inspection *inspect(uint32_t position, int32_t chosen)
{
    static Inspection inspection;
    const Model *model = open_model();
    if (!model || position >= inspected_count || (chosen >= 0 && !are_tokens(&chosen, 1))) {
        fail("a token is outside the inspected text", NULL);
        return NULL;
    }
    release_to(prepared);
    /* The cache of the tokens before stays valid. */
    if (context.length > position)
        context.length = position;
    uint32_t width = model->embed_dim, unread = position - context.length;
    context.watch = NULL;
    if (unread && !read_tokens(&context, model, inspected + context.length, unread, latents))
        return NULL;
    context.watch = &watch;
    if (!read_tokens(&context, model, inspected + position, 1, latents))
        return NULL;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        memcpy(latents, watch.latents + (uint64_t)layer * width, (uint64_t)width * 4);
        normalize_outputs(model, 1, latents);
        if (!compute_logits(model, latents, 1, logits))
            return NULL;
        describe_choice(logits, model->vocab_size, chosen, &lens[layer]);
    }
    inspection = (Inspection){watch.attention, watch.cross, lens, context.capacity, context.source_length};
    return &inspection;
}
