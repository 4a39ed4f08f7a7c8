"""Momentum, frames and the connection of floating bases: relation by relation, on random and real robots.

Time derivatives are exact: a motion q(s) = integrate(q, s v + s^2 a / 2) is traced and differentiated at
s = 0. "Definitions" below are sums over the links, with their Jacobians and 6 x 6 inertias.
"""

from functools import cache

import numpy as np
import pytest
from found import tree_of
from random_trees import JOINTS, random_inertia, random_placement, random_state

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import ConfigurationError, ModelError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.compiler import jvp, trace
from liebody.dynamics import MovingFrame
from liebody.groups import SE2, SE3, Cylindrical, Fixed, Free, Planar, Prismatic, Revolute, Spherical
from liebody.scalars import cos, sin
from liebody.scalars.linear import solve

BASES = ["free", "planar", "spherical", "schoenflies", "planar-helical", "cylindrical"]
BASES += ["spatial-translation", "planar-translation"]
KINDS = ["revolute", "prismatic", "spherical", "helical", "cylindrical"]
COMMUTING = ["revolute", "prismatic", "helical", "cylindrical", "prismatic", "revolute"]


def floating_tree(seed, base, kinds, follower=False):
    """A floating base, and joints with rotors on random bodies."""
    rng = np.random.default_rng(seed)
    builder, names = TreeBuilder(f"on-{base}"), ["base"]
    builder.add("base", JOINTS[base](rng), random_inertia(rng), placement=random_placement(rng))
    for k, kind in enumerate(kinds):
        group, parent = (
            JOINTS[kind](rng),
            names[-1] if rng.random() < 0.6 else names[rng.integers(len(names))],
        )
        joint = Joint(f"{kind}-{k}", group, armature=rng.uniform(0, 0.2, group.dim))
        builder.add(f"{kind}-{k}", joint, random_inertia(rng), parent, random_placement(rng))
        names.append(f"{kind}-{k}")
    if follower:
        joint = Joint("follower", JOINTS["revolute"](rng), mimic=Mimic(f"{kinds[0]}-0", 0.7, 0.3))
        builder.add("follower", joint, random_inertia(rng), "base", random_placement(rng))
    return builder.build()


def hopper():
    """The planar hopper with a revolute leg of Feurstein (2021), section 4.1: point masses, in the plane."""
    l, turned = 0.12, SE3.exp(np.array([0.0, 0, 0, 0, 0, 0]))
    base = SpatialInertia.point(0.835) + SpatialInertia.point(0.122, (l / 2, 0, 0))
    return (
        TreeBuilder("hopper")
        .add("base", Planar([0, 0, 1]), base, placement=turned)
        .add("shank", Revolute([0, 0, 1]), SpatialInertia.point(0.050, (l / 2, 0, 0)), "base", [l, 0, 0])
        .frame("foot", "shank", [l, 0, 0])
        .build()
    )


def planar_arm():
    """Two links of unlike shape on a planar base: the smallest robot that turns by closed loops."""
    builder = TreeBuilder("planar arm").add(
        "base", Planar([0, 0, 1]), SpatialInertia(2.0, (0.1, -0.2, 0), (0.3, 0.3, 0.3))
    )
    builder.add(
        "upper", Revolute([0, 0, 1]), SpatialInertia(1.2, (0.4, 0.1, 0), (0.1, 0.1, 0.1)), "base", [0.5, 0, 0]
    )
    builder.add(
        "lower",
        Revolute([0, 0, 1]),
        SpatialInertia(0.8, (0.3, 0, 0), (0.05, 0.05, 0.05)),
        "upper",
        [0.8, 0, 0],
    )
    return builder.build()


@cache
def real(name):
    files = {
        "anymal": "anymal_b_simple_description/robots/anymal.urdf",
        "talos": "talos_data/robots/talos_reduced.urdf",
    }
    return tree_of(files[name], floating=True, check=False, mimic=False)


ROBOTS = {
    **{
        base: lambda base=base: floating_tree(sum(map(ord, base)), base, KINDS, follower=True)
        for base in BASES
    },
    "commuting": lambda: floating_tree(5, "free", COMMUTING),
    "commuting-planar": lambda: floating_tree(6, "planar", COMMUTING),
    "body": lambda: floating_tree(7, "free", []),
    "hopper": hopper,
    "planar arm": planar_arm,
    "anymal": lambda: real("anymal"),
    "talos": lambda: real("talos"),
}
BY_LINKS = [name for name in ROBOTS if name != "talos"]


class State:
    """A robot in a random state, and what the relations are made of."""

    def __init__(self, name):
        self.tree, rng = ROBOTS[name](), np.random.default_rng(sum(map(ord, name)) + 1)
        self.q, self.v, self.a = random_state(rng, self.tree)
        self.rng, self.base = rng, self.tree.bodies[0]
        self.group, self.S = self.base.joint.group, self.base.joint.S
        self.k, self.n = self.base.joint.dim, self.tree.nv - self.base.joint.dim
        self.nu, self.rates = self.v[: self.k], self.v[self.k :]
        self.M = dyn.base_blocks(self.tree, dyn.mass_matrix(self.tree, self.q))
        self.h = self.M.bb @ self.nu + self.M.bq @ self.rates
        self.m = np.linalg.solve(self.M.bb, self.M.bq)
        self.g = self.group.element(self.q[self.base.coordinates])

    def rate(self, function):
        """d/dt function(q, v) along the motion with velocity v and acceleration a."""

        def moving(s):
            return function(self.tree.group.integrate(self.q, s * self.v), self.v + s * self.a)

        return jvp(trace(moving, {"s": ()}), "s")(0.0, 1.0)

    def partial(self, function, i):
        """The derivative of function(q) along joint velocity i."""
        direction = np.eye(self.tree.nv)[self.k + i]
        moving = trace(lambda s: function(self.tree.group.integrate(self.q, s * direction)), {"s": ()})
        return jvp(moving, "s")(0.0, 1.0)

    def links(self):
        """For each body: its Jacobian [A_jb S, J_j], and its inertia about its frame."""
        return [
            (dyn.link_jacobian(self.tree, self.q, b.name), b.inertia.matrix().astype(float), b)
            for b in self.tree.bodies
        ]

    def rotors(self):
        """Armature of the joints, which is in Mqq only."""
        diagonal = np.zeros(self.tree.nv)
        for body in self.tree.bodies:
            diagonal[body.dofs] += body.armature
        return np.diag(diagonal[self.k :])


@pytest.fixture(params=ROBOTS, scope="module")
def at(request):
    return _state(request.param)


@pytest.fixture(params=BY_LINKS, scope="module")
def by_links(request):
    return _state(request.param)


@cache
def _state(name):
    return State(name)


def close(actual, expected, gate=1e-11, size=0.0):
    """|actual - expected| <= gate * the size of all that is compared, which is at least 1."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    error = np.abs(actual - expected).max(initial=0)
    size = max(1.0, size, np.abs(expected).max(initial=0))
    assert error <= gate * size, f"relative error {error / size:.2e}"


# -- the groups' rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [SE2, SE3], ids=repr)
def test_rules_of_the_adjoints(group):
    """A_xz = A_xy A_yz, dA/dt = A a, nu_xz = A_zy nu_xy + nu_yz, nu_yx = -A_xy nu_xy and its bracket."""
    rng = np.random.default_rng(0)
    H_xy, H_yz = (group.element(group.random(rng)) for _ in range(2))
    nu_xy, nu_yz, w = rng.normal(size=(3, group.dim))
    A_xy, A_yz, ad = group.Ad(H_xy), group.Ad(H_yz), group.ad
    close(group.Ad(H_xy @ H_yz), A_xy @ A_yz)
    close(group.Ad(group.inverse(H_xy)), np.linalg.inv(A_xy))

    def rate(function):
        return jvp(
            trace(lambda s: function(H_xy @ group.exp(s * nu_xy), H_yz @ group.exp(s * nu_yz)), {"s": ()}),
            "s",
        )(0.0, 1.0)

    A_zy = np.linalg.inv(A_yz)
    close(rate(lambda x, y: group.Ad(x)), A_xy @ ad(nu_xy))
    close(rate(lambda x, y: group.Ad(group.inverse(x))), -ad(nu_xy) @ np.linalg.inv(A_xy))
    nu_xz = group.vee(np.linalg.solve(H_xy @ H_yz, rate(lambda x, y: x @ y)))
    close(nu_xz, A_zy @ nu_xy + nu_yz)
    close(ad(nu_xz), A_zy @ ad(nu_xy) @ A_yz + ad(nu_yz))
    nu_yx = group.vee(H_xy @ rate(lambda x, y: group.inverse(x)))
    close(nu_yx, -A_xy @ nu_xy)
    close(ad(nu_yx), -A_xy @ ad(nu_xy) @ np.linalg.inv(A_xy))
    close(ad(nu_xy) @ nu_xy, np.zeros(group.dim))
    close(ad(w) @ nu_xy, -ad(nu_xy) @ w)


# -- links, blocks, momentum --------------------------------------------------------------------------------


def test_links_move_by_their_jacobians(by_links):
    """nu_j = A_jb nu_b + J_j q', columns J_j = A_ji s_i of joints on the way, else zero."""
    at = by_links
    poses = dyn.body_poses(at.tree, at.q)
    twists = dyn.body_twists(at.tree, at.q, at.v)
    for j, (J, _, body) in enumerate(at.links()):
        close(J @ at.v, twists[j])
        A_jb = SE3.Ad(SE3.inverse(poses[j]) @ poses[0])
        close(J[:, : at.k], A_jb @ at.S)
        columns = np.zeros((6, at.tree.nv))
        for other in at.tree.ancestors(body.index):
            columns[:, other.dofs] += SE3.Ad(SE3.inverse(poses[j]) @ poses[other.index - 1]) @ other.twist
        close(J, columns)
        motion = jvp(
            trace(
                lambda s, b=body: dyn.link_jacobian(at.tree, at.tree.group.integrate(at.q, s * at.v), b.name),
                {"s": ()},
            ),
            "s",
        )(0.0, 1.0)
        close(dyn.link_jacobian_derivative(at.tree, at.q, at.v, body.name), motion)
        relative = twists[j] - A_jb @ (at.S @ at.nu)
        close(motion[:, : at.k], -SE3.ad(relative) @ A_jb @ at.S)  # dA_jb/dt = -a(J_j q') A_jb
        if j > 8:
            break  # of large robots, enough


def test_the_mass_matrix_is_the_sum_over_the_links(by_links):
    at = by_links
    M = sum(J.T @ I @ J for J, I, _ in at.links())
    blocks = dyn.base_blocks(at.tree, M)
    for ours, sum_ in zip(at.M, blocks, strict=True):
        close(ours - (at.rotors() if sum_ is blocks.qq else 0), sum_)
    np.testing.assert_array_equal(at.M.qb, at.M.bq.T)
    close(dyn.locked_inertia(at.tree, at.q), blocks.bb)
    I_j = at.tree.bodies[0].inertia  # Lam_j of a body, about its frame
    m, c = float(I_j.mass), I_j.com.astype(float)
    C = np.cross(np.eye(3), c)  # [c]
    J = np.block([[I_j.rotational - m * C @ C, m * C], [-m * C, m * np.eye(3)]])
    close(I_j.matrix(), J)


def test_the_bases_rows_of_the_mass_matrix_are_momenta_along_its_twists(at):
    """S^T A = [Mbb, Mbq], to which rotors of joints add nothing; S^T A v = h_b."""
    A = dyn.base_momentum_matrix(at.tree, at.q)
    S = at.tree.bodies[0].joint.S
    close(S.T @ A, np.concatenate([at.M.bb, at.M.bq], axis=1))
    close(S.T @ (A @ at.v), at.h)


def test_momentum_and_locked_velocity(at):
    """h_b = Mbb nu_b + Mbq q' = Mbb nu_loc, m = Mbb^-1 Mbq."""
    close(dyn.base_momentum(at.tree, at.q, at.v), at.h)
    close(dyn.locked_inertia(at.tree, at.q), at.M.bb)
    close(dyn.mechanical_connection(at.tree, at.q), at.m)
    locked = dyn.locked_velocity(at.tree, at.q, at.v)
    close(locked, at.nu + at.m @ at.rates)
    close(at.M.bb @ locked, at.h)


def test_kinetic_energy_splits(at):
    """T = nu_loc^T Mbb nu_loc / 2 + q'^T (Mqq - Mbq^T Mbb^-1 Mbq) q' / 2."""
    locked = dyn.locked_velocity(at.tree, at.q, at.v)
    internal = at.M.qq - at.M.bq.T @ at.m
    split = (locked @ at.M.bb @ locked + at.rates @ internal @ at.rates) / 2
    close(dyn.kinetic_energy(at.tree, at.q, at.v), split)


def test_momentum_of_all_bodies_in_any_frame(by_links):
    """Of each body J V, carried to the frame: world, a body, a pose; the base's is its projection."""
    at = by_links
    poses = dyn.body_poses(at.tree, at.q)
    world = sum(
        SE3.Ad(SE3.inverse(T)).T @ (I @ (J @ at.v)) for T, (J, I, _) in zip(poses, at.links(), strict=True)
    )
    close(dyn.total_momentum(at.tree, at.q, at.v), world)
    last = at.tree.bodies[-1].name
    close(dyn.total_momentum(at.tree, at.q, at.v, last), SE3.Ad(poses[-1]).T @ world)
    X = SE3.element(SE3.random(at.rng))
    close(dyn.total_momentum(at.tree, at.q, at.v, X), SE3.Ad(X).T @ world)
    close(at.S.T @ dyn.total_momentum(at.tree, at.q, at.v, at.base.name), at.h)
    mass = at.tree.mass
    close(world[3:], mass * dyn.center_of_mass_velocity(at.tree, at.q, at.v))
    h_G = dyn.centroidal_momentum(at.tree, at.q, at.v)
    c = dyn.center_of_mass(at.tree, at.q)
    close(h_G, [*(world[:3] - np.cross(c, world[3:])), *world[3:]])
    close(dyn.total_momentum(at.tree, at.q, at.v, SE3.motion(np.eye(3), c)), h_G)


# -- centroidal momentum ------------------------------------------------------------------------------------


def test_centroidal_momentum_matrix(at):
    A = dyn.centroidal_momentum_matrix(at.tree, at.q)
    close(A @ at.v, dyn.centroidal_momentum(at.tree, at.q, at.v))
    close(A[3:], at.tree.mass * dyn.center_of_mass_jacobian(at.tree, at.q))


def test_centroidal_momentum_matrix_from_the_links(by_links):
    at = by_links
    X = SE3.motion(np.eye(3), dyn.center_of_mass(at.tree, at.q))
    A = sum(
        SE3.Ad(SE3.inverse(T) @ X).T @ I @ J
        for T, (J, I, _) in zip(dyn.body_poses(at.tree, at.q), at.links(), strict=True)
    )
    close(dyn.centroidal_momentum_matrix(at.tree, at.q), A)


@pytest.mark.many
def test_rates_of_centroidal_momentum(at):
    """dA/dt, (dA/dt) v and dh/dt = A a + (dA/dt) v, by differentiating along the motion."""
    tree, q, v, a = at.tree, at.q, at.v, at.a
    A, dA = dyn.centroidal_momentum_matrix(tree, q), dyn.centroidal_momentum_matrix_derivative(tree, q, v)
    close(dA, at.rate(lambda q, v: dyn.centroidal_momentum_matrix(tree, q)))
    close(dyn.centroidal_momentum_bias(tree, q, v), dA @ v)
    rate = dyn.centroidal_momentum_rate(tree, q, v, a)
    close(rate, A @ a + dA @ v)
    close(rate, at.rate(lambda q, v: dyn.centroidal_momentum(tree, q, v)))


def test_centroidal_inertia_is_the_locked_inertia_moved_to_the_center_of_mass(at):
    """A_cb^-T Mbb A_cb^-1 = diag(I_c, m 1) for any orientation of c, here the world's."""
    J = dyn.centroidal_inertia(at.tree, at.q)
    np.testing.assert_array_equal(J[:3, 3:], 0)
    np.testing.assert_array_equal(J[3:, 3:], at.tree.mass * np.eye(3))
    X = SE3.motion(np.eye(3), dyn.center_of_mass(at.tree, at.q))
    A_cb = SE3.Ad(SE3.inverse(X) @ dyn.body_poses(at.tree, at.q)[0])
    close((A_cb @ at.S).T @ J @ (A_cb @ at.S), at.M.bb)
    velocity = dyn.centroidal_velocity(at.tree, at.q, at.v)
    close(J @ velocity, dyn.centroidal_momentum(at.tree, at.q, at.v))
    if isinstance(at.group, Free):
        close(np.linalg.inv(A_cb).T @ at.M.bb @ np.linalg.inv(A_cb), J)
        close(velocity, A_cb @ dyn.locked_velocity(at.tree, at.q, at.v))


def test_a_base_far_away_does_not_blur_centroidal_momentum():
    at = State("free")
    far = at.q.copy()
    far[4:7] += [1e9, -1e9, 1e9]
    for function in (dyn.centroidal_momentum_matrix, dyn.centroidal_inertia):
        np.testing.assert_array_equal(function(at.tree, far), function(at.tree, at.q))
    fast = at.v.copy()
    fast[3:6] += 1e9
    for function in (dyn.centroidal_momentum, dyn.centroidal_momentum_bias):
        np.testing.assert_array_equal(function(at.tree, at.q, fast)[:3], function(at.tree, at.q, at.v)[:3])


def test_a_rock_has_an_empty_centroidal_momentum_matrix():
    tree = TreeBuilder("rock").add("rock", Fixed(), random_inertia(np.random.default_rng(0))).build()
    none = np.zeros(0)
    assert dyn.centroidal_momentum_matrix(tree, none).shape == (6, 0)
    assert dyn.centroidal_momentum_matrix_derivative(tree, none, none).shape == (6, 0)
    np.testing.assert_array_equal(dyn.centroidal_momentum(tree, none, none), 0)


@pytest.mark.parametrize("roots", [1, 2])
def test_centroidal_momentum_needs_no_floating_base(roots):
    """Arms on the world, also several, with joints whose bodies hand inertia to the world."""
    rng = np.random.default_rng(roots)
    builder = TreeBuilder("arms")
    for k in range(roots):
        parent = "world"
        for kind in ["revolute", "prismatic", "spherical"]:
            builder.add(f"{kind}-{k}", JOINTS[kind](rng), random_inertia(rng), parent, random_placement(rng))
            parent = f"{kind}-{k}"
    tree = builder.build()
    q, v, a = random_state(rng, tree)
    c, poses = dyn.center_of_mass(tree, q), dyn.body_poses(tree, q)
    X = SE3.motion(np.eye(3), c)
    A = sum(
        SE3.Ad(SE3.inverse(T) @ X).T @ b.inertia.matrix().astype(float) @ dyn.frame_jacobian(tree, q, b.name)
        for T, b in zip(poses, tree.bodies, strict=True)
    )
    close(dyn.centroidal_momentum_matrix(tree, q), A)
    close(dyn.centroidal_momentum(tree, q, v), A @ v)
    close(dyn.total_momentum(tree, q, v, X), A @ v)
    moving = trace(lambda s: dyn.centroidal_momentum_matrix(tree, tree.group.integrate(q, s * v)), {"s": ()})
    dA = jvp(moving, "s")(0.0, 1.0)
    close(dyn.centroidal_momentum_matrix_derivative(tree, q, v), dA)
    close(dyn.centroidal_momentum_rate(tree, q, v, a), A @ a + dA @ v)


# -- equations of motion by blocks --------------------------------------------------------------------------


def test_the_base_moves_by_the_rate_of_its_momentum(at):
    """dh_b/dt - a_b^T h_b + G_b = F_b, the first k rows of the equations of motion."""
    g = np.array([0.3, -0.2, -9.81])
    F_b = dyn.inverse_dynamics(at.tree, at.q, at.v, at.a, gravity=g)[: at.k]
    dh = at.rate(lambda q, v: dyn.base_momentum(at.tree, q, v))
    R, p = SE3.parts(dyn.body_poses(at.tree, at.q)[0])
    arm, weight = R.T @ (dyn.center_of_mass(at.tree, at.q) - p), at.tree.mass * (R.T @ g)
    G_b = -at.S.T @ np.concatenate([np.cross(arm, weight), weight])
    close(dh - at.group.ad(at.nu).T @ at.h + G_b, F_b)


def test_gravity_in_the_plane():
    """Weight at the centre of mass, up along y: G = (m g (x_c - x_b), m g sin th, m g cos th, dU/dq)."""
    at, g = _state("planar arm"), 9.81
    theta, x_b, _ = at.q[:3]
    G = dyn.gravity_forces(at.tree, at.q, gravity=(0, -g, 0))
    mass, x_c = at.tree.mass, dyn.center_of_mass(at.tree, at.q)[0]
    slopes = [at.partial(lambda q: dyn.potential_energy(at.tree, q, (0, -g, 0)), i) for i in range(2)]
    close(G, [mass * g * (x_c - x_b), mass * g * np.sin(theta), mass * g * np.cos(theta), *slopes])


@pytest.mark.parametrize("name", ["commuting", "commuting-planar", "planar arm"])
def test_hamels_matrix_by_blocks(name):
    """C_b = dMbb/dt - a_b^T Mbb, C_bq = dMbq/dt - a_b^T Mbq, ... eq. (3.39); joints that commute."""
    at = _state(name)
    C = dyn.base_blocks(at.tree, dyn.coriolis_matrix(at.tree, at.q, at.v, "hamel"))
    dM = dyn.base_blocks(at.tree, dyn.mass_matrix_derivative(at.tree, at.q, at.v))
    a_b = at.group.ad(at.nu)
    by_q = [
        dyn.base_blocks(at.tree, at.partial(lambda q: dyn.mass_matrix(at.tree, q), i)) for i in range(at.n)
    ]
    M_b_q = np.array([at.nu @ D.bb for D in by_q])
    M_bq_q = np.array([at.nu @ D.bq for D in by_q])
    M_q_q = np.array([at.rates @ D.qq for D in by_q])
    close(dM.bb, sum(x * D.bb for x, D in zip(at.rates, by_q, strict=True)))
    close(C.bb, dM.bb - a_b.T @ at.M.bb)
    close(C.bq, dM.bq - a_b.T @ at.M.bq)
    # (3.39) has all of M_bq,q with q', ours half of it with nu_b, as each velocity stands in the energy
    half = np.array([D.bq @ at.rates for D in by_q])
    close(C.qb, dM.qb - (M_b_q + half) / 2)
    close(C.qq, dM.qq - (M_bq_q + M_q_q) / 2)
    thesis = (dM.qb - M_b_q / 2) @ at.nu + (dM.qq - M_bq_q - M_q_q / 2) @ at.rates
    close(C.qb @ at.nu + C.qq @ at.rates, thesis)


def test_feursteins_passive_matrix(by_links):
    """C^p = sum J^T (Lam a - a^T Lam) J + J^T Lam dJ/dt, eq. (3.41); C^p + C^pT = dM/dt, by blocks too."""
    at = by_links
    C = np.zeros((at.tree.nv, at.tree.nv))
    for J, I, body in at.links():
        a = SE3.ad(J @ at.v)
        C += J.T @ (I @ a - a.T @ I) @ J + J.T @ I @ dyn.link_jacobian_derivative(
            at.tree, at.q, at.v, body.name
        )
    ours = dyn.coriolis_matrix(at.tree, at.q, at.v, "feurstein")
    close(ours, C)
    dM = dyn.mass_matrix_derivative(at.tree, at.q, at.v)
    close(ours + ours.T, dM)
    blocks, rates = dyn.base_blocks(at.tree, ours), dyn.base_blocks(at.tree, dM)
    close(blocks.bq + blocks.qb.T, rates.bq)
    close(ours @ at.v, dyn.bias_forces(at.tree, at.q, at.v, gravity=(0, 0, 0)))


@pytest.mark.parametrize("name", ["commuting", "commuting-planar", "planar arm", "hopper"])
def test_passive_blocks_by_rates_of_the_mass_matrix(name):
    """Feurstein (2021): (3.83), with what makes it exact as matrices, and Lemmas 3.1 to 3.3."""
    at = _state(name)
    b, q = dyn.base_dofs(at.tree)
    dM = dyn.base_blocks(at.tree, dyn.mass_matrix_derivative(at.tree, at.q, at.v))
    a_b = at.group.ad(at.nu)
    sums = dict.fromkeys(("bb", "bq", "qb", "qq"), 0.0)
    for full, I, body in at.links():
        A, J = full[:, b], full[:, q]
        dJ = dyn.link_jacobian_derivative(at.tree, at.q, at.v, body.name)[:, q]
        a, a_q, a_A = SE3.ad(full @ at.v), SE3.ad(J @ at.rates), SE3.ad(A @ at.nu)
        by_q = [at.partial(lambda q, b=body: dyn.link_jacobian(at.tree, q, b.name), i) for i in range(at.n)]
        A_q = np.stack([D[:, b] @ at.nu for D in by_q], axis=1)
        J_q = np.stack([D[:, q] @ at.rates for D in by_q], axis=1)
        close(J_q - dJ, a_q @ J)  # Lemma 3.2
        close(A_q, a_A @ J)  # Lemma 3.3
        sums["bb"] += A.T @ I @ a @ A
        sums["bq"] += A.T @ I @ a @ J
        sums["qb"] += -A_q.T @ I @ A - J_q.T @ I @ A + J.T @ I @ a @ A
        sums["qq"] += -J_q.T @ I @ J - A_q.T @ I @ J + J.T @ I @ a @ J
    C = dyn.base_blocks(at.tree, dyn.coriolis_matrix(at.tree, at.q, at.v, "feurstein"))
    close(C.bb, dM.bb - a_b.T @ at.M.bb + sums["bb"])
    close(C.bq, dM.bq - a_b.T @ at.M.bq + sums["bq"])
    close(C.qb, dM.qb + sums["qb"])
    close(C.qq, dM.qq + sums["qq"])


# -- momentum in moving frames ------------------------------------------------------------------------------


def test_momentum_in_a_moving_frame(at):
    """h_x = A_xb^-T h_b, dh_x/dt = A_xb^-T (F_b + (a_b - a_xb)^T h_b), for any frame x of the group."""
    group = at.group
    x, u = group.element(group.random(at.rng)), at.rng.normal(size=group.dim)
    A_xb = group.Ad(group.inverse(x) @ at.g)
    close(dyn.momentum_in_frame(at.tree, at.q, at.v, x), np.linalg.inv(A_xb).T @ at.h)
    F_b = dyn.inverse_dynamics(at.tree, at.q, at.v, at.a, gravity=(0, 0, 0))[: at.k]

    def moving(s):
        q = at.tree.group.integrate(at.q, s * at.v)
        return dyn.momentum_in_frame(at.tree, q, at.v + s * at.a, group.compose(x, group.exp(s * u)))

    rate = jvp(trace(moving, {"s": ()}), "s")(0.0, 1.0)
    frame = MovingFrame(x, u)
    close(dyn.momentum_rate_in_frame(at.tree, at.q, at.v, frame, F_b), rate, size=np.abs(at.h).max())
    a_xb = group.ad(at.nu - np.linalg.solve(A_xb, u))
    expected = np.linalg.inv(A_xb).T @ (F_b + (group.ad(at.nu) - a_xb).T @ at.h)
    close(rate, expected, size=np.abs(at.h).max())


def test_which_frames_conserve_momentum(at):
    """The inertial one and the one at the centre of mass do; one that moves otherwise does not."""
    one, still = at.group.identity(), np.zeros(at.k)
    tree, q, v = at.tree, at.q, at.v
    assert dyn.is_momentum_conserved(tree, q, v, MovingFrame(one, still))
    aligned = dyn.center_of_mass_frame(tree, q, v)
    assert dyn.is_momentum_conserved(tree, q, v, aligned)
    if at.k == 6 or isinstance(at.group, Planar):
        any_other = MovingFrame(at.g, at.rng.normal(size=at.k))
        locked = dyn.center_of_mass_frame(tree, q, v, moving="locked")
        assert not dyn.is_momentum_conserved(tree, q, v, any_other)
        assert not dyn.is_momentum_conserved(tree, q, v, MovingFrame(at.g, at.nu))
        close(locked.u[-3 if at.k == 6 else -2 :], aligned.u[-3 if at.k == 6 else -2 :])


def test_a_frame_that_turns_may_conserve_momentum():
    """omega = a p, v = a l + b p: Feurstein takes omega = 0 for necessary in (3.62)."""
    at = _state("free")
    l, p = np.split(dyn.momentum_in_frame(at.tree, at.q, at.v, at.g), 2)
    u = np.concatenate([0.7 * p, 0.7 * l - 0.4 * p])
    assert np.linalg.norm(u[:3]) > 0.1
    assert dyn.is_momentum_conserved(at.tree, at.q, at.v, MovingFrame(at.g, u))


def test_frames_at_the_center_of_mass():
    """Free base: g = (1, c) in the joint's fixed frame, h_c the centroidal momentum in its axes."""
    at = _state("free")
    R, p = SE3.parts(at.base.placement)
    c, velocity = dyn.center_of_mass(at.tree, at.q), dyn.center_of_mass_velocity(at.tree, at.q, at.v)
    frame = dyn.center_of_mass_frame(at.tree, at.q, at.v)
    close(frame.g, SE3.motion(np.eye(3), R.T @ (c - p)))
    close(frame.u, [0, 0, 0, *(R.T @ velocity)])
    l, f = np.split(dyn.centroidal_momentum(at.tree, at.q, at.v), 2)
    close(dyn.momentum_in_frame(at.tree, at.q, at.v, frame), [*(R.T @ l), *(R.T @ f)])
    locked = dyn.center_of_mass_frame(at.tree, at.q, at.v, "locked")
    w, u = np.split(dyn.centroidal_velocity(at.tree, at.q, at.v), 2)
    close(locked.u, [*(R.T @ w), *(R.T @ u)])
    h_c = dyn.momentum_in_frame(at.tree, at.q, at.v, locked.g)
    rate = dyn.momentum_rate_in_frame(at.tree, at.q, at.v, locked)
    close(
        rate,
        np.concatenate([-np.cross(R.T @ w, R.T @ l), -np.cross(R.T @ w, R.T @ f)]),
        size=np.abs(h_c).max(),
    )


# -- the connection and its curvature -----------------------------------------------------------------------


def definition_of_curvature(at):
    """E_j m_i - E_i m_j + m([E_i, E_j]) + [m_i, m_j]: eq. (3.72), with the brackets of the joints' groups."""
    D = [at.partial(lambda q: dyn.mechanical_connection(at.tree, q), j) for j in range(at.n)]
    B = np.zeros((at.k, at.n, at.n))
    for i in range(at.n):
        bracket = at.tree.group.ad(np.eye(at.tree.nv)[at.k + i])[at.k :, at.k :]
        for j in range(at.n):
            B[:, i, j] = D[j][:, i] - D[i][:, j] + at.m @ bracket[:, j] + at.group.ad(at.m[:, i]) @ at.m[:, j]
    return B


@pytest.mark.parametrize("name", [*BASES, "commuting", "planar arm", "hopper", "body"])
def test_curvature_is_what_it_is_defined_by(name):
    at = _state(name)
    B = dyn.connection_curvature(at.tree, at.q)
    close(B, definition_of_curvature(at))
    np.testing.assert_array_equal(B, -np.swapaxes(B, 1, 2))


def test_curvature_of_a_real_robot_along_two_directions():
    at = _state("anymal")
    B = dyn.connection_curvature(at.tree, at.q)
    x, y = at.rng.normal(size=(2, at.n))

    def along(z, other):
        direction = np.concatenate([np.zeros(at.k), z])
        moving = trace(
            lambda s: (
                dyn.mechanical_connection(at.tree, at.tree.group.integrate(at.q, s * direction)) @ other
            ),
            {"s": ()},
        )
        return jvp(moving, "s")(0.0, 1.0)

    expected = along(y, x) - along(x, y) + at.group.ad(at.m @ x) @ (at.m @ y)
    close(B @ y @ x, expected)


@pytest.mark.parametrize("name", ["free", "commuting", "planar arm", "commuting-planar"])
def test_only_the_angular_part_of_the_curvature_is_free(name):
    """B_v = c x B_omega, c the centre of mass in the base (in the plane, in its coordinates)."""
    at = _state(name)
    B = np.tensordot(at.S, dyn.connection_curvature(at.tree, at.q), axes=1)
    R, p = SE3.parts(dyn.body_poses(at.tree, at.q)[0])
    c = R.T @ (dyn.center_of_mass(at.tree, at.q) - p)
    linear = np.cross(c, B[:3], axisb=0, axisc=0)
    close(np.tensordot(at.S[3:].T, linear - B[3:], axes=1), np.zeros((at.k, at.n, at.n)))
    assert np.abs(B[:3]).max() > 1e-3


def test_bases_that_cannot_turn_have_no_curvature():
    for name in ("spatial-translation", "planar-translation"):
        at = _state(name)
        np.testing.assert_array_equal(dyn.connection_curvature(at.tree, at.q), 0)
        assert dyn.integrability(at.tree).integrable


@pytest.mark.parametrize("name", ["free", "planar", "spherical", "commuting", "planar arm", "anymal"])
def test_generic_robots_are_not_integrable(name):
    at = _state(name)
    found = dyn.integrability(at.tree, states=2)
    assert not found.integrable and 0.01 < found.worst <= 1
    i, j = found.velocities
    B = dyn.connection_curvature(at.tree, found.q)
    assert np.abs(B[:, i - at.k, j - at.k]).max() > 1e-3


def test_one_joint_or_balanced_joints_are_integrable():
    """One joint always; rotors about their own centres of mass; translations that balance."""
    assert dyn.integrability(hopper(), states=1)[:4] == (True, 0.0, 1e-9, None)
    wheels = TreeBuilder("wheels").add("base", Free(), SpatialInertia.box(2.0, (1, 2, 3)))
    for k, axis in enumerate(np.eye(3)):
        wheels.add(f"wheel-{k}", Revolute(axis), SpatialInertia.sphere(0.5, 0.3), "base", axis * k)
    at_wheels = dyn.integrability(wheels.build())
    assert not at_wheels.integrable  # three wheels in space turn a body by loops, as rotations do not commute
    plane = TreeBuilder("flywheels").add("base", Planar([0, 0, 1]), SpatialInertia.box(2.0, (1, 2, 3)))
    for k in range(3):
        plane.add(
            f"wheel-{k}", Revolute([0, 0, 1]), SpatialInertia.sphere(0.5, 0.3), "base", [0.3 * k, 0.2, 0]
        )
    nothing = Joint("nothing", Revolute([0, 0, 1]), armature=0.1)  # a rotor, and a point on its axis
    plane.add("nothing", nothing, SpatialInertia.point(0.5), "base", [0.4, -0.2, 0])
    found = dyn.integrability(plane.build())
    assert found.integrable and found.worst < 1e-13 and found.states == 32


# -- closed forms -----------------------------------------------------------------------------------------


def symbolic_hopper(leg):
    """A body with rotational inertia, and a point mass on a hinge or a slider, in symbols."""
    sympy = pytest.importorskip("sympy")
    m0, m1, l, I = sympy.symbols("m0 m1 l I", positive=True)
    base, foot = SpatialInertia(m0, np.zeros(3), np.diag([I, I, I])), np.array([l / 2, 0, 0])
    place = np.array([[1, 0, 0, l], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=object)
    if isinstance(leg, Prismatic):
        foot, place = np.array([0, l, 0]), None
    builder = TreeBuilder("symbolic hopper").add("base", Planar([0, 0, 1]), base)
    builder.add("leg", leg, SpatialInertia(m1, foot), "base", place)
    return lb.equations(builder.build(check=False)), (m0, m1, l, I)


@pytest.mark.parametrize("leg", [Revolute([0, 0, 1]), Prismatic([1, 0, 0])], ids=["revolute", "prismatic"])
def test_the_locked_angle_in_symbols(leg):
    """Its derivative is m_omega, to 50 digits; with numbers it is the line integral."""
    sympy = pytest.importorskip("sympy")
    eq, symbols = symbolic_hopper(leg)
    q = eq.q[3]
    assert eq.integrable
    values = dict(zip(symbols, map(sympy.Rational, (2, "1/2", "7/10", "3/10")), strict=True))
    left = (sympy.diff(eq.locked_angle, q) - eq.connection[0, 0]).subs(values)
    assert all(abs(left.subs(q, sympy.Rational(k, 3)).evalf(60)) < 1e-50 for k in range(-9, 10))
    foot, place = ((0.35, 0, 0), [0.7, 0, 0]) if isinstance(leg, Revolute) else ((0, 0.7, 0), None)
    tree = (
        TreeBuilder("numbers")
        .add("base", Planar([0, 0, 1]), SpatialInertia(2.0, (0, 0, 0), (0.3, 0.3, 0.3)))
        .add("leg", leg, SpatialInertia.point(0.5, foot), "base", place)
        .build(check=False)
    )
    for angle in (0.8, -2.0, 5.0):
        ours = float(eq.locked_angle.subs(values).subs(q, angle))
        assert abs(ours - dyn.locked_angle(tree, np.array([0, 0, 0, angle]))) < 1e-10


def test_the_hoppers_locked_angle_in_closed_form():
    pytest.importorskip("sympy")
    eq = lb.equations(hopper())
    assert eq.integrable
    for angle in (1.7802, 3.5, -5.0, 20.0):
        assert abs(float(eq.locked_angle.subs(eq.q[3], angle)) - closed_form(angle)[0]) < 1e-12


@pytest.mark.parametrize("base", [Planar([0, 0, 1]), Spherical(), Cylindrical([0, 0, 1])], ids=repr)
def test_connection_and_curvature_in_symbols(base):
    """Beside the numbers, at a random configuration; on a ball joint with the bracket of rotations."""
    sympy = pytest.importorskip("sympy")
    along = [[0, 0, 1], [0, 0, 1]] if isinstance(base, Planar) else [[1, 0, 0], [0, 1, 0]]
    link = SpatialInertia(1.0, (0.1, 0, 0.5), (0.1, 0.1, 0.05))
    builder = TreeBuilder("cat").add("base", base, SpatialInertia(2.0, (0, 0, 0), (0.3, 0.2, 0.25)))
    builder.add("front", Revolute(along[0]), link, "base", [0.2, 0, 0])
    tree = builder.add("back", Revolute(along[1]), link, "front", [0.3, 0, 0]).build()
    eq, q = lb.equations(tree), tree.group.random(np.random.default_rng(1))
    values = dict(zip(eq.q, q, strict=True))
    close(np.array(eq.connection.subs(values)), dyn.mechanical_connection(tree, q), 1e-13)
    turning = np.any(base.S[:3] != 0, axis=0)
    expected = dyn.connection_curvature(tree, q)[turning]
    close(np.array(sympy.Array(eq.curvature).subs(values).tolist()), expected, 1e-13)
    assert not eq.integrable


def test_flywheels_are_integrable_without_round_off():
    pytest.importorskip("sympy")
    builder = TreeBuilder("flywheels").add("base", Planar([0, 0, 1]), SpatialInertia.box(2.0, (1, 2, 3)))
    for k in range(2):
        wheel = SpatialInertia.sphere(0.5, 0.3)
        builder.add(f"w{k}", Revolute([0, 0, 1]), wheel, "base", [0.3 * k, 0.2, 0])
    assert lb.equations(builder.build()).integrable
    with pytest.raises(ModelError, match="zero is not told from what cancels"):
        _ = lb.equations(hopper(), simplify=False).integrable
    with pytest.raises(ModelError, match="no closed form of the locked angle"):
        _ = lb.equations(builder.build()).locked_angle


# -- the locked frame, and where loops lead -----------------------------------------------------------------


def closed_form(q, l=0.12, masses=(0.835, 0.122, 0.050)):
    """theta_bc of the revolute hopper, and m_omega: the program in Feurstein's appendix, unwrapped."""
    m = sum(masses)
    A, B = (masses[1] * l / 2 + masses[2] * l) / m, masses[2] * l / 2 / m
    a = np.array([0, l / 2, l]) - A
    b = np.array([0, 0, l / 2]) - B
    w = np.array(masses)
    P, Q, R = w @ a**2, w @ (a * b), w @ b**2
    s, t = P + R, 2 * Q
    theta = q / 2 + (R - P) / np.sqrt(s**2 - t**2) * (
        np.arctan(np.sqrt((s - t) / (s + t)) * np.tan(q / 2)) + np.pi * np.round(q / (2 * np.pi))
    )
    return theta, (R + Q * np.cos(q)) / (P + R + 2 * Q * np.cos(q))


def test_the_hoppers_locked_frame():
    """theta_bc(1.7802) = 0.3963760148 rad by quadrature, m_omega(1.7802) = 0.10233710; beyond half a turn."""
    tree = hopper()
    for angle in (1.7802, -0.4, 2.9, 3.5, -5.0, 20.0):
        q = np.array([0.3, 0.1, -0.2, angle])
        theta, slope = closed_form(angle)
        assert abs(dyn.locked_angle(tree, q) - theta) < 1e-10
        assert abs(dyn.mechanical_connection(tree, q)[0, 0] - slope) < 1e-12
    assert abs(dyn.locked_angle(tree, np.array([0, 0, 0, 1.7802])) - 0.3963760148) < 1e-10
    assert abs(dyn.mechanical_connection(tree, np.array([0, 0, 0, 1.7802]))[0, 0] - 0.10233710) < 1e-8


def test_the_locked_frame_stays_at_the_center_of_mass():
    """H_bc from (3.70): its angle is the line integral, its origin the centre of mass in the base."""
    tree = hopper()
    q = np.array([0.0, 0, 0, 1.7802])
    frame = dyn.locked_frame(tree, q)
    close(frame[0], dyn.locked_angle(tree, q), 1e-10)
    close(frame[1:], dyn.center_of_mass(tree, q)[:2], 1e-10)
    at = _state("commuting")
    home = np.concatenate([at.group.neutral(), 0.4 * at.q[7:]])
    R, p = SE3.parts(SE3.element(dyn.locked_frame(at.tree, home)))
    R_b, p_b = SE3.parts(at.base.placement)
    close(p, R_b.T @ (dyn.center_of_mass(at.tree, home) - p_b), 1e-10)
    assert np.abs(R - np.eye(3)).max() > 1e-3
    # the base moves against it: H_bc g is where c was at the start
    joints = 0.4 * at.q[7:]
    g = SE3.element(dyn.motion_without_momentum(at.tree, [0 * joints, joints]))
    c = R_b.T @ (dyn.center_of_mass(at.tree, at.tree.group.neutral()) - p_b)
    close(g @ SE3.motion(R, p), SE3.motion(np.eye(3), c), 1e-10)


def circle(center, radius, around=(0, 1)):
    """A circle of two joints, as a path of s from 0 to 1."""
    center, (i, j) = np.asarray(center, float), around
    x, y = radius * np.eye(len(center))[[i, j]]

    def path(s):
        t = 2 * np.pi * s
        return center + np.cos(t) * x + np.sin(t) * y, 2 * np.pi * (np.cos(t) * y - np.sin(t) * x)

    return path


@pytest.mark.parametrize("base", ["planar", "spherical", "free"])
@pytest.mark.many
def test_small_loops_turn_the_base_by_the_curvature_times_their_area(base):
    """log of the holonomy = B_ij pi r^2 + O(r^3): what is left over falls faster than r^2.

    It falls as r^4: odd terms vanish for circles about the point.
    """
    tree = floating_tree(9, base, ["revolute", "prismatic", "revolute"])
    group, center = tree.bodies[0].joint.group, np.array([0.3, -0.2, 0.4])
    B = dyn.connection_curvature(tree, np.concatenate([group.neutral(), center]))
    left = []
    for r in (0.2, 0.1):
        loop = circle(center, r, (0, 2))
        g = dyn.holonomy(tree, loop, 1e-11)
        # the loop starts at center + r e_0: seen from the centre, the base has moved by that leg
        leg = dyn.motion_without_momentum(tree, [center, center + r * np.eye(3)[0]], 1e-11)
        G, L = group.element(g.coordinates), group.element(leg)
        moved = group.log(group.compose(group.compose(L, G), group.inverse(L)))
        left.append(np.abs(moved - np.pi * r**2 * B[:, 0, 2]).max())
        close(g.turn, tree.bodies[0].joint.S[:3] @ group.log(G))
    assert np.abs(np.pi * 0.1**2 * B[:, 0, 2]).max() > 5 * left[1]
    assert np.log2(left[0] / left[1]) > 2.8


def test_the_planar_arm_turns_by_loops():
    """Numbers of this robot: held by three ways that share no code beyond the connection."""
    tree = planar_arm()
    joints = np.array([0.4, 0.9])
    there = dyn.motion_without_momentum(tree, [[0, 0], joints])
    by_corner = dyn.motion_without_momentum(tree, [[0, 0], [joints[0], 0], joints])
    loop = dyn.holonomy(tree, [[0, 0], [joints[0], 0], joints, [0, 0]])
    close(by_corner[0] - there[0], loop.turn[2], 1e-10)
    # Stokes: the integral of the angular curvature over the triangle 0 <= y/0.9 <= x/0.4
    nodes, weights = np.polynomial.legendre.leggauss(12)
    nodes, weights = (nodes + 1) / 2, weights / 2
    total = 0.0
    for x, a in zip(nodes, weights, strict=True):
        for y, b in zip(nodes, weights, strict=True):
            q = np.array([0, 0, 0, joints[0] * x, joints[1] * x * y])
            total += a * b * x * joints[0] * joints[1] * dyn.connection_curvature(tree, q)[0, 0, 1]
    close(loop.turn[2], total, 1e-10)
    assert abs(np.degrees(loop.turn[2])) > 0.1
    close(there[0], -dyn.locked_angle(tree, np.array([0, 0, 0, *joints])), 1e-10)


def test_without_curvature_no_loop_turns_the_base():
    tree = hopper()
    loop = dyn.holonomy(tree, [[0.0], [1.7], [-0.3], [0.0]], 1e-10)
    close(loop.coordinates, np.zeros(3), 1e-10)
    wheels = TreeBuilder("flywheels").add("base", Planar([0, 0, 1]), SpatialInertia.box(2.0, (1, 2, 3)))
    for k in range(2):
        wheels.add(f"w{k}", Revolute([0, 0, 1]), SpatialInertia.sphere(0.5, 0.3), "base", [0.3 * k, 0.2, 0])
    close(dyn.holonomy(wheels.build(), circle([0.2, 0.1], 1.0), 1e-10).coordinates, np.zeros(3), 1e-10)


def test_free_motion_with_driven_joints_follows_the_connection():
    """Simulated with efforts that drive the joints through a loop: the base ends where the holonomy says."""
    tree = planar_arm()
    robot = lb.Robot(tree, gravity=(0, 0, 0))
    T = 2.0

    def driven(s):
        c = np.array([0.4, 0.9])
        turn = 2 * np.pi * s**3 * (10 - 15 * s + 6 * s**2)
        rate, rate2 = 60 * np.pi * s**2 * (1 - s) ** 2, 120 * np.pi * s * (1 - s) * (1 - 2 * s)
        C, N = np.array([cos(turn), sin(turn)]), np.array([-sin(turn), cos(turn)])
        return c + 0.5 * C, 0.5 * rate * N, 0.5 * (rate2 * N - rate**2 * C)

    def tau(t, q, v):
        """Computed torque for the joints; the base gets nothing."""
        target, velocity, acceleration = driven(t / T)
        wanted = acceleration / T**2 + 400 * (target - q[3:]) + 40 * (velocity / T - v[3:])
        M = dyn.base_blocks(tree, dyn.mass_matrix(tree, q))
        bias = dyn.bias_forces(tree, q, v, gravity=(0, 0, 0))
        a_b = solve(M.bb, -bias[:3] - M.bq @ wanted)
        return np.concatenate([np.zeros(3, int), M.qb @ a_b + M.qq @ wanted + bias[3:]])

    start = np.concatenate([np.zeros(3), driven(0.0)[0]])
    run = lb.simulate(robot, start, np.zeros(5), t_end=T, dt=T / 400, tau=tau, progress=False)
    there = dyn.holonomy(tree, lambda s: driven(s)[:2], 1e-9)
    close(run.q[-1, :3], there.coordinates, 1e-6)
    assert abs(there.turn[2]) > np.radians(1)


def test_paths_are_checked():
    tree = planar_arm()
    with pytest.raises(ConfigurationError, match=r"ends 0\.5 away from where it starts; close it"):
        dyn.holonomy(tree, [[0, 0], [0, 0.5]])
    with pytest.raises(ShapeError, match=r"shape \(2,\) is no list .* expected \(m, 2\)"):
        dyn.motion_without_momentum(tree, [0, 0.5])
    with pytest.raises(ShapeError, match=r"joints have \(2,\) and \(2,\)"):
        dyn.motion_without_momentum(tree, lambda s: (np.zeros(3), np.zeros(2)))
    with pytest.raises(ModelError, match="turns about 3 axes, so its orientation is no angle"):
        dyn.locked_angle(_state("free").tree, _state("free").q)
    with pytest.raises(ModelError, match="use aligned or locked"):
        dyn.center_of_mass_frame(tree, np.zeros(5), np.zeros(5), "still")
    with pytest.raises(ShapeError, match=r"frame has shape \(4, 4\), expected an element of .*\(3, 3\)"):
        dyn.momentum_in_frame(tree, np.zeros(5), np.zeros(5), np.eye(4))
    with pytest.raises(ShapeError, match=r"expected a name or a pose \(4, 4\)"):
        dyn.total_momentum(tree, np.zeros(5), np.zeros(5), np.eye(3))
    with pytest.raises(ShapeError, match=r"expected \(5, 5\)"):
        dyn.base_blocks(tree, np.eye(4))


# -- robots that have no floating base, and singular ones ---------------------------------------------------


def body(mass=1.0):
    return SpatialInertia.sphere(mass, 0.2)


REFUSED = {
    "no bodies": (TreeBuilder("nothing"), r"has 0 bodies on the world \(none\)"),
    "two roots": (
        TreeBuilder("pair").add("a", Free(), body()).add("b", Free(), body()),
        r"has 2 bodies on the world \('a', 'b'\)",
    ),
    "an arm": (
        TreeBuilder("arm").add("a", Revolute([0, 0, 1]), body()),
        "of 1 degree of freedom.*floating=True",
    ),
    "bolted": (
        TreeBuilder("bolted").add("ground", Fixed(), body()).add("a", Free(), body(), "ground"),
        r"'ground' is Fixed\(\).*merge_fixed\(\) removes fixed joints",
    ),
    "a rotor": (
        TreeBuilder("tied").add("a", Joint("a", Planar([0, 0, 1]), armature=0.1), body()),
        "a rotor that ties the base to the world",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_trees_without_a_floating_base_are_refused(name):
    builder, message = REFUSED[name]
    tree = builder.build()
    q, v = np.zeros(tree.nq), np.zeros(tree.nv)
    for function in (dyn.locked_velocity, dyn.base_momentum):
        with pytest.raises(ModelError, match=message):
            function(tree, q, v)
    for function in (
        dyn.locked_inertia,
        dyn.mechanical_connection,
        dyn.connection_curvature,
        dyn.base_blocks,
    ):
        with pytest.raises(ModelError, match=message):
            function(tree, q)
    with pytest.raises(ModelError, match=message):
        dyn.base_dofs(tree)
    with pytest.raises(ModelError, match=message):
        dyn.integrability(tree)


def test_an_arm_on_the_world_says_so_when_its_kernels_are_asked_for():
    arm = lb.Robot(TreeBuilder("arm").add("a", Revolute([0, 0, 1]), body()).build())
    with pytest.raises(ModelError, match="has no floating base"):
        arm.locked_velocity(np.zeros(1), np.zeros(1))


MASSLESS = TreeBuilder("ghost").add("base", Free()).add("arm", Revolute([0, 0, 1]), None, "base", [1, 0, 0])
POINT = TreeBuilder("point").add("base", Free(), SpatialInertia.point(1.0, (0.1, 0, 0)))
RODS = (
    TreeBuilder("rods")
    .add("base", Free(), SpatialInertia.rod(1.0, 1.0))
    .add("arm", Revolute([0, 1, 0]), SpatialInertia.rod(0.5, 1.0), "base")
)


@pytest.mark.parametrize(
    ("builder", "moving"),
    [(MASSLESS, r"mass 0.0 kg\) is singular"), (POINT, r"mass 1.0 kg\) is singular: moving the base along")],
    ids=["massless", "point"],
)
def test_singular_locked_inertias_are_refused(builder, moving):
    tree = builder.build(check=False)
    q, v = tree.group.neutral(), np.zeros(tree.nv)
    for function in (dyn.mechanical_connection, dyn.connection_curvature):
        with pytest.raises(ModelError, match=moving):
            function(tree, q)
    with pytest.raises(ModelError, match=moving):
        dyn.locked_velocity(tree, q, v)
    with pytest.raises(ModelError, match=moving):
        lb.Robot(tree).locked_velocity(q, v)


def test_a_locked_inertia_that_is_singular_here_only():
    """Thin rods in line have no inertia about that line, at an angle they have."""
    tree = RODS.build(check=False)
    q = tree.group.neutral()
    with pytest.raises(ModelError, match=r"along \[0.0, 0.0, 1.0, 0.0, 0.0, 0.0\] takes no momentum"):
        dyn.mechanical_connection(tree, q)
    q[7] = 0.3
    assert np.isfinite(dyn.mechanical_connection(tree, q)).all()


@pytest.mark.parametrize(
    "of",
    [
        dyn.centroidal_momentum,
        lambda tree, q, v: dyn.centroidal_momentum_matrix(tree, q),
        lambda tree, q, v: dyn.center_of_mass(tree, q),
        lambda tree, q, v: dyn.center_of_mass_jacobian(tree, q),
        dyn.center_of_mass_velocity,
    ],
)
def test_trees_without_mass_have_no_centre_of_mass(of):
    tree = MASSLESS.build(check=False)
    q, v = tree.group.neutral(), np.zeros(tree.nv)
    with pytest.raises(ModelError, match=r"have the mass 0\.0 kg together, so there is no centre"):
        of(tree, q, v)


def test_a_massless_base_with_heavy_links_is_all_right():
    tree = (
        TreeBuilder("light")
        .add("base", Free())
        .add("a", Revolute([0, 0, 1]), body(), "base", [1, 0, 0])
        .add("b", Revolute([0, 1, 0]), body(), "base", [0, 1, 0])
        .build()
    )
    q, *_ = random_state(np.random.default_rng(0), tree)
    M = dyn.base_blocks(tree, dyn.mass_matrix(tree, q))
    close(dyn.mechanical_connection(tree, q), np.linalg.solve(M.bb, M.bq))


# -- traces, and a robot's calls ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["free", "planar", "hopper"])
def test_a_trace_computes_what_the_floats_do(name):
    at = _state(name)
    tree, shapes = at.tree, {"q": at.tree.nq, "v": at.tree.nv, "a": at.tree.nv}
    frame = MovingFrame(at.g, np.arange(1.0, at.k + 1))
    for function in (
        lambda q, v, a: dyn.centroidal_momentum_matrix(tree, q),
        lambda q, v, a: dyn.centroidal_momentum_matrix_derivative(tree, q, v),
        lambda q, v, a: dyn.centroidal_momentum(tree, q, v),
        lambda q, v, a: dyn.centroidal_momentum_rate(tree, q, v, a),
        lambda q, v, a: dyn.centroidal_velocity(tree, q, v),
        lambda q, v, a: dyn.centroidal_inertia(tree, q),
        lambda q, v, a: dyn.total_momentum(tree, q, v, tree.bodies[-1].name),
        lambda q, v, a: dyn.locked_velocity(tree, q, v),
        lambda q, v, a: dyn.mechanical_connection(tree, q),
        lambda q, v, a: dyn.connection_curvature(tree, q),
        lambda q, v, a: dyn.momentum_rate_in_frame(tree, q, v, frame, a[: at.k]),
        lambda q, v, a: dyn.center_of_mass_frame(tree, q, v, "locked").u,
    ):
        close(trace(function, shapes)(at.q, at.v, at.a), function(at.q, at.v, at.a), 1e-12)


def test_of_the_base_nothing_depends():
    """m, Mbb and B do not read the base's coordinates; A does not read where it is."""
    at = _state("free")
    for function in (dyn.locked_inertia, dyn.mechanical_connection, dyn.connection_curvature):
        graph = trace(
            lambda q, f=function: f(at.tree, np.concatenate([np.full(7, np.nan), q])), {"q": at.tree.nq - 7}
        )
        close(graph(at.q[7:]), function(at.tree, at.q), 1e-12)


def test_operations_stay_few():
    """Guards against losing structure: of ANYmal, a few above today's."""
    tree = _state("anymal").tree
    for function, arguments, limit in (
        (dyn.centroidal_momentum_matrix, "q", 1440),
        (dyn.centroidal_momentum, "qv", 1100),
        (dyn.centroidal_momentum_bias, "qv", 1650),
        (dyn.centroidal_momentum_matrix_derivative, "qv", 3480),
    ):
        shapes = {x: tree.nq if x == "q" else tree.nv for x in arguments}
        count = sum(trace(lambda *x, f=function: f(tree, *x), shapes).operations.values())
        assert count <= limit, f"{function.__name__}: {count}"


@pytest.mark.wide
def test_a_robot_computes_them_in_batches():
    tree = floating_tree(3, "free", ["revolute", "prismatic"])
    robot = lb.Robot(tree)
    q = robot.random(0, 5)
    v, a = np.random.default_rng(1).normal(size=(2, 5, robot.nv))
    calls = {
        "centroidal_momentum_matrix": (q,),
        "centroidal_momentum_matrix_derivative": (q, v),
        "centroidal_momentum": (q, v),
        "centroidal_momentum_bias": (q, v),
        "centroidal_momentum_rate": (q, v, a),
        "centroidal_inertia": (q,),
        "centroidal_velocity": (q, v),
        "base_momentum": (q, v),
        "locked_inertia": (q,),
        "locked_velocity": (q, v),
        "mechanical_connection": (q,),
        "connection_curvature": (q,),
    }
    for name, arguments in calls.items():
        batch, function = getattr(robot, name)(*arguments), getattr(dyn, name)
        for k in range(5):
            close(batch[k], function(tree, *(x[k] for x in arguments)), 1e-12)
        close(getattr(robot, name)(*(x[0] for x in arguments)), batch[0], 1e-13)
    for frame in ("world", tree.bodies[-1].name):
        batch = robot.momentum(q, v, frame)
        close(batch[2], dyn.total_momentum(tree, q[2], v[2], frame), 1e-12)


# -- beside Pinocchio ---------------------------------------------------------------------------------------

PIN_MECHANISMS = {
    "humanoid": ["free", *["revolute-z"] * 8, "revolute", "prismatic-x", "spherical"],
    "planar": ["planar", "revolute-z", "prismatic-x", "revolute-z"],
    "arm": ["revolute-z", "revolute", "prismatic-x", "revolute-z"],
    "spherical": ["spherical", "revolute", "spherical", "helical"],
}


def beside_pinocchio(model, data, to_q, to_v, tree, q, v):
    import pinocchio as pin

    swap = [3, 4, 5, 0, 1, 2]  # theirs are linear first
    x, y = to_q(q), to_v(q, v)
    A, dA = dyn.centroidal_momentum_matrix(tree, q), dyn.centroidal_momentum_matrix_derivative(tree, q, v)
    size = np.abs(A).max()
    close(to_v(q, A), pin.computeCentroidalMap(model, data, x)[swap], 1e-9, size)
    pin.dccrba(model, data, x, y)  # in 4.1 computeCentroidalMapTimeVariation leaves out how c moves
    close(to_v(q, dA), data.dAg[swap], 1e-9, size)
    close(dyn.centroidal_momentum_bias(tree, q, v), (data.dAg @ y)[swap], 1e-9, size)
    close(dyn.centroidal_momentum(tree, q, v), data.hg.vector[swap], 1e-9, size)
    close(dyn.centroidal_inertia(tree, q)[:3, :3], data.Ig.inertia, 1e-9, size)
    close(dyn.center_of_mass(tree, q), pin.centerOfMass(model, data, x), 1e-9)
    close(to_v(q, dyn.center_of_mass_jacobian(tree, q)), pin.jacobianCenterOfMass(model, data, x), 1e-9)


@pytest.mark.parametrize("name", PIN_MECHANISMS)
def test_pinocchio_agrees(name):
    pytest.importorskip("pinocchio")
    from test_dynamics import Beside, pin_tree

    rng = np.random.default_rng(sum(map(ord, name)))
    tree = pin_tree(rng, PIN_MECHANISMS[name])
    other, (q, v, _) = Beside(tree), random_state(rng, tree)
    beside_pinocchio(other.model, other.data, other.q, lambda q, x: other.v(np.asarray(x).T).T, tree, q, v)


@pytest.mark.parametrize("name", ["anymal", "talos"])
def test_pinocchio_agrees_on_real_robots(name):
    pin = pytest.importorskip("pinocchio")
    from found import descriptions

    from liebody.io import pinocchio_layout

    tree = real(name)
    file = next(f for f in descriptions() if f.stem == {"anymal": "anymal", "talos": "talos_reduced"}[name])
    model = pin.buildModelFromUrdf(str(file), pin.JointModelFreeFlyer())
    layout = pinocchio_layout(tree, model)
    rng = np.random.default_rng(4)
    for _ in range(3):
        q, v, _ = random_state(rng, tree)
        beside_pinocchio(model, model.createData(), layout.to_q, layout.to_v, tree, q, v)


# -- simulation ---------------------------------------------------------------------------------------------


def momentum_drift(robot, q, v, t_end, dt):
    """|h_G(t_end) - h_G(0)| of a flight without weight, RK4, relative."""
    run = lb.simulate(
        robot, q, v, t_end=t_end, dt=dt, joints={"armature"}, record_every=t_end, progress=False
    )
    start, end = (robot.centroidal_momentum(run.q[k], run.v[k]) for k in (0, -1))
    return np.abs(end - start)[:3].max() / np.abs(start[:3]).max()


def flying_anymal():
    """ANYmal in free flight, its legs moving at 2 rad/s."""
    robot = lb.Robot(real("anymal"), gravity=(0, 0, 0))
    rng = np.random.default_rng(2)
    return (
        robot,
        robot.neutral(),
        np.concatenate([[0.3, -0.4, 0.5, 0.1, 0.2, -0.1], 2 * rng.uniform(-1, 1, robot.nv - 6)]),
    )


def test_centroidal_momentum_is_conserved_to_the_order_of_the_method():
    robot, q, v = flying_anymal()
    drifts = [momentum_drift(robot, q, v, 0.64, dt) for dt in (0.016, 0.008, 0.004)]
    slopes = np.log2(np.array(drifts[:-1]) / drifts[1:])
    assert np.all(np.abs(slopes - 4) < 0.4), (drifts, slopes)


def test_centroidal_momentum_over_a_long_flight():
    """10^5 steps: of 1 ms the error of the method, of 0.1 ms round-off."""
    robot, q, v = flying_anymal()
    assert momentum_drift(robot, q, v, 100.0, 1e-3) < 1e-9
    assert momentum_drift(robot, q, v, 10.0, 1e-4) < 1e-12
