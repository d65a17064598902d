// Prices of European options, after the kernel of the CUDA SDK (Podlozhnyuk 2007). VV16, section 3.10 and figure 3.11,
// compares it compiled without and with -use_fast_math: Accurate and Fast are the functions that this option selects.

struct Accurate {
    static __device__ float exp(float x) { return expf(x); }
    static __device__ float log(float x) { return logf(x); }
    static __device__ float divide(float x, float y) { return x / y; }
    static __device__ float sqrt(float x) { return sqrtf(x); }
};

struct Fast {
    static __device__ float exp(float x) { return __expf(x); }
    static __device__ float log(float x) { return __logf(x); }
    static __device__ float divide(float x, float y) { return __fdividef(x, y); }
    static __device__ float sqrt(float x)
    {
        float root;
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
        return root;
    }
};

// Cumulative normal distribution, by formula 26.2.17 of Abramowitz and Stegun.
template <class Math> __device__ float normal(float d)
{
    float k = Math::divide(1.0f, 1.0f + 0.2316419f * fabsf(d));
    float series = k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f));
    float tail = 0.39894228f * Math::exp(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + series)));
    return d > 0 ? 1 - tail : tail;
}

template <class Math> struct Option {
    float d1, d2, discounted;

    __device__ Option(float price, float strike, float years, float rate, float volatility)
    {
        float root = Math::sqrt(years);
        float drift = (rate + 0.5f * volatility * volatility) * years;
        d1 = Math::divide(Math::log(Math::divide(price, strike)) + drift, volatility * root);
        d2 = d1 - volatility * root;
        discounted = strike * Math::exp(-rate * years);
    }
};

template <class Math>
__device__ void call_and_put(float *call, float *put, const float *price, const float *strike, const float *years,
                             int n, float rate, float volatility)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Option<Math> option(price[i], strike[i], years[i], rate, volatility);
    float first = normal<Math>(option.d1), second = normal<Math>(option.d2);
    call[i] = price[i] * first - option.discounted * second;
    put[i] = option.discounted * (1 - second) - price[i] * (1 - first);
}

extern "C" __global__ void black_scholes(float *call, float *put, const float *price, const float *strike,
                                         const float *years, int n, float rate, float volatility)
{
    call_and_put<Accurate>(call, put, price, strike, years, n, rate, volatility);
}

extern "C" __global__ void black_scholes_fast(float *call, float *put, const float *price, const float *strike,
                                              const float *years, int n, float rate, float volatility)
{
    call_and_put<Fast>(call, put, price, strike, years, n, rate, volatility);
}

// One price per thread, of a call or of a put by a bit of the index: bits 0 to 4 mix both kinds in each warp.
extern "C" __global__ void black_scholes_by_kind(float *value, const float *price, const float *strike,
                                                 const float *years, int n, float rate, float volatility, int kind_bit)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Option<Accurate> option(price[i], strike[i], years[i], rate, volatility);
    if (i >> kind_bit & 1)
        value[i] = option.discounted * normal<Accurate>(-option.d2) - price[i] * normal<Accurate>(-option.d1);
    else
        value[i] = price[i] * normal<Accurate>(option.d1) - option.discounted * normal<Accurate>(option.d2);
}
