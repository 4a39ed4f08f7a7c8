"""Simulations of robots and of mechanisms with constraints. The modules:

simulate          `simulate`, and what it shares with `sensitivities`
motion            a simulation with all its parts, its members, and the run that is recorded
setup             mechanism with forces and parameters, method, times, compiled flow
states            initial states, checked
efforts           efforts: numbers, samples, functions
recorded          the run of recorded states, their work and forces
device            simulations on CUDA devices, whose states stay there
from_states       the run of states that your own loop has computed
reports           warnings and errors after a simulation
stepper           `stepper`: one interval after the other
step_derivatives  derivatives of steps, along the group
sensitivities     `sensitivities`: tangents and adjoints through a simulation
linearize         `linearize` at a state, `lqr`
symmetries        `symmetries`: conserved momenta of a mechanism
"""

from .efforts import is_sampled
from .reports import CalledEfforts, DivergedMembers, PassedLimits, SingularPosition
from .setup import mechanism_of
from .states import states_of

# Functions for others that move a mechanism, such as optimal control; `liebody` shows those for users.
__all__ = ["CalledEfforts", "DivergedMembers", "PassedLimits", "SingularPosition"]
__all__ += ["is_sampled", "mechanism_of", "states_of"]
