"""Continuation: a curve of periodic orbits over a parameter, and the bifurcations on it.

With all unknowns z of the equations r(z) = 0, the parameter among them, the next orbit lies in the plane
through z + ds t across the tangent t, so that the curve may turn (pseudo-arclength; Doedel 2007).

Multipliers mu leave the unit circle, and test functions change their sign, in (Kuznetsov 2004, chapters 4, 5)

    prod (mu_i - 1)             fold, where the curve turns; branch point, where it does not
    prod (mu_i + 1)             flip: orbits of twice the period begin
    prod (mu_i mu_j - 1), i < j   Neimark-Sacker, of a pair exp(+- i a): orbits on a torus begin

Where events come, go or change places, the return map has a corner (grazing), and multipliers may jump
(border collision; di Bernardo et al. 2008, chapters 3 and 4).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.errors import ConfigurationError, positive, warn
from .branch_point import branch_point
from .floquet import floquet
from .orbit import ENOUGH, PeriodicOrbit, largest_multiplier
from .segments import Array, Events, GaitError, Point, named
from .shooting import RANK, Shooting, Shot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLD = "fold"
BRANCH = "branch point"
FLIP = "flip"
TORUS = "Neimark-Sacker"
GRAZING = "grazing"
ORDER = "change of the order of events"
BORDER = "border collision"
NEAR = 0.05  # a multiplier further than this from where it should cross has jumped
SHORTEST = 1e-3  # step along the curve, over the first one


class UnreachedPrecision(UserWarning):
    """The place of a bifurcation is less precise than was asked for; the message says how precise it is."""


@dataclass(frozen=True)
class Bifurcation:
    """A change of the orbits at a value of the parameter.

    kind         "fold", "branch point", "flip", "Neimark-Sacker"; "grazing" where events come or go, "change
                 of the order of events"; "border collision" where multipliers then jump over the unit circle
    value        of the parameter
    multiplier   the one that crosses; the largest one after a jump
    orbit        the nearest orbit; sides: the orbits just before and after it on the curve
    events       which come and which go, in words
    precision    that was reached: how far the multiplier is from the unit circle, or how far apart the sides
                 are along the curve, in steps, whichever is less
    """

    kind: str
    value: float
    multiplier: complex
    orbit: PeriodicOrbit
    sides: tuple[PeriodicOrbit, PeriodicOrbit]
    events: str = ""
    precision: float = float("nan")

    @property
    def of_stability(self) -> bool:
        """Whether orbits on one side are stable, and on the other not."""
        return self.sides[0].stable != self.sides[1].stable

    def __repr__(self) -> str:
        more = f", {self.events}" if self.events else ""
        x = self.multiplier
        shown = f"{x.real:.4f}" if abs(x.imag) < 1e-9 else f"{x.real:.4f} +- {abs(x.imag):.4f} i"
        return f"Bifurcation({self.kind} at {self.value:.8g}, multiplier {shown}{more})"


@dataclass(frozen=True)
class Branch:
    """Orbits along a parameter in the order of the curve, bifurcations, why it ends below and above.

    Each orbit has the parameter among its `parameters`.
    """

    parameter: str
    orbits: list[PeriodicOrbit]
    bifurcations: list[Bifurcation]
    ends: tuple[str, str]

    @property
    def values(self) -> Array:
        """Values of the parameter, (n,)."""
        return np.array([orbit.parameters[self.parameter] for orbit in self.orbits])

    @property
    def stable(self) -> Array:
        return np.array([orbit.stable for orbit in self.orbits])

    def __repr__(self) -> str:
        lines = [f"Branch of {len(self.orbits)} orbits over {self.parameter} from {self.values[0]:.6g} "
                 f"({self.ends[0]}) to {self.values[-1]:.6g} ({self.ends[1]})"]  # fmt: skip
        return "\n  ".join([*lines, *map(repr, self.bifurcations)])

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *others: Branch,
        of: Callable[[PeriodicOrbit], Any] | None = None,
        label: str = "period [s]",
    ) -> Figure:
        """Draw a number of each orbit, its period by default, over the parameter; bifurcations are marked.

        path    file to write, its suffix says how: .png, .pdf, .svg
        others  more branches over the same parameter
        of      orbit -> a number, or several, as of all its nodes; label: its name on the axis
        """
        from .pictures import branches

        return branches([self, *others], path, of or (lambda orbit: orbit.period), label)


def continuation(
    orbit: PeriodicOrbit,
    parameter: str,
    *,
    step: float,
    bounds: tuple[float, float],
    most: int = 60,
    locate: str = "all",
    precision: float = 1e-7,
    tolerance: float = ENOUGH,
    shortest: float = SHORTEST,
) -> Branch:
    """Follow a periodic orbit over a parameter, both ways along the curve, and name the bifurcations.

    orbit      where it starts, from `periodic_orbit`
    parameter  name of a parameter of the system, a number
    step       the change of the parameter that counts as much as the orbit's `scale`; the first step
    bounds     (lower, upper) values of the parameter: the last orbit to either side lies on a bound, unless
               the curve ends before
    most       how many orbits to follow to either side
    locate     "all" bifurcations and changes of events; "stability": those at which stability changes
    precision  to which a crossing multiplier is brought to the unit circle, or values over the step; where
               it is not, an UnreachedPrecision warning gives the precision, as `Bifurcation.precision` does
    tolerance  of the equations, as of `periodic_orbit`
    shortest   step to be tried before the curve is given up, over the first step

    Errors: GaitError if not even one step can be made; ConfigurationError where orbits come in families,
    so that no curve over the parameter is singled out.
    """
    if locate not in ("all", "stability"):
        raise ConfigurationError(f"locate is {locate!r}, expected 'all' or 'stability'")
    # first the curve to both sides, then bifurcations between neighbours on it
    curve = _Curve(orbit, parameter, step, tolerance, shortest)
    branch, points = _followed(curve, orbit, bounds, most)
    bifurcations = [
        event for a, b in pairwise(points) for event in curve.happens(a, b, locate == "all", precision)
    ]
    _warn_of_unreached(parameter, bifurcations, precision)
    return replace(branch, bifurcations=bifurcations)


def _warn_of_unreached(parameter: str, bifurcations: list[Bifurcation], precision: float) -> None:
    coarse = [x for x in bifurcations if not x.precision <= precision]
    if coarse:
        places = "; ".join(f"{x.kind} at {parameter} = {x.value:.9g} to {x.precision:.1e}" for x in coarse)
        warn(
            f"precision={precision:g} was not reached: {places}. Newton's method fails nearer to it "
            "(where an orbit touches a guard, or two curves pass each other), or its tolerance hides more "
            "digits. Follow the curve in smaller steps, with a smaller tolerance, or give a larger precision",
            UnreachedPrecision,
        )


def _followed(
    curve: _Curve, orbit: PeriodicOrbit, bounds: tuple[float, float], most: int
) -> tuple[Branch, list[_On]]:
    """The curve to both sides of an orbit, without bifurcations; and its orbits with tangents."""
    if not bounds[0] < bounds[1]:
        raise ConfigurationError(f"bounds are {bounds!r}, expected (lower, upper)")
    first = curve.start(orbit)
    sides = []
    ends = []
    if not bounds[0] <= curve.value(first.orbit) <= bounds[1]:
        value = f"{curve.parameter} = {curve.value(first.orbit):.9g}"
        raise ConfigurationError(
            f"the orbit has {value}, outside of bounds {bounds!r}; give bounds around it, or an orbit within"
        )
    # downwards and upwards along the curve; it may turn later
    for sign in (-1.0, 1.0):
        upward = np.sign(first.tangent[-1]) or 1.0
        side, end = curve.go(first._replace(tangent=sign * upward * first.tangent), bounds, most)
        sides.append(side)
        ends.append(end)
    if not sides[0] and not sides[1]:
        raise GaitError(f"the orbit cannot be followed over {curve.parameter}: {ends[0]}; {ends[1]}")
    # one curve from below to above, tangents along it
    below = [on._replace(tangent=-on.tangent) for on in reversed(sides[0])]
    points = [*below, first, *sides[1]]
    return Branch(curve.parameter, [on.orbit for on in points], [], (ends[0], ends[1])), points


def switch_branch(bifurcation: Bifurcation, parameter: str, distance: float = 1.0) -> PeriodicOrbit:
    """An orbit of the other branch: of twice the period at a flip, of the crossing curve at a branch point.

    distance  from the bifurcation along the direction that becomes free, over the orbit's `scale`; its sign
              chooses the side

    The result is followed by `continuation`. Doedel (2007), section 1.2.
    """
    if bifurcation.kind not in (FLIP, BRANCH):
        raise ConfigurationError(
            f"no branch begins at a {bifurcation.kind}; flips and branch points have one"
        )
    orbit = bifurcation.orbit
    unknowns = tuple(name for name in orbit.shooting.unknowns if name != parameter)
    if bifurcation.kind == FLIP:
        # the direction with the multiplier -1, carried to all nodes, with the other sign in the second half
        multipliers = floquet(orbit)
        scale = orbit.shooting.scale
        n = 2 * orbit.system.nv
        way = multipliers.directions[:, np.argmin(np.abs(multipliers.values + 1))].real
        nodes = [orbit.derivative @ way]  # of a return map: on its section
        for arc in orbit.shot.arcs[:-1]:
            nodes.append(arc.D[:, :n] @ nodes[-1])
        x = np.concatenate(nodes) / np.tile(scale, len(nodes))
        way = np.concatenate([x, -x])
        shooting = orbit.shooting.doubled()
        at = orbit.point
        again = [shooting.shifted(x, orbit.shift) for x in at.q]
        at = replace(
            at, q=np.concatenate([at.q, again]), v=np.tile(at.v, (2, 1)), period=2 * at.period,
            shift=2 * at.shift,
        )  # fmt: skip
    else:
        # the plane of both tangents, and in it the direction across the curve that is known
        shooting = orbit.shooting
        at = orbit.point
        A = np.concatenate([orbit.shot.jacobian, shooting.phases(at, orbit.shot)])
        plane = np.linalg.svd(A)[2][-2:]
        chord = shooting.between(bifurcation.sides[0].point, bifurcation.sides[1].point)
        along = plane @ chord
        way = np.array([-along[1], along[0]]) @ plane
    # a step along that direction, then Newton's method across it; the parameter is an unknown
    t = np.concatenate([way, np.zeros(shooting.size - len(way))])
    t = t / np.abs(t).max()
    guess = shooting.moved(at, distance * t)
    rows = np.concatenate([shooting.phases(at, shooting.shoot(guess)), t[None] / np.linalg.norm(t)])
    point, _, _ = shooting.solve(guess, ENOUGH, 20, rows)
    plain = shooting.with_unknowns(unknowns)
    return PeriodicOrbit(plain, point, plain.shoot(point))


def bifurcation_curve(
    bifurcation: Bifurcation,
    parameter: str,
    *,
    step: float,
    bounds: tuple[float, float],
    most: int = 40,
    tolerance: float = 1e-8,
) -> Branch:
    """Follow a fold, a flip or a Neimark-Sacker bifurcation over a second parameter.

    bifurcation  from a `Branch`, whose parameter stays among the unknowns
    parameter    name of the second one; step, bounds, most, tolerance as of `continuation`

    Each orbit of the result has both parameters. The critical multiplier joins the equations (mu = 1,
    mu = -1, |mu|^2 = 1), with its derivative by central differences of simulations. Kuznetsov (2004), 10.3.
    """
    # the same equations, with the test function as one more
    if bifurcation.kind not in TESTS:
        raise ConfigurationError(f"a {bifurcation.kind} is not followed; {', '.join(TESTS)} are")
    orbit = bifurcation.orbit
    arguments = {x.name: getattr(orbit.shooting, x.name) for x in fields(Shooting)}
    equations = _AtBifurcation(**arguments, kind=bifurcation.kind)
    first = PeriodicOrbit(equations, orbit.point, orbit.shot)
    return _followed(_Curve(first, parameter, step, tolerance), first, bounds, most)[0]


@dataclass(eq=False)
class _AtBifurcation(Shooting):
    """The equations of an orbit with a multiplier on the unit circle."""

    kind: str = ""

    def shoot(self, at: Point) -> Shot:
        shot = super().shoot(at)
        # the derivative of the critical multiplier, by central differences of all unknowns
        h = 1e-5
        steps = h * np.eye(self.size)
        slope = [(self._test(self.moved(at, x)) - self._test(self.moved(at, -x))) / (2 * h) for x in steps]
        r = np.append(shot.residual, self._test(at))
        J = np.vstack([shot.jacobian, slope])
        return Shot(r, J, shot.arcs)

    def _test(self, at: Point) -> float:
        orbit = PeriodicOrbit(self, at, super().shoot(at))
        return _critical(orbit, self.kind)[1].real


class _On(NamedTuple):
    """An orbit on the curve and the tangent there, over the unit."""

    orbit: PeriodicOrbit
    tangent: Array


class _Curve:
    """Solutions of the equations of an orbit with a parameter as the last unknown."""

    def __init__(
        self, orbit: PeriodicOrbit, parameter: str, step: float, tolerance: float, shortest: float = SHORTEST
    ) -> None:
        names = [x for x in orbit.shooting.unknowns if x != parameter]
        size = positive("step", abs(step))
        self.shooting: Shooting = orbit.shooting.with_unknowns([*names, parameter], **{parameter: size})
        # the parameter becomes the last unknown, and its unit the step of the user
        if self.shooting.system.parameters.defaults[parameter].size != 1:
            raise ConfigurationError(f"{parameter} is an array; only a number can be followed")
        self.parameter = parameter
        self.tolerance = tolerance
        self.shortest = shortest

    def start(self, orbit: PeriodicOrbit) -> _On:
        # an orbit that was found without the parameter among its unknowns has its default value
        default = self.shooting.system.parameters.defaults[self.parameter]
        parameters = {self.parameter: float(np.ravel(default)[0]), **orbit.parameters}
        at = replace(orbit.point, parameters=parameters)
        return self._on(at, self.shooting.shoot(at), None)

    def _on(self, at: Point, shot: Shot, before: Array | None) -> _On:
        # the tangent is the null vector of the equations across the phases; a second one is a family
        _, sizes, vh = np.linalg.svd(np.concatenate([shot.jacobian, self.shooting.phases(at, shot)]))
        if len(sizes) < self.shooting.size - 1 or (
            before is None and sizes[self.shooting.size - 2] < RANK * sizes[0]
        ):
            raise ConfigurationError(
                "beside this orbit there are others without any change of the parameter, as those of another "
                "energy; give periodic_orbit a condition that chooses one, and a parameter less as unknown"
            )
        t = vh[-1]
        if before is not None and t @ before < 0:
            t = -t
        return _On(PeriodicOrbit(self.shooting, at, shot), t)

    def value(self, orbit: PeriodicOrbit) -> float:
        return float(orbit.parameters[self.parameter])

    def correct(self, last: _On, x: Array, across: Array, tries: int = 7) -> tuple[_On, int]:
        """The orbit next to `last` moved by x, in the plane across a direction; the steps it took."""
        guess = self.shooting.moved(last.orbit.point, x)
        rows = np.concatenate([self.shooting.phases(last.orbit.point, last.orbit.shot), across[None]])
        point, shot, steps = self.shooting.solve(guess, self.tolerance, tries, rows)
        return self._on(point, shot, last.tangent), steps

    def at_bound(self, last: _On, beyond: _On, bound: float) -> _On:
        """The orbit at a bound of the parameter, between the last one and one beyond the bound.

        Newton's method solves for the other unknowns, from a guess on the chord, with the parameter kept at
        the bound. Raises GaitError where it finds a piece of the curve that does not lead out there.
        """
        # the chord to the orbit beyond, cut at the bound
        chord = self.shooting.between(last.orbit.point, beyond.orbit.point)
        share = (bound - self.value(last.orbit)) / (self.value(beyond.orbit) - self.value(last.orbit))
        on, _ = self.correct(last, share * chord, np.eye(len(chord))[-1])
        if on.tangent[-1] * chord[-1] <= 0:
            raise GaitError("the curve turns at the bound")
        point = replace(on.orbit.point, parameters={**on.orbit.parameters, self.parameter: bound})
        return on._replace(orbit=PeriodicOrbit(self.shooting, point, on.orbit.shot))

    def go(self, first: _On, bounds: tuple[float, float], most: int) -> tuple[list[_On], str]:
        """Orbits behind the first one, in the direction of its tangent, and why they end.

        A step that leads out of the bounds is made again, to the bound, and is the last one.
        """
        points = [first]
        size = 1.0
        while len(points) <= most:
            last = points[-1]
            ended = False
            try:
                # predict along the tangent, correct across it
                on, steps = self.correct(last, size * last.tangent, last.tangent)
                bound = float(np.clip(self.value(on.orbit), *bounds))
                if bound != self.value(on.orbit):
                    ended = True
                    if bound == self.value(last.orbit):
                        return points[1:], "end of the range"
                    on = self.at_bound(last, on, bound)
                smooth = on.orbit.events == last.orbit.events  # at other events the curve has corners
                if smooth and on.tangent @ last.tangent < 0.5 and size > self.shortest:
                    raise GaitError("the curve turns too fast")
            except GaitError as error:
                # Newton's method fails or the curve turns: a shorter step
                size /= 2
                if size < self.shortest:
                    return points[1:], f"no further than {self.value(last.orbit):.6g}: {error}"
                continue
            if not self.half(first.orbit) and self.half(on.orbit):
                return points[1:], "orbits of half the period"
            points.append(on)
            if ended:
                return points[1:], "end of the range"
            # few steps of Newton's method let the next step grow
            size = min(2.0, 1.4 * size) if steps < 5 else size
        return points[1:], f"after {most} orbits, not followed further"

    def half(self, orbit: PeriodicOrbit) -> bool:
        """Whether an orbit of several segments closes after half of them."""
        n, odd = divmod(self.shooting.segments, 2)
        if odd:
            return False
        return self.shooting.apart(orbit.q, orbit.v, orbit.point.q[n], orbit.point.v[n]) < 1e-5

    # -- bifurcations between two orbits --------------------------------------------------------------------

    def happens(self, a: _On, b: _On, everything: bool, precision: float) -> list[Bifurcation]:
        """All bifurcations and changes of events from a to b."""
        # which test functions change their sign
        stability = a.orbit.stable != b.orbit.stable
        if not everything and not stability:
            return []
        # a test function that is zero at a kind of bifurcation changes its sign there
        tests = [kind for kind in TESTS if _test(a.orbit, kind) * _test(b.orbit, kind) < 0]
        # a multiplier that only touches 1 where the curve turns: a pitchfork, seen from the branch that ends
        touches = a.tangent[-1] * b.tangent[-1] < 0 and FOLD not in tests
        crossing = self.crossing(a, b, precision) if touches else None
        if stability and not tests and not crossing:
            tests = [""]
        located = [crossing, *(self.locate(a, b, kind, precision) for kind in tests)]
        known = [x for x in located if x is not None and (everything or x.of_stability)]
        if everything and a.orbit.events != b.orbit.events and all(x.kind != BORDER for x in known):
            known.append(self.change(a, b, precision))
        return sorted(known, key=lambda x: abs(x.value - self.value(a.orbit)))

    def locate(self, a: _On, b: _On, kind: str, precision: float) -> Bifurcation | None:
        """Where a test function is zero, by the secant and by halving, in planes across the chord."""

        def distance(on: _On) -> float:
            return abs(_critical(on.orbit, kind)[1])

        crosses = kind == FOLD and a.tangent[-1] * b.tangent[-1] > 0
        if crosses and (branching := self.crossing(a, b, precision)):
            return branching
        low, high, width = self._narrowed(
            a, b, lambda orbit: _test(orbit, kind), lambda on: distance(on) < precision, precision
        )
        best = min((low, high), key=distance)
        mu, factor = _critical(best.orbit, kind)
        if (
            crosses
            and min(abs(factor), width) > precision
            and (branching := self.crossing(low, high, precision))
        ):
            return replace(branching, sides=(a.orbit, b.orbit))
        sides = (low.orbit, high.orbit)
        changed = difference(low.orbit.events, high.orbit.events)
        # no multiplier is near the unit circle although the test changed its sign: it has jumped
        if abs(factor) > NEAR:
            worse = max(sides, key=largest_multiplier)
            return Bifurcation(
                BORDER, self.value(worse), complex(worse.multipliers[0]), worse, sides, changed, width
            )
        name = kind or _kind(mu)
        # a product of 1 belongs to a complex pair on the circle, or to two real multipliers
        if name == TORUS and abs(mu.imag) < 1e-6:
            return None  # two real multipliers with the product 1: nothing happens
        if name == FOLD and a.tangent[-1] * b.tangent[-1] > 0:
            name = BRANCH
        reached = min(abs(factor), width)
        return Bifurcation(
            name, self.value(best.orbit), complex(mu), best.orbit, (a.orbit, b.orbit), precision=reached
        )

    def crossing(self, a: _On, b: _On, precision: float) -> Bifurcation | None:
        """The branch point between two orbits, by equations that are regular there; None if there is none.

        Newton's method starts on the chord, where the test function or else the tangent changes its sign.
        """
        if a.orbit.events != b.orbit.events:
            return None
        # where a straight line between both values is zero, Newton's method starts
        chord = self.shooting.between(a.orbit.point, b.orbit.point)
        f = _test(a.orbit, FOLD)
        g = _test(b.orbit, FOLD)
        if not f * g < 0:
            f = float(a.tangent[-1])
            g = float(b.tangent[-1])
        guess = self.shooting.moved(a.orbit.point, f / (f - g) * chord)
        try:
            regular = a.orbit.point, a.orbit.shot
            point, shot, _ = branch_point(self.shooting, regular, guess, precision / 10)
        except GaitError:
            return None
        orbit = PeriodicOrbit(self.shooting, point, shot)
        mu, factor = _critical(orbit, FOLD)
        along = self.shooting.between(a.orbit.point, point)
        length = np.linalg.norm(chord)
        # only a branch point between the two orbits, near the chord, is theirs
        share = along @ chord / length**2
        beside = np.linalg.norm(along - share * chord) < length
        if not (0 <= share <= 1 and beside and shot.size < self.tolerance and abs(factor) < NEAR):
            return None
        sides = a.orbit, b.orbit
        return Bifurcation(BRANCH, self.value(orbit), complex(mu), orbit, sides, precision=abs(factor))

    def change(self, a: _On, b: _On, precision: float) -> Bifurcation:
        """Where events come, go or change places."""
        events = a.orbit.events

        def same(orbit: PeriodicOrbit) -> float:
            return 1.0 if orbit.events == events else -1.0

        # events are equal or not, with nothing to interpolate: the sides come together up to the precision
        low, high, width = self._narrowed(a, b, same, lambda on: False, precision)
        changed = difference(low.orbit.events, high.orbit.events)
        sides = (low.orbit, high.orbit)
        mu = complex(high.orbit.multipliers[0])
        value = (self.value(low.orbit) + self.value(high.orbit)) / 2
        return Bifurcation(GRAZING if changed else ORDER, value, mu, high.orbit, sides, changed, width)

    def _narrowed(
        self, a: _On, b: _On, test: Callable[[PeriodicOrbit], float], enough: Callable[[_On], bool],
        precision: float,
    ) -> tuple[_On, _On, float]:  # fmt: skip
        """Orbits on either side of a change of sign of the test, closer together, and how far apart.

        It ends before that, too, where Newton's method fails.
        """
        chord = self.shooting.between(a.orbit.point, b.orbit.point)
        across = chord / np.linalg.norm(chord)
        # s and t: shares of the chord at which the test has its two signs
        s = 0.0
        low = a
        t = 1.0
        high = b
        f = test(a.orbit)
        g = test(b.orbit)
        for k in range(40):
            # two secants, then a halving, so that a flat side cannot hold the search up
            share = float(np.clip(f / (f - g), 0.05, 0.95)) if k % 3 < 2 else 0.5
            middle = s + (t - s) * share
            try:
                on, _ = self.correct(a, middle * chord, across)
            except GaitError:
                break  # nearer than this no orbit is found
            h = test(on.orbit)
            # the new orbit replaces the side on which the test has its sign
            if h * f > 0:
                s = middle
                low = on
                f = h
            else:
                t = middle
                high = on
                g = h
            if enough(on) or (t - s) * np.linalg.norm(chord) < precision:
                break
        return low, high, float((t - s) * np.linalg.norm(chord))


# -- tests of multipliers -----------------------------------------------------------------------------------


TESTS = FOLD, FLIP, TORUS


def _factors(orbit: PeriodicOrbit, kind: str) -> list[tuple[complex, complex]]:
    """Multipliers, each with the factor of the test function that is zero where it crosses."""
    mu = orbit.multipliers.tolist()
    if kind == TORUS:
        return [(a, a * b - 1) for a, b in combinations(mu, 2)]
    crosses = {FOLD: lambda x: x - 1, FLIP: lambda x: x + 1}
    return [(x, crosses.get(kind, lambda x: abs(x) - 1)(x)) for x in mu]


def _test(orbit: PeriodicOrbit, kind: str) -> float:
    """A number that changes its sign at a bifurcation of this kind; kind "": where stability changes."""
    factors = np.array([factor for _, factor in _factors(orbit, kind)])
    return float(np.prod(factors).real if kind else factors.max(initial=-1.0))


def _critical(orbit: PeriodicOrbit, kind: str) -> tuple[complex, complex]:
    """The multiplier that crosses, and its factor."""
    return min(_factors(orbit, kind), key=lambda x: abs(x[1]))


def _kind(mu: complex) -> str:
    if abs(mu.imag) > 1e-3:
        return TORUS
    return FLIP if mu.real < 0 else FOLD


def difference(before: Events, after: Events) -> str:
    """Which events come and which go, in words."""
    a = Counter(before)
    b = Counter(after)
    words = [f"{word} {named(sorted(x.elements()))}" for word, x in (("new:", b - a), ("gone:", a - b)) if x]
    return "; ".join(words)
