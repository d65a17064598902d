// A bottom-up step of breadth-first search (Beamer et al. 2012): each unvisited vertex looks for a neighbour on the
// frontier and stops at the first. Rows of the graph have room for a fixed number of neighbours; degrees differ.
// Levels below 0 are of unvisited vertices.

extern "C" __global__ void bfs_bottom_up(const int *__restrict__ row_starts, const int *__restrict__ degrees,
                                         const int *__restrict__ neighbours, const int *__restrict__ levels,
                                         int *__restrict__ next_levels, int vertices, int current)
{
    int vertex = threadIdx.x + blockDim.x * blockIdx.x;
    if (vertex >= vertices)
        return;
    int level = levels[vertex];
    if (level < 0) {
        int start = row_starts[vertex], end = start + degrees[vertex];
#pragma unroll 1
        for (int k = start; k < end; k++)
            if (levels[neighbours[k]] == current) {
                level = current + 1;
                break;
            }
    }
    next_levels[vertex] = level;
}
