// Rotation of an image about its centre with bilinear interpolation, one pixel per thread. Pixels from outside are 0.

extern "C" __global__ void image_rotation(const float *__restrict__ in, float *__restrict__ out, int width, int height,
                                          float cosine, float sine)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float dx = column - 0.5f * (width - 1), dy = row - 0.5f * (height - 1), result = 0;
    float x = 0.5f * (width - 1) + cosine * dx + sine * dy, y = 0.5f * (height - 1) - sine * dx + cosine * dy;
    int left = int(floorf(x)), top = int(floorf(y));
    if (left >= 0 && top >= 0 && left < width - 1 && top < height - 1) {
        const float *corner = in + top * width + left;
        float right_share = x - left, low_share = y - top;
        float upper = corner[0] + right_share * (corner[1] - corner[0]);
        float lower = corner[width] + right_share * (corner[width + 1] - corner[width]);
        result = upper + low_share * (lower - upper);
    }
    out[row * width + column] = result;
}
