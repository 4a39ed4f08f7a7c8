"""The calls that make closed forms. SymPy is imported by the first of them: pip install sympy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ..base.arguments import checked, short
from ..base.errors import ArgumentError, require
from ..bodies import Tree
from ..robot import Robot

if TYPE_CHECKING:
    from .block_equations import BlockEquations
    from .closed_forms import Equations


@overload
def equations(
    robot: Robot | Tree | str,
    form: str = "christoffel",
    simplify: bool = True,
    *,
    blocks: Literal[False] = False,
    symbols: bool | Iterable[str] = False,
    gravity: Sequence[Any] | None = None,
    q: Sequence[Any] | None = None,
    v: Sequence[Any] | None = None,
    a: Sequence[Any] | None = None,
    floating: bool = False,
) -> Equations: ...


@overload
def equations(
    robot: Robot | Tree | str,
    form: str = "christoffel",
    simplify: bool = True,
    *,
    blocks: Literal[True],
    symbols: bool | Iterable[str] = False,
    gravity: Sequence[Any] | None = None,
    q: Sequence[Any] | None = None,
    v: Sequence[Any] | None = None,
    a: Sequence[Any] | None = None,
    floating: bool = False,
) -> BlockEquations: ...


@partial(checked, but=("robot", "gravity", "q", "v", "a"))
def equations(
    robot: Robot | Tree | str,
    form: str = "christoffel",
    simplify: bool = True,
    *,
    blocks: bool = False,
    symbols: bool | Iterable[str] = False,
    gravity: Sequence[Any] | None = None,
    q: Sequence[Any] | None = None,
    v: Sequence[Any] | None = None,
    a: Sequence[Any] | None = None,
    floating: bool = False,
) -> Equations | BlockEquations:
    """The equations of motion M(q) dv/dt + C(q, v) v + g(q) = tau in closed form, as SymPy expressions.

    robot     a Robot, a Tree, the name of a bundled model, or a URDF file. The masses, centres of mass,
              inertias, armatures and placements of a tree may be SymPy symbols and expressions
              The free parameters of a Robot are symbols: arm_mass, arm_center_x for "arm.mass", "arm.center"
    form      of the Coriolis matrix, a key of `dynamics.coriolis.FORMS`
    simplify  True: bring every entry to a short form. Measured, with all forms: planar arms of three links in
              symbols 1 s, PUMA 560 and UR5 10 s, a floating quadruped of 18 degrees of freedom minutes. An
              entry that is too long to be read comes as with False, and warns (LongForm)
              False: the expressions as the algorithms make them, in seconds for all of these; everything that
              is printed then has common subexpressions
    blocks    whether they are written with named matrices instead of scalars, as in I_1 + X_2^T I_2 X_2: a
              `BlockEquations`, whose text grows in proportion to the number of bodies
    symbols   whether the numbers of the robot become symbols: the parameters of a bundled model (m1, l1),
              or mass m1, centre of mass c1x, c1y, c1z, inertia about it I1xx, ..., placement p1x, ... and
              armature J1 of each body, and placement p_foot_x, ... of a frame "foot". Zeros stay zero. Names
              of some of these instead of True: only they become symbols. Their numbers are in
              `Equations.values`
    gravity   acceleration of free fall, (3,), numbers or symbols; by default the robot's, which has the size
              g (a symbol) where the robot has symbols                                        [m/s2]
    q, v, a   names or symbols for coordinates, velocities and accelerations. By default q1, v1, a1 for joints
              of one degree of freedom, with the number of the degree of freedom; the components of others
              (qw, wx, dwx), after the name of the joint where there are several of them (base_qw)
    floating  for a URDF file: whether the root moves freely

        eq = lb.equations("double_pendulum", symbols=True)
        eq.M, eq.C, eq.g                      # SymPy matrices
        eq.of("pose", frame="foot")           # closed forms of all that robots compute
        print(eq.text())                      # or latex(), python(), c(), matlab(), julia(), program()
        lb.equations(robot, blocks=True)      # M = I_1 + X_2^T I_2 X_2, ..., and its names

    Raises ModelError for an unknown form, for symbols of one name, when an entry is too large to be
    simplified, and for blocks of the form "hamel", which is not made of matrices of bodies; MissingPackage
    without SymPy.
    """
    require("closed forms", "sympy", extra="sympy")
    from .block_equations import BlockEquations
    from .from_robot import equations_of

    scalars = equations_of(robot, form, simplify, symbols, gravity, (q, v, a), floating)
    return BlockEquations(scalars) if blocks else scalars


def shortest(expression: Any) -> Any:
    """A SymPy expression in sines and cosines in its shortest form; 0 exactly where it vanishes identically.

    expression  an expression, or a matrix of them, of which every entry is shortened

    Raises MissingPackage without SymPy, ModelError for what is too large.
    """
    require("closed forms", "sympy", extra="sympy")
    import sympy

    from .short_forms import Ring

    # matrices entry by entry
    if hasattr(expression, "applyfunc"):
        return expression.applyfunc(shortest)
    entry = sympy.sympify(expression)
    if not isinstance(entry, sympy.Expr):
        raise ArgumentError(
            f"expression is {short(expression)}, expected an expression of SymPy, or a matrix of them"
        )
    return Ring().shortest(entry)
