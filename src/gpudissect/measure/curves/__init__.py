"""Latency and bandwidth against footprint, over all levels."""
