/* The tables of the tokenizer in a portable file. */
#ifndef MINIGPT_TOKENIZER_TABLES_H
#define MINIGPT_TOKENIZER_TABLES_H

#include "gguf.h"
#include "tokenizer.h"

/* Reads and checks the tables, and builds the hash table. vocab_size: that of the model. */
bool read_tokenizer(Tokenizer *tokenizer, const Gguf *file, uint32_t vocab_size);

#endif
