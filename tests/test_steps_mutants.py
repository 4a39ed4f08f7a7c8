"""Each constant, sign, operation and comparison in the checker's steps.c is tested.

A mutant is steps.c with one of them changed. Tests of test_proofs_in_c.py are called with the library that is
compiled from it, in a process of its own, because a mutant may run for ever or crash. What no test finds is a
survivor: a gap of the tests, or a change that leaves all bounds proved. `HARMLESS` says of which lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import mutants
import pytest

pytest.importorskip("flint", reason="Arb is what balls are compared with")
import test_proofs_in_c as tests

from liebody_check import compiled

START = "/* -- balls"
SWAPS = {
    ".h": ".l",
    ".l": ".h",
    ".r": ".l",
    " + ": " - ",
    " - ": " + ",
    " * ": " / ",
    " / ": " * ",
    " += ": " -= ",
    " < ": " > ",
    " > ": " < ",
    " <= ": " < ",
    " && ": " || ",
    " || ": " && ",
    "(-": "(",
    "{-": "{",
    "= -": "= ",
    "return -": "return ",
    "? -": "? ",
    "opposite(": "(",
    "middle(": "(",
    "fabs(": "(",
    "size_of(": "(",
    "plus(": "minus(",
    "minus(": "plus(",
    "smallest(": "largest(",
    "largest(": "smallest(",
    "largest(x)": "fabs(x.h)",
    "sine": "cosine",
    "MORE": "LESS",
    "LESS": "MORE",
    "SHARE": "0.0",
}
SECONDS = 20  # of the processor, for one mutant; the text as it is takes two
GALLERY = [path for path in tests.GALLERY if path.stem in ("van_der_pol", "simplest_walker")]
# survivors, by function, change and line: why bounds are still proved, or why no test can tell
HARMLESS = {
    "several signs say that rounding is another one": [r"rounds_as_assumed: "],
    "memory is larger, or set before it is read": [
        r"(allocate|start_stepper): |check_function: .*(allocate|balls_of)\(",
        r"check_events: .*(allocate|memset)\(|check_events: 0 -> 1: int values",
        r"balls_of: 1 -> 2: .*malloc",
    ],
    "memory is there": [
        r"check_(steps|events): (&& -> \|\||0 -> 1): ok = ",
        r"advance: 0 -> 1: if \(!middle_of_it\)",
    ],
    "any number but zero is true": [
        r": 1 -> 2: (return arc|return 1|int (inside|meets|narrow) = 1|if \(inside\)|.*visit \?)",
        r"guard_in_box: 1 -> 2: evaluate\(",
    ],
    "a cosine is written behind the sine": [r":29: elementary: sine -> cosine: "],
    "n is even": [r"sine_and_cosine: 0 -> 1: for \(int n = 28"],
    "of one number for each state": [r"look: \* -> /: .*i \* m->numbers"],
    "there are no rows, or they are not read": [r"(look|check_steps): 0 -> 1: (set_arguments|evaluate)\("],
    "a ball with a radius that is no number is in no box; an infinite radius is true": [r"is_finite: "],
    "what is not finite at the end is not inside of a box before it": [
        r"advance: 0 -> 1: if \(!is_finite\(end"
    ],
    "the root of a negative number is no number": [
        r"root: (&& -> \|\||smallest\( -> largest\(): if",
        r"arc: 1\.0 -> 1\.25: if \(!\(most",
    ],
    "a larger radius has no exponential itself": [r"exponential: largest\(x\) -> .*700\.0"],
    "other factors MORE and LESS of each bound pay": [
        r"smallest: (\* -> /|LESS -> MORE|> -> <|0\.0 -> 1\.0): ",
        r"(root|angle|tangent|arc): (\* -> /|LESS -> MORE): .*LESS\)+;$",
        r"watch_step: (\* -> /|MORE -> LESS): if \(apart",
    ],
    "what SHARE adds to factors pays for some thousand operations": [r"make_block: SHARE -> 0\.0: "],
    "boxes have room for 2^-39 of their radius": [r"is_inside: (\* -> /|MORE -> LESS|LESS -> MORE): "],
    "boxes have room for 2^-84 of a number": [
        r":58: is_inside: \.h -> \.l",
        r"is_inside: (- -> \+|fabs\( -> \(|SHARE -> 0\.0|2\.0 -> \S+): ",
    ],
    "boxes have room for 2^-39 of the time": [
        r"step: (\* -> /|MORE -> LESS): (power|ball whole) = .*end \* MORE"
    ],
    "its least and its largest size differ by 2^-39 of it": [
        r"(inverse|exponential|logarithm): largest\( -> smallest\(: ",
        r"(sine_and_cosine|angle_of_middle|is_inside): largest\( -> smallest\(: ",
        r"(root|tangent|watch_step): smallest\( -> largest\(: ",
    ],
    "larger for d < 1, and for d > 1 the bound is d, or has room": [
        r":(32|44|86): sine_and_cosine: \* -> /: double of_sine|sine_and_cosine: 0\.5 -> 0\.625"
    ],
    "x dy - y dx is constant along a straight line, so the sizes of the middle are enough": [
        r"angle: (largest\( -> smallest\(|largest\(x\) -> fabs\(x\.h\)): .*y\.r \+ largest"
    ],
    "which one of two bounds is taken": [r"exponential: 0\.5 -> .*d < 0\.5"],
    "the two distances differ by 2^-53 of them, and `made` adds 2^-40": [r"between: > -> <"],
    "the two doubles are known to 2^-107; the radius has room": [
        r": 0x1(p-8[67]|\.\w+p-5[46]) -> \S+: static const ball"
    ],
    "a term with z^26 / 26! is below 2^-116": [
        r"exponential: (1\.0 -> \S+: ball y = number\(1\.0\);|26 -> 27)"
    ],
    "terms with z^28 / 28! are below 2^-102": [r"sine_and_cosine: 1\.0 -> .*: ball even = "],
    "remainders are at most half as large": [r": 0x1p-1(16|02|04|20) -> "],
    "rests are smaller": [
        r"exponential: 0\.5 -> .*largest\(z\) < 0\.5|sine_and_cosine: 1\.0 -> 1\.25: .*largest\(z\)"
    ],
    "remainders hold for guesses somewhat worse": [r": 0x1p-26 -> 1\.86"],
    "from where on sines are not computed; reductions hold beyond": [r"sine_and_cosine: 0x1p20 -> "],
    "it tells angles that differ by a turn": [r"angle_of_middle: 2\.0 -> 2\.5: "],
    "boxes are guesses, which are verified": [
        r"(with|somewhat_wider): ",
        r"find_remainder: .*(tries|m->box\[i \* n \+ j\] =)",
        r"step: 0\.02 -> ",
    ],
    "how often a step is halved": [
        r"advance: (\.h -> \.l|\* -> /|fabs\( -> \(|1\.0 -> \S+): .*narrow = 0;",
        r"advance: 0 -> 1: .*depth == 0",
        r"check_(steps|events): 5 -> 6: ",
    ],
    "how often a step is halved, and where": [
        r"advance: (0\.5 -> \S+: ball half|- -> \+: advance\(m, middle)"
    ],
    "how often a piece is halved": [r"scan: (0 -> 1|3 -> 4): if \(depth == 0|scan: = - -> =: : value"],
    "boxes reach as far on both sides of the path": [r"find_remainder: plus\( -> minus\(: ball moved"],
    "times lie on both sides of the centre alike": [r"scan: plus\( -> minus\(: .*times\(along, between"],
    "equal pieces are not counted together: runs are longer": [r"append_run: (> -> <|0 -> 1): if \(\*n > 0"],
    "pieces overlap": [r":32: watch_step: 0\.25 -> 0\.1875: look"],
}


def changes(text: str) -> Iterator[tuple[str, str]]:
    """(what is changed, changed text), with whole numbers that are one larger."""
    yield from mutants.mutants(text, START, SWAPS)
    yield from mutants.with_larger_whole_numbers(text, START)


def is_harmless(what: str) -> bool:
    return any(re.search(line, what) for lines in HARMLESS.values() for line in lines)


def _look_at_guesses(text: str) -> None:
    """With logarithms and angles of the C library that are nearly as wrong as they may be, or by a turn."""
    original = compiled.library
    try:
        wrong = text
        for guess in ("log(x.h)", "atan2(y.h, x.h)"):
            wrong = tests.with_guess(wrong, guess, 2.0**-26.3)
        library = compiled.compiled(wrong, ["-O0"])
        compiled.library = lambda: library
        tests.assert_guesses_do_not_matter(True)
        for turn in (1, -1):
            turned = tests.with_guess(text, "atan2(y.h, x.h)", turn * 2 * math.pi)
            off = compiled.compiled(turned, ["-O0"])
            compiled.library = lambda off=off: off
            tests.assert_no_angle_is_finite()
    finally:
        compiled.library = original


def cases(test: Any) -> list[tuple[Any, ...]]:
    """The arguments of a test with one mark `parametrize`."""
    mark = next(x for x in test.pytestmark if x.name == "parametrize")
    return [x if isinstance(x, tuple) else (x,) for x in mark.args[1]]


def look(text: str) -> None:
    """Tests of functions, series, steps and signs, the cheap ones first."""
    for name in tests.FUNCTIONS:
        tests.test_elementary_functions_of_numbers_contain_arbs_within_82_bits(name)
        tests.test_elementary_functions_of_balls_contain_the_values_of_their_ends(name)
    tests.test_functions_of_balls_with_radii_near_the_roundings_of_radii_contain_their_ends()
    tests.test_exponentials_of_very_wide_balls_contain_their_ends()
    tests.test_angles_contain_arbs_in_all_quarters()
    tests.test_angles_of_balls_across_an_axis_contain_those_of_their_corners()
    tests.test_sines_of_wide_balls_contain_their_turning_points()
    tests.test_what_has_no_bounds_is_not_finite()
    tests.test_sums_and_products_of_balls_contain_their_corners()
    tests.test_derivatives_of_products_contain_their_ends()
    tests.test_constants_and_parameters_keep_their_digits_and_radii()
    for test in (
        tests.test_series_of_each_operation_contain_arbs,
        tests.test_products_below_the_normal_numbers_are_contained,
        tests.test_boxes_of_remainders_reach_to_the_end_of_the_time,
        tests.test_fine_steps_are_halved_until_their_ends_are_narrow,
        tests.test_signs_along_steps_are_those_of_the_circle,
        tests.test_runs_of_several_guards_along_long_steps_are_those_in_python,
    ):
        for case in cases(test):
            test(*case)
    tests.test_a_parameter_that_moves_has_its_derivative()
    tests.test_another_direction_of_rounding_is_refused()
    tests.test_returns_meet_the_whole_box_of_the_start()
    tests.test_passes_through_the_start_are_seen_at_all_times_of_a_step()
    tests.test_conditions_need_their_sign()
    tests.test_signs_hold_for_all_durations_of_a_ball()
    with pytest.MonkeyPatch.context() as patch:
        tests.test_runs_that_do_not_fit_are_unknown(patch)
    tests.test_the_box_of_a_remainder_must_contain_the_motion()
    _look_at_guesses(text)
    for path in GALLERY:
        tests.test_steps_are_those_in_python_and_no_wider(path)
    tests.test_certificates_of_the_gallery_are_accepted_with_the_same_results(GALLERY[0])
    for sign in (1, -1):
        tests.test_steps_contain_closed_forms_and_never_pass_a_pole(sign)


def look_at_mutant(text: str) -> None:
    """All tests, with the library of a changed text."""
    try:
        library = compiled.compiled(text, ["-O0"])
    except compiled.Unavailable as error:
        if "does not compile" in str(error):
            raise mutants.NoProgram from error
        raise
    compiled.library = lambda: library
    tests.flint.ctx.prec, tests.flint.ctx.cap = 250, 64
    look(text)


@pytest.mark.wide
def test_the_text_as_it_is_passes_in_a_child():
    """So a mutant that is found is found because of its change."""
    assert mutants.outcome(look_at_mutant, compiled.SOURCE.read_text(encoding="utf-8"), SECONDS) == "survivor"


@pytest.mark.wide
def test_a_few_changed_texts_are_found():
    """One in eighty."""
    text = compiled.SOURCE.read_text(encoding="utf-8")
    every = [x for x in changes(text) if not is_harmless(x[0])]
    assert len(every) > 500
    some = every[:: len(every) // 12]
    assert [x for x in mutants.outcomes(look_at_mutant, some, SECONDS) if x[1] == "survivor"] == []


@pytest.mark.slow
def test_every_changed_text_is_found():
    text = compiled.SOURCE.read_text(encoding="utf-8")
    every = mutants.outcomes(look_at_mutant, changes(text), SECONDS)
    survivors = [what for what, outcome in every if outcome == "survivor"]
    assert [what for what in survivors if not is_harmless(what)] == []
