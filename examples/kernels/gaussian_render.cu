// Blends sorted 2-D Gaussians of a scene into pixels, as in Gaussian splatting: a block per tile of 16 x 16 pixels.

constexpr int TILE = 16;
constexpr int BATCH = TILE * TILE;

// Tile t has the entries t * capacity to t * capacity + counts[t] - 1, each with a Gaussian and its offset from the
// tile's centre. Shapes are triangular factors of inverse covariances. Colours have the opacity as fourth component.
extern "C" __global__ void __launch_bounds__(BATCH)
    gaussian_render(const int *__restrict__ counts, const int *__restrict__ ids, const float2 *__restrict__ offsets,
                    const float3 *__restrict__ shapes, const float4 *__restrict__ colours, float *__restrict__ image,
                    float *__restrict__ transmittances, int *__restrict__ last_entries, int capacity, int width,
                    int height)
{
    __shared__ float2 batch_offsets[BATCH];
    __shared__ float3 batch_shapes[BATCH];
    __shared__ float4 batch_colours[BATCH];

    const int tile = blockIdx.y * gridDim.x + blockIdx.x;
    const int rank = threadIdx.y * TILE + threadIdx.x;
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    const bool inside = x < width && y < height;
    const float own_x = threadIdx.x - 0.5f * (TILE - 1), own_y = threadIdx.y - 0.5f * (TILE - 1);
    const int count = min(counts[tile], capacity);
    const size_t first = (size_t)tile * capacity;

    bool done = !inside;
    float transmittance = 1.0f;
    float3 sum = make_float3(0, 0, 0);
    int last = 0;
    for (int start = 0; start < count; start += BATCH) {
        if (__syncthreads_count(done) == BATCH)
            break;
        if (start + rank < count) {
            int id = ids[first + start + rank];
            batch_offsets[rank] = offsets[first + start + rank];
            batch_shapes[rank] = shapes[id];
            batch_colours[rank] = colours[id];
        }
        __syncthreads();

        int size = min(BATCH, count - start);
        for (int i = 0; !done && i < size; i++) {
            float2 offset = batch_offsets[i];
            float3 shape = batch_shapes[i];
            float dx = offset.x - own_x, dy = offset.y - own_y;
            float u = shape.x * dx + shape.y * dy, v = shape.z * dy;
            float4 colour = batch_colours[i];
            float alpha = fminf(0.99f, colour.w * __expf(-0.5f * (u * u + v * v)));
            if (alpha < 1.0f / 255.0f)
                continue;
            float next = transmittance * (1.0f - alpha);
            if (next < 0.0001f) {
                done = true;
                continue;
            }
            sum.x += colour.x * alpha * transmittance;
            sum.y += colour.y * alpha * transmittance;
            sum.z += colour.z * alpha * transmittance;
            transmittance = next;
            last = start + i + 1;
        }
    }

    if (inside) {
        int pixel = y * width + x, pixels = width * height;
        image[pixel] = sum.x;
        image[pixels + pixel] = sum.y;
        image[2 * pixels + pixel] = sum.z;
        transmittances[pixel] = transmittance;
        last_entries[pixel] = last;
    }
}
