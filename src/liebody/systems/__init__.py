"""Systems that are more than equations of motion: memory, events, contact, controllers. The modules:

hybrid  a hybrid system: vector field, guards, update of its memory, ledger of works, outputs; its simulation
"""

from .hybrid import EventLog, HybridRun, HybridSystem

__all__ = ["EventLog", "HybridRun", "HybridSystem"]
