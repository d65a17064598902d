// The 8 nearest of m points in three dimensions for each of n queries, one query per thread, by brute force. Points
// pass through shared memory; the nearest so far are a sorted list in registers. Blocks have 128 threads.

constexpr int NEAREST = 8, TILE = 128;

extern "C" __global__ void knn(const float3 *queries, const float3 *points, float *distances, int *neighbours, int n,
                               int m)
{
    __shared__ float3 tile[TILE];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float3 query = queries[min(i, n - 1)];
    float best[NEAREST];
    int index[NEAREST];
#pragma unroll
    for (int k = 0; k < NEAREST; k++) {
        best[k] = 3e38f;
        index[k] = -1;
    }
    for (int first = 0; first < m; first += TILE) {
        if (first + threadIdx.x < m)
            tile[threadIdx.x] = points[first + threadIdx.x];
        __syncthreads();
        int count = min(TILE, m - first);
        for (int j = 0; j < count; j++) {
            float dx = tile[j].x - query.x;
            float dy = tile[j].y - query.y;
            float dz = tile[j].z - query.z;
            float distance = dx * dx + dy * dy + dz * dz;
            if (distance < best[NEAREST - 1]) {
                best[NEAREST - 1] = distance;
                index[NEAREST - 1] = first + j;
#pragma unroll
                for (int k = NEAREST - 1; k > 0; k--) {
                    if (best[k] < best[k - 1]) {
                        float d = best[k];
                        best[k] = best[k - 1];
                        best[k - 1] = d;
                        int t = index[k];
                        index[k] = index[k - 1];
                        index[k - 1] = t;
                    }
                }
            }
        }
        __syncthreads();
    }
    if (i >= n)
        return;
#pragma unroll
    for (int k = 0; k < NEAREST; k++) {
        distances[i * NEAREST + k] = sqrtf(best[k]);
        neighbours[i * NEAREST + k] = index[k];
    }
}
