// Best local alignment of pairs of proteins (Smith and Waterman 1981, gaps as of Gotoh 1982), a pair per warp. A lane
// has four rows of the table in registers and is a column behind the lane before it; scores of letters are in shared
// memory.

constexpr int QUERY = 128, REFERENCE = 512, ROWS = QUERY / 32, LETTERS = 24, PITCH = 32, NEVER = -10000;

extern "C" __global__ void smith_waterman(const signed char *table, const unsigned char *queries,
                                          const unsigned char *references, int *scores, int open, int extend)
{
    __shared__ signed char matches[LETTERS * PITCH];
    for (int i = threadIdx.x; i < LETTERS * PITCH; i += blockDim.x)
        matches[i] = table[i];
    __syncthreads();
    int lane = threadIdx.x % 32, pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const unsigned char *query = queries + pair * QUERY + lane * ROWS, *reference = references + pair * REFERENCE;
    int row[ROWS], height[ROWS], gap_left[ROWS];
    for (int r = 0; r < ROWS; r++) {
        row[r] = query[r] * PITCH;
        height[r] = 0;
        gap_left[r] = NEVER;
    }
    int best = 0, bottom = 0, bottom_gap = NEVER, last_above = 0, letter = 0, ahead = 0;
    for (int step = 0; step < REFERENCE + 31; step++) {
        if (step % 32 == 0)
            ahead = step + lane < REFERENCE ? reference[step + lane] : 0;
        int next = __shfl_sync(~0u, ahead, step % 32);
        letter = __shfl_up_sync(~0u, letter, 1);
        int above = __shfl_up_sync(~0u, bottom, 1), gap_above = __shfl_up_sync(~0u, bottom_gap, 1);
        if (lane == 0) {
            letter = next;
            above = 0;
            gap_above = NEVER;
        }
        int column = step - lane;
        if (column >= 0 && column < REFERENCE) {
            int diagonal = last_above;
            last_above = above;
            for (int r = 0; r < ROWS; r++) {
                gap_left[r] = max(gap_left[r] - extend, height[r] - open);
                gap_above = max(gap_above - extend, above - open);
                above = max(max(diagonal + matches[row[r] + letter], 0), max(gap_left[r], gap_above));
                diagonal = height[r];
                height[r] = above;
                best = max(best, above);
            }
            bottom = above;
            bottom_gap = gap_above;
        }
    }
    best = __reduce_max_sync(~0u, best);
    if (lane == 0)
        scores[pair] = best;
}
