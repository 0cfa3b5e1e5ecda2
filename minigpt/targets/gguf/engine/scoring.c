/* What the model computes of a whole text: scores of its tokens, how probable they are, and the mean of its latents. */
#include "choices.h"
#include "forward.h"
#include "session.h"

/* Returns the latents of a text, [count, D]; NULL after `fail`. */
static float *read_text(const Model *model, const int32_t *ids, uint32_t count)
{
    Context context;
    if (!model || model->kind != GPT || count > model->max_len) {
        fail("a text has more tokens than the context", NULL);
        return NULL;
    }
    float *latents = are_tokens(ids, count) ? allocate((uint64_t)count * model->embed_dim * 4) : NULL;
    if (!latents || !open_context(&context, model, count) || !read_tokens(&context, model, ids, count, latents))
        return NULL;
    return latents;
}

/* Scores every next token of a text: [count, V], NULL after an error. The text must be finished afterwards. */
EXPORT("score") const float *score(const int32_t *ids, uint32_t count)
{
    const Model *model = open_model();
    float *latents = read_text(model, ids, count);
    float *scores = latents ? allocate((uint64_t)count * model->vocab_size * 4) : NULL;
    return scores && compute_logits(model, latents, count, scores) ? scores : NULL;
}

/* Returns for each token of a text how the next one would be chosen, [count], and how probable the one is that follows; NULL after
   an error. The text must be finished afterwards. */
EXPORT("describe_text") const Choice *describe_text(const int32_t *ids, uint32_t count)
{
    const Model *model = open_model();
    float *latents = read_text(model, ids, count);
    Choice *found = latents ? allocate((uint64_t)count * sizeof(Choice)) : NULL;
    float *logits = found ? allocate((uint64_t)SPAN * model->vocab_size * 4) : NULL;
    if (!logits)
        return NULL;
    for (uint32_t first = 0; first < count; first += SPAN) {
        uint32_t part = count - first < SPAN ? count - first : SPAN;
        if (!compute_logits(model, latents + (uint64_t)first * model->embed_dim, part, logits))
            return NULL;
        for (uint32_t t = 0; t < part; t++) {
            int32_t next = first + t + 1 < count ? ids[first + t + 1] : -1;
            describe_choice(logits + (uint64_t)t * model->vocab_size, model->vocab_size, next, &found[first + t]);
        }
    }
    return found;
}

/* Returns the mean of the latents of a text of at least one token: [D], NULL after an error. The text must be finished
   afterwards. */
EXPORT("mean_latent") const float *mean_latent(const int32_t *ids, uint32_t count)
{
    const Model *model = open_model();
    float *latents = count ? read_text(model, ids, count) : NULL;
    if (!latents)
        return NULL;
    for (uint32_t i = 0; i < model->embed_dim; i++) {
        double sum = 0;
        for (uint32_t t = 0; t < count; t++)
            sum += latents[(uint64_t)t * model->embed_dim + i];
        latents[i] = (float)(sum / count);
    }
    return latents;
}
