// Search for near vectors in an inverted file with product quantization (Jegou et al. 2011), as in Faiss: a block
// builds the table of distances from a query to the 16 x 256 centroids of parts of vectors, then adds 16 entries of it
// for each vector of a list. It writes the best vector.

constexpr int PARTS = 16, CENTROIDS = 256, PART_SIZE = 8, THREADS = 256;

typedef unsigned long long u64;

__device__ __forceinline__ float distance_of(const float (&table)[PARTS][CENTROIDS], uint4 code)
{
    const unsigned words[4] = {code.x, code.y, code.z, code.w};
    float sum = 0;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        sum += table[part][words[part / 4] >> part % 4 * 8 & 255];
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pq_scan(const float *__restrict__ queries, const float4 *__restrict__ codebooks, const int *__restrict__ probes,
            const int *__restrict__ list_starts, const uint4 *__restrict__ codes, float *__restrict__ best_distances,
            int *__restrict__ best_vectors)
{
    __shared__ float table[PARTS][CENTROIDS];
    __shared__ float query[PARTS * PART_SIZE];
    __shared__ u64 warp_best[THREADS / 32];
    const int probe = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x < PARTS * PART_SIZE)
        query[threadIdx.x] = queries[blockIdx.y * PARTS * PART_SIZE + threadIdx.x];
    __syncthreads();
    for (int part = 0; part < PARTS; part++) {
        const float4 *centroid = &codebooks[(part * CENTROIDS + threadIdx.x) * 2];
        float4 a = centroid[0], b = centroid[1];
        const float values[PART_SIZE] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        float sum = 0;
#pragma unroll
        for (int i = 0; i < PART_SIZE; i++) {
            float difference = query[part * PART_SIZE + i] - values[i];
            sum += difference * difference;
        }
        table[part][threadIdx.x] = sum;
    }
    __syncthreads();

    const int list = probes[probe], end = list_starts[list + 1];
    u64 best = ~0ull; // the bits of a positive distance, then the vector
    for (int vector = list_starts[list] + threadIdx.x; vector < end; vector += THREADS) {
        float distance = distance_of(table, codes[vector]);
        u64 key = (u64)__float_as_uint(distance) << 32 | (unsigned)vector;
        if (key < best)
            best = key;
    }
    for (int by = 16; by > 0; by /= 2) {
        u64 other = __shfl_down_sync(~0u, best, by);
        best = other < best ? other : best;
    }
    if (threadIdx.x % 32 == 0)
        warp_best[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; warp++)
            best = warp_best[warp] < best ? warp_best[warp] : best;
        best_distances[probe] = __uint_as_float((unsigned)(best >> 32));
        best_vectors[probe] = (int)(unsigned)best;
    }
}
