"""The states in which a motion starts: completed, checked, with unit quaternions."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from ..base.arguments import check_members
from ..base.errors import ConfigurationError, ShapeError
from ..mechanisms import Mechanism
from ..mechanisms.states import States
from ..scalars import Array
from .setup import NONE

_states: WeakKeyDictionary[Mechanism, States] = WeakKeyDictionary()


def states_of(
    mechanism: Mechanism, q0: Array, v0: Array, p: Array = NONE, t: float = 0.0
) -> tuple[Array, Array, tuple[int, ...]]:
    """Initial states of `simulate` as new, checked arrays q (n, nq), v (n, nv), and the ensemble's shape.

    q0, v0  (..., nq), (..., nv), or values by name; None: the default start, at rest or as constraints move
    p       parameters (..., np); leading axes of all three broadcast
    t       when the motion starts, which matters where constraints or joints move with time

    Raises ShapeError, ModelError (unknown names), ConfigurationError (norms of quaternions, constraints).
    """
    states = _states.get(mechanism)
    if states is None:
        states = _states[mechanism] = States(mechanism.group, mechanism.nv)
    shape = p.shape[:-1]
    # The start of a mechanism that is closed, or moved by functions of time, depends on its parameters, such
    # as lengths and amplitudes: it is computed anew for them. All others start in the same configuration,
    # which is kept.
    closing = p if mechanism.layout.size and mechanism.is_bound else None

    def start() -> Array:
        if states.start is None or closing is not None or states.time != t:
            states.start, states.time = mechanism.start(closing, t), t
        return states.start

    if isinstance(v0, Mapping):
        v0 = mechanism.labels[1].filled(v0, mechanism.rest(closing, t), "v0")
    q, v = states.read(q0, v0, start, lambda: mechanism.labels)
    batch = q.shape[:-1]
    # Most calls have equal axes; the others are broadcast.
    if not batch == v.shape[:-1] == shape:
        try:
            batch = np.broadcast_shapes(batch, v.shape[:-1], shape)
        except ValueError:
            more = f" and parameters {shape}" if shape else ""
            raise ShapeError(
                f"q0 {q.shape} and v0 {v.shape}{more} differ in their leading axes; make the ensembles equal"
            ) from None
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
    # Copies, which are made unit in place.
    q, v = (np.array(x, order="C").reshape(-1, x.shape[-1]) for x in (q, v))
    check_members(batch)
    states.normalize(q)
    if closing is not None:
        closing = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(len(q), -1)
    # Constraints and joints that move with time let no state rest: they say the velocities at the start.
    if v0 is None and mechanism.is_bound:
        v = np.array(mechanism.start_velocities(q, closing, t))
    try:
        one = len(q) == 1
        mechanism.check_state(q[0] if one else q, v[0] if one else v, t, closing)
    except ConfigurationError as error:
        if q0 is not None or not mechanism.nc:
            raise
        raise ConfigurationError(
            f"{error}, where q0 = system.assemble(): simulations start there unless q0 is given, and not "
            "from system.guess; if v0 belongs to another configuration, give that as q0"
        ) from None
    return q, v, batch
