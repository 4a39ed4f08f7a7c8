"""The command line: what a person types, what comes back, and what is refused in a line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody import models
from liebody.cli import DEMO_STEP, as_typed, main
from liebody_studies import STUDIES

COMMANDS = ("demo", "info", "simulate", "export")

SWING = """
<robot name="swing">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0 0 -0.5"/> <mass value="2"/>
      <inertia ixx="0.2" iyy="0.2" izz="0.01" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="hinge" type="continuous">
    <parent link="base"/> <child link="arm"/> <axis xyz="0 1 0"/>
  </joint>
  <gazebo reference="arm"/>
</robot>
"""


@pytest.fixture
def liebody(tmp_path, monkeypatch):
    """Runs the command in an empty folder that holds swing.urdf, and flying.urdf, whose base has mass."""
    monkeypatch.chdir(tmp_path)
    inertial = SWING[SWING.index("<inertial>") : SWING.index("  </link>")]
    flying = SWING.replace('<link name="base"/>', f'<link name="base">{inertial}</link>')
    (tmp_path / "flying.urdf").write_text(flying)
    (tmp_path / "swing.urdf").write_text(SWING)

    def run(*words):
        return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)

    return run


def row(text, name):
    """The numbers in the row of a summary."""
    found = next(line for line in text.splitlines() if line.split()[:1] == [name])
    return [float(x) for x in found.split()[2:]]


def test_help_teaches_every_command(liebody):
    assert all(f"liebody {name}" in liebody("--help").stdout for name in COMMANDS)
    for name in COMMANDS:
        text = liebody(name, "--help").stdout
        assert re.search(
            rf"^Examples:\n +liebody {name}", text.replace("  Examples", "Examples"), re.MULTILINE
        )


def test_the_installed_program_answers():
    program = shutil.which("liebody")
    if program is None:
        pytest.skip("liebody is not installed here")
    text = subprocess.run(
        [program, "--version"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert text.strip() == f"liebody {lb.__version__}"


@pytest.mark.wide
def test_demo_says_how_good_it_is_and_draws_a_picture(liebody, tmp_path):
    result = liebody("demo", "--out", "pictures")
    assert result.exit_code == 0
    assert (tmp_path / "pictures" / "demo.png").read_bytes().startswith(b"\x89PNG")
    run = lb.Run.load(tmp_path / "pictures" / "demo.nc")
    assert run.t[-1] == pytest.approx(10) and run.metadata["dt"] == DEMO_STEP
    assert run.energy_drift < 1e-7 and run.quaternion_error < 1e-14
    assert f"{run.energy_drift:.1e}" in result.stdout and result.stdout.count("steps/s") == 2


@pytest.mark.parametrize("model", models.names())
@pytest.mark.many
def test_every_bundled_model_has_information_and_moves(liebody, model):
    assert liebody("info", model).exit_code == 0
    start = ("--q0", "leg=0.12") if model == "prismatic_hopper" else ()  # point masses must lie apart
    result = liebody("simulate", model, "--t-end", "0.01", *start)
    assert result.exit_code == 0 and result.stdout.startswith(f"Run of {model}")


def test_info_of_a_file_lists_its_parts_once(liebody):
    result = liebody("info", "swing.urdf")
    assert result.exit_code == 0 and result.stderr == ""
    assert "arm" in result.stdout and "hinge" in result.stdout and result.stdout.count("gazebo") == 1


def test_info_of_a_description_that_cannot_be_gives_advice_instead_of_an_error(liebody, tmp_path):
    (tmp_path / "odd.urdf").write_text(SWING.replace('izz="0.01"', 'izz="5"'))
    result = liebody("info", "odd.urdf")
    assert result.exit_code == 0 and "arm" in result.stdout.split("Findings")[1]


def test_info_with_a_floating_base_has_six_more_degrees_of_freedom(liebody, tmp_path):
    moments = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    base = f'<link name="base"><inertial><mass value="1"/>{moments}</inertial></link>'
    (tmp_path / "free.urdf").write_text(SWING.replace('<link name="base"/>', base))
    assert "1 degree of freedom" in liebody("info", "free.urdf").stdout
    assert "7 degrees of freedom" in liebody("info", "free.urdf", "--floating").stdout


def test_simulate_says_the_same_as_the_library(liebody, tmp_path):
    words = [
        "--q0",
        "2,-0.5",
        "--v0",
        "0.1,0.2",
        "--t-end",
        "0.5",
        "--dt",
        "0.002",
        "--save",
        "run.nc",
        "--plot",
        "run.png",
    ]
    result = liebody("simulate", "double_pendulum", *words)
    assert result.exit_code == 0
    expected = lb.simulate(lb.load("double_pendulum"), [2, -0.5], [0.1, 0.2], t_end=0.5, dt=0.002)
    run = lb.Run.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(run.q, expected.q)
    np.testing.assert_array_equal(run.v, expected.v)
    assert expected.summary().splitlines()[-5:] == result.stdout.splitlines()[-7:-2]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote run.nc" in result.stdout and "wrote run.png" in result.stdout


def test_values_by_name_change_only_what_they_name(liebody):
    text = liebody(
        "simulate", "double_pendulum", "--q0", "link2=0.25", "--v0", " link1 = -3e-1 ", "--t-end", "0.01"
    ).stdout
    q, v = text.split("velocity")
    assert [row(q, "link1")[0], row(q, "link2")[0]] == [0, 0.25]
    assert [row(v, "link1")[0], row(v, "link2")[0]] == [-0.3, 0]


def test_efforts_act(liebody, tmp_path):
    liebody(
        "simulate",
        "swing.urdf",
        "--tau",
        "hinge=1.4",
        "--t-end",
        "0.001",
        "--dt",
        "0.001",
        "--save",
        "run.nc",
    )
    inertia = 0.2 + 2 * 0.5**2
    assert lb.Run.load(tmp_path / "run.nc").v[-1, 0] == pytest.approx(1.4 / inertia * 0.001, rel=1e-5)


def test_a_method_with_error_control_chooses_its_steps_unless_one_is_given(liebody):
    words = ["simulate", "double_pendulum", "--t-end", "0.1", "--q0", "1,0", "--method"]
    assert "rtol" in liebody(*words, "rkmk45").stdout
    assert "dt 0.01" in liebody(*words, "rkmk45", "--dt", "0.01").stdout
    assert "dt 0.001" in liebody(*words, "rkmk4").stdout
    # Without a method, too, the command line is as `simulate`.
    assert "dormand-prince, rtol" in liebody(*words[:-1]).stdout
    assert "rk4, dt 0.01" in liebody(*words[:-1], "--dt", "0.01").stdout


def test_seeds_make_runs_that_can_be_repeated(liebody, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        liebody("simulate", "spherical_pendulum", "--seed", seed, "--t-end", "0.01", "--save", f"{name}.nc")
    a, b, c = (lb.Run.load(tmp_path / f"{name}.nc").q for name in "abc")
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_members_are_random_states_that_threads_share(liebody, tmp_path):
    words = [
        "--seed",
        1,
        "--members",
        5,
        "--threads",
        2,
        "--t-end",
        "0.01",
        "--save",
        "run.nc",
        "--v0",
        "ball.wz=7",
    ]
    assert "batch (5,)" in liebody("simulate", "spherical_pendulum", *words).stdout
    run = lb.Run.load(tmp_path / "run.nc")
    assert run.batch == (5,) and len(np.unique(run.q[:, 0], axis=0)) == 5
    np.testing.assert_array_equal(run.v[:, 0, 2], 7)


def test_quaternions_may_be_typed_with_a_few_decimals(liebody, tmp_path):
    result = liebody(
        "simulate", "spherical_pendulum", "--q0", "0.7071,0.7071,0,0", "--t-end", "0.01", "--save", "run.nc"
    )
    assert result.exit_code == 0
    np.testing.assert_allclose(lb.Run.load(tmp_path / "run.nc").q[0], [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-15)


@pytest.mark.skipif(not (os.environ.get("CC") or shutil.which("cc")), reason="no C compiler")
def test_names_of_functions_are_completed():
    option = next(x for x in main.commands["export"].params if x.name == "functions")

    def completed(typed):
        return [item.value for item in option.shell_complete(click.Context(main.commands["export"]), typed)]

    assert completed("kin") == ["kinetic_energy"]
    assert "mass_matrix,bias_wrenches" in completed("mass_matrix,bias")
    assert completed("jacobian") == [], "it needs a frame"


def test_names_of_models_are_completed_and_else_files():
    source = main.commands["info"].params[0]
    found = source.shell_complete(click.Context(main.commands["info"]), "two")
    assert [(item.value, item.type) for item in found] == [("two_joint_hopper", "plain")]
    found = source.shell_complete(click.Context(main.commands["info"]), "./robo")
    assert [(item.value, item.type) for item in found] == [("./robo", "file")]


def test_limits_act_where_asked_for_and_are_named_where_they_do_not(liebody, tmp_path):
    stop = '<axis xyz="0 1 0"/> <limit lower="-0.5" upper="0.5" effort="9" velocity="9"/>'
    text = SWING.replace("continuous", "revolute").replace('<axis xyz="0 1 0"/>', stop)
    (tmp_path / "swing.urdf").write_text(text)
    words = ("simulate", "swing.urdf", "--q0", "0.4", "--v0", "3", "--t-end", "0.3")
    free, stopped = liebody(*words), liebody(*words, "--joints", "limits, damping")
    assert row(free.stdout, "hinge")[3] > 0.8 and "joints went beyond their limits" in free.stderr
    assert row(stopped.stdout, "hinge")[3] < 0.53 and stopped.stderr == ""


@pytest.mark.parametrize("made", [(), ("--floating",)])
@pytest.mark.parametrize("shown", [(), ("--floating",)])
def test_a_run_is_shown_on_the_base_that_it_has(liebody, made, shown, tmp_path):
    assert liebody("simulate", "flying.urdf", *made, "--t-end", "0.01", "--save", "run.nc").exit_code == 0
    result = liebody("view", "flying.urdf", "run.nc", *shown, "--out", "page.html")
    assert result.exit_code == 0 and result.stderr == "" and (tmp_path / "page.html").is_file()


def test_a_run_of_another_robot_is_refused(liebody):
    liebody("simulate", "double_pendulum", "--t-end", "0.01", "--save", "run.nc")
    for robot in ("swing.urdf", "puma560"):
        result = liebody("view", robot, "run.nc", "--out", "page.html")
        assert result.exit_code == 2
        assert "run.nc is a run of double_pendulum with 2 coordinates, and" in result.stderr


def test_methods_for_mechanical_systems_are_taken_with_a_default_step(liebody):
    for method in ("variational", "radau5"):
        result = liebody("simulate", "double_pendulum", "--t-end", "0.01", "--method", method)
        assert result.exit_code == 0 and f"method {method}" in result.stdout


def test_exported_source_passes_its_own_test_with_the_command_that_is_printed(liebody, tmp_path):
    result = liebody(
        "export", "swing.urdf", "--to", "c", "--out", "out", "--functions", "inverse_dynamics, mass_matrix"
    )
    assert result.exit_code == 0
    files = ["CMakeLists.txt", "swing.c", "swing.h", "swing_test.c"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == files
    header = (tmp_path / "out" / "swing.h").read_text()
    assert "swing_inverse_dynamics" in header and "swing_mass_matrix" in header and "forward" not in header
    command = result.stdout.strip().splitlines()[-1]
    test = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert test.returncode == 0 and "largest relative difference" in test.stdout


@pytest.mark.parametrize("words", [["demo"], ["simulate", "swing.urdf", "--plot", "run.png"]])
def test_pictures_without_matplotlib_are_refused_before_the_work(words, liebody, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = liebody(*words)
    assert result.exit_code == 2 and result.stdout == ""
    assert "for pictures: pip install matplotlib, or liebody with its extra 'plot'" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flying.urdf", "swing.urdf"]


@pytest.mark.parametrize(("suffix", "missing"), [(".gif", "PIL"), (".mp4", "imageio_ffmpeg")])
def test_films_that_cannot_be_written_are_refused_before_the_work(
    suffix, missing, liebody, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    result = liebody("simulate", "swing.urdf", "--save", f"run{suffix}")
    assert result.exit_code == 2 and result.stdout == "" and "pip install" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flying.urdf", "swing.urdf"]


def test_warnings_are_messages_and_what_has_no_effect_is_none(liebody, tmp_path):
    assert liebody("simulate", "swing.urdf", "--t-end", "0.01").stderr == ""
    (tmp_path / "swing.urdf").write_text(SWING.replace(' ixy="0" ixz="0" iyz="0"', ""))
    result = liebody("simulate", "swing.urdf", "--t-end", "0.01")
    assert result.exit_code == 0
    assert re.fullmatch(r"liebody: warning: swing\.urdf: .*products of inertia .*line 7\)\n", result.stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("info missing.urdf", "missing.urdf"),
        ("info .", "folder"),
        ("simulate missing.urdf", "missing.urdf"),
        ("simulate broken.urdf", "broken.urdf"),
        ("simulate double_pendulum --floating", "bundled model"),
        ("simulate double_pendulum --q0 1", "--q0 needs 2 numbers (link1, link2), not 1"),
        ("simulate swing.urdf --q0 1,0,0,0,0,0,0,0", "as a free base has: add --floating if it is to move"),
        ("simulate flying.urdf --floating --q0 0,0,1,1,0,0,0,0", "the order of MuJoCo and Pinocchio"),
        ("simulate double_pendulum --method RK45", "'rkmk45'"),
        ("simulate double_pendulum --q0 1,x", "'x' is not a number"),
        ("simulate double_pendulum --q0 link1=x", "'x' is not a number"),
        ("simulate double_pendulum --q0 link1=1,2", "'2' names no entry"),
        ("simulate double_pendulum --q0 link1=1,link1=2", "--q0 names 'link1' twice; give each entry one"),
        ("simulate double_pendulum --seed -1", "-1 is not in the range x>=0"),
        ("view double_pendulum run.nc --q0 1,2 --out x.html", "--q0 is a configuration, and RUN a motion"),
        ("simulate double_pendulum --v0 elbow=1", "there is no 'elbow'; known are link1, link2"),
        ("simulate double_pendulum --tau 1,2,3", "--tau needs 2 numbers"),
        ("simulate double_pendulum --q0 nan,0", "expected a finite number"),
        ("simulate spherical_pendulum --q0 1,2,3,4", "norm"),
        ("simulate double_pendulum --dt -1", "dt is -1.0"),
        ("simulate double_pendulum --t-end 0", "t_end"),
        ("simulate double_pendulum --method euler9", "no method 'euler9'"),
        ("simulate double_pendulum --v0 1e200,0", "not finite"),
        ("simulate double_pendulum --plot run.jpg", "pictures end in .png, .pdf or .svg"),
        ("simulate double_pendulum --save run.csv", "ends in .nc"),
        ("simulate double_pendulum --save no/run.nc", "there is no folder no"),
        ("simulate double_pendulum --members 3", "--seed"),
        ("simulate double_pendulum --threads 0", "--threads"),
        ("simulate double_pendulum --joints all", "joints cannot be 'all'; give 'ideal', 'real', or some of"),
        ("export double_pendulum --functions dance", "there is no function 'dance'"),
        ("export double_pendulum --functions ,", "no functions to export"),
        (
            "export double_pendulum --functions pose",
            "pose takes the options ['frame'], got []; give frame=...",
        ),
        ("export double_pendulum --functions mas_matrix", "did you mean 'mass_matrix'"),
        ("export double_pendulum --functions pose:tip", "'pose:tip' has an option without a value"),
        ("export double_pendulum --to fortran", "fortran"),
        ("demo --out swing.urdf", "swing.urdf"),
        ("demo --out swing.urdf/pictures", "swing.urdf"),
        ("dance", "dance"),
    ],
)
def test_errors_of_users_are_a_message_and_exit_status_2(liebody, tmp_path, words, message):
    (tmp_path / "broken.urdf").write_text("<robot")
    before = sorted(tmp_path.iterdir())
    result = liebody(*words.split())
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.stderr and result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "text", "typed"),
    [
        ("simulate", "act with joints='real'; floating=True", "act with --joints real; --floating"),
        ("simulate", 'take method="rkmk45", dt=0.1', "take --method rkmk45, --dt 0.1"),
        ("equations", "simplify=False does without", "--no-simplify does without"),
        ("equations", "symbols=True, joints='real'", "--symbols, joints='real'"),
        ("simulate", "floating=False, simplify=False, t = 3", "floating=False, simplify=False, t = 3"),
        (None, "floating=True", "floating=True"),
    ],
)
def test_messages_name_options_of_the_command(command, text, typed):
    found = main.get_command(click.Context(main), command) if command else None
    assert as_typed(text, found) == typed


def test_a_mistake_costs_no_traceback_in_a_process_of_its_own(tmp_path):
    call = [
        sys.executable,
        "-c",
        "from liebody.cli import main; main()",
        "info",
        str(tmp_path / "missing.urdf"),
    ]
    result = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1 and result.stderr.startswith("liebody: ")


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("command", [None, *main.list_commands(click.Context(main))])
def test_help_breaks_no_word_at_its_hyphen(command, width):
    text = CliRunner().invoke(main, [*filter(None, [command]), "--help"], terminal_width=width).output
    assert not re.findall(r"\w-$", text, re.MULTILINE) and "\u2011" not in text
    if command == "reproduce":
        for study in STUDIES:
            assert f"\n    {study}\n" in text


@pytest.mark.parametrize("command", ["info puma560", "equations double_pendulum", "reproduce --help"])
@pytest.mark.many
def test_a_reader_that_has_read_enough_hears_no_more(command):
    """As `liebody info robot.urdf | head -1` does."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "liebody", *command.split()], stdout=writer, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.stderr == ""
