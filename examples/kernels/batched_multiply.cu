// Products of many pairs of 8 x 8 matrices, C = alpha A B + beta D, one element per thread. Matrices are stored by
// rows, one after the other; A and B may be transposed. A block has 8 x 8 threads for each of several matrices.

constexpr int SIZE = 8;

extern "C" __global__ void batched_multiply(const float *a, const float *b, const float *d, float *c, float alpha,
                                            float beta, int transpose_a, int transpose_b, int matrices)
{
    int column = threadIdx.x;
    int row = threadIdx.y;
    int matrix = blockIdx.x * blockDim.z + threadIdx.z;
    if (matrix >= matrices)
        return;
    int first = matrix * SIZE * SIZE;
    const float *a_row = a + first + (transpose_a ? row : row * SIZE);
    const float *b_column = b + first + (transpose_b ? column * SIZE : column);
    int a_stride = transpose_a ? SIZE : 1;
    int b_stride = transpose_b ? 1 : SIZE;
    float sum = 0;
    for (int k = 0; k < SIZE; k++)
        sum += a_row[k * a_stride] * b_column[k * b_stride];
    int element = first + row * SIZE + column;
    c[element] = alpha * sum + beta * d[element];
}
