/* Temperature, top-k, top-p, min-p, typical-p and the draw.

   Candidates are taken from a heap, the most probable first, and only as many as are needed: sorting a whole vocabulary would take
   longer than a small model's forward pass. */
#include "sampling.h"

#include "functions.h"

typedef struct {
    float logit;
    float weight; /* the probability, relative to that of the most probable token */
    uint32_t id;
} Candidate;

/* More probable, or the lower id among equals. */
static bool is_before(const Candidate *a, const Candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void sift_down(Candidate *heap, uint32_t count, uint32_t parent)
{
    Candidate moved = heap[parent];
    for (;;) {
        uint32_t child = 2 * parent + 1;
        if (child >= count)
            break;
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &moved))
            break;
        heap[parent] = heap[child];
        parent = child;
    }
    heap[parent] = moved;
}

static void make_heap(Candidate *heap, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(heap, count, i);
}

/* Moves the first candidate behind the others: afterwards the heap is one shorter. Returns it. */
static Candidate pop(Candidate *heap, uint32_t *count)
{
    Candidate first = heap[0];
    heap[0] = heap[--*count];
    heap[*count] = first;
    if (*count)
        sift_down(heap, *count, 0);
    return first;
}

uint32_t most_probable(const float *logits, uint32_t vocab_size)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab_size; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Writes the candidates and the sum of their weights, e^((logit - largest) / temperature). */
static double weigh(const float *logits, uint32_t vocab_size, float temperature, Candidate *candidates)
{
    float largest = logits[most_probable(logits, vocab_size)];
    double all = 0;
    for (uint32_t first = 0; first < vocab_size; first += 4) {
        f32x4 part = {0};
        uint32_t count = vocab_size - first < 4 ? vocab_size - first : 4;
        for (uint32_t i = 0; i < count; i++)
            part[i] = logits[first + i];
        f32x4 weights = exp4((part - splat4(largest)) / splat4(temperature));
        for (uint32_t i = 0; i < count; i++) {
            candidates[first + i] = (Candidate){part[i], weights[i], first + i};
            all += weights[i];
        }
    }
    return all;
}

/* Takes the candidates that top-k, top-p and min-p keep. Returns how many; they are at the end of the array, the first one last. */
static uint32_t take_kept(Candidate *heap, uint32_t vocab_size, const SamplingSettings *settings, double *kept)
{
    uint32_t left = vocab_size, most = vocab_size, k = (uint32_t)settings->top_k;
    double all = 0, before = 0;
    if (settings->top_k > 0 && k < vocab_size) {
        /* The probabilities of top-p are those among the k. */
        most = k;
        for (uint32_t i = 0; i < k; i++)
            all += pop(heap, &left).weight;
        make_heap(heap + left, k);
        heap += left;
        left = k;
    } else {
        for (uint32_t i = 0; i < vocab_size; i++)
            all += heap[i].weight;
    }
    uint32_t taken = 0;
    for (; taken < most && left; taken++) {
        bool has_mass = settings->top_p >= 1 || before / all < settings->top_p;
        bool is_likely = heap[0].weight >= settings->min_p;
        if (taken && !(has_mass && is_likely))
            break;
        before += pop(heap, &left).weight;
    }
    *kept = before;
    return taken;
}

/* The logit of a candidate after the temperature, relative to the largest one. */
static double score_of(const Candidate *candidate, float largest, float temperature)
{
    return ((double)candidate->logit - largest) / temperature;
}

/* Keeps the most typical candidates that have the probability typical_p together: Meister et al. 2022, "Locally Typical Sampling". The
   weights of the others become 0. candidates: the most probable one is the last one. all: the sum of their weights. Returns the sum
   of the weights that are left.

   The information of a candidate, -log of its probability, minus its expected value is the mean score minus its score. Candidates are
   taken in the order of this distance; of equal distances, the more probable one first, then the one with the lower id. */
static double keep_typical(Candidate *candidates, uint32_t count, const SamplingSettings *settings, double all)
{
    float largest = candidates[count - 1].logit, temperature = settings->temperature;
    double mean = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].weight > 0)
            mean += candidates[i].weight / all * score_of(&candidates[i], largest, temperature);
    uint32_t low = 0;
    while (low + 1 < count && score_of(&candidates[low], largest, temperature) < mean)
        low++;
    /* Kept are low to group, and next to end: of equally probable candidates, group to end, the lowest id is the last one. */
    uint32_t group = low, next = low, end = low;
    while (kept / all < settings->typical_p || (low == group && next == end)) {
        if (next == group && end < count) {
            group = end;
            while (end < count && candidates[end].logit == candidates[group].logit)
                end++;
            next = end;
        }
        double above = 0, below = 0;
        if (next > group)
            above = score_of(&candidates[group], largest, temperature) - mean;
        if (low > 0)
            below = mean - score_of(&candidates[low - 1], largest, temperature);
        if (next > group && (low == 0 || above <= below))
            kept += candidates[--next].weight;
        else if (low > 0)
            kept += candidates[--low].weight;
        else
            break;
    }
    for (uint32_t i = 0; i < count; i++)
        if (i < low || (i >= group && i < next) || i >= end)
            candidates[i].weight = 0;
    return kept;
}

static bool is_greedy(const SamplingSettings *settings)
{
    return !(settings->temperature > 0) || settings->top_k == 1;
}

/* Returns a heap of the candidates that can be drawn, how many they are, and the sum of their weights; those of weight 0 cannot.
   NULL after `fail`. */
static Candidate *open_candidates(
    const float *logits, uint32_t vocab_size, const SamplingSettings *settings, uint32_t *count, double *sum)
{
    Candidate *heap = allocate((uint64_t)vocab_size * sizeof(Candidate));
    if (!heap)
        return NULL;
    double all = weigh(logits, vocab_size, settings->temperature, heap);
    make_heap(heap, vocab_size);
    uint32_t left = vocab_size;
    bool is_cut = (settings->top_k > 0 && (uint32_t)settings->top_k < vocab_size) || settings->top_p < 1 || settings->min_p > 0
        || settings->typical_p < 1;
    if (is_cut) {
        uint32_t taken = take_kept(heap, vocab_size, settings, &all);
        /* The kept ones as a heap of their own. */
        heap += vocab_size - taken;
        left = taken;
        if (settings->typical_p < 1)
            all = keep_typical(heap, taken, settings, all);
        make_heap(heap, taken);
    }
    *count = left;
    *sum = all;
    return heap;
}

int32_t draw_token(const float *logits, uint32_t vocab_size, const SamplingSettings *settings, int32_t step)
{
    if (is_greedy(settings))
        return (int32_t)most_probable(logits, vocab_size);
    uint32_t mark = memory_mark(), left;
    double all;
    Candidate *heap = open_candidates(logits, vocab_size, settings, &left, &all);
    if (!heap)
        return -1;
    /* Inverse transform sampling over the candidates, the most probable first. */
    double threshold = (double)uniform(settings->seed, step) * all, sum = 0;
    int32_t chosen = (int32_t)heap[0].id;
    while (left) {
        Candidate candidate = pop(heap, &left);
        if (!(candidate.weight > 0))
            continue;
        chosen = (int32_t)candidate.id;
        sum += candidate.weight;
        if (sum > threshold)
            break;
    }
    release_to(mark);
    return chosen;
}

bool place_tokens(const float *logits, uint32_t vocab_size, const SamplingSettings *settings, const int32_t *ids, uint32_t count,
    Place *places)
{
    memset(places, 0, count * sizeof(Place));
    if (is_greedy(settings)) {
        int32_t best = (int32_t)most_probable(logits, vocab_size);
        for (uint32_t i = 0; i < count; i++)
            places[i].share = ids[i] == best;
        return true;
    }
    uint32_t mark = memory_mark(), left;
    double all, sum = 0;
    Candidate *heap = open_candidates(logits, vocab_size, settings, &left, &all);
    if (!heap)
        return false;
    while (left) {
        Candidate candidate = pop(heap, &left);
        for (uint32_t i = 0; i < count && candidate.weight > 0; i++)
            if ((uint32_t)ids[i] == candidate.id)
                places[i] = (Place){(float)(sum / all), (float)(candidate.weight / all)};
        sum += candidate.weight;
    }
    release_to(mark);
    return true;
}
