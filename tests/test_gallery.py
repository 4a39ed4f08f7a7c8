"""The checker accepts every certificate of the gallery in docs/proofs.md, and proves what its row says."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("flint", reason="the checker is built on Arb")
import flint

import liebody_check

DOCS = Path(__file__).parents[1] / "docs"
ROW = re.compile(
    r"\| (?P<name>[^|]+) \| (?P<period>[\d.]+) \+- (?P<radius>[\d.e-]+) "
    r"\| (?P<state>[a-z]+), (?P<below>below )?(?P<size>[\d.e-]+) \| (?P<steps>\d+) "
    r"\| [^|]+ \| (?P<time>[\d.]+) s \| \[[\w.]+\]\((?P<file>certificates/\w+\.json)\) \|"
)
FAMILY = re.compile(
    r"\| (?P<name>[^|]+) \| (?P<parts>\d+) of (?P<unknowns>\d+) "
    r"\| (?P<period>[\d.]+) \+- (?P<radius>[\d.e-]+) \| (?P<state>[a-z ]+) \| [^|]+ \| (?P<time>[\d.]+) s "
    r"\| \[[\w.]+\]\((?P<file>certificates/\w+\.json)\) \|"
)
PAGE = (DOCS / "proofs.md").read_text(encoding="utf-8")
ROWS = {row["file"]: row for row in ROW.finditer(PAGE)}
FAMILIES = {row["file"]: row for row in FAMILY.finditer(PAGE)}
FAST = 10  # s, that the checker takes at most; other files are for slow tests
STATES = {"stable": True, "unstable": False, "not decided": None}


def files_of(rows):
    return [
        pytest.param(file, marks=[pytest.mark.slow] * (float(row["time"]) > FAST))
        for file, row in rows.items()
    ]


def test_each_certificate_has_a_row():
    files = {f"certificates/{path.name}" for path in (DOCS / "certificates").glob("*.json")}
    assert files == {*ROWS, *FAMILIES} and len(ROWS) >= 7 and len(FAMILIES) >= 2


def number_bounds(ball):
    """The bounds of a ball, which would be rounded to 53 bits without more."""
    with flint.ctx.workprec(200):
        return [Fraction(x.str(50, radius=False)) for x in (ball.lower(), ball.upper())]


def within(row, *balls):
    """Whether the bounds of a row contain the checker's."""
    middle, radius = Fraction(row["period"]), Fraction(row["radius"])
    ends = [x for ball in balls for x in number_bounds(ball)]
    return middle - radius <= min(ends) and max(ends) <= middle + radius


@pytest.mark.parametrize("file", files_of(ROWS))
def test_a_certificate_is_accepted_and_proves_what_its_row_says(file):
    row = ROWS[file]
    data = json.loads((DOCS / file).read_text(encoding="utf-8"))
    proof = liebody_check.check(data)
    assert within(row, proof.period)
    assert STATES[row["state"]] is proof.stable
    size = float(row["size"])
    if row["below"]:
        assert proof.largest.upper() < size
    else:
        assert float(proof.largest.mid()) == pytest.approx(size, rel=1e-5)
    phases = data["phases"] if "phases" in data else [data]
    assert sum(len(phase["durations"]) for phase in phases) == int(row["steps"])


@pytest.mark.parametrize("file", files_of(FAMILIES))
def test_a_family_is_accepted_and_proves_what_its_row_says(file):
    row = FAMILIES[file]
    data = json.loads((DOCS / file).read_text(encoding="utf-8"))
    proof = liebody_check.check(data)
    assert len(proof.parts) == int(row["parts"])
    assert {len(part.part.centre) for part in proof.parts} == {int(row["unknowns"])}
    assert within(row, *(part.period for part in proof.parts))
    assert STATES[row["state"]] is proof.stable


@pytest.mark.parametrize("file", FAMILIES)
def test_a_part_of_a_family_is_accepted_and_not_without_its_place(file):
    """Its middle part alone; the chain of all parts is checked where that does not take minutes."""
    data = json.loads((DOCS / file).read_text(encoding="utf-8"))
    part = data["parts"][len(data["parts"]) // 2]
    alone = {**data, "parts": [part]}
    names = [name for name, _ in data["parameters"]]
    alone["parameters"] = [*map(list, data["parameters"])]
    alone["parameters"][names.index(data["parameter"])][1] = part["bounds"]
    assert len(liebody_check.check(alone).parts) == 1
    moved = [(float.fromhex(x) + 2 * float.fromhex(r)).hex() for x, r in zip(part["centre"], part["radius"])]
    with pytest.raises(liebody_check.Refused):
        liebody_check.check({**alone, "parts": [{**part, "centre": moved}]})


def test_a_certificate_of_the_gallery_with_other_equations_is_refused():
    data = json.loads((DOCS / "certificates" / "simplest_walker.json").read_text(encoding="utf-8"))
    data["parameters"] = [[name, (2 * float.fromhex(x)).hex()] for name, x in data["parameters"]]
    with pytest.raises(liebody_check.Refused):
        liebody_check.check(data)
