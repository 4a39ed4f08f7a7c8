"""A simulation with all its parts, the march of its members through time, and the run that is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.progress import Progress
from ..integrators import MechanicalFlow, MechanicalMethod, Method
from ..mechanisms import Force, Mechanism, OpenTree
from ..mechanisms.constrained import Constrained
from ..runs import ConstrainedRun, EventLog, Run
from ..runs.run import LATER
from ..scalars import Array
from ..stepping import Samples
from ..stepping.march import STOPPED, Ensemble, Settings
from .clock import Clock
from .efforts import EffortInput
from .recorded import forces_by_name, stored_energy, work_by_powers
from .reports import warn_of_singular
from .setup import RobotMechanism, flow_of, guards_of, points_of

MOST_EVENTS = 100_000  # of a member that are kept
FEW_STEPS = 1000  # of all members, which are taken without a look at the clock
CHUNK = 0.25  # seconds between two looks at the progress bar
BAR = "{l_bar}{bar}| {n:.3g}/{total:.3g} s simulated [{elapsed}<{remaining}]"


@dataclass
class PreparedSimulation:
    """A mechanism with its initial states, what drives it, and how its steps are made and recorded.

    states         q (n, nq), v (n, nv) of the members
    batch          their shape
    tolerances     rtol and atol of the error control
    forces, joints as they were given, for the metadata; the mechanism has them already
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
    threads: int
    forces: tuple[Force, ...]
    joints: str | Iterable[str] | None

    def flow(self, metered: bool = False) -> Any:
        """The compiled steps, without events; metered: a state ends in the work of all forces."""
        return flow_of(self.mechanism, self.method, self.stabilized, self.efforts.traced, metered)

    def march(self, metered: bool = False) -> MembersMarch:
        """The members at their start; `metered` as in `flow`."""
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
        return MembersMarch(self, flow, samples, y)

    def parted(self, y: Array) -> tuple[Array, Array]:
        """q (*batch, times, nq) and v (*batch, times, nv) of recorded states (n, times, point)."""
        nq = self.mechanism.nq
        end = nq + self.mechanism.nv
        shape = (*self.batch, y.shape[1])
        return y[..., :nq].reshape(*shape, nq), y[..., nq:end].reshape(*shape, end - nq)

    def run(self, march: MembersMarch, times: Array, states: Array, metadata: dict[str, Any]) -> Run:
        """The run of these recorded states; efforts, work and forces are computed when they are asked for."""
        mechanism = self.mechanism
        efforts = self.efforts
        batch = self.batch
        q, v = self.parted(states)
        later: dict[str, Callable[[], Any]] = {}
        # Few users ask for these fields, and each takes time, so they are computed later.
        if mechanism.nu and efforts.kind != "none":
            later["tau"] = lambda: mechanism.acting(efforts.recorded(times, q, v))
        if "tau" in later or mechanism.works:
            # The meter is one more equation of an explicit method, so the motion is simulated once more. Of a
            # motion that was interrupted only the powers at the recorded states are known.
            is_explicit = isinstance(self.method, Method)
            if is_explicit and type(mechanism) is RobotMechanism and not march.interrupted:
                later["work_done"] = lambda: self.metered_work(q)
            else:
                later["work_done"] = lambda: work_by_powers(mechanism, times, q, v, run.tau, efforts.p)
        if isinstance(mechanism, OpenTree) and mechanism.forces and mechanism.works:
            later["forces"] = lambda: forces_by_name(mechanism, times, q, v, efforts.p)
        fields: dict[str, Any] = {
            "mechanism": mechanism,
            "drives": mechanism.drives,
            "metadata": metadata,
            "tree": getattr(mechanism, "tree", None),
            "later": later,
        }
        layout = mechanism.layout
        if layout.size:
            fields["parameters"] = layout.named(np.broadcast_to(efforts.p, (*batch, layout.size)))
        if self.events:
            fields["events"] = self._logs(march.members)
        kind = Run
        if isinstance(mechanism, Constrained):
            kind = ConstrainedRun
            # The watch keeps the smallest pivot of each member; without a watch it is infinite.
            nearest = march.members.nearest
            fields |= {"constraints": mechanism.rows, "system": mechanism}
            if np.count_nonzero(np.isfinite(nearest.pivot)):
                fields["smallest_pivot"] = nearest.pivot.reshape(batch).copy()
                fields["smallest_pivot_time"] = nearest.time.reshape(batch).copy()
                warn_of_singular(mechanism, nearest)
        run: Run = kind(times, q, v, LATER, LATER, *mechanism.labels, **fields)
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
        march = self.march(metered=True)
        march.go(shown=False)
        if march.interrupted:
            raise march.interrupted
        # A force works at the cost of the energy that it stores: adding that leaves the work of the others.
        work = march.record()[1][..., -1].reshape(q.shape[:-1])
        return work + stored_energy(self.mechanism, q, self.efforts.p)


class MembersMarch:
    """The members of a simulation on their way through time.

    members      their states, times, records, events and ends
    failed       1 + the row from which on a member is lost, or 0, (n,)
    interrupted  the KeyboardInterrupt that ended the march early, or None
    """

    def __init__(self, simulation: PreparedSimulation, flow: Any, samples: Samples, y: Array) -> None:
        self.simulation = simulation
        self.flow = flow
        self.samples = samples
        clock = simulation.clock
        self.members = Ensemble(y, clock.times, clock.first, len(simulation.events))
        self.failed = np.zeros(len(y), np.int64)
        self.interrupted: KeyboardInterrupt | None = None

    def go(self, shown: bool | None) -> None:
        """Advance the members to their ends, or to where Ctrl-C stops them; `shown`: with a progress bar."""
        clock = self.simulation.clock
        # Members take the same steps together where no error and no event of a member shortens its steps.
        together = clock.h is not None and not self.simulation.events
        try:
            with Progress(shown, clock.t_end, bar_format=BAR) as bar:
                if clock.h is not None and together:
                    self._take_fixed_steps(clock, clock.h, bar)
                else:
                    self._take_own_steps(bar)
        except KeyboardInterrupt as stop:
            # The record up to here becomes a run, which goes with the exception.
            self.interrupted = stop
            self.failed[:] = 0

    def record(self) -> tuple[Array, Array]:
        """Times, and states (n, times, point): NaN of members that are lost; those that were reached."""
        members = self.members
        simulation = self.simulation
        for i in self.failed.nonzero()[0]:
            members.record[i, self.failed[i] - 1 :] = np.nan
        # A single simulation that a terminal event ends has no rows after it; an ensemble keeps its shape.
        ended = bool(simulation.events) and not simulation.batch and members.ends[0, 1] == STOPPED
        return members.reached() if self.interrupted or ended else (members.times, members.record)

    def _take_fixed_steps(self, clock: Clock, h: float, bar: Progress) -> None:
        """Steps of one length, which the members take together, in chunks."""
        members = self.members
        every = clock.every
        row = clock.rows + 1
        threads = self.simulation.threads

        def take(t: float, h: float, steps: int, every: int, row: int) -> None:
            kept = members.record, row, self.failed, threads, members.ends, members.nearest
            try:
                self.flow.steps(members.y, self.samples, t, h, steps, every, *kept)
            except KeyboardInterrupt as stop:
                # Where the steps can tell, the record goes on to the time at which the signal came.
                reached = getattr(stop, "reached", None)
                if reached is not None:
                    members.clock["t"] = reached
                    members.interrupt(len(members.times))
                raise

        # Whole rows of the record first, then the steps left over after the last row, then the shorter step.
        for done, rows in _chunks(clock.rows, max(1, FEW_STEPS // (every * len(members.y)))):
            take(done * every * h, h, rows * every, every, 1 + done)
            bar.at((done + rows) * every * h)
        if clock.extra:
            take(clock.rows * every * h, h, clock.extra, clock.extra, row)
        if clock.rest:
            take(clock.steps * h, clock.rest, 1, 1, row + bool(clock.extra))

    def _take_own_steps(self, bar: Progress) -> None:
        """Steps that each member chooses for itself, in chunks of records."""
        members = self.members
        simulation = self.simulation
        most = MOST_EVENTS if simulation.events else 0
        settings = Settings(*simulation.tolerances, controlled=simulation.clock.h is None, most=most)
        for done, rows in _chunks(len(members.times) - 1):
            self.flow.march(members, self.samples, 1 + done + rows, settings, simulation.threads)
            bar.at(members.times[done + rows])
        # A member that ended without a terminal event is lost, from the row on that it did not reach.
        ended = (members.ends[:, 1] > 0) & (members.ends[:, 1] != STOPPED)
        self.failed[ended] = members.clock["row"][ended] + 1


def _chunks(rows: int, some: int = 1) -> Iterator[tuple[int, int]]:
    """(rows done, rows to do next) until so many are done, each time for about a quarter of a second.

    some  rows that take less than that, to begin with
    """
    # The first chunk is small; from the time that it took follows how large the next one may be. Growth is
    # limited, because the time of a small chunk is uncertain.
    done = 0
    while done < rows:
        some = min(some, rows - done)
        start = time.perf_counter()
        yield done, some
        done += some
        some = max(1, int(some * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))
