/* What the exported functions share: the open file. */
#ifndef MINIGPT_SESSION_H
#define MINIGPT_SESSION_H

#include "model.h"

/* The model of the open file; NULL after `fail` if no file is open. */
const Model *open_model(void);

/* Whether all ids are in the vocabulary; `fail` otherwise. */
bool are_tokens(const int32_t *ids, uint32_t count);

/* inspection.c: the memory of the inspected text is no longer valid. */
void end_inspection(void);

#endif
