"""Which combinations of inertial parameters efforts tell: base parameters, by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..base.arguments import checked
from ..base.errors import positive
from ..dynamics import independent_columns
from ..robot import Robot
from ..scalars import Array
from .linear_model import DIMENSIONS, LinearModel

STATES = 4  # rows for each column
TINY = 1e-9  # m: shorter distances are zero
TOLERANCE = 1e-9  # as of `dynamics.base_parameters`
SAME = 1e-7  # numbers that differ by less, relative, are a whole number, or a polynomial of lengths
WHOLE = (1, 2, 3, 4)
MULTIPLES = (1.0, 2.0, 0.5)
SQUARES = 5  # lengths up to which sums of their squares are looked at


@dataclass(frozen=True)
class Combinations:
    """The combinations K x of parameters x that efforts tell.

    entries          names of x (n,): "link2.m", "link2.h_x", "link2.I_xx", ..., "joint1.damping", ...
    columns          positions in x of r parameters whose columns are independent, (r,)
    K                (r, n): the columns of any efforts are A = A[:, columns] K
    names            what each row of K is: "link1.I_zz + link2.I_yy + 0.5^2 link2.m"
    singular_values  of the columns A of random states, in units of the parameters' sizes, (n,): r of them are
                     above round-off
    """

    entries: tuple[str, ...]
    columns: Array
    K: Array
    names: tuple[str, ...]
    singular_values: Array

    def __str__(self) -> str:
        return "\n".join(self.names)


@checked
def base_parameters(
    robot: Robot,
    bodies: str | Iterable[str] | None = None,
    *,
    losses: str | Iterable[str] = (),
    v_s: float = 1e-2,
    seed: int = 0,
) -> Combinations:
    """Find the base parameters: the combinations of inertial parameters that efforts determine, by name.

        base = lb.identification.base_parameters(lb.models.puma560())
        print(base)                                # 36 lines, such as "link6.I_xx - link6.I_yy"
        base.K @ robot.inertial_parameters         # their values

    bodies  names of bodies whose parameters are unknown; None: all. Those of other bodies are known
    losses  further unknown terms of all joints: "damping", "friction", "armature", "offset"
    v_s     transition speed of the friction, as in `JointFriction`                               [rad/s, m/s]

    The regressor is evaluated at random states. Each of its columns that is independent of the columns
    before it is kept; the others are linear combinations of the kept ones. Coefficients of combinations that
    agree with whole numbers, or with polynomials of the robot's lengths, are replaced by these. As in
    `Robot.inertial_parameters`, the parameters are mass m, first moments h, and inertia I about the origin of
    the body's frame.

    Raises ModelError for unknown names.

    Gautier and Khalil (1990), "Direct calculation of minimum set of inertial parameters of serial robots";
    Gautier (1991), "Numerical calculation of the base inertial parameters of robots".
    """
    wanted = [body.name for body in robot.tree.bodies] if bodies is None else bodies
    model = LinearModel(robot, wanted, losses, positive("v_s", v_s))
    return combinations_of(model, model.columns(*random_states(model, np.random.default_rng(seed))))


def random_states(model: LinearModel, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """States q, v, a (samples, ...) with 4 rows of efforts for each parameter."""
    robot = model.robot
    states = -(-STATES * len(model.entries) // robot.nv)
    q = robot.random(rng, states)
    v, a = rng.normal(size=(2, states, robot.nv))
    if "friction" in model.losses:
        # Half of the states move so slowly that dry friction differs from its limit, and from an offset.
        v[::2] *= model.v_s
    return q, v, a


def combinations_of(model: LinearModel, columns: Array) -> Combinations:
    """The combinations of parameters that efforts with these columns (..., n) tell."""
    n = len(model.entries)
    A = columns.reshape(-1, n)
    kept, K = independent_columns(A, TOLERANCE)
    lengths = _lengths(model.robot)
    powers = [*DIMENSIONS] * len(model.bodies) + [2] * (n - model.inertial)
    names = []
    for row, column in enumerate(kept):
        terms = []
        for k in np.flatnonzero(K[row]):
            K[row, k], text = _coefficient(K[row, k], powers[column] - powers[k], lengths)
            terms.append((text, model.entries[k]))
        # The parameter of the column itself stands first.
        terms.sort(key=lambda term: term[1] != model.entries[column])
        names.append(_sum(terms))
    singular = np.linalg.svd(A * model.sizes(), compute_uv=False)
    return Combinations(tuple(model.entries), kept, K, tuple(names), singular)


def _lengths(robot: Robot) -> list[float]:
    """Distances of joints from the frames that carry them, along the axes of these."""
    entries = np.abs([np.asarray(b.placement[:3, 3], float) for b in robot.tree.bodies]).ravel()
    lengths: list[float] = []
    for x in entries:
        if x > TINY and not any(abs(x - y) < SAME * x for y in lengths):
            lengths.append(float(x))
    return lengths


def _candidates(power: int, lengths: list[float]) -> Iterator[tuple[float, str]]:
    """Numbers that coefficients of this power of a length may be, with their texts."""
    if power == 0:
        yield from ((float(k), "" if k == 1 else str(k)) for k in WHOLE)
    for multiple in MULTIPLES if power in (1, 2) else ():
        before = "" if multiple == 1 else f"{multiple:g}*"
        for i, x in enumerate(lengths):
            if power == 1:
                yield multiple * x, f"{before}{x:.9g}"
                continue
            yield multiple * x * x, f"{before}{x:.9g}^2"
            yield from ((multiple * x * y, f"{before}{x:.9g}*{y:.9g}") for y in lengths[i + 1 :])
    if power == 2 and len(lengths) <= SQUARES:
        for signs in itertools.product((0, 1, -1), repeat=len(lengths)):
            squares = [(sign, x) for sign, x in zip(signs, lengths, strict=True) if sign]
            number = sum(sign * x * x for sign, x in squares)
            if number > 0:
                yield number, f"({_sum([('-' * (sign < 0) + f'{x:.9g}^2', '') for sign, x in squares])})"


def _coefficient(c: float, power: int, lengths: list[float]) -> tuple[float, str]:
    """The coefficient, exact where it is known, and its text with the sign, as "-0.5^2"."""
    sign = "-" if c < 0 else ""
    for number, text in _candidates(power, lengths):
        if abs(abs(c) - number) <= SAME * number:
            return float(np.copysign(number, c)), sign + text
    return c, f"{c:.9g}"


def _sum(terms: list[tuple[str, str]]) -> str:
    """a + 2 b - c of ("", a), ("2", b), ("-", c)."""
    text = ""
    for factor, name in terms:
        sign = "-" if factor.startswith("-") else "+"
        words = " ".join(x for x in (factor.removeprefix("-"), name) if x)
        text = f"{text} {sign} {words}" if text else ("-" if sign == "-" else "") + words
    return text
