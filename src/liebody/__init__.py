"""Explicit, singularity-free equations of motion, compiled.

    import liebody as lb

    robot = lb.load("ur5.urdf")
    tau = robot.inverse_dynamics(q, v, a)
    run = lb.simulate(robot, q, v, t_end=1.0, dt=1e-3)

`load` reads a robot, `Robot` holds its equations of motion, `simulate` integrates them on the configuration
manifold, `solve_ivp` integrates any vector field on any Lie group. `groups`, `bodies`, `models`, `dynamics`
and `codegen` are the parts they are made of.
"""

from . import bodies, codegen, constrained, dynamics, gaits, groups, integrators, io, models, scalar, systems
from .bodies import Joint, SpatialInertia, Tree, TreeBuilder
from .constrained import System, SystemBuilder
from .dynamics import RigidBody
from .equations import equations
from .errors import LiebodyError
from .integrators import solve_ivp
from .inverse_kinematics import InverseKinematics, inverse_kinematics
from .io.c_export import export_c
from .linearize import Linearization, linearize, lqr
from .loading import load
from .optimal_control import OptimalControl, OptimalPlan, optimal_control
from .rigid_body_equations import boltzmann_hamel_equations, rigid_body_equations
from .robot import Robot, derivatives
from .run import Run
from .sensitivities import sensitivities
from .simulate import SingularPosition, simulate
from .stepper import stepper
from .sweep import Sample, sample, sweep
from .symmetries import symmetries
from .systems import HybridSystem
from .view import view

__version__ = "0.1.0"

__all__ = [
    "HybridSystem",
    "InverseKinematics",
    "Joint",
    "LiebodyError",
    "Linearization",
    "OptimalControl",
    "OptimalPlan",
    "RigidBody",
    "Robot",
    "Run",
    "Sample",
    "SingularPosition",
    "SpatialInertia",
    "System",
    "SystemBuilder",
    "Tree",
    "TreeBuilder",
    "bodies",
    "boltzmann_hamel_equations",
    "codegen",
    "constrained",
    "derivatives",
    "dynamics",
    "equations",
    "export_c",
    "gaits",
    "groups",
    "integrators",
    "inverse_kinematics",
    "io",
    "linearize",
    "load",
    "lqr",
    "models",
    "optimal_control",
    "rigid_body_equations",
    "sample",
    "scalar",
    "sensitivities",
    "simulate",
    "solve_ivp",
    "stepper",
    "sweep",
    "symmetries",
    "systems",
    "view",
]
