/* Added tokens: texts such as <user> that are one token wherever they occur. They are found as in
   minigpt/tokenizers/splitting.py. */
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

/* Returns the number of bytes of the character before a place, which is not the start of the text. */
static uint32_t size_before(Text text, uint32_t at)
{
    uint32_t size = 1;
    while ((text.bytes[at - size] & 0xC0) == 0x80)
        size++;
    return size;
}

static bool is_word_at(Text text, uint32_t at)
{
    uint32_t character;
    read_character(text.bytes + at, &character);
    return is_in(WORD_PART, character);
}

static bool is_space_at(Text text, uint32_t at)
{
    uint32_t character;
    read_character(text.bytes + at, &character);
    return is_space(character);
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
        uint32_t start = at, stop = at;
        uint8_t flags = 0;
        if (!is_end) {
            stop += added->ends[token] - added_start(added, token);
            flags = added->flags[token];
        }
        at = is_end ? at + 1 : stop;
        if (flags & SINGLE_WORD
            && ((start && is_word_at(text, start - size_before(text, start))) || (stop < text.size && is_word_at(text, stop))))
            continue;
        while (flags & LSTRIP && start > end && is_space_at(text, start - size_before(text, start)))
            start -= size_before(text, start);
        uint32_t character;
        while (flags & RSTRIP && stop < text.size && is_space_at(text, stop))
            stop += read_character(text.bytes + stop, &character);
        Text before = {text.bytes + end, start - end};
        if (start > end && !(normalized ? encode_words(tokenizer, before, encoded)
                                        : split(tokenizer, before, NORMALIZED, encode_words, encoded)))
            return false;
        if (!is_end)
            encoded->ids[encoded->count++] = added->ids[token];
        end = stop;
    }
    return true;
}

bool encode_added(const Tokenizer *tokenizer, Text text, EncodeWords encode_words, Encoded *encoded)
{
    return tokenizer->added.count ? split(tokenizer, text, 0, encode_words, encoded)
                                  : encode_words(tokenizer, text, encoded);
}
