/* UTF-8, classes of characters, and lower-casing. */
#include "unicode.h"
#include "unicode_ranges.h"

typedef struct {
    uint32_t first, last;
} Range;

/* Capitals first, first + step, ... up to last; the lower case of c is c + distance. */
typedef struct {
    uint32_t first, last, step;
    int32_t distance;
} Rule;

#define RANGE_COUNT (LETTER_RANGES + NUMBER_RANGES + MARK_RANGES + CASED_RANGES + IGNORABLE_RANGES)

static const uint16_t range_counts[CLASS_COUNT] = {
    LETTER_RANGES, NUMBER_RANGES, MARK_RANGES, CASED_RANGES, IGNORABLE_RANGES
};

/* The tables in memory; the stored ones are a quarter as large. */
static Range ranges[RANGE_COUNT];
static const Range *class_ranges[CLASS_COUNT];
static Rule rules[RULE_COUNT];

static uint32_t read_number(const uint8_t **at)
{
    uint32_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void read_tables(void)
{
    const uint8_t *at = RANGES;
    Range *range = ranges;
    for (int class = 0; class < CLASS_COUNT; class++) {
        class_ranges[class] = range;
        uint32_t end = 0;
        for (uint32_t i = 0; i < range_counts[class]; i++, range++) {
            range->first = end + read_number(&at);
            range->last = range->first + read_number(&at);
            end = range->last + 1;
        }
    }
    at = RULES;
    uint32_t end = 0;
    for (Rule *rule = rules; rule < rules + RULE_COUNT; rule++) {
        rule->first = end + read_number(&at);
        uint32_t length = read_number(&at), distance = read_number(&at);
        rule->step = 1 + (length & 1);
        rule->last = rule->first + (length >> 1) * rule->step;
        rule->distance = distance & 1 ? -(int32_t)((distance + 1) / 2) : (int32_t)(distance / 2);
        end = rule->last + 1;
    }
}

static void need_tables(void)
{
    if (!class_ranges[0])
        read_tables();
}

bool is_in(CharacterClass class, uint32_t character)
{
    need_tables();
    /* Ranges below `low` end before the character; ranges from `high` on begin after it. */
    const Range *of_class = class_ranges[class];
    uint32_t low = 0, high = range_counts[class];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (character > of_class[middle].last)
            low = middle + 1;
        else if (character < of_class[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

bool is_space(uint32_t character)
{
    if (character < 0x80)
        return character == ' ' || (character >= '\t' && character <= '\r');
    return character == 0x85 || character == 0xA0 || character == 0x1680
        || (character >= 0x2000 && character <= 0x200A) || character == 0x2028 || character == 0x2029
        || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool separates_words(uint32_t character)
{
    return is_space(character) || (character >= 0x1C && character <= 0x1F);
}

/* Returns the number of bytes of the valid character at the start of the text; 0 if there is none. */
static uint32_t valid_character(Text text)
{
    uint8_t first = text.bytes[0];
    if (first < 0x80)
        return 1;
    uint32_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (!size || size > text.size)
        return 0;
    for (uint32_t i = 1; i < size; i++)
        if ((text.bytes[i] & 0xC0) != 0x80)
            return 0;
    /* Characters that fit into fewer bytes, surrogates, and numbers above U+10FFFF: The Unicode Standard, table 3-7. */
    uint8_t second = text.bytes[1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90)
        || (first == 0xF4 && second > 0x8F))
        return 0;
    return size;
}

bool is_utf8(Text text)
{
    while (text.size) {
        uint32_t size = valid_character(text);
        if (!size)
            return false;
        text.bytes += size;
        text.size -= size;
    }
    return true;
}

uint32_t read_character(const uint8_t *bytes, uint32_t *character)
{
    uint32_t first = bytes[0];
    if (first < 0x80) {
        *character = first;
        return 1;
    }
    uint32_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    *character = first & (0x7Fu >> size);
    for (uint32_t i = 1; i < size; i++)
        *character = *character << 6 | (bytes[i] & 0x3F);
    return size;
}

static uint32_t write_character(uint8_t *bytes, uint32_t character)
{
    if (character < 0x80) {
        bytes[0] = (uint8_t)character;
        return 1;
    }
    uint32_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (uint32_t i = size - 1; i > 0; i--, character >>= 6)
        bytes[i] = (uint8_t)(0x80 | (character & 0x3F));
    bytes[0] = (uint8_t)(0xF00u >> size | character);
    return size;
}

/* Returns the lower case of a character; of U+0130, which has two characters, the first one. */
static uint32_t lower_of(uint32_t character)
{
    if (character < 0x80)
        return character >= 'A' && character <= 'Z' ? character + ('a' - 'A') : character;
    need_tables();
    uint32_t low = 0, high = RULE_COUNT;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (character > rules[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == RULE_COUNT || character < rules[low].first || (character - rules[low].first) % rules[low].step)
        return character;
    return character + (uint32_t)rules[low].distance;
}

/* Returns whether the capital sigma from `start` to `end` ends a word: after a cased letter, and in front of none; ignorable
   characters between them do not count. The Unicode Standard, table 3-17, Final_Sigma. */
static bool is_final_sigma(Text text, uint32_t start, uint32_t end)
{
    uint32_t character;
    do {
        if (!start)
            return false;
        do
            start--;
        while ((text.bytes[start] & 0xC0) == 0x80);
        read_character(text.bytes + start, &character);
    } while (is_in(IGNORABLE, character));
    if (!is_in(CASED, character))
        return false;
    do {
        if (end == text.size)
            return true;
        end += read_character(text.bytes + end, &character);
    } while (is_in(IGNORABLE, character));
    return !is_in(CASED, character);
}

#define CAPITAL_SIGMA 0x3A3u
#define SMALL_SIGMA 0x3C3u
#define FINAL_SIGMA 0x3C2u
#define CAPITAL_I_WITH_DOT 0x130u
#define DOT_ABOVE 0x307u

bool lower(Text *text)
{
    /* make_engine_tables.py checks that no character becomes more than twice as long. */
    uint8_t *bytes = allocate(2 * (uint64_t)text->size);
    uint32_t size = 0;
    if (!bytes)
        return false;
    for (uint32_t at = 0; at < text->size;) {
        uint32_t character, start = at;
        at += read_character(text->bytes + at, &character);
        if (character == CAPITAL_SIGMA)
            size += write_character(bytes + size, is_final_sigma(*text, start, at) ? FINAL_SIGMA : SMALL_SIGMA);
        else
            size += write_character(bytes + size, lower_of(character));
        if (character == CAPITAL_I_WITH_DOT)
            size += write_character(bytes + size, DOT_ABOVE);
    }
    *text = (Text){bytes, size};
    return true;
}
