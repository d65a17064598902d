"""Models of latency hiding: how much throughput n warps give, and how many are needed (VV16 chapters 3, 4, 6, 7)."""
