"""Coriolis matrices of trees, the derivative of the mass matrix, and what controllers build from them.

The points of the bodies move with the velocities J_r v, r their positions in the world. Then

    M = int J_r^T J_r dm,    C(q, v) = int J_r^T (dJ_r/dt) dm                         (form "christoffel")

and with the integrals of position and velocity r' over the mass of a body and all that it carries,

    m,  h = int r dm,  Sigma = int r r^T dm,  l = int r' dm,  K = int r' r^T dm,

everything is a sum over pairs of a joint and one of its ancestors. With I = tr(Sigma) 1 - Sigma, and the
body's twist V = (omega, v),

    J = [[I, [h]], [-[h], m 1]],    B = [[tr(K) 1 - K, 0], [-[l], 0]],
    C_ij = S_i^T (J ad_V_j S_j + B S_j),   C_ji = (J ad_V_i S_i + B S_i)^T S_j        (i an ancestor of j)

where J and B belong to all that joint j carries, and all is moved into one frame. B + B^T is the rate of
J, and B = C_b - J ad_V with the body's Coriolis matrix C_b = (-ad_V^T J + J ad_V + ad~_JV) / 2; other
matrices C_b give the other forms (`CoriolisForm`). The recursion over pairs is from Echeandia and Wensing
(2021), "Numerical methods to compute the Coriolis matrix and Christoffel symbols for rigid-body systems",
with twelve numbers instead of a 6 x 6 matrix B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import ModelError
from ..bodies import Body, Moments, Tree
from ..compiler import repeated
from ..groups import SE3
from ..scalars import Array
from ..scalars.linear import cross, skew, symmetric
from .inverse import FREE_FALL, joint_efforts, rate_of_turning, vector_of_skew_part
from .joint_space import JointMatrix, JointVector, armature
from .recursions import composites, gather, operators, transformations, twists_of
from .spatial import REST, Pair, Transformation, added_wrench, bracket, halves, on_joint, plus, powers


class Flux(NamedTuple):
    """l = int r' dm and K = int r' r^T dm, and by them the operator B = [[tr(K) 1 - K, 0], [-[l], 0]]."""

    l: Array
    K: Array

    def times(self, w: Array, v: Array) -> Pair:
        """B (w, v)."""
        return self._trace() * w - self.K @ w, cross(w, self.l)

    def transpose_times(self, w: Array, v: Array) -> Pair:
        """B^T (w, v); its force is zero wherever it is carried."""
        return self._trace() * w - self.K.T @ w + cross(self.l, v), REST

    def out(self, T: Transformation) -> Flux:
        """The same, about the parent's frame: positions become R r + p, velocities R r'."""
        l = T.out(self.l)
        return Flux(l, T.turn_out(self.K) + np.outer(l, T.p))

    def plus(self, other: Flux) -> Flux:
        return Flux(self.l + other.l, self.K + other.K)

    def _trace(self) -> Any:
        return self.K[0, 0] + self.K[1, 1] + self.K[2, 2]


class BlockOperator(NamedTuple):
    """Any operator [[P, Q], [R, Z]] from twists to wrenches, by its 3 x 3 blocks."""

    P: Array
    Q: Array
    R: Array
    Z: Array

    def times(self, w: Array, v: Array) -> Pair:
        return self.P @ w + self.Q @ v, self.R @ w + self.Z @ v

    def transpose_times(self, w: Array, v: Array) -> Pair:
        return self.P.T @ w + self.R.T @ v, self.Q.T @ w + self.Z.T @ v

    def out(self, T: Transformation) -> BlockOperator:
        """Ad(T^-1)^T [[P, Q], [R, Z]] Ad(T^-1)."""
        # First the rotation of the blocks. The shift by p is [1 [p]; 0 1] [P Q; R Z] [1 0; -[p] 1].
        P, Q, R, Z = (T.turn_out(block) for block in self)
        p = skew(T.p)
        P, Q = P + p @ R, Q + p @ Z
        return BlockOperator(P - Q @ p, Q, R - Z @ p, Z)

    def plus(self, other: BlockOperator) -> BlockOperator:
        return BlockOperator(*(a + b for a, b in zip(self, other, strict=True)))


Operator = Any  # Moments, a Flux or BlockOperator


def flux_of(moments: Moments, w: Array, u: Array) -> Flux:
    """B = C_b - J ad_V of the form "christoffel": r' = u + w x r."""
    m, h, Sigma = moments
    return Flux(m * u + cross(w, h), skew(w) @ Sigma + np.outer(u, h))


def _ploen_flux(moments: Moments, w: Array, u: Array) -> Flux:
    """With C_b of Ploen's Proposition 1: the C_b above plus [[[w] tr(I) / 2, 0], [0, 0]]."""
    m, h, _ = moments
    return Flux(m * u + cross(w, h), np.outer(u, h) - skew(w) @ moments.I)


def _coadjoint_flux(moments: Moments, w: Array, u: Array) -> BlockOperator:
    """With C_b = ad~ of the momentum J V (From 2012, eq. 75): [[-[p_w], -[p_v]], [-[p_v], 0]]."""
    m, h, _ = moments
    I = moments.I
    W = skew(w)
    U = skew(u)
    H = skew(h)
    pw, pv = moments.times(w, u)
    return BlockOperator(
        -skew(pw) - I @ W - H @ U,
        -skew(pv) - H @ W,
        H @ W - m * U - skew(pv),
        -m * W,
    )


def _feurstein_flux(moments: Moments, w: Array, u: Array) -> BlockOperator:
    """With C_b = J ad_V - ad_V^T J (Feurstein 2021, eq. 3.41), so that B = -ad_V^T J."""
    m, h, _ = moments
    I = moments.I
    W = skew(w)
    U = skew(u)
    H = skew(h)
    return BlockOperator(W @ I - U @ H, W @ H + m * U, -(W @ H), m * W)


def rate_of_inertia(moments: Moments, w: Array, u: Array) -> Moments:
    """With C_b = -ad_V^T J: all of dJ/dt = [[dI/dt, [l]], [-[l], 0]], the rate of J seen from the world."""
    l, K = flux_of(moments, w, u)
    return Moments(0, l, symmetric(3, lambda i, j: K[i, j] + K[j, i]))


# -- the forms -------------------------------------------------------------------------------------------


BodyMatrix = Callable[[Array, Array], Array]
"""(J, V) -> C_b (6, 6), from the spatial inertia J (6, 6) and the twist V (6,) of a body."""


@dataclass(frozen=True)
class CoriolisForm:
    """One of the matrices C with the same product C v, as data: each algorithm asks for what it needs.

    body_matrix        (J, V) -> C_b, the bodies' Coriolis matrix with C_b V = -ad_V^T J V
    operator           (moments, omega, v) -> B = C_b - J ad_V of a body, in closed form; None: by this
                       definition
    skew_bodies        whether C_b is skew-symmetric: dM/dt = C + C^T for the C that the bodies' matrices make
    by_kinetic_energy  whether all inertias with the same kinetic energy of the tree have the same C, so that
                       the tree's base moments serve
    moving_origin      whether C is the same if the root's origin moves on: C takes fewer operations then
    boltzmann_hamel    whether C belongs to the Boltzmann-Hamel equations, dM/dt - ad_v^T M - (v^T X_i M) / 2,
                       which is found from the C of the form "christoffel", whose other fields it has
    """

    body_matrix: BodyMatrix
    operator: Callable[[Moments, Array, Array], Operator] | None = None
    skew_bodies: bool = False
    by_kinetic_energy: bool = False
    moving_origin: bool = False
    boltzmann_hamel: bool = False

    def __post_init__(self) -> None:
        # Once for each form: repeats of a trace are told apart by the functions that they get.
        if self.operator is None:
            object.__setattr__(self, "operator", _by_definition(self.body_matrix))

    @property
    def of_bodies(self) -> bool:
        """Whether C is made of the bodies' matrices, C = sum of J_i^T (I_i dJ_i/dt + C_b,i J_i)."""
        return not self.boltzmann_hamel

    @property
    def skew(self) -> bool:
        """Whether dM/dt - 2 C is skew-symmetric."""
        return self.skew_bodies and self.of_bodies

    @property
    def operator_is_rate(self) -> bool:
        """Whether B is dJ/dt, so that the recursion over pairs gives dM/dt as well."""
        return self.operator is rate_of_inertia

    @property
    def operator_is_flux(self) -> bool:
        """Whether C = int J_r^T (dJ_r/dt) dm, so that accelerations of points give C v_r."""
        return self.operator is flux_of and self.of_bodies


def _by_definition(body_matrix: BodyMatrix) -> Callable[[Moments, Array, Array], BlockOperator]:
    """(moments, omega, v) -> B = C_b - J ad_V."""

    def operator(moments: Moments, w: Array, u: Array) -> BlockOperator:
        J = moments.matrix()
        V = np.concatenate([w, u])
        B = body_matrix(J, V) - J @ SE3.ad(V)
        return BlockOperator(B[:3, :3], B[:3, 3:], B[3:, :3], B[3:, 3:])

    return operator


def _newton_euler_body(J: Array, V: Array) -> Array:
    return -SE3.ad(V).T @ J


def _coadjoint_body(J: Array, V: Array) -> Array:
    return SE3.coad(J @ V)


def _feurstein_body(J: Array, V: Array) -> Array:
    ad = SE3.ad(V)
    return J @ ad - ad.T @ J


def _christoffel_body(J: Array, V: Array) -> Array:
    return 0.5 * (_feurstein_body(J, V) + _coadjoint_body(J, V))


def _ploen_body(J: Array, V: Array) -> Array:
    W = skew(V[:3])
    I = J[:3, :3]
    mr = J[:3, 3:]
    m = J[5, 5]
    return np.block([[W @ I + I @ W, mr @ W], [-W @ mr, m * W]])


# Kernels are found by the names of forms: what a name stands for does not change.
FORMS: Mapping[str, CoriolisForm] = MappingProxyType(
    {
        "christoffel": CoriolisForm(
            _christoffel_body, flux_of, skew_bodies=True, by_kinetic_energy=True, moving_origin=True
        ),
        "ploen": CoriolisForm(_ploen_body, _ploen_flux, skew_bodies=True),
        "coadjoint": CoriolisForm(_coadjoint_body, _coadjoint_flux, skew_bodies=True),
        "feurstein": CoriolisForm(_feurstein_body, _feurstein_flux, skew_bodies=True),
        "newton-euler": CoriolisForm(_newton_euler_body, rate_of_inertia),
        "hamel": CoriolisForm(
            _christoffel_body, flux_of, skew_bodies=True, by_kinetic_energy=True, boltzmann_hamel=True
        ),
    }
)


def body_forms() -> tuple[str, ...]:
    """The names of the forms that are made of the bodies' matrices."""
    return tuple(name for name, form in FORMS.items() if form.of_bodies)


def coriolis_form(name: Any, purpose: str = "of a Coriolis matrix", of_bodies: bool = False) -> CoriolisForm:
    """The form of this name.

    purpose    how the message goes on after "form 'x'"
    of_bodies  whether it has to be made of the bodies' matrices

    Raises ModelError, which lists the forms, for an unknown one.
    """
    names = body_forms() if of_bodies else tuple(FORMS)
    if not isinstance(name, str) or name not in names:
        raise ModelError(f"form {name!r} {purpose} is unknown; use one of {', '.join(names)}")
    return FORMS[name]


def coriolis_matrix(tree: Tree, q: Array, v: Array, form: str = "christoffel") -> Array:
    """C(q, v) (nv, nv) with C v + g the efforts at no acceleration; recursive, O(n d) at depth d.

    q     configuration, (nq,)
    v     velocity, left-trivialised, (nv,)                                [rad/s, m/s]
    form  which of the matrices that give the same C v:

          "christoffel"   dM/dt - 2 C is skew-symmetric, and C(v) w - C(w) v = M [v, w] with the bracket of
                          the joints' groups: M^-1 C(v) w is the Levi-Civita connection of the kinetic energy
                          on left-invariant fields. Where these are fields of coordinates (all groups commute)
                          C is made of Christoffel's symbols, Ploen (1999), eqs (2), (3)
          "ploen"         the bodies' matrices of Ploen's Proposition 1; skew, depends on the choice of the
                          bodies' frames
          "coadjoint"     the bodies' matrices ad~ of the momentum, From (2012), eq. (75); skew likewise
          "feurstein"     the bodies' matrices J ad_V - ad_V^T J, Feurstein (2021), eq. (3.41); skew
                          likewise
          "newton-euler"  the bodies' matrices -ad_V^T J, Ploen eq. (25); dM/dt - 2 C is not skew
          "hamel"         dM/dt - ad_v^T M - (v^T X_i M) / 2, the Boltzmann-Hamel equations of the joints'
                          groups; not skew

    The joints' armature has no part in C: rotors have no gyroscopic moments. In "christoffel" the law with
    the bracket holds for M without it, wherever it acts on joints whose motions do not commute.

    Raises ModelError for an unknown form.
    """
    return mass_and_coriolis(tree, q, v, form)[2]


def mass_matrix_derivative(tree: Tree, q: Array, v: Array) -> Array:
    """dM/dt (nv, nv) while q moves with v, symmetric: C + C^T of the skew forms. Recursive, O(n d).

    d/dt (S_i^T J S_j) of all that joint j carries, seen from the world, where dS/dt = ad_V S and dJ/dt =
    -ad_V^T J - J ad_V. Ploen (1999), eq. (28), without forming its factors.
    """
    rate = JointMatrix(tree.nv)
    for block in _pairs(tree, q, v, tree.base_moments, rate_of_inertia, moving_origin=True):
        rate.add_symmetric(block.ancestor, block.body, block.forward + block.turning)
    return rate.array()


def mass_and_coriolis(
    tree: Tree, q: Array, v: Array, form: str = "christoffel"
) -> tuple[Array, Array, Array]:
    """M, dM/dt and C in one recursion, each (nv, nv); arguments as in `coriolis_matrix`.

    Forms that are neither skew nor made of dJ/dt take a second recursion for dM/dt.
    """
    kind = coriolis_form(form)
    moments = (
        tree.base_moments
        if kind.by_kinetic_energy
        else (tree.base_moments[0], *(b.inertia.moments for b in tree.bodies))
    )
    # One recursion fills all matrices; sums that no result uses vanish from a trace.
    mass, rate, coriolis, mixed = (JointMatrix(tree.nv) for _ in range(4))
    for block in _pairs(tree, q, v, moments, kind.operator, kind.moving_origin):
        mass.add_symmetric(block.ancestor, block.body, block.mass)
        coriolis.add(block.ancestor, block.body, block.forward)
        mixed.add(block.ancestor, block.body, -block.transposed)
        # The mirrored block, C_ji = (J ad_V_i S_i + B S_i)^T S_j. A body's own block has no mirror.
        if block.ancestor is not block.body:
            coriolis.add(block.body, block.ancestor, (block.turning + block.transposed).T)
            mixed.add(block.body, block.ancestor, -block.transposed.T)
        if kind.operator_is_rate:
            rate.add_symmetric(block.ancestor, block.body, block.forward + block.turning)
    # dM/dt = C + C^T where the bodies' matrices are skew. Otherwise it is in the same recursion if B is
    # dJ/dt, or takes one more.
    M = mass.array()
    C = coriolis.array()
    if kind.skew_bodies:
        dM = symmetric(tree.nv, lambda i, j: C[i, j] + C[j, i])
    else:
        dM = rate.array() if kind.operator_is_rate else mass_matrix_derivative(tree, q, v)
    if kind.boltzmann_hamel:
        C = C + 0.5 * (C.T - _coadjoint_times(tree, v, M) - mixed.array())
    return M + np.diag(armature(tree)), dM, C


def christoffel_symbols(tree: Tree, q: Array) -> Array:
    """Gamma (nv, nv, nv) with C(q, v) = Gamma @ v for the form "christoffel":  C_kj = sum_i Gamma_kji v_i.

    Gamma_kji = <e_k, nabla_i e_j> of the kinetic energy's connection in the left-invariant frame e; Gamma_kji
    - Gamma_kij = (M [e_i, e_j])_k, and zero for velocities of different joints. With commuting joints it is
    Ploen (1999), eq. (3): (d_i M_kj + d_j M_ki - d_k M_ij) / 2.

    As d_i J_j = omega_i x J_j where joint j sits on i, the symbols are omega_i . int J_j x J_k dm.
    """
    # A table of the entries that are not zero: of nv^3 most belong to joints of different branches.
    symbols: dict[tuple[int, int, int], Any] = {}
    T = transformations(tree, q)
    composite = composites(tree, T)
    columns: list[Any] = [[]]  # of each body: (body, dof, omega, v) of all joints on the way, in its axes
    for body in tree.bodies:
        inherited = [(b, k, *_twist_into(T[body.index], w, u)) for b, k, w, u in columns[body.parent]]
        new = [(body.index, k, S[:3], S[3:]) for k, S in body.columns]
        columns.append([*inherited, *new])
        for b in new:
            for a in columns[-1]:
                if a[0] == body.index and a[1] < b[1]:
                    continue  # the pair comes again, in the other order
                # int J_a x J_b dm over all that the body carries, times omega of each joint above it
                W = _cross_moment(composite[body.index], a[2:], b[2:])
                for row, moved, sign in ((b, a, 1), (a, b, -1)) if a is not b else ():
                    for c in columns[-1]:
                        if c[0] <= moved[0]:  # omega_c x J_moved, c not behind `moved`
                            value = sign * _product(c[2], W)
                            _add(symbols, (row[1], moved[1], c[1]), value)
                            if c[0] < moved[0]:
                                _add(symbols, (row[1], c[1], moved[1]), value)
    n = range(tree.nv)
    return np.array([[[symbols.get((k, j, i), 0) for i in n] for j in n] for k in n]).reshape(3 * (tree.nv,))


def reference_wrenches(
    tree: Tree, T: list[Any], rates: tuple[Array, Array, Array], gravity: Array, wrench: Any, *given: Any
) -> list[Any]:
    """The wrenches for the reference accelerations a_r + U r of each body's points, outward; 0 is the world.

    T       motion of each body in its parent, from 1 on
    rates   v, v_r, a_r, each (nv,)
    wrench  (points, ...) -> what they take, with the body's entry of each of `given`, lists from 0 on
    """
    points: list[Any] = [Points(REST, REST, REST, np.negative(gravity), np.zeros((3, 3), int))]
    wrenches: list[Any] = [None]
    for body in tree.bodies:
        i = body.index
        of_joint = tuple(x[body.dofs] for x in rates)
        moving, taken = _next_points(
            T[i], body.twist, of_joint, points[body.parent], wrench, *(x[i] for x in given)
        )
        points.append(moving)
        wrenches.append(taken)
    return wrenches


class Points(NamedTuple):
    """How a body and its reference turn; acc + U r is how the reference velocity of its point r changes."""

    w: Array
    w_r: Array
    alpha: Array
    acc: Array
    U: Array


@repeated
def _next_points(
    T: Transformation, S: Array, rates: tuple[Array, ...], parent: Points, wrench: Any, *given: Any
) -> tuple[Points, Any]:
    # C v_r is bilinear: each product of velocities in Newton-Euler has one factor of the motion, and one of
    # the reference.
    V, V_r, A_r = (S @ x for x in rates)
    carried = T.into(parent.w_r)
    w = T.into(parent.w) + V[:3]
    w_r = carried + V_r[:3]
    alpha = T.into(parent.alpha) + A_r[:3] + cross(w, V_r[:3])
    moved = cross(carried, V[3:]) + cross(w, V_r[3:])
    acc = T.into(parent.acc + parent.U @ T.p) + A_r[3:] + moved
    points = Points(w, w_r, alpha, acc, rate_of_turning(w, alpha, w_r))
    return points, wrench(points, *given)


def passive_inverse_dynamics(
    tree: Tree, q: Array, v: Array, v_r: Array, a_r: Array, gravity: Array = FREE_FALL
) -> Array:
    """M(q) a_r + C(q, v) v_r + g(q) (nv,) with the form "christoffel", without forming C, O(n).

    q         configuration, (nq,)
    v         velocity, left-trivialised, (nv,)                            [rad/s, m/s]
    v_r, a_r  reference velocity and its rate, (nv,)                       [rad/s, m/s], [rad/s2, m/s2]
    gravity   acceleration of free fall in the world, (3,)                 [m/s2]

    The feedforward of passivity-based controllers: with tau = this - K s, s = v - v_r, the energy s^T M s / 2
    falls, because dM/dt - 2 C is skew. Slotine and Li (1987). With v_r = v it is `inverse_dynamics`.
    Recursive Newton-Euler on the reference velocities u_r + omega_r x r of the bodies' points, which change
    at the rate a_r + U r, U = [alpha_r] + [omega_r] [omega].
    """
    T = transformations(tree, q)
    F = reference_wrenches(tree, T, (v, v_r, a_r), gravity, _wrench_of_points, tree.base_moments)
    return joint_efforts(tree, T, F, a_r, v)


def _wrench_of_points(points: Points, moments: Moments) -> Pair:
    m, h, Sigma = moments
    acc = points.acc
    U = points.U
    return vector_of_skew_part(U @ Sigma) + cross(h, acc), m * acc + U @ h


def coriolis_transpose_times(tree: Tree, q: Array, v: Array, w: Array | None = None) -> Array:
    """C(q, v)^T w (nv,) with the form "christoffel", without forming C, O(n).

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]
    w  (nv,); v if None

    Momentum observers need C^T v: the generalized momentum p = M v has the rate dp/dt = tau + C^T v - g,
    because dM/dt = C + C^T. De Luca and Mattone (2003). Here (C^T w)_i = S_i^T ad_V_i^T F_i + omega_i . k_i
    with the momentum F_i that the velocities w give to all that joint i carries, and k = int r' x J_r w dm,
    which is zero for w = v.
    """
    same = w is None
    w = v if w is None else w
    T = transformations(tree, q)
    # For w = v the term k vanishes, int r' x r' dm = 0, and there is one set of twists.
    twists = twists_of(tree, T, v)
    others = twists if same else twists_of(tree, T, w)
    # sums over what the joints of children carry, which are filled inwards
    F = [(REST, REST) for _ in T]
    k = [REST for _ in T]
    efforts = JointVector(tree.nv)
    for body in reversed(tree.bodies):
        i = body.index
        p = body.parent
        F[i] = _with_momentum(tree.base_moments[i], others[i], *F[i])
        k[i] = REST if same else k[i] + _cross_moment(tree.base_moments[i], twists[i], others[i])
        efforts.add(body, _turned_on_joint(body.twist, twists[i], F[i], k[i]))
        if p:
            F[p], k[p] = _added_momentum(T[i], F[p], k[p], F[i], k[i])
    return efforts.array()


@repeated
def _with_momentum(moments: Moments, V: Pair, n: Array, f: Array) -> Pair:
    return plus(moments.times(*V), (n, f))


@repeated
def _turned_on_joint(S: Array, twist: Pair, momentum: Pair, k: Array) -> Array:
    n, f = _turning(twist, *momentum)
    return on_joint(S, n + k, f)


@repeated
def _added_momentum(
    T: Transformation, F_parent: Pair, k_parent: Array, F: Pair, k: Array
) -> tuple[Pair, Array]:
    return added_wrench(T, F_parent, F), k_parent + T.out(k)


# -- the recursion over pairs of joints ---------------------------------------------------------------------


class _Block(NamedTuple):
    """Rows of `ancestor`, columns of `body` (which may be the same); J and B of all that the body carries."""

    ancestor: Body
    body: Body
    mass: Array  # S_i^T J S_j
    forward: Array  # S_i^T (J ad_V_j + B) S_j
    turning: Array  # (ad_V_i S_i)^T J S_j
    transposed: Array  # S_i^T B^T S_j


def _pairs(
    tree: Tree,
    q: Array,
    v: Array,
    moments: tuple[Moments, ...],
    operator: Any,
    moving_origin: bool,
) -> Iterator[_Block]:
    """The blocks of all pairs of a body and its ancestors, each wrench carried inwards from body to body.

    operator       (moments, omega, v) -> B of a single body
    moving_origin  measure velocities against a frame that moves on with the root's origin, without turning:
                   it is inertial, so dM/dt and the connection are the same, and linear velocities are fewer
    """
    # Outward the twists; inward J and B of all that each joint carries. Then each joint sends its wrenches
    # down the path to the root, and meets every ancestor once: O(n d).
    T = transformations(tree, q)
    twists = twists_of(tree, T, v, moving_origin)
    inertias = composites(tree, T, moments)
    rates = gather(tree, T, operators(operator, moments, twists))
    for body in reversed(tree.bodies):
        i = body.index
        if not body.joint.dim:
            continue
        carried = _wrenches(body.twist, inertias[i], rates[i], twists[i])
        yield _Block(body, body, *_products(body.twist, twists[i], carried))
        for below, ancestor in pairwise(tree.ancestors(i)):
            carried = _wrenches_out(T[below.index], carried)
            yield _Block(ancestor, body, *_products(ancestor.twist, twists[ancestor.index], carried))


class _Wrenches(NamedTuple):
    """For each column S of a joint: J S, J ad_V S + B S and B^T S of all that it carries."""

    momenta: list[Pair]
    forward: list[Pair]
    backward: list[Pair]


@repeated
def _wrenches(S: Array, moments: Moments, rate: Operator, V: Pair) -> _Wrenches:
    columns = halves(S)
    return _Wrenches(
        momenta=[moments.times(*s) for s in columns],
        forward=[plus(moments.times(*bracket(V, s)), rate.times(*s)) for s in columns],
        backward=[rate.transpose_times(*s) for s in columns],
    )


@repeated
def _wrenches_out(T: Transformation, wrenches: _Wrenches) -> _Wrenches:
    return _Wrenches(*([T.wrench_out(*F) for F in x] for x in wrenches))


@repeated
def _products(S: Array, V: Pair, wrenches: _Wrenches) -> tuple[Array, ...]:
    """S^T F (k, number) of the momenta, forward, turned momenta and backward."""
    turning = [_turning(V, *F) for F in wrenches.momenta]
    columns = wrenches.momenta, wrenches.forward, turning, wrenches.backward
    return tuple(powers(halves(S), x) for x in columns)


@repeated
def _twist_into(T: Transformation, w: Array, u: Array) -> Pair:
    return T.twist_into(w, u)


@repeated
def _product(a: Array, b: Array) -> Any:
    return a @ b


def _turning(V: Pair, n: Array, f: Array) -> Pair:
    """ad_V^T (n, f)."""
    w, u = V
    return -(cross(w, n) + cross(u, f)), -cross(w, f)


def cross_moment(moments: Moments, a: Pair, b: Pair) -> Array:
    """int J_a x J_b dm (3,) of the velocities that two twists give to the points.

    As (omega_a x r) x (omega_b x r) = r r^T (omega_a x omega_b).
    """
    m, h, Sigma = moments
    wa, va = a
    wb, vb = b
    return cross(m * va + cross(wa, h), vb) + cross(va, cross(wb, h)) + Sigma @ cross(wa, wb)


_cross_moment = repeated(cross_moment)


def _coadjoint_times(tree: Tree, v: Array, M: Array) -> Array:
    """ad_v^T M (nv, nv), with the bracket of the joints' groups."""
    # Joints of one degree of freedom have no bracket: their rows stay zero.
    rows = [0 * M[k] for k in range(tree.nv)]
    for body in tree.bodies:
        if body.joint.dim > 1:
            block = body.joint.group.ad(v[body.dofs]).T @ M[body.dofs]
            for k, row in zip(body.places, block, strict=True):
                rows[k] = row
    return np.array(rows).reshape(tree.nv, tree.nv)


def _add(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = table[key] + value if key in table else value
