"""Bushings, nonlinear springs, offsets, lines, potentials of a `SystemBuilder`, and what its joints carry."""

from __future__ import annotations

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ArgumentError, ModelError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.groups import SE3, SO3, Free, Prismatic, Revolute, Spherical
from liebody.mechanisms import Bushing
from liebody.mechanisms.constrained import SystemBuilder

BRICK = SpatialInertia(2.0, [0.1, -0.05, 0.2], np.diag([0.3, 0.4, 0.5]))
PLACE = SE3.motion(SO3.exp(np.array([0.3, -0.2, 0.4])), np.array([0.5, 0.1, -0.2]))
TWIST = np.array([0.7, -1.1, 0.4, 0.2, 0.6, -0.3])
K, D, K_R, D_R = (40.0, 60.0, 90.0), (1.0, 2.0, 0.5), (7.0, 9.0, 4.0), (0.1, 0.2, 0.3)


def hung(**numbers) -> lb.mechanisms.constrained.System:
    """A brick in a bushing on the world, the frames of which lie anywhere on both."""
    made = SystemBuilder("hung", gravity=(0, 0, -9.81)).body("brick", BRICK)
    on = SE3.motion(SO3.exp(np.array([0.1, 0.5, -0.3])), np.array([0.05, 0.1, 0.0]))
    return made.bushing("mount", "world", "brick", on_a=PLACE, on_b=on, **numbers).build()


def test_a_bushing_without_dampers_keeps_energy_through_large_turns():
    system = hung(stiffness=K, turning_stiffness=K_R)
    q = system.configuration({"brick": PLACE @ SE3.exp(np.array([2.0, 1.5, -1.0, 0.3, 0.1, 0.2]))})
    run = lb.simulate(system, q, system.velocities(q, {"brick": TWIST}), t_end=2.0, dt=1e-3, method="rkmk8")
    assert run.energy_drift < 1e-10 and np.ptp(run.potential) > 5


def test_small_motions_of_a_bushing_are_those_of_its_stiffnesses_along_each_axis():
    """Wrench -(k_r theta, k x) for small theta and x; the damper's beside it, in the frames' own axes."""
    law = Bushing("a", "b", K, D, K_R, D_R)
    for i in range(6):
        small = 1e-6 * np.eye(6)[i]
        Va, Vb = np.zeros(6), np.eye(6)[i]
        Fa, Fb = law.wrenches(0.0, PLACE, Va, PLACE @ SE3.exp(small), np.zeros(6))
        np.testing.assert_allclose(Fb, -np.array([*K_R, *K]) * small, atol=2e-10)
        assert law.energy(PLACE, PLACE @ SE3.exp(small)) == pytest.approx(0.5e-12 * [*K_R, *K][i], rel=1e-3)
        Fa, Fb = law.wrenches(0.0, PLACE, Va, PLACE, Vb)
        np.testing.assert_allclose(Fb, -np.array([*D_R, *D]) * Vb, atol=1e-12)
        np.testing.assert_allclose(Fa, -Fb, atol=1e-12)


def test_wrenches_of_a_bushing_are_in_balance_and_do_the_work_of_its_energy():
    """No force or moment is left of both; power of the springs is -dE/dt, of the dampers not positive."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        Ta, Tb = (SE3.exp(rng.normal(size=6)) for _ in range(2))
        Va, Vb = rng.normal(size=(2, 6))
        springs, dampers = Bushing("a", "b", K, 0.0, K_R), Bushing("a", "b", 0.0, D, 0.0, D_R)
        for law in (springs, dampers):
            Fa, Fb = law.wrenches(0.0, Ta, Va, Tb, Vb)
            left = SE3.Ad(SE3.inverse(Ta)).T @ Fa + SE3.Ad(SE3.inverse(Tb)).T @ Fb
            np.testing.assert_allclose(left, 0, atol=1e-12 * np.abs(Fb).max())
            power = Fa @ Va + Fb @ Vb
            if law is dampers:
                assert power < 0
            else:
                h = 1e-6
                after, before = (law.energy(Ta @ SE3.exp(s * Va), Tb @ SE3.exp(s * Vb)) for s in (h, -h))
                assert power == pytest.approx(-(after - before) / (2 * h), rel=1e-6, abs=1e-6)


def test_a_bushing_acts_alike_in_a_robot_and_in_a_system():
    tree = TreeBuilder("brick").add("brick", Free(), BRICK).frame("on", "brick", PLACE).build()
    robot = lb.Robot(tree)
    q = robot.integrate(robot.neutral(), np.array([0.3, 0.2, -0.4, 0.1, 0.2, 0.3]))
    law = Bushing("world", "on", K, D, K_R, D_R)
    run = lb.simulate(robot, q, TWIST, t_end=0.5, dt=1e-3, forces=[law])
    made = SystemBuilder("brick").body("brick", BRICK)
    system = made.bushing(
        "mount", "world", "brick", on_b=PLACE, stiffness=K, damping=D,
        turning_stiffness=K_R, turning_damping=D_R,
    ).build()  # fmt: skip
    start = system.configuration({"brick": robot.poses(q)[0]})
    other = lb.simulate(system, start, system.velocities(start, {"brick": TWIST}), t_end=0.5, dt=1e-3)
    np.testing.assert_allclose(system.poses(other.q[-1])[0], robot.poses(run.q[-1])[0], atol=1e-9)
    np.testing.assert_allclose(np.diff(other.potential), np.diff(run.potential), atol=1e-9)


@pytest.mark.parametrize("given", [{"stiffness": -1.0}, {"damping": (1.0, 2.0)}, {"turning_damping": np.nan}])
def test_bushings_that_cannot_be_are_refused(given):
    with pytest.raises(ModelError, match="give a number or three"):
        Bushing("a", "b", **given)


def test_a_spring_that_is_not_linear_pulls_and_stores_as_its_functions_say():
    """A hardening spring: m x'' = -k s - c s^3 of the stretch s; its energy k s^2/2 + c s^4/4 is kept."""
    made = SystemBuilder("duffing", gravity=(0, 0, 0))
    made.body("mass", SpatialInertia(2.0, rotational=np.eye(3)), pose=[1.5, 0, 0])
    made.spring(
        "s", "world", "mass", stiffness=30.0, length=1.0,
        tension=lambda length, rate: 80.0 * (length - 1.0) ** 3, energy=lambda x: 20.0 * (x - 1.0) ** 4,
    )  # fmt: skip
    system = made.build()
    a = system.world_accelerations(system.guess, np.zeros(6))
    np.testing.assert_allclose(a[0], [0, 0, 0, -(30 * 0.5 + 80 * 0.125) / 2, 0, 0], atol=1e-12)
    run = lb.simulate(system, t_end=2.0, dt=1e-3)
    assert run.energy[0] == pytest.approx(15 * 0.25 + 20 * 0.0625) and run.energy_drift < 1e-9


def test_a_point_on_a_line_slides_along_it():
    """A bead on an inclined wire: x'' = (g . d) d; the offset of the point from the centre of mass swings."""
    d = np.array([2.0, 1.0, -2.0]) / 3
    made = SystemBuilder("wire").body("bead", SpatialInertia(1.0, rotational=np.eye(3)), pose=[0.5, 0.0, 1.0])
    system = made.point_on_line("wire", "bead", through=[0.5, 0, 1], direction=5 * d).build()
    assert system.nc == 2 and system.ns == 0
    run = lb.simulate(system, t_end=1.0, dt=1e-2)
    expected = np.array([0.5, 0, 1]) + 0.5 * (9.81 * 2 / 3) * d
    np.testing.assert_allclose(system.poses(run.q[-1])[0, :3, 3], expected, atol=1e-10)
    with pytest.raises(ModelError, match="has no direction"):
        made.point_on_line("other", "bead", direction=[0, 0, 0])


@pytest.mark.parametrize("joint", [Prismatic([0, 0, 1]), Revolute([1, 0, 0])])
def test_the_offset_of_a_joint_is_its_coordinate_where_the_frames_coincide(joint):
    """A spring at rest at the offset does not pull where the frames coincide, and one at zero does."""
    for rest, stretch in ((0.3, 0.0), (0.0, 0.3)):
        made = SystemBuilder("one", gravity=(0, 0, 0)).body("b", BRICK, pose=PLACE)
        made.joint("j", joint, "world", "b", on_parent=PLACE, offset=0.3).joint_spring("s", "j", 8.0, rest)
        system = made.build()
        assert float(system.potential_energy(system.guess)) == pytest.approx(4.0 * stretch**2, abs=1e-12)
    with pytest.raises(ModelError, match="to a joint of one motion"):
        SystemBuilder().body("b", BRICK).joint("j", Spherical(), "world", "b", offset=0.3)


def test_a_wrench_with_a_potential_keeps_the_energy_of_a_run():
    made = SystemBuilder("field").body("b", BRICK)

    def pull(t, T, V):
        return np.concatenate([np.zeros(3, int), -30.0 * (T[:3, :3].T @ T[:3, 3])])

    made.wrench("field", pull, "b", energy=lambda T: 15.0 * (T[:3, 3] @ T[:3, 3]))
    system = made.build()
    q = system.configuration({"b": PLACE})
    run = lb.simulate(system, q, system.velocities(q, {"b": TWIST}), t_end=1.0, dt=1e-3)
    assert run.energy_drift < 1e-9 and np.ptp(run.potential) > 1


# -- accelerations and reactions -----------------------------------------------------------------------------


def swinging() -> tuple[lb.mechanisms.constrained.System, np.ndarray, np.ndarray]:
    """A brick on a hinge with a spring and a damper, one on SE(3); a second one on a ball joint at it."""
    made = SystemBuilder("swinging").body("a", BRICK).body("b", BRICK)
    made.joint("hinge", Revolute([0, 1, 0]), "world", "a", on_child=[-0.4, 0, 0.1], damping=0.8)
    made.joint_spring("coil", "hinge", 25.0, 0.5)
    made.joint("ball", Spherical(), "a", "b", on_parent=[0.3, 0, 0], on_child=[-0.2, 0.1, 0])
    system = made.build()
    q = system.assemble()
    v = system.consistent_velocities(q, system.velocities(q, {"a": TWIST, "b": -TWIST}))
    return system, q, v


def test_world_accelerations_are_second_derivatives_of_the_motion():
    system, q, v = swinging()
    assert {b.group for b in system.bodies} == {SE3, lb.groups.SO3xR3}
    h = 1e-4
    run = lb.simulate(system, q, v, t_end=2 * h, dt=h, method="rkmk4", stabilization="none")
    poses, twists = system.poses(run.q), system.twists(run.q, run.v)
    spin = np.einsum("...ij,...j->...i", poses[..., :3, :3], twists[..., :3])
    velocity = np.einsum("...ij,...j->...i", poses[..., :3, :3], twists[..., 3:])
    rates = np.concatenate([spin, velocity], axis=-1)
    found = system.world_accelerations(run.q[1], run.v[1])
    np.testing.assert_allclose(found, (rates[2] - rates[0]) / (2 * h), atol=1e-5)
    np.testing.assert_allclose(system.world_accelerations(run.q, run.v)[1], found, atol=1e-12)


def test_reactions_with_and_without_what_a_joint_carries_are_those_of_newton_and_euler():
    """With spring and damper all that acts on both bodies but weight; without, no moment about y."""
    system, q, v = swinging()
    bare, full = (system.reactions(q, v, passive=passive)["hinge"] for passive in (False, True))
    a, poses, twists = system.world_accelerations(q, v)[:, :], system.poses(q), system.twists(q, v)
    F, about = np.zeros(6), poses[0] @ [-0.4, 0, 0.1, 1]
    for T, A, V in zip(poses, a, twists):
        R, w = T[:3, :3], T[:3, :3] @ V[:3]
        r = R @ BRICK.com
        point = A[3:] + np.cross(A[:3], r) + np.cross(w, np.cross(w, r))
        force = BRICK.mass * (point - system.gravity)
        Theta = R @ BRICK.rotational @ R.T
        arm = T[:3, 3] + r - about[:3]
        F += np.r_[Theta @ A[:3] + np.cross(w, Theta @ w) + np.cross(arm, force), force]
    expected = np.r_[poses[0][:3, :3].T @ F[:3], poses[0][:3, :3].T @ F[3:]]
    np.testing.assert_allclose(full, expected, atol=1e-9)
    assert abs(bare[1]) < 1e-9 and full[1] == pytest.approx(25.0 * 0.5 - 0.8 * twists[0][1], abs=1e-9)
    np.testing.assert_allclose(np.delete(bare, 1), np.delete(full, 1), atol=1e-9)
    run = lb.simulate(system, q, v, t_end=0.02, dt=1e-2)
    np.testing.assert_allclose(run.reactions("hinge", passive=True)[0], full, atol=1e-9)
    np.testing.assert_array_equal(run.reactions("ball", passive=True), run.reactions("ball"))


def height(T):
    return T[2, 3]


def sinking(T, V):
    return (T[:3, :3] @ V[3:])[2]


def drag(t, T, V):
    return -V


@pytest.mark.parametrize(("kind", "function"), [("constraint", height), ("velocity_constraint", sinking)])
def test_one_body_may_be_given_by_its_name(kind, function):
    made = []
    for bodies in ("ball", ["ball"]):
        builder = SystemBuilder("alone").body("ball", SpatialInertia.sphere(1.0, 0.1))
        made.append(getattr(builder, kind)("level", function, bodies).build())
    q, v = made[0].guess, np.ones(6)
    alone, listed = (system.consistent_velocities(q, v) for system in made)
    np.testing.assert_array_equal(alone, listed)
    assert made[0].nc == 1 and abs(alone[5]) < 1e-15


@pytest.mark.parametrize(
    ("kind", "function", "taken"),
    [
        ("constraint", sinking, r"\(T_1\)"),
        ("velocity_constraint", height, r"\(T_1, V_1\)"),
        ("wrench", sinking, r"\(t, T_1, V_1\)"),
    ],
)
def test_functions_of_other_arguments_are_refused_with_those_that_are_given(kind, function, taken):
    builder = SystemBuilder("alone").body("ball", SpatialInertia.sphere(1.0, 0.1))
    with pytest.raises(ArgumentError, match=f"'level' has to be a function of {taken}"):
        getattr(builder, kind)("level", function, ["ball"])
    assert builder.wrench("drag", drag, "ball").build().nu == 0
