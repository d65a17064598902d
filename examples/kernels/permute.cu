// Permutation of an array. VV16, section 3.10, listing 3.6, with a check of the index. The thesis compares a trivial
// permutation, where all accesses are coalesced, with a random one with repetition, where accesses to b diverge.

extern "C" __global__ void permute(int *a, const int *b, const int *c, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        a[i] = b[c[i]];
}
