// Aggregates costs of semi-global stereo matching along rows, both ways: a warp per row, four disparities per lane.

constexpr int DISPARITIES = 128;
constexpr int PER_LANE = DISPARITIES / 32;
constexpr int NONE = 1 << 20;

__device__ __forceinline__ int warp_min(int value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = min(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// costs: rows x width x 128. aggregated: the same for the way to the right, then for the way to the left.
extern "C" __global__ void semi_global_matching(const uchar4 *__restrict__ costs, uchar4 *__restrict__ aggregated,
                                                int rows, int width, int small_penalty, int large_penalty)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows)
        return;
    const bool leftward = blockIdx.y == 1;
    const size_t row_start = (size_t)row * width * 32;
    const uchar4 *in = costs + row_start;
    uchar4 *out = aggregated + row_start + (leftward ? (size_t)rows * width * 32 : 0);

    int path[PER_LANE] = {0, 0, 0, 0};
    int least = 0;
    for (int step = 0; step < width; step++) {
        int x = leftward ? width - 1 - step : step;
        uchar4 packed = in[x * 32 + lane];
        int cost[PER_LANE] = {packed.x, packed.y, packed.z, packed.w};

        int below = __shfl_up_sync(0xffffffffu, path[PER_LANE - 1], 1);
        int above = __shfl_down_sync(0xffffffffu, path[0], 1);
        if (lane == 0)
            below = NONE;
        if (lane == 31)
            above = NONE;

        int next[PER_LANE];
        int smallest = NONE;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int lower = i > 0 ? path[i - 1] : below;
            int upper = i < PER_LANE - 1 ? path[i + 1] : above;
            int best = min(min(path[i], least + large_penalty), min(lower, upper) + small_penalty);
            next[i] = cost[i] + best - least;
            smallest = min(smallest, next[i]);
        }
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            path[i] = next[i];
        least = warp_min(smallest);
        out[x * 32 + lane] = make_uchar4(path[0], path[1], path[2], path[3]);
    }
}
