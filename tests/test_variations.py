"""Derivatives of hybrid flows: closed forms, differences, limit cycles."""

from collections import namedtuple

import numpy as np
import pytest

import liebody as lb
from liebody import gaits, models, scalars
from liebody.base.errors import ModelError
from liebody.contact import Contact, TimeStepping
from liebody.groups import SO3, R
from liebody.hybrid import (
    Apex,
    HybridSystem,
    JointPD,
    VariedSystem,
    controller_2,
    robot_system,
    with_changes,
)

INERTIA = np.array([1.0, 2.0, 2.5])
START = np.array([-2.5243, 2.7676, 0.2574, 1.7802]), np.array([0.3301, -0.1919, 0.1263, 0])


def differences(system, q0, v0, t_end, h, **parameters):
    """D (2 nv, columns) by central differences, with one column for each of the parameters behind."""
    group, nv = system.group, system.nv
    starts = [
        (group.integrate(q0, s * h * e[:nv]), v0 + s * h * e[nv:]) for e in np.eye(2 * nv) for s in (1, -1)
    ]
    starts += [(q0, v0)] * (2 * len(parameters) + 1)
    changed = {}
    for k, (name, value) in enumerate(parameters.items()):
        changed[name] = np.full(len(starts), value)
        at = 4 * nv + 2 * k
        changed[name][at : at + 2] += [h, -h]
    q, v = map(np.array, zip(*starts, strict=True))
    run = system.simulate(q, v, t_end=t_end, record_every=t_end, parameters=changed)
    q, v = run.q[:, -1], run.v[:, -1]
    ends = np.array(
        [np.concatenate([group.difference(q[-1], x), y]) for x, y in zip(q[:-1], v[:-1], strict=True)]
    )
    return ((ends[::2] - ends[1::2]) / (2 * h)).T


def test_the_derivative_of_a_free_top_is_that_of_its_flow():
    """Left-trivialised on SO(3); and by its torque."""
    top = HybridSystem(
        SO3,
        lambda t, q, v, z, p: (p.torque * np.array([1, 0, 0]) - np.cross(v, INERTIA * v)) / INERTIA,
        parameters={"torque": 0.3},
        step=lambda t, q, v, z, p: 2e-3,
    )
    q0, v0 = SO3.random(np.random.default_rng(1)), np.array([0.5, -1.5, 2.0])
    run = VariedSystem(top, ["torque"]).simulate(q0, v0, t_end=1.5, record_every=0.5)
    D = VariedSystem(top, ["torque"]).derivatives(run)
    np.testing.assert_array_equal(D[0], np.eye(6, 7))
    np.testing.assert_allclose(D[-1], differences(top, q0, v0, 1.5, 1e-5, torque=0.3), atol=1e-8)


def bouncing():
    """A ball that loses speed in each bounce at a wall, and remembers when that was."""

    def update(t, q, v, z, p, happened):
        hit = happened.wall < 0
        return (
            q,
            np.array([scalars.where(hit, -p.restitution * v[0], v[0])]),
            z._replace(last=scalars.where(hit, t, z.last)),
        )

    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-p.g]),
        memory={"last": 0.0},
        parameters={"restitution": 0.8, "g": 9.81, "height": 0.1},
        guards=lambda t, q, v, z, p: {"wall": q[0] - p.height, "top": v[0]},
        directions={"wall": -1, "top": -1},
        update=update,
        step=lambda t, q, v, z, p: 1e-2,
        name="ball",
    )


def test_a_bouncing_ball_has_the_derivative_of_its_closed_form():
    """Jumps of the velocity, guards that depend on parameters, updates that depend on time."""

    def flight(y, u, e, g, height, t):
        """(y, u, time of the last bounce) at t, after two bounces."""
        first = (u + np.sqrt(u**2 + 2 * g * (y - height))) / g
        up = e * (g * first - u)
        second = first + 2 * up / g
        v, s = e * up, t - second
        return np.array([height + v * s - g * s**2 / 2, v - g * s, second])

    at = np.array([1.0, 0.3, 0.8, 9.81, 0.1])
    varied = VariedSystem(bouncing(), ["restitution", "g", "height"])
    run = varied.simulate([1.0], [0.3], t_end=1.5, record_every=0.5, most_events=9)
    end = flight(*at, 1.5)
    np.testing.assert_allclose([run.q[-1, 0], run.v[-1, 0], run.memory["last"][-1]], end, atol=1e-12)
    h = 1e-6
    wanted = np.stack(
        [(flight(*(at + h * e), 1.5) - flight(*(at - h * e), 1.5)) / (2 * h) for e in np.eye(5)], axis=1
    )
    np.testing.assert_allclose(varied.derivatives(run)[-1], wanted[:2], rtol=1e-7)
    np.testing.assert_allclose(run.memory["variation_of_memory"][-1, 0], wanted[2], rtol=1e-7)


def test_the_map_from_top_to_top():
    """The height over the wall shrinks by e^2, whatever the time it takes."""
    varied = VariedSystem(bouncing(), ["restitution", "height"])
    run = varied.simulate([1.0], [0.0], t_end=1.5, record_every=0.5, most_events=9)
    D = varied.on_section(run.events.of("top", -1))
    wanted = [0.8**2, 0.0, 2 * 0.8 * 0.9, 1 - 0.8**2]
    np.testing.assert_allclose(D[0, 0, [0, 2, 3]], np.array(wanted)[[0, 2, 3]], atol=1e-10)
    np.testing.assert_allclose(D[0, 1], 0, atol=1e-10)
    with pytest.raises(ModelError, match="one guard"):
        varied.on_section(run.events)


@pytest.fixture(scope="module")
def hopper():
    gains = {"K_r": 2200.0, "r_des": 0.1410659, "D_r": 20.0, "K_p": 6.0, "K_E": 10.0, "E_des": 2.8382}
    floor = Contact("foot", settling=0.05, corners=True)
    return robot_system(models.revolute_hopper(), controller_2("foot", **gains), floor, Apex(), ledger=False)


@pytest.mark.parametrize("t_end", [0.16, 0.36])
@pytest.mark.wide
def test_a_hop_has_the_derivative_of_differences(t_end, hopper):
    """Through touch-down, micro-bounces, the corners of the force, and lift-off."""
    varied = VariedSystem(hopper, ["K_p", "E_des"])
    D = varied.derivatives(varied.simulate(*START, t_end=t_end, record_every=t_end))[-1]
    wanted = differences(hopper, *START, t_end, 1e-6, K_p=6.0, E_des=2.8382)
    assert np.abs(wanted).max() > 5
    np.testing.assert_allclose(D, wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.wide
def test_experiment_six_is_a_stable_limit_cycle_by_its_multipliers(hopper):
    """From apex to apex: one multiplier is 1, that of the place; the others lie in the circle."""
    hops = hopper.simulate(*START, t_end=20.0, record_every=20.0, most_events=2000).events.of("apex")
    q0, v0 = hops.q[-1], hops.v[-1]
    varied = VariedSystem(hopper)
    log = varied.simulate(q0, v0, t_end=0.5, record_every=0.5, most_events=99).events.of("apex")
    last = np.flatnonzero(log.t > 0.2)[0]
    assert log.t[last] == pytest.approx(0.3719972, abs=1e-6)
    P = varied.on_section(log)[last]
    sizes = np.sort(np.abs(np.linalg.eigvals(P)))[::-1]
    assert sizes[0] == pytest.approx(1, abs=1e-5)
    assert sizes[1] == pytest.approx(0.6857, abs=1e-3)
    away = np.linalg.norm(hops.v - v0, axis=1)
    assert (away[30] / away[16]) ** (1 / 14) == pytest.approx(sizes[1], rel=0.03)  # how fast hops approach it


def test_corners_give_back_the_order_of_the_method(hopper):
    """With the corners of the floor's force as events, errors fall by 2^4 when steps are halved."""
    ends = []
    for k in range(3):
        steps = {"step": 4e-4, "stance_step": 1e-5, "landing_step": 2e-6}
        run = hopper.simulate(
            *START, t_end=0.36, record_every=0.36, parameters={name: h / 2**k for name, h in steps.items()}
        )
        ends.append(np.concatenate([run.q[-1], run.v[-1]]))
    a, b = np.abs(ends[0] - ends[1]).max(), np.abs(ends[1] - ends[2]).max()
    assert np.log2(a / b) > 3.5 and b < 1e-5


def test_what_cannot_be_is_refused(hopper):
    with pytest.raises(ModelError, match="stiffness"):
        VariedSystem(hopper, ["stiffness"])
    with pytest.raises(ModelError, match="each once"):
        VariedSystem(hopper, ["K_p", "K_p"])


def test_a_system_with_derivatives_is_started_and_told_as_the_robot_itself():
    """By names of joints, with its labels and work."""
    system = robot_system(models.double_pendulum(), JointPD(5.0, D=0.1), step=1e-2)
    options = {"t_end": 0.04, "record_every": 0.02}
    run, varied = (s.simulate({"link1": 0.3}, **options) for s in (system, VariedSystem(system)))
    assert varied.coordinates.names == run.coordinates.names == ("link1", "link2")
    assert varied.work.keys() == run.work.keys()
    np.testing.assert_allclose(varied.q, run.q, atol=1e-12)
    s = lb.sensitivities(system, {"link1": 0.3}, **options)
    np.testing.assert_array_equal(s.run.q, run.q)


def test_an_update_that_changes_what_flows_is_differentiated():
    """As a heat of which a part is lost at a line; q and v go on."""
    system = HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-9.81 - p.k * z.heat]),
        parameters={"k": 2.0},
        flows={"heat": 0.0},
        rates=lambda t, q, v, z, p: {"heat": v[0] + 0.3},
        guards=lambda t, q, v, z, p: {"line": q[0] - 0.5},
        update=lambda t, q, v, z, p, e: z._replace(
            heat=scalars.where(e.line < 0, 0.5 * z.heat + 0.1 * t * q[0], z.heat)
        ),
        step=lambda t, q, v, z, p: 2e-3,
    )
    q0, v0 = np.array([1.0]), np.array([0.2])
    varied = VariedSystem(system, ["k"])
    run = varied.simulate(q0, v0, t_end=0.8, record_every=0.4)
    expected = differences(system, q0, v0, 0.8, 1e-5, k=2.0)
    np.testing.assert_allclose(varied.derivatives(run)[-1], expected, atol=1e-7)
    assert len(run.events) == 1


def test_names_that_derivatives_need_are_not_taken_from_a_system():
    """Its own memory would be overwritten."""
    system = HybridSystem(R(1), lambda t, q, v, z, p: -q, memory={"delay": 0.0})
    with pytest.raises(ModelError, match="memory 'delay' has a name that is needed here"):
        VariedSystem(system)


def test_time_stepping_has_no_field_whose_derivative_could_be_carried_along():
    """Its contacts act in its steps alone: the field by itself would fall through the ground."""
    system = TimeStepping(models.revolute_hopper(), Contact("foot", friction=0.8))
    with pytest.raises(ModelError, match="robot_system"):
        VariedSystem(system)
    with pytest.raises(ModelError, match="robot_system"):
        gaits.periodic_orbit(system, np.zeros(4), period=0.3)


def test_changes_reach_named_values_one_after_the_other():
    """Of mappings and of named tuples; leading axes of the changes become leading axes of the values."""
    values = {"K": np.zeros((2, 2)), "m": 1.0, "other": 7.0}
    x = np.arange(10.0).reshape(2, 5)
    changed = with_changes(values, ["m", "K"], x)
    np.testing.assert_array_equal(changed["m"], [1.0, 6.0])
    np.testing.assert_array_equal(changed["K"], x[:, 1:].reshape(2, 2, 2))
    assert changed["other"] == 7.0 and values["m"] == 1.0
    pair = namedtuple("pair", "a b")(1.0, np.ones(2))
    moved = with_changes(pair, ["b"], np.array([2.0, 3.0]))
    assert type(moved) is type(pair) and moved.a == 1.0
    np.testing.assert_array_equal(moved.b, [3.0, 4.0])
