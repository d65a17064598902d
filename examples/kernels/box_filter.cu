// Mean over the pixels of a column within a radius. A thread slides down a part of its column: it adds the pixel that
// comes in and subtracts the one that goes out. Pixels outside of the image repeat its border.

__device__ int inside(int row, int height)
{
    return min(max(row, 0), height - 1);
}

extern "C" __global__ void box_filter(const float *in, float *out, int width, int height, int radius, int rows)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, first = rows * blockIdx.y;
    if (column >= width)
        return;
    float sum = 0, scale = 1.0f / (2 * radius + 1);
    for (int row = first - radius; row < first + radius; row++)
        sum += in[inside(row, height) * width + column];
    for (int row = first; row < min(first + rows, height); row++) {
        sum += in[inside(row + radius, height) * width + column];
        out[row * width + column] = sum * scale;
        sum -= in[inside(row - radius, height) * width + column];
    }
}
