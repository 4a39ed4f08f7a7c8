"""Rigid motions (R, p) acting on twists, wrenches and inertias, in the fewest operations.

Twists and wrenches are pairs of 3-vectors, angular first; no 6 x 6 matrix of a motion is formed. Structural
zeros vanish when traced. Functions that recursions apply to each body are marked as steps, which become loops
for long trees (`compiler.programs.repeats`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..bodies import Body
from ..compiler import repeated
from ..groups import MotionSubgroup
from ..scalars import Array
from ..scalars.linear import cross, is_numeric, skew, symmetric

Pair = tuple[Array, Array]  # a twist (omega, v) or a wrench (n, f)
REST = np.zeros(3, int)


class Transformation(NamedTuple):
    """The pose (R, p) of a body in its parent: x_parent = R x_body + p.

    R is kept as its factors (a constant placement, the joint's rotation) where each of them turns about one
    coordinate axis: acting with them in turn then costs less than acting with their product.
    """

    turns: tuple[Array, ...]
    p: Array

    def into(self, x: Array) -> Array:
        """R^T x: a direction of the parent's axes in the body's."""
        for R in self.turns:
            x = R.T @ x
        return x

    def out(self, x: Array) -> Array:
        """R x: a direction of the body's axes in the parent's."""
        for R in reversed(self.turns):
            x = R @ x
        return x

    def rotation_after(self, R: Array) -> Array:
        """R_parent R: the body's axes where R_parent are its parent's."""
        for turn in self.turns:
            R = R @ turn
        return R

    def twist_into(self, w: Array, v: Array) -> tuple[Array, Array]:
        """Ad(T^-1) (w, v) = (R^T w, R^T (v + w x p)):  the parent's twist, for the body."""
        return self.into(w), self.into(v + cross(w, self.p))

    def wrench_out(self, n: Array, f: Array) -> tuple[Array, Array]:
        """Ad(T^-1)^T (n, f) = (R n + p x R f, R f):  the body's wrench, for the parent."""
        f = self.out(f)
        return self.out(n) + cross(self.p, f), f

    def turn_out(self, B: Array) -> Array:
        """R B R^T: a (3, 3) tensor of the body's axes in the parent's."""
        for R in reversed(self.turns):
            B = _turn(R, B)
        return B

    def moments_out(self, m: Any, h: Array, Sigma: Array) -> tuple[Any, Array, Array]:
        """The body's moments, about the parent's frame."""
        h = self.out(h)
        p = self.p
        for R in reversed(self.turns):
            Sigma = _turn_symmetric(R, Sigma)
        # Sigma about the parent: Sigma + h p^T + p h^T + m p p^T. With g = h + m p/2 that is Sigma + g p^T +
        # p g^T, which saves the products with m.
        g = h + (0.5 * m) * p
        shifted = symmetric(
            3, lambda i, j: Sigma[i, j] + (2 * p[i] * g[i] if i == j else p[i] * g[j] + g[i] * p[j])
        )
        return m, h + m * p, shifted

    def inertia_out(self, A: Array, B: Array, C: Array) -> tuple[Array, Array, Array]:
        """Ad(T^-1)^T [[A, B], [B^T, C]] Ad(T^-1), by its blocks; A and C are symmetric.

        After the rotation:  B' = B + [p] C,  A' = A - B' [p] - (B [p])^T.
        """
        # First the rotation of all three blocks, then the shift by p.
        B = self.turn_out(B)
        for R in reversed(self.turns):
            A, C = _turn_symmetric(R, A), _turn_symmetric(R, C)
        P = skew(self.p)
        shifted = B + P @ C
        left = shifted @ P
        right = B @ P
        return symmetric(3, lambda i, j: A[i, j] - (left[i, j] + right[j, i])), shifted, C


def transformation(body: Body, q: Array) -> Transformation:
    """The motion of a body in its parent, at the tree's configuration q (nq,)."""
    group = body.joint.group
    x = body.joint_coordinates(q)
    if is_numeric(group.S):
        return _transformation(body.placement, group, x)
    # A twist with symbols belongs to the graph that is being traced: a repeat cannot have it inside.
    return _moved(body.placement, group.pose(x))


@repeated
def _transformation(placement: Array, group: MotionSubgroup, q: Array) -> Transformation:
    return _moved(placement, group.pose(q))


def _moved(placement: Array, joint: Array) -> Transformation:
    # Two turns about coordinate axes take 4 + 4 products on a vector, their product matrix 9. A general
    # rotation takes 9 by itself, so then one matrix is better.
    turns = [placement[:3, :3], joint[:3, :3]]
    if any(_axis(R) is None for R in turns):
        turns = [turns[0] @ turns[1]]
    return Transformation(tuple(turns), placement[:3, 3] + placement[:3, :3] @ joint[:3, 3])


@repeated
def next_twist(T: Transformation, S: Array, v: Array, parent: Pair) -> Pair:
    """Ad(T^-1) V_parent + S v: the twist of a body from its parent's."""
    w, u = T.twist_into(*parent)
    V = S @ v
    return w + V[:3], u + V[3:]


@repeated
def next_rate(T: Transformation, S: Array, v: Array, a: Array, V: Pair, parent: Pair) -> Pair:
    """Ad(T^-1) A_parent + S a + ad_V S v: how the twist V of a body changes, from its parent's rate."""
    own = S @ v
    return plus(next_twist(T, S, a, parent), bracket(V, (own[:3], own[3:])))


@repeated
def next_pose(T: Transformation, R: Array, p: Array) -> Pair:
    """(R, p) of a body in the frame in which they are its parent's."""
    return T.rotation_after(R), p + R @ T.p


@repeated
def added_wrench(T: Transformation, parent: Pair, wrench: Pair) -> Pair:
    """The parent's wrench plus the wrench of a body."""
    return plus(parent, T.wrench_out(*wrench))


@repeated
def added(T: Transformation, parent: Any, body: Any) -> Any:
    """The parent's moments, or another such operator, plus the moments of a body."""
    return parent.plus(body.out(T))


def bracket(V: Pair, S: Pair) -> Pair:
    """ad_V S."""
    w, u = V
    x, y = S
    return cross(w, x), cross(w, y) + cross(u, x)


def plus(a: Pair, b: Pair) -> Pair:
    """The sum of two twists, or of two wrenches."""
    return a[0] + b[0], a[1] + b[1]


def halves(S: Array) -> list[Pair]:
    """The columns of S (6, k), as twists."""
    return [(s[:3], s[3:]) for s in S.T]


def on_joint(S: Array, n: Array, f: Array) -> Array:
    """S^T (n, f), (k,): what a joint feels of a wrench."""
    return S[:3].T @ n + S[3:].T @ f


def powers(twists: list[Pair], wrenches: list[Pair]) -> Array:
    """The power of each twist with each wrench, (number of twists, number of wrenches)."""
    rows = [[w @ n + u @ f for n, f in wrenches] for w, u in twists]
    return np.array(rows).reshape(len(twists), len(wrenches))


def _known(x: Any, value: float) -> bool:
    """Whether x is known to be `value`."""
    return not hasattr(x, "apply") and bool(x == value)


def _axis(R: Array) -> tuple[int, int] | None:
    """(i, k) if R is known to turn about a coordinate axis, taking k to i (with either sign); None if not."""
    for i in range(3):
        for k in range(3):
            if _known(R[i, k], 1) or _known(R[i, k], -1):
                others = [*(R[i, j] for j in range(3) if j != k), *(R[j, k] for j in range(3) if j != i)]
                if all(_known(x, 0) for x in others):
                    return i, k
    return None


def _turn(R: Array, B: Array) -> Array:
    """R B R^T.

    About a coordinate axis, the plane's block [x y; y' z] turns by (a, b) = (cos, -sin) with 11 operations:
    with t = a (y + y') - b (x - z) it becomes [x + b t, a t - y'; a t - y, z - b t].
    """
    # A general R, or one with six zeros, which only permutes axes and needs no arithmetic.
    axis = _axis(R)
    if axis is None or sum(_known(x, 0) for x in R.flat) == 6:
        return (R @ B) @ R.T
    # R maps the axis k to the axis i; (l, m) and (r, s) are the planes normal to these two.
    i, k = axis
    e = R[axis]
    r, s = (j for j in range(3) if j != i)
    l, m = (j for j in range(3) if j != k)
    # the plane's block of R is [a b; -sign b, sign a]
    a = R[r, l]
    b = R[r, m]
    sign = e * (-1) ** (i + k)
    x, y, y_, z = B[l, l], B[l, m], B[m, l], B[m, m]
    t = a * (y + y_) - b * (x - z)
    column = R @ B[:, k]
    row = R @ B[k, :]
    # Beside the plane's block and the entry of the axis, rows and columns that turn like vectors.
    turned = {
        (r, r): x + b * t,
        (s, s): z - b * t,
        (r, s): sign * (a * t - y_),
        (s, r): sign * (a * t - y),
        (i, i): B[k, k],
        (r, i): e * column[r],
        (s, i): e * column[s],
        (i, r): e * row[r],
        (i, s): e * row[s],
    }
    return np.array([[turned[g, h] for h in range(3)] for g in range(3)])


def _turn_symmetric(R: Array, A: Array) -> Array:
    """R A R^T for a symmetric A.

    With 59 operations for a general R: the multiple A_33 of 1 stays what it is, and so does the trace.
    """
    if _axis(R) is not None:
        turned = _turn(R, A)
        return symmetric(3, lambda i, j: turned[i, j])
    # `rest` has a zero at (2, 2). Of its turned matrix five entries are products; the sixth follows from the
    # trace.
    rest = symmetric(3, lambda i, j: A[i, j] - A[2, 2] if i == j else A[i, j])
    rows = R[:2] @ rest
    xx, yy, xy = rows[0] @ R[0], rows[1] @ R[1], rows[0] @ R[1]
    xz, yz = rows[0] @ R[2], rows[1] @ R[2]
    zz = rest[0, 0] + rest[1, 1] - (xx + yy)
    return np.array([[xx + A[2, 2], xy, xz], [xy, yy + A[2, 2], yz], [xz, yz, zz + A[2, 2]]])
