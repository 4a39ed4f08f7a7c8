"""Threads that share an object get what one thread gets, bit for bit; copies and pickles go on as it does."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_hybrid_systems import ball

import liebody as lb
from liebody import contact
from liebody.base.concurrency import cached_property
from liebody.base.errors import ArgumentError
from liebody.bodies.labels import labels
from liebody.compiler.native import libraries

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

import threads

# which entry of the table calls what is public; and what has no state that calls could share
CALLED = {
    "a robot": {"Robot", "models", "load", "derivatives"},
    "a kernel and its derivatives": {"compiler", "stepping", "export_c", "export_cuda", "export_warp"},
    "a rigid body": {"RigidBody", "solve_ivp", "integrators", "groups", "dynamics", "mechanisms"},
    "a system with constraints": {"System", "SystemBuilder"},
    "a hybrid system": {"HybridSystem", "hybrid", "contact"},
    "a stepper by rkmk4, members None": {"stepper"},
    "simulations by rkmk4": {"simulate", "Run", "runs", "SingularPosition"},
    "equations of a robot": {"equations", "symbolic"},
    "continuation": {"gaits"},
    "a tube": {"Enclosure", "EnclosureError", "enclose"},
    "inverse kinematics": {"inverse_kinematics", "InverseKinematics"},
    "linearization": {"linearize", "Linearization", "lqr"},
    "optimal control": {"optimal_control", "OptimalControl", "OptimalPlan", "control"},
    "sensitivities": {"sensitivities", "Sensitivities"},
    "symmetries of a robot": {"symmetries"},
}
WITHOUT_STATE = {
    *("Joint", "SpatialInertia", "Tree", "bodies"),  # numbers
    *("LiebodyError", "errors", "scalars", "io"),
    *("boltzmann_hamel_equations", "rigid_body_equations"),  # formulas, made anew in each call
    "interop",  # lends the others to other libraries
    *("export_fmu", "identification"),  # one call makes one file, or one fit
    *("Sample", "sample", "sweep", "view"),  # one call makes one file or page
    "TreeBuilder",  # is changed by its calls; the tree it builds is not
}


def test_late_fields_of_a_run_are_computed_once_in_whatever_order_threads_ask():
    """While efforts are computed, a thread asks for one energy; another asks for the other energy later."""
    robot = lb.models.double_pendulum()
    computes, goes_on = threading.Event(), threading.Event()
    calls = []

    class Energies:
        def kinetic_energy(self, q, v):
            calls.append("kinetic")
            computes.set()
            assert goes_on.wait(20)
            return robot.kinetic_energy(q, v)

        potential_energy = staticmethod(robot.potential_energy)

    asked, ends = threading.Event(), threading.Event()

    def tau():
        asked.set()
        assert ends.wait(20)
        return np.ones((1, 2))

    q, v = np.zeros((2, 1, 2))
    run = lb.Run([0.0], q, v, None, None, *labels(robot.tree), mechanism=Energies(), later={"tau": tau})
    found = {}

    def ask(name):
        thread = threading.Thread(target=lambda: found.update({name: getattr(run, name)}))
        thread.start()
        return thread

    begun = [ask("tau")]
    assert asked.wait(20)
    begun.append(ask("kinetic"))
    ends.set()
    begun[0].join(20)
    assert computes.wait(20)
    begun.append(ask("potential"))
    begun[-1].join(0.1)  # it waits for the thread that computes both energies
    goes_on.set()
    for thread in begun:
        thread.join(20)
    assert found.keys() == {"tau", "kinetic", "potential"} and calls == ["kinetic"]
    assert run.mechanism is None and not run.later


def test_every_public_name_is_called_in_threads():
    named = set().union(*CALLED.values())
    assert not named & WITHOUT_STATE and named | WITHOUT_STATE == set(lb.__all__)
    assert threads.MAKERS.keys() >= CALLED.keys()


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("name", threads.MAKERS)
@pytest.mark.many(0)
def test_threads_that_share_an_object_get_what_one_thread_gets(name, fresh):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads.attack(name, fresh, 4, random.Random(0))


QUICK = [f"a stepper by {x}, members {n}" for x in ("rkmk4", "generalized-alpha") for n in (None, 5)]
QUICK += ["optimal control", "predictive control", "a buffer", "one run", "a stepper of a closed loop"]


@pytest.mark.parametrize("name", QUICK)
def test_threads_share_steppers_problems_buffers_and_runs(name):
    threads.attack(name, False, 4, random.Random(1))


@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha", "radau5"])
def test_without_a_compiler_threads_share_steppers_as_well(method, monkeypatch):
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    monkeypatch.setattr(threads, "used", {})
    name = f"without a compiler, {method}"
    monkeypatch.setitem(threads.MAKERS, name, lambda: few_steps(method))
    threads.attack(name, False, 2, random.Random(2))


def few_steps(method):
    robot = lb.models.double_pendulum()
    sim = lb.stepper(robot, dt=2e-3, method=method)

    def call(i):
        q, v = threads.state(2, i)
        end = sim.step(sim.start(q, v), np.ones(2), steps=2)
        controlled = {"rtol": 1e-5} if method == "radau5" else {"dt": 5e-3}
        run = lb.simulate(robot, q, v, t_end=0.01, method=method, **controlled)
        return end.y, run.q

    return call


def test_a_step_depends_on_its_state_alone_next_to_singular_positions():
    """Steps there are taken carefully; which ones, is known from the motion, and not from the last call."""
    sim = lb.stepper(threads.closed_loop(), dt=1e-3)
    one = [sim.start()]
    for _ in range(30):
        one.append(sim.step(one[-1], [0.4]))
    assert (sim.step(one[3], [0.4]).y == one[4].y).all()
    assert (sim.step(one[20], [0.4]).y == one[21].y).all()


# -- checkpoints --------------------------------------------------------------------------------------------


def steppers():
    robot = lb.models.double_pendulum()
    mass = f"{robot.tree.bodies[-1].name}.mass"
    for method in threads.METHODS:
        yield lambda method=method: (
            lb.stepper(robot, dt=2e-3, method=method, members=3),
            [0.3, -0.2],
            np.ones(2),
        )
    yield lambda: (lb.stepper(robot, dt=2e-3, events={"level": level}), [0.1, -0.2], np.ones(2))
    yield lambda: (lb.stepper(robot, dt=2e-3, parameters={mass: [1.0, 2.0]}), [0.1, -0.2], np.ones(2))
    yield lambda: (lb.stepper(threads.closed_loop(), dt=1e-3), None, [0.4])
    q0 = [0.0, 0.0, 0.23, -0.35, 0.7]
    foot = contact.Contact("foot", stiffness=1e4, damping=1e2, friction=0.8)
    yield lambda: (lb.stepper(contact.TimeStepping(threads.leg(), foot), dt=2e-3), q0, None)


def level(t, q, v):
    return q[0]


@pytest.mark.parametrize("make", [*steppers()])
@pytest.mark.many(3)
def test_steppers_and_their_states_go_on_from_checkpoints(make):
    sim, q0, u = make()
    given = [] if u is None else [u]
    at = sim.step(sim.step(sim.start(q0), *given), *given)
    end = sim.step(sim.step(at, *given), *given)
    other, sent = pickle.loads(pickle.dumps((sim, at)))
    alone = pickle.loads(pickle.dumps(at))
    copies = (
        (sim, copy.copy(at)),
        (copy.deepcopy(sim), copy.deepcopy(at)),
        (other, sent),
        (sim, alone),
        (other, at),
    )
    for stepper, state in copies:
        again = stepper.step(stepper.step(state, *given), *given)
        assert threads.same((again.q, again.v, again.t), (end.q, end.v, end.t))
    copied = copy.deepcopy(at)
    arrays = [x for x in (getattr(copied, name) for name in copied.__slots__) if isinstance(x, np.ndarray)]
    for x in arrays:
        x.flags.writeable = True
        x[...] = 7
    assert threads.same(sim.step(sim.step(at, *given), *given).q, end.q)


def test_states_of_other_steppers_stay_refused():
    robot = lb.models.double_pendulum()
    state = lb.stepper(robot, dt=1e-3).start()
    for other in ({"dt": 2e-3}, {"dt": 1e-3, "method": "cf4"}, {"dt": 1e-3, "members": 2}):
        with pytest.raises(ArgumentError, match="another stepper"):
            lb.stepper(robot, **other).step(state)
    with pytest.raises(ArgumentError, match="another stepper"):
        lb.stepper(lb.models.planar_chain(2), dt=1e-3).step(state)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_buffer_compute_anew(again):
    robot = lb.models.double_pendulum()
    buffer = robot.kernel("mass_matrix").buffer(2)
    first = np.array([[0.1, 0.2], [0.3, 0.4]])
    buffer(first)
    other = again(buffer)
    assert (other(first + 1) == robot.mass_matrix(first + 1)).all()
    assert (buffer(first) == robot.mass_matrix(first)).all()
    assert not other(first).flags.writeable


def test_hybrid_states_keep_what_happened():
    sim = lb.stepper(ball(step=None), dt=0.02)
    at = sim.start([0.1])
    for _ in range(10):
        at = sim.step(at)
    copied = copy.deepcopy(at)
    assert copied.memory.hits == at.memory.hits == 1 and copied.t == at.t
    assert (sim.step(copied).q == sim.step(at).q).all()


# -- forks --------------------------------------------------------------------------------------------------

FORKS = """
import os, signal, sys, threading, time, warnings
import numpy as np
import liebody as lb
from liebody.compiler import Kernel, trace

warnings.simplefilter("ignore")  # newer versions of Python warn of forks beside threads
new = iter(range(10**9))


def trace_and_compile():
    k = next(new) + 1000 * os.getpid()
    chain = lb.Robot(lb.models.planar_chain(4).tree)
    chain.kernel("forward_dynamics").function
    f = Kernel(trace(lambda x: np.sin(x) + float(k), {"x": 3}, "f"))
    assert abs(f(np.zeros(3)) - k).max() == 0
    batch = f(np.zeros((500, 3)), threads=2)
    assert abs(batch - k).max() == 0
    orders = lb.simulate(lb.models.double_pendulum(), [0.1, 0.2], t_end=0.01, dt=1e-3, threads=2)
    assert np.isfinite(orders.q).all()


def go_on():
    while True:
        trace_and_compile()


shared = lb.models.double_pendulum()
for _ in range(2):
    threading.Thread(target=go_on, daemon=True).start()
ends = []
for k in range(int(sys.argv[1])):
    time.sleep(0.003 + 0.011 * (k % 7))
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            import gc
            assert gc.isenabled()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            trace_and_compile()
            shared.forward_dynamics([0.1, 0.2], [0.0, 0.0], [0.0, 0.0])
            code = 0
        finally:
            os._exit(code)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(ends)
os._exit(any(ends))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_process_that_is_forked_while_threads_trace_and_compile_goes_on(count, tmp_path):
    environment = {**os.environ, "LIEBODY_CACHE": str(tmp_path)}  # in which all is to be compiled
    command = [sys.executable, "-c", FORKS, str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_objects_are_made_once_and_do_not_wait_for_each_other():
    begun, go = threading.Barrier(3), threading.Event()

    class Slow:
        made = 0

        @cached_property
        def value(self):
            self.made += 1
            begun.wait(10.0)  # both objects make theirs at the same time
            go.wait(10.0)
            return object()

    objects, seen = [Slow(), Slow()], []
    workers = [threading.Thread(target=lambda x=x: seen.append(x.value)) for x in objects * 3]
    for worker in workers:
        worker.start()
    begun.wait(10.0)
    go.set()
    for worker in workers:
        worker.join()
    assert [x.made for x in objects] == [1, 1] and set(seen) == {x.value for x in objects}
