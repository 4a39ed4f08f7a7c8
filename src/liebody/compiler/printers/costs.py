"""The memory that exported C99 takes on a controller, counted in its text: stack and code.

The text has few forms: functions of straight lines, `const double t7 = ...;`, perhaps in loops, with arrays
`double w[30];`. So its intermediate results can be counted where they live, without a compiler. A compiler
orders the statements anew, and has registers; tests/test_c_export.py compares the counts with what GCC
reports (`-fstack-usage`) and with the sizes of its code, for several processors and levels of optimisation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from .c import NumberType

INTEGERS = {"int": 4, "int64_t": 8}  # bytes
BYTES_PER_STATEMENT = (
    7  # of code: an operation of the floating-point unit, with its share of loads and stores
)
FUNCTION = re.compile(r"^(?:static )?void (\w+)\([^)]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^static const (\w+) \w+\[\] = \{(.*)\};", re.MULTILINE)
DEFINITION = re.compile(r"\bconst (?:double|float|int|_Bool) (\w+) = ")
ARRAY = re.compile(r"^ *(?:double|float|int) \w+\[(\d+)\]", re.MULTILINE)
RESULT = re.compile(r"^ *\w+\[[^=]*\] = ", re.MULTILINE)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


class CallMemory(NamedTuple):
    """Bytes of memory that a function takes, with the functions that it calls.

    stack        of the intermediate results that are needed at once, if statements keep their order
    unoptimised  of the same, if every intermediate result has its own place
    code         of machine code: an estimate, for 32-bit ARM with a floating-point unit for these numbers
    tables       of constants
    """

    stack: int
    unoptimised: int
    code: int
    tables: int


def memory_of(text: str, number: NumberType, *names: str) -> list[CallMemory]:
    """The memory of these functions of a text of C99, which contains all that they call but math.h.

    The numbers for code and tables count the whole text.
    """
    bodies = {match[1]: match[2] for match in FUNCTION.finditer(text)}
    known = bodies.keys()
    calls = {key: known & set(WORD.findall(body)) - {key} for key, body in bodies.items()}
    arrays = {key: sum(map(int, ARRAY.findall(body))) for key, body in bodies.items()}
    counts = {key: _live(body) for key, body in bodies.items()}
    at_once = {key: arrays[key] + most for key, (most, _) in counts.items()}
    all_of_them = {key: arrays[key] + every for key, (_, every) in counts.items()}
    # int and _Bool are counted as numbers: there are few
    statements = sum(every + len(RESULT.findall(bodies[key])) for key, (_, every) in counts.items())
    tables = 0
    for kind, entries in TABLE.findall(text):
        tables += (entries.count(",") + 1) * INTEGERS.get(kind, number.size)
    return [
        CallMemory(
            number.size * _deepest(name, at_once, calls),
            number.size * _deepest(name, all_of_them, calls),
            BYTES_PER_STATEMENT * statements,
            tables,
        )
        for name in names
    ]


def _live(body: str) -> tuple[int, int]:
    """How many of the values that a body defines are alive at once, at most, and how many there are."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    lines = body.splitlines()
    for k, text in enumerate(lines):
        for value in DEFINITION.findall(text):
            first.setdefault(value, k)
        for word in WORD.findall(text):
            if word in first:
                last[word] = k
    # a value lives from its definition up to the line that reads it last
    changes = Counter(first.values())
    changes.subtract(last.values())
    alive = most = 0
    for k in range(len(lines)):
        alive += changes[k]
        most = max(most, alive)
    return most, len(first)


def _deepest(name: str, own: Mapping[str, int], calls: Mapping[str, set[str]]) -> int:
    """The numbers of a function and of the call in it that takes most; no function of this text recurs."""
    return own[name] + max((_deepest(key, own, calls) for key in calls[name]), default=0)
