"""Symmetries of a mechanism and the momenta that they conserve, found numerically."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import checked, count
from ..base.errors import ModelError
from ..bodies import Tree
from ..bodies.labels import labels
from ..compiler import Kernel, traced
from ..dynamics import coriolis_transpose_times, gravity_forces, legendre_transform
from ..mechanisms import Forces, OpenTree, forces_of
from ..robot import Robot
from ..scalars import Array, absolute
from .setup import mechanism_of

ZERO = 1e-9  # times the size of its terms, below which a sum counts as zero


@dataclass(frozen=True, eq=False)
class Symmetries:
    """The result of `symmetries`: k independent momenta that every motion conserves.

    generators  the names of the m motions that were tried: by each joint's velocities, on the left (of the
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
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    seed: int = 0,
) -> Symmetries:
    """All conserved momenta of a tree that belong to motions of its joints' groups: Noether by rank.

    Each joint's group acts on its joint from the left, g -> h g, which for the root is the action of a
    subgroup of SE(3) on the whole mechanism, and shifts angles and distances; and from the right, g -> g h,
    as turning a top about its own axis. With the velocities B(q) s of a combination s, the momentum
    s . B^T p has the rate

        s . (B^T (C^T v - g + Q) + (dB/dt)^T p),    p = M v

    with forces Q. It vanishes at all states if it does at as many random ones as there are unknowns; others
    confirm that. Efforts u are zero.

    forces   forces beside weight, as in `simulate`
    joints   the parts of the joints' descriptions that act, as in `simulate`

    Raises ModelError for mechanisms that are no tree of joints. Marsden and Ratiu (1999), section 11.4.
    """
    moving = None
    if isinstance(mechanism, Robot | OpenTree):
        moving = mechanism_of(mechanism, forces_of(forces), joints)
    if not isinstance(moving, OpenTree) or moving.nc:
        raise ModelError(f"{mechanism!r} is no tree of joints without constraints; give a Robot")
    tree = moving.tree
    gravity = tuple(moving.gravity)
    names, owners = _generators(tree)
    rates = _rates_of(moving, gravity, owners)
    kernel = Kernel(traced(rates, {"t": (), "q": tree.nq, "v": tree.nv}, "symmetries"))
    # Twice as many random states as are needed: the first half finds the combinations, the second confirms.
    rng = np.random.default_rng(count("seed", seed, 0))
    n = 3 * len(names) + 10
    q = np.array([tree.group.random(rng) for _ in range(2 * n)])
    v = rng.standard_normal((2 * n, tree.nv))
    t = rng.uniform(0, 10, 2 * n)
    momenta, momentum_rates, sizes = (np.asarray(x) for x in kernel(t, q, v))
    # Rates relative to the largest term at each state: no unit, no size of the mechanism matters.
    scale = sizes.max(axis=1, keepdims=True)
    relative_rates = momentum_rates / np.where(scale > 0, scale, 1)
    basis = _null_space(relative_rates[:n])
    # A combination that moves nothing has no momentum, and is constant for that reason alone: the singular
    # values of the momenta tell such combinations from the others.
    relative_momenta = momenta[:n] / np.abs(momenta).max(initial=1e-300)
    _, lengths, directions = np.linalg.svd(relative_momenta @ basis.T, full_matrices=False)
    basis = _echelon((directions @ basis)[lengths > ZERO * max(lengths.max(initial=0.0), 1.0)])
    largest = float(np.abs(relative_rates[n:] @ basis.T).max(initial=0.0))
    if largest > 1e3 * ZERO:
        raise ModelError(
            f"a momentum of {moving.name} that seemed constant changes by {largest:.2g} of its terms, at "
            "other states: forces that act in places only hide from random ones; give another seed"
        )
    return Symmetries(tuple(names), basis, largest, kernel)


def _generators(tree: Tree) -> tuple[list[str], list[tuple[Any, bool]]]:
    """The names of the motions that are tried, and the bodies that they belong to: (body, commutes)."""
    # The unknowns: each velocity of each joint acts on the left and, if the group does not commute, on the
    # right. Of a commuting group both are the same.
    names: list[str] = []
    owners = []
    for body in tree.bodies:
        if body.joint.mimic is None and body.joint.dim:
            dofs = labels(tree)[1].names[body.dofs]
            commute = not any(np.any(body.joint.group.ad(e)) for e in np.eye(body.joint.dim))
            names += [*dofs] if commute else [f"{x} {side}" for side in ("left", "right") for x in dofs]
            owners.append((body, commute))
    return names, owners


def _rates_of(moving: OpenTree, gravity: tuple[Any, ...], owners: list[tuple[Any, bool]]) -> Any:
    """The function (t, q, v) -> B^T p, its rate, and the size of the terms of the rate, (m,) each."""
    tree = moving.tree

    def rates(t: Any, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """B^T p, its rate, and the size of the terms of the rate, (m,) each."""
        # dp/dt = C^T v - g + Q, and the size of its terms, against which zero is measured.
        p = legendre_transform(tree, q, v)
        weight = gravity_forces(tree, q, gravity)
        turning = coriolis_transpose_times(tree, q, v)
        acting = moving.efforts(t, q, v, np.zeros(tree.nv, int))
        rate = turning - weight + acting
        size = absolute(turning) + absolute(weight) + absolute(acting)
        momenta = []
        changes = []
        sizes = []
        for body, commute in owners:
            group = body.joint.group
            d = body.dofs
            # A velocity on the left is Ad(g^-1) s in the body, and Ad changes with g by ad: the rate of B.
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

    return rates


def _null_space(A: Array) -> np.ndarray:
    """Rows (k, m) that span the null space of A."""
    _, s, Vt = np.linalg.svd(A)
    return np.asarray(Vt[int(np.sum(s > ZERO * np.sqrt(len(A)))) :])


def _echelon(A: Array) -> np.ndarray:
    """The reduced echelon form of rows that are independent."""
    A = np.array(A)
    row = 0
    for column in range(A.shape[1]):
        if row == len(A):
            break
        # The largest entry is the pivot. A column without one is zero but for round-off, and set to zero.
        k = row + int(np.argmax(np.abs(A[row:, column])))
        if abs(A[k, column]) < 1e-6:
            A[row:, column] = 0.0
            continue
        # Exchange, normalise, and subtract from all other rows.
        A[[row, k]] = A[[k, row]]
        A[row] /= A[row, column]
        others = np.arange(len(A)) != row
        A[others] -= np.outer(A[others, column], A[row])
        row += 1
    return np.where(np.abs(A) < 1e-9, 0.0, A) + 0.0
