// Half-sweep of red-black successive over-relaxation of Poisson's equation in two dimensions in FP64: updates the
// elements of one colour in place, and finds the largest residual. The edge of the grid is fixed.

extern "C" __global__ void poisson_sor(double *u, const double *__restrict__ right, unsigned long long *largest,
                                       int width, int height, int colour, double square, double omega)
{
    __shared__ double of_warps[32];
    int row = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int column = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + (row + colour) % 2;
    double residual = 0;
    if (row < height - 1 && column < width - 1) {
        int i = row * width + column;
        double old = u[i];
        double change = 0.25 * (u[i - 1] + u[i + 1] + u[i - width] + u[i + width] - square * right[i]) - old;
        u[i] = old + omega * change;
        residual = fabs(change);
    }
    for (int distance = 16; distance > 0; distance /= 2)
        residual = fmax(residual, __shfl_down_sync(~0u, residual, distance));
    int thread = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;
    if (thread % 32 == 0)
        of_warps[thread / 32] = residual;
    __syncthreads();
    if (thread == 0) {
        for (int warp = 1; warp < warps; warp++)
            residual = fmax(residual, of_warps[warp]);
        atomicMax(largest, (unsigned long long)__double_as_longlong(residual));  // bits of positives keep the order
    }
}
