// Positions of satellites at a given time from their orbital elements in FP64, one satellite per thread: Newton's
// method solves Kepler's equation to a tolerance, then the position in the orbital plane is rotated into space.

constexpr double TWO_PI = 6.283185307179586;
constexpr int MAX_ITERATIONS = 20;

extern "C" __global__ void kepler_orbits(const double *axis, const double *eccentricity, const double *inclination,
                                         const double *node, const double *perigee, const double *anomaly, double *x,
                                         double *y, double *z, int satellites, double time, double mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= satellites)
        return;
    double a = axis[i], e = eccentricity[i];
    double mean = anomaly[i] + sqrt(mu / (a * a * a)) * time;
    mean -= TWO_PI * floor(mean / TWO_PI);

    double angle = mean + e * sin(mean), sine, cosine;
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        sincos(angle, &sine, &cosine);
        double change = (angle - e * sine - mean) / (1 - e * cosine);
        angle -= change;
        if (fabs(change) < 1e-12)
            break;
    }

    sincos(angle, &sine, &cosine);
    double p = a * (cosine - e), q = a * sqrt(1 - e * e) * sine;
    double sin_w, cos_w, sin_n, cos_n, sin_i, cos_i;
    sincos(perigee[i], &sin_w, &cos_w);
    sincos(node[i], &sin_n, &cos_n);
    sincos(inclination[i], &sin_i, &cos_i);
    double along = p * cos_w - q * sin_w, across = p * sin_w + q * cos_w;
    x[i] = along * cos_n - across * cos_i * sin_n;
    y[i] = along * sin_n + across * cos_i * cos_n;
    z[i] = across * sin_i;
}
