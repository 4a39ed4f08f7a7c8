"""URDFs of robots as they are found: which are read, which are refused and why, and agreement with Pinocchio.

    python benchmarks/descriptions.py                      # the packages below, as far as they are installed
    python benchmarks/descriptions.py FOLDER ...           # the files in folders beside them, e.g. clones

Packages of PyPI: example-robot-data (of the extra `bench`), icub-models, dexmate-urdf; and what
robot_descriptions has cloned into its cache. Each file is read with a fixed and with a floating base. What is
refused as a mechanism (no inertia behind a joint, say) is compared nevertheless, read with check=False.
The last column is the largest difference of efforts, M and poses from Pinocchio's, relative to the largest
entry, over random states. Marks before a file: `*` dynamics rest on what the file leaves open, `!` refused
as a mechanism, `X` refused as a description.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import absent, describe, unless_quick

from liebody import dynamics
from liebody.base.errors import DescriptionError, ModelError
from liebody.io import AssumedDynamics, DescribedTree, load_urdf, pinocchio_layout

try:
    import pinocchio
except ModuleNotFoundError as error:
    absent(error)

PACKAGES = ("example-robot-data", "icub-models", "dexmate-urdf")
CLONES = Path(os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions")).expanduser()
STATES = 3
AGREE = 1e-9


class Outcome(NamedTuple):
    """What became of a file: mark, reason, what has no effect in it, and the differences from Pinocchio."""

    mark: str
    reason: str
    unused: Counter[str]
    differences: list[float | str]


def files(arguments: list[str]) -> Iterator[tuple[str, Path]]:
    """Source and path of each URDF; one of the same text is taken once."""
    seen = set()
    for source, paths in sources(arguments):
        for path in sorted(paths):
            content = path.read_bytes()
            if content not in seen:
                seen.add(content)
                yield source, path


def sources(arguments: list[str]) -> Iterator[tuple[str, list[Path]]]:
    for package in PACKAGES:
        try:
            found = distribution(package)
        except PackageNotFoundError:
            print(f"{package} is not installed: pip install {package}")
            continue
        listed = [Path(str(found.locate_file(file))) for file in found.files or () if file.suffix == ".urdf"]
        yield package, [path.resolve() for path in listed]
    yield "robot_descriptions", list(CLONES.rglob("*.urdf"))
    for folder in arguments:
        yield Path(folder).name, list(Path(folder).rglob("*.urdf"))


def outcome(path: Path) -> Outcome:
    mark, reason, unused = " ", "", Counter[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            unused = load_urdf(path).description.unused
        except DescriptionError as error:
            return Outcome("X", first_sentence(error), unused, [pinocchio_alone(path)])
        except ModelError as error:
            mark, reason = "!", first_sentence(error)
    assumed = [str(warning.message) for warning in caught if warning.category is AssumedDynamics]
    if assumed:
        mark, reason = mark.replace(" ", "*"), "; ".join([reason, *assumed]).removeprefix("; ")
    return Outcome(
        mark, reason.replace(f"{path}: ", ""), unused, [difference(path, f) for f in (False, True)]
    )


def first_sentence(error: Exception) -> str:
    text = str(error).partition(" Remedy: ")[0].partition("\nRemedy: ")[0]
    return " ".join(re.sub(r"^\S+\.urdf(, |: )", "", text).split())


def pinocchio_alone(path: Path) -> str:
    try:
        with silence():
            pinocchio.buildModelFromUrdf(str(path))
    except (ValueError, RuntimeError):
        return "Pinocchio refuses it"
    return "Pinocchio reads it"


def difference(path: Path, floating: bool) -> float | str:
    """The largest relative difference from Pinocchio, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = load_urdf(path, floating=floating, check=False)
        except ModelError as error:
            return "already floats" if "already floats" in str(error) else first_sentence(error)
    try:
        with silence():
            root = (pinocchio.JointModelFreeFlyer(),) if floating else ()
            model = pinocchio.buildModelFromUrdf(str(path), *root)
    except (ValueError, RuntimeError):
        return "Pinocchio refuses it"
    return max((compared(tree, model, seed) for seed in range(STATES)), default=0.0) if tree.nv else 0.0


def compared(tree: DescribedTree, model: Any, seed: int) -> float:
    layout, data, rng = pinocchio_layout(tree, model), model.createData(), np.random.default_rng(seed)
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    qp, vp, ap = layout.to_q(q), layout.to_v(q, v), layout.to_a(q, v, a)
    upper = np.triu(pinocchio.crba(model, data, qp))
    B = np.array([layout.to_v(q, e) for e in np.eye(tree.nv)]).T
    last = tree.bodies[-1].name
    frame = model.getFrameId(last, pinocchio.FrameType.BODY)
    efforts = layout.from_effort(qp, pinocchio.rnea(model, data, qp, vp, ap))
    pinocchio.framesForwardKinematics(model, data, qp)
    pairs = [
        (dynamics.inverse_dynamics(tree, q, v, a), efforts),
        (dynamics.mass_matrix(tree, q), B.T @ (upper + np.triu(upper, 1).T) @ B),
        (dynamics.frame_pose(tree, q, last), data.oMf[frame].homogeneous),
    ]
    return max(float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-3)) for x, y in pairs)


@contextmanager
def silence() -> Iterator[None]:
    """Without the messages that C++ writes to the standard error."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def main() -> None:
    print(describe("pin"))
    marks: dict[str, Counter[str]] = {}
    unused: Counter[str] = Counter()
    worst, disagree = 0.0, 0
    for source, path in itertools.islice(files(sys.argv[1:]), unless_quick(None, 5)):
        found = outcome(path)
        counts = marks.setdefault(source, Counter())
        counts.update(["files", found.mark])
        unused.update(found.unused.keys())
        numbers = [x for x in found.differences if isinstance(x, float)]
        counts["compared"] += bool(numbers)
        worst = max([worst, *numbers])
        disagree += any(x > AGREE for x in numbers)
        shown = ", ".join(f"{x:.0e}" if isinstance(x, float) else x for x in found.differences)
        print(f"{source:20s} {found.mark} {path.name:44s} {shown:24s} {found.reason}".rstrip(), flush=True)
    columns = ("files", "read", "*", "!", "X", "compared")
    print("\n" + " " * 20 + "".join(f"{column:>10s}" for column in columns))
    for source, counts in marks.items():
        counts["read"] = counts["files"] - counts["!"] - counts["X"]
        print(f"{source:20s}" + "".join(f"{counts[column]:10d}" for column in columns))
    print(f"\nlargest difference from Pinocchio {worst:.1e}; {disagree} files beyond {AGREE:g}")
    print("has no effect, in how many files:", ", ".join(f"{kind} {n}" for kind, n in unused.most_common()))


if __name__ == "__main__":
    main()
