// Decodes pages of 1024 bit-packed, delta-encoded integers of a column: a block per page unpacks the deltas and adds
// them up with a scan.

constexpr int THREADS = 256;
constexpr int VALUES_PER_THREAD = 4;
constexpr int PAGE_VALUES = THREADS * VALUES_PER_THREAD;

__device__ inline unsigned unpack(const unsigned *words, int index, int width, int last_word)
{
    int bit = index * width;
    int word = bit >> 5;
    unsigned low = words[min(word, last_word)];
    unsigned high = words[min(word + 1, last_word)];
    return __funnelshift_r(low, high, bit & 31) & ((1u << width) - 1u);
}

__device__ inline unsigned warp_inclusive_scan(unsigned value, int lane)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        unsigned other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset)
            value += other;
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    delta_unpack(const unsigned *__restrict__ packed, const unsigned char *__restrict__ widths,
                 const unsigned *__restrict__ bases, uint4 *__restrict__ values, int slot_words)
{
    __shared__ unsigned warp_totals[THREADS / 32];
    const int page = blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned *words = packed + (size_t)page * slot_words;
    const int width = min((int)widths[page], 16);

    unsigned sums[VALUES_PER_THREAD];
    unsigned running = 0;
#pragma unroll
    for (int i = 0; i < VALUES_PER_THREAD; i++) {
        running += unpack(words, threadIdx.x * VALUES_PER_THREAD + i, width, slot_words - 1);
        sums[i] = running;
    }

    unsigned inclusive = warp_inclusive_scan(running, lane);
    if (lane == 31)
        warp_totals[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < THREADS / 32 ? warp_totals[lane] : 0;
        total = warp_inclusive_scan(total, lane);
        if (lane < THREADS / 32)
            warp_totals[lane] = total;
    }
    __syncthreads();

    unsigned before = bases[page] + inclusive - running + (warp > 0 ? warp_totals[warp - 1] : 0);
    values[(size_t)page * (PAGE_VALUES / 4) + threadIdx.x] =
        make_uint4(before + sums[0], before + sums[1], before + sums[2], before + sums[3]);
}
