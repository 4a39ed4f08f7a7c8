"""Explicit, singularity-free equations of motion, compiled.

    import liebody as lb

    robot = lb.load("ur5.urdf")
    tau = robot.inverse_dynamics(q, v, a)
    run = lb.simulate(robot, q, v, t_end=1.0, dt=1e-3)

`load` reads a robot, `Robot` holds its equations of motion, `simulate` integrates them on the configuration
manifold, `solve_ivp` integrates any vector field on any Lie group. `groups`, `bodies`, `models`, `dynamics`
and `codegen` are the parts they are made of.

Each name is imported when it is first asked for: a program loads what it uses.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; _HOMES says the same at run time
    from . import (
        bodies,
        codegen,
        constrained,
        dynamics,
        errors,
        gaits,
        groups,
        integrators,
        io,
        models,
        scalar,
        systems,
    )
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

__version__ = "0.2.0"

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
    "errors",
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

_HOMES = {
    "bodies": ("Joint", "SpatialInertia", "Tree", "TreeBuilder"),
    "constrained": ("System", "SystemBuilder"),
    "dynamics": ("RigidBody",),
    "equations": ("equations",),
    "errors": ("LiebodyError",),
    "integrators": ("solve_ivp",),
    "inverse_kinematics": ("InverseKinematics", "inverse_kinematics"),
    "io.c_export": ("export_c",),
    "linearize": ("Linearization", "linearize", "lqr"),
    "loading": ("load",),
    "optimal_control": ("OptimalControl", "OptimalPlan", "optimal_control"),
    "rigid_body_equations": ("boltzmann_hamel_equations", "rigid_body_equations"),
    "robot": ("Robot", "derivatives"),
    "run": ("Run",),
    "sensitivities": ("sensitivities",),
    "simulate": ("SingularPosition", "simulate"),
    "stepper": ("stepper",),
    "sweep": ("Sample", "sample", "sweep"),
    "symmetries": ("symmetries",),
    "systems": ("HybridSystem",),
    "view": ("view",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """The module that this package is: it imports its names when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_HOME.get(name, name)}")
        value = getattr(module, name) if name in _HOME else module
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """A module that was imported does not take the place of the function of its name, as `simulate`."""
        if _HOME.get(name) == name and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(
            {*super().__dir__(), *__all__} - {"Any", "ModuleType", "TYPE_CHECKING", "import_module", "sys"}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (__name__,)  # cloudpickle knows modules by their type alone


sys.modules[__name__].__class__ = _Package
