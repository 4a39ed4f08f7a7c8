"""Closed loops: assembly, ranks, singular places, joint beside absolute coordinates; bad input."""

from __future__ import annotations

import numpy as np
import pytest
from constrained_models import BOX, four_bar, heavy_top, pendulum

import liebody as lb
from liebody import scalars
from liebody.base.errors import (
    ArgumentError,
    ConfigurationError,
    ConstraintError,
    GraphError,
    IntegrationError,
    ModelError,
)
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.groups import (
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    Planar,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from liebody.integrators import mechanical_method
from liebody.mechanisms.constrained import (
    AbsoluteTree,
    ClosedTree,
    Closure,
    Condition,
    Stabilization,
    SystemBuilder,
)
from liebody.simulation.simulate import SingularPosition
from liebody_studies.multibody_benchmarks.models import bricard

HINGE = Revolute([0, 1, 0])
GUESS, RATES = np.array([-1.0, 0.5, -2.0]), np.array([3.0, 0, 0])


def closed_four_bar(what=HINGE):
    closed = ClosedTree(four_bar(), [Closure("C", what, "end", "tip")])
    q = closed.assemble(GUESS)
    return closed, q, closed.consistent_velocities(q, RATES, hold=["A"])


def evaluated(mechanism, q, v, u):
    """Accelerations and multipliers from the traced function, without compiling it."""
    return compile_numpy(mechanism.function("accelerations"))(0.0, q, v, u)


def test_a_planar_four_bar_in_space_is_redundant_and_moves_as_it_should():
    """Three hinges and a fourth: 20 equations of rank 17. Accelerations beside those of least constraints."""
    closed, q, v = closed_four_bar()
    absolute = AbsoluteTree(closed.tree, [Closure("C", HINGE, "end", "tip")])
    Q, V = absolute.to_system(q, v)
    for mechanism, state, rows, rank in ((closed, q, 5, 2), (absolute.system, Q, 20, 17)):
        report = mechanism.report(state)
        assert (report.rows, report.rank, report.freedom, report.redundancy) == (rows, rank, 1, 3)
        assert "C" in report.dependent and not report.singular and mechanism.redundant
    spherical, _, _ = closed_four_bar(Cylindrical([0, 1, 0]))  # without what the hinges keep by themselves
    rod = ClosedTree(
        closed.tree, [Condition("C", lambda A, B: (A[:3, 3] - B[:3, 3])[[0, 2]], ("end", "tip"))]
    )
    assert rod.report(q).redundancy == 0 and not rod.redundant
    tau = np.array([0.3, -0.2, 0.1])
    expected, _ = evaluated(rod, q, v, tau)
    for found in (evaluated(closed, q, v, tau)[0], evaluated(spherical, q, v, tau)[0]):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    a, multipliers = evaluated(absolute.system, Q, V, tau)
    turning = a.reshape(-1, 6)[:, 1]
    np.testing.assert_allclose(turning, [expected[0], expected[0] + expected[1], expected[2]], atol=1e-9)

    # of least norm in the metric of diag(A)
    W = absolute.system.inverse_mass_root(Q, ())
    J = absolute.system.measure(Q)[1] @ W
    scale = 1 / np.linalg.norm(J, axis=1)
    U, s, _ = np.linalg.svd(J * scale[:, None])
    dependent = U[:, s.size - 3 :] if J.shape[0] <= s.size else U[:, 17:]
    np.testing.assert_allclose(dependent.T @ (multipliers / scale), 0, atol=1e-5 * np.abs(multipliers).max())


def test_sparse_factors_count_redundancy_as_singular_values_do():
    """What large systems use: Sylvester's law of inertia, and inverse iteration."""
    closed, q, _ = closed_four_bar()
    absolute = AbsoluteTree(closed.tree, [Closure("C", HINGE, "end", "tip")])
    system, Q = absolute.system, absolute.to_system(q)[0]
    W = system.inverse_mass_root(Q, ())
    J = system.measure(Q)[1] @ W
    U, s, _ = np.linalg.svd(J / np.linalg.norm(J, axis=1)[:, None])
    count, shares = system.dependence(Q, 0.0)
    assert count == 3 == np.sum(s < 1e-7) + len(J) - len(s)
    np.testing.assert_array_equal(shares > 1e-6, np.linalg.norm(U[:, 17:], axis=1) > 1e-6)
    assert pendulum("SE3")[0].dependence(pendulum("SE3")[0].guess, 0.0)[0] == 0


@pytest.mark.wide
def test_joint_and_absolute_coordinates_run_alike():
    closed, q, v = closed_four_bar()
    absolute = AbsoluteTree(closed.tree, [Closure("C", HINGE, "end", "tip")])
    one = lb.simulate(closed, q, v, t_end=0.3, dt=1e-3)
    two = lb.simulate(absolute.system, *absolute.to_system(q, v), t_end=0.3, dt=1e-3)
    assert one.largest_violation < 1e-12 and two.largest_violation < 1e-12
    q_end, v_end = absolute.to_tree(two.q[-1], two.v[-1])
    np.testing.assert_allclose(closed.group.difference(one.q[-1], q_end), 0, atol=1e-8)
    np.testing.assert_allclose(v_end, one.v[-1], atol=1e-7)
    assert max(one.energy_drift, two.energy_drift) < 1e-8
    np.testing.assert_allclose(one.reactions("C")[-1], two.reactions("C")[-1], atol=1e-6)


@pytest.mark.parametrize("stabilization", ["none", "baumgarte", "index-2"])
def test_closed_trees_take_every_stabilisation(stabilization):
    closed, q, v = closed_four_bar()
    run = lb.simulate(closed, q, v, t_end=0.3, dt=1e-3, stabilization=stabilization)
    assert run.largest_violation < 1e-7 and run.energy_drift < 1e-5


@pytest.mark.parametrize("method", ["generalized-alpha", "half-explicit4"])
def test_methods_for_mechanical_systems_take_constrained_ones(method):
    system, v = heavy_top("SE3")
    reference = lb.simulate(system, v0=v, t_end=0.02, dt=1e-4)
    run = lb.simulate(system, v0=v, t_end=0.02, dt=1e-4, method=method)
    np.testing.assert_allclose(run.q[-1], reference.q[-1], atol=1e-4 if method[0] == "g" else 1e-9)
    assert run.largest_violation < 1e-12 and run.metadata["stabilization"] == "by the method"
    with pytest.raises(IntegrationError, match="keeps constraints in its own way"):
        lb.simulate(system, v0=v, t_end=0.02, dt=1e-4, method=method, stabilization="projection")


@pytest.mark.parametrize("method", ["generalized-alpha", "variational", "half-explicit4"])
@pytest.mark.many
def test_methods_for_mechanical_systems_take_redundant_ones(method):
    """All equations, also those that the joints keep by themselves, and the multipliers of least norm."""
    closed, q, v = closed_four_bar()
    assert closed.mechanics()["redundant"] and len(closed.independent) == 2 < closed.nc
    reference = lb.simulate(closed, q, v, t_end=0.05, dt=1e-3)
    run = lb.simulate(closed, q, v, t_end=0.05, dt=1e-3, method=method)
    np.testing.assert_allclose(run.q[-1], reference.q[-1], atol=1e-4 if method[0] in "gv" else 1e-9)
    assert run.largest_violation < 1e-9
    made = mechanical_method(method).flow(**closed.mechanics()).run(q, v, 0.05, 1e-3)
    np.testing.assert_array_equal(made.q[-1], run.q[-1])
    np.testing.assert_allclose(made.multipliers[1:], reference.multipliers[1:], atol=2e-3)
    assert np.abs(reference.multipliers).max() > 3


@pytest.mark.wide
def test_bricards_mechanism_by_generalized_alpha():
    """Six hinges on the edges of a cube, by count without freedom: half a second beside index 1."""
    model = bricard()[0]
    reference = lb.simulate(model.mechanism, model.q, model.v, t_end=0.5, dt=1e-3)
    run = lb.simulate(model.mechanism, model.q, model.v, t_end=0.5, dt=1e-3, method="generalized-alpha")
    assert model.mechanism.mechanics()["redundant"]
    np.testing.assert_allclose(run.q[-1], reference.q[-1], atol=1e-5)
    assert run.largest_violation < 1e-12 and run.energy_drift < 1e-3


def test_loops_close_from_rough_guesses_and_bodies_are_held():
    absolute = AbsoluteTree(four_bar(), [Closure("C", HINGE, "end", "tip")])
    system, rng = absolute.system, np.random.default_rng(0)
    start, _ = absolute.to_system(GUESS)
    for _ in range(5):
        rough = system.group.integrate(start, np.repeat([0, 0.2, 0.2], 6) * rng.standard_normal(18))
        q = system.assemble(rough, hold=["crank"])
        assert max(np.abs(g).max() for g in system.violation(q).values()) < 1e-12
        np.testing.assert_allclose(q[:7], start[:7], atol=1e-15)


def test_what_cannot_close_is_named_with_its_loop_and_residual():
    short = ClosedTree(four_bar((1.0, 1.0, 1.0), 5.0), [Closure("C", Spherical(), "end", "tip")])
    with pytest.raises(
        ConstraintError, match=r"loop 'C' - 'B' - 'A' - 'D' does not close; left over are 'C'"
    ) as error:
        short.assemble(np.array([0.1, 0.0, 3.0]))
    assert error.value.residual == pytest.approx(2.0, abs=0.02)  # 5 m less three bars of 1 m
    system = AbsoluteTree(short.tree, [Closure("C", Spherical(), "end", "tip")]).system
    with pytest.raises(ConstraintError, match="does not close"):
        lb.simulate(system, t_end=0.1, dt=1e-3)


def test_over_constrained_systems_that_contradict_themselves_are_refused():
    builder = SystemBuilder("torn").body("box", BOX)
    builder.joint("left", Spherical(), "world", "box", on_child=[-0.1, 0, 0])
    builder.joint("right", Spherical(), "world", "box", on_parent=[0.3, 0, 0], on_child=[0.1, 0, 0])
    with pytest.raises(ConstraintError, match=r"'left'.*'right'|'right'.*'left'"):
        builder.build().assemble()
    fine = SystemBuilder("held twice").body("box", BOX)
    for name in ("one", "two"):
        fine.joint(name, Fixed(), "world", "box")
    system = fine.build()
    report = system.report()
    assert (report.freedom, report.redundancy, report.dependent) == (0, 6, ("one", "two"))
    a, multipliers = evaluated(system, system.guess, np.zeros(6), np.zeros(0))
    np.testing.assert_allclose(a, 0, atol=1e-8)
    np.testing.assert_allclose(multipliers[:6], multipliers[6:], atol=1e-6)  # each carries half of the weight
    assert np.abs(multipliers).max() == pytest.approx(2.7 * 9.81 / 2, rel=1e-6)


@pytest.mark.wide
def test_a_parallelogram_goes_through_the_place_where_its_motions_branch():
    """Two cranks and a rod, in one line at t = 0.5 s; it stays a parallelogram, and says so."""
    bar, builder = (
        SpatialInertia.box(1.0, [1, 0.05, 0.05], com=[0.5, 0, 0]),
        SystemBuilder("parallelogram", (0, 0, 0)),
    )

    def place(x, angle):
        return SE3.motion(SO3.exp(np.array([0, 0, angle])), np.array([x, 0, 0]))

    for name, hinge, x in (("crank", "A", 0.0), ("rocker", "D", 2.0)):
        builder.body(name, bar, place(x, 0.5))
        builder.joint(hinge, Revolute([0, 0, 1]), "world", name, on_parent=[x, 0, 0])
    builder.rod("rod", "crank", "rocker", on_a=[1, 0, 0], on_b=[1, 0, 0])
    system = builder.build()
    q, still = system.guess, [0, 0, 0]
    v = system.velocities(q, {name: [0, 0, -1, *still] for name in ("crank", "rocker")})
    with pytest.warns(SingularPosition, match=r"at t = 0\.(499|5) s .* rod depend on each other"):
        run = lb.simulate(system, q, v, t_end=1.0, dt=1e-3)
    assert np.abs(run.v[:, [2, 8]] + 1).max() < 1e-6
    flat = system.configuration({"crank": place(0, 0), "rocker": place(2, 0)})
    report = system.report(flat)
    assert report.singular and report.redundancy == 1 and not system.redundant


@pytest.mark.wide
def test_conditions_of_ones_own_are_what_joints_are():
    """A hinge by five numbers of its pose; its accelerations are a hinge's."""
    builder, own = SystemBuilder("hinge"), SystemBuilder("condition")
    inertia = SpatialInertia.box(2.0, [0.4, 0.1, 0.2], com=[0.1, 0.2, 0.05])
    for b in (builder, own):
        b.body("door", inertia, configuration="SE3")
    builder.joint("hinge", Revolute([0, 0, 1], [0.2, 0, 0]), "world", "door")
    point = np.array([0.2, 0, 0])
    own.constraint(
        "hinge",
        lambda T: np.concatenate([T[:3, :3] @ point + T[:3, 3] - point, T[:2, 2]]),
        ["door"],
    )
    a, b = builder.build(), own.build()
    v = a.velocities(a.guess, {"door": 3 * a.constraints[0].joint.group.S[:, 0]})
    for system in (a, b):
        system.check_state(system.guess, v)
    found = [evaluated(system, system.guess, v, np.zeros(0))[0] for system in (a, b)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


@pytest.mark.wide
def test_rods_universal_joints_curves_and_surfaces_hold_and_do_no_work():
    curve = lambda s: np.array([s, 0.5 * s * s, 0.1 * scalars.sin(3 * s)])  # noqa: E731
    builder = SystemBuilder("everything")
    builder.body("a", BOX, [0.1, 0, 0]).body("b", BOX, [0.3, 0, 0]).body("c", BOX, [0.3, 0.1, 0])
    builder.body("d", BOX, [0.0, -1.0, 0.5])
    builder.universal("cross", "world", "a", [0, 1, 0], [0, 0, 1], on_child=[-0.1, 0, 0])
    builder.rod("rod", "a", "b", on_a=[0.1, 0, 0], on_b=[0, 0.05, 0])
    builder.point_on_curve("wire", curve, "c", [0.1, 0.02, 0], start=0.3)
    builder.point_on_surface("bowl", lambda x: x @ x - 1.25, "d", [0, 0, 0.01])
    system = builder.build()
    q = system.assemble()
    v = system.consistent_velocities(q, np.random.default_rng(1).standard_normal(system.nv))
    run = lb.simulate(system, q, v, t_end=0.3, dt=1e-3)
    assert run.largest_violation < 1e-12 and run.energy_drift < 1e-7
    assert system.report(q).freedom == 24 - 4 - 1 - 2 - 1
    at = run.system.poses(run.q)[:, 2] @ [0.1, 0.02, 0, 1]
    on = np.stack([np.asarray(curve(s), float) for s in run.q[:, -1]])
    np.testing.assert_allclose(at[:, :3], on, atol=1e-12)


def test_drives_move_with_time():
    builder = SystemBuilder("driven").body("wheel", BOX)
    builder.joint("axle", Revolute([0, 0, 1]), "world", "wheel")
    builder.constraint(
        "motor",
        lambda t, T: T[1, 0] * scalars.cos(t + t * t) - T[0, 0] * scalars.sin(t + t * t),
        ["wheel"],
        timed=True,
    )
    system = builder.build()
    v = system.consistent_velocities(system.guess, np.zeros(6))
    assert v[2] == pytest.approx(1.0)
    run = lb.simulate(system, v0=v, t_end=0.5, dt=1e-2)
    T = system.poses(run.q)[-1, 0]
    assert np.arctan2(T[1, 0], T[0, 0]) == pytest.approx(0.75, abs=1e-12)
    moment = run.reactions("motor")[-1, 2]
    assert moment == pytest.approx(2 * BOX.rotational[2, 2], rel=1e-9)  # theta'' = 2


# -- drives: constraints that move -------------------------------------------------------------------------


def crank(*drives):
    """A slider-crank with a spring and a damper, its crank driven by constraints (t, T) of its pose."""
    builder = SystemBuilder("crank")
    builder.body("crank", SpatialInertia.box(1.0, [0.2, 0.02, 0.02], com=[0.1, 0, 0]))
    builder.body("rod", SpatialInertia.box(1.5, [0.6, 0.02, 0.02], com=[0.3, 0, 0]), pose=[0.2, 0, 0])
    builder.body("slider", SpatialInertia.box(2.0, [0.1, 0.1, 0.1]), pose=[0.8, 0, 0])
    builder.joint("main", HINGE, "world", "crank")
    builder.joint("pin", HINGE, "crank", "rod", on_parent=[0.2, 0, 0])
    builder.joint("wrist", Revolute([0, 1, 0]), "rod", "slider", on_parent=[0.6, 0, 0])
    builder.joint("rail", Prismatic([1, 0, 0]), "world", "slider", on_parent=[0.8, 0, 0], damping=3.0)
    builder.spring("spring", "world", "slider", on_a=[1.5, 0, 0], stiffness=20.0, length=0.3)
    for k, drive in enumerate(drives):
        builder.constraint(f"drive{k}", drive, ["crank"], timed=True)
    return builder.build()


def closed_crank(*drives):
    """The same linkage in joint coordinates, without spring, its slider closing the loop."""
    tree = TreeBuilder("crank")
    tree.add("crank", HINGE, SpatialInertia.box(1.0, [0.2, 0.02, 0.02], com=[0.1, 0, 0]))
    rod = SpatialInertia.box(1.5, [0.6, 0.02, 0.02], com=[0.3, 0, 0])
    tree.add("rod", HINGE, rod, "crank", [0.2, 0, 0]).frame("end", "rod", [0.6, 0, 0])
    slide = Joint("slider", Prismatic([1, 0, 0]), damping=3.0)
    tree.add("slider", slide, SpatialInertia.box(2.0, [0.1, 0.1, 0.1]), placement=[0.8, 0, 0])
    moved = [Condition(f"drive{k}", drive, ["crank"], timed=True) for k, drive in enumerate(drives)]
    ends = Condition("wrist", lambda A, B: (A[:3, 3] - B[:3, 3])[[0, 2]], ["end", "slider"])
    return ClosedTree(tree.build(), [ends, *moved])


def turning(t, T):
    """The crank at the angle 5 t + 0.3 sin(4 t): its Jacobian depends on time."""
    angle = 5 * t + 0.3 * scalars.sin(4 * t)
    return T[2, 0] * scalars.cos(angle) + T[0, 0] * scalars.sin(angle)


def angle_of(t, T):
    """The same up to half a turn, with a Jacobian that does not depend on time."""
    return scalars.arctan2(-T[2, 0], T[0, 0]) - 5 * t - 0.3 * scalars.sin(4 * t)


def motor():
    """A wheel at the angle t + t^2."""
    builder = SystemBuilder("motor").body("wheel", BOX)
    builder.joint("axle", Revolute([0, 0, 1]), "world", "wheel")

    def drive(t, T):
        return T[1, 0] * scalars.cos(t + t * t) - T[0, 0] * scalars.sin(t + t * t)

    return builder.constraint("motor", drive, ["wheel"], timed=True).build()


def test_a_motor_gives_a_wheel_its_energy():
    """The work is I (omega^2 - 1) / 2, omega = 1 + 2 t."""
    run = lb.simulate(motor(), t_end=0.5, dt=1e-2)  # from the default state
    omega = 1 + 2 * run.t
    np.testing.assert_allclose(run.v[:, 2], omega, atol=1e-11)
    np.testing.assert_allclose(
        run.work_done, BOX.rotational[2, 2] * (omega**2 - 1) / 2, atol=1e-10 * BOX.rotational[2, 2]
    )


DRIVEN = {
    "absolute": lambda: crank(turning),
    "by its angle": lambda: crank(angle_of),
    "twice": lambda: crank(turning, angle_of),  # redundant: the power is that of both multipliers
    "closed tree": lambda: closed_crank(turning),
    "motor": motor,
}


@pytest.mark.parametrize("kind", ["absolute", "by its angle", "twice", "closed tree"])
@pytest.mark.wide
def test_the_work_of_drives_is_in_the_balance(kind):
    """E - E(0) = the work of the drives less what the damper takes, from the state of rest by default."""
    system = DRIVEN[kind]()
    run = lb.simulate(system, t_end=0.4, dt=5e-4)
    assert np.ptp(run.energy) > 0.3 and np.ptp(run.work_done) > 0.3
    assert np.abs(run.energy_balance).max() < 2e-8
    assert run.largest_energy_jump < 1e-6  # by the trapezoidal rule
    assert "work done" in run.summary()


@pytest.mark.parametrize("method", ["radau5", "half-explicit4"])
@pytest.mark.parametrize("kind", ["motor", "closed tree"])
@pytest.mark.wide
def test_constraints_whose_jacobian_depends_on_time_are_taken_by_implicit_methods(kind, method):
    """The motion is given; multipliers and the balance are those of an explicit method."""
    system = DRIVEN[kind]()
    run, exact = (lb.simulate(system, t_end=0.2, dt=2e-3, method=x) for x in (method, "rkmk8"))
    np.testing.assert_allclose(run.q, exact.q, atol=1e-9)
    np.testing.assert_allclose(run.v, exact.v, atol=1e-7)
    np.testing.assert_allclose(run.multipliers, exact.multipliers, atol=1e-5)
    assert np.abs(run.energy_balance).max() < 2e-6  # of differences over 2 ms
    assert np.abs(run.rate).max() < 1e-11


def test_simulations_of_drives_start_consistently_by_default():
    """The least velocities that obey the drives, of one state and of several; given ones are not changed."""
    system = crank(turning)
    q = system.assemble()
    v = system.consistent_velocities(q, np.zeros(system.nv))
    assert v[1] == pytest.approx(6.2)  # about the crank's axis
    np.testing.assert_allclose(system.start_velocities(q[None]), [v], atol=1e-12)
    with pytest.raises(ConfigurationError, match="v0 breaks constraint 'drive0'"):
        lb.simulate(system, v0=np.zeros(system.nv), t_end=0.1, dt=1e-3)


def test_a_given_slip_works_on_its_body():
    """A blade pushed aside by 0.3 cos(2 t), from default velocities, at two attitudes in one ensemble."""
    builder = SystemBuilder("sleigh", gravity=(0, 0, 0)).body("sleigh", BOX)
    builder.joint("floor", Planar([0, 0, 1]), "world", "sleigh")
    builder.knife_edge("blade", "sleigh", [0.2, 0, 0], slip=lambda t: 0.3 * scalars.cos(2 * t))
    system = builder.build()
    turned = system.configuration({"sleigh": SE3.exp(np.array([0, 0, 1.2, 0.1, 0.4, 0]))})
    q0 = np.stack([system.guess, turned])
    run = lb.simulate(system, q0, t_end=1.0, dt=2e-3)
    for i, q in enumerate(q0):
        np.testing.assert_allclose(run.v[i, 0], system.consistent_velocities(q, np.zeros(6)), atol=1e-12)
    assert np.abs(run.velocity_violations["blade"]).max() < 1e-11
    assert np.ptp(run.energy, axis=-1).min() > 1e-2
    assert np.abs(run.energy_balance).max() < 1e-9


@pytest.mark.parametrize(
    ("joint", "freedom"),
    [
        (Prismatic([1, 0, 0]), 1),
        (Planar([0, 0, 1]), 3),
        (Schoenflies([0, 0, 1]), 4),
        (SpatialTranslation(), 3),
    ],
)
def test_joints_leave_the_freedom_of_their_group(joint, freedom):
    builder = SystemBuilder("one").body("box", BOX)
    assert builder.joint("j", joint, "world", "box").build().report().freedom == freedom


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda b: b.body("dust", SpatialInertia()), ModelError, "'dust' has mass 0 kg"),
        (lambda b: b.body("ghost", SpatialInertia(0.0)), ModelError, "mass 0 kg"),
        (lambda b: b.body("box", BOX), ModelError, "two bodies called 'box'"),
        (lambda b: b.body("x", BOX, configuration="SE2"), ModelError, "expected 'SE3', 'SO3xR3' or 'auto'"),
        (lambda b: b.joint("j", Free(), "world", "box"), ModelError, "leave the joint out"),
        (lambda b: b.joint("j", Spherical(), "world", "bix").build(), ModelError, "no such body"),
        (lambda b: b.joint("j", Spherical(), "box", "box"), ModelError, "between 'box' and itself"),
        (lambda b: b.joint("j", Joint("j", HINGE, armature=1.0), "world", "box"), ModelError, "armature"),
        (lambda b: b.joint("j", HINGE, "box", "world", driven=True), ModelError, "make the world the parent"),
        (lambda b: b.constraint("c", lambda T: bool(T[0, 3] > 0), ["box"]), GraphError, "cannot be traced"),
        (lambda b: b.constraint("c", lambda T: T[:2, 3] - [T[0, 3], 0], ["box"]), ModelError, "entry 0"),
        (lambda b: b.rod("r", "world", "box").build(), ModelError, "has no length"),
        (lambda b: b.rod("r", "world", "box", length=np.nan), ModelError, "length nan"),
        (lambda b: b.joint("j", HINGE, "world", "box", on_child=[np.nan, 0, 0]), lb.LiebodyError, "finite"),
        (lambda b: SystemBuilder("none").build(), ModelError, "has no bodies"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(act, error, message):
    with pytest.raises(error, match=message):
        act(SystemBuilder("bad").body("box", BOX))


def test_states_off_the_constraints_are_refused():
    system, v = pendulum("SE3")
    off = system.guess.copy()
    off[4] += 1e-3
    with pytest.raises(ConfigurationError, match=r"q0 violates constraint 'j2' .* by 0.001.*assemble"):
        lb.simulate(system, off, v, t_end=0.1, dt=1e-3)
    with pytest.raises(ConfigurationError, match=r"v0 breaks constraint 'j.*consistent_velocities"):
        lb.simulate(system, v0=np.ones(12), t_end=0.1, dt=1e-3)
    with pytest.raises(ConfigurationError, match="nan"):
        lb.simulate(system, v0=np.full(12, np.nan), t_end=0.1, dt=1e-3)
    with pytest.raises(IntegrationError, match="expected one of none, baumgarte"):
        lb.simulate(system, v0=v, t_end=0.1, dt=1e-3, stabilization="magic")
    with pytest.raises(IntegrationError, match="give dt"):
        lb.simulate(system, v0=v, t_end=0.1, method="rkmk45", stabilization="baumgarte")
    for wrong in ({"frequency": 0.0}, {"frequency": np.nan}, {"frequency": 1.0, "damping": -1.0}):
        with pytest.raises(IntegrationError, match="expected a positive finite number"):
            Stabilization("baumgarte", **wrong)
    with pytest.raises(IntegrationError, match="expected one of none, baumgarte"):
        Stabilization("projektion")
    adaptive = lb.simulate(
        system, v0=v, t_end=0.05, method="rkmk45", stabilization=Stabilization("index-2", rate=100.0)
    )
    assert adaptive.largest_violation < 1e-6 and adaptive.energy_drift < 1e-6


def test_velocities_that_contradict_each_other_are_refused():
    closed, q, _ = closed_four_bar()
    with pytest.raises(
        ConstraintError, match="no velocities keep the constraints of four-bar while 'A', 'B', 'D'"
    ):
        closed.consistent_velocities(q, RATES, hold=["A", "B", "D"])


def test_trees_that_absolute_coordinates_cannot_hold_are_refused():
    tree = TreeBuilder("geared").add("rotor", Joint("r", HINGE, armature=0.1), BOX).build()
    with pytest.raises(ModelError, match="armature"):
        AbsoluteTree(tree)
    with pytest.raises(ModelError, match="has no closures"):
        ClosedTree(tree, [])


def swinging():
    """A double pendulum in absolute coordinates, with its state."""
    system, _ = pendulum("SE3")
    return system, system.assemble(), np.zeros(system.nv)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, q, v: s.assemble([[1, 2], [3]]), "q cannot be read as an array of numbers"),
        (lambda s, q, v: s.consistent_velocities(q, v[:3]), r"v has shape \(3,\), expected \(12,\)"),
        (lambda s, q, v: s.consistent_velocities(np.stack([q, q]), v), r"q has shape \(2, 14\), expected"),
        (lambda s, q, v: s.consistent_velocities(q, v * np.nan), r"v\[0\] is nan, expected a finite number"),
        (lambda s, q, v: s.report(np.stack([q, q])), r"q has shape \(2, 14\), expected \(14,\)"),
        (lambda s, q, v: s.jacobian(np.stack([q, q])), r"q has shape \(2, 14\), expected \(14,\)"),
        (lambda s, q, v: s.velocities(np.stack([q, q]), {}), r"q has shape \(2, 14\), expected \(14,\)"),
        (lambda s, q, v: s.reaction_wrenches("knee", q, np.zeros(s.nc)), "no constraint 'knee'; known are"),
        (lambda s, q, v: Stabilization("baumgarte", frequency="fast"), "frequency cannot be read"),
    ],
)
def test_states_and_names_that_cannot_be_are_refused(call, words):
    with pytest.raises(lb.LiebodyError, match=words):
        call(*swinging())


def test_conditions_of_other_arguments_are_refused_and_one_frame_may_be_given_by_its_name():
    tree = TreeBuilder("slider").add("rider", Prismatic([0, 0, 1]), BOX).build()
    with pytest.raises(ArgumentError, match=r"'level' has to be a function of \(T_1\): too many"):
        ClosedTree(tree, [Condition("level", lambda: 0.0, ("rider",))])
    closed = ClosedTree(tree, [Condition("level", lambda T: T[2, 3] - 0.5, "rider")])
    np.testing.assert_allclose(closed.assemble(), [0.5], atol=1e-12)


def test_a_held_body_may_be_given_by_its_name():
    system, _, _ = swinging()
    name = system.bodies[0].name
    np.testing.assert_array_equal(system.assemble(hold=name), system.assemble(hold=[name]))


def test_projection_by_an_object_is_projection_by_name():
    assert Stabilization("projection") == Stabilization("projection", projected=True)
    assert not Stabilization("none").projected and Stabilization("none", projected=True).projected
