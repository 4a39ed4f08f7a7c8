"""The robot that users hold: its equations of motion are compiled at first use."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import dynamics
from ..base.arguments import checked, count, floats, names
from ..base.errors import LiebodyError, ModelError, ShapeError, counted, known, pass_on_signals
from ..base.public import public
from ..base.texts import path_of
from ..bodies import Parameter, Parametric, SpatialInertia, Tree, parameters_of, symbols_of, with_values
from ..bodies.labels import labels
from ..bodies.parametric import key_of
from ..bodies.tree import OfTree
from ..compiler import Function, Kernel, Program, cuda_device, to_casadi, to_casadi_external
from ..compiler.native.build import digest
from ..compiler.native.kernel import InSingle, data_type
from ..compiler.printers.cuda import Layout
from ..compiler.programs.layout import FlatLayout, word_of
from ..groups import Free
from ..io.c_export import About, export_c, normal
from ..io.cuda_export import export_cuda
from ..io.warp_export import export_warp
from ..io.writing import mjcf_of, urdf_of
from ..scalars import Array
from ..scalars.linear import is_numeric, matvec
from . import building
from .algorithm import CONFIGURATIONS, PARAMETERS, kernels_of, shape
from .derived import ANALYTIC, PLACES, PRODUCTS, chosen, derivative_graph
from .on_device import RobotOnDevice
from .table import Algorithms

GRAVITY = dynamics.FREE_FALL
WIDE = 4 * np.pi  # limits that are farther apart do not say where a robot is [rad, m]
EXTERNAL = 500  # operations; functions with more are compiled for CasADi instead of written as expressions


class Robot(Algorithms, OfTree, Parametric):
    """A tree of bodies with its equations of motion as calls on NumPy arrays.

    tree     the mechanism. SymPy's symbols in its numbers are free parameters that have no value by default
    gravity  acceleration of free fall in the world, (3,)                                     [m/s2]

    q are flat coordinates (nq,), v left-trivialised velocities (nv,); see docs/conventions.md. Every call
    takes single states or batches, (..., nq) and (..., nv) with leading axes that broadcast, and the keywords

        parameters  values of parameters, as `with_parameters` says
        out         array to write the result into, a tuple of arrays where there are several results
        threads     number of threads that share a batch

    The first call of a function traces and compiles it (later processes find it in the cache); from then on a
    call with single states is a call of the generated library. Calls whose arrays are all of float32 compute
    in float32; values of parameters are converted. Wrong shapes raise ShapeError; NaN, infinity and
    quaternions which are not unit raise ConfigurationError.

    Where a function is traced, such as the efforts of `simulate`, symbols of single states give symbols, so
    that `K * (q_d - q) - D * v + robot.gravity(q)` is compiled with the rest.
    """

    # The class is long because it is the list of all that robots do; most methods call one function.

    @checked
    def __init__(self, tree: Tree, gravity: Array = GRAVITY) -> None:
        gravity = floats("gravity", gravity, finite=False)
        if gravity.shape != (3,) or not np.all(np.isfinite(gravity)):
            raise ShapeError(f"gravity is {gravity!r}, expected three finite numbers, such as (0, 0, -9.81)")
        self.tree = tree
        self.gravity_vector = gravity
        self.symbols = symbols_of(tree)  # by their words
        self.layout = FlatLayout("parameter", dict.fromkeys(self.symbols, np.nan), needed=self.symbols)
        self.kernels: dict[tuple[Any, ...], Kernel] = {}
        self.entries: dict[tuple[Any, ...], Any] = {}
        self.flows: dict[tuple[Any, ...], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The definition without kernels and entries, so that robots can be sent to other processes."""
        # native entries are attributes of the names of algorithms, see `Algorithm.call`
        state = {**vars(self), "kernels": {}, "entries": {}, "flows": {}, "_variants": {}}
        return {name: value for name, value in state.items() if name not in kernels_of(type(self))}

    @property
    def name(self) -> str:
        """The name in the description."""
        return self.tree.name

    def __repr__(self) -> str:
        bodies = counted(len(self.tree.bodies), "body", "bodies")
        return f"Robot {self.name!r}: {bodies}, nq = {self.nq}, nv = {self.nv}{self._base}"

    @property
    def _base(self) -> str:
        """The end of the text: a fixed or a floating base; empty for a base that drives in a plane."""
        joints = [body.joint for body in self.tree.bodies if not body.parent]
        if any(isinstance(joint.group, Free) for joint in joints):
            return ", floating base"
        return ", fixed base" if all(joint.dim <= 1 or not np.any(joint.S[3:]) for joint in joints) else ""

    # -- parameters ---------------------------------------------------------------------------------------

    def own_parameters(self) -> dict[str, Parameter]:
        return {**parameters_of(self.tree), "gravity": Parameter("gravity", self.gravity_vector, "m/s2")}

    def varied(self, values: Mapping[str, Array], first: Self | None) -> Self:
        variant = copy.copy(self)
        # entries and cached properties hold the numbers of `self`; kernels take the numbers as an input
        for name in [*kernels_of(type(self)), "parameters", "values"]:
            vars(variant).pop(name, None)
        variant.kernels = first.kernels if first else {}
        variant.entries = {}
        variant.flows = {}
        variant.tree = with_values(self.tree, values)
        variant.gravity_vector = values.get("gravity", self.gravity_vector)
        return variant

    def at(self, flat: Array = None) -> tuple[Tree, Array]:
        """Tree and gravity at values of the parameters (np,), numbers or symbols; None: at their defaults."""
        if flat is None:
            return self.tree, self.gravity_vector
        values = self.layout.named(flat)
        return with_values(self.plain.tree, values), values.get("gravity", self.plain.gravity_vector)

    def shape(self, argument: str) -> tuple[int, ...]:
        """The shape of an array that kernels take."""
        return (self.layout.size,) if argument == PARAMETERS else shape(self.tree, argument)

    def _repr_html_(self) -> str:
        """A table for notebooks: bodies, their parents, joints, limits and masses."""
        rows = [("body", "parent", "joint", "group", "limits [rad, m]", "mass [kg]")]
        names = ["world", *(body.name for body in self.tree.bodies)]
        for body in self.tree.bodies:
            joint = body.joint
            limits = "" if joint.mimic is None else f"follows {joint.mimic.joint}"
            ends = zip(joint.lower, joint.upper, strict=True)
            limits = limits or ", ".join(f"{a:.4g} to {b:.4g}" for a, b in ends if np.isfinite([a, b]).any())
            mass = f"{body.inertia.mass:.4g}"
            rows.append((body.name, names[body.parent], joint.name, repr(joint.group), limits, mass))
        cells = ("".join(f"<td>{html.escape(x)}</td>" for x in row) for row in rows)
        table = "".join(f"<tr>{row}</tr>" for row in cells).replace("td>", "th>", 2 * len(rows[0]))
        return f"<p>{html.escape(repr(self))}</p><table>{table}</table>"

    def with_joints(self, joints: str | Iterable[str]) -> Self:
        """The robot with these kinds of properties of its joints; the others are removed.

        joints  "ideal": none; "real": all of the description; or some of "armature", "damping", "friction",
                "springs", "limits", "efforts"

        Without "armature" the rotors are no part of M. The other kinds act in `simulate`. Raises ModelError
        for unknown kinds.
        """
        robot = type(self)(self.tree.with_joints(joints), self.gravity_vector)
        return robot.with_parameters(self.layout.defaults) if self.layout.size else robot

    # -- robots made of robots -----------------------------------------------------------------------------

    @checked
    def attach(
        self, other: Robot, frame: str, placement: Array | None = None, prefix: str | None = None
    ) -> Self:
        """The robot that carries another one: an arm on a moving base, a gripper on an arm.

            robot = base.attach(arm, "deck", [0, 0, 0.1]).attach(gripper, "tool0", prefix="gripper_")

        other      the robot whose world becomes a place on this one. Bodies that are fixed to its world, such
                   as the root link of a URDF, then move, and their inertia counts
        frame      a frame or body of this robot, or "world", which places both side by side
        placement  of the world of `other` in the frame: a pose (4, 4), a translation (3,), or None
        prefix     goes before all names of `other`; None: none where all names differ, else its name and "_"

        Limits, losses, followers, frames, free parameters, shapes and meshes, loops, transmissions, actuators
        and keyframes of both follow; gravity is this robot's. Bodies are numbered depth-first, so take
        coordinates by name, `configuration({"finger": 0.02})`.

        Raises ModelError for an unknown frame, names that both robots have, and an `other` that floats.
        """
        if prefix is None:
            prefix = building.prefix_of(self.tree, other.tree)

        def tree(of: Callable[[Robot], Tree]) -> Tree:
            return building.attached(of(self), of(other), frame, placement, prefix)

        return self._made(tree, [("", self), (prefix, other)])

    @checked
    def with_frame(self, name: str, parent: str, placement: Array | None = None) -> Self:
        """The robot with one more frame, at a placement in a frame or body that it has, or in the "world".

            robot.with_frame("tip", "tool0", [0, 0, 0.12]).pose(q, frame="tip")

        placement  a pose (4, 4), a translation (3,), or None

        Raises ModelError for a name that is taken, and an unknown parent.
        """
        return self._made(lambda of: building.with_frame(of(self), name, parent, placement))

    @partial(checked, but=("mass",))
    def with_payload(
        self,
        frame: str,
        mass: float | SpatialInertia,
        center: Array | None = None,
        inertia: Array | None = None,
    ) -> Self:
        """The robot that holds a rigid payload at a frame: the body there has its inertia, too.

            robot.with_payload("tool0", 1.5, center=[0, 0, 0.1])
            robot.with_payload("tool0", lb.SpatialInertia.box(1.5, [0.1, 0.1, 0.2], com=[0, 0, 0.1]))

        mass     its mass, or all of it as a SpatialInertia in the axes of the frame                      [kg]
        center   its centre of mass in the frame, (3,); None: the origin                                   [m]
        inertia  its rotational inertia about that centre, in the axes of the frame, (3, 3), or (3,) for a
                 diagonal one; None: a point mass                                                      [kg m2]

        J_body' = J_body + Ad(T^-1)^T J Ad(T^-1), with T the pose of the frame in the body.

        Raises ModelError for an unknown frame and a payload that no body can be.
        """
        payload = building.payload_of(mass, center, inertia)
        return self._made(lambda of: building.with_payload(of(self), frame, payload))

    @checked
    def locked(self, joints: Mapping[str, Any]) -> Self:
        """The reduced robot, whose named joints are fixed: {joint: its coordinate, or all of them, (nq,)}.

            robot.locked({"left_finger": 0.02, "right_finger": 0.02})

        The bodies behind become parts of the bodies that carry them, where they leave frames of their names.
        Followers of a locked joint are fixed, too. The equations of the reduced robot are the other rows of
        the equations of this one, with v = 0 and a = 0 in the locked joints. Free parameters of bodies and
        joints that are no longer there vanish.

        Raises ModelError for unknown joints, followers, and coordinates beyond the limits of a joint.
        """
        return self._made(lambda of: building.locked(of(self), joints))

    @checked
    def placed(self, placement: Array) -> Self:
        """The robot with its base at a pose (4, 4), or a translation (3,), of its former world.

        Raises ModelError for a robot that floats, whose pose is part of q.
        """
        return self._made(lambda of: building.placed(of(self), placement))

    def _made(
        self,
        tree: Callable[[Callable[[Robot], Tree]], Tree],
        parts: Sequence[tuple[str, Robot]] = (),
    ) -> Self:
        """The robot of a tree made of trees, with the free parameters of its parts.

        tree   tree(of) makes it; of(robot) gives the tree of a part
        parts  prefix of names, and robot, for each part; this robot alone if empty
        """
        robot = type(self)(tree(lambda part: part.plain.tree), self.plain.gravity_vector)
        # Inertias of bodies may have become sums, so default values are read from the tree with all of them.
        present = {
            **parameters_of(tree(lambda part: part.tree)),
            "gravity": Parameter("gravity", self.gravity_vector),
        }
        values: dict[str, Any] = {}
        for prefix, part in parts or [("", self)]:
            known = part.plain.own_parameters()
            for name, x in part.layout.defaults.items():
                new = prefix + name
                if name not in known:  # a symbol, or a parameter of the user, such as a gain
                    values.setdefault(name, x)
                elif new in present and (name != "gravity" or part is self):
                    values[new] = present[new].value
        return robot.with_parameters(values) if values else robot

    # -- the configuration group --------------------------------------------------------------------------

    def neutral(self) -> Array:
        """The configuration of all joints at their identity, (nq,)."""
        return self.group.neutral()

    @checked
    def configuration(self, values: Mapping[str, Any]) -> Array:
        """The configuration with these values of joints, the others at their identity, (..., nq).

            robot.configuration({"elbow_joint": 1.2, "base.z": 0.5})

        A coordinate is named after its joint. A joint with several has "base.qw", ..., or "base" for all of
        them. Values may be batches, with leading axes that broadcast.

        `simulate`, `stepper` and `view` take such names in place of a configuration, too.

        Raises ModelError for unknown names, ShapeError for values of another shape.
        """
        return labels(self.tree)[0].filled(values, self.neutral(), "configuration")

    @checked
    def random(
        self,
        rng: np.random.Generator | int | None = None,
        shape: int | Sequence[int] = (),
        *,
        within_limits: bool = True,
    ) -> Array:
        """Random configurations (*shape, nq), from which the robot can move.

        within_limits  True: coordinates between limits at most 4 pi [rad, m] apart are uniform there, also
                       where the limits belong to joints that follow; limits farther apart, or on one side
                       alone, are kept, too. False: as if there were no limits, also of a robot that has some

        Without limits angles lie within a turn, rotations are uniform, translations are normal with deviation
        1 m. A robot without limits draws the same configurations either way.

        Raises ModelError where no configuration keeps all limits.
        """
        rng = np.random.default_rng(rng if rng is None or not isinstance(rng, int) else count("rng", rng, 0))
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        q = self.group.random(rng, tuple(count("shape", size, 0) for size in sizes))
        return _within(q, *self.tree.coordinate_limits, rng) if within_limits else q

    # -- what combines several algorithms -----------------------------------------------------------------

    @property
    def mass(self) -> Any:
        """Total mass of the moving bodies, an expression where symbols have no values                [kg]"""
        return float(self.tree.mass) if is_numeric(self.tree.mass) else self.tree.mass

    @property
    def inertial_parameters(self) -> Array:
        """pi, (10 n,), the bodies' parameters in the order of the regressors            [kg, kg m, kg m2]"""
        return dynamics.inertial_parameters(self.tree).astype(float)

    def mass_matrix_pattern(self) -> tuple[Array, Array]:
        """Rows and columns, (m,) each, of the entries of `mass_matrix(q, layout="nonzeros")`.

        They lie in the upper triangle: scipy.sparse.coo_array((values, pattern)) is that triangle.
        """
        return dynamics.mass_matrix_pattern(self.tree)

    def base_parameters(self) -> dynamics.BaseParameters:
        """The parameters that efforts identify: columns of the regressors, and combinations K pi."""
        return dynamics.base_parameters(self.tree, tuple(self.gravity_vector))

    def energy(self, q: Array, v: Array, *, parameters: Any = None) -> Array:
        """Kinetic plus potential energy, (...)                                                       [J]"""
        kinetic = self.kinetic_energy(q, v, parameters=parameters)
        return kinetic + self.potential_energy(q, parameters=parameters)

    def internal_inverse(
        self, q: Array, task: Any, inverse: str = "moore-penrose", *, threads: int = 1
    ) -> Array:
        """A generalized inverse of `internal_jacobian`, (..., n, r), by singular values, of any rank.

        inverse  "moore-penrose", or "dynamically-consistent": of least energy. `internal_rank` tells whether
                 it is a right inverse, a left one, both or neither
        """
        if inverse not in dynamics.INVERSES:
            names = ", ".join(dynamics.INVERSES)
            raise ModelError(f"{inverse!r} is not the name of an inverse; use one of {names}")
        weight = None if inverse == "moore-penrose" else self.internal_inertia(q, threads=threads)
        return dynamics.generalized_inverse(self.internal_jacobian(q, task, threads=threads), weight)

    def internal_rank(self, q: Array, task: Any) -> dynamics.InternalRank:
        """Rank of `internal_jacobian` at one q, (nq,), the kind of its inverse, and its singular values."""
        return dynamics.rank_of(self.internal_jacobian(q, task))

    def velocity_from_external_internal(
        self,
        q: Array,
        w: Array,
        task: Any,
        x: Any = "centroidal",
        inverse: str = "moore-penrose",
        *,
        threads: int = 1,
    ) -> Array:
        """v, (..., nv), of w = (v_x, internal velocity) (..., k + r), by `internal_inverse`."""
        # v = X (v_x, v_y), and the internal velocity is J v_y: its inverse gives v_y back
        k = self.tree.bodies[0].joint.dim
        J_ = self.internal_inverse(q, task, inverse, threads=threads)
        X = self.decoupling_transform_inverse(q, x, threads=threads)
        w = np.asarray(w)
        return matvec(X[..., :k], w[..., :k]) + matvec(X[..., k:], matvec(J_, w[..., k:]))

    def external_internal_efforts(
        self,
        q: Array,
        tau: Array,
        task: Any,
        x: Any = "centroidal",
        inverse: str = "moore-penrose",
        *,
        threads: int = 1,
    ) -> Array:
        """(F_x, internal force), (..., k + r), of efforts tau, by the transpose of `internal_inverse`."""
        # forces are dual to velocities: v_y = J^+ u means that the power F_y . v_y is (J^+T F_y) . u
        k = self.tree.bodies[0].joint.dim
        J_ = self.internal_inverse(q, task, inverse, threads=threads)
        F = self.decoupled_efforts(q, tau, x, threads=threads)
        return np.concatenate([F[..., :k], matvec(np.swapaxes(J_, -1, -2), F[..., k:])], axis=-1)

    def efforts_from_external_internal(
        self, q: Array, F: Array, task: Any, x: Any = "centroidal", *, threads: int = 1
    ) -> Array:
        """tau, (..., nv), of (F_x, internal force), (..., k + r); the latter needs no wrench at the base."""
        k = self.tree.bodies[0].joint.dim
        F = np.asarray(F)
        J = self.internal_jacobian(q, task, threads=threads)
        joints = matvec(np.swapaxes(J, -1, -2), F[..., k:])
        external = np.broadcast_to(F[..., :k], (*joints.shape[:-1], k))
        return self.efforts_from_decoupled(q, np.concatenate([external, joints], axis=-1), x, threads=threads)

    # -- to look at ---------------------------------------------------------------------------------------

    def view(self, q: Any = None, **options: Any) -> Any:
        """The robot in a configuration (nq,) or given by names, or several side by side, (..., nq).

        A notebook shows it, `.show()` opens a browser, `.save("robot.html")` writes a page. Without q it is
        in its neutral configuration. It takes the options of `liebody.view`.

        returns  a `View`, as of `liebody.view`
        """
        return public("view")(self, q, **options)

    # -- kernels ------------------------------------------------------------------------------------------

    @checked
    def kernel(self, name: str, dtype: Any = None, **options: Any) -> Kernel:
        """The compiled kernel behind the call `name` with these options, such as frame="tool".

        The kernel that takes an optional array has its name behind: "inverse_dynamics_wrenches". It computes
        in `dtype`, float64 or float32; None: as calls do, in float32 where all arrays are float32.
        """
        kernels = kernels_of(type(self))
        if name not in kernels:
            raise ModelError(f"there is no function {name!r}; {known(kernels, name, len(kernels))}")
        algorithm, given = kernels[name]
        return algorithm.kernel(self, given, algorithm.values(options), dtype)

    @checked
    def derivatives(
        self,
        name: str,
        wrt: str | Sequence[str] = "q",
        product: str | None = None,
        dtype: Any = None,
        **options: Any,
    ) -> Kernel:
        """The compiled derivative of the call `name` by arrays `wrt`; by configurations along the group.

            by_q, by_v = robot.derivatives("twist", ("q", "v"), frame="tool")(q, v)    # (..., 6, nv) each
            pull = robot.derivatives("pose", product="vjp", frame="tool")    # pull(q, w), (..., nv)

        wrt      an array of the call, or several; "parameters" where some are free, such as masses or gravity
        product  None: the Jacobians (*result, *array), or (*result, nv), of each result by each of `wrt`
                 "jvp": changes of the results along directions, which are the last arguments
                 "vjp": gradients of the sum of the results times weights, which are the last arguments
                 "hessian", "hvp": second derivatives, and products, as `liebody.derivatives` says

        The kernel takes the arrays of the call, single states or batches, and `out`, `threads`. `options` are
        options of the call. Products cost a few times the call, whatever the number of columns. Inverse and
        forward dynamics are differentiated by recursions. `kernel.nonzeros()` leaves out what is always zero.
        Results that are configurations change along the group, too: to y exp(u).

        Raises ModelError for unknown names.
        """
        # the kernel of the call has the guard of its arrays, and raises for unknown names and options
        call = self.kernel(name, **options)
        algorithm, optional = kernels_of(type(self))[name]
        arrays = algorithm.arguments(self, optional)
        by = names(wrt)
        if not by or not set(by) <= set(arrays) or product not in PRODUCTS:
            raise ModelError(
                f"derivatives of {name} by {wrt!r}, product {product!r}: it has the arrays "
                f"{', '.join(arrays)}; products are {', '.join(map(repr, PRODUCTS))}"
            )
        values = dict(zip(algorithm.options, algorithm.values(options), strict=True))
        kind = dtype if dtype is None else data_type(dtype)
        key = "derivatives", name, by, product, *values.values(), kind
        if key not in self.kernels:
            single = partial(self.derivatives, name, wrt, product, np.float32, **options)
            self.kernels[key] = Kernel(
                partial(self._derived, name, by, product, options),
                np.float64 if dtype is None else dtype,
                call.guard,
                self.recipe(f"{product} of {name} by {by}", values) if algorithm.is_ours else None,
                f"The {product or 'Jacobian'} of `{name}` by {', '.join(by)}, along the group.",
                InSingle(single, (PARAMETERS,)) if dtype is None else None,
            )
        return self.kernels[key]

    def _derived(
        self, name: str, by: tuple[str, ...], product: str | None, options: Mapping[str, Any]
    ) -> Function | Program:
        """The function behind the kernel of `derivatives`: by recursions if they exist, else traced."""
        algorithm, optional = kernels_of(type(self))[name]
        analytic, arrays = ANALYTIC.get(algorithm.name, ("", ()))
        if product is None and set(by) <= set(arrays) and set(optional) <= {"wrenches"}:
            jacobians = self.kernel(analytic + name.removeprefix(algorithm.name), **options).function
            return chosen(jacobians, name, arrays, by)
        # results of some algorithms are configurations, under the name of the algorithm: they change along
        # the group, as the configurations among the arrays do
        groups = dict.fromkeys([*CONFIGURATIONS, *PLACES], self.group)
        return derivative_graph(self.kernel(name, **options).function, by, product, groups)

    @checked
    def export_c(
        self, folder: str | Path, functions: Iterable[Any] | Mapping[str, Any], *, dtype: Any = np.float64
    ) -> list[Path]:
        """Write C99 source of functions to `folder`: source, header, self-test and a file for CMake.

            law = lb.compiler.trace(lambda q, v, K: robot.gravity(q) - K * v, {"q": 6, "v": 6, "K": 6}, "law")
            robot.export_c("out", ["gravity", ("jacobian", {"frame": "tool0"}), law])

        functions  names of calls; pairs of a name and options; traced functions and kernels, such as
                   derivatives, controllers and steps. The keys of a mapping are the names in C
        dtype      float64: numbers are `double`; float32: `float`

        The test compares the functions with numbers of this library at random states; it needs nothing but
        `cc -std=c99 source test -lm`. More in `liebody.export_c`. Returns the paths.
        """
        return export_c(folder, self.name, self._exported(functions), dtype=dtype, about=self._about)

    @checked
    def export_cuda(
        self,
        folder: str | Path,
        functions: Iterable[Any] | Mapping[str, Any],
        *,
        dtype: Any = np.float64,
        layout: Layout = "rows",
    ) -> Path:
        """Write functions to `folder` as CUDA kernels, which evaluate one state in each thread.

            file = robot.export_cuda("out", ["gravity", ("jacobian", {"frame": "tool0"})], dtype="float32")

        functions  names of calls; pairs of a name and options; traced functions and kernels, such as
                   derivatives, controllers and steps. The keys of a mapping are the names of the kernels
        dtype      float64: numbers are `double`; float32: `float`
        layout     of arrays for n states on the device: "rows", (n, size), or "columns", (size, n)

        Experimental: not yet run or timed on a device. More in `liebody.export_cuda` and in docs/gpu.md.
        Returns the path of the file.
        """
        exported = self._exported(functions)
        return export_cuda(folder, self.name, exported, dtype=dtype, layout=layout, about=self._about)

    @checked
    def export_warp(
        self,
        folder: str | Path,
        functions: Iterable[Any] | Mapping[str, Any],
        *,
        dtype: Any = np.float64,
    ) -> Path:
        """Write functions to `folder` as native functions of NVIDIA Warp, which kernels of Warp call.

            file = robot.export_warp("out", ["gravity", ("jacobian", {"frame": "tool0"})], dtype="float32")

        functions  names of calls; pairs of a name and options; traced functions and kernels
        dtype      float64: arrays of wp.float64; float32: of wp.float32

        Experimental. More in `liebody.export_warp` and in docs/gpu.md. Returns the path of the module.
        """
        exported = self._exported(functions)
        return export_warp(folder, self.name, exported, dtype=dtype, about=self._about)

    @checked
    def on_device(self, device: str = "cuda", *, fused: bool = True) -> RobotOnDevice:
        """The calls of this robot on arrays that live on a CUDA device, such as arrays of CuPy and PyTorch.

            gpu = robot.on_device()
            tau = gpu.inverse_dynamics(q, v, a)         # tensors on the device in, a tensor there out

        device  "cuda"; which one, the arrays of a call say
        fused   whether products and sums may become fused multiply-adds; without them results are the same
                bits on every device

        Experimental: not yet run or timed on a device. More in `liebody.compiler.DeviceKernel` and in
        docs/gpu.md. Raises ArgumentError for other devices.
        """
        cuda_device(device)
        return RobotOnDevice(self, fused)

    def _exported(self, functions: Iterable[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The name in C and the kernel of each of `functions`."""
        calls = [functions] if isinstance(functions, str) else functions
        pairs = calls.items() if isinstance(calls, Mapping) else [(None, x) for x in calls]
        return [self._exportable(name, x) for name, x in pairs]

    def _exportable(self, name: str | None, item: Any) -> tuple[str, Any]:
        """The name in C and the kernel of one item of `functions`."""
        if isinstance(item, Kernel | Function | Program):
            return name or item.name, item
        call, options = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
        if not isinstance(call, str) or not isinstance(options, Mapping):
            raise ModelError(
                f"{self.name} cannot export {item!r}, expected the name of a call, a pair of a name and "
                "options, a traced function or a kernel"
            )
        kernel = self.kernel(call, **options)
        algorithm, _ = kernels_of(type(self))[call]
        words = [call, *(x if isinstance(x, str) else key for key, x in options.items())]
        values = zip(algorithm.options, algorithm.values(options), strict=True)
        stated = "".join(f"\n{key} = {x!r}" for key, x in values)
        doc = f"{algorithm.text_for(kernel.inputs)}{stated}"
        return name or "_".join(words), Kernel(kernel.function, doc=doc)

    @property
    def _about(self) -> About:
        """The description of this robot for a header in C: its order of q and v, bodies, frames."""
        tree = self.tree
        fall = ", ".join(f"{x:.9g}" for x in self.gravity_vector)
        lines = [f"Robot {self.name}, with free fall ({fall}) m/s2 in the world."]
        for symbol, entries in zip("qv", labels(tree), strict=True):
            rows = enumerate(zip(entries.names, entries.units, strict=True))
            lines += [f"    {symbol}[{i}]  {name} [{unit}]" for i, (name, unit) in rows]
        lines.append("Bodies, in their order: " + ", ".join(body.name for body in tree.bodies))
        bodies = ["the world", *(body.name for body in tree.bodies)]
        lines += [f"Frame {x.name} on {bodies[x.body]}" for x in tree.frames.values()]
        sizes = {"NQ": self.nq, "NV": self.nv, "BODIES": len(tree.bodies)}
        if self.layout.size:
            lines.append(f"Parameters, the last argument: {self._places()}")
        return About(lines, sizes, self._sample)

    def _places(self) -> str:
        """The place of each free parameter in the array that kernels take, as text."""
        first = 0
        words = []
        for name, x in self.layout.defaults.items():
            last = first + x.size - 1
            words.append(f"{PARAMETERS}[{first}{f'..{last}' if last > first else ''}] {word_of(name)}")
            first = last + 1
        return ", ".join(words)

    @checked
    def to_casadi(self, name: str, compiled: bool | None = None, order: int = 2, **options: Any) -> Any:
        """The call `name` as a `casadi.Function`, for programs that CasADi's solvers such as IPOPT solve.

            f = robot.to_casadi("forward_dynamics")
            a = f(q, v, tau)                            # columns (nq, 1), (nv, 1) of SX, MX, DM, or NumPy

        compiled  False: expressions (SX), which CasADi differentiates and prints; True: machine code with its
                  derivatives, for MX, DM and arrays; None: machine code from EXTERNAL operations on
        order     of the derivatives that are compiled: 2, or 1 for solvers that need no Hessian, or 0

        A vector is a column, a matrix a matrix; there are no batches (see CasADi's `map`), and nothing is
        checked of the values. Derivatives by q are by its coordinates. Free parameters are the last argument.
        Raises ModelError for unknown names, ShapeError for results of three axes.
        """
        # CasADi has no loops: expressions are a straight line, which is slow and large for large robots
        function = self.kernel(name, **options).function
        straight = function.unroll()
        large = sum(straight.operations.values()) > EXTERNAL
        is_compiled = large if compiled is None else compiled
        return to_casadi_external(straight, order) if is_compiled else to_casadi(straight)

    @checked
    def to_urdf(self, file: str | Path | None = None) -> str:
        """The text of a URDF with the dynamics of this robot, also written to `file` if that is given.

        Frames are links on fixed joints; a joint axis beside the origin of its body gets a link, too. The
        text has neither gravity nor shapes. `lb.load(text)` has the same dynamics to round-off. Raises
        ModelError for properties without words in URDF: ball and helical joints, armature, springs, symbols.
        """
        return _written(urdf_of(self.tree), file)

    @checked
    def to_mjcf(self, file: str | Path | None = None) -> str:
        """The text of an MJCF, as `to_urdf`; with gravity, and with actuators if the robot was an MJCF.

        Raises ModelError for planar and helical joints, for free joints whose parent is not the world's
        origin, for massless moving bodies that carry several others, for symbols.
        """
        return _written(mjcf_of(self.tree, self.gravity_vector), file)

    def _sample(self, argument: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """A random value of an argument of kernels, for the self-test in C."""
        if argument == PARAMETERS:  # own values; symbols have none, and most stand for positive numbers
            return np.where(np.isnan(self.values), rng.uniform(0.5, 1.5, shape), self.values)
        is_configuration = argument in CONFIGURATIONS and shape == (self.nq,)
        return self.group.random(rng) if is_configuration else normal(argument, shape, rng)

    def recipe(self, name: str, options: Mapping[str, Any]) -> str | None:
        """A text that determines the traced function `name`; None if no text does.

        Symbols have no bytes, and code of users may change between processes: neither is cached on disk.
        """
        # The values of free parameters are inputs, so they are no part of it: `plain` has the others.
        identity = _fingerprint(self.plain.tree)
        if identity is None or not all(map(_says_all, options.values())):
            return None
        gravity, layout = self.plain.gravity_vector.tobytes().hex(), repr(key_of(self.layout))
        return digest(identity, gravity, layout, name, repr(sorted(options.items())))


def _within(q: Array, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Random configurations (..., nq), with new values of the coordinates that have limits (nq,)."""
    near = high - low <= WIDE
    if near.any():
        q[..., near] = rng.uniform(low[near], high[near], (*q.shape[:-1], np.count_nonzero(near)))
    # Descriptions write 1e3 where there is no limit: a wide range is entered no farther than without limits.
    q = np.where(~near & (q < low), low + np.abs(q), q)
    return np.where(~near & (q > high), high - np.abs(q), q)


def _written(text: str, file: str | Path | None) -> str:
    """The text, after it was written to the file, if there is one. Raises LiebodyError."""
    if file is not None:
        path = path_of("the name of the file", file)
        try:
            path.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot write {str(path)!r}: {error}") from error
    return text


def _fingerprint(tree: Tree) -> str | None:
    """A digest of all numbers in the equations of motion; None with symbols or groups of users."""
    parts = []
    for body in tree.bodies:
        joint = body.joint
        inertia = body.inertia
        numbers: list[Any] = [body.placement, joint.S, inertia.mass, inertia.com, inertia.rotational]
        numbers += [body.ratio, body.offset, joint.armature, joint.damping]
        # a user's group may change its code without a trace in the numbers
        if not is_numeric(*numbers) or not type(joint.group).__module__.startswith("liebody."):
            return None
        parts += [type(joint.group).__name__, str((body.name, body.parent, body.coordinates, body.dofs))]
        parts += [np.asarray(x, float).tobytes().hex() for x in numbers]
    for frame in tree.frames.values():
        parts += [frame.name, str(frame.body), np.asarray(frame.placement, float).tobytes().hex()]
    return digest(*parts)


def _says_all(option: Any) -> bool:
    """Whether the text of an option determines it. That of a function or a frame does not."""
    if isinstance(option, tuple):
        return all(map(_says_all, option))
    return option is None or isinstance(option, (str, float, int))
