// Levenshtein distance of pairs of strings of 256 letters, one pair per block of as many threads. The matrix is
// computed by antidiagonals, three of which are in shared memory, with a barrier after each.

constexpr int LENGTH = 256;

extern "C" __global__ void __launch_bounds__(256)
    levenshtein(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *__restrict__ distances)
{
    __shared__ int diagonals[3][LENGTH + 1];
    __shared__ unsigned char other[LENGTH];
    int i = threadIdx.x + 1;
    unsigned char letter = a[LENGTH * blockIdx.x + threadIdx.x];
    other[threadIdx.x] = b[LENGTH * blockIdx.x + threadIdx.x];
    if (threadIdx.x == 0) {
        diagonals[0][0] = 0;
        diagonals[1][0] = diagonals[1][1] = 1;
    }
    int *current = diagonals[2], *last = diagonals[1], *before = diagonals[0];
    for (int d = 2; d <= 2 * LENGTH; d++) {
        __syncthreads();
        int j = d - i;
        if (j == 0)
            current[i] = d;
        else if (j > 0 && j <= LENGTH)
            current[i] = min(min(last[i - 1], last[i]) + 1, before[i - 1] + (letter != other[j - 1]));
        if (threadIdx.x == 0)
            current[0] = d;
        int *free = before;
        before = last;
        last = current;
        current = free;
    }
    if (threadIdx.x == LENGTH - 1)
        distances[blockIdx.x] = last[LENGTH];
}
