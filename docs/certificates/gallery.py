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
from liebody.groups import SO3, Free, Revolute
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


def proofs() -> Iterator[tuple[str, str, Callable[[], Certificate]]]:
    """File, name in the table, and the call of each proof."""
    yield "van_der_pol", "van der Pol, mu = 1", van_der_pol(1.0, 6.66)
    yield "van_der_pol_3", "van der Pol, mu = 3", van_der_pol(3.0, 8.859)
    start = [0, -8.38094, 0.02959]
    yield "roessler", "Roessler", lambda: prove_field(roessler, start, 5.8811, names="xyz", name="Roessler")
    yield "simplest_walker", "simplest walker, slope 0.009", simplest_walker()
    yield "compass_walker", "compass walker, 3 degrees", compass_walker()
    yield "satellite", "driven satellite, SO(3)", satellite()
    yield "swimmer", "driven floating arm, SE(3)", swimmer()


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    before = time.process_time()
    result = call()
    return result, time.process_time() - before


def phases_of(data: Any) -> list[Any]:
    """The phases of a certificate; one of them stands beside the other entries."""
    return list(data["phases"]) if "phases" in data else [data]


def row(file: str, name: str, call: Callable[[], Certificate]) -> str:
    """A line of the table, after the file has been written and checked."""
    call()  # compiles
    certificate, proving = timed(call)
    certificate.save(HERE / f"{file}.json")
    proof, checking = timed(lambda: liebody_check.check(certificate.data))
    found = re.search(r"period[^=]* T = (?:2 pi / \S+ = )?(\S+ \+- [\d.e-]+\d)", proof.theorem)
    assert found is not None
    state = "stable" if proof.stable else "unstable" if proof.stable is False else "not decided"
    largest = f"{float(proof.largest.mid()):.6g}"
    steps = sum(len(phase["durations"]) for phase in phases_of(certificate.data))
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
