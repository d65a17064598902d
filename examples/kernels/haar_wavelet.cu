// Haar wavelet transform of signals of 2048 samples, all 11 levels, one signal per block in shared memory. Detail
// coefficients below a threshold are set to 0, as for compression; the number of the others is stored per signal.

constexpr int SAMPLES = 2048, THREADS = SAMPLES / 2;

extern "C" __global__ void haar_wavelet(const float *signals, float *coefficients, int *remaining, float threshold)
{
    __shared__ float data[SAMPLES];
    __shared__ int kept;
    int t = threadIdx.x;
    const float *signal = signals + (size_t)blockIdx.x * SAMPLES;
    data[t] = signal[t];
    data[t + THREADS] = signal[t + THREADS];
    if (t == 0)
        kept = 0;
    __syncthreads();

    for (int half = THREADS; half >= 1; half /= 2) {
        float mean, detail;
        if (t < half) {
            float left = data[2 * t], right = data[2 * t + 1];
            mean = (left + right) * 0.70710678f;
            detail = (left - right) * 0.70710678f;
        }
        __syncthreads();
        if (t < half) {
            data[t] = mean;
            data[half + t] = fabsf(detail) < threshold ? 0.0f : detail;
        }
        __syncthreads();
    }

    float *out = coefficients + (size_t)blockIdx.x * SAMPLES;
    int count = 0;
    for (int i = t; i < SAMPLES; i += THREADS) {
        out[i] = data[i];
        count += data[i] != 0;
    }
    atomicAdd(&kept, count);
    __syncthreads();
    if (t == 0)
        remaining[blockIdx.x] = kept;
}
