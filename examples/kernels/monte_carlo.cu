// Payoffs of an Asian call option by Monte Carlo: one path per thread, normal numbers from xorshift (Marsaglia 2003)
// by Box and Muller, with the approximate special functions. `steps` is even.

__device__ unsigned next(unsigned &state)
{
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

extern "C" __global__ void monte_carlo(float *payoffs, int n, int steps, unsigned seed, float price, float strike,
                                       float drift, float deviation)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    unsigned state = (i * 2654435761u ^ seed) | 1;
    float sum = 0, start = price;
    for (int step = 0; step < steps; step += 2) {
        float u = (next(state) + 1.0f) * 0x1p-32f, angle = next(state) * (6.2831853f * 0x1p-32f), sine, cosine;
        float radius = sqrtf(-2 * __logf(fminf(u, 1)));
        __sincosf(angle, &sine, &cosine);
        price *= __expf(drift + deviation * radius * cosine);
        sum += price;
        price *= __expf(drift + deviation * radius * sine);
        sum += price;
    }
    payoffs[i] = fmaxf(sum / steps - strike, 0) / start;
}
