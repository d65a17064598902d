// Join of two tables after a radix partition (as in Sioulas et al. 2019): a block builds a chained hash table of one
// partition in shared memory and probes it. Keys have no partition bits. Matches of a warp get consecutive places.

constexpr int MAX_BUILD_ROWS = 2048;
constexpr int BUCKETS = 1024;

__device__ __forceinline__ unsigned bucket_of(unsigned key)
{
    return key * 2654435761u >> 22;
}

extern "C" __global__ void __launch_bounds__(1024)
    hash_join(const int *__restrict__ build_starts, const uint2 *__restrict__ build_rows,
              const int *__restrict__ probe_starts, const uint2 *__restrict__ probe_rows, uint2 *__restrict__ matches,
              int *__restrict__ match_counts, int capacity)
{
    __shared__ int heads[BUCKETS];
    __shared__ short following[MAX_BUILD_ROWS];
    __shared__ unsigned keys[MAX_BUILD_ROWS], payloads[MAX_BUILD_ROWS];
    __shared__ int count;

    for (int bucket = threadIdx.x; bucket < BUCKETS; bucket += blockDim.x)
        heads[bucket] = -1;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();

    const int build_start = build_starts[blockIdx.x];
    const int build_rows_here = min(build_starts[blockIdx.x + 1] - build_start, MAX_BUILD_ROWS);
    for (int row = threadIdx.x; row < build_rows_here; row += blockDim.x) {
        uint2 tuple = build_rows[build_start + row];
        keys[row] = tuple.x;
        payloads[row] = tuple.y;
        following[row] = (short)atomicExch(&heads[bucket_of(tuple.x)], row);
    }
    __syncthreads();

    const int probe_end = probe_starts[blockIdx.x + 1];
    const int lane = threadIdx.x % 32;
    uint2 *out = matches + (size_t)blockIdx.x * capacity;
    for (int first = probe_starts[blockIdx.x] + threadIdx.x - lane; first < probe_end; first += blockDim.x) {
        uint2 tuple = make_uint2(0, 0);
        int entry = -1;
        if (first + lane < probe_end) {
            tuple = probe_rows[first + lane];
            entry = heads[bucket_of(tuple.x)];
        }
        while (__any_sync(0xffffffffu, entry >= 0)) {
            bool is_match = entry >= 0 && keys[entry] == tuple.x;
            unsigned found = __ballot_sync(0xffffffffu, is_match);
            if (found) {
                int base = 0, leader = __ffs(found) - 1;
                if (lane == leader)
                    base = atomicAdd(&count, __popc(found));
                base = __shfl_sync(0xffffffffu, base, leader);
                int place = base + __popc(found & ((1u << lane) - 1));
                if (is_match && place < capacity)
                    out[place] = make_uint2(payloads[entry], tuple.y);
            }
            if (entry >= 0)
                entry = following[entry];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        match_counts[blockIdx.x] = min(count, capacity);
}
