// Adds the points of a lidar scan to a grid of voxels: moves them by a pose and accumulates sums of position and
// intensity, and counts, per voxel.

struct Pose {
    float4 rows[3];

    __device__ float3 operator()(float4 p) const
    {
        return make_float3(rows[0].x * p.x + rows[0].y * p.y + rows[0].z * p.z + rows[0].w,
                           rows[1].x * p.x + rows[1].y * p.y + rows[1].z * p.z + rows[1].w,
                           rows[2].x * p.x + rows[2].y * p.y + rows[2].z * p.z + rows[2].w);
    }
};

extern "C" __global__ void voxel_grid(const float4 *__restrict__ points, const float4 *__restrict__ pose_rows,
                                      float *__restrict__ sums, unsigned *__restrict__ counts, int n, int side,
                                      float voxels_per_metre)
{
    Pose pose = {{pose_rows[0], pose_rows[1], pose_rows[2]}};
    float half = 0.5f * side;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float4 point = points[i];
        float3 moved = pose(point);
        int x = (int)floorf(moved.x * voxels_per_metre + half);
        int y = (int)floorf(moved.y * voxels_per_metre + half);
        int z = (int)floorf(moved.z * voxels_per_metre + half);
        if (x < 0 || x >= side || y < 0 || y >= side || z < 0 || z >= side)
            continue;
        int voxel = (z * side + y) * side + x;
        atomicAdd(&sums[4 * voxel], moved.x);
        atomicAdd(&sums[4 * voxel + 1], moved.y);
        atomicAdd(&sums[4 * voxel + 2], moved.z);
        atomicAdd(&sums[4 * voxel + 3], point.w);
        atomicAdd(&counts[voxel], 1u);
    }
}
