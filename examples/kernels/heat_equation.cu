// Four time steps of the heat equation in two dimensions with sources, as in Rodinia's HotSpot: a block of 32 x 32
// threads steps in shared memory and writes the inner 24 x 24 elements. The temperature outside is fixed.

constexpr int TILE = 32, STEPS = 4, INNER = TILE - 2 * STEPS;

extern "C" __global__ void __launch_bounds__(TILE *TILE)
    heat_equation(const float *in, const float *sources, float *out, int width, int height, float rate, float outside)
{
    __shared__ float tile[2][TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = INNER * blockIdx.x + tx - STEPS, y = INNER * blockIdx.y + ty - STEPS;
    bool is_inside = x >= 0 && x < width && y >= 0 && y < height;
    float source = is_inside ? sources[y * width + x] : 0;
    tile[0][ty][tx] = tile[1][ty][tx] = is_inside ? in[y * width + x] : outside;
    __syncthreads();
    for (int step = 0; step < STEPS; step++) {
        float(*now)[TILE] = tile[step % 2], (*next)[TILE] = tile[1 - step % 2];
        int last = TILE - 1 - step;
        if (is_inside && tx > step && tx < last && ty > step && ty < last) {
            float value = now[ty][tx];
            next[ty][tx] = value + source + rate * (now[ty][tx - 1] + now[ty][tx + 1] + now[ty - 1][tx] +
                                                    now[ty + 1][tx] - 4 * value);
        }
        __syncthreads();
    }
    if (is_inside && tx >= STEPS && tx < TILE - STEPS && ty >= STEPS && ty < TILE - STEPS)
        out[y * width + x] = tile[STEPS % 2][ty][tx];
}
