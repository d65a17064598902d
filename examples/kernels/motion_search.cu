// Motion of each block of 16 x 16 pixels since the last video frame, by full search: each of 256 threads tries one
// displacement and sums the absolute differences. The pixels and the search window are in shared memory.

constexpr int SIZE = 16, RANGE = 8, WINDOW = SIZE + 2 * RANGE - 1;

extern "C" __global__ void motion_search(const unsigned char *frame, const unsigned char *last, char2 *vectors,
                                         unsigned short *differences, int width, int height, int weight)
{
    __shared__ unsigned char current[SIZE][SIZE], window[WINDOW][WINDOW + 1];
    __shared__ unsigned best;
    int tx = threadIdx.x, ty = threadIdx.y, thread = ty * SIZE + tx;
    int left = blockIdx.x * SIZE, top = blockIdx.y * SIZE;
    if (thread == 0)
        best = ~0u;
    current[ty][tx] = frame[(top + ty) * width + left + tx];
    for (int i = thread; i < WINDOW * WINDOW; i += SIZE * SIZE) {
        int y = min(max(top - RANGE + i / WINDOW, 0), height - 1);
        int x = min(max(left - RANGE + i % WINDOW, 0), width - 1);
        window[i / WINDOW][i % WINDOW] = last[y * width + x];
    }
    __syncthreads();

    unsigned sum = 0;
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            sum = __usad(current[y][x], window[ty + y][tx + x], sum);
    unsigned cost = sum + weight * (abs(tx - RANGE) + abs(ty - RANGE));  // short vectors take fewer bits
    unsigned least = __reduce_min_sync(~0u, cost << 8 | thread);
    if (thread % 32 == 0)
        atomicMin(&best, least);
    __syncthreads();
    if (thread == (best & 255)) {
        int block = blockIdx.y * gridDim.x + blockIdx.x;
        vectors[block] = make_char2(tx - RANGE, ty - RANGE);
        differences[block] = min(sum, 65535u);
    }
}
