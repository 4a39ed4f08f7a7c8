"""Branch points, where two curves of orbits cross: equations that are regular there.

Next to a branch point of F(z) = 0 the equations of Newton's method are nearly singular, even with a row
across the curve, because the curves have two tangents V = (v_1, v_2). With borders V and p,

    [A    p] [dz]   [-F]
    [V^T  0] [db] = [dy],      A = dF/dz,

they are regular. V and p are the right and left singular vectors of the smallest singular values of A. For
each y in the plane of the two tangents there is one solution z(y), which leaves a part b(y) p of F. Its slope
db/dy is zero where A has a null space of two dimensions, that is at the branch point: two equations for the
two unknowns y, regular where the curves cross at an angle.

Keller (1977), Numerical solution of bifurcation and nonlinear eigenvalue problems; Govaerts (2000), Numerical
Methods for Bifurcations of Dynamical Equilibria, chapters 3 and 7.
"""

from __future__ import annotations

import numpy as np

from .segments import Array, GaitError, Point
from .shooting import LONGEST, Shooting, Shot

TRIES = 15  # of Newton's method
ROUND_OFF = 1e-4  # steps, over the unit, that are shorter and no longer shrink are round-off
DIFFERENCE = 1e-4  # over the unit: step along the plane, by which the slope is differentiated


def branch_point(
    shooting: Shooting, regular: tuple[Point, Shot], guess: Point, precision: float
) -> tuple[Point, Shot, float]:
    """The branch point next to a guess, the equations there, and the length of the last step over the unit.

    regular    a point of the curve beside the branch point: it shows which equations are independent of each
               other, and along which changes an orbit only moves along itself
    precision  length of a step from which on the point is good enough; it is less good where round-off
               keeps steps longer

    Raises GaitError where Newton's method finds no such point.
    """
    phases = shooting.phases(*regular)
    # equations without those that follow from the others, by the left singular vectors at a regular point
    number = shooting.size - 1 - len(phases)
    independent = np.linalg.svd(regular[1].jacobian)[0][:, :number].T

    def derivative(shot: Shot) -> Array:
        return np.concatenate([independent @ shot.jacobian, phases])

    point = guess
    before = np.inf
    for _ in range(TRIES):
        shot = shooting.shoot(point)
        A = derivative(shot)
        # the borders: the left-over part p, and the plane of the two tangents
        left, _, right = np.linalg.svd(A)
        p = left[:, -1:]
        plane = right[-2:]

        def bordered(A: Array, p: Array = p, plane: Array = plane) -> Array:
            return np.block([[A, p], [plane, np.zeros((2, 1))]])

        def slopes(A: Array) -> Array:
            """dz/dy and, in the last row, db/dy: (size + 1, 2)."""
            B = bordered(A)
            return np.linalg.solve(B, np.eye(len(B))[:, -2:])

        try:
            # db/dy is the equation for y; its derivative is a difference quotient along both tangents
            along = slopes(A)
            beside = [shooting.moved(point, DIFFERENCE * x) for x in along[:-1].T]
            curvature = [(slopes(derivative(shooting.shoot(x)))[-1] - along[-1]) / DIFFERENCE for x in beside]
            dy = np.linalg.solve(np.stack(curvature, axis=1), -along[-1])
            # back to the solutions of the bordered equations, and within them to db/dy = 0
            F = np.concatenate([independent @ shot.residual, np.zeros(len(phases))])
            back = np.linalg.solve(bordered(A), np.concatenate([-F, np.zeros(2)]))
        except np.linalg.LinAlgError:
            break
        change = back[:-1] + along[:-1] @ dy
        length = float(np.abs(change).max())
        if not np.isfinite(length):
            break
        point = shooting.moved(point, change / max(1.0, length / LONGEST))
        # steps that are short and no longer halve are round-off
        if length < precision or ROUND_OFF > length > before / 2:
            return point, shooting.shoot(point), length
        before = length
    raise GaitError("Newton's method finds no branch point")
