"""Events of simulations are located by every method, for robots and for constrained systems."""

import numpy as np
import pytest
from constrained_models import four_bar

import liebody as lb
from liebody import scalars
from liebody.base.errors import IntegrationError, ShapeError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler.native import build, libraries
from liebody.groups import Prismatic, R, Revolute
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Closure

G = 9.81
FIXED = ["rkmk4", "cf4", "rkmk8", "half-explicit4", "radau5", "gauss4", "variational", "generalized-alpha"]
CONTROLLED = ["rkmk45", "radau5", "gauss4", "generalized-alpha"]


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


def event(function, direction=0, terminal=False):
    function.direction, function.terminal = direction, terminal
    return function


def ball():
    """A ball that can move up and down."""
    builder = TreeBuilder("ball")
    return lb.Robot(
        builder.add("ball", Joint("height", Prismatic([0, 0, 1])), SpatialInertia.sphere(1.0, 0.1)).build()
    )


@pytest.mark.parametrize("method", ["rkmk4", "radau5", "variational"])
def test_a_ball_bounces_at_the_times_of_the_closed_form(way, method):
    """From 1 m with restitution 0.8: each run ends where the ball touches, and the next one begins there."""
    floor = event(lambda t, q, v: q[0], direction=-1, terminal=True)
    t, q, v, speed, expected = 0.0, [1.0], [0.0], np.sqrt(2 * G), np.sqrt(2 / G)
    for _ in range(4):
        run = lb.simulate(
            ball(), q, v, t_end=2.0, dt=0.01, method=method, record_every=0.1, events={"floor": floor}
        )
        t += run.t[-1]
        assert t == pytest.approx(expected, rel=1e-9)
        assert abs(run.q[-1, 0]) < 1e-12 and run.v[-1, 0] == pytest.approx(-speed, rel=1e-9)
        assert run.events.guard == ("floor",) and run.events.t[0] == run.t[-1]
        speed *= 0.8
        q, v, expected = [0.0], [speed], expected + 2 * speed / G


def test_only_changes_in_the_direction_are_events(way):
    """A ball thrown up passes 0.5 m twice."""
    events = {
        "up": event(lambda t, q, v: q[0] - 0.5, direction=1),
        "down": event(lambda t, q, v: q[0] - 0.5, direction=-1),
        "both": event(lambda t, q, v: q[0] - 0.5),
    }
    run = lb.simulate(ball(), [0.0], [4.0], t_end=0.8, dt=0.05, events=events)
    first, last = (4 - np.sqrt(16 - G)) / G, (4 + np.sqrt(16 - G)) / G
    for name, times in (("up", [first]), ("down", [last]), ("both", [first, last])):
        np.testing.assert_allclose(run.events.of(name).t, times, rtol=1e-12)
    assert run.events.of("both").direction.tolist() == [1, -1]
    np.testing.assert_allclose(run.events.q[:, 0], 0.5, atol=1e-13)


@pytest.mark.parametrize("method", FIXED)
def test_times_of_events_have_the_order_of_the_method(method):
    """The lower link of a double pendulum passes the upper one; by the slope over two halvings."""
    robot, q0 = lb.load("double_pendulum"), [0.4, -0.9]
    through = {"straight": event(lambda t, q, v: q[1])}
    exact = lb.simulate(robot, q0, t_end=1.0, dt=1e-3, method="rkmk8", events=through).events.t
    order = {"rkmk8": 8, "radau5": 5, "variational": 2, "generalized-alpha": 2}.get(method, 4)
    steps = (0.1, 0.05, 0.025) if order > 4 else (0.01, 0.005, 0.0025)
    errors = []
    for dt in steps:
        run = lb.simulate(robot, q0, t_end=1.0, dt=dt, method=method, record_every=0.5, events=through)
        assert len(run.events) == len(exact) > 1
        errors.append(np.abs(run.events.t - exact).max())
    assert errors[-1] < 1e-13 or np.log2(errors[0] / errors[-1]) / 2 > order - 0.6, errors


@pytest.mark.parametrize("method", CONTROLLED)
def test_events_are_located_under_error_control(method):
    robot, q0 = lb.load("double_pendulum"), [0.4, -0.9]
    through = {"straight": event(lambda t, q, v: q[1])}
    exact = lb.simulate(robot, q0, t_end=2.0, dt=1e-3, method="rkmk8", events=through).events.t
    tolerance = 1e-6 if method == "generalized-alpha" else 1e-9
    run = lb.simulate(
        robot, q0, t_end=2.0, method=method, rtol=tolerance, atol=tolerance, record_every=0.5, events=through
    )
    np.testing.assert_allclose(run.events.t, exact, atol=300 * tolerance)
    np.testing.assert_allclose(run.events.q[:, 1], 0, atol=1e-12)


@pytest.mark.parametrize("method", ["rkmk4", "half-explicit4"])
@pytest.mark.parametrize("coordinates", ["joints", "absolute"])
@pytest.mark.many
def test_dead_points_of_a_four_bar_are_those_of_its_triangles(coordinates, method):
    """Crank (1 m) and coupler (2 m) in line make a triangle with rocker (1.5 m) and ground (2.2 m)."""
    closed = ClosedTree(four_bar(), [Closure("C", Revolute([0, 1, 0]), "end", "tip")])
    q = closed.assemble(np.array([-1.0, 0.5, -2.0]))
    v = closed.consistent_velocities(q, np.array([9.0, 0, 0]), hold=["A"])
    system, along = closed, lambda q: (scalars.sin(q[1]), scalars.cos(q[0]))
    if coordinates == "absolute":
        absolute = AbsoluteTree(closed.tree, [Closure("C", Revolute([0, 1, 0]), "end", "tip")])
        system = absolute.system
        q, v = absolute.to_system(q, v)

        def along(q):
            """Sine of the angle between crank and coupler, and the crank's cosine."""
            crank, coupler = (system.group.factors[k].element(q[7 * k : 7 * k + 7])[:3, 0] for k in (0, 1))
            return crank[2] * coupler[0] - crank[0] * coupler[2], crank[0]

    dead = {"dead": event(lambda t, q, v: along(q)[0])}
    run = lb.simulate(system, q, v, t_end=1.5, dt=2e-3, method=method, record_every=0.1, events=dead)
    assert len(run.events) >= 2
    stretched, folded = (9 + 2.2**2 - 1.5**2) / (6 * 2.2), -(1 + 2.2**2 - 1.5**2) / (2 * 2.2)
    found = np.array([float(along(x)[1]) for x in run.events.q])
    nearest = np.minimum(np.abs(found - stretched), np.abs(found - folded))
    np.testing.assert_allclose(nearest, 0, atol=1e-8)
    assert {*np.sign(found)} == {-1.0, 1.0}


def test_members_of_an_ensemble_have_events_of_their_own(way):
    """Alone, in company and by threads the same; a member that ends is NaN from there on."""
    events = {
        "low": event(lambda t, q, v: q[0]),
        "stop": event(lambda t, q, v: q[1] - 0.3, direction=1, terminal=True),
    }
    robot = lb.load("double_pendulum")
    q0 = np.array([[0.4, -0.9], [0.3, 0.2], [0.1, 0.1], [-0.4, 0.9], [0.4, -0.8]])
    options = {"t_end": 2.0, "dt": 0.01, "record_every": 0.5, "events": events}
    run = lb.simulate(robot, q0, **options, threads=2)
    for i, q in enumerate(q0):
        alone, log = lb.simulate(robot, q, **options), run.events[i]
        assert log.guard == alone.events.guard
        np.testing.assert_allclose(log.t, alone.events.t, atol=1e-10)
        np.testing.assert_array_equal(run.member(i).events.t, log.t)
        rows = len(alone.t) - ("stop" in log.guard)
        np.testing.assert_allclose(run.q[i, :rows], alone.q[:rows], atol=1e-10)
        assert np.isnan(run.q[i, rows:]).all()
    assert {"stop" in log.guard for log in run.events} == {True, False}


def test_events_that_cannot_be_are_refused():
    robot, options = lb.load("double_pendulum"), {"t_end": 0.1, "dt": 0.01}
    with pytest.raises(IntegrationError, match=r"cannot be traced.*liebody.scalars"):
        lb.simulate(robot, events={"e": lambda t, q, v: float(q[0])}, **options)
    with pytest.raises(ShapeError, match=r"the result of event e has shape \(2,\)"):
        lb.simulate(robot, events={"e": lambda t, q, v: q}, **options)
    with pytest.warns(UserWarning), pytest.raises(IntegrationError, match="located by compiled steps"):
        lb.simulate(
            robot, tau=lambda t, q, v: np.full(2, float(q[0])), events={"e": lambda t, q, v: q[0]}, **options
        )


class Rising:
    """An event whose direction is a word."""

    direction = "up"

    def __call__(self, t, *state):
        return state[0][0]


def test_directions_that_are_no_numbers_are_refused():
    robot = lb.load("double_pendulum")
    for call in (
        lambda: lb.simulate(robot, t_end=0.1, dt=1e-2, events={"peak": Rising()}),
        lambda: lb.solve_ivp(lambda t, q: -q, (0, 1), [1.0], R(1), events=Rising()),
    ):
        with pytest.raises(lb.LiebodyError, match=r"the direction of event .* cannot be read"):
            call()


def test_a_summary_says_that_members_ended_by_events_and_empty_ensembles_have_a_shape():
    robot, options = lb.load("double_pendulum"), {"t_end": 1.0, "dt": 1e-2}

    def low(t, q, v):
        return q[0] - 0.3

    low.terminal = True
    run = lb.simulate(robot, [[0.4, 0.0], [-0.1, 0.0]], events={"low": low}, **options)
    assert "1 of 2 ended early: lost, or by a terminal event" in run.summary()
    with pytest.raises(lb.LiebodyError, match=r"the ensemble is empty: its shape is \(0,\)"):
        lb.simulate(robot, [0.4, 0.0], parameters={"link1.mass": []}, **options)
