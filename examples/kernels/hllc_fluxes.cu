// Fluxes of the Euler equations through the faces of cells along x in FP64: linear reconstruction with the minmod
// limiter (MUSCL) and the HLLC Riemann solver (Toro 1994), one face per thread. Rows have two ghost cells at each end.

constexpr double GAMMA = 1.4;

struct State {
    double density, u, v, pressure;
};

__device__ __forceinline__ double limited(double a, double b)
{
    return a * b <= 0 ? 0 : (fabs(a) < fabs(b) ? a : b);
}

__device__ __forceinline__ State load(const double *const (&fields)[4], size_t at)
{
    return {fields[0][at], fields[1][at], fields[2][at], fields[3][at]};
}

// Value at a face of the cell `b`: `side` is 0.5 towards c and -0.5 towards a.
__device__ __forceinline__ State reconstruct(const State &a, const State &b, const State &c, double side)
{
    State face = {b.density + side * limited(b.density - a.density, c.density - b.density),
                  b.u + side * limited(b.u - a.u, c.u - b.u), b.v + side * limited(b.v - a.v, c.v - b.v),
                  b.pressure + side * limited(b.pressure - a.pressure, c.pressure - b.pressure)};
    face.density = fmax(face.density, 1e-10);
    face.pressure = fmax(face.pressure, 1e-10);
    return face;
}

__device__ __forceinline__ double energy_of(const State &s)
{
    return s.pressure / (GAMMA - 1) + 0.5 * s.density * (s.u * s.u + s.v * s.v);
}

extern "C" __global__ void __launch_bounds__(256)
    hllc_fluxes(const double *__restrict__ density, const double *__restrict__ u, const double *__restrict__ v,
                const double *__restrict__ pressure, double *__restrict__ mass_flux, double *__restrict__ u_flux,
                double *__restrict__ v_flux, double *__restrict__ energy_flux, int faces, int pitch)
{
    const int face = blockIdx.x * blockDim.x + threadIdx.x;
    if (face >= faces)
        return;
    const double *const fields[4] = {density, u, v, pressure};
    const size_t cell = (size_t)blockIdx.y * pitch + face; // two cells left of the face
    const State a = load(fields, cell), b = load(fields, cell + 1), c = load(fields, cell + 2),
                d = load(fields, cell + 3);
    const State left = reconstruct(a, b, c, 0.5), right = reconstruct(b, c, d, -0.5);

    // Speeds of the fastest waves (Davis 1988) and of the contact between them.
    const double left_sound = sqrt(GAMMA * left.pressure / left.density);
    const double right_sound = sqrt(GAMMA * right.pressure / right.density);
    const double slowest = fmin(left.u - left_sound, right.u - right_sound);
    const double fastest = fmax(left.u + left_sound, right.u + right_sound);
    const double left_inflow = left.density * (slowest - left.u), right_inflow = right.density * (fastest - right.u);
    const double contact = (right.pressure - left.pressure + left_inflow * left.u - right_inflow * right.u) /
                           (left_inflow - right_inflow);

    const bool from_left = contact >= 0;
    const State &s = from_left ? left : right;
    const double outer = from_left ? slowest : fastest, energy = energy_of(s);
    double mass = s.density * s.u, along = mass * s.u + s.pressure, across = mass * s.v;
    double power = s.u * (energy + s.pressure);
    if (slowest < 0 && fastest > 0) { // between the fastest waves
        double scale = s.density * (outer - s.u) / (outer - contact);
        double star_energy =
            scale * (energy / s.density + (contact - s.u) * (contact + s.pressure / (s.density * (outer - s.u))));
        mass += outer * (scale - s.density);
        along += outer * (scale * contact - s.density * s.u);
        across += outer * (scale - s.density) * s.v;
        power += outer * (star_energy - energy);
    }
    const size_t to = (size_t)blockIdx.y * faces + face;
    mass_flux[to] = mass;
    u_flux[to] = along;
    v_flux[to] = across;
    energy_flux[to] = power;
}
