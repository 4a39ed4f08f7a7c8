"""Proved orbits with several events in a period: order, memory, stability, and other events excluded."""

from __future__ import annotations

import json

import mpmath
import numpy as np
import pytest
from found import load_example
from test_proofs import bounds_of, changed, refused

import liebody as lb
from liebody.compiler.native.intervals import has_extended_precision
from liebody.gaits import ProofError, periodic_orbit, prove
from liebody.scalars import cos, maximum, sin, sqrt, where

pytest.importorskip("flint", reason="the checker is built on Arb")
import liebody_check
from liebody_check.reading import read

GRAVITY = 9.81


def contains(ball, exact):
    """Whether a number of many digits lies in a ball of Arb."""
    low, high = (mpmath.mpf(x.mid().str(40, radius=False)) for x in (ball.lower(), ball.upper()))
    return low <= exact <= high


# -- a mass that hops on a spring ---------------------------------------------------------------------------

SPRING = {"k": 400.0, "more": 120.0, "d": 2.0}


def hopper(guards=None):
    """A mass of 1 kg on a leg of 1 m: from its lowest point on the spring is stiffer by a share."""

    def field(t, q, v, z, p):
        force = (p.k + z.pushes * p.more) * (1 - q[0]) - p.d * v[0]
        return np.array([z.touches * force - GRAVITY])

    def update(t, q, v, z, p, events):
        touches = where(events.foot < 0, 1.0, where(events.foot > 0, 0.0, z.touches))
        pushes = where(events.turn > 0, 1.0, where(events.foot > 0, 0.0, z.pushes))
        return z._replace(touches=touches, pushes=pushes)

    return lb.HybridSystem(
        lb.groups.R(1), field, memory={"touches": 0.0, "pushes": 0.0}, parameters=SPRING,
        guards=lambda t, q, v, z, p: {"foot": q[0] - 1, "turn": v[0], **(guards(q, v, z) if guards else {})},
        update=update, name="vertical hopper",
    )  # fmt: skip


HOPPING = {"period": 0.6, "section": ("turn", -1), "dt": 1e-3, "method": "rkmk8"}


def zero_between(f, low, high):
    """The zero of a function that changes its sign once, by bisection and then the secant method."""
    sign = mpmath.sign(f(low))
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.sign(f(middle)) == sign else (low, middle)
    return mpmath.findroot(f, (low, high))


def exact_hop(height):
    """Apex to apex by closed forms: height of the next one, and durations of the four phases."""
    g, k, more, d = map(mpmath.mpf, (GRAVITY, SPRING["k"], SPRING["more"], SPRING["d"]))

    def stance(x0, v0, stiffness):
        """x'' = -stiffness x - d x' - g with x = q - 1: x and x' as functions of time."""
        rest = -g / stiffness
        rate, omega = d / 2, mpmath.sqrt(stiffness - d * d / 4)
        a, b = x0 - rest, (v0 + rate * (x0 - rest)) / omega

        def x(t):
            wave = a * mpmath.cos(omega * t) + b * mpmath.sin(omega * t)
            return rest + mpmath.exp(-rate * t) * wave

        def v(t):
            wave = a * mpmath.cos(omega * t) + b * mpmath.sin(omega * t)
            slope = omega * (b * mpmath.cos(omega * t) - a * mpmath.sin(omega * t))
            return mpmath.exp(-rate * t) * (slope - rate * wave)

        return x, v, mpmath.pi / omega

    fall = mpmath.sqrt(2 * (height - 1) / g)
    x, v, half = stance(mpmath.mpf(0), -g * fall, k)
    down = zero_between(v, 0.3 * half, half)
    x2, v2, half = stance(x(down), mpmath.mpf(0), k + more)
    up = zero_between(x2, 0.3 * half, half)
    rise = v2(up) / g
    return 1 + g * rise * rise / 2, [fall, down, up, rise]


@pytest.fixture(scope="module")
def hop():
    return periodic_orbit(hopper(), [1.2], [0.0], **HOPPING)


@pytest.fixture(scope="module")
def hopping(hop):
    return prove(hop)


def test_a_hop_of_four_phases_is_that_of_the_closed_form(hop, hopping):
    with mpmath.workdps(40):
        height = mpmath.findroot(lambda h: exact_hop(h)[0] - h, float(hop.q[0]))
        _, times = exact_hop(height)
        slope = mpmath.diff(lambda h: exact_hop(h)[0], height)
        proof = hopping.check()
        assert contains(proof.nodes[0][0], height)
        for ball, exact in zip(proof.durations, times, strict=True):
            assert contains(ball, exact)
        assert contains(proof.period, sum(times))
        assert contains(proof.multipliers[0].real, slope) or contains(proof.multipliers[1].real, slope)
    low, high = hopping.period
    assert high - low < 1e-12 and low <= float(sum(times)) <= high
    assert hopping.stable and proof.stable and proof.least
    assert len(hopping.durations) == 4 and len(hopping.nodes) == len(hopping.times)


def test_memory_is_a_constant_of_each_phase(hopping):
    theorem = hopping.theorem()
    assert "Let y move in 4 phases" in theorem
    assert "passes these phases once, in this order" in theorem
    # flags have no state: they are decided by the order of events
    assert all(phase["states"] == ["q[0]", "v[0]"] for phase in hopping.data["phases"])
    assert [phase["section"]["event"] for phase in hopping.data["phases"]] == ["foot", "turn", "foot", "turn"]
    assert "Within its phases there is no event of: foot, turn." in theorem


# -- a ball on a moving table -------------------------------------------------------------------------------

OMEGA, REST, TURN, LIFT = 2 * np.pi, 0.8, 2 * np.pi, 0.1


def ball_on_a_table():
    """A ball bounces on a table at the height a sin(angle - 1); the angle turns back after each round."""

    def update(t, q, v, z, p, events):
        speed = p.a * OMEGA * cos(z.angle - 1)
        bounced = where(events.table < 0, (1 + p.e) * speed - p.e * v[0], v[0])
        return q, np.array([bounced]), z._replace(angle=where(events.round > 0, z.angle - TURN, z.angle))

    return lb.HybridSystem(
        lb.groups.R(1), lambda t, q, v, z, p: np.array([-GRAVITY]), flows={"angle": 0.0},
        rates=lambda t, q, v, z, p: {"angle": OMEGA}, parameters={"a": LIFT, "e": REST},
        guards=lambda t, q, v, z, p: {"table": q[0] - p.a * sin(z.angle - 1), "round": z.angle - TURN},
        directions={"table": -1, "round": 1}, update=update, name="ball on a table",
    )  # fmt: skip


def test_a_ball_on_a_moving_table_is_that_of_the_closed_form():
    """The speed of the table at impacts and the multipliers are known (test_gaits has the same ball)."""
    e, a = REST, LIFT
    speed = (1 - e) / (1 + e) * GRAVITY / 2
    phase = np.arccos(speed / (a * OMEGA))
    t = (1 + phase) / OMEGA
    q0 = a * np.sin(phase) + GRAVITY / 2 * (1 - t) - GRAVITY / 2 * (1 - t) ** 2
    v0 = GRAVITY / 2 - GRAVITY * (1 - t)
    orbit = periodic_orbit(
        ball_on_a_table(), [q0 + 1e-3], [v0], period=1.0, section="round", dt=0.01, method="rkmk8"
    )
    assert orbit.events == (("table", -1),)
    certificate = prove(orbit)
    proof = certificate.check()
    for ball, value in zip(proof.nodes[0], [q0, v0], strict=False):
        low, high = bounds_of(ball)
        assert low - 1e-14 < value < high + 1e-14 and high - low < 1e-13
    low, high = bounds_of(proof.period)
    assert low <= 1.0 <= high
    k, turn = 1 / (speed + GRAVITY / 2), -(1 + e) * a * OMEGA**2 * np.sin(phase)
    wanted = np.linalg.eigvals([[1, k], [turn, turn * k - e + e * GRAVITY * k]])
    found = sorted((complex(x.real.mid(), x.imag.mid()) for x in proof.multipliers), key=abs)[1:]
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(wanted), atol=1e-9)
    assert proof.stable and certificate.stable
    # the angle is a state of its phases
    assert all(phase["states"] == ["q[0]", "v[0]", "angle"] for phase in certificate.data["phases"])


# -- what is refused ----------------------------------------------------------------------------------------


def test_an_event_more_or_a_graze_is_not_overlooked(hop):
    """A further guard that is crossed is a phase; one that is touched is refused."""
    apex = float(hop.q[0])
    crossed = prove(periodic_orbit(hopper(lambda q, v, z: {"high": q[0] - 1.1}), [1.2], [0.0], **HOPPING))
    assert [x["section"]["event"] for x in crossed.data["phases"]] == [
        "high", "foot", "turn", "foot", "high", "turn",
    ]  # fmt: skip
    assert crossed.check().least
    quiet = prove(periodic_orbit(hopper(lambda q, v, z: {"high": q[0] - 2}), [1.2], [0.0], **HOPPING))
    assert "no event of: foot, turn, high" in quiet.theorem()
    grazing = hopper(lambda q, v, z: {"high": q[0] - apex - 1e-14})
    with pytest.raises(ProofError, match="whether high has another event"):
        prove(periodic_orbit(grazing, [1.2], [0.0], **HOPPING))


def test_an_event_that_is_claimed_away_is_refused(hopping):
    data = json.loads(json.dumps(dict(hopping.data)))
    states = data["phases"][0]["field"]["nodes"][:2]
    constant = next(k for k, x in enumerate(data["constants"]) if float.fromhex(x) == 1.0)
    # q - 1 is zero between the phases, so that as a guard of phase 1 it has its event there
    function = {"nodes": [*states, ["constant", constant], ["sub", 0, 2], ["add", 3, 1]], "outputs": [4]}
    data["phases"][0]["guards"].append({"name": "other", "direction": 0, "function": function})
    with pytest.raises(liebody_check.Refused, match="another event of the guard other"):
        liebody_check.check(data)


def mutants(data):
    """(what, certificate): order, functions, numbers of phases, changed once each."""
    count = len(data["phases"])
    for k in range(count):
        at = ["phases", k]
        phase = data["phases"][k]
        other = (k + 1) % count
        yield f"{k}: direction", changed(data, [*at, "section", "direction"], -phase["section"]["direction"])
        yield f"{k}: field of another phase", changed(data, [*at, "field"], data["phases"][other]["field"])
        yield (
            f"{k}: section of another phase",
            changed(data, [*at, "section"], data["phases"][other]["section"]),
        )
        yield f"{k}: factor", changed(data, [*at, "factor"], (1.01).hex())
        for i, row in enumerate(phase["nodes"]):
            for j, x in enumerate(row):
                yield (
                    f"{k}: node {i}, {j}",
                    changed(data, [*at, "nodes", i, j], (float.fromhex(x) + 1e-3).hex()),
                )
        for i, w in enumerate(phase["durations"]):
            yield f"{k}: duration {i}", changed(data, [*at, "durations", i], (float.fromhex(w) * 1.1).hex())
        for j, (op, *operands) in enumerate(phase["section"]["jump"]["nodes"]):
            if op == "constant":
                yield (
                    f"{k}: jump {j}",
                    changed(
                        data,
                        [*at, "section", "jump", "nodes", j, 1],
                        (operands[0] + 1) % len(data["constants"]),
                    ),
                )
        for j, x in enumerate(phase["section"]["jump"]["outputs"]):
            yield (
                f"{k}: output {j} of the jump",
                changed(data, [*at, "section", "jump", "outputs", j], 1 - x if x < 2 else 0),
            )
        yield f"{k}: no phase", changed(data, ["phases"], data["phases"][:k] + data["phases"][k + 1 :])
    for k, x in enumerate(data["constants"]):
        yield f"constant {k}", changed(data, ["constants", k], (float.fromhex(x) * 1.1 + 0.01).hex())
    for k, (name, x) in enumerate(data["parameters"]):
        yield f"parameter {name}", changed(data, ["parameters", k, 1], (float.fromhex(x) * 1.1).hex())
    yield "radius", changed(data, ["radius"], (0.3).hex())


@pytest.fixture(scope="module")
def narrow(hop):
    return dict(prove(hop, radius=1e-7).data)


def test_a_certificate_of_phases_that_was_changed_once_is_refused(narrow):
    assert not refused(narrow)
    every = [(what, x) for what, x in mutants(narrow) if x != narrow]
    assert len(every) > 60
    assert [what for what, data in every if not refused(data)] == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["format"], "liebody certificate 1", "KeyError"),
        (["phases"], [], "no phases"),
        (["phases", 0, "section"], {"coordinate": 0}, "KeyError"),
        (["phases", 0, "states"], ["q[0]"], "node 1 is no"),
        (["phases", 1, "section", "jump", "outputs"], [0], "1 results, expected 2"),
        (["phases", 1, "factor"], "0x0p+0", "factor"),
    ],
)
def test_files_that_are_no_certificates_of_phases_are_refused(narrow, path, value, words):
    with pytest.raises(liebody_check.Refused, match=words):
        liebody_check.check(changed(narrow, path, value))


def test_events_at_one_time_are_refused():
    both = hopper(lambda q, v, z: {"twin": q[0] - 1})
    with pytest.raises(ProofError, match="at one time"):
        prove(periodic_orbit(both, [1.2], [0.0], **HOPPING))


# -- up to a shift ------------------------------------------------------------------------------------------


def rimless_wheel():
    """Spokes of 1 m at angles 2 ALPHA apart roll down a slope; q[1] is the place of the hub along it."""

    def field(t, q, v, z, p):
        turn = GRAVITY * sin(q[0] + p.slope)
        return np.array([turn, cos(q[0]) * turn - sin(q[0]) * v[0] ** 2])

    def update(t, q, v, z, p, events):
        struck = events.strike > 0
        after = cos(2 * ALPHA) * v[0]
        return (
            np.array([where(struck, q[0] - 2 * ALPHA, q[0]), q[1]]),
            np.array([where(struck, after, v[0]), where(struck, cos(ALPHA) * after, v[1])]),
            z,
        )

    return lb.HybridSystem(
        lb.groups.R(2), field, parameters={"slope": 0.08}, update=update, name="rimless wheel",
        guards=lambda t, q, v, z, p: {"strike": q[0] - ALPHA}, directions={"strike": 1},
    )  # fmt: skip


ALPHA = 0.3


def test_a_rimless_wheel_rolls_forward_as_its_closed_form_says():
    """McGeer (1990): the speed before a strike, w^2 = 4 g sin(alpha) sin(slope) / (1 - cos(2 alpha)^2)."""
    orbit = periodic_orbit(
        rimless_wheel(), [-ALPHA, 0.0], [1.0, 0.95], period=0.7, section="strike", symmetries=[[0, 1]],
        dt=1e-3, method="rkmk8",
    )  # fmt: skip
    certificate = prove(orbit)
    proof = certificate.check()
    with mpmath.workdps(40):
        alpha, slope = mpmath.mpf(ALPHA), mpmath.mpf(0.08)
        # the double that is traced in place of cos(2 alpha)
        lost = mpmath.mpf(float(np.cos(2 * ALPHA)))
        g = mpmath.mpf(GRAVITY)
        last = mpmath.sqrt(4 * g * mpmath.sin(alpha) * mpmath.sin(slope) / (1 - lost**2))
        start = lost * last
        time = mpmath.quad(
            lambda x: 1 / mpmath.sqrt(start**2 + 2 * g * (mpmath.cos(slope - alpha) - mpmath.cos(x + slope))),
            [-alpha, -slope, alpha],
        )
        assert contains(proof.nodes[0][2], start)
        assert contains(proof.period, time)
        # the hub's speed starts with the double of cos(alpha), not with cos(alpha) itself
        spurious = (mpmath.mpf(float(np.cos(ALPHA))) - mpmath.cos(alpha)) * start * time
        assert contains(proof.shift[0], 2 * mpmath.sin(alpha) + spurious)
        largest = lost**2
    # two multipliers are zero, which no disc separates; powers of the derivative bound the largest
    assert certificate.stable and proof.stable and proof.least
    for ball, exact in zip(proof.multipliers, (largest, 0, 0), strict=True):
        assert contains(ball.real, exact) and ball.imag.contains(0)
    for bound in (float(proof.modulus), certificate.largest_multiplier):
        assert largest < bound < 1.02 * largest
    assert "All have a modulus below" in proof.theorem
    low, high = certificate.shift[0]
    assert high - low < 1e-13 and low <= 2 * np.sin(ALPHA) + 1e-15 and 2 * np.sin(ALPHA) - 1e-15 <= high
    assert "In each period q[1] moves by 0.59104" in proof.theorem


def runner():
    """A mass on a spring of 1 m, which lands at an angle and is stiffer from its shortest length on."""

    def leg(q, z):
        r = q - np.array([z.foot, 0.0])
        return r, sqrt(r @ r)

    def field(t, q, v, z, p):
        r, length = leg(q, z)
        force = (p.k + z.pushes * p.more) * (1 - length) - p.d * (r @ v) / length
        return z.touches * force / length * r - np.array([0, GRAVITY])

    def guards(t, q, v, z, p):
        r, length = leg(q, z)
        stance = z.touches > 0.5
        return {
            "down": where(stance, 1.0, q[1] - sin(p.angle)),
            "up": where(stance, length - 1, -1.0),
            "shortest": where(stance, r @ v, -1.0),
            "apex": where(stance, -1.0, v[1]),
        }

    def update(t, q, v, z, p, events):
        down, up = events.down < 0, events.up > 0
        return z._replace(
            touches=where(down, 1.0, where(up, 0.0, z.touches)),
            pushes=where(events.shortest > 0, 1.0, where(up, 0.0, z.pushes)),
            foot=where(down, q[0] + cos(p.angle), z.foot),
        )

    return lb.HybridSystem(
        lb.groups.R(2), field, memory={"touches": 0.0, "pushes": 0.0, "foot": 0.0}, guards=guards,
        parameters={"k": 250.0, "more": 64.0, "d": 1.0, "angle": 1.1834}, update=update, name="runner",
        directions={"down": -1, "up": 1, "shortest": 1, "apex": -1}, stop=lambda t, q, v, z, p: 0.2 - q[1],
    )  # fmt: skip


RUNNING = {"period": 0.4, "section": "apex", "symmetries": [[1, 0]], "dt": 2e-3, "method": "rkmk8"}


@pytest.fixture(scope="module")
def running():
    return prove(periodic_orbit(runner(), [0, 1.0], [5, 0], **RUNNING))


def test_a_runner_on_a_spring_is_proved_up_to_its_stride(running):
    orbit = periodic_orbit(runner(), [0, 1.0], [5, 0], **RUNNING)
    proof = running.check()
    for value, ball in zip([orbit.period, orbit.shift[0]], [proof.period, proof.shift[0]], strict=True):
        low, high = bounds_of(ball)
        assert high - low < 1e-12 and low - 1e-9 < value < high + 1e-9
    assert running.stable and proof.stable and proof.least
    largest = max(float(abs(x).mid()) for x in proof.multipliers)
    assert largest == pytest.approx(np.abs(orbit.multipliers).max(), abs=1e-5)
    # the foot is a state where it is on the ground, and moves with q[0]; in flight nothing depends on it
    assert [len(phase["states"]) for phase in running.data["phases"]] == [4, 5, 5, 4]
    assert "All of them stay as they are where q[0] grows by s, foot grows by s." in proof.theorem
    assert "no event of: down, apex, stop, up, shortest." in proof.theorem


def runner_that_waits():
    """The runner, which lands anew only after a while in the air; it keeps the time of lift-off."""
    plain = runner()

    def update(t, q, v, z, p, events):
        lands = (events.down < 0) & (t - z.left > 0.05)
        up = events.up > 0
        return z._replace(
            touches=where(events.down < 0, 1.0, where(up, 0.0, z.touches)),
            pushes=where(events.shortest > 0, 1.0, where(up, 0.0, z.pushes)),
            foot=where(lands, q[0] + cos(p.angle), z.foot),
            left=where(up, t, z.left),
        )

    return lb.HybridSystem(
        lb.groups.R(2), plain.vector_field, memory={**plain.memory.defaults, "left": -1.0}, update=update,
        guards=plain.guards, parameters=plain.parameters.defaults, name="runner that waits",
        directions=dict(zip(plain.guard_names, plain.directions, strict=True)), stop=plain.stop,
    )  # fmt: skip


def test_a_time_in_the_memory_is_a_state_that_grows(running):
    certificate = prove(periodic_orbit(runner_that_waits(), [0, 1.0], [5, 0], **RUNNING))
    states = [phase["states"][4:] for phase in certificate.data["phases"]]
    assert states == [["since left"], ["foot"], ["foot"], ["since left"]]
    proof = certificate.check()
    assert proof.period.overlaps(running.check().period) and proof.period.rad() < 1e-12
    # at the apex, as long ago as the last phase takes
    assert proof.nodes[0][4].overlaps(proof.durations[-1])
    assert "since left grows by" not in proof.theorem


def test_a_dependence_on_the_time_itself_is_refused():
    waits = runner_that_waits()

    def field(t, q, v, z, p):
        return waits.vector_field(t, q, v, z, p) + 1e-13 * t  # too little for a simulation to see

    driven = lb.HybridSystem(
        lb.groups.R(2), field, memory=waits.memory.defaults, update=waits.update, guards=waits.guards,
        parameters=waits.parameters.defaults, name="driven runner", stop=waits.stop,
        directions=dict(zip(waits.guard_names, waits.directions, strict=True)),
    )  # fmt: skip
    with pytest.raises(ProofError, match="depends on the time t"):
        prove(periodic_orbit(driven, [0, 1.0], [5, 0], **RUNNING))


def test_a_floating_body_moves_as_the_runner_does(running):
    """The runner's mass as a body of a plane, which a spring holds upright: velocities are along its axes."""
    plain = runner()

    def axes(q):
        return np.array([[cos(q[0]), -sin(q[0])], [sin(q[0]), cos(q[0])]])

    def field(t, q, v, z, p):
        R = axes(q)
        a = R.T @ plain.vector_field(t, q[1:], R @ v[1:], z, p)
        return np.array([-9 * q[0] - 3 * v[0], a[0] + v[0] * v[2], a[1] - v[0] * v[1]])

    floating = lb.HybridSystem(
        lb.groups.SE2, field, memory=plain.memory.defaults, name="floating runner",
        guards=lambda t, q, v, z, p: plain.guards(t, q[1:], axes(q) @ v[1:], z, p),
        update=lambda t, q, v, z, p, e: plain.update(t, q[1:], axes(q) @ v[1:], z, p, e),
        parameters=plain.parameters.defaults, stop=lambda t, q, v, z, p: 0.2 - q[2],
        directions=dict(zip(plain.guard_names, plain.directions, strict=True)),
    )  # fmt: skip
    options = {**RUNNING, "symmetries": [[0, 1, 0]]}
    certificate = prove(periodic_orbit(floating, [0, 0, 1.0], [0, 5, 0], **options), radius=1e-6)
    proof = certificate.check()
    assert proof.period.overlaps(running.check().period) and proof.shift[0].overlaps(running.check().shift[0])
    assert proof.period.rad() < 1e-12 and certificate.stable


def test_groups_whose_coordinates_are_matrices_are_named():
    class Turns(lb.groups.LieGroup):
        n, dim = 2, 1

        def hat(self, u):
            return np.array([[0, -u[0]], [u[0], 0]])

    wheel = lb.HybridSystem(Turns(), lambda t, q, v, z, p: 1 - v, name="wheel")
    with pytest.raises(ProofError, match=r"its group is Turns; .* global coordinates"):
        prove(periodic_orbit(wheel, [1.0, 0, 0, 1.0], [1.0], period=2 * np.pi, dt=0.01))


def test_symmetries_that_were_changed_are_refused(running):
    data = json.loads(json.dumps(dict(running.data)))
    at = ["symmetries", 0]
    one, nothing = (1.0).hex(), (0.0).hex()
    cases = [
        ([*at, "coordinate"], 1, "does not move its coordinate"),
        ([*at, "along", 0], [one, one, nothing, nothing], "function of phase 1"),
        ([*at, "along", 1], [one, nothing, nothing, nothing, nothing], "jump of phase 1|function of phase 2"),
        ([*at, "along", 1], [one], "not as many entries"),
        ([*at, "shift"], (float.fromhex(data["symmetries"][0]["shift"]) + 1e-3).hex(), "no orbit"),
        (["symmetries"], [], "no orbit|singular"),
        (["symmetries"], data["symmetries"] * 2, "another one moves it"),
    ]
    for path, value, words in cases:
        with pytest.raises(liebody_check.Refused, match=words):
            liebody_check.check(changed(data, path, value))


def test_conditions_of_a_jump_must_hold_along_a_symmetry(running):
    """q[0], the first state, is positive at the end of phase 1, but not in all translations along it."""
    data = json.loads(json.dumps(dict(running.data)))
    states = data["phases"][0]["field"]["nodes"][:4]

    def with_condition(state, sign):
        function = {"nodes": states, "outputs": [state]}
        known = data["phases"][0].get("at_end", [])
        return changed(data, ["phases", 0, "at_end"], [*known, {"function": function, "sign": sign}])

    # the height is positive, and no translation changes it
    assert "conditions of the functions have their signs" in liebody_check.check(with_condition(1, 1)).theorem
    with pytest.raises(liebody_check.Refused, match="not surely its sign"):
        liebody_check.check(with_condition(1, -1))
    with pytest.raises(liebody_check.Refused, match="function of phase 1 is not seen to be unchanged"):
        liebody_check.check(with_condition(0, 1))
    # without the symmetry, the condition itself would hold
    assert running.check().nodes[len(data["phases"][0]["durations"])][0] > 0


def test_a_symmetry_that_the_equations_do_not_have_is_refused():
    """A slope of the ground changes the height of touch-down: translations along q[0] are no symmetry."""
    uphill = lb.HybridSystem(
        lb.groups.R(2), lambda t, q, v, z, p: np.array([-v[0] + 1 + 1e-9 * q[0], -GRAVITY]),
        guards=lambda t, q, v, z, p: {"floor": q[1]}, directions={"floor": -1}, name="uphill",
        update=lambda t, q, v, z, p, events: (
            q, np.array([v[0], where(events.floor < 0, 2 - 0.5 * v[1], v[1])]), z
        ),
    )  # fmt: skip
    orbit = periodic_orbit(
        uphill, [0, 0], [1, 4], period=0.8, section="floor", symmetries=[[1, 0]], dt=0.01, tolerance=1e-8
    )
    with pytest.raises(ProofError, match=r"the field changes where q\[0\] moves"):
        prove(orbit)


# -- conditions ---------------------------------------------------------------------------------------------


def hopper_by_conditions():
    """The vertical hopper, whose flag and force follow from conditions on the state, not from events."""

    def field(t, q, v, z, p):
        pressed = maximum(1 - q[0], 0.0)
        stiffness = where((v[0] > 0) & (z.touches > 0.5), p.k + p.more, p.k)
        return np.array([stiffness * pressed - p.d * v[0] * z.touches - GRAVITY])

    return lb.HybridSystem(
        lb.groups.R(1), field, memory={"touches": 0.0}, parameters=SPRING,
        guards=lambda t, q, v, z, p: {"foot": 1 - q[0], "turn": v[0]},
        update=lambda t, q, v, z, p, events: z._replace(touches=where(1 - q[0] > 0, 1.0, 0.0)),
        name="hopper by conditions",
    )  # fmt: skip


def test_conditions_are_decided_by_the_phase_and_proved_along_it(hopping):
    certificate = prove(periodic_orbit(hopper_by_conditions(), [1.2], [0.0], **HOPPING))
    proof = certificate.check()
    # the same motion as that of the hopper with flags that events set
    for low, high in (bounds_of(proof.period), certificate.period):
        assert low < hopping.period[1] and hopping.period[0] < high and high - low < 1e-12
    signs = [[x["sign"] for x in phase["guards"] if "sign" in x] for phase in certificate.data["phases"]]
    assert signs == [[-1], [1, -1], [1, 1], [-1]]
    assert "conditions of the functions have their signs" in proof.theorem


def test_a_condition_with_another_sign_is_refused(hopping):
    certificate = prove(periodic_orbit(hopper_by_conditions(), [1.2], [0.0], **HOPPING))
    data = json.loads(json.dumps(dict(certificate.data)))
    for k, phase in enumerate(data["phases"]):
        for i, guard in enumerate(phase["guards"]):
            if "sign" in guard:
                other = changed(data, ["phases", k, "guards", i, "sign"], -guard["sign"])
                with pytest.raises(liebody_check.Refused, match="condition"):
                    liebody_check.check(other)


def test_a_condition_that_changes_on_the_way_needs_an_event():
    switching = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([(1 - abs(q[0])) * v[0] - q[0]]),
        guards=lambda t, q, v, z, p: {"middle": q[0]},
        name="kinked",
    )
    orbit = periodic_orbit(switching, [2.0], [0.0], period=6.5, dt=0.01, method="rkmk8")
    certificate = prove(orbit)
    proof = certificate.check()
    assert proof.stable and len(certificate.data["phases"]) == 3
    assert abs(float(proof.period.mid()) - orbit.period) < 1e-8 and float(proof.period.rad()) < 1e-12
    with pytest.raises(ProofError, match="make its change an event"):
        prove(periodic_orbit(lb.HybridSystem(
            lb.groups.R(1), lambda t, q, v, z, p: np.array([(1 - abs(q[0])) * v[0] - q[0]]), name="kinked",
        ), [2.0], [0.0], period=6.5, dt=0.01))  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not has_extended_precision(), reason="doubles know the ends of its steps too badly")
def test_the_hopper_of_the_gaits_page_is_proved(tmp_path):
    """52 s of processor time on two shared cores (Intel Xeon, GCC 12)."""
    from liebody.contact import Contact
    from liebody.hybrid import Apex, Fall, controller_2, robot_system

    controller = controller_2("foot", K_r=2200, r_des=0.1410659, D_r=20, K_p=6, K_E=10, E_des=2.8382)
    floor = Contact("foot", settling=0.05, corners=True)
    system = robot_system(lb.models.revolute_hopper(), controller, floor, Apex(), Fall(0.03), ledger=False)
    hopping = {"section": "apex", "symmetries": [[0, 1, 0, 0]], "period": 0.37}
    gait = periodic_orbit(
        system, [-2.5243, 2.7676, 0.2574, 1.7802], [0.3301, -0.1919, 0.1263, 0.0], **hopping
    )
    certificate = prove(gait)
    low, high = certificate.period
    assert low <= 0.3719972412601437 <= high and high - low < 1e-11
    low, high = certificate.shift[0]
    assert low <= 0.0877651650378935 <= high and high - low < 1e-11
    assert len(certificate.data["phases"]) == 12 and len(certificate.nodes) > 20000
    assert certificate.stable and certificate.largest_multiplier < 0.8
    certificate.save(tmp_path / "hopper.json")
    claim = read(json.loads((tmp_path / "hopper.json").read_text()))
    assert claim.nodes == len(certificate.nodes) and len(set(claim.radii)) > 1000


@pytest.mark.slow
@pytest.mark.skipif(not has_extended_precision(), reason="doubles know the ends of its steps too badly")
def test_the_biped_of_the_gaits_page_is_proved(tmp_path):
    """125 s of processor time on two shared cores (Intel Xeon, GCC 12), and 295 s for the checker."""
    example = load_example("planar_biped")
    q = [0.218548, 0.785901, 0.0, -0.455095, 0.114816, -0.124753, 0.155249]
    v = [0.88311, 0.31365, 0.85932, -0.68958, 1.90103, -0.40878, 1.23983]
    parameters = {"lean": 0.21909071560949087, "stride": 0.16583885690197347}
    given = {"period": 0.6064, "parameters": parameters, **example.WALKING, **example.METHOD}
    gait = periodic_orbit(example.biped, q, v, **given)
    certificate = prove(gait, positive=example.STANCE, positive_at_events=example.TOUCH_DOWN)
    low, high = certificate.period
    assert low <= 0.606402511191057 <= high and high - low < 1e-11
    low, high = certificate.shift[0]
    assert low <= 0.556729820991318 <= high and high - low < 1e-11
    assert len(certificate.data["phases"]) == 2 and len(certificate.nodes) < 20000
    assert certificate.stable and certificate.largest_multiplier < 1
    certificate.save(tmp_path / "biped.json")
    proof = liebody_check.check(json.loads((tmp_path / "biped.json").read_text()), steps="c")
    assert proof.stable and proof.largest is None and float(proof.modulus.upper()) < 0.7
    assert float(proof.period.rad()) < 1e-16 and abs(float(proof.period.mid()) - 0.606402511191057) < 1e-14
    # the least push is 0.79 of the weight, and 0.534 the friction needed
    for name in example.STANCE:
        assert f'Along the whole orbit the function "{name}" of the certificate is positive.' in proof.theorem
    for name in example.TOUCH_DOWN:
        assert f'Before each jump the function "{name}" of the certificate is positive.' in proof.theorem
