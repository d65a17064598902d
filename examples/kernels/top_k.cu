// The eight largest elements of each row of a matrix and their columns, one row per warp: each lane keeps the largest
// elements that it reads in order, and the warp then takes the largest of the lanes' first elements eight times.

constexpr int K = 8, LANES = 32;

extern "C" __global__ void top_k(const float *matrix, float *values, int *indices, int rows, int columns)
{
    int row = (threadIdx.x + blockDim.x * blockIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (row >= rows)
        return;
    float largest[K];
    int largest_columns[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        largest[k] = -3e38f;
        largest_columns[k] = -1;
    }
    for (int column = lane; column < columns; column += LANES) {
        float value = matrix[size_t(columns) * row + column];
        if (value > largest[K - 1]) {
            largest[K - 1] = value;
            largest_columns[K - 1] = column;
#pragma unroll
            for (int k = K - 1; k > 0; k--)
                if (largest[k] > largest[k - 1]) {
                    float other = largest[k];
                    int other_column = largest_columns[k];
                    largest[k] = largest[k - 1];
                    largest_columns[k] = largest_columns[k - 1];
                    largest[k - 1] = other;
                    largest_columns[k - 1] = other_column;
                }
        }
    }
    for (int rank = 0; rank < K; rank++) {
        float value = largest[0];
        int column = largest_columns[0];
        for (int distance = LANES / 2; distance > 0; distance /= 2) {
            float other = __shfl_xor_sync(~0u, value, distance);
            int other_column = __shfl_xor_sync(~0u, column, distance);
            if (other > value || other == value && other_column < column) {
                value = other;
                column = other_column;
            }
        }
        if (column == largest_columns[0]) {
#pragma unroll
            for (int k = 0; k < K - 1; k++) {
                largest[k] = largest[k + 1];
                largest_columns[k] = largest_columns[k + 1];
            }
            largest[K - 1] = -3e38f;
            largest_columns[K - 1] = -1;
        }
        if (lane == 0) {
            values[K * row + rank] = value;
            indices[K * row + rank] = column;
        }
    }
}
