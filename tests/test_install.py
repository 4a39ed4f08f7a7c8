"""What an install brings, and that what is promised without extras needs nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_PACKAGES = 12


def arriving(requirements: list[str]) -> set[str]:
    """The distributions that requirements bring, those without extras, as they are installed here."""
    found: set[str] = set()
    pending = list(requirements)
    while pending:
        needed = Requirement(pending.pop())
        name = canonicalize_name(needed.name)
        if name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        try:
            pending += distribution(name).requires or []
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed")
    return found


def test_an_install_brings_few_packages():
    found = arriving(PROJECT["dependencies"])
    assert len(found) + 1 <= MOST_PACKAGES, f"{sorted(found)} and liebody"
    assert not found & {"yourdfpy", "lxml", "trimesh", "scipy", "matplotlib"}


def test_the_first_page_of_the_docs_lists_every_extra():
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    table = page.partition("| extra | adds |\n|---|---|\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_and_simulating_import_numpy_alone(tmp_path):
    """Modules of other distributions are not loaded before they are used: importing stays fast."""
    code = """
import sys, importlib.metadata
import liebody
liebody.load, liebody.simulate
owners = importlib.metadata.packages_distributions()
tops = {name.partition(".")[0] for name in sys.modules}
print(*{owner for top in tops for owner in owners.get(top, ())} - {"numpy", "liebody"})
"""
    loaded = set(run(code, tmp_path).split())
    assert not {canonicalize_name(name) for name in loaded} & arriving(PROJECT["dependencies"])
    assert not loaded & {"matplotlib", "scipy", "xarray", "yourdfpy", "lxml", "sympy"}


def test_what_needs_no_extra_works_where_there_is_none(tmp_path):
    """A URDF to dynamics, a simulation, a file and back, where every package of the extras is missing."""
    extras = [r for name in PROJECT["optional-dependencies"].values() for r in name if "liebody" not in r]
    names = arriving_names(extras) - arriving(PROJECT["dependencies"])
    blocked = sorted({module_of(name) for name in names} | {"lxml", "trimesh", "scipy"})
    code = f"""
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import liebody as lb
body = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
robot = lb.load(f'''<robot name="arm"><link name="base"/><link name="upper">{{body}}</link>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/></joint></robot>''')
print(*robot.inverse_dynamics([0.0], [0.0], [2.5]))
lb.simulate(robot, [0.0], [1.0], t_end=0.1, dt=0.05).save("run.nc")
print(*lb.Run.load("run.nc").q[-1].round(12))
"""
    assert run(code, tmp_path).split() == ["2.5", "0.1"]


def arriving_names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(r).name) for r in requirements}


def module_of(name: str) -> str:
    return {"pin": "pinocchio", "pytest-xdist": "xdist", "clang-format": "clang_format"}.get(
        name, name.replace("-", "_")
    )
