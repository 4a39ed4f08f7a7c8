"""Efforts given as samples: no step goes across a sample, and every method keeps its order."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

import liebody as lb
from liebody.base.errors import IntegrationError
from liebody.bodies import SpatialInertia
from liebody.compiler.native import build, libraries
from liebody.groups import R, Revolute
from liebody.hybrid import HybridSystem
from liebody.mechanisms.constrained import SystemBuilder
from liebody.scalars import absolute
from liebody.stepping import Samples
from liebody.stepping.samples import equidistant

ORDERS = {
    "rkmk4": 4,
    "cf4": 4,
    "rkmk6": 6,
    "half-explicit3": 3,
    "half-explicit4": 4,
    "gauss4": 4,
    "radau3": 3,
    "radau5": 5,
    "generalized-alpha": 2,
    "variational": 2,
}
CONTROLLED = ["rkmk45", "gauss4", "radau5", "generalized-alpha"]
T_END = 0.8


@pytest.mark.parametrize(
    "times", [[0.0, np.nan, 2.0], [np.nan] * 2, [1.0], [], [1.0, 0.0], [0.0, 1.0, 3.0], [[0.0, 1.0]]]
)
def test_times_of_samples_increase_in_equal_intervals(times):
    assert equidistant("tau", np.array([1.0, 1.5, 2.0])) == (1.0, 0.5)
    with pytest.raises(IntegrationError, match="times of tau must be two or more that increase in equal"):
        equidistant("tau", np.array(times))


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


# -- the pieces that samples consist of ---------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.integers(-(10**6), 10**6),
    st.integers(2, 50),
    st.booleans(),
)
def test_pieces_are_those_of_exact_arithmetic(step, interval, first, number, linear):
    """Steps of dt and samples whose times are decimal fractions of a second, rounded to doubles."""
    dt, interval, first = Fraction(step, 10**7), Fraction(interval, 10**4), Fraction(first, 10**6)
    u = Samples(np.zeros((1, number, 1)), float(first), float(interval), linear)
    knots = [first + k * interval for k in range(0 if linear else 1, number)]
    for s in {0, 1, 7, round(first / dt), round((first + 3 * interval) / dt), 10**6}:
        start, end = s * dt, (s + 1) * dt
        inside = [k for k in knots if start < k < end]
        if any(abs(k - x) < Fraction(1, 10**8) for k in knots for x in (start, end) if k != x):
            continue  # as close to a sample as round-off may be
        assert u.part_end(float(start), float(end)) == pytest.approx(float(inside[0] if inside else end))
        before = sum(k <= start for k in knots)
        assert u.piece(float(start)) == before - linear
        assert u.jumps(float(start)) == (start in knots and not linear)


def test_values_are_held_or_interpolated_from_either_side():
    table = np.array([[[1.0], [3.0], [-2.0]]])
    held, lines = (Samples(table, first=1.0, interval=0.5, linear=linear) for linear in (False, True))
    assert [held.at(t)[0, 0] for t in (0.0, 1.0, 1.49, 1.5, 2.0, 9.0)] == [1, 1, 1, 3, -2, -2]
    assert held.at(1.5, piece=0)[0, 0] == 1 and held.at(2.0, piece=1)[0, 0] == 3
    assert [lines.at(t)[0, 0] for t in (0.0, 1.0, 1.25, 1.5, 1.75, 2.0, 9.0)] == [1, 1, 2, 3, 0.5, -2, -2]


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_values_along_times_are_those_at_each(linear, shared):
    rng = np.random.default_rng(7)
    u = Samples(rng.standard_normal((1 if shared else 3, 6, 2)), -0.2, 0.1, linear)
    times = np.concatenate(
        [rng.uniform(-0.5, 0.6, (3, 20)), -0.2 + 0.1 * np.tile(np.arange(6), (3, 1))], axis=1
    )
    expected = [[u.member(i).at(t)[0] for t in row] for i, row in enumerate(times)]
    np.testing.assert_allclose(u.along(times), expected, rtol=1e-13, atol=1e-13)


# -- orders -------------------------------------------------------------------------------------------------


def robot():
    return lb.load("double_pendulum")


# Samples begin within steps, wherever steps begin.
TIMES = 0.113 + 0.2017 * np.arange(4)
VALUES = 4 * np.random.default_rng(3).standard_normal((4, 2))


def solved(slope, y, times, values, linear, t_end):
    """y at t_end of dy/dt = slope(y, u), and times at which y_0 = 0: by SciPy, sample by sample."""
    zeros = []
    for t, end in itertools.pairwise(np.unique([0.0, t_end, *times[times < t_end]])):
        held = values[int(np.clip(np.searchsorted(times, (t + end) / 2) - 1, 0, None))]

        def f(t, y, held=held):
            u = np.array([np.interp(t, times, x) for x in values.T]) if linear else held
            return slope(y, u)

        part = scipy.integrate.solve_ivp(
            f, (t, end), y, "DOP853", rtol=1e-13, atol=1e-13, events=lambda t, y: y[0]
        )
        y, zeros = part.y[:, -1], [*zeros, *part.t_events[0]]
    return y, zeros


@pytest.fixture(scope="module")
def motion():
    """q at the start, and (q, v) at the end with samples that are held, and interpolated."""
    arm, q0 = robot(), np.array([0.4, -0.9])

    def slope(y, u):
        return np.concatenate([y[2:], arm.forward_dynamics(y[:2], y[2:], u)])

    start = np.concatenate([q0, np.zeros(2)])
    return q0, {
        hold: solved(slope, start, TIMES, VALUES, hold == "linear", T_END)[0] for hold in ("zero", "linear")
    }


def error(run, exact):
    return np.abs(np.concatenate([run.q[-1], run.v[-1]]) - exact).max()


@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.parametrize("method", ORDERS)
@pytest.mark.many
def test_every_method_keeps_its_order_with_sampled_efforts(motion, method, hold):
    """By the slope of the error over two halvings of the step; it is 1 where stages see the next sample."""
    q0, exact = motion
    longest = 0.005 if method.startswith("half-explicit") else 0.02
    options = {"tau": (TIMES, VALUES), "hold": hold, "t_end": T_END, "method": method}
    errors = [error(lb.simulate(robot(), q0, dt=longest / k, **options), exact[hold]) for k in (1, 2, 4)]
    assert np.log2(errors[0] / errors[-1]) / 2 > ORDERS[method] - 0.4, errors
    assert errors[-1] < 1e-3


@pytest.mark.parametrize("method", ORDERS)
@pytest.mark.many
def test_orders_hold_with_parameters_and_events(motion, method):
    """A free mass, a gain of the event, and steps that end where it happens."""
    q0, exact = motion
    arm = robot()
    body = arm.tree.bodies[1]
    given = {f"{body.name}.mass": [body.inertia.mass, 2.0], "level": [0.2, 0.1]}
    options = {"tau": (TIMES, VALUES), "hold": "linear", "t_end": T_END, "method": method}
    options |= {"parameters": given, "events": {"passing": lambda t, q, v, p: absolute(v[1]) - p.level}}
    longest = 0.005 if method.startswith("half-explicit") else 0.02
    runs = [lb.simulate(arm, q0, dt=longest / k, **options) for k in (1, 2, 4)]
    errors = [error(run.member(0), exact["linear"]) for run in runs]
    assert np.log2(errors[0] / errors[-1]) / 2 > ORDERS[method] - 0.4, errors
    assert errors[-1] < 1e-3 and all(len(log) for log in runs[0].events)


@pytest.mark.parametrize("method", ORDERS)
def test_orders_hold_through_a_stepper(method):
    arm, q0, interval = robot(), np.array([0.4, -0.9]), 0.2

    def slope(y, u):
        return np.concatenate([y[2:], arm.forward_dynamics(y[:2], y[2:], u)])

    times, start = interval * np.arange(4), np.concatenate([q0, np.zeros(2)])
    exact, _ = solved(slope, start, times, VALUES, False, 4 * interval)
    longest, errors = 0.005 if method.startswith("half-explicit") else 0.02, []
    for k in (1, 2, 4):
        sim = lb.stepper(arm, dt=longest / k, method=method)
        state = sim.start(q0)
        for u in VALUES:
            state = sim.step(state, u, steps=round(k * interval / longest))
        errors.append(np.abs(np.concatenate([state.q, state.v]) - exact).max())
    assert np.log2(errors[0] / errors[-1]) / 2 > ORDERS[method] - 0.4, errors


@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.parametrize("method", CONTROLLED)
def test_error_control_with_sampled_efforts_keeps_its_tolerance(motion, method, hold):
    q0, exact = motion
    options = {"tau": (TIMES, VALUES), "hold": hold, "t_end": T_END, "method": method, "record_every": 0.1}
    for tolerance in (1e-4, 1e-6) if method == "generalized-alpha" else (1e-6, 1e-8):
        run = lb.simulate(robot(), q0, rtol=tolerance, atol=tolerance, **options)
        assert error(run, exact[hold]) < 2000 * tolerance


@pytest.mark.parametrize("method", ["rkmk4", "rkmk8", "half-explicit4", "radau5", "variational"])
def test_a_run_with_samples_is_the_chain_of_runs_with_constant_efforts(method):
    """Also where a step holds several samples."""
    times, values = 0.05 * np.arange(5), 3 * np.random.default_rng(4).standard_normal((5, 2))
    arm = robot()
    run = lb.simulate(arm, tau=(times, values), t_end=0.25, dt=0.125, method=method)
    q, v, ends = arm.neutral(), np.zeros(2), itertools.pairwise([0, 0.05, 0.1, 0.125, 0.15, 0.2, 0.25])
    for (t, end), u in zip(ends, values[[0, 1, 2, 2, 3, 4]], strict=True):
        part = lb.simulate(arm, q, v, tau=u, t_end=end - t, dt=end - t, method=method)
        q, v = part.q[-1], part.v[-1]
    np.testing.assert_allclose(run.q[-1], q, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(run.v[-1], v, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha", "half-explicit4"])
@pytest.mark.wide
def test_constrained_systems_keep_the_order(method, hold):
    """Two bars in absolute coordinates, on driven hinges: errors fall with the order of the method."""
    builder, bar = SystemBuilder("arm"), SpatialInertia.box(1.0, [0.5, 0.05, 0.05])
    builder.body("upper", bar, [0.25, 0, 0]).body("lower", bar, [0.75, 0, 0])
    hinge, end = Revolute([0, 1, 0]), [0.25, 0, 0]
    builder.joint("shoulder", hinge, "world", "upper", on_child=[-0.25, 0, 0], driven=True)
    builder.joint("elbow", hinge, "upper", "lower", on_parent=end, on_child=[-0.25, 0, 0], driven=True)
    system = builder.build()
    options = {"tau": (TIMES, 0.1 * VALUES), "hold": hold, "t_end": 0.4}
    exact = lb.simulate(system, dt=2e-3, method="rkmk6", **options)
    exact = np.concatenate([exact.q[-1], exact.v[-1]])
    errors = [
        error(lb.simulate(system, dt=dt, method=method, **options), exact) for dt in (0.02, 0.01, 0.005)
    ]
    assert np.log2(errors[0] / errors[-1]) / 2 > (2 if method == "generalized-alpha" else 4) - 0.4, errors


# -- hybrid systems -----------------------------------------------------------------------------------------


def pushed():
    """A pendulum of unit length that is pushed, with a guard at its lowest point."""
    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([p.push - 9.81 * np.sin(q[0]) - p.damping * v[0]]),
        parameters={"push": 0.0, "damping": 0.1},
        guards=lambda t, q, v, z, p: {"lowest": q[0]},
        outputs=lambda t, q, v, z, p: {"push": p.push},
        name="pushed",
    )


@pytest.mark.parametrize("hold", ["zero", "linear"])
@pytest.mark.many
def test_sampled_parameters_of_a_hybrid_system(way, hold):
    """Order four, events located to round-off of the motion, and members with samples of their own."""
    system, linear = pushed(), hold == "linear"
    values = 5 * np.random.default_rng(6).standard_normal((3, 4))

    def slope(y, u):
        return [y[1], u[0] - 9.81 * np.sin(y[0]) - 0.1 * y[1]]

    exact = [solved(slope, [0.5, 0.0], TIMES, push[:, None], linear, 1.0) for push in values]
    errors = []
    for dt in (0.02, 0.01, 0.005):
        run = system.simulate(
            np.full((3, 1), 0.5), t_end=1.0, dt=dt, record_every=0.1, sampled={"push": (TIMES, values)},
            hold=hold, most_events=20,
        )  # fmt: skip
        errors.append(max(abs(run.q[i, -1, 0] - exact[i][0][0]) for i in range(3)))
    assert np.log2(errors[0] / errors[-1]) / 2 > 3.6, errors
    for i in range(3):
        np.testing.assert_allclose(run.events[i].t, exact[i][1], atol=1e-7)
    expected = np.stack([[np.interp(t, TIMES, x) for t in run.t] for x in values])
    if hold == "zero":
        expected = values[:, np.clip(np.searchsorted(TIMES, run.t) - 1, 0, None)]
    np.testing.assert_allclose(run.outputs["push"], expected, rtol=1e-12)


def test_sampled_parameters_that_cannot_be_are_refused():
    system, times = pushed(), np.linspace(0, 1, 3)
    for sampled, words in (
        ({"push": np.zeros(3)}, "a pair"),
        ({"push": (times, np.zeros(2))}, "push has shape"),
        ({"push": (times**2, np.zeros(3))}, "equal intervals"),
        ({"push": (times, np.zeros(3)), "damping": (2 * times, np.zeros(3))}, "different times"),
        ({"shove": (times, np.zeros(3))}, "no parameter 'shove'"),
    ):
        with pytest.raises(lb.LiebodyError, match=words):
            system.simulate([0.1], t_end=1.0, dt=0.1, sampled=sampled)
    with pytest.raises(lb.LiebodyError, match="leave one of them out"):
        system.simulate([0.1], t_end=1, dt=0.1, sampled={"push": (times, times)}, parameters={"push": 1.0})
    with pytest.raises(lb.LiebodyError, match="expected 'zero' or 'linear'"):
        system.simulate([0.1], t_end=1.0, dt=0.1, sampled={"push": (times, times)}, hold="cubic")
