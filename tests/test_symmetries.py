"""Conserved momenta found by rank; and whether a skew C can decouple external and internal motion."""

import numpy as np
import pytest
from random_trees import random_inertia, random_placement, random_state, random_tree

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import ModelError
from liebody.compiler import jacobian, trace
from liebody.groups import Free, Planar, Prismatic, Revolute, Spherical
from liebody.mechanisms import FrameForce, JointSpring


def top(**inertia):
    builder = lb.TreeBuilder("top").add("top", Spherical(), lb.SpatialInertia(2.0, [0, 0, 0.3], **inertia))
    return lb.Robot(builder.build())


def floating(joints, root=None):
    """A base with a chain of these joints on it, of random bodies at random places."""
    rng, builder = np.random.default_rng(8), lb.TreeBuilder("floating")
    builder.add("base", root or Free(), random_inertia(rng))
    for k, joint in enumerate(joints):
        place = [0.4, 0.1 * k, 0] if root else random_placement(rng)
        builder.add(f"link{k}", joint, random_inertia(rng), "base" if k == 0 else f"link{k - 1}", place)
    return builder.build()


def test_a_symmetric_top_keeps_its_vertical_momentum_and_that_about_its_axis():
    """Lagrange's top has two, an asymmetric one has one, and Euler's, without weight, has three."""
    lagrange = lb.symmetries(top(rotational=np.diag([0.2, 0.2, 0.1])))
    assert str(lagrange).splitlines()[1:] == ["  top.wz left", "  top.wz right"]
    asymmetric = top(rotational=np.diag([0.2, 0.25, 0.1]))
    assert str(lb.symmetries(asymmetric)).splitlines()[1:] == ["  top.wz left"]
    euler = lb.symmetries(lb.Robot(asymmetric.tree, gravity=(0, 0, 0)))
    assert [name for name in str(euler).split() if name.startswith("top")] == ["top.wx", "top.wy", "top.wz"]


def test_a_tree_without_motions_has_no_momenta_and_says_so():
    with pytest.raises(ModelError, match="rock has no degrees of freedom"):
        lb.symmetries(lb.Robot(lb.TreeBuilder("rock").build()))


def test_momenta_stay_along_motions_and_momenta_that_are_no_symmetries_do_not():
    tree = floating([Revolute((1, 0, 0)), Spherical()])
    robot = lb.Robot(tree)
    found = lb.symmetries(robot, joints={"armature"})
    assert len(found) == 3  # along both horizontal axes, about the vertical
    q, v, _ = random_state(np.random.default_rng(5), tree)
    run = lb.simulate(robot, q, v, t_end=0.3, dt=5e-4, method="rkmk8", joints={"armature"})
    momenta = found.momenta(run.q, run.v)
    np.testing.assert_allclose(momenta, np.tile(momenta[0], (len(momenta), 1)), atol=1e-8)
    assert np.ptp(robot.legendre_transform(run.q, run.v), axis=0).min() > 1e-3


def test_forces_break_symmetries_and_internal_ones_do_not():
    tree = random_tree(np.random.default_rng(6), ["free", "revolute"], rotors=False)
    robot = lb.Robot(tree, gravity=(0, 0, 0))

    class Anchor(FrameForce):
        frames = (tree.bodies[0].name,)

        def wrenches(self, t, T, V):
            return [np.concatenate([np.zeros(3, int), -T[:3, :3].T @ T[:3, 3]])]

    anchor = Anchor()
    assert len(lb.symmetries(robot)) == 6
    assert len(lb.symmetries(robot, [JointSpring(3.0)])) == 6  # between bodies
    held = lb.symmetries(robot, [anchor])
    assert len(held) == 3  # rotations about the anchor; in the axes of the joint's frame, wherever that lies
    q, v, _ = random_state(np.random.default_rng(7), tree)
    run = lb.simulate(robot, q, v, t_end=0.3, dt=1e-3, method="rkmk8", forces=[anchor])
    np.testing.assert_allclose(np.ptp(held.momenta(run.q, run.v), axis=0), 0, atol=1e-9)


def test_shifts_of_joints_are_symmetries_where_nothing_depends_on_them():
    builder = lb.TreeBuilder("cart")
    builder.add("cart", Prismatic([1, 0, 0]), lb.SpatialInertia(1.0, rotational=np.eye(3)))
    builder.add("wheel", Revolute([0, 1, 0]), lb.SpatialInertia(1.0, rotational=np.eye(3)), "cart")
    found = lb.symmetries(lb.Robot(builder.build()))
    assert str(found).splitlines()[1:] == ["  cart", "  wheel"]
    assert len(lb.symmetries(lb.models.double_pendulum())) == 0
    with pytest.raises(ModelError, match="no tree of joints"):
        lb.symmetries("a pendulum")


# -- a skew C that decouples ------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["free", "planar"])
def test_external_energy_changes_by_the_covariant_derivative_of_the_locked_inertia(root):
    """d/dt (nu^T Mbb nu)/2 = -nu^T (sum of D_i Mbb q_i') nu/2 without forces: what no skew C can decouple."""
    planar, spatial = [Revolute((0, 0, 1)), Prismatic((1, 0, 0))], [Revolute((1, 0, 0)), Spherical()]
    tree = floating(spatial) if root == "free" else floating(planar, Planar((0, 0, 1)))
    rng = np.random.default_rng(8)
    k = tree.bodies[0].joint.dim
    q, v, _ = random_state(rng, tree)
    D = dyn.locked_inertia_derivative(tree, q)
    np.testing.assert_allclose(D, lb.Robot(tree).locked_inertia_derivative(q), atol=1e-12)
    a = dyn.forward_dynamics(tree, q, v, np.zeros(tree.nv), (0, 0, 0))

    def energy(s):
        moved = tree.group.integrate(q, s * v + 0.5 * s * s * a)
        nu = dyn.locked_velocity(tree, moved, v + s * a)
        return 0.5 * nu @ dyn.locked_inertia(tree, moved) @ nu

    h = 1e-5
    nu = dyn.locked_velocity(tree, q, v)
    exchange = -0.5 * nu @ np.tensordot(v[k:], D, 1) @ nu
    assert abs(exchange) > 1e-3
    assert (energy(h) - energy(-h)) / (2 * h) == pytest.approx(exchange, rel=1e-6)


def test_where_the_locked_inertia_is_covariantly_constant_a_skew_c_decouples():
    """A planar base with balanced rotors: C_x = ad~_(Mbb nu) - Mbb ad_(m q'), with C_x + C_x^T = dMbb/dt."""
    builder = lb.TreeBuilder("rotors")
    builder.add("base", Planar((0, 0, 1)), lb.SpatialInertia(3.0, [0.2, 0.1, 0], rotational=0.4 * np.eye(3)))
    for k, place in enumerate(([0.5, 0, 0], [-0.3, 0.2, 0])):
        rotor = lb.SpatialInertia(0.7, rotational=0.1 * np.eye(3))
        builder.add(f"rotor{k}", Revolute((0, 0, 1)), rotor, "base", place)
    tree = builder.build()
    q, v, _ = random_state(np.random.default_rng(9), tree)
    centre = dyn.locked_inertia_derivative(tree, q)
    np.testing.assert_allclose(centre, 0, atol=1e-13)
    base, L = tree.bodies[0].joint.group, dyn.locked_inertia(tree, q)
    nu, m = dyn.locked_velocity(tree, q, v), dyn.mechanical_connection(tree, q)
    C = base.coad(L @ nu) - L @ base.ad(m @ v[3:])
    rate = dyn.mass_matrix_derivative(tree, q, np.concatenate([np.zeros(3), v[3:]]))[:3, :3]
    np.testing.assert_allclose(C + C.T, rate, atol=1e-13)
    a = dyn.forward_dynamics(tree, q, v, np.zeros(tree.nv), (0, 0, 0))
    h = 1e-6
    ahead, behind = (
        dyn.locked_velocity(tree, tree.group.integrate(q, s * v + 0.5 * s * s * a), v + s * a)
        for s in (h, -h)
    )
    np.testing.assert_allclose(L @ (ahead - behind) / (2 * h) + C @ nu, 0, atol=1e-8)


def test_internal_motion_obeys_lagranges_and_poincares_equations():
    """M_y q'' + Gamma_y + <h_b, B(., q')> - nu^T D Mbb nu / 2 = 0: what of C v is left for C_y."""
    tree = floating([Revolute((1, 0, 0)), Revolute((0, 1, 0)), Prismatic((0, 1, 0))])
    q, v, _ = random_state(np.random.default_rng(3), tree)
    a, x = dyn.forward_dynamics(tree, q, v, np.zeros(9), (0, 0, 0)), v[6:]
    nu = dyn.locked_velocity(tree, q, v)
    h = dyn.locked_inertia(tree, q) @ nu
    My = jacobian(
        trace(lambda x: dyn.internal_inertia(tree, np.concatenate([q[:7], x])), {"x": 3}, "My"), "x"
    )
    d = My(q[7:])  # [i, j, k]: d_k M_ij
    christoffel = np.einsum("ijk,j,k->i", d, x, x) - 0.5 * np.einsum("jki,j,k->i", d, x, x)
    curved = np.einsum("a,aij,j->i", h, dyn.connection_curvature(tree, q), x)
    exchanged = np.einsum("iab,a,b->i", dyn.locked_inertia_derivative(tree, q), nu, nu) / 2
    total = dyn.internal_inertia(tree, q) @ a[6:] + christoffel + curved - exchanged
    np.testing.assert_allclose(total, 0, atol=1e-10)
