// Product of a sparse matrix in CSR and a vector (Bell and Garland 2009): one thread per row, and one warp per row.

extern "C" __global__ void spmv_thread_per_row(const int *row_starts, const int *columns, const float *values,
                                               const float *x, float *y, int rows)
{
    int row = threadIdx.x + blockDim.x * blockIdx.x;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = row_starts[row]; k < row_starts[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}

extern "C" __global__ void spmv_warp_per_row(const int *row_starts, const int *columns, const float *values,
                                             const float *x, float *y, int rows)
{
    int row = (threadIdx.x + blockDim.x * blockIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = row_starts[row] + lane; k < row_starts[row + 1]; k += 32)
        sum += values[k] * x[columns[k]];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane == 0)
        y[row] = sum;
}
