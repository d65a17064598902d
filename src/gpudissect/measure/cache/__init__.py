"""Caches, the L2 and device memory: capacity, line, sets, policy, latency."""
