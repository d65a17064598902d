// Bounds of a bounding volume hierarchy after its triangles moved (as in Karras 2012): a thread per leaf climbs towards
// the root, and the second child to arrive at a node goes on. Nodes are a complete binary tree, in the order of a heap.

struct Box {
    float3 low, high;
};

__device__ __forceinline__ void widen(Box &box, float3 point)
{
    box.low = make_float3(fminf(box.low.x, point.x), fminf(box.low.y, point.y), fminf(box.low.z, point.z));
    box.high = make_float3(fmaxf(box.high.x, point.x), fmaxf(box.high.y, point.y), fmaxf(box.high.z, point.z));
}

// Bounds of the other child come from the L2, as another SM may have written them.
__device__ __forceinline__ Box load_box(const float2 *nodes, int node)
{
    float2 a = __ldcg(&nodes[3 * node]), b = __ldcg(&nodes[3 * node + 1]), c = __ldcg(&nodes[3 * node + 2]);
    return {make_float3(a.x, a.y, b.x), make_float3(b.y, c.x, c.y)};
}

__device__ __forceinline__ void store_box(float2 *nodes, int node, Box box)
{
    nodes[3 * node] = make_float2(box.low.x, box.low.y);
    nodes[3 * node + 1] = make_float2(box.low.z, box.high.x);
    nodes[3 * node + 2] = make_float2(box.high.y, box.high.z);
}

// `arrivals` is 0 for all inner nodes before and after a launch.
extern "C" __global__ void bvh_refit(const int *__restrict__ leaf_triangles, const int *__restrict__ triangles,
                                     const float4 *__restrict__ vertices, float2 *nodes, unsigned *arrivals, int leaves)
{
    int leaf = blockIdx.x * blockDim.x + threadIdx.x;
    if (leaf >= leaves)
        return;
    const int *corners = triangles + 3 * leaf_triangles[leaf];
    Box box = {make_float3(1e30f, 1e30f, 1e30f), make_float3(-1e30f, -1e30f, -1e30f)};
    for (int corner = 0; corner < 3; corner++) {
        float4 vertex = vertices[corners[corner]];
        widen(box, make_float3(vertex.x, vertex.y, vertex.z));
    }

    int node = leaves - 1 + leaf;
    store_box(nodes, node, box);
    while (node > 0) {
        int sibling = node % 2 == 1 ? node + 1 : node - 1;
        node = (node - 1) / 2;
        __threadfence();
        if (atomicInc(&arrivals[node], 1) == 0)
            return;
        __threadfence();
        Box other = load_box(nodes, sibling);
        widen(box, other.low);
        widen(box, other.high);
        store_box(nodes, node, box);
    }
}
