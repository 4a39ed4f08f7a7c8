"""Floquet multipliers: the eigenvalues of the derivative of the motion after a period by its start.

An orbit of an autonomous system has the multiplier 1 along its flow, and multipliers of modulus 1 along its
symmetries, whether its neighbours come nearer or not. These directions are an invariant subspace U of the
monodromy M. The others are the eigenvalues of M on the quotient by U,  W^T M W  with an orthonormal W across
U. The return map of any section has the same ones.

Kuznetsov (2004), Elements of Applied Bifurcation Theory, section 1.5; Golubitsky, Stewart (2002), The
Symmetry Perspective, chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .orbit import PeriodicOrbit
from .segments import Array


@dataclass(frozen=True)
class Floquet:
    """Multipliers of an orbit.

    values      multipliers of neighbouring motions, the largest first, (n,)
    directions  of (q, v) at the start, left-trivialised, one for each in the columns, (2 nv, n)
    trivial     by name, the multipliers of the flow and of each symmetry, as computed: their distance from 1
                tells how exact the others are
    """

    values: Array
    directions: Array
    trivial: dict[str, complex]

    @property
    def stable(self) -> bool:
        """Whether all neighbours come nearer, but for their place along the orbit and its symmetries."""
        return bool(np.all(np.abs(self.values) < 1))

    def __repr__(self) -> str:
        shown = [f"{_text(x)}  |{abs(x):.6f}|" for x in self.values]
        named = [f"{_text(x)}  {name}" for name, x in self.trivial.items()]
        return "\n".join([*shown, *named])


def floquet(orbit: PeriodicOrbit) -> Floquet:
    """The Floquet multipliers of a periodic orbit, the trivial ones named and apart."""
    scale = orbit.shooting.scale
    M = orbit.monodromy * scale / scale[:, None]
    names = list(orbit.trivial)
    U, W = orbit.across
    values, y = np.linalg.eig(orbit.across_trivial)
    # the largest modulus first
    order = np.argsort(-np.abs(values), kind="stable")
    values = values[order]
    y = y[:, order]
    # coordinates along the trivial directions, and M there
    inverse = np.linalg.pinv(U)
    inner = inverse @ M @ U
    directions = []
    for value, x in zip(values, (W @ y).T, strict=True):
        # an eigenvector of the quotient plus the part along U that makes it one of M
        part = np.linalg.lstsq(value * np.eye(len(names)) - inner, inverse @ M @ x, rcond=1e-9)[0]
        directions.append(scale * (x + U @ part))
    D = np.stack(directions, axis=1) if directions else np.zeros((len(M), 0))
    along = [complex(x) for x in np.diag(inner)]
    return Floquet(values, D, dict(zip(names, along, strict=True)))


def _text(x: complex) -> str:
    return f"{x.real:.6f}" if abs(x.imag) < 1e-9 else f"{x.real:.6f} {x.imag:+.6f} i"
