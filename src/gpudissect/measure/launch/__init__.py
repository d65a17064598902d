"""Kernel starts: what a kernel, a graph and a block cost to start."""
