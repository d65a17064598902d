// Monte Carlo values of 15 swaptions in the LIBOR market model, a path of 80 forward rates per thread.

constexpr int RATES = 80;
constexpr int STEPS = 40;
constexpr int OPTIONS = 15;

__constant__ int maturities[OPTIONS] = {4, 4, 4, 8, 8, 8, 20, 20, 20, 28, 28, 28, 40, 40, 40};
__constant__ float swap_rates[OPTIONS] = {0.045f, 0.05f, 0.055f, 0.045f, 0.05f, 0.055f, 0.045f, 0.05f,
                                          0.055f, 0.045f, 0.05f, 0.055f, 0.045f, 0.05f, 0.055f};

__device__ void simulate(float *rates, const float *volatilities, const float *normals, int paths, float delta)
{
    for (int n = 0; n < STEPS; n++) {
        float shock = sqrtf(delta) * normals[(size_t)n * paths];
        float drift = 0.0f;
        for (int i = n + 1; i < RATES; i++) {
            float lambda = volatilities[i - n - 1];
            float step = delta * lambda;
            float rate = rates[i];
            drift += step * rate / (1.0f + delta * rate);
            rates[i] = rate * expf(step * drift + lambda * (shock - 0.5f * step));
        }
    }
}

__device__ float portfolio_value(const float *rates, float delta)
{
    float bonds[RATES - STEPS], annuities[RATES - STEPS];
    float bond = 1.0f, annuity = 0.0f;
    for (int n = STEPS; n < RATES; n++) {
        bond /= 1.0f + delta * rates[n];
        annuity += delta * bond;
        bonds[n - STEPS] = bond;
        annuities[n - STEPS] = annuity;
    }

    float value = 0.0f;
    for (int option = 0; option < OPTIONS; option++) {
        int last = maturities[option] - 1;
        float swap = bonds[last] + swap_rates[option] * annuities[last] - 1.0f;
        if (swap < 0.0f)
            value -= 100.0f * swap;
    }
    for (int n = 0; n < STEPS; n++)
        value /= 1.0f + delta * rates[n];
    return value;
}

// normals: STEPS x paths.
extern "C" __global__ void libor_paths(const float *__restrict__ normals, const float *__restrict__ volatilities,
                                       float *__restrict__ values, int paths, float first_rate, float delta)
{
    int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= paths)
        return;
    float rates[RATES];
    for (int i = 0; i < RATES; i++)
        rates[i] = first_rate;
    simulate(rates, volatilities, normals + path, paths, delta);
    values[path] = portfolio_value(rates, delta);
}
