// Optical flow of sparse features by the method of Lucas and Kanade (Bouguet 2000), one level of the pyramid: a warp
// follows a feature with a window of 15 x 15 pixels, until a step is small, the feature leaves the frame or 12 steps
// are done. Status: 1 found, 2 too little texture, 3 lost.

constexpr int WINDOW = 15, RADIUS = WINDOW / 2, PIXELS = WINDOW * WINDOW, PER_LANE = (PIXELS + 31) / 32;
constexpr int MAX_STEPS = 12;

__device__ __forceinline__ float sample(const unsigned char *image, int width, float x, float y)
{
    int left = (int)floorf(x), top = (int)floorf(y);
    float across = x - left, down = y - top;
    const unsigned char *at = image + top * width + left;
    float upper = at[0] + across * (at[1] - at[0]);
    float lower = at[width] + across * (at[width + 1] - at[width]);
    return upper + down * (lower - upper);
}

__device__ __forceinline__ float warp_sum(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

__device__ __forceinline__ bool inside(float2 at, int width, int height)
{
    const float margin = RADIUS + 2;
    return at.x >= margin && at.y >= margin && at.x < width - margin && at.y < height - margin;
}

extern "C" __global__ void __launch_bounds__(128)
    lucas_kanade(const unsigned char *__restrict__ before, const unsigned char *__restrict__ after,
                 const float *__restrict__ xs, const float *__restrict__ ys, float2 *__restrict__ found,
                 unsigned char *__restrict__ status, int features, int width, int height, float tolerance)
{
    const int feature = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (feature >= features)
        return;
    const float2 origin = make_float2(xs[feature], ys[feature]);
    float2 at = origin;
    int state = inside(at, width, height) ? 1 : 3;

    float patch[PER_LANE], slope_x[PER_LANE], slope_y[PER_LANE];
    float xx = 0, xy = 0, yy = 0;
    if (state == 1) {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int pixel = min(lane + 32 * i, PIXELS - 1);
            float weight = lane + 32 * i < PIXELS ? 0.5f : 0.0f;
            float x = origin.x + pixel % WINDOW - RADIUS, y = origin.y + pixel / WINDOW - RADIUS;
            patch[i] = sample(before, width, x, y);
            slope_x[i] = weight * (sample(before, width, x + 1, y) - sample(before, width, x - 1, y));
            slope_y[i] = weight * (sample(before, width, x, y + 1) - sample(before, width, x, y - 1));
            xx += slope_x[i] * slope_x[i];
            xy += slope_x[i] * slope_y[i];
            yy += slope_y[i] * slope_y[i];
        }
        xx = warp_sum(xx);
        xy = warp_sum(xy);
        yy = warp_sum(yy);
    }
    const float determinant = xx * yy - xy * xy;
    const float least = 0.5f * (xx + yy - sqrtf((xx - yy) * (xx - yy) + 4 * xy * xy));
    if (state == 1 && least < PIXELS * 1.0f)
        state = 2;

    for (int step = 0; step < MAX_STEPS && state == 1; step++) {
        float bx = 0, by = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int pixel = min(lane + 32 * i, PIXELS - 1);
            float x = at.x + pixel % WINDOW - RADIUS, y = at.y + pixel / WINDOW - RADIUS;
            float difference = patch[i] - sample(after, width, x, y);
            bx += difference * slope_x[i];
            by += difference * slope_y[i];
        }
        bx = warp_sum(bx);
        by = warp_sum(by);
        float2 move = make_float2((yy * bx - xy * by) / determinant, (xx * by - xy * bx) / determinant);
        at.x += move.x;
        at.y += move.y;
        if (!inside(at, width, height))
            state = 3;
        else if (move.x * move.x + move.y * move.y < tolerance * tolerance)
            break;
    }
    if (lane == 0) {
        found[feature] = at;
        status[feature] = (unsigned char)state;
    }
}
