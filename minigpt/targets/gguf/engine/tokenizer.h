/* The tokenizer of a portable file: text to token ids. docs/portable-file.md describes its tables. */
#ifndef MINIGPT_TOKENIZER_H
#define MINIGPT_TOKENIZER_H

#include "engine.h"

typedef enum { BYTE_PAIR, CHARACTER, WORD, GPT2 } TokenizerKind;

/* The flag of an added token that is found after all tokens without it. */
enum { NORMALIZED = 8 };

/* Tokens that are found in a text before the rest of it is split into words. */
typedef struct {
    const uint8_t *texts;    /* the bytes of all of them; none is empty */
    const uint32_t *ends;    /* [count], ascending */
    const int32_t *ids;      /* [count] */
    const uint8_t *flags;    /* [count], 0 or NORMALIZED */
    uint32_t count;
} AddedTokens;

typedef struct {
    TokenizerKind kind;
    bool lowercase;
    uint32_t vocab_size;
    uint32_t end_id;
    uint32_t start_id;           /* before the first token of a target: end_id if the file has none */
    int32_t unknown_id;          /* -1: there is none */
    const uint8_t *pieces;       /* the bytes of all pieces */
    const uint32_t *piece_ends;  /* [vocab_size], ascending */
    const int32_t *ranks;        /* [vocab_size] */
    const int32_t *byte_ids;     /* [256] */
    const int32_t *undrawable_ids; /* tokens that are never generated */
    uint32_t undrawable_count;
    AddedTokens added;           /* only for GPT2 */
    uint32_t *slots;             /* the hash table that `index_pieces` builds: id + 1, or 0 */
    uint32_t slot_count;         /* a power of two */
} Tokenizer;

/* Builds the hash table of pieces whose rank is not negative. The other members are already set and in bounds: every id is below
   vocab_size, and piece_ends does not decrease. */
bool index_pieces(Tokenizer *tokenizer);

/* The token ids of a text. */
typedef struct {
    int32_t *ids;
    uint32_t count;
    uint32_t unknown;  /* words or characters that are no piece: encoded as unknown_id or as bytes */
} Encoded;

/* Encodes UTF-8. Memory is taken with `allocate`; the caller marks and releases it.
   Fails if the text is not valid UTF-8 or memory runs out. */
bool encode(const Tokenizer *tokenizer, const uint8_t *text, uint32_t size, Encoded *encoded);

#endif
