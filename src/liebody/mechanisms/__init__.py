"""Mechanisms, as every integrator sees them, and the forces that act on them. The modules:

contract          the contract of a mechanism, and the open tree in joint coordinates
forces            forces of joints, frames, dampers, stops, contacts
prescribed        joints that follow functions of time
potential         forces of a potential energy
rigid_body        one rigid body on SE(3), a subgroup or any other group
boltzmann_hamel   the equations of motion in any velocities v = S(x) dx/dt
algebra           checks of brackets and inertias
added_mass        the inertia that an ideal fluid adds to an ellipsoid
hamiltonian_form  a tree whose state is (q, p)
constrained/      bodies in absolute coordinates with constraints, and trees with closed loops
"""

from .added_mass import ellipsoid_added_mass
from .algebra import structure_constants
from .boltzmann_hamel import BoltzmannHamel, exponential_transformation, roll_pitch_yaw_transformation
from .contract import Mechanism, OpenTree
from .forces import (
    Bushing,
    Force,
    Forces,
    FrameForce,
    JointDamping,
    JointForce,
    JointFriction,
    JointLimits,
    JointSpring,
    Limits,
    SmoothContact,
    force_named,
    forces_of,
    joint_laws,
)
from .hamiltonian_form import HamiltonianForm
from .potential import Potential
from .rigid_body import RigidBody, SelectedMotions

__all__ = [
    "BoltzmannHamel",
    "Bushing",
    "Force",
    "Forces",
    "FrameForce",
    "HamiltonianForm",
    "JointDamping",
    "JointForce",
    "JointFriction",
    "JointLimits",
    "JointSpring",
    "Limits",
    "Mechanism",
    "OpenTree",
    "Potential",
    "RigidBody",
    "SelectedMotions",
    "SmoothContact",
    "ellipsoid_added_mass",
    "exponential_transformation",
    "force_named",
    "forces_of",
    "joint_laws",
    "roll_pitch_yaw_transformation",
    "structure_constants",
]
