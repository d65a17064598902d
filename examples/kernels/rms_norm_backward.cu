// Gradient of an RMS norm (Zhang and Sennrich 2019) of rows of 2880, for the input and, as a partial sum per block, for
// the weights. A block keeps a row in registers, nine columns per thread, and takes the rows one after the other.

constexpr int COLUMNS = 2880, THREADS = 320, EACH = COLUMNS / THREADS, WARPS = THREADS / 32;

extern "C" __global__ void rms_norm_backward(const float *x, const float *weights, const float *gradient,
                                             float *x_gradient, float *weight_gradients, int rows, float epsilon)
{
    __shared__ float2 warp_sums[2][WARPS];
    int thread = threadIdx.x, parity = 0;
    float weight[EACH], weight_gradient[EACH];
    for (int e = 0; e < EACH; e++) {
        weight[e] = weights[thread + e * THREADS];
        weight_gradient[e] = 0;
    }
    for (int row = blockIdx.x; row < rows; row += gridDim.x, parity ^= 1) {
        size_t first = (size_t)row * COLUMNS + thread;
        float value[EACH], outer[EACH], squares = 0, products = 0;
        for (int e = 0; e < EACH; e++) {
            value[e] = x[first + e * THREADS];
            outer[e] = gradient[first + e * THREADS];
        }
        for (int e = 0; e < EACH; e++) {
            squares += value[e] * value[e];
            products += value[e] * outer[e] * weight[e];
        }
        for (int distance = 16; distance > 0; distance /= 2) {
            squares += __shfl_xor_sync(~0u, squares, distance);
            products += __shfl_xor_sync(~0u, products, distance);
        }
        if (thread % 32 == 0)
            warp_sums[parity][thread / 32] = {squares, products};
        __syncthreads();
        squares = products = 0;
        for (int w = 0; w < WARPS; w++) {
            squares += warp_sums[parity][w].x;
            products += warp_sums[parity][w].y;
        }
        float inverse = rsqrtf(squares / COLUMNS + epsilon);
        float slope = products * inverse * inverse / COLUMNS;
        for (int e = 0; e < EACH; e++) {
            x_gradient[first + e * THREADS] = inverse * (weight[e] * outer[e] - slope * value[e]);
            weight_gradient[e] += outer[e] * value[e] * inverse;
        }
    }
    for (int e = 0; e < EACH; e++)
        weight_gradients[(size_t)blockIdx.x * COLUMNS + thread + e * THREADS] = weight_gradient[e];
}
