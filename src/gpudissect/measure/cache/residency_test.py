"""Do these lines fit into a cache together? Asked with more laps until the answer is certain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_first_miss import Control, Fit, decide
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_same_lines import MissesByLine
from gpudissect.measure.cache.infer_same_lines import decide as decide_by_line
from gpudissect.measure.plan import Ask
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Order, Timing

WARMUP = 2
LAPS = 2
ACCESSES = 2048  # small rings get more laps, up to this many accesses
MOST_MISREAD = 0.1  # share of the control's accesses that may look like misses: with more, it does not fit itself
TOP_UPS = 8  # times the laps are doubled before a ring counts as undecided
LARGE, LARGEST = 1024, 1 << 16  # lines of a ring of which it is looked at which of them miss
FEW_TOP_UPS = 2  # before that
LINE_LAPS, LINE_TOP_UPS = 16, 5  # laps, and times they are doubled


class Fitting:
    """Asks whether rings stay resident in a level, held against a control that grows along.

    The control is a ring that surely fits: it tells how often a hit is misread. At first at least so many `accesses`
    are made of each ring.
    """

    def __init__(self, level: Level, control: Order, accesses: int = ACCESSES) -> None:
        self.level, self.accesses = level, accesses
        self.evidence: tuple[str, ...] = ()
        self.counted: list[tuple[Order, float]] = []  # rings, and the share of their accesses that missed
        self.against(control)

    def against(self, control: Order) -> None:
        """Take another ring for the control, and forget what the last one told."""
        self._control, self._seen = control, Control(0, 0)

    def decide(self, orders: Sequence[Order]) -> Ask[list[Fit]]:
        """Fit of each ring; all are undecided if the control turns out not to fit itself."""
        fits = yield from self._counted(orders)
        large = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED and self._worth_a_look(orders[i])]
        if large:
            for i, fit in zip(large, (yield from self._line_by_line([orders[i] for i in large])), strict=True):
                fits[i] = fit
        return fits

    def _counted(self, orders: Sequence[Order]) -> Ask[list[Fit]]:
        """Fit of each ring by counts of misses; large ones are not asked often, for their lines tell sooner."""
        counts: dict[int, NDArray[np.int64]] = {}
        fits = [Fit.UNDECIDED] * len(orders)
        for turn in range(TOP_UPS):
            still = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            still = [i for i in still if turn < FEW_TOP_UPS or not self._worth_a_look(orders[i])]
            if not still:
                break
            chases = [self._chase(orders[i], turn) for i in still]
            # The first look needs only some control; whoever is still open then has it grow along.
            most = max(chase.order.count * chase.laps for chase in chases)
            controls = self._controls(most if turn else ACCESSES)
            traces = yield [*chases, *controls]
            self._note(traces, traces[len(chases) :])
            if self._control_misses:
                break
            for i, trace in zip(still, traces, strict=False):
                counts[i] = np.vstack([counts[i], trace.counts]) if i in counts else trace.counts
                fits[i] = decide(counts[i], self._seen)
        for i, seen in counts.items():
            told = seen[:, 0].sum() + seen[:, 1].sum()
            self.counted += [(orders[i], float(seen[:, 1].sum() / told))] if told else []
        return fits

    def _line_by_line(self, orders: Sequence[Order]) -> Ask[list[Fit]]:
        """Fit of each large ring by which of its lines miss."""
        if self._control_misses:
            return [Fit.UNDECIDED] * len(orders)
        seen = [MissesByLine(np.zeros(order.count, dtype=np.int64), 0) for order in orders]
        fits = [Fit.UNDECIDED] * len(orders)
        for turn in range(LINE_TOP_UPS):
            still = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            if not still:
                break
            traces = yield [self._each(orders[i], turn) for i in still]
            self.evidence = (*self.evidence, *(trace.workload for trace in traces))
            for i, trace in zip(still, traces, strict=True):
                seen[i] = seen[i].with_more(self._missed(trace.cycles).reshape(-1, orders[i].count))
                fits[i] = decide_by_line(seen[i])
        return fits

    def _worth_a_look(self, order: Order) -> bool:
        return LARGE <= order.count <= LARGEST

    @property
    def _control_misses(self) -> bool:
        """Whether the control does not fit itself."""
        return self._seen.misses > MOST_MISREAD * self._seen.accesses

    def _missed(self, cycles: NDArray[np.int64]) -> NDArray[np.bool_]:
        bounds = self.level.bounds
        assert bounds is not None  # or nothing could have been counted
        return np.asarray((cycles >= bounds.miss_min) & (cycles <= bounds.miss_max))

    def _each(self, order: Order, turn: int) -> Chase:
        return Chase(path=self.level.path, order=order, timing=Timing.EACH, warmup=WARMUP, laps=LINE_LAPS << turn,
                     alone=self.level.alone, repetition=turn)  # fmt: skip

    @property
    def control(self) -> Control:
        """What the control has told so far."""
        return self._seen

    def known_for(self, accesses: int) -> Ask[None]:
        """Let the control grow to at least so many accesses."""
        controls = self._controls(accesses)
        if controls:
            traces = yield controls
            self._note(traces, traces)

    def _note(self, traces: Sequence[Trace], of_control: Sequence[Trace]) -> None:
        self.evidence = (*self.evidence, *(trace.workload for trace in traces))
        for trace in of_control:
            misses, accesses = int(trace.counts[:, 1].sum()), int(trace.counts.sum())
            self._seen = Control(self._seen.misses + misses, self._seen.accesses + accesses)

    def _chase(self, order: Order, turn: int, laps: int | None = None) -> Chase:
        laps = laps or max(LAPS, self.accesses // order.count) << turn
        return Chase(path=self.level.path, order=order, timing=Timing.COUNT, bounds=self.level.bounds,
                     warmup=WARMUP, laps=laps, alone=self.level.alone, repetition=turn)  # fmt: skip

    def _controls(self, accesses: int) -> list[Chase]:
        """A chase over the control, so that it keeps up with what is held against it."""
        wanted = accesses - self._seen.accesses
        if wanted <= 0:
            return []
        laps = max(LAPS, -(-wanted // self._control.count))
        return [self._chase(self._control, 1000 + self._seen.accesses, laps)]
