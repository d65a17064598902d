// Each warp follows a chain of dependent loads through a permutation; all its lanes load the same address.

extern "C" __global__ void pointer_chase(const unsigned *next, unsigned *ends, unsigned n, int steps)
{
    unsigned warp = (threadIdx.x + blockDim.x * blockIdx.x) / 32, place = warp % n;
    for (int k = 0; k < steps; k++)
        place = next[place];
    if (threadIdx.x % 32 == 0)
        ends[warp] = place;
}
