"""Compiled CUDA text: machine code from the cache or from NVRTC, and kernels that are loaded on devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.concurrency import lock_of, unlock
from ...base.errors import suppress
from ...base.progress import Waiting
from . import build, cache, nvrtc
from .driver import Driver

ENTRY = "kernel"  # the name of every kernel in its own translation unit
MOST_BLOCKS = (1 << 31) - 1  # of a grid along its first axis


class DeviceCode:
    """A translation unit of CUDA C++ with one kernel, compiled and loaded when it is first needed.

    name      in messages
    source    () -> its text, which is printed only if no cache has the machine code
    recipe    a text that determines the source; None: the source itself is the key of the cache
    fused     whether products and sums may become fused multiply-adds
    identity  further texts that determine the source, beside the recipe

    Threads may share it. The driver unloads the kernels of a `DeviceCode` that nobody holds any more.
    """

    def __init__(
        self, name: str, source: Callable[[], str], recipe: str | None, fused: bool, *identity: str
    ) -> None:
        self.name = name
        self.source = source
        self.recipe = recipe
        self.fused = fused
        self.identity = identity
        self._loaded: dict[int, Any] = {}  # kernels of the driver, by device

    def image(self, target: str) -> bytes:
        """The machine code for a target of NVRTC, such as "sm_90"."""
        identity = [target, str(self.fused), nvrtc.identity(), *self.identity]
        source = None if self.recipe else self.source()
        # a recipe determines the source, which then need not be printed
        key = (
            build.note("cuda", self.recipe, *identity)
            if self.recipe
            else build.digest(source or "", *identity)
        )
        image = cache.recall(key, ".cubin")
        if image is None:
            source = source or self.source()
            with Waiting(f"compiling {self.name} for {target}, {len(source) / 1e6:.1f} MB of CUDA"):
                image = nvrtc.compile_cuda(source, target, self.fused).code
            with suppress(OSError):  # a full disk: it is compiled again by the next process
                cache.store(key, ".cubin", image)
        return image

    def on(self, driver: Driver, device: int) -> Any:
        """The kernel, loaded on a device."""
        with lock_of(self, device):
            if device not in self._loaded:
                self._loaded[device] = driver.load(device, self.image(driver.target(device)), ENTRY)
            unlock(self, device)
        return self._loaded[device]
