"""Inertial parameters of bodies that exist, by ten numbers without bounds: log-Cholesky coordinates.

The moments of mass of a body, with Sigma = int r r^T dm and h = m c,

    J = [Sigma h; h^T m] = U U^T,    U = e^a [e^d1 s12 s13 t1; 0 e^d2 s23 t2; 0 0 e^d3 t3; 0 0 0 1],

are positive definite for any (a, d1, d2, d3, s12, s23, s13, t1, t2, t3), so no iteration over these meets a
body that cannot be. Rucker and Wensing, "Smooth parameterization of rigid-body inertia", IEEE Robotics and
Automation Letters 7 (2022).
"""

from __future__ import annotations

import numpy as np

from ..base.errors import ModelError
from ..scalars import Array

COORDINATES = ("a", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
PLACES = {"s12": (0, 1), "s23": (1, 2), "s13": (0, 2), "t1": (0, 3), "t2": (1, 3), "t3": (2, 3)}
PARAMETERS = ("m", "h_x", "h_y", "h_z", "I_xx", "I_xy", "I_xz", "I_yy", "I_yz", "I_zz")
"""Names of the numbers in which efforts are linear: mass, first moments, inertia about the frame's origin."""
UPPER = ([0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2])  # entries xx, xy, xz, yy, yz, zz of a matrix


def moments_of(theta: Array) -> tuple[Array, Array]:
    """J (4, 4) at coordinates (10,), and its derivative by them (10, 4, 4)."""
    scale = np.exp(theta[0])
    U = np.zeros((4, 4))
    dU = np.zeros((10, 4, 4))
    U[3, 3] = 1
    for k in range(3):
        U[k, k] = dU[1 + k, k, k] = np.exp(theta[1 + k])
    for k, place in enumerate(PLACES.values(), start=4):
        U[place] = theta[k]
        dU[k][place] = 1
    U, dU = scale * U, scale * dU
    dU[0] = U
    half = dU @ U.T
    return U @ U.T, half + np.swapaxes(half, 1, 2)


def body_of(theta: Array) -> tuple[Array, Array]:
    """(mass, center, inertia) of a body in one array (10,), and its derivative (10, 10) by the coordinates.

    As the parameters of robots have them: the inertia (6,) is about the centre of mass.
    """
    J, dJ = moments_of(np.asarray(theta, float))
    m, h, Sigma = J[3, 3], J[:3, 3], J[:3, :3]
    c = h / m
    central = Sigma - m * np.outer(c, c)
    values = [m, *c, *_inertia(central)]
    columns = []
    for d in dJ:
        dm, dh, dSigma = d[3, 3], d[:3, 3], d[:3, :3]
        dc = (dh - c * dm) / m
        turned = np.outer(dc, c)
        dcentral = dSigma - dm * np.outer(c, c) - m * (turned + turned.T)
        columns.append([dm, *dc, *_inertia(dcentral)])
    return np.array(values), np.array(columns).T


def coordinates_of(mass: float, center: Array, inertia: Array) -> Array:
    """The coordinates (10,) of a body; raises ModelError if it cannot be, or has no extent."""
    I = symmetric(inertia)
    central = np.trace(I) / 2 * np.eye(3) - I
    c = np.asarray(center, float)
    J = np.block([[central + mass * np.outer(c, c), mass * c[:, None]], [mass * c, mass]])
    try:
        # U is upper triangular: the Cholesky factor of J with rows and columns in reverse order
        U = np.linalg.cholesky(J[::-1, ::-1])[::-1, ::-1]
    except np.linalg.LinAlgError:
        raise ModelError(
            f"a body of mass {mass:g} kg with the inertia {np.round(inertia, 9)} kg m2 has no volume, "
            "or cannot be; give it a start with positive moments of mass in all directions"
        ) from None
    scaled = U / U[3, 3]
    diagonal = np.log(np.diag(scaled)[:3])
    return np.array([np.log(U[3, 3]), *diagonal, *(scaled[place] for place in PLACES.values())])


def symmetric(upper: Array) -> Array:
    """The matrix (3, 3) with these entries xx, xy, xz, yy, yz, zz."""
    I = np.zeros((3, 3))
    I[UPPER] = upper
    return I + np.triu(I, 1).T


def pseudo_inertia(pi: Array) -> Array:
    """[Sigma h; h^T m] (4, 4) of `PARAMETERS` (10,), in which it is linear."""
    I = symmetric(pi[4:])
    h = pi[1:4, None]
    return np.block([[np.trace(I) / 2 * np.eye(3) - I, h], [h.T, pi[:1, None]]])


def parameters_of(P: Array) -> Array:
    """`PARAMETERS` (10,) of a pseudo-inertia (4, 4)."""
    return np.array([P[3, 3], *P[:3, 3], *_inertia(P[:3, :3])])


def _inertia(Sigma: Array) -> Array:
    """tr(Sigma) 1 - Sigma, as (xx, xy, xz, yy, yz, zz)."""
    matrix: Array = (np.trace(Sigma) * np.eye(3) - Sigma)[UPPER]
    return matrix
