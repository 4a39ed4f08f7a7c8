"""Checks of arguments at the entry of users' calls: kinds by annotations, arrays and their shapes, counts."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError, ConfigurationError, ShapeError, pass_on_signals
from .texts import message_of

F = TypeVar("F", bound=Callable[..., Any])
WORDS = {Integral: "a whole number", Real: "a number", bool: "True or False", str: "text", type(None): "None"}
PLAIN = (type(None), str, int, float)
OFF_UNIT = 1e-6  # how far the norms of quaternions and axes that are given may be from 1
OFF_TYPED = 1e-3  # how far from 1 the norm of a quaternion typed with a few decimals is
OF_FREE_BASE = {"q": 7, "q0": 7, "--q0": 7, "v": 6, "v0": 6, "--v0": 6, "a": 6, "tau": 6}
POSITION_FIRST = (
    "the last four of this free joint's seven numbers have norm 1, as in the order of MuJoCo and Pinocchio, "
    "position first: is it theirs? Here they are (qw, qx, qy, qz, x, y, z); liebody.io.mujoco_layout and "
    "pinocchio_layout convert"
)
LONGEST = 60  # characters of a value in a message


def checked(function: F, but: tuple[str, ...] = ()) -> F:
    """Decorator: check arguments against the function's annotations.

    Arguments annotated as `Any` or as arrays pass, and so do arguments that the function checks itself
    (`but`). Raises ArgumentError, which is a TypeError, too.
    """
    names = list(inspect.signature(function).parameters)
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    # Annotations are evaluated at the first call, because they may name classes that are defined later.
    kinds: dict[str, tuple[Any, ...]] = {}
    plain: dict[str, set[type]] = {}  # types that pass without a look at abstract classes
    texts = {x for x, said in function.__annotations__.items() if re.search(r"\w\[str\]", str(said))}

    def check(name: str, value: Any) -> None:
        kind = kinds.get(name)
        if kind and not (_is_of(value, kind) and (type(value) is not bool or bool in kind)):
            words = [WORDS.get(x, x.__name__) for x in kind if x is not np.ndarray]
            raise ArgumentError(f"{called}: {name} is {short(value)}, expected {' or '.join(words)}")
        for entry in value if name in texts and type(value) in (list, tuple) else ():
            if not isinstance(entry, str):
                raise ArgumentError(f"{called}: {name} has {short(entry)}, expected texts")

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if not kinds:
            kinds.update({k: x for k, x in _kinds(function, names).items() if k not in but})
            plain.update(
                {k: {y for y in PLAIN if issubclass(y, kinds.get(k, object))} for k in {*kinds, *texts}}
            )
        for name, value in (*zip(names, given), *options.items()):
            if name in plain and type(value) not in plain[name]:
                check(name, value)
        return function(*given, **options)

    return typing.cast(F, call)


def _is_of(value: Any, kind: tuple[Any, ...]) -> bool:
    """Whether a value is of a kind; an array without axes counts as a number, not as a sequence."""
    single = isinstance(value, np.ndarray) and not value.ndim and np.ndarray not in kind
    return isinstance(value, kind) and not single


def _kinds(function: Callable[..., Any], names: list[str]) -> dict[str, tuple[Any, ...]]:
    """The classes that each argument may have, by its annotation; arguments without a check are left out."""
    kinds: dict[str, tuple[Any, ...]] = {}
    for name in names:
        try:
            said = eval(function.__annotations__[name], function.__globals__)
        except (KeyError, NameError, TypeError) as error:  # known to type checkers alone
            pass_on_signals(error)
            continue
        parts = typing.get_args(said) if isinstance(said, types.UnionType) else (said,)
        kind = [typing.get_origin(part) or part for part in parts]
        if all(x is None or (isinstance(x, type) and x is not Any) for x in kind):
            # NumPy's numbers are numbers, too.
            also: dict[Any, list[Any]] = {
                int: [Integral],
                float: [Real, np.ndarray],
                bool: [bool, np.bool_],
                None: [type(None)],
            }
            kinds[name] = tuple(y for x in kind for y in also.get(x, [x]))
    return {"": (object,), **kinds}


def array_of(name: str, given: Any, kind: Any = None) -> np.ndarray:
    """The argument as an array of any entries, or of a kind; raises ShapeError."""
    try:
        array = np.asarray(given)
        if kind is None or array.dtype == kind:
            return array
        if array.dtype.kind == "c":
            raise TypeError("its numbers are complex")
        refuse_text(array)
        return np.asarray(array, kind)
    except Exception as error:  # anything may be in the place of an array, with code of its own
        pass_on_signals(error)
        raise ShapeError(f"{name} cannot be read as an array of numbers: {message_of(error)}") from None


def refuse_text(array: np.ndarray) -> None:
    """Raise TypeError for an entry that is text, which NumPy would read as a number: "1.0"."""
    for x in array.ravel().tolist() if array.dtype.kind not in "fiub" else ():
        if isinstance(x, (str, bytes)):
            raise TypeError(f"it holds the text {short(x)}")


def floats(name: str, given: Any, finite: bool = True) -> np.ndarray:
    """The argument as an array of finite floats; raises ShapeError and ConfigurationError."""
    array = array_of(name, given, float)
    if finite and np.count_nonzero(np.isfinite(array)) < array.size:  # sooner than `all`
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        entry = f"[{', '.join(map(str, where))}]" if where else ""
        raise ConfigurationError(f"{name}{entry} is {array[where]}, expected a finite number")
    return array


def wrong_shape(name: str, shape: tuple[int, ...], expected: Any, more: str = "") -> ShapeError:
    """The error for an array whose shape is not the expected one, in the wording that all checks share.

    expected  a shape, or words: "a single number", "(..., 6)"
    more      how the message goes on, such as a remedy
    """
    return ShapeError(f"{name} has shape {shape}, expected {expected}{more}")


def quantities(name: str, given: Any, *shapes: tuple[int, ...]) -> np.ndarray:
    """The argument as an array of numbers or symbols, of one of these shapes; raises ShapeError.

    Short numbers of NumPy, which overflow in silence, become whole numbers of 64 bits and doubles.
    """
    array = array_of(name, given)
    if array.shape not in shapes:
        wanted = " or ".join("a single number" if shape == () else str(shape) for shape in shapes)
        raise wrong_shape(name, array.shape, wanted)
    plain: Any
    try:
        plain = array.dtype.kind in "iuf" or [x * 0.5 + 0.5 for x in array.ravel() if array.dtype == object]
    except Exception as error:  # entries may be anything
        pass_on_signals(error)
        plain = False
    if not plain:
        raise ShapeError(f"{name} is {short(given)}, expected numbers or symbols")
    return array if array.dtype == object else array.astype(np.result_type(array.dtype, np.int64), copy=False)


def quantity(name: str, given: Any) -> Any:
    """A number, of Python's own kinds, or a symbol; raises ShapeError."""
    return quantities(name, given, ()).item()


FLOATING = "print(robot) says whether its base is fixed, and load(..., floating=True) lets it move"


def free_base(name: str, given: int, size: int, remedy: str = FLOATING) -> str:
    """The end of a message on a vector whose additional entries are as many as a free base has; else "".

    name         name of the vector of a robot: "q0", "v", ...
    given, size  number of its entries, and expected number
    """
    more = given - size
    return f"; {more} more are as many as a free base has: {remedy}" if more == OF_FREE_BASE.get(name) else ""


def quaternion_remedy(q: np.ndarray, start: int, poses: Sequence[int], otherwise: str) -> str:
    """The end of a message on a quaternion q[start:start + 4] of coordinates (nq,) that is not unit.

    poses      where free joints begin in q. If the last four of their seven numbers are unit, the message
               asks for the order: making the first four unit would give a wrong pose
    otherwise  the end of the message in all other cases
    """
    last = q[start + 3 : start + 7] if start in poses else np.zeros(0)
    return POSITION_FIRST if abs(np.sqrt(last @ last) - 1) <= OFF_TYPED else otherwise


def vector(name: str, given: Any, size: int, finite: bool = True) -> np.ndarray:
    """The argument as finite floats (size,); raises ShapeError and ConfigurationError."""
    array = floats(name, given, finite)
    if array.shape != (size,):
        more = free_base(name, array.size, size)
        raise wrong_shape(name, array.shape, f"({size},)", more)
    return array


def vectors(name: str, given: Any, size: int, finite: bool = True) -> np.ndarray:
    """The argument as finite floats (..., size); raises ShapeError and ConfigurationError."""
    array = floats(name, given, finite)
    if array.shape[-1:] != (size,):
        more = free_base(name, array.shape[-1] if array.ndim else 1, size)
        raise wrong_shape(name, array.shape, f"(..., {size})", more)
    return array


def number(name: str, given: Any, finite: bool = True) -> float:
    """The argument as a finite float; raises ShapeError and ConfigurationError."""
    array = floats(name, given, finite)
    if array.shape != ():
        raise wrong_shape(name, array.shape, "a single number")
    return float(array)


def count(name: str, given: Any, least: int = 1) -> int:
    """The argument as a whole number that is `least` or more; raises ArgumentError."""
    whole = isinstance(given, (int, Integral)) and type(given) is not bool
    if not whole or not least <= given < 2**62:
        raise ArgumentError(f"{name} is {short(given)}, expected a whole number, {least} or more")
    return int(given)


def shape_of(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that 6, for (6,), or a sequence of axes stands for; raises ArgumentError."""
    axes = given if isinstance(given, (tuple, list)) else (given,)
    try:
        return tuple(count(name, axis, 0) for axis in axes)
    except ArgumentError:
        words = f"the shape of {name} is {short(given)}, expected whole numbers, 0 or more"
        raise ArgumentError(words) from None


def names(given: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def members(name: str, given: Any, what: str) -> list[Any]:
    """The entries of an iterable, as a list; raises ArgumentError."""
    try:
        return list(given)
    except Exception as error:  # anything may be in its place
        pass_on_signals(error)
        raise ArgumentError(f"{name} is {short(given)}, expected {what}, as a list") from None


def check_arguments(name: str, function: Any, *arguments: str, more: str = "") -> None:
    """Raise ArgumentError for a function that does not take these arguments; `more` names optional ones."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        pass_on_signals(error)
        taken = ", ".join(arguments)
        raise ArgumentError(f"{name} has to be a function of ({taken}){more}: {error}") from None
    except ValueError as error:  # a function without a signature, such as some of C
        pass_on_signals(error)


def is_index(index: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether these are whole numbers, one for each axis of an array of this shape, and within it."""
    places = zip(index, shape, strict=False)
    return len(index) == len(shape) and all(isinstance(k, Integral) and -n <= int(k) < n for k, n in places)


def check_state(stepper: Any, state: Any, kind: Any) -> None:
    """Raise ArgumentError for anything but a state of this stepper, or of an equal one."""
    if not isinstance(state, kind):
        raise ArgumentError(f"the state is {short(state)}, expected what start, step or reset returned")
    if state.stepper is not stepper and not stepper.takes(state.stepper):
        raise ArgumentError("the state is one of another stepper; begin with start(state.q, state.v)")


def check_members(batch: tuple[int, ...]) -> None:
    """Raise ShapeError for an ensemble of this shape without members."""
    if 0 in batch:
        raise ShapeError(f"the ensemble is empty: its shape is {batch}; give one member or more")


def check_in_single(q: np.ndarray, v: np.ndarray) -> None:
    """Raise ConfigurationError for states q, v beyond the largest number of float32."""
    largest = np.finfo(np.float32).max
    for name, x in (("q0", q), ("v0", v)):
        beyond = np.abs(x) > largest
        if beyond.any():
            raise ConfigurationError(
                f"{name} has the number {x[beyond][0]:g}, and dtype is float32, which ends at {largest:.2g}; "
                "leave out dtype"
            )


def members_of(rows: np.ndarray, given: Any, batch: tuple[int, ...]) -> np.ndarray:
    """Rows (*batch, ...) of some members of an ensemble, by a mask or indices; raises ShapeError."""
    try:
        selected: np.ndarray = rows[given]
    except IndexError as error:
        raise ShapeError(f"members are {short(given)}, expected a mask {batch} or indices: {error}") from None
    return selected


def short(value: Any) -> str:
    """The `repr` of a value for a message, at most `LONGEST` characters of it."""
    try:
        text = repr(value)
    except Exception as error:
        pass_on_signals(error)
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def takes_parameters(function: Any, others: int = 3) -> bool:
    """Whether a function of (t, q, v), or of so many others, has one more argument, without a default: p."""
    if not callable(function):
        return False
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:  # a function of C may have no signature
        pass_on_signals(error)
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(x.kind in places and x.default is x.empty for x in arguments) > others


def event_attributes(events: Mapping[str, Callable[..., Any]]) -> tuple[list[int], list[bool]]:
    """The direction (+1, -1, or 0 for both) of each event function of a user, and whether it is terminal."""
    signs = {f"the direction of event {k}": getattr(event, "direction", 0) for k, event in events.items()}
    directions = [int(np.sign(number(name, x))) for name, x in signs.items()]
    return directions, [bool(getattr(event, "terminal", False)) for event in events.values()]
