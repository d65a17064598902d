// Maximum of the last 32 values at each time of many series, one series per thread: a queue holds the values that may
// still become the maximum, in decreasing order. Values of all series at one time are contiguous.

constexpr int WINDOW = 32;

struct Candidate {
    float value;
    int time;
};

extern "C" __global__ void sliding_maximum(const float *values, float *maxima, int series, int times)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= series)
        return;
    Candidate queue[WINDOW];  // a ring buffer
    int head = 0, count = 0;
    for (int time = 0; time < times; time++) {
        float value = values[time * series + s];
        if (count > 0 && queue[head].time <= time - WINDOW) {
            head = (head + 1) % WINDOW;
            count--;
        }
        while (count > 0 && queue[(head + count - 1) % WINDOW].value <= value)
            count--;
        queue[(head + count) % WINDOW] = {value, time};
        count++;
        maxima[time * series + s] = queue[head].value;
    }
}
