"""Reads the file of a certificate, and checks every index, count and number in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from .claims import (
    SIGNS,
    AnyClaim,
    BasinClaim,
    BifurcationClaim,
    Bounds,
    Changes,
    Claim,
    Column,
    Drive,
    FamilyClaim,
    Function,
    Guard,
    Part,
    Phase,
    Refused,
    Rotation,
    SignAtEnd,
    Symmetry,
)
from .relative import relative_claim

FORMAT = "liebody certificate 1"
FORMAT_OF_PHASES = "liebody certificate 2"
FORMAT_OF_FAMILIES = "liebody certificate 3"
FORMAT_OF_BIFURCATIONS = "liebody certificate 4"
FORMAT_OF_BASINS = "liebody certificate 5"
FORMAT_OF_CLOSINGS = "liebody certificate 6"
FORMAT_OF_SECTIONS = "liebody certificate 7"  # basins; those of format 5 have no section at an event
FORMAT_OF_SHIFTS = "liebody certificate 8"  # basins of orbits up to shifts
NO_SHIFT = "0x0p+0"
NAME_OF_FUNCTION = r"[A-Za-z](?:[A-Za-z0-9_ ,\[\]'-]{0,58}[A-Za-z0-9_\]])?"
SYMBOLS = r"[fJ]\d*|[TyxcVnLas]|relative .*"  # that theorems have for something else
PIECES, MOST_PIECES = 4, 64  # of a basin: of files that do not say how many, and the most
OPERANDS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "arctan2", "hypot"), 2),
    **dict.fromkeys(("neg", "sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"), 1),
    **dict.fromkeys(("arcsin", "arccos"), 1),
}
ENTRIES = {"format", "name", "constants", "parameters", "phases", "symmetries", "radius", "order"}
OF_PHASES = {"states", "field", "section", "guards", "at_end", "durations", "nodes", "factor"}
PI = tuple(Fraction(f"3.14159265358979323846264338327950288419{digit}") for digit in "78")  # below and above


def read(data: Mapping[str, Any]) -> AnyClaim:
    """The claim of a file's content; Refused where it is none."""
    readers: dict[str, Any] = {
        FORMAT_OF_FAMILIES: _read_family,
        FORMAT_OF_BIFURCATIONS: _read_bifurcation,
        FORMAT_OF_BASINS: _read_basin,
        FORMAT_OF_SECTIONS: _read_basin,
        FORMAT_OF_SHIFTS: _read_basin,
    }
    try:
        if data["format"] == FORMAT_OF_CLOSINGS and "parts" in data:
            return _read_family(data)
        claim: AnyClaim = readers.get(data["format"], _read)(data)
        return claim
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"the file is no certificate: {type(error).__name__}: {error}") from None


def _read(data: Mapping[str, Any]) -> Claim:
    formats = (
        FORMAT,
        FORMAT_OF_PHASES,
        FORMAT_OF_FAMILIES,
        FORMAT_OF_BIFURCATIONS,
        FORMAT_OF_BASINS,
        FORMAT_OF_CLOSINGS,
        FORMAT_OF_SECTIONS,
        FORMAT_OF_SHIFTS,
    )
    known_format = data["format"] in formats
    _need(known_format, f"the format is {data['format']!r}, expected one of {', '.join(formats)}")
    constants = tuple(_bounds(x) for x in data["constants"])
    parameters = {_name(name): _bounds(x) for name, x in data["parameters"]}
    _need(len(parameters) == len(data["parameters"]), "two parameters have one name")
    known = {"constant": len(constants), "parameter": len(parameters)}
    # one phase stands beside the other entries
    rows = data["phases"] if data["format"] in (FORMAT_OF_PHASES, FORMAT_OF_CLOSINGS) else [data]
    _need(len(rows) >= 1, "there are no phases")
    sizes = [len(row["states"]) for row in rows]
    phases = tuple(_phase(row, known, sizes[(k + 1) % len(rows)]) for k, row in enumerate(rows))
    # phases lead from event to event; only the last may end at a section y_j = c, where the orbit closes
    for k, phase in enumerate(phases):
        _need(phase.event is not None or k == len(phases) - 1, f"phase {k + 1} does not end with an event")
    first, last = phases[0], phases[-1]
    same = (first.states, first.field) == (last.states, last.field)
    _need(last.event is not None or same, "the orbit closes between two phases without an event")
    order = data["order"]
    _need(type(order) is int and 2 <= order <= 60, f"the order is {order!r}")
    symmetries = tuple(_symmetry(x, sizes) for x in data.get("symmetries", []))
    # coordinates of symmetries are fixed at the start, one by each: along them the matrix is the unit
    for x in symmetries:
        moved = [int(x is other) for other in symmetries]
        _need(
            [other.along[0][x.coordinate] for other in symmetries] == moved,
            "a symmetry does not move its coordinate by 1, or another one moves it",
        )
    _must_have_names_of_their_own(phases, parameters)
    radii = _radii(data, phases)
    claim = Claim(_name(data["name"]), constants, parameters, phases, symmetries, radii, order)
    if data["format"] == FORMAT_OF_CLOSINGS:
        return _with_closing(claim, data)
    _need(not {"rotations", "drive"} & set(data), "rotations and drives are not in files of this format")
    return claim


def _must_have_names_of_their_own(phases: tuple[Phase, ...], parameters: Mapping[str, Bounds]) -> None:
    """Refuse two states with one name, and names of positive functions that stand for something else, too."""
    others = {*parameters}
    for phase in phases:
        _need(len(set(phase.states)) == len(phase.states), "two states of a phase have one name")
        others |= {*phase.states, *(x.name for x in phase.guards if not x.positive)}
    for phase in phases:
        names = [x.name for x in phase.guards if x.positive] + [x.name for x in phase.at_end if x.name]
        for name in names:
            _need(re.fullmatch(NAME_OF_FUNCTION, name) is not None, f"{name!r} is no name of a function")
            _need(re.fullmatch(SYMBOLS, name) is None, f"{name!r} is a symbol of the theorem")
            _need(name not in others, f"the function {name!r} has the name of something else")
            _need(names.count(name) == 1, f"two functions have the name {name!r}")


def _radii(data: Mapping[str, Any], phases: tuple[Phase, ...]) -> tuple[Fraction, ...]:
    """The radius of each unknown: one "radius" of all, or "radii"."""
    unknowns = [len(phase.nodes) * len(phase.states) + 1 for phase in phases]
    n = sum(unknowns)
    _need(("radius" in data) != ("radii" in data), 'there is not one of "radius" and "radii"')
    radii = (_binary(data["radius"]),) * n if "radius" in data else tuple(_binary(x) for x in data["radii"])
    _need(len(radii) == n, f"there are {len(radii)} radii, expected {n}, one for each unknown")
    _need(all(x > 0 for x in radii), "a radius is not positive")
    factors = [radii[end - 1] for end in accumulate(unknowns)]
    _need(
        all(r < phase.factor for r, phase in zip(factors, phases)),
        "a radius is not below the factor of the durations",
    )
    return radii


def _read_bifurcation(data: Mapping[str, Any]) -> BifurcationClaim:
    """The claim of a flip or a fold: its orbit, the parameter, and numbers of the eigenvector."""
    _must_know(data, ENTRIES | {"kind", "parameter", "normal"})
    claim = _read({**data, "format": FORMAT_OF_PHASES})
    wide = [name for name, (low, high) in claim.parameters.items() if low != high]
    _need(not wide, f"parameters with bounds are {wide}, expected none")
    names = list(claim.parameters)
    _need(data["parameter"] in names, f"there is no parameter {data['parameter']!r}")
    _need(data["kind"] in SIGNS, f"the kind is {data['kind']!r}, expected one of {', '.join(SIGNS)}")
    normal = tuple(_binary(x) for x in data["normal"])
    radius = _binary(data["radius"])
    _need(
        len(normal) == len(claim.phases[0].states), "the normal has not as many entries as there are states"
    )
    changes = _changes(claim, [row["changes"] for row in data["phases"]])
    return BifurcationClaim(claim, names.index(data["parameter"]), data["kind"], normal, radius, changes)


def _read_basin(data: Mapping[str, Any]) -> BasinClaim:
    """The claim of a basin: its orbit, the set of starts, and boxes around their motions."""
    later = (FORMAT_OF_SECTIONS, FORMAT_OF_SHIFTS)
    new = {"normal", "thickness", "pieces"} if data["format"] in later else set()
    _must_know(data, ENTRIES | OF_PHASES | {"radii", "axes", "size", "columns"} | new)
    rows = data["phases"] if "phases" in data else [data]
    shifted = None
    if data["format"] == FORMAT_OF_SHIFTS:
        shifted = _read_shifted(data)
        claim = relative_claim(shifted)
        claim = replace(claim, radii=_radii(data, claim.phases))
    else:
        _need(not data.get("symmetries"), "basins of orbits up to shifts have another format")
        claim = _read({**data, "format": FORMAT_OF_PHASES, "phases": rows})
    # axes span all starts: of the section, or of all states where there is none
    N = len(claim.phases[0].states)
    section = claim.phases[-1].coordinate
    size = _binary(data["size"])
    if new:
        normal = tuple(_binary(x) for x in data["normal"]) or None
        thickness = _binary(data["thickness"])
        pieces = _index(data["pieces"], MOST_PIECES + 1)
    else:
        normal = None if section is None else tuple(Fraction(k == section) for k in range(N))
        thickness, pieces = size, PIECES
    _need(normal is None or len(normal) == N, "the normal has not as many entries as there are states")
    if section is not None:
        _need(normal is not None, "there is no normal of the section")
        low, high = claim.constants[claim.phases[-1].section.nodes[N][1]]
        _need(low == high, "the section has bounds, expected a number")
    axes = tuple(tuple(_binary(x) for x in row) for row in data["axes"])
    free = N - (normal is not None)
    _need(free >= 1, "the section is a point")
    _need(len(axes) == N and all(len(row) == free for row in axes), "the axes are no basis of the section")
    _need(size > 0 and thickness > 0, "the size of the basin is not positive")
    _need(pieces > 0, "the number of pieces is not positive")
    unknowns = sum(2 * len(phase.states) * len(phase.nodes) + 1 for phase in claim.phases)
    columns = []
    for x in data["columns"]:
        reach = tuple(_binary(r) for r in x["reach"])
        _need(len(reach) == unknowns and min(reach) > 0, "the boxes around the motions do not fit")
        columns.append(Column(_changes(claim, x["changes"]), reach))
    _need(len(columns) == free, "the numbers of axes and columns do not fit")
    return BasinClaim(claim, axes, normal, size, thickness, pieces, tuple(columns), shifted)


def _read_shifted(data: Mapping[str, Any]) -> Claim:
    """The claim about all states; the radii of the file belong to relative states."""
    others = {name: x for name, x in data.items() if name != "radii"}
    symmetries = [{**x, "shift": NO_SHIFT} for x in data["symmetries"]]
    _need(len(symmetries) > 0, "there are no shifts")
    for x in symmetries:
        names = {row["states"][x["coordinate"]] for row in data["phases"]}
        _need(len(names) == 1, "the coordinate of a shift has not the same name in all phases")
    states = [name for row in data["phases"] for name in row["states"]]
    _need(not any(name.startswith("relative ") for name in states), "a state has the name of a relative one")
    small = min(_binary(row["factor"]) for row in data["phases"]) / 2
    own = {"format": FORMAT_OF_PHASES, "symmetries": symmetries, "radius": float(small).hex()}
    return _read({**others, **own})


def _must_know(data: Mapping[str, Any], names: set[str]) -> None:
    """Refuse unknown entries: they may say that the orbit closes in a way that the larger system ignores."""
    others = sorted(set(data) - names)
    _need(not others, f"entries of the file are not known for its format: {', '.join(map(str, others))}")


def _changes(claim: Claim, data: Any) -> Changes:
    """A change of the state at all nodes of each phase."""
    _need(len(data) == len(claim.phases), "the numbers of changes and phases do not fit")
    changes = []
    for phase, rows in zip(claim.phases, data):
        found = tuple(tuple(_binary(x) for x in row) for row in rows)
        fits = len(found) == len(phase.nodes) and all(len(x) == len(phase.states) for x in found)
        _need(fits, "the numbers of changes and states do not fit")
        changes.append(found)
    return tuple(changes)


def _with_closing(claim: Claim, data: Mapping[str, Any]) -> Claim:
    """A claim with its rotations, its drive, and the function by which it closes."""
    states = [phase.states for phase in claim.phases]
    least = min(map(len, states))
    rotations = tuple(
        Rotation(_index(x["place"], least - 3), _direction(x["sign"])) for x in data["rotations"]
    )
    constants = list(claim.constants)
    drive = None
    if "drive" in data:
        rate = _number(data["drive"]["rate"])
        _need(rate > 0, "the rate of a drive is not positive")
        section = claim.phases[-1].section
        drive = Drive(_index(data["drive"]["place"], least), rate, section.nodes[section.inputs][1])
        _need(claim.phases[-1].coordinate == drive.place, "the orbit does not end at a time")
        # the constant of the section is 2 pi / rate, and nothing else uses it
        period = 2 * PI[0] / rate, 2 * PI[1] / rate
        low, high = constants[drive.period]
        _need(low <= period[0] and period[1] <= high, "the end of a period is not that of the drive")
        others = [x for phase in claim.phases for x in _functions(phase) if x != section]
        used = any(("constant", drive.period) in x.nodes for x in others)
        _need(not used, "the period of the drive is also another constant")
        constants[drive.period] = period
    places = [x.place + k for x in rotations for k in range(4)] + ([] if drive is None else [drive.place])
    _need(len(set(places)) == len(places), "a state is in two quaternions, or the time")
    _need(len(places) > 0, "there are neither rotations nor a drive")
    _need(all(x.sign != 0 for x in rotations), "a quaternion has no sign")
    # these states have one place and one name in all phases, and no symmetry moves them
    for k in places:
        _need(len({x[k] for x in states}) == 1, f"the state {k} has not the same name in all phases")
        still = all(row[k] == 0 for x in claim.symmetries for row in x.along)
        _need(still, "a symmetry moves a quaternion, or the time")
    closing = _closing(len(states[0]), rotations, drive, len(constants))
    constants.append((Fraction(0), Fraction(0)))
    phases = (*claim.phases[:-1], replace(claim.phases[-1], closing=closing))
    return replace(claim, constants=tuple(constants), phases=phases, rotations=rotations, drive=drive)


def _functions(phase: Phase) -> list[Function]:
    """All functions of a phase that a file has."""
    watched = [x.function for x in phase.guards] + [x.function for x in phase.at_end]
    return [phase.field, phase.section, *([] if phase.jump is None else [phase.jump]), *watched]


def _closing(N: int, rotations: tuple[Rotation, ...], drive: Drive | None, zero: int) -> Function:
    """y with sign q / |q| for quaternions, and with the time 0; zero: a constant."""
    nodes: list[tuple[Any, ...]] = [("input", k) for k in range(N)]
    outputs = list(range(N))

    def node(*operation: Any) -> int:
        nodes.append(operation)
        return len(nodes) - 1

    for x in rotations:
        a, b, c, d = (node("mul", k, k) for k in range(x.place, x.place + 4))
        length = node("sqrt", node("add", node("add", a, b), node("add", c, d)))
        divisor = length if x.sign > 0 else node("neg", length)
        for k in range(x.place, x.place + 4):
            outputs[k] = node("div", k, divisor)
    if drive is not None:
        outputs[drive.place] = node("constant", zero)
    return Function(N, tuple(nodes), tuple(outputs))


def _read_family(data: Mapping[str, Any]) -> FamilyClaim:
    """The claim of a family: the orbit of its first part, and all parts."""
    parts = tuple(_part(x) for x in data["parts"])
    _need(len(parts) >= 1, "there are no parts")
    # nodes and factors stand in the centre of the first part; a shift there stands in its start's place
    starts = [_index(x["coordinate"], len(data["phases"][0]["states"])) for x in data["symmetries"]]
    flat = list(data["parts"][0]["centre"])
    shifts = [flat[j] for j in starts]
    for j, x in zip(starts, data["symmetries"]):
        flat[j] = x["start"]
    phases = []
    for row in data["phases"]:
        N = len(row["states"])
        end = N * (len(row["durations"]) + 1)
        nodes = [flat[k : k + N] for k in range(0, end, N)]
        phases.append({**row, "nodes": nodes, "factor": flat[end]})
        flat = flat[end + 1 :]
    _need(not flat, "the numbers of unknowns do not fit")
    symmetries = [{**x, "shift": shift} for x, shift in zip(data["symmetries"], shifts)]
    # the claim of an orbit needs a radius; proofs of families use the radii of parts
    small = min(min(part.radius) for part in parts)
    claim = _read(
        {
            **data,
            "format": FORMAT_OF_PHASES if data["format"] == FORMAT_OF_FAMILIES else FORMAT_OF_CLOSINGS,
            "phases": phases,
            "symmetries": symmetries,
            "radius": float(small).hex(),
        }
    )
    names = list(claim.parameters)
    _need(data["parameter"] in names, f"there is no parameter {data['parameter']!r}")
    wide = [name for name, (low, high) in claim.parameters.items() if low != high]
    _need(wide == [data["parameter"]], f"parameters with bounds are {wide}, expected one")
    # each part begins where the one before it ends, and all together are the interval
    ends = [part.bounds[0] for part in parts], [part.bounds[1] for part in parts]
    _need(ends[0][1:] == ends[1][:-1], "the parts do not follow one another")
    whole = ends[0][0], ends[1][-1]
    _need(claim.parameters[wide[0]] == whole, "the parts are not those of the interval of the parameter")
    n = len(parts[0].centre)
    sizes = {len(x) for part in parts for x in (part.centre, part.slopes, part.radius)}
    _need(sizes == {n}, "the parts have different numbers of unknowns")
    return FamilyClaim(claim, names.index(wide[0]), parts)


def _part(data: Mapping[str, Any]) -> Part:
    low, high = (_number(x) for x in data["bounds"])
    place = _binary(data["place"])
    _need(low < high, "a part has no values of the parameter")
    _need(low <= place <= high, "the place of a part is not in it")
    centre, slopes, radius = (
        tuple(_binary(x) for x in data[name]) for name in ("centre", "slopes", "radius")
    )
    _need(all(x > 0 for x in radius), "a radius is not positive")
    return Part((low, high), place, centre, slopes, radius)


def _symmetry(data: Mapping[str, Any], sizes: list[int]) -> Symmetry:
    along = tuple(tuple(_number(x) for x in row) for row in data["along"])
    _need([len(row) for row in along] == sizes, "a symmetry has not as many entries as there are states")
    return Symmetry(_index(data["coordinate"], sizes[0]), along, _binary(data["shift"]))


def _phase(data: Mapping[str, Any], known: Mapping[str, int], following: int) -> Phase:
    """A phase, behind which there are so many states."""
    states = tuple(_name(x) for x in data["states"])
    N = len(states)
    _need(N >= 1, "there are no states")

    def function(given: Mapping[str, Any], outputs: int) -> Function:
        return _function(given, N, outputs, known)

    guards = tuple(
        Guard(
            _name(x["name"]),
            _direction(x["direction"]),
            function(x["function"], 1),
            _direction(x.get("sign", 0)),
            _flag(x.get("positive", False)),
        )
        for x in data["guards"]
    )
    _need(all(x.sign == 1 for x in guards if x.positive), "a positive function has no sign 1")
    section = data["section"]
    g = function(section["function"], 1)
    event = coordinate = jump = None
    if "event" in section:
        event = _name(section["event"]), _direction(section["direction"])
        # the section must be a guard of the file, so that the proof watches it on the way, too
        same = [
            x
            for x in guards
            if x.name == event[0] and x.function == g and x.direction in (0, event[1]) and not x.sign
        ]
        _need(len(same) == 1 and event[1] != 0, f"the section is not the guard {event[0]!r} in its direction")
        jump = function(section["jump"], following)
    else:
        # y_j - c, written as exactly these operations
        coordinate = _index(section["coordinate"], N)
        constant = g.nodes[N]
        form = [*(("input", k) for k in range(N)), constant, ("sub", coordinate, N)]
        _need(list(g.nodes) == form and constant[0] == "constant", "the section is not y_j - c")
        _need(g.outputs == (N + 1,), "the section is not y_j - c")
        _need(following == N, "a section y_j - c leads to another number of states")
    nodes = tuple(tuple(_binary(x) for x in row) for row in data["nodes"])
    durations = tuple(_binary(x) for x in data["durations"])
    _need(
        len(nodes) == len(durations) + 1 and len(durations) >= 1, "the numbers of nodes and steps do not fit"
    )
    _need(all(len(row) == N for row in nodes), "a node has not as many states as there are")
    _need(all(w > 0 for w in durations), "a step has no duration")
    factor = _binary(data["factor"])
    at_end = tuple(
        SignAtEnd(function(x["function"], 1), _direction(x["sign"]), _name(x["name"]) if "name" in x else "")
        for x in data.get("at_end", [])
    )
    _need(all(x.sign != 0 for x in at_end), "a condition at the end of a phase has no sign")
    _need(all(x.sign == 1 for x in at_end if x.name), "a positive function has no sign 1")
    _need(
        event is not None or not any(x.name for x in at_end), "a phase without a jump has no state before it"
    )
    return Phase(
        states,
        function(data["field"], N),
        g,
        event,
        coordinate,
        jump,
        guards,
        at_end,
        nodes,
        durations,
        factor,
    )


def _function(given: Mapping[str, Any], inputs: int, outputs: int, known: Mapping[str, int]) -> Function:
    nodes: list[tuple[Any, ...]] = []
    # an operand is an earlier node, so that a function has no loops
    for k, (op, *operands) in enumerate(given["nodes"]):
        if k < inputs:
            _need(op == "input" and operands == [k], f"node {k} is not the input {k}")
        elif op in known:
            _need(len(operands) == 1, f"node {k} is no {op}")
            _index(operands[0], known[op])
        else:
            _need(OPERANDS.get(op) == len(operands), f"node {k} is no operation: {op!r} of {operands!r}")
            for x in operands:
                _index(x, k)
        nodes.append((op, *operands))
    _need(len(nodes) >= inputs, "inputs are missing")
    results = tuple(_index(x, len(nodes)) for x in given["outputs"])
    _need(len(results) == outputs, f"a function has {len(results)} results, expected {outputs}")
    return Function(inputs, tuple(nodes), results)


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)


def _name(x: Any) -> str:
    """A name that is printed in the theorem: words in one line, which cannot look like a part of it."""
    _need(isinstance(x, str) and re.fullmatch(r"[\w \[\],'-]{1,60}", x) is not None, f"{x!r} is no name")
    return str(x)


def _index(x: Any, size: int) -> int:
    _need(type(x) is int and 0 <= x < size, f"the index {x!r} is not one of 0 to {size - 1}")
    return int(x)


def _direction(x: Any) -> int:
    _need(type(x) is int and x in (-1, 0, 1), f"the direction {x!r} is not -1, 0 or 1")
    return int(x)


def _flag(x: Any) -> bool:
    _need(type(x) is bool, f"{x!r} is neither true nor false")
    return bool(x)


def _number(x: Any) -> Fraction:
    """An exact number: "0x1.8p+1" or "3/7"."""
    _need(isinstance(x, str), f"the number {x!r} is not exact: it is no text")
    return Fraction(float.fromhex(x)) if "0x" in x else Fraction(x)


def _binary(x: Any) -> Fraction:
    """A double in hexadecimal digits."""
    _need(isinstance(x, str) and "0x" in x, f"the number {x!r} is no double in hexadecimal digits")
    return Fraction(float.fromhex(x))


def _bounds(x: Any) -> Bounds:
    low, high = (x, x) if isinstance(x, str) else x
    bounds = _number(low), _number(high)
    _need(bounds[0] <= bounds[1], f"the bounds {x!r} of a constant are in the wrong order")
    return bounds
