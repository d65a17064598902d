"""Blocks, dominators and loops compared with the graph of nvdisasm and with what the sources contain."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.flow import Block, Flow, _dominators, _reverse_postorder, control_flow
from gpudissect.machine_code.loops import natural_loops
from tests.machine_code.sources import ARCHITECTURES, INSTRUCTIONS, LOOP, NEST
from tests.support.machine_code import cubin_of, decoded, disassembly


def loops_of(source, arch, name):
    kernel, instructions = decoded(source, arch)[name]
    flow = control_flow(kernel, instructions)
    return flow, natural_loops(flow)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_graph_is_that_of_nvdisasm(arch):
    """Steps from one instruction to the next, of every kernel, calls aside."""
    text = disassembly(cubin_of(INSTRUCTIONS, arch), "-bbcfg", "-poff").decode()
    compared = 0
    for name, (kernel, instructions) in decoded(INSTRUCTIONS, arch).items():
        flow = control_flow(kernel, instructions)
        printed = {step for step in _printed_steps(text, name) if instructions[step[0] // 16].opcode != "CALL"}
        reached = {step[0] for step in printed}
        ours = {step for step in _steps(flow) if step[0] in reached}
        assert ours == printed, name
        compared += len(printed)
    assert compared > 1000


def _steps(flow):
    address = [instruction.address for instruction in flow.instructions]
    for number in flow.order:
        block = flow.blocks[number]
        yield from zip(address[block.start : block.end - 1], address[block.start + 1 : block.end], strict=True)
        yield from ((address[block.end - 1], address[flow.blocks[s].start]) for s in block.successors)


def _printed_steps(text, kernel):
    graph = text.split(f'subgraph "cluster_{kernel}"')[1].split("subgraph")[0]
    nodes = {
        found[1]: [int(place, 16) for place in re.findall(r"(?:\\l|>)([0-9a-f]{4,}):", found[2])]
        for found in re.finditer(r'^"([^"]+)"\n\[label="\{(.*?)\}"\]', graph, re.S | re.M)
    }
    following = {source: target for source, target in re.findall(r'"([^"]+)":entry:s -> "([^"]+)"', graph)}

    def first(node):
        return nodes[node][0] if nodes[node] else first(following[node])

    for places in nodes.values():
        yield from pairwise(places)
    for source, target in re.findall(r'^"([^"]+)":\w+:\w+ -> "([^"]+)":', graph, re.M):
        if nodes[source]:
            yield nodes[source][-1], first(target)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_loop_is_found_by_line_and_by_address(arch):
    flow, loops = loops_of(LOOP, arch, "scale")
    _, bare = loops_of(LOOP, arch, "scale")
    assert [(loop.name, loop.depth) for loop in loops.loops] == [("kernels.cu:5", 1)]
    assert loops.find("kernels.cu:5") == 0
    inside = [i for b in bare.loops[0].blocks for i in flow.instructions[flow.blocks[b].start : flow.blocks[b].end]]
    assert sum(i.opcode == "LDG" for i in inside) == sum(i.opcode == "STG" for i in inside) == 1
    with pytest.raises(MachineCodeError, match=r"kernels.cu:5"):
        loops.find("kernels.cu:6")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nested_loops_have_parents(arch):
    _, loops = loops_of(NEST, arch, "nest")
    assert [loop.depth for loop in loops.loops] == [1, 2, 3]
    assert [loop.parent for loop in loops.loops] == [None, 0, 1]
    assert loops.loops[2].blocks < loops.loops[1].blocks < loops.loops[0].blocks
    assert not loops.has_irreducible


def test_a_kernel_without_lines_names_its_loops_by_address():
    kernel, instructions = decoded(LOOP, "sm_90")["scale"]
    flow = control_flow(kernel, tuple(replace(i, file=None, line=None) for i in instructions))
    header = flow.instructions[flow.blocks[natural_loops(flow).loops[0].header].start].address
    assert natural_loops(flow).loops[0].name == f"{header:#x}"


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_a_called_function_has_its_own_entry_and_loops(arch):
    kernel, instructions = decoded(INSTRUCTIONS, arch)["calls"]
    flow = control_flow(kernel, instructions)
    callees = {block.callee for block in flow.blocks if block.callee is not None}
    assert callees == {flow.entries[1]}
    headers = [flow.instructions[flow.blocks[loop.header].start].address for loop in natural_loops(flow).loops]
    assert headers and min(headers) >= kernel.functions[1].start
    assert "repeated" in kernel.functions[1].name


def test_a_call_to_code_inside_the_kernel_is_a_branch():
    """As compiled for sm_80: ``@!P0 CALL.REL.NOINC 0x40`` where no function begins."""
    kernel, instructions = decoded(LOOP, "sm_90")["scale"]
    index = next(n for n, i in enumerate(instructions) if i.opcode == "BRA")
    call = replace(instructions[index], opcode="CALL", modifiers=("REL", "NOINC"))
    flow = control_flow(kernel, (*instructions[:index], call, *instructions[index + 1 :]))
    assert [block.callee for block in flow.blocks] == [None] * len(flow.blocks)
    assert len(natural_loops(flow).loops) == 1


def test_a_branch_outside_the_kernel_is_refused():
    kernel, instructions = decoded(LOOP, "sm_90")["scale"]
    index = next(n for n, i in enumerate(instructions) if i.opcode == "BRA")
    outside = replace(instructions[index], operands=("0x7fffffff0",))
    with pytest.raises(MachineCodeError, match="outside"):
        control_flow(kernel, (*instructions[:index], outside, *instructions[index + 1 :]))


@given(st.lists(st.lists(st.integers(0, 9), max_size=2), min_size=10, max_size=10))
def test_dominators_are_those_of_the_definition(graph):
    """A block dominates those that are not reached without it."""
    blocks = tuple(Block(n, n + 1, tuple(successors)) for n, successors in enumerate(graph))
    order = _reverse_postorder(blocks, (0,))
    flow = Flow((), blocks, (0,), order, _dominators(blocks, (0,), order))

    def reached(without):
        found, stack = set(), [0] if without != 0 else []
        while stack:
            block = stack.pop()
            if block not in found:
                found.add(block)
                stack += [s for s in graph[block] if s != without]
        return found

    for first in order:
        others = reached(first)
        assert [flow.dominates(first, block) for block in order] == [block not in others for block in order]
