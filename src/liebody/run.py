"""The result of a simulation: states over time, energies, and where they came from."""

from __future__ import annotations

import html
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import LiebodyError, ShapeError, require
from .labels import UNIT_OF_QUATERNIONS, Labels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

    from .bodies import Tree
    from .view import View

FORMAT = "liebody run"
FORMAT_VERSION = 1
OWN_ATTRIBUTES = ("format", "format_version", "source", "title")
ENERGIES = ("kinetic", "potential")
LATER: Any = None  # energies and efforts that are computed when they are first asked for
UNITS = "_units"  # the name of a dimension and this: the units of what stands along it
LONGEST_TABLE = 24
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
    metadata            what made it: names with text, int or float (model, method, dt, ...)
    mechanism           where energies are given as LATER: an object with `kinetic_energy(q, v)` and
                        `potential_energy(q)`, which computes them when they are first asked for and is
                        released then
    efforts             where tau is given as LATER, a call that returns it, likewise; None: no efforts

    tree                the bodies and joints, for pictures; None after loading, and where there are none
    events              of `simulate(events=...)`: an EventLog, of a batch a list of them, one a member; None:
                        none were looked for. They are not kept in files

    tau is what acts from its time on: where samples jump, it is the value after the jump.

    Raises ShapeError where the arrays do not fit together.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    coordinates: Labels
    dofs: Labels
    tau: np.ndarray | None = field(default_factory=lambda: LATER)  # no default that hides it from __getattr__
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)
    mechanism: Any = None
    drives: Labels | None = None
    efforts: Callable[[], np.ndarray] | None = None
    events: Any = None
    tree: Tree | None = None

    def __post_init__(self) -> None:
        given = vars(self)
        for name in ("t", "q", "v", "kinetic", "potential", "tau"):
            if given[name] is not None:
                given[name] = np.asarray(given[name], dtype=float)
        if self.mechanism is not None and self.kinetic is LATER and self.potential is LATER:
            del given["kinetic"], given["potential"]
        if self.efforts is not None and self.tau is LATER:
            del given["tau"]
        if self.t.ndim != 1 or not len(self.t):
            raise ShapeError(f"the times t have shape {self.t.shape}, expected (nt,) with one time or more")
        if self.q.ndim < 2:
            raise ShapeError(f"q has shape {self.q.shape}, expected (..., nt, nq)")
        rows = (*self.batch, len(self.t))
        expected = {
            "q": (*rows, len(self.coordinates)),
            "v": (*rows, len(self.dofs)),
            "tau": (*rows, len(self.dofs if self.drives is None else self.drives)),
            "kinetic": rows,
            "potential": rows,
        }
        for name, shape in expected.items():
            value = given.get(name)
            if value is not None and value.shape != shape:
                raise ShapeError(
                    f"{name} has shape {value.shape}, expected {shape}: batch {self.batch}, "
                    f"{len(self.t)} times, {len(self.coordinates)} coordinates, {len(self.dofs)} velocities"
                )
        given["metadata"] = _checked_metadata(self.metadata)

    if not TYPE_CHECKING:  # which knows the fields

        def __getattr__(self, name: str) -> Any:
            """What was given as LATER, computed now."""
            given = vars(self)
            if name == "tau" and given.get("efforts") is not None:
                given["tau"], given["efforts"] = np.asarray(given["efforts"](), float), None
            elif name in ENERGIES and given.get("mechanism") is not None:
                finite, mechanism = self._finite, given["mechanism"]
                q, v = self.q[finite], self.v[finite]
                found = mechanism.kinetic_energy(q, v), mechanism.potential_energy(q)
                for energy, values in zip(ENERGIES, found, strict=True):
                    given[energy] = np.full(finite.shape, np.nan)
                    given[energy][finite] = values
                given["mechanism"] = None
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return given[name]

    def __getstate__(self) -> dict[str, Any]:
        """All values, and nothing that they are computed with."""
        values = {name: getattr(self, name) for name in (*ENERGIES, "tau")}
        return {**vars(self), **values, "mechanism": None, "efforts": None}

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch; () for one simulation."""
        return self.q.shape[:-2]

    @property
    @np.errstate(all="ignore")
    def energy(self) -> np.ndarray:
        """Kinetic plus potential energy, (..., nt) [J]."""
        return self.kinetic + self.potential

    @property
    @np.errstate(all="ignore")
    def energy_change(self) -> np.ndarray:
        """Energy less that of the first sample, (..., nt) [J]."""
        return self.energy - self.energy[..., :1]

    @property
    @np.errstate(all="ignore")
    def energy_drift(self) -> float:
        """The largest energy change over the largest kinetic energy: the error, where energy is conserved."""
        largest, kinetic = largest_of(np.abs(self.energy_change)), largest_of(self.kinetic)
        return largest / kinetic if kinetic else largest and np.inf

    @property
    @np.errstate(all="ignore")
    def quaternion_error(self) -> float | None:
        """The largest distance of a quaternion's norm from one; None for a mechanism without quaternions."""
        at = [i for i, unit in enumerate(self.coordinates.units) if unit == UNIT_OF_QUATERNIONS]
        if not at:
            return None
        quaternions = self.q[..., at].reshape(*self.q.shape[:-1], -1, 4)
        return largest_of(np.abs(np.linalg.norm(quaternions, axis=-1) - 1))

    @property
    def _finite(self) -> np.ndarray:
        """Whether each state is finite, (..., nt)."""
        return np.isfinite(self.q).all(axis=-1) & np.isfinite(self.v).all(axis=-1)

    @property
    def finite(self) -> np.ndarray:
        """Whether each simulation stayed finite to its end, (...); the numbers above leave out the rest."""
        stayed: Any = self._finite.all(axis=-1)
        return stayed

    def member(self, *index: int) -> Run:
        """One simulation of the batch, by its place in it: `run.member(3)`."""
        return Run(**self._member(index))

    def _member(self, index: tuple[int, ...]) -> dict[str, Any]:
        """The fields of a member; its energies and efforts are computed later, if those of all are."""
        if len(index) != len(self.batch) or any(
            not -n <= i < n for i, n in zip(index, self.batch, strict=True)
        ):
            raise ShapeError(f"member{index} is not in a batch of shape {self.batch}")
        parts = {name: vars(self).get(name) for name in ("q", "v", "kinetic", "potential", "tau")}
        shared = ("t", "coordinates", "dofs", "metadata", "mechanism", "drives", "tree")
        return {
            **{name: None if values is None else values[index] for name, values in parts.items()},
            **{name: getattr(self, name) for name in shared},
            "efforts": None if self.efforts is None else lambda: np.asarray(self.tau)[index],
            "events": self.events and self.events[int(np.ravel_multi_index(index, self.batch, "wrap"))],
        }

    def __repr__(self) -> str:
        batch = f"batch {self.batch}, " if self.batch else ""
        return (
            f"Run of {self.metadata.get('model', 'a mechanism')!s}: {batch}{len(self.t)} samples of "
            f"nq = {len(self.coordinates)}, nv = {len(self.dofs)} from {self.t[0]:g} to {self.t[-1]:g} s"
        )

    def summary(self) -> str:
        """A table of what happened, as text."""
        lines = [repr(self)]
        if self.metadata:
            lines.append("  " + ", ".join(_words(self.metadata)))
        if not np.all(self.finite):
            lines.append(f"  {np.sum(~self.finite)} of {self.finite.size} did not stay finite")
        change = largest_of(np.abs(self.energy_change))
        first = self.energy[..., 0]
        start = f"{first:.6g}" if not self.batch else f"{first.min():.6g} to {first.max():.6g}"
        lines.append(
            f"  energy {start} J at the start; largest change {change:.2g} J, "
            f"{self.energy_drift:.2g} of the largest kinetic energy"
        )
        if self.quaternion_error is not None:
            lines.append(f"  quaternions within {self.quaternion_error:.2g} of unit norm")
        lines += [""] + _table([(self.coordinates, self.q), (self.dofs, self.v)], single=not self.batch)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write netCDF-4 (.nc), self-describing; `Run.load` and `xarray.open_dataset` read it.

        Written beside its final name first and then renamed: a file of that name is whole, or the old one.
        A page (.html), film (.gif, .mp4) or picture (.png) of the motion is that of `view`.
        """
        if Path(path).suffix in VIEWS:
            return self.view().save(path)
        import h5netcdf

        target = _netcdf(path)
        if not target.parent.is_dir():
            raise LiebodyError(f"cannot save {target}: there is no folder {target.parent}; make it first")
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            with h5netcdf.File(temporary, "w") as file:
                variables = self._variables()
                for name, (dims, values, attributes) in variables.items():
                    file.dimensions.update(
                        {d: n for d, n in zip(dims, values.shape, strict=True) if d not in file.dimensions}
                    )
                    dtype = _text_type() if values.dtype == object else values.dtype
                    beside = [
                        d + UNITS for d in dims if d + UNITS in variables and name not in (d, d + UNITS)
                    ]
                    named = {"coordinates": " ".join(beside)} if beside else {}  # as CF says, for xarray
                    variable = file.create_variable(name, dims, dtype, data=values)
                    variable.attrs.update({**attributes, **named})
                file.attrs.update(self._attributes())
            os.replace(temporary, target)
        except OSError as error:
            raise LiebodyError(f"cannot save {target}: {error.strerror or error}") from error
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Read what `save` wrote. Raises LiebodyError if the file is missing, damaged, or something else."""
        import h5netcdf

        source = _netcdf(path)
        if not source.is_file():
            raise LiebodyError(f"there is no file {source}; a run is written by run.save({source.name!r})")
        try:
            with h5netcdf.File(source, "r") as file:
                attributes = {name: _plain(value) for name, value in file.attrs.items()}
                found = {name: _read(variable) for name, variable in file.variables.items()}
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise LiebodyError(
                f"{source} cannot be read as netCDF-4, it may be cut off or damaged: {error}"
            ) from error
        if attributes.get("format") != FORMAT:
            raise LiebodyError(
                f"{source} is netCDF but not a run of liebody (its attribute 'format' is not {FORMAT!r})"
            )
        if attributes.get("format_version") != FORMAT_VERSION:
            raise LiebodyError(
                f"{source} has format version {attributes.get('format_version')}, and this liebody reads "
                f"{FORMAT_VERSION}; install the liebody that wrote it ({attributes.get('source', 'unknown')})"
            )
        needed = (
            "time",
            "q",
            "v",
            "kinetic",
            "potential",
            "coordinate",
            "coordinate_units",
            "dof",
            "dof_units",
        )
        missing = [name for name in needed if name not in found]
        if missing:
            raise LiebodyError(f"{source} lacks the variables {', '.join(missing)}; save the run again")
        return cls(
            found["time"],
            found["q"],
            found["v"],
            found["kinetic"],
            found["potential"],
            tau=found.get("tau"),
            coordinates=_labels_of(found, "coordinate"),
            dofs=_labels_of(found, "dof"),
            drives=_labels_of(found, "drive") if "drive" in found else None,
            metadata={name: value for name, value in attributes.items() if name not in OWN_ATTRIBUTES},
            **cls._extras(found),
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
        axes = ("batch",) if len(self.batch) == 1 else tuple(f"batch_{i}" for i in range(len(self.batch)))
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
            "kinetic": (rows, self.kinetic, {"units": "J", "long_name": "kinetic energy"}),
            "potential": (rows, self.potential, {"units": "J", "long_name": "potential energy"}),
        }
        if self.tau is not None:
            meaning = {"units": "N m, N", "long_name": "efforts as they were given"}
            variables["tau"] = ((*rows, "dof" if self.drives is None else "drive"), self.tau, meaning)
            variables.update({} if self.drives is None else _label_variables("drive", self.drives))
        return variables


def _label_variables(
    dimension: str, labels: Labels
) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
    return {
        dimension: (
            (dimension,),
            np.array(labels.names, dtype=object),
            {"long_name": f"name of the {dimension}"},
        ),
        dimension + UNITS: (
            (dimension,),
            np.array(labels.units, dtype=object),
            {"long_name": f"unit of the {dimension}"},
        ),
    }


def _labels_of(found: Mapping[str, np.ndarray], dimension: str) -> Labels:
    return Labels(tuple(found[dimension]), tuple(found[dimension + UNITS]))


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*").fullmatch


def _checked_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float]:
    checked: dict[str, str | int | float] = {}
    for name, value in metadata.items():
        plain = _plain(value)
        if not _NAME(name) or name in OWN_ATTRIBUTES:
            raise LiebodyError(
                f"metadata {name!r} cannot be a name; use letters, digits and _, "
                f"and none of {', '.join(OWN_ATTRIBUTES)}"
            )
        if isinstance(plain, bool) or not isinstance(plain, (str, int, float)):
            raise LiebodyError(f"metadata {name!r} is {value!r}; give text, an int or a float")
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
    shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in metadata.items()}
    return [f"{name} {value}" for name, value in shown.items() if name != "model"]


def largest_of(values: np.ndarray) -> float:
    """The largest of the values that are numbers, 0 if there are none."""
    return float(np.fmax.reduce(values, axis=None, initial=0.0))


def _netcdf(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.suffix != ".nc":
        raise LiebodyError(
            f"runs are netCDF files; name it {path.with_suffix('.nc').name!r}, not {path.name!r}"
        )
    return path


def _text_type() -> Any:
    import h5py

    return h5py.string_dtype()


def _read(variable: Any) -> np.ndarray:
    values = np.asarray(variable[...])
    if values.dtype != object:
        return values
    return np.array([x.decode() if isinstance(x, bytes) else x for x in values.ravel()], object).reshape(
        values.shape
    )


def _plain(value: Any) -> Any:
    """A NumPy scalar, or array of one number, as the Python number."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    return value.item() if isinstance(value, np.generic) else value


def version() -> str:
    from importlib import metadata  # takes a fifth of the time that importing this package takes

    try:
        return metadata.version("liebody")
    except metadata.PackageNotFoundError:
        return "(not installed)"
