"""FMUs of the Functional Mock-up Interface 3.0, the format in which simulators exchange models.

    lb.export_fmu("arm.fmu", lb.load("puma560"))

An FMU holds C source without dependencies, and compiled libraries of it. Model Exchange gives an importer
the derivatives, event indicators and jumps; Co-Simulation takes the steps itself, on the group.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.arguments import checked, names
from ...base.errors import SECONDS, CompilerError, LiebodyError, ModelError, pass_on_signals, positive
from ...base.texts import path_of
from ...compiler import Function, Kernel, Program
from ...compiler.native import find_compiler
from ...hybrid import HybridSystem
from ...integrators import Method, method_named
from ...mechanisms import Force, Mechanism
from ...robot import Robot
from ...scalars import Array
from ...simulation import mechanism_of
from .description import build_description, model_description
from .model import Model, of_function, of_hybrid, of_mechanism
from .source import source_of

KINDS = ("me", "cs")
OPTIONS = "-std=c99 -shared -fPIC -fvisibility=hidden -ffp-contract=off".split()
LONG = 1_000_000  # characters of source from which on -O1 compiles in half the time, to code as fast
SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of names by RFC 4122
"""Tokens of FMUs are names in this space: the same model has the same token."""
DATE = (1980, 1, 1, 0, 0, 0)  # of files in the archive, so that the same model has the same bytes
SUFFIXES = {"windows": ".dll", "darwin": ".dylib"}


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
    forces: Sequence[Force] = (),
    joints: str | Iterable[str] | None = None,
    stabilization: Any = None,
    t_end: float = 10.0,
    binaries: Mapping[str, Sequence[str]] | None = None,
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
    binaries       {platform: compiler command with its options}, such as {"x86_64-windows":
                   ["x86_64-w64-mingw32-gcc"]}; default: this platform, by the C compiler that liebody
                   uses, for any processor of this kind. {}: source only

    Returns the path. Raises ModelError for systems without a vector field (time stepping) and for unknown
    names, CompilerError if a library cannot be compiled, LiebodyError if the file cannot be written.
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
        tuple(forces), joints, stabilization,
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
        **_libraries(identifier, text, _commands() if binaries is None else binaries),
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


def _commands() -> dict[str, Sequence[str]]:
    """This platform, and the command of the compiler that liebody uses; empty without a compiler."""
    compiler = find_compiler()
    system = {"linux": "linux", "win32": "windows", "darwin": "darwin"}.get(sys.platform)
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)
    return {f"{machine}-{system}": list(compiler.command)} if compiler and system else {}


def _libraries(identifier: str, source: str, binaries: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """The compiled libraries, by their places in the archive."""
    libraries = {}
    for platform, command in binaries.items():
        suffix = SUFFIXES.get(platform.partition("-")[2], ".so")
        with tempfile.TemporaryDirectory() as folder:
            unit, library = Path(folder, "model.c"), Path(folder, f"model{suffix}")
            unit.write_text(source, encoding="ascii")
            level = "-O1" if len(source) > LONG else "-O2"
            options = [*command, level, *OPTIONS, str(unit), "-o", str(library), "-lm"]
            try:
                done = subprocess.run(options, capture_output=True, text=True, check=False)
            except OSError as error:
                pass_on_signals(error)
                raise CompilerError(f"binaries: the compiler of {platform} cannot be run: {error}") from None
            if done.returncode:
                raise CompilerError(
                    f"binaries: {command[0]} does not compile for {platform}: {done.stderr[:2000]}"
                )
            libraries[f"binaries/{platform}/{identifier}{suffix}"] = library.read_bytes()
    return libraries
