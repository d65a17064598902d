"""What the probes of the L1 share: memory of GPU 0, and kernels that follow chains in it with one thread on each SM."""

from pathlib import Path
from typing import Any

import numpy as np
from gpu_probe import U32, U64, Gpu
from l1_storage import GLOBAL, LINE, LINES, READONLY, TEXTURE
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("l1_chains.cu")
ALIGNMENT = 2 << 20
KERNELS = {GLOBAL: b"follow_global", READONLY: b"follow_readonly", TEXTURE: b"follow_texture"}
RESULT_WORDS = 4096  # of an SM, at most: a bit for each access


class Chains:
    """Memory for chains, also as a texture, and for which accesses of each SM missed.

    Attributes:
        gpu: the GPU.
        base: address of the memory, `LINES` lines.
        texture: the same as a texture object.
        out: address of the results.

    """

    def __init__(self) -> None:
        self.gpu = Gpu()
        self._cubin = self.gpu.compile(SOURCE)
        self.base = -(-self.gpu.allocate(LINES * LINE + ALIGNMENT) // ALIGNMENT) * ALIGNMENT
        self.texture = self.gpu.texture(self.base, LINES * LINE)
        self.out = self.gpu.allocate(4 * self.gpu.sms * RESULT_WORDS)

    def function(self, name: bytes, shared: int = 0, carveout: int = -1) -> Any:
        """A kernel; see `Gpu.function`."""
        return self.gpu.function(self._cubin, name, shared, carveout)

    def launch(self, function: Any, shared: int, *arguments: tuple[int, type]) -> None:
        """Start a kernel with one thread on each SM."""
        self.gpu.launch(function, (self.gpu.sms, 1), shared, *arguments)

    def follow(self, function: Any, shared: int, start: int, count: int, out: int) -> None:
        """Follow a chain for `count` accesses. Which missed is stored at `out`, if it is not 0."""
        arguments = (start, U64), (self.texture, U64), (count, U32), (out, U64), (RESULT_WORDS, U32)
        self.launch(function, shared, *arguments)

    def missed(self, count: int) -> NDArray[np.uint8]:
        """Which of `count` accesses missed, by the last kernel that stored it; shape (SMs, accesses)."""
        words = self.gpu.download(self.out, self.gpu.sms * RESULT_WORDS, np.uint32).reshape(self.gpu.sms, -1)
        return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :count]
