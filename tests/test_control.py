"""Controllers: what they do to energy and momentum, and closed forms of what they make of a robot."""

import numpy as np
import pytest

from liebody import models
from liebody.base.errors import LiebodyError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Contact
from liebody.groups import SE3, Free, Planar, Revolute, Spherical
from liebody.hybrid import (
    DecoupledImpedance,
    EnergyRegulator,
    Feedback,
    JointPD,
    LockedPolarSpring,
    OperationalSpaceImpedance,
    PolarSpring,
    RadialSpring,
    State,
    controller_2,
    robot_system,
)
from liebody.robot import Robot

ROD = SpatialInertia.box(0.8, (0.06, 0.05, 0.4), com=(0, 0.01, -0.2))


def arm():
    """Ball joint and hinge."""
    builder = TreeBuilder("arm").add("upper", Spherical(), ROD)
    builder.add("lower", Revolute((0, 1, 0)), ROD, "upper", (0, 0, -0.4))
    return Robot(builder.frame("tip", "lower", (0, 0, -0.4)).build())


def flyer(base=None):
    """A free body with a leg of two hinges about different axes."""
    builder = TreeBuilder("flyer").add("base", base or Free(), SpatialInertia.box(3.0, (0.3, 0.2, 0.1)))
    builder.add("thigh", Revolute((1, 0, 0)), ROD, "base", (0, 0.1, 0))
    builder.add("shank", Revolute((0, 1, 0)), ROD, "thigh", (0, 0, -0.4))
    return Robot(builder.frame("foot", "shank", (0, 0, -0.4)).build())


def at_random(robot, seed=0):
    rng = np.random.default_rng(seed)
    return robot.group.random(rng), rng.standard_normal(robot.nv)


# -- legs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", [flyer(), arm(), models.three_joint_hopper()], ids=lambda r: r.name)
@pytest.mark.many
def test_legs_move_by_their_jacobians(robot):
    """r, its length, and the angle: against differences along the motion; nothing depends on translations."""
    q, v = at_random(robot)
    point = "tip" if robot.name == "arm" else "foot"
    h = 1e-6

    def look(s):
        state = State(robot.tree, robot.gravity_vector, 0.0, robot.integrate(q, s * v), v)
        r, J = state.leg(point)
        polar = PolarSpring(point, 1.0, acts="always")
        return state, state.base_rotation @ r, J, polar._angle(state, None), polar._jacobian(state)

    (state, r, J, _, J_angle), (_, r_1, _, angle_1, _), (_, r_0, _, angle_0, _) = map(look, (0, h, -h))
    np.testing.assert_allclose(r, robot.pose(q, point)[:3, 3] - robot.center_of_mass(q), atol=1e-14)
    np.testing.assert_allclose(state.base_rotation @ (J @ v), (r_1 - r_0) / (2 * h), atol=1e-8)
    assert J_angle @ v == pytest.approx((angle_1 - angle_0) / (2 * h), abs=1e-7)
    if robot.name != "arm":
        linear = slice(3, 6) if robot.name == "flyer" else slice(1, 3)
        assert not J[:, linear].any() and not J_angle[linear].any()


def test_radial_springs_are_internal_and_polar_ones_turn_the_base_by_their_torque():
    robot = flyer()
    q, v = at_random(robot, 1)
    state = State(robot.tree, robot.gravity_vector, 0.0, q, v)
    radial, polar = RadialSpring("foot", 1.0, 0.0, 0.0), PolarSpring("foot", 1.0, acts="always")
    J = radial._length(state)[1]
    assert np.abs(J[:6]).max() < 1e-15 and np.abs(J[6:]).max() > 0.01
    # The wrench on the base's joint is what changes the momentum about the centre of mass
    turn = polar._jacobian(state)
    np.testing.assert_allclose(robot.pose(q, "base")[:3, :3] @ turn[:3] @ polar.axis, 1, atol=1e-13)
    locked = LockedPolarSpring("foot", 1.0, acts="always")
    omega = locked._jacobian(state) @ v
    h = robot.centroidal_velocity(q, v)
    assert omega == pytest.approx(h[:3] @ locked.axis, abs=1e-12)


def test_virtual_springs_without_losses_conserve_energy():
    """Kinetic energy, that of gravity and of both springs, in free fall; the drives do the springs' work."""
    robot = flyer()
    q, _ = at_random(robot, 2)
    elements = [RadialSpring("foot", 60.0, 0.5), PolarSpring("foot", 3.0, 0.2, acts="always")]
    system = robot_system(robot, elements, step=5e-4)
    run = system.simulate(q, t_end=0.5, record_every=0.05)
    springs = run.outputs["radial_energy"] + 1.5 * (run.outputs["polar_angle"] - 0.2) ** 2
    energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"] + springs
    np.testing.assert_allclose(energy, energy[0], atol=1e-8)
    assert np.ptp(springs) > 0.1
    ledger = system.ledger(run)
    assert abs(ledger.residual) < 1e-8 * ledger.throughput
    assert ledger.work["joint_base"] != 0


def test_the_regulator_leads_to_its_level_of_energy():
    """A leg that swings on its spring in weightlessness, in the plane, fed or braked until E = E_des."""
    robot = models.prismatic_hopper()
    system = robot_system(
        robot,
        RadialSpring("foot", 50.0, 0.15),
        EnergyRegulator("foot", 8.0, 0.5),
        gravity=(0, 0, 0),
        step=1e-3,
    )
    q0 = np.array([-np.pi / 2, 0, 0, 0.14])
    run = system.simulate(q0, t_end=15.0, record_every=0.1, parameters={"E_des": [0.1, 0.02, 0.0]})
    np.testing.assert_allclose(run.outputs["regulator_error"][:2, -1], 0, atol=1e-6)
    assert run.outputs["radial_energy"][2, -1] < 1e-3
    work = run.work["regulator_work"][:, -1]
    assert work[0] > 0 > work[2]
    assert work[0] == pytest.approx(0.1 - (run.outputs["radial_energy"][0, 0]), abs=1e-6)


def test_drives_that_a_robot_does_not_have_give_nothing():
    robot = models.two_joint_hopper()
    q0 = np.array([0, 0, 0.5, 0.4, -0.9])
    system = robot_system(robot, PolarSpring("foot", 4.0, acts="always"), actuated=["hip", "knee"])
    run = system.simulate(q0, t_end=0.2, record_every=0.1)
    assert not run.outputs["efforts"][..., :3].any() and run.outputs["efforts"][:, 3:].any()
    momentum = [robot.centroidal_momentum(q, v)[:3] for q, v in zip(run.q, run.v, strict=True)]
    np.testing.assert_allclose(momentum, 0, atol=1e-10)
    assert "joint_base" not in run.work


# -- joints and frames --------------------------------------------------------------------------------------


def test_joint_springs_of_any_group_have_a_potential():
    """Weight compensated, T + U stays without damping, through large turns of a ball joint; D takes it."""
    robot = arm()
    target = robot.group.integrate(robot.neutral(), np.array([0.4, -1.0, 1.2, 0.5]))
    system = robot_system(robot, JointPD([9.0, 5.0, 2.0, 4.0], target, np.zeros(4)), step=5e-4)
    run = system.simulate(
        robot.neutral(),
        [1.0, 2, -1, 0.5],
        t_end=4.0,
        record_every=0.1,
        parameters={"pd_D": np.outer([0, 2], np.ones(4))},
    )
    energy = run.outputs["kinetic_energy"] + run.outputs["pd_energy"]
    np.testing.assert_allclose(energy[0], energy[0, 0], rtol=1e-7)
    assert np.all(np.diff(energy[1]) < 0) and energy[1, -1] < 1e-2 * energy[1, 0]
    assert np.abs(robot.group.difference(target, run.q[1, -1])).max() < 0.1


def test_a_floating_base_has_no_springs_of_joints():
    robot = flyer()
    system = robot_system(robot, JointPD(20.0, [0.5, -0.5], 4.0), step=1e-3, gravity=(0, 0, 0))
    run = system.simulate(robot.neutral(), t_end=3.0, record_every=0.1)
    np.testing.assert_allclose(run.q[-1, 7:], [0.5, -0.5], atol=1e-3)
    momentum = np.array([robot.centroidal_momentum(q, v) for q, v in zip(run.q, run.v, strict=True)])
    np.testing.assert_allclose(momentum, 0, atol=2e-6)


def elbow(n=4):
    """Four hinges: enough for a place, with one to spare; or six, enough for a pose."""
    builder, parent = TreeBuilder("elbow"), "world"
    for i, axis in enumerate([(0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)][:n]):
        builder.add(f"link{i}", Revolute(axis), ROD, parent, (0, 0, -0.4) if i else None)
        parent = f"link{i}"
    return Robot(builder.frame("hand", parent, (0, 0.1, -0.4)).build())


ELBOW = np.array([0.3, 0.6, 0.8, 0.2])


def test_a_shaped_hand_obeys_the_equation_it_was_given():
    """x'' = -K (x - x_des) - D x', whatever the rest of the arm does; that is damped."""
    robot = elbow()
    start = robot.pose(ELBOW, "hand")[:3, 3]
    target = start + [0.08, -0.06, 0.05]
    K, D = np.array([30.0, 50.0, 80.0]), np.array([4.0, 5.0, 6.0])
    hand = OperationalSpaceImpedance("hand", target, K, D, shaped=True, D_null=0.5)
    run = robot_system(robot, hand, step=5e-4).simulate(ELBOW, t_end=1.0, record_every=0.1)
    decay, t = D / 2, run.t[:, None]
    omega = np.sqrt(K - decay**2)
    e = (start - target) * np.exp(-decay * t) * (np.cos(omega * t) + decay / omega * np.sin(omega * t))
    np.testing.assert_allclose(run.outputs["task_error"], e, atol=1e-9)


@pytest.mark.parametrize("pose", [False, True])
@pytest.mark.many
def test_a_hand_on_springs_has_a_potential(pose):
    """T + U stays without damping, for places and for poses; with damping the hand arrives."""
    robot = elbow(6 if pose else 4)
    q0 = np.array([0.2, 0.5, 0.4, 0.3, 0.7, -0.2]) if pose else ELBOW
    T = robot.pose(q0, "hand")
    target = SE3.coordinates(T @ SE3.exp(np.array([0.4, -0.3, 0.5, 0.05, 0.1, -0.1])))
    stiff = [3.0, 2.0, 4.0, 40.0, 30.0, 50.0] if pose else [100.0, 150.0, 200.0]
    target = target if pose else T[:3, 3] + [0.1, 0.1, 0.1]
    hand = OperationalSpaceImpedance("hand", target, stiff, np.zeros(6 if pose else 3))
    system = robot_system(robot, hand, step=5e-4)
    D = np.array([1.0, 1, 1, 10, 10, 10]) if pose else np.full(3, 60.0)
    run = system.simulate(
        q0, t_end=2.0, record_every=0.1, parameters={"task_D": [0 * D, D], "task_D_null": [0.0, 1.0]}
    )
    energy = run.outputs["kinetic_energy"] + run.outputs["task_energy"]
    np.testing.assert_allclose(energy[0], energy[0, 0], rtol=1e-6)
    assert np.all(np.diff(energy[1]) < 1e-12) and energy[1, -1] < 0.1 * energy[1, 0]


# -- floating robots ----------------------------------------------------------------------------------------

FLIGHT = np.array([0.3, 1.0, -0.5, 0.1, 0.2, 0.3, 0.5, -0.4])


@pytest.mark.wide
def test_decoupled_joints_do_not_feel_how_the_robot_flies():
    """v_y^T My v_y / 2 + U stays without damping, while the robot tumbles; its momentum stays, too."""
    robot = flyer()
    system = robot_system(robot, DecoupledImpedance(6.0, [0.4, -0.6], 0.0), step=5e-4)
    run = system.simulate(
        robot.neutral(), FLIGHT, t_end=1.0, record_every=0.05, parameters={"decoupled_D": [0.0, 0.5]}
    )
    for k, D in enumerate((0.0, 0.5)):
        inertia = robot.internal_inertia(run.q[k])
        rates = run.v[k, :, 6:]
        energy = np.einsum("ti,tij,tj->t", rates, inertia, rates) / 2 + run.outputs["decoupled_energy"][k]
        if D:
            assert np.all(np.diff(energy) < 0) and energy[-1] < 0.2 * energy[0]
        else:
            np.testing.assert_allclose(energy, energy[0], rtol=1e-8)
        momentum = np.array(
            [robot.centroidal_momentum(q, v)[:3] for q, v in zip(run.q[k], run.v[k], strict=True)]
        )
        np.testing.assert_allclose(momentum, np.tile(momentum[0], (len(momentum), 1)), atol=1e-8)
        assert np.linalg.norm(momentum[0]) > 0.05


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.many
def test_a_driven_base_brings_the_centre_of_mass_to_its_place(planar):
    """m c'' = -K (c - c_des) - D c' to the letter, and the robot stops turning."""
    placement = np.array([[1, 0, 0, 0.1], [0, 0, -1, 0], [0, 1, 0, 0.2], [0, 0, 0, 1.0]])
    if planar:
        builder = TreeBuilder("sled").add(
            "base", Planar((0, 0, 1)), SpatialInertia.box(3.0, (0.3, 0.2, 0.1)), placement=placement
        )
        bar = SpatialInertia.box(0.8, (0.06, 0.4, 0.05), com=(0.01, -0.2, 0))
        builder.add("arm", Revolute((0, 0, 1)), bar, "base", (0.1, 0, 0))
        robot = Robot(builder.add("hand", Revolute((0, 0, 1)), bar, "arm", (0, -0.4, 0)).build())
    else:
        robot = flyer()
    K, D, goal = 20.0, 8.0, np.array([0.3, 0.0, 0.5])
    element = DecoupledImpedance(5.0, [0.3, -0.4], 1.0, True, K, D, 2.0, goal)
    system = robot_system(robot, element, step=1e-3)
    v0 = FLIGHT[[0, 3, 5, 6, 7]] if planar else FLIGHT
    run = system.simulate(robot.neutral(), v0, t_end=4.0, record_every=0.1)
    m = robot.tree.mass
    decay = D / (2 * m)
    omega = np.sqrt(K / m - decay**2)
    t = run.t[:, None]
    y, u = run.outputs["com"][0] - goal, run.outputs["com_velocity"][0]
    c = goal + np.exp(-decay * t) * (y * np.cos(omega * t) + (u + decay * y) / omega * np.sin(omega * t))
    if planar:
        c[:, 1] = run.outputs["com"][:, 1]
    np.testing.assert_allclose(run.outputs["com"], c, atol=1e-8)
    np.testing.assert_allclose(run.q[-1, -2:], [0.3, -0.4], atol=2e-2)
    momentum = [np.linalg.norm(robot.centroidal_momentum(run.q[i], run.v[i])[:3]) for i in (0, -1)]
    assert momentum[1] < 0.05 * momentum[0]


# -- functions, and what is refused -------------------------------------------------------------------------


@pytest.mark.wide
def test_any_function_of_the_state_may_be_a_controller():
    robot = models.double_pendulum()

    def damp(s, p):
        return -p.gain * s.v * s.kinetic_energy

    system = robot_system(robot, Feedback(damp, gain=0.5), step=1e-3)
    run = system.simulate([0.5, 0.5], t_end=1.0, record_every=0.1, parameters={"gain": [0.0, 0.5]})
    energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
    np.testing.assert_allclose(energy[0], energy[0, 0], atol=1e-8)
    assert energy[1, -1] < energy[1, 0] - 1e-2
    assert system.ledger(run, 1).residual == pytest.approx(0, abs=1e-8)
    wanted = [-0.5 * v * robot.kinetic_energy(q, v) for q, v in zip(run.q[1], run.v[1], strict=True)]
    np.testing.assert_allclose(run.outputs["efforts"][1], wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: robot_system(flyer(), controller_2("foot")), ["'foot'", "Contact('foot')"]),
        (lambda: robot_system(flyer(), RadialSpring("hoof", 1, 1)), ["hoof", "foot"]),
        (lambda: RadialSpring("foot", 1, 1, damped="sometimes"), ["sometimes", "stance"]),
        (lambda: PolarSpring("foot", 1, axis=(0, 0)), ["axis"]),
        (
            lambda: robot_system(flyer(), PolarSpring("foot", 1, acts="always", axis=(0, 1, 1))),
            ["horizontal"],
        ),
        (lambda: robot_system(elbow(), LockedPolarSpring("hand", 1)), ["floating base"]),
        (lambda: robot_system(flyer(), EnergyRegulator("foot", 1, 1)), ["'radial'"]),
        (lambda: robot_system(flyer(), JointPD([1, 2, 3])), ["K", "(3,)", "(2,)"]),
        (lambda: OperationalSpaceImpedance("hand", [0, 0], 1, 1), ["target", "(2,)", "(7,)"]),
        (lambda: robot_system(elbow(), OperationalSpaceImpedance("fist", [0, 0, 0], 1, 1)), ["fist"]),
        (lambda: robot_system(elbow(), DecoupledImpedance(1.0)), ["floating base"]),
        (lambda: robot_system(elbow(), Feedback(lambda s, p: s.v[:2])), ["(2,)", "(4,)"]),
        (lambda: robot_system(elbow(), Feedback(lambda s, p: -p.step * s.v, step=0.1)), ["'step'", "name"]),
        (
            lambda: robot_system(flyer(), controller_2(), controller_2(), Contact("foot")),
            ["'K_r'", "another name"],
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(act, words):
    with pytest.raises(LiebodyError) as caught:
        act()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_two_springs_of_a_kind_have_parameters_of_their_own():
    """Under another name than the usual one, with that name before theirs."""
    swing = PolarSpring("foot", 2.0, acts="flight", name="swing")
    system = robot_system(
        models.prismatic_hopper(), PolarSpring("foot", 6.0), swing, Contact("foot"), ledger=False
    )
    given = system.parameters.defaults
    assert (given["K_p"], given["swing_K_p"]) == (6.0, 2.0)
    up = np.array([-np.pi / 2 + 0.1, 0, 0.3, 0.12])  # in flight, the leg ahead: only the swing acts
    run = system.simulate(up, t_end=1e-3, record_every=1e-3)
    assert run.outputs["efforts"][0, 0] == pytest.approx(-0.2)
