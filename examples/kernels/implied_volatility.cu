// Implied volatilities of European calls in FP64 by Newton's method with bisection as a fallback. Quotes are relative
// to the bounds without arbitrage.

__constant__ double NUMERATOR[7] = {220.206867912376,  221.213596169931,  112.079291497871,    33.912866078383,
                                    6.37396220353165, 0.700383064443688, 0.0352624965998911};
__constant__ double DENOMINATOR[8] = {440.413735824752, 793.826512519948, 637.333633378831, 296.564248779674,
                                      86.7807322029461, 16.064177579207,  1.75566716318264, 0.0883883476483184};

// Cumulative normal distribution (Hart 1968, West 2005).
__device__ double normal_cdf(double x)
{
    double size = fabs(x), tail = 0.0;
    if (size <= 37.0) {
        double density = exp(-0.5 * size * size);
        if (size < 7.07106781186547) {
            double top = NUMERATOR[6], bottom = DENOMINATOR[7];
#pragma unroll
            for (int i = 5; i >= 0; --i)
                top = top * size + NUMERATOR[i];
#pragma unroll
            for (int i = 6; i >= 0; --i)
                bottom = bottom * size + DENOMINATOR[i];
            tail = density * top / bottom;
        } else {
            double fraction = size + 0.65;
            for (int i = 4; i >= 1; --i)
                fraction = size + i / fraction;
            tail = density / fraction / 2.506628274631;
        }
    }
    return x > 0.0 ? 1.0 - tail : tail;
}

extern "C" __global__ void implied_volatility(const double *spots, const double *strikes, const double *years,
                                              const double *quotes, double *volatilities, int *iterations, double rate,
                                              double tolerance, int limit, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double spot = spots[i], time = years[i];
    double discounted = strikes[i] * exp(-rate * time);
    double floor_price = fmax(spot - discounted, 0.0);
    double price = floor_price + quotes[i] * (spot - floor_price);
    double root = sqrt(time), moneyness = log(spot / discounted);

    double low = 1e-3, high = 10.0, volatility = 0.3;
    int step = 0;
    for (; step < limit; ++step) {
        double deviation = volatility * root;
        double d1 = moneyness / deviation + 0.5 * deviation;
        double error = spot * normal_cdf(d1) - discounted * normal_cdf(d1 - deviation) - price;
        if (fabs(error) < tolerance)
            break;
        if (error > 0.0)
            high = volatility;
        else
            low = volatility;
        double vega = spot * root * 0.398942280401433 * exp(-0.5 * d1 * d1);
        double next = volatility - error / vega;
        if (!(next > low && next < high))
            next = 0.5 * (low + high);
        volatility = next;
    }
    volatilities[i] = volatility;
    iterations[i] = step;
}
