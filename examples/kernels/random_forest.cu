// Mean of the decision trees of a forest for each sample, one sample per thread. A tree is complete: node k has the
// children 2 k + 1 and 2 k + 2. Leaves follow the inner nodes, in an array of their own.

extern "C" __global__ void random_forest(const int *features, const float *thresholds, const float *leaves,
                                         const float *samples, float *out, int n, int features_per_sample, int trees,
                                         int depth)
{
    int sample = threadIdx.x + blockDim.x * blockIdx.x, inner = (1 << depth) - 1;
    if (sample >= n)
        return;
    float sum = 0;
    for (int tree = 0; tree < trees; tree++) {
        int node = 0;
        for (int level = 0; level < depth; level++) {
            int at = tree * inner + node;
            bool right = samples[sample * features_per_sample + features[at]] > thresholds[at];
            node = 2 * node + 1 + right;
        }
        sum += leaves[tree * (inner + 1) + node - inner];
    }
    out[sample] = sum / trees;
}
