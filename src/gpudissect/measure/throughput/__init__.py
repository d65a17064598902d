"""Bandwidth of every level of the memory hierarchy."""
