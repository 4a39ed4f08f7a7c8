"""Symmetries of a mechanism and the momenta that they conserve, found numerically."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import checked, count, members
from ..base.errors import ModelError
from ..bodies.labels import labels
from ..compiler import Kernel, traced
from ..dynamics import coriolis_transpose_times, gravity_forces, legendre_transform
from ..mechanisms import Force, OpenTree
from ..robot import Robot
from ..scalars import Array, absolute
from .setup import mechanism_of

ZERO = 1e-9  # of what terms are made of, below which a sum counts as zero


@dataclass(frozen=True, eq=False)
class Symmetries:
    """What `symmetries` finds: k independent momenta that every motion conserves.

    generators  the names of the m motions that were tried: of each joint's velocities, on the left (of the
                joint's frame on the parent) and, where they do not commute, on the right (on the body)
    basis       (k, m): the combinations that are symmetries, in reduced echelon form
    largest     the largest rate of a momentum at states that were not used to find it, over its terms
    """

    generators: tuple[str, ...]
    basis: np.ndarray
    largest: float
    kernel: Kernel

    def __len__(self) -> int:
        return len(self.basis)

    def momenta(self, q: Array, v: Array) -> np.ndarray:
        """The conserved momenta (..., k) at states (..., nq), (..., nv): basis . B(q)^T M(q) v."""
        return np.asarray(self.kernel(0.0, q, v)[0]) @ self.basis.T

    def __str__(self) -> str:
        lines = [f"{len(self)} of {len(self.generators)} motions and their combinations are symmetries"]
        for row in self.basis:
            terms = [
                name if x == 1 else f"{x:.6g} {name}"
                for x, name in zip(row, self.generators, strict=True)
                if x
            ]
            lines.append("  " + " + ".join(terms).replace("+ -", "- "))
        return "\n".join(lines)


@partial(checked, but=("mechanism",))
def symmetries(
    mechanism: Robot | OpenTree,
    forces: Iterable[Force] = (),
    joints: str | Iterable[str] | None = None,
    seed: int = 0,
) -> Symmetries:
    """All conserved momenta of a tree that come of motions of its joints' groups: Noether's theorem by rank.

    Each joint's group acts on its joint from the left, g -> h g, which for the root is the action of a
    subgroup of SE(3) on the whole mechanism, and shifts angles and distances; and from the right, g -> g h,
    as turning a top about its own axis. With the velocities B(q) s of a combination s, the momentum
    s . B^T p has the rate

        s . (B^T (C^T v - g + Q) + (dB/dt)^T p),    p = M v

    with forces Q. It vanishes at all states if it does at as many random ones as there are unknowns; others
    confirm that. Efforts u are zero.

    forces   what acts beside weight, as in `simulate`
    joints   what of the joints' descriptions acts, as in `simulate`

    Raises ModelError for what is no tree of joints. Marsden and Ratiu (1999), section 11.4.
    """
    made = None
    if isinstance(mechanism, Robot | OpenTree):
        made = mechanism_of(mechanism, tuple(members("forces", forces, "forces")), joints)
    if not isinstance(made, OpenTree) or made.nc:
        raise ModelError(f"{mechanism!r} is no tree of joints without constraints; give a Robot")
    tree, gravity = made.tree, tuple(made.gravity)
    names, owners = [], []
    for body in tree.bodies:
        if body.joint.mimic is None and body.joint.dim:
            own = labels(tree)[1].names[body.dofs]
            commute = not any(np.any(body.joint.group.ad(e)) for e in np.eye(body.joint.dim))
            names += [*own] if commute else [f"{x} {side}" for side in ("left", "right") for x in own]
            owners.append((body, commute))

    def rates(t: Any, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """B^T p, its rate, and the size of what that is made of, (m,) each."""
        p, weight = legendre_transform(tree, q, v), gravity_forces(tree, q, gravity)
        turning, acting = coriolis_transpose_times(tree, q, v), made.efforts(t, q, v, np.zeros(tree.nv, int))
        rate, size = turning - weight + acting, absolute(turning) + absolute(weight) + absolute(acting)
        momenta, changes, sizes = [], [], []
        for body, commute in owners:
            group, d = body.joint.group, body.dofs
            to_body = group.Ad(group.inverse(group.element(q[body.coordinates])))
            carried = group.ad(v[d]).T @ p[d]
            momenta.append(to_body.T @ p[d])
            changes.append(to_body.T @ (rate[d] - carried))
            sizes.append(absolute(to_body).T @ (size[d] + absolute(carried)))
            if not commute:
                momenta.append(p[d])
                changes.append(rate[d])
                sizes.append(size[d])
        return np.concatenate(momenta), np.concatenate(changes), np.concatenate(sizes)

    kernel = Kernel(traced(rates, {"t": (), "q": tree.nq, "v": tree.nv}, "symmetries"))
    rng, n = np.random.default_rng(count("seed", seed, 0)), 3 * len(names) + 10
    q = np.array([tree.group.random(rng) for _ in range(2 * n)])
    v, t = rng.standard_normal((2 * n, tree.nv)), rng.uniform(0, 10, 2 * n)
    momenta, found, sizes = (np.asarray(x) for x in kernel(t, q, v))
    scale = sizes.max(axis=1, keepdims=True)
    found = found / np.where(scale > 0, scale, 1)
    basis = _null_space(found[:n])
    told = momenta[:n] / np.abs(momenta).max(initial=1e-300)  # a combination that moves nothing has none
    moves = np.linalg.svd(told @ basis.T, full_matrices=False)
    basis = _echelon((moves[2] @ basis)[moves[1] > ZERO * max(moves[1].max(initial=0.0), 1.0)])
    largest = float(np.abs(found[n:] @ basis.T).max(initial=0.0))
    if largest > 1e3 * ZERO:
        raise ModelError(
            f"a momentum of {made.name} that seemed constant changes by {largest:.2g} of its terms, at other "
            "states: forces that act in places only hide from random ones; give another seed"
        )
    return Symmetries(tuple(names), basis, largest, kernel)


def _null_space(A: Array) -> np.ndarray:
    """Rows (k, m) that span what A maps to zero."""
    _, s, Vt = np.linalg.svd(A)
    return np.asarray(Vt[int(np.sum(s > ZERO * np.sqrt(len(A)))) :])


def _echelon(A: Array) -> np.ndarray:
    """The reduced echelon form of rows that are independent."""
    A, row = np.array(A), 0
    for column in range(A.shape[1]):
        if row == len(A):
            break
        k = row + int(np.argmax(np.abs(A[row:, column])))
        if abs(A[k, column]) < 1e-6:
            A[row:, column] = 0.0
            continue
        A[[row, k]] = A[[k, row]]
        A[row] /= A[row, column]
        others = np.arange(len(A)) != row
        A[others] -= np.outer(A[others, column], A[row])
        row += 1
    return np.where(np.abs(A) < 1e-9, 0.0, A) + 0.0
