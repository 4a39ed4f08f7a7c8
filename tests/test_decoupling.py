"""Decoupled equations of floating robots: by the definitions, on random robots, ANYmal, Talos, a hopper.

Every rate is compared with the derivative of a graph along the motion, and the equations by blocks with the
general rule of transformation. Numbers in brackets are equations of Feurstein's thesis (2021).
"""

import functools
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from random_trees import JOINTS, WEIGHT, close, random_inertia, random_placement, random_state
from scipy.integrate import solve_ivp

import liebody as lb
from liebody import dynamics as dyn
from liebody import scalars
from liebody.base.errors import GraphError, ModelError, ShapeError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.compiler import Kernel, jvp, trace
from liebody.dynamics import Task
from liebody.dynamics import decoupling as dec
from liebody.dynamics.coriolis import FORMS
from liebody.groups import SE3, Planar, Prismatic, Revolute
from liebody.io import load_urdf
from liebody.scalars.linear import solve

SKEW = [name for name, form in FORMS.items() if form.skew]


def floating(seed, base, joints, followers=0):
    """A robot on a base of this kind, its other bodies hung on random ones; rotors in its joints alone.

    followers  number of hinges that turn with the first joint
    """
    rng = np.random.default_rng(seed)
    builder, names = TreeBuilder("floating"), ["base"]
    builder.add("base", JOINTS[base](rng), random_inertia(rng), "world", random_placement(rng))
    for k, kind in enumerate(joints):
        group, name = JOINTS[kind](rng), f"{kind}-{k}"
        joint = Joint(name, group, armature=rng.uniform(0, 0.3, group.dim))
        parent = names[-1] if rng.random() < 0.6 else names[rng.integers(len(names))]
        builder.add(name, joint, random_inertia(rng), parent, random_placement(rng))
        names.append(name)
    for k in range(followers):
        joint = Joint(f"follower-{k}", JOINTS["revolute"](rng), mimic=Mimic(f"{joints[0]}-0", rng.normal()))
        builder.add(joint.name, joint, random_inertia(rng), names[-1], random_placement(rng))
    return builder.frame("hand", names[-1], random_placement(rng)).build()


def hopper():
    """In the plane: a trunk, a thigh on a hinge, and a telescope."""
    upright = SE3.motion(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), np.zeros(3))
    return (
        TreeBuilder("hopper")
        .add("trunk", Planar((0, 0, 1)), SpatialInertia(0.8, (0, 0.02, 0), (4e-3,) * 3), placement=upright)
        .add("thigh", Revolute((0, 0, 1)), SpatialInertia.rod(0.12, 0.12, com=(0.06, 0, 0)), "trunk")
        .add("foot", Prismatic((1, 0, 0)), SpatialInertia.rod(0.05, 0.1, com=(0.1, 0, 0)), "thigh")
        .frame("hand", "foot", (0.15, 0, 0))
        .build()
    )


def real(file, hand):
    """A robot of the example-robot-data, floating; None where that is not installed."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots"))) / file
        tree = load_urdf(path, floating=True, check=False)
    frames = {**tree.frames, "hand": tree.frame(hand)}
    return lb.Tree(tree.name, tree.bodies, frames)


MECHANISMS = {
    "space, hinges": lambda: floating(1, "free", ["revolute"] * 6),
    "space, sliders": lambda: floating(2, "free", ["prismatic", "revolute", "prismatic"]),
    "space, many degrees": lambda: floating(3, "free", ["spherical", "revolute", "cylindrical", "helical"]),
    "space, eight": lambda: floating(4, "free", ["revolute"] * 5 + ["prismatic"] * 3),
    "space, followers": lambda: floating(9, "free", ["revolute", "prismatic", "revolute"], followers=2),
    "plane": lambda: floating(5, "planar", ["revolute", "prismatic", "spherical"]),
    "ball joint": lambda: floating(6, "spherical", ["revolute", "revolute", "planar"]),
    "turns about z": lambda: floating(7, "schoenflies", ["revolute", "spherical"]),
    "translates": lambda: floating(8, "spatial-translation", ["revolute", "revolute"]),
    "hopper": hopper,
    "anymal": lambda: real("anymal_b_simple_description/robots/anymal.urdf", "RH_FOOT"),
    "talos": lambda: real("talos_data/robots/talos_reduced.urdf", "arm_left_7_link"),
}
FEW = ["space, many degrees", "plane", "ball joint", "hopper"]
COMPILED = ["space, sliders", "hopper"]
USUAL = [name for name in MECHANISMS if name != "space, eight"]


@pytest.fixture(params=USUAL, scope="module")
def mechanism(request):
    return state_of(request.param)


@pytest.fixture(params=FEW, scope="module")
def small(request):
    return state_of(request.param)


@functools.cache
def state_of(name):
    tree = MECHANISMS[name]()
    if tree is None:
        pytest.skip("example-robot-data comes with the extra 'test'")
    return tree, *random_state(np.random.default_rng(sum(map(ord, name))), tree)[:2]


def rate(tree, function, q, v):
    """d/dt function(q) while q moves with v, by differentiating a graph along the motion."""
    moving = trace(lambda s: function(tree.group.integrate(q, s * v)), {"s": ()})
    return jvp(moving, "s")(0.0, 1.0)


def blocks(tree, A):
    b, j = dyn.base_dofs(tree)
    return A[b, b], A[b, j], A[j, b], A[j, j]


def a_map(tree, size, seed=0):
    """A regular matrix (size, size) that changes with q, of smooth functions."""
    rng = np.random.default_rng(seed)
    K, L = rng.normal(size=(2, size, size))
    w = rng.normal(size=(2, tree.nq))
    return lambda q: 3 * np.eye(size) + 0.2 * K * scalars.sin(w[0] @ q) + 0.2 * L * scalars.cos(w[1] @ q)


def choices(tree):
    """Pairs of maps T_x and T_y, of every kind."""
    k = tree.bodies[0].joint.dim
    n = tree.nv - k
    X, Y = a_map(tree, k), a_map(tree, n, 1)
    x = ["locked", "centroidal", "momentum", X, X(np.zeros(tree.nq)), (X, lambda q, v: rate(tree, X, q, v))]
    pairs = list(zip(x, ["identity", "normalized", Y, "normalized", "identity", Y(np.ones(tree.nq))]))
    return pairs if tree.nv < 30 else pairs[1:3]


# -- the transform: (3.77), (3.80), (3.81) -------------------------------------------------------------------


def test_the_transform_makes_the_mass_matrix_block_diagonal(mechanism):
    """(3.81): Mx = T_x^-T Mbb T_x^-1, My = T_y^-T (Mqq - Mbq^T Mbb^-1 Mbq) T_y^-1."""
    tree, q, _ = mechanism
    M = dyn.mass_matrix(tree, q)
    Mbb, Mbq, _, Mqq = blocks(tree, M)
    rest = Mqq - Mbq.T @ np.linalg.solve(Mbb, Mbq)
    for x, y in choices(tree):
        T = dyn.decoupling_transform(tree, q, x, y)
        X, _, lower, Y = blocks(tree, T)
        inverse = np.linalg.inv(T)
        expected = np.linalg.inv(X).T @ Mbb @ np.linalg.inv(X), np.linalg.inv(Y).T @ rest @ np.linalg.inv(Y)
        Mx, Mxy, _, My = blocks(tree, inverse.T @ M @ inverse)
        size = np.linalg.norm(M) * np.linalg.norm(inverse) ** 2
        close(Mxy, np.zeros_like(Mxy), size=size)
        close(Mx, expected[0], size=size)
        close(My, expected[1], size=size)
        assert not lower.any()
        close(dyn.decoupling_transform_inverse(tree, q, x, y), inverse, 1e-11)


def test_named_maps_are_what_they_say(mechanism):
    tree, q, v = mechanism
    M = dyn.mass_matrix(tree, q)
    Mbb, Mbq, _, Mqq = blocks(tree, M)
    b, j = dyn.base_dofs(tree)
    locked = v[b] + np.linalg.solve(Mbb, Mbq @ v[j])
    close(dyn.decoupled_velocity(tree, q, v), np.concatenate([locked, v[j]]))
    close(locked, dyn.locked_velocity(tree, q, v), 1e-11)
    w = dyn.decoupled_velocity(tree, q, v, "momentum", "normalized")
    A = blocks(tree, dyn.decoupling_transform(tree, q, "centroidal"))[0]
    close(w[b], np.linalg.solve(A.T, Mbb @ v[b] + Mbq @ v[j]), 1e-11)
    close(w[j] @ w[j], v[j] @ (Mqq - Mbq.T @ np.linalg.solve(Mbb, Mbq)) @ v[j], 1e-11)


@pytest.mark.parametrize("name", ["space, hinges", "anymal"])
def test_momentum_is_that_about_the_centre_of_mass(name):
    """From the bodies' own momenta, in axes of the world."""
    tree, q, v = state_of(name)
    P = tree.bodies[0].placement[:3, :3]
    c, total = dyn.center_of_mass(tree, q), np.zeros(6)
    for body, T, V in zip(tree.bodies, dyn.body_poses(tree, q), dyn.body_twists(tree, q, v)):
        l, p = np.split(body.inertia.matrix() @ V, 2)
        l, p = T[:3, :3] @ l, T[:3, :3] @ p
        total += np.concatenate([P.T @ (l + np.cross(T[:3, 3] - c, p)), P.T @ p])
    close(dyn.decoupled_velocity(tree, q, v, "momentum")[:6], total)


def test_the_locked_inertia_about_the_centre_of_mass_is_diagonal_in_blocks(mechanism):
    """A_cb^-T Mbb A_cb^-1 = diag(I_c, m 1) in every group that can bring the frame c there."""
    tree, q, v = mechanism
    base, Mx = tree.bodies[0], dyn.decoupled_dynamics(tree, q, v, "centroidal").Mx
    turns = base.joint.S[:3].any(axis=0)
    if not turns.all():  # a ball joint cannot
        close(Mx[np.ix_(~turns, ~turns)], tree.mass * np.eye((~turns).sum()))
        close(Mx[np.ix_(turns, ~turns)], np.zeros((turns.sum(), (~turns).sum())), size=np.linalg.norm(Mx))


def test_velocities_and_efforts_go_both_ways_with_the_same_power(mechanism):
    tree, q, v = mechanism
    tau = np.random.default_rng(3).normal(size=tree.nv)
    for x, y in choices(tree):
        T = dyn.decoupling_transform(tree, q, x, y)
        w, F = (f(tree, q, a, x, y) for f, a in ((dyn.decoupled_velocity, v), (dyn.decoupled_efforts, tau)))
        close(w, T @ v, 1e-11)
        close(T.T @ F, tau, 1e-11)
        close(dyn.velocity_from_decoupled(tree, q, w, x, y), v, 1e-10)
        close(dyn.efforts_from_decoupled(tree, q, F, x, y), tau, 1e-10)
        close(w @ F, v @ tau, 1e-11, size=np.linalg.norm(w) * np.linalg.norm(F))


@pytest.mark.many
def test_the_rate_of_the_transform(mechanism):
    """Closed forms against the derivative of the graph of T."""
    tree, q, v = mechanism
    for x, y in choices(tree) if tree.nv < 18 else [("momentum", "normalized")]:
        exact = rate(tree, lambda q, x=x, y=y: dyn.decoupling_transform(tree, q, x, y), q, v)
        close(dyn.decoupling_transform_rate(tree, q, v, x, y), exact, 1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.many
def test_blocks_are_those_of_the_general_rule(mechanism, form):
    """(3.81) against (3.77), C_y = T^-T C T^-1 - M_y T' T^-1, with inverses by NumPy."""
    tree, q, v = mechanism
    M, C, g = (
        dyn.mass_matrix(tree, q),
        dyn.coriolis_matrix(tree, q, v, form),
        dyn.gravity_forces(tree, q, WEIGHT),
    )
    start, pairs = list(FORMS).index(form), choices(tree)
    for x, y in (3 * pairs)[start : start + (4 if tree.nv < 18 else 1) : 3]:
        T = dyn.decoupling_transform(tree, q, x, y)
        T_rate = dyn.decoupling_transform_rate(tree, q, v, x, y)
        X = np.linalg.inv(T)
        expected = X.T @ M @ X, X.T @ C @ X - X.T @ M @ X @ T_rate @ X, X.T @ g
        given = dyn.transformed_dynamics(tree, q, v, x, y, form, WEIGHT)
        parts = dyn.decoupled_dynamics(tree, q, v, x, y, form, WEIGHT)
        zero = np.zeros_like(parts.Cxy)
        whole = (
            np.block([[parts.Mx, zero], [zero.T, parts.My]]),
            np.block([[parts.Cx, parts.Cxy], [parts.Cyx, parts.Cy]]),
            np.concatenate([parts.gx, parts.gy]),
        )
        size = np.linalg.norm(X) ** 2 * max(np.linalg.norm(A) for A in (M, C, M @ T_rate))
        for a, b, c in zip(expected, given, whole):
            close(a, b, 1e-10, size=size)
            close(a, c, 1e-10, size=size)


@pytest.mark.many
def test_motion_is_the_same_in_new_velocities(mechanism):
    """M_w w' + C_w w + g_w = F_w where M v' + C v + g = tau."""
    tree, q, v = mechanism
    tau = np.random.default_rng(5).normal(size=tree.nv)
    a = dyn.forward_dynamics(tree, q, v, tau, WEIGHT)
    for (x, y), form in zip(choices(tree), FORMS):
        T = dyn.decoupling_transform(tree, q, x, y)
        w, dw = T @ v, T @ a + dyn.decoupling_transform_rate(tree, q, v, x, y) @ v
        M, C, g = dyn.transformed_dynamics(tree, q, v, x, y, form, WEIGHT)
        efforts = dyn.decoupled_efforts(tree, q, tau, x, y)
        close(M @ dw + C @ w + g, efforts, 1e-10, size=max(1, *map(np.linalg.norm, (M @ dw, C @ w, g))))


# -- forms: (3.82), (3.84), (3.85) ---------------------------------------------------------------------------


def test_hamels_form_decouples_the_external_motion(mechanism):
    """Cxy = 0 for any T_x and T_y."""
    tree, q, v = mechanism
    size = np.linalg.norm(dyn.coriolis_matrix(tree, q, v, "hamel"))
    for x, y in choices(tree):
        parts = dyn.decoupled_dynamics(tree, q, v, x, y)
        maps = (
            np.linalg.norm(blocks(tree, dyn.decoupling_transform_inverse(tree, q, x, y))[i]) for i in (0, 3)
        )
        close(parts.Cxy, np.zeros_like(parts.Cxy), 1e-12, size=max(1, size * np.prod(list(maps))))


def test_other_forms_do_not():
    tree, q, v = state_of("space, many degrees")
    for form in SKEW:
        assert np.linalg.norm(dyn.decoupled_dynamics(tree, q, v, form=form).Cxy) > 0.01


@functools.cache
def true_rates(name):
    """Mx' and My' of three choices, by the graphs of Mx and My."""
    tree, q, v = state_of(name)

    def inertias(q, x, y):
        X, _, _, Y = blocks(tree, dyn.decoupling_transform_inverse(tree, q, x, y))
        parts = X.T @ dyn.locked_inertia(tree, q) @ X, Y.T @ dyn.internal_inertia(tree, q) @ Y
        return np.concatenate([A.ravel() for A in parts])

    return [rate(tree, lambda q, o=options: inertias(q, *o), q, v) for options in choices(tree)[:3]]


@pytest.mark.parametrize("form", SKEW)
@pytest.mark.parametrize("name", USUAL)
@pytest.mark.many
def test_skew_forms_stay_passive_in_each_part(name, form):
    """(3.84): Cyx = -Cxy^T, Mx' = Cx + Cx^T, My' = Cy + Cy^T."""
    tree, q, v = state_of(name)
    for i, (x, y) in enumerate(choices(tree)[:3]):
        parts = dyn.decoupled_dynamics(tree, q, v, x, y, form)
        size = max(1, np.linalg.norm(np.block([[parts.Cx, parts.Cxy], [parts.Cyx, parts.Cy]])))
        close(parts.Cyx, -parts.Cxy.T, size=size)
        if tree.nv < 18:
            given = np.concatenate([(C + C.T).ravel() for C in (parts.Cx, parts.Cy)])
            close(given, true_rates(name)[i], 1e-11, size=size)


def link_sums(tree, q, v):
    """sum A^T L a J, sum A^T L a A, Psi's C^p (3.41), over the links j with twists of ad a."""
    b, j = dyn.base_dofs(tree)
    k = tree.bodies[0].joint.dim
    AJ, AA, C = np.zeros((k, tree.nv - k)), np.zeros((k, k)), np.zeros((tree.nv, tree.nv))
    for body, V in zip(tree.bodies, dyn.body_twists(tree, q, v)):
        J, dJ = dyn.link_jacobian(tree, q, body.name), dyn.link_jacobian_derivative(tree, q, v, body.name)
        L, a = body.inertia.matrix(), SE3.ad(V)
        AJ = AJ + J[:, b].T @ L @ a @ J[:, j]
        AA = AA + J[:, b].T @ L @ a @ J[:, b]
        C = C + J.T @ ((L @ a - a.T @ L) @ J + L @ dJ)
    return AJ, AA, C


@pytest.mark.parametrize("x", ["locked", "centroidal", "momentum"])
@pytest.mark.many
def test_the_passive_blocks_as_sums_over_links(mechanism, x):
    """(3.83)-(3.85): Cxy = T_x^-T sum(A^T L a J - A^T L a A m) T_y^-1, and Cx likewise."""
    tree, q, v = mechanism
    M, M_rate = dyn.mass_matrix(tree, q), dyn.mass_matrix_derivative(tree, q, v)
    AJ, AA, C = link_sums(tree, q, v)
    b, j = dyn.base_dofs(tree)
    m, group = np.linalg.solve(M[b, b], M[b, j]), tree.bodies[0].joint.group
    T = dyn.decoupling_transform(tree, q, x)
    T_rate = dyn.decoupling_transform_rate(tree, q, v, x)
    _, C_w = dyn.transform_equations(T, T_rate, M, C)
    X = np.linalg.inv(T[b, b])
    Cxy = X.T @ (AJ - AA @ m)
    inner = M_rate[b, b] - group.ad(v[b]).T @ M[b, b] - M[b, b] @ X @ T_rate[b, b] + AA
    size = np.linalg.norm(X) ** 2 * np.linalg.norm(C)
    close(C_w[b, j], Cxy, 1e-11, size=size)
    close(C_w[j, b], -Cxy.T, 1e-11, size=size)
    close(C_w[b, b], X.T @ inner @ X, 1e-11, size=size)
    parts = dyn.decoupled_dynamics(tree, q, v, x, form="feurstein")
    close(parts.Cxy, Cxy, 1e-11, size=size)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", USUAL)
def test_momentum_is_invariant_and_the_centroidal_velocity_is_not(name, form):
    """(3.85): Cx v_x + Cxy v_y = 0 for the momentum map; for the velocity map (3.95) it is Mx' v_x."""
    tree, q, v = state_of(name)
    b, j = dyn.base_dofs(tree)

    def forces(x):
        parts, w = dyn.decoupled_dynamics(tree, q, v, x, form=form), dyn.decoupled_velocity(tree, q, v, x)
        left, right = parts.Cx @ w[b], parts.Cxy @ w[j]
        return left + right, max(1, np.linalg.norm(parts.Cx) * np.linalg.norm(w[b]), np.linalg.norm(right)), w

    total, size, _ = forces("momentum")
    close(total, np.zeros_like(total), size=size)
    if tree.nv < 18:
        total, size, w = forces("centroidal")
        assert choices(tree)[1][0] == "centroidal"
        moved = true_rates(name)[1][: b.stop**2].reshape(b.stop, b.stop) @ w[b]
        close(total, moved, 1e-11, size=size)
        turns = tree.bodies[0].joint.S[:3].any()
        assert (np.linalg.norm(moved) > 1e-3) == turns


def test_hamels_form_vanishes_for_the_momentum_in_the_inertial_frame(small):
    """T_x = A_ib^-T Mbb has Cx = 0 as a matrix, Cxy = 0; T_x = A_cb^-T Mbb has only Cx v_x = 0."""
    tree, q, v = small
    base = tree.bodies[0]

    def inertial(q):
        A = base.joint.group.Ad(base.joint.group.inverse(base.joint.group.element(q[base.coordinates])))
        return A.T @ dyn.locked_inertia(tree, q)

    size = np.linalg.norm(dyn.decoupled_dynamics(tree, q, v, "centroidal").Cx)
    parts = dyn.decoupled_dynamics(tree, q, v, inertial)
    close(np.hstack([parts.Cx, parts.Cxy]), np.zeros((base.joint.dim, tree.nv)), 1e-11, size=max(1, size))
    centroidal = dyn.decoupled_dynamics(tree, q, v, "momentum").Cx
    translates = not base.joint.S[:3].any(axis=0).all()
    assert (np.linalg.norm(centroidal) > 1e-3) == translates


@pytest.mark.parametrize("form", SKEW)
@pytest.mark.many
def test_any_new_velocities_keep_passivity(form):
    """(3.77) with a full T: M_w' = C_w + C_w^T."""
    tree, q, v = state_of("plane")
    T = a_map(tree, tree.nv, 5)
    M, _, C = dyn.mass_and_coriolis(tree, q, v, form)
    _, C_w = dyn.transform_equations(T(q), rate(tree, T, q, v), M, C)

    def inertia(q):
        X = dyn.generalized_inverse(T(q))
        return X.T @ dyn.mass_matrix(tree, q) @ X

    close(C_w + C_w.T, rate(tree, inertia, q, v), 1e-10)


def test_the_momentum_changes_by_what_acts_from_outside(mechanism):
    """h_c' = A_cb^-T (F_b - g_b), whatever the joints do."""
    tree, q, v = mechanism
    b, _ = dyn.base_dofs(tree)
    tau = np.random.default_rng(6).normal(size=tree.nv)
    a = dyn.forward_dynamics(tree, q, v, tau, WEIGHT)
    T, T_rate = (
        dyn.decoupling_transform(tree, q, "momentum"),
        dyn.decoupling_transform_rate(tree, q, v, "momentum"),
    )
    A = blocks(tree, dyn.decoupling_transform(tree, q, "centroidal"))[0]
    expected = np.linalg.solve(A.T, (tau - dyn.gravity_forces(tree, q, WEIGHT))[b])
    close((T @ a + T_rate @ v)[b], expected, 1e-11, size=max(1, np.linalg.norm(T) * np.linalg.norm(a)))


# -- trajectories --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, x, y",
    [
        ("space, many degrees", "momentum", "normalized"),
        pytest.param("anymal", "momentum", "identity", marks=pytest.mark.slow),
        ("plane", "centroidal", "identity"),
        ("hopper", "locked", "normalized"),
        ("space, sliders", "momentum", Task("hand", (3, 4, 5))),
    ],
)
@pytest.mark.wide
def test_decoupled_dynamics_lead_along_the_same_trajectory(name, x, y):
    """1e-9 over a second, in flat coordinates by DOP853."""
    tree, q, v = state_of(name)
    v = 0.3 * v
    nq, k = tree.nq, tree.bodies[0].joint.dim
    moved = trace(lambda q, v, s: tree.group.integrate(q, s * v), {"q": nq, "v": tree.nv, "s": ()})
    velocity = jvp(moved, "s")

    def plain(y):
        q, v = y[:nq], y[nq:]
        a = dyn.forward_dynamics(tree, q, v, np.zeros(tree.nv, int), WEIGHT)
        return np.concatenate([velocity(q, v, 0.0, 1.0), a])

    def decoupled(state):
        q, w = state[:nq], state[nq:]
        v = dyn.velocity_from_decoupled(tree, q, w, x, y)
        e = dyn.decoupled_dynamics(tree, q, v, x, y, gravity=WEIGHT)
        dx = solve(e.Mx, -(e.Cx @ w[:k] + e.Cxy @ w[k:] + e.gx))
        dy = solve(e.My, -(e.Cyx @ w[:k] + e.Cy @ w[k:] + e.gy))
        return np.concatenate([velocity(q, v, 0.0, 1.0), dx, dy])

    ends = []
    for field, start in ((plain, v), (decoupled, dyn.decoupled_velocity(tree, q, v, x, y))):
        rates = Kernel(trace(field, {"y": nq + tree.nv}))
        run = solve_ivp(
            lambda t, s, f=rates: f(s), (0, 1), np.concatenate([q, start]), "DOP853", rtol=1e-12, atol=1e-13
        )
        ends.append(np.split(run.y[:, -1], [nq]))
    (q_1, v_1), (q_2, w_2) = ends
    assert np.abs(tree.group.difference(q, q_1)).max() > 0.1
    assert np.abs(tree.group.difference(q_1, tree.group.normalize(q_2))).max() < 1e-9
    close(dyn.velocity_from_decoupled(tree, q_2, w_2, x, y), v_1, 1e-9)


# -- internal and external motion: (3.86)-(3.96) -------------------------------------------------------------


def tasks(tree):
    rows = np.random.default_rng(8).normal(size=(3, tree.nv))
    return [
        "hand",
        Task("hand", (3, 4, 5), "mixed"),
        Task("base" if tree.name == "floating" else tree.bodies[-1].name, (0, 2), "world"),
        lambda q: rows * scalars.cos(q[-1]),
    ]


def jacobian_of(tree, q, task):
    if callable(task):
        return task(q)
    task = Task(task) if isinstance(task, str) else task
    return dyn.frame_jacobian(tree, q, task.frame, task.representation)[list(task.rows)]


def test_a_task_moves_with_the_external_and_the_internal_velocity(mechanism):
    """nu_j = A_jb A_cb^-1 nu_c^ext + J^int q', and its wrench is (J_ext^T f, f)."""
    tree, q, v = mechanism
    b, j = dyn.base_dofs(tree)
    k = tree.bodies[0].joint.dim
    for task, x in zip(tasks(tree), ("locked", "centroidal", "momentum", a_map(tree, k))):
        J, J_ext = jacobian_of(tree, q, task), dyn.external_jacobian(tree, q, task, x)
        w = dyn.external_internal_velocity(tree, q, v, task, x)
        close(w[:k], dyn.decoupled_velocity(tree, q, v, x)[:k], 1e-11)
        close(w[k:], dyn.internal_jacobian(tree, q, task) @ v[j], 1e-11)
        close(J_ext @ w[:k] + w[k:], J @ v, 1e-11)
        f = np.random.default_rng(9).normal(size=len(J))
        F = np.concatenate([J_ext.T @ f, f])
        close(dyn.efforts_from_external_internal(tree, q, F, task, x), J.T @ f, 1e-11)
        internal = dyn.efforts_from_external_internal(tree, q, np.concatenate([np.zeros(k), f]), task, x)
        assert not internal[b].any()


def test_the_rate_of_the_internal_jacobian(small):
    tree, q, v = small
    for task in tasks(tree):
        exact = rate(tree, lambda q, task=task: dyn.internal_jacobian(tree, q, task), q, v)
        close(dyn.internal_jacobian_rate(tree, q, v, task), exact, 1e-11)


def maps(tree, q, task, x, inverse):
    """I = [T_x, T_x m; 0, J_int] and I# = [T_x^-1, -m J#; 0, J#]."""
    J, X = dyn.internal_jacobian(tree, q, task), blocks(tree, dyn.decoupling_transform(tree, q, x))[0]
    m, J_ = dyn.mechanical_connection(tree, q), dyn.internal_inverse(tree, q, task, inverse)
    lower = np.zeros((J.shape[1], len(X)))
    return (
        np.block([[X, X @ m], [np.zeros((len(J), len(X))), J]]),
        np.block([[np.linalg.inv(X), -m @ J_], [lower, J_]]),
    )


@pytest.mark.parametrize("inverse", dec.INVERSES)
@pytest.mark.parametrize(
    "name, task, kind",
    [
        ("space, hinges", "hand", "two-sided"),
        ("space, eight", "hand", "right"),
        ("space, sliders", "hand", "left"),
        ("hopper", "hand", "left"),  # of six rows three stay zero in the plane; but there are two joints
        ("hopper", Task("hand", (2, 3)), "two-sided"),
        ("anymal", "hand", "right"),  # a leg has three joints; the others move its foot by the base
        ("talos", "hand", "right"),
    ],
)
@pytest.mark.many
def test_the_inverse_is_the_one_that_is_reported(name, task, kind, inverse):
    tree, q, v = state_of(name)
    k, x = tree.bodies[0].joint.dim, "centroidal"
    report = dyn.internal_rank(tree, q, task)
    J, J_ = dyn.internal_jacobian(tree, q, task), dyn.internal_inverse(tree, q, task, inverse)
    assert report.inverse == kind, report
    assert report.rank == np.linalg.matrix_rank(J, 1e-10)
    size = np.linalg.cond(J[np.abs(J).max(axis=1) > 1e-9]) if kind != "none" else 1e3
    right, left = np.abs(J @ J_ - np.eye(len(J))).max(), np.abs(J_ @ J - np.eye(J.shape[1])).max()
    assert (right < 1e-12 * size) == (kind in ("two-sided", "right"))
    assert (left < 1e-12 * size) == (kind in ("two-sided", "left"))
    close(J @ J_ @ J, J, 1e-11)
    close(J_ @ J @ J_, J_, 1e-11)
    I, I_ = maps(tree, q, task, x, inverse)
    w, F = np.random.default_rng(4).normal(size=(2, k + report.task))
    tau = np.random.default_rng(5).normal(size=tree.nv)
    close(dyn.velocity_from_external_internal(tree, q, w, task, x, inverse), I_ @ w, 1e-10)
    close(dyn.external_internal_velocity(tree, q, v, task, x), I @ v, 1e-10)
    close(dyn.external_internal_efforts(tree, q, tau, task, x, inverse), I_.T @ tau, 1e-10)
    close(dyn.efforts_from_external_internal(tree, q, F, task, x), I.T @ F, 1e-10)
    M_I = I_.T @ dyn.mass_matrix(tree, q) @ I_  # block-diagonal whatever J# is
    close(M_I[:k, k:], np.zeros((k, report.task)), 1e-11, size=np.linalg.norm(M_I))
    N = dyn.internal_nullspace(tree, q, task, inverse)
    close(J @ N, np.zeros_like(J), 1e-11, size=np.linalg.norm(J))
    assert round(np.trace(N)) == report.redundancy
    assert str(report).startswith(
        f"internal Jacobian {report.task} x {report.joints} of rank {report.rank}; J#"
    )


def test_the_dynamically_consistent_inverse_spends_least_energy_and_leaves_the_task_alone():
    tree, q, _ = state_of("space, eight")
    J, J_ = dyn.internal_jacobian(tree, q, "hand"), dyn.internal_inverse(tree, q, "hand", dec.INVERSES[1])
    inertia = dyn.decoupled_dynamics(tree, q, np.zeros(tree.nv)).My
    N = dyn.internal_nullspace(tree, q, "hand", dec.INVERSES[1])
    close(J_.T @ inertia @ N, np.zeros_like(J), 1e-11, size=np.linalg.norm(J_) * np.linalg.norm(inertia))
    close(J @ np.linalg.solve(inertia, N.T), np.zeros_like(J), 1e-11, size=1e2)
    rates = J_ @ np.ones(6)
    for other in dyn.internal_inverse(tree, q, "hand") @ np.ones(6), rates + N @ np.ones(8):
        close(J @ other, np.ones(6), 1e-10)
        assert rates @ inertia @ rates < other @ inertia @ other - 1e-6


def test_a_task_as_the_internal_velocity():
    """(3.96) with a square internal Jacobian: I is T, and one inverse serves both ways."""
    tree, q, v = state_of("space, hinges")
    x, y = "centroidal", Task("hand")
    close(
        dyn.decoupled_velocity(tree, q, v, x, y), dyn.external_internal_velocity(tree, q, v, "hand", x), 1e-11
    )
    exact = rate(tree, lambda q: dyn.decoupling_transform(tree, q, x, y), q, v)
    close(dyn.decoupling_transform_rate(tree, q, v, x, y), exact, 1e-11)


# -- traced, compiled, in batches ----------------------------------------------------------------------------


TRACED = {
    "decoupling_transform": ("q", ("momentum", "normalized")),
    "decoupling_transform_inverse": ("q", ("momentum", "normalized")),
    "decoupling_transform_rate": ("qv", ("momentum", "normalized")),
    "decoupled_velocity": ("qv", ("centroidal", "normalized")),
    "velocity_from_decoupled": ("qv", ("centroidal", "normalized")),
    "decoupled_efforts": ("qv", ("centroidal", "normalized")),
    "efforts_from_decoupled": ("qv", ("centroidal", "normalized")),
    "transformed_dynamics": ("qv", ("momentum", "normalized", "hamel")),
    "decoupled_dynamics": ("qv", ("momentum", "normalized", "ploen")),
    "internal_jacobian": ("q", (Task("hand", (2, 3)),)),
    "internal_jacobian_rate": ("qv", (Task("hand", (2, 3)),)),
    "external_jacobian": ("q", ("hand", "momentum")),
    "external_internal_velocity": ("qv", ("hand", "momentum")),
}


@pytest.mark.parametrize("mechanism", COMPILED, indirect=True)
@pytest.mark.parametrize("name", TRACED)
@pytest.mark.many
def test_calls_of_a_robot_are_the_traced_algorithms(mechanism, name):
    tree, *_ = mechanism
    robot, (arguments, options) = lb.Robot(tree, WEIGHT), TRACED[name]
    rng = np.random.default_rng(2)
    batch = {"q": robot.random(rng, (2, 3)), "v": rng.normal(size=(2, 3, robot.nv))}
    given = getattr(robot, name)(*(batch[a] for a in arguments), *options)
    extra = {"gravity": WEIGHT} if name in ("transformed_dynamics", "decoupled_dynamics") else {}
    for i in np.ndindex(2, 3):
        expected = getattr(dyn, name)(tree, *(batch[a][i] for a in arguments), *options, **extra)
        parts = zip(given, expected, strict=True) if isinstance(expected, tuple) else [(given, expected)]
        for ours, theirs in parts:
            close(ours[i], theirs, 1e-10)


@pytest.mark.wide
def test_choices_of_users_are_compiled_too():
    tree, q, v = state_of("hopper")
    robot, x, y = lb.Robot(tree), a_map(tree, 3), a_map(tree, 2, 1)
    constant = y(np.zeros(tree.nq))
    pair = (
        x,
        lambda q, v: rate(tree, x, q, v) if q.dtype == float else dec._rate_of_graph(tree, x, q, v, ""),
    )
    for options in ((x, y), (x, constant), (pair, "identity")):
        exact = rate(tree, lambda q, o=options: dyn.decoupling_transform(tree, q, *o), q, v)
        close(robot.decoupling_transform_rate(q, v, *options), exact)
    other = a_map(tree, 3, 7)
    close(robot.decoupling_transform(q, other), dyn.decoupling_transform(tree, q, other))
    close(
        robot.internal_jacobian(q, lambda q: np.array([q[:1] * np.ones(5)])),
        q[0] * dyn.internal_jacobian(tree, q, lambda q: np.ones((1, 5))),
    )


@pytest.mark.parametrize("inverse", dec.INVERSES)
@pytest.mark.parametrize(
    "name, task", [("space, eight", "hand"), ("space, sliders", "hand"), ("hopper", "hand")]
)
@pytest.mark.wide
def test_inverses_of_a_robot_are_batched_and_know_rank(name, task, inverse):
    tree, *_ = state_of(name)
    robot, rng = lb.Robot(tree), np.random.default_rng(3)
    q, k = robot.random(rng, (4,)), tree.bodies[0].joint.dim
    J_ = robot.internal_inverse(q, task, inverse)
    w, tau = rng.normal(size=(4, k + J_.shape[-1])), rng.normal(size=(4, robot.nv))
    v = robot.velocity_from_external_internal(q, w, task, "momentum", inverse)
    F = robot.external_internal_efforts(q, tau, task, "momentum", inverse)
    back = robot.efforts_from_external_internal(q, F, task, "momentum")
    for i in range(4):
        close(J_[i], dyn.internal_inverse(tree, q[i], task, inverse), 1e-9)
        close(v[i], dyn.velocity_from_external_internal(tree, q[i], w[i], task, "momentum", inverse), 1e-9)
        close(F[i], dyn.external_internal_efforts(tree, q[i], tau[i], task, "momentum", inverse), 1e-9)
        close(back[i], dyn.efforts_from_external_internal(tree, q[i], F[i], task, "momentum"), 1e-9)
        ours, theirs = robot.internal_rank(q[i], task), dyn.internal_rank(tree, q[i], task)
        assert ours[:4] == theirs[:4]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_inverses_of_symbols_have_full_rank_or_are_nan(shape, weighted):
    rng = np.random.default_rng(1)
    J, W = rng.normal(size=shape), np.diag(rng.uniform(0.5, 2, shape[1])) if weighted else None
    function = trace(lambda J: dyn.generalized_inverse(J, W), {"J": shape})
    close(function(J), dyn.generalized_inverse(J, W))
    J[:, 0] = J[:, 1]
    if shape[1] <= shape[0]:
        assert np.isnan(function(J)).any()
    J[0] = 2 * J[1]
    assert np.isnan(function(J)).any()
    weight = np.eye(shape[1]) if W is None else W
    exact = dyn.generalized_inverse(J, W)
    close(J @ exact @ J, J)
    close(weight @ exact @ J, (weight @ exact @ J).T)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_inverses_of_symbols_are_as_good_as_their_matrix(shape):
    """With a condition of 1e5, ten digits are left, though normal equations square it."""
    rng = np.random.default_rng(2)
    U, V = np.linalg.qr(rng.normal(size=shape))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    J = U @ np.diag([1, 1e-2, 1e-5]) @ V if shape[0] == 5 else (V @ np.diag([1, 1e-2, 1e-5]) @ np.eye(3, 5))
    close(trace(dyn.generalized_inverse, {"J": shape})(J), np.linalg.pinv(J), 1e-10)


def test_small_singular_values_count_as_zero():
    J = np.diag([2.0, 1e-12, 1.0])[:2]
    assert dec.rank_of(J)[:4] == (1, 2, 3, "none")
    assert dec.rank_of(J, tolerance=1e-13)[:4] == (2, 2, 3, "right")
    np.testing.assert_allclose(dyn.generalized_inverse(J), [[0.5, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(dyn.generalized_inverse(J, tolerance=1e-13)[1, 1], 1e12)
    assert dec.rank_of(np.zeros((2, 2)))[:4] == (0, 2, 2, "none")


def test_a_compiled_inverse_runs_in_a_loop():
    tree, q, _ = state_of("space, eight")
    function = trace(lambda q: dyn.internal_inverse(tree, q, "hand", dec.INVERSES[1]), {"q": tree.nq})
    close(Kernel(function)(q), dyn.internal_inverse(tree, q, "hand", dec.INVERSES[1]), 1e-10)


# -- what cannot be ------------------------------------------------------------------------------------------


def arm():
    return TreeBuilder("arm").add("a", Revolute((0, 0, 1)), random_inertia(np.random.default_rng(0))).build()


def massless():
    point = SpatialInertia(1.0, (0, 0, 0), np.zeros(3))
    builder = TreeBuilder("points").add("base", JOINTS["free"](None), point)
    return builder.add("a", Prismatic((1, 0, 0)), point, "base").build(check=False)


def singular(tree):
    return lambda q: np.zeros((3, 3)) + q[0]


@pytest.mark.parametrize(
    "tree, call, kind, words",
    [
        (arm, lambda t, q: dyn.decoupling_transform(t, q), ModelError, ["no floating base", "Free()"]),
        (arm, lambda t, q: dyn.internal_jacobian(t, q, "a"), ModelError, ["no floating base"]),
        (massless, lambda t, q: dyn.decoupling_transform(t, q), ModelError, ["'points'", "singular"]),
        (massless, lambda t, q: lb.Robot(t).decoupling_transform(q), ModelError, ["'points'", "singular"]),
        (hopper, lambda t, q: dyn.decoupling_transform(t, q, "com"), ModelError, ["'com'", "momentum"]),
        (hopper, lambda t, q: dyn.decoupling_transform(t, q, y="chol"), ModelError, ["'chol'", "normalized"]),
        (hopper, lambda t, q: dyn.decoupling_transform(t, q, np.eye(6)), ShapeError, ["(6, 6)", "(3, 3)"]),
        (hopper, lambda t, q: dyn.decoupling_transform(t, q, y=np.ones(2)), ShapeError, ["(2,)", "(2, 2)"]),
        (
            hopper,
            lambda t, q: dyn.decoupling_transform(t, q, np.ones((3, 3))),
            ModelError,
            ["T_x", "rank 1 of 3"],
        ),
        (hopper, lambda t, q: dyn.decoupling_transform(t, q, singular(t)), ModelError, ["rank 1 of 3"]),
        (
            hopper,
            lambda t, q: dyn.decoupling_transform(t, q, y=Task("hand")),
            ShapeError,
            ["6 x 2", "2 rows"],
        ),
        (hopper, lambda t, q: dyn.internal_jacobian(t, q, 5), ModelError, ["task is 5", "frame's name"]),
        (hopper, lambda t, q: dyn.internal_jacobian(t, q, "leg"), ModelError, ["'leg'"]),
        (
            hopper,
            lambda t, q: dyn.internal_jacobian(t, q, Task("hand", (6,))),
            ModelError,
            ["(6,)", "0 to 5"],
        ),
        (hopper, lambda t, q: dyn.internal_jacobian(t, q, Task("hand", ())), ModelError, ["at least one"]),
        (hopper, lambda t, q: dyn.internal_jacobian(t, q, np.linalg.norm), ShapeError, ["()", "(r, 5)"]),
        (hopper, lambda t, q: dyn.internal_inverse(t, q, "hand", "left"), ModelError, ["'left'", "moore"]),
        (
            hopper,
            lambda t, q: dyn.decoupling_transform_rate(
                t, q, q, lambda q: np.linalg.inv(np.diag(1 + q[:3] ** 2))
            ),
            GraphError,
            ["T_x cannot be differentiated", "pair of functions"],
        ),
        (
            hopper,
            lambda t, q: dyn.decoupling_transform_rate(
                t, q, q, (lambda q: np.eye(3), lambda q, v: np.eye(2))
            ),
            ShapeError,
            ["rate of T_x", "(2, 2)", "(3, 3)"],
        ),
    ],
)
def test_what_cannot_be_is_refused(tree, call, kind, words):
    tree = tree()
    with pytest.raises(kind) as caught:
        call(tree, tree.group.random(np.random.default_rng(0)))
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((np.eye(2), np.eye(2), np.ones(3), np.eye(2)), ["M has shape (3,)", "square"]),
        ((np.eye(3), np.eye(2), np.eye(2), np.eye(2)), ["T has shape (3, 3)", "(2, 2)"]),
        ((np.eye(2), np.eye(2), np.eye(2), np.ones(2)), ["C has shape (2,)", "(2, 2)"]),
        ((np.eye(2), np.eye(2), np.eye(2), np.eye(2), np.ones(3)), ["effort", "(3,)", "(2,)"]),
        ((np.ones((2, 2)), np.eye(2), np.eye(2), np.eye(2)), ["T is singular", "rank 1 of 2"]),
    ],
)
def test_the_general_rule_refuses_what_does_not_fit(arguments, words):
    with pytest.raises((ShapeError, ModelError)) as caught:
        dyn.transform_equations(*arguments)
    assert all(word in str(caught.value) for word in words), caught.value
