"""Prints traced functions as C: readable C99, and batch loops over one number or a vector of lanes.

The text is straight-line code in single assignment: a statement per node, in functions of about 1500
operations (`PIECE`), so that compile time stays linear in the length. Values that a later function needs go
through a work array `w`, whose places are used again.

The batch loop takes NumPy's row-major arrays, (n, dim) with any stride between rows. Over lanes it transposes
a block of LANES rows into vectors in registers, runs the body once, and transposes the results back.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...base.arguments import OFF_UNIT
from ...base.errors import GraphError
from ...scalars import Table
from ..graph.graph import CONDITIONS, FUNCTIONS, Expr, Function, tables_of
from ..runtime import runtime

PIECE = 1500  # operations in one C function
SMALL_PIECE = 500  # the same, where there are very many
STACK = 1 << 18  # bytes of intermediate results up to which the batch loop keeps them on the stack
CACHED = 1 << 21  # bytes of results above which they go past the caches
UNROLLED = 16  # blocks of an output up to which its stores are printed one by one; above, by a loop
STORE = 4  # a store counts as so many operations: compilers compare every two stores of a function
LONG = {"div": 8, "sqrt": 8} | dict.fromkeys(FUNCTIONS, 30)
AT_ONCE = 4  # angles of which one call makes sines and cosines
SKIPPED = 30  # operations that are worth a branch which skips them; each LONG one counts as so many

# How each operation is written: on T, with the masks of lanes.h as conditions, and in C99 on plain numbers.
LANES_RULES: dict[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "tan": "tangent({0})",
    "sqrt": "square_root({0})",
    "exp": "exponential({0})",
    "log": "logarithm({0})",
    "sinh": "hyperbolic_sine({0})",
    "cosh": "hyperbolic_cosine({0})",
    "tanh": "hyperbolic_tangent({0})",
    "arcsin": "arcsine({0})",
    "arccos": "arccosine({0})",
    "sign": "sign_of({0})",
    "floor": "floor_of({0})",
    "absolute": "absolute({0})",
    "arctan2": "angle_of({0}, {1})",
    "hypot": "hypotenuse({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "maximum": "maximum({0}, {1})",
    "lt": "MASK({0} < {1})",
    "le": "MASK({0} <= {1})",
    "eq": "MASK({0} == {1})",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "~{0}",
    "where": "where({0}, {1}, {2})",
    "lookup": "lookup({0}, {2}, {1})",
}
C99_RULES: dict[str, str] = LANES_RULES | {
    **{name: f"{name}({{0}})" for name in ("tan", "sqrt", "exp", "log", "sinh", "cosh", "tanh", "floor")},
    "arcsin": "asin({0})",
    "arccos": "acos({0})",
    "sign": "isnan({0}) ? {0} : (({0} > 0.0) ? 1.0 : (({0} < 0.0) ? -1.0 : 0.0))",
    "absolute": "fabs({0})",
    "arctan2": "atan2({0}, {1})",
    "hypot": "hypot({0}, {1})",
    "minimum": "(({0} < {1}) || isnan({0})) ? {0} : {1}",
    "maximum": "(({0} > {1}) || isnan({0})) ? {0} : {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "({0} <= {1}) && ({0} >= {1})",  # compilers warn of ==, and NaN equals nothing here, too
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "not": "!{0}",
    "where": "{0} ? {1} : {2}",
    "lookup": "{0}[({1} > 0.0) ? (({1} < {2}.0) ? (int){1} : {2}) : 0]",
}
FLOAT_RULES = {  # tanf, 0.0f, ...; isnan of math.h takes any type
    op: re.sub(r"\b(?!isnan)([a-z]\w*)\(", r"\1f(", re.sub(r"\.0\b", ".0f", rule))
    for op, rule in C99_RULES.items()
}
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})  # take plain literals beside vectors
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
RESERVED = (  # words of C and C++, macros of compilers and of math.h, functions of math.h; slow to compile
    "auto|bool|break|case|char|const|constexpr|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|"
    "long|nullptr|register|restrict|return|short|signed|sizeof|static|struct|switch|thread_local|true|false|typedef|"
    "typeof|typeof_unqual|union|unsigned|void|volatile|while|alignas|alignof|static_assert|asm|"
    "and|and_eq|bitand|bitor|catch|class|compl|concept|decltype|delete|explicit|export|friend|mutable|namespace|new|"
    "noexcept|not|not_eq|operator|or|or_eq|private|protected|public|requires|template|this|throw|try|typeid|typename|"
    "using|virtual|wchar_t|xor|xor_eq|linux|unix|i386|main|"
    r"NAN|INFINITY|(HUGE|M_|FP_|MATH_)\w*(?<!_)|DOMAIN|SING|OVERFLOW|UNDERFLOW|PLOSS|TLOSS|X_TLOSS|signgam|"
    "(a?(cos|sin|tan)h?|atan2|exp|exp2|exp10|expm1|log|log10|log1p|log2|logb|ilogb|ldexp|frexp|modf|scalbn|scalbln|scalb|"
    "sqrt|cbrt|hypot|pow|pow10|sincos|erfc?|gamma|[lt]gamma|[lt]gamma_r|fabs|ceil|floor|l?l?rint|nearbyint|l?l?round|trunc|"
    "roundeven|fmod|remainder|drem|remquo|copysign|nan|nextafter|nexttoward|nextup|nextdown|fdim|fmax|fmin|fma|significand|"
    "finite|isinf|isnan|isfinite|isnormal|signbit|fpclassify|[jy][01n])[fl]?"
)


def identifier(name: str) -> str:
    """`name`, which must be a plain C identifier: text from outside never reaches generated code."""
    if not IDENTIFIER.fullmatch(name):
        raise GraphError(f"{name!r} cannot name a generated function or argument: use letters, digits and _")
    return name


def literal(x: float, suffix: str = "") -> str:
    """The shortest decimal that reads back as x, or with the suffix f as the float closest to x."""
    if math.isnan(x):
        return "NAN"
    digits = str(_nearest_float(x)) if suffix else repr(x)
    if "inf" in digits:
        return "INFINITY" if x > 0 else "(-INFINITY)"
    return f"({digits}{suffix})" if digits.startswith("-") else f"{digits}{suffix}"


@np.errstate(over="ignore", under="ignore")
def _nearest_float(x: float) -> np.float32:
    return np.float32(x)


@dataclass(frozen=True)
class NumberType:
    """The C type in which generated code computes: the only place that names it.

    Text over lanes calls one lane's number `real`; runtime/lanes.h defines it by the macro SINGLE.

    name    as C99 text declares it
    suffix  of literals, and of functions of math.h
    dtype   the same type in NumPy
    """

    name: str
    suffix: str
    dtype: Any

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return int(np.dtype(self.dtype).itemsize)

    def literal(self, x: float) -> str:
        """A constant of this type."""
        return literal(x, self.suffix)


DOUBLE = NumberType("double", "", np.float64)
FLOAT = NumberType("float", "f", np.float32)


def number_type(single: bool) -> NumberType:
    """The number type of 32 bits (`single`) or 64 bits."""
    return FLOAT if single else DOUBLE


@dataclass
class Dialect:
    """How values, conditions and the pair sin, cos are written."""

    number: NumberType
    rules: Mapping[str, str]
    value: str  # type of a number
    condition: str  # type of a comparison's result
    splat: str  # a literal as an operand of a function
    sincos: Callable[..., list[str]]  # (argument, sine or "", cosine or "") -> statements
    real: str = "real"  # type of one lane
    at_address: str = ""  # a look-up in a table at an address; "": there is none
    if_any: str = ""  # begins what is done if a condition holds in a lane; "": all is done always
    at_once: bool = False  # whether sines and cosines of inputs are announced before they are needed

    def literal(self, x: float) -> str:
        return self.number.literal(x)

    def constant(self, x: float) -> str:
        return self.splat.format(self.literal(x))


def _sincos_lanes(x: str, s: str, c: str, made: str = "sine_and_cosine(") -> list[str]:
    names = [name for name in (s, c) if name]
    spare = "unused_" + names[0]
    declared = ", ".join(names if len(names) == 2 else [*names, spare])
    return [f"T {declared}; {made}{x}, &{s or spare}, &{c or spare});"]


def _sincos_c99(number: NumberType, x: str, s: str, c: str) -> list[str]:
    pair = ((s, f"sin{number.suffix}"), (c, f"cos{number.suffix}"))
    return [f"const {number.name} {name} = {function}({x});" for name, function in pair if name]


def lanes_dialect(number: NumberType) -> Dialect:
    """Values over lanes, one state in each, with the functions of runtime/lanes.h."""
    return Dialect(
        number,
        LANES_RULES,
        "T",
        "I",
        "splat({})",
        _sincos_lanes,
        at_address="" if number.suffix else "lookup_at({0}, {1})",
        if_any="if (any({})) {{",
        at_once=True,
    )


def device_dialect(number: NumberType) -> Dialect:
    """The state of one thread of a device, which cannot read tables in the memory of this process."""
    return replace(lanes_dialect(number), at_address="", at_once=False)


def wide_dialect(number: NumberType) -> Dialect:
    """Places of one state as lanes; it has arithmetic only."""
    return replace(lanes_dialect(number), value="W", splat="wide({})", if_any="", at_once=False)


def c99_dialect(number: NumberType) -> Dialect:
    """Plain numbers, with the functions of math.h."""
    sincos = partial(_sincos_c99, number)
    rules = FLOAT_RULES if number.suffix else C99_RULES
    return Dialect(number, rules, number.name, "_Bool", "{}", sincos, real=number.name)


@dataclass
class Code:
    """The straight-line code of a function, cut in pieces."""

    pieces: list[list[str]] = field(default_factory=list)
    places: int = 0  # length of the work array
    work: list[tuple[bool, bool]] = field(default_factory=list)  # of each piece: reads or writes w


def straight_line(
    function: Function,
    dialect: Dialect,
    inputs: Mapping[Expr, str],
    outputs: Mapping[Expr, Sequence[str]],
    piece: int = PIECE,
) -> Code:
    """Print every node of `function` once.

    inputs   the text of each input symbol
    outputs  the places where the value of a node is stored as soon as it is known

    Long code that is needed only under a condition, such as a closed form beside a series for small angles,
    is skipped if no lane selects it.

    This function is long because its local functions share the state of the piece that is being printed.
    """
    # Cut the nodes into pieces, and find the last piece that reads each node: a value that a later piece
    # reads lives in the work array until then.
    nodes = [node for node in function.nodes if node.op != "input"]
    pieces = _cut(nodes, piece, lambda node: 1 + STORE * len(outputs.get(node, ()))) or [[]]
    home = {node: k for k, members in enumerate(pieces) for node in members}
    last = dict(home)  # the last piece that reads a node
    # One call makes the sine and the cosine of an angle, where the first of them is needed.
    partner: dict[Expr, dict[str, Expr]] = {}  # angle -> its sine and cosine
    for node in nodes:
        if node.op in ("sin", "cos"):
            partner.setdefault(node.args[0], {})[node.op] = node
        for a in node.args:
            if type(a) is Expr and a.op != "input":
                last[a] = max(last[a], home[node])
    for pair in partner.values():
        first = min(home[node] for node in pair.values())
        for node in pair.values():
            home[node] = first

    # Groups of nodes that a branch may skip are printed late: right before the selection that needs them.
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        for a in node.args:
            users.setdefault(a, []).append(node)
    away = _skippable(nodes, users, outputs, home, partner) if dialect.if_any else {}
    late = {node for groups in away.values() for _, group in groups for node in group}

    body = Code()
    # Registers of the work array: the lowest free place is taken, and is free again after its last reader.
    place: dict[Expr, int] = {}  # of values that cross pieces, in w
    free: list[int] = []
    ending: dict[int, list[int]] = {}  # piece -> places that it reads for the last time
    done: set[Expr] = set()
    known: dict[Expr, str] = {}  # angles whose sines and cosines are made at once, and how to take them
    for k, members in enumerate(pieces):
        lines: list[str] = []
        local: dict[Expr, str] = {}
        reads = writes = False

        # Text of an operand; one from an earlier piece is loaded from w once in each piece.
        def operand(a: Any, plain: bool, lines: list[str] = lines, local: dict[Expr, str] = local) -> str:
            nonlocal reads
            if type(a) is not Expr:
                return dialect.literal(a) if plain else dialect.constant(a)
            if a.op == "input":
                return inputs[a]
            if a not in local:
                reads = True
                local[a] = f"t{a.index}"
                value = _unpacked(a, f"w[{place[a]}]", dialect)
                lines.append(f"const {_kind(a, dialect)} t{a.index} = {value};")
            return local[a]

        # The node has its value in `t<index>` now: store it in outputs, and in w if later pieces read it.
        def define(node: Expr, lines: list[str] = lines, local: dict[Expr, str] = local, k: int = k) -> None:
            nonlocal writes
            name = local[node] = f"t{node.index}"
            done.add(node)
            lines.extend(f"{target} = {name};" for target in outputs.get(node, ()))
            if last[node] > k:
                if free:
                    spot = heapq.heappop(free)
                else:
                    spot = body.places
                    body.places += 1
                place[node] = spot
                ending.setdefault(last[node], []).append(spot)
                writes = True
                lines.append(f"w[{spot}] = {_packed(node, name, dialect)};")

        # Print the statement of a node, and of its partner if it is a sine or cosine.
        def put(node: Expr, lines: list[str] = lines) -> None:
            if node in done:
                return
            if node.op in ("sin", "cos"):
                pair = partner[node.args[0]]
                s, c = (f"t{pair[f].index}" if f in pair else "" for f in ("sin", "cos"))
                taking = [known.pop(node.args[0])] if node.args[0] in known else []
                lines.extend(dialect.sincos(operand(node.args[0], False), s, c, *taking))
                for member in pair.values():
                    define(member)
                return
            if node.op == "lookup":
                text = _lookup(node, dialect, [operand(a, False) for a in node.args if type(a) is not Table])
            else:
                plain = node.op in ARITHMETIC
                text = dialect.rules[node.op].format(*(operand(a, plain) for a in node.args))
            lines.append(f"const {_kind(node, dialect)} t{node.index} = {text};")
            define(node)

        # Sines and cosines of inputs, such as joint angles, are announced in groups: over one lane a group
        # then fills a vector register.
        angles = [x.args[0] for x in members if x.op in ("sin", "cos") and not (x in late or x in done)]
        angles = [x for x in dict.fromkeys(angles) if x.op == "input"] if dialect.at_once else []
        for first in range(0, len(angles) - 1, AT_ONCE):
            some = angles[first : first + AT_ONCE]
            known.update((x, f"TURN(at_once_{k}_{first}, {i}, ") for i, x in enumerate(some))
            lines.append(f"KNOWN_ANGLES(at_once_{k}_{first}, {', '.join(inputs[x] for x in some)});")

        for node in members:
            if node in late:
                continue
            # A selection comes: print the groups that only it needs inside `if (any(condition))`. Their
            # values that are read outside are declared before, as zeros: no lane selects a zero.
            for where, group in away.get(node, ()):
                inside = set(group)
                for a in [a for x in group for a in x.args if a not in inside]:
                    operand(a, True)  # loads from w stand outside of the branch, where later code finds them
                kept = [x for x in group if not inside.issuperset(users[x])]
                lines += [f"{_kind(x, dialect)} s{x.index} = {_kind(x, dialect, zero=True)};" for x in kept]
                lines.append(dialect.if_any.format(where.format(operand(node.args[0], False))))
                first = len(lines)
                for x in group:
                    put(x)
                lines += [f"s{x.index} = t{x.index};" for x in kept]
                lines[first:] = [f"    {line}" for line in lines[first:]]
                lines.append("}")
                local.update({x: f"s{x.index}" for x in kept})
            put(node)
        for spot in ending.get(k, []):
            heapq.heappush(free, spot)
        body.pieces.append(lines)
        body.work.append((reads, writes))
    return body


def _lookup(node: Expr, dialect: Dialect, operands: Sequence[str]) -> str:
    """A look-up in a table of the text, or in the memory at an address."""
    table = node.args[0]
    if type(table) is Table:
        return dialect.rules["lookup"].format(_table_name(table, dialect.number), *operands, table.size - 1)
    if not dialect.at_address:
        raise GraphError(
            "a table that is a parameter stays in the memory of this process, which text for other programs "
            "and kernels in single precision cannot read; give its values as numbers while tracing"
        )
    return dialect.at_address.format(*operands)


def _table_name(table: Table, number: NumberType) -> str:
    return table.name + number.suffix


def tables_text(functions: Iterable[Function], number: NumberType) -> list[str]:
    """Definitions of the tables that functions read. A unit may contain them several times."""
    tables = dict.fromkeys(x for function in functions for x in tables_of(function.nodes))
    text = []
    for table in tables:
        name = _table_name(table, number)
        values = constant_table(number.name, name, map(number.literal, table.flat.tolist()))
        text.append(f"#ifndef {name.upper()}\n#define {name.upper()}\n{values}\n#endif\n")
    return text


def _skippable(
    nodes: Sequence[Expr],
    users: Mapping[Expr, Sequence[Expr]],
    kept: Container[Expr],
    home: Mapping[Expr, int],
    partner: Mapping[Expr, Mapping[str, Expr]],
) -> dict[Expr, list[tuple[str, list[Expr]]]]:
    """For a selection (`where`) the groups of nodes that may be skipped: only one side of it needs them.

    Each group has the text of its condition, "{}" or "~{}", and its nodes in order.
    """
    # Selections by the same condition, of the same side, in the same piece belong together: a node that only
    # they need may be skipped.
    selections: dict[tuple[Expr, int, int], list[Expr]] = {}
    for node in nodes:
        if node.op == "where":
            for side in (1, 2):
                if type(node.args[side]) is Expr and node.args[side] is not node.args[3 - side]:
                    selections.setdefault((node.args[0], side, home[node]), []).append(node)
    free: dict[int, set[Expr]] = {}
    for node in nodes:
        if selections and node not in kept:
            free.setdefault(home[node], set()).add(node)
    groups: dict[Expr, list[tuple[str, list[Expr]]]] = {}
    late: set[Expr] = set()
    # From the last selections to the first, because outer selections come after the ones inside.
    for (_, side, k), chosen in sorted(selections.items(), key=lambda item: -item[1][-1].index):
        only = _needed_only(chosen, side, free.get(k, set()), users, partner)
        # A branch costs a test of all lanes, and keeps the compiler from reordering: it has to be worth it.
        if sum(LONG.get(x.op, 1) for x in only) < SKIPPED or not late.isdisjoint(chosen):
            continue
        for node in chosen:
            group = _ancestors([node.args[side]], only)
            for x in [x for x in group if x.op in ("sin", "cos")]:
                group.update(partner[x.args[0]].values())
            if group:
                only -= group
                late |= group
                free[k] -= {node, *group}  # of two selections, one within the other, the outer one counts
                ordered = sorted(group, key=lambda x: x.index)
                groups.setdefault(node, []).append(("{}" if side == 1 else "~{}", ordered))
    return groups


def _needed_only(
    chosen: Sequence[Expr],
    side: int,
    free: set[Expr],
    users: Mapping[Expr, Sequence[Expr]],
    partner: Mapping[Expr, Mapping[str, Expr]],
) -> set[Expr]:
    """The nodes among `free` that only one side of the selections `chosen` needs."""
    selecting = set(chosen)
    free = free - selecting  # each selection stays in its place
    while True:
        # Users come before operands in this order: a node belongs to the group if all of its users do, or are
        # the selections, at this side alone.
        only: set[Expr] = set()
        candidates = _ancestors([x.args[side] for x in chosen], free)
        for node in sorted(candidates, key=lambda x: -x.index):
            if all(
                u in only or (u in selecting and [a is node for a in u.args].index(True) == side)
                for u in users[node]
            ):
                only.add(node)
        # A sine and its cosine are computed together, so both go or none; without them, search again.
        pairs = [partner[x.args[0]].values() for x in only if x.op in ("sin", "cos")]
        torn = {x for pair in pairs if not only.issuperset(pair) for x in pair}
        if not torn:
            return only
        free = free - torn


def _ancestors(nodes: Iterable[Any], within: Container[Expr]) -> set[Expr]:
    """`nodes` and their ancestors, as far as they are connected `within` this set."""
    seen: set[Expr] = set()
    pending = [x for x in nodes if type(x) is Expr]
    while pending:
        node = pending.pop()
        if node in within and node not in seen:
            seen.add(node)
            pending.extend(a for a in node.args if type(a) is Expr)
    return seen


def _kind(node: Expr, dialect: Dialect, zero: bool = False) -> str:
    """The type of a node's value, or a value of that type."""
    if node.op in CONDITIONS:
        return "bits(splat(0))" if zero else dialect.condition
    return "splat(0)" if zero else dialect.value


def _cut(items: Sequence[Any], limit: int, cost: Callable[[Any], int]) -> list[list[Any]]:
    """`items` in runs whose costs add up to `limit` at most."""
    runs: list[list[Any]] = []
    total = limit
    for item in items:
        total += cost(item)
        if total > limit:
            runs.append([])
            total = cost(item)
        runs[-1].append(item)
    return runs


def _packed(node: Expr, text: str, dialect: Dialect) -> str:
    """The value of a node as the work array holds it: a condition becomes a number."""
    if node.op not in CONDITIONS:
        return text
    if dialect.condition == "I":
        return f"number({text})"
    return f"{text} ? {dialect.literal(1.0)} : {dialect.literal(0.0)}"


def _unpacked(node: Expr, text: str, dialect: Dialect) -> str:
    """The value of a node, from the work array: the inverse of `_packed`."""
    if node.op not in CONDITIONS:
        return text
    return f"bits({text})" if dialect.condition == "I" else f"{text} > {dialect.literal(0.0)}"


# -- C99, to read and to export -----------------------------------------------------------------------------


def c99(function: Function, name: str | None = None, piece: int = PIECE, single: bool = False) -> str:
    """One C99 function of plain doubles (or floats), with the pieces it needs; depends on math.h alone.

    The prototype is `void name(const double *in, ..., double *out, ...)`, arrays row-major. A name that C or
    math.h uses gets an underscore at its end.
    """
    name, arguments, results = c99_names(function, name)
    dialect = c99_dialect(number_type(single))
    symbols, targets, fixed = bindings(function, arguments, results, dialect.constant)
    body = straight_line(function, dialect, symbols, targets, piece)
    real = dialect.real
    takes = [f"const {real} *{key}" for key in arguments] + [f"{real} *{key}" for key in results]
    tables = tables_text([function], dialect.number)
    return "\n".join([*tables, *_in_pieces(("", "static "), name, takes, body, fixed, f"{real} *w")])


def _in_pieces(
    scopes: tuple[str, str], name: str, takes: Sequence[str], body: Code, fixed: Sequence[str], work: str
) -> list[str]:
    """The function `name` in C, behind the functions of its pieces if there are several.

    scopes  of a function that is in one piece or calls pieces, and of a piece
    takes   declarations of arguments and results
    fixed   statements before the body
    work    declaration of the work array as an argument
    """
    names = [x.split()[-1].lstrip("*") for x in takes]
    pieces = body.pieces
    head = f"{scopes[0]}void {name}({', '.join(takes) or 'void'})"
    if len(pieces) == 1:
        lines = [*fixed, *pieces[0]]
        return [c_function(head, [*_unused(names, lines), *lines])]
    text = []
    for k, (lines, (_, writes)) in enumerate(zip(pieces, body.work, strict=True)):
        taken = ", ".join([*takes, work if writes else f"const {work}"])
        head_of_piece = f"{scopes[1]}void {name}_{k}({taken})"
        text.append(c_function(head_of_piece, [*_unused([*names, "w"], lines), *lines]))
    calls = [f"{name}_{k}({', '.join([*names, 'w'])});" for k in range(len(pieces))]
    return [*text, c_function(head, [f"{work.split()[0]} w[{max(body.places, 1)}];", *fixed, *calls])]


def c99_names(
    function: Any, name: str | None = None, local: str = r"t\d+|w"
) -> tuple[str, list[str], list[str]]:
    """The names of a function, its arguments and results in C99; none collides with C or `local` names."""
    name = identifier(name or function.name)
    if re.fullmatch(RESERVED, name):
        name += "_"
    names: list[str] = []
    for key in (*function.inputs, *function.outputs):
        word = identifier(key)
        if word in (name, function.name) or (word in names and len(names) >= len(function.inputs)):
            word += "_out"
        while re.fullmatch(RESERVED, word) or word in names or re.fullmatch(rf"{local}|{name}(_\d+)?", word):
            word += "_"
        names.append(word)
    return name, names[: len(function.inputs)], names[len(function.inputs) :]


def bindings(
    function: Function,
    arguments: Sequence[str],
    results: Sequence[str],
    constant: Callable[[float], str],
    entries: Sequence[str] | None = None,
    places: Sequence[str] | None = None,
) -> tuple[dict[Expr, str], dict[Expr, list[str]], list[str]]:
    """The text of input symbols, the targets of nodes, and statements for all other entries of outputs.

    entries, places  templates for an entry of each argument and result; "name[{}]" if None
    """
    entries = entries or [f"{key}[{{}}]" for key in arguments]
    places = places or [f"{key}[{{}}]" for key in results]
    symbols = {
        x: entry.format(i)
        for entry, array in zip(entries, function.inputs.values(), strict=True)
        for i, x in enumerate(array.flat)
    }
    targets: dict[Expr, list[str]] = {}
    fixed: list[str] = []
    for place, array in zip(places, function.outputs.values(), strict=True):
        for i, x in enumerate(array.flat):
            target = place.format(i)
            if type(x) is Expr and x.op != "input":
                targets.setdefault(x, []).append(target)
            else:
                fixed.append(f"{target} = {symbols[x] if type(x) is Expr else constant(x)};")
    return symbols, targets, fixed


def _unused(names: Iterable[str], lines: Sequence[str]) -> list[str]:
    """A statement that silences warnings about the arguments which `lines` do not mention."""
    used = set(re.findall(r"\b\w+\b", "\n".join(lines)))
    ignored = [f"(void){name};" for name in names if name not in used]
    return [" ".join(ignored)] if ignored else []


def c_function(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}", ""])


# -- batch loops over lanes ---------------------------------------------------------------------------------


@dataclass
class Guard:
    """The checks of inputs in the batch loop: finite entries, vectors of norm 1, signs.

    finite  names of inputs whose entries have to be finite
    unit    (name of input, first entry, size) of each vector of norm 1: a quaternion, or an axis
    tolerance  of | |vector|^2 - 1 |; None: any length from which a direction can be told
    signs   (name of input, entry, relation to zero: ">" or ">=")
    labels  names of the entries of inputs, for messages
    poses   where the poses of free joints begin in configurations, for messages
    """

    finite: Sequence[str] = ()
    unit: Sequence[tuple[str, int, int]] = ()
    tolerance: float | None = 2 * OFF_UNIT
    signs: Sequence[tuple[str, int, str]] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    poses: Sequence[int] = ()

    @property
    def compiled(self) -> str:
        """A text that changes whenever the compiled checks do."""
        return f"{self.finite}{self.unit}{self.tolerance}{self.signs}"

    def bounds(self, dtype: Any, share: float = 1.0) -> tuple[float, float]:
        """The open interval that |vector|^2 must lie in, for a share of the tolerance."""
        if self.tolerance is not None:
            return 1 - share * self.tolerance, 1 + share * self.tolerance
        return float(np.finfo(dtype).tiny / np.finfo(dtype).eps), float(np.finfo(dtype).max)


def prelude(lanes: int, number: NumberType = DOUBLE) -> str:
    """The text before any code over T: number type, lanes, elementary functions."""
    return f"#define LANES {lanes}\n#define SINGLE {int(number is FLOAT)}\n{runtime('lanes.h')}"


def plain_prelude(number: NumberType = DOUBLE) -> str:
    """The same for exported C99 over one number."""
    return f"#define SINGLE {int(number is FLOAT)}\n{runtime('plain.h')}"


def private(text: str, name: str) -> str:
    """Text of C99 whose function `name` is for this file alone."""
    head = f"void {name}("
    return f"static {text}" if text.startswith(head) else text.replace(f"\n{head}", f"\nstatic {head}")


def over_lanes(
    function: Function,
    name: str,
    dialect: Dialect | None = None,
    constants: Container[int] = (),
    attribute: str = "__attribute__((noinline)) ",
    piece: int = PIECE,
    apart: str = "",
) -> list[str]:
    """C functions over T, of which the last computes `function` and calls the others.

    It is `void name(const T *x0, ..., T *y0, ...)`, a pointer per input and per output. The inputs numbered
    in `constants` are `const real *`, the same in all lanes. C99 of plain numbers goes without `restrict`,
    which MISRA C forbids.

    apart  name of a last argument, of type int64_t: how many numbers lie between entries; "": they are dense
    """
    dialect = dialect or lanes_dialect(DOUBLE)
    T = dialect.value
    real = dialect.real
    restrict = "" if T == real else "restrict "
    arguments = [f"x{k}" for k in range(len(function.inputs))]
    results = [f"y{k}" for k in range(len(function.outputs))]
    at = f"[{{}} * {apart}]" if apart else "[{}]"
    entries = [dialect.splat.format(x + at) if k in constants else x + at for k, x in enumerate(arguments)]
    places = [y + at for y in results]
    symbols, targets, fixed = bindings(function, arguments, results, dialect.constant, entries, places)
    body = straight_line(function, dialect, symbols, targets, piece)
    kinds = [f"const {real if k in constants else T}" for k in range(len(arguments))] + [T] * len(results)
    takes = [f"{kind} *{restrict}{key}" for kind, key in zip(kinds, [*arguments, *results], strict=True)]
    takes += [f"int64_t {apart}"] if apart else []
    scope = f"static {attribute}"
    scopes = ("static " if len(body.pieces) > 1 else scope), scope
    tables = tables_text([function], dialect.number)
    return [*tables, *_in_pieces(scopes, name, takes, body, fixed, f"{T} *{restrict}w")]


def batch_units(
    function: Function,
    lanes: int,
    single: bool = False,
    guard: Guard | None = None,
    units: int = 1,
    piece: int = PIECE,
) -> list[str]:
    """Translation units of `int64_t run(n, in, in_stride, out, out_stride, kept)`, a batch loop over lanes.

    in, out     a pointer per input and output, to rows of doubles (floats if `single`)
    in_stride   numbers between rows, 0 for one row shared by the batch
    returns     0, or 1 + the number of the first row (or of its block) that breaks `guard`; -1 without memory
    """
    number = number_type(single)
    head = "\n".join([prelude(lanes, number), *tables_text([function], number)])
    dialect = lanes_dialect(number)
    plan = Plan(function, lanes, dialect)
    body = straight_line(function, dialect, plan.symbols, plan.targets, piece)
    scope = "static" if units <= 1 or len(body.pieces) <= 1 else '__attribute__((visibility("hidden")))'
    signature = ", ".join(
        [f"const T *restrict x{k}" for k in range(len(function.inputs))]
        + [f"T *restrict y{k}" for k in range(plan.results)]
        + ["T *restrict w"]
    )
    pieces = [
        c_function(f"{scope} __attribute__((noinline)) void piece{k}({signature})", lines)
        for k, lines in enumerate(body.pieces)
    ]
    loop = plan.loop(body, guard or Guard())
    if scope == "static":
        return ["\n".join([head, *pieces, loop])]
    shares = [pieces[k::units] for k in range(min(units, len(pieces)))]
    declared = "\n".join(f"void piece{k}({signature});" for k in range(len(pieces)))
    hidden = f"#pragma GCC visibility push(hidden)\n{declared}\n#pragma GCC visibility pop"
    return ["\n".join([head, *share]) for share in shares[1:]] + ["\n".join([head, hidden, *shares[0], loop])]


class Plan:
    """The places of inputs and results in the batch loop, and the text of the loop."""

    def __init__(self, function: Function, lanes: int, dialect: Dialect) -> None:
        self.lanes = lanes
        self.dialect = dialect
        self.inputs = {key: array.size for key, array in function.inputs.items()}
        self.outputs = [list(array.flat) for array in function.outputs.values()]
        names = [f"x{k}" for k in range(len(self.inputs))]
        self.symbols, self.targets, self.fixed = bindings(
            function, names, [f"y{k}" for k in range(len(self.outputs))], dialect.literal
        )
        self.results = len(self.outputs)
        # Over lanes all results go to one array y0 first, each distinct entry once: nodes and inputs in
        # front, which every block computes, and constants behind, which are filled once.
        if lanes > 1:
            entries = [x for entries in self.outputs for x in entries]
            kept = dict.fromkeys(map(_entry, sorted(entries, key=lambda x: type(x) is not Expr)))
            self.place = {x: i for i, x in enumerate(kept)}
            self.targets = {
                x: [f"y0[{i}]"] for x, i in self.place.items() if type(x) is Expr and x.op != "input"
            }
            self.results = 1

    def loop(self, body: Code, guard: Guard) -> str:
        """The functions of one row or block, and `run` of runtime/batch.h over them."""
        rows = (self._row if self.lanes == 1 else self._block)(body, guard)
        return "\n".join([rows, runtime("batch.h")])

    def _calls(self, body: Code) -> list[str]:
        """The calls of all pieces, in order."""
        passed = [f"x{k}" for k in range(len(self.inputs))] + [f"y{k}" for k in range(self.results)] + ["w"]
        return [f"piece{k}({', '.join(passed)});" for k in range(len(body.pieces))]

    def _checks(self, guard: Guard) -> list[str]:
        """Statements which make `bad` differ from zero (or NaN) where an input breaks the guard."""
        names = list(self.inputs)
        lines = []
        for name in guard.finite:
            lines.append(f"bad = unless_finite(x{names.index(name)}, {self.inputs[name]}, bad);")
        for name, first, size in guard.unit:
            k = names.index(name)
            square = " + ".join(f"x{k}[{first + i}] * x{k}[{first + i}]" for i in range(size))
            low, high = map(self.dialect.constant, guard.bounds(self.dialect.number.dtype))
            within = f"MASK({square} > {low}) & MASK({square} < {high})"
            lines.append(f"bad += where({within}, splat(0), splat(1));")
        for name, entry, relation in guard.signs:
            within = f"MASK(x{names.index(name)}[{entry}] {relation} splat(0))"
            lines.append(f"bad += where({within}, splat(0), splat(1));")
        return ["T bad = splat(0);", *lines] if lines else []

    def _row(self, body: Code, guard: Guard) -> str:
        """The function of one row, for one lane: it writes results directly into the caller's arrays."""
        checks = self._checks(guard)
        number = self.dialect.number
        storage = (
            "static __thread " if number.size * body.places > STACK else ""
        )  # small arrays are on the stack
        lines = [f"{storage}T w[{max(body.places, 1)}];", "(void)w;"]
        lines += [f"const real *x{k} = in[{k}] + i * in_stride[{k}];" for k in range(len(self.inputs))]
        lines += [f"real *y{k} = out[{k}] + i * out_stride[{k}];" for k in range(len(self.outputs))]
        lines += [*checks, *(["if (bad != 0) return 1;"] if checks else [])]
        head = (
            "INLINE int one_row(int64_t i, const real *const *in, const int64_t *in_stride, "
            "real *const *out, const int64_t *out_stride)"
        )
        return c_function(head, [*lines, *self.fixed, *self._calls(body), "return 0;"])

    def _block(self, body: Code, guard: Guard) -> str:
        """The functions of a block of LANES rows: begin, take, compute, give.

        `take` transposes rows into vectors, `give` transposes results back. Results go through y0.
        """
        members = [f"T x{k}[{max(size, 1)}];" for k, size in enumerate(self.inputs.values())]
        members += [f"T y0[{max(len(self.place), 1)}], w[{max(body.places, 1)}];"]
        members += [f"real spare{k}[LANES * {max(len(e), 1)}];" for k, e in enumerate(self.outputs)]
        workspace = ["typedef struct {", *(f"    {m}" for m in members), "} Workspace;"]
        row = max(sum(map(len, self.outputs)), 1)
        workspace.append(
            f"enum {{ SMALL = sizeof(Workspace) <= {STACK}, WITHIN = {CACHED} / ({row} * sizeof(real)) }};"
        )
        # `begin` fills the constants of y0 once, for all blocks.
        tables, stores = self._stores()
        nodes = sum(type(x) is Expr for x in self.place)
        numbers = [self.dialect.literal(float(x)) for x in self.place if type(x) is not Expr]
        tables.append(constant_table("real", "constants", numbers))
        begin = [f"for (int j = 0; j < {len(numbers)}; j++) s->y0[{nodes} + j] = splat(constants[j]);"]
        inputs = [f"T *x{k} = s->x{k};" for k in range(len(self.inputs))]
        take = [
            f"load(x{k}, {size}, in[{k}] + i * in_stride[{k}], in_stride[{k}], rows);"
            for k, size in enumerate(self.inputs.values())
            if size
        ]
        checks = self._checks(guard)
        take += [*checks, "return any(MASK(bad != 0));" if checks else "return 0;"]
        copies = [
            f"y0[{i}] = {self.symbols[x]};"
            for x, i in self.place.items()
            if type(x) is Expr and x.op == "input"
        ]
        # The last block may have fewer rows than lanes: it writes to a spare array, and copies rows from
        # there.
        give = ["const T *y0 = s->y0;", "(void)y0, (void)same, (void)past;"]
        for k, entries in enumerate(self.outputs):
            if width := len(entries):
                give += [
                    f"real *out{k} = out[{k}] + i * out_stride[{k}];",
                    f"real *row{k} = rows == LANES ? out{k} : s->spare{k};",
                    f"const int64_t step{k} = rows == LANES ? out_stride[{k}] : {width};",
                    *stores[k],
                    f"if (rows < LANES) copy_rows(out{k}, out_stride[{k}], row{k}, {width}, rows);",
                ]
        block = "INLINE {} {}(Workspace *s, int64_t i, int64_t rows, {})".format
        results = "real *const *out, const int64_t *out_stride, int same, int past"
        functions = [
            c_function("INLINE void begin(Workspace *s)", begin),
            c_function(
                block("int", "take", "const real *const *in, const int64_t *in_stride"), inputs + take
            ),
            c_function(
                "INLINE void compute(Workspace *s)",
                [*inputs, "T *y0 = s->y0, *w = s->w;", "(void)y0, (void)w;", *copies, *self._calls(body)],
            ),
            c_function(block("void", "give", results), give),
        ]
        return "\n".join([runtime("rows.h"), *workspace, *tables, *functions])

    def _stores(self) -> tuple[list[str], list[list[str]]]:
        """Tables of the places of results, and for each output the statements that store it.

        An output is stored in blocks of LANES columns, each a transpose in registers. Short outputs and long
        ones, whose text would grow, go by the tables and loops of runtime/rows.h.
        """
        tables: list[str] = []
        statements: list[list[str]] = []
        L = self.lanes
        for k, entries in enumerate(self.outputs):
            width = len(entries)
            starts = list(range(0, width - L + 1, L))
            if width > L and width % L:
                starts.append(width - L)  # the last block overlaps the one before
            places = [self.place[_entry(x)] for x in entries]
            # Blocks of constants only are written in the first call into an array, and kept (`same`).
            constant = {i for i in starts if all(type(x) is not Expr for x in entries[i : i + L])}
            if constant:
                numbers = (self.dialect.literal(0.0 if type(x) is Expr else x) for x in entries)
                tables.append(constant_table("real", f"fixed{k}", numbers))
            tables.append(constant_table("int64_t", f"from{k}", (f"{i} * sizeof(T)" for i in places)))
            if width < L:
                statements.append([f"write_short(row{k}, step{k}, y0, from{k}, {width}, past);"])
                continue
            stores = []
            for i in starts if len(starts) <= UNROLLED else []:
                values = (
                    f"fixed{k} + {i}" if i in constant else ", ".join(f"y0[{j}]" for j in places[i : i + L])
                )
                if i in constant:
                    stores.append(f"if (!same) store_same(row{k} + {i}, step{k}, {values});")
                elif i % L:  # the remaining columns, in blocks of 1, 2, 4, ... of them
                    stores += [
                        f"store_{size}(row{k} + {j}, step{k}, "
                        + ", ".join(f"y0[{place}]" for place in places[j : j + size])
                        + ");"
                        for j, size in _parts(width - width % L, width)
                    ]
                else:
                    stores.append(f"store(row{k} + {i}, step{k}, {values});")
            tables.append(constant_table("int", f"at{k}", (~i if i in constant else i for i in starts)))
            fixed = f"fixed{k}" if constant else "0"
            whole = f"write(row{k}, step{k}, y0, from{k}, {fixed}, at{k}, {len(starts)}, past);"
            statements.append([f"if (past) {whole}", "else {", *stores, "}"] if stores else [whole])
        return tables, statements


def _parts(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut first <= j < end into runs (j, size) whose sizes are powers of two, the largest first."""
    while first < end:
        size = 1 << ((end - first).bit_length() - 1)
        yield first, size
        first += size


def _entry(x: Any) -> Any:
    """The identity of an entry of an output: the node, or the constant's text (-0.0 is not 0.0)."""
    return x if type(x) is Expr else repr(x)


def constant_table(kind: str, name: str, values: Iterable[Any]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(map(str, values)) or '0'}}};"


def enumeration(sizes: Mapping[str, Any]) -> str:
    """Dimensions and settings as constants of C, which texts of compiler/runtime read."""
    return f"enum {{ {', '.join(f'{name} = {size}' for name, size in sizes.items())} }};"
