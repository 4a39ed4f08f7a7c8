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
from ..bodies import UPPER, matrix_of
from ..scalars import Array

COORDINATES = ("a", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
PLACES = {"s12": (0, 1), "s23": (1, 2), "s13": (0, 2), "t1": (0, 3), "t2": (1, 3), "t3": (2, 3)}
PAIRS = tuple(np.transpose(UPPER))
"""Places of xx, xy, xz, yy, yz, zz in a matrix, as an index."""


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
    I = matrix_of(inertia)
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


def body_of_parameters(pi: Array) -> tuple[Array, Array]:
    """(mass, center, inertia about it) (10,) of the parameters of a body, and the derivative (10, 10)."""
    m, h = pi[0], pi[1:4]
    c = h / m
    I_c = pi[4:] - ((h @ h) * np.eye(3) - np.outer(h, h))[PAIRS] / m
    D = np.zeros((10, 10))
    D[0, 0] = 1
    D[1:4, 0] = -c / m
    D[1:4, 1:4] = np.eye(3) / m
    D[4:, 0] = ((c @ c) * np.eye(3) - np.outer(c, c))[PAIRS]
    for k, e in enumerate(np.eye(3)):
        turned = np.outer(e, c)
        D[4:, 1 + k] = -(2 * c[k] * np.eye(3) - turned - turned.T)[PAIRS]
    D[4:, 4:] = np.eye(6)
    return np.array([m, *c, *I_c]), D


def _inertia(Sigma: Array) -> Array:
    """tr(Sigma) 1 - Sigma, as (xx, xy, xz, yy, yz, zz)."""
    matrix: Array = (np.trace(Sigma) * np.eye(3) - Sigma)[PAIRS]
    return matrix
