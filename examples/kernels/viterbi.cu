// Viterbi decoding, with soft decisions, of the convolutional code of constraint length 7 and rate 1/2: a frame of 512
// bits per block, a state per thread. Each step has a barrier; one thread then traces the survivors back.

constexpr int BITS = 512, STATES = 64, FIRST = 0171, SECOND = 0133;

extern "C" __global__ void viterbi(const char2 *received, unsigned *decoded)
{
    __shared__ char2 soft[BITS];
    __shared__ int metrics[2][STATES];
    __shared__ unsigned survivors[BITS][STATES / 32];
    int state = threadIdx.x;
    const char2 *frame = received + blockIdx.x * BITS;
    for (int i = state; i < BITS; i += STATES)
        soft[i] = frame[i];
    metrics[0][state] = state == 0 ? 0 : -1000000;
    __syncthreads();

    // The states 2 s and 2 s + 1 (modulo 64) precede s. Their code words are complements.
    int before = 2 * state % STATES;
    int first = __popc(2 * state & FIRST) % 2 ? 1 : -1, second = __popc(2 * state & SECOND) % 2 ? 1 : -1;
    for (int step = 0; step < BITS; step++) {
        const int *from = metrics[step % 2];
        int branch = first * soft[step].x + second * soft[step].y;
        int even = from[before] + branch, odd = from[before + 1] - branch;
        unsigned choices = __ballot_sync(~0u, odd > even);
        if (state % 32 == 0)
            survivors[step][state / 32] = choices;
        metrics[(step + 1) % 2][state] = max(even, odd);
        __syncthreads();
    }

    if (state == 0) {  // frames end in state 0
        unsigned word = 0, at = 0;
        for (int step = BITS - 1; step >= 0; step--) {
            word |= (at >> 5) << (step % 32);
            unsigned choice = (survivors[step][at / 32] >> (at % 32)) & 1;
            at = 2 * at % STATES + choice;
            if (step % 32 == 0) {
                decoded[(blockIdx.x * BITS + step) / 32] = word;
                word = 0;
            }
        }
    }
}
