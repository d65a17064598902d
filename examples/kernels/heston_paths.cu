// Monte Carlo prices of European calls in Heston's model of stochastic volatility, with the quadratic-exponential
// scheme of Andersen (2008): a path per thread, a set of parameters per row of blocks. Low variances take another
// branch. Uniform numbers are of PCG (O'Neill 2014), normal ones of the Box-Muller method.

struct Pcg {
    unsigned long long state;

    __device__ float uniform() // in (0, 1)
    {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        unsigned word = (unsigned)((state >> 18 ^ state) >> 27), by = (unsigned)(state >> 59);
        return ((__funnelshift_r(word, word, by) >> 9) + 0.5f) * (1.0f / (1 << 23));
    }
};

extern "C" __global__ void __launch_bounds__(256)
    heston_paths(const float *__restrict__ mean_reversions, const float *__restrict__ long_variances,
                 const float *__restrict__ volatilities, const float *__restrict__ correlations,
                 float *__restrict__ sums, int steps, float years, float first_variance, float strike,
                 unsigned long long seed)
{
    __shared__ float warp_sums[8];
    const int set = blockIdx.y, path = blockIdx.x * blockDim.x + threadIdx.x;
    const float kappa = mean_reversions[set], theta = long_variances[set], epsilon = volatilities[set];
    const float rho = correlations[set], dt = years / steps;

    const float decay = expf(-kappa * dt);
    const float from_variance = epsilon * epsilon * decay * (1 - decay) / kappa;
    const float constant = theta * epsilon * epsilon * (1 - decay) * (1 - decay) / (2 * kappa);
    const float k0 = -rho * kappa * theta / epsilon * dt;
    const float k1 = 0.5f * dt * (kappa * rho / epsilon - 0.5f) - rho / epsilon;
    const float k2 = 0.5f * dt * (kappa * rho / epsilon - 0.5f) + rho / epsilon;
    const float k3 = 0.5f * dt * (1 - rho * rho);

    Pcg random = {seed ^ (((unsigned long long)set << 32 | (unsigned)path) + 1) * 0x9e3779b97f4a7c15ull};
    float variance = first_variance, log_price = 0;
    for (int step = 0; step < steps; step++) {
        float radius = sqrtf(-2 * logf(random.uniform())), angle = 6.2831853f * random.uniform();
        float mean = theta + (variance - theta) * decay;
        float psi = (variance * from_variance + constant) / (mean * mean), next;
        if (psi <= 1.5f) {
            float inverse = 2 / psi;
            float b2 = inverse - 1 + sqrtf(inverse) * sqrtf(fmaxf(inverse - 1, 0.0f));
            float root = sqrtf(b2) + radius * cosf(angle);
            next = mean / (1 + b2) * root * root;
        } else {
            float p = (psi - 1) / (psi + 1), u = random.uniform();
            next = u <= p ? 0 : logf((1 - p) / (1 - u)) * mean / (1 - p);
        }
        log_price += k0 + k1 * variance + k2 * next + sqrtf(k3 * (variance + next)) * radius * sinf(angle);
        variance = next;
    }

    float payoff = fmaxf(expf(log_price) - strike, 0.0f);
    for (int distance = 16; distance > 0; distance /= 2)
        payoff += __shfl_down_sync(~0u, payoff, distance);
    if (threadIdx.x % 32 == 0)
        warp_sums[threadIdx.x / 32] = payoff;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int warp = 0; warp < 8; warp++)
            sum += warp_sums[warp];
        atomicAdd(&sums[set], sum);
    }
}
