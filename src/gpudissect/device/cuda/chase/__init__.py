"""CUDA backend of `chase` workloads."""
