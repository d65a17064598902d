// Orbits of small bodies in the field of the Earth and the Moon (circular restricted three-body problem in the rotating
// frame) in FP64, one body per thread, by fourth-order Runge-Kutta. A body stops when it hits the Earth or the Moon.

struct State {
    double x, y, vx, vy;
};

__device__ State derivative(const State &s, double mu)
{
    double x1 = s.x + mu, x2 = s.x - 1 + mu;
    double r1 = sqrt(x1 * x1 + s.y * s.y);
    double r2 = sqrt(x2 * x2 + s.y * s.y);
    double g1 = (1 - mu) / (r1 * r1 * r1);
    double g2 = mu / (r2 * r2 * r2);
    State d;
    d.x = s.vx;
    d.y = s.vy;
    d.vx = s.x + 2 * s.vy - g1 * x1 - g2 * x2;
    d.vy = s.y - 2 * s.vx - (g1 + g2) * s.y;
    return d;
}

__device__ State advance(const State &s, const State &d, double h)
{
    State next = {s.x + h * d.x, s.y + h * d.y, s.vx + h * d.vx, s.vy + h * d.vy};
    return next;
}

extern "C" __global__ void three_body(const double *x, const double *y, const double *vx, const double *vy,
                                      double *out_x, double *out_y, double *out_vx, double *out_vy, int *out_steps,
                                      int n, int steps, double h, double mu, double earth_radius, double moon_radius)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    State s = {x[i], y[i], vx[i], vy[i]};
    int step = 0;
    while (step < steps) {
        State k1 = derivative(s, mu);
        State k2 = derivative(advance(s, k1, h / 2), mu);
        State k3 = derivative(advance(s, k2, h / 2), mu);
        State k4 = derivative(advance(s, k3, h), mu);
        s.x += h / 6 * (k1.x + 2 * k2.x + 2 * k3.x + k4.x);
        s.y += h / 6 * (k1.y + 2 * k2.y + 2 * k3.y + k4.y);
        s.vx += h / 6 * (k1.vx + 2 * k2.vx + 2 * k3.vx + k4.vx);
        s.vy += h / 6 * (k1.vy + 2 * k2.vy + 2 * k3.vy + k4.vy);
        step++;
        double x1 = s.x + mu, x2 = s.x - 1 + mu;
        if (x1 * x1 + s.y * s.y < earth_radius * earth_radius || x2 * x2 + s.y * s.y < moon_radius * moon_radius)
            break;
    }
    out_x[i] = s.x;
    out_y[i] = s.y;
    out_vx[i] = s.vx;
    out_vy[i] = s.vy;
    out_steps[i] = step;
}
