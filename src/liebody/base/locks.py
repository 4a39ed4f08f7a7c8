"""Locks of open files, which end with the process that holds them: by flock, or on Windows by LockFileEx."""

from __future__ import annotations

import ctypes

from .errors import pass_on_signals

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

FOLDERS = fcntl is not None  # whether folders can be opened and locked, as files


def lock(handle: int, wait: bool = False, shared: bool = False) -> bool:
    """Lock an open file, or folder where FOLDERS, until it is closed; returns whether that succeeded.

    wait    for processes that hold the lock; without it they are the reason for False
    shared  with others that share it
    """
    if fcntl is None:
        return _lock_of_windows(handle, (0 if wait else 1) | (0 if shared else 2))
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        pass_on_signals(error)
        return False
    return True


def _lock_of_windows(handle: int, flags: int) -> bool:
    """LockFileEx of one byte at 0; its flags are FAIL_IMMEDIATELY (1) and EXCLUSIVE_LOCK (2)."""
    import msvcrt

    file = ctypes.c_void_p(msvcrt.get_osfhandle(handle))  # type: ignore[attr-defined]
    overlapped = (ctypes.c_uint64 * 4)()  # a structure OVERLAPPED of zeros
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    return bool(kernel32.LockFileEx(file, flags, 0, 1, 0, overlapped))
