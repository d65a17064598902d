// Hooking step of connected components (FastSV, Zhang, Azad and Hu 2020), one edge per thread: the vertex with the
// larger grandparent and its parent get the smaller grandparent, by atomic minima in the next array of parents.

extern "C" __global__ void component_hooking(const uint2 *__restrict__ edges, const unsigned *__restrict__ parents,
                                             const unsigned *__restrict__ grandparents, unsigned *next_parents,
                                             unsigned *hooked, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool hooks = false;
    if (i < count) {
        uint2 edge = edges[i];
        unsigned u = edge.x, v = edge.y;
        unsigned of_u = grandparents[u], of_v = grandparents[v];
        if (of_u > of_v) {
            unsigned swapped = u;
            u = v;
            v = swapped;
            swapped = of_u;
            of_u = of_v;
            of_v = swapped;
        }
        hooks = of_u < of_v;
        if (hooks) {
            atomicMin(&next_parents[parents[v]], of_u);
            atomicMin(&next_parents[v], of_u);
        }
    }
    int total = __syncthreads_count(hooks);
    if (threadIdx.x == 0)
        atomicAdd(hooked, (unsigned)total);
}
