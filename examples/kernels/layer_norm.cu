// Layer normalization of rows of 1024 elements, with a scale and a shift per column. A warp has a row, keeps it in
// registers and adds by shuffles. Elements are read and written as float4.

constexpr int COLUMNS = 1024, LANES = 32, VECTORS = COLUMNS / 4 / LANES;

__device__ float warp_sum(float sum)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    return sum;
}

extern "C" __global__ void layer_norm(const float4 *in, const float4 *scale, const float4 *shift, float4 *out, int rows,
                                      float epsilon)
{
    int row = (threadIdx.x + blockDim.x * blockIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (row >= rows)
        return;
    size_t first = size_t(COLUMNS / 4) * row + lane;
    float4 values[VECTORS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        values[k] = in[first + k * LANES];
        sum += values[k].x + values[k].y + values[k].z + values[k].w;
    }
    float mean = warp_sum(sum) / COLUMNS;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        values[k] = {values[k].x - mean, values[k].y - mean, values[k].z - mean, values[k].w - mean};
        squares += values[k].x * values[k].x + values[k].y * values[k].y + values[k].z * values[k].z +
                   values[k].w * values[k].w;
    }
    float factor = rsqrtf(warp_sum(squares) / COLUMNS + epsilon);
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        float4 gamma = scale[lane + k * LANES], beta = shift[lane + k * LANES], value = values[k];
        out[first + k * LANES] = {value.x * factor * gamma.x + beta.x, value.y * factor * gamma.y + beta.y,
                                  value.z * factor * gamma.z + beta.z, value.w * factor * gamma.w + beta.w};
    }
}
