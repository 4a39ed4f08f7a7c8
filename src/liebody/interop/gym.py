"""Environments of gymnasium (the extra `gym`): decisions about hybrid systems, one or a vector of them.

    import liebody.interop.gym

    env = liebody.interop.gym.Env(liebody.interop.gym.Hopper())
    envs = liebody.interop.gym.VectorEnv(liebody.interop.gym.Hopper(), 256)

or by name: `gymnasium.make("liebody.interop.gym:liebody/Hopper-v0")`, `gymnasium.make_vec(..., num_envs=9)`;
a `Walker` is "liebody.interop.gym:liebody/Walker-v0", with its arguments after the name. The members of a
vector are lanes of one compiled loop; each behaves like a single environment with its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import models
from ..base.errors import ArgumentError, ShapeError, require
from ..base.public import public
from ..compiler import cuda_device
from ..contact import Contact
from ..hybrid import Feedback, State, robot_system
from ..scalars import Array, clip
from .device_tasks import AT_ONCE, BY_USER, LATER, DeviceEpisodes
from .tasks import DecisionProcess, Episode, Episodes, TaskState, numbers

require("environments", "gymnasium", extra="gym")

import gymnasium  # noqa: E402
from gymnasium.spaces import Box  # noqa: E402
from gymnasium.utils import seeding  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

from .walker import Walker  # noqa: E402

__all__ = ["DecisionProcess", "Env", "Episode", "Hopper", "TaskState", "VectorEnv", "Walker"]

RENDER_MODES = ("rgb_array",)
WIDTH, HEIGHT = 480, 360  # of pictures [px]
RESETS = {
    AutoresetMode.NEXT_STEP: LATER,
    AutoresetMode.SAME_STEP: AT_ONCE,
    AutoresetMode.DISABLED: BY_USER,
}


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

    def begin(self, rng: np.random.Generator) -> Episode:
        q = np.concatenate([[0.0, 0.0, 0.23], self.CROUCH])
        return Episode(q + rng.uniform(-0.02, 0.02, 5) * [1, 0, 0, 1, 1], rng.uniform(-0.05, 0.05, 5))

    def parameters(self, state: TaskState, action: Array) -> dict[str, Array]:
        return {"target": self.CROUCH + self.RANGE * np.clip(action, -1, 1)}

    def observe(self, state: TaskState) -> Array:
        q, v = state.q, state.v
        s = np.sin(q[..., 0])
        c = np.cos(q[..., 0])
        speed = c * v[..., 1] - s * v[..., 2], s * v[..., 1] + c * v[..., 2]
        angles = q[..., [0, 3, 4]]
        rates = v[..., [0, 3, 4]]
        return np.concatenate([q[..., 2:3], angles, np.stack(speed, axis=-1), rates], axis=-1)

    def reward(self, before: TaskState, after: TaskState) -> Array:
        speed = (after.q[..., 1] - before.q[..., 1]) / self.dt
        return 1.0 + speed - 0.1 * np.sum(np.square(after.action), axis=-1)

    def is_lost(self, state: TaskState) -> Array:
        return (state.q[..., 2] < self.LOWEST) | (np.abs(state.q[..., 0]) > self.STEEPEST)


def _frame(task: DecisionProcess, q: Array) -> Array:
    """A picture of a configuration, (height, width, 3) of bytes."""
    return public("view")(task.system, q).image(width=WIDTH, height=HEIGHT)


def _metadata(task: DecisionProcess, **more: Any) -> dict[str, Any]:
    return {"render_modes": list(RENDER_MODES), "render_fps": max(1, round(1 / task.dt)), **more}


def _render_mode(given: str | None) -> str | None:
    if given not in (None, *RENDER_MODES):
        known = ", ".join(map(repr, RENDER_MODES))
        raise ArgumentError(f"render_mode is {given!r}, expected None or {known}")
    return given


class Env(gymnasium.Env):
    """One environment with a `DecisionProcess`.

    render_mode  None, or "rgb_array": `render` gives a picture (360, 480, 3) of bytes
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 50}  # noqa: RUF012, as in gymnasium.Env

    def __init__(self, task: DecisionProcess, render_mode: str | None = None) -> None:
        self.task = task
        self.render_mode = _render_mode(render_mode)
        self.metadata = _metadata(task)  # the frames a second are those of the task
        self._episodes = Episodes(task, 1)
        self.action_space = task.action_space
        self.observation_space = task.observation_space

    @property
    def state(self) -> TaskState:
        """The state of the task, with one member."""
        return self._episodes.begun()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._episodes.begin([self.np_random], np.array([True]))
        return self._episodes.observations[0], {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        observations, reward, lost, cut = self._episodes.step(numbers(action)[None])
        return observations[0], float(reward[0]), bool(lost[0]), bool(cut[0]), {}

    def replace(self, q: Array = None, v: Array = None) -> None:
        """Give it another q or v, such as by a push; everything else stays, such as the contacts."""
        self._episodes.push([0], q, v)

    def render(self) -> Array | None:
        """A picture, if `render_mode` is "rgb_array"; otherwise None."""
        return _frame(self.task, self.state.q[0]) if self.render_mode else None


class VectorEnv(gymnasium.vector.VectorEnv):
    """Environments with a `DecisionProcess` whose members are lanes of one compiled loop.

    autoreset_mode  of `gymnasium.vector.AutoresetMode`: NEXT_STEP, SAME_STEP or DISABLED
    threads         that share the members; None: as many as are worth it
    render_mode     None, or "rgb_array": `render` gives a picture of each member
    dtype           float64; or float32: the system is stepped in it, about twice as fast, and `q` and `v` of
                    the task's states have this type. Observations have the type of their space
    convert         makes arrays of another library from the observations, rewards and flags, which are new
                    arrays in each step; None: they stay NumPy's. `torch.from_numpy` copies nothing
    device          "cuda": members live on a CUDA device, and actions, observations, rewards and flags are
                    arrays there; None: on the CPU. See docs/learning.md for what is different there
    like            with a device: one of its arrays, such as torch.zeros(1, device="cuda"). All arrays are of
                    its library, on its device and of its type, which is `dtype`
    fused           with a device: whether products and sums may become fused multiply-adds

    Actions may be arrays of any library that has DLPack, such as tensors of PyTorch in the memory of the
    processor; with a device they are arrays there. Member i with the seed s of `reset` behaves like `Env`
    with the seed s + i.
    """

    def __init__(
        self,
        task: DecisionProcess,
        num_envs: int,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int | None = 1,
        render_mode: str | None = None,
        convert: Callable[[Array], Any] | None = None,
        dtype: Any = np.float64,
        device: str | None = None,
        like: Any = None,
        fused: bool = True,
    ) -> None:
        self.task = task
        self.num_envs = num_envs
        self.render_mode = _render_mode(render_mode)
        self._mode = AutoresetMode(autoreset_mode)
        self._converted = convert or (lambda x: x)
        self.metadata = _metadata(task, autoreset_mode=self._mode)
        self.single_action_space = task.action_space
        self._on_device: DeviceEpisodes | None = None
        if device is None:
            if like is not None:
                raise ArgumentError("like is an array of a device; give device='cuda', too")
            self.single_observation_space = task.observation_space
            self._episodes = Episodes(task, num_envs, threads, dtype)
        else:
            cuda_device(device)
            _check_device_options(like, dtype, threads, convert)
            self.single_observation_space = _with_type(task.observation_space, dtype)
            self._on_device = DeviceEpisodes(task, num_envs, like, RESETS[self._mode], fused)
        self.action_space = batch_space(task.action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._done = np.zeros(num_envs, bool)
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]

    @property
    def state(self) -> TaskState:
        """The state of the task, of all members; with a device a copy of it in memory of the CPU."""
        return self._on_device.state() if self._on_device else self._episodes.begun()

    def replace(self, members: Any, q: Array = None, v: Array = None) -> None:
        """Give members (a mask or indices) another q or v, such as by a push; everything else stays.

        With a device q and v are arrays there with a row for each member, of which the rows of `members`
        count; a mask may be an array there, and indices are numbers of the CPU.
        """
        if self._on_device:
            self._on_device.push(self._mask(members), q, v)
        else:
            self._episodes.push(members, q, v)

    def _mask(self, members: Any) -> Any:
        """Members as a mask: of NumPy for indices and masks of the CPU; a mask on a device stays there."""
        if not isinstance(members, (np.ndarray, np.integer, list, tuple, int, slice)):
            return members
        mask = np.zeros(self.num_envs, bool)
        mask[members] = True
        return mask

    def render(self) -> tuple[Array, ...] | None:
        """A picture of each member, if `render_mode` is "rgb_array"; otherwise None."""
        return tuple(_frame(self.task, q) for q in self.state.q) if self.render_mode else None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin anew: all members, or the ones that the mask `options["reset_mask"]` chooses."""
        members = self._to_reset((options or {}).get("reset_mask"))
        if self._on_device:
            return self._reset_on_device(self._on_device, seed, members)
        self._seed(seed, members)
        if members.any():
            self._begin(members)
        return self._converted(self._episodes.observations), {}

    def _to_reset(self, mask: Any) -> Any:
        """The mask of the members to reset; of a device it stays as it is. Raises ShapeError."""
        if self._on_device and mask is not None and not isinstance(mask, (np.ndarray, list, tuple)):
            return mask
        members = np.ones(self.num_envs, bool) if mask is None else np.asarray(mask)
        if members.shape != (self.num_envs,) or members.dtype != bool:
            raise ShapeError(f"reset_mask is {members!r}, expected {self.num_envs} truth values")
        return members

    def _seed(self, seed: int | Sequence[int | None] | None, members: Array) -> Array:
        """Give the members of a mask their seeds; a mask of those that have got one."""
        wanted = range(seed, seed + self.num_envs) if isinstance(seed, int | np.integer) else seed
        seeds = [None] * self.num_envs if wanted is None else list(wanted)
        if len(seeds) != self.num_envs:
            raise ShapeError(f"there are {len(seeds)} seeds for {self.num_envs} environments")
        new = np.zeros(self.num_envs, bool)
        for i, chosen in enumerate(seeds):
            if members[i] and chosen is not None:
                self._generators[i] = seeding.np_random(chosen)[0]
                new[i] = True
        return new

    def _reset_on_device(
        self, episodes: DeviceEpisodes, seed: int | Sequence[int | None] | None, members: Any
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            if not isinstance(members, np.ndarray):
                raise ArgumentError(
                    "seeds are for members that the CPU knows: give reset_mask as an array of NumPy, or "
                    "leave out seed"
                )
            new = self._seed(seed, members)
            if new.any():
                episodes.forget(new)
        return episodes.begin(self._generators, members), {}

    def _step_on_device(
        self, episodes: DeviceEpisodes, actions: Any
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        results = episodes.step(self._generators, actions)
        done = results.pop("done")
        final = results.pop("final", None)
        infos = {} if final is None else {"final_obs": final, "_final_obs": done}
        return *results.values(), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self._on_device:
            return self._step_on_device(self._on_device, actions)
        # members that ended in the last step begin anew: in this step, in the same step, or by the user
        again = self._done
        if self._mode is AutoresetMode.DISABLED and again.any():
            raise ShapeError(
                f"members {np.flatnonzero(again)} have ended; begin them anew by "
                'reset(options={"reset_mask": terminations | truncations})'
            )
        observations, reward, lost, cut = self._episodes.step(actions)
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
        return *map(self._converted, (observations, reward, lost, cut)), infos

    def _begin(self, members: Array) -> None:
        self._episodes.begin(self._generators, members)
        self._done = self._done & ~members


def _check_device_options(like: Any, dtype: Any, threads: int | None, convert: Any) -> None:
    """Raise ArgumentError for options that mean nothing on a device, and for those that are missing there."""
    if like is None:
        raise ArgumentError(
            "with device='cuda' give like=, an array there, such as torch.zeros(1, device='cuda', "
            "dtype=torch.float64): the arrays of the environment are of its library"
        )
    if threads not in (None, 1):
        raise ArgumentError(f"threads is {threads!r}, and a device has its own; leave it out")
    if convert is not None:
        raise ArgumentError("convert is for arrays of the CPU; with a device, like= says the library")
    kind = str(getattr(like, "dtype", "")).rpartition(".")[2]
    if kind != np.dtype(dtype).name:
        raise ArgumentError(
            f"like holds {kind or 'no numbers'}, and dtype is {np.dtype(dtype).name}; give both the same type"
        )


def _with_type(space: Any, dtype: Any) -> Any:
    """A box with another type of numbers."""
    return Box(space.low.astype(dtype), space.high.astype(dtype), dtype=np.dtype(dtype).type)


def _env(task: type[DecisionProcess], render_mode: str | None = None, **options: Any) -> Env:
    return Env(task(**options), render_mode)


def _envs(
    task: type[DecisionProcess], num_envs: int, threads: int | None = 1, render_mode: str | None = None,
    dtype: Any = np.float64, device: str | None = None, like: Any = None, **options: Any,
) -> VectorEnv:  # fmt: skip
    given = {"render_mode": render_mode, "dtype": dtype, "device": device, "like": like}
    return VectorEnv(task(**options), num_envs, threads=threads, **given)


for _task in (Hopper, Walker):
    _made = partial(_env, _task)
    _many = partial(_envs, _task)
    gymnasium.register(f"liebody/{_task.__name__}-v0", entry_point=_made, vector_entry_point=_many)
