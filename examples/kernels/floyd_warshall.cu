// Step of the blocked algorithm of Floyd and Warshall for shortest paths (Venkataraman et al. 2003): paths through the
// 32 vertices of a pivot tile. Tiles in the row and the column of the pivot belong to earlier steps. A block of 32 x 8
// threads updates 32 x 32 distances; n is a multiple of 32.

constexpr int TILE = 32, ROWS = 8, PER_THREAD = TILE / ROWS;

extern "C" __global__ void __launch_bounds__(256) floyd_warshall(int *distances, int n, int pivot)
{
    if (blockIdx.x == pivot || blockIdx.y == pivot)
        return;
    __shared__ int to_pivot[TILE][TILE], from_pivot[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = TILE * blockIdx.y + y, column = TILE * blockIdx.x + x;
    int best[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
        to_pivot[y + ROWS * j][x] = distances[(row + ROWS * j) * n + TILE * pivot + x];
        from_pivot[y + ROWS * j][x] = distances[(TILE * pivot + y + ROWS * j) * n + column];
        best[j] = distances[(row + ROWS * j) * n + column];
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < TILE; k++)
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++)
            best[j] = min(best[j], to_pivot[y + ROWS * j][k] + from_pivot[k][x]);
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++)
        distances[(row + ROWS * j) * n + column] = best[j];
}
