// Exact search for seeds of reads in a genome by backward steps through an FM-index (Ferragina and Manzini 2000), as in
// BWA and Bowtie, a read of 32 bases per thread. The transformed text has two bit planes for each 64 bases; checkpoints
// count each base before them. A search stops when no occurrence is left.

typedef unsigned long long u64;

// Occurrences of a base before a position of the transformed text.
__device__ __forceinline__ unsigned occurrences(const unsigned *checkpoints, const ulonglong2 *planes, unsigned base,
                                                unsigned position)
{
    unsigned block = position / 64, within = position % 64;
    ulonglong2 plane = planes[block];
    u64 low = base & 1 ? plane.x : ~plane.x;
    u64 high = base & 2 ? plane.y : ~plane.y;
    u64 before = (1ull << within) - 1;
    return checkpoints[block * 4 + base] + __popcll(low & high & before);
}

extern "C" __global__ void fm_index(const u64 *__restrict__ reads, const unsigned *__restrict__ checkpoints,
                                    const ulonglong2 *__restrict__ planes, uint2 *__restrict__ intervals,
                                    unsigned char *__restrict__ matched, int count, unsigned bases)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    u64 read = reads[i];
    unsigned first = 0, last = bases;
    int length = 0;
    while (length < 32) {
        unsigned base = (unsigned)(read >> (2 * length)) & 3;
        unsigned smaller = base * (bases / 4); // all bases are equally frequent
        unsigned next_first = smaller + occurrences(checkpoints, planes, base, first);
        unsigned next_last = smaller + occurrences(checkpoints, planes, base, last);
        if (next_first >= next_last)
            break;
        first = next_first;
        last = next_last;
        length++;
    }
    intervals[i] = make_uint2(first, last);
    matched[i] = (unsigned char)length;
}
