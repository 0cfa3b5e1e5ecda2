/* Choosing and adding the next token of a text. */
#include "text.h"

/* Beyond the context, all positions shift with every token, so that no cached key stays valid: `add_token` forgets the cache, and
   the newest max_len tokens are read again. */
const int32_t *unread_tokens(const Text *text, const Model *model, uint32_t *count)
{
    uint32_t first = text->token_count > model->max_len ? text->token_count - model->max_len : 0;
    uint32_t read = first + text->context.length;
    *count = text->token_count - read;
    return text->tokens + read;
}

bool adjust_logits(const Text *text, const Model *model, float *logits)
{
    float penalty = text->settings.repetition_penalty > 0 ? text->settings.repetition_penalty : 1;
    bool has_choice = false;
    for (uint32_t i = 0; i < model->vocab_size; i++) {
        if (text->seen[i] && model->kind == GPT)
            logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
        bool is_banned = text->bias[i] == -__builtin_inff();
        logits[i] = is_banned ? text->bias[i] : logits[i] + text->bias[i];
        has_choice |= !is_banned;
    }
    return has_choice;
}

int32_t choose_token(const Text *text, const Model *model, int32_t end_id, float *logits)
{
    if (!adjust_logits(text, model, logits))
        return end_id;
    if (model->kind == ENCODER_DECODER)
        return (int32_t)most_probable(logits, model->vocab_size);
    return draw_token(logits, model->vocab_size, &text->settings, (int32_t)text->new_count);
}

void add_token(Text *text, const Model *model, int32_t end_id, int32_t token)
{
    if (token == end_id) {
        text->has_ended = true;
        return;
    }
    text->tokens[text->token_count++] = token;
    text->new_count++;
    text->seen[token] = true;
    if (text->token_count > model->max_len)
        text->context.length = 0;
}

bool is_open_ended(const Text *text)
{
    return !text->has_ended && text->new_count < text->limit;
}
