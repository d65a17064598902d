// Two polynomials in FP64 with all coefficients 1, by Horner's rule: two dependent chains of multiply-adds.

extern "C" __global__ void double_precision(const double *in, double *out, int n, int degree)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    double x = in[i], square = x * x, sum = 1, even = 1;
    for (int k = 0; k < degree; k++) {
        sum = sum * x + 1;
        even = even * square + 1;
    }
    out[i] = sum - even;
}
