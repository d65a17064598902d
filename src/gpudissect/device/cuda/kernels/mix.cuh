// What a mix is made of: the chains of a warp, what their instructions work with, when warps begin, what they report.
//
// The result of every instruction of a chain is an operand of the next. Most of them leave what they work on as it was,
// for their other operand is neutral (nothing is added, one is multiplied by), which nobody knows before they run. So
// they can stand between two loads and leave the address alone, no number grows beyond bounds, and at the end the chain
// tells whether all went the way it was meant.
#pragma once
#include "now.cuh"

#define MIX_LANES 32

// One chain of one lane. What a body does not use, the compiler leaves out.
struct Chain {
    u32 word;           // what instructions on 32 bits work on; in a chain of loads, half of the address
    u32 rest;           // LDG: the other half
    double wide;
    u32 sums[4];        // a matrix of sums
    double products[2];  // one in double precision
};

// What all chains of a lane share.
struct Operands {
    u32 zero, none, one;        // integers: 0, 0 and 1
    float minus_zero, unity;
    u32 halves;  // 1.0 twice, in half precision
    double wide_minus_zero, wide_unity;
    u32 lane;
    u32 place;                 // STS: address in shared memory
    u32 held[4];               // STS: what is stored there
    u32 counter;               // ATOMS: address in shared memory
    u64 counter_at;            // ATOMG: address in global memory
    u32 factors[4], weights[2];  // matrices
    double factor, weight;
};

struct MixReport {
    u64 begin, end;        // clock of its SM
    u64 begin_ns, end_ns;  // global timer; 0 in blocks that take another's place, or whose place another takes
    u32 sm;                // %smid
    u32 broken;            // the chain does not hold what it should
};

#define MIX_MOST_SMS 1024

// Where blocks meet. All zero before a mix.
struct Meeting {
    u32 arrived;  // blocks that run at once
    u32 done;     // warps that have ended
    u32 warm;     // blocks that count and have run once, untimed
    u32 ranks;    // blocks that count and have got a number among these
    u64 cycles, ns;             // see mix_clock
    u64 starts[MIX_MOST_SMS];  // of each SM: when its warps begin, on its own clock
};

#define SAMPLE_BINS 65536

// How long single loads took. All zero before a mix, but `overhead`, all ones.
struct Samples {
    u32 overhead, reserved;  // cycles that the clock shows of no load, the least of all SMs: others may be loading already
    u32 bins[SAMPLE_BINS];   // how many loads took so many cycles; the last: or more
};

#define MEETING_PATIENCE 200000000ull  // cycles until a block gives up waiting for the others: all fit at once
#define HOLDING_PATIENCE 8000000000ull  // cycles until a block gives up keeping others off its SM
#define MEETING_AHEAD 8192             // cycles from the first block of an SM that knows all are there to the start

// Waits until `blocks` blocks have come. One thread of each comes here.
__device__ __forceinline__ void arrive(u32* counter, u32 blocks) {
    atomicAdd(counter, 1u);
    const u64 since = sm_cycles();
    while (*const_cast<volatile u32*>(counter) < blocks && sm_cycles() - since < MEETING_PATIENCE) {
    }
}

// Waits until all blocks of this SM may begin. Was this one the first to come?
__device__ __forceinline__ bool await_start(Meeting* meeting, u32 sm) {
    u64* const there = &meeting->starts[sm < MIX_MOST_SMS ? sm : 0];
    const u64 mine = sm_cycles() + MEETING_AHEAD;
    const u64 found = atomicCAS(there, 0ull, mine);
    const u64 start = found ? found : mine;
    while (static_cast<i32>(static_cast<u32>(start - sm_cycles())) > 0) {
    }
    return found == 0;
}

// Keeps other blocks off this SM until the warps that count have ended.
__device__ __forceinline__ void hold(Meeting* meeting, u32 warps) {
    const u64 since = sm_cycles();
    while (*const_cast<volatile u32*>(&meeting->done) < warps && sm_cycles() - since < HOLDING_PATIENCE)
        __nanosleep(1000);
}
