/* The calls of a host for tests/targets/gguf/test_hostile_natively.py, compiled with sanitizers: each file is opened, encodes a text,
   generates 3 tokens, scores, inspects and learns.

   Files are the arguments, or parts of stdin: a length, uint32, and the bytes. Writes one letter for each: what was reached.

   With the first argument "--without-memory", each file is used again and again: its first allocation fails, its second one, ...
   until all succeed. */
#include "choices.h"
#include "forward.h"
#include "sampling.h"
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* host.c, session.c and continuation.c */
bool open_file(const uint8_t *data, uint32_t size);
const Value *find_key(const char *name, uint32_t size);
const Encoded *encode_text(const uint8_t *text, uint32_t size);
void set_sampling(SAMPLING_PARAMETERS);
bool set_banned(const int32_t *ids, uint32_t count);
bool start(const int32_t *ids, uint32_t count, uint32_t added, uint32_t max_new_tokens);
bool start_translation(const int32_t *ids, uint32_t count, uint32_t max_new_tokens);
int32_t add_tokens(uint32_t count);
const int32_t *new_tokens_end(void);
void finish(void);
const float *score(const int32_t *ids, uint32_t count);
void set_recording(bool on);
const Choice *newest_choice(void);
/* inspection.c */
typedef struct {
    const float *attention, *cross;
    const Choice *lens;
    uint32_t stride, source_length;
} Inspection;
bool open_inspection(const int32_t *ids, uint32_t count, const int32_t *source, uint32_t source_count);
const Inspection *inspect(uint32_t position, int32_t chosen);
/* batch.c */
bool open_batch(uint32_t count, uint32_t tokens);
bool start_slot(uint32_t number, const int32_t *ids, uint32_t count, uint32_t max_new_tokens, SAMPLING_PARAMETERS);
bool bias_slot(uint32_t number, const int32_t *ids, const float *values, uint32_t count);
bool penalize_slot(uint32_t number, float frequency, float presence);
bool record_slot(uint32_t number);
const Choice *slot_choice(uint32_t number);
void close_slot(uint32_t number);
const int32_t *step_batch(void);
/* scoring.c */
const Choice *describe_text(const int32_t *ids, uint32_t count);
const float *mean_latent(const int32_t *ids, uint32_t count);
/* learning.c */
uint32_t open_learning(
    const int32_t *ids, uint32_t count, uint32_t length, uint32_t batch, int32_t first_seed, uint32_t step_count, float rate);
float learn(void);
void close_learning(void);
const uint8_t *current_file(void);
/* errors.c */
const char *error_message(void);

enum { TOKENS = 3, MOST_IDS = 12 };
static const char text[] = TEXT; /* defined on the command line */
static volatile uint32_t sum; /* Every byte of a result is read. */

static uint32_t allocations, failing; /* The number of the allocation that fails, from 1 on; 0: none. */

/* memory.c is compiled with this in place of calloc. */
void *limited_calloc(size_t count, size_t size)
{
    void *memory = ++allocations == failing ? NULL : malloc(count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

static char failed(char letter)
{
    if (!*error_message()) {
        fprintf(stderr, "an error has no message\n");
        abort();
    }
    return letter;
}

static void read_result(const void *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
}

static uint32_t number(const char *name)
{
    uint32_t value;
    memcpy(&value, find_key(name, (uint32_t)__builtin_strlen(name))->data, 4);
    return value;
}

/* Inspects positions forward and backward. Returns whether it succeeded. */
static bool inspect_text(const int32_t *ids, uint32_t count, bool is_gpt)
{
    finish();
    if (!open_inspection(ids, count, ids, is_gpt ? 0 : count))
        return false;
    uint32_t layers = number("minigpt.model.num_layers"), heads = number("minigpt.model.num_heads");
    uint32_t positions[] = {0, count - 1, count / 2};
    for (uint32_t i = 0; i < 3; i++) {
        const Inspection *shown = inspect(positions[i], ids[0]);
        if (!shown)
            return false;
        read_result(shown->attention, 4 * (uint64_t)layers * heads * shown->stride);
        if (shown->cross)
            read_result(shown->cross, 4 * (uint64_t)layers * heads * shown->source_length);
        read_result(shown->lens, layers * sizeof(Choice));
    }
    finish();
    return true;
}

/* Continues texts together, longer ones than the context among them. Returns whether it succeeded. */
static bool continue_together(const int32_t *ids, uint32_t count, uint32_t max_len)
{
    enum { TEXTS = 3 };
    uint32_t room = (max_len < MOST_IDS ? max_len : MOST_IDS) + TOKENS;
    if (!open_batch(TEXTS, room + MOST_IDS))
        return false;
    float value = -1;
    for (uint32_t i = 0; i < TEXTS; i++)
        if (!start_slot(i, ids, i ? count : 0, i == 1 ? room : TOKENS, 0.8f, 5, 0.9f, 0.01f, 0.7f, 1.2f, 7)
            || !bias_slot(i, ids, &value, count > 0) || !penalize_slot(i, 0.5f, 0.5f) || !record_slot(i))
            return false;
    for (uint32_t step = 0; step < room + 2; step++) {
        const int32_t *results = step_batch();
        if (!results)
            return false;
        read_result(results, 4 * TEXTS);
        read_result(slot_choice(step % TEXTS), sizeof(Choice));
        if (step == TOKENS)
            close_slot(1);
    }
    return true;
}

/* Makes two steps of learning and reads the new file. Returns 0, or the letter of what failed. */
static char learn_text(const int32_t *ids, uint32_t count, uint32_t max_len, uint32_t size)
{
    uint32_t length = count - 1 < max_len ? count - 1 : max_len;
    finish();
    if (!open_learning(ids, count, length, 2, 7, 2, 0.01f))
        return failed('n');
    /* The weights may be such that the loss is not a finite number. */
    for (int step = 0; step < 2; step++)
        if (learn() < 0)
            failed('v');
    if (!score(ids, 1))
        return failed('c');
    finish();
    close_learning();
    const uint8_t *data = current_file();
    if (!data)
        return failed('f');
    read_result(data, size);
    finish();
    return 0;
}

char use_file(const uint8_t *data, uint32_t size)
{
    release_to(0);
    fail(NULL);
    uint8_t *copy = allocate(size);
    if (!copy)
        return failed('m');
    memcpy(copy, data, size);
    if (!open_file(copy, size))
        return failed('r');
    int32_t ids[MOST_IDS];
    uint32_t count, vocab_size = number("minigpt.model.vocab_size"), max_len = number("minigpt.model.max_len");
    /* Without a NUL, in memory of its own. */
    uint8_t *encodable = allocate(sizeof text - 1);
    if (!encodable)
        return failed('m');
    memcpy(encodable, text, sizeof text - 1);
    const Encoded *encoded = encode_text(encodable, sizeof text - 1);
    if (!encoded)
        return failed('e');
    read_result(encoded->ids, 4 * (uint64_t)encoded->count);
    count = encoded->count < MOST_IDS ? encoded->count : MOST_IDS;
    memcpy(ids, encoded->ids, 4 * count);
    set_sampling(0.8f, 5, 0.9f, 0.01f, 0.7f, 1.2f, 7);
    if (!set_banned(ids, 1))
        return failed('b');
    finish();
    bool is_gpt = find_key("minigpt.model.kind", 18)->size == 3;
    uint32_t read = count < max_len ? count : max_len;
    if (!(is_gpt ? start(ids, count, 0, TOKENS) : start_translation(ids, read, TOKENS)))
        return failed('s');
    set_recording(true);
    int32_t added = add_tokens(TOKENS);
    if (added < 0)
        return failed('t');
    read_result(newest_choice(), sizeof(Choice));
    read_result(new_tokens_end() - added, 4 * (uint64_t)added);
    if (read && !inspect_text(ids, read, is_gpt))
        return failed('i');
    finish();
    if (!is_gpt)
        return 'T';
    const float *scores = score(ids, read);
    if (!scores)
        return failed('c');
    read_result(scores, 4 * (uint64_t)read * vocab_size);
    finish();
    const Choice *choices = describe_text(ids, read);
    if (!choices)
        return failed('d');
    read_result(choices, read * sizeof(Choice));
    finish();
    if (read && !mean_latent(ids, read))
        return failed('l');
    finish();
    if (!continue_together(ids, count, max_len))
        return failed('o');
    char letter = count > 1 ? learn_text(ids, count, max_len, size) : 0;
    return letter ? letter : 'G';
}

static void use_and_tell(const uint8_t *data, uint32_t size)
{
    enum { SECONDS = 10 };
    alarm(SECONDS);
    allocations = 0;
    char letter = use_file(data, size);
    if (write(1, &letter, 1) != 1)
        abort();
}

static void use_stream(FILE *stream, uint32_t size, bool without_memory)
{
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, stream) != size)
        abort();
    failing = 0;
    do {
        failing += without_memory;
        use_and_tell(data, size);
    } while (failing && failing <= allocations);
    free(data);
}

static void use_path(const char *path, bool without_memory)
{
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END))
        abort();
    uint32_t size = (uint32_t)ftell(stream);
    rewind(stream);
    use_stream(stream, size, without_memory);
    fclose(stream);
}

int main(int count, char **arguments)
{
    bool without_memory = count > 1 && __builtin_strcmp(arguments[1], "--without-memory") == 0;
    uint32_t size;
    if (count == 1)
        while (fread(&size, 4, 1, stdin) == 1)
            use_stream(stdin, size, false);
    for (int i = 1 + without_memory; i < count; i++)
        use_path(arguments[i], without_memory);
    release_to(0);
    return 0;
}
