// Monte Carlo prices of down-and-out calls in FP64, one option per block. Paths use normal numbers of the Box-Muller
// method; a path is worth nothing once its price is below the barrier at a date.

__device__ double uniform(unsigned long long &state)
{
    state += 0x9E3779B97F4A7C15ull;
    unsigned long long z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return ((z >> 11) + 0.5) * 0x1p-53;
}

extern "C" __global__ void barrier_option(const double *spots, const double *strikes, const double *barriers,
                                          const double *volatilities, double *prices, double interest, double years,
                                          int dates, int paths, unsigned long long seed)
{
    __shared__ double parts[32];
    int option = blockIdx.x;
    double volatility = volatilities[option], strike = strikes[option];
    double step = years / dates;
    double drift = (interest - 0.5 * volatility * volatility) * step;
    double deviation = volatility * sqrt(step);
    double start = log(spots[option]), barrier = log(barriers[option]);

    double sum = 0;
    for (int path = threadIdx.x; path < paths; path += blockDim.x) {
        unsigned long long state = seed ^ ((unsigned long long)option << 40 | (unsigned long long)path << 16);
        double x = start;
        bool alive = true;
        for (int date = 0; date < dates && alive; date += 2) {
            double radius = sqrt(-2 * log(uniform(state)));
            double sine, cosine;
            sincospi(2 * uniform(state), &sine, &cosine);
            double next = x + drift + deviation * radius * cosine;
            x = next + drift + deviation * radius * sine;
            alive = next > barrier && x > barrier;
        }
        if (alive)
            sum += fmax(exp(x) - strike, 0.0);
    }

    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < blockDim.x / 32; warp++)
            sum += parts[warp];
        prices[option] = exp(-interest * years) * sum / paths;
    }
}
