// Staggered Dirac operator of lattice QCD on the even sites of a periodic 4-D lattice in FP32, a site per thread.

constexpr int COLOURS = 3;
constexpr int LINK_ELEMENTS = COLOURS * COLOURS;
constexpr int DIMENSIONS = 4;

__device__ __forceinline__ void add_product(float2 &sum, float2 a, float2 b)
{
    sum.x += a.x * b.x - a.y * b.y;
    sum.y += a.x * b.y + a.y * b.x;
}

__device__ __forceinline__ void subtract_conjugate_product(float2 &sum, float2 a, float2 b)
{
    sum.x -= a.x * b.x + a.y * b.y;
    sum.y -= a.x * b.y - a.y * b.x;
}

// links: parity x dimension x 9 x half volume, with the phases. source, on odd sites, and result: 3 x half volume.
// A site of a parity has the number ((t * nz + z) * ny + y) * (nx / 2) + x / 2; nx is even.
extern "C" __global__ void staggered_dslash(const float2 *__restrict__ links, const float2 *__restrict__ source,
                                            float2 *__restrict__ result, int nx, int ny, int nz, int nt)
{
    const int half_volume = nx / 2 * ny * nz * nt;
    const int site = blockIdx.x * blockDim.x + threadIdx.x;
    if (site >= half_volume)
        return;

    const int sizes[DIMENSIONS] = {nx, ny, nz, nt};
    int at[DIMENSIONS];
    int rest = site / (nx / 2);
    at[1] = rest % ny;
    rest /= ny;
    at[2] = rest % nz;
    at[3] = rest / nz;
    at[0] = 2 * (site % (nx / 2)) + ((at[1] + at[2] + at[3]) & 1);
    const int strides[DIMENSIONS] = {1, nx, nx * ny, nx * ny * nz};
    const int index = ((at[3] * nz + at[2]) * ny + at[1]) * nx + at[0];

    float2 sum[COLOURS] = {};
#pragma unroll
    for (int d = 0; d < DIMENSIONS; d++) {
        int wrap = (sizes[d] - 1) * strides[d];
        int forward = (at[d] == sizes[d] - 1 ? index - wrap : index + strides[d]) / 2;
        int backward = (at[d] == 0 ? index + wrap : index - strides[d]) / 2;

        const float2 *link = links + (size_t)d * LINK_ELEMENTS * half_volume + site;
        float2 vector[COLOURS];
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
            vector[c] = source[c * half_volume + forward];
#pragma unroll
        for (int row = 0; row < COLOURS; row++)
#pragma unroll
            for (int c = 0; c < COLOURS; c++)
                add_product(sum[row], link[(size_t)(row * COLOURS + c) * half_volume], vector[c]);

        link = links + (size_t)(DIMENSIONS + d) * LINK_ELEMENTS * half_volume + backward;
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
            vector[c] = source[c * half_volume + backward];
#pragma unroll
        for (int row = 0; row < COLOURS; row++)
#pragma unroll
            for (int c = 0; c < COLOURS; c++)
                subtract_conjugate_product(sum[row], link[(size_t)(c * COLOURS + row) * half_volume], vector[c]);
    }
#pragma unroll
    for (int c = 0; c < COLOURS; c++)
        result[c * half_volume + site] = sum[c];
}
