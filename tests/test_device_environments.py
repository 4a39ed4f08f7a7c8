"""Hybrid systems and vectors of environments on a CUDA device that is not there (device/fake.py).

Kernels are PTX, interpreted, without fused multiply-adds; the march of the CPU is compiled without them, too.
Then states are equal to the bit, and so are observations and rewards that are sums and products.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from device import budgets, nvrtc
from device.fake import FakeArray, Interpreter, on_device
from test_cuda import UNFUSED

import liebody as lb
from liebody.base.errors import (
    ArgumentError,
    ConfigurationError,
    DeviceError,
    GraphError,
    IntegrationError,
    ModelError,
    ShapeError,
)
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler import DeviceMemory, trace
from liebody.compiler.native import device_queue
from liebody.contact import Contact, HeightField, TimeStepping, UnsolvedSteps
from liebody.groups import Prismatic
from liebody.hybrid import Fall, Feedback, JointPD, robot_system
from liebody.stepping.hybrid import HybridFlow

gymnasium = pytest.importorskip("gymnasium", reason="the test extra `gymnasium` is not installed")
from gymnasium.spaces import Box  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

from liebody.interop.gym import DecisionProcess, Env, Episode, Hopper, VectorEnv  # noqa: E402
from liebody.interop.symbol_arrays import SymbolArray  # noqa: E402

pytestmark = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")


class Tensor(FakeArray):
    """An array of a library that compares and multiplies, as those of PyTorch, CuPy and JAX do."""

    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other):
        return tensor(self.strided != other, self.driver)

    def __mul__(self, other):
        return tensor((self.strided * other.strided).astype(self.dtype), self.driver)

    def __getitem__(self, index):
        return Tensor(self.strided[index], self.driver)

    def reshape(self, shape):
        return Tensor(self.strided.reshape(shape), self.driver)

    def like(self, values, device=0):
        return tensor(values, self.driver)


def tensor(values, gpu, dtype=None):
    return Tensor(on_device(values, gpu, dtype=dtype).strided, gpu)


@pytest.fixture
def gpu(monkeypatch):
    """The interpreter as the driver of this process; nothing is fused on the CPU."""
    interpreter = Interpreter()
    monkeypatch.setattr(device_queue, "driver", lambda: interpreter)
    monkeypatch.setattr(HybridFlow, "_flags", lambda self, way, lanes: UNFUSED)
    return interpreter


def jumper():
    """A foot that slides along x and jumps along z, with a force along both."""
    builder = TreeBuilder("jumper").add("cart", Prismatic([1, 0, 0]), SpatialInertia.point(0.5))
    builder.add("foot", Prismatic([0, 0, 1]), SpatialInertia.point(1.0), parent="cart")
    return builder.frame("sole", "foot", [0, 0, 0]).frame("heel", "foot", [-0.1, 0, 0]).build()


def push(s, p):
    return p.force - 0.1 * s.v


def parts(*points, **law):
    return Feedback(push, name="push", force=np.zeros(2)), Contact(*(points or ["sole"]), **law)


LAW = {"stiffness": 1e4, "damping": 50.0, "friction": 0.5}


def time_stepping(*points, **options):
    chosen = {"solver": "projected", "sweeps": 1, **options}
    return TimeStepping(jumper(), *parts(*points, **LAW), step=2e-3, ledger=False, **chosen)


# -- intervals ----------------------------------------------------------------------------------------------

TOLERANCE = 1e-2  # N, which floats reach, too
SYSTEMS = {
    "projected": time_stepping,
    "newton": lambda: time_stepping(solver="newton", sweeps=2),
    "restitution": lambda: TimeStepping(
        jumper(), *parts(**LAW, restitution=0.5), step=2e-3, sweeps=2, ledger=False
    ),
    "tolerance": lambda: time_stepping("sole", "heel", tolerance=TOLERANCE),
    "events": lambda: robot_system(jumper(), *parts(**LAW), Fall(-0.01), ledger=False, landing_step=1e-3),
}


INTERVALS = [
    pytest.param(name, dtype, marks=[] if name == "projected" else pytest.mark.wide)
    for name in SYSTEMS
    for dtype in (np.float64, np.float32)
]


@pytest.mark.parametrize(("name", "dtype"), INTERVALS)
def test_intervals_on_a_device_equal_the_march_in_c_to_the_bit(gpu, name, dtype):
    sim = lb.stepper(SYSTEMS[name](), dt=4e-3, members=3, dtype=dtype)
    march = sim.rows_on_device(fused=False)
    q0, v0 = [[0.0, 0.02], [0.1, 0.0], [0.0, 5e-4]], [[0.5, -6.0], [1.0, 0.0], [0.2, -0.1]]
    friction = [0.5, 0.3, 0.7]
    state = sim.start(q0, v0, {"floor_friction": friction})
    rows = tensor(march.start(q0, v0, {"floor_friction": friction}), gpu, dtype)
    np.testing.assert_array_equal(rows.strided[:, march.places["q"]], np.asarray(q0, dtype))
    for k in range(3):
        values = {"floor_friction": friction, "force": [[1.0, k], [k, -2.0], [0.0, 0.0]]}
        state = sim.step(state, values)
        rows = march(rows, tensor(march.parameters(values), gpu, dtype))
        end = state._y.shape[1]
        assert rows.dtype == state._y.dtype == dtype
        np.testing.assert_array_equal(rows.strided[:, :end], state._y)
        np.testing.assert_array_equal(rows.strided[:, march.places["intervals"]][:, 0], k + 1)
        np.testing.assert_array_equal(rows.strided[:, march.places["reason"]][:, 0], state._reasons)
    assert len(gpu.launches) == 3  # one for each interval, in which there are several steps
    if name == "tolerance":  # steps were repeated, and came to it
        assert (state.memory.unsolved == 0).all() and (state.memory.residual < TOLERANCE).all()
    assert state.touching.any() and (name != "events" or state.ended.any())
    if name != "events":
        stretch = state.memory.floor_stretch.reshape(3, -1)
        np.testing.assert_array_equal(rows.strided[:, march.places["floor_stretch"]], stretch)


REGISTERS = {"float64": (255, 1028), "float32": (255, 0)}
"""Registers, and spilled bytes, of ANYmal on four feet on sm_90 (decision 64), by ptxas 13.5."""


def anymal():
    floor = Contact("LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT", stiffness=1e5, damping=1e3, friction=0.8)
    return TimeStepping(budgets.robot("anymal"), JointPD(80.0, np.zeros(12), 2.0), floor, ledger=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", REGISTERS)
def test_anymal_on_four_feet_equals_c_to_the_bit(gpu, dtype):
    sim = lb.stepper(anymal(), dt=2e-3, members=2, dtype=dtype)
    q0 = np.tile(budgets.robot("anymal").neutral(), (2, 1))
    q0[:, 6] = 0.55, 0.6  # m: feet in the ground, and over it
    march = sim.rows_on_device(fused=False)
    state = sim.step(sim.start(q0))
    rows = march(tensor(march.start(q0), gpu, dtype), tensor(march.parameters(), gpu, dtype))
    np.testing.assert_array_equal(rows.strided[:, : state._y.shape[1]], state._y)
    np.testing.assert_array_equal(state.touching.any(-1), [True, False])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", REGISTERS)
def test_anymal_on_four_feet_compiles_within_its_registers(dtype):
    march = lb.stepper(anymal(), dt=0.02).rows_on_device()
    (taken,) = nvrtc.resources(nvrtc.ptx(march.source(dtype), 90), 90).values()
    registers, spilled = REGISTERS[dtype]
    assert taken.registers <= registers and taken.spilled <= spilled


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_steppers_by_time_stepping_on_a_device_equal_the_march_in_c_to_the_bit(gpu, dtype):
    sim = lb.stepper(time_stepping("sole", "heel"), dt=4e-3, members=2, dtype=dtype)
    ours = sim.on_device(fused=False)
    q0, v0 = np.array([[0.0, 0.02], [0.1, 0.0]], dtype), np.array([[0.5, -6.0], [1.0, 0.0]], dtype)
    friction = np.array([0.5, 0.3], dtype)
    state, on_gpu = sim.start(q0, v0), ours.start(tensor(q0, gpu), tensor(v0, gpu))
    for _ in range(2):
        state = sim.step(state, {"floor_friction": friction})
        on_gpu = ours.step(on_gpu, {"floor_friction": tensor(friction, gpu)})
    assert state.touching.any()
    for name in ("q", "v"):
        np.testing.assert_array_equal(getattr(on_gpu, name).strided, getattr(state, name))
    reaction = on_gpu.memory["floor_reaction"].strided
    np.testing.assert_array_equal(reaction, state.memory.floor_reaction)


# -- simulations by time stepping ---------------------------------------------------------------------------

Q0, V0 = np.array([[0.0, 0.02], [0.1, 0.0]]), np.array([[0.5, -6.0], [1.0, 0.0]])


def low(t, q, v):
    return q[1] + 5e-3  # m; the member that falls at 6 m/s sinks that far in


def fatal(t, q, v):
    return low(t, q, v)


fatal.terminal = True


def simulated(gpu, system, dtype=np.float64, parameters=None, sampled=None, **options):
    """The runs of a system from Q0 and V0, on the device and on the CPU; arrays are there on the device."""
    q0, v0 = Q0.astype(dtype), V0.astype(dtype)
    options = {"t_end": 0.016, "dtype": dtype} | options
    values = {key: tensor(x, gpu, dtype) for key, x in (parameters or {}).items()}
    over_time = {key: (times, tensor(x, gpu, dtype)) for key, (times, x) in (sampled or {}).items()}
    ours = lb.simulate(
        system, tensor(q0, gpu), tensor(v0, gpu), parameters=values, sampled=over_time, device="cuda",
        fused=False, **options,
    )  # fmt: skip
    return ours, lb.simulate(system, q0, v0, parameters=parameters, sampled=sampled, **options)


def assert_same_runs(ours, theirs):
    for name in ("q", "v"):
        np.testing.assert_array_equal(getattr(ours, name).strided, getattr(theirs, name))
    for name, x in theirs.memory.items():
        np.testing.assert_array_equal(ours.memory[name].strided, x)
    copied = ours.to_cpu()
    for run in (ours, copied):
        for name in ("t", "ends", "end_times", "counts"):
            np.testing.assert_array_equal(getattr(run, name), getattr(theirs, name))
    assert type(copied) is type(theirs) and copied.metadata == theirs.metadata | {"device": "cuda"}
    for name in ("q", "v"):
        np.testing.assert_array_equal(getattr(copied.final, name), getattr(theirs.final, name))
    for name in ("outputs", "parameters", "work"):
        mine, expected = getattr(copied, name), getattr(theirs, name)
        assert mine.keys() == expected.keys()
        for key in expected:
            np.testing.assert_array_equal(mine[key], expected[key])
    for one, other in zip(copied.events, theirs.events, strict=True):
        np.testing.assert_array_equal(one.t, other.t)
        np.testing.assert_array_equal(one.q, other.q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_simulations_by_time_stepping_equal_the_march_in_c_to_the_bit(gpu, dtype):
    system = time_stepping()
    friction = np.array([0.5, 0.25], dtype)
    options = {
        "dt": 2e-3,
        "record_every": 4e-3,
        "t_end": 0.012,
        "events": {"low": low},
        "parameters": {"floor_friction": friction},
    }
    ours, theirs = simulated(gpu, system, dtype, **options)
    assert ours.q.dtype == dtype and len(ours.t) == 4
    assert theirs.counts[:, 0].max() > 0 and theirs.counts[:, 2].tolist() == [6, 6]
    assert (theirs.outputs["floor_force"][..., 2] > 0).any()
    assert_same_runs(ours, theirs)


def uneven():
    return TimeStepping(jumper(), *parts(**LAW, ground=HeightField([[0.0, 1e-3], [2e-3, 0.0]])), step=2e-3)


CASES = {
    "of a robot's system": (
        lambda: robot_system(jumper(), *parts("sole", **LAW), ledger=False),
        {"method": "time-stepping", "dt": 3e-3, "record_every": 4e-3},
    ),
    "times of the record, samples": (
        time_stepping,
        {
            "t_eval": [0.0, 2e-3, 0.01, 0.016],
            "dt": 2e-3,
            "sampled": {"force": ([0.0, 4e-3, 8e-3], np.array([[1.0, 0.0], [0.0, 9.0], [-1.0, 3.0]]))},
        },
    ),
    "terminal event": (time_stepping, {"events": {"low": fatal}}),
    "restitution": (SYSTEMS["restitution"], {}),
    "ledger": (
        lambda: TimeStepping(jumper(), *parts(**LAW), step=2e-3, sweeps=1),
        {"memory": {"residual": 1.0}},
    ),
    "ground": (lambda: uneven().with_constant_tables(), {}),
}


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES)
def test_options_of_simulations_by_time_stepping_are_those_of_the_cpu(gpu, case):
    make, options = CASES[case]
    ours, theirs = simulated(gpu, make(), **options)
    assert (case == "terminal event") == (theirs.ends != "").any()
    assert_same_runs(ours, theirs)


def test_steps_above_the_tolerance_are_named_on_a_device(gpu, monkeypatch):
    monkeypatch.setattr("liebody.contact.time_stepping.MOST_RETRIES", 1)
    system = time_stepping("sole", "heel", tolerance=1e-6)
    with pytest.warns(UnsolvedSteps) as said:
        ours, theirs = simulated(gpu, system, t_end=6e-3)
    assert len({str(x.message) for x in said}) == 1 and len(said) == 2
    assert theirs.final.memory["unsolved"].sum() > 0
    assert_same_runs(ours, theirs)


def test_steps_on_a_device_are_one_number_that_divides_the_record(gpu):
    system, q0 = time_stepping(), tensor(Q0, gpu)
    steps = tensor(np.array([1e-3, 2e-3]), gpu)
    for values in (steps, steps.strided):
        with pytest.raises(IntegrationError, match=r"step is an array.*give a number, and call once"):
            lb.simulate(system, q0, t_end=0.01, parameters={"step": values}, device="cuda")
    with pytest.raises(IntegrationError, match="step is an array"):
        lb.stepper(system, dt=4e-3, members=2).on_device().start(q0, parameters={"step": steps})
    with pytest.raises(IntegrationError, match="do not divide all times"):
        lb.simulate(system, q0, t_end=0.011, record_every=4e-3, device="cuda")
    with pytest.raises(IntegrationError, match="made for time stepping"):
        lb.simulate(system, q0, t_end=0.01, method="rkmk4", device="cuda")
    for option in ({"threads": 2}, {"progress": True}):
        with pytest.raises(IntegrationError, match="leave it out"):
            lb.simulate(system, q0, t_end=0.01, device="cuda", **option)
    with pytest.raises(ConfigurationError, match="step is given in parameters and in sampled"):
        lb.simulate(system, q0, t_end=0.01, sampled={"step": ([0.0, 0.01], q0)}, device="cuda")
    with pytest.raises(ModelError, match=r"floor_heights.*take system\.with_constant_tables\(\)"):
        lb.simulate(uneven(), q0, t_end=0.01, device="cuda")
    assert gpu.launches == []


def test_intervals_are_pickled_with_their_stepper(gpu):
    march = lb.stepper(time_stepping(), dt=4e-3).rows_on_device(fused=False)
    rows = tensor(march.start([0.0, 0.01]), gpu)
    u = tensor(march.parameters(), gpu)
    again = pickle.loads(pickle.dumps(march))
    np.testing.assert_array_equal(again(rows, u).strided, march(rows, u).strided)
    assert repr(march) == f"DeviceIntervals hold(rows[{len(rows.strided)}], parameters[{u.shape[0]}])"


def test_rows_at_the_start_are_broadcast_to_members_of_parameters_and_memory(gpu):
    march = lb.stepper(time_stepping(), dt=4e-3).rows_on_device(fused=False)
    friction, stretch = np.array([0.3, 0.5, 0.9]), np.arange(3.0)[:, None, None] * np.ones((1, 2))
    rows = march.start([0.0, 0.01], parameters={"floor_friction": friction}, floor_stretch=stretch)
    assert rows.shape == (3, *march.inputs["rows"])
    np.testing.assert_array_equal(rows[:, march.places["q"]], [[0.0, 0.01]] * 3)
    np.testing.assert_array_equal(rows[:, march.places["floor_stretch"]], stretch[:, 0])
    with pytest.raises(ShapeError, match=r"q0 \(2,\) and floor_friction \(3,\) differ"):
        march.start(np.zeros((2, 2)), parameters={"floor_friction": friction})
    with pytest.raises(ShapeError, match=r"floor_friction .* and floor_damping .* differ"):
        march.parameters({"floor_friction": friction, "floor_damping": np.ones(2)})


def test_arrays_in_float32_locate_events_as_a_stepper_in_float32_does():
    system = SYSTEMS["events"]()
    single = lb.stepper(system, dt=4e-3, dtype=np.float32).rows_on_device()
    march = lb.stepper(system, dt=4e-3).rows_on_device()
    assert "#define TOLERANCE 1e-09" in march.source(np.float32)
    assert march.source(np.float32) == single.source(np.float32)


def test_systems_without_rows_on_a_device_are_refused():
    with pytest.raises(IntegrationError, match="without `events`"):
        lb.stepper(time_stepping(), dt=4e-3, events={"e": lambda t, q, v: q[0]}).rows_on_device()


# -- environments -------------------------------------------------------------------------------------------


class Jump(DecisionProcess):
    """Forces are actions; it uses all that a `TaskState` has, in sums, products and comparisons."""

    dt = 2**-8  # traced functions multiply by 1 / dt, which is exact
    horizon = 3
    period = 0.05
    action_space = Box(-1.0, 1.0, (2,), np.float64)
    observation_space = Box(-1e4, 1e4, (15,), np.float64)

    def __init__(self, system=None):
        self.system = system or time_stepping()

    def begin(self, rng):
        q, v = rng.uniform([0.0, -1e-3], [0.1, 3e-3]), rng.uniform(-0.1, 0.1, 2)
        parameters = {"floor_friction": rng.uniform(0.3, 0.9), "floor_damping": 50.0}
        return Episode(q, v, parameters, rng.uniform(-1, 1, 1), rng.random(), {"path": np.zeros(1)})

    def parameters(self, state, action):
        return {"force": np.array([3.0, 10.0]) * np.clip(action, -1, 1) + state.command}

    def remember(self, before, after):
        return {"path": after.memory["path"] + np.abs(after.q[..., :1] - before.q[..., :1])}

    def observe(self, state):
        numbers = [
            state.phase,
            state.steps,
            state.parameters["floor_friction"],
            state.system.memory.floor_stretch[..., 0, 0],
        ]
        arrays = [state.action, state.command, state.air_time, state.touching, state.memory["path"]]
        return np.concatenate(
            [state.q, state.v, *arrays, np.stack(numbers, axis=-1), state.last_action[:, :1]], axis=-1
        )

    def reward(self, before, after):
        landed = after.touching & ~before.touching
        speed = np.maximum((after.q[:, 0] - before.q[:, 0]) / self.dt, 0.0)
        return speed - np.square(after.action[..., 0]) + np.where(landed, 2.0, before.air_time).sum(-1)

    def is_lost(self, state):
        return (state.q[..., 1] > 2.5e-3) & (state.v[:, 1] > 0)


def environments(task, gpu, mode="NextStep", n=3, **options):
    like = tensor(np.zeros(1), gpu)
    return VectorEnv(task, n, mode, device="cuda", like=like, fused=False, **options)


def single(task, mode, n=3):
    return gymnasium.vector.SyncVectorEnv([lambda: Env(task)] * n, autoreset_mode=mode)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_members_on_a_device_are_single_environments_to_the_bit(gpu, mode):
    task = Jump()
    ours, theirs = (
        environments(task, gpu, mode),
        single(task, AutoresetMode(mode)),
    )
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    rng, ended = np.random.default_rng(0), np.zeros(2, int)
    observation, _ = ours.reset(seed=3)
    np.testing.assert_array_equal(observation.strided, theirs.reset(seed=3)[0])
    for _ in range(12):  # more actions than the ring of episodes has places
        action = rng.uniform(-1.2, 1.2, (3, 2))
        *results, infos = ours.step(tensor(action, gpu))
        *expected, others = theirs.step(action)
        for a, b in zip(results, expected, strict=True):
            assert isinstance(a, Tensor) and a.dtype == b.dtype
            np.testing.assert_array_equal(a.strided, b)
        if mode == "SameStep":
            done = results[2].strided | results[3].strided
            np.testing.assert_array_equal(infos["_final_obs"].strided, done)
            for i in np.flatnonzero(done):
                np.testing.assert_array_equal(infos["final_obs"].strided[i], others["final_obs"][i])
        ended += [np.count_nonzero(expected[2]), np.count_nonzero(expected[3])]
        done = expected[2] | expected[3]
        if mode == "Disabled" and done.any():
            mask = done.copy() if rng.random() < 0.5 else tensor(done, gpu)
            observation, _ = ours.reset(options={"reset_mask": mask})
            np.testing.assert_array_equal(
                observation.strided, theirs.reset(options={"reset_mask": done.copy()})[0]
            )
    assert (ended > 0).all()  # some were lost, others cut


def test_members_on_a_device_in_float32_are_those_of_the_cpu(gpu):
    task = Jump()
    like = tensor(np.zeros(1, np.float32), gpu)
    ours = VectorEnv(task, 3, device="cuda", like=like, dtype="float32", fused=False)
    theirs = VectorEnv(task, 3, dtype="float32")
    assert ours.observation_space.dtype == np.float32
    results = [ours.reset(seed=1)[0].strided, theirs.reset(seed=1)[0]]
    for _ in range(2):
        action = np.random.default_rng(0).uniform(-1, 1, (3, 2)).astype(np.float32)
        observation, reward, *_ = ours.step(tensor(action, gpu))
        expected, other, *_ = theirs.step(action)
        assert observation.dtype == reward.dtype == np.float32
        results = [observation.strided, expected]
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(reward.strided, other, rtol=1e-3, atol=1e-3)  # differences over dt


def test_the_state_on_the_cpu_has_forces_and_pushes_change_it(gpu):
    task = Jump()
    ours, theirs = environments(task, gpu), VectorEnv(task, 3)
    ours.reset(seed=2), theirs.reset(seed=2)
    for envs, convert in ((ours, lambda x: tensor(x, gpu)), (theirs, np.array)):
        envs.step(convert(np.full((3, 2), -0.5)))
    state, expected = ours.state, theirs.state
    for name in ("q", "v", "action", "command", "phase", "touching", "air_time", "steps"):
        np.testing.assert_array_equal(getattr(state, name), getattr(expected, name))
    np.testing.assert_allclose(state.contact_forces, expected.contact_forces, rtol=1e-12)
    np.testing.assert_array_equal(state.parameters["floor_friction"], expected.parameters["floor_friction"])
    v = np.arange(6.0).reshape(3, 2)
    ours.replace([0, 2], v=tensor(v, gpu))
    np.testing.assert_array_equal(ours.state.v, np.where([[True], [False], [True]], v, state.v))
    ours.replace(tensor(np.array([False, True, False]), gpu), q=tensor(v, gpu), v=tensor(v + 1, gpu))
    np.testing.assert_array_equal(ours.state.v[1], v[1] + 1)
    np.testing.assert_array_equal(ours.state.q[[0, 1]], [state.q[0], v[1]])
    before = ours.state.v
    ours.replace(np.int64(2), v=tensor(v + 7, gpu))  # one index, as of argmax
    np.testing.assert_array_equal(ours.state.v, [before[0], before[1], v[2] + 7])
    # a number times ones would choose all members
    for members in (np.array(1), np.array([0, 2, 1]), np.ones(2, bool)):
        with pytest.raises(ShapeError, match="expected a mask: 3 truth values; indices may be a list"):
            ours.replace(tensor(members, gpu), v=tensor(v, gpu))


def test_pushes_of_the_same_values_share_a_kernel(gpu):
    envs = environments(Jump(), gpu)
    envs.reset(seed=2)
    for _ in range(2):
        envs.replace([0], v=tensor(np.ones((3, 2)), gpu))
        loads = len(gpu.loads)
    envs.replace([1], v=tensor(np.zeros((3, 2)), gpu))
    assert len(gpu.loads) == loads


def test_only_arrays_in_c_order_are_copied_to_the_cpu(gpu):
    memory = DeviceMemory(tensor(np.zeros(1), gpu))
    array = tensor(np.arange(6.0).reshape(2, 3), gpu)
    np.testing.assert_array_equal(memory.fetch(array), array.strided)
    with pytest.raises(ShapeError, match=r"steps \(3,\).*copy it first"):
        memory.fetch(array[:, 1])


def test_forces_of_contacts_can_be_observed(gpu):
    class Feel(Jump):
        observation_space = Box(-1e4, 1e4, (3,), np.float64)

        def observe(self, state):
            return state.contact_forces[..., 0, :]

    ours, theirs = environments(Feel(), gpu), VectorEnv(Feel(), 3)
    np.testing.assert_allclose(ours.reset(seed=2)[0].strided, theirs.reset(seed=2)[0])
    action = np.full((3, 2), -0.5)
    observation, *_ = ours.step(tensor(action, gpu))
    expected, *_ = theirs.step(action)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(observation.strided, expected, rtol=1e-11, atol=1e-11)


def test_seeds_begin_members_anew_wherever_they_were(gpu):
    ours, theirs = environments(Jump(), gpu), VectorEnv(Jump(), 3)
    for seed in (5, 6, [7, 8, 9], None, 5):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0].strided, theirs.reset(seed=seed)[0])
    mask = np.array([True, False, True])
    for envs in (ours, theirs):
        envs.reset(seed=11, options={"reset_mask": mask})
    np.testing.assert_array_equal(ours.state.q, theirs.state.q)


def test_what_an_environment_on_a_device_cannot_take_is_refused_with_a_remedy(gpu):
    task, like = Jump(), tensor(np.zeros(1), gpu)
    for options, message in (
        ({"device": "cuda"}, r"like=, an array there, such as torch.zeros"),
        ({"like": like}, "give device='cuda', too"),
        ({"device": "cpu", "like": like}, "device is 'cpu', expected 'cuda'"),
        ({"device": "cuda", "like": like, "threads": 2}, "threads is 2.*leave it out"),
        ({"device": "cuda", "like": like, "convert": list}, "convert is for arrays of the CPU"),
        ({"device": "cuda", "like": like, "dtype": "float32"}, "like holds float64, and dtype is float32"),
    ):
        with pytest.raises(ArgumentError, match=message):
            VectorEnv(task, 3, **options)
    with pytest.raises(DeviceError, match=r"like is a numpy.ndarray.*torch.as_tensor"):
        VectorEnv(task, 3, device="cuda", like=np.zeros(1))
    with pytest.raises(ShapeError, match="like has no numbers"):
        VectorEnv(task, 3, device="cuda", like=tensor(np.zeros(0), gpu))
    envs = environments(task, gpu)
    with pytest.raises(ModelError, match=r"call reset\(\) first"):
        envs.step(tensor(np.zeros((3, 2)), gpu))
    with pytest.raises(ModelError, match="without reset_mask first"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(ModelError, match="without reset_mask first"):
        envs.reset(options={"reset_mask": tensor(np.ones(3, bool), gpu)})
    with pytest.raises(ShapeError, match=r"reset_mask.*3 truth values"):
        envs.reset(options={"reset_mask": np.ones(2, bool)})
    envs.reset(seed=0)
    with pytest.raises(DeviceError, match=r"actions is a numpy.ndarray.*torch.as_tensor\(actions"):
        envs.step(np.zeros((3, 2)))
    with pytest.raises(ShapeError, match=r"\(3, 1\)"):
        envs.step(tensor(np.zeros((3, 1)), gpu))
    with pytest.raises(ArgumentError, match="seeds are for members that the CPU knows"):
        envs.reset(seed=1, options={"reset_mask": tensor(np.ones(3, bool), gpu)})


def test_tasks_that_branch_on_values_are_refused_at_their_line(gpu):
    class Branches(Jump):
        def is_lost(self, state):
            return np.array([bool(state.q[0, 1] > 0)])

    envs = environments(Branches(), gpu)
    envs.reset(seed=0)
    with pytest.raises(
        GraphError, match=r"after cannot be traced at `return np.array.*liebody.scalars.where"
    ):
        envs.step(tensor(np.zeros((3, 2)), gpu))


@pytest.mark.wide
def test_a_hopper_with_located_events_hops_on_a_device(gpu):
    """Its observations have sines of NumPy, and others of liebody on the device."""
    ours, theirs = environments(Hopper(), gpu), VectorEnv(Hopper(), 3)
    np.testing.assert_allclose(ours.reset(seed=1)[0].strided, theirs.reset(seed=1)[0], rtol=1e-14, atol=1e-15)
    for _ in range(3):
        action = np.full((3, 2), 0.5)
        *results, _ = ours.step(tensor(action, gpu))
        *expected, _ = theirs.step(action)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a.strided, b, rtol=1e-9, atol=1e-9)


class Slope(Jump):
    """On heights that are a table in memory of the CPU, and a constant on the device."""

    def __init__(self):
        heights = HeightField([[0.0, 0.01, 0.0, 0.01], [0.0, 0.0, 0.01, 0.01]], spacing=0.2)
        drive, _ = parts()
        floor = Contact("sole", **LAW, ground=heights)
        super().__init__(TimeStepping(jumper(), drive, floor, step=2e-3, solver="projected", ledger=False))


def test_heights_of_the_ground_are_constants_on_a_device(gpu):
    ours, theirs = environments(Slope(), gpu), single(Slope(), AutoresetMode.NEXT_STEP)
    np.testing.assert_array_equal(ours.reset(seed=4)[0].strided, theirs.reset(seed=4)[0])
    action = np.full((3, 2), -0.5)
    for _ in range(2):
        *results, _ = ours.step(tensor(action, gpu))
        *expected, _ = theirs.step(action)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_array_equal(a.strided, b)
    assert ours.state.touching.any()

    class Changes(Slope):
        def begin(self, rng):
            return replace(super().begin(rng), parameters={"floor_heights": np.zeros((2, 4))})

    with pytest.raises(ModelError, match="floor_heights is a constant table of this system"):
        environments(Changes(), gpu).reset(seed=0)


def test_arrays_of_jax_are_those_of_an_environment(gpu, monkeypatch):
    jax = pytest.importorskip("jax")
    of_cpu = Interpreter(device_type=1)  # arrays of JAX on the CPU stand in for those of a device
    monkeypatch.setattr(device_queue, "driver", lambda: of_cpu)
    with jax.enable_x64(True):
        envs = VectorEnv(Jump(), 3, device="cuda", like=jax.numpy.zeros(1), fused=False)
        theirs = VectorEnv(Jump(), 3)
        observation, _ = envs.reset(seed=1)
        assert isinstance(observation, jax.Array)
        np.testing.assert_array_equal(observation, theirs.reset(seed=1)[0])
        action = np.full((3, 2), 0.25)
        *results, _ = envs.step(jax.numpy.asarray(action))
        for a, b in zip(results, theirs.step(action)[:4], strict=True):
            assert isinstance(a, jax.Array) and a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


# -- arrays of symbols --------------------------------------------------------------------------------------


def functions(x, y):
    touches = y > 0.3
    return {
        "joined": np.concatenate([np.clip(x, -1, 1), touches, ~touches & (x[:, :2] < 0)], axis=-1),
        "sum": np.square(x).sum(-1),
        "product": ((y - 0.2) * touches).sum(-1),
        "where": np.where(touches, 0.0, y + 1),
        "norm": np.linalg.norm(x, axis=-1),
        "any": touches.any(-1) * 1.0,
        "all": touches.all(axis=1) * 1.0,
        "count": touches.sum(-1) * 1.0,
        "mean": np.mean(x, axis=1),
        "matmul": x @ np.arange(6.0).reshape(3, 2),
        "largest": np.maximum(x, 0).max(-1),
        "stack": np.stack([np.sin(x[..., 0]), np.abs(x[..., 1])], axis=-1),
        "numbers": touches.astype(float),
        "powers": x**2,
        "clock": -x % 1.0,
        "einsum": np.einsum("ij,kj->ik", x, np.ones((2, 3))),
        "exclusive": (touches ^ (y > 0)) * 1.0,
    }


def test_functions_of_numpy_take_arrays_of_symbols():
    def of_symbols(x, y):
        return functions(SymbolArray.of(x), SymbolArray.of(y))

    x, y = np.array([[0.5, -2.0, 3.25]]), np.array([[0.1, 0.7]])
    traced = trace(of_symbols, {"x": (1, 3), "y": (1, 2)}, "functions")
    for ours, expected in zip(traced(x, y), functions(x, y).values(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-15, atol=1e-15)


def test_functions_of_numpy_without_a_rule_are_named():
    with pytest.raises(GraphError, match=r"numpy.arctanh has no rule for symbols"):
        trace(lambda x: np.arctanh(SymbolArray.of(x)), {"x": 3})
