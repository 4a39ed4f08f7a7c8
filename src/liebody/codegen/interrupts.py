"""Ctrl-C while compiled loops run, in which Python cannot raise anything."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without enumerations, which take 10 us a call
import ctypes
import threading
from typing import Any

_MAIN = threading.main_thread().ident
_pressed = False
_asked = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: _pressed)  # its call lets the main thread handle signals
_ADDRESS = ctypes.cast(_asked, ctypes.c_void_p).value


def _press(number: int, frame: Any) -> None:
    global _pressed
    if _pressed:  # a second time: of Python code that was called meanwhile
        raise KeyboardInterrupt
    _pressed = True


class Deferred:
    """Within, Ctrl-C raises nothing: a loop in C that asks ends where it is, and KeyboardInterrupt follows.

        with Deferred() as asked: ...

    asked  address of what such a loop calls, `int asked(void)`; None where Ctrl-C is handled otherwise: by
           another handler than Python's own, or because this is not the main thread
    """

    def __enter__(self) -> int | None:
        global _pressed
        main = threading.get_ident() == _MAIN
        self.ours = main and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        if not self.ours:
            return None
        _pressed = False
        _signal.signal(_signal.SIGINT, _press)
        return _ADDRESS

    def __exit__(self, *_: object) -> None:
        if self.ours:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            if _pressed:
                raise KeyboardInterrupt
