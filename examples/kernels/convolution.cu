// 2-D convolution with 5 x 5 binomial weights in constant memory; the tile of a block and its border lie in shared
// memory. Blocks have 32 x 8 threads. Outside of the image, the nearest pixel counts.

constexpr int RADIUS = 2, SIDE = 2 * RADIUS + 1, WIDTH = 32, HEIGHT = 8;

__constant__ float weights[SIDE][SIDE] = {
    {1 / 256.f, 4 / 256.f, 6 / 256.f, 4 / 256.f, 1 / 256.f},
    {4 / 256.f, 16 / 256.f, 24 / 256.f, 16 / 256.f, 4 / 256.f},
    {6 / 256.f, 24 / 256.f, 36 / 256.f, 24 / 256.f, 6 / 256.f},
    {4 / 256.f, 16 / 256.f, 24 / 256.f, 16 / 256.f, 4 / 256.f},
    {1 / 256.f, 4 / 256.f, 6 / 256.f, 4 / 256.f, 1 / 256.f},
};

extern "C" __global__ void convolution(const float *in, float *out, int width, int height)
{
    __shared__ float tile[HEIGHT + 2 * RADIUS][WIDTH + 2 * RADIUS];
    int left = blockIdx.x * WIDTH - RADIUS, top = blockIdx.y * HEIGHT - RADIUS;
    for (int y = threadIdx.y; y < HEIGHT + 2 * RADIUS; y += HEIGHT)
        for (int x = threadIdx.x; x < WIDTH + 2 * RADIUS; x += WIDTH) {
            int row = min(max(top + y, 0), height - 1), column = min(max(left + x, 0), width - 1);
            tile[y][x] = in[row * width + column];
        }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int y = 0; y < SIDE; y++)
#pragma unroll
        for (int x = 0; x < SIDE; x++)
            sum += weights[y][x] * tile[threadIdx.y + y][threadIdx.x + x];
    int row = top + RADIUS + threadIdx.y, column = left + RADIUS + threadIdx.x;
    if (row < height && column < width)
        out[row * width + column] = sum;
}
