/* The tables of the tokenizer in a portable file. */
#include "tokenizer_tables.h"

/* The keys are missing if there are no added tokens. */
static bool read_added(AddedTokens *added, const Gguf *file, uint32_t vocab_size)
{
    static const char texts[] = "minigpt.tokenizer.added";
    uint32_t size, ids, flags;
    added->count = 0;
    if (!find_value(file, texts, sizeof texts - 1))
        return true;
    if (!get_array(file, texts, GGUF_UINT8, (const void **)&added->texts, &size)
        || !get_array(file, "minigpt.tokenizer.added_ends", GGUF_UINT32, (const void **)&added->ends, &added->count)
        || !get_array(file, "minigpt.tokenizer.added_ids", GGUF_INT32, (const void **)&added->ids, &ids)
        || !get_array(file, "minigpt.tokenizer.added_flags", GGUF_UINT8, (const void **)&added->flags, &flags))
        return false;
    bool fits = ids == added->count && flags == added->count && added->count && added->ends[added->count - 1] == size;
    for (uint32_t i = 0, start = 0; fits && i < added->count; start = added->ends[i++])
        fits = start < added->ends[i] && added->ids[i] >= 0 && (uint32_t)added->ids[i] < vocab_size
            && !(added->flags[i] & ~NORMALIZED);
    return fits || fail("the tables of minigpt.tokenizer.added do not fit together", NULL);
}

bool read_tokenizer(Tokenizer *tokenizer, const Gguf *file, uint32_t vocab_size)
{
    static const char *const kinds[] = {"byte_pair", "character", "word", "gpt2", NULL};
    int kind = get_choice(file, "minigpt.tokenizer.kind", kinds);
    uint32_t ends, ranks, bytes, pieces;
    if (kind < 0 || !get_bool(file, "minigpt.tokenizer.lowercase", &tokenizer->lowercase)
        || !get_uint32(file, "minigpt.tokenizer.end_id", &tokenizer->end_id)
        || !get_int32(file, "minigpt.tokenizer.unknown_id", &tokenizer->unknown_id)
        || !get_array(file, "minigpt.tokenizer.pieces", GGUF_UINT8, (const void **)&tokenizer->pieces, &pieces)
        || !get_array(file, "minigpt.tokenizer.piece_ends", GGUF_UINT32, (const void **)&tokenizer->piece_ends, &ends)
        || !get_array(file, "minigpt.tokenizer.ranks", GGUF_INT32, (const void **)&tokenizer->ranks, &ranks)
        || !get_array(file, "minigpt.tokenizer.byte_ids", GGUF_INT32, (const void **)&tokenizer->byte_ids, &bytes))
        return false;
    static const char start[] = "minigpt.tokenizer.start_id";
    tokenizer->start_id = tokenizer->end_id;
    if (find_value(file, start, sizeof start - 1) && !get_uint32(file, start, &tokenizer->start_id))
        return false;
    /* GGUF has no empty arrays: the key is missing if all tokens can be generated. */
    static const char undrawable[] = "minigpt.tokenizer.undrawable_ids";
    tokenizer->undrawable_count = 0;
    if (find_value(file, undrawable, sizeof undrawable - 1)
        && !get_array(file, undrawable, GGUF_INT32, (const void **)&tokenizer->undrawable_ids, &tokenizer->undrawable_count))
        return false;
    if (!read_added(&tokenizer->added, file, ends))
        return false;
    tokenizer->kind = (TokenizerKind)kind;
    tokenizer->vocab_size = ends;
    bool fits = ends > 0 && ends <= vocab_size && ranks == ends && bytes == 256 && tokenizer->end_id < ends
        && tokenizer->start_id < ends && tokenizer->unknown_id >= -1 && tokenizer->unknown_id < (int64_t)ends && tokenizer->piece_ends[ends - 1] == pieces;
    for (uint32_t i = 1; fits && i < ends; i++)
        fits = tokenizer->piece_ends[i - 1] <= tokenizer->piece_ends[i];
    for (uint32_t i = 0; fits && i < 256; i++)
        fits = tokenizer->byte_ids[i] >= -1 && tokenizer->byte_ids[i] < (int64_t)ends;
    for (uint32_t i = 0; fits && i < tokenizer->undrawable_count; i++)
        fits = tokenizer->undrawable_ids[i] >= 0 && (uint32_t)tokenizer->undrawable_ids[i] < ends;
    return fits ? index_pieces(tokenizer) : fail("the tables of minigpt.tokenizer do not fit together", NULL);
}
