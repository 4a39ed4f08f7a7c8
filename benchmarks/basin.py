"""The basin of attraction of a hopping robot: where 128 x 128 starts end, and how long that takes beside MuJoCo.

    python benchmarks/basin.py

The knee hopper of Feurstein (2021), experiment VI, starts at the apex with 128 angles of the leg and 128 forward
speeds, and hops for 20 s. It falls, or it finds one of two gaits.
"""

from __future__ import annotations
