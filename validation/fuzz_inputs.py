"""Inputs of `fuzz.py`: damaged files of every kind, and the commands that read them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from mutations import as_json, damaged_bytes, damaged_recording, damaged_toml, damaged_value

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs/results/h200.json"
PROFILE = ROOT / "tests/recordings/kernels/h200/mandelbrot.json"
Words = list[str]
GPUS = ("gtx980", "gtx980", "h100", "c2070", "840m", "v100")
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
 .reg .u64 %rd<4>; .reg .u32 %r<8>; .reg .pred %q;
 ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, 0;
 mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
L: ld.global.u32 %r4, [%rd3]; add.u32 %r3, %r3, %r4; sub.u32 %r1, %r1, 1; setp.ne.u32 %q, %r1, 0; @%q bra L;
 st.global.u32 [%rd3], %r3; ret; }
"""
OPTIONS = {
    "chase": {
        "--path": ("global", "global_l2", "texture", "constant", "shared", "code", "nothing", "cluster", "x"),
        "--size": None,
        "--stride": None,
        "--order": ("random", "sequential"),
        "--timing": ("lap", "count", "each"),
        "--warmup": None,
        "--laps": None,
        "--bounds": None,
        "--carveout": None,
        "--sm": None,
        "--peer": None,
        "--seed": None,
        "-o": None,
        "--record": None,
        "--flush": (),
        "--json": (),
    },
    "stream": {
        "--path": ("global", "global_l2", "shared", "tma"),
        "--transfer": ("read", "write", "copy"),
        "--size": None,
        "--blocks-per-sm": None,
        "--threads": None,
        "--ilp": None,
        "--width": None,
        "--passes": None,
        "--waves": None,
        "--runs": None,
        "--cluster": None,
        "-o": None,
        "--json": (),
    },
    "mix": {
        "--run": None,
        "--warps": None,
        "--block-size": None,
        "--iterations": None,
        "--ilp": None,
        "--sms": None,
        "--stride": None,
        "--width": None,
        "--access": ("resident", "streaming", "random"),
        "--size": None,
        "--waves": None,
        "-o": None,
        "--json": (),
    },
    "discover": {"--only": ("timer", "timer", "launch", "x"), "--seed": None, "--quick": (), "-o": None},
    "predict": {"--warps": None, "--run": None, "--alpha": None, "--access": None, "--json": ()},
    "explain": {
        "--grid": None,
        "--block": None,
        "--shared": None,
        "--trips": None,
        "--gate": None,
        "--kernel": None,
        "--arg": None,
        "--limit": None,
        "--compile-option": None,
        "--json": (),
        "-o": None,
    },
}
VALUES = (
    *("1", "2", "4", "16", "32", "64", "512", "1024", "1KiB", "16KiB", "1MiB", "1.5K", "0", "-1", "1e9", "nan", "inf"),
    *("65536", "1048576", "16777216", "4294967295", "4294967296", "9" * 30, "9" * 5000, "", " ", "x", "é", "\udcff"),
    *("1,2,3", "60,180,400", "fadd:4,ldg", "fadd:999999", "lds", "ldg_streaming:1,fadd:32", "none", "L=3", "0=9e9"),
    *(
        "x:f32[1024]=random",
        "n:i32=4",
        "x:f32[99999999999]",
        "spills == 0",
        "occupancy >= 50%",
        "time < 1us",
        "((" * 40,
    ),
    *("limiter == memory", "a.json", "a.csv", "a.npz", "a.txt", "rec", "/dev/null/x", "../" * 300 + "x", "\x1b[2J"),
)
SHOWN = (
    *(("show",), ("show", "--all"), ("show", "--details"), ("show", "--json"), ("show", "--html", "page.html")),
    *(("show", "--card", "card.svg"), ("check",), ("check", "--json"), ("compare", "right.json")),
    *(
        ("compare", "--json", "right.json"),
        ("compare", "--html", "page.html", "right.json"),
        ("compare", "-a", "right.json"),
    ),
    *(("export", "-f", form) for form in ("gpu", "mt4g", "hwloc", "accelsim", "csv", "series", "parquet")),
    *(("predict", "--warps", "8", "--alpha", "4"), ("predict", "--warps", "8", "--run", "fadd:3,ldg_streaming")),
)


@cache
def base(name: str) -> Any:
    """What is damaged: contents of right files."""
    match name:
        case "result":
            content = json.loads(RESULT.read_bytes())
            content["series"] = [each for each in content["series"] if len(json.dumps(each)) < 2000][:40]
            return content
        case "hide":
            content = json.loads((ROOT / "tests/results/h200-hiding.json").read_bytes())
            content["series"] = content["series"][:10]
            return content
        case "profile":
            return json.loads(PROFILE.read_bytes())
        case "cubin":
            from gpudissect.explanation.packing import unpack_bytes

            return unpack_bytes(base("profile")["packed_cubin"], 1 << 24, "packed_cubin")
        case _:
            return (ROOT / f"src/gpudissect/catalogue/gpus/{name}.toml").read_text()


@cache
def base_recording(kind: str) -> tuple[bytes, bytes]:
    """Index and arrays of a small recording."""
    words = {
        "discover": ("discover", "--only", "timer", "--only", "launch"),
        "chase": ("chase", "--size", "4KiB"),
        "mix": ("mix", "--warps", "2"),
        "stream": ("stream", "--size", "1MiB"),
    }[kind]
    with tempfile.TemporaryDirectory() as folder:
        run_here([*words, "-d", "sim:gtx980", "--record", f"{folder}/rec"])
        return (Path(folder) / "rec/recording.jsonl").read_bytes(), (Path(folder) / "rec/arrays.bin").read_bytes()


def gpu_file(rng: Random) -> Words:
    """A damaged GPU file, and a short workload on it."""
    Path("g.toml").write_bytes(damaged_toml(rng, base(rng.choice(GPUS))))
    words = (
        *(("chase", "--size", "8KiB"), ("chase", "--path", rng.choice(OPTIONS["chase"]["--path"]), "--size", "4KiB")),
        *(
            ("stream", "--size", "1MiB"),
            ("stream", "--path", "shared"),
            ("mix", "--warps", "4"),
            ("mix", "--run", "lds,ldg"),
        ),
        *(("discover", "--only", "timer"), ("discover", "--only", "launch")),
    )
    return [*rng.choice(words), "-d", "sim:g.toml"]


def result_file(rng: Random) -> Words:
    """A damaged result, shown, checked, compared, exported."""
    name = rng.choice(("result", "result", "hide"))
    Path("r.json").write_bytes(as_json(rng, damaged_value(rng, base(name))))
    Path("right.json").write_text(json.dumps(base(name)))
    if rng.random() < 0.1:
        return ["get", "r.json", rng.choice(("l1.capacity", "l1", "x.y", "l2.hit_latency", "tlb_l1.entries"))]
    return [*rng.choice(SHOWN), "r.json"]


def recording(rng: Random) -> Words:
    """A damaged recording, replayed."""
    kind = rng.choice(("discover", "discover", "chase", "mix", "stream"))
    Path("rec").mkdir()
    for name, data in damaged_recording(rng, *base_recording(kind)).items():
        Path("rec", name).write_bytes(data)
    replay = {"discover": (), "chase": ("--size", "4KiB"), "mix": ("--warps", "2"), "stream": ("--size", "1MiB")}[kind]
    if rng.random() < 0.1:
        return rng.choice((["devices"], ["hide", "-d", "rec:rec"], ["get", "-d", "rec:rec", "timer.overhead"]))
    spec = "rec:rec" + rng.choice(("", "", "", "?partial=yes"))
    output = rng.choice((["-o", "o.json"], ["--json"], []))
    return [kind, "-d", spec, *replay, *output]


def profile(rng: Random) -> Words:
    """A damaged profile or result under `explain`."""
    damaged = rng.choice(("profile", "profile", "result", "cubin"))
    Path("machine.json").write_bytes(json.dumps(base("result")).encode())
    Path("p.json").write_bytes(json.dumps(base("profile")).encode())
    if damaged == "profile":
        Path("p.json").write_bytes(as_json(rng, damaged_value(rng, base("profile"))))
    elif damaged == "result":
        Path("machine.json").write_bytes(as_json(rng, damaged_value(rng, base("result"))))
    else:
        Path("k.cubin").write_bytes(damaged_bytes(rng, base("cubin")))
        return ["explain", "k.cubin", "--profile", "p.json", "--machine", "machine.json"]
    more = rng.choice(([], ["--json"], ["-a"], ["--gate", "occupancy > 10%"], ["--html", "e.html"]))
    return ["explain", "p.json", "--machine", "machine.json", *more]


def machine_code(rng: Random) -> Words:
    """A damaged cubin or PTX, predicted from given trip counts."""
    Path("machine.json").write_bytes(json.dumps(base("result")).encode())
    name = rng.choice(("k.cubin", "k.ptx", "k.o"))
    Path(name).write_bytes(damaged_bytes(rng, PTX.encode() if name == "k.ptx" else base("cubin")))
    trips = rng.choice((["--trips", "none"], ["--trips", "L=5"], []))
    launch = ["--grid", rng.choice(("1", "4096", "2147483647")), "--block", "64"] if trips else []
    return ["explain", name, *launch, *trips, "--machine", "machine.json"]


def command_line(rng: Random) -> Words:
    """Options with unlikely values."""
    command = rng.choice(list(OPTIONS))
    words: Words = [command]
    for option in rng.sample(list(OPTIONS[command]), rng.randrange(4)):
        values = OPTIONS[command][option]
        words.append(option)
        if values is None:
            words.append(rng.choice(VALUES[:14] if rng.random() < 0.7 else VALUES))
        elif values:
            words.append(rng.choice(values))
    if command in ("predict", "explain"):
        Path("h.json").write_text(json.dumps(base("hide")))
        Path("k.ptx").write_text(PTX)
        words.append("h.json" if command == "predict" else rng.choice(("k.ptx", "h.json", "none.cu")))
        return words
    if command == "discover" and "--only" not in words:
        words += ["--only", "timer"]
    device = rng.choice(("sim:gtx980",) * 6 + ("sim:h100", "sim:" + rng.choice(VALUES), rng.choice(VALUES), "cuda:0"))
    return [*words, "-d", device]


def many_values(rng: Random) -> Words:
    """Millions of values or lines of few bytes in a result, a recording or a GPU file."""
    value, count = rng.choice((b"0", b"[]", b"{}", b'""', b"[[[]]]")), rng.choice((10**5, 10**6, 4 * 10**6))
    values = b"[" + b",".join([value] * count) + b"]"
    match rng.randrange(4):
        case 0:
            Path("r.json").write_bytes(b'{"schema":"gpudissect/2","findings":' + values + b"}")
            Path("right.json").write_text(json.dumps(base("result")))
            return [*rng.choice(SHOWN), "r.json"]
        case 1:
            Path("g.toml").write_bytes(b"x = " + values)
            return ["chase", "-d", "sim:g.toml"]
        case _:
            Path("rec").mkdir()
            index, arrays = base_recording("chase")
            more = rng.choice((b'{"trace":"x","what":' + values + b"}\n", (value + b"\n") * count))
            Path("rec/recording.jsonl.gz").write_bytes(gzip.compress(index + more, 1))
            Path("rec/arrays.bin").write_bytes(arrays)
            return rng.choice((["chase", "-d", "rec:rec?partial=yes"], ["devices"]))


def swapped(rng: Random) -> Words:
    """A right file of one kind in place of another."""
    Path("rec").mkdir()
    for name, data in zip(("recording.jsonl", "arrays.bin"), base_recording("chase"), strict=True):
        Path("rec", name).write_bytes(data)
    Path("r.json").write_text(json.dumps(base("result")))
    Path("p.json").write_text(json.dumps(base("profile")))
    Path("g.toml").write_text(base("gtx980"))
    Path("k.cubin").write_bytes(base("cubin"))
    files = ("r.json", "p.json", "g.toml", "k.cubin", "rec", "rec/recording.jsonl", "rec/arrays.bin", "/dev/null", ".")
    one, two = rng.choice(files), rng.choice(files)
    if rng.random() < 0.3:
        Path("swapped.toml").symlink_to(one)
        one = "swapped.toml"
    return rng.choice(
        (
            ["show", one],
            ["compare", one, two],
            ["chase", "-d", f"sim:{one}"],
            ["chase", "-d", f"rec:{one}"],
            ["predict", one, "--warps", "4", "--alpha", "1"],
            ["explain", one, "--machine", two],
            ["explain", one, "--profile", two, "--machine", "r.json"],
            ["export", "-f", "gpu", one, "-o", two],
            ["get", one, "l1.capacity"],
        )
    )


def interrupted(rng: Random) -> Words:
    """A run that a signal ends."""
    return ["discover", "-d", "sim:gtx980", "--only", "timer", "--only", "shared", "-o", "r.json"]


def run_here(words: Words) -> tuple[int, str]:
    """Run a command in this process: its exit code and what it wrote to stderr."""
    from gpudissect.cli.app import main

    error = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    with open(os.devnull, "w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(words)
    return code, error.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]


KINDS: dict[str, tuple[float, Callable[[Random], Words]]] = {
    "gpu file": (30, gpu_file),
    "result": (24, result_file),
    "recording": (20, recording),
    "command line": (16, command_line),
    "swapped": (5, swapped),
    "many values": (0.5, many_values),
    "profile": (2.5, profile),
    "machine code": (2, machine_code),
    "signal": (
        0.5,
        interrupted,
    ),
}
