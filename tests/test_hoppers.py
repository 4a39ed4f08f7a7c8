"""The hopping monopods: an independent implementation's numbers, closed forms, convergence, the ledger."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from liebody import models
from liebody.base.errors import ShapeError
from liebody.contact import Contact
from liebody.hybrid import Apex, Fall, controller_1, controller_2, controller_3, robot_system

# Touch-downs, apexes, and states there, by another program: located events, steps of 2e-6 s in contact
GOLDEN = json.loads((Path(__file__).parent / "golden" / "hopping.json").read_text())
REVOLUTE = {"K_r": 2200.0, "r_des": 0.1410659, "K_p": 6.0, "K_E": 10.0, "E_des": 2.8382}
PRISMATIC = {"K_r": 2200.0, "r_des": 0.12 * 0.957 / 1.007, "K_p": 6.0, "K_E": 20.0, "E_des": 2.904741}
START = np.array([-2.5174, 0, 0.3, 1.7802])
START_V = np.array([-1.9938, 0, 0.3, 1.7802])
START_VI = np.array([-2.5243, 2.7676, 0.2574, 1.7802]), np.array([0.3301, -0.1919, 0.1263, 0])
UPRIGHT = np.array([-np.pi / 2, 0, 0.3, 0.12])


@pytest.fixture(scope="module")
def revolute():
    """The knee hopper; touch-downs in a contact that has just been lost keep its anchor."""
    return robot_system(
        models.revolute_hopper(),
        controller_2("foot", **REVOLUTE),
        Contact("foot", settling=0.05),
        Apex(),
        Fall(0.03),
    )


@pytest.fixture(scope="module")
def prismatic():
    floor = Contact("foot", settling=0.05)
    return robot_system(models.prismatic_hopper(), controller_2("foot", **PRISMATIC), floor, Apex())


@pytest.fixture(scope="module")
def radial():
    """The knee hopper under Controller I, as in the thesis' experiment I."""
    gains = {name: x for name, x in REVOLUTE.items() if name != "K_p"}
    floor = Contact("foot", settling=0.05)
    return robot_system(models.revolute_hopper(), controller_1("foot", **gains), floor, Apex(), Fall(0.03))


def touch_downs(events):
    """Those which begin a stance: the first one, and the first after each apex."""
    t, apex = events.of("floor_foot", -1).t, events.of("apex").t
    before = np.concatenate([[-np.inf], t[:-1]])
    return t[[k == 0 or bool(np.any((apex > before[k]) & (apex < t[k]))) for k in range(len(t))]]


def centre(log, model):
    """Positions and velocities of the centre of mass in the plane at events."""
    c = np.array([model.center_of_mass(q) for q in log.q])
    u = np.array([model.center_of_mass_jacobian(q) @ v for q, v in zip(log.q, log.v, strict=True)])
    return c[:, [0, 2]], u[:, [0, 2]]


CASES = {
    "rev_I": (START, {"K_E": 0.0}, 0.6),
    "rev_II": (START, {"K_E": 0.0}, 2.2),
    "rev_III": (START, {}, 2.4),
    "rev_V": (START_V, {"D_r": 20.0}, 5.0),
    "pris_III": (UPRIGHT, {}, 5.4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.many
def test_the_general_path_reproduces_the_golden_hops(name, request):
    q0, parameters, t_end = CASES[name]
    system = request.getfixturevalue({"pris_III": "prismatic", "rev_I": "radial"}.get(name, "revolute"))
    model = getattr(models, system.tree.name)()
    run = system.simulate(
        q0, t_end=t_end, record_every=t_end / 10, parameters=parameters, most_events=200, threads=1
    )
    golden, apexes = GOLDEN[name], run.events.of("apex")
    loose = np.where((np.arange(20) > 1) & (name == "rev_II"), 10, 1)  # after hop 2 of II

    def close(found, key, tolerance):
        wanted = np.array(golden[key])
        n = min(len(found), len(wanted))
        assert n >= len(wanted) - 1
        assert np.all(np.abs(found[:n] - wanted[:n]) <= tolerance * loose[:n])

    c, u = centre(apexes, model)
    close(touch_downs(run.events), "tTD", 1e-5)
    close(apexes.t, "tAP", 1e-5)
    close(c[:, 1], "cy", 1e-5)
    close(u[:, 0], "vx", 1e-4)
    if name == "pris_III":
        return
    r = np.array([np.linalg.norm(model.pose(q, "foot")[:3, 3] - model.center_of_mass(q)) for q in apexes.q])
    E = model.kinetic_energy(apexes.q, apexes.v) + model.potential_energy(apexes.q)
    close(E + REVOLUTE["K_r"] / 2 * (r - REVOLUTE["r_des"]) ** 2, "Eap", 1e-5)


@pytest.mark.wide
def test_angles_and_momenta_at_touch_down_and_lift_off(revolute):
    model, golden = models.revolute_hopper(), GOLDEN["rev_II"]
    run = revolute.simulate(START, t_end=2.2, parameters={"K_E": 0.0}, most_events=200, threads=1)
    down = run.events.of("floor_foot", -1)
    first = np.isin(down.t, touch_downs(run.events))
    angles = []
    for q in down.q[first]:
        x, _, z = model.pose(q, "foot")[:3, 3] - model.center_of_mass(q)
        angles.append(np.degrees(np.arctan2(x, -z)))
    np.testing.assert_allclose(angles[:3], golden["alTD"][:3], atol=2e-3)
    np.testing.assert_allclose(angles, golden["alTD"], atol=2e-2)
    up = run.events.of("floor_foot", 1)
    last = [up.t[up.t < t].size - 1 for t in run.events.of("apex").t]
    h = [-model.centroidal_momentum(up.q[i], up.v[i])[1] for i in last]
    np.testing.assert_allclose(h, golden["hLO"][: len(h)], atol=1e-5)


def test_experiment_six_is_a_limit_cycle_whose_energy_is_accounted_for(revolute):
    run = revolute.simulate(
        *START_VI, t_end=20.0, record_every=0.05, parameters={"D_r": 20.0}, most_events=1000
    )
    apexes = run.events.of("apex")
    assert run.ends == "" and len(touch_downs(run.events)) == 54
    np.testing.assert_allclose(np.diff(apexes.t)[-5:], 0.3719972, atol=1e-6)
    np.testing.assert_allclose(np.diff(apexes.q[-6:, 1]), 0.0877652, atol=1e-6)
    c, u = centre(apexes, models.revolute_hopper())
    np.testing.assert_allclose(c[-1, 1], 0.24776922, atol=1e-6)
    np.testing.assert_allclose(u[-1, 0], 0.23223440, atol=1e-5)
    np.testing.assert_allclose(apexes.q[-1, [0, 3]], [-2.52438412, 1.78019796], atol=1e-6)
    np.testing.assert_allclose(apexes.v[-1, 0], 0.32760575, atol=1e-5)
    work = {name: x[-1] for name, x in run.work.items()}
    wanted = {
        "joint_base": 7.141,
        "joint_knee": 4.901,
        "radial_damper": 5.600,
        "regulator_work": 18.933,
        "floor_normal": 10.78,
        "floor_tangential": 1.26,
    }
    for name, value in wanted.items():
        assert work[name] == pytest.approx(value, abs=5e-3), name
    assert work["joint_base"] + work["joint_knee"] == pytest.approx(-work["floor_work"], abs=1e-3)
    downs = run.events.of("floor_foot", -1)
    losses = revolute.plastic_losses(downs, "foot")[np.isin(downs.t, touch_downs(run.events))]
    np.testing.assert_allclose(losses[-5:], 0.0609, atol=1e-4)


def test_experiment_four_settles_almost_in_place(revolute):
    """The leg leans by 36 degrees, and the hopper drifts slowly."""
    run = revolute.simulate(START, t_end=12.0, parameters={"D_r": 20.0}, most_events=500, record_every=0.1)
    assert run.ends == ""
    apexes = run.events.of("apex")
    late = apexes.t > 8
    angle = [np.degrees(run.outputs["polar_angle"][np.searchsorted(run.t, t)]) for t in apexes.t[late]]
    assert np.all(np.abs(np.array(angle) - 36) < 1.5)
    heights = centre(apexes, models.revolute_hopper())[0][:, 1]
    assert np.ptp(heights[late]) < 1e-3
    assert abs(np.diff(apexes.q[late, 1]).mean()) < 0.02


@pytest.mark.wide
def test_the_upright_prismatic_hopper(prismatic):
    """I: symmetric to the end, and unstable; II: comes to rest after twelve touch-downs."""
    seeds = np.array([0.0, 1e-9])
    starts = UPRIGHT + np.outer(seeds, [1, 0, 0, 0])
    run = prismatic.simulate(
        starts, t_end=3.0, parameters={"K_p": [0.0, 0.0], "K_E": 0.0}, most_events=200, record_every=0.1
    )
    angles = [np.degrees(log.of("floor_foot", -1).q[:, 0] - UPRIGHT[0]) for log in run.events]
    assert np.abs(angles[0]).max() < 1e-7
    assert angles[1][np.isin(run.events[1].of("floor_foot", -1).t, touch_downs(run.events[1]))][8] > 10
    run = prismatic.simulate(UPRIGHT, t_end=6.0, parameters={"K_E": 0.0}, record_every=0.1)
    assert len(touch_downs(run.events)) == 12


def test_apexes_are_the_tops_of_flights(prismatic):
    """Prismatic II leaves the floor upwards eleven times; then it swings on the ground to the end."""
    model = models.prismatic_hopper()
    run = prismatic.simulate(UPRIGHT, t_end=6.0, parameters={"K_E": 0.0}, record_every=1e-2, most_events=999)
    apexes, floor = run.events.of("apex"), run.events.of("floor_foot")
    left = run.events.of("floor_foot", 1)
    up = left.t[centre(left, model)[1][:, 1] > 0]
    assert len(apexes) == len(up) == 11
    assert np.all((up < apexes.t) & (apexes.t < floor.t[np.searchsorted(floor.t, up) + 1]))
    assert np.all(apexes.memory["floor_contact"] == 0)
    np.testing.assert_allclose(centre(apexes, model)[1], 0, atol=1e-9)
    resting = run.t > floor.t[-1]
    assert np.count_nonzero(np.diff(np.sign(run.outputs["com_velocity"][resting, 2])) < 0) > 15


def test_hops_converge_as_steps_are_halved(revolute):
    """By about 2^3 with every halving: the corner of F_n in a step costs the method its fourth order."""
    ends = []
    for halvings in range(4):
        steps = {"step": 4e-4, "stance_step": 2e-5, "landing_step": 4e-6}
        run = revolute.simulate(
            START_VI[0],
            START_VI[1],
            t_end=0.36,
            parameters={"D_r": 20.0, **{name: h / 2**halvings for name, h in steps.items()}},
            record_every=0.36,
            threads=1,
        )
        ends.append(np.concatenate([run.q[-1], run.v[-1]]))
    differences = [np.abs(a - b).max() for a, b in pairwise(ends)]
    rates = np.log2(np.array(differences[:-1]) / differences[1:])
    assert np.all(rates > 2.5), (differences, rates)


@pytest.mark.parametrize("parameters", [{"K_E": 0.0}, {}, {"D_r": 20.0}])
def test_the_ledger_closes(parameters, revolute):
    run = revolute.simulate(START, t_end=2.4, parameters=parameters, record_every=0.1, threads=1)
    ledger = revolute.ledger(run)
    assert abs(ledger.residual) < 1e-6 * ledger.throughput
    assert ledger.throughput > 3 and "residual" in str(ledger)
    drives = sum(x for name, x in ledger.work.items() if name.startswith("joint_"))
    given = sum(x for name, x in ledger.elements.items() if name != "floor_work")
    assert drives == pytest.approx(given, abs=1e-10)
    for k in (3, 11):
        assert abs(revolute.ledger(run, first=k, last=k + 7).residual) < 1e-6 * ledger.throughput


def test_the_ledger_runs_to_where_a_member_ended(revolute):
    """One hops on, one falls as its polar spring is too soft; the fallen one has balanced books, too."""
    run = revolute.simulate(
        *START_VI, t_end=2.0, parameters={"D_r": 20.0, "K_p": [6.0, 1.0]}, record_every=0.1
    )
    assert run.ends.tolist() == ["", "stopped"] and np.isnan(run.q[1, -1]).all()
    for member in (0, 1):
        ledger = revolute.ledger(run, member)
        assert ledger.throughput > 3 and abs(ledger.residual) < 1e-6 * ledger.throughput
    fallen = run.final.outputs["potential_energy"][1] - run.outputs["potential_energy"][1, 0]
    assert ledger.energy["potential"] == fallen < -2
    last = int(run.end_times[1] / 0.1)
    assert abs(revolute.ledger(run, 1, last=last).residual) < 1e-6 * ledger.throughput
    for wrong in ({"last": last + 1}, {"last": -1}, {"first": last + 1}, {"last": 21}, {"member": 2}):
        with pytest.raises(ShapeError, match=r"sample|member"):
            revolute.ledger(run, **{"member": 1, **wrong})


def test_members_that_fail_are_marked_and_the_others_go_on(revolute):
    """No floor, a gain that no step can follow: each is marked with its time and cause."""
    run = revolute.simulate(
        np.tile(START, (4, 1)),
        t_end=1.0,
        record_every=0.05,
        parameters={
            "floor_stiffness": [1e4, 0.0, 1e4, 1e4],
            "floor_damping": [1e3, 0.0, 1e3, 1e3],
            "K_r": [2200.0, 2200.0, 1e9, 2200.0],
            "floor_height": [0.0, 0.0, 0.0, 0.01],
        },
    )
    assert run.ends.tolist() == ["", "stopped", "a value is not finite", ""]
    assert run.end_times[1] == pytest.approx(0.235, abs=0.02) and run.end_times[2] < 0.01
    assert np.isfinite(run.q[[0, 3]]).all() and np.isnan(run.q[1:3, -1]).all()
    alone = revolute.simulate(START, t_end=1.0, record_every=0.05)
    np.testing.assert_allclose(run.q[0], alone.q, atol=1e-9)


# -- the closed form ----------------------------------------------------------------------------------------


def second_moments(masses, ends):
    a, b = np.transpose(ends)
    return masses @ (a * a), masses @ (a * b), masses @ (b * b)


class ClosedForm:
    """The knee hopper by centre of mass, base angle and knee angle: masses at a_k e1 + b_k e2 from it."""

    l, masses = 0.12, np.array([0.835, 0.122, 0.050])
    m = sum(masses)
    A = (0.122 * l / 2 + 0.050 * l) / m
    B = 0.050 * l / 2 / m
    ends = ((-A, -B), (l / 2 - A, -B), (l - A, l / 2 - B))
    P, Q, R = second_moments(masses, ends)
    fa, fb, g = l - A, l - B, 9.81

    def __init__(self, th, q):
        c1, s1, c2, s2 = np.cos(th), np.sin(th), np.cos(th + q), np.sin(th + q)
        c, s = np.cos(q), np.sin(q)
        self.base = np.array([-self.A * c1 - self.B * c2, -self.A * s1 - self.B * s2])
        self.base_by_q = np.array([self.B * s2, -self.B * c2])
        self.r = np.array([self.fa * c1 + self.fb * c2, self.fa * s1 + self.fb * s2])
        self.j = self.fb * np.array([-s2, c2])
        self.H = np.array(
            [[self.P + self.R + 2 * self.Q * c, self.R + self.Q * c], [self.R + self.Q * c, self.R]]
        )
        self.dH = np.array([[-2 * self.Q * s, -self.Q * s], [-self.Q * s, 0]])
        self.length = np.sqrt(self.fa**2 + self.fb**2 + 2 * self.fa * self.fb * c)
        self.dlength = -self.fa * self.fb * s / self.length
        self.psi = np.arctan2(self.fb * s, self.fa + self.fb * c)
        self.dpsi = (self.fb**2 + self.fa * self.fb * c) / self.length**2

    def accelerations(self, c, dc, w, dq, alpha, J, contact, anchor, K, D, p):
        """(c'', theta'', q'') of centre of mass, base and knee, with alpha' = theta' + J q'."""
        x, u = c + self.r, dc + w * np.array([-self.r[1], self.r[0]]) + dq * self.j
        F = contact * np.array([-K * (x[0] - anchor) - D * u[0], max(-K * x[1] - D * u[1], 0)])
        rates = np.array([w, dq])
        E = self.m * dc @ dc / 2 + rates @ self.H @ rates / 2 + self.m * self.g * c[1]
        E += p["K_r"] * (self.length - p["r_des"]) ** 2 / 2
        dr = self.dlength * dq
        tau_r = -p["K_r"] * (self.length - p["r_des"]) - p["D_r"] * (1 - contact) * dr
        tau_r -= p["K_E"] * (E - p["E_des"]) * dr
        tau_p = contact * (-p["K_p"] * (alpha - p["alpha_des"]) - p["D_p"] * (w + J * dq))
        right = np.array(
            [
                -self.r[1] * F[0] + self.r[0] * F[1] + tau_p - self.dH[0, 0] * dq * w - self.dH[0, 1] * dq**2,
                self.j @ F + self.dlength * tau_r + J * tau_p + self.dH[0, 0] * w**2 / 2,
            ]
        )
        return np.concatenate([F / self.m - [0, self.g], np.linalg.solve(self.H, right)])


@pytest.mark.parametrize("controller", [controller_1, controller_2, controller_3])
def test_the_vector_field_is_the_closed_form(controller):
    gains = {**REVOLUTE, "D_r": 20.0, "D_p": 0.1, "alpha_des": 0.05}
    polar = ("K_p", "D_p", "alpha_des")
    if controller is controller_1:
        gains = {name: x for name, x in gains.items() if name not in polar}
    system = robot_system(models.revolute_hopper(), controller("foot", **gains), Contact("foot"))
    rng = np.random.default_rng(4)
    for contact in (0.0, 1.0):
        for _ in range(20):
            th, q = rng.uniform(-3, 0), rng.uniform(0.3, 2.8)
            form = ClosedForm(th, q)
            w, dq = rng.normal(size=2)
            at, u = rng.normal(size=2) * 0.1, rng.normal(size=2)
            turn = np.array([[np.cos(th), -np.sin(th)], [np.sin(th), np.cos(th)]])
            b_w = np.array([-form.base[1], form.base[0]])
            dc = turn @ u - w * b_w - dq * form.base_by_q
            c, anchor = at - form.base, rng.normal() * 0.01
            configuration, velocity = np.array([th, *at, q]), np.array([w, *u, dq])
            alpha, J = th + form.psi + np.pi / 2, form.dpsi
            z = system.memory.type(**{k: np.array(x) for k, x in system.memory.defaults.items()})
            z = z._replace(floor_contact=np.array([contact]), floor_anchor=np.array([[anchor]]))
            if controller is controller_3:
                J = form.H[0, 1] / form.H[0, 0]
                z = z._replace(polar_angle=0.3)
                alpha = 0.3
            p = system.parameters.type(**system.parameters.defaults)
            found = system.vector_field(0.0, configuration, velocity, z, p)
            gains_ = {**dict.fromkeys(polar, 0.0), **p._asdict()}
            wanted = form.accelerations(c, dc, w, dq, alpha, J, contact, anchor, 1e4, 1e3, gains_)
            assert found[[0, 3]] == pytest.approx(wanted[2:], rel=1e-10, abs=1e-8)
            # c'' = acceleration of the base's origin less that of the base from the centre of mass
            back = turn @ (found[1:3] + w * np.array([-u[1], u[0]])) - wanted[:2]
            b_q, b_ww, b_qq = (
                form.base_by_q,
                -form.base,
                np.array([form.B * np.cos(th + q), form.B * np.sin(th + q)]),
            )
            second = found[0] * b_w + found[3] * b_q + w**2 * b_ww + dq**2 * b_qq
            second = second + 2 * w * dq * b_qq
            np.testing.assert_allclose(back, second, rtol=1e-10, atol=1e-8)


@pytest.mark.wide
def test_the_angle_of_the_locked_frame_is_that_of_the_closed_form():
    """theta_b + theta_bc(q) + pi/2 with theta_bc' = H12 / H11, all along a run of Controller III."""
    system = robot_system(
        models.revolute_hopper(), controller_3("foot", **{**REVOLUTE, "K_E": 0.0}), Contact("foot")
    )
    run = system.simulate(START, t_end=0.6, record_every=0.02)
    q = run.q[:, 3]
    a, b = ClosedForm.P + ClosedForm.R, 2 * ClosedForm.Q
    factor = (ClosedForm.R - ClosedForm.P) / np.sqrt(a**2 - b**2)
    locked = q / 2 + factor * np.arctan(np.sqrt((a - b) / (a + b)) * np.tan(q / 2))
    np.testing.assert_allclose(run.memory["polar_angle"], run.q[:, 0] + locked + np.pi / 2, atol=1e-9)
    np.testing.assert_allclose(run.outputs["polar_angle"], run.memory["polar_angle"])
    assert np.ptp(q) > 0.1


@pytest.mark.parametrize("K_E", [0.0, 10.0])
def test_controller_one_is_controller_two_without_its_polar_spring(K_E, radial, revolute):
    """Radial control alone, with the regulator (section 4.1.5)."""
    gains = {"K_E": K_E, "D_r": 20.0}
    one = radial.simulate(START, t_end=0.5, record_every=0.1, parameters=gains)
    two = revolute.simulate(START, t_end=0.5, record_every=0.1, parameters={**gains, "K_p": 0.0})
    np.testing.assert_allclose(one.q, two.q, atol=1e-9)
    assert set(radial.parameters.defaults) == set(revolute.parameters.defaults) - {"K_p", "D_p", "alpha_des"}


def test_nothing_acts_on_the_base_under_controller_one(radial, revolute):
    """The hopper is under-actuated: its base has no torque, be it with the regulator or without."""
    for system, driven in ((radial, False), (revolute, True)):
        run = system.simulate(START, t_end=0.5, parameters={"K_E": [0.0, 10.0], "D_r": 20.0})
        assert (
            np.all(run.outputs["efforts"][..., 1:3] == 0) and np.abs(run.outputs["efforts"][..., 3]).max() > 1
        )
        assert np.all((run.outputs["efforts"][..., 0] != 0).any(axis=1) == driven)
        assert np.all((run.final.work["joint_base"] != 0) == driven)


def test_the_gait_of_experiment_six_falls_without_its_polar_spring(radial, revolute):
    """Controller I feeds it energy as Controller II does, and does not keep it from tilting."""
    for system, end in ((radial, "stopped"), (revolute, "")):
        run = system.simulate(*START_VI, t_end=1.5, parameters={"D_r": 20.0})
        assert run.ends == end
        assert run.outputs["regulator_force"].any()


@pytest.mark.parametrize("name", ["two_joint_hopper", "three_joint_hopper"])
@pytest.mark.wide
def test_hoppers_with_more_joints_hop_on_springs(name):
    """They stand on an impedance of the leg, with hip and knee locked by it, and the ledger closes."""
    robot = getattr(models, name)()
    q0 = np.zeros(robot.nq)
    q0[2] = 0.30
    q0[3:5] = 0.5, -1.0
    r = np.linalg.norm(robot.pose(q0, "foot")[:3, 3] - robot.center_of_mass(q0))
    system = robot_system(
        robot, controller_2("foot", K_r=1500.0, r_des=r, K_p=5.0, K_E=0.0), Contact("foot"), Apex()
    )
    run = system.simulate(q0, t_end=0.5, record_every=0.02, most_events=50)
    ledger = system.ledger(run)
    assert run.ends == "" and len(run.events.of("floor_foot", -1)) >= 1 and len(run.events.of("apex")) >= 1
    assert abs(ledger.residual) < 1e-6 * ledger.throughput
