"""Names with control characters and other odd signs, wherever names come in: refused, or kept as they are.

A tree of a few bodies, joints and frames has names of odd signs. Building it refuses them as a LiebodyError,
or everything made of it works: equal names and no others have one fingerprint, what is printed has no control
characters, files of runs give the names back, and URDF and MJCF are either refused or read again with them.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from campaign import main

import liebody as lb
from liebody.base.errors import LiebodyError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.groups import Prismatic, Revolute

SIGNS = ["\0", "\x1b[31m", "\n", "\r", "\t", "\x7f", "\x9b", "\u202e", "\u2028", "\ud800", "\udcff", "\ufeff"]
SIGNS += [
    '"',
    "'",
    "<",
    ">",
    "&",
    "]]>",
    "\\",
    "{}",
    "%s",
    "$",
    "|",
    ";",
    ":",
    "1:",
    "a",
    "b",
    " ",
    "",
    "é",
    "関",
    "/",
]
SIGNS += ["..", "%2F", "%00", ".", "_", "-", "#", "\N{COMBINING ACUTE ACCENT}", "\U0001f916", "x" * 99]
SEEN: dict[str, tuple] = {}
INERTIA = SpatialInertia.box(1.0, [0.1, 0.2, 0.3])


def odd(random) -> str:
    count = random.choice([0, 1, 1, 2, 3])
    return "".join(random.choice(SIGNS[-25:] if random.random() < 0.85 else SIGNS) for _ in range(count))


def case(random) -> None:
    names = [odd(random) for _ in range(random.randrange(4, 8))]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            robot = robot_of(*names)
        except LiebodyError as error:
            assert is_harmless(str(error)), ascii(str(error))
            return
        assert all(map(str.isprintable, names)), ascii(names)
        told = (names[1], names[2], *names[4:])  # kernels do not depend on names of trees and of joints
        identity = robot.recipe("mass_matrix", {})
        assert SEEN.setdefault(identity, told) == told, f"{told} and {SEEN[identity]} are one"
        assert is_harmless(repr(robot) + repr(robot.tree))
        for write in (robot.to_urdf, robot.to_mjcf):
            again_read(write, robot)
        if random.random() < 0.1:
            keep(robot, Path(folder) / "run.nc", random)


def robot_of(tree: str, base: str, arm: str, joint: str, *frames: str):
    builder = TreeBuilder(tree).add(base, Revolute([0, 0, 1]), INERTIA)
    builder.add(arm, Joint(joint, Prismatic([1, 0, 0])), INERTIA, parent=base)
    for name in frames:
        builder.frame(name, arm, [0, 0, 0.1])
    return lb.Robot(builder.build())


def again_read(write, robot) -> None:
    """A description that is written is read, with the names that it was written with."""
    try:
        text = write()
    except LiebodyError as error:
        assert is_harmless(str(error))
        return
    tree = lb.load(text, mimic=True).tree
    assert [b.name for b in tree.bodies][-1] == robot.tree.bodies[-1].name, (tree.bodies, robot.tree.bodies)
    assert {b.joint.name for b in robot.tree.bodies} <= {b.joint.name for b in tree.bodies}
    assert {*robot.tree.frames} <= {*tree.frames}


def keep(robot, path, random) -> None:
    """A run of it is saved and loaded with its names."""
    run = lb.simulate(robot, np.zeros(2), t_end=0.02, dt=0.01, progress=False)
    assert is_harmless(run.summary())
    try:
        run.save(path)
    except LiebodyError as error:
        assert is_harmless(str(error))
        return
    assert lb.Run.load(path).coordinates == run.coordinates


def is_harmless(text: str) -> bool:
    return all(sign.isprintable() or sign == "\n" for sign in text)


if __name__ == "__main__":
    main(case)
