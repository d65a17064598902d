// Price of an American put by a binomial tree (Cox, Ross and Rubinstein 1979), one option per block: a thread has one
// leaf and goes backwards with the others through shared memory. `up` is the factor of a step that goes up, `rise` its
// discounted probability and `fall` the other one.

constexpr int LEAVES = 256;

extern "C" __global__ void binomial_options(const float *prices, const float *strikes, float *puts, float up,
                                            float rise, float fall)
{
    __shared__ float values[LEAVES + 1];
    int leaf = threadIdx.x;
    float strike = strikes[blockIdx.x], price = prices[blockIdx.x] * powf(up, 2 * leaf - (LEAVES - 1));
    float value = fmaxf(strike - price, 0);
    for (int step = LEAVES - 1; step > 0; step--) {
        values[leaf] = value;
        __syncthreads();
        price *= up;
        if (leaf < step)
            value = fmaxf(strike - price, fall * value + rise * values[leaf + 1]);
        __syncthreads();
    }
    if (leaf == 0)
        puts[blockIdx.x] = value;
}
