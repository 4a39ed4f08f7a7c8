"""Proved families of orbits: independent orbits lie in the boxes, and what was changed is refused."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from test_proofs import WALKING, compass_module, refused, simplest_walker, van_der_pol
from test_proofs_phases import ALPHA, GRAVITY, RUNNING, rimless_wheel, runner

import liebody as lb
from liebody.gaits import Branch, Family, ProofError, continuation, periodic_orbit, prove, prove_branch

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check

ROLLING = {"period": 0.7, "section": "strike", "symmetries": [[0, 1]], "dt": 1e-3, "method": "rkmk8"}


@pytest.fixture(scope="module")
def oscillator():
    return periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")


@pytest.fixture(scope="module")
def oscillating(oscillator):
    return prove(oscillator, parameters={"mu": ("0.999", "1.001")})


@pytest.fixture(scope="module")
def wheel():
    return periodic_orbit(rimless_wheel(), [-ALPHA, 0.0], [1.0, 0.95], **ROLLING)


@pytest.fixture(scope="module")
def rolling(wheel):
    return prove(wheel, parameters={"slope": ("0.0798", "0.0802")})


@pytest.fixture(scope="module")
def walking():
    """Several parts, since stability needs short ones."""
    orbit = periodic_orbit(simplest_walker(), **WALKING)
    return prove(orbit, parameters={"slope": ("0.00899", "0.00901")})


def inside(bounds, exact):
    low, high = (mpmath.mpf(float(x)) for x in bounds)
    return low <= exact <= high


# -- independent orbits -------------------------------------------------------------------------------------


def after(q, v, mu, time, steps=90, order=30):
    """The state of van der Pol's equation after a time, by power series of many digits."""
    h = time / steps
    for _ in range(steps):
        x, y, xx = [q], [v], []
        for k in range(order):
            xx.append(mpmath.fdot(x[: k + 1], x[k::-1]))  # x^2
            damped = y[k] - mpmath.fdot(xx, y[k::-1])
            x.append(y[k] / (k + 1))
            y.append((mu * damped - x[k]) / (k + 1))
        q, v = (mpmath.polyval(series[::-1], h) for series in (x, y))
    return q, v


def exact_orbit(mu, v, guess):
    """q at the start and the period (30 digits) of van der Pol's orbit that starts at a given v."""
    q, time = guess
    step = mpmath.mpf(10) ** -12

    def defect(q, time):
        end = after(q, v, mu, time)
        return mpmath.matrix([end[0] - q, end[1] - v])

    J = mpmath.matrix(2, 2)
    F = defect(q, time)
    J[:, 0] = (defect(q + step, time) - F) / step
    J[:, 1] = (defect(q, time + step) - F) / step
    for _ in range(5):
        change = mpmath.lu_solve(J, F)
        q, time = q - change[0], time - change[1]
        F = defect(q, time)
    assert mpmath.norm(F) < mpmath.mpf(10) ** -20
    return q, time


@pytest.mark.parametrize("value", ["0.999", "0.9999", "1.001"])
def test_orbits_of_many_digits_lie_in_the_boxes_of_a_smooth_family(oscillator, oscillating, value):
    """The start has a given v[0]; its q[0] and the period by Newton's method in 30 digits."""
    period, state = oscillating.at(value)
    with mpmath.workdps(30):
        v = mpmath.mpf(float(oscillator.v[0]))
        assert inside(state[1], v)
        guess = [mpmath.mpf(float(np.mean(x))) for x in (state[0], period)]
        q, time = exact_orbit(mpmath.mpf(value), v, guess)
        assert inside(state[0], q) and inside(period, time)
    assert period[1] - period[0] < 1e-3


@pytest.mark.parametrize("value", ["0.0798", "0.08003", "0.0802"])
def test_orbits_in_closed_form_lie_in_the_boxes_of_a_family_with_events_and_a_shift(rolling, value):
    """McGeer (1990): the speed before a strike, w^2 = 4 g sin(alpha) sin(slope) / (1 - cos(2 alpha)^2)."""
    period, state = rolling.at(value)
    with mpmath.workdps(30):
        alpha, slope, g = mpmath.mpf(ALPHA), mpmath.mpf(value), mpmath.mpf(GRAVITY)
        lost = mpmath.mpf(float(np.cos(2 * ALPHA)))  # the double that is traced
        start = lost * mpmath.sqrt(4 * g * mpmath.sin(alpha) * mpmath.sin(slope) / (1 - lost**2))
        time = mpmath.quad(
            lambda x: 1 / mpmath.sqrt(start**2 + 2 * g * (mpmath.cos(slope - alpha) - mpmath.cos(x + slope))),
            [-alpha, -slope, alpha],
        )
        assert inside(state[2], start) and inside(period, time)
    assert (state[:, 1] - state[:, 0]).max() < 1e-2


def test_boxes_move_with_the_parameter(rolling):
    """At each value the box is much smaller than the way from one end of the interval to the other."""
    low, high = (rolling.at(p)[1][2] for p in rolling.bounds)
    assert max(np.ptp(low), np.ptp(high)) < abs(np.mean(high) - np.mean(low)) / 5


# -- theorems -----------------------------------------------------------------------------------------------


def test_the_theorem_of_a_family_says_what_is_proved(walking, rolling):
    assert walking.complete and walking.status == "complete" and walking.parts > 1 and walking.stable
    proof = walking.check()
    assert proof.stable and len(proof.parts) == walking.parts
    for words in (
        "For each slope from 0.00899 to 0.00901 there is a periodic orbit",
        "No other orbit has its nodes and factors in this box",
        "Where two parts meet, the orbit in one box lies in the other",
        "one smooth curve over slope",
        "At slope = 0.00901 it starts after the jump at q[0] = 0.2003",
        "Between its jumps the guard strike has no event.",
        "they are exponentially stable.",
    ):
        assert words in walking.theorem()
    assert "checked" in repr(walking)
    assert "All of them stay as they are where q[1] grows by s." in rolling.theorem()
    # the equations exclude another shift only next to that of the certificate
    assert "No other orbit has its nodes, factors and shifts in this box" in rolling.theorem()
    assert rolling.stable and rolling.check().stable


def test_the_radius_without_another_orbit_is_rounded_downwards(oscillating, oscillator):
    """What is printed must not be more than what is proved."""
    (part,) = oscillating.check().parts
    printed = oscillating.theorem().split("whose radii are at least ")[1].split(".\n")[0]
    assert 0 < Fraction(printed) <= min(part.part.radius)
    printed = oscillating.theorem().split("of its durations, lie within ")[1].split(" of this")[0]
    assert Fraction(printed) >= max(part.part.radius)
    single = prove(oscillator)
    numbers = re.findall(r"within ([\d.e-]+)", single.theorem())
    assert len(numbers) == 2
    assert all(Fraction("0.95") < Fraction(x) / Fraction(single.radius) <= 1 for x in numbers)


def test_bounds_of_the_checker_and_of_the_family_meet(oscillating):
    for part in oscillating.check().parts:
        value = Fraction(part.part.place)
        period, state = oscillating.at(value)
        for ball, (low, high) in zip(part.box(value), state):
            assert low <= float(ball.upper()) and float(ball.lower()) <= high
        assert period[0] <= float(part.period.upper()) and float(part.period.lower()) <= period[1]


def test_a_family_covers_what_one_box_that_stays_does_not(oscillator):
    wide = {"mu": ("0.99", "1.01")}
    with pytest.raises(ProofError, match="no box"):
        # a second interval makes a certificate with one box for all values
        prove(two_parameters(oscillator), parameters=wide | {"k": ("0.999999", "1.000001")})
    assert prove(oscillator, parameters=wide).bounds == (Fraction("0.99"), Fraction("1.01"))


def test_a_box_with_a_radius_for_each_unknown_holds_for_wider_intervals(oscillator):
    """One radius of all unknowns is not enough for these intervals."""
    parameters = {"mu": ("0.999", "1.001"), "k": ("0.999999", "1.000001")}
    certificate = prove(two_parameters(oscillator), parameters=parameters)
    assert "radii" in certificate.data and certificate.check().stable


def two_parameters(oscillator):
    system = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - p.k * q[0]]),
        parameters={"mu": 1.0, "k": 1.0},
        name="van der Pol",
    )
    return periodic_orbit(
        system, oscillator.q, oscillator.v, period=oscillator.period, dt=0.01, method="rkmk8"
    )


def test_a_family_of_several_phases_is_proved():
    orbit = periodic_orbit(runner(), [0, 1.0], [5, 0], **RUNNING)
    family = prove(orbit, parameters={"k": (Fraction("249.999"), Fraction("250.001"))})
    assert "that passes these phases once, in this order" in family.theorem()
    for k in (249.999, 250.001):
        other = orbit.with_parameters(k=k)
        (low, high), state = family.at(Fraction(str(k)))
        assert low < other.period < high
        assert (state[:, 0] - 1e-9 < np.append(other.q, other.v)).all()


def test_a_family_is_saved_and_loaded(walking, tmp_path):
    path = tmp_path / "family.json"
    walking.save(path)
    again = Family.load(path)
    assert again.data == walking.data and again.parameter == "slope" and again.complete
    assert again.bounds == walking.bounds and again.at("0.009")[0] == walking.at("0.009")[0]
    again._checked.append(walking.check())  # the proof is the same
    assert again.stable and again.stabilities == walking.stabilities
    (tmp_path / "other.json").write_text('{"format": "liebody certificate 1"}')
    with pytest.raises(ProofError, match="no family"):
        Family.load(tmp_path / "other.json")


def test_values_outside_of_a_family_are_refused(walking):
    for value in ("0.0091", ("0.00899", "0.009")):
        with pytest.raises(ProofError, match="expected one number from"):
            walking.at(value)


# -- what is refused ----------------------------------------------------------------------------------------


def larger(x, by):
    return (float.fromhex(x) + by).hex()


def families_with_a_change(data):
    """(what, data) of families that are wrong in one place."""

    def other(what, change):
        wrong = copy.deepcopy(dict(data))
        change(wrong, wrong["parts"])
        return what, wrong

    k = len(data["parts"]) // 2
    radius = [float.fromhex(x) for x in data["parts"][k]["radius"]]

    for j in range(0, len(radius), 7):
        yield other(
            f"centre {j}",
            lambda d, p, j=j: p[k]["centre"].__setitem__(j, larger(p[k]["centre"][j], 3 * radius[j])),
        )

    def wide(d, p):
        p[k]["bounds"][1] = p[k + 1]["bounds"][1]
        del p[k + 1]

    def wider(d, p):
        """The first part reaches on over all others."""
        p[0]["bounds"][1] = p[-1]["bounds"][1]
        del p[1:]

    yield other("part too wide", wide)
    yield other("parts in one", wider)
    yield other("missing part", lambda d, p: p.pop(k))
    yield other("parts in another order", lambda d, p: p.insert(0, p.pop(k)))
    yield other("slopes", lambda d, p: p[k].update(slopes=["0x0p+0"] * len(radius)))
    yield other(
        "signs of slopes",
        lambda d, p: p[k].update(slopes=[larger(x, -2 * float.fromhex(x)) for x in p[k]["slopes"]]),
    )
    yield other("radius too small", lambda d, p: p[k].update(radius=[(x / 8).hex() for x in radius]))
    yield other("radius too large", lambda d, p: p[k].update(radius=[(x + 0.3).hex() for x in radius]))
    yield other("radius zero", lambda d, p: p[k]["radius"].__setitem__(0, "0x0p+0"))
    yield other("place", lambda d, p: p[k].update(place=larger(p[k]["place"], 1e-3)))
    yield other("place of the next part", lambda d, p: p[k].update(place=p[k + 1]["place"]))
    yield other("parameter", lambda d, p: d.update(parameter="mass"))
    yield other("bounds", lambda d, p: d["parameters"][0].__setitem__(1, ["0.008", "0.01"]))
    yield other("one value", lambda d, p: d["parameters"][0].__setitem__(1, "0.009"))
    yield other("unknowns", lambda d, p: [x["centre"].pop() for x in p])
    yield other("unknowns of a part", lambda d, p: p[k]["slopes"].pop())
    yield other("duration", lambda d, p: d["phases"][0]["durations"].__setitem__(0, "0x1p-1"))
    yield other("no parts", lambda d, p: p.clear())
    for j, x in enumerate(data["constants"]):
        if isinstance(x, str) and float.fromhex(x):
            changed = larger(x, 1e-3)
            yield other(f"constant {j}", lambda d, p, j=j, x=changed: d["constants"].__setitem__(j, x))


def test_a_wrong_family_is_refused(walking):
    assert walking.parts >= 3
    every = list(families_with_a_change(walking.data))
    assert len(every) > 20
    assert [what for what, data in every if not refused(data)] == []


def test_a_shift_that_moves_wrong_is_refused(rolling):
    """The slope of the shift, in the place of the coordinate along the symmetry, and its start."""
    for name in ("centre", "slopes"):
        wrong = copy.deepcopy(dict(rolling.data))
        part = wrong["parts"][0]
        part[name][1] = larger(part[name][1], 0.3 if name == "centre" else 30.0)
        assert refused(wrong)


def test_neighbours_with_two_orbits_are_refused(walking):
    from liebody_check.families import _must_be_linked

    one, other, *_ = walking.check().parts
    meet = other.part.bounds[0]
    _must_be_linked(one, other, meet)
    away = tuple(x + 1 for x in other.part.centre)
    with pytest.raises(liebody_check.Refused, match="not seen to be the same"):
        _must_be_linked(one, replace(other, part=replace(other.part, centre=away)), meet)


def test_what_cannot_be_a_family_is_named(oscillator, wheel, monkeypatch):
    with pytest.raises(ProofError, match="find the orbit there"):
        prove(oscillator, parameters={"mu": (2, 3)})
    monkeypatch.setattr("liebody.gaits.proofs.families.NARROWEST", Fraction(1, 32))
    # on small slopes the wheel does not come over its spokes
    with pytest.raises(ProofError, match=r"stops at slope = 0\.0[2-7].*Krawczyk|Newton"):
        prove(wheel, parameters={"slope": ("0.001", "0.0801")})


# -- branches -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def branch(wheel):
    return continuation(wheel, "slope", step=0.005, bounds=(0.07, 0.09), locate="stability")


def test_a_branch_is_proved_from_one_end_to_the_other(branch):
    family = prove_branch(branch)
    assert family.complete and family.bounds == (Fraction(0.07), Fraction(0.09))
    family.check()
    for orbit in branch.orbits:
        (low, high), state = family.at(orbit.parameters["slope"])
        assert low - 1e-9 < orbit.period < high + 1e-9
        assert (state[[0, 2, 3], 0] - 1e-8 < np.append(orbit.q[0], orbit.v)).all()
        assert (np.append(orbit.q[0], orbit.v) < state[[0, 2, 3], 1] + 1e-8).all()


def test_a_branch_that_is_not_proved_to_its_ends_says_where_and_why(branch):
    short = prove_branch(branch, stability=True, most=1)
    assert not short.complete and short.parts == 2
    assert "stops at slope" in short.status and "`most`" in short.status and short.status in repr(short)
    assert "So these orbits are one smooth curve over slope" in short.theorem()
    orbits = sorted(branch.orbits, key=lambda orbit: orbit.parameters["slope"])
    turning = Branch("slope", [*orbits, *reversed(orbits[:-1])], [], ("", ""))
    turned = prove_branch(replace(turning, orbits=turning.orbits[2:]))
    assert not turned.complete and "where the branch turns" in turned.status
    with pytest.raises(ProofError, match="has 1 orbit"):
        prove_branch(Branch("slope", orbits[:1], [], ("", "")))


@pytest.mark.slow
def test_the_compass_gait_is_proved_and_stable_for_slopes_around_three_degrees():
    module = compass_module()
    gait = periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)
    slope = Fraction(float(np.radians(3.0)))
    family = prove(gait, parameters={"slope": (slope - Fraction(1, 10**4), slope + Fraction(1, 10**4))})
    assert family.check().stable
    assert family.parts <= 16


@pytest.mark.slow
def test_the_branch_of_the_compass_gait_is_proved_to_its_flip():
    """From 0.5 to 4.39 degrees; the orbits lose their stability at 4.39090 degrees."""
    module = compass_module()
    gait = periodic_orbit(module.walker, **module.GUESS, section="strike", **module.STEPS)
    low, high = np.radians([0.5, 4.39])
    family = prove_branch(continuation(gait, "slope", step=0.005, bounds=(low, high), locate="stability"))
    assert family.complete and family.parts < 200
    theorem = family.theorem()
    assert "one smooth curve over slope" in theorem
    for orbit in (gait, gait.with_parameters(slope=float(np.radians(2.0)))):
        (lower, upper), _ = family.at(orbit.parameters.get("slope", float(np.radians(3.0))))
        assert lower < orbit.period < upper


# -- marks --------------------------------------------------------------------------------------------------

MARKS = (1.3, 1.0, 0.5, -1.0)  # values of q on the way from the top to the bottom


def marked_van_der_pol():
    """Events without a jump divide the orbit into phases, each with a factor of its durations."""

    def guards(t, q, v, z, p):
        down = {f"down{k}": q[0] - x for k, x in enumerate(MARKS)}
        up = {f"up{k}": q[0] + x for k, x in enumerate(MARKS)}
        return {"top": v[0], "bottom": v[0], **down, **up}

    directions = {f"{way}{k}": sign for way, sign in (("down", -1), ("up", 1)) for k in range(len(MARKS))}
    return lb.HybridSystem(
        lb.groups.R(1), lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": 1.0}, guards=guards, directions={"top": -1, "bottom": 1, **directions},
        name="van der Pol, marked",
    )  # fmt: skip


def marked_orbit(mu, period):
    return periodic_orbit(
        marked_van_der_pol(), [2.0], [0.0], period=period, section="top", parameters={"mu": mu},
        dt=0.01 / max(mu, 2.0), method="rkmk8",
    )  # fmt: skip


def test_marks_make_parts_of_a_family_long():
    """One part instead of a hundred, around independent orbits; at the top v is zero."""
    family = prove(marked_orbit(3.0, 8.859), parameters={"mu": ("2.99", "3.01")})
    assert family.parts == 1 and family.stable
    proof = family.check()
    assert proof.stable and len(proof.claim.claim.phases) == 2 + 2 * len(MARKS)
    for value in ("2.99", "3.01"):
        period, state = family.at(value)
        with mpmath.workdps(30):
            guess = [mpmath.mpf(float(np.mean(x))) for x in (state[0], period)]
            q, time = exact_orbit(mpmath.mpf(value), mpmath.mpf(0), guess)
            assert inside(state[0], q) and inside(period, time)
        assert period[1] - period[0] < 2e-2


@pytest.mark.slow
def test_van_der_pols_orbits_are_one_stable_family_from_a_tenth_to_ten():
    """The periods at its ends: a series in mu, and the orbit of mu = 10."""
    family = prove(marked_orbit(10.0, 19.078), parameters={"mu": ("0.1", 10)})
    assert family.complete and family.stable and family.parts < 500
    assert family.check(steps="c").stable
    for value, period in (("0.1", 2 * np.pi * (1 + 0.01 / 16 - 5e-4 / 3072)), (10, 19.0783695669)):
        (low, high), _ = family.at(value)
        assert low - 2e-8 < period < high + 2e-8
    # alone in a ring around the origin by Lienard's theorem, so they are the orbits of all other proofs
    for mu, period in ((1.0, 6.66328685932), (3.0, 8.85909549972)):
        (low, high), _ = family.at(mu)
        assert low < period < high
