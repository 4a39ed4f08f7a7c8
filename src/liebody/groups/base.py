"""Lie groups by their definitions: from `hat` alone everything else follows, as written here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from ..base.arguments import OFF_UNIT, array_of, quantities, quaternion_remedy
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, LogarithmError, ShapeError
from ..compiler import Function, jacobian, trace
from ..scalars import Array, Coordinates, GroupElement
from ..scalars.linear import inverse, is_numeric

TAKEN = {  # by methods of groups: elements g (n, n), algebra vectors u (dim,), coordinates q (nq,), numbers s
    **dict.fromkeys(("inverse", "log", "vee", "Ad", "coordinates"), "g"),
    **dict.fromkeys(("hat", "exp", "ad", "coad", "dexp", "dexp_inverse"), "u"),
    **dict.fromkeys(("element", "normalize", "pose"), "q"),
    "compose": "gg",
    "dexp_inverse_times": "uu",
    "integrate": "qu",
    "coordinate_rate": "qu",
    "difference": "qq",
    "interpolate": "qqs",
}


def _checked(word: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of `TAKEN` of this name, whose arguments are made arrays and must have its shapes."""
    # Names of the arguments as the method calls them, for messages; methods with *arguments have the letters.
    letters = TAKEN[word]
    names = list(inspect.signature(method).parameters)[1:]
    if len(names) < len(letters):
        names = [*letters]
    letter_of = dict(zip(names, letters, strict=True))

    def array(group: LieGroup, letter: str, name: str, x: Any) -> Any:
        # Arrays of floats, complex numbers, wide integers or symbols pass at the cost of one comparison.
        # Everything else, such as lists, is converted and checked.
        shape = group._shapes[letter]
        if type(x) is np.ndarray and x.shape == shape and x.dtype.kind in "fOic" and x.itemsize >= 8:
            return x
        values = quantities(f"{group}.{word}: {name}", x, shape)
        return values if shape else x

    @wraps(method)
    def call(self: LieGroup, *given: Any, **named: Any) -> Any:
        arrays = [array(self, *of) for of in zip(letters, names, given, strict=False)]
        for name in letter_of.keys() & named.keys():
            named[name] = array(self, letter_of[name], name, named[name])
        return method(self, *arrays, *given[len(letters) :], **named)

    return call


class LieGroup:
    """A connected group of n x n matrices g, with algebra vectors u (dim,) and flat coordinates q (nq,).

    `n`, `dim` and `hat` make a group; the rest follows from them. A subclass overrides what has a closed
    form, and tests/test_groups.py holds each override to the definition it replaces. Methods take single
    elements, without batch axes, run on floats and on the symbols of a trace alike, and return new arrays;
    arguments of another shape, or other than numbers, raise ShapeError.

    Conventions: dexp is right-trivialised, hat(dexp(u) du) = dg g^-1 for g = exp(u), so that the body
    velocity g^-1 dg is dexp(-u) du. A state vector holds the flat coordinates of g: by default its entries.

        class Affine(LieGroup):             # x -> a x + b
            n, dim = 2, 2

            def hat(self, u):
                return np.array([[u[0], u[1]], [0, 0]])
    """

    n: int
    dim: int
    nq: int
    name: str
    quaternions: tuple[int, ...] = ()  # where in q unit quaternions begin
    poses: tuple[int, ...] = ()  # where in q poses begin: a unit quaternion, and a position behind it

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        defined = cls.__dict__
        if isinstance(defined.get("n"), int) and "nq" not in defined:
            cls.nq = defined["n"] ** 2
        if "name" not in defined:
            cls.name = cls.__name__
        # methods that the subclass defines check the shapes of their arguments, as those of this class do
        for name in TAKEN.keys() & defined.keys():
            if inspect.isfunction(defined[name]):
                setattr(cls, name, _checked(name, defined[name]))

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LieGroup) and type(self) is type(other) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash((type(self), self._value()))

    def _value(self) -> Any:
        """The value that groups of one class are compared by; the object itself, if not overridden."""
        return id(self)

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arguments of methods, by the letters of `TAKEN`."""
        return {"g": (self.n, self.n), "u": (self.dim,), "q": (self.nq,), "s": ()}

    # Elements

    def identity(self) -> np.ndarray:
        """The neutral element, (n, n)."""
        return np.eye(self.n)

    def compose(self, g: GroupElement, h: GroupElement) -> GroupElement:
        """The product g h."""
        return g @ h

    def inverse(self, g: GroupElement) -> GroupElement:
        """g^-1."""
        return inverse(g)

    def hat(self, u: Array) -> Array:
        """Algebra vector (dim,) to algebra matrix (n, n); linear. It defines the group."""
        raise NotImplementedError(
            f"{type(self).__name__} must define hat(u), the matrix of an algebra vector"
        )

    @cached_property
    def basis(self) -> np.ndarray:
        """The matrices hat(e_i), (dim, n, n)."""
        return np.array([self.hat(e) for e in np.eye(self.dim)], dtype=float).reshape(
            self.dim, self.n, self.n
        )

    @cached_property
    def _vee_matrix(self) -> np.ndarray:
        """Left inverse of hat on flattened matrices, (dim, n^2)."""
        # Round-off of the pseudoinverse is removed, or it would stand in traced code as if it were an entry.
        columns = self.basis.reshape(self.dim, -1).T
        inverse = np.linalg.pinv(columns)
        return np.where(np.abs(inverse) < 1e-15, 0.0, inverse)

    def vee(self, U: Array) -> Array:
        """Inverse of hat:  vee(hat(u)) = u."""
        return self._vee_matrix @ np.ravel(U)

    def exp(self, u: Array) -> GroupElement:
        """Matrix exponential of hat(u).

        By the series of (exp(U) - 1)/U at U/2^8 and doubling of that function, which keeps what is small
        accurate; to round-off for |U| up to about 100.
        """
        # exp(U) = 1 + U F(U) with F(U) = (exp(U) - 1)/U: small U keep all digits, which squaring would lose.
        U = self.hat(u)
        return np.eye(self.n) + U @ _exponential_quotient(U)

    def log(self, g: GroupElement) -> Array:
        """The u of least rotation with exp(u) = g.

        By three square roots of the matrix, the series of artanh, and two steps of Newton's method. Where no
        eigenvalue of g lies on the negative real axis, this is the principal logarithm. With one there it is
        not unique, or does not exist: real matrices have a real one only where each Jordan block of a
        negative eigenvalue occurs an even number of times (Culver 1966, theorem 1).

        Raises LogarithmError for floats where it does not exist, is not unique, or is not of this algebra.
        Nothing is checked of symbols: what is traced gives NaN or another vector for such elements.
        """
        known = is_numeric(g) and np.isfinite(np.asarray(g, float)).all()
        if known and (reason := _without_logarithm(np.asarray(g, float))):
            raise LogarithmError(_refusal(self, g, reason))
        # 8 log(g^(1/8)) = log(g): near the identity the series of artanh converges fast
        root = g
        for _ in range(3):
            root = _square_root(root)
        # log(root) = 2 artanh(Z) = 2 (Z + Z^3/3 + Z^5/5 + ...)
        one = np.eye(self.n)
        Z = (root - one) @ inverse(root + one)
        Z2 = Z @ Z
        term = Z
        total = Z
        for k in range(3, 27, 2):
            term = term @ Z2
            total = total + term / k
        u = self.vee(16 * total)
        # Newton's method on exp(u) = g removes what the roots lost of the last digits
        for _ in range(2):
            u = u + self.dexp_inverse_times(-u, self.vee(self.exp(-u) @ g - one))
        # the way back tells whether u belongs to the algebra
        if known and not np.abs(self.exp(u) - g).max(initial=0.0) <= REACHED * np.abs(g).max(initial=1.0):
            reason = (
                "its principal logarithm is no matrix of the algebra, or an eigenvalue lies too close to the "
                "negative real axis"
            )
            raise LogarithmError(_refusal(self, g, reason))
        return u

    def by_factors(self, function: Callable[..., Array], *vectors: Array) -> Array:
        """function(group, *vectors) of algebra vectors; for a product, joined from its factors."""
        return function(self, *vectors)

    # Linear maps of the algebra

    def Ad(self, g: GroupElement) -> Array:
        """Adjoint (dim, dim):  hat(Ad(g) u) = g hat(u) g^-1."""
        # Column i is the image of the basis vector i; likewise in `ad` and `coad`.
        h = self.inverse(g)
        return _columns(self.dim, [self.vee(g @ E @ h) for E in self.basis])

    def ad(self, u: Array) -> Array:
        """Bracket (dim, dim):  hat(ad(u) w) = hat(u) hat(w) - hat(w) hat(u)."""
        U = self.hat(u)
        return _columns(self.dim, [self.vee(U @ E - E @ U) for E in self.basis])

    def coad(self, p: Array) -> Array:
        """The matrix ad~_p (dim, dim) with  ad~_p v = -ad(v)^T p  for a momentum p; it is skew.

        From, table 1 (with the sign of eq. (68)): the Coriolis matrix of a body with momentum p.
        """
        return _columns(self.dim, [-(self.ad(e).T @ p) for e in np.eye(self.dim)])

    def dexp(self, u: Array) -> Array:
        """Differential of exp (dim, dim):  hat(dexp(u) du) = dg g^-1,  g = exp(u);  sum of ad(u)^k/(k+1)!."""
        return _exponential_quotient(self.ad(u))

    def dexp_inverse(self, u: Array) -> Array:
        """Inverse of dexp(u), (dim, dim)."""
        return inverse(self.dexp(u))

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        """dexp_inverse(u) @ w, (dim,)."""
        return self.dexp_inverse(u) @ w

    # Flat coordinates

    def neutral(self) -> np.ndarray:
        """Coordinates of the identity, (nq,)."""
        return self._neutral.copy()

    @cached_property
    def _neutral(self) -> np.ndarray:
        return np.array(self.coordinates(self.identity()), dtype=float)

    def element(self, q: Coordinates) -> GroupElement:
        """Coordinates (nq,) to element (n, n)."""
        return np.reshape(q, (self.n, self.n))

    def coordinates(self, g: GroupElement) -> Coordinates:
        """Element (n, n) to coordinates (nq,)."""
        return np.reshape(g, -1)

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        """Coordinates of g exp(u), for coordinates q of g."""
        return self.coordinates(self.compose(self.element(q), self.exp(u)))

    def coordinate_rate(self, q: Coordinates, v: Array) -> Array:
        """dq/dt (nq,) where v is the velocity: the derivative of integrate(q, s v) by s at 0."""
        return _coordinate_rate(self)(q, v)

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        """log(g0^-1 g1): the u that integrate(q0, u) takes to q1, (dim,)."""
        return self.log(self.compose(self.inverse(self.element(q0)), self.element(q1)))

    def interpolate(self, q0: Coordinates, q1: Coordinates, s: Array) -> Coordinates:
        """The point at s of the curve g0 exp(s log(g0^-1 g1)), from q0 at s = 0 to q1 at s = 1."""
        return self.integrate(q0, s * self.difference(q0, q1))

    def normalize(self, q: Coordinates) -> Coordinates:
        """q with unit quaternions made unit; other coordinates as they are."""
        return np.asarray(q)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Coordinates of random elements (*shape, nq): uniform over what is compact, else standard normal."""
        draws = rng.standard_normal((*shape, self.dim)).reshape(-1, self.dim)
        elements = [self.integrate(self.neutral(), u) for u in draws]
        return np.reshape(np.array(elements, float), (*shape, self.nq))

    def check(self, q: Any) -> np.ndarray:
        """q as floats (..., nq), if it is a configuration.

        Raises ShapeError for a wrong shape or entries that are not numbers, ConfigurationError for NaN,
        infinity, or a quaternion whose norm is more than 1e-6 from one.
        """
        try:
            values = array_of("q", q, float)
        except ShapeError:
            raise ShapeError(f"coordinates of {self} must be {self.nq} numbers, not {q!r}") from None
        if values.shape[-1:] != (self.nq,):
            raise ShapeError(f"coordinates of {self} have shape (..., {self.nq}), not {values.shape}")
        finite = np.isfinite(values)
        if not finite.all():
            at = tuple(int(i) for i in np.argwhere(~finite)[0])
            where_at = at[0] if len(at) == 1 else at
            raise ConfigurationError(
                f"coordinate {where_at} of {self} is {values[at]}; coordinates must be finite"
            )
        for k in self.quaternions:
            norm = np.sqrt(np.sum(values[..., k : k + 4] ** 2, axis=-1))
            if np.any(np.abs(norm - 1) > OFF_UNIT):
                worst = int(np.argmax(np.abs(norm - 1)))
                one = values.reshape(-1, self.nq)[worst]
                advice = quaternion_remedy(one, k, self.poses, "divide it by its norm (group.normalize)")
                raise ConfigurationError(
                    f"the quaternion q[{k}:{k + 4}] (w, x, y, z) of {self} has norm "
                    f"{norm.flat[worst]:.9g}, not 1; {advice}"
                )
        return values

    def is_valid(self, q: Any) -> bool:
        """Whether check(q) passes."""
        try:
            self.check(q)
        except (ShapeError, ConfigurationError):
            return False
        return True


for _name in TAKEN.keys() & vars(LieGroup).keys():
    setattr(LieGroup, _name, _checked(_name, vars(LieGroup)[_name]))


@lru_cache
def _coordinate_rate(group: LieGroup) -> Function:
    # A derivative by s at s = 0, where the series of exp are constants: what is left is linear in v.
    def moved(s: Any, q: Coordinates, v: Array) -> Coordinates:
        return group.integrate(q, s * v)

    moves = jacobian(trace(moved, {"s": (), "q": group.nq, "v": group.dim}), "s")
    return trace(lambda q, v: moves(0.0, q, v), {"q": group.nq, "v": group.dim}, "coordinate_rate")


def _columns(rows: int, columns: list[Array]) -> Array:
    """Matrix with these columns; (rows, 0) if there are none."""
    return np.stack(columns, axis=-1) if columns else np.zeros((rows, 0))


def _exponential_quotient(A: Array, halvings: int = 8, terms: int = 12) -> Array:
    """(exp(A) - 1)/A = sum of A^k/(k+1)!: the series at A/2^halvings, then F(2B) = F(B) + F(B) B F(B)/2."""
    # scaling and doubling: the series converges fast near zero, and doubling is exact
    one = np.eye(len(A))
    B = A / 2.0**halvings
    F = one
    for k in range(terms, 0, -1):
        F = one + B @ F / (k + 1)
    for _ in range(halvings):
        F = F + 0.5 * (F @ B @ F)
        B = 2 * B
    return F


REACHED = 1e-8  # of the largest entry of g: how far exp(log(g)) may be from it
ON_AXIS = 1e-7  # of an eigenvalue: an imaginary part that counts as none, as a double one is known to


def _without_logarithm(g: np.ndarray) -> str:
    """Why the real matrix g has no principal logarithm; empty if it has one."""
    # Without negative eigenvalues there is the principal logarithm. An odd number of equal ones excludes any
    # real logarithm.
    values = np.linalg.eigvals(g)
    sizes = np.abs(values)
    if len(g) and not sizes.min() > np.finfo(float).eps * sizes.max():
        return "it is singular, and so no element of a group"
    negative = np.sort(values.real[(values.real < 0) & (np.abs(values.imag) <= ON_AXIS * sizes)])
    if not len(negative):
        return ""
    # round-off splits a double eigenvalue in two: neighbours count as one, with their number
    clusters = np.split(negative, np.flatnonzero(np.diff(negative) > 10 * ON_AXIS * -negative[:-1]) + 1)
    at = min(clusters, key=lambda cluster: len(cluster) % 2 == 0)
    where = f"its eigenvalue {at.mean():.6g} lies on the negative real axis"
    if len(at) % 2:
        times = f"{len(at)} times, an odd number" if len(at) > 1 else "once"
        return f"{where} {times}, so it has no real logarithm at all"
    return f"{where} {len(at)} times, where a real logarithm is not unique, if there is one"


def _refusal(group: LieGroup, g: GroupElement, reason: str) -> str:
    rows = "; ".join(", ".join(f"{x:.6g}" for x in row) for row in np.asarray(g, float))
    return (
        f"no u of {group} leads to [{rows}] by exp(u): {reason}; go by way of elements in between, with a "
        "logarithm for each part of the way, or take other elements"
    )


def _square_root(A: Array, steps: int = 9) -> Array:
    """Principal square root, by the iteration of Denman and Beavers (1976), eq. (2.29) in Higham (1986)."""
    # Y tends to A^(1/2), Z to A^(-1/2), quadratically. A fixed number of steps, since traced code has no loop
    # that ends by a condition.
    Y = A
    Z = np.eye(len(A))
    for _ in range(steps):
        Y, Z = 0.5 * (Y + inverse(Z)), 0.5 * (Z + inverse(Y))
    return Y


def block_diagonal(blocks: list[Array]) -> Array:
    """Square blocks along the diagonal, structural zeros elsewhere."""
    size = sum(len(block) for block in blocks)
    rows = [np.zeros((0, size))]
    start = 0
    for block in blocks:
        k = len(block)
        left = np.zeros((k, start), int)
        right = np.zeros((k, size - start - k), int)
        rows.append(np.concatenate([left, block, right], axis=1))
        start += k
    return np.concatenate(rows)


def random_angles(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform angles (*shape, 1)."""
    return rng.uniform(-np.pi, np.pi, (*shape, 1))
