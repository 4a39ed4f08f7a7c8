"""The Unimation Puma 560, the arm whose published parameters most papers on robot dynamics use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..bodies import WORLD, Joint, SpatialInertia, Tree, TreeBuilder
from ..groups import Revolute
from .model import model


class _Link(NamedTuple):
    """Standard Denavit-Hartenberg parameters, and the link and motor in the frame at their end.

    d, a, twist   offset along z, length along x [m], twist about x in right angles
    m, com, I     mass [kg], centre of mass (3,) [m], moments of inertia about it (3,) [kg m2]
    Jm, G, B, Tc  rotor inertia [kg m2], gear ratio, viscous and Coulomb friction at the motor [N m s, N m]
    limits        [deg]
    """

    d: float
    a: float
    twist: int
    m: float
    com: tuple[float, float, float]
    I: tuple[float, float, float]
    Jm: float
    G: float
    B: float
    Tc: tuple[float, float]
    limits: tuple[float, float]


# fmt: off
LINKS = (
    _Link(0,       0,      1, 0,    (0, 0, 0),                 (0, 0.35, 0),
          200e-6, -62.6111, 1.48e-3,  (0.395, 0.435),      (-160, 160)),
    _Link(0,       0.4318, 0, 17.4, (-0.3638, 0.006, 0.2275),  (0.13, 0.524, 0.539),
          200e-6, 107.815,  0.817e-3, (0.126, 0.071),      (-45, 225)),
    _Link(0.15005, 0.0203, -1, 4.8, (-0.0203, -0.0141, 0.070), (0.066, 0.086, 0.0125),
          200e-6, -53.7063, 1.38e-3,  (0.132, 0.105),      (-225, 45)),
    _Link(0.4318,  0,      1, 0.82, (0, 0.019, 0),             (1.8e-3, 1.3e-3, 1.8e-3),
          33e-6,  76.0364,  71.2e-6,  (11.2e-3, 16.9e-3),  (-110, 170)),
    _Link(0,       0,     -1, 0.34, (0, 0, 0),                 (0.3e-3, 0.4e-3, 0.3e-3),
          33e-6,  71.923,   82.6e-6,  (9.26e-3, 14.5e-3),  (-100, 100)),
    _Link(0,       0,      0, 0.09, (0, 0, 0.032),             (0.15e-3, 0.15e-3, 0.04e-3),
          33e-6,  76.686,   36.7e-6,  (3.96e-3, 10.5e-3),  (-266, 266)),
)

# fmt: on
"""The parameters of Armstrong, in the consensus of 1994 and in the frames of Corke's Robotics Toolbox.

B. Armstrong, O. Khatib and J. Burdick, "The explicit dynamic model and inertial parameters of the PUMA 560
arm", ICRA 1986, 510-518; P. Corke and B. Armstrong-Helouvry, "A search for consensus among model parameters
reported for the PUMA 560 robot", ICRA 1994, 1608-1613.
"""


@model()
def puma560(motors: bool = True) -> Tree:
    """The Puma 560: six hinges, q = 0 with the upper arm horizontal and the forearm up ("L").

    motors   whether each joint carries its motor: armature G^2 Jm, damping G^2 B, and friction |G| Tc, the
             mean of both directions

    Body i turns about its frame's axis z; frame "linki_dh" is the Denavit-Hartenberg frame at its far end,
    "tool" the last of them. Armstrong gives link 1 no mass, since it only turns about its own axis. The
    published moments of links 1 and 3 break the triangle inequality; they are kept as published.
    """
    builder = TreeBuilder("puma560")
    parent = WORLD
    placement = np.eye(4)
    for i, link in enumerate(LINKS, start=1):
        # body i has its origin on its axis; the published numbers are in the frame at its far end
        end = _denavit_hartenberg(link)
        gear = abs(link.G) if motors else 0.0
        lower, upper = np.radians(link.limits)
        joint = Joint(
            f"joint{i}",
            Revolute((0, 0, 1)),
            lower=lower,
            upper=upper,
            armature=gear**2 * link.Jm,
            damping=gear**2 * link.B,
            friction=gear * sum(link.Tc) / 2,
        )
        inertia = SpatialInertia(link.m, np.array(link.com), np.array(link.I)).shift(end)
        builder.add(f"link{i}", joint, inertia, parent, placement)
        builder.frame(f"link{i}_dh" if i < len(LINKS) else "tool", f"link{i}", end)
        parent = f"link{i}"
        placement = end
    # the published moments of links 1 and 3 would not pass the check
    return builder.build(check=False)


def _denavit_hartenberg(link: _Link) -> np.ndarray:
    """Trans_z(d) Trans_x(a) Rot_x(twist), with exact zeros and ones."""
    # cos and sin of the twist in quarter turns, which are exact
    c, s = ((1, 0), (0, 1), (-1, 0), (0, -1))[link.twist % 4]
    return np.array([[1, 0, 0, link.a], [0, c, -s, 0], [0, s, c, link.d], [0, 0, 0, 1.0]])
