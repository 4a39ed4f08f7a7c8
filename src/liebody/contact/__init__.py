"""Contact of robots with the ground and with each other: viscoelastic, rigid, and by impulses. The modules:

points         viscoelastic contact of points with the ground
feet           feet that stand on rigid ground, one at a time
grounds        planes, boxes and height fields
spheres        spheres and capsules against each other
time_stepping  robots with contacts by impulses over steps of one length
flight         steps of joints that turn and translate
impulses       the impulses of a step: contacts, stops and dry friction of joints, closed loops
impacts        impacts with restitution, before a step
rows           rows of impulses in the factors of the mass matrix
cones          the laws of impulses, and their solution
"""

from .feet import PointFeet
from .grounds import Boxes, Ground, HeightField
from .points import Contact
from .spheres import SphereContact, closest
from .time_stepping import TimeStepping, UnsolvedSteps

__all__ = [
    "Boxes",
    "Contact",
    "Ground",
    "HeightField",
    "PointFeet",
    "SphereContact",
    "TimeStepping",
    "UnsolvedSteps",
    "closest",
]
