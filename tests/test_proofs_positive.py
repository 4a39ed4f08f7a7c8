"""Numbers that a theorem says are positive along an orbit, and at its events: proved, and checked again."""

from __future__ import annotations

import json

import mpmath
import numpy as np
import pytest
from test_proofs import changed
from test_proofs_phases import HOPPING, SPRING, exact_hop, hopper

import liebody as lb
from liebody.gaits import ProofError, continuation, periodic_orbit, prove, prove_branch, prove_field
from liebody.scalars import where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check


def opposite(function):
    """A function of a certificate with the other sign."""
    nodes = [*function["nodes"], ["neg", *function["outputs"]]]
    return {"nodes": nodes, "outputs": [len(nodes) - 1]}


def leg_force(t, q, v, z, p):
    return (p.k + z.pushes * p.more) * (1 - q[0]) - p.d * v[0]


def pushes(away):
    """By how much the force of the leg, while it stands, is above a number."""
    return {"push": lambda *a: where(a[3].touches > 0.5, leg_force(*a) + away, 1.0)}


@pytest.fixture(scope="module")
def hop():
    return periodic_orbit(hopper(), [1.2], [0.0], **HOPPING)


@pytest.fixture(scope="module")
def hardest_pull():
    """By how much the damper pulls at lift-off, where the leg pulls most: d times the speed."""
    with mpmath.workdps(30):
        height = mpmath.findroot(lambda h: exact_hop(h)[0] - h, 1.2)
        return float(SPRING["d"] * mpmath.sqrt(2 * mpmath.mpf(9.81) * (height - 1)))


@pytest.fixture(scope="module")
def proved(hop, hardest_pull):
    return prove(hop, positive=pushes(hardest_pull + 1e-9))


@pytest.mark.parametrize("steps", ["python", "c"])
def test_a_number_is_positive_down_to_its_least_value(proved, steps):
    """1e-9 above the exact least value, which is that at an end of a phase."""
    theorem = proved.theorem(steps)
    assert "In phases 2 and 3 push > 0, by its function in the certificate." in theorem
    assert theorem.count("push") == 1 and "conditions of the functions" not in theorem
    stated = [[x["name"] for x in phase["guards"] if x.get("stated")] for phase in proved.data["phases"]]
    assert stated == [[], ["push"], ["push"], []]  # it is the constant 1 in flight


def test_a_number_that_is_not_positive_everywhere_is_refused(hop, hardest_pull):
    with pytest.raises(
        ProofError, match=r"push is -\S+ at t = .* of the orbit of vertical hopper, expected a"
    ):
        prove(hop, positive=pushes(0.0))
    # samples do not show that the last millionth of the phase is below zero
    with pytest.raises(ProofError, match=r"that push is positive is not proved in step .* of phase 3 of 4"):
        prove(hop, positive=pushes(hardest_pull - 1e-9))
    with pytest.raises(ProofError, match="push is 0 at t ="):
        prove(hop, positive={"push": lambda t, q, v, z, p: z.touches})


def test_the_checker_refuses_numbers_that_are_not_positive(proved, hardest_pull):
    data = json.loads(json.dumps(dict(proved.data)))
    liebody_check.check(data)
    constants = [None if isinstance(x, list) else float.fromhex(x) for x in data["constants"]]
    k = constants.index(hardest_pull + 1e-9)
    with pytest.raises(liebody_check.Refused, match="that push keeps its sign is not proved"):
        liebody_check.check(changed(data, ["constants", k], (hardest_pull - 1e-9).hex()))
    (i,) = [i for i, x in enumerate(data["phases"][1]["guards"]) if x.get("stated")]
    at = ["phases", 1, "guards", i]
    for entry, value, words in [
        ("sign", -1, "has no sign 1"),
        ("sign", 0, "has no sign 1"),
        ("stated", 1, "neither true nor false"),
        ("name", "push. There", "is no name"),
    ]:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(changed(data, [*at, entry], value))


def test_a_number_that_is_zero_at_the_end_of_a_phase_is_not_positive(hop, proved):
    """The height over the ground is positive in flight, and zero at touch-down and at lift-off."""
    with pytest.raises(ProofError, match="that height is positive is not proved in step"):
        prove(hop, positive={"height": lambda t, q, v, z, p: where(z.touches > 0.5, 1.0, q[0] - 1)})
    data = json.loads(json.dumps(dict(proved.data)))
    for k, phase in enumerate(data["phases"]):
        foot = next(x for x in phase["guards"] if x["name"] == "foot")
        sign = 1 if k in (0, 3) else -1
        condition = {"name": "condition 9", "direction": 0, "function": foot["function"], "sign": sign}
        guards = [*phase["guards"], condition]
        # a condition need not hold where the phase starts or ends
        liebody_check.check(changed(data, ["phases", k, "guards"], guards))
        if sign > 0:
            stated = [*phase["guards"], {**condition, "name": "height", "stated": True}]
            with pytest.raises(liebody_check.Refused, match="that height keeps its sign"):
                liebody_check.check(changed(data, ["phases", k, "guards"], stated))


# -- at events ----------------------------------------------------------------------------------------------


def ball():
    """A ball that bounces, and is pushed on so that it returns to the same height."""
    return lb.HybridSystem(
        lb.groups.R(2), lambda t, q, v, z, p: np.array([p.wind - v[0], -10.0]),
        guards=lambda t, q, v, z, p: {"floor": q[1], "apex": v[1]}, directions={"floor": -1, "apex": -1},
        parameters={"wind": 1.0}, name="ball",
        update=lambda t, q, v, z, p, events: (
            q, np.array([v[0], where(events.floor < 0, 2 - 0.5 * v[1], v[1])]), z
        ),
    )  # fmt: skip


BOUNCING = {"period": 0.8, "section": "apex", "symmetries": [[1, 0]], "dt": 0.01}


@pytest.fixture(scope="module")
def bouncing():
    return periodic_orbit(ball(), [0, 0.8], [1, 0], **BOUNCING)


def impulse(least):
    """v+ = 2 - v/2 is 4, since v = -4: the impulse over the mass is 8."""

    def change(t, q, v, z, p, events):
        after = 2 - 0.5 * v[1]
        return where(events.floor < 0, after - v[1] - least, 1.0)

    return {"impulse": change}


def test_numbers_at_events(bouncing):
    certificate = prove(
        bouncing, positive_at_events=impulse(8 - 1e-9), positive={"speed": lambda *a: a[2][0]}
    )
    theorem = certificate.theorem()
    assert "Along the whole orbit speed > 0, by its function in the certificate." in theorem
    assert "Before the jump at the end of phase 1 impulse > 0, by its function in the certificate." in theorem
    assert [[x["name"] for x in phase.get("at_end", [])] for phase in certificate.data["phases"]] == [
        ["impulse"],
        [],
    ]
    with pytest.raises(ProofError, match="that impulse is positive is not proved at the end of phase 1 of 2"):
        prove(bouncing, positive_at_events=impulse(8 + 1e-9))
    data = json.loads(json.dumps(dict(certificate.data)))
    with pytest.raises(liebody_check.Refused, match="impulse at the end of a phase has not surely its sign"):
        liebody_check.check(
            changed(
                data,
                ["phases", 0, "at_end", 0, "function"],
                opposite(data["phases"][0]["at_end"][0]["function"]),
            )
        )
    with pytest.raises(liebody_check.Refused, match="no sign 1"):
        liebody_check.check(changed(data, ["phases", 0, "at_end", 0, "sign"], -1))


def test_numbers_must_not_change_along_a_symmetry(bouncing):
    for option in ({"positive": {"x": lambda t, q, v, z, p: q[0] + 9}},
                   {"positive_at_events": {"x": lambda t, q, v, z, p, events: q[0] + 9}}):  # fmt: skip
        with pytest.raises(ProofError, match=r"not one of the equations: .*x changes where q\[0\] moves"):
            prove(bouncing, **option)


def test_numbers_of_a_family_are_positive_for_all_of_its_orbits(bouncing):
    """The speed of the ball is that of the wind."""
    speed = {"speed": lambda t, q, v, z, p: v[0] - 0.98}
    family = prove(bouncing, parameters={"wind": ("0.99", "1.01")}, positive=speed)
    assert "Along the whole orbit speed > 0, by its function in the certificate." in family.theorem()
    data = json.loads(json.dumps(dict(family.data)))
    (k,) = [k for k, x in enumerate(data["phases"][1]["guards"]) if x.get("stated")]
    at = ["phases", 1, "guards", k, "function"]
    with pytest.raises(liebody_check.Refused, match="that speed keeps its sign is not proved"):
        liebody_check.check(changed(data, at, opposite(data["phases"][1]["guards"][k]["function"])))
    with pytest.raises(ProofError, match="that speed is positive is not proved"):
        prove(bouncing, parameters={"wind": ("0.97", "1.03")}, positive=speed)
    branch = continuation(bouncing, "wind", step=0.02, bounds=(0.99, 1.05))
    assert "speed > 0" in prove_branch(branch, positive=speed).theorem()


def test_numbers_along_the_orbit_of_a_field():
    """On the circle with radius 1, x + 1 + 1e-4 is positive, and x + 1 - 1e-9 is not everywhere."""

    def field(y):
        growth = 1 - y[0] ** 2 - y[1] ** 2
        return [growth * y[0] - y[1], growth * y[1] + y[0]]

    def circle(least):
        return prove_field(field, [1.0, 0.1], 6.28, positive={"x": lambda y: y[0] + least})

    assert "Along the whole orbit x > 0, by its function in the certificate." in circle(1 + 1e-4).theorem()
    with pytest.raises(ProofError, match="that x is positive is not proved in step"):
        circle(1 - 1e-9)
    with pytest.raises(ProofError, match=r"x is an array of shape \(2,\), expected a number"):
        prove_field(field, [1.0, 0.1], 6.28, positive={"x": lambda y: y})


def test_wrong_numbers_are_named(hop):
    one = {"push": lambda t, q, v, z, p: 1.0 + q[0] * q[0]}
    for positive, at_events, words in [
        ({"push.": one["push"]}, {}, r"'push\.' is the name of a number"),
        ({3: one["push"]}, {}, "3 is the name of a number"),
        (one, {"push": lambda t, q, v, z, p, events: 1.0}, "'push' is the name of two numbers"),
        ({"push": lambda t, q, v, z, p: q}, {}, r"push is an array of shape \(1,\), expected a number"),
    ]:
        with pytest.raises(ProofError, match=words):
            prove(hop, positive=positive, positive_at_events=at_events)
    assert "Along the whole orbit push > 0" in prove(hop, positive=one).theorem()
