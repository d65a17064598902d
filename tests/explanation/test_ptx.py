"""PTX parsed: everything in its place, control flow, scopes, hostile text."""

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.errors import PtxError
from gpudissect.explanation.ptx import MAX_SCOPE_DEPTH, edit, parse_ptx
from tests.explanation.sources import KERNELS, NAMES
from tests.machine_code.sources import INSTRUCTIONS, RESOURCES
from tests.support.ptx import ptx_of

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
SOURCES = [
    (KERNELS,),
    (INSTRUCTIONS,),
    (RESOURCES,),
    (KERNELS, "compute_90", "-lineinfo"),
    (KERNELS, "compute_75", "-G"),
]
TABLE = """
.visible .entry table(.param .u32 n) // a comment; with } { and "
{
    .reg .b32 %r<4>, x; .reg .pred %p;
    ld.param.u32 %r1, [n]; /* ; { */
    $places: .branchtargets $A, $B;
    brx.idx %r1, $places;
$A: { .reg .b64 x; mov.b64 x, 0; @!%p bra $C; bra $B; $C: }
    add.u32 %r2, %r1, 1; @%p exit;
$B: .pragma "nounroll;";
    setp.eq.u32 %p, %r2, 3; @%p bra $A;
}
"""


def pieces_of(module):
    return [module.text[i.start : i.end] for function in module.functions for i in function.instructions]


@pytest.mark.parametrize("source", SOURCES, ids=["integers", "floats", "resources", "lines", "debugging"])
def test_every_line_that_ends_in_a_semicolon_is_an_instruction_or_a_directive(source):
    module = parse_ptx(ptx_of(*source))
    rest = module.text
    for piece in sorted(pieces_of(module), key=len, reverse=True):
        assert piece.endswith(";")
        rest = rest.replace(piece, "", 1)
    left = [line for line in re.sub(r"/\*.*?\*/|//.*", "", rest).split("\n") if ";" in line]
    assert not [line for line in left if not re.match(r"[{\s}]*(\.|\)|;|\})", line.strip())]


def test_the_functions_of_a_module_and_what_they_call():
    module = parse_ptx(ptx_of(KERNELS))
    assert {f.name for f in module.functions if f.is_entry} == set(NAMES)
    assert [f.name for f in module.called_from(module.function("calls"))] == ["_Z11triangle_ofj", "calls"]
    assert (module.version[0], module.target, module.address_bits) == (9, "sm_75", 64)


def test_blocks_of_tables_scopes_and_guards():
    function = parse_ptx(HEAD + TABLE).function("table")
    assert [i.name for i in function.instructions[:4]] == ["ld", "brx", "mov", "bra"]
    blocks = [(b.start, b.end, b.successors) for b in function.blocks]
    assert blocks == [(0, 2, (1, 4)), (2, 4, (2, 3)), (4, 5, (4,)), (5, 7, (4,)), (7, 9, (1,))]
    mov = function.instructions[2]
    assert (function.register_bits("x", mov.scope), function.register_bits("x", 0)) == (64, 32)
    assert (function.register_bits("%r3", mov.scope), function.register_bits("%r4", 0)) == (32, None)


def test_an_edit_leaves_the_rest_as_it_is():
    text = ptx_of(KERNELS)
    module = parse_ptx(text)
    places = [(i.start, i.start, "!") for f in module.functions for i in f.instructions]
    edited = edit(text, places)
    assert edited.count("!") - text.count("!") == len(places)
    assert edit(text, []) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        HEAD + "/* no end",
        HEAD + '.file 1 "no end',
        HEAD + ".entry k() { add",
        HEAD + ".entry k() { bra L; }",
        HEAD + ".entry k() { brx.idx %r1, T; }",
        HEAD + ".entry k() { L: ret; L: ret; }",
        HEAD + ".entry k() { add.u32 a, [b; }",
        HEAD + ".entry k() { add.u32 a, b]; }",
        HEAD + ".entry k() { } .entry k() { }",
        HEAD + ".entry k() { .loc 1 2 ret; }",
        HEAD + ".entry k() {" + "{" * (MAX_SCOPE_DEPTH + 1),
        HEAD + ".global .u32 x = {1",
        HEAD + "}",
    ],
)
def test_text_that_is_not_ptx_is_refused_in_one_line(text):
    with pytest.raises(PtxError) as error:
        parse_ptx(text)
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


@pytest.mark.parametrize(
    "piece",
    ["/* ", "{", "L:", "a ", ". ", '"', "@p ", ".func (", ".section x {", "a{", "add (", ";", ".reg .b32 a<", "\n"],
)
def test_reading_takes_linear_time(piece):
    def seconds(count):
        start = time.process_time()
        for text in (piece * count, HEAD + piece * count, HEAD + ".entry k() {" + piece * count):
            with suppress(PtxError):
                parse_ptx(text)
        return time.process_time() - start

    assert seconds(200_000) < 20 * max(seconds(20_000), 0.02)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 1 << 20), st.sampled_from(["", "{", "}", ";", "/*", '"', "L:", "\0", "@", "."])))
)
def test_damaged_text_is_read_or_refused(changes):
    text = HEAD + TABLE
    for place, piece in changes:
        place %= len(text)
        text = text[:place] + piece + text[place + 1 :]
    try:
        module = parse_ptx(text)
    except PtxError as error:
        assert "\n" not in str(error)
    else:
        assert all(0 <= s < len(f.blocks) for f in module.functions for b in f.blocks for s in b.successors)


def test_a_second_function_of_a_name_is_named_with_its_line():
    body = ".visible .entry twice() { ret; }\n"
    with pytest.raises(PtxError, match="PTX line 5: a second function named 'twice'"):
        parse_ptx(f"{HEAD}{body}{body}")
