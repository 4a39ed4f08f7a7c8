"""An interpreter of PTX, the assembly language of NVIDIA's devices: all threads of a grid at once, in NumPy.

A register is an array with an entry per thread, of bits. Threads diverge by masks: of all threads that run,
those at the smallest place in the text go on, so that they meet again behind a branch. Memory is checked: an
address must lie in an array that was given, or in a variable of the program, aligned to its type, and memory
of a thread that was never written reads as NaN. Arithmetic is that of IEEE 754, fused multiply-adds included
(Boldo, Melquiond 2008). What NVIDIA does not define to the bit, such as ex2.approx, is an error.

PTX ISA 9.0, https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any
TYPES = {
    **{f"u{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{f"b{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{f"s{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "pred": np.dtype(bool),
}
TO_WHOLE = {"rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc, "rni": np.rint}  # roundings
LOCAL = 1 << 60  # generic addresses from here on are memory of the thread
SHARED = 1 << 59  # and from here on memory of the block
SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")


class Fault(Exception):
    """What a device would stop at, or would do without saying so."""


@dataclass
class Instruction:
    """`@guard name operands;`, at a place in a function."""

    name: str
    operands: list[str]
    guard: str = ""  # "", "%p1" or "!%p1"


@dataclass
class Routine:
    """A kernel, or a function: its formal parameters, its local memory and its instructions."""

    name: str
    parameters: list[str]
    results: list[str]
    registers: dict[str, np.dtype[Any]] = field(default_factory=dict)
    depot: int = 0
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class Variable:
    """A variable of the program: its space, its alignment, its bytes."""

    space: str
    align: int
    data: Array


class Program:
    """The functions and variables of a PTX text."""

    def __init__(self, text: str) -> None:
        self.routines: dict[str, Routine] = {}
        self.variables: dict[str, Variable] = {}
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        head = re.compile(
            r"\.(?:entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*\(([^)]*)\)([^{;]*)\{", re.DOTALL
        )
        end = 0
        while found := head.search(text, end):
            self._variables(text[end : found.start()])
            results, name, parameters, _ = found.groups()
            end = _closing(text, found.end())
            body = text[found.end() : end - 1]
            self._variables(body)  # those of the block stand in the function that uses them
            self.routines[name] = _routine(name, parameters, results or "", body)
        self._variables(text[end:])

    def _variables(self, text: str) -> None:
        pattern = (
            r"\.(global|const|shared)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?"
            r"\s*(?:=\s*(\{[^}]*\}|[^;]+))?;"
        )
        for space, align, kind, name, count, values in re.findall(pattern, text):
            dtype = TYPES[kind]
            data = np.zeros(int(count or 1), dtype)
            items = [x.strip() for x in values.strip("{} \n").split(",")] if values else []
            for k, item in enumerate(items):
                data[k] = _literal(item, dtype)[0]
            self.variables[name] = Variable(space, int(align or dtype.itemsize), data.view(np.uint8))


def _closing(text: str, start: int) -> int:
    """The place behind the brace that closes one before `start`."""
    depth = 1
    for found in re.finditer(r"[{}]", text[start:]):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return start + found.end()
    raise Fault("a brace is not closed")


def _routine(name: str, parameters: str, results: str, text: str) -> Routine:
    formal = [re.findall(r"[\w$]+(?=\s*(?:\[\d+\])?\s*$)", x)[0] for x in parameters.split(",") if x.strip()]
    returned = [x.split()[-1] for x in results.split(",") if x.strip()]
    routine = Routine(name, formal, returned)
    for found in re.finditer(r"\s*(?:([\w$]+):|([{}])|([^;{}]+);|([^;]*?;))", text):
        label, brace, statement, _ = found.groups()
        if brace:
            continue
        if label:
            routine.labels[label] = len(routine.body)
            continue
        words = " ".join((statement or found[4]).rstrip(";").split())
        if words.startswith(".reg"):
            _, kind, names = words.split(" ", 2)
            for register in names.split(","):
                stem, _, count = register.strip().partition("<")
                width = TYPES[kind[1:]]
                stored = width if kind == ".pred" else np.dtype(f"u{width.itemsize}")
                numbered = [f"{stem}{k}" for k in range(int(count[:-1]))] if count else [stem]
                routine.registers.update(dict.fromkeys(numbered, stored))
        elif words.startswith(".local"):
            size = int(re.findall(r"\[(\d+)\]", words)[0])
            routine.labels[re.findall(r"([\w$]+)\[", words)[0]] = -1  # the name of its local memory
            routine.depot = size
        elif not words.startswith("."):
            guard = ""
            if words.startswith("@"):
                guard, words = words[1:].split(" ", 1)
            operation, _, rest = words.partition(" ")
            operands = re.findall(r"\([^)]*\)|\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
            routine.body.append(Instruction(operation, operands, guard))
    return routine


def _literal(text: str, dtype: np.dtype[Any]) -> Array:
    """An array of one number, as PTX writes it."""
    if text[:2] in ("0f", "0d"):
        bits = np.array([int(text[2:], 16)], np.uint32 if text[1] == "f" else np.uint64)
        return bits.view(np.float32 if text[1] == "f" else np.float64).astype(dtype)
    number = float(text) if "." in text else int(text.rstrip("U"), 0)
    if dtype.kind == "f" or isinstance(number, float):
        return np.array([number], dtype)
    bits = np.array([number % (1 << 8 * dtype.itemsize)], np.dtype(f"u{dtype.itemsize}"))
    return bits.view(dtype)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def sum_to_odd(a: Array, b: Array) -> Array:
    """a + b rounded to the neighbour whose last digit is odd, where it is not exact."""
    s, rest = two_sum(a, b)
    even = (s.view(np.uint64) & np.uint64(1)) == 0
    towards = np.nextafter(s, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & even & np.isfinite(s), towards, s)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a b + c with one rounding, in the type of the arrays.

    Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput. 57 (2008). For floats
    the product is exact in double precision; for doubles it is a sum of two (Dekker), which holds as long as
    nothing overflows or underflows: sizes of 1e-140 to 1e140.
    """
    if a.dtype == np.float32:
        a, b, c = (x.astype(np.float64) for x in (a, b, c))
        return sum_to_odd(a * b, c).astype(np.float32)
    product = a * b
    pieces = []
    for x in (a, b):
        shifted = x * 134217729.0  # 2^27 + 1
        high = shifted - (shifted - x)
        pieces += [high, x - high]
    ah, al, bh, bl = pieces
    rest = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    th, tl = two_sum(c, rest)
    vh, vl = two_sum(product, th)
    exact = vh + sum_to_odd(tl, vl)
    return np.where(np.isfinite(exact), exact, product + c)


def _high_product(a: Array, b: Array) -> Array:
    """The upper 64 bits of products of numbers without sign."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low = (a & mask) * (b & mask)
    cross = (a >> half) * (b & mask) + (low >> half)
    other = (a & mask) * (b >> half) + (cross & mask)
    return (a >> half) * (b >> half) + (cross >> half) + (other >> half)


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift: by as many bits as there are, or more, nothing or the sign remains."""

    def shifted(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        by = b.view(np.uint32) if b.dtype.itemsize == 4 else b
        within = np.minimum(by, bits - 1).astype(a.dtype)
        y = function(a, within)
        return y if a.dtype.kind == "i" else np.where(by >= bits, a.dtype.type(0), y)

    return shifted


COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": operator.neg, "abs": np.abs, "not": operator.invert, "sqrt": np.sqrt, "rcp": lambda a: 1 / a,
    "mov": lambda a: a,
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "min": np.fmin, "max": np.fmax, "shl": _shift(operator.lshift),
    "shr": _shift(operator.rshift), "copysign": lambda a, b: np.copysign(b, a),
}  # fmt: skip


class Grid:
    """The threads of a launch, and their memory."""

    def __init__(self, program: Program, blocks: int, threads: int, arrays: Sequence[Array]) -> None:
        self.program = program
        self.threads = np.arange(blocks * threads)
        self.shape = blocks, threads
        self.executed: set[tuple[str, int]] = set()
        self.segments: list[tuple[int, Array]] = []  # address and bytes, in order
        self.address: dict[str, int] = {}
        self.pointers = [self._place(x.reshape(-1).view(np.uint8)) for x in arrays]
        room = 0
        for name, variable in program.variables.items():
            if variable.space == "shared":
                room += -room % variable.align
                self.address[name] = room
                room += len(variable.data)
            else:
                self.address[name] = self._place(variable.data.copy())
        self.shared = np.full((blocks, room), 0xFF, np.uint8)
        self.local = np.full((len(self.threads), 0), 0xFF, np.uint8)

    def _place(self, data: Array) -> int:
        address = (len(self.segments) + 1) << 40
        self.segments.append((address, data))
        return address

    def special(self, name: str, axis: str) -> Array:
        blocks, threads = self.shape
        if axis != "x":
            value = 1 if name.startswith("n") else 0
            return np.full(len(self.threads), value, np.uint32)
        values = {"tid": self.threads % threads, "ctaid": self.threads // threads}
        sizes = {"ntid": threads, "nctaid": blocks}
        return np.asarray(values.get(name, np.full(len(self.threads), sizes.get(name, 0)))).astype(np.uint32)

    def access(self, space: str, address: Array, size: int, lanes: Array) -> tuple[Array, Array]:
        """The memory of a space, and indices (lanes, size) of the bytes at the addresses of some threads."""
        if (address % np.uint64(size)).any():
            raise Fault(f"an address is not a multiple of {size} bytes")
        first = address.astype(np.int64)
        if space == "generic":
            space = "local" if (first >= LOCAL).all() else "shared" if (first >= SHARED).all() else "global"
            first = first - {"local": LOCAL, "shared": SHARED, "global": 0}[space]
        if space in ("local", "shared"):
            memory = self.local if space == "local" else self.shared
            row = lanes if space == "local" else lanes // self.shape[1]
            width = memory.shape[1]
            if ((first < 0) | (first + size > width)).any():
                raise Fault(f"an address lies outside of {space} memory")
            return memory.reshape(-1), (row * width + first)[:, None] + np.arange(size)
        numbers = np.unique(first >> 40)
        if len(numbers) != 1 or not 1 <= numbers[0] <= len(self.segments):
            raise Fault("threads of one access address several arrays, or none")
        base, data = self.segments[numbers[0] - 1]
        if ((first < base) | (first - base + size > len(data))).any():
            raise Fault("an address lies outside of its array")
        return data, (first - base)[:, None] + np.arange(size)


class Frame:
    """One call of a routine, by the threads of a mask."""

    def __init__(
        self, grid: Grid, routine: Routine, given: dict[tuple[str, int], Array], mask: Array
    ) -> None:
        self.grid = grid
        self.routine = routine
        self.passed = dict(given)  # parameters: (name, offset) -> bits
        n = len(grid.threads)
        self.registers = {name: np.zeros(n, kind) for name, kind in routine.registers.items()}
        self.mask = mask
        self.base = grid.local.shape[1]
        self.place = np.where(mask, 0, len(routine.body))
        self.waiting = np.zeros(n, bool)

    def run(self) -> None:
        body = self.routine.body
        grid = self.grid
        if self.routine.depot:
            depot = self.routine.depot + -self.routine.depot % 16
            grid.local = np.hstack([grid.local, np.full((len(self.mask), depot), 0xFF, np.uint8)])
        while True:
            going = (self.place < len(body)) & ~self.waiting
            if not going.any():
                if not self.waiting.any():
                    break
                self._release()
                continue
            k = int(self.place[going].min())
            mask = going & (self.place == k)
            self.place[mask] = k + 1
            grid.executed.add((self.routine.name, k))
            self._execute(body[k], mask)
        grid.local = grid.local[:, : self.base].copy()

    def _release(self) -> None:
        """Let the blocks go on of which all threads that have not ended wait at the barrier."""
        self.waiting[:] = False  # all threads that run are waiting: nobody else is `going`

    def _execute(self, x: Instruction, mask: Array) -> None:
        if x.guard:
            condition = self.registers[x.guard.lstrip("!")]
            mask = mask & (~condition if x.guard[0] == "!" else condition)
            if not mask.any():
                return
        name, *parts = x.name.split(".")
        if name == "bra":
            self.place[mask] = self.routine.labels[x.operands[0]]
        elif name in ("ret", "exit"):
            self.place[mask] = len(self.routine.body)
        elif name in ("bar", "barrier"):
            self.waiting |= mask
        elif name == "call":
            self._call(x, mask)
        elif name == "ld":
            self._load(x, parts, mask)
        elif name == "st":
            self._store(x, parts, mask)
        elif name == "cvta":
            self._convert_address(x, parts, mask)
        else:
            self._write(x.operands[0], self._value(name, parts, x.operands[1:]), mask)

    def _write(self, register: str, value: Array, mask: Array) -> None:
        if register.startswith("{"):
            names = [x.strip() for x in register[1:-1].split(",")]
            parts = value.view(np.dtype(f"u{value.dtype.itemsize // 2}")).reshape(-1, 2)
            for name, part in zip(names, np.ascontiguousarray(parts.T), strict=True):
                if name != "_":
                    self._write(name, part, mask)
            return
        stored = self.registers[register]
        if value.dtype != stored.dtype:
            value = value.view(np.dtype(f"u{value.dtype.itemsize}")) if value.dtype != bool else value
            if value.dtype.itemsize != stored.dtype.itemsize or (value.dtype == bool) != (
                stored.dtype == bool
            ):
                raise Fault(f"{register} holds {stored.dtype}, not {value.dtype}")
        np.copyto(stored, value, where=mask)

    def _read(self, text: str, dtype: np.dtype[Any]) -> Array:
        """An operand, as numbers of a type."""
        n = len(self.mask)
        if text in self.registers:
            bits = self.registers[text]
            if bits.dtype.itemsize != dtype.itemsize:
                raise Fault(f"{text} is read as {dtype}")
            return bits.view(dtype)
        if special := SPECIAL.fullmatch(text):
            return self.grid.special(*special.groups()).view(dtype)
        if self.routine.labels.get(text) == -1:
            return np.full(n, self.base, np.uint64).astype(dtype)
        if text in self.grid.address:
            return np.full(n, self.grid.address[text], np.uint64).astype(dtype)
        if text.startswith("{"):  # a number in parts, the lower one first
            part = np.dtype(f"u{dtype.itemsize // 2}")
            parts = [self._read(x.strip(), part) for x in text[1:-1].split(",")]
            return np.stack(parts, axis=1).reshape(-1).view(dtype)
        return np.repeat(_literal(text, dtype), n)

    def _value(self, name: str, parts: list[str], operands: list[str]) -> Array:
        if "approx" in parts or "ftz" in parts or "sat" in parts:
            raise Fault(f"{name}.{'.'.join(parts)} is not defined to the bit")
        kind = TYPES[parts[-1]]
        if name == "cvt":
            return _converted(self._read(operands[0], kind), TYPES[parts[-2]], parts[:-2])
        if name == "setp":
            a, b = (self._read(x, kind) for x in operands[:2])
            comparison, unordered = parts[0], False
            if kind.kind == "f" and comparison[-1] == "u" and comparison[:-1] in COMPARISONS:
                comparison, unordered = comparison[:-1], True
            if comparison == "nan":
                return np.isnan(a) | np.isnan(b)
            if comparison == "num":
                return ~(np.isnan(a) | np.isnan(b))
            y = COMPARISONS[comparison](a, b)
            if kind.kind == "f":  # ne is true of NaN in NumPy, and in PTX only as neu
                nan = np.isnan(a) | np.isnan(b)
                y = y | nan if unordered else y & ~nan
            return y
        if name == "selp":
            chosen = self.registers[operands[2]]
            return np.where(chosen, self._read(operands[0], kind), self._read(operands[1], kind))
        if name in ("fma", "mad") and kind.kind == "f":
            return fused(*(self._read(x, kind) for x in operands))
        if name == "mad":
            product = self._value("mul", parts, operands[:2])
            return product + self._read(operands[2], product.dtype)
        if name == "div":
            a, b = (self._read(x, kind) for x in operands)
            return a / b if kind.kind == "f" else _quotient(a, b)
        if name == "rem":
            a, b = (self._read(x, kind) for x in operands)
            return a - _quotient(a, b) * b
        if name == "mul" and "wide" in parts:
            double = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
            a, b = (self._read(x, kind).astype(double) for x in operands)
            return a * b
        if name == "mul" and "hi" in parts:
            a, b = (self._read(x, kind) for x in operands)
            if kind == np.uint64:
                return _high_product(a, b)
            double = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
            return (a.astype(double) * b.astype(double) >> 8 * kind.itemsize).astype(kind)
        if name == "prmt":  # each byte of the result is one of the eight bytes of two operands
            low, high, selector = (self._read(x, kind).astype(np.uint64) for x in operands)
            both = low | high << np.uint64(32)
            y = np.zeros_like(both)
            for place in range(4):
                nibble = selector >> np.uint64(4 * place)
                byte = both >> np.uint64(8) * (nibble & np.uint64(7)) & np.uint64(0xFF)
                sign = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
                y |= np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * place)
            return y.astype(kind)
        if name == "bfi":  # a number of bits of the first operand, in the place of bits of the second
            a, b = (self._read(x, kind) for x in operands[:2])
            first, count = (int(x) for x in operands[2:])
            mask = kind.type(((1 << count) - 1) << first)
            return (a << kind.type(first) & mask) | (b & ~mask)
        if name in ("shl", "shr"):
            return BINARY[name](self._read(operands[0], kind), self._read(operands[1], np.dtype(np.uint32)))
        if name in UNARY:
            return UNARY[name](self._read(operands[0], kind))
        if name in BINARY:
            return BINARY[name](*(self._read(x, kind) for x in operands))
        raise Fault(f"there is no {name}.{'.'.join(parts)} in this interpreter")

    def _address(self, text: str) -> tuple[str, int]:
        """The register or name in "[name+offset]", and the offset."""
        name, _, offset = text[1:-1].replace(" ", "").partition("+")
        return name, int(offset or 0)

    def _space(self, parts: list[str]) -> str:
        space = next((x for x in parts if x in ("global", "local", "shared", "const", "param")), "generic")
        return "global" if space == "const" else space

    def _pointers(self, name: str, offset: int) -> Array:
        """The addresses of all threads; those of the block and of a thread may have 32 bits."""
        narrow = name in self.registers and self.registers[name].dtype.itemsize == 4
        base = self._read(name, np.dtype(np.uint32 if narrow else np.uint64)).astype(np.uint64)
        return base + np.uint64(offset % (1 << 64))

    def _load(self, x: Instruction, parts: list[str], mask: Array) -> None:
        kind = TYPES[parts[-1]]
        name, offset = self._address(x.operands[1])
        space = self._space(parts)
        if x.operands[0].startswith("{"):
            self._each(x, parts, mask, self._load, 0, 1)
            return
        if space == "param":
            if (name, offset) not in self.passed:
                raise Fault(f"the parameter {name}+{offset} was not passed")
            # a shorter number is the low end of the one that was passed
            bits = np.ascontiguousarray(self.passed[name, offset]).view(kind).reshape(len(mask), -1)
            self._write(x.operands[0], bits[:, 0], mask)
            return
        lanes = np.flatnonzero(mask)
        memory, places = self.grid.access(space, self._pointers(name, offset)[lanes], kind.itemsize, lanes)
        value = np.zeros(len(mask), kind)
        value[lanes] = memory[places].view(kind)[:, 0]
        register = self.registers[x.operands[0]]
        if register.dtype.itemsize > kind.itemsize:  # extended by zeros or by the sign
            value = value.astype(np.dtype(f"{'i' if kind.kind == 'i' else 'u'}{register.dtype.itemsize}"))
        self._write(x.operands[0], value, mask)

    def _store(self, x: Instruction, parts: list[str], mask: Array) -> None:
        kind = TYPES[parts[-1]]
        name, offset = self._address(x.operands[0])
        space = self._space(parts)
        if x.operands[1].startswith("{"):
            self._each(x, parts, mask, self._store, 1, 0)
            return
        if x.operands[1] in self.registers and self.registers[x.operands[1]].dtype.itemsize > kind.itemsize:
            value = self.registers[x.operands[1]].astype(np.dtype(f"u{kind.itemsize}"))
        else:
            value = self._read(x.operands[1], kind)
        if space == "param":
            before = self.passed.get((name, offset), value)
            if before.dtype.itemsize != value.dtype.itemsize:
                before = value  # of an earlier call, which is over
            self.passed[name, offset] = np.where(mask, value, before.view(value.dtype))
            return
        lanes = np.flatnonzero(mask)
        memory, places = self.grid.access(space, self._pointers(name, offset)[lanes], kind.itemsize, lanes)
        memory[places] = np.ascontiguousarray(value[lanes])[:, None].view(np.uint8)

    def _each(
        self,
        x: Instruction,
        parts: list[str],
        mask: Array,
        access: Callable[..., None],
        values: int,
        place: int,
    ) -> None:
        """Load or store the numbers of a vector (v2, v4) one by one; the first is aligned to all of them."""
        names = [name.strip() for name in x.operands[values][1:-1].split(",")]
        size = TYPES[parts[-1]].itemsize
        name, offset = self._address(x.operands[place])
        if (self._pointers(name, offset)[mask] % np.uint64(size * len(names))).any():
            raise Fault(f"an address is not a multiple of {size * len(names)} bytes")
        for k, register in enumerate(names):
            operands = ["", ""]
            operands[values] = register
            operands[place] = f"[{name}+{offset + k * size}]"
            access(Instruction(x.name, operands), [part for part in parts if part not in ("v2", "v4")], mask)

    def _convert_address(self, x: Instruction, parts: list[str], mask: Array) -> None:
        base = {"local": LOCAL, "shared": SHARED}.get(self._space(parts), 0)
        address = self._read(x.operands[1], np.dtype(np.uint64))
        sign = -1 if "to" in parts else 1
        self._write(x.operands[0], address + np.uint64(sign * base % (1 << 64)), mask)

    def _call(self, x: Instruction, mask: Array) -> None:
        operands = list(x.operands)
        results = operands.pop(0)[1:-1] if operands[0][0] == "(" else ""
        routine = self.grid.program.routines[operands[0]]
        passed = operands[1][1:-1] if len(operands) > 1 else ""
        names = [word.strip() for word in passed.split(",") if word.strip()]
        if len(names) != len(routine.parameters):
            raise Fault(f"{routine.name} takes {len(routine.parameters)} arguments, not {len(names)}")
        formal = dict(zip(names, routine.parameters, strict=True))
        given = {(formal[key], at): bits for (key, at), bits in self.passed.items() if key in formal}
        frame = Frame(self.grid, routine, given, mask)
        frame.run()
        for here, there in zip([w.strip() for w in results.split(",") if w.strip()], routine.results):
            for (key, at), bits in frame.passed.items():
                if key == there:
                    self.passed[here, at] = bits


def _quotient(a: Array, b: Array) -> Array:
    """Quotients of whole numbers, rounded towards zero."""
    y = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -y, y).astype(a.dtype)


def _converted(a: Array, to: np.dtype[Any], how: Sequence[str]) -> Array:
    """Numbers as another type: `how` has the rounding, as rn, or rzi to a whole number."""
    if to.kind == "f":
        chosen = next((TO_WHOLE[x] for x in how if x in TO_WHOLE), None)
        if a.dtype.kind != "f" and to == np.float32 and a.dtype.itemsize == 8:
            raise Fault("64-bit whole numbers to floats round twice here")
        return (chosen(a) if chosen else a).astype(to)
    if a.dtype.kind == "f":
        whole = next(TO_WHOLE[x] for x in how if x in TO_WHOLE)(a)
        limits = np.iinfo(to)
        inside = np.clip(np.nan_to_num(whole, nan=0.0), float(limits.min), float(limits.max))
        top = inside >= float(limits.max)
        return np.where(top, limits.max, np.where(top, 0.0, inside).astype(to)).astype(to)
    return a.astype(to)


@dataclass
class Within:
    """A pointer to a byte of an array, `offset` bytes behind its first one."""

    array: Array
    offset: int


def launch(
    program: Program, kernel: str, blocks: int, threads: int, arguments: Sequence[Array | Within | int]
) -> set[tuple[str, int]]:
    """Run a kernel on a grid. Arrays are read and written in place; whole numbers are of 64 bits.

    arguments  arrays, pointers within arrays, and whole numbers

    Returns which instructions were executed: the name of a routine, and the place in its body.
    """
    pointed = [Within(x, 0) if isinstance(x, np.ndarray) else x for x in arguments]
    grid = Grid(program, blocks, threads, [x.array for x in pointed if isinstance(x, Within)])
    pointers = iter(grid.pointers)
    routine = program.routines[kernel]
    n = len(grid.threads)
    given = {}
    for name, x in zip(routine.parameters, pointed, strict=True):
        value = next(pointers) + x.offset if isinstance(x, Within) else x
        given[name, 0] = np.full(n, value, np.int64).view(np.uint64)
    with np.errstate(all="ignore"):
        Frame(grid, routine, given, np.ones(n, bool)).run()
    return grid.executed
