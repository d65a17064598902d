// Free-form deformation in the registration of medical images (Rueckert et al. 1999): a voxel is moved by a cubic
// B-spline of 64 control points and samples the other image by trilinear interpolation. A voxel per thread.

__device__ __forceinline__ void basis(float t, float (&weights)[4])
{
    float t2 = t * t, t3 = t2 * t;
    weights[0] = (1.0f - 3.0f * t + 3.0f * t2 - t3) / 6.0f;
    weights[1] = (4.0f - 6.0f * t2 + 3.0f * t3) / 6.0f;
    weights[2] = (1.0f + 3.0f * t + 3.0f * t2 - 3.0f * t3) / 6.0f;
    weights[3] = t3 / 6.0f;
}

__device__ __forceinline__ float mix(float a, float b, float t)
{
    return a + t * (b - a);
}

__device__ float sample(const float *__restrict__ image, float x, float y, float z, int3 size, float background)
{
    int left = (int)floorf(x), top = (int)floorf(y), front = (int)floorf(z);
    if (left < 0 || top < 0 || front < 0 || left + 1 >= size.x || top + 1 >= size.y || front + 1 >= size.z)
        return background;
    const float *at = image + ((size_t)front * size.y + top) * size.x + left;
    const int row = size.x, slice = size.x * size.y;
    float fx = x - left, fy = y - top, fz = z - front;
    float near_plane = mix(mix(at[0], at[1], fx), mix(at[row], at[row + 1], fx), fy);
    at += slice;
    float far_plane = mix(mix(at[0], at[1], fx), mix(at[row], at[row + 1], fx), fy);
    return mix(near_plane, far_plane, fz);
}

// control: displacements in voxels; the control point (1, 1, 1) is at the first voxel.
extern "C" __global__ void bspline_deformation(const float *__restrict__ moving, const float4 *__restrict__ control,
                                               float *__restrict__ warped, int width, int height, int depth,
                                               int control_width, int control_height, float spacing, float background)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth)
        return;

    float gx = x / spacing, gy = y / spacing, gz = z / spacing;
    int cell_x = (int)gx, cell_y = (int)gy, cell_z = (int)gz;
    float wx[4], wy[4], wz[4];
    basis(gx - cell_x, wx);
    basis(gy - cell_y, wy);
    basis(gz - cell_z, wz);

    float dx = 0.0f, dy = 0.0f, dz = 0.0f;
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < 4; b++) {
            const float4 *row = control + ((size_t)(cell_z + c) * control_height + cell_y + b) * control_width + cell_x;
            float weight = wy[b] * wz[c];
#pragma unroll
            for (int a = 0; a < 4; a++) {
                float4 displacement = row[a];
                dx += weight * wx[a] * displacement.x;
                dy += weight * wx[a] * displacement.y;
                dz += weight * wx[a] * displacement.z;
            }
        }
    int3 size = make_int3(width, height, depth);
    warped[((size_t)z * height + y) * width + x] = sample(moving, x + dx, y + dy, z + dz, size, background);
}
