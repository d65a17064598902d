// Fourier transforms of 1024 complex numbers each, in five steps of radix 4 (Stockham's order, as in Govindaraju et al.
// 2008). A block of 256 threads transforms one; numbers change threads through shared memory.

constexpr int POINTS = 1024, THREADS = POINTS / 4, PADDED = POINTS + POINTS / 32;

__device__ int padded(int i)
{
    return i + i / 32;
}

__device__ float2 multiply(float2 a, float2 b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

__device__ void transform_four(float2 *v)
{
    float2 sum = {v[0].x + v[2].x, v[0].y + v[2].y}, difference = {v[0].x - v[2].x, v[0].y - v[2].y};
    float2 odd_sum = {v[1].x + v[3].x, v[1].y + v[3].y}, odd = {v[1].y - v[3].y, v[3].x - v[1].x};
    v[0] = {sum.x + odd_sum.x, sum.y + odd_sum.y};
    v[1] = {difference.x + odd.x, difference.y + odd.y};
    v[2] = {sum.x - odd_sum.x, sum.y - odd_sum.y};
    v[3] = {difference.x - odd.x, difference.y - odd.y};
}

extern "C" __global__ void __launch_bounds__(256) fft(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    __shared__ float real[PADDED], imaginary[PADDED];
    float2 v[4];
    int first = POINTS * blockIdx.x + threadIdx.x;
#pragma unroll
    for (int r = 0; r < 4; r++)
        v[r] = in[first + r * THREADS];
    transform_four(v);
#pragma unroll
    for (int size = 4; size < POINTS; size *= 4) {
        int before = size / 4, place = threadIdx.x / before * size + threadIdx.x % before;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            real[padded(place + r * before)] = v[r].x;
            imaginary[padded(place + r * before)] = v[r].y;
        }
        __syncthreads();
        float2 turn, power = {1, 0};
        __sincosf(-6.2831853f / (4 * size) * (threadIdx.x % size), &turn.y, &turn.x);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int i = padded(threadIdx.x + r * THREADS);
            v[r] = multiply(power, {real[i], imaginary[i]});
            power = multiply(power, turn);
        }
        transform_four(v);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        out[first + r * THREADS] = v[r];
}
