// Bilateral filter (Tomasi and Manduchi 1998), one pixel per thread: a mean of the pixels around it, with weights that
// fall with the distance and with the difference of brightness. Pixels outside of the image repeat its edge.

extern "C" __global__ void bilateral_filter(const float *__restrict__ in, float *__restrict__ out, int width,
                                            int height, int radius, float space_factor, float range_factor)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float centre = in[row * width + column], sum = 0, weights = 0;
    for (int dy = -radius; dy <= radius; dy++) {
        int y = min(max(row + dy, 0), height - 1);
        for (int dx = -radius; dx <= radius; dx++) {
            int x = min(max(column + dx, 0), width - 1);
            float pixel = in[y * width + x], difference = pixel - centre;
            float weight = __expf(space_factor * (dx * dx + dy * dy) + range_factor * difference * difference);
            sum += weight * pixel;
            weights += weight;
        }
    }
    out[row * width + column] = sum / weights;
}
