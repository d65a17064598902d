// What a block of a stream tells: when it began and ended, how many cycles that were, and a sum of what it read.
#pragma once
#include "now.cuh"

// A sector of memory for what every block writes, another for the sum: of a sector that is written in part memory must
// have the rest first, and where blocks are short an H200 writes 2 to 4 % less beside that.
struct __align__(64) StreamReport {
    u64 begin, end;  // global timer, ns
    u64 cycles;      // of this block's SM between them
    u32 sm;          // %smid
    u32 rank;        // CLUSTER: its rank in its cluster
    u32 sum;         // CLUSTER: of the words it read, their low 32 bits; TMA: copies that did not hold what they should
    u32 unused[7];
};

// All but the sum, as one sector.
__device__ __forceinline__ void tell(StreamReport* report, u64 begin, u64 end, u64 cycles, u32 rank) {
    ulonglong2* const sector = reinterpret_cast<ulonglong2*>(report);
    sector[0] = make_ulonglong2(begin, end);
    sector[1] = make_ulonglong2(cycles, static_cast<u64>(rank) << 32 | sm_number());
}
