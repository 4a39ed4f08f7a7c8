"""The floors: modules import downwards only; floors 0 to 3 import NumPy and the standard library only.

Beside the library stands liebody_studies, which imports what is public in liebody; liebody never imports it.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import liebody

PACKAGE = Path(liebody.__file__).parent
STUDIES = PACKAGE.parent / "liebody_studies"

# From the ground up. Rooms of one line do not import each other; a floor of several lines is stacked within.
FLOORS: dict[int, list[set[str]]] = {
    0: [{"base"}, {"scalars"}],
    1: [{"compiler"}, {"groups", "stepping"}],
    2: [{"bodies", "integrators"}, {"dynamics"}],
    3: [{"mechanisms"}, {"runs"}, {"hybrid"}, {"contact"}],
    4: [{"io"}, {"robot"}, {"models"}, {"simulation"}],
    5: [{"control", "enclosures", "identification", "interop", "sweep", "symbolic", "view"}, {"gaits"}],
    6: [{"cli"}, {"__init__", "__main__"}],
}
LEVEL = {
    unit: (floor, line)
    for floor, lines in FLOORS.items()
    for line, units in enumerate(lines)
    for unit in units
}
FREE_OF_THIRD_PARTIES = range(4)

# Imports inside a function, or for types alone, that the floors would forbid, and why each is right.
LAZY = {
    ("base.deprecation", "a-computed-name"): "an old name may stand for one of another module",
    ("base.progress", "tqdm"): "a bar is shown where the work takes long",
    ("runs.run", "matplotlib.figure"): "run.plot() returns one",
    ("runs.run", "xarray"): "run.to_xarray() returns one of its objects",
    ("runs.files", "h5netcdf"): "files of runs are netCDF, written by it",
    ("runs.files", "h5py"): "which says what the type of texts is",
    ("runs.netcdf", "h5py"): "which is read without h5netcdf, by what leads nowhere",
    ("runs.table", "xarray"): "run.to_xarray() makes its objects",
    ("runs.table", "pandas"): "run.to_dataframe(), likewise",
    (
        "compiler.native.cache",
        "platformdirs",
    ): "the user's cache folder is needed when the first kernel is compiled",
    ("compiler.printers.sympy_source", "sympy"): "a printer imports what it prints for",
    ("compiler.printers.casadi_source", "casadi"): "a printer imports what it prints for",
    ("compiler.native.casadi_external", "casadi"): "a printer imports what it prints for",
}


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """What is wrong with the imports of a module; its name is relative to liebody: `groups.se3`, `cli`."""
    unit = module.split(".")[0]
    if unit not in LEVEL:
        return [f"{module}: '{unit}' is on no floor; give it a place in FLOORS"]
    found = []
    for line, target, in_function in imports(ast.parse(source), module, is_package):
        top, _, rest = target.partition(".")
        if (module, target) in LAZY and in_function:
            continue
        if top == "liebody":
            problem = within(unit, rest.split(".")[0])
        else:
            problem = from_outside(unit, top)
        if problem:
            found.append(f"{module}:{line}: {problem}")
    return found


def within(unit: str, other: str) -> str | None:
    """Why `unit` may not import `other` of liebody, None if it may."""
    if other == unit:
        return None
    if other not in LEVEL:
        return f"imports '{other or 'the package root'}', which is on no floor; name the defining module"
    if LEVEL[other] < LEVEL[unit]:
        return None
    if LEVEL[other] == LEVEL[unit]:
        return f"imports its sibling '{other}'"
    return f"on floor {LEVEL[unit][0]} imports '{other}' from above it"


def from_outside(unit: str, package: str) -> str | None:
    """Why `unit` may not import this package, None if it may."""
    if package == STUDIES.name:
        return "imports the studies, which stand beside the library and use it"
    if (
        LEVEL[unit][0] not in FREE_OF_THIRD_PARTIES
        or package == "numpy"
        or package in sys.stdlib_module_names
    ):
        return None
    return f"on floor {LEVEL[unit][0]} imports the third party '{package}'"


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[int, str, bool]]:
    """Line, absolute dotted name, and whether it is run later or never, of each import statement or call."""
    package = ["liebody", *([] if module == "__init__" else module.split("."))]
    if not is_package:
        package = package[:-1]

    def walk(node: ast.AST, in_function: bool) -> Iterator[tuple[int, str, bool]]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            if origin == "liebody":  # `from liebody import robot`: the names are the modules
                yield from ((node.lineno, f"liebody.{alias.name}", in_function) for alias in node.names)
            else:
                yield node.lineno, origin, in_function
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                name = node.args[0] if node.args else None
                constant = isinstance(name, ast.Constant) and isinstance(name.value, str)
                yield node.lineno, name.value if constant else "a-computed-name", in_function
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        inside = in_function or for_types or isinstance(node, functions)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(tree, False)


def modules(package: Path = PACKAGE) -> list[Path]:
    return sorted(package.rglob("*.py"))


def name_of(path: Path, package: Path = PACKAGE) -> tuple[str, bool]:
    parts = list(path.relative_to(package).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return ".".join(parts[:-1] or parts if is_package else parts), is_package


@pytest.mark.parametrize("path", modules(), ids=lambda path: name_of(path)[0])
@pytest.mark.many
def test_every_module_imports_from_lower_floors_only(path):
    name, is_package = name_of(path)
    assert violations(name, path.read_text(), is_package) == []


def test_the_package_was_found():
    assert {"scalars", "groups.se3", "compiler", "__init__"} <= {name_of(path)[0] for path in modules()}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "groups.se3",
            "from liebody.scalars import sin\nfrom ..base.errors import ShapeError\nimport numpy as np",
        ),
        ("groups.se3", "from . import coefficients\nfrom .so3 import SO3\nimport math, functools"),
        ("scalars.linear", "from . import sqrt"),
        (
            "dynamics.inverse",
            "from ..groups import SE3\nfrom ..bodies.tree import Tree\nfrom ..scalars import linear",
        ),
        ("runs.table", "def to_xarray(variables):\n    import xarray"),
        ("sweep", "import h5netcdf\nimport numpy"),
        ("compiler.printers.sympy_source", "def to_sympy(f):\n    import sympy"),
        ("cli", "from .view import plot\nfrom .simulation.simulate import simulate\nimport click"),
        ("view.plot", "import matplotlib"),
    ],
)
def test_the_checker_accepts_what_the_floors_allow(module, source):
    assert violations(module, source) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("scalars", "from liebody.groups import SE3", "above"),
        ("groups.se3", "from ..bodies import Tree", "above"),
        ("groups.se3", "from .. import bodies", "above"),
        ("groups.se3", "import liebody.bodies.tree", "above"),
        ("groups.se3", "def late():\n    from ..bodies import Tree", "above"),
        (
            "groups.se3",
            "if True:\n    try:\n        from ..robot import Robot\n    except ImportError: pass",
            "above",
        ),
        ("groups.se3", "from importlib import import_module\nimport_module('liebody.robot')", "above"),
        ("compiler.graph.graph", "from ...groups import SE3", "above"),
        ("compiler.graph.graph", "import liebody.groups", "above"),
        ("bodies.tree", "from ..integrators.rkmk import step", "sibling"),
        ("integrators.rkmk", "from ..bodies import Tree", "sibling"),
        ("symbolic.rigid_body", "from ..sweep import sweep", "sibling"),
        ("base.errors", "from ..scalars import linear", "above"),
        ("groups.se3", "import liebody", "package root"),
        ("bodies.tree", "from liebody import Robot", "on no floor"),
        ("groups.se3", "import scipy.linalg", "third party 'scipy'"),
        ("dynamics.inverse", "def f():\n    import casadi", "third party 'casadi'"),
        ("compiler.printers.sympy_source", "import sympy", "third party 'sympy'"),
        ("compiler.printers.sympy_source", "class Printer:\n    import sympy", "third party 'sympy'"),
        ("compiler.printers.sympy_source", "def f():\n    import casadi", "third party 'casadi'"),
        ("groups.se3", "__import__(name)", "third party 'a-computed-name'"),
        ("runs.run", "def plot(self):\n    from ..view.plot import plot_run", "above"),
        ("simulation.simulate", "def f():\n    from ..view.plot import figure", "above"),
        ("robot", "def f():\n    from .cli import main", "above"),
        ("gadgets", "import numpy", "on no floor"),
        ("cli", "def f():\n    import liebody_studies", "imports the studies"),
    ],
)
def test_the_checker_refuses_what_the_floors_forbid(module, source, complaint):
    found = violations(module, source)
    assert len(found) == 1 and complaint in found[0]


def test_relative_imports_of_a_package_start_at_the_package():
    assert violations("groups", "from .se3 import SE3\nfrom ..scalars import sin", is_package=True) == []
    assert "above" in violations("compiler", "from ..groups import SE3", is_package=True)[0]
    assert violations("__init__", "from .robot import Robot\nfrom . import models", is_package=True) == []


def test_every_exception_is_still_needed():
    """An exception whose module exists names an import that is there, inside a function."""
    sources = {name_of(path)[0]: (path.read_text(), name_of(path)[1]) for path in modules()}
    for module, target in LAZY:
        if module in sources:
            source, is_package = sources[module]
            assert any(t == target for _, t, _ in imports(ast.parse(source), module, is_package)), (
                module,
                target,
            )


# -- the order within rooms ---------------------------------------------------------------------------------

COMPILER = ("graph", "programs", "runtime", "printers", "native")  # from the ground up
STEPPING = (  # likewise, as the head of stepping/__init__.py explains
    *("samples", "clock", "banded", "records", "singular", "print_march", "print_descent", "print_explicit"),
    *("print_implicit", "march", "newton", "loop", "device", "flow", "implicit", "hybrid", "hold"),
    *("drive", "recurrence", "riccati", "print_plan", "descent"),
)
INSIDE = {"compiler": COMPILER, "stepping": STEPPING}


def upward(module: str, source: str, is_package: bool = False) -> list[str]:
    """Imports, also in functions and for types, of parts of the module's room above the module's own part."""
    room, part = module.split(".")[:2]
    order = INSIDE[room]
    targets = [target.split(".") for _, target, _ in imports(ast.parse(source), module, is_package)]
    parts = [names[2] for names in targets if names[:2] == ["liebody", room] and len(names) > 2]
    return [other for other in parts if order.index(other) > order.index(part)]


@pytest.mark.parametrize("room", INSIDE)
def test_parts_of_a_room_import_downwards_only(room):
    parts = {name: x for name, x in sources(PACKAGE).items() if name.startswith(f"{room}.")}
    assert {name.split(".")[1] for name in parts} == set(INSIDE[room])
    assert {name: upward(name, *x) for name, x in parts.items()} == {name: [] for name in parts}


@pytest.mark.parametrize(
    ("source", "above"),
    [
        ("from ..graph.graph import Function\nfrom . import passes\nfrom ...base import errors", []),
        ("from ..printers.numpy_source import compile_numpy", ["printers"]),
        ("def late():\n    from liebody.compiler.native import build", ["native"]),
        ("if TYPE_CHECKING:\n    from ..runtime import runtime", ["runtime"]),
    ],
)
def test_imports_of_a_room_of_the_compiler_from_above_it_are_seen(source, above):
    assert upward("compiler.programs.program", source) == above


def test_imports_of_a_file_of_stepping_from_above_it_are_seen():
    source = "from .records import Guards\nfrom .flow import Flow\nfrom ..compiler import trace"
    assert upward("stepping.march", source) == ["flow"]


# -- circles and private names ------------------------------------------------------------------------------


def taken(module: str, source: str, is_package: bool, for_types: bool = False) -> Iterator[tuple[str, str]]:
    """(module, name) of each import from modules of liebody, also in functions; for_types: also those."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    package = [] if module == "__init__" else package

    def walk(node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not for_types:
            return
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            full = ".".join([*base, *([node.module] if node.module else [])])
            if node.level or full.split(".")[0] == "liebody":
                yield from ((full.removeprefix("liebody").lstrip("."), alias.name) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(ast.parse(source))


def graph_of(sources: dict[str, tuple[str, bool]], for_types: bool = False) -> dict[str, set[str]]:
    """What each module imports; a package imported for one of its modules is that module."""
    found: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        edges = found.setdefault(module, set())
        for origin, name in taken(module, source, is_package, for_types):
            inside = f"{origin}.{name}".lstrip(".")
            edges.add(inside if inside in sources else origin or "__init__")
        edges -= {module, "__init__"}
    return found


def sources(package: Path) -> dict[str, tuple[str, bool]]:
    return {
        name: (path.read_text(), is_package)
        for path in modules(package)
        for name, is_package in [name_of(path, package)]
    }


@pytest.mark.parametrize("package", [PACKAGE, STUDIES], ids=lambda package: package.name)
@pytest.mark.wide
def test_no_modules_import_each_other_in_a_circle(package):
    """Imports inside functions count: they hide a circle, and do not open it."""
    graphlib.TopologicalSorter(graph_of(sources(package))).prepare()


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """The modules that a module imports, and those that these import, and so on."""
    modules: set[str] = set()
    rest = [start]
    while rest:
        new = graph.get(rest.pop(), set()) - modules
        modules |= new
        rest += new
    return modules


@pytest.mark.parametrize("room", ["runs", "simulation"])
def test_no_module_of_these_rooms_is_in_a_circle_even_of_imports_for_types(room):
    graph = graph_of(sources(PACKAGE), for_types=True)
    modules = [module for module in graph if module.split(".")[0] == room]
    assert len(modules) > 5
    assert [module for module in modules if module in reached(graph, module)] == []


def test_robots_and_runs_import_no_views_not_even_for_types():
    graph = graph_of(sources(PACKAGE), for_types=True)
    views = {module for module in graph if module.split(".")[0] == "view"}
    assert not views & (reached(graph, "robot.robot") | reached(graph, "runs"))


@pytest.mark.parametrize("package", [PACKAGE, STUDIES], ids=lambda package: package.name)
@pytest.mark.wide
def test_nobody_imports_a_private_name_of_another_module(package):
    private = [
        f"{module}: {name} of {origin}"
        for module, (source, is_package) in sources(package).items()
        for origin, name in taken(module, source, is_package)
        if name.startswith("_") and not name.startswith("__")
    ]
    assert private == []


def test_circles_are_found_wherever_the_imports_stand():
    circle = {
        "a": ("def f():\n    from .b import g", False),
        "b": ("from .c import h", False),
        "c": ("from . import a", False),
    }
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph_of(circle)).prepare()
    circle["c"] = ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a", False)
    graphlib.TopologicalSorter(graph_of(circle)).prepare()
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph_of(circle, for_types=True)).prepare()
    assert "a" in reached(graph_of(circle, for_types=True), "a")
    assert "a" not in reached(graph_of(circle), "a")


# -- words --------------------------------------------------------------------------------------------------


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Public classes at the top of several modules."""
    found: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return {name: places for name, places in found.items() if len(places) > 1}


@pytest.mark.wide
def test_no_two_public_classes_share_a_name():
    sources = {name_of(path)[0]: path.read_text() for path in modules()}
    assert shared_names(sources) == {}


def test_classes_of_one_name_are_seen():
    twice = {"a": "class Motion: ...\nclass _Row: ...", "b": "class Motion(tuple): ...\nclass _Row: ..."}
    assert shared_names(twice) == {"Motion": ["a", "b"]}


# -- the studies --------------------------------------------------------------------------------------------

# Modules whose public names `liebody` itself does not repeat, or shadows by a function of their name.
BESIDE = {
    *("base.errors", "control.optimal", "mechanisms.constrained", "scalars.linear", "sweep", "view"),
    "view.picture",
}


def not_public(source: str) -> list[str]:
    """What of liebody is imported, also in functions, that is not public."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("liebody.")]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            package, _, module = (node.module or "").partition(".")
            if package == "liebody":
                names = [alias.name for alias in node.names if not is_public(module, alias.name)]
                found += [f"{node.module}.{name}" for name in names]
    return found


def is_public(module: str, name: str) -> bool:
    """Whether a module of liebody shows this name; the module "" is liebody."""
    if module == "":
        return name in {*liebody.__all__, *BESIDE}
    listed = module in liebody.__all__ and inspect.ismodule(getattr(liebody, module))
    if module not in BESIDE and not listed:
        return False
    origin = importlib.import_module(f"liebody.{module}")
    return name in getattr(origin, "__all__", [x for x in vars(origin) if not x.startswith("_")])


def test_the_studies_use_what_is_public():
    assert {path.name: not_public(path.read_text()) for path in modules(STUDIES)} == {
        path.name: [] for path in modules(STUDIES)
    }


# -- the companions -----------------------------------------------------------------------------------------

COMPANIONS = {"control", "gaits", "identification", "interop", "sweep", "symbolic", "view"}
# Imports of companions that are not public, module: names. This list may only become shorter.
NOT_YET_PUBLIC: dict[str, set[str]] = {}


def beneath_the_public(module: str, source: str, is_package: bool) -> set[str]:
    """Dotted names that a module of a companion imports from other rooms, and that these do not show."""
    names = set()
    for origin, name in taken(module, source, is_package):
        room = origin.split(".")[0]
        if room == module.split(".")[0] or room == "base":
            continue
        at_home = liebody._HOME.get(name) == origin  # as lb.simulate, which liebody itself shows
        shown = name in getattr(room_of(origin), "__all__", ())
        if not (at_home or shown or is_public(origin, name)):
            names.add(f"{origin}.{name}".lstrip("."))
    return names


def room_of(origin: str) -> ModuleType | None:
    """The package of this name; None for a module within a room."""
    module = importlib.import_module(f"liebody.{origin}".rstrip("."))
    return module if hasattr(module, "__path__") else None


def of_companions() -> dict[str, tuple[str, bool]]:
    return {name: x for name, x in sources(PACKAGE).items() if name.split(".")[0] in COMPANIONS}


def test_companions_use_what_is_public_below_but_for_a_list_that_shrinks():
    """An exception that is no longer needed fails, too: take it out of the list."""
    names = {module: beneath_the_public(module, *x) for module, x in of_companions().items()}
    assert {module: x for module, x in names.items() if x} == NOT_YET_PUBLIC


@pytest.mark.parametrize(
    ("source", "beneath"),
    [
        ("from ..robot import Robot\nfrom .. import dynamics\nfrom .section import varied", set()),
        ("from ..base.errors import known\nfrom ..scalars.linear import solve", set()),
        ("from ..simulation.simulate import simulate\nfrom ..sweep import sweep", set()),
        ("from ..simulation.setup import Clock", {"simulation.setup.Clock"}),
        ("def f():\n    from ..hybrid.in_place import changes", {"hybrid.in_place.changes"}),
        ("from ..dynamics.momentum import momentum", {"dynamics.momentum.momentum"}),
        ("from liebody.robot import algorithm", {"robot.algorithm"}),
    ],
)
def test_names_beneath_the_public_are_seen(source, beneath):
    assert beneath_the_public("gaits.orbit", source, False) == beneath


@pytest.mark.parametrize(
    ("source", "private"),
    [
        ("import liebody as lb\nfrom liebody import Robot, dynamics, scalars, simulate", []),
        ("from liebody.symbolic import equations\nfrom liebody.scalars.linear import skew", []),
        ("from liebody import robot", ["liebody.robot"]),
        ("import liebody.robot", ["liebody.robot"]),
        ("def f():\n    from liebody.robot import Robot", ["liebody.robot.Robot"]),
        ("from liebody.dynamics.coriolis import FORMS", ["liebody.dynamics.coriolis.FORMS"]),
        ("from liebody.groups import base", ["liebody.groups.base"]),
        ("from liebody.scalars.linear import _triangle", ["liebody.scalars.linear._triangle"]),
    ],
)
def test_what_is_public_is_what_liebody_and_its_packages_list(source, private):
    assert not_public(source) == private
