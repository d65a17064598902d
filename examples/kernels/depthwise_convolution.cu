// Depthwise convolution of 7x7 in half precision, channels last, as in ConvNeXt (Liu et al. 2022): two channels of a
// pixel per thread, sums in single precision, zeros outside. All images together fit into the L2 of a large GPU.

#include <cuda_fp16.h>

constexpr int CHANNEL_PAIRS = 48, SIZE = 56, TAPS = 7;

extern "C" __global__ void depthwise_convolution(const __half2 *in, const __half2 *weights, const float2 *bias,
                                                 __half2 *out)
{
    int channel = threadIdx.x, x = blockIdx.x * blockDim.y + threadIdx.y, y = blockIdx.y;
    const __half2 *image = in + (size_t)blockIdx.z * SIZE * SIZE * CHANNEL_PAIRS + channel;
    float2 sum = bias[channel];
    for (int ty = 0; ty < TAPS; ty++) {
        int from_y = y + ty - TAPS / 2;
        if (from_y < 0 || from_y >= SIZE)
            continue;
#pragma unroll
        for (int tx = 0; tx < TAPS; tx++) {
            int from_x = x + tx - TAPS / 2;
            if (from_x < 0 || from_x >= SIZE)
                continue;
            float2 value = __half22float2(image[(from_y * SIZE + from_x) * CHANNEL_PAIRS]);
            float2 weight = __half22float2(weights[(ty * TAPS + tx) * CHANNEL_PAIRS + channel]);
            sum.x += value.x * weight.x;
            sum.y += value.y * weight.y;
        }
    }
    out[((size_t)(blockIdx.z * SIZE + y) * SIZE + x) * CHANNEL_PAIRS + channel] = __floats2half2_rn(sum.x, sum.y);
}
