// Histograms of oriented gradients (Dalal and Triggs 2005): a block of 16 x 16 threads covers 2 x 2 cells of 8 x 8
// pixels. A pixel adds its gradient to the two nearest of nine bins of its cell; histograms are then normalized.

constexpr int CELL = 8, BINS = 9, FEATURES = 4 * BINS;

extern "C" __global__ void gradient_histogram(const unsigned char *image, float *features, int width, int height)
{
    __shared__ unsigned histograms[FEATURES];
    __shared__ float squares;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (thread < FEATURES)
        histograms[thread] = 0;
    __syncthreads();

    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int left = max(x - 1, 0), right = min(x + 1, width - 1), up = max(y - 1, 0), down = min(y + 1, height - 1);
        float dx = (float)image[y * width + right] - image[y * width + left];
        float dy = (float)image[down * width + x] - image[up * width + x];
        float length = sqrtf(dx * dx + dy * dy);
        float angle = atan2f(dy, dx) * (BINS / 3.14159265f);  // opposite directions share a bin
        if (angle < 0)
            angle += BINS;
        float place = angle - 0.5f;
        int low = (int)floorf(place);
        float part = place - low;
        int first = low < 0 ? BINS - 1 : low % BINS, second = (low + 1) % BINS;
        unsigned *cell = histograms + (threadIdx.y / CELL * 2 + threadIdx.x / CELL) * BINS;
        atomicAdd(&cell[first], (unsigned)(length * (1 - part) * 256));
        atomicAdd(&cell[second], (unsigned)(length * part * 256));
    }
    __syncthreads();

    if (thread < 32) {
        float sum = 0;
        for (int i = thread; i < FEATURES; i += 32) {
            float value = histograms[i] / 256.0f;
            sum += value * value;
        }
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(~0u, sum, distance);
        if (thread == 0)
            squares = sum;
    }
    __syncthreads();
    if (thread < FEATURES) {
        int block = blockIdx.y * gridDim.x + blockIdx.x;
        features[block * FEATURES + thread] = fminf(histograms[thread] / 256.0f * rsqrtf(squares + 1), 0.2f);
    }
}
