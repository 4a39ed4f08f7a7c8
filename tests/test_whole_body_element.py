"""Whole-body controllers within simulations, and for robots with free parameters."""

import copy
import pickle

import numpy as np
import pytest
from legged import legged

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.compiler import Kernel, trace
from liebody.compiler.native import build, libraries
from liebody.contact import Contact, TimeStepping
from liebody.control import DifferentialIK, MotionTask, Support, WholeBody
from liebody.groups import R
from liebody.hybrid import ExtendedSystem, Feedback, HybridSystem, KernelCall, robot_system
from liebody.scalars import cos, sqrt, where

START = [0.3, -0.2]
PERIOD = 4e-3  # s, of the arm's controller
STEPS = 50  # of it
POSE = np.array([0.1, 0.4, -0.8, -0.1, 0.4, -0.8])


@pytest.fixture(scope="module")
def arm():
    return lb.load("double_pendulum")


@pytest.fixture(scope="module")
def wb(arm):
    return WholeBody(arm, [MotionTask.posture(arm, kp=100.0)])


def swaying(s, p):
    return {"posture.target": p.posture_target + p.width * cos(s.t)}


@pytest.fixture(scope="module")
def system(arm, wb):
    return robot_system(arm, wb.element(PERIOD, swaying, {"width": 0.1}), step=1.5e-3)


def in_python(arm, wb, target, width=0.1):
    """Configurations and efforts of a loop that calls the controller at the same times."""
    sim = lb.stepper(arm, dt=PERIOD / 4)
    state = sim.start(START)
    q, tau = [state.q], []
    for k in range(STEPS):
        target_now = np.asarray(target) + width * np.cos(k * PERIOD)
        tau.append(wb(state.q, state.v, {"posture.target": target_now}).tau)
        state = sim.step(state, tau[-1], 4)
        q.append(state.q)
    return np.array(q), np.array(tau)


def test_a_simulation_with_the_controller_is_the_loop_that_calls_it(arm, wb, system):
    target = [0.1, 0.2]
    q, tau = in_python(arm, wb, target)
    given = {"wb_posture_target": target, "step": PERIOD / 4}
    options = {"t_end": STEPS * PERIOD, "record_every": PERIOD, "parameters": given}
    run = system.simulate(START, **options)
    np.testing.assert_allclose(run.q, q, atol=1e-12)
    # a record at the time of a command has the efforts until then
    np.testing.assert_allclose(run.memory["wb_tau"][1:], tau, atol=1e-10 * np.abs(tau).max())
    assert not run.memory["wb_tau"][0].any() and not run.memory["wb_status"].any()
    np.testing.assert_allclose(run.memory["wb_next"][1:], PERIOD * np.arange(1, STEPS + 1), atol=1e-12)
    # steps of other lengths end where commands are due, and the work of the drives is in the ledger
    others = system.simulate(START, **{**options, "parameters": {**given, "step": 1.5e-3}})
    np.testing.assert_allclose(others.q, q, atol=1e-8)
    assert np.abs(system.ledger(others).residual).max() < 1e-8


def test_members_do_not_depend_on_each_other_and_have_parameters_of_their_own(system):
    targets = np.array([[0.1, 0.2], [0.0, 0.0], [0.3, -0.4]])
    periods = np.array([4e-3, 3e-3, 1e-2])
    options = {"t_end": 0.1, "record_every": 5e-3}
    together = system.simulate(
        START, parameters={"wb_posture_target": targets, "wb_period": periods}, threads=2, **options
    )
    for k in range(3):
        given = {"wb_posture_target": targets[k], "wb_period": periods[k]}
        alone = system.simulate(START, parameters=given, **options)
        np.testing.assert_allclose(together.q[k], alone.q, atol=1e-13)
    assert len(np.unique(np.round(together.q[:, -1, 0], 6))) == 3


def test_steppers_take_new_references_at_once(arm, wb, system):
    sim = lb.stepper(system, dt=PERIOD)
    plain = lb.stepper(arm, dt=PERIOD / 4)
    state, expected = sim.start(START), plain.start(START)
    for k in range(10):
        target = np.array([0.1 * k, -0.1])
        u = wb(expected.q, expected.v, {"posture.target": target})
        expected = plain.step(expected, u.tau, 4)
        state = sim.step(state, {"wb_posture_target": target, "wb_width": 0.0, "step": PERIOD / 4})
        np.testing.assert_allclose(state.q, expected.q, atol=1e-12)
        np.testing.assert_allclose(state.memory.wb_tau, u.tau, atol=1e-9)


@pytest.mark.filterwarnings("ignore:there is no C compiler")
def test_without_a_compiler_simulations_have_the_same_numbers(arm, wb, system, monkeypatch):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    options = {"t_end": 0.02, "record_every": 2e-3, "parameters": {"wb_posture_target": [0.1, 0.2]}}
    expected = system.simulate([START, [0.1, 0.1]], **options)
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    again = WholeBody(arm, [MotionTask.posture(arm, kp=100.0)])
    slow = robot_system(arm, again.element(PERIOD, swaying, {"width": 0.1}), step=1.5e-3)
    run = slow.simulate([START, [0.1, 0.1]], **options)
    # The interior point ends within 1e-9 of the cost; NumPy and C add up in different orders.
    np.testing.assert_allclose(run.q, expected.q, atol=1e-9)
    np.testing.assert_allclose(run.memory["wb_next"], expected.memory["wb_next"], atol=0)


def test_systems_can_be_copied_and_pickled_and_watched(arm, wb):
    system = robot_system(arm, wb.element(PERIOD), step=1e-3)
    options = {"t_end": 0.02, "record_every": 2e-3}
    expected = system.simulate(START, **options)
    for again in (copy.deepcopy(system), pickle.loads(pickle.dumps(system))):
        np.testing.assert_array_equal(again.simulate(START, **options).q, expected.q)
    # an event within a step changes nothing: the command is held over both parts of it
    watched = system.simulate(START, events={"passes": lambda t, q, v: q[0] - 0.2999}, **options)
    assert len(watched.events) == 1
    np.testing.assert_allclose(watched.q, expected.q, atol=1e-9)


def test_an_active_set_starts_from_the_command_before_as_in_a_loop(arm):
    """Efforts reach their limits; members keep active sets of their own."""
    wb = WholeBody(arm, [MotionTask.posture(arm, kp=400.0)], solver="active-set")
    values = {"posture.target": [0.3, -0.2], "effort_limit": np.full(2, 0.5)}
    names = {f"wb_{name.replace('.', '_')}": x for name, x in values.items()}
    starts = np.array([START, [0.1, 0.1]])
    system = robot_system(arm, wb.element(PERIOD), step=1e-3)
    run = system.simulate(starts, t_end=0.1, record_every=PERIOD, parameters=names)
    plant = robot_system(arm, Feedback(lambda s, p: p.tau, tau=np.zeros(2)), step=1e-3)
    sim = lb.stepper(plant, dt=PERIOD)
    limited = 0
    for member, q0 in enumerate(starts):
        state, u = sim.start(q0), None
        for k in range(len(run.t) - 1):
            u = wb(state.q, state.v, values, start=u)
            state = sim.step(state, {"tau": u.tau})
            limited += np.count_nonzero(u.active)
            np.testing.assert_array_equal(run.memory["wb_active"][member, k + 1], u.active)
            np.testing.assert_allclose(run.q[member, k + 1], state.q, atol=1e-12)
    assert limited > 10


def test_what_cannot_have_a_controller_says_so(arm, wb, system, tmp_path):
    with pytest.raises(ModelError, match=r"whose bodies are .* make the controller for the same tree"):
        robot_system(lb.load("puma560"), wb.element())
    with pytest.raises(ModelError, match=r"there is no parameter 'postur\.target'"):
        broken = wb.element(reference=lambda s, p: {"postur.target": p.posture_target})
        robot_system(arm, broken, step=1e-3).simulate(START, t_end=0.01)
    with pytest.raises(ModelError, match="wb has two parameters 'braking'"):
        wb.element(parameters={"braking": 1.0})
    with pytest.raises(ModelError, match="calls whole_body between steps, which has no derivatives"):
        ExtendedSystem(system)
    with pytest.raises(ModelError, match="calls whole_body between steps, which is no part of an FMU"):
        lb.export_fmu(tmp_path / "arm.fmu", system, q0=START)
    with pytest.raises(ValueError, match="period"):
        wb.element(0.0)
    with pytest.raises(ModelError, match=r"wb_period is \[0\.0\], expected numbers above zero"):
        system.simulate(START, t_end=0.01, parameters={"wb_period": 0.0})
    for single in (
        lambda: system.simulate(START, t_end=0.01, dtype=np.float32),
        lambda: lb.stepper(system, dt=1e-3, dtype=np.float32),
    ):
        with pytest.raises(ModelError, match="such as whole_body, computes in float64; leave out dtype"):
            single()
    for reference, kind, message in (
        (lambda s, p: None, ModelError, "the reference of wb returns None, expected a dictionary"),
        (
            lambda s, p: {"posture.target": np.zeros(3)},
            ShapeError,
            r"posture\.target of the reference of wb has shape \(3,\), expected \(2,\)",
        ),
    ):
        with pytest.raises(kind, match=message):
            robot_system(arm, wb.element(reference=reference), step=1e-3).simulate(START, t_end=0.01)
    # commands without a reference are counted
    element = wb.element(PERIOD, lambda s, p: {"posture.target": p.posture_target + sqrt(0.01 - s.t)})
    run = robot_system(arm, element, step=1e-3).simulate(START, t_end=0.1, record_every=1e-2)
    counts = [sum(0.01 < PERIOD * k < t - 1e-9 for k in range(30)) for t in run.t]
    np.testing.assert_array_equal(run.memory["wb_unsolved"], counts)


def test_a_command_that_comes_early_by_round_off_is_not_repeated(wb):
    """Times that differ by 1e-9 s are the same, so such a command is the one of the later time."""
    period = 2e-4
    element = wb.element(period)
    z, p = type("Z", (), {"_replace": lambda self, **new: new, "unsolved": 0.0})(), type("P", (), {})()
    p.period = period
    results = [np.zeros(shape) for shape in wb.kernel.outputs.values()]
    for early in (0.0, 1e-12, 1e-9, -1e-12, -1e-5):
        s = type("S", (), {"t": 3 * period - early})()
        np.testing.assert_allclose(element.answer(s, z, p, *results)["next"], 4 * period, rtol=1e-12)


# -- systems with calls of their own ------------------------------------------------------------------------


def doubling(dtype=np.float64):
    return Kernel(trace(lambda x: {"y": 2 * x, "count": np.ones(1)}, {"x": 2}, "doubling"), dtype=dtype)


def counting(calls=None):
    """A clock q with two calls each 0.1 s: the second one reads what the first one has changed."""

    def first(t, q, v, z, p, y, count):
        return z._replace(first=y[0], next=z.next + 0.1, calls=z.calls + count[0])

    def due(t, q, v, z, p):
        return where(z.next - t > 1e-9, 0.0, 1.0)

    def after(t, q, v, z, p):
        return where(z.calls > z.answered, 1.0, 0.0)

    calls = calls or [
        KernelCall(doubling(), due, lambda t, q, v, z, p: (np.array([q[0], t]),), first),
        KernelCall(
            doubling(),
            after,
            lambda t, q, v, z, p: (np.array([z.first, t]),),
            lambda t, q, v, z, p, y, count: z._replace(second=y[0], answered=z.answered + count[0]),
        ),
    ]
    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.zeros(1),
        memory=dict.fromkeys(("first", "second", "next", "calls", "answered"), 0.0),
        step=lambda t, q, v, z, p: where(z.next - t > 1e-9, z.next - t, 0.1),
        calls=calls,
        name="counting",
    )


@pytest.mark.filterwarnings("ignore:there is no C compiler")
@pytest.mark.parametrize("compiled", [True, False])
def test_calls_of_a_system_are_made_in_order(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    run = counting().simulate(np.zeros(1), np.ones(1), t_end=1.0, record_every=0.1)
    np.testing.assert_allclose(run.memory["calls"], np.arange(11))
    np.testing.assert_allclose(run.memory["answered"], np.arange(11))
    # a record has the memory before the calls at its time
    np.testing.assert_allclose(run.memory["first"][1:], 2 * run.t[:-1], atol=1e-12)
    np.testing.assert_allclose(run.memory["second"][1:], 4 * run.t[:-1], atol=1e-12)


def test_calls_that_do_not_fit_their_kernel_are_refused():
    def always(t, q, v, z, p):
        return 1.0

    def kept(t, q, v, z, p, y, count):
        return z

    with pytest.raises(ModelError, match="counting calls doubling, which computes in float32; compile it"):
        counting([KernelCall(doubling(np.float32), always, lambda t, q, v, z, p: (q,), kept)])
    for ask, message in (
        (lambda t, q, v, z, p: (q, v), r"doubling is asked with 2 arrays, expected 1: x"),
        (lambda t, q, v, z, p: (q,), r"doubling: x has shape \(1,\), expected \(2,\)"),
    ):
        with pytest.raises(ShapeError, match=message):
            counting([KernelCall(doubling(), always, ask, kept)]).simulate([0.0], [1.0], t_end=0.1, dt=0.1)


# -- contacts, and free parameters -------------------------------------------------------------------------


def walker(robot):
    tasks = [
        MotionTask.pose(robot, "pelvis", kp=100.0, weight=10.0),
        MotionTask.posture(robot, kp=50.0, weight=0.5),
        MotionTask.center_of_mass(robot, kp=5.0, weight=0.1),
        MotionTask.momentum(robot, kp=1.0, weight=0.1),
    ]
    return WholeBody(robot, tasks, [Support("left_foot"), Support("right_foot", facets=8)])


@pytest.fixture(scope="module")
def free():
    robot = lb.Robot(legged("biped"))
    return robot.with_parameters("pelvis.mass", "left_shank.center", "left_knee.position", "gravity")


@pytest.fixture(scope="module")
def walking(free):
    return walker(free)


def stance(robot):
    q = robot.neutral()
    q[7:] = POSE
    return q


def test_free_parameters_of_the_robot_are_parameters_of_each_call(free, walking):
    q, v = stance(free), 0.1 * np.ones(free.nv)
    # twice the mass, a longer leg, the moon: the laws of mechanics of that robot, which another code states
    values = {
        "pelvis.mass": 8.0,
        "left_shank.center": [0.0, 0.01, -0.1],
        "left_knee.position": [0.0, 0.0, -0.35],
        "gravity": [0.0, 0.0, -1.6],
    }
    for given in ({}, values, {"pelvis.mass": 3.0}):
        u = walking(q, v, given)
        other = free.with_parameters(given)
        assert u.status == 0
        J = np.concatenate(
            [
                other.pose(q, foot)[:3, :3] @ other.jacobian(q, foot)[3:]
                for foot in ("left_foot", "right_foot")
            ]
        )
        left = other.mass_matrix(q) @ u.a + other.bias(q, v, damping=True)
        np.testing.assert_allclose(left, u.tau + J.T @ u.f.ravel(), atol=1e-8)
        rate = other.centroidal_momentum_rate(q, v, u.a)[3:]
        mass = sum(body.inertia.mass for body in other.tree.bodies)
        np.testing.assert_allclose(u.f.sum(axis=0), rate - mass * other.gravity_vector, atol=1e-8)


def test_members_of_a_batch_have_masses_of_their_own(walking, free):
    q, v = stance(free), np.zeros(free.nv)
    masses = np.linspace(3.0, 9.0, 10)
    batch = walking(q, v, {"pelvis.mass": masses})
    assert batch.tau.shape == (10, free.nv) and not batch.status.any()
    for k in (0, 9):
        alone = walking(q, v, {"pelvis.mass": masses[k]})
        np.testing.assert_allclose(batch.a[k], alone.a, atol=1e-8)
    # heavier pelvis, larger forces: their sum moves the centre of mass as the whole mass demands
    assert (np.diff(batch.f[..., 2].sum(axis=-1)) > 0).all()
    kernel = walking.kernel
    walking(q, v, {"gravity": [0, 0, -3.0]})
    assert walking.kernel is kernel


def test_impossible_values_of_free_parameters_are_refused_by_name(walking, free):
    q, v = stance(free), np.zeros(free.nv)
    with pytest.raises(ModelError, match=r"pelvis\.mass is -1\.0 kg, expected a positive mass"):
        walking(q, v, {"pelvis.mass": -1.0})
    with pytest.raises(ModelError, match=r"p\[0\] \(pelvis\.mass\) is -4\.0, expected a positive number"):
        walking(q, v, walking.pack() * np.where(np.arange(walking.layout.size) == 0, -1, 1))
    with pytest.raises(ModelError, match=r"a free parameter 'pelvis\.mass', and so has its controller"):
        WholeBody(free, [MotionTask("pelvis", lambda q, v, p: p.mass * q[:1], {"mass": 1.0})])
    with pytest.raises(ModelError, match="'gravity', which is a free parameter of biped"):
        WholeBody(free, [MotionTask("own", lambda q, v, p: p.gravity * q[:1], {"gravity": 1.0})])
    with pytest.raises(ModelError, match=r"a free parameter 'pelvis\.mass', and so has its controller"):
        DifferentialIK(free, [MotionTask("pelvis", lambda q, v, p: p.mass * q[:1], {"mass": 1.0})])


@pytest.mark.wide
def test_on_contacts_the_simulation_is_the_loop_in_python_and_the_model_may_be_wrong(free, walking):
    """The controller believes in a mass; another one of its parameters is the robot's own."""
    q0 = stance(free)
    feet = ("left_foot", "right_foot")
    q0[6] = -min(free.pose(q0, foot)[2, 3] for foot in feet)
    contact = Contact(*feet, stiffness=1e5, damping=1e3, friction=0.8)
    robot = lb.Robot(free.tree)
    system = TimeStepping(robot, walking.element(2e-3), contact, step=1e-3, ledger=False)
    given = {
        "wb_pelvis_target": free.pose(q0, "pelvis"),
        "wb_posture_target": POSE,
        "wb_center_of_mass_target": free.center_of_mass(q0),
        "wb_pelvis_mass": 4.5,
    }
    run = system.simulate(q0, t_end=0.1, record_every=2e-3, parameters=given)
    assert not run.memory["wb_status"].any()

    plant = TimeStepping(
        robot, Feedback(lambda s, p: p.tau, tau=np.zeros(free.nv)), contact, step=1e-3, ledger=False
    )
    sim = lb.stepper(plant, dt=2e-3)
    state = sim.start(q0)
    p = walking.pack(
        {
            "pelvis.target": free.pose(q0, "pelvis"),
            "posture.target": POSE,
            "center_of_mass.target": free.center_of_mass(q0),
            "pelvis.mass": 4.5,
        }
    )
    for k in range(50):
        u = walking(state.q, state.v, p)
        state = sim.step(state, {"tau": u.tau})
        np.testing.assert_allclose(run.q[k + 1], state.q, atol=1e-12)
