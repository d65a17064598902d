"""Caches, TLBs and their policies, pure and fast; used by the simulated GPU and by the inference of policies.

`geometry` says what there can be, `check` whether it can; `index` and `policy` say what index functions and
replacement policies mean; `cache` and `hierarchy` simulate. Only these two load numba, and only when used.
"""
