// Delay-and-sum beamforming of ultrasound with plane waves: each pixel sums the interpolated echoes of the channels in
// its aperture, weighted with a Hann window.

struct Grid {
    float x, z;
};

__device__ inline float interpolate(const float *__restrict__ trace, float sample, int samples)
{
    int index = (int)sample;
    if (index < 0 || index >= samples - 1)
        return 0.0f;
    float fraction = sample - index;
    float a = trace[index], b = trace[index + 1];
    return a + fraction * (b - a);
}

extern "C" __global__ void delay_and_sum(const float *__restrict__ echoes, const float *__restrict__ angles,
                                         float *__restrict__ image, int width, int height, int channels, int samples,
                                         float pitch, float spacing, float samples_per_metre, float f_number)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int frame = blockIdx.z;
    if (column >= width || row >= height)
        return;

    Grid pixel = {(column - 0.5f * (width - 1)) * spacing, (row + 1) * spacing};
    float sine, cosine;
    sincosf(angles[frame], &sine, &cosine);
    float transmit = pixel.z * cosine + pixel.x * sine;
    float half_aperture = 0.5f * pixel.z / f_number + pitch;
    float inverse_aperture = 1.0f / half_aperture;

    const float *traces = echoes + (size_t)frame * channels * samples;
    float sum = 0.0f, weights = 0.0f;
    for (int channel = 0; channel < channels; channel++) {
        float dx = pixel.x - (channel - 0.5f * (channels - 1)) * pitch;
        if (fabsf(dx) > half_aperture)
            continue;
        float receive = sqrtf(dx * dx + pixel.z * pixel.z);
        float weight = 0.5f + 0.5f * __cosf(3.14159265f * dx * inverse_aperture);
        sum += weight * interpolate(traces + channel * samples, (transmit + receive) * samples_per_metre, samples);
        weights += weight;
    }
    image[((size_t)frame * height + row) * width + column] = weights > 0.0f ? sum / weights : 0.0f;
}
