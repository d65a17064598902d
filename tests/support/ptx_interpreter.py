"""Runs PTX of kernels on the CPU: what it executes is the reference for counts and traces.

Lanes of a warp at the same instruction run together, those at the first instruction of the innermost call first.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from gpudissect.explanation.ptx import BLOCK_ENDS, parse_ptx
from tests.support import ptx_floats

LANES = np.arange(32, dtype=np.uint64)
SHARED_WINDOW, LOCAL_WINDOW = 1 << 40, 1 << 41
ARGUMENT_BYTES, MAX_ARGUMENTS = 1 << 16, 10
SMS = 3
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_ARRAY = re.compile(r"\.(global|const|shared|local)\s+(?:\.align\s+(\d+)\s+)?\.[busf](\d+)\s+([\w$%]+)(?:\[(\d+)\])?")


@dataclass
class Run:
    """What a launch did: global memory, executions of each instruction by warps and lanes, events.

    `taken` has lanes for which the guard of a branch or exit held. Events are by warp: (number of the instruction,
    lanes, their addresses). `order` has the warp of each event.
    """

    memory: dict = field(default_factory=dict)
    warps: Counter = field(default_factory=Counter)
    threads: Counter = field(default_factory=Counter)
    taken: Counter = field(default_factory=Counter)
    events: dict = field(default_factory=lambda: defaultdict(list))
    order: list = field(default_factory=list)


class Interpreter:
    def __init__(self, text):
        self.module = parse_ptx(text)
        self.functions = {function.name: function for function in self.module.functions}
        self.symbols, self.ends = {}, {"global": ARGUMENT_BYTES * (MAX_ARGUMENTS + 1), "shared": 0, "local": 0}
        for space, align, bits, name, count in _ARRAY.findall(self.module.text):
            space = "global" if space == "const" else space
            start = -(-self.ends[space] // max(int(align or 1), 16)) * max(int(align or 1), 16)
            self.symbols[name] = (space, start, int(bits) // 8 * int(count or 1))
            self.ends[space] = start + self.symbols[name][2]
        self.parameters = {}
        for function in self.module.functions:
            header = self.module.text[function.start : function.body]
            self.parameters[function.name] = re.findall(r"\.param[^,()]*?([\w$]+)(?:\[\d+\])?\s*(?=[,)])", header)

    def launch(self, kernel, grid, block, arguments, arrays=()):
        """Run a kernel: arguments are arrays of uint32 or numbers; arrays are initial contents of module arrays."""
        self.run, self.bytes = Run(), np.zeros(self.ends["global"], np.uint8)
        for name, data in dict(arrays).items():
            start = self.symbols[name][1]
            self.bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        values, places = [], []
        for index, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                place = (index + 1) * ARGUMENT_BYTES
                self.bytes[place : place + argument.nbytes] = argument.view(np.uint8)
                places.append((place, argument.nbytes))
                argument = place
            values.append(argument)
        for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
            self._run_block(self.functions[kernel], values, (x, y, z), grid, block)
        self.run.memory = {
            name: self.bytes[start : start + size].tobytes()
            for name, (space, start, size) in self.symbols.items()
            if space == "global"
        } | {index: self.bytes[place : place + size].tobytes() for index, (place, size) in enumerate(places)}
        return self.run

    def _run_block(self, kernel, values, position, grid, block):
        shared = np.zeros(self.ends["shared"] + 64, np.uint8)
        threads = block[0] * block[1] * block[2]
        linear = position[0] + grid[0] * (position[1] + grid[1] * position[2])
        warps = []
        for number in range(-(-threads // 32)):
            thread = LANES.astype(int) + 32 * number
            special = {
                "%tid.x": thread % block[0], "%tid.y": thread // block[0] % block[1],
                "%tid.z": thread // block[0] // block[1], "%laneid": LANES, "%lanemask_lt": (1 << LANES) - 1,
                "%smid": linear % SMS,
            }  # fmt: skip
            for axis, name in enumerate("xyz"):
                special |= {
                    f"%ctaid.{name}": position[axis],
                    f"%nctaid.{name}": grid[axis],
                    f"%ntid.{name}": block[axis],
                }
            special = {name: np.broadcast_to(value, 32).astype(np.uint64) for name, value in special.items()}
            warp = Warp(self, (linear, number), special, shared, thread < threads)
            warp.enter(kernel, values)
            warps.append(warp)
        while any(warp.stacks for warp in warps):
            for warp in warps:
                while warp.step():
                    pass
            assert all(set(warp.stacks) <= warp.waiting for warp in warps)
            for warp in warps:
                warp.waiting.clear()


class Warp:
    def __init__(self, machine, key, special, shared, alive):
        self.machine, self.key, self.special, self.shared = machine, key, special, shared
        self.stacks = {int(lane): [] for lane in LANES if alive[int(lane)]}
        self.registers, self.params, self.waiting = {}, {}, set()
        self.local = np.zeros((32, machine.ends["local"] + 64), np.uint8)

    def enter(self, kernel, values):
        for name, value in zip(self.machine.parameters[kernel.name], values, strict=True):
            for position, word in enumerate(value if isinstance(value, tuple) else (value,)):
                self.params[name, 4 * position] = np.full(32, word, np.uint64)
        for stack in self.stacks.values():
            stack.append((kernel.name, 0))

    def step(self):
        """Run one instruction for one group of lanes; False if none can run."""
        ready = {lane: stack for lane, stack in self.stacks.items() if lane not in self.waiting}
        if not ready:
            return False
        frame = max((tuple(stack) for stack in ready.values()), key=lambda s: (len(s), -s[-1][1]))
        lanes = [lane for lane, stack in ready.items() if tuple(stack) == frame]
        name, index = frame[-1]
        function = self.machine.functions[name]
        if index == len(function.instructions):
            self._return(lanes)
            return True
        instruction = function.instructions[index]
        active = np.zeros(32, bool)
        active[lanes] = True
        number = function.first + index
        self.machine.run.warps[number] += 1
        self.machine.run.threads[number] += len(lanes)
        self.function, self.active, self.number = name, active, number
        executing = active.copy()
        if instruction.guard:
            value = self._read(instruction.guard.lstrip("!")).astype(bool)
            executing &= ~value if instruction.guard.startswith("!") else value
        if instruction.guard and instruction.name in BLOCK_ENDS:
            self.machine.run.taken[number] += int(executing.sum())
        for lane in lanes:
            self.stacks[lane][-1] = (name, index + 1)
        self._execute(function, instruction, executing)
        return True

    def _return(self, lanes):
        for lane in lanes:
            self.stacks[lane].pop()
            if not self.stacks[lane]:
                del self.stacks[lane]

    def _execute(self, function, instruction, executing):
        name, modifiers, operands = instruction.name, instruction.modifiers, instruction.operands
        lanes = [int(lane) for lane in LANES[executing]]
        if name in ("bra", "brx", "ret", "exit", "bar", "call"):
            self._control(function, instruction, lanes)
        elif name in ("ld", "st", "atom", "red"):
            self._access(name, modifiers, operands, executing)
        elif name not in ("membar", "fence"):
            compute = ptx_floats.arithmetic(name, modifiers[-1] if modifiers else "")
            values = [self._read(operand) for operand in operands[1:]] if compute else ()
            result = compute(*values) if compute else getattr(self, f"_{name}")(modifiers, operands)
            self._write(operands[0], result, executing)

    def _control(self, function, instruction, lanes):
        name, operands = instruction.name, instruction.operands
        if name in ("bra", "brx"):
            block = next(b for b in function.blocks if function.instructions[b.end - 1] is instruction)
            scope = instruction.scope
            while operands[-1] not in (scopes := function.scopes[scope]).labels:
                scope = scopes.parent
            if name == "bra":
                destinations = dict.fromkeys(lanes, scopes.labels[operands[0]])
            else:
                table = [scopes.labels[label] for label in scopes.targets[operands[-1]]]
                destinations = {lane: table[int(self._read(operands[0])[lane])] for lane in lanes}
            assert {function.blocks[s].start for s in block.successors} >= set(destinations.values()) - {
                len(function.instructions)
            }
            for lane, index in destinations.items():
                self.stacks[lane][-1] = (function.name, index)
        elif name == "ret":
            self._return(lanes)
        elif name == "exit":
            for lane in lanes:
                del self.stacks[lane]
        elif name == "bar":
            if "warp" not in instruction.modifiers:  # lanes that are behind run first: they are here too
                self.waiting.update(lanes)
        else:
            (result,), callee, arguments = (re.findall(r"[\w$]+", operands[0]), operands[1], operands[2])
            returned, *names = self.machine.parameters[callee]
            for parameter, argument in zip(names, re.findall(r"[\w$]+", arguments), strict=True):
                self.params.setdefault((parameter, 0), np.zeros(32, np.uint64))[lanes] = self.params[argument, 0][lanes]
            self.params[result, 0] = self.params.setdefault((returned, 0), np.zeros(32, np.uint64))
            for lane in lanes:
                self.stacks[lane].append((callee, 0))

    def _read(self, operand, kind="b64"):
        """Lanes' values of an operand as integers of a type: uint64, or int64 if it is signed."""
        if operand in self.special:
            value = self.special[operand]
        elif operand in self.machine.symbols:
            value = np.full(32, self.machine.symbols[operand][1], np.uint64)
        elif re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", operand):
            value = np.full(32, int(operand.rstrip("U"), 0) & (1 << 64) - 1, np.uint64)
        elif (number := ptx_floats.immediate(operand)) is not None:
            value = np.full(32, number, np.uint64)
        else:
            value = self.registers.get((self.function, operand), np.zeros(32, np.uint64))
        bits = 1 if kind == "pred" else int(kind[1:])
        value = value & np.uint64((1 << bits) - 1)
        shift = np.uint64(64 - bits)
        return (value << shift).view(np.int64) >> np.int64(64 - bits) if kind[0] == "s" else value

    def _write(self, operand, value, executing):
        operand = operand.partition("|")[0]  # shfl writes a predicate too
        bits = self.machine.functions[self.function].register_bits(operand, 0) or 64
        register = self.registers.setdefault((self.function, operand), np.zeros(32, np.uint64))
        value = np.asarray(value)
        value = value.view(np.uint64) if value.dtype == np.int64 else value.astype(np.uint64)
        register[executing] = (np.broadcast_to(value, 32) & np.uint64((1 << bits) - 1))[executing]

    def _access(self, name, modifiers, operands, executing):
        size = int(re.sub(r"\D", "", modifiers[-1])) // 8
        place = next(operand for operand in operands if operand.startswith("["))
        base, offset = re.fullmatch(r"\[([\w$%]+)(?:\+(-?\d+))?\]", place).groups()
        if "param" in modifiers:
            key, other = (base, int(offset or 0)), next(o for o in operands if o != place)
            if name == "ld":
                self._write(other, self.params[key], executing)
            else:
                self.params.setdefault(key, np.zeros(32, np.uint64))[executing] = self._read(other)[executing]
            return
        addresses = self._read(base) + np.uint64(int(offset or 0) & (1 << 64) - 1)
        mask = sum(1 << int(lane) for lane in LANES[executing])
        if mask and not base.startswith("%gpudissect") and not base.startswith("gpudissect"):
            self.machine.run.events[self.key].append((self.number, mask, [int(a) for a in addresses[executing]]))
            self.machine.run.order.append(self.key)
        others = [o for o in operands if o != place]
        vector = re.findall(r"[\w%$]+", others[0]) if others[0].startswith("{") else [others[0]]
        for lane in (int(n) for n in LANES[executing]):
            memory, start = self._memory(modifiers, int(addresses[lane]), lane)
            only = lane == LANES
            for position, register in enumerate(vector):
                view = memory[start + position * size : start + (position + 1) * size]
                assert len(view) == size, "access outside of the memory"
                old = int.from_bytes(view.tobytes(), "little")
                if name == "st":
                    new = int(self._read(register)[lane])
                else:
                    if name in ("ld", "atom"):
                        self._write(register, np.full(32, old, np.uint64), only)
                    if name == "ld":
                        continue
                    operand = int(self._read(others[-1])[lane])
                    add = ptx_floats.arithmetic("add", modifiers[-1])
                    total = int(add(np.uint64(old), np.uint64(operand))) if add else old + operand
                    results = {"add": total, "max": max(old, operand), "min": min(old, operand)}
                    (new,) = (results[modifier] for modifier in modifiers if modifier in results)
                    assert "s32" not in modifiers
                view[:] = np.frombuffer((new & (1 << 8 * size) - 1).to_bytes(size, "little"), np.uint8)

    def _memory(self, modifiers, address, lane):
        if "local" in modifiers or address >= LOCAL_WINDOW:
            return self.local[lane], address % LOCAL_WINDOW
        if "shared" in modifiers or address >= SHARED_WINDOW:
            return self.shared, address % SHARED_WINDOW
        return self.machine.bytes, address

    def _mov(self, modifiers, operands):
        if operands[1].startswith("{"):
            low, high = re.findall(r"[\w%$]+", operands[1])
            return self._read(low) | self._read(high) << np.uint64(32)
        return self._read(operands[1])

    def _arithmetic(self, modifiers, operands, operation):
        kind = modifiers[-1]
        return operation(self._read(operands[1], kind), self._read(operands[2], kind))

    _add = lambda self, m, o: self._arithmetic(m, o, np.add)  # noqa: E731
    _sub = lambda self, m, o: self._arithmetic(m, o, np.subtract)  # noqa: E731
    _min = lambda self, m, o: self._arithmetic(m, o, np.minimum)  # noqa: E731
    _max = lambda self, m, o: self._arithmetic(m, o, np.maximum)  # noqa: E731
    _and = lambda self, m, o: self._arithmetic(m, o, np.bitwise_and)  # noqa: E731
    _or = lambda self, m, o: self._arithmetic(m, o, np.bitwise_or)  # noqa: E731
    _xor = lambda self, m, o: self._arithmetic(m, o, np.bitwise_xor)  # noqa: E731
    _div = lambda self, m, o: self._arithmetic(m, o, np.floor_divide)  # noqa: E731
    _rem = lambda self, m, o: self._arithmetic(m, o, np.remainder)  # noqa: E731

    def _mul(self, modifiers, operands):
        if "hi" in modifiers:
            a, b = (self._read(operand, modifiers[-1]) for operand in operands[1:3])
            return np.array([int(x) * int(y) >> int(modifiers[-1][1:]) for x, y in zip(a, b, strict=True)]).view(
                np.uint64
            )
        return self._arithmetic(modifiers, operands, np.multiply)

    def _mad(self, modifiers, operands):
        return self._mul(modifiers, operands) + self._read(operands[3], modifiers[-1])

    def _shl(self, modifiers, operands):
        return self._read(operands[1], modifiers[-1]) << self._read(operands[2])

    def _shr(self, modifiers, operands):
        value = self._read(operands[1], modifiers[-1])
        return value >> self._read(operands[2]).astype(value.dtype)

    def _not(self, modifiers, operands):
        return ~self._read(operands[1])

    def _neg(self, modifiers, operands):
        return np.uint64(0) - self._read(operands[1])

    def _cvt(self, modifiers, operands):
        value = self._read(operands[1], modifiers[-1])
        return ptx_floats.convert(modifiers, value) if ptx_floats.TYPES.keys() & set(modifiers[-2:]) else value

    def _cvta(self, modifiers, operands):
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(modifiers[-2], 0)
        return self._read(operands[1]) + np.uint64((-window if "to" in modifiers else window) & (1 << 64) - 1)

    def _isspacep(self, modifiers, operands):
        address = self._read(operands[1])
        if modifiers[0] == "local":
            return address >= LOCAL_WINDOW
        return (address >= SHARED_WINDOW) & (address < LOCAL_WINDOW)

    def _setp(self, modifiers, operands):
        compare, *rest = modifiers
        a, b = self._read(operands[1], rest[-1]), self._read(operands[2], rest[-1])
        floats = rest[-1] in ptx_floats.TYPES
        result = ptx_floats.compare(compare, a, b, rest[-1]) if floats else _COMPARE[compare](a, b)
        if rest[0] != "and":
            return result
        return result & (self._read(operands[3].lstrip("!")).astype(bool) ^ operands[3].startswith("!"))

    def _selp(self, modifiers, operands):
        return np.where(self._read(operands[3]).astype(bool), self._read(operands[1]), self._read(operands[2]))

    def _prmt(self, modifiers, operands):
        a, b, selector = (self._read(operand, "u32") for operand in operands[1:])
        both, eight = a | b << np.uint64(32), np.uint64(8)
        places = ((selector >> np.uint64(4 * n) & np.uint64(7), np.uint64(8 * n)) for n in range(4))
        return sum((both >> eight * place & np.uint64(255)) << shift for place, shift in places)

    def _dp4a(self, modifiers, operands):
        a, b = (self._read(operand, "u32").astype(np.uint32).view(np.int8) for operand in operands[1:3])
        return (a.astype(np.int64) * b).reshape(32, 4).sum(1) + self._read(operands[3], "s32")

    def _shf(self, modifiers, operands):
        low, high, by = (self._read(operand, "u32") for operand in operands[1:])
        assert "wrap" in modifiers
        both, by = low | high << np.uint64(32), by & np.uint64(31)
        return both << by >> np.uint64(32) if "l" in modifiers else both >> by

    def _bfi(self, modifiers, operands):
        a, b, place, count = (self._read(operand, "u32") for operand in operands[1:])
        mask = ((np.uint64(1) << count) - np.uint64(1)) << place
        return (a << place & mask) | (b & ~mask)

    def _popc(self, modifiers, operands):
        return np.bitwise_count(self._read(operands[1])).astype(np.uint64)

    def _bfind(self, modifiers, operands):
        return np.array([(int(x).bit_length() - 1) & 0xFFFFFFFF for x in self._read(operands[1], "u32")], np.uint64)

    def _activemask(self, modifiers, operands):
        return np.full(32, sum(1 << int(lane) for lane in LANES[self.active]), np.uint64)

    def _vote(self, modifiers, operands):
        value = self._read(operands[1].lstrip("!")).astype(bool) ^ operands[1].startswith("!")
        return np.full(32, sum(1 << int(lane) for lane in LANES[self.active & value]), np.uint64)

    def _match(self, modifiers, operands):
        value = self._read(operands[1], modifiers[-1])
        same = (value[:, None] == value[None, :]) & self.active
        return np.array([sum(1 << int(lane) for lane in LANES[row]) for row in same], np.uint64)

    def _shfl(self, modifiers, operands):
        value, by = self._read(operands[1]), self._read(operands[2])
        if "up" in modifiers:
            return np.where(by <= LANES, value[LANES.astype(int) - by.astype(int)], value)
        if "down" in modifiers:
            return np.where(LANES + by < 32, value[(LANES + by).astype(int) % 32], value)
        return value[(by if "idx" in modifiers else LANES ^ by).astype(int)]
