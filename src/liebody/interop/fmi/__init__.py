"""FMUs of the Functional Mock-up Interface 3.0, the format in which simulators exchange models.

    lb.export_fmu("arm.fmu", lb.load("puma560"))

An FMU holds C source without dependencies, and compiled libraries of it. Model Exchange gives an importer
the derivatives, event indicators and jumps; Co-Simulation takes the steps itself, on the group.
"""

from __future__ import annotations

import os
import re
import sys
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.arguments import checked, names, short
from ...base.errors import SECONDS, CompilerError, LiebodyError, ModelError, known, pass_on_signals, positive
from ...base.texts import path_of
from ...compiler import Function, Kernel, Program
from ...compiler.native import cross_compiler, find_compiler, library_file
from ...hybrid import HybridSystem
from ...integrators import Method, method_named
from ...mechanisms import Force, Forces, Mechanism, forces_of
from ...robot import Robot
from ...scalars import Array
from ...simulation import mechanism_of
from .description import build_description, model_description
from .model import Model, of_function, of_hybrid, of_mechanism
from .source import source_of

Commands = Mapping[str, Sequence[str]]  # {platform: compiler command with its options}
KINDS = ("me", "cs")
OPTIONS = "-std=c99 -fPIC -fvisibility=hidden -ffp-contract=off".split()
LONG = 1_000_000  # characters of source from which on -O1 compiles in half the time, to code as fast
SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of names by RFC 4122
"""Tokens of FMUs are names in this space: the same model has the same token."""
DATE = (1980, 1, 1, 0, 0, 0)  # of files in the archive, so that the same model has the same bytes
SUFFIXES = {"windows": ".dll", "darwin": ".dylib"}
TARGETS = {
    "x86_64-linux": "x86_64-linux-gnu.2.17",
    "aarch64-linux": "aarch64-linux-gnu.2.17",
    "x86_64-windows": "x86_64-windows-gnu",
    "x86_64-darwin": "x86_64-macos",
    "aarch64-darwin": "aarch64-macos",
}
"""Platforms as FMI calls them, and as the cross-compiler does. On Linux, glibc 2.17 or later is needed."""


@checked
def export_fmu(
    file: str | os.PathLike[str],
    model: Robot | Mechanism | HybridSystem | Function | Program | Kernel,
    *,
    kinds: str | Collection[str] = KINDS,
    q0: Array = None,
    v0: Array = None,
    dt: float | None = None,
    method: str | Method = "rkmk4",
    inputs: str | Iterable[str] = (),
    parameters: Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    outputs: Callable[..., Mapping[str, Any]] | None = None,
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
    stabilization: Any = None,
    t_end: float = 10.0,
    binaries: str | Collection[str] | Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write an FMU of FMI 3.0: of a robot, a system with constraints, a hybrid system, or a controller.

        lb.export_fmu("arm.fmu", robot, outputs=lambda t, q, v, u: {"tool": robot.pose(q, "tool")})

    Variables are named q.<joint>, v.<joint>, tau.<joint>; arrays have entries K[1], K[2]. Quaternions stay
    unit: Co-Simulation steps on the group, in Model Exchange states are put back after completed steps, onto
    constraints as well, if they have drifted by more than 1e-9.

    model          a robot, a mechanism, a hybrid system; or a traced function, which has no states: its
                   arguments are inputs, with `parameters` as their values at the start, its results outputs
    kinds          "me" (Model Exchange), "cs" (Co-Simulation), or both
    q0, v0         the start, as in `lb.simulate`; importers may change it
    dt             the step of Co-Simulation, a parameter `communication.step` of the FMU; None: 1 ms, and
                   under error control for methods with an error estimate, such as "rkmk45"             [s]
    method         the explicit method of Co-Simulation
    inputs         parameters of a hybrid system that the importer sets over time. Inputs of robots and
                   mechanisms are their efforts
    parameters     values of parameters; all are tunable, and need no new compilation
    memory         values of a hybrid system's memory at the start
    outputs        (t, q, v, u) -> {name: signal} of a mechanism, (t, q, v, u, p) with free parameters; hybrid
                   systems have their own outputs
    forces, joints, stabilization   of robots and mechanisms, as in `lb.simulate`
    t_end          end of the experiment that the FMU proposes                                          [s]
    binaries       platforms of the compiled libraries, by FMI's names: "x86_64-linux", "aarch64-linux",
                   "x86_64-windows", "x86_64-darwin", "aarch64-darwin". This platform's is made by the C
                   compiler that liebody uses, others by the cross-compiler of `pip install ziglang`; each for
                   any processor of its kind. Default: this platform. (): source only. Or {platform: compiler
                   command with its options}, as {"x86_64-windows": ["x86_64-w64-mingw32-gcc"]}

    Returns the path. Raises ModelError for systems without a vector field (time stepping) and for unknown
    names, CompilerError if a library cannot be compiled, as without a cross-compiler, LiebodyError if the
    file cannot be written.
    """
    path = path_of("the file", file)
    kinds = names(kinds)
    if not kinds or set(kinds) - set(KINDS):
        raise ModelError(f'kinds is {kinds!r}, expected "me" (Model Exchange), "cs" (Co-Simulation), or both')
    t_end = positive("t_end", t_end, SECONDS)
    step = 1e-3 if dt is None else positive("dt", dt, SECONDS)
    explicit = method_named(method)
    described = _model(
        model, explicit, step, dt is None, names(inputs), parameters or {}, memory or {}, (q0, v0), outputs,
        forces_of(forces), joints, stabilization,
    )  # fmt: skip
    identifier = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    identifier = identifier if re.match(r"[A-Za-z_]", identifier) else f"_{identifier}"
    text = source_of(described, "")
    token = str(
        uuid.uuid5(SPACE, text + model_description(described, identifier, "", kinds, t_end, step).decode())
    )
    text = source_of(described, token)
    source = f"{identifier}.c"
    content = {
        "modelDescription.xml": model_description(described, identifier, token, kinds, t_end, step),
        f"sources/{source}": text.encode(),
        "sources/buildDescription.xml": build_description(identifier, source),
        **_libraries(identifier, text, _commands(binaries)),
    }
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(zipfile.ZipInfo(name, DATE), data, zipfile.ZIP_DEFLATED)
    except OSError as error:
        pass_on_signals(error)
        raise LiebodyError(f"cannot write {str(path)!r}: {error}") from None
    return path


def _model(
    model: Any,
    method: Method,
    step: float,
    free_step: bool,
    inputs: Sequence[str],
    parameters: Mapping[str, Any],
    memory: Mapping[str, Any],
    start: tuple[Any, Any],
    outputs: Any,
    forces: tuple[Force, ...],
    joints: Any,
    stabilization: Any,
) -> Model:
    """The model of what is exported; raises ModelError for arguments that belong to another kind."""
    if isinstance(model, HybridSystem):
        foreign = {
            "outputs": outputs,
            "forces": forces or None,
            "joints": joints,
            "stabilization": stabilization,
        }
        given = [name for name, x in foreign.items() if x is not None]
        if given:
            raise ModelError(
                f"{given[0]} belongs to robots and mechanisms; {model.name} is a hybrid system, which has "
                "what it was built with"
            )
        return of_hybrid(model, method, step, inputs, parameters, memory, start)
    if isinstance(model, (Function, Program, Kernel)):
        return of_function(model.function if isinstance(model, Kernel) else model, step, parameters)
    if inputs or memory:
        raise ModelError(
            "inputs and memory belong to hybrid systems; the inputs of a mechanism are its efforts"
        )
    robot = model.freed(parameters) if isinstance(model, Robot) and parameters else model
    mechanism = mechanism_of(robot, forces, joints, step)
    return of_mechanism(
        mechanism,
        method,
        step,
        free_step and bool(method.error_weights),
        stabilization,
        parameters,
        start,
        outputs,
    )


def _commands(binaries: str | Collection[str] | Mapping[str, Sequence[str]] | None) -> Commands:
    """The platforms of the compiled libraries, and the command of the compiler for each."""
    if isinstance(binaries, Mapping):
        return binaries
    here = _of_this_platform()
    if binaries is None:
        return here
    return {platform: here.get(platform) or _cross(platform) for platform in names(binaries)}


def _of_this_platform() -> Commands:
    """This platform, and the command of the compiler that liebody uses; empty without a compiler."""
    compiler = find_compiler()
    system = {"linux": "linux", "win32": "windows", "darwin": "darwin"}.get(sys.platform)
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)
    return {f"{machine}-{system}": list(compiler.command)} if compiler and system else {}


def _cross(platform: str) -> Sequence[str]:
    """The command of the cross-compiler; raises ModelError, and CompilerError if there is none."""
    if platform not in TARGETS:
        raise ModelError(f"binaries: there is no platform {short(platform)}; {known(TARGETS, platform)}")
    try:
        return cross_compiler(TARGETS[platform])
    except CompilerError as error:
        raise CompilerError(
            f"binaries: {platform}: {error}, or give the command of one, {{{platform!r}: [command, options]}}"
        ) from None


def _libraries(identifier: str, source: str, commands: Commands) -> dict[str, bytes]:
    """The compiled libraries, by their places in the archive."""
    libraries = {}
    level = "-O1" if len(source) > LONG else "-O2"
    for platform, command in commands.items():
        if not command:
            raise ModelError(f"binaries: the command for {platform} is empty, expected a C compiler")
        suffix = SUFFIXES.get(platform.partition("-")[2], ".so")
        # Zig's symbols for debuggers have the name of the folder, another one each time: -s leaves them out.
        options = [level, *OPTIONS, *(["-s"] if "ziglang" in command else [])]
        try:
            library = library_file(
                source, [*command, *options], f"model{suffix}", f"the library for {platform}"
            )
        except CompilerError as error:
            raise CompilerError(f"binaries: {platform}: {error}") from None
        libraries[f"binaries/{platform}/{identifier}{suffix}"] = library
    return libraries
