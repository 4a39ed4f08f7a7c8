"""The theorem in words, with bounds that are rounded outwards in decimal digits."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

PLENTY = Context(prec=400)
STABLE = "the orbit is exponentially stable"
FINEST = Fraction(1, 10**18)  # no more digits are shown


def theorem_of(proof: Any) -> str:
    """The theorem that a proof proves."""
    return "\n".join([*_lines_of(proof), _checked_by(proof)])


def _lines_of(proof: Any, shifted: Any = None) -> list[str]:
    """The theorem about an orbit.

    shifted  the claim about all states, if the proof is about relative states
    """
    claim = proof.claim
    fixed, free = _parameters(claim)
    title = claim.name if shifted is None else f"{claim.name}, up to shifts"
    lines = [f"Theorem ({title}). {_motion(shifted or claim, fixed)}"]
    lines += [*_rotations_and_drive(claim), _constants(claim)]
    several = len(claim.phases) > 1
    kind = f" with one jump at {claim.events[0][0]} in each period" if claim.events else ""
    kind = " that passes these phases once, in this order" if several else kind
    least = "least period" if proof.least else "period (perhaps not the least one)"
    there = f"For {free} there" if free else "There"
    if claim.symmetries:
        lines += [f"All of them stay as they are where {_moved(claim, x)}." for x in claim.symmetries]
        kind = _up_to_shifts(claim, kind)
    if shifted is not None:
        lines += [f"All of them stay as they are where {_moved(shifted, x)}." for x in shifted.symmetries]
        lines.append(_relative_states(shifted))
    period = f"Its {least} is T = {bounds(proof.period)}"
    if claim.drive is not None:
        exact = f"2 pi / {_exact(claim.drive.rate)}"
        period = f"Its period is that of the drive, T = {exact} = {bounds(proof.period)}"
    lines.append(f"{there} is a periodic orbit{kind}. {period}.")
    lines += _returns(claim)
    for symmetry, s in zip(claim.symmetries, proof.shift):
        lines.append(f"In each period {claim.phases[0].states[symmetry.coordinate]} moves by {bounds(s)}.")
    first = claim.phases[0]
    time = None if claim.drive is None else claim.drive.place
    state = ", ".join(
        f"{name} = {bounds(x)}" for k, (name, x) in enumerate(zip(first.states, proof.nodes[0])) if k != time
    )
    where = "in phase 1 " if several else "after the jump " if claim.events else ""
    at = "at" if time is None else f"at {first.states[time]} = 0 with"
    lines.append(f"It starts {where}{at} {state}.")
    if several:
        times = ", ".join(bounds(x) for x in proof.durations)
        lines.append(f"Its phases take the times {times}.")
    lines += [_no_other(claim), _crossings(claim), _stability(proof)]
    return [x for x in lines if x]


def _checked_by(proof: Any) -> str:
    """Which programs have computed the bounds."""
    if proof.by == "C":
        return "Checked by liebody_check: bounds of the steps by its steps.c, all others by Arb."
    return "Checked by liebody_check: all bounds by Arb."


def _no_other(claim: Any) -> str:
    """The box without another orbit; nothing is known beyond it, so radii are rounded downwards."""
    first = claim.phases[0]
    given = [x.coordinate for x in claim.symmetries]
    starts = " and ".join(f"{first.states[k]} = {_exact(first.nodes[0][k])}" for k in given)
    other = f"No other orbit that starts at {starts}" if starts else "No other orbit"
    if len(set(claim.radii)) > 1:
        return (
            f"{other} has its {claim.nodes} nodes, at their durations times "
            f"{'one factor for each phase' if len(claim.phases) > 1 else 'one factor'}, in the box of the "
            f"certificate, which has a radius for each number. The smallest radii are "
            f"{', '.join(f'{_down(r, 2)} of {name}' for name, r in _smallest_radii(claim))}."
        )
    r = _down(claim.radii[0], 2)
    factors = (
        f"one factor for each phase within {r} of those of the certificate"
        if len(claim.phases) > 1
        else f"one factor within {r} of {_exact(first.factor)}"
    )
    return (
        f"{other} has its {claim.nodes} nodes within {r} (each state) of those of the certificate, at "
        f"their durations times {factors}{_shifts(claim, r)}."
    )


def _smallest_radii(claim: Any) -> list[tuple[str, Fraction]]:
    """The smallest radius of each state over all nodes, of the factors, and of each shift, with names."""
    shifts = {x.coordinate: f"the shift of {claim.phases[0].states[x.coordinate]}" for x in claim.symmetries}
    least: dict[str, Fraction] = {}
    radii = iter(claim.radii)
    names = [
        name
        for phase in claim.phases
        for name in [*(x for _ in phase.nodes for x in phase.states), "the factors"]
    ]
    for k, (name, r) in enumerate(zip(names, radii)):
        name = shifts.get(k, name)
        least[name] = min(r, least.get(name, r))
    return list(least.items())


def theorem_of_family(proof: Any) -> str:
    """The theorem about all orbits of a family."""
    claim, name = proof.claim.claim, proof.claim.name
    fixed, free = _parameters(claim)
    first, last = proof.parts[0], proof.parts[-1]
    low, high = first.part.bounds[0], last.part.bounds[1]
    lines = [f"Theorem ({claim.name}, a family). {_motion(claim, fixed)}"]
    lines += [*_rotations_and_drive(claim), _constants(claim)]
    several = len(claim.phases) > 1
    lines += [f"All of them stay as they are where {_moved(claim, x)}." for x in claim.symmetries]
    kind = f" with one jump at {claim.events[0][0]} in each period" if claim.events else ""
    kind = " that passes these phases once, in this order" if several else kind
    if claim.symmetries:
        kind = _up_to_shifts(claim, kind)
    count = len(proof.parts)
    boxes = "a box" if count == 1 else f"one of {count} boxes, each for a part of the interval,"
    radii = [x for one in proof.parts for x in one.part.radius]
    unknowns, short = "its nodes, and the factors of its durations,", "nodes and factors"
    if claim.symmetries:
        unknowns, short = (
            "its nodes, the factors of its durations and its shifts",
            "nodes, factors and shifts",
        )
    lines += [
        f"For {free} there is a periodic orbit{kind} in {boxes} whose centre moves with {name} as the "
        f"certificate says; {unknowns} lie within {_up(max(radii), 2)} of this centre.",
        f"No other orbit has its {short} in this box"
        + (f", whose radii are at least {_down(min(radii), 2)}." if count == 1 else "."),
    ]
    if count > 1:
        lines.append("Where two parts meet, the orbit in one box lies in the other: it is the same orbit.")
    lines.append(f"So these orbits are one smooth curve over {name}.")
    least = all(one.least for one in proof.parts)
    which = "least periods" if least else "periods (perhaps not the least ones)"
    which = which if claim.drive is None else "periods, that of the drive,"
    periods = [_hull([one.period]) for one in proof.parts]
    whole = min(a for a, _ in periods), max(b for _, b in periods)
    lines.append(f"Their {which} lie within T = {between(*whole)}.")
    lines += _returns(claim)
    lines += [_end_of_family(proof, one, p) for one, p in ((first, low), (last, high))]
    lines += [_crossings(claim), *_stability_of_family(proof), _checked_by(proof)]
    return "\n".join(x for x in lines if x)


def theorem_of_bifurcation(proof: Any) -> str:
    """The theorem about a flip or a fold."""
    claim, name, kind = proof.claim.claim, proof.claim.name, proof.claim.kind
    fixed = _values({x: bounds for x, bounds in claim.parameters.items() if x != name})
    lines = [f"Theorem ({claim.name}, a {kind} over {name}). {_motion(claim, fixed)}", _constants(claim)]
    several = len(claim.phases) > 1
    lines += [f"All of them stay as they are where {_moved(claim, x)}." for x in claim.symmetries]
    passes = f" with one jump at {claim.events[0][0]} in each period" if claim.events else ""
    passes = " that passes these phases once, in this order," if several else passes
    if claim.symmetries:
        passes = f", up to {'such a shift' if len(claim.symmetries) == 1 else 'such shifts'},{passes}"
    r = _down(proof.claim.radius, 2)
    first = claim.phases[0]
    factors = (
        f"one factor for each phase within {r} of those of the certificate"
        if several
        else f"one factor within {r} of {_exact(first.factor)}"
    )
    sign = proof.claim.sign
    which = "the multiplier -1" if sign < 0 else "a multiplier 1"
    beside = "" if sign < 0 or claim.events else " beside that along the orbit"
    period = "least period" if proof.least else "period (perhaps not the least one)"
    lines += [
        f"Exactly one periodic orbit{passes} has {which}{beside} and its {claim.nodes} nodes within {r} "
        f"(each state) of those of the certificate, at their durations times {factors}{_shifts(claim, r)}, "
        f"and {name} within {r} of {_exact(proof.claim.value)}.",
        f"There {name} = {bounds(proof.value)}. The {period} is T = {bounds(proof.period)}.",
    ]
    for symmetry, s in zip(claim.symmetries, proof.shift):
        lines.append(f"In each period {first.states[symmetry.coordinate]} moves by {bounds(s)}.")
    state = ", ".join(f"{x} = {bounds(y)}" for x, y in zip(first.states, proof.start))
    where = "in phase 1 " if several else "after the jump " if claim.events else ""
    lines.append(f"It starts {where}at {state}.")
    change = ", ".join(bounds(x) for x in proof.direction)
    lines.append(f"The eigenvector there is ({change}).")
    if sign > 0:
        lines.append(f"Near it the orbits are one curve, which has a quadratic turn over {name} there.")
    elif proof.others is not None and not any(x.overlaps(1) for x in proof.others):
        lines.append(f"As {name} passes this value, the multiplier passes -1 at a rate that is not zero.")
    lines += [_crossings(claim), _others(proof), _checked_by(proof)]
    return "\n".join(x for x in lines if x)


def theorem_of_basin(proof: Any) -> str:
    """The theorem about an orbit, and the starts from which motions converge to it."""
    claim = proof.claim.claim
    first, last = claim.phases[0], claim.phases[-1]
    if last.coordinate is not None:
        _, constant = last.section.nodes[last.section.inputs]
        which = f" with {first.states[last.coordinate]} = {_exact(claim.constants[constant][0])}"
    else:
        which = " of phase 1" if len(claim.phases) > 1 else ""
        if proof.zero:
            verb = "is" if len(proof.zero) == 1 else "are"
            which += f" in which {' and '.join(proof.zero)} {verb} zero, as behind a jump at {last.event[0]}"
    size = _exact(proof.claim.size)
    first_node = "the first node" if proof.claim.shifted is None else "the relative state of the first node"
    if proof.claim.normal is None:
        named = "V the matrix of axes"
        state, within = "x", f"|V^-1 (x - c)| <= {size}"
        inverse = "V^-1"
    else:
        named = "V the matrix of axes and n the normal"
        state, within = "x = c + V a + s n", f"|a| <= {size} and |s| <= {_exact(proof.claim.thickness)}"
        inverse = "L"
    lines = [
        *_lines_of(proof.orbit, proof.claim.shifted),
        f"Let c be {first_node}, {named} of the certificate, and |.| the Euclidean length.",
        f"Every motion converges to this orbit that starts at a state {state}{which}, with {within}.",
        f"With each return x comes nearer to the orbit's start x*: |{inverse} (x - x*)| shrinks to "
        f"{_up(_fraction(proof.contraction), 3)} of itself, or less"
        f"{', where a = L (x - c)' if proof.claim.normal is not None else ''}.",
        f"All such states x within {_down(_fraction(proof.inside), 3)} of c are among them.",
        _checked_by(proof),
    ]
    return "\n".join(lines)


def _others(proof: Any) -> str:
    """The multipliers other than 1 or -1 of the bifurcation."""
    others = proof.others
    if others is None:
        return "Its other multipliers are not separated from this one."
    if not others:
        return "There is no other multiplier."
    shown = "; ".join(_complex(x) for x in others)
    inside = all(bool(abs(x) < 1) for x in others)
    said = f"The other multipliers are: {shown}."
    return f"{said}\nThey lie inside the unit circle." if inside else said


def _hull(balls: Any) -> tuple[Fraction, Fraction]:
    return min(_fraction(x.lower()) for x in balls), max(_fraction(x.upper()) for x in balls)


def _end_of_family(proof: Any, one: Any, p: Fraction) -> str:
    """Where the orbit starts at an end of the interval."""
    claim = proof.claim.claim
    starts = {x.coordinate: claim.phases[0].nodes[0][x.coordinate] for x in claim.symmetries}
    states = claim.phases[0].states
    box = [_exact(starts[k]) if k in starts else bounds(x) for k, x in enumerate(one.box(p)[: len(states)])]
    where = "in phase 1 " if len(claim.phases) > 1 else "after the jump " if claim.events else ""
    shown = ", ".join(f"{name} = {x}" for name, x in zip(states, box))
    return f"At {proof.claim.name} = {_exact(p)} it starts {where}at {shown}."


def _stability_of_family(proof: Any) -> list[str]:
    """The stability in each interval, as far as the multipliers decide it."""
    rows: list[tuple[Fraction, Fraction, bool | None]] = []
    for one in proof.parts:
        low, high = one.part.bounds
        if rows and rows[-1][2] is one.stable:
            low = rows.pop()[0]
        rows.append((low, high, one.stable))
    if len(rows) == 1 and rows[0][2]:
        size = max(_fraction(one.modulus) for one in proof.parts)
        return [
            f"All multipliers of these orbits have a modulus {_below(size)}: they are exponentially stable."
        ]
    words = {True: "exponentially stable", False: "unstable"}
    lines = [
        f"For {proof.claim.name} from {_exact(low)} to {_exact(high)} they are {words[stable]}."
        for low, high, stable in rows
        if stable is not None
    ]
    if any(stable is None for _, _, stable in rows):
        other = "of the others" if lines else "of these orbits"
        lines.append(f"The stability {other} is not decided.")
    return lines


def _motion(claim: Any, fixed: str) -> str:
    """The moving states: the field, or the phases where there are several."""
    if len(claim.phases) == 1:
        (phase,) = claim.phases
        lines = [
            f"Let y = ({', '.join(phase.states)}) obey dy/dt = f(y), with the function f of the "
            f"certificate{fixed}."
        ]
        if phase.event:
            lines.append(
                f"Where the guard {_event(phase.event)}, the state jumps to J(y), with the function J of the "
                "certificate."
            )
        return "\n".join(lines)
    lines = [f"Let y move in {len(claim.phases)} phases, with the functions of the certificate{fixed}."]
    for k, phase in enumerate(claim.phases, 1):
        after = k % len(claim.phases) + 1
        end = (
            f"until the guard {_event(phase.event)}; there it jumps to J{k}(y) in phase {after}"
            if phase.event
            else "until the orbit closes"
            if claim.drive is None
            else f"until {phase.states[claim.drive.place]} = T"
        )
        lines.append(f"In phase {k}, y = ({', '.join(phase.states)}) obeys dy/dt = f{k}(y) {end}.")
    return "\n".join(lines)


def _rotations_and_drive(claim: Any) -> list[str]:
    """States with a meaning: unit quaternions, and the time."""
    states = claim.phases[0].states
    lines = [
        f"{_quaternion(claim, x)} is a unit quaternion, whose length 1 the motion keeps. It stands for a "
        "rotation; the quaternion with all signs changed stands for the same one."
        for x in claim.rotations
    ]
    if claim.drive is not None:
        rate = claim.drive.rate
        time = states[claim.drive.place]
        lines.append(
            f"{time} is the time. All functions have the same values at {time} + T, T = 2 pi / "
            f"{_exact(rate)}: they are driven with this period."
        )
    return lines


def _quaternion(claim: Any, rotation: Any) -> str:
    return f"({', '.join(claim.phases[0].states[rotation.place : rotation.place + 4])})"


def _returns(claim: Any) -> list[str]:
    """Which quaternions change their sign in a period."""
    return [
        f"After this time the rotation of {_quaternion(claim, x)} is the same one, and its quaternion has "
        "changed its sign; no function tells the two signs from each other."
        for x in claim.rotations
        if x.sign < 0
    ]


def _moved(claim: Any, symmetry: Any) -> str:
    """The states that a symmetry moves, each of them once."""
    grows: dict[str, dict[int, str]] = {}
    for k, (phase, xi) in enumerate(zip(claim.phases, symmetry.along)):
        for name, x in zip(phase.states, xi):
            if x:
                grows.setdefault(name, {})[k] = "s" if x == 1 else f"{_exact(x)} s"
    return ", ".join(_in_phases(f"{name} grows by", per_phase) for name, per_phase in grows.items())


def _relative_states(claim: Any) -> str:
    """The meaning of states in a theorem up to shifts."""
    coordinates = [x.coordinate for x in claim.symmetries]
    zeros = " and ".join(f"{claim.phases[0].states[j]} = 0" for j in coordinates)
    formulas: dict[str, dict[int, str]] = {}
    for k, phase in enumerate(claim.phases):
        for i, name in enumerate(phase.states):
            terms = [(x.along[k][i], phase.states[x.coordinate]) for x in claim.symmetries if x.along[k][i]]
            if i not in coordinates and terms:
                formula = name + "".join(_minus(a, coordinate) for a, coordinate in terms)
                formulas.setdefault(name, {})[k] = formula
    known = [_in_phases(f"relative {name} =", per_phase) for name, per_phase in formulas.items()]
    said = "".join(f", with {x}" for x in known)
    return f"From here on states that differ by shifts are one: each stands for that with {zeros}{said}."


def _minus(a: Fraction, name: str) -> str:
    sign = "-" if a > 0 else "+"
    return f" {sign} {name}" if abs(a) == 1 else f" {sign} {_exact(abs(a))} {name}"


def _in_phases(subject: str, per_phase: dict[int, str]) -> str:
    """A sentence for all phases, or with the words for each phase where they differ."""
    if len({*per_phase.values()}) == 1:
        return f"{subject} {next(iter(per_phase.values()))}"
    return f"{subject} {', '.join(f'{x} in phase {k + 1}' for k, x in per_phase.items())}"


def _up_to_shifts(claim: Any, kind: str) -> str:
    """The words "up to a shift" behind "a periodic orbit"; kind: further words about the orbit."""
    shifts = "such a shift" if len(claim.symmetries) == 1 else "such shifts"
    return f", up to {shifts},{kind}" if kind else f" up to {shifts}"


def _shifts(claim: Any, r: str) -> str:
    """The shifts next to which the orbit is the only one."""
    numbers = ", ".join(_exact(symmetry.shift) for symmetry in claim.symmetries)
    return f", and with shifts within {r} of {numbers}" if numbers else ""


def _event(event: tuple[str, int]) -> str:
    name, direction = event
    way = "from negative to positive" if direction > 0 else "from positive to negative"
    return f"{name} changes {way}"


def _parameters(claim: Any) -> tuple[str, str]:
    """Parameters with one value, and those for which the theorem holds at each value between two."""
    free = [
        f"each {name} from {_exact(low)} to {_exact(high)}"
        for name, (low, high) in claim.parameters.items()
        if low != high
    ]
    return _values(claim.parameters), " and ".join(free)


def _values(parameters: Any) -> str:
    """The parameters that have one value."""
    fixed = [f"{name} = {_exact(low)}" for name, (low, high) in parameters.items() if low == high]
    return f" and {', '.join(fixed)}" if fixed else ""


def _exact(x: Fraction) -> str:
    """An exact number: decimal where it is short, else a fraction or the double that it is."""
    if x.denominator == 1 or Fraction(str(float(x))) == x:
        return str(float(x)) if x.denominator > 1 else str(x.numerator)
    return f"fl({float(x)!r})" if Fraction(float(x)) == x else str(x)


def _constants(claim: Any) -> str:
    """Whether the constants are exact numbers, or any numbers within bounds."""
    drive = claim.drive
    given = [x for k, x in enumerate(claim.constants) if drive is None or k != drive.period]
    if any(low != high for low, high in given):
        return "The constants of these functions are any numbers within their bounds in the certificate."
    return "The constants of these functions are exactly the numbers of the certificate."


def _crossings(claim: Any) -> str:
    guards = list(dict.fromkeys(x.name for phase in claim.phases for x in phase.guards if not x.sign))
    conditions = [x for phase in claim.phases for x in phase.guards if x.sign and not x.positive]
    conditions += [x for phase in claim.phases for x in phase.at_end if not x.name]
    signs = "The conditions of the functions have their signs, as the certificate lists them."
    return "\n".join(
        x for x in (_of_guards(claim, guards), signs if conditions else "", *_positive(claim)) if x
    )


def _positive(claim: Any) -> list[str]:
    """The functions that are positive along the orbit, and those that are before jumps."""
    along: dict[str, list[int]] = {}
    at_events: dict[str, list[int]] = {}
    for k, phase in enumerate(claim.phases, 1):
        for x in phase.guards:
            if x.positive:
                along.setdefault(x.name, []).append(k)
        for x in phase.at_end:
            if x.name:
                at_events.setdefault(x.name, []).append(k)
    every = [*range(1, len(claim.phases) + 1)]
    with_jump = [k for k, phase in enumerate(claim.phases, 1) if phase.event is not None]
    lines = []
    for name, phases in along.items():
        where = "Along the whole orbit" if phases == every else f"In {_phases(phases)}"
        lines.append(f'{where} the function "{name}" of the certificate is positive.')
    for name, phases in at_events.items():
        where = "each jump" if phases == with_jump else f"the jump at the end of {_phases(phases)}"
        lines.append(f'Before {where} the function "{name}" of the certificate is positive.')
    return lines


def _phases(numbers: list[int]) -> str:
    """In words, "phase 2" or "phases 1, 2 and 4"."""
    *first, last = map(str, numbers)
    return f"phases {', '.join(first)} and {last}" if first else f"phase {last}"


def _of_guards(claim: Any, guards: list[str]) -> str:
    if not guards:
        return ""
    if len(claim.phases) > 1:
        return f"Within its phases there is no event of: {', '.join(guards)}."
    if claim.events and guards == [claim.events[0][0]]:
        return f"Between its jumps the guard {guards[0]} has no event."
    return f"On the way there is no{' other' if claim.events else ''} event of: {', '.join(guards)}."


def _stability(proof: Any) -> str:
    largest = proof.largest
    if largest is None:
        if proof.stable:
            size = _below(_fraction(proof.modulus))
            return f"All multipliers {_of_what(proof)} have a modulus {size}: {STABLE}."
        return "Its multipliers are not separated: nothing is said about its stability."
    if proof.multipliers == []:
        return "There is no multiplier beside the one along the orbit."
    shown = "; ".join(_complex(x) for x in proof.multipliers)
    said = f"The multipliers {_of_what(proof)} are: {shown}."
    if proof.stable:
        sizes = [largest.upper(), *([] if proof.modulus is None else [proof.modulus])]
        size = _below(min(map(_fraction, sizes)))
        return f"{said}\nAll have a modulus {size}: {STABLE}."
    if proof.stable is False:
        return f"{said}\nOne has a modulus above 1: the orbit is unstable."
    return f"{said}\nWhether all moduli are below 1 is not decided."


def _of_what(proof: Any) -> str:
    if proof.claim.drive is not None:
        return "of its map over a period"
    return "of its return map" if proof.claim.phases[-1].event else "beside the 1 along the orbit"


def _complex(x: Any) -> str:
    return bounds(x.real) if x.imag.is_zero() else f"{bounds(x.real)} + ({bounds(x.imag)}) i"


def bounds(x: Any) -> str:
    """A ball as a decimal number and a distance that contain it, "0.7343 +- 1.2e-14"; or as a number."""
    low, high = _fraction(x.lower()), _fraction(x.upper())
    return _exact(low) if low == high else between(low, high)


def between(low: Fraction, high: Fraction) -> str:
    """A decimal number and a distance of two digits that contain [low, high]."""
    middle, radius = (low + high) / 2, max((high - low) / 2, FINEST)
    digits = 1 - math.floor(math.log10(float(radius)))
    shown = Fraction(round(middle * Fraction(10) ** digits)) / Fraction(10) ** digits
    away = max(high - shown, shown - low)
    number = _decimal(shown).quantize(Decimal(1).scaleb(-max(digits, 0)), context=PLENTY)
    return f"{number:f} +- {_up(away, 2)}"


def _up(x: Fraction, digits: int) -> str:
    """The number rounded upwards to so many digits: for what lies within it."""
    return _rounded(x, digits, ROUND_CEILING)


def _below(x: Fraction) -> str:
    """In words, that a number is at most x."""
    shown = _up(x, 6)
    return f"below {shown}" if Fraction(shown) > x else f"of at most {shown}"


def _down(x: Fraction, digits: int) -> str:
    """The number rounded downwards to so many digits: for what is excluded within it."""
    return _rounded(x, digits, ROUND_FLOOR)


def _rounded(x: Fraction, digits: int, rounding: str) -> str:
    context = Context(prec=digits, rounding=rounding)
    return f"{float(context.divide(Decimal(x.numerator), Decimal(x.denominator))):.{digits}g}"


def _decimal(x: Fraction) -> Decimal:
    return Context(prec=400, rounding=ROUND_HALF_EVEN).divide(Decimal(x.numerator), Decimal(x.denominator))


def _fraction(x: Any) -> Fraction:
    """The exact value of a ball without a radius."""
    mantissa, exponent = x.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
