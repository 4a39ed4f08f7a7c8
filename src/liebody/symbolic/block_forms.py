"""M, C, g and other parts of the equations of motion of a tree, written with named matrices.

In the axes of each body i, with its parent l, the constant twist S_i of its joint, and X_i = Ad(T_i^-1),

    V_i = X_i V_l + S_i v_i                        the body's twist
    J_i = X_i J_l + S_i E_i                        its Jacobian, V_i = J_i v; E_i v = v_i
    dJ_i/dt = X_i dJ_l/dt - ad(S_i v_i) X_i J_l    as dX_i/dt = -ad(S_i v_i) X_i
    M = sum J_i^T I_i J_i
    C = sum J_i^T (I_i dJ_i/dt + C_i J_i)          C_i the body's matrix of a Coriolis form
    g = -sum J_i^T I_i G_i,  G_i = X_i G_l         G_i free fall as an acceleration, G_0 = (0, gravity)

Ploen (1999), Proposition 2. With a floating base the columns of J_i are split, V_i = A_i nu + J_i dq/dt
(Feurstein 2021, eq. 2.47). A mechanism that moves in a plane is written with the 3 x 3 matrices of SE(2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy

from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..bodies import Body, Tree
from ..compiler import to_sympy
from ..dynamics import base_dofs
from ..groups import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from ..scalars import Array
from . import block_algebra as blocks
from .block_algebra import AXES, BlockMatrix, NamedBlock, product, total
from .derivation import Derivation
from .numbers import exact
from .parameters import exact_numbers

TURNING = (Revolute, Helical, Cylindrical, Planar, PlanarHelical, Schoenflies)
BALLS = (Spherical, Free)
SLIDING = (Fixed, Prismatic, PlanarTranslation, SpatialTranslation)
SPELLED = 3  # bodies; sums over more are written with a sign of summation
FORMS = ("christoffel", "ploen", "coadjoint", "feurstein", "newton-euler")  # with a matrix C_i of each body


@dataclass(frozen=True)
class _Columns:
    """A run of velocities to which columns of Jacobians belong: all of v, the base's or the joints'.

    letter  of the Jacobians of these columns
    """

    letter: str
    place: slice

    @property
    def size(self) -> int:
        return self.place.stop - self.place.start


@dataclass(frozen=True, eq=False)
class _BodyBlocks:
    """The matrices of one body: inertia, twist, C_i, free fall; Jacobians and their rates by columns."""

    I: BlockMatrix
    V: BlockMatrix
    C: BlockMatrix
    G: BlockMatrix
    J: tuple[BlockMatrix, ...]
    Jdot: tuple[BlockMatrix, ...]


@dataclass(frozen=True, eq=False)
class _JointBlocks:
    """The matrices of the joint of a body.

    X     of twists of the parent to twists of the body
    S, E  twist per velocity; selection of its velocities, by columns
    own   S v, the body's twist relative to its parent
    """

    X: BlockMatrix
    S: BlockMatrix
    E: tuple[BlockMatrix, ...]
    own: BlockMatrix


Term = Callable[[_BodyBlocks], BlockMatrix]


class BlockForms:
    """Parts of the equations of a mechanism as expressions of named matrices.

    equations  the mechanism in symbols

    Raises ModelError for a form of C that is not made of matrices of the bodies.
    """

    def __init__(self, equations: Derivation) -> None:
        if equations.form not in FORMS:
            raise ModelError(
                f"form {equations.form!r} has no blocks: it is not made of matrices of bodies; use one of "
                f"{', '.join(FORMS)}"
            )
        self.equations = equations
        self.tree = exact_numbers(equations.tree)[0]
        self.normal = _normal_of_plane(self.tree)
        self.dimension = 6 if self.normal is None else 3
        self._names: dict[tuple[str, str], NamedBlock] = {}
        self._rotations: dict[int, BlockMatrix] = {}
        self._of_frames: dict[int, tuple[BlockMatrix, BlockMatrix]] = {}
        # rows of (omega, v) that move: all, or the turn about the normal and the shifts across it
        n = self.normal
        self._rows = range(6) if n is None else (n, 3 + (n + 1) % 3, 3 + (n + 2) % 3)
        # poses of these are polynomials in sines and quaternions, those of other joints may be any functions
        kinds = (*TURNING, *BALLS, *SLIDING)
        self.polynomial = all(isinstance(body.joint.group, kinds) for body in self.tree.bodies)
        self.many = len(self.tree.bodies) > SPELLED
        nv = self.tree.nv
        try:
            # base_dofs refuses a tree without a floating base: then one run of columns has all velocities
            base, joints = base_dofs(equations.tree)
            self.floating = True
            self.columns: tuple[_Columns, ...] = (_Columns("A", base), _Columns("J", joints))
        except ModelError:
            self.floating = False
            self.columns = (_Columns("J", slice(0, nv)),)
        # a floating body without joints has the columns of its base alone
        self.columns = tuple(x for x in self.columns if x.size)

    # -- parts --------------------------------------------------------------------------------------------

    @cached_property
    def mass(self) -> list[list[BlockMatrix]]:
        """The blocks of M by columns."""
        rows: list[list[BlockMatrix]] = []
        for r in range(len(self.columns)):
            rows.append([])
            for c, column in enumerate(self.columns):
                # M is symmetric: blocks below the diagonal are transposes, which share the names above it
                if c < r:
                    rows[r].append(rows[c][r].T)
                    continue
                block = self._over_bodies(_congruence(r, c))
                if r == c:
                    # rotors turn with joints, so their inertia stands on the diagonal
                    block = total(block, self._armature(column))
                rows[r].append(self._block("M", r, c, block))
        return rows

    @cached_property
    def M(self) -> BlockMatrix:
        """The mass matrix."""
        return blocks.grid(self.mass, symmetric=True)

    @cached_property
    def coriolis(self) -> list[list[BlockMatrix]]:
        """The blocks of C by columns."""
        size = range(len(self.columns))
        return [[self._block("C", r, c, self._over_bodies(_coriolis(r, c))) for c in size] for r in size]

    @cached_property
    def C(self) -> BlockMatrix:
        """The Coriolis matrix."""
        return blocks.grid(self.coriolis)

    @cached_property
    def weight(self) -> list[BlockMatrix]:
        """The blocks of g by columns."""
        size = range(len(self.columns))
        return [self._block("g", r, None, -self._over_bodies(_weight(r))) for r in size]

    @cached_property
    def g(self) -> BlockMatrix:
        """The efforts that hold the mechanism at rest."""
        return blocks.grid([[x] for x in self.weight])

    @cached_property
    def kinetic(self) -> BlockMatrix:
        """The kinetic energy, (1, 1)."""
        energy = self._over_bodies(lambda b: product(b.V.T, b.I, b.V))
        for columns in self.columns:
            rates = self._velocity(columns)
            energy = total(energy, product(rates.T, self._armature(columns), rates))
        return blocks.scaled(sympy.Rational(1, 2), energy)

    @cached_property
    def efforts(self) -> BlockMatrix:
        """M dv/dt + C v + g, (nv, 1)."""
        v = self._whole("v", self.equations.v)
        a = replace(self._whole("v", self.equations.a), dot=True)
        M, C, g = (NamedBlock(letter, "", getattr(self, letter)) for letter in "MCg")
        return total(product(M, a), product(C, v), g)

    @cached_property
    def momentum(self) -> BlockMatrix:
        """The momentum of all bodies in the base's velocities: h_b = Mbb nu + Mbq dq/dt."""
        self._need_base("the momentum h_b")
        return self._over_bodies(lambda b: product(b.J[0].T, b.I, b.V))

    @cached_property
    def locked_inertia(self) -> BlockMatrix:
        """Mbb of a floating base."""
        self._need_base("the locked inertia")
        return self.mass[0][0]

    @cached_property
    def connection(self) -> BlockMatrix:
        """Mbb^-1 Mbq of a floating base."""
        self._need_joints("the connection")
        # 0 = Mbb nu + Mbq dq/dt, momentum zero, gives nu = -m dq/dt with m = Mbb^-1 Mbq
        (Mbb, Mbq), _ = self._named("M", self.mass)
        return product(blocks.inverse(Mbb), Mbq)

    @cached_property
    def internal_inertia(self) -> BlockMatrix:
        """Mqq - Mbq^T Mbb^-1 Mbq: the inertia of the joints' motion while the base gives way."""
        m = self._connection_name("the internal inertia")
        (_, Mbq), (_, Mqq) = self._named("M", self.mass)
        return total(Mqq, -product(Mbq.T, m))

    @cached_property
    def external_coriolis(self) -> BlockMatrix:
        """C_x of the locked velocity nu + m dq/dt: the block C_bb. Feurstein (2021), eq. (3.81)."""
        self._need_joints("C_x")
        return self.coriolis[0][0]

    @cached_property
    def mixed_coriolis(self) -> BlockMatrix:
        """C_yx = C_qb - m^T C_b; in the skew forms C_xy = -C_yx^T. Feurstein (2021), eqs (3.81), (3.84)."""
        m = self._connection_name("C_yx")
        (Cbb, _), (Cqb, _) = self._named("C", self.coriolis)
        return total(Cqb, -product(m.T, Cbb))

    @cached_property
    def internal_coriolis(self) -> BlockMatrix:
        """C_y = C_q - C_qb m - m^T C_bq + m^T C_b m. Feurstein (2021), eq. (3.81)."""
        m = self._connection_name("C_y")
        (_, Cbq), (_, Cqq) = self._named("C", self.coriolis)
        Cyx = NamedBlock("C", "yx", self.mixed_coriolis)
        return total(Cqq, -product(Cyx, m), -product(m.T, Cbq))

    @cached_property
    def centroidal_inertia(self) -> BlockMatrix:
        """M_c of the locked velocity of a frame c at the centre of mass, which does not turn."""
        Y = self._from_centroidal
        Mbb = self._block_name("M", 0, 0, self.mass[0][0])
        return product(Y.T, Mbb, Y)

    @cached_property
    def centroidal_coriolis(self) -> BlockMatrix:
        """C_c likewise: C_x of T_x = A_cb = Y^-1, where dT_x/dt = A_cb ad(nu - u). Feurstein, eq. (3.81).

        u is the twist of c in the axes of the base: its linear velocity is the centre of mass's velocity.
        """
        Y = self._from_centroidal
        Mbb = self._block_name("M", 0, 0, self.mass[0][0])
        Cbb = self._block_name("C", 0, 0, self.coriolis[0][0])
        shifts = len(self._seen(np.eye(3)))
        turns = self.dimension - shifts
        # u = (0, h_v / mass): the frame c moves with the centre of mass, and does not turn
        moved = [
            [blocks.zero(turns, turns), blocks.zero(turns, shifts)],
            [blocks.zero(shifts, turns), blocks.one(shifts)],
        ]
        h = NamedBlock("h", "b", self.momentum)
        u = NamedBlock("u", "", blocks.scaled(1 / self.tree.mass, product(blocks.grid(moved), h)))
        relative = total(self._velocity(self.columns[0]), -u)
        return product(Y.T, total(Cbb, -product(Mbb, blocks.ad(relative))), Y)

    @cached_property
    def _from_centroidal(self) -> BlockMatrix:
        """Y = A_cb^-1, of twists of c to twists of the base; c has the axes of the joint's fixed frame."""
        self._need_base("a frame at the centre of mass")
        base = self.tree.bodies[0]
        if base.joint.dim != self.dimension:
            raise ModelError(
                f"{self.tree.name}: its base moves by {base.joint.group!r}; blocks of a frame at the centre "
                "of mass are for Free bases, and in a plane for Planar ones"
            )
        Mbb = self._block_name("M", 0, 0, self.mass[0][0])
        # The first moments m [c] are a block of Mbb, the inertia of the robot with locked joints
        c = blocks.hat(NamedBlock("c", "", blocks.first_moment(Mbb), explained=True))
        fixed = np.array(self._seen(base.placement[:3, :3])) if self.normal is None else None
        R = self._rotation(base if fixed is not None else self._unplaced(base))
        R = R if fixed is None else product(blocks.numbers(fixed.T.tolist()), R)
        if self.normal is None:
            rows = [[R.T, blocks.zero(3, 3)], [product(c, R.T), R.T]]
        else:
            rows = [[blocks.one(1), blocks.zero(1, 2)], [-c, R.T]]
        return NamedBlock("Y", "", blocks.grid(rows))

    # -- bodies -------------------------------------------------------------------------------------------

    @cached_property
    def bodies(self) -> list[_BodyBlocks]:
        """The matrices of the bodies, from the root outwards."""
        # found[i] belongs to body i, the world to 0: parents come before their children
        found = [self._world]
        for body in self.tree.bodies:
            S = self._twist(body)
            X = self._transformation(body) if body.parent else blocks.one(self.dimension)
            E = tuple(self._selection(body, columns) for columns in self.columns)
            joint = _JointBlocks(X, S, E, self._own_velocity(body, S))
            found.append(self._moved(body, found[body.parent], joint, self._inertia(body)))
        return found[1:]

    @property
    def _world(self) -> _BodyBlocks:
        n = self.dimension
        rest = blocks.zero(n, 1)
        still = tuple(blocks.zero(n, columns.size) for columns in self.columns)
        return _BodyBlocks(blocks.zero(n, n), rest, blocks.zero(n, n), rest, still, still)

    def _moved(
        self, body: Body | None, parent: _BodyBlocks, joint: _JointBlocks, I: BlockMatrix
    ) -> _BodyBlocks:
        """The matrices of a body from its parent's matrices; of body i in general, if `body` is None."""
        X = joint.X
        V = self._name("V", body, total(product(X, parent.V), joint.own))
        jacobians = []
        rates = []
        for k, columns in enumerate(self.columns):
            # J_i = X_i J_l + S_i E_i and its rate, with dX_i/dt = -ad(S_i v_i) X_i (head of this module)
            carried = product(X, parent.J[k])
            rate = total(product(X, parent.Jdot[k]), -product(blocks.ad(joint.own), carried))
            jacobians.append(self._name(columns.letter, body, total(carried, product(joint.S, joint.E[k]))))
            rates.append(self._name(columns.letter, body, rate, dot=True))
        C = self._name("C", body, self._coriolis_of_body(body, I, V))
        fall = product(X, parent.G) if body is None or body.parent else self._free_fall(body)
        G = self._name("Gamma", body, fall)
        return _BodyBlocks(I, V, C, G, tuple(jacobians), tuple(rates))

    @cached_property
    def general(self) -> list[NamedBlock]:
        """The definitions of body i, i > 1, where there are too many bodies to write them one by one."""
        if not self.many:
            return []
        n = self.dimension
        shifts = len(self._seen(np.eye(3)))
        R = NamedBlock("R", "i", blocks.zero(shifts, shifts))
        p = NamedBlock("p", "i", blocks.zero(shifts, 1))
        X = self._named_transformation(None, R, p)
        S = NamedBlock("S", "i", blocks.zero(n, 1))
        v = NamedBlock("v", "i", blocks.zero(1, 1))
        # no joint but the first moves the columns of a floating base
        E = tuple(
            blocks.zero(1, columns.size)
            if columns.letter == "A"
            else NamedBlock("E", "i", blocks.zero(1, columns.size), explained=True)
            for columns in self.columns
        )
        parent = self._placeholders(self.parent_index)
        body = self._moved(None, parent, _JointBlocks(X, S, E, product(S, v)), self._placeholders("i").I)
        made = [X, body.V, *body.J, *body.Jdot, body.C, body.G]
        return [x for x in made if isinstance(x, NamedBlock)]

    @property
    def parent_index(self) -> str:
        """How the parent of body i is written: i-1 in a chain, else lambda."""
        chain = all(body.parent == body.index - 1 for body in self.tree.bodies)
        return "i-1" if chain else "lambda"

    def _placeholders(self, index: str) -> _BodyBlocks:
        """The matrices of body `index` as names without a value."""
        n = self.dimension

        def letter(x: str, columns: int, dot: bool = False) -> NamedBlock:
            return NamedBlock(x, index, blocks.zero(n, columns), dot, symmetric=x == "I")

        J, rates = (tuple(letter(c.letter, c.size, dot) for c in self.columns) for dot in (False, True))
        return _BodyBlocks(letter("I", n), letter("V", 1), letter("C", n), letter("Gamma", 1), J, rates)

    def _transformation(self, body: Body) -> BlockMatrix:
        """X_i = Ad(T_i^-1), of twists of the parent to twists of the body."""
        return self._named_transformation(body, self._rotation(body), self._position(body))

    def _named_transformation(self, body: Body | None, R: BlockMatrix, p: BlockMatrix) -> BlockMatrix:
        if self.normal is None:
            rows = [[R.T, blocks.zero(3, 3)], [-product(R.T, blocks.hat(p)), R.T]]
        else:
            rows = [[blocks.one(1), blocks.zero(1, 2)], [product(R.T, blocks.hat(p)), R.T]]
        return self._name("X", body, blocks.grid(rows))

    def _rotation(self, body: Body) -> BlockMatrix:
        """R_i of the body in its parent."""
        known = self._rotations.get(body.index)
        return known or self._rotations.setdefault(body.index, self._made_rotation(body))

    def _made_rotation(self, body: Body) -> BlockMatrix:
        group = body.joint.group
        placed = self._seen(body.placement[:3, :3])
        turned = blocks.one(len(placed))
        q = self._joint_coordinates(body)
        if isinstance(group, TURNING):
            turned = self._turn(body, group.axis, q[0])
        elif isinstance(group, BALLS):
            # 1 + 2 w [e] + 2 [e]^2 of the unit quaternion (w, e)
            e = self._name("epsilon", body, blocks.numbers([[x] for x in q[1:4]]))
            hat = blocks.hat(e)
            turned = total(turned, blocks.scaled(2 * q[0], hat), blocks.scaled(2, product(hat, hat)))
        elif not isinstance(group, SLIDING):
            pose = np.array(self._pose(body)[:3, :3].tolist())
            return self._name("R", body, blocks.numbers(self._seen(pose)))
        return self._name("R", body, product(blocks.numbers(placed), turned))

    def _seen(self, R: Array) -> list[list[Any]]:
        """A rotation (3, 3), or its rows and columns in the plane, (2, 2)."""
        axes = [k - 3 for k in self._rows if k >= 3]
        return [[R[i, j] for j in axes] for i in axes]

    def _turn(self, body: Body, axis: Array, angle: Any) -> BlockMatrix:
        """The rotation by an angle about an axis of norm one."""
        a = [exact(x, roots=True) for x in axis]
        if self.normal is not None:
            return blocks.turn("", angle * a[self.normal])
        # about an axis of the frame: sine and cosine at four places; about another one: Rodrigues' formula
        along = [k for k in range(3) if a[k] != 0]
        if len(along) == 1:
            return blocks.turn(AXES[along[0]], angle * a[along[0]])
        return blocks.turn(blocks.hat(self._name("a", body, blocks.numbers([[x] for x in a]))), angle)

    def _position(self, body: Body) -> BlockMatrix:
        """p_i of the body in its parent."""
        p = self._pose(body)[:3, 3]
        return self._name("p", body, blocks.numbers([[p[k - 3]] for k in self._rows if k >= 3]))

    def _pose(self, body: Body) -> Any:
        """The pose in the parent as a SymPy matrix with exact numbers."""

        def pose(tree: Tree, q: Array) -> Array:
            return tree.bodies[body.index - 1].pose(q)

        values = {"q": list(self.equations.q), "parameter": self.equations.numbers[1]}
        return to_sympy(self.equations.traced(pose, "pose"), values)["pose"]

    def _twist(self, body: Body) -> BlockMatrix:
        """S_i, (6, k), by its angular and linear rows; (3, k) in a plane."""
        k = body.joint.dim
        if not k:
            return blocks.zero(self.dimension, 0)
        S = [[exact(x, roots=True) for x in row] for row in body.twist]
        whole = blocks.numbers([S[i] for i in self._rows])
        if self.normal is None and not blocks.is_one(whole):
            whole = blocks.grid([[self._unit_vectors(S[:3])], [self._unit_vectors(S[3:])]])
        return self._name("S", body, whole)

    def _unit_vectors(self, rows: Sequence[Sequence[Any]]) -> BlockMatrix:
        """Three rows by columns e_x, e_y, e_z, if they are all that there is."""
        explicit = blocks.numbers(rows)
        columns = [list(column) for column in zip(*rows, strict=True)]
        # each column is zero or a unit vector, perhaps with a minus
        straight = all(sum(map(abs, column)) in (0, 1) and column.count(0) >= 2 for column in columns)
        if blocks.is_zero(explicit) or blocks.is_one(explicit) or not straight:
            return explicit
        return blocks.grid([[self._unit_vector(column) for column in columns]])

    def _unit_vector(self, column: Sequence[Any]) -> BlockMatrix:
        """A column that is zero, or has one entry 1 or -1."""
        at = [k for k in range(3) if column[k] != 0]
        if not at:
            return blocks.zero(3, 1)
        axis = AXES[at[0]]
        value = blocks.numbers([[int(k == at[0])] for k in range(3)])
        unit = self._known(("e", axis), lambda: NamedBlock("e", axis, value, explained=True))
        return blocks.scaled(column[at[0]], unit)

    def _own_velocity(self, body: Body, S: BlockMatrix) -> BlockMatrix:
        """S_i v_i: the twist of a body relative to its parent."""
        v = list(self.equations.v)[body.dofs]
        if not v:
            return blocks.zero(self.dimension, 1)
        if len(v) == 1:
            return blocks.scaled(v[0], S)
        return product(S, self._joint_velocity(body, v))

    def _joint_velocity(self, body: Body, v: Sequence[Any]) -> BlockMatrix:
        base = self.floating and body.dofs.start == 0
        letter, index = ("nu", "") if base else ("v", str(self._leader(body)))
        return self._known(
            (letter, index), lambda: NamedBlock(letter, index, blocks.numbers([[x] for x in v]))
        )

    def _velocity(self, columns: _Columns) -> BlockMatrix:
        """The velocities of these columns: nu of the base, dq/dt of its joints, v of a mechanism without."""
        v = blocks.numbers([[x] for x in list(self.equations.v)[columns.place]])
        letter, dot = (
            ("nu", False) if columns.letter == "A" else ("q", True) if self.floating else ("v", False)
        )
        return self._known((letter, ""), lambda: NamedBlock(letter, "", v, dot))

    def _whole(self, letter: str, symbols: Any) -> NamedBlock:
        return NamedBlock(letter, "", blocks.numbers([[x] for x in symbols]))

    def _selection(self, body: Body, column: _Columns) -> BlockMatrix:
        """E_i with E_i v = v_i; zero for velocities of other columns."""
        k = body.joint.dim
        start = body.dofs.start - column.place.start
        if not k or not 0 <= start < column.size:
            return blocks.zero(k, column.size)
        if k == column.size:
            return blocks.one(k)
        value = blocks.numbers([[int(j == start + i) for j in range(column.size)] for i in range(k)])
        leader = str(self._leader(body))
        return self._known(("E", leader), lambda: NamedBlock("E", leader, value, explained=True))

    def _leader(self, body: Body) -> int:
        """The number of the body whose joint has the velocities that this body's joint follows."""
        joints = (b.index for b in self.tree.bodies if b.joint.mimic is None and b.joint.dim)
        return next(i for i in joints if self.tree.bodies[i - 1].dofs == body.dofs)

    def _joint_coordinates(self, body: Body) -> list[Any]:
        q = list(self.equations.q)[body.coordinates]
        return q if body.joint.mimic is None else [body.ratio * x + body.offset for x in q]

    def _free_fall(self, body: Body) -> BlockMatrix:
        """G_i of a body on the world: the acceleration of free fall as a twist, in the body's axes."""
        gravity = np.array(self.equations.gravity, dtype=object)
        if self.normal is None:
            fixed = body
            falling = gravity
        else:
            # in a plane, seen from the fixed frame of the joint, which may be placed anywhere
            fixed = self._unplaced(body)
            falling = body.placement[:3, :3].T @ gravity
        linear = blocks.numbers([[falling[k - 3]] for k in self._rows if k >= 3])
        if blocks.is_zero(linear):
            return blocks.zero(self.dimension, 1)
        fall = self._known(("gamma", ""), lambda: NamedBlock("gamma", "", linear))
        angular = blocks.zero(self.dimension - linear.shape[0], 1)
        return blocks.grid([[angular], [product(self._rotation(fixed).T, fall)]])

    def _unplaced(self, body: Body) -> Body:
        """The body with its joint's fixed frame on the parent's frame."""
        return replace(body, placement=np.eye(4, dtype=int).astype(object))

    def _inertia(self, body: Body) -> BlockMatrix:
        """I_i about the frame of the body."""
        m = body.inertia.mass
        com = list(body.inertia.com)
        central = body.inertia.rotational
        if self.normal is not None:
            i, j = (k - 3 for k in self._rows[1:])
            h = [sympy.cancel(m * com[k]) for k in (i, j)]
            # Steiner's theorem in the plane, about the origin of the body's frame
            turning = sympy.cancel(central[self.normal, self.normal] + m * (com[i] ** 2 + com[j] ** 2))
            explicit = blocks.numbers([[turning, -h[1], h[0]], [-h[1], m, 0], [h[0], 0, m]])
            return self._name("I", body, explicit, symmetric=True)
        # with the moments about the frame: [Theta, [h]; -[h], m 1]
        Theta, H = self._moments(body)
        corner = blocks.scaled(m, blocks.one(3))
        value = blocks.grid([[Theta, H], [-H, corner]])
        if self.equations.form != "ploen" and not blocks.is_zero(H):
            # or about the centre of mass, if that is shorter: [Theta - m [c]^2, m [c]; -m [c], m 1]
            Theta = self._name("Theta", body, blocks.numbers(central.tolist()), symmetric=True)
            c = blocks.hat(self._name("c", body, blocks.numbers([[x] for x in com])))
            turning = total(Theta, blocks.scaled(-m, product(c, c)))
            rows = [[turning, blocks.scaled(m, c)], [blocks.scaled(-m, c), corner]]
            value = min(blocks.grid(rows), value, key=_length)
        return self._name("I", body, value, symmetric=True)

    def _moments(self, body: Body) -> tuple[BlockMatrix, BlockMatrix]:
        """Theta_i, the rotational inertia about the frame of the body, and [h_i], h_i = m c."""
        key = body.index
        if key not in self._of_frames:
            m = body.inertia.mass
            c = sympy.Matrix(list(body.inertia.com))
            central = sympy.Matrix(body.inertia.rotational.tolist())
            # Steiner's theorem: moments about the frame's origin from those about the centre of mass
            about = (central + m * (c.dot(c) * sympy.eye(3) - c * c.T)).applyfunc(sympy.cancel)
            h = blocks.numbers([[sympy.cancel(m * x)] for x in c])
            Theta = self._name("Theta", body, blocks.numbers(about.tolist()), symmetric=True)
            self._of_frames.setdefault(key, (Theta, blocks.hat(self._name("h", body, h))))
        return self._of_frames[key]

    def _coriolis_of_body(self, body: Body | None, I: BlockMatrix, V: BlockMatrix) -> BlockMatrix:
        """C_i with C_i V_i = -ad(V_i)^T I_i V_i, of the form of the equations."""
        # in a plane Ploen's matrix is Christoffel's
        ad = blocks.ad(V)
        form = self.equations.form
        if form == "newton-euler":
            return -product(ad.T, I)
        if form == "coadjoint":
            return blocks.coad(product(I, V))
        if form == "ploen" and self.normal is None:
            if body is None:
                return blocks.zero(self.dimension, self.dimension)
            return self._ploen_of_body(body, V)
        # I ad(V) V = 0, so that I ad(V) may be added to -ad(V)^T I: the sum is skew for each V
        passive = total(product(I, ad), -product(ad.T, I))
        if form == "feurstein":
            return passive
        # coad(I V) V = -ad(V)^T I V as well; the mean of both matrices has Christoffel's symbols
        return blocks.scaled(sympy.Rational(1, 2), total(passive, blocks.coad(product(I, V))))

    def _ploen_of_body(self, body: Body, V: BlockMatrix) -> BlockMatrix:
        """[[w] Theta + Theta [w], [h] [w]; -[w] [h], m [w]]: Ploen (1999), Proposition 1."""
        first = blocks.grid([[blocks.one(3), blocks.zero(3, 3)]])
        W = blocks.hat(NamedBlock("omega", str(body.index), product(first, V), explained=True))
        Theta, H = self._moments(body)
        corner = total(product(W, Theta), product(Theta, W))
        mass = blocks.scaled(body.inertia.mass, W)
        return blocks.grid([[corner, product(H, W)], [-product(W, H), mass]])

    # -- columns and names --------------------------------------------------------------------------------

    def _over_bodies(self, term: Term) -> BlockMatrix:
        """The sum of a term over the bodies."""
        terms = [term(b) for b in self.bodies]
        return blocks.series(term(self._placeholders("i")), terms) if self.many else total(*terms)

    def _armature(self, columns: _Columns) -> BlockMatrix:
        """The diagonal matrix of what rotors add to the inertia of these velocities."""
        diagonal = [sympy.Integer(0)] * columns.size
        for body in self.tree.bodies:
            for k, place in enumerate(body.places):
                if columns.place.start <= place < columns.place.stop:
                    diagonal[place - columns.place.start] += body.armature[k]
        rows = [[x if i == j else 0 for j in range(columns.size)] for i, x in enumerate(diagonal)]
        value = blocks.numbers(rows)
        if blocks.is_zero(value):
            return value
        return self._known(("D", columns.letter), lambda: NamedBlock("D", "", value, symmetric=True))

    def _block(self, letter: str, row: int, column: int | None, x: BlockMatrix) -> BlockMatrix:
        """A block of M, C or g; a name where sums are long."""
        if not self.many or len(self.columns) == 1:
            return x
        return self._block_name(letter, row, column, x)

    def _block_name(self, letter: str, row: int, column: int | None, x: BlockMatrix) -> BlockMatrix:
        if blocks.is_zero(x) or isinstance(x, NamedBlock):
            return x
        index = "bq"[row] + ("" if column is None else "bq"[column])
        symmetric = letter == "M" and row == column
        return self._known((letter, index), lambda: NamedBlock(letter, index, x, symmetric=symmetric))

    def _named(self, letter: str, rows: list[list[BlockMatrix]]) -> list[list[BlockMatrix]]:
        """The blocks of M or C by their names."""
        return [[self._block_name(letter, r, c, x) for c, x in enumerate(row)] for r, row in enumerate(rows)]

    def _connection_name(self, what: str) -> BlockMatrix:
        self._need_joints(what)
        value = self.connection
        return self._known(("connection", ""), lambda: NamedBlock("connection", "", value))

    def _need_base(self, what: str) -> None:
        if not self.floating:
            base_dofs(self.equations.tree)

    def _need_joints(self, what: str) -> None:
        self._need_base(what)
        if len(self.columns) == 1:
            raise ModelError(f"{self.tree.name} has no joints beside its floating base, and so not {what}")

    def _name(
        self, letter: str, body: Body | None, x: BlockMatrix, dot: bool = False, symmetric: bool = False
    ) -> BlockMatrix:
        """A name for x; x itself if it is short, unless a line for all bodies needs the name."""
        needed = self.many and (letter in "XRpAJVISC" or letter == "Gamma")
        if not needed and (blocks.is_zero(x) or blocks.is_one(x) or isinstance(x, NamedBlock)):
            return x
        if body is None:
            return NamedBlock(letter, "i", x, dot, symmetric=symmetric)
        # one line defines those of all bodies that hang on another, and C_i of all bodies
        if letter == "C":
            general = self.many and self.equations.form != "ploen"
        else:
            general = self.many and body.parent > 0 and (letter in "XAJV" or letter == "Gamma")
        return NamedBlock(letter, str(body.index), x, dot, symmetric=symmetric, general=general)

    def _known(self, key: tuple[str, str], make: Callable[[], NamedBlock]) -> NamedBlock:
        """The one object of this name."""
        # threads that make the same name get the same object
        return self._names.get(key) or self._names.setdefault(key, make())


def _congruence(r: int, c: int) -> Term:
    return lambda b: product(b.J[r].T, b.I, b.J[c])


def _coriolis(r: int, c: int) -> Term:
    return lambda b: product(b.J[r].T, total(product(b.I, b.Jdot[c]), product(b.C, b.J[c])))


def _weight(r: int) -> Term:
    return lambda b: product(b.J[r].T, b.I, b.G)


def _normal_of_plane(tree: Tree) -> int | None:
    """The axis 0, 1 or 2 of all bodies about which the mechanism moves in a plane; None if there is none."""
    for normal in range(3):
        # the components of twists that a motion in this plane does not have
        rows = [k for k in range(6) if k not in (normal, *(3 + (normal + i) % 3 for i in (1, 2)))]
        flat = all(x == 0 for b in tree.bodies for k in rows for x in b.joint.S[k])
        # all joints have the same normal, and all bodies on the world the same axes
        parallel = all(b.placement[normal, normal] == 1 for b in tree.bodies if b.parent)
        roots = [b.placement[:3, :3].tolist() for b in tree.bodies if not b.parent]
        if flat and parallel and all(R == roots[0] for R in roots):
            return normal
    return None


def _length(x: BlockMatrix) -> int:
    """Letters of LaTeX of an expression with its definitions."""
    return len(x.latex()) + sum(len(name.latex() + name.value.latex()) for name in blocks.definitions([x]))
