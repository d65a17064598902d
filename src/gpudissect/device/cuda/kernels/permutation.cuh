// The permutation of gpudissect.workload.order, computed point by point.
#pragma once
#include "job.cuh"

__device__ __forceinline__ u32 feistel(u32 value, u32 half, u32 seed) {
    const u32 mask = (1u << half) - 1;
    u32 left = value >> half, right = value & mask;
#pragma unroll
    for (u32 round = 1; round <= 4; ++round) {
        u32 mixed = right ^ (seed + 0x9E3779B9u * round);  // murmur3's finalizer as the round function
        mixed = (mixed ^ mixed >> 16) * 0x85EBCA6Bu;
        mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35u;
        mixed ^= mixed >> 16;
        const u32 swapped = left ^ (mixed & mask);
        left = right;
        right = swapped;
    }
    return left << half | right;
}

// The permuted position `value` of `count`; `half` is the bits of each half of the Feistel network.
__device__ __forceinline__ u32 permuted(u32 value, u32 count, u32 half, u32 seed) {
    do value = feistel(value, half, seed);
    while (value >= count);  // cycle walking: repeat outside the range
    return value;
}
