// One step of the AdamW optimizer (Loshchilov and Hutter 2019), one weight per thread. Gradients are scaled first, to
// limit their norm. The bias corrections of the moments are arguments.

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
