// First step of marching cubes (Lorensen and Cline 1987): which corners of each cell of a scalar field are inside the
// surface, and how many triangles each block will produce. One cell per thread; the field has n^3 points.

extern "C" __global__ void marching_cubes_count(const float *__restrict__ field,
                                                const unsigned char *__restrict__ triangles_of_case,
                                                unsigned char *cases, unsigned *triangles, int n, float level)
{
    __shared__ unsigned total;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (thread == 0)
        total = 0;
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    unsigned count = 0;
    if (x < n - 1 && y < n - 1 && z < n - 1) {
        unsigned corners = 0;
        for (int corner = 0; corner < 8; corner++) {
            int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
            float value = field[((z + dz) * n + y + dy) * n + x + dx];
            if (value > level)
                corners |= 1 << corner;
        }
        cases[(z * (n - 1) + y) * (n - 1) + x] = corners;
        if (corners != 0 && corners != 255)
            count = triangles_of_case[corners];
    }
    count = __reduce_add_sync(~0u, count);
    if (thread % 32 == 0 && count > 0)
        atomicAdd(&total, count);
    __syncthreads();
    if (thread == 0)
        triangles[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = total;
}
