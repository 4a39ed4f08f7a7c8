"""What `import liebody` loads: nothing but itself. Names come when they are asked for."""

import ast
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import liebody

LATER = (
    "gaits",
    "optimal_control",
    "sensitivities",
    "sweep",
    "equations",
    "view",
    "plot",
    "jax",
    "gym",
    "cli",
)
OPTIONAL = ("scipy", "xarray", "matplotlib", "sympy", "h5py", "h5netcdf", "mujoco", "jax", "trimesh")


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after a program, beside those it starts with."""
    report = "print(json.dumps([*set(sys.modules) - before]))"
    text = ["import json, sys", "before = set(sys.modules)", code, report]
    done = subprocess.run([sys.executable, "-c", "\n".join(text)], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_none_of_its_modules_and_no_other_package():
    found = loaded("import liebody")
    assert {name for name in found if name.startswith("liebody")} == {"liebody"}
    assert not {name.split(".")[0] for name in found} & {"numpy", *OPTIONAL}


def test_a_simulation_loads_nothing_that_it_does_not_use():
    found = loaded(
        "import liebody as lb; lb.simulate(lb.load('double_pendulum'), [0.4, 0.1], t_end=0.1, dt=0.1)"
    )
    assert {"numpy", "liebody.simulation.simulate"} <= found
    assert not {f"liebody.{module}" for module in LATER} & found
    assert not {name.split(".")[0] for name in found} & set(OPTIONAL)


def for_types() -> dict[str, str]:
    """The public names as type checkers see them, each with the module it comes from; modules from none."""
    tree = ast.parse(Path(liebody.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {alias.name: node.module or "" for node in block.body for alias in node.names}


def test_type_checkers_see_the_names_that_there_are():
    assert sorted(for_types()) == liebody.__all__
    assert set(liebody.__all__) <= set(dir(liebody))
    assert not {"sys", "Any", "import_module"} & set(dir(liebody))
    for name, module in for_types().items():
        home = importlib.import_module(f"liebody.{module or name}")
        assert getattr(liebody, name) is (getattr(home, name) if module else home)


# Functions that have the name of their package.
FUNCTIONS = sorted(name for name, module in for_types().items() if name == module.partition(".")[0])


@pytest.mark.parametrize(
    "first", ["import liebody.{0}", "from liebody.{0} import {0}", "import liebody; liebody.{0}"]
)
def test_a_function_is_not_hidden_by_the_module_of_its_name(first):
    assert {"sweep", "view"} <= set(FUNCTIONS)
    lines = [first.format(name) for name in FUNCTIONS]
    lines += [
        f"import liebody; assert callable(liebody.{name}) and liebody.{name}.__name__ == {name!r}"
        for name in FUNCTIONS
    ]
    assert {f"liebody.{name}" for name in FUNCTIONS} <= loaded("\n".join(lines))


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'liebody' has no attribute 'simulations'"):
        _ = liebody.simulations


def test_the_package_can_be_sent_to_other_processes():
    """As functions that use it are, by cloudpickle."""
    assert pickle.loads(pickle.dumps(liebody)) is liebody
