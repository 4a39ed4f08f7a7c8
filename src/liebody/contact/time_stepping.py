"""Robots with contacts by time stepping: impulses over steps of one length, which resolve no contact.

    (M + h D + h^2 K) (v' - v) = h (tau - b - h K v) + J^T x,        q' = q exp(h v')

are the velocities v' and the configuration at the end of a step of length h: semi-implicit (symplectic) Euler
with M, b, J, tau at its beginning. A floating base turns by exp(h omega'), moves straight by h v', and v' is
then seen in its new axes: what flies keeps its velocity. K and D are the gains of the elements and the
joints' damping. The impulses x obey the laws of the contacts with the velocities J v', all at once:

    x_n = h max(-k g' - d u_n, 0),                         g' = g + h u_n,   u_n = (J v')_n
    x_t = -h (k s' + d u_t), cut to |x_t| <= mu x_n,       s' = s + h u_t,   u_t = (J v')_t

with the gap g of a point over the ground, and its stretch s since it sticks: the laws of `Contact` at the end
of the step. Above the ground (g > 0) nothing acts but what keeps the point from passing it: x_n > 0 only
where g + h u_n + x_n / (h k + d) = 0. With the compliance R = 1 / (h (h k + d)) these are conditions on
w = J v' + (g k / (h k + d), s k / (h k + d)) + R x (`cones`).

Stewart and Trinkle (1996), "An implicit time-stepping scheme for rigid body dynamics"; Anitescu (2006);
Todorov (2014); Castro, Permenter and Han (2022).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .. import dynamics
from ..base.arguments import count, floats, short
from ..base.errors import SECONDS, ConfigurationError, IntegrationError, ModelError, positive, warn
from ..hybrid import Element, RobotSystem, State
from ..hybrid.robot_system import full_name, one_by_one
from ..integrators import Method, Tableau
from ..mechanisms import JointDamping
from ..mechanisms.constrained import ClosedTree
from ..runs import HybridRun
from ..scalars import Array, clip, maximum, where
from ..scalars.linear import factor, inward
from ..stepping.records import Repeats
from .flight import carried, in_free_fall, tumbling, turning
from .impacts import Impact, impact
from .impulses import (
    KINDS,
    STEPS,
    ContactImpulses,
    DriveImpulses,
    LoopImpulses,
    Solved,
    Struck,
    effort_limits,
    impulses,
)

OPEN = 1e-3  # most that a loop may be open at the start, which the first step closes              [m, rad]
MANY = 12  # points; of more, loops compile two to five times as soon, and their steps take 3 to 6 % longer
SWEEPS, SWEEPS_OF_IMPACTS = 3, 8  # by default; without and with restitution
REPEATS = 400  # of a step at most
EULER = Tableau("time-stepping", A=[[]], b=[1], c=[0], order=1)


class UnsolvedSteps(UserWarning):
    """Steps whose forces fail their laws by more than the tolerance, however often they were taken."""


class TimeStepping(RobotSystem, method="time-stepping"):
    """A robot system by steps of one length; see the head of this module.

    robot, elements, gravity, actuated, ledger, outputs, name   as of `RobotSystem`
    step       length of a step, a parameter of the system; `dt` of `simulate` sets it                    [s]
    sweeps     over all contacts in each step, forth and back in turn; default: 3, and 8 with restitution,
               as an impact starts from no impulses of a step before
    newton     iterations for the multiplier of a point that slips; 0: projected Gauss-Seidel, which is
               cheaper and good on floors that give way; default: 3, and 8 with a tolerance
    clipped    whether the efforts of drives are kept within the joints' effort limits
    tolerance  steps are taken anew, from the forces that they found, until the residual is as small as this
               in all lanes, at most REPEATS times; None: once is enough. Members that do not come to it
               are counted in the memory `unsolved`, and UnsolvedSteps warnings of runs and steppers name
               them                                                                                       [N]

    `JointFriction` (exact, sticking), `JointLimits` and, with `clipped`, what drives give up at their limits
    (`DriveImpulses`) are solved for together with the contacts; so are the closures of a robot that is a
    `ClosedTree`, exactly in each step (`LoopImpulses`).

    Memory `residual`: by how much the forces of a contact fail its law at most, |x - P(...)| / h         [N];
    with a tolerance also `unsolved`: how many steps so far have stayed above it

    Efforts and forces of elements are those of the beginning of a step, but for what their gains say
    (`Element.gains`) and the joints' damping, which are implicit. Joints' work and losses are those by the
    mean velocities of the step; the ledger closes to O(h).
    """

    resolves_contacts, closes_loops, has_field = False, True, False

    def __init__(
        self,
        robot: Any,
        *elements: Any,
        step: float = 1e-3,
        sweeps: int | None = None,
        newton: int | None = None,
        clipped: bool = False,
        tolerance: float | None = None,
        **options: Any,
    ) -> None:
        self.tolerance = None if tolerance is None else positive("tolerance", tolerance, " of newtons")
        iterations = (3 if tolerance is None else 8) if newton is None else count("newton", newton, 0)
        made = [
            KINDS[type(x)](copy.deepcopy(x)) if type(x) in KINDS else x  # type: ignore[call-arg]
            for x in one_by_one(elements)
        ]
        self._bounces = any(isinstance(x, ContactImpulses) and x.rebounds for x in made)
        few = SWEEPS_OF_IMPACTS if self._bounces else SWEEPS
        self.sweeps = few if sweeps is None else count("sweeps", sweeps)
        self.newton, self.clipped = iterations, clipped
        for element in made:
            if isinstance(element, ContactImpulses):
                element.ledger = options.get("ledger", True)
            if isinstance(element, Solved):
                element.repeated, element.bounces = tolerance is not None, self._bounces
        if isinstance(robot, ClosedTree):
            made.append(LoopImpulses(robot.nc))
        if clipped:
            made.append(DriveImpulses(options.get("actuated")))
        super().__init__(robot, *made, step=step, **options)
        for element in self.elements:
            if type(element).constraint is not Element.constraint:
                raise ModelError(
                    f"{element.name} forbids motions, which time stepping cannot; take robot_system, or "
                    "Contact in its place"
                )

    def _loops(self) -> Any:
        contacts = [e for e in self.elements if isinstance(e, ContactImpulses)]
        if sum(len(e.points) for e in contacts) <= MANY:
            return False
        return *STEPS, *(x for e in contacts for x in e.steps)

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

    def _named(self, part: str, *at: Any) -> dict[str, Any]:
        found = super()._named(part, *at)
        if part != "rates" or not self._replaced:
            return found
        return found | {"residual": 0.0} | ({} if self.tolerance is None else {"unsolved": 0.0})

    def _step(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        return p.step

    def _gains(self, s: State, each: Iterable[tuple[Element, Any, Any]]) -> tuple[Array, Array]:
        """Stiffness and damping of elements that are taken implicitly, (nv,) each."""
        K: Array = np.zeros(self.nv, int)
        D: Array = np.zeros(self.nv, int).astype(object)
        for e, _, p in each:
            found = e.gains(s, p)
            if found is not None:
                K, D = (x + (self._driven * y if e.driven else y) for x, y in zip((K, D), found, strict=True))
        return K, D

    def _struck(self, s: State, h: Any) -> tuple[Impact, dict[Element, Struck]]:
        """The impact with which a step begins, and the part of each element in it."""
        parts = [(e, e.impact_rows(s, z, p, h)) for e, z, p in s.elements if isinstance(e, Solved)]
        rows = [row for _, own in parts for row in own]
        found = impact(factor(dynamics.mass_matrix(s.tree, s.q)), s.v, rows, self.sweeps, self.newton)
        struck: dict[Element, Struck] = {}
        first = 0
        for e, own in parts:
            last = first + len(own)
            struck[e] = Struck(found.pushes[first:last], found.found[first:last])
            first = last
        return found, struck

    def _motion(self, t: Any, q: Array, v: Array, z: Any, p: Any) -> Any:
        s, h, start = self._seen(t, q, v, z, p), p.step, v
        struck: dict[Element, Struck] = {}
        impact_residual: Any = 0.0
        if self._bounces:
            at_start, struck = self._struck(s, h)
            impact_residual, v = at_start.residual, v + at_start.change
            s = self._seen(t, q, v, z, p)
        each, mechanism = s.elements, s.mechanism
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

        parts = [(e, z_, p_, e.rows(s, z_, p_, h)) for e, z_, p_ in each if isinstance(e, Solved)]
        rows = [row for *_, own in parts for row in own]
        if self._bounces:
            v = v + tumbling(s.tree, v, dynamics.mass_matrix(s.tree, q), h)
        found = impulses(factors, v, r, rows, self.sweeps, self.newton)
        after = v + found.change

        residual = maximum(found.residual, impact_residual) if self._bounces else found.residual
        rates: dict[str, Any] = {"residual": residual / (h * h)} if parts else {}
        if parts and self.tolerance is not None:
            rates["unsolved"] = where(residual / h > self.tolerance, 1.0, 0.0) / h
        losses: dict[Element, Any] = {}
        first = 0
        for contact, z_, p_, own in parts:
            pushes, first = found.pushes[first : first + len(own)], first + len(own)
            flows, losses[contact] = contact.after(s, z_, p_, h, pushes, struck.get(contact))
            rates.update({full_name(contact, name): y / h for name, y in flows.items()})
        for e, z_, p_ in each:
            if e not in losses:
                rates.update({full_name(e, name): y for name, y in e.rates(s, z_, p_).items()})
        powers = self._works(s, found.change, h, losses) if self.power_names else {}
        mean = after
        if self._bounces:
            pushed = [(row.J, push.x) for row, push in zip(rows, found.pushes, strict=True)]
            mean = in_free_fall(s.tree, v, after, pushed)
        moves, seen = carried(s.tree, after, h, mean)
        return moves, (seen - start) / h, rates, powers

    def _works(self, s: State, change: Array, h: Any, losses: Mapping[Element, Any]) -> Any:
        """Powers by the mean velocities of a step."""
        mean = State(s.tree, s.gravity, s.t, s.q, s.v + 0.5 * change)
        mean.flags, mean.landed, mean.stored, mean.elements = s.flags, s.landed, s.stored, s.elements
        efforts, lost = [], []
        for e, z, p in s.elements:
            tau = s.given_up if isinstance(e, DriveImpulses) else self._efforts_of(e, s, z, p)
            gains = e.gains(s, p)
            if gains is not None:
                K, D = gains
                tau = tau - (self._driven if e.driven else 1) * (h * K * (s.v + change) + D * change)
            efforts.append(tau)
            lost.append(losses[e] if e in losses else e.losses(s, z, p))
        return self._balance(mean, efforts, lost)

    def _advanced(self, x: Array, psi: Array) -> Array:
        """The point at the end of a step; impulses, stretches and the residual are new, and not added."""
        moved = super()._advanced(x, psi)
        flows, new = moved[self.nq + self.nv :], psi[2 * self.nv :]
        for at in (self._flowing.places[name] for name in self._replaced):
            flows[at] = new[at]
        return moved

    def _repeats(self) -> Repeats | None:
        if self.tolerance is None or not self._replaced:
            return None
        places = self._still.size + self.nq + self.nv + np.arange(self._flowing.size)
        at = {name: places[own].tolist() for name, own in self._flowing.places.items()}
        solved = (e for e in self.elements if isinstance(e, Solved))
        names = [full_name(e, x) for e in solved for x in (e.guess, e.impact_guess) if x is not None]
        guesses = sorted(i for name in names for i in at[name])
        return Repeats(tuple(guesses), at["residual"][0], self.tolerance, REPEATS)

    def _signals(self, *at: Any) -> dict[str, Any]:
        found = super()._signals(*at)
        if self.clipped:
            most = effort_limits(self.tree)
            found["efforts"] = clip(found["efforts"], -most, most)
        return found

    # -- simulation -----------------------------------------------------------------------------------------

    def _points(self, q: Array, v: Array, u: Array, memory: Mapping[str, Any], batch: Any) -> Array:
        y = super()._points(q, v, u, memory, batch)
        closed = self.mechanism
        if not isinstance(closed, ClosedTree):
            return y
        _, q, v, _, p = self._read(0.0, y, np.broadcast_to(u, (len(y), u.shape[-1])))
        own = [np.reshape(getattr(p, x), (len(y), -1)) for x in closed.layout.fields.values()]
        g, _ = closed.evaluated(
            "residuals", 0.0, q, v, p=np.concatenate([np.zeros((len(y), 0)), *own], axis=1)
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
        """The longest steps, up to those given, of which a whole number makes up the interval."""
        return {**given, "step": interval / np.ceil(interval / self._lengths(given) * (1 - 1e-9))}

    def _lengths(self, given: Mapping[str, Any]) -> Array:
        """The steps among parameters that are given, or the default."""
        steps = floats("step", given.get("step", self.parameters.defaults["step"]))
        if not steps.size or not (steps > 0).all():
            raise IntegrationError(f"step is {short(given['step'])}, expected positive numbers of seconds")
        return steps

    def simulate(
        self,
        q0: Array,
        v0: Array = None,
        *,
        t_end: float,
        dt: float | None = None,
        record_every: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> HybridRun:
        """As of `HybridSystem`; dt is the parameter `step`, shortened so that it divides record_every.

        record_every  default: as many steps as make about a thousandth of t_end
        Events are taken at the ends of steps. Parameters that are sampled should change at such.
        """
        given = dict(parameters or {})
        if dt is not None:
            given["step"] = positive("dt", dt, SECONDS)
        if record_every is None:
            step = float(self._lengths(given).max())
            record_every = step * max(1, round(positive("t_end", t_end, SECONDS) / 1000 / step))
        given = self.fitted(given, positive("record_every", record_every, SECONDS))
        options = {"locate": None, **options}
        run = super().simulate(q0, v0, t_end=t_end, record_every=record_every, parameters=given, **options)
        if self._counts:
            where_said = "run.memory['unsolved'] counts them, run.memory['residual'] says by how much"
            self._warn(np.ravel(run.final.memory["unsolved"]), where_said)
        return run

    @property
    def _counts(self) -> bool:
        """Whether its memory counts steps that did not come to the tolerance."""
        return self.tolerance is not None and bool(self._replaced)

    def judge(self, before: Array, after: Array) -> None:
        if self._counts:
            at = self._still.size + self.nq + self.nv + self._flowing.places["unsolved"].start
            where_said = "state.memory.unsolved counts them, state.memory.residual says by how much"
            self._warn(after[:, at] - before[:, at], where_said)

    def _warn(self, unsolved: Array, where_said: str) -> None:
        """unsolved (n,): how many steps of each member did not come to the tolerance."""
        (members,) = np.nonzero(unsolved > 0.5)
        if len(members):
            which = f" of {len(members)} of {len(unsolved)} members" if len(unsolved) > 1 else ""
            warn(
                f"{unsolved.sum():.0f} steps{which} stayed above the tolerance of {self.tolerance:g} N after "
                f"{REPEATS} attempts; {where_said}. Give more sweeps or newton iterations, softer ground, or "
                "a larger tolerance",
                UnsolvedSteps,
            )
