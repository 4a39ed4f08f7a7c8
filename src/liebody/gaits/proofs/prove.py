"""The calls that prove orbits, families of them, and branches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.arguments import checked, count, floats, wrong_shape
from ...base.errors import positive as positive_number
from ...compiler import NotProved
from ..continuation import Branch
from ..orbit import PeriodicOrbit
from .basins import MOST_PIECES, ProvedBasin, largest_basin, proved_basin
from .bifurcations import (
    ProvedBifurcation,
    extended_orbit,
    proved_bifurcation,
    refined_bifurcation,
)
from .blocks import BlockElimination
from .certificate import Certificate, data_of
from .equations import ExactEquations, ProofError, equations_of_field
from .events import refuse_other_events
from .families import Chain, Family, family_of
from .multipliers import discs, largest_modulus, return_map_slope
from .phases import Course, PositiveFunctions, equations_of
from .relative import relative_equations, relative_state
from .system import Enclosed, StepEquations, SteppedOrbit

Array = Any
RADII = 10.0 ** -np.arange(1.5, 10.1, 0.5)  # of boxes that are tried for uniqueness
ORDERS = 4, 30
# names of positive functions, and those that theorems have for something else, as in liebody_check.reading
NAME = r"[A-Za-z](?:[A-Za-z0-9_ ,\[\]'-]{0,58}[A-Za-z0-9_\]])?"
SYMBOLS = r"[fJ]\d*|[TyxcVnLas]|relative .*"


@checked
def prove(
    orbit: PeriodicOrbit,
    *,
    positive: Mapping[str, Callable[..., Any]] | None = None,
    positive_at_events: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    rounding: float = 0.0,
    radius: float | None = None,
    order: int = 18,
) -> Certificate | Family:
    """Prove that a periodic orbit exists next to a computed one, is alone there, and how stable it is.

    orbit       of a hybrid system with any events in their order, or without, on R(n), SO3, SE3, with a base
                that moves in a plane, or on products of these. Memory between events is a constant of the
                phase, where the order of events decides it, or else a state; of a time, its age is. An orbit
                that is driven in time (`period=lambda p: ...`) depends on it by sines and cosines
    positive    {name: f(t, q, v, z, p)}, with the arguments of `guards`: functions, such as a contact force,
                that are proved positive along the whole orbit, also at both ends of each phase
    positive_at_events  {name: f(t, q, v, z, p, events)}, with the arguments of `update`: functions, such as
                an impulse, that are proved positive at every event, at the state before the update. Functions
                of both kinds must be invariant under the symmetries of the orbit. Where one does not matter,
                let it return 1.0: phases in which it is a positive constant are not named in the theorem. The
                ends of a phase have the branches of conditions that hold within it
    parameters  exact values: {"mu": Fraction(1, 3)}, "1/3" or a Decimal; a pair (lower, upper): the theorem
                holds for every value between them. Others are the binary numbers of the orbit. One pair that
                contains the orbit's value makes a `Family`: boxes move with the parameter, so that the
                interval may be long. Several pairs make a `Certificate` of one box for all values
    rounding    constants of the equations with more than 24 binary digits stand for all numbers within this
                share of them: 2**-50 covers 9.81 where the graph has the binary number next to it, and a few
                roundings while tracing. 0: the theorem is about the binary numbers
    radius      within which the orbit is alone; default: the largest of 0.03, 0.01, ..., 1e-10 that works, or
                else a radius for each unknown. Of families at least this one; default: what their proof needs
    order       of Taylor's formula in each step, from 4 to 30

    returns     Certificate, or Family; its `theorem` and `save` are for others

    The proof is Krawczyk's (1969) for the equations of all steps at once (`proofs/system.py`), in intervals
    that C rounds outwards. It needs a C compiler; NumPy cannot round upwards, so there is no substitute.

    Errors: ProofError where the theorem is not proved, with the step that failed and what would help.

        certificate = gaits.prove(orbit)
        print(certificate.theorem())
        certificate.save("orbit.json")   # python -m liebody_check orbit.json
    """
    options = _Options(rounding, radius, order)
    functions = _positive_functions(positive, positive_at_events)
    # the equations and their arithmetic
    equations, course = equations_of(orbit, parameters or {}, options.rounding, functions)
    free = [name for name, (low, high) in equations.constants.parameters.items() if low != high]
    if len(free) != 1:
        return _proved(equations, course, options)
    (name,) = free
    family = _family(orbit, equations, course, name, options, True)
    if not family.complete:
        raise ProofError(f"the family of {equations.name} {family.status}")
    return family


@checked
def prove_branch(
    branch: Branch,
    *,
    positive: Mapping[str, Callable[..., Any]] | None = None,
    positive_at_events: Mapping[str, Callable[..., Any]] | None = None,
    stability: bool = False,
    rounding: float = 0.0,
    order: int = 18,
    most: int = 10000,
) -> Family:
    """Prove that the orbits of a branch are one curve: a chain of moving boxes from one end to the other.

    branch     from `continuation`, in the order of the curve; the chain begins in its middle, and goes both
               ways
    stability  make boxes so short that the stability of their orbits is decided, if that can be; the family
               then has many more parts
    positive, positive_at_events, rounding, order  as in `prove`
    most       parts to either side

    returns    Family; where the chain ends before the branch, `complete` is False, and `status` says at which
               value and what would help. A chain over the parameter cannot turn, so it ends before a fold

    Errors: ProofError where nothing is proved at all.

        family = gaits.prove_branch(gaits.continuation(orbit, "slope", step=0.01, bounds=(0.02, 0.07)))
        print(family.status)
        print(family.theorem())
    """
    options = _Options(rounding, None, order)
    orbit = branch.orbits[len(branch.orbits) // 2]
    values, turns = _without_turns(branch)
    functions = _positive_functions(positive, positive_at_events)
    equations, course = equations_of(orbit, {branch.parameter: values}, options.rounding, functions)
    family = _family(orbit, equations, course, branch.parameter, options, stability, most)
    if not turns:
        return family
    status = "; ".join([family.status] * (not family.complete) + [turns])
    return replace(family, data={**family.data, "status": status}, status=status, complete=False)


@checked
def prove_flip(
    orbit: PeriodicOrbit,
    parameter: str,
    *,
    rounding: float = 0.0,
    radius: float | None = None,
    order: int = 18,
) -> ProvedBifurcation:
    """Prove that an orbit has the multiplier -1 at exactly one value of a parameter, near an orbit's value.

    orbit      near the flip, as `continuation` finds it: the `orbit` of one of its `bifurcations`
    parameter  by name; the others have the orbit's values, as exact binary numbers
    rounding, radius, order  as in `prove`; the radius holds for the parameter and the eigenvector, too

    returns    ProvedBifurcation, with bounds of the value, the orbit and the eigenvector

    The orbit, the parameter and the eigenvector are one closed orbit of a larger system, whose field contains
    the derivative of the system's field (`proofs/extended.py`; Kuznetsov 2004, section 10.3). The checker
    differentiates the equations of the certificate by itself.

    Errors: ProofError where nothing is proved: the orbit is not near a flip, the flip is degenerate, or the
    orbit rotates in space or is driven.

        branch = gaits.continuation(orbit, "slope", step=0.005, bounds=(0.05, 0.08))
        flip = gaits.prove_flip(branch.bifurcations[0].orbit, "slope")
        print(flip.theorem())
    """
    return _bifurcation(orbit, parameter, "flip", _Options(rounding, radius, order))


@checked
def prove_fold(
    orbit: PeriodicOrbit,
    parameter: str,
    *,
    rounding: float = 0.0,
    radius: float | None = None,
    order: int = 18,
) -> ProvedBifurcation:
    """Prove that the orbits near a given one turn back at exactly one value of a parameter.

    There a multiplier is 1, besides the multiplier along the orbit. At a branch point the larger system is
    singular, so that this call proves folds only. Arguments, result and errors are as in `prove_flip`.
    """
    return _bifurcation(orbit, parameter, "fold", _Options(rounding, radius, order))


@checked
def prove_basin(
    orbit: PeriodicOrbit,
    *,
    parameters: Mapping[str, Any] | None = None,
    rounding: float = 0.0,
    radius: float | None = None,
    pieces: int = 4,
    order: int = 18,
) -> ProvedBasin:
    """Prove that a stable orbit exists, and a set of starts from which every motion converges to it.

    radius  of the set: all states of the section within it (Euclid, in the units of the states) are among the
            starts; default: the largest of 1, 0.89, 0.79, ..., 1e-8 that works
    pieces  over which derivatives of the motions are averaged, 1 to 64: more of them prove somewhat larger
            sets, in times that grow in proportion, also of the checker
    others  as in `prove`

    returns ProvedBasin: an ellipsoid of starts. The return map takes it into itself and contracts it
            (`proofs/basins.py`). If the orbit closes up to shifts, starts are relative states, which no
            shift changes, and motions converge up to a shift (`proofs/relative.py`)

    Errors: ProofError where the orbit is not proved, or not stable, rotates in space or is driven.
    """
    options = _Options(rounding, None, order)
    wanted = None if radius is None else positive_number("radius", radius)
    pieces = count("pieces", pieces, 1)
    if pieces > MOST_PIECES:
        raise ProofError(f"pieces is {pieces}, expected 1 to {MOST_PIECES}")
    equations, course = equations_of(orbit, parameters or {}, options.rounding)
    _need_plain_closing(equations, "basins")
    shifted = equations if equations.symmetries else None
    if shifted is not None:
        course = Course(relative_state(shifted, course.start), course.durations)
        equations = relative_equations(shifted)
    try:
        problem, wide, tight = _enclosed(equations, course, options)
        certificate = _certified(problem, wide, tight)
        return proved_basin(certificate, largest_basin(problem, tight, wanted, pieces), shifted)
    except NotProved as error:
        raise ProofError(f"bounds of the orbit of {equations.name} cannot be computed: {error}") from None


def _bifurcation(orbit: PeriodicOrbit, parameter: str, kind: str, options: _Options) -> ProvedBifurcation:
    equations, course = equations_of(orbit, {}, options.rounding)
    _need_plain_closing(equations, f"{kind}s")
    try:
        near = extended_orbit(equations, course, parameter, kind, options.order)
        refined, linear = refined_bifurcation(near, options.order)
        problem = StepEquations(near.extended, options.order)
        F = problem.residual(refined)
        wide = _largest(problem, refined, linear.as_checked(), F, options)
        if wide.radius.min() < wide.radius.max():
            raise ProofError(f"no box of one radius for all unknowns is proved for the {kind}")
        tight = _tightest(problem, wide, linear, F)
        refuse_other_events(problem, tight)
        return proved_bifurcation(near, problem, wide, tight)
    except NotProved as error:
        raise ProofError(f"bounds of the {kind} of {equations.name} cannot be computed: {error}") from None


def _need_plain_closing(equations: ExactEquations, what: str) -> None:
    """Raise ProofError for orbits with quaternions or a drive, whose larger systems would close otherwise."""
    if equations.closing is not None:
        raise ProofError(f"{what} of orbits that rotate in space, or are driven, cannot be proved yet")


def _positive_functions(
    along: Mapping[str, Callable[..., Any]] | None, at_events: Mapping[str, Callable[..., Any]] | None
) -> PositiveFunctions:
    """The functions to prove positive; ProofError for names that they cannot have."""
    names = [*(along or {}), *(at_events or {})]
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise ProofError(
                f"{name!r} is the name of a positive function, expected a letter and up to 59 letters, "
                "digits, spaces and characters of _[],'-"
            )
        if re.fullmatch(SYMBOLS, name):
            raise ProofError(
                f"{name!r} is the name of a positive function, and a symbol of theorems; give it a longer one"
            )
        if names.count(name) > 1:
            raise ProofError(f"{name!r} is the name of two positive functions")
    return PositiveFunctions(along or {}, at_events or {})


def _without_turns(branch: Branch) -> tuple[tuple[float, float], str]:
    """The values of the parameter around the middle of a branch up to where it turns, and where that is."""
    values = branch.values.tolist()
    if len(values) < 2:
        raise ProofError(f"the branch over {branch.parameter} has {len(values)} orbit, expected two or more")
    first = last = len(values) // 2
    sign = 1.0 if values[last] > values[last - 1] else -1.0
    while first > 0 and sign * (values[first] - values[first - 1]) > 0:
        first -= 1
    while last < len(values) - 1 and sign * (values[last + 1] - values[last]) > 0:
        last += 1
    ends = [values[k] for k, end in ((first, 0), (last, len(values) - 1)) if k != end]
    turns = ", ".join(f"{x:.9g}" for x in ends)
    words = f"stops at {branch.parameter} = {turns}, where the branch turns: another parameter is needed"
    return (min(values[first], values[last]), max(values[first], values[last])), words if ends else ""


def _family(
    orbit: PeriodicOrbit,
    equations: ExactEquations,
    course: Course,
    parameter: str,
    options: _Options,
    stability: bool,
    most: int = 10000,
) -> Family:
    """The family over the bounds of a parameter, as far as it is proved."""
    layout = orbit.system.parameters
    flat = dict(zip(layout.entries, layout.values(orbit.parameters, ()).tolist(), strict=True))
    bounds = equations.constants.parameters[parameter]
    radius = 0.0 if options.radius is None else options.radius
    chain = Chain(equations, parameter, options.order, bounds, stability, radius, most)
    try:
        parts, reasons = chain.both_sides(course, flat[parameter])
    except NotProved as error:
        raise ProofError(f"bounds of the orbit of {equations.name} cannot be computed: {error}") from None
    if not parts:
        raise ProofError(f"no family of orbits of {equations.name} is proved: it {reasons[1] or reasons[0]}")
    return family_of(equations, parameter, parts, options.order, reasons)


@checked
def prove_field(
    field: Callable[..., Any],
    y0: Array,
    period: float,
    *,
    names: Sequence[str] | None = None,
    name: str = "field",
    positive: Mapping[str, Callable[..., Any]] | None = None,
    rounding: float = 0.0,
    radius: float | None = None,
    order: int = 18,
) -> Certificate:
    """Prove a periodic orbit of y' = f(y) in R^N, for any smooth vector field of NumPy operators.

    field   y (N,) -> dy/dt (N,)
    y0      a point next to the orbit, from which Newton's method converges, (N,)
    period  about its period; a multiple of it for orbits that close later
    names   of the states; default: y[0], y[1], ...
    name    of the system, in the theorem
    positive  {name: f(y)}: functions that are proved positive along the whole orbit
    others  as in `prove`

        prove_field(lambda y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], [2.0, 0.1], 6.66).theorem()
    """
    options = _Options(rounding, radius, order)
    start = floats("y0", y0)
    if start.ndim != 1 or not len(start):
        raise wrong_shape("y0", start.shape, "a state (N,)")
    names = [f"y[{k}]" for k in range(len(start))] if names is None else names
    if len(names) != len(start):
        raise ProofError(f"names has {len(names)} entries, expected {len(start)}, one for each state")
    functions = _positive_functions(positive, None).along
    equations = equations_of_field(field, start, names, name, options.rounding, functions)
    return _proved(equations, Course(start, [positive_number("period", period, " of seconds")]), options)


class _Options:
    """The options of proofs, checked."""

    def __init__(self, rounding: float, radius: float | None, order: int) -> None:
        self.order = count("order", order)
        self.rounding = rounding
        self.radius = radius
        self.radii = RADII if radius is None else np.array([positive_number("radius", radius)])
        if not ORDERS[0] <= self.order <= ORDERS[1]:
            raise ProofError(f"order is {order}, expected {ORDERS[0]} to {ORDERS[1]}")
        if not 0 <= rounding < 1e-6:
            raise ProofError(f"rounding is {rounding!r}, expected a small share such as 2**-50, or 0")
        if self.radii[0] >= 0.5:
            raise ProofError(f"radius is {radius!r}, expected a number below 0.5")


def _proved(equations: ExactEquations, course: Course, options: _Options) -> Certificate:
    try:
        return _steps_of_the_proof(equations, course, options)
    except NotProved as error:
        raise ProofError(f"bounds of the orbit of {equations.name} cannot be computed: {error}") from None


def _steps_of_the_proof(equations: ExactEquations, course: Course, options: _Options) -> Certificate:
    return _certified(*_enclosed(equations, course, options))


def _enclosed(
    equations: ExactEquations, course: Course, options: _Options
) -> tuple[StepEquations, Enclosed, Enclosed]:
    """The orbit in the largest box in which it is the only one, and in a small box."""
    # an orbit in short steps, to round-off, for one value of each constant
    middle = StepEquations(equations, options.order, exact=False)
    guess = middle.divided(course.start, course.durations, min(options.radii[0], 1e-3))
    refined, linear = middle.refined(guess)
    # boxes around it, for all values
    problem = StepEquations(equations, options.order)
    F = problem.residual(refined)
    wide = _largest(problem, refined, linear.as_checked(), F, options)
    # a radius for each unknown of a stiff orbit is a few times as large as the bound of Newton's step
    return problem, wide, wide if refined.stiff else _tightest(problem, wide, linear, F)


def _certified(problem: StepEquations, wide: Enclosed, tight: Enclosed) -> Certificate:
    # what happens on the way, and the multipliers
    refuse_other_events(problem, tight)
    slope = return_map_slope(problem, tight)
    return _certificate(problem, wide, tight, discs(slope), largest_modulus(problem, slope))


def _largest(
    problem: StepEquations, orbit: SteppedOrbit, linear: BlockElimination, F: Array, options: _Options
) -> Enclosed:
    """The orbit in the largest box of one radius, or else in a box with a radius for each unknown.

    A box of one radius fails for stiff orbits, so it is not tried there unless the radius is given.
    """
    tried = "a radius for each unknown"
    if options.radius is not None or not orbit.stiff:
        tried = f"a radius from {options.radii[-1]:.1e} to {options.radii[0]:.1e}"
        for radius in options.radii:
            found = problem.krawczyk(orbit, linear, np.full(len(orbit.flat), radius), F)
            if found is not None:
                return found
    if options.radius is None:
        found = problem.with_own_radii(orbit, linear, F)
        if found is not None:
            return found
    size = problem.newton_step(linear, F).max()
    raise ProofError(
        f"no box with {tried} contains its image by Krawczyk's "
        f"operator; the computed orbit is certain to {size:.1e} only. Smaller intervals of parameters, or a "
        "smaller radius, may help; an orbit at a bifurcation has none"
    )


def _tightest(problem: StepEquations, wide: Enclosed, linear: BlockElimination, F: Array) -> Enclosed:
    """The same orbit in a box a few times as large as the bound of Newton's step, or as small as it gets."""
    flat = wide.orbit.flat
    step = problem.newton_step(linear, F)
    least = 3 * step + 1e-2 * wide.radius * (step / wide.radius).max() + 1e-15 * np.abs(flat)
    for factor in 10.0 ** np.arange(6):
        if not (factor * least < wide.radius).all():
            break
        found = problem.krawczyk(wide.orbit, linear, factor * least, F)
        if found is not None:
            return found
    return wide


def _certificate(
    problem: StepEquations,
    wide: Enclosed,
    tight: Enclosed,
    discs: tuple[Array, float],
    modulus: float,
) -> Certificate:
    common = problem.equations.common
    nodes, times = [], []
    passed = 0.0
    for steps, (boxes, _) in zip(tight.orbit.phases, tight.phases, strict=True):
        nodes.append(boxes[:, :common] * [-1, 1])  # (lower, upper)
        times.append(passed + steps.s * np.append(0.0, np.cumsum(steps.w)))
        passed = times[-1][-1]
    durations = problem.durations(tight)
    return Certificate(
        problem.period(durations),
        np.concatenate(nodes),
        np.concatenate(times) / passed,
        durations * [-1, 1],
        tight.shift * [-1, 1],
        float(wide.radius.min()),
        *discs,
        modulus,
        data_of(problem.equations, wide.orbit, wide.radius, problem.order),
    )
