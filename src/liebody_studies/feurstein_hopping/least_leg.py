"""The leg that hops without a polar torque, designed: how stable it can be without feedback.

Feurstein (2021, conclusions) asks which leg is the least that can be expected to hop under-actuated, and how
its gaits are found. Neither leg of the thesis does: with a knee alone or with a slide the body turns on in
flight as it did at lift-off. `underactuated` finds gaits of a leg with hip and knee, all of them unstable as
long as the posture stays the same at each hop. There masses and lengths are given, and gains are searched.

Here the leg itself is searched, too: the trunk's inertia and the height of its centre of mass over the hip,
lengths and masses of thigh and shank, beside gains, levels and posture. The trunk's mass stays. Lengths and
masses are symbols of the tree, so all legs share compiled code. `gaits.design` lowers the largest multiplier,
from the settled gait of `underactuated` on, while the foot keeps a clearance at the apex.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import sympy

from liebody import Robot, SpatialInertia, TreeBuilder, contact, hybrid
from liebody.bodies import Joint
from liebody.gaits import Designs, PeriodicOrbit, design, largest_multiplier, periodic_orbit
from liebody.groups import Planar, Revolute
from liebody.hybrid import RobotSystem, State
from liebody.models import two_joint_hopper

from ..report import rows_of
from . import underactuated
from .experiments import FAST
from .underactuated import BOX, CLEARANCE, DAMPING, DIFFERENCE, FRICTION, JOINTS, STEPS, PushingLeg

RADIUS = 1.50  # largest multiplier of the gait in least_leg.md
AXIS = (0, 0, 1)
TRUNK = 0.8  # kg
OWN = {  # of `two_joint_hopper`
    "trunk_inertia": 1e-3, "trunk_height": 0.02,
    "thigh": 0.12, "thigh_mass": 0.122, "shank": 0.12, "shank_mass": 0.05,
}  # fmt: skip
FREE: dict[str, tuple[Any, Any]] = {
    "trunk_inertia": (4e-4, 2e-2),  # about the axis of the hip's joint, at the centre of mass, kg m2
    "trunk_height": (-0.06, 0.08),  # of the centre of mass over the hip, m
    "thigh": (0.06, 0.2),  # length, m
    "shank": (0.06, 0.2),
    "thigh_mass": (0.02, 0.25),  # kg
    "shank_mass": (0.02, 0.25),
    "K_r": BOX["K_r"],
    "K_E": BOX["K_E"],
    "K_j": BOX["K_j"],
    "D_j": (0.05, 0.3),
    "r_des": (0.1, 0.35),
    "E_des": (1.2, 4.0),
    "posture": ((-1.5, 0.2), (0.6, 1.8)),
}


@functools.cache
def robot() -> Robot:
    """A trunk on a leg with hip and knee: `two_joint_hopper`, whose numbers are symbols with its values."""
    inertia, height, *links = sympy.symbols(" ".join(OWN), real=True)
    moments = np.diag([inertia / 2, inertia / 2, inertia])
    trunk = SpatialInertia(TRUNK, np.array([0, height, 0]), moments)
    placement = two_joint_hopper().tree.bodies[0].placement
    builder = TreeBuilder("leg").add("base", Planar(AXIS), trunk, placement=placement)
    parent, place = "base", np.zeros(3)
    for name, joint, (length, mass) in zip(
        ("thigh", "shank"), JOINTS[2], (links[:2], links[2:]), strict=True
    ):
        end = np.array([0, -length, 0])
        turning = mass * length**2 / 12  # of a thin rod about its middle
        rod = SpatialInertia(mass, end / 2, np.diag([turning, 0, turning]))
        builder.add(name, Joint(joint, Revolute(AXIS), lower=-2.6, upper=2.6), rod, parent, place)
        parent, place = name, end
    return Robot(builder.frame("foot", parent, place).build()).with_parameters(OWN)


@functools.cache
def system() -> RobotSystem:
    """As of `underactuated`: the leg's controller, a floor with friction, apexes."""
    floor = contact.Contact("foot", damping=DAMPING, settling=0.05, friction=FRICTION, corners=False)
    parts = PushingLeg("foot", 2), floor, hybrid.Apex(), hybrid.Fall(0.1)
    return hybrid.robot_system(
        robot(), *parts, actuated=JOINTS[2], ledger=False, outputs=_signals, name="least_leg"
    )


def _signals(s: State) -> dict[str, Any]:
    return {"foot": s.position("foot"), "knee": s.position("shank")}


def gait_at(q: Any, v: Any, parameters: dict[str, Any]) -> PeriodicOrbit:
    """The gait next to a state at an apex. Raises GaitError where there is none."""
    return periodic_orbit(
        system(), q, v, **underactuated.orbits(2), parameters=parameters, tries=14, tolerance=1e-7,
        difference=DIFFERENCE, limit=STEPS // 6,
    )  # fmt: skip


def start() -> PeriodicOrbit:
    """The settled gait of the leg with the numbers of `two_joint_hopper`."""
    gait = underactuated.known(2)
    return gait_at(gait.q, gait.v, dict(gait.parameters))


def clearance(gait: PeriodicOrbit) -> float:
    """Height of the foot at the apex [m]."""
    return float(gait.simulate(record_every=gait.period).outputs["foot"][0, 2])


def search(
    generations: int = 40, population: int = 12, store: str | os.PathLike[str] | None = None, seed: int = 0
) -> Designs:
    """Legs with a smaller largest multiplier, generation after generation."""
    return design(
        start(), FREE, largest_multiplier, limits={"clearance": (clearance, CLEARANCE, None)},
        generations=generations, population=population, spread=0.05, seed=seed, tolerance=1e-7, tries=6,
        store=store,
    )  # fmt: skip


def known() -> PeriodicOrbit:
    """The gait of the leg that `search` found, by its row in least_leg.md."""
    (row,) = rows_of(__package__, "least_leg")
    parameters: dict[str, Any] = {name: float(row[name]) for name in FREE if name != "posture"}
    parameters["posture"], q, v = ([float(y) for y in row[key].split()] for key in ("posture", "q", "v"))
    return gait_at(q, v, {**FAST, **parameters})
