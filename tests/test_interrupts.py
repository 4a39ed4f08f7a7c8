"""Ctrl-C and other signals: whatever runs ends at once, with what was reached or what a handler raises."""

import _thread
import contextlib
import dis
import gc
import inspect
import itertools
import os
import signal
import sys
import threading
import time
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from test_hybrid_systems import ball

import liebody as lb
from liebody.base import arguments, interrupts
from liebody.base.errors import IntegrationError, ShapeError, pass_on_signals
from liebody.compiler import trace
from liebody.compiler.native import build
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.groups import SO3, Revolute

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
PATIENCE = 0.3  # seconds that Ctrl-C may take


class Pressed:
    """Press Ctrl-C after a while; `waited` seconds go by until the block below has ended."""

    def __init__(self, after=0.3):
        self.after, self.at = after, None

    def __enter__(self):
        threading.Timer(self.after, self._press).start()
        return self

    def _press(self):
        self.at = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    def __exit__(self, kind, error, _):
        assert kind is KeyboardInterrupt, "it ended before"
        self.waited, self.run = time.perf_counter() - self.at, getattr(error, "run", None)
        return True


ROBOT = lb.models.double_pendulum()
LONG = {
    "one record": {"dt": 1e-5, "record_every": 1e6, "t_end": 1e6},
    "many records": {"dt": 1e-5, "record_every": 1.0, "t_end": 1e4},
    "implicit": {"dt": 1e-4, "method": "generalized-alpha", "t_end": 1e6},
    "error control": {"rtol": 1e-12, "method": "rkmk45", "record_every": 1e6, "t_end": 1e6},
    "events": {"dt": 1e-5, "events": {"up": lambda t, q, v: q[0] - 100}, "record_every": 1e6, "t_end": 1e6},
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("members", [0, 5])
@pytest.mark.many
def test_a_simulation_ends_at_once_and_says_what_was_reached(kind, members):
    options = LONG[kind]
    q0 = [1.0, 0.5] if not members else np.linspace([1.0, 0.5], [1.1, 0.5], members)
    short = {**options, "t_end": 10 * options.get("dt", 1e-3), "record_every": None}
    first = lb.simulate(ROBOT, q0, **short)  # compiled
    with Pressed() as ctrl_c:
        lb.simulate(ROBOT, q0, **options)
    assert ctrl_c.waited < PATIENCE * (1 if os.getloadavg()[0] < os.cpu_count() else 10)
    run = ctrl_c.run
    assert np.isfinite(run.q[..., 0, :]).all() and run.t[-1] < options["t_end"]
    if not members:
        assert run.t[-1] > 0.0 and np.isfinite(run.q).all() and (np.diff(run.t) > 0).all()
        if kind in ("many records", "one record"):  # it is the motion of a run as long
            steps = round(run.t[-1] / options["dt"])
            assert run.t[-1] == pytest.approx(steps * options["dt"], rel=1e-12)
            again = lb.simulate(ROBOT, q0, dt=options["dt"], t_end=run.t[-1], record_every=run.t[-1])
            np.testing.assert_allclose(again.q[-1], run.q[-1], rtol=0, atol=1e-6)
    assert first.q.shape[-1] == 2


def test_members_of_hybrid_systems_end_where_they_are():
    system = ball()
    options = {"record_every": 1e6, "limit": 2**50}
    system.simulate(np.array([[0.5], [1.0]]), t_end=0.1, record_every=0.1)
    with Pressed() as ctrl_c:
        system.simulate(np.array([[0.5], [1.0]]), t_end=1e9, **options)
    run = ctrl_c.run
    assert (run.ends == "interrupted").all() and (run.end_times < 1e9).all() and (run.end_times > 0).all()
    assert np.isfinite(run.final.q).all()


def test_members_that_have_not_begun_are_left_at_their_start():
    q0 = np.linspace([1.0, 0.5], [1.1, 0.5], 64)
    options = {"rtol": 1e-12, "method": "rkmk45", "threads": 2}
    lb.simulate(ROBOT, q0, t_end=0.01, **options)
    with Pressed(0.1) as ctrl_c:
        lb.simulate(ROBOT, q0, t_end=1e6, record_every=1e6, **options)
    assert (ctrl_c.run.q[:, 0] == q0).all() and ctrl_c.run.t.tolist() == [0.0]


def test_functions_that_are_called_can_be_interrupted():
    def tau(t, q, v):
        return np.array([float(np.sin(float(q[0]))), 0.0])

    with pytest.warns(lb.simulate.__globals__["CalledEfforts"]), Pressed() as ctrl_c:
        lb.simulate(ROBOT, [1.0, 0.5], dt=1e-5, t_end=1e5, tau=tau)
    assert ctrl_c.run is not None and ctrl_c.run.t[0] == 0


@pytest.mark.wide
def test_a_sweep_ends_at_once_and_keeps_what_is_done(tmp_path):
    def slow(p):
        time.sleep(0.05)
        return {"y": p["x"] ** 2}

    axes = {"x": np.arange(1000.0)}
    for workers in (0, 1):
        store = tmp_path / f"{workers}.zarr"
        with Pressed(4.0 if workers else 0.5) as ctrl_c:
            lb.sweep(slow, axes, store, chunk=1, workers=workers)
        assert ctrl_c.waited < 10 * PATIENCE
        assert lb.sweep.verify(store) == []
        assert len(list(store.glob("status/recorded/*"))) > 1


def test_pythons_own_handling_of_ctrl_c_comes_back():
    lb.simulate(ROBOT, [1.0, 0.5], dt=0.01, t_end=0.1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:  # a handler of the user's is left alone
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        lb.simulate(ROBOT, [1.0, 0.5], dt=1e-5, t_end=20.0, record_every=20.0)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("t_end", [2**63, 1e300])
def test_steps_below_the_round_off_of_the_end_are_refused(t_end):
    with pytest.raises(IntegrationError, match=r"dt = 0\.001 s is lost in the round-off of t_end"):
        lb.simulate(ROBOT, [1.0, 0.5], dt=1e-3, t_end=t_end)


# -- handlers of other signals ------------------------------------------------------------------------------


class Late(TimeoutError):
    """What programs raise that limit the time of a call; an OSError."""


def late(number, frame):
    raise Late("too late")


ALARM = getattr(signal, "SIGALRM", None)
with_alarms = pytest.mark.skipif(ALARM is None, reason="this system has no timers that send signals")


@contextlib.contextmanager
def handled(handler, after=None, number=ALARM):
    """A handler of a signal, which is sent after so many seconds."""
    old = signal.signal(number, handler)
    try:
        if after:
            signal.setitimer(signal.ITIMER_REAL, after)
        yield
    finally:
        if after:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, old)


@with_alarms
@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize(("members", "threads"), [(0, 1), (5, 1), (20, 2)])
@pytest.mark.many(3)
def test_what_a_handler_raises_ends_a_simulation_and_comes_out(kind, members, threads):
    q0 = [1.0, 0.5] if not members else np.linspace([1.0, 0.5], [1.1, 0.5], members)
    options = {**LONG[kind], "threads": threads}
    lb.simulate(ROBOT, q0, **{**options, "t_end": 10 * options.get("dt", 1e-3), "record_every": None})
    with handled(late, 0.1), pytest.raises(Late, match="too late"):
        lb.simulate(ROBOT, q0, **options)
    with handled(lambda *_: sys.exit(3), 0.1), pytest.raises(SystemExit) as raised:
        lb.simulate(ROBOT, q0, **options)
    assert raised.value.code == 3


@with_alarms
def test_hybrid_systems_and_many_steps_of_a_stepper_end_as_well():
    system, sim = ball(), lb.stepper(ROBOT, dt=1e-5)
    system.simulate([0.5], t_end=0.1, record_every=0.1)
    with handled(late, 0.1), pytest.raises(Late):
        system.simulate([0.5], t_end=1e9, record_every=1e9, limit=2**50)
    start = sim.start([1.0, 0.5])
    with handled(late, 0.1), pytest.raises(Late):
        sim.step(start, steps=10**12)
    assert (sim.step(start, steps=10).q == lb.stepper(ROBOT, dt=1e-5).step(start, steps=10).q).all()


@with_alarms
@pytest.mark.parametrize("threads", [1, 2])
def test_a_handler_that_raises_nothing_runs_at_once_and_the_motion_goes_on(threads):
    q0, options = np.linspace([1.0, 0.5], [1.1, 0.5], 20), {"dt": 1e-5, "t_end": 4.0, "record_every": 4.0}
    alone, times = lb.simulate(ROBOT, q0, **options), []
    with handled(lambda *_: times.append(time.perf_counter()), 0.01):
        run = lb.simulate(ROBOT, q0, **options, threads=threads)
        end = time.perf_counter()
    assert len(times) == 1 and times[0] < end and (run.q == alone.q).all()


@with_alarms
def test_the_end_of_a_compile_by_a_handler_leaves_no_compiler_behind():
    sys.path.insert(0, str(Path(__file__).parent / "fuzz"))
    import signals

    me = psutil.Process()
    for after in (0.01, 0.03, 0.06):
        with handled(late, after), pytest.raises(Late):
            for _ in range(50):
                signals.first_compile()
        assert [x for x in me.children() if x.status() != psutil.STATUS_ZOMBIE] == []
    assert (signals.first_compile() == 1).all()


class Signalling:
    """What a signal interrupts while it is read."""

    def __init__(self, error=None):
        self.error = error

    def _read(self):
        if self.error:
            raise self.error
        signal.raise_signal(ALARM)

    def __array__(self, *_, **__):
        self._read()
        return np.zeros(2)

    def __iter__(self):
        self._read()
        return iter(())

    def __mul__(self, other):
        self._read()
        return 0.0


DOORS = {
    "q0": lambda x: lb.simulate(ROBOT, x, t_end=1.0, dt=0.1),
    "a kernel": lambda x: ROBOT.mass_matrix(x),
    "a batch": lambda x: ROBOT.kernel("mass_matrix").general(x, threads=2),
    "g0": lambda x: lb.solve_ivp(lambda t, y: np.zeros(3), (0.0, 1.0), x, SO3),
    "an axis": Revolute,
    "members": lambda x: arguments.members("x", x, "numbers"),
    "entries": lambda x: arguments.quantities("x", entries(x), (1,)),
}


def entries(x):
    array = np.zeros(1, object)
    array[0] = x
    return array


@with_alarms
@pytest.mark.parametrize("name", DOORS)
def test_no_door_takes_the_error_of_a_handler_for_one_of_its_argument(name):
    with handled(late):
        with pytest.raises(Late):
            DOORS[name](Signalling())
        with pytest.raises((ShapeError, lb.base.errors.ArgumentError)):
            DOORS[name](Signalling(RuntimeError("no array of this")))


class Wrong(ValueError):
    """What many errors of this library are, and what many clauses look for."""


@with_alarms
def place_of(frame):
    """The line that runs, and the one that called its function."""
    return frame.f_code.co_filename, frame.f_lineno, frame.f_back and frame.f_back.f_lineno


def at_each_line(call, handler):
    """Make the call as often as it runs different lines; a signal comes at another one each time."""
    places, signalled = {}, []

    def note(frame, event, argument):
        if event == "line":
            places.setdefault(place_of(frame))
        return note

    def raising_at(place):
        def trace(frame, event, argument):
            if event == "line" and place_of(frame) == place:
                sys.settrace(None)
                signalled.append(place)
                signal.raise_signal(signal.SIGTERM)
            return trace

        return trace

    before, old = sys.gettrace(), signal.signal(signal.SIGTERM, handler)
    try:
        sys.settrace(note)
        call()
        sys.settrace(None)
        for place in places:
            signalled.clear()
            sys.settrace(raising_at(place))
            try:
                call()
                error = None
            except BaseException as raised:
                error = raised
            sys.settrace(None)
            if signalled:
                yield place, error
    finally:
        sys.settrace(before)
        signal.signal(signal.SIGTERM, old)


def looking_up():
    """A call that finds a kernel in the cache."""
    source, compiler = build.Source(["int answer(void) { return 42; }"]), build.find_compiler()
    build.library(source, compiler)
    return lambda: build.library(source, compiler)


def without_compiler():
    """A call of a function as NumPy source."""
    function = trace(lambda x: np.sin(x) + x @ x, {"x": 3}, "f")
    return partial(compile_numpy(function), np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("call", [looking_up, without_compiler])
@pytest.mark.parametrize("kind", [TimeoutError, FileExistsError, ValueError])
def test_what_a_handler_raises_comes_out_of_each_line(call, kind):
    def handler(number, frame):
        raise kind("too late")

    ends = list(at_each_line(call(), handler))
    assert len(ends) > (100 if call is looking_up else 10)
    assert [(place, error) for place, error in ends if type(error) is not kind] == []


def test_no_error_of_this_library_takes_the_place_of_one_of_a_handler(monkeypatch):
    def wrong(number, frame):
        raise Wrong("of a handler")

    def interrupted(*_):
        signal.raise_signal(ALARM)

    monkeypatch.setattr(np, "broadcast_shapes", interrupted)
    with handled(wrong), pytest.raises(Wrong) as raised:
        lb.simulate(ROBOT, [[1.0, 0.5]], [1.0, 0.5], t_end=1.0, dt=0.1)
    try:
        raise raised.value
    except Wrong:  # a user's own clause
        with pytest.raises(IntegrationError, match="dt is -1"):
            lb.simulate(ROBOT, t_end=1.0, dt=-1.0)


@with_alarms
def test_an_error_by_which_the_standard_library_replaces_one_of_a_handler_is_passed_on():
    def handler(number, frame):
        raise ValueError("of a handler")

    def replaces():
        try:
            handler(1, sys._getframe())
        except ValueError:
            raise ValueError("a kind of parameter that is not valid")  # noqa: B904

    def looks(function):
        try:
            function()
        except ValueError as error:
            pass_on_signals(error)

    with pytest.raises(ValueError, match="not valid"):
        looks(replaces)

    def fails():
        raise ValueError("of a number")

    # One that a caller handles meanwhile is no reason to raise another one.
    try:
        handler(1, sys._getframe())
    except ValueError:
        looks(fails)


def test_efforts_that_a_signal_interrupts_are_not_taken_for_ones_that_cannot_be_traced():
    def tau(t, q, v):
        signal.raise_signal(ALARM)
        return q

    with handled(late), pytest.raises(Late):
        lb.simulate(ROBOT, [1.0, 0.5], t_end=1.0, dt=0.1, tau=tau)


@with_alarms
@pytest.mark.parametrize("error", [Late, SystemExit])
def test_a_sweep_ends_by_a_handler_from_before_and_not_by_one_of_its_function(error, tmp_path):
    def raising(number, frame):
        raise error("of a handler")

    def outside(p):
        if p["x"] == 2:
            signal.raise_signal(ALARM)
        return {"y": p["x"]}

    def limited(p):
        with handled(raising):
            return outside(p)

    axes = {"x": np.arange(4.0)}
    with handled(raising), pytest.raises(error, match="of a handler"):
        lb.sweep(outside, axes, tmp_path / "a.zarr", workers=0, chunk=1)
    with pytest.warns(UserWarning, match="of a handler"):
        found = lb.sweep(limited, axes, tmp_path / "b.zarr", workers=0, chunk=1)
    assert np.isfinite(found["y"]).sum() == 3


@with_alarms
def test_handlers_wait_until_operators_of_symbols_have_ended():
    """NumPy goes on after an error in an operator, and Python crashes later."""
    order = []

    def operator():
        signal.raise_signal(ALARM)
        order.append("operator")

    def handler(number, frame):
        order.append("handler")
        raise Late("then")

    with handled(handler), pytest.raises(Late), interrupts.outside_of({operator.__code__}):
        operator()
        time.sleep(5.0)
    assert order == ["operator", "handler"]
    with handled(handler), pytest.raises(Late), interrupts.outside_of({handled.__wrapped__.__code__}):
        signal.raise_signal(ALARM)


@pytest.fixture
def no_callbacks_of_gc():
    """Python prints what a handler raises within a callback of the garbage collector, and does not raise it.

    Hypothesis and JAX install such callbacks, and a trace starts the collector many times. Garbage of earlier
    tests has callbacks, too: those that close its libraries.
    """
    gc.collect()
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


@with_alarms
def test_handlers_are_installed_again_after_a_trace_that_one_ended(no_callbacks_of_gc):
    tree = lb.models.planar_chain(4).tree

    def ended(number, frame):
        raise Ended

    def traced():
        lb.Robot(tree).kernel("forward_dynamics").function  # noqa: B018

    traced()
    with handled(ended):
        before = {number: signal.getsignal(number) for number in signal.valid_signals()}
        for k in range(40):
            with pytest.raises(Ended):
                signal.setitimer(signal.ITIMER_REAL, 1e-3 + 5e-4 * k)
                traced()
                time.sleep(1.0)  # until it comes
            assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
            assert gc.isenabled()


def test_handlers_are_installed_again_if_one_raises_at_any_jump_of_a_loop():
    """Python runs handlers at jumps backwards; the error of one is raised there, here by a tracer."""
    installed = inspect.unwrap(interrupts.outside_of).__code__
    watched = {installed, interrupts._restore.__code__, interrupts._Outside.remove.__code__}
    old = sys.gettrace()

    def ended_at(place):
        seen = itertools.count()

        def at_instruction(frame, event, argument):
            frame.f_trace_opcodes = True
            code = frame.f_code.co_code[frame.f_lasti]
            if event == "opcode" and dis.opname[code].startswith("JUMP_BACKWARD") and next(seen) == place:
                sys.settrace(None)
                raise Ended
            return at_instruction

        def at_call(frame, event, argument):
            frame.f_trace_opcodes = frame.f_code in watched
            return at_instruction(frame, event, argument) if frame.f_trace_opcodes else None

        try:
            sys._getframe().f_trace_opcodes = True  # Python 3.12 looks at it in settrace alone
            sys.settrace(at_call)
            with interrupts.outside_of(frozenset()):
                pass
        except Ended:
            return True
        finally:
            sys.settrace(old)
        return False

    with handled(late):
        before = {number: signal.getsignal(number) for number in signal.valid_signals()}
        places = 0
        while ended_at(places):
            places += 1
            assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
    assert places > 2  # at least two loops over handlers, of two of them


class Ended(Exception):
    """What the standard library does not look for, as it does for errors of files."""


def test_threads_give_results_in_order_and_the_first_error():
    assert interrupts.in_threads(lambda x: x * x, range(50), 4) == [x * x for x in range(50)]
    assert interrupts.in_threads(abs, [], 4) == []
    with pytest.raises(ZeroDivisionError):
        interrupts.in_threads(lambda x: 1 / x, [1, 0, 2], 2)


@with_alarms
def test_threads_end_before_an_error_of_a_handler_comes_out():
    stopped, ended = threading.Event(), []

    def work(k):
        ended.append(stopped.wait(10.0))

    with handled(late, 0.05), pytest.raises(Late):
        interrupts.in_threads(work, range(20), 3, stopped.set)
    assert ended == [True] * 2  # the third is this thread, in which the handler raised


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_threads_are_used_again_and_end_before_a_fork_and_after_a_while():
    interrupts.in_threads(abs, range(4), 4)
    several, mine = threads_of_this_process(), _thread.get_ident()
    for _ in range(100):
        idents = interrupts.in_threads(lambda _: _thread.get_ident(), range(4), 4)
        assert mine in interrupts.in_threads(lambda _: _thread.get_ident(), [1], 4) and len(idents) == 4
    assert threads_of_this_process() <= several
    if (child := os.fork()) == 0:
        os._exit(0 if interrupts.in_threads(abs, [-1, -2], 2) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not interrupts._idle  # none was left to the child
    interrupts.in_threads(abs, range(4), 4)
    for _ in range(100):
        if not interrupts._idle:
            break
        time.sleep(interrupts.IDLE / 10)
    assert not interrupts._idle


def test_threads_can_ask_for_threads():
    def work(k):
        return sum(interrupts.in_threads(lambda x: x + k, range(3), 2))

    assert interrupts.in_threads(work, range(20), 3) == [3 + 3 * k for k in range(20)]


def test_an_error_that_was_looked_at_for_signals_keeps_nothing_alive():
    """Neither its frames nor their arrays: Python 3.11 and 3.12 keep the values of a frame that were read."""

    class Held:
        pass

    def fails(held):
        raise OSError("not of a signal")

    def looks():
        held = Held()
        try:
            fails(held)
        except OSError as error:
            pass_on_signals(error)
            assert held is not None  # the names of the frame still have their values
        return weakref.ref(held)

    enabled = gc.isenabled()
    gc.disable()
    try:
        assert looks()() is None
    finally:
        if enabled:
            gc.enable()
