"""Simulators of caches and of streaming multiprocessors: pure, without device or files."""
