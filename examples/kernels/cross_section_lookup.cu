// Macroscopic neutron cross sections for Monte Carlo transport, as in XSBench: a random energy and material per thread.

typedef unsigned long long u64;

constexpr int MATERIALS = 12;
constexpr int MAX_NUCLIDES = 34;
constexpr int CHANNELS = 5;
constexpr u64 MODULUS_MASK = (1ull << 63) - 1;

__constant__ int nuclide_counts[MATERIALS] = {34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};
__constant__ double material_shares[MATERIALS] = {0.140, 0.052, 0.275, 0.134, 0.154, 0.064,
                                                  0.066, 0.055, 0.008, 0.015, 0.025, 0.013};

struct GridPoint {
    double energy;
    double sections[CHANNELS]; // total, elastic, absorption, fission, nu-fission
};

__device__ u64 skip_ahead(u64 seed, u64 steps)
{
    u64 multiplier = 2806196910506780709ull, increment = 1, all_multiplier = 1, all_increment = 0;
    for (; steps > 0; steps >>= 1) {
        if (steps & 1) {
            all_multiplier *= multiplier;
            all_increment = all_increment * multiplier + increment;
        }
        increment *= multiplier + 1;
        multiplier *= multiplier;
    }
    return (all_multiplier * seed + all_increment) & MODULUS_MASK;
}

__device__ double next_random(u64 &seed)
{
    seed = (2806196910506780709ull * seed + 1) & MODULUS_MASK;
    return (double)seed / 9223372036854775808.0;
}

__device__ int pick_material(double roll)
{
    double sum = 0;
    for (int material = 0; material < MATERIALS - 1; material++) {
        sum += material_shares[material];
        if (roll < sum)
            return material;
    }
    return MATERIALS - 1;
}

__device__ int grid_search(const double *energies, int count, double energy)
{
    int low = 0, high = count - 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (energies[middle] > energy)
            high = middle;
        else
            low = middle;
    }
    return low;
}

extern "C" __global__ void cross_section_lookup(const double *__restrict__ union_energies,
                                                const int *__restrict__ union_indices,
                                                const GridPoint *__restrict__ nuclide_grids,
                                                const int *__restrict__ material_nuclides,
                                                const double *__restrict__ densities, int *__restrict__ largest,
                                                int union_points, int nuclides, int grid_points, int lookups, u64 seed)
{
    int lookup = blockIdx.x * blockDim.x + threadIdx.x;
    if (lookup >= lookups)
        return;
    seed = skip_ahead(seed, 2ull * lookup);
    double energy = next_random(seed);
    int material = pick_material(next_random(seed));

    const int *indices = union_indices + (size_t)grid_search(union_energies, union_points, energy) * nuclides;
    double sums[CHANNELS] = {0, 0, 0, 0, 0};
    for (int i = 0; i < nuclide_counts[material]; i++) {
        int nuclide = material_nuclides[material * MAX_NUCLIDES + i];
        double density = densities[material * MAX_NUCLIDES + i];
        const GridPoint *low = nuclide_grids + (size_t)nuclide * grid_points + min(indices[nuclide], grid_points - 2);
        const GridPoint *high = low + 1;
        double fraction = (high->energy - energy) / (high->energy - low->energy);
        for (int c = 0; c < CHANNELS; c++)
            sums[c] += density * (high->sections[c] - fraction * (high->sections[c] - low->sections[c]));
    }

    int channel = 0;
    for (int c = 1; c < CHANNELS; c++)
        if (sums[c] > sums[channel])
            channel = c;
    largest[lookup] = channel;
}
