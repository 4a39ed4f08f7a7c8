"""What tests find outside of their folder: examples of the repository, robots of example-robot-data."""

import importlib.util
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from liebody.io import load_urdf

EXAMPLES = Path(__file__).parents[1] / "examples"


def load_example(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def description(file):
    """The path of a description; skips the test where example-robot-data is not installed."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        pytest.skip("example-robot-data comes with the extra 'test'")
    return Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots"))) / file


def descriptions(empty=False):
    """Every URDF of example-robot-data, the `empty` ur3.urdf on demand; none where that is not installed."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        return []
    root = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots")))
    return sorted(file for file in root.rglob("*.urdf") if empty or file.name != "ur3.urdf")


def tree_of(file, **options):
    """The tree of a description, whatever is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_urdf(description(file), **options)
