// A kernel that does nothing, for what starting it costs.
extern "C" __global__ void nothing() {}
