"""What another package adds: formats, languages, commands, groups, joints, forces, methods.

tests/foreign is such a package.
"""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.base.errors import DescriptionError, IntegrationError, LiebodyError, ModelError
from liebody.base.extensions import (
    COMMANDS,
    FORCES,
    GROUPS,
    JOINTS,
    METHODS,
    PRINTERS,
    READERS,
    extension,
    extensions,
)
from liebody.bodies import joint_named
from liebody.cli import main
from liebody.groups import group_named
from liebody.integrators import any_method, is_mechanical
from liebody.mechanisms import JointFriction, force_named

sys.path.insert(0, str(Path(__file__).parent))
import release

ROOT = Path(__file__).parents[1]
FOREIGN = ROOT / "tests" / "foreign"
PROJECT = tomllib.loads((FOREIGN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDED = [
    EntryPoint(name, value, group)
    for group, entries in PROJECT["entry-points"].items()
    for name, value in entries.items()
]

# Frames of its links are turned and lie beside their joints.
SDF = (FOREIGN / "arm.sdf").read_text(encoding="utf-8")


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
        ('<link name="upper">', '<frame/><link name="upper">', "<frame>"),
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
    with pytest.raises(LiebodyError, match=r"no_such_package:read of the package .*, which adds 'sdf'"):
        extension(READERS, "sdf")
    assert set(extensions(READERS)) == {"sdf"}
    assert extension(PRINTERS, "sdf") is None


def test_included_models_are_read_as_if_they_stood_in_the_file(added, arm):
    """The gripper's model stands in a file of its own, and is turned where it is included."""
    arm.with_name("gripper.sdf").write_text(
        """<sdf version="1.9"><model name="gripper">
  <link name="palm"><inertial><mass>0.5</mass>
    <inertia><ixx>0.001</ixx><iyy>0.001</iyy><izz>0.001</izz></inertia></inertial></link>
  <link name="finger"><pose>0.05 0 0 0 0 0</pose><inertial><mass>0.1</mass>
    <inertia><ixx>0.0001</ixx><iyy>0.0001</iyy><izz>0.0001</izz></inertia></inertial></link>
  <joint name="grip" type="prismatic"><parent>palm</parent><child>finger</child>
    <axis><xyz>1 0 0</xyz></axis></joint>
</model></sdf>"""
    )
    include = (
        '<include><uri>gripper.sdf</uri><name>hand</name><pose relative_to="lower">0 0 0.3 0 0 0.7</pose>'
    )
    held = '<joint name="wrist" type="fixed"><parent>lower</parent><child>hand::palm</child></joint>'
    arm.write_text(SDF.replace("</model>", f"{include}</include>{held}</model>"))
    robot = lb.load(arm)
    assert [body.joint.name for body in robot.tree.bodies if body.joint.dim] == [
        "shoulder",
        "slider",
        "hand::grip",
    ]
    q = np.array([0.7, -0.3, 0.02])
    lower = robot.pose(q, "lower_link")
    palm = lower @ moved(0, 0, 0.3) @ about([0, 0, 1], 0.7)
    np.testing.assert_allclose(robot.pose(q, "hand::palm_link"), palm, atol=1e-12)
    np.testing.assert_allclose(robot.pose(q, "hand::finger_link"), palm @ moved(0.07, 0, 0), atol=1e-12)
    arm.write_text(arm.read_text().replace("gripper.sdf", "../../gripper.sdf"))
    with pytest.raises(DescriptionError, match="outside"):
        lb.load(arm)
    arm.write_text(SDF.replace("</model>", "<include><uri>arm.sdf</uri></include></model>"))
    with pytest.raises(DescriptionError, match="includes itself"):
        lb.load(arm)


# -- groups, joints, forces, methods -------------------------------------------------------------------------


def test_a_group_by_its_name_integrates(added):
    """On the Heisenberg group velocities (a, b, 0) from the unit lead to a t, b t and a b t^2 / 2."""
    group = group_named("heisenberg")
    assert group.dim == 3 and group is group_named("heisenberg")
    solution = lb.solve_ivp(lambda t, g: np.array([0.5, -2.0, 0.0]), (0, 2), np.eye(3).ravel(), "heisenberg")
    np.testing.assert_allclose(solution.q[-1].reshape(3, 3), [[1, 1, -2], [0, 1, -4], [0, 0, 1]], atol=1e-9)
    body = lb.mechanisms.RigidBody("heisenberg", np.eye(3))
    # dv/dt = ad(v)^T v, by hand with [e1, e2] = e3 and M = 1
    v = np.array([0.3, -0.4, 1.5])
    rate = body.acceleration(v)
    np.testing.assert_allclose(rate, [-v[1] * v[2], v[0] * v[2], 0], atol=1e-14)
    for ours, given in (("SO3", ()), ("Helical", ([0, 0, 1], 0.1)), ("R", (3,))):
        assert isinstance(group_named(ours, *given), lb.groups.LieGroup)
    with pytest.raises(
        ModelError, match=r"no group 'heisenburg'; .*SE3.*heisenberg; did you mean 'heisenberg'"
    ):
        group_named("heisenburg")
    with pytest.raises(ModelError, match="no arguments; leave them out"):
        group_named("heisenberg", 3)
    with pytest.raises(ModelError, match=r"Helical\(axis, pitch, point\) cannot be called so: .*'axis'"):
        group_named("Helical")


def test_a_joint_by_its_name_in_builders_and_in_a_urdf(added, tmp_path):
    """A nut of 2 kg on a vertical screw: a turn lifts it by the lead, against its weight m g lead / 2 pi."""
    ball = lb.SpatialInertia.sphere(2.0, 0.1)
    built = lb.Robot(lb.TreeBuilder("press").add("nut", "leadscrew", ball).build())
    assert built.tree.bodies[0].joint.name == "nut" and built.tree.bodies[0].joint.damping == 0.002
    np.testing.assert_allclose(built.gravity([0.3]), 2 * 9.81 * 0.005 / (2 * np.pi), rtol=1e-14)
    np.testing.assert_allclose(built.pose([2 * np.pi], "nut")[:3, 3], [0, 0, 0.005], atol=1e-15)
    system = lb.SystemBuilder("press").body("nut", ball).joint("screw", "leadscrew", "world", "nut").build()
    assert system.nv - system.nc == 1
    path = tmp_path / "press.urdf"
    path.write_text(
        """<robot name="press"><link name="base"/><link name="nut"><inertial><mass value="2"/>
<inertia ixx="0.008" iyy="0.008" izz="0.008" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="screw" type="leadscrew"><parent link="base"/><child link="nut"/><axis xyz="0 0 2"/>
<limit lower="-10" upper="20" effort="3" velocity="5"/><dynamics damping="0.1"/></joint></robot>"""
    )
    joint = lb.load(path).tree.bodies[0].joint
    assert (joint.name, joint.lower, joint.upper, joint.effort_limit, joint.damping) == (
        "screw",
        -10,
        20,
        3,
        0.1,
    )
    np.testing.assert_allclose(lb.load(path).gravity([0.3]), built.gravity([0.3]), rtol=1e-14)
    path.write_text(path.read_text().replace("leadscrew", "ballscrew"))
    with pytest.raises(DescriptionError, match=r"unknown type 'ballscrew'.*revolute.*leadscrew"):
        lb.load(path)
    longer = joint_named("leadscrew", [1, 0, 0], lead=0.02)
    np.testing.assert_allclose(longer.pose([np.pi])[:3, 3], [0.01, 0, 0], atol=1e-15)
    with pytest.raises(ModelError, match=r"no joint 'ballscrew'; .*revolute.*leadscrew"):
        lb.TreeBuilder("press").add("nut", "ballscrew", ball)
    spherical = lb.TreeBuilder("ball").add("ball", "spherical", ball).build()
    assert spherical.nv == 3
    with pytest.raises(ModelError, match=r"Revolute\(axis, point\) cannot be called so"):
        lb.TreeBuilder("ball").add("ball", "revolute", ball)


def test_a_force_by_its_name_acts(added, tmp_path):
    """A wheel with drag c v |v| alone: v(t) = v0 / (1 + c v0 t / I)."""
    wheel = lb.TreeBuilder("wheel").add(
        "wheel", lb.groups.Revolute([0, 0, 1]), lb.SpatialInertia.sphere(1, 1)
    )
    robot = lb.Robot(wheel.build())
    inertia = robot.mass_matrix([0.0])[0, 0]
    expected = 3 / (1 + 0.1 * 3 * 2 / inertia)
    for forces in ("drag", ["drag"], force_named("drag"), [force_named("drag", c=0.1)]):
        run = lb.simulate(robot, [0.0], [3.0], t_end=2.0, forces=forces)
        np.testing.assert_allclose(run.v[-1], expected, rtol=1e-8)
        assert run.metadata["forces"] == "Drag"
    stepper = lb.stepper(robot, dt=1e-3, forces="drag")
    assert stepper.step(stepper.start([0.0], [3.0])).v < 3
    system = lb.hybrid.robot_system(robot, "drag")
    np.testing.assert_allclose(system.simulate([0.0], [3.0], t_end=2.0).v[-1], expected, rtol=1e-6)
    assert force_named("drag") is force_named("drag")  # what is compiled for it is found again
    assert pickle.loads(pickle.dumps(force_named("drag"))) == force_named("drag")
    with pytest.raises(ModelError, match=r"no force 'drug'; .*friction.*drag; did you mean 'drag'"):
        lb.simulate(robot, [0.0], t_end=1.0, forces="drug")
    with pytest.raises(ModelError, match=r"Drag\(c\) cannot be called so: .*'mass'"):
        force_named("drag", mass=1.0)
    command = ["simulate", "double_pendulum", "--t-end", "0.01", "--dt", "1e-3"]
    done = CliRunner().invoke(main, [*command, "--forces", "drag, friction", "--method", "heun3"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, [*command, "--forces", "drug"])
    assert done.exit_code == 2 and "did you mean 'drag'" in done.output


def test_a_method_by_its_name_steps(added):
    """Of dx/dt = -x, Heun's method of order three makes of one step h the factor 1 - h + h^2/2 - h^3/6."""
    h = 0.1
    factor = 1 - h + h**2 / 2 - h**3 / 6
    solution = lb.solve_ivp(lambda t, x: -x, (0, 1), [1.0], lb.groups.R(1), method="heun3", dt=h)
    np.testing.assert_allclose(solution.q[-1], factor**10, rtol=1e-13)
    robot = lb.load("double_pendulum")
    run = lb.simulate(robot, [1.0, 0.5], t_end=0.5, dt=1e-3, method="heun3")
    assert run.metadata["method"] == "heun3" and not is_mechanical("heun3")
    object_run = lb.simulate(robot, [1.0, 0.5], t_end=0.5, dt=1e-3, method=any_method("heun3"))
    assert np.array_equal(run.q, object_run.q)
    with pytest.raises(IntegrationError, match=r"no method 'huen3'.*known are rkmk1, .*heun3"):
        lb.simulate(robot, [1.0, 0.5], t_end=0.5, dt=1e-3, method="huen3")
    with pytest.raises(
        IntegrationError, match="no method 'heun3' for mechanical systems: a package adds it as"
    ):
        lb.integrators.mechanical_method("heun3")


def replaced(monkeypatch, *entries):
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints(entries).select)


def test_names_of_liebody_stay(added, monkeypatch):
    replaced(
        monkeypatch,
        EntryPoint("SO3", "liebody_foreign.mechanics:HEISENBERG", GROUPS),
        EntryPoint("spherical", "liebody_foreign.mechanics:leadscrew", JOINTS),
        EntryPoint("revolute", "liebody_foreign.mechanics:leadscrew", JOINTS),
        EntryPoint("friction", "liebody_foreign.mechanics:Drag", FORCES),
        EntryPoint("rkmk4", "liebody_foreign.mechanics:HEUN3", METHODS),
        EntryPoint("info", "liebody_foreign.command:travel", COMMANDS),
    )
    assert group_named("SO3") is lb.groups.SO3
    assert joint_named("spherical") == lb.groups.Spherical()
    assert force_named("friction") == JointFriction()
    assert any_method("rkmk4").name == "rk4"
    assert "shoulder" not in CliRunner().invoke(main, ["travel", "1"]).output
    assert CliRunner().invoke(main, ["info", "double_pendulum"]).exit_code == 0
    text = """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="TYPE"><parent link="a"/>
<child link="b"/></joint></robot>"""
    tree = lb.io.load_description(text.replace("TYPE", "revolute"), check=False)
    assert isinstance(tree.bodies[0].joint.group, lb.groups.Revolute)
    with pytest.raises(DescriptionError, match="unknown type 'spherical'"):
        lb.io.load_description(text.replace("TYPE", "spherical"))


def test_names_of_liebody_are_found_without_a_look_at_packages(monkeypatch):
    """The metadata of all installed packages takes milliseconds to read, and a call much less."""

    def refuse(**_):
        raise AssertionError("installed packages were looked at")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    assert isinstance(joint_named("revolute", [0, 0, 1]), lb.groups.Revolute)
    assert group_named("SO3") is lb.groups.SO3
    assert force_named("friction") == JointFriction()
    for name in ("rkmk4", "dop853", "cf4"):
        assert not is_mechanical(name)
        any_method(name)
    assert is_mechanical("variational") and is_mechanical("radau5")
    robot = lb.load("double_pendulum")
    run = lb.simulate(robot, [1.0, 0.5], t_end=0.01, dt=1e-3, method="rkmk4", forces="damping")
    assert run.metadata["method"] == "rk4"


def test_a_tableau_without_its_prefix_is_a_name_of_liebody(added, monkeypatch):
    """`dop853` is short for `rkmk-dop853`: a mechanical method of a package does not take its place."""
    replaced(monkeypatch, EntryPoint("dop853", "liebody.integrators:Variational", METHODS))
    assert not is_mechanical("dop853")
    assert any_method("dop853") == any_method("rkmk-dop853")
    with pytest.raises(IntegrationError, match="no method 'dop853' for mechanical systems"):
        lb.integrators.mechanical_method("dop853")


def test_a_broken_package_is_named(added, monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text(
        "def fails():\n    raise OSError('no licence')\n\nNUMBER = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    calls = [
        (GROUPS, group_named),
        (JOINTS, joint_named),
        (FORCES, force_named),
        (METHODS, any_method),
    ]
    for group, call in calls:
        for value, said in [
            (
                "broken_package.absent:x",
                "of the package broken_package, which adds 'new' to .* cannot be imported",
            ),
            ("broken_package:absent", "cannot be imported: .*absent.* Mend or uninstall broken_package"),
            ("broken_package:fails", "of the package broken_package, .* raised OSError: no licence"),
            ("broken_package:NUMBER", "of the package broken_package, .* is 3, expected a"),
            ("broken_package:int", "cannot be imported"),
        ]:
            replaced(monkeypatch, EntryPoint("new", value, group))
            with pytest.raises(LiebodyError, match=said):
                call("new")
        replaced(monkeypatch, *(EntryPoint("new", f"broken_package:{x}", group) for x in ("a", "b")))
        with pytest.raises(LiebodyError, match="2 packages add 'new' to"):
            call("new")
    replaced(monkeypatch, EntryPoint("new", "broken_package:NUMBER", COMMANDS))
    assert CliRunner().invoke(main, ["--help"]).exit_code == 0
    done = CliRunner().invoke(main, ["new"])
    assert done.exit_code == 2 and "a package adds 3 as the command 'new'" in done.output
    replaced(monkeypatch, EntryPoint("new", "broken_package.absent:x", COMMANDS))
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0 and "Cannot be used" in done.output
    done = CliRunner().invoke(main, ["new", "--option", "word"])
    assert done.exit_code == 2 and "of the package broken_package" in done.output


def test_a_command_of_another_package_is_listed_and_runs(added):
    assert "travel" in CliRunner().invoke(main, ["--help"]).output
    done = CliRunner().invoke(main, ["travel", "4", "--lead", "0.01"])
    assert (done.exit_code, done.output) == (0, "0.04 m\n")


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
def test_the_package_is_installed_beside_a_wheel_and_used(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("liebody-*.whl")
    release.try_wheel(wheel)
