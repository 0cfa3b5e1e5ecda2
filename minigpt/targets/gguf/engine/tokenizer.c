/* Text to token ids, for every kind of tokenizer. */
#include "tokenizer.h"
#include "pieces.h"

#define SPACE_SIGN "\xE2\x96\x81" /* U+2581 */
#define ESCAPE 0x10                 /* DLE */

/* sentencepiece, which learns the vocabulary, writes a space as U+2581. Therefore minigpt writes a U+2581 of the text as DLE "b",
   and DLE itself as DLE "a". The pieces of the file have spaces again, but the escapes remain. */
static bool escape(Text *text)
{
    uint8_t *bytes = allocate(2 * (uint64_t)text->size);
    uint32_t size = 0;
    if (!bytes)
        return false;
    for (uint32_t at = 0; at < text->size;) {
        const uint8_t *from = text->bytes + at;
        bool is_space_sign = text->size - at >= 3 && !memcmp(from, SPACE_SIGN, 3);
        if (is_space_sign || *from == ESCAPE) {
            bytes[size++] = ESCAPE;
            bytes[size++] = is_space_sign ? 'b' : 'a';
        } else {
            bytes[size++] = *from;
        }
        at += is_space_sign ? 3 : 1;
    }
    *text = (Text){bytes, size};
    return true;
}

static Text between(Text text, uint32_t start, uint32_t end)
{
    return (Text){text.bytes + start, end - start};
}

static bool encode_characters(const Tokenizer *tokenizer, Text text, Encoded *encoded)
{
    uint32_t character;
    for (uint32_t at = 0, end; at < text.size; at = end) {
        end = at + read_character(text.bytes + at, &character);
        if (!append_piece(tokenizer, between(text, at, end), encoded))
            return false;
    }
    return true;
}

/* White space separates words; each mark is a word of its own. */
static bool encode_words(const Tokenizer *tokenizer, Text text, Encoded *encoded)
{
    uint32_t word = 0;
    for (uint32_t at = 0, end; at <= text.size; at = end) {
        bool is_mark = false, separates = at == text.size;
        end = at + 1;
        if (!separates) {
            uint32_t character;
            end = at + read_character(text.bytes + at, &character);
            is_mark = is_in(MARK, character);
            separates = is_mark || separates_words(character);
        }
        if (!separates)
            continue;
        if (word < at && !append_piece(tokenizer, between(text, word, at), encoded))
            return false;
        if (is_mark && !append_piece(tokenizer, between(text, at, end), encoded))
            return false;
        word = end;
    }
    return true;
}

typedef enum { SPACE_RUN, LETTER_RUN, NUMBER_RUN, OTHER_RUN } Run;

static Run run_of(uint32_t character)
{
    return is_space(character) ? SPACE_RUN
        : is_in(LETTER, character) ? LETTER_RUN
        : is_in(NUMBER, character) ? NUMBER_RUN : OTHER_RUN;
}

/* Returns the end of the run of characters that begins at `start`. *last is the start of its last character. */
static uint32_t run_end(Text text, uint32_t start, Run *run, uint32_t *last)
{
    uint32_t character, end = start + read_character(text.bytes + start, &character);
    *run = run_of(character);
    *last = start;
    while (end < text.size) {
        uint32_t size = read_character(text.bytes + end, &character);
        if (run_of(character) != *run)
            break;
        *last = end;
        end += size;
    }
    return end;
}

/* Returns the size of one of 's 't 'm 'd 're 've 'll at the start of the text, or 0. */
static uint32_t contraction(Text text)
{
    if (text.size < 2 || text.bytes[0] != '\'')
        return 0;
    uint8_t a = text.bytes[1], b = text.size > 2 ? text.bytes[2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Returns the end of the word that begins at `start`, by the pattern of GPT-2:
   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static uint32_t word_end(Text text, uint32_t start)
{
    uint32_t size = contraction(between(text, start, text.size));
    if (size)
        return start + size;
    Run run;
    uint32_t last, end = run_end(text, start, &run, &last);
    if (run != SPACE_RUN || end == text.size)
        return end;
    /* White space in front of something else: its last character belongs to the next word if it is a space, and otherwise is a
       word. */
    if (last > start)
        return last;
    return text.bytes[start] == ' ' ? run_end(text, end, &run, &last) : end;
}

static bool encode_gpt2(const Tokenizer *tokenizer, Text text, Encoded *encoded)
{
    for (uint32_t at = 0, end; at < text.size; at = end) {
        end = word_end(text, at);
        if (!append_merged(tokenizer, between(text, at, end), encoded))
            return false;
    }
    return true;
}

bool encode(const Tokenizer *tokenizer, const uint8_t *bytes, uint32_t size, Encoded *encoded)
{
    Text text = {bytes, size};
    *encoded = (Encoded){NULL, 0, 0};
    if (!is_utf8(text))
        return fail("the text is not valid UTF-8", NULL);
    if (tokenizer->lowercase && !lower(&text))
        return false;
    if (tokenizer->kind == BYTE_PAIR && !escape(&text))
        return false;
    encoded->ids = allocate((uint64_t)text.size * sizeof *encoded->ids);
    if (!encoded->ids)
        return false;
    switch (tokenizer->kind) {
    case BYTE_PAIR:
        return append_merged(tokenizer, text, encoded);
    case CHARACTER:
        return encode_characters(tokenizer, text, encoded);
    case WORD:
        return encode_words(tokenizer, text, encoded);
    case GPT2:
        return encode_added(tokenizer, text, encode_gpt2, encoded);
    }
    return fail("unknown kind of tokenizer", NULL);
}
