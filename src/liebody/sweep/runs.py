"""A chunk as a call of a function, or as an ensemble of a system or a robot."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import takes_parameters
from ..base.errors import SweepError
from ..bodies import Parametric
from ..hybrid import HybridSystem
from ..simulation import DivergedMembers
from ..simulation.simulate import simulate
from .space import numbered
from .store import Results, WrongResults

Outputs = Mapping[str, Sequence[str]] | None


class UserFunction:
    """A function (parameters, **options) -> {name: array (n, ...)} of the user."""

    def __init__(self, run: Callable[..., Any], outputs: Outputs, coords: Any, options: Any) -> None:
        self.run = run
        self.outputs = outputs
        self.coords = dict(coords or {})
        self.options = dict(options)
        self.name = getattr(run, "__qualname__", type(run).__qualname__)
        _check_call(run, self.name, {}, **self.options)

    def __call__(self, parameters: Mapping[str, np.ndarray]) -> Results:
        n = len(next(iter(parameters.values())))
        results = self.run(dict(parameters), **self.options)
        if not isinstance(results, Mapping):
            raise WrongResults(
                f"{self.name} returned {results!r:.60}, expected a dictionary of names and arrays"
            )
        values = {str(name): _results(str(name), value, n) for name, value in results.items()}
        coords = {name: np.asarray(value) for name, value in self.coords.items()}
        return _wanted(Results(values, coords=coords), self.outputs, self.name)


class Simulation:
    """An ensemble of a HybridSystem, a Robot or a Mechanism, whose parameters and states at the start vary.

    q0, v0, tau  entries are numbers, or names of parameters; or a function (parameters) -> (n, size)
    options      options of `simulate`
    """

    def __init__(
        self,
        system: Any,
        names: Iterable[str],
        outputs: Outputs,
        options: Mapping[str, Any],
        threads: int | None,
    ) -> None:
        self.system = system
        self.outputs = outputs
        self.threads = threads
        self.name = system.name
        self.names = tuple(names)
        self.given = {name: options[name] for name in ("q0", "v0") if options.get(name) is not None}
        # efforts as a list may name parameters, as states do
        if isinstance(options.get("tau"), list):
            self.given["tau"] = options["tau"]
        self.options = {name: x for name, x in options.items() if name not in self.given}
        used = {
            x for entries in self.given.values() if _is_list(entries) for x in entries if isinstance(x, str)
        }
        if any(callable(entries) for entries in self.given.values()):
            used |= set(self.names)
        if isinstance(system, HybridSystem):
            used |= {*system.parameters.defaults, *system.memory.defaults}
        known = system.parameters if isinstance(system, Parametric) else {}
        # names left over are gains, if a function takes parameters
        functions = (options.get("tau"), *(options.get("events") or {}).values())
        gains = [name for name in self.names if name not in used and any(map(takes_parameters, functions))]
        self.free = [name for name in self.names if name in known or name in gains]
        used |= {*known, *gains}
        for name in self.names:
            if name not in used:
                raise SweepError(
                    f"nothing depends on {name!r}: it is no parameter or memory of {self.name}, and no entry "
                    f"of q0 or v0 is called so. There are: {', '.join(sorted(used)) or 'none'}"
                )
        for name, entries in self.given.items():
            for x in entries if _is_list(entries) else ():
                if isinstance(x, str) and x not in self.names:
                    raise SweepError(f"{name} depends on {x!r}, which is not swept over")
        if isinstance(system, HybridSystem):
            _check_call(system.simulate, self.name, **{"q0": None, **options})
        else:
            _check_call(simulate, self.name, system, **options)

    def __call__(self, p: Mapping[str, np.ndarray]) -> Results:
        n = len(next(iter(p.values())))
        options = dict(self.options)
        states = {name: _states(entries, p, n) for name, entries in self.given.items()}
        # as many threads as the worker may use
        options["threads"] = self.threads or os.cpu_count() or 1
        if isinstance(self.system, HybridSystem):
            results = self._hybrid(states, p, options)
        else:
            if self.free:
                entries = {name: p[name] for name in self.free}
                options["parameters"] = {**(options.get("parameters") or {}), **entries}
            results = self._robot(states, n, options)
        return _wanted(results, self.outputs, self.name)

    def _hybrid(self, states: dict[str, Any], p: Mapping[str, Any], options: dict[str, Any]) -> Results:
        system = self.system
        for kind, layout in (("parameters", system.parameters), ("memory", system.memory)):
            fixed = options.get(kind) or {}
            options[kind] = {**fixed, **{name: p[name] for name in p if name in layout.defaults}}
        # one start for each member, the neutral one by default
        states.setdefault("q0", np.tile(system.group.neutral(), (len(next(iter(p.values()))), 1)))
        run = system.simulate(**states, **{"most_events": 0, **options})
        values = {"q": run.q, "v": run.v, **run.outputs}
        values |= {f"work_{name}": x for name, x in run.work.items()}
        values |= {f"memory_{name}": x for name, x in run.memory.items()}
        # axes: members, time, then the axes of each output
        dims = {name: ("time", *numbered(name, x.ndim - 2)) for name, x in values.items()}
        values |= {"end_time": run.end_times, "cause": run.ends}
        return Results(values, dims, {"time": run.t}, {"time": "s", "end_time": "s"})

    def _robot(self, states: dict[str, Any], n: int, options: dict[str, Any]) -> Results:
        states.setdefault("v0", np.zeros((n, self.system.nv)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergedMembers)  # the store tells which, and when
            run = simulate(self.system, **states, **options, progress=False)
        values = {"q": run.q, "v": run.v, "kinetic": run.kinetic, "potential": run.potential}
        # a member that diverged ends at its last finite record
        finite = np.isfinite(run.q).all(axis=-1) & np.isfinite(run.v).all(axis=-1)
        lasting = finite.all(axis=1)
        last = np.where(lasting, len(run.t), np.argmin(finite, axis=1)) - 1
        cause = np.where(lasting, "", "a value is not finite")
        dims = {
            "q": ("time", "coordinate"),
            "v": ("time", "dof"),
            "kinetic": ("time",),
            "potential": ("time",),
        }
        coords = {
            "time": run.t,
            "coordinate": np.array(run.coordinates.names),
            "dof": np.array(run.dofs.names),
        }
        units = {"time": "s", "end_time": "s", "kinetic": "J", "potential": "J"}
        return Results({**values, "end_time": run.t[last], "cause": cause}, dims, coords, units)


def _check_call(function: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> None:
    """Raise SweepError for options that a function does not take, or lacks, before anything is run."""
    # wrong options are told before the first chunk runs, perhaps on another machine
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function that does not tell
        return
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        known = [x.name for x in signature.parameters.values() if x.kind is x.KEYWORD_ONLY]
        words = f"; there are {', '.join(known)}" if known else ""
        raise SweepError(f"options of {name}: {error}{words}") from None


def _is_list(given: Any) -> bool:
    return isinstance(given, (list, tuple))


def _wanted(found: Results, outputs: Outputs, name: str) -> Results:
    """The results that are wanted, all without outputs, with the names of their axes; WrongResults."""
    if outputs is None:
        return found
    for output in outputs:
        if output not in found.values:
            raise WrongResults(f"{name} has no output {output!r}; there are {', '.join(found.values)}")
    # end times and causes stay with any choice of outputs: they tell which members ended early
    kept = {x: value for x, value in found.values.items() if x in (*outputs, "cause", "end_time")}
    named = {output: tuple(axes) for output, axes in outputs.items() if axes}
    return replace(found, values=kept, dims={**found.dims, **named})


def _states(given: Any, p: Mapping[str, np.ndarray], n: int) -> np.ndarray:
    """States (n, size), from entries or by a function."""
    if callable(given):
        return np.asarray(given(dict(p)))
    if _is_list(given) and any(isinstance(x, str) for x in given):
        return np.stack([np.broadcast_to(p[x] if isinstance(x, str) else x, n) for x in given], axis=-1)
    given = np.asarray(given, float)
    return np.broadcast_to(given, (n, given.shape[-1])) if given.ndim == 1 else given


def _results(name: str, value: Any, n: int) -> np.ndarray:
    # objects may be texts; the store keeps strings of any length
    array = np.asarray(value)
    texts = array.dtype.kind != "O" or all(isinstance(x, str) for x in array.ravel())
    if array.dtype.kind not in "biufcUTO" or not texts:
        raise SweepError(f"{name} is of type {array.dtype}, expected numbers or text")
    if array.ndim < 1 or len(array) != n:
        raise SweepError(f"{name} has shape {array.shape}, expected ({n}, ...): a row for each member")
    if name == "status":
        raise SweepError(f"{name!r} is made by the sweep itself; call the result otherwise")
    return array.astype(np.dtypes.StringDType()) if array.dtype.kind in "UO" else array
