"""The parts of the equations of motion in closed form, each computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sympy

from .. import dynamics
from ..base.arguments import short
from ..base.concurrency import cached_property
from ..base.errors import ArgumentError, ModelError
from ..bodies import Tree
from ..compiler import jacobian
from ..robot import Algorithm, Robot, kernels_of
from ..scalars import Array
from ..scalars.linear import solve
from . import floating
from .derivation import STATE, Derivation
from .polynomials import TooLarge

PARTS = {  # names of parts, with their left-hand sides in LaTeX
    "M": "M(q)",
    "C": "C(q, v)",
    "g": "g(q)",
    "kinetic": "T",
    "potential": "U",
    "equations": "",
    "tau": r"\tau",
    "energy": "T + U",
    "M_inverse": "M(q)^{-1}",
    "kinematics": "E(q)",
    "locked_inertia": "M_{bb}(q)",
    "connection": "m(q)",
    "curvature": "B(q)",
    "locked_angle": r"\theta_{bc}(q)",
}
# kernels that take the required arguments alone; further names stand for optional arguments
ALGORITHMS = {name: algorithm for name, (algorithm, optional) in kernels_of(Robot).items() if not optional}


class VelocityProducts(NamedTuple):
    """C(q, v) v by products of velocities: centrifugal [v_j^2] + coriolis [v_j v_k].

    centrifugal  (nv, nv): column j multiplies v_j^2
    coriolis     (nv, nv (nv - 1) / 2): a column for each of the pairs
    pairs        places (j, k), j < k, of the velocities that those columns multiply
    """

    centrifugal: Any
    coriolis: Any
    pairs: tuple[tuple[int, int], ...]


def _part(algorithm: str | Callable[..., Any], text: str) -> cached_property[Any]:
    """A part that an algorithm computes."""
    part = cached_property(lambda self: self.of(algorithm))
    part.__doc__ = text
    return part


def _inverse_mass_matrix(tree: Tree, q: Array) -> Array:
    return solve(dynamics.mass_matrix(tree, q), np.eye(tree.nv, dtype=int))


class EquationParts(Derivation):
    """M, C, g, energies, equations and the results of other algorithms, in closed form."""

    M = _part("mass_matrix", "The mass matrix M(q), (nv, nv).")
    M_inverse = _part(_inverse_mass_matrix, "M(q)^-1, (nv, nv).")
    g = _part("gravity", "The efforts that hold the mechanism at rest, g(q), (nv, 1).")
    kinetic = _part("kinetic_energy", "The kinetic energy v^T M v / 2, a scalar.")
    potential = _part(
        "potential_energy", "The potential energy, zero where all mass is in the world's origin, a scalar."
    )
    locked_inertia = _part(
        "locked_inertia",
        "Mbb(q) of a floating base, (k, k): the inertia of the robot with its joints locked.",
    )
    connection = _part(
        "mechanical_connection",
        "m(q) = Mbb^-1 Mbq of a floating base, (k, n): without momentum, q' moves the base by -m q'.",
    )

    @cached_property
    def C(self) -> Any:
        """The Coriolis matrix C(q, v), (nv, nv), of the form `form`."""
        return self.coriolis(self.form)

    @cached_property
    def energy(self) -> Any:
        """The sum of both, a scalar."""
        return self.kinetic + self.potential

    @cached_property
    def kinematics(self) -> Any:
        """E(q) with dq/dt = E(q) v, (nq, nv); 1 where all joints have coordinates in R^n."""

        def moved(tree: Tree, q: Array, v: Array) -> Array:
            return tree.group.integrate(q, v)

        # d(q exp(v))/dv at v = 0
        by_v = jacobian(self.traced(moved, "kinematics"), "v")
        still = np.zeros(self.tree.nv).astype(object)

        def rates(equations: EquationParts) -> list[Any]:
            return [equations.closed_form("kinematics", lambda q, v, *others: by_v(q, still, *others))]

        return self.short_or_long(rates)[0]

    @cached_property
    def efforts(self) -> Any:
        """M a + C v + g, (nv, 1): the right-hand sides of `equations`.

        Simplified, each is a sum over accelerations, products of velocities, and gravity. Otherwise, and
        where one of these is too long, it comes from the recursive Newton-Euler algorithm.
        """
        return self.short_or_long(lambda equations: [equations._efforts()])[0]

    def _efforts(self) -> Any:
        """The efforts; raises TooLarge where the equations are simplified and a term is too long."""
        if not self.simplified:
            return self.of("inverse_dynamics")
        # a sum of terms is short only where M, g and the products are
        for part in ("M", "g"):
            if id(getattr(self, part)) in self._long:
                raise TooLarge(f"{self.tree.name}: the equations in short form would have a long {part}")
        # raises TooLarge where they have no short form
        products = self._velocity_products
        rows = []
        # a row: accelerations, squares and products of velocities, gravity
        for i in range(self.tree.nv):
            terms = [_times(self.M[i, j], self.a[j]) for j in range(self.tree.nv)]
            terms += [_times(products.centrifugal[i, j], self.v[j] ** 2) for j in range(self.tree.nv)]
            terms += [
                _times(products.coriolis[i, k], self.v[j] * self.v[l])
                for k, (j, l) in enumerate(products.pairs)
            ]
            rows.append(sympy.Add(*terms, self.g[i]))
        return sympy.ImmutableMatrix(rows)

    @cached_property
    def equations(self) -> tuple[Any, ...]:
        """The equations of motion, tau_i = ..., one for each degree of freedom."""
        return tuple(sympy.Eq(t, x, evaluate=False) for t, x in zip(self.tau, self.efforts, strict=True))

    def coriolis(self, form: str) -> Any:
        """The Coriolis matrix C(q, v), (nv, nv), of any form; all have the same product with v."""
        dynamics.coriolis_form(form)
        return self.of("coriolis_matrix", form=form)

    def of(self, algorithm: str | Callable[..., Any], **options: Any) -> Any:
        """The result of an algorithm in closed form: a scalar, column, matrix or array, or several of them.

        algorithm  the name of a method of robots, such as "pose", "jacobian", "centroidal_momentum_matrix",
                   or of a part, such as "connection"; or a function f(tree, ...) of NumPy operators and
                   `liebody.scalars`, whose arguments have some of the names q, v, a, tau, gravity
        options    of the algorithm, such as frame="foot"; other arrays of it, of numbers or symbols

            eq.of("decoupled_dynamics", x="centroidal").Mx

        A result that is too long in short form comes as the algorithm makes it, with a LongForm warning:
        text(), c() and the like print it with common subexpressions.

        Raises ModelError for an unknown method or option.
        """
        # a part by its name, a method of robots, or a function of the user
        if isinstance(algorithm, str):
            if algorithm in PARTS and algorithm not in ALGORITHMS and not options:
                return getattr(self, algorithm)
            if algorithm not in ALGORITHMS:
                raise ModelError(f"robots have no algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
            name = algorithm
            entry = ALGORITHMS[algorithm]
        elif callable(algorithm):
            name = getattr(algorithm, "__name__", "function")
            entry = Algorithm(algorithm)
        else:
            raise ArgumentError(f"algorithm is {short(algorithm)}, expected a name or a function")
        # all arguments but the state must be given as options
        others = {k: x for k, x in entry.parameters.items() if k not in STATE}
        missing = {k for k, x in others.items() if x.default is x.empty} - set(options)
        if missing or not set(options) <= set(others):
            raise ModelError(f"{name} takes the options {list(others)}, got {list(options)}")
        results = [x for _, x in self.results(name, entry.function, **options)]
        if entry.tuple_of:
            return entry.tuple_of(*results)
        return results[0] if len(results) == 1 else tuple(results)

    def rate(self, x: Any) -> Any:
        """dx/dt of an expression, or a matrix or a list of expressions, in q and v, along the motion.

        (dx/dq) E(q) v + (dx/dv) a, with `kinematics` E(q).
        """
        x = sympy.Matrix(x) if isinstance(x, list | tuple) else x
        moved = self.kinematics * self.v
        # chain rule: dq/dt = E(q) v and dv/dt = a
        state = [*zip(self.q, moved, strict=True), *zip(self.v, self.a, strict=True)]
        return self._each(x, lambda y: sympy.Add(*(sympy.diff(y, s) * rate for s, rate in state)))

    def jacobian(self, x: Any) -> Any:
        """J(q), (n, nv), with dx/dt = J v, of an expression or a column (n, 1) of expressions in q.

        (dx/dq) E(q), with `kinematics` E(q): Jydot of the toolbox of Feurstein (2021), appendix A.2.
        """
        return self._each(sympy.Matrix([x]).jacobian(self.q) * self.kinematics, lambda y: y)

    def _each(self, x: Any, change: Callable[[Any], Any]) -> Any:
        """The changed entries of x; of simplified equations in short form, if it is not too long."""
        return self.short_or_long(lambda equations: [equations._changed(x, change)])[0]

    def _changed(self, x: Any, change: Callable[[Any], Any]) -> Any:
        """The same; raises TooLarge."""
        if hasattr(x, "applyfunc"):
            return x.applyfunc(lambda y: self._changed(y, change)).as_immutable()
        changed = change(sympy.sympify(x))
        if not self.simplified:
            return changed
        try:
            return self.ring.shortest(changed)
        except TooLarge as error:
            raise TooLarge(f"{self.tree.name}: a derivative in short form would be {error}") from error

    @cached_property
    def curvature(self) -> Any:
        """The angular part of the curvature of `connection`, (r, n, n), r the base's turning velocities.

        d_j w_i - d_i w_j + w_i x w_j; the linear part is c x that. Feurstein (2021), eq. (3.72).
        """
        return self.short_or_long(lambda equations: [floating.curvature(equations)])[0]

    @cached_property
    def integrable(self) -> bool:
        """Whether the curvature is zero, decided on its normal form: the locked frame is a function of q."""
        if not self.simplified:
            raise ModelError(
                f"{self.tree.name}: without simplification zero is not told from what cancels; ask for "
                "equations with simplify=True, or for dynamics.integrability, which is numerical"
            )
        curvature = self.curvature
        if id(curvature) in self._long:
            raise ModelError(
                f"{self.tree.name}: the curvature in short form would be too long, and without it zero is "
                "not told from what cancels; dynamics.integrability decides numerically"
            )
        return all(x == 0 for x in sympy.flatten(curvature))

    @cached_property
    def locked_angle(self) -> Any:
        """The angle of the frame that moves with the locked velocity, of a planar base with one joint.

        int m_omega(q) dq from 0, by its antiderivative, continuous for all q. Feurstein (2021), eq. (3.76).
        """
        return floating.locked_angle(self)

    def velocity_products(self) -> VelocityProducts:
        """C(q, v) v as the coefficients of v_j^2 (centrifugal terms) and of v_j v_k (Coriolis terms)."""
        centrifugal, coriolis = self._products_short_or_long
        return VelocityProducts(centrifugal, coriolis, self._pairs)

    @cached_property
    def _products_short_or_long(self) -> list[Any]:
        return self.short_or_long(lambda equations: [*equations._velocity_products[:2]])

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        n = self.tree.nv
        return tuple((j, k) for j in range(n) for k in range(j + 1, n))

    @cached_property
    def _velocity_products(self) -> VelocityProducts:
        """The products of velocities; raises TooLarge."""

        def products(tree: Tree, q: Array, v: Array) -> Array:
            return dynamics.bias_forces(tree, q, v, gravity=(0, 0, 0))

        n = self.tree.nv
        bias = self.traced(products, "velocity_products")
        twice = jacobian(jacobian(bias, "v"), "v")  # (n, n, n), without v: the products are quadratic
        still = np.zeros(n).astype(object)
        pairs = self._pairs

        def coefficients(q: Array, v: Array, *others: Array) -> Array:
            # C v is a quadratic form: half its second derivative on the diagonal, all of it beside
            H = twice(q, still, *others)
            rows = [[0.5 * H[i, j, j] for j in range(n)] + [H[i, j, k] for j, k in pairs] for i in range(n)]
            return np.array(rows, dtype=object).reshape(n, n + len(pairs))

        table = self.closed_form("velocity_products", coefficients)
        return VelocityProducts(table[:, :n], table[:, n:], pairs)


def _times(coefficient: Any, x: Any) -> Any:
    """coefficient x, with the number and the sign that all terms of the coefficient share in front."""
    if not coefficient.is_Add:
        return coefficient * x
    # c (a + b) with c and its sign in front, as one writes it
    number, rest = coefficient.primitive()
    if all(term.could_extract_minus_sign() for term in rest.args):
        number = -number
        rest = -rest
    return number * x * rest
