"""The equations of motion as linear maps of the inertial parameters, and which of these can be identified.

Ten parameters per body, `bodies.PARAMETERS`, in the order of the tree's bodies,

    pi = (m, h_x, h_y, h_z, I_xx, I_xy, I_xz, I_yy, I_yz, I_zz)

the mass, the first moments h = m c, and the rotational inertia about the origin of the body's frame. Armature
and losses are none of them: M below is that without rotors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import count
from ..base.errors import ModelError
from ..bodies import PARAMETERS, Tree, moved_parameters
from ..bodies.inertia import SECOND_MOMENTS, UNIT_MOMENTS
from ..compiler import Function, Program, repeated, trace, traced
from ..compiler.printers.numpy_source import compile_numpy
from ..scalars import Array
from ..scalars.linear import cross, is_numeric, is_zero
from .coriolis import Points, coriolis_form, reference_wrenches
from .inverse import FREE_FALL, vector_of_skew_part
from .recursions import HOME, poses_after, transformations, twists_of
from .spatial import REST, Pair, next_rate, plus

LONG = 300  # blocks of a regressor from which on they are a loop
STATES = 40  # at which the rows of a joint are looked at


def inertial_parameters(tree: Tree) -> Array:
    """pi (10 n,) of all bodies, see above.  [kg, kg m, kg m2]"""
    return np.array([x for body in tree.bodies for x in body.inertia.moments.parameters()])


def passive_regressor(
    tree: Tree,
    q: Array,
    v: Array,
    v_r: Array,
    a_r: Array,
    gravity: Array = FREE_FALL,
    form: str = "christoffel",
) -> Array:
    """Y (nv, 10 n) with Y pi = M(q) a_r + C(q, v) v_r + g(q), C of the given form; O(n d).

    Arguments as in `passive_inverse_dynamics`, which computes Y pi for the tree's own parameters (and adds
    the armature). With it the adaptive controller tau = Y pi^ - K s, dpi^/dt = -Gamma Y^T s, s = v - v_r,
    tracks with unknown parameters: Slotine and Li (1987). Atkeson, An and Hollerbach (1986) for v_r = v.

    form  of `coriolis_matrix`, other than "hamel". Those but the default depend on the choice of the bodies'
          frames: their columns combine in other ways than `base_parameters` tells

    Raises ModelError for another form.
    """
    # Outward: the columns of a body's Jacobian are the parent's, moved into the body, and those of its
    # joint. The rows of Y for the body are then J^T of the wrenches of its ten parameters.
    T = transformations(tree, q)
    Jacobians = [np.zeros((6, tree.nv), int)]  # of the world and the bodies, in their own axes
    blocks = [np.zeros((tree.nv, 0))]
    for body, wrenches in zip(tree.bodies, _wrenches(tree, T, v, v_r, a_r, gravity, form), strict=True):
        before = np.zeros((6, body.dofs.start), int)
        after = np.zeros((6, tree.nv - body.dofs.stop), int)
        J = Jacobians[body.parent]
        carried = np.concatenate(T[body.index].twist_into(J[:3], J[3:]))
        Jacobians.append(carried + np.hstack([before, body.twist, after]))
        blocks.append(Jacobians[-1].T @ wrenches)
    return np.hstack(blocks)


def regressor_by_blocks(
    tree: Tree, shapes: Mapping[str, Any], name: str, given: Callable[..., Any]
) -> Function | Program:
    """`passive_regressor` of arguments of these shapes, v_r = v if it is none; where it is long, a loop.

    given  (function, *arrays) -> function(tree, **arguments) of the tree's and the arrays' arguments

    With V_k = (omega, u) the twist by which joint velocity k moves a body that hangs on it, and the wrench F
    = (n, f) of one of the body's parameters, the entries are then

        omega . n + (u + omega x (p_body - p_joint)) . f

    in the world's axes: no entry waits for another one. The function is long because its graphs share
    `used`, the entries of wrenches that are not zero.
    """

    def straight(
        tree: Tree, q: Array, v: Array, a: Array = None, v_r: Array = None, a_r: Array = None, **options: Any
    ) -> Array:
        return passive_regressor(tree, q, v, *((v, a) if v_r is None else (v_r, a_r)), **options)

    blocks = [
        (row, joint.index - 1, body.index - 1)
        for body in tree.bodies
        for joint in tree.ancestors(body.index)
        for row in range(tree.nv)[joint.dofs]
    ]
    # a short tree as straight lines; so is one with followers, whose rows are sums over several joints
    if len(blocks) <= LONG or tree.has_mimics:
        return traced(partial(given, straight), shapes, name)
    used: list[bool] = []  # of the entries of wrenches, which are not zero in all bodies

    def in_the_world(
        tree: Tree, q: Array, v: Array, a: Array = None, v_r: Array = None, a_r: Array = None, **options: Any
    ) -> dict[str, Array]:
        rest = (v, v, a) if v_r is None else (v, v_r, a_r)
        T = transformations(tree, q)
        poses = poses_after(tree, T, [HOME])
        axes = []
        wrenches = []
        for body, columns in zip(tree.bodies, _wrenches(tree, T, *rest, **options), strict=True):
            R, _ = poses[body.index]
            axes.append(_turned(R, body.twist))
            wrenches.append(_turned(R, columns).ravel())
        # entries that are zero for all bodies take no memory and no arithmetic in the loop
        used.extend(not all(map(is_zero, entries)) for entries in zip(*wrenches, strict=True))
        points = np.array([p for _, p in poses[1:]])
        return {"axes": np.hstack(axes).T, "points": points, "wrenches": np.array(wrenches)[:, used]}

    def block(axis: Array, joint: Array, body: Array, entries: Array) -> Array:
        F = np.zeros(len(used), int).astype(object)
        F[used] = entries
        n, f = F.reshape(2, 3, -1)
        return axis[:3] @ n + (axis[3:] + cross(axis[:3], body - joint)) @ f

    program = traced(partial(given, in_the_world), shapes, name, loops=True)
    assert isinstance(program, Program)
    axes, points, wrenches = (  # in rows of the memory, wherever they come from
        program.apply(
            trace(lambda x: x, {"x": program.outputs[key].shape[1]}, "row"), program.outputs.pop(key)
        )
        for key in ("axes", "points", "wrenches")
    )
    # one loop over all pairs of a body and a joint above it; other blocks of Y are zero
    rows, joints, bodies = np.transpose(sorted(blocks))
    each = trace(block, {"axis": 6, "joint": 3, "body": 3, "entries": wrenches.shape[1]})
    Y = np.full((tree.nv, len(tree.bodies), len(PARAMETERS)), program.zeros())
    Y[rows, bodies] = program.apply(each, axes[rows], points[joints], points[bodies], wrenches[bodies])
    program.output(name, Y.reshape(tree.nv, -1))
    return program


@repeated
def _turned(R: Array, columns: Array) -> Array:
    """R of both halves of vectors (6, k)."""
    return np.concatenate([R @ columns[:3], R @ columns[3:]])


def inverse_dynamics_regressor(tree: Tree, q: Array, v: Array, a: Array, gravity: Array = FREE_FALL) -> Array:
    """Y (nv, 10 n) with Y pi = M(q) a + C(q, v) v + g(q); arguments as in `inverse_dynamics`.

    pi are (m, h, I_xx, I_xy, I_xz, I_yy, I_yz, I_zz) of each body about its frame's origin, without armature,
    in the order of `inertial_parameters`.
    """
    return passive_regressor(tree, q, v, v, a, gravity)


class BaseParameters(NamedTuple):
    """Which parameters can be identified from efforts.

    columns  positions in pi of r parameters whose columns of Y are independent, (r,)
    K        (r, 10 n) with Y pi = Y[:, columns] (K pi) at every state: K pi are the base parameters, each the
             parameter at its column plus multiples of those that always act together with it
    names    the names of the parameters at `columns`
    """

    columns: Array
    K: Array
    names: tuple[str, ...]


def base_parameters(
    tree: Tree, gravity: Array = FREE_FALL, states: int = 0, tolerance: float = 1e-9, seed: int = 0
) -> BaseParameters:
    """The identifiable parameters: of the columns of Y the first ones that span all, by random states.

    gravity    acceleration of free fall in the world, (3,)                [m/s2]
    states     number of states; if 0, 40, or with followers four times as many rows as columns of Y
    tolerance  a column of unit length depends on those before it if the part of it which is orthogonal to
               them is shorter than this

    A column of a body depends on those before it if it does in the rows of the body's own joint: what these
    do not tell moves with the parent's parameters, whatever the joint does, and is added to them; O(n). With
    followers, which share rows with their leaders, all rows are used.

    Gautier (1991), "Numerical calculation of the base inertial parameters of robots"; Wensing, Niemeyer,
    Slotine (2024), "A geometric characterization of observability in inertial parameter identification".
    """
    if not tree.nv:
        raise ModelError(f"tree {tree.name!r} has no degree of freedom: no effort tells any parameter")
    if not is_numeric(*(x for b in tree.bodies for x in (b.placement, b.joint.S))):
        raise ModelError(f"tree {tree.name!r} has symbols in its geometry; ranks are found with numbers only")
    # dependences between columns that hold at so many random states hold everywhere, with probability one
    states = count("states", states, least=0)
    rng = np.random.default_rng(seed)
    size = len(PARAMETERS) * len(tree.bodies)
    if tree.has_mimics:
        rates = rng.normal(size=(states or -(-4 * size // tree.nv), 3, tree.nv))
        rows = [
            passive_regressor(tree, tree.group.random(rng), v, v_r, a_r, gravity) for v, v_r, a_r in rates
        ]
        columns, K = independent_columns(np.concatenate(rows).astype(float), tolerance)
    else:
        columns, K = _by_joints(tree, gravity, rng, states or STATES, tolerance)
    names = [f"{PARAMETERS[k % 10]} of {tree.bodies[k // 10].name}" for k in columns]
    return BaseParameters(columns, K, tuple(names))


def _by_joints(
    tree: Tree, gravity: Array, rng: np.random.Generator, states: int, tolerance: float
) -> tuple[Array, Array]:
    """As `independent_columns` of the whole Y."""

    def rows_of_joints(q: Array, v: Array, v_r: Array, a_r: Array) -> Array:
        """The rows of each body's joint, in the columns of the body."""
        wrenches = _wrenches(tree, transformations(tree, q), v, v_r, a_r, gravity)
        return np.concatenate([_own_rows(b.twist, F) for b, F in zip(tree.bodies, wrenches, strict=True)])

    shapes = {"q": tree.nq, "v": tree.nv, "v_r": tree.nv, "a_r": tree.nv}
    evaluate = compile_numpy(traced(rows_of_joints, shapes, "own"))
    rows = evaluate(tree.group.random(rng, (states,)), *rng.normal(size=(3, states, tree.nv)))
    count = len(PARAMETERS)
    columns = []
    K = np.zeros((count * len(tree.bodies), count * len(tree.bodies)))
    ends = np.cumsum([0, *(body.twist.shape[1] for body in tree.bodies)])
    for i, body in enumerate(tree.bodies):
        here = slice(count * i, count * (i + 1))
        rest = np.eye(count)
        kept, C = independent_columns(rows[:, ends[i] : ends[i + 1]].reshape(-1, count), tolerance)
        columns += (count * i + kept).tolist()
        K[count * i + kept, here] = C
        # the dependent rest of each column moves with the parent and is added to its parameters; parents come
        # first, so that what they pass on is known
        rest[kept] -= C
        if body.parent:
            before = slice(count * (body.parent - 1), count * body.parent)
            pose = body.placement @ body.joint.pose(body.joint.group.neutral())
            K[:, here] += K[:, before] @ moved_parameters(pose.astype(float)) @ rest
    return np.array(columns, int), K[columns]


@repeated
def _own_rows(S: Array, wrenches: Array) -> Array:
    return S.T @ wrenches


def independent_columns(Y: Array, tolerance: float) -> tuple[Array, Array]:
    """The columns of Y that do not depend on those before them, (r,), and K (r, n): Y = Y[:, columns] K.

    Y          (m, n)
    tolerance  as of `base_parameters`
    """
    # Columns of unit length, so that units of parameters do not matter; those that are zero are dependent.
    scale = np.linalg.norm(Y, axis=0)
    scale = np.where(scale > tolerance * scale.max(initial=0), scale, np.inf)
    unit: Array = np.linalg.qr(Y / scale, mode="r")  # the same lengths and angles in fewer rows
    basis = np.zeros((len(unit), 0))
    kept = []
    for k, column in enumerate(unit.T):
        # Gram-Schmidt, repeated once: that makes the rest orthogonal to round-off.
        rest = column - basis @ (basis.T @ column)
        rest = rest - basis @ (basis.T @ rest)
        if (size := np.linalg.norm(rest)) > tolerance:
            basis = np.column_stack([basis, rest / size])
            kept.append(k)
    K = np.linalg.lstsq(unit[:, kept], unit, rcond=None)[0]
    K = np.where(np.abs(K) > tolerance, K, 0.0) * np.where(np.isfinite(scale), scale, 0.0)
    return np.array(kept, int), K / scale[kept, None]


def _wrenches(
    tree: Tree, T: list[Any], v: Array, v_r: Array, a_r: Array, gravity: Array, form: str = "christoffel"
) -> list[Array]:
    """For each body, the wrenches (6, 10) that its parameters take, each one being one.

    By the accelerations of points f = m a + U h, n = h x a + vec(U Sigma), as `passive_inverse_dynamics`;
    of other forms J A_r + B V_r, A_r = dV_r/dt + ad_V V_r, B = C_b - J ad_V.
    """
    kind = coriolis_form(form, "of a regressor", of_bodies=True)
    if kind.operator_is_flux:
        return reference_wrenches(tree, T, (v, v_r, a_r), gravity, _columns_of_points)[1:]
    V = twists_of(tree, T, v)
    V_r = twists_of(tree, T, v_r)
    # The world's acceleration, upwards, stands for the weight.
    A_r: list[Pair] = [(REST, np.negative(gravity))]
    for body in tree.bodies:
        i = body.index
        S = body.twist
        A_r.append(next_rate(T[i], S, v_r[body.dofs], a_r[body.dofs], V[i], A_r[body.parent]))
    return [_columns_of_form(kind.operator, *x) for x in list(zip(V, V_r, A_r, strict=True))[1:]]


def _columns_of_points(points: Points) -> Array:
    a = points.acc
    U = points.U
    one = np.eye(3, dtype=int)
    turning = [(vector_of_skew_part(U @ dSigma), REST) for dSigma in SECOND_MOMENTS]
    return _columns([(REST, a), *((cross(e, a), U @ e) for e in one), *turning])


@repeated
def _columns_of_form(operator: Any, V: Pair, V_r: Pair, A_r: Pair) -> Array:
    taken = (plus(x.times(*A_r), operator(x, *V).times(*V_r)) for x in UNIT_MOMENTS)
    return _columns([*taken])


def _columns(pairs: list[Pair]) -> Array:
    """Vectors by their halves, as the columns of a matrix."""
    return np.stack([np.concatenate(pair) for pair in pairs], axis=1)
