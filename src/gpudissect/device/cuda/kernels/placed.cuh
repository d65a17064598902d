// Which SM runs a chase, where its workload says so. Compiled in with -DPLACED; a launch then has one job and so many
// blocks that the GPU cannot hold another. All of them wait until one on the wanted SM has taken the job, or for so long
// that there is none: no SM is free for a second block before every SM has its first.
#pragma once
#include "now.cuh"

#ifdef PLACED

#define PATIENCE 10000000  // cycles until blocks that wait give up: every SM has had its block long before
#define CLEARING 8192      // cycles that the others get to leave

// Has this block to run the chase? True in one block of the wanted SM, after all others were told to leave.
// The mark is read and written past the L1, without a fence: that would empty it.
__device__ __forceinline__ bool takes(const Job* jobs, const Job& job) {
    const u32 here = sm_number();
    u32* taken = const_cast<u32*>(&jobs->taken);
    const u64 since = sm_cycles();
    if (here != job.sm) {
        while (*const_cast<volatile u32*>(taken) == 0 && sm_cycles() - since < PATIENCE) {
        }
        return false;
    }
    if (atomicExch(taken, 1u) != 0) return false;
    while (sm_cycles() - since < CLEARING) {
    }
    return true;
}

#endif
