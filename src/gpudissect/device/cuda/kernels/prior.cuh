// Accesses before a chase: untimed laps on any path, by any warp of this SM or of another, one after the other.
// Compiled with -DPRIOR; a launch then has one job, a block for every SM that has prior accesses (they report which SMs
// these are), and the first thread of block 0 runs the chase itself.
#pragma once
#include "path.cuh"
#include "code.cuh"
#include "clocks.cuh"

struct PriorAccesses {
    u64 start;      // address of the link to the first position
    u32 accesses;   // laps times links; of code: lines of one lap
    u32 path;       // of the load, see follow()
    u32 warp, sm;   // that make them
    u32 done;       // written: 1 at the end; the other blocks wait for it
    u32 actual_sm;  // written: %smid of the block
    u32 broken;     // written: 1 if the chain did not end where it began
    u32 laps;       // of code
};

#ifdef PRIOR

// Follows a chain, removing the mark of every link: the timed chain may be marked.
#define FOLLOW(NAME, TYPE, LETTER, LOAD_OF_PATH, MARK_OF_PATH)                                                  \
    __device__ __noinline__ bool NAME(u64 start, u32 accesses, u64 texture) {                                   \
        const TYPE first = static_cast<TYPE>(__ldcg(reinterpret_cast<const u64*>(start)));                      \
        TYPE link = first;                                                                                      \
        for (u32 left = accesses; left != 0; --left) {                                                          \
            asm volatile(LOAD_OF_PATH : "+" LETTER(link) : "l"(texture), "l"(texture) : "memory");              \
            link &= ~static_cast<TYPE>(MARK_OF_PATH);                                                           \
        }                                                                                                       \
        return link == first;                                                                                   \
    }

FOLLOW(follow_global, u64, "l", LOAD_GLOBAL, ADDRESS_MARK)
FOLLOW(follow_global_l2, u64, "l", LOAD_GLOBAL_L2, ADDRESS_MARK)
FOLLOW(follow_readonly, u64, "l", LOAD_READONLY, ADDRESS_MARK)
FOLLOW(follow_texture, u32, "r", LOAD_TEXTURE, TEXEL_MARK)
FOLLOW(follow_constant, u32, "r", LOAD_CONSTANT, ADDRESS_MARK)

// The numbers are those of layout.py.
__device__ __forceinline__ bool follow(const PriorAccesses& prior, u64 texture) {
    switch (prior.path) {
        case 0: return follow_global(prior.start, prior.accesses, texture);
        case 1: return follow_global_l2(prior.start, prior.accesses, texture);
        case 2: return follow_readonly(prior.start, prior.accesses, texture);
        case 3: return follow_texture(prior.start, prior.accesses, texture);
        case 4: return follow_constant(prior.start, prior.accesses, texture);
#ifdef PRIOR_CODE
        case 5: return run_code(prior.accesses, prior.laps);
#endif
    }
    return false;
}

// Called by every thread of every block. The records are read past the L1 and set to done by volatile accesses, which
// do not change the L1; a fence or an acquiring load would empty it. Only the done flags need an order.
__device__ __forceinline__ void run_prior(u64 records, u32 count, u64 texture) {
    for (u32 i = 0; i < count; ++i) {
        PriorAccesses* record = reinterpret_cast<PriorAccesses*>(records) + i;
        const u32 sm = __ldcg(&record->sm);
        if (sm == blockIdx.x && threadIdx.x == 32 * __ldcg(&record->warp)) {
            PriorAccesses prior;
            prior.start = __ldcg(&record->start);
            prior.accesses = __ldcg(&record->accesses);
            prior.path = __ldcg(&record->path);
            prior.laps = __ldcg(&record->laps);
            const bool closed = follow(prior, texture);
            *const_cast<volatile u32*>(&record->actual_sm) = sm_number();
            *const_cast<volatile u32*>(&record->broken) = !closed;
            *const_cast<volatile u32*>(&record->done) = 1;
        }
        if (sm != blockIdx.x && threadIdx.x == 0) {
            while (*const_cast<volatile u32*>(&record->done) == 0) {
            }
        }
        __syncthreads();
    }
}

#endif
