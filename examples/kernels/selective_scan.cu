// Selective scan of a state space model (Mamba): a thread per channel with 16 states in registers; the input-dependent
// matrices B and C of a chunk of steps are in shared memory.

constexpr int STATES = 16;
constexpr int CHUNK = 32;

__device__ __forceinline__ float softplus(float x)
{
    return x > 20.0f ? x : log1pf(__expf(x));
}

__device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + __expf(-x));
}

extern "C" __global__ void __launch_bounds__(128)
    selective_scan(const float *__restrict__ u, const float *__restrict__ delta, const float *__restrict__ gate,
                   const float *__restrict__ a_log, const float *__restrict__ b, const float *__restrict__ c,
                   const float *__restrict__ skip, float *__restrict__ out, int channels, int steps)
{
    __shared__ float b_chunk[CHUNK][STATES];
    __shared__ float c_chunk[CHUNK][STATES];
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    const int sequence = blockIdx.y;
    const bool active = channel < channels;

    float decay[STATES], state[STATES];
#pragma unroll
    for (int n = 0; n < STATES; ++n) {
        decay[n] = active ? -expf(a_log[channel * STATES + n]) * 1.44269504f : 0.0f;
        state[n] = 0.0f;
    }
    const float d = active ? skip[channel] : 0.0f;

    for (int start = 0; start < steps; start += CHUNK) {
        const int length = min(CHUNK, steps - start);
        const size_t source = ((size_t)sequence * steps + start) * STATES;
        for (int i = threadIdx.x; i < length * STATES; i += blockDim.x) {
            b_chunk[i / STATES][i % STATES] = b[source + i];
            c_chunk[i / STATES][i % STATES] = c[source + i];
        }
        __syncthreads();
        if (active) {
            for (int t = 0; t < length; ++t) {
                const size_t index = ((size_t)sequence * steps + start + t) * channels + channel;
                const float x = u[index];
                const float dt = softplus(delta[index]);
                const float dx = dt * x;
                float y = d * x;
#pragma unroll
                for (int n = 0; n < STATES; ++n) {
                    state[n] = exp2f(dt * decay[n]) * state[n] + dx * b_chunk[t][n];
                    y += state[n] * c_chunk[t][n];
                }
                out[index] = y * silu(gate[index]);
            }
        }
        __syncthreads();
    }
}
