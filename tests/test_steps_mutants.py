"""Each constant, sign, operation and comparison in the checker's steps.c is tested.

A mutant is steps.c with one of them changed. Tests of test_proofs_in_c.py are called with the library that is
compiled from it, in a process of its own, because a mutant may run for ever or crash. What no test finds is a
survivor: a gap of the tests, or a change that leaves all bounds proved. `HARMLESS` says of which lines.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
from collections.abc import Iterator

import pytest

pytest.importorskip("flint", reason="Arb is what balls are compared with")
import test_proofs_in_c as tests
from test_interval_mutants import mutants

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
WHOLE = re.compile(r"(?<![\w.+-])\d+(?![\w.])")
SECONDS = 30  # of the processor, for one mutant; the text as it is takes two
GALLERY = [path for path in tests.GALLERY if path.stem in ("van_der_pol", "simplest_walker")]
HARMLESS = {
    r"isfinite\(x\.h\)": "numbers that are not finite have no finite radius, nor a finite l",
    r"\bok\b|if \(!\w+\) (return|break)|alloc|free|memset": "memory that is there",
    r"volatile double|(one|-) [+-] |p \* p|sqrt\(2\.0|nan": "several signs say that rounding is another one",
    r"two_product\(p|two_sum\((one|tiny)|E\[i\]|block P": "several signs say that rounding is another one",
    r"double apart = smallest": "the least and the largest size of a number differ by 2^-40 of it",
    r"(0x1p-26|0x1p20|700\.0|largest\(z\) < )": "from where on nothing is known; remainders hold beyond",
    r"fine \* \(1\.0 \+": "how narrow ends of steps from numbers should be",
    r"(LESS|MORE) -> .*(least \* LESS|\* LESS\)\)|sqrt\()": "bounds of first order have more room than 2^-40",
    r"static const ball (LN2|HALF_PI) = .*0x1p-8": "the two doubles are known to 2^-107; see their test",
    r"0x1p-8\d -> .*static const ball": "the two doubles are known to 2^-107; see their test",
    r"0x1p-1(16|02|20|04) -> ": "remainders are below what SHARE pays for",
    r"(0\.2|0\.02|0x1p-30|0x1p-60|tries|0\.5 \* time\.h)": "how boxes are guessed; they are verified",
    r"int (meets|narrow|inside) = 1": "any number but zero is true",
    r"-condition\.direction": "when pieces are halved; their signs decide",
    r"return made\(x\.h, x\.l, x\.r > r": "how boxes are guessed; they are verified",
    r"double r = largest\(minus": "how boxes are guessed; they are verified",
    r"return wider\(x, x\.r \* share": "how boxes are guessed; they are verified",
}


def changes(text: str) -> Iterator[tuple[str, str]]:
    """(what is changed, changed text), with whole numbers that are one larger."""
    yield from mutants(text, START, SWAPS)
    comments = [m.span() for m in re.finditer(r"/\*.*?\*/", text, re.DOTALL)]
    for match in WHOLE.finditer(text, text.index(START)):
        place = match.start()
        line = text[text.rfind("\n", 0, place) + 1 : text.index("\n", place)]
        if any(a <= place < b for a, b in comments) or line.startswith("#"):
            continue
        number = text.count("\n", 0, place) + 1
        column = place - text.rfind("\n", 0, place)
        new = str(int(match[0]) + 1)
        what = f"{number}:{column}: {match[0]} -> {new}: {line.strip()}"
        yield what, text[:place] + new + text[match.end() :]


def is_harmless(what: str) -> bool:
    return any(re.search(line, what) for line in HARMLESS)


def _look_at_guesses(text: str) -> None:
    """With logarithms and angles of the C library that are nearly as wrong as they may be."""
    for guess in ("log(x.h)", "atan2(y.h, x.h)"):
        text = text.replace(guess, f"({guess} + {2.0**-26.3!r})")
    original = compiled.library
    library = compiled.compiled(text, ["-O0"])
    compiled.library = lambda: library
    tests.assert_guesses_do_not_matter(True)
    compiled.library = original


def look(text: str) -> None:
    """Tests of functions, series, steps and signs, the cheap ones first."""
    for name in tests.FUNCTIONS:
        tests.test_elementary_functions_of_numbers_contain_arbs_within_82_bits(name)
        tests.test_elementary_functions_of_balls_contain_the_values_of_their_ends(name)
    tests.test_angles_contain_arbs_in_all_quarters()
    tests.test_sines_of_wide_balls_contain_their_turning_points()
    tests.test_what_has_no_bounds_is_not_finite()
    _look_at_guesses(text)
    tests.test_sums_and_products_of_balls_contain_their_corners()
    for op in tests.OPERATIONS:
        tests.test_series_of_each_operation_contain_arbs(op)
    for power in (-480, -500, -530, -560, -700):
        tests.test_products_below_the_normal_numbers_are_contained(power)
    tests.test_a_parameter_that_moves_has_its_derivative()
    tests.test_another_direction_of_rounding_is_refused()
    for mark in tests.test_signs_along_steps_are_those_of_the_circle.pytestmark:
        for case in mark.args[1]:
            tests.test_signs_along_steps_are_those_of_the_circle(*case)
    tests.test_conditions_need_their_sign()
    tests.test_signs_hold_for_all_durations_of_a_ball()
    with pytest.MonkeyPatch.context() as patch:
        tests.test_runs_that_do_not_fit_are_unknown(patch)
    tests.test_the_box_of_a_remainder_must_contain_the_motion()
    for sign in (1, -1):
        tests.test_steps_contain_closed_forms_and_never_pass_a_pole(sign)
    for path in GALLERY:
        tests.test_steps_are_those_in_python_and_no_wider(path)
    tests.test_certificates_of_the_gallery_are_accepted_with_the_same_results(GALLERY[0])


def _in_child(text: str) -> None:
    """Leave with status 0 where no test finds the changed text."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    library = compiled.compiled(text, ["-O0"])
    compiled.library = lambda: library
    tests.flint.ctx.prec, tests.flint.ctx.cap = 250, 64
    look(text)


def is_found(text: str) -> bool:
    """Whether tests find a changed text: they fail, crash, or take too long."""
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(text,), daemon=True)
    child.start()
    child.join()
    return child.exitcode != 0


@pytest.mark.wide
def test_the_text_as_it_is_passes_in_a_child():
    """So a mutant that is found is found because of its change."""
    assert not is_found(compiled.SOURCE.read_text(encoding="utf-8"))


@pytest.mark.wide
def test_a_few_changed_texts_are_found():
    """One in eighty."""
    text = compiled.SOURCE.read_text(encoding="utf-8")
    every = [x for x in changes(text) if not is_harmless(x[0])]
    assert len(every) > 500
    for what, changed in every[:: len(every) // 12]:
        assert is_found(changed), what


@pytest.mark.slow
def test_every_changed_text_is_found():
    text = compiled.SOURCE.read_text(encoding="utf-8")
    survivors = [what for what, changed in changes(text) if not is_found(changed)]
    assert [what for what in survivors if not is_harmless(what)] == []
