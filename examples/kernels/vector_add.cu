// Sum of two vectors. VV16, section 3.8, listing 3.4, with a check of the index.

extern "C" __global__ void vector_add(const float *x, const float *y, float *out, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}
