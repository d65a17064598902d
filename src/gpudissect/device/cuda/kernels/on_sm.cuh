// Runs a chase on a certain SM. Compiled with -DON_SM; a launch then has one job and as many blocks as the GPU can
// hold. All of them wait until one on that SM has taken the job, or for so long that there is none: no SM has room for
// another block before every SM has its first.
#pragma once
#include "clocks.cuh"

#ifdef ON_SM

#define TAKE_TIMEOUT 10000000  // cycles for which blocks wait: every SM has had its block long before
#define LEAVE_CYCLES 8192      // cycles that the other blocks get to leave

// Returns whether this block runs the chase: true in one block of that SM, after all others were signaled to leave.
// The flag is read and written past the L1, without a fence: that would empty it.
__device__ __forceinline__ bool takes_job(const Job* jobs, const Job& job) {
    const u32 sm = sm_number();
    u32* taken = const_cast<u32*>(&jobs->taken);
    const u64 since = sm_cycles();
    if (sm != job.sm) {
        while (*const_cast<volatile u32*>(taken) == 0 && sm_cycles() - since < TAKE_TIMEOUT) {
        }
        return false;
    }
    if (atomicExch(taken, 1u) != 0) return false;
    while (sm_cycles() - since < LEAVE_CYCLES) {
    }
    return true;
}

#endif
