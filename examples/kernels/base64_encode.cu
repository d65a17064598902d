// Base64 encoding (RFC 4648): each thread turns three bytes into four characters of an alphabet in constant memory.
// The last group is padded with '='.

__constant__ char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

extern "C" __global__ void base64_encode(const unsigned char *in, char4 *out, int bytes)
{
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    int first = 3 * group;
    if (first >= bytes)
        return;
    int left = bytes - first;
    unsigned bits = in[first] << 16;
    if (left > 1)
        bits |= in[first + 1] << 8;
    if (left > 2)
        bits |= in[first + 2];
    char4 text;
    text.x = alphabet[bits >> 18];
    text.y = alphabet[bits >> 12 & 63];
    text.z = left > 1 ? alphabet[bits >> 6 & 63] : '=';
    text.w = left > 2 ? alphabet[bits & 63] : '=';
    out[group] = text;
}
