// One tile of a stream: every thread of a block has -DILP accesses in flight. A group of -DLANES threads (a warp; fewer
// where a block has no whole number of warps) accesses ILP x LANES x WIDTH contiguous bytes, so that the distances
// between the accesses of a thread are constants in the instructions, whatever the number of threads. One transfer a
// compilation: -DTRANSFER_READ, -DTRANSFER_WRITE, -DTRANSFER_COPY or -DTRANSFER_ADD.
#pragma once
#include "access.cuh"
#include "words.cuh"

#ifndef STEP
#define STEP WIDTH  // from one access to the next, in the unit of an address
#endif
#define ACCESS_STRIDE (LANES * STEP)             // from one access of a thread to its next
#define PATTERN_MASK (LANES * WIDTH / 4 - 1)     // of the words that WRITE leaves: all groups leave the same

// Bits by which an access of 1 or 2 bytes stands above the start of its word: the same in every access of a thread.
#define SHIFT (WIDTH < 4 ? threadIdx.x % LANES * WIDTH % 4 * 8 : 0)

// Offset of the first access of this thread within a tile, which has blockDim.x x ILP x WIDTH bytes.
__device__ __forceinline__ u32 first_access() {
    return threadIdx.x / LANES * (ILP * ACCESS_STRIDE) + threadIdx.x % LANES * STEP;
}

__device__ __forceinline__ void load_all(Access (&loaded)[ILP], ADDRESS address) {
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) loaded[k] = load(address + k * ACCESS_STRIDE);
}

#if defined(TRANSFER_READ)

// Reads a tile; the sums, one for each word of an access, need all of it. Each sum starts with the last load: otherwise
// the assembler would wait for the first loads before it issues the last. (In PTX, so that the compiler does not
// reorder the terms; the assembler adds two words with one instruction.)
__device__ __forceinline__ void read_tile(ADDRESS address, Access& sums) {
    Access loaded[ILP];
    load_all(loaded, address);
#pragma unroll
    for (u32 k = ILP; k-- > 0;)
#pragma unroll
        for (u32 w = 0; w < ACCESS_WORDS; ++w)
            asm volatile("add.u32 %0, %0, %1;" : "+r"(sums.words[w]) : "r"(loaded[k].words[w]));
}

__device__ __forceinline__ u32 sum_of(const Access& sums) {
    u32 sum = 0;
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w) sum += sums.words[w];
    return sum << SHIFT;  // so that sums of narrow accesses add up to those of the words, too
}

#elif defined(TRANSFER_WRITE)

// What this thread writes in its first pass; in every later pass each word is one more.
__device__ __forceinline__ Access first_words(u32 salt) {
    Access written;
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w)
        written.words[w] = word_at(threadIdx.x % LANES * WIDTH / 4 + w, PATTERN_MASK, salt);
    return written;
}

__device__ __forceinline__ void next_words(Access& written) {
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w) ++written.words[w];
}

__device__ __forceinline__ void write_tile(ADDRESS address, Access written) {
    written.words[0] >>= SHIFT;
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) store(address + k * ACCESS_STRIDE, written);
}

#elif defined(TRANSFER_COPY)

__device__ __forceinline__ void copy_tile(ADDRESS from, ADDRESS to) {
    Access loaded[ILP];
    load_all(loaded, from);
#pragma unroll
    for (u32 k = 0; k < ILP; ++k) store(to + k * ACCESS_STRIDE, loaded[k]);
}

#elif defined(TRANSFER_ADD)

#if __CUDA_ARCH__ >= 700
#define ADD_BY "red.relaxed.sys.global.add.u32"  // system scope: another GPU may add to the same memory
#else
#define ADD_BY "red.global.add.u32"
#endif

__device__ __forceinline__ void add_to_tile(ADDRESS address, u32 addend) {
#pragma unroll
    for (u32 k = 0; k < ILP; ++k)
        asm volatile(ADD_BY " [%0], %1;" ::"l"(address + k * ACCESS_STRIDE), "r"(addend) : "memory");
}

#else
#error "compile with one of -DTRANSFER_READ, -DTRANSFER_WRITE, -DTRANSFER_COPY, -DTRANSFER_ADD"
#endif
