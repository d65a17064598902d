// Number of ways to place 14 queens on a board of 14 x 14 squares. The base-14 digits of the thread's number are the
// columns of the first five queens; a thread tries all squares for the others by backtracking.

constexpr int SIZE = 14, FIXED = 5;
constexpr unsigned ALL = (1u << SIZE) - 1;

extern "C" __global__ void n_queens(unsigned *solutions, int starts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= starts)
        return;
    unsigned columns[SIZE], left[SIZE], right[SIZE], open[SIZE];
    unsigned column = 0, to_left = 0, to_right = 0;
    bool valid = true;
    for (int row = 0, scale = starts / SIZE; row < FIXED; row++, scale /= SIZE) {
        unsigned bit = 1u << i / scale % SIZE;
        if (bit & (column | to_left | to_right))
            valid = false;
        column |= bit;
        to_left = (to_left | bit) << 1;
        to_right = (to_right | bit) >> 1;
    }
    unsigned count = 0;
    if (valid) {
        int row = FIXED;
        columns[row] = column;
        left[row] = to_left;
        right[row] = to_right;
        open[row] = ALL & ~(column | to_left | to_right);
        while (row >= FIXED) {
            unsigned bits = open[row];
            if (bits == 0) {
                row--;
                continue;
            }
            unsigned bit = bits & (0 - bits);
            open[row] = bits ^ bit;
            if (row == SIZE - 1) {
                count++;
                continue;
            }
            columns[row + 1] = columns[row] | bit;
            left[row + 1] = (left[row] | bit) << 1;
            right[row + 1] = (right[row] | bit) >> 1;
            row++;
            open[row] = ALL & ~(columns[row] | left[row] | right[row]);
        }
    }
    solutions[i] = count;
}
