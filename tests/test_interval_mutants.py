"""Each constant, sign, index, operation and direction of rounding in the headers of intervals is tested.

A mutant is a header with one of them changed. Tests of intervals are called with libraries that are compiled
from it, in a process of its own, because a mutant may run for ever or crash. What no test finds is a
survivor: a gap of the tests, or a change that leaves all bounds proved. `HARMLESS` says of which lines.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator

import mutants
import numpy as np
import pytest

pytest.importorskip("flint", reason="Arb is what intervals are compared with")
import test_interval_motions as motions
import test_interval_sums as sums
import test_intervals as tests
import test_intervals_extended as extended

from liebody.base.errors import CompilerError
from liebody.compiler import IntervalLibrary
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
SWAPS_OF_SERIES = SWAPS | {
    "over(": "times(",
    "times(": "over(",
    "number_plus(": "number_taken_from(",
    "number_opposite(": "(",
    "value": "along",
    "a, y,": "y, a,",
    "y, a,": "a, y,",
    "!inside": "inside",
    " <= ": " < ",
}
STARTS = {
    "interval.h": "/* -- arithmetic",
    "interval_arrays.h": "/* A number times",
    "interval_sums.h": "#define WIDTH",
    "taylor.h": "static inline void read_number",
    "flow_enclosure.h": "static inline int even",
}
OF_SERIES = {"taylor.h", "flow_enclosure.h"}
SECONDS = 120  # of the processor, for one mutant: the text as it is takes ten


def look_at_sums(text: str) -> None:
    """Sums of products in vectors and one by one."""
    for kind in ("vectors", "one by one"):
        for directions in (0, 1, 6):
            sums.check(kind, directions, text)


def look() -> None:
    """Tests of operations, elementary functions and motions in both precisions, the cheap ones first."""
    plain = tests.library(tests.all_operations, 2)
    look_at_doubles(plain)
    tests.test_values_and_slopes_contain_those_of_arb()
    tests.flint.ctx.prec = 250
    if native.has_extended_precision():
        look_at_80_bits(extended.library(tests.all_operations, 2))
    for moved in (2.0**-12, -(2.0**-12)):
        tests.test_nothing_is_assumed_of_the_guesses_of_the_c_library(moved)
    look_at_motions()


def look_at_motions() -> None:
    motions.test_boxes_of_motions_contain_motions_from_points_of_a_box()
    for sign in (1, -1):
        motions.test_long_steps_of_low_order_are_refused_or_contain_the_motion(sign)
    motions.test_steps_contain_those_of_arb_with_their_derivatives()


def look_at_series() -> None:
    """Tests of functions along motions, of remainders and of many boxes, too."""
    tests.test_values_and_slopes_contain_those_of_arb()
    tests.flint.ctx.prec = 250
    pair = motions.two_parts()
    for order, part in itertools.product((1, 3, 12, 30), (None, 0)):
        motions.test_bounds_along_motions_contain_closed_forms_and_little_more(pair, order, part)
    for n, order_of_states in itertools.product((2, 3, 4), ("yztK", "Ktyz", "zKyt")):
        motions.test_boxes_of_remainders_reach_to_the_end_of_the_time(n, order_of_states)
    motions.test_a_time_before_the_start_is_refused(pair)
    motions.test_many_boxes_in_one_call_have_the_bounds_of_each()
    look_at_motions()


def look_at_doubles(plain: IntervalLibrary) -> None:
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
    tests.assert_numbers_are_rounded_to_neighbours(plain, 100)
    tests.assert_wide_operations_contain_corners(plain, 300)
    tests.test_products_of_matrices_contain_the_exact_ones_and_no_more(plain)
    tests.test_calls_leave_the_rounding_of_the_thread_as_it_was(plain)
    tests.test_sines_stay_within_one_and_are_known_to_be_there_for_any_number(plain)


def look_at_80_bits(plain: IntervalLibrary) -> None:
    random = np.random.default_rng(15)
    for name in tests.EXACT:
        tests.assert_contain(plain, name, extended.with_more_digits(tests.DRAWN[name](random, 300)))
        extended.test_elementary_functions_contain_arbs_at_the_edges(plain, name)
    extended.test_angles_contain_arbs_in_all_quarters_and_are_narrow(plain)


# survivors, by column, function, change and line: why bounds are still proved, or why no test can tell
HARMLESS = {
    "the factor beside it is zero": [r"probe_apart: 0\.0 -> 1\.0: Interval [ab]\[2\]"],
    "the last case holds for every x": [r"\.upper -> \.minus: \} else if \(x\.upper <= 0\.0\)"],
    "n L3 < 2e-18 is less than what is rounded beside it in doubles": [
        r":18: exponential_at: less\( -> plus\("
    ],
    "any integer n will do that leaves a small rest": [r": (0x1\.\S+|0\.5) -> \S+: Scalar n = floor"],
    "from where on an angle is not reduced; products are exact well beyond": [r": (0x1p19|0x1p18) -> "],
    "rests are smaller, by the choice of n": [r": (1\.0 -> 1\.25|0\.5 -> \S+): if \(!\(magnitude\(r\) < "],
    "both bounds of the range are 1": [r":(46|48|77|79): sine_and_cosine: .*\{smaller"],
    "bounds are not cut, so they are wider": [r"sine_and_cosine: 1\.0 -> 1\.25: Interval range"],
    "of angles that the caller has excluded": [r"sine_and_cosine: 1\.0 -> .*\*sine = \*cosine = .*1\.0\};"],
    "it starts a recurrence that divides it by 20! and more": [r":(19|24|53|58): .*p = \{0\.0, [12]\.0\}"],
    "e^x is in range beyond, and at most 2^-1000.5 there": [
        r"(1000\.0 -> 1250\.0|0x1p-999 -> ).*n < -1000\.0"
    ],
    "from where on logarithms are given up": [r"logarithm_at: 0x1p\S+ -> .*x < 0x1p1000"],
    "where the quotient is small and the cosine negative, that is below -1": [
        r"arctangent_at: 0\.0 -> 1\.0: if \(!\(below"
    ],
    "how bad a guess may be; remainders hold for guesses much worse": [r": (700\.0 -> 875\.0|0x1p-10 -> )"],
    "two powers with the product 2^n, whatever the first one is": [r"exponential_at: 0\.5 -> .*Scalar half"],
    "P3 is 0.02 of a last digit or less, P1 + P2 0.25 off": [r":56: half_pi: plus\( -> less\("],
    "of no terms there is a sum, zero": [r"(products|weighted): <= -> <: if"],
    "memory is larger": [r"2 -> 3: .*malloc\("],
    "memory that is too small goes unnoticed where nothing else lies behind it": [
        r"malloc\(nodes_of\[part\] "
    ],
    "boxes are guesses, which are verified": [
        r"inflated: 0x1p-[24]0 -> ",
        r"remain_in_a_box: (0\.(1|01) -> \S+|\* -> /|\+ -> -|1 -> 2): .*inflated\(",
        r"remain_in_a_box: (0 -> 1|8 -> 9): for \(int tries",
    ],
    "a failure is told beside": [r"remain_in_a_box: 0 -> 1: return 0;"],
    "any number but zero is true": [
        r"remain_in_a_box: 1 -> 2: (int found = 1|if \(found\))",
        r"remainders: 1 -> 2: .*-1, 1, out",
    ],
    "no directions, or results, are asked for": [
        r"end_apart: 0 -> 1: (motion_series|polynomial)\(|remainders: 0 -> 1: .*out, 0\);"
    ],
    "the quotient by an interval with zero is refused": [r"angle: 0\.0 -> 1\.0: if \(y\.upper < 0\.0\)"],
}


def is_harmless(what: str) -> bool:
    return any(re.search(line, what) for lines in HARMLESS.values() for line in lines)


def look_at_mutant(header: str, text: str) -> None:
    """All tests, with libraries of the changed header."""
    source = native.interval_source
    native.interval_source = lambda *a: source(*a).replace(runtime(header), text)
    native.FLAGS = ["-O0" if flag == "-O2" else flag for flag in native.FLAGS]
    sums.FLAGS = native.FLAGS
    tests.flint.ctx.prec = 250
    if header == "interval.h":
        tests.test_constants_of_the_reductions_enclose_what_they_stand_for(text)
    try:
        if header == "interval_sums.h":
            look_at_sums(text)
        elif header in OF_SERIES:
            look_at_series()
        else:
            look()
    except CompilerError as error:
        if "stopped with exit status" in str(error):
            raise mutants.NoProgram from error
        raise


def changes(header: str) -> Iterator[tuple[str, str]]:
    text, start = runtime(header), STARTS[header]
    if header not in OF_SERIES:
        return mutants.mutants(text, start, SWAPS)
    whole = mutants.with_larger_whole_numbers(text, start)
    return itertools.chain(mutants.mutants(text, start, SWAPS_OF_SERIES), whole)


def outcomes(header: str, texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*mutants.outcomes(functools.partial(look_at_mutant, header), texts, SECONDS)]


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    """So that libraries of mutants do not stay in the user's."""
    monkeypatch.setenv("LIEBODY_CACHE", str(tmp_path / "cache"))


@pytest.mark.wide
@pytest.mark.parametrize("header", STARTS)
def test_the_headers_as_they_are_pass_in_a_child(header):
    """So a mutant that is found is found because of its change."""
    assert outcomes(header, [("as it is", runtime(header))]) == [("as it is", "survivor")]


@pytest.mark.parametrize(
    ("header", "least"),
    [("interval.h", 250), ("interval_sums.h", 90), ("taylor.h", 200), ("flow_enclosure.h", 150)],
)
def test_a_few_changed_headers_are_found(header, least):
    """Six of each."""
    if header == "interval_sums.h" and not sums.ON_X86:
        pytest.skip("the vectors of this header are not compiled here")
    every = [x for x in changes(header) if not is_harmless(x[0])]
    assert len(every) > least
    some = every[:: len(every) // 5]
    assert [x for x in outcomes(header, some) if x[1] == "survivor"] == []


@pytest.mark.slow
@pytest.mark.parametrize("header", STARTS)
def test_every_changed_header_is_found(header):
    survivors = [what for what, outcome in outcomes(header, changes(header)) if outcome == "survivor"]
    assert [what for what in survivors if not is_harmless(what)] == []
