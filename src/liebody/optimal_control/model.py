"""What is optimised, on symbols: a step of the equations of motion and a cost, with their derivatives.

Derivatives are along the group: by s = (delta, nu, mu) at (q exp(delta), v + nu, u + mu), s = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..codegen import Function, jacobian, trace
from ..dynamics import OpenTree, bias_forces, forward_dynamics_derivatives, mass_matrix
from ..errors import GraphError
from ..groups import Product, R
from ..integrators.methods import Method
from ..integrators.rkmk import advance, combination
from ..linear import back_substitute, factor, product
from ..scalar import Array

Shapes = Mapping[str, Any]


class Point(NamedTuple):
    """A state, and how its tangent depends on s, (nv, s)."""

    q: Array
    v: Array
    delta: Array
    nu: Array


class Step:
    """(q, v) at t + h of a tree whose joints have the efforts S u during the step.

    S       (nv, m)
    method  an explicit one; None: v+ = v + h dv/dt, q+ = q exp(h v+), the semi-implicit Euler method
    """

    def __init__(self, mechanism: OpenTree, S: Array, h: float, method: Method | None) -> None:
        self.mechanism, self.S, self.h, self.method = mechanism, S, h, method
        self.group, n = mechanism.group, mechanism.nv
        self.state = Product(self.group, R(n))
        self._pull: Shapes = {"psi": n, "f": n}
        self._is_plain = not mechanism.forces and not mechanism.clipped

    def next(self, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """q and v at the end of the step."""
        tau, h, made = product(self.S, u), self.h, self.mechanism
        if self.method is None:
            v = v + h * made.acceleration(0.0, q, v, tau)
            return self.group.normalize(self.group.integrate(q, h * v)), v

        def field(t: Any, y: Array) -> Array:
            return np.concatenate(made.rates(t, y[: made.nq], y[made.nq :], tau))

        y = advance(self.state, self.method, field, 0.0, np.concatenate([q, v]), h).q
        return y[: made.nq], y[made.nq :]

    def derivative(self, q: Array, v: Array, u: Array) -> Point:
        """q and v at the end of the step, and their derivatives by s."""
        n, m, h, tau = len(v), len(u), self.h, product(self.S, u)
        unit = np.eye(2 * n + m, dtype=int)
        points, rates, psi = [Point(q, v, unit[:n], unit[n : 2 * n])], [], None
        if self.method is None:
            a, da = self._acceleration(points[0], tau, unit[2 * n :])
            v, dv = v + h * a, unit[n : 2 * n] + h * da
            return self._moved(points[0], h * v, h * dv)._replace(v=v, nu=dv)
        method = self.method
        for i, (first, exponentials) in enumerate(method.paths, start=0):
            point = points[first] if i else points[0]
            for row in exponentials if i else ():
                psi, rise, d_psi, d_rise = (h * combination(row, x) for x in zip(*rates, strict=True))
                moved = self._moved(point, psi, d_psi)
                point = moved._replace(v=point.v + rise, nu=point.nu + d_rise)
            points += [point] if i else []
            if i < len(method.paths) - 1:
                a, da = self._acceleration(point, tau, unit[2 * n :])
                w, dw = point.v, point.nu
                if method.pulls_back and psi is not None:
                    w, dw = self._pulled(psi, d_psi, w, dw)
                rates.append((w, a, dw, da))
        return points[-1]

    def _acceleration(self, at: Point, tau: Array, du: Array) -> tuple[Array, Array]:
        """dv/dt, and its derivative."""
        made = self.mechanism
        tree, gravity, q, v = made.tree, tuple(made.gravity), at.q, at.v
        by_u = product(self.S, du)
        if not self._is_plain:
            n, none = made.nv, np.zeros(made.nv, int)
            shapes = {"q": made.nq, "v": n, "tau": n, "s": n}
            acting = trace(
                lambda q, v, tau, s: made.efforts(0.0, self.group.integrate(q, s), v, tau), shapes, "acting"
            )
            slopes = [jacobian(acting, x)(q, v, tau, none) for x in ("s", "v", "tau")]
            tau = made.efforts(0.0, q, v, tau)
            by_u = _sum(slopes, (at.delta, at.nu, by_u))
        a = back_substitute(factor(mass_matrix(tree, q)), tau - bias_forces(tree, q, v, gravity))
        slopes = forward_dynamics_derivatives(tree, q, v, tau, gravity)
        return a, _sum(slopes, (at.delta, at.nu, by_u))

    def _moved(self, at: Point, psi: Array, d_psi: Array) -> Point:
        """The point with q exp(psi)."""
        group = self.group
        q = group.normalize(group.integrate(at.q, psi))
        turned = product(group.Ad(group.exp(-psi)), at.delta)
        return at._replace(q=q, delta=turned + product(group.dexp(-psi), d_psi))

    def _pulled(self, psi: Array, d_psi: Array, f: Array, df: Array) -> tuple[Array, Array]:
        pull = trace(lambda psi, f: self.group.dexp_inverse_times(-psi, f), self._pull, "pull")
        return pull(psi, f), _sum([jacobian(pull, x)(psi, f) for x in ("psi", "f")], (d_psi, df))


class Cost:
    """A user's cost: a number, or residuals r (k,), which stand for r^T r / 2; times `scale`.

    function  of arrays of these shapes, the first of which are q and v; on symbols
    exact     whether residuals have their whole Hessian, not J^T J alone (Gauss-Newton)
    """

    def __init__(
        self, name: str, function: Callable[..., Any], shapes: Shapes, group: Any, exact: bool, scale: float
    ) -> None:
        self.function, self.scale, self.group = function, scale, group
        sizes = [shapes["v"], shapes["v"], shapes.get("u", 0)]
        whole = sum(sizes)

        def moved(q: Array, v: Array, *rest: Array) -> Any:
            *others, s = rest
            delta, nu, mu = np.split(s, np.cumsum(sizes)[:2])
            if sizes[2]:
                others = [others[0] + mu, *others[1:]]
            return function(group.integrate(q, delta), v + nu, *others)

        self._zero = np.zeros(whole, int)
        traced = trace(moved, {**shapes, "s": whole}, name)
        results = list(traced.outputs.values())
        if len(results) != 1 or results[0].ndim > 1:
            found = ", ".join(str(y.shape) for y in results)
            raise GraphError(
                f"{name} returns arrays of shapes {found}, expected a cost () or residuals (k,); join residuals "
                "with numpy.concatenate"
            )
        self.is_residual = results[0].ndim == 1
        self._slopes: tuple[Function, ...]
        if self.is_residual and not exact:
            self._slopes = (jacobian(traced, "s"),)
        else:
            total = trace(lambda *x: self._total(traced(*x)), {**shapes, "s": whole}, name)
            gradient = jacobian(total, "s")
            self._slopes = gradient, jacobian(gradient, "s")

    def _total(self, r: Array) -> Any:
        return r @ r / 2 if self.is_residual else r

    def __call__(self, *at: Array) -> Array:
        """The cost, (1,)."""
        return np.reshape(self.scale * self._total(np.asarray(self.function(*at))), 1)

    def derivatives(self, *at: Array) -> tuple[Array, Array, Array]:
        """The cost (1,), its gradient, and its Hessian."""
        slopes = [f(*at, self._zero) for f in self._slopes]
        if len(slopes) == 1:
            r, J = np.asarray(self.function(*at)), slopes[0]
            slopes = [product(J.T, r), product(J.T, J)]
        return (self(*at), *(self.scale * x for x in slopes))


def _sum(matrices: Any, columns: Any) -> Array:
    return sum(product(A, x) for A, x in zip(matrices, columns, strict=True))
