// What streams find in memory and leave there: 32-bit words that tell where they stand and which run wrote them.
// stream_words.py knows them, too.
#pragma once
#include "job.cuh"

#define WORD_STEP 0x9E3779B9u

// Word `i` of a pattern that repeats after `mask` + 1 words, a power of two.
__device__ __forceinline__ u32 word_at(u32 i, u32 mask, u32 salt) { return salt + (i & mask) * WORD_STEP; }
