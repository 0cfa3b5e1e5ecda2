/* Added tokens: texts such as <user> that are one token wherever they occur. They are found as in
   minigpt/tokenizers/gpt2.py. */
#include "pieces.h"

static uint32_t added_start(const AddedTokens *added, uint32_t token)
{
    return token ? added->ends[token - 1] : 0;
}

/* Returns the longest token at a place of the text whose flag NORMALIZED is `normalized`, or added->count. */
static uint32_t token_at(const AddedTokens *added, Text text, uint32_t at, uint8_t normalized)
{
    uint32_t found = added->count, longest = 0;
    for (uint32_t token = 0; token < added->count; token++) {
        uint32_t start = added_start(added, token), size = added->ends[token] - start;
        if (size > longest && size <= text.size - at && (added->flags[token] & NORMALIZED) == normalized
            && added->texts[start] == text.bytes[at] && !memcmp(added->texts + start, text.bytes + at, size)) {
            found = token;
            longest = size;
        }
    }
    return found;
}

static bool split(const Tokenizer *tokenizer, Text text, uint8_t normalized, EncodeWords encode_words, Encoded *encoded)
{
    const AddedTokens *added = &tokenizer->added;
    uint32_t end = 0;
    for (uint32_t at = 0; at <= text.size;) {
        bool is_end = at == text.size;
        uint32_t token = is_end ? added->count : token_at(added, text, at, normalized);
        if (token == added->count && !is_end) {
            at++;
            continue;
        }
        Text before = {text.bytes + end, at - end};
        if (before.size && !(normalized ? encode_words(tokenizer, before, encoded)
                                        : split(tokenizer, before, NORMALIZED, encode_words, encoded)))
            return false;
        if (is_end)
            return true;
        encoded->ids[encoded->count++] = added->ids[token];
        end = at += added->ends[token] - added_start(added, token);
    }
    return true;
}

bool encode_added(const Tokenizer *tokenizer, Text text, EncodeWords encode_words, Encoded *encoded)
{
    return tokenizer->added.count ? split(tokenizer, text, 0, encode_words, encoded)
                                  : encode_words(tokenizer, text, encoded);
}
