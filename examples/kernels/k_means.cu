// Assignment step of k-means in 8 dimensions: the nearest centroid of each of 4 points per thread. All lanes load the
// same coordinate of a centroid; those of the points are stored by dimension. A block assigns 4 x its threads points,
// of which n is a multiple.

constexpr int DIMENSIONS = 8, PER_THREAD = 4;

extern "C" __global__ void k_means(const float *__restrict__ points, const float *__restrict__ centroids,
                                   int *__restrict__ nearest, int n, int clusters)
{
    int first = threadIdx.x + blockDim.x * PER_THREAD * blockIdx.x;
    if (first + blockDim.x * (PER_THREAD - 1) >= n)
        return;
    float point[PER_THREAD][DIMENSIONS], least[PER_THREAD];
    int cluster[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
        least[j] = 3e38f;
        cluster[j] = 0;
        for (int d = 0; d < DIMENSIONS; d++)
            point[j][d] = points[d * n + first + j * blockDim.x];
    }
    for (int c = 0; c < clusters; c++) {
        float distance[PER_THREAD] = {};
#pragma unroll
        for (int d = 0; d < DIMENSIONS; d++) {
            float coordinate = centroids[c * DIMENSIONS + d];
#pragma unroll
            for (int j = 0; j < PER_THREAD; j++)
                distance[j] += (point[j][d] - coordinate) * (point[j][d] - coordinate);
        }
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++) {
            cluster[j] = distance[j] < least[j] ? c : cluster[j];
            least[j] = fminf(least[j], distance[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++)
        nearest[first + j * blockDim.x] = cluster[j];
}
