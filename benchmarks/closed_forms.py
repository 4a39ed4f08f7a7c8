"""How long closed forms are, and what they cost: liebody beside simplify, Kane and Lagrange of SymPy.

    python benchmarks/closed_forms.py            planar arms of two and three links, the hoppers: a minute
    python benchmarks/closed_forms.py --puma     PUMA 560 alone, in numbers and in symbols: ten minutes
    python benchmarks/closed_forms.py --whole    all closed forms of some robots by liebody alone: minutes

Counted are the operations of SymPy's `count_ops`, without common subexpressions, of the mass matrix M and of
what else stands on the left of M dv/dt = f, in symbols. "simplify" is SymPy's, entry by entry, of what the
algorithms of liebody make of symbols; the methods of sympy.physics.mechanics are counted as they come and
after `simplify`. Of the hoppers the connection is counted as well. Checked is that M and f are the same
numbers at a random state, those of PUMA 560 as of `Robot`, to 1e-9. SymPy has --limit seconds of processor
time for each form of PUMA 560, 120 if it is not given; what `simplify` has to find does not come within that.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
from machine import keep, seconds, unless_quick
from robots import path
from sympy.physics import mechanics

import liebody as lb
from liebody import SpatialInertia, TreeBuilder
from liebody.groups import Revolute

PARTS = "M", "C", "g", "kinetic", "potential", "equations"
UPRIGHT = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


def links(n: int) -> list[Any]:
    """Masses, lengths, distances of centres of mass and moments of inertia of n links."""
    return [sympy.symbols(f"{letter}1:{n + 1}", positive=True) for letter in "mlrI"]


def planar_arm(n: int) -> Any:
    builder, parent, placement = TreeBuilder(f"planar arm, {n} links"), "world", UPRIGHT
    for i, (m, l, r, I) in enumerate(zip(*links(n), strict=True)):
        builder.add(
            f"link{i}", Revolute((0, 0, 1)), SpatialInertia(m, [r, 0, 0], [0, 0, I]), parent, placement
        )
        parent, placement = f"link{i}", np.array([l, 0, 0])
    return builder.build()


def by_sympy(n: int) -> tuple[dict[str, Any], dict[Any, Any]]:
    """(M, f) of the arm by Kane's and Lagrange's method, and our symbols for theirs."""
    q, u = mechanics.dynamicsymbols(f"q1:{n + 1}"), mechanics.dynamicsymbols(f"u1:{n + 1}")
    t, g = mechanics.dynamicsymbols._t, sympy.Symbol("g", positive=True)
    world, origin = mechanics.ReferenceFrame("N"), mechanics.Point("O")
    origin.set_vel(world, 0)
    rates = {x.diff(t): w for x, w in zip(q, u, strict=True)}
    results = {}
    for method in ("Kane", "Lagrange"):
        frame, joint, bodies, loads, potential = world, origin, [], [], 0
        for i, (m, l, r, I) in enumerate(zip(*links(n), strict=True)):
            turned = frame.orientnew(f"A{i}", "Axis", [q[i], world.z])
            if method == "Kane":
                turned.set_ang_vel(frame, u[i] * world.z)
            com = joint.locatenew(f"C{i}", r * turned.x)
            com.v2pt_theory(joint, world, turned)
            tip = joint.locatenew(f"P{i}", l * turned.x)
            tip.v2pt_theory(joint, world, turned)
            inertia = mechanics.inertia(turned, 0, 0, I), com
            bodies.append(mechanics.RigidBody(f"B{i}", com, turned, m, inertia))
            loads.append((com, -m * g * world.y))
            potential += m * g * com.pos_from(origin).dot(world.y)
            bodies[-1].potential_energy = m * g * com.pos_from(origin).dot(world.y)
            frame, joint = turned, tip
        if method == "Kane":
            kinematic = [w - x.diff(t) for x, w in zip(q, u, strict=True)]
            kane = mechanics.KanesMethod(world, q, u, kd_eqs=kinematic)
            kane.kanes_equations(bodies, loads)
            results[method] = kane.mass_matrix, -kane.forcing
        else:
            lagrange = mechanics.LagrangesMethod(mechanics.Lagrangian(world, *bodies), q)
            lagrange.form_lagranges_equations()
            results[method] = lagrange.mass_matrix, -lagrange.forcing.xreplace(rates)
    return results, {**{x: f"q{i}" for i, x in enumerate(q, 1)}, **{w: f"v{i}" for i, w in enumerate(u, 1)}}


def hopper_by_kane(name: str) -> tuple[tuple[Any, Any], dict[Any, str]]:
    """(M, f) of a hopper by Kane's method in its speeds, the base's in its own axes; our symbols for its."""
    names = ("angle", "x", "y", "q4"), ("omega", "vx", "vy", "v4")
    q, u = (mechanics.dynamicsymbols(" ".join(f"{x}_" for x in row)) for row in names)
    t, g, l = mechanics.dynamicsymbols._t, *sympy.symbols("g l", positive=True)
    world, origin = mechanics.ReferenceFrame("N"), mechanics.Point("O")
    origin.set_vel(world, 0)
    base = world.orientnew("A", "Axis", [q[0], world.z])
    base.set_ang_vel(world, u[0] * world.z)
    trunk = origin.locatenew("B", q[1] * world.x + q[2] * world.y)
    trunk.set_vel(world, u[1] * base.x + u[2] * base.y)
    points = [trunk]
    if name == "revolute_hopper":
        shank = base.orientnew("S", "Axis", [q[3], world.z])
        shank.set_ang_vel(base, u[3] * world.z)
        knee = trunk.locatenew("K", l * base.x)
        knee.v2pt_theory(trunk, world, base)
        for start, frame in ((trunk, base), (knee, shank)):
            points.append(start.locatenew(f"C{len(points)}", l / 2 * frame.x))
            points[-1].v2pt_theory(start, world, frame)
    else:
        foot = trunk.locatenew("F", q[3] * base.x)
        foot.set_vel(base, u[3] * base.x)
        foot.v1pt_theory(trunk, world, base)
        points.append(foot)
    masses = sympy.symbols(f"m1:{len(points) + 1}", positive=True)
    bodies = [mechanics.Particle(f"P{k}", x, m) for k, (x, m) in enumerate(zip(points, masses, strict=True))]
    c, s = sympy.cos(q[0]), sympy.sin(q[0])
    x, y = q[1].diff(t), q[2].diff(t)
    kinematic = [u[0] - q[0].diff(t), u[1] - c * x - s * y, u[2] + s * x - c * y, u[3] - q[3].diff(t)]
    kane = mechanics.KanesMethod(world, q, u, kd_eqs=kinematic)
    kane.kanes_equations(bodies, [(p, -m * g * world.y) for p, m in zip(points, masses, strict=True)])
    symbols = dict(zip([*q, *u], [*names[0], *names[1]], strict=True))
    return (kane.mass_matrix, -kane.forcing), symbols


def arm_by_sympy(bodies: Sequence[Any], method: str) -> tuple[Any, Any]:
    """(M, f) of a chain of hinges, in numbers, by Kane's or Lagrange's method, in the frames of our tree.

    f holds the weight, M no armature.
    """
    n, exact = len(bodies), sympy.nsimplify
    q, u = mechanics.dynamicsymbols(f"q1:{n + 1}"), mechanics.dynamicsymbols(f"v1:{n + 1}")
    t, g = mechanics.dynamicsymbols._t, sympy.Rational("9.81")
    frame, joint = mechanics.ReferenceFrame("N"), mechanics.Point("O")
    world, origin, links, loads = frame, joint, [], []
    origin.set_vel(world, 0)

    def vector(x: Any, frame: Any) -> Any:
        return sum((exact(a) * e for a, e in zip(x, (frame.x, frame.y, frame.z), strict=True)), 0 * frame.x)

    for k, body in enumerate(bodies):
        fixed, turned = mechanics.ReferenceFrame(f"F{k}"), mechanics.ReferenceFrame(f"A{k}")
        fixed.orient_explicit(frame, sympy.Matrix(body.placement[:3, :3]).applyfunc(exact))
        axis = vector(body.joint.S[:3, 0], fixed)
        turned.orient(fixed, "Axis", [q[k], axis])
        if method == "Kane":
            turned.set_ang_vel(fixed, u[k] * axis)
        place = joint.locatenew(f"P{k}", vector(body.placement[:3, 3], frame))
        place.v2pt_theory(joint, world, frame)
        m = exact(body.inertia.mass)
        com = place.locatenew(f"C{k}", vector(body.inertia.com, turned))
        com.v2pt_theory(place, world, turned)
        I = sympy.Matrix(body.inertia.rotational).applyfunc(exact)
        inertia = mechanics.inertia(turned, I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[1, 2], I[0, 2])
        links.append(mechanics.RigidBody(f"B{k}", com, turned, m, (inertia, com)))
        links[-1].potential_energy = m * g * com.pos_from(origin).dot(world.z)
        loads.append((com, -m * g * world.z))
        frame, joint = turned, place
    if method == "Kane":
        kane = mechanics.KanesMethod(world, q, u, kd_eqs=[w - x.diff(t) for x, w in zip(q, u, strict=True)])
        kane.kanes_equations(links, loads)
        return kane.mass_matrix, -kane.forcing
    lagrange = mechanics.LagrangesMethod(mechanics.Lagrangian(world, *links), q)
    lagrange.form_lagranges_equations()
    rates = {x.diff(t): w for x, w in zip(q, u, strict=True)}
    return lagrange.mass_matrix, -lagrange.forcing.xreplace(rates)


def apart(robot: lb.Robot, found: tuple[Any, Any], armatures: bool) -> float:
    """How far (M, f) of q1, ..., v1, ... are from the robot's at a random state, over the largest entry.

    armatures  whether M has them
    """
    q, v = np.random.default_rng(0).uniform(0.5, 1.5, (2, robot.nv))
    M, f = robot.mass_matrix(q), robot.inverse_dynamics(q, v, np.zeros(robot.nv))
    if not armatures:
        M = M - np.diag(np.concatenate([body.armature for body in robot.tree.bodies]))
    state = {f"{name}{k}": x for name, values in (("q", q), ("v", v)) for k, x in enumerate(values, 1)}
    off = []
    for X, Y in zip(found, (M, f.reshape(-1, 1)), strict=True):
        symbols = {*X.free_symbols, *mechanics.find_dynamicsymbols(X)} - {mechanics.dynamicsymbols._t}
        values = {x: state[str(x).removesuffix("(t)")] for x in symbols}
        off.append(np.abs(np.array(X.xreplace(values), float) - Y).max() / np.abs(Y).max())
    return float(max(off))


def puma_form(method: str, simplify: bool) -> tuple[Any, ...]:
    """(M, f) of PUMA 560 by a method of SymPy; without a method what our algorithms make."""
    found = (
        arm_by_sympy(lb.load("puma560").tree.bodies, method)
        if method
        else left_side(lb.equations("puma560", simplify=False))
    )
    return tuple(map(simplified, found)) if simplify else found


def _counted(method: str, simplify: bool, limit: int, results: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    found, spent = puma_form(method, simplify), time.process_time()
    counts = [int(sympy.count_ops(X)) for X in found]
    results.send((counts, spent, apart(lb.load("puma560"), found, armatures=not method)))


def limited(title: str, method: str, simplify: bool, limit: int) -> None:
    """A row of counts, by a process of its own that is ended after so many seconds of processor time."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_counted, args=(method, simplify, limit, sender))
    process.start()
    sender.close()
    try:
        counts, seconds, off = receiver.recv()
        checked_row(title, counts, seconds, off)
    except EOFError:
        print(f"  {title:32} not within {limit} s of processor time", flush=True)
    process.join()


def checked_row(title: str, counts: Sequence[int], seconds: float, off: float) -> None:
    """A row of counts; SystemExit where the numbers are not the robot's."""
    keep(f"puma560, {title}", seconds=seconds)
    print(
        f"  {title:32}{''.join(f'{x:>8}' for x in counts)}{seconds:10.2f} s   numbers to {off:.0e}",
        flush=True,
    )
    if not off < 1e-9:
        raise SystemExit(f"{title}: M or f of PUMA 560 is off by {off:.1e}, more than 1e-9")


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = make()
    return found, time.perf_counter() - start


def simplified(X: Any) -> Any:
    return X.applyfunc(sympy.simplify)


def left_side(eq: Any) -> tuple[Any, Any]:
    return eq.M, eq.of("bias")


def with_connection(eq: Any) -> tuple[Any, ...]:
    return (*left_side(eq), eq.connection)


def row(of: str, title: str, found: Any, seconds: float) -> None:
    keep(f"{of}, {title}", seconds=seconds)
    counts = "".join(f"{sympy.count_ops(X):>8}" for X in found)
    print(f"  {title:32}{counts}{seconds:10.2f} s")


def check(eq: Any, ours: tuple[Any, ...], others: tuple[Any, ...], names: dict[Any, str]) -> None:
    """The same numbers at a random state."""
    rng, known = np.random.default_rng(0), {s.name: s for s in (*eq.q, *eq.v, *eq.parameters)}
    values = {s: rng.uniform(0.5, 1.5) for s in known.values()}
    theirs = {**values, **{x: values[known[name]] for x, name in names.items()}}
    for X, Y in zip(ours, others, strict=True):
        x = np.array(X.xreplace(values), float)
        assert np.allclose(x, np.array(Y.xreplace(theirs), float), rtol=1e-10, atol=1e-10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--puma", action="store_true")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each form of PUMA 560 by SymPy")
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    if args.whole:
        whole()
        return
    print(f"{'operations of':34}{'M':>8}{'f':>8}{'m':>8}", flush=True)
    if args.puma:
        puma(args.limit)
        return
    for n in unless_quick((2, 3), (2,)):
        tree = planar_arm(n)
        print(tree.name)
        eq = lb.equations(tree)
        ours, seconds = timed(lambda eq=eq: left_side(eq))
        row(tree.name, "liebody", ours, seconds)
        raw = left_side(lb.equations(tree, simplify=False))
        row(tree.name, "its algorithms, simplify", *timed(lambda raw=raw: tuple(map(simplified, raw))))
        results, names = by_sympy(n)
        for method, found in results.items():
            check(eq, ours, found, names)
            row(tree.name, f"{method}'s method", found, 0.0)
            row(
                tree.name,
                f"{method}'s method, simplify",
                *timed(lambda found=found: tuple(map(simplified, found))),
            )
    for name in unless_quick(("prismatic_hopper", "revolute_hopper"), ()):
        print(name)
        eq = lb.equations(name, symbols=True)
        ours, seconds = timed(lambda eq=eq: with_connection(eq))
        row(name, "liebody", ours, seconds)
        raw = with_connection(lb.equations(name, symbols=True, simplify=False))
        row(name, "its algorithms, simplify", *timed(lambda raw=raw: tuple(map(simplified, raw))))
        found, names = hopper_by_kane(name)
        check(eq, ours[:2], found, names)
        row(name, "Kane's method", found, 0.0)
        row(name, "Kane's method, simplify", *timed(lambda found=found: tuple(map(simplified, found))))


def puma(limit: int) -> None:
    """Kane and Lagrange leave out the armatures of the drives, six operations of M."""
    robot = lb.load("puma560")
    print("puma560, numbers", flush=True)
    for title, options in (("liebody", {}), ("its algorithms", {"simplify": False})):
        found, seconds = timed(lambda options=options: left_side(lb.equations("puma560", **options)))
        checked_row(title, [sympy.count_ops(X) for X in found], seconds, apart(robot, found, armatures=True))
    for method in ("Kane", "Lagrange"):
        limited(f"{method}'s method", method, False, limit)
        limited(f"{method}'s method, simplify", method, True, limit)
    limited("its algorithms, simplify", "", True, limit)
    print("puma560, symbols", flush=True)
    row("puma560", "liebody", *timed(lambda: left_side(lb.equations("puma560", symbols=True))))
    row("puma560", "its algorithms", left_side(lb.equations("puma560", symbols=True, simplify=False)), 0.0)


def _whole(title: str, robot: lb.Robot, options: dict[str, bool]) -> None:
    eq = lb.equations(robot, **options)
    took = seconds(lambda: [getattr(eq, part) for part in PARTS])
    keep(f"whole, {title}", seconds=took)
    print(f"  {title:32}{took:8.1f} s", flush=True)


def whole() -> None:
    """Processor time of M, C, g, energies and equations, simplified; each robot has a process of its own."""
    given = {key: sympy.symbols(f"{key[0]}1 {key[0]}2", positive=True) for key in ("masses", "lengths")}
    (ur5, _), (anymal, _) = path("ur5"), path("anymal")
    for title, robot, options in (
        ("double pendulum, symbols", lb.load("double_pendulum"), {"symbols": True}),
        ("planar arm of 3 links, symbols", planar_arm(3), {}),
        ("two ball joints, symbols", lb.models.double_pendulum(**given, spherical=True), {}),
        ("PUMA 560, numbers", lb.load("puma560"), {}),
        ("UR5, numbers", lb.load(ur5), {}),
        ("PUMA 560, symbols", lb.load("puma560"), {"symbols": True}),
        ("ANYmal, floating, numbers", lb.load(anymal, floating=True), {}),
    ):
        process = multiprocessing.Process(target=_whole, args=(title, robot, options))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
