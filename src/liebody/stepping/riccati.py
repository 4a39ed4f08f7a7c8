"""The forward and backward passes of differential dynamic programming, compiled or in NumPy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..base.concurrency import cached_property
from ..compiler import Function, Program
from ..compiler.native import build
from ..compiler.native.libraries import Libraries
from ..compiler.printers.c import DOUBLE, NumberType
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.printers.program import callable_over_lanes
from ..compiler.programs import Packing
from ..compiler.runtime import runtime
from .print_descent import iterations
from .print_march import opening

ROUNDS = 100  # of a search in a box
ZERO_SLOPE = 1e-12  # in units of the largest entry of the linear term
ZERO_SLOPE_FLOAT = 1e-6  # the same, of floats
LINE = 64  # bytes of a cache line


def passes_head(sizes: ShootingSizes, number: NumberType = DOUBLE) -> list[str]:
    """Dimensions and constants, which runtime/shooting.h reads."""
    values: dict[str, object] = dict(zip(("STATE", "TANGENT", "INPUT", "PARAMETERS"), sizes, strict=True))
    values |= {"ALL": "(TANGENT + INPUT)", "ROUNDS": ROUNDS}
    values["ZERO_SLOPE"] = number.literal(ZERO_SLOPE if number is DOUBLE else ZERO_SLOPE_FLOAT)
    return [f"#define {name} {value}" for name, value in values.items()]


class ShootingFunctions(NamedTuple):
    """The functions of a forward pass, traced; d are tangents of states, p parameters of a knot."""

    difference: Function | Program
    """(a, b) -> d, with a exp(d) = b"""
    advance: Function | Program
    """(x, d) -> x exp(d)"""
    next: Function | Program
    """(x, u, p) -> next x, cost (1,)"""
    end: Function | Program
    """(x, p) -> cost (1,)"""


class _Call(ctypes.Structure):
    _fields_ = build.fields(
        "int64 knots apart gapped bounded width pieces, double damping change gradient gaps, "
        "void_p x u p models end low high alpha constant at of factor length k K slopes states inputs costs "
        "scratch"
    )


class ShootingSizes(NamedTuple):
    """Numbers of entries of x, d, u and p."""

    state: int
    tangent: int
    input: int
    parameters: int


class ShootingWorkspace:
    """The arrays that passes over a trajectory of N knots read and write.

    models  a row for each knot: the gap (n,) from x_(k+1) to the end of the step; the cost (1,); and packed
            numbers, from which `packing` makes rows of n + m numbers: n rows of the derivative F of the step,
            one row g and the rows of H of the cost
    end     cost, g (n,) and H (n, n) of the last state
    slopes  derivatives of the cost to go by the state behind each knot, (N, n), by the last backward pass
    """

    def __init__(
        self, sizes: ShootingSizes, knots: int, lanes: int, packing: Packing, low: Any, high: Any
    ) -> None:
        x, n, m, _ = sizes
        N = knots
        self.knots = knots
        self.low, self.high = low, high
        self.bounded = bool(np.isfinite([low, high]).any())
        # the trajectory, with parameters of each knot and of the end
        self.x = np.zeros((N + 1, x))
        self.u = np.zeros((N, m))
        self.p = np.zeros((N + 1, sizes.parameters))
        # its linear-quadratic model
        self.models, (self.gap, self.cost, _) = _in_rows(((n,), (), (packing.numbers - n - 1,)), N)
        self.end, (self.end_cost, self.end_g, self.end_H) = _in_rows(((), (n,), (n, n)))
        # the gains of a backward pass
        self.k = np.zeros((N, m))
        self.K = np.zeros((N, m, n))
        self.slopes = np.zeros((N, n))
        # the trajectories of a forward pass, one for each of `lanes` step lengths alpha
        self.states = np.zeros((N + 1, x, lanes))
        self.inputs = np.zeros((N, m, lanes))
        self.costs = np.zeros(lanes)
        self.alpha = np.zeros(lanes)
        # places of packed numbers in F, g and H whose rows are padded to whole vectors
        self.packing = packing
        wide = -(-(n + m) // lanes) * lanes
        self.constant = np.pad(packing.constant.reshape(-1, n + m), ((0, 0), (0, wide - n - m)))
        self.at = packing.at // (n + m) * wide + packing.at % (n + m)
        self.of, self.factor, self.length = packing[3:]
        self.scratch = _aligned(scratch_size(sizes, lanes))
        pointers = [getattr(self, name).ctypes.data for name, _ in _Call._fields_[10:]]
        counts = self.models.shape[1], len(self.at)
        self.call = _Call(N, self.p.shape[1], 0, self.bounded, *counts, 0, 0, 0, 0, *pointers)

    @property
    def gapped(self) -> bool:
        """Whether the trajectory has gaps between its knots."""
        return bool(self.call.gapped)

    @gapped.setter
    def gapped(self, value: bool) -> None:
        self.call.gapped = value

    def matrices(self, knots: Any = slice(None)) -> list[Any]:
        """F, g and H of some knots."""
        n = self.end_g.size
        all_ = n + self.u.shape[1]
        rows = self.packing.unpack(self.models[knots])
        F, g, H = np.split(rows.reshape(*rows.shape[:-1], -1, all_), [n, n + 1], axis=-2)
        return [F, g[..., 0, :], H]


def scratch_size(sizes: ShootingSizes, lanes: int) -> int:
    """How many numbers `Scratch` of runtime/shooting.h holds: the matrices of one knot."""
    _, n, m, _ = sizes
    narrow, wide = (-(-size // lanes) * lanes for size in (n, n + m))
    return (n + 2 * m) * narrow + (n + n + 1 + n + m) * wide


def _aligned(size: int) -> Any:
    """An array of zeros that begins where a cache line does."""
    spare = LINE // 8
    memory = np.zeros(size + spare)
    first = -memory.ctypes.data % LINE // 8
    return memory[first : first + size]


def _in_rows(shapes: tuple[tuple[int, ...], ...], *batch: int) -> tuple[Any, list[Any]]:
    """An array (*batch, size), and views of parts of its rows."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    rows = np.zeros((*batch, ends[-1]))
    return rows, [
        x.reshape((*batch, *s)) for x, s in zip(np.split(rows, ends[:-1], axis=-1), shapes, strict=True)
    ]


class Backward(NamedTuple):
    """Results of a backward pass beside the gains.

    change    of the cost, as predicted for alpha = 1
    gradient  largest |Q_u| among inputs that bounds leave free
    gaps      sum of |gap|
    """

    change: float
    gradient: float
    gaps: float


class ShootingPasses:
    """Passes over trajectories x_0 ... x_N with inputs u_0 ... u_(N - 1), of runtime/shooting.h.

    functions   makes the functions of forward passes
    sizes       of x, d, u and p
    recipe      a text that determines the functions; None: they are traced to find the library
    low, high   bounds of u, (m,), which may be infinite
    """

    def __init__(
        self,
        functions: Callable[[], ShootingFunctions],
        sizes: ShootingSizes,
        recipe: str | None,
        low: Any,
        high: Any,
    ) -> None:
        self._make = functions
        self.sizes = sizes
        self.recipe = recipe
        self.low, self.high = low, high

    @cached_property
    def functions(self) -> ShootingFunctions:
        return self._make()

    def source(self, lanes: int) -> str:
        """C source over so many lanes."""
        text = [*opening(lanes), *passes_head(self.sizes)]
        for name, function in self.functions._asdict().items():
            text += callable_over_lanes(function, name)
        return "\n".join([*text, runtime("shooting.h"), *iterations()])

    @property
    def library(self) -> Any:
        """The compiled passes; None without a compiler, or without a folder for libraries."""
        return self._library

    @cached_property
    def _library(self) -> Any:
        recipe = [self.recipe, repr(self.sizes), "shooting"] if self.recipe else []
        return Libraries(
            lambda lanes: build.Source([self.source(lanes)], name="passes of optimal control"), recipe
        ).over(True)

    @property
    def lanes(self) -> int:
        """How many step lengths a forward pass tries."""
        return ctypes.c_int.in_dll(self._library, "lanes").value if self._library else 8

    def workspace(self, knots: int, packing: Packing) -> ShootingWorkspace:
        """Arrays for trajectories of so many knots."""
        return ShootingWorkspace(self.sizes, knots, self.lanes, packing, self.low, self.high)

    def backward(self, w: ShootingWorkspace, damping: float) -> Backward | None:
        """Gains k, K of the linear-quadratic model; None where Q_uu with damping is not positive definite."""
        if not self._library:
            return backward(w, damping)
        w.call.damping = damping
        if self._library.backward(ctypes.byref(w.call)):
            return None
        return Backward(w.call.change, w.call.gradient, w.call.gaps)

    def forward(self, w: ShootingWorkspace, alpha: Any) -> None:
        """states, inputs and costs of the trajectories with these step lengths, (lanes,)."""
        w.alpha[:] = alpha
        if not self._library:
            self._forward_numpy(w)
            return
        self._library.forward(ctypes.byref(w.call))

    @cached_property
    def _numpy(self) -> Any:
        return ShootingFunctions._make(map(compile_numpy, self.functions))

    def _forward_numpy(self, w: ShootingWorkspace) -> None:
        f = self._numpy
        alpha = w.alpha[:, None]
        x = np.broadcast_to(w.x[0], (len(alpha), w.x.shape[1]))
        cost = 0.0
        with np.errstate(all="ignore"):
            for t in range(w.knots):
                d = f.difference(w.x[t], x)
                u = np.clip(w.u[t] + alpha * w.k[t] + d @ w.K[t].T, w.low, w.high)
                w.states[t] = x.T
                w.inputs[t] = u.T
                y, c = f.next(x, u, w.p[t])
                cost = cost + c
                # a step of length alpha closes this part of a gap of the trajectory it starts from
                x = f.advance(y, (alpha - 1) * w.gap[t]) if w.gapped else y
            w.states[-1] = x.T
            w.costs[:] = (cost + f.end(x, w.p[-1]))[:, 0]


def backward(w: ShootingWorkspace, damping: float) -> Backward | None:
    """`backward` of runtime/shooting.h, in NumPy.

    With V and v, the derivatives of the cost to go at the next state, v moved across the gap by V gap,

        q = g + F^T v,    Q = H + F^T V F,    k = -Q_uu^-1 q_u,    K = -Q_uu^-1 Q_ux
        v = q_x + K^T (Q_uu k + q_u) + Q_xu k,    V = Q_xx + K^T (Q_uu K + Q_ux) + Q_xu K

    Q_uu is damped for k and K. With bounds, k is the minimum within them, and rows of K are zero where k is
    at a bound.

    Tassa, Mansard, Todorov (2014), "Control-limited differential dynamic programming".
    """
    n, m = w.end_g.size, w.u.shape[1]
    v = w.end_g.copy()
    V = w.end_H.copy()
    change = gradient = gaps = 0.0
    k = np.zeros(m)  # the search in the box starts from the k of the next knot
    for t in reversed(range(w.knots)):
        if w.gapped:
            turned = V @ w.gap[t]
            change = change + w.gap[t] @ (v + turned / 2)
            gaps = gaps + np.abs(w.gap[t]).sum()
            v = v + turned
        w.slopes[t] = v
        F, g, H = w.matrices(t)
        q = g + F.T @ v
        Q = H + F.T @ V @ F
        qx, qu = np.split(q, [n])
        Qux = Q[n:, :n]
        Quu = Q[n:, n:]
        low = w.low - w.u[t]
        high = w.high - w.u[t]
        gradient = max(gradient, np.abs(np.clip(-qu, low, high)).max(initial=0.0))
        solution = _in_box(Quu + damping * np.eye(m), qu, low, high, k)
        if solution is None:
            return None
        k, free = solution
        K = np.zeros((m, n))
        K[free] = -np.linalg.solve(Quu[np.ix_(free, free)] + damping * np.eye(len(free)), Qux[free])
        w.k[t] = k
        w.K[t] = K
        change += k @ (qu + Quu @ k / 2)
        v = qx + K.T @ (Quu @ k + qu) + Qux.T @ k
        V = Q[:n, :n] + K.T @ (Quu @ K + Qux) + Qux.T @ K
        V = (V + V.T) / 2  # against round-off
    return Backward(float(change), float(gradient), float(gaps))


def _in_box(A: Any, q: Any, low: Any, high: Any, y: Any) -> tuple[Any, Any] | None:
    """The minimum y of q^T y + y^T A y / 2 in a box, and its free entries, by projected Newton steps.

    None if A is not positive definite. The search starts from y.
    """
    y = np.clip(y, low, high)
    free = np.arange(0)
    for _ in range(ROUNDS):
        # entries are held where they are at a bound and the slope points outwards
        slope = q + A @ y
        free = np.flatnonzero(((y > low) | (slope < 0)) & ((y < high) | (slope > 0)))
        inner = A[np.ix_(free, free)]
        try:
            np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:
            return None
        if not np.abs(slope[free]).max(initial=0.0) > ZERO_SLOPE * np.abs(q).max(initial=0.0):
            break
        # a Newton step of the free entries, shortened until the projected step decreases the cost enough
        way = np.zeros(len(q))
        way[free] = -np.linalg.solve(inner, slope[free])
        step = 1.0
        while True:
            moved = np.clip(y + step * way, low, high) - y
            if moved @ (slope + A @ moved / 2) <= 0.1 * (moved @ slope) or step < 1e-12:
                break
            step *= 0.6
        y = y + moved
    return y, free
