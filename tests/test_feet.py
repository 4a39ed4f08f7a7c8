"""Feet that stand on rigid ground: the compass walker's equations, laws of impacts, the ledger, refusals."""

import numpy as np
import pytest
from found import load_example
from random_trees import random_inertia, random_state

from liebody import dynamics
from liebody.base.errors import ModelError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import PointFeet, TimeStepping
from liebody.groups import SO3, Free, Planar, PlanarTranslation, Revolute
from liebody.hybrid import robot_system

FEET = ("left foot", "right foot")


@pytest.fixture(scope="module")
def compass():
    return load_example("compass_walker")


@pytest.fixture(scope="module")
def walker(compass):
    """The compass walker as a tree: a mass at the hip, one in each leg; q = (z, x, left, right)."""
    c = compass
    builder = TreeBuilder("compass").add("hip", PlanarTranslation((0, 1, 0)), SpatialInertia.point(c.HIP))
    for side in ("left", "right"):
        leg = SpatialInertia.point(c.LEG, [0, 0, -c.B])
        builder.add(side, Revolute([0, -1, 0]), leg, "hip").frame(f"{side} foot", side, [0, 0, -c.L])
    return robot_system(builder.build(), PointFeet(*FEET), step=1e-3)


def moving(walker, angles, rates, stance=0):
    """A state with the standing foot at rest; memory and parameters for it."""
    q, v = np.concatenate([[0.9, 0.3], angles]), np.concatenate([[0, 0], rates])
    J = dynamics.frame_jacobian(walker.tree, q, FEET[stance], "mixed")[[3, 5]]
    v[:2] = -np.linalg.solve(J[:, :2], J @ v)
    z = walker.memory.type(**walker.memory.defaults)._replace(ground_stands=np.eye(2)[stance])
    return q, v, z, walker.parameters.type(**walker.parameters.defaults)


def test_a_leg_that_stands_swings_the_other_as_in_the_compass_walker(compass, walker):
    rng = np.random.default_rng(0)
    for stance in (0, 1):
        angles, rates = rng.uniform(-0.5, 0.5, 2), rng.normal(size=2)
        found = walker.vector_field(0.0, *moving(walker, angles, rates, stance))[2:]
        order = [0, 1] if stance == 0 else [1, 0]
        wanted = compass.swing(0.0, angles[order], rates[order], None, None)
        np.testing.assert_allclose(np.asarray(found, float)[order], np.asarray(wanted, float), rtol=1e-11)


def legged(base):
    """A torso with two legs; the frames of the feet are turned anyhow."""
    rng = np.random.default_rng(3)
    builder = TreeBuilder("legged").add("torso", base, random_inertia(rng))
    for side, x in (("left", 0.1), ("right", -0.2)):
        hip = np.eye(4)
        hip[0, 3] = x
        foot = np.eye(4)
        foot[:3, :3] = SO3.exp([0.3, -0.8, 0.4])
        foot[:3, 3] = [0.05, 0, -0.7]
        builder.add(side, Revolute([0, 1, 0]), random_inertia(rng), "torso", hip)
        builder.frame(f"{side} foot", side, foot)
    return robot_system(builder.build(), PointFeet(*FEET), step=1e-3)


@pytest.mark.parametrize("base", [Free(), Planar([0, 1, 0])], ids=["space", "plane"])
def test_accelerations_and_forces_solve_the_equations_of_a_standing_point(base):
    """[M -J^T; J 0] (dv/dt, F) = (-C v - g, -(dJ/dt) v), with rows in the world's axes."""
    system = legged(base)
    rng = np.random.default_rng(5)
    tree, z = system.tree, system.memory.type(**system.memory.defaults)
    p = system.parameters.type(**system.parameters.defaults)
    q, v = random_state(rng, tree)[:2]
    for stance in (0, 1):
        z = z._replace(ground_stands=np.eye(2)[stance])
        J = dynamics.frame_jacobian(tree, q, FEET[stance], "mixed")[3:]
        bias = dynamics.frame_jacobian_rate(tree, q, v, FEET[stance], "mixed")[3:] @ v
        moving = np.abs(J).max(axis=1) > 1e-9
        J, bias = J[moving], bias[moving]
        M, h = dynamics.mass_matrix(tree, q), dynamics.bias_forces(tree, q, v)
        k = len(J)
        solved = np.linalg.solve(np.block([[M, -J.T], [J, np.zeros((k, k))]]), np.concatenate([-h, -bias]))
        found = np.asarray(system.vector_field(0.0, q, v, z, p), float)
        np.testing.assert_allclose(found, solved[:-k], rtol=1e-9, atol=1e-9)
        force = np.asarray(system.outputs(0.0, q, v, z, p)["ground_force"], float)
        np.testing.assert_allclose(force[stance][moving], solved[-k:], rtol=1e-9, atol=1e-9)
        assert not force[1 - stance].any() and not np.abs(force[stance][~moving]).max(initial=0) > 1e-12


def test_an_impact_is_that_of_the_compass_walker_and_takes_energy(compass, walker):
    angles, rates = np.array([-0.2, 0.3]), np.array([-1.2, -0.4])  # left stands, right comes down
    q, v, z, p = moving(walker, angles, rates)
    _, after, new = walker.update(1.5, q, v, z, p, walker.events_type(0.0, -1.0))
    _, wanted = compass.heel_strike(angles, rates)
    np.testing.assert_allclose(np.asarray(after, float)[[3, 2]], np.asarray(wanted, float), rtol=1e-11)
    J = dynamics.frame_jacobian(walker.tree, q, FEET[1], "mixed")[3:]
    np.testing.assert_allclose(np.asarray(J @ after, float), 0, atol=1e-13)
    assert new.ground_stands.tolist() == [0, 1] and new.ground_since == 1.5
    T = [float(dynamics.kinetic_energy(walker.tree, q, u)) for u in (v, after)]
    assert new.ground_lost == pytest.approx(T[0] - T[1], rel=1e-12) and T[1] < T[0]
    _, same, old = walker.update(1.5, q, v, z, p, walker.events_type(0.0, 0.0))
    assert np.array_equal(same, v) and old.ground_stands.tolist() == [1, 0] and old.ground_lost == 0


def test_the_foot_stays_the_ground_carries_and_the_ledger_closes(walker):
    """From a fall onto the other foot: no energy but at the impact, and force is the rate of momentum."""
    q, v, _, _ = moving(walker, [-0.25, 0.3], [-1.1, -0.3])
    q[:2] = [np.cos(0.25), 0]
    run = walker.simulate(q, v, t_end=0.1, method="rkmk8", record_every=1e-3)
    assert run.ends == "" and run.events.guard == ("ground_right_foot",)
    before = run.t < run.events.t[0]
    foot = np.stack([dynamics.frame_pose(walker.tree, x, FEET[0])[:3, 3] for x in run.q[before][::5]])
    np.testing.assert_allclose(foot, np.broadcast_to(foot[0], foot.shape), atol=1e-9)
    u, force = run.outputs["com_velocity"][before], run.outputs["ground_force"][before].sum(axis=1)
    rate = walker.tree.mass * (np.gradient(u, 1e-3, axis=0) + [0, 0, 9.81])
    np.testing.assert_allclose(force[1:-1], rate[1:-1], atol=2e-3)
    assert np.all(run.outputs["ground_force"][before][:, 1] == 0)
    books = walker.ledger(run)
    assert books.losses["ground_lost"] > 0.5 and abs(books.residual) < 1e-9 * books.throughput


def test_a_foot_that_does_not_lift_off_ends_the_motion(walker):
    q, v, _, _ = moving(walker, [0.2, -0.2], [0.5, 0.0])
    q[:2] = [np.cos(0.2) - 1e-4, 0]  # both are under the surface, and the other one goes further down
    run = walker.simulate(q, v, t_end=0.6, method="rkmk8")
    assert run.ends == "stopped" and run.end_times < 0.1


def test_time_stepping_refuses_feet_that_stand(walker):
    with pytest.raises(ModelError, match="ground forbids motions"):
        TimeStepping(walker.tree, PointFeet(*FEET))


def test_one_foot_is_refused():
    with pytest.raises(ModelError, match="two or more"):
        PointFeet("foot")
    with pytest.raises(ModelError, match="two or more"):
        PointFeet("foot", "foot")
