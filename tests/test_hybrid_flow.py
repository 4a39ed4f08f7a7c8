"""Compiled hybrid flows against closed forms, and against themselves without a compiler."""

import functools

import numpy as np
import pytest

from liebody import scalars
from liebody.compiler import trace
from liebody.compiler.native import build, libraries
from liebody.integrators import coefficients, method_named
from liebody.stepping.hybrid import HybridFlow
from liebody.stepping.march import NO_STEP, NOT_FINITE, RAN, STOPPED, TOO_MANY, Settings


def make(
    field,
    guards,
    after,
    step,
    stop=lambda t, y, u: 0.0,
    memory=1,
    point=2,
    parameters=1,
    method="rkmk4",
    directions=None,
):
    """A flow on a vector space: `field`, `guards`, `after`, `step` and `stop` of (t, y, u) are traced."""
    method = method_named(method)
    state = {"t": (), "y": memory + point, "u": parameters}
    number = len(guards(0.0, np.zeros(memory + point), np.zeros(parameters)))

    def look(t, y, u):
        return np.array(guards(t, y, u)), step(t, y, u), stop(t, y, u)

    def update(t, y, u, e):
        z = after(t, y, u, e)
        return z, *look(t, z, u)

    return HybridFlow(
        functools.partial(trace, field, state, "field"),
        functools.partial(
            trace,
            lambda y, psi: np.concatenate([y[:memory], y[memory:] + psi]),
            {"y": memory + point, "psi": point},
            "advance",
        ),
        functools.partial(trace, lambda psi, f: f, {"psi": point, "f": point}, "pull"),
        functools.partial(trace, lambda t, y, u: np.array(guards(t, y, u)), state, "guards"),
        functools.partial(trace, look, state, "look"),
        functools.partial(trace, update, {**state, "e": number}, "after"),
        coefficients(method),
        directions or [0] * number,
    )


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


def run(flow, y, u, rows=11, interval=0.1, threads=1, chunks=1, **options):
    settings, members = Settings(**options), flow.ensemble(y, interval * np.arange(rows))
    each = (rows - 1) // chunks
    for k in range(chunks):
        flow.march(members, u, 1 + (k + 1) * each, settings, threads)
    return members


def assert_same(one, other, of=None):
    """Two ensembles are the same to the bit; `of`: the members of the other that the one has."""
    of = np.arange(len(other.y)) if of is None else of
    for name in ("y", "record", "counts", "ends"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[of])
    for i, log in zip(of, one.log, strict=True):
        np.testing.assert_array_equal(log, other.log[i])


# A ball that bounces: y = (bounces, height, speed), u = (restitution,)


def fall(t, y, u):
    return np.array([y[2], -10.0])


def bounce(t, y, u, e):
    hit = e[0] < 0
    return np.array([y[0] + scalars.where(hit, 1.0, 0.0), y[1], scalars.where(hit, -u[0] * y[2], y[2])])


def ball(step=0.03, **options):
    return make(fall, lambda t, y, u: [y[1]], bounce, lambda t, y, u: step, directions=[-1], **options)


def bounces(height, restitution, number):
    """Times of the bounces, and the speed after each."""
    speed = np.sqrt(20 * height)
    times, speeds = [speed / 10], [restitution * speed]
    for _ in range(number - 1):
        times.append(times[-1] + speeds[-1] / 5)
        speeds.append(restitution * speeds[-1])
    return np.array(times), np.array(speeds)


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.many
def test_a_ball_bounces_at_the_times_of_the_closed_form(way, n):
    flow = ball()
    heights = np.linspace(0.5, 1.5, n)
    y, u = np.stack([np.zeros(n), heights, np.zeros(n)], 1), np.linspace(0.8, 0.95, n)[:, None]
    members = run(flow, y, u, rows=21, most=8)
    for i in range(n):
        times, speeds = bounces(heights[i], u[i, 0], 60)
        number = int((times < 2.0).sum())
        assert members.counts[i, 0] == number > 0 and members.y[i, 0] == number
        kept = members.log[i]
        assert len(kept) == min(number, 8)
        np.testing.assert_allclose(kept[:, 0], times[: len(kept)], rtol=0, atol=5e-13)
        np.testing.assert_array_equal(kept[:, 1], -1)
        np.testing.assert_allclose(kept[:, 4], speeds[: len(kept)], rtol=1e-11)
        at = 0.1 * np.arange(21)
        last = np.searchsorted(times, at, side="right") - 1
        since = at - np.where(last >= 0, times[last], 0)
        height = np.where(last >= 0, speeds[last] * since - 5 * since**2, heights[i] - 5 * at**2)
        np.testing.assert_allclose(members.record[i, :, 1], height, atol=2e-11)
    assert not members.ends.any()


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.many
def test_a_log_grows_with_its_events(way, chunks):
    """Members with none, a few and hundreds of events; a limit keeps the first ones of each."""
    flow = make(
        lambda t, y, u: np.array([1.0, 1.0]),
        lambda t, y, u: [scalars.sin(u[0] * y[1])],
        lambda t, y, u, e: np.array([y[0] + scalars.absolute(e[0]), *y[1:]]),
        lambda t, y, u: 0.01,
    )
    rates = np.array([[0.1], [3.0], [40.0], [100.0], [7.0]])
    y = np.tile([0.0, 0.01, 0.0], (5, 1))
    for most in (1000, 20):
        members = run(flow, y, rates, rows=9, interval=1.0, chunks=chunks, most=most)
        for (rate,), log, count in zip(rates, members.log, members.counts[:, 0], strict=True):
            times = np.arange(1, 1000) * np.pi / rate - 0.01
            times = times[times < 8]
            assert count == len(times) and len(log) == min(count, most)
            np.testing.assert_allclose(log[:, 0], times[: len(log)], atol=1e-12)
            np.testing.assert_array_equal(log[:, 1], np.where(np.arange(len(log)) % 2, 1, -1))
            np.testing.assert_array_equal(log[:, 2], 1 + np.arange(len(log)))
    assert members.counts[:, 0].max() > 250


def test_members_alone_in_company_in_chunks_and_by_threads_are_the_same_to_the_bit():
    flow, rng = ball(), np.random.default_rng(0)
    n = 23
    y, u = (
        np.stack([np.zeros(n), rng.uniform(0.2, 2, n), rng.uniform(-1, 1, n)], 1),
        rng.uniform(0.3, 0.9, (n, 1)),
    )
    together = run(flow, y, u, most=5)
    for options in ({"chunks": 5}, {"threads": 3}):
        assert_same(run(flow, y, u, most=5, **options), together)
    for i in (0, 7, 22):
        many = run(flow, np.repeat(y[i : i + 1], 9, 0), u[i : i + 1], most=5)
        np.testing.assert_array_equal(many.record, np.repeat(together.record[i : i + 1], 9, 0))
        alone = run(flow, y[i : i + 1], u[i : i + 1], most=5)
        np.testing.assert_allclose(alone.record[0], together.record[i], atol=1e-13)


def test_both_ways_agree(monkeypatch):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    y, u = np.array([[0, 1.0, 0.3], [0, 0.1, 0.0], [0, 0.5, 2.0]]), np.array([[0.5], [0.3], [0.7]])
    compiled = run(ball(), y, u, rows=21, most=40)
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    interpreted = run(ball(), y, u, rows=21, most=40)
    np.testing.assert_array_equal(compiled.counts[:, :2], interpreted.counts[:, :2])
    np.testing.assert_allclose(compiled.record, interpreted.record, atol=1e-10)
    for ours, theirs in zip(compiled.log, interpreted.log, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_bounces_without_end_pass(way):
    """A ball of restitution 1/2 has bounced infinitely often after 1.34 s, and the run goes on after that.

    Steps are so short that they see every flight (two changes of a sign within a step cancel); those longer
    than `least` are located.
    """

    def step(t, y, u):  # shorter than the flight that this energy is good for
        return scalars.minimum(
            0.03, 0.02 * scalars.sqrt(y[2] * y[2] + 20 * scalars.maximum(y[1], 0.0)) + 1e-8
        )

    rest = 3 * np.sqrt(0.2)
    flow = make(fall, lambda t, y, u: [y[1]], bounce, step, directions=[-1])
    members = run(flow, [[0, 1.0, 0]], [[0.5]], rows=15, most=100)
    times, _ = bounces(1.0, 0.5, 60)
    known = times[np.diff(times, append=rest) > 1e-6]
    np.testing.assert_allclose(members.log[0][: len(known), 0], known, atol=1e-13)
    assert members.ends[0, 1] == 0 and members.counts[0, 1] > 0
    assert 0 < members.counts[0, 0] - len(known) < 30


@pytest.mark.many
def test_events_at_the_ends_of_steps(way):
    located = run(ball(0.001), [[0, 1.0, 0]], [[0.8]], rows=8, most=4)
    not_located = run(ball(0.001), [[0, 1.0, 0]], [[0.8]], rows=8, most=4, tolerance=None)
    time = np.sqrt(0.2)
    assert located.log[0][0, 0] == pytest.approx(time, abs=1e-14)
    assert not_located.log[0][0, 0] == pytest.approx(np.ceil(time * 1000) / 1000, abs=1e-12)


# A heater with hysteresis: y = (on, temperature, time), u = (rate,)


def test_memory_changes_at_events_and_is_kept_between(way):
    def field(t, y, u):
        return np.array([scalars.where(y[0] > 0.5, u[0], -u[0]), 1.0])

    def switch(t, y, u, e):
        on = scalars.where(e[0] > 0, 0.0, scalars.where(e[1] < 0, 1.0, y[0]))
        return np.array([on, y[1], y[2]])

    heater = make(
        field, lambda t, y, u: [y[1] - 1.0, y[1] + 1.0], switch, lambda t, y, u: 0.3, directions=[1, -1]
    )
    rates = np.array([[1.0], [2.0], [0.7], [3.0], [1.3]])
    members = run(heater, np.tile([1.0, 0.0, 0.0], (5, 1)), rates, rows=11, interval=1.0, most=20)
    for i, (rate,) in enumerate(rates):
        phase = (rate * np.arange(11) + 1) % 4
        triangle = np.where(phase < 2, phase - 1, 3 - phase)
        np.testing.assert_allclose(members.record[i, :, 1], triangle, atol=1e-11)
        assert abs(members.counts[i, 0] - (10 * rate + 1) / 2) <= 1
        signs = members.log[i][:, 1]
        np.testing.assert_array_equal(signs, np.where(np.arange(len(signs)) % 2 == 0, 1, -2))


def test_of_two_events_in_a_step_the_earlier_comes_first(way):
    def field(t, y, u):
        return np.array([1.0, 1.0])

    def mark(t, y, u, e):
        return np.array(
            [scalars.where(e[0] > 0, 10 * y[0] + 1, scalars.where(e[1] > 0, 10 * y[0] + 2, y[0])), *y[1:]]
        )

    flow = make(field, lambda t, y, u: [y[1] - u[0], y[1] - u[1]], mark, lambda t, y, u: 1.0, parameters=2)
    members = run(flow, np.zeros((2, 3)), [[0.31, 0.47], [0.52, 0.23]], rows=2, interval=1.0, most=2)
    np.testing.assert_allclose([log[:, 0] for log in members.log], [[0.31, 0.47], [0.23, 0.52]], atol=1e-14)
    np.testing.assert_array_equal(members.y[:, 0], [12, 21])


@pytest.mark.parametrize("method", ["rkmk2", "rkmk4", "cf4"])
def test_the_order_survives_events(method):
    """A pendulum y'' = -sin y in a wall: order by slope of the state after several located impacts."""

    def field(t, y, u):
        return np.array([y[2], -scalars.sin(y[1])])

    def wall(t, y, u, e):
        return np.array([y[0], y[1], scalars.where(e[0] > 0, -0.9 * y[2], y[2])])

    ends = []
    for k in range(4):
        flow = make(field, lambda t, y, u: [y[1] - 0.3], wall, lambda t, y, u: u[0], method=method)
        ends.append(run(flow, [[0, -1.0, 0.0]], [[0.1 / 2**k]], rows=2, interval=20.0).y[0])
    ends = np.array(ends)
    change = np.linalg.norm(np.diff(ends, axis=0), axis=1)
    slopes = np.log2(change[:-1] / change[1:])
    assert abs(slopes[-1] - method_named(method).order) < 0.35


def test_a_member_that_stops_or_fails_says_when_and_why_and_the_others_go_on(way):
    def field(t, y, u):
        return np.array([u[0] * y[1] * y[1], 1.0])

    flow = make(
        field,
        lambda t, y, u: [y[1] - 1e9],
        lambda t, y, u, e: y,
        lambda t, y, u: scalars.where(y[2] < u[1], 0.01, -1.0),
        stop=lambda t, y, u: y[2] - u[2],
        parameters=3,
    )
    u = np.array([[0.0, 9, 9], [2.0, 9, 9], [0.0, 0.5, 9], [0.0, 9, 0.4], [0.0, 9, -1.0]])
    y = np.array([[0, 1.0, 0]] * 5)
    y[4, 2] = 0.0
    members = run(flow, y, u)
    assert members.ends[:, 1].tolist() == [RAN, NOT_FINITE, NO_STEP, STOPPED, STOPPED]
    np.testing.assert_allclose(members.ends[1, 0], 0.5, atol=0.1)  # y' = 2 y^2 from 1 ends at 1/2
    np.testing.assert_allclose(members.ends[2:, 0], [0.5, 0.41, 0.0], atol=0.011)
    assert np.isfinite(members.record[0]).all() and np.isnan(members.record[3, 6:]).all()
    assert np.isfinite(members.y).all()


@pytest.mark.parametrize("tolerance", [1e-14, None], ids=["located", "at the ends of steps"])
@pytest.mark.many
def test_what_becomes_of_members_among_bouncing_ones(way, tolerance):
    """Each end of a member has its time and cause, and members that go on do what they do without the others.

    Here are balls that bounce, that fall through the floor, that a gain drives off, that become NaN, that
    stand still.
    """

    def field(t, y, u):  # u = (restitution, gain, time of the NaN, time of the last step)
        return np.array([y[2], -10.0 + u[1] * y[2] * y[2] * y[2] + 1e-300 * scalars.sqrt(u[2] - y[3]), 1.0])

    def hit(t, y, u, e):
        down = (e[0] < 0) & (u[0] > 0)
        return np.array(
            [y[0] + scalars.where(down, 1.0, 0.0), y[1], scalars.where(down, -u[0] * y[2], y[2]), y[3]]
        )

    flow = make(
        field,
        lambda t, y, u: [y[1]],
        hit,
        lambda t, y, u: scalars.where(t < u[3], 0.01, 0.0),
        stop=lambda t, y, u: -0.5 - y[1],
        point=3,
        parameters=4,
        directions=[-1],
    )
    kinds = np.array([[0.8, 0, 9, 9], [0.0, 0, 9, 9], [0.8, 1.0, 9, 9], [0.8, 0, 0.7, 9], [0.8, 0, 9, 0.3]])
    kind = np.array([0, 1, 0, 2, 3, 4, 0, 3, 1, 0, 2, 0, 4, 1, 0, 0, 3])
    heights = np.linspace(1.0, 1.4, len(kind))
    y = np.stack([0 * heights, heights, np.where(kind == 2, 3.0, 0.0), 0 * heights], axis=1)
    options = {"rows": 11, "interval": 0.1, "most": 3, "tolerance": tolerance}
    members = run(flow, y, kinds[kind], **options)
    assert (
        members.ends[:, 1].tolist()
        == np.array([RAN, STOPPED, NOT_FINITE, NOT_FINITE, NO_STEP])[kind].tolist()
    )
    through = np.sqrt((heights + 0.5) / 5)  # free fall to 0.5 m below the floor
    times = members.ends[:, 0]
    late = times[kind == 1] - through[kind == 1]
    assert np.all((late >= -1e-9) & (late <= 0.01 + 1e-9))
    blown_up = 0.0664  # the integral of 1 / (v^3 - 10) from 3 on
    np.testing.assert_allclose(times[kind == 2], blown_up, atol=0.03)
    assert np.all(abs(times[kind == 3] - 0.7) < 0.0101)
    np.testing.assert_allclose(times[kind == 4], 0.3, atol=0.0101)
    for i, end in enumerate(times):
        if members.ends[i, 1]:
            rows = int(end / 0.1 + 1e-6) + 1
            assert np.isfinite(members.record[i, :rows]).all() and np.isnan(members.record[i, rows:]).all()
    well = kind == 0
    assert np.isfinite(members.record[well]).all() and (members.counts[well, 0] == 1).all()
    alone = run(flow, y[well], kinds[kind[well]], **options)
    shared = run(flow, y, kinds[kind], threads=2, **options)
    assert_same(alone, members, np.flatnonzero(well))
    assert_same(shared, members)


def test_a_member_that_hardly_moves_is_ended(way):
    flow = make(fall, lambda t, y, u: [y[1]], bounce, lambda t, y, u: 1e-6)
    members = run(flow, [[0, 1.0, 0.0]], [[0.5]], limit=50)
    assert members.ends[0, 1] == TOO_MANY and members.counts[0, 2] == 51
