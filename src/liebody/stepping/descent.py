"""Iterations of differential dynamic programming with gaps (FDDP), and multipliers; compiled or in NumPy.

An iteration makes quadratic models of all knots, runs the backward pass, and searches along the forward
passes for a step that decreases cost and gaps. runtime/descent.h has it in C, `Descent._iterate` in NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiler import Kernel
from ..compiler.native import build
from ..compiler.native.kernel import FEW
from .print_descent import ACCEPTED, CLOSED, FACTOR, LEAST, LENGTHS, MOST, NEAR, ROUND_OFF, Ended
from .riccati import Backward, ShootingPasses, ShootingWorkspace


class _Batch(ctypes.Structure):
    _fields_ = build.fields("void_p run, int64 rows, void_p inputs input_strides outputs output_strides")


class Batch:
    """A kernel applied to rows of arrays that stay where they are, in C or by its call in NumPy.

    arrays  (rows, size), whose rows are contiguous, for each input
    out     (rows, size), contiguous
    """

    def __init__(self, kernel: Kernel, arrays: Sequence[Any], out: Any) -> None:
        self._kernel = kernel
        self._arrays = arrays
        self.out = out
        rows = len(out)
        library = kernel.loops(rows)[rows >= FEW]
        # C reads these tables at each call; they and the library live as long as the batch
        tables: list[Any] = [
            np.array([x.ctypes.data for x in arrays], np.uintp),
            np.array([x.strides[0] // x.itemsize for x in arrays], np.int64),
            np.array([out.ctypes.data], np.uintp),
            np.array([out.strides[0] // out.itemsize], np.int64),
        ]
        self._kept = library, tables
        run = ctypes.cast(library.run, ctypes.c_void_p).value
        self.in_c = _Batch(run, rows, *(x.ctypes.data for x in tables))


class _Descent(ctypes.Structure):
    _fields_ = build.fields(
        "void_p passes knot end, int64 may_step begun curved, double damping weight scale tolerance "
        "cost gaps gradient expected tried step reached"
    )


class Descent:
    """A search for the trajectory of least cost, from that in `w` on, iteration by iteration.

    passes  the forward and backward passes
    w       the trajectory, its models and gains
    knot    (x, u, next x, p), and slopes if `exact` -> a row of `w.models`
    end     (x, p) -> `w.end`

    A step of length alpha leaves 1 - alpha of each gap, and is taken where the merit cost + weight * gaps
    falls by a tenth of what is predicted; the weight is such that the prediction is a decrease (Nocedal and
    Wright 2006, eq. 18.36). Otherwise Q_uu is damped. Second derivatives of steps, along the slopes of the
    cost to go, are taken near the end only, and where the model has a minimum with them.

    After an iteration, `state` has its numbers: the cost, sum of |gap|, largest slope by an input that its
    bounds leave, and expected decrease at the model; the damping on Q_uu that was tried; the length of the
    step, 0 if none was taken; and the cost that it has reached.
    """

    def __init__(
        self, passes: ShootingPasses, w: ShootingWorkspace, knot: Kernel, end: Kernel, exact: bool
    ) -> None:
        self.w = w
        self._passes = passes
        slopes = [w.slopes] if exact else []
        self._kernels = (
            (knot, [w.x[:-1], w.u, w.x[1:], w.p[:-1], *slopes], w.models),
            (end, [w.x[-1:], w.p[-1:]], w.end[None]),
        )
        self.state = _Descent()
        if passes.library:
            self._batches = [Batch(*x) for x in self._kernels]
            addresses = [ctypes.addressof(x) for x in (w.call, *(batch.in_c for batch in self._batches))]
            self.state = _Descent(*addresses)
        self.restart()

    def restart(self) -> None:
        """Forget what earlier iterations have learnt: damping, weight of gaps, curvature of steps."""
        state = self.state
        state.begun = state.curved = 0
        state.damping = state.weight = 0.0
        self.w.slopes[:] = 0

    def iterate(self, tolerance: float, may_step: bool) -> Ended:
        """An iteration; without `may_step` it ends before the step, with the model and the gains.

        tolerance  expected decrease, in units of the cost, at which the search has converged
        """
        self.state.tolerance = tolerance
        self.state.may_step = may_step
        if not self._passes.library:
            return self._iterate()
        ended = Ended(self._passes.library.iterate(ctypes.byref(self.state)))
        if ended == Ended.NO_MEMORY:
            raise MemoryError("no memory for the models of knots")
        return ended

    def linearize(self) -> None:
        """The models of all knots, into `w`."""
        for kernel, arrays, out in self._kernels:
            kernel(*arrays, out=out)

    def _backward(self) -> Backward | None:
        return self._passes.backward(self.w, self.state.damping * self.state.scale)

    def _straighten(self) -> None:
        """Leave out second derivatives of steps."""
        self.state.curved = False
        self.w.slopes[:] = 0

    def _damp(self) -> bool:
        """Raise the damping; whether it is too large then."""
        self.state.damping = max(self.state.damping * FACTOR, LEAST)
        return self.state.damping > MOST

    def _iterate(self) -> Ended:
        """`iterate` of runtime/descent.h, in NumPy; its six stages share their variables."""
        state = self.state
        w = self.w
        passes = self._passes
        state.step = 0.0
        # 1. quadratic models of all knots at the present trajectory
        self.linearize()
        state.cost = float(w.cost.sum() + w.end_cost)
        w.gapped = w.gapped and bool(np.abs(w.gap).max() > CLOSED)
        if not state.begun:
            # the damping is measured by the inputs' own second derivatives
            state.begun = True
            diagonals = np.diagonal(w.matrices()[2], axis1=1, axis2=2)[:, -w.u.shape[1] :]
            state.scale = float(np.abs(diagonals).mean()) or 1.0
        # 2. backward pass; without a minimum, second derivatives are left out or Q_uu is damped
        while (model := self._backward()) is None:
            if state.curved:  # which may have made it concave
                self._straighten()
                self.linearize()
            elif self._damp():
                return Ended.NO_MINIMUM
        # 3. the merit weighs gaps so much that the step must lower it, also where the cost rises
        if model.change > 0:
            state.weight = max(state.weight, 2 * model.change / max(model.gaps, CLOSED))
        state.expected = state.weight * model.gaps - model.change
        state.gaps, state.gradient, state.tried = model.gaps, model.gradient, state.damping
        if not w.gapped and state.expected <= state.tolerance * max(abs(state.cost), state.tolerance):
            return Ended.WITHIN_TOLERANCE
        if not state.may_step:
            return Ended.LIMITED
        # 4. forward passes, a length in each lane; the longest good step wins
        merit = state.cost + state.weight * model.gaps
        best = None
        for first in range(0, LENGTHS, passes.lanes):
            steps = 0.5 ** np.arange(first, first + passes.lanes)
            passes.forward(w, steps)
            drop = merit - w.costs - state.weight * (1 - steps) * model.gaps
            good = np.flatnonzero(drop >= ACCEPTED * steps * state.expected)
            if len(good):
                best = int(good[0])
                state.step = float(steps[good[0]])
                break
        # 5. near the end full steps succeed: second derivatives of the steps then give Newton's method
        state.curved = best is not None and state.step == 1 and state.expected <= NEAR * abs(state.cost)
        if not state.curved:
            self._straighten()
        if best is None:
            if not w.gapped and state.expected <= ROUND_OFF * abs(state.cost):
                return Ended.WITHIN_ROUND_OFF
            return Ended.NO_DESCENT if self._damp() else Ended.REJECTED
        # 6. take the step; long steps lower the damping, very short ones raise it
        state.reached = float(w.costs[best])
        w.x[:] = w.states[:, :, best]
        w.u[:] = w.inputs[:, :, best]
        w.gapped = w.gapped and state.step < 1
        if state.step > 0.5:
            state.damping = state.damping / FACTOR if state.damping > LEAST else 0.0
        elif state.step < 0.02:
            self._damp()
        return Ended.STEPPED


class _Multipliers(ctypes.Structure):
    _fields_ = build.fields(
        "void_p values uncontrolled multipliers, int64 size apart first, double penalty residual paid"
    )


class MultiplierUpdate:
    """Multipliers of constraints along the knots of a trajectory, and their next values, in C or NumPy.

    values        kernel (*arrays) -> distances to the bounds, then the next multipliers, (2 size,)
    arrays        its inputs, a row for each knot
    multipliers   (knots, size), updated in place
    uncontrolled  entries on which no input acts before the next knot (size,): at the initial state nothing
                  can be done about them; None if the first row is not the initial state

    After a call, `residual` has the largest change of the multipliers by the penalty, which is the violation
    of active constraints, and `paid` what their residuals add to the cost of the search.
    """

    def __init__(
        self, passes: ShootingPasses, values: Kernel, arrays: Sequence[Any], multipliers: Any,
        uncontrolled: Any,
    ) -> None:  # fmt: skip
        knots, size = multipliers.shape
        self._passes = passes
        self._kernel = values
        self._arrays = arrays
        self._multipliers = multipliers
        self._row = np.zeros((knots, 2 * size))
        self.distances = self._row[:, :size]
        self._uncontrolled = (
            np.zeros(size, np.int64) if uncontrolled is None else uncontrolled.astype(np.int64)
        )
        self.residual = self.paid = 0.0
        if passes.library:
            self._batch = Batch(values, arrays, self._row)
            self._in_c = _Multipliers(
                ctypes.addressof(self._batch.in_c), self._uncontrolled.ctypes.data, multipliers.ctypes.data,
                size, multipliers.strides[0] // multipliers.itemsize, uncontrolled is not None,
            )  # fmt: skip

    def __call__(self, penalty: float, update: bool) -> None:
        """Evaluate the constraints; the multipliers become the next ones if `update`."""
        if not self._passes.library:
            self._in_numpy(penalty, update)
            return
        self._in_c.penalty = penalty
        if self._passes.library.renew(ctypes.byref(self._in_c), ctypes.c_int64(update)):
            raise MemoryError("no memory for the values of constraints")
        self.residual = self._in_c.residual
        self.paid = self._in_c.paid

    def _in_numpy(self, penalty: float, update: bool) -> None:
        """`renew` of runtime/descent.h."""
        self._kernel(*self._arrays, out=self._row)
        following = self._row[:, self.distances.shape[1] :]
        self.paid = float((following**2).sum()) / (2 * penalty)
        changes = np.nan_to_num(np.abs(following - self._multipliers) / penalty, nan=np.inf)
        changes[:1, self._uncontrolled != 0] = 0
        self.residual = float(changes.max(initial=0.0))
        if update:
            kept = self._multipliers[:1, self._uncontrolled != 0]
            self._multipliers[:] = following
            self._multipliers[:1, self._uncontrolled != 0] = kept
