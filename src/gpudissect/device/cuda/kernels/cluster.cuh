// Blocks of a cluster (Hopper on), which access each other's shared memory.
#pragma once
#include "clocks.cuh"

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

// Waits for every block of the cluster, and for what they wrote.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Generic address of the dynamic shared memory of the block of this rank, valid in the whole cluster.
__device__ __forceinline__ u64 window_of(u64* memory, u32 rank) {
    u64 address;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(memory), "r"(rank));
    return address;
}

// For a chase every block has one thread and an SM of its own: rank 0 is timed, rank `peer` holds the chain, the others
// keep their SMs occupied. Every block calls this once: the chain is copied, its links made addresses. Returns whether
// this is the timed thread.
// A block must live as long as others read its memory: those that are not timed leave when the chase is over.
__device__ __forceinline__ bool join_cluster(const Job& job, u64* memory) {
    const u32 rank = cluster_rank();
    if (rank == job.peer) {
        const u64 base = window_of(memory, rank);
        const u64* chain = reinterpret_cast<const u64*>(job.chain);
#pragma unroll 8
        for (u32 i = 0; i < job.chain_bytes / 8; ++i) memory[i] = __ldcg(chain + i) + base;
        reinterpret_cast<Report*>(job.results)->peer_sm = sm_number();
    }
    cluster_barrier();
    if (rank != 0) cluster_barrier();
    return rank == 0;
}
