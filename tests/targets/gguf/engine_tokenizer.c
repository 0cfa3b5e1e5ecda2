/* Exports of the tokenizer for tests/targets/gguf/test_engine_tokenizers.py: tables from the host's memory, without a file. */
#include "tokenizer.h"
#include "unicode.h"

static Tokenizer tokenizer;
static Encoded encoded;
static Text lowered;

EXPORT("open_tokenizer") bool open_tokenizer(TokenizerKind kind, bool lowercase, uint32_t vocab_size, int32_t unknown_id,
    const uint8_t *pieces, const uint32_t *piece_ends, const int32_t *ranks, const int32_t *byte_ids, uint32_t added,
    const uint8_t *texts, const uint32_t *ends, const int32_t *ids, const uint8_t *flags)
{
    tokenizer = (Tokenizer){
        .kind = kind, .lowercase = lowercase, .vocab_size = vocab_size, .unknown_id = unknown_id,
        .pieces = pieces, .piece_ends = piece_ends, .ranks = ranks, .byte_ids = byte_ids,
        .added = {.texts = texts, .ends = ends, .ids = ids, .flags = flags, .count = added},
    };
    return index_pieces(&tokenizer);
}

EXPORT("encode_text") const Encoded *encode_text(const uint8_t *text, uint32_t size)
{
    return encode(&tokenizer, text, size, &encoded) ? &encoded : NULL;
}

/* The text has to be valid. */
EXPORT("lower_text") const Text *lower_text(const uint8_t *text, uint32_t size)
{
    lowered = (Text){text, size};
    return lower(&lowered) ? &lowered : NULL;
}
