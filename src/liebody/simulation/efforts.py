"""The efforts that drive a motion: numbers, samples over time, or a function of the state."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.arguments import check_arguments, floats, takes_parameters, wrong_shape
from ..base.errors import GraphError, LiebodyError, ShapeError, pass_on_signals
from ..base.texts import words_of
from ..compiler import Function, Kernel, trace
from ..integrators import MechanicalFlow
from ..mechanisms import Mechanism
from ..scalars import Array
from ..stepping import Flow, Samples
from ..stepping.samples import equidistant, is_linear
from .setup import NONE


class EffortInput:
    """The efforts of a motion as a user gives them: numbers, samples, or a function, traced or called.

    kind     "none", "compiled" or "called"
    refusal  why a function can only be called, in words; None where it was traced
    samples  numbers of all members or of each; zero where efforts are a function
    traced   the function, where it could be traced; called: the function, where it could not
    p        parameters, (np,) or (*batch, np), which stand behind the efforts, and which functions may take
    """

    def __init__(
        self, mechanism: Mechanism, tau: Any, hold: str, batch: tuple[int, ...] = (), p: Array = NONE
    ) -> None:
        linear = is_linear(hold)
        self.nq = mechanism.nq
        self.nv = mechanism.nv
        self.nu = mechanism.nu
        self.layout = mechanism.layout
        # One row for all members stays one; values of members are spread over the batch.
        self.p = np.broadcast_to(p, (*batch, p.shape[-1])) if p.ndim > 1 else p
        self.kind = "none" if tau is None else "compiled"
        self.traced: Function | None = None
        self.called: Callable[..., Any] | None = None
        self.refusal: str | None = None
        if tau is None or callable(tau):
            self.samples = _zero(self.nu)
        else:
            self.samples = _sampled(tau, self.nu, linear, batch)

    def trace(self, feedback: Callable[..., Any], q: Array, v: Array) -> str | None:
        """Take the function (t, q, v) -> (nu,), traced; or say why it can only be called.

        Raises what the function raises on the numbers of a state (q, v), and ShapeError for a result of
        another shape.
        """
        # A wrong number of arguments is reported now, and not from within the trace.
        taken = takes_parameters(feedback)
        check_arguments("tau", feedback, *"tqvp"[: 3 + taken], more=", or of (t, q, v, p) with parameters")

        def efforts(t: Any, q: Array, v: Array, *p: Array) -> Array:
            return np.asarray(feedback(t, q, v, *([self.layout.read(*p)] if taken else [])))

        more = {"parameters": self.layout.size} if self.layout.size else {}
        try:
            traced = trace(efforts, {"t": (), "q": self.nq, "v": self.nv, **more}, "tau")
        except Exception as error:  # the user's code may raise anything on symbols
            pass_on_signals(error)
            has_line = getattr(error, "has_line", False)
            why = str(error) if has_line else f"tau cannot be traced, {words_of(error)}"
            cause = (has_line and error.__cause__) or error
            self.kind = "called"
            self.called = efforts
            self.refusal = why
            # A function that fails on numbers, too, is wrong: its own error says more than that of symbols,
            # unless the error on symbols came from the graph.
            try:
                self.at(0.0, q.copy(), v.copy(), self._rows(1)[0])
            except LiebodyError:
                raise
            except Exception as failed:
                pass_on_signals(failed)
                if not isinstance(cause, GraphError):
                    raise
                raise GraphError(
                    f"tau(t, q, v) fails on numbers, {type(failed).__name__}: {failed}; and {why}"
                ) from failed
            return why
        # The shape of a traced function is known without a call.
        (result,) = traced.outputs.values()
        self._check(result.shape)
        self.traced = traced
        return None

    def _check(self, shape: tuple[int, ...]) -> None:
        if shape != (self.nu,):
            raise ShapeError(f"tau(t, q, v) returned an array of shape {shape}, expected ({self.nu},)")

    def at(self, t: float, q: Array, v: Array, p: Array) -> Array:
        """The efforts (nu,) that the called function returns at a state."""
        assert self.called is not None
        u = np.asarray(self.called(t, q, v, *([p] if len(p) else [])), float)
        self._check(u.shape)
        return u

    def at_states(self, t: float, y: Array) -> Array:
        """The same of an ensemble's states y (n, nq + nv, ...), (n, nu); NaN where they are not finite."""
        lost = np.full(self.nu, np.nan)
        nq = self.nq
        end = self.nq + self.nv
        rows = self._rows(len(y))
        # One member after the other: the function takes single states.
        u = [
            self.at(t, x[:nq], x[nq:end], p) if np.isfinite(x).all() else lost
            for x, p in zip(y, rows, strict=True)
        ]
        return np.concatenate([u, rows], axis=-1)

    def _rows(self, n: int) -> Array:
        """The parameters of n members, (n, np)."""
        # A single row serves all members.
        flat = self.p.reshape(-1, self.layout.size) if self.layout.size else np.zeros((1, 0))
        return np.broadcast_to(flat[:n], (n, self.layout.size))

    def taken(self, flow: Flow | MechanicalFlow) -> Samples:
        """The samples that a flow takes; implicit methods take none where efforts are a function."""
        is_part_of_flow = self.traced and isinstance(flow, MechanicalFlow)
        efforts = Samples(np.zeros((1, 1, 0))) if is_part_of_flow else self.samples
        return efforts.beside(self.p.reshape(-1, self.layout.size)) if self.layout.size else efforts

    def recorded(self, times: Array, Q: Array, V: Array) -> Array:
        """The efforts at the recorded times, (..., times, nu); NaN where the states are not finite."""
        finite = np.isfinite(Q).all(axis=-1) & np.isfinite(V).all(axis=-1)
        u = np.full((*finite.shape, self.nu), np.nan)
        p = np.broadcast_to(self.p[..., None, :], (*finite.shape, self.layout.size))
        # Compiled, called, or sampled, as in the march; here at the recorded times only.
        if self.traced is not None:
            more = [p[finite]] if self.layout.size else []
            u[finite] = Kernel(self.traced)(
                np.broadcast_to(times, finite.shape)[finite], Q[finite], V[finite], *more
            )
        elif self.called is not None:
            for place in map(tuple, np.argwhere(finite)):
                u[place] = self.at(times[place[-1]], Q[place], V[place], p[place])
        else:
            sampled = np.stack([self.samples.at(t) for t in times], axis=-2)
            shape = (*(Q.shape[:-2] if len(sampled) > 1 else ()), len(times), self.nu)
            u[finite] = np.broadcast_to(sampled.reshape(shape), u.shape)[finite]
        return u


@functools.cache
def _zero(nu: int) -> Samples:
    """No efforts."""
    return Samples(np.zeros((1, 1, nu)))


def is_sampled(tau: Any) -> bool:
    """Whether efforts are samples: a pair (times (samples,), values (..., samples, nv)), not two numbers."""
    return isinstance(tau, tuple) and len(tau) == 2 and np.ndim(tau[0]) > 0


def _sampled(tau: Any, nu: int, linear: bool, batch: tuple[int, ...]) -> Samples:
    """Efforts that are constant (..., nu), or a pair (times, values (..., samples, nu))."""
    first = 0.0
    interval = 1.0
    if is_sampled(tau):
        times = floats("times of tau", tau[0])
        table = floats("tau", tau[1])
        if times.ndim != 1 or len(times) < 2 or table.ndim < 2 or table.shape[-2:] != (len(times), nu):
            raise ShapeError(
                f"tau is a pair of shapes {times.shape} and {table.shape}, expected times (samples,) "
                f"with at least two, and values (..., samples, {nu})"
            )
        # Only equidistant times: the march finds a sample by a division.
        first, interval = equidistant("tau", times)
    else:
        table = floats("tau", tau)
        if table.ndim < 1 or table.shape[-1] != nu:
            raise wrong_shape("tau", table.shape, f"({nu},) or (..., {nu})")
        table = table[..., None, :]  # one sample
    # One table for all members stays one: the loop reads the same rows for each of them.
    lead = () if table.ndim == 2 else batch
    try:
        table = np.broadcast_to(table, (*lead, *table.shape[-2:]))
    except ValueError:
        raise ShapeError(
            f"tau has leading axes {table.shape[:-2]}, those of the states are {batch}; samples over "
            "time are a pair, tau=(times, values)"
        ) from None
    table = np.ascontiguousarray(table.reshape(math.prod(lead), *table.shape[-2:]))
    return Samples(table, first, interval, linear)
