// Scan of network packets by a deterministic finite automaton, as for intrusion detection: each thread reads the bytes
// of a packet and counts how often the automaton is in an accepting state. Accepting states have the largest numbers.

extern "C" __global__ void packet_scan(const unsigned *payloads, const unsigned short *lengths,
                                       const unsigned short *transitions, unsigned short *matches,
                                       unsigned short *last_states, int packets, int slot_words, int first_accepting)
{
    int packet = blockIdx.x * blockDim.x + threadIdx.x;
    if (packet >= packets)
        return;
    const unsigned *words = payloads + (size_t)packet * slot_words;
    int length = lengths[packet];
    int state = 0, count = 0;
    unsigned word = 0;
    for (int i = 0; i < length; i++) {
        if (i % 4 == 0)
            word = words[i / 4];
        state = transitions[state * 256 + (word & 255)];
        word >>= 8;
        if (state >= first_accepting)
            count++;
    }
    matches[packet] = count;
    last_states[packet] = state;
}
