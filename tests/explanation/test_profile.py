"""Profiles that no GPU could have written are refused, with the field that is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.evidence import _is_constant
from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.packing import LOCAL, SHARED, pack_trace
from gpudissect.explanation.profile import MAX_PARTS, Profile, read_profile
from gpudissect.results.files import load

FILE = Path("tests/recordings/kernels/h200/vector_add.json")
TEXT = FILE.read_text(encoding="utf-8")


def test_a_profile_is_written_as_it_was_read():
    assert Profile.model_validate_json(read_profile(FILE).to_json()) == read_profile(FILE)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("launch", "block"), [0, 1, 1]),
        (("launch", "block"), [64, 32, 1]),
        (("launch", "grid"), [0, 1, 1]),
        (("launch", "grid"), [2**31, 1, 1]),
        (("gpu", "sm_count"), 0),
        (("sweep", 0, "ns"), -1.0),
        (("sweep", 0, "blocks_per_sm"), 0),
        (("schema",), "other"),
        (("counts",), [["vector_add", 0, 10, 321, 0]]),
        (("counts",), [["vector_add", 0, 10, 9, 0]]),
        (("counts",), [["vector_add", 0, 10, 320, 321]]),
        (("counts",), [["vector_add", 0, 2**62, 2**62, 0]]),
    ],
)
def test_impossible_values_are_refused_by_name(tmp_path, place, value):
    data = json.loads(TEXT)
    part = data
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    changed = tmp_path / "profile.json"
    changed.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError, match=str(place[-1])):
        read_profile(changed)


def test_a_profile_without_counts_is_no_ground_for_a_prediction():
    with pytest.raises(UsageError, match="counts is empty"):
        explain_profile(read_profile(FILE).model_copy(update={"counts": ()}), [load(Path("docs/results/h200.json"))])


@pytest.mark.parametrize(("change", "note"), [({"warps": ()}, "sampled addresses"), ({"lines": None}, "sampled lines")])
def test_what_is_missing_is_noted(change, note):
    found = explain_profile(read_profile(FILE).model_copy(update=change), [load(Path("docs/results/h200.json"))])
    assert any(note in each for each in found.notes)


def test_a_profile_of_another_gpu_is_noted():
    found = explain_profile(read_profile(FILE), [load(Path("docs/results/h100.json"))])
    assert any("NVIDIA H200" in each for each in found.notes)


def test_visits_of_blocks_that_were_not_counted_are_refused():
    content = json.loads(TEXT)
    content["counts"] = content["counts"][:-1]
    with pytest.raises(UsageError, match="warps refers to a block that counts does not contain"):
        Profile.model_validate_json(json.dumps(content)).check()


def test_an_empty_profile_is_named_so(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text("\n")
    with pytest.raises(UsageError, match="is empty; record it again"):
        read_profile(path)


@pytest.mark.parametrize("launch", [{"grid": (1, 1, 1)}, {"block": (1, 1, 1)}])
def test_counts_of_another_launch_are_refused(launch):
    profile = read_profile(FILE)
    with pytest.raises(UsageError, match="first block that all launched threads execute"):
        profile.model_copy(update={"launch": profile.launch.model_copy(update=launch)}).check()


def test_warps_that_were_not_launched_are_refused():
    profile = read_profile(FILE)
    warp = profile.warps[0].model_copy(update={"block": profile.launch.blocks})
    with pytest.raises(UsageError, match="has a warp that launch does not have"):
        profile.model_copy(update={"warps": (warp,)}).check()


@pytest.mark.parametrize("parts", [b"[]," * (MAX_PARTS + 1), b'"a":1,' * (MAX_PARTS + 1)])
def test_a_file_of_more_parts_than_any_profile_is_not_validated(tmp_path, parts):
    (tmp_path / "profile.json").write_bytes(b'{"allocations":' + parts)
    with pytest.raises(UsageError, match=f"more than {MAX_PARTS}"):
        read_profile(tmp_path / "profile.json")


@pytest.mark.parametrize(
    ("code", "offset"),
    [(0, -1), (0, 1 << 62), (SHARED, -1), (SHARED, 1 << 62), (LOCAL, 1 << 62), (-4, 0), (32767, 0)],
    ids=["before", "behind", "shared before", "shared behind", "local behind", "no space", "no allocation"],
)
def test_addresses_outside_all_memory_are_refused(code, offset):
    profile = read_profile(FILE)
    warp, *others = profile.warps
    trace = warp.trace()
    changed = replace(
        trace, allocations=np.full_like(trace.allocations, code), offsets=np.full_like(trace.offsets, offset)
    )
    damaged = profile.model_copy(update={"warps": (warp.model_copy(update={"packed": pack_trace(changed)}), *others)})
    with pytest.raises(UsageError, match=f"packed of warp {warp.warp} in block {warp.block} has impossible addresses"):
        damaged.check()


@pytest.mark.parametrize("value", [1 << 40, 0.5, "x", 0])
def test_impossible_facts_of_a_gpu_are_refused(value):
    result = load(Path("docs/results/h200.json"))
    facts = {**result.device.facts, "registers_per_sm": value}
    changed = result.model_copy(update={"device": result.device.model_copy(update={"facts": facts})})
    with pytest.raises(UsageError, match="states registers_per_sm = "):
        explain_profile(read_profile(FILE), [changed])


def test_ptx_without_operands_is_not_merged():
    assert [_is_constant(each) for each in ((), ("%r1",), ("%r1", "-8"))] == [False, False, True]
