// Causal attention of a whole sequence with tensor cores (FlashAttention-2, Dao 2023), 64 features a head, in FP16: a
// warp has 16 queries in registers; tiles of 64 keys and values arrive by asynchronous copies, two of each in flight.

#include <cuda_fp16.h>

constexpr int D = 64, TILE = 64, WARPS = 4, CHUNKS = D / 8, SIZE = TILE * CHUNKS;

// Chunks of 16 bytes of a tile's rows are swizzled, so that reads have no bank conflicts.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * CHUNKS + (chunk ^ row % 8);
}

__device__ __forceinline__ void copy_tile(uint4 *tile, const uint4 *from)
{
    for (int i = threadIdx.x; i < SIZE; i += WARPS * 32) {
        unsigned to = (unsigned)__cvta_generic_to_shared(tile + place(i / CHUNKS, i % CHUNKS));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from + i) : "memory");
    }
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    flash_attention(const unsigned *queries, const uint4 *keys, const uint4 *values, __half2 *out, int n, float scale)
{
    __shared__ uint4 key_tiles[2][SIZE], value_tiles[2][SIZE];
    const int lane = threadIdx.x % 32, tiles = gridDim.x - blockIdx.x; // the longest rows start first
    const int first = (tiles - 1) * TILE + threadIdx.x / 32 * 16 + lane / 4;
    const size_t head = (size_t)blockIdx.y * n;
    const uint4 *key = keys + head * CHUNKS, *value = values + head * CHUNKS;
    unsigned q[4][4];
    for (int i = 0; i < 16; i++)
        q[i / 4][i % 4] = queries[(head + first + i % 2 * 8) * (D / 2) + i / 2 * 4 + lane % 4];
    float o[8][4] = {}, largest[2] = {-1e30f, -1e30f}, sum[2] = {};
    for (int next = 0; next <= tiles; next++) {
        if (next < tiles) {
            copy_tile(key_tiles[next % 2], key + next * SIZE);
            copy_tile(value_tiles[next % 2], value + next * SIZE);
        }
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (next == 0)
            continue;
        int tile = next - 1;
        float p[8][4] = {};
        const unsigned *key_words = reinterpret_cast<const unsigned *>(key_tiles[tile % 2]) + lane % 4;
        for (int n = 0; n < 8; n++)
            for (int s = 0; s < 4; s++)
                multiply(p[n], q[s], key_words[4 * place(n * 8 + lane / 4, 2 * s)],
                         key_words[4 * place(n * 8 + lane / 4, 2 * s + 1)]);
        for (int r = 0; r < 2; r++) {
            float highest = largest[r];
            for (int i = 0; i < 16; i++) {
                int key_index = tile * TILE + i / 2 * 8 + lane % 4 * 2 + i % 2;
                float &score = p[i / 2][2 * r + i % 2];
                score = key_index > first + 8 * r ? -1e30f : score * scale;
                highest = fmaxf(highest, score);
            }
            for (int distance = 1; distance < 4; distance *= 2)
                highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, distance));
            float factor = exp2f(largest[r] - highest);
            largest[r] = highest;
            sum[r] *= factor;
            for (int i = 0; i < 16; i++) {
                sum[r] += p[i / 2][2 * r + i % 2] = exp2f(p[i / 2][2 * r + i % 2] - highest);
                o[i / 2][2 * r + i % 2] *= factor;
            }
        }
        for (int t = 0; t < 4; t++) {
            __half2 pairs[4];
            for (int i = 0; i < 4; i++)
                pairs[i] = __floats2half2_rn(p[2 * t + i / 2][i % 2 * 2], p[2 * t + i / 2][i % 2 * 2 + 1]);
            const unsigned(&a)[4] = reinterpret_cast<const unsigned(&)[4]>(pairs);
            for (int n = 0; n < 8; n += 2) {
                const uint4 *from = &value_tiles[tile % 2][place(t * 16 + lane % 16, n + lane / 16)];
                unsigned b[4];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                             : "r"((unsigned)__cvta_generic_to_shared(from)));
                multiply(o[n], a, b[0], b[1]);
                multiply(o[n + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 2; r++) {
        for (int distance = 1; distance < 4; distance *= 2)
            sum[r] += __shfl_xor_sync(~0u, sum[r], distance);
        __half2 *to = out + (head + first + 8 * r) * (D / 2) + lane % 4;
        for (int n = 0; n < 8; n++)
            to[n * 4] = __floats2half2_rn(o[n][2 * r] / sum[r], o[n][2 * r + 1] / sum[r]);
    }
}
