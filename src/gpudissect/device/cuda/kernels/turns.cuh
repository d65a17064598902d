// Whose turn it is before a chase: laps of any path, by any warp of this SM or of another, one turn after the other.
// Nobody times them. Compiled in with -DTURNS; a launch then has one job, a block for every SM that has a turn
// (which SMs they are, turns tell), and the chase itself is run by the first thread of block 0.
#pragma once
#include "path.cuh"
#include "code.cuh"
#include "now.cuh"

struct Turn {
    u64 start;     // address of the link to the first position
    u32 accesses;  // laps times links; of code: lines of one lap
    u32 path;      // which load, see follow()
    u32 warp, sm;  // whose turn
    u32 done;      // written: 1 once it is over; the other blocks wait for it
    u32 seen_sm;   // written: %smid of whoever took it
    u32 broken;    // written: 1 if the ring did not end where it began
    u32 laps;      // of code
};

#ifdef TURNS

// Follow a ring, taking the mark off every link: the timed ring may be marked.
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

FOLLOW(follow_global, u64, "l", LOAD_GLOBAL, MARK_OF_ADDRESS)
FOLLOW(follow_global_l2, u64, "l", LOAD_GLOBAL_L2, MARK_OF_ADDRESS)
FOLLOW(follow_readonly, u64, "l", LOAD_READONLY, MARK_OF_ADDRESS)
FOLLOW(follow_texture, u32, "r", LOAD_TEXTURE, MARK_OF_TEXEL)
FOLLOW(follow_constant, u32, "r", LOAD_CONSTANT, MARK_OF_ADDRESS)

// The numbers are those of layout.py.
__device__ __forceinline__ bool follow(const Turn& turn, u64 texture) {
    switch (turn.path) {
        case 0: return follow_global(turn.start, turn.accesses, texture);
        case 1: return follow_global_l2(turn.start, turn.accesses, texture);
        case 2: return follow_readonly(turn.start, turn.accesses, texture);
        case 3: return follow_texture(turn.start, turn.accesses, texture);
        case 4: return follow_constant(turn.start, turn.accesses, texture);
#ifdef CODE_TURNS
        case 5: return run_code(turn.accesses, turn.laps);
#endif
    }
    return false;
}

// Every thread of every block comes here. Turns are read past the L1 and marked as done by volatile accesses, which
// leave the L1 as it is; a fence or an acquiring load would empty it. No order is needed but that of the done marks.
__device__ __forceinline__ void take_turns(u64 turns, u32 count, u64 texture) {
    for (u32 i = 0; i < count; ++i) {
        Turn* there = reinterpret_cast<Turn*>(turns) + i;
        const u32 sm = __ldcg(&there->sm);
        if (sm == blockIdx.x && threadIdx.x == 32 * __ldcg(&there->warp)) {
            Turn turn;
            turn.start = __ldcg(&there->start);
            turn.accesses = __ldcg(&there->accesses);
            turn.path = __ldcg(&there->path);
            turn.laps = __ldcg(&there->laps);
            const bool closed = follow(turn, texture);
            *const_cast<volatile u32*>(&there->seen_sm) = sm_number();
            *const_cast<volatile u32*>(&there->broken) = !closed;
            *const_cast<volatile u32*>(&there->done) = 1;
        }
        if (sm != blockIdx.x && threadIdx.x == 0) {
            while (*const_cast<volatile u32*>(&there->done) == 0) {
            }
        }
        __syncthreads();
    }
}

#endif
