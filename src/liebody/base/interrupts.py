"""Signals during long calls: Python's handlers run meanwhile, and an exception in one ends the call.

Python runs handlers in its main thread, between two of its own instructions. Two places need care: loops
in C, which have no such instructions (`CaughtSignals`), and operators of symbols that NumPy calls
(`outside_of`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without enumerations, which take 10 us a call
import _thread
import ctypes
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from types import CodeType
from typing import Any, Self

SOON = 1e-3  # seconds until a handler is tried again


class CaughtSignals(ctypes.Structure):
    """`Signals` of runtime/march.h, for the loops of one call.

    A loop has handlers run about every 20 ms. An exception that one raises, such as the KeyboardInterrupt of
    Ctrl-C, cannot pass through C: it is kept here, the loop ends where it is, and `raise_caught` raises it.
    """

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("lock", "unlock", "handle", "take")),
        ("stopped", ctypes.c_int),
        ("error", ctypes.c_void_p * 3),
    )

    @classmethod
    def of_this_thread(cls, waits: bool) -> Self | None:
        """For loops of this thread, or of others while it `waits`; None if it is not the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return None
        return cls() if waits else cls(*_FUNCTIONS)

    @property
    def address(self) -> int:
        """The address of this structure."""
        return ctypes.addressof(self)

    def stop(self) -> None:
        """Tell the loops to end at their next check."""
        self.stopped = 1

    def raise_caught(self) -> None:
        """Raise the exception that a handler raised meanwhile, if there is one."""
        if self.error[0]:
            _raise(*self.error)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


_python = ctypes.pythonapi
_FUNCTIONS = tuple(
    _address(function)
    for function in (
        _python.PyGILState_Ensure,
        _python.PyGILState_Release,
        _python.PyErr_CheckSignals,
        _python.PyErr_Fetch,
    )
)
# takes what PyErr_Fetch gave, and raises it because ctypes looks for errors after calls of Python's functions
_raise = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(("PyErr_Restore", _python))


def in_threads(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    threads: int,
    stop: Callable[[], object] = lambda: None,
) -> list[Any]:
    """Map a function over items in several threads; raises the first error of the function.

    If a signal handler raises in the main thread meanwhile, `stop` is called, items that have not begun are
    left out, and the exception is raised when all threads have ended.
    """
    # Threads take items from one iterator, whose steps no other thread can interrupt.
    tasks = list(items)
    results: list[Any] = [None] * len(tasks)
    errors: list[BaseException] = []
    left = iter(range(len(tasks)))
    number = min(threads, len(tasks))
    # A lock for each thread, which it holds until it ends: `wait` waits for these.
    over = [False] * number
    ends = [_thread.allocate_lock() for _ in range(number)]

    def work(worker: int) -> None:
        try:
            for k in left:
                results[k] = function(tasks[k])
        except BaseException as error:
            errors.append(error)
            skip()
        finally:
            over[worker] = True
            ends[worker].release()

    def skip() -> None:
        for _ in left:
            pass

    def wait(workers: int) -> None:
        for worker in range(workers):
            if not over[worker]:
                ends[worker].acquire()

    for end in ends:
        end.acquire()
    # `extend` over `map` starts all threads in one call of C, before or behind which a handler may run, but
    # not within: so `begun` lists exactly the threads that were started.
    begun: list[int] = []
    try:
        begun.extend(map(_thread.start_new_thread, repeat(work), [(k,) for k in range(number)]))
        wait(number)
    except BaseException:
        stop()
        skip()
        wait(len(begun))
        raise
    if errors:
        raise errors[0]
    return results


@dataclass(frozen=True)
class _Outside:
    """A handler that is delayed while a function with one of these codes runs.

    If such a function runs, its outermost caller without such a code is traced, and the handler runs at the
    caller's next line. If a debugger traces already, the signal is sent again a little later.
    """

    handler: Any
    codes: Set[CodeType]

    def __call__(self, number: int, frame: Any) -> None:
        # The outermost frame with one of the codes.
        inside = None
        walked = frame
        while walked is not None:
            inside = walked if walked.f_code in self.codes else inside
            walked = walked.f_back
        if inside is None:
            self.handler(number, frame)
        elif inside.f_back is None or sys.gettrace() is not None:
            _thread.start_new_thread(_again, (number,))
        else:
            caller = inside.f_back

            def at_next_line(frame: Any, event: str, argument: Any) -> None:
                sys.settrace(None)
                caller.f_trace = None
                self.handler(number, frame)

            caller.f_trace = at_next_line
            sys.settrace(lambda *_: None)


def _again(number: int) -> None:
    """Send a signal to the main thread again, after a while."""
    time.sleep(SOON)
    _thread.interrupt_main(number)  # type: ignore[arg-type]  # which takes any number of a signal


@contextmanager
def outside_of(codes: Set[CodeType]) -> Iterator[None]:
    """Within, no handler of a signal runs while a function with one of these codes does.

    For operators on entries of arrays: NumPy goes on after an error in one of them, and releases results
    twice, so that Python crashes later. Beginnings and ends of context managers are not broken off either:
    what these change, they change back.
    """
    replaced: dict[int, _Outside] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler) and type(handler) is not _Outside:
                    replaced[number] = _Outside(handler, _MANAGING | codes)
                    _signal.signal(number, replaced[number])
        yield
    finally:
        _restore(replaced)


def _restore(replaced: dict[int, _Outside]) -> None:
    """Install handlers again; all of them, even if one runs meanwhile and raises an error."""
    raised = None
    while True:
        try:
            for number, ours in replaced.items():
                if _signal.getsignal(number) is ours:
                    _signal.signal(number, ours.handler)
            break
        except BaseException as error:
            raised = error
    if raised:
        raise raised


_SIGNALS = sorted(_signal.valid_signals())
# The class of context managers that `contextmanager` makes. It has no public name, so an instance tells it;
# `outside_of` does not run before the instance is entered.
_manager: Any = type(outside_of(frozenset()))
_MANAGING = frozenset(
    f.__code__ for f in (_manager.__enter__, _manager.__exit__, inspect.unwrap(outside_of), _restore)
)


def _install_again() -> None:
    """In a forked process: install replaced handlers again; the thread that would do so is missing."""
    handlers = {number: _signal.getsignal(number) for number in _SIGNALS}
    _restore({number: ours for number, ours in handlers.items() if type(ours) is _Outside})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_install_again)
