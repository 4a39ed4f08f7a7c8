"""One object, many threads: each gets for its own inputs what one thread alone gets for them, bit for bit.

A case takes an object of the public interface, new or used before, and calls it in eight threads, each with
inputs of its own, several times in an order of its own; Python lets another thread go on as often as it can.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from campaign import main

import liebody as lb
from liebody import gaits, scalars
from liebody.contact import Contact, TimeStepping
from liebody.groups import SO3, R, Revolute
from liebody.hybrid import HybridSystem, JointPD, robot_system
from liebody.mechanisms import RigidBody
from liebody.mechanisms.constrained import AbsoluteTree

THREADS, INPUTS = 8, 8
Call = Callable[[int], Any]
MAKERS: dict[str, Callable[[], Call]] = {}


def shared(maker: Callable[[], Call]) -> Callable[[], Call]:
    """Note what makes an object, and returns its call of the number of an input."""
    MAKERS[maker.__name__.replace("_", " ")] = maker
    return maker


def rng(i: int) -> np.random.Generator:
    return np.random.default_rng([7, i])


def state(n: int, i: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    q, v = rng(i).normal(size=(2, *shape, n))
    return q, v


# -- robots, kernels, symbols -------------------------------------------------------------------------------


@shared
def a_robot() -> Call:
    robot = lb.Robot(lb.models.double_pendulum().tree)

    def call(i: int) -> Any:
        q, v = state(2, i, *((), (100,), (70,))[i % 3])
        a = robot.forward_dynamics(q, v, np.sin(v))
        return (
            a,
            robot.inverse_dynamics(q, v, a),
            robot.mass_matrix(q),
            robot.coriolis_matrix(q, v, form="feurstein"),
        )

    return call


@shared
def a_robot_of_six_joints() -> Call:
    robot = lb.models.puma560()

    def call(i: int) -> Any:
        q, v = state(6, i, 200)
        return robot.forward_dynamics(q, v, v, threads=1 + i % 2), robot.pose(
            q[0], robot.tree.bodies[-1].name
        )

    return call


@shared
def a_robot_with_parameters() -> Call:
    robot = lb.models.double_pendulum()
    mass = f"{robot.tree.bodies[-1].name}.mass"
    free = robot.with_parameters({mass: 1.0})

    def call(i: int) -> Any:
        q, v = state(2, i)
        return [free.inverse_dynamics(q, v, v, parameters={mass: 1.0 + i}), free.gravity(q)]

    return call


@shared
def a_kernel_and_its_derivatives() -> Call:
    robot = lb.models.double_pendulum()
    kernel, slope = robot.kernel("inverse_dynamics"), robot.derivatives("forward_dynamics")
    values, _ = slope.nonzeros()

    def call(i: int) -> Any:
        q, v = state(2, i, *((), (70,), (300,))[i % 3])
        out = np.empty(q.shape)
        return kernel(q, v, v, out=out), kernel.call(q, v, v), slope(q, v, v), values(q, v, v)

    return call


@shared
def a_kernel_of_single_precision() -> Call:
    kernel = lb.models.puma560().kernel("mass_matrix", dtype=np.float32)
    return lambda i: kernel(state(6, i, 100)[0])


@shared
def a_buffer() -> Call:
    buffer = lb.models.puma560().kernel("mass_matrix").buffer(500)
    return lambda i: buffer(state(6, i, 500)[0]).copy()


@shared
def a_traced_function() -> Call:
    kernel = lb.compiler.Kernel(lambda: lb.compiler.trace(lambda x: np.sin(x) @ x, {"x": 4}, "f"))
    return lambda i: kernel(rng(i).normal(size=(20, 4)))


@shared
def equations_of_a_robot() -> Call:
    found = lb.equations(lb.models.double_pendulum())
    parts = ("M", "C", "g")
    return lambda i: (found.latex(parts[i % 3]), found.c(parts[i % 3]))


@shared
def symmetries_of_a_robot() -> Call:
    robot = lb.models.heavy_top()
    found = lb.symmetries(robot)
    return lambda i: found.momenta(robot.random(rng(i)), rng(i).normal(size=3))


@shared
def inverse_kinematics() -> Call:
    robot = lb.models.puma560()
    tip = robot.tree.bodies[-1].name

    def call(i: int) -> Any:
        q = state(6, i)[0]
        return lb.inverse_kinematics(robot, {tip: robot.pose(q, tip)}, q + 0.1, restarts=1, rng=i).q

    return call


@shared
def linearization() -> Call:
    robot = lb.models.double_pendulum()

    def call(i: int) -> Any:
        linear = lb.linearize(robot, state(2, i)[0])
        return linear.A, linear.B, lb.lqr(linear, np.eye(4), np.eye(2)).K

    return call


@shared
def a_rigid_body() -> Call:
    body = RigidBody(SO3, np.diag([1.0, 2.0, 3.0]))

    def call(i: int) -> Any:
        v = rng(i).normal(size=3)
        x0 = np.concatenate([SO3.neutral(), v])
        return lb.solve_ivp(body.vector_field(), (0.0, 0.2), x0, body.state_group, rtol=1e-6).q

    return call


@shared
def a_vector_field() -> Call:
    def field(t: float, y: Any) -> Any:
        return np.array([np.sin(t), 1.0, 0.3 * t])

    return lambda i: lb.solve_ivp(field, (0.0, 0.5 + 0.1 * i), SO3.neutral(), SO3, method="rkmk45").q


@shared
def groups() -> Call:
    return lambda i: (SO3.exp(rng(i).normal(size=3)), SO3.integrate(SO3.neutral(), rng(i).normal(size=3)))


# -- simulations --------------------------------------------------------------------------------------------

METHODS = ("rkmk4", "cf4", "generalized-alpha", "radau5", "variational", "half-explicit4")


def simulations(method: str) -> Call:
    robot = lb.models.double_pendulum()

    def call(i: int) -> Any:
        q, v = state(2, i, *((), (5,))[i % 2])
        run = lb.simulate(
            robot, q, v, t_end=0.05, dt=1e-3, method=method, tau=np.ones(2) * i, threads=1 + i % 2
        )
        return run.q, run.v, run.energy

    return call


for _method in METHODS:
    MAKERS[f"simulations by {_method}"] = lambda method=_method: simulations(method)


@shared
def simulations_under_error_control() -> Call:
    robot = lb.models.heavy_top()

    def call(i: int) -> Any:
        method = ("rkmk45", "radau5", "gauss4")[i % 3]
        run = lb.simulate(robot, robot.random(rng(i)), rng(i).normal(size=3), t_end=0.1, method=method)
        return run.q, run.v

    return call


@shared
def simulations_with_events_and_a_controller() -> Call:
    robot = lb.models.double_pendulum()

    def tau(t: Any, q: Any, v: Any) -> Any:
        return robot.gravity(q) - 3.0 * v

    events = {"level": lambda t, q, v: q[0]}

    def call(i: int) -> Any:
        run = lb.simulate(robot, *state(2, i, 3), t_end=0.5, dt=1e-3, tau=tau, events=events)
        return run.q, run.tau, [log.t for log in run.events]

    return call


@shared
def one_run() -> Call:
    run = lb.simulate(lb.models.double_pendulum(), [1.0, 0.5], t_end=0.2, dt=1e-3, tau=[0.1, 0.2])
    names = ("energy", "tau", "work_done", "kinetic", "potential", "q", "v", "t")
    return lambda i: getattr(run, names[i])


def closed_loop() -> lb.System:
    builder = lb.SystemBuilder("four-bar")
    for name, length in (("crank", 0.3), ("coupler", 0.8), ("rocker", 0.7)):
        builder.body(name, lb.SpatialInertia(1.0, rotational=np.diag([0.01, 0.02, 0.02]) * length))
    joint = Revolute([0, 1, 0])
    builder.joint("a", joint, "world", "crank", [0, 0, 0], [-0.15, 0, 0], driven=True)
    builder.joint("b", joint, "crank", "coupler", [0.15, 0, 0], [-0.4, 0, 0])
    builder.joint("c", joint, "coupler", "rocker", [0.4, 0, 0], [0.35, 0, 0])
    builder.joint("d", joint, "rocker", "world", [-0.35, 0, 0], [0.6, 0, 0])
    return builder.build()


@shared
def a_system_with_constraints() -> Call:
    system = closed_loop()

    def call(i: int) -> Any:
        method = ("rkmk4", "generalized-alpha", "radau5")[i % 3]
        run = lb.simulate(system, t_end=0.02, dt=1e-3, method=method, tau=[0.1 * i])
        return run.q, run.v, run.multipliers

    return call


@shared
def a_system_in_absolute_coordinates() -> Call:
    robot = lb.models.double_pendulum()
    tree = AbsoluteTree(robot.tree, gravity=robot.gravity_vector)

    def call(i: int) -> Any:
        q0, v0 = tree.to_system(*state(2, i))
        return lb.simulate(tree.system, q0, v0, t_end=0.02, dt=1e-3).q

    return call


# -- steppers -----------------------------------------------------------------------------------------------


def steps_of(sim: Any, start: Any, n: int, i: int) -> Any:
    """Twenty steps with efforts of its own."""
    u, at = rng(i).normal(size=(20, n)), start
    for row in u:
        at = sim.step(at, row)
    return at.q, at.v, at.t


def steppers(method: str, members: Any, **options: Any) -> Call:
    robot = lb.models.double_pendulum()
    sim = lb.stepper(robot, dt=2e-3, method=method, members=members, **options)

    def call(i: int) -> Any:
        return steps_of(sim, sim.start(*state(2, i, *(() if members is None else (members,)))), 2, i)

    return call


for _method in METHODS:
    for _members in (None, 5):
        MAKERS[f"a stepper by {_method}, members {_members}"] = (
            lambda method=_method, members=_members: steppers(method, members)
        )  # fmt: skip
MAKERS["a stepper with events"] = lambda: steppers("rkmk4", 3, events={"level": lambda t, q, v: q[0]})
MAKERS["a stepper with threads"] = lambda: steppers("rkmk4", 40, threads=2)


@shared
def a_stepper_of_a_closed_loop() -> Call:
    sim = lb.stepper(closed_loop(), dt=1e-3)
    start = sim.start()

    def call(i: int) -> Any:
        at = start
        for _ in range(10):
            at = sim.step(at, [0.5 * i])
        return at.q, at.v

    return call


@shared
def a_stepper_that_is_copied_and_sent() -> Call:
    sim = lb.stepper(lb.models.double_pendulum(), dt=2e-3)

    def call(i: int) -> Any:
        begun = sim.step(sim.start(*state(2, i)), [0.1, i])
        other, sent = pickle.loads(pickle.dumps((sim, begun)))
        return steps_of(copy.deepcopy(sim), copy.deepcopy(begun), 2, i), steps_of(other, sent, 2, i)

    return call


@shared
def the_function_of_a_stepper() -> Call:
    kernel = lb.compiler.Kernel(lb.stepper(lb.models.double_pendulum(), dt=2e-3).function())
    return lambda i: kernel(0.0, *state(2, i), [0.1, 0.2])


# -- hybrid systems -----------------------------------------------------------------------------------------


def bouncing_ball() -> HybridSystem:
    def update(t: Any, q: Any, v: Any, z: Any, p: Any, happened: Any) -> Any:
        hit = happened.floor < 0
        return (
            q,
            np.array([scalars.where(hit, -p.e * v[0], v[0])]),
            z._replace(hits=z.hits + scalars.where(hit, 1.0, 0.0)),
        )

    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-9.81 - 0.1 * v[0]]),
        memory={"hits": 0.0},
        parameters={"e": 0.7},
        guards=lambda t, q, v, z, p: {"floor": q[0]},
        update=update,
        outputs=lambda t, q, v, z, p: {"height": q[0]},
        name="ball",
    )


@shared
def a_hybrid_system() -> Call:
    system = bouncing_ball()

    def call(i: int) -> Any:
        heights = 0.5 + rng(i).random(((1,), (6, 1))[i % 2])
        run = system.simulate(
            heights, t_end=1.0, dt=1e-2, parameters={"e": 0.5 + 0.05 * i}, threads=1 + i % 2
        )
        return run.q, run.memory["hits"], run.outputs["height"]

    return call


@shared
def a_hybrid_stepper() -> Call:
    sim = lb.stepper(bouncing_ball(), dt=0.02, members=4)

    def call(i: int) -> Any:
        at = sim.start(0.2 + rng(i).random((4, 1)))
        for k in range(20):
            at = sim.step(copy.deepcopy(at), {"e": 0.5 + 0.01 * k})
        return at.q, at.v, at.memory.hits

    return call


def leg() -> lb.Robot:
    return lb.models.two_joint_hopper()


@shared
def a_robot_with_contacts() -> Call:
    drive = JointPD(12.0, np.array([-0.35, 0.7]), 0.15)
    system = robot_system(leg(), drive, Contact("foot", stiffness=5e3, damping=20.0, friction=1.0))
    q = np.array([0.0, 0.0, 0.23, -0.35, 0.7])
    return lambda i: system.simulate(q + 0.01 * rng(i).random(5), t_end=0.1, record_every=0.05).q


@shared
def time_stepping() -> Call:
    system = TimeStepping(leg(), Contact("foot", stiffness=1e4, damping=1e2, friction=0.8))
    q = np.array([0.0, 0.0, 0.23, -0.35, 0.7])
    sim = lb.stepper(system, dt=2e-3)

    def call(i: int) -> Any:
        start = q + 0.01 * rng(i).random(5)
        at = sim.start(start)
        for _ in range(10):
            at = sim.step(at)
        return at.q, system.simulate(start, t_end=0.05, dt=1e-3, record_every=0.01).q

    return call


# -- optimisation, gaits ------------------------------------------------------------------------------------

GOAL = np.array([0.7, -0.4])


def problem(**options: Any) -> Any:
    def stage(q: Any, v: Any, u: Any) -> Any:
        return np.concatenate([q - GOAL, 0.3 * v, 0.1 * u])

    chosen = {"dt": 0.04, "method": "semi-implicit-euler", "limits": 40.0, **options}
    return lb.optimal_control(lb.models.double_pendulum(), stage=stage, **chosen)


def told(plan: Any) -> Any:
    return plan.q, plan.v, plan.u, plan.cost, plan.gains, plan.converged, plan.iterations


@shared
def optimal_control() -> Call:
    made = problem()
    return lambda i: told(made.solve(*state(2, i), knots=12 + i % 2, iterations=20))


@shared
def optimal_control_with_constraints() -> Call:
    made = problem(terminal_constraints=[(lambda q, v: q[0], -0.2, 0.2)], hessian="exact")
    return lambda i: told(made.solve(0.3 * state(2, i)[0], knots=8, iterations=10))


@shared
def predictive_control() -> Call:
    """The problem is shared; a controller follows one motion, so `simulate` begins without a plan."""
    made = problem()
    controller = made.mpc(8)

    def call(i: int) -> Any:
        own, (q, v) = made.mpc(8), state(2, i)
        first = own(q, v), own(q, v)
        return first, controller.simulate(q, v, t_end=0.2)

    return call


@shared
def sensitivities() -> Call:
    robot = lb.models.double_pendulum()
    kept = lb.sensitivities(robot, [0.3, 0.1], t_end=0.02, dt=1e-3)

    def call(i: int) -> Any:
        found = lb.sensitivities(robot, *state(2, i), t_end=0.02, dt=1e-3)
        both = (
            found.tangents("q0"),
            found.vjp(v=np.ones(found.run.v.shape)),
            kept.tangents(("q0", "v0")[i % 2]),
        )
        return [[x for x in one if isinstance(x, np.ndarray)] for one in both]

    return call


def oscillator() -> HybridSystem:
    def field(t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        return np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]])

    return HybridSystem(R(1), field, parameters={"mu": 1.0}, name="van der Pol")


@shared
def periodic_orbits() -> Call:
    system = oscillator()

    def call(i: int) -> Any:
        mu = {"mu": 0.9 + 0.02 * i}
        orbit = gaits.periodic_orbit(system, [2.0], [0.1], period=6.5, dt=0.02, parameters=mu)
        return orbit.q, orbit.v, orbit.period, gaits.floquet(orbit).values, orbit.simulate(0.5).q

    return call


@shared
def an_orbit() -> Call:
    orbit = gaits.periodic_orbit(oscillator(), [2.0], [0.1], period=6.5, dt=0.02)
    return lambda i: (gaits.floquet(orbit).values, orbit.simulate(0.1 * (1 + i)).q, orbit.stable)


@shared
def continuation() -> Call:
    orbit = gaits.periodic_orbit(oscillator(), [2.0], [0.1], period=6.5, dt=0.02)

    def call(i: int) -> Any:
        branch = gaits.continuation(orbit, "mu", step=0.02, bounds=(0.95, 1.0 + 0.01 * (1 + i % 4)))
        return [(x.q, x.v, x.period) for x in branch.orbits]

    return call


@shared
def a_tube() -> Call:
    tube = lb.enclose(lb.models.double_pendulum(), [(1.0, 1.001), 0.5], [0.0, 0.0], 0.4)

    def call(i: int) -> Any:
        return [tube.at([0.05 * i, 0.4]), tube.bounds(lambda t, q, v: i * scalars.sin(q[0]) + v)]

    return call


# -- for other programs -------------------------------------------------------------------------------------


def functions_of_jax() -> Call:
    import jax

    import liebody.interop.jax

    jax.config.update("jax_enable_x64", True)
    robot = lb.models.double_pendulum()
    f = jax.jit(liebody.interop.jax.function(robot.kernel("forward_dynamics")))
    return lambda i: np.asarray(f(*state(2, i), np.ones(2)))


def functions_of_casadi() -> Call:
    f = lb.models.double_pendulum().to_casadi("forward_dynamics")
    plain = lb.models.double_pendulum().to_casadi("forward_dynamics", compiled=False)
    return lambda i: [np.asarray(g(*state(2, i), np.ones(2))) for g in (f, plain)]


def an_environment() -> Call:
    """An environment is one episode: threads have one each, of one task."""
    import liebody.interop.gym

    task = liebody.interop.gym.Hopper()

    def call(i: int) -> Any:
        env, rewards = liebody.interop.gym.Env(task), []
        env.reset(seed=i)
        for _ in range(3):
            rewards.append(env.step(np.full(2, 0.1 * i, np.float32))[:2])
        return rewards

    return call


for _name, _maker in (
    ("jax", functions_of_jax),
    ("casadi", functions_of_casadi),
    ("gymnasium", an_environment),
):
    if importlib.util.find_spec(_name) is None:  # to import JAX changes what garbage collection calls
        continue
    MAKERS[_maker.__name__.replace("_", " ")] = _maker

# -- cases --------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit for bit."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(x, b[name]) for name, x in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, str | bool) or a is None:
        return bool(a == b)
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


used: dict[str, tuple[Call, list[Any]]] = {}


def alone(name: str) -> tuple[Call, list[Any]]:
    """An object that one thread has used, and what it got."""
    if name not in used:
        call = MAKERS[name]()
        used[name] = call, [call(i) for i in range(INPUTS)]
    return used[name]


def attack(name: str, fresh: bool, rounds: int, random: Any) -> None:
    """Call an object in threads; AssertionError where one gets something else than it gets alone."""
    call, expected = alone(name)
    call = MAKERS[name]() if fresh else call
    orders = [random.choices(range(INPUTS), k=rounds) for _ in range(THREADS)]
    wrong: list[str] = []
    barrier = threading.Barrier(THREADS)

    def work(order: list[int]) -> None:
        barrier.wait()
        for i in order:
            try:
                if not same(call(i), expected[i]):
                    wrong.append(f"input {i} has another result than in one thread")
            except Exception as error:
                wrong.append(f"input {i}: {type(error).__name__}: {error}")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(order,)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong, f"{name}: {len(wrong)} of {THREADS * rounds}: {wrong[0]}"


def case(random: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attack(random.choice(list(MAKERS)), random.random() < 0.2, random.choice([1, 2, 4]), random)


if __name__ == "__main__":
    main(case)
