"""Other formulations of the same mechanics: Hamilton's and Boltzmann-Hamel equations, spatial frames."""

import numpy as np
import pytest
from random_trees import WEIGHT, random_mechanism, random_state, random_tree

import liebody as lb
from liebody import dynamics as dyn
from liebody import mechanisms
from liebody.base.errors import ModelError
from liebody.compiler import jvp, trace
from liebody.groups import SE3, SO3, Free, Planar, Schoenflies, Spherical
from liebody.mechanisms import (
    BoltzmannHamel,
    HamiltonianForm,
    JointDamping,
    JointFriction,
    Potential,
    RigidBody,
)
from liebody.scalars import arctan2, cos, sin
from liebody.scalars.linear import inverse


@pytest.fixture(params=["every-joint", "every-joint-floating", "floating-with-followers"], scope="module")
def mechanism(request):
    rng = np.random.default_rng(sum(map(ord, request.param)))
    tree = random_mechanism(rng, request.param)
    return tree, *random_state(rng, tree)


def close(actual, expected, gate=1e-10):
    size = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(
        np.asarray(actual, float), np.asarray(expected, float), rtol=0, atol=gate * size
    )


def along(function, group, q):
    """d function(q exp u)/du at u = 0, (dim,), by forward differentiation of the graph, column by column."""
    moved = jvp(trace(lambda u: function(group.integrate(q, u)), {"u": group.dim}, "moved"), "u")
    return np.array([moved(np.zeros(group.dim), e) for e in np.eye(group.dim)], float)


# -- Hamilton's equations -----------------------------------------------------------------------------------


def test_the_legendre_transform_is_that_of_the_mass_matrix(mechanism):
    tree, q, v, _ = mechanism
    p = dyn.legendre_transform(tree, q, v)
    close(p, dyn.mass_matrix(tree, q) @ v)
    close(dyn.inverse_legendre_transform(tree, q, p), v, 1e-9)
    energy = dyn.kinetic_energy(tree, q, v) + dyn.potential_energy(tree, q, WEIGHT)
    close(dyn.hamiltonian(tree, q, p, WEIGHT), energy)


def test_momenta_change_by_the_derivatives_of_the_hamiltonian(mechanism):
    """dq/dt = dH/dp and dp/dt = ad_v^T p - dH/dq + tau, with H as a graph that is differentiated.

    A rotor is a number in M; it turns about one axis, so it has no part in the brackets of ad_v^T p.
    """
    tree, q, v, tau = mechanism
    rotors = dyn.factorization(tree, q, v).rotors
    p = dyn.legendre_transform(tree, q, v)
    group = tree.group
    by_p = jvp(trace(lambda p: dyn.hamiltonian(tree, q, p, WEIGHT), {"p": tree.nv}, "H"), "p")
    by_q = along(lambda q: dyn.hamiltonian(tree, q, p, WEIGHT), group, q)
    found = dyn.hamiltonian_dynamics(tree, q, p, tau, WEIGHT)
    close(found.v, [by_p(p, e) for e in np.eye(tree.nv)], 1e-9)
    close(found.p_rate, group.ad(v).T @ (p - rotors * v) - by_q + tau, 1e-9)


@pytest.mark.parametrize("name", ["ur5", "biped"])
@pytest.mark.wide
def test_hamiltonian_and_lagrangian_motions_are_one(name):
    """To 1e-9 in coordinates and energy, of an arm, and of a floating tree with branches and ball joints."""
    if name == "ur5":
        tree, gravity = random_tree(np.random.default_rng(5), ["revolute"] * 6), WEIGHT
    else:
        tree, gravity = (
            random_tree(np.random.default_rng(2), ["free", "spherical", "revolute", "prismatic"]),
            WEIGHT,
        )
    robot = lb.Robot(tree, gravity)
    q, v, tau = random_state(np.random.default_rng(1), tree)
    spring = Potential(lambda q: 2 * cos(q[-1]) + q[0] * q[-1], tree.group)
    options = {"tau": 0.3 * tau, "t_end": 0.5, "dt": 1e-3, "method": "rkmk8"}
    first = lb.simulate(robot, q, 0.3 * v, forces=[spring], **options)
    form = HamiltonianForm(tree, gravity)
    p = robot.legendre_transform(q, 0.3 * v)
    second = lb.simulate(form, q, p, forces=[JointDamping(), spring], **options)
    np.testing.assert_allclose(second.q, first.q, rtol=0, atol=1e-9 * (1 + np.abs(first.q).max()))
    back = robot.inverse_legendre_transform(second.q, second.v)
    np.testing.assert_allclose(back, first.v, rtol=0, atol=1e-9 * (1 + np.abs(first.v).max()))
    np.testing.assert_allclose(second.energy, first.energy, rtol=1e-9)
    assert set(second.dofs.units) <= {"kg m2/s", "kg m/s"}


def test_a_run_in_momenta_knows_its_forces_and_their_work():
    """Forces are those of v = M^-1 p, and their work with that of the efforts is the change of the energy."""
    robot = lb.models.double_pendulum(masses=(1.0, 3.0))
    form = HamiltonianForm(robot.tree, robot.gravity_vector, forces=(JointFriction(0.3, v_s=0.5),))
    q, v = np.array([0.4, -0.9]), np.array([0.3, -0.2])
    run = lb.simulate(form, q, robot.legendre_transform(q, v), tau=[0.5, -0.1], t_end=0.5, dt=5e-3)
    velocities = robot.inverse_legendre_transform(run.q, run.v)
    np.testing.assert_allclose(run.forces["friction"], -0.3 * np.tanh(velocities / 0.5), rtol=1e-12)
    assert run.energy_drift < 1e-6


def test_methods_for_velocities_refuse_momenta_as_state():
    form = HamiltonianForm(lb.models.double_pendulum().tree)
    with pytest.raises(ModelError, match="explicit method"):
        lb.simulate(form, t_end=0.1, dt=1e-2, method="generalized-alpha")


def test_a_free_floating_tree_keeps_its_momentum_as_state():
    """Without gravity the base's momentum, turned into the world, is constant: h_b is its coordinates."""
    tree = random_tree(np.random.default_rng(7), ["free", "revolute", "spherical"], rotors=False)
    robot = lb.Robot(tree, gravity=(0, 0, 0))
    q, v, _ = random_state(np.random.default_rng(8), tree)
    p = robot.legendre_transform(q, v)
    run = lb.simulate(HamiltonianForm(tree, (0, 0, 0)), q, p, t_end=0.5, dt=1e-3, method="rkmk8")
    base = tree.bodies[0]
    world = [SE3.Ad(SE3.inverse(base.pose(q))).T @ p[:6] for q, p in zip(run.q, run.v, strict=True)]
    np.testing.assert_allclose(world, np.tile(world[0], (len(world), 1)), atol=1e-9 * np.abs(p).max())


# -- potentials ---------------------------------------------------------------------------------------------


def test_a_potential_is_a_force_whose_work_is_its_energy(mechanism):
    tree, q, v, _ = mechanism
    U = lambda q: sin(q[0]) * q[-1] + 0.5 * (q @ q)  # noqa: E731
    force = Potential(U, tree.group)
    power = jvp(trace(lambda s: U(tree.group.integrate(q, s * v)), {"s": ()}, "U"), "s")(0.0, 1.0)
    close(force.on_tree(tree, 0.0, q, v) @ v, -power)


@pytest.mark.wide
def test_potentials_of_pose_and_joints_act_in_every_mechanism():
    """U(o, R, q) of a floating base: energy is conserved by the robot, and by bodies with constraints."""
    tree = random_tree(np.random.default_rng(3), ["free", "revolute"], rotors=False)
    axis = tree.bodies[1].joint.S[:3, 0]

    def U(T, x):
        R, o = T[:3, :3], T[:3, 3]
        return 3 * (o @ o) + (R @ o)[2] + 2 * R[0, 1] + 0.5 * x * x * o[0]

    def in_tree(q):
        return U(tree.bodies[0].pose(q), q[7])

    q, v, _ = random_state(np.random.default_rng(4), tree)
    absolute = lb.mechanisms.constrained.AbsoluteTree(tree)
    Q, V = absolute.to_system(q, v)

    offsets = [SE3.inverse(b.offset) for b in absolute.system.bodies]

    def in_system(q):
        base = SE3.motion(SO3.element(q[:4]), q[4:7]) @ offsets[0]
        link = SE3.motion(SO3.element(q[7:11]), q[11:14]) @ offsets[1]
        across, child = tree.bodies[1].placement, SE3.inverse(base) @ link
        E = across[:3, :3].T @ child[:3, :3]
        x = arctan2(axis @ [E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]], np.trace(E) - 1)
        return U(base, x)

    options = {"t_end": 0.2, "dt": 1e-3, "method": "rkmk8"}
    run = lb.simulate(lb.Robot(tree), q, v, forces=[Potential(in_tree, tree.group)], **options)
    other = lb.simulate(
        absolute.system, Q, V, forces=[Potential(in_system, absolute.system.group)], **options
    )
    for each in (run, other):
        np.testing.assert_allclose(each.energy, each.energy[0], rtol=1e-9, atol=1e-9)
    back, _ = absolute.to_tree(other.q[-1])
    np.testing.assert_allclose(tree.group.difference(run.q[-1], back), 0, atol=1e-8)


@pytest.mark.wide
def test_a_rigid_body_in_a_potential_keeps_its_energy_in_all_variables():
    """The same motion by body velocities, momenta and spatial velocities, to 1e-9."""
    rng = np.random.default_rng(0)
    I = lb.SpatialInertia(2.0, [0.1, 0.2, -0.1], rotational=np.diag([0.3, 0.4, 0.5]))
    for group in (Free(), Spherical(), Planar((0, 0, 1)), Schoenflies((0, 0, 1)), SE3):
        U = lambda q: 3 * (q @ q) * q[-1] + q[0]  # noqa: E731
        body = RigidBody(group, I, potential=U)
        q, v = group.random(rng), rng.normal(size=group.dim)
        close(body.potential_wrench(q), -along(U, group, q))
        to_space = group.Ad(group.element(q))
        ends = {}
        for variables, w in {"body": v, "momenta": body.momentum(v), "spatial": to_space @ v}.items():
            field = body.vector_field(gravity=(0, 0, -9.81), variables=variables)
            start = np.concatenate([q, w])
            run = lb.solve_ivp(
                field, (0, 0.3), start, body.state_group, method="rkmk8", rtol=1e-11, atol=1e-12
            )
            end, w = run.q[-1][: group.nq], run.q[-1][group.nq :]
            if variables == "momenta":
                w = np.linalg.solve(body.mass_matrix, w)
            elif variables == "spatial":
                w = np.linalg.solve(group.Ad(group.element(end)), w)
            ends[variables] = np.concatenate([end, w])
        close(ends["momenta"], ends["body"], 1e-9)
        close(ends["spatial"], ends["body"], 1e-9)


@pytest.mark.parametrize("group", [SO3, SE3, Planar((0, 0, 1))], ids=str)
def test_inertia_in_the_spatial_frame_changes_as_its_coriolis_matrix_says(group):
    """M(g) of From (61): the same energy, dM/dt - 2 C skew, and M dV/dt + C V = Ad^-T (M dv/dt + C v)."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(group.dim, group.dim))
    body = RigidBody(group, A @ A.T + np.eye(group.dim))
    q, v, a = group.random(rng), *rng.normal(size=(2, group.dim))
    Ad = group.Ad(group.element(q))
    V, M = Ad @ v, body.spatial_mass_matrix(q)
    C = body.spatial_coriolis(q, V)
    close(V @ M @ V, v @ body.mass_matrix @ v)
    rate = jvp(trace(lambda s: body.spatial_mass_matrix(group.integrate(q, s * v)), {"s": ()}, "M"), "s")
    skew = rate(0.0, 1.0) - 2 * C
    close(skew, -skew.T)
    close(M @ (Ad @ a) + C @ V, np.linalg.solve(Ad.T, body.efforts(v, a)))
    with pytest.raises(ModelError, match="body, momenta, spatial"):
        body.vector_field(variables="world")


# -- Boltzmann-Hamel equations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "joints", [["revolute", "prismatic", "revolute"], ["free", "revolute"], ["spherical"]]
)
@pytest.mark.parametrize("quasi", [False, True])
def test_boltzmann_hamel_equations_of_a_tree_are_its_equations_of_motion(joints, quasi):
    """With M(x) of the tree and any S(x): the accelerations are those of the tree, dM/dt - 2 C is skew."""
    rng = np.random.default_rng(6)
    tree = random_tree(rng, joints, rotors=False)
    n = tree.nv
    q0, v, tau = random_state(rng, tree)
    K = 0.2 * rng.normal(size=(n, n))

    def S(x):
        return np.eye(n) + K * sin(x)[None, :] + np.diag(0.1 * x * x)

    own = mechanisms.exponential_transformation(tree.group)
    made = BoltzmannHamel.of_tree(tree, q0, S if quasi else None, WEIGHT)
    for x in (np.zeros(n), 0.3 * rng.normal(size=n)):
        q = tree.group.integrate(q0, x)
        rates = np.linalg.solve(np.asarray(own(x), float), v)  # dx/dt
        matrix = made.transformation(x)
        w = matrix @ rates
        a = dyn.forward_dynamics(tree, q, v, tau, WEIGHT)
        back = np.asarray(own(x), float) @ np.linalg.inv(matrix)  # v = back w
        close(made.rates(x, w), rates)
        close(w @ made.mass_matrix(x) @ w, v @ dyn.mass_matrix(tree, q) @ v)

        def velocity(s, x=x, rates=rates, w=w):
            y = x + s * rates
            return own(y) @ inverse(np.asarray(made.S(y))) @ w

        def inertia(s, x=x, rates=rates):
            return made.mass_matrix(x + s * rates)

        drift = jvp(trace(velocity, {"s": ()}, "v"), "s")(0.0, 1.0)
        close(back @ made.acceleration(x, w, back.T @ tau) + drift, a, 1e-8)
        rate = jvp(trace(inertia, {"s": ()}, "M"), "s")(0.0, 1.0)
        C = made.coriolis(x, w)
        close(rate - 2 * C, -(rate - 2 * C).T, 1e-9)
        close(C @ w, made.coriolis(x, w, "gamma") @ w, 1e-9)


def test_at_the_centre_of_its_coordinates_the_coriolis_matrix_is_christoffels():
    """Duindam and Stramigioli's coordinates about q, at x = 0: C of the tree itself, for any joints."""
    tree = random_tree(np.random.default_rng(9), ["free", "spherical", "revolute"], rotors=False)
    q, v, _ = random_state(np.random.default_rng(10), tree)
    local = BoltzmannHamel.of_tree(tree, q)
    close(local.coriolis(np.zeros(tree.nv), v) @ v, dyn.coriolis_matrix(tree, q, v) @ v)
    M_rate = dyn.mass_matrix_derivative(tree, q, v)
    C = local.coriolis(np.zeros(tree.nv), v)
    close(C + C.T, M_rate)
    with pytest.raises(ModelError, match="has a rotor"):
        BoltzmannHamel.of_tree(random_tree(np.random.default_rng(9), ["free", "spherical", "revolute"]))


def test_a_simulation_in_quasi_velocities_is_that_of_the_robot():
    robot = lb.models.double_pendulum()
    S = lambda x: np.array([[1, 0], [sin(x[1]), 1 + 0.3 * cos(x[0])]])  # noqa: E731
    made = BoltzmannHamel.of_tree(robot.tree, S=S, gravity=tuple(robot.gravity_vector))
    q, v = np.array([0.4, -0.9]), np.array([0.5, 1.0])
    push = lambda t, x, w: np.linalg.solve(S(x).T, [0.1, -0.2])  # noqa: E731
    options = {"method": "rkmk8", "rtol": 1e-11, "atol": 1e-12}
    run = lb.solve_ivp(made.vector_field(push), (0, 1), [*q, *(S(q) @ v)], lb.groups.R(4), **options)
    exact = lb.simulate(robot, q, v, tau=[0.1, -0.2], t_end=1.0, dt=1e-3, method="rkmk8")
    np.testing.assert_allclose(run.q[-1][:2], exact.q[-1], atol=1e-9)
    with pytest.raises(ModelError, match="how many coordinates"):
        BoltzmannHamel(S, lambda x: np.eye(2))
