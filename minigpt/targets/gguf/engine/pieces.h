/* The parts of the tokenizer: looking pieces up, merging, and added tokens. */
#ifndef MINIGPT_PIECES_H
#define MINIGPT_PIECES_H

#include "tokenizer.h"
#include "unicode.h"

/* Returns the id of the piece with these bytes, or -1. Of several pieces with the same bytes, only the first one counts. */
int32_t find_piece(const Tokenizer *tokenizer, Text piece);

/* These three append ids to `encoded`, which has place for one id for each byte. They fail if the vocabulary has no token for
   some part of the text. */

/* A word or character: its piece, or else [UNK] or its bytes; then it is counted as unknown. */
bool append_piece(const Tokenizer *tokenizer, Text piece, Encoded *encoded);
/* A part of the text without a piece. */
bool append_unknown(const Tokenizer *tokenizer, Text part, Encoded *encoded);
/* A word or text, by byte-pair merging of its characters; of its bytes for GPT2. */
bool append_merged(const Tokenizer *tokenizer, Text text, Encoded *encoded);

typedef bool (*EncodeWords)(const Tokenizer *tokenizer, Text text, Encoded *encoded);

/* A text with added tokens; `encode_words` encodes what is between them. */
bool encode_added(const Tokenizer *tokenizer, Text text, EncodeWords encode_words, Encoded *encoded);

#endif
