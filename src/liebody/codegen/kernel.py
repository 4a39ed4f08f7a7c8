"""Kernels: compiled functions of NumPy arrays, called on single states or on batches."""

from __future__ import annotations

import ctypes
import json
import math
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import CompilerError, ConfigurationError, GraphError, ShapeError
from . import build, entry
from .graph import Function
from .printers import c as printer
from .printers.c import Guard

Shapes = dict[str, tuple[int, ...]]

UNITS_ABOVE = 4 * printer.PIECE  # operations from which on a library is compiled in parallel parts
LONG = 40_000  # operations from which on code is bound by memory, and compiled in smaller pieces with less effort
FEW_MEMBERS = 2  # an ensemble from here on runs over lanes
FEW = 64  # rows up to which the scalar loop serves while the loop over lanes is not compiled


class MissingCompiler(UserWarning):
    """There is no C compiler: kernels run as NumPy source, slower."""


class Kernel:
    """A function compiled to machine code.

    k(*arrays, out=None, threads=1) takes arrays of the input shapes, or batches of them: any leading axes, which
    broadcast against each other. It returns an array (a tuple of them where the function has several
    outputs), in `out` if that is given. Arrays may have any strides; rows that are contiguous are not copied.

    function  a traced `Function`, or a call without arguments that traces it when it is needed
    dtype     float64, or float32
    guard     what is checked of the inputs in the same pass; a violation raises ConfigurationError
    recipe    a text that determines the function, if there is one: with it, a kernel of an earlier process is
              found without tracing

    `k.call` is the entry with the least latency for one state (about 0.1 us above the computation itself).
    `k.source` is C99 text, `k.operations` counts operations. Kernels follow IEEE 754 on NaN and infinity.

    Raises ShapeError, ConfigurationError (guard), CompilerError (refused source; without any compiler the
    kernel runs as NumPy source, with one warning).
    """

    def __init__(
        self,
        function: Function | Callable[[], Function],
        dtype: Any = np.float64,
        guard: Guard | None = None,
        recipe: str | None = None,
        doc: str = "",
    ) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise GraphError(f"kernels compute in float64 or float32, not in {self.dtype}")
        self._single = self.dtype == np.dtype(np.float32)
        self._given, self._guard, self._recipe, self.__doc__ = function, guard or Guard(), recipe, doc or None
        self._lock = threading.RLock()
        self._known = self._remembered()
        if self._known:
            self.name: str = self._known["name"]
            self.inputs: Shapes = {key: tuple(shape) for key, shape in self._known["inputs"]}
            self.outputs: Shapes = {key: tuple(shape) for key, shape in self._known["outputs"]}
        else:
            f = self.function
            self.name = f.name
            self.inputs = {key: array.shape for key, array in f.inputs.items()}
            self.outputs = {key: array.shape for key, array in f.outputs.items()}

    # -- what it is ---------------------------------------------------------------------------------------

    @cached_property
    def function(self) -> Function:
        """The traced function."""
        return self._given if isinstance(self._given, Function) else self._given()

    @property
    def operations(self) -> Counter[str]:
        """How often each operation occurs in one evaluation."""
        return self.function.operations

    @property
    def source(self) -> str:
        """C99 source of the function, for one state."""
        return printer.c99(self.function)

    def __repr__(self) -> str:
        return f"Kernel {self.name}({', '.join(f'{k}{list(s)}' for k, s in self.inputs.items())})"

    # -- compiled forms -----------------------------------------------------------------------------------

    @cached_property
    def _compiler(self) -> build.Compiler | None:
        return find_compiler_or_warn()

    def _key(self, kind: str) -> str:
        compiler = self._compiler
        identity = compiler.identity if compiler else ""
        guard = f"{self._guard.finite}{self._guard.unit}{self._guard.tolerance}"
        return build.digest(self._recipe or "", kind, str(self.dtype), guard, identity, build.processor(), *build.FLAGS)

    def _remembered(self) -> dict[str, Any] | None:
        if not self._recipe:
            return None
        try:
            known = json.loads((build.cache_folder() / f"{self._key('about')}.json").read_text())
            return known if isinstance(known, dict) else None
        except (OSError, ValueError):
            return None

    def _library(self, kind: str, lanes: int) -> ctypes.CDLL:
        """The compiled batch loop over `lanes`, found by the recipe or by the source."""
        assert self._compiler is not None
        note = build.cache_folder() / f"{self._key(kind)}.path" if self._recipe else None
        if note and note.exists():
            path = build.cache_folder() / note.read_text()
            if path.exists():
                return _prepare(build.load(path))
        f = self.function
        total = sum(f.operations.values())
        units = min(os.cpu_count() or 1, math.ceil(total / printer.PIECE)) if total > UNITS_ABOVE else 1
        piece, flags = (printer.PIECE, build.FLAGS) if total < LONG else (printer.SMALL_PIECE, build.LONG_FLAGS)
        sources = printer.batch_units(f, lanes, self._single, self._guard, units, piece)
        if lanes == 1 and not self._single:
            sources[-1] += "\n" + _call_text(f)
        path = build.library(sources, self._compiler, flags)
        if note:
            about = {"name": self.name, "inputs": list(self.inputs.items()), "outputs": list(self.outputs.items())}
            build.store(self._key("about"), ".json", json.dumps(about).encode())
            build.store(note.stem, ".path", path.name.encode())
        return _prepare(build.load(path))

    @cached_property
    def _one(self) -> ctypes.CDLL:
        with self._lock:
            return self._library("one", 1)

    @cached_property
    def _many(self) -> tuple[ctypes.CDLL, int]:
        assert self._compiler is not None
        with self._lock:
            lanes = build.lanes(self._compiler, self._single)
            return self._library("many", lanes), lanes

    @cached_property
    def _numpy(self) -> Callable[..., Any]:
        from .printers.numpy_source import compile_numpy

        return compile_numpy(self.function)

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The entry with the least latency: a built-in function where the interpreter allows it."""
        return self.entry(self.general)

    def entry(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """A built-in function for single states, which leaves what it cannot take to the function `general`."""
        if self._compiler is None or self._single or not entry.available():
            return general
        return entry.builtin(self._one, general, self.name, self.__doc__ or "")

    # -- calls --------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any, out: Any = None, threads: int = 1) -> Any:
        if out is None and threads == 1:
            return self.call(*arrays)
        return self.general(*arrays, out=out, threads=threads)

    def general(self, *arrays: Any, out: Any = None, threads: int = 1) -> Any:
        """The call by the portable way: batches, strides, other types, threads, and the errors."""
        rows, batch = self._rows(arrays)
        results = self._results(out, batch)
        flat = [r.reshape(-1, max(1, math.prod(shape))) for r, shape in zip(results, self.outputs.values(), strict=True)]
        count = math.prod(batch)
        if count:
            bad = self._run(rows, flat, count, threads)
            if bad:
                self._explain(rows, count)
        if out is None:
            results = [r[()] for r in results]
        else:
            given = (out,) if len(results) == 1 and not isinstance(out, (tuple, list)) else tuple(out)
            for target, result in zip(given, results, strict=True):
                if target is not result:
                    target[...] = result
            results = list(given)
        return results[0] if len(results) == 1 else tuple(results)

    def _rows(self, arrays: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
        """The inputs as (n, size) arrays with contiguous rows (n = 1 where one row serves the whole batch)."""
        if len(arrays) != len(self.inputs):
            raise ShapeError(
                f"{self.name} takes {len(self.inputs)} arrays ({', '.join(self.inputs)}), got {len(arrays)}"
            )
        converted, leading = [], []
        for (key, shape), given in zip(self.inputs.items(), arrays, strict=True):
            try:
                array = np.asarray(given, dtype=self.dtype)
            except (TypeError, ValueError) as error:
                raise ShapeError(f"{self.name}: {key} cannot be read as an array of {self.dtype}: {error}") from None
            if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
                raise ShapeError(
                    f"{self.name}: {key} has shape {array.shape}, expected {shape} or a batch (..., "
                    f"{', '.join(map(str, shape))})"
                )
            converted.append(array)
            leading.append(array.shape[: array.ndim - len(shape)])
        try:
            batch = np.broadcast_shapes(*leading)
        except ValueError:
            shapes = ", ".join(f"{key} {array.shape}" for key, array in zip(self.inputs, converted, strict=True))
            raise ShapeError(f"{self.name}: the leading axes do not broadcast against each other: {shapes}") from None
        rows = []
        for array, lead, shape in zip(converted, leading, self.inputs.values(), strict=True):
            size = math.prod(shape)
            if math.prod(lead) == 1:
                rows.append(np.ascontiguousarray(array).reshape(1, size))
                continue
            whole = array if lead == batch else np.broadcast_to(array, (*batch, *shape))
            flat = whole.reshape(math.prod(batch), size)  # a copy only where the axes cannot be merged
            if flat.strides[-1] != flat.itemsize or flat.strides[0] % flat.itemsize or not flat.flags.aligned:
                flat = np.ascontiguousarray(flat) if size else flat
            rows.append(flat)
        return rows, batch

    def _results(self, out: Any, batch: tuple[int, ...]) -> list[Any]:
        """Arrays to write into: `out` where it can be written directly, else new ones."""
        shapes = [(*batch, *shape) for shape in self.outputs.values()]
        if out is None:
            return [np.empty(shape, self.dtype) for shape in shapes]
        given = (out,) if len(shapes) == 1 and not isinstance(out, (tuple, list)) else tuple(out)
        if len(given) != len(shapes):
            raise ShapeError(f"{self.name} has {len(shapes)} outputs ({', '.join(self.outputs)}), out has {len(given)}")
        results = []
        for target, (key, _), shape in zip(given, self.outputs.items(), shapes, strict=True):
            if not isinstance(target, np.ndarray) or target.shape != shape:
                raise ShapeError(f"{self.name}: out for {key} has shape {np.shape(target)}, expected {shape}")
            if not target.flags.writeable:
                raise ShapeError(f"{self.name}: out for {key} is read-only")
            direct = target.dtype == self.dtype and target.flags.c_contiguous and target.flags.aligned
            results.append(target if direct else np.empty(shape, self.dtype))
        return results

    def _run(self, rows: list[Any], results: list[Any], count: int, threads: int) -> int:
        """Compute rows 0 .. count - 1; 0, or 1 + a row that breaks the guard."""
        for i, result in enumerate(results):
            if any(np.may_share_memory(result, row) for row in rows):
                rows = [row.copy() if np.may_share_memory(result, row) else row for row in rows]
            results[i] = result
        if self._compiler is None:
            return self._run_numpy(rows, results, count)
        few = count < FEW and "_many" not in self.__dict__
        library, lanes = (self._one, 1) if few or count == 1 else self._many

        def share(first: int, last: int) -> int:
            return int(
                library.run(
                    last - first,
                    _pointers([row[first:] if len(row) > 1 else row for row in rows]),
                    (ctypes.c_long * len(rows))(*[r.strides[0] // r.itemsize if len(r) > 1 else 0 for r in rows]),
                    _pointers([result[first:] for result in results]),
                    (ctypes.c_long * len(results))(*[result.shape[1] for result in results]),
                )
            )

        if threads <= 1 or count < 2 * lanes:
            return share(0, count)
        step = -(-count // threads)
        step += -step % lanes
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return max(pool.map(lambda first: share(first, min(first + step, count)), range(0, count, step)))

    def _run_numpy(self, rows: list[Any], results: list[Any], count: int) -> int:
        arrays = [np.broadcast_to(r, (count, r.shape[1])).reshape(count, *s) for r, s in zip(rows, self.inputs.values(), strict=True)]
        if self._violation(rows, count) is not None:
            return 1
        computed = self._numpy(*arrays)
        for result, value in zip(results, computed if len(results) > 1 else (computed,), strict=True):
            result[...] = np.broadcast_to(value, (count, *np.shape(value)[np.ndim(value) - 1 :])).reshape(result.shape) if np.ndim(value) == 0 else np.asarray(value).reshape(result.shape)
        return 0

    def _violation(self, rows: list[Any], count: int) -> str | None:
        """What of the inputs breaks the guard, in words."""
        names = list(self.inputs)
        for name in self._guard.finite:
            array = rows[names.index(name)]
            wrong = ~np.isfinite(array)
            if wrong.any():
                row, entry_ = (int(i) for i in np.argwhere(wrong)[0])
                where = f" of row {row}" if len(array) > 1 else ""
                return (
                    f"{self.name}: {name}[{entry_}]{where} is {array[row, entry_]}, expected a finite number; "
                    "look for a division by zero or an unset value where it was made"
                )
        for name, first in self._guard.unit:
            array = rows[names.index(name)][:, first : first + 4]
            norm = np.sqrt((array * array).sum(axis=1))
            wrong = ~(np.abs(norm * norm - 1) < self._guard.tolerance)
            if wrong.any():
                row = int(np.argmax(wrong))
                where = f" of row {row}" if len(array) > 1 else ""
                return (
                    f"{self.name}: the quaternion {name}[{first}:{first + 4}]{where} has norm {norm[row]:.9g}, expected 1 "
                    "(order w, x, y, z); normalize the configuration first"
                )
        return None

    def _explain(self, rows: list[Any], count: int) -> None:
        words = self._violation(rows, count)
        if words:
            raise ConfigurationError(words)


def _pointers(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])


def _prepare(library: ctypes.CDLL) -> ctypes.CDLL:
    library.run.restype = ctypes.c_long
    library.run.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4]
    return library


def _call_text(function: Function) -> str:
    """runtime/call.h for the shapes of `function`."""

    def table(name: str, shapes: list[tuple[int, ...]]) -> list[str]:
        rank = max([1, *map(len, shapes)])
        rows = ", ".join("{" + ", ".join(map(str, [*s, *[0] * (rank - len(s))])) + "}" for s in shapes)
        return [
            f"static const int {name}_dimensions[] = {{{', '.join(str(len(s)) for s in shapes)}}};",
            f"static {'const ' if name == 'input' else ''}intptr_t {name}_shape[][{rank}] = {{{rows}}};",
            f"static const intptr_t {name}_size[] = {{{', '.join(str(math.prod(s)) for s in shapes)}}};",
        ]

    inputs = [array.shape for array in function.inputs.values()]
    outputs = [array.shape for array in function.outputs.values()]
    lines = [f"enum {{ INPUTS = {len(inputs)}, OUTPUTS = {len(outputs)} }};", *table("input", inputs), *table("output", outputs)]
    return "\n".join([*lines, printer.runtime("call.h")])


_warned = False


def find_compiler_or_warn() -> build.Compiler | None:
    """The C compiler, or None after one warning that says how to get one."""
    global _warned
    compiler = build.find_compiler()
    if compiler is None and not _warned:
        _warned = True
        words = f"no C compiler was found, so kernels run as NumPy source, slower; {build.ADVICE}"
        warnings.warn(words, MissingCompiler, stacklevel=4)
    return compiler
