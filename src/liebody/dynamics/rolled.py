"""Dynamics of long trees as programs, whose text does not grow with the number of bodies.

The steps are those of `inverse`, `forward` and `energy`, traced once per *kind* of body: the same joint,
numbers that are zero or one in the same places, the same role in the tree. What differs are tables of
numbers. So a chain of a thousand links is a few hundred lines in a loop. See docs/decisions/0006.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bodies import Body, Moments, SpatialInertia, Tree
from ..codegen import Expr, Function, Program, trace
from ..codegen.program import Call
from ..groups import SE3, LieGroup, Product, R
from ..linear import is_numeric, symmetric
from .energy import kinetic_step, moment_out
from .forward import acceleration, inertia_blocks, inward, velocity_terms
from .inverse import FREE_FALL, Rates, joint_effort, outward, rates_of_world
from .spatial import Motion

Array = Any
Cells = Any
LONG = 10_000  # operations from which on a loop is as fast as straight-line code, and compiles sooner
REPEATED = 4  # bodies of a kind, in the mean, below which a loop is hardly shorter
UPPER = np.triu_indices(3)
NOTHING = Moments(0, np.zeros(3), np.zeros((3, 3)))  # of the world


def rolled(
    passes: Callable[..., Cells],
    tree: Tree,
    shapes: Mapping[str, Any],
    name: str,
    least: int | None = None,
    **options: Any,
) -> Program | None:
    """The program of `passes`, if a tree is long and repeats itself; None if straight-line code is as good.

    passes   one of those below
    shapes   its arguments in cells, by name, and their shapes, which become the inputs
    least    operations and stores from which on a tree is long; `LONG` if None
    options  its other arguments
    """
    if not repeats(tree):
        return None
    program = Program(name, shapes)
    program.output(name, passes(program, tree, **program.inputs, **options))
    work = sum(program.operations.values()) + sum(cells.size for cells in program.outputs.values())
    return program if work > (LONG if least is None else least) else None


def repeats(tree: Tree) -> bool:
    """Whether a tree has at least `REPEATED` bodies of a kind, in the mean.

    Its numbers must be known, and no joint may follow another.
    """
    if tree.has_mimics or not is_numeric(*(_numbers(b, b.inertia.moments) for b in tree.bodies)):
        return False
    kinds = _grouped(tree, [NOTHING, *(body.inertia.moments for body in tree.bodies)])
    return len(tree.bodies) >= REPEATED * max(1, len(kinds))


def inverse_dynamics_passes(
    program: Program,
    tree: Tree,
    q: Cells,
    v: Cells | None = None,
    a: Cells | None = None,
    gravity: Array = FREE_FALL,
    wrenches: Cells | None = None,
    damping: bool = False,
) -> Cells:
    """Add `inverse_dynamics` to a program; arguments and the result tau (nv,) are cells of it.

    Without a it is `bias_forces`, and without v `gravity_forces`.
    """
    kinds = _Kinds(program, tree, tree.base_moments, q)
    falling = rates_of_world(gravity)
    resting = v is None and a is None  # then accelerations of the origins are all that moves outwards

    def moving(
        kind: _Kind, body: Body, moments: Moments, x: Array, v: Any = None, a: Any = None,
        parent: Any = None, wrench: Any = 0,
    ) -> tuple[Array, Array]:  # fmt: skip
        if kind.root:
            before = falling
        elif resting:
            before = falling._replace(acc=parent)
        else:
            before = Rates(parent[:3], parent[3:6], parent[6:9], parent[9:].reshape(3, 3))
        v, a = (kind.rest if rate is None else rate for rate in (v, a))
        own, n, f = outward(body, moments, Motion(body, x), v, a, before)
        handed = own.acc if resting else np.concatenate([own.w, own.alpha, own.acc, own.U.ravel()])
        return np.concatenate([n, f]) - wrench, handed

    def loaded(
        kind: _Kind, body: Body, moments: Moments, x: Array, load: Array, v: Any = None, a: Any = None,
        below: Any = 0,
    ) -> tuple[Array, Array]:  # fmt: skip
        n, f = np.split(load + below, 2)
        v, a = (kind.rest if rate is None else rate for rate in (v, a))
        tau = joint_effort(body, n, f, v, a, damping)
        return tau, np.concatenate(Motion(body, x).wrench_out(n, f))

    def given(kind: _Kind) -> dict[str, Any]:
        rates = {key: x[kind.dofs] for key, x in (("v", v), ("a", a)) if x is not None}
        return {"x": kind.x, **rates}

    width = 3 if resting else 18
    load = kinds.outwards("moving", moving, width, lambda kind: given(kind) | kind.own("wrench", wrenches))
    tau = kinds.inwards("loaded", loaded, 6, lambda kind: {**given(kind), "load": load[kind]})
    return kinds.joined(tree.nv, tau)


def forward_dynamics_passes(
    program: Program,
    tree: Tree,
    q: Cells,
    v: Cells,
    tau: Cells,
    gravity: Array = FREE_FALL,
    wrenches: Cells | None = None,
    damping: bool = False,
) -> Cells:
    """Add `forward_dynamics` to a program; arguments and the result a (nv,) are cells of it."""
    kinds = _Kinds(program, tree, [NOTHING, *(body.inertia.moments for body in tree.bodies)], q)
    rest = np.zeros(3, int)
    terms: dict[_Kind, _Entries] = {}
    solved: dict[_Kind, _Entries] = {}

    def turning(
        kind: _Kind, body: Body, moments: Moments, x: Array, v: Array, parent: Any = rest, wrench: Any = 0
    ) -> tuple[Array, Array]:
        w, c, n, f = velocity_terms(body, moments, Motion(body, x), v, parent)
        terms[kind] = _Entries(*c, np.concatenate([n, f]) - wrench)
        return terms[kind].values, w

    def articulated(
        kind: _Kind, body: Body, moments: Moments, x: Array, v: Array, tau: Array, bias: Array,
        below: Any = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        ca, cl, load = terms[kind].of(bias)
        inertia = inertia_blocks(moments)
        if not kind.leaf:
            load, (A, B, C) = load + below[:6], inertia
            inertia = A + _symmetric(below[6:12]), B + below[12:21].reshape(3, 3), C + _symmetric(below[21:])
        effort = tau - body.damping * v if damping else tau
        gain, drive, handed = inward(body, Motion(body, x), inertia, load[:3], load[3:], (ca, cl), effort)
        solved[kind] = _Entries(gain, drive)
        if kind.root:
            return solved[kind].values, rest
        n, f, (A, B, C) = handed
        return solved[kind].values, np.concatenate([n, f, A[UPPER], B.ravel(), C[UPPER]])

    def accelerated(
        kind: _Kind, body: Body, moments: Moments, x: Array, bias: Array, gains: Array, parent: Any = None
    ) -> tuple[Array, Array]:
        ca, cl, _ = terms[kind].of(bias)
        alpha, acc = (rest, np.negative(gravity)) if kind.root else (parent[:3], parent[3:])
        gain, drive = solved[kind].of(gains)
        a, alpha, acc = acceleration(body, Motion(body, x), (ca, cl), gain, drive, alpha, acc)
        return a, np.concatenate([alpha, acc])

    def given(kind: _Kind) -> dict[str, Any]:
        return {"x": kind.x, "v": v[kind.dofs]}

    bias = kinds.outwards("turning", turning, 3, lambda kind: given(kind) | kind.own("wrench", wrenches))
    gains = kinds.inwards(
        "articulated",
        articulated,
        27,
        lambda kind: {**given(kind), "tau": tau[kind.dofs], "bias": bias[kind]},
    )
    a = kinds.outwards(
        "accelerated", accelerated, 6, lambda kind: {"x": kind.x, "bias": bias[kind], "gains": gains[kind]}
    )
    return kinds.joined(tree.nv, a)


def field_passes(
    program: Program,
    tree: Tree,
    t: Cells,
    y: Cells,
    u: Cells,
    gravity: Array = FREE_FALL,
    damping: bool = False,
) -> Cells:
    """Add the velocity (v, a) of the state y = (q, v) under efforts u to a program; all are cells of it."""
    q, v = y[: tree.nq], y[tree.nq :]
    return np.concatenate(
        [v, forward_dynamics_passes(program, tree, q, v, u, gravity=gravity, damping=damping)]
    )


def advance_passes(program: Program, tree: Tree, y: Cells, psi: Cells) -> Cells:
    """Add y exp(psi), normalised, of states y = (q, v) to a program; all are cells of it."""
    state, moved = _state(tree), np.zeros(len(y), np.int64)
    for factor, at, dofs in _factors(state):
        step = trace(
            lambda y, psi, g=factor: g.normalize(g.integrate(y, psi)),
            {"y": factor.nq, "psi": factor.dim},
            "advance",
        )
        moved[at] = program.apply(step, y[at], psi[dofs])
    return moved


def pull_passes(program: Program, tree: Tree, psi: Cells, f: Cells) -> Cells:
    """Add dexp^-1_(-psi) f of states to a program; all are cells of it."""
    pulled = np.zeros(len(f), np.int64)
    for factor, _, dofs in _factors(_state(tree)):
        step = trace(
            lambda psi, f, g=factor: g.dexp_inverse_times(-psi, f),
            {"psi": factor.dim, "f": factor.dim},
            "pull",
        )
        pulled[dofs] = program.apply(step, psi[dofs], f[dofs])
    return pulled


def _state(tree: Tree) -> Product:
    return Product(*tree.group.factors, *[R(1)] * tree.nv)


def _factors(group: Product) -> list[tuple[LieGroup, Array, Array]]:
    """Each different factor, and where its likes have coordinates and velocities, (places, size)."""
    alike: dict[LieGroup, list[int]] = {}
    for i, factor in enumerate(group.factors):
        alike.setdefault(factor, []).append(i)
    return [
        (
            factor,
            _ranges([group.coordinate_slices[i] for i in places], factor.nq),
            _ranges([group.dofs[i] for i in places], factor.dim),
        )
        for factor, places in alike.items()
    ]


def kinetic_energy_passes(program: Program, tree: Tree, q: Cells, v: Cells) -> Cells:
    """Add `kinetic_energy` to a program; arguments and the result () are cells of it."""
    kinds = _Kinds(program, tree, tree.base_moments, q)
    rest = np.zeros(6, int)

    def moving(
        kind: _Kind, body: Body, moments: Moments, x: Array, v: Array, parent: Any = rest
    ) -> tuple[Array, Array]:
        twist, energies = kinetic_step(body, moments, Motion(body, x), v, (parent[:3], parent[3:]))
        return np.array([sum(energies)]), np.concatenate(twist)

    energies = kinds.outwards("moving", moving, 6, lambda kind: {"x": kind.x, "v": v[kind.dofs]})
    return _sum(program, np.concatenate(list(energies.values())))[0]


def potential_energy_passes(program: Program, tree: Tree, q: Cells, gravity: Array = FREE_FALL) -> Cells:
    """Add `potential_energy` to a program; arguments and the result () are cells of it."""
    kinds = _Kinds(program, tree, [NOTHING, *(body.inertia.moments for body in tree.bodies)], q)
    mass = np.array([0.0, *(body.inertia.mass for body in tree.bodies)])
    for body in reversed(tree.bodies):
        mass[body.parent] += mass[body.index]

    def carried(
        kind: _Kind, body: Body, moments: Moments, x: Array, mass: Any, below: Any = 0
    ) -> tuple[Array, Array]:
        handed = moment_out(Motion(body, x), mass, moments.h + below)
        return handed if kind.root else handed[:0], handed

    found = kinds.inwards("carried", carried, 3, lambda kind: {"x": kind.x, "mass": mass[kind.index]})
    moment = _sum(program, np.concatenate([cells for kind, cells in found.items() if kind.root]))
    fallen = trace(lambda moment: -(np.asarray(gravity) @ moment), {"moment": 3}, "fallen")
    return program.apply(fallen, moment)


def _sum(program: Program, rows: Cells) -> Cells:
    """Cells of the sum of rows (n, width)."""
    width = rows.shape[1]
    total = program.zeros(width)
    add = trace(lambda a, b: a + b, {"a": width, "b": width}, "add")
    return program.apply(add, total, rows, into=total)


def _symmetric(upper: Array) -> Array:
    """(3, 3) from its upper triangle (6,), by rows."""
    return symmetric(3, lambda i, j: upper[i * (5 - i) // 2 + j])


# -- kinds of bodies -----------------------------------------------------------------------------------------


class _Entries:
    """Arrays by those of their entries that vary, each once and up to its sign."""

    def __init__(self, *arrays: Array) -> None:
        self._arrays = [np.asarray(array) for array in arrays]
        self._number: dict[Expr, int] = {}
        for x in (x for array in self._arrays for x in array.flat if type(x) is Expr):
            self._number.setdefault(x.args[0] if x.op == "neg" else x, len(self._number))

    @property
    def values(self) -> Array:
        """The entries, (number,)."""
        return np.array(list(self._number), dtype=object)

    def of(self, values: Array) -> list[Array]:
        """The arrays, with these values of the entries."""

        def entry(x: Any) -> Any:
            if type(x) is not Expr:
                return x
            return -values[self._number[x.args[0]]] if x.op == "neg" else values[self._number[x]]

        return [
            np.array([entry(x) for x in array.flat], dtype=object).reshape(array.shape)
            for array in self._arrays
        ]


@dataclass(frozen=True, eq=False)
class _PosedJoint:
    """What a kind of body has for a joint: its coordinates x are the entries of its pose that vary."""

    S: Array
    entries: _Entries
    armature: Array
    damping: Array
    mimic: None = None

    def pose(self, x: Array) -> Array:
        return self.entries.of(x)[0]


class _Kind:
    """Bodies with the same steps: which they are, and the numbers in which they differ.

    root, leaf, first  whether they are on the world, without children, and the first to hand to their parent
    x                  cells of the entries of their joints' poses
    """

    def __init__(
        self, program: Program, bodies: Sequence[Body], moments: Any, role: tuple[bool, ...], q: Cells
    ) -> None:
        self.root, self.leaf, self.first = role
        self.index = np.array([body.index for body in bodies])
        self.parents = np.array([body.parent for body in bodies])
        self._joint = bodies[0].joint
        self.dofs = _ranges([body.dofs for body in bodies], self._joint.dim)
        self.rest = np.zeros(self._joint.dim, int)
        rows = np.array([_numbers(body, moments[body.index]) for body in bodies], float)
        self._row, self._exact = rows[0], _exact(rows[0])
        self.numbers = rows[:, ~self._exact]
        posed = trace(self._joint.pose, {"q": self._joint.nq}, "pose")
        self._entries = _Entries(*posed.outputs.values())
        pose = Function("pose", posed.inputs, {"x": self._entries.values})
        self.x = program.apply(pose, q[_ranges([body.coordinates for body in bodies], self._joint.nq)])

    def body(self, numbers: Array) -> tuple[Body, Moments]:
        """A body of this kind with these numbers, and its moments."""
        row = self._row.astype(object)
        row[~self._exact] = numbers
        counts = np.cumsum([9, 3, 1, 3, 6, self._joint.dim])
        R, p, (m,), h, sigma, armature, damping = np.split(row, counts)
        placement = SE3.motion(R.reshape(3, 3), p)
        joint: Any = _PosedJoint(self._joint.S, self._entries, armature, damping)
        parent, whole = int(not self.root), slice(None)
        one = Body("", parent + 1, parent, placement, joint, SpatialInertia(), whole, whole)
        return one, Moments(m, h, _symmetric(sigma))

    def own(self, name: str, rows: Cells | None) -> dict[str, Cells]:
        """An argument of which each body has a row, if it is there."""
        return {} if rows is None else {name: rows[self.index - 1]}


class _Kinds:
    """The kinds of the bodies of a tree, and passes in which the bodies take turns.

    A pass applies step(kind, body, moments, **arguments), which returns what the body keeps and what it hands
    on; the passes return the kept cells of each kind.
    """

    def __init__(self, program: Program, tree: Tree, moments: Any, q: Cells) -> None:
        self._program = program
        self._parents = [0, *(body.parent for body in tree.bodies)]
        self._last = {p: i for i, p in enumerate(self._parents) if i}  # of each parent, the last child
        self._kinds = [
            _Kind(program, bodies, moments, role, q)
            for (_, _, role), bodies in _grouped(tree, moments).items()
        ]
        number = {i: k for k, kind in enumerate(self._kinds) for i in kind.index.tolist()}
        self._order = np.array([number[body.index] for body in tree.bodies])

    def outwards(
        self, name: str, step: Callable[..., Any], width: int, arguments: Callable[[_Kind], dict[str, Any]]
    ) -> dict[_Kind, Cells]:
        """A pass in which each body takes `parent` (width,), unless it is on the world, and hands on its own.

        The cells that a body hands to its children are used again after the last of them.
        """
        at, free, count = [0] * len(self._parents), list[int](), 0
        for i, p in enumerate(self._parents):
            if i and i in self._last:
                at[i] = free.pop() if free else (count := count + 1) - 1
            if p and self._last[p] == i:
                free.append(at[p])
        rows = self._program.empty((max(count, 1), width))[at]
        calls = []
        for kind in self._kinds:
            given = arguments(kind) | ({} if kind.root else {"parent": rows[kind.parents]})
            calls.append(self._call(kind, name, step, given, None if kind.leaf else rows[kind.index]))
        return self._kept(self._program.alternate(self._order, calls))

    def inwards(
        self, name: str, step: Callable[..., Any], width: int, arguments: Callable[[_Kind], dict[str, Any]]
    ) -> dict[_Kind, Cells]:
        """A pass in which each body takes `below` (width,), if it has children, and adds to its parent's.

        The cells that a body takes are used again after its turn.
        """
        at, free, count = [0] * len(self._parents), list[int](), 0
        for i, p in reversed(list(enumerate(self._parents))[1:]):
            if p and self._last[p] == i:
                at[p] = free.pop() if free else (count := count + 1) - 1
            if i in self._last:
                free.append(at[i])
        rows = self._program.empty((max(count, 1), width))[at]

        def summed(*parts: Any, before: Any = 0, **rest: Any) -> tuple[Array, Array]:
            kept, handed = step(*parts, **rest)
            return kept, handed + before

        calls = []
        for kind in self._kinds:
            given = arguments(kind) | ({} if kind.leaf else {"below": rows[kind.index]})
            given |= {} if kind.root or kind.first else {"before": rows[kind.parents]}
            function, arrays, into = self._call(
                kind, name, summed, given, None if kind.root else rows[kind.parents]
            )
            backwards = [tuple(x if x is None else x[::-1] for x in cells) for cells in (arrays, into)]
            calls.append(Call(function, *backwards))
        found = self._kept(self._program.alternate(self._order[::-1], calls))
        return {kind: cells[::-1] for kind, cells in found.items()}

    def _call(
        self, kind: _Kind, name: str, step: Callable[..., Any], given: dict[str, Any], into: Cells | None
    ) -> Call:
        def applied(numbers: Array, *arrays: Array) -> tuple[Array, ...]:
            kept, handed = step(kind, *kind.body(numbers), **dict(zip(given, arrays, strict=True)))
            return (kept,) if into is None else (kept, handed)

        shapes = {"numbers": kind.numbers.shape[1:], **{key: x.shape[1:] for key, x in given.items()}}
        function = trace(applied, shapes, name)
        return Call(function, (kind.numbers, *given.values()), (None,) if into is None else (None, into))

    def _kept(self, results: Sequence[Any]) -> dict[_Kind, Cells]:
        first = (x[0] if isinstance(x, tuple) else x for x in results)
        return dict(zip(self._kinds, first, strict=True))

    def joined(self, count: int, parts: Mapping[_Kind, Cells]) -> Cells:
        """(count,) cells, of which each kind has those of its degrees of freedom."""
        whole = np.zeros(count, np.int64)
        for kind, cells in parts.items():
            whole[kind.dofs] = cells
        return whole


def _grouped(tree: Tree, moments: Any) -> dict[Any, list[Body]]:
    """The bodies of each kind: by group, by exact numbers, and by role."""
    last = {body.parent: body.index for body in tree.bodies}
    groups: dict[Any, list[Body]] = {}
    for body in tree.bodies:
        row = _numbers(body, moments[body.index]).astype(float)
        exact = np.where(_exact(row), row + 0.0, np.nan)
        role = not body.parent, body.index not in last, last[body.parent] == body.index
        groups.setdefault((body.joint.group, exact.tobytes(), role), []).append(body)
    return groups


def _numbers(body: Body, moments: Moments) -> Array:
    """All that tells a body from others of its joint's group: placement, moments, rotor and losses."""
    T, (m, h, Sigma), joint = body.placement, moments, body.joint
    return np.concatenate(
        [T[:3, :3].ravel(), T[:3, 3], [m], h, np.asarray(Sigma)[UPPER], joint.armature, joint.damping]
    )


def _exact(row: Array) -> Array:
    """Which numbers make the steps shorter: zeros, and units of the rotation."""
    exact = row == 0
    exact[:9] |= np.abs(row[:9]) == 1
    return exact


def _ranges(slices: Sequence[slice], width: int) -> Array:
    return np.array([s.start for s in slices])[:, None] + np.arange(width)
