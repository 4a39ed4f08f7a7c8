"""Proved orbits with quaternions, and of driven systems: independent values, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from fractions import Fraction

import numpy as np
import pytest
from test_proofs import changed

import liebody as lb
from liebody.compiler import Tape
from liebody.gaits import ProofError, periodic_orbit, prove, prove_basin, prove_flip, prove_fold
from liebody.gaits.proofs import closing
from liebody.groups import SE3, SO3, Free, R, Revolute
from liebody.scalars import cos, sin, where

pytest.importorskip("flint", reason="the checker is built on Arb")
import flint
from flint import arb, arb_mat

import liebody_check
from liebody_check.__main__ import main
from liebody_check.claims import Function
from liebody_check.closing import _signs

STEPS = {"dt": 0.01, "method": "rkmk8"}
INERTIA = (1.0, 2.0, 3.0)


def driven_by(p):
    return 2 * np.pi / p.rate


def satellite():
    """A body with a magnet, which a field attracts that turns to and fro; a second one keeps it upright."""

    def field(t, q, v, z, p):
        B = SO3.element(q).T
        swinging = B @ np.array([1.0, p.size * sin(p.rate * t), 0.5 * p.size * cos(2 * p.rate * t)])
        torque = np.cross([1.0, 0, 0], swinging) + 0.5 * np.cross([0, 0, 1.0], B @ np.array([0, 0, 1.0]))
        inertia = np.array(INERTIA)
        return (torque - v - np.cross(v, inertia * v)) / inertia

    return lb.HybridSystem(SO3, field, parameters={"size": 0.5, "rate": 1.0}, name="satellite")


@pytest.fixture(scope="module")
def turning():
    orbit = periodic_orbit(satellite(), [1.0, 0, 0, 0], period=driven_by, **STEPS)
    return orbit, prove(orbit)


# -- independent values -------------------------------------------------------------------------------------


@pytest.fixture
def digits():
    with flint.ctx.workprec(160):
        yield


def after(field, y, time, steps, columns=12):
    """y' = field(t, y) after a time, in some 25 digits: the midpoint rule, extrapolated to h = 0 (Gragg)."""
    H = time / steps
    for k in range(steps):
        table = []
        for j in range(1, columns + 1):
            h = H / (2 * j)
            before, now = y, [a + h * f for a, f in zip(y, field(k * H, y), strict=True)]
            for i in range(1, 2 * j):
                rate = field(k * H + i * h, now)
                before, now = now, [a + 2 * h * f for a, f in zip(before, rate, strict=True)]
            row = [now]
            for m in range(1, j):
                share = 1 / ((arb(j) / (j - m)) ** 2 - 1)
                row.append([a + (a - b) * share for a, b in zip(row[m - 1], table[-1][m - 1], strict=True)])
            table.append(row)
        y = [x.mid() for x in table[-1][-1]]
    return y


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def plus(*vectors):
    return [sum(x, arb(0)) for x in zip(*vectors, strict=True)]


def times(s, a):
    return [s * x for x in a]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def rows(y):
    """The matrix whose entries come first."""
    return [y[0:3], y[3:6], y[6:9]]


def turned_back(matrix, x):
    """R^T x."""
    return [dot(column, x) for column in zip(*matrix, strict=True)]


def turning_rate(matrix, w):
    """The entries of R [w]."""
    return [x for row in matrix for x in cross(row, w)]


def rotation(q):
    """R of a unit quaternion."""
    w, x, y, z = q
    return [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip


def closed(field, y, period, steps, derivative):
    """The y = (R, x) that comes back after the period: Newton's method, with a derivative of some digits.

    Changes of R are R [a]. One step leaves 1e-15 times the error of the derivative.
    """
    for _ in range(3):
        end = after(field, y, period, steps)
        A, B = rows(y), rows(end)
        off = [turned_back(A, column) for column in zip(*B, strict=True)]  # columns of A^T B
        turn = [(off[1][2] - off[2][1]) / 2, (off[2][0] - off[0][2]) / 2, (off[0][1] - off[1][0]) / 2]
        r = turn + [b - a for a, b in zip(y[9:], end[9:], strict=True)]
        size = max(float(abs(x)) for x in r)
        if size < 1e-24:
            return y
        scaled = np.array([float(x / size) for x in r])
        change = [arb(x) * size for x in np.linalg.solve(np.eye(len(r)) - derivative, scaled)]
        a, turned = change[:3], []
        for row in A:
            once = cross(row, a)
            turned += plus(row, once, times(arb(0.5), cross(once, a)))
        y = turned + [x + d for x, d in zip(y[9:], change[3:], strict=True)]
    raise AssertionError(f"the reference is not closed: {size}")


def of_satellite(t, y):
    """Euler's equations, with the rotation as a matrix."""
    matrix, w = rows(y), y[9:]
    field = turned_back(matrix, [arb(1), t.sin() / 2, (2 * t).cos() / 4])
    upright = turned_back(matrix, [arb(0), arb(0), arb(1)])
    e = [arb(1), arb(0), arb(0)], [arb(0), arb(0), arb(1)]
    gyro = cross(w, [a * x for a, x in zip(INERTIA, w, strict=True)])
    torque = plus(cross(e[0], field), times(arb(0.5), cross(e[1], upright)), times(arb(-1), plus(w, gyro)))
    return turning_rate(matrix, w) + [x / a for x, a in zip(torque, INERTIA, strict=True)]


def test_a_driven_satellite_contains_an_independent_orbit(turning, digits):
    orbit, certificate = turning
    proof = certificate.check()
    q, v = proof.nodes[0][:4], proof.nodes[0][4:7]
    start = [x.mid() for x in [*rotation(q), *v]]
    exact = closed(of_satellite, start, 2 * arb.pi(), 60, orbit.derivative)
    for ball, value in zip([*rotation(q), *v], exact, strict=True):
        assert ball.overlaps(value + arb(0, 1e-22)) and ball.rad() < 1e-12
    for (low, high), ball in zip(certificate.nodes[0], proof.nodes[0], strict=False):
        assert arb(low) <= ball.mid() <= arb(high)


def test_the_period_of_a_drive_is_exact(turning):
    _, certificate = turning
    proof = certificate.check()
    with flint.ctx.workprec(160):
        assert proof.period.overlaps(2 * arb.pi()) and proof.period.rad() < 1e-30
        low, high = certificate.period
        assert arb(low) < 2 * arb.pi() < arb(high) and high - low < 2e-15
    assert "Its period is that of the drive, T = 2 pi / 1 = 6.28318530717958647" in proof.theorem
    assert "It starts at t = 0 with q[0] = 0.9" in proof.theorem
    assert "(q[0], q[1], q[2], q[3]) is a unit quaternion" in proof.theorem


def test_multipliers_are_those_on_the_group(turning):
    """Six of them, as rotations have three directions; liebody differentiates along the group."""
    orbit, certificate = turning
    proof = certificate.check()
    exact = np.sort_complex(orbit.multipliers)
    for found, tolerance in (
        (certificate.multipliers, 1e-8),
        ([complex(x.real.mid(), x.imag.mid()) for x in proof.multipliers], 1e-6),
    ):
        np.testing.assert_allclose(np.sort_complex(found), exact, atol=tolerance)
    assert certificate.stable and proof.stable
    # their product is the contraction of volumes, exp(-T sum 1 / I)
    product = np.prod(certificate.multipliers).real
    assert product == pytest.approx(np.exp(-2 * np.pi * sum(1 / x for x in INERTIA)), rel=1e-4)


# -- a body with an arm in space ----------------------------------------------------------------------------

BODY, FIN = (4.0, (0.6, 0.5, 0.4)), (0.5, (0.5, 0.05, 0.1))
HINGE, ARM = (0.3, 0.0, 0.125), 0.25
DRAG = (0.25, 0.25, 0.25, 2.0, 8.0, 4.0)


def swimmer():
    """A floating body with a driven fin, in a fluid that resists; magnets keep it upright."""
    tree = lb.TreeBuilder("swimmer")
    tree.add("body", Free(), lb.SpatialInertia.box(BODY[0], BODY[1]))
    fin = lb.SpatialInertia.box(FIN[0], FIN[1], com=[ARM, 0, 0])
    tree.add("fin", Revolute([0, 0, 1]), fin, parent="body", placement=list(HINGE))
    robot = lb.Robot(tree.build(), gravity=[0, 0, 0])

    def field(t, q, v, z, p):
        B = SO3.element(q[:4]).T
        upright = 0.25 * sum(np.cross(e, B @ e) for e in np.eye(3))
        effort = p.size * sin(p.rate * t) - q[7] - 0.25 * v[6]
        drag = np.array(DRAG) * v[:6]
        return robot.forward_dynamics(q, v, np.concatenate([upright - drag[:3], -drag[3:], [effort]]))

    return lb.HybridSystem(robot.group, field, parameters={"size": 1.0, "rate": 8.0}, name="swimmer")


def of_swimmer(t, y):
    """Kane's equations of two bodies, in axes of the first; y = (R, angle, w, v, rate of the angle)."""
    matrix, angle, w, v, rate = rows(y), y[9], y[10:13], y[13:16], y[16]
    c, s, zero, one = angle.cos(), angle.sin(), arb(0), arb(1)
    e = [one, zero, zero], [zero, one, zero], [zero, zero, one]
    arm = [c * ARM, s * ARM, zero]
    place = plus([arb(x) for x in HINGE], arm)
    across = cross(e[2], arm)
    moments = [
        [arb(m) / 12 * (arb(a) ** 2 + arb(b) ** 2) for a, b in ((y, z), (x, z), (x, y))]
        for m, (x, y, z) in (BODY, FIN)
    ]

    def of_fin(x):
        """Its inertia times x."""
        a, b, d = moments[1]
        along, other = c * x[0] + s * x[1], c * x[1] - s * x[0]
        return [c * a * along - s * b * other, s * a * along + c * b * other, d * x[2]]

    def of_body(x):
        return [a * b for a, b in zip(moments[0], x, strict=True)]

    # velocities of the two bodies are linear in (w, v, rate): turning of both, and motion of both centres
    still = [zero] * 3
    turns = [(x, x) for x in e] + [(still, still)] * 3 + [(still, e[2])]
    moves = [(still, cross(x, place)) for x in e] + [(x, x) for x in e] + [(still, across)]
    w2 = plus(w, times(rate, e[2]))
    v2 = plus(v, cross(w, place), times(rate, across))
    # accelerations without those of (w, v, rate)
    a1 = cross(w, v)
    swing = times(rate, across)
    a2 = plus(cross(w, swing), times(rate, cross(e[2], swing)), cross(w, v2))
    al2 = cross(w, times(rate, e[2]))
    masses = arb(BODY[0]), arb(FIN[0])
    torques = cross(w, of_body(w)), plus(of_fin(al2), cross(w2, of_fin(w2)))
    forces = times(masses[0], a1), times(masses[1], a2)
    M = [
        [
            dot(a[0], of_body(b[0])) + dot(a[1], of_fin(b[1]))
            + masses[0] * dot(x[0], y[0]) + masses[1] * dot(x[1], y[1])
            for b, y in zip(turns, moves, strict=True)
        ]
        for a, x in zip(turns, moves, strict=True)
    ]  # fmt: skip
    upright = plus(*(times(arb(0.25), cross(x, turned_back(matrix, x))) for x in e))
    given = plus(upright + [zero] * 3, [-d * x for d, x in zip(DRAG, w + v, strict=True)])
    given.append((8 * t).sin() - angle - rate / 4)
    right = [
        f - sum((dot(a, b) for a, b in zip(turn, torques, strict=True)), zero)
        - sum((dot(a, b) for a, b in zip(move, forces, strict=True)), zero)
        for f, turn, move in zip(given, turns, moves, strict=True)
    ]  # fmt: skip
    rates = arb_mat(M).solve(arb_mat([[x] for x in right]))
    return [*turning_rate(matrix, w), rate, *(rates[k, 0] for k in range(7))]


@pytest.mark.slow
def test_a_floating_arm_contains_an_independent_orbit(digits):
    orbit = periodic_orbit(
        swimmer(), [1.0, *[0] * 7], period=driven_by, symmetries=np.eye(7)[3:6], tries=60, **STEPS
    )
    certificate = prove(orbit)
    proof = certificate.check()
    assert certificate.stable and proof.stable and len(proof.multipliers) == 14 - 3
    assert proof.period.overlaps(arb.pi() / 4)
    first = proof.nodes[0]
    found = [*rotation(first[:4]), first[7], *first[8:15]]
    kept = [0, 1, 2, *range(6, 14)]  # without the place
    derivative = orbit.derivative[np.ix_(kept, kept)]
    exact = closed(of_swimmer, [x.mid() for x in found], arb.pi() / 4, 20, derivative)
    for ball, value in zip(found, exact, strict=True):
        assert ball.overlaps(value + arb(0, 1e-22)) and ball.rad() < 1e-11
    # it swims: the shift is the integral of R v
    together = after(
        lambda t, y: [*of_swimmer(t, y[:17]), *(dot(row, y[13:16]) for row in rows(y))],
        [*exact, arb(0), arb(0), arb(0)], arb.pi() / 4, 20,
    )  # fmt: skip
    for ball, value in zip(proof.shift, together[17:], strict=True):
        assert ball.overlaps(value + arb(0, 1e-22)) and ball.rad() < 1e-11


# -- closed forms -------------------------------------------------------------------------------------------


def spinning_top():
    """It turns at 1 rad/s about its axis, upright; its quaternion comes back with the other sign."""

    def field(t, q, v, z, p):
        upright = SO3.element(q).T @ np.array([0, 0, 1.0])
        return 2 * np.cross([0, 0, 1.0], upright) - v + np.array([0, 0, 1.0])

    return lb.HybridSystem(SO3, field, name="top")


@pytest.fixture(scope="module")
def top():
    return prove(periodic_orbit(spinning_top(), [1.0, 0, 0, 0], [0, 0, 1.0], period=2 * np.pi, **STEPS))


def test_an_orbit_closes_where_the_quaternion_has_changed_its_sign(top):
    proof = top.check()
    assert top.data["rotations"] == [{"place": 0, "sign": -1}]
    assert proof.period.overlaps(2 * arb.pi()) and proof.period.rad() < 1e-12 and proof.least
    assert "and its quaternion has changed its sign" in proof.theorem
    # nutation about the two other axes: a'' = -a' - 2 a seen from axes that turn; and the speed, exp(-T)
    assert len(proof.multipliers) == 5 and proof.stable
    sizes = sorted(float(abs(x).mid()) for x in proof.multipliers)
    assert sizes[0] == pytest.approx(np.exp(-2 * np.pi), rel=1e-6)


def test_two_turns_of_the_top_are_a_period_but_not_the_least_one():
    twice = prove(periodic_orbit(spinning_top(), [1.0, 0, 0, 0], [0, 0, 1.0], period=4 * np.pi, **STEPS))
    proof = twice.check()
    assert twice.data["rotations"] == [{"place": 0, "sign": 1}]
    assert proof.period.overlaps(4 * arb.pi()) and not proof.least
    assert "(perhaps not the least one)" in proof.theorem


def test_a_ball_in_space_that_bounces():
    """v becomes kick - e v at each bounce: it leaves with v = kick / (1 - e), and returns after 2 v / g."""

    def world(q):
        return SO3.element(q[:4])

    def field(t, q, v, z, p):
        upright = sum(a * np.cross(e, world(q).T @ e) for a, e in zip((4, 5, 7), np.eye(3), strict=True))
        weight = world(q).T @ np.array([0, 0, -9.81])
        drag = world(q).T @ (np.array([1.0, 1.5, 0]) * (world(q) @ v[3:]))
        return np.concatenate([upright - 2 * v[:3], weight - drag - np.cross(v[:3], v[3:])])

    def update(t, q, v, z, p, events):
        linear = world(q) @ v[3:]
        after = world(q).T @ np.array([linear[0], linear[1], 1 - linear[2] / 2])
        return (
            q,
            np.array([*v[:3], *(where(events.ground < 0, a, b) for a, b in zip(after, v[3:], strict=True))]),
            z,
        )

    ball = lb.HybridSystem(
        SE3, field, update=update, guards=lambda t, q, v, z, p: {"ground": q[6]},
        directions={"ground": -1}, name="ball",
    )  # fmt: skip
    orbit = periodic_orbit(
        ball, [1.0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2.0], period=0.4, section="ground",
        symmetries=np.eye(6)[3:5], dt=2e-3, method="rkmk8",
    )  # fmt: skip
    proof = prove(orbit).check()
    period = 4 / arb(9.81)
    assert proof.period.overlaps(period) and proof.period.rad() < 1e-12
    assert proof.stable and proof.least
    multipliers = sorted(float(abs(x).mid()) for x in proof.multipliers)
    assert multipliers[-1] == pytest.approx(
        np.exp(-float(period.mid())), abs=1e-6
    )  # the drag along the ground


@pytest.fixture(scope="module")
def hammering():
    """x'' + x'/5 + x = 2 cos 2t, and v becomes -0.6 v at the wall."""
    hammer = lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-q[0] - 0.2 * v[0] + 2 * cos(2 * t)]), name="hammer",
        update=lambda t, q, v, z, p, events: (q, where(events.wall > 0, -0.6 * v, v), z),
        guards=lambda t, q, v, z, p: {"wall": q[0] - 0.3}, directions={"wall": 1},
    )  # fmt: skip
    return prove(periodic_orbit(hammer, [-2.865], [1.877], period=lambda p: np.pi, **STEPS))


def test_a_driven_hammer_hits_a_wall_in_each_period(hammering):
    """Volumes shrink by 0.36 exp(-T / 5)."""
    proof = hammering.check()
    assert [phase.event for phase in proof.claim.phases] == [("wall", 1), None]
    assert "In phase 2, y = (q[0], v[0], t) obeys dy/dt = f2(y) until t = T." in proof.theorem
    assert proof.period.overlaps(arb.pi()) and sum(proof.durations, arb(0)).overlaps(arb.pi())
    volume = proof.multipliers[0] * proof.multipliers[1]
    assert volume.real.overlaps(arb("0.36") * (-arb.pi() / 5).exp() + arb(0, 1e-11)) and proof.stable


def duffing():
    return lb.HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-q[0] - q[0] ** 3 - v[0] + p.size * cos(3 * p.rate * t)]),
        parameters={"size": 1.0, "rate": 0.5}, name="Duffing",
    )  # fmt: skip


def test_a_linear_oscillator_under_a_drive_has_its_closed_form():
    """x'' + x' + x = cos 2t: x = Re a exp(2it), a = 1 / (1 - 4 + 2i); multipliers of the size exp(-T / 2)."""
    system = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([-q[0] - v[0] + cos(2 * t)]), name="linear")
    certificate = prove(periodic_orbit(system, [0.0], [0.0], period=lambda p: np.pi, **STEPS))
    proof = certificate.check()
    amplitude = 1 / flint.acb(-3, 2)
    assert proof.nodes[0][0].overlaps(amplitude.real) and proof.nodes[0][1].overlaps(-2 * amplitude.imag)
    assert proof.nodes[0][0].rad() < 1e-13 and proof.period.overlaps(arb.pi())
    size = float((-arb.pi() / 2).exp().mid())
    assert proof.largest.overlaps(arb(size) + arb(0, 1e-12)) and proof.stable
    assert "T = 2 pi / 2 = 3.1415926535" in proof.theorem


def test_exact_rates_of_a_drive_and_periods_of_several_turns():
    orbit = periodic_orbit(duffing(), [0.0], [0.0], period=driven_by, **STEPS)
    certificate = prove(orbit, parameters={"rate": Fraction(1, 2)})
    # 3 p.rate is the only rate, so the drive repeats three times in this period
    assert certificate.data["drive"] == {"place": 2, "rate": (0.5).hex()}
    third = prove(
        periodic_orbit(duffing(), [0.0], [0.0], period=lambda p: 2 * np.pi / (3 * p.rate), **STEPS),
        parameters={"rate": "0.5000000000000001"},
    )
    assert third.data["drive"]["rate"] == str(3 * Fraction("0.5000000000000001"))
    proof = third.check()
    with flint.ctx.workprec(160):
        rate = arb(flint.fmpq(15000000000000003, 10**16))
        assert proof.period.overlaps(2 * arb.pi() / rate) and proof.period.rad() < 1e-30


def test_a_family_of_driven_orbits():
    orbit = periodic_orbit(duffing(), [0.0], [0.0], period=lambda p: 2 * np.pi / (3 * p.rate), **STEPS)
    family = prove(orbit, parameters={"size": (0.99, 1.01)})
    proof = family.check()
    assert family.complete and proof.stable
    assert "periods, that of the drive, lie within T = 4.18879020478639" in family.theorem()
    other = orbit.with_parameters(size=1.005)
    for (low, high), x in zip(family.at(1.005)[1][:2], [*other.q, *other.v], strict=True):
        assert low - 1e-9 < x < high + 1e-9
    wrong = json.loads(json.dumps(dict(family.data)))
    wrong["drive"]["rate"] = (1.25).hex()
    with pytest.raises(liebody_check.Refused, match="not that of the drive"):
        liebody_check.check(wrong)


# -- steps in C ---------------------------------------------------------------------------------------------


def assert_the_same_in_c(certificate):
    """Both programs of the checker accept a certificate with the same bounds, those in C hardly wider."""
    proof, other = certificate.check("python"), liebody_check.check(certificate.data, steps="c")
    assert (proof.by, other.by) == ("Python", "C")
    assert (proof.stable, proof.least) == (other.stable, other.least)
    pairs = [(proof.period, other.period), *zip(proof.durations, other.durations, strict=True)]
    pairs += [pair for rows in zip(proof.nodes, other.nodes, strict=True) for pair in zip(*rows, strict=True)]
    pairs += zip(proof.shift, other.shift, strict=True)
    assert all(a.overlaps(b) and b.rad() < 2 * a.rad() + arb(2) ** -60 for a, b in pairs)
    sizes = (sorted(float(abs(x).mid()) for x in y.multipliers) for y in (proof, other))
    assert np.abs(np.subtract(*sizes)).max() < 1e-8
    assert "bounds of the steps by its steps.c" in other.theorem
    # the same theorem, up to the digits that bounds leave, and to its last line
    words = ([re.sub(r"[-\d.e+]+", "", x) for x in y.theorem.splitlines()[:-1]] for y in (proof, other))
    assert next(words) == next(words)
    return other


def test_a_quaternion_and_a_drive_close_in_c(turning):
    """The period of the drive has all digits of pi, as in Python."""
    other = assert_the_same_in_c(turning[1])
    assert other.period.overlaps(2 * arb.pi()) and other.period.rad() < 1e-18


def test_a_quaternion_that_changes_its_sign_closes_in_c(top, tmp_path, capsys):
    assert top.data["format"].endswith("6") and top.data["rotations"] == [{"place": 0, "sign": -1}]
    other = assert_the_same_in_c(top)
    assert other.period.overlaps(2 * arb.pi()) and len(other.multipliers) == 5
    copy = dataclasses.replace(top, _checked=[])
    assert copy.theorem(steps="c") == other.theorem
    copy.save(tmp_path / "top.json")
    assert main(["--steps", "c", str(tmp_path / "top.json")]) == 0
    said = capsys.readouterr().out
    assert "its quaternion has changed its sign" in said and "its steps.c" in said
    # nor is the other sign accepted
    wrong = changed(top.data, ["rotations", 0, "sign"], 1)
    with pytest.raises(liebody_check.Refused):
        liebody_check.check(wrong, steps="c")


def test_phases_under_a_drive_and_families_of_them_close_in_c(hammering):
    assert_the_same_in_c(hammering)
    orbit = periodic_orbit(duffing(), [0.0], [0.0], period=lambda p: 2 * np.pi / (3 * p.rate), **STEPS)
    family = prove(orbit, parameters={"size": (0.99, 1.01)})
    proof, other = family.check(), family.check("c")
    assert other.by == "C" and proof.stable and other.stable
    for one, two in zip(proof.parts, other.parts, strict=True):
        assert one.period.overlaps(two.period) and one.least == two.least
        assert all(b <= 2 * a for a, b in zip(one.reach, two.reach, strict=True))


# -- what is refused ----------------------------------------------------------------------------------------


def test_drives_that_are_not_seen_to_repeat_are_named():
    def proved(law, period):
        system = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([-q[0] - v[0] + law(t)]), name="driven")
        return prove(periodic_orbit(system, [0.0], [0.0], period=lambda p: period, dt=0.01))

    with pytest.raises(ProofError, match="not exact multiples of"):
        proved(lambda t: cos(0.1 * t) + cos((3 * 0.1) * t), 20 * np.pi)
    with pytest.raises(ProofError, match="do not contain the time"):
        proved(lambda t: 1.0, 1.0)
    with pytest.raises(ProofError, match=r"in another way than by sin and cos"):
        proved(lambda t: cos(t) + 1e-14 * t, 2 * np.pi)
    system = lb.HybridSystem(R(1), lambda t, q, v, z, p: np.array([-v[0] - q[0] + cos(t)]), name="driven")
    orbit = periodic_orbit(system, [0.0], [0.0], period=lambda p: 2 * np.pi, dt=0.01)
    forgotten = periodic_orbit(system, orbit.q, orbit.v, period=2 * np.pi, dt=0.01)
    with pytest.raises(ProofError, match=r"depends on the time t; .* period=lambda p"):
        prove(forgotten)


def test_symmetries_that_rotate_are_named():
    body = lb.HybridSystem(SO3, lambda t, q, v, z, p: np.array([0, 0, 1.0]) - v, name="free top")
    orbit = periodic_orbit(
        body, [1.0, 0, 0, 0], [0, 0, 1.0], period=1.0, symmetries=np.eye(3), shift=[0, 0, 1.0], **STEPS
    )
    with pytest.raises(ProofError, match="rotates in space"):
        prove(orbit)


@pytest.mark.parametrize(
    ("system", "start", "period"),
    [(spinning_top, ([1.0, 0, 0, 0], [0, 0, 1.0]), 2 * np.pi), (duffing, ([0.0], [0.0]), driven_by)],
)
def test_larger_systems_of_rotations_and_drives_are_named(system, start, period):
    """Flips, folds and basins need a system that closes without a change of its states."""
    orbit = periodic_orbit(system(), *start, period=period, **STEPS)
    for call, words in (
        (lambda: prove_flip(orbit, "size"), "flips"),
        (lambda: prove_fold(orbit, "size"), "folds"),
        (lambda: prove_basin(orbit), "basins"),
    ):
        with pytest.raises(ProofError, match=f"{words} of orbits that rotate in space, or are driven"):
            call()


def test_certificates_with_another_closing_are_refused(turning, top):
    data = json.loads(json.dumps(dict(turning[1].data)))
    spinning = json.loads(json.dumps(dict(top.data)))
    nodes = data["phases"][0]["field"]["nodes"]
    time_row = data["phases"][0]["field"]["outputs"][7]
    assert nodes[time_row][0] == "constant"
    one = nodes[time_row][1]
    other = next(k for k, x in enumerate(data["constants"]) if x != data["constants"][one])
    cases = [
        (changed(data, ["rotations", 0, "sign"], -1), "for a quaternion and its negative|Krawczyk"),
        (changed(data, ["rotations", 0, "sign"], 0), "no sign"),
        (changed(data, ["rotations", 0, "place"], 1), "keep the length"),
        (changed(data, ["rotations", 0, "place"], 5), "index 5 is not one of"),
        (changed(data, ["rotations"], []), "Krawczyk|singular"),
        (changed(data, ["rotations"], data["rotations"] * 2), "in two quaternions"),
        (changed(data, ["drive", "rate"], (2.0).hex()), "not that of the drive"),
        (changed(data, ["drive", "rate"], (-1.0).hex()), "not positive"),
        (changed(data, ["drive", "place"], 6), "does not end at a time"),
        (changed(data, ["phases", 0, "field", "nodes", time_row, 1], other), "grow by 1"),
        (changed(data, ["format"], "liebody certificate 2"), "not in files of this format"),
        (changed(spinning, ["rotations", 0, "sign"], 1), "Krawczyk"),
        (changed(spinning, ["rotations"], []), "neither rotations nor a drive"),
    ]  # fmt: skip
    without = {key: x for key, x in data.items() if key != "drive"}
    cases.append((without, "Krawczyk|singular|repeat"))
    for wrong, words in cases:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(wrong)


def test_drives_with_other_functions_of_time_are_refused(turning):
    """sin of the time becomes exp, or its argument no multiple of the rate."""
    data = json.loads(json.dumps(dict(turning[1].data)))
    nodes = data["phases"][0]["field"]["nodes"]
    sine = next(k for k, node in enumerate(nodes) if node[0] == "sin")
    wrong = changed(data, ["phases", 0, "field", "nodes", sine, 0], "exp")
    with pytest.raises(liebody_check.Refused, match="repeat with the drive"):
        liebody_check.check(wrong)
    place = [name for name, _ in data["parameters"]].index("rate")
    wrong = changed(data, ["parameters", place, 1], (1.5).hex())
    with pytest.raises(liebody_check.Refused, match="repeat with the drive"):
        liebody_check.check(wrong)


def tape(rows, outputs, inputs=2):
    nodes = [("input", k) for k in range(inputs)] + rows
    return Tape(inputs, tuple(nodes), tuple(outputs)), Function(inputs, tuple(nodes), tuple(outputs))


@pytest.mark.parametrize(
    ("rows", "sign"),
    [
        ([("mul", 0, 0)], 1),
        ([("mul", 0, 1)], -1),
        ([("div", 1, 0), ("sin", 2)], -1),
        ([("cos", 0)], 1),
        ([("add", 0, 1)], 0),
        ([("exp", 0)], 0),
        ([("arctan2", 0, 1)], 0),
        ([("hypot", 0, 1)], 1),
        ([("sqrt", 0), ("mul", 2, 2)], 0),
    ],
)
def test_signs_of_results_where_an_argument_changes_its_sign(rows, sign):
    """Both programs; 0: neither even nor odd is seen."""
    one, other = tape(rows, [1 + len(rows)])
    assert _signs(other, frozenset({0})) == [sign]
    assert closing._parities(one, {0}) == [sign or None]


def test_the_bounds_of_pi_contain_it_and_are_close():
    from liebody_check import reading

    with flint.ctx.workprec(400):
        for low, high in (closing.PI, reading.PI):
            bounds = [arb(flint.fmpq(x.numerator, x.denominator)) for x in (low, high)]
            assert bounds[0] < arb.pi() < bounds[1] and high - low < Fraction(1, 10**37)
