"""The result of a simulation: states over time, energies, and where they came from."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..base.arguments import array_of, is_index, wrong_shape
from ..base.concurrency import lock_of, unlock
from ..base.errors import LiebodyError, ModelError, ShapeError, known, require
from ..base.public import public
from ..base.texts import check_names, shown
from ..bodies import with_values
from ..bodies.labels import Labels
from . import files, table
from .events import event_variables, events_of
from .kinds import RunKind, register
from .variables import (
    OF_FORCE,
    OF_PARAMETER,
    Variables,
    axes_of,
    label_variables,
    labels_of,
    named_in,
    with_own_axes,
)

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

    from ..bodies import Tree

ENERGIES = ("kinetic", "potential")
LATE = ("tau", "work_done", "forces")
LATER: Any = None  # energies and efforts that are computed when they are first asked for


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """States over time of one simulation, or of a batch with the same times.

    t                   times, (nt,)                                                            [s]
    q                   coordinates, (..., nt, nq)
    v                   velocities, left-trivialised, (..., nt, nv); q and v are float32 if both are given
                        so, otherwise float64, as all other fields are                          [rad/s, m/s]
    kinetic, potential  energies, (..., nt)                                                     [J]
    tau                 efforts that the simulation was given, (..., nt, nu), without the joints' damping; nu
                        is nv for a tree; None: none were given                                 [N m, N]
    coordinates, dofs   names and units of the entries of q and of v, as `labels(tree)` gives them
    drives              names and units of the entries of tau, where these are not one for each of v
    work_done           of efforts and of forces that do not store it, since the first time, (..., nt): by an
                        explicit method of a Robot integrated along with the motion, by the same method and
                        steps; otherwise from the powers at the times of the run, by a rule of order four.
                        None: nothing does work                                                     [J]
    forces              {name: generalised forces (..., nt, nv)} of each force of a Robot beside efforts and
                        weight                                                                      [N m, N]
    metadata            how it was made: names with text, int or float (model, method, dt, ...)
    mechanism           where energies are given as LATER: an object with `kinetic_energy(q, v)` and
                        `potential_energy(q)`, which computes them when they are first asked for and is
                        released then
    later               calls that give tau, work_done and forces when they are first asked for
    tree                the bodies and joints, for pictures; None after loading, and for a run without a tree
    events              of `simulate(events=...)`: an EventLog, or a list of them, one for each member of a
                        batch; None: without event functions
    parameters          values that the simulation was given, {name: (..., *shape)}; None: none

    tau acts from its time on: where samples jump, it has the value after the jump.

    Raises ShapeError where the arrays do not fit together.
    """

    # The class is long because its users look here for everything that a run knows: each method is a few
    # lines, and files and tables are made in `files` and `table`.

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    coordinates: Labels
    dofs: Labels
    tau: np.ndarray | None = field(default_factory=lambda: LATER)  # no default that hides it from __getattr__
    work_done: np.ndarray | None = field(default_factory=lambda: LATER)
    forces: Mapping[str, np.ndarray] = field(default_factory=dict)
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)
    mechanism: Any = None
    drives: Labels | None = None
    later: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    events: Any = None
    tree: Tree | None = None
    parameters: Mapping[str, np.ndarray] | None = None

    def __post_init__(self) -> None:
        # Fields of a frozen dataclass are set through its dictionary.
        fields = vars(self)
        fields["t"] = array_of("t", self.t, float)
        single = all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in (self.q, self.v))
        types = dict.fromkeys(("q", "v"), np.float32 if single else float)
        fields["q"] = array_of("q", self.q, types["q"])
        # Times and coordinates first: the shapes of all others follow from theirs.
        if self.t.ndim != 1 or not len(self.t):
            raise ShapeError(f"the times t have shape {self.t.shape}, expected (nt,) with one time or more")
        if self.q.ndim < 2:
            raise wrong_shape("q", self.q.shape, "(..., nt, nq)")
        nq = len(self.coordinates)
        nv = len(self.dofs)
        rows = (*self.batch, len(self.t))
        nu = nv if self.drives is None else len(self.drives)

        def fitting(name: str, x: Any, shape: tuple[int, ...]) -> np.ndarray:
            x = array_of(name, x, types.get(name, float))
            if x.shape != shape:
                raise wrong_shape(
                    name,
                    x.shape,
                    f"{shape}: batch {self.batch}, {len(self.t)} times, {nq} coordinates, {nv} velocities",
                )
            return x

        shapes = {"q": (*rows, nq), "v": (*rows, nv), "tau": (*rows, nu), "work_done": rows}
        for name, shape in {**shapes, **dict.fromkeys(ENERGIES, rows)}.items():
            if fields[name] is not None:
                fields[name] = fitting(name, fields[name], shape)
        # Names become variables of files.
        check_names("a force", self.forces)
        check_names("a parameter", self.parameters or ())
        if self.forces:
            fields["forces"] = {name: fitting(name, x, shapes["v"]) for name, x in self.forces.items()}
        # Fields that are computed later are removed: Python then asks `__getattr__` for them, once.
        late = ENERGIES if self.mechanism is not None and self.kinetic is self.potential is LATER else ()
        for name in (*late, *self.later):
            del fields[name]
        fields["later"] = dict(self.later)
        fields["metadata"] = files.checked_metadata(self.metadata)

    if not TYPE_CHECKING:  # type checkers know the fields

        def __getattr__(self, name: str) -> Any:
            """A field that was given as LATER, computed now; threads that ask meanwhile wait for it."""
            fields = vars(self)
            if name not in ENERGIES and name not in fields.get("later", ()):
                if name in fields:  # another thread has computed it since Python did not find it
                    return fields[name]
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            # Both energies are computed at once. A lock is forgotten only after its value is there: one who
            # waited for it finds the value, and so does one who comes with a new lock.
            lock = ENERGIES if name in ENERGIES else name
            with lock_of(self, lock):
                if name not in fields:
                    fields.update(self._computed(name))
                    fields["later"].pop(name, None)  # and what it holds
                unlock(self, lock)
            return fields[name]

    def _computed(self, name: str) -> dict[str, Any]:
        """The field of this name, which was given as LATER, and other fields that change with it."""
        if name in self.later:
            return {name: self.later[name]()}
        # Both energies at once, for the mechanism is released afterwards; NaN where a state is not finite.
        finite = self._finite
        mechanism = self.mechanism
        q = np.asarray(self.q[finite], float)  # calls of robots compute in the type of the arrays
        v = np.asarray(self.v[finite], float)
        more: dict[str, Any] = {}
        if self.parameters:
            more["parameters"] = {k: self._at_rows(x)[finite] for k, x in self.parameters.items()}
        energies = np.full((2, *finite.shape), np.nan)
        energies[0, finite] = mechanism.kinetic_energy(q, v, **more)
        energies[1, finite] = mechanism.potential_energy(q, **more)
        return {**dict(zip(ENERGIES, energies, strict=True)), "mechanism": None}

    def __getstate__(self) -> dict[str, Any]:
        """All values, computed now, without the mechanism and the calls that compute them."""
        values = {name: getattr(self, name) for name in (*ENERGIES, *LATE)}
        return {**vars(self), **values, "mechanism": None, "later": {}}

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch; () for one simulation."""
        return self.q.shape[:-2]

    @property
    @np.errstate(all="ignore")
    def energy(self) -> np.ndarray:
        """Kinetic plus potential energy, (..., nt) [J]."""
        if not self.has_energies:
            raise LiebodyError(f"{self!r} has no energies; give its system outputs with them")
        return self.kinetic + self.potential

    @property
    @np.errstate(all="ignore")
    def energy_change(self) -> np.ndarray:
        """Energy less the energy of the first sample, (..., nt) [J]."""
        return self.energy - self.energy[..., :1]

    @property
    @np.errstate(all="ignore")
    def energy_balance(self) -> np.ndarray:
        """E - E(0) - W, the energy change less the work done, (..., nt) [J]: zero but for errors."""
        return self.energy_change if self.work_done is None else self.energy_change - self.work_done

    @property
    @np.errstate(all="ignore")
    def energy_drift(self) -> float:
        """The largest of |E - E(0) - W| over the largest kinetic energy: the error of the energy."""
        largest = largest_of(np.abs(self.energy_balance))
        kinetic = largest_of(self.kinetic)
        return largest / kinetic if kinetic else largest and np.inf

    @property
    @np.errstate(all="ignore")
    def quaternion_error(self) -> float | None:
        """The largest distance of a quaternion's norm from one; None for a mechanism without quaternions."""
        at = self.coordinates.quaternions
        if not at:
            return None
        quaternions = self.q[..., at].astype(float).reshape(*self.q.shape[:-1], -1, 4)
        return largest_of(np.abs(np.linalg.norm(quaternions, axis=-1) - 1))

    @property
    def _finite(self) -> np.ndarray:
        """Whether each state is finite, (..., nt)."""
        return np.isfinite(self.q).all(axis=-1) & np.isfinite(self.v).all(axis=-1)

    def _at_rows(self, x: np.ndarray) -> np.ndarray:
        """Values (..., *shape) of a parameter, for each state: (..., nt, *shape)."""
        return table.at_rows(x, self.batch, len(self.t))

    @property
    def finite(self) -> np.ndarray:
        """Whether each simulation is finite to the last time, (...); the numbers above leave out the rest.

        Members that a terminal event ended are not.
        """
        stayed: Any = self._finite.all(axis=-1)
        return stayed

    def member(self, *index: int) -> Self:
        """One simulation of the batch, by its place in it: `run.member(3)`."""
        return type(self)(**self._member(index))

    def _member(self, index: tuple[int, ...]) -> dict[str, Any]:
        """The fields of a member; what is computed later for all members is computed later for this one."""
        if not is_index(index, self.batch):
            raise ShapeError(f"member{index} is not in a batch of shape {self.batch}")
        index = tuple(map(int, index))
        # What is late first, its values afterwards: another thread may compute some of them meanwhile.
        later = tuple(self.later)
        shared = {
            name: getattr(self, name)
            for name in ("t", "coordinates", "dofs", "metadata", "mechanism", "drives")
        }
        # Through the dictionary, so that nothing late is computed for all members.
        parts = {name: vars(self).get(name) for name in ("q", "v", *ENERGIES, "tau", "work_done")}

        # A late field of a member asks the run of all members, which computes it once.
        def of_member(name: str) -> Any:
            values = getattr(self, name)
            return {k: x[index] for k, x in values.items()} if name == "forces" else values[index]

        parameters = self.parameters and {k: x[index] for k, x in self.parameters.items()}
        return {
            **{name: None if values is None else values[index] for name, values in parts.items()},
            **shared,
            "parameters": parameters,
            "tree": with_values(self.tree, parameters) if self.tree and parameters else self.tree,
            **({} if "forces" in later else {"forces": of_member("forces")}),
            "later": {name: partial(of_member, name) for name in later},
            "events": self.events and self.events[int(np.ravel_multi_index(index, self.batch, "wrap"))],
        }

    def __repr__(self) -> str:
        batch = f"batch {self.batch}, " if self.batch else ""
        return (
            f"Run of {shown(self.metadata.get('model', 'a mechanism'))}: {batch}{len(self.t)} samples of "
            f"nq = {len(self.coordinates)}, nv = {len(self.dofs)} from {self.t[0]:g} to {self.t[-1]:g} s"
        )

    def summary(self) -> str:
        """A table of what happened, as text."""
        lines = [repr(self)]
        if self.metadata:
            lines.append("  " + ", ".join(table.words_of_metadata(self.metadata)))
        lines += self._told_ends()
        if self.has_energies:
            lines.append(self._told_energies())
        if self.quaternion_error is not None:
            lines.append(f"  quaternions within {self.quaternion_error:.2g} of unit norm")
        lines += ["", *table.lines_of_ranges(list(self.shown), single=not self.batch)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    def _told_ends(self) -> list[str]:
        """Lines of the summary about members that ended early."""
        lost = np.sum(~self.finite)
        how = "did not stay finite" if self.events is None else "ended early: lost, or by a terminal event"
        return [f"  {lost} of {self.finite.size} {how}"] if lost else []

    @property
    def has_energies(self) -> bool:
        """Whether the energies are known; a hybrid system without outputs for them has none."""
        return vars(self).get("kinetic", True) is not None

    @np.errstate(all="ignore")
    def _told_energies(self) -> str:
        first = self.energy[..., 0]
        start = f"{first:.6g}" if not self.batch else f"{first.min():.6g} to {first.max():.6g}"
        words = f"  energy {start} J at the start; "
        if self.work_done is None:
            # Without work energy is conserved, and its change is the error.
            change = largest_of(np.abs(self.energy_change))
            return (
                words
                + f"largest change {change:.2g} J, {self.energy_drift:.2g} of the largest kinetic energy"
            )
        last = self.work_done[..., -1]
        done = f"{last:.6g}" if not self.batch else f"{np.nanmin(last):.6g} to {np.nanmax(last):.6g}"
        left = largest_of(np.abs(self.energy_balance))
        return words + (
            f"work done {done} J; balance kept to {left:.2g} J, "
            f"{self.energy_drift:.2g} of the largest kinetic energy"
        )

    @property
    def shown(self) -> tuple[tuple[Labels, np.ndarray], ...]:
        """Coordinates and velocities as tables and plots show them: names with units, values (..., nt, n).

        Usually these are q and v. For bodies in absolute coordinates they are angles and translations of the
        joints, as far as the joints have some.
        """
        return (self.coordinates, self.q), (self.dofs, self.v)

    @property
    def joints(self) -> dict[str, np.ndarray]:
        """{name: (..., nt)} of the coordinates that are `shown`, such as angles of joints         [rad, m]"""
        labels, values = self.shown[0]
        return {name: values[..., k] for k, name in enumerate(labels.names)}

    @property
    def joint_rates(self) -> dict[str, np.ndarray]:
        """{name: (..., nt)} of the velocities that are `shown`                                [rad/s, m/s]"""
        labels, values = self.shown[1]
        return {name: values[..., k] for k, name in enumerate(labels.names)}

    @property
    def shown_efforts(self) -> tuple[Labels, np.ndarray] | None:
        """Names and values (..., nt, n) of efforts: tau, and efforts of drives; None without any."""
        if self.tau is None:
            return None
        return (self.dofs if self.drives is None else self.drives), self.tau

    def effort(self, joint: str) -> np.ndarray:
        """The effort in a joint over time, (..., nt), or (..., nt, k) for k motions: given, or of its drive.

        Raises ModelError for a joint without efforts.                                              [N m, N]
        """
        labels, values = self.shown_efforts or (Labels((), ()), self.v[..., :0])
        at = [i for i, name in enumerate(labels.names) if name == joint or name.startswith(f"{joint}.")]
        if not at:
            raise ModelError(f"no efforts act in {joint!r}; {known(labels.names, joint)}")
        return values[..., at[0]] if labels.names[at[0]] == joint else values[..., at]

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        joints: str | Sequence[str] | None = None,
        system: Any = None,
        members: int = 40,
        title: str | None = None,
    ) -> matplotlib.figure.Figure:
        """Picture of coordinates, velocities, efforts and energies over time; written to `path` if given.

            run.plot(joints=["shoulder", "elbow"])      # between their limits

        path     file to write, its suffix says how: .png, .pdf, .svg
        joints   names of joints, or of entries such as "base.x": a row each, with angle, rate and effort, and
                 what lies beyond their limits shaded. None: panels of all, by their units
        system   the robot, whose joints have the limits; needed where the run does not know it: after loading
        members  how many of an ensemble are drawn, evenly chosen, as thin lines
        title    above the panels; the run's own words if None

        A limit far away from the curve is named in the corner, so that the curve fills its panel. Needs no
        display. Raises LiebodyError for unknown joints and for a file that cannot be written.
        """
        options = {"joints": joints, "system": system, "members": members, "title": title}
        return self._picture("plot_run", path, options)

    def plot_phase(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        joints: str | Sequence[str] | None = None,
        system: Any = None,
        members: int = 40,
        title: str | None = None,
    ) -> matplotlib.figure.Figure:
        """Phase plot: rates over angles, a panel for each joint, coloured by time; a dot is the start.

        joints   as of `plot`; None: the first 16 coordinates that have a rate. Joints that turn in space have
                 none, because a quaternion has four entries and its velocity three
        others   as of `plot`

        Raises LiebodyError for unknown joints and joints without such a rate, and for a file that cannot be
        written.
        """
        options = {"joints": joints, "system": system, "members": members, "title": title}
        return self._picture("plot_phase", path, options)

    def plot_frame(
        self,
        frame: str,
        path: str | os.PathLike[str] | None = None,
        *,
        system: Any = None,
        members: int = 40,
        title: str | None = None,
    ) -> matplotlib.figure.Figure:
        """The motion of a frame in the world: its path, its position over time, and its speed.

        frame    name of a frame or body; of a System in absolute coordinates, of a body
        others   as of `plot`

        A path in a coordinate plane is drawn in it, any other one in space, coloured by time. Raises
        LiebodyError for an unknown frame, for a run that does not know its system, and for a file that cannot
        be written.
        """
        options = {"frame": frame, "system": system, "members": members, "title": title}
        return self._picture("plot_frame", path, options)

    def animate(
        self,
        *,
        joints: str | Sequence[str] | None = None,
        system: Any = None,
        seconds: float | None = None,
    ) -> Any:
        """The robot as lines from joint to joint, in motion beside curves of its joints: a drawing in SVG.

            run.animate(joints=["shoulder", "elbow"])       # the last line of a notebook's cell

        joints   names of the joints whose coordinates are drawn, as of `plot`; None: the first four
        system   the robot, needed where the run does not know it: after loading
        seconds  how long the animation lasts; default: as long as the motion, and a second at least       [s]

        returns  an object that notebooks show, with `.save("run.svg")` and `.save("run.html")`

        It needs no package, no script and no network, and is small; `view` shows bodies and meshes in space.
        The first member of an ensemble is drawn. Raises LiebodyError for unknown joints, and for a run
        without a motion or without a tree.
        """
        return public("animation")(self, joints=joints, system=system, seconds=seconds)

    def _picture(self, kind: str, path: Any, options: Mapping[str, Any]) -> matplotlib.figure.Figure:
        """A picture by this function of the room `view`."""
        require("pictures", "matplotlib", extra="plot")
        figure: matplotlib.figure.Figure = public(kind)(self, path, **options)
        return figure

    def view(self, system: Any = None, **options: Any) -> Any:
        """The run in motion: a notebook shows it, `.show()` opens a browser, `.save("run.html")` writes it.

        system   what was simulated, needed where the run does not know it: after loading
        options  of `liebody.view`: members, ghosts, trace

        returns  a `View`, as of `liebody.view`

        Raises LiebodyError for a run that does not know its system.
        """
        # The argument, the system of a ConstrainedRun, or the tree.
        system = next((x for x in (system, vars(self).get("system"), self.tree) if x is not None), None)
        if system is None:
            raise LiebodyError("a loaded run does not know its system; give it, run.view(robot)")
        return public("view")(system, self, **options)

    # -- tables and files -----------------------------------------------------------------------------------

    def to_xarray(self) -> xarray.Dataset:
        """The same as an xarray Dataset, with named dimensions and units."""
        return table.to_xarray(self._variables(), self._attributes())

    def to_dataframe(self) -> Any:
        """A wide pandas DataFrame: a row for each time (of each member), a column for each number.

        Columns are called q.NAME, v.NAME, tau.NAME, force_FORCE.NAME, kinetic, potential, work_done, ..., and
        parameter_NAME, the same in all rows of a member; a batch is in the index, before the time.
        `attrs["units"]` has the units that are known. Arrays without labels of more than 1000 numbers, such
        as the heights of a terrain, are no columns; `attrs["left_out"]` has their shapes, and a UserWarning
        names them.
        """
        return table.to_dataframe(self._variables(), self._rows())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """The columns of `to_dataframe` as text, to the last digit; the head has units, `q.arm [rad]`."""
        table.to_csv(path, self._variables(), self._rows())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write netCDF-4 (.nc), self-describing; `Run.load` and `xarray.open_dataset` read it.

        Written beside its final name first and then renamed: a file of that name is whole, or the old one.
        Arrays have Fletcher's checksum, and the file ends with its SHA-256 digest.
        For a page (.html), film (.gif, .mp4) or picture (.png) of the motion `view` writes the file.
        """
        # Other types of paths are refused by `files.save`, with a message.
        if isinstance(path, (str, os.PathLike)) and Path(path).suffix in files.VIEWS:
            self.view().save(path)
        else:
            files.save(path, self._variables(), self._attributes())

    @classmethod
    def load(cls, path: str | os.PathLike[str], check: bool = True) -> Run:
        """Read what `save` wrote.

        check  whether the file has to be as it was saved, by its digest. Without it, files that another
               program changed are read, and files of liebody 0.1, compressed ones, too; HDF5 may never end on
               a damaged file

        Files of other people are safe to look at: links into other files, data that lie elsewhere, and shapes
        beyond the size of the file are refused before any data are read, with and without the check.

        Raises LiebodyError if the file is missing, damaged, or something else.
        """
        run: Run = files.load(path, check)
        return run

    @classmethod
    def from_states(
        cls,
        robot: Any,
        t: np.ndarray,
        q: np.ndarray,
        v: np.ndarray,
        *,
        tau: np.ndarray | None = None,
        forces: Any = (),
        joints: str | Iterable[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str | int | float] | None = None,
    ) -> Run:
        """The run of states that your own loop has computed: energies, pictures, files as of any run.

            run = lb.Run.from_states(robot, t, q, v, tau=tau)

        robot       what moved: a Robot, or a System or ClosedTree, whose run is a `ConstrainedRun`
        t           increasing times (nt,)                                                               [s]
        q, v        coordinates (..., nt, nq) and velocities (..., nt, nv), left-trivialised; leading axes
                    are members. States that are not finite may follow a finite start  [rad, m, rad/s, m/s]
        tau         efforts of drives at these times, (..., nt, nu), or what broadcasts to that, such as
                    (nu,); None: none were given                                                  [N m, N]
        forces      what acted beside tau, as in `simulate`
        joints      losses that acted, as in `simulate`: by default armature and damping. A loop that calls
                    `robot.forward_dynamics(q, v, tau)` has no damping: joints="armature" says so
        parameters  values of parameters, as in `simulate`
        metadata    how it was made, {"method": "my RK4", "dt": 1e-3}, beside what is known here

        The work is the integral of the powers at these times, by a rule of order four, as tau was smooth
        between them: `energy_balance` has the error of that rule, too. Energies are of the robot and of
        forces that store some.

        Raises ShapeError for shapes that do not fit and for times that do not increase, ConfigurationError
        for quaternions that are not unit and a start that is not finite, ArgumentError for a hybrid system.
        """
        run: Run = public("run_from_states")(
            robot, t, q, v, tau=tau, forces=forces, joints=joints, parameters=parameters, metadata=metadata
        )
        return run

    def __init_subclass__(cls, mark: str = "", needs: tuple[str, ...] = ENERGIES, **options: Any) -> None:
        """Let `Run.load` make runs of this class, if files of them have a variable `mark`; see `RunKind`."""
        super().__init_subclass__(**options)
        if mark:
            register(RunKind(mark, needs, cls._of_variables))

    @classmethod
    def _of_variables(cls, variables: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> Self:
        """The run with the variables of a file; it has neither a mechanism nor a tree."""
        fields = {
            "t": variables["time"],
            "q": variables["q"],
            "v": variables["v"],
            "kinetic": variables.get("kinetic", LATER),
            "potential": variables.get("potential", LATER),
            "tau": variables.get("tau"),
            "work_done": variables.get("work_done"),
            "forces": named_in(variables, OF_FORCE),
            "events": events_of(variables, variables["q"].shape[:-2]),
            "coordinates": labels_of(variables, "coordinate"),
            "dofs": labels_of(variables, "dof"),
            "drives": labels_of(variables, "drive") if "drive" in variables else None,
            "metadata": metadata,
            "parameters": named_in(variables, OF_PARAMETER) or None,
        }
        return cls(**{**fields, **cls._extras(variables)})

    @classmethod
    def _extras(cls, variables: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Further fields, which a subclass takes from the variables of a file."""
        return {}

    def _rows(self) -> table.TableRows:
        return table.TableRows(self.t, self.batch, (*axes_of(self.batch), "time"))

    def _attributes(self) -> dict[str, str | int | float]:
        return files.attributes_of(repr(self), self.metadata)

    def _variables(self) -> Variables:
        """The variables of a file, and of a Dataset."""
        # Batch first, then time, then entries, as the arrays have them.
        axes = axes_of(self.batch)
        rows = (*axes, "time")
        q_units = "see coordinate_units (rad, m; 1: unit quaternion)"
        variables: Variables = {
            "time": (("time",), self.t, {"units": "s", "long_name": "time"}),
            **label_variables("coordinate", self.coordinates),
            **label_variables("dof", self.dofs),
            "q": ((*rows, "coordinate"), self.q, {"units": q_units, "long_name": "coordinates"}),
            "v": (
                (*rows, "dof"),
                self.v,
                {"units": "see dof_units (rad/s, m/s)", "long_name": "velocities, body-fixed"},
            ),
        }
        if self.has_energies:
            variables |= {
                name: (rows, getattr(self, name), {"units": "J", "long_name": f"{name} energy"})
                for name in ENERGIES
            }
        if self.work_done is not None:
            meaning = {"units": "J", "long_name": "work of efforts and of forces that do not store it"}
            variables["work_done"] = (rows, self.work_done, meaning)
        for name, values in self.forces.items():
            meaning = {"units": "N m, N", "long_name": f"generalised forces of {name}"}
            variables[OF_FORCE + name] = ((*rows, "dof"), values, meaning)
        if self.tau is not None:
            meaning = {"units": "N m, N", "long_name": "efforts as they were given"}
            variables["tau"] = ((*rows, "dof" if self.drives is None else "drive"), self.tau, meaning)
            variables.update({} if self.drives is None else label_variables("drive", self.drives))
        for name, x in (self.parameters or {}).items():
            meaning = {"long_name": f"parameter {name}"}
            variables[OF_PARAMETER + name] = *with_own_axes(OF_PARAMETER + name, x, axes), meaning
        if self.events is not None:
            variables.update(event_variables(self.events, self.batch))
        return variables


def largest_of(values: np.ndarray) -> float:
    """The largest of the values that are numbers, 0 if there are none."""
    return float(np.fmax.reduce(values, axis=None, initial=0.0))


# A file without the mark of another kind holds a plain run.
register(RunKind("", ENERGIES, Run._of_variables))
