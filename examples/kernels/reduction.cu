// Sum of each block's numbers: 16 per thread, then a tree in shared memory, as in the CUDA SDK (Harris 2007).
// Blocks have 256 threads.

constexpr int PER_THREAD = 16;

extern "C" __global__ void __launch_bounds__(256) reduction(const float *x, float *sums, int n)
{
    __shared__ float parts[256];
    int first = threadIdx.x + blockDim.x * PER_THREAD * blockIdx.x;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int i = first + k * blockDim.x;
        sum += i < n ? x[i] : 0;
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = parts[0];
}
