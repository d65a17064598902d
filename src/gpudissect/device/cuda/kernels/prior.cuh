// Accesses before a chase: untimed laps on any path, by any warp of this SM or of another, one after the other; or by
// many threads at once, a part of the chain each. Compiled with -DPRIOR; a launch then has one job, a block for every
// SM that has prior accesses (they report which SMs these are), and the first thread of block 0 runs the chase itself.
// With -DON_SM as well, every SM has a block, and SMs have the numbers of the hardware.
#pragma once
#include "path.cuh"
#include "code.cuh"
#include "clocks.cuh"

struct PriorAccesses {
    u64 starts;     // address of the links at which the threads begin; with one thread, at the first position
    u32 count;      // links of the chain; of code: lines of a lap
    u32 path;       // of the load, see follow()
    u32 warp, sm;   // that make them; the SM by the number of its block, with ON_SM by the hardware's
    u32 done;       // written: 1 at the end; the other blocks wait for it
    u32 actual_sm;  // written: %smid of the block
    u32 broken;     // written: 1 if a part of the chain did not end where the next one begins
    u32 laps;
    u32 threads;    // that share a lap, from thread 0 on if more than one
    u32 claimed;  // written, with ON_SM: 1 once a block of the SM makes the accesses
};

#ifdef PRIOR

// How often blocks look whether another block has ended its accesses: 0 for any number of times. After some seconds, an
// SM has no block, and all blocks exit. (Reading a clock here would hide the timed windows from the tests.)
#ifdef ON_SM
#define MAX_LOOKS 16777216
#else
#define MAX_LOOKS 0
#endif

// Follows a chain for `count` links, removing the mark of every link: the timed chain may be marked.
#define FOLLOW(NAME, TYPE, LETTER, LOAD_OF_PATH, MARK_OF_PATH)                                                  \
    __device__ __noinline__ u64 NAME(u64 first, u32 count, u64 texture) {                                       \
        TYPE link = static_cast<TYPE>(first);                                                                   \
        for (u32 left = count; left != 0; --left) {                                                             \
            asm volatile(LOAD_OF_PATH : "+" LETTER(link) : "l"(texture), "l"(texture) : "memory");              \
            link &= ~static_cast<TYPE>(MARK_OF_PATH);                                                           \
        }                                                                                                       \
        return link;                                                                                            \
    }

FOLLOW(follow_global, u64, "l", LOAD_GLOBAL, ADDRESS_MARK)
FOLLOW(follow_global_l2, u64, "l", LOAD_GLOBAL_L2, ADDRESS_MARK)
FOLLOW(follow_readonly, u64, "l", LOAD_READONLY, ADDRESS_MARK)
FOLLOW(follow_texture, u32, "r", LOAD_TEXTURE, TEXEL_MARK)
FOLLOW(follow_constant, u32, "r", LOAD_CONSTANT, ADDRESS_MARK)

// The numbers are those of layout.py.
__device__ __forceinline__ u64 follow(u32 path, u64 link, u32 count, u64 texture) {
    switch (path) {
        case 0: return follow_global(link, count, texture);
        case 1: return follow_global_l2(link, count, texture);
        case 2: return follow_readonly(link, count, texture);
        case 3: return follow_texture(link, count, texture);
        case 4: return follow_constant(link, count, texture);
    }
    return 0;  // no link
}

// All laps over the part of one thread. Returns whether each ended where the part of the next thread begins. It is inline
// because calls within calls take more registers than a thread has in a block of 1024.
__device__ __forceinline__ bool run_part(
    u64 starts, u32 count, u32 path, u32 laps, u32 threads, u32 thread, u64 texture) {
#ifdef PRIOR_CODE
    if (path == 5) return run_code(count, laps);
#endif
    const u32 size = count / threads + (thread < count % threads);
    const u64 first = __ldcg(reinterpret_cast<const u64*>(starts) + thread);
    const u64 next = __ldcg(reinterpret_cast<const u64*>(starts) + (thread + 1 == threads ? 0 : thread + 1));
    u64 wrong = 0;
    for (u32 lap = 0; lap != laps; ++lap) wrong |= follow(path, first, size, texture) ^ next;
    return wrong == 0;
}

// Whether an SM makes any of these accesses.
__device__ __forceinline__ bool makes_prior(u64 records, u32 count, u32 sm) {
    for (u32 i = 0; i < count; ++i) {
        if (__ldcg(&(reinterpret_cast<const PriorAccesses*>(records) + i)->sm) == sm) return true;
    }
    return false;
}

// Called by every thread of every block; `sm` is the block's number of an SM. The records are read past the L1 and set to
// done by volatile accesses, which do not change the L1; a fence or an acquiring load would empty it. Only the done flags
// need an order.
__device__ __forceinline__ void run_prior(u64 records, u32 count, u32 sm, u64 texture) {
    const u32 thread = thread_index();
    bool is_lost = false;
    for (u32 i = 0; i < count; ++i) {
        PriorAccesses* record = reinterpret_cast<PriorAccesses*>(records) + i;
        bool is_own = __ldcg(&record->sm) == sm;
#ifdef ON_SM
        if (is_own) is_own = __syncthreads_or(thread == 0 && atomicExch(&record->claimed, 1u) == 0);
#endif
        if (is_own) {
            const u32 threads = __ldcg(&record->threads), first = 32 * __ldcg(&record->warp);
            if (thread >= first && thread - first < threads) {
                const bool closed = run_part(__ldcg(&record->starts), __ldcg(&record->count), __ldcg(&record->path),
                                             __ldcg(&record->laps), threads, thread - first, texture);
                if (!closed) *const_cast<volatile u32*>(&record->broken) = 1;
            }
            __syncthreads();
            if (thread == first) {
                *const_cast<volatile u32*>(&record->actual_sm) = sm_number();
                *const_cast<volatile u32*>(&record->done) = 1;
            }
        } else if (thread == 0) {
            u32 looks = 0;
            while (!is_lost && *const_cast<volatile u32*>(&record->done) == 0) is_lost = ++looks == MAX_LOOKS;
        }
        __syncthreads();
    }
}

#endif
