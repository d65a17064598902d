"""Instructions of PTX on floating-point numbers, for the interpreter.

Approximate functions are as precise as NumPy's, and a multiply-add in FP32 is rounded from FP64: results differ from
those of a GPU in the last places.
"""

import re

import numpy as np

TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_WORDS = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}
_FUNCTIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.fmin, "max": np.fmax,
    "fma": lambda a, b, c: a * np.float64(b) + c, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a), "rcp": np.reciprocal, "ex2": np.exp2, "lg2": np.log2, "sin": np.sin,
    "cos": np.cos,
}  # fmt: skip
_ROUNDINGS = {"rni": np.rint, "rmi": np.floor}
_COMPARE = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_NEGATED = {"neu": "eq", "geu": "lt", "gtu": "le", "leu": "gt", "ltu": "ge"}
_IMMEDIATE = re.compile(r"0[fFdD]([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")


def immediate(operand):
    """Bits of an immediate number such as ``0f3F800000``, or None."""
    match = _IMMEDIATE.fullmatch(operand)
    return match and int(match[1], 16)


def numbers(bits, kind):
    """Lanes' bits as numbers of a type."""
    return bits.astype(_WORDS[kind]).view(TYPES[kind])


def bits(values, kind):
    """Lanes' numbers as bits."""
    return np.asarray(values, TYPES[kind]).view(_WORDS[kind]).astype(np.uint64)


def arithmetic(name, kind):
    """Function of lanes' bits that an instruction computes, or None if it is not one of floating point."""
    if kind == "f16x2":
        return in_pairs(arithmetic(name, "f16"))
    if kind not in TYPES or name not in _FUNCTIONS:
        return None

    def compute(*operands):
        with np.errstate(all="ignore"):
            return bits(_FUNCTIONS[name](*(numbers(operand, kind) for operand in operands)), kind)

    return compute


def in_pairs(function):
    """A function of the bits of a number in FP16 as one of those of two numbers in a word."""
    low, place = np.uint64(0xFFFF), np.uint64(16)

    def compute(*words):
        return function(*(word & low for word in words)) | function(*(word >> place for word in words)) << place

    return function and compute


def compare(name, a, b, kind):
    """Lanes for which a comparison of numbers, given as bits, holds. Those that end in u hold for NaN too."""
    a, b = numbers(a, kind), numbers(b, kind)
    return ~_COMPARE[_NEGATED[name]](a, b) if name in _NEGATED else _COMPARE[name](a, b)


def convert(modifiers, value):
    """A conversion from or to floating point: `value` has bits, or integers of the type that is converted."""
    to, source = modifiers[-2:]
    value = numbers(value, source) if source in TYPES else value
    for modifier in modifiers:
        value = _ROUNDINGS[modifier](value) if modifier in _ROUNDINGS else value
    return bits(value, to) if to in TYPES else value.astype(np.int64)
