// Cholesky factors of symmetric matrices of 32 x 32 in FP64, one per block in shared memory: the first warp divides a
// column, then all threads update the columns right of it. `shift` is added to the diagonal, as in ridge regression.

constexpr int SIZE = 32;

extern "C" __global__ void cholesky(const double *in, double *out, double shift)
{
    __shared__ double a[SIZE][SIZE + 1];
    int column = threadIdx.x % SIZE, first = threadIdx.x / SIZE, step = blockDim.x / SIZE;
    in += size_t(SIZE * SIZE) * blockIdx.x;
    out += size_t(SIZE * SIZE) * blockIdx.x;
    for (int row = first; row < SIZE; row += step)
        a[row][column] = in[row * SIZE + column] + (row == column ? shift : 0);
    __syncthreads();
    for (int k = 0; k < SIZE; k++) {
        if (first == 0) {
            double pivot = sqrt(a[k][k]);
            __syncwarp();
            if (column >= k)
                a[column][k] = column == k ? pivot : a[column][k] / pivot;
        }
        __syncthreads();
        for (int row = k + 1 + first; row < SIZE; row += step)
            if (column > k && column <= row)
                a[row][column] -= a[row][k] * a[column][k];
        __syncthreads();
    }
    for (int row = first; row < SIZE; row += step)
        out[row * SIZE + column] = column <= row ? a[row][column] : 0;
}
