// Mean of the features of the neighbours in a graph, with a bias and a leaky ReLU: a sparse matrix times a dense one of
// 16 columns. 16 threads compute a row, one per column. Rows are padded to the same capacity; their lengths differ.

constexpr int COLUMNS = 16;

extern "C" __global__ void spmm(const int *__restrict__ lengths, const int *__restrict__ columns,
                                const float *__restrict__ values, const float *__restrict__ dense,
                                const float *__restrict__ bias, float *__restrict__ out, int rows, int capacity,
                                float slope)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int row = thread / COLUMNS, column = thread % COLUMNS;
    if (row >= rows)
        return;
    int length = lengths[row];
    const int *row_columns = columns + row * capacity;
    const float *row_values = values + row * capacity;
    float sum = 0;
    for (int k = 0; k < length; k++)
        sum += row_values[k] * dense[row_columns[k] * COLUMNS + column];
    float mean = length > 0 ? sum / length : 0.0f;
    mean += bias[column];
    out[row * COLUMNS + column] = mean > 0 ? mean : slope * mean;
}
