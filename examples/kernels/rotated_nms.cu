// Non-maximum suppression of rotated boxes in detection, as in MMCV: a block compares 64 boxes with 64 others and a
// thread writes a mask of those that its box suppresses. Areas are those of the polygon of intersections and corners.

constexpr int BOXES = 64, MAX_POINTS = 24;

__device__ __forceinline__ float cross(float2 a, float2 b)
{
    return a.x * b.y - a.y * b.x;
}

__device__ __forceinline__ float2 operator-(float2 a, float2 b)
{
    return make_float2(a.x - b.x, a.y - b.y);
}

__device__ void find_corners(float2 centre, float2 size, float angle, float2 *corners)
{
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    for (int i = 0; i < 4; i++) {
        float x = (i == 0 || i == 3 ? -0.5f : 0.5f) * size.x, y = (i < 2 ? -0.5f : 0.5f) * size.y;
        corners[i] = make_float2(centre.x + cosine * x - sine * y, centre.y + sine * x + cosine * y);
    }
}

__device__ bool is_inside(float2 point, const float2 *corners)
{
    for (int i = 0; i < 4; i++)
        if (cross(corners[(i + 1) % 4] - corners[i], point - corners[i]) < 0.0f)
            return false;
    return true;
}

__device__ float intersection_area(const float2 *a, const float2 *b)
{
    float2 points[MAX_POINTS];
    int count = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            float2 along_a = a[(i + 1) % 4] - a[i], along_b = b[(j + 1) % 4] - b[j], between = b[j] - a[i];
            float determinant = cross(along_a, along_b);
            if (fabsf(determinant) < 1e-12f)
                continue;
            float s = cross(between, along_b) / determinant, t = cross(between, along_a) / determinant;
            if (s >= 0.0f && s <= 1.0f && t >= 0.0f && t <= 1.0f)
                points[count++] = make_float2(a[i].x + s * along_a.x, a[i].y + s * along_a.y);
        }
    for (int i = 0; i < 4; i++) {
        if (is_inside(a[i], b))
            points[count++] = a[i];
        if (is_inside(b[i], a))
            points[count++] = b[i];
    }
    if (count < 3)
        return 0.0f;
    for (int i = 1; i < count; i++) // by angle around the first point, after the lowest is moved there
        if (points[i].y < points[0].y) {
            float2 lowest = points[i];
            points[i] = points[0];
            points[0] = lowest;
        }
    for (int i = 2; i < count; i++) {
        float2 point = points[i];
        int j = i - 1;
        for (; j >= 1 && cross(points[j] - points[0], point - points[0]) > 0.0f; j--)
            points[j + 1] = points[j];
        points[j + 1] = point;
    }
    float doubled = 0.0f;
    for (int i = 1; i + 1 < count; i++)
        doubled += cross(points[i] - points[0], points[i + 1] - points[0]);
    return 0.5f * fabsf(doubled);
}

extern "C" __global__ void __launch_bounds__(BOXES)
    rotated_nms(const float2 *__restrict__ centres, const float2 *__restrict__ sizes, const float *__restrict__ angles,
                unsigned long long *__restrict__ masks, float threshold)
{
    __shared__ float2 others[BOXES][4];
    __shared__ float areas[BOXES];
    const int column = blockIdx.x * BOXES + threadIdx.x, row = blockIdx.y * BOXES + threadIdx.x;
    find_corners(centres[column], sizes[column], angles[column], others[threadIdx.x]);
    areas[threadIdx.x] = sizes[column].x * sizes[column].y;
    __syncthreads();

    float2 corners[4];
    find_corners(centres[row], sizes[row], angles[row], corners);
    const float area = sizes[row].x * sizes[row].y;
    unsigned long long mask = 0;
    for (int i = 0; i < BOXES; i++) {
        float shared_area = intersection_area(corners, others[i]);
        if (shared_area > threshold * (area + areas[i] - shared_area))
            mask |= 1ull << i;
    }
    masks[(size_t)row * gridDim.x + blockIdx.x] = mask;
}
