// Particles with enough energy are appended to a ring, as work for another kernel: a warp takes its places by a ballot
// and a single atomic operation on the counter of all.

extern "C" __global__ void stream_compaction(const float *energies, const float4 *particles, float4 *ring,
                                             unsigned *counter, int n, unsigned mask, float least)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool is_kept = i < n && energies[i] >= least;
    unsigned kept = __ballot_sync(~0u, is_kept), place = 0;
    if (kept == 0)
        return;
    if (lane == 0)
        place = atomicAdd(counter, __popc(kept));
    place = __shfl_sync(~0u, place, 0) + __popc(kept & (1u << lane) - 1);
    if (is_kept)
        ring[place & mask] = particles[i];
}
