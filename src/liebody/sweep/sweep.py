"""The call `sweep`: it cuts a grid into chunks, has them run, and records their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arguments import checked, names
from ..base.errors import SweepError, require, warn
from ..base.progress import Progress
from ..base.public import version
from ..base.texts import path_of
from ..hybrid import HybridSystem
from ..mechanisms import Mechanism
from ..robot import Robot
from . import identity as identities
from . import workers as crews
from .inventory import repair, verify
from .runs import Simulation, UserFunction
from .space import Sample, Space
from .store import Failure, Outcome, Store, definition, open_store

if TYPE_CHECKING:
    import xarray
    from distributed import Client

REPORTED = 3  # failing chunks that are reported at once; the others are counted at the end


class FailedChunks(UserWarning):
    """Some chunks of a sweep failed; the others went on."""


@partial(checked, but=("run", "chunk", "workers"))
def sweep(
    run: Callable[..., Any] | HybridSystem | Robot | Mechanism,
    axes: Mapping[str, Any] | Sample,
    store: str | os.PathLike[str],
    *,
    outputs: str | Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
    units: Mapping[str, str] | None = None,
    chunk: int | None = None,
    workers: int | None = None,
    client: Client | None = None,
    resume: bool = True,
    progress: bool | None = None,
    identity: str | None = None,
    **options: Any,
) -> xarray.Dataset:
    """Run a function or a system at each point of a grid or a sample, and keep the results in a store.

        ds = lb.sweep(run, {"length": np.linspace(0.5, 2, 64), "angle": np.linspace(0, 3, 128)}, "p.zarr")

    run       a function (parameters, **options) -> {name: values}: parameters is a dictionary of arrays
              (n, ...) of the n members of a chunk, and each of the values has one row for each member. The
              values "cause" (text, "" where all is well) and "end_time" tell which members ended early. Or a
              HybridSystem, Robot or Mechanism; each chunk is then an ensemble
    axes      {name: values (k,)}, a grid, or a Sample (`lb.sample`); numbers are constants. For a system, a
              name is a parameter, also of a robot (`robot.parameters`), a gain that `tau(t, q, v, p)` reads,
              or stands for entries of q0 and v0
    store     folder of the results, a Zarr store with the axes as named dimensions
    outputs   name or names of the results to keep, or {name: names of its axes}; default: all
    coords    values along such axes, {axis: values}
    units     of parameters and results, {name: unit}
    chunk     members of a chunk at most; default: 512, less where there would be fewer than 16 chunks
    workers   processes; default: one for each processor. 0: this process
    client    a `dask.distributed.Client`: its cluster runs the chunks, instead of processes of this machine
    resume    continue a sweep that the store holds; False: refuse a store that exists
    progress  whether to show a bar with the time that remains; default: on a terminal, when it takes long
    identity  text that stands for the function; default: digests of its code and of all it uses
    options   passed on to a function; for a system, options of `simulate`, where entries of q0 and v0 may be
              names of parameters, `q0=["angle", 0]`, or they are functions (parameters) -> (n, size)

    returns   the store as an xarray Dataset, read when it is used: the results, and for each member `status`
              (0 not run, 1 done, 2 ended early, 3 failed) and `cause`; of systems also `end_time`

    A chunk is written by this process when it is done, at once and for good: after a kill, of workers or of
    this process, the same call runs the chunks that are missing, and only these. The store is the same, bit
    for bit, after any kill and with any workers, if the function gives the same for the same chunk, as
    systems do on processors of one kind. The size of the chunks is part of the definition.

    A chunk whose function raises is marked as failed, with a FailedChunks warning; the others go on, and the
    next call tries it again.

    Everything in the store has a checksum. Damaged files are made again, and named in a DamagedStore warning;
    `lb.sweep.verify(store)` only lists them, `lb.sweep.repair(store)` restores them without running chunks.

    Errors: SweepError for a store of another sweep, for units of unknown names, and where no chunk succeeds;
    ShapeError for axes that cannot be.
    """
    # The function is long by its text.
    require("sweeps", "xarray", "zarr", "cloudpickle", extra="sweep")
    # 1. the chunks, and the task that runs one of them
    space = Space(axes, chunk)
    wanted = outputs if outputs is None or isinstance(outputs, Mapping) else dict.fromkeys(names(outputs), ())
    if workers is not None and (not isinstance(workers, (int, np.integer)) or workers < 0):
        raise SweepError(f"workers is {workers!r}, expected a number of processes, or 0 for this one")
    task: UserFunction | Simulation
    if isinstance(run, (HybridSystem, Robot, Mechanism)):
        # workers of a cluster have a thread each; those of this machine share its processors
        task = Simulation(run, space.coordinates, wanted, options, None if client is None else 1)
    elif callable(run):
        task = UserFunction(run, wanted, coords, options)
    else:
        raise SweepError(f"run is {run!r}, expected a function, a HybridSystem, a Robot or a Mechanism")
    parts = identities.parts(run, {**options, "coords": coords}) if identity is None else {"run": identity}

    # 2. the store, which refuses another sweep, another process, and damage that it cannot undo
    path = path_of("store", store, SweepError)
    held = Store(path, space, definition(task.name, parts, space, wanted, liebody=version()), units or {})
    try:
        if held.arrays and not resume:
            raise SweepError(f"{path} holds results of this sweep; continue with resume=True, or remove it")
        # 3. the chunks that are missing, run where the caller wants, recorded as they end
        chunks = held.left()
        if not chunks:
            return open_store(path)
        if client is not None:
            outcomes = crews.on_a_cluster(task, chunks, space.parameters, client)
        elif workers == 0:
            outcomes = crews.in_this_process(task, chunks, space.parameters)
        else:
            number = min(workers or os.cpu_count() or 1, len(chunks))
            outcomes = crews.on_this_machine(task, chunks, space.parameters, number)
        _collect(held, outcomes, chunks, progress)
        failures = held.failures()
        if not held.arrays:
            k = min(failures)
            raise SweepError(
                f"no chunk of the sweep of {task.name} succeeded; the first one, {space.words(k)}: "
                f"{failures[k]}"
            )
    finally:
        held.close()
    if failures:
        members = sum(int(np.prod(space.members(k))) for k in failures)
        k = min(failures)
        warn(
            f"{len(failures)} of {len(space)} chunks failed ({members} of {space.size} members; status 3 in "
            f"{path}), the first one at {space.words(k)}: {failures[k]}. The same call tries them again",
            FailedChunks,
        )
    return open_store(path)


sweep.verify = verify  # type: ignore[attr-defined]
sweep.repair = repair  # type: ignore[attr-defined]


def _collect(
    held: Store, outcomes: Generator[tuple[int, Outcome]], chunks: Sequence[int], progress: bool | None
) -> None:
    """Record outcomes as they come."""
    space = held.space
    failed = 0
    done = space.size - sum(int(np.prod(space.members(k))) for k in chunks)
    with closing(outcomes), Progress(progress, space.size, initial=done, unit=" runs") as bar:
        for k, outcome in outcomes:
            # a hopeless failure ends the sweep; the first few others are reported as they come
            if isinstance(outcome, Failure):
                failed += 1
                if outcome.hopeless:
                    raise SweepError(outcome.cause)
                if failed <= REPORTED:
                    text = (
                        f"chunk {k} failed, {space.words(k)}: {outcome.cause}\n{outcome.traceback}".rstrip()
                    )
                    warn(text, FailedChunks)
            held.record(k, outcome)
            done += int(np.prod(space.members(k)))
            bar.at(done)
