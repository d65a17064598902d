// Cells of a height map that an observer can see, one cell per thread: the ray goes from the cell to the observer until
// the ground is above it (not visible), or it is above the highest peak or has arrived (visible).

extern "C" __global__ void line_of_sight(const float *heights, unsigned char *visible, int width, int height,
                                         int observer_x, int observer_y, float observer_height, float peak)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int dx = observer_x - x, dy = observer_y - y;
    int steps = max(abs(dx), abs(dy));
    float ground = heights[y * width + x];
    bool sees = true;
    for (int i = 1; i < steps; i++) {
        float part = (float)i / steps;
        float level = ground + (observer_height - ground) * part;
        if (level > peak)
            break;
        int ray_x = x + __float2int_rn(dx * part);
        int ray_y = y + __float2int_rn(dy * part);
        if (heights[ray_y * width + ray_x] > level) {
            sees = false;
            break;
        }
    }
    visible[y * width + x] = sees;
}
