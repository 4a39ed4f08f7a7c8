"""Kernels: compiled functions of NumPy arrays, called on single states or on batches."""

from __future__ import annotations

import ctypes
import inspect
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import count, quaternion_remedy, shape_of, short, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import (
    CompilerError,
    ConfigurationError,
    GraphError,
    LiebodyError,
    ModelError,
    ShapeError,
    pass_on_signals,
    suppress,
)
from ..graph.graph import Function, graph_of
from ..printers import c as printer
from ..printers.c import Guard
from ..printers.minimizer import minimizer_numpy, minimizer_unit
from ..printers.numpy_source import arrays_of, compile_numpy
from ..printers.program import callable_c99, program_unit
from ..programs.program import Program
from ..programs.quadratic_program import ACTIVE_SET, Minimizer
from ..programs.sparse import zeros
from . import build, cache, entry, pool
from .entry import Described
from .libraries import Libraries

UNITS_ABOVE = 4 * printer.PIECE  # operations from which on a library is compiled in parallel parts
STORED = 1 << 16  # a program with more different results than this,
PER_RESULT = 16  # and fewer operations for each, waits for memory: results of many lanes leave the caches
Traced = Function | Program | Minimizer
FEW = 8  # rows from which on the loop over lanes is used: for fewer, compiling it does not pay


class InSingle(NamedTuple):
    """The form of a kernel in float32, for calls whose arrays are float32.

    make       a call that makes the kernel in float32
    converted  inputs of other types, such as values of parameters, that are converted; others decide
    """

    make: Callable[[], Kernel]
    converted: tuple[str, ...] = ()

    def takes(self, inputs: Iterable[str], arrays: Sequence[Any]) -> bool:
        """Whether a call with these arrays is for float32: as in NumPy, one array of float64 decides."""
        return all(
            isinstance(x, (np.ndarray, np.float32)) and x.dtype == np.float32
            for name, x in zip(inputs, arrays, strict=False)
            if name not in self.converted
        )


class Kernel:
    """A function compiled to machine code.

    k(*arrays, out=None, threads=1) takes arrays of the input shapes, or batches of them: any leading axes,
    which broadcast against each other. It returns an array (a tuple of them where the function has several
    outputs), in `out` if that is given, which may overlap with inputs. Arrays may have any type and strides;
    rows of the kernel's own type that are contiguous are not copied. The interpreter lock is released while a
    batch is computed, by `threads` threads with equal results.

    Symbols of a trace, (nq,) and so on without batches, give symbols: the function is inlined there, without
    the guard.

    function  a traced `Function`, a `Program` or a `Minimizer`, or a call without arguments that makes it
              when it is needed
    dtype     float64, or float32
    guard     checks of the inputs in the same pass; a violation raises ConfigurationError, or ModelError for
              signs, and leaves `out` undefined
    recipe    a text that determines the function, together with the version of this library; None if there
              is no such text. With it, a kernel of an earlier process is used without tracing
    doc       the text that `help` shows for the kernel
    single    the same kernel in float32, which takes calls with arrays of float32; None: they are converted

    `k.call` is the entry with the least latency (about 0.05 us above the computation itself). Small results
    are written into arrays of earlier calls that nothing refers to any more; in return `resize` in place,
    which counts references, asks for `refcheck=False`. Results above 64 kB are new arrays in memory of
    earlier ones (compiler/native/pool.py): at most 256 MB, or as much as such results hold, stays idle.
    `k.source` is C99 text, `k.operations` counts operations. Kernels follow IEEE 754 on NaN and infinity, and
    may be pickled.

    Raises ShapeError, ConfigurationError and ModelError (guard), CompilerError (refused source; without any
    compiler the kernel runs as NumPy source, with one warning), GraphError for a name that is no identifier.
    """

    # The class is long because calls, compiled forms and errors of a kernel meet in it.

    def __init__(
        self,
        function: Traced | Callable[[], Traced],
        dtype: Any = np.float64,
        guard: Guard | None = None,
        recipe: str | None = None,
        doc: str = "",
        single: InSingle | None = None,
    ) -> None:
        self.dtype = data_type(dtype)
        if self.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise GraphError(f"kernels compute in float64 or float32, not in {self.dtype}")
        self._single = self.dtype == np.dtype(np.float32)
        self._in_single = single
        self._given = function
        self.guard = guard or Guard()
        self.recipe = recipe
        self.__doc__ = doc or None
        words = [recipe, str(self.dtype), self.guard.compiled] if recipe else []
        self._libraries = Libraries(self._source, words, self._use, self._single)
        self._loops = self._libraries.loaded
        # The cache knows name and shapes of a kernel with a recipe, so nothing needs to be traced for them.
        self._known = self._remembered()
        if self._known:
            self.name: str = self._known["name"]
            self.inputs = {key: tuple(shape) for key, shape in self._known["inputs"]}
            self.outputs = {key: tuple(shape) for key, shape in self._known["outputs"]}
        else:
            f = self.function
            self.name = f.name
            self.inputs = {key: array.shape for key, array in f.inputs.items()}
            self.outputs = {key: array.shape for key, array in f.outputs.items()}
        for word in (self.name, *self.inputs, *self.outputs):
            printer.identifier(word)
        # The guard must speak of entries that exist.
        for key, last in [
            *((key, 0) for key in self.guard.finite),
            *((key, k + size) for key, k, size in self.guard.unit),
            *((key, k + 1) for key, k, _ in self.guard.signs),
        ]:
            if key not in self.inputs or last > math.prod(self.inputs[key]):
                raise GraphError(
                    f"{self.name}: the guard checks {last or 'all'} entries of {key!r}, and the inputs are "
                    f"{', '.join(f'{name} {shape}' for name, shape in self.inputs.items())}"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments: another process looks into the cache, or compiles."""
        return Kernel, (
            self._given,
            self.dtype,
            self.guard,
            self.recipe,
            self.__doc__ or "",
            self._in_single,
        )

    # -- the function -------------------------------------------------------------------------------------

    @cached_property
    def function(self) -> Any:
        """The traced `Function`, the `Program`, or the `Minimizer`."""
        function = self._given
        if not isinstance(function, Traced) and callable(function) and _takes_nothing(function):
            function = function()
        if not isinstance(function, Traced):
            raise GraphError(
                f"a kernel is made of {short(function)}, expected a traced function, as Kernel(trace(f, "
                "{'q': 3})), a program, or a call without arguments that makes one"
            )
        if isinstance(function, Minimizer) and self._single:
            raise GraphError(f"{function.name} solves a quadratic program, which needs the digits of float64")
        return function

    @property
    def operations(self) -> Counter[str]:
        """The number of times that each operation occurs in one evaluation."""
        return self.function.operations

    @property
    def source(self) -> str:
        """C99 source of the function, for one state."""
        function = self.function
        if isinstance(function, Minimizer):
            return minimizer_unit(function, 1)
        return "#include <math.h>\n\n" + callable_c99(function)

    def __repr__(self) -> str:
        return f"Kernel {self.name}({', '.join(f'{k}{list(s)}' for k, s in self.inputs.items())})"

    # -- compiled forms -----------------------------------------------------------------------------------

    @property
    def _about(self) -> str:
        """The key of the cache for names and shapes of a kernel with this recipe."""
        return build.note(self.recipe or "", "about")

    def _remembered(self) -> dict[str, Any] | None:
        """Name and shapes from the cache; None if they are not there, or damaged."""
        try:
            known = json.loads(cache.recall(self._about, ".json") or "null") if self.recipe else None
        except ValueError as error:
            pass_on_signals(error)
            return None
        return known if isinstance(known, dict) and known.keys() == {"name", "inputs", "outputs"} else None

    def _source(self, lanes: int) -> build.Source:
        """The source of the batch loop over lanes. It also stores name and shapes for later processes."""
        f = self.function
        total = f.length
        piece, flags = (
            (printer.PIECE, build.FLAGS) if total < build.LONG else (printer.SMALL_PIECE, build.LONG_FLAGS)
        )
        if isinstance(f, Minimizer):
            if f.method == ACTIVE_SET:  # each program takes its own steps
                lanes = 1
            sources = [minimizer_unit(f, lanes, self.guard, piece)]
        elif isinstance(f, Program):
            # With very many results and little work for each, memory is the limit: lanes would only enlarge
            # the working memory.
            cells = [np.zeros(0, int), *(y.ravel() for y in f.outputs.values())]
            results = len(np.unique(np.concatenate(cells)))
            if results > STORED and sum(f.operations.values()) < PER_RESULT * results:
                lanes = 1
            sources = [program_unit(f, lanes, self._single, self.guard, piece)]
        else:
            # Long straight lines are compiled in parallel, as several translation units.
            units = min(os.cpu_count() or 1, math.ceil(total / printer.PIECE)) if total > UNITS_ABOVE else 1
            sources = printer.batch_units(f, lanes, self._single, self.guard, units, piece)
        if self.recipe:
            about = {
                "name": self.name,
                "inputs": list(self.inputs.items()),
                "outputs": list(self.outputs.items()),
            }
            with suppress(OSError):  # a full disk is noticed when the library is compiled
                cache.store(self._about, ".json", json.dumps(about).encode())
        return build.Source(sources, flags, name=self.name)

    def loops(self, rows: int) -> dict[bool, ctypes.CDLL]:
        """The loaded loops, `run` of runtime/batch.h: over one lane at False, over many at True.

        The loop for so many rows is among them. Raises CompilerError without a compiler, or without a folder.
        """
        if self._libraries.over(rows >= FEW) is None:
            raise CompilerError(f"{self.name} cannot be compiled; {build.ADVICE}")
        return self._loops

    def _use(self, library: ctypes.CDLL, many: bool) -> None:
        """Let the entry use a new library from now on."""
        library.run.restype = ctypes.c_int64
        library.run.argtypes = [ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int]
        entry.use_loops(self._described, {**self._loops, many: library})

    @cached_property
    def _in_numpy(self) -> Callable[..., Any]:
        function = self.function
        return minimizer_numpy(function) if isinstance(function, Minimizer) else compile_numpy(function)

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The entry with the least latency: a built-in function where the interpreter allows it."""
        return self.entry(self.general)

    def entry(self, general: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """A built-in function for states and batches; it passes calls that it cannot take on to `general`.

        options  arguments behind the arrays, or by name: calls that give other objects go to `general`
        """
        if not entry.takes(self.inputs.values(), self.outputs.values()):
            return general
        compiler = self._libraries.compiler
        if compiler is None or not (self.has_loop or self._libraries.over(False)):
            return general
        try:
            return entry.builtin(self._described, general, self.name, self.__doc__ or "", options, compiler)
        except build.NoPlace:
            return general

    @cached_property
    def _described(self) -> Described:
        """The description of this kernel that the entry reads."""
        kind = np.dtype(np.float32 if self._single else np.float64)  # NumPy's own object
        return entry.described(self.inputs.values(), self.outputs.values(), FEW, kind)

    # -- calls --------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any, out: Any = None, threads: int = 1) -> Any:
        if type(threads) is int and threads == 1 and (self.has_loop or self._is_single(arrays)):
            return self.call(*arrays) if out is None else self.call(*arrays, out=out)
        return self.general(*arrays, out=out, threads=threads)

    @property
    def has_loop(self) -> bool:
        """Whether one of the loops is loaded, so that the entry exists without compiling.

        The entry passes arrays of float32 on to the kernel in float32, so a loop there will do.
        """
        in_single = vars(self).get("in_single")
        return bool(self._loops) or (in_single is not None and in_single.has_loop)

    @cached_property
    def in_single(self) -> Kernel | None:
        """The kernel that takes calls with arrays of float32; None if these are converted."""
        if self._in_single is None:
            return None
        kernel = self._in_single.make()
        entry.use_single(self._described, kernel._described)
        return kernel

    def for_types(self, arrays: Sequence[Any]) -> Kernel:
        """The kernel that computes for these arrays: in float32 if all are float32, where there is one."""
        if self._in_single and self._in_single.takes(self.inputs, arrays) and self.in_single is not None:
            return self.in_single
        return self

    def _is_single(self, arrays: Sequence[Any]) -> bool:
        """Whether these are arrays of one state, or floats; a batch does not compile the loop for them."""
        shapes = self.inputs.values()
        return all(
            x.ndim == len(s) and x.dtype == self.dtype
            if isinstance(x, np.ndarray)
            else isinstance(x, float) and s == ()
            for x, s in zip(arrays, shapes, strict=False)
        )

    def general(self, *arrays: Any, out: Any = None, threads: int = 1) -> Any:
        """The portable call, for all arguments: batches, strides, other types, threads, symbols, errors."""
        threads = count("threads", threads)
        if graph_of(arrays):
            if out is not None:
                raise GraphError(
                    f"{self.name}: symbols go into no array of numbers; leave `out` away in a trace"
                )
            return self.function.unroll()(*arrays)
        called = self.for_types(arrays)
        if called is not self:
            return called(*(np.asarray(x, np.float32) for x in arrays), out=out, threads=threads)
        rows, batch = self._rows(arrays)
        targets = self._targets(out, batch)
        # Compiled code writes contiguous arrays of its own type; results for other targets are copied there.
        results = [
            y if _writable_directly(y, self.dtype) else self._new((*batch, *shape))
            for y, shape in zip(targets, self.outputs.values(), strict=True)
        ]
        self._run(rows, results, batch, threads)
        for target, result in zip(targets, results, strict=True):
            if target is not None and target is not result:
                target[...] = result
        returned = [
            target if target is not None else y if y.ndim else y[()]
            for y, target in zip(results, targets, strict=True)
        ]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _new(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array for results."""
        return pool.empty(shape, self.dtype, self._libraries.compiler)

    def nonzeros(self) -> tuple[Kernel, tuple[tuple[Any, ...], ...]]:
        """The kernel of the entries of its results that are not structurally zero, and their places.

            values, (at,) = robot.derivatives("inverse_dynamics").nonzeros()
            J = np.zeros((robot.nv, robot.nv))
            J[at] = values(q, v, a)

        Each result has one axis, in the order of its places, which are indices along the axes of the result.
        """
        function = self.function
        if isinstance(function, Minimizer):
            raise GraphError(f"{function.name} solves a quadratic program; its results have no fixed zeros")
        at = {key: np.nonzero(~x) for key, x in zeros(function).items()}
        outputs = {key: y[at[key]] for key, y in function.outputs.items()}
        kept = function.over(function.inputs, outputs)
        return Kernel(kept, self.dtype, self.guard, doc=self.__doc__ or ""), tuple(at.values())

    def buffer(self, *batch: int) -> Buffer:
        """Arrays for the results of batches of one shape, whose constant entries are filled once."""
        return Buffer(self, batch)

    def _rows(self, arrays: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
        """The inputs as (n, size) arrays with contiguous rows; n = 1 if one row serves the whole batch."""
        converted, leading, batch = arrays_of(self.name, self.inputs, arrays, self.dtype, self.guard.labels)
        rows = []
        for array, lead, shape in zip(converted, leading, self.inputs.values(), strict=True):
            size = math.prod(shape)
            if math.prod(lead) == 1:
                rows.append(np.require(array, requirements=["C", "A"]).reshape(1, size))
                continue
            whole = array if lead == batch else np.broadcast_to(array, (*batch, *shape))
            flat = whole.reshape(math.prod(batch), size)  # a copy only where the axes cannot be merged
            contiguous = flat.strides[1] == flat.itemsize or size <= 1
            if not contiguous or flat.strides[0] % flat.itemsize or not flat.flags.aligned:
                flat = np.require(flat, requirements=["C", "A"])
            rows.append(flat)
        return rows, batch

    def _targets(self, out: Any, batch: tuple[int, ...]) -> list[Any]:
        """`out` as a list of arrays of the right shape, or of None."""
        if out is None:
            return [None] * len(self.outputs)
        several = isinstance(out, (tuple, list)) or (len(self.outputs) > 1 and np.iterable(out))
        targets = list(out) if several else [out]
        if len(targets) != len(self.outputs):
            raise ShapeError(
                f"{self.name} has {len(self.outputs)} outputs ({', '.join(self.outputs)}), "
                f"out has {len(targets)}"
            )
        for target, (key, shape) in zip(targets, self.outputs.items(), strict=True):
            if not isinstance(target, np.ndarray):
                raise ShapeError(
                    f"{self.name}: out for {key} is a {type(target).__name__}, expected an array"
                )
            if target.shape != (*batch, *shape):
                raise wrong_shape(f"{self.name}: out for {key}", target.shape, (*batch, *shape))
            if target.dtype.kind not in "fcO":
                raise ShapeError(
                    f"{self.name}: out for {key} holds {target.dtype}, which would lose digits; "
                    f"expected {self.dtype}"
                )
            if not target.flags.writeable:
                raise ShapeError(f"{self.name}: out for {key} is read-only")
        return targets

    def _run(
        self, rows: list[Any], arrays: list[Any], batch: tuple[int, ...], threads: int, kept: bool = False
    ) -> None:
        """Compute all rows; raises an error if one breaks the guard.

        kept  whether the arrays hold constant entries already, from an earlier call
        """
        count = math.prod(batch)
        if not count:
            return
        # Results are written while later rows are read, so inputs that overlap with them are copied first.
        rows = [row.copy() if any(np.may_share_memory(row, y) for y in arrays) else row for row in rows]
        results = [y.reshape(count, -1 if y.size else 0) for y in arrays]
        many = count >= FEW  # decided by the size alone: the loops differ in the last bits
        library = self._libraries.over(many)
        if library is None:
            self._check(rows, batch)
            self._run_numpy(rows, results, batch)
            return

        def share(first: int, last: int) -> int:
            bad = library.run(
                last - first,
                _pointers([row[first:] if len(row) > 1 else row for row in rows]),
                (ctypes.c_int64 * len(rows))(
                    *[r.strides[0] // r.itemsize if len(r) > 1 else 0 for r in rows]
                ),
                _pointers([result[first:] for result in results]),
                (ctypes.c_int64 * len(results))(*[result.shape[1] for result in results]),
                int(kept),
            )
            if bad < 0:
                raise MemoryError(f"{self.name}: no memory for intermediate results")
            return int(bad)

        # Shares of threads are multiples of the lanes, so that each row gets the same result for any number
        # of threads.
        step = -(-count // max(threads, 1))
        step += -step % self._libraries.lanes(many)
        if step >= count:
            bad = share(0, count)
        else:
            starts = range(0, count, step)
            bad = max(build.in_threads(lambda first: share(first, min(first + step, count)), starts, threads))
        # The loop says only that a row broke the guard; find it, and word the error. Norms round differently
        # in NumPy, so a row at the edge may pass here: then half of the tolerance finds it.
        for part in (1.0, 0.5) if bad else ():
            self._check(rows, batch, part)

    def _run_numpy(self, rows: list[Any], results: list[Any], batch: tuple[int, ...]) -> None:
        """Compute all rows by NumPy source, where there is no compiler."""
        lead = batch if math.prod(batch) > 1 else ()
        arrays = [
            row.reshape((*(lead if len(row) > 1 else ()), *shape)).astype(np.float64)
            for row, shape in zip(rows, self.inputs.values(), strict=True)
        ]
        with np.errstate(all="ignore"):
            computed = self._in_numpy(*arrays)
            for result, value in zip(results, (computed,) if len(results) == 1 else computed, strict=True):
                result[...] = np.reshape(value, result.shape)

    def _check(self, rows: list[Any], batch: tuple[int, ...], share: float = 1.0) -> None:
        """Raise an error if an input breaks the guard, or is beyond a share of the guard's tolerance."""
        inputs = dict(zip(self.inputs, rows, strict=True))
        guard = self.guard

        def where(name: str, row: int, first: int, size: int = 1) -> str:
            """Some entries of a row of an input: `q[3:7] of state 2`."""
            index = ", ".join(str(int(i)) for i in np.unravel_index(first, self.inputs[name]))
            place = f"{first}:{first + size}" if size > 1 else index
            label = guard.labels[name][first] if name in guard.labels else ""
            label = f" ({label.removesuffix('[0]') if size > 1 else label})" if label else ""
            state = tuple(int(i) for i in np.unravel_index(row, batch)) if len(inputs[name]) > 1 else ()
            of = f" of state {state if len(state) > 1 else state[0]}" if state else ""
            return f"{name}{f'[{place}]' if place else ''}{label}{of}"

        for name in guard.finite:
            wrong = ~np.isfinite(inputs[name])
            if wrong.any():
                row, place = (int(i) for i in np.argwhere(wrong)[0])
                raise ConfigurationError(
                    f"{self.name}: {where(name, row, place)} is {inputs[name][row, place]}, expected a "
                    "finite number; look for a division by zero or an unset value where it was made"
                )
        for name, first, size in guard.unit:
            vectors = inputs[name][:, first : first + size].astype(np.float64)
            with np.errstate(all="ignore"):
                square = (vectors * vectors).sum(axis=1)
            low, high = guard.bounds(self.dtype, share)
            wrong = ~((square > low) & (square < high))
            if wrong.any():
                row = int(np.argmax(np.where(wrong, np.abs(square - 1), -1)))
                what, order = ("quaternion", " (order w, x, y, z)") if size == 4 else ("vector", "")
                whole = "the configuration" if name not in guard.labels else "it"
                poses = () if name in guard.labels else guard.poses
                expected = f"1{order}"
                advice = quaternion_remedy(inputs[name][row], first, poses, f"normalize {whole} first")
                if guard.tolerance is None:
                    expected = "a length that has a direction"
                    advice = f"a zero {what} is no orientation"
                raise ConfigurationError(
                    f"{self.name}: the {what} {where(name, row, first, size)} has norm "
                    f"{math.sqrt(square[row]):.9g}, expected {expected}; {advice}"
                )
        for name, place, relation in guard.signs:
            values = inputs[name][:, place]
            wrong = values <= 0 if relation == ">" else values < 0
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ModelError(
                    f"{self.name}: {where(name, row, place)} is {values[row]}, expected "
                    f"{'a positive number' if relation == '>' else 'zero or more'}"
                )


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether the function may be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        pass_on_signals(error)
        return False
    return True


def data_type(dtype: Any) -> np.dtype[Any]:
    """A NumPy data type; raises GraphError for anything else."""
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise GraphError(f"kernels compute in float64 or float32, not in {dtype!r}: {error}") from None


def is_single(dtype: Any) -> bool:
    """Whether a type of numbers is float32; LiebodyError for other types than float32 and float64."""
    single = data_type(dtype) == np.float32
    if not single and data_type(dtype) != np.float64:
        raise LiebodyError(f"dtype is {np.dtype(dtype)}, expected float64 or float32")
    return bool(single)


def _writable_directly(array: Any, dtype: Any) -> bool:
    """Whether compiled code can write into an array without a copy."""
    return (
        type(array) is np.ndarray
        and array.dtype == dtype
        and array.flags.c_contiguous
        and array.flags.aligned
    )


class Buffer:
    """Results of a kernel for batches of one shape, in arrays that are used again and again.

        M = robot.kernel("mass_matrix").buffer(8192)
        M(q)                                            # (8192, nv, nv), valid until the next call

    Entries that are constant, such as the zeros of a mass matrix, may be written in the first call only. So
    the arrays are read-only: copy results that have to be kept or changed. Each thread has separate arrays;
    so have copies and unpickled buffers.
    """

    def __init__(self, kernel: Kernel, batch: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.batch = shape_of("a batch", batch)
        self._of_thread = threading.local()
        self._arrays()  # so that a lack of memory raises an error here

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle kernel and batch alone: pickled views would no longer belong to their arrays."""
        return Buffer, (self.kernel, self.batch)

    def _arrays(self) -> tuple[list[Any], list[Any]]:
        """The arrays of this thread, and read-only views of them."""
        try:
            return self._of_thread.arrays, self._of_thread.views
        except AttributeError:
            shapes = self.kernel.outputs.values()
            arrays = [np.empty((*self.batch, *shape), self.kernel.dtype) for shape in shapes]
            views = [array.view() for array in arrays]
            for view in views:
                view.flags.writeable = False
            self._of_thread.arrays = arrays
            self._of_thread.views = views
            self._of_thread.filled = False
            return arrays, views

    def __call__(self, *arrays: Any, threads: int = 1) -> Any:
        threads = count("threads", threads)
        rows, batch = self.kernel._rows(arrays)
        if batch != self.batch:
            raise ShapeError(
                f"{self.kernel.name}: the arrays make a batch of shape {batch}, "
                f"this buffer is for {self.batch}"
            )
        results, views = self._arrays()
        self.kernel._run(rows, results, batch, threads, kept=self._of_thread.filled)
        self._of_thread.filled = True
        return views[0] if len(views) == 1 else tuple(views)


def _pointers(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
