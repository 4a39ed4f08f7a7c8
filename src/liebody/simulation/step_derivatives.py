"""Steps of methods with their exact derivatives, many states at a time.

Next to a state y = (q, v, ...) on G x R^k is y exp(s). A step y -> Phi(y, u) of a method leads from y exp(s),
with efforts u + w, to Phi(y, u) exp(A s + B w), to first order. A and B of an explicit method follow from the
derivatives of its stages. A and B of an implicit method follow from the derivatives of its equations at their
solution (the implicit function theorem). States are rows (N, point) of a batch, of an ensemble, or of many
steps of a motion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError, ModelError
from ..compiler import Function, Kernel, Program, trace
from ..groups import LieGroup, Product, R
from ..integrators import (
    MechanicalFlow,
    MechanicalMethod,
    Method,
    StageTangents,
    StateTangents,
    differentiated,
)
from ..mechanisms import Mechanism, OpenTree
from ..robot import Robot
from ..scalars import Array
from ..stepping import Flow

SHORT = 15_000  # products in the slopes of a step, up to which it is one kernel
Rates = Callable[[Array, Array, Array], tuple[Array, Array, Array]]
"""(t, y, u) -> f, and its derivatives by s and by u; where dq/dt = v, derivatives of dv/dt alone"""


class Inputs(NamedTuple):
    """Efforts u of steps: low, or low + theta (high - low) of two samples, theta = share + pace (t - begin).

    low, high           (..., width); high is None where efforts are held
    begin, share, pace  (...): the starts of the steps, theta there, and its rate
    """

    low: Array
    high: Array | None = None
    begin: Array | float = 0.0
    share: Array | float = 0.0
    pace: Array | float = 0.0

    @property
    def columns(self) -> int:
        """By how many numbers a step can be differentiated."""
        return int(self.low.shape[-1]) * (1 if self.high is None else 2)

    def at(self, t: Array) -> Array:
        """u (..., width)."""
        return self.low if self.high is None else self.low + self._theta(t) * (self.high - self.low)

    def through(self, by_u: Array, t: Array) -> Array:
        """Derivatives by u (..., rows, width) as those by low, or by (low, high)."""
        if self.high is None:
            return by_u
        theta = self._theta(t)[..., None]
        return np.concatenate([(1 - theta) * by_u, theta * by_u], axis=-1)

    def _theta(self, t: Array) -> Array:
        return np.asarray(self.share + self.pace * (t - self.begin))[..., None]


class StepDerivative(NamedTuple):
    """Where steps lead: states (N, point), A (N, dim, dim), B (N, dim, width), or (N, dim, 2 width).

    Metered steps have one entry more: what the step adds to the integral, and its derivatives.
    """

    end: Array
    A: Array
    B: Array


def states_group(mechanism: Mechanism, point: int) -> Product:
    """The group G x R^k of states y (point,) of a mechanism."""
    return Product(mechanism.group, R(point - mechanism.nq))


# -- vector fields -------------------------------------------------------------------------------------------


def rates_of(mechanism: Mechanism, field: Callable[[], Function | Program], feedback: Any = None) -> Rates:
    """The velocity of states (q, v) of a mechanism, with its derivatives; derivatives of a tree are analytic.

    field     makes the velocity (t, y, u) -> f
    feedback  a function in place of efforts, (t, q, v) -> u
    """
    if mechanism.is_bound and not mechanism.nc:
        raise ModelError(
            f"joints of {mechanism.name} follow functions of time, of which steps have no derivatives; take "
            "a ClosedTree or a System with drives, or leave the prescribed joints out"
        )
    # A tree without free parameters has its derivatives by recursions, in place of a differentiated field.
    if isinstance(mechanism, OpenTree) and not mechanism.nc and not mechanism.layout.size:
        return TreeRates(mechanism, feedback)
    velocity = field()
    return timed(differentiated(velocity, states_group(mechanism, velocity.inputs["y"].size), "yu"))


def timed(kernel: Kernel) -> Rates:
    """A kernel of (t, y, u) as a function that takes one time for each state."""
    return lambda t, y, u: kernel(np.reshape(t, (*y.shape[:-1], *kernel.inputs["t"])), y, u)


class TreeRates:
    """(v, dv/dt) of the joint coordinates of a tree, by the derivatives of forward dynamics."""

    def __init__(self, mechanism: OpenTree, feedback: Callable[..., Any] | None = None) -> None:
        n = mechanism.nv
        nq = mechanism.nq
        self.nq = nq
        self.robot: Robot = getattr(mechanism, "robot", None) or Robot(mechanism.tree, mechanism.gravity)

        def acting(t: Any, y: Array, u: Array) -> Array:
            q = y[:nq]
            v = y[nq:]
            return mechanism.efforts(t, q, v, u if feedback is None else np.asarray(feedback(t, q, v)))

        function = trace(acting, {"t": (), "y": nq + n, "u": n}, "efforts")
        self._efforts = differentiated(function, states_group(mechanism, nq + n), "yu")

    def __call__(self, t: Array, y: Array, u: Array) -> tuple[Array, Array, Array]:
        # a = FD(q, v, tau(t, y, u)): the derivatives of forward dynamics, by the chain rule through tau.
        q = y[..., : self.nq]
        v = y[..., self.nq :]
        tau, by_y, by_u = self._efforts(t, y, u)
        a = self.robot.forward_dynamics(q, v, tau)
        by_q, by_v, by_tau = self.robot.forward_dynamics_derivatives(q, v, tau)
        by_state = np.concatenate([by_q, by_v], axis=-1) + by_tau @ by_y
        return np.concatenate([v, a], axis=-1), by_state, by_tau @ by_u


# -- steps ---------------------------------------------------------------------------------------------------


def _metered(rates: Rates, meter: Kernel) -> Rates:
    """The velocity of states whose last entry is the integral of a meter."""

    def both(t: Array, y: Array, u: Array) -> tuple[Array, Array, Array]:
        # The state without the integral, by which nothing changes.
        f, by_y, by_u = rates(t, y[..., :-1], u)
        l, l_y, l_u = timed(meter)(t, y[..., :-1], u)
        by_y = np.concatenate([by_y, l_y], axis=-2)
        none = np.zeros((*by_y.shape[:-1], 1), int)  # nothing depends on the integral
        joined = np.concatenate([f, l], axis=-1)
        by_y = np.concatenate([by_y, none], axis=-1)
        return joined, by_y, np.concatenate([by_u, l_u], axis=-2)

    return both


class ExplicitSteps(StageTangents):
    """Steps of an explicit method.

    flow   its compiled steps
    group  of the states
    rates  the velocity of states with its derivatives
    meter  the rate of an integral along the motion, with derivatives, as one more equation; or None

    A short step is one kernel; a long one would take long to compile, and is made of kernels of its parts.
    """

    def __init__(self, flow: Flow, group: LieGroup, rates: Rates, meter: Kernel | None = None) -> None:
        functions = flow.functions
        super().__init__(Product(group, R(1)) if meter else group, functions.pull)
        self.flow = flow
        self.rates = _metered(rates, meter) if meter else rates
        self.is_metered = bool(meter)
        settle = functions.settle
        self._settled = settle and timed(differentiated(settle, group, "yu", ends=group))
        self._kernels: dict[int, Kernel | None] = {}

    def __call__(self, t: Array, h: float, y: Array, inputs: Inputs, jump: bool = False) -> StepDerivative:
        """Steps of length h from states y (N, point) at times t (N,)."""
        t = np.broadcast_to(t, (len(y),))
        # The integral starts at zero in each step: the caller adds the steps up.
        if self.is_metered:
            y = np.pad(y, ((0, 0), (0, 1)))
        kernel = self._whole(inputs)
        if kernel is None:
            return StepDerivative(*self._step(t, h, y, inputs))
        more = [] if inputs.high is None else inputs[1:]
        return StepDerivative(*kernel(t, h, y, inputs.low, *more))

    def _whole(self, inputs: Inputs) -> Kernel | None:
        """A kernel of whole steps with such inputs; None where that would be long."""
        width = inputs.low.shape[-1]
        columns = inputs.columns
        if columns not in self._kernels:
            shapes: dict[str, Any] = {"t": (), "h": (), "y": self.group.nq, "low": width}
            if inputs.high is not None:
                shapes |= {"high": width, "begin": (), "share": (), "pace": ()}

            def step(t: Any, h: Any, y: Array, *inputs: Any) -> tuple[Array, Array, Array]:
                return self._step(t, h, y, Inputs(*inputs))

            # An estimate of the products in the slopes of a stage, by which the length of the code grows.
            stage = self.group.dim * self.group.dim * (self.group.dim + columns) // 2
            short = len(self.flow.method.c) * stage < SHORT
            self._kernels[columns] = Kernel(trace(step, shapes, "step_by_yu")) if short else None
        return self._kernels[columns]

    def _step(self, t: Any, h: Any, y: Array, inputs: Inputs) -> tuple[Array, Array, Array]:
        """The end (..., point) of a step, A and B, on floats or on symbols."""
        lead = y.shape[:-1]
        n = self.group.dim
        columns = n + inputs.columns
        # The slope of the start is (1, 0): it depends on itself, and on no input.
        start = y, np.broadcast_to(np.eye(n, columns, dtype=int), (*lead, n, columns))

        def velocity(now: Any, at: StateTangents) -> Array:
            f, by_y, by_u = self.rates(now, at[0], inputs.at(now))
            return self.through(f, by_y, inputs.through(by_u, now), at[1])

        end, slope = self.step(self.flow.method, velocity, t, h, start)
        # Some flows settle the end of a step, as by projection onto constraints, which leaves the integral.
        if self._settled:
            point = end.shape[-1] - self.is_metered
            k = n - self.is_metered
            settled, by_y, by_u = self._settled(t + h, end[..., :point], inputs.at(t + h))
            end = np.concatenate([settled, end[..., point:]], axis=-1)
            slope = np.concatenate([by_y @ slope[..., :k, :], slope[..., k:, :]], axis=-2)
            slope[..., :k, n:] = slope[..., :k, n:] + inputs.through(by_u, t + h)
        return end, slope[..., :n], slope[..., n:]


class ImplicitSteps:
    """Steps of an implicit method, by the implicit function theorem.

    A step solves systems of equations r(x, z, y, u) = 0 one after the other, where z holds the results of
    the earlier ones. Each gives

        dx = -(dr/dx)^-1 (dr/dz dz + dr/dy s + dr/du w).

    group   of all that the method remembers from step to step
    states  the group of (q, v)
    meter   as in `ExplicitSteps`, summed over the method's stages, or over both ends of a step
    """

    def __init__(
        self, flow: MechanicalFlow, group: LieGroup, states: LieGroup, meter: Kernel | None = None
    ) -> None:
        self.flow = flow
        self.group = group
        self.is_metered = bool(meter)
        self._states = states
        self._meter = meter and timed(meter)
        # A step is a sequence of phases, each with unknowns to solve for, and a finish.
        phases, finish = flow.functions
        if flow.mechanics.redundant:
            raise ModelError(
                "constraints that depend on each other have multipliers which implicit methods choose on the "
                "way; take an explicit method, such as 'rkmk4', for derivatives"
            )
        # To solve again, the functions of the compiled step; to differentiate, their derivatives.
        self._solvers = [tuple(map(Kernel, (p.predict, p.residual, p.both, p.keep))) for p in phases]
        self._phases = [
            tuple(differentiated(part, group, "xzyu") for part in (p.residual, p.keep)) for p in phases
        ]
        self._finish = differentiated(finish, group, "zyu", ends=group)
        memory = flow.memory_functions
        self._restart = memory and memory.restart and differentiated(memory.restart, group, "yu", ends=group)
        self._stages = None
        if meter and flow.stages:
            inputs = {name: x.shape for name, x in finish.inputs.items()}
            several = Product(*[states] * len(flow.stages.weights))
            traced_stages = trace(flow.stages.states, inputs, "stages")
            self._stages = differentiated(traced_stages, group, "zyu", ends=several)

    def __call__(self, t: Array, h: float, y: Array, inputs: Inputs, jump: bool = False) -> StepDerivative:
        """Steps as in `ExplicitSteps`; jump: whether efforts jump at the starts of the steps."""
        N = len(y)
        n = self.group.dim
        flow = self.flow
        t = np.broadcast_to(t, (N,))
        lengths = np.full(N, h)
        # Efforts at the nodes of the method.
        times = [t + c * h for c in flow.nodes]
        u = np.stack([inputs.at(at) for at in times], axis=1)

        def slope(by_y: Array, by_u: Array) -> Array:
            """Derivatives by the state and by the efforts of all nodes -> by the state and by the inputs."""
            by_nodes = by_u.reshape(*by_u.shape[:2], *u.shape[1:])
            parts = (inputs.through(by_nodes[:, :, k], at) for k, at in enumerate(times))
            return np.concatenate([by_y, sum(parts)], axis=-1)

        # After a jump of efforts a method that remembers accelerations begins again with new ones.
        begun = None
        if jump and self._restart:
            y, by_y, by_u = self._restart(y, lengths, t, lengths, u)
            begun = slope(by_y, by_u)
        arguments = (t, lengths, y, u)
        z, dz = self._unknowns(t, arguments, slope)
        end, by_z, *slopes = self._finish(z, *arguments)
        by_start = by_z @ dz + slope(*slopes)
        if self._meter:
            # The integral of the meter, by the method's own stages and weights, or by the trapezoidal rule.
            points = [(t, 0.5, y, np.eye(n, n + inputs.columns)), (t + h, 0.5, end, by_start)]
            if self._stages and flow.stages:
                joined, by_z, *slopes = self._stages(z, *arguments)
                weights = flow.stages.weights
                parts = (np.split(x, len(weights), axis=1) for x in (joined, by_z @ dz + slope(*slopes)))
                points = list(zip(times[: len(weights)], weights, *parts, strict=True))
            share, row = self._metered(points, h, inputs)
            end = np.concatenate([end, share], axis=-1)
            by_start = np.concatenate([by_start, row], axis=-2)
        A = by_start[..., :n]
        B = by_start[..., n:]
        # The chain rule through the new beginning: first B, which needs A as it was.
        if begun is not None:
            B = B + A @ begun[..., n:]
            A = A @ begun[..., :n]
        # The integral depends on itself alone.
        if self._meter:
            A = np.concatenate([A, np.broadcast_to(np.eye(n + 1)[:, n:], (N, n + 1, 1))], axis=-1)
        return StepDerivative(end, A, B)

    def _unknowns(
        self, t: Array, arguments: tuple[Array, ...], slope: Callable[[Array, Array], Array]
    ) -> tuple[Array, Array]:
        """The unknowns z (N, size) that all phases of the steps keep, and their derivatives."""
        lost = np.zeros(len(t), int)
        z = np.zeros((len(t), 0))
        dz = np.zeros((len(t), 0, 0))
        for solvers, (residual, keep), phase in zip(
            self._solvers, self._phases, self.flow.functions[0], strict=True
        ):
            # Solve the equations again, differentiate them at the solution, and keep what later ones take.
            x = self.flow.solved(phase, solvers, z, arguments, lost)
            # The run has taken this step; only round-off can tell the two apart.
            if lost.any():
                raise IntegrationError(f"the step at t = {t[lost != 0][0]:.9g} s cannot be taken again")
            _, D, *slopes = residual(x, z, *arguments)
            right = slope(*slopes[1:])
            dz = dz if dz.size else np.zeros((len(t), z.shape[1], right.shape[-1]))
            dx = -np.linalg.solve(D, right + slopes[0] @ dz)
            kept, by_x, by_z, *slopes = keep(x, z, *arguments)
            new = by_x @ dx + by_z @ dz + slope(*slopes)
            z = np.concatenate([z, kept], axis=1)
            dz = np.concatenate([dz, new], axis=1)
        return z, dz

    def _metered(self, points: Any, h: float, inputs: Inputs) -> tuple[Array, Array]:
        """The integral of the meter over each step, (N, 1), and its derivatives, (N, 1, n + columns)."""
        assert self._meter
        share = 0.0
        row = 0.0
        for t, weight, y, slope in points:
            # The first components of a point are the state (q, v), of which the meter is a function.
            l, by_y, by_u = self._meter(t, y[:, : self._states.nq], inputs.at(t))
            along = by_y @ slope[..., : self._states.dim, :]
            along[..., along.shape[-1] - inputs.columns :] += inputs.through(by_u, t)
            share = share + h * weight * l
            row = row + h * weight * along
        return np.asarray(share), np.asarray(row)


def steps_of(
    mechanism: Mechanism,
    method: Method | MechanicalMethod,
    stabilized: Any,
    flow: Any,
    feedback: Any = None,
    meter: Function | None = None,
) -> ExplicitSteps | ImplicitSteps:
    """The steps of a flow of `flow_of`, with their derivatives, kept with the mechanism.

    meter  (t, y, u) -> the rate (1,) of an integral along the motion, y = (q, v)
    """
    # A flow with a function of a user is dropped some day, and these steps with it.
    users = tuple(f and f.form for f in (feedback, meter))  # with its flow, or not at all
    key = (users if any(users) else None, "tangents", method, stabilized)
    if key not in mechanism.flows:
        group = states_group(mechanism, mechanism.nq + mechanism.nv)
        rate = differentiated(meter, group, "yu") if meter else None
        if isinstance(flow, MechanicalFlow):
            mechanism.flows[key] = ImplicitSteps(flow, states_group(mechanism, flow.point), group, rate)
        else:
            rates = rates_of(mechanism, lambda: flow.functions.field, feedback)
            mechanism.flows[key] = ExplicitSteps(flow, group, rates, rate)
    return mechanism.flows[key]


def beginning(flow: Flow | MechanicalFlow, mechanism: Mechanism) -> Kernel | None:
    """(t, y, u, h), y = (q, v) -> the state at which a flow starts, with its derivatives by y and u.

    None where it is y itself.
    """
    if not isinstance(flow, MechanicalFlow) or flow.begin is None:
        return None
    begin = flow.begin
    nq = mechanism.nq

    def begun(t: Any, y: Array, u: Array, h: Any) -> Array:
        return begin(t, y[:nq], y[nq:], u, h)

    shapes: Mapping[str, Any] = {"t": (), "y": nq + mechanism.nv, "u": flow.efforts, "h": ()}
    group = states_group(mechanism, nq + mechanism.nv)
    return differentiated(trace(begun, shapes), group, "yu", states_group(mechanism, flow.point))
