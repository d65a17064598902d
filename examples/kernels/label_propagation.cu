// A step of label propagation for communities in a graph (CSR): each vertex takes the most frequent label of its
// neighbours, the smallest of several.

constexpr int MAX_LABELS = 16;

struct Tally {
    int label;
    int votes;
};

extern "C" __global__ void label_propagation(const int *__restrict__ row_starts, const int *__restrict__ neighbours,
                                             const int *__restrict__ labels, int *__restrict__ next_labels,
                                             int *__restrict__ changed, int vertices)
{
    int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    if (vertex >= vertices)
        return;

    Tally tallies[MAX_LABELS];
    int distinct = 0;
    int end = row_starts[vertex + 1];
    for (int edge = row_starts[vertex]; edge < end; edge++) {
        int label = labels[neighbours[edge]];
        int slot = 0;
        while (slot < distinct && tallies[slot].label != label)
            slot++;
        if (slot < distinct) {
            tallies[slot].votes++;
        } else if (distinct < MAX_LABELS) {
            tallies[distinct].label = label;
            tallies[distinct].votes = 1;
            distinct++;
        }
    }

    int own = labels[vertex];
    Tally best = {own, 0};
    for (int slot = 0; slot < distinct; slot++) {
        Tally tally = tallies[slot];
        if (tally.votes > best.votes || (tally.votes == best.votes && tally.label < best.label))
            best = tally;
    }
    next_labels[vertex] = best.label;
    if (best.label != own)
        atomicAdd(changed, 1);
}
