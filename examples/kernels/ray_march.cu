// Image of a scene given by a signed distance field, one pixel per thread: a ray advances by the distance to the
// nearest surface until it hits one or leaves the scene; lit points send a second ray to the light for soft shadows.

constexpr int STEPS = 128, SHADOW_STEPS = 32;
constexpr float FAR = 40;

__device__ float3 along(float3 from, float3 direction, float t)
{
    return make_float3(from.x + t * direction.x, from.y + t * direction.y, from.z + t * direction.z);
}

__device__ float3 unit(float3 v)
{
    float scale = rsqrtf(v.x * v.x + v.y * v.y + v.z * v.z);
    return make_float3(v.x * scale, v.y * scale, v.z * scale);
}

__device__ float smooth_minimum(float a, float b, float k)
{
    float h = fmaxf(k - fabsf(a - b), 0) / k;
    return fminf(a, b) - h * h * k * 0.25f;
}

// The ground, a torus blended with a sphere, and rounded boxes that repeat every four units.
__device__ float scene(float3 p, float time)
{
    float ground = p.y;
    float ring = sqrtf(p.x * p.x + p.z * p.z) - 1.6f;
    float torus = sqrtf(ring * ring + (p.y - 1.2f) * (p.y - 1.2f)) - 0.35f;
    float ball_x = p.x - 1.5f * __cosf(time), ball_z = p.z - 1.5f * __sinf(time), ball_y = p.y - 1.5f;
    float ball = sqrtf(ball_x * ball_x + ball_y * ball_y + ball_z * ball_z) - 0.6f;
    float box_x = fabsf(p.x - 4 * rintf(p.x / 4) - 0.3f) - 0.4f;
    float box_y = fabsf(p.y - 0.4f) - 0.4f;
    float box_z = fabsf(p.z - 4 * rintf(p.z / 4) + 0.3f) - 0.4f;
    float out_x = fmaxf(box_x, 0), out_y = fmaxf(box_y, 0), out_z = fmaxf(box_z, 0);
    float boxes = sqrtf(out_x * out_x + out_y * out_y + out_z * out_z) +
                  fminf(fmaxf(box_x, fmaxf(box_y, box_z)), 0) - 0.1f;
    return fminf(ground, fminf(boxes, smooth_minimum(torus, ball, 0.5f)));
}

extern "C" __global__ void ray_march(uchar4 *image, int width, int height, float time)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float3 eye = make_float3(0.5f, 3, -7);
    float3 ray = unit(make_float3((x - 0.5f * width) / height, (0.5f * height - y) / height - 0.3f, 1.1f));
    float t = 0.1f;
    bool hit = false;
    for (int step = 0; step < STEPS && t < FAR; step++) {
        float distance = scene(along(eye, ray, t), time);
        if (distance < 0.0005f * t) {
            hit = true;
            break;
        }
        t += distance;
    }
    float3 colour = make_float3(0.5f + 0.3f * ray.y, 0.6f + 0.3f * ray.y, 0.9f);
    if (hit) {
        float3 p = along(eye, ray, t), light = unit(make_float3(0.6f, 0.8f, -0.4f));
        float e = 0.001f, here = scene(p, time);
        float3 normal = unit(make_float3(scene(make_float3(p.x + e, p.y, p.z), time) - here,
                                         scene(make_float3(p.x, p.y + e, p.z), time) - here,
                                         scene(make_float3(p.x, p.y, p.z + e), time) - here));
        float facing = normal.x * light.x + normal.y * light.y + normal.z * light.z;
        float shine = 0;
        if (facing > 0) {
            shine = facing;
            float s = 0.02f;
            for (int step = 0; step < SHADOW_STEPS && s < 10 && shine > 0.001f; step++) {
                float distance = scene(along(p, light, s), time);
                shine = fminf(shine, facing * fmaxf(8 * distance / s, 0));
                s += fmaxf(distance, 0.02f);
            }
        }
        float fog = __expf(-0.002f * t * t), grey = 0.15f + 0.85f * shine;
        colour.x = grey * fog + colour.x * (1 - fog);
        colour.y = grey * 0.9f * fog + colour.y * (1 - fog);
        colour.z = grey * 0.8f * fog + colour.z * (1 - fog);
    }
    image[y * width + x] = make_uchar4(255 * __saturatef(colour.x), 255 * __saturatef(colour.y),
                                       255 * __saturatef(colour.z), 255);
}
