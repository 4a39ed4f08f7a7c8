"""Joints that follow functions of time: in robots, in trees with closed loops, in systems of bodies."""

import functools

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, IntegrationError, ModelError
from liebody.bodies import Joint, Mimic
from liebody.groups import Cylindrical, Prismatic, Revolute, Spherical
from liebody.mechanisms import JointFriction, OpenTree
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Closure
from liebody.scalars import absolute, sin, sqrt, where

HINGE = Revolute([0, -1, 0])  # angles turn x to z
R, L = 0.1, 0.35  # crank and rod [m]
MASSES = 1.0, 2.0, 0.7  # of crank, rod and piston
G = 9.81


def rod(mass, length):
    return lb.SpatialInertia.rod(mass, length, com=[length / 2, 0, 0])


def crank_angle(t):
    return 0.4 + 10 * t + 0.3 * sin(5 * t)


def slider_crank_tree():
    piston = lb.SpatialInertia(MASSES[2], rotational=1e-3 * np.eye(3))
    builder = lb.TreeBuilder("slider-crank").add("crank", HINGE, rod(MASSES[0], R))
    builder.add("rod", HINGE, rod(MASSES[1], L), "crank", [R, 0, 0])
    return builder.add("piston", Prismatic([1, 0, 0]), piston).frame("end", "rod", [L, 0, 0]).build()


def slider_crank_builder():
    piston = lb.SpatialInertia(MASSES[2], rotational=1e-3 * np.eye(3))
    b = lb.SystemBuilder("slider-crank")
    b.body("crank", rod(MASSES[0], R)).body("rod", rod(MASSES[1], L)).body("piston", piston)
    b.joint("crank", HINGE, "world", "crank").joint("rod", HINGE, "crank", "rod", on_parent=[R, 0, 0])
    b.joint("piston", Prismatic([1, 0, 0]), "world", "piston")
    return b.joint("pin", HINGE, "rod", "piston", on_parent=[L, 0, 0])


@functools.cache
def slider_crank_runs():
    """Runs of the driven slider-crank: a tree with a closed loop, and a system of bodies."""
    options = {"t_end": 1.0, "dt": 1e-3}
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    system = slider_crank_builder().drive("crank", crank_angle).build()
    return {
        "ClosedTree": lb.simulate(closed, **options, prescribed={"crank": crank_angle}),
        "System": lb.simulate(system, **options),
    }


@functools.cache
def crank_effort():
    """The effort of the crank as a function of its angle, rate and acceleration, by Lagrange's equation."""
    a, w, alpha = sympy.symbols("a w alpha")
    m1, m2, m3 = MASSES
    lean = -sympy.asin(R * sympy.sin(a) / L)  # of the rod
    x = R * sympy.cos(a) + L * sympy.cos(lean)  # of the piston
    middle = sympy.Matrix([R * sympy.cos(a) + L / 2 * sympy.cos(lean), R * sympy.sin(a) / 2])
    rates = [f.diff(a) * w for f in (lean, x, *middle)]
    kinetic = m1 * R**2 / 6 * w**2 + m2 * L**2 / 24 * rates[0] ** 2
    kinetic += m2 / 2 * (rates[2] ** 2 + rates[3] ** 2) + m3 / 2 * rates[1] ** 2
    potential = G * (m1 * R / 2 * sympy.sin(a) + m2 * middle[1])
    momentum = kinetic.diff(w)
    effort = momentum.diff(a) * w + momentum.diff(w) * alpha - (kinetic - potential).diff(a)
    return sympy.lambdify((a, w, alpha), effort, "numpy")


@pytest.mark.parametrize("kind", ["ClosedTree", "System"])
def test_a_driven_slider_crank_moves_as_its_closed_form(kind):
    run = slider_crank_runs()[kind]
    t = run.t
    a, w = 0.4 + 10 * t + 0.3 * np.sin(5 * t), 10 + 1.5 * np.cos(5 * t)
    lean = -np.arcsin(R * np.sin(a) / L)
    leaning = -R * np.cos(a) * w / (L * np.cos(lean))
    assert np.abs(run.joints["crank"] - a).max() < 1e-14
    assert np.abs(run.joints["rod"] - (lean - a)).max() < 1e-13
    assert np.abs(run.joints["piston"] - (R * np.cos(a) + L * np.cos(lean))).max() < 1e-13
    assert np.abs(run.joint_rates["crank"] - w).max() < 1e-12
    assert np.abs(run.joint_rates["rod"] - (leaning - w)).max() < 1e-12
    speed = -R * np.sin(a) * w - L * np.sin(lean) * leaning
    assert np.abs(run.joint_rates["piston"] - speed).max() < 1e-12


@pytest.mark.parametrize("kind", ["ClosedTree", "System"])
def test_the_effort_of_a_driven_crank_is_that_of_lagranges_equation(kind):
    run = slider_crank_runs()[kind]
    t = run.t
    expected = crank_effort()(
        0.4 + 10 * t + 0.3 * np.sin(5 * t), 10 + 1.5 * np.cos(5 * t), -7.5 * np.sin(5 * t)
    )
    # absolute coordinates give thin rods a slight inertia about their axes
    assert np.abs(run.effort("crank") - expected).max() < 1e-10
    assert np.ptp(expected) > 1.0


@pytest.mark.parametrize("kind", ["ClosedTree", "System"])
def test_the_work_of_a_drive_balances_the_energy(kind):
    run = slider_crank_runs()[kind]
    assert run.energy_drift < 1e-8  # the rule of order four that integrates the power
    assert np.ptp(run.energy) > 0.5 * run.kinetic.max()


def test_a_crank_that_drives_leaves_no_freedom():
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    assert closed.report().freedom == 1
    assert closed.with_prescribed({"crank": crank_angle}).report().freedom == 0
    assert slider_crank_builder().build().report().freedom == 1
    assert slider_crank_builder().drive("crank", crank_angle).build().report().freedom == 0


@pytest.mark.parametrize("method", ["radau5", "half-explicit4"])
def test_implicit_methods_take_drives_of_closed_trees(method):
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    run = lb.simulate(closed, t_end=0.5, dt=1e-3, method=method, prescribed={"crank": crank_angle})
    assert np.abs(run.q - slider_crank_runs()["ClosedTree"].q[: len(run.t)]).max() < 1e-10


def test_a_driven_slide_follows_its_function_in_absolute_coordinates():
    """The piston drives the crank: positions near the middle, away from the dead centres."""
    system = slider_crank_builder().drive("piston", lambda t: 0.35 + 0.05 * sin(4 * t)).build()
    q = system.assemble(system.configuration({"crank": HINGE.pose(np.array([1.2]))}))
    run = lb.simulate(system, q, t_end=0.5, dt=1e-3)
    x = 0.35 + 0.05 * np.sin(4 * run.t)
    assert np.abs(run.joints["piston"] - x).max() < 1e-13
    assert np.abs(run.joint_rates["piston"] - 0.2 * np.cos(4 * run.t)).max() < 1e-12
    cosine = (R**2 + x**2 - L**2) / (2 * R * x)  # the law of cosines
    assert np.abs(np.cos(run.joints["crank"]) - cosine).max() < 1e-12
    assert run.energy_drift < 1e-8


# -- robots -------------------------------------------------------------------------------------------------

FIRST, SECOND = 0.8, 0.6  # lengths of the arm [m]


def two_link_arm():
    builder = lb.TreeBuilder("arm").add("shoulder", HINGE, rod(1.5, FIRST))
    return lb.Robot(builder.add("elbow", HINGE, rod(1.0, SECOND), "shoulder", [FIRST, 0, 0]).build())


def wave(t):
    return 0.3 + 0.8 * sin(3 * t)


@functools.cache
def lagrange():
    """Efforts (shoulder, elbow) of the arm as functions of angles, rates and accelerations, by Lagrange."""
    q, v, a = (sympy.symbols(f"{x}1:3") for x in "qva")
    ends = sympy.Matrix([sympy.cos(q[0]), sympy.sin(q[0])])
    direction = sympy.Matrix([sympy.cos(q[0] + q[1]), sympy.sin(q[0] + q[1])])
    centers = [FIRST / 2 * ends, FIRST * ends + SECOND / 2 * direction]
    turning = [v[0], v[0] + v[1]]
    kinetic, potential = 0, 0
    for m, length, c, w in zip((1.5, 1.0), (FIRST, SECOND), centers, turning, strict=True):
        u = c.jacobian(q) * sympy.Matrix(v)
        kinetic += m / 2 * u.dot(u) + m * length**2 / 24 * w**2
        potential += m * G * c[1]
    efforts = []
    for i in range(2):
        p = kinetic.diff(v[i])
        rate = sum(p.diff(q[k]) * v[k] + p.diff(v[k]) * a[k] for k in range(2))
        efforts.append(rate - (kinetic - potential).diff(q[i]))
    return sympy.lambdify((q, v, a), efforts, "numpy")


def motion_of_elbow(t_eval):
    """The elbow's angle and rate while the shoulder follows `wave`, by Lagrange's equation and SciPy."""

    def rates(t, y):
        q, v = (0.3 + 0.8 * np.sin(3 * t), y[0]), (2.4 * np.cos(3 * t), y[1])
        alpha = -7.2 * np.sin(3 * t)
        still, moving = (lagrange()(q, v, (alpha, x))[1] for x in (0.0, 1.0))
        return y[1], -still / (moving - still)

    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-13, "t_eval": t_eval}
    return solve_ivp(rates, (0, t_eval[-1]), [0.5, 0.0], **options).y


def test_an_arm_with_a_prescribed_shoulder_obeys_lagranges_equations():
    run = lb.simulate(
        two_link_arm(), {"elbow": 0.5}, t_end=2.0, dt=1e-3, method="rkmk8", prescribed={"shoulder": wave}
    )
    t = run.t
    angle, rate = motion_of_elbow(t)
    assert np.abs(run.q[:, 1] - angle).max() < 1e-9
    assert np.abs(run.v[:, 1] - rate).max() < 1e-9
    shoulder = 0.3 + 0.8 * np.sin(3 * t), 2.4 * np.cos(3 * t), -7.2 * np.sin(3 * t)
    state = zip(shoulder, (angle, rate, np.zeros_like(t)), strict=True)
    q, v, a = state
    still, moving = (np.array(lagrange()(q, v, (a[0], x + a[1]))) for x in (0.0, 1.0))
    acceleration = -still[1] / (moving - still)[1]
    expected = still[0] + (moving - still)[0] * acceleration
    assert np.abs(run.effort("shoulder") - expected).max() < 1e-7
    assert not run.effort("elbow").any()


@pytest.mark.parametrize("method", ["rkmk2", "rkmk4", "rkmk8", "rkmk45", "cf4"])
def test_prescribed_joints_are_where_their_functions_say_to_round_off(method):
    options = {} if method == "rkmk45" else {"dt": 1e-2}
    run = lb.simulate(two_link_arm(), t_end=2.0, method=method, prescribed={"shoulder": wave}, **options)
    assert np.abs(run.q[:, 0] - (0.3 + 0.8 * np.sin(3 * run.t))).max() < 1e-15
    assert np.abs(run.v[:, 0] - 2.4 * np.cos(3 * run.t)).max() < 2e-15


@pytest.mark.parametrize(("method", "order"), [("rkmk2", 2), ("rkmk4", 4), ("cf4", 4)])
def test_other_joints_keep_the_order_of_the_method(method, order):
    exact = motion_of_elbow(np.array([0.0, 1.0]))[0, -1]
    errors = []
    for dt in (1 / 50, 1 / 100):
        run = lb.simulate(
            two_link_arm(), {"elbow": 0.5}, t_end=1.0, dt=dt, method=method, prescribed={"shoulder": wave}
        )
        errors.append(abs(run.q[-1, 1] - exact))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3


def test_a_robot_that_is_prescribed_altogether_has_the_efforts_of_inverse_dynamics():
    robot = two_link_arm()
    run = lb.simulate(
        robot, t_end=1.0, dt=1e-2, prescribed={"elbow": lambda t: 0.2 * t * t, "shoulder": wave}
    )
    t = run.t
    a = np.stack([-7.2 * np.sin(3 * t), np.full_like(t, 0.4)], axis=-1)
    q = np.stack([0.3 + 0.8 * np.sin(3 * t), 0.2 * t * t], axis=-1)
    v = np.stack([2.4 * np.cos(3 * t), 0.4 * t], axis=-1)
    assert np.abs(run.q - q).max() < 1e-15
    assert np.abs(run.tau - robot.inverse_dynamics(q, v, a)).max() < 1e-13


def test_work_of_drives_forces_and_efforts_balances_the_energy_to_the_order_of_the_method():
    options = {"t_end": 1.0, "prescribed": {"shoulder": wave}, "tau": lambda t, q, v: -0.5 * v}
    forces = [JointFriction(0.2, v_s=0.5)]
    drifts = [
        lb.simulate(two_link_arm(), {"elbow": 0.5}, dt=dt, forces=forces, **options).energy_drift
        for dt in (0.02, 0.01)
    ]
    assert drifts[1] < 1e-6
    assert np.log2(drifts[0] / drifts[1]) > 3.5


def test_the_momentum_of_a_free_robot_does_not_feel_a_prescribed_joint():
    robot = lb.models.space_robot()
    name = robot.tree.bodies[2].joint.name
    run = lb.simulate(robot, t_end=1.0, dt=1e-2, prescribed={name: lambda t: 0.7 * sin(t) ** 3})
    assert np.abs(run.joints[name] - 0.7 * np.sin(run.t) ** 3).max() < 1e-15
    momentum = robot.centroidal_momentum(run.q, run.v)
    base = np.abs(run.v[..., :6]).max()
    assert base > 1e-4  # it moves
    assert np.abs(momentum).max() < 1e-8 * base * robot.tree.mass


def test_a_joint_with_two_coordinates_follows_two_functions():
    builder = lb.TreeBuilder("screwdriver").add("bit", Cylindrical([0, 0, 1]), rod(1.0, 0.2))
    robot = lb.Robot(builder.add("arm", HINGE, rod(1.0, 0.3), "bit").build())
    run = lb.simulate(
        robot, t_end=1.0, dt=1e-2, prescribed={"bit": lambda t: np.array([sin(2 * t), 0.1 * t * t])}
    )
    t = run.t
    assert np.abs(run.q[:, :2] - np.stack([np.sin(2 * t), 0.1 * t * t], axis=-1)).max() < 1e-15
    assert run.effort("bit").shape == (101, 2)
    assert run.energy_drift < 1e-6


def test_followers_of_a_prescribed_joint_move_along():
    builder = lb.TreeBuilder("gripper").add("left", Joint("left", Prismatic([0, 1, 0])), rod(0.1, 0.05))
    right = Joint("right", Prismatic([0, 1, 0]), mimic=Mimic("left", -1.0))
    robot = lb.Robot(builder.add("right", right, rod(0.1, 0.05)).build())
    run = lb.simulate(robot, t_end=1.0, dt=0.1, prescribed={"left": lambda t: 0.01 * t * t})
    assert np.abs(run.effort("left") - 0.2 * 0.02).max() < 1e-15  # both masses
    with pytest.raises(ModelError, match=r"joint 'right' follows 'left'; prescribe 'left' instead"):
        lb.simulate(robot, t_end=1.0, dt=0.1, prescribed={"right": lambda t: t})


def test_long_trees_have_prescribed_joints():
    chain = lb.models.planar_chain(40)
    name = chain.tree.bodies[0].joint.name
    run = lb.simulate(chain, t_end=0.02, dt=1e-3, prescribed={name: lambda t: 0.5 * t * t})
    assert np.abs(run.q[:, 0] - 0.5 * run.t**2).max() < 1e-15
    assert run.energy_drift < 1e-6
    assert np.abs(run.tau[:, 1:]).max() == 0.0 < np.abs(run.tau[:, 0]).min()


def test_members_have_their_own_parameters_in_functions_of_time():
    arm, amplitudes = two_link_arm(), np.array([0.1, 0.5, 1.0])
    run = lb.simulate(
        arm,
        t_end=1.0,
        dt=1e-2,
        prescribed={"shoulder": lambda t, p: p.A * sin(p.w * t)},
        parameters={"A": amplitudes, "w": 3.0},
    )
    assert np.abs(run.q[..., 0] - amplitudes[:, None] * np.sin(3 * run.t)).max() < 1e-15
    assert np.abs(run.v[:, 0, 0] - 3 * amplitudes).max() < 1e-15
    alone = lb.simulate(arm, t_end=1.0, dt=1e-2, prescribed={"shoulder": lambda t: 0.5 * sin(3.0 * t)})
    assert np.abs(alone.q - run.q[1]).max() < 1e-13
    assert np.abs(alone.tau - run.tau[1]).max() < 1e-12
    assert np.abs(run.member(1).effort("shoulder") - run.effort("shoulder")[1]).max() == 0


def test_members_of_closed_trees_have_their_own_parameters_in_functions_of_time():
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    run = lb.simulate(
        closed,
        t_end=0.2,
        dt=1e-3,
        prescribed={"crank": lambda t, p: 0.4 + p.rate * t},
        parameters={"rate": [5.0, 10.0]},
    )
    expected = 0.4 + np.array([[5.0], [10.0]]) * run.t
    assert np.abs(run.q[..., 0] - expected).max() < 1e-14
    x = R * np.cos(expected) + np.sqrt(L**2 - (R * np.sin(expected)) ** 2)
    assert np.abs(run.q[..., 2] - x).max() < 1e-13
    assert np.abs(run.v[:, 0, 0] - [5.0, 10.0]).max() < 1e-13


def test_a_stepper_takes_the_steps_of_the_run():
    arm, options = two_link_arm(), {"dt": 1e-3, "prescribed": {"shoulder": wave}}
    run = lb.simulate(arm, {"elbow": 0.5}, t_end=0.1, **options)
    sim = lb.stepper(arm, **options)
    state = sim.start({"elbow": 0.5})
    for _ in range(100):
        state = sim.step(state)
    assert np.array_equal(state.q, run.q[-1])
    assert np.array_equal(state.v, run.v[-1])


def test_motions_start_where_the_functions_say():
    options = {"t_end": 0.01, "dt": 1e-3, "prescribed": {"shoulder": wave}}
    run = lb.simulate(two_link_arm(), {"elbow": [0.1, 0.2]}, {"elbow": 1.0}, **options)
    assert np.array_equal(run.q[:, 0], [[0.3, 0.1], [0.3, 0.2]])
    assert np.allclose(run.v[:, 0], [[2.4, 1.0], [2.4, 1.0]], rtol=0, atol=1e-15)
    again = lb.simulate(two_link_arm(), run.q[:, 0], run.v[:, 0], **options)
    assert np.array_equal(again.q, run.q)


def test_functions_that_compute_the_same_share_compiled_steps_and_others_do_not():
    arm = two_link_arm()
    ends = [
        lb.simulate(arm, t_end=0.1, dt=1e-2, prescribed={"shoulder": lambda t, k=k: k * t * t}).q[-1, 0]
        for k in (1.0, 2.0, 1.0)
    ]
    assert np.allclose(ends, [0.01, 0.02, 0.01], rtol=0, atol=1e-17)
    plain = lb.simulate(arm, t_end=0.1, dt=1e-2)  # and the robot itself stays free
    assert abs(plain.q[-1, 0]) > 0.03


def test_events_and_interpolated_efforts_see_prescribed_joints():
    run = lb.simulate(
        two_link_arm(),
        t_end=1.0,
        dt=1e-2,
        prescribed={"shoulder": wave},
        events={"half": lambda t, q, v: q[0] - 0.5},
    )
    assert np.abs(0.3 + 0.8 * np.sin(3 * run.events.t) - 0.5).max() < 1e-12
    assert len(run.events.t) == 2


# -- the door -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prescribed", "error", "words"),
    [
        ({"wrist": wave}, ModelError, "no joint called 'wrist'; known are shoulder, elbow"),
        ({"elbow": 3.0}, ModelError, "joint 'elbow' is 3.0, expected a function of time"),
        ({"elbow": lambda t, q, v: t}, ArgumentError, r"has to be a function of \(t\)"),
        ({"elbow": lambda t, p: p.A * t}, IntegrationError, "takes parameters, and there are none"),
        ({"elbow": lambda t: np.array([t, t])}, ModelError, r"shape \(2,\), expected a number"),
        ({"elbow": lambda t: 1.0 if t < 1 else 0.0}, ModelError, "cannot be differentiated twice"),
        ({"elbow": lambda t: np.interp(t, [0, 1], [0, 1])}, ModelError, "cannot be differentiated twice"),
        ({"elbow": lambda t: where(t < 0.5, t, 0.5)}, ModelError, "rate .* jumps by 1 at t = 0.5 s"),
        ({"elbow": lambda t: absolute(sin(4 * t))}, ModelError, "jumps by 8 at t = 0.785398 s"),
        (
            {"elbow": lambda t: where(t < 0.3, 0.0, 2.0)},
            ModelError,
            "the function .* jumps by 2 at t = 0.3 s",
        ),
        ({"elbow": lambda t: t * sqrt(t)}, ModelError, "not finite at t = 0 s"),
    ],
)
def test_functions_of_time_are_refused_at_the_door(prescribed, error, words):
    with pytest.raises(error, match=words):
        lb.simulate(two_link_arm(), t_end=1.0, dt=1e-2, prescribed=prescribed)


def test_a_smooth_step_of_pieces_is_taken():
    def step(t):
        s = where(t < 0.2, 0.0, where(t < 0.7, (t - 0.2) / 0.5, 1.0))
        return s * s * s * (10 + s * (6 * s - 15))

    run = lb.simulate(two_link_arm(), t_end=1.0, dt=1e-3, prescribed={"elbow": step})
    assert run.q[0, 1] == run.v[0, 1] == run.v[-1, 1] == 0.0
    assert run.q[-1, 1] == 1.0
    assert run.energy_drift < 1e-6


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (([0.1, 0.0],), "q0 has 0.1 for joint 'shoulder', which is prescribed: 0.3 at t = 0"),
        (({"shoulder": 0.1},), "q0 has 0.1 for joint 'shoulder'"),
        ((None, [0.0, 1.0]), "v0 has 0 for joint 'shoulder', which is prescribed: 2.4 at t = 0"),
    ],
)
def test_starts_beside_the_function_are_refused(start, words):
    with pytest.raises(ConfigurationError, match=words):
        lb.simulate(two_link_arm(), *start, t_end=1.0, dt=1e-2, prescribed={"shoulder": wave})


def test_joints_are_driven_once():
    arm = OpenTree(two_link_arm().tree).with_prescribed({"shoulder": wave})
    with pytest.raises(ModelError, match="shoulder of arm: prescribed already"):
        lb.simulate(arm, t_end=1.0, dt=1e-2, prescribed={"shoulder": wave})
    builder = slider_crank_builder().drive("crank", crank_angle)
    with pytest.raises(ModelError, match="joint 'crank' of slider-crank has a drive already"):
        builder.drive("crank", crank_angle)
    with pytest.raises(ModelError, match="has a drive already"):
        lb.simulate(builder.build(), t_end=1.0, dt=1e-2, prescribed={"crank": crank_angle})
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    driven = closed.with_prescribed({"crank": crank_angle})
    with pytest.raises(ModelError, match="has a drive already"):
        driven.with_prescribed({"crank": crank_angle})


def test_drives_of_systems_are_checked_at_the_door():
    builder = slider_crank_builder().joint("ball", Spherical(), "crank", "piston")
    builder.joint("back", HINGE, "rod", "world")
    with pytest.raises(ModelError, match=r"no joint called 'cranc'; .* did you mean 'crank'"):
        builder.drive("cranc", crank_angle)
    with pytest.raises(ModelError, match="drives of a System move Revolute and Prismatic joints"):
        builder.drive("ball", crank_angle)
    with pytest.raises(ModelError, match="make the world the parent"):
        builder.drive("back", crank_angle)
    with pytest.raises(ModelError, match="cannot be differentiated twice"):
        builder.drive("crank", float)


def test_spherical_joints_implicit_methods_and_derivatives_of_steps_are_refused():
    builder = lb.TreeBuilder("ball").add("ball", Spherical(), rod(1.0, 0.5))
    with pytest.raises(ModelError, match="velocities are the derivatives of its coordinates"):
        lb.simulate(lb.Robot(builder.build(check=False)), t_end=1.0, dt=0.1, prescribed={"ball": wave})
    with pytest.raises(IntegrationError, match="use an explicit method"):
        lb.simulate(two_link_arm(), t_end=1.0, dt=1e-2, method="radau5", prescribed={"shoulder": wave})
    arm = OpenTree(two_link_arm().tree).with_prescribed({"shoulder": wave})
    with pytest.raises(ModelError, match="steps have no derivatives"):
        lb.linearize(arm, [0.3, 0.0], [2.4, 0.0])
    with pytest.raises(ModelError, match="prescribed is given for a hybrid system"):
        lb.simulate(lb.hybrid.robot_system(two_link_arm()), t_end=1.0, prescribed={"shoulder": wave})


# -- joints of systems, and their angles in runs ------------------------------------------------------------


def test_angles_of_joints_of_a_closed_loop_are_those_of_joint_coordinates():
    """Over several turns, in the run, its tables, its file and its plot."""
    absolute_tree = AbsoluteTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    q = closed.assemble([0.4, -0.5, 0.4], hold="crank")
    v = closed.consistent_velocities(q, [30.0, 0, 0], hold="crank")
    options = {"t_end": 1.0, "dt": 1e-3, "record_every": 0.05}  # a quarter of a turn between records
    tree = lb.simulate(closed, q, v, **options)
    run = lb.simulate(absolute_tree.system, *absolute_tree.to_system(q, v), **options)
    assert tree.q[-1, 0] > 4 * np.pi
    states = [absolute_tree.to_tree(q, v) for q, v in zip(run.q, run.v, strict=True)]
    for k, name in enumerate(("crank", "rod", "piston")):
        assert np.abs(run.joints[name] - tree.q[:, k]).max() < 1e-5  # thin rods have a slight inertia there
        turn = 1.0 if name == "piston" else 2 * np.pi
        away = (run.joints[name] - [q[k] for q, _ in states]) / turn
        assert np.abs(away - np.round(away)).max() < 1e-12
        assert np.abs(run.joint_rates[name] - [v[k] for _, v in states]).max() < 1e-11
    assert run.shown[0][0].units == ("rad", "rad", "m", "rad")


def test_tables_files_and_plots_show_angles_of_joints(tmp_path):
    run = slider_crank_runs()["System"]
    frame = run.to_dataframe()
    assert np.array_equal(frame["joints.crank"], run.joints["crank"])
    assert frame.attrs["units"]["joints.crank"] == "rad"
    assert frame.attrs["units"]["joint_rates.piston"] == "m/s"
    assert np.array_equal(frame["efforts.crank"], run.effort("crank"))
    assert "qw" not in run.summary()
    run.save(tmp_path / "run.nc")
    loaded = lb.Run.load(tmp_path / "run.nc")
    assert np.array_equal(loaded.joints["rod"], run.joints["rod"])
    assert np.array_equal(loaded.effort("crank"), run.effort("crank"))
    words = [text.get_text() for axis in run.plot().axes for text in axis.get_legend().get_texts()]
    assert "crank" in words
    assert not any("qw" in word for word in words)


def swing(**joint):
    builder = lb.SystemBuilder("swing").body("arm", lb.SpatialInertia.rod(1.0, 0.5, com=[0, 0, -0.25]))
    return builder.joint("hinge", HINGE, "world", "arm", **joint).build()


@pytest.mark.parametrize(
    ("of_system", "of_robot"),
    [
        ({"friction": 0.3}, {"friction": 0.3}),
        ({"stiffness": 4.0, "rest": 0.2}, {"stiffness": 4.0, "rest": 0.2}),
        ({"limits": (-0.5, 0.6)}, {"lower": -0.5, "upper": 0.6}),
    ],
)
def test_friction_springs_and_stops_of_a_joint_act_as_in_a_robot(of_system, of_robot):
    inertia = lb.SpatialInertia.rod(1.0, 0.5, com=[0, 0, -0.25])
    robot = lb.Robot(lb.TreeBuilder("swing").add("arm", Joint("hinge", HINGE, **of_robot), inertia).build())
    system = swing(**of_system)
    q = system.configuration({"arm": HINGE.pose(np.array([0.3]))})
    v = system.velocities(q, {"arm": [0, -3.0, 0, 0, 0, 0]})
    options = {"t_end": 1.0, "dt": 1e-3}
    run = lb.simulate(system, q, v, **options)
    expected = lb.simulate(robot, [0.3], [3.0], joints="real", **options)
    free = lb.simulate(robot, [0.3], [3.0], joints="ideal", **options)
    assert np.abs(run.joints["hinge"] - expected.q[:, 0]).max() < 1e-11
    assert np.abs(expected.q - free.q).max() > 0.05


def test_keywords_of_joints_are_checked():
    with pytest.raises(ModelError, match="springs and limits act in Revolute and Prismatic joints"):
        builder = lb.SystemBuilder("ball").body("arm", rod(1.0, 0.5))
        builder.joint("ball", Spherical(), "world", "arm", stiffness=1.0)
    with pytest.raises(ModelError, match=r"friction is \[-1.0\]; give zero or more"):
        swing(friction=-1.0)
    with pytest.raises(ModelError, match=r"lower is .* above upper"):
        swing(limits=(1.0, -1.0))


def test_forces_of_drives_and_damping_are_apart():
    """A hinge turned at a constant rate against its damping alone: the drive gives D times the rate."""
    joint = Joint("arm", Revolute([0, 0, 1]), damping=0.3)
    builder = lb.TreeBuilder("stirrer").add("arm", joint, rod(1.0, 0.5))
    run = lb.simulate(lb.Robot(builder.build()), t_end=1.0, dt=1e-2, prescribed={"arm": lambda t: 2.0 * t})
    assert np.abs(run.effort("arm") - 0.6).max() < 1e-15
    assert np.abs(run.forces["damping"] + 0.6).max() < 1e-15
    assert np.abs(run.work_done).max() < 1e-15


def test_members_of_a_stepper_that_begin_anew_are_where_the_functions_are_by_then():
    sim = lb.stepper(two_link_arm(), dt=1e-2, members=2, prescribed={"shoulder": wave})
    state = sim.step(sim.start({"elbow": 0.5}), steps=50)
    again = sim.reset(state, [1], {"elbow": 0.5})
    assert np.array_equal(again.q[0], state.q[0])
    assert np.abs(again.q[1] - [0.3 + 0.8 * np.sin(1.5), 0.5]).max() < 1e-15
    assert np.abs(again.v[1] - [2.4 * np.cos(1.5), 0.0]).max() < 1e-15
    closed = ClosedTree(slider_crank_tree(), [Closure("pin", HINGE, "end", "piston")])
    sim = lb.stepper(closed, dt=1e-2, members=2, prescribed={"crank": crank_angle})
    again = sim.reset(sim.step(sim.start(), steps=10), [1])
    assert abs(again.q[1, 0] - (1.4 + 0.3 * np.sin(0.5))) < 1e-12
    assert abs(again.v[1, 0] - (10 + 1.5 * np.cos(0.5))) < 1e-12
