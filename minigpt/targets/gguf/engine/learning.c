/* Learning from a text: windows of it, Adam with a rate that falls to 0, and the file with the new weights. */
#include "learning.h"

#include "parts.h"
#include "sampling.h"
#include "session.h"

static Learning learning;
static bool is_learning;
static uint32_t mark; /* the memory before */
static const int32_t *text;
static uint32_t text_count;
static int32_t seed;
static float learning_rate;
static float *means, *squares; /* [size]: of the gradients, as Adam keeps them */
static uint32_t steps, planned_steps;
static double mean_power, square_power; /* of the two decay rates */

/* Those of Kingma & Ba 2015; the small constant is that of Keras. */
static const float mean_decay = 0.9f, square_decay = 0.999f, mean_share = 0.1f, square_share = 0.001f, small = 1e-7f;

static const char steps_key[] = "minigpt.learned_steps", checksum_key[] = "minigpt.crc32";

static const Value *uint32_value(const char *key, uint32_t key_size)
{
    const Value *value = find_value(open_gguf(), key, key_size);
    return value && value->type == GGUF_UINT32 && !value->is_array ? value : NULL;
}

void stop_learning(void)
{
    is_learning = false;
}

/* Ends learning; the model keeps what it has learned. */
EXPORT("close_learning") void close_learning(void)
{
    if (!is_learning)
        return;
    is_learning = false;
    release_to(mark);
    keep_memory();
}

/* Measured with the base model: EXPERIMENTS.md. The larger a model, the smaller its rate. */
static float usual_rate(void)
{
    return 5e-4f * square_root(5e6f / (float)learning.size);
}

/* Three passes over 5,600 tokens, about 20 KB; the steps grow as the root of the length. */
static uint32_t usual_steps(void)
{
    return 1 + (uint32_t)(3 * square_root(5600.0f * (float)text_count) / (float)learning.count);
}

static bool open_memory(uint32_t length, uint32_t batch)
{
    uint64_t count = (uint64_t)length * batch;
    if (count > 1u << 24)
        return false;
    learning = (Learning){.model = open_model(), .batch = batch, .length = length, .count = (uint32_t)count};
    learning.ids = allocate(count * 4);
    learning.targets = allocate(count * 4);
    if (!learning.ids || !learning.targets || !copy_weights(&learning))
        return false;
    means = allocate(learning.size * 4);
    squares = allocate(learning.size * 4);
    return means && squares && open_passes(&learning);
}

/* Prepares `learn`. ids: those of the text, more than `length`; they stay where they are, and `finish` was called before they were
   allocated. step_count, rate: 0 for those that suit the text and the model. Texts that were begun must be started again after
   `close_learning`. Returns the number of steps, 0 after `fail`. */
EXPORT("open_learning")
uint32_t open_learning(
    const int32_t *ids, uint32_t count, uint32_t length, uint32_t batch, int32_t first_seed, uint32_t step_count, float rate)
{
    const Model *model = open_model();
    if (!model || is_learning)
        return fail("no file is open, or it is learning", NULL);
    if (model->kind != GPT)
        return fail("this model translates; only models that continue text can learn", NULL);
    if (!are_tokens(ids, count))
        return false;
    if (!length || length > model->max_len || length >= count || !batch)
        return fail("a window should have at least 1 token, and no more than the context and the text", NULL);
    if (!uint32_value(steps_key, sizeof steps_key - 1))
        return fail("the key ", steps_key, " is missing: an earlier version of minigpt wrote this file", NULL);
    mark = kept_memory();
    if (!open_memory(length, batch)) {
        release_to(mark);
        return fail("there is not enough memory to learn: shorter windows, or fewer of them, need less", NULL);
    }
    text = ids;
    text_count = count;
    seed = first_seed;
    learning_rate = rate > 0 ? rate : usual_rate();
    steps = 0;
    planned_steps = step_count ? step_count : usual_steps();
    mean_power = square_power = 1;
    keep_memory();
    is_learning = true;
    return planned_steps;
}

/* Draws the windows of a step: each begins anywhere in the text. */
static void draw_windows(void)
{
    uint32_t length = learning.length, starts = text_count - length;
    for (uint32_t window = 0; window < learning.batch; window++) {
        int32_t number = (int32_t)(steps * learning.batch + window);
        uint32_t start = (uint32_t)((double)uniform(seed, number) * starts);
        memcpy(learning.ids + (uint64_t)window * length, text + start, (uint64_t)length * 4);
        memcpy(learning.targets + (uint64_t)window * length, text + start + 1, (uint64_t)length * 4);
    }
}

static bool are_finite(const float *numbers, uint64_t count)
{
    f32x4 sums = {0};
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4) /* 0 x is NaN if x is not finite. */
        sums += load4(numbers + i) * splat4(0);
    float sum = sum4(sums);
    for (; i < count; i++)
        sum += numbers[i] * 0.0f;
    return sum == 0.0f;
}

/* As `keras.optimizers.Adam` with a linear decay of the rate. */
static void update(void)
{
    mean_power *= mean_decay;
    square_power *= square_decay;
    float left = 1 - (float)steps / (float)planned_steps;
    float rate = learning_rate * left * square_root(1 - (float)square_power) / (1 - (float)mean_power);
    for (uint64_t i = 0; i < learning.size; i++) {
        float gradient = learning.gradients[i];
        means[i] += (gradient - means[i]) * mean_share;
        squares[i] += (gradient * gradient - squares[i]) * square_share;
        learning.values[i] -= rate * means[i] / (square_root(squares[i]) + small);
    }
}

/* Makes a step. Returns the mean cross-entropy of its windows before the step, in nats; -1 after `fail`. The model has the new
   weights. */
EXPORT("learn") float learn(void)
{
    if (!is_learning || steps == planned_steps) {
        fail("nothing is being learned", NULL);
        return -1;
    }
    draw_windows();
    double loss = compute_gradients(&learning);
    /* The weights would be lost. */
    if (!(loss >= 0 && loss < 1e30) || !are_finite(learning.gradients, learning.size)) {
        fail("the loss is no longer a finite number: the learning rate is too large", NULL);
        return -1;
    }
    update();
    steps++;
    write_weights();
    const Value *value = uint32_value(steps_key, sizeof steps_key - 1);
    uint32_t learned;
    memcpy(&learned, value->data, 4);
    learned += learned < UINT32_MAX;
    memcpy((uint8_t *)value->data, &learned, 4);
    return (float)loss;
}

/* Returns the gradients of the last step, for the tests: of the tokens, positions and n-grams; of each block in the order of
   parameters.c; of the final norm and the head. */
EXPORT("learning_gradients") const float *learning_gradients(void)
{
    return is_learning ? learning.gradients : NULL;
}

static uint32_t crc32(const uint8_t *data, uint32_t size)
{
    uint32_t table[256], sum = UINT32_MAX;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320 : 0);
    }
    for (uint32_t i = 0; i < size; i++)
        sum = sum >> 8 ^ table[(sum ^ data[i]) & 255];
    return ~sum;
}

/* Returns the file with the weights that the model has now, of the size of the open one; NULL after `fail`. It must be freed with
   `release_to`. */
EXPORT("current_file") const uint8_t *current_file(void)
{
    const Gguf *file = open_gguf();
    const Model *model = open_model();
    if (!model)
        return NULL;
    if (model->kind != GPT) {
        fail("this model translates; only models that continue text can be saved", NULL);
        return NULL;
    }
    uint8_t *data = allocate(file->size);
    if (!data)
        return NULL;
    memcpy(data, file->data, file->size);
    if (!write_tensors(model, file->data, data))
        return NULL;
    const Value *value = uint32_value(checksum_key, sizeof checksum_key - 1);
    if (value) {
        uint8_t *place = data + (value->data - file->data);
        memset(place, 0, 4);
        uint32_t checksum = crc32(data, (uint32_t)file->size);
        memcpy(place, &checksum, 4);
    }
    return data;
}
