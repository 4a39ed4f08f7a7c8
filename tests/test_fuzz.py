"""The fuzz scripts (tests/fuzz), a few hundred cases of each; the corpus of what they found."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ArgumentError, LiebodyError
from liebody.compiler.native import build

FUZZ = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(FUZZ))

import calls  # noqa: E402
import campaign  # noqa: E402
import descriptions  # noqa: E402
import faults  # noqa: E402
import kills  # noqa: E402
import names  # noqa: E402
import results  # noqa: E402
import sealed  # noqa: E402
import stores  # noqa: E402
import threads  # noqa: E402

SCRIPTS = [calls, descriptions, names, results, stores, threads]
if hasattr(os, "fork"):
    import signals

    SCRIPTS += [kills, sealed, signals]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.parametrize("seconds", [1, pytest.param(15, marks=pytest.mark.wide)])
def test_no_attack_gets_through(script, seconds):
    assert campaign.run(script.case, 10_000, 10**9, seconds) == []


def test_scripts_run_by_hand():
    command = [sys.executable, descriptions.__file__, "--seed", "3", "--count", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stderr


@pytest.mark.parametrize("path", sorted((FUZZ / "corpus").glob("*.urdf")), ids=lambda path: path.name)
def test_descriptions_that_were_found_are_read_or_refused(path):
    descriptions.read(path.read_text())


FOUND = {
    "threads": ["2", 1.5, 0, True, 2**63, np.array([1, 2])],
    "method": [[], {}, 3],
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


@pytest.mark.skipif(sys.platform != "linux" or not build.find_compiler(), reason="needs Linux, a C compiler")
@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("happening", faults.HAPPENINGS)
@pytest.mark.parametrize("job", faults.JOBS)
@pytest.mark.wide
def test_whichever_call_of_the_system_fails_nothing_is_lost(job, happening, step):
    done = faults.started([job, happening, str(step)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 40 // step
