"""Simulations and hybrid steppers on CUDA devices: the march of the CPU, compiled to PTX and interpreted.

The interpreter (device/fake.py) stands for a device. Where neither side fuses products and sums, states,
records and logs of events equal those of the CPU to the bit.
"""

import pickle

import numpy as np
import pytest
from device import budgets, nvrtc
from device.fake import FakeArray, Interpreter, on_device
from found import load_example

import liebody as lb
from liebody import scalars
from liebody.base.errors import (
    ArgumentError,
    DeviceError,
    IntegrationError,
    LiebodyError,
    ModelError,
    ShapeError,
)
from liebody.compiler.native import build, device_queue
from liebody.contact import Contact
from liebody.hybrid import Apex, LostEvents, robot_system
from liebody.simulation import DivergedMembers
from liebody.stepping.device import device_loop

pytestmark = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")


@pytest.fixture
def gpu(monkeypatch):
    """The interpreter as the driver of this process; compilers of the host fuse nothing either."""
    interpreter = Interpreter()
    monkeypatch.setattr(device_queue, "driver", lambda: interpreter)
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-ffp-contract=off"))
    return interpreter


def pendulum():
    """A new pendulum of two links, whose loops nothing else has compiled."""
    return lb.Robot(lb.models.double_pendulum().tree)


def bounced(t, q, v, z, p, events):
    down = events.wall < 0
    z = z._replace(hits=z.hits + scalars.where(down, 1.0, 0.0))
    return q, np.array([scalars.where(down, -p.restitution * v[0], v[0])]), z


def ball(**more):
    """A ball that falls, and bounces where its height is zero."""
    return lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.fall]),
        memory={"hits": 0.0},
        parameters={"restitution": 0.5, "fall": -10.0},
        guards=lambda t, q, v, z, p: {"wall": q[0]},
        directions={"wall": -1},
        update=bounced,
        name="ball",
        **more,
    )


def same(ours, theirs):
    """Whether arrays of a device hold the numbers of the CPU, NaN at the same places."""
    np.testing.assert_array_equal(ours.strided, theirs)


def states(robot, n, dtype, floating=False):
    rng = np.random.default_rng(6)
    q = robot.random(rng, n).astype(dtype)
    v, u = rng.standard_normal((2, n, robot.nv)).astype(dtype)
    return q, v, u


# -- robots -------------------------------------------------------------------------------------------------

ROBOTS = [
    pytest.param("pendulum", np.float64, "rkmk4"),
    pytest.param("pendulum", np.float32, "cf4", marks=pytest.mark.wide),
    pytest.param("ur5", np.float64, "rkmk4", marks=pytest.mark.wide),
    pytest.param("ur5", np.float32, "rkmk4", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "dtype", "method"), ROBOTS)
def test_states_equal_those_of_the_cpu_to_the_bit(gpu, name, dtype, method):
    robot = pendulum() if name == "pendulum" else budgets.robot(name)
    q, v, u = states(robot, 5, dtype)
    options = {"t_end": 0.007, "dt": 2e-3, "method": method, "dtype": dtype, "record_every": 4e-3}
    q0, v0, tau = (on_device(x, gpu) for x in (q, v, u))
    ours = lb.simulate(robot, q0, v0, tau=tau, device="cuda", fused=False, **options)
    theirs = lb.simulate(robot, q, v, tau=u, **options)
    assert type(ours.q) is FakeArray and ours.q.dtype == dtype and not np.array_equal(theirs.q[:, -1], q)
    np.testing.assert_array_equal(ours.t, theirs.t)
    same(ours.q, theirs.q)
    same(ours.v, theirs.v)
    assert ours.ends.tolist() == [""] * 5 and (ours.end_times == 0.007).all()
    copied = ours.to_cpu()
    assert type(copied) is type(theirs) and copied.metadata["device"] == "cuda"
    for field in ("q", "v", "tau", "kinetic", "potential", "work_done"):
        np.testing.assert_array_equal(getattr(copied, field), getattr(theirs, field))


def test_samples_of_efforts_and_parameters_of_members(gpu):
    robot = pendulum()
    q, v, _ = states(robot, 3, np.float64)
    times = np.array([0.0, 0.003, 0.006])
    table = np.random.default_rng(1).standard_normal((3, 3, 2))
    name = next(x for x in robot.parameters if x.endswith("mass"))
    masses = np.array([1.0, 2.0, 3.0])

    def torque(event):
        return lambda t, q, v, p: p.gain * np.array([q[0], v[1]])

    def run(make, tau, **more):
        return lb.simulate(
            robot, make(q), make(v), tau=tau, t_end=0.006, dt=2e-3, method="cf4", **more
        )  # fmt: skip

    on = {"device": "cuda", "fused": False}
    for hold in ("zero", "linear"):
        ours = run(
            lambda x: on_device(x, gpu), (times, on_device(table, gpu)), hold=hold,
            parameters={name: on_device(masses, gpu)}, **on,
        )  # fmt: skip
        theirs = run(np.asarray, (times, table), hold=hold, parameters={name: masses})
        same(ours.q, theirs.q)
        np.testing.assert_array_equal(ours.to_cpu().tau, theirs.tau)
        np.testing.assert_array_equal(ours.to_cpu().parameters[name], masses)
    ours = run(lambda x: on_device(x, gpu), torque(None), parameters={"gain": 2.0}, **on)
    same(ours.v, run(np.asarray, torque(None), parameters={"gain": 2.0}).v)


def low(t, q, v):
    return q[0] - 0.001


low.direction, low.terminal = -1, True


def test_events_are_located_as_on_the_cpu_and_end_members(gpu):
    robot = pendulum()
    q = np.array([[0.003, 0.2], [0.5, 0.2]])
    v = np.array([[-1.0, 0.5], [0.0, 0.0]])
    options = {"t_end": 0.004, "dt": 2e-3, "events": {"low": low, "other": lambda t, q, v: q[0] - 0.002}}
    ours = lb.simulate(
        robot, on_device(q, gpu), on_device(v, gpu), device="cuda", fused=False, most_events=3, **options
    )  # fmt: skip
    theirs = lb.simulate(robot, q, v, **options)
    same(ours.q, theirs.q)
    assert ours.ends.tolist() == ["stopped", ""] and ours.end_times[1] == 0.004
    logs = ours.events.to_cpu()
    for one, other in zip(logs, theirs.events, strict=True):
        np.testing.assert_array_equal(one.t, other.t)
        np.testing.assert_array_equal(one.q, other.q)
        assert one.guard == other.guard and one.lost == other.lost == 0
    assert len(logs[0]) == 2 and ours.events.count.strided.tolist() == [2, 0]
    assert ours.events.guard.strided[0, :2].tolist() == [-2, -1]  # downwards, numbers of the guards from 1
    np.testing.assert_array_equal(ours.events.t.strided[0, :2], logs[0].t)
    assert np.isnan(ours.events.t.strided[0, 2]) and np.isnan(ours.events.t.strided[1]).all()
    copied = ours.to_cpu()
    assert [len(x) for x in copied.events] == [2, 0]
    np.testing.assert_array_equal(copied.q, theirs.q)


def test_lost_members_are_named_and_a_lost_simulation_is_an_error(gpu):
    robot = pendulum()
    q = np.zeros((2, 2))
    v = np.array([[1e200, 1e200], [0.0, 0.0]])
    with pytest.warns(DivergedMembers, match=r"1 of 2 members.*\(0,\) after 0 s"):
        run = lb.simulate(
            robot, on_device(q, gpu), on_device(v, gpu), t_end=2e-3, dt=1e-3, device="cuda"
        )  # fmt: skip
    assert run.ends.tolist() == ["a value is not finite", ""]
    assert np.isnan(run.q.strided[0, 1:]).all() and np.isfinite(run.q.strided[1]).all()
    with pytest.raises(IntegrationError, match="is not finite after t = 0 s") as error:
        lb.simulate(robot, on_device(q[0], gpu), on_device(v[0], gpu), t_end=1e-3, dt=1e-3, device="cuda")
    assert error.value.run.q.shape == (2, 2)


def test_options_of_the_cpu_are_refused_with_a_remedy(gpu):
    robot = pendulum()
    q = on_device(np.zeros((2, 2)), gpu)
    options = {"t_end": 1e-3, "dt": 1e-3, "device": "cuda"}
    for more, error, words in (
        ({"dt": None}, IntegrationError, "error control: give dt, such as 1e-3"),
        ({"rtol": 1e-6}, IntegrationError, "rtol = 1e-06 belongs to error control"),
        ({"method": "generalized-alpha"}, IntegrationError, "on a device take an explicit method"),
        ({"threads": 2}, IntegrationError, "threads = 2 are of the CPU"),
        ({"progress": True}, IntegrationError, "no progress: leave it out"),
        ({"stabilization": "projection"}, LiebodyError, "projection|constraint"),
        ({"prescribed": {"x": lambda t: t}}, IntegrationError, "prescribed joints start.*leave out device"),
        ({"tau": lambda t, q, v: np.array([float(q[0]), 0.0])}, IntegrationError, "on a device are compiled"),
        ({"tau": np.zeros(2)}, DeviceError, "simulate: tau is a numpy.ndarray in memory of the CPU.*cupy"),
        ({"parameters": {"link1.mass": np.ones(2)}}, DeviceError, "parameter link1.mass is a numpy.ndarray"),
        ({"dtype": np.float32}, ShapeError, "arrays hold float64, and steps are in float32.*dtype='float64'"),
        ({"device": "tpu"}, ArgumentError, "device is 'tpu', expected 'cuda'"),
        ({"tau": on_device(np.zeros((3, 2)), gpu)}, ShapeError, "tau has shape"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            lb.simulate(robot, q, **{**options, **more})
    for wrong in (np.zeros((2, 2)), None, {"joint1": 1.0}):
        with pytest.raises(DeviceError, match=r"simulate: q0 is a .*expected an array on a CUDA device"):
            lb.simulate(robot, wrong, **options)
    assert gpu.launches == []
    run = lb.simulate(robot, q, **options)
    with pytest.raises(LiebodyError, match=r"pickle run.to_cpu\(\)"):
        pickle.dumps(run)
    assert "DeviceRun(double_pendulum" in repr(run)


# -- hybrid systems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.wide)])
def test_hybrid_systems_bounce_as_on_the_cpu(gpu, dtype):
    q = np.array([[0.05], [0.2]], dtype)
    e = np.array([0.5, 0.8], dtype)
    options = {"t_end": 0.24, "dt": 0.02, "record_every": 0.08, "dtype": dtype}
    ours = lb.simulate(
        ball(), on_device(q, gpu), parameters={"restitution": on_device(e, gpu), "fall": -9.81},
        memory={"hits": 3.0}, device="cuda", fused=False, most_events=4, **options,
    )  # fmt: skip
    theirs = lb.simulate(
        ball(), q, parameters={"restitution": e, "fall": -9.81}, memory={"hits": 3.0}, **options
    )  # fmt: skip
    same(ours.q, theirs.q)
    same(ours.v, theirs.v)
    same(ours.memory["hits"], theirs.memory["hits"])
    np.testing.assert_array_equal(ours.counts, theirs.counts)
    assert ours.counts[:, 0].tolist() == [2, 1]
    copied = ours.to_cpu()
    for one, other in zip(copied.events, theirs.events, strict=True):
        np.testing.assert_array_equal(one.t, other.t)
        np.testing.assert_array_equal(one.v, other.v)
        np.testing.assert_array_equal(one.memory["hits"], other.memory["hits"])
    np.testing.assert_array_equal(copied.final.q, theirs.final.q)
    np.testing.assert_array_equal(copied.end_times, theirs.end_times)


@pytest.mark.wide
def test_a_walker_strikes_the_ground_as_on_the_cpu(gpu):
    compass = load_example("compass_walker")
    near = lb.simulate(compass.walker, compass.GUESS["q0"], compass.GUESS["v0"], t_end=0.7, dt=5e-3)
    q = near.q[-1] + 0.002 * np.array([[0.0, 0.0], [1.0, -1.0]])
    v = np.tile(near.v[-1], (2, 1))
    options = {"t_end": 0.06, "dt": 0.02, "record_every": 0.02}
    q0, v0 = on_device(q, gpu), on_device(v, gpu)
    ours = lb.simulate(
        compass.walker, q0, v0, device="cuda", fused=False, most_events=3, **options
    )  # fmt: skip
    theirs = lb.simulate(compass.walker, q, v, **options)
    assert ours.counts[:, 0].tolist() == [1, 1]
    same(ours.q, theirs.q)
    same(ours.v, theirs.v)
    for one, other in zip(ours.events.to_cpu(), theirs.events, strict=True):
        np.testing.assert_array_equal(one.t, other.t)
        np.testing.assert_array_equal(one.v, other.v)


def test_events_without_room_are_counted_and_named(gpu):
    with pytest.warns(LostEvents, match=r"1 of 2 events were not kept.*most_events=2 or more"):
        run = lb.simulate(
            ball(), on_device(np.array([0.05]), gpu), t_end=0.24, dt=0.02, device="cuda", most_events=1,
            record_every=0.24,
        )  # fmt: skip
    assert run.events.count.strided == 2 and run.events.room == 1
    (log,) = [run.events.to_cpu()]
    assert len(log) == 1 and log.lost == 1


def test_events_without_room_are_named_on_the_cpu_too():
    q, v = np.array([0.003, 0.2]), np.array([-1.0, 0.5])
    events = {"low": lambda t, q, v: q[0] - 0.001, "other": lambda t, q, v: q[0] - 0.002}
    with pytest.warns(LostEvents, match=r"1 of 2 events were not kept.*most_events=2 or more"):
        run = lb.simulate(pendulum(), q, v, t_end=0.004, dt=2e-3, events=events, most_events=1)
    assert len(run.events) == 1 and run.events.lost == 1


def test_unknown_names_are_refused(gpu):
    start, values = on_device(np.ones((2, 1)), gpu), on_device(np.ones(2), gpu)
    options = {"t_end": 0.1, "dt": 0.1, "device": "cuda"}
    with pytest.raises(ModelError, match=r"no parameter 'bounce'.*restitution"):
        ball().simulate(start, parameters={"bounce": values}, **options)
    with pytest.raises(ModelError, match=r"no memory 'touches'.*hits"):
        ball().simulate(start, memory={"touches": values}, **options)
    assert gpu.launches == []


def test_steppers_on_a_device_are_pickled_as_those_that_make_them():
    hopper = robot_system(lb.models.revolute_hopper(), Contact("foot", settling=0.05), Apex())
    stepper = lb.stepper(hopper, dt=0.02, members=3).on_device(fused=False, most_events=3)
    again = pickle.loads(pickle.dumps(stepper))
    assert repr(again) == repr(stepper) and again.batch == (3,)
    assert again.system.fused is False
    assert again.system.system.parameters.entries == hopper.parameters.entries


def test_steppers_go_on_and_start_anew_as_on_the_cpu(gpu):
    high = {"high": lambda t, q, v: q[0] - 0.1}
    stop = {"stop": lambda t, q, v, z, p: z.hits - 1.5, "start": lambda t, q, v, z, p: z}
    sim = lb.stepper(ball(**stop), dt=0.06, members=2, events=high)
    # the system takes no steps of its own: one for each interval
    device = sim.on_device(fused=False, most_events=2)
    q = np.array([[0.05], [0.3]])
    ours, theirs = device.start(on_device(q, gpu)), sim.start(q)
    e = {"restitution": np.array([0.3, 0.8])}
    for k in range(4):
        ours = device.step(ours, {"restitution": on_device(e["restitution"], gpu)})
        theirs = sim.step(theirs, e)
        for name in ("q", "v"):
            same(getattr(ours, name), getattr(theirs, name))
        same(ours.memory["hits"], theirs.memory.hits)
        np.testing.assert_array_equal(ours.reasons.strided > 0, theirs.ended)
        for one, other in zip(ours.events.to_cpu(), theirs.events, strict=True):
            np.testing.assert_array_equal(one.t, other.t)
            assert one.guard == other.guard
        if k == 2:
            assert theirs.ended.tolist() == [True, False]
            ours = device.reset(ours, ours.reasons, on_device(q[1], gpu), hits=0.0)
            theirs = sim.reset(theirs, theirs.ended, q[1], hits=0.0)
            same(ours.q, theirs.q)
    assert ours.t == theirs.t and "DeviceHybridStepper of ball" in repr(device)
    with pytest.raises(ArgumentError, match="another stepper"):
        sim.on_device().step(ours)
    with pytest.raises(DeviceError, match=r"q0 is a numpy\.ndarray in memory of the CPU"):
        device.start(q)
    with pytest.raises(LiebodyError, match="restitutio"):
        device.step(ours, {"restitutio": 1.0})
    with pytest.raises(ShapeError, match=r"members has shape \(1,\)"):
        device.reset(ours, on_device(np.ones(1), gpu), on_device(q[1], gpu))


def test_loops_are_compiled_and_loaded_once(gpu):
    flow = ball().flow(lb.integrators.method_named("rkmk4"))
    code = device_loop(flow, march=True).code
    assert device_loop(flow, march=True).code is code
    assert code.on(gpu, 0) is code.on(gpu, 0)
    assert gpu.loads == [0]


# -- what kernels take of a device --------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_marches_compile_without_warnings_within_their_registers(dtype):
    for loop in budgets.LOOPS:
        registers, spilled = budgets.table(budgets.MARCHES)["ur5", loop, dtype, 90]
        taken = budgets.of_march("ur5", loop, dtype)
        assert taken.registers <= registers and taken.spilled <= spilled
