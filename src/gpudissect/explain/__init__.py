"""Kernels explained: how often their instructions run and what they access, from instrumented PTX.

The modules here are pure functions of texts and arrays, apart from the process that `assemble` starts.
"""
