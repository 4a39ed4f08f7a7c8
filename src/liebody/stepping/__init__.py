"""Steps of methods, as a compiler sees them, and the march that carries them through time. The modules:

flow        explicit steps, compiled: `Flow`
implicit    implicit steps with Newton's method, compiled: `ImplicitFlow`
hybrid      explicit steps of hybrid systems, with memory and events: `HybridFlow`
loop        the call of compiled steps
march       the march through time in Python: error control, events, samples, records
samples     efforts and parameters as functions of time
singular    how near constraints come to dependence on each other
recurrence  linear recurrences through the steps of a run
banded      the order of unknowns for banded factors
riccati     passes of shooting: forward steps and Riccati recursions
print_explicit, print_implicit, print_march   the printers of steps and of the march
"""

from .flow import Flow, together
from .implicit import ImplicitFlow, Phase
from .samples import Samples

__all__ = ["Flow", "ImplicitFlow", "Phase", "Samples", "together"]
