/* The most probable tokens of a choice. */
#include "choices.h"

#include "functions.h"
#include "sampling.h"

/* The sum of e^(logit - largest). */
static double sum_of_weights(const float *logits, uint32_t vocab_size, float largest)
{
    double sum = 0;
    uint32_t i = 0;
    for (; i + 4 <= vocab_size; i += 4)
        sum += sum4(exp4(load4(logits + i) - splat4(largest)));
    for (; i < vocab_size; i++)
        sum += exp1(logits[i] - largest);
    return sum;
}

/* Inserts a token into the sorted guesses, after those that are as probable. */
static void insert(int32_t id, float logit, float *logits, Choice *choice)
{
    uint32_t at = GUESSES - 1;
    for (; at > 0 && logit > logits[at - 1]; at--) {
        logits[at] = logits[at - 1];
        choice->ids[at] = choice->ids[at - 1];
    }
    logits[at] = logit;
    choice->ids[at] = id;
}

void describe_choice(const float *logits, uint32_t vocab_size, int32_t chosen, Choice *choice)
{
    float best[GUESSES];
    for (uint32_t i = 0; i < GUESSES; i++) {
        best[i] = -__builtin_inff();
        choice->ids[i] = -1;
    }
    for (uint32_t i = 0; i < vocab_size; i++)
        if (logits[i] > best[GUESSES - 1])
            insert((int32_t)i, logits[i], best, choice);
    float largest = logits[most_probable(logits, vocab_size)];
    float sum = (float)sum_of_weights(logits, vocab_size, largest);
    for (uint32_t i = 0; i < GUESSES; i++)
        choice->probabilities[i] = choice->ids[i] < 0 ? 0 : exp1(best[i] - largest) / sum;
    choice->probability = chosen < 0 ? 0 : exp1(logits[chosen] - largest) / sum;
}
