// A time step of the wave equation in three dimensions, of eighth order in space (Micikevicius 2009): a block moves
// through the planes, with a plane of its tile in shared memory and the values in front and behind in registers. The
// four outermost elements on each side are not written. A block has 32 x 16 threads.

constexpr int RADIUS = 4, WIDE = 32, HIGH = 16;

extern "C" __global__ void __launch_bounds__(512)
    wave_equation(const float *now, float *last, const float *weights, int nx, int ny, int nz, float speed)
{
    __shared__ float tile[HIGH + 2 * RADIUS][WIDE + 2 * RADIUS];
    int tx = threadIdx.x, ty = threadIdx.y, x = RADIUS + tx + WIDE * blockIdx.x, y = RADIUS + ty + HIGH * blockIdx.y;
    int plane = nx * ny, i = y * nx + x;
    float column[2 * RADIUS + 1], weight[RADIUS + 1];
    for (int k = 0; k <= RADIUS; k++)
        weight[k] = weights[k];
    for (int k = 0; k < 2 * RADIUS; k++)
        column[k + 1] = now[i + k * plane];
    i += RADIUS * plane;
    for (int z = RADIUS; z < nz - RADIUS; z++, i += plane) {
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; k++)
            column[k] = column[k + 1];
        column[2 * RADIUS] = now[i + RADIUS * plane];
        __syncthreads();
        if (ty < RADIUS) {
            tile[ty][tx + RADIUS] = now[i - RADIUS * nx];
            tile[ty + HIGH + RADIUS][tx + RADIUS] = now[i + HIGH * nx];
        }
        if (tx < RADIUS) {
            tile[ty + RADIUS][tx] = now[i - RADIUS];
            tile[ty + RADIUS][tx + WIDE + RADIUS] = now[i + WIDE];
        }
        tile[ty + RADIUS][tx + RADIUS] = column[RADIUS];
        __syncthreads();
        float sum = weight[0] * column[RADIUS];
#pragma unroll
        for (int k = 1; k <= RADIUS; k++)
            sum += weight[k] * (tile[ty + RADIUS][tx + RADIUS - k] + tile[ty + RADIUS][tx + RADIUS + k] +
                                tile[ty + RADIUS - k][tx + RADIUS] + tile[ty + RADIUS + k][tx + RADIUS] +
                                column[RADIUS - k] + column[RADIUS + k]);
        last[i] = 2 * column[RADIUS] - last[i] + speed * sum;
    }
}
