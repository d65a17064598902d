// Gravity of m bodies at n points, all pairs (Nyland et al. 2007): a block loads as many bodies as it has threads into
// shared memory, then each thread adds their accelerations. m is a multiple of the block.

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(256) n_body(const float4 *__restrict__ bodies,
                                                         const float4 *__restrict__ points,
                                                         float4 *__restrict__ accelerations, int n, int m,
                                                         float softening)
{
    __shared__ float4 tile[THREADS];
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    float4 point = points[min(i, n - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int first = 0; first < m; first += THREADS) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < THREADS; j++) {
            float4 body = tile[j];
            float x = body.x - point.x, y = body.y - point.y, z = body.z - point.z;
            float inverse = rsqrtf(x * x + y * y + z * z + softening);
            float strength = body.w * inverse * inverse * inverse;
            ax += strength * x;
            ay += strength * y;
            az += strength * z;
        }
        __syncthreads();
    }
    if (i < n)
        accelerations[i] = {ax, ay, az, 0};
}
