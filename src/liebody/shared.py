"""What threads and forked processes share: values that are made once, locks, buffers for one call each."""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_locks: dict[tuple[int, Any], Any] = {}  # that are in use, by the object and the name of what is made
undivided = threading.RLock()
"""No process is forked while another thread has this lock, as in an import: the child would wait for ever"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # a thread that holds one does not exist in the child
    os.register_at_fork(
        before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release
    )


def lock_of(owner: object, name: Any) -> Any:
    """The lock under which one thread at a time makes what an object has under this name.

        with lock_of(owner, name):
            if name not in there:
                ...
            unlock(owner, name)

    A process that is forked meanwhile has locks of its own, all of them free.
    """
    return _locks.setdefault((id(owner), name), threading.RLock())


def unlock(owner: object, name: Any) -> None:
    """Forget the lock, because what was to be made is there: who waits for it will find that."""
    _locks.pop((id(owner), name), None)


if TYPE_CHECKING:
    from functools import cached_property
else:
    _Lock = type(undivided)

    class cached_property(functools.cached_property):
        """`functools.cached_property`, with a lock for each object.

        Python 3.11 has one for all objects of a class: one that takes long to be made keeps all others
        waiting, and in a process that is forked meanwhile nobody gets it again. Later versions have none:
        threads make the same thing several times, and each has its own.
        """

        def __get__(self, owner, kind=None):
            if owner is None:
                return self
            values, name = owner.__dict__, self.attrname
            place = id(owner), name
            with _locks.setdefault(place, _Lock()):  # as `lock_of`, in half of its time: this happens often
                try:
                    if name not in values:
                        values[name] = self.func(owner)
                    return values[name]
                finally:
                    _locks.pop(place, None)


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
