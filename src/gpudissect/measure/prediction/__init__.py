"""Held-out random accesses compared with what the inferred hierarchy predicts."""
