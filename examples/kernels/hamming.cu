// Nearest and second nearest of m binary descriptors of 256 bits for each of n others (Rublee et al. 2011): one query
// per thread in registers, descriptors through shared memory. Blocks have 256 threads, of which m is a multiple.

constexpr int WORDS = 8, THREADS = 256;

extern "C" __global__ void __launch_bounds__(256)
    hamming(const uint4 *__restrict__ queries, const uint4 *__restrict__ descriptors, uint2 *__restrict__ nearest,
            int n, int m)
{
    __shared__ uint4 tile[THREADS * WORDS / 4];
    int i = threadIdx.x + blockDim.x * blockIdx.x, query_row = min(i, n - 1);
    uint4 low = queries[2 * query_row], high = queries[2 * query_row + 1];
    unsigned first = ~0u, second = ~0u;
    for (int start = 0; start < m; start += THREADS) {
        for (int k = threadIdx.x; k < THREADS * WORDS / 4; k += THREADS)
            tile[k] = descriptors[start * (WORDS / 4) + k];
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < THREADS; j++) {
            uint4 a = tile[2 * j], b = tile[2 * j + 1];
            unsigned distance = __popc(a.x ^ low.x) + __popc(a.y ^ low.y) + __popc(a.z ^ low.z) + __popc(a.w ^ low.w) +
                                __popc(b.x ^ high.x) + __popc(b.y ^ high.y) + __popc(b.z ^ high.z) +
                                __popc(b.w ^ high.w);
            unsigned candidate = distance << 20 | start + j;
            second = min(second, max(first, candidate));
            first = min(first, candidate);
        }
        __syncthreads();
    }
    if (i < n)
        nearest[i] = {first, second};
}
