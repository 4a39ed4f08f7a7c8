"""Environments of gymnasium (the extra `gym`): decisions about hybrid systems, one or a vector of them.

    import liebody.interop.gym

    env = liebody.interop.gym.Env(liebody.interop.gym.Hopper())
    envs = liebody.interop.gym.VectorEnv(liebody.interop.gym.Hopper(), 256)

or by name: `gymnasium.make("liebody.interop.gym:liebody/Hopper-v0")`, `gymnasium.make_vec(..., num_envs=9)`;
a `Walker` is "liebody.interop.gym:liebody/Walker-v0", with its arguments after the name. The members of a
vector are lanes of one compiled loop; each behaves like a single environment with its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import models
from ..base.errors import ShapeError, require
from ..contact import Contact, Ground, TimeStepping
from ..dynamics import frame_pose
from ..hybrid import Feedback, HybridState, HybridSystem, JointPD, State, robot_system
from ..scalars import Array, clip
from ..simulation.stepper import stepper

require("environments", "gymnasium", extra="gym")

import gymnasium  # noqa: E402
from gymnasium.spaces import Box  # noqa: E402
from gymnasium.utils import seeding  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402


class DecisionProcess:
    """A task with a hybrid system: a subclass sets these attributes and overrides the methods.

    The leading axes `...` of arrays are members.

    system        the HybridSystem
    dt            time for which an action is held                                                       [s]
    horizon       number of actions after which an episode is truncated
    action_space, observation_space    of one member
    """

    system: HybridSystem
    dt: float
    horizon: int
    action_space: Box
    observation_space: Box

    def begin(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """A state (q, v) to begin with."""
        raise NotImplementedError

    def parameters(self, action: Array) -> dict[str, Array]:
        """The parameters of the system that actions (..., n) are, each (..., *shape)."""
        raise NotImplementedError

    def observe(self, q: Array, v: Array) -> Array:
        """Observations (..., m) of states."""
        raise NotImplementedError

    def reward(self, before: HybridState, action: Array, after: HybridState) -> Array:
        """Rewards (...) of actions."""
        raise NotImplementedError

    def is_lost(self, q: Array, v: Array) -> Array:
        """Which members have failed, (...); those that the system itself ended have failed anyway."""
        return np.zeros(q.shape[:-1], bool)


class Hopper(DecisionProcess):
    """A trunk on a leg with hip and knee (`models.two_joint_hopper`) that is to hop forwards without falling.

    action       the angles q_d that hip and knee are to take, as CROUCH + RANGE action, within [-1, 1]; the
                 drives give tau = K (q_d - q) - D v, at most MOST
    observation  height and angle of the trunk, angles of hip and knee, velocity along x and z in the world,
                 rates of trunk, hip and knee                                    [m, rad, m/s, rad/s]
    reward       1 for each action, plus the trunk's velocity along x, minus a tenth of |action|^2
    end          the trunk's hip is lower than LOWEST, or the trunk turned by more than STEEPEST

    The floor has a stiffness of 5 kN/m, a damping of 20 N s/m and the friction 1.
    """

    # rad, N m/rad, N m s/rad, N m
    RANGE = np.array([0.5, 0.6])
    K = 12.0
    D = 0.15
    MOST = 4.0
    # m, rad
    LOWEST = 0.12
    STEEPEST = 1.0
    CROUCH = np.array([-0.35, 0.7])  # the foot is under the hip

    def __init__(self, horizon: int = 1000) -> None:
        def efforts(s: State, p: Any) -> Array:
            tau = self.K * (p.target - s.q[3:]) - self.D * s.v[3:]
            return clip(tau, -self.MOST, self.MOST)

        drive = Feedback(efforts, name="drive", target=self.CROUCH)
        floor = Contact("foot", stiffness=5e3, damping=20.0, friction=1.0)
        steps: dict[str, Any] = {"step": 1e-3, "stance_step": 5e-4, "landing_step": 2e-4}
        self.system = robot_system(models.two_joint_hopper(), drive, floor, ledger=False, **steps)
        self.dt = 0.01
        self.horizon = horizon
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = Box(-1e4, 1e4, (9,), np.float64)

    def begin(self, rng: np.random.Generator) -> tuple[Array, Array]:
        q = np.concatenate([[0.0, 0.0, 0.23], self.CROUCH])
        return q + rng.uniform(-0.02, 0.02, 5) * [1, 0, 0, 1, 1], rng.uniform(-0.05, 0.05, 5)

    def parameters(self, action: Array) -> dict[str, Array]:
        return {"target": self.CROUCH + self.RANGE * np.clip(np.asarray(action, float), -1, 1)}

    def observe(self, q: Array, v: Array) -> Array:
        s = np.sin(q[..., 0])
        c = np.cos(q[..., 0])
        speed = c * v[..., 1] - s * v[..., 2], s * v[..., 1] + c * v[..., 2]
        angles = q[..., [0, 3, 4]]
        rates = v[..., [0, 3, 4]]
        return np.concatenate([q[..., 2:3], angles, np.stack(speed, axis=-1), rates], axis=-1)

    def reward(self, before: HybridState, action: Array, after: HybridState) -> Array:
        speed = (after.q[..., 1] - before.q[..., 1]) / self.dt
        return 1.0 + speed - 0.1 * np.sum(np.square(np.asarray(action, float)), axis=-1)

    def is_lost(self, q: Array, v: Array) -> Array:
        return (q[..., 2] < self.LOWEST) | (np.abs(q[..., 0]) > self.STEEPEST)


class Walker(DecisionProcess):
    """A legged robot that is to walk along x without falling, by time stepping.

    robot     with a floating base, whose axis z points upwards when it stands
    feet      names of the frames that touch the ground
    pose      coordinates of the joints when it stands, (n,)
    K, D      gains of the drives, `JointPD`
    ground    a `HeightField` or `Boxes`, over which members start at random places; None: the plane z = 0
    floor     more options of `Contact`: friction, radius, stiffness, damping

    action       set-points of the joints are pose + reach action, action within [-1, 1]
    observation  height of the base, the world's z in its axes, its velocity (omega, v), joints less pose,
                 their rates
    reward       1 for each action, plus the base's velocity along x, minus a hundredth of |action|^2
    end          the base is lower than half its height over its feet, or leans by more than 60 degrees
    """

    def __init__(
        self, robot: Any, feet: Sequence[str], pose: Array, *, K: Any, D: Any, reach: float = 0.3,
        ground: Ground | None = None, dt: float = 0.02, horizon: int = 500, **floor: Any,
    ) -> None:  # fmt: skip
        self.pose = np.asarray(pose, float)
        self.reach = reach
        self.dt = dt
        self.horizon = horizon
        self.q0 = np.concatenate([robot.neutral()[:7], self.pose])
        # the base stands so high that the lowest foot touches the ground
        lowest = min(frame_pose(robot.tree, self.q0, foot)[2, 3] for foot in feet)
        self.height = floor.get("radius", 0.0) - lowest
        top, self.spread = (0.0, 0.0) if ground is None else (ground.top, 2.0)  # m
        self.q0[6] = self.height + top
        contact = {"stiffness": 1e5, "damping": 1e3, "friction": 0.8, **floor}
        drives = JointPD(K, self.pose, D, gravity_compensation=False)
        self.system = TimeStepping(robot, drives, Contact(*feet, ground=ground, **contact), ledger=False)
        n = len(self.pose)
        self.action_space = Box(-1.0, 1.0, (n,), np.float32)
        self.observation_space = Box(-1e4, 1e4, (10 + 2 * n,), np.float64)

    def begin(self, rng: np.random.Generator) -> tuple[Array, Array]:
        # anywhere on the ground, with small changes of the pose
        q = self.q0.copy()
        v = rng.uniform(-0.05, 0.05, len(self.pose) + 6)
        q[4:6] = self.spread * rng.uniform(-1, 1, 2)
        q[7:] += rng.uniform(-0.05, 0.05, len(self.pose))
        return q, v

    def parameters(self, action: Array) -> dict[str, Array]:
        return {"pd_q_des": self.pose + self.reach * np.clip(np.asarray(action, float), -1, 1)}

    def observe(self, q: Array, v: Array) -> Array:
        return np.concatenate([q[..., 6:7], _upwards(q), v[..., :6], q[..., 7:] - self.pose, v[..., 6:]], -1)

    def reward(self, before: HybridState, action: Array, after: HybridState) -> Array:
        speed = (after.q[..., 4] - before.q[..., 4]) / self.dt
        return 1.0 + speed - 0.01 * np.sum(np.square(np.asarray(action, float)), axis=-1)

    def is_lost(self, q: Array, v: Array) -> Array:
        return (q[..., 6] < 0.5 * self.height) | (_upwards(q)[..., 2] < 0.5)


def _upwards(q: Array) -> Array:
    """The world's z in the axes of a floating base, (..., 3)."""
    w, x, y, z = np.moveaxis(q[..., :4], -1, 0)
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1)


class _Episodes:
    """Members that do a task, stepped together."""

    def __init__(self, task: DecisionProcess, members: int, threads: int = 1) -> None:
        self.task = task
        self.sim = stepper(task.system, dt=task.dt, members=members, threads=threads)
        self.age = np.zeros(members, int)
        self.state: Any = None

    def begin(self, generators: Sequence[np.random.Generator], members: Array) -> None:
        """Begin anew, with a generator for each of these members (a mask)."""
        # each member draws its start from its generator: its episodes depend on its seed alone
        starts = [self.task.begin(rng) for rng, chosen in zip(generators, members, strict=True) if chosen]
        q, v = (np.array(x) for x in zip(*starts, strict=True))
        if self.state is None or members.all():  # at t = 0, so that equal seeds give equal bits
            self.state = self.sim.start(q, v)
        else:
            self.state = self.sim.reset(self.state, members, q, v)
        self.age[members] = 0

    def step(self, action: Array) -> tuple[Array, Array, Array, Array]:
        before = self.state
        self.state = self.sim.step(self.state, self.task.parameters(action))
        self.age += 1
        # a member is lost by the system or by the task; at the horizon it is only cut
        lost = self.state.ended | self.task.is_lost(self.state.q, self.state.v)
        reward = self.task.reward(before, action, self.state)
        return self.observations, reward, lost, ~lost & (self.age >= self.task.horizon)

    @property
    def observations(self) -> Array:
        space = self.task.observation_space
        return self.task.observe(self.state.q, self.state.v).astype(space.dtype)


class Env(gymnasium.Env):
    """One environment with a `DecisionProcess`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, task: DecisionProcess) -> None:
        self.task = task
        self._episodes = _Episodes(task, 1)
        self.action_space = task.action_space
        self.observation_space = task.observation_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._episodes.begin([self.np_random], np.array([True]))
        return self._episodes.observations[0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        observations, reward, lost, cut = self._episodes.step(np.asarray(action)[None])
        return observations[0], float(reward[0]), bool(lost[0]), bool(cut[0]), {}


class VectorEnv(gymnasium.vector.VectorEnv):
    """Environments with a `DecisionProcess` whose members are lanes of one compiled loop.

    autoreset_mode  of `gymnasium.vector.AutoresetMode`: NEXT_STEP, SAME_STEP or DISABLED
    threads         that share the members

    Member i with the seed s of `reset` behaves like `Env` with the seed s + i.
    """

    def __init__(
        self,
        task: DecisionProcess,
        num_envs: int,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 1,
    ) -> None:
        self.task = task
        self.num_envs = num_envs
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self._mode}
        self.single_action_space = task.action_space
        self.single_observation_space = task.observation_space
        self.action_space = batch_space(task.action_space, num_envs)
        self.observation_space = batch_space(task.observation_space, num_envs)
        self._episodes = _Episodes(task, num_envs, threads)
        self._done = np.zeros(num_envs, bool)
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin anew: all members, or the ones that the mask `options["reset_mask"]` chooses."""
        members = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        wanted = range(seed, seed + self.num_envs) if isinstance(seed, int | np.integer) else seed
        seeds = [None] * self.num_envs if wanted is None else list(wanted)
        if members.shape != (self.num_envs,) or members.dtype != bool:
            raise ShapeError(f"reset_mask is {members!r}, expected {self.num_envs} truth values")
        if len(seeds) != self.num_envs:
            raise ShapeError(f"there are {len(seeds)} seeds for {self.num_envs} environments")
        # only members of the mask get their seeds
        for i, chosen in enumerate(seeds):
            if members[i] and chosen is not None:
                self._generators[i] = seeding.np_random(chosen)[0]
        if members.any():
            self._begin(members)
        return self._episodes.observations, {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        # members that ended in the last step begin anew: in this step, in the same step, or by the user
        again = self._done
        if self._mode is AutoresetMode.DISABLED and again.any():
            raise ShapeError(
                f"members {np.flatnonzero(again)} have ended; begin them anew by "
                'reset(options={"reset_mask": terminations | truncations})'
            )
        observations, reward, lost, cut = self._episodes.step(np.asarray(actions))
        infos: dict[str, Any] = {}
        if self._mode is AutoresetMode.NEXT_STEP and again.any():  # their actions are ignored
            reward, lost, cut = (np.where(again, 0, x).astype(x.dtype) for x in (reward, lost, cut))
            self._begin(again)
            observations = self._episodes.observations
        done = lost | cut
        self._done = done
        if self._mode is AutoresetMode.SAME_STEP and done.any():
            # the last observations are kept apart, as those returned belong to the new episodes
            last = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(done):
                last[i] = observations[i]
            infos = {"final_obs": last, "final_info": {}}
            infos |= {f"_{name}": done.copy() for name in infos}
            self._begin(done)
            observations = self._episodes.observations
        return observations, reward, lost, cut, infos

    def _begin(self, members: Array) -> None:
        self._episodes.begin(self._generators, members)
        self._done = self._done & ~members


def _env(task: type[DecisionProcess], **options: Any) -> Env:
    return Env(task(**options))


def _envs(task: type[DecisionProcess], num_envs: int, threads: int = 1, **options: Any) -> VectorEnv:
    return VectorEnv(task(**options), num_envs, threads=threads)


for _task in (Hopper, Walker):
    _made = partial(_env, _task)
    _many = partial(_envs, _task)
    gymnasium.register(f"liebody/{_task.__name__}-v0", entry_point=_made, vector_entry_point=_many)
