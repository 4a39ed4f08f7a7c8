"""The command line: a shell around `load`, `simulate` and `export_c`, for a first look and for scripts."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
from click.shell_completion import CompletionItem

from . import models
from .base.arguments import free_base
from .base.errors import LiebodyError, counted, pass_on_signals, require
from .base.extensions import COMMANDS, PRINTERS, extension, extensions
from .bodies import JOINT_KINDS
from .bodies.labels import Labels, labels
from .compiler import Program
from .compiler.native import cache
from .interop.fmi import export_fmu
from .io import AssumedDynamics, DoubtfulInertia, UnusedElements, load_description
from .io.report import report
from .mechanisms import forces_of
from .models.loading import described, load
from .robot import Robot, kernels_of
from .runs import Run
from .runs.files import VIEWS
from .scalars import Array
from .simulation.setup import CONTROLLED, DEFAULT_STEP, FIXED, default_method, method_of
from .simulation.simulate import simulate
from .symbolic import equations
from .view import view
from .view.view import require_for

HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
UNBROKEN = "\u2011"
ARGUMENT = re.compile(r"""\b(\w+)=(\w+|'[^']*'|"[^"]*")""")  # of a call in Python
ROUNDED = 1e-3  # a quaternion typed with a few decimals is this near to unit
EXPORTED = "inverse_dynamics,forward_dynamics,mass_matrix"
DEMO_TURN = (1.9, 0, 0, 0.3, 0.8, 0)
DEMO_VELOCITY = (0, 1.5, 0.3, 0, 0, 2.0)
DEMO_TIME = 10.0
DEMO_STEP = 1e-3
DEMO_MEMBERS = 1024


class Refused(click.ClickException):
    """An error of the user: the message goes to stderr, the exit status is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"liebody: {self.format_message()}", file=file or sys.stderr)


class WholeWords(click.HelpFormatter):
    """Help whose words are not broken at their hyphens."""

    def write_text(self, text: str) -> None:
        super().write_text(HYPHEN.sub(UNBROKEN, text))

    def write_dl(self, rows: Any, *args: Any, **options: Any) -> None:
        super().write_dl([(term, HYPHEN.sub(UNBROKEN, text)) for term, text in rows], *args, **options)

    def getvalue(self) -> str:
        return super().getvalue().replace(UNBROKEN, "-")


class CommandContext(click.Context):
    formatter_class = WholeWords


class Commands(click.Group):
    """Commands whose user errors and warnings are messages, not tracebacks.

    Help keeps words whole. Packages beside this one add commands as entry points of `liebody.commands`.
    """

    context_class = CommandContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *extensions(COMMANDS)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = super().get_command(ctx, name)
        if command is None:  # importing a package that adds commands takes time: only when one is asked for
            command = _command_of_others(name)
        if command is not None:
            command.context_class = CommandContext
        return command

    def invoke(self, ctx: click.Context) -> Any:
        # errors and warnings of the library name arguments of Python; a shell has options
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except LiebodyError as error:
                command = self.get_command(ctx, ctx.invoked_subcommand or "")
                raise Refused(as_typed(str(error), command)) from error
            except BrokenPipeError:  # whoever reads has read enough: click ends without a word
                raise
            except OSError as error:
                pass_on_signals(error)
                raise Refused(f"{error.filename or 'files'}: {error.strerror or error}") from error


def _command_of_others(name: str) -> click.Command | None:
    """The command that another package adds; of a package that fails, one that says so when it is called.

    So the help of `liebody`, which describes all commands, works beside a broken package.
    """
    try:
        command = extension(COMMANDS, name)
        if command is None or isinstance(command, click.Command):
            return command
        refusal = LiebodyError(
            f"a package adds {command!r} as the command {name!r}, expected a function with @click.command()"
        )
    except LiebodyError as error:
        refusal = error

    def refuse(words: tuple[str, ...]) -> NoReturn:
        raise refusal

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    anything = {"ignore_unknown_options": True}
    return click.Command(
        name, params=[words], callback=refuse, help=f"Cannot be used: {refusal}", context_settings=anything
    )


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        context = click.get_current_context(silent=True)
        command = context.command if context else None
        click.echo(f"liebody: warning: {as_typed(str(message), command)}", err=True)


def as_typed(text: str, command: click.Command | None) -> str:
    """A message with arguments of Python as options of a command: `joints='real'` becomes `--joints real`.

    `floating=True` becomes `--floating`, and `simplify=False` becomes `--no-simplify`. An argument without
    an option of the command stays as it is.
    """
    options = {x.name: x for x in command.params if isinstance(x, click.Option)} if command else {}

    def typed(argument: re.Match[str]) -> str:
        name, value = argument[1], argument[2].strip("'\"")
        option = options.get(f"no_{name}" if value == "False" else name)
        if option is None or option.is_flag != (value in ("True", "False")):
            return argument[0]
        return option.opts[0] if option.is_flag else f"{option.opts[0]} {value}"

    return ARGUMENT.sub(typed, text)


def _examples(command: str) -> Callable[[Any], Any]:
    """Append examples, one a line, to a command's help."""

    def extend(function: Any) -> Any:
        rows = "\n".join(f"  {line}" for line in command.strip().splitlines())
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n\b\nExamples:\n{rows}\n"
        return function

    return extend


def _complete_source(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of bundled models, else files."""
    names = [CompletionItem(name) for name in models.names() if name.startswith(typed)]
    return names or [CompletionItem(typed, type="file")]


SOURCE = click.argument("source", metavar="FILE|MODEL", shell_complete=_complete_source)
FLOATING = click.option(
    "--floating", is_flag=True, help="Let the root link move freely instead of fixing it."
)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


@click.group(cls=Commands, context_settings=SETTINGS)
@click.version_option(package_name="liebody", message="liebody %(version)s")
def main() -> None:
    """Equations of motion of robots: explicit, free of singularities, compiled.

    FILE|MODEL in a command is a URDF or MJCF file, the name of a bundled model, or with the packages of the
    extra "descriptions" the name of a robot, such as ur5 or talos. The first use of a robot compiles its
    equations with the machine's C compiler; later ones find them in the cache (its folder: $LIEBODY_CACHE, or
    your user cache).

    \b
    Start here:
      liebody demo                        simulate a pendulum: a summary, a picture, a page that moves
      liebody info robot.urdf             what is in a robot description, and is it sound?
      liebody view robot.urdf             look at it, in the browser
      liebody simulate robot.urdf --t-end 2 --plot run.png
      liebody export robot.urdf --to c --out out/
    """


@main.command()
@_examples("""
liebody demo
liebody demo --out pictures/
""")
@click.option(
    "--out",
    type=FOLDER,
    default="liebody-demo",
    help="Folder for the picture and the data; made if it is not there.",
)
def demo(out: Path) -> None:
    """Simulate a spherical double pendulum, draw it and show it.

    Two balls on ball joints, swung up and let go: chaotic motion through every orientation, which no set of
    three angles survives. The energy should stay, and the quaternions should stay unit. Then a thousand
    neighbours of it at once, as lanes of one loop.
    """
    require("pictures", "matplotlib", extra="plot")
    from .view.plot import plot_motion

    out.mkdir(parents=True, exist_ok=True)
    robot = models.double_pendulum(spherical=True)
    q0 = robot.integrate(robot.neutral(), np.array(DEMO_TURN, float))
    v0 = np.array(DEMO_VELOCITY, float)
    click.echo(f"{robot}, on ball joints\n")

    # one step first, so that the time of compiling is told apart from the time of the run
    start = time.perf_counter()
    simulate(robot, q0, v0, t_end=DEMO_STEP, dt=DEMO_STEP)
    compiling = time.perf_counter() - start
    run = simulate(robot, q0, v0, t_end=DEMO_TIME, dt=DEMO_STEP, record_every=5 * DEMO_STEP)
    _row("equations ready after", f"{compiling:.2f} s", "traced and compiled, or from the cache")
    rate = DEMO_TIME / DEMO_STEP / float(run.metadata["seconds"])
    _row("one pendulum", f"{rate:,.0f} steps/s", f"{run.metadata['method']}, h = {DEMO_STEP} s")

    # members next to the first one, for a tenth of its time: their lanes share the compiled loop
    near = v0 + 1e-3 * np.random.default_rng(0).standard_normal((DEMO_MEMBERS, robot.nv))
    brief = DEMO_TIME / 10
    simulate(robot, q0, near, t_end=DEMO_STEP, dt=DEMO_STEP)
    threads = os.cpu_count() or 1
    many = simulate(robot, q0, near, t_end=brief, dt=DEMO_STEP, record_every=brief, threads=threads)
    rate = DEMO_MEMBERS * brief / DEMO_STEP / float(many.metadata["seconds"])
    _row(f"{DEMO_MEMBERS} pendulums at once", f"{rate:,.0f} steps/s", f"{threads} threads")
    _row("energy drift", f"{run.energy_drift:.1e}", "of the largest kinetic energy, over 10 s")
    _row("quaternion norms", f"1 within {run.quaternion_error:.1e}")

    plot_motion(robot, run, out / "demo.png", window=0.15 * DEMO_TIME)
    run.save(out / "demo.nc")
    run.view().save(out / "demo.html")
    click.echo(
        f"\nwrote {out / 'demo.png'}\nwrote {out / 'demo.html'}: the motion, for any browser"
        f"\nwrote {out / 'demo.nc'}: liebody.Run.load, or xarray.open_dataset"
    )


@main.command()
@_examples("""
liebody info ur5.urdf
liebody info anymal.urdf --floating
liebody info puma560
""")
@SOURCE
@FLOATING
def info(source: str, floating: bool) -> None:
    """Joints, masses and checks of a robot.

    Lists bodies and joints with their groups, limits and masses, and checks the description: can real bodies
    have these inertias, is the mass matrix well conditioned? Plain advice for each finding.
    """
    if source in models.names():
        tree = load(source, floating=floating).tree
    else:
        for category in (DoubtfulInertia, AssumedDynamics, UnusedElements):  # these are among the findings
            warnings.simplefilter("ignore", category)
        tree = load_description(described(source), floating=floating, check="warn")
    click.echo(report(tree))


@main.command(name="simulate")
@_examples("""
liebody simulate double_pendulum --q0 2,0.5 --t-end 10 --plot run.png
liebody simulate anymal.urdf --floating --t-end 2 --seed 1 --save run.nc
liebody simulate ur5.urdf --q0 elbow_joint=1.2 --tau shoulder_lift_joint=-20 --joints real
liebody simulate ur5.urdf --seed 1 --members 1000 --threads 8 --save run.nc
liebody simulate heavy_top --v0 0,150,-4.61538 --method rkmk45 --t-end 2
""")
@SOURCE
@FLOATING
@click.option("--t-end", type=float, default=1.0, help="Simulated time [s].")
@click.option(
    "--dt", type=float,
    help="Step [s]; by default steps under error control, "
    f"or of {DEFAULT_STEP} where the method estimates no errors.",
)  # fmt: skip
@click.option(
    "--method",
    help="rkmk4, rkmk45 (with error control), radau5 (implicit), ...; a wrong name lists them all. "
    f"By default {CONTROLLED}, with --dt {FIXED}.",
)  # fmt: skip
@click.option(
    "--q0", metavar="VALUES",
    help="Initial coordinates: all of them, or some by name, 'elbow=1.2,base.z=0.5'; others are neutral.",
)  # fmt: skip
@click.option("--v0", metavar="VALUES", help="Initial velocities, likewise; the others are zero.")
@click.option("--tau", metavar="VALUES", help="Constant efforts of the joints, likewise [N m, N].")
@click.option(
    "--joints", metavar="KINDS",
    help="What a description says of joints, and acts in them: 'real' (all), 'ideal' (nothing), or some of "
    f"{', '.join(JOINT_KINDS)}, separated by commas. Default: armature, damping.",
)  # fmt: skip
@click.option(
    "--forces", metavar="NAMES",
    help="Forces beside efforts and weight, by name, separated by commas: friction, spring, damping, or "
    "those that other packages add; a wrong name lists them all.",
)  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Draw initial states at random from this seed, instead of neutral, at rest.",
)
@click.option("--members", type=click.IntRange(1), default=1, help="How many random states; needs --seed.")
@click.option(
    "--record-every", type=float, help="Time between recorded states [s]; by default at most 1000 states."
)
@click.option("--threads", type=click.IntRange(1), default=1, help="Threads that share the members.")
@click.option("--plot", "picture", type=FILE, help="Draw the run: .png, .pdf or .svg.")
@click.option(
    "--save", "data", type=FILE,
    help="Save the run as netCDF, .nc, or as a page that shows it, .html, or a film, .gif, .mp4.",
)  # fmt: skip
def simulate_(
    source: str, floating: bool, t_end: float, dt: float | None, method: str | None, q0: str | None,
    v0: str | None, tau: str | None, joints: str | None, forces: str | None, seed: int | None, members: int,
    record_every: float | None, threads: int, picture: Path | None, data: Path | None,
) -> None:  # fmt: skip
    """Simulate a robot from an initial state and print a summary.

    Without --tau the joints are free: the robot falls under gravity, with the damping that its description
    states. Limits and dry friction act with --joints real. Coordinates and velocities have the names that
    the summary prints; a free root has a unit quaternion (qw, qx, qy, qz), then x, y, z.
    """
    if members > 1 and seed is None:
        raise click.UsageError("--members draws random states, and so needs --seed.")
    # refuse files and methods before the robot is loaded, which takes longest
    _check_suffixes(picture, data)
    scheme = method_of(method or default_method(dt))
    acting = forces_of(_listed(forces or ""))
    robot = load(source, floating=floating)
    coordinates, dofs = labels(robot.tree)
    q = robot.neutral()
    v = np.zeros(robot.nv)
    if seed is not None:
        rng = np.random.default_rng(seed)
        shape = () if members == 1 else (members,)
        q = robot.random(rng, shape)
        v = rng.standard_normal((*shape, robot.nv))
    q = _assigned("--q0", q0, coordinates, q)
    v = _assigned("--v0", v0, dofs, v)
    efforts = None if tau is None else _assigned("--tau", tau, dofs, np.zeros(robot.nv))

    run = simulate(
        robot, _rounded_quaternions(robot, q, coordinates), v, t_end=t_end, dt=dt, method=scheme, tau=efforts,
        joints=joints if joints is None or "," not in joints else joints.replace(" ", "").split(","),
        forces=acting, record_every=record_every, threads=threads,
    )  # fmt: skip
    click.echo(run.summary())
    if picture is not None:
        run.plot(picture)
        click.echo(f"wrote {picture}")
    if data is not None:
        run.save(data)
        click.echo(f"wrote {data}")


@main.command(name="view")
@_examples("""
liebody view ur5.urdf
liebody view ur5.urdf run.nc --out run.html
liebody view puma560 --q0 joint2=-0.8,joint3=0.4
""")
@SOURCE
@click.argument("run", required=False, type=FILE)
@FLOATING
@click.option(
    "--q0", metavar="VALUES", help="Coordinates, where there is no run: all, or some by name, 'elbow=1.2'."
)
@click.option(
    "--out", type=FILE,
    help="Write a page (.html), a film (.gif, .mp4) or a picture (.png) instead of opening a browser.",
)  # fmt: skip
def view_(source: str, run: Path | None, floating: bool, q0: str | None, out: Path | None) -> None:
    """Look at a robot, at rest or in a run that was saved.

    The page is one file without references to others: it can be mailed, and plays without a network. Meshes
    need trimesh and pycollada. A film is of a run.
    """
    if run is not None and q0 is not None:
        raise click.UsageError("--q0 is a configuration, and RUN a motion; give one of them.")
    if run is not None:
        motion = Run.load(run)
        shown = view(_robot_of(motion, run, source, floating), motion)
    else:
        robot = load(source, floating=floating)
        coordinates, _ = labels(robot.tree)
        q = _assigned("--q0", q0, coordinates, robot.neutral())
        shown = view(robot, _rounded_quaternions(robot, q, coordinates))
    if out is None:
        click.echo(f"the page is {shown.show()}")
    else:
        shown.save(out)
        click.echo(f"wrote {out}")


def _robot_of(run: Run, path: Path, source: str, floating: bool) -> Robot:
    """The robot of a run, on the base that the run has, fixed or floating, whatever --floating says."""
    # a run knows its coordinates: if they fit the robot with the other base only, that one was simulated
    robot = load(source, floating=floating)
    if run.coordinates == labels(robot.tree)[0] or source in models.names():
        return _fitting(robot, run, path)
    with warnings.catch_warnings(), contextlib.suppress(LiebodyError):
        warnings.simplefilter("ignore")  # they were shown
        other = load(source, floating=not floating)
        if run.coordinates == labels(other.tree)[0]:
            return other
    return _fitting(robot, run, path)


def _fitting(robot: Robot, run: Run, path: Path) -> Robot:
    """The robot, if it has as many coordinates as a run."""
    theirs = len(run.coordinates)
    ours = robot.nq
    if theirs != ours:
        model = run.metadata.get("model", "a mechanism")
        raise Refused(
            f"{path} is a run of {model} with {counted(theirs, 'coordinate')}, and {robot.name} has {ours}; "
            "give the description that was simulated"
        )
    return robot


class Language(click.Choice[str]):
    """Our languages, and those that other packages add; these are looked up when one is asked for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.choices:
            return value
        added = extensions(PRINTERS)
        return value if value in added else click.Choice([*self.choices, *added]).convert(value, param, ctx)


def _complete_functions(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    """Names of functions that need no options, after those that are typed."""
    # a shell completes the last word; the words before it and their commas are kept
    before, comma, begun = typed.rpartition(",")
    names = [name for name, (algorithm, _) in kernels_of(Robot).items() if algorithm.is_complete]
    return [before + comma + name for name in names if name.startswith(begun)]


@main.command()
@_examples("""
liebody export ur5.urdf --to c --out out/
liebody export anymal.urdf --floating --to c --out out/ --functions forward_dynamics,poses
liebody export double_pendulum --functions gravity,jacobian:frame=tip --single
liebody export ur5.urdf --to fmu --out out/ --binaries x86_64-linux,x86_64-windows
""")
@SOURCE
@FLOATING
@click.option(
    "--to", "language", type=Language(["c", "fmu"]), default="c",
    help="c is C99; fmu is a model for simulators, by FMI 3.0. Other packages may add languages.",
)  # fmt: skip
@click.option("--out", type=FOLDER, default="out", help="Folder to write to.")
@click.option(
    "--functions", default=EXPORTED, metavar="NAMES", shell_complete=_complete_functions,
    help="Functions, separated by commas; a wrong name lists them all. Options follow: pose:frame=foot.",
)  # fmt: skip
@click.option("--single", is_flag=True, help="Numbers are floats, instead of doubles.")
@click.option(
    "--binaries", metavar="PLATFORMS",
    help="Platforms of an FMU's libraries, separated by commas; a wrong name lists them. Default: this one.",
)  # fmt: skip
def export(
    source: str, floating: bool, language: str, out: Path, functions: str, single: bool, binaries: str | None
) -> None:
    """Write a robot's equations of motion as source text.

    C99 without dependencies, allocation or state: a source, a header, a program that compares them with
    this library's numbers, and a file for CMake. Or an FMU, in which efforts are inputs and joints are
    outputs; it has no use for --functions and --single.
    """
    if language == "fmu":
        robot = load(source, floating=floating)
        out.mkdir(parents=True, exist_ok=True)
        platforms = None if binaries is None else _listed(binaries)
        click.echo(f"wrote {export_fmu(out / f'{robot.name}.fmu', robot, binaries=platforms)}")
        return
    if binaries is not None:
        raise click.UsageError("--binaries is for FMUs: add --to fmu")
    calls = [_call(text) for text in _listed(functions)]
    if language != "c":
        if single:
            raise click.UsageError(f"--single is for C; {language} has numbers of its own")
        for path in _printed(load(source, floating=floating), language, out, calls):
            click.echo(f"wrote {path}")
        return
    dtype = np.float32 if single else np.float64
    paths = load(source, floating=floating).export_c(out, calls, dtype=dtype)
    for path in paths:
        click.echo(f"wrote {path}")
    sources = " ".join(str(path) for path in paths if path.suffix == ".c")
    # a command that can be copied, with a compiler that this machine has
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")
    click.echo(f"\ntest it:\n  {compiler} -std=c99 -O2 {sources} -lm -o {out / 'test'} && {out / 'test'}")


def _printed(
    robot: Robot, language: str, out: Path, calls: list[tuple[str, dict[str, str]]]
) -> Iterable[Path]:
    """Functions of a robot, written by the printer of another package."""
    functions = {}
    for call, options in calls:
        function = robot.kernel(call, **options).function
        # a program has loops and functions of its own; a printer gets one straight line
        straight = function.unroll() if isinstance(function, Program) else function
        functions["_".join([call, *options.values()])] = straight
    out.mkdir(parents=True, exist_ok=True)
    paths: Iterable[Path] = extension(PRINTERS, language)(out, robot.name, functions)
    return paths


def _listed(text: str) -> list[str]:
    """The words of a text that are separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _call(text: str) -> tuple[str, dict[str, str]]:
    """A function and its options: name:option=value:option=value."""
    name, *options = text.split(":")
    if any("=" not in option for option in options):
        raise click.BadParameter(f"{text!r} has an option without a value, expected {name}:option=value")
    return name, dict(option.split("=", 1) for option in options)


@main.command(name="equations")
@_examples("""
liebody equations double_pendulum --symbols
liebody equations double_pendulum --symbols --latex --parts M,C,g
liebody equations puma560 --no-simplify --c --parts tau
liebody equations ur5.urdf --matlab --form coadjoint
liebody equations anymal.urdf --floating --blocks --no-simplify --latex
""")
@SOURCE
@FLOATING
@click.option("--latex", "language", flag_value="latex", help="LaTeX, one equation a line.")
@click.option("--python", "language", flag_value="python", help="A Python function.")
@click.option("--c", "language", flag_value="c", help="A C99 function.")
@click.option("--matlab", "language", flag_value="matlab", help="A MATLAB or Octave function.")
@click.option("--julia", "language", flag_value="julia", help="A Julia function.")
@click.option("--form", default="christoffel", help="Form of the Coriolis matrix; a wrong name lists them.")
@click.option("--symbols", is_flag=True, help="Masses, lengths and inertias as symbols instead of numbers.")
@click.option("--blocks", is_flag=True, help="Named matrices (I_1 + X_2^T I_2 X_2) instead of scalars.")
@click.option("--no-simplify", is_flag=True, help="Expressions as they are computed, for large robots.")
@click.option(
    "--parts", metavar="NAMES",
    help="Some of M, C, g, kinetic, potential, equations (tau in code), connection, and of the methods of "
    "robots (center_of_mass), separated by commas.",
)  # fmt: skip
def equations_(
    source: str,
    floating: bool,
    language: str | None,
    form: str,
    symbols: bool,
    blocks: bool,
    no_simplify: bool,
    parts: str | None,
) -> None:
    """Print the equations of motion in closed form.

    Mass matrix M, Coriolis matrix C, gravity g, energies and the equations themselves, as text or LaTeX; or a
    function that computes M, C and g, with common subexpressions. Needs SymPy: pip install sympy.
    """
    if blocks and language not in (None, "latex"):
        raise click.UsageError(f"--{language} prints scalars: leave out --blocks, or print text or --latex")
    options: dict[str, Any] = {"symbols": symbols, "floating": floating, "blocks": blocks}
    closed = equations(source, form, not no_simplify, **options)
    click.echo(getattr(closed, language or "text")(*_listed(parts or "")), nl=False)


@main.group(name="cache")
def cache_() -> None:
    """Compiled kernels that are kept: how many, and removing them.

    They are in $LIEBODY_CACHE, or in your user cache. Beyond $LIEBODY_CACHE_LIMIT (1 GB) those used least
    recently are removed, of which nothing is lost but the time to compile them again.
    """


@cache_.command(name="info")
@_examples("liebody cache info")
def cache_info() -> None:
    """Say where kernels are kept, how many, and how much they take."""
    versions = cache.by_version()
    _row("folder", str(cache.cache_folder()))
    _row("size", _bytes(sum(size for _, size in versions.values())), f"of {_bytes(cache.limit())}")
    for version, (count, size) in versions.items():
        name = f"libraries of {version}" if version else "notes"
        _row(name, counted(count, "entry", "entries"), _bytes(size))


@cache_.command(name="prune")
@_examples("""
liebody cache prune --limit "200 MB"
liebody cache prune --other-versions
""")
@click.option("--limit", metavar="SIZE", help="What may stay, such as '200 MB'; default: the cache's limit.")
@click.option("--other-versions", is_flag=True, help="Remove what other versions of liebody made, too.")
def cache_prune(limit: str | None, other_versions: bool) -> None:
    """Remove what was used least recently. Processes that are running keep what they use."""
    most = cache.limit() if limit is None else cache.size_of("--limit", limit)
    _removed(*cache.prune(most, other_versions))


@cache_.command(name="clear")
@_examples("liebody cache clear")
def cache_clear() -> None:
    """Remove all kernels that are kept."""
    _removed(*cache.prune(0))


def _removed(count: int, size: int) -> None:
    click.echo(f"removed {counted(count, 'entry', 'entries')}, {_bytes(size)}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _assigned(option: str, text: str | None, names: Labels, values: Array) -> Array:
    """`values` (..., n) with what an option says: n numbers, or name=number for some."""
    if text is None:
        return values
    # without names all entries are given, in their order; with names some of them, in any order
    words = [word.strip() for word in text.split(",")]
    if "=" not in text:
        if len(words) != len(names):
            more = free_base(option, len(words), len(names), "add --floating if it is to move")
            raise Refused(
                f"{option} needs {len(names)} numbers ({', '.join(names.names)}), not {len(words)}{more}"
            )
        return np.broadcast_to([_number(option, word) for word in words], values.shape).copy()
    numbers: dict[str, float] = {}
    for word in words:
        name, equals, number = map(str.strip, word.rpartition("="))
        if not equals:
            raise Refused(
                f"{option}: {word!r} names no entry; write all as name=number, or all numbers without names"
            )
        if name in numbers:
            raise Refused(f"{option} names {name!r} twice; give each entry one number")
        numbers[name] = _number(option, number)
    return names.filled(numbers, values, option)


def _number(option: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise Refused(f"{option}: {word!r} is not a number") from None


def _rounded_quaternions(robot: Robot, q: Array, coordinates: Labels) -> Array:
    """q with quaternions that are unit up to typed decimals made unit; others are left to be refused."""
    normalized = np.apply_along_axis(robot.group.normalize, -1, q) if robot.nq else q
    return normalized if np.all(np.abs(normalized - q) <= ROUNDED) else q


def _check_suffixes(picture: Path | None, data: Path | None) -> None:
    """Refuse files that could not be written, before the work."""
    if picture is not None:
        require("pictures", "matplotlib", extra="plot")
        if picture.suffix not in (".png", ".pdf", ".svg"):
            raise Refused(f"--plot {picture}: pictures end in .png, .pdf or .svg")
    if data is not None and data.suffix not in (".nc", *VIEWS):
        raise Refused(f"--save {data}: runs are saved as netCDF, which ends in .nc, or shown as .html")
    if data is not None:
        require_for(data)
    for path in (picture, data):
        if path is not None and not path.parent.is_dir():
            raise Refused(f"{path}: there is no folder {path.parent}; make it first")


def _row(what: str, value: str, remark: str = "") -> None:
    click.echo(f"  {what:24}{value:>20}   {remark}".rstrip())
