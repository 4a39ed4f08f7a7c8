"""Signals at random instants of long calls: what a handler raises comes out, at once, and as it was raised.

A case makes a call and lets a timer send a signal meanwhile, whose handler raises an exception or does
nothing. In the first case the exception has to come out of the call; in the second the call has to end as if
there had been no signal. Handlers, and the search for garbage, are as they were; the next call has the result
of a call that nobody disturbed.
"""

from __future__ import annotations

import functools
import gc
import itertools
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import threads
from campaign import main

import liebody as lb
from liebody import gaits
from liebody.compiler import Kernel, trace
from liebody.compiler.native import build
from liebody.groups import SO3

PATIENCE = 2.0  # seconds within which an exception has to come out, on a machine that does other things, too
TIMERS = {signal.SIGALRM: signal.ITIMER_REAL, signal.SIGVTALRM: signal.ITIMER_VIRTUAL}
ROBOT = lb.models.double_pendulum()


class Late(TimeoutError):
    """As programs raise it that limit the time of a call; an OSError."""


class Wrong(ValueError):
    """As an error of liebody is one."""


class Over(Exception):
    """Any other."""


class Quit(BaseException):
    """What is no Exception."""


def raises(kind: type[BaseException]) -> Callable[[int, Any], None]:
    def handler(number: int, frame: Any) -> None:
        raise kind("a signal")

    return handler


HANDLERS: dict[type[BaseException], Callable[[int, Any], Any]] = {
    **{kind: raises(kind) for kind in (Late, Wrong, Over, Quit)},
    SystemExit: lambda *_: sys.exit(3),
    KeyboardInterrupt: signal.default_int_handler,
}

# -- long calls, made short ---------------------------------------------------------------------------------


def simulated(**options: Any) -> Callable[[], Any]:
    chosen = {"t_end": 0.5, "dt": 1e-4, "record_every": 0.5, **options}
    start = np.linspace([1.0, 0.5], [1.1, 0.5], chosen.pop("members", 1))

    def call() -> Any:
        run = lb.simulate(ROBOT, start, **chosen)
        return run.q, run.v

    return call


def feedback(t: Any, q: Any, v: Any) -> Any:
    return ROBOT.gravity(q) - 3.0 * v


def level(t: Any, q: Any, v: Any) -> Any:
    return q[0] - 100.0


@functools.cache
def simulations() -> dict[str, Callable[[], Any]]:
    own = {"method": "rkmk45", "rtol": 1e-10, "dt": None}
    return {
        "steps of one length": simulated(),
        "an ensemble": simulated(members=20),
        "an ensemble in threads": simulated(members=20, threads=2),
        "error control": simulated(**own),
        "error control in threads": simulated(**own, members=12, threads=2),
        "generalized-alpha": simulated(method="generalized-alpha", dt=1e-3),
        "radau5": simulated(method="radau5", dt=None),
        "events": simulated(events={"level": level}),
        "feedback": simulated(tau=feedback),
    }


@functools.cache
def hybrid() -> Callable[[], Any]:
    system = threads.bouncing_ball()
    return lambda: system.simulate([[0.5], [1.0]], t_end=2.0, dt=1e-4, record_every=1.0).q


@functools.cache
def time_stepping() -> Callable[[], Any]:
    foot = lb.contact.Contact("foot", stiffness=1e4, damping=1e2, friction=0.8)
    system, q = lb.contact.TimeStepping(threads.leg(), foot), np.array([0.0, 0.0, 0.23, -0.35, 0.7])
    return lambda: system.simulate(q, t_end=1.0, dt=1e-3, record_every=1.0).q


@functools.cache
def stepper() -> Callable[[], Any]:
    sim = lb.stepper(ROBOT, dt=1e-4)
    start = sim.start([1.0, 0.5])
    return lambda: sim.step(sim.step(start, [0.1, 0.2], steps=5000)).q


def solve_ivp() -> Any:
    def field(t: float, y: Any) -> Any:
        return np.array([np.sin(t), 1.0, 0.3 * t])

    return lb.solve_ivp(field, (0.0, 1.0), SO3.neutral(), SO3, method="rkmk45").q


def sensitivities() -> Any:
    found = lb.sensitivities(ROBOT, [0.3, 0.1], t_end=0.02, dt=1e-3)
    return found.tangents("q0").q, found.vjp(v=np.ones(found.run.v.shape)).q0


@functools.cache
def optimal_control() -> Callable[[], Any]:
    made = threads.problem()
    return lambda: made.solve([0.3, -0.2], knots=12, iterations=20).u


@functools.cache
def predictive_control() -> Callable[[], Any]:
    made = threads.problem()
    return lambda: made.mpc(8).simulate([0.3, -0.2], t_end=0.2).u


@functools.cache
def continuation() -> Callable[[], Any]:
    orbit = gaits.periodic_orbit(threads.oscillator(), [2.0], [0.1], period=6.5, dt=0.05)

    def call() -> Any:
        branch = gaits.continuation(orbit, "mu", step=0.02, bounds=(0.98, 1.0))
        return [x.period for x in branch.orbits]

    return call


def equations() -> Any:
    return lb.equations(lb.models.double_pendulum()).text("M", "C", "g")


def tip(q: Any) -> Any:
    return ROBOT.pose(q, ROBOT.tree.bodies[-1].name)


def inverse_kinematics() -> Any:
    name = ROBOT.tree.bodies[-1].name
    return lb.inverse_kinematics(ROBOT, {name: tip(np.array([0.3, 0.4]))}, restarts=2, rng=0).q


def squares(p: Any) -> dict[str, float]:
    return {"y": p["x"] ** 2}


def sweep() -> Any:
    """The standard library passes over errors of files in many places, so none of those is raised here."""
    folders.append(tempfile.mkdtemp(prefix="signals-"))
    found = lb.sweep(squares, {"x": np.arange(4.0)}, Path(folders[-1]) / "s.zarr", workers=0, chunk=1)
    return np.asarray(found["y"])


folders: list[str] = []  # that are removed after each case
new = itertools.count(1)
CHAIN = lb.models.planar_chain(5).tree


def first_trace() -> Any:
    """Products of arrays of symbols; NumPy does not take errors well within them."""
    chain = lb.Robot(CHAIN)
    return len(chain.kernel("forward_dynamics").function.nodes)


def first_compile() -> Any:
    """A kernel that there has never been; its value says whether it is right."""
    number = time.time_ns() + next(new)
    f = trace(lambda x: np.sin(x) * float(number) + np.cos(x) @ x, {"x": 3}, "f")
    x = np.array([0.1, 0.2, 0.3])
    found = Kernel(f)(x) / (np.sin(x) * float(number) + np.cos(x) @ x)
    return np.round(found, 12)


CALLS: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: simulations()[name]() for name in simulations()},
    **{f.__name__: lambda f=f: f()() for f in (hybrid, time_stepping, stepper)},
    **{f.__name__: lambda f=f: f()() for f in (optimal_control, predictive_control, continuation)},
    **{f.__name__: f for f in (solve_ivp, sensitivities, equations, inverse_kinematics, sweep, first_trace)},
    **({"first_compile": first_compile} if build.find_compiler() else {}),
}

# -- cases --------------------------------------------------------------------------------------------------

undisturbed: dict[str, tuple[float, Any]] = {}


def alone(name: str) -> tuple[float, Any]:
    """The seconds that a call takes once everything is compiled, and its result."""
    if name not in undisturbed:
        CALLS[name]()
        begin = time.perf_counter()
        result = CALLS[name]()
        undisturbed[name] = time.perf_counter() - begin, result
    return undisturbed[name]


def attack(name: str, kind: type[BaseException] | None, number: int, when: float) -> None:
    """Make a call in which a signal is sent after `when` seconds, and its handler raises such an error."""
    came: list[float] = []
    over = True  # signals that come before the call, or behind it, are of another one
    raising = HANDLERS[kind] if kind else lambda *_: None

    def handler(sent: int, frame: Any) -> None:
        if not over and not came:  # one of the case before may come late
            came.append(time.perf_counter())
            raising(sent, frame)

    collecting, before = gc.isenabled(), {n: signal.getsignal(n) for n in signal.valid_signals()}
    old, error = signal.signal(number, handler), None
    hook, sys.unraisablehook = sys.unraisablehook, not_raised
    try:
        over = False
        signal.setitimer(TIMERS[number], when)
        result = CALLS[name]()
        over = True
    except BaseException as caught:
        error, ended, over = caught, time.perf_counter(), True
    signal.setitimer(TIMERS[number], 0)
    sys.unraisablehook = hook
    installed = signal.signal(number, old)
    assert installed is handler, "another handler is there"
    assert {n: signal.getsignal(n) for n in signal.valid_signals()} == before, "handlers have changed"
    words = told(error)
    if error is not None:
        error = error.with_traceback(None)  # whose frames hold context managers that have not ended
    assert gc.isenabled() == collecting, f"garbage is not searched for any more: {words}"
    if swallowed and error is None:
        swallowed.clear()
    elif kind is not None and came:
        assert error is not None, f"the {kind.__name__} has been swallowed"
        elsewhere = isinstance(error.__context__, kind) and "liebody" not in words.split("File")[-1]
        assert type(error) is kind or elsewhere, f"{kind.__name__} came out as {words}"
        assert ended - came[0] < PATIENCE, f"it took {ended - came[0]:.1f} s"
    else:
        assert error is None, f"without need there was {words}"
        assert threads.same(result, alone(name)[1]), "another result"


swallowed: list[Any] = []


def not_raised(found: Any) -> None:
    """Python does not raise what a handler raises in callbacks of weak references and garbage collection."""
    weak = getattr(found.object, "__module__", None) in ("_weakrefset", "weakref")
    if weak or found.object in gc.callbacks:
        swallowed.append(found.exc_type)
    else:
        sys.__unraisablehook__(found)


# `elsewhere`: clauses of the standard library for a ValueError take a handler's for their own
def told(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error, limit=-6)) if error else ""


def case(random: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = random.choice(list(CALLS))
        seconds, expected = alone(name)
        kinds = [x for x in HANDLERS if name != "sweep" or not issubclass(x, OSError)]
        kind = random.choice([*kinds, None])
        try:
            attack(name, kind, random.choice(list(TIMERS)), max(1e-6, random.random() * 1.1 * seconds))
            if random.random() < 0.2:
                assert threads.same(CALLS[name](), expected), "afterwards the result is another one"
        except AssertionError as error:
            raise AssertionError(f"{name}, {kind}: {error}") from None
        finally:
            while folders:
                shutil.rmtree(folders.pop(), ignore_errors=True)


if __name__ == "__main__":
    main(case)
