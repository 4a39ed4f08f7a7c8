"""A legged robot that is to walk: the task `Walker` of gym.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from ..base.errors import ModelError, ShapeError
from ..bodies import Frame
from ..contact import Contact, Ground, TimeStepping
from ..dynamics import frame_pose
from ..hybrid import JointPD
from ..scalars import Array
from .tasks import DecisionProcess, Episode, TaskState

SHAPES = ("sphere", "capsule", "box", "cylinder")
UNDER = 0.02  # m that other shapes may reach below the feet of a robot that stands


class Walker(DecisionProcess):
    """A legged robot that is to walk along x without falling, by time stepping.

    robot     with a floating base, whose axis z points upwards when it stands
    feet      what touches the ground: names of frames, or frames; or the contacts of collision shapes,
              `Contact.of_collisions(robot, "FL_calf", ...)`, which may be nameless
    pose      coordinates of the joints when it stands, (n,)
    K, D      gains of the drives, `JointPD`
    step      length of the steps of time stepping, shortened so that whole ones fit dt                  [s]
    ground    a `HeightField` or `Boxes`, over which members start at random places; None: the plane z = 0, or
              the ground of the contacts
    ranges    {parameter: (lowest, highest)}: each member draws its value for each episode, such as
              floor_friction, pd_K, or masses of `robot.with_parameters(...)`; arrays entry by entry
    floor     more options of `Contact`: friction, radius, stiffness, damping

    action       set-points of the joints are pose + reach action, action within [-1, 1]
    observation  height of the base, the world's z in its axes, its velocity (omega, v), joints less pose,
                 their rates
    reward       1 for each action, plus the base's velocity along x, minus a hundredth of |action|^2
    end          the base is lower than half its height over its feet, or leans by more than 60 degrees

    `system` is its TimeStepping, and `height` the height of its base over its feet in the pose  [m].

    Errors: ShapeError for a pose that does not fit the robot; ModelError for a robot without a floating base,
    feet over the base, collision shapes that reach more than 2 cm below the feet (the robot would stand on
    them, or through the ground), options that contacts have already, and ranges of no parameter.
    """

    def __init__(
        self, robot: Any, feet: Sequence[str | Frame | Contact], pose: Array, *, K: Any, D: Any,
        reach: float = 0.3, ground: Ground | None = None, dt: float = 0.02, step: float = 1e-3,
        horizon: int = 500, ranges: Mapping[str, Any] | None = None, **floor: Any,
    ) -> None:  # fmt: skip
        self.pose = np.asarray(pose, float)
        self.reach = reach
        self.dt = dt
        self.horizon = horizon
        neutral = robot.neutral()
        base = robot.tree.bodies[0].joint
        if base.nq != 7:
            raise ModelError(
                f"{robot.tree.name} stands on the joint {base.name!r}, expected a floating base; load it "
                "with lb.load(..., floating=True)"
            )
        if self.pose.shape != neutral[7:].shape:
            raise ShapeError(
                f"pose has shape {self.pose.shape}, expected the coordinates of the joints "
                f"{neutral[7:].shape}"
            )
        self.q0 = np.concatenate([neutral[:7], self.pose])
        contacts = _contacts(feet, ground, floor)
        self.height = _standing_height(robot, contacts, self.q0)
        grounds = [x.ground for x in contacts if x.ground is not None]
        top, self.spread = (max(x.top for x in grounds), 2.0) if grounds else (0.0, 0.0)  # m
        self.q0[6] = self.height + top
        drives = JointPD(K, self.pose, D, gravity_compensation=False)
        self.system = TimeStepping(robot, drives, contacts, step=step, ledger=False)
        self.ranges = dict(ranges or {})
        self.system.parameters.check(self.ranges)
        n = len(self.pose)
        self.action_space = Box(-1.0, 1.0, (n,), np.float32)
        self.observation_space = Box(-1e4, 1e4, (10 + 2 * n,), np.float64)

    def begin(self, rng: np.random.Generator) -> Episode:
        # anywhere on the ground, with small changes of the pose
        q = self.q0.copy()
        v = rng.uniform(-0.05, 0.05, len(self.pose) + 6)
        q[4:6] = self.spread * rng.uniform(-1, 1, 2)
        q[7:] += rng.uniform(-0.05, 0.05, len(self.pose))
        return Episode(q, v, {name: rng.uniform(*limits) for name, limits in self.ranges.items()})

    def parameters(self, state: TaskState, action: Array) -> dict[str, Array]:
        return {"pd_q_des": self.pose + self.reach * np.clip(action, -1, 1)}

    def observe(self, state: TaskState) -> Array:
        q, v = state.q, state.v
        return np.concatenate([q[..., 6:7], _upwards(q), v[..., :6], q[..., 7:] - self.pose, v[..., 6:]], -1)

    def reward(self, before: TaskState, after: TaskState) -> Array:
        speed = (after.q[..., 4] - before.q[..., 4]) / self.dt
        return 1.0 + speed - 0.01 * np.sum(np.square(after.action), axis=-1)

    def is_lost(self, state: TaskState) -> Array:
        return (state.q[..., 6] < 0.5 * self.height) | (_upwards(state.q)[..., 2] < 0.5)


def _contacts(
    feet: Sequence[str | Frame | Contact], ground: Ground | None, floor: dict[str, Any]
) -> list[Contact]:
    """The contacts of the feet: those that are given, or one of all points."""
    given = [x for x in feet if isinstance(x, Contact)]
    if not given:
        law = {"stiffness": 1e5, "damping": 1e3, "friction": 0.8, **floor}
        return [Contact(*(x for x in feet if not isinstance(x, Contact)), ground=ground, **law)]
    options = [*floor, *([] if ground is None else ["ground"])]
    if len(given) < len(feet) or options:
        also = ", ".join(options) or "points"
        raise ModelError(
            f"feet are contacts, and there are {also} beside them; give these to the contacts, "
            "Contact.of_collisions(robot, ..., friction=0.8)"
        )
    return given


def _standing_height(robot: Any, contacts: Sequence[Contact], q: Array) -> float:
    """How high the base stands at q if the lowest foot touches the ground; raises ModelError.

    Compares the feet with all collision shapes of the description but meshes.
    """
    tree = robot.tree

    def lowest(contact: Contact) -> tuple[float, Frame]:
        heights = [(float(frame_pose(tree, q, x)[2, 3]) - contact.radius, x) for x in contact.frames(tree)]
        return min(heights, key=lambda pair: pair[0])

    base = float(q[6])
    foot, frame = min((lowest(x) for x in contacts), key=lambda pair: pair[0])
    if not foot < base:
        raise ModelError(
            f"in this pose the foot {frame.name!r} is {foot - base:.3g} m over the base, expected below it; "
            "give a pose in which the robot stands"
        )
    try:
        shapes = Contact.of_collisions(robot, kinds=SHAPES)
    except ModelError:  # a description without shapes has none that could stand in the way
        return base - foot
    under, shape = min((lowest(x) for x in shapes), key=lambda pair: pair[0])
    if under < foot - UNDER:
        link = tree.bodies[shape.body - 1].name
        raise ModelError(
            f"in this pose a collision shape of {link!r} reaches {foot - under:.3g} m below the lowest foot, "
            f"{frame.name!r}: the robot would not stand on its feet. Give the shapes as feet, "
            f"Contact.of_collisions(robot, {link!r}, kinds=...), or another pose"
        )
    return base - foot


def _upwards(q: Array) -> Array:
    """The world's z in the axes of a floating base, (..., 3)."""
    w, x, y, z = np.moveaxis(q[..., :4], -1, 0)
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1)
