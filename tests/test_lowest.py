"""The lowest versions that pyproject.toml admits, with which CI runs a part of the tests."""

import re
import subprocess
import sys
import tomllib

import lowest
import pytest

PROJECT = tomllib.loads(lowest.PROJECT.read_text(encoding="utf-8"))["project"]


def test_bounds_of_all_extras_are_printed_and_the_highest_of_several_counts():
    project = {
        "name": "lib",
        "dependencies": ["numpy>=2.0", "Ruamel_Yaml>=0.9"],
        "optional-dependencies": {
            "plot": ["matplotlib>=3.9", "numpy>=2.1.0"],
            "test": ["lib[plot,lint]", "pytest[all]>=8.10", "numpy>=2.0.10"],
            "lint": ["lib[plot]", "pytest>=8.9", "clang-format==23.*"],
            "other": ["never>=1"],
        },
    }
    bounds = lowest.lowest(lowest.requirements(project, ["test"]))
    assert bounds == {"numpy": "2.1.0", "ruamel-yaml": "0.9", "matplotlib": "3.9", "pytest": "8.10"}
    assert lowest.lowest(lowest.requirements(project, [])) == {"numpy": "2.0", "ruamel-yaml": "0.9"}


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>=2.0,<3", "numpy~=2.0", "numpy>2"])
def test_requirements_without_a_plain_lower_bound_are_refused(requirement):
    with pytest.raises(ValueError, match="lower bound"):
        lowest.lowest([requirement])


def test_every_requirement_of_the_project_has_a_lower_bound():
    bounds = lowest.lowest(lowest.requirements(PROJECT, PROJECT["optional-dependencies"]))
    done = subprocess.run(
        [sys.executable, lowest.__file__, "test"], capture_output=True, text=True, check=True
    )
    printed = {line.split("==")[0] for line in done.stdout.splitlines()}
    assert {"numpy", "jax", "pytest"} <= printed <= bounds.keys()


def test_the_table_of_versions_has_the_lower_bounds_of_the_project():
    page = (lowest.PROJECT.parent / "docs/reliability.md").read_text(encoding="utf-8")
    section = page.partition("### Versions of Python and of packages\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| (?:`(\w+)`)? ?\|$", section, re.MULTILINE)
    assert rows[0] == ("Python", PROJECT["requires-python"].removeprefix(">="), "")
    for name, version, extra in rows[1:]:
        assert lowest.lowest(lowest.requirements(PROJECT, [extra] if extra else []))[name] == version
    always = lowest.lowest(lowest.requirements(PROJECT, []))
    assert always.keys() == {name for name, _, extra in rows[1:] if not extra}
