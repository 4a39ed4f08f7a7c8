"""Read MJCF, MuJoCo's format, into a tree by MuJoCo itself.

`MjSpec` parses the file with its includes and defaults and compiles it. The tree is made of the compiled
model: names and numbers are MuJoCo's, also the inertias that follow from geoms. docs/descriptions.md has a
table of the elements that are read. Choices:

* q is MuJoCo's qpos, joint by joint: hinges and slides count from their `ref`, a free joint holds the pose in
  the world. `mujoco_layout(tree, model)` converts; velocities of free joints differ.
* Of several joints of a body all but the last move bodies without mass, called "BODY on JOINT".
* A linear `equality` between two hinges or slides, of joints or of fixed tendons, binds a follower, as
  <mimic> does in a URDF. `connect` and `weld` are the tree's `closures`.
* MuJoCo's constraints are soft. Here followers and closures are exact, and limits are numbers.
* One `UnusedElements` warning names every element without effect.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DescriptionError, ModelError, ShapeError, require, warn
from ..bodies import WORLD, Joint, Mimic, SpatialInertia, TreeBuilder
from ..bodies.tree import check_option
from ..contact import HeightField
from ..dynamics import FREE_FALL
from ..groups import SE3, SO3, Fixed, Free, MotionSubgroup, Prismatic, Revolute, Spherical
from ..mechanisms.constrained import Closure, Condition
from ..scalars import Array, maximum, minimum
from .document import counts, is_name, new_name, quoted, read_document
from .layouts import joint_names, mujoco_layout
from .mjcf_sizes import check_limits
from .near_zeros import NearZeros
from .urdf import DescribedTree, Description, DoubtfulInertia, Shape, UnusedElements

REMEDIES = {
    "mjMINVAL": "give the body that it names mass and inertia, or a geom that has some",
    "opening file": "place the file where the description expects it (<compiler meshdir=...>); files of "
    "meshes may be missing where bodies state their inertia, <inertial>",
    "unrecognized": "delete what it names, or correct its name; an <include>d file alone is no model",
    "decoder": "give the file a name that ends in .xml",
    "not found": "define what it names; a file that is made to be included in others is no model of its own",
}
REFERENCE = (
    "correct what it names; https://mujoco.readthedocs.io/en/stable/XMLreference.html has all elements"
)

FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint
CONNECT, WELD, OF_JOINTS, OF_TENDONS = range(4)  # mjtEq
EQUALITIES = ("connect", "weld", "joint", "tendon")
GEOMS = ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "sdf")  # mjtGeom
SIZES = {"plane": 2, "sphere": 1, "capsule": 2, "ellipsoid": 3, "cylinder": 2, "box": 3, "mesh": 3}
TETRAHEDRON = [0.0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]  # vertices
UNLIMITED = 1e10
"""Limits from here on are infinite to MuJoCo."""

COLLISION_GROUP = 3
"""From this geom group on MuJoCo's viewers hide shapes: by custom they are for collisions."""

COUNTS = {
    "ncam": "camera",
    "nlight": "light",
    "nsensor": "sensor",
    "nskin": "skin",
    "nflex": "flex",
    "npair": "contact/pair",
    "nexclude": "contact/exclude",
    "nmocap": "body@mocap",
    "ngravcomp": "body@gravcomp",
    "nplugin": "plugin",
}
"""Counts of a compiled model whose elements have no effect here."""

DISABLED = "CONSTRAINT EQUALITY FRICTIONLOSS LIMIT PASSIVE SPRING DAMPER ACTUATION CLAMPCTRL".split()
"""Effects that <flag> can switch off in MuJoCo, and that act here nevertheless (mjtDisableBit)."""

GEOMS_TOUCH = "contact of geoms"
CONTACTS = "liebody.contact.Contact.of_collisions(robot) makes contacts with the ground of them"
"""The kind under which geoms that can touch are counted, and the remedy."""

WATCHING = ("camera", "light", "sensor", "skin")
"""Counted elements on which no motion depends."""


@dataclass(frozen=True, eq=False)
class Actuator:
    """A motor, a position or velocity servo, or another affine actuator of hinges and slides.

        f = gain u + bias[0] + bias[1] l + bias[2] dl/dt,    l = sum of gear x,    tau = gear f

    gears          {joint: gear}: one joint, or the joints of a fixed tendon; x are their coordinates
    control_range  the least and the largest u that count; infinite if not limited
    force_range    the least and the largest f that count; as above                                  [N m, N]
    """

    name: str
    gears: Mapping[str, float]
    gain: float
    bias: tuple[float, float, float]
    control_range: tuple[float, float]
    force_range: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class MjcfTree(DescribedTree):
    """The tree of an MJCF, or of a robot with a part from one.

    gravity         acceleration of free fall that it states, (3,)                                     [m/s2]
    loops           closures of its loops: `ClosedTree(tree, tree.closures, tree.gravity)`
    reference       the configuration in which it is drawn, (nq,)
    configurations  its keyframes, {name: q (nq,)}
    actuators       the actuators of hinges and slides
    grounds         the height fields of the world, {geom: HeightField}, for `Contact(..., ground=...)`. In a
                    cell MuJoCo has two triangles, and here it is bilinear. Outside the rims go on
    """

    gravity: np.ndarray = field(default_factory=lambda: np.array(FREE_FALL))
    loops: tuple[Closure | Condition, ...] = ()
    reference: np.ndarray = field(default_factory=lambda: np.zeros(0))
    configurations: Mapping[str, np.ndarray] = field(default_factory=dict)
    actuators: tuple[Actuator, ...] = ()
    grounds: Mapping[str, HeightField] = field(default_factory=dict)

    @property
    def closures(self) -> tuple[Closure | Condition, ...]:
        """The closures of the loops of the description."""
        return self.loops

    def actuation(self, q: Array, v: Array, u: Array) -> Array:
        """Efforts tau (nv,) of the actuators at controls u, one for each, in their order        [N m, N]

        It consists of NumPy operators, so that lb.simulate(..., tau=lambda t, q, v: tree.actuation(q, v, u))
        is compiled.
        """
        if np.shape(u) != (len(self.actuators),):
            raise ShapeError(
                f"u has shape {np.shape(u)}, and {self.name} has {len(self.actuators)} actuators: "
                f"{', '.join(a.name for a in self.actuators) or 'none'}; give a control for each"
            )
        bodies = {body.joint.name: body for body in self.bodies}
        tau: list[Any] = [0.0] * self.nv
        for actuator, control in zip(self.actuators, u):
            # l and dl/dt are sums over the joints; by virtual work the force acts on each with its gear
            geared = [(bodies[joint], gear) for joint, gear in actuator.gears.items()]
            l = sum(gear * body.joint_coordinates(q)[0] for body, gear in geared)
            rate = sum(gear * body.joint_rates(v)[0] for body, gear in geared)
            force = actuator.gain * _within(control, actuator.control_range)
            force = force + actuator.bias[0] + actuator.bias[1] * l + actuator.bias[2] * rate
            force = _within(force, actuator.force_range)
            for body, gear in geared:
                i = body.dofs.start
                tau[i] = tau[i] + gear * body.ratio * force
        return np.array(tau)


def _within(x: Any, limits: tuple[float, float]) -> Any:
    """x, numbers or symbols, kept within limits; an infinite limit adds no operation."""
    least, largest = limits
    x = maximum(x, least) if least > -np.inf else x
    return minimum(x, largest) if largest < np.inf else x


def load_mjcf(
    source: str | bytes | os.PathLike[str],
    *,
    floating: bool = False,
    merge_fixed: bool = True,
    mimic: bool = True,
    check: bool | str = True,
    unused: bool = True,
    snap: float = 0.0,
) -> MjcfTree:
    """The tree of an MJCF.

    source       path of the file, or the XML text itself
    floating     must be False: which bodies move freely is said by the file, <freejoint/>
    merge_fixed  weld bodies without joints to their parents, where they leave a frame of their name
    mimic        bind joints that follow others by a linear equality; otherwise they move freely
    check        True: refuse inertias no body can have and motions without inertia; "warn": warn of them;
                 False: load
    unused       whether to warn of elements that act in MuJoCo and have no effect here.
                 `tree.description.unused` always counts them, with cameras, lights, sensors and skins
    snap         tolerance for near-zeros of CAD, as in `load_urdf`: of roll, pitch and yaw of bodies, sites
                 and principal axes, of axes, and of offsets below 1e-6 m. 0: nothing is rounded     [rad]

    Bodies, joints and sites (the frames) have MuJoCo's names. A joint without one is called like its body,
    where it is the only joint there; other elements without a name are called "body number 3" and so on. A
    site that is called like a body is called NAME_site.

    Raises MissingPackage without MuJoCo (pip install mujoco), DescriptionError for files that MuJoCo refuses
    and for improper names, ModelError for impossible mechanisms. Warns (DoubtfulInertia) as stated, and once
    (UnusedElements) of elements without effect.
    """
    check_option(check)
    if floating:
        raise ModelError(
            "an MJCF says itself which bodies move freely; leave floating out, and give a body a <freejoint/>"
        )
    return _Reader(source, NearZeros.within(snap)).tree(merge_fixed, mimic, check, unused)


class _Reader:
    """An MJCF on its way to a tree. The class is long because each kind of MuJoCo's elements has a method.

    model     the model that MuJoCo compiled
    source    how messages call the file
    path      its absolute path; None for text
    said      warnings of MuJoCo
    meshdir   where meshes lie, beside the file
    replaced  {mesh: its file}, where no motion depends on the mesh and MuJoCo did without it
    grounds   height fields of the world, by the names of their geoms
    unused    kinds of elements without effect, counted
    near_zeros  angles and offsets that are rounded, or counted
    """

    def __init__(self, source: Any, near_zeros: NearZeros) -> None:
        self.near_zeros = near_zeros
        document, path = read_document(source)
        self.path = path and Path(os.path.abspath(path))  # so that MuJoCo's names of files are absolute, too
        if document.tag != "mujoco":
            document.fail(
                f"the root element is <{document.tag}>, and that of an MJCF <mujoco>", "pass an MJCF file"
            )
        require("reading MJCF", "mujoco")
        # before MuJoCo reads anything, because MuJoCo sets no limits itself
        check_limits(document, self.path)

        self.source = document.source
        self.unused = Counter[str]()
        self.grounds: dict[str, HeightField] = {}
        # MuJoCo's own warnings become part of the one warning that `tree` gives
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model, self.meshdir, self.replaced, self.flattened = self._compiled(source)
        self.model = model
        self.said = [str(warning.message) for warning in said]
        self.bodies = [WORLD, *(self.name("body", i) for i in range(1, model.nbody))]
        self.joints = [self.name("joint", i, name) for i, name in enumerate(joint_names(model))]
        self.taken = set(self.bodies)
        # sites become frames, and frames share one table of names with bodies
        self.sites = [new_name(self.name("site", i), self.taken, "_site") for i in range(model.nsite)]

    def _compiled(self, source: Any) -> tuple[Any, str, dict[str, str], set[str]]:
        """MuJoCo's model, its folder of meshes, {mesh: its file} and height fields of files it did not read.

        If MuJoCo refuses the model, it gets a second chance without the files on which no motion depends.
        """
        import mujoco

        replaced: dict[str, str] = {}
        flattened: set[str] = set()
        try:
            spec = self._spec(source)
            try:
                return spec.compile(), spec.meshdir, replaced, flattened
            except (ValueError, mujoco.FatalError):
                # a spec that failed to compile is not used again: the second attempt parses the file anew
                spec = self._spec(source)
                flattened = {x.name or Path(x.file).stem for x in spec.hfields if x.file}
                replaced = _without_idle_files(spec)
                return spec.compile(), spec.meshdir, replaced, flattened
        except (ValueError, mujoco.FatalError) as error:
            # ascii() escapes whatever the file puts into MuJoCo's message
            what = "; ".join(ascii(line)[1:-1] for line in str(error).splitlines() if line)
            remedy = next((text for words, text in REMEDIES.items() if words in what), REFERENCE)
            raise DescriptionError(f"{self.source}: MuJoCo refuses it: {what}. Remedy: {remedy}.") from error

    def _spec(self, source: Any) -> Any:
        """The model as MuJoCo parses it."""
        import mujoco

        if self.path is not None:
            return mujoco.MjSpec.from_file(str(self.path))
        data = source if isinstance(source, bytes) else str(source).encode("utf-8", "replace")
        text = data.decode()
        # a byte order mark or blanks before the XML declaration are an error to MuJoCo
        return mujoco.MjSpec.from_string(text.lstrip("\ufeff \t\r\n"))

    def name(self, kind: str, number: int, otherwise: str = "") -> str:
        """The name of one of the model's elements; where it has none, another one, or its number."""
        name = getattr(self.model, kind)(number).name
        if name and not is_name(name):
            raise DescriptionError(
                f"{self.source}: the {kind} {quoted(name)} has no proper name. Remedy: use letters, digits, "
                "blanks and common signs."
            )
        return name or otherwise or f"{kind} number {number}"

    def tree(self, merge_fixed: bool, mimic: bool, check: bool | str, unused: bool) -> MjcfTree:
        """The tree; arguments as in `load_mjcf`."""
        model = self.model
        # Followers first, because joints need them. Loops come after the bodies, whose frames they need, and
        # counts last, when it is known which elements had an effect.
        followers = self._followers(mimic)
        actuators = tuple(self._actuators())
        builder = TreeBuilder(_model_name(model, self.path))
        for i in range(1, model.nbody):
            self._add_body(builder, i, followers)
        for i, name in enumerate(self.sites):
            place = self.rounded(_pose(model.site_pos[i], model.site_quat[i]))
            builder.frame(name, self.bodies[model.site_bodyid[i]], place)
        loops = tuple(self._loops(builder))
        tree = builder.build(check=False)
        # a body without joints may have an inertia that no body has: the sums of welded bodies count
        welded = tree.merge_fixed()
        if check and (findings := welded.findings()):
            text = "\n  ".join([f"{self.source}: no such mechanism can be:", *findings])
            if check != "warn":
                raise ModelError(f'{text}\nRemedy: correct the file, or load it as it is with check="warn".')
            warn(text, DoubtfulInertia)
        tree = welded if merge_fixed else tree
        layout = mujoco_layout(tree, model) if tree.nq else None

        def configuration(qpos: Array) -> np.ndarray:
            # keyframes may hold quaternions that are not of unit length
            return np.asarray(tree.group.normalize(layout.from_q(qpos))) if layout else np.zeros(0)

        keys = {self.name("key", i): configuration(model.key_qpos[i]) for i in range(model.nkey)}
        shapes = tuple(self._shapes())
        self._count_unused()
        acting = {what: n for what, n in self.unused.items() if what not in WATCHING}
        if unused and (acting or self.said):
            text = f"not used: {counts(acting)}" if acting else ""
            text += f"; {CONTACTS}" if GEOMS_TOUCH in acting else ""
            warn(f"{self.source}: {'; '.join(filter(None, [text, *self.said]))}", UnusedElements)
        self.near_zeros.warn(self.source)
        order = tuple(name for name in self.joints if name not in followers)
        return MjcfTree(
            tree.name,
            tree.bodies,
            tree.frames,
            Description(
                tree.name,
                self.source,
                (),
                shapes,
                self.unused,
                joints=order,
                near_zeros=self.near_zeros,
            ),
            _gravity(model),
            loops,
            configuration(model.qpos0),
            keys,
            actuators,
            self.grounds,
            fixed_inertia=tree.fixed_inertia,
        )

    def rounded(self, pose: np.ndarray) -> np.ndarray:
        """A pose (4, 4) without near-zeros."""
        R, p = SE3.parts(pose)
        return np.asarray(SE3.motion(self.near_zeros.rotation(R), self.near_zeros.position(p)), float)

    # -- bodies and joints ----------------------------------------------------------------------------------

    def _add_body(self, builder: TreeBuilder, i: int, followers: Mapping[str, Mimic]) -> None:
        """Body number i: the last of a chain of bodies, one for each of its joints."""
        model = self.model
        parent = self.bodies[model.body_parentid[i]]
        # MuJoCo keeps inertias along principal axes, whose rotation in the body is body_iquat
        R, center = SE3.parts(self.rounded(_pose(model.body_ipos[i], model.body_iquat[i])))
        inertia = SpatialInertia(
            float(model.body_mass[i]), center.copy(), R @ np.diag(model.body_inertia[i]) @ R.T
        )
        placement = self.rounded(_pose(model.body_pos[i], model.body_quat[i]))
        numbers = range(model.body_jntadr[i], model.body_jntadr[i] + model.body_jntnum[i])
        # a body without joints hangs on a fixed joint, whose name must differ from all of MuJoCo's joints
        if not numbers:
            fixed = self.bodies[i] if self.bodies[i] not in self.joints else f"{self.bodies[i]} is fixed"
            builder.add(self.bodies[i], Joint(fixed, Fixed()), inertia, parent, placement)
        # MuJoCo applies the joints of a body one after the other, first joint outermost. Here each joint but
        # the last gets a massless body, and the last one carries the inertia.
        for j in numbers:
            joint = self._joint(j, followers.get(self.joints[j]))
            if isinstance(joint.group, Free):
                placement = np.eye(4)  # MuJoCo's q of a free joint is the pose in the world
            elif joint.dim == 1:  # it is drawn at its ref
                placement = placement @ joint.pose(-model.qpos0[[model.jnt_qposadr[j]]])
            if j == numbers[-1]:
                builder.add(self.bodies[i], joint, inertia, parent, placement)
                break
            name = new_name(f"{self.bodies[i]} on {joint.name}", self.taken)
            builder.add(name, joint, None, parent, placement)
            parent = name
            placement = np.eye(4)

    def _joint(self, j: int, mimic: Mimic | None) -> Joint:
        """Joint number j, with its losses, limits, spring, and the rotors of its actuators."""
        model = self.model
        kind = int(model.jnt_type[j])
        axis = self.near_zeros.axis(model.jnt_axis[j]) if kind in (SLIDE, HINGE) else None
        point = self.near_zeros.position(model.jnt_pos[j])
        group: MotionSubgroup = (
            Free() if kind == FREE
            else Spherical(point) if kind == BALL
            else Prismatic(axis) if kind == SLIDE
            else Revolute(axis, point)
        )  # fmt: skip
        dofs = slice(model.jnt_dofadr[j], model.jnt_dofadr[j] + group.dim)
        numbers: dict[str, Any] = {
            "damping": model.dof_damping[dofs].copy(),
            "friction": model.dof_frictionloss[dofs].copy(),
            "armature": model.dof_armature[dofs].copy(),
        }
        if kind in (SLIDE, HINGE):
            numbers["stiffness"] = float(model.jnt_stiffness[j])
            numbers["rest"] = float(model.qpos_spring[model.jnt_qposadr[j]])
            if model.jnt_limited[j]:
                bounds = np.array(model.jnt_range[j], float)
                # multiplied by infinity, a bound keeps its sign
                bounds[np.abs(bounds) >= UNLIMITED] *= np.inf
                numbers["lower"], numbers["upper"] = bounds
            if model.jnt_actfrclimited[j]:
                # a `Joint` has one effort limit for both directions: the larger one; a difference is counted
                least, most = map(float, model.jnt_actfrcrange[j])
                numbers["effort_limit"] = max(-least, most)
                self.unused["joint@actuatorfrcrange that differs by direction"] += -least != most
            # a rotor turns gear times as fast as its joint: its inertia and damping are felt gear^2 times
            for i, gear in self._rotors(j):
                numbers["armature"] += gear**2 * model.actuator_armature[i]
                numbers["damping"] += gear**2 * model.actuator_damping[i]
        else:
            self.unused["limit of a ball"] += bool(model.jnt_limited[j])
            self.unused["spring of a ball or free joint"] += bool(model.jnt_stiffness[j])
            if kind == FREE and np.any(numbers["armature"]):
                self.unused["armature of a free joint"] += 1
                numbers["armature"] = 0.0
        return Joint(self.joints[j], group, mimic=mimic, **numbers)

    def _rotors(self, j: int) -> Iterator[tuple[int, float]]:
        """The actuators on joint number j whose rotors are part of it, and their gears (MuJoCo 4)."""
        model = self.model
        if hasattr(model, "actuator_armature"):
            for i in range(len(model.actuator_trntype)):
                if model.actuator_trntype[i] in (0, 1) and model.actuator_trnid[i, 0] == j:
                    yield i, self._gear(i)

    # -- equalities -----------------------------------------------------------------------------------------

    def _followers(self, mimic: bool) -> dict[str, Mimic]:
        """The `Mimic` of each follower, by name, from linear equalities between two hinges or slides."""
        followers: dict[str, Mimic] = {}
        for i, kind in enumerate(self.model.eq_type):
            if kind in (OF_JOINTS, OF_TENDONS):
                # an inactive equality has no effect; one that binds no follower is counted
                relation = self._relation(i) if self.model.eq_active0[i] and mimic else None
                if relation is None or not _follow(followers, *relation):
                    self.unused[f"equality/{EQUALITIES[kind]}"] += 1
        return followers

    def _relation(self, i: int) -> tuple[dict[str, float], float] | None:
        """(coefficients, constant) of an equality, sum of c x = constant; None if it is not linear."""
        # MuJoCo: x_1 - x_1(0) = a0 + a1 (x_2 - x_2(0)) + a2 (...)^2 + ..., x a joint or a fixed tendon, with
        # x(0) at qpos0. Tendons are sums of joints, so the terms of both sides are collected by joints.
        model = self.model
        a0, a1, *others = model.eq_data[i, :5]
        # a2 to a4 multiply powers of x_2, and followers are linear
        if any(others):
            return None
        coefficients: defaultdict[int, float] = defaultdict(float)
        for element, factor in ((model.eq_obj1id[i], 1.0), (model.eq_obj2id[i], -float(a1))):
            # all terms go to the left side: x_1 - a1 x_2 = a0 + the same sum at qpos0
            terms = {element: 1.0} if model.eq_type[i] == OF_JOINTS else self._fixed_tendon(element)
            if element >= 0 and not terms:
                return None
            for joint, c in terms.items() if element >= 0 else ():
                coefficients[joint] += factor * c
        start = {j: float(model.qpos0[model.jnt_qposadr[j]]) for j in coefficients}
        constant = float(a0) + sum(c * start[j] for j, c in coefficients.items())
        return {self.joints[j]: c for j, c in coefficients.items() if c}, constant

    def _fixed_tendon(self, tendon: int) -> dict[int, float]:
        """{joint: coefficient}; empty for a spatial tendon."""
        model = self.model
        joint = 1  # mjWRAP_JOINT
        coefficients: defaultdict[int, float] = defaultdict(float)
        # the other objects that a tendon wraps, sites and geoms, make it spatial
        for w in range(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon]):
            if model.wrap_type[w] == joint:
                coefficients[int(model.wrap_objid[w])] += float(model.wrap_prm[w])
        return coefficients

    def _loops(self, builder: TreeBuilder) -> Iterator[Closure]:
        """The connect and weld equalities, between sites, or between frames made for them."""
        model = self.model
        for i, kind in enumerate(model.eq_type):
            if kind in (OF_JOINTS, OF_TENDONS):
                continue
            if kind not in (CONNECT, WELD) or not model.eq_active0[i]:
                kinds = dict(enumerate(EQUALITIES))
                self.unused[f"equality/{kinds.get(int(kind), 'of another kind')}"] += 1
                continue
            name = self.name("equality", i)
            ends = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
            # Between bodies the places are numbers: connect has an anchor in each body; weld has the anchor
            # in the second body, and the pose of the second body's anchor in the first one.
            if int(model.eq_objtype[i]) == 1:  # mjOBJ_BODY
                data = model.eq_data[i]
                frames = []
                first = (data[:3], None) if kind == CONNECT else (data[3:6], data[6:10])
                second = (data[3:6], None) if kind == CONNECT else (data[:3], None)
                for k, (end, place) in enumerate(zip(ends, (first, second), strict=True), start=1):
                    frames.append(new_name(f"{name}_frame{k}", self.taken))
                    builder.frame(frames[-1], self.bodies[end], self.rounded(_pose(*place)))
            else:
                frames = [self.sites[end] for end in ends]
            yield Closure(name, Spherical() if kind == CONNECT else Fixed(), *frames)

    # -- actuators and shapes -----------------------------------------------------------------------------

    def _actuators(self) -> Iterator[Actuator]:
        """The affine actuators without dynamics of hinges and slides; others are counted."""
        model = self.model
        for i in range(len(model.actuator_trntype)):
            gears = self._gears(i)
            # affine means a fixed gain, and no bias or one that is affine in l and dl/dt; activations
            # (dyntype) are states
            affine = not model.actuator_gaintype[i] and model.actuator_biastype[i] in (0, 1)
            if not gears or not affine or model.actuator_dyntype[i]:
                self.unused["actuator of another kind than motor, position, velocity"] += 1
                continue
            bias = model.actuator_biasprm[i, :3] * bool(model.actuator_biastype[i])
            control = _first(model, "ctrl", i)
            yield Actuator(
                self.name("actuator", i),
                gears,
                float(model.actuator_gainprm[i, 0]),
                tuple(map(float, bias)),  # type: ignore[arg-type]
                _range(model.actuator_ctrllimited[control], model.actuator_ctrlrange[control]),
                _range(model.actuator_forcelimited[i], model.actuator_forcerange[i]),
            )

    def _gears(self, i: int) -> dict[str, float]:
        """{joint: gear} of an actuator; empty unless it drives hinges and slides."""
        model = self.model
        kind = model.actuator_trntype[i]
        end = model.actuator_trnid[i, 0]
        terms = {end: 1.0} if kind in (0, 1) else self._fixed_tendon(end) if kind == 3 else {}  # mjtTrn
        # a gear acts on one coordinate, and balls and free joints have several
        if any(model.jnt_type[j] not in (SLIDE, HINGE) for j in terms):
            return {}
        return {self.joints[j]: c * self._gear(i) for j, c in terms.items()}

    def _gear(self, i: int) -> float:
        return float(self.model.actuator_gear[_first(self.model, "out", i), 0])

    def _shapes(self) -> Iterator[Shape]:
        """The geoms as shapes: MuJoCo states half of edges and lengths, `Shape` the whole."""
        model = self.model
        for i in range(model.ngeom):
            kind = GEOMS[model.geom_type[i]]
            mesh = model.geom_dataid[i]
            size = model.geom_size[i]
            placement = _pose(model.geom_pos[i], model.geom_quat[i])
            filename = path = None
            # height and distance fields have no closed form in `Shape`; others than grounds are counted
            if kind == "hfield" and self._is_ground(i):
                self.grounds[self.name("geom", i)] = self._ground(i)
                continue
            if kind in ("hfield", "sdf"):
                self.unused[f"geom of type {kind}"] += 1
                continue
            if kind == "box":
                size = 2 * size
            elif kind in ("capsule", "cylinder"):
                size = np.array([size[0], 2 * size[1]])
            elif kind == "mesh":  # MuJoCo moves a mesh to its centre of mass and principal axes
                placement = placement @ SE3.inverse(_pose(model.mesh_pos[mesh], model.mesh_quat[mesh]))
                size = model.mesh_scale[mesh]
                filename, path = self._mesh(mesh)
            color = model.geom_rgba[i]
            material = model.geom_matid[i]
            # the default grey means that the geom states no color, and its material counts
            if material >= 0 and np.all(color == np.array([0.5, 0.5, 0.5, 1])):
                color = model.mat_rgba[material]
            yield Shape(
                link=self.bodies[model.geom_bodyid[i]],
                role="collision" if model.geom_group[i] >= COLLISION_GROUP else "visual",
                kind=kind,
                placement=placement,
                size=tuple(map(float, size[: SIZES[kind]])),
                filename=filename,
                path=path,
                color=tuple(map(float, color)),
                collides=bool(model.geom_contype[i] or model.geom_conaffinity[i]),
            )

    def _is_ground(self, i: int) -> bool:
        """Whether a height field is fixed to the world, not turned, 2 x 2 or more, and its file was read."""
        model = self.model
        number = model.geom_dataid[i]
        straight = abs(model.geom_quat[i][0]) > 1 - 1e-9
        cells = min(model.hfield_nrow[number], model.hfield_ncol[number]) > 1
        read = model.hfield(number).name not in self.flattened
        return bool(model.geom_bodyid[i] == 0 and straight and cells and read)

    def _ground(self, i: int) -> HeightField:
        """A height field. MuJoCo has its rows along y, around its middle, in units of its largest height."""
        model = self.model
        field_ = model.geom_dataid[i]
        rows, columns = int(model.hfield_nrow[field_]), int(model.hfield_ncol[field_])
        first = model.hfield_adr[field_]
        unit = model.hfield_data[first : first + rows * columns].reshape(rows, columns).T.astype(float)
        half = np.array(model.hfield_size[field_][:2], float)
        place = np.array(model.geom_pos[i], float)
        spacing = 2 * half / [columns - 1, rows - 1]
        heights = place[2] + unit * float(model.hfield_size[field_][2])
        return HeightField(heights, spacing, origin=place[:2] - half, outside="hold")

    def _mesh(self, mesh: int) -> tuple[str, Path | None]:
        """The file of a mesh as the model states it, and its path; None for a path that has no file."""
        model = self.model
        name = model.mesh(mesh).name
        start = model.mesh_pathadr[mesh]
        if name in self.replaced:
            filename = self.replaced[name]
        elif start < 0:
            return self.name("mesh", mesh), None
        else:
            filename = model.paths[start:].split(b"\0", 1)[0].decode(errors="replace")
        here = self.path.parent if self.path else Path.cwd()
        # beside the description, or in its folder of meshes
        candidates = (here / filename, here / self.meshdir / filename)  # MuJoCo 4 joins them itself
        shown = os.path.relpath(filename, here) if Path(filename).is_relative_to(here) else filename
        return shown, next((path for path in candidates if path.is_file()), None)

    def _count_unused(self) -> None:
        """Count the elements without effect that are not counted where they are read."""
        import mujoco

        model = self.model

        def count(*attributes: str) -> int:
            """The number of elements with one of these numbers; older MuJoCos lack some of them."""
            columns: Any = [getattr(model, name) for name in attributes if hasattr(model, name)]
            return sum(any(np.any(x[i]) for x in columns) for i in range(len(columns[0]))) if columns else 0

        spatial = sum(not self._fixed_tendon(t) for t in range(model.ntendon))
        acting = ("stiffness", "damping", "frictionloss", "limited", "armature")
        self.unused.update({what: int(getattr(model, name, 0)) for name, what in COUNTS.items()})
        self.unused[GEOMS_TOUCH] += count("geom_contype", "geom_conaffinity")
        self.unused["fluid (option@density, @viscosity)"] += bool(model.opt.density or model.opt.viscosity)
        self.unused["tendon/spatial"] += spatial
        self.unused["force or limit of a tendon"] += count(*(f"tendon_{name}" for name in acting))
        for name in DISABLED:
            if model.opt.disableflags & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}", 0)):
                self.unused[f"option/flag@{name.lower()} (it acts here)"] += 1
        self.unused["nonlinear stiffness"] += count("jnt_stiffnesspoly")
        self.unused["nonlinear damping"] += count("dof_dampingpoly")
        self.unused["joint@springyield"] += count("jnt_springyield")
        self.unused += Counter()  # without zeros


def _without_idle_files(spec: Any) -> dict[str, str]:
    """Replace the meshes, textures, height fields and skins on which no motion depends.

    MuJoCo then compiles a model whose pictures are missing, or in a format that it does not read. A mesh
    counts for motions where a body takes its inertia from it, or another shape its size. Others become a
    tetrahedron: `_shapes` undoes MuJoCo's change of their frames, so that viewers find each in its place.

    returns  {mesh: its file}
    """
    import mujoco

    # a mesh is needed unless its body has no inertia of it: by <inertial>, in the world, or without weight
    always = int(spec.compiler.inertiafromgeom) == int(mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE)
    needed = set()
    for geom in spec.geoms:
        body = geom.parent
        fixed = body.name == WORLD or (body.explicitinertial and not always)
        weightless = geom.mass == 0 or geom.density == 0
        if GEOMS[int(geom.type)] != "mesh" or not (fixed or weightless):
            needed.add(geom.meshname)
    replaced = {}
    for mesh in spec.meshes:
        mesh.name = mesh.name or Path(mesh.file).stem  # as MuJoCo calls it
        if mesh.name not in needed and mesh.file:
            replaced[mesh.name] = Path(mesh.file).name if spec.strippath else mesh.file
            mesh.file = ""
            mesh.uservert = TETRAHEDRON
    # textures become one flat pixel, and height fields a table of 2 x 2, so that no file is read
    for texture in spec.textures:
        if texture.file or any(texture.cubefiles):
            texture.file = ""
            texture.cubefiles = [""] * len(texture.cubefiles)
            texture.builtin = mujoco.mjtBuiltin.mjBUILTIN_FLAT
            texture.width = 1
            texture.height = 1
    for field_ in spec.hfields:
        if field_.file:
            field_.file = ""
            field_.nrow = 2
            field_.ncol = 2
            field_.userdata = [0.0] * 4
    for skin in list(spec.skins):
        if skin.file:
            spec.delete(skin) if hasattr(spec, "delete") else skin.delete()  # MuJoCo 3.3
    return replaced


def _follow(followers: dict[str, Mimic], coefficients: Mapping[str, float], constant: float) -> bool:
    """Bind one of two joints to the other, if it follows nobody yet: c_1 x_1 + c_2 x_2 = constant."""
    # either joint may be the follower; the first one named is tried first
    for joint, leader in (list(coefficients), list(coefficients)[::-1]) if len(coefficients) == 2 else ():
        # the chain of leaders must not come back to the joint, or nobody would move freely
        last = leader
        while last in followers:
            last = followers[last].joint
        if joint not in followers and last != joint:
            c = coefficients[joint]
            followers[joint] = Mimic(leader, -coefficients[leader] / c, constant / c)
            return True
    return False


def _first(model: Any, what: str, i: int) -> int:
    """The index of the first control ("ctrl") or output ("out") of actuator i; i itself before MuJoCo 4."""
    places = getattr(model, f"actuator_{what}adr", None)
    return i if places is None else int(places[i])


def _model_name(model: Any, path: Path | None) -> str:
    """The name that the file states, else the name of the file: MuJoCo's default tells nothing."""
    name = model.names.split(b"\0", 1)[0].decode(errors="replace")
    return name if is_name(name) and name != "MuJoCo Model" else path.stem if path else "mjcf"


def _gravity(model: Any) -> np.ndarray:
    """Acceleration of free fall, (3,); zero where a flag switches gravity off."""
    import mujoco

    disabled = model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    return np.zeros(3) if disabled else np.array(model.opt.gravity, float)


def _range(limited: Any, limits: Sequence[float]) -> tuple[float, float]:
    """The two limits, infinite if they do not count."""
    least, largest = map(float, limits)
    return (least, largest) if limited else (-np.inf, np.inf)


def _pose(position: Array, quaternion: Array | None) -> np.ndarray:
    """A pose (4, 4); None stands for no rotation."""
    R = np.eye(3) if quaternion is None else SO3.element(np.array(quaternion, float))
    return np.asarray(SE3.motion(R, np.array(position, float)), float)
