// Finite impulse response filter: each output is a weighted sum of `taps` consecutive inputs, which the L1 holds. x has
// n + taps - 1 elements.

extern "C" __global__ void fir_filter(const float *__restrict__ x, const float *__restrict__ weights,
                                      float *__restrict__ out, int n, int taps)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int k = 0; k < taps; k++)
        sum += weights[k] * x[i + k];
    out[i] = sum;
}
