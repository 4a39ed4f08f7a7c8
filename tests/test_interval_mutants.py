"""Each constant, sign, operation and direction of rounding in interval.h and interval_sums.h is tested.

A mutant is a header with one of them changed. Tests of test_intervals.py are called with libraries that are
compiled from it, in a process of its own, because a mutant may run for ever or crash. What no test finds is a
survivor: a gap of the tests, or a change that leaves all bounds proved. `HARMLESS` says of which lines.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("flint", reason="Arb is what intervals are compared with")
import test_interval_sums as sums
import test_intervals as tests

from liebody.compiler.native import intervals as native
from liebody.compiler.runtime import runtime

SWAPS = {
    ".minus": ".upper",
    ".upper": ".minus",
    "larger(": "smaller(",
    "larger_lanes(": "_mm256_min_pd(",
    "minus *": "upper *",
    "upper *": "minus *",
    "smaller(": "larger(",
    "plus(": "less(",
    "less(": "plus(",
    " + ": " - ",
    " - ": " + ",
    " * ": " / ",
    " < ": " > ",
    " > ": " < ",
    "opposite(": "(",
    "(-": "(",
    "{-": "{",
    "-minus ": "minus ",
    "-upper ": "upper ",
    "-X ": "X ",
}
LITERAL = re.compile(r"(?<![\w.])(0x[0-9a-f.]+p[+-]?\d+|\d+\.\d+)")
TIMEOUT = 240  # seconds of one mutant


def larger_or_smaller(literal: str) -> list[str]:
    """A literal with its last digit changed by one, both ways: one of these is no bound any more."""
    number = float.fromhex(literal) if "x" in literal else float(literal)
    if literal.startswith("0x") and "." in literal:
        digits, power = literal[2:].split("p")
        last = len(digits.partition(".")[2])
        unit = 16.0**-last * 2.0 ** int(power)
        return [(number + unit).hex(), (number - unit).hex()]
    return [repr(number * 1.25), repr(number * 0.75)] if number else ["1.0"]


def mutants(text: str, start: str, swaps: dict[str, str] = SWAPS) -> Iterator[tuple[str, str]]:
    """(what is changed, changed text) for each place of a header behind `start`."""
    comments = [m.span() for m in re.finditer(r"/\*.*?\*/", text, re.DOTALL)]
    first = text.index(start)

    def is_code(place: int) -> bool:
        line = text[text.rfind("\n", 0, place) + 1 : place]
        return place > first and not any(a <= place < b for a, b in comments) and not line.startswith("#")

    def changed(place: int, old: str, new: str) -> tuple[str, str]:
        number = text.count("\n", 0, place) + 1
        line = text.splitlines()[number - 1].strip()
        column = place - text.rfind("\n", 0, place)
        return f"{number}:{column}: {old.strip()} -> {new.strip()}: {line}", text[:place] + new + text[
            place + len(old) :
        ]

    for old, new in swaps.items():
        for match in re.finditer(re.escape(old), text):
            place = match.start()
            if is_code(place) and (not old[0].isalpha() or not text[place - 1].isidentifier()):
                yield changed(place, old, new)
    for match in LITERAL.finditer(text):
        if is_code(match.start()):
            for new in larger_or_smaller(match[0]):
                yield changed(match.start(), match[0], new)


def look_at_arithmetic(text: str) -> None:
    """Tests of operations and elementary functions, the cheap ones first."""
    tests.flint.ctx.prec = 200
    tests.test_constants_of_the_reductions_enclose_what_they_stand_for(text)
    plain = tests.library(lambda y: y, 1)
    random = np.random.default_rng(5)
    for name in tests.EXACT:
        tests.assert_contain(plain, name, tests.DRAWN[name](random, 1000))
        edges = tests.EDGES[name]
        z = plain.combine(name, tests.exactly(edges)).reshape(len(edges), -1, 2)
        for a, row in zip(edges.tolist(), z):
            assert not any(map(tests.misses, row, tests.EXACT[name](tests.arb(a))))
    refused = tests.test_what_has_no_bounds_is_refused
    for case in refused.pytestmark[0].args[1]:
        refused(plain, *case)
    tests.test_angles_contain_arbs_in_all_quarters(plain)
    for name in ("sincos", "exp", "log", "arctan", "sqrt", "square"):
        tests.test_functions_of_wide_intervals_contain_the_values_within_and_no_more(plain, name)
    tests.test_operations_of_two_numbers_are_rounded_to_the_neighbours_of_the_exact_result(plain)
    tests.test_operations_of_wide_intervals_contain_the_results_of_their_bounds_and_no_more(plain)
    tests.test_calls_leave_the_rounding_of_the_thread_as_it_was(plain)
    tests.test_sines_stay_within_one_and_are_known_to_be_there_for_any_number(plain)
    for moved in (2.0**-12, -(2.0**-12)):
        tests.test_nothing_is_assumed_of_the_guesses_of_the_c_library(moved)
    look_at_steps()


def look_at_steps() -> None:
    """Tests of functions, and of motions with their derivatives."""
    tests.flint.ctx.prec = 200
    tests.test_boxes_of_motions_contain_motions_from_points_of_a_box(None)
    for sign in (1, -1):
        tests.test_long_steps_of_low_order_are_refused_or_contain_the_motion(sign)
    tests.test_values_and_slopes_contain_those_of_arb(None)
    tests.test_steps_contain_those_of_arb_with_their_derivatives()


def look_at_sums(text: str) -> None:
    """Sums of products in vectors and one by one."""
    for kind in ("vectors", "one by one"):
        for directions in (0, 1, 6):
            sums.check(kind, directions, text)


LOOKS = {"interval.h": look_at_arithmetic, "interval_sums.h": look_at_sums}
STARTS = {"interval.h": "/* -- arithmetic", "interval_sums.h": "#define WIDTH"}
# survivors, by the change and its line: why bounds are still proved, or why no test can tell
HARMLESS = {
    r"\.upper -> \.minus: \} else if \(x\.upper <= 0\.0\)": "the last case holds for every x",
    r":(26|49): .*Scalar n = floor": "any integer n will do that leaves a small rest",
    r"(0x1p19|0x1p18) -> ": "from where on an angle is not reduced; products are exact well beyond",
    r":26: (1\.0 -> 1\.25|0\.5 -> ).*magnitude\(r\) < ": "rests are smaller, by the choice of n",
    r":(46|48|77|79): .*\{smaller": "both bounds of the range are 1",
    r"1\.0 -> 1\.25: Interval range": "sums that are rounded upwards do not pass 1 at the points of the test",
    r"1\.0 -> .*\*sine = \*cosine = .*1\.0\};": "of angles that the caller has excluded",
    r":(19|24|53|58): .*p = \{0\.0, [12]\.0\}": "it starts a recurrence that divides it by 20! and more",
    r":18: less\( -> plus\(.*point\(n \* L2\)": "n L3 < 2e-18 is less than what is rounded beside it",
    r"(1000\.0 -> 1250\.0|0x1p-999 -> ).*n < -1000\.0": "e^x is in range beyond, and at most 2^-1000.5 there",
    r":(15|32): 0x1p.*x < 0x1p1000": "from where on logarithms are given up",
    r"0\.0 -> 1\.0: if \(!\(below": "where the cosine is negative and the quotient small, it is below -1",
    r"(700\.0|0x1p-10|1\.571) -> ": "how bad a guess may be; remainders hold for guesses much worse",
    r"0\.5 -> .*Scalar half": "two powers with the product 2^n, whatever the first one is",
    r":56: plus\( -> less\(.* half_pi\(void\)": "P3 is 0.02 of a last digit, P1 + P2 0.25 off",
    r"0\.0 -> 1\.0: if \(y\.upper < 0\.0\)": "the quotient by an interval with zero is refused",
}


def is_harmless(what: str) -> bool:
    return any(re.search(line, what) for line in HARMLESS)


def _in_child(header: str, text: str) -> None:
    """Leave with status 0 where no test finds the changed header."""
    source = native.interval_source
    original = runtime(header)
    native.interval_source = lambda *a: source(*a).replace(original, text)
    native.FLAGS = ["-O0" if flag == "-O2" else flag for flag in native.FLAGS]
    sums.FLAGS = native.FLAGS
    LOOKS[header](text)


def is_found(header: str, text: str) -> bool:
    """Whether tests find a changed header: they fail, crash, or take too long."""
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(header, text), daemon=True)
    child.start()
    child.join(TIMEOUT)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode != 0


@pytest.mark.wide
def test_the_headers_as_they_are_pass_in_a_child():
    """So a mutant that is found is found because of its change."""
    for header in LOOKS:
        assert not is_found(header, runtime(header))


def test_a_few_changed_headers_are_found():
    """Six of each header."""
    for header, least in (("interval.h", 250), ("interval_sums.h", 90)):
        every = [x for x in mutants(runtime(header), STARTS[header]) if not is_harmless(x[0])]
        assert len(every) > least
        for what, text in every[:: len(every) // 5]:
            assert is_found(header, text), what


@pytest.mark.slow
@pytest.mark.parametrize("header", LOOKS)
def test_every_changed_header_is_found(header):
    changes = mutants(runtime(header), STARTS[header])
    survivors = [what for what, text in changes if not is_found(header, text)]
    assert [what for what in survivors if not is_harmless(what)] == []
