"""Instructions: latency, rate, and warps needed to reach the rate."""
