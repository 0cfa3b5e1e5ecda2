/* The functions that the host calls: open a file, encode text, continue it, score it, translate. */
#include "session.h"

#include "choices.h"
#include "forward.h"
#include "sampling.h"
#include "tokenizer_tables.h"

static Gguf file;
static Model model;
static Tokenizer tokenizer;
static bool is_open;

static SamplingSettings settings = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
static bool *banned;          /* [V] */
static bool everything_banned;

/* The text that is being continued. */
static Context context;
static int32_t *tokens;       /* the prompt and what was added */
static uint32_t token_count, new_count, limit;
static bool *seen;            /* [V] */
static float *latents, *logits;
static float *model_logits;   /* [V], before penalties and bans */
static bool is_recording;
static Choice choice;         /* of the newest token */
static bool has_ended;
static uint32_t text_mark;    /* the memory before the text */

/* Opens a portable file that the host wrote to memory from `allocate`. It stays there. */
EXPORT("open_file") bool open_file(const uint8_t *data, uint32_t size)
{
    uint32_t format;
    is_open = false;
    end_inspection();
    if (!read_gguf(&file, data, size) || !get_uint32(&file, "minigpt.format", &format))
        return false;
    if (format != 1)
        return fail("minigpt.format: should be 1; another version of minigpt wrote this file", NULL);
    if (!read_model(&model, &file) || !read_tokenizer(&tokenizer, &file, model.vocab_size))
        return false;
    banned = allocate(model.vocab_size);
    seen = allocate(model.vocab_size);
    latents = allocate((uint64_t)model.embed_dim * 4);
    logits = allocate((uint64_t)model.vocab_size * 4);
    model_logits = allocate((uint64_t)model.vocab_size * 4);
    if (!banned || !seen || !latents || !logits || !model_logits)
        return false;
    text_mark = memory_mark();
    return is_open = true;
}

/* Returns a `Value`, or NULL: how the host reads the keys of the file. */
EXPORT("find_key") const Value *find_key(const char *name, uint32_t size)
{
    return find_value(&file, name, size);
}

/* Encodes UTF-8 text. Returns NULL after an error. */
EXPORT("encode_text") const Encoded *encode_text(const uint8_t *text, uint32_t size)
{
    static Encoded encoded;
    return is_open && encode(&tokenizer, text, size, &encoded) ? &encoded : NULL;
}

EXPORT("set_sampling")
void set_sampling(float temperature, int32_t top_k, float top_p, float min_p, float repetition_penalty, int32_t seed)
{
    settings = (SamplingSettings){temperature, top_p, min_p, repetition_penalty, top_k, seed};
}

const Model *open_model(void)
{
    if (!is_open)
        fail("no file is open", NULL);
    return is_open ? &model : NULL;
}

bool are_tokens(const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= model.vocab_size)
            return fail("a token is outside the vocabulary", NULL);
    return true;
}

/* Sets the tokens that are never generated, besides those that the tokenizer names. */
EXPORT("set_banned") bool set_banned(const int32_t *ids, uint32_t count)
{
    if (!is_open || !are_tokens(ids, count))
        return false;
    memset(banned, 0, model.vocab_size);
    for (uint32_t i = 0; i < tokenizer.undrawable_count; i++)
        banned[tokenizer.undrawable_ids[i]] = true;
    for (uint32_t i = tokenizer.vocab_size; i < model.vocab_size; i++)
        banned[i] = true;
    for (uint32_t i = 0; i < count; i++)
        banned[ids[i]] = true;
    everything_banned = true;
    for (uint32_t i = 0; i < model.vocab_size; i++)
        everything_banned &= banned[i];
    return true;
}

/* Reads tokens from a position on, in the parts that the memory for latents allows; keeps the latents of the last one. */
static bool read_all(const int32_t *ids, uint32_t count)
{
    enum { PART = 256 };
    uint32_t mark = memory_mark();
    float *part = allocate((uint64_t)(count < PART ? count : PART) * model.embed_dim * 4);
    if (!part)
        return false;
    for (uint32_t t = 0; t < count; t += PART) {
        uint32_t size = count - t < PART ? count - t : PART;
        if (!read_tokens(&context, &model, ids + t, size, part))
            return false;
        memcpy(latents, part + (uint64_t)(size - 1) * model.embed_dim, (uint64_t)model.embed_dim * 4);
    }
    release_to(mark);
    return true;
}

/* Takes the memory for a text that begins with `first` tokens and grows by up to max_new_tokens. */
static bool open_text(uint64_t first, uint32_t max_new_tokens)
{
    uint64_t most = first + max_new_tokens;
    token_count = new_count = limit = 0;
    if (most > UINT32_MAX / 8)
        return fail("out of memory", NULL);
    tokens = allocate(most * 4);
    if (!tokens || !open_context(&context, &model, most < model.max_len ? (uint32_t)most : model.max_len))
        return false;
    limit = max_new_tokens;
    has_ended = false;
    memset(seen, 0, model.vocab_size);
    return true;
}

/* Starts the continuation of a text: a prompt, and `added` tokens of an earlier continuation of it. An empty prompt starts a
   document: after an end token. */
EXPORT("start") bool start(const int32_t *ids, uint32_t count, uint32_t added, uint32_t max_new_tokens)
{
    if (!is_open || model.kind != GPT)
        return fail("this model does not continue text", NULL);
    if (added > count || added > max_new_tokens)
        return fail("a text has more new tokens than it may have", NULL);
    if (!are_tokens(ids, count) || !open_text((uint64_t)count - added + 1, max_new_tokens))
        return false;
    if (count == added)
        tokens[token_count++] = (int32_t)tokenizer.end_id;
    memcpy(tokens + token_count, ids, (size_t)count * 4);
    token_count += count;
    new_count = added;
    for (uint32_t i = 0; i < count; i++)
        seen[ids[i]] = true;
    return true;
}

/* Starts the translation of a source, end token included. */
EXPORT("start_translation") bool start_translation(const int32_t *ids, uint32_t count, uint32_t max_new_tokens)
{
    if (!is_open || model.kind != ENCODER_DECODER)
        return fail("this model does not translate", NULL);
    if (count == 0 || count > model.max_len)
        return fail("a source has too many tokens, or none", NULL);
    uint32_t most = max_new_tokens < model.max_len ? max_new_tokens : model.max_len;
    if (!are_tokens(ids, count) || !open_text(1, most))
        return false;
    tokens[token_count++] = (int32_t)tokenizer.end_id;
    return encode_source(&context, &model, ids, count);
}

/* Computes the logits after the last token. Beyond the context, all positions shift with every token, so that no cached key stays
   valid: the newest max_len tokens are read again. */
static bool next_logits(void)
{
    if (token_count > model.max_len) {
        context.length = 0;
        if (!read_all(tokens + token_count - model.max_len, model.max_len))
            return false;
    } else if (!read_all(tokens + context.length, token_count - context.length)) {
        return false;
    }
    return compute_logits(&model, latents, 1, logits);
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

static int32_t choose(void)
{
    float penalty = settings.repetition_penalty > 0 ? settings.repetition_penalty : 1;
    for (uint32_t i = 0; i < model.vocab_size; i++) {
        if (banned[i])
            logits[i] = -__builtin_inff();
        else if (seen[i] && model.kind == GPT)
            logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
    }
    /* If every token is banned, the text ends. */
    if (everything_banned)
        return (int32_t)tokenizer.end_id;
    if (model.kind == ENCODER_DECODER)
        return (int32_t)most_probable(logits, model.vocab_size);
    return draw_token(logits, model.vocab_size, &settings, (int32_t)new_count);
}

/* Adds up to `count` tokens, until the end token or max_new_tokens. Returns how many; -1 after an error. */
EXPORT("add_tokens") int32_t add_tokens(uint32_t count)
{
    int32_t added = 0;
    for (; count && !has_ended && new_count < limit; count--) {
        if (!next_logits())
            return -1;
        if (is_recording)
            memcpy(model_logits, logits, (uint64_t)model.vocab_size * 4);
        int32_t token = choose();
        if (token < 0)
            return -1;
        if (is_recording)
            describe_choice(model_logits, model.vocab_size, token, &choice);
        has_ended = token == (int32_t)tokenizer.end_id;
        if (has_ended)
            break;
        tokens[token_count++] = token;
        new_count++;
        added++;
        seen[token] = true;
    }
    return added;
}

/* Returns the end of the tokens: the newest one is before it. */
EXPORT("new_tokens_end") const int32_t *new_tokens_end(void)
{
    return tokens + token_count;
}

/* Ends a text or an inspection: its memory is free for the next one. */
EXPORT("finish") void finish(void)
{
    release_to(text_mark);
    token_count = new_count = limit = 0;
    end_inspection();
}

/* Scores every next token of a text: [count, V], NULL after an error. The text must be finished afterwards. */
EXPORT("score") const float *score(const int32_t *ids, uint32_t count)
{
    if (!is_open || model.kind != GPT || count > model.max_len) {
        fail("a text has more tokens than the context", NULL);
        return NULL;
    }
    float *all = are_tokens(ids, count) ? allocate((uint64_t)count * model.embed_dim * 4) : NULL;
    float *scores = all ? allocate((uint64_t)count * model.vocab_size * 4) : NULL;
    if (!scores || !open_context(&context, &model, count) || !read_tokens(&context, &model, ids, count, all))
        return NULL;
    return compute_logits(&model, all, count, scores) ? scores : NULL;
}
