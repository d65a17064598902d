// Inclusive prefix sums of each block's numbers: shuffles in warps, then over the sums of the warps. Blocks have whole
// warps.

__device__ unsigned scan_warp(unsigned sum)
{
    for (int distance = 1; distance < 32; distance *= 2) {
        unsigned left = __shfl_up_sync(~0u, sum, distance);
        if (threadIdx.x % 32 >= distance)
            sum += left;
    }
    return sum;
}

extern "C" __global__ void scan(const unsigned *x, unsigned *sums, int n)
{
    __shared__ unsigned warp_sums[32];
    int i = threadIdx.x + blockDim.x * blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = scan_warp(i < n ? x[i] : 0);
    if (lane == 31)
        warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0)
        warp_sums[lane] = scan_warp(lane < blockDim.x / 32 ? warp_sums[lane] : 0);
    __syncthreads();
    if (warp > 0)
        sum += warp_sums[warp - 1];
    if (i < n)
        sums[i] = sum;
}
