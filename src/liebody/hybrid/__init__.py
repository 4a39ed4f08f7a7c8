"""Hybrid systems: motion with memory, events and controllers. The modules:

system        a hybrid system: vector field, guards, update of its memory, works, outputs; its simulation
robot_system  robots with elements that act on them, as hybrid systems; the ledger of energies
controllers   virtual springs, regulators, controllers
stepper       a hybrid system, one interval after the other
in_place      systems in the place of another one
variations    derivatives of hybrid flows, with saltation at events
"""

from .controllers import (
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
from .robot_system import Apex, Element, Fall, Ledger, RobotSystem, State, robot_system
from .stepper import HybridState, HybridStepper
from .system import HybridSystem, LostEvents
from .variations import VariedSystem

__all__ = [
    "Apex",
    "DecoupledImpedance",
    "Element",
    "EnergyRegulator",
    "Fall",
    "Feedback",
    "HybridState",
    "HybridStepper",
    "HybridSystem",
    "JointPD",
    "Ledger",
    "LockedPolarSpring",
    "LostEvents",
    "OperationalSpaceImpedance",
    "PolarSpring",
    "RadialSpring",
    "RobotSystem",
    "State",
    "VariedSystem",
    "controller_1",
    "controller_2",
    "controller_3",
    "robot_system",
]
