// What streams read and write: 32-bit words that depend on their position and the run that wrote them. As in
// stream/backends.py.
#pragma once
#include "job.cuh"

#define WORD_STEP 0x9E3779B9u

// Word `i` of a pattern that repeats after `mask` + 1 words, a power of two.
__device__ __forceinline__ u32 word_at(u32 i, u32 mask, u32 salt) { return salt + (i & mask) * WORD_STEP; }
