// Mass and energy fluxes through the faces of cells along x with van Leer's limiter in FP64, as in CloverLeaf.

__device__ double limited_step(double upwind, double donor, double downwind, double sigma, double sigma3, double sigma4)
{
    double behind = donor - upwind;
    double ahead = downwind - donor;
    if (behind * ahead <= 0.0)
        return 0.0;
    double sign = ahead <= 0.0 ? -1.0 : 1.0;
    double steep = fmin(fabs(behind), fabs(ahead));
    double smooth = (sigma3 * fabs(behind) + sigma4 * fabs(ahead)) / 6.0;
    return (1.0 - sigma) * sign * fmin(steep, smooth);
}

// Rows of `pitch` cells, two of them beyond each end of the grid.
extern "C" __global__ void van_leer_advection(const double *__restrict__ volume_flux,
                                              const double *__restrict__ volumes, const double *__restrict__ density,
                                              const double *__restrict__ energy,
                                              const double *__restrict__ cell_widths, double *__restrict__ mass_flux,
                                              double *__restrict__ energy_flux, int pitch, int rows)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x + 2;
    const int k = blockIdx.y * blockDim.y + threadIdx.y;
    if (j > pitch - 2 || k >= rows)
        return;
    const size_t row = (size_t)k * pitch;
    const double flux = volume_flux[row + j];

    int upwind, donor, downwind, scale;
    if (flux > 0.0) {
        upwind = j - 2;
        donor = j - 1;
        downwind = j;
        scale = donor;
    } else {
        upwind = j + 1;
        donor = j;
        downwind = j - 1;
        scale = upwind;
    }

    double donor_volume = volumes[row + donor];
    double donor_density = density[row + donor];
    double sigma = fabs(flux) / donor_volume;
    double sigma3 = (1.0 + sigma) * (cell_widths[j] / cell_widths[scale]);
    double sigma4 = 2.0 - sigma;
    double step = limited_step(density[row + upwind], donor_density, density[row + downwind], sigma, sigma3, sigma4);
    double mass = flux * (donor_density + step);
    mass_flux[row + j] = mass;

    double donor_energy = energy[row + donor];
    double mass_sigma = fabs(mass) / (donor_density * donor_volume);
    step = limited_step(energy[row + upwind], donor_energy, energy[row + downwind], mass_sigma, sigma3, sigma4);
    energy_flux[row + j] = mass * (donor_energy + step);
}
