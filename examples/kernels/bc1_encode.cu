// Compresses an image to BC1 textures, 4x4 pixels per thread: ends of the principal axis of colours, two-bit codes.

constexpr int SIDE = 4;
constexpr int PIXELS = SIDE * SIDE;

__device__ __forceinline__ float channel(unsigned pixel, int c)
{
    return (float)(pixel >> 8 * c & 255u);
}

__device__ __forceinline__ unsigned pack_565(unsigned pixel)
{
    unsigned red = ((pixel & 255u) * 31 + 127) / 255;
    unsigned green = ((pixel >> 8 & 255u) * 63 + 127) / 255;
    unsigned blue = ((pixel >> 16 & 255u) * 31 + 127) / 255;
    return red << 11 | green << 5 | blue;
}

__device__ __forceinline__ int3 expand_565(unsigned packed)
{
    int red = packed >> 11, green = packed >> 5 & 63, blue = packed & 31;
    return make_int3(red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2);
}

__device__ __forceinline__ int squared_distance(unsigned pixel, int3 colour)
{
    int red = (int)(pixel & 255u) - colour.x;
    int green = (int)(pixel >> 8 & 255u) - colour.y;
    int blue = (int)(pixel >> 16 & 255u) - colour.z;
    return red * red + green * green + blue * blue;
}

__device__ __forceinline__ int3 mix(int3 a, int3 b)
{
    return make_int3((2 * a.x + b.x) / 3, (2 * a.y + b.y) / 3, (2 * a.z + b.z) / 3);
}

extern "C" __global__ void bc1_encode(const uint4 *__restrict__ image, uint2 *__restrict__ blocks, int blocks_wide,
                                      int blocks_high)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= blocks_wide || row >= blocks_high)
        return;

    unsigned pixels[PIXELS];
#pragma unroll
    for (int y = 0; y < SIDE; y++) {
        uint4 four = image[(size_t)(row * SIDE + y) * blocks_wide + column];
        pixels[4 * y] = four.x, pixels[4 * y + 1] = four.y, pixels[4 * y + 2] = four.z, pixels[4 * y + 3] = four.w;
    }

    float3 mean = make_float3(0, 0, 0);
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        mean.x += channel(pixels[i], 0) / PIXELS;
        mean.y += channel(pixels[i], 1) / PIXELS;
        mean.z += channel(pixels[i], 2) / PIXELS;
    }
    float xx = 0, xy = 0, xz = 0, yy = 0, yz = 0, zz = 0;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        float x = channel(pixels[i], 0) - mean.x;
        float y = channel(pixels[i], 1) - mean.y;
        float z = channel(pixels[i], 2) - mean.z;
        xx += x * x, xy += x * y, xz += x * z, yy += y * y, yz += y * z, zz += z * z;
    }
    float3 axis = make_float3(0.9f, 1.0f, 0.7f);
    for (int round = 0; round < 4; round++) {
        float x = xx * axis.x + xy * axis.y + xz * axis.z;
        float y = xy * axis.x + yy * axis.y + yz * axis.z;
        float z = xz * axis.x + yz * axis.y + zz * axis.z;
        float scale = 1.0f / fmaxf(fmaxf(fabsf(x), fabsf(y)), fmaxf(fabsf(z), 1e-6f));
        axis = make_float3(x * scale, y * scale, z * scale);
    }

    float lowest = 3e38f, highest = -3e38f;
    unsigned low_pixel = 0, high_pixel = 0;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        float place = channel(pixels[i], 0) * axis.x + channel(pixels[i], 1) * axis.y + channel(pixels[i], 2) * axis.z;
        if (place < lowest)
            lowest = place, low_pixel = pixels[i];
        if (place > highest)
            highest = place, high_pixel = pixels[i];
    }

    unsigned first = max(pack_565(low_pixel), pack_565(high_pixel));
    unsigned second = min(pack_565(low_pixel), pack_565(high_pixel));
    int3 a = expand_565(first), b = expand_565(second), c = mix(a, b), d = mix(b, a);
    unsigned codes = 0;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        int da = squared_distance(pixels[i], a) * 4, db = squared_distance(pixels[i], b) * 4 + 1;
        int dc = squared_distance(pixels[i], c) * 4 + 2, dd = squared_distance(pixels[i], d) * 4 + 3;
        codes |= (unsigned)(min(min(da, db), min(dc, dd)) & 3) << 2 * i;
    }
    blocks[(size_t)row * blocks_wide + column] = make_uint2(second << 16 | first, first == second ? 0 : codes);
}
