"""Make a function of `dynamics` a method of robots: its kernels, its documentation, its calls.

Everything is read from the function: which arguments are arrays, which are options, and what it computes.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import Parameter
from typing import Any, Protocol

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import ModelError, pass_on_signals
from ..bodies import Tree
from ..compiler import Function, Guard, Kernel, Program, traced
from ..compiler.native.kernel import InSingle, data_type
from ..compiler.programs.layout import FlatLayout
from ..groups import Product
from ..scalars import Array

CONFIGURATIONS = ("q", "q0", "q1")
ARRAYS: dict[str, tuple[Any, ...]] = {  # the arguments that are arrays, and their shapes
    **dict.fromkeys(CONFIGURATIONS, ("nq",)),
    **dict.fromkeys(("v", "p", "a", "tau", "w", "F", "v_r", "a_r"), ("nv",)),
    "wrenches": ("n", 6),
    "base_motion": (2, 6),
    "s": (),
}
PARAMETERS = "parameters"
"""The argument of methods with values of parameters: the last array of kernels of robots with free ones"""
KNOWN = ("tree", "gravity")  # arguments that a robot has itself
ENTRIES = 8  # of a method; with more sets of options in use, the method looks its entries up
OF_BATCHES = (
    "Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`."
)


class Host(Protocol):
    """The part of a robot that algorithms use; `Robot` has it.

    tree      the bodies, with the values of now
    layout    how the free parameters stand in a row; of size 0 where none is free
    values    their values by default, (np,)
    kernels   kernels by algorithm, optional arrays, options and type of numbers
    entries   native entries by algorithm, which optional arrays are given, and options
    """

    tree: Tree
    layout: FlatLayout
    kernels: dict[tuple[Any, ...], Kernel]
    entries: dict[tuple[Any, ...], Any]

    @property
    def group(self) -> Product:
        """The configuration group."""

    @property
    def values(self) -> Array:
        """Values of the free parameters by default, (np,)."""

    def at(self, flat: Array = None) -> tuple[Tree, Array]:
        """Tree and gravity at values of the free parameters."""

    def shape(self, argument: str) -> tuple[int, ...]:
        """The shape of an array that kernels take."""

    def freed(self, parameters: Any) -> Host:
        """The robot in which the named parameters are free."""

    def packed(self, parameters: Any = None) -> Array:
        """Values of the free parameters in one checked array, (..., np)."""

    def guarded(self, guard: Guard, name: str) -> Guard:
        """The guard, extended by the checks of the free parameters."""

    def recipe(self, name: str, options: Mapping[str, Any]) -> str | None:
        """A text that determines the traced function `name`; None if no text does."""


def shape(tree: Tree, argument: str) -> tuple[int, ...]:
    """The shape of an argument that is an array."""
    sizes = {"nq": tree.nq, "nv": tree.nv, "n": len(tree.bodies)}
    return tuple(sizes.get(size, size) for size in ARRAYS[argument])


class Algorithm:
    """An entry of the table: in the body of a class of robots, the method that a function is.

        poses = Algorithm(dynamics.body_poses)        # robot.poses(q, *, out=None, threads=1)

    function  f(tree, ...) on a single state, of NumPy operators: a result, several, or a NamedTuple of them.
              Arguments with names of `ARRAYS` are arrays, which may be left out where their default is None;
              `gravity` is the robot's; all others are options, whose values belong to a kernel
    program   program(tree, shapes, name, call) makes the compiled program, in place of a trace of the
              function; call(function, *arrays) calls a function of the same arguments with tree and options
    unit      whether quaternions have to be unit
    least     work (in operations) from which on its steps become loops; None: as for all
    """

    def __init__(
        self,
        function: Callable[..., Any],
        program: Callable[..., Function | Program] | None = None,
        unit: bool = True,
        least: int | None = None,
    ) -> None:
        self.function = function
        self.program = program
        self.unit = unit
        self.least = least

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = owner
        self.name = name

    def __get__(self, robot: Host | None, owner: type | None = None) -> Any:
        return self.method.__get__(robot, owner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the place in the table: functions and caches stay in their process."""
        return _entry, (self.owner, self.name)

    # -- read from the function ----------------------------------------------------------------------------

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The arguments that callers give: all but the tree and gravity."""
        return {k: x for k, x in inspect.signature(self.function).parameters.items() if k not in KNOWN}

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that are needed."""
        return tuple(k for k, x in self.parameters.items() if k in ARRAYS and x.default is x.empty)

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The arrays that may be left out. If one is given, its name becomes part of the kernel's name."""
        return tuple(k for k in self.parameters if k in ARRAYS and k not in self.arrays)

    @cached_property
    def options(self) -> dict[str, Any]:
        """The other arguments, with their defaults; Parameter.empty for those without a default."""
        return {k: _hashable(x.default) for k, x in self.parameters.items() if k not in ARRAYS}

    @property
    def is_complete(self) -> bool:
        """Whether all options have defaults."""
        return Parameter.empty not in self.options.values()

    @property
    def doc(self) -> str:
        """The docstring of the method."""
        return f"{self.text}\n{OF_BATCHES}\n"

    @cached_property
    def text(self) -> str:
        """The docstring of the function, without tree and gravity; functions are called as methods are."""
        # docstrings of `dynamics` call functions by their names; robots may call the methods otherwise
        methods = {f"`{x.function.__name__}`": f"`{x.name}`" for x in _algorithms(self.owner)}
        text = (inspect.getdoc(self.function) or self.name) + "\n"
        text = _without(text, KNOWN)
        return re.sub(r"`\w+`", lambda name: methods.get(name[0], name[0]), text)

    def text_for(self, arrays: Collection[str]) -> str:
        """`text` for a call with these arrays: optional ones that are not among them are not explained."""
        absent = [name for name in self.optional if name not in arrays]
        return _without(self.text, absent) + (f"\nwithout {', '.join(absent)}" if absent else "")

    @cached_property
    def tuple_of(self) -> Callable[..., Any] | None:
        """The NamedTuple that the function returns, if it returns one."""
        # annotations are texts in modules with `from __future__ import annotations`
        kind = inspect.signature(self.function).return_annotation
        kind = self.function.__globals__.get(kind) if isinstance(kind, str) else kind
        return kind if hasattr(kind, "_fields") else None

    # -- calls ----------------------------------------------------------------------------------------------

    @cached_property
    def method(self) -> Any:
        """The method: a Python function with the arguments of the algorithm, compiled from text.

        A wrapper with *args would cost as much as a small kernel. The text looks up the native entry of these
        options; without an entry it calls `call`, which checks the options and makes one.
        """
        groups = (self.arrays, self.optional, self.options)
        values = ", ".join(f"({''.join(f'{name}, ' for name in names)})" for names in groups)
        # An entry is found by the algorithm, which optional arrays are given, and the values of the options:
        # the same key that `call` stores it under. Values that cannot be hashed end in `call` as well.
        key = ["of", *(f"{name} is not None" for name in ("parameters", *self.optional)), *self.options]
        passed = [*self.arrays]
        if self.optional:
            passed.append(f"*[x for x in ({', '.join(self.optional)},) if x is not None]")
        arrays = ", ".join(passed)
        text = f"""
def {self.name}({", ".join(["self", *self.parameters])}, *, parameters=None, out=None, threads=1):
    try:
        entry = self.entries[{", ".join(key)},]
    except (KeyError, TypeError):
        return call(self, {values}, parameters, out, threads)
    if parameters is not None:
        if type(parameters) is not ndarray:
            parameters = self.packed(parameters)
        if out is None and type(threads) is int and threads == 1:
            return entry({arrays}, parameters)
        return entry({arrays}, parameters, out=out, threads=threads)
    if out is None and type(threads) is int and threads == 1:
        return entry({arrays})
    return entry({arrays}, out=out, threads=threads)
"""
        scope: dict[str, Any] = {"call": self.call, "of": self, "ndarray": np.ndarray}
        scope["__name__"] = self.owner.__module__
        exec(text, scope)
        method = scope[self.name]
        method.__doc__ = self.doc
        method.__qualname__ = f"{self.owner.__qualname__}.{self.name}"
        method.__defaults__ = tuple(x.default for x in self.parameters.values() if x.default is not x.empty)
        method.__annotations__ = {k: x for k, x in self.function.__annotations__.items() if k not in KNOWN}
        return method

    def call(
        self,
        robot: Host,
        arrays: Any,
        optional: Any,
        options: Any,
        parameters: Any,
        out: Array,
        threads: int,
    ) -> Any:
        """Evaluate the kernel of these options, and keep its native entry for the next call.

        optional  the optional arrays, None for those that are left out
        options   values of all options
        """
        # named parameters of a plain robot: the call goes to the robot in which these are free
        robot = robot.freed(parameters)
        last = (robot.packed(parameters),) if robot.layout.size else ()
        given = tuple(k for k, x in zip(self.optional, optional, strict=True) if x is not None)
        # Kernels take the optional arrays behind the others; the key is the one that `method` looks up.
        arrays += tuple(x for x in optional if x is not None)
        key = (*(x is not None for x in optional), *options)
        chosen = dict(zip(self.options, options, strict=True))
        options = tuple(map(_hashable, options))
        kernel = self.kernel(robot, given, options)
        result = kernel(*arrays, *last, out=out, threads=threads)
        # The result comes first, so that errors name the arguments. Only a compiled kernel has an entry.
        if kernel.has_loop and _is_hashable(key):
            entry = self._packed(kernel.call) if self.tuple_of else kernel.call
            if last:
                robot.entries[self, True, *key], entry = entry, _of_values(entry, robot.values)
            if not np.isnan(robot.values).any():
                robot.entries[self, False, *key] = entry
            # A call f(q, v, option) with positional arguments needs no Python at all: an attribute of the
            # robot, the library's own entry, hides the method. The entry passes calls that it cannot take
            # on to the previous method, so that each set of options adds one entry in front.
            changed = {k: x for k, x in chosen.items() if x is not self.options[k]}
            first = [*self.parameters][: len(self.arrays) + len(changed)]
            direct = not last and not given and self._is_direct(robot)
            if direct and first == [*self.arrays, *changed]:
                previous = vars(robot).get(self.name) or self.__get__(robot)
                vars(robot)[self.name] = kernel.entry(previous, **changed)
        return self.tuple_of(*result) if self.tuple_of else result

    def _packed(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        """The entry with its results as the NamedTuple of the function."""
        packed = self.tuple_of
        assert packed is not None
        return lambda *arrays, **options: packed(*entry(*arrays, **options))

    def _is_direct(self, robot: Host) -> bool:
        """Whether no subclass overrides the method, and it has few entries so far."""
        entries = list(robot.entries)  # at once: other threads add some
        few = sum(key[0] is self for key in entries) <= ENTRIES
        return few and self.tuple_of is None and getattr(type(robot), self.name) is self.method

    def kernel(
        self, robot: Host, given: tuple[str, ...], options: tuple[Any, ...], dtype: Any = None
    ) -> Kernel:
        """The kernel for the optional arrays that are given, and for values of all options.

        dtype  float64 or float32; None: float64, but float32 for calls whose arrays are float32
        """
        key = self, given, options, dtype if dtype is None else data_type(dtype)
        if key not in robot.kernels:
            name = "_".join([self.name, *given])
            arguments = self.arguments(robot, given)
            values = dict(zip(self.options, options, strict=True))
            single = functools.partial(self.kernel, robot, given, options, np.float32)
            robot.kernels[key] = Kernel(
                functools.partial(self.traced, robot, name, arguments, values),
                dtype=np.float64 if dtype is None else dtype,
                guard=self.guard(robot, arguments),
                recipe=robot.recipe(name, values) if self.is_ours else None,
                doc=self.doc,
                single=InSingle(single, (PARAMETERS,)) if dtype is None else None,
            )
        return robot.kernels[key]

    def arguments(self, robot: Host, given: tuple[str, ...]) -> tuple[str, ...]:
        """The arrays of a kernel, with the optional ones that are given; parameters are the last."""
        return self.arrays + given + ((PARAMETERS,) if robot.layout.size else ())

    def guard(self, robot: Host, arguments: tuple[str, ...]) -> Guard:
        """The checks of these arguments: unit quaternions, and values of parameters."""
        configurations = [k for k in arguments if k in CONFIGURATIONS]
        quaternions = tuple((k, i, 4) for k in configurations for i in robot.group.quaternions)
        if self.unit:
            guard = Guard(arguments, quaternions, poses=robot.group.poses)
        else:
            guard = Guard(arguments, quaternions, tolerance=None)
        return robot.guarded(guard, PARAMETERS)

    def values(self, options: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values of all options: the given ones, else the defaults. Raises ModelError."""
        values = {**self.options, **options}
        missing = [f"{name}=..." for name, x in values.items() if x is Parameter.empty]
        if len(values) > len(self.options) or missing:
            give = f"; give {', '.join(missing)}" if missing else ""
            raise ModelError(f"{self.name} takes the options {list(self.options)}, got {list(options)}{give}")
        return tuple(map(_hashable, values.values()))

    def traced(
        self, robot: Host, name: str, arguments: tuple[str, ...], options: Mapping[str, Any]
    ) -> Function | Program:
        """The function on symbols, or its program."""
        shapes = {argument: robot.shape(argument) for argument in arguments}
        falls = "gravity" in inspect.signature(self.function).parameters

        def call(function: Callable[..., Any], *arrays: Array) -> Any:
            # free parameters are symbols in the tree, so that their numbers become inputs of the kernel
            known = {**options, **dict(zip(shapes, arrays, strict=True))}
            tree, gravity = robot.at(known.pop(PARAMETERS, None))
            return function(tree, **known, **({"gravity": tuple(gravity)} if falls else {}))

        if self.program:
            return self.program(robot.tree, shapes, name, call)
        return traced(functools.partial(call, self.function), shapes, name, self.least)

    @property
    def is_ours(self) -> bool:
        """Whether the function is part of this library, so that its version determines the kernel."""
        return self.function.__module__.startswith("liebody.")


def _without(text: str, names: Collection[str]) -> str:
    """A docstring without its entries for these arguments."""
    if not names:
        return text
    return re.sub(rf"^({'|'.join(names)})  .*\n( .*\n)*", "", text, flags=re.MULTILINE)


def _entry(owner: type, name: str) -> Algorithm:
    algorithm: Algorithm = vars(owner)[name]
    return algorithm


def _algorithms(kind: type) -> Iterator[Algorithm]:
    """The algorithms of a class of robots, inherited ones first."""
    return (x for base in reversed(kind.__mro__) for x in vars(base).values() if isinstance(x, Algorithm))


Kernels = dict[str, tuple[Algorithm, tuple[str, ...]]]


def kernels_of(kind: type) -> Kernels:
    """The kernels of a class of robots by name: an algorithm, and which of its optional arrays are given."""
    return _kernels_of(kind)


@functools.cache
def _kernels_of(kind: type) -> Kernels:
    kernels: Kernels = {}
    for algorithm in _algorithms(kind):
        kernels[algorithm.name] = algorithm, ()
        kernels |= {f"{algorithm.name}_{k}": (algorithm, (k,)) for k in algorithm.optional}
    return kernels


def _of_values(entry: Callable[..., Any], values: Array) -> Callable[..., Any]:
    """The entry with these values of the free parameters as its last array."""
    return lambda *arrays, **options: entry(*arrays, values, **options)


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError as error:
        pass_on_signals(error)
        return False
    return True


def _hashable(option: Any) -> Any:
    """An option as part of a key: matrices become tuples of rows. Raises ModelError."""
    if isinstance(option, np.ndarray):
        option = option.tolist()
    if isinstance(option, list):
        return tuple(map(_hashable, option))
    if not _is_hashable(option):
        raise ModelError(
            f"{option!r} is no option of a kernel (unhashable type); use a name, a number, a matrix or a "
            "function"
        )
    return option
