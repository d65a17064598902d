// The global timer, the clock of this SM, and its number. (Timed windows read the clock in their own PTX.)
#pragma once
#include "job.cuh"

__device__ __forceinline__ u64 timer_ns() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

__device__ __forceinline__ u64 sm_cycles() {
    u64 cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

// The global timer just after a step (it moves in steps of 32 ns to 1 us).
__device__ __forceinline__ u64 next_ns() {
    const u64 before = timer_ns();
    u64 now;
    do now = timer_ns();
    while (now == before);
    return now;
}

__device__ __forceinline__ u32 sm_number() {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// Number of SM numbers: as many as SMs, or more.
__device__ __forceinline__ u32 sm_numbers() {
    u32 numbers;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(numbers));
    return numbers;
}
