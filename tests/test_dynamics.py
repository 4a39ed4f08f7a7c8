"""The algorithms by the laws of mechanics, on random trees of every joint type, and beside Pinocchio.

Time derivatives are exact: a motion q(s) = integrate(q, s v) is traced and differentiated at s = 0.
"""

import numpy as np
import pytest
from random_trees import (
    MECHANISMS,
    WEIGHT,
    random_inertia,
    random_mechanism,
    random_placement,
    random_state,
    random_tree,
)

from liebody import dynamics as dyn
from liebody.base.errors import ModelError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.compiler import jvp, trace
from liebody.groups import (
    SE3,
    Cylindrical,
    Free,
    Helical,
    Planar,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)


@pytest.fixture(params=MECHANISMS, scope="module")
def mechanism(request):
    rng = np.random.default_rng(sum(map(ord, request.param)))
    tree = random_mechanism(rng, request.param)
    return tree, rng, *random_state(rng, tree), rng.normal(size=(len(tree.bodies), 6))


def close(actual, expected, gate):
    """|actual - expected| <= gate * size: the largest of both, and of 1, the size of all that is drawn."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    size = max(1.0, np.abs(expected).max(initial=0), np.abs(actual).max(initial=0))
    error = np.abs(actual - expected).max(initial=0) / size
    assert error <= gate, f"relative error {error:.2e}"


def rate(function, tree, q, v):
    """d/ds function(integrate(q, s v), s) at s = 0."""
    f = trace(lambda s: function(tree.group.integrate(q, s * v), s), {"s": ()})
    return jvp(f, "s")(0.0, 1.0)


# -- laws -------------------------------------------------------------------------------------------------


def test_the_mass_matrix_is_symmetric_and_positive_definite(mechanism):
    tree, _, q, *_ = mechanism
    M = dyn.mass_matrix(tree, q)
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] > 0


def test_efforts_are_affine_in_acceleration_with_slope_M(mechanism):
    tree, _, q, v, a, wrenches = mechanism
    columns = [dyn.inverse_dynamics(tree, q, 0 * v, e, gravity=(0, 0, 0)) for e in np.eye(tree.nv)]
    close(np.stack(columns, axis=1), dyn.mass_matrix(tree, q), 1e-13)
    bias = dyn.bias_forces(tree, q, v, WEIGHT, wrenches)
    close(dyn.inverse_dynamics(tree, q, v, a, WEIGHT, wrenches), dyn.mass_matrix(tree, q) @ a + bias, 1e-12)


def test_forward_after_inverse_gives_the_acceleration_back(mechanism):
    tree, _, q, v, a, wrenches = mechanism
    for damping in (False, True):
        tau = dyn.inverse_dynamics(tree, q, v, a, WEIGHT, wrenches, damping)
        close(dyn.forward_dynamics(tree, q, v, tau, WEIGHT, wrenches, damping), a, 1e-10)


def test_the_articulated_body_algorithm_solves_with_the_mass_matrix(mechanism):
    tree, _, q, v, tau, wrenches = mechanism
    a = dyn.forward_dynamics(tree, q, v, tau, WEIGHT, wrenches)
    close(dyn.mass_matrix(tree, q) @ a + dyn.bias_forces(tree, q, v, WEIGHT, wrenches), tau, 1e-10)


def test_power_is_the_rate_of_energy(mechanism):
    """v . tau = d/dt (T + U), without damping and external wrenches."""
    tree, _, q, v, a, _ = mechanism

    def energy(q, s):
        return dyn.kinetic_energy(tree, q, v + s * a) + dyn.potential_energy(tree, q, WEIGHT)

    power = v @ dyn.inverse_dynamics(tree, q, v, a, WEIGHT)
    size = np.abs(v * dyn.inverse_dynamics(tree, q, v, a, WEIGHT)).sum()
    assert abs(power - rate(energy, tree, q, v)) <= 1e-12 * size


def test_kinetic_energy_is_half_of_v_M_v(mechanism):
    tree, _, q, v, *_ = mechanism
    close(dyn.kinetic_energy(tree, q, v), 0.5 * v @ dyn.mass_matrix(tree, q) @ v, 1e-13)


def test_gravity_is_the_slope_of_potential_energy(mechanism):
    tree, _, q, *_ = mechanism
    slope = [rate(lambda q, s: dyn.potential_energy(tree, q, WEIGHT), tree, q, e) for e in np.eye(tree.nv)]
    close(dyn.gravity_forces(tree, q, WEIGHT), slope, 1e-12)


def test_joint_wrenches_are_what_newton_and_euler_take_for_all_that_a_joint_carries(mechanism):
    """F_i = sum over the bodies on joint i of Ad^T (J dV/dt - ad_V^T J V - F_ext); S^T F is its effort."""
    tree, _, q, v, a, wrenches = mechanism
    found = dyn.joint_wrenches(tree, q, v, a, WEIGHT, wrenches)
    for body in tree.bodies:
        T, total = dyn.frame_pose(tree, q, body.name), np.zeros(6)
        for b in (b for b in tree.bodies if body in tree.ancestors(b.index)):
            J, T_b = b.inertia.matrix(), dyn.frame_pose(tree, q, b.name)
            V, A = (dyn.frame_twist(tree, q, v, b.name), dyn.frame_acceleration(tree, q, v, a, b.name))
            A[3:] -= T_b[:3, :3].T @ WEIGHT
            own = J @ A - SE3.ad(V).T @ J @ V - wrenches[b.index - 1]
            total += SE3.Ad(SE3.inverse(T_b) @ T).T @ own
        close(found[body.index - 1], total, 1e-10)
    efforts = dyn.factorization(tree, q, v).rotors * a
    for body, F in zip(tree.bodies, found, strict=True):
        np.add.at(efforts, np.arange(tree.nv)[body.dofs], body.twist.T @ F)
    close(efforts, dyn.inverse_dynamics(tree, q, v, a, WEIGHT, wrenches), 1e-10)


@pytest.mark.parametrize("followers", [0, 2])
def test_prescribed_motion_of_the_base_is_that_of_a_free_base_with_this_acceleration(followers):
    """The same arm on the world that moves, and on a free body at that pose, twist and acceleration."""
    kinds = ["revolute", "prismatic", "spherical", "revolute", "helical"]
    arm = random_tree(np.random.default_rng(3), kinds, followers)
    builder = TreeBuilder("on a free base")
    builder.add("base", Free(), random_inertia(np.random.default_rng(4)))
    for body in arm.bodies:
        parent = arm.bodies[body.parent - 1].name if body.parent else "base"
        builder.add(body.name, body.joint, body.inertia, parent, body.placement)
    tree = builder.build()
    rng = np.random.default_rng(5)
    q, v, a = random_state(rng, arm)
    base, twist, rate = Free().random(rng), rng.normal(size=6), rng.normal(size=6)
    T = SE3.element(base)
    order = [tree.body(b.name).index - 1 for b in arm.bodies]
    wrenches = rng.normal(size=(len(tree.bodies), 6))
    motion = np.array([twist, rate])
    motion[1, 3:] += np.subtract(WEIGHT, T[:3, :3].T @ WEIGHT)  # gravity in the axes of the base
    whole = np.concatenate([base, q]), np.concatenate([twist, v]), np.concatenate([rate, a])
    assert [b.joint.name for b in tree.bodies[1:]] == [b.joint.name for b in arm.bodies]
    tau = dyn.inverse_dynamics(tree, *whole, WEIGHT, wrenches, True)
    given = WEIGHT, wrenches[order], True, motion
    close(dyn.inverse_dynamics(arm, q, v, a, *given), tau[6:], 1e-12)
    close(dyn.forward_dynamics(arm, q, v, tau[6:], *given), a, 1e-9)
    close(dyn.bias_forces(arm, q, v, *given) + dyn.mass_matrix(arm, q) @ a, tau[6:], 1e-12)
    close(
        dyn.joint_wrenches(arm, q, v, a, WEIGHT, wrenches[order], motion),
        dyn.joint_wrenches(tree, *whole, WEIGHT, wrenches)[order],
        1e-12,
    )


def test_external_wrenches_act_through_the_jacobians(mechanism):
    tree, _, q, v, a, wrenches = mechanism
    effort = sum(
        dyn.frame_jacobian(tree, q, b.name).T @ F for b, F in zip(tree.bodies, wrenches, strict=True)
    )
    without = dyn.inverse_dynamics(tree, q, v, a, WEIGHT)
    close(without - dyn.inverse_dynamics(tree, q, v, a, WEIGHT, wrenches), effort, 1e-10)


def test_damping_takes_power_and_only_when_asked_for(mechanism):
    tree, _, q, v, a, _ = mechanism
    lost = dyn.inverse_dynamics(tree, q, v, a, damping=True) - dyn.inverse_dynamics(tree, q, v, a)
    rates = np.concatenate([np.sqrt(b.joint.damping) * b.joint_rates(v) for b in tree.bodies])
    assert v @ lost == pytest.approx(rates @ rates, rel=1e-9)


def test_weight_and_the_effort_on_a_floating_base_are_all_that_moves_the_centre_of_mass():
    rng = np.random.default_rng(9)
    tree = random_tree(rng, ["revolute", "spherical", "helical"], rotors=False)
    builder = TreeBuilder().add("base", Free(), random_inertia(rng))
    for body in tree.bodies:
        parent = tree.bodies[body.parent - 1].name if body.parent else "base"
        builder.add(body.name, body.joint, body.inertia, parent, body.placement)
    tree = builder.build()
    q, v, a = random_state(rng, tree)
    acceleration = rate(lambda q, s: dyn.center_of_mass_velocity(tree, q, v + s * a), tree, q, v)
    force = dyn.body_poses(tree, q)[0][:3, :3] @ dyn.inverse_dynamics(tree, q, v, a, WEIGHT)[3:6]
    close(tree.mass * (acceleration - WEIGHT), force, 1e-12)


# -- kinematics ---------------------------------------------------------------------------------------------


def frames_of(tree):
    return [tree.bodies[-1].name, *tree.frames]


def test_twists_are_the_rates_of_poses(mechanism):
    tree, _, q, v, *_ = mechanism
    for name in frames_of(tree):
        T, dT = (
            dyn.frame_pose(tree, q, name),
            rate(lambda q, s, name=name: dyn.frame_pose(tree, q, name), tree, q, v),
        )
        close(dyn.frame_twist(tree, q, v, name), SE3.vee(SE3.inverse(T) @ dT), 1e-12)
        close(dyn.frame_twist(tree, q, v, name, "world"), SE3.vee(dT @ SE3.inverse(T)), 1e-12)
        mixed = np.concatenate([SE3.vee(dT @ SE3.inverse(T))[:3], dT[:3, 3]])
        close(dyn.frame_twist(tree, q, v, name, "mixed"), mixed, 1e-12)


@pytest.mark.parametrize("representation", ["body", "world", "mixed"])
def test_jacobians_and_their_rates(mechanism, representation):
    tree, _, q, v, a, _ = mechanism
    for name in frames_of(tree):
        J = dyn.frame_jacobian(tree, q, name, representation)
        close(J @ v, dyn.frame_twist(tree, q, v, name, representation), 1e-12)
        dJ = dyn.frame_jacobian_rate(tree, q, v, name, representation)
        close(
            dJ, rate(lambda q, s, n=name: dyn.frame_jacobian(tree, q, n, representation), tree, q, v), 1e-12
        )
        acceleration = dyn.frame_acceleration(tree, q, v, a, name, representation)
        close(acceleration, J @ a + dJ @ v, 1e-12)
        twist = rate(lambda q, s, n=name: dyn.frame_twist(tree, q, v + s * a, n, representation), tree, q, v)
        close(acceleration, twist, 1e-12)


def test_all_bodies_at_once_agree_with_one_at_a_time(mechanism):
    tree, _, q, v, *_ = mechanism
    poses, twists = dyn.body_poses(tree, q), dyn.body_twists(tree, q, v)
    for body in tree.bodies:
        close(poses[body.index - 1], dyn.frame_pose(tree, q, body.name), 1e-14)
        close(twists[body.index - 1], dyn.frame_twist(tree, q, v, body.name), 1e-13)


def test_the_centre_of_mass_moves_with_its_jacobian(mechanism):
    tree, _, q, v, *_ = mechanism
    poses = dyn.body_poses(tree, q)
    weighted = sum(
        b.inertia.mass * (T[:3, :3] @ b.inertia.com + T[:3, 3])
        for b, T in zip(tree.bodies, poses, strict=True)
    )
    close(dyn.center_of_mass(tree, q), weighted / tree.mass, 1e-13)
    velocity = dyn.center_of_mass_velocity(tree, q, v)
    close(velocity, rate(lambda q, s: dyn.center_of_mass(tree, q), tree, q, v), 1e-12)
    close(dyn.center_of_mass_jacobian(tree, q) @ v, velocity, 1e-12)


def test_an_unknown_representation_is_refused():
    tree = random_tree(np.random.default_rng(0), ["revolute"])
    with pytest.raises(ModelError, match="'local' is unknown; use one of body, world, mixed"):
        dyn.frame_jacobian(tree, np.zeros(1), tree.bodies[0].name, "local")


# -- traces -------------------------------------------------------------------------------------------------


def test_a_trace_computes_what_the_floats_do(mechanism):
    tree, _, q, v, a, wrenches = mechanism
    shapes = {"q": tree.nq, "v": tree.nv, "a": tree.nv, "wrenches": wrenches.shape}
    name = frames_of(tree)[-1]
    for function in (
        lambda q, v, a, w: dyn.inverse_dynamics(tree, q, v, a, WEIGHT, w, True),
        lambda q, v, a, w: dyn.forward_dynamics(tree, q, v, a, WEIGHT, w, True),
        lambda q, v, a, w: dyn.mass_matrix(tree, q),
        lambda q, v, a, w: np.array([dyn.kinetic_energy(tree, q, v), dyn.potential_energy(tree, q)]),
        lambda q, v, a, w: dyn.frame_jacobian_rate(tree, q, v, name, "mixed"),
        lambda q, v, a, w: dyn.center_of_mass_jacobian(tree, q),
    ):
        f = trace(function, shapes)
        close(f(q, v, a, wrenches), function(q, v, a, wrenches), 1e-12)


def arm():
    """Six revolute joints with right-angled placements, dense inertias."""
    rng, builder, parent = np.random.default_rng(0), TreeBuilder("arm"), "world"
    quarter = SE3.exp(np.array([np.pi / 2, 0, 0, 0, 0, 0]))
    for k in range(6):
        placement = SE3.motion((quarter if k % 2 else np.eye(4))[:3, :3], [0, 0.1, 0.4])
        builder.add(f"link{k}", Revolute([0, 0, 1]), random_inertia(rng), parent, placement)
        parent = f"link{k}"
    return builder.build()


def test_operations_stay_few():
    """Guards against losing structure: additions and multiplications of an arm; 579, 1429 and 322 today."""
    tree = arm()
    shapes = {"q": 6, "v": 6, "a": 6}

    def count(function):
        operations = trace(function, shapes).operations
        return operations["add"] + operations["sub"] + operations["mul"]

    assert count(lambda q, v, a: dyn.inverse_dynamics(tree, q, v, a)) <= 600
    assert count(lambda q, v, a: dyn.forward_dynamics(tree, q, v, a)) <= 1450
    assert count(lambda q, v, a: dyn.mass_matrix(tree, q)) <= 330


# -- beside Pinocchio ---------------------------------------------------------------------------------------

pin = pytest.importorskip("pinocchio")


def _pin_joint(group):
    """Pinocchio's joint of the same motions (some about z only), and the order of its velocities in ours."""
    if isinstance(group, Revolute):
        return pin.JointModelRevoluteUnaligned(group.axis), [0]
    if isinstance(group, Prismatic):
        return pin.JointModelPrismaticUnaligned(group.axis), [0]
    if isinstance(group, Helical):
        return pin.JointModelHelicalUnaligned(group.axis, group.pitch), [0]
    if isinstance(group, Spherical):
        return pin.JointModelSpherical(), [0, 1, 2]
    if isinstance(group, SpatialTranslation):
        return pin.JointModelTranslation(), [0, 1, 2]
    if isinstance(group, Planar):
        return pin.JointModelPlanar(), [1, 2, 0]
    if isinstance(group, Free):
        return pin.JointModelFreeFlyer(), [3, 4, 5, 0, 1, 2]
    parts, order = {
        Cylindrical: ([pin.JointModelRZ(), pin.JointModelPZ()], [0, 1]),
        PlanarTranslation: ([pin.JointModelPX(), pin.JointModelPY()], [0, 1]),
        Schoenflies: ([pin.JointModelPlanar(), pin.JointModelPZ()], [1, 2, 0, 3]),
    }[type(group)]
    composite = pin.JointModelComposite(parts[0])
    composite.addJoint(parts[1])
    return composite, order


def _pin_coordinates(group, q):
    if isinstance(group, Spherical):
        return [*q[1:4], q[0]]
    if isinstance(group, Free):
        return [*q[4:], *q[1:4], q[0]]
    if isinstance(group, (Planar, Schoenflies)):
        return [q[1], q[2], np.cos(q[0]), np.sin(q[0]), *q[3:]]
    return list(q)


class Beside:
    """A tree and the same mechanism in Pinocchio; numbered depth-first, which its crba needs."""

    def __init__(self, tree):
        self.tree, model, order = tree, pin.Model(), []
        for body in tree.bodies:
            joint, velocities = _pin_joint(body.joint.group)
            index = model.addJoint(body.parent, joint, pin.SE3(body.placement), body.joint.name)
            assert index == body.index
            I = body.inertia
            model.appendBodyToJoint(index, pin.Inertia(I.mass, I.com, I.rotational), pin.SE3.Identity())
            if body.joint.mimic is None:
                order += [body.dofs.start + k for k in velocities]
        for frame in tree.frames.values():
            model.addFrame(
                pin.Frame(frame.name, frame.body, 0, pin.SE3(frame.placement), pin.FrameType.OP_FRAME)
            )
        for body in tree.bodies:
            if body.joint.mimic is not None:
                leader = model.getJointId(body.joint.mimic.joint)
                model = pin.transformJointIntoMimic(model, leader, body.index, body.ratio, body.offset)
        model.gravity.linear = np.array(WEIGHT)
        armature = np.zeros(model.nv)
        for body in tree.bodies:
            if body.joint.mimic is None:
                armature[[order.index(k) for k in range(tree.nv)[body.dofs]]] = body.joint.armature
        model.armature = armature
        self.model, self.data, self.order = model, model.createData(), order

    def q(self, q):
        own = [b for b in self.tree.bodies if b.joint.mimic is None]
        return np.concatenate([_pin_coordinates(b.joint.group, q[b.coordinates]) for b in own])

    def v(self, v):
        """Ours to Pinocchio's order, along the first axis."""
        return np.asarray(v)[self.order]

    def wrenches(self, F):
        return pin.StdVec_Force([pin.Force.Zero(), *(pin.Force(f[3:], f[:3]) for f in F)])


def swap(x):
    """Linear-first to angular-first, along the first axis."""
    return np.concatenate([x[3:], x[:3]])


KNOWN = {
    "revolute": lambda rng: Revolute(rng.normal(size=3)),
    "revolute-z": lambda rng: Revolute([0, 0, -1]),
    "prismatic": lambda rng: Prismatic(rng.normal(size=3)),
    "prismatic-x": lambda rng: Prismatic([1, 0, 0]),
    "helical": lambda rng: Helical(rng.normal(size=3), rng.normal()),
    "spherical": lambda rng: Spherical(),
    "spatial-translation": lambda rng: SpatialTranslation(),
    "planar": lambda rng: Planar([0, 0, 1]),
    "free": lambda rng: Free(),
    "cylindrical": lambda rng: Cylindrical([0, 0, 1]),
    "planar-translation": lambda rng: PlanarTranslation([0, 0, 1]),
    "schoenflies": lambda rng: Schoenflies([0, 0, 1]),
}


def pin_tree(rng, kinds):
    """A random tree of the joints that Pinocchio has: all but the planar-helical one (see the laws above)."""
    builder, names = TreeBuilder("beside"), ["world"]
    for k, kind in enumerate(kinds):
        group = KNOWN[kind](rng)
        parent = names[-1] if rng.random() < 0.6 else names[rng.integers(len(names))]
        joint = Joint(f"joint-{k}", group, armature=rng.uniform(0, 0.3, group.dim), damping=0.3)
        builder.add(f"body-{k}", joint, random_inertia(rng), parent, random_placement(rng))
        names.append(f"body-{k}")
    builder.frame("tool", names[-1], random_placement(rng))
    return builder.build()


PIN_MECHANISMS = {
    **{kind: [kind, "revolute-z", kind] for kind in KNOWN},
    "arm": ["revolute-z", "revolute", "revolute-z", "revolute-z", "revolute", "revolute-z", "revolute-z"],
    "humanoid": ["free", *["revolute-z"] * 8, "revolute", "prismatic-x", "spherical"],
    "every-joint": list(KNOWN),
}


@pytest.fixture(params=PIN_MECHANISMS, scope="module")
def beside(request):
    rng = np.random.default_rng(sum(map(ord, request.param)) + 1)
    tree = pin_tree(rng, PIN_MECHANISMS[request.param])
    return Beside(tree), tree, *random_state(rng, tree), rng.normal(size=(len(tree.bodies), 6))


def test_pinocchio_agrees_on_inverse_dynamics(beside):
    other, tree, q, v, a, F = beside
    tau = pin.rnea(other.model, other.data, other.q(q), other.v(v), other.v(a), other.wrenches(F))
    close(other.v(dyn.inverse_dynamics(tree, q, v, a, WEIGHT, F)), tau, 1e-12)
    g = pin.computeGeneralizedGravity(other.model, other.data, other.q(q))
    close(other.v(dyn.gravity_forces(tree, q, WEIGHT)), g, 1e-12)


def test_pinocchio_agrees_on_forward_dynamics(beside):
    other, tree, q, v, tau, F = beside
    a = pin.aba(other.model, other.data, other.q(q), other.v(v), other.v(tau), other.wrenches(F))
    close(other.v(dyn.forward_dynamics(tree, q, v, tau, WEIGHT, F)), a, 1e-11)


def test_pinocchio_agrees_on_derivatives(beside):
    other, tree, q, v, x, _ = beside
    where = other.model, other.data, other.q(q), other.v(v), other.v(x)
    pin.computeRNEADerivatives(*where)
    theirs = [other.data.dtau_dq, other.data.dtau_dv, other.data.M]
    theirs[2] = np.triu(theirs[2]) + np.triu(theirs[2], 1).T
    theirs = [x.copy() for x in theirs] + [x.copy() for x in pin.computeABADerivatives(*where)]
    theirs[5] = np.triu(theirs[5]) + np.triu(theirs[5], 1).T
    of_efforts = dyn.inverse_dynamics_derivatives(tree, q, v, x, WEIGHT)
    of_accelerations = dyn.forward_dynamics_derivatives(tree, q, v, x, WEIGHT)
    for own, other_one in zip([*of_efforts, *of_accelerations], theirs, strict=True):
        close(own[np.ix_(other.order, other.order)], other_one, 1e-9)


def test_pinocchio_agrees_on_the_mass_matrix(beside):
    other, tree, q, *_ = beside
    M = pin.crba(other.model, other.data, other.q(q))
    M = np.triu(M) + np.triu(M, 1).T
    close(other.v(other.v(dyn.mass_matrix(tree, q)).T), M, 1e-12)


def test_pinocchio_agrees_on_energies_and_the_centre_of_mass(beside):
    other, tree, q, v, *_ = beside
    model, data, Q, V = other.model, other.data, other.q(q), other.v(v)
    rotors = sum(b.armature @ v[b.dofs] ** 2 / 2 for b in tree.bodies)
    bare = (
        model.copy()
    )  # Pinocchio 4.1 counts the rotors of some joint types and not of others, e.g. revolute ones
    bare.armature = np.zeros(model.nv)
    close(dyn.kinetic_energy(tree, q, v) - rotors, pin.computeKineticEnergy(bare, data, Q, V), 1e-12)
    close(dyn.potential_energy(tree, q, WEIGHT), pin.computePotentialEnergy(model, data, Q), 1e-11)
    close(dyn.center_of_mass(tree, q), pin.centerOfMass(model, data, Q), 1e-12)
    close(other.v(dyn.center_of_mass_jacobian(tree, q).T).T, pin.jacobianCenterOfMass(model, data, Q), 1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("body", "LOCAL"), ("world", "WORLD"), ("mixed", "LOCAL_WORLD_ALIGNED")]
)
def test_pinocchio_agrees_on_frames(beside, ours, theirs):
    other, tree, q, v, a, _ = beside
    model, data, Q, V = other.model, other.data, other.q(q), other.v(v)
    reference, frame = getattr(pin.ReferenceFrame, theirs), other.model.getFrameId("tool")
    pin.computeJointJacobiansTimeVariation(model, data, Q, V)
    pin.forwardKinematics(model, data, Q, V, other.v(a))
    pin.updateFramePlacements(model, data)
    close(dyn.frame_pose(tree, q, "tool"), data.oMf[frame].homogeneous, 1e-13)
    J, dJ = dyn.frame_jacobian(tree, q, "tool", ours), dyn.frame_jacobian_rate(tree, q, v, "tool", ours)
    close(other.v(J.T).T, swap(pin.getFrameJacobian(model, data, frame, reference)), 1e-12)
    close(other.v(dJ.T).T, swap(pin.getFrameJacobianTimeVariation(model, data, frame, reference)), 1e-12)
    twist = pin.getFrameVelocity(model, data, frame, reference)
    close(dyn.frame_twist(tree, q, v, "tool", ours), swap(twist.vector), 1e-12)
    acceleration = (pin.getFrameClassicalAcceleration if ours == "mixed" else pin.getFrameAcceleration)(
        model, data, frame, reference
    )
    close(dyn.frame_acceleration(tree, q, v, a, "tool", ours), swap(acceleration.vector), 1e-12)


def test_pinocchio_agrees_on_followers():
    rng = np.random.default_rng(7)
    builder = TreeBuilder("gripper")
    builder.add("arm", Joint("arm", Revolute([0, 0, 1])), random_inertia(rng))
    builder.add(
        "left", Joint("left", Prismatic([0, 1, 0])), random_inertia(rng), "arm", random_placement(rng)
    )
    follow = Joint("right", Prismatic([0, 1, 0]), mimic=Mimic("left", -0.7, 0.1))
    builder.add("right", follow, random_inertia(rng), "left", random_placement(rng))
    turn = Joint("turn", Revolute([1, 0, 0]), mimic=Mimic("arm", 1.3, -0.2))
    builder.add("turn", turn, random_inertia(rng), "right", random_placement(rng))
    tree = builder.build()
    other, (q, v, a) = Beside(tree), random_state(rng, tree)
    tau = pin.rnea(other.model, other.data, other.q(q), other.v(v), other.v(a))
    close(other.v(dyn.inverse_dynamics(tree, q, v, a, WEIGHT)), tau, 1e-12)
    M = pin.crba(other.model, other.data, other.q(q), pin.Convention.WORLD)
    close(dyn.mass_matrix(tree, q), np.triu(M) + np.triu(M, 1).T, 1e-12)
    close(dyn.forward_dynamics(tree, q, v, dyn.inverse_dynamics(tree, q, v, a)), a, 1e-12)


def test_a_long_chain_does_not_lose_digits():
    """Thirty links: base moments gather masses towards the root, and must not cost accuracy."""
    rng, builder, parent = np.random.default_rng(8), TreeBuilder("chain"), "world"
    for k in range(30):
        axis = np.eye(3)[k % 3]
        inertia = SpatialInertia.rod(1.0, 1.0, com=[0, 0, 0.5]) + SpatialInertia.sphere(
            0.1, 0.05, [0, 0, 0.5]
        )
        builder.add(f"link{k}", Revolute(axis), inertia, parent, [0, 0, 1.0] if k else None)
        parent = f"link{k}"
    tree = builder.build()
    other, (q, v, a) = Beside(tree), random_state(rng, tree)
    close(dyn.inverse_dynamics(tree, q, v, a, WEIGHT), pin.rnea(other.model, other.data, q, v, a), 1e-12)
    close(dyn.forward_dynamics(tree, q, v, a, WEIGHT), pin.aba(other.model, other.data, q, v, a), 1e-11)
