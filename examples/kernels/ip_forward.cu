// Forwarding of IPv4 packets, one header of 20 bytes per thread: the next hop from a table of 2^24 prefixes and a
// second one for longer prefixes (DIR-24-8, Gupta et al. 1998), time to live less one, new checksum (RFC 1624).

constexpr unsigned short LONGER = 0x8000, DROPPED = 0xffff;

struct Header {
    unsigned words[5];
};

__device__ unsigned swap_bytes(unsigned word)
{
    return __byte_perm(word, 0, 0x0123);
}

extern "C" __global__ void ip_forward(const Header *in, const unsigned short *__restrict__ prefixes,
                                      const unsigned short *__restrict__ longer, Header *out,
                                      unsigned short *next_hops, int packets)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= packets)
        return;
    Header header = in[i];
    unsigned life = swap_bytes(header.words[2]);  // time to live, protocol, checksum
    if (life >> 24 <= 1) {
        next_hops[i] = DROPPED;
        return;
    }
    unsigned destination = swap_bytes(header.words[4]);
    unsigned short hop = prefixes[destination >> 8];
    if (hop & LONGER)
        hop = longer[(hop & ~LONGER) * 256 + (destination & 255)];
    unsigned checksum = (life & 0xffff) + 0x100;
    checksum = (checksum + (checksum >> 16)) & 0xffff;
    header.words[2] = swap_bytes(((life - (1 << 24)) & 0xffff0000) | checksum);
    out[i] = header;
    next_hops[i] = hop;
}
