"""Who runs the chunks: this process, a pool of processes on this machine, or a Dask cluster.

Each of the three is a generator of (chunk, outcome) in the order in which chunks end; an outcome is `Results`
or a `Failure`. If a worker is killed, the chunk it was working on is run again.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without enumerations, which take 10 us a call
import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from ..base.errors import SweepError, handlers_of, pass_on_signals, suppress
from ..base.texts import shown, words_of
from .store import Failure, Outcome, Results, WrongResults

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from distributed import Client

Parameters = Callable[[int], dict[str, Any]]
DEATHS = 6  # of workers at one chunk, until it is given up
IMPATIENCE = 1.0  # seconds between two looks at workers whose end was not told
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def attempt(
    run: Callable[[Any], Results],
    parameters: dict[str, Any],
    caught: tuple[type[BaseException], ...] = (BaseException,),
) -> Outcome:
    """The results of a chunk, or the error; but not of a handler of a signal that was there before.

    caught  errors that count as the function's. In a worker these are all: Ctrl-C is for the parent, and
            nobody else would report an error there
    """
    handlers = {_code_of(_signal.getsignal(number)) for number in _signal.valid_signals()}
    try:
        return run(parameters)
    except caught as error:
        if handlers_of(error) & handlers:
            raise
        return Failure(words_of(error), _trace_of(error), isinstance(error, WrongResults))


def _trace_of(error: BaseException) -> str:
    """The traceback of an exception as text; "" for one of which none can be made."""
    try:
        return shown("".join(traceback.format_exception(error)), breaks=True)
    except BaseException:  # a user's class may raise anything where it is looked at
        return ""


def _code_of(handler: Any) -> Any:
    """The code that runs for a signal; None where it is not of Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 - of an object that can be called
    return getattr(handler, "__code__", None)


def in_this_process(
    run: Callable[[Any], Results], chunks: Sequence[int], parameters: Parameters
) -> Generator[tuple[int, Outcome]]:
    """Run one chunk after the other. Ctrl-C, and anything that is no error of the function, ends it."""
    for k in chunks:
        yield k, attempt(run, parameters(k), (Exception, SystemExit))


# -- processes of this machine ----------------------------------------------------------------------------


class _Worker:
    """A process that runs chunks, and the chunk it is at.

    It is a new interpreter that knows the function from its pickle: it does not import the user's script, and
    shares no locks with this process, as a fork would. It ends when its standard input does: with its parent.
    """

    def __init__(self, threads: int) -> None:
        from multiprocessing.connection import Pipe

        self.chunk: int | None = None
        self.stage = "starting"  # and then "loading", "ready"
        # the other end of the pipe goes to the child by its number; here it is closed
        self.pipe, theirs = Pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from liebody.sweep.workers import serve; "
        self.process = subprocess.Popen(
            [sys.executable, "-c", code + f"serve({theirs.fileno()}, {threads})"],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env={**dict.fromkeys(SINGLE, "1"), **os.environ, "LIEBODY_PROGRESS": "off"},
        )
        theirs.close()

    def send(self, message: Any) -> None:
        """Send it a message; that a worker is dead is noticed when its answer is read."""
        with suppress(OSError):
            self.pipe.send(message)

    def hear(self) -> Any:
        """Its message; EOFError if it died."""
        try:
            return self.pipe.recv()
        except OSError as error:
            pass_on_signals(error)
            raise EOFError from error

    def end(self) -> str:
        """Kill it; in words, how it ended."""
        self.process.kill()
        code = self.process.wait()
        self.pipe.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def on_this_machine(
    run: Callable[[Any], Results], chunks: Sequence[int], parameters: Parameters, workers: int
) -> Generator[tuple[int, Outcome]]:
    """Run chunks by a pool of processes, which are replaced when they die.

    The loop is long because it answers each stage of a worker's life: starting, loading, ready, dead.
    """
    from multiprocessing.connection import wait

    payload = pickled(run)
    todo = deque(chunks)
    deaths = Counter[int]()
    stillborn = 0
    threads = max(1, (os.cpu_count() or 1) // workers)
    pool: list[_Worker] = []

    def give(worker: _Worker) -> None:
        worker.chunk = todo.popleft() if todo else None
        if worker.chunk is not None:
            worker.send(parameters(worker.chunk))

    try:
        while todo or any(worker.chunk is not None for worker in pool):
            # chunks that came back from dead workers go to those that wait
            for worker in pool:
                if worker.stage == "ready" and worker.chunk is None:
                    give(worker)
            # no more workers than chunks that are left
            busy = sum(worker.chunk is not None for worker in pool)
            while len(pool) < min(workers, busy + len(todo)):
                pool.append(_Worker(threads))
            heard = wait([worker.pipe for worker in pool], IMPATIENCE)
            for worker in list(pool):
                if worker.pipe not in heard and worker.process.poll() is None:
                    continue
                # a dead worker may have sent its result before; only an empty pipe means that it is lost
                try:
                    if worker.process.poll() is not None and not worker.pipe.poll():
                        raise EOFError
                    message = worker.hear()
                except EOFError:
                    pool.remove(worker)
                    how = worker.end()
                    k = worker.chunk
                    # workers that never become ready have no chunk to blame: give up after a few
                    stillborn = 0 if worker.stage == "ready" else stillborn + 1
                    if stillborn > DEATHS:
                        raise SweepError(f"workers die when they start, the last one by {how}") from None
                    if k is not None:
                        deaths[k] += 1
                        if deaths[k] < DEATHS:
                            todo.append(k)
                        else:
                            yield k, Failure(f"{deaths[k]} workers died at it, the last one by {how}")
                    continue
                if worker.stage == "starting":
                    worker.stage = "loading"
                    worker.send(payload)
                    continue
                if worker.stage == "loading" and message:
                    raise SweepError(f"a worker cannot load the function: {message}")
                # the next chunk first, so that the worker computes while this process records
                k = worker.chunk
                worker.stage = "ready"
                give(worker)
                if k is not None:
                    yield k, message
    finally:
        for worker in pool:
            worker.end()


def serve(handle: int, threads: int) -> None:
    """Run chunks as a worker: the whole life of its process."""
    from multiprocessing.connection import Connection

    os.set_inheritable(handle, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.cpu_count = lambda: threads  # its share of the processor, as -X cpu_count of Python 3.13 sets it
    with contextlib.suppress(EOFError, ConnectionError):  # the parent is gone
        _converse(Connection(handle))


def _converse(pipe: Connection[Any, Any]) -> None:
    """Ask for the function, and then for one chunk after the other."""
    pipe.send("started")
    payload = pipe.recv()
    try:
        run = _loaded(payload)
    except BaseException as error:
        pass_on_signals(error)
        pipe.send(words_of(error))
        return
    pipe.send("")
    while True:
        pipe.send(attempt(run, pipe.recv()))


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


# -- a cluster --------------------------------------------------------------------------------------------


def on_a_cluster(
    run: Callable[[Any], Results], chunks: Sequence[int], parameters: Parameters, client: Client
) -> Generator[tuple[int, Outcome]]:
    """Run chunks by the workers of a Dask cluster; chunks that they lose are run again."""
    from distributed import as_completed

    payload = pickled(run)
    deaths = Counter[int]()

    def submit(k: int) -> Any:
        return client.submit(run_pickled, payload, parameters(k), pure=False)

    futures = {submit(k): k for k in chunks}
    completed = as_completed(futures)
    try:
        for future in completed:
            k = futures.pop(future)
            try:
                outcome = future.result()
            except Exception as error:  # not of the function, but of the cluster: KilledWorker, for one
                pass_on_signals(error)
                deaths[k] += 1
                if deaths[k] < DEATHS:
                    again = submit(k)
                    futures[again] = k
                    completed.add(again)
                    continue
                outcome = Failure(words_of(error))
            yield k, outcome
    finally:
        client.cancel(list(futures))


def run_pickled(payload: bytes, parameters: dict[str, Any]) -> Outcome:
    """Run a chunk in a worker of a cluster."""
    return attempt(lambda p: _loaded(payload)(p), parameters)


def pickled(run: Callable[[Any], Results]) -> bytes:
    """The function with all that it encloses, also from a notebook or a script."""
    import cloudpickle

    try:
        return cloudpickle.dumps(run)
    except Exception as error:
        pass_on_signals(error)
        raise SweepError(
            f"{getattr(run, 'name', run)} cannot be sent to other processes: {words_of(error)}. Let it make "
            "what cannot be pickled (files, locks, compiled kernels) itself, or take workers=0"
        ) from error


@functools.lru_cache(maxsize=4)
def _loaded(payload: bytes) -> Callable[[Any], Results]:
    import cloudpickle

    return cloudpickle.loads(payload)
