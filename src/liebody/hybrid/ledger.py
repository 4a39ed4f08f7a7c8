"""The balance of energy of a robot system: powers by name along a motion, and the ledger of a run.

Drives and outer elements do work on the robot; passive elements and forces dissipate it and store it:

    work - losses - change of energy - change of stored energy = 0    (the residual, up to integration errors)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dynamics
from ..base.arguments import is_index
from ..base.errors import ModelError, ShapeError
from ..bodies import Tree
from ..mechanisms import OpenTree
from ..runs import EventLog, HybridRun
from ..scalars import Array
from .element import Element, acts, full_name, joined, with_full_names
from .robot_state import State
from .system import HybridSystem


@dataclass(frozen=True)
class Ledger:
    """Where energy came from and went.                                                                  [J]

    energy    changes of the robot's kinetic and potential energy
    stored    changes of the energy that passive elements store: springs of the floor
    work      of drives, joint by joint, and of outer elements
    losses    dissipation of passive elements and forces, with stored energy that updates let go
    elements  work of each element on the robot; of controllers it is part of `work`
    """

    energy: dict[str, float]
    stored: dict[str, float]
    work: dict[str, float]
    losses: dict[str, float]
    elements: dict[str, float]

    @property
    def residual(self) -> float:
        """Work less losses less changes of energy and stored energy; zero but for errors of integration."""
        parts = (self.work, self.losses, self.energy, self.stored)
        work, losses, energy, stored = (sum(part.values()) for part in parts)
        return work - losses - energy - stored

    @property
    def throughput(self) -> float:
        """Sum of the absolute values of all entries: the scale of the residual."""
        parts = (self.work, self.losses, self.energy, self.stored)
        return sum(abs(x) for part in parts for x in part.values())

    def __str__(self) -> str:
        lines = []
        for title in ("work", "losses", "energy", "stored"):
            for name, x in getattr(self, title).items():
                lines.append(f"{title:8} {name:28} {x:12.6f} J")
        lines.append(f"{'residual':37} {self.residual:12.2e} J of {self.throughput:.4g} J")
        return "\n".join(lines)


class AccountedSystem(HybridSystem):
    """The part of a `RobotSystem` that accounts for energy.

    tree, mechanism  tree of bodies of the robot; the robot with its forces
    elements         the elements that act on it
    """

    tree: Tree
    mechanism: OpenTree
    elements: tuple[Element, ...]
    _driven: np.ndarray  # 1 for velocities whose joints have drives, (nv,)
    _lossy: dict[Element, tuple[str, ...]]  # full names of the losses of each element

    def _powers_by_name(self, s: State, efforts: list[Array], losses: list[Any]) -> dict[str, Any]:
        """Powers of joints, forces and elements, from efforts and losses of each element."""
        v = s.v
        driven_efforts = np.zeros(self.nv, int)
        by_element: list[Any] = []
        for (e, z, p), tau, lost in zip(s.elements, efforts, losses, strict=True):
            if e.driven:
                driven_efforts = driven_efforts + tau
            # work of an element: its efforts, and its forces on the velocities of their points
            power = tau @ v
            for frame, force in e.forces(s, z, p):
                power = power + force @ s.velocity(frame)
            named_losses = with_full_names(e, lost)
            # The ledger asks for losses by name; the names are known from here, where they are traced.
            self._lossy[e] = tuple(named_losses)
            by_element += [with_full_names(e, {"work": power} if acts(e) else {}), named_losses]
        # work of the drives, joint by joint; a joint that mimics another has no velocities
        joints = {}
        for body in self.tree.bodies:
            if body.joint.mimic is None and np.any(self._driven[body.dofs]):
                joints[f"joint_{body.joint.name}"] = driven_efforts[body.dofs] @ v[body.dofs]
        forces = {force.name: force.on_tree(s.tree, s.t, s.q, v) @ v for force in self.mechanism.forces}
        return joined(joints, forces, *by_element)

    def plastic_losses(self, log: EventLog, point: str) -> np.ndarray:
        """Kinetic energy that a point takes if it stops dead at each event of a log, (events,).  [J]

        u^T (J M^-1 J^T)^-1 u / 2 with the point's velocity u: the loss of touch-downs on a dead, stiff floor.
        Directions in which the point cannot move at all take no part.
        """
        losses = []
        for q, v in zip(log.q, log.v, strict=True):
            J = dynamics.frame_jacobian(self.tree, q, point, "mixed")[3:]
            # the pseudo-inverse leaves out directions with a mobility of zero, up to round-off
            mobility = J @ np.linalg.solve(dynamics.mass_matrix(self.tree, q).astype(float), J.T)
            u = J @ v
            losses.append(u @ np.linalg.pinv(mobility, rcond=1e-9, hermitian=True) @ u / 2)
        return np.array(losses)

    def ledger(self, run: HybridRun, member: Any = (), first: int = 0, last: int | None = None) -> Ledger:
        """The balance of energy of one member between two samples, or to where it ended.

        member       index of the member, or tuple of indices
        first, last  the samples; last = None: where the member ended, even before t_end

        Errors: ShapeError for members and samples that the run does not have, for samples after the end, and
        for runs from a file without `last`: files have no final states.
        """
        member = member if isinstance(member, tuple) else (member,)
        if not is_index(member, run.end_times.shape):
            raise ShapeError(f"member {member} is no index of an ensemble of shape {run.end_times.shape}")
        if not self.power_names:
            raise ModelError(f"{self.name} was made without a ledger; leave out ledger=False")
        if run.work.keys() != set(self.power_names):
            raise ModelError(
                f"the run has the works {', '.join(run.work) or 'none'}, and {self.name} has "
                f"{', '.join(self.power_names)}: it is one of another system"
            )
        if last is None and run.final is None:
            raise ShapeError("a run from a file has no final states; give `last`, the number of a sample")
        for sample in (first, last):
            if sample is not None and not -len(run.t) <= sample < len(run.t):
                raise ShapeError(f"sample {sample} is not among the {len(run.t)} of this run")
            if sample is not None and run.t[sample] > run.end_times[member]:
                raise ShapeError(
                    f"sample {sample} is at t = {run.t[sample]:g} s, but the member ended at "
                    f"{run.end_times[member]:g} s: {run.ends[member]}; leave out `last`"
                )

        # the last value is a sample, or the state in which the member ended
        def change(kind: str, name: str) -> float:
            samples = getattr(run, kind)[name][member]
            end = getattr(run.final, kind)[name][member] if last is None else samples[last]
            return float(end - samples[first])

        return self._balance(change, run.outputs)

    def _balance(self, change: Callable[[str, str], Any], outputs: Collection[str]) -> Ledger:
        """The ledger of changes (kind, name) of works and outputs, kind being "work" or "outputs".

        outputs  names of the outputs
        """
        energy = {name: change("outputs", f"{name}_energy") for name in ("kinetic", "potential")}
        work = {name: change("work", name) for name in self.power_names if name.startswith("joint_")}
        stored: dict[str, Any] = {}
        losses: dict[str, Any] = {}
        elements: dict[str, Any] = {}
        # A force takes the energy -work from the robot. It stores a part of that, and dissipates the rest.
        for force in self.mechanism.forces:
            losses[force.name] = -change("work", force.name)
            if force.stores:
                stored[f"{force.name}_energy"] = change("outputs", f"{force.name}_energy")
                losses[force.name] -= stored[f"{force.name}_energy"]
        for e in self.elements:
            own_work, own_energy, own_lost = (full_name(e, name) for name in ("work", "energy", "lost"))
            if own_work in self.power_names:
                elements[own_work] = change("work", own_work)
            if e.driven:  # its work is work of the joints, which is counted already
                continue
            if own_energy in outputs:  # a passive element: it says what it stores and what it loses
                stored[own_energy] = change("outputs", own_energy)
                losses |= {name: change("work", name) for name in self._lossy[e]}
                losses |= {own_lost: change("outputs", own_lost)} if own_lost in outputs else {}
            elif own_work in elements:  # an outer element, such as wind: its work comes from outside
                work[own_work] = elements[own_work]
        return Ledger(energy, stored, work, losses, elements)
