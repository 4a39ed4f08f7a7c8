"""Steps of methods, compiled, and the march that carries them through time.

The modules, from the ground up; each imports modules above it in this list only:

samples         efforts and parameters as functions of time
clock           the times of a motion: lengths of steps, rows of the record
banded          the order of unknowns for banded factors
records         the data that steps are made of: coefficients, functions, equations of a step, guards
singular        steps near positions where constraints depend on each other
print_march     C source of the march, for all methods
print_descent   C source of iterations of differential dynamic programming
print_explicit  C source of explicit steps
print_implicit  C source of implicit steps
march           the march in Python: error control, events, samples, records; the reference for the C code
newton          Newton's method in Python, the reference for the C code
loop            compiled loops over steps, and their calls
device          the loops on CUDA devices: samples there, launches
flow            explicit steps: `Flow`
implicit        implicit steps, with Newton's method: `ImplicitFlow`
hybrid          explicit steps of hybrid systems, with memory and events: `HybridFlow`
hold            intervals of hybrid systems on CUDA devices
drive           the driver of all motions: members along the rows of their record
recurrence      linear recurrences, as a flow
riccati         forward and backward passes of differential dynamic programming
print_plan      C99 source of a controller that plans again at each call
descent         its iterations: models, passes, search along the step; multipliers of constraints
"""

from .clock import Clock
from .descent import Descent, MultiplierUpdate
from .drive import Drive
from .flow import Flow, together
from .implicit import ImplicitFlow
from .print_descent import Ended
from .print_explicit import error_in_c, stages_in_c
from .print_plan import (
    STATUSES,
    PlanConstraints,
    PlanFunctions,
    PlanShape,
    linearisations,
    plan_c99,
    plan_memory,
)
from .records import Coefficients, Phase
from .riccati import ShootingFunctions, ShootingPasses, ShootingSizes, ShootingWorkspace
from .samples import Samples

__all__ = ["Clock", "Coefficients", "Drive", "Flow", "ImplicitFlow", "Phase", "Samples", "together"]
__all__ += ["error_in_c", "stages_in_c"]
__all__ += ["Descent", "Ended", "MultiplierUpdate"]
__all__ += ["ShootingFunctions", "ShootingPasses", "ShootingSizes", "ShootingWorkspace"]
__all__ += [
    "STATUSES",
    "PlanConstraints",
    "PlanFunctions",
    "PlanShape",
    "linearisations",
    "plan_c99",
    "plan_memory",
]
