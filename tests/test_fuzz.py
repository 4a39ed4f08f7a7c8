"""The fuzz scripts (tests/fuzz), a few hundred cases of each; the corpus of what they found."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody.errors import ArgumentError, LiebodyError, SweepError

FUZZ = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(FUZZ))

import calls  # noqa: E402
import campaign  # noqa: E402
import descriptions  # noqa: E402
import results  # noqa: E402
import stores  # noqa: E402

COUNTS = {calls: 1500, descriptions: 2000, results: 60, stores: 12}


@pytest.mark.parametrize("script", COUNTS, ids=lambda script: script.__name__)
def test_no_attack_gets_through(script):
    assert campaign.run(script.case, 10_000, COUNTS[script], seconds=5) == []


def test_scripts_run_by_hand():
    command = [sys.executable, descriptions.__file__, "--seed", "3", "--count", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stderr


@pytest.mark.parametrize("path", sorted((FUZZ / "corpus").glob("*.urdf")), ids=lambda path: path.name)
def test_descriptions_that_were_found_are_read_or_refused(path):
    descriptions.read(path.read_text())


FOUND = {
    "threads": [None, "2", 1.5, 0, True, 2**63, np.array([1, 2])],
    "method": [[], {}, 3, None],
    "q0": [calls.Hostile(), 10**400, [10**400, 1]],
    "t_end": [10**400, np.datetime64("2026-01-01"), 1e308],
    "forces": [None, 3],
    "events": [1.5, "up"],
}


@pytest.mark.parametrize("name", FOUND)
def test_arguments_of_wrong_types_are_refused_by_name(name):
    call, given = calls.CALLS["simulate"]
    for value in FOUND[name]:
        with pytest.raises(LiebodyError) as raised:
            call(**{**given, name: value})
        assert name in str(raised.value) or "round-off" in str(raised.value) or "number" in str(raised.value)


def test_wrong_kinds_of_arguments_are_type_errors_too():
    with pytest.raises(ArgumentError, match="simulate: threads is '2', expected a whole number") as raised:
        lb.simulate(calls.ROBOT, [0.0, 0.0], t_end=1.0, dt=0.1, threads="2")
    assert isinstance(raised.value, TypeError)
    with pytest.raises(ArgumentError, match="threads is -1, expected a whole number, 1 or more"):
        calls.ROBOT.mass_matrix([[0.0, 0.0]] * 2, threads=-1)
    with pytest.raises(LiebodyError, match="gravity cannot be read as an array of numbers"):
        lb.Robot(calls.ROBOT.tree, gravity="down")


# -- failing system calls -----------------------------------------------------------------------------------


class Faults:
    """Lets the n-th of these calls of `os` and `io` fail, as a disk that is full does; counts them."""

    NAMES = ("open", "fsync", "replace", "rename", "mkdir", "unlink", "link")

    def __init__(self, monkeypatch, folder, n=None):
        self.count, self.folder, self.n = 0, str(folder), n
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self.failing(name, getattr(os, name)))

    def failing(self, name, original):
        def call(*arguments, **options):
            if name == "fsync" or self.folder in str(arguments[0]):
                self.count += 1
                if self.count == self.n:
                    raise OSError(errno.ENOSPC, "No space left on device", str(arguments[0]))
            return original(*arguments, **options)

        return call


def contents(store):
    return {str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*") if p.is_file()}


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_a_sweep_survives_every_failing_call_of_the_system(tmp_path, monkeypatch, step):
    """Whichever call fails: an error of ours, or none; the same call then gives the same store."""

    def swept(path):
        grid = {"x": np.arange(3.0)}
        return lb.sweep(lambda p: {"y": p["x"]}, grid, path, chunk=1, workers=0, identity="same")

    swept(tmp_path / "whole.zarr")
    whole, n = contents(tmp_path / "whole.zarr"), 1 - step
    while True:
        n += step
        path = tmp_path / f"{n}" / "s.zarr"
        path.parent.mkdir()
        with monkeypatch.context() as patch:
            faults = Faults(patch, path.parent, n)
            try:
                swept(path)
            except SweepError as error:
                assert "No space left" in str(error)
        if path.exists():
            assert lb.sweep.verify(path) == []
        swept(path)
        assert contents(path) == whole
        assert [p.name for p in path.parent.iterdir()] == ["s.zarr"]
        if faults.count < n:
            break
    assert n > 20


def test_a_saved_run_survives_every_failing_call_of_the_system(tmp_path, monkeypatch):
    path, n = tmp_path / "run.nc", 0
    calls.RUN.save(path)
    while True:
        n += 1
        with monkeypatch.context() as patch:
            faults = Faults(patch, tmp_path, n)
            try:
                calls.RUN.save(path)
            except LiebodyError as error:
                assert "No space left" in str(error)
        np.testing.assert_array_equal(lb.Run.load(path).q, calls.RUN.q)
        if faults.count < n:
            break
    assert n > 2
