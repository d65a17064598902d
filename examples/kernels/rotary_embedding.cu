// Rotary position embedding (Su et al. 2021) of heads of 128 dimensions in half precision, a warp per head of a token.
// Sines and cosines are computed, not read: accurate ones, of angles up to the position.

#include <cuda_fp16.h>

constexpr int HEAD = 128, PAIRS = HEAD / 2;

extern "C" __global__ void rotary_embedding(const __half2 *in, const int *positions, __half2 *out, int vectors,
                                            int heads, float log2_base)
{
    int lane = threadIdx.x % 32, vector = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (vector >= vectors)
        return;
    float position = positions[vector / heads];
    size_t i = (size_t)vector * PAIRS + lane;
    float2 low = __half22float2(in[i]), high = __half22float2(in[i + PAIRS / 2]);
    float sine, cosine;
    sincosf(position * exp2f(-2 * lane * log2_base / PAIRS), &sine, &cosine);
    float low_x = low.x * cosine - high.x * sine, high_x = high.x * cosine + low.x * sine;
    sincosf(position * exp2f(-(2 * lane + 1) * log2_base / PAIRS), &sine, &cosine);
    float low_y = low.y * cosine - high.y * sine, high_y = high.y * cosine + low.y * sine;
    out[i] = __floats2half2_rn(low_x, low_y);
    out[i + PAIRS / 2] = __floats2half2_rn(high_x, high_y);
}
