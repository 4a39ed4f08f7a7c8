"""The result of a simulation with constraints: a Run that also knows violations and multipliers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import LiebodyError
from ..bodies.labels import Labels
from ..scalars import Array
from .run import Run, largest_of
from .variables import Variables, label_variables, labels_of

if TYPE_CHECKING:  # a loaded run has no system: reading a file needs no mechanics
    from ..mechanisms.constrained import Constrained

OF_DRIVE = ".drive"  # the constraint crank.drive moves the joint crank
OF_EQUATIONS = {
    "residual": {"units": "m, rad", "long_name": "violation of the constraints"},
    "rate": {"units": "m/s, rad/s", "long_name": "rate of the violation"},
    "multipliers": {"units": "N, N m", "long_name": "Lagrange multipliers"},
}
CLOSEST = {
    "smallest_pivot": {"units": "1", "long_name": "smallest relative pivot of the constraints"},
    "smallest_pivot_time": {"units": "s", "long_name": "when that was"},
}


@dataclass(frozen=True, eq=False, repr=False)
class ConstrainedRun(Run, mark="equation"):
    """States over time of a system with constraints: a `Run` with these fields, too.

    constraints  where each constraint stands among the equations, (nc,)
    system       the system, None after loading
    smallest_pivot, smallest_pivot_time
                 how close the constraints came to dependence on each other, and when, (...): the smallest
                 pivot of J M^-1 J^T over its size, the squared sine of an angle between constraints.
                 For redundant constraints it is the product of all pivots, over the product at an ordinary
                 place. None if the method does not look; equations that are redundant everywhere do not count

    Violations and multipliers are computed when they are first asked for, from the states and the efforts.
    """

    constraints: Mapping[str, slice] = field(default_factory=dict)
    system: Constrained | None = None
    stored: Mapping[str, np.ndarray] = field(default_factory=dict)
    stored_joints: Any = None  # of a loaded run, as `_of_joints`
    smallest_pivot: np.ndarray | None = None
    smallest_pivot_time: np.ndarray | None = None

    @cached_property
    def residual(self) -> np.ndarray:
        """g of all constraints, (..., nt, nc)                                                  [m, rad]"""
        return self._values(
            "residual", lambda system, p, *state: system.evaluated("residuals", *state, p=p)[0]
        )

    @cached_property
    def rate(self) -> np.ndarray:
        """Their rates J v + dg/dt, (..., nt, nc)                                           [m/s, rad/s]"""
        return self._values("rate", lambda system, p, *state: system.evaluated("residuals", *state, p=p)[1])

    @cached_property
    def multipliers(self) -> np.ndarray:
        """The Lagrange multipliers, (..., nt, nc)                                              [N, N m]"""

        def compute(system: Constrained, p: Array, t: Array, q: Array, v: Array) -> Array:
            u = None if self.tau is None else self.tau[self._finite]
            return system.accelerations(q, v, u, t, p)[1]

        return self._values("multipliers", compute)

    @property
    @np.errstate(all="ignore")
    def violations(self) -> dict[str, np.ndarray]:
        """The norm of g of each constraint over time, (..., nt)                                [m, rad]"""
        return {name: np.linalg.norm(self.residual[..., k], axis=-1) for name, k in self.constraints.items()}

    @property
    @np.errstate(all="ignore")
    def velocity_violations(self) -> dict[str, np.ndarray]:
        """The norm of the rate of g of each constraint over time, (..., nt)                [m/s, rad/s]"""
        return {name: np.linalg.norm(self.rate[..., k], axis=-1) for name, k in self.constraints.items()}

    @property
    def largest_violation(self) -> float:
        """The largest of `violations`, over all constraints and times                           [m, rad]"""
        return max(map(largest_of, self.violations.values()), default=0.0)

    @property
    def largest_energy_jump(self) -> np.ndarray:
        """The largest change of energy less the work of efforts, forces and drives in an interval, (...)  [J]

        Next to zero where nothing else does work. A step over a singular position that went wrong shows here.
        Work is by the trapezoidal rule, so short intervals tell more; a loaded run knows only the work of tau
        in joint coordinates.
        """
        # In each interval the change of energy, less the integral of the power.
        change = np.diff(self.energy, axis=-1)
        power = np.zeros(self._finite.shape)
        if self.system is not None:
            finite = self._finite
            times = np.broadcast_to(self.t, power.shape)
            u = np.zeros(self.system.nu) if self.tau is None else self.tau[finite]
            state = times[finite], self.q[finite], self.v[finite], u
            power[finite] = self.system.evaluated("power", *state, p=self._parameters_at(finite))
        elif self.tau is not None and self.tau.shape == self.v.shape:
            power = (self.tau * self.v).sum(axis=-1)
        change = change - 0.5 * (power[..., 1:] + power[..., :-1]) * np.diff(self.t)
        return np.asarray(np.fmax.reduce(np.abs(change), axis=-1, initial=0.0))

    @cached_property
    def _of_joints(self) -> tuple[Labels, Labels, np.ndarray, np.ndarray] | None:
        """Names, coordinates and velocities (..., nt, nj) of hinges and slides; None for tree coordinates."""
        if self.system is None:
            return self.stored_joints
        labels = self.system.joint_labels
        if labels is None:
            return None
        if self.parameters and self.batch:
            members = [self.member(*i)._of_joints for i in np.ndindex(self.batch)]
            shape = (*self.v.shape[:-1], len(labels[0]))
            x, rates = (np.reshape([m[k] for m in members if m], shape) for k in (2, 3))
            return (*labels, x, rates)
        x = np.full((*self.v.shape[:-1], len(labels[0])), np.nan)
        rates = x.copy()
        finite = self._finite
        x[finite], rates[finite] = self.system.joint_motions(self.q[finite], self.v[finite])
        angles = [k for k, unit in enumerate(labels[0].units) if unit == "rad"]
        x[..., angles] = _followed(self.t, x[..., angles], rates[..., angles])
        return (*labels, x, rates)

    @property
    def shown(self) -> tuple[tuple[Labels, np.ndarray], ...]:
        """As `Run.shown`: angles and translations of hinges and slides, and all of q where a body has none.

        Angles go on beyond half a turn, as the rates say how far they turn between two times.
        """
        of_bodies = (self.coordinates, self.q), (self.dofs, self.v)
        if self._of_joints is None:
            return of_bodies
        x_labels, rate_labels, x, rates = self._of_joints
        of_joints = (x_labels, x), (rate_labels, rates)
        if self.system is None or self.system.all_joined:
            return of_joints
        return tuple(
            (Labels((*a.names, *b.names), (*a.units, *b.units)), np.concatenate([x, y], axis=-1))
            for (a, x), (b, y) in zip(of_joints, of_bodies, strict=True)
        )

    @property
    def _driven(self) -> list[str]:
        """The constraints that are drives."""
        return [name for name in self.constraints if name.endswith(OF_DRIVE)]

    @property
    def shown_efforts(self) -> tuple[Labels, np.ndarray] | None:
        given: tuple[Labels, np.ndarray] | None = Run.shown_efforts.fget(self)  # type: ignore[attr-defined]
        if not self._driven:
            return given
        labels, values = given or (Labels((), ()), self.v[..., :0])
        names = dict(zip(labels.names, labels.units, strict=True))
        efforts = {name: values[..., k] for k, name in enumerate(names)}
        rates = self.shown[1][0]
        units = dict(zip(rates.names, rates.units, strict=True))
        for constraint in self._driven:
            joint = constraint.removesuffix(OF_DRIVE)
            rows = self.constraints[constraint]
            of_joint = [x for x in units if x == joint or x.startswith(f"{joint}.")]
            for name, row in zip(of_joint, range(rows.start, rows.stop), strict=True):
                names[name] = "N m" if units[name] == "rad/s" else "N"
                # J^T lambda stands on the left of the equations of motion: the joint feels -lambda
                efforts[name] = efforts.get(name, 0.0) - self.multipliers[..., row]
        return Labels(tuple(names), tuple(names.values())), np.stack([*efforts.values()], axis=-1)

    def reactions(self, constraint: str, passive: bool = False) -> np.ndarray:
        """The wrench of a constraint on its last body over time, (..., nt, 6); see `System.reactions`."""
        if self.system is None:
            raise LiebodyError("a loaded run does not know its system; build it again")
        # A system has one value of each parameter, so members with other values are asked one by one.
        if self.parameters and self.batch:
            members = [self.member(*i).reactions(constraint, passive) for i in np.ndindex(self.batch)]
            return np.reshape(members, (*self.q.shape[:-1], 6))
        # `carried` is the wrench of springs and dampers in the joint, beside the wrench of the multipliers.
        F = self.system.reaction_wrenches(constraint, self.q, self.multipliers, self.t)
        return F + self.system.carried(constraint, self.q, self.v, self.t) if passive else F

    def summary(self) -> str:
        """A table of what happened, as text."""
        # The line on constraints stands below the first one: the worst eight of them.
        head, *rest = Run.summary(self).split("\n")
        worst = {name: largest_of(x) for name, x in self.violations.items()}
        shown = sorted(worst, key=lambda name: -worst[name])[:8]
        line = "  constraints within " + ", ".join(f"{name} {worst[name]:.2g}" for name in shown)
        if self.smallest_pivot is not None:
            line += f"; smallest relative pivot {np.min(self.smallest_pivot):.2g}"
        return "\n".join([head, *([line] if worst else []), *rest])

    def _member(self, index: tuple[int, ...]) -> dict[str, Any]:
        fields = Run._member(self, index)
        stored = {name: x[index] for name, x in self.stored.items()}
        closest = {name: x[index] for name, x in self._closest().items()}
        system = self.system
        if system is not None and self.parameters:
            system = system.with_parameters(fields["parameters"])
        more: dict[str, Any] = {"constraints": self.constraints, "system": system, "stored": stored}
        if self.stored_joints is not None:
            labels, rate_labels, *values = self.stored_joints
            more["stored_joints"] = (labels, rate_labels, *(x[index] for x in values))
        return {**fields, **more, **closest}

    def _closest(self) -> dict[str, np.ndarray]:
        return {name: x for name in CLOSEST if (x := getattr(self, name)) is not None}

    def _values(self, name: str, compute: Callable[..., Array]) -> np.ndarray:
        """Values of all equations over time, (..., nt, nc): from the file, or computed from finite states."""
        # A loaded run has the values, and no system to compute them.
        if name in self.stored:
            return np.asarray(self.stored[name])
        if self.system is None:
            raise LiebodyError(f"{name} of this run was not saved with it")
        values = np.full((*self.q.shape[:-1], self.system.nc), np.nan)
        finite = self._finite
        times = np.broadcast_to(self.t, finite.shape)
        values[finite] = compute(
            self.system, self._parameters_at(finite), times[finite], self.q[finite], self.v[finite]
        )
        return values

    def _parameters_at(self, rows: Array) -> Array:
        """The values of free parameters at some states, (n, np); None where there are none."""
        if not self.parameters or self.system is None:
            return None
        return self.system.packed({name: self._at_rows(x)[rows] for name, x in self.parameters.items()})

    @classmethod
    def _extras(cls, variables: Mapping[str, np.ndarray]) -> dict[str, Any]:
        # Equations are called CONSTRAINT.0, CONSTRAINT.1, ...: the equations of a constraint stand together.
        names = [name.rpartition(".")[0] for name in variables["equation"]]
        constraints = {
            name: slice(names.index(name), names.index(name) + names.count(name)) for name in names
        }
        return {
            "constraints": constraints,
            "stored": {name: variables[name] for name in OF_EQUATIONS},
            "stored_joints": _joints_of(variables),
            **{name: variables[name] for name in CLOSEST if name in variables},
        }

    def _variables(self) -> Variables:
        variables = Run._variables(self)
        rows = variables["kinetic"][0]
        if self._of_joints is not None:
            labels, rate_labels, x, rates = self._of_joints
            variables |= {
                **label_variables("joint", labels),
                **label_variables("joint_rate", rate_labels),
                "joints": ((*rows, "joint"), x, {"units": "see joint_units (rad, m)"}),
                "joint_rates": ((*rows, "joint_rate"), rates, {"units": "see joint_rate_units (rad/s, m/s)"}),
            }
        if self._driven and self.shown_efforts is not None:
            names_of_efforts, efforts = self.shown_efforts
            variables |= label_variables("effort", names_of_efforts)
            variables["efforts"] = ((*rows, "effort"), efforts, {"units": "see effort_units (N m, N)"})
        names = [f"{name}.{i}" for name, k in self.constraints.items() for i in range(k.stop - k.start)]
        label = (("equation",), np.array(names, dtype=object), {"long_name": "name of the equation"})
        values = {name: ((*rows, "equation"), getattr(self, name), x) for name, x in OF_EQUATIONS.items()}
        closest = {name: (rows[:-1], x, CLOSEST[name]) for name, x in self._closest().items()}
        return {**variables, "equation": label, **values, **closest}


def _joints_of(variables: Mapping[str, np.ndarray]) -> tuple[Labels, Labels, np.ndarray, np.ndarray] | None:
    """The coordinates and velocities of joints in a file, as `ConstrainedRun._of_joints`."""
    if "joints" not in variables:
        return None
    labels, rate_labels = labels_of(variables, "joint"), labels_of(variables, "joint_rate")
    return labels, rate_labels, variables["joints"], variables["joint_rates"]


def _followed(t: Array, x: Array, rates: Array) -> Array:
    """Angles (..., nt, n) between -pi and pi, plus the whole turns by which they follow their rates."""
    step = np.diff(t)[:, None] * (rates[..., 1:, :] + rates[..., :-1, :]) / 2
    turns = np.round((step - np.diff(x, axis=-2)) / (2 * np.pi))
    followed: Array = x.copy()
    followed[..., 1:, :] += 2 * np.pi * np.cumsum(turns, axis=-2)
    return followed
