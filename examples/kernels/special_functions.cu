// Four special functions per iteration, which the SFU executes: sine, 2^x, logarithm, reciprocal square root.

extern "C" __global__ void special_functions(const float *in, float *out, int n, int iterations)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    for (int k = 0; k < iterations; k++)
        x = __logf(2 + __sinf(x) * __expf(-x * x)) + rsqrtf(1 + x * x);
    out[i] = x;
}
