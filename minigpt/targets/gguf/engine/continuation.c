/* The text that is continued or translated alone. */
#include "choices.h"
#include "parts.h"
#include "session.h"
#include "text.h"

static const Model *model;    /* NULL if no file is open */
static Text text = {.settings = NEUTRAL_SETTINGS};
static float *bias;           /* [V] */
static float *latents, *logits;
static float *model_logits;   /* [V], before penalties and bans */
static bool is_recording;
static Choice choice;         /* of the newest token */

bool open_continuation(void)
{
    const Model *opened = open_model();
    if (!opened)
        return false;
    bias = allocate((uint64_t)opened->vocab_size * 4);
    text.seen = allocate(opened->vocab_size);
    latents = allocate((uint64_t)opened->embed_dim * 4);
    logits = allocate((uint64_t)opened->vocab_size * 4);
    model_logits = allocate((uint64_t)opened->vocab_size * 4);
    text.bias = bias;
    if (!bias || !text.seen || !latents || !logits || !model_logits)
        return false;
    model = opened;
    return true;
}

void end_continuation(void)
{
    text.token_count = text.new_count = text.limit = 0;
}

void close_continuation(void)
{
    model = NULL;
    end_continuation();
}

EXPORT("set_sampling") void set_sampling(SAMPLING_PARAMETERS)
{
    text.settings = (SamplingSettings)SAMPLING_ARGUMENTS;
}

/* Sets the tokens that are never generated, besides those that the tokenizer names. */
EXPORT("set_banned") bool set_banned(const int32_t *ids, uint32_t count)
{
    if (!model || !are_tokens(ids, count))
        return false;
    ban_undrawable(bias);
    for (uint32_t i = 0; i < count; i++)
        bias[ids[i]] = -__builtin_inff();
    return true;
}

/* Reads tokens from a position on, in the parts that the memory for latents allows; keeps the latents of the last one. */
static bool read_all(const int32_t *ids, uint32_t count)
{
    enum { PART = 256 };
    uint32_t mark = memory_mark();
    float *part = allocate((uint64_t)(count < PART ? count : PART) * model->embed_dim * 4);
    if (!part)
        return false;
    for (uint32_t t = 0; t < count; t += PART) {
        uint32_t size = count - t < PART ? count - t : PART;
        if (!read_tokens(&text.context, model, ids + t, size, part))
            return false;
        memcpy(latents, part + (uint64_t)(size - 1) * model->embed_dim, (uint64_t)model->embed_dim * 4);
    }
    release_to(mark);
    return true;
}

/* Takes the memory for a text that begins with `first` tokens and grows by up to max_new_tokens. */
static bool open_text(uint64_t first, uint32_t max_new_tokens)
{
    uint64_t most = first + max_new_tokens;
    text.token_count = text.new_count = text.limit = 0;
    if (most > UINT32_MAX / 8)
        return fail("out of memory", NULL);
    text.tokens = allocate(most * 4);
    if (!text.tokens || !open_context(&text.context, model, most < model->max_len ? (uint32_t)most : model->max_len))
        return false;
    text.limit = max_new_tokens;
    text.has_ended = false;
    memset(text.seen, 0, model->vocab_size);
    return true;
}

/* Starts the continuation of a text: a prompt, and `added` tokens of an earlier continuation of it. An empty prompt starts a
   document: after an end token. */
EXPORT("start") bool start(const int32_t *ids, uint32_t count, uint32_t added, uint32_t max_new_tokens)
{
    if (!model || model->kind != GPT)
        return fail("this model does not continue text", NULL);
    if (added > count || added > max_new_tokens)
        return fail("a text has more new tokens than it may have", NULL);
    if (!are_tokens(ids, count) || !open_text((uint64_t)count - added + 1, max_new_tokens))
        return false;
    if (count == added)
        text.tokens[text.token_count++] = end_token();
    memcpy(text.tokens + text.token_count, ids, (size_t)count * 4);
    text.token_count += count;
    text.new_count = added;
    for (uint32_t i = 0; i < count; i++)
        text.seen[ids[i]] = true;
    return true;
}

/* Starts the translation of a source, end token included. */
EXPORT("start_translation") bool start_translation(const int32_t *ids, uint32_t count, uint32_t max_new_tokens)
{
    if (!model || model->kind != ENCODER_DECODER)
        return fail("this model does not translate", NULL);
    if (count == 0 || count > model->max_len)
        return fail("a source has too many tokens, or none", NULL);
    uint32_t most = max_new_tokens < model->max_len ? max_new_tokens : model->max_len;
    if (!are_tokens(ids, count) || !open_text(1, most))
        return false;
    text.tokens[text.token_count++] = start_token();
    return encode_source(&text.context, model, ids, count);
}

/* Computes the logits after the last token. */
static bool next_logits(void)
{
    uint32_t count;
    const int32_t *unread = unread_tokens(&text, model, &count);
    if (!read_all(unread, count))
        return false;
    if (!compute_logits(model, latents, 1, logits))
        return false;
    if (is_recording)
        memcpy(model_logits, logits, (uint64_t)model->vocab_size * 4);
    return true;
}

/* Turns the recording of choices on or off. */
EXPORT("set_recording") void set_recording(bool on)
{
    is_recording = on;
}

/* Returns how the newest token was chosen, if choices are recorded. */
EXPORT("newest_choice") const Choice *newest_choice(void)
{
    return &choice;
}

/* Adds a token, the end token too. */
static void add_chosen(int32_t token)
{
    if (is_recording)
        describe_choice(model_logits, model->vocab_size, token, &choice);
    add_token(&text, model, end_token(), token);
}

/* Adds up to `count` tokens, until the end token or max_new_tokens. Returns how many; -1 after an error. */
EXPORT("add_tokens") int32_t add_tokens(uint32_t count)
{
    int32_t added = 0;
    for (; count && is_open_ended(&text); count--) {
        if (!next_logits())
            return -1;
        int32_t token = choose_token(&text, model, end_token(), logits);
        if (token < 0)
            return -1;
        add_chosen(token);
        added += !text.has_ended;
    }
    return added;
}

/* Returns the logits from which the next token is drawn: [V], after penalties and bans; NULL after an error. The caller may change
   them before `add_drawn`. */
EXPORT("adjusted_logits") float *adjusted_logits(void)
{
    if (!model || model->kind != GPT || !is_open_ended(&text)) {
        fail("there is no text that can be continued", NULL);
        return NULL;
    }
    if (!next_logits())
        return NULL;
    adjust_logits(&text, model, logits);
    return logits;
}

/* Draws a token from the logits that `adjusted_logits` has returned, not all of them -inf, and adds it. Returns how many tokens were
   added: 0 if it is the end token; -1 after an error. */
EXPORT("add_drawn") int32_t add_drawn(void)
{
    int32_t token = draw_token(logits, model->vocab_size, &text.settings, (int32_t)text.new_count);
    if (token < 0)
        return -1;
    add_chosen(token);
    return !text.has_ended;
}

/* How the next token would be drawn. */
typedef struct {
    float drawn; /* the random number, in [0, 1) */
    const Place *places;
} Draw;

/* Returns the random number for the next token of a text, and the places of some tokens. The text must be started again afterwards.
   Returns NULL after an error. */
EXPORT("describe_draw") const Draw *describe_draw(const int32_t *ids, uint32_t count)
{
    static Draw draw;
    if (!model || !is_open_ended(&text) || !are_tokens(ids, count)) {
        fail("there is no text that can be continued", NULL);
        return NULL;
    }
    Place *places = allocate((uint64_t)count * sizeof(Place));
    if (!places || !next_logits())
        return NULL;
    adjust_logits(&text, model, logits);
    if (!place_tokens(logits, model->vocab_size, &text.settings, ids, count, places))
        return NULL;
    draw = (Draw){uniform(text.settings.seed, (int32_t)text.new_count), places};
    return &draw;
}

/* Returns the end of the tokens: the newest one is before it. */
EXPORT("new_tokens_end") const int32_t *new_tokens_end(void)
{
    return text.tokens + text.token_count;
}
