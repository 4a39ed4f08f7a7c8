"""Which combinations of inertial parameters efforts tell: base parameters, by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..base.arguments import checked
from ..base.errors import positive
from ..dynamics import independent_columns, inverse_dynamics_regressor
from ..robot import Robot
from ..scalars import Array
from .linear_model import DIMENSIONS, LinearModel

STATES = 4  # rows for each column
TINY = 1e-9  # m: shorter distances are zero
TOLERANCE = 1e-9  # as of `dynamics.base_parameters`
SAME = 1e-7  # numbers that differ by less, relative, are a whole number, or a polynomial of lengths
WHOLE = (1, 2, 3, 4)
MULTIPLES = (1.0, 2.0, 0.5)
SUMS = 5  # lengths up to which sums of them, and of their squares, are looked at
TIMES = (0, 1, -1, 2, -2)  # of a length in a sum
CHANGE = 0.2  # largest relative change of a length in the second robot


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
    agree with whole numbers, or with polynomials of the robot's lengths, are replaced by these, if they still
    agree in a robot whose lengths are others: so a polynomial is an identity, and no coincidence of numbers.
    Equal lengths count as one, and lengths are those between joints, in the axes of their frames. As in
    `Robot.inertial_parameters`, the parameters are mass m, first moments h, and inertia I about the origin of
    the body's frame.

    Raises ModelError for unknown names.

    Gautier and Khalil (1990), "Direct calculation of minimum set of inertial parameters of serial robots";
    Gautier (1991), "Numerical calculation of the base inertial parameters of robots".
    """
    wanted = [body.name for body in robot.tree.bodies] if bodies is None else bodies
    model = LinearModel(robot, wanted, losses, positive("v_s", v_s))
    return combinations_of(model, random_states(model, np.random.default_rng(seed)))


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


def combinations_of(
    model: LinearModel, states: tuple[Array, Array, Array], measured: Array | None = None
) -> Combinations:
    """The combinations of parameters that efforts in these states q, v, a (samples, ...) tell.

    measured  which efforts are known (nv,); None: all
    """
    n = len(model.entries)
    rows = slice(None) if measured is None else measured
    A = model.columns(*states)[:, rows].reshape(-1, n)
    kept, K = independent_columns(A, TOLERANCE)
    lengths = _lengths(model.robot)
    varied = _with_lengths(model, states, lengths)[:, rows].reshape(-1, n)
    K_varied = _coefficients(varied, kept)
    candidates = {power: Candidates(power, lengths) for power in range(-2, 3)}
    powers = [*DIMENSIONS] * len(model.bodies) + [2] * (n - model.inertial)
    names = []
    for row, column in enumerate(kept):
        terms = []
        for k in np.flatnonzero(K[row]):
            pair = K[row, k], K_varied[row, k]
            K[row, k], text = candidates[powers[column] - powers[k]].nearest(*pair)
            terms.append((text, model.entries[k]))
        # The parameter of the column itself stands first.
        terms.sort(key=lambda term: term[1] != model.entries[column])
        names.append(_sum(terms))
    singular = np.linalg.svd(A * model.sizes(), compute_uv=False)
    return Combinations(tuple(model.entries), kept, K, tuple(names), singular)


def _coefficients(A: Array, kept: Array) -> Array:
    """K (r, n) with A = A[:, kept] K, by least squares."""
    scale = np.linalg.norm(A, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    K: Array = np.linalg.lstsq((A / scale)[:, kept], A / scale, rcond=None)[0]
    return K * scale / scale[kept, None]


class Length(NamedTuple):
    """A distance between joints, and what it is in the second robot, whose lengths are others."""

    own: float
    varied: float


def _lengths(robot: Robot) -> list[Length]:
    """Distances of joints from the frames that carry them, along the axes of these."""
    entries = np.abs([np.asarray(b.placement[:3, 3], float) for b in robot.tree.bodies]).ravel()
    rng = np.random.default_rng(0)
    lengths: list[Length] = []
    for x in entries:
        if x > TINY and not any(abs(x - y.own) < SAME * x for y in lengths):
            lengths.append(Length(float(x), float(x * (1 + rng.uniform(-CHANGE, CHANGE)))))
    return lengths


def _with_lengths(model: LinearModel, states: tuple[Array, Array, Array], lengths: list[Length]) -> Array:
    """The columns (samples, nv, n) of the second robot in these states."""
    robot = model.robot
    bodies = []
    for body in robot.tree.bodies:
        placement = np.array(body.placement, float)
        for axis, x in enumerate(placement[:3, 3].tolist()):
            for length in lengths:
                if abs(abs(x) - length.own) < SAME * length.own:
                    placement[axis, 3] = np.copysign(length.varied, x)
        bodies.append(replace(body, placement=placement))
    tree = replace(robot.tree, bodies=tuple(bodies))
    # One state after another in NumPy: compiling a robot for so few states takes longer.
    gravity = robot.gravity_vector
    Y = np.array([inverse_dynamics_regressor(tree, *state, gravity) for state in zip(*states, strict=True)])
    return model.columns_with(Y.astype(float), *states[1:])


class Candidates:
    """Numbers that coefficients of one power of a length may be, in both robots, with their texts."""

    def __init__(self, power: int, lengths: list[Length]) -> None:
        found = list(_candidates(power, [(np.array(x), f"{x.own:.9g}") for x in lengths]))
        self._numbers = np.array([number for number, _ in found]).reshape(-1, 2)
        self._texts = [text for _, text in found]

    def nearest(self, c: float, c_varied: float) -> tuple[float, str]:
        """The coefficient, exact where it is known, and its text with the sign, as "-0.5^2".

        c, c_varied  the coefficient, and that of the second robot
        """
        sign = np.copysign(1.0, c)
        pair = sign * np.array([c, c_varied])
        (same,) = np.nonzero((np.abs(self._numbers - pair) <= SAME * np.abs(self._numbers)).all(axis=1))
        if not len(same):
            return c, f"{c:.9g}"
        return float(sign * self._numbers[same[0], 0]), ("-" if sign < 0 else "") + self._texts[same[0]]


def _candidates(power: int, lengths: list[tuple[Array, str]]) -> Iterator[tuple[Array, str]]:
    """(number in both robots (2,), text) of whole numbers and polynomials of this power, short ones first."""
    if power == 0:
        yield from ((np.full(2, float(k)), "" if k == 1 else str(k)) for k in WHOLE)
    if power not in (1, 2):
        return
    for multiple in MULTIPLES:
        before = "" if multiple == 1 else f"{multiple:g}*"
        for i, (x, name) in enumerate(lengths):
            if power == 1:
                yield multiple * x, f"{before}{name}"
                continue
            yield multiple * x * x, f"{before}{name}^2"
            yield from ((multiple * x * y, f"{before}{name}*{other}") for y, other in lengths[i + 1 :])
    if len(lengths) > SUMS:
        return
    sums = list(_sums(lengths, TIMES))
    if power == 1:
        yield from ((number, f"({text})") for number, text in sums)
        return
    squares = [(x * x, f"{name}^2") for x, name in lengths]
    yield from ((number, f"({text})") for number, text in _sums(squares, TIMES[:3]))
    for multiple in MULTIPLES:
        before = "" if multiple == 1 else f"{multiple:g}*"
        yield from ((multiple * number**2, f"{before}({text})^2") for number, text in sums)


def _sums(terms: list[tuple[Array, str]], times: tuple[int, ...]) -> Iterator[tuple[Array, str]]:
    """Positive sums of multiples of terms, those of few terms first."""
    choices = sorted(itertools.product(times, repeat=len(terms)), key=lambda c: sum(map(abs, c)))
    for choice in choices:
        number = sum((k * x for k, (x, _) in zip(choice, terms, strict=True)), np.zeros(2))
        if number[0] > 0:
            factors = [(k, name) for k, (_, name) in zip(choice, terms, strict=True) if k]
            words = ["-" * (k < 0) + (f"{abs(k)}*" if abs(k) > 1 else "") + name for k, name in factors]
            yield number, _sum([(word, "") for word in words])


def _sum(terms: list[tuple[str, str]]) -> str:
    """a + 2 b - c of ("", a), ("2", b), ("-", c)."""
    text = ""
    for factor, name in terms:
        sign = "-" if factor.startswith("-") else "+"
        words = " ".join(x for x in (factor.removeprefix("-"), name) if x)
        text = f"{text} {sign} {words}" if text else ("-" if sign == "-" else "") + words
    return text
