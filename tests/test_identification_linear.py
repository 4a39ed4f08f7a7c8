"""Linear identification: exact efforts give exact base parameters, noisy ones the deviations they promise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.groups import SE3, SO3, Free, Revolute
from liebody.identification import Recording, base_parameters, coordinates_of, fit, linear, payload
from liebody.identification.consistency import UNITS
from liebody.identification.inertias import moments_of

LOAD = lb.SpatialInertia(2.0, [0.02, -0.03, 0.1], [0.02, 0.03, 0.025])
INERTIAL = ("mass", "center", "inertia")


def hinge(name, builder, parent, placement, inertia):
    return builder.add(name, Revolute([0, 0, 1]), inertia, parent, placement)


def planar_arm(*lengths):
    """An arm of hinges about z, in a vertical plane; each link lies along the x axis of its frame."""
    builder, parent, at = lb.TreeBuilder("planar"), "world", 0.0
    for k, length in enumerate(lengths, start=1):
        placement = SE3.motion(np.eye(3), [at, 0, 0])
        hinge(
            f"link{k}", builder, parent, placement, lb.SpatialInertia.rod(1.0, length, 0, [length / 2, 0, 0])
        )
        parent, at = f"link{k}", length
    return lb.Robot(builder.build(), (0, -9.81, 0))


ANGLES = np.deg2rad([0, -90, 0, -90, 90, -90])
ACROSS = [0, 0, 0.4318, 0.0203, 0, 0]
ALONG = [0, 0, 0.15005, 0.4318, 0, 0]


def puma_by_denavit_hartenberg():
    """The geometry of the PUMA 560 in modified Denavit-Hartenberg parameters; any inertias."""
    builder, parent = lb.TreeBuilder("puma"), "world"
    rng = np.random.default_rng(3)
    for k, (angle, d, r) in enumerate(zip(ANGLES, ACROSS, ALONG, strict=True), start=1):
        R = SO3.exp(np.array([angle, 0, 0]))
        body = lb.SpatialInertia.box(1.0 + k, rng.uniform(0.1, 0.4, 3), rng.normal(size=3) / 10)
        hinge(f"link{k}", builder, parent, SE3.motion(R, np.array([d, 0, 0]) + R @ [0, 0, r]), body)
        parent = f"link{k}"
    return lb.Robot(builder.build())


def regrouped():
    """K of Gautier and Khalil (1990), for the arm above: relations from the last link to the first."""
    m, hx, hy, hz, xx, xy, xz, yy, yz, zz = range(10)
    G = np.eye(60)
    for j in range(5, 0, -1):
        S, C, d, r = np.sin(ANGLES[j]), np.cos(ANGLES[j]), ACROSS[j], ALONG[j]
        M, MZ, YY = G[10 * j + m].copy(), G[10 * j + hz].copy(), G[10 * j + yy].copy()
        i = 10 * (j - 1)
        G[10 * j + xx] -= YY
        G[i + xx] += YY + 2 * r * MZ + r * r * M
        G[i + xy] += d * S * MZ + d * r * S * M
        G[i + xz] += -d * C * MZ - d * r * C * M
        G[i + yy] += C * C * YY + 2 * r * C * C * MZ + (d * d + r * r * C * C) * M
        G[i + yz] += C * S * YY + 2 * r * C * S * MZ + r * r * C * S * M
        G[i + zz] += S * S * YY + 2 * r * S * S * MZ + (d * d + r * r * S * S) * M
        G[i + hx] += d * M
        G[i + hy] += -S * MZ - r * S * M
        G[i + hz] += C * MZ + r * C * M
        G[i + m] += M
    rule = (hx, hy, xx, xy, xz, yz, zz)
    columns = [zz, *(10 * j + k for j in range(1, 6) for k in rule)]
    return columns, G[columns]


# -- base parameters ----------------------------------------------------------------------------------------


def test_base_parameters_of_a_planar_arm_have_the_names_of_the_textbook():
    base = base_parameters(planar_arm(0.5, 0.4, 0.3))
    assert list(base.names) == [
        "link1.h_x + 0.5 link2.m + 0.5 link3.m",
        "link1.h_y",
        "link1.I_zz + 0.5^2 link2.m + 0.5^2 link3.m",
        "link2.h_x + 0.4 link3.m",
        "link2.h_y",
        "link2.I_zz + 0.4^2 link3.m",
        "link3.h_x",
        "link3.h_y",
        "link3.I_zz",
    ]
    assert str(base).count("\n") == 8


def test_base_parameters_of_the_puma_are_the_regrouping_relations():
    base = base_parameters(puma_by_denavit_hartenberg())
    columns, K = regrouped()
    assert base.columns.tolist() == columns and len(columns) == 36
    np.testing.assert_allclose(base.K, K, rtol=1e-12, atol=1e-12)
    assert "link6.I_xx - link6.I_yy" in base.names
    assert (base.singular_values[:36] > 1e-4).all() and (base.singular_values[36:] < 1e-11).all()


def test_base_parameters_of_the_puma_name_polynomials_of_its_lengths():
    base = base_parameters(lb.models.puma560())
    row = next(name for name in base.names if name.startswith("link3.I_zz"))
    assert row == (
        "link3.I_zz + 0.0203^2 link4.m + link4.I_yy + (0.4318^2 + 0.0203^2) link5.m "
        "+ (0.4318^2 + 0.0203^2) link6.m"
    )
    np.testing.assert_allclose(
        base.K, lb.models.puma560().base_parameters().K, rtol=1e-6, atol=1e-7
    )  # those found by joints


def test_polynomials_of_lengths_are_identities_and_no_coincidences():
    """0.4^2 + 0.25^2 + 0.3^2 - 0.1^2 = (0.25 + 0.3)^2 = (0.4 + 0.15)^2, and 0.4^2 + 0.3^2 = (2*0.25)^2."""
    rows = base_parameters(lb.models.space_robot()).names
    terms = {name.split(" ")[0]: name for name in rows}
    assert "+ (0.4 + 0.15)^2 link2.m +" in terms["bus.I_xx"]
    assert terms["bus.h_z"].endswith("+ (0.4 + 0.15) link7.m")
    assert terms["link2.I_yy"].endswith("+ (0.25 + 0.3)^2 link7.m")
    assert terms["link4.I_yy"].endswith("+ (2*0.25)^2 link7.m")


def test_losses_are_base_parameters_of_their_own_but_for_the_first_armature():
    base = base_parameters(planar_arm(0.5, 0.4), losses=["damping", "friction", "armature", "offset"])
    assert base.names[2] == "link1.I_zz + 0.5^2 link2.m + link1.armature"
    assert base.names[6:] == tuple(
        f"link{i}.{x}"
        for x in ("damping", "friction", "armature", "offset")
        for i in (1, 2)
        if (x, i) != ("armature", 1)
    )


def test_of_a_known_robot_only_free_bodies_have_base_parameters():
    assert (
        len(base_parameters(planar_arm(0.5, 0.4), "link2").names) == 4
    )  # h_x, h_y, I_zz, and the mass by link 1
    assert len(base_parameters(floating()).names) == 17


# -- exact efforts ------------------------------------------------------------------------------------------


def floating():
    """A box that floats, with an arm of one hinge."""
    builder = lb.TreeBuilder("floating")
    builder.add("trunk", Free(), lb.SpatialInertia.box(5.0, [0.4, 0.3, 0.2], [0.02, 0.01, 0]))
    placement = SE3.motion(SO3.exp(np.array([0.4, -0.2, 0.3])), [0.2, 0.1, -0.05])
    hinge("leg", builder, "trunk", placement, lb.SpatialInertia.box(1.0, [0.1, 0.1, 0.4], [0, 0.02, -0.2]))
    return lb.Robot(builder.build()).with_frame("foot", "leg", SE3.motion(np.eye(3), [0, 0, -0.4]))


def motion(robot, samples, seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    v, a = size * rng.normal(size=(2, samples, robot.nv))
    return robot.random(rng, samples), v, a


@pytest.fixture(scope="module")
def arm():
    return lb.models.puma560()


def test_exact_efforts_give_exact_base_parameters_and_losses(arm):
    true = arm.with_payload("link6", LOAD)
    q, v, a = motion(arm, 60)
    tau = true.inverse_dynamics(q, v, a) + 0.3 * v + 0.5 * np.tanh(v / 0.01) + 0.1
    found = linear(arm, q, v, a, tau, losses=["damping", "friction", "offset"], noise=0.1)
    for kind, value in (("damping", 0.3), ("friction", 0.5), ("offset", 0.1)):
        estimates = [found.values[f"joint{k}.{kind}"] for k in range(1, 7)]
        np.testing.assert_allclose(estimates, value, rtol=1e-9)
    links = [f"link{k}" for k in range(2, 7)]  # link 1 has no mass in this model
    base = base_parameters(arm, links)
    expected = base.K @ true.inertial_parameters[10:]
    np.testing.assert_allclose(base.K @ found.coordinates[:50], expected, rtol=1e-8, atol=1e-9)
    values = {x.name: x.value for x in found.combinations}
    np.testing.assert_allclose([values[name] for name in base.names], expected, rtol=1e-8, atol=1e-9)
    assert all(np.isfinite(x.deviation) for x in found.combinations)
    # the robot that comes back moves as the true one, and its bodies exist
    other = motion(arm, 20, seed=1)
    np.testing.assert_allclose(found.robot.inverse_dynamics(*other), true.inverse_dynamics(*other), atol=1e-8)
    assert not found.bounded
    for name in {entry.partition(".")[0] for entry in found.entries if "link" in entry}:
        coordinates_of(*(found.values[f"{name}.{kind}"] for kind in INERTIAL))  # raises for others


def test_a_floating_base_is_identified_by_its_rows_and_contacts():
    """The efforts of a walking machine: zero at the trunk, with known forces at its foot."""
    true, robot = floating(), floating()
    rng = np.random.default_rng(4)
    q, v, a = motion(robot, 40)
    forces = 30 * rng.normal(size=(40, 3))
    J = robot.jacobian(q, "foot", "mixed")[:, 3:]
    # accelerations such that the trunk's rows are zero: the trunk falls as the foot's force says
    tau = np.zeros((40, 7))
    tau[:, 6] = rng.normal(size=40)
    a = true.forward_dynamics(q, v, tau + np.einsum("nij,ni->nj", J, forces))
    other = robot.with_payload("trunk", 2.0, [0.1, 0, 0.05]).with_payload("foot", 0.3)
    found = linear(other, q, v, a, tau, noise=0.1, contacts={"foot": forces})
    base = base_parameters(robot)
    np.testing.assert_allclose(base.K @ found.coordinates, base.K @ true.inertial_parameters, atol=1e-9)
    # the rows of the trunk alone show all of it, too
    tau[:, 6] = np.nan
    wrenches = {"foot": np.concatenate([np.zeros((40, 3)), forces], axis=1)}
    found = linear(other, q, v, a, tau, noise=0.1, contacts=wrenches)
    np.testing.assert_allclose(base.K @ found.coordinates, base.K @ true.inertial_parameters, atol=1e-9)


def quadruped(load=0.0):
    """A trunk on four legs of two links, with feet; it carries a load on its back."""
    builder = lb.TreeBuilder("quadruped")
    builder.add("trunk", Free(), lb.SpatialInertia.box(10.0, [0.6, 0.3, 0.15]))
    link = lb.SpatialInertia.box(0.6, [0.04, 0.04, 0.3], [0, 0, -0.15])
    for name, x, y in (("lf", 0.3, 0.15), ("rf", 0.3, -0.15), ("lh", -0.3, 0.15), ("rh", -0.3, -0.15)):
        builder.add(f"{name}_thigh", Revolute([0, 1, 0]), link, "trunk", [x, y, 0])
        builder.add(f"{name}_shank", Revolute([0, 1, 0]), link, f"{name}_thigh", [0, 0, -0.3])
    robot = lb.Robot(builder.build())
    for name in ("lf", "rf", "lh", "rh"):
        robot = robot.with_frame(f"{name}_foot", f"{name}_shank", SE3.motion(np.eye(3), [0, 0, -0.3]))
    return robot.with_payload("trunk", load, [0.1, 0.0, 0.12], np.full(3, 0.02)) if load else robot


def test_the_trunk_of_a_quadruped_is_weighed_by_its_feet():
    """Diagonal pairs of feet push in turn, as in a trot, and are sensed with noise; no motor is measured."""
    true, believed = quadruped(3.0), quadruped()
    count, sigma = 400, 2.0  # N
    rng = np.random.default_rng(11)
    t = np.linspace(0, 4, count)
    rates = rng.uniform(1, 8, (2, true.nv))
    v = np.sin(np.multiply.outer(t, rates[0])) * np.r_[np.full(6, 0.5), np.full(8, 2.0)]
    u = 0.15 * np.sin(np.multiply.outer(t, rates[1]))
    q = true.integrate(true.neutral(), u)
    pairs = {"lf_foot": 0, "rh_foot": 0, "rf_foot": 1, "lh_foot": 1}
    stance = np.sin(2 * np.pi * 2 * t) > 0
    forces = {
        foot: np.where((stance == (pair == 0))[:, None], 80 * np.abs(rng.normal(size=(count, 3))), 0.0)
        for foot, pair in pairs.items()
    }
    pushed = sum(
        np.einsum("nij,ni->nj", true.jacobian(q, foot, "mixed")[:, 3:], f) for foot, f in forces.items()
    )
    tau = np.zeros((count, true.nv))
    tau[:, 6:] = 5 * rng.normal(size=(count, 8))
    a = true.forward_dynamics(q, v, tau + pushed)
    sensed = {foot: f + sigma * rng.normal(size=f.shape) * (f != 0) for foot, f in forces.items()}
    tau[:, 6:] = np.nan  # nobody measures the motors
    found = linear(believed, q, v, a, tau, "trunk", contacts=sensed)
    mass, deviation = found.values["trunk.mass"], found.deviations["trunk.mass"]
    assert abs(mass - 13.0) < 4 * deviation and deviation < 0.1
    assert np.abs(found.values["trunk.center"] - np.array([0.3, 0, 0.36]) / 13).max() < 0.005


def test_a_body_in_the_air_is_known_entirely():
    stone = lb.Robot(lb.TreeBuilder("stone").add("stone", Free(), LOAD).build())
    believed = lb.Robot(
        lb.TreeBuilder("stone").add("stone", Free(), lb.SpatialInertia.sphere(1, 0.2)).build()
    )
    q, v, a = motion(stone, 20)
    found = linear(believed, q, v, a, stone.inverse_dynamics(q, v, a), noise=0.01)
    assert abs(found.values["stone.mass"] - 2) < 1e-11
    np.testing.assert_allclose(found.values["stone.center"], LOAD.com, atol=1e-11)
    np.testing.assert_allclose(found.values["stone.inertia"], [0.02, 0, 0, 0.03, 0, 0.025], atol=1e-11)
    assert np.isfinite(found.deviations["stone.inertia"]).all() and not found.unseen


def test_what_samples_do_not_show_stays_at_the_robots_own_bodies():
    robot = planar_arm(0.5, 0.4)
    q, v, a = motion(robot, 30)
    found = linear(robot, q, v, a, robot.inverse_dynamics(q, v, a), noise=0.1)
    np.testing.assert_allclose(found.values["link1.center"], [0.25, 0, 0], atol=0.01)
    assert found.deviations["link1.mass"] == np.inf
    assert np.isinf(found.deviations["link1.center"]).tolist() == [True, False, True]  # h_y = 0 is seen
    assert len([x for x in found.combinations if np.isfinite(x.deviation)]) == 6


# -- noise --------------------------------------------------------------------------------------------------


def test_deviations_are_those_of_many_estimates(arm):
    q, v, a = motion(arm, 80)
    exact = arm.inverse_dynamics(q, v, a) + 0.3 * v
    sigma = np.array([2, 1, 1, 0.1, 0.1, 0.1])
    K = base_parameters(arm, ["link5", "link6"], losses="damping").K
    rng = np.random.default_rng(5)
    estimates, count = [], 120
    for _ in range(count):
        tau = exact + sigma * rng.normal(size=exact.shape)
        found = linear(arm, q, v, a, tau, ["link5", "link6"], losses="damping", noise=sigma, consistent=False)
        estimates.append(K @ found.coordinates)
    ratios = np.std(estimates, axis=0, ddof=1) / found.deviations_of(K)
    # standard deviations of 120 normal numbers scatter by 1 / sqrt(240) of them
    assert (np.abs(ratios - 1) < 5 / np.sqrt(240)).all()
    own = np.array(arm.inertial_parameters[40:].tolist() + [0.3] * 6)
    errors = (np.mean(estimates, axis=0) - K @ own) / found.deviations_of(K)
    assert (np.abs(errors) < 5 / np.sqrt(count)).all()


def test_noise_is_found_from_the_residuals(arm):
    q, v, a = motion(arm, 400)
    sigma = np.array([2, 1, 1, 0.1, 0.05, 0.1])
    tau = arm.inverse_dynamics(q, v, a) + sigma * np.random.default_rng(6).normal(size=q.shape)
    found = linear(arm, q, v, a, tau, ["link4", "link5", "link6"])
    np.testing.assert_allclose(found.noise, sigma, rtol=0.2)  # 400 samples: 3.5 %, and what is eliminated
    given = linear(arm, q, v, a, tau, ["link4", "link5", "link6"], noise=sigma)
    assert 0.8 < given.chi_squared < 1.2


def test_the_nearest_bodies_that_exist_have_the_least_cost():
    """By duality: with a matrix Z >= 0 of multipliers the cost is at most <Z, P> above the least one."""
    stone = lb.Robot(lb.TreeBuilder("stone").add("stone", Free(), LOAD).build())
    q, v, a = motion(stone, 5)
    tau = stone.inverse_dynamics(q, v, a) + 2.0 * np.random.default_rng(0).normal(size=v.shape)
    plain = linear(stone, q, v, a, tau, noise=2.0, consistent=False)
    with pytest.raises(ModelError, match="cannot be"):
        coordinates_of(*(plain.values[f"stone.{kind}"] for kind in INERTIAL))
    found = linear(stone, q, v, a, tau, noise=2.0)
    assert found.bounded and "boundary" in str(found)
    P = moments_of(coordinates_of(*(found.values[f"stone.{kind}"] for kind in INERTIAL)))[0]
    Y = stone.inverse_dynamics_regressor(q, v, a).reshape(-1, 10)
    gradient = Y.T @ (Y @ found.coordinates - tau.ravel()) / 4.0
    # <Z, dP/dx_k> = gradient_k are ten equations of the ten entries of Z
    upper = np.triu_indices(4)
    weights = np.where(upper[0] == upper[1], 1.0, 2.0)
    Z = np.zeros((4, 4))
    Z[upper] = np.linalg.solve(np.array([E[upper] * weights for E in UNITS]), gradient)
    Z = Z + np.triu(Z, 1).T
    assert np.linalg.eigvalsh(Z)[0] > -1e-5 and 0 < np.sum(Z * P) < 1e-5


def test_efforts_that_are_missing_are_left_out(arm):
    q, v, a = motion(arm, 60)
    tau = arm.inverse_dynamics(q, v, a) + np.random.default_rng(7).normal(size=q.shape)
    holes = tau.copy()
    holes[50:] = np.nan
    whole = linear(arm, q[:50], v[:50], a[:50], tau[:50], "link6", noise=1.0)
    some = linear(arm, q, v, a, holes, "link6", noise=1.0)
    np.testing.assert_allclose(some.coordinates, whole.coordinates, rtol=1e-9)
    assert [x.count for x in some.channels] == [50] * 6


def test_a_wrong_joint_is_seen_by_name(arm):
    """Dry friction of one joint that the model lacks colours the residuals of that joint alone."""
    t = np.linspace(0, 6, 301)[:, None]
    w, phase = np.array([2, 3, 4, 5, 6, 7.0]), np.arange(6.0)
    q, v, a = np.sin(w * t + phase), w * np.cos(w * t + phase), -(w**2) * np.sin(w * t + phase)
    tau = arm.inverse_dynamics(q, v, a) + 0.05 * np.random.default_rng(18).normal(size=q.shape)
    tau[:, 5] += 0.3 * np.tanh(v[:, 5] / 0.05)
    found = linear(arm, q, v, a, tau, "link3", noise=0.05)
    assert [x.name for x in found.channels if not x.is_white] == ["samples: tau[5]"]
    assert "residuals of samples: tau[5] are no noise" in str(found)


def test_linear_estimates_are_a_start_of_a_fit():
    robot = planar_arm(0.5, 0.4)
    true = robot.with_payload("link2", 0.5, [0.3, 0.05, 0], np.array([0.001, 0.002, 0.003]))
    t = np.linspace(0, 1, 41)
    run = lb.simulate(true, [0.3, 0.2], t_end=1.0, dt=0.01, t_eval=t)
    a = true.forward_dynamics(run.q, run.v, np.zeros_like(run.v))
    start = linear(robot, run.q, run.v, a, np.zeros_like(a), ["link2"], noise=1e-3)
    recording = Recording(t, {"q": run.q}, {"q": 1e-3}, q0=run.q[0])
    found = fit(robot, recording, "link2", dt=0.01, start=start.values)
    assert found.iterations <= 4 and found.chi_squared < 1e-6


# -- payloads -----------------------------------------------------------------------------------------------


def test_a_payload_is_found_exactly_at_a_frame_that_is_turned(arm):
    placement = SE3.motion(SO3.exp(np.array([0.3, -0.5, 1.0])), [0.01, 0.02, 0.06])
    tool = arm.with_frame("gripper", "link6", placement)
    true = tool.with_payload("gripper", LOAD)
    q, v, a = motion(arm, 30)
    tau = true.inverse_dynamics(q, v, a)
    found = payload(tool, "gripper", q, v, a, tau, noise=0.1)
    assert abs(found.mass - 2) < 1e-10
    np.testing.assert_allclose(found.center, LOAD.com, atol=1e-10)
    np.testing.assert_allclose(found.inertia, np.diag([0.02, 0.03, 0.025]), atol=1e-10)
    np.testing.assert_allclose(found.robot.inverse_dynamics(q, v, a), tau, atol=1e-9)
    assert not found.bounded and not found.unseen
    with_friction = payload(tool, "gripper", q, v, a, tau + 0.2 * v, losses="damping", noise=0.1)
    assert abs(with_friction.mass - 2) < 1e-10
    assert (
        with_friction.deviations["mass"] > found.deviations["mass"]
    )  # friction takes some of the information


def test_deviations_of_a_payload_are_those_of_many(arm):
    true = arm.with_payload("link6", LOAD)
    q, v, a = motion(arm, 60)
    exact = true.inverse_dynamics(q, v, a) + 0.2 * v
    rng = np.random.default_rng(9)
    found = [
        payload(
            arm, "link6", q, v, a, exact + 0.02 * rng.normal(size=exact.shape), noise=0.02, losses="damping"
        )
        for _ in range(200)
    ]
    flat = np.array([[x.mass, *x.center, *x.values["inertia"]] for x in found])
    deviations = np.concatenate([np.ravel(found[0].deviations[x]) for x in INERTIAL])
    assert (np.abs(flat.std(axis=0, ddof=1) / deviations - 1) < 5 / np.sqrt(400)).all()


def test_an_empty_hand_is_next_to_no_payload(arm):
    q, v, a = motion(arm, 40)
    tau = arm.inverse_dynamics(q, v, a) + 0.1 * np.random.default_rng(12).normal(size=q.shape)
    found = payload(arm, "link6", q, v, a, tau, noise=0.1)
    assert 0 < found.mass < 4 * found.deviations["mass"]
    assert found.bounded and "at the boundary" in str(found)
    assert 0.7 < found.chi_squared < 1.3


def test_results_are_pickled(arm):
    q, v, a = motion(arm, 30)
    tau = arm.inverse_dynamics(q, v, a)
    for found in (linear(arm, q, v, a, tau, "link6"), payload(arm, "link6", q, v, a, tau)):
        assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_at_rest_a_payload_shows_no_inertia(arm):
    q = arm.random(0, 20)
    rest = np.zeros((20, 6))
    true = arm.with_payload("link6", LOAD)
    found = payload(arm, "link6", q, rest, rest, true.inverse_dynamics(q, rest, rest), noise=0.1)
    assert abs(found.mass - 2) < 1e-9 and np.isfinite(found.deviations["mass"])
    assert np.isinf(found.deviations["inertia"]).all()


# -- errors -------------------------------------------------------------------------------------------------


def test_what_does_not_fit_together_is_refused(arm):
    q, v, a = motion(arm, 5)
    tau = np.zeros((5, 6))
    with pytest.raises(ModelError, match="no body 'link7'"):
        linear(arm, q, v, a, tau, "link7")
    with pytest.raises(ModelError, match="kind 'drag'"):
        linear(arm, q, v, a, tau, losses="drag")
    with pytest.raises(ModelError, match="nothing is free"):
        linear(arm, q, v, a, tau, [])
    with pytest.raises(ShapeError, match=r"tau has shape \(5, 5\), expected \(samples, 6\)"):
        linear(arm, q, v, a, tau[:, :5])
    with pytest.raises(ShapeError, match="as many samples as q"):
        linear(arm, q, v[:4], a, tau)
    with pytest.raises(ShapeError, match="noise has shape"):
        linear(arm, q, v, a, tau, noise=np.ones(5))
    with pytest.raises(ModelError, match="positive standard deviations"):
        linear(arm, q, v, a, tau, noise=0.0)
    with pytest.raises(ModelError, match="all of tau is NaN"):
        linear(arm, q, v, a, np.full((5, 6), np.nan))
    with pytest.raises(ShapeError, match="moments and forces"):
        linear(arm, q, v, a, tau, contacts={"link6": np.zeros((5, 2))})
    with pytest.raises(ModelError, match="no moving frame 'gripper'"):
        payload(arm, "gripper", q, v, a, tau)


# -- batches, and noise of contacts -------------------------------------------------------------------------


def test_a_batch_is_its_members_one_by_one(arm):
    """Recordings of one motion, with efforts that are not measured in some of them."""
    q, v, a = motion(arm, 60)
    rng = np.random.default_rng(8)
    tau = arm.inverse_dynamics(q, v, a) + 0.3 * v + 0.5 * rng.normal(size=(2, 3, *v.shape))
    tau[0, 1, ::7, 2] = np.nan
    options = {"losses": "damping", "noise": 0.5}
    found = linear(arm, q, v, a, tau, ["link5", "link6"], **options)
    assert len(found) == 6 and found.shape == (2, 3)
    assert found.coordinates.shape == (2, 3, 26) and found.values["link6.center"].shape == (2, 3, 3)
    K = base_parameters(arm, ["link5", "link6"], losses="damping").K
    for index, member in zip(np.ndindex(2, 3), found, strict=True):
        one = linear(arm, q, v, a, tau[index], ["link5", "link6"], **options)
        np.testing.assert_allclose(member.coordinates, one.coordinates, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.deviations_of(K)[index], one.deviations_of(K), rtol=1e-9)
        np.testing.assert_allclose(
            found.deviations["joint3.damping"][index], one.deviations["joint3.damping"], rtol=1e-9
        )
        np.testing.assert_array_equal(np.isnan(member.residuals["samples"]["tau"]), np.isnan(tau[index]))
    assert pickle.loads(pickle.dumps(found))[1].bounded == found[1].bounded


def test_a_batch_may_have_motions_of_its_own_and_noise_that_is_found(arm):
    q, v, a = (np.stack(x) for x in zip(motion(arm, 60), motion(arm, 60, seed=1), strict=True))
    rng = np.random.default_rng(8)
    tau = arm.inverse_dynamics(q, v, a) + [[[1.0]], [[0.1]]] * rng.normal(size=v.shape)
    found = linear(arm, q, v, a, tau, "link6")
    for k, member in enumerate(found):
        one = linear(arm, q[k], v[k], a[k], tau[k], "link6")
        np.testing.assert_allclose(member.coordinates, one.coordinates, rtol=1e-9, atol=1e-12)
    assert found[0].noise.mean() > 5 * found[1].noise.mean()


def test_intervals_of_a_thousand_recordings_cover_the_true_values(arm):
    """As lanes of one call; 42 base parameters each, so that the share scatters by less than 0.4 %."""
    q, v, a = motion(arm, 60)
    rng = np.random.default_rng(9)
    links = [f"link{k}" for k in range(2, 7)]
    base = base_parameters(arm, links, losses="damping")
    tau = arm.inverse_dynamics(q, v, a) + 0.3 * v + rng.normal(size=(1000, *v.shape))
    found = linear(arm, q, v, a, tau, losses="damping", noise=1.0, consistent=False)
    true = base.K @ np.concatenate([arm.inertial_parameters[10:], np.full(6, 0.3)])
    inside = np.abs(found.coordinates @ base.K.T - true) < 1.959964 * found.deviations_of(base.K)
    assert 0.93 < inside.mean() < 0.97
    # each of them: 1000 trials scatter by 0.7 %
    assert (np.abs(inside.mean(axis=0) - 0.95) < 0.035).all()


def test_noise_of_contacts_is_weighed_by_its_covariance():
    """Estimates scatter as their deviations say, and less than with weights that ignore the correlation."""
    robot = floating()
    q, v, a = motion(robot, 30)
    rng = np.random.default_rng(4)
    forces = 30 * rng.normal(size=(30, 3))
    J = robot.jacobian(q, "foot", "mixed")[:, 3:]
    tau = robot.inverse_dynamics(q, v, a) - np.einsum("nij,ni->nj", J, forces)
    tau = tau + 0.1 * rng.normal(size=(400, *tau.shape))
    sensed = {"foot": forces + 5.0 * rng.normal(size=(400, 30, 3))}
    options = {"bodies": "trunk", "contacts": sensed, "consistent": False}
    found = linear(robot, q, v, a, tau, noise=0.1, contact_noise={"foot": 5.0}, **options)
    ratios = np.std(found.coordinates, axis=0, ddof=1) / found.deviations_of(np.eye(10))[0]
    assert (np.abs(ratios - 1) < 5 / np.sqrt(800)).all()
    plain = linear(robot, q, v, a, tau, noise=5.0, **options)
    gains = np.std(plain.coordinates, axis=0) / np.std(found.coordinates, axis=0)
    assert gains.min() > 1 and np.median(gains) > 2  # these weights are the best ones (Gauss and Markov)
    assert 0.8 < np.mean([fit.chi_squared for fit in found[:50]]) < 1.2
    # one row alone, of which nothing else is known: the covariance of what is left out does not matter
    only = tau.copy()
    only[..., 1:] = np.nan
    one = linear(robot, q, v, a, only, "trunk", noise=0.1, contacts=sensed, contact_noise={"foot": [5.0] * 3})
    deviations = np.sqrt(0.01 + 25 * np.sum(J[:, :, 0] ** 2, axis=1))
    given = np.repeat(deviations[:, None], robot.nv, axis=1)
    other = linear(robot, q, v, a, only, "trunk", noise=given, contacts=sensed)
    np.testing.assert_allclose(one[0].coordinates, other[0].coordinates, rtol=1e-8, atol=1e-10)


def test_batches_and_noise_of_contacts_that_do_not_fit_are_refused(arm):
    q, v, a = motion(arm, 20)
    tau = arm.inverse_dynamics(q, v, a)
    with pytest.raises(ShapeError, match="expected axes that broadcast"):
        linear(arm, np.stack([q] * 2), v, a, np.stack([tau] * 3), noise=1.0)
    with pytest.raises(ShapeError, match=r"axes of the batch are \(0,\), expected one recording at least"):
        linear(arm, q, v, a, np.zeros((0, 20, 6)), noise=1.0)
    with pytest.raises(ShapeError, match=r"leading axes \(2,\), expected one recording"):
        payload(arm, "link6", q, v, a, np.stack([tau] * 2), noise=1.0)
    forces = {"link6": np.zeros((20, 3))}
    options = {"contacts": forces, "noise": 1.0}
    with pytest.raises(ModelError, match="noise of the contact 'link5', which has no forces"):
        linear(arm, q, v, a, tau, contact_noise={"link5": 1.0}, **options)
    with pytest.raises(ShapeError, match=r"contact_noise\['link6'\] has shape \(2,\)"):
        linear(arm, q, v, a, tau, contact_noise={"link6": [1.0, 1.0]}, **options)
    with pytest.raises(ModelError, match="expected standard deviations"):
        linear(arm, q, v, a, tau, contact_noise={"link6": -1.0}, **options)
    with pytest.raises(ModelError, match="no noise of the efforts"):
        linear(arm, q, v, a, tau, contacts=forces, contact_noise={"link6": 1.0})
    with pytest.raises(ModelError, match="some effort without noise"):
        linear(arm, q, v, a, tau, contacts=forces, noise=0.0, contact_noise={"link6": 1.0})
