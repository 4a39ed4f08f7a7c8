"""Constrained systems against published numbers, independent references and the laws of mechanics."""

from __future__ import annotations

import numpy as np
import pytest
import xarray
from constrained_models import BOX, chain, floating, heavy_top, pendulum, three_bar
from random_trees import JOINTS, random_state, random_tree
from scipy.integrate import solve_ivp as scipy_solve_ivp

import liebody as lb
from liebody import dynamics, scalars
from liebody.bodies import SpatialInertia
from liebody.compiler import Program
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.groups import SE3, SO3, Cylindrical, Helical, Prismatic, Revolute, Spherical
from liebody.integrators.saddle_point import PROXIMAL
from liebody.mechanisms.constrained import AbsoluteTree, Stabilization, SystemBuilder

GROUPS = ("SE3", "SO3xR3")
ROUND_OFF = 1e-11

# Runge-Kutta-Munthe-Kaas of order 4, 1 ms, 1 s, no stabilisation, computed twice. Violations of position in m
# and of velocity in m/s of each joint, energy change over the kinetic energy at first, and that in J
GOLDEN = {
    (heavy_top, "SE3"): ([0], [0], 2.80e-8, 13972.398951),
    (heavy_top, "SO3xR3"): ([9.27e-7], [1.83e-6], 7.42e-8, 13972.398951),
    (pendulum, "SE3"): ([7.16e-6, 0], [1.40e-5, 0], 2.42e-6, 95.073882),
    (pendulum, "SO3xR3"): ([5.91e-6, 8.84e-7], [1.18e-5, 2.04e-6], 3.09e-6, 95.073882),
    (floating, "SE3"): ([2.11e-10], [3.52e-10], 4.74e-10, 0.990752),
    (floating, "SO3xR3"): ([2.34e-10], [3.23e-10], 4.61e-10, 0.990752),
    (three_bar, "SE3"): ([0, 2.29e-8, 0], [0, 4.97e-8, 0], 4.19e-7, 1.266504),
    (three_bar, "SO3xR3"): ([6.04e-9, 1.14e-8, 1.27e-8], [9.3e-9, 2.49e-8, 2.82e-8], 7.03e-7, 1.266504),
}


@pytest.mark.parametrize("example", [heavy_top, pendulum, floating, three_bar])
@pytest.mark.many
def test_drift_is_that_of_mueller_and_terze(example):
    """The attitudes on both groups are the same: after elimination omega' depends on neither r nor v."""
    runs = {}
    for group in GROUPS:
        system, v = example(group)
        runs[group] = run = lb.simulate(system, v0=v, t_end=1.0, dt=1e-3, stabilization="none")
        places, rates, energy, kinetic = GOLDEN[example, group]
        assert run.kinetic[0] == pytest.approx(kinetic, rel=1e-6)
        for found, expected in ((run.violations, places), (run.velocity_violations, rates)):
            for values, golden in zip(found.values(), expected, strict=True):
                if golden:
                    assert values.max() == pytest.approx(golden, rel=0.01)
                else:
                    assert values.max() < ROUND_OFF
        assert np.abs(run.energy_change).max() / run.kinetic[0] == pytest.approx(energy, rel=0.01)
    attitudes = [run.system.poses(run.q)[-1, :, :3, :3] for run in runs.values()]
    np.testing.assert_allclose(*attitudes, atol=1e-8)  # round-off, amplified where the motion is chaotic


@pytest.mark.parametrize("group", GROUPS)
def test_attitude_of_the_top_has_order_four_against_euler_equations(group):
    """Energy and constraints cannot tell a wrong dexp^-1 on SE(3) from a right one; attitudes can."""
    I = np.array([0.36, 0.306, 0.09]) + 21.6 * 0.25 * np.array([0, 1, 1])

    def rate(t, y):
        p, w = y[:4], y[4:]
        dp = 0.5 * np.array([-p[1:] @ w, *(p[0] * w + np.cross(p[1:], w))])
        return np.concatenate([dp, -np.cross(w, I * w) / I])

    system, v = heavy_top(group)
    start = [1, 0, 0, 0, *v[:3]]
    y = scipy_solve_ivp(rate, (0, 0.25), start, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    exact, steps = SO3.element(y[:4] / np.linalg.norm(y[:4])), np.array([5e-4, 2.5e-4, 1.25e-4])
    errors = []
    for h in steps:
        run = lb.simulate(system, v0=v, t_end=0.25, dt=h, stabilization="none", record_every=0.25)
        errors.append(np.linalg.norm(SO3.element(run.q[-1, :4]) - exact))
    slopes = np.diff(np.log(errors)) / np.diff(np.log(steps))
    assert np.all(slopes > 3.9) and slopes[-1] < 4.8, (slopes, errors)


@pytest.mark.parametrize("group", GROUPS)
def test_attitudes_of_the_double_pendulum_against_joint_coordinates(group):
    """The errors at 0.5 s, beside the articulated-body algorithm in fine steps of order six."""
    builder, box = lb.TreeBuilder("pendulum"), SpatialInertia(BOX.mass, [0.1, 0, 0], BOX.rotational)
    builder.add("one", Spherical(), box).add("two", Spherical(), box, "one", [0.2, 0, 0])
    robot, (system, v) = lb.Robot(builder.build()), pendulum(group)
    w1, w2 = np.array([10.0, 0, 0]), np.pi * np.array([10, 10, 20.0])
    fine = lb.simulate(robot, v0=[*w1, *(w2 - w1)], t_end=0.5, dt=2.5e-5, method="rkmk6", record_every=0.5)
    exact = robot.poses(fine.q[-1])[:, :3, :3]
    for h, error in ((1e-3, 5.23e-4), (5e-4, 2.99e-5)):
        run = lb.simulate(system, v0=v, t_end=0.5, dt=h, stabilization="none", record_every=0.5)
        found = np.abs(system.poses(run.q[-1])[:, :3, :3] - exact).max()
        assert found == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize("kind", [kind for kind in JOINTS if kind != "fixed"])
def test_accelerations_are_those_of_the_tree(kind):
    """Each joint between moving bodies and on the ground, on both groups, with damping and efforts."""
    rng = np.random.default_rng(sum(map(ord, kind)))
    for group in GROUPS:
        joints = ["free", "revolute"] if kind == "free" else [kind, kind, "spherical"]
        tree = random_tree(rng, joints, rotors=False)
        absolute = AbsoluteTree(tree, configuration=group)
        q, v, _ = random_state(rng, tree)
        tau = rng.normal(size=tree.nv)
        a = dynamics.forward_dynamics(tree, q, v, tau)
        Q, V = absolute.to_system(q, v)
        residual, _, rate = absolute.system.measure(Q, V)
        assert np.abs(residual).max(initial=0) < 1e-13 and np.abs(rate).max(initial=0) < 1e-13
        A = numeric_accelerations(absolute.system, Q, V, tau)
        for body, moving in zip(tree.bodies, absolute.system.bodies, strict=True):
            X = SE3.Ad(SE3.inverse(moving.offset))
            twist = X @ dynamics.frame_twist(tree, q, v, body.name)
            expected = X @ dynamics.frame_acceleration(tree, q, v, a, body.name)
            if group == "SO3xR3":
                R = dynamics.frame_pose(tree, q, body.name)[:3, :3]
                expected[3:] = R @ (expected[3:] + np.cross(twist[:3], twist[3:]))
            i = absolute.system.index(body.name)
            np.testing.assert_allclose(A[6 * i : 6 * i + 6], expected, rtol=1e-10, atol=1e-10)
        q_back, v_back = absolute.to_tree(Q, V)
        np.testing.assert_allclose(tree.group.difference(q, q_back), 0, atol=1e-13)
        np.testing.assert_allclose(v_back, v, atol=1e-13)


def numeric_accelerations(system, q, v, u):
    """dv/dt from the traced function, without compiling it."""
    return compile_numpy(system.function("accelerations"))(0.0, q, v, u)[0]


def test_reactions_are_the_joint_wrenches_of_inverse_dynamics():
    """What a joint transmits, by Newton and Euler for all behind it; efforts take their part of it."""
    rng = np.random.default_rng(8)
    tree = random_tree(rng, ["revolute", "cylindrical", "spherical", "prismatic"], rotors=False)
    absolute = AbsoluteTree(tree)
    q, v, _ = random_state(rng, tree)
    Q, V = absolute.to_system(q, v)
    for tau in (np.zeros(tree.nv), rng.normal(size=tree.nv)):
        a = dynamics.forward_dynamics(tree, q, v, tau)
        found, wrenches = absolute.system.reactions(Q, V, tau), dynamics.joint_wrenches(tree, q, v, a)
        for body, F in zip(tree.bodies, wrenches, strict=True):
            reaction = found[body.joint.name]
            np.testing.assert_allclose(body.joint.S.T @ reaction, 0, atol=1e-10)  # it does no work
            if tau.any():
                np.testing.assert_allclose(body.joint.S.T @ F, tau[body.dofs], atol=1e-10)
            else:
                np.testing.assert_allclose(reaction, F, atol=1e-10)


@pytest.mark.parametrize("stabilization", ["baumgarte", "projection", "index-2"])
def test_stabilisations_hold_the_constraints(stabilization):
    """The double pendulum for 5 s: drift 1e-4 m without; energy stays as good as it was."""
    for group in GROUPS:
        system, v = pendulum(group)
        run = lb.simulate(system, v0=v, t_end=5.0, dt=1e-3, stabilization=stabilization)
        bound = {"baumgarte": 5e-6, "index-2": 5e-6, "projection": 1e-14}[stabilization]
        assert run.largest_violation < bound
        if stabilization == "projection":
            assert np.abs(run.rate).max() < 1e-12
        assert np.abs(run.energy_change).max() / run.kinetic[0] < 3e-4


def test_projection_keeps_constraints_for_many_steps():
    system, v = pendulum("auto")
    run = lb.simulate(system, v0=v, t_end=100.0, dt=1e-3)
    assert run.largest_violation < 1e-12 and np.abs(run.rate).max() < 1e-11
    assert run.quaternion_error < 1e-14


def test_momentum_and_energy_of_a_free_pair_stay():
    system, v = floating("SO3xR3")
    run = lb.simulate(system, v0=v, t_end=2.0, dt=1e-3)
    momentum = run.v.reshape(len(run.t), 2, 6)[:, :, 3:].sum(axis=1)
    np.testing.assert_allclose(momentum, momentum[:1].repeat(len(run.t), 0), atol=1e-13)
    assert run.energy_drift < 1e-8


def test_auto_takes_SE3_for_bodies_on_the_ground_and_says_so():
    system, _ = pendulum("auto")
    assert [b.group.name for b in system.bodies] == ["SE3", "SO3xR3"]
    text = system.summary()
    assert "on the ground by 'j1'" in text and "its absolute motion is no motion subgroup" in text


@pytest.mark.parametrize(
    "joint", ["revolute", "helical", "cylindrical", "spherical", "planar", "planar-helical"]
)
def test_joints_on_the_ground_hold_to_round_off_on_SE3(joint):
    rng = np.random.default_rng(len(joint))
    absolute = AbsoluteTree(random_tree(rng, [joint], rotors=False), configuration="SE3", driven=False)
    q, v = absolute.to_system(*random_state(rng, absolute.tree)[:2])
    run = lb.simulate(absolute.system, q, v, t_end=0.5, dt=1e-2, stabilization="none", record_every=0.5)
    assert run.largest_violation < 1e-12 and np.abs(run.rate).max() < 1e-12


@pytest.mark.parametrize("joint", [Revolute([0, 0, 1]), Prismatic([0, 0, 1])], ids=["axis", "locked"])
@pytest.mark.parametrize("axis", [[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [0, 0, 1], [0.6, 0, 0.8]])
@pytest.mark.parametrize("angle", [np.pi, np.pi - 1e-3])
def test_joints_close_from_half_a_turn_away(joint, axis, angle):
    """There the angle between the joint's frames has no direction, or 2 tan(angle/2) no value."""
    R = 2 * np.outer(axis, axis) - np.eye(3) if angle == np.pi else SO3.exp(angle * np.array(axis, float))
    builder = SystemBuilder("flipped", (0, 0, 0)).body("box", BOX, pose=SE3.motion(R, np.zeros(3)))
    system = builder.joint("joint", joint, "world", "box").build()
    with np.errstate(all="raise", under="ignore"):
        g, _, _ = system.measure(system.guess)
        q = system.assemble()
    assert np.isfinite(g).all()
    z = np.array([0.0, 0, 1])
    np.testing.assert_allclose(system.poses(q)[0][:3, :3] @ z, z, atol=1e-10)


def test_chains_cost_in_proportion_to_their_length():
    """Operations of the straight line and of the program, per body, and passes that do not grow."""
    for sizes, large in (((3, 6, 9), False), ((50, 100, 200), True)):
        counts = []
        for n in sizes:
            system = chain(n)
            assert system.is_large == large
            system.__dict__["redundant"] = False
            function = system.function("accelerations")
            counts.append(sum(function.operations.values()))
            if large:
                assert len(function.passes) < 25
        growth = np.diff(counts) / np.diff(sizes)
        np.testing.assert_allclose(growth, growth[0], rtol=1e-12)


def everything() -> lb.System:
    """Constraints and forces of every kind, some of them redundant."""
    builder = SystemBuilder("everything")
    for name, place in (("a", [0.1, 0, 0]), ("b", [0.3, 0, 0]), ("c", [0.3, 0.1, 0]), ("d", [0, -1.0, 0.5])):
        builder.body(name, BOX, place, "SE3" if name in "ab" else "SO3xR3")
    builder.universal("cross", "world", "a", [0, 1, 0], [0, 0, 1], on_child=[-0.1, 0, 0])
    builder.joint("again", Spherical(), "world", "a", on_child=[-0.1, 0, 0], damping=0.1, driven=True)
    builder.rod("rod", "a", "b", on_a=[0.1, 0, 0], on_b=[0, 0.05, 0])
    builder.joint("screw", Helical([0, 1, 0], 0.1), "a", "b", on_parent=[0.2, 0, 0])
    builder.point_on_curve(
        "wire", lambda s: np.array([s, 0.5 * s * s, 0.1 * scalars.sin(3 * s)]), "c", start=0.3
    )
    builder.point_on_surface("bowl", lambda x: x @ x - 1.25, "d", [0, 0, 0.01])
    builder.spring("spring", "a", "c", [0.1, 0, 0], None, 10.0, 0.1, 0.3)
    builder.wrench("wind", lambda t, u, T, V: np.array([u[0], t, V[0], 0, 0, u[0]]), "d", efforts=1)
    return builder.build()


def test_programs_compute_what_straight_lines_do(monkeypatch):
    import liebody.mechanisms.constrained.system as module

    rng, system = np.random.default_rng(0), everything()
    q = system.assemble()
    v = system.consistent_velocities(q, rng.normal(size=system.nv))
    report = system.report(q)
    assert system.redundant and set(report.dependent) == {"cross", "again"} and report.redundancy == 3
    for name, arguments in (
        ("accelerations", (0.1, q, v, rng.normal(size=system.nu))),
        ("residuals", (0.0, q, v)),
        ("on_constraints", (0.0, q + 1e-6 * rng.normal(size=q.shape), v)),
    ):
        line = compile_numpy(system.function(name))(*arguments)
        monkeypatch.setattr(module, "LARGE", -1)
        program = system.function(name)
        assert isinstance(program, Program)
        monkeypatch.undo()
        for a, b in zip(line, compile_numpy(program)(*arguments), strict=True):
            # of redundant multipliers, round-off over PROXIMAL is left
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-16 / PROXIMAL * np.abs(a).max(initial=1.0))


def test_large_systems_know_their_redundancy():
    """A chain hung up twice: closed, measured and solved sparsely."""
    builder = SystemBuilder("garland")
    before = "world"
    for i in range(20):
        builder.body(f"b{i}", BOX, [0.1 + 0.2 * i, 0, 0.01 * i])  # apart from each other, to be closed
        at = [0.1, 0, 0] if i else None
        builder.joint(f"j{i}", Spherical(), before, f"b{i}", on_parent=at, on_child=[-0.1, 0, 0])
        before = f"b{i}"
    builder.joint("again", Spherical(), "world", "b0", on_child=[-0.1, 0, 0])
    system = builder.build()
    assert system.is_large and system.redundant
    report = system.report()
    assert report.redundancy == 3 and set(report.dependent) == {"j0", "again"} and not report.singular


@pytest.mark.parametrize("stabilization", ["none", "projection", "index-2"])
def test_stabilisations_keep_the_order_of_the_method(stabilization):
    system, v = pendulum("auto")
    given = Stabilization("index-2", rate=50.0) if stabilization == "index-2" else stabilization
    options = {"t_end": 0.1, "record_every": 0.1, "stabilization": given}
    exact = lb.simulate(system, v0=v, dt=2e-5, **options)
    errors = []
    for h in (1e-3, 5e-4):
        run = lb.simulate(system, v0=v, dt=h, **options)
        errors.append(np.linalg.norm(np.r_[run.q[-1] - exact.q[-1], 0.1 * (run.v[-1] - exact.v[-1])]))
    assert 3.8 < np.log2(errors[0] / errors[1]) < 4.4, errors


@pytest.mark.wide
def test_a_long_chain_simulates_as_its_members_in_an_ensemble():
    system = chain(18)
    v = np.zeros((3, system.nv))
    v[:, 1] = [0.0, 0.0, 0.0]
    together = lb.simulate(system, v0=v, t_end=0.05, dt=5e-3)
    alone = lb.simulate(system, t_end=0.05, dt=5e-3)
    np.testing.assert_allclose(together.q[1], alone.q, atol=1e-12)
    assert together.member(2).largest_violation < 1e-12 and alone.energy_drift < 1e-6


@pytest.mark.wide
def test_springs_dampers_wrenches_and_feedback():
    """A body on a spring oscillates with sqrt(k/m); a damper takes energy; a feedback is compiled in."""
    builder = SystemBuilder("swing", gravity=(0, 0, 0))
    builder.body("ball", SpatialInertia.sphere(2.0, 0.1), [1.5, 0, 0])
    builder.spring("spring", "world", "ball", stiffness=8.0, length=1.0)
    system = builder.build()
    run = lb.simulate(system, t_end=np.pi, dt=np.pi / 500)  # one period: omega = 2 rad/s
    x = run.q[:, 4]
    np.testing.assert_allclose(x, 1 + 0.5 * np.cos(2 * run.t), atol=1e-9)
    assert run.energy_drift < 1e-10 and run.potential[0] == pytest.approx(1.0)

    for joint, period in (
        (Revolute([0, 0, 1]), 2 * np.pi * np.sqrt(0.02 / 8)),
        (Prismatic([1, 2, 2]), np.pi),
    ):
        hung = SystemBuilder("spring in a joint", gravity=(0, 0, 0))
        start = joint.pose(np.array([0.3])).astype(float)
        hung.body("ball", SpatialInertia(2.0, rotational=0.02 * np.ones(3)), start)
        hung.joint("hinge", joint, "world", "ball").joint_spring("coil", "hinge", 8.0, rest=0.1)
        run = lb.simulate(hung.build(), t_end=period, dt=period / 500)
        np.testing.assert_allclose(run.q[-1], run.q[0], atol=1e-8)
        assert run.potential[0] == pytest.approx(0.16) and run.energy_drift < 1e-9

    builder.spring("damper", "world", "ball", damping=1.0)
    damped = lb.simulate(builder.build(), t_end=3.0, dt=1e-2)
    assert damped.energy[-1] < 0.25 * damped.energy[0]

    builder = SystemBuilder("driven", gravity=(0, 0, 0))
    builder.body("wheel", SpatialInertia.sphere(1.0, 1.0))  # 0.4 kg m2
    builder.joint("axle", Revolute([0, 0, 1]), "world", "wheel", driven=True)
    builder.wrench("wind", lambda t, T, V: np.array([0, 0, 0.4 * t, 0, 0, 0]), "wheel")
    wheel = builder.build()
    constant = lb.simulate(wheel, tau=[0.8], t_end=1.0, dt=1e-2)
    assert constant.v[-1, 2] == pytest.approx(2 + 0.5, abs=1e-12)
    feedback = lb.simulate(wheel, tau=lambda t, q, v: np.array([0.8 - 0.4 * t]), t_end=1.0, dt=1e-2)
    assert feedback.metadata["efforts"] == "compiled"
    np.testing.assert_allclose(feedback.tau, 0.8 - 0.4 * feedback.t[:, None], atol=1e-15)
    assert feedback.to_xarray().tau.sel(drive="axle").shape == (101,)
    assert feedback.v[-1, 2] == pytest.approx(2.0, abs=1e-12)


def test_velocities_of_the_guess_are_refused_with_the_place_where_simulations_start():
    """Two balls on a chain of three rods, whose lengths and directions are others in the guess."""
    builder = SystemBuilder("swing")
    for name, x in (("a", 0.5), ("b", 1.5)):
        builder.body(name, SpatialInertia.sphere(1.0, 0.1), [x, -0.8, 0.1])
    builder.rod("left", "world", "a", length=1.0).rod("middle", "a", "b", length=1.2)
    builder.rod("right", "world", "b", [2.0, 0.0, 0.0], length=0.7)
    system = builder.build()
    at_guess = system.consistent_velocities(system.guess, np.arange(1.0, 13.0))
    with pytest.raises(lb.LiebodyError, match=r"v0 breaks.*system\.assemble\(\).*give that as q0"):
        lb.simulate(system, v0=at_guess, t_end=0.1, dt=1e-2)
    start = system.assemble()
    v0 = system.consistent_velocities(start, at_guess)
    run, same = (lb.simulate(system, q0, v0, t_end=0.1, dt=1e-2) for q0 in (None, start))
    np.testing.assert_array_equal(run.q, same.q)
    with pytest.raises(lb.LiebodyError, match=r"v0 breaks") as error:
        lb.simulate(system, start, at_guess, t_end=0.1, dt=1e-2)
    assert "assemble" not in str(error.value)


def test_the_largest_violation_is_the_largest_of_the_violations():
    """Norms of the equations of a constraint, whatever the axes they are written in."""
    system, v = three_bar("SE3")
    run = lb.simulate(system, v0=v, t_end=0.1, dt=1e-2, stabilization="none")
    norms = {name: np.linalg.norm(run.residual[:, rows], axis=1) for name, rows in run.constraints.items()}
    for name, norm in norms.items():
        np.testing.assert_allclose(run.violations[name], norm)
    assert run.largest_violation == max(norm.max() for norm in norms.values())
    assert run.largest_violation > 1.01 * np.abs(run.residual).max(), "of more than one equation"


def test_a_run_is_saved_with_its_constraints(tmp_path):
    system, v = heavy_top("SE3")
    run = lb.simulate(system, v0=v, t_end=0.01, dt=1e-3)
    run.save(tmp_path / "top.nc")
    loaded = type(run).load(tmp_path / "top.nc")
    np.testing.assert_array_equal(loaded.multipliers, run.multipliers)
    assert loaded.violations.keys() == {"pivot"} and "constraints within pivot" in loaded.summary()
    assert loaded.tau is None
    with xarray.open_dataset(tmp_path / "top.nc") as file:
        xarray.testing.assert_identical(file.load(), run.to_xarray())
    w, arm = run.v[0, :3], [0.5, 0, 0]
    acceleration = np.cross(w, np.cross(w, arm)) + np.cross(euler(w), arm)
    np.testing.assert_allclose(run.reactions("pivot")[0, 3:] / 21.6, acceleration, atol=1e-8)


@pytest.mark.parametrize(
    "joint", [Revolute([0, 0, 1]), Prismatic([1, 2, 2]), Cylindrical([0, 1, 0])], ids=repr
)
@pytest.mark.many
def test_a_run_is_saved_with_its_efforts_by_name(tmp_path, joint):
    builder = SystemBuilder("driven").body("wheel", SpatialInertia.sphere(1.0, 1.0))
    builder.joint("axle", joint, "world", "wheel", driven=True)
    u = np.arange(1.0, joint.dim + 1)
    run = lb.simulate(builder.build(), tau=u, t_end=0.02, dt=1e-2)
    run.save(tmp_path / "run.nc")
    for twin in (run, type(run).load(tmp_path / "run.nc"), run.member()):
        np.testing.assert_array_equal(twin.tau, np.tile(u, (3, 1)))
        assert twin.drives.names == (("axle",) if joint.dim == 1 else ("axle.0", "axle.1"))
        assert twin.drives.units == tuple("N m" if S[:3].any() else "N" for S in joint.S.T)


def euler(w):
    I = np.array([0.36, 0.306, 0.09]) + 21.6 * 0.25 * np.array([0, 1, 1])
    return -np.cross(w, I * w) / I
