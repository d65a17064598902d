// Pointwise part of an LSTM cell: gates in FP16 from two matrix products and a bias, cell state in FP32. A thread
// computes two neighbouring units.

#include <cuda_fp16.h>

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}

__device__ __forceinline__ float2 gate_sum(const __half2 *__restrict__ from_input,
                                           const __half2 *__restrict__ from_hidden,
                                           const __half2 *__restrict__ bias, size_t row, int column)
{
    __half2 sum = __hadd2(from_input[row + column], from_hidden[row + column]);
    return __half22float2(__hadd2(sum, bias[column]));
}

extern "C" __global__ void lstm_cell(const __half2 *__restrict__ from_input, const __half2 *__restrict__ from_hidden,
                                     const __half2 *__restrict__ bias, const float2 *__restrict__ cell,
                                     float2 *__restrict__ next_cell, __half2 *__restrict__ hidden, int batch, int pairs)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch * pairs)
        return;
    int sample = index / pairs;
    int unit = index - sample * pairs;
    size_t row = (size_t)sample * 4 * pairs;

    float2 input = gate_sum(from_input, from_hidden, bias, row, unit);
    float2 forget = gate_sum(from_input, from_hidden, bias, row, unit + pairs);
    float2 candidate = gate_sum(from_input, from_hidden, bias, row, unit + 2 * pairs);
    float2 output = gate_sum(from_input, from_hidden, bias, row, unit + 3 * pairs);

    float2 old = cell[index], next;
    next.x = sigmoid(forget.x) * old.x + sigmoid(input.x) * tanhf(candidate.x);
    next.y = sigmoid(forget.y) * old.y + sigmoid(input.y) * tanhf(candidate.y);
    next_cell[index] = next;
    hidden[index] = __floats2half2_rn(sigmoid(output.x) * tanhf(next.x), sigmoid(output.y) * tanhf(next.y));
}
