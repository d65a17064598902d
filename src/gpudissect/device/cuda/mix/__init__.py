"""CUDA backend of `mix` workloads."""
