/* Stateless random numbers: Philox-4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), with the key and
   counter that TensorFlow derives from two seeds. */
#include "sampling.h"

static void philox(uint32_t counter[4], const uint32_t initial_key[2])
{
    uint32_t key[2] = {initial_key[0], initial_key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53 * counter[0], second = (uint64_t)0xCD9E8D57 * counter[2];
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ counter[1] ^ key[0], (uint32_t)second,
            (uint32_t)(first >> 32) ^ counter[3] ^ key[1], (uint32_t)first};
        memcpy(counter, next, sizeof next);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
}

float uniform(int32_t seed, int32_t step)
{
    /* TensorFlow mixes the seeds first, so that similar seeds give unrelated numbers. Negative seeds are extended to 64 bits. */
    static const uint32_t mixing_key[2] = {0x3ec8f720, 0x02461e29};
    uint32_t mixed[4] = {(uint32_t)seed, seed < 0 ? UINT32_MAX : 0, (uint32_t)step, step < 0 ? UINT32_MAX : 0};
    philox(mixed, mixing_key);
    uint32_t counter[4] = {0, 0, mixed[2], mixed[3]};
    philox(counter, mixed);
    return (float)(counter[0] & 0x7fffff) * 0x1p-23f;
}
