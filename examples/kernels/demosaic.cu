// Demosaicing of a Bayer image (RGGB, 12 bits) by the linear filters of Malvar, He and Cutler (2004), and white balance
// and a tone curve from a table: a pixel per thread, a tile of the raw image in shared memory.

constexpr int TILE_X = 32, TILE_Y = 16, HALO = 2;
constexpr int CURVE_SIZE = 1024;

__device__ __forceinline__ unsigned char tone(const unsigned char *curve, int value, float gain)
{
    int level = (int)(value * gain * (CURVE_SIZE / 4096.0f));
    return curve[min(max(level, 0), CURVE_SIZE - 1)];
}

extern "C" __global__ void __launch_bounds__(TILE_X *TILE_Y)
    demosaic(const unsigned short *__restrict__ raw, const unsigned char *__restrict__ curve, uchar4 *__restrict__ rgba,
             int width, int height, float red_gain, float blue_gain)
{
    __shared__ short tile[TILE_Y + 2 * HALO][TILE_X + 2 * HALO];
    const int left = blockIdx.x * TILE_X, top = blockIdx.y * TILE_Y;
    for (int row = threadIdx.y; row < TILE_Y + 2 * HALO; row += TILE_Y)
        for (int column = threadIdx.x; column < TILE_X + 2 * HALO; column += TILE_X) {
            int from_x = abs(left + column - HALO), from_y = abs(top + row - HALO);
            if (from_x >= width)
                from_x = 2 * width - 2 - from_x;
            if (from_y >= height)
                from_y = 2 * height - 2 - from_y;
            tile[row][column] = (short)raw[(size_t)from_y * width + from_x];
        }
    __syncthreads();

    const int x = left + threadIdx.x, y = top + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int tx = threadIdx.x + HALO, ty = threadIdx.y + HALO;
    const int centre = tile[ty][tx];
    const int up_down = tile[ty - 1][tx] + tile[ty + 1][tx];
    const int sideways = tile[ty][tx - 1] + tile[ty][tx + 1];
    const int corners = tile[ty - 1][tx - 1] + tile[ty - 1][tx + 1] + tile[ty + 1][tx - 1] + tile[ty + 1][tx + 1];
    const int far_vertical = tile[ty - 2][tx] + tile[ty + 2][tx];
    const int far_horizontal = tile[ty][tx - 2] + tile[ty][tx + 2];

    int red, green, blue;
    if (x % 2 == y % 2) { // a red or a blue pixel
        int cross = (4 * centre + 2 * (up_down + sideways) - far_vertical - far_horizontal) / 8;
        int opposite = (12 * centre + 4 * corners - 3 * (far_vertical + far_horizontal)) / 16;
        green = cross;
        red = y % 2 == 0 ? centre : opposite;
        blue = y % 2 == 0 ? opposite : centre;
    } else {
        int along_row = (10 * centre + 8 * sideways - 2 * corners - 2 * far_horizontal + far_vertical) / 16;
        int along_column = (10 * centre + 8 * up_down - 2 * corners - 2 * far_vertical + far_horizontal) / 16;
        green = centre;
        red = y % 2 == 0 ? along_row : along_column;
        blue = y % 2 == 0 ? along_column : along_row;
    }
    rgba[(size_t)y * width + x] = make_uchar4(tone(curve, red, red_gain), tone(curve, green, 1.0f),
                                              tone(curve, blue, blue_gain), 255);
}
