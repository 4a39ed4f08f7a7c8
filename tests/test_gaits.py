"""Periodic orbits: closed forms, textbook systems, differences, long simulations; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from found import load_example
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import liebody as lb
from liebody import scalars
from liebody.base.errors import ArgumentError, ConfigurationError, IntegrationError, ModelError, ShapeError
from liebody.gaits import (
    GaitError,
    UnreachedPrecision,
    basin,
    bifurcation_curve,
    continuation,
    floquet,
    improve,
    periodic_orbit,
    regulator,
    search,
    stabilize,
    switch_branch,
)
from liebody.groups import SO3, R
from liebody.hybrid import HybridSystem

PERIOD = 6.6632868593231301896996820305  # of van der Pol's oscillator with mu = 1
STEPS = {"dt": 0.01, "method": "rkmk8"}


def van_der_pol(more=lambda q, v, p: [], dimension=1, **parameters):
    def field(t, q, v, z, p):
        return np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0], *more(q, v, p)])

    return HybridSystem(R(dimension), field, parameters={"mu": 1.0, **parameters}, name="van der Pol")


@pytest.fixture(scope="module")
def circle():
    return periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, **STEPS, tolerance=1e-12)


@pytest.mark.parametrize("segments", [1, 4])
def test_van_der_pol_has_its_period(segments):
    orbit = periodic_orbit(
        van_der_pol(), [2.0], [0.1], period=6.5, segments=segments, **STEPS, tolerance=1e-12
    )
    assert orbit.period == pytest.approx(PERIOD, abs=2e-12) and orbit.family == 0
    run = orbit.simulate(1.0, record_every=orbit.period / 2000)
    divergence = 1 - run.q[:, 0] ** 2
    exact = np.exp(np.sum(divergence[1:]) * orbit.period / 2000)  # Abel, Liouville; the trapezoidal rule
    found = floquet(orbit)
    assert found.values == pytest.approx([exact], rel=1e-8) and found.stable
    assert found.trivial["orbit"] == pytest.approx(1, abs=1e-11)


def test_a_parameter_is_found_from_a_condition():
    """The mu with the period 7, and back again from that mu."""
    orbit = periodic_orbit(
        van_der_pol(), [2.0], [0.1], period=6.7, unknowns=["mu"],
        conditions=lambda q, v, T, s, p: [T - 7.0], **STEPS,
    )  # fmt: skip
    assert orbit.period == pytest.approx(7, abs=1e-9) and 1.2 < orbit.parameters["mu"] < 1.5
    again = periodic_orbit(van_der_pol(), orbit.q, orbit.v, period=7.0, parameters=orbit.parameters, **STEPS)
    assert again.period == pytest.approx(7, abs=1e-8)


# -- bifurcations with closed forms -------------------------------------------------------------------------


def test_a_torus_begins_where_the_damping_beside_the_orbit_vanishes():
    system = van_der_pol(lambda q, v, p: [2 * p.growth * v[1] - 2.0 * q[1]], 2, growth=-0.05)
    orbit = periodic_orbit(system, [2.0, 0], [0.1, 0], period=6.6, **STEPS)
    branch = continuation(orbit, "growth", step=0.02, bounds=(-0.1, 0.1))
    (found,) = branch.bifurcations
    assert found.kind == "Neimark-Sacker" and found.value == pytest.approx(0, abs=1e-7)
    turns = PERIOD * np.sqrt(2)
    assert abs(found.multiplier.imag) == pytest.approx(abs(np.sin(turns)), abs=1e-5)
    assert branch.ends == ("end of the range", "end of the range") and found.of_stability


def test_two_orbits_begin_at_a_pitchfork():
    """z'' + z' = a z - z^3: z = 0 splits at a = 0 into z = +- sqrt(a)."""
    system = van_der_pol(lambda q, v, p: [p.a * q[1] - q[1] ** 3 - v[1]], 2, a=-0.05)
    orbit = periodic_orbit(system, [2.0, 0], [0.1, 0], period=6.6, **STEPS)
    branch = continuation(orbit, "a", step=0.02, bounds=(-0.1, 0.1))
    (found,) = branch.bifurcations
    assert found.kind == "branch point" and found.value == pytest.approx(0, abs=1e-6)
    for side in (0.2, -0.2):
        split = switch_branch(found, "a", side)
        assert split.q[1] == pytest.approx(np.sign(split.q[1]) * np.sqrt(split.parameters["a"]), abs=1e-8)
        assert abs(split.q[1]) > 0.1 and split.stable
    with pytest.raises(ConfigurationError, match="fold"):
        switch_branch(replace(found, kind="fold"), "a")


BRANCH_POINTS = {  # z'' + z' = ..., with z = 0 and another curve through it at a = 0
    "pitchfork": lambda a, z: a * z - z**3,
    "subcritical pitchfork": lambda a, z: a * z + z**3,
    "transcritical": lambda a, z: a * z - z**2,
    "oblique": lambda a, z: (z - scalars.sin(3 * a)) * (a - z),
}


@pytest.mark.parametrize("kind", BRANCH_POINTS)
@pytest.mark.many
def test_the_place_of_a_branch_point_is_as_precise_as_asked_for(kind):
    """Also where bounds and steps make it lie near an orbit that is on the curve already."""
    push = BRANCH_POINTS[kind]
    system = van_der_pol(lambda q, v, p: [push(p.a, q[1]) - v[1]], 2, a=-0.052)
    start = -0.052 if kind == "oblique" else 0.0
    orbit = periodic_orbit(system, [2.0, start], [0.1, 0], period=6.6, **STEPS, tolerance=1e-12)
    for precision in (1e-3, 1e-6, 1e-9):
        for bounds in ((-0.1, 0.1), (-0.06, 1e-3)):
            branch = continuation(orbit, "a", step=0.02, bounds=bounds, precision=precision, tolerance=1e-12)
            (found,) = branch.bifurcations
            assert found.kind == "branch point" and found.precision < precision
            assert abs(found.value) < precision and abs(found.multiplier - 1) < precision
            assert found.orbit.residual < 1e-11
    for side in (0.2, -0.2):
        other = switch_branch(found, "a", side)
        away = other.q[1] - (other.parameters["a"] if kind == "oblique" else 0)
        assert abs(away) > 0.01 and other.residual < 1e-9


def test_a_precision_that_is_not_reached_is_said():
    """z'' + z' = a z - z^3 + 1e-6: two curves pass each other, and a long step changes curves."""
    system = van_der_pol(lambda q, v, p: [p.a * q[1] - q[1] ** 3 - v[1] + 1e-6], 2, a=-0.05)
    orbit = periodic_orbit(system, [2.0, 0], [0.1, 0], period=6.6, **STEPS)
    with pytest.warns(
        UnreachedPrecision, match=r"precision=1e-07 was not reached: branch point at a = "
    ) as told:
        branch = continuation(orbit, "a", step=0.02, bounds=(-0.1, 0.1))
    (found,) = branch.bifurcations
    assert 1e-7 < found.precision < 0.1 and f"to {found.precision:.1e}" in str(told[0].message)


def test_a_pitchfork_is_found_from_the_branch_that_ends_there():
    """There a multiplier only touches 1, and the curve turns: it is no fold, for z = 0 crosses it."""
    system = van_der_pol(lambda q, v, p: [p.a * q[1] - q[1] ** 3 - v[1]], 2, a=0.05)
    orbit = periodic_orbit(system, [2.0, np.sqrt(0.05)], [0.1, 0], period=6.6, scale=0.05, **STEPS)
    branch = continuation(orbit, "a", step=0.02, bounds=(-0.1, 0.1))
    (found,) = branch.bifurcations
    assert found.kind == "branch point" and found.value == pytest.approx(0, abs=1e-9)
    assert branch.values[0] == branch.values[-1] == 0.1
    assert branch.orbits[0].q[1] == pytest.approx(-branch.orbits[-1].q[1], abs=1e-8)
    straight = switch_branch(found, "a")
    assert straight.q[1] == pytest.approx(0, abs=1e-8)


def test_a_branch_point_is_found_among_equations_that_depend_on_each_other():
    """An oscillator without losses beside it: its energy, which is kept, is given by a condition."""
    system = HybridSystem(
        R(2), lambda t, q, v, z, p: np.array([-scalars.sin(q[0]), p.a * q[1] - q[1] ** 3 - v[1]]),
        parameters={"a": -0.05}, name="pendulum",
    )  # fmt: skip
    orbit = periodic_orbit(
        system, [1.0, 0], [0.0, 0], period=6.7,
        conditions=lambda q, v, T, s, p: [v[0] ** 2 / 2 + np.cos(1.0) - scalars.cos(q[0])], **STEPS,
    )  # fmt: skip
    assert len(orbit.shot.residual) > orbit.shooting.size - 1
    (found,) = continuation(orbit, "a", step=0.02, bounds=(-0.1, 0.1), precision=1e-8).bifurcations
    assert found.kind == "branch point" and found.value == pytest.approx(0, abs=1e-8)


def symmetry_is_lost(low, high):
    """Where the oscillation of q'' = -q'/2 - sin q + A cos(2 t/3) that is symmetric becomes unstable, in A.

    It is a fixed point of half a period followed by (q, v) -> -(q, v), which is regular there: a multiplier
    of this half is -1. By SciPy.
    """
    state = np.array([-0.56, 1.93])

    def field(t, y, A):
        q, v = y[:2]
        slope = np.array([[0, 1], [-np.cos(q), -0.5]]) @ y[2:].reshape(2, 2)
        return [v, -0.5 * v - np.sin(q) + A * np.cos(2 * t / 3), *slope.ravel()]

    def test(A):
        nonlocal state
        for _ in range(8):
            y0 = [*state, 1, 0, 0, 1]
            options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13, "args": (A,)}
            y = solve_ivp(field, (0, 1.5 * np.pi), y0, **options).y[:, -1]
            D = -y[2:].reshape(2, 2)
            change = np.linalg.solve(D - np.eye(2), y[:2] + state)
            state = state + change
            if np.abs(change).max() < 1e-11:
                break
        return np.prod(np.linalg.eigvals(D) + 1).real

    return brentq(test, low, high, xtol=1e-12)


def test_a_driven_pendulum_loses_its_symmetry_where_half_a_period_says():
    system = HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-0.5 * v[0] - scalars.sin(q[0]) + p.A * scalars.cos(2 * t / 3)]),
        parameters={"A": 0.9}, name="pendulum",
    )  # fmt: skip
    options = {"period": lambda p: 3 * np.pi, "dt": 0.02, "method": "rkmk8", "tolerance": 1e-11}
    orbit = periodic_orbit(system, [-0.56], [1.93], **options)
    exact = symmetry_is_lost(1.0, 1.01)
    for precision in (1e-4, 1e-7, 1e-10):
        branch = continuation(
            orbit, "A", step=0.02, bounds=(0.85, 1.05), precision=precision, tolerance=1e-11
        )
        (found,) = branch.bifurcations
        assert found.kind == "branch point" and found.precision < precision
        assert found.value == pytest.approx(exact, abs=max(precision, 1e-10))
    for side in (0.3, -0.3):  # one oscillates higher to the left, the other to the right
        split = switch_branch(found, "A", side)
        middle = split.simulate(0.5).q[-1] + split.q
        assert abs(middle[0]) > 0.05


OMEGA, REST = 2 * np.pi, 0.8  # of the table [rad/s]; restitution


def table_speed(e):
    """At impacts, one a period [m/s]."""
    return (1 - e) / (1 + e) * 9.81 / 2


TABLE = table_speed(REST)


def ball_on_a_table():
    """A ball that bounces on a table at height a sin(omega t - 1); the state at t = 0 is in flight."""

    def update(t, q, v, z, p, events):
        speed = p.a * OMEGA * scalars.cos(OMEGA * t - 1)
        return q, np.array([scalars.where(events.table < 0, (1 + p.e) * speed - p.e * v[0], v[0])]), z

    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-9.81]),
        parameters={"a": 0.1, "e": REST},
        guards=lambda t, q, v, z, p: {"table": q[0] - p.a * scalars.sin(OMEGA * t - 1)},
        directions={"table": -1},
        update=update,
        name="ball",
    )


def multipliers_of_the_ball(a, e=REST):
    """From impact to impact: dt' = dt + dv T/(V + g T/2), dv' = (1 + e) V' dt' - e dv + e g (dt' - dt)."""
    phase = np.arccos(table_speed(e) / (a * OMEGA))
    k, turn = 1 / (table_speed(e) + 9.81 / 2), -(1 + e) * a * OMEGA**2 * np.sin(phase)
    return np.linalg.eigvals([[1, k], [turn, turn * k - e + e * 9.81 * k]])


@pytest.fixture(scope="module")
def ball():
    a = 0.1
    t = (
        1 + np.arccos(TABLE / (a * OMEGA))
    ) / OMEGA  # of an impact; it leaves with half a period of free fall
    q0 = a * np.sin(OMEGA * t - 1) + 9.81 / 2 * (1 - t) - 9.81 / 2 * (1 - t) ** 2
    v0 = 9.81 / 2 - 9.81 * (1 - t)
    options = {"dt": 0.01, "period": lambda p: 2 * np.pi / OMEGA}
    return periodic_orbit(ball_on_a_table(), [q0 + 0.01], [v0 + 0.02], **options, tolerance=1e-12), q0, v0


def test_a_ball_on_a_moving_table_is_that_of_the_closed_form(ball):
    orbit, q0, v0 = ball
    np.testing.assert_allclose([orbit.q[0], orbit.v[0]], [q0, v0], atol=1e-10)
    wanted = multipliers_of_the_ball(0.1)
    found = floquet(orbit)
    np.testing.assert_allclose(np.sort_complex(found.values), np.sort_complex(wanted), atol=1e-9)
    assert np.prod(found.values) == pytest.approx(REST**2, abs=1e-9) and not found.trivial
    assert orbit.events == (("table", -1),)


@pytest.mark.wide
def test_its_fold_and_flip_are_those_of_the_closed_form(ball):
    """The fold where the table is just fast enough; the flip where 1 + trace + determinant is zero."""
    branch = continuation(ball[0], "a", step=0.01, bounds=(0.05, 0.6), most=80)
    at = {x.kind: x for x in branch.bifurcations}
    assert set(at) == {"fold", "flip"}
    assert at["fold"].value == pytest.approx(TABLE / OMEGA, rel=1e-6)
    low, high = 0.2, 0.6
    for _ in range(60):
        middle = (low + high) / 2
        stable = np.prod(multipliers_of_the_ball(middle) + 1).real > 0
        low, high = (middle, high) if stable else (low, middle)
    assert at["flip"].value == pytest.approx(low, rel=1e-7)
    for kind in ("fold", "flip"):
        curve = bifurcation_curve(at[kind], "e", step=0.02, bounds=(0.7, 0.9))
        assert len(curve.orbits) > 5 and curve.ends == ("end of the range",) * 2
        for x in curve.orbits:
            a, e = x.parameters["a"], x.parameters["e"]
            if kind == "fold":
                assert a == pytest.approx(table_speed(e) / OMEGA, rel=1e-6)
            else:
                assert np.abs(multipliers_of_the_ball(a, e) + 1).min() < 1e-6
    doubled = switch_branch(at["flip"], "a", 0.05)
    assert doubled.period == pytest.approx(2) and doubled.events == (("table", -1),) * 2
    assert abs(np.diff(doubled.nodes[1][:, 0])[0]) > 0.02 and doubled.stable


@pytest.mark.parametrize("bounds", [(-0.1, 0.1), (-0.07, 1e-4), (-0.05, 0.03), (-0.3, 0.0101)])
@pytest.mark.many(2)
def test_a_curve_ends_on_its_bounds_and_nothing_before_them_is_lost(bounds):
    """z'' + z' = a z - z^3 has its pitchfork at a = 0, however near the bound, and in whatever steps."""
    system = van_der_pol(lambda q, v, p: [p.a * q[1] - q[1] ** 3 - v[1]], 2, a=-0.05)
    orbit = periodic_orbit(system, [2.0, 0], [0.1, 0], period=6.6, **STEPS)
    for step in (0.02, 0.5):
        branch = continuation(orbit, "a", step=step, bounds=bounds)
        assert (branch.values[0], branch.values[-1]) == bounds
        assert branch.ends == ("end of the range",) * 2 and (np.diff(branch.values) > 0).all()
        assert all(x.residual < 1e-8 and x.with_parameters().residual < 1e-9 for x in branch.orbits)
        assert [x.kind for x in branch.bifurcations] == ["branch point"]
    with pytest.raises(ConfigurationError, match=r"a = -0\.05, outside of bounds \(0\.0, 1\.0\)"):
        continuation(orbit, "a", step=0.02, bounds=(0.0, 1.0))


def test_the_last_step_ends_on_the_bound_before_and_behind_a_fold(ball):
    """The ball's table: down to a fold, and up again on the other side, to the same bound."""
    upper = 0.103
    branch = continuation(ball[0], "a", step=0.01, bounds=(0.05, upper))
    assert branch.values[0] == branch.values[-1] == upper
    first, last = (np.sort_complex(x.multipliers) for x in (branch.orbits[0], branch.orbits[-1]))
    wanted = np.sort_complex(multipliers_of_the_ball(upper))
    distances = [np.abs(x - wanted).max() for x in (first, last)]
    assert min(distances) < 1e-6 < 1e-2 < max(distances)


@pytest.mark.parametrize("restitution", [None, 0.7])
@pytest.mark.many
def test_grazing_is_found_where_the_amplitude_reaches_the_line(restitution):
    """q'' + 0.2 q' + 4 q = f cos t has the amplitude f / |3 + 0.2 i|: it reaches 1 there.

    From there on a line that does nothing is crossed, and a wall is hit. (With a natural frequency of twice
    that of the force, grazing leaves the orbit as it is: its multipliers change continuously.)
    """

    def update(t, q, v, z, p, events):
        return q, np.array([scalars.where(events.line > 0, -restitution * v[0], v[0])]), z

    system = HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([p.f * scalars.cos(t) - 0.2 * v[0] - 4 * q[0]]),
        parameters={"f": 2.5}, guards=lambda t, q, v, z, p: {"line": q[0] - 1}, directions={"line": 1},
        update=update if restitution else None, name="oscillator",
    )  # fmt: skip
    orbit = periodic_orbit(system, [0.8], [0.0], period=lambda p: 2 * np.pi, **STEPS)
    exact = np.exp(2 * np.pi * np.roots([1, 0.2, 4]))
    np.testing.assert_allclose(np.sort_complex(orbit.multipliers), np.sort_complex(exact), atol=1e-10)
    assert orbit.events == ()
    branch = continuation(orbit, "f", step=0.1, bounds=(2.0, 3.6), precision=1e-6)
    (found,) = branch.bifurcations
    assert found.kind == "grazing" and found.events == "new: line+"
    assert found.value == pytest.approx(abs(3 + 0.2j), abs=2e-4 if restitution else 2e-5)
    after = exact * (1 if restitution is None else restitution)  # damped by the wall, too
    np.testing.assert_allclose(np.abs(branch.orbits[-1].multipliers), np.abs(after), atol=1e-9)


@pytest.mark.wide
def test_the_response_of_an_oscillator_turns_twice_though_steps_must_be_short():
    """Duffing's, q'' + 0.2 q' + q + q^3 = f cos 2 t; the folds are those of AUTO-07p (benchmarks/auto.py)."""
    system = HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-0.2 * v[0] - q[0] - q[0] ** 3 + p.f * scalars.cos(2 * t)]),
        parameters={"f": 2.0}, name="Duffing",
    )  # fmt: skip
    orbit = periodic_orbit(system, [-0.77], [0.2], period=lambda p: np.pi, **STEPS)
    branch = continuation(orbit, "f", step=0.1, bounds=(0.7, 2.5))
    assert [x.kind for x in branch.bifurcations] == ["fold", "fold"]
    folds = [x.value for x in branch.bifurcations]
    np.testing.assert_allclose(folds, [2.3436324736, 0.7921767435], atol=1e-7)
    given_up = continuation(orbit, "f", step=0.1, bounds=(0.7, 2.5), shortest=1 / 16)
    assert given_up.ends[1].startswith("no further than 2.3")


def test_events_that_change_places_are_found_where_they_do():
    """A line is crossed at a time that follows from the amplitude f / |3 + 0.2 i|; a clock strikes then."""
    level, lag, at = 0.5, np.arctan2(0.2, 3), 2.5
    strikes = lag - np.arccos(level * abs(3 + 0.2j) / at)
    system = HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([p.f * scalars.cos(t) - 0.2 * v[0] - 4 * q[0]]),
        parameters={"f": 2.4}, directions={"line": 1, "clock": 1}, name="oscillator",
        guards=lambda t, q, v, z, p: {"line": q[0] - level, "clock": scalars.sin(t - strikes)},
    )  # fmt: skip
    orbit = periodic_orbit(system, [0.8], [0.0], period=lambda p: 2 * np.pi, **STEPS)
    (found,) = continuation(orbit, "f", step=0.1, bounds=(2.2, 2.8), precision=1e-6).bifurcations
    assert found.kind == "change of the order of events" and found.value == pytest.approx(at, abs=1e-6)
    assert [name for name, _ in found.sides[0].events] == ["clock", "line"]
    assert [name for name, _ in found.sides[1].events] == ["line", "clock"]


# -- relative periodicity -----------------------------------------------------------------------------------

INERTIA = np.array([1.0, 2.0, 3.5])


def test_a_free_body_turns_by_the_angle_of_montgomery():
    """On SO(3) relative to all rotations, of which the shift is one: the period by elliptic integrals."""
    body = HybridSystem(SO3, lambda t, q, v, z, p: -np.cross(v, INERTIA * v) / INERTIA, name="top")
    v0 = np.array([0.3, 0.2, 1.5])
    orbit = periodic_orbit(
        body, SO3.neutral(), v0, period=4.0, symmetries=np.eye(3), dt=0.01, method="rkmk8", tolerance=1e-11
    )
    v, (A, B, C) = orbit.v, INERTIA
    energy, momentum = v @ (INERTIA * v), np.sum((INERTIA * v) ** 2)
    k2 = (B - A) * (energy * C - momentum) / ((C - B) * (momentum - energy * A))
    rate = np.sqrt((C - B) * (momentum - energy * A) / (A * B * C))
    period = 4 * float(mpmath.ellipk(k2)) / rate
    assert orbit.period == pytest.approx(period, abs=1e-9)
    axis = orbit.system.group.element(orbit.q) @ (INERTIA * v) / np.sqrt(momentum)
    angle = orbit.shift @ axis
    np.testing.assert_allclose(angle * axis, orbit.shift, atol=1e-8)
    path = orbit.simulate(1.0, record_every=orbit.period / 2000).v * INERTIA / np.sqrt(momentum)
    slopes = np.gradient(np.unwrap(np.arctan2(path[:, 1], path[:, 0])))[1:-1]  # about the axis of C
    area = np.sum((1 - path[1:-1, 2]) * slopes) + (1 - path[0, 2]) * slopes[[0, -1]].mean()
    turned = energy * orbit.period / np.sqrt(momentum) - area  # 2 E T / |L| less the solid angle
    assert np.sin((turned - angle) / 2) == pytest.approx(0, abs=1e-5)
    run = orbit.simulate(2.0, record_every=orbit.period)
    np.testing.assert_allclose(orbit.coordinates(run.q[1:], run.v[1:]), 0, atol=1e-8)
    assert orbit.family == 2  # energy and size of the momentum


def test_the_motion_of_an_orbit_keeps_the_parameters_that_are_not_given():
    system = van_der_pol(spare=0.0)
    orbit = periodic_orbit(system, [2.0], [0.1], period=6.4, parameters={"mu": 0.5}, **STEPS)
    run = orbit.simulate(parameters={"spare": 1.0})
    assert run.parameters["mu"] == 0.5 and run.parameters["spare"] == 1.0
    np.testing.assert_allclose(run.q[-1], orbit.q, atol=1e-8)
    with pytest.raises(ConfigurationError, match="record_every is not for orbits"):
        periodic_orbit(system, [2.0], period=6.4, record_every=0.1, **STEPS)


def test_curves_need_a_step_and_bounds_in_their_order(circle):
    with pytest.raises(IntegrationError, match=r"step is 0\.0, expected a positive number"):
        continuation(circle, "mu", step=0.0, bounds=(0.5, 1.5))
    with pytest.raises(ConfigurationError, match=r"bounds are \(1\.5, 0\.5\), expected \(lower, upper\)"):
        continuation(circle, "mu", step=0.1, bounds=(1.5, 0.5))


def test_symmetries_that_are_no_group_are_refused(circle):
    body = HybridSystem(SO3, lambda t, q, v, z, p: -v, name="top")
    with pytest.raises(ModelError, match="no subgroup"):
        periodic_orbit(body, SO3.neutral(), [1, 0, 0], period=1.0, symmetries=np.eye(3)[:2], dt=0.1)


# -- the spring-loaded inverted pendulum --------------------------------------------------------------------

MASS, LENGTH, GRAVITY = 80.0, 1.0, 9.81


def spring_leg():
    """A mass on a leg without mass, which lands at an angle and stays where it landed.

    Seyfarth, Geyer, Guenther, Blickhan (2002), A movement criterion for running, J. Biomechanics 35.
    """

    def leg(q, z):
        r = q - np.array([z.foot, 0.0])
        return r, scalars.sqrt(r @ r)

    def field(t, q, v, z, p):
        r, length = leg(q, z)
        return z.stance * p.k / MASS * (LENGTH / length - 1) * r - np.array([0, GRAVITY])

    def guards(t, q, v, z, p):
        _, length = leg(q, z)
        return {
            "down": scalars.where(z.stance > 0.5, 1.0, q[1] - LENGTH * scalars.sin(p.angle)),
            "up": scalars.where(z.stance > 0.5, length - LENGTH, -1.0),
            "apex": scalars.where(z.stance > 0.5, -1.0, v[1]),
        }

    def update(t, q, v, z, p, events):
        down, up = events.down < 0, events.up > 0
        foot = scalars.where(down, q[0] + LENGTH * scalars.cos(p.angle), z.foot)
        return z._replace(stance=scalars.where(down, 1.0, scalars.where(up, 0.0, z.stance)), foot=foot)

    return HybridSystem(
        R(2), field, memory={"stance": 0.0, "foot": 0.0}, parameters={"k": 2e4, "angle": np.radians(68.0)},
        guards=guards, directions={"down": -1, "up": 1, "apex": -1}, update=update, name="spring leg",
        stop=lambda t, q, v, z, p: 0.2 - q[1],
    )  # fmt: skip


RUNNING = {"period": 0.6, "section": "apex", "symmetries": [[1.0, 0.0]], "dt": 2e-3, "method": "rkmk8"}


def energy_of(q, v):
    return MASS * (v @ v) / 2 + MASS * GRAVITY * q[1]


@pytest.fixture(scope="module")
def runner():
    energy = energy_of(np.array([0, 1.0]), np.array([5.0, 0]))
    return periodic_orbit(
        spring_leg(), [0, 1.0], [5.0, 0], **RUNNING, unknowns=["angle"],
        conditions=lambda q, v, T, s, p: [(energy_of(q, v) - energy) / energy, q[1] - 1.0],
        tolerance=1e-11,
    ), energy  # fmt: skip


def test_running_on_a_spring_conserves_energy_and_mirrors_time(runner):
    orbit, energy = runner
    assert np.radians(65) < orbit.parameters["angle"] < np.radians(72)
    assert energy_of(orbit.q, orbit.v) == pytest.approx(energy, rel=1e-11)
    names = [name for name, _ in orbit.events]
    assert names == ["down", "up"]
    run = orbit.simulate(1.0, record_every=orbit.period / 2)
    np.testing.assert_allclose(run.v[1, 1], 0, atol=1e-8)  # lowest when half of the stride is over
    assert run.q[1, 0] - run.memory["foot"][1] == pytest.approx(0, abs=1e-8)  # and above the foot
    assert run.q[1, 0] - orbit.q[0] == pytest.approx(orbit.shift[0] / 2, abs=1e-8)


def test_the_length_of_a_stride_can_be_given(runner):
    orbit, energy = runner
    far = 1.01 * orbit.shift[0]
    found = periodic_orbit(
        spring_leg(), orbit.q, orbit.v, **RUNNING, parameters=orbit.parameters, unknowns=["angle"],
        conditions=lambda q, v, T, s, p: [(energy_of(q, v) - energy) / energy, s[0] - far],
    )  # fmt: skip
    assert (
        found.shift[0] == pytest.approx(far, abs=1e-8)
        and found.parameters["angle"] != orbit.parameters["angle"]
    )
    run = found.simulate(1.0, record_every=found.period)
    assert run.q[-1, 0] - run.q[0, 0] == pytest.approx(far, abs=1e-7)


def test_its_multipliers_are_one_for_energy_and_those_of_differences(runner):
    orbit, _ = runner
    free = periodic_orbit(
        spring_leg(), orbit.q, orbit.v, **RUNNING, parameters=orbit.parameters, tolerance=1e-10
    )
    assert free.family == 1
    found = floquet(free)
    assert np.abs(found.values - 1).min() < 1e-7 and set(found.trivial) == {"orbit", "symmetry 1"}
    apart = periodic_orbit(
        spring_leg(),
        orbit.q,
        orbit.v,
        **RUNNING,
        parameters=orbit.parameters,
        tolerance=1e-8,
        difference=1e-5,
    )
    np.testing.assert_allclose(np.sort_complex(apart.multipliers), np.sort_complex(found.values), atol=1e-6)
    with pytest.raises(ConfigurationError, match="another energy"):
        continuation(free, "angle", step=0.01, bounds=(1.1, 1.3))


def test_a_family_is_followed_with_one_condition(runner):
    orbit, energy = runner
    one = periodic_orbit(
        spring_leg(), orbit.q, orbit.v, **RUNNING, parameters=orbit.parameters,
        conditions=lambda q, v, T, s, p: [(energy_of(q, v) - energy) / energy],
    )  # fmt: skip
    branch = continuation(one, "k", step=2e3, bounds=(1.6e4, 2.4e4), most=8)
    assert len(branch.orbits) > 4
    np.testing.assert_allclose([energy_of(x.q, x.v) / energy for x in branch.orbits], 1, atol=1e-9)


# -- the compass walker -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compass():
    return load_example("compass_walker")


@pytest.fixture(scope="module")
def gait(compass):
    return periodic_orbit(compass.walker, **compass.GUESS, section="strike", **compass.STEPS, tolerance=1e-11)


def test_the_compass_walker_walks(compass, gait):
    """Long simulations come to the gait; nothing but its weight drives it, which impacts take."""
    run = lb.simulate(compass.walker, compass.GUESS["q0"], compass.GUESS["v0"], t_end=40.0, **compass.STEPS)
    np.testing.assert_allclose(run.events.q[-1], gait.q, atol=1e-7)
    np.testing.assert_allclose(run.events.v[-1], gait.v, atol=1e-7)
    assert np.diff(run.events.t)[-1] == pytest.approx(gait.period, abs=1e-7)
    assert gait.stable and gait.period == pytest.approx(0.734, abs=1e-3)  # Goswami, Thuilot, Espiau


def test_its_multipliers_are_those_of_differences(compass, gait):
    apart = periodic_orbit(
        compass.walker, gait.q, gait.v, period=gait.period, section="strike", **compass.STEPS, difference=1e-5
    )
    np.testing.assert_allclose(apart.multipliers, gait.multipliers, atol=1e-6)


@pytest.mark.wide
def test_its_period_doubles_again_and_again(compass, gait):
    branches = compass.doublings(gait, 3)
    at = [np.degrees(x.value) for branch in branches for x in branch.bifurcations]
    assert all(x.kind == "flip" for branch in branches for x in branch.bifurcations)
    np.testing.assert_allclose(at, FLIPS, atol=1e-4)
    assert (at[1] - at[0]) / (at[2] - at[1]) == pytest.approx(4.669, abs=1)  # on the way to Feigenbaum's
    assert branches[1].ends[0] == "orbits of half the period"
    figure = branches[0].plot(None, *branches[1:], of=lambda orbit: orbit.nodes[0][:, 0])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["flip"]


FLIPS = [4.39090, 4.91406, 5.01244]  # by the test below, within its tolerance


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 2])
def test_long_simulations_double_their_period_there(compass, k):
    """Without shooting: at a flip, differences of strides 2^k apart fall as 1 / sqrt(n) with their number n.

    From n to 2 n they fall by 2^-1/2; by more below, by less above. Bisected in ensembles of slopes.
    """
    low, high = FLIPS[k] - 0.02, FLIPS[k] + 0.02
    while high - low > 1e-4:
        slopes = np.linspace(low, high, 9)
        q0 = np.stack([np.full(9, 0.232), -0.232 - 2 * np.radians(slopes) - 1e-6], axis=1)
        run = compass.walker.simulate(
            q0, np.tile([-1.15, -0.14], (9, 1)), t_end=6000.0, record_every=6000.0,
            parameters={"slope": np.radians(slopes)}, **compass.STEPS, limit=10**8,
        )  # fmt: skip
        doubled = []
        for log in run.events:
            x = log.q[:, 0]
            apart = np.abs(x[2**k :] - x[: -(2**k)])
            n = len(apart) // 2
            doubled.append(apart[-40:].max() > apart[n - 40 : n].max() / np.sqrt(2))
        i = doubled.index(True)
        low, high = slopes[i - 1], slopes[i]
    assert abs((low + high) / 2 - FLIPS[k]) < 1e-4


def test_the_slope_set_at_each_step_holds_the_gait_where_it_is_unstable(compass, gait):
    steep = periodic_orbit(
        compass.walker, gait.q - [0, 2 * np.radians(1.8)], gait.v, period=gait.period, section="strike",
        **compass.STEPS, parameters={"slope": np.radians(4.8)},
    )  # fmt: skip
    assert not steep.stable
    held = stabilize(steep, ["slope"])
    np.testing.assert_allclose(held.measured, held.multipliers, atol=1e-5)
    assert held.stable and np.abs(held.multipliers).max() < 0.75
    q, v = held.returns(steep.q, steep.v + [0.01, 0.01], 60)
    assert np.abs(steep.coordinates(q[-1], v[-1])).max() < 1e-8
    closed = held.simulate(steep.q, steep.v + [0.01, 0.01], t_end=5.0, record_every=5.0).events
    closed = closed.where(np.diff(closed.t, prepend=-1) > 0.1)  # a new slope moves the ground: no strike
    np.testing.assert_allclose(closed.q[:5], q[:5, 0], atol=1e-9)  # the same feedback, without a stop
    free = held.simulate(steep.q, steep.v + [0.01, 0.01], t_end=5.0, record_every=5.0, gain=0.0).events
    assert np.abs(free.of("strike").q[:5] - q[:5, 0]).max() > 1e-3
    again = stabilize(steep, ["slope"], gain=held.gain)
    np.testing.assert_allclose(again.multipliers, held.multipliers, atol=1e-9)
    with pytest.raises(GaitError, match="the gain does not make"):
        stabilize(steep, ["slope"], gain=0 * held.gain)
    with pytest.raises(ShapeError, match=r"expected \(1, 4\)"):
        stabilize(steep, ["slope"], gain=np.zeros((2, 4)))
    run = steep.system.simulate(
        steep.q, steep.v + [0.01, 0.01], t_end=60.0, parameters=steep.parameters, **compass.STEPS
    )
    assert np.abs(steep.coordinates(run.events.q[-2:], run.events.v[-2:])).max(axis=1).min() > 1e-3


def test_the_regulator_satisfies_the_riccati_equation():
    """P = Q + A^T P A + A^T P B K with the cost P of the closed loop, the sum of its powers."""
    rng = np.random.default_rng(0)
    A, B = 1.3 * rng.normal(size=(5, 5)), rng.normal(size=(5, 2))
    Q, R = np.diag(rng.uniform(0.1, 3, 5)), np.diag([0.3, 2.0])
    K = regulator(A, B, Q, R)
    closed, P = A + B @ K, np.zeros((5, 5))
    assert np.abs(np.linalg.eigvals(A)).max() > 1.5 and np.abs(np.linalg.eigvals(closed)).max() < 1
    for _ in range(3000):
        P = Q + K.T @ R @ K + closed.T @ P @ closed
    np.testing.assert_allclose(P, Q + A.T @ P @ A + A.T @ P @ B @ K, rtol=1e-9, atol=1e-9 * np.abs(P).max())


# -- basins and search --------------------------------------------------------------------------------------


def of_split(p):
    """Starts on the oscillator, beside it by z."""
    n = len(p["z"])
    return np.stack([np.full(n, 2.0), p["z"]], axis=1), np.stack([0 * p["z"] - 0.1, p["w"]], axis=1)


def split_oscillator():
    def field(t, q, v, z, p):
        push = 0.3 * q[1] - q[1] ** 3 - v[1]
        return np.array([(1 - q[0] ** 2) * v[0] - q[0], push])

    guards = {"top": -1}
    return HybridSystem(
        R(2), field, guards=lambda t, q, v, z, p: {"top": v[0]}, directions=guards, name="split",
        stop=lambda t, q, v, z, p: q[1] - 3.0,
    )  # fmt: skip


def test_attractors_and_their_basins_are_found(tmp_path):
    """z'' + z' = 0.3 z - z^3 ends at +- sqrt(0.3); beyond 3 nothing goes on.

    From rest with |z| < sqrt(0.6) there is too little energy to change sides.
    """
    pytest.importorskip("zarr")
    axes = {"w": [0.0], "z": [-0.7, -0.5, -0.01, 0.01, 0.5, 0.7, 3.1]}
    found = basin(
        split_oscillator(), axes, of_split, tmp_path / "basin.zarr", section="top", t_end=100.0,
        options={"dt": 0.02}, workers=0, progress=False,
    )  # fmt: skip
    assert len(found.attractors) == 2 and all(len(a.q) == 1 for a in found.attractors)
    assert [a.period for a in found.attractors] == pytest.approx([PERIOD] * 2, abs=1e-5)
    signs = [np.sign(found.attractors[k - 2].q[0, 1]) if k > 1 else 0 for k in found.outcome[0]]
    assert signs == [-1, -1, -1, 1, 1, 1, 0] and found.outcome[0, -1] == 0
    assert np.abs(found.attractors[0].q[0, 1]) == pytest.approx(np.sqrt(0.3), abs=1e-5)
    np.testing.assert_allclose(found.q[0, :-1, 1], np.sqrt(0.3) * np.array(signs[:-1]), atol=1e-5)
    np.testing.assert_array_equal(np.stack([found.q[0, -1], found.v[0, -1]]), [[2, 3.1], [-0.1, 0]])
    np.testing.assert_allclose(found.shares, [1 / 7, 0, 3 / 7, 3 / 7])
    again = basin(
        split_oscillator(), axes, of_split, tmp_path / "basin.zarr", section="top", t_end=100.0,
        options={"dt": 0.02}, workers=0, progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(again.outcome, found.outcome)
    assert "ended early: 14.3 %" in [x.get_text() for x in found.plot().axes[0].get_legend().get_texts()]


def test_an_orbit_of_two_returns_is_one_attractor(compass, tmp_path):
    """The walker at 4.6 degrees, whose period has doubled, from two starts."""
    pytest.importorskip("zarr")
    slope = np.radians(4.6)

    def state(p):
        n = len(p["faster"])
        return np.tile([0.232, -0.232 - 2 * slope - 1e-6], (n, 1)), np.stack(
            [-1.15 - p["faster"], np.full(n, -0.14)], axis=1
        )

    found = basin(
        compass.walker, {"faster": [0.0, 0.01]}, state, tmp_path / "walker.zarr", section="strike",
        t_end=200.0, parameters={"slope": slope}, options=compass.STEPS, workers=0, progress=False,
    )  # fmt: skip
    (attractor,) = found.attractors
    assert found.outcome.tolist() == [2, 2] and len(attractor.q) == 2
    orbit = periodic_orbit(
        compass.walker, attractor.q[0], attractor.v[0], period=attractor.period, section="strike", segments=2,
        parameters={"slope": slope}, **compass.STEPS,
    )  # fmt: skip
    assert orbit.period == pytest.approx(attractor.period, abs=1e-6) and orbit.stable


def test_the_search_finds_both_gaits_of_the_walker(compass, gait):
    """The known one, and an unstable one of shorter steps; each once, the stable one first."""

    def state(p):
        q0 = np.stack([p["open"], -p["open"] - 2 * np.radians(3.0) - 1e-9], axis=1)
        return q0, np.stack([p["stance"], p["swing"]], axis=1)

    box = {"open": (0.1, 0.3), "stance": (-1.4, -0.8), "swing": (-0.8, 0.3)}
    found = search(
        compass.walker, lb.sample(box, 512, seed=1), state, period=0.7, section="strike", keep=24,
        options=compass.STEPS,
    )  # fmt: skip
    assert len(found) == 2 and found[0].stable and not found[1].stable
    np.testing.assert_allclose(found[0].coordinates(gait.q, gait.v), 0, atol=1e-8)
    assert found[1].period < gait.period - 0.02


def test_random_changes_of_a_parameter_bring_the_period_nearer_to_a_given_one(circle):
    """Of van der Pol's oscillator: mu = 1.39985 for 7 s, and no more than 1.2 is allowed."""

    def off(orbit):
        return abs(orbit.period - 7)

    few = {"generations": 4, "children": 6, "parents": 2}
    found = improve([circle], {"mu": 0.2}, objective=off, bounds={"mu": (0.5, 1.2)}, **few)
    assert len(found) == 2 and off(found[0]) <= off(found[1]) < off(circle)
    assert circle.parameters.get("mu", 1.0) < found[0].parameters["mu"] <= 1.2
    assert found[0].residual < 1e-9
    none = improve([circle], {"mu": 0.2}, objective=off, accept=lambda orbit: False, **few)
    assert none == [circle]
    with pytest.raises(ConfigurationError, match="no orbits to improve"):
        improve([], {"mu": 0.2})


def test_feedback_sees_where_a_robot_is_but_for_its_place_along_the_ground():
    """`away`, made for graphs, gives what Newton's method to its end gives, far along and turned."""
    from liebody.gaits.shooting import Shooting
    from liebody.groups import SE2, Product

    system = HybridSystem(Product(SE2, R(1)), lambda t, q, v, z, p: np.zeros(4), name="free")
    q0, v0 = np.array([0.3, 0.0, 0.2, -0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    q, v = np.array([1.1, 200.0, 0.25, -0.4]), np.array([0.2, 0.1, 0.4, 0.3])
    for symmetries in ([[0, 1, 0, 0]], [[0, 1, 0, 0], [0, 0, 1, 0]], np.eye(4)[:3]):
        shooting = Shooting(system, symmetries=symmetries)
        exact = np.concatenate([shooting.nearest_shift(q0, q)[1], v - v0])
        np.testing.assert_allclose(shooting.away(q0, v0, q, v), exact, atol=1e-9)
        moved = system.group.integrate(q, 0.0 * v)
        np.testing.assert_allclose(shooting.away(moved, v, q, v), 0, atol=1e-12)


# -- a biped from its URDF ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_biped_from_its_urdf_walks_as_its_page_says(tmp_path, capsys):
    found, branch, held = load_example("planar_biped").main(str(tmp_path / "biped.png"))
    page = (Path(__file__).parents[1] / "docs" / "gaits.md").read_text()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 6 and [line for line in said if f"    {line}\n" not in page] == []
    gait = found[0]
    shooting = gait.shooting
    given = {
        "period": gait.period, "section": shooting.section, "symmetries": shooting.symmetries, "scale": 0.1,
        "parameters": {**gait.parameters, "step": 2e-3}, **shooting.simulation,
    }  # fmt: skip
    fine = periodic_orbit(gait.system, gait.q, gait.v, **given, tolerance=1e-11)
    apart = periodic_orbit(fine.system, fine.q, fine.v, **given, tolerance=1e-7, difference=1e-5)
    assert abs(apart.multipliers[0] - fine.multipliers[0]) < 1e-6
    np.testing.assert_allclose(apart.derivative, fine.derivative, atol=1e-5 * np.abs(fine.derivative).max())
    run = gait.simulate(40.0, record_every=gait.period)
    np.testing.assert_allclose(gait.coordinates(run.q[-1], run.v[-1]), 0, atol=1e-6)
    ledger = gait.system.ledger(run)
    assert abs(ledger.residual) < 1e-6 * ledger.throughput and ledger.losses["ground_lost"] > 0
    assert np.abs(held.measured).max() < 0.35 and (branch.values.min(), branch.values.max()) < (0.06, 0.3)


# -- what is refused ----------------------------------------------------------------------------------------


def test_failures_say_what_happens_instead(compass, gait):
    walker, options = compass.walker, {"section": "strike", **compass.STEPS}
    with pytest.raises(GaitError, match="does not return to strike"):
        periodic_orbit(walker, [0.2187, -0.3234], [0.2, -0.3772], period=0.73, **options)
    with pytest.raises(GaitError, match="the motion ended at t = "):
        periodic_orbit(spring_leg(), [0, 1.0], [0.5, 0], **RUNNING, parameters={"angle": np.radians(88)})
    with pytest.raises(GaitError, match="no orbit"):
        periodic_orbit(van_der_pol(), [0.5], [3.0], period=3.0, **STEPS, tries=2)


def test_a_changed_sequence_of_events_is_named():
    line = {"guards": lambda t, q, v, z, p: {"line": q[0] - 2.5}, "directions": {"line": -1}}
    system = HybridSystem(R(1), lambda t, q, v, z, p: np.array([(1 - q[0] ** 2) * v[0] - q[0]]), **line)
    with pytest.raises(
        GaitError, match=r"The events change: line- against none\. There the equations have a corner"
    ):
        periodic_orbit(system, [3.0], [0.0], period=6.0, **STEPS, tries=2)


def test_what_a_system_remembers_in_secret_is_found_out():
    """A wall takes half of the speed from the second bounce on: the first one closes, the next does not."""

    def update(t, q, v, z, p, events):
        hit = events.wall < 0
        rest = scalars.where(z.odd > 0.5, 0.5, 1.0)
        return (
            q,
            np.array([scalars.where(hit, -rest * v[0], v[0])]),
            z._replace(odd=scalars.where(hit, 1.0, z.odd)),
        )

    ball = HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-9.81]), memory={"odd": 0.0}, update=update,
        guards=lambda t, q, v, z, p: {"wall": q[0], "top": v[0]}, directions={"wall": -1, "top": -1},
    )  # fmt: skip
    with pytest.raises(GaitError, match="remembers something"):
        periodic_orbit(ball, [1.0], period=0.9, section="top", dt=0.01)


def test_bad_arguments_are_refused(compass):
    system = van_der_pol()
    with pytest.raises(ModelError, match="no guard 'top'"):
        periodic_orbit(system, [2.0], period=6.0, section="top", dt=0.01)
    with pytest.raises(ModelError, match="no guard 3"):
        periodic_orbit(system, [2.0], period=6.0, section=3, dt=0.01)
    with pytest.raises(ShapeError, match=r"shift has shape \(2,\), expected \(0,\)"):
        periodic_orbit(system, [2.0], period=6.0, shift=[1.0, 2.0], dt=0.01)
    with pytest.raises(ShapeError, match="q0 cannot be read as an array of numbers"):
        periodic_orbit(system, "there", period=6.0, dt=0.01)
    with pytest.raises(ModelError, match="no parameter 'nu'"):
        periodic_orbit(system, [2.0], period=6.0, unknowns=["nu"], dt=0.01)
    with pytest.raises(ShapeError, match="symmetries"):
        periodic_orbit(system, [2.0], period=6.0, symmetries=[[1, 0]], dt=0.01)
    with pytest.raises(ShapeError, match=r"q0 has shape \(2,\), expected \(1,\)"):
        periodic_orbit(system, [2.0, 1.0], period=6.0, dt=0.01)
    with pytest.raises(ConfigurationError, match="Give a section"):
        periodic_orbit(spring_leg(), [0, 1.0], [5.0, 0], period=0.6, segments=2, dt=0.01)
    for scale in (0.0, [1.0, -1.0]):
        with pytest.raises(ConfigurationError, match=r"scale is .*, expected positive numbers"):
            periodic_orbit(system, [2.0], period=6.0, scale=scale, dt=0.01)
    with pytest.raises(IntegrationError, match="difference is 0, expected a positive number"):
        periodic_orbit(system, [2.0], period=6.0, difference=0, dt=0.01)
    with pytest.raises(ArgumentError, match=r"segments is 1.5, expected a whole number"):
        periodic_orbit(system, [2.0], period=6.0, segments=1.5, dt=0.01)
    with pytest.raises(ConfigurationError, match="one segment"):
        periodic_orbit(system, [2.0], period=lambda p: 6.0, segments=2, dt=0.01)
