"""Velocity constraints: classical nonholonomic systems against closed forms and first integrals."""

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ConfigurationError, ConstraintError, IntegrationError, ModelError
from liebody.groups import SE3, SO3, Free, Planar, Prismatic, Revolute
from liebody.mechanisms.constrained import (
    ClosedTree,
    Condition,
    KnifeEdge,
    Rolling,
    Stabilization,
    SystemBuilder,
    VelocityCondition,
)
from liebody.scalars import cos, sin

FLAT = Planar((0, 0, 1))
EXACT = {"dt": 1e-3, "method": "rkmk8"}


def sleigh(m=2.0, J=0.3, a=0.4, slip=0.0):
    """Chaplygin's sleigh: a blade at the origin of the body's frame, the centre of mass a ahead of it."""
    builder = SystemBuilder("Chaplygin's sleigh", gravity=(0, 0, 0))
    builder.body("sleigh", lb.SpatialInertia(m, [a, 0, 0], rotational=np.diag([0.1, 0.2, J])))
    builder.joint("ice", FLAT, "world", "sleigh")
    return builder.knife_edge("blade", "sleigh", slip=slip).build()


def sleigh_in_joints(m=2.0, J=0.3, a=0.4, slip=0.0):
    builder = lb.TreeBuilder("Chaplygin's sleigh")
    builder.add("sleigh", FLAT, lb.SpatialInertia(m, [a, 0, 0], rotational=np.diag([0.1, 0.2, J])))
    return ClosedTree(builder.build(), [KnifeEdge("blade", "sleigh", slip)], gravity=(0, 0, 0))


def sleigh_motion(t, u, w, m=2.0, J=0.3, a=0.4):
    """u(t), w(t) of du/dt = a w^2, dw/dt = -(m a / (J + m a^2)) u w (Neimark and Fufaev 1972, chapter 2)."""
    I = J + m * a * a
    c = np.sqrt(u * u + I / m * w * w)
    s = m * a * c / I * t + np.arctanh(u / c)
    return c * np.tanh(s), c * np.sqrt(m / I) / np.cosh(s)


def in_body(system, run):
    """(omega_z, vx, vy) of the sleigh's frame, in its axes."""
    return system.twists(run.q, run.v)[:, 0, [2, 3, 4]] if system.nq == 7 else run.v


@pytest.mark.parametrize("made", [sleigh, sleigh_in_joints])
@pytest.mark.parametrize("method", ["rkmk4", "rkmk8", "half-explicit4", "radau5"])
@pytest.mark.many
def test_chaplygins_sleigh_goes_over_into_a_straight_line_as_its_closed_form_says(made, method):
    system, w0, u0 = made(), 2.0, -0.5
    v0 = system.velocities(system.guess, {"sleigh": [0, 0, w0, u0, 0, 0]}) if made is sleigh else [w0, u0, 0]
    run = lb.simulate(system, v0=v0, t_end=2.0, dt=1e-3, method=method)
    w, u, lateral = in_body(system, run).T
    expected_u, expected_w = sleigh_motion(run.t, u0, w0)
    gate = 1e-9 if method != "rkmk8" else 1e-11
    np.testing.assert_allclose(u, expected_u, atol=gate)
    np.testing.assert_allclose(w, expected_w, atol=gate)
    assert np.abs(lateral).max() < 1e-11 and np.ptp(run.energy) < gate
    assert u[-1] > 0 > u[0]  # it turns round, and goes on with the centre of mass ahead


@pytest.mark.wide
def test_given_slip_is_what_the_velocity_across_the_blade_is():
    """With a velocity given in time the constraint does work, and explicit methods take it."""
    slip = lambda t: 0.3 * sin(2 * t)  # noqa: E731
    first, second = sleigh(slip=slip), sleigh_in_joints(slip=slip)
    v0 = first.velocities(first.guess, {"sleigh": [0, 0, 1.0, 0.5, 0, 0]})
    a = lb.simulate(first, v0=v0, t_end=1.0, **EXACT)
    b = lb.simulate(second, v0=[1.0, 0.5, 0], t_end=1.0, **EXACT)
    np.testing.assert_allclose(in_body(first, a)[:, 2], 0.3 * np.sin(2 * a.t), atol=1e-12)
    np.testing.assert_allclose(in_body(first, a), b.v, atol=1e-9)
    assert np.ptp(a.energy) > 1e-2
    for method in ("half-explicit4", "radau5"):
        for system, state in ((first, v0), (second, [1.0, 0.5, 0])):
            run = lb.simulate(system, v0=state, t_end=1.0, dt=1e-2, method=method)
            found = in_body(system, run)
            np.testing.assert_allclose(found[-1], b.v[-1], atol=3e-7)
            np.testing.assert_allclose(found[:, 2], 0.3 * np.sin(2 * run.t), atol=1e-13)  # at every step
    with pytest.raises(IntegrationError, match="half-explicit and Radau methods"):
        lb.simulate(first, v0=v0, t_end=0.1, dt=1e-3, method="generalized-alpha")


@pytest.mark.parametrize("method", ["half-explicit4", "radau5"])
@pytest.mark.many
def test_constraints_of_places_that_move_are_taken_by_their_velocities(method):
    """A lifted table, and a bead on a rotating wire, whose Jacobian depends on time."""
    m, slope = 0.7, 0.4
    builder = SystemBuilder("lift")
    builder.body("box", lb.SpatialInertia(m, rotational=np.eye(3)))
    builder.constraint("floor", lambda t, T: T[2, 3] - slope * sin(3 * t), ["box"], timed=True)
    system = builder.build()
    v0 = system.velocities(system.guess, {"box": [0, 0, 0, 0.3, 0, 3 * slope]})
    run = lb.simulate(system, v0=v0, t_end=1.0, dt=1e-2, method=method)
    np.testing.assert_allclose(run.q[:, 6], slope * np.sin(3 * run.t), atol=1e-6)
    force = system.reaction_wrenches("floor", run.q, run.multipliers, run.t)[:, 5]
    np.testing.assert_allclose(force, m * (9.81 - 9 * slope * np.sin(3 * run.t)), atol=1e-5)
    wire = SystemBuilder("wire", gravity=(0, 0, 0))
    wire.body("bead", lb.SpatialInertia(m, rotational=np.eye(3)), pose=[0.5, 0, 0])
    wire.constraint("wire", lambda t, T: cos(t) * T[1, 3] - sin(t) * T[0, 3], ["bead"], timed=True)
    run = lb.simulate(wire.build(), t_end=1.0, dt=1e-2, method=method)
    r = 0.5 * np.cosh(run.t)  # r'' = r along the wire
    np.testing.assert_allclose(run.q[:, 4], r * np.cos(run.t), atol=1e-7)
    np.testing.assert_allclose(run.q[:, 5], r * np.sin(run.t), atol=1e-7)


# -- a disc that rolls ---------------------------------------------------------------------------------------

M, R, G = 1.5, 0.2, 9.81
A, C = M * R * R / 4, M * R * R / 2


def disc():
    """A thin disc with axis z, free but for the floor; coordinates (quaternion, centre)."""
    builder = SystemBuilder("disc")
    builder.body("disc", lb.SpatialInertia(M, rotational=np.diag([A, A, C])), pose=[0, 0, R])
    return builder.rolling("floor", "disc", R, axis=[0, 0, 1]).build()


def disc_state(system, tilt, w):
    """q, v with the axis tilted by an angle from the vertical, towards y, and w = (w_1, w_2, w_d)."""
    T = SE3.motion(frame_of(tilt), [0, 0, R * np.sin(tilt)])
    q = system.configuration({"disc": T})
    e1, e2, d = (T[:3, :3].T @ x for x in directions(T[:3, 2]))
    omega = w[0] * e1 + w[1] * e2 + w[2] * d
    return q, system.velocities(q, {"disc": [*omega, *np.cross(omega, R * e2)]})


def frame_of(tilt):
    d = np.array([0, np.sin(tilt), np.cos(tilt)])
    x = np.array([1.0, 0, 0])
    return np.column_stack([x, np.cross(d, x), d])


def directions(d):
    """e_1 along the track, e_2 from the lowest point to the centre, and the axis d; e_1 = d x e_2."""
    n = np.array([0, 0, 1.0])
    e2 = (n - d[2] * d) / np.sqrt(1 - d[2] ** 2)
    return np.cross(d, e2), e2, d


def disc_rates(run):
    """(tilt, w_1, w_2, w_d) of a run."""
    found = []
    for q, v in zip(run.q, run.v, strict=True):
        axes = SO3.element(q[:4])
        e1, e2, d = directions(axes[:, 2])
        omega = axes @ v[:3]
        found.append([np.arccos(d[2]), omega @ e1, omega @ e2, omega @ d])
    return np.array(found)


def reduced(t, y):
    """Newton and Euler for the disc in the axes e_1, e_2, d (Appell 1900; Neimark and Fufaev, chapter 2)."""
    tilt, w1, w2, wd = y
    c, J = np.cos(tilt) / np.sin(tilt), M * R * R
    return np.array(
        [
            -w1,
            ((C + J) * wd * w2 - A * c * w2 * w2 + M * G * R * np.cos(tilt)) / (A + J),
            (A * c * w1 * w2 - C * wd * w1) / A,
            -J * w1 * w2 / (C + J),
        ]
    )


def test_a_disc_in_a_steady_turn_keeps_its_tilt():
    """w_d of the turn with the rate W at a tilt: (A W^2 sin cos - m g R cos) / (W sin (C + m R^2))."""
    system, tilt, W = disc(), 1.2, 1.7
    s, c = np.sin(tilt), np.cos(tilt)
    wd = (A * W * W * s * c - M * G * R * c) / (W * s * (C + M * R * R))
    q, v = disc_state(system, tilt, [0, W * s, wd])
    run = lb.simulate(system, q, v, t_end=2.0, **EXACT)
    np.testing.assert_allclose(disc_rates(run), [[tilt, 0, W * s, wd]] * len(run.t), atol=1e-9)
    centre = run.q[0, 4:6] + R * wd / W * np.array([0, 1])  # of the circle
    away = run.q[:, 4:6] - centre
    np.testing.assert_allclose(np.hypot(*away.T), abs(R * wd / W), atol=1e-9)


def test_a_rolling_disc_nods_as_its_reduced_equations_say_and_keeps_its_integrals():
    system = disc()
    start = np.array([1.35, 0.3, 0.6, -6.0])
    q, v = disc_state(system, start[0], start[1:])
    run = lb.simulate(system, q, v, t_end=1.5, **EXACT)
    reference = lb.solve_ivp(reduced, (0, 1.5), start, lb.groups.R(4), method="rkmk8", rtol=1e-12, atol=1e-13)
    found = disc_rates(run)
    np.testing.assert_allclose(found[-1], reference.q[-1], atol=1e-8)
    assert np.ptp(run.energy) < 1e-9 and run.largest_violation < 1e-13
    tilt = found[:, 0]  # w_2 and w_d are functions of the tilt alone: the integrals of Appell and Korteweg
    again = np.flatnonzero((tilt[1:] > tilt[0]) != (tilt[:-1] > tilt[0]))
    assert len(again) > 2
    for k in again[1:]:
        share = (tilt[0] - tilt[k]) / (tilt[k + 1] - tilt[k])
        crossing = found[k] + share * (found[k + 1] - found[k])
        np.testing.assert_allclose(crossing[2:], found[0, 2:], atol=2e-4)  # between two rows, linearly


@pytest.mark.wide
def test_half_explicit_and_radau_methods_roll_too_and_others_refuse():
    system = disc()
    q, v = disc_state(system, 1.35, [0.3, 0.6, -6.0])
    exact = lb.simulate(system, q, v, t_end=0.2, **EXACT)
    for method in ("half-explicit4", "radau5", "rkmk4", "cf4"):
        run = lb.simulate(system, q, v, t_end=0.2, dt=1e-3, method=method)
        np.testing.assert_allclose(run.q[-1], exact.q[-1], atol=1e-8)
    for method in ("generalized-alpha", "variational"):
        with pytest.raises(IntegrationError, match="half-explicit and Radau methods"):
            lb.simulate(system, q, v, t_end=0.2, dt=1e-3, method=method)


def test_without_stabilisation_rolling_drifts_with_the_order_of_the_method():
    system = disc()
    q, v = disc_state(system, 1.35, [0.3, 0.6, -6.0])
    slip = {}
    for dt in (2e-2, 1e-2):
        run = lb.simulate(system, q, v, t_end=1.0, dt=dt, method="rkmk4", stabilization="none")
        slip[dt] = np.abs(system.velocity_violation(run.q, run.v)["floor"]).max()
    assert 3.3 < np.log2(slip[2e-2] / slip[1e-2]) < 5.5


@pytest.mark.parametrize("stabilization", ["none", "baumgarte", "index-2", "projection"])
def test_stabilisations_let_a_slip_of_the_start_decay(stabilization):
    system = disc()
    q, v = disc_state(system, 1.35, [0.3, 0.6, -6.0])
    slipping = v + 5e-7 * np.array([0, 0, 0, 1, 1, 0])  # below what `simulate` refuses
    given = {
        "baumgarte": Stabilization("baumgarte", frequency=20.0),
        "index-2": Stabilization("index-2", rate=20.0),
    }.get(stabilization, stabilization)
    run = lb.simulate(system, q, slipping, t_end=1.0, stabilization=given, **EXACT)
    slip = np.abs(system.velocity_violation(run.q, run.v)["floor"]).max(axis=1)
    assert slip[0] > 3e-7
    if stabilization == "none":
        assert slip[-1] > 1e-7
    else:
        assert slip[-1] < 1e-13


def test_a_rolling_disc_in_joint_coordinates_moves_as_in_absolute_ones():
    builder = lb.TreeBuilder("disc")
    builder.add("disc", Free(), lb.SpatialInertia(M, rotational=np.diag([A, A, C])))
    tree = ClosedTree(builder.build(), [Rolling("floor", "disc", R, axis=[0, 0, 1])])
    system = disc()
    q, v = disc_state(system, 1.35, [0.3, 0.6, -6.0])
    (T,), (twist,) = system.poses(q), system.twists(q, v)
    first = lb.simulate(system, q, v, t_end=0.5, **EXACT)
    second = lb.simulate(tree, SE3.coordinates(T), twist, t_end=0.5, **EXACT)
    np.testing.assert_allclose(system.poses(first.q[-1])[0], SE3.element(second.q[-1]), atol=1e-9)
    for run, mechanism in ((first, system), (second, tree)):  # the floor carries the weight, on average
        up = mechanism.reactions(run.q[0], run.v[0])["floor.contact"]
        assert up.shape == (6,) and 0 < up @ up < (10 * M * G) ** 2


def test_a_disc_that_lies_flat_has_no_lowest_point_and_the_constraint_is_named():
    system = disc()
    for use in (system.assemble, system.report, lambda: system.report(system.guess)):
        with pytest.raises(ConstraintError, match=r"disc: the constraint 'floor.*' has no value"):
            use()
    with pytest.raises(ConstraintError, match="has no value in this configuration"):
        lb.simulate(system, t_end=0.1, dt=1e-3)


def test_a_flattened_start_is_rolled_back_onto_the_floor():
    """Closing moves wheels onto the plane sideways, too: what forbids velocities does not forbid places."""
    system = disc()
    high = system.configuration({"disc": SE3.motion(frame_of(1.1), [0.3, -0.2, 0.5])})
    closed = system.assemble(high)
    assert np.abs(system.violation(closed)["floor.contact"]).max() < 1e-12
    with pytest.raises(ConfigurationError, match=r"'floor'.*consistent_velocities"):
        lb.simulate(system, closed, [0, 0, 0, 1.0, 0, 0], t_end=0.1, dt=1e-2)
    v = system.consistent_velocities(closed, [0, 0, 5.0, 1.0, 0, 0])
    assert np.abs(system.velocity_violation(closed, v)["floor"]).max() < 1e-12
    report = system.report(closed)
    assert (report.rows, report.rank, report.freedom) == (3, 3, 3)


# -- balls ---------------------------------------------------------------------------------------------------


def ball(builder, r=0.3, m=0.7):
    return builder.body(
        "ball", lb.SpatialInertia(m, rotational=0.4 * m * r * r * np.eye(3)), pose=[0.5, 0, r]
    )


def test_a_ball_on_a_turntable_goes_round_with_two_sevenths_of_its_rate():
    """The classical circle, with a velocity of the floor that depends on the place: J(q) v = b(q)."""
    r, W = 0.3, 3.5
    builder = ball(SystemBuilder("turntable"))
    builder.constraint("height", lambda T: T[2, 3] - r, ["ball"])

    def grip(T, V):
        axes, p = SE3.parts(T)
        u = axes @ (V[3:] + np.cross(V[:3], axes.T @ np.array([0, 0, -r])))
        return np.array([u[0] + W * p[1], u[1] - W * p[0]])

    system = builder.velocity_constraint("grip", grip, ["ball"]).build()
    q = system.guess
    v = system.consistent_velocities(q, system.velocities(q, {"ball": [0.3, 0.2, 0.1, 0.4, 1.0, 0]}))
    run = lb.simulate(system, q, v, t_end=3.0, **EXACT)
    velocity = run.v[:, 3:5]
    if system.bodies[0].group == SE3:
        velocity = np.array([SO3.element(x[:4]) @ y[3:] for x, y in zip(run.q, run.v, strict=True)])[:, :2]
    angle = np.unwrap(np.arctan2(velocity[:, 1], velocity[:, 0]))
    np.testing.assert_allclose(angle - angle[0], 2 / 7 * W * run.t, atol=1e-9)
    np.testing.assert_allclose(np.hypot(*velocity.T), np.hypot(*velocity[0]), rtol=1e-10)


def test_a_ball_on_a_plate_that_is_pushed_adds_two_sevenths_of_its_mass():
    F, m, plate = 3.0, 0.7, 2.0
    builder = ball(SystemBuilder("plate"))
    builder.body("plate", lb.SpatialInertia(plate, rotational=np.eye(3)))
    builder.joint("rail", Prismatic([1, 0, 0]), "world", "plate", driven=True)
    system = builder.rolling("grip", "ball", 0.3, on="plate").build()
    run = lb.simulate(system, tau=[F], t_end=1.0, **EXACT)
    x = system.poses(run.q)[:, 1, 0, 3]
    np.testing.assert_allclose(x, 0.5 * F / (plate + 2 * m / 7) * run.t**2, atol=1e-10)


# -- robots --------------------------------------------------------------------------------------------------


def wheeled_robot(r=0.1, b=0.25):
    """A chassis on two driven wheels, its centre of mass on their axle."""
    builder = lb.TreeBuilder("wheeled robot")
    chassis, wheel = (
        lb.SpatialInertia(5.0, rotational=np.diag([0.3, 0.2, 0.4])),
        np.diag([0.012, 0.02, 0.012]),
    )
    builder.add("chassis", FLAT, chassis, placement=[0, 0, r])
    for side, y in (("left", b), ("right", -b)):
        inertia = lb.SpatialInertia(0.8, rotational=wheel)
        builder.add(side, Revolute([0, 1, 0]), inertia, "chassis", [0, y, 0])
    grips = [Rolling(f"{side} grip", side, r, axis=[0, 1, 0], held=False) for side in ("left", "right")]
    return ClosedTree(builder.build(), grips)


def test_a_wheeled_robot_obeys_its_reduced_equations():
    """Both wheels allow no motion across them, twice: redundant. Torques give du/dt and dw/dt, constant."""
    r, b, left, right = 0.1, 0.25, 0.06, 0.1
    robot = wheeled_robot(r, b)
    report = robot.report(robot.guess)
    assert (report.rows, report.rank, report.freedom) == (4, 3, 2)
    run = lb.simulate(robot, tau=[0, 0, 0, left, right], t_end=2.0, dt=1e-3)
    mass = 5.0 + 2 * 0.8 + 2 * 0.02 / r**2
    inertia = 0.4 + 2 * (0.012 + 0.8 * b * b) + 2 * 0.02 * b * b / r**2
    forward, turn = (left + right) / r / mass, (right - left) * b / r / inertia
    np.testing.assert_allclose(run.v[:, 1], forward * run.t, atol=1e-9)
    np.testing.assert_allclose(run.v[:, 0], turn * run.t, atol=1e-9)
    assert np.abs(run.v[:, 2]).max() < 1e-12
    np.testing.assert_allclose(run.q[:, 0], turn * run.t**2 / 2, atol=1e-9)


def snakeboard(front, back, L=0.5):
    """Roller Racer's cousin: a board on two trucks that turn, and a rotor; opposite angles make it circle."""
    builder = lb.TreeBuilder("snakeboard")
    thin = lambda m, J: lb.SpatialInertia(m, rotational=np.diag([J, J, J]))  # noqa: E731
    builder.add("board", FLAT, thin(4.0, 0.3))
    builder.add("rotor", Revolute([0, 0, 1]), thin(1.0, 0.2), "board")
    for name, x, angle in (("front", L, front), ("back", -L, back)):
        builder.frame(name, "board", SE3.motion(SO3.exp(np.array([0, 0, angle])), [x, 0, 0]))
    return ClosedTree(
        builder.build(), [KnifeEdge(f"{k} wheels", k) for k in ("front", "back")], gravity=(0, 0, 0)
    )


def test_a_snakeboard_with_opposite_wheels_circles_about_their_centre_as_its_rotor_drives_it():
    """dw/dt = -tau / (J + m R^2) with R = L cot(angle): board and rotor about the centre of the turn."""
    angle, tau, L = 0.4, 0.15, 0.5
    board = snakeboard(angle, -angle, L)
    run = lb.simulate(board, tau=[0, 0, 0, tau], t_end=2.0, dt=1e-3)
    radius = L / np.tan(angle)
    rate = -tau / (0.3 + 5.0 * radius**2)
    np.testing.assert_allclose(run.v[:, 0], rate * run.t, atol=1e-10)
    np.testing.assert_allclose(run.v[:, 1], rate * radius * run.t, atol=1e-10)
    np.testing.assert_allclose(run.v[:, 3] + run.v[:, 0], tau / 0.2 * run.t, atol=1e-10)


def test_a_snakeboard_gains_speed_by_turning_trucks_and_rotor_in_time_and_its_energy_is_their_work():
    """The gait of Ostrowski, Lewis, Murray and Burdick (1994), with trucks that are joints."""
    builder = lb.TreeBuilder("snakeboard")
    thin = lambda m, J: lb.SpatialInertia(m, rotational=np.diag([J, J, J]))  # noqa: E731
    builder.add("board", FLAT, thin(4.0, 0.3))
    builder.add("rotor", Revolute([0, 0, 1]), thin(1.0, 0.2), "board")
    for name, x in (("front", 0.5), ("back", -0.5)):
        builder.add(name, Revolute([0, 0, 1]), thin(0.3, 0.02), "board", [x, 0, 0])
    board = ClosedTree(builder.build(), [KnifeEdge("f", "front"), KnifeEdge("b", "back")], gravity=(0, 0, 0))
    order = [board.tree.body(name).dofs.start for name in ("rotor", "front", "back")]

    def drive(t, q, v):
        phase = 3.0 * t
        u = [0, 0, 0, 0, 0, 0]
        for k, size, way in zip(order, (0.7, 0.3, -0.3), (1, 1, 1), strict=True):
            wanted = size * way * sin(phase)
            stiff = 20.0 if k == order[0] else 5.0
            u[k] = stiff * (wanted - q[k]) - 0.2 * stiff * (v[k] - 3.0 * size * cos(phase))
        return np.array(u)

    run = lb.simulate(board, tau=drive, t_end=4.0, dt=5e-4, record_every=5e-4)
    work = np.sum(run.tau * run.v, axis=1)
    gained = np.concatenate([[0], np.cumsum(0.5 * (work[1:] + work[:-1]) * 5e-4)])
    np.testing.assert_allclose(run.energy - run.energy[0], gained, atol=2e-5)
    assert np.abs(run.q[-1, 1:3]).max() > 0.1  # it went somewhere
    slips = board.velocity_violation(run.q, run.v)
    assert max(np.abs(x).max() for x in slips.values()) < 1e-11


# -- what is refused -----------------------------------------------------------------------------------------


def test_conditions_of_frames_are_those_of_knife_edges():
    """A condition of velocities on a frame of a tree is the blade that it spells out."""
    builder = lb.TreeBuilder("sleigh")
    builder.add("sleigh", FLAT, lb.SpatialInertia(2.0, [0.4, 0, 0], rotational=np.diag([0.1, 0.2, 0.3])))
    builder.frame("blade", "sleigh", SE3.motion(SO3.exp(np.array([0, 0, 0.3])), [0.1, 0.2, 0]))
    tree = builder.build()
    v0 = None
    ends = []
    for closure in (KnifeEdge("edge", "blade"), VelocityCondition("edge", lambda T, V: V[4], ("blade",))):
        made = ClosedTree(tree, [closure])
        v0 = made.consistent_velocities(made.guess, [1.0, 0.5, 0.2]) if v0 is None else v0
        ends.append(lb.simulate(made, v0=v0, t_end=0.5, dt=1e-3).q[-1])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-13)
    made = ClosedTree(tree, [Condition("spot", lambda T: T[0, 3], ("sleigh",)), KnifeEdge("edge", "blade")])
    assert made.of_places.tolist() == [True, False]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda T, V: V[3] * V[4], r"entry 0 .* is not affine in the velocities"),
        (lambda T, V: np.array([V[3], T[0, 3]]), r"entry 1 .* does not depend on the velocities"),
    ],
)
def test_functions_that_are_no_velocity_constraints_are_refused(function, message):
    builder = SystemBuilder().body("top", lb.SpatialInertia(1.0, rotational=np.eye(3)))
    with pytest.raises(ModelError, match=message):
        builder.velocity_constraint("rule", function, ["top"])
    with pytest.raises(ModelError, match="radius -1, expected a positive number"):
        builder.rolling("wheel", "top", -1)
