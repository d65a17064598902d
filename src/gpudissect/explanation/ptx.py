"""PTX text as functions, basic blocks and instructions with their places in the text (PTX ISA 9.0, chapters 4 to 11).

The text is never written again from what was parsed: `edit` inserts and replaces at places, the rest stays as it is.
Statements that are neither labels, instructions nor known directives are skipped. The text is untrusted: every pass is
linear, and sizes are limited.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from gpudissect.errors import PtxError, suggest
from gpudissect.printable import quoted

MAX_PTX_BYTES = 1 << 25
MAX_SCOPE_DEPTH = 64
MAX_BRANCH_TARGETS = 1 << 20
_NAME = r"[A-Za-z_$%][\w$]*"
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|/\*|"', re.DOTALL)
_LOCATION = re.compile(
    rf"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    rf"(?:\s*,\s*function_name\s+{_NAME}(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_LINE_DIRECTIVE = re.compile(
    r"\.version\s+\d+\.\d+|\.target\s+\w+(?:\s*,\s*\w+)*|\.address_size\s+\d+"
    rf'|\.file\s+\d+\s+"[^"]*"(?:\s*,\s*\d+\s*,\s*\d+)?|{_LOCATION.pattern}'
)
_SECTION = re.compile(r"\.section\s+[\w.$]+\s*\{[^{}]*\}")
_UNTIL_PUNCTUATION = re.compile(r"[^;{}]*+")
_INITIALIZER = re.compile(r"=[^;]*+;")
_FUNCTION = re.compile(rf"\.(entry|func)(?![\w$])\s*(?:\([^()]*\)\s*)?({_NAME})")
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)")
_INSTRUCTION = re.compile(rf"(?:@\s*(!?)\s*({_NAME})\s*)?([A-Za-z_][\w.:]*)([^;]*+);")
_DIRECTIVE = re.compile(r"\.(\w+)([^;]*+);")
_REGISTERS = re.compile(rf"({_NAME})(?:\s*<\s*(\d{{1,9}})\s*>)?")
_BITS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "tf32": 32}


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction and its place in the text: from its guard to the semicolon.

    `guard` is such as ``!%p1``, empty if there is none. `source`: file number and line of the last ``.loc``.
    Of code inlined from another file, such as a header, they are those of its caller.
    """

    start: int
    end: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    scope: int
    source: tuple[int, int] | None

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Modifiers of the opcode, such as ``("global", "v2", "f32")``."""
        return tuple(self.opcode.split(".")[1:])


@dataclass
class Scope:
    """Names declared between a pair of braces: labels by index of the next instruction, registers by width in bits.

    A register of a numbered set, ``.reg .b32 %r<9>``, is in `numbered` by its prefix: the width and the count.
    """

    parent: int | None
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    numbered: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `start` to `end` (exclusive), by index in the function, and the blocks that may follow.

    A block does not end at a call: of a thread that exits in a callee, the instructions after the call are counted too.
    """

    start: int
    end: int
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """A function with a body. `first` is the number of its first instruction in the module.

    `start` is the place of its first directive, `body` that after its opening brace.
    """

    name: str
    is_entry: bool
    first: int
    start: int
    body: int
    instructions: tuple[Instruction, ...] = field(repr=False)
    scopes: tuple[Scope, ...] = field(repr=False)
    blocks: tuple[Block, ...]

    def register_bits(self, name: str, scope: int | None) -> int | None:
        """Width of a register in bits as seen from a scope, None if it is not declared."""
        prefix = name.rstrip("0123456789")
        while scope is not None:
            names = self.scopes[scope]
            bits, count = names.numbered.get(prefix, (0, 0))
            if name in names.registers:
                return names.registers[name]
            if prefix != name and len(name) - len(prefix) < 10 and int(name[len(prefix) :]) < count:
                return bits
            scope = names.parent
        return None


@dataclass(frozen=True)
class Module:
    """A module of PTX: version such as (8, 0), functions with bodies in their order, places of debug statements.

    `locations` has the places of ``.loc``, ``.file`` and debug sections. Instructions are numbered through the module.
    """

    text: str = field(repr=False)
    version: tuple[int, int]
    version_place: tuple[int, int]
    target: str
    address_bits: int
    functions: tuple[Function, ...]
    locations: tuple[tuple[int, int], ...] = field(repr=False)

    def function(self, name: str) -> Function:
        """The function of this name. Raises `PtxError` with the names of the kernels."""
        found = next((function for function in self.functions if function.name == name), None)
        if found is None:
            names = [ascii(function.name)[1:-1][:60] for function in self.functions if function.is_entry]
            similar = suggest(name, names) or names[:10]
            raise PtxError(f"no such kernel in the PTX: {name[:40]!a}; valid: {', '.join(similar) or 'none'}")
        return found

    def called_from(self, kernel: Function) -> tuple[Function, ...]:
        """A kernel and the functions that it may call, by place; all functions if a call is indirect."""
        by_name = {function.name: function for function in self.functions if not function.is_entry}
        found, waiting = {kernel.name: kernel}, [kernel]
        while waiting:
            for instruction in waiting.pop().instructions:
                if instruction.name == "call":
                    name = next((operand for operand in instruction.operands if not operand.startswith("(")), "")
                    new = by_name.values() if name.startswith("%") else [by_name[name]] if name in by_name else []
                    waiting += [function for function in new if function.name not in found]
                    found |= {function.name: function for function in new}
        return tuple(sorted(found.values(), key=lambda function: function.start))


def edit(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with pieces (start, end, replacement) replaced, which do not overlap. Insertions have empty ones."""
    parts, place = list[str](), 0
    for start, end, replacement in sorted(edits, key=lambda piece: piece[:2]):
        parts += [text[place:start], replacement]
        place = end
    return "".join([*parts, text[place:]])


def parse_ptx(text: str) -> Module:
    """The functions of a module. Raises `PtxError` with the line for text that is not PTX, or is too large."""
    if len(text) > MAX_PTX_BYTES:
        raise PtxError(f"the PTX has {len(text)} characters; at most {MAX_PTX_BYTES} are read")
    return _Parser(text.rstrip("\0")).module()


class _Parser:
    """Reads the text once from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.code = _COMMENT_OR_STRING.sub(self._blank, text)
        self.locations: list[tuple[int, int]] = []
        self._callers = dict[tuple[int, ...], tuple[int, ...]]()  # of inlined code: file, line, column
        self.instruction_count = 0

    def _blank(self, match: re.Match[str]) -> str:
        piece = match[0]
        if piece in ("/*", '"'):
            self._refuse("a comment or string without an end", match.start())
        return f'"{"_" * (len(piece) - 2)}"' if piece[0] == '"' else re.sub(r"[^\n]", " ", piece)

    def _refuse(self, what: str, place: int | None = None) -> NoReturn:
        place = self.place if place is None else place
        line = self.text.count("\n", 0, place) + 1
        raise PtxError(f"PTX line {line}: {what}: {self.text[place : place + 40].partition(chr(10))[0]!a}")

    def _skip_space(self) -> str:
        """The next character that is no space; empty at the end."""
        match = _SPACE.match(self.code, self.place)
        self.place = match.end() if match else self.place
        return self.code[self.place : self.place + 1]

    def _accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.code, self.place)
        if match:
            self.place = match.end()
        return match

    def module(self) -> Module:
        functions, version, target, address_bits = [], (0, 0, 0, 0), "", 32
        while self._skip_space():
            start = self.place
            if match := self._accept(_LINE_DIRECTIVE):
                if match[0].startswith(".version"):
                    numbers = match[0].split()[1].split(".")
                    version = (int(numbers[0][:4]), int(numbers[1][:4]), start, match.end())
                elif match[0].startswith(".target"):
                    target = match[0].split(None, 1)[1]
                elif match[0].startswith(".address_size"):
                    address_bits = int(match[0].split()[1][:4])
                self._note_location(match)
            elif match := self._accept(_SECTION):
                self.locations.append(match.span())
            else:
                function = self._declaration_or_function(start)
                functions += [function] if function else []
        if not version[0]:
            self._refuse("no .version directive: this is not PTX", 0)
        names = set[str]()
        for function in functions:
            if function.name in names:
                self._refuse(f"a second function named {quoted(function.name, 60)}", function.start)
            names.add(function.name)
        places = tuple(self.locations)
        return Module(self.text, version[:2], version[2:], target, address_bits, tuple(functions), places)

    def _note_location(self, match: re.Match[str]) -> None:
        if match[0].startswith((".loc", ".file")):
            self.locations.append(match.span())

    def _declaration_or_function(self, start: int) -> Function | None:
        header = self._accept(_UNTIL_PUNCTUATION)
        text = header[0] if header else ""
        punctuation = self.code[self.place : self.place + 1]
        if punctuation == "{" and (match := _FUNCTION.search(text)):
            self.place += 1
            return self._function(match[2], match[1] == "entry", start)
        if punctuation == "{" and "=" in text:
            self.place = start + text.index("=")
            if self._accept(_INITIALIZER):
                return None
        if punctuation != ";":
            self._refuse("a statement that is no declaration and no function", start)
        self.place += 1
        return None

    def _function(self, name: str, is_entry: bool, start: int) -> Function:
        body, scopes = self.place, [Scope(None)]
        instructions = tuple(self._body(scopes))
        self.instruction_count += len(instructions)
        first = self.instruction_count - len(instructions) + 1
        blocks = _blocks(instructions, scopes)
        return Function(name, is_entry, first, start, body, instructions, tuple(scopes), blocks)

    def _body(self, scopes: list[Scope]) -> Iterator[Instruction]:
        count, current, depth = 0, 0, 1
        source: tuple[int, int] | None = None
        while character := self._skip_space():
            if character == "{":
                scopes.append(Scope(current))
                current, depth = len(scopes) - 1, depth + 1
                self.place += 1
                if depth > MAX_SCOPE_DEPTH:
                    self._refuse(f"more than {MAX_SCOPE_DEPTH} nested braces")
            elif character == "}":
                self.place += 1
                parent, depth = scopes[current].parent, depth - 1
                if parent is None:
                    return
                current = parent
            elif character == ".":
                source = self._directive(scopes[current]) or source
            elif match := self._accept(_LABEL):
                if scopes[current].labels.setdefault(match[1], count) != count:
                    self._refuse("a label defined twice", match.start())
            elif match := self._accept(_INSTRUCTION):
                negation, predicate, opcode, rest = match.groups()
                operands = tuple(self._operands(rest, match.start()))
                guard = f"{negation}{predicate}" if predicate else ""
                yield Instruction(*match.span(), guard, opcode, operands, current, source)
                count += 1
            else:
                self._refuse("a statement that is no instruction")
        self._refuse("a function without an end", len(self.text.rstrip()) - 1)

    def _source_of(self, file: int, line: int, column: int, *caller: int) -> tuple[int, int]:
        """`Instruction.source` of a ``.loc``."""
        self._callers[file, line, column] = caller
        chain: list[tuple[int, ...]] = [(file, line, column)]
        while (found := self._callers.get(chain[-1], ())) and any(found) and found not in chain:
            chain.append(found)
        return next((each[0], each[1]) for each in chain if each[0] == chain[-1][0])

    def _directive(self, scope: Scope) -> tuple[int, int] | None:
        """Read a directive in a function; the source line if it is a ``.loc``."""
        if match := self._accept(_LOCATION):
            self._note_location(match)
            return self._source_of(*(int((each or "0")[:9]) for each in match.groups()))
        match = self._accept(_DIRECTIVE)
        if match is None or match[0].count("{") != match[0].count("}") or match[1] in ("loc", "file"):
            self._refuse("a directive without an end", match.start() if match else None)
        if match[1] == "reg":
            kind, names = [*match[2].split(None, 1), "", ""][:2]
            kind = kind.lstrip(".")
            bits = _BITS.get(kind) or int(re.sub(r"\D", "", kind)[:4] or 0)
            for name, size in _REGISTERS.findall(names):
                if size:
                    scope.numbered[name] = bits, int(size)
                else:
                    scope.registers[name] = bits
        elif match[1] == "branchtargets":
            label = next(reversed(scope.labels), None)
            if label is None:
                self._refuse("branch targets without a label", match.start())
            scope.targets[str(label)] = tuple(self._operands(match[2], match.start()))
        return None

    def _operands(self, text: str, place: int) -> Iterator[str]:
        """Operands between commas outside of brackets, without spaces around them."""
        depth, start = 0, 0
        for match in _BRACKET_OR_COMMA.finditer(text):
            if match[0] != ",":
                depth += 1 if match[0] in "[{(" else -1
                if depth < 0:
                    self._refuse("brackets that do not match", place)
            elif not depth:
                yield " ".join(text[start : match.start()].split())
                start = match.end()
        if depth:
            self._refuse("brackets that do not match", place)
        if text.strip():
            yield " ".join(text[start:].split())


_SPACE = re.compile(r"\s*+")
_BRACKET_OR_COMMA = re.compile(r"[\[\](){},]")
_BRANCHES = frozenset(("bra", "brx"))
BLOCK_ENDS = _BRANCHES | {"ret", "exit", "trap"}
"""Opcodes that end a block."""


def _blocks(instructions: tuple[Instruction, ...], scopes: list[Scope]) -> tuple[Block, ...]:
    """Basic blocks of a function; labels that no branch names begin none."""
    count = len(instructions)
    targets, target_count = dict[int, tuple[int, ...]](), 0
    for index, instruction in enumerate(instructions):
        if instruction.name in _BRANCHES:
            targets[index] = _targets(instruction, scopes)
            target_count += len(targets[index])
            if target_count > MAX_BRANCH_TARGETS:
                raise PtxError(f"PTX: a function with more than {MAX_BRANCH_TARGETS} branch targets")
    starts = {0, count} | {target for found in targets.values() for target in found}
    starts |= {index + 1 for index, instruction in enumerate(instructions) if instruction.name in BLOCK_ENDS}
    order = sorted(starts)
    number_of = {start: number for number, start in enumerate(order[:-1])}
    blocks = []
    for start, end in pairwise(order):
        last = instructions[end - 1]
        goes_on = bool(last.guard) or last.name not in BLOCK_ENDS
        following = ([end] if goes_on else []) + list(targets.get(end - 1, ()))
        blocks.append(Block(start, end, tuple(dict.fromkeys(number_of[n] for n in following if n < count))))
    return tuple(blocks)


def _targets(branch: Instruction, scopes: list[Scope]) -> tuple[int, ...]:
    """Indices of the instructions that a branch may lead to. Raises `PtxError` for a label that does not exist."""
    names: tuple[str, ...] = branch.operands[-1:]
    if branch.name == "brx":
        names = next((s.targets[names[0]] for s in _around(branch, scopes) if names and names[0] in s.targets), ())
    found = [next((s.labels[n] for s in _around(branch, scopes) if n in s.labels), None) for n in names]
    if not found or None in found:
        raise PtxError(
            f"PTX: a branch to an unknown label: {quoted(branch.opcode + ' ' + ', '.join(branch.operands), 60)}"
        )
    return tuple(index for index in found if index is not None)


def _around(instruction: Instruction, scopes: list[Scope]) -> Iterator[Scope]:
    """The scope of an instruction and those around it, innermost first."""
    number: int | None = instruction.scope
    while number is not None:
        yield scopes[number]
        number = scopes[number].parent
