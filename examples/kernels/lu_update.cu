// Trailing update of a blocked LU factorisation in FP64, by rows: A -= L U with an n x k panel L and a k x n panel U.
// A block of 16 x 16 threads updates 64 x 64 elements. n is a multiple of 64, k of 16.

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, PER_THREAD = TILE / SIDE;

extern "C" __global__ void __launch_bounds__(256) lu_update(const double *l, const double *u, double *a, int n, int k)
{
    __shared__ double left[TILE][DEPTH + 1], right[DEPTH][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = TILE * blockIdx.y, column = TILE * blockIdx.x;
    double sums[PER_THREAD][PER_THREAD] = {};
    for (int first = 0; first < k; first += DEPTH) {
        for (int j = 0; j < PER_THREAD; j++) {
            left[y + SIDE * j][x] = l[(row + y + SIDE * j) * k + first + x];
            right[y][x + SIDE * j] = u[(first + y) * n + column + x + SIDE * j];
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++)
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++)
                    sums[i][j] += left[y + SIDE * i][d] * right[d][x + SIDE * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++)
            a[(row + y + SIDE * i) * n + column + x + SIDE * j] -= sums[i][j];
}
