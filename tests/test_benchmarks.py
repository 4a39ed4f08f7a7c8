"""The scripts of benchmarks/ run, in short runs; they name what is not installed and what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    path
    for path in (ROOT / "benchmarks").glob("*.py")
    if "if __name__ ==" in path.read_text() and path.name != "record.py"  # which runs the others
)
PEERS = ("pinocchio", "mujoco", "exudyn", "jax", "flint", "fmpy")
IN_ENVIRONMENTS = {
    "auto.py": "bifpy",
    "constrained_mpc.py": "crocoddyl",
    "optimal_control.py": "crocoddyl",
}  # of their own, given as an argument


def ran(script, folder, *arguments, **environment):
    """A short run of a script in a folder, into which it may write."""
    path = os.pathsep.join([environment.pop("before", ""), str(ROOT / "src")]).strip(os.pathsep)
    return subprocess.run(
        [sys.executable, script, *arguments], cwd=folder, text=True, capture_output=True, check=False,
        env={**os.environ, "BENCHMARK_QUICK": "1", "PYTHONPATH": path, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_has_a_short_run(script):
    text = script.read_text()
    assert any(word in text for word in ("unless_quick", "BENCHMARK_QUICK", "from paired import"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_runs(script, tmp_path):
    """Where a peer is missing it says so; without the environment of their own two scripts ask for it."""
    done = ran(script, tmp_path)
    if script.name == "install.py" and "needs an index of packages" in done.stderr:
        pytest.skip("no index of packages can be reached")
    expected = 2 if script.name in IN_ENVIRONMENTS else 0
    assert done.returncode == expected, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.strip() or expected


@pytest.mark.wide
@pytest.mark.parametrize("script", IN_ENVIRONMENTS)
def test_what_needs_another_environment_says_how_to_make_it(script, tmp_path):
    """Without an argument, with one that is no program, and with an environment that lacks the package."""
    option = ["--auto"] if script == "auto.py" else []
    for arguments in ([], [*option, str(tmp_path / "python")], [*option, sys.executable]):
        done = ran(ROOT / "benchmarks" / script, tmp_path, *arguments)
        assert done.returncode == 2 and f"/bin/pip install {IN_ENVIRONMENTS[script]}" in done.stderr
        assert f"{arguments[-1] if arguments else 'none'} was given" in done.stderr


@pytest.mark.wide
@pytest.mark.parametrize(
    "script", [path for path in SCRIPTS if "absent(error)" in path.read_text()], ids=lambda path: path.stem
)
def test_a_peer_that_is_not_installed_is_named_and_no_failure(script, tmp_path):
    for peer in PEERS:
        line = f"raise ModuleNotFoundError(\"No module named '{peer}'\", name={peer!r})\n"
        (tmp_path / f"{peer}.py").write_text(line)
    done = ran(script, tmp_path, before=str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    assert "is not installed here" in done.stdout
