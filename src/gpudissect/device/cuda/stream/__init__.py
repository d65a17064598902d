"""CUDA backend of `stream` workloads."""
