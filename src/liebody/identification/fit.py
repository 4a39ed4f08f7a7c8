"""Fit a robot to recorded motions: maximum likelihood, by exact derivatives of simulations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import checked, count, names
from ..base.errors import SECONDS, IntegrationError, ModelError, positive
from ..mechanisms import Forces, forces_of
from ..robot import Robot
from ..scalars import Array
from .free import FreeParameters
from .problem import FitProblem, listed
from .recordings import Recording, Signals
from .results import Fit

LOSSES = ("squares", "huber")
STEP = 1e-10  # of all coordinates, in their sizes: the search ends
DECREASE = 1e-12  # of the cost, relative: likewise
DAMPING = 1e-3  # of Levenberg and Marquardt, at the start
MOST_DAMPING = 1e12  # above it no step is short enough: only round-off is left
LEAST_DIAGONAL = 1e-12  # of the information, relative, for coordinates that nothing shows


class FailedFit(IntegrationError):
    """The motions cannot be simulated with the parameters from which a fit starts."""


@checked
def fit(
    robot: Robot,
    recordings: Recording | Iterable[Recording],
    free: str | Iterable[str],
    *,
    dt: float,
    start: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    positive_words: str | Iterable[str] = (),
    prior: Mapping[str, tuple[Any, Any]] | None = None,
    signals: Signals | None = None,
    starts: bool = False,
    loss: str = "squares",
    method: str = "rkmk4",
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    iterations: int = 50,
) -> Fit:
    """Estimate free parameters of a robot from recorded motions, by maximum likelihood.

        recording = Recording(t, {"q": q}, {"q": 1e-4}, q0=q[0], tau=(t, tau))
        found = fit(robot, recording, ["link6", "joint1.friction"], dt=2e-3, forces=[JointFriction()])
        print(found)
        found.values["link6.mass"], found.deviations["link6.mass"], found.robot.to_urdf()

    It minimises  sum rho((measured - modelled) / noise)  over all samples of all recordings by the method of
    Levenberg and Marquardt, with exact derivatives through the simulations (`lb.sensitivities`).

    free            names of `robot.parameters`; names of bodies, for mass, centre and inertia at once, such
                    that all iterations are bodies that exist; words of your own, as gains of a controller
    dt              step of the simulations                                                          [s]
    start           values to start from, {name: value}; default: the robot's own
    parameters      values of parameters that are not free
    positive_words  words of your own that stay positive
    prior           {name: (value, deviation)}: what is known before
    signals         (t, q, v, p) -> {name: signal}: what else was measured, of NumPy operators; p has the
                    parameters of `free` and `parameters`, with underscores: p.link6_mass
    starts          whether the states at the start are free as well: q0 and v0 of recordings are guesses
    loss            "squares", or "huber": outliers count linearly
    method, forces, joints   as in `lb.simulate`
    iterations      most simulations of all recordings

    Masses, damping, friction, armature and stiffness stay positive; their logarithms are free. Combinations
    that the recordings do not show stay where they are: `Fit.unseen`.

    Raises ModelError and ShapeError for what does not fit together, FailedFit if the start cannot be
    simulated.

    Levenberg (1944); Marquardt (1963); Ljung (1999), "System identification", chapters 7, 9, 16; Rucker and
    Wensing (2022) for the coordinates of bodies.
    """
    if loss not in LOSSES:
        raise ModelError(f"loss is {loss!r}, expected one of {', '.join(map(repr, LOSSES))}")
    coordinates = FreeParameters(robot, names(free), dict(start or {}), names(positive_words))
    options = {"dt": positive("dt", dt, SECONDS), "method": method, "joints": joints}
    options["forces"] = forces_of(forces)
    problem = FitProblem(
        robot, coordinates, dict(parameters or {}), dict(prior or {}), signals, starts, loss, options
    )
    given = listed(recordings)
    return Fit(problem, given, *_search(problem, given, count("iterations", iterations)))


def _search(problem: FitProblem, recordings: list[Recording], most: int) -> tuple[Array, int, bool]:
    """The coordinates of least cost, the number of simulations, and whether the search ended by itself.

    Steps solve (H + damping diag(H)) dx = -g, with H = J^T J. The damping follows the ratio of the decrease
    to the one that the quadratic model predicts: Nielsen (1999), "Damping parameter in Marquardt's method".
    """
    x = problem.start(recordings)
    scales = problem.scales(recordings)
    try:
        best = problem.evaluated(recordings, x)
    except IntegrationError as error:
        raise FailedFit(f"the start cannot be simulated: {error}") from None
    damping, growth = DAMPING, 2.0
    for done in range(1, most):
        H, g = best.J.T @ best.J, best.J.T @ best.r
        diagonal = np.diag(H)
        diagonal = np.maximum(diagonal, LEAST_DIAGONAL * diagonal.max(initial=0.0) + np.finfo(float).tiny)
        step = -np.linalg.solve(H + damping * np.diag(diagonal), g)
        predicted = -float(step @ g) - 0.5 * float(step @ H @ step)
        # Smaller decreases are round-off of the cost: trials would only be accepted by chance.
        if (np.abs(step) <= STEP * scales).all() or predicted <= DECREASE * best.cost:
            return x, done, True
        try:
            trial = problem.evaluated(recordings, x + step)
        except (IntegrationError, ModelError):  # too far: a motion without an end, or a body that cannot be
            trial = best._replace(cost=math.inf)
        gain = (best.cost - trial.cost) / predicted
        if gain > 0:
            settled = best.cost - trial.cost <= DECREASE * best.cost
            x, best = x + step, trial
            damping, growth = damping * max(1 / 3, 1 - (2 * gain - 1) ** 3), 2.0
            if settled:
                return x, done + 1, True
        else:
            damping, growth = damping * growth, 2 * growth
            if damping > MOST_DAMPING:
                return x, done + 1, True
    return x, most, False
