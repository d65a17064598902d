// Group normalization (Wu and He 2018) with SiLU in half precision, as in diffusion models: a block reads a group of
// channels of an image, finds its mean and variance, then reads it again. Tensors are stored by image and channel.

#include <cuda_fp16.h>

__device__ float2 block_sum(float2 value)
{
    __shared__ float2 sums[32];
    for (int distance = 16; distance > 0; distance /= 2) {
        value.x += __shfl_xor_sync(~0u, value.x, distance);
        value.y += __shfl_xor_sync(~0u, value.y, distance);
    }
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = value;
    __syncthreads();
    float2 total = make_float2(0, 0);
    for (int warp = 0; warp < blockDim.x / 32; warp++) {
        total.x += sums[warp].x;
        total.y += sums[warp].y;
    }
    return total;
}

__device__ float silu(float x)
{
    return x / (1 + __expf(-x));
}

extern "C" __global__ void group_norm(const __half2 *in, const float *scale, const float *shift, __half2 *out,
                                      int groups, int channels, int pixels, float epsilon)
{
    int pairs = pixels / 2, count = channels * pairs;  // channels of a group
    const __half2 *from = in + (size_t)blockIdx.x * count;
    __half2 *to = out + (size_t)blockIdx.x * count;
    float2 sums = make_float2(0, 0);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float2 value = __half22float2(from[i]);
        sums.x += value.x + value.y;
        sums.y += value.x * value.x + value.y * value.y;
    }
    sums = block_sum(sums);
    float mean = sums.x / (2 * count);
    float inverse = rsqrtf(sums.y / (2 * count) - mean * mean + epsilon);
    int first = blockIdx.x % groups * channels;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int channel = first + i / pairs;
        float factor = inverse * scale[channel], offset = shift[channel] - mean * factor;
        float2 value = __half22float2(from[i]);
        to[i] = __floats2half2_rn(silu(value.x * factor + offset), silu(value.y * factor + offset));
    }
}
