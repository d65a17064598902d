// A level of a sparse triangular solve in double precision: a thread solves for a row, all of whose other unknowns are
// of earlier levels. Rows of a level lie anywhere in the matrix; their lengths differ.

extern "C" __global__ void triangular_solve(const int *level_rows, const int *row_starts, const int *lengths,
                                            const int *columns, const double *values, const double *diagonal,
                                            const double *right, double *x, int rows, int known)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    int row = level_rows[i], start = row_starts[row], end = start + lengths[row];
    double sum = right[row];
    for (int e = start; e < end; e++)
        sum -= values[e] * x[columns[e]];
    x[known + row] = sum / diagonal[row];
}
