"""Latency hiding: throughput against occupancy and arithmetic intensity."""
