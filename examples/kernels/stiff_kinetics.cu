// Chemistry of each cell of a flow over a time step: Robertson's stiff reactions, by ROS2 (Verwer et al. 1999), a
// Rosenbrock method of two stages, with steps of adapted length. A cell per thread, in FP64.

constexpr double GAMMA = 1.7071067811865475;

struct Rates {
    double slow, fast, back;
};

__device__ __forceinline__ void derivative(const Rates &k, const double (&y)[3], double (&f)[3])
{
    double first = k.slow * y[0], second = k.back * y[1] * y[2], third = k.fast * y[1] * y[1];
    f[0] = second - first;
    f[1] = first - second - third;
    f[2] = third;
}

// Solves (1 - h gamma J) x = b by elimination without pivoting.
__device__ __forceinline__ void solve(const Rates &k, const double (&y)[3], double step, double (&x)[3])
{
    double s = step * GAMMA;
    double a00 = 1 + s * k.slow, a01 = -s * k.back * y[2], a02 = -s * k.back * y[1];
    double a10 = -s * k.slow, a11 = 1 + s * (k.back * y[2] + 2 * k.fast * y[1]), a12 = s * k.back * y[1];
    double a21 = -2 * s * k.fast * y[1];

    double factor = a10 / a00;
    a11 -= factor * a01;
    a12 -= factor * a02;
    x[1] -= factor * x[0];
    factor = a21 / a11;
    x[2] = (x[2] - factor * x[1]) / (1 - factor * a12);
    x[1] = (x[1] - a12 * x[2]) / a11;
    x[0] = (x[0] - a01 * x[1] - a02 * x[2]) / a00;
}

// concentrations: 3 x cells, updated values in `result`.
extern "C" __global__ void __launch_bounds__(64)
    stiff_kinetics(const double *__restrict__ temperatures, const double *__restrict__ concentrations,
                   double *__restrict__ result, int *__restrict__ steps, double duration, double tolerance,
                   int max_steps, int cells)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    double inverse = 1 / temperatures[cell] - 1 / 1000.0;
    Rates k = {0.04 * exp(-2000 * inverse), 3e7 * exp(-500 * inverse), 1e4 * exp(-1000 * inverse)};
    double y[3];
    for (int i = 0; i < 3; i++)
        y[i] = concentrations[(size_t)i * cells + cell];

    double time = 0, step = 1e-4;
    int attempts = 0;
    while (time < duration && attempts < max_steps) {
        step = fmin(step, duration - time);
        double k1[3], k2[3], middle[3];
        derivative(k, y, k1);
        solve(k, y, step, k1);
        for (int i = 0; i < 3; i++)
            middle[i] = y[i] + step * k1[i];
        derivative(k, middle, k2);
        for (int i = 0; i < 3; i++)
            k2[i] -= 2 * k1[i];
        solve(k, y, step, k2);

        double error = 0;
        for (int i = 0; i < 3; i++) {
            middle[i] = y[i] + step * (1.5 * k1[i] + 0.5 * k2[i]);
            double difference = 0.5 * step * (k1[i] + k2[i]) / (1e-6 + tolerance * fabs(y[i]));
            error = fmax(error, fabs(difference));
        }
        if (error <= 1) {
            time += step;
            for (int i = 0; i < 3; i++)
                y[i] = middle[i];
        }
        step *= fmin(4.0, fmax(0.2, 0.8 / sqrt(error + 1e-12)));
        attempts++;
    }
    for (int i = 0; i < 3; i++)
        result[(size_t)i * cells + cell] = y[i];
    steps[cell] = attempts;
}
