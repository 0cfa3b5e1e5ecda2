/* UTF-8, the classes of characters that tokenizers use, and lower-casing: as in minigpt/tokenizers/unicode_tables.py. */
#ifndef MINIGPT_UNICODE_H
#define MINIGPT_UNICODE_H

#include "engine.h"

/* Bytes with a length. */
typedef struct {
    const uint8_t *bytes;
    uint32_t size;
} Text;

bool is_utf8(Text text);

/* Reads the character at the start of valid UTF-8 and returns the number of its bytes. */
uint32_t read_character(const uint8_t *bytes, uint32_t *character);

/* The general categories L and N, the two categories P and S together, and the two classes that decide which form of a small
   sigma is written. The ranges in unicode_ranges.h have this order. */
typedef enum { LETTER, NUMBER, MARK, CASED, IGNORABLE, CLASS_COUNT } CharacterClass;

bool is_in(CharacterClass class, uint32_t character);

/* White space in the pattern of GPT-2. */
bool is_space(uint32_t character);

/* White space of Python's str.split. */
bool separates_words(uint32_t character);

/* Replaces valid UTF-8 by its lower case, in memory of `allocate`. */
bool lower(Text *text);

#endif
