"""gpudissect measures the undocumented memory hierarchy of a GPU.

Data flows one way: plan a *workload*, run it on a *device*, read the *trace* into an *estimate*, put the
estimates into a *result*. A device is a real GPU, a simulated one, or a recording.

    >>> import gpudissect as gd
    >>> result = gd.discover("sim:gtx980", only="l1")
    >>> result["l1"].capacity.value
    24576
    >>> print(result["l1"].capacity)
    24 KiB

Every name is imported when it is first used: ``import gpudissect`` itself costs nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # what checkers take for True; typing itself would be imported for it
if TYPE_CHECKING:
    from gpudissect.api import chase as chase
    from gpudissect.api import check as check
    from gpudissect.api import compare as compare
    from gpudissect.api import devices as devices
    from gpudissect.api import discover as discover
    from gpudissect.api import explain as explain
    from gpudissect.api import hide as hide
    from gpudissect.api import load as load
    from gpudissect.api import predict as predict
    from gpudissect.api import run as run
    from gpudissect.device.kinds import Listing as Listing
    from gpudissect.device.kinds import open_device as open_device
    from gpudissect.errors import DeviceError as DeviceError
    from gpudissect.errors import GpudissectError as GpudissectError
    from gpudissect.errors import UsageError as UsageError
    from gpudissect.estimate import Status as Status
    from gpudissect.exports import export as export
    from gpudissect.link_study import links as links
    from gpudissect.results.check import Concern as Concern
    from gpudissect.results.links import LinkReport as LinkReport
    from gpudissect.trace import Trace as Trace
    from gpudissect.views.interactive import Comparison as Comparison
    from gpudissect.views.interactive import Element as Element
    from gpudissect.views.interactive import Explanation as Explanation
    from gpudissect.views.interactive import Finding as Finding
    from gpudissect.views.interactive import MixPrediction as MixPrediction
    from gpudissect.views.interactive import Result as Result
    from gpudissect.views.interactive import Series as Series
    from gpudissect.views.traces import RunTrace as RunTrace
    from gpudissect.workload import Access as Access
    from gpudissect.workload import Bounds as Bounds
    from gpudissect.workload import Chase as Chase
    from gpudissect.workload import Clock as Clock
    from gpudissect.workload import EngineCopy as EngineCopy
    from gpudissect.workload import Explicit as Explicit
    from gpudissect.workload import Instruction as Instruction
    from gpudissect.workload import Launch as Launch
    from gpudissect.workload import LaunchMethod as LaunchMethod
    from gpudissect.workload import Mix as Mix
    from gpudissect.workload import Path as Path
    from gpudissect.workload import PriorAccesses as PriorAccesses
    from gpudissect.workload import Sequential as Sequential
    from gpudissect.workload import Shuffled as Shuffled
    from gpudissect.workload import Step as Step
    from gpudissect.workload import Stream as Stream
    from gpudissect.workload import Timing as Timing
    from gpudissect.workload import Transfer as Transfer

_HOMES = {
    "gpudissect.device.kinds": ("Listing", "open_device"),
    "gpudissect.errors": ("DeviceError", "GpudissectError", "UsageError"),
    "gpudissect.estimate": ("Status",),
    "gpudissect.results.check": ("Concern",),
    "gpudissect.exports": ("export",),
    "gpudissect.views.interactive": (
        *("Comparison", "Element", "Explanation", "Finding", "MixPrediction", "Result", "Series"),
    ),
    "gpudissect.views.traces": ("RunTrace",),
    "gpudissect.api": ("chase", "check", "compare", "devices", "discover", "explain", "hide", "load", "predict", "run"),
    "gpudissect.results.links": ("LinkReport",),
    "gpudissect.link_study": ("links",),
    "gpudissect.trace": ("Trace",),
    "gpudissect.workload": (
        *("Access", "Bounds", "Chase", "Clock", "EngineCopy", "Explicit", "Instruction", "Launch", "LaunchMethod"),
        *("Mix", "Path", "PriorAccesses", "Sequential", "Shuffled", "Step", "Stream", "Timing", "Transfer"),
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["__version__", *_HOME]


if not TYPE_CHECKING:  # for a checker, names that there are not are none

    def __getattr__(name: str) -> object:
        """Import a name from where it lives (PEP 562), once."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        return globals().setdefault(name, value)  # `explain` is also a folder, which calls the function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
