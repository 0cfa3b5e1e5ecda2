/* A text that is being continued or translated: its tokens, and how the next one is chosen. */
#ifndef MINIGPT_TEXT_H
#define MINIGPT_TEXT_H

#include "forward.h"
#include "sampling.h"

typedef struct {
    SamplingSettings settings;
    const float *bias;    /* [V], added to the logits; -inf for tokens that are never generated */
    bool *seen;           /* [V]: which tokens are in the text */
    int32_t *tokens;      /* the prompt and what was added */
    uint32_t token_count, new_count, limit; /* limit: the maximum of new_count */
    bool has_ended;
    Context context;
} Text;

/* Returns the tokens that must be read before the next one can be chosen; `count` is at least 1. */
const int32_t *unread_tokens(const Text *text, const Model *model, uint32_t *count);

/* Applies penalties and bans to the logits, [V]. Returns whether a token can be chosen. */
bool adjust_logits(const Text *text, const Model *model, float *logits);

/* Chooses the next token. Changes the logits, [V]. Returns end_id if no token can be chosen, -1 after `fail`. */
int32_t choose_token(const Text *text, const Model *model, int32_t end_id, float *logits);

/* Adds the token that was chosen. The end token only ends the text. */
void add_token(Text *text, const Model *model, int32_t end_id, int32_t token);

/* Whether the text can have another token. */
bool is_open_ended(const Text *text);

#endif
