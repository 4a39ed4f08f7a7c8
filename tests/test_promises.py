"""What users may rely on: a snapshot of public signatures, tiers of names, old names that go on working."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import sys
import types
import warnings
from pathlib import Path

import pytest

import liebody as lb
from liebody.base.deprecation import (
    DeprecatedName,
    deprecated,
    removed_in,
    renamed_arguments,
    renamed_attributes,
)
from liebody.base.errors import ArgumentError

sys.path.insert(0, str(Path(__file__).parent))
import signatures
import tiers
from reference import PROMISES, Name, Reference, names_of, public_names

SOURCES = sorted((signatures.ROOT / "src" / "liebody").rglob("*.py"))


# -- signatures ---------------------------------------------------------------------------------------------


def test_public_signatures_are_those_of_the_snapshot():
    old = signatures.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    new = signatures.snapshot().splitlines()
    changed = [*difflib.unified_diff(old, new, "before", "now", lineterm="", n=0)]
    assert not changed, "\n".join(
        [
            "public names or their signatures changed. If that is meant: say in CHANGELOG.md what users have "
            "to change, keep old forms of stable names for one minor version (CONTRIBUTING.md, Promises), "
            "and run: python tests/signatures.py",
            *changed,
        ]
    )


class _Base:
    def __init__(self, *words):
        pass


class _Example(_Base):
    @property
    def size(self):
        return 1

    @classmethod
    def read(cls, path, /, mode="r", *rest, deep=True, **options):
        return cls()

    def turn(self, angle, axis=(0, 0, 1), *, group=lb.groups.SE3):
        return angle


_Example.__module__ = _Base.__module__ = "liebody.example"
for _value in (_Example.turn, _Example.read.__func__):
    _value.__module__ = "liebody.example"


def test_a_signature_has_names_kinds_and_plain_defaults():
    lines = list(signatures.lines_of(Name("liebody.example", "Example", _Example), {_Example}))
    assert lines == [
        "liebody.example.Example(*words)",
        "    read(path, /, mode='r', *rest, deep=True, **options)",
        "    .size",
        "    turn(angle, axis=(0, 0, 1), *, group=...)",
    ]


def test_a_renamed_argument_is_another_snapshot(monkeypatch):
    def simulate(robot, q0, v0=None, *, t_end, dt=None):
        """Not the signature that liebody has."""

    simulate.__module__ = "liebody.simulation.simulate"
    before = signatures.snapshot()
    monkeypatch.setattr(lb, "simulate", simulate)
    after = signatures.snapshot()
    assert "liebody.simulate(robot, q0, v0=None, *, t_end, dt=None)\n" in after
    assert len(set(before.splitlines()) - set(after.splitlines())) == 1


def test_the_snapshot_has_every_public_name():
    lines = signatures.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    shown = {line.split("(")[0].split(" of ")[0].split()[-1] for line in lines if line[0] != " "}
    assert shown == {name.path for name in public_names()}
    homes = {f"liebody.{name}" for name in lb.__all__ if not inspect.ismodule(getattr(lb, name))}
    # the constructor of a class and its other names are one value, which has one line
    assert {path for path in homes - shown if not inspect.isclass(getattr(lb, path[8:]))} == set()


# -- tiers --------------------------------------------------------------------------------------------------


def test_entries_of_tiers_are_names_of_packages_or_public():
    paths = {f"{package}.{name}" for package in tiers.PACKAGES for name in names_of(_module(package))}
    there = {path.removeprefix("liebody.") for path in {*paths, *tiers.PACKAGES}}
    entries = [entry for entries in tiers.TIERS.values() for entry in entries]
    assert sorted(set(entries) - there) == []
    assert len(entries) == len(set(entries))
    assert tiers.TIERS.keys() == PROMISES.keys()


def _module(package):
    return importlib.import_module(package)


def test_every_public_package_is_in_the_reference():
    """Packages that other packages are made of have their names there; bridges need other libraries."""
    folders = {
        path.parent for path in SOURCES if path.name == "__init__.py" and "__all__" in path.read_text()
    }
    root = signatures.ROOT / "src"
    packages = {".".join(folder.relative_to(root).parts) for folder in folders}
    inside = {f"liebody.compiler.{part}" for part in ("native", "printers", "programs")}
    shown = {name.value for name in public_names() if getattr(name.value, "__hash__", None)}
    for package in packages - set(tiers.PACKAGES) - inside:
        module = _module(package)
        assert {name for name in names_of(module) if getattr(module, name) not in shown} == set(), package


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("liebody.simulate", "stable"),
        ("liebody.Robot", "stable"),
        ("liebody.gaits.prove", "provisional"),
        ("liebody.gaits.periodic_orbit", "stable"),
        ("liebody.identification.fit", "provisional"),
        ("liebody.control.WholeBody", "provisional"),
        ("liebody.control.InvariantFilter", "provisional"),
        ("liebody.export_fmu", "provisional"),
        ("liebody.stepping.Flow", "internal"),
        ("liebody.compiler.Tape", "internal"),
        ("liebody.compiler.trace", "stable"),
    ],
)
def test_the_longest_entry_decides_the_tier(path, tier):
    assert tiers.tier(path) == tier


def test_pages_say_the_tier():
    names = {name.path: name for name in public_names()}
    reference = Reference(list(names.values()))
    assert PROMISES["provisional"] in reference.page(names["liebody.gaits.prove"])
    assert PROMISES["internal"] in reference.page(names["liebody.stepping.Flow"])
    assert not any(text in reference.page(names["liebody.simulate"]) for text in PROMISES.values())
    assert "*provisional*" in reference.package("liebody.gaits")


# -- old names ----------------------------------------------------------------------------------------------


def here():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def test_a_deprecated_function_warns_at_the_line_of_its_caller():
    @deprecated("gaits.search", since="0.9")
    def find(x, y=2):
        """Orbits."""
        return x, y

    with pytest.warns(
        DeprecatedName, match=r"find is deprecated since 0\.9, and removed in 0\.10: use"
    ) as seen:
        assert find(1, y=3) == (1, 3)
        line = here() - 1
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)
    assert "use gaits.search" in str(seen[0].message)
    assert find.__doc__ == "Deprecated since 0.9: use gaits.search.\n\nOrbits."
    assert str(inspect.signature(find)) == "(x, y=2)"


def test_properties_are_deprecated_but_no_classes():
    class Motion:
        @property
        @deprecated("tau", since="0.9")
        def efforts(self):
            return 5

    with pytest.warns(DeprecatedName, match="use tau") as seen:
        assert Motion().efforts == 5
    assert seen[0].filename == __file__
    with pytest.raises(ArgumentError, match="renamed_attributes"):
        deprecated("Run", since="0.9")(Motion)


def test_renamed_arguments_are_passed_on_and_warn():
    @renamed_arguments({"damping": "joints"}, since="0.3")
    def simulate(q, *, joints="ideal"):
        return q, joints

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert simulate(1, joints="real") == (1, "real")
        assert simulate(1) == (1, "ideal")
    with pytest.warns(DeprecatedName, match="damping of .*simulate.* removed in 0.4: use joints") as seen:
        assert simulate(1, damping="real") == (1, "real")
        line = here() - 1
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)
    with pytest.raises(ArgumentError, match="got damping and joints"):
        simulate(1, damping="real", joints="real")
    with pytest.raises(TypeError, match="other"):
        simulate(1, other=2)
    assert str(inspect.signature(simulate)) == "(q, *, joints='ideal')"


def test_arguments_are_renamed_to_arguments_that_there_are():
    with pytest.raises(ArgumentError, match="no arguments joints"):
        renamed_arguments({"damping": "joints"}, since="0.3")(lambda q: q)


def test_renamed_attributes_of_modules_are_the_new_ones():
    module = types.ModuleType("liebody_example")
    module.Trajectory = lb.Run
    names = {"Motion": "Trajectory", "Robot": "liebody.robot.Robot"}
    module.__getattr__ = renamed_attributes("liebody_example", names, since="0.3")
    sys.modules["liebody_example"] = module
    try:
        with pytest.warns(DeprecatedName, match="use liebody_example.Trajectory") as seen:
            assert module.Motion is lb.Run
            line = here() - 1
        assert (seen[0].filename, seen[0].lineno) == (__file__, line)
        with pytest.warns(DeprecatedName, match=r"use liebody\.robot\.Robot") as seen:
            from liebody_example import Robot
        assert Robot is lb.Robot and seen[0].filename == __file__
        with pytest.raises(AttributeError, match="no attribute 'Motions'"):
            module.Motions  # noqa: B018
    finally:
        del sys.modules["liebody_example"]


def test_names_of_liebody_itself_are_renamed_likewise(monkeypatch):
    """Its own way to import names when they are asked for stands behind."""
    renamed = renamed_attributes("liebody", {"integrate": "solve_ivp"}, since="0.3")
    monkeypatch.setitem(vars(lb), "__getattr__", renamed)
    with pytest.warns(DeprecatedName, match=r"use liebody\.solve_ivp") as seen:
        assert lb.integrate is lb.solve_ivp
    assert seen[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'differentiate'"):
        lb.differentiate  # noqa: B018
    monkeypatch.delitem(vars(lb), "stepper", raising=False)
    assert lb.stepper.__module__ == "liebody.simulation.stepper"


@pytest.mark.parametrize("since", ["0.3.0", "next", "1"])
def test_the_version_of_a_deprecation_is_a_minor_one(since):
    with pytest.raises(ArgumentError, match="expected a minor version"):
        removed_in(since)


HELPERS = {"deprecated", "renamed_arguments", "renamed_attributes"}


def overdue(source: str, version: str) -> list[int]:
    """Lines with a deprecation whose old form this version has to remove."""
    now = tuple(int(x) for x in version.split(".")[:2])
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in HELPERS:
            since = next(key.value.value for key in node.keywords if key.arg == "since")
            end = tuple(int(x) for x in removed_in(since).split("."))
            lines += [node.lineno] if now >= end else []
    return lines


def test_old_names_are_removed_in_time():
    sources = {path.name: path.read_text(encoding="utf-8") for path in SOURCES}
    dated = {name: source for name, source in sources.items() if "since=" in source}
    late = {name: overdue(source, lb.__version__) for name, source in dated.items()}
    assert {name: lines for name, lines in late.items() if lines} == {}


def test_old_names_that_stayed_too_long_are_seen():
    source = '@deprecated("f", since="0.9")\ndef g(): ...\n'
    assert overdue(source, "0.9.4") == []
    assert overdue(source, "0.10.0") == [1]
    assert overdue(source, "1.0.0") == [1]
