// Density field of smoothed particles on a lattice, for the surface of a fluid: a thread visits the particles of the 27
// cells around its point. Cells have the width of the kernel's support and a fixed number of slots, as in games.

__device__ __forceinline__ float cubic_spline(float q)
{
    const float normalization = 8.0f / 3.14159265f;
    if (q <= 0.5f)
        return normalization * (6.0f * (q * q * q - q * q) + 1.0f);
    float rest = 1.0f - q;
    return normalization * 2.0f * rest * rest * rest;
}

// particles: position relative to the corner of the cell, in widths of a cell, and mass.
extern "C" __global__ void sph_density(const int *__restrict__ counts, const float4 *__restrict__ particles,
                                       float *__restrict__ density, int cells_per_side, int slots, float cell_width,
                                       float lattice_step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int side_x = gridDim.x * blockDim.x, side_y = gridDim.y * blockDim.y;

    float px = (x + 0.5f) * lattice_step / cell_width;
    float py = (y + 0.5f) * lattice_step / cell_width;
    float pz = (z + 0.5f) * lattice_step / cell_width;
    int cx = (int)px, cy = (int)py, cz = (int)pz;

    float sum = 0.0f;
    for (int k = max(cz - 1, 0); k <= min(cz + 1, cells_per_side - 1); k++)
        for (int j = max(cy - 1, 0); j <= min(cy + 1, cells_per_side - 1); j++)
            for (int i = max(cx - 1, 0); i <= min(cx + 1, cells_per_side - 1); i++) {
                int cell = (k * cells_per_side + j) * cells_per_side + i;
                int count = min(counts[cell], slots);
                for (int slot = 0; slot < count; slot++) {
                    float4 particle = particles[cell * slots + slot];
                    float dx = px - (i + particle.x);
                    float dy = py - (j + particle.y);
                    float dz = pz - (k + particle.z);
                    float squared = dx * dx + dy * dy + dz * dz;
                    if (squared < 1.0f)
                        sum += particle.w * cubic_spline(sqrtf(squared));
                }
            }
    density[((size_t)z * side_y + y) * side_x + x] = sum / (cell_width * cell_width * cell_width);
}
