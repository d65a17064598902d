// Dot product of two vectors in FP64: threads add elements at the distance of the grid, warps and then the block add by
// shuffles, and one thread of the block adds the sum to the result. Blocks have whole warps.

__device__ double warp_sum(double sum)
{
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(~0u, sum, distance);
    return sum;
}

extern "C" __global__ void dot_product(const double *x, const double *y, double *result, int n)
{
    __shared__ double warp_sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double sum = 0;
    for (int i = threadIdx.x + blockDim.x * blockIdx.x; i < n; i += blockDim.x * gridDim.x)
        sum += x[i] * y[i];
    sum = warp_sum(sum);
    if (lane == 0)
        warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0);
        if (lane == 0)
            atomicAdd(result, sum);
    }
}
