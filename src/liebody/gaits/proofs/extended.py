"""The equations of an orbit with a multiplier 1 or -1, as the equations of a closed orbit of a larger system.

Beside the states y, the parameter p and a change w of the state move:

    y' = f(y, p),        p' = 0,        w' = D_y f(y, p) w.

At the end of a phase the event is reached later by tau, where D g (w + f tau) = 0. Behind it are

    y+ = J(y, p),        w+ = D_y J(y, p) (w + f tau),        tau = -(D g w) / (D g f).

So w+ after the last phase is the derivative of the return map times w. The larger system closes with

    w_0 = w+ for a fold,  w_0 = -w+ for a flip,        p_0 = p + l . w_0 - 1.

As p does not change on the way, the last equation says l . w_0 = 1. This is one more orbit with phases, so
the same operator of Krawczyk encloses it. Its derivatives contain second derivatives of f. If they are
regular at a fold, the curve of orbits has a quadratic turn there; at a flip with a simple multiplier -1 and
without a multiplier 1, that multiplier passes -1 at a rate that is not zero (Kuznetsov 2004, sections 10.2
and 10.3; Doedel, Keller, Kernevez 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ... import scalars
from ...compiler import Function, Tape, exactly, jvp, middle, trace
from .equations import ExactEquations, OrbitPhase, Symmetry, exact_tape
from .system import StepEquations, SteppedOrbit

Array = Any
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "tanh": lambda a: scalars.sinh(a) / scalars.cosh(a),  # whose derivative has no condition
}


class ExtendedEquations:
    """Builds the larger system.

    equations  of the orbit
    parameter  p, which is a state of the larger system; None: the states are (y, w)
    sign       1 for a fold, -1 for a flip
    normal     l (N,), of the states of the first phase
    """

    def __init__(
        self,
        equations: ExactEquations,
        parameter: str | None = None,
        sign: int = 1,
        normal: Sequence[float] = (),
    ) -> None:
        old = equations.constants
        self.old = equations
        self.constants = old.copy()
        self.index = None if parameter is None else list(old.parameters).index(parameter)
        self.held = [] if parameter is None else ["parameter"]
        self.sign = sign
        # exact numbers, which are no rounded constants of the system
        self.normal = [self._placed(Fraction(x)) for x in normal]
        self.along = [[self._placed(x) for x in symmetry.along[0]] for symmetry in equations.symmetries]
        self.numbers = {"c": len(self.constants.bounds), "u": len(old.parameters)}

    def _placed(self, x: Fraction) -> int:
        return self.constants.place((x, x))

    def equations(self) -> ExactEquations:
        old = self.old
        phases = [self._phase(phase, k == len(old.phases) - 1) for k, phase in enumerate(old.phases)]
        symmetries = [
            Symmetry(x.coordinate, [[*xi, *[Fraction(0)] * (len(self.held) + len(xi))] for xi in x.along])
            for x in old.symmetries
        ]
        return ExactEquations(old.name, self.constants, phases, old.common, symmetries)

    def _phase(self, phase: OrbitPhase, is_last: bool) -> OrbitPhase:
        return replace(
            phase,
            names=[*phase.names, *self.held, *(f"change of {name}" for name in phase.names)],
            field=self._field(phase),
            section=self._of_states(phase.section),
            jump=self._jump(phase, is_last),
            guards=[replace(guard, tape=self._of_states(guard.tape)) for guard in phase.guards],
            at_end=[replace(x, tape=self._of_states(x.tape)) for x in phase.at_end],
        )

    # -- tapes ----------------------------------------------------------------------------------------------

    def _function(self, tape: Tape) -> Function:
        """A tape as a function of its inputs y, the parameter p, and all constants and parameters."""

        def play(y: Array, p: Array, c: Array, u: Array) -> Array:
            values: list[Any] = []
            for op, *operands in tape.nodes:
                if op == "input":
                    values.append(y[operands[0]])
                elif op == "constant":
                    values.append(c[operands[0]])
                elif op == "parameter":
                    values.append(p[0] if operands[0] == self.index else u[operands[0]])
                else:
                    operation = OPERATIONS.get(op) or getattr(scalars, op)
                    values.append(operation(*(values[k] for k in operands)))
            return np.array([values[k] for k in tape.outputs], object)

        return trace(play, {"y": tape.inputs, "p": len(self.held), **self.numbers}, "tape")

    def _tape(self, N: int, function: Callable[..., Array]) -> Tape:
        """The tape of a function of y, p, w, constants and parameters."""
        first = N + len(self.held)  # of the changes

        def split(x: Array, c: Array, u: Array) -> Array:
            return function(x[:N], x[N:first], x[first:], c, u)

        traced = trace(split, {"x": first + N, **self.numbers}, "extended")
        parameters = self.numbers["u"]
        known = {symbol: k for k, symbol in enumerate([*traced.inputs["u"].flat, *traced.inputs["c"].flat])}
        tape = exact_tape(traced, known, self.constants)
        nodes = tuple(
            ("constant", node[1] - parameters) if node[0] == "parameter" and node[1] >= parameters else node
            for node in tape.nodes
        )
        return replace(tape, nodes=nodes)

    def _of_states(self, tape: Tape) -> Tape:
        """The same function, in the larger system."""
        function = self._function(tape)
        return self._tape(tape.inputs, lambda y, p, w, c, u: function(y, p, c, u))

    def _field(self, phase: OrbitPhase) -> Tape:
        f = self._function(phase.field)
        df = jvp(f, "y")

        def field(y: Array, p: Array, w: Array, c: Array, u: Array) -> Array:
            return np.concatenate([f(y, p, c, u), np.zeros(len(p)), df(y, p, c, u, w)])

        return self._tape(phase.size, field)

    def _jump(self, phase: OrbitPhase, is_last: bool) -> Tape:
        f, g = self._function(phase.field), self._function(phase.section)
        dg = jvp(g, "y")
        J = None if phase.jump is None else self._function(phase.jump)
        dJ = None if J is None else jvp(J, "y")

        def jump(y: Array, p: Array, w: Array, c: Array, u: Array) -> Array:
            rate = f(y, p, c, u)
            later = dg(y, p, c, u, w)[0] / dg(y, p, c, u, rate)[0]
            w = w - rate * later
            if J is not None and dJ is not None:
                y, w = J(y, p, c, u), dJ(y, p, c, u, w)
            if is_last:
                w = self._closed(w, c)
            if is_last and self.held:
                p = p + (sum(c[k] * a for k, a in zip(self.normal, w, strict=True)) - 1.0)
            return np.concatenate([y, p, w])

        return self._tape(phase.size, jump)

    def _closed(self, w: Array, c: Array) -> Array:
        """The change behind the last phase, without its part along symmetries, with the sign."""
        for symmetry, along in zip(self.old.symmetries, self.along, strict=True):
            moved = w[symmetry.coordinate]
            w = np.array(
                [a - moved * c[k] if x else a for a, k, x in zip(w, along, symmetry.along[0], strict=True)]
            )
        return w if self.sign > 0 else -w


def changes_along(problem: StepEquations, orbit: SteppedOrbit, W: Array) -> tuple[list[Array], Array]:
    """How changes W (N, k) of the start move along an orbit, about: at the nodes of each phase, and at last.

    The first result has an array (m + 1, N, k) for each phase, the second one is behind the last phase.
    """
    M = problem.derivatives(orbit, exactly(orbit.flat)).middles()
    phases = []
    for phase, blocks, steps in zip(problem.equations.phases, M.phases, orbit.phases, strict=True):
        nodes = [W]
        for D in blocks.steps:
            nodes.append(D @ nodes[-1])
        phases.append(np.stack(nodes))
        # the event is reached later
        rate = middle(problem.rate(phase, exactly(steps.x[-1])))
        W = nodes[-1] - np.outer(rate, blocks.section @ nodes[-1]) / (blocks.section @ rate)
        W = blocks.jump @ W
    for coordinate, xi in zip(M.coordinates, M.translations, strict=True):
        W = W - np.outer(xi, W[coordinate])
    return phases, W
