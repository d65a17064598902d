"""TLBs: entries, page size, sets, policy, cost of a miss, and the latency spectrum that they cause."""
