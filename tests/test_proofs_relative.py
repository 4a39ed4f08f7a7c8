"""Basins of orbits up to shifts: relative states, exact return maps, and certificates that were changed."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_proofs import changed
from test_proofs_phases import RUNNING, runner
from test_proofs_positive import BOUNCING, ball

import liebody as lb
from liebody.gaits import ProofError, periodic_orbit, prove_basin
from liebody.gaits.proofs.phases import equations_of
from liebody.gaits.proofs.relative import relative_equations
from liebody.scalars import where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check
from liebody_check.claims import Claim, Function, Guard, Phase, SignAtEnd, Symmetry
from liebody_check.relative import relative_claim


@pytest.fixture(scope="module")
def bouncing():
    return periodic_orbit(ball(), [0, 0.8], [1, 0], **BOUNCING)


@pytest.fixture(scope="module")
def basin(bouncing):
    return prove_basin(bouncing)


def apex_to_apex(height, speed):
    """The exact return map of the ball: its height and its speed along the wind, 1."""
    down = np.sqrt(20 * height)
    up = 2 + 0.5 * down
    return up * up / 20, 1 + (speed - 1) * np.exp(-(down + up) / 10)


def test_the_exact_return_map_brings_relative_states_nearer(basin):
    proof = basin.check()
    in_c = float(basin.check(steps="c").contraction)
    assert in_c == pytest.approx(float(proof.contraction), rel=1e-6)
    V, kappa = basin.axes, float(proof.contraction.upper())
    assert V.shape == (3, 2) and not V[2].any() and np.array_equal(basin.normal, [0, 0, 1])
    assert kappa < 0.8 and float(proof.inside) > 0.2
    random = np.random.default_rng(0)
    a = random.normal(size=(2, 500))
    a *= basin.radius / np.linalg.norm(a, axis=0)  # on the boundary
    height, speed = np.array([[0.8], [1.0]]) + V[:2] @ a
    after = np.array(apex_to_apex(height, speed)) - [[0.8], [1.0]]
    size = np.linalg.norm(np.linalg.solve(V[:2], after), axis=0)
    assert (size <= kappa * basin.radius * (1 + 1e-9)).all()
    assert size.max() > 0.6 * kappa * basin.radius


def test_the_theorem_says_what_relative_states_are(basin):
    text = basin.theorem()
    for words in (
        "Theorem (ball, up to shifts). Let y move in 2 phases",
        "In phase 1, y = (q[0], q[1], v[0], v[1]) obeys",
        "All of them stay as they are where q[0] grows by s.",
        "From here on states that differ by shifts are one: each stands for that with q[0] = 0.",
        "It starts in phase 1 at q[1] = 0.8",
        "Every motion converges to this orbit that starts at a state x = c + V a + s n of phase 1",
    ):
        assert words in text
    assert "moves by" not in text


def test_starts_of_the_runner_come_nearer_at_the_next_apex():
    """Simulated from random starts of the proved set, at any place along the ground."""
    orbit = periodic_orbit(runner(), [0, 1.0], [5, 0], **RUNNING)
    basin = prove_basin(orbit)
    proof = basin.check(steps="c")
    assert "with relative foot = foot - q[0]" in proof.theorem
    kappa = float(proof.contraction.upper())
    L = np.linalg.inv(np.column_stack([basin.axes, basin.normal]))[:2]
    centre = np.array([float.fromhex(x) for x in basin.data["phases"][0]["nodes"][0]])[1:]
    star = np.array([float(x) for x in proof.orbit.nodes[0]])
    random = np.random.default_rng(1)
    a = random.normal(size=(16, 2))
    a *= basin.radius / np.linalg.norm(a, axis=1, keepdims=True)
    starts = centre + a @ basin.axes.T
    system = runner()
    for x, place in zip(starts, random.uniform(-5, 5, 16)):
        run = lb.simulate(system, [place, x[0]], x[1:], t_end=0.45, dt=1e-3, method="rkmk8")
        log = run.events.of("apex")
        (i,) = np.flatnonzero(log.t > 0.2)
        after = np.array([log.q[i, 1], *log.v[i]])
        assert np.linalg.norm(L @ (after - star)) <= kappa * np.linalg.norm(L @ (x - star)) + 1e-9
        assert abs(log.q[i, 0] - place - 1.987) < 2e-2


def skewed():
    """The ball with the coordinates x and h + 2 x: a shift moves both."""
    plain = ball()

    def heights(q):
        return np.array([q[0], q[1] - 2 * q[0]])

    def field(t, q, v, z, p):
        a = plain.vector_field(t, heights(q), heights(v), z, p)
        return np.array([a[0], a[1] + 2 * a[0]])

    def update(t, q, v, z, p, events):
        u = heights(v)
        return q, np.array([v[0], where(events.floor < 0, 2 - 0.5 * u[1] + 2 * v[0], v[1])]), z

    return lb.HybridSystem(
        lb.groups.R(2), field, name="skewed", update=update, directions={"floor": -1, "apex": -1},
        guards=lambda t, q, v, z, p: {"floor": q[1] - 2 * q[0], "apex": v[1] - 2 * v[0]},
        parameters={"wind": 1.0},
    )  # fmt: skip


def test_a_shift_may_move_several_states():
    """q[1] moves by 1 and q[0] by 1/2: the relative q[0] is -h / 2, so its starts are half as far away."""
    options = {**BOUNCING, "symmetries": [[1, 2]]}
    other = prove_basin(periodic_orbit(skewed(), [0, 0.8], [1, 2], **options))
    text = other.theorem()
    assert "with q[1] = 0, with relative q[0] = q[0] - 0.5 q[1]." in text
    assert "at relative q[0] = -0.4" in text
    assert other.radius > 0.05 and float(other.check().contraction) < 0.9


def test_two_shifts():
    """A ball over a slope, that two winds carry along; shifts lead along the slope."""

    def over(x):
        return x[2] + x[0] / 2 - x[1] / 4

    def field(t, q, v, z, p):
        a = np.array([p.wind - v[0], 2 * p.wind - v[1]])
        return np.array([*a, -10.0 - a[0] / 2 + a[1] / 4])

    def update(t, q, v, z, p, events):
        up = v[2] + 2 - 1.5 * over(v)  # the velocity over the slope is 2 - 0.5 times that before
        return q, np.array([v[0], v[1], where(events.floor < 0, up, v[2])]), z

    slope = lb.HybridSystem(
        lb.groups.R(3), field, name="slope", update=update, directions={"floor": -1, "apex": -1},
        guards=lambda t, q, v, z, p: {"floor": over(q), "apex": over(v)}, parameters={"wind": 1.0},
    )  # fmt: skip
    options = {**BOUNCING, "symmetries": [[1, 0, -0.5], [0, 1, 0.25]]}
    basin = prove_basin(periodic_orbit(slope, [0, 0, 0.8], [1, 2, 0], **options))
    assert basin.axes.shape == (4, 3)
    text = basin.theorem()
    assert "All of them stay as they are where q[0] grows by s, q[2] grows by -0.5 s." in text
    assert "All of them stay as they are where q[1] grows by s, q[2] grows by 0.25 s." in text
    states = "q[0] = 0 and q[1] = 0, with relative q[2] = q[2] + 0.5 q[0] - 0.25 q[1]."
    assert f"each stands for that with {states}" in text and "at relative q[2] = 0.8" in text
    data = json.loads(json.dumps(dict(basin.data)))
    nodes = data["phases"][0]["field"]["nodes"]
    falls = {"nodes": [*nodes, ["mul", 1, 1]], "outputs": [*data["phases"][0]["field"]["outputs"]]}
    falls["outputs"][3] = len(nodes)
    with pytest.raises(liebody_check.Refused, match="unchanged under a symmetry"):
        liebody_check.check(changed(data, ["phases", 0, "field"], falls))


def test_an_orbit_without_events_that_drifts():
    """Van der Pol's oscillator drives a coordinate with friction, whose place does not matter."""
    system = lb.HybridSystem(
        lb.groups.R(2),
        lambda t, q, v, z, p: np.array([q[1] - v[0] + 1, (1 - q[1] ** 2) * v[1] - q[1]]),
        name="drift",
    )
    options = {"period": 6.66, "symmetries": [[1, 0]], "dt": 0.01, "method": "rkmk8"}
    basin = prove_basin(periodic_orbit(system, [0, 2.0], [1, 0.1], **options))
    assert basin.radius > 1e-2
    assert "Let c be the relative state of the first node" in basin.theorem(steps="c")
    # a section across the coordinate that shifts move is none of relative states
    section = {
        "coordinate": 0,
        "function": json.loads(json.dumps(basin.data["phases"][0]["section"]["function"])),
    }
    section["function"]["nodes"][-1][1] = 0
    with pytest.raises(liebody_check.Refused):
        liebody_check.check(changed(basin.data, ["phases", 0, "section"], section))


def test_changed_certificates_are_refused(basin):
    data = json.loads(json.dumps(dict(basin.data)))
    along = data["symmetries"][0]["along"]
    assert data["format"] == "liebody certificate 8"
    zero, one, two = "0x0.0p+0", (1.0).hex(), (2.0).hex()
    cases = [
        (["symmetries"], [], "no shifts"),
        (["symmetries", 0, "along"], [along[0], [two, *along[1][1:]]], "does not move its coordinate alone"),
        (["symmetries", 0, "along"], [along[0], [one, one, zero, zero]], "not seen to"),
        (["symmetries", 0, "coordinate"], 1, "a symmetry does not move its coordinate by 1"),
        (["phases", 0, "nodes", 1, 0], (1e-9).hex(), "no relative state"),
        (["phases", 1, "nodes", 0, 1], (0.1).hex(), "no orbit"),
        (["format"], "liebody certificate 7", "another format"),
        (["rotations"], [], "not known for its format"),
        (["phases", 0, "states", 2], "relative foot", "the name of a relative one"),
        (["phases", 0, "states", 2], "q[1]", "two states of a phase have one name"),
        (["phases", 1, "states", 0], "place", "not the same name in all phases"),
        (["normal"], [zero, one, zero], "may lie in it|singular"),
    ]
    for path, value, words in cases:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(changed(data, path, value), steps="c")
    # a field that depends on the place: no function may
    field = data["phases"][0]["field"]
    nodes = [*field["nodes"], ["add", field["outputs"][2], 0]]
    moved = {"nodes": nodes, "outputs": [*field["outputs"][:2], len(nodes) - 1, field["outputs"][3]]}
    with pytest.raises(liebody_check.Refused, match="unchanged under a symmetry"):
        liebody_check.check(changed(data, ["phases", 0, "field"], moved))
    # a jump that doubles the place
    jump = data["phases"][0]["section"]["jump"]
    nodes = [*jump["nodes"], ["add", jump["outputs"][0], jump["outputs"][0]]]
    doubled = {"nodes": nodes, "outputs": [len(nodes) - 1, *jump["outputs"][1:]]}
    with pytest.raises(liebody_check.Refused, match="not seen to move along"):
        liebody_check.check(changed(data, ["phases", 0, "section", "jump"], doubled))


@pytest.mark.parametrize("steps", ["python", "c"])
def test_the_coordinate_of_a_shift_must_move_on(basin, steps):
    """Its rate has to exist, though no relative state depends on it: 1 / (h - 0.4), an angle that jumps."""
    data = json.loads(json.dumps(dict(basin.data)))
    data["constants"] += [(0.4).hex(), (-0.1).hex(), (1.0).hex()]
    n = len(data["constants"])
    for operation in (["div", "one", "above"], ["arctan2", "above", "left"]):
        other = json.loads(json.dumps(data))
        for phase in other["phases"]:
            nodes = phase["field"]["nodes"]
            k = len(nodes)
            places = {"above": k + 3, "left": k + 1, "one": k + 2}
            nodes += [["constant", n - 3], ["constant", n - 2], ["constant", n - 1], ["sub", 1, k]]
            op, *operands = operation
            nodes += [[op, *(places[x] for x in operands)], ["add", phase["field"]["outputs"][0], k + 4]]
            phase["field"]["outputs"][0] = k + 5
        with pytest.raises(liebody_check.Refused):
            liebody_check.check(other, steps)
    liebody_check.check(data, steps)


def test_a_shift_that_moves_its_coordinate_otherwise_in_another_phase_is_named(bouncing):
    equations, _ = equations_of(bouncing, {}, 0.0)
    (symmetry,) = equations.symmetries
    along = [symmetry.along[0], [Fraction(2), *symmetry.along[1][1:]]]
    equations.symmetries = [replace(symmetry, along=along)]
    with pytest.raises(
        ProofError, match=r"a shift of ball moves q\[0\] otherwise in phase 2 than at the start"
    ):
        relative_equations(equations)


# -- the relative functions of the checker, as formulas say -------------------------------------------------


def numbers(function, claim, x):
    """The results of a function in exact fractions."""
    binary = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
    assert function.inputs == len(x) == sum(op == "input" for op, *_ in function.nodes)
    values = []
    for op, *k in function.nodes:
        if op == "input":
            values.append(x[k[0]])
        elif op == "constant":
            values.append(claim.constants[k[0]][0])
        elif op == "parameter":
            values.append(claim.parameters["p"][0])
        else:
            values.append(binary[op](*(values[i] for i in k)))
    return [values[k] for k in function.outputs]


def some_function(random, inputs, outputs):
    nodes = [("input", k) for k in range(inputs)] + [("constant", 1), ("parameter", 0)]
    for _ in range(12):
        op = ["add", "sub", "mul"][random.integers(3)]
        nodes.append((op, *random.integers(len(nodes), size=2).tolist()))
    return Function(inputs, tuple(nodes), tuple(random.integers(len(nodes), size=outputs).tolist()))


COORDINATES = (3, 1)
SIZES = (5, 6)  # of the states in two phases


def some_claim(random):
    """A claim with random functions and two shifts, which need not leave the functions as they are."""
    shifts = []
    for m in range(2):
        rows = [[Fraction(int(x), 4) for x in random.integers(-3, 4, n)] for n in SIZES]
        for row in rows:
            row[2] = Fraction(0)
            for q, i in enumerate(COORDINATES):
                row[i] = Fraction(m == q)
        shifts.append(tuple(map(tuple, rows)))

    def nodes(n):
        return tuple(
            tuple(Fraction(0) if i in COORDINATES else Fraction(int(random.integers(1, 9))) for i in range(n))
            for _ in range(2)
        )

    plane = Function(6, (*(("input", k) for k in range(6)), ("constant", 0), ("sub", 2, 6)), (7,))
    guards = tuple(Guard(name, 1, some_function(random, 5, 1), 0) for name in "gh")
    at_end = (SignAtEnd(some_function(random, 5, 1), 1),)
    one = (Fraction(1),)
    a, b = [tuple(f"y{k}{i}" for i in range(n)) for k, n in enumerate(SIZES)]
    jumps = some_function(random, 5, 6), some_function(random, 6, 5)
    phases = (
        Phase(a, some_function(random, 5, 5), some_function(random, 5, 1), ("g", 1), None, jumps[0], guards,
              at_end, nodes(5), one, one[0]),
        Phase(b, some_function(random, 6, 6), plane, None, 2, jumps[1], (), (), nodes(6), one, one[0]),
    )  # fmt: skip
    constants = ((Fraction(7),) * 2, (Fraction(2),) * 2)
    symmetries = tuple(Symmetry(j, along, Fraction(0)) for j, along in zip(COORDINATES, shifts))
    return Claim("some", constants, {"p": (Fraction(3),) * 2}, phases, symmetries, (), 4)


@pytest.mark.parametrize("seed", range(20))
def test_relative_functions_are_those_of_the_formulas(seed):
    """w' = f(w) - sum xi f_j(w) and w+ = J(w) - sum xi+ J_j(w)."""
    random = np.random.default_rng(seed)
    claim = some_claim(random)
    relative = relative_claim(claim)
    assert relative.symmetries == ()
    for k, (phase, new) in enumerate(zip(claim.phases, relative.phases)):
        kept, behind = ([i for i in range(SIZES[m]) if i not in COORDINATES] for m in (k, 1 - k))
        w = [Fraction(int(x), 2) for x in random.integers(-9, 10, SIZES[k])]
        for j in COORDINATES:
            w[j] = Fraction(0)
        u = [w[i] for i in kept]
        for old, own, places, m in (
            (phase.field, new.field, kept, k),
            (phase.jump, new.jump, behind, 1 - k),
        ):
            values = numbers(old, claim, w)
            expected = [
                values[i] - sum(x.along[m][i] * values[x.coordinate] for x in claim.symmetries)
                for i in places
            ]
            assert numbers(own, relative, u) == expected
        pairs = [(phase.section, new.section)]
        for old, own in ((phase.guards, new.guards), (phase.at_end, new.at_end)):
            pairs += [(x.function, y.function) for x, y in zip(old, own, strict=True)]
        assert all(numbers(b, relative, u) == numbers(a, claim, w) for a, b in pairs)
        assert new.nodes == tuple(tuple(node[i] for i in kept) for node in phase.nodes)
        moved = [any(x.along[k][i] for x in claim.symmetries) for i in kept]
        assert new.states == tuple("relative " * a + phase.states[i] for a, i in zip(moved, kept))
    section = relative.phases[1].section
    assert relative.phases[1].coordinate == 1 and section.nodes[4:] == (("constant", 0), ("sub", 1, 4))


def test_claims_without_relative_states_are_refused():
    claim = some_claim(np.random.default_rng(0))

    def with_along(m, k, i, x):
        along = [list(row) for row in claim.symmetries[m].along]
        along[k][i] = Fraction(x)
        symmetries = list(claim.symmetries)
        symmetries[m] = replace(symmetries[m], along=tuple(map(tuple, along)))
        return replace(claim, symmetries=tuple(symmetries))

    for m, k, i, x in ((0, 1, 1, 1), (1, 1, 3, 1), (1, 1, 1, 2), (0, 0, 1, 1)):
        with pytest.raises(liebody_check.Refused, match="alone"):
            relative_claim(with_along(m, k, i, x))
    for k in range(2):
        for j in COORDINATES:
            nodes = [list(row) for row in claim.phases[k].nodes]
            nodes[1][j] = Fraction(1)
            phases = list(claim.phases)
            phases[k] = replace(phases[k], nodes=tuple(map(tuple, nodes)))
            with pytest.raises(liebody_check.Refused, match="no relative state"):
                relative_claim(replace(claim, phases=tuple(phases)))
    across = replace(claim.phases[1], coordinate=3)
    with pytest.raises(liebody_check.Refused, match="closes at a value"):
        relative_claim(replace(claim, phases=(claim.phases[0], across)))
