/* What the exported functions share: the open file. */
#ifndef MINIGPT_SESSION_H
#define MINIGPT_SESSION_H

#include "model.h"

/* The model of the open file; NULL after `fail` if no file is open. */
const Model *open_model(void);

/* Whether all ids are in the vocabulary; `fail` otherwise. */
bool are_tokens(const int32_t *ids, uint32_t count);

/* The end token. */
int32_t end_token(void);

/* Sets the biases, [V], of a text that may have every token but those that the tokenizer never generates. */
void ban_undrawable(float *biases);

/* What is allocated so far stays when a text is finished. */
void keep_memory(void);

/* batch.c: there is no batch any more. */
void close_batch(void);

/* inspection.c: the memory of the inspected text is no longer valid. */
void end_inspection(void);

#endif
