"""Trees of bodies: who hangs on whom, by which joint, and where; checked when they are built."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from ..base.arguments import array_of, checked, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ModelError, ShapeError, counted, known
from ..base.texts import check_name
from ..groups import SE3, Helical, MotionSubgroup, Prismatic, Product, Revolute
from ..scalars import Array
from ..scalars.linear import is_numeric
from .inertia import Moments, SpatialInertia
from .joints import Joint, Mimic, joint_kinds
from .names import joint_named

WORLD = "world"
ORTHOGONAL = 1e-6 + 1e-5 * np.eye(3)
"""How far R R^T of a rotation that is given may be from one, by entries."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to body number `body` (0: the world), at `placement` (4, 4) in the body's frame."""

    name: str
    body: int
    placement: Array


@dataclass(frozen=True, eq=False)
class Body:
    """A body, and the joint that connects it to its parent.

    index        its number, from 1; the world is 0
    parent       the number of its parent, smaller than its own
    placement    pose (4, 4) of the joint's fixed frame in the parent's frame; the body's own frame lies on it
                 when the joint is neutral
    coordinates  where the joint's coordinates stand in q; a mimic shares them with the joint it follows
    dofs         where its velocities stand in v, likewise
    ratio        a mimic's velocity per velocity of the joint it follows; 1 otherwise
    offset       a mimic's coordinate where that joint's is zero; 0 otherwise
    """

    name: str
    index: int
    parent: int
    placement: Array
    joint: Joint
    inertia: SpatialInertia
    coordinates: slice
    dofs: slice
    ratio: float = 1.0
    offset: float = 0.0

    def pose(self, q: Array) -> Array:
        """Pose (4, 4) of the body in its parent, at the tree's configuration q (nq,)."""
        return self.placement @ self.joint.pose(self.joint_coordinates(q))

    def joint_coordinates(self, q: Array) -> Array:
        """Its joint's own coordinates, out of the tree's q."""
        x = q[self.coordinates]
        return x if self.joint.mimic is None else self.ratio * x + self.offset

    def joint_rates(self, v: Array) -> Array:
        """Its joint's own velocities (or accelerations), out of the tree's v."""
        rates = v[self.dofs]
        return rates if self.joint.mimic is None else self.ratio * rates

    @property
    def twist(self) -> Array:
        """S (6, k): the joint's twist per velocity of the tree, V = S v[dofs]."""
        return self.joint.S if self.joint.mimic is None else self.ratio * self.joint.S

    @property
    def places(self) -> range:
        """Where its joint's velocities stand in v, one by one."""
        return range(self.dofs.start, self.dofs.stop)

    @property
    def columns(self) -> list[tuple[int, Array]]:
        """The place in v and the column of S (6,) of each of its joint's velocities."""
        return list(zip(self.places, self.twist.T, strict=True))

    @property
    def armature(self) -> Array:
        """(k,): what the joint's rotor adds to the diagonal of M."""
        return self.joint.armature if self.joint.mimic is None else self.ratio**2 * self.joint.armature

    @property
    def damping(self) -> Array:
        """(k,): effort lost per velocity of the tree."""
        return self.joint.damping if self.joint.mimic is None else self.ratio**2 * self.joint.damping


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """Bodies 1..n, parents before children and numbered depth-first, on a world that is body 0.

    Made by a `TreeBuilder`:

        tree = (
            TreeBuilder("pendulum")
            .add("arm", Revolute([0, 1, 0]), SpatialInertia.rod(1.0, 0.5, com=[0, 0, -0.25]))
            .frame("tip", "arm", [0, 0, -0.5])
            .build()
        )

    q (nq,) holds each joint's coordinates in the order of the bodies, v (nv,) its velocities; `group` is the
    product of the joints' groups, and has neutral(), integrate(q, v), difference(q0, q1), random(rng) and
    check(q) of both.

    fixed_inertia  what is fixed to the world, in the world's frame. It moves once the tree is attached to a
                   body of another one; until then it has no effect
    """

    name: str
    bodies: tuple[Body, ...]
    frames: dict[str, Frame] = field(default_factory=dict)
    fixed_inertia: SpatialInertia = field(default_factory=SpatialInertia, kw_only=True)

    def __repr__(self) -> str:
        bodies = counted(len(self.bodies), "body", "bodies")
        return f"{type(self).__name__} {self.name!r}: {bodies}, nq = {self.nq}, nv = {self.nv}"

    @cached_property
    def group(self) -> Product:
        """The configuration group: the joints' groups, mimics left out."""
        return Product(*(b.joint.group for b in self.bodies if b.joint.mimic is None and b.joint.dim))

    @cached_property
    def nq(self) -> int:
        """Number of coordinates."""
        return sum(b.joint.nq for b in self.bodies if b.joint.mimic is None)

    @cached_property
    def nv(self) -> int:
        """Number of velocities, the degrees of freedom."""
        return sum(b.joint.dim for b in self.bodies if b.joint.mimic is None)

    @cached_property
    def has_mimics(self) -> bool:
        """Whether a joint follows another."""
        return any(b.joint.mimic is not None for b in self.bodies)

    @cached_property
    def limits(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Limits of coordinates: names of their joints, places in q (n,), and numbers (4, n).

        The numbers are ratio, offset, lower and upper of lower <= ratio q + offset <= upper; ratio is 1 and
        offset 0, but for followers. Rotations in space, and limits that are symbols, are left out.
        """
        names = []
        places = []
        numbers = []
        # Limits of quaternions would be limits of no angle; dim != nq tells joints that have one.
        for body in self.bodies:
            joint = body.joint
            if joint.dim != joint.nq or not is_numeric(joint.lower, joint.upper, body.ratio, body.offset):
                continue
            for k in np.flatnonzero(np.isfinite(joint.lower) | np.isfinite(joint.upper)).tolist():
                names.append(joint.name)
                places.append(body.coordinates.start + k)
                numbers.append((body.ratio, body.offset, joint.lower[k], joint.upper[k]))
        return names, np.array(places, int), np.array(numbers, float).reshape(-1, 4).T

    @property
    def coordinate_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest coordinates (nq,) within the limits of all joints that they move; infinite: none.

        Raises ModelError for a coordinate that no value keeps within the limits of all its joints.
        """
        low = np.full(self.nq, -np.inf)
        high = np.full(self.nq, np.inf)
        _, places, (ratio, offset, *ends) = self.limits
        (at,) = np.nonzero(ratio)  # a follower with ratio 0 does not move
        # limits of a joint as limits of the coordinate that moves it, also through the ratio of a follower
        lower, upper = np.sort((np.array(ends)[:, at] - offset[at]) / ratio[at], axis=0)
        np.maximum.at(low, places[at], lower)
        np.minimum.at(high, places[at], upper)
        empty = np.flatnonzero(low > high)
        if len(empty):
            raise ModelError(
                f"{self.name}: coordinate {empty[0]} has no value within the limits of all joints it moves"
            )
        return low, high

    @cached_property
    def mass(self) -> Any:
        """Total mass [kg]."""
        return sum((b.inertia.mass for b in self.bodies), start=0.0)

    def body(self, name: str) -> Body:
        """The body called `name`."""
        return _find(name, {b.name: b for b in self.bodies}, "body", self.name)

    def joint(self, name: str) -> Joint:
        """The joint called `name`."""
        return _find(name, {b.joint.name: b.joint for b in self.bodies}, "joint", self.name)

    def frame(self, name: str) -> Frame:
        """The frame called `name`; the frames of the bodies and the world's have their names."""
        of_bodies = {b.name: Frame(b.name, b.index, np.eye(4)) for b in self.bodies}
        return _find(
            name, {WORLD: Frame(WORLD, 0, np.eye(4)), **of_bodies, **self.frames}, "frame", self.name
        )

    def ancestors(self, index: int) -> list[Body]:
        """Body number `index` and those it hangs on, up to the one on the world."""
        # From the body inwards, which is the order in which recursions carry wrenches.
        path = []
        while index:
            path.append(self.bodies[index - 1])
            index = path[-1].parent
        return path

    @cached_property
    def base_moments(self) -> tuple[Moments, ...]:
        """Moments of the world (0) and of each body, with as many zeros as M, C v and g allow.

        Mass on the axis of a revolute joint, (m, h_z, Sigma_zz) for an axis z through the frame's origin,
        moves with the body and with its parent alike, so the parent can carry it. For any joint, an entry of
        the pseudo-inertia [Sigma h; h^T m] moves to the parent if its J has J S = 0 and stays the same while
        the joint moves, ad_S^T J + J ad_S = 0. Energies and efforts do not change; the moments of a single
        body then belong to no real body. These are the base parameters of Gautier and Khalil (1990) and of
        Mayeda, Yoshida and Osuka (1990).
        """
        P = [np.zeros((4, 4), int), *(b.inertia.moments.pseudo_inertia() for b in self.bodies)]
        # from the leaves inwards, so that a parent passes on what it has taken from its children
        for body in reversed(self.bodies):
            shared = _shared_entries(*map(tuple, _generic(body.joint.S).T.tolist()))
            # The parent's frame, at the joint's neutral place: where the mass sits along the motion does not
            # matter for the entries that are shared.
            T = body.placement
            P[body.parent] = P[body.parent] + T @ (P[body.index] * shared) @ T.T
            P[body.index] = P[body.index] * (1 - shared)
        return tuple(map(Moments.of_pseudo_inertia, P))

    def findings(self) -> list[str]:
        """Physical impossibilities, in words: inertias that no body can have, motions without inertia."""
        inertias = [f"body {b.name!r}: {finding}" for b in self.bodies for finding in b.inertia.findings()]
        return [*inertias, *_motions_without_inertia(self)]

    def with_joints(self, joints: str | Iterable[str]) -> Self:
        """The same tree whose joints keep only these kinds of data, the others ideal; see `joint_kinds`."""
        kinds = joint_kinds(joints)
        bodies = tuple(replace(b, joint=b.joint.with_only(kinds)) for b in self.bodies)
        return replace(self, bodies=bodies)

    def merge_fixed(self) -> Tree:
        """The same mechanism without fixed joints.

        Each fixed body is welded to the body that carries it, and leaves a frame of its name.
        """
        return self.welded({body.index: body.placement for body in self.bodies if body.joint.dim == 0})

    def welded(self, poses: Mapping[int, Array]) -> Tree:
        """The mechanism in which these bodies are welded to the bodies that carry them.

        poses  {number of a body: its pose in its parent, (4, 4)}. The body leaves a frame of its name, and
               its carrier takes over its inertia
        """
        # outward: welded bodies pass on their inertia to the body that carries them
        kept: dict[int, tuple[int, Array]] = {0: (0, np.eye(4))}  # body -> its carrier, and where on it
        carried: dict[int, SpatialInertia] = {0: self.fixed_inertia}
        frames = []
        for body in self.bodies:
            carrier, T = kept[body.parent]
            if body.index in poses:
                pose = T @ poses[body.index]
                kept[body.index] = carrier, pose
                frames.append((body.name, carrier, pose))
                carried[carrier] = carried[carrier] + body.inertia.shift(pose)
            else:
                kept[body.index] = body.index, np.eye(4)
                carried[body.index] = body.inertia
        # the builder gives new numbers: parents are told by name
        builder = TreeBuilder(self.name)
        names = {0: WORLD, **{b.index: b.name for b in self.bodies}}
        for body in self.bodies:
            if body.index not in poses:
                carrier, T = kept[body.parent]
                builder.add(
                    body.name,
                    body.joint,
                    carried[body.index],
                    parent=names[carrier],
                    placement=T @ body.placement,
                )
        for name, carrier, pose in frames:
            builder.frame(name, names[carrier], pose)
        for frame in self.frames.values():
            carrier, T = kept[frame.body]
            builder.frame(frame.name, names[carrier], T @ frame.placement)
        return replace(builder.build(check=False), fixed_inertia=carried[0])

    @classmethod
    def from_screws(
        cls,
        space_screws: Array,
        home_poses: Array,
        inertias: Iterable[SpatialInertia | Array],
        parents: Sequence[int] | None = None,
        name: str = "tree",
    ) -> Tree:
        """A tree from its product of exponentials, T_i = exp(S_1 q_1) ... exp(S_i q_i) M_i on the path to i.

        space_screws  screw axes in the world, at home, (n, 6); |omega| = 1, or omega = 0 and |v| = 1
        home_poses    poses M_i of the body frames in the world where all coordinates are zero, (n, 4, 4)
        inertias      of each body in its frame: SpatialInertia, or (6, 6)
        parents       for each body its parent's position in these lists, -1 for the world; a chain if None

        The joint's screw in its body frame is Ad(M_i^-1) S_i. Raises ShapeError and ModelError.
        Lynch and Park (2017), section 8.3.
        """
        screws = floats("space_screws", space_screws, False)
        homes = floats("home_poses", home_poses, False)
        inertias = list(inertias)
        n = len(screws) if screws.ndim else 0
        if screws.shape != (n, 6) or homes.shape != (n, 4, 4) or len(inertias) != n:
            raise ShapeError(
                f"space_screws has shape {screws.shape}, home_poses {homes.shape}, and there are "
                f"{len(inertias)} inertias; expected (n, 6), (n, 4, 4) and n"
            )
        parents = list(range(-1, n - 1)) if parents is None else list(parents)
        if len(parents) != n or any(not -1 <= p < n for p in parents):
            raise ModelError(
                f"parents {parents} must give each of the {n} bodies a position from -1 to {n - 1}"
            )
        builder = TreeBuilder(name)
        for i, (screw, home, inertia) in enumerate(zip(screws, homes, inertias, strict=True)):
            _check_pose(home, f"home pose {i}")
            J = inertia if isinstance(inertia, SpatialInertia) else SpatialInertia.from_matrix(inertia)
            parent = parents[i]
            # At home all joints are neutral: the pose in the parent is the joint's placement.
            placement = home if parent < 0 else SE3.inverse(homes[parent]) @ home
            group = _one_parameter_group(SE3.Ad(SE3.inverse(home)) @ screw, i)
            carrier = f"body{parent + 1}" if parent >= 0 else WORLD
            builder.add(f"body{i + 1}", Joint(f"joint{i + 1}", group), J, carrier, placement)
        return builder.build()


class OfTree:
    """Base of objects made from a tree of bodies, with its dimensions."""

    tree: Tree

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.tree.nq

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return self.tree.nv

    @property
    def group(self) -> Product:
        """The configuration group: the product of the joints' groups."""
        return self.tree.group


class TreeBuilder:
    """Collects bodies and frames in any order; `build` numbers them, checks them and makes the `Tree`."""

    def __init__(self, name: str = "tree") -> None:
        check_name("a tree", name)
        self.name = name
        self._bodies: dict[str, tuple[Joint, SpatialInertia, str, Array]] = {}
        self._frames: dict[str, tuple[str, Array]] = {}

    def __repr__(self) -> str:
        return f"TreeBuilder {self.name!r}, not yet built"

    @partial(checked, but=("joint", "inertia"))
    def add(
        self,
        name: str,
        joint: Joint | MotionSubgroup | str,
        inertia: SpatialInertia | None = None,
        parent: str = WORLD,
        placement: Array | None = None,
    ) -> TreeBuilder:
        """Add a body, and return the builder.

        joint      a Joint, or only its group, e.g. Revolute([0, 0, 1]), and then it is called like the body;
                   or the name of a joint that needs no arguments, "spherical" or one of another package
                   (`bodies.joint_named`)
        inertia    in the body's frame; none if None
        parent     name of the body it hangs on, which may be added later
        placement  where the joint sits in the parent's frame: a pose (4, 4), a translation (3,), or None
        """
        check_name("a body", name)
        if name in self._bodies or name == WORLD:
            raise ModelError(
                f"there are two bodies called {name!r}; give each its own name ({WORLD!r} is the world's)"
            )
        if isinstance(joint, str):
            kind = joint_named(joint)
            joint = replace(kind, name=name) if isinstance(kind, Joint) else kind
        if not isinstance(joint, Joint):
            joint = Joint(name, joint)
        if inertia is not None and not isinstance(inertia, SpatialInertia):
            raise ModelError(f"body {name!r}: inertia is {inertia!r}, expected a SpatialInertia or None")
        pose = as_pose(placement, f"placement of body {name!r}")
        self._bodies[name] = (joint, inertia or SpatialInertia(), parent, pose)
        return self

    @checked
    def frame(self, name: str, body: str, placement: Array | None = None) -> TreeBuilder:
        """Add a named frame fixed to `body`, at `placement` in its frame, and return the builder."""
        check_name("a frame", name)
        if name in self._frames or name == WORLD:
            raise ModelError(f"there are two frames called {name!r}; give each its own name")
        self._frames[name] = (body, as_pose(placement, f"placement of frame {name!r}"))
        return self

    @checked
    def build(self, check: bool | str = True) -> Tree:
        """Number the bodies depth-first and make the tree.

        check  True: raise ModelError for inertias no body can have and for motions without inertia;
               "warn": warn of them; False: let them pass. `Tree.findings` lists them.

        Raises ModelError for unknown parents, bodies that hang on each other in a circle, two joints of a
        name, and mimics of unknown joints, always.
        """
        check_option(check)
        # depth first, so that each subtree is one run of numbers, and its velocities one slice of v
        order = self._depth_first()
        leaders = self._leaders()
        index = {WORLD: 0, **{name: i for i, name in enumerate(order, start=1)}}
        # only joints that lead have coordinates; followers share them, by their own map
        coordinates = {}
        dofs = {}
        nq = 0
        nv = 0
        for name in order:
            joint = self._bodies[name][0]
            if joint.mimic is None:
                coordinates[joint.name] = slice(nq, nq := nq + joint.nq)
                dofs[joint.name] = slice(nv, nv := nv + joint.dim)
        bodies = []
        for name in order:
            joint, inertia, parent, placement = self._bodies[name]
            leader = leaders[joint.name]
            place = coordinates[leader.joint], dofs[leader.joint], leader.multiplier, leader.offset
            bodies.append(Body(name, index[name], index[parent], placement, joint, inertia, *place))
        frames = {}
        for name, (body_name, placement) in self._frames.items():
            if name in self._bodies:
                raise ModelError(f"frame {name!r} is called like a body; give it its own name")
            if body_name not in index:
                raise ModelError(
                    f"frame {name!r} is fixed to {body_name!r}, and there is no such body; "
                    f"{known(index, body_name)}"
                )
            frames[name] = Frame(name, index[body_name], placement)
        tree = Tree(self.name, tuple(bodies), frames)
        # All findings in one message: whoever repairs a description sees them together.
        findings = tree.findings() if check else []
        if findings and check != "warn":
            raise ModelError("\n".join([f"{self.name}: no such mechanism can be:", *findings]))
        for finding in findings:
            warnings.warn(f"{self.name}: {finding}", stacklevel=2)
        return tree

    def _depth_first(self) -> list[str]:
        """The names of the bodies, each after its parent, each subtree in one run."""
        children: dict[str, list[str]] = {name: [] for name in (WORLD, *self._bodies)}
        for name, (_, _, parent, _) in self._bodies.items():
            if parent not in children:
                raise ModelError(
                    f"body {name!r} hangs on {parent!r}, and there is no such body; {known(children, parent)}"
                )
            children[parent].append(name)
        # a stack, in reverse, so that children come in the order in which they were added
        order: list[str] = []
        pending = children[WORLD][::-1]
        while pending:
            order.append(pending.pop())
            pending += children[order[-1]][::-1]
        # bodies that the world does not reach hang on each other
        reached = set(order)
        circle = [name for name in self._bodies if name not in reached]
        if circle:
            raise ModelError(
                f"bodies {', '.join(map(repr, circle))} hang on each other in a circle and not on the "
                "world; a tree has none: cut the loop at one joint"
            )
        return order

    def _leaders(self) -> dict[str, Mimic]:
        """For each joint the one whose coordinate it has, and by which map; itself if it mimics none."""
        joints: dict[str, Joint] = {}
        for joint, *_ in self._bodies.values():
            if joint.name in joints:
                raise ModelError(f"there are two joints called {joint.name!r}; give each its own name")
            joints[joint.name] = joint
        leaders: dict[str, Mimic] = {}
        for joint in joints.values():
            # along the chain of mimics to a joint that leads, or whose leader is known already
            followers: dict[str, Mimic] = {}
            while joint.mimic is not None and joint.name not in leaders:
                if joint.name in followers:
                    raise ModelError(
                        f"joints {', '.join(followers)} mimic each other in a circle; one must lead"
                    )
                if joint.mimic.joint not in joints:
                    raise ModelError(
                        f"joint {joint.name!r} mimics {joint.mimic.joint!r}; "
                        f"{known(joints, joint.mimic.joint)}"
                    )
                followers[joint.name] = joint.mimic
                joint = joints[joint.mimic.joint]
            if followers and (joint.dim, joint.nq) != (1, 1):
                raise ModelError(
                    f"joint {next(iter(followers))!r} mimics {joint.name!r}, which has {joint.dim} degrees "
                    "of freedom; only a joint of one can be followed"
                )
            # and back, composing the maps x = multiplier y + offset
            led = leaders.setdefault(joint.name, Mimic(joint.name))
            for name, mimic in reversed(followers.items()):
                led = Mimic(
                    led.joint, mimic.multiplier * led.multiplier, mimic.multiplier * led.offset + mimic.offset
                )
                leaders[name] = led
        return leaders


def check_option(check: Any) -> None:
    """Raise ModelError for a `check` that builders and readers do not know."""
    if check not in (True, False, "warn"):
        raise ModelError(f'check is {check!r}, expected True, False or "warn"')


def _find(name: str, table: dict[str, Any], kind: str, tree: str) -> Any:
    if name not in table:
        raise ModelError(f"{tree} has no {kind} called {name!r}; {known(table, name)}")
    return table[name]


def as_pose(placement: Array | None, what: str) -> Array:
    """A pose (4, 4) from a pose, a translation or None; round-off next to 0 and 1 in its R is removed."""
    if placement is None:
        return np.eye(4)
    T = array_of(what, placement)
    if T.shape == (3,):
        T = SE3.motion(np.eye(3), T)
    _check_pose(T, what)
    if not is_numeric(T):
        return T
    # Round-off such as cos(pi/2) = 6e-17 becomes an exact zero, which vanishes from traced code.
    R = T[:3, :3].astype(float)
    exact = np.round(R)
    return SE3.motion(np.where(np.abs(R - exact) < 1e-14, exact, R), T[:3, 3].astype(float))


def _check_pose(T: Array, what: str) -> None:
    if T.shape != (4, 4):
        raise wrong_shape(what, T.shape, "a pose (4, 4) or a translation (3,)")
    if is_numeric(T):
        T = T.astype(float)
        R = T[:3, :3]
        if not np.all(np.isfinite(T)):
            raise ModelError(f"{what} must be finite:\n{T}")
        if not (
            np.all(np.abs(R @ R.T - np.eye(3)) <= ORTHOGONAL)
            and np.linalg.det(R) > 0
            and np.array_equal(T[3], [0, 0, 0, 1])
        ):
            raise ModelError(f"{what} is not a rigid motion [R p; 0 1] with R a rotation:\n{T}")


def _one_parameter_group(screw: Array, position: int) -> MotionSubgroup:
    """The joint that moves along one screw (6,), given in its own frame."""
    omega = screw[:3]
    v = screw[3:]
    turning = np.linalg.norm(omega)
    length = turning if turning > 1e-9 else np.linalg.norm(v)
    if abs(length - 1) > 1e-6:
        raise ModelError(
            f"screw {position} is {screw.tolist()} in its body's frame, of length {length:.6g}; give "
            "it with |omega| = 1, or omega = 0 and |v| = 1"
        )
    if turning <= 1e-9:
        return Prismatic(v)
    # v = point x omega + pitch omega, with the point of the axis that is nearest to the origin.
    pitch = omega @ v
    point = np.cross(omega, v)
    clean = np.where(np.abs(point) < 1e-14, 0.0, point)
    return Revolute(omega, clean) if abs(pitch) < 1e-12 else Helical(omega, pitch, clean)


def _generic(S: Array) -> Array:
    """S with numbers in place of symbols, among which no equation holds but by chance."""
    if is_numeric(S):
        return S
    # square roots of 2, 3, 4, ...: an equation between them holds only if it holds for symbols, too
    numbers = np.sqrt(np.arange(2.0, 2 + S.size)).reshape(S.shape)
    return np.where([[is_numeric(x) for x in row] for row in S], S, numbers).astype(float)


@lru_cache(maxsize=256)
def _shared_entries(*columns: tuple[float, ...]) -> Array:
    """(4, 4) of 0 and 1: entries of a body's pseudo-inertia that its parent can carry, by columns of S."""
    # Entry by entry of the ten: J of this entry alone must neither resist the joint nor change as it moves.
    S = np.array(columns).reshape(-1, 6).T
    shared = np.zeros((4, 4), int)
    for i in range(4):
        for j in range(i + 1):
            P = np.zeros((4, 4))
            P[i, j] = P[j, i] = 1  # the pseudo-inertia of this entry alone
            J = Moments.of_pseudo_inertia(P).matrix()
            still = all(not np.any(SE3.ad(s).T @ J + J @ SE3.ad(s)) for s in S.T)
            shared[i, j] = shared[j, i] = still and not np.any(J @ S)
    return shared


def _motions_without_inertia(tree: Tree) -> Iterable[str]:
    """The joints that some effort would accelerate without bound, at a configuration as good as any.

    D = S^T I_A S with the articulated inertias I_A (Featherstone 2008, section 7.2); followers count on their
    leader's side.
    """
    inertias = [x for b in tree.bodies for x in (b.inertia.mass, b.inertia.com, b.inertia.rotational)]
    if not is_numeric(*inertias, *(x for b in tree.bodies for x in (b.placement, b.joint.armature))):
        return
    if not all(np.all(np.isfinite(np.asarray(x, float))) for x in inertias):
        return
    # a random configuration: special ones may hide a motion or block it
    q = np.random.default_rng(0).normal(size=tree.nq)
    q = tree.group.normalize(q) if tree.nq else q
    articulated = [np.zeros((6, 6)), *(b.inertia.matrix().astype(float) for b in tree.bodies)]
    composite = [J.copy() for J in articulated]
    resisting: dict[int, Any] = {}  # by first degree of freedom: D, and its size with all joints fixed
    # inward, as in the articulated-body algorithm: D of each joint, and the inertia that its parent feels
    for body in reversed(tree.bodies):
        IA = articulated[body.index]
        S = body.twist
        X = SE3.Ad(SE3.inverse(body.pose(q).astype(float)))
        if body.joint.dim:
            D = S.T @ IA @ S + np.diag(body.armature)
            size = np.diag(S.T @ composite[body.index] @ S + np.diag(body.armature))
            # A follower has its leader's place: their inertias add up there.
            so_far = resisting.get(body.dofs.start, (0.0, 0.0))
            resisting[body.dofs.start] = so_far[0] + D, so_far[1] + size
            if body.joint.mimic is None:
                # D is scaled by its largest entry: the inverse of a tiny one could overflow
                U = IA @ S
                unit = np.abs(D).max() or 1.0
                IA = IA - U @ np.linalg.pinv(D / unit, rcond=1e-13, hermitian=True) @ (U.T / unit)
        articulated[body.parent] += X.T @ IA @ X
        composite[body.parent] += X.T @ composite[body.index] @ X
    # a motion counts as free if D is round-off beside the inertia with all joints fixed
    for body in tree.bodies:
        if body.joint.dim and body.joint.mimic is None:
            D, size = resisting[body.dofs.start]
            least, directions = np.linalg.eigh(D)
            if not least[0] > 1e-13 * np.max(size):
                along = f" along {np.round(directions[:, 0], 6).tolist()}" if body.joint.dim > 1 else ""
                kind = type(body.joint.group).__name__
                yield (
                    f"body {body.name!r} moves by joint {body.joint.name!r} ({kind}){along} without any "
                    f"inertia (mass {body.inertia.mass} kg, and nothing behind it that would resist); give "
                    "it or what it carries mass and rotational inertia, give the joint armature, or fix it"
                )
