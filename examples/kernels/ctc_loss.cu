// CTC loss in speech recognition: forward variables over time, a sequence per block, a state of its label per thread.

constexpr int MAX_STATES = 128;
constexpr int BLANK = 0;

__device__ __forceinline__ float log_sum(float a, float b, float c)
{
    float largest = fmaxf(a, fmaxf(b, c));
    if (largest < -1e30f)
        return largest;
    return largest + logf(expf(a - largest) + expf(b - largest) + expf(c - largest));
}

// log_probabilities: times x sequences x symbols. alphas: sequences x times x MAX_STATES.
extern "C" __global__ void __launch_bounds__(MAX_STATES)
    ctc_loss(const float *__restrict__ log_probabilities, const int *__restrict__ labels,
             const int *__restrict__ input_lengths, const int *__restrict__ label_lengths, float *__restrict__ alphas,
             float *__restrict__ losses, int times, int symbols, int max_label)
{
    __shared__ float shared_alpha[2][MAX_STATES];
    const float impossible = -3e38f;
    const int sequence = blockIdx.x, sequences = gridDim.x;
    const int state = threadIdx.x;
    const int length = min(input_lengths[sequence], times);
    const int states = 2 * min(label_lengths[sequence], max_label) + 1;

    int symbol = BLANK;
    bool may_skip = false;
    if (state < states && state % 2 == 1) {
        const int *label = labels + (size_t)sequence * max_label;
        symbol = label[state / 2];
        may_skip = state >= 3 && symbol != label[state / 2 - 1];
    }
    const float *emission = log_probabilities + (size_t)sequence * symbols + symbol;
    float *out = alphas + (size_t)sequence * times * MAX_STATES + state;

    float alpha = state < 2 && state < states ? emission[0] : impossible;
    shared_alpha[0][state] = alpha;
    out[0] = alpha;
    __syncthreads();

    for (int t = 1; t < length; t++) {
        const float *last = shared_alpha[(t - 1) % 2];
        if (state < states) {
            float one_back = state >= 1 ? last[state - 1] : impossible;
            float two_back = may_skip ? last[state - 2] : impossible;
            alpha = log_sum(alpha, one_back, two_back) + emission[(size_t)t * sequences * symbols];
        }
        shared_alpha[t % 2][state] = alpha;
        out[(size_t)t * MAX_STATES] = alpha;
        __syncthreads();
    }

    if (state == 0) {
        const float *last = shared_alpha[(length - 1) % 2];
        losses[sequence] = -log_sum(last[states - 1], states > 1 ? last[states - 2] : impossible, impossible);
    }
}
