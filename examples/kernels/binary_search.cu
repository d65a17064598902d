// Position of the first of n sorted keys that is not less than a query; one query per thread.

extern "C" __global__ void binary_search(const unsigned *__restrict__ keys, const unsigned *__restrict__ queries,
                                         unsigned *__restrict__ positions, unsigned n, int count)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= count)
        return;
    unsigned query = queries[i], low = 0, high = n;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (keys[middle] < query)
            low = middle + 1;
        else
            high = middle;
    }
    positions[i] = low;
}
