// Product of matrices in FP32, by columns. VV16, figure 1.1, has the SGEMM of Volkov and Demmel (2008, section 4.2): a
// block of 64 threads computes 64 x 16 elements of C. Each thread holds one row of 16; A streams through registers,
// B through shared memory. m is a multiple of 64, n and k are multiples of 16.

__device__ void add_multiple(float a, const float *b, float *c)
{
#pragma unroll
    for (int j = 0; j < 16; j++)
        c[j] += a * b[j];
}

extern "C" __global__ void __launch_bounds__(64)
    matrix_multiply(const float *a, const float *b, float *c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float tile[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.x * 64 + x + 16 * y, column = blockIdx.y * 16;
    float sums[16] = {};
    a += row;
    b += (column + y) * k + x;
    for (int first = 0; first < k; first += 16) {
#pragma unroll
        for (int j = 0; j < 16; j += 4)
            tile[x][y + j] = b[first + j * k];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++, a += m)
            add_multiple(*a, tile[j], sums);
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 16; j++) {
        float *element = c + (column + j) * m + row;
        *element = alpha * sums[j] + beta * *element;
    }
}

// One element of C per thread, by rows, without shared memory.
extern "C" __global__ void matrix_multiply_naive(const float *a, const float *b, float *c, int m, int n, int k)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
