"""Convert coordinates and velocities to Pinocchio's and MuJoCo's layouts, and back.

    layout = pinocchio_layout(tree, model)          # a pinocchio.Model; MuJoCo: mujoco_layout(tree, mjmodel)
    q_theirs = layout.to_q(q)
    v_theirs, a_theirs = layout.to_v(q, v), layout.to_a(q, v, a)
    tau = layout.from_effort(q_theirs, pinocchio.rnea(model, data, q_theirs, v_theirs, a_theirs))

Joints correspond by name, in whatever order each library keeps them. The differences, joint by joint:

                liebody                     Pinocchio                   MuJoCo
    revolute    angle                       angle, or (cos, sin)        angle
    planar      (angle, x, y)               (x, y, cos, sin)            -
      velocity  (omega, vx, vy) body        (vx, vy, omega) body        -
    spherical   (w, x, y, z)                (x, y, z, w)                (w, x, y, z)
    free        quaternion wxyz, position   position, quaternion xyzw   position, quaternion wxyz
      velocity  (omega, v) body             (v, omega) body             (v in the world, omega body)

Neither library is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import vectors
from ..base.errors import ModelError
from ..bodies import Body, Tree
from ..bodies.tree import OfTree
from ..groups import Free, Helical, Planar, Prismatic, Revolute, SpatialTranslation, Spherical
from ..groups.so3 import rotations
from ..scalars import Array


class _Form(NamedTuple):
    """How another library writes a joint.

    to_q, from_q  its coordinates, from ours and back
    turn          the orthogonal map B(q) of our velocities to theirs, for our q; efforts go the same way, as
                  B^-T = B
    drift         Bdot v for our q and v, which accelerations have besides B a; None where B is constant
    """

    to_q: Callable[[Array], Array]
    from_q: Callable[[Array], Array]
    turn: Callable[[Array], Array]
    drift: Callable[[Array, Array], Array] | None = None


def _order(*indices: int) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """A reordering of the last axis, and its inverse."""
    there = np.array(indices)
    back = np.argsort(indices)
    return (lambda x: x[..., there]), (lambda x: x[..., back])


def _constant(*indices: int) -> Callable[[Array], Array]:
    """The map q -> B of a permutation of velocities, which does not depend on q."""
    B = np.eye(len(indices))[list(indices)]
    return lambda q: B


def _world_linear(q: Array) -> Array:
    """B = [0 R; 1 0], (..., 6, 6)."""
    B = np.zeros((*q.shape[:-1], 6, 6))
    B[..., :3, 3:] = rotations(q[..., :4])
    B[..., 3:, :3] = np.eye(3)
    return B


def _world_linear_drift(q: Array, v: Array) -> Array:
    """Bdot v = (R (omega x v), 0)."""
    turned = rotations(q[..., :4]) @ np.cross(v[..., :3], v[..., 3:])[..., None]
    return np.concatenate([turned[..., 0], np.zeros_like(turned[..., 0])], axis=-1)


# joints whose coordinates and velocities agree, with one freedom or three
_SAME = {n: _Form(*_order(*range(n)), _constant(*range(n))) for n in (1, 3)}
# Pinocchio's unbounded revolute joint holds (cos, sin) instead of the angle
_COS_SIN = _Form(
    lambda q: np.concatenate([np.cos(q), np.sin(q)], axis=-1),
    lambda q: np.arctan2(q[..., 1:], q[..., :1]),
    _constant(0),
)
# Pinocchio's planar joint: translation first, then (cos, sin) of the angle; velocities (vx, vy, omega)
_PLANAR = _Form(
    lambda q: np.concatenate([q[..., 1:], np.cos(q[..., :1]), np.sin(q[..., :1])], axis=-1),
    lambda q: np.concatenate([np.arctan2(q[..., 3:], q[..., 2:3]), q[..., :2]], axis=-1),
    _constant(1, 2, 0),
)

FORMS: dict[str, dict[type, dict[tuple[int, int], _Form]]] = {
    "Pinocchio": {
        Revolute: {(1, 1): _SAME[1], (2, 1): _COS_SIN},
        Prismatic: {(1, 1): _SAME[1]},
        Helical: {(1, 1): _SAME[1]},
        SpatialTranslation: {(3, 3): _SAME[3]},
        Planar: {(4, 3): _PLANAR},
        Spherical: {(4, 3): _Form(*_order(1, 2, 3, 0), _constant(0, 1, 2))},
        Free: {(7, 6): _Form(*_order(4, 5, 6, 1, 2, 3, 0), _constant(3, 4, 5, 0, 1, 2))},
    },
    "MuJoCo": {
        Revolute: {(1, 1): _SAME[1]},
        Prismatic: {(1, 1): _SAME[1]},
        Spherical: {(4, 3): _Form(*_order(0, 1, 2, 3), _constant(0, 1, 2))},
        Free: {(7, 6): _Form(*_order(4, 5, 6, 0, 1, 2, 3), _world_linear, _world_linear_drift)},
    },
}
"""Forms of a library by joint group and (nq, nv) of its model's joint."""
Places = dict[str, tuple[slice, slice]]  # of joints in the q and v of a model


class _Part(NamedTuple):
    """A joint of the tree, and its place in the other model's q and v."""

    body: Body
    q: slice
    v: slice
    form: _Form


@dataclass(frozen=True, eq=False)
class Layout:
    """Another library's layout of q and v, for one tree and one model.

    `to_*` takes the tree's arrays and returns the model's, `from_*` takes the model's and returns the tree's;
    all arguments of a call are in the same layout. Any leading batch axes. nq and nv are the model's. Joints
    that mimic in the tree and move freely in the model are set by their leaders; on the way back their
    efforts act on their leaders.
    """

    tree: Tree
    nq: int
    nv: int
    parts: tuple[_Part, ...]

    def __repr__(self) -> str:
        sizes = f"nq = {self.tree.nq}, nv = {self.tree.nv}"
        return f"Layout of {self.tree.name!r}, {sizes}, in a model with nq = {self.nq}, nv = {self.nv}"

    def to_q(self, q: Array) -> np.ndarray:
        """Configuration (..., tree.nq) to (..., nq)."""
        q = vectors("q", q, self.tree.nq, finite=False)
        out = np.zeros((*q.shape[:-1], self.nq))
        for part in self.parts:
            out[..., part.q] = part.form.to_q(_joint_coordinates(part.body, q))
        return out

    def from_q(self, q: Array) -> np.ndarray:
        """Configuration (..., nq) to (..., tree.nq). Angles given as (cos, sin) come back in (-pi, pi]."""
        q = vectors("q", q, self.nq, finite=False)
        out = np.zeros((*q.shape[:-1], self.tree.nq))
        for part in self.parts:
            # a follower's coordinates in the model repeat its leader's
            if part.body.joint.mimic is None:
                out[..., part.body.coordinates] = part.form.from_q(q[..., part.q])
        return out

    def to_v(self, q: Array, v: Array) -> np.ndarray:
        """Velocity (..., tree.nv) at q (..., tree.nq) to (..., nv)."""
        q = vectors("q", q, self.tree.nq, finite=False)
        v = vectors("v", v, self.tree.nv, finite=False)
        out = self._empty(self.nv, q, v)
        for part in self.parts:
            # a follower moves at ratio times the velocity of its leader
            rates = part.body.ratio * v[..., part.body.dofs]
            out[..., part.v] = _times(part.form.turn(q[..., part.body.coordinates]), rates)
        return out

    def from_v(self, q: Array, v: Array) -> np.ndarray:
        """Velocity (..., nv) at q (..., nq) to (..., tree.nv)."""
        q = self.from_q(q)
        v = vectors("v", v, self.nv, finite=False)
        out = self._empty(self.tree.nv, q, v)
        for part in self.parts:
            if part.body.joint.mimic is None:
                # B is orthogonal, so B^T is its inverse
                B = part.form.turn(q[..., part.body.coordinates])
                out[..., part.body.dofs] = _times(np.swapaxes(B, -1, -2), v[..., part.v])
        return out

    def to_a(self, q: Array, v: Array, a: Array) -> np.ndarray:
        """Acceleration (..., tree.nv), the rate of v, at q and v, to (..., nv)."""
        # their velocity is B(q) v, so their acceleration is B a + Bdot v
        out = self.to_v(q, vectors("a", a, self.tree.nv, finite=False))
        q = np.asarray(q, float)
        v = vectors("v", v, self.tree.nv, finite=False)
        out = out + self._empty(self.nv, v)
        for part in self.parts:
            if part.form.drift:
                out[..., part.v] += part.form.drift(q[..., part.body.coordinates], v[..., part.body.dofs])
        return out

    def from_a(self, q: Array, v: Array, a: Array) -> np.ndarray:
        """Acceleration (..., nv) at q and v to (..., tree.nv)."""
        # a_theirs = B a + Bdot v: the drift Bdot v is their acceleration at a = 0
        drift = self.to_a(self.from_q(q), self.from_v(q, v), np.zeros(self.tree.nv))
        return self.from_v(q, vectors("a", a, self.nv, finite=False) - drift)

    def to_effort(self, q: Array, tau: Array) -> np.ndarray:
        """Generalised efforts (..., tree.nv) at q to (..., nv), of the same power; zero on mimics."""
        q = vectors("q", q, self.tree.nq, finite=False)
        tau = vectors("tau", tau, self.tree.nv, finite=False)
        out = self._empty(self.nv, q, tau)
        for part in self.parts:
            # B^-T = B keeps the power tau . v; the efforts on a leader include its followers' already
            if part.body.joint.mimic is None:
                B = part.form.turn(q[..., part.body.coordinates])
                out[..., part.v] = _times(B, tau[..., part.body.dofs])
        return out

    def from_effort(self, q: Array, tau: Array) -> np.ndarray:
        """Generalised efforts (..., nv) at q (..., nq) to (..., tree.nv), of the same power."""
        q = self.from_q(q)
        tau = vectors("tau", tau, self.nv, finite=False)
        out = self._empty(self.tree.nv, q, tau)
        # += because followers share the freedom of their leader: their efforts act on it with their ratio
        for part in self.parts:
            B = part.form.turn(q[..., part.body.coordinates])
            efforts = _times(np.swapaxes(B, -1, -2), tau[..., part.v])
            out[..., part.body.dofs] += part.body.ratio * efforts
        return out

    def _empty(self, size: int, *arrays: np.ndarray) -> np.ndarray:
        """Zeros (..., size) for the common batch of arrays."""
        return np.zeros((*np.broadcast_shapes(*(array.shape[:-1] for array in arrays)), size))


def pinocchio_layout(tree: OfTree | Tree, model: Any, names: Mapping[str, str] | None = None) -> Layout:
    """The layout of a `pinocchio.Model` of the same mechanism.

    tree    a robot, or its tree
    names   the model's names of joints that are called otherwise in the tree, {tree: model}

    A free joint without counterpart is taken to be the model's one joint of six freedoms without counterpart.
    Pinocchio's planar joints lie in its x, y plane, whatever the axis in a URDF; planar joints about z agree
    with ours. Raises ModelError where joints do not correspond.
    """
    theirs = {}
    for i in range(1, model.njoints):
        nq, nv = model.nqs[i], model.nvs[i]
        if nv:  # not for joints that mimic
            theirs[model.names[i]] = (
                slice(model.idx_qs[i], model.idx_qs[i] + nq),
                slice(model.idx_vs[i], model.idx_vs[i] + nv),
            )
    return _layout(tree, model, "Pinocchio", theirs, names)


def mujoco_layout(tree: OfTree | Tree, model: Any, names: Mapping[str, str] | None = None) -> Layout:
    """The layout of a `mujoco.MjModel` of the same mechanism; otherwise as `pinocchio_layout`."""
    sizes = [(7, 6), (4, 3), (1, 1), (1, 1)]  # mjtJoint: free, ball, slide, hinge
    theirs = {}
    for i, name in enumerate(joint_names(model)):
        nq, nv = sizes[model.jnt_type[i]]
        q = model.jnt_qposadr[i]
        v = model.jnt_dofadr[i]
        theirs[name] = slice(q, q + nq), slice(v, v + nv)
    return _layout(tree, model, "MuJoCo", theirs, names)


def joint_names(model: Any) -> list[str]:
    """The names of a `mujoco.MjModel`'s joints.

    A joint without a name is called like its body where it is the only one there, as in a `TreeBuilder`, and
    otherwise "joint number 3".
    """
    stated = [model.joint(i).name for i in range(model.njnt)]

    def name(i: int, body: int) -> str:
        its = model.body(body).name if model.body_jntnum[body] == 1 else ""
        return stated[i] or (its if its not in stated else "") or f"joint number {i}"

    return [name(i, body) for i, body in enumerate(model.jnt_bodyid)]


def _layout(
    mechanism: OfTree | Tree, model: Any, library: str, theirs: Places, names: Mapping[str, str] | None
) -> Layout:
    """The layout of a library's model, from the places of its joints in q and v."""
    tree = mechanism if isinstance(mechanism, Tree) else mechanism.tree
    names = {body.joint.name: body.joint.name for body in tree.bodies} | dict(names or {})
    # the joint of a floating base has a different name in each library, so one spare joint of six freedoms on
    # each side is enough to match them
    free = [body.joint.name for body in tree.bodies if isinstance(body.joint.group, Free)]
    free = [name for name in free if names[name] not in theirs]
    spare = [name for name, (_, v) in theirs.items() if v.stop - v.start == 6 and name not in names.values()]
    if len(free) == len(spare) == 1:
        names[free[0]] = spare[0]

    parts = []
    for body in tree.bodies:
        joint = body.joint
        name = names[joint.name]
        # fixed joints have no coordinates, and a model may leave followers out
        if joint.dim == 0 or (joint.mimic is not None and name not in theirs):
            continue
        if name not in theirs:
            raise ModelError(
                f"the {library} model has no joint called {name!r}; known are {', '.join(theirs) or 'none'}. "
                "Name it in `names`, or load both models with the same joints (fixed, floating, mimic)"
            )
        q, v = theirs.pop(name)
        size = q.stop - q.start, v.stop - v.start
        # the sizes tell apart several forms of one joint, such as an angle and (cos, sin)
        form = FORMS[library].get(type(joint.group), {}).get(size)
        if form is None:
            raise ModelError(
                f"joint {joint.name!r} is {joint.group!r}, and in the {library} model it has {size[0]} "
                f"coordinates and {size[1]} velocities; no conversion is known: load both models from one "
                "description"
            )
        parts.append(_Part(body, q, v, form))
    # joints of the model that are left over would keep zeros in its q, which is no configuration of them
    if theirs:
        raise ModelError(
            f"the {library} model has joints the tree has not: {', '.join(theirs)}; load both models with "
            "the same joints (fixed, floating, mimic)"
        )
    return Layout(tree, model.nq, model.nv, tuple(parts))


def _joint_coordinates(body: Body, q: np.ndarray) -> np.ndarray:
    """The coordinates of a joint; a follower's are computed from its leader's."""
    coordinates = q[..., body.coordinates]
    return coordinates if body.joint.mimic is None else body.ratio * coordinates + body.offset


def _times(B: np.ndarray, v: np.ndarray) -> np.ndarray:
    """B v (..., m) of matrices (..., m, n) and vectors (..., n)."""
    return (B @ v[..., None])[..., 0]
