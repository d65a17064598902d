// Rendering of a cubic volume by parallel rays, one pixel per thread: a ray adds trilinear samples from front to back
// until it leaves the volume or less than a hundredth of the light is left. Samples below a threshold are transparent.

extern "C" __global__ void volume_rendering(const float *__restrict__ volume, float *__restrict__ out, int width,
                                            int height, int size, float dx, float dy, float dz, float threshold,
                                            float opacity)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float x = (column + 0.5f) / width * (size - 1), y = (row + 0.5f) / height * (size - 1), z = 0;
    float light = 1, brightness = 0, end = size - 1;
    while (light > 0.01f && x >= 0 && x < end && y >= 0 && y < end && z < end) {
        int left = int(x), top = int(y), front = int(z);
        const float *corner = volume + (front * size + top) * size + left;
        float values[2];
#pragma unroll
        for (int k = 0; k < 2; k++, corner += size * size) {
            float upper = corner[0] + (x - left) * (corner[1] - corner[0]);
            float lower = corner[size] + (x - left) * (corner[size + 1] - corner[size]);
            values[k] = upper + (y - top) * (lower - upper);
        }
        float sample = values[0] + (z - front) * (values[1] - values[0]);
        if (sample > threshold) {
            float alpha = opacity * (sample - threshold);
            brightness += light * alpha * sample;
            light *= 1 - alpha;
        }
        x += dx;
        y += dy;
        z += dz;
    }
    out[row * width + column] = brightness;
}
