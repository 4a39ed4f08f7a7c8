"""Mutants of a program in C: texts with one sign, number, operation or comparison changed.

Tests must notice each of them. They look at a mutant in a process of its own, because it may run for ever or
crash.
"""

import faulthandler
import multiprocessing
import os
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait

FUNCTION = re.compile(
    r"^(?!typedef)[A-Za-z][\w *]*?(?:__attribute__\(\(\w+\)\) [\w *]*?)?(?!__attribute__)(\w+)\([^;{}]*\) \{",
    re.MULTILINE,
)
LITERAL = re.compile(r"(?<![\w.])(0x[0-9a-f.]+p[+-]?\d+|\d+\.\d+)")
WHOLE = re.compile(r"(?<![\w.+-])\d+(?![\w.])")
MEMORY = 8 << 30  # bytes that one mutant may take
FOUND, NO_PROGRAM = 1, 2  # exit statuses


class NoProgram(Exception):
    """The changed text does not compile, so that it is no mutant."""


def larger_or_smaller(literal: str) -> list[str]:
    """A literal with its last digit changed by one, both ways: one of these is no bound any more."""
    number = float.fromhex(literal) if "x" in literal else float(literal)
    if literal.startswith("0x") and "." in literal:
        digits, power = literal[2:].split("p")
        last = len(digits.partition(".")[2])
        unit = 16.0**-last * 2.0 ** int(power)
        return [(number + unit).hex(), (number - unit).hex()]
    return [repr(number * 1.25), repr(number * 0.75)] if number else ["1.0"]


class _Places:
    """The places of a text behind `start` that are code, and the mutants with a change there."""

    def __init__(self, text: str, start: str) -> None:
        self.text = text
        self.first = text.index(start)
        self.comments = [m.span() for m in re.finditer(r"/\*.*?\*/", text, re.DOTALL)]
        self.functions = [(m.start(), m[1]) for m in FUNCTION.finditer(text)]

    def is_code(self, place: int) -> bool:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        inside = any(a <= place < b for a, b in self.comments)
        return place > self.first and not inside and not line.startswith("#")

    def function_at(self, place: int) -> str:
        """The function in which a place lies, or behind which."""
        return next((name for start, name in reversed(self.functions) if start <= place), "")

    def changed(self, place: int, old: str, new: str) -> tuple[str, str]:
        text = self.text
        number = text.count("\n", 0, place) + 1
        line = text.splitlines()[number - 1].strip()
        column = place - text.rfind("\n", 0, place)
        what = f"{number}:{column}: {self.function_at(place)}: {old.strip()} -> {new.strip()}: {line}"
        return what, text[:place] + new + text[place + len(old) :]


def mutants(text: str, start: str, swaps: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(what is changed, changed text) for each place behind `start`: operations, and numbers with a point.

    What is changed reads "line:column: function: old -> new: text of the line".
    """
    places = _Places(text, start)
    for old, new in swaps.items():
        for match in re.finditer(re.escape(old), text):
            place = match.start()
            if places.is_code(place) and (not old[0].isalpha() or not text[place - 1].isidentifier()):
                yield places.changed(place, old, new)
    for match in LITERAL.finditer(text):
        if places.is_code(match.start()):
            for new in larger_or_smaller(match[0]):
                yield places.changed(match.start(), match[0], new)


def with_larger_whole_numbers(text: str, start: str) -> Iterator[tuple[str, str]]:
    """(what is changed, changed text) for each whole number behind `start`."""
    places = _Places(text, start)
    for match in WHOLE.finditer(text):
        if places.is_code(match.start()):
            yield places.changed(match.start(), match[0], str(int(match[0]) + 1))


def _in_child(look: Callable[[str], None], text: str, seconds: int) -> None:
    faulthandler.disable()  # a crash is no failure here
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        look(text)
    except NoProgram:
        os._exit(NO_PROGRAM)
    except BaseException:  # whatever it is, tests have noticed
        os._exit(FOUND)
    os._exit(0)


def outcomes(
    look: Callable[[str], None], texts: Iterable[tuple[str, str]], seconds: int
) -> Iterator[tuple[str, str]]:
    """(what is changed, outcome) of mutants, in the order in which their processes end.

    look      raises an exception where a test fails, and NoProgram where the text does not compile
    seconds   of the processor, for one mutant: one that takes longer is found

    Outcomes: "found", "no program", "survivor", or "killed" by a signal: it crashed, or took too long.
    """
    context = multiprocessing.get_context("fork")
    running: dict[int, tuple[str, multiprocessing.process.BaseProcess]] = {}
    waiting = iter(texts)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    while True:
        while len(running) < cores and (pair := next(waiting, None)):
            what, text = pair
            child = context.Process(target=_in_child, args=(look, text, seconds), daemon=True)
            child.start()
            running[child.sentinel] = what, child
        if not running:
            return
        for sentinel in wait([*running]):
            what, child = running.pop(sentinel)
            child.join()
            names = {0: "survivor", FOUND: "found", NO_PROGRAM: "no program"}
            yield what, names.get(child.exitcode, "killed")


def outcome(look: Callable[[str], None], text: str, seconds: int) -> str:
    """The outcome of one text."""
    ((_, result),) = outcomes(look, [("", text)], seconds)
    return result
