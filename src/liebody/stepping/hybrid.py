"""Hybrid flows: explicit methods for systems with events and memory, which choose their steps themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, ModelError
from ..compiler.printers.c import number_type
from ..compiler.printers.numpy_source import compile_numpy
from .flow import Explicit
from .loop import Calls, Way
from .march import Ensemble, Settings
from .print_explicit import hybrid_source
from .print_march import with_kernel
from .records import CallFunctions, Coefficients, FlowCall, HybridFunctions, Part, Retries
from .samples import Samples


class HybridFlow(Explicit):
    """The steps of an explicit method for a hybrid system, compiled into one loop.

    A state y is (memory, point): numbers that change only at the ends of steps, which `advance` returns
    unchanged, and the coordinates of a point on a group. u are parameters of each member, constant or sampled
    (`Samples`). The parts are traced functions, each given as a function without arguments that makes it:

    field    (t, y, u) -> f, the velocity of the point in the algebra
    advance  (y, psi) -> (memory, point exp(psi))
    pull     (psi, f) -> dexp^-1_(-psi) f; None for methods that compose exponentials of velocities themselves
    guards   (t, y, u) -> g (guards,): an event is a change of the sign of a g_i, where 0 counts as negative,
             in its direction: +1 for upwards only, -1 for downwards only, 0 for both. A terminal event ends
             the member; default: none is terminal
    look     (t, y, u) -> (g, h, s): guards; the step to take from here; the member stops if s > 0
    after    (t, y, u, e) -> (z, g, h, s): the state z at the end of a step, where e_i is +1 or -1 if guard i
             has changed its sign, and otherwise 0; and g, h, s as of `look` at z
    method   its coefficients
    retries  how to repeat steps that contain a search; None: steps are taken once
    calls    compiled functions that are called between steps (`FlowCall`), such as controllers
    single   whether it computes in float32, twice as many members at once; without a compiler states are
             rounded to float32 at the end of each step

    Members march independently, each with its time and its steps: results are the same in any ensemble, bit
    for bit. Members are lanes of vectors; a lane that has finished takes the next member. An event within a
    step is located by the Illinois method on the length of the step, so that the steps before and after it
    keep their accuracy if the parts are smooth between events. Two changes of the sign within one step cancel
    and are missed: let `look` choose steps that are short enough.

    Dowell, Jarratt, "A modified regula falsi method for computing the root of an equation", BIT 11 (1971).
    """

    def __init__(
        self,
        field: Part,
        advance: Part,
        pull: Part | None,
        guards: Part,
        look: Part,
        after: Part,
        method: Coefficients,
        directions: Sequence[int],
        terminal: Sequence[bool] = (),
        recipe: str | None = None,
        retries: Retries | None = None,
        calls: Sequence[FlowCall] = (),
        single: bool = False,
    ) -> None:
        if calls and single:
            raise ModelError(
                f"a system that calls functions between steps, such as {calls[0].kernel.name}, computes in "
                "float64; leave out dtype"
            )
        terminal = tuple(map(bool, terminal)) or (False,) * len(directions)
        number = ("float32",) if single else ()
        super().__init__(recipe, "hybrid", method, tuple(directions), terminal, retries, *number)
        self.single = single
        self.retries = retries
        self.calls = tuple(calls)
        self._parts = (field, advance, pull if method.pulled else None, guards, look, after)
        self.method = method
        self.directions = tuple(map(int, directions))
        self.terminal = terminal

    @cached_property
    def functions(self) -> HybridFunctions:
        """The parts, traced, with the directions of the guards and which of these are terminal."""
        parts = (part and part() for part in self._parts)
        calls = [CallFunctions(x.kernel, x.due(), x.ask(), x.answer()) for x in self.calls]  # type: ignore[arg-type]
        return HybridFunctions(*parts, self.directions, self.terminal, calls)  # type: ignore[arg-type, call-arg]

    def _source(self, way: Way, lanes: int) -> str:
        return hybrid_source(self.functions, self.method, lanes, self.retries, number_type(self.single))

    def device_source(self, way: Way) -> str:
        if self.calls:
            raise ModelError(
                f"a system that calls functions between steps, such as {self.calls[0].kernel.name}, marches "
                "on the CPU alone; leave out device"
            )
        number = number_type(self.single)
        return with_kernel(hybrid_source(self.functions, self.method, 1, self.retries, number, device=True))

    @property
    def guard_count(self) -> int:
        (g,) = self.functions.guards.outputs.values()
        return int(g.size)

    def march(self, members: Ensemble, u: Any, until: int, settings: Settings, threads: int = 1) -> None:
        loop = self._loop(Samples.of(u), True, settings.controlled)
        if self.calls and loop.calls is None and loop.is_compiled(len(members.y)):
            loop.calls = Calls(x.kernel for x in self.calls)
        super().march(members, u, until, settings, threads)

    def ensemble(self, y: Any, times: Any) -> Ensemble:
        """Members that start at y (n, point) at the first of the times (rows,) of their record."""
        (g,) = self.functions.guards.outputs.values()
        interval = times[-1] - times[0]
        return Ensemble(y, times, interval, g.size, watched=self.is_watched, dtype=self.dtype)

    # -- without a compiler -------------------------------------------------------------------------------

    def _step(
        self, t: float, h: float, y: Any, efforts: Callable[[float], Any], lost: Any, watched: Any
    ) -> tuple[Any, Any]:
        end, stages = super()._step(t, h, y, efforts, lost, watched)
        guesses, defect, tolerance, most = self.retries or ((), 0, 0.0, 0)
        # The same step again, its search started from the last result, until the defect is small.
        for _ in range(most):
            if not (end[..., defect] > tolerance).any():
                break
            y = y.copy()
            y[..., list(guesses)] = end[..., list(guesses)]
            end, stages = super()._step(t, h, y, efforts, lost, watched)
        return end, stages

    def _guards(self, t: float, y: Any, u: Any) -> Any:
        return self._numpy[3](t, y, u)

    def _look(self, t: float, y: Any, u: Any) -> tuple[Any, float, bool]:
        g, h, stop = self._numpy[4](t, y, u)
        return g, float(h), bool(stop > 0)

    def _update(self, t: float, y: Any, u: Any, e: Any) -> tuple[Any, Any, float, bool]:
        state, g, h, stop = self._numpy[5](t, y, u, e)
        return state, g, float(h), bool(stop > 0)

    @cached_property
    def _calls_numpy(self) -> list[tuple[Any, ...]]:
        """Kernel, due, ask and answer of each call, as functions of arrays."""
        return [(x.kernel, *map(compile_numpy, x[1:])) for x in self.functions.calls]

    def _called(self, t: float, y: Any, u: Any) -> tuple[Any, Any, float] | None:
        result = None
        for kernel, due, ask, answer in self._calls_numpy:
            if not due(t, y, u) > 0:
                continue
            inputs = ask(t, y, u)
            try:
                results = kernel(*(inputs if isinstance(inputs, tuple) else (inputs,)))
            except (ConfigurationError, ModelError):  # a state that is none; the member ends
                results = tuple(np.full(shape, np.nan) for shape in kernel.outputs.values())
            y, g, h = answer(t, y, u, *(results if isinstance(results, tuple) else (results,)))
            result = y, g, float(h)
        return result
