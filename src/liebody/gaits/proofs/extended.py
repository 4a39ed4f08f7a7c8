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
from ...compiler import Constants, Function, Tape, jvp, trace
from .equations import ExactEquations, OrbitPhase, Symmetry, exact_tape

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
    parameter  p, which is a state of the larger system
    sign       1 for a fold, -1 for a flip
    normal     l (N,), of the states of the first phase
    """

    def __init__(self, equations: ExactEquations, parameter: str, sign: int, normal: Sequence[float]) -> None:
        old = equations.constants
        self.old = equations
        self.constants = Constants(dict(old.parameters), old.spread, list(old.bounds))
        self.index = list(old.parameters).index(parameter)
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
            Symmetry(x.coordinate, [[*xi, *[Fraction(0)] * (len(xi) + 1)] for xi in x.along])
            for x in old.symmetries
        ]
        return ExactEquations(old.name, self.constants, phases, old.common, symmetries)

    def _phase(self, phase: OrbitPhase, is_last: bool) -> OrbitPhase:
        return replace(
            phase,
            names=[*phase.names, "parameter", *(f"change of {name}" for name in phase.names)],
            field=self._field(phase),
            section=self._of_states(phase.section),
            jump=self._jump(phase, is_last),
            guards=[replace(guard, tape=self._of_states(guard.tape)) for guard in phase.guards],
            at_end=[(self._of_states(tape), sign) for tape, sign in phase.at_end],
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

        return trace(play, {"y": tape.inputs, "p": 1, **self.numbers}, "tape")

    def _tape(self, size: int, function: Callable[..., Array]) -> Tape:
        """The tape of a function of the larger state, constants and parameters."""
        traced = trace(function, {"x": size, **self.numbers}, "extended")
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
        N = tape.inputs
        function = self._function(tape)
        return self._tape(2 * N + 1, lambda x, c, u: function(x[:N], x[N : N + 1], c, u))

    def _field(self, phase: OrbitPhase) -> Tape:
        N = phase.size
        f = self._function(phase.field)
        df = jvp(f, "y")

        def field(x: Array, c: Array, u: Array) -> Array:
            y, p, w = x[:N], x[N : N + 1], x[N + 1 :]
            return np.concatenate([f(y, p, c, u), [0.0], df(y, p, c, u, w)])

        return self._tape(2 * N + 1, field)

    def _jump(self, phase: OrbitPhase, is_last: bool) -> Tape:
        N = phase.size
        f, g = self._function(phase.field), self._function(phase.section)
        dg = jvp(g, "y")
        J = None if phase.jump is None else self._function(phase.jump)
        dJ = None if J is None else jvp(J, "y")

        def jump(x: Array, c: Array, u: Array) -> Array:
            y, p, w = x[:N], x[N : N + 1], x[N + 1 :]
            rate = f(y, p, c, u)
            later = dg(y, p, c, u, w)[0] / dg(y, p, c, u, rate)[0]
            w = w - rate * later
            if J is not None and dJ is not None:
                y, w = J(y, p, c, u), dJ(y, p, c, u, w)
            if is_last:
                w = self._closed(w, c)
                p = p + (sum(c[k] * a for k, a in zip(self.normal, w, strict=True)) - 1.0)
            return np.concatenate([y, p, w])

        return self._tape(2 * N + 1, jump)

    def _closed(self, w: Array, c: Array) -> Array:
        """The change behind the last phase, without its part along symmetries, with the sign."""
        for symmetry, along in zip(self.old.symmetries, self.along, strict=True):
            moved = w[symmetry.coordinate]
            w = np.array(
                [a - moved * c[k] if x else a for a, k, x in zip(w, along, symmetry.along[0], strict=True)]
            )
        return w if self.sign > 0 else -w
