"""A tree whose state is (q, p), configuration and momenta, as `simulate` takes it: Hamilton's equations."""

from __future__ import annotations

from typing import Any

from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..bodies.labels import Labels, labels
from ..dynamics import hamiltonian_dynamics, inverse_legendre_transform
from ..scalars import Array
from .contract import OpenTree


class HamiltonianForm(OpenTree):
    """A tree whose state is (q, p): `simulate` takes p0 in place of v0, and the run's `v` are momenta.

        form = HamiltonianForm(robot.tree, robot.gravity_vector)
        run = lb.simulate(form, q0, robot.legendre_transform(q0, v0), t_end=1.0, dt=1e-3)

    Arguments as of `OpenTree`. Forces take velocities, v = M^-1 p; efforts given as a function are
    tau(t, q, p). For explicit methods.
    """

    @cached_property
    def labels(self) -> tuple[Labels, Labels]:
        q, v = labels(self.tree)
        units = {"rad/s": "kg m2/s", "m/s": "kg m/s"}
        return q, Labels(v.names, tuple(units.get(unit, unit) for unit in v.units))

    def velocity(self, q: Array, v: Array) -> Array:
        """M^-1 p, of the momenta p that stand in the place of velocities."""
        return inverse_legendre_transform(self.tree, q, v)

    def rates(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        efforts = self.efforts(t, q, self.velocity(q, v), u)
        return tuple(hamiltonian_dynamics(self.tree, q, v, efforts, tuple(self.gravity)))

    def mechanics(self) -> dict[str, Any]:
        raise ModelError(
            f"{self.name} in Hamiltonian form has momenta as state, and methods for M dv/dt = Q need "
            "velocities; take an explicit method, such as 'rkmk4', or the robot itself"
        )
