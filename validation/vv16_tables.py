"""VV16 tables 3.1 to 3.4 on its five GPUs, simulated: printed numbers, and those of machine code and `discover`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import vv16
from issue_times import timeline
from vv16_code import CAPABILITY, KINDS, Code, mean_end, printed_code, recorded_code

import gpudissect as gd
from gpudissect.estimate import Status
from gpudissect.models.base import Machine, Unit
from gpudissect.models.worksheet import ISSUE, Sheet, worksheet
from gpudissect.units import WARP_SIZE

ELEMENTS = ("fadd", "rsq", "lds", "lds_2way", "ldg_streaming", "ldg_random", "launch")
RESOURCE_OF = {
    "fadd": "CUDA cores",
    "rsq": "SFU units",
    "lds": "shared memory banks",
    "lds_2way": "shared memory banks",
    "ldg_streaming": "memory system",
    "ldg_random": "memory system",
}
WORD = 4  # bytes
REISSUED = 2  # issue slots of accesses with conflicts or not coalesced (VV16 s3.6)
KEPLER, MAXWELL = vv16.gpus()[3:]
MIX, ADD = "sample_mix", "add"  # of vv16.cu
CHAPTER_3 = (
    "vector_add",
    "permute_trivial",
    "permute_random",
    "absolute_value_positive",
    "absolute_value_negative",
    "black_scholes",
    "black_scholes_fast",
)
SHEET_RESOURCES = ("CUDA cores", "SFU units", "memory system", ISSUE)
GRADUAL = "printed: measured, with gradual saturation (s6.4), which neither bound models"
UNKNOWN_COUNT = "the same; the instruction count of its kernel is not printed"
Cells = Sequence[str]


@dataclass(frozen=True)
class Measured:
    """A simulated GPU of VV16 as `discover` measured it; `replacement`: cycles until a block is replaced."""

    gpu: str
    machine: Machine
    replacement: float

    @property
    def width(self) -> int:
        """Instructions that a scheduler issues at once."""
        return int(vv16.value(self.gpu, "table_2_8", "issue_width"))

    def sheet(self, code: Code) -> Sheet:
        """The worksheet of machine code on this GPU, at its largest occupancy."""
        runs = code.timelines(self.machine, self.width, self.replacement)
        pairs = sum(len(run.pairs) for run in runs) / len(runs)
        return worksheet(self.machine, code.mix, self.machine.warps, latency=mean_end(runs), pairs=pairs)


def discover(gpu: str) -> dict[tuple[str, str], float]:
    """Latencies and rates of a simulated GPU by element and attribute."""
    result = gd.discover(f"sim:{gpu}", only=ELEMENTS)
    return {
        (each.element, each.attribute): float(each.value)
        for each in result.findings
        if each.status is Status.FOUND and isinstance(each.value, int | float)
    }


def machine_of(gpu: str, values: Mapping[tuple[str, str], float]) -> Measured:
    """A GPU with these latencies and rates; its issue rate and width are documented."""

    def unit(kind: str, slots: int = 1, moved: int = 0) -> Unit:
        latency, rate = (values[kind, name] for name in ("latency", "rate"))
        resource = RESOURCE_OF[kind]
        return Unit(resource=resource, latency=latency, throughput=rate / WARP_SIZE, slots=slots, bytes=moved)

    streaming = unit("ldg_streaming", moved=WORD * WARP_SIZE)
    diverging = int(vv16.value(gpu, "section_6_7", "diverging_bytes")) * WARP_SIZE
    units = {
        "fadd": unit("fadd"),
        "rsq": unit("rsq"),
        "lds": unit("lds"),
        "lds_2way": unit("lds_2way", REISSUED),
        "ldg_streaming": streaming,
        "ldg_stride2": replace(  # twice the bytes (VV16 s3.6)
            streaming, throughput=streaming.throughput / 2, bytes=2 * streaming.bytes, slots=REISSUED
        ),
        "ldg_random": unit("ldg_random", REISSUED, diverging),
    }
    return Measured(gpu, replace(vv16.machine(gpu), units=units), values["launch", "block_replacement"])


def table(head: Cells, rows: Sequence[Cells]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def short(cycles: float) -> str:
    """Three digits, or all before the point."""
    return f"{cycles:.0f}" if cycles >= 100 else f"{cycles:.3g}"


def difference(printed: float, ours: float) -> str:
    """Ours relative to the printed number; "same" if it rounds to the digits printed."""
    if f"{ours:.{_digits(printed)}g}" == f"{printed:.{_digits(printed)}g}":
        return "same"
    return f"{100 * (ours / printed - 1):+.1f} %"


def _digits(printed: float) -> int:
    return max(1, len(f"{printed:g}".replace(".", "").lstrip("0")))


def table_3_1(gpus: Mapping[str, Measured]) -> str:
    """Latency, throughput, concurrency."""
    rows = []
    for gpu, found in gpus.items():
        for kind, names in (("fadd", ("alu_lat", "alu_thru")), ("ldg_streaming", ("mem_lat", "mem_thru"))):
            unit = found.machine.unit(kind)
            numbers = [vv16.value(gpu, "table_4_1", name) for name in names]
            given = vv16.tables()["table_3_1"][kind] if gpu == MAXWELL else {}
            printed = [given.get("latency", numbers[0]), given.get("throughput", numbers[1])]
            needed = f"{given['concurrency']:g}" if given else ""
            ours = [unit.latency, unit.throughput, unit.latency * unit.throughput]
            rows.append(
                (
                    vv16.generation(gpu),
                    "basic arithmetic" if kind == "fadd" else "memory access",
                    *(text for a, b in zip(printed, ours, strict=False) for text in (f"{a:g}", f"{b:.3g}")),
                    needed,
                    f"{ours[2]:.1f}",
                )
            )
    head = ("GPU", "instructions", "latency, printed", "ours", "IPC, printed", "ours", "needed, printed", "ours")
    return table(head, rows)


def table_3_2() -> str:
    """Instruction mixes: the hypothetical kernel, printed and compiled, and those of the chapter."""
    printed = vv16.tables()["table_3_2"]
    rows: list[Cells] = [("printed", *(f"{printed.get(kind, 0):g}" for kind in KINDS), f"{printed['total']:g}")]
    for name in (MIX, *CHAPTER_3):
        code = printed_code(name) if name == MIX else recorded_code(name)
        counts = [*(code.mix.get(kind, 0.0) for kind in KINDS), code.executed.sum()]
        rows.append((f"`{name}`", *(f"{count:.4g}" for count in counts)))
    return table(("instructions of a warp", *KINDS.values(), "total"), rows)


def overhead() -> str:
    """Instructions of the compiled mix that table 3.2 does not have, by opcode."""
    code = printed_code(MIX)
    extra = Counter(
        instruction.opcode
        for instruction, kind, use, count in zip(
            code.program.instructions, code.kinds, code.program.uses, code.executed, strict=True
        )
        if count and (use.access == "store" or (kind == "fadd" and instruction.opcode != "FADD"))
    )
    return ", ".join(f"{count} `{opcode}`" for opcode, count in sorted(extra.items()))


def table_3_3(gpus: Mapping[str, Measured]) -> str:
    """Limits of throughput of one SM: Maxwell's as printed in table 3.3, others by tables 2.6, 2.8 and 6.4."""
    maxwell = vv16.tables()["table_3_3"]
    rows: list[Cells] = []
    for kind, name in (
        ("fadd", "CUDA cores: operations per cycle"),
        ("rsq", "SFU units: operations per cycle"),
        ("lds", "shared memory banks: words per cycle"),
        ("ldg_streaming", "memory system: B/cycle"),
    ):
        scale = WORD if kind == "ldg_streaming" else 1
        rates = [found.machine.unit(kind).throughput * WARP_SIZE * scale for found in gpus.values()]
        rows.append((name, f"{maxwell[kind]:g}", difference(maxwell[kind], rates[-1]), *(f"{r:.3g}" for r in rates)))
    issue = [found.machine.issue for found in gpus.values()]
    same = difference(maxwell[ISSUE], issue[-1])
    rows.append(
        ("issues per cycle (documented, not measured)", f"{maxwell[ISSUE]:g}", same, *(f"{r:g}" for r in issue))
    )
    return table(("limit of an SM", "printed, Maxwell", "difference", *map(vv16.generation, gpus)), rows)


def table_3_4(found: Measured) -> str:
    """The worksheet of the sample mix."""
    printed, sheet = vv16.tables()["table_3_4"], found.sheet(printed_code(MIX))
    counts = vv16.tables()["table_3_2"]
    rows: list[Cells] = []
    for row in sheet.rows:
        is_issue = row.resource == ISSUE
        cpi = printed["cpi"][ISSUE if is_issue else row.kind]
        count = printed["issues"][row.kind.removesuffix(" issue")] if is_issue else counts[row.kind]
        name = row.kind if is_issue else KINDS[row.kind]
        numbers = (f"{cpi:g}", f"{row.cycles_each:.3g}", f"{count:g}", f"{row.count:g}", f"{cpi * count:.5g}")
        rows.append((row.resource, name, *numbers, f"{row.cycles:.4g}", difference(cpi * count, row.cycles)))
    for resource, total in sheet.totals.items():
        was = printed["totals"][resource]
        name = f"**{resource}**"
        rows.append((name, "total", "", "", "", "", f"{was:g}", f"{total:.4g}", difference(was, total)))
    bound = printed["throughput_bound"]
    rows.append(
        (
            "**bound**",
            "warps per cycle",
            "",
            "",
            "",
            "",
            f"{bound:g}",
            f"{sheet.throughput_bound:.3g}",
            difference(bound, sheet.throughput_bound),
        )
    )
    columns = ("CPI, printed", "ours", "instructions, printed", "ours", "cycles, printed", "ours", "difference")
    return table(("resource", "used by", *columns), rows)


def worksheets(gpus: Mapping[str, Measured]) -> str:
    """The worksheets of the chapter's kernels on the five GPUs."""
    rows: list[Cells] = []
    for name in CHAPTER_3:
        for gpu, found in gpus.items():
            sheet = found.sheet(recorded_code(name))
            cycles = [short(sheet.totals.get(each, 0)) for each in SHEET_RESOURCES]
            share = f"{100 * sheet.needed / found.machine.warps:.0f} %"
            warps = f"{sheet.needed:.1f}"
            rows.append((f"`{name}`", vv16.generation(gpu), *cycles, f"{sheet.latency:.0f}", warps, share))
    head = ("kernel", "GPU", *SHEET_RESOURCES, "warp latency", "warps needed", "of the maximum")
    return table(head, rows)


def listing(found: Measured) -> str:
    """The vector addition of listing 3.4 on Kepler: the code of listing 3.5, and that of today, with issue cycles."""
    before = timeline(
        vv16.vector_add(),
        reissue=found.machine.reissue,
        width=found.width,
        replacement=vv16.tables()["section_3_8"]["replacement"],
    )
    code = printed_code(ADD)
    (after,) = code.timelines(found.machine, found.width, found.replacement)
    now = [each.text for each in code.issues(found.machine, code.paths[0])]
    then = [each.text for each in vv16.vector_add()]
    rows = [
        ("" if text is None else f"{at:g}", f"`{text}`" if text else "", f"{cycle:.0f}", f"`{other}`")
        for (text, at), (other, cycle) in zip_longest(
            zip(then, before.cycles, strict=True), zip(now, after.cycles, strict=True), fillvalue=(None, 0.0)
        )
    ]
    rows.append((f"{before.end:g}", "block replaced", f"{after.end:.0f}", "block replaced"))
    return table(("cycle", "listing 3.5, Kepler", "cycle", f"sm_{CAPABILITY}"), rows)


@dataclass(frozen=True)
class Statement:
    """A number or range that chapter 3 prints, ours, and why they differ."""

    place: str
    what: str
    printed: str
    ours: str
    note: str = ""

    @property
    def cells(self) -> Cells:
        return self.place, self.what, self.printed, self.ours, self.note


def statements(gpus: Mapping[str, Measured]) -> list[Statement]:
    """Numbers of sections 3.8 and 3.10."""
    return [*_section_3_8(gpus[KEPLER]), *_section_3_10(gpus)]


def _section_3_8(kepler: Measured) -> Iterator[Statement]:
    printed, place = vv16.tables()["section_3_8"], "s3.8, Kepler"
    plain = replace(kepler, machine=replace(kepler.machine, warps=1)).sheet(printed_code(ADD))
    code, recorded = printed_code(ADD), kepler.sheet(recorded_code("vector_add"))
    (run,) = code.timelines(kepler.machine, kepler.width, kepler.replacement)
    total = code.executed.sum()
    more = "`MOV R7, 4`: `IMAD.WIDE` takes the size of an element from a register, `ISCADD` had it in the instruction"
    both = "addresses have 64 bits: `IMAD.WIDE` for `ISCADD`, each as late as the other"
    rows = (
        ("instructions", printed["instructions"], total, more),
        ("of these by CUDA cores", printed["core_instructions"], code.mix["fadd"], more),
        ("pairs issued together", printed["pairs"], len(run.pairs), "the last store is paired with `EXIT`"),
        ("issues", printed["issues"], total - len(run.pairs), ""),
        ("warp latency, cycles", printed["warp_latency"], plain.latency, both),
        ("throughput bound, warps per cycle", printed["throughput_bound"], plain.throughput_bound, ""),
        ("GB/s of each warp", printed["gbs_per_warp"], plain.bytes_per_second() / 1e9, ""),
        ("maximum GB/s", printed["peak_gbs"], plain.bytes_per_second(plain.throughput_bound) / 1e9, ""),
    )
    for what, was, ours, note in rows:
        same = difference(was, ours)
        yield Statement(
            place, what, f"{was:g}", f"{ours:.4g}", same if same == "same" or not note else f"{same}: {note}"
        )
    note = f"{recorded.latency - plain.latency:+.0f} cycles: comparison and exit of threads beyond the end"
    yield Statement(place, "warp latency with a check of the index", "", f"{recorded.latency:.0f}", note)


def _section_3_10(gpus: Mapping[str, Measured]) -> Iterator[Statement]:
    printed, place = vv16.tables()["section_3_10"], "s3.10"
    sheets = {name: {gpu: found.sheet(recorded_code(name)) for gpu, found in gpus.items()} for name in CHAPTER_3}

    def shares(name: str) -> str:
        needed = [100 * sheet.needed / sheet.machine.warps for sheet in sheets[name].values()]
        return f"{min(needed):.0f} to {max(needed):.0f} %"

    for kind, note in (
        ("trivial", GRADUAL),
        ("random", GRADUAL),
    ):
        low, high = printed[f"{kind}_needed"]
        yield Statement(
            place, f"occupancy needed, {kind} permutation", f"{low} to {high} %", shares(f"permute_{kind}"), note
        )
    trivial, random = sheets["permute_trivial"], sheets["permute_random"]
    drops = [trivial[gpu].throughput_bound / random[gpu].throughput_bound for gpu in gpus]
    text = ", ".join(f"{drop:.1f}" for drop in drops)
    least = f"{printed['min_drop_of_random']} or larger"
    note = "two of three accesses stay coalesced; Maxwell's ratio of table 6.1 is the smallest of the five"
    yield Statement(place, "drop of warp throughput, random permutation, five GPUs", least, text, note)
    positive, negative = sheets["absolute_value_positive"], sheets["absolute_value_negative"]
    ratios = ", ".join(f"{positive[gpu].needed / negative[gpu].needed:.2f}" for gpu in gpus)
    note = "the store doubles the bytes; it and the instructions before it make a warp slightly longer"
    what = "absolute value: warps needed if all are positive over those if all are negative"
    yield Statement(place, what, f"{printed['absolute_value_ratio']}", ratios, note)
    for name in ("absolute_value_positive", "absolute_value_negative", "black_scholes", "black_scholes_fast"):
        low, high = printed[name]
        sheet = sheets[name][MAXWELL]
        rate = printed["close_gbs"] * 1e9 / sheet.bytes_per_second(1.0)
        was = f"{low}" if low == high else f"{low} to {high}"
        ours = f"{sheet.latency * rate:.0f}" if rate <= sheet.throughput_bound else f"not reached: {sheet.tightest}"
        note = UNKNOWN_COUNT if name == "black_scholes" else GRADUAL
        yield Statement(place, f"`{name}`, Maxwell: warps for {printed['close_gbs']} GB/s", was, ours, note)
