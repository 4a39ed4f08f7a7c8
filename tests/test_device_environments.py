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
    DeviceError,
    GraphError,
    IntegrationError,
    ModelError,
    ShapeError,
)
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler import trace
from liebody.compiler.native import device, device_queue
from liebody.contact import Contact, TimeStepping
from liebody.groups import Prismatic
from liebody.hybrid import Fall, Feedback, robot_system
from liebody.stepping.hybrid import HybridFlow

gymnasium = pytest.importorskip("gymnasium", reason="the test extra `gymnasium` is not installed")
from gymnasium.spaces import Box  # noqa: E402

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

    def like(self, values, device=0):
        return tensor(values, self.driver)


def tensor(values, gpu, dtype=None):
    return Tensor(on_device(values, gpu, dtype=dtype).strided, gpu)


@pytest.fixture
def gpu(monkeypatch):
    """The interpreter as the driver of this process; nothing is fused on the CPU."""
    interpreter = Interpreter()
    monkeypatch.setattr(device, "driver", lambda: interpreter)
    monkeypatch.setattr(device_queue, "driver", lambda: interpreter)
    monkeypatch.setattr(HybridFlow, "_flags", lambda self, way, lanes: UNFUSED)
    return interpreter


def jumper():
    """A foot that slides along x and jumps along z, with a force along both."""
    builder = TreeBuilder("jumper").add("cart", Prismatic([1, 0, 0]), SpatialInertia.point(0.5))
    builder.add("foot", Prismatic([0, 0, 1]), SpatialInertia.point(1.0), parent="cart")
    return builder.frame("sole", "foot", [0, 0, 0]).build()


def push(s, p):
    return p.force - 0.1 * s.v


def parts(**law):
    return Feedback(push, name="push", force=np.zeros(2)), Contact("sole", **law)


LAW = {"stiffness": 1e4, "damping": 50.0, "friction": 0.5}


def time_stepping(**options):
    chosen = {"solver": "projected", "sweeps": 1, **options}
    return TimeStepping(jumper(), *parts(**LAW), step=2e-3, ledger=False, **chosen)


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
        single(task, VectorEnv(task, 3, mode).metadata["autoreset_mode"]),
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
