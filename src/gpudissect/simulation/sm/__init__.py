"""A streaming multiprocessor, cycle by cycle: schedulers, pipelines, banks and the queue before memory. Pure and fast.

`description` says what there can be, `banks` what a conflict costs, `engine` runs warps. Only the engine loads numba,
and only when used.
"""
