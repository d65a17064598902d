// Charges of particles added to the four nearest points of a periodic grid with linear weights, as in particle-in-cell
// codes. Positions are in cells, and particles in no order.

extern "C" __global__ void charge_deposit(const float *xs, const float *ys, const float *charges, float *grid, int n,
                                          int width, int height)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float x = xs[i], y = ys[i], charge = charges[i];
    int left = (int)floorf(x), top = (int)floorf(y);
    float right_share = x - left, bottom_share = y - top;
    int right = (left + 1) % width, bottom = (top + 1) % height;
    atomicAdd(&grid[top * width + left], charge * (1 - right_share) * (1 - bottom_share));
    atomicAdd(&grid[top * width + right], charge * right_share * (1 - bottom_share));
    atomicAdd(&grid[bottom * width + left], charge * (1 - right_share) * bottom_share);
    atomicAdd(&grid[bottom * width + right], charge * right_share * bottom_share);
}
