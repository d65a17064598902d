// Blocks of a cluster (Hopper on), which reach each other's shared memory.
#pragma once
#include "now.cuh"

__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ u32 cluster_blocks() {
    u32 blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// Wait for every block of the cluster, and for what they wrote.
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Generic address under which the whole cluster finds the dynamic shared memory of the block of this rank.
__device__ __forceinline__ u64 window_of(u64* memory, u32 rank) {
    u64 address;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(memory), "r"(rank));
    return address;
}

// For a chase every block has one thread and an SM of its own, and all of them work for it: rank 0 is timed, rank `peer`
// holds the ring, the others keep their places. Every block comes here once: the ring is copied, its links made
// addresses. Is this the thread that is timed?
// A block must live as long as others read its memory: those that are not timed leave when the chase is over.
__device__ __forceinline__ bool take_place(const Job& job, u64* memory) {
    const u32 rank = cluster_rank();
    if (rank == job.peer) {
        const u64 base = window_of(memory, rank);
        const u64* ring = reinterpret_cast<const u64*>(job.ring);
#pragma unroll 8
        for (u32 i = 0; i < job.ring_bytes / 8; ++i) memory[i] = __ldcg(ring + i) + base;
        reinterpret_cast<Report*>(job.results)->peer_sm = sm_number();
    }
    meet();
    if (rank != 0) meet();
    return rank == 0;
}
