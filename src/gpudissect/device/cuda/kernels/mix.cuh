// The parts of a mix: the chains of a warp, their operands, the barrier of the grid, the reports.
//
// The result of every instruction of a chain is an operand of the next. Most of them leave their chain unchanged, since
// the other operand is neutral (zero is added, one is multiplied by), which is known only at run time. So they can
// stand between two loads without changing the address, no number overflows, and the end of the chain shows that all
// instructions gave the right result.
#pragma once
#include "clocks.cuh"

#define MIX_LANES 32

// One chain of one lane. The compiler leaves out what a body does not use.
struct Chain {
    u32 word;           // operand of 32-bit instructions; in a chain of loads, the lower half of the address
    u32 rest;           // LDG: the other half; SPREAD: the state of random numbers
    double wide;
    u32 sums[4];        // a matrix of sums
    double products[2];  // one in double precision
};

// What all chains of a lane share.
struct Operands {
    u32 zero, none, one;        // integers 0, 0 and 1
    float minus_zero, unity;
    float least;  // minus infinity
    u32 halves;  // 1.0 twice, in half precision
    u32 selector;  // of all four bytes in order
    double wide_minus_zero, wide_unity;
    u32 lane;
    u32 place;                 // STS: address in shared memory
    u32 held[4];               // STS: value stored there
    u32 counter;               // ATOMS: address in shared memory
    u64 counter_at;            // ATOMG, REDG, STG: address in global memory; SPREAD: of the first counter or line
    u32 counters;              // SPREAD: their number
    u32 factors[4], weights[2];  // matrices
    double factor, weight;
};

struct MixReport {
    u64 begin, end;        // clock of its SM
    u64 begin_ns, end_ns;  // global timer; 0 in blocks of a later wave, or that one of these replaces
    u32 sm;                // %smid
    u32 broken;            // 1 if a chain has a wrong result
};

#define MIX_MAX_SMS 1024

// Where blocks wait for each other. All zero before a mix.
struct GridBarrier {
    u32 arrived;  // blocks of the first wave
    u32 done;     // warps that have ended
    u32 warm;     // blocks that count and have run once, untimed
    u32 ranks;    // blocks that count and have a rank among these
    u64 cycles, ns;            // see measure_clock
    u64 starts[MIX_MAX_SMS];  // of each SM: when its warps begin, on its own clock
};

#define SAMPLE_BINS 65536

// Histogram of the latencies of single loads. All zero before a mix, except `overhead`, all ones.
struct Samples {
    u32 overhead, reserved;  // cycles of a window without a load, the minimum of all SMs: others may be loading already
    u32 bins[SAMPLE_BINS];   // number of loads by their cycles; the last bin also counts longer ones
};

#define BARRIER_TIMEOUT 200000000ull   // cycles for which a block waits for the others: all fit at once
#define HOLD_TIMEOUT 8000000000ull     // cycles for which a block keeps others off its SM
#define START_DELAY 8192               // cycles from the first block of an SM that passes the barrier to the start

// Waits until `blocks` blocks have arrived. Called by one thread of each.
__device__ __forceinline__ void arrive(u32* counter, u32 blocks) {
    atomicAdd(counter, 1u);
    const u64 since = sm_cycles();
    while (*const_cast<volatile u32*>(counter) < blocks && sm_cycles() - since < BARRIER_TIMEOUT) {
    }
}

// Waits until all blocks of this SM may begin. Returns whether this one was the first to arrive.
__device__ __forceinline__ bool await_start(GridBarrier* barrier, u32 sm) {
    u64* const shared_start = &barrier->starts[sm < MIX_MAX_SMS ? sm : 0];
    const u64 proposed = sm_cycles() + START_DELAY;
    const u64 found = atomicCAS(shared_start, 0ull, proposed);
    const u64 start = found ? found : proposed;
    while (static_cast<i32>(static_cast<u32>(start - sm_cycles())) > 0) {
    }
    return found == 0;
}

// Occupies this SM until the warps that count have ended.
__device__ __forceinline__ void hold(GridBarrier* barrier, u32 warps) {
    const u64 since = sm_cycles();
    while (*const_cast<volatile u32*>(&barrier->done) < warps && sm_cycles() - since < HOLD_TIMEOUT)
        __nanosleep(1000);
}
