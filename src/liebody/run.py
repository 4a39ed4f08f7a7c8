"""The result of a simulation: states over time, energies, and where they came from."""

from __future__ import annotations

import importlib.metadata
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .bodies import Tree
from .errors import LiebodyError, ShapeError
from .groups import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

FORMAT = "liebody run"
FORMAT_VERSION = 1
OWN_ATTRIBUTES = ("format", "format_version", "source", "title")
ENERGIES = ("kinetic", "potential")
LATER: Any = None  # energies that are computed when they are first asked for
UNIT_OF_QUATERNIONS = "1"
LONGEST_TABLE = 24


@dataclass(frozen=True)
class Labels:
    """Names and units of the entries of a vector, in order."""

    names: tuple[str, ...]
    units: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        object.__setattr__(self, "units", tuple(map(str, self.units)))
        if len(self.names) != len(self.units):
            raise ShapeError(f"{len(self.names)} names need as many units, not {len(self.units)}")

    def __len__(self) -> int:
        return len(self.names)


# What the entries of q and of v of a joint are called, each with its unit; "" is the joint itself.
_QUATERNION = [(entry, UNIT_OF_QUATERNIONS) for entry in ("qw", "qx", "qy", "qz")]
_ANGLE, _POSITION = [("angle", "rad")], [("x", "m"), ("y", "m"), ("z", "m")]
_RATE, _VELOCITY = [("omega", "rad/s")], [("vx", "m/s"), ("vy", "m/s"), ("vz", "m/s")]
_ROTATION = [("wx", "rad/s"), ("wy", "rad/s"), ("wz", "rad/s")]
_ENTRIES: dict[type, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    Fixed: ([], []),
    Revolute: ([("", "rad")], [("", "rad/s")]),
    Helical: ([("", "rad")], [("", "rad/s")]),
    Prismatic: ([("", "m")], [("", "m/s")]),
    Cylindrical: ([*_ANGLE, ("distance", "m")], [*_RATE, ("v", "m/s")]),
    PlanarTranslation: (_POSITION[:2], _VELOCITY[:2]),
    Planar: (_ANGLE + _POSITION[:2], _RATE + _VELOCITY[:2]),
    PlanarHelical: (_ANGLE + _POSITION[:2], _RATE + _VELOCITY[:2]),
    SpatialTranslation: (_POSITION, _VELOCITY),
    Spherical: (_QUATERNION, _ROTATION),
    Schoenflies: (_ANGLE + _POSITION, _RATE + _VELOCITY),
    Free: (_QUATERNION + _POSITION, _ROTATION + _VELOCITY),
}


def labels(tree: Tree) -> tuple[Labels, Labels]:
    """Names and units of the coordinates q and of the velocities v of a tree: `arm`, `base.qw`, `base.wx`.

    Entries of a group of the user's own are numbered, and have no unit.
    """
    found: tuple[list[tuple[str, str]], list[tuple[str, str]]] = [], []
    for body in tree.bodies:
        joint = body.joint
        if joint.mimic is not None:
            continue
        numbered = [(str(i), "") for i in range(joint.nq)], [(str(i), "") for i in range(joint.dim)]
        for vector, entries in zip(found, _ENTRIES.get(type(joint.group), numbered), strict=True):
            vector += [(f"{joint.name}.{entry}" if entry else joint.name, unit) for entry, unit in entries]
    q, v = (Labels(tuple(name for name, _ in vector), tuple(unit for _, unit in vector)) for vector in found)
    return q, v


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """States over time of one simulation, or of a batch with the same times.

    t                   times, (nt,)                                                            [s]
    q                   coordinates, (..., nt, nq)
    v                   velocities, left-trivialised, (..., nt, nv)                             [rad/s, m/s]
    kinetic, potential  energies, (..., nt)                                                     [J]
    tau                 efforts of the joints, (..., nt, nv), or None                           [N m, N]
    coordinates, dofs   names and units of the entries of q and of v, as `labels(tree)` gives them
    metadata            what made it: names with text, int or float (model, method, dt, ...)
    mechanism           where energies are given as LATER, what has `kinetic_energy(q, v)` and
                        `potential_energy(q)`; they are computed when they are first asked for, and it is let
                        go of then

    Raises ShapeError where the arrays do not fit together.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    coordinates: Labels
    dofs: Labels
    tau: np.ndarray | None = None
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)
    mechanism: Any = None

    def __post_init__(self) -> None:
        given = vars(self)
        for name in ("t", "q", "v", "kinetic", "potential", "tau"):
            if given[name] is not None:
                given[name] = np.asarray(given[name], dtype=float)
        if self.mechanism is not None and self.kinetic is LATER and self.potential is LATER:
            del given["kinetic"], given["potential"]
        if self.t.ndim != 1 or not len(self.t):
            raise ShapeError(f"the times t have shape {self.t.shape}, expected (nt,) with one time or more")
        if self.q.ndim < 2:
            raise ShapeError(f"q has shape {self.q.shape}, expected (..., nt, nq)")
        rows = (*self.batch, len(self.t))
        expected = {
            "q": (*rows, len(self.coordinates)),
            "v": (*rows, len(self.dofs)),
            "tau": (*rows, len(self.dofs)),
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
            """The energies that were not given, computed now."""
            mechanism = vars(self).get("mechanism")
            if name not in ENERGIES or mechanism is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            finite = self._finite
            q, v = self.q[finite], self.v[finite]
            found = mechanism.kinetic_energy(q, v), mechanism.potential_energy(q)
            for energy, values in zip(ENERGIES, found, strict=True):
                vars(self)[energy] = np.full(finite.shape, np.nan)
                vars(self)[energy][finite] = values
            vars(self)["mechanism"] = None
            return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """All values, and not the mechanism that they are computed with."""
        return {**vars(self), **{name: getattr(self, name) for name in ENERGIES}, "mechanism": None}

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
        largest, kinetic = _largest(np.abs(self.energy_change)), _largest(self.kinetic)
        return largest / kinetic if kinetic else largest and np.inf

    @property
    @np.errstate(all="ignore")
    def quaternion_error(self) -> float | None:
        """The largest distance of a quaternion's norm from one; None for a mechanism without quaternions."""
        at = [i for i, unit in enumerate(self.coordinates.units) if unit == UNIT_OF_QUATERNIONS]
        if not at:
            return None
        quaternions = self.q[..., at].reshape(*self.q.shape[:-1], -1, 4)
        return _largest(np.abs(np.linalg.norm(quaternions, axis=-1) - 1))

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
        """The fields of a member; its energies are computed when they are asked for, if those of all are."""
        if len(index) != len(self.batch) or any(
            not -n <= i < n for i, n in zip(index, self.batch, strict=True)
        ):
            raise ShapeError(f"member{index} is not in a batch of shape {self.batch}")
        parts = {name: vars(self).get(name) for name in ("q", "v", "kinetic", "potential", "tau")}
        shared = ("t", "coordinates", "dofs", "metadata", "mechanism")
        return {
            **{name: None if values is None else values[index] for name, values in parts.items()},
            **{name: getattr(self, name) for name in shared},
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
        change = _largest(np.abs(self.energy_change))
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

    def plot(self, path: str | os.PathLike[str] | None = None, **options: Any) -> matplotlib.figure.Figure:
        """Picture of coordinates, velocities and energy over time; written to `path` if one is given.

        Needs no display. Options are those of `liebody.plot.plot_run`.
        """
        from .plot import plot_run

        return plot_run(self, path, **options)

    def to_xarray(self) -> xarray.Dataset:
        """The same as an xarray Dataset, with named dimensions and units."""
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray needs the package xarray: pip install xarray") from None
        dataset = xarray.Dataset(self._variables(), attrs=self._attributes())
        return dataset.set_coords(["coordinate_units", "dof_units"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write netCDF-4, self-describing; `Run.load` and `xarray.open_dataset` read it.

        Written beside its final name first and then renamed: a file of that name is whole, or the old one.
        """
        import h5netcdf

        target = _netcdf(path)
        if not target.parent.is_dir():
            raise LiebodyError(f"cannot save {target}: there is no folder {target.parent}; make it first")
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            with h5netcdf.File(temporary, "w") as file:
                for name, (dims, values, attributes) in self._variables().items():
                    file.dimensions.update(
                        {d: n for d, n in zip(dims, values.shape, strict=True) if d not in file.dimensions}
                    )
                    dtype = _text_type() if values.dtype == object else values.dtype
                    file.create_variable(name, dims, dtype, data=values).attrs.update(attributes)
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
            coordinates=Labels(tuple(found["coordinate"]), tuple(found["coordinate_units"])),
            dofs=Labels(tuple(found["dof"]), tuple(found["dof_units"])),
            metadata={name: value for name, value in attributes.items() if name not in OWN_ATTRIBUTES},
            **cls._extras(found),
        )

    @classmethod
    def _extras(cls, found: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What a subclass takes from the variables of a file besides."""
        return {}

    def _attributes(self) -> dict[str, str | int | float]:
        own: dict[str, str | int | float] = {
            "title": repr(self),
            "source": f"liebody {_version()}",
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
            meaning = {"units": "N m, N", "long_name": "efforts of the joints"}
            variables["tau"] = ((*rows, "dof"), self.tau, meaning)
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
        f"{dimension}_units": (
            (dimension,),
            np.array(labels.units, dtype=object),
            {"long_name": f"unit of the {dimension}"},
        ),
    }


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


def _largest(values: np.ndarray) -> float:
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


def _version() -> str:
    try:
        return importlib.metadata.version("liebody")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
