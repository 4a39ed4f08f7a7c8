"""Systems that are more than equations of motion: memory, events, contact, controllers. The modules:

hybrid   a hybrid system: vector field, guards, update of its memory, ledger of works, outputs; its simulation
robot    robots with elements that act on them, as hybrid systems; the ledger of energies
contact  viscoelastic contact of points with a half-space
control  virtual springs, regulators, controllers
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
from .hybrid import EventLog, HybridRun, HybridSystem
from .robot import Apex, Element, Fall, Ledger, RobotSystem, State, robot_system

__all__ = [
    "Apex",
    "Contact",
    "DecoupledImpedance",
    "Element",
    "EnergyRegulator",
    "EventLog",
    "Fall",
    "Feedback",
    "HybridRun",
    "HybridSystem",
    "JointPD",
    "Ledger",
    "LockedPolarSpring",
    "OperationalSpaceImpedance",
    "PolarSpring",
    "RadialSpring",
    "RobotSystem",
    "State",
    "controller_1",
    "controller_2",
    "controller_3",
    "robot_system",
]
