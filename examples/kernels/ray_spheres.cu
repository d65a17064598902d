// Spheres rendered with a ray per pixel: the nearest of all spheres, then a ray to the light that any sphere may block.

constexpr float LIGHT_X = 0.6f, LIGHT_Y = 0.64f, LIGHT_Z = -0.48f, FAR_AWAY = 1e30f;

__device__ float hit(float3 centre, float radius, float3 from, float3 along)
{
    float x = centre.x - from.x, y = centre.y - from.y, z = centre.z - from.z;
    float middle = x * along.x + y * along.y + z * along.z;
    float root = middle * middle - (x * x + y * y + z * z) + radius * radius;
    if (root < 0)
        return FAR_AWAY;
    float distance = middle - sqrtf(root);
    return distance > 1e-3f ? distance : FAR_AWAY;
}

extern "C" __global__ void ray_spheres(const float *xs, const float *ys, const float *zs, const float *radii,
                                       float *out, int count, int width, int height)
{
    int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    if (column >= width || row >= height)
        return;
    float3 along = {(column + 0.5f - width / 2) / height, (row + 0.5f - height / 2) / height, 1};
    float scale = rsqrtf(along.x * along.x + along.y * along.y + 1);
    along = {along.x * scale, along.y * scale, scale};
    float nearest = FAR_AWAY, brightness = 0;
    int found = -1;
    for (int i = 0; i < count; i++) {
        float distance = hit({xs[i], ys[i], zs[i]}, radii[i], {0, 0, 0}, along);
        if (distance < nearest) {
            nearest = distance;
            found = i;
        }
    }
    if (found >= 0) {
        float3 point = {nearest * along.x, nearest * along.y, nearest * along.z}, light = {LIGHT_X, LIGHT_Y, LIGHT_Z};
        float facing = ((point.x - xs[found]) * light.x + (point.y - ys[found]) * light.y +
                        (point.z - zs[found]) * light.z) / radii[found];
        bool blocked = facing <= 0;
        for (int i = 0; i < count && !blocked; i++)
            blocked = hit({xs[i], ys[i], zs[i]}, radii[i], point, light) < FAR_AWAY;
        brightness = blocked ? 0.1f : 0.1f + 0.9f * facing;
    }
    out[row * width + column] = brightness;
}
