/* Memory: a stack of allocations at the end of the data, and the four functions that compilers call. */
#include "engine.h"

#ifdef __wasm__

extern uint8_t __heap_base;
static uint32_t top;

#define PAGE 65536u

static uint32_t base(void)
{
    return ((uint32_t)(uintptr_t)&__heap_base + 15) & ~15u;
}

EXPORT("memory_mark") uint32_t memory_mark(void)
{
    return top;
}

EXPORT("release_to") void release_to(uint32_t mark)
{
    top = mark;
}

EXPORT("allocate") void *allocate(uint64_t bytes)
{
    uint64_t start = top ? top : base();
    uint64_t end = start + ((bytes + 15) & ~(uint64_t)15);
    uint64_t limit = (uint64_t)__builtin_wasm_memory_size(0) * PAGE;
    if (bytes > UINT32_MAX || end > UINT32_MAX) {
        fail("out of memory", NULL);
        return NULL;
    }
    if (end > limit && __builtin_wasm_memory_grow(0, (end - limit + PAGE - 1) / PAGE) == (size_t)-1) {
        fail("out of memory", NULL);
        return NULL;
    }
    top = (uint32_t)end;
    void *memory = (void *)(uintptr_t)start;
    memset(memory, 0, (size_t)(end - start));
    return memory;
}

/* Compiled to single instructions. */
void *memcpy(void *to, const void *from, size_t bytes)
{
    return __builtin_memcpy(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes)
{
    return __builtin_memmove(to, from, bytes);
}

void *memset(void *to, int value, size_t bytes)
{
    return __builtin_memset(to, value, bytes);
}

int memcmp(const void *left, const void *right, size_t bytes)
{
    const uint8_t *a = left, *b = right;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

#else /* For the tests: each allocation is one of its own, so that a sanitizer sees every access outside. */

#include <stdlib.h>

static void *blocks[1 << 16];
static uint32_t used;

uint32_t memory_mark(void)
{
    return used;
}

void release_to(uint32_t mark)
{
    while (used > mark)
        free(blocks[--used]);
}

void *allocate(uint64_t bytes)
{
    void *memory = used < sizeof blocks / sizeof *blocks && bytes <= UINT32_MAX
        ? calloc(bytes ? bytes : 1, 1) : NULL;
    if (!memory) {
        fail("out of memory", NULL);
        return NULL;
    }
    return blocks[used++] = memory;
}

#endif
