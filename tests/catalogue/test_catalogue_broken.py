"""Wrong files end in one line: which file, which field, what was got, what is allowed."""

import tomllib
from pathlib import Path as FilePath

import pytest

from gpudissect.catalogue import load
from gpudissect.errors import CatalogueError

L1_WAYS = 'ways = { value = 4, assumed = "32 x 4" }'
L1_BITS = '{ kind = "bits", bits = [7, 8, 9, 10, 11] }'
L1_POLICY = '{ kind = "lru" }, assumed = "none known" }\ncount'
GLOBAL_LATENCY = '[{ value = 30, source = "data sheet" }, { value = 200, source = "data sheet" }]'

# what is replaced, by what, the field that must be named, and words that must be there
WRONG = {
    "unknown field": ("timer =", "tymer =", "chip.tymer", "timer"),
    "unknown table": ("[walk]  ", "[wolk]  ", "wolk", "walk"),
    "unknown element": ("[caches.l1]", "[caches.l9]", "caches.l9", "l1"),
    "unknown path": ("[paths.texture]", "[paths.textures]", "paths.textures", "texture"),
    "missing field": ('name = "Example 1"', "", "name", "required"),
    "missing deep field": ("sm_count = { value", "# ", "chip.sm_count", "required"),
    "other format": ("format = 1", "format = 2", "format", "1"),
    "text for a number": ("sm_count = { value = 8", 'sm_count = { value = "8"', "chip.sm_count.value", "integer"),
    "bool for a number": ("sm_count = { value = 8", "sm_count = { value = true", "chip.sm_count.value", "integer"),
    "bare number": (
        'sm_count = { value = 8, source = "data sheet" }', "sm_count = 8", "chip.sm_count", "a table"),
    "negative": ("sm_count = { value = 8", "sm_count = { value = -8", "chip.sm_count.value", "greater than"),
    "zero": ("capacity = { value = 16384, source", "capacity = { value = 0, source", "caches.l1.capacity.value", "1"),
    "huge": ("{ value = 1_073_741_824", "{ value = 9" + 30 * "9", "chip.memory_size.value", "less than"),
    "digits without end": ("{ value = 1_073_741_824", "{ value = 9" + 5000 * "9", "", "not TOML"),
    "NaN": ("clock_hz = { value = 1e9", "clock_hz = { value = nan", "chip.clock_hz.value", "finite"),
    "infinite": ("[{ value = 30,", "[{ value = inf,", "paths.global.latency.0.value", "finite"),
    "date": ("sm_count = { value = 8", "sm_count = { value = 2020-01-01", "chip.sm_count.value", "integer"),
    "no source": (
        'sm_count = { value = 8, source = "data sheet" }', "sm_count = { value = 8 }", "chip.sm_count.source",
        "exactly one"),
    "source and assumption": (
        "sm_count = { value = 8, ", 'sm_count = { value = 8, assumed = "x", ', "chip.sm_count.source", "exactly one"),
    "printed without source": (
        "timer = { value = 16,", "timer = { value = 16, printed = 17,", "chip.timer.assumed", "printed"),
    "above its bracket": ("low = 185, high = 198", "low = 185, high = 186", "published.l2.near_latency.value", "186"),
    "below its bracket": ("low = 185, high = 198", "low = 195, high = 198", "published.l2.near_latency.value", "195"),
    "capacity that does not multiply out": (
        "[caches.l1]                       # also: readonly, texture, texture_l2, constant_l1, constant_l15\n"
        "capacity = { value = 16384",
        "[caches.l1]\ncapacity = { value = 20000", "caches.l1.capacity.value", "16384"),
    "line no power of two": (
        "line_size = { value = 128,", "line_size = { value = 96,", "caches.l1.line_size.value", "power of two"),
    "sector does not divide": (
        'fetch_granularity = { value = 32, assumed = "sectors"', 'fetch_granularity = { value = 48, assumed = "s"',
        "caches.l1.fetch_granularity.value", "divisor"),
    "sets that differ": (
        L1_WAYS, 'ways = { value = [{ sets = 3, ways = 4 }], assumed = "x" }', "caches.l1.ways.value", "32"),
    "ways of no kind": (L1_WAYS, 'ways = { value = "four", assumed = "x" }', "caches.l1.ways.value", "list"),
    "run without sets": (
        L1_WAYS, 'ways = { value = [{ ways = 4 }, { sets = 1, ways = 8 }], assumed = "x" }', "caches.l1.ways.value",
        "each"),
    "too few bits": (
        L1_BITS, '{ kind = "bits", bits = [7, 8] }', "caches.l1.index_function.value.bits", "32 sets"),
    "bits inside the line": (
        L1_BITS, '{ kind = "bits", bits = [6, 7, 8, 9, 10] }', "caches.l1.index_function.value.bits", "from 7"),
    "bit of no address": (
        L1_BITS, '{ kind = "bits", bits = [7, 8, 9, 10, 99] }', "caches.l1.index_function.value.bits.4", "47"),
    "the same bit twice": (
        L1_BITS, '{ kind = "bits", bits = [7, 8, 9, 10, 10] }', "caches.l1.index_function.value.bits", "independent"),
    "masks that depend on each other": (
        L1_BITS, '{ kind = "xor", masks = [[7, 12], [8], [9], [10], [7, 8, 12]] }',
        "caches.l1.index_function.value.masks", "independent"),
    "more sets than anything has": (
        "sets = { value = 32", "sets = { value = 268_435_456", "caches.l1.sets.value", "1048576"),
    "empty mask": (
        L1_BITS, '{ kind = "xor", masks = [[7], [8], [9], [10], []] }', "caches.l1.index_function.value.masks",
        "at least one"),
    "unknown index": (L1_BITS, '{ kind = "hash" }', "caches.l1.index_function.value.kind", "'xor'"),
    "bits for modulo": (
        L1_BITS, '{ kind = "modulo", bits = [7] }', "caches.l1.index_function.value.bits", "granule"),
    "granule for bits": (
        L1_BITS, '{ kind = "bits", bits = [7, 8, 9, 10, 11], granule = 128 }',
        "caches.l1.index_function.value.granule", "modulo"),
    "granule off the line": (
        L1_BITS, '{ kind = "modulo", granule = 100 }', "caches.l1.index_function.value.granule", "128"),
    "table that misses sets": (
        L1_BITS, '{ kind = "table", table = [0, 1, 2] }', "caches.l1.index_function.value.table", "0..31"),
    "code for a policy": (
        L1_POLICY, '{ kind = "__import__(\'os\')" }, assumed = "x" }\ncount',
        "caches.l1.replacement_policy.value.kind", "'lru'"),
    "weights that sum to 2": (
        L1_POLICY, '{ kind = "weighted", weights = [0.5, 0.5, 0.5, 0.5] }, assumed = "x" }\ncount',
        "caches.l1.replacement_policy.value.weights", "sum of 1"),
    "too few weights": (
        L1_POLICY, '{ kind = "weighted", weights = [1.0] }, assumed = "x" }\ncount',
        "caches.l1.replacement_policy.value.weights", "one per way"),
    "weights for LRU": (
        L1_POLICY, '{ kind = "lru", weights = [1.0] }, assumed = "x" }\ncount',
        "caches.l1.replacement_policy.value.weights", "weighted"),
    "view of nothing": (
        'of = { value = "l1"', 'of = { value = "constant_l1"', "views.texture.of.value", "l1, l2"),
    "view that differs": (
        'capacity = { value = 16384, source = "data sheet" }         #', 'capacity = { value = 8192, source = "d" } #',
        "views.texture.capacity.value", "16384"),
    "view of a cache of its own": ("[views.texture]", "[views.l2]", "views.l2", "not in both"),
    "route through nothing": (
        'caches = ["l1", "l2"]', 'caches = ["l1", "constant_l1"]', "paths.global.caches", "l1, l2, texture"),
    "latency missing": (
        GLOBAL_LATENCY, '[{ value = 30, source = "d" }]', "paths.global.latency", "one for each"),
    "latency that falls": (
        GLOBAL_LATENCY, '[{ value = 30, source = "d" }, { value = 500, source = "d" }]', "paths.global.latency",
        "rise"),
    "translated nowhere": (
        "translated_from = { value = 1", "translated_from = { value = 7", "paths.global.translated_from.value", "0..2"),
    "TLBs nowhere": ("tlbs_at = { value = 1", "tlbs_at = { value = 2", "paths.global.tlbs_at.value", "below 2"),
    "path forgotten": ('constant = "not described"', "", "paths.constant", "unsupported"),
    "path in both": (
        'constant = "not described"', 'constant = "none"\nshared = "none"', "paths.shared: got 'both'", "unsupported"),
    "reason left empty": ('constant = "not described"', 'constant = ""', "unsupported.constant", "1 character"),
    "TLB that does not multiply out": (
        "entries = { value = 16", "entries = { value = 17", "tlbs.tlb_l1.entries.value", "16"),
    "page no power of two": (
        "page_size = { value = 2_097_152", "page_size = { value = 2_000_000", "tlbs.tlb_l1.page_size.value",
        "power of two"),
    "penalty of the last TLB": (
        "# penalty = { value = 6, ... }", 'penalty = { value = 6, source = "d" }', "tlbs.tlb_l1.penalty", "[walk]"),
    "window without size": ("size = { value = 536_870_912", "# ", "page_window.size", "required"),
    "parts that do not add up": (
        "capacity = { value = 196608", "capacity = { value = 98304", "partition.capacity.value", "196608"),
    "parts of a private cache": ('cache = "l2"\ncap', 'cache = "l1"\ncap', "partition.cache", "scope gpu: l2"),
    "home within the line": ("home = { value = [7, 12]", "home = { value = [4, 12]", "partition.home.value", "from 5"),
    "no home": ("home = { value = [7, 12]", "home = { value = []", "partition.home.value", "at least one"),
    "an attribute that is none": (
        "near_latency = { value = 190", "bandwith = { value = 190", "published.l2.bandwith", "read_bandwidth"),
    "an element that is none": ("[published.l2]", "[published.l9]", "published.l9", "l1"),
    "prefetch into nothing": (
        "[prefetch]", '[prefetch]\ncache = "readonly"', "prefetch.cache", "l1, l2"),
    "an instruction that is none": ("[units.ffma]", "[units.fma]", "units.fma", "'ffma'"),
    "a unit without a rate": ("rate = { value = 128", "# ", "units.ffma", "rate and latency"),
    "a pipe that is none": ('pipe = "core"', 'pipe = "cores"', "units.ffma.pipe", "'core'"),
    "a rate of nothing": ("rate = { value = 128", "rate = { value = 0", "units.ffma.rate.value", "greater than 0"),
    "schedulers without bandwidth of an L2": ("[bandwidth.l2]\n", "[views.l2]\n", "views.l2", "no such field"),
    "banks left out": ("banks = { value = 32", "# ", "shared.banks", "with [processor]"),
    "an interleave that does not fit": (
        "# interleave, lanes", 'interleave = { value = 8, source = "d" } #', "shared.interleave.value",
        "a divisor of bank_width 4"),
    "no launch": ("[launch]  ", "[published.launch]  ", "launch", "with [processor], and only with it"),
    "steadier than steady": (
        "variability = { value = 2.0", "variability = { value = 0.1", "memory.variability.value", "0.5"),
    "syntax": ("[walk]  ", "[walk", "", "not TOML"),
    "defined twice": ("format = 1", "format = 1\nformat = 1", "", "not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_one_line_names_file_field_and_what_is_allowed(what: str, example: str, tmp_path: FilePath) -> None:
    old, new, field, words = WRONG[what]
    assert old in example
    file = tmp_path / "mine.toml"
    file.write_text(example.replace(old, new, 1))
    with pytest.raises(CatalogueError) as caught:
        load(file)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 800
    assert message.startswith(f"{file}: {field}")
    assert words in message.removeprefix(str(file))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "required"),
        (b"\x7fELF\x00\xff\xfe\x80", "not text"),
        (bytes(range(256)) * 16, "not text"),
        (b"\x00\x00\x00", "not TOML"),
        (b"[" * 100_000, "not TOML"),
        (b"a = " + b"[" * 50_000 + b"]" * 50_000, "not TOML"),
        (b"# \n" * 600_000, "too large"),
        (b"format = 1\nchip = 3\n", "chip"),
        (b"[[caches]]\n", "caches"),
        (b'"a\\nb" = 1', "a b: no such field"),
        (b"x" * 100_000 + b" = 1", "no such field"),
    ],
)
def test_junk(content: bytes, words: str, tmp_path: FilePath) -> None:
    file = tmp_path / "junk.toml"
    file.write_bytes(content)
    with pytest.raises(CatalogueError) as caught:
        load(file)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message and len(message) < 600


@pytest.mark.parametrize(
    "text",
    ["a" + ".a" * 30_000 + " = 1", "[a" + " . 'a'" * 16 + "]", 'x = """\n"a.b"""\n"a"' + '."a"' * 16 + " = 1"],
    ids=["bare", "literal", "after a string"],
)
def test_a_key_of_many_parts_is_not_parsed(text: str, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("parsed"))
    file = tmp_path / "deep.toml"
    file.write_text(text)
    with pytest.raises(CatalogueError, match="too many parts, allowed: 16"):
        load(file)


@pytest.mark.parametrize("quoted", ["'\"{}'", '"\'\\"{}"', '"""\n#{}\\"""\' {}""""', "'''\n\"{}'''"])
def test_dots_in_strings_and_comments_join_no_keys(quoted: str, example: str, tmp_path: FilePath) -> None:
    old = 'sm_count = { value = 8, source = "data sheet" }'
    assert old in example
    dots = "a." * 40
    new = f"sm_count = {{ value = 8, source = {quoted.format(dots, dots)} }} # ' {dots}"
    file = tmp_path / "dots.toml"
    file.write_text(example.replace(old, new, 1))
    assert load(file).table.chip.sm_count.value == 8


def test_paths_that_are_no_files(tmp_path: FilePath) -> None:
    for path, words in (
        (tmp_path / "none.toml", "No such file"),
        (tmp_path, "directory"),
        (tmp_path / "folder.toml", "directory"),
        (tmp_path / ("x" * 300 + ".toml"), "too long"),
        (FilePath("null\0byte.toml"), "null"),
    ):
        (tmp_path / "folder.toml").mkdir(exist_ok=True)
        with pytest.raises(CatalogueError) as caught:
            load(path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
