// Multi-resolution hash encoding of points, as in Instant NGP: a thread interpolates features of a point on a level.

#include <cuda_fp16.h>

constexpr int CORNERS = 8;

__device__ __forceinline__ unsigned grid_index(unsigned x, unsigned y, unsigned z, unsigned resolution,
                                               unsigned table_size)
{
    unsigned long long cells = (unsigned long long)resolution * resolution * resolution;
    unsigned index;
    if (cells <= table_size)
        index = x + resolution * (y + resolution * z);
    else
        index = x ^ y * 2654435761u ^ z * 805459861u;
    return index & (table_size - 1);
}

// tables: levels (the y of the grid) x table_size, a power of two. encoded: levels x points.
extern "C" __global__ void hash_grid_encoding(const float *__restrict__ points, const __half2 *__restrict__ tables,
                                              __half2 *__restrict__ encoded, int count, unsigned table_size,
                                              float base_resolution, float log2_growth)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const int level = blockIdx.y;
    const __half2 *table = tables + (size_t)level * table_size;
    const float scale = exp2f(level * log2_growth) * base_resolution - 1.0f;
    const unsigned resolution = (unsigned)ceilf(scale) + 1;

    unsigned cell[3];
    float fraction[3];
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        float position = fmaf(scale, points[3 * i + axis], 0.5f);
        float whole = floorf(position);
        cell[axis] = (unsigned)(int)whole;
        fraction[axis] = position - whole;
    }

    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int corner = 0; corner < CORNERS; corner++) {
        float weight = 1.0f;
        unsigned place[3];
#pragma unroll
        for (int axis = 0; axis < 3; axis++) {
            bool upper = corner >> axis & 1;
            weight *= upper ? fraction[axis] : 1.0f - fraction[axis];
            place[axis] = cell[axis] + upper;
        }
        float2 feature = __half22float2(table[grid_index(place[0], place[1], place[2], resolution, table_size)]);
        sum.x += weight * feature.x;
        sum.y += weight * feature.y;
    }
    encoded[(size_t)level * count + i] = __float22half2_rn(sum);
}
