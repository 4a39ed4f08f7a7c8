"""Simulation of robots and of constrained systems: a vector field and a Lie-group integrator in one loop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, overload

import numpy as np

from ..base.arguments import check_in_single, checked, count
from ..base.errors import ArgumentError, IntegrationError, warn
from ..bodies import joint_kinds
from ..hybrid import HybridSystem
from ..hybrid.results import warn_of_lost_events
from ..integrators import MechanicalMethod, Method
from ..mechanisms import Forces, Mechanism, RigidBody, forces_of
from ..mechanisms.constrained import Constrained, Stabilization
from ..robot import Robot
from ..runs import DeviceRun, HybridRun, Run
from ..scalars import Array
from .device import simulate_on_device
from .efforts import EffortInput
from .motion import PreparedSimulation
from .reports import (
    CalledEfforts,
    DivergedMembers,
    PassedLimits,
    SingularPosition,
    note_passed_limits,
    report_lost,
)
from .setup import (
    ADVICE,
    FIXED,
    clock_of,
    default_method,
    is_single_precision,
    mechanism_of,
    method_of,
    refuse_foreign,
    stabilization_of,
    tolerances_of,
    with_parameters,
)
from .states import states_of

__all__ = ["CalledEfforts", "DivergedMembers", "PassedLimits", "SingularPosition", "simulate"]


def refuse_fields(mechanism: Any) -> None:
    """Raise ArgumentError for a RigidBody, which is a vector field for `solve_ivp`."""
    if isinstance(mechanism, RigidBody):
        raise ArgumentError(
            f"simulate takes robots and systems, and {mechanism!r} is a field: lb.solve_ivp("
            "body.vector_field(), (0, t_end), x0, body.state_group), or a Robot with one body"
        )


class _Simulate(Protocol):
    @overload
    def __call__(
        self,
        mechanism: HybridSystem | Robot | Mechanism,
        q0: Array = ...,
        v0: Array = ...,
        *,
        device: Literal["cuda"],
        **options: Any,
    ) -> DeviceRun: ...
    @overload
    def __call__(
        self, mechanism: HybridSystem, q0: Array = ..., v0: Array = ..., **options: Any
    ) -> HybridRun: ...
    @overload
    def __call__(
        self, mechanism: Robot | Mechanism, q0: Array = ..., v0: Array = ..., **options: Any
    ) -> Run: ...


def _or_hybrid(simulate: Callable[..., Run | DeviceRun]) -> _Simulate:
    """`simulate`, which calls the `simulate` method of a hybrid system instead."""

    @functools.wraps(simulate)
    def either(mechanism: Any, q0: Array = None, v0: Array = None, **options: Any) -> Any:
        if isinstance(mechanism, HybridSystem):
            refuse_foreign(options)
            return mechanism.simulate(mechanism.group.neutral() if q0 is None else q0, v0, **options)
        refuse_fields(mechanism)
        return simulate(mechanism, q0, v0, **options)

    return either


@_or_hybrid
@checked
def simulate(
    mechanism: Robot | Mechanism,
    q0: Array = None,
    v0: Array = None,
    *,
    t_end: float,
    dt: float | None = None,
    method: str | Method | MechanicalMethod | None = None,
    tau: Any = None,
    record_every: float | None = None,
    t_eval: Array = None,
    rtol: float | None = None,
    atol: float | None = None,
    hold: str = "zero",
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    prescribed: Mapping[str, Callable[..., Any]] | None = None,
    stabilization: str | Stabilization | None = None,
    events: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    dtype: Any = np.float64,
    most_events: int | None = None,
    device: str | None = None,
    fused: bool = True,
) -> Run | DeviceRun:
    """Integrate dq/dt = v, dv/dt = M^-1 (tau - C v - g) on the configuration manifold, over [0, t_end].

    q0, v0        initial states, (..., nq) and (..., nv), or entries by name, {"elbow_joint": 1.2}, where
                  others are as by default. Leading axes make an ensemble, whose members are lanes of vectors
                  and shares of threads. Default: the neutral configuration (of a System:
                  `system.assemble()`, the closed one next to its guess), at rest
    t_end         end of the simulation                                                                  [s]
    dt            fixed step; None: steps under error control if the method estimates its error, otherwise
                  steps of 1 ms, or a little less so that a whole number of them fits. Under error control
                  explicit methods step from one recorded time to the next. Implicit ones step as far as they
                  can and record states within their steps, with an error of the order of the steps' error [s]
    method        an explicit method, "rkmk4", "rkmk45", "cf4", ... or a Tableau; or one for mechanical
                  systems, "generalized-alpha", "variational", "half-explicit4", "radau5", ..., which keeps
                  constraints in its own way (docs/choose-a-method.md). Default: without dt "rkmk45", which
                  has error control, as in `solve_ivp`; with dt "rkmk4". Efforts that can only be called have
                  no error control: without dt they take "rkmk4" with steps of 1 ms
    tau           efforts: None (zero); constant (..., nu); sampled, a pair (times, values (..., samples, nu))
                  with equidistant times; or a function tau(t, q, v) -> (nu,) of a single state. nu is nv of a
                  Robot, and the number of driven motions of a System. A function made of NumPy operators,
                  liebody.scalars and methods of a Robot (`robot.gravity(q)`) is compiled into the loop; any
                  other is called at every stage, slower, must not depend on anything but its arguments, and
                  is named in a CalledEfforts warning
    record_every  time between recorded states; default: every step, or so that there are at most 1000     [s]
    t_eval        times of the recorded states, increasing from 0 to t_end, in place of record_every. Fixed
                  steps go from one of these times to the next, where the last one may be shorter          [s]
    rtol, atol    of the error control, as in `solve_ivp`: errors of q absolute, errors of v relative to |v|.
                  Default: 1e-8 and 1e-10
    hold          between samples of tau: "zero" (the last one) or "linear". Steps that go across a sample are
                  taken in parts, which end there: so every method keeps its order
    forces        forces beside efforts and weight, one or several: such as `JointFriction()`, a `Force` that
                  you write (docs/forces.md), or the name of one that needs no arguments, "friction" or one of
                  another package (`mechanisms.force_named`): the same in every mechanism, by every method.
                  Each object is compiled once, so keep a force that is no frozen dataclass. A HybridSystem
                  has its forces already
    joints        which parts of a Robot's description act in the joints: "ideal" (none), "real" (all), or
                  some of "armature", "damping", "friction" (`JointFriction`), "springs" (`JointSpring`),
                  "limits" (`JointLimits.stops`, with contacts of 20 ms, or of ten steps where that is longer)
                  and "efforts" (tau is kept within the effort limits). Default: armature and damping act, and
                  a motion that goes beyond limits is named in a PassedLimits warning and in its metadata
    prescribed    {joint: f(t)} of joints that follow functions of time, made of NumPy operators and
                  liebody.scalars, which are differentiated twice: their coordinates are f to round-off. Other
                  joints move by their equations of motion. Entries of tau of these joints are not read:
                  run.tau and run.effort("crank") have the efforts that their motion needs, whose work is in
                  the balance of energy. Default states start on f. With parameters f(t, p). Explicit methods
                  only, except in a System or ClosedTree (docs/constrained.md)                      [rad, m]
    stabilization against drift of a System's constraints: "projection" after each step (the default),
                  "none", "baumgarte", "index-2", or a `Stabilization` of `liebody.mechanisms.constrained`
                  (docs/constrained.md)
    events        {name: event(t, q, v)}, functions of a single state made of NumPy operators and
                  liebody.scalars. An event is a change of the sign of such a number, located to round-off by
                  steps that end there. Zero counts as negative: what begins at zero and rises, as a velocity
                  from rest may, is an event at the start. A function may have attributes, as in `solve_ivp`:
                  `direction` (positive: only upwards, negative: only downwards), `terminal` (True: the run
                  ends there)
    parameters    {name: values} of a Robot: names of `robot.parameters`, such as masses, and numbers that you
                  choose, such as gains, which tau and events read as p.K_p of a fourth argument, p:
                  tau(t, q, v, p). Values have their shape, or (..., *shape), for each member of the ensemble.
                  New values never compile anew (docs/parameters.md)
    threads       threads that share an ensemble; default: all processors, where several are sooner done
    progress      whether to show a progress bar; default: on a terminal, when it takes long
    dtype         float64, whatever the type of q0 and v0 is; or float32: steps are taken and recorded in it,
                  with twice as many members in a vector, by explicit methods with steps of one length, of
                  mechanisms without constraints. Efforts are rounded to it. Each step adds the round-off of
                  float32, 6e-8 of the state; times and energies are float64, and events are located to
                  1e-9 s. Efforts and events that are functions of t get a rounded t (docs/conventions.md)
    most_events   how many events of each member to keep at most; if there are more, a LostEvents warning says
                  how many. Default: 100,000, on a device 100, for which memory is taken at the start
    device        None: the CPU; "cuda": a CUDA device, on which q0 and v0 lie, and efforts and values of
                  parameters that are no functions or plain numbers. They are arrays of CuPy, PyTorch, JAX or
                  Warp of the type `dtype`, and are not checked: quaternions must be unit. By explicit methods
                  with steps of one length, of robots without constraints (docs/gpu.md). Experimental: not yet
                  run or timed on a device
    fused         on a device: whether products and sums may become fused multiply-adds

    returns       Run: t, q (..., times, nq), v, tau, energies, events; .plot(), .save(file). A System gives a
                  ConstrainedRun, which also has violations and multipliers. On a device: a `DeviceRun`, whose
                  q, v and events stay there, and whose `to_cpu()` is the Run

    Orientation stays a group element: no singularity, unit quaternions to round-off. A member of an ensemble
    that does not stay finite (or whose step under error control vanishes) is NaN from there on, and named in
    a DivergedMembers warning; a single simulation raises IntegrationError, whose attribute `run` holds what
    was reached. So does the KeyboardInterrupt of Ctrl-C, which ends a simulation at once. Exceptions of other
    signal handlers end it, too.

    For a `hybrid.HybridSystem` its method `simulate` is called, with the options that it has.

    Müller and Terze (2014), eqs (36), (37), on the state space G x R^n.
    """
    if device is not None:
        chosen = method_of(method or default_method(dt))
        clock = clock_of(chosen, t_end, dt, record_every, t_eval)
        return simulate_on_device(
            mechanism, q0, v0, method=chosen, clock=clock, tau=tau, hold=hold, forces=forces_of(forces),
            joints=joints, prescribed=prescribed, stabilization=stabilization, events=events or {},
            parameters=parameters, rtol=rtol, atol=atol,
            threads=threads, progress=progress, most_events=most_events, dtype=dtype, device=device,
            fused=fused, metadata_of=_metadata,
        )  # fmt: skip
    simulation = simulation_of(
        mechanism, q0, v0, t_end=t_end, dt=dt, method=method, tau=tau, record_every=record_every,
        t_eval=t_eval, rtol=rtol, atol=atol, hold=hold, forces=forces, joints=joints,
        prescribed=prescribed, stabilization=stabilization, events=events, parameters=parameters,
        threads=threads, dtype=dtype,
    )  # fmt: skip
    if most_events is not None:
        simulation.most_events = count("most_events", most_events, 0)
    return run_of(simulation, progress)


def simulation_of(
    mechanism: Robot | Mechanism,
    q0: Array,
    v0: Array,
    *,
    t_end: float,
    dt: float | None,
    method: str | Method | MechanicalMethod | None,
    tau: Any,
    record_every: float | None,
    t_eval: Array,
    rtol: float | None,
    atol: float | None,
    hold: str,
    forces: Forces,
    joints: str | Iterable[str] | None,
    prescribed: Mapping[str, Callable[..., Any]] | None,
    stabilization: str | Stabilization | None,
    events: Mapping[str, Callable[..., Any]] | None,
    parameters: Mapping[str, Any] | None,
    threads: int | None,
    dtype: Any = np.float64,
) -> PreparedSimulation:
    """The simulation of these arguments of `simulate`, checked and ready to march."""
    chosen = method_of(method or default_method(dt))
    threads = None if threads is None else count("threads", threads)
    # The first mistake is reported in this order: method, times, mechanism, states, efforts.
    clock = clock_of(chosen, t_end, dt, record_every, t_eval)
    h = clock.h
    acting = forces_of(forces)
    events = events or {}
    parametric, p = with_parameters(mechanism, parameters, (tau, *events.values()), prescribed)
    moving = mechanism_of(parametric, acting, joints, h, prescribed)
    tolerances = tolerances_of(h, rtol, atol)
    stabilized = stabilization_of(moving, chosen, stabilization, h)
    single = is_single_precision(dtype, moving, chosen, controlled=h is None)
    if prescribed:
        moving.check_prescribed(clock.t_end, p)
    q, v, batch = states_of(moving, q0, v0, p)
    if single:
        check_in_single(q, v)
    efforts = EffortInput(moving, tau, hold, batch, p)
    if callable(tau):
        # A function is traced at symbols; if that fails, it is called at the first state.
        why = efforts.trace(tau, q[0], v[0])
        if why is not None and method is None and h is None and rtol is atol is None:
            # The default method would need compiled efforts for its error control.
            return simulation_of(
                mechanism, q0, v0, t_end=t_end, dt=None, method=FIXED, tau=tau, record_every=record_every,
                t_eval=t_eval, rtol=None, atol=None, hold=hold, forces=acting, joints=joints,
                stabilization=stabilization, events=events, parameters=parameters, threads=threads,
                prescribed=prescribed, dtype=dtype,
            )  # fmt: skip
        if why is not None:
            if single:
                raise IntegrationError(f"steps in float32 are compiled, and {why}; {ADVICE}")
            _may_be_called(chosen, h, why)
            warn(f"{why}; so it is called at every stage, slower", CalledEfforts)
            if events:
                raise IntegrationError(f"events are located by compiled steps, and {why}; {ADVICE}")
    return PreparedSimulation(
        moving, chosen, stabilized, (q, v), batch, efforts, clock, tolerances, events, threads,
        acting, joints, tuple(prescribed or ()), single,
    )  # fmt: skip


def run_of(simulation: PreparedSimulation, progress: bool | None = None) -> Run:
    """Carry the members of a simulation through time, and make a run of the record, as `simulate` says."""
    mechanism = simulation.mechanism
    # Flows are compiled here, before the clock of `seconds` starts.
    drive = simulation.drive()
    start = time.perf_counter()
    drive.go(progress)
    metadata = _metadata(simulation, time.perf_counter() - start)
    times, states = simulation.recorded(drive)
    # Limits do not act by default; a user has to know where that matters.
    if simulation.joints is None and mechanism.idle_limits is not None:
        q = simulation.parted(states)[0]
        note_passed_limits(mechanism, times, q, metadata, simulation.efforts.p)
    run = simulation.run(drive, times, states, metadata)
    # The run goes with the exception, so that what was reached is not lost.
    if drive.interrupted:
        drive.interrupted.run = run  # type: ignore[attr-defined]
        raise drive.interrupted
    if np.count_nonzero(drive.failed):
        report_lost(mechanism, run, simulation.batch, drive)
    if simulation.events and simulation.most_events:
        members = drive.members
        warn_of_lost_events(members.counts[:, 0], [len(x) for x in members.log], simulation.most_events)
    return run


def _metadata(simulation: PreparedSimulation, seconds: float) -> dict[str, Any]:
    """The metadata of a run: model, method, options; seconds: the time of the march."""
    mechanism = simulation.mechanism
    joints = simulation.joints
    h = simulation.clock.h
    metadata: dict[str, Any] = {"model": mechanism.name, "method": simulation.method.name}
    if h is None:
        metadata |= dict(zip(("rtol", "atol"), simulation.tolerances, strict=True))
    else:
        metadata["dt"] = h
    if simulation.single:
        metadata["dtype"] = "float32"
    metadata["efforts"] = simulation.efforts.kind
    if simulation.forces:
        metadata["forces"] = ", ".join(type(force).__name__ for force in simulation.forces)
    if simulation.prescribed:
        metadata["prescribed"] = ", ".join(simulation.prescribed)
    if joints is not None:
        metadata["joints"] = ", ".join(sorted(joint_kinds(joints))) or "ideal"
    if mechanism.layout.size:
        metadata["parameters"] = ", ".join(mechanism.layout.defaults)
    metadata["seconds"] = seconds
    if isinstance(mechanism, Constrained):
        metadata["stabilization"] = simulation.stabilized.name if simulation.stabilized else "by the method"
    return metadata


def _may_be_called(method: Method | MechanicalMethod, h: float | None, why: str) -> None:
    """Raise IntegrationError where efforts by a function have to be traced."""
    if isinstance(method, MechanicalMethod):
        raise IntegrationError(f"{method.name} differentiates efforts, and {why}; {ADVICE}, or take 'rkmk4'")
    if h is None:
        raise IntegrationError(f"{why}; {ADVICE}, or give a fixed step dt")
