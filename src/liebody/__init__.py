"""Explicit, singularity-free equations of motion, compiled.

    import liebody as lb

    robot = lb.load("ur5.urdf")
    tau = robot.inverse_dynamics(q, v, a)
    run = lb.simulate(robot, q, v, t_end=1.0, dt=1e-3)

`load` reads a robot, `Robot` holds its equations of motion, `simulate` integrates them on the configuration
manifold, `solve_ivp` integrates any vector field on any Lie group. `groups`, `bodies`, `models`,
`dynamics` and `compiler` are some of the parts they are made of; docs/architecture.md is the map of all.

Each name is imported when it is first asked for: a program loads what it uses. Methods that lead to a room
above, as `run.view()`, ask for its function in the same way (`base/public.py`).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; _HOMES says the same at run time
    from . import (
        bodies,
        compiler,
        contact,
        control,
        dynamics,
        gaits,
        groups,
        hybrid,
        identification,
        integrators,
        interop,
        io,
        mechanisms,
        models,
        runs,
        scalars,
        stepping,
        symbolic,
    )
    from .base import errors
    from .base.errors import LiebodyError
    from .bodies import Joint, SpatialInertia, Tree, TreeBuilder
    from .control.inverse_kinematics import InverseKinematics, inverse_kinematics
    from .control.optimal import OptimalControl, OptimalPlan, optimal_control
    from .enclosures import Enclosure, EnclosureError, enclose
    from .hybrid import HybridSystem
    from .integrators import solve_ivp
    from .interop.fmi import export_fmu
    from .io.c_export import export_c
    from .io.cuda_export import export_cuda
    from .io.warp_export import export_warp
    from .mechanisms import RigidBody
    from .mechanisms.constrained import System, SystemBuilder
    from .models.loading import load
    from .robot import Robot, derivatives
    from .runs import Run
    from .simulation.linearize import Linearization, linearize, lqr
    from .simulation.sensitivities import Sensitivities, sensitivities
    from .simulation.simulate import SingularPosition, simulate
    from .simulation.stepper import stepper
    from .simulation.symmetries import symmetries
    from .sweep import Sample, sample
    from .sweep.sweep import sweep
    from .symbolic.equations import equations
    from .symbolic.rigid_body import boltzmann_hamel_equations, rigid_body_equations
    from .view.view import view

__version__ = "0.2.0"

__all__ = [
    "Enclosure",
    "EnclosureError",
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
    "Sensitivities",
    "SingularPosition",
    "SpatialInertia",
    "System",
    "SystemBuilder",
    "Tree",
    "TreeBuilder",
    "bodies",
    "boltzmann_hamel_equations",
    "compiler",
    "contact",
    "control",
    "derivatives",
    "dynamics",
    "enclose",
    "equations",
    "errors",
    "export_c",
    "export_cuda",
    "export_fmu",
    "export_warp",
    "gaits",
    "groups",
    "hybrid",
    "identification",
    "integrators",
    "interop",
    "inverse_kinematics",
    "io",
    "linearize",
    "load",
    "lqr",
    "mechanisms",
    "models",
    "optimal_control",
    "rigid_body_equations",
    "runs",
    "sample",
    "scalars",
    "sensitivities",
    "simulate",
    "solve_ivp",
    "stepper",
    "stepping",
    "sweep",
    "symbolic",
    "symmetries",
    "view",
]

_HOMES = {
    "base": ("errors",),
    "base.errors": ("LiebodyError",),
    "bodies": ("Joint", "SpatialInertia", "Tree", "TreeBuilder"),
    "control.inverse_kinematics": ("InverseKinematics", "inverse_kinematics"),
    "control.optimal": ("OptimalControl", "OptimalPlan", "optimal_control"),
    "enclosures": ("Enclosure", "EnclosureError", "enclose"),
    "hybrid": ("HybridSystem",),
    "integrators": ("solve_ivp",),
    "interop.fmi": ("export_fmu",),
    "io.c_export": ("export_c",),
    "io.cuda_export": ("export_cuda",),
    "io.warp_export": ("export_warp",),
    "mechanisms": ("RigidBody",),
    "mechanisms.constrained": ("System", "SystemBuilder"),
    "models.loading": ("load",),
    "robot": ("Robot", "derivatives"),
    "runs": ("Run",),
    "simulation.from_states": ("run_from_states",),  # of `Run.from_states`, likewise
    "simulation.linearize": ("Linearization", "linearize", "lqr"),
    "simulation.sensitivities": ("Sensitivities", "sensitivities"),
    "simulation.simulate": ("SingularPosition", "simulate"),
    "simulation.stepper": ("stepper",),
    "simulation.symmetries": ("symmetries",),
    "sweep": ("Sample", "sample", "sweep"),
    "symbolic.equations": ("equations",),
    "symbolic.rigid_body": ("boltzmann_hamel_equations", "rigid_body_equations"),
    "view": ("view",),
    "view.animation": ("animation",),  # of `run.animate()`, likewise
    "view.plot": ("plot_run",),  # of `run.plot()`, which asks for it here; not among the names of __all__
    "view.plot_frame": ("plot_frame",),
    "view.plot_joints": ("plot_phase",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """The module that this package is: it imports its names when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__ and name not in _HOME:
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
