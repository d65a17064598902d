"""Shared memory: latency, banks, clusters of SMs, bulk copies."""
