"""The gallery of docs/proofs.md: proves orbits and families, writes their certificates, has them checked.

    python docs/certificates/gallery.py                     all, and both tables
    python docs/certificates/gallery.py van_der_pol_10      these files, and their rows of the tables

Times are processor time, without that of the compiler. tests/test_gallery.py checks the files.
"""

from __future__ import annotations

import re
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import liebody as lb
import liebody_check
from liebody.gaits import (
    Certificate,
    Family,
    PeriodicOrbit,
    continuation,
    periodic_orbit,
    prove,
    prove_branch,
    prove_field,
)
from liebody.scalars import cos, sin, where

HERE = Path(__file__).parent
PAGE = HERE.parent / "proofs.md"
END = "<!-- end of the gallery -->\n"


def van_der_pol_orbit(mu: float, period: float) -> PeriodicOrbit:
    oscillator = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": mu},
        name="van der Pol",
    )
    dt = min(5e-3, 1e-2 / mu)
    return periodic_orbit(oscillator, [2.0], [0.0], period=period, dt=dt, method="rkmk8")


def van_der_pol(mu: float, period: float) -> Callable[[], Certificate]:
    orbit = van_der_pol_orbit(mu, period)
    return lambda: prove(orbit)


def van_der_pol_family() -> Callable[[], Family]:
    orbit = van_der_pol_orbit(1.0, 6.66)
    return lambda: prove(orbit, parameters={"mu": ("0.9", "1.1")})


def roessler(y: Any) -> list[Any]:
    return [-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]


def roessler_orbit(start: list[float], period: float) -> Callable[[], Certificate]:
    return lambda: prove_field(roessler, start, period, names="xyz", name="Roessler")


def simplest_walker_gait() -> PeriodicOrbit:
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
    return periodic_orbit(
        walker, [0.2003, -0.2003], [-0.1998, -0.184], period=3.88, section="strike", dt=5e-3, method="rkmk8"
    )


def compass_walker_gait() -> PeriodicOrbit:
    example = runpy.run_path(str(HERE.parents[1] / "examples" / "compass_walker.py"))
    return periodic_orbit(example["walker"], **example["GUESS"], section="strike", **example["STEPS"])


def compass_walker_branch() -> Callable[[], Family]:
    """From half a degree to the loss of stability."""
    gait = compass_walker_gait()
    low, high = np.radians([0.5, 4.39])
    branch = continuation(gait, "slope", step=0.005, bounds=(low, high), locate="stability")
    return lambda: prove_branch(branch)


def orbits() -> Iterator[tuple[str, str, Callable[[], Certificate]]]:
    """File, name in the table, and the call of each proof of one orbit."""
    yield "van_der_pol_tenth", "van der Pol, mu = 0.1", van_der_pol(0.1, 6.287)
    yield "van_der_pol", "van der Pol, mu = 1", van_der_pol(1.0, 6.66)
    yield "van_der_pol_3", "van der Pol, mu = 3", van_der_pol(3.0, 8.859)
    yield "van_der_pol_10", "van der Pol, mu = 10", van_der_pol(10.0, 19.078)
    yield "roessler", "Roessler", roessler_orbit([0, -8.38094, 0.02959], 5.8811)
    yield "roessler_2", "Roessler, period 2", roessler_orbit([0, -5.42407, 0.0310812], 11.7586)
    yield "roessler_3", "Roessler, period 3", roessler_orbit([0, -6.2334, 0.03055], 17.5158)
    walker, compass = simplest_walker_gait(), compass_walker_gait()
    yield "simplest_walker", "simplest walker, slope 0.009", lambda: prove(walker)
    yield "compass_walker", "compass walker, 3 degrees", lambda: prove(compass)


def families() -> Iterator[tuple[str, str, Callable[[], Family]]]:
    """File, name in the table, and the call of each proof of a family."""
    yield "van_der_pol_family", "van der Pol, mu from 0.9 to 1.1", van_der_pol_family()
    walker = simplest_walker_gait()
    yield (
        "simplest_walker_family",
        "simplest walker, slope from 0.00899 to 0.00901",
        lambda: prove(walker, parameters={"slope": ("0.00899", "0.00901")}),
    )
    yield "compass_walker_branch", "compass walker, 0.5 to 4.39 degrees", compass_walker_branch()


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    before = time.process_time()
    result = call()
    return result, time.process_time() - before


def proved_and_checked(file: str, call: Callable[[], Any]) -> tuple[Any, Any, str, str]:
    """A proof and that of the checker, both times, and a link to the file, after it has been written."""
    call()  # compiles
    certificate, proving = timed(call)
    certificate.save(HERE / f"{file}.json")
    proof, checking = timed(lambda: liebody_check.check(certificate.data))
    return (
        certificate,
        proof,
        f"{proving:.2g} s | {checking:.2g} s",
        f"[{file}.json](certificates/{file}.json)",
    )


def word(stable: bool | None) -> str:
    return {True: "stable", False: "unstable", None: "not decided"}[stable]


def size(modulus: Any) -> str:
    """The digits of a ball that are known, or an upper bound of what is nearly zero."""
    middle, radius = float(modulus.mid()), float(modulus.rad())
    return f"{middle:.6g}" if radius < 1e-6 * middle else f"below {1.01 * float(modulus.upper()):.1e}"


def row_of_orbit(file: str, name: str, call: Callable[[], Certificate]) -> str:
    """A line of the first table."""
    certificate, proof, times, link = proved_and_checked(file, call)
    found = re.search(r"period[^=]* is T = (\S+ \+- [\d.e-]+\d)", proof.theorem)
    assert found is not None
    data = certificate.data
    steps = sum(len(phase["durations"]) for phase in data.get("phases", [data]))
    state = f"{word(proof.stable)}, {size(proof.largest)}"
    return f"| {name} | {found[1]} | {state} | {steps} | {times} | {link} |\n"


def row_of_family(file: str, name: str, call: Callable[[], Family]) -> str:
    """A line of the second table."""
    family, proof, times, link = proved_and_checked(file, call)
    assert family.complete, family.status
    unknowns = len(family.data["parts"][0]["centre"])
    found = re.search(r"periods lie within T = (\S+ \+- [\d.e-]+\d)", proof.theorem)
    assert found is not None
    return (
        f"| {name} | {family.parts} of {unknowns} | {found[1]} | {word(proof.stable)} | {times} | {link} |\n"
    )


TABLES = (
    (
        "<!-- gallery, by certificates/gallery.py -->\n",
        "| orbit | period | stability, largest multiplier | steps | proved in | checked in | certificate |\n"
        "|---|---|---|---|---|---|---|\n",
        orbits,
        row_of_orbit,
    ),
    (
        "<!-- gallery of families, by certificates/gallery.py -->\n",
        "| family | parts, of unknowns | periods | stability | proved in | checked in | certificate |\n"
        "|---|---|---|---|---|---|---|\n",
        families,
        row_of_family,
    ),
)


def main() -> None:
    chosen = sys.argv[1:]
    for mark, head, proofs, row in TABLES:
        old, table = table_of(PAGE.read_text(encoding="utf-8"), mark)[1], head
        for file, name, call in proofs():
            known = re.search(rf"^.*certificates/{file}\.json.*\n", old, re.MULTILINE)
            table += row(file, name, call) if known is None or not chosen or file in chosen else known[0]
            print(table.splitlines()[-1], flush=True)
        before, _, after = table_of(PAGE.read_text(encoding="utf-8"), mark)
        PAGE.write_text(before + table + after, encoding="utf-8")


def table_of(page: str, mark: str) -> tuple[str, str, str]:
    """The page before a table, the table, and the rest of the page."""
    start = page.index(mark) + len(mark)
    end = page.index(END, start)
    return page[:start], page[start:end], page[end:]


if __name__ == "__main__":
    main()
