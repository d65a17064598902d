// Mean of rows of a table by index, as in the embedding of a recommender: a warp adds the rows of a bag, four columns
// of 128 per lane.

constexpr int COLUMNS = 128, LANES = 32;

extern "C" __global__ void embedding(const float4 *__restrict__ table, const int *__restrict__ indices,
                                     float4 *__restrict__ out, int bags, int bag_size)
{
    int bag = (threadIdx.x + blockDim.x * blockIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (bag >= bags)
        return;
    float4 sum = {};
    for (int k = 0; k < bag_size; k++) {
        float4 row = table[size_t(indices[bag * bag_size + k]) * (COLUMNS / 4) + lane];
        sum.x += row.x;
        sum.y += row.y;
        sum.z += row.z;
        sum.w += row.w;
    }
    float scale = 1.0f / bag_size;
    out[bag * (COLUMNS / 4) + lane] = {scale * sum.x, scale * sum.y, scale * sum.z, scale * sum.w};
}
