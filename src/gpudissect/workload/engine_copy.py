"""`EngineCopy`: copies over a link by a copy engine of the GPU, as ``cudaMemcpy`` makes them."""

from dataclasses import dataclass

from gpudissect.errors import WorkloadError
from gpudissect.units import GIB
from gpudissect.workload.chase import Path
from gpudissect.workload.order import convert_whole_numbers
from gpudissect.workload.stream import Transfer

MAX_BYTES = GIB
MAX_RUNS = 4096
LINKS = (Path.HOST, Path.PEER)


@dataclass(frozen=True, kw_only=True)
class EngineCopy:
    """`runs` copies of `size` bytes between GPU memory and memory behind a link, one call each.

    `Transfer.READ` copies to the GPU, `Transfer.WRITE` from it. Host memory is page-locked unless `pageable`; `peer` is
    the number of the other GPU. `repetition` distinguishes equal copies. Its trace has `nanoseconds` (runs,): the time
    between the ends of consecutive copies, by CUDA events.

    Raises `WorkloadError` for other paths and directions, and for counts that are not positive or too large.
    """

    path: Path
    transfer: Transfer
    size: int
    pageable: bool = False
    runs: int = 1
    peer: int = 1
    repetition: int = 0

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        if self.path not in LINKS or self.transfer not in (Transfer.READ, Transfer.WRITE):
            raise WorkloadError(f"a copy engine reads or writes memory of the host or of a peer, got {self.path}")
        if self.pageable and self.path is not Path.HOST:
            raise WorkloadError("only memory of the host is pageable")
        if not 1 <= self.size <= MAX_BYTES or not 1 <= self.runs <= MAX_RUNS:
            limits = f"1 to {MAX_BYTES} bytes and 1 to {MAX_RUNS} runs"
            raise WorkloadError(f"a copy has {limits}, got {self.size} and {self.runs}")
