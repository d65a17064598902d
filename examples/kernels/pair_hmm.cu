// Log odds of each read given each haplotype by the forward algorithm of a pair hidden Markov model: a warp per pair,
// four bases of the read per lane, along antidiagonals. Reads have 128 bases.

constexpr int BASES_PER_LANE = 4;
constexpr int READ_LENGTH = 32 * BASES_PER_LANE;
constexpr float GAP_OPEN = 0.001f;
constexpr float GAP_EXTEND = 0.1f;
constexpr float BACKGROUND = 0.25f;

struct Cell {
    float match, insertion, deletion;
};

__device__ __forceinline__ Cell shift_up(const Cell &cell)
{
    Cell result;
    result.match = __shfl_up_sync(0xffffffffu, cell.match, 1);
    result.insertion = __shfl_up_sync(0xffffffffu, cell.insertion, 1);
    result.deletion = __shfl_up_sync(0xffffffffu, cell.deletion, 1);
    return result;
}

extern "C" __global__ void pair_hmm(const unsigned char *__restrict__ reads,
                                    const unsigned char *__restrict__ qualities,
                                    const unsigned char *__restrict__ haplotypes, float *__restrict__ log_odds,
                                    int read_count, int haplotype_length)
{
    const int lane = threadIdx.x & 31;
    const int read = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (read >= read_count)
        return;
    const unsigned char *haplotype = haplotypes + (size_t)blockIdx.y * haplotype_length;

    unsigned char base[BASES_PER_LANE];
    float hit[BASES_PER_LANE], miss[BASES_PER_LANE];
#pragma unroll
    for (int i = 0; i < BASES_PER_LANE; ++i) {
        int position = read * READ_LENGTH + lane * BASES_PER_LANE + i;
        float error = exp10f(-0.1f * qualities[position]);
        base[i] = reads[position];
        hit[i] = (1.0f - error) / BACKGROUND;
        miss[i] = error / 3.0f / BACKGROUND;
    }

    const float start = ldexpf(1.0f, 120) / haplotype_length;
    const float match_to_match = 1.0f - 2.0f * GAP_OPEN;
    const float gap_to_match = 1.0f - GAP_EXTEND;
    Cell row[BASES_PER_LANE] = {};
    Cell above_left = {0.0f, 0.0f, lane == 0 ? start : 0.0f};
    float total = 0.0f;

    for (int step = 0; step < haplotype_length + 31; ++step) {
        Cell above = shift_up(row[BASES_PER_LANE - 1]);
        if (lane == 0)
            above = {0.0f, 0.0f, start};
        int column = step - lane;
        if (column >= 0 && column < haplotype_length) {
            unsigned char letter = haplotype[column];
            Cell diagonal = above_left;
            Cell up = above;
#pragma unroll
            for (int i = 0; i < BASES_PER_LANE; ++i) {
                Cell left = row[i];
                float emission = letter == base[i] ? hit[i] : miss[i];
                Cell cell;
                cell.match = emission * (match_to_match * diagonal.match +
                                         gap_to_match * (diagonal.insertion + diagonal.deletion));
                cell.insertion = GAP_OPEN * up.match + GAP_EXTEND * up.insertion;
                cell.deletion = GAP_OPEN * left.match + GAP_EXTEND * left.deletion;
                row[i] = cell;
                diagonal = left;
                up = cell;
            }
            total += row[BASES_PER_LANE - 1].match + row[BASES_PER_LANE - 1].insertion;
            above_left = above;
        }
    }

    if (lane == 31)
        log_odds[(size_t)blockIdx.y * read_count + read] = log10f(total) - 120.0f * 0.30103f;
}
