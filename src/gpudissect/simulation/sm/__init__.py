"""A streaming multiprocessor, cycle by cycle: schedulers, pipelines, banks and the queue before memory.

`description` describes it, `banks` counts bank passes, `engine` runs warps. Only the engine loads numba, and only when
it runs.
"""
