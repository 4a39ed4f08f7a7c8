"""Derivatives through simulations: of states, of samples and of integrals, by all that a motion depends on.

A simulation is a chain of steps y_(k+1) = Phi_k(y_k, u_k). `step_derivatives` gives the tangents of a step:

    s_(k+1) = A_k s_k + B_k w_k,
    lambda_k = A_k^T lambda_(k+1) + dJ/dy_k,    dJ/du_k = B_k^T lambda_(k+1)

forwards for some directions, backwards (adjoints) for one cost J and all inputs. These are exact derivatives
of the discrete method. A_k and B_k of many steps are computed together. Long simulations do not keep all
states: they keep checkpoints, and simulate again from one to the next.

Griewank, Walther (2008), Evaluating Derivatives, chapters 3 and 12; Hairer, Lubich, Wanner (2006), Geometric
Numerical Integration, section VI.4, for tangents of one-step methods.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np

from ..base.arguments import checked, floats, wrong_shape
from ..base.concurrency import Sendable, cached_property
from ..base.errors import SECONDS, IntegrationError, ModelError, known, positive
from ..compiler import Function, Kernel, trace
from ..compiler.programs.layout import FlatLayout
from ..groups import Product, R
from ..hybrid import HybridSystem, VariedSystem
from ..integrators import MechanicalMethod, Method, differentiated
from ..mechanisms import Forces, Mechanism, forces_of
from ..robot import Robot
from ..runs import Run
from ..scalars import Array
from ..scalars.linear import matvec
from ..stepping import Clock, Samples
from ..stepping.march import parts as parts_at_samples
from ..stepping.recurrence import recurrence
from .efforts import is_sampled
from .setup import flow_of, method_of, points_of, refuse_foreign
from .simulate import refuse_fields, run_of, simulation_of
from .step_derivatives import (
    ExplicitSteps,
    ImplicitSteps,
    Inputs,
    beginning,
    states_group,
    steps_of,
)

SEGMENT = 32e6  # bytes of the tangents of steps that are held at a time


class Tangents(NamedTuple):
    """Derivatives of the samples of a motion, and of its integral, by an input of the shape (*shape,).

    q         (..., times, dim, *shape), left-trivialised: q(t) becomes q(t) exp(q dx) for a change dx
    v         (..., times, nv, *shape)
    integral  (..., times, *shape); None where there is none
    """

    q: Array
    v: Array
    integral: Array | None


class Gradient(NamedTuple):
    """The derivatives of a number by all inputs of a motion; leading axes belong to the ensemble.

    q0, v0      (..., dim), along the group, and (..., nv)
    tau         (..., nu), or (..., samples, nu) where efforts are samples; None where they are a function
    parameters  by name, (..., *shape)
    """

    q0: Array
    v0: Array
    tau: Array | None
    parameters: dict[str, Array]


@checked
def sensitivities(
    mechanism: Robot | Mechanism | HybridSystem,
    q0: Array = None,
    v0: Array = None,
    *,
    t_end: float,
    dt: float | None = None,
    method: str | Method | MechanicalMethod = "rkmk4",
    tau: Any = None,
    running: Callable[..., Any] | None = None,
    record_every: float | None = None,
    t_eval: Array = None,
    hold: str = "zero",
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    stabilization: Any = None,
    parameters: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Sensitivities:
    """Simulate, and differentiate the motion by its start, its efforts and its parameters.

        s = lb.sensitivities(robot, q0, v0, t_end=1.0, dt=1e-3, tau=(times, values), running=effort)
        s.run, s.integral                  # the motion, and the integral of the running cost
        s.tangents("v0")                   # forwards: how all samples change, one column for each entry
        s.jvp(q0=..., tau=...)             # forwards, along one direction
        s.gradient(end=miss)               # backwards: of one cost, by everything

    running  a cost rate (t, q, v, u) -> number, or (t, q, v, u, p) with parameters p, made of NumPy operators
             and liebody.scalars; its integral is one more equation, solved by the same method
    options  further options of `HybridSystem.simulate`, for a HybridSystem alone

    Everything else is as in `simulate`, with steps of one length dt. All derivatives are exact for these
    steps: they agree with differences of `simulate` to the round-off of the differences. Members of an
    ensemble are differentiated together. Directions of a constrained motion have to obey the constraints, as
    the columns of `linearize(...).basis` do. A HybridSystem, whose variations jump at events, takes its own
    steps, and parameters in place of efforts.

    Raises IntegrationError for efforts that can only be called, for methods that fit what they remember to
    samples within steps, and what `simulate` raises.
    """
    if isinstance(mechanism, HybridSystem):
        of_mechanisms = {"running": running, "tau": tau, "joints": joints, "stabilization": stabilization}
        refuse_foreign(of_mechanisms | {"forces": forces_of(forces) or None})
        options |= {"t_end": t_end, "dt": dt, "method": method, "record_every": record_every, "hold": hold}
        options |= {"t_eval": t_eval, "threads": threads, "progress": progress}
        return _hybrid(mechanism, q0, v0, parameters or {}, options)
    if options:
        raise TypeError(f"sensitivities() has no argument {next(iter(options))!r}")
    chosen = method_of(method)
    h = positive("dt", dt, SECONDS)
    refuse_fields(mechanism)
    simulation = simulation_of(
        mechanism, q0, v0, t_end=t_end, dt=h, method=chosen, tau=tau, record_every=record_every,
        t_eval=t_eval, rtol=None, atol=None,
        hold=hold, forces=forces, joints=joints, prescribed=None, stabilization=stabilization, events=None,
        parameters=parameters, threads=threads,
    )  # fmt: skip
    run = run_of(simulation, progress)
    efforts = simulation.efforts
    if efforts.refusal is not None:
        raise IntegrationError(f"{efforts.refusal}; what can only be called is not differentiated")
    moving = simulation.mechanism
    samples = efforts.taken(simulation.flow())
    meter = _meter(moving, efforts.traced, samples, running)
    discrete = moving, chosen, simulation.stabilized, efforts.traced, meter
    chain = StepChain(discrete, samples, simulation.clock, simulation.states)
    # The shape of what may change of the efforts: all samples, the constant numbers, nothing of a function.
    shape = efforts.samples.table.shape[1:] if is_sampled(tau) else (moving.nu,)
    return Sensitivities(run, chain, simulation.batch, None if efforts.traced else shape, moving.layout)


def _meter(mechanism: Mechanism, feedback: Any, samples: Samples, running: Any) -> Function | None:
    """The running cost as a function of t, y = (q, v), and u, efforts and parameters."""
    if running is None:
        return None
    nq = mechanism.nq
    end = mechanism.nq + mechanism.nv
    width = samples.table.shape[-1]
    nu = width - mechanism.layout.size
    # A fifth argument asks for the parameters, which stand behind the efforts.
    taken = len(inspect.signature(running).parameters) > 4

    def cost(t: Any, y: Array, u: Array) -> Array:
        q = y[:nq]
        v = y[nq:]
        p = [u[nu:]] if mechanism.layout.size else []
        efforts = u[:nu] if feedback is None else np.asarray(feedback(t, q, v, *p))
        more = [mechanism.layout.read(*p)] if taken and p else []
        return _number("running", running(t, q, v, efforts, *more))

    return trace(cost, {"t": (), "y": end, "u": width}, "running")


def _number(name: str, value: Any) -> Array:
    """The number that a user's function has returned, as an array (1,)."""
    if np.shape(value) != ():
        raise wrong_shape(f"the result of {name}", np.shape(value), "one number")
    return np.reshape(value, 1)


class StepChain(Sendable):
    """The steps of a simulation of a mechanism as a chain, from checkpoints, and their derivatives.

    A tangent has the rows of a state y; a last row belongs to the integral, if there is one.

    discrete       mechanism, method, stabilisation, feedback and meter: the arguments of `steps_of`
    t, h           starts and lengths of the steps, cut at samples, (steps,)
    recorded       after how many of these steps each sample of the run is taken
    low, high      the rows of the table of samples between which each step lies, (steps,)
    share, pace    where between them it begins, and how fast it goes from one to the other
    jumps          whether efforts jump at the start of each step
    changes        the steps before which the length changes: C takes steps of one length at a time
    """

    def __init__(
        self, discrete: tuple[Any, ...], samples: Samples, clock: Clock, state: tuple[Array, Array]
    ) -> None:
        mechanism, *_, meter = discrete
        self.is_metered = meter is not None
        self.group = mechanism.group
        self.nv = mechanism.nv
        self.size = mechanism.group.dim + mechanism.nv
        self.width = samples.table.shape[-1]
        self.discrete = discrete
        self.samples = samples
        self.state = state
        assert clock.h is not None
        self.start = points_of(self.flow, *state, clock.h, samples.at(0.0))
        self.dim = states_group(mechanism, self.start.shape[1]).dim
        self.rows = self.dim + self.is_metered
        # Steps that a sample cuts are several here; the run records after whole ones.
        starts, lengths = clock.steps.T.copy()
        counts = self._cut(starts, lengths)
        ends = np.cumsum([0, *counts])
        self.recorded = ends[clock.steps_of_rows]
        # The fit of the memory to a sample within a step is not differentiated.
        if (counts != 1).any() and getattr(self.flow, "memory", None):
            raise IntegrationError(
                "this method fits what it remembers to samples of efforts within a step; let samples lie at "
                "ends of steps, or take another method, for derivatives"
            )
        # Efforts of a step are low + theta (high - low), theta = share + pace (t - start). Before the first
        # sample and after the last one they are constant: the pace is zero.
        k = self._pieces(self.t)
        last = samples.last
        self.low = np.maximum(k, 0)
        self.high = np.minimum(np.maximum(k, 0) + 1, last)
        self.linear = samples.linear and not samples.constant
        # When the sample at the start of the piece is.
        at = samples.first + samples.interval * k
        self.pace = np.where((k >= 0) & (k < last), 1 / samples.interval, 0.0)
        self.share = self.pace * (self.t - at)
        # Efforts that are held jump where a step begins at a sample. A method that remembers must know that.
        same_time = 1e-9 * samples.interval + 1e-15 * np.abs(self.t)
        self.jumps = (k > 0) & (np.abs(at - self.t) <= same_time) & (not samples.linear)
        # The starts of cut steps are no multiples of a length, so their round-off counts as a change, too.
        changes = (np.diff(self.h) != 0) | (self.t[1:] != self.t[:-1] + self.h[:-1]) & (counts != 1).any()
        self.changes = 1 + np.flatnonzero(changes)

    @cached_property
    def flow(self) -> Any:
        return flow_of(*self.discrete[:4])

    @cached_property
    def steps(self) -> ExplicitSteps | ImplicitSteps:
        mechanism, method, stabilized, feedback, meter = self.discrete
        return steps_of(mechanism, method, stabilized, self.flow, feedback, meter)

    @cached_property
    def begun(self) -> Kernel | None:
        return beginning(self.flow, self.discrete[0])

    def _cut(self, starts: Array, lengths: Array) -> Array:
        """Set times t and lengths h of the steps, cut at samples; into how many parts each step is cut."""
        u = self.samples
        # First which steps have a sample inside: only these need a look one by one.
        inside = np.zeros(len(starts), bool)
        if not u.constant:
            at = u.first + u.interval * np.arange(u.last + 1)
            k = np.clip(np.searchsorted(starts, at, "right") - 1, 0, len(starts) - 1)
            # A sample at the end of a step, but for round-off, cuts nothing.
            off = np.minimum(np.abs(at - starts[k]), np.abs(at - starts[k] - lengths[k]))
            inside[k[(off > 1e-9 * u.interval) & (at > 0) & (at < starts[-1] + lengths[-1])]] = True
        if not inside.any():
            self.t = starts
            self.h = lengths
            return np.ones(len(starts), int)
        t: list[float] = []
        h: list[float] = []
        counts = []
        for begin, length, cut in zip(starts.tolist(), lengths.tolist(), inside, strict=True):
            # The same function cuts steps in the march, so lengths are the same to the last bit.
            pieces = list(parts_at_samples(u, begin, begin + length)) if cut else []
            t += [a for a, _, _ in pieces] or [begin]
            h += [b - a for a, b, _ in pieces] if len(pieces) > 1 else [length]
            counts.append(max(1, len(pieces)))
        self.t = np.array(t)
        self.h = np.array(h)
        return np.array(counts)

    def _pieces(self, t: Array) -> Array:
        """The piece of the samples in which a step from each time lies; -1: before the first sample."""
        u = self.samples
        if u.constant:
            return np.zeros(len(t), int)
        k = np.floor((t + 1e-9 * u.interval + 1e-15 * np.abs(t) - u.first) / u.interval).astype(int)
        return np.clip(k, -1 if u.linear else 0, u.last)

    @cached_property
    def segments(self) -> list[tuple[int, int]]:
        """(first, end) of the steps that are differentiated together, so few that A and B fit in memory."""
        columns = self.width * (1 + self.linear)
        # About ten numbers are held for each entry of A and B: results, stages and copies.
        each = 80 * len(self.start) * self.rows * (self.rows + columns)
        size = max(1, int(SEGMENT / each))
        return [(a, min(a + size, len(self.t))) for a in range(0, len(self.t), size)]

    def _states(self, a: int, b: int, y: Array) -> Array:
        """The states (n, b - a + 1, point) at the ends of the steps from a to b, which begin at y."""
        y = y.copy()
        record = np.full((len(y), b - a + 1, y.shape[1]), np.nan)
        failed = np.zeros(len(y), np.int64)
        record[:, 0] = y
        # From one change of the length to the next all steps are one call.
        bounds = [a, *self.changes[(self.changes > a) & (self.changes < b)].tolist(), b]
        for i, j in pairwise(bounds):
            t = float(self.t[i])
            h = float(self.h[i])
            self.flow.steps(y, self.samples, t, h, j - i, 1, record, 1 + i - a, failed)
        return record

    @cached_property
    def _checkpoints(self) -> list[Array]:
        """The states at which segments begin."""
        states = [self.start]
        for a, b in self.segments[:-1]:
            states.append(self._states(a, b, states[-1])[:, -1])
        return states

    def _linear(self, number: int) -> tuple[Array, Array]:
        """A (n, steps, rows, rows) and B (n, steps, rows, columns) of the steps of a segment."""
        if number in self._kept:
            return self._kept[number]
        a, b = self.segments[number]
        n = len(self.start)
        # The states of the segment, simulated again from its checkpoint.
        Y = self._states(a, b, self._checkpoints[number])
        A = np.zeros((n, b - a, self.rows, self.rows))
        B = np.zeros((n, b - a, self.rows, self.width * (1 + self.linear)))
        shares = self._shares[number] = np.zeros((n, b - a))
        # Steps of one length, with or without a jump at their start, are one call over all members and steps.
        kinds = np.stack([self.h[a:b], self.jumps[a:b]], axis=1)
        for h, jump in sorted(set(map(tuple, kinds.tolist()))):
            k = np.flatnonzero((kinds == (h, jump)).all(axis=1))
            inputs = self._inputs(a + k)
            t = np.tile(self.t[a + k], n)
            y = Y[:, k].reshape(n * len(k), -1)
            end, by_y, by_u = self.steps(t, h, y, inputs, bool(jump))
            A[:, k] = by_y.reshape(n, len(k), *by_y.shape[1:])
            B[:, k] = by_u.reshape(n, len(k), *by_u.shape[1:])
            shares[:, k] = end[:, -1].reshape(n, len(k))
        # A single segment fits in memory, and serves every further derivative.
        if len(self.segments) == 1:
            self._kept[number] = A, B
        return A, B

    @cached_property
    def _kept(self) -> dict[int, tuple[Array, Array]]:
        return {}

    @cached_property
    def _shares(self) -> dict[int, Array]:
        """The integral over each step, (n, steps), for each segment; without meaning if there is no meter."""
        return {}

    def _inputs(self, k: Array) -> Inputs:
        """The efforts of all members in these steps."""
        n = len(self.start)
        u = self.samples
        low, high = (
            np.broadcast_to(u.table[:, at[k]], (n, len(k), self.width)).reshape(n * len(k), self.width)
            for at in (self.low, self.high)
        )
        theta = (np.tile(x[k], n) for x in (self.t, self.share, self.pace))
        return Inputs(low, high, *theta) if self.linear else Inputs(low)

    def integral(self) -> Array | None:
        """The integral at the recorded times, (n, times)."""
        if not self.is_metered:
            return None
        for number in range(len(self.segments)):
            # The shares come with the derivatives of the steps.
            if number not in self._shares:
                self._linear(number)
        shares = np.concatenate([self._shares[k] for k in range(len(self.segments))], axis=1)
        return np.pad(np.cumsum(shares, axis=1), ((0, 0), (1, 0)))[:, self.recorded]

    # -- forwards and backwards -----------------------------------------------------------------------------

    def _beginning(self) -> tuple[Array, Array]:
        """How the first state depends on (q0, v0), (n, rows, size), and on the efforts there."""
        n = len(self.start)
        first = self._inputs(np.zeros(1, int))
        by_state = np.zeros((n, self.rows, self.size))
        by_u = np.zeros((n, self.rows, first.columns))
        # A method that remembers accelerations or multipliers computes the first ones from the start.
        if self.begun is None:
            by_state[:, : self.size] = np.eye(self.size)
        else:
            t = np.zeros(n)
            y = np.concatenate(self.state, axis=1)
            _, by_y, of_efforts = self.begun(t, y, first.at(t), np.full(n, self.h[0]))
            by_state[:, : self.dim] = by_y
            by_u[:, : self.dim] = first.through(of_efforts, t)
        return by_state, by_u

    def along(self, start: Array, table: Array) -> Array:
        """Tangents (n, times, rows) along changes of the start (n, size) and of the table of samples."""
        # s_(k+1) = A_k s_k + B_k w_k, from segment to segment.
        by_state, by_u = self._beginning()
        x = matvec(by_state, start) + matvec(by_u, self._changes_of(table, slice(0, 1))[:, 0])
        tangents = [x[:, None]]
        for number, (a, b) in enumerate(self.segments):
            A, B = self._linear(number)
            added = matvec(B, self._changes_of(table, slice(a, b)))
            tangents.append(recurrence(A, added, tangents[-1][:, -1])[:, 1:])
        return np.concatenate(tangents, axis=1)[:, self.recorded]

    def _changes_of(self, table: Array, steps: slice) -> Array:
        """Changes (n, steps, columns) of the efforts of these steps, from changes of the table of samples."""
        # Efforts that are held depend on one sample, efforts on a line between samples on two.
        entries = [table[:, rows[steps]] for rows in (self.low, self.high)[: 1 + self.linear]]
        return np.concatenate(entries, axis=-1)

    def columns(self, part: Array, of: str) -> Array:
        """Tangents (n, times, rows, columns) by these entries of the start, samples or parameters."""
        n = len(self.start)
        w = self.width
        width = len(part)
        blocks = self.samples.table.shape[1] if of == "samples" else 1  # of columns, one for each sample

        def inject(X: Array, k: int, B: Array) -> None:
            """Add what step k takes from its samples to their columns; parameters are the same in all."""
            ends = ((self.low[k], B[..., :w]), (self.high[k], B[..., w:]))
            for sample, by_sample in ends[: 1 + self.linear]:
                first = sample * width if of == "samples" else 0
                X[..., first : first + width] += by_sample[..., part]

        by_state, by_u = self._beginning()
        X = by_state[..., part] if of == "start" else np.zeros((n, self.rows, blocks * width))
        if of != "start":
            inject(X, 0, by_u)
        tangents = np.empty((n, len(self.recorded), *X.shape[1:]))
        tangents[:, 0] = X
        row = 1
        for number, (a, b) in enumerate(self.segments):
            # All columns together: a product of matrices for each step.
            A, B = self._linear(number)
            for k in range(a, b):
                X = A[:, k - a] @ X
                if of != "start":
                    inject(X, k, B[:, k - a])
                if self.recorded[row] == k + 1:
                    tangents[:, row] = X
                    row += 1
        return tangents

    def back(self, weights: Array) -> tuple[Array, Array]:
        """The derivatives of sum(weights * tangents), weights (n, times, rows): by the start, by the samples.

        (n, size) and (n, samples, width)
        """
        n = len(self.start)
        w = self.width
        by_samples = np.zeros((n, *self.samples.table.shape[1:]))
        dual = np.zeros((n, self.rows))

        def collect(k: Any, g: Array) -> None:
            """Add derivatives by the efforts of steps to their samples; many steps share a sample."""
            ends = ((self.low[k], g[..., :w]), (self.high[k], g[..., w:]))
            for sample, share in ends[: 1 + self.linear]:
                np.add.at(by_samples, (slice(None), sample), share)  # type: ignore[arg-type]

        # lambda_k = A_k^T lambda_(k+1) + weight_k, from the last segment to the first: the same recurrence as
        # forwards, in reversed time and with transposed matrices.
        for number in reversed(range(len(self.segments))):
            a, b = self.segments[number]
            A, B = self._linear(number)
            added = np.zeros((n, b - a + 1, self.rows))
            inside = (self.recorded > a) & (self.recorded <= b)
            added[:, b - self.recorded[inside]] = weights[:, inside]
            # The sweep adds weights where it passes samples, and starts with lambda of the next segment.
            back = recurrence(A[:, ::-1].swapaxes(2, 3), added[:, 1:], dual + added[:, 0])
            dual = back[:, -1]
            collect(slice(a, b), matvec(B.swapaxes(2, 3), back[:, -2::-1]))
        dual = dual + weights[:, 0]
        by_state, by_u = self._beginning()
        collect(slice(0, 1), matvec(by_u.swapaxes(1, 2), dual)[:, None])
        return matvec(by_state.swapaxes(1, 2), dual), by_samples


class HybridVariations:
    """The derivatives of a hybrid motion, as `VariedSystem` carries them along; parameters are the inputs."""

    is_metered = False

    def __init__(self, system: HybridSystem, D: Array) -> None:
        self.group = system.group
        self.nv = system.nv
        self.size = 2 * system.nv
        self.rows = self.size
        self.width = D.shape[-1] - self.size
        self.D = D.reshape(-1, *D.shape[-3:])

    def integral(self) -> None:
        return None

    def columns(self, part: Array, of: str) -> Array:
        return self.D[..., : self.size][..., part] if of == "start" else self.D[..., self.size :][..., part]

    def along(self, start: Array, table: Array) -> Array:
        return np.einsum("ntrc,nc->ntr", self.D, np.concatenate([start, table[:, 0]], axis=-1))

    def back(self, weights: Array) -> tuple[Array, Array]:
        gradient = np.einsum("ntr,ntrc->nc", weights, self.D)
        return gradient[:, : self.size], gradient[:, None, self.size :]


def _hybrid(
    system: HybridSystem, q0: Array, v0: Array, parameters: Mapping[str, Any], options: dict[str, Any]
) -> Sensitivities:
    """The sensitivities of a hybrid system by its start and by these parameters."""
    # The variations are memory of a second system, so the run of the system itself is simulated apart.
    varied = VariedSystem(system, list(parameters))
    options = {name: x for name, x in options.items() if x is not None}
    start = system.group.neutral() if q0 is None else q0
    varied_run = varied.simulate(start, v0, parameters=parameters, **options)
    run = system.simulate(start, v0, parameters=parameters, **options)
    layout = FlatLayout("parameter", {name: system.parameters.defaults[name] for name in parameters})
    motion = HybridVariations(system, varied.derivatives(varied_run))
    return Sensitivities(run, motion, run.q.shape[:-2], None, layout)


class _Part(NamedTuple):
    """The place of an input among all inputs of a motion.

    of     "start": (q0, v0); "samples": the efforts of the steps; "parameters": the same in all samples
    at     its entries
    shape  the shape of its values
    """

    of: str
    at: slice
    shape: tuple[int, ...]


class Sensitivities:
    """A motion that can be differentiated; made by `sensitivities`.

    run       the motion, as `simulate` gives it
    integral  of the running cost, (..., times); None without one

    Derivatives are by "q0" (along the group, body-fixed), "v0", "tau" (the efforts: each sample, where they
    are samples) and by the names of parameters that were given.
    """

    def __init__(
        self,
        run: Run,
        motion: StepChain | HybridVariations,
        batch: tuple[int, ...],
        tau: Any,
        layout: FlatLayout,
    ) -> None:
        self.run = run
        self._motion = motion
        self._batch = batch
        self._layout = layout
        size = motion.size
        nv = motion.nv
        first = motion.width - layout.size
        self._parts = {
            "q0": _Part("start", slice(0, size - nv), (size - nv,)),
            "v0": _Part("start", slice(size - nv, size), (nv,)),
            **({} if tau is None else {"tau": _Part("samples", slice(0, tau[-1]), tau)}),
        }
        self._free = {
            name: _Part("parameters", slice(first + x.start, first + x.stop), layout.defaults[name].shape)
            for name, x in layout.places.items()
        }

    @cached_property
    def integral(self) -> Array | None:
        integral = self._motion.integral()
        return integral if integral is None else integral.reshape(*self._batch, -1)

    # -- forwards -------------------------------------------------------------------------------------------

    @overload
    def tangents(self, wrt: str) -> Tangents: ...

    @overload
    def tangents(self, wrt: list[str]) -> list[Tangents]: ...

    def tangents(self, wrt: str | list[str]) -> Tangents | list[Tangents]:
        """How all samples change with each entry of "q0", "v0", "tau" or of a parameter.

        For a list of names it returns a list. All parameters of the list are one sweep through the steps.
        The work grows with the number of entries; for many of them and few numbers take `gradient`.
        """
        if isinstance(wrt, str):
            return self.tangents([wrt])[0]
        parts = {**self._free, **self._parts}
        for name in wrt:
            if name not in parts:
                names = [*self._parts, *self._free]
                raise ModelError(f"there are no derivatives by {name!r}; {known(names, name)}")
        tangents: dict[str, Tangents] = {}
        for of in {parts[name].of: None for name in wrt}:
            together = [name for name in dict.fromkeys(wrt) if parts[name].of == of]
            at = [np.arange(parts[name].at.start, parts[name].at.stop) for name in together]
            sweep = self._motion.columns(np.concatenate(at), of)
            sizes = [math.prod(parts[name].shape) for name in together]
            for name, columns in zip(together, np.split(sweep, np.cumsum(sizes)[:-1], axis=-1), strict=True):
                tangents[name] = self._named(columns, parts[name].shape)
        return [tangents[name] for name in wrt]

    def jvp(
        self,
        q0: Array = None,
        v0: Array = None,
        tau: Array = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Tangents:
        """How all samples change along one direction (Jacobian times vector); inputs that are None stay.

        q0, v0      (..., dim) and (..., nv)
        tau         of the shape of the efforts
        parameters  by name
        """
        if tau is not None and "tau" not in self._parts:
            raise ModelError("the efforts are a function, or there are none; their parameters may change")
        self._layout.check(parameters or {})
        n = math.prod(self._batch)
        directions = {"q0": q0, "v0": v0, "tau": tau}
        efforts = self._parts["tau"].shape if "tau" in self._parts else ()
        start = np.zeros((n, self._motion.size))
        table = np.zeros((n, efforts[0] if len(efforts) > 1 else 1, self._motion.width))
        # One direction in all inputs: a change of the start, and of the table of samples and parameters.
        for name, part in self._parts.items():
            rows = self._rows(name, directions[name], part.shape)
            if part.of == "start":
                start[:, part.at] = rows
            else:
                table[..., part.at] = rows.reshape(n, -1, part.shape[-1])
        for name, part in self._free.items():
            table[..., part.at] = self._rows(name, (parameters or {}).get(name), part.shape).reshape(n, 1, -1)
        return self._named(self._motion.along(start, table)[..., None], ())

    # -- backwards ------------------------------------------------------------------------------------------

    def vjp(self, q: Array = None, v: Array = None, integral: Array = None) -> Gradient:
        """The derivatives of the sum of weights times tangents (vector times Jacobian), by everything.

        q, v, integral  weights of the samples, (..., times, dim), (..., times, nv), (..., times); None: zero

        One sweep backwards: the work does not depend on how many samples the efforts have.
        """
        times = len(self.run.t)
        size = self._motion.size
        nv = self._motion.nv
        weights = np.zeros((math.prod(self._batch), times, self._motion.rows))
        weights[..., : size - nv] = self._rows("q", q, (times, size - nv))
        weights[..., size - nv : size] = self._rows("v", v, (times, nv))
        if integral is not None:
            if not self._motion.is_metered:
                raise ModelError("there is no integral; give sensitivities(..., running=cost)")
            weights[..., -1] = self._rows("integral", integral, (times,))
        return self._gradient(weights)

    def gradient(
        self,
        end: Callable[..., Any] | None = None,
        samples: Callable[..., Any] | None = None,
        integral: float = 1.0,
    ) -> tuple[Array, Gradient]:
        """A cost (...) of each member and its derivatives by everything, by one sweep backwards.

        end       (q, v) -> number, of the last sample
        samples   (t, q, v) -> number, summed over all samples
        integral  weight of the integral of the running cost, where there is one
        """
        run = self.run
        n = math.prod(self._batch)
        times = len(self.run.t)
        # Members and times are the lanes of one call of the cost.
        q, v = (x.reshape(n, times, -1) for x in (run.q, run.v))
        total = np.zeros(n)
        weights = np.zeros((n, times, self._motion.rows))
        # The slopes of the costs of samples are the weights of one sweep backwards.
        terms: list[tuple[Any, slice]] = [(samples, slice(None))]
        if end is not None:
            terms.append((lambda t, q, v: end(q, v), slice(times - 1, None)))
        for cost, rows in terms:
            if cost is not None:
                value, slope = self._cost(cost, run.t[rows], q[:, rows], v[:, rows])
                total += value.sum(axis=1)
                weights[:, rows, : self._motion.size] += slope
        if self.integral is not None:
            total += integral * self.integral.reshape(n, times)[:, -1]
            weights[:, -1, -1] = integral
        return total.reshape(self._batch)[()], self._gradient(weights)

    def _gradient(self, weights: Array) -> Gradient:
        """The derivatives of the sum of weights (n, times, rows) times tangents."""
        start, table = self._motion.back(weights)
        by = {"start": start, "samples": table, "parameters": table.sum(axis=1)}

        def of(part: _Part) -> Array:
            return by[part.of][..., part.at].reshape((*self._batch, *part.shape))

        by_part = {name: of(part) for name, part in self._parts.items()}
        by_parameter = {name: of(part) for name, part in self._free.items()}
        return Gradient(by_part["q0"], by_part["v0"], by_part.get("tau"), by_parameter)

    def _cost(self, cost: Callable[..., Any], t: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """Values (n, times) and slopes (n, times, size) of a cost of samples."""
        nq = q.shape[-1]
        nv = v.shape[-1]
        shape = q.shape[:2]

        def number(t: Any, y: Array) -> Array:
            return _number("a cost", cost(t, y[:nq], y[nq:]))

        traced = trace(number, {"t": (), "y": nq + nv}, "cost")
        kernel = differentiated(traced, Product(self._motion.group, R(nv)), "y")
        times = np.broadcast_to(t, shape).reshape(-1)
        value, slope = kernel(times, np.concatenate([q, v], axis=-1).reshape(len(times), -1))
        return value.reshape(shape), slope.reshape(*shape, -1)

    # -- shapes ---------------------------------------------------------------------------------------------

    def _rows(self, name: str, given: Any, shape: tuple[int, ...]) -> Array:
        """The given values for each member, (n, *shape); zero if None."""
        x = np.zeros(shape) if given is None else floats(name, given)
        try:
            if x.shape[x.ndim - len(shape) :] != shape:  # a row is not one number for all entries
                raise ValueError
            return np.broadcast_to(x, (*self._batch, *shape)).reshape(math.prod(self._batch), *shape)
        except ValueError:
            raise wrong_shape(name, x.shape, (*self._batch, *shape)) from None

    def _named(self, tangents: Array, shape: tuple[int, ...]) -> Tangents:
        """Tangents (n, times, rows, columns), parted into coordinates, velocities and integral."""
        size = self._motion.size
        nv = self._motion.nv
        lead = (*self._batch, tangents.shape[1])
        q = tangents[:, :, : size - nv]
        v = tangents[:, :, size - nv : size]
        integral = None if self.integral is None else tangents[:, :, -1].reshape(*lead, *shape)
        return Tangents(q.reshape(*lead, size - nv, *shape), v.reshape(*lead, nv, *shape), integral)
