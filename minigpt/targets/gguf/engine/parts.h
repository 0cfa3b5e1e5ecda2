/* The parts of the engine that use the memory of the open file, for host.c. */
#ifndef MINIGPT_PARTS_H
#define MINIGPT_PARTS_H

#include "engine.h"

/* continuation.c */

/* Takes the memory for a text of the open file; false after `fail`. */
bool open_continuation(void);
/* The text has no more tokens. */
void end_continuation(void);
/* There is no memory for a text any more. */
void close_continuation(void);

/* batch.c: there is no batch any more. */
void close_batch(void);

/* learning.c: nothing is learned any more. */
void stop_learning(void);

/* inspection.c: the memory of the inspected text is no longer valid. */
void end_inspection(void);

#endif
