"""Robots with contacts by time stepping: steps of one length, with impulses that obey the contact laws.

    (M + h D + h^2 K) (v' - v) = h (tau - b - h K v) + J^T x,        q' = q exp(h v')

are the velocities v' and the configuration at the end of a step of length h: semi-implicit (symplectic) Euler
with M, b, J, tau at its beginning. A floating base turns by exp(h omega'), moves straight by h v', and v' is
then written in its new axes: a flying body keeps its velocity. K and D are the gains of the elements and the
joints' damping. The impulses x obey the laws of the contacts with the velocities J v', all at once:

    x_n = h max(-k g' - d u_n, 0),                         g' = g + h u_n,   u_n = (J v')_n
    x_t = -h (k s' + d u_t), cut to |x_t| <= mu x_n,       s' = s + h u_t,   u_t = (J v')_t

with the gap g of a point over the ground, and its stretch s since it sticks: the laws of `Contact` at the end
of the step. Above the ground (g > 0) an impulse acts only if the point would pass through the ground within
the step: x_n > 0 only where g + h u_n + x_n / (h k + d) = 0. With the compliance R = 1 / (h (h k + d)),
these are conditions on w = J v' + (g k / (h k + d), s k / (h k + d)) + R x (`cones`).

Stewart and Trinkle (1996), "An implicit time-stepping scheme for rigid body dynamics"; Anitescu (2006);
Todorov (2014); Castro, Permenter and Han (2022).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .. import dynamics
from ..base.arguments import count, floats, short
from ..base.errors import SECONDS, ConfigurationError, IntegrationError, ModelError, positive, warn
from ..hybrid import Element, RobotSystem, State
from ..hybrid.element import full_name, one_by_one
from ..integrators import Method, Tableau
from ..mechanisms import JointDamping
from ..mechanisms.constrained import ClosedTree
from ..runs import HybridRun
from ..scalars import Array, clip, maximum, where
from ..scalars.linear import factor, inward
from ..stepping import Clock
from ..stepping.records import Retries
from .cones import ConeNewton, ConeSolver, ProjectedStep
from .flight import carried, in_free_fall, tumbling, turning
from .impacts import Impact, impact
from .impulses import (
    KINDS,
    REPEATED,
    ContactImpulses,
    DriveImpulses,
    LoopImpulses,
    Solved,
    Struck,
    effort_limits,
    impulses,
)

OPEN = 1e-3  # largest opening of a loop at the start, which the first step closes                 [m, rad]
MANY = 12  # points; loops over more points compile 2 to 5 times faster, and their steps take 3 to 6 % longer
SWEEPS = 3  # by default, without restitution
SWEEPS_OF_IMPACTS = 8  # by default, with restitution
MOST_RETRIES = 400  # most repetitions of a step, with a tolerance
ITERATIONS = 3  # of Newton's method for a contact, by default, without a tolerance
ITERATIONS_TO_TOLERANCE = 8  # by default, with a tolerance
CONE_SOLVERS = ("newton", "projected")
EULER = Tableau("time-stepping", A=[[]], b=[1], c=[0], order=1)


class UnsolvedSteps(UserWarning):
    """Forces of steps fail their laws by more than the tolerance after all repetitions."""


class TimeStepping(RobotSystem, method="time-stepping"):
    """A robot system that is simulated by time stepping; see the head of this module.

    robot, elements, gravity, actuated, ledger, outputs, name   as of `RobotSystem`
    step       length of a step, a parameter of the system; `dt` of `simulate` sets it                    [s]
    sweeps     over all contacts in each step, forth and back in turn; default: 3, and 8 with restitution,
               because an impact has no impulses of a last step to start from
    solver     of each contact in a sweep: "newton" solves its law; "projected" takes one step of projected
               Gauss-Seidel, which is cheaper, and good on floors that give way
    newton     iterations of the solver "newton" for the multiplier of a slipping point, one or more;
               default: 3, and 8 with a tolerance
    clipped    whether the efforts of drives are kept within the joints' effort limits
    tolerance  a step is repeated, starting from the forces it has found, until the residual is below the
               tolerance in all lanes, at most MOST_RETRIES times; None: steps are not repeated. Steps of a
               member that stay above the tolerance are counted in its memory `unsolved`, and UnsolvedSteps
               warnings of runs and steppers tell how many there were                                      [N]

    `JointFriction` (exact, sticking), `JointLimits` and, with `clipped`, the limits of drives
    (`DriveImpulses`) are solved for together with the contacts; so are the closures of a robot that is a
    `ClosedTree`, exactly in each step (`LoopImpulses`).

    Memory `residual`: the largest defect of a contact's law, as a force, |x - P(...)| / h                [N];
    with a tolerance also `unsolved`: the number of steps so far that have stayed above it

    Efforts and forces of elements are evaluated at the beginning of a step. Their stiffness and damping
    (`Element.gains`) and the joints' damping are implicit. Joints' work and losses use the mean velocities of
    the step; the ledger closes to O(h).

    Errors: ModelError for an unknown solver, iterations for the solver "projected", and elements with a
    constraint; ArgumentError for numbers of sweeps and iterations below one.
    """

    # The class is long because it overrides each part of `RobotSystem` that a step replaces.

    resolves_contacts = False
    closes_loops = True
    has_field = False

    def __init__(
        self,
        robot: Any,
        *elements: Any,
        step: float = 1e-3,
        sweeps: int | None = None,
        solver: str = "newton",
        newton: int | None = None,
        clipped: bool = False,
        tolerance: float | None = None,
        **options: Any,
    ) -> None:
        self.tolerance = None if tolerance is None else positive("tolerance", tolerance, " of newtons")
        self.solver = _solver(solver, newton, repeated=tolerance is not None)
        # contacts, dry friction and stops become elements whose impulses are solved for
        parts = [
            KINDS[type(x)](copy.deepcopy(x)) if type(x) in KINDS else x  # type: ignore[call-arg]
            for x in one_by_one(elements)
        ]
        self._bounces = any(isinstance(x, ContactImpulses) and x.rebounds for x in parts)
        default_sweeps = SWEEPS_OF_IMPACTS if self._bounces else SWEEPS
        self.sweeps = default_sweeps if sweeps is None else count("sweeps", sweeps)
        self.clipped = clipped
        for element in parts:
            if isinstance(element, ContactImpulses):
                element.ledger = options.get("ledger", True)
            if isinstance(element, Solved):
                element.repeated = tolerance is not None
                element.bounces = self._bounces
        if isinstance(robot, ClosedTree):
            parts.append(LoopImpulses(robot.nc))
        if clipped:
            parts.append(DriveImpulses(options.get("actuated")))
        super().__init__(robot, *parts, step=step, **options)
        for element in self.elements:
            if type(element).constraint is not Element.constraint:
                raise ModelError(
                    f"{element.name} forbids motions, which time stepping cannot; take robot_system, or "
                    "Contact in its place"
                )

    def loop_functions(self) -> Any:
        contacts = [e for e in self.elements if isinstance(e, ContactImpulses)]
        if sum(len(e.points) for e in contacts) <= MANY:
            return False
        return *REPEATED, *(x for e in contacts for x in e.repeated_functions)

    def _by_full_names(self) -> dict[str, dict[str, Any]]:
        kinds = super()._by_full_names()
        self._replaced = [full_name(e, x) for e in self.elements if isinstance(e, Solved) for x in e.flows]
        if self._replaced:
            self._replaced.append("residual")
            kinds["flows"]["residual"] = 0.0
            if self.tolerance is not None:
                kinds["flows"]["unsolved"] = 0.0
        return kinds

    # -- a step ---------------------------------------------------------------------------------------------

    def _collected(self, part: str, *arguments: Any) -> dict[str, Any]:
        """As of `RobotSystem`, with rates of the system's flows; `motion` gives the rates of a step."""
        values = super()._collected(part, *arguments)
        if part != "rates" or not self._replaced:
            return values
        return values | {"residual": 0.0} | ({} if self.tolerance is None else {"unsolved": 0.0})

    def _step(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        return p.step

    def _gains(self, s: State, each: Iterable[tuple[Element, Any, Any]]) -> tuple[Array, Array]:
        """Stiffness and damping of elements that are taken implicitly, (nv,) each."""
        K: Array = np.zeros(self.nv, int)
        D: Array = np.zeros(self.nv, int).astype(object)
        for e, _, p in each:
            gains = e.gains(s, p)
            if gains is not None:
                K, D = (x + (self._driven * y if e.driven else y) for x, y in zip((K, D), gains, strict=True))
        return K, D

    def _struck(self, s: State, h: Any) -> tuple[Impact, dict[Element, Struck]]:
        """The impact with which a step begins, and the part of each element in it."""
        parts = [(e, e.impact_rows(s, z, p, h)) for e, z, p in s.elements if isinstance(e, Solved)]
        rows = [row for _, element_rows in parts for row in element_rows]
        factors = factor(dynamics.mass_matrix(s.tree, s.q))
        whole = impact(factors, s.v, rows, self.sweeps, self.solver)
        struck: dict[Element, Struck] = {}
        first = 0
        for e, element_rows in parts:
            last = first + len(element_rows)
            struck[e] = Struck(whole.pushes[first:last], whole.both[first:last])
            first = last
        return whole, struck

    def motion(self, *arguments: Any) -> Any:
        """The step that `EULER` takes with these rates: velocity of q, dv/dt, rates of flows and works.

        It is one long function because its stages share most of their quantities.
        """
        t, q, v, z, p = arguments
        s = self._state(t, q, v, z, p)
        h = p.step
        v_start = v

        # With restitution a step begins with the impacts of points that hit; the rest of the step goes on
        # with the velocities after them.
        struck: dict[Element, Struck] = {}
        impact_residual: Any = 0.0
        if self._bounces:
            at_start, struck = self._struck(s, h)
            impact_residual = at_start.residual
            v = v + at_start.change
            s = self._state(t, q, v, z, p)

        # Smooth forces: explicit efforts and bias, implicit gains on the left side. The bias belongs to bases
        # that keep their velocity in the world, with the acceleration -omega x v in their axes, because v' is
        # carried to the new axes at the end.
        each = s.elements
        mechanism = s.mechanism
        tau, wrenches = self._loads(s, each)
        bias = dynamics.inverse_dynamics(s.tree, q, v, -turning(s.tree, v), s.gravity, wrenches)
        K, D = self._gains(s, each)
        if self.clipped:
            drives = [x for x in each if x[0].driven]
            s.drives = self._loads(s, drives)[0], *self._gains(s, drives)
        if any(isinstance(force, JointDamping) for force in mechanism.forces):
            for body in s.tree.bodies:
                D[body.dofs] = D[body.dofs] + body.damping
        M = dynamics.mass_matrix(s.tree, q) + np.diag(h * (D + h * K))
        factors = factor(M)
        r = inward(factors, h * (mechanism.efforts(t, q, v, tau) - bias - h * (K * v)))

        # impulses of all elements that are solved for, at once
        parts = [(e, z_, p_, e.rows(s, z_, p_, h)) for e, z_, p_ in each if isinstance(e, Solved)]
        rows = [row for *_, element_rows in parts for row in element_rows]
        if self._bounces:
            v = v + tumbling(s.tree, v, dynamics.mass_matrix(s.tree, q), h)
        solution = impulses(factors, v, r, rows, self.sweeps, self.solver)
        v_end = v + solution.change

        # Rates of the memory. Flows are advanced by h times their rate: a new value y has the rate y / h, and
        # `advanced` replaces the old value by it. The residual is an impulse, and residual / h its force.
        residual = maximum(solution.residual, impact_residual) if self._bounces else solution.residual
        rates: dict[str, Any] = {"residual": residual / (h * h)} if parts else {}
        if parts and self.tolerance is not None:
            rates["unsolved"] = where(residual / h > self.tolerance, 1.0, 0.0) / h
        losses: dict[Element, Any] = {}
        first = 0
        for element, z_, p_, element_rows in parts:
            last = first + len(element_rows)
            pushes = solution.pushes[first:last]
            first = last
            flows, losses[element] = element.after(s, z_, p_, h, pushes, struck.get(element))
            rates.update({full_name(element, name): y / h for name, y in flows.items()})
        for e, z_, p_ in each:
            if e not in losses:
                rates.update({full_name(e, name): y for name, y in e.rates(s, z_, p_).items()})
        powers = self._works(s, solution.change, h, losses) if self.power_names else {}

        # Positions move by the velocity at the end of the step. With restitution, flying bases move by the
        # mean velocity instead: their energy is exact then, and bounces come up to the right height.
        mean = v_end
        if self._bounces:
            pushed = [(row.J, push.x) for row, push in zip(rows, solution.pushes, strict=True)]
            mean = in_free_fall(s.tree, v, v_end, pushed)
        moves, v_new = carried(s.tree, v_end, h, mean)
        return moves, (v_new - v_start) / h, rates, powers

    def _works(self, s: State, change: Array, h: Any, losses: Mapping[Element, Any]) -> Any:
        """Powers by the mean velocities of a step."""
        mean = State(s.tree, s.gravity, s.t, s.q, s.v + 0.5 * change)
        mean.flags = s.flags
        mean.landed = s.landed
        mean.stored = s.stored
        mean.elements = s.elements
        efforts, lost = [], []
        for e, z, p in s.elements:
            tau = s.given_up if isinstance(e, DriveImpulses) else self._efforts_of(e, s, z, p)
            gains = e.gains(s, p)
            if gains is not None:
                K, D = gains  # the implicit part of the efforts: those at the end of the step
                tau = tau - (self._driven if e.driven else 1) * (h * K * (s.v + change) + D * change)
            efforts.append(tau)
            lost.append(losses[e] if e in losses else e.losses(s, z, p))
        return self._powers_by_name(mean, efforts, lost)

    def advanced(self, x: Array, psi: Array) -> Array:
        """The point at the end of a step. New impulses, stretches and residuals replace the old values."""
        moved = super().advanced(x, psi)
        flows = moved[self.nq + self.nv :]
        new = psi[2 * self.nv :]
        for place in (self.flowing_memory.places[name] for name in self._replaced):
            flows[place] = new[place]
        return moved

    def retries(self) -> Retries | None:
        if self.tolerance is None or not self._replaced:
            return None
        first = self.constant_memory.size + self.nq + self.nv
        indices = first + np.arange(self.flowing_memory.size)  # of flows in the flat state
        at = {name: indices[place].tolist() for name, place in self.flowing_memory.places.items()}
        solved = (e for e in self.elements if isinstance(e, Solved))
        names = [full_name(e, x) for e in solved for x in (e.guess, e.impact_guess) if x is not None]
        guesses = sorted(i for name in names for i in at[name])
        return Retries(tuple(guesses), at["residual"][0], self.tolerance, MOST_RETRIES)

    def _signals(self, *arguments: Any) -> dict[str, Any]:
        signals = super()._signals(*arguments)
        if self.clipped:
            most = effort_limits(self.tree)
            signals["efforts"] = clip(signals["efforts"], -most, most)
        return signals

    # -- simulation -----------------------------------------------------------------------------------------

    def start_states(
        self, q: Array, v: Array, u: Array, memory: Mapping[str, Any], batch: tuple[int, ...]
    ) -> Array:
        """As of `HybridSystem`; raises ConfigurationError for states with open loops."""
        y = super().start_states(q, v, u, memory, batch)
        closed = self.mechanism
        if not isinstance(closed, ClosedTree):
            return y
        _, q, v, _, p = self.read_flat(0.0, y, np.broadcast_to(u, (len(y), u.shape[-1])))
        columns = [np.reshape(getattr(p, x), (len(y), -1)) for x in closed.layout.fields.values()]
        g, _ = closed.evaluated(
            "residuals", 0.0, q, v, p=np.concatenate([np.zeros((len(y), 0)), *columns], axis=1)
        )
        for name, rows in closed.rows.items():
            worst = np.abs(g[:, rows]).max(initial=0.0)
            if not worst < OPEN:
                raise ConfigurationError(
                    f"q0 opens the loop of {name!r} by {worst:.3g}, expected less than {OPEN:g}; start from "
                    "q0 = robot.assemble(q0)"
                )
        return y

    def stepped_by(self, method: Any) -> tuple[Any, Method]:
        if method not in (None, EULER, EULER.name):
            raise IntegrationError(
                f"method is {method!r}, and this system is made for time stepping; for others "
                "take robot_system(...)"
            )
        return self, EULER

    def fitted(self, given: Mapping[str, Any], interval: float) -> dict[str, Any]:
        """Parameters with the longest step, up to the given one, that divides the interval."""
        if "step" in given:
            return {**given, "step": interval / np.ceil(interval / self._lengths(given) * (1 - 1e-9))}
        # one number for all members, in each step of a stepper: Python's arithmetic is faster
        own = float(self.parameters.defaults["step"])
        return {**given, "step": interval / math.ceil(interval / own * (1 - 1e-9))}

    def _lengths(self, given: Mapping[str, Any]) -> Array:
        """The step of each member: its value among the parameters, or the default."""
        steps = floats("step", given.get("step", self.parameters.defaults["step"]))
        if not steps.size or not (steps > 0).all():
            raise IntegrationError(f"step is {short(given['step'])}, expected positive numbers of seconds")
        return steps

    def clock(
        self, parameters: dict[str, Any], t_end: float, record_every: float | None, t_eval: Array
    ) -> tuple[Clock, dict[str, Any]]:
        """The times of a simulation, and its parameters with a step that divides all times between rows.

        Raises IntegrationError where no step up to the given one does.
        """
        if record_every is None and t_eval is None:
            # A thousand rows or so, after whole numbers of steps, so that steps keep their length.
            step = float(self._lengths(parameters).max())
            record_every = step * max(1, round(t_end / 1000 / step))
            if Clock.whole_steps(t_end, record_every) is None:
                record_every = t_end / math.ceil(t_end / record_every)
        clock = Clock(t_end, None, record_every, t_eval)
        fitted = self.fitted(parameters, clock.interval)
        # A step solves for impulses of its length, so none may be cut short at the time of a row.
        counts = np.diff(clock.times) / np.asarray(fitted["step"])[..., None]
        if (np.abs(counts - np.round(counts)) > 1e-6 * counts).any():
            raise IntegrationError(
                f"steps of {np.ravel(fitted['step'])[0]:.9g} s do not divide all times between recorded "
                "states, and time stepping takes steps of one length: let t_end be a multiple of "
                "record_every, and times of t_eval multiples of the step"
            )
        return clock, fitted

    def simulate(
        self,
        q0: Array,
        v0: Array = None,
        *,
        t_end: float,
        dt: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> HybridRun:
        """As of `HybridSystem`; dt is the parameter `step`, shortened so that it divides record_every.

        record_every  default: as many steps as make about a thousandth of t_end

        On a device the step is one number for all members, and loops of q0 must be closed: nothing checks it
        there. Events are taken at the ends of steps. Sampled parameters should change at ends of steps, too.
        """
        values = dict(parameters or {})
        if dt is not None:
            values["step"] = positive("dt", dt, SECONDS)
        options = {"locate": None, **options}
        return super().simulate(q0, v0, t_end=t_end, parameters=values, **options)

    @property
    def _counts(self) -> bool:
        """Whether the memory counts steps that stayed above the tolerance."""
        return self.tolerance is not None and bool(self._replaced)

    @property
    def _unsolved(self) -> int:
        """The column of the memory `unsolved` in flat states."""
        first = self.constant_memory.size + self.nq + self.nv
        return int(first + self.flowing_memory.places["unsolved"].start)

    def judge(self, before: Array, after: Array) -> None:
        if self._counts:
            where_said = "state.memory.unsolved counts them, state.memory.residual says by how much"
            self._warn(after[:, self._unsolved] - before[:, self._unsolved], where_said)

    def judge_run(self, end: Array) -> None:
        if self._counts:
            where_said = "run.memory['unsolved'] counts them, run.memory['residual'] says by how much"
            self._warn(end[:, self._unsolved], where_said)

    def _warn(self, unsolved: Array, where_said: str) -> None:
        """Warn of the number (n,) of steps of each member that stayed above the tolerance."""
        (members,) = np.nonzero(unsolved > 0.5)
        if len(members):
            which = f" of {len(members)} of {len(unsolved)} members" if len(unsolved) > 1 else ""
            warn(
                f"{unsolved[members].sum():.0f} steps{which} stayed above the tolerance of "
                f"{self.tolerance:g} N after {MOST_RETRIES} attempts; {where_said}. Give more sweeps or "
                "newton iterations, softer ground, or a larger tolerance",
                UnsolvedSteps,
            )


def _solver(name: str, newton: int | None, repeated: bool) -> ConeSolver:
    """The solver of this name; the default number of iterations is larger where steps are repeated."""
    if name not in CONE_SOLVERS:
        raise ModelError(f"solver is {name!r}, expected one of {', '.join(map(repr, CONE_SOLVERS))}")
    if name == "projected":
        if newton is not None:
            raise ModelError(f"newton={newton!r} counts iterations of solver='newton'; leave it out")
        return ProjectedStep()
    if newton is None:
        newton = ITERATIONS_TO_TOLERANCE if repeated else ITERATIONS
    return ConeNewton(count("newton", newton))
