"""Learning tasks on CUDA devices: members that do a task, in arrays that live there.

The functions of a task (`DecisionProcess`) are traced once, on arrays of symbols (`SymbolArray`) with one
member. An action is three launches: `before` computes parameters of the system, `DeviceIntervals` holds them
for dt, `after` computes observations, rewards and ends, and begins members anew.

Episodes are drawn on the CPU, by `begin`, ahead of time: each member has a ring of AHEAD of them on the
device, and takes the next one without asking the CPU, in the order in which its generator has drawn them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import DeviceError, ModelError, ShapeError
from ..compiler import DeviceKernel, DeviceMemory, DeviceTake, trace
from ..hybrid import DeviceIntervals, HybridState, HybridStepper
from ..scalars import Array, where
from .symbol_arrays import SymbolArray
from .tasks import DecisionProcess, TaskState, by_name, stacked

AHEAD = 8
"""Episodes of each member that are drawn ahead. So often the CPU has to ask how many were begun, at most."""
LATER = "later"  # members that end begin anew with the next action
AT_ONCE = "at once"  # within the action that ends them
BY_USER = "by user"  # by `begin`


class FlatParts:
    """Names for the parts of flat arrays of many members, {name: shape}, in this order.

    Names are any text, and entries may be symbols. A `FlatLayout` is for systems: its names are words, its
    parts have defaults, and it writes symbols of one member.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.size = sum(map(math.prod, self.shapes.values()))

    def read(self, flat: Any) -> dict[str, Any]:
        """The parts of flat (..., size), (..., *shape) each."""
        parts = {}
        first = 0
        for name, shape in self.shapes.items():
            last = first + math.prod(shape)
            parts[name] = flat[..., first:last].reshape(*flat.shape[:-1], *shape)
            first = last
        return parts

    def write(self, parts: Mapping[str, Any], lead: tuple[int, ...]) -> Any:
        """The flat array (*lead, size) of parts (*lead, *shape)."""
        for name, shape in self.shapes.items():
            if np.shape(parts[name]) != (*lead, *shape):
                raise ShapeError(
                    f"{name} has shape {np.shape(parts[name])} in an array of members {lead}, expected "
                    f"{(*lead, *shape)}, as at the beginning of an episode"
                )
        flat = [np.reshape(parts[name], (*lead, -1)) for name in self.shapes]
        return np.concatenate(flat, axis=-1) if flat else np.zeros((*lead, 0))

    def of_kind(self, kind: str, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The parts whose names begin with a kind and a space, by the rest of their names."""
        first = f"{kind} "
        return {name.removeprefix(first): x for name, x in parts.items() if name.startswith(first)}


def task_arrays(layout: FlatParts, flat: Any) -> dict[str, Any]:
    """The fields of a `TaskState` in the task's flat arrays (..., size), numbers or symbols."""
    parts = layout.read(flat)
    fields = {name: parts[name] for name in ("action", "last_action", "command", "phase", "air_time")}
    memory, parameters = layout.of_kind("memory", parts), layout.of_kind("parameter", parts)
    return {**fields, "memory": memory, "parameters": parameters}


class SymbolicSystem:
    """A stand-in for the `HybridState` that a task reads: symbols of one member, arrays (1, ...)."""

    def __init__(self, march: DeviceIntervals, rows: Any, parameters: Any) -> None:
        self._system = system = march.system
        self._arguments = rows, parameters
        self._march = march
        row = SymbolArray.of(rows)[None]
        u = SymbolArray.of(parameters)[None]
        self._first = march.places["intervals"].start
        self.intervals = row[:, self._first]
        self.t = self.intervals * march.interval
        _, self.q, self.v, self.memory, _ = system.read_flat(self.t, row[:, : self._first], u)
        self.ended = row[:, march.places["reason"].start] != 0
        self.parameters = system.parameters.named(u[:, : system.parameters.size])
        flags = [SymbolArray.of(x) for x in system.touching(self.memory).values()]
        self.touching = SymbolArray.of(np.concatenate([np.zeros((1, 0), object), *flags], axis=-1))

    @cached_property
    def outputs(self) -> dict[str, Any]:
        rows, u = self._arguments
        y = rows[: self._first]
        t = rows[self._first] * self._march.interval
        signals = self._system.outputs(*self._system.read_flat(t, y, u)) if self._system.outputs else {}
        return {name: SymbolArray.of(x)[None] for name, x in signals.items()}

    @cached_property
    def contact_forces(self) -> Any:
        names = self._system.touching(self.memory)
        forces = [self.outputs[name] for name in names]
        return SymbolArray.of(np.concatenate([np.zeros((1, 0, 3), object), *forces], axis=-2))


class DeviceEpisodes:
    """Members that do a task on a CUDA device, stepped together; the counterpart of `Episodes`.

    task     its functions are traced, so they may not branch on values
    like     an array on the device: the library, the device and the type of numbers of all arrays
    resets   when members that have ended begin anew: LATER, AT_ONCE or BY_USER
    fused    whether products and sums may become fused multiply-adds

    Each member has its own clock, which begins with its episode.
    """

    def __init__(
        self, task: DecisionProcess, members: int, like: Any, resets: str, fused: bool = True
    ) -> None:
        self.task = task
        self.members = members
        self.resets = resets
        self.fused = fused
        self.memory = DeviceMemory(like)
        if self.memory.name == "warp":
            raise DeviceError(
                "arrays of Warp do not compare, and flags are truth values here; give like=torch.zeros(1, "
                "device='cuda'), and take the arrays by warp.from_torch"
            )
        system = task.system.with_constant_tables()  # devices cannot read tables in memory of the CPU
        self.sim = HybridStepper(system, task.dt, members, dtype=self.memory.dtype)
        self.march = self.sim.rows_on_device(fused=fused)
        self._arrays: list[Any] = []  # rows, task, parameters, begun: of all members, on the device
        self._ring: Any = None  # (members, AHEAD, size), on the device
        self._host_ring = np.zeros((members, 0))
        self._drawn = np.zeros(members, int)  # episodes of each member that are drawn
        self._left = 0  # episodes that each member can begin before the CPU has to draw more
        self._pushes: dict[tuple[str, ...], DeviceKernel] = {}  # by the names of the values that they set

    # -- layouts ------------------------------------------------------------------------------------------

    def _lay_out(self, episodes: Sequence[Any]) -> None:
        """The parts of the task's array, whose shapes episodes determine."""
        first = episodes[0]
        points = sum(x.shape[-1] for x in self.march.system.touching(self._memory_of_system()).values())
        action = self.task.action_space.shape
        shapes = {
            "action": action,
            "last_action": action,
            "command": np.shape(first.command),
            "phase": (),
            "air_time": (points,),
            "done": (),
        }
        shapes |= {f"memory {name}": np.shape(x) for name, x in first.memory.items()}
        shapes |= {f"parameter {name}": np.shape(x) for name, x in first.parameters.items()}
        self.parts = FlatParts(shapes)
        sizes = [self.march.inputs["rows"][0], self.parts.size, self.march.inputs["parameters"][0]]
        # an episode in the ring is a row of the system, one of the task and one of parameters, end to end
        self._splits = np.cumsum(sizes).tolist()
        self._take = DeviceTake(AHEAD, self._splits[-1])

    def _memory_of_system(self) -> Any:
        """The memory of the system with its defaults, for the numbers of points."""
        system = self.march.system
        return system.memory.read(system.memory.values({}, (1,)))

    # -- traced functions ---------------------------------------------------------------------------------

    def _state(self, rows: Any, own: Any, parameters: Any) -> TaskState:
        """The symbolic state of a task from its flat arrays."""
        system: Any = SymbolicSystem(self.march, rows, parameters)
        arrays = task_arrays(self.parts, SymbolArray.of(own)[None])
        return TaskState(system=system, touching=system.touching, steps=system.intervals, **arrays)

    def _flat(self, state: TaskState, done: Any) -> Any:
        """The task's flat array of a symbolic state."""
        named = ("action", "last_action", "command", "phase", "air_time")
        parts = {name: getattr(state, name) for name in named} | {"done": done}
        parts |= {f"memory {name}": SymbolArray.of(x) for name, x in state.memory.items()}
        parts |= {f"parameter {name}": x for name, x in state.parameters.items()}
        return SymbolArray.of(self.parts.write(parts, (1,))[0]).astype(float)

    def _observed(self, state: TaskState) -> Any:
        return SymbolArray.of(self.task.observe(state))[0]

    @property
    def _shapes(self) -> dict[str, int]:
        first, second, third = self._splits
        return {"rows": first, "task": second - first, "parameters": third - second}

    @cached_property
    def _before(self) -> DeviceKernel:
        """(rows, task, parameters, actions) -> parameters of the system until the next action."""
        system = self.march.system

        def before(rows: Any, own: Any, parameters: Any, actions: Any) -> dict[str, Any]:
            state = self._state(rows, own, parameters)
            given = self.task.parameters(state, SymbolArray.of(actions)[None])
            system.parameters.check(given)
            # the episode's own parameters, over which the action's go
            u = np.array(parameters, object)
            for name, value in given.items():
                if name == "step":
                    raise ModelError(
                        "an action cannot be the length of a step on a device; give step= to the system"
                    )
                shape = system.parameters.defaults[name].shape
                u[system.parameters.places[name]] = np.broadcast_to(value, (1, *shape)).ravel()
            return {"parameters": u}

        shapes = {**self._shapes, "actions": self.task.action_space.shape}
        return DeviceKernel(trace(before, shapes, "step"), fused=self.fused)

    @cached_property
    def _after(self) -> DeviceKernel:
        """The results of an action: the new arrays, observations, rewards and flags."""
        task = self.task

        def after(
            rows: Any,
            own: Any,
            parameters: Any,
            actions: Any,
            later: Any,
            held: Any,
            episode: Any,
            begun: Any,
        ) -> dict[str, Any]:
            before = self._state(rows, own, parameters)
            moved: Any = SymbolicSystem(self.march, later, held)
            state = replace(
                before,
                system=moved,
                action=SymbolArray.of(actions)[None],
                last_action=before.action,
                phase=(before.phase + (task.dt / task.period if task.period else 0.0)) % 1.0,
                touching=moved.touching,
                air_time=np.where(moved.touching, 0.0, before.air_time + task.dt),
                steps=moved.intervals,
            )
            state = replace(state, memory=task.remember(before, state))
            # the system or the task has lost a member; at the horizon a member is only cut, as in `Episodes`
            lost: Any = moved.ended | task.is_lost(state)
            cut: Any = ~lost & (state.steps >= task.horizon)
            reward: Any = SymbolArray.of(task.reward(before, state))
            again: Any = False
            done: Any = lost | cut
            results: dict[str, Any] = {}
            # `again`: the ring's next episode takes the member's place. With LATER the last action has ended
            # the member, and this action is ignored; with AT_ONCE this action has ended it.
            if self.resets == LATER:
                again = self.parts.read(SymbolArray.of(own)[None])["done"][0] > 0.5
                reward, lost, cut, done = (np.where(again, 0.0, x) for x in (reward, lost, cut, done))
            elif self.resets == AT_ONCE:
                results["final"] = self._observed(state)
                again = done[0]
            # kept for the next action: who waits for a new episode
            waits = np.zeros(1) if self.resets == AT_ONCE else done
            begin = np.split(episode, self._splits[:-1])
            stepped = later, self._flat(state, waits), held
            new = [where(again, a, b) for a, b in zip(begin, stepped, strict=True)]
            chosen = self._state(*new)
            return {
                **dict(zip(self._shapes, new, strict=True)),
                "begun": begun + where(again, 1.0, 0.0),
                "observations": self._observed(chosen),
                "rewards": reward[0],
                "terminations": lost[0],
                "truncations": cut[0],
                "done": done[0],
                **results,
            }

        first, _, third = self._splits
        shapes: dict[str, Any] = {**self._shapes, "actions": task.action_space.shape}
        shapes |= {"later": first, "held": self._shapes["parameters"], "episode": third, "begun": ()}
        return DeviceKernel(trace(after, shapes, "after"), fused=self.fused)

    @cached_property
    def _beginning(self) -> DeviceKernel:
        """(rows, task, parameters, begun, episode, mask) -> arrays where the mask begins anew."""

        def beginning(rows: Any, own: Any, parameters: Any, begun: Any, episode: Any, mask: Any) -> Any:
            again = mask > 0.5
            begin = np.split(episode, self._splits[:-1])
            new = [where(again, a, b) for a, b in zip(begin, (rows, own, parameters), strict=True)]
            return {
                **dict(zip(self._shapes, new, strict=True)),
                "begun": begun + where(again, 1.0, 0.0),
                "observations": self._observed(self._state(*new)),
            }

        shapes = {**self._shapes, "begun": (), "episode": self._splits[-1], "mask": ()}
        return DeviceKernel(trace(beginning, shapes, "begin"), fused=self.fused)

    # -- episodes -----------------------------------------------------------------------------------------

    def _draw(self, generators: Sequence[np.random.Generator], counts: Array) -> None:
        """Draw so many more episodes of each member, and copy the ring to the device."""
        numbers = [(i, k) for i, count in enumerate(counts) for k in range(count)]
        episodes = [self.task.begin(generators[i]) for i, _ in numbers]
        if episodes:
            if not self._host_ring.size:
                self._lay_out(episodes)
                self._host_ring = np.zeros((self.members, AHEAD, self._splits[-1]))
            rows = self._rows(episodes)
            # The k-th episode of a member lies at k modulo AHEAD. Only places of episodes that were begun
            # are overwritten, because `counts` are never more than these.
            places = np.array([(i, (self._drawn[i] + k) % AHEAD) for i, k in numbers])
            self._host_ring[places[:, 0], places[:, 1]] = rows
            self._drawn += counts
        self._ring = self.memory.put(self._host_ring)

    def _rows(self, episodes: Sequence[Any]) -> Array:
        """Episodes as rows of the ring: rows of the system, of the task, and parameters."""
        n = len(episodes)
        q, v, command, phase = (
            stacked(name, [getattr(x, name) for x in episodes]) for name in ("q", "v", "command", "phase")
        )
        parameters, memory = (
            by_name(kind, [getattr(x, kind) for x in episodes]) for kind in ("parameters", "memory")
        )
        parts = {name: np.zeros((n, *shape)) for name, shape in self.parts.shapes.items()}
        parts |= {"command": command, "phase": phase}
        for kind, values in (("memory", memory), ("parameter", parameters)):
            expected = [x.removeprefix(f"{kind} ") for x in self.parts.shapes if x.startswith(f"{kind} ")]
            if list(values) != expected:
                raise ModelError(
                    f"begin gave the values {', '.join(values) or 'none'} of {kind}, and earlier "
                    f"{', '.join(expected) or 'none'}; give all the same names, in one order"
                )
            parts |= {f"{kind} {name}": x for name, x in values.items()}
        rows = self.march.start(q, v, parameters)
        u = self.march.parameters(parameters, (n,))
        return np.concatenate([rows, self.parts.write(parts, (n,)), u], axis=1)

    def _refill(self, generators: Sequence[np.random.Generator]) -> None:
        """Draw the episodes that are missing in the ring; waits for the device."""
        begun = self.memory.fetch(self._arrays[3]).astype(int)
        self._draw(generators, begun + AHEAD - self._drawn)
        self._left = AHEAD

    def forget(self, members: Array) -> None:
        """Members (a mask) have new generators: what is drawn of the old ones does not count."""
        begun = (
            self.memory.fetch(self._arrays[3]).astype(int) if self._arrays else np.zeros(self.members, int)
        )
        self._drawn[members] = begun[members]
        self._left = 0  # so the next `begin` draws

    # -- members ------------------------------------------------------------------------------------------

    def begin(self, generators: Sequence[np.random.Generator], members: Any) -> Any:
        """Begin anew, with a generator for each member; `members` is a mask, of the CPU or of the device."""
        # `_left` counts as if each member began with each call, so the CPU need not know who began. A member
        # that began less often has more episodes left than that.
        if not self._arrays:
            if not isinstance(members, np.ndarray) or not members.all():
                raise ModelError("the environment has not begun; call reset() without reset_mask first")
            self._draw(generators, np.full(self.members, AHEAD))
            self._left = AHEAD
            zeros = [self.memory.put(np.zeros((self.members, n))) for n in self._shapes.values()]
            self._arrays = [*zeros, self.memory.put(np.zeros(self.members))]
            self._ones = self.memory.put(np.ones(self.members))
        elif not self._left:
            self._refill(generators)
        mask = self._mask(members)
        rows, own, parameters, begun = self._arrays
        episode = self._take(self._ring, begun)
        *self._arrays, observations = self._beginning(rows, own, parameters, begun, episode, mask)
        self._left -= 1
        return observations

    def step(self, generators: Sequence[np.random.Generator], actions: Any) -> dict[str, Any]:
        """Take actions: observations, rewards, terminations, truncations and done; `final` with AT_ONCE."""
        rows, own, parameters, begun = self.begun()
        if not self._left and self.resets != BY_USER:
            self._refill(generators)
        held = self._before(rows, own, parameters, actions)
        later = self.march(rows, held)
        episode = self._take(self._ring, begun)
        results = self._after(rows, own, parameters, actions, later, held, episode, begun)
        named = dict(zip(self._after.outputs, results, strict=True))
        self._arrays = [named.pop(name) for name in (*self._shapes, "begun")]
        self._left -= self.resets != BY_USER
        flags = ("terminations", "truncations", "done")
        return {name: x != 0 if name in flags else x for name, x in named.items()}

    def begun(self) -> list[Any]:
        """The arrays; raises ModelError before the first `begin`."""
        if not self._arrays:
            raise ModelError("the environment has not begun; call reset() first")
        return self._arrays

    def push(self, members: Any, q: Any = None, v: Any = None) -> None:
        """Give members (a mask) other q (members, nq) or v (members, nv), arrays of the device."""
        rows, *others = self.begun()
        given = {name: x for name, x in (("q", q), ("v", v)) if x is not None}
        mask = self._mask(members)
        if given:
            self._arrays = [self._push(tuple(given))(rows, mask, *given.values()), *others]

    def _mask(self, members: Any) -> Any:
        """A mask of the CPU or of the device as numbers 1 and 0 on the device."""
        if isinstance(members, np.ndarray):
            return self.memory.put(members.astype(float))
        # a single number, or indices, would be multiplied without an error, and choose other members
        kind = str(getattr(members, "dtype", type(members).__name__)).rpartition(".")[2]
        shape = tuple(getattr(members, "shape", ()))
        if kind != "bool" or shape != (self.members,):
            raise ShapeError(
                f"the members on a device are chosen by {kind} of the shape {shape}, expected a mask: "
                f"{self.members} truth values; indices may be a list or an array of NumPy"
            )
        return self._ones * members

    def _push(self, names: tuple[str, ...]) -> DeviceKernel:
        """(rows, mask, values of these names) -> rows in which members of the mask have these values."""
        if names in self._pushes:
            return self._pushes[names]
        places = {name: self.march.places[name] for name in names}

        def pushed(rows: Any, mask: Any, *values: Any) -> Any:
            new = np.array(rows, object)
            for at, x in zip(places.values(), values, strict=True):
                new[at] = where(mask > 0.5, x, rows[at])
            return {"rows": new}

        sizes = {name: at.stop - at.start for name, at in places.items()}
        shapes = {"rows": self._shapes["rows"], "mask": (), **sizes}
        kernel = DeviceKernel(trace(pushed, shapes, "push"), fused=self.fused)
        return self._pushes.setdefault(names, kernel)

    def state(self) -> TaskState:
        """A copy of the state of the task in memory of the CPU."""
        rows, own, parameters, _ = (self.memory.fetch(x).astype(float) for x in self.begun())
        n = self.members
        at = self.march.places
        steps = rows[:, at["intervals"].start].astype(int)
        y = np.ascontiguousarray(rows[:, : at["intervals"].start]).astype(self.memory.dtype)
        reasons = rows[:, at["reason"].start].astype(int)
        # rows have times since the last events, and states the times of these events
        last = steps[:, None] * self.march.interval - rows[:, at["since_event"]]
        tables = np.empty((n, 0), object)
        # a HybridState has one time for all members: the first one's
        system = HybridState(self.sim, int(steps[0]), y, reasons, last, parameters, tables)
        arrays = task_arrays(self.parts, own)
        return TaskState(system=system, touching=system.touching, steps=steps, **arrays)
