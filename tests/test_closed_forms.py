"""Closed forms of everything that robots compute, and programs that run without this library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.compiler.native.build import find_compiler
from liebody.dynamics import Task
from liebody.robot.algorithm import shape
from liebody.symbolic import shortest
from liebody.symbolic.parts import ALGORITHMS

BIPED = """
<robot name="biped">
  <link name="torso">
    <inertial>
      <origin xyz="0 0 0.2"/> <mass value="3"/>
      <inertia ixx="0.05" iyy="0.05" izz="0.02" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <link name="leg">
    <inertial>
      <origin xyz="0 0 -0.25"/> <mass value="0.8"/>
      <inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <link name="toe"/>
  <joint name="hip" type="continuous"><parent link="torso"/><child link="leg"/><axis xyz="0 1 0"/></joint>
  <joint name="tip" type="fixed"><parent link="leg"/><child link="toe"/><origin xyz="0 0 -0.5"/></joint>
</robot>
"""


def numbers(x, values):
    """An expression, matrix or array as floats."""
    entries = sp.flatten(x) if hasattr(x, "shape") else [sp.sympify(x)]
    found = sp.lambdify(list(values), entries, cse=True)(*values.values())
    return np.reshape(np.array(found, float), getattr(x, "shape", ()))


def options_of(algorithm, tree, frame):
    """Values of options that must be said, and symbols for arrays that the state does not give."""
    known = {"frame": frame, "task": Task(frame, (3,))}
    found = {k: known[k] for k in algorithm.parameters if k in known}
    for k in algorithm.arrays:
        if k not in ("q", "v", "a", "tau"):
            size = shape(tree, k)
            found[k] = sp.symbols(f"{k}_1:{size[0] + 1}", real=True) if size else sp.Symbol(k, real=True)
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("make", "frame", "simplify"),
    [
        (lambda: lb.models.prismatic_hopper(), "foot", True),
        (lambda: lb.models.revolute_hopper(), "foot", False),
    ],
    ids=["prismatic", "revolute"],
)
@pytest.mark.many
def test_every_algorithm_has_a_closed_form(make, frame, simplify, name):
    robot = make()
    tree, algorithm = robot.tree, ALGORITHMS[name]
    eq = lb.equations(robot, symbols=simplify, simplify=simplify)
    options = options_of(algorithm, tree, frame)
    rng = np.random.default_rng(5)
    state = {k: rng.normal(size=tree.nv) for k in ("v", "a", "tau", "w", "F", "v_r", "a_r", "p")}
    state |= {k: tree.group.random(rng) for k in ("q", "q0", "q1")}
    values = {s: x for k in ("q", "v", "a", "tau") for s, x in zip(getattr(eq, k), state[k], strict=True)}
    state["s"] = 0.3
    for k in set(options) & set(state):
        values |= dict(zip(np.ravel(options[k]), np.ravel(state[k]), strict=True))
    values |= eq.values
    plain = {k: x for k, x in options.items() if k not in state}
    arrays = [state[k] for k in algorithm.arrays]
    expected = getattr(robot, name)(*arrays, **plain)
    found = eq.of(name, **options)
    assert type(found) is type(expected) or not isinstance(expected, tuple)
    several = isinstance(expected, tuple)
    for x, y in zip(found, expected, strict=True) if several else [(found, expected)]:
        np.testing.assert_allclose(np.reshape(numbers(x, values), np.shape(y)), y, rtol=1e-10, atol=1e-10)


def test_the_quantities_of_the_thesis(tmp_path):
    """Feurstein (2021), appendix A.2, of a robot from a URDF, with symbols for what is named."""
    path = tmp_path / "biped.urdf"
    path.write_text(BIPED)
    robot = lb.load(path, floating=True)
    eq = lb.equations(robot, symbols=["m1", "m2", "c2z", "p_toe_z"], simplify=False)
    m1, m2, c, toe = sp.symbols("m1 m2 c2z p_toe_z", real=True)
    assert eq.values == {m1: 3.0, m2: 0.8, c: -0.25, toe: -0.5, sp.Symbol("g", positive=True): 9.81}
    leg = lb.equations(robot.tree, symbols=["p_toe_z"]).of("pose", frame="toe")
    assert leg.free_symbols >= {toe}
    with pytest.raises(ModelError, match="no number 'm9' to be a symbol; there are I1xx, "):
        lb.equations(robot, symbols=["m9"])


def test_rates_and_jacobians_of_expressions_are_those_along_the_motion():
    eq = lb.equations("revolute_hopper", symbols=True)
    foot = eq.of("pose", frame="foot")
    J = eq.of("jacobian", frame="foot", representation="mixed")
    assert eq.jacobian(foot[:3, 3]) - J[3:, :] == sp.zeros(3, 4)
    assert (eq.rate(eq.M) - eq.of("mass_matrix_derivative")).applyfunc(shortest) == sp.zeros(4, 4)
    work = sp.Matrix(eq.v).dot(eq.efforts)  # the power of the efforts is the rate of the energy
    assert shortest(eq.rate(eq.energy) - work) == 0
    r, alpha = sp.sqrt(foot[0, 3] ** 2 + foot[2, 3] ** 2), sp.atan2(foot[2, 3], foot[0, 3])
    values = dict(zip([*eq.q, *eq.v], [0.3, 0.1, 0.2, 0.7, 1.0, 2.0, -1.0, 0.5], strict=True)) | eq.values
    for x in (r, alpha):
        J, step = numbers(eq.jacobian(x), values), 1e-6
        robot = lb.load("revolute_hopper")
        q, v = np.array([0.3, 0.1, 0.2, 0.7]), np.array([1.0, 2.0, -1.0, 0.5])

        def at(s, x=x, robot=robot, q=q, v=v):
            return numbers(x, {**eq.values, **dict(zip(eq.q, robot.integrate(q, s * v), strict=True))})

        np.testing.assert_allclose(J @ v, (at(step) - at(-step)) / (2 * step), rtol=1e-8)


def test_decoupled_coordinates_separate():
    """In the centre of mass and its frame M_x is diagonal, and the leg's motion has the reduced mass."""
    eq = lb.equations("prismatic_hopper", symbols=True)
    decoupled = eq.of("decoupled_dynamics", x="centroidal")
    m1, m2 = sp.symbols("m1 m2", positive=True)
    reduced, m = m1 * m2 / (m1 + m2), m1 + m2
    assert (decoupled.Mx - sp.diag(reduced * eq.q[3] ** 2, m, m)).applyfunc(shortest) == sp.zeros(3, 3)
    assert shortest(decoupled.My[0, 0] - reduced) == 0


@pytest.mark.wide
def test_user_functions_and_expressions_are_printed():
    eq = lb.equations("double_pendulum", symbols=True)

    def reach(tree, q):
        return lb.dynamics.center_of_mass(tree, q)[0] + 1.0

    x, k = eq.of(reach), sp.Symbol("k", positive=True)
    spring = k * eq.q[0] ** 2 / 2
    space = {}
    exec(eq.python("M_inverse", "center_of_mass", "christoffel_symbols", reach=x, spring=spring), space)
    at = [0.4, -0.9]
    function = space["double_pendulum"]
    inverse, com, symbols, found, energy = function(at, 1.3, 1.3, 1.3, 1.3, 5.0)
    robot = lb.models.double_pendulum(masses=(1.3, 1.3), lengths=(1.3, 1.3))
    np.testing.assert_allclose(inverse, np.linalg.inv(robot.mass_matrix(at)), rtol=1e-12)
    np.testing.assert_allclose(com, robot.center_of_mass(at), atol=1e-14)
    np.testing.assert_allclose(symbols, robot.christoffel_symbols(at), atol=1e-14)
    np.testing.assert_allclose([found, energy], [robot.center_of_mass(at)[0] + 1, 0.4], atol=1e-14)
    assert com.shape == (3,) and symbols.shape == (2, 2, 2)
    for text in (eq.c, eq.matlab, eq.julia, eq.text, eq.latex):
        assert "spring" in text("M", spring=spring)


def test_connections_are_printed_in_every_language():
    eq = lb.equations("revolute_hopper", symbols=True)
    assert "function [connection] = revolute_hopper(q, l, m1, m2, m3)" in eq.matlab("connection")
    assert "double connection[3]" in eq.c("connection")
    assert "connection = zeros(3, 1)" in eq.julia("connection")
    space = {}
    exec(eq.python("connection", "locked_inertia", "curvature"), space)
    robot = lb.load("revolute_hopper")
    q = [0.1, 0.2, 0.3, 0.8]
    m, I, B = space["revolute_hopper"](q, *(eq.values[p] for p in eq.parameters if p.name != "g"))
    np.testing.assert_allclose(m, robot.mechanical_connection(q), rtol=1e-12)
    np.testing.assert_allclose(I, robot.locked_inertia(q), rtol=1e-12, atol=1e-15)
    assert B.shape == (1, 1, 1) and B == 0


def test_one_triangle_of_a_symmetric_matrix_is_printed():
    eq = lb.equations("double_pendulum", symbols=True)
    assert eq.latex("M").count(r"\cos") == 2 and r"\ast" in eq.latex("M")
    assert eq.text("M").count("cos") == 2 and "*" in eq.text("M")
    assert "M[2] = M[1];" in eq.c("M") and "M(2, 1) = M(1, 2);" in eq.matlab("M")
    listed = lb.equations("ur5", simplify=False).text("M")
    assert "M[1, 2] = " in listed and "M[2, 1]" not in listed and "M[j, i] = M[i, j]" in listed
    assert r"\ast" not in eq.latex("C")


def test_notebooks_show_equations():
    eq = lb.equations("double_pendulum", symbols=True)
    shown = eq._repr_latex_()
    assert shown.startswith(r"$$\begin{aligned}M(q) &= \left[") and shown.count(r" &= ") == 3
    assert lb.equations("puma560", simplify=False)._repr_latex_() is None


# -- programs --------------------------------------------------------------------------------------------


def of_python(eq, folder, *arguments, **options):
    (folder / "program.py").write_text(eq.program("python", *arguments, **options))
    return [sys.executable, "-I", "program.py"]


def of_c(eq, folder, *arguments, **options):
    (folder / "program.c").write_text(eq.program("c", *arguments, **options))
    flags = "-std=c99 -O1 -pedantic -Wall -Wextra -Wmissing-prototypes -Werror".split()
    command = [*find_compiler().command, *flags, "-o", str(folder / "program"), "program.c", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return [str(folder / "program")]


def of_matlab(eq, folder, *arguments, **options):
    octave = shutil.which("octave-cli")
    if octave is None:
        pytest.skip("GNU Octave (octave-cli), which runs MATLAB's language, is not installed")
    name = f"{eq.tree.name}_program"
    (folder / f"{name}.m").write_text(eq.program("matlab", *arguments, **options))
    return [octave, "-qf", "--eval", name]


def of_julia(eq, folder, *arguments, **options):
    """The program by a reader of the part of Julia that is printed; what it does not know fails."""
    (folder / "program.py").write_text(python_of_julia(eq.program("julia", *arguments, **options)))
    return [sys.executable, "-I", "program.py"]


def python_of_julia(text):
    """Statements of a printed program in Python. Indices and ranges begin at 1, blocks end with `end`."""
    lines, depth = ["import numpy as np", "from numpy import sin, cos, sqrt"], 0

    def moved(match):
        parts = [
            f"{a} - 1:{b if b != 'end' else ''}" if b else f"{a} - 1"
            for a, _, b in (part.strip().partition(":") for part in match[2].split(","))
        ]
        return f"{match[1]}[{', '.join(parts)}]"

    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in '#"' or line.startswith("using "):
            assert line in ("", "using LinearAlgebra", "using Printf") or line[0] in '#"', line
            assert line[:1] != '"' or line[-1] == '"'
            continue
        if line == "end":
            depth -= 1
            continue
        assert not re.search(r"\*\*|\.\*|;\s*$|//|\bNone\b|\+=|-=", line), line
        opened = re.fullmatch(r"function (\w+)\((.*)\)", line)
        loop = re.fullmatch(r"for (\w+) in (\w+)(?::(.+))?", line)
        if opened:
            lines.append(f"{'    ' * depth}def {opened[1]}({opened[2]}):")
            depth += 1
            continue
        if loop:
            over = f"range({loop[2]}, {loop[3]} + 1)" if loop[3] else loop[2]
            lines.append(f"{'    ' * depth}for {loop[1]} in {over}:")
            depth += 1
            continue
        solved = r"return np.hstack([\1, np.linalg.solve(\2, \3)])"
        line = re.sub(r"^return \[(\w+); (\w+) \\ (\w+)\]$", solved, line)
        line = re.sub(r'^@printf\("%\.17g\\n", (\w+)\)$', r"print(repr(float(\1)))", line)
        line = re.sub(r"\bFloat64\[(.*)\]", r"np.array((\1,))", line)
        if not line.startswith("return np"):
            line = re.sub(r"\b(\w+)\[([^\]]*)\]", moved, line)
        line = re.sub(r"\bzeros\((.*)\)", r"np.zeros((\1,))", line)
        line = line.replace("^", "**").replace("norm(", "np.linalg.norm(")
        assert re.match(r"(return|print|main\(\)|[\w, ]+(\[.*?\])? /?= )", line), line
        lines.append("    " * depth + line)
    assert depth == 0
    return "\n".join(lines) + "\n"


LANGUAGES = [of_python, of_c, pytest.param(of_matlab, marks=pytest.mark.slow), of_julia]


def ends(command, folder):
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.stdout, done.stderr
    return np.array(done.stdout.split(), float)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("model", "q", "v", "dt"),
    [
        ("double_pendulum", [0.3, -0.4], [1.0, 0.2], 1e-3),
        ("revolute_hopper", [0.3, -0.4, 0.1, 0.2], [1.0, 0.2, 0.3, 0.4], 1e-3),
        ("heavy_top", [1, 0, 0, 0], [0.4, 0.2, 3.0], 1e-3),
    ],
)
@pytest.mark.many
def test_programs_end_where_simulations_do(language, model, q, v, dt, tmp_path):
    eq = lb.equations(model, symbols=model != "heavy_top")
    run = lb.simulate(lb.load(model), q, v, t_end=0.7, dt=dt, method="rkmk4")
    end = ends(language(eq, tmp_path, (q, v), 0.7, dt), tmp_path)
    np.testing.assert_allclose(end, [*run.q[-1], *run.v[-1]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_take_efforts_of_time_and_state(language, tmp_path):
    eq = lb.equations("double_pendulum", symbols=True)
    t, k = sp.Symbol("t", real=True), sp.Symbol("k", real=True)
    tau = [k * sp.sin(3 * t) - eq.v[0] / 2, -2 * eq.q[1]]
    options = {"tau": tau, "values": {"k": 1.5, "m1": 2.0}}
    end = ends(language(eq, tmp_path, ([0.3, -0.4], [0, 0]), 0.5, 1e-3, **options), tmp_path)

    def effort(t, q, v):
        return np.array([1.5 * np.sin(3 * t) - v[0] / 2, -2 * q[1]])

    robot = lb.models.double_pendulum(masses=(2.0, 1.0))
    run = lb.simulate(robot, [0.3, -0.4], t_end=0.5, dt=1e-3, method="rkmk4", tau=effort)
    np.testing.assert_allclose(end, [*run.q[-1], *run.v[-1]], rtol=1e-9, atol=1e-9)


def test_programs_refuse_what_they_cannot_run():
    eq = lb.equations("double_pendulum", symbols=True)
    start = ([0, 0], [0, 0])
    with pytest.raises(ModelError, match="needs a number for k: values="):
        eq.program("c", start, 1.0, 0.1, tau=[sp.Symbol("k"), 0])
    with pytest.raises(ModelError, match=r"no language 'fortran'; there are python, c"):
        eq.program("fortran", start, 1.0, 0.1)
    with pytest.raises(ShapeError, match=r"v of the start has shape \(1,\), expected \(2,\)"):
        eq.program("c", ([0, 0], [0]), 1.0, 0.1)
    with pytest.raises(ShapeError, match="1 efforts, expected 2"):
        eq.program("c", start, 1.0, 0.1, tau=[0])
    with pytest.raises(ModelError, match="t_end > 0 and dt > 0, got -1"):
        eq.program("c", start, -1, 0.1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda eq: eq.of("fly"), "no algorithm 'fly'; there are normalize"),
        (lambda eq: eq.of("pose"), r"pose takes the options \['frame'\], got \[\]"),
        (
            lambda eq: eq.of("mass_matrix", frame="a"),
            r"mass_matrix takes the options \['layout'\], got \['frame'\]",
        ),
        (lambda eq: eq.text("pose"), "no part 'pose'.*name=expression"),
    ],
)
def test_what_has_no_closed_form_is_told(call, words):
    with pytest.raises(ModelError, match=words):
        call(lb.equations("double_pendulum"))


def test_what_terms_share_is_taken_out():
    """SymPy's `simplify` makes 72 operations of M, entry by entry, and 90 of C v + g."""
    eq = lb.equations("revolute_hopper", symbols=True)
    l, m1, m2, m3, g = sp.symbols("l m1 m2 m3 g", positive=True)
    (angle, _, _, q4), (omega, vx, _, v4), f = eq.q, eq.v, eq.of("bias")
    assert eq.M[0, 0] == l**2 * (m2 + m3 * (4 * sp.cos(q4) + 5)) / 4
    whole = (m1 + m2 + m3) * (g * sp.cos(angle) + omega * vx)
    assert f[2] == whole - l * m3 * (omega + v4) ** 2 * sp.sin(q4) / 2
    assert sp.count_ops(eq.M) < 72 and sp.count_ops(f) < 90
