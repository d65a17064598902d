// RoIAlign: averages of bilinear samples of feature maps (NCHW) in 7 x 7 bins of regions of interest. Regions are given
// by relative centre and size.

constexpr int POOLED = 7;
constexpr int SAMPLES = 2;

__device__ float bilinear(const float *__restrict__ map, int height, int width, float y, float x)
{
    if (y < -1.0f || y > height || x < -1.0f || x > width)
        return 0.0f;
    y = fmaxf(y, 0.0f);
    x = fmaxf(x, 0.0f);
    int y_low = (int)y, x_low = (int)x;
    int y_high, x_high;
    if (y_low >= height - 1) {
        y_high = y_low = height - 1;
        y = (float)y_low;
    } else {
        y_high = y_low + 1;
    }
    if (x_low >= width - 1) {
        x_high = x_low = width - 1;
        x = (float)x_low;
    } else {
        x_high = x_low + 1;
    }
    float ly = y - y_low, lx = x - x_low;
    float hy = 1.0f - ly, hx = 1.0f - lx;
    return hy * hx * map[y_low * width + x_low] + hy * lx * map[y_low * width + x_high] +
           ly * hx * map[y_high * width + x_low] + ly * lx * map[y_high * width + x_high];
}

extern "C" __global__ void roi_align(const float *__restrict__ features, const float *__restrict__ boxes,
                                     const int *__restrict__ images, float *__restrict__ pooled, int regions,
                                     int image_count, int channels, int height, int width)
{
    const int total = regions * channels * POOLED * POOLED;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < total; index += blockDim.x * gridDim.x) {
        int bin_x = index % POOLED;
        int bin_y = index / POOLED % POOLED;
        int channel = index / (POOLED * POOLED) % channels;
        int region = index / (POOLED * POOLED * channels);

        const float *box = boxes + region * 4;
        float box_width = fmaxf(0.3f * box[2] * width, 1.0f);
        float box_height = fmaxf(0.3f * box[3] * height, 1.0f);
        float left = box[0] * width - 0.5f * box_width - 0.5f;
        float top = box[1] * height - 0.5f * box_height - 0.5f;
        float bin_width = box_width / POOLED, bin_height = box_height / POOLED;

        int image = min(max(images[region], 0), image_count - 1);
        const float *map = features + ((size_t)image * channels + channel) * height * width;
        float sum = 0.0f;
        for (int iy = 0; iy < SAMPLES; iy++) {
            float y = top + (bin_y + (iy + 0.5f) / SAMPLES) * bin_height;
            for (int ix = 0; ix < SAMPLES; ix++) {
                float x = left + (bin_x + (ix + 0.5f) / SAMPLES) * bin_width;
                sum += bilinear(map, height, width, y, x);
            }
        }
        pooled[index] = sum / (SAMPLES * SAMPLES);
    }
}
