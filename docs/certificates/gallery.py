"""The gallery of docs/proofs.md: proves orbits and families, writes their certificates, has them checked.

    OPENBLAS_NUM_THREADS=1 python docs/certificates/gallery.py                  all, and both tables
    OPENBLAS_NUM_THREADS=1 python docs/certificates/gallery.py van_der_pol_10   these files, and their rows

Times are processor time, without that of the compiler. With one thread for linear equations, because a thread
of OpenBLAS that waits counts, too. tests/test_gallery.py checks the files.
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
from liebody.groups import SO3, Free, Revolute
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


def satellite() -> Callable[[], Certificate]:
    """A body with friction and two magnets: one follows a field that turns to and fro, one stays upright."""

    def field(t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        B = SO3.element(q).T
        swinging = B @ np.array([1.0, p.size * sin(p.rate * t), 0.5 * p.size * cos(2 * p.rate * t)])
        torque = np.cross([1.0, 0, 0], swinging) + 0.5 * np.cross([0, 0, 1.0], B @ np.array([0, 0, 1.0]))
        inertia = np.array([1.0, 2.0, 3.0])
        return (torque - v - np.cross(v, inertia * v)) / inertia

    body = lb.HybridSystem(SO3, field, parameters={"size": 0.5, "rate": 1.0}, name="satellite")
    orbit = periodic_orbit(body, [1.0, 0, 0, 0], period=lambda p: 2 * np.pi / p.rate, dt=0.01, method="rkmk8")
    return lambda: prove(orbit)


def swimmer() -> Callable[[], Certificate]:
    """A floating body with a driven fin in a fluid that resists; magnets keep it upright."""
    tree = lb.TreeBuilder("swimmer")
    tree.add("body", Free(), lb.SpatialInertia.box(4.0, [0.6, 0.5, 0.4]))
    fin = lb.SpatialInertia.box(0.5, [0.5, 0.05, 0.1], com=[0.25, 0, 0])
    tree.add("fin", Revolute([0, 0, 1]), fin, parent="body", placement=[0.3, 0, 0.125])
    robot = lb.Robot(tree.build(), gravity=[0, 0, 0])

    def field(t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        B = SO3.element(q[:4]).T
        upright = 0.25 * sum(np.cross(e, B @ e) for e in np.eye(3))
        effort = p.size * sin(p.rate * t) - q[7] - 0.25 * v[6]
        drag = np.array([0.25, 0.25, 0.25, 2.0, 8.0, 4.0]) * v[:6]
        return robot.forward_dynamics(q, v, np.concatenate([upright - drag[:3], -drag[3:], [effort]]))

    arm = lb.HybridSystem(robot.group, field, parameters={"size": 1.0, "rate": 8.0}, name="swimmer")
    orbit = periodic_orbit(
        arm, [1.0, *[0] * 7], period=lambda p: 2 * np.pi / p.rate, symmetries=np.eye(7)[3:6], tries=60,
        dt=0.01, method="rkmk8",
    )  # fmt: skip
    return lambda: prove(orbit)


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
    yield "satellite", "driven satellite, SO(3)", satellite()
    yield "swimmer", "driven floating arm, SE(3)", swimmer()


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
        f"{seconds(proving)} | {seconds(checking)}",
        f"[{file}.json](certificates/{file}.json)",
    )


def seconds(time: float) -> str:
    """Two digits, or all in front of the point."""
    return f"{time:.0f} s" if time >= 100 else f"{time:.2g} s"


def word(stable: bool | None) -> str:
    return {True: "stable", False: "unstable", None: "not decided"}[stable]


def size(modulus: Any) -> str:
    """The digits of a ball that are known, or an upper bound of what is nearly zero."""
    middle, radius = float(modulus.mid()), float(modulus.rad())
    return f"{middle:.6g}" if radius < 1e-6 * middle else f"below {1.01 * float(modulus.upper()):.1e}"


def row_of_orbit(file: str, name: str, call: Callable[[], Certificate]) -> str:
    """A line of the first table."""
    certificate, proof, times, link = proved_and_checked(file, call)
    found = re.search(r"period[^=]* T = (?:2 pi / \S+ = )?(\S+ \+- [\d.e-]+\d)", proof.theorem)
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
