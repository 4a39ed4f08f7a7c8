"""The model of one knot: its step linearised and its cost to second order, as one function of few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiler import Function, Program, trace, traced
from ...compiler.programs import Packing, apply_hoisted, apply_once, looped_where_long, packed
from ...scalars import Array
from ...stepping import ShootingSizes
from .model import Cost, HeldStep, SolvedRates

LONG = 60_000  # operations of a knot from which on directions are a loop
BESIDE = 2  # directions in one turn of the loop, which share their operands

Packed = tuple[Function | Program, Packing]


class KnotModel:
    """(x, u, x_next, p), if exact slopes -> gap, cost, derivatives of the step, gradient and Hessian.

    x, u, p  state (q, v), input and parameters, flat
    slopes   of the cost to go, which weigh second derivatives of the step

    The results are a row of `stepping.ShootingWorkspace.models`, without entries that are constant or equal.
    """

    def __init__(self, step: HeldStep, stage: Cost, sizes: ShootingSizes, exact: bool) -> None:
        x, d, u, p = sizes
        self._step = step
        self._stage = stage
        self._size = d
        self._directions = d + u  # a tangent of the state and a change of the input
        self._shapes = {"x": x, "u": u, "following": x, "p": p, **({"slope": d} if exact else {})}

    def compact(self) -> Packed:
        """The function, and how a row of models is made of its results.

        The acceleration at the start is solved for column by column, in loops; directions of derivatives are
        a loop over later stages, and parts that do not depend on them are computed once. The compiler takes
        this program where it is long, a straight line elsewhere.
        """
        program = Program("knot", self._shapes)
        state, inputs, *_ = program.inputs.values()
        start = self._step.in_columns(program, state, inputs)
        if self._step.stage_count == 1:
            packing = self._one_stage(program, start)
            return looped_where_long(program, lambda: (program, packing), self._straight, LONG)
        self._later_stages(program, start)
        return looped_where_long(program, lambda: self._packed(program), self._straight, LONG)

    def _straight(self) -> Packed:
        return self._packed(traced(self._knot, self._shapes, "knot"))

    def _packed(self, function: Function | Program) -> Packed:
        # the row begins with gap and cost, which are read as they are: d + 1 numbers
        return packed(function, self._directions, self._size + 1)

    def _one_stage(self, program: Program, start: SolvedRates) -> Packing:
        """Finish the program of a step that asks for the acceleration once, at its start."""

        def ended(x: Array, u: Array, *rest: Array) -> Array:
            return self._knot(x, u, *rest[:-1], first=start.rates(x, u, rest[-1]))

        # all that follows the solution is short: one straight line, packed before it joins the program
        whole = trace(ended, {**self._shapes, "found": len(start.cells)}, "knot")
        line, packing = self._packed(whole)
        assert isinstance(line, Function)
        program.output("knot", apply_once(program, line, *program.inputs.values(), start.cells))
        return packing

    def _later_stages(self, program: Program, start: SolvedRates) -> None:
        """Finish the program of a step with several stages: the directions take turns in a loop."""
        state, inputs, *_ = arguments = program.inputs.values()
        directions = self._directions
        d = self._size
        n = self._step.mechanism.nv
        x = self._shapes["x"]
        u = self._shapes["u"]

        # rates of the state at the start, with their derivatives along all directions: (d, 1 + directions)
        shapes = {"x": x, "u": u, "found": len(start.cells)}
        flat = trace(lambda x, u, numbers: start.rates(x, u, numbers).ravel(), shapes, "rates")
        first = apply_once(program, flat, state, inputs, start.cells).reshape(d, 1 + directions)

        def along(x: Array, u: Array, f: Array, unit: Array, change: Array) -> tuple[Array, Array]:
            # rates of q change as v does along a direction, those of v as the acceleration does
            return self._end(x, u, unit, np.hstack([f[:, None], np.vstack([unit[n:d], change])]))

        def in_turns(columns: Array, none: Array) -> Array:
            columns = np.hstack([columns, none])
            return columns.reshape(len(columns), -1, BESIDE).swapaxes(0, 1)

        # zero directions fill the last turn
        left = -directions % BESIDE
        by = {
            "unit": in_turns(np.eye(directions), np.zeros((directions, left))),
            "change": in_turns(first[n:, 1:], program.zeros((n, left))),
        }
        sizes: Any = {"x": x, "u": u, "f": d, **{key: values.shape[1:] for key, values in by.items()}}
        rates = state, inputs, first[:, 0]
        reached, columns = apply_hoisted(program, trace(along, sizes, "end"), by, rates)
        columns = np.concatenate([*columns.swapaxes(1, 2)])[:directions].T

        model = trace(self._model, {**self._shapes, "end": x}, "model")
        begin, last = program.apply(model, *arguments, reached)
        program.output("knot", np.concatenate([begin, columns.ravel(), last]))

    # -- the equations, on symbols ------------------------------------------------------------------------

    def _knot(self, x: Array, u: Array, *rest: Array, first: Array | None = None) -> Array:
        """The row, with all entries."""
        reached, columns = self._end(x, u, np.eye(self._directions, dtype=int), first)
        begin, last = self._model(x, u, *rest, reached)
        return np.concatenate([begin, columns.ravel(), last])

    def _end(self, x: Array, u: Array, unit: Array, first: Array | None = None) -> tuple[Array, Array]:
        """The state at the end of the step, and its derivatives along the columns of `unit`."""
        nq = self._step.mechanism.nq
        point = self._step.derivative(x[:nq], x[nq:], u, unit, first)
        return np.concatenate([point.q, point.v]), np.concatenate([point.delta, point.nu])

    def _model(self, x: Array, u: Array, following: Array, p: Array, *rest: Array) -> tuple[Array, Array]:
        """Gap and cost; gradient and Hessian of the cost, with the curvature of the step if exact."""
        *slope, end = rest
        nq = self._step.mechanism.nq
        gap = self._step.group.difference(following[:nq], end[:nq]), end[nq:] - following[nq:]
        cost, g, H = self._stage.derivatives(x[:nq], x[nq:], u, p)
        for weights in slope:
            H = H + self._step.curvature(x[:nq], x[nq:], u, weights)
        return np.concatenate([*gap, cost]), np.concatenate([g, H.ravel()])
