/* From the bytes of a piece to its id: a hash table with open addressing. */
#include "pieces.h"

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash(Text piece)
{
    uint32_t sum = 2166136261u;
    for (uint32_t i = 0; i < piece.size; i++)
        sum = (sum ^ piece.bytes[i]) * 16777619u;
    return sum ^ sum >> 15;
}

static Text piece_of(const Tokenizer *tokenizer, uint32_t id)
{
    uint32_t start = id ? tokenizer->piece_ends[id - 1] : 0;
    return (Text){tokenizer->pieces + start, tokenizer->piece_ends[id] - start};
}

/* A million words need 50. Pieces that were made for one slot would need as many as there are pieces. */
enum { MOST_SLOTS = 1000 };

/* Returns the slot of a piece, or the empty slot where it belongs. NULL if it cannot be in the table: all of its slots have other
   pieces. */
static uint32_t *find_slot(const Tokenizer *tokenizer, Text piece)
{
    uint32_t mask = tokenizer->slot_count - 1, slot = hash(piece) & mask;
    for (uint32_t tried = 0; tried < MOST_SLOTS; tried++, slot = (slot + 1) & mask) {
        uint32_t *found = &tokenizer->slots[slot];
        if (!*found)
            return found;
        Text other = piece_of(tokenizer, *found - 1);
        if (other.size == piece.size && !memcmp(other.bytes, piece.bytes, piece.size))
            return found;
    }
    return NULL;
}

int32_t find_piece(const Tokenizer *tokenizer, Text piece)
{
    const uint32_t *slot = find_slot(tokenizer, piece);
    return slot ? (int32_t)*slot - 1 : -1;
}

bool index_pieces(Tokenizer *tokenizer)
{
    uint64_t count = 2;
    while (count < 2 * (uint64_t)tokenizer->vocab_size)
        count *= 2;
    tokenizer->slots = allocate(count * sizeof *tokenizer->slots);
    if (!tokenizer->slots)
        return false;
    tokenizer->slot_count = (uint32_t)count;
    for (uint32_t id = 0; id < tokenizer->vocab_size; id++) {
        Text piece = piece_of(tokenizer, id);
        if (tokenizer->ranks[id] < 0 || !piece.size)
            continue;
        uint32_t *slot = find_slot(tokenizer, piece);
        if (!slot)
            return fail("the tokenizer has too many pieces with the same hash", NULL);
        if (!*slot)
            *slot = id + 1;
    }
    return true;
}

bool append_unknown(const Tokenizer *tokenizer, Text part, Encoded *encoded)
{
    if (tokenizer->unknown_id >= 0) {
        encoded->ids[encoded->count++] = tokenizer->unknown_id;
        return true;
    }
    for (uint32_t i = 0; i < part.size; i++) {
        int32_t id = tokenizer->byte_ids[part.bytes[i]];
        if (id < 0)
            return fail("the vocabulary has no token for a character of the text", NULL);
        encoded->ids[encoded->count++] = id;
    }
    return true;
}

bool append_piece(const Tokenizer *tokenizer, Text piece, Encoded *encoded)
{
    int32_t id = find_piece(tokenizer, piece);
    if (id < 0) {
        encoded->unknown++;
        return append_unknown(tokenizer, piece, encoded);
    }
    encoded->ids[encoded->count++] = id;
    return true;
}
