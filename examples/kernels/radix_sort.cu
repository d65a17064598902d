// First step of a radix sort (Satish, Harris and Garland 2009): a block sorts its 1024 keys by a digit of four bits, by
// a split per bit in shared memory, and counts the digits. Positions come from a scan by shuffles.

constexpr int THREADS = 256, KEYS = 4, TILE = THREADS * KEYS, BITS = 4, DIGITS = 1 << BITS;

extern "C" __global__ void radix_sort(const uint4 *in, uint4 *out, int *counts, int shift)
{
    __shared__ unsigned keys[TILE];
    __shared__ int warp_zeros[THREADS / 32], starts[DIGITS], ends[DIGITS];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, first = KEYS * thread;
    uint4 loaded = in[THREADS * blockIdx.x + thread];
    unsigned key[KEYS] = {loaded.x, loaded.y, loaded.z, loaded.w};
    if (thread < DIGITS)
        starts[thread] = ends[thread] = 0;
    for (int bit = shift; bit < shift + BITS; bit++) {
        int zeros = 0, total = 0;
        for (int k = 0; k < KEYS; k++)
            zeros += ~key[k] >> bit & 1;
        int before = zeros;
        for (int distance = 1; distance < 32; distance *= 2) {
            int other = __shfl_up_sync(~0u, before, distance);
            if (lane >= distance)
                before += other;
        }
        if (lane == 31)
            warp_zeros[warp] = before;
        __syncthreads();
        before -= zeros;
        for (int w = 0; w < THREADS / 32; w++) {
            if (w < warp)
                before += warp_zeros[w];
            total += warp_zeros[w];
        }
        for (int k = 0; k < KEYS; k++) {
            int is_zero = ~key[k] >> bit & 1;
            keys[is_zero ? before : total + first + k - before] = key[k];
            before += is_zero;
        }
        __syncthreads();
        for (int k = 0; k < KEYS; k++)
            key[k] = keys[first + k];
    }
    for (int k = 0; k < KEYS; k++) {
        int i = first + k;
        unsigned digit = key[k] >> shift & DIGITS - 1;
        if (i == 0 || (keys[i - 1] >> shift & DIGITS - 1) != digit)
            starts[digit] = i;
        if (i == TILE - 1 || (keys[i + 1] >> shift & DIGITS - 1) != digit)
            ends[digit] = i + 1;
    }
    out[THREADS * blockIdx.x + thread] = {key[0], key[1], key[2], key[3]};
    __syncthreads();
    if (thread < DIGITS)
        counts[thread * gridDim.x + blockIdx.x] = ends[thread] - starts[thread];
}
