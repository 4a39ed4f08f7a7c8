"""Readers of formats and printers of languages that another package adds; tests/foreign is such a package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.base.errors import DescriptionError, LiebodyError
from liebody.base.extensions import PRINTERS, READERS, extension, extensions
from liebody.cli import main

ROOT = Path(__file__).parents[1]
FOREIGN = ROOT / "tests" / "foreign"
ADDED = [
    EntryPoint("sdf", "liebody_foreign.sdf:read", READERS),
    EntryPoint("rust", "liebody_foreign.rust:write", PRINTERS),
]

# One arm in two languages. In SDF, frames of links are turned and lie beside their joints.
SDF = """<sdf version="1.9"><model name="arm">
  <link name="upper">
    <pose>0.1 0 1 0.3 0 0.5</pose>
    <inertial>
      <pose>0.02 -0.01 0.2 0 0.4 0</pose><mass>2</mass>
      <inertia><ixx>0.03</ixx><iyy>0.04</iyy><izz>0.02</izz><ixy>0.001</ixy></inertia>
    </inertial>
  </link>
  <link name="lower">
    <pose relative_to="upper">0 0 0.5 0 0 0.2</pose>
    <inertial><pose>0 0.1 0 0 0 0</pose><mass>1</mass>
      <inertia><ixx>0.01</ixx><iyy>0.02</iyy><izz>0.015</izz></inertia></inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <pose>0 0 -0.2 0.1 0 0</pose><parent>world</parent><child>upper</child>
    <axis><xyz>0 1 0</xyz><limit><lower>-2</lower><upper>1.5</upper></limit>
      <dynamics><damping>0.3</damping></dynamics></axis>
  </joint>
  <joint name="slider" type="prismatic">
    <parent>upper</parent><child>lower</child><axis><xyz>0 0.6 0.8</xyz></axis>
  </joint>
</model></sdf>"""


@pytest.fixture
def added(monkeypatch):
    """The package as if it were installed."""
    monkeypatch.syspath_prepend(FOREIGN / "src")
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints(ADDED).select)


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.sdf"
    path.write_text(SDF)
    return path


def about(axis, angle):
    """A rotation as a pose, by the exponential."""
    return lb.groups.SE3.exp(np.concatenate([angle * np.asarray(axis, float), np.zeros(3)]))


def moved(x, y, z):
    return lb.groups.SE3.exp(np.array([0, 0, 0, x, y, z], float))


def test_a_description_of_another_format_is_the_same_robot(added, arm):
    """Against energies of the two links, with poses written down by hand."""
    robot = lb.load(arm)
    assert (robot.nq, robot.tree.bodies[0].joint.name, robot.tree.bodies[0].joint.upper) == (
        2,
        "shoulder",
        1.5,
    )
    assert robot.tree.bodies[0].joint.damping == 0.3
    x, y, z = np.eye(3)
    upper = moved(0.1, 0, 1) @ about(z, 0.5) @ about(x, 0.3)
    shoulder = upper @ moved(0, 0, -0.2) @ about(x, 0.1)
    lower = upper @ moved(0, 0, 0.5) @ about(z, 0.2)
    q = np.array([0.7, -0.3])
    turn = shoulder @ about(y, q[0]) @ np.linalg.inv(shoulder)  # of all that hangs on the shoulder
    slide = lower @ moved(0, 0.6 * q[1], 0.8 * q[1]) @ np.linalg.inv(lower)
    np.testing.assert_allclose(robot.pose(q, "upper_link"), turn @ upper, atol=1e-12)
    np.testing.assert_allclose(robot.pose(q, "lower_link"), turn @ slide @ lower, atol=1e-12)
    centers = [(turn @ upper @ [0.02, -0.01, 0.2, 1])[:3], (turn @ slide @ lower @ [0, 0.1, 0, 1])[:3]]
    np.testing.assert_allclose(robot.center_of_mass(q), (2 * centers[0] + centers[1]) / 3, atol=1e-12)
    # inertia about the axis of the shoulder: parallel axes
    axis, point = (turn @ shoulder)[:3, 1], shoulder[:3, 3]
    inertia = 0.0
    tensors = [np.array([[0.03, 0.001, 0], [0.001, 0.04, 0], [0, 0, 0.02]]), np.diag([0.01, 0.02, 0.015])]
    rotations = [(turn @ upper @ about(y, 0.4))[:3, :3], (turn @ slide @ lower)[:3, :3]]
    for mass, center, tensor, R in zip([2, 1], centers, tensors, rotations, strict=True):
        lever = np.cross(axis, center - point)
        inertia += axis @ R @ tensor @ R.T @ axis + mass * lever @ lever
    np.testing.assert_allclose(robot.mass_matrix(q)[0, 0], inertia, rtol=1e-12)
    assert robot.mass_matrix(q)[1, 1] == pytest.approx(1, abs=1e-12)


def test_options_reach_the_reader_and_commands_use_it(added, arm):
    free = arm.with_name("free.SDF")
    free.write_text(re.sub(r'<joint name="shoulder".*?</joint>', "", SDF, flags=re.DOTALL))
    assert lb.load(free, floating=True).nv == 7
    assert lb.load(str(free)).nv == 1
    with pytest.raises(TypeError, match="snap"):
        lb.load(arm, snap=1e-4)
    told = CliRunner().invoke(main, ["info", str(arm)])
    assert told.exit_code == 0 and "shoulder" in told.output
    moved = CliRunner().invoke(main, ["simulate", str(arm), "--t-end", "0.01", "--dt", "1e-3"])
    assert moved.exit_code == 0, moved.output


def test_what_a_reader_refuses_is_said(added, arm):
    for old, new, said in [
        ("prismatic", "screw", "'slider' of type 'screw'"),
        ('relative_to="upper"', 'relative_to="lower"', "resolved at 'lower'"),
        ("</sdf>", "", "no element found"),
        ('<link name="upper">', '<include/><link name="upper">', "<include>"),
    ]:
        arm.write_text(SDF.replace(old, new))
        with pytest.raises(DescriptionError, match=said):
            lb.load(arm)
    with pytest.raises(DescriptionError, match=r"no file .*other\.sdf"):
        lb.load(arm.with_name("other.sdf"))


def test_formats_of_nobody_and_our_own_are_read_as_before(added, arm, monkeypatch):
    own = EntryPoint("urdf", "liebody_foreign.sdf:read", READERS)
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints([own]).select)
    with pytest.raises(DescriptionError):
        lb.load(arm)  # not a URDF
    text = '<robot name="r"><link name="base"/></robot>'
    path = arm.with_name("r.urdf")
    path.write_text(text)
    assert lb.io.load_description(path).name == lb.io.load_description(text).name == "r"


def test_a_reader_returns_a_tree(added, arm, monkeypatch):
    monkeypatch.setattr("liebody_foreign.sdf.read", lambda path, **options: "a tree", raising=False)
    with pytest.raises(DescriptionError, match="returned 'a tree', expected a Tree"):
        lb.io.load_description(arm)


def test_packages_that_collide_or_cannot_be_imported_are_named(monkeypatch):
    twice = [EntryPoint("sdf", value, READERS) for value in ("a:read", "b:read")]
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints(twice).select)
    with pytest.raises(LiebodyError, match=r"2 packages add 'sdf' to liebody\.readers: a:read, b:read"):
        extension(READERS, "sdf")
    absent = [EntryPoint("sdf", "no_such_package:read", READERS)]
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints([*absent, *absent]).select)
    with pytest.raises(LiebodyError, match="no_such_package:read, which adds 'sdf'"):
        extension(READERS, "sdf")
    assert set(extensions(READERS)) == {"sdf"}
    assert extension(PRINTERS, "sdf") is None


# -- printers -----------------------------------------------------------------------------------------------


def computed(rust, name, inputs, size):
    """The outputs of a straight function in Rust, whose statements are Python without "let" and types."""
    body = re.search(rf"pub fn {name}\(.*?\{{\n(.*?)\n\}}", rust, re.DOTALL)[1]
    lines = [re.sub(r"_f64|;$|^\s*(let )?", "", line) for line in body.splitlines()]
    lines = [re.sub(r"(t\d+|\w+\[\d+\])\.(sin|cos)\(\)", r"\2(\1)", line) for line in lines]
    result = np.zeros(size)
    exec("\n".join(lines), {"sin": np.sin, "cos": np.cos, **inputs, name: result})
    return result


def test_a_language_of_another_package_is_exported(added, tmp_path):
    command = ["export", "puma560", "--to", "rust", "--out", str(tmp_path / "new")]
    done = CliRunner().invoke(main, [*command, "--functions", "inverse_dynamics,mass_matrix"])
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "new").iterdir()
    assert done.stdout == f"wrote {path}\n" and path.suffix == ".rs"
    robot = lb.load("puma560")
    q, v, a = np.random.default_rng(1).normal(size=(3, robot.nv))
    rust = path.read_text()
    tau = computed(rust, "inverse_dynamics", {"q": q, "v": v, "a": a}, robot.nv)
    np.testing.assert_allclose(tau, robot.inverse_dynamics(q, v, a), rtol=1e-12, atol=1e-12)
    M = computed(rust, "mass_matrix", {"q": q}, robot.nv**2)
    np.testing.assert_allclose(M.reshape(robot.nv, -1), robot.mass_matrix(q), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")
def test_rust_compiles_and_computes(added, tmp_path):
    command = ["export", "double_pendulum", "--to", "rust", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, [*command, "--functions", "inverse_dynamics"]).exit_code == 0
    (path,) = tmp_path.glob("*.rs")
    call = "let mut tau = [0.0; 2]; inverse_dynamics(&[0.3, -1.0], &[1.0, 2.0], &[0.5, -4.0], &mut tau);"
    text = path.read_text() + f'fn main() {{ {call} println!("{{:?}}", tau); }}\n'
    (tmp_path / "main.rs").write_text(text)
    subprocess.run(["rustc", "-o", "main", "main.rs"], cwd=tmp_path, check=True, capture_output=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    expected = lb.load("double_pendulum").inverse_dynamics([0.3, -1.0], [1.0, 2.0], [0.5, -4.0])
    np.testing.assert_allclose(eval(printed), expected, rtol=1e-13)


def test_languages_that_nobody_adds_are_refused(added, monkeypatch):
    done = CliRunner().invoke(main, ["export", "double_pendulum", "--to", "fortran"])
    assert done.exit_code == 2 and "'c', 'fmu', 'rust'" in done.output
    done = CliRunner().invoke(main, ["export", "double_pendulum", "--to", "rust", "--single"])
    assert done.exit_code == 2 and "--single is for C" in done.output


@pytest.mark.slow
def test_the_package_is_installed_and_used(tmp_path, arm):
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    environment = {key: x for key, x in os.environ.items() if key != "PYTHONPATH"}

    def run(*words):
        command = [programs / words[0], *words[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", str(ROOT), str(FOREIGN))
    assert "shoulder" in run("liebody", "info", str(arm))
    line = "import liebody as lb; print(lb.load('arm.sdf').mass_matrix([0.0, 0.0])[1, 1].round(12))"
    assert run("python", "-c", line) == "1.0\n"
    assert run("liebody", "export", "arm.sdf", "--to", "rust", "--out", "out").startswith("wrote out")
    assert "pub fn forward_dynamics" in (tmp_path / "out" / "arm.rs").read_text()
