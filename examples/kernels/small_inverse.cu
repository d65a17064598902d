// Inverses of many 8 x 8 matrices in FP64 by the method of Gauss and Jordan without pivots, one matrix per thread in
// registers. Matrices are stored one after the other.

constexpr int SIZE = 8;

extern "C" __global__ void __launch_bounds__(64) small_inverse(const double *in, double *out, int n)
{
    int matrix = threadIdx.x + blockDim.x * blockIdx.x;
    if (matrix >= n)
        return;
    double a[SIZE][SIZE];
#pragma unroll
    for (int i = 0; i < SIZE * SIZE; i++)
        a[i / SIZE][i % SIZE] = in[matrix * SIZE * SIZE + i];
#pragma unroll
    for (int pivot = 0; pivot < SIZE; pivot++) {
        double inverse = 1 / a[pivot][pivot];
        a[pivot][pivot] = 1;
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            a[pivot][j] *= inverse;
#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            if (i == pivot)
                continue;
            double factor = a[i][pivot];
            a[i][pivot] = 0;
#pragma unroll
            for (int j = 0; j < SIZE; j++)
                a[i][j] -= factor * a[pivot][j];
        }
    }
#pragma unroll
    for (int i = 0; i < SIZE * SIZE; i++)
        out[matrix * SIZE * SIZE + i] = a[i / SIZE][i % SIZE];
}
