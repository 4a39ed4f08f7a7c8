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
from .closing import must_close
from .motions import Numbers, Step, jets, step
from .numbers import Ball, Known, around, ball, precisely, value_of
from .reading import Claim, Function, Guard, Phase, Refused
from .symmetries import must_be_symmetries
from .words import theorem_of

FINE = arb(2) ** -48  # of a state behind a step from numbers
DEEPEST = 10  # halvings of a step, to decide the sign of a guard


@dataclass
class Proof:
    """What a certificate proves, with bounds by this program: balls of Arb.

    period       the time of the orbit
    durations    the times of its phases
    nodes        its states at the ends of the steps, of one phase after the other
    shift        how far it moves in a period along each symmetry
    multipliers  of the return map, as complex balls; None where they were not separated
    modulus      an upper bound of the moduli of all multipliers, from powers of the derivative; or None
    least        whether the period is known to be the least one
    """

    claim: Claim
    period: Ball
    durations: list[Ball]
    nodes: list[list[Ball]]
    shift: list[Ball]
    multipliers: list[Any] | None
    modulus: Ball | None
    least: bool
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


def prove_again(claim: Claim) -> Proof:
    """The proof of a claim; Refused where a step of it fails."""
    return precise_proof(lambda: _proof(claim))


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


def _proof(claim: Claim) -> Proof:
    must_be_symmetries(claim)
    must_close(claim)
    equations = Equations(claim)
    c = [ball(x) for phase in claim.phases for x in [*(x for row in phase.nodes for x in row), phase.factor]]
    for symmetry in claim.symmetries:
        c[symmetry.coordinate] = ball(symmetry.shift)
    radius = [ball(claim.radius)] * len(c)
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
    most = max(tight, key=float)
    tight = [x + most * arb(2) ** -6 for x in tight]
    closer = (
        _krawczyk(c, tight, F, equations.derivatives(c, tight), linear) if most < ball(claim.radius) else None
    )
    found = closer or found
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
    )
    proof.theorem = theorem_of(proof)
    return proof


def sum_of(terms: list[Ball]) -> Ball:
    return sum(terms, arb(0))


@dataclass
class Found:
    """The box of the only zero, and the derivatives that contain those there."""

    box: list[Ball]
    A: Derivatives


@dataclass
class _Stretch:
    """The orbit in a phase: its states at the ends of the steps, the steps, and how long they take."""

    phase: Phase
    x: list[list[Ball]]
    steps: list[Step]
    times: list[Ball]


class Equations:
    """F and its derivatives.

    The unknowns are, of each phase, its states and then its factor. Coordinates of symmetries have the value
    of the first node at the start; in their places the shift is unknown: J(x_m) - x_0' - s xi = 0 at last.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
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
        results = value_of(function, jets(at), self.known)
        return [[y.x[0], *(a[0] for a in y.dx)] for y in results]

    def stretches(self, z: list[Ball]) -> list[_Stretch]:
        """The motions from a box of unknowns."""
        stretches = []
        for phase, x, factor in self.split(z):
            if not factor > 0:
                raise Refused("the period is not positive")
            pairs = [
                pair
                for row, w in zip(x, phase.durations)
                for pair in self.steps(phase, [[b] for b in row], factor * ball(w))
            ]
            stretches.append(_Stretch(phase, x, [one for one, _ in pairs], [time for _, time in pairs]))
        return stretches

    def steps(
        self, phase: Phase, start: Numbers, time: Ball, fine: bool = False, depth: int = 5
    ) -> list[tuple[Step, Ball]]:
        """Steps one after the other, with their times: one, or halves of it where no box contains it.

        fine  also where its remainder makes the result wide, for steps from numbers
        """
        try:
            one = step(phase.field, self.known, start, time, self.claim.order)
            narrow = not fine or all(x[0].rad() < FINE * (1 + abs(x[0])) for x in one.at(time))
            if narrow or depth == 0:
                return [(one, time)]
        except Refused:
            if depth == 0:
                raise
        half = (time / 2).mid()
        first = self.steps(phase, start, half, fine, depth - 1)
        return first + self.steps(phase, end_of(first), time - half, fine, depth - 1)

    def residual(self, z: list[Ball]) -> list[Ball]:
        F = []
        parts = [*self.split(z)]
        for (phase, x, factor), (_, following, _) in zip(parts, [*parts[1:], parts[0]]):
            for i, w in enumerate(phase.durations):
                end = end_of(self.steps(phase, [[b] for b in x[i]], factor * ball(w), True))
                F += [a[0] - b for a, b in zip(end, x[i + 1])]
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
        for phase, x, factor in self.split(box):
            steps, rates = [], []
            for i, w in enumerate(phase.durations):
                moved = end_of(self.steps(phase, with_unit(x[i]), factor * ball(w)))
                steps.append(arb_mat([row[1:] for row in moved]))
                rate = self.value(phase.field, [[a[0]] for a in moved])
                rates.append(arb_mat([[a[0] * ball(w)] for a in rate]))
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
        """The period, of phases with these durations; that of a drive is known."""
        drive = self.claim.drive
        return sum_of(durations) if drive is None else around(self.claim.constants[drive.period])


def end_of(steps: list[tuple[Step, Ball]]) -> Numbers:
    """The box at the end of steps one after the other."""
    one, time = steps[-1]
    return one.at(time)


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
    and A^-1 B lies there.
    """
    linear = Elimination(A, from_start=True)
    n, N = A.size, A.start
    right = arb_mat(n, N)
    for j in range(N):
        right[n - N + j, j] = 1
    X = linear.solve(right)
    for _ in range(8):
        wide = arb_mat(n, N, [x + arb(0, x.rad() * 2 + arb(2) ** -80) for x in X.entries()])
        X = linear.solve(right + linear.varied(A, wide))
        if all(a.contains_interior(b) for a, b in zip(wide.entries(), X.entries())):
            return X
    return None


def _modulus(P: arb_mat) -> Ball | None:
    """An upper bound of the moduli of all eigenvalues, in these directions and in those of eigenvectors.

    With P = P_0 + E and any regular V, V^-1 P V has the eigenvalues of P, and absolute values of at most
    |V^-1 P_0 V| + |V^-1| |E| |V|: the spectral radius of this matrix is a bound. Columns of V are about
    eigenvectors of P_0.
    """
    bounds = [_by_powers(P)]
    try:
        _, V = acb_mat(P.mid()).eig(right=True, algorithm="approx")
        inverse = V.inv()
        radii = arb_mat(P.nrows(), P.ncols(), [x.rad() for x in P.entries()])
        around_it = _sizes(inverse) * radii * _sizes(V)
        bounds.append(_by_powers(_sizes(inverse * acb_mat(P.mid()) * V) + around_it))
    except (ValueError, ZeroDivisionError):
        pass
    known = [x for x in bounds if x is not None]
    return min(known, key=float) if known else None


def _sizes(M: acb_mat) -> arb_mat:
    """Upper bounds of absolute values."""
    return arb_mat(M.nrows(), M.ncols(), [abs(x).abs_upper() for x in M.entries()])


def _by_powers(P: arb_mat) -> Ball | None:
    """An upper bound of the moduli of all eigenvalues: the least of |P^k|^(1/k) in the maximum norm."""
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
    """Refused unless each guard has no event on the way, and that of a phase's end has one there."""
    for k, stretch in enumerate(stretches):
        phase = stretch.phase
        for guard in phase.guards:
            end = 0
            same = guard.function == phase.section
            if phase.event is not None and same and (guard.sign or guard.name == phase.event[0]):
                end = phase.event[1]
                if _sign(_guard_and_rate(equations, phase, guard.function, stretch.x[-1])[1]) != end:
                    raise Refused(
                        f"the guard {guard.name} does not surely pass zero at the end, in its direction"
                    )
            starts = _is_zero_again(equations.claim, stretches[k - 1].phase, guard)
            _scan(equations, guard, stretch, starts, end)
        last = [[x] for x in stretch.x[-1]]
        for function, sign in phase.at_end:
            if _sign(equations.value(function, last)[0][0]) != sign:
                raise Refused("a condition at the end of a phase has not surely its sign")


def _scan(equations: Equations, guard: Guard, stretch: _Stretch, starts: bool, end: int) -> None:
    """Refused unless no piece of the motion can have an event.

    starts   the guard is zero at the start: pieces where its rate has kept its sign since then have none
    end      the sign of the rate with which it is zero at the end, or 0: pieces up to there with this sign
             have none
    """

    def quiet(signs: tuple[int, int]) -> bool:
        """Whether the guard keeps its sign, or changes against its direction only; a condition: has it."""
        if guard.sign:
            return signs[0] == guard.sign
        return signs[0] != 0 or (guard.direction != 0 and signs[1] == -guard.direction)

    def signs_over(one: Step, a: Ball, b: Ball, depth: int) -> Iterator[tuple[int, int]]:
        """Signs of the guard and of its rate over pieces of [a, b], halved until one of them tells enough."""
        box = [state[0] for state in one.at(a.union(b))]
        value, rate = _guard_and_rate(equations, stretch.phase, guard.function, box)
        signs = _sign(value), _sign(rate)
        if depth == 0 or quiet(signs) or (signs[1] != 0 and depth < DEEPEST - 3):
            yield signs
            return
        half = ((a + b) / 2).mid()
        yield from signs_over(one, a, half, depth - 1)
        yield from signs_over(one, half, b, depth - 1)

    pieces = [
        x
        for one, time in zip(stretch.steps, stretch.times)
        for x in signs_over(one, arb(0), time.upper(), DEEPEST)
    ]
    first = 0
    if starts and guard.sign in (0, pieces[0][1]):
        while first < len(pieces) and pieces[first][1] == pieces[0][1] != 0:
            first += 1
    last = len(pieces)
    if end and guard.sign in (0, -end):
        while last > 0 and pieces[last - 1][1] == end:
            last -= 1
    if not all(quiet(x) for x in pieces[first:last]):
        raise Refused(
            f"that the {guard.name} keeps its sign is not proved"
            if guard.sign
            else f"another event of the guard {guard.name} on the way is not excluded"
        )


def _guard_and_rate(
    equations: Equations, phase: Phase, function: Function, x: list[Ball]
) -> tuple[Ball, Ball]:
    rate = equations.value(phase.field, [[a] for a in x])
    value, along = equations.value(function, [[a, r[0]] for a, r in zip(x, rate)])[0]
    return value, along


def _sign(x: Ball) -> int:
    return 1 if bool(x > 0) else -1 if bool(x < 0) else 0


def _is_zero_again(claim: Claim, before: Phase, guard: Guard) -> bool:
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
        return not unknown and _leaves_its_start(equations, stretches[0])
    # a shorter period would repeat the events, and the states behind them
    for length in range(1, len(events)):
        if events == events[length:] + events[:length]:
            pairs = zip(stretches[0].x[0], stretches[length].x[0])
            unknown = claim.symmetries or claim.rotations or len(events) < len(stretches)
            if unknown or all(a.overlaps(b) for a, b in pairs):
                return False
    return True


def _leaves_its_start(equations: Equations, stretch: _Stretch) -> bool:
    """Whether an orbit without events is at its start at no time between.

    y_j = c at the start. While dy_j/dt keeps its sign from there on, and again up to the end, y_j is not c;
    between, boxes must not meet that of the start. At the end y_j = -c if it is of a quaternion that returns
    with the other sign: then boxes up to there must not meet it, either.
    """
    phase = stretch.phase
    j = phase.coordinate
    assert j is not None
    found: list[tuple[bool, int]] = []
    for one, time in zip(stretch.steps, stretch.times):
        for k in range(4):
            box = [state[0] for state in one.at((arb(k) / 4).union(arb(k + 1) / 4) * time.upper())]
            rate = equations.value(phase.field, [[a] for a in box])[j][0]
            found.append((all(a.overlaps(b) for a, b in zip(box, stretch.x[0])), _sign(rate)))
    first = 0
    while first < len(found) and found[first][1] == found[0][1] != 0:
        first += 1
    last = len(found)
    while j not in equations.claim.flipped and last > 0 and found[last - 1][1] == found[-1][1] != 0:
        last -= 1
    return not any(meets for meets, _ in found[first:last])
