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
    r"\| (?P<state>[a-z ]+), (?P<size>[\d.e-]+) \| (?P<steps>\d+) \| [^|]+ \| (?P<time>[\d.]+) s "
    r"\| \[[\w.]+\]\((?P<file>certificates/\w+\.json)\) \|"
)
ROWS = {row["file"]: row for row in ROW.finditer((DOCS / "proofs.md").read_text(encoding="utf-8"))}
FAST = 10  # s, that the checker takes at most; other files are for slow tests
FILES = [
    pytest.param(file, marks=[pytest.mark.slow] * (float(row["time"]) > FAST)) for file, row in ROWS.items()
]


def test_each_certificate_has_a_row():
    files = {f"certificates/{path.name}" for path in (DOCS / "certificates").glob("*.json")}
    assert files == set(ROWS) and len(files) >= 5


@pytest.mark.parametrize("file", FILES)
def test_a_certificate_is_accepted_and_proves_what_its_row_says(file):
    row = ROWS[file]
    data = json.loads((DOCS / file).read_text(encoding="utf-8"))
    proof = liebody_check.check(data)
    # the bounds of the row contain the checker's, which would be rounded to 53 bits without more
    with flint.ctx.workprec(200):
        ends = [x.str(50, radius=False) for x in (proof.period.lower(), proof.period.upper())]
    low, high = map(Fraction, ends)
    middle, radius = Fraction(row["period"]), Fraction(row["radius"])
    assert middle - radius <= low < high <= middle + radius
    assert {"stable": True, "unstable": False}[row["state"]] is proof.stable
    assert float(proof.largest.mid()) == pytest.approx(float(row["size"]), rel=1e-5)
    phases = data["phases"] if "phases" in data else [data]
    assert sum(len(phase["durations"]) for phase in phases) == int(row["steps"])


def test_a_certificate_of_the_gallery_with_other_equations_is_refused():
    data = json.loads((DOCS / "certificates" / "simplest_walker.json").read_text(encoding="utf-8"))
    data["parameters"] = [[name, (2 * float.fromhex(x)).hex()] for name, x in data["parameters"]]
    with pytest.raises(liebody_check.Refused):
        liebody_check.check(data)
