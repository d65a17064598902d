// Product of matrices in FP32, by rows: C = A B with tiles of 128 x 128 x 8 in shared memory and 8 x 8 sums per thread
// (Tan et al. 2011). Global and shared memory are read as float4. Blocks have 256 threads; m and n are multiples of
// 128, k of 8.

constexpr int TILE = 128, DEPTH = 8, HALF = TILE / 2, PER_THREAD = 8;

extern "C" __global__ void __launch_bounds__(256)
    sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    __shared__ float4 left[DEPTH][TILE / 4], right[DEPTH][TILE / 4];
    int x = threadIdx.x % 16, y = threadIdx.x / 16, row = TILE * blockIdx.y, column = TILE * blockIdx.x;
    int a_row = threadIdx.x / 2, a_depth = threadIdx.x % 2 * 4, b_depth = threadIdx.x / 32, b_part = threadIdx.x % 32;
    float sums[PER_THREAD][PER_THREAD] = {};
    const float *a_next = a + (row + a_row) * k + a_depth, *b_next = b + b_depth * n + column + 4 * b_part;
    for (int first = 0; first < k; first += DEPTH, a_next += DEPTH, b_next += DEPTH * n) {
        float4 from_a = *(const float4 *)a_next, from_b = *(const float4 *)b_next;
        __syncthreads();
        float *transposed = (float *)left[a_depth] + a_row;
        transposed[0] = from_a.x;
        transposed[TILE] = from_a.y;
        transposed[2 * TILE] = from_a.z;
        transposed[3 * TILE] = from_a.w;
        right[b_depth][b_part] = from_b;
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            float4 l[2] = {left[d][y], left[d][y + HALF / 4]}, r[2] = {right[d][x], right[d][x + HALF / 4]};
            float u[PER_THREAD] = {l[0].x, l[0].y, l[0].z, l[0].w, l[1].x, l[1].y, l[1].z, l[1].w};
            float v[PER_THREAD] = {r[0].x, r[0].y, r[0].z, r[0].w, r[1].x, r[1].y, r[1].z, r[1].w};
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++)
                    sums[i][j] += u[i] * v[j];
        }
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
        for (int j = 0; j < PER_THREAD; j += 4) {
            float *out = c + (row + i / 4 * HALF + 4 * y + i % 4) * n + column + j / 4 * HALF + 4 * x;
            *(float4 *)out = {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
        }
}
