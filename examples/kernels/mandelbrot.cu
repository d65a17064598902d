// Iterations until a point escapes the Mandelbrot set: trip counts differ within warps and between blocks.

extern "C" __global__ void mandelbrot(unsigned short *out, int width, int height, float left, float top, float step,
                                      int max_iterations)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float a = left + step * column, b = top + step * row, x = 0, y = 0;
    int iterations = 0;
    while (iterations < max_iterations && x * x + y * y < 4) {
        float product = x * y;
        x = x * x - y * y + a;
        y = 2 * product + b;
        iterations++;
    }
    out[row * width + column] = iterations;
}
