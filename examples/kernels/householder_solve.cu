// Solves many systems of 8 linear equations by Householder QR factorisation in FP32, one system per thread in
// registers. Elements (i, j) of all matrices are contiguous in memory.

constexpr int N = 8;

extern "C" __global__ void householder_solve(const float *matrices, const float *right_sides, float *solutions,
                                             float *residual_scales, int systems)
{
    int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= systems)
        return;
    float a[N][N], b[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int j = 0; j < N; j++)
            a[i][j] = matrices[(i * N + j) * systems + system];
        b[i] = right_sides[i * systems + system];
    }

    float smallest = 3e38f;
#pragma unroll
    for (int k = 0; k < N; k++) {
        float square = 0;
#pragma unroll
        for (int i = k; i < N; i++)
            square += a[i][k] * a[i][k];
        float alpha = -copysignf(sqrtf(square), a[k][k]);
        smallest = fminf(smallest, fabsf(alpha));
        float factor = 1 / (square - alpha * a[k][k]); // 2 / |v|^2 of the reflection
        a[k][k] -= alpha;
#pragma unroll
        for (int j = k + 1; j < N; j++) {
            float dot = 0;
#pragma unroll
            for (int i = k; i < N; i++)
                dot += a[i][k] * a[i][j];
            dot *= factor;
#pragma unroll
            for (int i = k; i < N; i++)
                a[i][j] -= dot * a[i][k];
        }
        float dot = 0;
#pragma unroll
        for (int i = k; i < N; i++)
            dot += a[i][k] * b[i];
        dot *= factor;
#pragma unroll
        for (int i = k; i < N; i++)
            b[i] -= dot * a[i][k];
        a[k][k] = alpha;
    }

#pragma unroll
    for (int i = N - 1; i >= 0; i--) {
#pragma unroll
        for (int j = i + 1; j < N; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
        solutions[i * systems + system] = b[i];
    }
    residual_scales[system] = smallest;
}
