// Linear layer in half precision with bias and GELU: tiles of 128x128x32 by asynchronous copies into two buffers,
// ldmatrix and mma.sync of 16x8x16. Both matrices have k as their last dimension. A warp has 64x32 of the tile.

#include <cuda_fp16.h>

constexpr int TILE = 128, DEPTH = 32, PITCH = DEPTH + 8, THREADS = 256, M_TILES = 4, N_TILES = 4;

__device__ unsigned shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ void load_tile(__half (*tile)[PITCH], const __half *from, int k)
{
    for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += THREADS) {
        int row = i / (DEPTH / 8), column = i % (DEPTH / 8) * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&tile[row][column])),
                     "l"(from + (size_t)row * k + column)
                     : "memory");
    }
}

__device__ void load_fragments(unsigned (&to)[4], const __half *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
linear_gelu(const __half *a, const __half *b, const float *bias, __half *c, int n, int k)
{
    __shared__ __align__(16) __half a_tiles[2][TILE][PITCH], b_tiles[2][TILE][PITCH];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 4 * 64, column = warp % 4 * 32;
    a += (size_t)blockIdx.y * TILE * k;
    b += (size_t)blockIdx.x * TILE * k;
    float sums[M_TILES][N_TILES][4] = {};
    load_tile(a_tiles[0], a, k);
    load_tile(b_tiles[0], b, k);
    asm volatile("cp.async.commit_group;" ::: "memory");
    int tiles = k / DEPTH;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            load_tile(a_tiles[(tile + 1) % 2], a + (tile + 1) * DEPTH, k);
            load_tile(b_tiles[(tile + 1) % 2], b + (tile + 1) * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        const __half(*as)[PITCH] = a_tiles[tile % 2], (*bs)[PITCH] = b_tiles[tile % 2];
#pragma unroll
        for (int step = 0; step < DEPTH; step += 16) {
            unsigned left[M_TILES][4], right[N_TILES / 2][4];
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
                load_fragments(left[m], &as[row + m * 16 + lane % 16][step + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < N_TILES / 2; j++)
                load_fragments(right[j], &bs[column + j * 16 + lane / 16 * 8 + lane % 8][step + lane / 8 % 2 * 8]);
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int j = 0; j < N_TILES; j++) {
                    float *sum = sums[m][j];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                                 : "r"(left[m][0]), "r"(left[m][1]), "r"(left[m][2]), "r"(left[m][3]),
                                   "r"(right[j / 2][j % 2 * 2]), "r"(right[j / 2][j % 2 * 2 + 1]));
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int j = 0; j < N_TILES; j++) {
            int to_row = blockIdx.y * TILE + row + m * 16 + lane / 4;
            int to_column = blockIdx.x * TILE + column + j * 8 + lane % 4 * 2;
            float2 shift = *reinterpret_cast<const float2 *>(bias + to_column);
            float *sum = sums[m][j];
            *reinterpret_cast<__half2 *>(c + (size_t)to_row * n + to_column) =
                __floats2half2_rn(gelu(sum[0] + shift.x), gelu(sum[1] + shift.y));
            *reinterpret_cast<__half2 *>(c + (size_t)(to_row + 8) * n + to_column) =
                __floats2half2_rn(gelu(sum[2] + shift.x), gelu(sum[3] + shift.y));
        }
}
