// A round of the shortest paths of Bellman and Ford, an edge per thread: the distance of the edge's end is lowered by
// an atomic minimum. Distances of the last round are in another array. Vertices at `UNREACHED` or more have none.

constexpr unsigned UNREACHED = 1u << 30;

extern "C" __global__ void bellman_ford(const unsigned *from, const unsigned *to, const unsigned *weights,
                                        const unsigned *distances, unsigned *next_distances, int edges)
{
    int edge = threadIdx.x + blockDim.x * blockIdx.x;
    if (edge >= edges)
        return;
    unsigned distance = distances[from[edge]];
    if (distance < UNREACHED)
        atomicMin(&next_distances[to[edge]], distance + weights[edge]);
}
