"""Instruction caches: capacities, latencies, and what they share with constants."""
