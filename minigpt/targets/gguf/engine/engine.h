/* Declarations that all files of the engine share.

   The engine is compiled for WebAssembly without a C library. It never calls the host: the host writes bytes into its memory
   and calls its exported functions. A function that can fail returns false (or a negative number) after calling `fail`. */
#ifndef MINIGPT_ENGINE_H
#define MINIGPT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define EXPORT(name)
#endif

/* errors.c */

/* Stores an error message: the texts until NULL, joined. Returns false. */
bool fail(const char *text, ...);

/* memory.c */

/* Returns zeroed memory, aligned to 16 bytes; NULL after `fail` if there is not enough. */
void *allocate(uint64_t bytes);
/* Returns a mark; `release_to` frees everything that was allocated after it. */
uint32_t memory_mark(void);
void release_to(uint32_t mark);

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);

#endif
