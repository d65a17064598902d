// Transpose of a matrix by tiles of 32 x 32, with blocks of 32 x 8 threads (Ruetsch and Micikevicius 2009): directly,
// and through shared memory with and without bank conflicts. Width and height are multiples of 32.

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose_naive(const float *in, float *out, int width, int height)
{
    int column = TILE * blockIdx.x + threadIdx.x, row = TILE * blockIdx.y + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[column * height + row + j] = in[(row + j) * width + column];
}

template <int PITCH> __device__ void transpose(const float *in, float *out, int width, int height)
{
    __shared__ float tile[TILE][PITCH];
    int x = threadIdx.x, y = threadIdx.y, left = TILE * blockIdx.x, top = TILE * blockIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        tile[y + j][x] = in[(top + y + j) * width + left + x];
    __syncthreads();
    for (int j = 0; j < TILE; j += ROWS)
        out[(left + y + j) * height + top + x] = tile[x][y + j];
}

extern "C" __global__ void transpose_conflicts(const float *in, float *out, int width, int height)
{
    transpose<TILE>(in, out, width, height);
}

extern "C" __global__ void transpose_padded(const float *in, float *out, int width, int height)
{
    transpose<TILE + 1>(in, out, width, height);
}
