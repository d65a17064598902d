// Last stage of the decompression of Zstandard (RFC 8878): a warp per frame executes its sequences, each of which
// copies literals and then a match from earlier output. Lanes read 32 sequences at once and pass them on by shuffles.

constexpr int WARPS = 2;

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    sequence_execution(const unsigned char *__restrict__ literals, const unsigned char *__restrict__ literal_lengths,
                       const unsigned char *__restrict__ match_lengths, const unsigned short *__restrict__ offsets,
                       unsigned char *out, int *__restrict__ sizes, int sequences, int literal_slot, int out_slot)
{
    const int lane = threadIdx.x % 32;
    const int frame = blockIdx.x * WARPS + threadIdx.x / 32;
    const unsigned char *literal = literals + (size_t)frame * literal_slot;
    unsigned char *target = out + (size_t)frame * out_slot;
    int position = 0;

    for (int batch = 0; batch < sequences; batch += 32) {
        int literal_length = 0, match_length = 0, offset = 1;
        if (batch + lane < sequences) {
            size_t sequence = (size_t)frame * sequences + batch + lane;
            literal_length = literal_lengths[sequence];
            match_length = match_lengths[sequence];
            offset = offsets[sequence];
        }
        const int count = min(32, sequences - batch);
        for (int i = 0; i < count; i++) {
            int copied = __shfl_sync(0xffffffffu, literal_length, i);
            for (int k = lane; k < copied; k += 32)
                target[position + k] = literal[k];
            literal += copied;
            position += copied;
            __syncwarp();

            int length = __shfl_sync(0xffffffffu, match_length, i);
            int distance = min(__shfl_sync(0xffffffffu, offset, i), position);
            const unsigned char *source = target + position - distance;
            if (distance >= length) {
                for (int k = lane; k < length; k += 32)
                    target[position + k] = source[k];
            } else { // the match overlaps its copy: a pattern repeats
                for (int k = lane; k < length; k += 32)
                    target[position + k] = source[k % distance];
            }
            position += length;
            __syncwarp();
        }
    }
    if (lane == 0)
        sizes[frame] = position;
}
