// Product of a sparse matrix, whose nonzero elements are in blocks of 16 x 16 (BSR), and a dense one by rows. A block
// of threads computes 16 rows and 64 columns of the result, four columns per thread.

constexpr int SIZE = 16, COLUMNS = 64;

extern "C" __global__ void block_sparse_multiply(const int *row_starts, const int *block_columns, const float *values,
                                                 const float *dense, float *result, int columns)
{
    __shared__ float a[SIZE][SIZE];
    __shared__ float b[SIZE][COLUMNS];
    int x = threadIdx.x, y = threadIdx.y;
    int block_row = blockIdx.y;
    int first_column = blockIdx.x * COLUMNS;
    float sums[4] = {0, 0, 0, 0};

    int end = row_starts[block_row + 1];
    for (int k = row_starts[block_row]; k < end; k++) {
        a[y][x] = values[(size_t)k * SIZE * SIZE + y * SIZE + x];
        const float *source = dense + (size_t)(block_columns[k] * SIZE + y) * columns + first_column;
        for (int j = 0; j < 4; j++)
            b[y][x + j * SIZE] = source[x + j * SIZE];
        __syncthreads();
        for (int i = 0; i < SIZE; i++) {
            float factor = a[y][i];
            for (int j = 0; j < 4; j++)
                sums[j] += factor * b[i][x + j * SIZE];
        }
        __syncthreads();
    }

    float *target = result + (size_t)(block_row * SIZE + y) * columns + first_column;
    for (int j = 0; j < 4; j++)
        target[x + j * SIZE] = sums[j];
}
