// Product of a matrix in FP16, by rows, and a vector: a warp per row, eight columns per lane and step, multiplied in
// pairs. Each step starts new sums in FP16 and adds them to one in FP32. Columns are a multiple of 256.

__device__ unsigned multiply_add(unsigned a, unsigned b, unsigned c)
{
    unsigned sums;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
    return sums;
}

__device__ float widen(unsigned short half)
{
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(half));
    return number;
}

extern "C" __global__ void half_gemv(const uint4 *__restrict__ matrix, const uint4 *__restrict__ x, float *y, int rows,
                                     int columns)
{
    int row = (threadIdx.x + blockDim.x * blockIdx.x) / 32, lane = threadIdx.x % 32, width = columns / 8;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = lane; i < width; i += 32) {
        uint4 a = matrix[row * width + i], b = x[i];
        unsigned pair = multiply_add(a.x, b.x, 0);
        pair = multiply_add(a.y, b.y, pair);
        pair = multiply_add(a.z, b.z, pair);
        pair = multiply_add(a.w, b.w, pair);
        sum += widen(pair) + widen(pair >> 16);
    }
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane == 0)
        y[row] = sum;
}
