// Quantization of FP16 to MXFP8 (OCP Microscaling Formats 2023): 32 elements share a power of two as scale, and are FP8
// (E4M3). Four lanes have a group, eight elements each, and share the largest by shuffles. Blocks go through the array.

#include <cuda_fp16.h>

constexpr int LARGEST_EXPONENT = 8; // of E4M3: 448 is 1.75 * 2^8

__device__ __forceinline__ unsigned to_fp8(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

extern "C" __global__ void __launch_bounds__(1024)
    mx_quantize(const uint4 *__restrict__ x, uint2 *__restrict__ quantized, unsigned char *__restrict__ scales, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 loaded = x[i];
        const __half2 *pairs = reinterpret_cast<const __half2 *>(&loaded);
        float2 values[4];
        float largest = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            values[k] = __half22float2(pairs[k]);
            largest = fmaxf(largest, fmaxf(fabsf(values[k].x), fabsf(values[k].y)));
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));

        int exponent = max((int)(__float_as_uint(largest) >> 23) - LARGEST_EXPONENT, 1); // with the bias of 127
        float factor = __uint_as_float((unsigned)(254 - exponent) << 23);
        unsigned words[2];
#pragma unroll
        for (int k = 0; k < 2; k++)
            words[k] = to_fp8(values[2 * k].x * factor, values[2 * k].y * factor) |
                       to_fp8(values[2 * k + 1].x * factor, values[2 * k + 1].y * factor) << 16;
        quantized[i] = make_uint2(words[0], words[1]);
        if (threadIdx.x % 4 == 0)
            scales[i / 4] = (unsigned char)exponent;
    }
}
