"""The proof: Krawczyk's inequality for all steps at once, the multipliers, and that nothing else happens.

Unknown are the states x_0, ..., x_m at the ends of the steps and the factor s of their durations w_i:

    phi(x_i, s w_i) - x_(i+1) = 0,  i < m,        g(x_m) = 0,        J(x_m) - x_0 = 0.

Krawczyk (1969): let A contain the derivatives of these equations F at all points of a box Z = c +- r. If
c - Y F(c) + (I - Y A) (Z - c) lies in the interior of Z, then F has one zero in Z, and it lies there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import acb_mat, arb, arb_mat, ctx

from .motions import Numbers, Step, jets, step
from .numbers import Ball, around, ball, precisely, value_of
from .reading import Claim, Function, Guard, Refused
from .words import theorem_of

DEEPEST = 10  # halvings of a step, to decide the sign of a guard


@dataclass
class Proof:
    """What a certificate proves, with bounds by this program: balls of Arb.

    period       the time of the orbit
    nodes        its states at the ends of the steps
    multipliers  of the return map, as complex balls; None where they were not separated
    least        whether the period is known to be the least one
    """

    claim: Claim
    period: Ball
    nodes: list[list[Ball]]
    multipliers: list[Any] | None
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
        if largest is None:
            return None
        return True if bool(largest < 1) else False if bool(largest > 1) else None


def prove_again(claim: Claim) -> Proof:
    """The proof of a claim; Refused where a step of it fails."""
    before = ctx.prec, ctx.cap
    try:
        precisely()
        return _proof(claim)
    except (ArithmeticError, ValueError) as error:  # a division by a ball with zero, and such
        raise error if isinstance(error, Refused) else Refused(f"a bound does not exist: {error}") from None
    finally:
        ctx.prec, ctx.cap = before


def _proof(claim: Claim) -> Proof:
    equations = _Equations(claim)
    c = [ball(x) for row in claim.nodes for x in row] + [ball(claim.factor)]
    radius = [ball(claim.radius)] * len(c)
    # existence, and no other one in the box of the claim
    F = equations.residual(c)
    A = equations.derivatives(c, radius)
    try:
        Y = A.mid().inv().mid()
    except ZeroDivisionError:
        raise Refused("the derivatives of the equations are singular") from None
    shift = Y * arb_mat(len(c), 1, F)
    found = _krawczyk(c, radius, shift, A, Y)
    if found is None:
        raise Refused("Krawczyk's inequality does not hold: no orbit is proved in the box")
    # the same orbit in a smaller box, a few times as large as Newton's step
    tight = [3 * shift[k, 0].abs_upper() + abs(x) * arb(2) ** -52 for k, x in enumerate(c)]
    most = max(tight, key=float)
    tight = [x + most * arb(2) ** -6 for x in tight]
    closer = (
        _krawczyk(c, tight, shift, equations.derivatives(c, tight), Y) if most < ball(claim.radius) else None
    )
    found = closer or found
    if not found.box[-1] > 0:
        raise Refused("the period is not positive")
    period = found.box[-1] * sum((ball(w) for w in claim.durations), arb(0))
    x = equations.rows(found.box)
    steps = [
        step(claim.field, equations.known, [[b] for b in row], found.box[-1] * ball(w), claim.order)
        for row, w in zip(x, claim.durations)
    ]
    times = [found.box[-1] * ball(w) for w in claim.durations]
    _no_other_events(equations, x, steps, times)
    proof = Proof(claim, period, x, _multipliers(equations, found), _is_least(equations, x, steps, times))
    proof.theorem = theorem_of(proof)
    return proof


@dataclass
class _Found:
    """The box of the only zero, and the derivatives that contain those there."""

    box: list[Ball]
    A: arb_mat


class _Equations:
    """F and its derivatives."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.known = {
            "constant": [around(x) for x in claim.constants],
            "parameter": [around(x) for x in claim.parameters.values()],
        }
        self.N = len(claim.states)
        self.m = len(claim.durations)

    def rows(self, z: list[Ball]) -> list[list[Ball]]:
        """The states among the unknowns."""
        return [z[k * self.N : (k + 1) * self.N] for k in range(self.m + 1)]

    def value(self, function: Function, at: Numbers) -> Numbers:
        """A function at a box, with derivatives along the directions of the arguments."""
        results = value_of(function, jets(at), self.known)
        return [[y.x[0], *(a[0] for a in y.dx)] for y in results]

    def residual(self, z: list[Ball]) -> list[Ball]:
        x = self.rows(z)
        F = []
        for i, w in enumerate(self.claim.durations):
            time = z[-1] * ball(w)
            end = step(self.claim.field, self.known, [[b] for b in x[i]], time, self.claim.order).at(time)
            F += [a[0] - b for a, b in zip(end, x[i + 1])]
        last = [[b] for b in x[-1]]
        F += [self.value(self.claim.section, last)[0][0]]
        return F + [a[0] - b for a, b in zip(self.jump(last), x[0])]

    def derivatives(self, z: list[Ball], radius: list[Ball]) -> arb_mat:
        """All derivatives of F in a box: blocks of steps, and the section and the jump below them."""
        box = [a + arb(0, r) if r > 0 else a for a, r in zip(z, radius)]
        x = self.rows(box)
        N = self.N
        size = (self.m + 1) * N + 1
        A = arb_mat(size, size)
        for i, w in enumerate(self.claim.durations):
            time = box[-1] * ball(w)
            moved = step(self.claim.field, self.known, with_unit(x[i]), time, self.claim.order).at(time)
            rate = self.value(self.claim.field, [[a[0]] for a in moved])
            for j in range(N):
                A[i * N + j, (i + 1) * N + j] = -1
                A[i * N + j, size - 1] = rate[j][0] * ball(w)
                for k in range(N):
                    A[i * N + j, i * N + k] = moved[j][1 + k]
        last = with_unit(x[-1])
        below = [self.value(self.claim.section, last)[0], *self.jump(last)]
        for j, row in enumerate(below):
            for k in range(N):
                A[self.m * N + j, self.m * N + k] = row[1 + k]
        for j in range(N):
            A[self.m * N + 1 + j, j] = A[self.m * N + 1 + j, j] - 1
        return A

    def jump(self, at: Numbers) -> Numbers:
        return at if self.claim.jump is None else self.value(self.claim.jump, at)


def with_unit(x: list[Ball]) -> Numbers:
    """Values with the derivatives by themselves."""
    return [[a, *(arb(int(j == k)) for k in range(len(x)))] for j, a in enumerate(x)]


def _krawczyk(c: list[Ball], radius: list[Ball], shift: arb_mat, A: arb_mat, Y: arb_mat) -> _Found | None:
    """The box of the zero, where the inequality holds; shift = Y F(c)."""
    n = len(c)
    rest = arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)]) - Y * A
    image = rest * arb_mat(n, 1, [arb(0, r) for r in radius]) - shift
    new = [a + image[k, 0] for k, a in enumerate(c)]
    inside = all((a + arb(0, r)).contains_interior(b) for a, r, b in zip(c, radius, new))
    return _Found(new, A) if inside else None


# -- multipliers --------------------------------------------------------------------------------------------


def _multipliers(equations: _Equations, found: _Found) -> list[Any] | None:
    """Eigenvalues of the derivative of the return map, in the section where that is y_j = c.

    The states at the end by those at the start solve the same linear system, with x_0 = e in place of J.
    """
    N, m = equations.N, equations.m
    A = arb_mat(found.A)
    n = A.nrows()
    for j in range(N):
        for k in range(n):
            A[m * N + 1 + j, k] = int(k == j)
    right = arb_mat(n, N)
    for j in range(N):
        right[m * N + 1 + j, j] = 1
    try:
        Y = A.mid().inv().mid()
        X = (Y * A).solve(Y * right)
    except ZeroDivisionError:
        return None
    end = arb_mat([[X[m * N + j, k] for k in range(N)] for j in range(N)])
    last = equations.jump(with_unit(equations.rows(found.box)[-1]))
    P = arb_mat([row[1:] for row in last]) * end
    kept = [k for k in range(N) if k != equations.claim.coordinate]
    if not kept:
        return []
    try:
        return list(acb_mat([[P[i, j] for j in kept] for i in kept]).eig(multiple=True))
    except ValueError:
        return None


# -- what happens on the way --------------------------------------------------------------------------------


def _no_other_events(
    equations: _Equations, x: list[list[Ball]], steps: list[Step], times: list[Ball]
) -> None:
    """Refused unless each guard has no event on the way, and the section's has one at the end."""
    claim = equations.claim
    for guard in claim.guards:
        end = 0
        if claim.event is not None and guard.name == claim.event[0]:
            end = claim.event[1]
            if _sign(_guard_and_rate(equations, guard.function, x[-1])[1]) != end:
                raise Refused(
                    f"the guard {guard.name} does not surely pass zero at the end, in its direction"
                )
        _scan(equations, guard, steps, times, end != 0 and _is_zero_again(claim), end)


def _scan(
    equations: _Equations, guard: Guard, steps: list[Step], times: list[Ball], starts: bool, end: int
) -> None:
    """Refused unless no piece of the motion can have an event.

    starts   the guard is zero at the start: pieces where its rate has kept its sign since then have none
    end      the sign of the rate with which it is zero at the end, or 0: pieces up to there with this sign
             have none
    """

    def quiet(signs: tuple[int, int]) -> bool:
        """Whether the guard keeps its sign, or changes against its direction only."""
        return signs[0] != 0 or (guard.direction != 0 and signs[1] == -guard.direction)

    def signs_over(one: Step, a: Ball, b: Ball, depth: int) -> Iterator[tuple[int, int]]:
        """Signs of the guard and of its rate over pieces of [a, b], halved until one of them tells enough."""
        box = [state[0] for state in one.at(a.union(b))]
        value, rate = _guard_and_rate(equations, guard.function, box)
        signs = _sign(value), _sign(rate)
        if depth == 0 or quiet(signs) or (signs[1] != 0 and depth < DEEPEST - 3):
            yield signs
            return
        half = ((a + b) / 2).mid()
        yield from signs_over(one, a, half, depth - 1)
        yield from signs_over(one, half, b, depth - 1)

    pieces = [x for one, time in zip(steps, times) for x in signs_over(one, arb(0), time.upper(), DEEPEST)]
    first = 0
    while starts and first < len(pieces) and pieces[first][1] == pieces[0][1] != 0:
        first += 1
    last = len(pieces)
    while end and last > 0 and pieces[last - 1][1] == end:
        last -= 1
    if not all(quiet(x) for x in pieces[first:last]):
        raise Refused(f"another event of the guard {guard.name} on the way is not excluded")


def _guard_and_rate(equations: _Equations, function: Function, x: list[Ball]) -> tuple[Ball, Ball]:
    rate = equations.value(equations.claim.field, [[a] for a in x])
    value, along = equations.value(function, [[a, r[0]] for a, r in zip(x, rate)])[0]
    return value, along


def _sign(x: Ball) -> int:
    return 1 if bool(x > 0) else -1 if bool(x < 0) else 0


def _is_zero_again(claim: Claim) -> bool:
    """Whether the guard of the section is zero after the jump because it was zero before it.

    Functions become sums of numbers times terms, which are products, quotients and functions of such sums.
    The guard after the jump must be no term at all, or the same sum as before it.
    """
    if claim.jump is None:
        return True
    inputs = [{("input", k): Fraction(1)} for k in range(len(claim.states))]
    (before,) = _sums(claim, claim.section, inputs)
    (after,) = _sums(claim, claim.section, _sums(claim, claim.jump, inputs))
    return not after or after == before


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


def _is_least(equations: _Equations, x: list[list[Ball]], steps: list[Step], times: list[Ball]) -> bool:
    """Whether the orbit is at its start at no time between: with an event this is known already.

    y_j = c at the start. While dy_j/dt keeps its sign from there on, and again up to the end, y_j is not c;
    between, boxes must not meet that of the start.
    """
    j = equations.claim.coordinate
    if j is None:
        return True
    found: list[tuple[bool, int]] = []
    for one, time in zip(steps, times):
        for k in range(4):
            box = [state[0] for state in one.at((arb(k) / 4).union(arb(k + 1) / 4) * time.upper())]
            rate = equations.value(equations.claim.field, [[a] for a in box])[j][0]
            found.append((all(a.overlaps(b) for a, b in zip(box, x[0])), _sign(rate)))
    first = 0
    while first < len(found) and found[first][1] == found[0][1] != 0:
        first += 1
    last = len(found)
    while last > 0 and found[last - 1][1] == found[-1][1] != 0:
        last -= 1
    return not any(meets for meets, _ in found[first:last])
