"""Inertias, joints and trees: what they say, and what they refuse."""

import re

import numpy as np
import pytest
from random_trees import JOINTS, random_inertia, random_placement, random_state, random_tree

from liebody.base.errors import ArgumentError, ModelError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, Tree, TreeBuilder
from liebody.compiler import trace
from liebody.dynamics import (
    body_poses,
    frame_jacobian,
    frame_pose,
    gravity_forces,
    inverse_dynamics,
    kinetic_energy,
    mass_matrix,
    potential_energy,
)
from liebody.groups import SE3, Fixed, Free, Helical, Prismatic, Revolute, Spherical

BALL = SpatialInertia.sphere(1.0, 0.1)
Z = Revolute([0, 0, 1])


# -- inertia ----------------------------------------------------------------------------------------------


def test_the_matrix_is_that_of_the_kinetic_energy_of_points():
    rng = np.random.default_rng(0)
    masses, points, V = rng.uniform(0.1, 1, 9), rng.normal(size=(9, 3)), rng.normal(size=6)
    body = sum(
        (SpatialInertia.point(m, r) for m, r in zip(masses, points, strict=True)), start=SpatialInertia()
    )
    velocities = V[3:] + np.cross(V[:3], points)
    np.testing.assert_allclose(
        0.5 * V @ body.matrix() @ V, 0.5 * masses @ (velocities**2).sum(axis=1), rtol=1e-13
    )
    m, h, Sigma = body.moments
    np.testing.assert_allclose(h, masses @ points, rtol=1e-13)
    np.testing.assert_allclose(Sigma, np.einsum("k,ki,kj", masses, points, points), rtol=1e-12)
    assert m == pytest.approx(masses.sum(), rel=1e-15)


def test_a_shift_keeps_the_kinetic_energy():
    rng = np.random.default_rng(1)
    body, T = random_inertia(rng), random_placement(rng)
    X = SE3.Ad(SE3.inverse(T))
    np.testing.assert_allclose(body.shift(T).matrix(), X.T @ body.matrix() @ X, rtol=1e-12, atol=1e-14)


def test_a_matrix_gives_its_inertia_back_and_strange_ones_are_refused():
    body = random_inertia(np.random.default_rng(2))
    again = SpatialInertia.from_matrix(body.matrix())
    np.testing.assert_allclose(again.rotational, body.rotational, atol=1e-14)
    np.testing.assert_allclose(again.com, body.com, rtol=1e-14)
    linear_first = body.matrix()[np.ix_([3, 4, 5, 0, 1, 2], [3, 4, 5, 0, 1, 2])]
    with pytest.raises(ModelError, match="linear-first"):
        SpatialInertia.from_matrix(linear_first)


@pytest.mark.parametrize(
    ("body", "moments"),
    [
        (SpatialInertia.box(6.0, [1, 2, 3]), [6.5, 5.0, 2.5]),
        (SpatialInertia.sphere(5.0, 0.5), [0.5, 0.5, 0.5]),
        (SpatialInertia.cylinder(12.0, 1.0, 2.0), [7.0, 7.0, 6.0]),
        (SpatialInertia.cylinder(12.0, 1.0, 2.0, axis=0), [6.0, 7.0, 7.0]),
        (SpatialInertia.rod(12.0, 2.0, axis=1), [4.0, 0.0, 4.0]),
        (SpatialInertia.point(3.0), [0.0, 0.0, 0.0]),
    ],
)
def test_uniform_bodies_have_their_textbook_inertia(body, moments):
    np.testing.assert_allclose(body.rotational, np.diag(moments), rtol=1e-15)
    assert body.is_physical


@pytest.mark.parametrize(
    ("inertia", "complaint"),
    [
        (SpatialInertia(-1.0), "mass -1.0 kg is negative"),
        (SpatialInertia(np.nan), "finite"),
        (SpatialInertia(1.0, [0, np.inf, 0]), "finite"),
        (SpatialInertia(1.0, np.zeros(3), [1, 1, -1]), "negative principal moment"),
        (SpatialInertia(1.0, np.zeros(3), [1, 1, 3]), "triangle inequality"),
        (SpatialInertia(1.0, np.zeros(3), [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]), "not symmetric"),
    ],
)
def test_an_inertia_no_body_can_have_is_named(inertia, complaint):
    assert not inertia.is_physical
    with pytest.raises(ModelError, match=f"'arm'.*{complaint}"):
        inertia.check("arm")
    with pytest.raises(ModelError, match=f"'arm'.*{complaint}"):
        TreeBuilder().add("arm", Free(), inertia).build()


def test_shapes_are_checked():
    for arguments in ([[1.0, 2.0]], [1.0, [0, 0]], [1.0, [0, 0, 0], [1, 2]]):
        with pytest.raises(ShapeError, match="expected"):
            SpatialInertia(*arguments)


# -- trees ------------------------------------------------------------------------------------------------


def test_a_pendulum_takes_a_few_lines():
    length, mass = 0.5, 2.0
    tree = (
        TreeBuilder("pendulum")
        .add("arm", Revolute([0, 1, 0]), SpatialInertia.rod(mass, length, com=[0, 0, -length / 2]))
        .frame("tip", "arm", [0, 0, -length])
        .build()
    )
    q = np.array([0.3])
    np.testing.assert_allclose(mass_matrix(tree, q), [[mass * length**2 / 3]], rtol=1e-15)
    np.testing.assert_allclose(gravity_forces(tree, q), mass * 9.81 * length / 2 * np.sin(q), rtol=1e-14)
    np.testing.assert_allclose(
        frame_pose(tree, q, "tip")[:3, 3], [-length * np.sin(0.3), 0, -length * np.cos(0.3)]
    )


def test_bodies_are_numbered_depth_first_whatever_the_order_they_came_in():
    tree = (
        TreeBuilder()
        .add("hand", Z, BALL, "arm")
        .add("leg", Free(), BALL)
        .add("arm", Z, BALL)
        .add("finger", Spherical(), BALL, "hand")
        .add("toe", Z, BALL, "leg")
        .add("thumb", Z, BALL, "hand")
        .build()
    )
    assert [b.name for b in tree.bodies] == ["leg", "toe", "arm", "hand", "finger", "thumb"]
    assert [b.parent for b in tree.bodies] == [0, 1, 0, 3, 4, 4]
    assert (tree.nq, tree.nv) == (7 + 1 + 1 + 1 + 4 + 1, 6 + 1 + 1 + 1 + 3 + 1)
    assert [(b.coordinates.start, b.dofs.start) for b in tree.bodies] == [
        (0, 0),
        (7, 6),
        (8, 7),
        (9, 8),
        (10, 9),
        (14, 12),
    ]
    assert (tree.group.nq, tree.group.dim) == (tree.nq, tree.nv)
    assert [b.name for b in tree.ancestors(6)] == ["thumb", "hand", "arm"]


@pytest.mark.parametrize("axis", [3, -1, 1.5, "x", [1, 0, 0]])
def test_the_axis_of_a_rod_is_one_of_three(axis):
    with pytest.raises(ArgumentError, match=r"axis is .*, expected 0, 1 or 2, which are x, y and z"):
        SpatialInertia.rod(1.0, 0.5, axis=axis)


@pytest.mark.parametrize(
    ("builder", "complaint"),
    [
        (lambda b: b.add("a", Z, BALL).add("a", Z, BALL), "two bodies called 'a'"),
        (lambda b: b.add("world", Z, BALL), "two bodies called 'world'"),
        (lambda b: b.add("a", Z, BALL, parent="nobody"), "hangs on 'nobody'.*known are world, a"),
        (
            lambda b: b.add("a", Z, BALL, "b").add("b", Z, BALL, "a"),
            "'a', 'b' hang on each other in a circle",
        ),
        (lambda b: b.add("a", Joint("j", Z), BALL).add("b", Joint("j", Z), BALL), "two joints called 'j'"),
        (lambda b: b.add("a", Joint("j", Z, mimic=Mimic("k")), BALL), "'j' mimics 'k'.*known are j"),
        (
            lambda b: b.add("a", Joint("j", Z, mimic=Mimic("k")), BALL).add(
                "b", Joint("k", Z, mimic=Mimic("j")), BALL
            ),
            "mimic each other in a circle",
        ),
        (
            lambda b: b.add("a", Joint("j", Z, mimic=Mimic("k")), BALL).add("b", Joint("k", Free()), BALL),
            "only a joint of one",
        ),
        (lambda b: b.add("a", Joint("j", Spherical(), mimic=Mimic("k")), BALL), "only a joint of one"),
        (lambda b: b.add("a", 3, BALL), "expected a motion subgroup"),
        (lambda b: b.add("a", "revolute", BALL), "joint_named"),
        (lambda b: b.add("a", Z, np.eye(6)), "expected a SpatialInertia"),
        (lambda b: b.add("a", Joint("j", Z, damping=-1.0), BALL), "damping is"),
        (lambda b: b.add("a", Joint("j", Z, lower=[1, 2]), BALL), "lower has shape"),
        (
            lambda b: b.add("a", Z, BALL, placement=np.diag([1.0, 1, -1, 1])),
            "placement of body 'a' is not a rigid motion",
        ),
        (lambda b: b.add("a", Z, BALL, placement=[np.nan, 0, 0]), "placement of body 'a' must be finite"),
        (lambda b: b.add("a", Z, BALL, placement=np.eye(3)), "expected a pose"),
        (lambda b: b.add("a", Z, BALL).frame("f", "b"), "frame 'f' is fixed to 'b'.*no such body"),
        (lambda b: b.add("shin", Z, BALL).add("foot", Z, BALL, "shim"), "did you mean 'shin'"),
        (lambda b: b.add("shin", Z, BALL).frame("tip", "shim"), "did you mean 'shin'"),
        (lambda b: b.add("a", Z, BALL).frame("f", "a").frame("f", "a"), "two frames called 'f'"),
        (lambda b: b.add("a", Z, BALL).frame("a", "a"), "called like a body"),
    ],
)
def test_a_tree_that_cannot_be_is_refused_with_advice(builder, complaint):
    with pytest.raises((ModelError, ShapeError), match=complaint):
        builder(TreeBuilder()).build()


@pytest.mark.parametrize(
    ("builder", "culprit"),
    [
        (lambda b: b.add("arm", Z), "arm"),
        (lambda b: b.add("upper", Z, BALL).add("lower", Z, parent="upper", placement=[1, 0, 0]), "lower"),
        (lambda b: b.add("arm", Spherical(), SpatialInertia.point(1.0, [0, 0, 1])), "arm"),
        (lambda b: b.add("arm", Revolute([0, 0, 1]), SpatialInertia.rod(1.0, 1.0)), "arm"),
        # two joints about one axis, and all inertia behind the second
        (lambda b: b.add("first", Z).add("second", Z, BALL, "first"), "first"),
        (
            lambda b: b.add("first", Z).add("weld", Fixed(), parent="first").add("last", Z, BALL, "weld"),
            "first",
        ),
    ],
)
def test_motion_without_inertia_is_refused(builder, culprit):
    with pytest.raises(ModelError, match=f"body '{culprit}' moves.*without any inertia"):
        builder(TreeBuilder()).build()


@pytest.mark.parametrize(
    "builder",
    [
        lambda b: b.add("arm", Joint("j", Z, armature=0.1)),
        lambda b: (
            b.add("x", Revolute([1, 0, 0]))
            .add("y", Revolute([0, 1, 0]), parent="x")
            .add("ball", Z, BALL, "y")
        ),
        lambda b: b.add("arm", Z).add("tool", Fixed(), SpatialInertia.point(1.0), "arm", [1, 0, 0]),
        lambda b: b.add("arm", Revolute([0, 1, 0]), SpatialInertia.point(1.0, [0, 0, -1])),
        lambda b: b.add("a", Z, BALL).add(
            "b", Joint("m", Z, mimic=Mimic("a")), parent="a", placement=[1, 0, 0]
        ),
        lambda b: b.add("a", Z).add("b", Joint("m", Z, mimic=Mimic("a")), BALL, placement=[1, 0, 0]),
        lambda b: b.add("b", Joint("m", Z, mimic=Mimic("a")), BALL, placement=[1, 0, 0]).add("a", Z),
    ],
)
def test_massless_bodies_are_fine_where_something_resists(builder):
    tree = builder(TreeBuilder()).build()
    M = mass_matrix(tree, np.full(tree.nq, 0.3))
    assert np.linalg.eigvalsh(M)[0] > 0


def test_checks_can_be_turned_into_warnings_or_off():
    builder = TreeBuilder("odd").add("arm", Z, SpatialInertia(1.0, np.zeros(3), [1, 1, 3]))
    with pytest.warns(UserWarning, match="odd: body 'arm'.*triangle"):
        builder.build(check="warn")
    assert len(builder.build(check=False).findings()) == 1


def test_unknown_names_are_answered_with_the_known_ones():
    tree = TreeBuilder("robot").add("arm", Joint("shoulder", Z), BALL).frame("tool", "arm").build()
    assert tree.body("arm").joint is tree.joint("shoulder")
    assert tree.frame("arm").body == tree.frame("tool").body == 1 and tree.frame("world").body == 0
    for ask, known in ((tree.body, "arm"), (tree.joint, "shoulder"), (tree.frame, "world, arm, tool")):
        with pytest.raises(ModelError, match=f"robot has no .* called 'hand'; known are {known}"):
            ask("hand")


def test_followers_move_as_their_leader_says():
    tree = (
        TreeBuilder()
        .add("a", Joint("follower", Prismatic([1, 0, 0]), mimic=Mimic("between", 2.0, 0.5)), BALL)
        .add("b", Joint("between", Z, mimic=Mimic("leader", -3.0, 0.25)), BALL)
        .add("c", Joint("leader", Z), BALL)
        .build()
    )
    assert (tree.nq, tree.nv, tree.has_mimics) == (1, 1, True)
    q = np.array([0.7])
    poses = body_poses(tree, q)
    between = -3 * 0.7 + 0.25
    np.testing.assert_allclose(poses[0], SE3.motion(np.eye(3), [2 * between + 0.5, 0, 0]), atol=1e-15)
    np.testing.assert_allclose(poses[1], Z.pose([between]), atol=1e-15)
    np.testing.assert_allclose(frame_jacobian(tree, q, "a"), [[0], [0], [0], [-6.0], [0], [0]])
    I = 0.4 * 0.1**2
    np.testing.assert_allclose(mass_matrix(tree, q), [[36 * 1.0 + 9 * I + I]], rtol=1e-15)


def test_round_off_in_a_placement_is_removed():
    T = SE3.exp(np.array([np.pi / 2, 0, 0, 0, 0, 0]))
    body = TreeBuilder().add("arm", Z, BALL, placement=T).build().bodies[0]
    np.testing.assert_array_equal(body.placement[:3, :3], [[1, 0, 0], [0, 0, -1], [0, 1, 0]])


# -- equivalent trees ---------------------------------------------------------------------------------------


def test_base_moments_give_the_same_energies_and_mostly_zeros():
    rng = np.random.default_rng(3)
    tree = random_tree(rng, list(JOINTS))
    q, v, _ = random_state(rng, tree)
    twists = [np.zeros(6)]
    T = 0.0
    for body in tree.bodies:
        X = SE3.Ad(SE3.inverse(body.pose(q)))
        twists.append(X @ twists[body.parent] + body.joint.S @ v[body.dofs])
        T += 0.5 * twists[-1] @ body.inertia.matrix() @ twists[-1]
        T += 0.5 * body.joint.armature @ v[body.dofs] ** 2
    assert kinetic_energy(tree, q, v) == pytest.approx(T, rel=1e-12)


@pytest.mark.parametrize(
    ("group", "kept"),
    [
        (Revolute([0, 0, 1]), 7),
        (Revolute([-1, 0, 0]), 7),
        (Helical([0, 0, 1], 0.2), 9),
        (Prismatic([1, 0, 0]), 4),
        (Spherical(), 9),
        (Free(), 10),
        (Fixed(), 0),
        (Revolute([0, 0, 1], [1, 0, 0]), 9),
        (Revolute([0, 1, 1]), 9),
        (Revolute([0, 1, 1], [1, 0, 0]), 10),
    ],
)
def test_as_many_base_moments_stay_with_a_body_as_its_joint_can_tell(group, kept):
    tree = TreeBuilder().add("arm", group, random_inertia(np.random.default_rng(4))).build()
    m, h, Sigma = tree.base_moments[1]
    assert sum(x != 0 for x in (m, *h, *Sigma[np.triu_indices(3)])) == kept


def test_welding_fixed_bodies_changes_nothing():
    rng = np.random.default_rng(5)
    kinds = ["fixed", "free", "fixed", "revolute", "fixed", "fixed", "prismatic", "spherical", "fixed"]
    tree = random_tree(rng, kinds)
    merged = tree.merge_fixed()
    assert len(merged.bodies) == 4 and (merged.nq, merged.nv) == (tree.nq, tree.nv)
    q, v, a = random_state(rng, tree)
    np.testing.assert_allclose(
        inverse_dynamics(merged, q, v, a), inverse_dynamics(tree, q, v, a), rtol=1e-10, atol=1e-12
    )
    for name in [b.name for b in tree.bodies] + list(tree.frames):
        np.testing.assert_allclose(frame_pose(merged, q, name), frame_pose(tree, q, name), atol=1e-13)


def test_a_tree_from_screws_moves_by_the_product_of_exponentials():
    rng = np.random.default_rng(6)
    n, parents = 6, [-1, 0, 1, 0, 3, 3]
    homes = np.array([SE3.exp(rng.normal(size=6)) for _ in range(n)])
    screws = []
    for k in range(n):
        axis, point = rng.normal(size=3), rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        pitch = 0.3 if k == 2 else 0.0
        screws.append(
            np.r_[np.zeros(3), axis] if k == 4 else np.r_[axis, np.cross(point, axis) + pitch * axis]
        )
    inertias = [random_inertia(rng) if k % 2 else random_inertia(rng).matrix() for k in range(n)]
    tree = Tree.from_screws(screws, homes, inertias, parents)
    assert [type(b.joint.group).__name__ for b in tree.bodies].count("Helical") == 1
    q = rng.normal(size=n)
    order = [int(re.findall(r"\d+", b.name)[0]) - 1 for b in tree.bodies]
    poses = body_poses(tree, q[order])
    for position, k in enumerate(order):
        path = [k]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        T = np.eye(4)
        for j in path:
            T = T @ SE3.exp(screws[j] * q[j])
        np.testing.assert_allclose(poses[position], T @ homes[k], atol=1e-13)


def test_screws_are_checked():
    one = [np.eye(4)], [BALL]
    with pytest.raises(ModelError, match=r"screw 0 .* of length 2"):
        Tree.from_screws([[0, 0, 2, 0, 0, 0]], *one)
    with pytest.raises(ModelError, match="home pose 0 is not a rigid motion"):
        Tree.from_screws([[0, 0, 1, 0, 0, 0]], [2 * np.eye(4)], [BALL])
    with pytest.raises(ShapeError, match="expected"):
        Tree.from_screws([[0, 0, 1]], *one)
    with pytest.raises(ModelError, match="parents"):
        Tree.from_screws([[0, 0, 1, 0, 0, 0]], *one, parents=[3])


def test_parameters_may_be_symbols():
    """The pendulum's energy as a function of its mass and length."""

    def energy(mass, length, q):
        arm = SpatialInertia.rod(mass, length, com=np.array([0, 0, -length / 2]))
        tree = TreeBuilder().add("arm", Revolute([0, 1, 0]), arm).build()
        return np.array([kinetic_energy(tree, q, q), potential_energy(tree, q), mass_matrix(tree, q)[0, 0]])

    f = trace(energy, {"mass": (), "length": (), "q": 1})
    np.testing.assert_allclose(
        f(np.array(2.0), np.array(0.5), np.array([0.3])),
        [0.5 * 2 * 0.25 / 3 * 0.09, -2 * 9.81 * 0.25 * np.cos(0.3), 2 * 0.25 / 3],
        rtol=1e-14,
    )


@pytest.mark.parametrize("short", [np.int8, np.uint8, np.int16, np.float16])
def test_short_numbers_of_numpy_are_taken_for_what_they_are(short):
    """The matrix is that of the same numbers as doubles, to the last bit."""
    com, moments = [100, -0, 30], [90, 80, 100]
    found = SpatialInertia(short(100), np.array(com, short), np.array(moments, short))
    expected = SpatialInertia(100.0, np.array(com, float), np.array(moments, float))
    for a, b in ((found, expected), (found + found, expected + expected)):
        np.testing.assert_array_equal(a.matrix(), b.matrix())
        np.testing.assert_array_equal(SpatialInertia.from_matrix(a.matrix()).com, b.com)


@pytest.mark.parametrize("rotational", [(1.0, 2.0, 3.0), (0, 0, 0)])
@pytest.mark.filterwarnings("error")
def test_an_inertia_without_mass_is_that_of_its_matrix(rotational):
    """As of the world, and of a rotor whose mass is counted elsewhere."""
    J = SpatialInertia(0, rotational=rotational).matrix()
    np.testing.assert_array_equal(SpatialInertia.from_matrix(J).matrix(), J)
    with pytest.raises(ModelError, match="not a spatial inertia"):
        SpatialInertia.from_matrix(J + np.eye(6, k=5) + np.eye(6, k=-5))


def test_short_integers_of_numpy_do_not_overflow():
    found = SpatialInertia.cylinder(2**63, np.int8(100), np.int8(30))
    expected = SpatialInertia.cylinder(2.0**63, 100.0, 30.0)
    np.testing.assert_allclose(np.asarray(found.rotational, float), expected.rotational, rtol=1e-15)
