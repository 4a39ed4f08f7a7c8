"""How long proofs of orbits and families take, and their checks: processor time, and the width of the period.

    python benchmarks/proofs.py           the orbits and families of a few seconds each
    python benchmarks/proofs.py hopper    the hopper of docs/gaits.md, minutes: 26 000 steps, checked in C

The checker needs the extra `prove` (python-flint).
"""

import functools
import re
import runpy
import sys
import time
from pathlib import Path

import numpy as np
from machine import absent, describe, keep, unless_quick

import liebody as lb
from liebody.gaits import periodic_orbit, prove, prove_field

try:
    import flint  # noqa: F401  # the checker's arithmetic
except ModuleNotFoundError as error:
    absent(error)


def roessler(y):
    return [-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]


def van_der_pol(mu, period):
    oscillator = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": 1.0},
        name="van der Pol",
    )
    options = {"dt": 0.01 / mu, "method": "rkmk8", "parameters": {"mu": mu}}
    return periodic_orbit(oscillator, [2.0], [0.0], period=period, **options)


def compass():
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "compass_walker.py"))
    return periodic_orbit(example["walker"], **example["GUESS"], section="strike", **example["STEPS"])


def block_of_the_page(words, until="print(", name="proofs"):
    """The names of a block of docs/proofs.md, or of another page, run up to some words."""
    page = (Path(__file__).parents[1] / "docs" / f"{name}.md").read_text()
    block = next(x for x in re.findall(r"```python\n(.*?)```", page, re.S) if words in x)
    names = {"np": np, "lb": lb, "periodic_orbit": periodic_orbit}
    exec(block[: block.index(until)], names)
    return names


def runner():
    """The runner of docs/proofs.md: four phases, memory, a stride."""
    return block_of_the_page("def leg(", "running = ")["stride"]


def hopper():
    """The hopper of docs/gaits.md: twelve phases, a controller, stiff ground, a stride."""
    return block_of_the_page("controller_2(", "touches = ", "gaits")["gait"]


def orbits():
    """Name and call of each proof; the first of a kind compiles."""
    first = van_der_pol(1.0, 6.66)
    gait = compass()
    stride = runner()
    yield "van der Pol, mu = 1", lambda: prove(first)
    yield "compass walker, 3 degrees", lambda: prove(gait)
    yield "runner with its stride", lambda: prove(stride)
    yield "Roessler, period 1", lambda: prove_field(roessler, [0, -8.38094, 0.02959], 5.8811)
    for order in (10, 6, 5, 4) if unless_quick(True, False) else ():  # short steps, and many of them
        yield f"van der Pol, order {order}", functools.partial(prove, first, order=order)
    if unless_quick(True, False):
        relaxation = van_der_pol(10.0, 19.078)
        yield "Roessler, period 2", lambda: prove_field(roessler, [0, -5.42407, 0.0310812], 11.7586)
        yield "Roessler, period 3", lambda: prove_field(roessler, [0, -6.2334, 0.03055], 17.5158)
        yield "van der Pol, mu = 10", lambda: prove(relaxation)


def families():
    """Name and call of each proof of a family, with or without events that mark the orbit."""
    first = van_der_pol(1.0, 6.66)
    relaxing = block_of_the_page("def marks(")["relaxing"]
    yield "van der Pol, 0.999 to 1.001", lambda: prove(first, parameters={"mu": ("0.999", "1.001")})
    yield "the same marked, 2.99 to 3.01", lambda: prove(relaxing, parameters={"mu": ("2.99", "3.01")})
    if unless_quick(True, False):
        yield "van der Pol, 0.9 to 1.1", lambda: prove(first, parameters={"mu": ("0.9", "1.1")})


def timed(call):
    before = time.process_time()
    result = call()
    return result, time.process_time() - before


def main(*names):
    if names not in [(), ("hopper",)]:
        raise SystemExit(f"there is no orbit of a long proof but 'hopper'; given {' '.join(names)!r}")
    print(describe("numpy", "python-flint"))
    print(f"{'orbit':29} {'steps':>5} {'prove':>8} {'check':>8}  period")
    if names:
        gait = hopper()
        certificate, proving = timed(lambda: prove(gait))
        proof, checking = timed(lambda: certificate.check("c"))
        keep("hopper", seconds=proving)
        keep("hopper, check", seconds=checking)
        print_orbit("hopper", certificate, proving, proof, checking)
        return
    for name, call in orbits():
        certificate, proving, proof, checking = measured(name, call)
        print_orbit(name, certificate, proving, proof, checking)
    print(f"{'family':29} {'parts':>5} {'prove':>8} {'check':>8}  stability")
    for name, call in families():
        family, proving, proof, checking = measured(name, call)
        state = {True: "stable", False: "unstable", None: "not decided"}[proof.stable]
        print(f"{name:29} {family.parts:5} {proving:6.2f} s {checking:6.2f} s  {state}")


def measured(name, call):
    """A proof, and that of the checker, with the time of each; the proof is the second one."""
    call()
    certificate, proving = timed(call)
    proof, checking = timed(certificate.check)
    keep(name, seconds=proving)
    keep(f"{name}, check", seconds=checking)
    return certificate, proving, proof, checking


def print_orbit(name, certificate, proving, proof, checking):
    steps = sum(len(phase["durations"]) for phase in certificate.data.get("phases", [certificate.data]))
    period = f"{float(proof.period.mid()):.15g} +- {float(proof.period.rad()):.1e}"
    print(f"{name:29} {steps:5} {proving:6.2f} s {checking:6.2f} s  {period}")


if __name__ == "__main__":
    main(*sys.argv[1:])
