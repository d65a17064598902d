// Merges two sorted arrays (merge path, Green et al. 2012): each thread finds by binary search where its part of the
// output begins in both arrays, and then merges 16 elements. Of equal elements, those of the first array come first.

constexpr int PART = 16;

extern "C" __global__ void merge_sorted(const unsigned *a, const unsigned *b, unsigned *out, int a_count, int b_count)
{
    int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * PART;
    int total = a_count + b_count;
    if (diagonal >= total)
        return;
    int low = max(0, diagonal - b_count);
    int high = min(diagonal, a_count);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    int i = low, j = diagonal - low;
    int end = min(diagonal + PART, total);
    for (int k = diagonal; k < end; k++) {
        bool take_a = j >= b_count || (i < a_count && a[i] <= b[j]);
        if (take_a)
            out[k] = a[i++];
        else
            out[k] = b[j++];
    }
}
