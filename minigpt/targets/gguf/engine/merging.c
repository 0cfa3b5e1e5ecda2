/* Byte-pair merging: the two neighbors whose joined bytes are the piece with the lowest rank become one symbol, the leftmost ones
   first; until no two neighbors are a piece. Sennrich, Haddow and Birch (2016), "Neural Machine Translation of Rare Words with
   Subword Units".

   A heap holds the pairs, so a text of n characters takes about n log n steps. */
#include "pieces.h"

/* The symbols are a list. A symbol ends where the next one starts. */
typedef struct {
    uint32_t start;
    uint32_t previous, next;
    int32_t id;             /* of a symbol that was merged, otherwise -1 */
    int32_t pair;           /* the piece that it makes with the next symbol, or -1 */
} Symbol;

typedef struct {
    const Tokenizer *tokenizer;
    Text text;
    Symbol *symbols;        /* the last one is empty and marks the end */
    uint32_t count;         /* without the last one */
    uint64_t *heap;         /* a pair: its rank, and below 32 bits its first symbol. heap[0] is the smallest one */
    uint32_t heap_size;
} Merging;

#define NONE UINT32_MAX

static void push(Merging *merging, uint64_t pair)
{
    uint32_t place = merging->heap_size++;
    while (place && merging->heap[(place - 1) / 2] > pair) {
        merging->heap[place] = merging->heap[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    merging->heap[place] = pair;
}

static uint64_t pop(Merging *merging)
{
    uint64_t *heap = merging->heap, smallest = heap[0], moved = heap[--merging->heap_size];
    uint32_t place = 0;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= merging->heap_size)
            break;
        if (child + 1 < merging->heap_size && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moved)
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = moved;
    return smallest;
}

/* Looks up the pair that begins with a symbol. */
static void find_pair(Merging *merging, uint32_t left)
{
    if (left == NONE)
        return;
    Symbol *symbol = &merging->symbols[left];
    symbol->pair = -1;
    if (symbol->next == merging->count)
        return;
    uint32_t end = merging->symbols[merging->symbols[symbol->next].next].start;
    Text joined = {merging->text.bytes + symbol->start, end - symbol->start};
    symbol->pair = find_piece(merging->tokenizer, joined);
    if (symbol->pair >= 0)
        push(merging, (uint64_t)merging->tokenizer->ranks[symbol->pair] << 32 | left);
}

/* Makes one symbol of each character, or of each byte. */
static bool start_merging(Merging *merging)
{
    bool of_bytes = merging->tokenizer->kind == GPT2;
    for (uint32_t i = 0; i < merging->text.size; i++)
        merging->count += of_bytes || (merging->text.bytes[i] & 0xC0) != 0x80;
    merging->symbols = allocate(((uint64_t)merging->count + 1) * sizeof *merging->symbols);
    /* Less than one pair for each symbol at the start, and each merge takes one and adds at most two. */
    merging->heap = allocate(2 * (uint64_t)merging->count * sizeof *merging->heap);
    if (!merging->symbols || !merging->heap)
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i <= merging->count; i++) {
        merging->symbols[i] = (Symbol){.start = at, .previous = i - 1, .next = i + 1, .id = -1, .pair = -1};
        if (i < merging->count) {
            uint32_t character;
            at += of_bytes ? 1 : read_character(merging->text.bytes + at, &character);
        }
    }
    merging->symbols[0].previous = NONE;
    for (uint32_t i = 0; i < merging->count; i++)
        find_pair(merging, i);
    return true;
}

static void merge(Merging *merging)
{
    while (merging->heap_size) {
        uint64_t pair = pop(merging);
        uint32_t left = (uint32_t)pair;
        Symbol *symbol = &merging->symbols[left];
        /* The pair may be gone, because another merge has changed one of its symbols. */
        if (symbol->pair < 0 || (uint64_t)merging->tokenizer->ranks[symbol->pair] != pair >> 32)
            continue;
        Symbol *right = &merging->symbols[symbol->next];
        symbol->id = symbol->pair;
        symbol->next = right->next;
        merging->symbols[right->next].previous = left;
        right->pair = -1;
        find_pair(merging, symbol->previous);
        find_pair(merging, left);
    }
}

bool append_merged(const Tokenizer *tokenizer, Text text, Encoded *encoded)
{
    uint32_t mark = memory_mark();
    Merging merging = {.tokenizer = tokenizer, .text = text};
    bool is_encoded = start_merging(&merging);
    if (is_encoded)
        merge(&merging);
    for (uint32_t i = 0; is_encoded && i < merging.count; i = merging.symbols[i].next) {
        const Symbol *symbol = &merging.symbols[i];
        Text part = {text.bytes + symbol->start, merging.symbols[symbol->next].start - symbol->start};
        int32_t id = symbol->id >= 0 ? symbol->id : find_piece(tokenizer, part);
        if (id >= 0)
            encoded->ids[encoded->count++] = id;
        else
            is_encoded = append_unknown(tokenizer, part, encoded);
    }
    release_to(mark);
    return is_encoded;
}
