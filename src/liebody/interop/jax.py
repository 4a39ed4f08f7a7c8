"""Functions of robots and kernels in JAX (the extra `jax`): compiled calls that JAX differentiates and maps.

    import liebody.interop.jax

    arm = liebody.interop.jax.RobotFunctions(robot)
    jax.grad(lambda q: arm.potential_energy(q))(q)
    jax.jit(jax.vmap(arm.forward_dynamics))(q, v, tau)

Each function is a primitive of JAX on the CPU: XLA hands its buffers to the kernel, without copies. So it is
on CUDA devices, where the kernel is queued in XLA's stream (experimental; not yet run on a device).
Derivatives are kernels that `compiler.jvp` and `compiler.vjp` make, compiled when they are first needed, and
functions of this kind again: derivatives exist to any order, forward and reverse. `vmap` makes batches.

Numbers are float64 where an argument is, which takes `jax.config.update("jax_enable_x64", True)` first, and
otherwise float32. Nothing is checked of the values: NaN gives NaN, as in all of JAX.

JAX differentiates by the coordinates q as they enter the formulas, four of them for a quaternion. Derivatives
along the group are by u of q exp(u): `jax.grad(lambda u: f(arm.integrate(q, u)))(jnp.zeros(arm.nv))`. In
joints whose coordinates are angles and lengths both are the same.
"""

from __future__ import annotations

import functools
import inspect
import math
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.arguments import checked, wrong_shape
from ..base.concurrency import cached_property, lock_of, unlock
from ..base.digests import digest
from ..base.errors import CompilerError, ShapeError, pass_on_signals, require
from ..compiler import (
    DeviceKernel,
    Foreign,
    ForeignCall,
    ForeignDeviceCall,
    Function,
    Kernel,
    Program,
    jvp,
    trace,
    vjp,
)
from ..robot import PARAMETERS, Algorithm, Robot, kernels_of
from ..scalars.linear import matvec
from ..simulation import is_sampled
from ..simulation.sensitivities import Sensitivities, sensitivities
from ..simulation.stepper import stepper
from ..stepping import Clock

require("functions of JAX", "jax", extra="jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.extend.core import Primitive  # noqa: E402
from jax.interpreters import ad, batching, mlir  # noqa: E402

Shapes = tuple[tuple[int, ...], ...]
DIGITS = 40  # of digests in the names of targets
TESTED = "0.12"  # the newest versions of JAX that the tests were run with


class Shaped:
    """A function of arrays of these shapes, which may have leading axes."""

    inputs: Shapes
    outputs: Shapes

    def lead(self, arrays: Any) -> tuple[int, ...]:
        """The leading axes of arguments: each has all of them, or none."""
        leads = [x.shape[: x.ndim - len(shape)] for x, shape in zip(arrays, self.inputs, strict=True)]
        return max(leads, key=len)


class Compiled(Shaped):
    """A function of arrays, compiled, with its derivatives, which are such functions, too.

    inputs, outputs  shapes of one state
    made             a call that makes the traced function
    recipe           a text that determines it (see `Kernel`)
    base, wrt        of a derivative: of which function, by which of its inputs; of the kind `product`
    level            how many derivatives it is away from the first
    """

    def __init__(
        self, name: str, inputs: Shapes, outputs: Shapes, made: Callable[[], Any], recipe: str
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self._made = made
        self.recipe = recipe
        self.base: Any = None
        self.wrt: tuple[int, ...] = ()
        self.product: Any = None
        self.level = 0
        self._derivatives: dict[Any, Compiled] = {}
        self.eager = jax.jit(functools.partial(PRIMITIVE.bind, f=self))

    @classmethod
    def of(cls, given: Kernel | Function | Program) -> Compiled:
        """The JAX function of a kernel, without its guard, or of a traced function."""
        kernel = given if isinstance(given, Kernel) else Kernel(given)
        shapes = tuple(kernel.inputs.values()), tuple(kernel.outputs.values())
        return cls(kernel.name, *shapes, lambda: kernel.function, kernel.recipe or uuid.uuid4().hex)

    @cached_property
    def function(self) -> Function:
        """The traced function, as straight code."""
        return self._made().unroll()

    def derivative(self, product: Any, wrt: tuple[int, ...]) -> Compiled:
        """jvp: f(*inputs, *directions), or vjp: f(*inputs, *weights), by the inputs with these numbers."""
        if (product, wrt) not in self._derivatives:

            def made() -> Function:
                # names of directions occur once in a graph
                f = self.function
                level = self.level
                inputs = {f"x{level}_{k}": x for k, x in enumerate(f.inputs.values())}
                outputs = {f"y{level}_{k}": y for k, y in enumerate(f.outputs.values())}
                derived: Function = product(Function(f.name, inputs, outputs), [f"x{level}_{k}" for k in wrt])
                return derived

            # jvp: directions of the chosen inputs join the inputs; vjp: weights of the outputs do
            chosen = tuple(self.inputs[k] for k in wrt)
            word = product.__name__
            forward = product is jvp
            inputs = self.inputs + (chosen if forward else self.outputs)
            outputs = self.outputs if forward else chosen
            new = Compiled(f"{self.name}_{word}", inputs, outputs, made, f"{self.recipe}|{word}{wrt}")
            new.base = self
            new.wrt = wrt
            new.product = product
            new.level = self.level + 1
            self._derivatives[product, wrt] = new
        return self._derivatives[product, wrt]

    def target(self, dtype: Any, rows: int) -> str:
        """The name by which XLA knows the kernel that computes so many rows on the CPU."""
        name = self._target(dtype)
        with lock_of(TARGETS, name):
            # XLA keeps a target for the life of the process: one for each function and type
            if name not in TARGETS:
                call = handler(name, self.inputs, self.outputs)
                jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(call.handle), platform="cpu")
                TARGETS[name] = self._kernel(dtype), call
            kernel, call = TARGETS[name]
            # more rows may need the loop over many lanes, which is then compiled
            call.serve(kernel, rows)
            unlock(TARGETS, name)
        return name

    def device_target(self, dtype: Any) -> str:
        """The name by which XLA knows the kernel on CUDA devices."""
        name = self._target(dtype)
        with lock_of(DEVICE_TARGETS, name):
            if name not in DEVICE_TARGETS:
                call = _foreign("xla_cuda.h").device_call(name, self.inputs, self.outputs)
                devices = _devices()
                # a program that is exported for devices elsewhere needs its text alone
                if devices:
                    call.serve(DeviceKernel(self._kernel(dtype)), dtype, devices)
                jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(call.handle), platform="CUDA")
                DEVICE_TARGETS[name] = call
            unlock(DEVICE_TARGETS, name)
        return name

    def _target(self, dtype: Any) -> str:
        return f"liebody_{self.name}_{digest(self.recipe, str(dtype), _header())[:DIGITS]}"

    def _kernel(self, dtype: Any) -> Kernel:
        return Kernel(self._made, dtype=dtype, recipe=self.recipe)


TARGETS: dict[str, tuple[Kernel, ForeignCall]] = {}  # that are registered, with the kernel of each
DEVICE_TARGETS: dict[str, ForeignDeviceCall] = {}  # those on CUDA devices


def _devices() -> list[int]:
    """The driver's numbers of the CUDA devices that JAX has in this process."""
    try:
        return [x.local_hardware_id for x in jax.local_devices(backend="cuda")]
    except RuntimeError:  # JAX has no platform of this name here
        return []


@functools.cache
def _header() -> str:
    """The text of XLA's interface for foreign functions, of the jaxlib that is installed."""
    path = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        pass_on_signals(error)
        raise CompilerError(f"{path} cannot be read: {error.strerror or error}; {_advice()}") from None


def _advice() -> str:
    return (
        f"the headers of XLA in {jax.ffi.include_dir()} (jax {jax.__version__}) are not as liebody knows "
        f'them; jax {TESTED} works: pip install "jax=={TESTED}.*"'
    )


def handler(name: str, inputs: Shapes, outputs: Shapes) -> ForeignCall:
    """The C function of xla.h that XLA calls with arrays of these shapes, one for each name."""
    return _foreign("xla.h").call(name, inputs, outputs)


def _foreign(header: str) -> Foreign:
    """The C function that XLA calls, by the texts of xla_frame.h and of another header of this folder."""
    here = Path(__file__)
    texts = [here.with_name(x).read_text(encoding="utf-8") for x in ("xla_frame.h", header)]
    return Foreign("functions of JAX", "\n".join(texts), [jax.ffi.include_dir()], _advice())


# -- the primitive, and its rules for JAX -------------------------------------------------------------------

PRIMITIVE = Primitive("liebody")
PRIMITIVE.multiple_results = True


@PRIMITIVE.def_impl
def _eager(*arrays: Any, f: Compiled) -> Any:
    with jax.disable_jit(False):  # there is no other way to run it
        return f.eager(*arrays)


def _shapes(*arrays: Any, f: Shaped) -> Any:
    return [jax.core.ShapedArray((*f.lead(arrays), *shape), arrays[0].dtype) for shape in f.outputs]


def _lower(context: Any, *arrays: Any, f: Compiled) -> Any:
    avals = context.avals_in
    name = f.target(np.dtype(avals[0].dtype), math.prod(f.lead(avals)))
    return jax.ffi.ffi_lowering(name)(context, *arrays)


def _lower_on_device(context: Any, *arrays: Any, f: Compiled) -> Any:
    name = f.device_target(np.dtype(context.avals_in[0].dtype))
    return jax.ffi.ffi_lowering(name)(context, *arrays)


def _push(arrays: Any, tangents: Any, *, f: Compiled) -> Any:
    # only inputs that have tangents take part
    active = tuple(k for k, x in enumerate(tangents) if type(x) is not ad.Zero)
    along = PRIMITIVE.bind(*arrays, *(tangents[k] for k in active), f=f.derivative(jvp, active))
    return PRIMITIVE.bind(*arrays, f=f), along


def _pull(weights: Any, *arrays: Any, f: Compiled) -> Any:
    """The transpose of a derivative in its directions, or in its weights."""
    # a derivative is linear in its last inputs; the transpose of a jvp is a vjp, and the other way round
    first = len(f.base.inputs)
    wanted = [k for k, x in enumerate(arrays) if ad.is_undefined_primal(x)]
    places = [k - first for k in wanted]
    operands = *arrays[:first], *map(ad.instantiate_zeros, weights)
    if f.product is jvp:
        cotangents = PRIMITIVE.bind(*operands, f=f.base.derivative(vjp, tuple(f.wrt[k] for k in places)))
    else:
        every = PRIMITIVE.bind(*operands, f=f.base.derivative(jvp, f.wrt))
        cotangents = [every[k] for k in places]
    results: list[Any] = [None] * len(arrays)
    for k, x in zip(wanted, cotangents, strict=True):  # one row that the whole batch shares has the sum
        results[k] = x.sum(axis=tuple(range(x.ndim - arrays[k].aval.ndim)))
    return results


def _map(arrays: Any, axes: Any, *, f: Shaped, primitive: Primitive = PRIMITIVE) -> Any:
    # the mapped axis first; arrays that are not mapped stay one row where they are one
    front = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)]
    n = next(x.shape[0] for x, axis in zip(front, axes, strict=True) if axis is not None)
    layouts = zip(front, axes, f.inputs, strict=True)
    inner = max((x.shape[axis is not None : x.ndim - len(shape)] for x, axis, shape in layouts), key=len)
    results = []
    for x, axis, shape in zip(front, axes, f.inputs, strict=True):
        lead = x.shape[axis is not None : x.ndim - len(shape)]
        if axis is not None and lead != inner:
            x = x.reshape(n, *(1 for _ in inner), *shape)
        if axis is not None or lead:  # one row stays one row
            x = jnp.broadcast_to(x, (n, *inner, *shape))
        results.append(x)
    outputs = primitive.bind(*results, f=f)
    return outputs, [0] * len(outputs)


# XLA on the CPU and on CUDA devices, forward and reverse derivatives, vmap
PRIMITIVE.def_abstract_eval(_shapes)
mlir.register_lowering(PRIMITIVE, _lower, platform="cpu")
mlir.register_lowering(PRIMITIVE, _lower_on_device, platform="cuda")
ad.primitive_jvps[PRIMITIVE] = _push
ad.primitive_transposes[PRIMITIVE] = _pull
batching.primitive_batchers[PRIMITIVE] = _map


# -- functions on NumPy arrays: simulations -----------------------------------------------------------------


class Called(Shaped):
    """A Python function of arrays, with its tangents and adjoints, which JAX calls back.

    call      (*arrays) -> arrays, with leading axes that all of them have
    tangents  (*arrays, *directions) -> tangents of the results, linear in the directions
    adjoints  of a linear function: (*arrays, *weights of its results) -> adjoints of the directions
    """

    def __init__(self, inputs: Shapes, outputs: Shapes, call: Callable[..., Any]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.call = call
        self.tangents: Called | None = None
        self.adjoints: Called | None = None

    def __call__(self, *arrays: Any) -> Any:
        """The results in the type of the arrays, of arrays each of which has all leading axes or none."""
        lead = self.lead(arrays)
        whole = [
            np.broadcast_to(np.asarray(x, float), (*lead, *s))
            for x, s in zip(arrays, self.inputs, strict=True)
        ]
        return [np.asarray(y, arrays[0].dtype) for y in self.call(*whole)]


CALLED = Primitive("liebody_called")
CALLED.multiple_results = True
CALLED.def_abstract_eval(_shapes)


@CALLED.def_impl
def _run(*arrays: Any, f: Called) -> Any:
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in _shapes(*arrays, f=f)]
    return jax.pure_callback(f, shapes, *arrays)


def _along(arrays: Any, tangents: Any, *, f: Called) -> Any:
    if f.tangents is None:
        raise NotImplementedError(
            "liebody.interop.jax.simulate has first derivatives only; StepFunction(...).simulate has those "
            "of any order, such as jax.hessian needs, by explicit methods"
        )
    operands = *arrays, *map(ad.instantiate_zeros, tangents)
    return CALLED.bind(*arrays, f=f), CALLED.bind(*operands, f=f.tangents)


def _back(weights: Any, *arrays: Any, f: Called) -> Any:
    assert f.adjoints
    fixed = len(f.inputs) - len(f.adjoints.outputs)
    cotangents = CALLED.bind(*arrays[:fixed], *map(ad.instantiate_zeros, weights), f=f.adjoints)
    summed = [
        x.sum(axis=tuple(range(x.ndim - a.aval.ndim))) if ad.is_undefined_primal(a) else None
        for x, a in zip(cotangents, arrays[fixed:], strict=True)
    ]
    return [None] * fixed + summed


mlir.register_lowering(CALLED, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[CALLED] = _along
ad.primitive_transposes[CALLED] = _back
batching.primitive_batchers[CALLED] = functools.partial(_map, primitive=CALLED)


# -- for users ----------------------------------------------------------------------------------------------


def function(kernel: Kernel | Function | Program) -> Callable[..., Any]:
    """A kernel, or a traced function, as a function of JAX arrays.

        law = lb.compiler.trace(lambda q, v, K: robot.gravity(q) - K * v, {"q": 6, "v": 6, "K": 6}, "law")
        jax.jit(jax.grad(lambda K: liebody.interop.jax.function(law)(q, v, K).sum()))(K)

    Arguments are single states or batches, with leading axes that broadcast; there is one result, or a tuple
    of them. Raises ShapeError for other shapes, CompilerError without a compiler of C.
    """
    f = Compiled.of(kernel)
    names = [*kernel.inputs]

    def call(*arrays: Any) -> Any:
        outputs = _bound(f, names, arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    call.__name__ = call.__qualname__ = f.name
    return call


def _bound(f: Compiled, names: list[str], arrays: Any) -> Any:
    return PRIMITIVE.bind(*_joined(f.name, names, arrays, f.inputs), f=f)


def _joined(called: str, names: list[str], arrays: Any, shapes: Shapes) -> list[Any]:
    """Arrays that are checked: of one type, each with all leading axes or none."""
    if len(arrays) != len(names):
        raise ShapeError(f"{called} takes {len(names)} arrays ({', '.join(names)}), got {len(arrays)}")
    converted = [jnp.asarray(x) for x in arrays]
    # one type for all: float64 where an argument is, else float32
    dtype = jnp.promote_types(jnp.result_type(float, *converted), jnp.float32)
    if dtype not in (jnp.float32, jnp.float64):
        raise ShapeError(f"{called}: the arrays are of {dtype}; kernels compute in float32 or float64")
    leads = []
    for name, x, shape in zip(names, converted, shapes, strict=True):
        if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape:
            raise wrong_shape(f"{called}: {name}", x.shape, f"{shape} or a batch of such")
        leads.append(x.shape[: x.ndim - len(shape)])
    try:
        lead = jnp.broadcast_shapes(*leads)
    except ValueError:
        raise ShapeError(
            f"{called}: the leading axes do not broadcast: {dict(zip(names, leads, strict=True))}"
        ) from None
    return [
        jnp.broadcast_to(x, (*lead, *shape)).astype(dtype) if x_lead else x.astype(dtype)
        for x, x_lead, shape in zip(converted, leads, shapes, strict=True)
    ]


class RobotFunctions:
    """The functions of a robot for JAX: with the arguments and options of `liebody.Robot`.

        arm = liebody.interop.jax.RobotFunctions(robot)
        tau = arm.inverse_dynamics(q, v, a)
        by_mass = jax.grad(lambda m: arm.kinetic_energy(q, v, parameters={"link2.mass": m}))(17.4)

    `parameters` are {name: values}, or one array (..., np) of a robot with free ones; their values are not
    checked. Methods have no `out` and no `threads`. `arm.model` is the robot.
    """

    @checked
    def __init__(self, robot: Robot) -> None:
        self.model = robot
        self.nq = robot.nq
        self.nv = robot.nv
        self._functions: dict[Any, tuple[Compiled, list[str]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is made of the robot again; compiled code is not copied."""
        return type(self), (self.model,)

    def __repr__(self) -> str:
        return f"JAX functions of {self.model!r}"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *kernels_of(type(self.model))]

    def neutral(self) -> Any:
        """The configuration of all joints at their identity, (nq,)."""
        return jnp.asarray(self.model.neutral())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        algorithm = None if name.startswith("_") else kernels_of(type(self.model)).get(name, (None,))[0]
        if algorithm is None or algorithm.name != name:
            raise AttributeError(
                f"{self!r} have no {name!r}; there are {', '.join(kernels_of(type(self.model)))}"
            )
        method = self._method(algorithm)
        setattr(self, name, method)
        return method

    def _method(self, algorithm: Algorithm) -> Callable[..., Any]:
        keyword = inspect.Parameter(PARAMETERS, inspect.Parameter.KEYWORD_ONLY, default=None)
        signature = inspect.Signature([*algorithm.parameters.values(), keyword])

        def method(*arguments: Any, **options: Any) -> Any:
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            said = bound.arguments
            robot = self.model.freed(said[PARAMETERS])
            optional = tuple(k for k in algorithm.optional if said[k] is not None)
            values = algorithm.values({k: said[k] for k in algorithm.options})
            key = algorithm, optional, values, tuple(robot.layout.defaults)
            if key not in self._functions:
                kernel = algorithm.kernel(robot, optional, values)
                self._functions[key] = Compiled.of(kernel), [*kernel.inputs]
            # free parameters are the last input of a kernel
            last = [_packed(robot, said[PARAMETERS])] if robot.layout.size else []
            outputs = _bound(*self._functions[key], [*(said[k] for k in algorithm.arrays + optional), *last])
            if algorithm.tuple_of:
                return algorithm.tuple_of(*outputs)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        method.__name__ = algorithm.name
        method.__doc__ = algorithm.text
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method


def _packed(robot: Robot, parameters: Any) -> Any:
    """Values of free parameters as one array (..., np) of JAX."""
    if parameters is None:
        return robot.values
    if not isinstance(parameters, Mapping):
        return parameters
    robot.layout.check(parameters)
    parts = []
    defaults = robot.layout.defaults
    for name, default in defaults.items():
        x = jnp.asarray(parameters.get(name, default))
        parts.append(x.reshape(*x.shape[: x.ndim - default.ndim], default.size))
    lead = jnp.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return jnp.concatenate([jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in parts], axis=-1)


class StepFunction:
    """Steps of a simulation as a function of JAX, which differentiates through them.

        step = liebody.interop.jax.StepFunction(robot, dt=1e-2)
        q, v = step(q, v, tau)
        q, v = step.simulate(q0, v0, tau, steps=100)        # (101, ..., nq), (101, ..., nv)

    robot    a robot; values of its free parameters, {name: values} or (np,), are an argument
    options  options of `liebody.stepper` for explicit methods: `method`, `forces`, `joints`

    Efforts (..., nv) are held for a step. Derivatives of the discrete method are exact to round-off.
    """

    def __init__(self, robot: Robot, *, dt: float, **options: Any) -> None:
        step = stepper(robot, dt=dt, **options).function()
        self.model = robot
        self.dt = dt
        self.nv = robot.nv
        self._step = function(step)

    def __call__(self, q: Any, v: Any, tau: Any = None, t: Any = 0.0, parameters: Any = None) -> Any:
        """(q, v) after a step from the time t."""
        last = [_packed(self.model, parameters)] if self.model.layout.size else []
        return self._step(t, q, v, jnp.zeros(self.nv) if tau is None else tau, *last)

    def simulate(self, q0: Any, v0: Any, tau: Any = None, *, steps: int, parameters: Any = None) -> Any:
        """Configurations and velocities at the times 0, dt, ..., steps dt, along a first axis.

        tau  a function tau(t, q, v) of JAX, asked at each step's begin; an array (steps, ..., nv); None: zero

        Leading axes of states, efforts and parameters broadcast.
        """
        start = jnp.asarray(q0), jnp.asarray(v0)
        dtype = jnp.result_type(*start, float)
        held = None if tau is None or callable(tau) else jnp.asarray(tau)
        if held is not None and held.shape[:1] != (steps,):
            raise wrong_shape("tau", held.shape, f"({steps}, ..., {self.nv}): a row a step")

        def advance(state: Any, now: Any) -> Any:
            k, u = now
            t = k * self.dt
            q, v = state
            new = self(q, v, tau(t, q, v) if callable(tau) else u, t, parameters)
            new = tuple(x.astype(dtype) for x in new)
            return new, new

        # shapes of a step tell the leading axes of the whole motion
        row = None if held is None else jax.ShapeDtypeStruct(held.shape[1:], held.dtype)
        ends, _ = jax.eval_shape(advance, start, (0, row))  # with all leading axes
        first = tuple(jnp.broadcast_to(x, y.shape).astype(dtype) for x, y in zip(start, ends, strict=True))
        _, later = jax.lax.scan(advance, first, (jnp.arange(steps), held), length=steps)
        return tuple(jnp.concatenate([x[None], y]) for x, y in zip(first, later, strict=True))


def simulate(
    robot: Robot,
    q0: Any,
    v0: Any,
    tau: Any = None,
    *,
    t_end: float,
    dt: float,
    record_every: float | None = None,
    running: Callable[..., Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """The run of `liebody.simulate` as one call of JAX: q (..., times, nq) and v (..., times, nv).

        from liebody.interop.jax import simulate

        q, v = simulate(robot, q0, v0, (times, values), t_end=1.0, dt=1e-3, record_every=0.1)
        q, v, work = simulate(..., running=lambda t, q, v, u: u @ v)      # and the integral

    The march through time is compiled; `liebody.sensitivities` gives tangents and adjoints, exact ones of the
    discrete method, explicit or implicit. First derivatives exist, forward and reverse; second ones raise
    NotImplementedError, and `StepFunction(...).simulate` has them.

    q0, v0      initial state, (..., nq) and (..., nv); leading axes broadcast
    tau         None; constant efforts (..., nv); or a pair of fixed times and samples (..., times, nv)
    running     a cost rate, as in `sensitivities`, whose integral (..., times) is the third result
    parameters  {name: values (..., *shape)} of the robot
    options     options of `sensitivities`: `method`, `hold`, `forces`, `joints`

    Derivatives by coordinates q normalise quaternions first. Errors that `simulate` raises for states and
    efforts come as errors of XLA's callback.
    """
    # The function is long because its five inner functions share the names and shapes of the arguments.
    times, values = tau if is_sampled(tau) else (None, tau)
    names = tuple(parameters or {})
    layout = robot.freed(parameters or None).layout
    named = {name: layout.defaults[name].shape for name in names}
    arguments: dict[str, tuple[Any, tuple[int, ...]]] = {"q0": (q0, (robot.nq,)), "v0": (v0, (robot.nv,))}
    if values is not None:
        arguments["tau"] = values, (robot.nv,) if times is None else (len(times), robot.nv)
    arguments |= {name: ((parameters or {})[name], shape) for name, shape in named.items()}
    options |= {"t_end": t_end, "dt": dt, "record_every": record_every, "running": running}
    rows = len(Clock(t_end, dt, record_every).times)
    inputs = tuple(shape for _, shape in arguments.values())
    outputs = (rows, robot.nq), (rows, robot.nv), *([(rows,)] if running else [])
    keys = tuple(arguments)
    group = robot.group

    def rates(q: Any) -> Any:  # by u of q exp(u)
        return np.stack([group.coordinate_rate(q, e) for e in np.eye(robot.nv, dtype=int)], axis=-1)

    # JAX differentiates by q, the library by u: this matrix leads from one to the other
    turning = Kernel(trace(rates, {"q": robot.nq}, "rates"))

    def by_name(arrays: Any) -> dict[str, Any]:
        by_key = dict(zip(keys, arrays, strict=True))
        parameters = {name: by_key.pop(name) for name in names}
        return {**by_key, "parameters": parameters}

    def motion(*arrays: Any) -> Sensitivities:
        said = by_name(arrays)
        said["q0"] = robot.normalize(said["q0"])
        if times is not None:
            said["tau"] = np.asarray(times), said["tau"]
        return sensitivities(robot, **said, **options)

    def run(*arrays: Any) -> Any:
        derived = motion(*arrays)
        return derived.run.q, derived.run.v, *([derived.integral] if running else [])

    def push(*arrays: Any) -> Any:
        derived = motion(*arrays[: len(keys)])
        along = by_name(arrays[len(keys) :])
        # dq -> u at the start, tangents of the run by u, u -> dq at each time
        along["q0"] = matvec(np.linalg.pinv(turning(arrays[0])), along["q0"])
        D = derived.jvp(**along)
        return matvec(turning(derived.run.q), D.q), D.v, *([D.integral] if running else [])

    def pull(*arrays: Any) -> Any:
        derived = motion(*arrays[: len(keys)])
        # the same the other way round, transposed
        q, *others = arrays[len(keys) :]
        adjoint = derived.vjp(matvec(np.swapaxes(turning(derived.run.q), -1, -2), q), *others)
        by_q = matvec(np.swapaxes(np.linalg.pinv(turning(arrays[0])), -1, -2), adjoint.q0)
        return (
            by_q,
            adjoint.v0,
            *([adjoint.tau] if "tau" in keys else []),
            *(adjoint.parameters[x] for x in names),
        )

    f = Called(inputs, outputs, run)
    # tangents are linear in their directions: their transpose has tangents as transpose again
    tangents = Called(inputs * 2, outputs, push)
    f.tangents = tangents
    tangents.adjoints = Called(inputs + outputs, inputs, pull)
    tangents.adjoints.adjoints = tangents
    return tuple(CALLED.bind(*_joined("simulate", [*keys], [x for x, _ in arguments.values()], inputs), f=f))
