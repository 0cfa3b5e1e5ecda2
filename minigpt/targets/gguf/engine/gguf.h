/* A GGUF file in memory: keys with values, and tensors. */
#ifndef MINIGPT_GGUF_H
#define MINIGPT_GGUF_H

#include "engine.h"

typedef enum {
    GGUF_UINT8, GGUF_INT8, GGUF_UINT16, GGUF_INT16, GGUF_UINT32, GGUF_INT32, GGUF_FLOAT32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_UINT64, GGUF_INT64, GGUF_FLOAT64, GGUF_TYPES
} GgufType;

/* Types of tensors. */
enum { TENSOR_F32 = 0, TENSOR_F16 = 1, TENSOR_Q8_0 = 8 };

/* The data points into the file and may not be aligned. */
typedef struct {
    const uint8_t *name;
    uint32_t name_size;
    uint32_t type;          /* GgufType; of the elements of an array */
    uint32_t is_array;
    uint32_t count;         /* of an array, otherwise 1 */
    const uint8_t *data;    /* a string without its length */
    uint32_t size;          /* bytes of data */
} Value;

typedef struct {
    const uint8_t *name;
    uint32_t name_size;
    uint32_t type;
    uint32_t dimensions;
    uint64_t shape[4];      /* the innermost dimension first */
    uint64_t offset;
} Tensor;

typedef struct {
    const uint8_t *data;
    uint64_t size;
    Value *values;
    uint32_t value_count;
    Tensor *tensors;
    uint32_t tensor_count;
    uint64_t tensor_data;   /* where the tensors begin */
} Gguf;

/* Reads the tables of a file. Every length is checked. */
bool read_gguf(Gguf *file, const uint8_t *data, uint64_t size);

/* Returns the value of a key, NULL if there is none. */
const Value *find_value(const Gguf *file, const char *name, uint32_t name_size);

/* These read a value of the type that they name; they fail if it is missing or of another type. */
bool get_uint32(const Gguf *file, const char *name, uint32_t *value);
bool get_int32(const Gguf *file, const char *name, int32_t *value);
bool get_float32(const Gguf *file, const char *name, float *value);
bool get_bool(const Gguf *file, const char *name, bool *value);
/* Copies an array to aligned memory, because its bytes may be anywhere. `type` is UINT8, INT32, UINT32 or FLOAT32. */
bool get_array(const Gguf *file, const char *name, GgufType type, const void **data, uint32_t *count);
/* Returns the index of a string among the choices, which end with NULL. Fails, and returns -1, if it is none of them. */
int get_choice(const Gguf *file, const char *name, const char *const *choices);
/* Fails if a key begins with the prefix and goes on with none of the names, which end with NULL. */
bool has_only_keys(const Gguf *file, const char *prefix, const char *const *names);

/* Returns a tensor of the given shape, or NULL after `fail`. columns: the inner dimension; rows: the outer one, 0 for a vector.
   *data is the first byte; all bytes are inside the file. */
const Tensor *find_tensor(const Gguf *file, const char *name, uint64_t columns, uint64_t rows, const uint8_t **data);
/* Returns the bytes of a row, 0 if the type is unknown or does not have such rows. */
uint64_t row_bytes(uint32_t type, uint64_t columns);
/* Returns whether there is a tensor of this name. */
bool has_tensor(const Gguf *file, const char *name);

#endif
