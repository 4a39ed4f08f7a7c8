"""Calls with arguments of wrong types: every error is a LiebodyError, and nothing hangs.

Each case takes a call of the public interface whose arguments are right, and puts something else in the place
of one or two of them.
"""

from __future__ import annotations

import contextlib
import io
import math
import pathlib
import shutil
import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
from campaign import main

import liebody as lb
from liebody.base.errors import LiebodyError
from liebody.groups import SE3, SO3, Helical, R, Revolute
from liebody.runs import Run

ROBOT = lb.models.double_pendulum()
FREE = lb.models.free_rigid_body()
BALL = lb.HybridSystem(R(1), lambda t, q, v, z, p: -9.81 - p.drag * v, parameters={"drag": 0.1}, name="ball")
Q, V = [0.3, -0.2], [0.1, 0.2]
TIP = ROBOT.tree.bodies[-1].name
BOX = lb.SpatialInertia.box(1.0, [0.1, 0.2, 0.3])
CORNERS = np.vstack([np.zeros(3), np.eye(3)])
TETRAHEDRON = CORNERS[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
STATE = {"q": Q, "v": V}
RUN = lb.simulate(ROBOT, Q, V, t_end=0.05, dt=0.01)
FOLDER = tempfile.TemporaryDirectory()  # where the calls are made


class Hostile:
    """An array that cannot be made."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array of this")

    def __repr__(self):
        return "Hostile()"


def two_bodies():
    return lb.SystemBuilder("s").body("a", BOX).body("b", BOX, [1.0, 0, 0])


def algorithm(name):
    return lambda **given: getattr(ROBOT, name)(**given)


CALLS = {
    "simulate": (lb.simulate, {
        "mechanism": ROBOT, "q0": Q, "v0": V, "t_end": 0.05, "dt": 0.01, "method": "rkmk4", "tau": [0.0, 0.0],
        "record_every": 0.01, "hold": "zero", "forces": (), "joints": None, "stabilization": None,
        "events": None, "threads": 1, "progress": False,
    }),
    "simulate, error control": (lb.simulate, {
        "mechanism": FREE, "t_end": 0.05, "method": "rkmk45", "rtol": 1e-6, "atol": 1e-6,
        "record_every": 0.01,
    }),
    "simulate, implicit": (lb.simulate, {
        "mechanism": ROBOT, "q0": Q, "t_end": 0.05, "dt": 0.01, "method": "generalized-alpha", "threads": 1,
    }),
    "hybrid": (BALL.simulate, {
        "q0": [1.0], "v0": [0.0], "t_end": 0.1, "dt": 0.01, "record_every": 0.1, "parameters": {"drag": 0.2},
        "memory": None, "sampled": None, "hold": "zero", "method": "rkmk4", "locate": 1e-12, "least": 1e-7,
        "most_events": 10, "limit": 1000, "threads": 1,
    }),
    "stepper": (lb.stepper, {"mechanism": ROBOT, "dt": 0.01, "method": "rkmk4", "members": 2, "threads": 1}),
    "solve_ivp": (lb.solve_ivp, {
        "F": lambda t, y: np.array([0.0, 0.1, 0.2]), "t_span": (0.0, 0.1), "g0": [1.0, 0, 0, 0],
        "group": SO3,
        "method": "rkmk45", "t_eval": [0.0, 0.1], "rtol": 1e-6, "atol": 1e-6,
    }),
    "linearize": (lb.linearize, {"mechanism": ROBOT, "q": [0.0, 0.0]}),
    "Robot": (lb.Robot, {"tree": ROBOT.tree, "gravity": (0, 0, -9.81)}),
    "load": (lb.load, {"source": '<robot name="r"><link name="a"/></robot>', "floating": False}),
    "random": (ROBOT.random, {"rng": 1, "shape": 3}),
    "kernel": (ROBOT.kernel, {"name": "mass_matrix", "dtype": np.float64}),
    "derivatives": (ROBOT.derivatives, {"name": "gravity", "wrt": "q", "product": None}),
    "sample": (lb.sample, {"bounds": {"x": (0.0, 1.0)}, "n": 4, "method": "random", "seed": 0}),
    "Sample": (lb.Sample, {"values": {"x": [1.0, 2.0]}}),
    "member": (lambda **k: RUN.member(*k.values()), {"index": 0}),
    "load run": (Run.load, {"path": "none.nc"}),
    "save run": (RUN.save, {"path": "/nonexistent/run.nc"}),
    "export": (ROBOT.export_c, {"folder": "/dev/null/x", "functions": ["mass_matrix"]}),
    "to_urdf": (ROBOT.to_urdf, {"file": "/dev/null/x"}),
    "inertia": (lb.SpatialInertia, {"mass": 1.0, "com": np.zeros(3), "rotational": np.eye(3)}),
    "integrate": (SE3.integrate, {"q": SE3.neutral(), "u": np.zeros(6)}),
    "rigid body": (lb.RigidBody, {"group": SO3, "inertia": np.eye(3)}),
    "add": (lambda **given: lb.TreeBuilder("t").add(**given).build(), {
        "name": "a", "joint": Revolute([0, 0, 1]), "inertia": BOX, "parent": "world", "placement": [0, 0, 1],
    }),
    "frame": (lambda **given: lb.TreeBuilder("t").add("a", Revolute([0, 0, 1]), BOX).frame(**given).build(), {
        "name": "tip", "body": "a", "placement": [0, 0, 1],
    }),
    "build": (lb.TreeBuilder("t").add("a", Revolute([0, 0, 1]), BOX).build, {"check": True}),
    "joint": (lb.Joint, {
        "name": "j", "group": Revolute([0, 0, 1]), "lower": -1.0, "upper": 1.0, "velocity_limit": 2.0,
        "effort_limit": 3.0, "damping": 0.1, "friction": 0.2, "armature": 0.3, "stiffness": 0.4, "rest": 0.0,
    }),
    "revolute": (Revolute, {"axis": [0, 0, 1]}),
    "helical": (Helical, {"axis": [0, 0, 1], "pitch": 0.1, "point": [0.2, 0.3, 0]}),
    "point": (lb.SpatialInertia.point, {"mass": 1.0, "com": [0, 0, 1]}),
    "box": (lb.SpatialInertia.box, {"mass": 1.0, "size": [1, 2, 3], "com": [0, 0, 1]}),
    "cylinder": (lb.SpatialInertia.cylinder, {"mass": 1.0, "radius": 0.1, "length": 0.2, "axis": 2}),
    "polyhedron": (lb.SpatialInertia.polyhedron, {"density": 1.0, "triangles": TETRAHEDRON}),
    "shift": (BOX.shift, {"T": np.eye(4)}),
    "body": (lambda **given: lb.SystemBuilder("s").body(**given).build(), {
        "name": "a", "inertia": BOX, "pose": [0, 0, 1], "configuration": "auto",
    }),
    "system joint": (lambda **given: two_bodies().joint(**given).build(), {
        "name": "j", "joint": Revolute([0, 0, 1]), "parent": "a", "child": "b", "on_parent": [0.1, 0, 0],
        "on_child": [0, 0.2, 0], "damping": 0.1, "driven": True, "offset": 0.0,
    }),
    "rod": (lambda **given: two_bodies().rod(**given).build(), {
        "name": "r", "a": "a", "b": "b", "on_a": [0.1, 0, 0], "on_b": None, "length": 2.0,
    }),
    "universal": (lambda **given: two_bodies().universal(**given).build(), {
        "name": "u", "parent": "a", "child": "b", "parent_axis": [1, 0, 0], "child_axis": [0, 1, 0],
        "on_parent": None, "on_child": [0, 0, 1],
    }),
    "point_on_line": (lambda **given: two_bodies().point_on_line(**given).build(), {
        "name": "l", "body": "b", "point": [0, 0, 1], "on": "a", "through": [0, 0, 0], "direction": [1, 0, 0],
    }),
    "rolling": (lambda **given: two_bodies().rolling(**given).build(), {
        "name": "w", "body": "b", "radius": 0.5, "axis": [0, 1, 0], "center": [0, 0, 0], "on": "world",
        "plane": None, "slip": 0.0, "held": True,
    }),
    "knife_edge": (lambda **given: two_bodies().knife_edge(**given).build(), {
        "name": "k", "body": "b", "on_body": [0, 0, 1], "on": "world", "slip": 0.0,
    }),
    "spring": (lambda **given: two_bodies().spring(**given).build(), {
        "name": "s", "a": "a", "b": "b", "on_a": [0, 0, 1], "on_b": None, "stiffness": 1.0, "length": 0.5,
        "damping": 0.1,
    }),
    "bushing": (lambda **given: two_bodies().bushing(**given).build(), {
        "name": "s", "a": "a", "b": "b", "on_a": [0, 0, 1], "on_b": None, "stiffness": 1.0,
        "turning_stiffness": [1, 2, 3], "damping": 0.1,
    }),
    "joint_spring": (
        lambda **given: two_bodies().joint("j", Revolute([0, 0, 1]), "a", "b").joint_spring(**given).build(),
        {"name": "s", "joint": "j", "stiffness": 1.0, "rest": 0.2},
    ),
    "lqr": (lb.lqr, {"linear": lb.linearize(ROBOT, [0.0, 0.0]), "Q": np.eye(4), "R": np.eye(2), "N": None}),
    "inverse_kinematics": (lb.inverse_kinematics, {
        "robot": ROBOT, "targets": {TIP: [0.5, 0.0, 0.5]}, "q0": Q, "limits": True,
        "tolerance": 1e-8, "iterations": 20, "restarts": 1, "rng": 0,
    }),
    "symmetries": (lb.symmetries, {"mechanism": ROBOT, "forces": (), "joints": None, "seed": 0}),
    "view": (lb.view, {"system": ROBOT, "motion": Q, "members": 2, "ghosts": False, "trace": None}),
    "with_parameters": (lambda given: ROBOT.with_parameters(given), {"given": {f"{TIP}.mass": 2.0}}),
    **{name: (algorithm(name), {**given, "threads": 1, "out": None}) for name, given in {
        "mass_matrix": {"q": Q},
        "inverse_dynamics": {**STATE, "a": V, "wrenches": None},
        "forward_dynamics": {**STATE, "tau": V},
        "normalize": {"q": Q},
        "integrate": {"q": Q, "v": V},
        "interpolate": {"q0": Q, "q1": V, "s": 0.5},
        "pose": {"q": Q, "frame": ROBOT.tree.bodies[-1].name},
        "jacobian": {"q": Q, "frame": ROBOT.tree.bodies[-1].name},
        "coriolis_matrix": STATE,
        "inverse_dynamics_regressor": {**STATE, "a": V},
    }.items()},
}  # fmt: skip

JUNK = [
    None, "2", "", "x" * 50, 1.5, -1, 0, 2, 2**63, 10**400, True, math.nan, math.inf, 1e308, 1j, b"q", [], (),
    {}, {"a": 1}, {1: 2}, set(), object(), Hostile(), lambda *_: None, lambda *_: 1 / 0, int, ROBOT, RUN, SO3,
    Ellipsis, Decimal("1e999"), Fraction(1, 3), pathlib.Path("/"), pathlib.Path("/dev/null"), "/", "nul\0",
    range(2),
    np.array(["a", "b"]), np.array([None, 1]), np.zeros((0,)), np.zeros((2, 0)), np.zeros((3, 2)),
    np.float32(0.1), np.int8(3), np.array(0.5), np.zeros(2, complex), np.datetime64("2026-01-01"),
    [[1.0], [1.0, 2.0]], [1.0, "x"], [Hostile()], [10**400, 1], ["x"], [None], slice(2),
    np.zeros(2, np.float16), np.zeros(2)[::-1], iter([1.0, 2.0]), (i for i in range(2)), memoryview(b"12"),
    [1.0, math.nan], [math.inf, 1.0], {"x": Hostile()}, {"x": None}, {"drag": "much"}, ([0.0], [[1.0, 1.0]]),
    ([0.0, 1.0], Hostile()), ("a", "b"), np.random.default_rng(0), warnings, Exception("x"), 10**20,
]  # fmt: skip


def case(random) -> None:
    name = random.choice(list(CALLS))
    call, given = CALLS[name]
    changed = random.sample(sorted(given), min(len(given), random.choice([1, 1, 1, 2])))
    arguments = {**given, **{key: random.choice(JUNK) for key in changed}}
    attempt(name, call, {key: arguments[key] for key in changed}, arguments)


def empty_folder() -> str:
    """A folder with nothing in it; to make one for each case would take longer than most cases."""
    for left in pathlib.Path(FOLDER.name).iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return FOLDER.name


def attempt(name: str, call, changed: dict, arguments: dict) -> None:
    """Make a call; AssertionError for an error that is not ours."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.chdir(empty_folder()):
            try:
                call(**arguments)
            except LiebodyError:
                pass
            except MemoryError:
                pass
            except Exception as error:
                if any(callable(x) and x is not SO3 for x in changed.values()):  # users' errors are theirs
                    return
                raise AssertionError(f"{name}({changed}) raised {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    main(case)
