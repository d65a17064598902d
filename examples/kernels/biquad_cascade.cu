// Equalizer of many audio channels: four second-order recursive filters in series (transposed direct form II), one
// channel per thread. Samples of all channels at one time are contiguous; filters resume from a stored state.

constexpr int SECTIONS = 4;

extern "C" __global__ void biquad_cascade(const float *input, float *output, const float *coefficients,
                                          const float *states, float *next_states, int channels, int samples)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    float c[SECTIONS][5], s1[SECTIONS], s2[SECTIONS];
    for (int k = 0; k < SECTIONS; k++) {
        for (int j = 0; j < 5; j++)
            c[k][j] = coefficients[k * 5 + j];
        s1[k] = states[(2 * k) * channels + channel];
        s2[k] = states[(2 * k + 1) * channels + channel];
    }
    for (int t = 0; t < samples; t++) {
        float x = input[(size_t)t * channels + channel];
        for (int k = 0; k < SECTIONS; k++) {
            float y = c[k][0] * x + s1[k];
            s1[k] = c[k][1] * x - c[k][3] * y + s2[k];
            s2[k] = c[k][2] * x - c[k][4] * y;
            x = y;
        }
        output[(size_t)t * channels + channel] = fminf(fmaxf(x, -1.0f), 1.0f);
    }
    for (int k = 0; k < SECTIONS; k++) {
        next_states[(2 * k) * channels + channel] = s1[k];
        next_states[(2 * k + 1) * channels + channel] = s2[k];
    }
}
