// Nearest triangle along rays of a camera, by a tree of boxes with a stack in local memory: the nearer child first, the
// other one onto the stack. The tree is complete, with a triangle per leaf; its boxes are random, not nested.

constexpr int LEVELS = 15, INNER = (1 << LEVELS) - 1;

__device__ float enter_box(float4 low, float4 size, float3 origin, float3 inverse, float nearest)
{
    float x0 = (low.x - origin.x) * inverse.x, x1 = (low.x + size.x - origin.x) * inverse.x;
    float y0 = (low.y - origin.y) * inverse.y, y1 = (low.y + size.y - origin.y) * inverse.y;
    float z0 = (low.z - origin.z) * inverse.z, z1 = (low.z + size.z - origin.z) * inverse.z;
    float enter = fmaxf(fmaxf(fminf(x0, x1), fminf(y0, y1)), fmaxf(fminf(z0, z1), 0.0f));
    float leave = fminf(fminf(fmaxf(x0, x1), fmaxf(y0, y1)), fminf(fmaxf(z0, z1), nearest));
    return enter <= leave ? enter : 3e38f;
}

__device__ float hit_triangle(const float4 *corners, float3 origin, float3 direction, float nearest)
{
    float4 a = corners[0], b = corners[1], c = corners[2];
    float ux = b.x - a.x, uy = b.y - a.y, uz = b.z - a.z, vx = c.x - a.x, vy = c.y - a.y, vz = c.z - a.z;
    float px = direction.y * vz - direction.z * vy, py = direction.z * vx - direction.x * vz;
    float pz = direction.x * vy - direction.y * vx, determinant = ux * px + uy * py + uz * pz;
    if (fabsf(determinant) < 1e-8f)
        return nearest;
    float inverse = 1 / determinant, sx = origin.x - a.x, sy = origin.y - a.y, sz = origin.z - a.z;
    float u = (sx * px + sy * py + sz * pz) * inverse;
    if (u < 0 || u > 1)
        return nearest;
    float qx = sy * uz - sz * uy, qy = sz * ux - sx * uz, qz = sx * uy - sy * ux;
    float v = (direction.x * qx + direction.y * qy + direction.z * qz) * inverse;
    float t = (vx * qx + vy * qy + vz * qz) * inverse;
    return v >= 0 && u + v <= 1 && t > 0 ? fminf(t, nearest) : nearest;
}

extern "C" __global__ void ray_bvh(const float4 *lows, const float4 *sizes, const float4 *triangles, float *distances,
                                   int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float3 origin = {0, 0, -3}, direction = {(2 * x + 1.0f) / width - 1, (2 * y + 1.0f) / height - 1, 3};
    float3 inverse = {1 / direction.x, 1 / direction.y, 1 / direction.z};
    float nearest = 1e30f;
    int stack[LEVELS + 1], stacked = 0, node = 0;
    for (;;) {
        if (node >= INNER) {
            nearest = hit_triangle(triangles + 3 * (node - INNER), origin, direction, nearest);
        } else {
            float left = enter_box(lows[2 * node], sizes[2 * node], origin, inverse, nearest);
            float right = enter_box(lows[2 * node + 1], sizes[2 * node + 1], origin, inverse, nearest);
            int nearer = 2 * node + 1 + (right < left);
            if (fminf(left, right) < 3e38f) {
                if (fmaxf(left, right) < 3e38f)
                    stack[stacked++] = 4 * node + 3 - nearer;
                node = nearer;
                continue;
            }
        }
        if (stacked == 0)
            break;
        node = stack[--stacked];
    }
    distances[y * width + x] = nearest;
}
