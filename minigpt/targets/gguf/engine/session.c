/* The open file: its model, its tokenizer, and the memory behind them. */
#include "session.h"

#include "tokenizer_tables.h"

static Gguf file;
static Model model;
static Tokenizer tokenizer;
static bool is_open;
static uint32_t text_mark; /* the memory before the texts */

bool open_session(const uint8_t *data, uint32_t size)
{
    uint32_t format;
    is_open = false;
    if (!read_gguf(&file, data, size) || !get_uint32(&file, "minigpt.format", &format))
        return false;
    if (format != 1)
        return fail("minigpt.format: should be 1; another version of minigpt wrote this file", NULL);
    is_open = read_model(&model, &file) && read_tokenizer(&tokenizer, &file, model.vocab_size);
    return is_open;
}

void close_session(void)
{
    is_open = false;
}

/* Returns a `Value`, or NULL: how the host reads the keys of the file. */
EXPORT("find_key") const Value *find_key(const char *name, uint32_t size)
{
    return find_value(&file, name, size);
}

/* Returns the number of weights in the file. */
EXPORT("weight_count") uint32_t weight_count(void)
{
    uint32_t count = 0;
    for (const Tensor *tensor = file.tensors; tensor < file.tensors + file.tensor_count; tensor++) {
        uint64_t size = 1;
        for (uint32_t d = 0; d < tensor->dimensions; d++)
            size *= tensor->shape[d];
        count += (uint32_t)size;
    }
    return count;
}

/* Encodes UTF-8 text. Returns NULL after an error. */
EXPORT("encode_text") const Encoded *encode_text(const uint8_t *utf8, uint32_t size)
{
    static Encoded encoded;
    return is_open && encode(&tokenizer, utf8, size, &encoded) ? &encoded : NULL;
}

/* Leaves out heads and blocks of a GPT from now on; those that were left out before are back. heads: layer * H + head. A block that
   is left out returns its input; others still mix its values with theirs. A text that was read before must be started again. */
EXPORT("leave_out") bool leave_out(const int32_t *heads, uint32_t head_count, const int32_t *layers, uint32_t layer_count)
{
    if (!is_open || model.kind != GPT)
        return fail("only heads and layers of a GPT can be left out", NULL);
    for (uint32_t i = 0; i < head_count; i++)
        if (heads[i] < 0 || (uint32_t)heads[i] >= model.num_layers * model.num_heads)
            return fail("there is no such head", NULL);
    for (uint32_t i = 0; i < layer_count; i++)
        if (layers[i] < 0 || (uint32_t)layers[i] >= model.num_layers)
            return fail("there is no such layer", NULL);
    for (uint32_t layer = 0; layer < model.num_layers; layer++) {
        Block *block = &model.blocks[layer];
        block->is_off = false;
        memset(block->attention.is_off, 0, model.num_heads);
    }
    for (uint32_t i = 0; i < head_count; i++)
        model.blocks[(uint32_t)heads[i] / model.num_heads].attention.is_off[(uint32_t)heads[i] % model.num_heads] = true;
    for (uint32_t i = 0; i < layer_count; i++)
        model.blocks[layers[i]].is_off = true;
    return true;
}

const Model *open_model(void)
{
    if (!is_open)
        fail("no file is open", NULL);
    return is_open ? &model : NULL;
}

const Gguf *open_gguf(void)
{
    return &file;
}

bool are_tokens(const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= model.vocab_size)
            return fail("a token is outside the vocabulary", NULL);
    return true;
}

int32_t end_token(void)
{
    return (int32_t)tokenizer.end_id;
}

int32_t start_token(void)
{
    return (int32_t)tokenizer.start_id;
}

void ban_undrawable(float *biases)
{
    memset(biases, 0, (uint64_t)model.vocab_size * 4);
    for (uint32_t i = 0; i < tokenizer.undrawable_count; i++)
        biases[tokenizer.undrawable_ids[i]] = -__builtin_inff();
    for (uint32_t i = tokenizer.vocab_size; i < model.vocab_size; i++)
        biases[i] = -__builtin_inff();
}

void keep_memory(void)
{
    text_mark = memory_mark();
}

uint32_t kept_memory(void)
{
    return text_mark;
}

void release_texts(void)
{
    release_to(text_mark);
}
