// Product of matrices of 8-bit integers with 32-bit sums, C = A B^T, by rows; words have four integers of a row. A
// block of 16 x 16 threads computes 64 x 64 elements with dp4a. m and n are multiples of 64, the `k` words of a row
// of 16.

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, PER_THREAD = TILE / SIDE;

extern "C" __global__ void __launch_bounds__(256)
    int8_multiply(const int *__restrict__ a, const int *__restrict__ b, int *__restrict__ c, int n, int k)
{
    __shared__ int left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    int x = threadIdx.x, y = threadIdx.y, row = TILE * blockIdx.y, column = TILE * blockIdx.x;
    int sums[PER_THREAD][PER_THREAD] = {};
    for (int first = 0; first < k; first += DEPTH) {
#pragma unroll
        for (int j = 0; j < TILE; j += SIDE) {
            left[x][y + j] = a[(row + y + j) * k + first + x];
            right[x][y + j] = b[(column + y + j) * k + first + x];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++)
                    sums[i][j] = __dp4a(left[d][y + SIDE * i], right[d][x + SIDE * j], sums[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++)
            c[(row + y + SIDE * i) * n + column + x + SIDE * j] = sums[i][j];
}
