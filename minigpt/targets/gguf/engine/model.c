/* Reading the description and the weights of a model. */
#include "model.h"

/* Sizes above this would overflow somewhere; no model has them. */
#define LARGEST_SIZE (1u << 30)

/* A prefix such as "blk.3." and the name that follows. */
typedef struct {
    char text[64];
    uint32_t prefix_size;
} Name;

static void append(Name *name, const char *text)
{
    while (*text && name->prefix_size < sizeof name->text - 1)
        name->text[name->prefix_size++] = *text++;
    name->text[name->prefix_size] = 0;
}

static Name block_name(const char *side, uint32_t layer)
{
    Name name = {{0}, 0};
    char digits[12];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + layer % 10);
    while (layer /= 10);
    append(&name, side);
    append(&name, "blk.");
    append(&name, digits + at);
    append(&name, ".");
    return name;
}

/* Returns prefix + text + suffix. The text stays until the next call. */
static const char *tensor_name(const Name *prefix, const char *text, const char *suffix)
{
    static Name name;
    name = *prefix;
    append(&name, text);
    append(&name, suffix);
    return name.text;
}

static const Name no_prefix = {{0}, 0};

static const float *read_vector(const Gguf *file, const char *name, uint64_t size)
{
    const uint8_t *data;
    return find_tensor(file, name, size, 0, &data) ? (const float *)data : NULL;
}

static bool read_bias(const float **bias, const Gguf *file, const char *name, uint64_t size)
{
    *bias = has_tensor(file, name) ? read_vector(file, name, size) : NULL;
    return *bias || !has_tensor(file, name);
}

static bool read_norm(Norm *norm, const Model *model, const Gguf *file, const Name *prefix, const char *text)
{
    norm->weight = read_vector(file, tensor_name(prefix, text, ".weight"), model->embed_dim);
    return norm->weight && read_bias(&norm->bias, file, tensor_name(prefix, text, ".bias"), model->embed_dim);
}

static bool read_dense(Dense *dense, const Gguf *file, const Name *prefix, const char *text, uint64_t columns, uint64_t rows)
{
    return read_matrix(&dense->weight, file, tensor_name(prefix, text, ".weight"), columns, rows)
        && read_bias(&dense->bias, file, tensor_name(prefix, text, ".bias"), rows);
}

/* Queries, keys and values in one matrix, as GPT-2 has them. */
static bool read_fused(Attention *attention, const Model *model, const Gguf *file, const Name *prefix)
{
    Dense *parts[] = {&attention->query, &attention->key, &attention->value};
    uint32_t sizes[] = {model->num_heads * model->head_dim, model->num_kv_heads * model->head_dim,
        model->num_kv_heads * model->value_dim};
    uint64_t rows = (uint64_t)sizes[0] + sizes[1] + sizes[2];
    const float *bias;
    if (!read_bias(&bias, file, tensor_name(prefix, "qkv", ".bias"), rows))
        return false;
    for (uint32_t i = 0, first = 0; i < 3; first += sizes[i++]) {
        const char *name = tensor_name(prefix, "qkv", ".weight");
        if (!read_rows(&parts[i]->weight, file, name, model->embed_dim, rows, first, sizes[i]))
            return false;
        parts[i]->bias = bias ? bias + first : NULL;
    }
    return true;
}

/* kind: "attn_" or "cross_attn_". */
static bool read_attention(Attention *attention, const Model *model, const Gguf *file, Name prefix, const char *kind)
{
    uint64_t queries = (uint64_t)model->num_heads * model->head_dim, keys = (uint64_t)model->num_kv_heads * model->head_dim;
    uint64_t values = (uint64_t)model->num_kv_heads * model->value_dim;
    uint64_t outputs = (uint64_t)model->num_heads * model->value_dim;
    append(&prefix, kind);
    if (has_tensor(file, tensor_name(&prefix, "qkv", ".weight"))) {
        if (!read_fused(attention, model, file, &prefix))
            return false;
    } else if (!read_dense(&attention->query, file, &prefix, "q", model->embed_dim, queries)
        || !read_dense(&attention->key, file, &prefix, "k", model->embed_dim, keys)
        || !read_dense(&attention->value, file, &prefix, "v", model->embed_dim, values)) {
        return false;
    }
    if (model->block == MODERN) {
        attention->query_norm = read_vector(file, tensor_name(&prefix, "q_norm", ".weight"), model->head_dim);
        attention->key_norm = read_vector(file, tensor_name(&prefix, "k_norm", ".weight"), model->head_dim);
        if (!attention->query_norm || !attention->key_norm)
            return false;
    }
    attention->is_off = allocate(model->num_heads);
    return attention->is_off && read_norm(&attention->norm, model, file, &prefix, "norm")
        && read_dense(&attention->output, file, &prefix, "output", outputs, model->embed_dim);
}

/* The mixed values and the convolutions of a block of a GPT, if it has them. */
static bool read_additions(Block *block, const Model *model, const Gguf *file, const Name *prefix, bool is_first)
{
    static const char *const names[] = {"attn_conv", "ffn_conv"};
    const char *mix = tensor_name(prefix, "attn_v_mix", ".weight");
    bool mixes = model->value_residual && !is_first;
    if (has_tensor(file, mix) && !mixes)
        return fail("the tensor ", mix, " has no use in this model", NULL);
    if (mixes && !(block->attention.value_mix = read_vector(file, mix, 1)))
        return false;
    for (uint32_t i = 0; model->taps && i < 2; i++) {
        const char *name = tensor_name(prefix, names[i], ".weight");
        if (!(block->convolutions[i] = read_vector(file, name, (uint64_t)model->taps * model->embed_dim)))
            return false;
    }
    return true;
}

static bool read_block(
    Block *block, const Model *model, const Gguf *file, const Name *prefix, bool has_cross, bool is_first)
{
    uint64_t width = model->embed_dim, inner = model->ff_dim;
    return (model->kind != GPT || read_additions(block, model, file, prefix, is_first))
        && read_attention(&block->attention, model, file, *prefix, "attn_")
        && (!has_cross || read_attention(&block->cross, model, file, *prefix, "cross_attn_"))
        && read_norm(&block->ff_norm, model, file, prefix, "ffn_norm")
        && (model->block != MODERN || read_dense(&block->gate, file, prefix, "ffn_gate", width, inner))
        && read_dense(&block->up, file, prefix, "ffn_up", width, inner)
        && read_dense(&block->down, file, prefix, "ffn_down", inner, width);
}

/* side: "", "enc." or "dec.". */
static bool read_side(Block **blocks, Norm *norm, const Model *model, const Gguf *file, const char *side, bool has_cross)
{
    *blocks = allocate((uint64_t)model->num_layers * sizeof(Block));
    if (!*blocks)
        return false;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        Name prefix = block_name(side, layer);
        if (!read_block(&(*blocks)[layer], model, file, &prefix, has_cross, layer == 0))
            return false;
    }
    Name prefix = no_prefix;
    append(&prefix, side);
    return model->block == POST_NORM || read_norm(norm, model, file, &prefix, "output_norm");
}

static bool read_description(Model *model, const Gguf *file)
{
    static const char *const kinds[] = {"gpt", "encoder_decoder", NULL};
    static const char *const blocks[] = {"post_norm", "pre_norm", "modern", NULL};
    static const char *const positions[] = {"learned", "sinusoidal", "rotary", NULL};
    static const char *const activations[] = {"relu", "gelu", "gelu_tanh", "silu", "relu_squared", NULL};
    /* All that is read here, in `read_positions` and in `read_additional_settings`. A model with more would be computed in another way. */
    static const char *const keys[] = {"kind", "block", "position", "activation", "vocab_size", "max_len", "embed_dim",
        "num_heads", "num_kv_heads", "head_dim", "value_dim", "ff_dim", "num_layers", "norm_epsilon", "scale_embeddings",
        "tie_embeddings", "rotary_frequencies", "value_residual", "convolution", "ngrams", "ngram_rows", NULL};
    if (!has_only_keys(file, "minigpt.model.", keys))
        return false;
    int kind = get_choice(file, "minigpt.model.kind", kinds), block = get_choice(file, "minigpt.model.block", blocks);
    int position = get_choice(file, "minigpt.model.position", positions);
    int activation = get_choice(file, "minigpt.model.activation", activations);
    if (kind < 0 || block < 0 || position < 0 || activation < 0)
        return false;
    model->kind = (ModelKind)kind;
    model->block = (BlockKind)block;
    model->position = (PositionKind)position;
    model->activation = (Activation)activation;
    const struct {
        const char *key;
        uint32_t *value;
    } sizes[] = {{"vocab_size", &model->vocab_size}, {"max_len", &model->max_len}, {"embed_dim", &model->embed_dim},
        {"num_heads", &model->num_heads}, {"num_kv_heads", &model->num_kv_heads}, {"head_dim", &model->head_dim},
        {"value_dim", &model->value_dim}, {"ff_dim", &model->ff_dim}, {"num_layers", &model->num_layers}};
    Name prefix = no_prefix;
    append(&prefix, "minigpt.model.");
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *key = tensor_name(&prefix, sizes[i].key, "");
        if (!get_uint32(file, key, sizes[i].value))
            return false;
        if (*sizes[i].value == 0 || *sizes[i].value > LARGEST_SIZE)
            return fail("the key ", key, " has an impossible value", NULL);
    }
    if (model->num_layers > 65536)
        return fail("the key minigpt.model.num_layers has an impossible value", NULL);
    if (model->num_heads % model->num_kv_heads)
        return fail("minigpt.model.num_kv_heads: should divide minigpt.model.num_heads", NULL);
    if (model->head_dim > UINT32_MAX / 4 / model->num_heads || model->value_dim > UINT32_MAX / 4 / model->num_heads)
        return fail("minigpt.model.num_heads has an impossible value", NULL);
    return get_float32(file, "minigpt.model.norm_epsilon", &model->norm_epsilon)
        && get_bool(file, "minigpt.model.scale_embeddings", &model->scale_embeddings)
        && get_bool(file, "minigpt.model.tie_embeddings", &model->tie_embeddings);
}

static bool read_positions(Model *model, const Gguf *file)
{
    const uint8_t *data;
    if (model->position != ROTARY) {
        const Tensor *table = find_tensor(file, "position_embd.weight", model->embed_dim, model->max_len, &data);
        if (table && table->type != TENSOR_F32)
            return fail("the tensor position_embd.weight has an unexpected type", NULL);
        model->positions = (const float *)data;
        return table;
    }
    uint32_t count;
    if (!get_array(file, "minigpt.model.rotary_frequencies", GGUF_FLOAT32, (const void **)&model->rotary_frequencies, &count))
        return false;
    return (model->head_dim % 2 == 0 && count == model->head_dim / 2)
        || fail("minigpt.model.rotary_frequencies has a wrong length", NULL);
}

/* The settings of a GPT that may be missing: files of earlier versions do not have them. */
static bool read_additional_settings(Model *model, const Gguf *file)
{
    static const char taps[] = "minigpt.model.convolution", orders[] = "minigpt.model.ngrams";
    static const char residual[] = "minigpt.model.value_residual";
    if (find_value(file, residual, sizeof residual - 1) && !get_bool(file, residual, &model->value_residual))
        return false;
    if (find_value(file, taps, sizeof taps - 1) && !get_uint32(file, taps, &model->taps))
        return false;
    if (model->taps > 16)
        return fail("the key ", taps, " has an impossible value", NULL);
    bool has_ngrams = find_value(file, orders, sizeof orders - 1);
    if ((model->value_residual || model->taps || has_ngrams) && model->kind != GPT)
        return fail("a model of this kind has no value residual, convolutions or n-grams", NULL);
    if (!has_ngrams)
        return true;
    if (!get_array(file, orders, GGUF_INT32, (const void **)&model->ngrams, &model->ngram_count)
        || !get_uint32(file, "minigpt.model.ngram_rows", &model->ngram_rows))
        return false;
    bool is_possible = model->ngram_count <= 8 && model->ngram_rows > 0 && model->ngram_rows <= 1u << 15;
    for (uint32_t i = 0; i < model->ngram_count && is_possible; i++)
        is_possible = model->ngrams[i] >= 2 && model->ngrams[i] <= 8;
    if (!is_possible)
        return fail("the key ", orders, " has an impossible value", NULL);
    uint64_t rows = (uint64_t)model->ngram_count * model->ngram_rows;
    return read_matrix(&model->ngram_table, file, "ngram_embd.weight", model->embed_dim, rows);
}

static bool read_head(Model *model, const Gguf *file)
{
    if (model->tie_embeddings) {
        model->head.weight = model->tokens;
        return true;
    }
    return read_dense(&model->head, file, &no_prefix, "output", model->embed_dim, model->vocab_size);
}

bool read_model(Model *model, const Gguf *file)
{
    memset(model, 0, sizeof *model);
    if (!read_description(model, file)
        || !read_matrix(&model->tokens, file, "token_embd.weight", model->embed_dim, model->vocab_size)
        || !read_positions(model, file) || !read_head(model, file)
        || !read_additional_settings(model, file))
        return false;
    if (model->kind == GPT)
        return read_side(&model->blocks, &model->final_norm, model, file, "", false);
    return read_side(&model->encoder_blocks, &model->encoder_norm, model, file, "enc.", false)
        && read_side(&model->blocks, &model->final_norm, model, file, "dec.", true);
}
