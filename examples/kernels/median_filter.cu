// Median of 3 x 3 pixels with 19 exchanges (Smith 1996), one pixel per thread. Pixels outside of the image repeat its
// edge.

__device__ void order(float &a, float &b)
{
    float least = fminf(a, b);
    b = fmaxf(a, b);
    a = least;
}

extern "C" __global__ void median_filter(const float *__restrict__ in, float *__restrict__ out, int width, int height)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float p[9];
#pragma unroll
    for (int k = 0; k < 9; k++) {
        int x = min(max(column + k % 3 - 1, 0), width - 1), y = min(max(row + k / 3 - 1, 0), height - 1);
        p[k] = in[y * width + x];
    }
    order(p[1], p[2]), order(p[4], p[5]), order(p[7], p[8]);
    order(p[0], p[1]), order(p[3], p[4]), order(p[6], p[7]);
    order(p[1], p[2]), order(p[4], p[5]), order(p[7], p[8]);
    order(p[0], p[3]), order(p[5], p[8]), order(p[4], p[7]);
    order(p[3], p[6]), order(p[1], p[4]), order(p[2], p[5]);
    order(p[4], p[7]), order(p[4], p[2]), order(p[6], p[4]);
    order(p[4], p[2]);
    out[row * width + column] = p[4];
}
