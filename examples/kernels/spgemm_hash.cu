// Product of two sparse matrices by rows, C = A B, with a hash table in shared memory for each row of C (as in Nagasaka
// et al. 2017). A warp has a row: eight lanes add an element of A times a row of B. Rows of B have room to grow.

constexpr int WARPS = 8;
constexpr int SLOTS = 512; // more than the products of a row, so that an empty slot is always left

__device__ __forceinline__ void accumulate(int *columns, float *values, int column, float value)
{
    unsigned slot = (unsigned)column * 2654435761u >> 23;
    while (true) {
        int found = atomicCAS(&columns[slot], -1, column);
        if (found == -1 || found == column) {
            atomicAdd(&values[slot], value);
            return;
        }
        slot = (slot + 1) % SLOTS;
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    spgemm_hash(const int *__restrict__ a_starts, const int *__restrict__ a_columns, const float *__restrict__ a_values,
                const int *__restrict__ b_starts, const int *__restrict__ b_lengths, const int *__restrict__ b_columns,
                const float *__restrict__ b_values, const int *__restrict__ c_starts, int *__restrict__ c_lengths,
                int *__restrict__ c_columns, float *__restrict__ c_values, int rows)
{
    __shared__ int all_columns[WARPS][SLOTS];
    __shared__ float all_values[WARPS][SLOTS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    int *columns = all_columns[warp];
    float *values = all_values[warp];
    for (int slot = lane; slot < SLOTS; slot += 32) {
        columns[slot] = -1;
        values[slot] = 0;
    }
    __syncwarp();

    const int end = a_starts[row + 1];
    for (int element = a_starts[row] + lane / 8; element < end; element += 4) {
        int b_row = a_columns[element];
        float factor = a_values[element];
        int b_start = b_starts[b_row], length = b_lengths[b_row];
        for (int i = lane % 8; i < length; i += 8)
            accumulate(columns, values, b_columns[b_start + i], factor * b_values[b_start + i]);
    }
    __syncwarp();

    const int start = c_starts[row];
    int length = 0;
    for (int first = 0; first < SLOTS; first += 32) {
        int column = columns[first + lane];
        unsigned used = __ballot_sync(~0u, column >= 0);
        if (column >= 0) {
            int place = start + length + __popc(used & ((1u << lane) - 1));
            c_columns[place] = column;
            c_values[place] = values[first + lane];
        }
        length += __popc(used);
    }
    if (lane == 0)
        c_lengths[row] = length;
}
