"""A streaming multiprocessor, cycle by cycle: schedulers, pipelines, banks and the queue before memory.

`description` describes it and counts bank passes, `engine` runs warps and compiles only then.
"""
