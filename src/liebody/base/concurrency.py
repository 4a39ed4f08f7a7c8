"""Sharing between threads and processes: values made once, locks, buffers for one call each, pickles."""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_locks: dict[tuple[int, Any], Any] = {}  # locks in use, by the object and the name of the value in the making
undivided = threading.RLock()
"""No process is forked while another thread has this lock, as in an import: the child would wait for ever"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # a thread that holds one does not exist in the child
    os.register_at_fork(
        before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release
    )


def lock_of(owner: object, name: Any) -> Any:
    """The lock under which one thread at a time makes an object's value of this name.

        with lock_of(owner, name):
            if name not in there:
                ...
            unlock(owner, name)

    In a process that is forked meanwhile all locks are free.
    """
    return _locks.setdefault((id(owner), name), threading.RLock())


def unlock(owner: object, name: Any) -> None:
    """Forget the lock after the value was made; threads that wait for it will find the value."""
    _locks.pop((id(owner), name), None)


if TYPE_CHECKING:
    from functools import cached_property
else:
    _Lock = type(undivided)

    class cached_property(functools.cached_property):
        """`functools.cached_property`, with a lock for each object.

        Python 3.11 has one lock for all objects of a class: a slow value keeps all others waiting, and a
        process that is forked meanwhile never gets the lock. Later versions have no lock: threads make the
        same value several times, and each keeps a different one.
        """

        def __get__(self, owner, kind=None):
            if owner is None:
                return self
            values = owner.__dict__
            name = self.attrname
            place = id(owner), name
            with _locks.setdefault(place, _Lock()):  # as `lock_of`, in half of its time: this happens often
                try:
                    if name not in values:
                        values[name] = self.func(owner)
                    return values[name]
                finally:
                    _locks.pop(place, None)


class Sendable:
    """An object that is pickled without the values of its cached properties, such as compiled functions."""

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        return {
            n: x for n, x in vars(self).items() if not isinstance(getattr(kind, n, None), cached_property)
        }


class Spare(list[T]):
    """Buffers that calls write into, one for each call that runs at the same time.

        try:
            buffer = spare.pop()
        except IndexError:  # all are in use
            buffer = Buffer()
        ...
        spare.append(buffer)  # not after an error, which may have left anything in it

    Two threads never get the same one, because `pop` takes it out in one operation.
    """
