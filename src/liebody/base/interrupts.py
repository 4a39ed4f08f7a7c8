"""Signals during long calls: Python's handlers run meanwhile, and an exception in one ends the call.

Python runs handlers in its main thread, between two instructions of Python. Two places need care: loops
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
from functools import partial
from operator import methodcaller
from types import CodeType
from typing import Any, Self

from .concurrency import Spare

SOON = 1e-3  # seconds until a handler is tried again, or threads that have ended are gone
IDLE = 1.0  # seconds after which a thread that has no work ends


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
    def of_this_thread(cls) -> Self | None:
        """For loops of this thread, and of others that help it; None if it is not the main thread.

        Loops of other threads may ask for handlers, too: Python runs them in the main thread only.
        """
        if threading.current_thread() is not threading.main_thread():
            return None
        return cls(*_FUNCTIONS)

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


class _Worker:
    """A thread that waits for work, and ends when it has had none for a while.

    To start a thread takes longer than a step of many ensembles, so calls use the same threads again. A call
    takes a worker out of `_idle`, sets `work` and releases `wake`; the worker goes back to `_idle` itself.
    """

    __slots__ = ("ended", "wake", "work")

    def __init__(self) -> None:
        self.work: Callable[[], object] | None = None
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.ended = _thread.allocate_lock()
        self.ended.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        while True:
            if not self.wake.acquire(timeout=IDLE):
                try:
                    _idle.remove(self)
                except ValueError:  # a call has taken it meanwhile, and wakes it
                    self.wake.acquire()
                else:
                    break
            work, self.work = self.work, None
            if work is None:
                break
            work()
            del work  # it would keep arrays alive until the next call
        self.ended.release()


_idle: Spare[_Worker] = Spare()
_release = methodcaller("release")  # a function of C, between whose calls no handler runs


def _dismiss() -> None:
    """End all idle threads: a process that is forked has none, and Python warns of forks beside threads."""
    dismissed = []
    while _idle:
        try:
            worker = _idle.pop()
        except IndexError:  # the last one has ended itself
            break
        worker.work = None  # a call that was broken off may have left some
        worker.wake.release()
        dismissed.append(worker)
    for worker in dismissed:
        worker.ended.acquire()
    if dismissed:
        time.sleep(SOON)  # until the system, whose threads Python counts before it warns, has ended them, too


class _Call:
    """The items of one call of `in_threads`, which its thread and its helpers take one after the other.

    errors  of the function in helpers
    """

    def __init__(
        self, function: Callable[[Any], Any], items: Iterable[Any], threads: int, here: bool
    ) -> None:
        self._function = function
        self._items = list(items)
        self.results: list[Any] = [None] * len(self._items)
        self.errors: list[BaseException] = []
        # Threads take numbers from one iterator, whose steps no other thread can interrupt.
        self._left = iter(range(len(self._items)))
        self.helpers = max(min(threads, len(self._items)) - here, 0)
        # A lock for each helper, which it holds until it has done its part: `wait` waits for these.
        self._over = [False] * self.helpers
        self._ends = [_thread.allocate_lock() for _ in range(self.helpers)]
        for end in self._ends:
            end.acquire()

    def take(self) -> None:
        """Take items until there are none."""
        for k in self._left:
            self.results[k] = self._function(self._items[k])

    def help_out(self, number: int, worker: _Worker) -> None:
        """The part of a helper, whose worker is idle after it."""
        try:
            self.take()
        except BaseException as error:
            self.errors.append(error)
            self.skip()
        finally:
            _idle.append(worker)
            self._over[number] = True
            self._ends[number].release()

    def skip(self) -> None:
        """Leave out the items that have not begun."""
        for _ in self._left:
            pass

    def wait(self, woken: int) -> None:
        """Wait for the helpers that were woken."""
        for k in range(woken):
            if not self._over[k]:
                self._ends[k].acquire()


def in_threads(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    threads: int,
    stop: Callable[[], object] = lambda: None,
    *,
    here: bool = True,
) -> list[Any]:
    """Map a function over items in several threads, of which this one is the first.

    here  whether this thread is one of them. In the main thread a signal handler may break the function off
          at any place; in others it cannot

    Raises the first error of the function. If a signal handler raises in the main thread meanwhile, or the
    function in this thread, `stop` is called, items that have not begun are left out, and the exception is
    raised when all threads have ended.
    """
    call = _Call(function, items, threads, here)
    workers: list[_Worker] = []
    # `extend` over `map` wakes all helpers in one call of C, before or behind which a handler may run, but
    # not within: so `woken` lists exactly the helpers that were woken.
    woken: list[None] = []
    try:
        for k in range(call.helpers):
            try:
                workers.append(_idle.pop())
            except IndexError:  # all are at work
                workers.append(_Worker())
            workers[k].work = partial(call.help_out, k, workers[k])
        woken.extend(map(_release, [worker.wake for worker in workers]))
        if here:
            call.take()
        call.wait(call.helpers)
    except BaseException:
        stop()
        call.skip()
        call.wait(len(woken))
        if not woken:
            _idle.extend(workers)
        raise
    if call.errors:
        raise call.errors[0]
    return call.results


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

    def remove(self, number: int) -> None:
        """Install the delayed handler again, unless another one has been installed meanwhile."""
        if _signal.getsignal(number) is self:
            _signal.signal(number, self.handler)


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
    if threading.current_thread() is threading.main_thread():
        found = {number: _signal.getsignal(number) for number in _SIGNALS}
        replaced = {
            number: _Outside(handler, _MANAGING | codes)
            for number, handler in found.items()
            if callable(handler) and type(handler) is not _Outside
        }
    try:
        # No condition ends this loop's body, nor that of `_restore`: Python's table of exceptions omits the
        # jump from a condition to the loop's beginning, where a handler may run. Its exception would leave
        # the function without `finally`.
        for number, ours in replaced.items():
            _signal.signal(number, ours)
        yield
    finally:
        _restore(replaced)


def _restore(replaced: dict[int, _Outside]) -> None:
    """Install handlers again; all of them, even if one runs meanwhile and raises an error."""
    raised = None
    while True:
        try:
            for number, ours in replaced.items():
                ours.remove(number)
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
    f.__code__
    for f in (_manager.__enter__, _manager.__exit__, inspect.unwrap(outside_of), _restore, _Outside.remove)
)


def _install_again() -> None:
    """In a forked process: install replaced handlers again; the thread that would do so is missing."""
    handlers = {number: _signal.getsignal(number) for number in _SIGNALS}
    _restore({number: ours for number, ours in handlers.items() if type(ours) is _Outside})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_install_again)
    os.register_at_fork(before=_dismiss, after_in_child=_idle.clear)
