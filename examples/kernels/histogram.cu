// Histograms with atomics: of the upper 8 bits in shared memory, and of any number of bins in global memory. Blocks of
// histogram_shared have 256 threads, which count 32 numbers each.

constexpr int BINS = 256, PER_THREAD = 32;

extern "C" __global__ void __launch_bounds__(256) histogram_shared(const unsigned *x, unsigned *counts, int n)
{
    __shared__ unsigned bins[BINS];
    bins[threadIdx.x] = 0;
    __syncthreads();
    int first = threadIdx.x + blockDim.x * PER_THREAD * blockIdx.x;
    for (int k = 0; k < PER_THREAD; k++) {
        int i = first + k * blockDim.x;
        if (i < n)
            atomicAdd(&bins[x[i] >> 24], 1);
    }
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void histogram_global(const unsigned *x, unsigned *counts, int n, int shift)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        atomicAdd(&counts[x[i] >> shift], 1);
}
