"""Hybrid systems: named memory, parameters, works and outputs; ensembles; what is refused."""

import pickle

import numpy as np
import pytest

import liebody as lb
from liebody import models, scalars
from liebody.base.errors import ArgumentError, ConfigurationError, IntegrationError, ModelError, ShapeError
from liebody.compiler.native import build
from liebody.contact import Contact, TimeStepping
from liebody.groups import SO3, Product, R
from liebody.hybrid import Fall, HybridSystem, JointPD, LostEvents, controller_2, robot_system

INERTIA = np.array([1.0, 2.0, 2.5])


def ball(**options):
    """A ball on a viscoelastic floor, with drag; the floor remembers how often it was hit."""

    def force(q, v, z, p):
        return z.touching * scalars.maximum(-p.stiffness * q[0] - p.damping * v[0], 0.0)

    def field(t, q, v, z, p):
        return np.array([(force(q, v, z, p) - p.drag * v[0]) / p.mass - 9.81])

    def update(t, q, v, z, p, happened):
        hit, left = happened.floor < 0, happened.floor > 0
        return z._replace(
            touching=scalars.where(hit, 1.0, scalars.where(left, 0.0, z.touching)),
            hits=z.hits + scalars.where(hit, 1.0, 0.0),
        )

    parts = {
        "memory": {"touching": 0.0, "hits": 0.0},
        "parameters": {"mass": 2.0, "stiffness": 4e3, "damping": 5.0, "drag": 0.1},
        "guards": lambda t, q, v, z, p: {"floor": q[0], "apex": v[0]},
        "directions": {"apex": -1},
        "update": update,
        "step": lambda t, q, v, z, p: scalars.where(z.touching > 0.5, 1e-4, 1e-3),
        "powers": lambda t, q, v, z, p: {"floor": force(q, v, z, p) * v[0], "drag": -p.drag * v[0] ** 2},
        "outputs": lambda t, q, v, z, p: {
            "energy": p.mass * (v[0] ** 2 / 2 + 9.81 * q[0]),
            "state": np.concatenate([q, v]),
        },
        "name": "ball",
    }
    return HybridSystem(R(1), field, **{**parts, **options})


def thrown(**parts):
    """A ball in the air."""
    system = HybridSystem(R(1), lambda t, q, v, z, p: np.array([-9.81]), name="thrown", **parts)
    return system.simulate([1.0], [2.0], t_end=0.1, dt=0.05)


def test_a_system_may_have_guards_of_which_there_are_none():
    run = thrown(guards=lambda t, q, v, z, p: {}, update=lambda t, q, v, z, p, e: z)
    np.testing.assert_allclose(run.q[-1], 1.0 + 0.2 - 9.81 * 0.005, atol=1e-14)


def test_the_ledger_closes_and_the_memory_counts():
    run = ball().simulate([1.0], t_end=3.0, record_every=0.01, most_events=100)
    energy = run.outputs["energy"]
    np.testing.assert_allclose(energy - energy[0], run.work["floor"] + run.work["drag"], atol=1e-7)
    hits = run.events.of("floor", -1)
    assert len(hits) == run.memory["hits"][-1] >= 3
    np.testing.assert_array_equal(hits.memory["hits"], 1 + np.arange(len(hits)))
    np.testing.assert_allclose(hits.q[:, 0], 0, atol=1e-12)
    apex = run.events.of("apex")
    assert np.all(np.diff(apex.q[:, 0]) < 0) and np.all(np.abs(apex.v) < 1e-10)
    np.testing.assert_array_equal(run.outputs["state"], np.concatenate([run.q, run.v], axis=-1))
    assert run.ends == "" and run.end_times == 3.0 and run.parameters["mass"] == 2.0


def test_all_events_are_kept_unless_fewer_are_asked_for():
    """A limit below their number warns with how many were lost, and the log knows."""
    system = ball()
    every = system.simulate([1.0], t_end=6.0, record_every=0.1)
    n = len(every.events)
    assert n == every.counts[0] > 15 and every.events.lost == 0 and "not kept" not in repr(every.events)
    assert f"{n} events" in repr(every.events) and f"{len(every.events.of('apex'))} apex" in repr(
        every.events
    )
    with pytest.warns(LostEvents, match=rf"{n - 10} of {n} events were not kept.*events={n}"):
        some = system.simulate([1.0], t_end=6.0, record_every=0.1, most_events=10)
    assert len(some.events) == 10 and some.events.lost == some.events.of("apex").lost == n - 10
    np.testing.assert_array_equal(some.events.q, every.events.q[:10])
    assert f"{n - 10} more were not kept" in repr(some.events.of("floor"))
    with pytest.warns(LostEvents, match="1 of 2 members"):
        lb.simulate(system, [[1.0], [0.0]], [[0.0], [99.0]], t_end=3.0, most_events=3)


def test_no_events_are_kept_without_a_word_if_none_are_asked_for(recwarn):
    run = ball().simulate([1.0], t_end=6.0, record_every=0.1, most_events=0)
    assert len(run.events) == len(run.events.of("floor")) == 0 and run.events.lost == run.counts[0] > 15
    assert not recwarn.list


def test_members_may_differ_in_every_parameter_and_at_the_start():
    system = ball()
    masses, drops = np.array([1.0, 2.0, 4.0]), np.array([0.3, 1.0])
    run = system.simulate(
        drops[:, None, None],
        t_end=1.0,
        record_every=0.05,
        parameters={"mass": masses, "drag": 0.2},
        memory={"hits": [[10.0], [20.0]]},
        most_events=10,
        threads=2,
    )
    assert run.q.shape == (2, 3, 21, 1) and run.outputs["energy"].shape == (2, 3, 21) and len(run.events) == 6
    assert run.parameters["mass"].shape == (2, 3) and run.counts.shape == (2, 3, 3)
    for i in range(2):
        for k in range(3):
            alone = system.simulate(
                [drops[i]],
                t_end=1.0,
                record_every=0.05,
                parameters={"mass": masses[k], "drag": 0.2},
                memory={"hits": 10.0 * (i + 1)},
                most_events=10,
            )
            np.testing.assert_allclose(run.q[i, k], alone.q, atol=1e-11)
            np.testing.assert_array_equal(run.memory["hits"][i, k], alone.memory["hits"])
            assert run.events[3 * i + k].guard == alone.events.guard


def test_attitudes_stay_on_their_group():
    def field(t, q, v, z, p):
        return (p.torque - np.cross(v, INERTIA * v)) / INERTIA

    system = HybridSystem(SO3, field, parameters={"torque": np.zeros(3)})
    torques = np.array([[0, 0, 0.0], [1, 0, 0], [0, 2, 1]])
    run = system.simulate(
        [1.0, 0, 0, 0], [0.3, 1, 2], t_end=5.0, dt=0.01, parameters={"torque": torques}, record_every=0.1
    )
    assert run.q.shape == (3, 51, 4)
    np.testing.assert_allclose(np.linalg.norm(run.q, axis=-1), 1, atol=1e-14)
    momentum = np.stack([SO3.element(q) @ (INERTIA * v) for q, v in zip(run.q[0], run.v[0], strict=True)])
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (51, 1)), atol=1e-6)


def test_a_jump_may_change_position_and_velocity():
    def wrap(t, q, v, z, p, happened):
        over = happened.edge > 0
        return (
            np.array([scalars.where(over, q[0] - 1.0, q[0])]),
            np.array([scalars.where(over, 2 * v[0], v[0])]),
            z,
        )

    system = HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.zeros(1),
        guards=lambda t, q, v, z, p: {"edge": q[0] - 1.0},
        update=wrap,
    )
    run = system.simulate([0.5], [1.0], t_end=1.125, dt=0.3, most_events=5, record_every=0.125)
    np.testing.assert_allclose(run.events.of("edge", 1).t, [0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(run.q[[2, 6], 0], [0.75, 0.5], atol=1e-12)


def test_a_member_that_falls_is_marked_and_the_others_go_on():
    run = ball(stop=lambda t, q, v, z, p: -0.5 - q[0]).simulate(
        [1.0], t_end=2.0, parameters={"stiffness": [0.0, 4e3]}, record_every=0.1
    )
    assert run.ends.tolist() == ["stopped", ""]
    assert run.end_times[0] == pytest.approx(np.sqrt(3 / 9.81), abs=0.05)
    assert np.isnan(run.q[0, -1]).all() and np.isfinite(run.q[1]).all()
    assert f"2,) members, 1 ended early, the first at t = {run.end_times[0]:g} s" in repr(run)


def test_a_run_knows_where_its_members_ended():
    """The one that stops between two samples: its state, works and signals there."""
    system = ball(stop=lambda t, q, v, z, p: -0.5 - q[0])
    run = system.simulate([1.0], t_end=2.0, parameters={"stiffness": [0.0, 4e3]}, record_every=0.1)
    final = run.final
    np.testing.assert_array_equal(final.t, run.end_times)
    assert -0.51 < final.q[0, 0] < -0.5 < run.q[0, 5, 0] and final.memory["hits"][0] == 1
    given = final.work["floor"] + final.work["drag"]
    np.testing.assert_allclose(final.outputs["energy"] - run.outputs["energy"][:, 0], given, atol=1e-7)
    for kind in ("memory", "work", "outputs"):
        for name, x in getattr(final, kind).items():
            np.testing.assert_array_equal(x[1], getattr(run, kind)[name][1, -1])
    np.testing.assert_array_equal([final.q[1], final.v[1]], [run.q[1, -1], run.v[1, -1]])
    alone = system.simulate([1.0], t_end=2.0, parameters={"stiffness": 0.0}, record_every=0.1)
    np.testing.assert_allclose(alone.final.q, final.q[0], atol=1e-12)
    assert repr(alone) == f"HybridRun(6 of 21 samples to t = 2 s; ended at t = {final.t[0]:g} s: stopped)"
    assert repr(ball().simulate([1.0], t_end=2.0, record_every=0.1)) == "HybridRun(21 samples to t = 2 s)"


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: ball().simulate([1.0, 2.0], t_end=1), ShapeError, ["q0", "(2,)", "(..., 1)"]),
        (lambda: ball().simulate([np.nan], t_end=1), ConfigurationError, ["q0", "finite"]),
        (lambda: ball().simulate([1.0], t_end=-1), IntegrationError, ["t_end", "-1"]),
        (lambda: ball().simulate([1.0], t_end=1, most_events=-3), ArgumentError, ["-3", "0 or more"]),
        (lambda: ball().simulate([1.0], t_end=1, most_events=2.5), ArgumentError, ["most_events", "2.5"]),
        (lambda: ball().simulate([1.0], t_end=1, events=5), ArgumentError, ["events", "5"]),
        (lambda: ball().simulate([1.0], t_end=1, t_eval=[0, 0.5]), IntegrationError, ["t_end, 1 s"]),
        (
            lambda: ball().simulate([1.0], t_end=1, t_eval=[0, 1.0], record_every=0.1),
            IntegrationError,
            ["record_every", "t_eval"],
        ),
        (lambda: ball(step=None).simulate([1.0], t_end=1), IntegrationError, ["ball", "give dt"]),
        (lambda: ball().simulate([1.0], t_end=1, parameters={"mas": 1}), ModelError, ["mas", "mass"]),
        (lambda: ball().simulate([1.0], t_end=1, memory={"hit": 1}), ModelError, ["hit", "hits"]),
        (
            lambda: ball().simulate([1.0], t_end=1, parameters={"mass": "heavy"}),
            ShapeError,
            ["mass", "heavy"],
        ),
        (lambda: ball().simulate([[1.0]] * 3, t_end=1, parameters={"mass": [1, 2]}), Exception, ["(3,)"]),
        (lambda: ball(directions={"wall": 1}), ModelError, ["wall", "floor"]),
        (lambda: ball(directions={"floor": 2}), ModelError, ["floor", "2", "-1"]),
        (lambda: ball(flows={"heat": 0.0}), ModelError, ["rates of nothing", "heat"]),
        (lambda: ball(guards=lambda t, q, v, z, p: {"the floor": q[0]}), ModelError, ["the floor", "word"]),
        (lambda: ball().simulate(np.ones((0, 1)), t_end=1), ShapeError, ["empty", "(0,)"]),
        (lambda: lb.stepper(ball(), dt=0.1, threads=0), ArgumentError, ["threads", "0", "1 or more"]),
        (lambda: ball().simulate([1.0], t_end=1, locate=-1e-9), IntegrationError, ["locate", "-1e-09"]),
        (lambda: ball().simulate([1.0], t_end=1, least=-1e-9), IntegrationError, ["least", "-1e-09"]),
        (lambda: ball(memory={"not a word": 0}), ModelError, ["not a word"]),
        (lambda: thrown(powers=lambda t, q, v, z, p: {"lift": v}), ShapeError, ["powers", "'lift'", "(1,)"]),
        (
            lambda: thrown(guards=lambda t, q, v, z, p: {"floor": q}),
            ShapeError,
            ["guards", "'floor'", "(1,)"],
        ),
        (lambda: thrown(update=lambda t, q, v, z, p, e: (q, v)), ShapeError, ["update", "z or (q, v, z)"]),
        (lambda: ball(guards=lambda t, q, v, z, p: q[0]), ModelError, ["dictionary"]),
        (
            lambda: HybridSystem(Product(SO3, R(1)), lambda t, q, v, z, p: v[:2]).simulate(
                [1, 0, 0, 0, 0], t_end=1, dt=0.1
            ),
            ShapeError,
            ["(2,)", "(4,)"],
        ),
        (
            lambda: HybridSystem(SO3, lambda t, q, v, z, p: v).simulate([1, 1, 0, 0], t_end=1),
            ConfigurationError,
            [],
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(act, error, words):
    with pytest.raises(error) as caught:
        act()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_simulate_takes_hybrid_systems_too():
    run = lb.simulate(ball(), [1.0], t_end=0.5, record_every=0.1, parameters={"drag": 0.2})
    np.testing.assert_array_equal(
        run.q, ball().simulate([1.0], t_end=0.5, record_every=0.1, parameters={"drag": 0.2}).q
    )
    assert lb.simulate(ball(), t_end=0.5, record_every=0.1).q[0, 0] == 0


def test_quantities_flow_and_start_where_they_are_told():
    """A pedometer: the way gone, integrated with the motion, and the place where it began."""
    system = HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-p.pull * (q[0] - z.origin)]),
        memory={"origin": 0.0},
        flows={"way": 0.0, "time": 0.0},
        rates=lambda t, q, v, z, p: {"way": v[0] ** 2, "time": 1.0},
        start=lambda t, q, v, z, p: z._replace(origin=q[0] - 1.0, time=z.time + 5.0),
        parameters={"pull": 4.0},
    )
    run = system.simulate([[2.0], [7.0]], t_end=1.0, dt=1e-3, record_every=0.5, memory={"way": [0.0, 3.0]})
    np.testing.assert_array_equal(run.memory["origin"], [[1.0] * 3, [6.0] * 3])
    np.testing.assert_allclose(run.q[1] - run.q[0], 5.0)
    wanted = 2 * (run.t - np.sin(4 * run.t) / 4)  # of v = -2 sin(2 t)
    np.testing.assert_allclose(run.memory["way"], [wanted, wanted + 3], atol=1e-9)
    np.testing.assert_allclose(run.memory["time"], np.tile(5 + run.t, (2, 1)), atol=1e-12)
    for options in ({"flows": {"a": 0.0}}, {"memory": {"a": 0.0}, "flows": {"a": 0.0}}):
        with pytest.raises(ModelError):
            HybridSystem(R(1), lambda t, q, v, z, p: v, **options)


# -- one interval at a time ---------------------------------------------------------------------------------


def gaits(members=()):
    """Hoppers that fall for soft springs, a stepper for them, and a start."""
    floor = Contact("foot", stiffness=1e4, damping=300.0)
    controller = controller_2("foot", K_r=2200, r_des=0.1410659, D_r=20, K_p=6, K_E=10, E_des=2.8382)
    system = robot_system(models.revolute_hopper(), controller, floor, Fall(0.03))
    start = np.array([-2.5243, 2.7676, 0.2574, 1.7802]), np.array([0.3301, -0.1919, 0.1263, 0])
    return system, lb.stepper(system, dt=0.02, members=members), start


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["events", "time stepping"])
def test_robot_systems_can_be_pickled_before_and_after_they_were_compiled(kind):
    elements = JointPD(5.0, D=1.0, name="hold"), Fall(-10.0, "link2")
    system = (robot_system if kind == "events" else TimeStepping)(lb.load("double_pendulum"), *elements)
    before, options = pickle.dumps(system), {"t_end": 0.02, "record_every": 0.01}
    run = system.simulate([0.4, -0.9], **options)
    for again in map(pickle.loads, (before, pickle.dumps(system))):
        np.testing.assert_array_equal(again.simulate([0.4, -0.9], **options).q, run.q)
        assert again.parameters.fields == system.parameters.fields


def test_intervals_of_a_stepper_are_a_run_with_parameters_that_are_held():
    system, sim, (q0, v0) = gaits(3)
    K_p = np.random.default_rng(0).uniform([[0.0], [5.5], [5.5]], [[1.0], [6.5], [6.5]], (3, 100))
    times = 0.02 * np.arange(100)
    run = system.simulate(q0, v0, t_end=2.0, record_every=0.02, sampled={"K_p": (times, K_p)})
    state = sim.start(q0, v0)
    for k in range(100):
        state = sim.step(state, {"K_p": K_p[:, k]})
        on = ~state.ended
        np.testing.assert_array_equal(state.q[on], run.q[on, k + 1])
        np.testing.assert_array_equal(state.memory.floor_contact[on], run.memory["floor_contact"][on, k + 1])
    assert state.t == pytest.approx(2.0)
    assert state.ends.tolist() == run.ends.tolist() and 0 < np.count_nonzero(state.ended) < 3
    np.testing.assert_array_equal(state.q, run.final.q)


def test_members_of_a_stepper_begin_anew_one_by_one():
    _, sim, (q0, v0) = gaits((2, 2))
    state = first = sim.start(q0, v0)
    for _ in range(5):
        state = sim.step(state, {"K_p": 6.0})
    which = np.array([[False, True], [False, False]])
    again = sim.reset(state, which, q0, v0)
    assert np.array_equal(again.q[~which], state.q[~which]) and np.array_equal(again.q[which], first.q[which])
    assert np.array_equal(state.q[0, 1], state.q[0, 0])  # states do not change
    for _ in range(5):
        again = sim.step(again, {"K_p": 6.0})
    np.testing.assert_allclose(again.q[0, 1], state.q[0, 1], rtol=1e-12)


def test_where_no_member_is_to_begin_anew_the_state_stays_as_it_is():
    """As in a loop that resets whoever has ended; the memory at the start is here one of `start`."""
    system = ball(start=lambda t, q, v, z, p: z._replace(hits=q[0]))
    sim = lb.stepper(system, dt=0.05, members=3)
    state = sim.step(sim.start([[1.0], [2.0], [3.0]]))
    again = sim.reset(state, state.ended, [5.0])
    np.testing.assert_array_equal(again.q, state.q)
    np.testing.assert_array_equal(again.memory.hits, [1, 2, 3])
    np.testing.assert_array_equal(sim.reset(state, [1], [5.0]).memory.hits, [1, 5, 3])
    assert sim.step(again).t == pytest.approx(0.1)


def test_members_of_a_stepper_that_ended_stay_where_they_are():
    _, sim, (q0, v0) = gaits(2)
    state = sim.start([q0, [0.0, 2.0, 0.02, 0.5]], v0)
    ended = sim.step(state)
    assert ended.ended.tolist() == [False, True] and ended.ends.tolist() == ["", "stopped"]
    after = sim.step(ended)
    assert np.array_equal(after.q[1], ended.q[1]) and not np.array_equal(after.q[0], ended.q[0])
    assert not sim.reset(after, after.ended, q0, v0).ended.any()


def test_a_step_leaves_its_state_as_it_is_and_may_be_taken_again():
    """Also from arrays that are read-only, as those of a state that shares its memory."""
    _, sim, (q0, v0) = gaits(2)
    first = sim.step(sim.start([q0, [0.0, 2.0, 0.02, 0.5]], v0))
    second = sim.step(first)
    kept = first._y.copy(), second._y.copy()
    third = sim.step(second)
    first._y.setflags(write=False)
    np.testing.assert_array_equal(sim.step(first)._y, second._y)
    np.testing.assert_array_equal(sim.step(second)._y, third._y)
    np.testing.assert_array_equal((first._y, second._y), kept)


@pytest.mark.filterwarnings("ignore:there is no C compiler")
def test_without_a_compiler_intervals_of_a_stepper_are_the_same(monkeypatch):
    start = [[1.0], [2.0], [0.3]]
    states = []
    for missing in (False, True):
        with monkeypatch.context() as patch:
            if missing:
                patch.setattr(build, "find_compiler", lambda: None)
            sim = lb.stepper(ball(), dt=0.3, members=3)
            state = sim.step(sim.start(start))
            state = sim.step(sim.reset(state, [1], [0.5]))
            states.append(sim.step(state))
    np.testing.assert_allclose(states[1]._y, states[0]._y, rtol=1e-12, atol=1e-12)
    assert np.ptp(states[0].q) > 0.01


def test_outputs_of_a_stepper_are_those_of_a_run():
    system, sim, (q0, v0) = gaits(3)
    K_p = np.array([5.5, 6.0, 6.5])
    run = system.simulate(q0, v0, t_end=0.2, record_every=0.02, parameters={"K_p": K_p})
    state = sim.start(q0, v0, {"K_p": K_p})
    for k in range(11):
        assert {*state.outputs} == {*run.outputs}
        for name, x in state.outputs.items():
            np.testing.assert_array_equal(x, run.outputs[name][:, k], err_msg=name)
        np.testing.assert_array_equal(state.contact_forces, state.outputs["floor_force"])
        np.testing.assert_array_equal(state.touching, state.memory.floor_contact > 0.5)
        np.testing.assert_array_equal(state.parameters["K_p"], K_p)
        state = sim.step(state, {"K_p": K_p})
    assert run.outputs["floor_force"].any()


def test_a_push_changes_velocities_of_some_members_and_nothing_else():
    """Against a closed form: linear drag takes a constant rate from a difference of velocities."""
    sim = lb.stepper(ball(), dt=0.05, members=3)
    before = sim.step(sim.start([[1.0], [2.0], [3.0]]))
    after = sim.replace(before, [0, 2], v=[[1.5], [2.5]])
    assert after.v[:, 0].tolist() == [1.5, before.v[1, 0], 2.5] and after.t == before.t
    for name in ("q", "ended"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    for x, y in zip(after.memory, before.memory, strict=True):
        np.testing.assert_array_equal(x, y)
    one, other = sim.step(after), sim.step(before)
    np.testing.assert_array_equal(one.q[1], other.q[1])
    rate = before.parameters["drag"] / before.parameters["mass"]
    moved = ((1 - np.exp(-0.05 * rate)) / rate * (after.v - before.v)[:, 0])[[0, 2]]
    np.testing.assert_allclose((one.q - other.q)[[0, 2], 0], moved, rtol=1e-9)
    np.testing.assert_array_equal(sim.replace(before, before.q[:, 0] > 1.5, q=[9.0]).q[:, 0] == 9, [0, 1, 1])
    np.testing.assert_array_equal(sim.replace(before, before.ended, v=[0.0]).v, before.v)  # none at all
    with pytest.raises(ShapeError, match=r"q and v have the leading axes \(2,\) and \(2,\)"):
        sim.replace(before, [0], q=[[1.0], [2.0]], v=[[1.0], [2.0]])


def test_states_of_steppers_are_pickled_with_and_without_their_stepper():
    _, sim, (q0, v0) = gaits(3)
    state = sim.step(sim.start(q0, v0), {"K_p": [5.5, 6.0, 6.5]})
    state.outputs  # noqa: B018 - computed, and not sent
    again = pickle.loads(pickle.dumps(state))
    np.testing.assert_array_equal(again.q, state.q)
    np.testing.assert_array_equal(again.outputs["floor_force"], state.outputs["floor_force"])
    for stepper in (sim, again.stepper):
        np.testing.assert_array_equal(stepper.step(again).q, sim.step(state).q)


def test_what_a_stepper_of_a_hybrid_system_cannot_take_is_refused():
    _, sim, (q0, v0) = gaits(3)
    with pytest.raises(ShapeError, match=r"\(2, 4\).*\(3,\)"):
        sim.start([q0, q0], v0)
    with pytest.raises(ModelError, match="no parameter 'K_q'"):
        sim.step(sim.start(q0, v0), {"K_q": 1.0})
    with pytest.raises(ShapeError, match=r"members are \[3\], expected a mask \(3,\)"):
        sim.reset(sim.start(q0, v0), [3], q0, v0)
    with pytest.raises(ArgumentError, match="one of another stepper"):
        sim.step(lb.stepper(sim.system, dt=0.02).start(q0, v0))
    with pytest.raises(ArgumentError, match="members is 0"):
        lb.stepper(sim.system, dt=0.02, members=0)
    with pytest.raises(IntegrationError, match="dt"):
        lb.stepper(sim.system, dt=0.0)
