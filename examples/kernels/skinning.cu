// Skinning of a mesh, as in animation: each vertex and its normal are transformed by a mean of the matrices of four
// bones. Matrices have three rows.

__device__ float4 multiply_add(float weight, float4 row, float4 sum)
{
    return {sum.x + weight * row.x, sum.y + weight * row.y, sum.z + weight * row.z, sum.w + weight * row.w};
}

__device__ float dot(float4 row, float4 v)
{
    return row.x * v.x + row.y * v.y + row.z * v.z + row.w * v.w;
}

extern "C" __global__ void skinning(const float4 *__restrict__ bones, const float4 *__restrict__ positions,
                                    const float4 *__restrict__ normals, const uchar4 *__restrict__ indices,
                                    const float4 *__restrict__ weights, float4 *__restrict__ out_positions,
                                    float4 *__restrict__ out_normals, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    uchar4 index = indices[i];
    float4 weight = weights[i], rows[3] = {};
#pragma unroll
    for (int k = 0; k < 3; k++) {
        rows[k] = multiply_add(weight.x, bones[3 * index.x + k], rows[k]);
        rows[k] = multiply_add(weight.y, bones[3 * index.y + k], rows[k]);
        rows[k] = multiply_add(weight.z, bones[3 * index.z + k], rows[k]);
        rows[k] = multiply_add(weight.w, bones[3 * index.w + k], rows[k]);
    }
    float4 position = positions[i], normal = normals[i];
    position.w = 1;
    normal.w = 0;
    out_positions[i] = {dot(rows[0], position), dot(rows[1], position), dot(rows[2], position), 1};
    float x = dot(rows[0], normal), y = dot(rows[1], normal), z = dot(rows[2], normal);
    float scale = rsqrtf(x * x + y * y + z * z);
    out_normals[i] = {scale * x, scale * y, scale * z, 0};
}
