"""Feedback at the section: parameters that are set anew at each return make a gait stable.

With x, how far the state is from the orbit when it meets the section, the return map is x+ = A x + B dp. The
gain dp = K x minimises the sum over all returns of x^T Q x + dp^T R dp (discrete linear-quadratic regulator),

    K = -(R + B^T P B)^-1 B^T P A,       P = Q + A^T P (1 + B R^-1 B^T P)^-1 A

where P comes from the doubling algorithm of Chu, Fan, Lin and Wang (2004), which squares its error in each
step. The feedback does not act along the orbit and its symmetries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError
from ..hybrid import HybridSystem, with_changes
from ..runs import HybridRun
from .orbit import PeriodicOrbit, largest_first, largest_multiplier
from .section import AIM_Q, AIM_V, GAIN, FedBack
from .segments import Array, GaitError


@dataclass(frozen=True)
class StabilizedOrbit:
    """An orbit with feedback of its state at the section to parameters.

    gain         K (p, 2 nv): parameters change by K times `orbit.coordinates(q, v)`
    multipliers  of the closed loop, A + B K, without the trivial ones, the largest first
    measured     the same of the closed loop itself, by differences of simulated returns
    """

    orbit: PeriodicOrbit
    inputs: tuple[str, ...]
    gain: Array
    multipliers: Array
    measured: Array

    @property
    def stable(self) -> bool:
        return bool(np.all(np.abs(self.measured) < 1))

    def __repr__(self) -> str:
        size = largest_multiplier(self)
        free = largest_multiplier(self.orbit)
        return f"StabilizedOrbit({', '.join(self.inputs)}; largest multiplier {free:.4g} becomes {size:.4g})"

    def parameters(self, q: Any, v: Any) -> dict[str, Array]:
        """The parameters until the next return, after states at the section (..., nq), (..., nv)."""
        return with_changes(self.orbit.parameters, self.inputs, self.orbit.coordinates(q, v) @ self.gain.T)

    def returns(self, q: Any, v: Any, number: int) -> tuple[Array, Array]:
        """States after each of so many periods with feedback, (number, n, nq) and (number, n, nv).

        q, v  states on the section, (n, nq), (n, nv); all in one simulation for each period

        Errors: GaitError where one of them does not return.
        """
        q = np.atleast_2d(np.asarray(q, float))
        v = np.atleast_2d(np.asarray(v, float))
        states = []
        for _ in range(number):
            q, v = _after(self.orbit, q, v, self.parameters(q, v))
            states.append((q, v))
        return np.stack([q for q, _ in states]), np.stack([v for _, v in states])

    @cached_property
    def system(self) -> HybridSystem:
        """The closed loop: the system with this feedback at its section, whose gain is a parameter.

        Errors: ConfigurationError for orbits without a section, or that close at a later return.
        """
        shooting = self.orbit.shooting
        if shooting.section is None or shooting.segments > 1:
            raise ConfigurationError(
                "a closed loop needs an orbit that closes at its first return to a section; use `returns`"
            )
        return FedBack(self.orbit.system, shooting.section, self.inputs, shooting.away)

    def simulate(self, q: Any, v: Any, *, t_end: float, gain: Any = None, **options: Any) -> HybridRun:
        """The motion with feedback, from states at the section (..., nq), (..., nv).

        gain     another one, (p, 2 nv), as zero for none
        options  of `HybridSystem.simulate`, where they differ from the orbit's
        """
        K = self.gain if gain is None else np.broadcast_to(np.asarray(gain, float), self.gain.shape)
        fed_back = {**self.orbit.parameters, GAIN: K, AIM_Q: self.orbit.q, AIM_V: self.orbit.v}
        defaults = self.orbit.shooting.options(fed_back, self.orbit.period)
        parameters = {**defaults["parameters"], **options.pop("parameters", {})}
        return self.system.simulate(q, v, t_end=t_end, **{**defaults, **options, "parameters": parameters})


def stabilize(
    orbit: PeriodicOrbit, inputs: Sequence[str], *, Q: Any = None, R: Any = None, gain: Any = None
) -> StabilizedOrbit:
    """Make a gait stable by parameters that are set at each return to the section, and check that it is.

    orbit   with a section, or with a known period
    inputs  names of the parameters, which are held until the next return
    Q       weights (2 nv, 2 nv), or of each entry (2 nv,), of the state at returns; default: 1 / scale^2
    R       weights (p, p), or (p,), of the changes of the parameters; default: 1 / (a tenth of each)^2
    gain    one of the user's own, (p, 2 nv), in place of the regulator's

    Errors: GaitError if the inputs do not reach all that is unstable, or the given gain does not hold it.
    """
    if orbit.shooting.free_period:
        raise ConfigurationError("there is no section at which parameters could be set; give the orbit one")
    if not inputs:
        raise ConfigurationError("inputs is empty; name parameters of the system")
    scale = orbit.shooting.scale
    orbit = orbit.with_unknowns(*inputs)
    # the return map across the symmetries: x+ = A x + B dp, over the scales of states and parameters
    unit = orbit.shooting.unit(orbit.point)[orbit.shooting.size - orbit.by_unknowns.shape[1] :]
    W = orbit.across_symmetries
    A = W.T @ (orbit.derivative * scale / scale[:, None]) @ W
    B = W.T @ (orbit.by_unknowns * unit / scale[:, None])
    if gain is None:
        q = _weights("Q", Q, scale)
        r = _weights("R", R, unit)
        K = regulator(A, B, W.T @ q @ W, r)
    else:
        K = _gain(gain, len(unit), len(scale)) / unit[:, None] * scale @ W
    # the closed return map must contract, also with a gain of the user
    if not np.isfinite(K).all() or np.abs(np.linalg.eigvals(A + B @ K)).max() >= 1:
        what = f"{', '.join(inputs)} do not reach all that is unstable; give others, or more"
        raise GaitError(what if gain is None else "the gain does not make all multipliers less than 1")
    gain = unit[:, None] * K @ W.T / scale  # zero along the symmetries
    # measure: simulated returns from both sides along each direction, with the feedback applied
    h = 1e-5
    steps = np.kron(scale * W.T, [[h], [-h]])
    nv = orbit.system.nv
    starts = [orbit.system.group.integrate(orbit.q, x[:nv]) for x in steps]
    held = with_changes(orbit.parameters, inputs, steps @ gain.T)
    ends = _after(orbit, np.array(starts, float), orbit.v + steps[:, nv:], held)
    # central differences give the return map with feedback; its eigenvalues are measured multipliers
    x = orbit.coordinates(*ends) / scale @ W
    measured = np.linalg.eigvals(((x[::2] - x[1::2]) / (2 * h)).T)
    within = len(W.T) - (orbit.shooting.section is not None)  # one is zero: off the section nothing returns
    multipliers = (largest_first(values)[:within] for values in (np.linalg.eigvals(A + B @ K), measured))
    return StabilizedOrbit(orbit, tuple(inputs), gain, *multipliers)


def _after(orbit: PeriodicOrbit, q: Array, v: Array, parameters: dict[str, Array]) -> tuple[Array, Array]:
    """States (n, nq), (n, nv) after one period."""
    shooting = orbit.shooting
    # all starts in one ensemble, segment after segment
    for _ in range(shooting.segments):
        _, ends = shooting.arrive(shooting.motion, q, v, parameters, orbit.period / shooting.segments)
        q = np.stack([end.q for end in ends])
        v = np.stack([end.v for end in ends])
    return q, v


def _weights(name: str, given: Any, scale: Array) -> Array:
    """Weights as a matrix, over the scale."""
    n = len(scale)
    x = 1 / scale**2 if given is None else np.asarray(given, float)
    if x.shape not in ((n,), (n, n)):
        raise wrong_shape(name, x.shape, f"({n},) or ({n}, {n})")
    return scale[:, None] * (np.diag(x) if x.ndim == 1 else x) * scale


def _gain(given: Any, inputs: int, size: int) -> Array:
    K = np.asarray(given, float)
    if K.shape != (inputs, size):
        raise wrong_shape("gain", K.shape, f"({inputs}, {size}): inputs by (q, v)")
    return K


def regulator(A: Array, B: Array, Q: Array, R: Array) -> Array:
    """K (p, n) of the discrete linear-quadratic regulator u = K x of x+ = A x + B u; see the head.

    Not finite, or not stable, where B does not reach all that is unstable in A.
    """
    # F, G and P describe two returns in place of one after each round
    G = B @ np.linalg.solve(R, B.T)
    P = Q
    F = A
    one = np.eye(len(A))
    for _ in range(60):
        # doubling: after k rounds P is the cost of 2^k returns (Chu et al. 2004)
        left = np.linalg.solve(one + G @ P, np.concatenate([F, G], axis=1))
        forward = left[:, : len(A)]
        through = left[:, len(A) :]
        change = F.T @ P @ forward
        G = G + F @ through @ F.T
        P = P + change
        F = F @ forward
        if not np.isfinite(P).all() or np.abs(change).max() <= 1e-15 * np.abs(P).max():
            break
    return -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
