"""The examples of Mueller and Terze (2013), section 5, and mechanisms with loops, in absolute coordinates."""

from __future__ import annotations

import numpy as np

from liebody.bodies import Joint, SpatialInertia, Tree, TreeBuilder
from liebody.groups import SE3, SO3, Revolute, Spherical
from liebody.mechanisms.constrained import System, SystemBuilder

BOX = SpatialInertia.box(2.7, [0.2, 0.1, 0.05])


def heavy_top(configuration: str) -> tuple[System, np.ndarray]:
    """Section 5.1: the system, and its initial velocities."""
    builder = SystemBuilder("heavy top", gravity=(0, 0, 0))
    inertia = SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09])
    builder.body("top", inertia, [0.5, 0, 0], configuration)
    builder.joint("pivot", Spherical(), "world", "top", on_child=[-0.5, 0, 0])
    w = np.pi * np.array([0, 20, 10.0])
    return _with_twists(builder, {"top": [*w, *np.cross(w, [0.5, 0, 0])]})


def pendulum(configuration: str) -> tuple[System, np.ndarray]:
    """Section 5.2."""
    builder = _pair(configuration, (0, 0, -9.81))
    builder.joint("j1", Spherical(), "world", "one", on_child=[-0.1, 0, 0])
    w = np.pi * np.array([10, 10, 20.0])
    return _with_twists(builder, {"one": [10, 0, 0, 0, 0, 0], "two": [*w, *np.cross(w, [0.1, 0, 0])]})


def floating(configuration: str) -> tuple[System, np.ndarray]:
    """Section 5.3, body one at rest."""
    w1, w2, e = np.array([0, 0, -10.0]), np.array([1, -1, 2 * np.pi]), [0.1, 0, 0]
    twists = {"one": [*w1, 0, 0, 0], "two": [*w2, *(np.cross(w1, e) + np.cross(w2, e))]}
    return _with_twists(_pair(configuration, (0, 0, 0)), twists)


def three_bar(configuration: str) -> tuple[System, np.ndarray]:
    """Section 5.4."""
    builder = SystemBuilder("three-bar")
    angle = np.arccos(0.75)
    for name, sign, x in (("one", -1, 0.075), ("two", 1, 0.225)):
        R = SO3.exp(np.array([0, sign * angle, 0]))
        place = SE3.motion(R, np.array([x, 0, 0.1 * np.sin(angle)]))
        builder.body(name, BOX, place, configuration)
    builder.joint("j1", Spherical(), "world", "one", on_child=[-0.1, 0, 0])
    builder.joint("j2", Spherical(), "one", "two", on_parent=[0.1, 0, 0], on_child=[-0.1, 0, 0])
    builder.joint("j3", Spherical(), "world", "two", on_parent=[0.3, 0, 0], on_child=[0.1, 0, 0])
    w, v = 25 * np.sin(angle) / 5, -0.5 * np.sin(angle)
    twists = {"one": [23.75, 0, -w, 0, v, 0], "two": [-6.25, 0, w, 0, v, 0]}
    return _with_twists(builder, twists)


def chain(n: int) -> System:
    """Bars on spherical joints, hanging from the world and stretched along x."""
    builder, before = SystemBuilder(f"chain of {n}"), "world"
    for i in range(n):
        builder.body(f"b{i}", SpatialInertia.box(1.0, [0.2, 0.1, 0.05]), [0.1 + 0.2 * i, 0, 0])
        at = [0.1, 0, 0] if i else None
        builder.joint(f"j{i}", Spherical(), before, f"b{i}", on_parent=at, on_child=[-0.1, 0, 0])
        before = f"b{i}"
    return builder.build()


def four_bar(lengths=(1.0, 2.0, 1.5), ground: float = 2.2, rods: bool = False) -> Tree:
    """Hinges about y: a crank, a coupler on it, and a rocker; the loop is open between `end` and `tip`."""
    crank, coupler, rocker = lengths
    builder = TreeBuilder("four-bar")
    for name, length, hinge, parent, place in (
        ("crank", crank, "A", "world", [0, 0, 0]),
        ("coupler", coupler, "B", "crank", [crank, 0, 0]),
        ("rocker", rocker, "D", "world", [ground, 0, 0]),
    ):
        com = [length / 2, 0, 0]
        box = SpatialInertia.box(length, [length, 0.05, 0.05], com=com)
        bar = SpatialInertia.rod(length, length, 0, com) if rods else box
        builder.add(name, Joint(hinge, Revolute([0, 1, 0])), bar, parent, place)
    return builder.frame("end", "coupler", [coupler, 0, 0]).frame("tip", "rocker", [rocker, 0, 0]).build()


def _pair(configuration: str, gravity) -> SystemBuilder:
    builder = SystemBuilder("pair", gravity)
    builder.body("one", BOX, [0.1, 0, 0], configuration).body("two", BOX, [0.3, 0, 0], configuration)
    return builder.joint("j2", Spherical(), "one", "two", on_parent=[0.1, 0, 0], on_child=[-0.1, 0, 0])


def _with_twists(builder: SystemBuilder, twists) -> tuple[System, np.ndarray]:
    system = builder.build()
    return system, system.velocities(system.guess, twists)
