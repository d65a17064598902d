// Stencil of 7 points in 3 dimensions, one output per thread. Elements on the surface are not written.

extern "C" __global__ void stencil(const float *__restrict__ in, float *__restrict__ out, int nx, int ny, int nz,
                                   float centre, float side)
{
    int x = threadIdx.x + blockDim.x * blockIdx.x, y = threadIdx.y + blockDim.y * blockIdx.y;
    int z = threadIdx.z + blockDim.z * blockIdx.z, plane = nx * ny, i = z * plane + y * nx + x;
    if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1)
        return;
    out[i] = centre * in[i] +
             side * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - plane] + in[i + plane]);
}
