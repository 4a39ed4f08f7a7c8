"""Damaged stores of sweeps: nothing that was computed is lost or changed in silence.

A store is made; some of its files are flipped, cut off, exchanged, removed or replaced by folders. Then the
same sweep has to give the store that was, byte by byte, or to refuse it as a SweepError, and `verify` has to
name the damage before.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
from campaign import damages, main

import liebody as lb
from liebody.base.errors import SweepError

AXES = {"x": np.arange(6.0), "z": np.arange(4.0)}
OWN = {"outputs": {"y": (), "curve": ("time",)}, "coords": {"time": np.arange(3.0)}}


def squares(p):
    """A result that is NaN (an empty chunk, to Zarr) for large x."""
    y = np.where(p["x"] > 3, np.nan, p["x"] ** 2)
    return {"y": y, "curve": y[:, None] + np.arange(3.0), "cause": np.where(p["z"] > 2, "high", "")}


def swept(store):
    return lb.sweep(squares, AXES, store, workers=0, chunk=4, identity="squares", **OWN)


def contents(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


def case(random) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = Path(folder) / "s.zarr"
        swept(store)
        whole = contents(store)
        chosen = random.sample(sorted(whole), random.choice([1, 1, 1, 2, 5]))
        for name in chosen:
            path, kinds = store / name, list(damages(random, whole[name], list(whole.values())))
            if random.random() < 0.1 and path.is_file():
                path.unlink()
                path.mkdir()
            elif random.random() < 0.05 and path.parent != store and path.parent.is_dir():
                shutil.rmtree(path.parent)
                path.parent.write_text("a file in place of a folder")
                chosen = [*chosen, "and its neighbours"]
            elif path.parent.is_dir() and not path.is_dir():
                found = random.choice(kinds)
                path.unlink(missing_ok=True) if found is None else path.write_bytes(found)
        damaged = contents(store)
        changed = {name for name in whole if damaged.get(name) != whole[name]}
        unrecorded = {place_of(name) for name in whole if RECORDS in name and not (store / name).exists()}
        try:
            named = lb.sweep.verify(store)
            swept(store)
        except SweepError:
            assert changed and len(chosen) > 1
            return
        assert contents(store) == whole
        assert bool(named) == any(place_of(name) not in unrecorded for name in changed)


RECORDS = "status/recorded/"


def place_of(name: str) -> str | None:
    """The place of the chunk that a file belongs to, as the name of its record."""
    if name.startswith(RECORDS):
        return name.removeprefix(RECORDS)
    _, found, place = name.partition("/c/")
    return ".".join(place.split("/")[:2]) if found and "copy" not in name and "/" in place else None


if __name__ == "__main__":
    main(case)
