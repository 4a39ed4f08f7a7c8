"""Random mechanisms in several libraries, for laws.py.

Of each library it needs

    terms(x, v)        M, C, h, g: mass matrix, Coriolis matrix, bias (gravity included) and gravity forces
    mass(x)            M
    move(x, v, t)      a motion through x whose velocity at t = 0 is v
    poses(x)           poses of the links, (n, 4, 4)
    structure          the brackets [e_i, e_j] = structure[:, i, j] of the velocity's unit vectors, by the
                       library's convention; `others` are those of other conventions, by name

as its own public functions give them. No library is imported before its class is made, and the rest needs
NumPy only: every peer can be measured in an environment of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

Array = Any
GRAVITY = np.array([0.0, 0.0, -9.81])


class Link(NamedTuple):
    """A rigid body and the joint that carries it; the joint's frame is the body's."""

    name: str
    parent: int  # -1: the base
    kind: str
    T: Array  # (4, 4), of the joint's fixed frame in the parent's
    axes: Array  # (3, 3): orthonormal, the first is the joint's
    number: int  # 0, 1, 2: which coordinate axis, where the kind asks for one
    pitch: float
    mass: float
    com: Array
    inertia: Array  # about the centre of mass


BASE = (  # mass, centre of mass and inertia of a base
    3.0,
    np.array([0.1, -0.2, 0.15]),
    np.array([[0.5, 0.02, 0.03], [0.02, 0.6, -0.04], [0.03, -0.04, 0.7]]),
)


def pseudo_inertia(mass: float, com: Array, inertia: Array) -> Array:
    """P = [[Sigma, h], [h^T, m]] (4, 4): twice the kinetic energy is tr(dT P dT^T)."""
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    h = mass * com
    return np.block([[second + np.outer(h, com), h[:, None]], [h, mass]])


def tree_of(kind: str) -> list[tuple[int, str]]:
    """(parent, kind of joint) of each link, numbered depth-first.

    On the base is one joint of the kind, on it are two hinges, and on the first of these another of the kind.
    """
    return [(-1, kind), (0, "revolute, any axis"), (1, kind), (0, "revolute, any axis")]


def random_links(rng: np.random.Generator, joints: Sequence[tuple[int, str]], number: int = 0) -> list[Link]:
    """Links with random bodies, places and axes; number: 0, 1, 2, the axis of joints about x, y or z."""
    links = []
    for k, (parent, kind) in enumerate(joints):
        points = 0.3 * rng.normal(size=(3, 3))
        second = points @ points.T + 0.02 * np.eye(3)
        links.append(
            Link(
                name=f"link{k}",
                parent=parent,
                kind=kind,
                T=random_pose(rng),
                axes=random_pose(rng)[:3, :3].T,
                number=number,
                pitch=rng.normal(),
                mass=rng.uniform(0.5, 2),
                com=0.3 * rng.normal(size=3),
                inertia=np.trace(second) * np.eye(3) - second,
            )
        )
    return links


# -- rigid motions, angular part first ----------------------------------------------------------------------


def skew(a: Array) -> Array:
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def rotation(w: Array) -> Array:
    """exp [w] (3, 3)."""
    angle = np.linalg.norm(w)
    W = skew(w)
    return np.eye(3) + np.sinc(angle / np.pi) * W + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * W @ W


def motion(w: Array, v: Array) -> Array:
    """A motion (4, 4) of velocity (w, v) at w = v = 0: not the exponential, but of the same first order."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation(w), v
    return T


def random_pose(rng: np.random.Generator) -> Array:
    return motion(rng.normal(size=3) * 2, rng.normal(size=3) * 0.5)


def quaternion(R: Array) -> Array:
    """(w, x, y, z) of R, as the eigenvector of Bar-Itzhack's matrix: no branches, no singularity."""
    K = np.zeros((4, 4))
    K[0, 0] = np.trace(R)
    K[1:, 1:] = R + R.T - np.trace(R) * np.eye(3)
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    return np.linalg.eigh(K)[1][:, -1]


def roll_pitch_yaw(R: Array) -> tuple[float, float, float]:
    """Angles of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return (
        float(np.arctan2(R[2, 1], R[2, 2])),
        float(np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))),
        float(np.arctan2(R[1, 0], R[0, 0])),
    )


def bracket(a: Array, b: Array) -> Array:
    """[a, b] of twists (omega, v)."""
    return np.concatenate([np.cross(a[:3], b[:3]), np.cross(a[:3], b[3:]) + np.cross(a[3:], b[:3])])


def product_bracket(a: Array, b: Array) -> Array:
    """[a, b] of SO(3) x R3."""
    return np.concatenate([np.cross(a[:3], b[:3]), np.zeros(3)])


def structure(S: Array, of: Any = bracket) -> Array:
    """c[:, i, j], the coefficients of [S_i, S_j] in the columns of S (6, k)."""
    k = S.shape[1]
    c = [[np.linalg.lstsq(S, of(S[:, i], S[:, j]), rcond=None)[0] for j in range(k)] for i in range(k)]
    return np.array(c).reshape(k, k, k).transpose(2, 0, 1)


def commuting(n: int) -> Array:
    return np.zeros((n, n, n))


def direct_sum(blocks: Sequence[Array]) -> Array:
    n = sum(len(b) for b in blocks)
    c, at = np.zeros((n, n, n)), 0
    for b in blocks:
        s = slice(at, at + len(b))
        c[s, s, s] = b
        at += len(b)
    return c


ANGULAR, LINEAR = np.eye(6)[:, :3], np.eye(6)[:, 3:]
LINEAR_FIRST = np.hstack([LINEAR, ANGULAR])
BODY = structure(LINEAR_FIRST)
BASES = {  # brackets of a floating base's velocity (v, omega)
    "body": BODY,
    "inertial": -BODY,
    "mixed": -structure(LINEAR_FIRST, product_bracket),
}


# -- liebody ------------------------------------------------------------------------------------------------


class Ours:
    """liebody's algorithms on floats. Universal joints and angles are hinges with massless bodies between."""

    package = "liebody"
    seeds = 3
    on_fixed_base = on_floating_base = ("",)
    kinds = (
        "revolute",
        "revolute, any axis",
        "prismatic",
        "prismatic, any axis",
        "helical",
        "helical, any axis",
        "cylindrical",
        "planar",
        "spherical",
        "translation",
        "planar translation",
        "planar-helical",
        "Schoenflies",
        "free flyer",
        "universal, as hinges",
        "ZYX angles, as hinges",
    )

    def __init__(self, links: list[Link], floating: bool, variant: str = "") -> None:
        import liebody as lb
        from liebody import dynamics, groups

        self.dynamics, builder = dynamics, lb.TreeBuilder("mechanism")
        base = "world"
        if floating:
            base = "base"
            builder.add(base, groups.Free(), lb.SpatialInertia(*BASE))
        for link in links:
            parent = base if link.parent < 0 else links[link.parent].name
            *massless, last = self._groups(groups, link)
            placement = link.T
            for k, group in enumerate(massless):
                builder.add(f"{link.name}-{k}", group, None, parent, placement)
                parent, placement = f"{link.name}-{k}", np.eye(4)
            body = lb.SpatialInertia(link.mass, link.com, link.inertia)
            builder.add(link.name, last, body, parent, placement)
        self.tree = builder.build()
        self.nv = self.tree.nv
        self.structure = direct_sum([structure(body.joint.S) for body in self.tree.bodies])
        self.others = {"none": commuting(self.nv), "opposite": -self.structure}
        names = [body.name for body in self.tree.bodies]
        self.carried = [names.index(link.name) for link in links]
        self.base = [names.index("base")] if floating else []

    @staticmethod
    def _groups(groups: Any, link: Link) -> list[Any]:
        axis, second, third = link.axes
        of_three = np.eye(3)[link.number]
        return {
            "revolute": lambda: [groups.Revolute(of_three)],
            "revolute, any axis": lambda: [groups.Revolute(axis)],
            "prismatic": lambda: [groups.Prismatic(of_three)],
            "prismatic, any axis": lambda: [groups.Prismatic(axis)],
            "helical": lambda: [groups.Helical(of_three, link.pitch)],
            "helical, any axis": lambda: [groups.Helical(axis, link.pitch, link.com)],
            "cylindrical": lambda: [groups.Cylindrical(axis, link.com)],
            "planar": lambda: [groups.Planar(axis)],
            "spherical": lambda: [groups.Spherical(link.com)],
            "translation": lambda: [groups.SpatialTranslation()],
            "planar translation": lambda: [groups.PlanarTranslation(axis)],
            "planar-helical": lambda: [groups.PlanarHelical(axis, link.pitch)],
            "Schoenflies": lambda: [groups.Schoenflies(axis)],
            "free flyer": lambda: [groups.Free()],
            "universal, as hinges": lambda: [groups.Revolute(axis), groups.Revolute(second)],
            "ZYX angles, as hinges": lambda: [groups.Revolute(a) for a in (third, second, axis)],
        }[link.kind]()

    def random(self, rng: np.random.Generator) -> Array:
        return self.tree.group.random(rng)

    def move(self, x: Array, v: Array, t: float) -> Array:
        return self.tree.group.integrate(x, t * v)

    def mass(self, x: Array) -> Array:
        return self.dynamics.mass_matrix(self.tree, x)

    def terms(self, x: Array, v: Array) -> tuple[Array, ...]:
        return (
            self.mass(x),
            self.dynamics.coriolis_matrix(self.tree, x, v),
            self.dynamics.bias_forces(self.tree, x, v, GRAVITY),
            self.dynamics.gravity_forces(self.tree, x, GRAVITY),
        )

    def poses(self, x: Array) -> Array:
        return self.dynamics.body_poses(self.tree, x)[self.base + self.carried]


# -- Pinocchio ----------------------------------------------------------------------------------------------


class Pinocchio:
    """Its own joint models, numbered depth-first; `crba` fills the upper triangle, which is mirrored."""

    package = "pin"
    seeds = 3
    on_fixed_base = on_floating_base = ("",)
    kinds = (
        "revolute",
        "revolute, any axis",
        "continuous",
        "continuous, any axis",
        "prismatic",
        "prismatic, any axis",
        "helical",
        "helical, any axis",
        "cylindrical, a composite",
        "planar",
        "spherical",
        "translation",
        "free flyer",
        "universal",
        "ZYX angles",
        "ellipsoid",
        "composite of two hinges",
        "composite of translation and ZYX",
        "universal, as hinges",
        "ZYX angles, as hinges",
    )
    _S: ClassVar[dict[str, Array]] = {  # twists of velocities in joints that do not commute
        "planar": np.stack([LINEAR[:, 0], LINEAR[:, 1], ANGULAR[:, 2]], axis=1),
        "spherical": ANGULAR,
        "free flyer": LINEAR_FIRST,
    }

    def __init__(self, links: list[Link], floating: bool, variant: str = "") -> None:
        import pinocchio as pin

        self.pin, self.model, indices, blocks = pin, pin.Model(), [], []
        if floating:
            base = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
            self.model.appendBodyToJoint(base, pin.Inertia(*BASE), pin.SE3.Identity())
            blocks.append(BODY)
        for link in links:
            parent = int(floating) if link.parent < 0 else indices[link.parent]
            placement = pin.SE3(link.T)
            for k, joint in enumerate(self._joints(pin, link)):
                parent = self.model.addJoint(parent, joint, placement, f"{link.name}-{k}")
                placement = pin.SE3.Identity()
                S = self._S.get(link.kind)
                blocks.append(commuting(joint.nv) if S is None else structure(S))
            inertia = pin.Inertia(link.mass, link.com, link.inertia)
            self.model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
            indices.append(parent)
        self.data = self.model.createData()
        self.nv, self.structure = self.model.nv, direct_sum(blocks)
        self.others = {"none": commuting(self.nv), "opposite": -self.structure}
        self.carried = [1, *indices] if floating else indices

    @staticmethod
    def _joints(pin: Any, link: Link) -> list[Any]:
        axis, second, third = link.axes
        letter = "XYZ"[link.number]

        def composite(*joints: Any) -> Any:
            whole = pin.JointModelComposite(joints[0])
            for joint in joints[1:]:
                whole.addJoint(joint)
            return whole

        hinge, hinges = (
            pin.JointModelRevoluteUnaligned,
            [pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ],
        )
        slides = [pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ]
        return {
            "revolute": lambda: [hinges[link.number]()],
            "revolute, any axis": lambda: [hinge(axis)],
            "continuous": lambda: [getattr(pin, f"JointModelRUB{letter}")()],
            "continuous, any axis": lambda: [_continuous(pin, axis)],
            "prismatic": lambda: [slides[link.number]()],
            "prismatic, any axis": lambda: [pin.JointModelPrismaticUnaligned(axis)],
            "helical": lambda: [getattr(pin, f"JointModelH{letter}")(link.pitch)],
            "helical, any axis": lambda: [pin.JointModelHelicalUnaligned(axis, link.pitch)],
            "cylindrical, a composite": lambda: [composite(hinges[link.number](), slides[link.number]())],
            "planar": lambda: [pin.JointModelPlanar()],
            "spherical": lambda: [pin.JointModelSpherical()],
            "translation": lambda: [pin.JointModelTranslation()],
            "free flyer": lambda: [pin.JointModelFreeFlyer()],
            "universal": lambda: [pin.JointModelUniversal(axis, second)],
            "ZYX angles": lambda: [pin.JointModelSphericalZYX()],
            "ellipsoid": lambda: [pin.JointModelEllipsoid(0.5, 0.7, 0.9)],
            "composite of two hinges": lambda: [composite(hinge(axis), hinge(second))],
            "composite of translation and ZYX": lambda: [
                composite(pin.JointModelTranslation(), pin.JointModelSphericalZYX())
            ],
            "universal, as hinges": lambda: [hinge(axis), hinge(second)],
            "ZYX angles, as hinges": lambda: [hinge(a) for a in (third, second, axis)],
        }[link.kind]()

    def random(self, rng: np.random.Generator) -> Array:
        return self.pin.integrate(self.model, self.pin.neutral(self.model), rng.normal(size=self.nv))

    def move(self, x: Array, v: Array, t: float) -> Array:
        return self.pin.integrate(self.model, x, t * v)

    def mass(self, x: Array) -> Array:
        M = np.triu(self.pin.crba(self.model, self.data, x))
        return M + np.triu(M, 1).T

    def terms(self, x: Array, v: Array) -> tuple[Array, ...]:
        pin, model, data = self.pin, self.model, self.model.createData()
        return (
            self.mass(x),
            pin.computeCoriolisMatrix(model, data, x, v).copy(),
            pin.nonLinearEffects(model, data, x, v).copy(),
            pin.computeGeneralizedGravity(model, data, x).copy(),
        )

    def poses(self, x: Array) -> Array:
        self.pin.forwardKinematics(self.model, self.data, x)
        return np.array([self.data.oMi[i].homogeneous for i in self.carried])


def _continuous(pin: Any, axis: Array) -> Any:
    """A JointModelRevoluteUnboundedUnaligned, whose axis can be set by a URDF only."""
    direction = " ".join(repr(float(a)) for a in axis)
    links = '<parent link="a"/><child link="b"/>'
    joint = f'<joint name="j" type="continuous">{links}<axis xyz="{direction}"/></joint>'
    inertia = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    body = f'<link name="b"><inertial><mass value="1"/>{inertia}</inertial></link>'
    return pin.buildModelFromXML(f'<robot name="r"><link name="a"/>{body}{joint}</robot>').joints[1]


# -- libraries of floating bases ----------------------------------------------------------------------------


class _OnBase:
    """A state x = (pose of the base, joint coordinates); a fixed base is at rest, its rows are cut off."""

    nv: int
    floating: bool
    variant: str
    dofs: list[int]  # of each joint

    def _prepare(self, blocks: list[Array]) -> None:
        joints = direct_sum(blocks)
        self.structure, self.others = joints, {"none": commuting(len(joints)), "opposite": -joints}
        if self.floating:
            all_of = {name: direct_sum([base, joints]) for name, base in BASES.items()}
            self.structure = all_of.pop(self.variant)
            self.others = {"none": commuting(6 + len(joints)), **all_of}
        self.nv = len(self.structure)

    def random(self, rng: np.random.Generator) -> tuple[Array, list[Array]]:
        return random_pose(rng), [self._random_joint(rng, k) for k in range(len(self.dofs))]

    def _random_joint(self, rng: np.random.Generator, k: int) -> Array:
        return rng.normal(size=1)

    def move(self, x: tuple[Array, list[Array]], v: Array, t: float) -> tuple[Array, list[Array]]:
        T, q = x
        if self.floating:
            T = _moved_base(T, t * v[3:6], t * v[:3], self.variant)
            v = v[6:]
        parts = np.split(v, np.cumsum(self.dofs)[:-1])
        return T, [self._moved_joint(k, y, t * u) for k, (y, u) in enumerate(zip(q, parts, strict=True))]

    def _moved_joint(self, k: int, q: Array, u: Array) -> Array:
        return q + u

    def _cut(self, *arrays: Array) -> tuple[Array, ...]:
        arrays = tuple(np.array(a, float) for a in arrays)
        return arrays if self.floating else tuple(a[(slice(6, None),) * a.ndim] for a in arrays)

    def _full(self, v: Array) -> Array:
        return v if self.floating else np.concatenate([np.zeros(6), v])


def _moved_base(T: Array, w: Array, v: Array, representation: str) -> Array:
    if representation == "body":
        return T @ motion(w, v)
    if representation == "inertial":
        return motion(w, v) @ T
    moved = T.copy()
    moved[:3, :3], moved[:3, 3] = rotation(w) @ T[:3, :3], T[:3, 3] + v
    return moved


class IDynTree(_OnBase):
    """Models by its own classes; velocities BODY_FIXED, INERTIAL_FIXED and MIXED, (v, omega)."""

    package = "idyntree"
    seeds = 3
    on_fixed_base, on_floating_base = ("body",), ("body", "inertial", "mixed")
    kinds = ("revolute", "revolute, any axis", "prismatic", "prismatic, any axis", "spherical")

    def __init__(self, links: list[Link], floating: bool, variant: str) -> None:
        import idyntree.bindings as idt

        self.idt, self.links, self.floating, self.variant = idt, links, floating, variant
        model = idt.Model()
        self._add_body(model, "base", *BASE)
        for link in links:
            self._add_body(model, link.name, link.mass, link.com, link.inertia)
        for link in links:
            parent = "base" if link.parent < 0 else links[link.parent].name
            model.addJoint(parent, link.name, f"{link.name}-joint", self._joint(link))
        self.kindyn = idt.KinDynComputations()
        if not (self.kindyn.loadRobotModel(model) and self.kindyn.setFloatingBase("base")):
            raise RuntimeError("iDynTree does not take the model")
        self.kindyn.setFrameVelocityRepresentation(
            getattr(
                idt,
                {"body": "BODY_FIXED", "inertial": "INERTIAL_FIXED"}.get(variant, "MIXED")
                + "_REPRESENTATION",
            )
        )
        self.model = self.kindyn.model()
        self.dofs = [3 if link.kind == "spherical" else 1 for link in links]
        first = [
            self.model.getJoint(self.model.getJointIndex(f"{x.name}-joint")).getDOFsOffset() for x in links
        ]
        if first != list(np.cumsum([0, *self.dofs[:-1]])):
            raise RuntimeError(f"iDynTree numbers the joints otherwise: {first}")
        self._prepare([self._block(link) for link in links])

    @staticmethod
    def _block(link: Link) -> Array:
        return structure(ANGULAR) if link.kind == "spherical" else commuting(1)

    def _transform(self, T: Array) -> Any:
        idt = self.idt
        return idt.Transform(
            idt.Rotation(*map(float, T[:3, :3].ravel())), idt.Position(*map(float, T[:3, 3]))
        )

    def _add_body(self, model: Any, name: str, mass: float, com: Array, inertia: Array) -> None:
        idt = self.idt
        I = idt.RotationalInertia()
        for i, j in np.ndindex(3, 3):
            I.setVal(i, j, float(inertia[i, j]))
        whole, body = idt.SpatialInertia(), idt.Link()
        whole.fromRotationalInertiaWrtCenterOfMass(mass, idt.Position(*map(float, com)), I)
        body.setInertia(whole)
        model.addLink(name, body)

    def _joint(self, link: Link) -> Any:
        idt = self.idt
        if link.kind == "spherical":
            return idt.SphericalJoint(self._transform(link.T))
        direction = link.axes[0] if "any" in link.kind else np.eye(3)[link.number]
        along = link.T[:3, :3] @ direction  # the constructor takes the axis in the parent's frame
        made = idt.RevoluteJoint if link.kind.startswith("revolute") else idt.PrismaticJoint
        axis = idt.Axis(idt.Direction(*map(float, along)), idt.Position(*map(float, link.T[:3, 3])))
        return made(0, 0, self._transform(link.T), axis)  # addJoint sets the links

    def _random_joint(self, rng: np.random.Generator, k: int) -> Array:
        return quaternion(random_pose(rng)[:3, :3]) if self.dofs[k] == 3 else rng.normal(size=1)

    def _moved_joint(self, k: int, q: Array, u: Array) -> Array:
        if self.dofs[k] == 1:
            return q + u
        half = np.linalg.norm(u) / 2  # the velocity is in the child's axes
        turn = np.concatenate([[np.cos(half)], 0.5 * np.sinc(half / np.pi) * u])
        return _quaternion_product(q, turn)

    def _set(self, x: tuple[Array, list[Array]], v: Array) -> None:
        idt, v = self.idt, self._full(v)
        T, q = x
        self.kindyn.setRobotState(
            self._transform(T),
            idt.VectorDynSize.FromPython(np.concatenate(q)),
            idt.Twist.FromPython(v[:6]),
            idt.VectorDynSize.FromPython(v[6:]),
            idt.Vector3.FromPython(GRAVITY),
        )

    def mass(self, x: tuple[Array, list[Array]]) -> Array:
        self._set(x, np.zeros(self.nv))
        n = 6 + sum(self.dofs)
        M = self.idt.MatrixDynSize(n, n)
        self.kindyn.getFreeFloatingMassMatrix(M)
        return self._cut(M.toNumPy())[0]

    def terms(self, x: tuple[Array, list[Array]], v: Array) -> tuple[Array, ...]:
        M = self.mass(x)
        self._set(x, v)
        n = 6 + sum(self.dofs)
        C, M_too, rate = (self.idt.MatrixDynSize(n, n) for _ in range(3))
        self.kindyn.getCoriolisAndMassMatrices(C, M_too, rate)
        forces = []
        for function in (self.kindyn.generalizedBiasForces, self.kindyn.generalizedGravityForces):
            out = self.idt.FreeFloatingGeneralizedTorques(self.model)
            function(out)
            forces.append(np.concatenate([out.baseWrench().toNumPy(), out.jointTorques().toNumPy()]))
        C, h, g = self._cut(C.toNumPy(), *forces)
        return M, C, h, g

    def poses(self, x: tuple[Array, list[Array]]) -> Array:
        self._set(x, np.zeros(self.nv))
        names = [*(["base"] if self.floating else []), *(link.name for link in self.links)]
        return np.array(
            [self.kindyn.getWorldTransform(name).asHomogeneousTransform().toNumPy() for name in names]
        )


def _quaternion_product(a: Array, b: Array) -> Array:
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate([[w], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])


class JaxSim(_OnBase):
    """Models by SDF, in 64 bits; velocity representations Body, Inertial and Mixed, (v, omega).

    One mechanism of each kind, because each is compiled for half a minute.
    """

    package = "jaxsim"
    seeds = 1
    on_fixed_base, on_floating_base = ("body",), ("body", "inertial", "mixed")
    kinds = ("revolute, any axis", "continuous", "prismatic, any axis")

    def __init__(self, links: list[Link], floating: bool, variant: str) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        import jaxsim
        import jaxsim.api as js

        self.js, self.floating, self.variant = js, floating, variant
        self.representation = getattr(jaxsim.VelRepr, variant.capitalize())
        with tempfile.NamedTemporaryFile("w", suffix=".sdf") as file:
            file.write(_sdf(links, floating))
            file.flush()
            self.model = js.model.JaxSimModel.build_from_model_description(Path(file.name), is_urdf=False)
        if self.model.floating_base() != floating:
            raise RuntimeError("JaxSim does not take the base as it was meant")
        names = [*(["base"] if floating else []), *(link.name for link in links)]
        self.carried = [self.model.link_names().index(name) for name in names]
        self.dofs = [1] * self.model.dofs()
        self.compiled = jax.jit(self._everything)
        self._prepare([commuting(1) for _ in self.dofs])

    def random(self, rng: np.random.Generator) -> tuple[Array, list[Array]]:
        T, q = super().random(rng)
        return T if self.floating else np.eye(4), q

    def _everything(self, position: Array, turn: Array, q: Array, v: Array) -> tuple[Array, ...]:
        js = self.js.model
        data = self.js.data.JaxSimModelData.build(
            self.model,
            base_position=position,
            base_quaternion=turn,
            joint_positions=q,
            base_linear_velocity=v[:3],
            base_angular_velocity=v[3:6],
            joint_velocities=v[6:],
            velocity_representation=self.representation,
        )
        return (
            js.free_floating_mass_matrix(self.model, data),
            js.free_floating_coriolis_matrix(self.model, data),
            js.free_floating_bias_forces(self.model, data),
            js.free_floating_gravity_forces(self.model, data),
            js.forward_kinematics(self.model, data),
        )

    def _at(self, x: tuple[Array, list[Array]], v: Array) -> tuple[Array, ...]:
        T, q = x
        return self.compiled(T[:3, 3], quaternion(T[:3, :3]), np.concatenate(q), self._full(v))

    def mass(self, x: tuple[Array, list[Array]]) -> Array:
        return self.terms(x, np.zeros(self.nv))[0]

    def terms(self, x: tuple[Array, list[Array]], v: Array) -> tuple[Array, ...]:
        return self._cut(*self._at(x, v)[:4])

    def poses(self, x: tuple[Array, list[Array]]) -> Array:
        return np.array(self._at(x, np.zeros(self.nv))[4], float)[self.carried]


def _sdf(links: list[Link], floating: bool) -> str:
    def pose(T: Array) -> str:
        return " ".join(repr(float(a)) for a in (*T[:3, 3], *roll_pitch_yaw(T[:3, :3])))

    def body(name: str, frame: str, mass: float, com: Array, I: Array) -> str:
        entries = "".join(
            f"<i{a}{b}>{float(I[i, j])!r}</i{a}{b}>"
            for i, a in enumerate("xyz")
            for j, b in enumerate("xyz")
            if i <= j
        )
        center = pose(motion(np.zeros(3), com))
        inertial = f"<pose>{center}</pose><mass>{float(mass)!r}</mass><inertia>{entries}</inertia>"
        return f'<link name="{name}"><pose{frame}>0 0 0 0 0 0</pose><inertial>{inertial}</inertial></link>'

    parts = [body("base", "", *BASE)]
    if not floating:
        parts.append('<joint name="ground" type="fixed"><parent>world</parent><child>base</child></joint>')
    for link in links:
        parent = "base" if link.parent < 0 else links[link.parent].name
        direction = link.axes[0] if "any" in link.kind else np.eye(3)[link.number]
        kind = "revolute" if link.kind == "continuous" else link.kind.split(",")[0]
        limit = "" if link.kind == "continuous" else "<limit><lower>-9</lower><upper>9</upper></limit>"
        axis = " ".join(repr(float(a)) for a in direction)
        parts.append(
            f'<joint name="{link.name}-joint" type="{kind}">'
            f'<pose relative_to="{parent}">{pose(link.T)}</pose>'
            f"<parent>{parent}</parent><child>{link.name}</child>"
            f"<axis><xyz>{axis}</xyz>{limit}</axis></joint>"
        )
        frame = f' relative_to="{link.name}-joint"'
        parts.append(body(link.name, frame, link.mass, link.com, link.inertia))
    return f'<sdf version="1.10"><model name="mechanism">{"".join(parts)}</model></sdf>'


# -- Robotics Toolbox ---------------------------------------------------------------------------------------


class RoboticsToolbox:
    """Fixed bases: `DHRobot` by standard and modified parameters (chains), `Robot` of links (trees)."""

    package = "roboticstoolbox-python"
    seeds = 3
    on_fixed_base, on_floating_base = ("DH", "modified DH", "links"), ()
    kinds = ("revolute", "prismatic")

    def __init__(self, links: list[Link], floating: bool, variant: str) -> None:
        import roboticstoolbox as rtb
        from spatialmath import SE3

        self.note = ""
        if variant == "links":
            made: list[Any] = []
            for link in links:
                axis = "xyz"[link.number]
                joint = getattr(rtb.ET, ("R" if "revolute" in link.kind else "t") + axis)()
                parent = None if link.parent < 0 else made[link.parent]
                inertial = {"m": link.mass, "r": link.com, "I": link.inertia}
                made.append(
                    rtb.Link(rtb.ET.SE3(SE3(link.T)) * joint, parent=parent, name=link.name, **inertial)
                )
            self.robot = rtb.Robot(made)
        else:
            made = []
            suffix = "MDH" if variant == "modified DH" else "DH"
            for link in links:
                of_kind = "Revolute" if "revolute" in link.kind else "Prismatic"
                free = {"d" if of_kind == "Revolute" else "theta": link.axes[0, 0]}
                made.append(
                    getattr(rtb, of_kind + suffix)(
                        a=link.T[0, 3], alpha=link.pitch, m=link.mass, r=link.com, I=link.inertia, **free
                    )
                )
            self.robot = rtb.DHRobot(made)
        self.robot.gravity = GRAVITY
        self.nv = len(links)
        self.structure, self.others = commuting(self.nv), {}
        if variant == "links":
            zero = np.zeros(self.nv)
            try:
                self.robot.coriolis(zero, zero)
            except ValueError:
                self.note = (
                    "Robot.coriolis raises ValueError; measured with Robot.nofriction returning the robot"
                )
                self.robot.nofriction = lambda *_: self.robot

    def random(self, rng: np.random.Generator) -> Array:
        return rng.normal(size=self.nv)

    def move(self, x: Array, v: Array, t: float) -> Array:
        return x + t * v

    def mass(self, x: Array) -> Array:
        return self.robot.inertia(x)

    def terms(self, x: Array, v: Array) -> tuple[Array, ...]:
        return (
            self.mass(x),
            self.robot.coriolis(x, v),
            self.robot.rne(x, v, np.zeros(self.nv)),
            self.robot.gravload(x),
        )

    def poses(self, x: Array) -> Array:
        return np.array([T.A for T in self.robot.fkine_all(x)])[1:]


PEERS: dict[str, Any] = {
    "liebody": Ours,
    "pinocchio": Pinocchio,
    "idyntree": IDynTree,
    "jaxsim": JaxSim,
    "roboticstoolbox": RoboticsToolbox,
}


def version_of(peer: Any) -> str:
    if peer is Ours:
        from liebody import __version__

        return __version__
    return version(peer.package)
