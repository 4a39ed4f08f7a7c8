"""Designs of gaits: closed forms of a wheel without a rim and of a ball; a hopper; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from found import load_example
from scipy.integrate import quad

import liebody as lb
from liebody import scalars
from liebody.base.errors import ConfigurationError, LiebodyError, ModelError, ShapeError
from liebody.contact import Contact
from liebody.gaits import Designs, GaitError, cost_of_transport, design, largest_multiplier, periodic_orbit
from liebody.gaits.cost import integral
from liebody.gaits.evolution import Mutation, fronts, loneliness, order
from liebody.groups import R
from liebody.hybrid import Apex, Fall, HybridSystem, controller_2, robot_system

G = 9.81
SLOPE = 0.08  # rad
STEPS = {"dt": 0.01, "method": "rkmk8"}

# -- a wheel without a rim: McGeer (1990), Passive dynamic walking, section 3 -------------------------------


def wheel():
    """Spokes of length l, 2 alpha apart, roll down a slope: l q'' = g sin q, and w+ = w- cos(2 alpha)."""

    def update(t, q, v, z, p, events):
        hit = events.strike > 0
        angle = scalars.where(hit, p.slope - p.alpha, q[0])
        rate = scalars.where(hit, scalars.cos(2 * p.alpha) * v[0], v[0])
        return np.array([angle]), np.array([rate]), z

    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([G / p.length * scalars.sin(q[0])]),
        parameters={"alpha": 0.3, "length": 1.0, "slope": SLOPE},
        guards=lambda t, q, v, z, p: {"strike": q[0] - p.slope - p.alpha},
        directions={"strike": 1},
        update=update,
        name="rimless wheel",
    )


def rate_after_strike(alpha, length):
    """w+ of the gait: the slope gives energy, of which strikes leave the share cos(2 alpha)^2."""
    kept = np.cos(2 * alpha) ** 2
    return np.sqrt(kept / (1 - kept) * 4 * G / length * np.sin(SLOPE) * np.sin(alpha))


def has_gait(alpha, length):
    """Whether the wheel gets over the upright spoke."""
    return rate_after_strike(alpha, length) ** 2 > 2 * G / length * (1 - np.cos(alpha - SLOPE))


def exact_speed(alpha, length):
    """2 l sin(alpha) over the time of a step, by quadrature."""
    start = rate_after_strike(alpha, length) ** 2

    def inverse_rate(angle):
        return 1 / np.sqrt(start + 2 * G / length * (np.cos(alpha - SLOPE) - np.cos(angle)))

    return 2 * length * np.sin(alpha) / quad(inverse_rate, SLOPE - alpha, SLOPE + alpha, epsabs=1e-12)[0]


def speed(orbit):
    p = orbit.parameters
    return 2 * p["length"] * np.sin(p["alpha"]) / orbit.period


def slowness(orbit):
    return -speed(orbit)


@pytest.fixture(scope="module")
def rolling():
    start = {"alpha": 0.3, "length": 0.7}
    rate = 1.02 * rate_after_strike(0.3, 0.7)
    return periodic_orbit(
        wheel(), [SLOPE - 0.3], [rate], period=0.3, section="strike", parameters=start, **STEPS
    )


BOX = {"alpha": (0.25, 0.5), "length": (0.5, 1.0)}
STABLE = {"multiplier": (largest_multiplier, None, 0.5)}


@pytest.fixture(scope="module")
def fast(rolling):
    return design(rolling, BOX, slowness, limits=STABLE, generations=50, population=8, seed=1)


def test_the_wheel_has_the_gait_of_the_closed_form(rolling):
    assert rolling.v[0] == pytest.approx(rate_after_strike(0.3, 0.7), rel=1e-9)
    assert rolling.multipliers[0].real == pytest.approx(np.cos(0.6) ** 2, rel=1e-7)
    assert speed(rolling) == pytest.approx(exact_speed(0.3, 0.7), rel=1e-8)


def test_the_fastest_wheel_lies_where_the_limit_and_a_bound_meet(fast, rolling):
    """The multiplier cos(2 alpha)^2 is 0.5 at alpha = pi / 8; speed falls with alpha, and grows with l."""
    assert largest_multiplier(rolling) > 0.5 and not fast.tried[0].feasible
    best = fast.best
    assert best.feasible and best.limited["multiplier"] <= 0.5
    assert best.values["alpha"] == pytest.approx(np.pi / 8, abs=1e-4)
    assert best.values["length"] == pytest.approx(1.0, abs=1e-9)
    assert -best.objectives["slowness"] == pytest.approx(exact_speed(np.pi / 8, 1.0), rel=1e-4)
    assert best.orbit.residual < 1e-9 and best.orbit.parameters["alpha"] == best.values["alpha"]


def test_designs_without_a_gait_are_those_of_the_closed_form(fast):
    """A wheel whose strikes take too much does not get over the upright spoke.

    From a distant parent a gait may be missed: the start of a long wheel is too slow for a short one.
    """
    assert 5 < len(fast.failed) < len(fast.tried) / 2
    missed = [x for x in fast.failed if has_gait(x.values["alpha"], x.values["length"])]
    assert len(missed) < 0.1 * len(fast.failed)
    assert all(has_gait(x.values["alpha"], x.values["length"]) for x in fast.tried if not x.failure)
    assert all("does not return" in x.failure or "no orbit" in x.failure for x in fast.failed)
    with pytest.raises(GaitError, match="this design has no gait: "):
        _ = fast.failed[0].orbit
    assert not fast.failed[0].objectives and fast.failed[0].beyond == np.inf


def test_gaits_of_all_designs_are_those_of_the_closed_form(fast):
    working = [x for x in fast.tried if not x.failure]
    assert len(working) > 200
    for x in working:
        alpha, length = x.values["alpha"], x.values["length"]
        assert x.orbit.v[0] == pytest.approx(rate_after_strike(alpha, length), rel=1e-7)
        assert speed(x.orbit) == pytest.approx(exact_speed(alpha, length), rel=1e-6)
        assert x.limited["multiplier"] == pytest.approx(np.cos(2 * alpha) ** 2, rel=1e-5)


def test_points_that_share_a_simulation_have_the_equations_of_each_alone(fast, rolling):
    """Starts of different periods, one of which does not return, and one whose parameters are defaults."""
    shooting = rolling.shooting
    points = [x.point for x in fast.tried if not x.failure][::20]
    slow = replace(points[0], v=0.1 * points[0].v)
    default = replace(points[1], parameters={})
    points = [*points[:3], slow, default, *points[3:]]
    together = shooting.shoot_several(points)
    for k, (at, shot) in enumerate(zip(points, together, strict=True)):
        if k == 3:
            assert isinstance(shot, GaitError)
            with pytest.raises(GaitError, match=str(shot).partition(" within")[0]):
                shooting.shoot(at)
            continue
        alone = shooting.shoot(at)
        np.testing.assert_allclose(shot.residual, alone.residual, atol=1e-12)
        np.testing.assert_allclose(shot.jacobian, alone.jacobian, rtol=1e-9, atol=1e-9)
    rough = replace(shooting, difference=1e-5)
    for at, shot in zip(points[:2], rough.shoot_several(points[:2]), strict=True):
        np.testing.assert_allclose(shot.jacobian, shooting.shoot(at).jacobian, rtol=1e-5, atol=1e-6)


def test_the_front_of_two_objectives_is_that_of_the_longest_spokes(rolling):
    """Both the multiplier and the speed at l = 1 fall with alpha: every alpha is on the front."""
    both = {"slowness": slowness, "multiplier": largest_multiplier}
    found = design(rolling, BOX, both, generations=16, population=16, seed=2)
    front = np.array([list(x.objectives.values()) for x in found.front])
    assert len(front) > 15 and (np.diff(front[:, 0]) > 0).all() and (np.diff(front[:, 1]) < 0).all()
    # the exact front at the same multipliers: nothing lies before it, and hardly anything behind
    alpha = np.arccos(np.sqrt(front[:, 1])) / 2
    exact = np.array([exact_speed(a, 1.0) for a in alpha])
    assert (-front[:, 0] < exact * (1 + 1e-6)).all()
    assert np.mean(-front[:, 0] > 0.999 * exact) > 0.7
    # it reaches from the bound of alpha to where gaits end
    assert alpha.min() == pytest.approx(0.25, abs=1e-9) and alpha.max() > 0.4
    assert found.least("multiplier") is found.front[-1]
    with pytest.raises(ConfigurationError, match=r"several objectives, slowness, multiplier: use front"):
        _ = found.best
    with pytest.raises(ModelError, match="no objective 'speed'"):
        found.least("speed")


def test_conditions_of_the_start_hold_for_all_designs():
    """At one speed the slope is the cost of transport; the least slope has the least angle of spokes."""
    wanted = 0.9
    start = {"alpha": 0.3, "length": 1.0, "slope": 0.06}
    orbit = periodic_orbit(
        wheel(), [0.06 - 0.3], [0.9], period=0.6, section="strike", parameters=start, unknowns=["slope"],
        conditions=lambda q, v, T, s, p: [2 * p.length * scalars.sin(p.alpha) / T - wanted], **STEPS,
    )  # fmt: skip
    assert speed(orbit) == pytest.approx(wanted, abs=1e-8)
    found = design(orbit, {"alpha": (0.2, 0.4)}, lambda o: o.parameters["slope"], generations=6, population=4)
    assert found.objectives == ("objective",) and len(found.feasible) > 15
    for x in found.feasible:
        assert speed(x.orbit) == pytest.approx(wanted, abs=1e-8)
    assert found.best.values["alpha"] == pytest.approx(0.2, abs=1e-12)
    assert found.best.objectives["objective"] < orbit.parameters["slope"] - 0.01


def test_dependent_parameters_follow_the_free_ones(rolling):
    """Spokes whose step stays 2 l sin(alpha) = 0.4 m."""
    found = design(
        rolling, {"alpha": (0.25, 0.38)}, slowness, generations=3, population=4,
        dependent=lambda p: {"length": 0.2 / np.sin(p["alpha"])},
    )  # fmt: skip
    for x in found.feasible:
        assert x.orbit.parameters["length"] * np.sin(x.values["alpha"]) == pytest.approx(0.2, abs=1e-14)
        assert x.orbit.residual < 1e-9 and list(x.values) == ["alpha"]
    # also the start, which had 0.7 m
    assert found.tried[0].orbit.parameters["length"] == pytest.approx(0.2 / np.sin(0.3))
    with pytest.raises(GaitError, match=r"no robot has such parameters: .*'lenght'.*length"):
        design(rolling, {"alpha": (0.2, 0.4)}, slowness, dependent=lambda p: {"lenght": 1.0})


def test_objectives_that_cannot_be_computed_are_failures(rolling):
    def picky(orbit):
        if orbit.parameters["alpha"] > 0.32:
            raise GaitError("too wide")
        return np.nan if orbit.parameters["alpha"] < 0.28 else speed(orbit)

    found = design(rolling, {"alpha": (0.25, 0.38)}, picky, generations=4, population=6, spread=0.3)
    reasons = {x.failure for x in found.failed}
    assert reasons == {"picky cannot be computed: too wide", "picky is nan for its gait"}
    assert all(0.28 <= x.values["alpha"] <= 0.32 for x in found.feasible)


# -- a ball on a moving table: no section, the period is given ----------------------------------------------


def ball():
    """It bounces on a table at height a sin(omega t - 1) once a period; e is the restitution."""
    omega = 2 * np.pi

    def update(t, q, v, z, p, events):
        speed = p.a * omega * scalars.cos(omega * t - 1)
        return q, np.array([scalars.where(events.table < 0, (1 + p.e) * speed - p.e * v[0], v[0])]), z

    return HybridSystem(
        R(1), lambda t, q, v, z, p: np.array([-G]), parameters={"a": 0.1, "e": 0.8},
        guards=lambda t, q, v, z, p: {"table": q[0] - p.a * scalars.sin(omega * t - 1)},
        directions={"table": -1}, update=update, name="ball",
    )  # fmt: skip


def largest_multiplier_of_the_ball(a, e):
    """From impact to impact: dt' = dt + dv T/(V + g T/2), dv' = (1 + e) V' dt' - e dv + e g (dt' - dt).

    Infinite where no gait exists: the table is too slow to make up for what impacts take.
    """
    omega = 2 * np.pi
    table = (1 - e) / (1 + e) * G / 2
    if table > a * omega:
        return np.inf
    k, turn = 1 / (table + G / 2), -(1 + e) * a * omega**2 * np.sin(np.arccos(table / (a * omega)))
    return np.abs(np.linalg.eigvals([[1, k], [turn, turn * k - e + e * G * k]])).max()


def test_the_least_multiplier_of_a_ball_is_that_of_the_closed_form():
    """Less restitution damps more, down to where two real multipliers part."""
    a, omega = 0.1, 2 * np.pi
    t = (1 + np.arccos((1 - 0.8) / (1 + 0.8) * G / 2 / (a * omega))) / omega  # of an impact
    q0 = a * np.sin(omega * t - 1) + G / 2 * (1 - t) - G / 2 * (1 - t) ** 2
    start = periodic_orbit(ball(), [q0], [G / 2 - G * (1 - t)], period=lambda p: 2 * np.pi / omega, dt=0.01)
    assert largest_multiplier(start) == pytest.approx(largest_multiplier_of_the_ball(0.1, 0.8), abs=1e-7)
    box = {"a": (0.09, 0.14), "e": (0.6, 0.9)}
    found = design(start, box, largest_multiplier, generations=14, population=6, seed=3)
    for x in found.feasible:
        exact = largest_multiplier_of_the_ball(x.values["a"], x.values["e"])
        assert x.objectives["largest_multiplier"] == pytest.approx(exact, abs=1e-5)
    grid = [np.linspace(*bounds, 151) for bounds in box.values()]
    least = min(largest_multiplier_of_the_ball(a, e) for a in grid[0] for e in grid[1])
    assert 0.69 < least < found.best.objectives["largest_multiplier"] < least + 5e-3


# -- hoppers ------------------------------------------------------------------------------------------------


def test_a_hopper_is_designed_as_its_example_says(capsys):
    legs = load_example("design_of_a_leg")
    (found,) = legs.main(None, 2, 5, ["a slide"]).values()
    said = capsys.readouterr().out
    assert f"with a slide: {found}" in said and "longest hop" in said
    first = found.tried[0]
    assert first.feasible and len(found.tried) == 11 and len(found.feasible) > 4
    assert found.front[0].objectives["back"] < first.objectives["back"]
    for x in found.front:
        assert x.limited["multiplier"] <= 0.9 and x.orbit.stable and x.orbit.residual < 1e-9
    # the same robot with numbers in place of symbols has the same gait
    best = found.front[0]
    p = best.orbit.parameters
    plain = lb.models.prismatic_hopper(masses=(p["base_mass"], p["foot_mass"]))
    assert legs.work(best) == pytest.approx(
        best.objectives["cost"] * plain.mass * G * best.orbit.shift[0], rel=1e-12
    )
    run = best.orbit.simulate(record_every=best.orbit.period)
    np.testing.assert_allclose(
        run.outputs["potential_energy"][0], plain.potential_energy(best.orbit.q), rtol=1e-12
    )
    # values that no robot has are failures of one design, and do not stop the others
    odd = design(
        first.orbit, {"floor_stiffness": (-2e4, 2e4)}, legs.back, generations=1, population=6, spread=0.7
    )
    assert any("no robot has such parameters: floor_stiffness" in x.failure for x in odd.failed)
    assert len(odd.feasible) > 1


def test_integrals_of_jumps_are_exact():
    """cos t, and 5 + cos t between two times within one interval of samples and over two others."""
    t = np.linspace(0, 2, 401)
    for jumps in ([0.5012, 0.5031], [0.3021, 1.2344]):
        y = np.cos(t) + 5.0 * ((t > jumps[0]) & (t < jumps[1]))
        exact = np.sin(2) + 5.0 * (0.0 if jumps[1] < 0.6 else jumps[1] - jumps[0])
        assert integral(t, y, np.array(jumps)) == pytest.approx(exact, abs=5e-5)


@pytest.mark.wide
def test_the_cost_of_transport_is_the_work_of_the_ledger_and_the_half_that_drives_take_in():
    """max(P, 0) = (P + |P|) / 2, where the integral of P is integrated along with the motion."""
    controller = controller_2("foot", K_r=2200, r_des=0.1410659, D_r=20, K_p=6, K_E=10, E_des=2.8382)
    robot = lb.models.revolute_hopper().with_parameters("gravity", "base.mass")
    floor = Contact("foot", settling=0.05)
    system = robot_system(robot, controller, floor, Apex(), Fall(0.03))
    q0, v0 = [-2.5243, 0.0, 0.2574, 1.7802], [0.3301, -0.1919, 0.1263, 0.0]
    gait = periodic_orbit(
        system, q0, v0, section="apex", symmetries=[[0, 1, 0, 0]], period=0.372, difference=1e-4,
        parameters={"base.mass": 0.85},
    )  # fmt: skip
    run = gait.simulate(record_every=gait.period / 16000)
    power = run.outputs["efforts"] * run.v
    net = sum(run.work[name][-1] for name in run.work if name.startswith("joint_"))
    taken = integral(run.t, np.abs(power).sum(axis=1), run.events.t)
    assert integral(run.t, power.sum(axis=1), run.events.t) == pytest.approx(net, abs=2e-4 * taken)
    weight = (0.85 + 0.050) * G  # the thigh is part of the base
    expected = (net + taken) / 2 / (weight * gait.shift[0])
    for samples, precision in ((2000, 5e-4), (500, 3e-3)):
        assert cost_of_transport(gait, samples) == pytest.approx(expected, rel=precision)
    # the same hop on a robot that feels no gravity is none
    weightless = lb.models.revolute_hopper().with_parameters({"gravity": np.zeros(3)})
    nowhere = robot_system(weightless, controller, floor, Apex(), Fall(0.03))
    assert cost_of_transport(replace(gait, shooting=replace(gait.shooting, system=nowhere))) == np.inf


# -- stores -------------------------------------------------------------------------------------------------


def same_tables(a, b):
    assert a.table.keys() == b.table.keys()
    for name, column in a.table.items():
        np.testing.assert_array_equal(column, b.table[name])


def test_a_search_that_was_killed_goes_on_where_it_was(rolling, tmp_path):
    options = {"limits": STABLE, "population": 5, "seed": 4}
    whole = design(rolling, BOX, slowness, generations=6, **options)
    calls = 0

    def killed(orbit):
        nonlocal calls
        calls += 1
        if calls == 14:
            raise KeyboardInterrupt
        return slowness(orbit)

    store = tmp_path / "wheel.json"
    with pytest.raises(KeyboardInterrupt):
        design(rolling, BOX, {"slowness": killed}, generations=6, store=store, **options)
    kept = Designs.load(store, rolling)
    assert 5 < len(kept.tried) < 31
    again = design(rolling, BOX, slowness, generations=6, store=store, **options)
    same_tables(again, whole)
    # a call for as many generations as there are computes nothing, and more generations are added
    same_tables(design(rolling, BOX, slowness, generations=3, store=store, **options), whole)
    longer = design(rolling, BOX, slowness, generations=7, store=store, **options)
    assert len(longer.tried) == 36 and list(tmp_path.iterdir()) == [store]


def test_a_store_of_another_search_is_refused(rolling, tmp_path):
    store = tmp_path / "wheel.json"
    options = {"generations": 1, "population": 3, "store": store}
    designs = design(rolling, BOX, slowness, **options)
    with pytest.raises(ConfigurationError, match=r"another search: seed was 0, and is 1; give the same"):
        design(rolling, BOX, slowness, seed=1, **options)
    with pytest.raises(ConfigurationError, match="another search: free was"):
        design(rolling, {"alpha": (0.2, 0.5)}, slowness, **options)
    with pytest.raises(ConfigurationError, match=r"slowness of its start was -1\.10.*, and is -2\.2.* now"):
        design(rolling, BOX, {"slowness": lambda orbit: 2 * slowness(orbit)}, **options)
    plain = tmp_path / "plain.json"
    designs.save(plain)
    with pytest.raises(ConfigurationError, match="holds no search"):
        design(rolling, BOX, slowness, **{**options, "store": plain})
    content = store.read_bytes()
    for damaged in (content[:-3], content.replace(b"slowness", b"Slowness", 1), b"", b"{}"):
        store.write_bytes(damaged)
        with pytest.raises(LiebodyError, match="is not as it was written, or no file of designs"):
            design(rolling, BOX, slowness, **options)
    with pytest.raises(LiebodyError, match="cannot write"):
        designs.save(tmp_path / "nowhere" / "wheel.json")
    with pytest.raises(LiebodyError, match="cannot read"):
        Designs.load(tmp_path / "nowhere.json", rolling)


def test_designs_of_a_file_are_those_that_were_saved(fast, rolling, tmp_path):
    fast.save(tmp_path / "wheel.json")
    loaded = Designs.load(tmp_path / "wheel.json", rolling)
    same_tables(loaded, fast)
    assert loaded.limits == fast.limits and loaded.objectives == fast.objectives
    assert loaded.best.orbit.multipliers == pytest.approx(fast.best.orbit.multipliers, rel=1e-9)
    assert repr(loaded) == repr(fast) and repr(loaded.best) == repr(fast.best)
    doubled = replace(fast.tried[0].orbit, shooting=rolling.shooting.doubled())
    with pytest.raises(ConfigurationError, match=r"gaits with states \(1, 1\), \(1, 1\) and 0 symmetries"):
        Designs.load(tmp_path / "wheel.json", doubled)


def test_the_same_seed_gives_the_same_designs(rolling):
    options = {"generations": 2, "population": 4, "limits": STABLE}
    first, second, other = (design(rolling, BOX, slowness, seed=k, **options) for k in (7, 7, 8))
    same_tables(first, second)
    assert not np.array_equal(first.table["alpha"], other.table["alpha"])


def test_tables_and_pictures_show_all_designs(fast, rolling, tmp_path):
    table = fast.table
    assert {len(column) for column in table.values()} == {len(fast.tried)}
    assert np.isnan(table["slowness"]).sum() == len(fast.failed) == np.count_nonzero(table["failure"] != "")
    pytest.importorskip("matplotlib")
    axis = fast.plot(tmp_path / "one.png").axes[0]
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert f"within the limits: {len(fast.feasible)}" in words
    assert f"without a gait: {len(fast.failed)}" in words
    both = {"slowness": slowness, "multiplier": largest_multiplier}
    found = design(rolling, BOX, both, generations=1, population=3)
    axis = found.plot(tmp_path / "two.png").axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("slowness", "multiplier")
    assert (tmp_path / "one.png").stat().st_size > 1000 and (tmp_path / "two.png").stat().st_size > 1000


# -- the evolution strategy ---------------------------------------------------------------------------------


def test_fronts_are_those_of_the_definition():
    points = np.random.default_rng(3).integers(0, 6, (40, 2)).astype(float)
    left = set(range(40))
    for front in fronts(points):
        alone = {
            i for i in left
            if not any((points[j] <= points[i]).all() and (points[j] < points[i]).any() for j in left)
        }  # fmt: skip
        assert set(front.tolist()) == alone
        left -= alone
    assert not left


def test_lonely_points_of_a_front_come_first():
    """Deb et al. (2002), figure 1: sides of the box between the neighbours, over the width of the front."""
    points = np.array([[0.0, 4.0], [1.0, 3.0], [1.5, 2.5], [4.0, 0.0]])
    np.testing.assert_allclose(loneliness(points), [np.inf, 1.5 / 4 + 1.5 / 4, 3 / 4 + 3 / 4, np.inf])
    assert order(points, np.zeros(4)).tolist() == [0, 3, 2, 1]


def test_designs_within_limits_come_first_then_the_nearest_then_failures():
    values = np.array([[3.0], [1.0], [2.0], [np.inf], [0.0], [2.0]])
    beyond = np.array([0.0, 0.5, 0.0, 0.0, 0.1, 0.0])
    assert order(values, beyond).tolist() == [2, 5, 0, 4, 1, 3]


def test_steps_turn_into_a_valley_and_find_its_end():
    """x^T H x with axes of 1 : 1000, turned: steps learn its shape; alike in all directions they crawl."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    H = turn @ np.diag([1.0, 10.0, 100.0, 1000.0]) @ turn.T

    def least(learning):
        x, steps = np.full(4, 0.9), Mutation.round(4, 0.2)
        middle = np.full(4, 0.5)
        value = (x - middle) @ H @ (x - middle)
        for _ in range(1200):
            child = steps.child(x, rng)
            new = (child - middle) @ H @ (child - middle)
            step = (child - x) / steps.size
            steps = steps.judged(float(new < value), 1)
            if new < value:
                x, value = child, new
                steps = steps.learnt(step) if learning else steps
        return value

    assert least(True) < 1e-12 and least(False) > 1e-9


# -- the door -----------------------------------------------------------------------------------------------

WRONG = {
    "no bounds": ({"free": {}}, ConfigurationError, "free is empty"),
    "unknown": ({"free": {"alhpa": (0.2, 0.4)}}, ModelError, "'alhpa'.*did you mean 'alpha'"),
    "one bound": (
        {"free": {"alpha": 0.3}},
        ShapeError,
        r"bounds of alpha are 0\.3, expected \(least, most\)",
    ),
    "shape": ({"free": {"alpha": ([0.2, 0.1], 0.4)}}, ShapeError, "expected numbers or arrays"),
    "order": (
        {"free": {"alpha": (0.4, 0.2)}},
        ConfigurationError,
        r"\(0\.4, 0\.2\), expected \(least, most\)",
    ),
    "equal": ({"free": {"alpha": (0.3, 0.3)}}, ConfigurationError, "all bounds of free are equal"),
    "outside": ({"free": {"alpha": (0.31, 0.4)}}, ConfigurationError, "not within the bounds of free"),
    "nothing": ({"objectives": {}}, ConfigurationError, "objectives is empty"),
    "no function": ({"objectives": {"speed": 3.0}}, ConfigurationError, "speed is 3.0, expected a function"),
    "limit": ({"limits": {"m": slowness}}, ConfigurationError, r"expected \(function, least, most\)"),
    "limits": ({"limits": {"m": (slowness, 2, 1)}}, ConfigurationError, r"expected \(least, most\)"),
    "names": ({"limits": {"slowness": (slowness, 0, 1)}}, ConfigurationError, "slowness names two things"),
    "reserved": ({"objectives": {"failure": slowness}}, ConfigurationError, "failure names two things"),
    "start": ({"start": []}, ConfigurationError, "start is no orbit"),
    "spread": ({"spread": -1.0}, LiebodyError, "spread is -1.0"),
    "children": ({"population": 0}, LiebodyError, "population is 0, expected a whole number, 1 or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case, rolling):
    wrong, error, words = WRONG[case]
    arguments = {"start": rolling, "free": BOX, "objectives": slowness, **wrong}
    with pytest.raises(error, match=words):
        design(**arguments)


def test_starts_of_several_systems_and_free_unknowns_are_refused(rolling):
    other = periodic_orbit(
        wheel(), rolling.q, rolling.v, period=0.3, section="strike", parameters=rolling.parameters, **STEPS
    )
    with pytest.raises(ConfigurationError, match="orbits of different systems"):
        design([rolling, other], BOX, slowness)
    with pytest.raises(
        ConfigurationError, match="alpha: unknown parameters of the orbit, which cannot be free"
    ):
        design(rolling.with_unknowns("alpha"), BOX, slowness)
    with pytest.raises(ConfigurationError, match="is no system of a robot"):
        cost_of_transport(rolling)


def test_several_starts_are_the_first_parents(rolling):
    other = rolling.with_parameters(alpha=0.35)
    found = design([rolling, other], BOX, slowness, generations=1, population=4)
    assert [x.values["alpha"] for x in found.tried[:2]] == [0.3, 0.35]
    assert [x.parent for x in found.tried] == [None, None, 0, 1, 0, 1]


def test_where_no_design_keeps_the_limits_the_nearest_one_is_named(rolling):
    limits = {"multiplier": (largest_multiplier, None, 0.1)}
    found = design(rolling, {"alpha": (0.28, 0.32)}, slowness, limits=limits, generations=2, population=3)
    assert found.front == [] and "none keeps the limits" in repr(found)
    with pytest.raises(
        GaitError, match=r"none of 7 designs keeps the limits; the nearest is Design\(alpha 0\.3"
    ):
        _ = found.best
    # the search went towards the limit first
    nearest = min(found.tried, key=lambda x: x.beyond)
    assert nearest.beyond == pytest.approx((nearest.limited["multiplier"] - 0.1) / 0.1)
    assert nearest.values["alpha"] > 0.3
