"""CUDA backend of `launch` workloads."""
