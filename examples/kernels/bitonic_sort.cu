// Each block sorts 1024 keys in shared memory with a bitonic network (Batcher 1968): 55 steps of compare and exchange.
// Blocks have 512 threads.

constexpr int KEYS = 1024;

extern "C" __global__ void __launch_bounds__(512) bitonic_sort(const unsigned *in, unsigned *out)
{
    __shared__ unsigned keys[KEYS];
    int first = KEYS * blockIdx.x;
    for (int i = threadIdx.x; i < KEYS; i += blockDim.x)
        keys[i] = in[first + i];
    for (int size = 2; size <= KEYS; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int low = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), high = low + stride;
            unsigned a = keys[low], b = keys[high];
            bool ascending = (low & size) == 0;
            keys[low] = ascending ? min(a, b) : max(a, b);
            keys[high] = ascending ? max(a, b) : min(a, b);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < KEYS; i += blockDim.x)
        out[first + i] = keys[i];
}
