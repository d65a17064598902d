// Monte Carlo transport of light in a slab of tissue (MCML, Wang et al. 1995): packets of photons scatter until
// roulette or a surface ends them, and leave their absorbed weight in a grid of radius and depth. A packet per thread.

typedef unsigned long long u64;

__device__ __forceinline__ float uniform(u64 &state)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((unsigned)(state * 0x2545f4914f6cdd1dull >> 40) + 0.5f) * (1.0f / 16777216.0f);
}

__device__ __forceinline__ u64 seeded(u64 seed, u64 packet)
{
    u64 state = seed + (packet + 1) * 0x9e3779b97f4a7c15ull;
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ state >> 27) * 0x94d049bb133111ebull;
    return (state ^ state >> 31) | 1;
}

extern "C" __global__ void __launch_bounds__(128)
    photon_transport(float *absorbed, float *escaped, int radial_bins, int depth_bins, float bin_width,
                     float absorption, float scattering, float anisotropy, float thickness, u64 seed)
{
    u64 state = seeded(seed, (u64)blockIdx.x * blockDim.x + threadIdx.x);
    const float total = absorption + scattering;
    float x = 0, y = 0, z = 0, ux = 0, uy = 0, uz = 1, weight = 1;
    while (true) {
        float length = -logf(uniform(state)) / total;
        x += ux * length;
        y += uy * length;
        z += uz * length;
        if (z < 0 || z > thickness) {
            atomicAdd(&escaped[z < 0 ? 0 : 1], weight);
            break;
        }

        float lost = weight * absorption / total;
        weight -= lost;
        int radial = min((int)(sqrtf(x * x + y * y) / bin_width), radial_bins - 1);
        int deep = min((int)(z / bin_width), depth_bins - 1);
        atomicAdd(&absorbed[radial * depth_bins + deep], lost);

        // Henyey and Greenstein's distribution of the angle.
        float fraction = (1 - anisotropy * anisotropy) / (1 - anisotropy + 2 * anisotropy * uniform(state));
        float cosine = (1 + anisotropy * anisotropy - fraction * fraction) / (2 * anisotropy);
        float sine = sqrtf(fmaxf(0.0f, 1 - cosine * cosine));
        float sine_around, cosine_around;
        sincosf(6.2831853f * uniform(state), &sine_around, &cosine_around);
        if (fabsf(uz) > 0.9999f) {
            ux = sine * cosine_around;
            uy = sine * sine_around;
            uz = copysignf(cosine, cosine * uz);
        } else {
            float across = sqrtf(1 - uz * uz);
            float vx = sine * (ux * uz * cosine_around - uy * sine_around) / across + ux * cosine;
            float vy = sine * (uy * uz * cosine_around + ux * sine_around) / across + uy * cosine;
            uz = -sine * cosine_around * across + uz * cosine;
            ux = vx;
            uy = vy;
        }

        if (weight < 1e-3f) {
            if (uniform(state) > 0.1f)
                break;
            weight *= 10;
        }
    }
}
