"""Inverse kinematics: poses that can be reached are, limits are kept, and what is out of reach is said."""

from importlib import import_module

import numpy as np
import pytest
from found import description
from random_trees import random_tree

import liebody as lb
from liebody.base.errors import ConfigurationError, ModelError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.groups import SE3, Cylindrical, Free, Helical, Prismatic, Revolute, Spherical

inverse_kinematics = import_module(
    "liebody.control.inverse_kinematics"
)  # the module, which has the function's name
ROD = SpatialInertia.box(2.0, [0.5, 0.1, 0.2], com=[0.25, 0, 0])
Z = [0, 0, 1]


def pair(lower=-np.inf, upper=np.inf):
    """Two links of 1 m and 0.6 m in a plane, with limits of the second joint."""
    tree = TreeBuilder("pair")
    tree.add("upper", Revolute(Z), ROD)
    second = Joint("elbow", Revolute(Z), lower=lower, upper=upper)
    tree.add("lower", second, ROD, parent="upper", placement=[1, 0, 0])
    return lb.Robot(tree.frame("hand", "lower", [0.6, 0, 0]).build())


@pytest.mark.parametrize(
    "kinds",
    [
        ["free", "revolute", "spherical", "prismatic"],
        ["free", "helical", "planar", "revolute"],
        ["spherical", "prismatic", "cylindrical", "revolute"],
        ["schoenflies", "revolute", "planar-helical", "spherical"],
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_poses_that_a_random_tree_takes_are_reached_again(kinds, seed):
    """Of its last body, and a position on its first: batches of both, floating bases, joints that follow."""
    rng = np.random.default_rng(seed)
    robot = lb.Robot(random_tree(rng, kinds, followers=seed % 2))
    last, first = robot.tree.bodies[-1].name, robot.tree.bodies[0].name
    q = robot.random(rng, (3, 2))
    T, p = robot.pose(q, last), robot.pose(q, first)[..., :3, 3]
    found = lb.inverse_kinematics(robot, {last: T, first: p})
    assert found.q.shape == q.shape and found.converged.shape == (3, 2) and found.converged.all()
    robot.group.check(found.q)
    np.testing.assert_allclose(robot.pose(found.q, last), T, atol=1e-9 * (1 + np.abs(T).max()))
    np.testing.assert_allclose(robot.pose(found.q, first)[..., :3, 3], p, atol=1e-9)
    assert (found.residual <= 1e-10).all() and (found.reason == "converged").all()


# -- units of length -----------------------------------------------------------------------------------------


def rods(unit):
    return SpatialInertia.box(2.0, np.array([0.5, 0.1, 0.2]) * unit, com=[0.25 * unit, 0, 0])


def hinged(unit):
    """Four hinges and a tool, with limits."""
    tree, parent = TreeBuilder("hinged"), "world"
    for k, axis in enumerate(([0, 0, 1], [0, 1, 0], [0, 1, 0.2], [1, 0, 0])):
        joint = Joint(f"j{k}", Revolute(axis), lower=-2.5, upper=2.5)
        tree.add(f"b{k}", joint, rods(unit), parent, [0.3 * unit, 0.05 * unit * k, 0.1 * unit])
        parent = f"b{k}"
    return lb.Robot(tree.frame("tool", parent, [0.2 * unit, 0, 0]).build())


def sliding(unit):
    """A slide with limits, one without, a screw, an axis beside its origin, and a joint that follows."""
    tree = TreeBuilder("sliding")
    tree.add("x", Joint("x", Prismatic([1, 0, 0]), lower=-0.4 * unit, upper=0.6 * unit), rods(unit))
    tree.add("y", Prismatic([0, 1, 0]), rods(unit), "x", [0, 0, 0.2 * unit])
    tree.add("turn", Revolute([0, 0, 1], np.array([0.1, 0, 0]) * unit), rods(unit), "y")
    tree.add("screw", Helical([1, 0, 1], 0.05 * unit), rods(unit), "turn", [0.3 * unit, 0, 0])
    wrist = Joint("wrist", Prismatic([0, 0, 1]), mimic=Mimic("turn", 0.1 * unit, 0.02 * unit))
    tree.add("wrist", wrist, rods(unit), "screw", [0.1 * unit, 0, 0])
    tree.add("hand", Spherical(), rods(unit), "wrist", [0.1 * unit, 0, 0])
    return lb.Robot(tree.frame("tool", "hand", [0.2 * unit, 0, 0]).build())


def floating(unit):
    """A base that floats, whose frame is at its origin, and an arm."""
    tree = TreeBuilder("floating").add("base", Free(), rods(unit))
    tree.add("arm", Revolute([0, 1, 0]), rods(unit), "base", [0.5 * unit, 0, 0])
    return lb.Robot(tree.frame("tool", "arm", [0.4 * unit, 0, 0]).build())


def block(unit):
    """No links at all: its size is that of its mass."""
    return lb.Robot(TreeBuilder("block").add("tool", Cylindrical([0, 0, 1]), rods(unit)).build())


LENGTHS = {  # coordinates that are lengths
    hinged: [0, 0, 0, 0],
    sliding: [1, 1, 0, 0, 0, 0, 0, 0],
    floating: [0, 0, 0, 0, 1, 1, 1, 0],
    block: [0, 1],
}


def scaled_pose(T, unit):
    scaled = np.array(T)
    scaled[..., :3, 3] *= unit
    return scaled


@pytest.mark.wide
@pytest.mark.parametrize("unit", [2.0**-10, 2.0**20])
@pytest.mark.parametrize("make", LENGTHS, ids=lambda f: f.__name__)
def test_a_search_does_not_depend_on_the_unit_of_length(make, unit):
    """Poses and positions, near and far, within reach and not, with searches from other starts.

    Units are powers of two, which round nothing: all that is computed is the same to the last bit.
    """
    metres, other = make(1.0), make(unit)
    rng, units = np.random.default_rng(5), np.where(LENGTHS[make], unit, 1.0)
    q = metres.random(rng, 6)
    T = metres.pose(q, "tool")
    far = scaled_pose(T[:2], 30.0)
    beside = metres.normalize(q + 0.05 * rng.normal(size=q.shape))
    for targets, q0 in ((T, beside), (T, None), (far, None), (T[:, :3, 3], beside), (far[:, :3, 3], None)):
        scaled = scaled_pose(targets, unit) if targets.ndim == 3 else targets * unit
        options = {"restarts": 7, "iterations": 60}
        ours = lb.inverse_kinematics(metres, {"tool": targets}, q0, **options)
        theirs = lb.inverse_kinematics(other, {"tool": scaled}, None if q0 is None else q0 * units, **options)
        assert theirs.size == unit * ours.size
        np.testing.assert_array_equal(theirs.iterations, ours.iterations)
        np.testing.assert_array_equal(theirs.reason, ours.reason)
        np.testing.assert_array_equal(theirs.q / units, ours.q)
        np.testing.assert_array_equal(theirs.errors["tool"][..., -3:] / unit, ours.errors["tool"][..., -3:])


@pytest.mark.parametrize("make", LENGTHS, ids=lambda f: f.__name__)
def test_robots_of_any_size_take_as_many_steps(make):
    """From 1 mm to 1000 km: 0.05 rad or 5 % of the size from a solution, with the same joints at the end."""
    steps, found = [], []
    metres = make(1.0)
    q = metres.random(np.random.default_rng(7))
    beside = metres.integrate(q, np.full(metres.nv, 0.05))
    for unit in (1e-3, 1.0, 1e3, 1e6):
        robot, units = make(unit), np.where(LENGTHS[make], unit, 1.0)
        inverse = lb.inverse_kinematics(robot, {"tool": robot.pose(q * units, "tool")}, beside * units)
        assert inverse.converged
        steps.append(int(inverse.iterations))
        found.append(inverse.q / units)
    assert len(set(steps)) == 1 and steps[0] <= 6
    np.testing.assert_allclose(found, np.broadcast_to(found[1], np.shape(found)), atol=1e-8)


def test_the_tolerance_is_of_radians_and_of_lengths_over_the_size():
    arm, q = hinged(1e3), np.array([0.3, -0.5, 0.8, 0.4])
    T = arm.pose(q, "tool")
    found = lb.inverse_kinematics(arm, {"tool": T}, q + 0.3, tolerance=1e-3, restarts=0)
    e = found.errors["tool"] / [1, 1, 1, *[found.size] * 3]
    assert 1e-12 < np.linalg.norm(e) <= 1e-3 < found.residual == np.linalg.norm(found.errors["tool"])
    assert found.converged


def test_the_error_is_the_logarithm_between_the_poses():
    robot = lb.models.puma560()
    q, T = robot.random(0), robot.pose(robot.random(1), "tool")
    found = lb.inverse_kinematics(robot, {"tool": T}, q, iterations=1, restarts=0, limits=False)
    e = SE3.log(SE3.inverse(robot.pose(found.q, "tool")) @ T)
    np.testing.assert_allclose(found.errors["tool"], e, atol=1e-12)
    assert found.residual == pytest.approx(np.linalg.norm(e)) and not found.converged
    assert found.reason == "not finished" and found.iterations == 1
    again = lb.inverse_kinematics(robot, {"tool": robot.pose(q, "tool")}, q, limits=False)
    np.testing.assert_array_equal(again.q, q)
    assert again.iterations == 0 and "1 of 1 converged" in repr(again)


def test_steps_near_a_solution_are_quadratic():
    robot = lb.models.puma560()
    q = np.full(6, 0.4)
    residuals = [
        lb.inverse_kinematics(
            robot, {"tool": robot.pose(q, "tool")}, q + 0.05, iterations=k, restarts=0, tolerance=1e-15
        ).residual
        for k in range(4)
    ]
    assert residuals[0] > 0.05 and residuals[2] < 1e-4 and residuals[3] < 10 * residuals[2] ** 1.7


@pytest.mark.parametrize("angle", [0.3, -2.0, 3.1])
def test_a_position_out_of_reach_is_pointed_at(angle):
    """The arm is straight, and what is missing is the rest of the distance."""
    robot, distance = pair(), 2.5
    target = distance * np.array([np.cos(angle), np.sin(angle), 0])
    found = lb.inverse_kinematics(robot, {"hand": target}, {"elbow": 0.3})
    assert not found.converged and found.reason == "closest within reach"
    assert found.residual == pytest.approx(distance - 1.6, abs=1e-9)
    np.testing.assert_allclose(robot.pose(found.q, "hand")[:3, 3], 1.6 * target / distance, atol=1e-5)


def searches(monkeypatch):
    """The number of searches of each call of the inner loop."""
    inner, counts = inverse_kinematics._Search, []
    run = inner.run
    monkeypatch.setattr(inner, "run", lambda self, q, targets: counts.append(len(q)) or run(self, q, targets))
    return counts


def test_what_is_farther_away_than_the_links_are_long_is_given_up_soon(monkeypatch):
    robot, counts = lb.models.puma560(), searches(monkeypatch)
    T = robot.pose(np.full(6, 0.4), "tool")
    far = SE3.motion(T[:3, :3], 5 * T[:3, 3])
    found = lb.inverse_kinematics(robot, {"tool": far})
    assert sum(counts) <= 16 and found.reason == "closest within reach"
    np.testing.assert_array_equal(found.poses["tool"], robot.pose(found.q, "tool"))
    best = lb.inverse_kinematics(robot, {"tool": far}, found.q, restarts=40, rng=1)
    assert found.residual == pytest.approx(best.residual, rel=1e-6)
    counts.clear()
    both = lb.inverse_kinematics(robot, {"tool": np.stack([far, T])}, restarts=5)
    assert both.converged.tolist() == [False, True] and both.poses["tool"].shape == (2, 4, 4)


def test_what_no_search_comes_near_is_given_up_as_soon_as_twelve_agree(monkeypatch):
    """The wrist of a PUMA cannot come to its shoulder: the target is within the links' lengths."""
    robot, counts = lb.models.puma560(), searches(monkeypatch)
    T = robot.pose(np.full(6, 0.4), "tool")
    near = SE3.motion(T[:3, :3], np.zeros(3))
    found = lb.inverse_kinematics(robot, {"tool": near})
    assert 12 <= sum(counts) <= 32 and found.reason == "closest within reach"
    assert "closest within reach" in repr(found)
    best = lb.inverse_kinematics(robot, {"tool": near}, found.q, restarts=60, rng=1)
    assert found.residual == pytest.approx(best.residual, rel=1e-6)


@pytest.mark.wide
def test_a_pose_with_another_that_is_close_to_it_is_not_given_up():
    """A UR5's arm that is nearly straight: a quarter of the searches end with a straight one, 0.05 away."""
    robot = lb.load(description("ur_description/urdf/ur5_robot.urdf"))
    q = [2.13553858, -1.49228973, 0.03810703, -2.97518533, -1.505676, 0.91559434]
    T = robot.pose(q, "tool0")
    found = lb.inverse_kinematics(robot, {"tool0": np.broadcast_to(T, (400, 4, 4))})
    assert found.converged.all()


@pytest.mark.slow
def test_targets_that_can_be_reached_are_not_given_up():
    robot = lb.models.puma560()
    rng = np.random.default_rng(3)
    q = robot.random(rng, 300)
    q[:100] = np.round(q[:100] / (np.pi / 2)) * (np.pi / 2)  # singular ones among them
    found = lb.inverse_kinematics(
        robot, {"tool": robot.pose(q, "tool")}, rng.uniform(-3, 3, (300, 6)), limits=False
    )
    assert found.converged.all()


@pytest.mark.parametrize("seed", range(5))
def test_no_frame_gets_farther_than_its_links_are_long(seed):
    rng = np.random.default_rng(seed)
    robot = lb.Robot(random_tree(rng, ["revolute", "prismatic", "spherical", "revolute", "revolute"]))
    poses = robot.poses(robot.random(rng, 200))
    for body, T in zip(robot.tree.bodies, np.moveaxis(poses, 1, 0), strict=True):
        place, reach = inverse_kinematics._reach(robot.tree, body.name, limits=False)
        assert np.linalg.norm(T[:, :3, 3] - place, axis=-1).max() <= reach * (1 + 1e-12) + 1e-12


def test_a_chain_of_hinges_gets_as_far_as_its_links_are_long():
    place, reach = inverse_kinematics._reach(pair().tree, "hand", limits=True)
    assert not place.any() and reach == pytest.approx(1.6, abs=1e-15)


def test_limits_are_kept_and_the_closest_point_within_them_is_found():
    """The distance of the hand from the shoulder, with the elbow at its limit, by the law of cosines."""
    robot = pair(lower=0.4, upper=0.9)
    near = np.sqrt(1 + 0.36 + 1.2 * np.cos(0.9))
    found = lb.inverse_kinematics(robot, {"hand": [0, near - 0.2, 0]})
    assert found.q[1] == 0.9 and not found.converged
    assert found.residual == pytest.approx(0.2, abs=1e-9)
    free = lb.inverse_kinematics(robot, {"hand": [0, near - 0.2, 0]}, limits=False)
    assert free.converged and not 0.4 <= free.q[1] <= 0.9
    inside = lb.inverse_kinematics(robot, {"hand": [0, near + 0.02, 0]}, {"elbow": -3.0})
    assert inside.converged and 0.4 <= inside.q[1] <= 0.9


def test_limits_of_joints_that_follow_are_those_of_their_leader():
    """A telescope: the second stage goes along by -2 q + 0.1, and may go from -0.5 to 0.3."""
    tree = TreeBuilder("telescope")
    tree.add("first", Joint("first", Prismatic([1, 0, 0]), lower=-1, upper=1), ROD)
    mimic = Mimic("first", -2.0, 0.1)
    tree.add(
        "second",
        Joint("second", Prismatic([1, 0, 0]), lower=-0.5, upper=0.3, mimic=mimic),
        ROD,
        parent="first",
    )
    robot = lb.Robot(tree.build())
    for end, target in ((0.3, -10.0), (-0.1, 10.0)):  # the hand is at q + (-2 q + 0.1)
        found = lb.inverse_kinematics(robot, {"second": [target, 0, 0]})
        np.testing.assert_allclose(found.q, [end], atol=1e-12)


def test_a_joint_that_follows_by_nothing_keeps_no_limits_of_its_leader():
    """Its multiplier is zero: the leader may go where it will."""
    tree = TreeBuilder("stiff").add("upper", Joint("upper", Revolute([0, 0, 1])), ROD)
    elbow = Joint("elbow", Revolute([0, 0, 1]), lower=-0.1, upper=0.2, mimic=Mimic("upper", 0.0, 0.05))
    robot = lb.Robot(tree.add("lower", elbow, ROD, parent="upper", placement=[1, 0, 0]).build())
    found = lb.inverse_kinematics(robot, {"lower": robot.pose(np.array([1.0]), "lower")})
    assert found.converged
    np.testing.assert_allclose(found.q, [1.0], atol=1e-9)


def test_the_limits_of_a_description_are_kept():
    text = lb.models.planar_chain(4).to_urdf().replace('"continuous"', '"revolute"')
    limit = '<limit lower="-0.8" upper="0.7" effort="1" velocity="1"/></joint>'
    robot = lb.load(text.replace("</joint>", limit))
    tip = robot.tree.bodies[-1].name
    rng = np.random.default_rng(0)
    q = rng.uniform(-0.8, 0.7, (20, robot.nq))
    found = lb.inverse_kinematics(robot, {tip: robot.pose(q, tip)})
    assert found.converged.all() and found.q.min() >= -0.8 and found.q.max() <= 0.7


def test_a_batch_is_searched_as_its_members_are():
    robot = lb.models.puma560()
    T = robot.pose(robot.random(2, 6), "tool")
    options = {"limits": False, "restarts": 0}
    together = lb.inverse_kinematics(robot, {"tool": T}, **options)
    for k in range(6):
        alone = lb.inverse_kinematics(robot, {"tool": T[k]}, **options)
        assert alone.iterations == together.iterations[k] and alone.reason == together.reason[k]
        np.testing.assert_allclose(alone.q, together.q[k], atol=1e-6)
    starts = robot.random(3, 5)
    many = lb.inverse_kinematics(robot, {"tool": T[0]}, starts, limits=False)
    assert many.q.shape == (5, 6) and many.converged.all()


@pytest.mark.parametrize("tail", [(3,), (4, 4)], ids=["positions", "poses"])
def test_no_targets_have_no_configurations(tail):
    found = lb.inverse_kinematics(pair(), {"hand": np.zeros((0, *tail))})
    assert found.q.shape == (0, 2) and found.poses["hand"].shape == (0, 4, 4)
    assert found.errors["hand"].shape == (0, 3 * len(tail)) and found.converged.shape == (0,)


TURNED = np.diag([1.0, 1, -1, 1])


@pytest.mark.parametrize(
    ("targets", "q0", "error", "message"),
    [
        ({}, None, ModelError, "there are no targets"),
        ({"hnad": np.zeros(3)}, None, ModelError, "'hnad'.*did you mean 'hand'"),
        ({"hand": np.zeros(4)}, None, ShapeError, r"shape \(4,\), expected a pose"),
        ({"hand": "there"}, None, ShapeError, "cannot be read"),
        ({"hand": [np.nan, 0, 0]}, None, ConfigurationError, "expected a finite number"),
        ({"hand": TURNED}, None, ConfigurationError, "no pose"),
        ({"hand": np.zeros(3)}, [0.0], ShapeError, "2"),
        ({"hand": np.zeros((2, 3))}, np.zeros((3, 2)), ShapeError, "do not broadcast"),
        ({"hand": np.zeros(3)}, {"wrist": 1.0}, ModelError, "'wrist'.*known are"),
    ],
)
def test_targets_and_starts_that_cannot_be_are_refused(targets, q0, error, message):
    with pytest.raises(error, match=message):
        lb.inverse_kinematics(pair(), targets, q0)


def test_limits_that_leave_nothing_are_refused():
    tree = TreeBuilder("stuck")
    tree.add("first", Joint("first", Prismatic([1, 0, 0]), lower=0.5, upper=1), ROD)
    mimic = Mimic("first", 1.0, 0.0)
    tree.add(
        "second", Joint("second", Prismatic([1, 0, 0]), lower=-1, upper=0.3, mimic=mimic), ROD, parent="first"
    )
    with pytest.raises(ModelError, match="no value within the limits"):
        lb.inverse_kinematics(lb.Robot(tree.build()), {"second": np.zeros(3)})
