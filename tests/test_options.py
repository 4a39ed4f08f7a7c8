"""The options of all motions: one name has one meaning and one default, whatever moves."""

import importlib
import inspect
import pathlib
import pkgutil
import traceback
import tracemalloc

import numpy as np
import pytest
from test_hybrid_systems import ball

import liebody as lb
from liebody.base import progress
from liebody.base.errors import IntegrationError, MissingPackage, ModelError
from liebody.compiler.native import build
from liebody.groups import R
from liebody.hybrid import HybridSystem
from liebody.integrators import GeneralizedAlpha, solve_ivp
from liebody.stepping import Clock, drive, loop

REQUIRED = inspect.Parameter.empty
DEFAULTS = {  # of options that say how something moves
    "t_end": REQUIRED, "dt": None, "record_every": None, "t_eval": None, "hold": "zero", "tau": None,
    "forces": (), "events": None, "most_events": None, "rtol": None, "atol": None,
    "parameters": None, "threads": None, "progress": None,
}  # fmt: skip
OF_SCIPY = "keeps the words and the tolerances of scipy.integrate.solve_ivp, whose programs it takes"
OF_STEPPERS = "a stepper takes steps of a length that its user chooses"
EXCEPTIONS = {
    ("integrators.ivp.solve_ivp", "rtol"): OF_SCIPY,
    ("integrators.ivp.solve_ivp", "atol"): OF_SCIPY,
    ("simulation.stepper.stepper", "dt"): OF_STEPPERS,
    ("hybrid.stepper.HybridStepper.__init__", "dt"): OF_STEPPERS,
    ("simulation.stepper.Stepper.__init__", "dt"): OF_STEPPERS,
    ("integrators.mechanical_flow.MechanicalFlow.run", "rtol"): "has no mechanism, and so no `simulate`",
    ("integrators.mechanical_flow.MechanicalFlow.run", "atol"): "has no mechanism, and so no `simulate`",
}
MOVING = {  # calls that move something, as users see them
    "simulation.simulate.simulate", "hybrid.system.HybridSystem.simulate",
    "contact.time_stepping.TimeStepping.simulate", "simulation.sensitivities.sensitivities",
    "simulation.stepper.stepper", "hybrid.stepper.HybridStepper.__init__",
    "integrators.mechanical_flow.MechanicalFlow.run", "integrators.ivp.solve_ivp",
}  # fmt: skip


def signatures():
    """{dotted name: parameters} of the calls in MOVING."""
    for name in sorted(MOVING):
        module, *path = name.rsplit(".", 2 if ".__init__" in name or name.split(".")[-2][0].isupper() else 1)
        found = importlib.import_module(f"liebody.{module}")
        for part in path:
            found = getattr(found, part)
        yield name, inspect.signature(inspect.unwrap(found)).parameters


def test_an_option_of_one_name_has_one_default_in_every_call_that_moves_something():
    differ = {
        (name, option)
        for name, parameters in signatures()
        for option, default in DEFAULTS.items()
        if option in parameters and parameters[option].default != default
    }
    assert differ == set(EXCEPTIONS) & {(name, x) for name, p in signatures() for x in p}


def test_all_calls_that_take_a_duration_and_threads_or_a_record_are_known():
    """A new call that moves something has to be looked at here."""
    found = set()
    for info in pkgutil.walk_packages(lb.__path__, "liebody."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except MissingPackage:  # of another library that is not installed, such as PyTorch
            continue
        for owner in (module, *(x for x in vars(module).values() if inspect.isclass(x))):
            if getattr(owner, "__module__", info.name) != info.name:
                continue
            for key, function in vars(owner).items():
                own = inspect.isfunction(function) and function.__module__ == info.name
                if not own or (key.startswith("_") and key != "__init__"):
                    continue
                parameters = inspect.signature(inspect.unwrap(function)).parameters
                if {"record_every", "t_eval"} & set(parameters) and "t_end" in parameters:
                    found.add(f"{info.name[8:]}{'.' + owner.__name__ if owner is not module else ''}.{key}")
    inner = {  # these take options from the calls above
        "simulation.simulate.simulation_of", "simulation.setup.clock_of", "stepping.clock.Clock.__init__",
        "hybrid.system.HybridSystem.clock", "contact.time_stepping.TimeStepping.clock",
        "interop.jax.simulate",
    }  # fmt: skip
    assert found - inner <= MOVING


# -- times ---------------------------------------------------------------------------------------------------

PENDULUM = lb.models.double_pendulum()
UNEVEN = [0.0, 0.013, 0.2, 0.33, 1.0]


def test_times_on_the_grid_of_steps_are_rows_of_the_usual_record_to_the_last_bit():
    every = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=1e-2, record_every=1e-2)
    some = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=1e-2, t_eval=[0, 0.05, 0.1, 0.15, 0.6, 1.0])
    rows = [0, 5, 10, 15, 60, 100]
    np.testing.assert_array_equal(some.t, every.t[rows])
    np.testing.assert_array_equal(some.q, every.q[rows])
    np.testing.assert_array_equal(some.v, every.v[rows])


@pytest.mark.parametrize("options", [{"dt": 1e-3}, {"method": "rkmk45"}, {"method": "radau5"}, {}], ids=str)
def test_any_times_can_be_recorded_alone_and_in_an_ensemble(options):
    exact = lb.simulate(
        PENDULUM, [1.0, 0.3], t_end=1.0, method="rkmk45", rtol=1e-12, atol=1e-13, t_eval=UNEVEN
    )
    run = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, t_eval=UNEVEN, **options)
    np.testing.assert_array_equal(run.t, UNEVEN)
    np.testing.assert_allclose(run.q, exact.q, atol=2e-8)
    many = lb.simulate(PENDULUM, [[0.5, 0.3], [1.0, 0.3], [0.2, 0.0]], t_end=1.0, t_eval=UNEVEN, **options)
    np.testing.assert_allclose(many.q[1], run.q, atol=1e-12)


def test_hybrid_systems_record_at_any_times_and_end_with_a_shorter_interval():
    system = ball()
    fine = system.simulate([1.0], t_end=1.05, record_every=0.01, threads=1)
    run = system.simulate([1.0], t_end=1.05, record_every=0.1)
    np.testing.assert_allclose(run.t, [*np.arange(11) / 10, 1.05], atol=1e-15)
    np.testing.assert_allclose(run.q, fine.q[[*range(0, 101, 10), 105]], atol=1e-12)
    run = system.simulate([1.0], t_end=1.05, t_eval=[0, 0.2, 0.47, 1.05])
    np.testing.assert_allclose(run.q, fine.q[[0, 20, 47, 105]], atol=1e-12)
    assert run.final.t == 1.05


def test_trajectories_of_implicit_methods_take_the_same_times():
    flow = GeneralizedAlpha(0.9).flow(R(1), np.eye(1), lambda t, q, v, u: -q)
    every = flow.run([1.0], [0.0], 1.0, 1e-2)
    some = flow.run([1.0], [0.0], 1.0, 1e-2, t_eval=[0, 0.25, 0.5, 1.0])
    np.testing.assert_array_equal(some.q, every.q[[0, 25, 50, 100]])


def test_derivatives_of_recorded_states_at_any_times_agree_with_differences():
    def ends(q):
        return lb.simulate(PENDULUM, q, t_end=1.0, dt=0.02, t_eval=UNEVEN).q

    s = lb.sensitivities(PENDULUM, [1.0, 0.3], t_end=1.0, dt=0.02, t_eval=UNEVEN)
    step = 1e-6 * np.eye(2)
    differences = np.stack([(ends([1.0, 0.3] + d) - ends([1.0, 0.3] - d)) / 2e-6 for d in step], axis=-1)
    np.testing.assert_allclose(s.tangents("q0").q, differences, atol=1e-8)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([0.0, 0.5], "add t_end, 1 s"),
        ([0.1, 1.0], "add the start, 0 s"),
        ([0.0, 0.6, 0.6, 1.0], "increasing times"),
        ([[0.0, 1.0]], r"shape \(1, 2\)"),
        ([0.0], "at least two"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"dt": 0.1}, {"method": "rkmk45"}], ids=str)
def test_times_that_do_not_go_from_start_to_end_are_refused(times, words, options):
    with pytest.raises(IntegrationError, match=words):
        lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, t_eval=times, **options)


def test_methods_with_steps_of_one_length_refuse_times_between_their_steps():
    with pytest.raises(IntegrationError, match="times of t_eval are no multiples of dt"):
        lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=0.1, method="variational", t_eval=[0, 0.25, 1.0])
    run = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=0.05, method="variational", t_eval=[0, 0.25, 1.0])
    assert run.t.tolist() == [0, 0.25, 1.0]


def test_a_step_that_is_typed_with_some_digits_divides_the_time_nearly():
    flow = GeneralizedAlpha(0.9).flow(R(1), np.eye(1), lambda t, q, v, u: -q)
    motion = flow.run([1.0], [0.0], 1.0, 0.0333333333)
    assert len(motion.t) == 31 and motion.t[-1] == 30 * 0.0333333333
    run = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=1e-3 * (1 - 5e-10), method="variational")
    assert run.t[-1] == 1.0


@pytest.mark.parametrize("dt", [0.0, -0.1, 10.0, 1e9])
def test_trajectories_refuse_steps_that_are_not_positive_or_longer_than_the_time(dt):
    flow = GeneralizedAlpha(0.9).flow(R(1), np.eye(1), lambda t, q, v, u: -q)
    with pytest.raises(IntegrationError, match=r"dt is|dt = 1"):
        flow.run([1.0], [0.0], 1.0, dt)


def test_one_step_that_is_much_longer_than_the_time_ends_at_it():
    run = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1e-3, dt=1e9)
    assert run.t.tolist() == [0.0, 1e-3]
    short = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1e-3, dt=1e-3)
    np.testing.assert_allclose(run.q, short.q, atol=1e-15)


def test_a_clock_counts_the_steps_before_each_row():
    for clock in (
        Clock(1.0, 0.03),
        Clock(1.0, 0.03, 0.09),
        Clock(1.0, 0.1, t_eval=[0, 0.3, 0.35, 1.0]),
        Clock(1.0, 0.125, t_eval=[0, 0.25, 0.5, 0.625, 1.0]),
    ):
        t, h = clock.steps.T
        ends = np.append(t[0], t + h)
        np.testing.assert_allclose(ends[clock.steps_of_rows], clock.times, atol=1e-15)
        np.testing.assert_allclose(ends[:-1], t, atol=1e-15)
        assert (h <= clock.h).all()


# -- progress, threads, events ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [(), (5,)])
def test_a_progress_bar_changes_no_bit_of_a_hybrid_run(n, monkeypatch, capsys):
    monkeypatch.setattr(drive, "CHUNK", 1e-4)  # many pieces
    q0 = np.broadcast_to(1.0, (*n, 1)) + 0.1 * np.arange(max(1, *n, 1)).reshape(-1, 1)[: max(1, *n, 1)]
    q0 = q0 if n else q0[0]
    quiet = ball().simulate(q0, t_end=2.0, progress=False)
    shown = ball().simulate(q0, t_end=2.0, progress=True)
    assert "s simulated" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.q, quiet.q)
    np.testing.assert_array_equal(shown.counts, quiet.counts)


def test_without_a_bar_a_motion_is_one_call(monkeypatch):
    calls = []
    system = ball()
    flow = type(system.flow(system.stepped_by(None)[1]))
    march = flow.march
    monkeypatch.setattr(flow, "march", lambda self, *a, **b: (calls.append(a[2]), march(self, *a, **b))[1])
    system.simulate([1.0], t_end=2.0, progress=False)
    assert calls == [1001]
    monkeypatch.setattr(progress.sys, "stderr", None)  # pythonw
    lb.simulate(system, [1.0], t_end=2.0)
    assert calls == [1001, 1001]


def test_threads_are_taken_where_they_are_worth_it_and_never_change_a_bit():
    q0 = np.random.default_rng(0).normal(size=(64, 2))
    runs = [lb.simulate(PENDULUM, q0, t_end=1.0, dt=1e-3, threads=n) for n in (None, 1, 3)]
    for other in runs[1:]:
        np.testing.assert_array_equal(other.q, runs[0].q)
    assert drive.threads_of(None, 1, 10**9) == drive.threads_of(None, 10, 10) == 1
    assert drive.threads_of(None, 64, 1000) == drive.os.cpu_count()
    assert drive.threads_of(7, 1, 1) == 7


def test_events_beside_the_guards_of_a_hybrid_system_are_logged_and_may_end_it():
    def half(t, q, v):
        return q[0] - 0.5

    half.direction = -1
    system = ball()
    plain = system.simulate([1.0], t_end=2.0)
    run = lb.simulate(system, [1.0], t_end=2.0, events={"half": half})
    np.testing.assert_allclose(run.q, plain.q, atol=1e-9)  # steps end at the events
    log = run.events.of("half")
    np.testing.assert_allclose(log.q[:, 0], 0.5, atol=1e-12)
    assert (log.direction == -1).all() and len(log) >= 1
    assert len(run.events.of("floor")) == len(plain.events.of("floor"))
    half.terminal = True
    run = system.simulate([1.0], t_end=2.0, events={"half": half, "with_parameters": gravity_of})
    assert run.ends == "stopped" and run.final.q[0] == pytest.approx(0.5, abs=1e-12)
    with pytest.raises(ModelError, match="'floor' is the name of a guard and of an event"):
        system.simulate([1.0], t_end=2.0, events={"floor": half})


def gravity_of(t, q, v, p):
    return p.gravity if hasattr(p, "gravity") else p[0]


def test_steppers_of_hybrid_systems_watch_for_events():
    def half(t, q, v):
        return q[0] - 0.5

    half.terminal = True
    sim = lb.stepper(ball(), dt=0.1, members=2, events={"half": half})
    state = sim.start([[1.0], [0.7]])
    assert state.events is None
    seen = [0, 0]
    while not state.ended.all():
        state = sim.step(state)
        seen = [n + len(log) for n, log in zip(seen, state.events, strict=True)]
    assert seen == [1, 1]
    np.testing.assert_allclose(state.q, 0.5, atol=1e-12)


def test_steps_of_a_hybrid_system_with_the_same_events_are_compiled_once():
    def half(t, q, v):
        return q[0] - 0.5

    system = ball()
    assert system.with_events({"half": half}) is system.with_events({"half": half})
    assert system.with_events({}) is system
    assert isinstance(system, HybridSystem)


# -- options that have no use -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tau", "forces", "joints", "stabilization", "rtol", "atol"])
def test_a_hybrid_system_says_what_takes_the_place_of_options_of_mechanisms(name):
    with pytest.raises(ModelError, match=rf"{name} is given for a hybrid system, .*; \w+"):
        lb.simulate(ball(), [1.0], t_end=1.0, **{name: 1e-3})


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerances_of_steps_of_one_length_are_refused(name):
    for options in ({"dt": 1e-3}, {"method": "rkmk4"}):  # which estimates no errors
        with pytest.raises(IntegrationError, match=f"{name} = 0.001 belongs to error control"):
            lb.simulate(PENDULUM, [1.0, 0.3], t_end=0.1, **{name: 1e-3}, **options)
    assert solve_ivp(lambda t, q: np.ones(1), (0, 1), [0.0], R(1), dt=0.3).t.tolist()[-1] == 1.0


# -- the life of one step -----------------------------------------------------------------------------------

ROOM = pathlib.Path(lb.__file__).parent


def stack_at_c(monkeypatch, simulate):
    """The functions of this library on the way to the call of C, outermost first."""
    stacks = []
    call = loop.StepsCall.__call__

    def seen(self, *arguments):
        frames = (frame for frame, _ in traceback.walk_stack(None))
        names = [f"{f.f_code.co_filename}:{f.f_code.co_qualname}" for f in frames]
        stacks.append([name[len(str(ROOM)) + 1 :] for name in reversed(names) if name.startswith(str(ROOM))])
        return call(self, *arguments)

    monkeypatch.setattr(loop.StepsCall, "__call__", seen)
    simulate()
    return stacks


def test_from_simulate_to_c_are_nine_functions_those_of_the_architecture_page(monkeypatch):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    (stack,) = stack_at_c(monkeypatch, lambda: lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=1e-3))
    path = [*(name.split(":")[1].split(".<locals>")[0] for name in stack), "StepsCall.__call__"]
    assert len(path) <= 10
    page = (pathlib.Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    chapter = page[page.index("## The life of one step") : page.index("## To add something")]
    assert [name for name in path if f"`{name}`" not in chapter] == []


def test_a_simulation_copies_its_states_twice():
    """Once to make them unit and contiguous, once into the states that move; the record is the result."""
    n = 200_000
    q0 = np.zeros((n, 2))
    v0 = np.zeros((n, 2))
    options = {"t_end": 1e-3, "dt": 1e-3, "record_every": 1e-3, "threads": 1}
    lb.simulate(PENDULUM, q0, v0, **options)
    tracemalloc.start()
    try:
        run = lb.simulate(PENDULUM, q0, v0, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = q0.nbytes + v0.nbytes
    record = 2 * size  # q and v at two times, where it is not of the pool
    assert peak < 2.5 * size + record + 32 * n  # rows at which members fail, times and reasons of ends
    assert run.q.shape == (n, 2, 2)
