"""Numbers that a theorem says are positive along an orbit, and at its events: proved, and checked again."""

from __future__ import annotations

import itertools
import json

import mpmath
import numpy as np
import pytest
from test_proofs import changed, van_der_pol
from test_proofs_phases import HOPPING, SPRING, exact_hop, hopper

import liebody as lb
from liebody.gaits import ProofError, continuation, periodic_orbit, prove, prove_branch, prove_field
from liebody.gaits.proofs.events import _keeps_its_sign
from liebody.scalars import where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check
from liebody_check.proof import keeps_its_sign


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
    assert 'In phases 2 and 3 the function "push" of the certificate is positive.' in theorem
    assert theorem.count("push") == 1 and "conditions of the functions" not in theorem
    positive = [[x["name"] for x in phase["guards"] if x.get("positive")] for phase in proved.data["phases"]]
    assert positive == [[], ["push"], ["push"], []]  # it is the constant 1 in flight


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
    with pytest.raises(liebody_check.Refused, match=r"that push is positive in phase [23] is not proved"):
        liebody_check.check(changed(data, ["constants", k], (hardest_pull - 1e-9).hex()))
    (i,) = [i for i, x in enumerate(data["phases"][1]["guards"]) if x.get("positive")]
    at = ["phases", 1, "guards", i]
    for entry, value, words in [
        ("sign", -1, "has no sign 1"),
        ("sign", 0, "has no sign 1"),
        ("positive", 1, "neither true nor false"),
        ("name", "push. There", "is no name"),
        ("name", "1 push", "is no name of a function"),
        ("name", "foot", "has the name of something else"),
        ("name", "T", "is a symbol of the theorem"),
        ("name", "J1", "is a symbol of the theorem"),
        ("name", "relative q[0]", "is a symbol of the theorem"),
        ("name", "q[0],", "is no name of a function"),
        ("name", "q[0]", "has the name of something else"),
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
            positive = [*phase["guards"], {**condition, "name": "height", "positive": True}]
            with pytest.raises(liebody_check.Refused, match="that height is positive in phase"):
                liebody_check.check(changed(data, ["phases", k, "guards"], positive))


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
    assert 'Along the whole orbit the function "speed" of the certificate is positive.' in theorem
    assert (
        'Before the jump at the end of phase 1 the function "impulse" of the certificate is positive.'
        in theorem
    )
    assert [[x["name"] for x in phase.get("at_end", [])] for phase in certificate.data["phases"]] == [
        ["impulse"],
        [],
    ]
    with pytest.raises(ProofError, match="that impulse is positive is not proved at the end of phase 1 of 2"):
        prove(bouncing, positive_at_events=impulse(8 + 1e-9))
    data = json.loads(json.dumps(dict(certificate.data)))
    with pytest.raises(
        liebody_check.Refused, match="that impulse is positive at the end of phase 1 is not proved"
    ):
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
    for option in ({"positive": {"place": lambda t, q, v, z, p: q[0] + 9}},
                   {"positive_at_events": {"place": lambda t, q, v, z, p, events: q[0] + 9}}):  # fmt: skip
        with pytest.raises(ProofError, match=r"not one of the equations: .*place changes where q\[0\] moves"):
            prove(bouncing, **option)


def test_numbers_of_a_family_are_positive_for_all_of_its_orbits(bouncing):
    """The speed of the ball is that of the wind."""
    speed = {"speed": lambda t, q, v, z, p: v[0] - 0.98}
    family = prove(bouncing, parameters={"wind": ("0.99", "1.01")}, positive=speed)
    assert 'Along the whole orbit the function "speed" of the certificate is positive.' in family.theorem()
    data = json.loads(json.dumps(dict(family.data)))
    (k,) = [k for k, x in enumerate(data["phases"][1]["guards"]) if x.get("positive")]
    at = ["phases", 1, "guards", k, "function"]
    with pytest.raises(liebody_check.Refused, match="that speed is positive in phase 2 is not proved"):
        liebody_check.check(changed(data, at, opposite(data["phases"][1]["guards"][k]["function"])))
    with pytest.raises(ProofError, match="that speed is positive is not proved"):
        prove(bouncing, parameters={"wind": ("0.97", "1.03")}, positive=speed)
    branch = continuation(bouncing, "wind", step=0.02, bounds=(0.99, 1.05))
    assert 'function "speed"' in prove_branch(branch, positive=speed).theorem()


def test_numbers_along_the_orbit_of_a_field():
    """On the circle with radius 1, x + 1 + 1e-4 is positive, and x + 1 - 1e-9 is not everywhere."""

    def field(y):
        growth = 1 - y[0] ** 2 - y[1] ** 2
        return [growth * y[0] - y[1], growth * y[1] + y[0]]

    def circle(least):
        return prove_field(field, [1.0, 0.1], 6.28, positive={"abscissa": lambda y: y[0] + least})

    assert (
        'Along the whole orbit the function "abscissa" of the certificate is positive.'
        in circle(1 + 1e-4).theorem()
    )
    with pytest.raises(ProofError, match="that abscissa is positive is not proved in step"):
        circle(1 - 1e-9)
    with pytest.raises(ProofError, match=r"abscissa is an array of shape \(2,\), expected a number"):
        prove_field(field, [1.0, 0.1], 6.28, positive={"abscissa": lambda y: y})


def test_wrong_numbers_are_named(hop):
    one = {"push": lambda t, q, v, z, p: 1.0 + q[0] * q[0]}
    for positive, at_events, words in [
        ({"push.": one["push"]}, {}, r"'push\.' is the name of a positive function"),
        ({3: one["push"]}, {}, "3 is the name of a positive function"),
        ({"push ": one["push"]}, {}, "'push ' is the name of a positive function"),
        ({"T": one["push"]}, {}, "'T' is the name of a positive function, and a symbol of theorems"),
        (one, {"push": lambda t, q, v, z, p, events: 1.0}, "'push' is the name of two positive functions"),
        ({"push": lambda t, q, v, z, p: q}, {}, r"push is an array of shape \(1,\), expected a number"),
    ]:
        with pytest.raises(ProofError, match=words):
            prove(hop, positive=positive, positive_at_events=at_events)
    assert 'Along the whole orbit the function "push"' in prove(hop, positive=one).theorem()


def test_a_function_that_is_constant_in_each_phase_is_refused(hop):
    for option in ({"positive": {"one": lambda *a: 1.0}}, {"positive_at_events": {"one": lambda *a: 2}}):
        with pytest.raises(
            ProofError, match="'one' is a constant, or a condition that does not change, in each"
        ):
            prove(hop, **option)
    for name in ("q[0]", "k", "foot", "condition 1"):
        positive = {name: lambda t, q, v, z, p: q[0] * q[0] + where(q[0] > -9, 1.0, 0.0)}
        with pytest.raises(ProofError, match=r"has the name of a state, a parameter or a guard"):
            prove(hop, positive=positive)


def test_no_name_hides_a_function_that_a_shift_changes(bouncing):
    """Functions are looked at one by one, whatever their names are."""
    for name in ("the field", "its end"):
        with pytest.raises(ProofError, match=r"changes where q\[0\] moves"):
            prove(bouncing, positive_at_events={name: lambda t, q, v, z, p, events: q[0] + 9})
        prove(bouncing, positive={name: lambda t, q, v, z, p: 9 + v[0]})


def test_memory_that_only_a_positive_function_needs_is_a_state():
    """The speed at the last bounce, and how long ago it was."""
    plain = ball()

    def update(t, q, v, z, p, events):
        q, v, _ = plain.update(t, q, v, z, p, events)
        down = events.floor < 0
        return q, v, z._replace(hit=where(down, v[0], z.hit), since=where(down, t, z.since))

    remembering = lb.HybridSystem(
        lb.groups.R(2), plain.vector_field, guards=plain.guards, directions={"floor": -1, "apex": -1},
        memory={"hit": 1.0, "since": -0.4}, parameters={"wind": 1.0}, update=update, name="remembering",
    )  # fmt: skip
    orbit = periodic_orbit(remembering, [0, 0.8], [1, 0], **BOUNCING)
    assert all(len(phase["states"]) == 4 for phase in prove(orbit).data["phases"])
    positive = {"hit above half": lambda t, q, v, z, p: z.hit - 0.5 + 0 * v[0]}
    at_events = {"later": lambda t, q, v, z, p, events: t - z.since - 0.399}
    certificate = prove(orbit, positive=positive, positive_at_events=at_events)
    states = [phase["states"][4:] for phase in certificate.data["phases"]]
    assert states == [["hit", "since since"]] * 2
    theorem = certificate.theorem()
    assert 'Along the whole orbit the function "hit above half" of the certificate is positive.' in theorem
    assert 'Before each jump the function "later" of the certificate is positive.' in theorem
    with pytest.raises(
        ProofError, match="that later is positive is not proved at the end of phase 2 of 2: it"
    ):
        prove(orbit, positive_at_events={"later": lambda t, q, v, z, p, events: t - z.since - 0.401})


# -- what the checker must not believe ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def oscillating():
    """The orbit of van der Pol's oscillator goes around the origin."""
    orbit = periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")
    certificate = prove(orbit, positive={"size": lambda t, q, v, z, p: q[0] ** 2 + v[0] ** 2})
    return json.loads(json.dumps(dict(certificate.data)))


def with_function(data, nodes, **entries):
    """The certificate with another positive function: operations behind the states, constants as numbers."""
    data = json.loads(json.dumps(data))
    rows = data["field"]["nodes"][:2]
    for op, *operands in nodes:
        if op == "constant":
            (number,) = operands
            data["constants"].append(number if isinstance(number, str) else number.hex())
            operands = [len(data["constants"]) - 1]
        rows.append([op, *operands])
    function = {"nodes": rows, "outputs": [len(rows) - 1]}
    (k,) = [k for k, x in enumerate(data["guards"]) if x.get("positive")]
    data["guards"][k] = {**data["guards"][k], "name": "turn", "function": function, **entries}
    return data


@pytest.mark.parametrize("steps", ["python", "c"])
def test_an_angle_that_jumps_is_no_growing_function(oscillating, steps):
    """arctan2(q, v) jumps from pi to -pi where its rate is finite and positive."""
    turn = [("arctan2", 0, 1), ("constant", 1.0), ("add", 2, 3)]
    half = [("arctan2", 0, 1), ("constant", 3.0), ("add", 2, 3)]
    for data in (
        with_function(oscillating, turn),
        with_function(oscillating, half, sign=0, positive=False, direction=-1),
        with_function(oscillating, turn, sign=0, positive=False),
    ):
        with pytest.raises(
            liebody_check.Refused, match=r"that turn is positive|another event of the guard turn"
        ):
            liebody_check.check(data, steps)
    # an angle that stays away from there
    away = [
        ("mul", 1, 1),
        ("constant", 1.0),
        ("add", 2, 3),
        ("arctan2", 0, 4),
        ("constant", 1.6),
        ("add", 5, 6),
    ]
    assert 'the function "turn"' in liebody_check.check(with_function(oscillating, away), steps).theorem


@pytest.mark.parametrize("steps", ["python", "c"])
def test_what_is_not_defined_is_not_positive(oscillating, steps):
    """1 + 0 log(-1 - q^2), and the same with a root."""
    for op in ("log", "sqrt"):
        nodes = [("mul", 0, 0), ("constant", -1.0), ("sub", 3, 2), (op, 4), ("constant", 0.0), ("mul", 6, 5)]
        nodes += [("constant", 1.0), ("add", 7, 8)]
        with pytest.raises(
            liebody_check.Refused, match=r"that turn is positive|is not defined|does not exist|may be zero"
        ):
            liebody_check.check(with_function(oscillating, nodes), steps)
    # 0 / (3 (1/3) - 1): the denominator is zero, and known as a small ball around it
    nodes = [("constant", "1/3"), ("constant", 3.0), ("mul", 2, 3), ("constant", 1.0), ("sub", 4, 5)]
    nodes += [("constant", 0.0), ("div", 7, 6), ("add", 8, 5)]
    with pytest.raises(liebody_check.Refused, match=r"that turn is positive|is not defined|may be zero"):
        liebody_check.check(with_function(oscillating, nodes), steps)
    # a root that has no bounds over long pieces
    nodes = [("mul", 0, 0), ("constant", 0.01), ("add", 2, 3), ("sqrt", 4)]
    assert 'the function "turn"' in liebody_check.check(with_function(oscillating, nodes), steps).theorem


def test_there_is_no_state_before_a_jump_that_does_not_exist(oscillating):
    nothing = {"nodes": oscillating["field"]["nodes"][:2], "outputs": [0]}
    entry = {"function": nothing, "sign": 1, "name": "impulse"}
    with pytest.raises(liebody_check.Refused, match="a phase without a jump has no state before it"):
        liebody_check.check({**oscillating, "at_end": [entry]})


def test_names_are_used_once_in_a_phase(proved):
    data = json.loads(json.dumps(dict(proved.data)))
    guards = data["phases"][1]["guards"]
    (one,) = [x for x in guards if x.get("positive")]
    with pytest.raises(liebody_check.Refused, match="two functions have the name 'push'"):
        liebody_check.check(changed(data, ["phases", 1, "guards"], [*guards, one]))
    entry = {"function": one["function"], "sign": 1, "name": "push"}
    with pytest.raises(liebody_check.Refused, match="two functions have the name 'push'"):
        liebody_check.check(changed(data, ["phases", 1, "at_end"], [entry]))


@pytest.mark.parametrize("rule", [_keeps_its_sign, keeps_its_sign])
def test_signs_follow_from_those_of_rates(rule):
    """Piecewise linear functions, whose exact signs over pieces are known, with values and rates left out."""
    random = np.random.default_rng(4)
    kept = 0
    for _ in range(4000):
        n = random.integers(1, 6)
        values = random.integers(-2, 9, n + 1)
        pieces = []
        for a, b in itertools.pairwise(values.tolist()):
            sign = 1 if min(a, b) > 0 else -1 if max(a, b) < 0 else 0
            rate = (b > a) - (b < a)
            pieces.append((sign * int(random.uniform() < 0.5), rate * int(random.uniform() < 0.8)))
        ends = [int(np.sign(x)) * int(random.uniform() < 0.8) for x in values[[0, -1]]]
        if rule(pieces, 1, *ends):
            kept += 1
            assert values.min() > 0
        opposite = [(-a, -b) for a, b in pieces]
        assert rule(opposite, -1, -ends[0], -ends[1]) == rule(pieces, 1, *ends)
    assert kept > 500
