"""The result of a simulation: states over time, energies, and where they came from."""

from __future__ import annotations

import csv
import html
import io
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import unquote

import numpy as np

from . import netcdf
from .bodies import with_values
from .codegen.cache import version
from .door import array_of, is_index
from .errors import LiebodyError, ShapeError, counted, pass_on_signals, require, suppress
from .labels import Labels
from .seal import is_sealed, write_sealed
from .shared import lock_of, unlock
from .texts import check_names, is_writable, path_of, shown, words_of

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

    from .bodies import Tree
    from .view import View

FORMAT = "liebody run"
FORMAT_VERSION = 1
OWN_ATTRIBUTES = ("format", "format_version", "source", "title")
ENERGIES, LATE = ("kinetic", "potential"), ("tau", "work_done", "forces")
LATER: Any = None  # energies and efforts that are computed when they are first asked for
UNITS = "_units"  # the name of a dimension and this: the units of what stands along it
OF_FORCE = "force_"  # and its name: a force's variable in a file
OF_PARAMETER = "parameter_"  # likewise
LONGEST_TABLE = 24
PLAIN = (str, int, float)  # what metadata are
VIEWS = (".html", ".gif", ".mp4", ".png")  # suffixes of files that show a motion


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """States over time of one simulation, or of a batch with the same times.

    t                   times, (nt,)                                                            [s]
    q                   coordinates, (..., nt, nq)
    v                   velocities, left-trivialised, (..., nt, nv)                             [rad/s, m/s]
    kinetic, potential  energies, (..., nt)                                                     [J]
    tau                 efforts as they were given, (..., nt, nu): of a tree, nu is nv, and the joints'
                        damping is not among them; None: none were given                        [N m, N]
    coordinates, dofs   names and units of the entries of q and of v, as `labels(tree)` gives them
    drives              those of the entries of tau, where they are not one for each of v
    work_done           of efforts and of forces that do not store it, since the first time, (..., nt): by an
                        explicit method of a Robot integrated along with the motion, by the same method and
                        steps; otherwise from the powers at the times of the run, by a rule of order four.
                        None: nothing does work                                                     [J]
    forces              {name: generalised forces (..., nt, nv)} of each force of a Robot beside efforts and
                        weight                                                                      [N m, N]
    metadata            what made it: names with text, int or float (model, method, dt, ...)
    mechanism           where energies are given as LATER: an object with `kinetic_energy(q, v)` and
                        `potential_energy(q)`, which computes them when they are first asked for and is
                        released then
    later               calls that give tau, work_done and forces when they are first asked for
    tree                the bodies and joints, for pictures; None after loading, and where there are none
    events              of `simulate(events=...)`: an EventLog, of a batch a list of them, one a member; None:
                        none were looked for

    parameters          values that the simulation was given, {name: (..., *shape)}; None: none

    tau is what acts from its time on: where samples jump, it is the value after the jump.

    Raises ShapeError where the arrays do not fit together.
    """

    mark: ClassVar[str] = ""  # a variable that only files of this kind of run have
    needs: ClassVar[tuple[str, ...]] = ENERGIES  # variables that they all have, beside those of states

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
        given = vars(self)
        given["t"], given["q"] = array_of("t", self.t, float), array_of("q", self.q, float)
        if self.t.ndim != 1 or not len(self.t):
            raise ShapeError(f"the times t have shape {self.t.shape}, expected (nt,) with one time or more")
        if self.q.ndim < 2:
            raise ShapeError(f"q has shape {self.q.shape}, expected (..., nt, nq)")
        nq, nv, rows = len(self.coordinates), len(self.dofs), (*self.batch, len(self.t))
        nu = nv if self.drives is None else len(self.drives)

        def fitting(name: str, x: Any, shape: tuple[int, ...]) -> np.ndarray:
            x = array_of(name, x, float)
            if x.shape != shape:
                raise ShapeError(
                    f"{name} has shape {x.shape}, expected {shape}: batch {self.batch}, {len(self.t)} times, "
                    f"{nq} coordinates, {nv} velocities"
                )
            return x

        shapes = {"q": (*rows, nq), "v": (*rows, nv), "tau": (*rows, nu), "work_done": rows}
        for name, shape in {**shapes, **dict.fromkeys(ENERGIES, rows)}.items():
            if given[name] is not None:
                given[name] = fitting(name, given[name], shape)
        check_names("a force", self.forces)
        check_names("a parameter", self.parameters or ())
        if self.forces:
            given["forces"] = {name: fitting(name, x, shapes["v"]) for name, x in self.forces.items()}
        late = ENERGIES if self.mechanism is not None and self.kinetic is self.potential is LATER else ()
        for name in (*late, *self.later):
            del given[name]
        given["later"] = dict(self.later)
        given["metadata"] = _checked_metadata(self.metadata)

    if not TYPE_CHECKING:  # which knows the fields

        def __getattr__(self, name: str) -> Any:
            """What was given as LATER, computed now; threads that ask at the same time wait for the first."""
            with lock_of(self, LATER):
                try:
                    if name not in vars(self):
                        vars(self).update(self._computed(name))
                finally:
                    unlock(self, LATER)
            return vars(self)[name]

    def _computed(self, name: str) -> dict[str, Any]:
        """What was given as LATER under this name, and what is computed with it."""
        given = vars(self)
        if name in given.get("later", ()):
            return {name: given["later"][name](), "later": {k: x for k, x in self.later.items() if k != name}}
        if name not in ENERGIES or given.get("mechanism") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        finite, mechanism, more = self._finite, given["mechanism"], {}
        q, v = self.q[finite], self.v[finite]
        if self.parameters:
            more["parameters"] = {k: self._at_rows(x)[finite] for k, x in self.parameters.items()}
        found = mechanism.kinetic_energy(q, v, **more), mechanism.potential_energy(q, **more)
        energies = np.full((2, *finite.shape), np.nan)
        for energy, values in zip(energies, found, strict=True):
            energy[finite] = values
        return {**dict(zip(ENERGIES, energies, strict=True)), "mechanism": None}

    def __getstate__(self) -> dict[str, Any]:
        """All values, and nothing that they are computed with."""
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
        """Energy less that of the first sample, (..., nt) [J]."""
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
        largest, kinetic = largest_of(np.abs(self.energy_balance)), largest_of(self.kinetic)
        return largest / kinetic if kinetic else largest and np.inf

    @property
    @np.errstate(all="ignore")
    def quaternion_error(self) -> float | None:
        """The largest distance of a quaternion's norm from one; None for a mechanism without quaternions."""
        at = self.coordinates.quaternions
        if not at:
            return None
        quaternions = self.q[..., at].reshape(*self.q.shape[:-1], -1, 4)
        return largest_of(np.abs(np.linalg.norm(quaternions, axis=-1) - 1))

    @property
    def _finite(self) -> np.ndarray:
        """Whether each state is finite, (..., nt)."""
        return np.isfinite(self.q).all(axis=-1) & np.isfinite(self.v).all(axis=-1)

    def _at_rows(self, x: np.ndarray) -> np.ndarray:
        """Values (..., *shape) of a parameter, for each state: (..., nt, *shape)."""
        k, own = len(self.batch), x.shape[len(self.batch) :]
        return np.broadcast_to(np.expand_dims(x, k), (*self.batch, len(self.t), *own))

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
        """The fields of a member; its energies and efforts are computed later, if those of all are."""
        if not is_index(index, self.batch):
            raise ShapeError(f"member{index} is not in a batch of shape {self.batch}")
        index = tuple(map(int, index))
        parts = {name: vars(self).get(name) for name in ("q", "v", *ENERGIES, "tau", "work_done")}
        shared = ("t", "coordinates", "dofs", "metadata", "mechanism", "drives")

        def of_member(name: str) -> Any:
            values = getattr(self, name)
            return {k: x[index] for k, x in values.items()} if name == "forces" else values[index]

        own = self.parameters and {k: x[index] for k, x in self.parameters.items()}
        return {
            **{name: None if values is None else values[index] for name, values in parts.items()},
            **{name: getattr(self, name) for name in shared},
            "parameters": own,
            "tree": with_values(self.tree, own) if self.tree and own else self.tree,
            **({} if "forces" in self.later else {"forces": of_member("forces")}),
            "later": {name: partial(of_member, name) for name in self.later},
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
            lines.append("  " + ", ".join(_words(self.metadata)))
        lines += self._told_ends()
        if self.has_energies:
            lines.append(self._told_energies())
        if self.quaternion_error is not None:
            lines.append(f"  quaternions within {self.quaternion_error:.2g} of unit norm")
        lines += [""] + _table([(self.coordinates, self.q), (self.dofs, self.v)], single=not self.batch)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    def _told_ends(self) -> list[str]:
        """Which members ended early, as lines of the summary."""
        lost = np.sum(~self.finite)
        how = "did not stay finite" if self.events is None else "ended early: lost, or by a terminal event"
        return [f"  {lost} of {self.finite.size} {how}"] if lost else []

    @property
    def has_energies(self) -> bool:
        """Whether the energies are known; those of a hybrid system without such outputs are not."""
        return vars(self).get("kinetic", True) is not None

    @np.errstate(all="ignore")
    def _told_energies(self) -> str:
        first = self.energy[..., 0]
        start = f"{first:.6g}" if not self.batch else f"{first.min():.6g} to {first.max():.6g}"
        told = f"  energy {start} J at the start; "
        if self.work_done is None:
            change = largest_of(np.abs(self.energy_change))
            return (
                told + f"largest change {change:.2g} J, {self.energy_drift:.2g} of the largest kinetic energy"
            )
        last = self.work_done[..., -1]
        done = f"{last:.6g}" if not self.batch else f"{np.nanmin(last):.6g} to {np.nanmax(last):.6g}"
        left = largest_of(np.abs(self.energy_balance))
        return told + (
            f"work done {done} J; balance kept to {left:.2g} J, "
            f"{self.energy_drift:.2g} of the largest kinetic energy"
        )

    def plot(self, path: str | os.PathLike[str] | None = None, **options: Any) -> matplotlib.figure.Figure:
        """Picture of coordinates, velocities and energy over time; written to `path` if one is given.

        Needs no display. Options are those of `liebody.plot.plot_run`.
        """
        require("pictures", "matplotlib", extra="plot")
        from .plot import plot_run

        return plot_run(self, path, **options)

    def view(self, system: Any = None, **options: Any) -> View:
        """The run in motion: a notebook shows it, `.show()` opens a browser, `.save("run.html")` writes it.

        system   what was simulated, needed where the run does not know it: after loading
        options  those of `liebody.view`: members, ghosts, trace

        Raises LiebodyError for a run that does not know its system.
        """
        from .view import view

        system = next((x for x in (system, vars(self).get("system"), self.tree) if x is not None), None)
        if system is None:
            raise LiebodyError("a loaded run does not know its system; give it, run.view(robot)")
        return view(system, self, **options)

    def to_xarray(self) -> xarray.Dataset:
        """The same as an xarray Dataset, with named dimensions and units."""
        require("to_xarray", "xarray", extra="sweep")
        import xarray

        variables = self._variables()
        dataset = xarray.Dataset(variables, attrs=self._attributes())
        return dataset.set_coords([name for name in variables if name.endswith(UNITS)])

    def to_dataframe(self) -> Any:
        """A wide pandas DataFrame: a row for each time (of each member), a column for each number.

        Columns are called q.NAME, v.NAME, tau.NAME, force_FORCE.NAME, kinetic, potential, work_done, ..., and
        parameter_NAME, the same in all rows of a member; a batch is in the index, before the time.
        `attrs["units"]` has the units that are known.
        """
        require("to_dataframe", "pandas", extra="sweep")
        import pandas

        index, columns, units = self._columns()
        if self.batch:
            rows = pandas.MultiIndex.from_arrays(list(index.values()), names=list(index))
        else:
            rows = pandas.Index(self.t, name="time")
        frame = pandas.DataFrame(columns, index=rows)
        frame.attrs["units"] = units
        return frame

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """The columns of `to_dataframe` as text, to the last digit; the head has units, `q.arm [rad]`."""
        index, columns, units = self._columns()
        both = {**index, **columns}
        heads = [f"{name} [{units[name]}]" if units.get(name) else name for name in both]
        path = path_of("the name of the file", path)
        try:
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(heads)
                writer.writerows(zip(*(x.tolist() for x in both.values()), strict=True))
        except OSError as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot save {path}: {error.strerror or error}") from error

    def _columns(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, str]]:
        """Index, columns, and their units, of all variables along time, each (rows,)."""
        variables = self._variables()
        rows = (*self.batch, len(self.t))
        names = [*variables["kinetic" if self.has_energies else "q"][0][: len(rows)]]
        counted = np.meshgrid(*map(np.arange, self.batch), self.t, indexing="ij")
        index = {name: x.ravel() for name, x in zip(names, counted, strict=True)}
        columns: dict[str, np.ndarray] = {}
        units = {"time": "s"}
        for name, (dims, values, attributes) in variables.items():
            if name.startswith(OF_PARAMETER):
                dims, values = (*names, *dims[len(rows) - 1 :]), self._at_rows(values)
            if dims[: len(rows)] != tuple(names) or name in index:
                continue
            flat = values.reshape(math.prod(rows), math.prod(values.shape[len(rows) :]))
            label = dims[-1] if len(dims) == len(rows) + 1 else ""
            if label in variables:
                entries, unit = variables[label][1], variables.get(label + UNITS)
                found = [f"{name}.{entry}" for entry in entries]
                same = dict(zip(found, unit[1] if unit else [""] * len(found)))
                units |= same if name in ("q", "v") else {}
            else:
                shape = values.shape[len(rows) :]
                found = [".".join([name, *map(str, at)]) for at in np.ndindex(shape)]
                units |= {x: attributes["units"] for x in found if "units" in attributes}
            columns |= dict(zip(found, flat.T, strict=True))
        return index, columns, units

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write netCDF-4 (.nc), self-describing; `Run.load` and `xarray.open_dataset` read it.

        Written beside its final name first and then renamed: a file of that name is whole, or the old one.
        Arrays have Fletcher's checksum, and the file ends with its SHA-256 digest.
        A page (.html), film (.gif, .mp4) or picture (.png) of the motion is that of `view`.
        """
        if isinstance(path, (str, os.PathLike)) and Path(path).suffix in VIEWS:
            return self.view().save(path)
        import h5netcdf

        target = _netcdf(path, f"; pages, films and pictures end in {', '.join(VIEWS)}")
        if not target.parent.is_dir():
            raise LiebodyError(f"cannot save {target}: there is no folder {target.parent}; make it first")
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            made = io.BytesIO()  # HDF5 ends the process where a disk is full
            with h5netcdf.File(made, "w") as file:
                variables = self._variables()
                for name, (dims, values, attributes) in variables.items():
                    beside = [
                        d + UNITS for d in dims if d + UNITS in variables and name not in (d, d + UNITS)
                    ]
                    dims = tuple(map(_in_file, dims))
                    file.dimensions.update(
                        {d: n for d, n in zip(dims, values.shape, strict=True) if d not in file.dimensions}
                    )
                    dtype = _text_type() if values.dtype == object else values.dtype
                    named = {"coordinates": " ".join(beside)} if beside else {}  # as CF says, for xarray
                    sums = (
                        {"fletcher32": True} if values.dtype != object and values.ndim and values.size else {}
                    )
                    variable = file.create_variable(_in_file(name), dims, dtype, data=values, **sums)
                    variable.attrs.update({**attributes, **named})
                file.attrs.update(self._attributes())
            write_sealed(temporary, made.getvalue())
            os.replace(temporary, target)
        except OSError as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot save {target}: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], check: bool = True) -> Run:
        """Read what `save` wrote.

        check  whether the file has to be as it was saved, by its digest. Without it, files that another
               program changed are read, and those of liebody 0.1, compressed ones, too; HDF5 may never end on
               a damaged file

        Files of other people are safe to look at: links into other files, data that lie elsewhere, and shapes
        beyond the size of the file are refused before any data are read, with and without the check.

        Raises LiebodyError if the file is missing, damaged, or something else.
        """
        source = _netcdf(path)
        if not source.is_file():
            raise LiebodyError(f"there is no file {source}; a run is written by run.save({source.name!r})")
        try:
            if check and not is_sealed(source):
                raise LiebodyError(
                    f"{source} is not as `save` wrote it: cut off or damaged, changed by another program, or "
                    "of liebody 0.1; Run.load(path, check=False) reads it all the same"
                )
            attributes, variables = netcdf.read(source, plain=check)
            found = {shown(unquote(name)): values for name, values in variables.items()}
            return cls._of_file(source, attributes, found)
        except LiebodyError:
            raise
        except Exception as error:  # of a file that is not ours, in which anything may be
            pass_on_signals(error)
            raise LiebodyError(
                f"{source} cannot be read as netCDF-4, it may be cut off or damaged: {words_of(error)}"
            ) from error

    @classmethod
    def _of_file(cls, source: Path, attributes: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> Run:
        """The run of which these are the attributes and variables."""
        if attributes.get("format") != FORMAT:
            raise LiebodyError(
                f"{source} is netCDF but not a run of liebody (its attribute 'format' is not {FORMAT!r})"
            )
        if attributes.get("format_version") != FORMAT_VERSION:
            raise LiebodyError(
                f"{source} has format version {attributes.get('format_version')}, and this liebody reads "
                f"{FORMAT_VERSION}; install the liebody that wrote it ({attributes.get('source', 'unknown')})"
            )
        if "equation" in found:  # so that the kind is among the subclasses
            import_module("liebody.constrained_run")
        elif "end_time" in found:
            import_module("liebody.systems.hybrid")
        kind = next((kind for kind in Run.__subclasses__() if kind.mark in found), Run)
        needed = (*kind.needs, "time", "q", "v", "coordinate", "coordinate_units", "dof", "dof_units")
        missing = [name for name in needed if name not in found]
        if missing:
            raise LiebodyError(f"{source} lacks the variables {', '.join(missing)}; save the run again")
        return kind(
            found["time"],
            found["q"],
            found["v"],
            found.get("kinetic", LATER),
            found.get("potential", LATER),
            tau=found.get("tau"),
            work_done=found.get("work_done"),
            forces=named_in(found, OF_FORCE),
            events=_events_of(found, found["q"].shape[:-2]),
            coordinates=_labels_of(found, "coordinate"),
            dofs=_labels_of(found, "dof"),
            drives=_labels_of(found, "drive") if "drive" in found else None,
            metadata={name: value for name, value in attributes.items() if name not in OWN_ATTRIBUTES},
            **{"parameters": named_in(found, OF_PARAMETER) or None, **kind._extras(found)},
        )

    @classmethod
    def _extras(cls, found: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Further fields, which a subclass takes from the variables of a file."""
        return {}

    def _attributes(self) -> dict[str, str | int | float]:
        own: dict[str, str | int | float] = {
            "title": repr(self),
            "source": f"liebody {version()}",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
        }
        return {**self.metadata, **own}

    def _variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
        """Name -> dimensions, values, attributes: what is in a file, and in a Dataset."""
        axes = _axes_of(self.batch)
        rows = (*axes, "time")
        q_units = "see coordinate_units (rad, m; 1: unit quaternion)"
        variables = {
            "time": (("time",), self.t, {"units": "s", "long_name": "time"}),
            **_label_variables("coordinate", self.coordinates),
            **_label_variables("dof", self.dofs),
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
            variables.update({} if self.drives is None else _label_variables("drive", self.drives))
        for name, x in (self.parameters or {}).items():
            meaning = {"long_name": f"parameter {name}"}
            variables[OF_PARAMETER + name] = *with_own_axes(OF_PARAMETER + name, x, axes), meaning
        if self.events is not None:
            variables.update(_event_variables(self.events, self.batch))
        return variables


@dataclass(frozen=True, repr=False)
class EventLog:
    """The events of one member, in their order: times, guards, directions of the change, states after.

    lost   how many came after these and were not kept (of any guard, also in what `of` chooses)
    names  of all guards that were looked at, those without events, too; None: not known
    """

    t: np.ndarray
    guard: tuple[str, ...]
    direction: np.ndarray
    q: np.ndarray
    v: np.ndarray
    memory: dict[str, np.ndarray]
    lost: int = 0
    names: tuple[str, ...] | None = None

    @classmethod
    def of_members(cls, members: Any, names: Sequence[str], read: Callable[..., Any]) -> list[EventLog]:
        """The log of each member of an `Ensemble`; `read` gives q, v and memory of times and states."""
        entries, logs = np.concatenate([*members.log, np.zeros((0, 2 + members.y.shape[1]))]), []
        t, signs = entries[:, 0], entries[:, 1].astype(int)
        guard = [names[abs(k) - 1] for k in signs.tolist()]
        q, v, memory = read(t, entries[:, 2:])
        ends = np.cumsum([0, *map(len, members.log)]).tolist()
        for (first, end), count in zip(pairwise(ends), members.counts[:, 0].tolist(), strict=True):
            own = slice(first, end)
            parts = {name: x[own] for name, x in memory.items()}
            lost = count - (end - first)
            logs.append(
                cls(t[own], tuple(guard[own]), np.sign(signs[own]), q[own], v[own], parts, lost, tuple(names))
            )
        return logs

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        kinds = "".join(f", {number} {shown(name)}" for name, number in Counter(self.guard).items())
        until = f" to t = {self.t[-1]:g} s" if len(self) else ""
        lost = f"; {self.lost} more were not kept" if self.lost else ""
        return f"EventLog({counted(len(self), 'event')}{until}{kinds}{lost})"

    def of(self, guard: str, direction: int = 0) -> EventLog:
        """The events of one guard, in one direction (+1, -1), or in both (0).

        Raises LiebodyError for a name that no guard has.
        """
        if self.names is not None and guard not in self.names:
            raise LiebodyError(f"there is no event {guard!r}; there are {', '.join(self.names) or 'none'}")
        keep = np.array([name == guard for name in self.guard], bool)
        return self.where(keep & ((direction == 0) | (self.direction == direction)))

    def where(self, keep: Any) -> EventLog:
        """Some of the events: a mask, indices, or a slice."""
        of_each = {name: getattr(self, name)[keep] for name in ("t", "direction", "q", "v")}
        guard = tuple(np.array(self.guard, dtype=object)[keep])
        return replace(self, guard=guard, memory={k: x[keep] for k, x in self.memory.items()}, **of_each)


def _axes_of(batch: tuple[int, ...]) -> tuple[str, ...]:
    return ("batch",) if len(batch) == 1 else tuple(f"batch_{i}" for i in range(len(batch)))


def with_own_axes(name: str, x: Any, axes: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Dimensions and values of a variable with these first axes, and axes of its own."""
    x = np.asarray(x)
    return (*axes, *(f"{name}_{i}" for i in range(x.ndim - len(axes)))), x


def _in_file(name: str) -> str:
    """The name in a file, in which / parts groups; `unquote` gives it back."""
    return name.replace("%", "%25").replace("/", "%2F")


def named_in(found: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The variables whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): x for name, x in found.items() if name.startswith(prefix)}


def _event_variables(events: Any, batch: tuple[int, ...]) -> dict[str, Any]:
    """The variables of an event log, or of one for each member, along one dimension "event"."""
    logs = [events] if isinstance(events, EventLog) else list(events)
    counts = [len(log) for log in logs]
    found = {
        "member": (np.repeat(np.arange(len(logs)), counts), "place of the member in the flat batch"),
        "time": (np.concatenate([log.t for log in logs]), "time of the event"),
        "guard": (np.array([name for log in logs for name in log.guard], object), "what changed its sign"),
        "direction": (np.concatenate([log.direction for log in logs]).astype(int), "of that change"),
        "q": (np.concatenate([log.q for log in logs]), "coordinates after it"),
        "v": (np.concatenate([log.v for log in logs]), "velocities after it"),
    }
    for name in logs[0].memory:
        found[f"memory_{name}"] = np.concatenate([log.memory[name] for log in logs]), f"{name} after it"
    ends = {"q": ("coordinate",), "v": ("dof",)}
    variables: dict[str, Any] = {}
    for name, (values, meaning) in found.items():
        own = ends.get(name, tuple(f"event_{name}_{i}" for i in range(values.ndim - 1)))
        variables[f"event_{name}"] = ("event", *own), values, {"long_name": meaning}
    lost = np.reshape([log.lost for log in logs], batch)
    variables["events_lost"] = _axes_of(batch), lost, {"long_name": "how many later events were not kept"}
    if logs[0].names:
        names = np.array(logs[0].names, object)
        variables["guard"] = ("guard",), names, {"long_name": "name of what may change its sign"}
    return variables


def _events_of(found: Mapping[str, np.ndarray], batch: tuple[int, ...]) -> Any:
    """The event log of a file, or one for each member; None where it has none."""
    if "event_time" not in found:
        return None
    memory, names = named_in(found, "event_memory_"), _texts_in(found, "guard") if "guard" in found else None
    logs = []
    for i, lost in enumerate(found["events_lost"].ravel()):
        at = found["event_member"] == i
        t, direction, q, v = (found[f"event_{name}"][at] for name in ("time", "direction", "q", "v"))
        own = {name: x[at] for name, x in memory.items()}
        logs.append(EventLog(t, tuple(found["event_guard"][at]), direction, q, v, own, int(lost), names))
    return logs if batch else logs[0]


def _label_variables(
    dimension: str, labels: Labels
) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
    both = {"name": (dimension, labels.names), "unit": (dimension + UNITS, labels.units)}
    return {
        variable: ((dimension,), np.array(texts, dtype=object), {"long_name": f"{what} of the {dimension}"})
        for what, (variable, texts) in both.items()
    }


def _labels_of(found: Mapping[str, np.ndarray], dimension: str) -> Labels:
    return Labels(_texts_in(found, dimension), _texts_in(found, dimension + UNITS))


def _texts_in(found: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    """The texts of a variable; raises TypeError for numbers, of which there may be very many."""
    if found[name].dtype != object:
        raise TypeError(f"{name} holds {found[name].dtype}, expected text")
    return tuple(found[name])


@cache
def _can_be_a_name(name: str) -> bool:
    """Whether metadata can be called so."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and name not in OWN_ATTRIBUTES


def _checked_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float]:
    checked: dict[str, str | int | float] = {}
    for name, value in metadata.items():
        plain = value if type(value) in PLAIN else _plain(value)
        if not _can_be_a_name(name):
            raise LiebodyError(
                f"metadata {name!r} cannot be a name; use letters, digits and _, "
                f"and none of {', '.join(OWN_ATTRIBUTES)}"
            )
        if isinstance(plain, bool) or not isinstance(plain, PLAIN):
            raise LiebodyError(f"metadata {name!r} is {value!r}; give text, an int or a float")
        if isinstance(plain, str) and not is_writable(plain):
            raise LiebodyError(
                f"metadata {name!r} is {plain!a}, which no file can hold; give text without NUL"
            )
        checked[name] = plain
    return checked


def _table(vectors: list[tuple[Labels, np.ndarray]], single: bool) -> list[str]:
    """Rows of first, last, least and largest value of each entry; no more than LONGEST_TABLE per vector."""
    columns = ("first", "last", "least", "largest") if single else ("least", "largest")
    width = max(len(name) for labels, _ in vectors for name in (*labels.names[:LONGEST_TABLE], "velocity"))
    lines = []
    for title, (labels, values) in zip(("coordinate", "velocity"), vectors, strict=True):
        lines.append(f"  {title:{width}}  {'unit':5}" + "".join(f"{c:>13}" for c in columns))
        flat = values.reshape(-1, values.shape[-1])
        numbers = {
            "first": flat[0],
            "last": flat[-1],
            "least": np.fmin.reduce(flat),
            "largest": np.fmax.reduce(flat),
        }
        for i, (name, unit) in enumerate(zip(labels.names, labels.units, strict=True)):
            if i == LONGEST_TABLE:
                lines.append(f"  ... and {len(labels) - i} more")
                break
            row = "".join(f"{numbers[c][i]:13.6g}" for c in columns)
            lines.append(f"  {name:{width}}  {unit:5}{row}")
    return lines


def _words(metadata: Mapping[str, str | int | float]) -> list[str]:
    return [
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {shown(value)}"
        for name, value in metadata.items()
        if name != "model"
    ]


def largest_of(values: np.ndarray) -> float:
    """The largest of the values that are numbers, 0 if there are none."""
    return float(np.fmax.reduce(values, axis=None, initial=0.0))


def _netcdf(path: str | os.PathLike[str], otherwise: str = "") -> Path:
    path = path_of("the name of the file", path)
    if path.suffix != ".nc":
        raise LiebodyError(
            f"runs are netCDF files; name it '{path.stem or 'run'}.nc', not {path.name!r}{otherwise}"
        )
    return path


def _text_type() -> Any:
    import h5py

    return h5py.string_dtype()


def _plain(value: Any) -> Any:
    """A NumPy scalar, or array of one number, as the Python number."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    return value.item() if isinstance(value, np.generic) else value
