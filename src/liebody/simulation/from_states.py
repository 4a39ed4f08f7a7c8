"""Runs of states that your own loop has computed, or a measurement has given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import checked, floats, wrong_shape
from ..base.errors import ArgumentError, ConfigurationError, ShapeError
from ..bodies import joint_kinds
from ..hybrid import HybridSystem
from ..mechanisms import Forces, forces_of
from ..runs import Run
from ..scalars import Array
from .recorded import run_of_record, work_by_powers
from .setup import mechanism_of, with_parameters


@checked
def run_from_states(
    mechanism: Any,
    t: Array,
    q: Array,
    v: Array,
    *,
    tau: Array = None,
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """The run of given states, as `Run.from_states` says."""
    if isinstance(mechanism, HybridSystem):
        raise ArgumentError(
            f"{mechanism!r} is a hybrid system, whose runs have memory and works, too; give its robot, or "
            "let `simulate` make the run"
        )
    acting = forces_of(forces)
    parametric, p = with_parameters(mechanism, parameters, ())
    moving = mechanism_of(parametric, acting, joints)
    t = _times(t)
    q = _rows("q", q, len(t), moving.nq)
    v = _rows("v", v, len(t), moving.nv)
    if v.shape[:-1] != q.shape[:-1]:
        raise wrong_shape("v", v.shape, (*q.shape[:-1], moving.nv), ": one velocity for each q")
    batch = q.shape[:-2]
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    if not finite[..., 0].all():
        raise ConfigurationError("q and v at the first time have to be finite; later ones may be NaN")
    moving.group.check(q[finite])
    if p.ndim > 1 and p.shape[:-1] != batch:
        raise ShapeError(f"parameters have values for members {p.shape[:-1]}, and q for members {batch}")

    later: dict[str, Callable[[], Any]] = {}
    if tau is not None:
        efforts = moving.acting(_efforts(tau, (*q.shape[:-1], moving.nu)))
        later["tau"] = lambda: efforts
    if tau is not None or moving.works:
        later["work_done"] = lambda: work_by_powers(moving, t, q, v, run.tau, p)
    about: dict[str, Any] = {"model": moving.name, "efforts": "none" if tau is None else "given"}
    if acting:
        about["forces"] = ", ".join(type(force).__name__ for force in acting)
    if joints is not None:
        about["joints"] = ", ".join(sorted(joint_kinds(joints))) or "ideal"
    if moving.layout.size:
        about["parameters"] = ", ".join(moving.layout.defaults)
    passed = {}
    if joints is None and moving.idle_limits is not None:
        values = np.broadcast_to(p, (*batch, p.shape[-1])) if moving.layout.size else None
        passed = moving.idle_limits.passed(t, moving.limited(q, values))
    if passed:
        about["passed_limits"] = ", ".join(f"{name} at {time:.6g} s" for name, time in passed.items())
    run = run_of_record(moving, t, q, v, p, later, {**about, **(metadata or {})})
    return run


def _times(given: Any) -> Array:
    """Increasing times (nt,)."""
    t = floats("t", given).copy()
    if t.ndim != 1 or not len(t):
        raise wrong_shape("t", t.shape, "(nt,) with one time or more")
    (still,) = np.nonzero(np.diff(t) <= 0)
    if len(still):
        k = int(still[0])
        raise ShapeError(
            f"t[{k + 1}] = {t[k + 1]:g} s is not after t[{k}] = {t[k]:g} s; give increasing times, each once"
        )
    return t


def _rows(name: str, given: Any, times: int, size: int) -> Array:
    """Values (..., times, size), a copy: a loop may go on to write into its arrays."""
    x = floats(name, given, finite=False).copy()
    if x.ndim >= 2 and x.shape[-2:] == (times, size):
        return x
    remedy = ""
    if x.ndim > 2 and x.shape[0] == times and x.shape[-1] == size:
        remedy = f"; times are the last axis but one: numpy.moveaxis({name}, 0, -2)"
    elif x.ndim >= 2 and x.shape[-1] == size:
        remedy = f"; t has {times} times and {name} {x.shape[-2]} rows, and each time needs its row"
    raise wrong_shape(name, x.shape, f"(..., {times}, {size})", remedy)


def _efforts(given: Any, shape: tuple[int, ...]) -> Array:
    """Efforts (..., nt, nu), from ones that broadcast to that shape."""
    x = floats("tau", given, finite=False)
    try:
        return np.array(np.broadcast_to(x, shape))
    except ValueError:
        raise wrong_shape("tau", x.shape, f"{shape}, or axes that broadcast to it") from None
