/* Several texts of a GPT that are continued together. Texts begin and end independently of each other.

   A step reads tokens of all texts in one pass, and adds a token to each text that has been read. Long prompts are read in parts, so
   that the other texts go on meanwhile. A text gets the same tokens as if it were continued alone. */
#include "choices.h"
#include "parts.h"
#include "session.h"
#include "text.h"

typedef struct {
    Text text;
    float *bias;  /* [V]: that of the request, and the penalties of the new tokens */
    bool *is_new; /* [V]: which tokens are among the new ones */
    float frequency_penalty, presence_penalty;
    bool is_open, is_recording;
} Slot;

/* Results of a step that are no tokens. */
enum { ENDED = -1, NOTHING_NEW = -2 };

static Slot *slots;
static uint32_t slot_count, most_tokens, turn;
static int32_t *results; /* [slot_count] */
static Choice *choices;  /* [slot_count] */

void close_batch(void)
{
    slot_count = 0;
}

/* Takes the memory for `count` texts, each of at most `tokens` tokens: those of the prompt, an end token before an empty prompt, and
   the new ones. It is kept as long as the file is open. */
EXPORT("open_batch") bool open_batch(uint32_t count, uint32_t tokens)
{
    const Model *model = open_model();
    slot_count = 0;
    if (!model)
        return false;
    if (model->kind != GPT)
        return fail("this model does not continue text", NULL);
    if (count == 0 || tokens == 0 || tokens > UINT32_MAX / 8)
        return fail("out of memory", NULL);
    slots = allocate((uint64_t)count * sizeof(Slot));
    results = allocate((uint64_t)count * 4);
    choices = allocate((uint64_t)count * sizeof(Choice));
    if (!slots || !results || !choices)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        Slot *slot = &slots[i];
        slot->bias = allocate((uint64_t)model->vocab_size * 4);
        slot->is_new = allocate(model->vocab_size);
        slot->text.bias = slot->bias;
        slot->text.seen = allocate(model->vocab_size);
        slot->text.tokens = allocate((uint64_t)tokens * 4);
        if (!slot->bias || !slot->is_new || !slot->text.seen || !slot->text.tokens
            || !open_context(&slot->text.context, model, tokens < model->max_len ? tokens : model->max_len))
            return false;
    }
    slot_count = count;
    most_tokens = tokens;
    turn = 0;
    keep_memory();
    return true;
}

static Slot *find_slot(uint32_t number)
{
    if (number < slot_count)
        return &slots[number];
    fail("there is no such text in the batch", NULL);
    return NULL;
}

/* Starts a text in place of the one that is there. Its sampling settings follow the number of tokens. */
EXPORT("start_slot")
bool start_slot(uint32_t number, const int32_t *ids, uint32_t count, uint32_t max_new_tokens, SAMPLING_PARAMETERS)
{
    const Model *model = open_model();
    Slot *slot = find_slot(number);
    if (!model || !slot || !are_tokens(ids, count))
        return false;
    if ((uint64_t)count + !count + max_new_tokens > most_tokens)
        return fail("a text has more tokens than the batch allows", NULL);
    Text *text = &slot->text;
    text->settings = (SamplingSettings)SAMPLING_ARGUMENTS;
    text->limit = max_new_tokens;
    text->token_count = text->new_count = text->context.length = 0;
    text->has_ended = false;
    memset(text->seen, 0, model->vocab_size);
    memset(slot->is_new, 0, model->vocab_size);
    ban_undrawable(slot->bias);
    /* An empty prompt starts a document: after an end token. */
    if (!count)
        text->tokens[text->token_count++] = end_token();
    for (uint32_t i = 0; i < count; i++) {
        text->tokens[text->token_count++] = ids[i];
        text->seen[ids[i]] = true;
    }
    slot->frequency_penalty = slot->presence_penalty = 0;
    slot->is_recording = false;
    return slot->is_open = true;
}

/* Adds a value to the logit of each of some tokens; -inf bans one. */
EXPORT("bias_slot") bool bias_slot(uint32_t number, const int32_t *ids, const float *values, uint32_t count)
{
    Slot *slot = find_slot(number);
    if (!slot || !are_tokens(ids, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        slot->bias[ids[i]] += values[i];
    return true;
}

/* Lowers the logit of each new token: by `presence` once, and by `frequency` as often as it is added. */
EXPORT("penalize_slot") bool penalize_slot(uint32_t number, float frequency, float presence)
{
    Slot *slot = find_slot(number);
    if (!slot)
        return false;
    slot->frequency_penalty = frequency;
    slot->presence_penalty = presence;
    return true;
}

/* Has `slot_choice` describe the newest token. */
EXPORT("record_slot") bool record_slot(uint32_t number)
{
    Slot *slot = find_slot(number);
    return slot && (slot->is_recording = true);
}

/* Returns how the newest token was chosen, if that is recorded. */
EXPORT("slot_choice") const Choice *slot_choice(uint32_t number)
{
    return find_slot(number) ? &choices[number] : NULL;
}

/* Ends a text. Its place is free. */
EXPORT("close_slot") void close_slot(uint32_t number)
{
    Slot *slot = find_slot(number);
    if (slot)
        slot->is_open = false;
}

/* The tokens that are read in a step, and the texts that are read to their ends by it. */
typedef struct {
    Context **contexts; /* [rows], one for each token */
    int32_t *ids;       /* [rows] */
    uint32_t rows;
    uint32_t *numbers;  /* [texts] */
    uint32_t *last;     /* [texts]: which row is the last token of the text */
    uint32_t texts;
} Plan;

static bool make_plan(Plan *plan, const Model *model)
{
    /* One token of each text; and up to SPAN further tokens of prompts, the first texts in turn. */
    uint32_t budget = SPAN;
    uint64_t most = (uint64_t)SPAN + slot_count;
    *plan = (Plan){
        .contexts = allocate(most * sizeof(Context *)),
        .ids = allocate(most * 4),
        .numbers = allocate((uint64_t)slot_count * 4),
        .last = allocate((uint64_t)slot_count * 4),
    };
    if (!plan->contexts || !plan->ids || !plan->numbers || !plan->last)
        return false;
    for (uint32_t i = 0; i < slot_count; i++) {
        uint32_t number = (turn + i) % slot_count, count;
        Slot *slot = &slots[number];
        results[number] = NOTHING_NEW;
        if (!slot->is_open || !is_open_ended(&slot->text))
            continue;
        const int32_t *unread = unread_tokens(&slot->text, model, &count);
        uint32_t more = count - 1 < budget ? count - 1 : budget;
        budget -= more;
        for (uint32_t t = 0; t <= more; t++) {
            plan->contexts[plan->rows] = &slot->text.context;
            plan->ids[plan->rows++] = unread[t];
        }
        if (more + 1 == count) {
            plan->numbers[plan->texts] = number;
            plan->last[plan->texts++] = plan->rows - 1;
        }
    }
    turn++;
    return true;
}

/* Adds a token to a text. logits, before: [V], before any change. */
static bool add_to_slot(uint32_t number, const Model *model, float *logits, float *before)
{
    Slot *slot = &slots[number];
    if (slot->is_recording)
        memcpy(before, logits, (uint64_t)model->vocab_size * 4);
    int32_t token = choose_token(&slot->text, model, end_token(), logits);
    if (token < 0)
        return false;
    if (slot->is_recording)
        describe_choice(before, model->vocab_size, token, &choices[number]);
    add_token(&slot->text, model, end_token(), token);
    results[number] = slot->text.has_ended ? ENDED : token;
    if (!slot->is_new[token])
        slot->bias[token] -= slot->presence_penalty;
    slot->bias[token] -= slot->frequency_penalty;
    slot->is_new[token] = true;
    return true;
}

static bool step(const Model *model)
{
    uint32_t width = model->embed_dim, vocab_size = model->vocab_size;
    Plan plan;
    if (!make_plan(&plan, model))
        return false;
    float *latents = allocate((uint64_t)plan.rows * width * 4);
    float *logits = allocate((uint64_t)plan.texts * vocab_size * 4), *before = allocate((uint64_t)vocab_size * 4);
    if (!latents || !logits || !before)
        return false;
    if (plan.rows && !read_together(plan.contexts, model, plan.ids, plan.rows, latents))
        return false;
    /* The rows are in order, so that none is overwritten before it is moved. */
    for (uint32_t i = 0; i < plan.texts; i++)
        memmove(latents + (uint64_t)i * width, latents + (uint64_t)plan.last[i] * width, (uint64_t)width * 4);
    if (plan.texts && !compute_logits(model, latents, plan.texts, logits))
        return false;
    for (uint32_t i = 0; i < plan.texts; i++)
        if (!add_to_slot(plan.numbers[i], model, logits + (uint64_t)i * vocab_size, before))
            return false;
    return true;
}

/* Does a step. Returns for each text its new token, -1 if it has ended, or -2 if nothing was added; NULL after an error. */
EXPORT("step_batch") const int32_t *step_batch(void)
{
    uint32_t mark = memory_mark();
    bool done = open_model() && step(open_model());
    release_to(mark);
    return done ? results : NULL;
}
