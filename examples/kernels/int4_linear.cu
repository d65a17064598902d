// Linear layer with weights of four bits for two vectors, as when a language model writes words: a warp has four rows,
// whose weights come through four stages of asynchronous copies, and makes halves of them by bit operations (as in
// Kim et al. 2022). Each 128 weights of a row have a scale. Weights are stored in the order in which pairs are taken.

#include <cuda_fp16.h>

constexpr int K = 8192, THREADS = 128, ROWS = 4, STAGES = 4, PER_LANE = 32, STEPS = K / 32 / PER_LANE, GROUP = 128;

__device__ void load(uint4 *to, const uint4 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

__device__ __half2 as_halves(unsigned bits)
{
    return *reinterpret_cast<__half2 *>(&bits);
}

extern "C" __global__ void __launch_bounds__(THREADS)
int4_linear(const uint4 *weights, const __half *scales, const uint4 *x, float *y, int rows)
{
    __shared__ uint4 stages[STAGES][ROWS][THREADS];
    int thread = threadIdx.x, lane = thread % 32, first = (blockIdx.x * THREADS + thread) / 32 * ROWS;
    const uint4 *from = weights + (size_t)first * (K / PER_LANE) + lane;
    float sums[ROWS][2] = {};
    for (int step = 0; step < STAGES - 1; step++) {
        for (int r = 0; r < ROWS; r++)
            load(&stages[step][r][thread], from + r * (K / PER_LANE) + step * 32);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int step = 0; step < STEPS; step++) {
        int ahead = step + STAGES - 1;
        __syncwarp();
        if (ahead < STEPS)
            for (int r = 0; r < ROWS; r++)
                load(&stages[ahead % STAGES][r][thread], from + r * (K / PER_LANE) + ahead * 32);
        asm volatile("cp.async.commit_group;" ::: "memory");
        uint4 vector[2][PER_LANE / 8];
        for (int v = 0; v < 2; v++)
            for (int j = 0; j < PER_LANE / 8; j++)
                vector[v][j] = x[v * (K / 8) + (step * 32 + lane) * (PER_LANE / 8) + j];
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        for (int r = 0; r < ROWS; r++) {
            uint4 packed = stages[step % STAGES][r][thread];
            unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
            __half2 partial[2] = {__float2half2_rn(0), __float2half2_rn(0)};
            for (int j = 0; j < 4; j++) {
                unsigned xs[2][4] = {{vector[0][j].x, vector[0][j].y, vector[0][j].z, vector[0][j].w},
                                     {vector[1][j].x, vector[1][j].y, vector[1][j].z, vector[1][j].w}};
                for (int p = 0; p < 4; p++) {
                    // 0x6400 is 1024 in half precision: the four bits are added to it.
                    __half2 raised = as_halves(words[j] >> 4 * p & 0x000f000f | 0x64006400);
                    __half2 weight = __hsub2(raised, as_halves(0x64086408));
                    partial[0] = __hfma2(weight, as_halves(xs[0][p]), partial[0]);
                    partial[1] = __hfma2(weight, as_halves(xs[1][p]), partial[1]);
                }
            }
            int group = (step * 32 + lane) * PER_LANE / GROUP;
            float scale = __half2float(scales[(size_t)(first + r) * (K / GROUP) + group]);
            for (int v = 0; v < 2; v++)
                sums[r][v] += scale * (__low2float(partial[v]) + __high2float(partial[v]));
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 2; v++) {
            float sum = sums[r][v];
            for (int distance = 16; distance > 0; distance /= 2)
                sum += __shfl_xor_sync(~0u, sum, distance);
            if (lane == 0)
                y[v * rows + first + r] = sum;
        }
}
