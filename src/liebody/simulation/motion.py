"""A simulation with all its parts, its members before they move, and the run that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..integrators import MechanicalFlow, MechanicalMethod, Method
from ..mechanisms import Force, Mechanism, OpenTree
from ..mechanisms.constrained import Constrained
from ..runs import EventLog, Run
from ..scalars import Array
from ..stepping import Clock, Drive
from ..stepping.drive import MOST_EVENTS
from ..stepping.march import LOCATED_IN_SINGLE, Ensemble, Settings
from .efforts import EffortInput
from .recorded import efforts_of, run_of_record, stored_energy, work_by_powers
from .reports import warn_of_singular
from .setup import RobotMechanism, flow_of, guards_of, points_of


@dataclass
class PreparedSimulation:
    """A mechanism with its initial states, what drives it, and how its steps are made and recorded.

    states         q (n, nq), v (n, nv) of the members
    batch          their shape
    tolerances     rtol and atol of the error control
    single         whether states are float32, and the work that is metered along with them
    most_events    events of each member that are kept
    forces, joints, prescribed
                   as they were given, for the metadata; the mechanism has them already
    """

    mechanism: Mechanism
    method: Method | MechanicalMethod
    stabilized: Any
    states: tuple[Array, Array]
    batch: tuple[int, ...]
    efforts: EffortInput
    clock: Clock
    tolerances: tuple[float, float]
    events: Mapping[str, Callable[..., Any]]
    threads: int | None
    forces: tuple[Force, ...]
    joints: str | Iterable[str] | None
    prescribed: tuple[str, ...]
    single: bool = False
    most_events: int = MOST_EVENTS

    def flow(self, metered: bool = False) -> Any:
        """The compiled steps, without events; metered: a state ends in the work of all forces."""
        traced = self.efforts.traced
        return flow_of(self.mechanism, self.method, self.stabilized, traced, metered, self.single)

    def drive(self, metered: bool = False) -> Drive:
        """The drive of the members, which are at their start; `metered` as in `flow`."""
        mechanism = self.mechanism
        efforts = self.efforts
        flow = self.flow(metered)
        samples = efforts.taken(flow)
        first = samples.at(0.0) if isinstance(flow, MechanicalFlow) else None
        # An implicit method computes what else it remembers, from the first efforts.
        y = points_of(flow, *self.states, self.clock.first, first)
        if metered:
            y = np.concatenate([y, np.zeros((len(y), 1))], axis=1)
        # The guards are part of the compiled march, so watching them makes another flow.
        if self.events:
            flow = flow.watching(guards_of(mechanism, self.events, y.shape[1], samples.table.shape[-1]))
        if efforts.called is not None:
            flow = flow.calling(efforts.at_states)
        clock = self.clock
        members = Ensemble(
            y,
            clock.times,
            clock.first,
            guards=len(self.events),
            copy=False,
            watched=flow.is_watched,
            dtype=flow.dtype,
        )
        # Members take steps of one length together, unless an event of one of them shortens its step.
        settings = None
        if clock.h is None or self.events:
            most = self.most_events if self.events else 0
            located = LOCATED_IN_SINGLE if self.single else Settings.tolerance
            controlled = clock.h is None
            settings = Settings(*self.tolerances, controlled=controlled, tolerance=located, most=most)
        return Drive(flow, members, samples, clock, settings, self.threads)

    def recorded(self, drive: Drive) -> tuple[Array, Array]:
        """Times and states of a drive that has ended; an ensemble keeps its shape, whatever ends members."""
        return drive.record(whole=bool(self.batch) or not self.events)

    def parted(self, y: Array) -> tuple[Array, Array]:
        """q (*batch, times, nq) and v (*batch, times, nv) of recorded states (n, times, point)."""
        nq = self.mechanism.nq
        end = nq + self.mechanism.nv
        shape = (*self.batch, y.shape[1])
        return y[..., :nq].reshape(*shape, nq), y[..., nq:end].reshape(*shape, end - nq)

    def run(self, drive: Drive, times: Array, states: Array, metadata: dict[str, Any]) -> Run:
        """The run of these recorded states; efforts, work and forces are computed when they are asked for."""
        mechanism = self.mechanism
        efforts = self.efforts
        batch = self.batch
        q, v = self.parted(states)
        later: dict[str, Callable[[], Any]] = {}
        # Few users ask for these fields, and each takes time, so they are computed later.
        if mechanism.nu and (efforts.kind != "none" or (mechanism.is_bound and not mechanism.nc)):
            later["tau"] = lambda: efforts_of(mechanism, times, q, v, efforts)
        if "tau" in later or mechanism.works:
            # The meter is one more equation of an explicit method, so the motion is simulated once more. Of a
            # motion that was interrupted only the powers at the recorded states are known.
            is_explicit = isinstance(self.method, Method)
            if is_explicit and type(mechanism) is RobotMechanism and not drive.interrupted:
                later["work_done"] = lambda: self.metered_work(q)
            else:
                later["work_done"] = lambda: work_by_powers(mechanism, times, q, v, run.tau, efforts.p)
        more: dict[str, Any] = {}
        if self.events:
            more["events"] = self._logs(drive.members)
        if isinstance(mechanism, Constrained):
            # The watch keeps the smallest pivot of each member; without a watch it is infinite.
            nearest = drive.members.nearest
            if np.count_nonzero(np.isfinite(nearest.pivot)):
                more["smallest_pivot"] = nearest.pivot.reshape(batch).copy()
                more["smallest_pivot_time"] = nearest.time.reshape(batch).copy()
                warn_of_singular(mechanism, nearest)
        run = run_of_record(mechanism, times, q, v, efforts.p, later, metadata, **more)
        return run

    def _logs(self, members: Ensemble) -> Any:
        """The event log of a single simulation, or a list of them for the members."""
        nq = self.mechanism.nq
        end = nq + self.mechanism.nv
        names = tuple(self.events)
        logs = EventLog.of_members(members, names, lambda _, y: (y[:, :nq], y[:, nq:end], {}))
        return logs if self.batch else logs[0]

    def metered_work(self, q: Array) -> Array:
        """The work (..., times) of efforts and of forces that do not store it, integrated with the motion."""
        assert isinstance(self.mechanism, OpenTree)
        drive = self.drive(metered=True)
        drive.go()
        if drive.interrupted:
            raise drive.interrupted
        # A force works at the cost of the energy that it stores: adding that leaves the work of the others.
        work = self.recorded(drive)[1][..., -1].reshape(q.shape[:-1])
        return work.astype(float) + stored_energy(self.mechanism, q, self.efforts.p)
