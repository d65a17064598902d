// Stiffness matrix of a spectral element method applied to a field, without assembly: a block per element of 8 x 8 x 8
// points moves through its layers, in FP64.

constexpr int N = 8;
constexpr int POINTS = N * N * N;

extern "C" __global__ void __launch_bounds__(N *N)
    spectral_laplacian(const double *__restrict__ field, const double *__restrict__ geometry,
                       const double *__restrict__ derivative, double *__restrict__ result)
{
    __shared__ double d[N][N + 1];
    __shared__ double layer[N][N + 1];
    __shared__ double flux_r[N][N + 1];
    __shared__ double flux_s[N][N + 1];
    const int i = threadIdx.x, j = threadIdx.y;
    const size_t element = blockIdx.x;
    const double *u = field + element * POINTS;
    const double *g = geometry + element * 6 * POINTS;

    d[j][i] = derivative[j * N + i];
    double column[N], sums[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        column[k] = u[(k * N + j) * N + i];
        sums[k] = 0.0;
    }

#pragma unroll
    for (int k = 0; k < N; k++) {
        __syncthreads();
        layer[j][i] = column[k];
        __syncthreads();

        double ur = 0.0, us = 0.0, ut = 0.0;
#pragma unroll
        for (int m = 0; m < N; m++) {
            ur += d[i][m] * layer[j][m];
            us += d[j][m] * layer[m][i];
            ut += d[k][m] * column[m];
        }

        const int point = (k * N + j) * N + i;
        const double g00 = g[point], g01 = g[POINTS + point], g02 = g[2 * POINTS + point];
        const double g11 = g[3 * POINTS + point], g12 = g[4 * POINTS + point], g22 = g[5 * POINTS + point];
        flux_r[j][i] = g00 * ur + g01 * us + g02 * ut;
        flux_s[j][i] = g01 * ur + g11 * us + g12 * ut;
        const double flux_t = g02 * ur + g12 * us + g22 * ut;
        __syncthreads();

        double sum = 0.0;
#pragma unroll
        for (int m = 0; m < N; m++) {
            sum += d[m][i] * flux_r[j][m] + d[m][j] * flux_s[m][i];
            sums[m] += d[k][m] * flux_t;
        }
        sums[k] += sum;
    }

#pragma unroll
    for (int k = 0; k < N; k++)
        result[element * POINTS + (k * N + j) * N + i] = sums[k];
}
