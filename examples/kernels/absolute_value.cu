// Absolute value. VV16, section 3.10, listing 3.7, with a check of the index. The thesis compares an array of positive
// numbers, which is only read (4 bytes per thread), with one of negative numbers, which is read and written (8 bytes).
// It writes in place; here another array is written, so that a second launch does the same work as the first.

extern "C" __global__ void absolute_value(const float *a, float *out, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float b = a[i];
    if (b < 0)
        out[i] = -b;
}

// The same with accesses of 8 and 16 bytes; n counts vectors.

extern "C" __global__ void absolute_value_float2(const float2 *a, float2 *out, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float2 b = a[i];
    if (b.x < 0 || b.y < 0)
        out[i] = make_float2(fabsf(b.x), fabsf(b.y));
}

extern "C" __global__ void absolute_value_float4(const float4 *a, float4 *out, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float4 b = a[i];
    if (b.x < 0 || b.y < 0 || b.z < 0 || b.w < 0)
        out[i] = make_float4(fabsf(b.x), fabsf(b.y), fabsf(b.z), fabsf(b.w));
}
