"""Ctrl-C: whatever runs ends at once, with what was reached."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from test_hybrid_systems import ball

import liebody as lb
from liebody.codegen import build
from liebody.errors import IntegrationError

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
