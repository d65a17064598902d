"""Kernels explained: how often their instructions run and what they access, from instrumented PTX; predicted times.

The modules here are pure functions of texts and arrays, apart from the processes that compile and run kernels.
"""
