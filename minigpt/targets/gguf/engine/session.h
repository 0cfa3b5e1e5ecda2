/* What the exported functions share: the open file. */
#ifndef MINIGPT_SESSION_H
#define MINIGPT_SESSION_H

#include "model.h"

/* Reads a portable file and its tokenizer; false after `fail`. */
bool open_session(const uint8_t *data, uint32_t size);

/* No file is open any more. */
void close_session(void);

/* The model of the open file; NULL after `fail` if no file is open. */
const Model *open_model(void);

/* The open file. */
const Gguf *open_gguf(void);

/* Whether all ids are in the vocabulary; `fail` otherwise. */
bool are_tokens(const int32_t *ids, uint32_t count);

/* The end token. */
int32_t end_token(void);

/* The token before the first one of a translation. */
int32_t start_token(void);

/* Sets the biases, [V], of a text that may have every token but those that the tokenizer never generates. */
void ban_undrawable(float *biases);

/* What is allocated so far stays when a text is finished. */
void keep_memory(void);

/* Returns what `release_to` needs to free what is kept from now on. */
uint32_t kept_memory(void);

/* Frees what was allocated since `keep_memory`. */
void release_texts(void);

#endif
