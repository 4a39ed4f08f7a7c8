"""Systems that are more than equations of motion: memory, events, contact, controllers. The modules:

hybrid      a hybrid system: vector field, guards, update of its memory, works, outputs; its simulation
robot       robots with elements that act on them, as hybrid systems; the ledger of energies
contact     viscoelastic contact of points with a half-space
feet        feet that stand on rigid ground, one at a time
control     virtual springs, regulators, controllers
grounds     height fields, boxes and steps
time_stepping  robots with contacts by impulses over steps of one length
flight      steps of joints that turn and translate
impulses    what it solves for: contacts, stops and dry friction of joints, closed loops
impacts     impacts with restitution, before a step
rows        their rows in the factors of the mass matrix
spheres     spheres and capsules against each other
cones       the laws of such impulses, and their solution
stepping    a hybrid system, one interval after the other
in_place    systems in the place of another one
variations  derivatives of hybrid flows, with saltation at events
"""

from .contact import Contact
from .control import (
    DecoupledImpedance,
    EnergyRegulator,
    Feedback,
    JointPD,
    LockedPolarSpring,
    OperationalSpaceImpedance,
    PolarSpring,
    RadialSpring,
    controller_1,
    controller_2,
    controller_3,
)
from .feet import PointFeet
from .grounds import Boxes, Ground, HeightField
from .hybrid import HybridSystem, LostEvents
from .robot import Apex, Element, Fall, Ledger, RobotSystem, State, robot_system
from .spheres import SphereContact
from .stepping import HybridState, HybridStepper
from .time_stepping import TimeStepping, UnsolvedSteps
from .variations import VariedSystem

__all__ = [
    "Apex",
    "Boxes",
    "Contact",
    "DecoupledImpedance",
    "Element",
    "EnergyRegulator",
    "Fall",
    "Feedback",
    "Ground",
    "HeightField",
    "HybridState",
    "HybridStepper",
    "HybridSystem",
    "JointPD",
    "Ledger",
    "LockedPolarSpring",
    "LostEvents",
    "OperationalSpaceImpedance",
    "PointFeet",
    "PolarSpring",
    "RadialSpring",
    "RobotSystem",
    "SphereContact",
    "State",
    "TimeStepping",
    "UnsolvedSteps",
    "VariedSystem",
    "controller_1",
    "controller_2",
    "controller_3",
    "robot_system",
]
