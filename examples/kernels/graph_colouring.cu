// A round of parallel greedy colouring of a graph (Catalyurek et al. 2012), a vertex of the work list per thread: a
// vertex that has the colour of a neighbour of higher rank takes the least colour that no neighbour has. A hash of the
// vertex is its rank. Colours of the last round are in another array.

__device__ __forceinline__ unsigned rank_of(unsigned vertex)
{
    vertex = (vertex ^ vertex >> 16) * 0x7feb352du;
    vertex = (vertex ^ vertex >> 15) * 0x846ca68bu;
    return vertex ^ vertex >> 16;
}

extern "C" __global__ void graph_colouring(const int *__restrict__ work, const int *__restrict__ starts,
                                           const int *__restrict__ degrees, const int *__restrict__ neighbours,
                                           const int *__restrict__ colours, int *__restrict__ next_colours,
                                           int *__restrict__ changed, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool conflict = false;
    if (i < count) {
        int vertex = work[i], start = starts[vertex], end = start + degrees[vertex], colour = colours[vertex];
        unsigned rank = rank_of(vertex);
        for (int edge = start; edge < end && !conflict; edge++) {
            int neighbour = neighbours[edge];
            conflict = colours[neighbour] == colour && rank_of(neighbour) > rank;
        }
        if (conflict) {
            unsigned long long taken = 0;
            for (int edge = start; edge < end; edge++)
                taken |= 1ull << (colours[neighbours[edge]] & 63);
            colour = __ffsll(~taken) - 1; // fewer than 64 neighbours leave a colour
        }
        next_colours[vertex] = colour;
    }
    unsigned conflicts = __ballot_sync(~0u, conflict);
    if (conflicts && threadIdx.x % 32 == 0)
        atomicAdd(changed, __popc(conflicts));
}
