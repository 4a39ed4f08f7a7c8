"""Know the robot: parameters from recorded motions, and what they are worth. The modules:

inertias    ten numbers without bounds for the inertia of a body that exists
free        free parameters as coordinates without bounds
recordings  what was measured, with its noise
problem     residuals of recordings, and their derivatives through simulations
results     `Fit`: estimates with deviations, what is not seen, what is left in the residuals
fit         the search
"""

from .fit import FailedFit, fit
from .inertias import body_of, coordinates_of
from .recordings import Recording
from .results import Channel, Fit

__all__ = ["Channel", "FailedFit", "Fit", "Recording", "body_of", "coordinates_of", "fit"]
