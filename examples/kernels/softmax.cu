// Softmax of each row of a matrix, one row per block: the largest element, then the sum of exponentials, then the
// quotients. Rows are read three times. Blocks have whole warps.

__device__ float reduce(float value, float *warp_values, bool is_sum)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 16; distance > 0; distance /= 2) {
        float other = __shfl_xor_sync(~0u, value, distance);
        value = is_sum ? value + other : fmaxf(value, other);
    }
    __syncthreads();
    if (lane == 0)
        warp_values[warp] = value;
    __syncthreads();
    value = warp_values[lane < blockDim.x / 32 ? lane : 0];
    if (is_sum && lane >= blockDim.x / 32)
        value = 0;
    for (int distance = 16; distance > 0; distance /= 2) {
        float other = __shfl_xor_sync(~0u, value, distance);
        value = is_sum ? value + other : fmaxf(value, other);
    }
    return value;
}

extern "C" __global__ void softmax(const float *in, float *out, int columns)
{
    __shared__ float warp_values[32];
    const float *row = in + size_t(columns) * blockIdx.x;
    float *out_row = out + size_t(columns) * blockIdx.x, largest = -3e38f, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    largest = reduce(largest, warp_values, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(row[i] - largest);
    sum = reduce(sum, warp_values, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out_row[i] = expf(row[i] - largest) / sum;
}
