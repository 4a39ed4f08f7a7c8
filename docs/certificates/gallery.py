"""The gallery of docs/proofs.md: proves orbits, writes their certificates, has them checked, makes the table.

    python docs/certificates/gallery.py

Times are processor time, without that of the compiler. tests/test_gallery.py checks the files.
"""

from __future__ import annotations

import re
import runpy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import liebody as lb
import liebody_check
from liebody.gaits import Certificate, periodic_orbit, prove, prove_field
from liebody.scalars import cos, sin, where

HERE = Path(__file__).parent
PAGE = HERE.parent / "proofs.md"
MARKS = "<!-- gallery, by certificates/gallery.py -->\n", "<!-- end of the gallery -->\n"


def van_der_pol(mu: float, guess: float) -> Callable[[], Certificate]:
    oscillator = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": mu},
        name="van der Pol",
    )
    orbit = periodic_orbit(oscillator, [2.0], [0.0], period=guess, dt=5e-3, method="rkmk8")
    return lambda: prove(orbit)


def roessler(y: Any) -> list[Any]:
    return [-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]


def simplest_walker() -> Callable[[], Certificate]:
    """Garcia, Chatterjee, Ruina, Coleman (1998), on a slope of 0.009."""

    def field(t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        c = cos(q[0] - p.slope)
        return np.array([sin(q[0] - p.slope), (c - v[0] ** 2) * sin(q[0] - q[1])])

    def update(t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        c = cos(q[0] - q[1])
        after = q[::-1], np.array([c * v[0], c * c * v[0]])
        here = events.strike < 0
        return *(np.array([where(here, a, b) for a, b in zip(*x)]) for x in zip(after, (q, v))), z

    walker = lb.HybridSystem(
        lb.groups.R(2), field, parameters={"slope": 0.009}, update=update, directions={"strike": -1},
        guards=lambda t, q, v, z, p: {"strike": q[0] + q[1]}, name="simplest walker",
    )  # fmt: skip
    gait = periodic_orbit(
        walker, [0.2003, -0.2003], [-0.1998, -0.184], period=3.88, section="strike", dt=5e-3, method="rkmk8"
    )
    return lambda: prove(gait)


def compass_walker() -> Callable[[], Certificate]:
    example = runpy.run_path(str(HERE.parents[1] / "examples" / "compass_walker.py"))
    gait = periodic_orbit(example["walker"], **example["GUESS"], section="strike", **example["STEPS"])
    return lambda: prove(gait)


def proofs() -> Iterator[tuple[str, str, Callable[[], Certificate]]]:
    """File, name in the table, and the call of each proof."""
    yield "van_der_pol", "van der Pol, mu = 1", van_der_pol(1.0, 6.66)
    yield "van_der_pol_3", "van der Pol, mu = 3", van_der_pol(3.0, 8.859)
    start = [0, -8.38094, 0.02959]
    yield "roessler", "Roessler", lambda: prove_field(roessler, start, 5.8811, names="xyz", name="Roessler")
    yield "simplest_walker", "simplest walker, slope 0.009", simplest_walker()
    yield "compass_walker", "compass walker, 3 degrees", compass_walker()


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    before = time.process_time()
    result = call()
    return result, time.process_time() - before


def row(file: str, name: str, call: Callable[[], Certificate]) -> str:
    """A line of the table, after the file has been written and checked."""
    call()  # compiles
    certificate, proving = timed(call)
    certificate.save(HERE / f"{file}.json")
    proof, checking = timed(lambda: liebody_check.check(certificate.data))
    found = re.search(r"period[^=]* is T = (\S+ \+- [\d.e-]+\d)", proof.theorem)
    assert found is not None
    state = "stable" if proof.stable else "unstable" if proof.stable is False else "not decided"
    largest = f"{float(proof.largest.mid()):.6g}"
    steps = len(certificate.data["durations"])
    times = f"{proving:.2f} s | {checking:.1f} s"
    link = f"[{file}.json](certificates/{file}.json)"
    return f"| {name} | {found[1]} | {state}, {largest} | {steps} | {times} | {link} |\n"


def main() -> None:
    table = (
        "| orbit | period | stability, largest multiplier | steps | proved in | checked in | certificate |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for proof in proofs():
        table += row(*proof)
        print(table.splitlines()[-1], flush=True)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(before + MARKS[0] + table + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
