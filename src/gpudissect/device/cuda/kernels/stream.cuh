// The report of a block of a stream: when it began and ended, its cycles, and a sum of what it read.
#pragma once
#include "clocks.cuh"

// One sector of memory for what every block writes, another for the sum: the rest of a partly written sector is fetched
// from memory, and with short blocks an H200 then writes 2 to 4 % less.
struct __align__(64) StreamReport {
    u64 begin, end;  // global timer, ns
    u64 cycles;      // of this block's SM between them
    u32 sm;          // %smid
    u32 rank;        // CLUSTER: its rank in its cluster
    u32 sum;         // of the words it read (low 32 bits); TMA, and WRITE and COPY on SHARED: number of wrong words
    u32 unused[7];
};

// Writes all but the sum, as one sector.
__device__ __forceinline__ void write_report(StreamReport* report, u64 begin, u64 end, u64 cycles, u32 rank) {
    ulonglong2* const sector = reinterpret_cast<ulonglong2*>(report);
    sector[0] = make_ulonglong2(begin, end);
    sector[1] = make_ulonglong2(cycles, static_cast<u64>(rank) << 32 | sm_number());
}
