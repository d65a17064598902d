// One round of a stream: every thread of a block has -DILP accesses under way. A team of -DLANES threads (a warp; less
// where the threads of a block are no whole number of warps) goes through ILP x LANES x WIDTH bytes that lie together,
// so that the distances between the accesses of a thread stand in the instructions, whatever the number of threads.
// One transfer a compilation: -DTRANSFER_READ, -DTRANSFER_WRITE or -DTRANSFER_COPY.
#pragma once
#include "access.cuh"
#include "words.cuh"

#define APART (LANES * WIDTH)                       // bytes from one access of a thread to its next
#define PATTERN_MASK (LANES * ACCESS_WORDS - 1)     // of the words that WRITE leaves: all teams leave the same

// Byte offset of the first access of this thread within a tile, which has blockDim.x x ILP x WIDTH bytes.
__device__ __forceinline__ u32 first_access() {
    return threadIdx.x / LANES * (ILP * APART) + threadIdx.x % LANES * WIDTH;
}

__device__ __forceinline__ void load_all(Access (&got)[ILP], ADDRESS at) {
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) got[k] = load(at + k * APART);
}

#if defined(TRANSFER_READ)

// A round reads; the sums, one for each word of an access, need all of it. Each begins with what the last load brings:
// else the assembler would wait for the first loads before it starts the last. (In PTX, so that nobody puts the terms
// into another order; the assembler adds two words by one instruction.)
__device__ __forceinline__ void read_round(ADDRESS at, Access& sums) {
    Access got[ILP];
    load_all(got, at);
#pragma unroll
    for (u32 k = ILP; k-- > 0;)
#pragma unroll
        for (u32 w = 0; w < ACCESS_WORDS; ++w)
            asm volatile("add.u32 %0, %0, %1;" : "+r"(sums.words[w]) : "r"(got[k].words[w]));
}

__device__ __forceinline__ u32 sum_of(const Access& sums) {
    u32 sum = 0;
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w) sum += sums.words[w];
    return sum;
}

#elif defined(TRANSFER_WRITE)

// What this thread writes, in its first pass; in every later pass each word is one more.
__device__ __forceinline__ Access first_words(u32 salt) {
    Access put;
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w)
        put.words[w] = word_at(threadIdx.x % LANES * ACCESS_WORDS + w, PATTERN_MASK, salt);
    return put;
}

__device__ __forceinline__ void next_words(Access& put) {
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w) ++put.words[w];
}

__device__ __forceinline__ void write_round(ADDRESS at, const Access& put) {
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) store(at + k * APART, put);
}

#elif defined(TRANSFER_COPY)

__device__ __forceinline__ void copy_round(ADDRESS from, ADDRESS to) {
    Access got[ILP];
    load_all(got, from);
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) store(to + k * APART, got[k]);
}

#else
#error "compile with one of -DTRANSFER_READ, -DTRANSFER_WRITE, -DTRANSFER_COPY"
#endif
