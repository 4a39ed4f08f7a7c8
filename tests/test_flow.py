"""Compiled flows against the steps of liebody.integrators and against solve_ivp."""

import functools
import itertools

import numpy as np
import pytest

from liebody import scalars
from liebody.compiler import trace
from liebody.compiler.native import build, cache, libraries
from liebody.compiler.printers.c import FLOAT
from liebody.groups import SO3, Product, R
from liebody.integrators import coefficients, method_named, solve_ivp
from liebody.integrators.rkmk import advance
from liebody.stepping import Flow, ImplicitFlow, Phase, Samples, together
from liebody.stepping.loop import CompiledLoop
from liebody.stepping.march import Ensemble, Settings
from liebody.stepping.print_explicit import explicit_source
from liebody.stepping.print_implicit import implicit_source
from liebody.stepping.records import Marching
from liebody.stepping.recurrence import _flow, recurrence
from liebody.stepping.singular import Nearest

GROUP = Product(SO3, R(3))  # a free body with a damped momentum: orientation, angular velocity
INERTIA = np.array([1.0, 2.0, 2.5])
METHODS = ["rkmk1", "rkmk4", "rkmk45", "cf3", "cf4", "crouch-grossman3"]


def field(t, y, u):
    w = y[4:]
    torque = u - 0.1 * w + np.array([0, 0, 0.3]) * scalars.sin(3.0 * t)
    return np.concatenate([w, (torque - np.cross(w, INERTIA * w)) / INERTIA])


def make(method="rkmk4", **options):
    """The flow of `field`, and the method."""
    method = method_named(method)
    return method, Flow(
        functools.partial(trace, field, {"t": (), "y": 7, "u": 3}, "field"),
        functools.partial(
            trace, lambda y, psi: GROUP.normalize(GROUP.integrate(y, psi)), {"y": 7, "psi": 6}, "advance"
        ),
        functools.partial(
            trace, lambda psi, f: GROUP.dexp_inverse_times(-psi, f), {"psi": 6, "f": 6}, "pull"
        ),
        coefficients(method),
        rigid=3,
        **options,
    )


def states(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([np.concatenate([SO3.random(rng), rng.standard_normal(3)]) for _ in range(n)])


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


def run(f, y, u=None, t=0.0, h=0.01, steps=20, every=4, **options):
    """(record, last states, failed)"""
    y = y.copy()
    u = np.zeros((1, 1, 3)) if u is None else u
    record, failed = np.full((len(y), 1 + steps // every, 7), np.nan), np.zeros(len(y), np.int64)
    record[:, 0] = y
    f.steps(y, u, t, h, steps, every, record, 1, failed, **options)
    return record, y, failed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.many
def test_steps_are_those_of_the_integrators(way, method, n):
    method, f = make(method)
    u = np.array([0.3, -0.2, 0.1])
    y = states(n)
    record, last, failed = run(f, y, u[None, None], t=0.5)
    for i in range(n):
        q = y[i]
        for s in range(20):
            q = advance(
                GROUP, method, lambda t, q: np.asarray(field(t, q, u), float), 0.5 + 0.01 * s, q, 0.01
            ).q
            if (s + 1) % 4 == 0:
                np.testing.assert_allclose(record[i, (s + 1) // 4], q, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(last[i], record[i, -1])
    assert not failed.any()


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13])
@pytest.mark.many
def test_members_of_an_ensemble_do_not_notice_each_other(way, n):
    _, f = make()
    y = states(n)
    together = run(f, y)[0]
    alone = np.concatenate([run(f, y[i : i + 1])[0] for i in range(n)])
    np.testing.assert_allclose(together, alone, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("threads", [2, 3, 50])
def test_threads_change_nothing(way, threads):
    _, f = make("rkmk45")
    y = states(21)
    u = np.random.default_rng(1).standard_normal((21, 4, 3))
    u = Samples(u, interval=0.05, linear=True)
    np.testing.assert_array_equal(run(f, y, u, threads=threads)[0], run(f, y, u)[0])


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.many
def test_sampled_efforts_hold_or_interpolate(way, linear, shared):
    """Samples from before the run until within it: the first and the last one go on outside."""
    method, f = make("rkmk4")
    y = states(5)
    table = np.random.default_rng(2).standard_normal((1 if shared else 5, 5, 3))
    times = 0.03 + 0.025 * np.arange(5)
    record, _, _ = run(f, y, Samples(table, times[0], 0.025, linear))
    ends = np.unique(np.round(np.concatenate([0.01 * np.arange(21), times]), 12))
    for i in range(5):
        samples = table[0 if shared else i]
        q = y[i]
        for t, end in itertools.pairwise(ends):
            held = samples[np.clip(np.searchsorted(times, (t + end) / 2) - 1, 0, 4)]

            def velocity(at, q, samples=samples, held=held):
                u = np.array([np.interp(at, times, x) for x in samples.T]) if linear else held
                return np.asarray(field(at, q, u), float)

            q = advance(GROUP, method, velocity, t, q, end - t).q
        np.testing.assert_allclose(record[i, -1], q, rtol=1e-11, atol=1e-12)


def test_a_run_may_be_cut_in_two(way):
    _, f = make()
    y = states(3)
    whole, last, _ = run(f, y, steps=20)
    first, middle, _ = run(f, y, steps=8)
    second, end, _ = run(f, middle, t=0.08, steps=12)
    np.testing.assert_allclose(np.concatenate([first, second[:, 1:]], axis=1), whole, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(end, last, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_members_that_are_lost_are_marked_with_their_row(way, n):
    _, f = make()
    y = states(n)
    u = np.zeros((n, 3, 3))
    u[-1, 1:] = np.inf  # from the middle on
    record, _, failed = run(f, y, Samples(u, interval=0.1))
    assert failed.tolist() == [0] * (n - 1) + [4]  # 1 + the row of t = 0.12
    assert (
        np.isfinite(record[:-1]).all()
        and np.isfinite(record[-1, :3]).all()
        and np.isnan(record[-1, 3:]).any()
    )
    y[0, 4] = np.nan
    assert run(f, y)[2][0] == 2


# -- error control ------------------------------------------------------------------------------------------


def controlled(f, y, u=None, rows=5, interval=0.3, rtol=1e-9, atol=1e-10, **options):
    """(record, (steps, rejected ones), 1 + the row at which a member was lost, next steps)"""
    u = np.zeros((1, 1, 3)) if u is None else u
    members = Ensemble(y, interval * np.arange(1 + rows), 1e-3)
    f.march(members, u, 1 + rows, Settings(rtol, atol), **options)
    failed = np.where(members.ends[:, 1] > 0, members.clock["row"] + 1, 0)
    return members.record, tuple(members.counts[:, 2:].sum(axis=0)), failed, members.clock["step"]


def exact(y, times):
    """The states at `times`, by solve_ivp with a much smaller tolerance."""

    def vector(t, q):
        return np.asarray(field(t, q, np.zeros(3)), float)

    return solve_ivp(
        vector, (0.0, times[-1]), y, group=GROUP, method="rkmk45", rtol=1e-12, atol=1e-13, t_eval=times
    ).q


@pytest.mark.parametrize(("rtol", "bound"), [(1e-5, 3e-4), (1e-8, 3e-7), (1e-10, 3e-9)])
@pytest.mark.many
def test_steps_under_error_control_keep_the_tolerance(way, rtol, bound):
    _, f = make("rkmk45")
    y = states(3)
    record, (taken, rejected), failed, h = controlled(f, y, rtol=rtol, atol=rtol)
    assert not failed.any() and taken > 3 * 5 and rejected < taken
    assert np.all((h > 1e-4) & (h < 1))
    for i in range(3):
        np.testing.assert_allclose(record[i], exact(y[i], 0.3 * np.arange(6)), atol=bound)


def test_a_smaller_tolerance_takes_more_steps_by_the_order(way):
    _, f = make("rkmk45")
    few, many = (controlled(f, states(1), rtol=r, atol=r, rows=1, interval=4.0)[1][0] for r in (1e-5, 1e-10))
    assert 10 ** (5 / 5) / 2 < many / few < 2 * 10 ** (5 / 5)


def on_a_line(rate):
    """The flow of dy/dt = rate(t, y) by Dormand and Prince's method."""
    shapes = {"t": (), "y": 1, "u": 1}
    return Flow(
        functools.partial(trace, lambda t, y, u: rate(t, y), shapes, "field"),
        functools.partial(trace, lambda y, psi: y + psi, {"y": 1, "psi": 1}, "advance"),
        functools.partial(trace, lambda psi, f: f, {"psi": 1, "f": 1}, "pull"),
        coefficients(method_named("rkmk45")),
    )


@pytest.mark.many
def test_a_march_knows_no_scale_of_time(way):
    """A decay within 1e-13 s; and a run of 1e12 s that begins with steps of 1e-9 s."""
    for rate, end, first, exact in (
        (lambda t, y: -1e13 * y, 1e-13, 1e-15, np.exp(-1.0)),
        (lambda t, y: 1 / (np.stack([t]) + 1e-9), 1e12, 1e3, 1.0 + np.log1p(1e21)),
    ):
        members = Ensemble([[1.0]], [0.0, end], first)
        on_a_line(rate).march(members, np.zeros((1, 1, 1)), 2, Settings(rtol=1e-9, atol=1e-12))
        assert members.ends[0, 1] == 0
        np.testing.assert_allclose(members.record[0, 1], exact, rtol=1e-7)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.many
def test_members_control_their_steps_alone(way, threads):
    _, f = make("rkmk45")
    y = states(4)
    u = np.random.default_rng(1).standard_normal((4, 4, 3))
    u = Samples(u, interval=0.3, linear=True)
    record, counts, _, _ = controlled(f, y, u, threads=threads)
    singles = [controlled(f, y[i : i + 1], u.member(i)) for i in range(4)]
    np.testing.assert_allclose(record, np.concatenate([single[0] for single in singles]), atol=1e-12)
    assert counts == tuple(np.sum([single[1] for single in singles], axis=0))


def test_a_member_that_cannot_go_on_is_marked_and_left(way):
    _, f = make("rkmk45")
    y = states(3)
    u = np.zeros((3, 3, 3))
    u[1, 1:] = np.inf
    record, _, failed, _ = controlled(f, y, Samples(u, interval=0.5))
    assert failed.tolist() == [0, 3, 0]  # 1 + the row of t = 0.6
    assert (
        np.isfinite(record[[0, 2]]).all()
        and np.isfinite(record[1, :2]).all()
        and np.isnan(record[1, 2:]).all()
    )


def test_flows_are_kept_by_recipe(tmp_path, monkeypatch):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(cache, "_chosen", tmp_path)
    expected = run(make(recipe="flow")[1], states(1))[0]
    _, again = make(recipe="flow")
    monkeypatch.setattr(again, "_parts", None)  # nothing can be traced
    np.testing.assert_array_equal(run(again, states(1))[0], expected)
    _, other = make("rkmk1", recipe="flow")
    assert not np.array_equal(run(other, states(1))[0], expected)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.many
def test_flows_together_do_what_each_does_alone(way, n, tmp_path, monkeypatch):
    """One library for methods that pull back and methods that do not, and their error control."""
    names, y, options = ("rkmk1", "rkmk45", "cf3"), states(n), {"rows": 2, "interval": 0.05, "rtol": 1e-6}
    alone = [run(make(name)[1], y)[0] for name in names]
    one_by_one = controlled(make("rkmk45")[1], y, **options)
    monkeypatch.setattr(cache, "_chosen", tmp_path)
    flows, again = ([make(name)[1] for name in names] for _ in range(2))
    together(flows, recipe="together")
    for flow, expected in zip(flows, alone, strict=True):
        np.testing.assert_allclose(run(flow, y)[0], expected, rtol=0, atol=1e-14)
    record, counts, *_ = controlled(flows[1], y, **options)
    np.testing.assert_allclose(record, one_by_one[0], rtol=0, atol=1e-12)
    assert counts == one_by_one[1]
    together(again, recipe="together")
    monkeypatch.setattr(build, "_compiled", None)  # nothing can be compiled
    np.testing.assert_array_equal(run(again[-1], y)[0], run(flows[-1], y)[0])


def test_no_members_and_maps_of_nothing_take_no_steps():
    for n, steps, size in ((0, 3, 2), (2, 0, 2), (2, 3, 0)):
        x = np.ones((n, size))
        found = recurrence(np.ones((n, steps, size, size)), np.ones((n, steps, size)), x)
        assert found.shape == (n, steps + 1, size) and (found[:, 0] == x).all()
    y, failed = np.zeros((0, 2)), np.zeros(0, np.int64)
    _flow(2).steps(y, np.zeros((1, 1, 6)), 0.0, 1.0, 3, 1, np.empty((0, 4, 2)), 1, failed)


def turning_implicitly():
    """The same body by the implicit midpoint rule, quaternion and all."""

    def rate(t, y, u):
        x, w = y[:4], y[4:]
        turning = np.concatenate([[-x[1:] @ w], x[0] * w + np.cross(x[1:], w)]) / 2
        return np.concatenate([turning, field(t, y, u)[3:]])

    def residual(x, z, t, h, y, u):
        return x - y - h * rate(t + h / 2, (x + y) / 2, u[0])

    phase = Phase(lambda z, t, h, y, u: y, residual)
    return ImplicitFlow([phase], lambda z, t, h, y, u: z, 7, 3)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("n", [1, 5])
def test_steps_printed_for_floats_are_close_to_steps_in_doubles(kind, n):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    f = make()[1] if kind == "explicit" else turning_implicitly()

    def source(lanes):
        if kind == "explicit":
            text = explicit_source(f.functions, f.method, lanes, f.rigid, number=FLOAT)
        else:
            text = implicit_source(*f.functions, f.nodes, 1e-6, f.iterations, lanes, number=FLOAT)
        return build.Source([text])

    u = np.array([[[0.3, -0.2, 0.1]]])
    exact = run(f, states(n), u)[1]
    loop = CompiledLoop(libraries.Libraries(source, [], single=True), "fixed_steps")
    y = states(n).astype(np.float32)
    record, failed, losses = np.zeros((n, 6, 7), np.float32), np.zeros(n, np.int64), np.zeros((n, 2))
    loop.steps(y, Samples.of(u), 0.0, 0.01, 20, 4, record, 1, failed, losses, Nearest.of(n, 7), 1)
    assert not failed.any() and not losses.any()
    np.testing.assert_array_equal(record[:, -1], y)
    np.testing.assert_allclose(y, exact, rtol=0, atol=1e-5)
    assert np.abs(y - exact).max() > 1e-9  # floats, indeed


def test_error_control_in_floats_is_refused_by_the_compiler():
    compiler = build.find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    f = make()[1]
    build.library(build.Source([source_in_floats(f, Marching())]), compiler)
    with pytest.raises(build.CompilerError, match="need the digits of doubles"):
        build.library(build.Source([source_in_floats(f, Marching(controlled=True))]), compiler)


def source_in_floats(f, marching):
    return explicit_source(f.functions, f.method, 1, f.rigid, marching, number=FLOAT)
