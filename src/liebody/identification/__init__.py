"""Know the robot: parameters from recorded motions, and what they are worth. The modules:

inertias      ten numbers without bounds for the inertia of a body that exists
free          free parameters as coordinates without bounds
recordings    what was measured, with its noise
problem       residuals of recordings, and their derivatives through simulations
results       `Estimates` with deviations, what is not seen, what is left in the residuals; `Fit`
fit           the search
linear_model  efforts as a linear function of parameters
consistency   least squares over bodies that exist: a convex problem
linear        linear identification from accelerations and efforts
combinations  base parameters, by name
payload       what a robot holds
excitation    motions that show parameters
"""

from .combinations import Combinations, base_parameters
from .excitation import Excitation, excite
from .fit import FailedFit, fit
from .inertias import body_of, coordinates_of
from .linear import Combination, LinearFit, LinearFits, linear
from .payload import Payload, payload
from .recordings import Recording
from .results import Channel, Estimates, Fit

__all__ = [
    "Channel",
    "Combination",
    "Combinations",
    "Estimates",
    "Excitation",
    "FailedFit",
    "Fit",
    "LinearFit",
    "LinearFits",
    "Payload",
    "Recording",
    "base_parameters",
    "body_of",
    "coordinates_of",
    "excite",
    "fit",
    "linear",
    "payload",
]
