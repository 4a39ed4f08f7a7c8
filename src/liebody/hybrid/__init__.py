"""Hybrid systems: motion with memory, events and controllers. The modules:

system        `HybridSystem`: vector field, guards, update of the memory, works, outputs; simulation
equations     its functions on flat arrays, traced; the contract with variations, steppers, other systems
parameters    parameters of a simulation, constant or sampled over time
results       from a finished march to a `HybridRun`
robot_state   `State`: a robot in motion, as its elements see it
element       `Element`: a contact, a spring, a controller that acts on a robot; names of its parts
robot_system  `RobotSystem`: robots with elements, as hybrid systems
ledger        the balance of energy of a robot system
controllers   virtual springs, regulators, controllers
stepper       simulation one interval after the other, with new parameters for each interval
device        hybrid systems on CUDA devices: simulation, and steps by intervals
device_intervals  intervals of members with clocks of their own on CUDA devices
in_place      `ExtendedSystem`: another system with more parameters, memory and flows
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
from .device import DeviceHybridState, DeviceHybridStepper
from .device_intervals import DeviceIntervals
from .element import Apex, Element, Fall
from .equations import KernelCall
from .in_place import ExtendedSystem, with_changes
from .ledger import Ledger
from .results import LostEvents
from .robot_state import State
from .robot_system import RobotSystem, robot_system
from .stepper import HybridState, HybridStepper
from .system import HybridSystem
from .variations import VariedSystem

__all__ = [
    "Apex",
    "DecoupledImpedance",
    "DeviceHybridState",
    "DeviceHybridStepper",
    "DeviceIntervals",
    "Element",
    "EnergyRegulator",
    "ExtendedSystem",
    "Fall",
    "Feedback",
    "HybridState",
    "HybridStepper",
    "HybridSystem",
    "JointPD",
    "KernelCall",
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
    "with_changes",
]
