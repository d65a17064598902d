// A step of the optimizer AdamW (Loshchilov and Hutter 2019) for weights of a neural network, one weight per thread.
// Gradients are scaled first, so that their norm is not too large. The corrections of the moments are given.

extern "C" __global__ void adam_step(float *weights, const float *gradients, float *first, float *second, int n,
                                     float rate, float beta1, float beta2, float epsilon, float decay, float scale,
                                     float correction1, float correction2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float gradient = gradients[i] * scale;
    float m = beta1 * first[i] + (1 - beta1) * gradient;
    float v = beta2 * second[i] + (1 - beta2) * gradient * gradient;
    first[i] = m;
    second[i] = v;

    float weight = weights[i];
    weight -= rate * decay * weight;
    weights[i] = weight - rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
}
