/* Reading GGUF, version 3, little-endian. A file may come from anybody: nothing in it is believed before it is checked.
   https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#include "gguf.h"

#define MAGIC 0x46554747u /* "GGUF" */

static const uint8_t type_sizes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Reads from `next` to `end`; every read is preceded by a check of what is left. */
typedef struct {
    const uint8_t *next, *end;
} Cursor;

static bool has_left(const Cursor *cursor, uint64_t bytes)
{
    return bytes <= (uint64_t)(cursor->end - cursor->next) || fail("the file is not complete", NULL);
}

static bool read_bytes(Cursor *cursor, void *to, uint32_t bytes)
{
    if (!has_left(cursor, bytes))
        return false;
    memcpy(to, cursor->next, bytes);
    cursor->next += bytes;
    return true;
}

static bool read_string(Cursor *cursor, const uint8_t **text, uint32_t *size)
{
    uint64_t length;
    if (!read_bytes(cursor, &length, 8) || !has_left(cursor, length))
        return false;
    *text = cursor->next;
    *size = (uint32_t)length;
    cursor->next += length;
    return true;
}

static bool read_array(Cursor *cursor, Value *value)
{
    uint64_t count;
    if (!read_bytes(cursor, &value->type, 4) || !read_bytes(cursor, &count, 8))
        return false;
    if (value->type >= GGUF_TYPES || value->type == GGUF_ARRAY)
        return fail("an array has elements of an unknown type", NULL);
    /* A string has at least the 8 bytes of its length. */
    uint32_t element = value->type == GGUF_STRING ? 8 : type_sizes[value->type];
    if (count > UINT32_MAX / 8 || !has_left(cursor, count * element))
        return fail("an array is longer than the file", NULL);
    value->is_array = true;
    value->count = (uint32_t)count;
    value->data = cursor->next;
    if (value->type == GGUF_STRING) {
        const uint8_t *text;
        uint32_t size;
        for (uint64_t i = 0; i < count; i++)
            if (!read_string(cursor, &text, &size))
                return false;
    } else {
        cursor->next += count * element;
    }
    value->size = (uint32_t)(cursor->next - value->data);
    return true;
}

static bool read_value(Cursor *cursor, Value *value)
{
    if (!read_string(cursor, &value->name, &value->name_size) || !read_bytes(cursor, &value->type, 4))
        return false;
    value->is_array = false;
    value->count = 1;
    if (value->type >= GGUF_TYPES)
        return fail("a key has a value of an unknown type", NULL);
    if (value->type == GGUF_ARRAY)
        return read_array(cursor, value);
    if (value->type == GGUF_STRING)
        return read_string(cursor, &value->data, &value->size);
    value->size = type_sizes[value->type];
    if (!has_left(cursor, value->size))
        return false;
    value->data = cursor->next;
    cursor->next += value->size;
    return true;
}

static bool read_tensor(Cursor *cursor, Tensor *tensor)
{
    if (!read_string(cursor, &tensor->name, &tensor->name_size) || !read_bytes(cursor, &tensor->dimensions, 4))
        return false;
    if (tensor->dimensions > 4)
        return fail("a tensor has more than 4 dimensions", NULL);
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        if (!read_bytes(cursor, &tensor->shape[i], 8))
            return false;
    return read_bytes(cursor, &tensor->type, 4) && read_bytes(cursor, &tensor->offset, 8);
}

/* The smallest entries have a name's length and a type, or a number of dimensions, a type and an offset. */
enum { SMALLEST_VALUE = 8 + 4 + 1, SMALLEST_TENSOR = 8 + 4 + 4 + 8 };

/* No model has more; and looking all of them up takes time with the square of their number. */
enum { MOST_TENSORS = 16384 };

/* Returns whether the file is as large as its tensors. If they overlapped, a small file could need any amount of memory. */
static bool tensors_fit(const Gguf *file)
{
    uint64_t left = file->tensor_data <= file->size ? file->size - file->tensor_data : 0;
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const Tensor *tensor = &file->tensors[i];
        /* No product exceeds 64 bits. Other types have no bytes, and are never read. */
        uint64_t bytes = tensor->shape[0] <= left ? row_bytes(tensor->type, tensor->shape[0]) : UINT64_MAX;
        for (uint32_t d = 1; d < tensor->dimensions; d++)
            bytes = tensor->shape[d] && bytes > left / tensor->shape[d] ? UINT64_MAX : bytes * tensor->shape[d];
        if (bytes > left)
            return fail("the file is not complete", NULL);
        left -= bytes;
    }
    return true;
}

bool read_gguf(Gguf *file, const uint8_t *data, uint64_t size)
{
    Cursor cursor = {data, data + size};
    uint32_t magic, version;
    uint64_t tensors, values;
    memset(file, 0, sizeof *file);
    file->data = data;
    file->size = size;
    if (size < 4 || !read_bytes(&cursor, &magic, 4) || magic != MAGIC)
        return fail("is not a GGUF file", NULL);
    if (!read_bytes(&cursor, &version, 4) || !read_bytes(&cursor, &tensors, 8) || !read_bytes(&cursor, &values, 8))
        return false;
    if (version != 3)
        return fail("is not GGUF version 3, little-endian", NULL);
    if (values > size / SMALLEST_VALUE || tensors > size / SMALLEST_TENSOR || tensors > MOST_TENSORS)
        return fail(tensors > MOST_TENSORS ? "the file has too many tensors" : "the file is not complete", NULL);
    file->values = allocate(values * sizeof(Value));
    file->tensors = allocate(tensors * sizeof(Tensor));
    if (!file->values || !file->tensors)
        return false;
    for (; file->value_count < values; file->value_count++)
        if (!read_value(&cursor, &file->values[file->value_count]))
            return false;
    for (; file->tensor_count < tensors; file->tensor_count++)
        if (!read_tensor(&cursor, &file->tensors[file->tensor_count]))
            return false;
    uint32_t alignment = 32;
    if (find_value(file, "general.alignment", 17) && !get_uint32(file, "general.alignment", &alignment))
        return false;
    /* Vectors of 16 bytes are read from the tensors. */
    if (alignment == 0 || alignment % 16)
        return fail("general.alignment: should be a multiple of 16", NULL);
    uint64_t end = (uint64_t)(cursor.next - data);
    file->tensor_data = (end + alignment - 1) / alignment * alignment;
    return tensors_fit(file);
}

const Value *find_value(const Gguf *file, const char *name, uint32_t name_size)
{
    for (uint32_t i = 0; i < file->value_count; i++) {
        const Value *value = &file->values[i];
        if (value->name_size == name_size && memcmp(value->name, name, name_size) == 0)
            return value;
    }
    return NULL;
}

static uint32_t text_size(const char *text)
{
    uint32_t size = 0;
    while (text[size])
        size++;
    return size;
}

static const Value *checked_value(const Gguf *file, const char *name, GgufType type, bool is_array)
{
    const Value *value = find_value(file, name, text_size(name));
    if (!value)
        fail("the key ", name, " is missing: minigpt did not write this file", NULL);
    else if (value->type != (uint32_t)type || value->is_array != (uint32_t)is_array) {
        fail("the key ", name, " has a value of another type", NULL);
        value = NULL;
    }
    return value;
}

static bool get_scalar(const Gguf *file, const char *name, GgufType type, void *to)
{
    const Value *value = checked_value(file, name, type, false);
    if (value)
        memcpy(to, value->data, value->size);
    return value;
}

bool get_uint32(const Gguf *file, const char *name, uint32_t *value)
{
    return get_scalar(file, name, GGUF_UINT32, value);
}

bool get_int32(const Gguf *file, const char *name, int32_t *value)
{
    return get_scalar(file, name, GGUF_INT32, value);
}

bool get_float32(const Gguf *file, const char *name, float *value)
{
    return get_scalar(file, name, GGUF_FLOAT32, value);
}

bool get_bool(const Gguf *file, const char *name, bool *value)
{
    uint8_t byte = 0;
    bool found = get_scalar(file, name, GGUF_BOOL, &byte);
    *value = byte != 0;
    return found;
}

bool get_array(const Gguf *file, const char *name, GgufType type, const void **data, uint32_t *count)
{
    const Value *value = checked_value(file, name, type, true);
    void *copy = value ? allocate(value->size) : NULL;
    if (!copy)
        return false;
    memcpy(copy, value->data, value->size);
    *data = copy;
    *count = value->count;
    return true;
}

int get_choice(const Gguf *file, const char *name, const char *const *choices)
{
    const Value *value = checked_value(file, name, GGUF_STRING, false);
    if (!value)
        return -1;
    for (int i = 0; choices[i]; i++)
        if (text_size(choices[i]) == value->size && memcmp(choices[i], value->data, value->size) == 0)
            return i;
    fail("the key ", name, " has an unknown value", NULL);
    return -1;
}

/* Returns whether the value's name is the prefix with this text after it. */
static bool is_named(const Value *value, const char *prefix, const char *text)
{
    uint32_t begin = text_size(prefix), size = text_size(text);
    return value->name_size == begin + size && memcmp(value->name, prefix, begin) == 0
        && memcmp(value->name + begin, text, size) == 0;
}

bool has_only_keys(const Gguf *file, const char *prefix, const char *const *names)
{
    uint32_t begin = text_size(prefix);
    for (uint32_t i = 0; i < file->value_count; i++) {
        const Value *value = &file->values[i];
        if (value->name_size < begin || memcmp(value->name, prefix, begin) != 0)
            continue;
        const char *const *name = names;
        while (*name && !is_named(value, prefix, *name))
            name++;
        if (*name)
            continue;
        /* The message is one line of text, whatever the name is. */
        char shown[64] = {0};
        for (uint32_t k = 0; k < value->name_size && k < sizeof shown - 1; k++)
            shown[k] = value->name[k] < ' ' || value->name[k] > '~' ? '?' : (char)value->name[k];
        return fail("the key ", shown, " is unknown: another version of minigpt wrote this file", NULL);
    }
    return true;
}

static const Tensor *tensor_named(const Gguf *file, const char *name)
{
    uint32_t size = text_size(name);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const Tensor *tensor = &file->tensors[i];
        if (tensor->name_size == size && memcmp(tensor->name, name, size) == 0)
            return tensor;
    }
    return NULL;
}

bool has_tensor(const Gguf *file, const char *name)
{
    return tensor_named(file, name);
}

uint64_t row_bytes(uint32_t type, uint64_t columns)
{
    switch (type) {
    case TENSOR_F32: return columns * 4;
    case TENSOR_F16: return columns * 2;
    case TENSOR_Q8_0: return columns % 32 ? 0 : columns / 32 * 34;
    default: return 0;
    }
}

const Tensor *find_tensor(const Gguf *file, const char *name, uint64_t columns, uint64_t rows, const uint8_t **data)
{
    const Tensor *tensor = tensor_named(file, name);
    if (!tensor) {
        fail("the tensor ", name, " is missing", NULL);
        return NULL;
    }
    if (tensor->dimensions != (rows ? 2 : 1) || tensor->shape[0] != columns || (rows && tensor->shape[1] != rows)) {
        fail("the tensor ", name, " has an unexpected shape", NULL);
        return NULL;
    }
    uint64_t bytes = row_bytes(tensor->type, columns);
    if (bytes == 0 || (!rows && tensor->type != TENSOR_F32)) {
        fail("the tensor ", name, " has an unexpected type", NULL);
        return NULL;
    }
    /* Below this, no product exceeds 64 bits. */
    if (rows > UINT32_MAX || bytes > UINT32_MAX) {
        fail("the tensor ", name, " is not completely in the file", NULL);
        return NULL;
    }
    bytes *= rows ? rows : 1;
    uint64_t left = file->tensor_data <= file->size ? file->size - file->tensor_data : 0;
    if (tensor->offset % 16 || tensor->offset > left || bytes > left - tensor->offset) {
        fail("the tensor ", name, " is not completely in the file", NULL);
        return NULL;
    }
    *data = file->data + file->tensor_data + tensor->offset;
    return tensor;
}
