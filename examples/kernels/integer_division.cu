// Permutes the axes of a tensor with four axes: the coordinates of each element of the output follow from its index by
// 32-bit division. n0 to n3 are the axes of the output, s0 to s3 the strides of these axes in the input.

extern "C" __global__ void integer_division(const float *in, float *out, unsigned n0, unsigned n1, unsigned n2,
                                            unsigned n3, unsigned s0, unsigned s1, unsigned s2, unsigned s3)
{
    unsigned i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n0 * n1 * n2 * n3)
        return;
    unsigned rows = i / n3, planes = rows / n2, x0 = planes / n1;
    unsigned x3 = i % n3, x2 = rows % n2, x1 = planes % n1;
    out[i] = in[x0 * s0 + x1 * s1 + x2 * s2 + x3 * s3];
}
