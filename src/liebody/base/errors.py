"""The errors that a user can cause: every one is a `LiebodyError`, and hence a `ValueError`."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import itertools
import math
import sys
import types
import warnings
from collections.abc import Iterable
from numbers import Real
from typing import Any


class LiebodyError(ValueError):
    """Base of all errors of liebody; the message names the value, the expectation and the remedy."""

    def __init__(self, *words: Any) -> None:
        """Let an error pass that a signal handler raised, if an `except` of this library caught it."""
        # Code of this library turns errors into its own ones. KeyboardInterrupt and the like, raised by a
        # handler in the middle of that, must reach the user instead.
        caught = sys.exception()
        trace = caught and caught.__traceback__
        if caught and trace and trace.tb_frame.f_globals.get("__name__", "").startswith("liebody."):
            pass_on_signals(caught)
        super().__init__(*words)


class ArgumentError(LiebodyError, TypeError):
    """An argument of a kind that a call does not take."""


class ShapeError(LiebodyError):
    """An array has the wrong shape or a kind of entry that cannot be converted to floats."""


class ConfigurationError(LiebodyError):
    """Coordinates outside the configuration group: NaN, infinity, a quaternion far from unit."""


class LogarithmError(LiebodyError):
    """An element of a group without a logarithm, or with more than one, where one is asked for."""


class ModelError(LiebodyError):
    """A mechanism that cannot be: non-physical inertia, unknown names, cycles, duplicate names."""


class UnknownName(ModelError, AttributeError):
    """A part of memory or parameters that is not there."""


class ConstraintError(ModelError):
    """Constraints that cannot hold: loops that do not close, velocities that contradict each other."""


class DescriptionError(ModelError):
    """A robot description (URDF) that cannot be read: missing file, malformed XML, unknown joint type."""


class GraphError(LiebodyError):
    """A trace that cannot be: symbols of two traces mixed, or a symbol used where a number must be known."""

    has_line = False  # whether the message names the line of a user's function


class CompilerError(LiebodyError):
    """The C compiler is missing where it is required, or it refused the generated source."""


class DeviceError(LiebodyError):
    """No driver of CUDA devices, an error of it, or an array that is not in the memory of a device."""


class IntegrationError(LiebodyError):
    """An integration that cannot go on: a step below round-off, a state that is not finite."""


class SweepError(LiebodyError):
    """A sweep that cannot be: a store of another sweep, a function that gives no results."""


class MissingPackage(LiebodyError, ImportError):
    """A package that is needed for this alone, and not installed."""


def handlers_of(error: BaseException) -> set[types.CodeType]:
    """The signal handlers in the traceback of an error: functions called with (number, frame).

    The standard library replaces some errors by others (`inspect`: a kind of parameter that is not valid);
    the replaced one is followed, too. One that a caller handles while it calls this library is not: its
    traceback ends at the caller, which is not in the traceback of `error`.
    """
    handlers: set[types.CodeType] = set()
    frames: list[types.FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        code = trace.tb_frame.f_code
        values = trace.tb_frame.f_locals
        arguments = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
        if code.co_flags & inspect.CO_VARARGS:
            arguments += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
        if any(
            isinstance(a, int) and isinstance(b, types.FrameType) for a, b in itertools.pairwise(arguments)
        ):
            handlers.add(code)
        # Before Python 3.13 the frame of a function keeps this dictionary. If the error is one of the values,
        # it would hold its own frames, and all their arrays, until Python next looks for garbage.
        if isinstance(values, dict) and code.co_flags & inspect.CO_OPTIMIZED:
            values.clear()
        trace = trace.tb_next
    replaced = error.__context__
    if replaced is not None and replaced.__traceback__ and replaced.__traceback__.tb_frame in frames:
        handlers |= handlers_of(replaced)
    return handlers


def pass_on_signals(error: BaseException) -> None:
    """Raise an error again if a signal handler raised it; called first in every broad `except`."""
    if handlers_of(error):
        raise error


class suppress(contextlib.suppress):
    """`contextlib.suppress`, except for errors that a signal handler raised."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return bool(super().__exit__(kind, error, trace)) and not (error and handlers_of(error))


NAMES_OF_PIP = {"PIL": "pillow", "collada": "pycollada"}  # of packages that are imported by other names


def require(purpose: str, *packages: str, extra: str = "") -> None:
    """Raise MissingPackage, which says what to install, if packages for a purpose are missing.

    extra  the extra of this package that brings them
    """
    missing = [NAMES_OF_PIP.get(x, x) for x in packages if importlib.util.find_spec(x) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingPackage(
            f"{', '.join(missing)} {verb} not installed; for {purpose}: pip install {' '.join(missing)}"
            + (f", or liebody with its extra {extra!r}" if extra else "")
        )


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the user's line that called this library."""
    # Walk from this function up to the first caller that is neither a module of liebody nor functools, which
    # calls cached properties. Interpreters without frames give None: the warning then names this line.
    ours = "liebody.", "functools"
    frame = inspect.currentframe()
    level = 1
    while frame and frame.f_back and frame.f_globals.get("__name__", "").startswith(ours):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def known(names: Iterable[str], wanted: Any = "", most: int = 20) -> str:
    """The end of a message on an unknown name: the known names, and similar ones that may be meant."""
    listed = list(names)
    folded = {name.lower(): name for name in listed}
    near = [folded[name] for name in difflib.get_close_matches(str(wanted).lower(), folded, n=3, cutoff=0.5)]
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return "known are " + ", ".join(listed[:most]) + (", ..." if len(listed) > most else "") + meant


def counted(n: int, one: str, many: str = "") -> str:
    """A number of things, for messages: "1 body", "2 bodies"; `many` is `one` with an s unless given."""
    return f"{n} {one if n == 1 else many or one + 's'}"


SECONDS = " of seconds"  # how messages of `positive` go on for times


def positive(name: str, value: Any, unit: str = "", infinite: bool = False) -> float:
    """The value as a float, if it is a number above zero.

    unit      how the message goes on: " of seconds"
    infinite  whether infinity will do

    Raises IntegrationError.
    """
    try:
        single = value.item() if getattr(value, "shape", None) == () else value
        number = float(single) if isinstance(single, (float, Real)) else math.nan
    except (TypeError, ValueError, OverflowError) as error:
        pass_on_signals(error)
        number = math.nan
    if not 0 < number < math.inf and not (infinite and number == math.inf):
        raise IntegrationError(f"{name} is {value!r}, expected a positive number{unit}")
    return number
