"""Added mass of bodies in an ideal fluid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base.arguments import floats, number
from ..base.errors import ModelError


def ellipsoid_added_mass(semi_axes: Sequence[float], density: float) -> np.ndarray:
    """Added mass (6, 6) of an ellipsoid in an ideal fluid at rest, about its centre, angular first; diagonal.

    semi_axes  along x, y, z                                                              [m]
    density    of the fluid                                                               [kg/m3]

    Kirchhoff (1869); Lamb, Hydrodynamics (1932), art. 114 and 115, with Green's integrals alpha, beta, gamma.
    """
    a = floats("semi_axes", semi_axes, finite=False)
    density = number("density", density)
    if a.shape != (3,) or not np.all(a > 0) or not np.all(np.isfinite(a)):
        raise ModelError(f"semi-axes {semi_axes!r} of an ellipsoid are three positive lengths")
    if density < 0:
        raise ModelError(f"density is {density}; give that of the fluid, zero or more")
    displaced = 4 / 3 * math.pi * density * a.prod()
    s = a**2
    # alpha_i = abc int_0^inf dt/((a_i^2 + t) Delta), which sum to 2
    alpha = [2 / 3 * a.prod() * _carlson_rd(s[(i + 1) % 3], s[(i + 2) % 3], s[i]) for i in range(3)]
    # Lamb, art. 114: along its axis the ellipsoid gains alpha/(2 - alpha) of the displaced mass
    translation = [displaced * alpha_i / (2 - alpha_i) for alpha_i in alpha]
    rotation = []
    # Lamb, art. 115; about an axis of symmetry an ideal fluid is not moved at all
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        d = s[j] - s[k]
        total = s[j] + s[k]
        e = alpha[k] - alpha[j]
        rotation.append(0.0 if d == 0 else displaced / 5 * d**2 * e / (2 * d - total * e))
    return np.diag([*rotation, *translation])


def _carlson_rd(x: float, y: float, z: float) -> float:
    """3/2 int_0^inf dt/(sqrt((x + t)(y + t)) (z + t)^(3/2)), by duplication. Carlson (1995)."""
    total = 0.0
    power = 1.0
    # duplication brings x, y and z together by a factor of 4 in each turn; the rest is a series at their mean
    for _ in range(40):
        rx, ry, rz = math.sqrt(x), math.sqrt(y), math.sqrt(z)
        shift = rx * (ry + rz) + ry * rz
        total += power / (rz * (z + shift))
        power /= 4
        x, y, z = (x + shift) / 4, (y + shift) / 4, (z + shift) / 4
        if max(abs(x - z), abs(y - z)) < 1e-9 * z:
            break
    # x, y and z agree to 1e-9, so that the series ends after its first term
    return 3 * total + power * ((x + y + 3 * z) / 5) ** -1.5
