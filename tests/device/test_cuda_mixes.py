"""The host side of mixes, on a board that answers as the kernels would."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.arena import WIDEST, Arena
from gpudissect.device.cuda.chase.layout import MEETING, MIX_REPORT, SAMPLES
from gpudissect.device.cuda.chase.plan import Machine
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.mix.links import _room
from gpudissect.device.cuda.mix.mixes import Mixer
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Trace
from gpudissect.workload import Access, Instruction, Launch, LaunchMethod, Mix, Step
from gpudissect.workload.digest import digest
from tests.support.fake_board import FakeBoard, FakeKernel
from tests.support.fake_driver import FakeDriver, launcher

SMS, PER_SM, RESERVED, THREADS = 4, 65536, 1024, 2048
FIELDS: dict[str, Any] = {"body": (Step(Instruction.FADD),), "warps": 8, "block_size": 128, "iterations": 64}


class MixBoard(FakeBoard):
    """Blocks go to the SMs in turns; those of later rounds to where the wanted ones end. Warp w begins at 1000 + w."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, int]] = []
        self.spoil: Callable[[Any], None] = lambda reports: None

    def blocks_at_once(self, kernel: FakeKernel, block: int, shared: int) -> int:
        return min(PER_SM // (shared + RESERVED), THREADS // block)

    def launch(
        self, kernel: FakeKernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        if kernel.name == "mix_clock":
            meeting = self._view(arguments[0], MEETING, 1)
            meeting["cycles"], meeting["ns"] = 2 * arguments[1], arguments[1]
        elif kernel.name == "mix":
            names = ("reports", "meeting", "loops", "zero", "one", "resident", "sms", "awaited", "last", "memory",
                     "stride", "count", "half", "blocks", "samples", "offset")  # fmt: skip
            asked = dict(zip(names, arguments, strict=True)) | {"grid": grid[0], "shared": shared}
            self.asked.append(asked)
            warps = block // 32
            reports = self._view(asked["reports"], MIX_REPORT, grid[0] * warps)
            wanted = min(asked["sms"], SMS)
            for number in range(grid[0] * warps):
                b = number // warps
                first = b < asked["resident"]
                sm = b % SMS if first else b % wanted
                if sm < wanted:
                    report = reports[number]
                    report["begin"], report["end"], report["sm"] = 1000 + number, 9000 + 2 * number, sm
                    report["begin_ns"] = 500 + number if first else 0
                    report["end_ns"] = 4500 + number if b >= asked["last"] else 0
            if asked["samples"]:
                samples = self._view(asked["samples"], SAMPLES, 1)[0]
                assert samples["overhead"] == 2**32 - 1, "the least of all SMs is kept"
                samples["overhead"] = 9
                samples["bins"][[700, 710]] = 3, 1
            self.spoil(reports)
        else:
            self.launches.append(kernel.name)


def kernel(source: str, name: str, *macros: str) -> FakeKernel:
    return FakeKernel(name, " ".join((source, *macros)))


def mixer(board: MixBoard, limit: int = 1 << 24) -> Mixer:
    return Mixer(
        board, kernel, Arena(board, limit), name="fake", sm_count=SMS, capability=(9, 0),  # type: ignore[arg-type]
        shared=PER_SM - RESERVED, shared_per_sm=PER_SM, reserved=RESERVED, l2=1 << 20,
    )  # fmt: skip


def run(board: MixBoard, **fields: Any) -> Trace:
    return mixer(board).run(Mix(**FIELDS | fields))


def test_all_sms() -> None:
    board = MixBoard()
    trace = run(board)
    assert trace.workload == digest(Mix(**FIELDS))
    assert trace.begin.tolist() == [1000 + w for w in range(SMS * 8)]
    assert np.bincount(trace.sm).tolist() == [8] * SMS
    assert trace.block.tolist() == [w // 4 for w in range(SMS * 8)]
    assert trace.nanoseconds.tolist() == [4000 + SMS * 8 - 1]
    assert trace.context.clock_hz == pytest.approx(2e9) and trace.context.notes["all_at_once"] == "yes"
    asked = board.asked[0]
    assert (asked["resident"], asked["blocks"], asked["grid"], asked["awaited"], asked["last"]) == (8, 8, 8, 0, 0)
    assert (asked["loops"], asked["zero"], asked["one"]) == (1, 0, 1)
    assert asked["shared"] == 65536 // 2 - 1024


def test_some_sms_and_blocks_that_take_the_places_of_others() -> None:
    board = MixBoard()
    trace = run(board, sms=2, waves=3)
    assert trace.sm.size == 2 * 8 * 3 and set(trace.sm.tolist()) == {0, 1}
    assert np.unique(trace.block).tolist() == list(range(2 * 2 * 3)), "numbered without gaps"
    asked = board.asked[0]
    assert (asked["resident"], asked["grid"], asked["sms"], asked["blocks"]) == (8, 8 + 2 * 2 * 2, 2, 4)
    assert asked["awaited"] == 2 * 8 * 3, "the others are kept off"
    assert asked["last"] == 12
    assert run(board, sms=1).context.sm == 0


def test_shares_that_stay_wrong_are_refused() -> None:
    board = MixBoard()

    def one_too_many(reports: Any) -> None:
        reports["sm"][reports["sm"] == 1] = 0

    board.spoil = one_too_many
    with pytest.raises(DeviceError, match="came to run 8 to 16 warps on each of 3"):
        run(board)
    assert len(board.asked) == 3

    def only_once(reports: Any) -> None:
        if len(board.asked) == 4:
            one_too_many(reports)

    board.spoil = only_once
    assert np.bincount(run(board).sm).tolist() == [8] * SMS


def test_a_chain_that_went_wrong() -> None:
    board = MixBoard()
    board.spoil = lambda reports: reports["broken"].put(3, 1)
    with pytest.raises(KernelFailed, match="chain broken"):
        run(board)


@pytest.mark.parametrize(("fields", "message"), [
    ({"warps": 128}, "runs 64 warps of this mix at once"),
    ({"sms": 5}, "has 4 SMs"),
    ({"body": (Step(Instruction.LDS),), "stride": 512}, "of shared memory, each of 2 on an SM"),
    ({"body": (Step(Instruction.LDG),), "access": Access.RANDOM, "footprint": 1 << 16}, "places for 1024 chains"),
    ({"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 11}, "places for 32 chains"),
    ({"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 30}, "may be used"),
    ({"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 32}, "reach no further"),
])  # fmt: skip
def test_what_does_not_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        run(MixBoard(), **fields)


def test_a_cold_mix_starts_after_a_sweep_of_the_l2() -> None:
    loads = FIELDS | {"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 20}
    warm, cold = MixBoard(), MixBoard()
    run(warm, **loads)
    run(cold, **loads, cold=True)
    assert not {"sweep", "skim"} & set(warm.launches)
    assert cold.launches[-2:] == ["sweep", "skim"], "after what is gone through was laid"


def test_links_are_laid_once_for_mixes_that_share_them() -> None:
    board = MixBoard()
    runner = mixer(board)
    loads = FIELDS | {"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 20}
    runner.run(Mix(**loads))
    runner.run(Mix(**loads | {"body": (Step(Instruction.LDG), Step(Instruction.FADD, 2))}))
    assert board.launches == ["lay_tiles"] and board.asked[1]["count"] == 1 << 13
    runner.run(Mix(**loads | {"access": Access.RANDOM}))
    assert board.launches == ["lay_tiles", "lay_lines"] and board.asked[2]["half"] == 7
    runner.release()
    runner.run(Mix(**loads | {"access": Access.RANDOM}))
    assert board.launches[2:] == ["lay_lines"]


def test_single_loads_are_counted() -> None:
    fields = {"body": (Step(Instruction.LDG),), "access": Access.STREAMING, "footprint": 1 << 20, "sampled": 8}
    trace = run(MixBoard(), **fields)
    assert (trace.latency.tolist(), trace.count.tolist(), trace.overhead.tolist()) == ([700, 710], [3, 1], [9])
    assert trace.overflow_count == 0, "none was too long to be told apart"
    assert "latency" not in run(MixBoard(), **fields | {"sampled": 0}).arrays


def test_a_mix_begins_where_the_one_before_ended() -> None:
    """Or it would find in the L2 what that one read."""
    board = MixBoard()
    runner = mixer(board)
    fields = {"body": (Step(Instruction.LDG, 2),), "access": Access.STREAMING, "footprint": 1 << 22, "iterations": 16}
    for repetition in range(3):
        runner.run(Mix(**FIELDS | fields, repetition=repetition))
    chains = SMS * 8
    assert [asked["offset"] for asked in board.asked] == [n * 2 * 2 * 16 * chains % (1 << 15) for n in range(3)]
    assert board.launches == ["lay_tiles"]


def test_links_that_arithmetic_works_on_are_normal_numbers() -> None:
    """The lower half of an address, as a single, must be one: not within 8 MiB of a multiple of 2 GiB."""

    class Somewhere:
        def __init__(self, address: int) -> None:
            self.address = address

        def allocate(self, size: int) -> int:
            return self.address

        def free(self, address: int) -> None:
            pass

    for address in (0, 1 << 30, (1 << 31) - (1 << 26), (1 << 31) - WIDEST, (3 << 31) - (1 << 27), 5 << 31):
        for size in (1 << 20, 1 << 26, 1 << 29, 1984 << 20):
            memory = _room(Arena(Somewhere(0x7F0000000000 + address), 1 << 33), size)
            assert 0 <= memory - 0x7F0000000000 - address <= size + (1 << 24)
            halves = np.array([memory, memory + size - 1]).astype(np.uint32).view(np.float32)
            assert np.isfinite(halves).all() and (np.abs(halves) >= np.finfo(np.float32).tiny).all()
            assert memory >> 31 == memory + size - 1 >> 31
    with pytest.raises(DeviceError, match="reach no further"):
        _room(Arena(Somewhere(0x7F0000000000), 1 << 34), 1 << 31)


def test_mixes_and_launches_of_a_batch_come_back_in_its_order() -> None:
    board = MixBoard()
    gpu = object.__new__(CudaGpu)
    gpu._compile_ahead = lambda batch: None  # type: ignore[assignment]
    gpu._board, gpu._closed, gpu._broken = board, False, None  # type: ignore[assignment]
    gpu._info = SimpleNamespace(streams=(), instructions=(Instruction.FADD,), launch_methods=tuple(LaunchMethod))  # type: ignore[assignment]
    gpu._machine = Machine(4, {}, shared_largest=49152, shared_per_sm=49152, shared_free=1024)
    gpu._mixer, gpu._launcher = mixer(board), launcher(FakeDriver())
    gpu._watched = lambda traces: traces  # type: ignore[method-assign]
    board.activate = lambda: None  # type: ignore[attr-defined]
    batch = [Mix(**FIELDS), Launch(method=LaunchMethod.GRAPH), Mix(**FIELDS | {"repetition": 1})]
    assert [trace.workload for trace in gpu.run(batch)] == [digest(each) for each in batch]
    gpu._info.instructions = ()  # type: ignore[misc]
    with pytest.raises(DeviceError, match="cannot run a Mix"):
        gpu.run(batch)
