"""Tasks of learning environments: what a member knows, how an episode begins, what a task decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.arguments import array_of
from ..base.errors import ModelError, ShapeError
from ..hybrid import HybridState, HybridStepper, HybridSystem
from ..scalars import Array

NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Episode:
    """How a member begins an episode; `DecisionProcess.begin` returns one.

    q, v        the state
    parameters  values of parameters of the system for the whole episode, such as masses, friction and gains;
                the same names in every episode
    command     what the member is told to do, (k,), such as a velocity
    phase       of its clock, in [0, 1)
    memory      the task's own numbers and arrays, the same names and shapes in every episode
    """

    q: Array
    v: Array
    parameters: Mapping[str, Any] = field(default_factory=dict)
    command: Any = ()
    phase: float = 0.0
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskState:
    """The state of a task and its members between two actions. The leading axes `...` are members.

    system       state of the system, with its memory, outputs and ends
    action       the action that led here, (..., k); zero at the beginning of an episode
    last_action  the one before it
    command      of the episode, (..., m)
    phase        of the clock, in [0, 1): it goes on by dt / period with each action, if the task has a period
    touching     which points of contacts touch something, (..., points), in the order of the elements
    air_time     time for which each point has not touched anything at the ends of actions, (..., points)  [s]
    steps        number of actions since the beginning of the episode, (...)
    memory       the task's own arrays, (..., *shape)
    parameters   of the system, of this episode, (..., *shape)
    """

    system: HybridState
    action: Array
    last_action: Array
    command: Array
    phase: Array
    touching: Array
    air_time: Array
    steps: Array
    memory: Mapping[str, Array]
    parameters: Mapping[str, Array]

    @property
    def q(self) -> Array:
        """Configurations (..., nq)."""
        return self.system.q

    @property
    def v(self) -> Array:
        """Velocities (..., nv)."""
        return self.system.v

    @property
    def outputs(self) -> Mapping[str, Array]:
        """Signals of the system by name, as in the `outputs` of a run; computed when one is asked for."""
        return self.system.outputs

    @property
    def contact_forces(self) -> Array:
        """Forces on the points of contacts in the world's axes, (..., points, 3), from the outputs.  [N]"""
        return self.system.contact_forces


class DecisionProcess:
    """A task with a hybrid system: a subclass sets these attributes and overrides the methods.

    The leading axes `...` of arrays are members.

    system        the HybridSystem
    dt            time for which an action is held                                                       [s]
    horizon       number of actions after which an episode is truncated
    period        of the clock `TaskState.phase`; None: it stands still                                  [s]
    action_space, observation_space    of one member, Boxes of gymnasium
    """

    system: HybridSystem
    dt: float
    horizon: int
    period: float | None = None
    action_space: Any
    observation_space: Any

    def begin(self, rng: np.random.Generator) -> Episode:
        """How a member begins."""
        raise NotImplementedError

    def parameters(self, state: TaskState, action: Array) -> Mapping[str, Array]:
        """The parameters of the system that actions (..., n) are, each (..., *shape).

        They go before the parameters of the episode.
        """
        raise NotImplementedError

    def remember(self, before: TaskState, after: TaskState) -> Mapping[str, Array]:
        """The task's own memory after an action; `after.memory` is the memory before it."""
        return after.memory

    def observe(self, state: TaskState) -> Array:
        """Observations (..., m)."""
        raise NotImplementedError

    def reward(self, before: TaskState, after: TaskState) -> Array:
        """Rewards (...) of the actions `after.action`."""
        raise NotImplementedError

    def is_lost(self, state: TaskState) -> Array:
        """Which members have failed, (...); those that the system itself ended have failed anyway."""
        return np.zeros(state.steps.shape, bool)


class Episodes:
    """Members that do a task, stepped together.

    sim    the stepper
    state  a TaskState, None before the first `begin`
    dtype  float64 or float32, in which the system is stepped: the type of `q` and `v` of states
    """

    def __init__(
        self, task: DecisionProcess, members: int, threads: int | None = 1, dtype: Any = np.float64
    ) -> None:
        self.task = task
        self.members = members
        self.sim = HybridStepper(task.system, task.dt, members, threads=threads, dtype=dtype)
        self.state: TaskState | None = None

    def begin(self, generators: Sequence[np.random.Generator], members: Array) -> None:
        """Begin anew, with a generator for each of these members (a mask); the others stay as they are."""
        # each member draws its start from its generator: its episodes depend on its seed alone
        episodes = [self.task.begin(rng) for rng, new in zip(generators, members, strict=True) if new]
        q, v, command, phase = (
            stacked(name, [getattr(x, name) for x in episodes]) for name in ("q", "v", "command", "phase")
        )
        parameters, memory = (
            by_name(kind, [getattr(x, kind) for x in episodes]) for kind in ("parameters", "memory")
        )
        old = self.state
        n = len(episodes)
        if old is None or members.all():  # at t = 0, so that equal seeds give equal bits
            system = self.sim.start(q, v, parameters)
        else:
            system = self.sim.reset(old.system, members, q, v, parameters)
        touching = system.touching
        rest = np.zeros((n, *self.task.action_space.shape))
        new = TaskState(
            system, rest, rest, command, phase, touching[members], np.zeros((n, touching.shape[-1])),
            np.zeros(n, int), memory, parameters,
        )  # fmt: skip
        self.state = new if old is None or n == self.members else _merged(old, new, members)

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array]:
        """Observations, rewards, which members are lost, and which are cut at the horizon."""
        task = self.task
        before = self.begun()
        action = np.array(numbers(actions), float)  # a copy, which nobody changes later
        if action.shape != before.action.shape:
            raise ShapeError(f"actions have shape {action.shape}, expected {before.action.shape}")
        system = self.sim.step(before.system, {**before.parameters, **task.parameters(before, action)})
        touching = system.touching
        after = replace(
            before,
            system=system,
            action=action,
            last_action=before.action,
            phase=(before.phase + (task.dt / task.period if task.period else 0.0)) % 1.0,
            touching=touching,
            air_time=np.where(touching, 0.0, before.air_time + task.dt),
            steps=before.steps + 1,
        )
        self.state = after = replace(after, memory=task.remember(before, after))
        # a member is lost by the system or by the task; at the horizon it is only cut
        lost = system.ended | task.is_lost(after)
        reward = task.reward(before, after)
        return self.observations, reward, lost, ~lost & (after.steps >= task.horizon)

    def push(self, members: Any, q: Array = None, v: Array = None) -> None:
        """Give members (a mask or indices) another q or v; everything else stays, as of the contacts."""
        state = self.begun()
        self.state = replace(state, system=self.sim.replace(state.system, members, q, v))

    @property
    def observations(self) -> Array:
        dtype = self.task.observation_space.dtype
        return np.asarray(self.task.observe(self.begun())).astype(dtype, copy=False)

    def begun(self) -> TaskState:
        """The state; raises ModelError before the first `begin`."""
        if self.state is None:
            raise ModelError("the environment has not begun; call reset() first")
        return self.state


def numbers(given: Any) -> Array:
    """An array of this or of another library, without a copy where its memory is the processor's."""
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack__"):
        return array_of("actions", given)
    return np.from_dlpack(given)


def stacked(name: str, values: Sequence[Any]) -> Array:
    try:
        return np.array(values, float)
    except (ValueError, TypeError):
        shapes = sorted({np.shape(x) for x in values})
        raise ShapeError(
            f"begin gave {name} of the shapes {', '.join(map(str, shapes))}, expected numbers of one shape"
        ) from None


def by_name(kind: str, values: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Arrays (members, *shape) by name from the values of each member."""
    first = list(values[0]) if values else []
    for other in values:
        if list(other) != first:
            raise ModelError(
                f"begin gave the {kind} {', '.join(first) or 'none'} to one member and "
                f"{', '.join(other) or 'none'} to another; give all the same names, in one order"
            )
    return {name: stacked(name, [x[name] for x in values]) for name in first}


def _merged(old: TaskState, new: TaskState, members: Array) -> TaskState:
    """The old state, in which these members (a mask) are the new ones."""

    def merged(name: str, x: Array, y: Array) -> Array:
        if y.shape[1:] != x.shape[1:]:
            raise ShapeError(f"begin gave {name} of the shape {y.shape[1:]}, the others have {x.shape[1:]}")
        x = x.copy()
        x[members] = y
        return x

    names = ("action", "last_action", "command", "phase", "touching", "air_time", "steps")
    arrays = {name: merged(name, getattr(old, name), getattr(new, name)) for name in names}
    for kind in ("memory", "parameters"):
        x, y = getattr(old, kind), getattr(new, kind)
        if list(x) != list(y):
            raise ModelError(
                f"begin gave the {kind} {', '.join(y) or 'none'}, and the others have "
                f"{', '.join(x) or 'none'}; give all the same names, in one order"
            )
        arrays[kind] = {name: merged(name, x[name], y[name]) for name in x}
    return TaskState(new.system, **arrays)
