"""Velocities in which a floating robot's equations decouple into external and internal motion.

With the velocities nu_b of the base and q' of the joints, M = [Mbb, Mbq; Mbq^T, Mqq], and the mechanical
connection m = Mbb^-1 Mbq,

    [v_x]   [T_x  T_x m] [nu_b]
    [v_y] = [ 0    T_y ] [q'  ]        (Feurstein 2021, 3.80)

makes M block-diagonal for any invertible T_x, T_y: v_x is the external motion, v_y the internal one. New
velocities change the equations by (3.77), with T and dT/dt; dT/dt is found in closed form or from the graph
of T, never by differences.

    x              T_x                  v_x
    "locked"       1                    the locked velocity nu_b + m q'
    "centroidal"   A_cb                 the same of a frame c at the centre of mass, which does not turn
    "momentum"     A_cb^-T Mbb          the momentum about the centre of mass, which stays if nothing acts
    T              (k, k), or function  whatever it stands for; also a pair of functions T(q), dT/dt(q, v)

    y              T_y                  v_y
    "identity"     1                    the joints' velocities
    "normalized"   U, lower triangular, U^T U = Mqq - m^T Mbq: in v_y the mass matrix is 1
    a Task         J_int, if square     the task's internal velocity
    T              (n, n), or function  as above

Functions of q are made of NumPy operators and liebody.scalars, so that their graph can be differentiated.
c has the axes of the base joint's fixed frame. A base that cannot translate, or not in all directions, has c
as close to the centre of mass as its group can move it: for a ball joint, at the joint, and "momentum" is the
angular momentum about that point.

Feurstein (2021), section 3.3, with misprints mended: C_y has -M_y dT_y/dt T_y^-1 outside the brackets of
(3.81), and the inverse of (3.88) is one on one side only, unless the internal Jacobian is square and regular.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, members, wrong_shape
from ..base.errors import GraphError, ModelError, ShapeError
from ..bodies import Tree
from ..compiler import jvp, trace
from ..scalars import Array, sqrt, where
from ..scalars.linear import back_substitute, factor, is_numeric, outward, square, symmetric
from .coriolis import mass_and_coriolis, mass_matrix_derivative
from .inverse import FREE_FALL, gravity_forces
from .kinematics import REPRESENTATIONS, frame_jacobian, frame_jacobian_rate
from .mass import mass_matrix
from .momentum import base_blocks, center_of_mass_frame, mechanical_connection

Choice = Any  # a name, an array, a function of q, or a pair of functions
BASE_MAPS = ("locked", "centroidal", "momentum")
JOINT_MAPS = ("identity", "normalized")
INVERSES = ("moore-penrose", "dynamically-consistent")
TOLERANCE = 1e-10  # singular values below this share of the largest one count as zero
PIVOT = 1e-13  # likewise for squares of sines, where symbols allow no singular values


class Task(NamedTuple):
    """A task's velocity: rows of the twist of a frame.

    frame           name of a frame or body
    rows            which of (omega, v): (3, 4, 5) is the velocity of the frame's origin
    representation  "body", "world" or "mixed", as in `frame_jacobian`
    """

    frame: str
    rows: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    representation: str = "body"


class Decoupled(NamedTuple):
    """Mx v_x' + Cx v_x + Cxy v_y + gx = F_x,   My v_y' + Cyx v_x + Cy v_y + gy = F_y."""

    Mx: Array
    My: Array
    Cx: Array
    Cxy: Array
    Cyx: Array
    Cy: Array
    gx: Array
    gy: Array


class InternalRank(NamedTuple):
    """How a task's internal velocities and the joints' velocities belong together, at one configuration.

    rank             of the internal Jacobian
    task, joints     how many velocities there are of each
    inverse          the kind of its generalized inverse J#: "two-sided", "right" (J J# = 1: any internal
                     velocity can be had, in many ways), "left" (J# J = 1: the joints' velocities follow from
                     the internal one, which must be a possible one), or "none" (neither)
    singular_values  largest first; their units are mixed where rows or joints turn and shift
    """

    rank: int
    task: int
    joints: int
    inverse: str
    singular_values: Array

    @property
    def redundancy(self) -> int:
        """Dimension of the joints' motions that leave the task's internal velocity zero."""
        return self.joints - self.rank

    @property
    def deficiency(self) -> int:
        """Dimension of the internal velocities that no joint motion gives."""
        return self.task - self.rank

    def __str__(self) -> str:
        kinds = {
            "two-sided": "J# is the inverse",
            "right": "J# is a right inverse, J J# = 1",
            "left": "J# is a left inverse, J# J = 1",
            "none": "J# is no inverse, J J# and J# J project",
        }
        return (
            f"internal Jacobian {self.task} x {self.joints} of rank {self.rank}; {kinds[self.inverse]}; "
            f"redundancy {self.redundancy}, deficiency {self.deficiency}"
        )


# -- new velocities ------------------------------------------------------------------------------------------


def transform_equations(
    T: Array, T_rate: Array, M: Array, C: Array, *efforts: Array, inverse: Array = None
) -> tuple[Array, ...]:
    """The equations M v' + C v = F in velocities w = T v:  M_w, C_w, and each of `efforts` F_w.

    M_w = T^-T M T^-1,   C_w = T^-T C T^-1 - M_w T' T^-1,   F_w = T^-T F       (Feurstein, 3.77)

    T, T_rate  (n, n), regular, and its time derivative
    M, C       (n, n)
    efforts    any number of (n,)
    inverse    T^-1, if it is known

    Where M' = C + C^T, that stays so. Raises ShapeError, and ModelError where T is singular, in floats.
    """
    T = np.asarray(T)
    M = np.asarray(M)
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise wrong_shape("M", M.shape, "a square matrix, (n, n)")
    for name, A in (("T", T), ("T_rate", T_rate), ("C", C)):
        if np.shape(A) != M.shape:
            raise wrong_shape(name, np.shape(A), f"that of M, {M.shape}")
    for F in efforts:
        if np.shape(F) != M.shape[:1]:
            raise wrong_shape("an effort", np.shape(F), f"({len(M)},)")
    # v = X w and v' = X w' + X_rate w with X_rate = -X T_rate X, hence the second term of C_w.
    X = _inverse(T, "T") if inverse is None else np.asarray(inverse)
    M_w = X.T @ M @ X
    return M_w, X.T @ C @ X - M_w @ T_rate @ X, *(X.T @ F for F in efforts)


def decoupling_transform(tree: Tree, q: Array, x: Choice = "locked", y: Choice = "identity") -> Array:
    """T (nv, nv) of (3.80): (v_x, v_y) = T v, with T^-T M T^-1 block-diagonal.

    q  configuration, (nq,)
    x  T_x of the base: "locked", "centroidal", "momentum", a matrix (k, k), a function of q, or a pair of
       functions T_x(q), dT_x/dt(q, v)
    y  T_y of the joints: "identity", "normalized", a `Task`, a matrix (n, n), or functions likewise

    See docs/floating-bases.md. A function is compiled once for each function object: keep and reuse it.

    Raises ModelError for a tree without a floating base, for a singular locked inertia, and for unknown or
    singular choices; ShapeError for choices of the wrong shape. In traces, where nothing is known of
    values, the inverse of a singular choice is NaN.
    """
    return _decoupled(_Base(tree, q), x, y).matrix()


def decoupling_transform_inverse(tree: Tree, q: Array, x: Choice = "locked", y: Choice = "identity") -> Array:
    """T^-1 = [T_x^-1, -m T_y^-1; 0, T_y^-1] (nv, nv); arguments as in `decoupling_transform`."""
    return _decoupled(_Base(tree, q), x, y).inverse()


def decoupling_transform_rate(
    tree: Tree, q: Array, v: Array, x: Choice = "locked", y: Choice = "identity"
) -> Array:
    """dT/dt (nv, nv) while q moves with v (nv,); other arguments as in `decoupling_transform`.

    From dM/dt and the groups' brackets in closed form; for functions of q, from their graph.
    """
    return _decoupled(_Base(tree, q, v), x, y).rate()


def decoupled_velocity(tree: Tree, q: Array, v: Array, x: Choice = "locked", y: Choice = "identity") -> Array:
    """(v_x, v_y) = T v, (nv,): external and internal velocity; arguments as in `decoupling_transform`."""
    return _decoupled(_Base(tree, q), x, y).velocity(v)


def velocity_from_decoupled(
    tree: Tree, q: Array, w: Array, x: Choice = "locked", y: Choice = "identity"
) -> Array:
    """v = T^-1 w (nv,), with w = (v_x, v_y); other arguments as in `decoupling_transform`."""
    return _decoupled(_Base(tree, q), x, y).velocity_back(w)


def decoupled_efforts(
    tree: Tree, q: Array, tau: Array, x: Choice = "locked", y: Choice = "identity"
) -> Array:
    """(F_x, F_y) = T^-T tau (nv,): F_x works on the external motion alone, F_y on the internal one.

    F_x = T_x^-T F_b does not contain the joints' efforts: they cannot change the external motion. Arguments
    as in `decoupling_transform`.
    """
    return _decoupled(_Base(tree, q), x, y).efforts(tau)


def efforts_from_decoupled(
    tree: Tree, q: Array, F: Array, x: Choice = "locked", y: Choice = "identity"
) -> Array:
    """tau = T^T F (nv,), with F = (F_x, F_y); other arguments as in `decoupling_transform`."""
    return _decoupled(_Base(tree, q), x, y).efforts_back(F)


def transformed_dynamics(
    tree: Tree,
    q: Array,
    v: Array,
    x: Choice = "locked",
    y: Choice = "identity",
    form: str = "christoffel",
    gravity: Array = FREE_FALL,
) -> tuple[Array, Array, Array]:
    """M, C (nv, nv) and g (nv,) of the equations in the velocities w = T v.

    M_w = T^-T M T^-1, C_w = T^-T C T^-1 - M_w (dT/dt) T^-1, g_w = T^-T g (Feurstein, 3.77).

    q, v     configuration (nq,) and velocity (nv,)
    x, y     which T_x and T_y, as in `decoupling_transform`
    form     of C, as in `coriolis_matrix`
    gravity  acceleration of free fall in the world, (3,)                                  [m/s2]

    `decoupled_dynamics` gives the same by blocks, with fewer operations.
    """
    M, M_rate, C = mass_and_coriolis(tree, q, v, form)
    new = _decoupled(_Base(tree, q, v, M, M_rate), x, y)
    g = gravity_forces(tree, q, gravity)
    M_w, C_w, g_w = transform_equations(new.matrix(), new.rate(), M, C, g, inverse=new.inverse())
    return M_w, C_w, g_w


def decoupled_dynamics(
    tree: Tree,
    q: Array,
    v: Array,
    x: Choice = "locked",
    y: Choice = "identity",
    form: str = "hamel",
    gravity: Array = FREE_FALL,
) -> Decoupled:
    """The equations of external and internal motion, by blocks of the base and of the joints.

    Feurstein (3.81):

        Mx = T_x^-T Mbb T_x^-1,                    My = T_y^-T (Mqq - Mbq^T m) T_y^-1
        Cx  = T_x^-T (C_b - Mbb T_x^-1 T_x') T_x^-1
        Cxy = T_x^-T (C_bq - C_b m - Mbb m') T_y^-1
        Cyx = T_y^-T (C_qb - m^T C_b) T_x^-1
        Cy  = T_y^-T (C_q - C_qb m - m^T C_bq + m^T C_b m) T_y^-1 - My T_y' T_y^-1
        gx  = T_x^-T g_b,                          gy = T_y^-T (g_q - m^T g_b)

    Arguments as in `transformed_dynamics`. With the form "hamel", Cxy = 0 for any T_x and T_y. The skew forms
    have Cyx = -Cxy^T, and Mx' = Cx + Cx^T, My' = Cy + Cy^T: passive in each part (3.84). With x = "momentum",
    Cx v_x + Cxy v_y = 0 (3.85) in every form, so that Mx v_x' = F_x - gx: only what acts from outside changes
    the momentum. This is not so for "centroidal".
    """
    # X = T_x^-1 and Y = T_y^-1.
    M, M_rate, C = mass_and_coriolis(tree, q, v, form)
    base = _Base(tree, q, v, M, M_rate)
    _, X, T_x_rate = _base_map(base, x)
    _, Y, T_y_rate = _joint_map(base, y)
    m = base.m
    C_b, C_bq, C_qb, C_q = base_blocks(tree, C)
    g_b, g_q = base.split(gravity_forces(tree, q, gravity))
    My = _congruent(base.internal, Y)
    C_yx = C_qb - m.T @ C_b
    return Decoupled(
        Mx=_congruent(base.Mbb, X),
        My=My,
        Cx=X.T @ (C_b - base.Mbb @ X @ T_x_rate) @ X,
        Cxy=X.T @ (C_bq - C_b @ m - base.Mbb @ base.m_rate) @ Y,
        Cyx=Y.T @ C_yx @ X,
        Cy=Y.T @ (C_q - C_yx @ m - m.T @ C_bq) @ Y - My @ T_y_rate @ Y,
        gx=X.T @ g_b,
        gy=Y.T @ (g_q - m.T @ g_b),
    )


# -- the motion of a link or task ----------------------------------------------------------------------------


def internal_inertia(tree: Tree, q: Array) -> Array:
    """Mqq - Mbq^T Mbb^-1 Mbq (n, n): the inertia that the joints' motion has while the base gives way.

    q  configuration, (nq,)

    The kinetic energy is the external motion's plus q'^T (this) q' / 2. In (3.81) it is M_y of T_y = 1.
    """
    return _Base(tree, q).internal


def internal_jacobian(tree: Tree, q: Array, task: Any) -> Array:
    """J_int = J_q - J_b Mbb^-1 Mbq (r, n): the task's velocity by the joints, while the base gives way.

    The task moves with  J_b nu_b + J_q q' = J_ext v_x + J_int q',  J_ext from `external_jacobian`. This is
    the generalized Jacobian of Umetani and Yoshida (1989); Feurstein (3.96).

    q     configuration, (nq,)
    task  name of a frame or body (its body twist, r = 6), a `Task`, or a function q -> (r, nv)
    """
    return _internal(_Base(tree, q), task)[0]


def internal_jacobian_rate(tree: Tree, q: Array, v: Array, task: Any) -> Array:
    """dJ_int/dt (r, n) while q moves with v (nv,); other arguments as in `internal_jacobian`."""
    return _internal(_Base(tree, q, v), task)[1]


def external_jacobian(tree: Tree, q: Array, task: Any, x: Choice = "centroidal") -> Array:
    """J_ext = J_b T_x^-1 (r, k): the task's velocity by the external one, v_x.

    `task` as in `internal_jacobian`, `x` as in `decoupling_transform`.
    """
    base = _Base(tree, q)
    return _task_jacobian(base, task)[0][:, : len(base.m)] @ _base_map(base, x).inverse


def external_internal_velocity(tree: Tree, q: Array, v: Array, task: Any, x: Choice = "centroidal") -> Array:
    """(external, internal) velocity (k + r,):  T_x (nu_b + m q')  and  J_int q'  (Feurstein, 3.96).

    The matrix of this map is I = [T_x, T_x m; 0, J_int]. Arguments as in `external_jacobian`; v (nv,).
    """
    return _external_internal(_Base(tree, q), task, x).velocity(v)


def velocity_from_external_internal(
    tree: Tree, q: Array, w: Array, task: Any, x: Choice = "centroidal", inverse: str = INVERSES[0]
) -> Array:
    """v = I# w (nv,), I# = [T_x^-1, -m J#; 0, J#], of w = (external, internal) (k + r,).

    inverse  which J#, as in `internal_inverse`. `internal_rank` says what it is at q: a right inverse, and v
             has the velocities w; a left inverse, and v is the velocity that gave w; or neither, and the
             velocities of v are as near to w as they can be
    """
    return _external_internal(_Base(tree, q), task, x, inverse).velocity_back(w)


def external_internal_efforts(
    tree: Tree, q: Array, tau: Array, task: Any, x: Choice = "centroidal", inverse: str = INVERSES[0]
) -> Array:
    """I#^T tau = (external, internal) force (k + r,), dual to the velocities.

    These are T_x^-T F_b and J#^T (tau_q - m^T F_b). Arguments as in `velocity_from_external_internal`; tau
    (nv,) are efforts.
    """
    return _external_internal(_Base(tree, q), task, x, inverse).efforts(tau)


def efforts_from_external_internal(
    tree: Tree, q: Array, F: Array, task: Any, x: Choice = "centroidal"
) -> Array:
    """tau = I^T F (nv,) of F = (external, internal) (k + r,).

    A wrench f at the task, J^T f, belongs to F = (J_ext^T f, f). F = (0, f) gives efforts of the joints
    alone, J_int^T f, and none of the base.
    """
    return _external_internal(_Base(tree, q), task, x).efforts_back(F)


def internal_inverse(tree: Tree, q: Array, task: Any, inverse: str = INVERSES[0]) -> Array:
    """A generalized inverse J# (n, r) of the internal Jacobian.

    inverse  "moore-penrose"           least |J q' - w|, then least |q'|: sums of squares of whatever units
             "dynamically-consistent"  least |J q' - w|, then least energy of internal motion q'^T L q', with
                                       L = Mqq - Mbq^T m; units of joints do not matter. Accelerations by the
                                       efforts (1 - J^T J#^T) tau do not move the task. Khatib (1987)

    For a full column rank both are the same. Arguments else as in `internal_jacobian`, results as in
    `generalized_inverse`. Raises ModelError for an unknown name.
    """
    base = _Base(tree, q)
    return _inverted(base, _internal(base, task)[0], inverse)


def internal_nullspace(tree: Tree, q: Array, task: Any, inverse: str = INVERSES[0]) -> Array:
    """N = 1 - J# J (n, n): of any joints' velocities, the part that does not move the task internally."""
    base = _Base(tree, q)
    J, _ = _internal(base, task)
    return np.eye(J.shape[1], dtype=int) - _inverted(base, J, inverse) @ J


def internal_rank(tree: Tree, q: Array, task: Any, tolerance: float = TOLERANCE) -> InternalRank:
    """Which inverse the internal Jacobian has at q (floats), and its singular values.

    tolerance  singular values below this share of the largest one count as zero
    """
    return rank_of(internal_jacobian(tree, q, task), tolerance)


def rank_of(J: Array, tolerance: float = TOLERANCE) -> InternalRank:
    """The same of a given matrix (r, n)."""
    J = floats("J", J)
    if J.ndim != 2:
        raise wrong_shape("J", J.shape, "(r, n)")
    values = np.linalg.svd(J, compute_uv=False)
    rank = int(np.sum(values > tolerance * values.max(initial=0.0)))
    r, n = J.shape
    kinds = {(True, True): "two-sided", (True, False): "right", (False, True): "left"}
    return InternalRank(rank, r, n, kinds.get((rank == r, rank == n), "none"), values)


def generalized_inverse(J: Array, weight: Array = None, tolerance: float = TOLERANCE) -> Array:
    """J# (..., n, r) of J (..., r, n):  q' = J# w has the least |J q' - w|, and of those the least q'^T W q'.

    weight     W (..., n, n), symmetric positive definite; 1 if None: the inverse of Moore and Penrose
    tolerance  singular values below this share of the largest one count as zero

    On floats, of any rank, by singular values. On symbols, where no rank can be decided, J must have the full
    rank its shape allows: where it has not (to about six digits), the result is NaN. With full rank it is

        W^-1 J^T (J W^-1 J^T)^-1   for r <= n,       (J^T J)^-1 J^T   for r >= n.
    """
    if is_numeric(J) and (weight is None or is_numeric(weight)):
        J = np.asarray(J, float)
        if weight is None:
            return np.linalg.pinv(J, rcond=tolerance)
        # in coordinates in which W is the unit matrix, the inverse is the pseudoinverse
        R = np.linalg.inv(np.linalg.cholesky(np.asarray(weight, float)))  # R^T R = W^-1
        Rt = np.swapaxes(R, -1, -2)
        return Rt @ np.linalg.pinv(J @ Rt, rcond=tolerance)
    # Symbols: full rank is assumed. The normal equations square the condition number; a step of Newton's
    # method, X + (1 - X J) X, restores the digits.
    J = np.asarray(J)
    r, n = J.shape
    if r > n:
        X = _regular_solve(J.T @ J, J.T)
        return X + (np.eye(n, dtype=int) - X @ J) @ X
    right = J.T if weight is None else back_substitute(factor(weight), J.T)
    X = _regular_solve(J @ right, right.T).T
    return X + X @ (np.eye(r, dtype=int) - J @ X)


# -- the base and its blocks ---------------------------------------------------------------------------------


class _Base:
    """Blocks of M at a configuration, m = Mbb^-1 Mbq, and the inertia of internal motion Mqq - Mbq^T m.

    Where q moves with v, their rates as well. M and its rate are computed where they are not given.
    """

    def __init__(self, tree: Tree, q: Array, v: Array = None, M: Array = None, M_rate: Array = None) -> None:
        self.tree = tree
        self.q = q
        self.v = v
        self.Mbb, Mbq, _, Mqq = base_blocks(tree, mass_matrix(tree, q) if M is None else M)
        self.m = m = mechanical_connection(tree, q)
        self.factors = factor(self.Mbb)
        self.internal = symmetric(len(Mqq), lambda i, j: Mqq[i, j] - Mbq[:, i] @ m[:, j])
        self.moves = v is not None
        if v is None:
            return
        rates = base_blocks(tree, mass_matrix_derivative(tree, q, v) if M_rate is None else M_rate)
        self.Mbb_rate, Mbq_rate, _, Mqq_rate = rates
        # From Mbb m = Mbq: Mbb m' = Mbq' - Mbb' m, with the factors of Mbb from above.
        moved = Mbq_rate - self.Mbb_rate @ m
        self.m_rate = back_substitute(self.factors, moved)
        self.internal_rate = symmetric(
            len(Mqq), lambda i, j: Mqq_rate[i, j] - Mbq_rate[:, i] @ m[:, j] - m[:, i] @ moved[:, j]
        )

    def split(self, x: Array) -> tuple[Array, Array]:
        """Entries (k + ...,) of the base, and the others."""
        k = len(self.Mbb)
        return x[:k], x[k:]

    def centroidal(self) -> tuple[Array, Array, Array]:
        """A_cb, A_cb^-1 and ad(nu_cb), each (k, k).

        dA_cb/dt = A_cb ad(nu_cb),   nu_cb = nu_b - A_cb^-1 nu_c.
        """
        # Without v only A_cb and its inverse are asked for; structural zeros keep ad(nu_cb) free of cost.
        v = self.v if self.moves else np.zeros(self.tree.nv, int)
        body = self.tree.bodies[0]
        group = body.joint.group
        frame = center_of_mass_frame(self.tree, self.q, v)
        H = group.compose(group.inverse(frame.g), group.element(body.joint_coordinates(self.q)))
        A_inverse = group.Ad(group.inverse(H))
        return group.Ad(H), A_inverse, group.ad(v[body.dofs] - A_inverse @ frame.u)


class _Map(NamedTuple):
    """New velocities of the base or of the joints: T, its inverse, and where q moves dT/dt."""

    T: Array
    inverse: Array
    rate: Array = None


def _base_map(base: _Base, x: Choice) -> _Map:
    """T_x."""
    k = len(base.Mbb)
    if not isinstance(x, str):
        return _chosen(x, base, k, "T_x", "the base's velocities")
    _known(x, BASE_MAPS, "T_x")
    if x == "locked":
        return _Map(np.eye(k, dtype=int), np.eye(k, dtype=int), np.zeros((k, k), int))
    # "momentum": T_x = A^-T Mbb, so T_x^-1 = Mbb^-1 A^T, and dT_x/dt = A^-T (Mbb' - a^T Mbb), as A' = A a.
    A, A_inverse, a = base.centroidal()
    if x == "centroidal":
        return _Map(A, A_inverse, A @ a)
    rate = A_inverse.T @ (base.Mbb_rate - a.T @ base.Mbb) if base.moves else None
    return _Map(A_inverse.T @ base.Mbb, back_substitute(base.factors, A.T), rate)


def _joint_map(base: _Base, y: Choice) -> _Map:
    """T_y."""
    n = len(base.internal)
    if isinstance(y, Task):
        J, rate = _internal(base, y)
        if J.shape[0] != n:
            raise ShapeError(
                f"the internal Jacobian of {y} is {J.shape[0]} x {n}, and T_y must be square: choose {n} "
                "rows, or use `external_internal_velocity` and its inverses, which take any shape"
            )
        return _Map(J, _inverse(J, "T_y"), rate)
    if not isinstance(y, str):
        return _chosen(y, base, n, "T_y", "the joints' velocities")
    _known(y, JOINT_MAPS, "T_y", " or a Task, an array, a function")
    if y == "identity":
        return _Map(np.eye(n, dtype=int), np.eye(n, dtype=int), np.zeros((n, n), int))
    U, X = _triangular(base.internal)
    if not base.moves:
        return _Map(U, X)
    # L = U^T U has the rate L' = U'^T U + U^T U', so X^T L' X = W^T + W with W = U' U^-1, lower triangular:
    # W is the lower half of it, with half of the diagonal.
    turned = _congruent(base.internal_rate, X)
    return _Map(U, X, (np.tril(turned, -1) + np.diag(0.5 * np.diagonal(turned))) @ U)


class _Velocities(NamedTuple):
    """(v_x, v_y) = [T_x, T_x m; 0, T_y] (nu_b, q'), and the efforts that are dual to them."""

    base: _Base
    x: _Map
    y: _Map

    def velocity(self, v: Array) -> Array:
        nu, rates = self.base.split(v)
        return np.concatenate([self.x.T @ (nu + self.base.m @ rates), self.y.T @ rates])

    def velocity_back(self, w: Array) -> Array:
        external, internal = self.base.split(w)
        rates = self.y.inverse @ internal
        return np.concatenate([self.x.inverse @ external - self.base.m @ rates, rates])

    def efforts(self, tau: Array) -> Array:
        wrench, joints = self.base.split(tau)
        internal = self.y.inverse.T @ (joints - self.base.m.T @ wrench)
        return np.concatenate([self.x.inverse.T @ wrench, internal])

    def efforts_back(self, F: Array) -> Array:
        external, internal = self.base.split(F)
        wrench = self.x.T.T @ external
        return np.concatenate([wrench, self.base.m.T @ wrench + self.y.T.T @ internal])

    def matrix(self) -> Array:
        return self._upper(self.x.T, self.x.T @ self.base.m, self.y.T)

    def inverse(self) -> Array:
        return self._upper(self.x.inverse, -self.base.m @ self.y.inverse, self.y.inverse)

    def rate(self) -> Array:
        moved = self.x.rate @ self.base.m + self.x.T @ self.base.m_rate
        return self._upper(self.x.rate, moved, self.y.rate)

    def _upper(self, x: Array, xy: Array, y: Array) -> Array:
        return np.block([[x, xy], [np.zeros(xy.T.shape, int), y]])


def _decoupled(base: _Base, x: Choice, y: Choice) -> _Velocities:
    return _Velocities(base, _base_map(base, x), _joint_map(base, y))


def _external_internal(base: _Base, task: Any, x: Choice, inverse: str | None = None) -> _Velocities:
    """With J_int in the place of T_y, and for its inverse a generalized one, if it is named."""
    J, _ = _internal(base, task)
    return _Velocities(base, _base_map(base, x), _Map(J, inverse and _inverted(base, J, inverse)))


# -- tasks ---------------------------------------------------------------------------------------------------


def _task_jacobian(base: _Base, task: Any) -> tuple[Array, Array]:
    """J (r, nv), and where q moves dJ/dt."""
    tree = base.tree
    q = base.q
    v = base.v
    if callable(task):
        J = np.asarray(task(q))
        if J.ndim != 2 or J.shape[1] != tree.nv:
            raise wrong_shape("the task's Jacobian", J.shape, f"(r, {tree.nv})")
        return J, _rate_of_graph(tree, task, q, v, "the task's Jacobian") if base.moves else None
    # A function has its rate from its graph; frames have theirs in closed form.
    frame, rows, representation = _task(task)
    J = frame_jacobian(tree, q, frame, representation)[[*rows]]
    return J, frame_jacobian_rate(tree, q, v, frame, representation)[[*rows]] if base.moves else None


def _task(task: Any) -> Task:
    task = Task(task) if isinstance(task, str) else task
    if not isinstance(task, Task):
        raise ModelError(f"the task is {task!r}, expected a frame's name, a Task, or a function q -> (r, nv)")
    rows = tuple(members("rows of the task", task.rows, "numbers from 0 to 5"))
    if not rows or len(set(rows)) < len(rows) or not set(rows) <= set(range(6)):
        raise ModelError(f"rows {rows} of the task must be different numbers from 0 to 5, at least one")
    if task.representation not in REPRESENTATIONS:
        raise ModelError(
            f"representation {task.representation!r} is unknown; use one of {', '.join(REPRESENTATIONS)}"
        )
    return task


def _internal(base: _Base, task: Any) -> tuple[Array, Array]:
    """J_q - J_b m, and where q moves J_q' - J_b' m - J_b m'."""
    k = len(base.m)
    J, rate = _task_jacobian(base, task)
    internal = J[:, k:] - J[:, :k] @ base.m
    if not base.moves:
        return internal, None
    return internal, rate[:, k:] - rate[:, :k] @ base.m - J[:, :k] @ base.m_rate


def _inverted(base: _Base, J: Array, inverse: str) -> Array:
    """The generalized inverse of this name of an internal Jacobian."""
    _known(inverse, INVERSES, "an inverse")
    return generalized_inverse(J, None if inverse == "moore-penrose" else base.internal)


# -- choices of users ----------------------------------------------------------------------------------------


def _chosen(choice: Any, base: _Base, size: int, name: str, what: str) -> _Map:
    """The matrix that a user chose, at q."""
    is_pair = isinstance(choice, tuple) and len(choice) == 2 and all(map(callable, choice))
    function = choice[0] if is_pair else choice

    def square(given: Any, name: str) -> Array:
        matrix = np.asarray(given)
        if matrix.shape != (size, size):
            raise wrong_shape(name, matrix.shape, f"({size}, {size}): it maps {what}")
        return matrix

    T = square(function(base.q) if callable(function) else choice, name)
    rate = None
    if base.moves and is_pair:
        rate = square(choice[1](base.q, base.v), f"the rate of {name}")
    elif base.moves and callable(choice):
        rate = _rate_of_graph(base.tree, choice, base.q, base.v, name)
    elif base.moves:
        rate = np.zeros((size, size), int)
    return _Map(T, _inverse(T, name), rate)


def _rate_of_graph(tree: Tree, function: Callable[[Array], Array], q: Array, v: Array, name: str) -> Array:
    """d/dt function(q) while q moves with v, from the graph of the function."""
    try:
        graph = trace(function, {"q": tree.nq}, "T")
    except (GraphError, TypeError, AttributeError) as error:
        raise GraphError(
            f"{name} cannot be differentiated, its function does not run on symbols: {error}. Use NumPy "
            "operators and liebody.scalars, or give a pair of functions T(q), dT/dt(q, v)"
        ) from None
    # Along the curve q exp(s v) at s = 0: quaternions in q change along the group, not by addition.
    moved = trace(lambda q, v, s: tree.group.integrate(q, s * v), {"q": tree.nq, "v": tree.nv, "s": ()}, "q")
    return jvp(graph, "q")(q, jvp(moved, "s")(q, v, 0.0, 1.0))


def _known(name: str, names: tuple[str, ...], what: str, other: str = "") -> None:
    if name not in names:
        raise ModelError(f"{name!r} is not the name of {what}; use one of {', '.join(names)}{other}")


# -- linear algebra ------------------------------------------------------------------------------------------


def _inverse(T: Array, name: str) -> Array:
    """T^-1; of floats, T is checked to be regular."""
    if not is_numeric(T):
        return generalized_inverse(T)
    T = np.asarray(T, float)
    rank = rank_of(T).rank
    if rank < len(T):
        raise ModelError(
            f"{name} is singular (rank {rank} of {len(T)}): velocities cannot be had back from what it maps "
            "them to; choose another one"
        )
    return np.linalg.inv(T)


def _triangular(A: Array) -> tuple[Array, Array]:
    """U and U^-1, lower triangular, with A = U^T U."""
    # A = (1 + L)^T D (1 + L) with reciprocals 1/D, so U = sqrt(D) (1 + L).
    L, reciprocals = factor(A)
    roots = [sqrt(1 / x) for x in reciprocals]
    one = np.eye(len(A), dtype=int)
    U = np.array(roots).reshape(-1, 1) * (one + square(L))
    return U, outward((L, [1 / x for x in roots]), one)


def _congruent(A: Array, X: Array) -> Array:
    """X^T A X, symmetric as A is."""
    AX = A @ X
    return symmetric(len(A), lambda i, j: X[:, i] @ AX[:, j])


def _regular_solve(A: Array, b: Array) -> Array:
    """A^-1 b with A symmetric and positive definite; NaN where it is not."""
    # A_ii/D_i is one over the part of row i that the rows eliminated before it leave, a squared sine. Where
    # it is negative or too large, A is singular to round-off; code without branches marks that by NaN.
    L, reciprocals = factor(A)
    shares = [x * A[i, i] for i, x in enumerate(reciprocals)]
    guarded = [where((s > 0) & (s < 1 / PIVOT), x, np.nan) for s, x in zip(shares, reciprocals, strict=True)]
    return back_substitute((L, guarded), b)
