"""gpudissect takes a GPU apart by measurement.

Data flows one way: plan a *workload*, run it on a *device*, read the *trace* into an *estimate*, put the
estimates into a *report*. A device is a real GPU, a simulated one, or a recording.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
