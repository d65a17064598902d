// Tridiagonal systems in FP64 by elimination (Thomas 1949), one per thread: a sweep forward with a division per row,
// and one back. Elements of the same row of all systems are neighbours in memory.

extern "C" __global__ void tridiagonal(const double *__restrict__ lower, const double *__restrict__ diagonal,
                                       const double *__restrict__ upper, const double *__restrict__ right,
                                       double *__restrict__ scratch, double *__restrict__ x, int systems, int rows)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= systems)
        return;
    double factor = 0, value = 0;
    for (int row = 0, at = i; row < rows; row++, at += systems) {
        double scale = 1 / fma(-lower[at], factor, diagonal[at]);
        factor = upper[at] * scale;
        value = fma(-lower[at], value, right[at]) * scale;
        scratch[at] = factor;
        x[at] = value;
    }
    for (int at = i + (rows - 2) * systems; at >= 0; at -= systems) {
        value = fma(-scratch[at], value, x[at]);
        x[at] = value;
    }
}
