"""The proof: Krawczyk's inequality for all steps at once, the multipliers, and that nothing else happens.

In each phase unknown are the states x_0, ..., x_m at the ends of the steps and the factor s of their
durations w_i. With the start x_0' of the next phase, the equations are

    phi(x_i, s w_i) - x_(i+1) = 0,  i < m,        g(x_m) = 0,        J(x_m) - x_0' = 0.

Krawczyk (1969): let A contain the derivatives of these equations F at all points of a box Z = c +- r. If
c - Y F(c) + (I - Y A) (Z - c) lies in the interior of Z, then F has one zero in Z, and it lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import acb_mat, arb, arb_mat, ctx

from .blocks import Blocks, Derivatives, Elimination
from .claims import Claim, Function, Guard, Phase, Refused
from .closing import must_close
from .motions import Numbers, Signs, Steps, guard_and_rate, is_quiet, numbers_of, sign_of
from .numbers import Ball, Known, around, ball, precisely
from .symmetries import must_be_symmetries
from .words import theorem_of


@dataclass
class Proof:
    """The theorem about an orbit, with bounds by this program: balls of Arb.

    period       the time of the orbit
    durations    the times of its phases
    nodes        its states at the ends of the steps, of one phase after the other
    shift        how far it moves in a period along each symmetry
    multipliers  of the return map, as complex balls; None where they were not separated
    modulus      an upper bound of the moduli of all multipliers, from powers of the derivative; or None
    least        whether the period is known to be the least one
    by           the program of the steps: "Python" or "C"
    """

    claim: Claim
    period: Ball
    durations: list[Ball]
    nodes: list[list[Ball]]
    shift: list[Ball]
    multipliers: list[Any] | None
    modulus: Ball | None
    least: bool
    by: str
    theorem: str = field(default="", repr=False)

    @property
    def largest(self) -> Ball | None:
        """A ball with the largest modulus of the multipliers."""
        sizes = [abs(x) for x in self.multipliers or []]
        largest = None
        for x in sizes:
            largest = x if largest is None else largest.max(x)
        return arb(0) if self.multipliers == [] else largest

    @property
    def stable(self) -> bool | None:
        largest = self.largest
        if any(x is not None and bool(x < 1) for x in (largest, self.modulus)):
            return True
        return False if largest is not None and bool(largest > 1) else None


def prove_again(claim: Claim, steps: Steps) -> Proof:
    """The proof of a claim, with its steps by a program; Refused where a part of it fails."""
    return precise_proof(lambda: proof_of_orbit(claim, steps))


def precise_proof(proof: Callable[[], Any]) -> Any:
    """A proof with the precision of this program; Refused where one of its bounds does not exist."""
    before = ctx.prec, ctx.cap
    try:
        precisely()
        return proof()
    except (ArithmeticError, ValueError) as error:  # a division by a ball with zero, and such
        raise error if isinstance(error, Refused) else Refused(f"a bound does not exist: {error}") from None
    finally:
        ctx.prec, ctx.cap = before


def proof_of_orbit(claim: Claim, steps: Steps) -> Proof:
    """The proof, in the precision that is set."""
    must_be_symmetries(claim)
    must_close(claim)
    equations = Equations(claim, steps)
    # first the box of the orbit; all that follows is about motions from this box
    found = enclosed(equations)
    stretches = equations.stretches(found.box)
    no_other_events(equations, stretches)
    durations = [sum_of(one.times) for one in stretches]
    proof = Proof(
        claim,
        equations.period_of(durations),
        durations,
        [x for one in stretches for x in one.x],
        [found.box[symmetry.coordinate] for symmetry in claim.symmetries],
        *multipliers_of(equations, found),
        is_least(equations, stretches),
        steps.language,
    )
    proof.theorem = theorem_of(proof)
    return proof


def enclosed(equations: Equations) -> Found:
    """The only orbit in the box of a claim, in a box as small as it gets; Refused where there is none."""
    claim = equations.claim
    c = [ball(x) for phase in claim.phases for x in [*(x for row in phase.nodes for x in row), phase.factor]]
    for symmetry in claim.symmetries:
        c[symmetry.coordinate] = ball(symmetry.shift)
    radius = [ball(x) for x in claim.radii]
    # existence, and no other one in the box of the claim
    F = arb_mat(len(c), 1, equations.residual(c))
    A = equations.derivatives(c, radius)
    linear = Elimination(A)
    found = _krawczyk(c, radius, F, A, linear)
    if found is None:
        raise Refused("Krawczyk's inequality does not hold: no orbit is proved in the box")
    # the same orbit in a smaller box, a few times as large as Newton's step
    shift = linear.solve(F)
    tight = [3 * shift[k, 0].abs_upper() + abs(x) * arb(2) ** -52 for k, x in enumerate(c)]
    most = max((x / r for x, r in zip(tight, radius)), key=float).abs_upper()
    tight = [x + r * most * arb(2) ** -6 for x, r in zip(tight, radius)]
    closer = _krawczyk(c, tight, F, equations.derivatives(c, tight), linear) if most < 1 else None
    return closer or found


def sum_of(terms: list[Ball]) -> Ball:
    return sum(terms, arb(0))


@dataclass
class Found:
    """The box of the only zero, and the derivatives that contain those there."""

    box: list[Ball]
    A: Derivatives


@dataclass
class _Stretch:
    """The orbit in a phase: its states at the ends of the steps, how long they take, and signs on the way."""

    phase: Phase
    x: list[list[Ball]]
    times: list[Ball]
    signs: Signs


class Equations:
    """F and its derivatives.

    The unknowns are, of each phase, its states and then its factor. Coordinates of symmetries have the value
    of the first node at the start; in their places the shift is unknown: J(x_m) - x_0' - s xi = 0 at last.
    """

    def __init__(self, claim: Claim, steps: Steps) -> None:
        self.claim = claim
        self.steps = steps
        self.known = Known(
            [around(x) for x in claim.constants], [around(x) for x in claim.parameters.values()]
        )

    def split(self, z: list[Ball]) -> Iterator[tuple[Phase, list[list[Ball]], Ball]]:
        """Each phase with its states and its factor among the unknowns."""
        z = list(z)
        for symmetry in self.claim.symmetries:
            z[symmetry.coordinate] = ball(self.claim.phases[0].nodes[0][symmetry.coordinate])
        place = 0
        for phase in self.claim.phases:
            N = len(phase.states)
            end = place + len(phase.nodes) * N
            yield phase, [z[k : k + N] for k in range(place, end, N)], z[end]
            place = end + 1

    def value(self, function: Function, at: Numbers) -> Numbers:
        """A function at a box, with derivatives along the directions of the arguments."""
        return numbers_of(function, self.known, at)

    def stretches(self, z: list[Ball]) -> list[_Stretch]:
        """The motions from a box of unknowns."""
        stretches = []
        for phase, x, factor in self.split(z):
            if not factor > 0:
                raise Refused("the period is not positive")
            times = [factor * ball(w) for w in phase.durations]
            signs = self.steps.signs(phase, self.known, x[:-1], times)
            stretches.append(_Stretch(phase, x, times, signs))
        return stretches

    def residual(self, z: list[Ball]) -> list[Ball]:
        F = []
        parts = [*self.split(z)]
        # nodes are numbers, so each step starts from a point, and its box at the end is narrow
        for (phase, x, factor), (_, following, _) in zip(parts, [*parts[1:], parts[0]]):
            starts = [[[b] for b in row] for row in x[:-1]]
            times = [factor * ball(w) for w in phase.durations]
            for (end, _), row in zip(self.steps.ends(phase, self.known, starts, times, fine=True), x[1:]):
                F += [a[0] - b for a, b in zip(end, row)]
            last = [[b] for b in x[-1]]
            F += [self.value(phase.section, last)[0][0]]
            F += [a[0] - b for a, b in zip(self.jump(phase, last), following[0])]
        N = len(following[0])
        for symmetry in self.claim.symmetries:
            moved = [ball(x) * z[symmetry.coordinate] for x in symmetry.along[0]]
            F[-N:] = [a - b for a, b in zip(F[-N:], moved)]
        return F

    def derivatives(self, z: list[Ball], radius: list[Ball]) -> Derivatives:
        """All derivatives of F in a box."""
        box = [a + arb(0, r) if r > 0 else a for a, r in zip(z, radius)]
        blocks = []
        # derivatives of a step: by its start, and by the factor s of its duration s w, which is f w
        for phase, x, factor in self.split(box):
            durations = [ball(w) for w in phase.durations]
            starts = [with_unit(row) for row in x[:-1]]
            ends = self.steps.ends(phase, self.known, starts, [factor * w for w in durations])
            steps = [arb_mat([row[1:] for row in end]) for end, _ in ends]
            rates = [arb_mat([[a * w] for a in rate]) for (_, rate), w in zip(ends, durations)]
            end = with_unit(x[-1])
            section = arb_mat([row[1:] for row in [self.value(phase.section, end)[0]]])
            blocks.append(Blocks(steps, rates, section, arb_mat([row[1:] for row in self.jump(phase, end)])))
        symmetries = self.claim.symmetries
        N = len(self.claim.phases[0].states)
        along = arb_mat(N, len(symmetries), [ball(one.along[0][k]) for k in range(N) for one in symmetries])
        return Derivatives(blocks, along, [one.coordinate for one in symmetries])

    def jump(self, phase: Phase, at: Numbers) -> Numbers:
        behind = at if phase.jump is None else self.value(phase.jump, at)
        return behind if phase.closing is None else self.value(phase.closing, behind)

    def period_of(self, durations: list[Ball]) -> Ball:
        """The sum of the durations of phases; an orbit under a drive has the period of the drive."""
        drive = self.claim.drive
        return sum_of(durations) if drive is None else around(self.claim.constants[drive.period])


def with_unit(x: list[Ball]) -> Numbers:
    """Values with the derivatives by themselves."""
    return [[a, *(arb(int(j == k)) for k in range(len(x)))] for j, a in enumerate(x)]


def _krawczyk(
    c: list[Ball], radius: list[Ball], F: arb_mat, A: Derivatives, linear: Elimination
) -> Found | None:
    """The box of the zero, where the inequality holds; Y = M^-1, so K = c + M^-1 ((M - A) (Z - c) - F)."""
    away = arb_mat(len(c), 1, [arb(0, r) for r in radius])
    image = linear.solve(linear.varied(A, away) - F)
    new = [a + image[k, 0] for k, a in enumerate(c)]
    inside = all((a + arb(0, r)).contains_interior(b) for a, r, b in zip(c, radius, new))
    return Found(new, A) if inside else None


# -- multipliers --------------------------------------------------------------------------------------------


def multipliers_of(equations: Equations, found: Found) -> tuple[list[Any] | None, Ball | None]:
    """Eigenvalues of the derivative of the return map, in the section where that is y_j = c; and `_modulus`.

    The states at the end by those at the start solve the same linear system, with x_0 = e in place of the
    last jump.
    """
    first, last = equations.claim.phases[0], equations.claim.phases[-1]
    N, M = len(first.states), len(last.states)
    X = _states_by_the_start(found.A)
    if X is None:
        return None, None
    # the last node by the start, then through the last jump: the return map's derivative P (N, N)
    n = X.nrows()
    end = arb_mat([[X[n - 1 - M + j, k] for k in range(N)] for j in range(M)])
    parts = [x for _, x, _ in equations.split(found.box)]
    x = parts[-1]
    P = arb_mat([row[1:] for row in equations.jump(last, with_unit(x[-1]))]) * end
    # a change of the state is the same, up to the symmetries, as one that is zero in their coordinates
    symmetries = equations.claim.symmetries
    for symmetry in symmetries:
        xi = arb_mat(N, 1, [ball(x) for x in symmetry.along[0]])
        P = P - xi * arb_mat(1, N, [P[symmetry.coordinate, k] for k in range(N)])
    left_out = [last.coordinate, *(symmetry.coordinate for symmetry in symmetries)]
    left_out += _along_spheres(equations.claim, P, parts[0][0])
    # entries left out are zero, or follow from the others: those that stay have all other multipliers
    kept = [k for k in range(N) if k not in left_out]
    if not kept:
        return [], None
    P = arb_mat([[P[i, j] for j in kept] for i in kept])
    try:
        return list(acb_mat(P).eig(multiple=True)), _modulus(P)
    except ValueError:
        return None, _modulus(P)


def _along_spheres(claim: Claim, P: arb_mat, start: list[Ball]) -> list[int]:
    """Let P take changes of unit quaternions q at the start: q . dq = 0, one entry follows from the others.

    The closing makes all changes so. Those entries are left out, as the result says.
    """
    left_out = []
    for rotation in claim.rotations:
        places = [k for k in range(rotation.place, rotation.place + 4) if k != claim.phases[-1].coordinate]
        i = max(places, key=lambda k: abs(claim.phases[0].nodes[0][k]))
        for k in places:
            if k != i:
                share = start[k] / start[i]
                for row in range(P.nrows()):
                    P[row, k] = P[row, k] - P[row, i] * share
        left_out.append(i)
    return left_out


def _states_by_the_start(A: Derivatives) -> arb_mat | None:
    """The derivatives (n, N) of all unknowns by the states at the start; None where they are not bounded.

    Rump (1983): where X -> M^-1 (B - (A - M) X) takes a box X into its interior, all matrices A are regular,
    and A^-1 B lies there. A box that is a little wider than its image is enough; where the map shrinks boxes
    by half only, a much wider one would grow from step to step.
    """
    linear = Elimination(A, from_start=True)
    n, N = A.size, A.start
    right = arb_mat(n, N)
    for j in range(N):
        right[n - N + j, j] = 1
    X = linear.solve(right)
    for _ in range(24):
        wide = arb_mat(n, N, [x + arb(0, x.rad() / 8 + arb(2) ** -80) for x in X.entries()])
        X = linear.solve(right + linear.varied(A, wide))
        if all(a.contains_interior(b) for a, b in zip(wide.entries(), X.entries())):
            return X
    return None


def _modulus(P: arb_mat) -> Ball | None:
    """An upper bound of the moduli of all eigenvalues: the better one of P and of P along its eigenvectors.

    With P = P_0 + E and any regular V, V^-1 P V has the eigenvalues of P, and absolute values of at most
    |V^-1 P_0 V| + |V^-1| |E| |V|: the spectral radius of this matrix is a bound. Columns of V are about
    eigenvectors of P_0.
    """
    bounds = [by_powers(P)]
    try:
        _, V = acb_mat(P.mid()).eig(right=True, algorithm="approx")
        inverse = V.inv()
        radii = arb_mat(P.nrows(), P.ncols(), [x.rad() for x in P.entries()])
        around_it = _sizes(inverse) * radii * _sizes(V)
        bounds.append(by_powers(_sizes(inverse * acb_mat(P.mid()) * V) + around_it))
    except (ValueError, ZeroDivisionError):
        pass
    known = [x for x in bounds if x is not None]
    return min(known, key=float) if known else None


def _sizes(M: acb_mat) -> arb_mat:
    """Upper bounds of absolute values."""
    return arb_mat(M.nrows(), M.ncols(), [abs(x).abs_upper() for x in M.entries()])


def by_powers(P: arb_mat) -> Ball | None:
    """An upper bound of the moduli of all eigenvalues: the least of |P^k|^(1/k) in the maximum norm."""
    # |P^k|^(1/k) bounds the spectral radius for each k; it is computed for k = 1, 2, 4, ..., 256
    bound = None
    power = P
    n = P.nrows()
    for j in range(9):
        norm = arb(0)
        for i in range(n):
            norm = norm.max(sum_of([abs(power[i, k]) for k in range(n)]))
        if norm.is_finite():
            size = (norm.abs_upper() ** (arb(1) / 2**j)).abs_upper()
            bound = size if bound is None else bound.min(size)
        power = power * power
    return bound


# -- what happens on the way --------------------------------------------------------------------------------


def no_other_events(equations: Equations, stretches: list[_Stretch]) -> None:
    """Refused unless no guard has an event on the way, and the guard that ends a phase has one at its end.

    Also unless conditions and functions that the theorem says are positive have their signs.
    """
    for k, stretch in enumerate(stretches):
        phase = stretch.phase
        for guard, pieces in zip(phase.guards, stretch.signs.guards):
            # the guard that ends the phase is zero at the end; its rate there must have the event's direction
            end = 0
            same = guard.function == phase.section and not guard.positive
            if phase.event is not None and same and (guard.sign or guard.name == phase.event[0]):
                end = phase.event[1]
                _, rate = guard_and_rate(phase, equations.known, guard.function, stretch.x[-1])
                if sign_of(rate) != end:
                    raise Refused(
                        f"the guard {guard.name} does not surely pass zero at the end, in its direction"
                    )
            if guard.sign:
                nodes = (stretch.x[0], stretch.x[-1])
                values = [guard_and_rate(phase, equations.known, guard.function, x)[0] for x in nodes]
                if keeps_its_sign(pieces, guard.sign, *map(sign_of, values)):
                    continue
                if guard.positive:
                    raise Refused(f"that {guard.name} is positive in phase {k + 1} is not proved")
            starts = is_zero_again(equations.claim, stretches[k - 1].phase, guard)
            _must_be_quiet(guard, pieces, starts, end)
        last = [[x] for x in stretch.x[-1]]
        for one in phase.at_end:
            if sign_of(equations.value(one.function, last)[0][0]) != one.sign:
                if one.name:
                    raise Refused(f"that {one.name} is positive at the end of phase {k + 1} is not proved")
                raise Refused("a condition at the end of a phase has not surely its sign")


def keeps_its_sign(pieces: list[tuple[int, int]], sign: int, at_start: int, at_end: int) -> bool:
    """Whether a function has the sign, which is not 0, on all pieces of a motion, one after the other.

    at_start, at_end  the signs of its values at the two ends of the motion

    A piece has the sign by bounds of the function. Otherwise it has it if the rate has the sign there, and
    the piece before, or the start, has it; or, backwards in time, if the rate has the other sign there, and
    the piece after, or the end, has it.
    """
    proved = [value == sign for value, _ in pieces]
    known = at_start == sign
    for k, (_, rate) in enumerate(pieces):
        known = proved[k] = proved[k] or (known and rate == sign)
    known = at_end == sign
    for k, (_, rate) in reversed([*enumerate(pieces)]):
        known = proved[k] = proved[k] or (known and rate == -sign)
    return all(proved)


def _must_be_quiet(guard: Guard, pieces: list[tuple[int, int]], starts: bool, end: int) -> None:
    """Refused unless no piece of the motion can have an event, by the signs of the guard and of its rate.

    starts   the guard is zero at the start: pieces where its rate has kept its sign since then have none
    end      the sign of the rate with which it is zero at the end, or 0: pieces up to there with this sign
             have none
    """
    # pieces next to a zero at the start, or at the end, where the rate has one sign: the guard has one, too
    first = 0
    if starts and guard.sign in (0, pieces[0][1]):
        while first < len(pieces) and pieces[first][1] == pieces[0][1] != 0:
            first += 1
    last = len(pieces)
    if end and guard.sign in (0, -end):
        while last > 0 and pieces[last - 1][1] == end:
            last -= 1
    if not all(is_quiet(guard, x) for x in pieces[first:last]):
        raise Refused(
            f"that the {guard.name} keeps its sign is not proved"
            if guard.sign
            else f"another event of the guard {guard.name} on the way is not excluded"
        )


def is_zero_again(claim: Claim, before: Phase, guard: Guard) -> bool:
    """Whether a guard is zero at the start of a phase because the phase before it ended where its own was.

    Functions become sums of numbers times terms, which are products, quotients and functions of such sums.
    The guard after the jump must be no term at all, or the same sum as that before it.
    """
    if before.jump is None:
        return False
    inputs: list[_Sum] = [{("input", k): Fraction(1)} for k in range(len(before.states))]
    (zero,) = _sums(claim, before.section, inputs)
    (after,) = _sums(claim, guard.function, _sums(claim, before.jump, inputs))
    return not after or after == zero


_Sum = dict[Any, Fraction]  # numbers by their terms; () is the term of a number alone


def _sums(claim: Claim, function: Function, arguments: list[_Sum]) -> list[_Sum]:
    """The results of a function as sums."""
    found: list[_Sum] = []
    for op, *operands in function.nodes:
        if op == "input":
            found.append(arguments[operands[0]])
            continue
        if op in ("constant", "parameter"):
            known = claim.constants if op == "constant" else tuple(claim.parameters.values())
            low, high = known[operands[0]]
            found.append(_without_zeros({(): low} if low == high else {(op, operands[0]): Fraction(1)}))
            continue
        # sums, and products with a number, stay sums; any other operation is a term of its operands
        parts = [found[k] for k in operands]
        numbers = [x.get((), Fraction(0)) if set(x) <= {()} else None for x in parts]
        if op in ("add", "sub", "neg"):
            signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}[op]
            total: _Sum = {}
            for sign, part in zip(signs, parts):
                for term, number in part.items():
                    total[term] = total.get(term, Fraction(0)) + sign * number
            found.append(_without_zeros(total))
        elif op == "mul" and numbers != [None, None]:
            by, other = (numbers[0], parts[1]) if numbers[0] is not None else (numbers[1], parts[0])
            assert by is not None
            found.append(_without_zeros({term: number * by for term, number in other.items()}))
        else:
            keys = [frozenset(x.items()) for x in parts]
            key = (op, frozenset(keys), len(set(keys))) if op == "mul" else (op, *keys)
            found.append({key: Fraction(1)})
    return [found[k] for k in function.outputs]


def _without_zeros(total: _Sum) -> _Sum:
    return {term: number for term, number in total.items() if number}


def is_least(equations: Equations, stretches: list[_Stretch]) -> bool:
    """Whether the orbit is at its start at no time between.

    Periods of a motion of rotations are multiples of a least one, tau, after which quaternions have some
    signs, and after 2 tau their own ones. So T = tau, if T changes signs, and no time before it restores all.
    """
    claim = equations.claim
    events = claim.events
    if claim.drive is not None:
        return False
    if not events:
        unknown = claim.symmetries or (claim.rotations and not claim.flipped)
        flips = claim.phases[0].coordinate in claim.flipped
        return not unknown and _leaves_its_start(stretches[0].signs.returns, flips)
    # a shorter period would repeat the events, and the states behind them
    for length in range(1, len(events)):
        if events == events[length:] + events[:length]:
            pairs = zip(stretches[0].x[0], stretches[length].x[0])
            unknown = claim.symmetries or claim.rotations or len(events) < len(stretches)
            if unknown or all(a.overlaps(b) for a, b in pairs):
                return False
    return True


def _leaves_its_start(pieces: list[tuple[bool, int]], flips: bool) -> bool:
    """Whether an orbit without events is at its start at no time between.

    y_j = c at the start. While dy_j/dt keeps its sign from there on, and again up to the end, y_j is not c;
    between, boxes must not meet the box of the start.

    flips  y_j belongs to a quaternion that returns with the other sign, and is -c at the end: then boxes up
           to the end must not meet the box of the start, either
    """
    first = 0
    while first < len(pieces) and pieces[first][1] == pieces[0][1] != 0:
        first += 1
    last = len(pieces)
    while not flips and last > 0 and pieces[last - 1][1] == pieces[-1][1] != 0:
        last -= 1
    return not any(meets for meets, _ in pieces[first:last])
