"""FMUs of FMI 3.0: FMPy finds them valid, and simulates them as liebody does, by both kinds."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.base.errors import CompilerError, LiebodyError, ModelError, ShapeError
from liebody.bodies import Joint
from liebody.cli import main
from liebody.contact import Contact, TimeStepping
from liebody.groups import Prismatic, Revolute
from liebody.hybrid import Fall, controller_2, robot_system
from liebody.mechanisms.constrained import ClosedTree
from liebody.scalars import sin

fmpy = pytest.importorskip("fmpy", reason="FMPy, which checks and simulates FMUs, is not installed")
from fmpy import read_model_description, simulate_fmu  # noqa: E402
from fmpy.fmi3 import FMU3Model, FMU3Slave  # noqa: E402
from fmpy.validation import validate_fmu  # noqa: E402

DOUBLES = ctypes.POINTER(ctypes.c_double)
KINDS = ["CoSimulation", "ModelExchange"]


def states(result, letter="q"):
    """The columns of q or v, in order."""
    names = [name for name in result.dtype.names if name.startswith((f"{letter}.", f"{letter}["))]
    return np.array([result[name] for name in names]).T


def simulated(file, kind, t_end, interval, **options):
    return simulate_fmu(
        str(file),
        fmi_type=kind,
        stop_time=t_end,
        output_interval=interval,
        relative_tolerance=1e-9,
        **options,
    )


def compiled_clean(file, *more):
    """What a compiler that is asked for all warnings says of the source."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("neither gcc nor clang is installed")
    with zipfile.ZipFile(file) as archive:
        (name,) = [x for x in archive.namelist() if x.endswith(".c")]
        source = archive.read(name)
    command = [compiler, *"-std=c99 -Wall -Wextra -Wconversion -pedantic -fsyntax-only -x c -".split(), *more]
    return subprocess.run(command, input=source, capture_output=True, check=False).stderr.decode()


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """An arm with a free parameter and an output, and its FMU."""
    robot = lb.load("double_pendulum").with_parameters("link2.mass")
    file = lb.export_fmu(
        tmp_path_factory.mktemp("fmu") / "arm.fmu",
        robot,
        q0=[0.4, -0.3],
        v0=[1.0, 2.0],
        dt=1e-3,
        outputs=lambda t, q, v, u, p: {"tip": robot.pose(q, frame="link2")[:3, 3], "speed": v @ v},
    )
    return robot, file


@pytest.mark.parametrize("kind", KINDS)
def test_a_robot_moves_as_in_a_simulation(arm, kind):
    robot, file = arm
    assert validate_fmu(str(file)) == []
    run = lb.simulate(robot, [0.4, -0.3], [1.0, 2.0], t_end=1.0, dt=1e-3, record_every=0.1)
    result = simulated(file, kind, 1.0, 0.1)
    # Co-Simulation takes the same steps; FMPy's CVode integrates with its tolerance
    atol = 1e-12 if kind == "CoSimulation" else 1e-6
    np.testing.assert_allclose(states(result), run.q, atol=atol)
    np.testing.assert_allclose(states(result, "v"), run.v, atol=10 * atol)
    tip = robot.pose(states(result), frame="link2")[:, :3, 3]
    for i in range(3):
        np.testing.assert_allclose(result[f"tip[{i + 1}]"], tip[:, i], atol=1e-12)
    np.testing.assert_allclose(result["speed"], (states(result, "v") ** 2).sum(1), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_efforts_are_inputs_and_parameters_are_tunable(arm, kind):
    robot, file = arm
    t = np.linspace(0, 0.5, 6)
    # a constant effort and another mass; FMPy interpolates inputs, and Co-Simulation holds them
    signals = np.zeros(2, dtype=[("time", float), ("tau.link2", float)])
    signals["time"], signals["tau.link2"] = [0, 1], 0.7
    result = simulated(file, kind, 0.5, 0.1, input=signals, start_values={"link2.mass": 1.6})
    run = lb.simulate(
        robot, [0.4, -0.3], [1.0, 2.0], t_end=0.5, dt=1e-3, tau=[0.0, 0.7],
        parameters={"link2.mass": 1.6}, t_eval=t,
    )  # fmt: skip
    np.testing.assert_allclose(states(result), run.q, atol=1e-12 if kind == "CoSimulation" else 1e-6)


def test_error_control_follows_the_importers_tolerance(tmp_path):
    robot = lb.load("double_pendulum")
    file = lb.export_fmu(tmp_path / "arm.fmu", robot, q0=[1.0, 0.5], method="rkmk45")
    run = lb.simulate(robot, [1.0, 0.5], t_end=2.0, rtol=1e-12, atol=1e-13, record_every=1.0)
    errors = []
    for tolerance in (1e-4, 1e-8):
        result = simulate_fmu(
            str(file),
            fmi_type="CoSimulation",
            stop_time=2.0,
            output_interval=1.0,
            relative_tolerance=tolerance,
        )
        errors.append(np.abs(states(result) - run.q).max())
    assert errors[1] < 1e-6 and errors[1] < errors[0] / 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_floating_body_keeps_unit_quaternions(tmp_path, kind):
    body = lb.models.free_rigid_body()
    v0 = [3.0, -2.0, 1.0, 0.1, 0.2, 0.3]
    file = lb.export_fmu(tmp_path / "body.fmu", body, v0=v0)
    run = lb.simulate(body, body.neutral(), v0, t_end=2.0, dt=1e-3, record_every=0.5)
    result = simulated(file, kind, 2.0, 0.5)
    q = states(result)
    np.testing.assert_allclose(np.linalg.norm(q[:, :4], axis=1), 1, atol=1e-8)
    np.testing.assert_allclose(q, run.q, atol=1e-11 if kind == "CoSimulation" else 1e-6)


def hopper():
    controller = controller_2("foot", K_r=2200, r_des=0.1410659, D_r=20, K_p=6, K_E=10, E_des=2.8382)
    floor = Contact("foot", damping=300.0)
    return robot_system(lb.models.revolute_hopper(), controller, floor, Fall(0.03))


HOP = [-2.5243, 2.7676, 0.2574, 1.7802], [0.3301, -0.1919, 0.1263, 0.0]


@pytest.fixture(scope="module")
def hopping(tmp_path_factory):
    """A hopper, its FMU, and a run of two hops."""
    system = hopper()
    folder = tmp_path_factory.mktemp("fmu")
    file = lb.export_fmu(folder / "hopper.fmu", system, q0=HOP[0], v0=HOP[1], inputs="E_des")
    run = system.simulate(*HOP, t_end=0.7, record_every=0.05)
    assert len(run.events.t) == 4  # two touch-downs, two lift-offs
    return file, run


@pytest.mark.parametrize("kind", KINDS)
def test_a_hopper_lands_and_lifts_off(hopping, kind):
    file, run = hopping
    assert validate_fmu(str(file)) == []
    result = simulated(file, kind, 0.7, 0.05, record_events=False)
    # importers end steps where they like: forces change between 1e-5 s and CVode's steps
    np.testing.assert_allclose(states(result), run.q, atol=1e-8 if kind == "CoSimulation" else 2e-6)
    np.testing.assert_allclose(
        result["potential_energy"],
        run.outputs["potential_energy"],
        atol=1e-7 if kind == "CoSimulation" else 1e-4,
    )


def test_a_terminal_state_ends_the_simulation(tmp_path):
    file = lb.export_fmu(tmp_path / "hopper.fmu", hopper(), q0=HOP[0], v0=HOP[1], kinds="cs")
    fallen = simulated(file, "CoSimulation", 5.0, 0.01, start_values={"fall_height": 0.15})
    run = hopper().simulate(*HOP, t_end=5.0, record_every=0.01, parameters={"fall_height": 0.15})
    assert run.end_times < 1  # it stops
    assert abs(fallen["time"][-1] - run.end_times) < 0.02


def slider_crank():
    r, length = 0.1, 0.35
    upwards = Revolute([0, -1, 0])
    builder = lb.SystemBuilder("slider-crank")
    for name, mass, size in (("crank", 1.0, r), ("rod", 2.0, length)):
        builder.body(name, lb.SpatialInertia.rod(mass, size, com=[size / 2, 0, 0]))
    builder.body("piston", lb.SpatialInertia(0.7, rotational=1e-3 * np.eye(3)))
    builder.joint("crank", upwards, "world", "crank")
    builder.joint("knee", upwards, "crank", "rod", on_parent=[r, 0, 0])
    builder.joint("slide", Prismatic([1, 0, 0]), "world", "piston")
    builder.joint("pin", upwards, "rod", "piston", on_parent=[length, 0, 0])
    return builder.drive("crank", lambda t: 10 * t + 0.3 * sin(5 * t)).build()


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    """A slider-crank with a drive, and its FMU."""
    engine = slider_crank()
    return engine, lb.export_fmu(tmp_path_factory.mktemp("fmu") / "engine.fmu", engine)


@pytest.mark.parametrize("kind", KINDS)
def test_a_driven_slider_crank_stays_on_its_constraints(driven, kind):
    engine, file = driven
    run = lb.simulate(engine, t_end=0.5, dt=1e-3, method="rkmk4", record_every=0.1)
    result = simulated(file, kind, 0.5, 0.1)
    result = result[np.isin(result["time"].round(9), run.t.round(9))]
    times, first = np.unique(result["time"].round(9), return_index=True)
    assert len(times) == len(run.t)
    np.testing.assert_allclose(states(result)[first], run.q, atol=1e-12 if kind == "CoSimulation" else 1e-6)


def test_a_controller_has_inputs_and_outputs_alone(tmp_path):
    law = lb.compiler.trace(
        lambda t, q, K: {"tau": -K * q, "clock": sin(t)}, {"t": (), "q": 2, "K": 2}, "law"
    )
    file = lb.export_fmu(tmp_path / "law.fmu", law, parameters={"K": [3.0, 4.0]})
    assert validate_fmu(str(file)) == []
    for kind in KINDS:
        result = simulated(file, kind, 0.2, 0.1, start_values={"q[2]": 0.5})
        np.testing.assert_array_equal(result["tau[2]"], [-2.0] * 3)
        np.testing.assert_allclose(result["clock"], np.sin(result["time"]), atol=1e-15)
    assert compiled_clean(file) == ""


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_tree_and_a_long_robot(tmp_path, kind):
    robot = lb.load((Path(__file__).parent / "mjcf" / "loops.xml").read_text())
    closed = ClosedTree(robot.tree, robot.tree.closures)
    q0 = closed.assemble(robot.neutral())
    file = lb.export_fmu(tmp_path / "closed.fmu", closed, q0=q0)
    run = lb.simulate(closed, q0, t_end=0.5, dt=1e-3, method="rkmk4", record_every=0.5)
    result = simulated(file, kind, 0.5, 0.5)
    np.testing.assert_allclose(states(result)[-1], run.q[-1], atol=1e-11 if kind == "CoSimulation" else 1e-6)
    chain = lb.models.planar_chain(40)  # long enough for loops over its links
    q0 = np.linspace(0.1, 0.5, chain.nq)
    file = lb.export_fmu(tmp_path / "chain.fmu", chain, q0=q0)
    run = lb.simulate(chain, q0, t_end=0.1, dt=1e-3, method="rkmk4", record_every=0.1)
    result = simulated(file, kind, 0.1, 0.1)
    np.testing.assert_allclose(states(result)[-1], run.q[-1], atol=1e-11 if kind == "CoSimulation" else 1e-6)


def unpacked(file, tmp_path, kind="ModelExchange"):
    """An instance after its initialization."""
    folder = tmp_path / "unpacked"
    if not folder.exists():  # a loaded library must not be written again
        fmpy.extract(str(file), str(folder))
    description = read_model_description(str(folder))
    numbers = {x.name: x.valueReference for x in description.modelVariables}
    make, part = {
        "ModelExchange": (FMU3Model, description.modelExchange),
        "CoSimulation": (FMU3Slave, description.coSimulation),
    }[kind]
    assert part.providesAdjointDerivatives
    model = make(
        guid=description.guid,
        unzipDirectory=str(folder),
        modelIdentifier=part.modelIdentifier,
        instanceName="one",
    )
    model.instantiate()
    model.enterInitializationMode()
    model.exitInitializationMode()
    return model, numbers


def test_directional_derivatives_are_those_of_difference_quotients(arm, tmp_path):
    _, file = arm
    model, numbers = unpacked(file, tmp_path)
    model.updateDiscreteStates()
    knowns = [numbers[x] for x in ("q.link1", "q.link2", "v.link1", "v.link2")]
    unknowns = [numbers[x] for x in ("der(v.link1)", "der(v.link2)", "tip[1]", "speed")]
    seed = np.array([0.3, -0.2, 0.5, 0.1])
    exact = np.array(model.getDirectionalDerivative(unknowns, knowns, seed))
    model.enterContinuousTimeMode()
    x = np.array([0.4, -0.3, 1.0, 2.0])
    values = []
    for h in (1e-6, -1e-6):
        point = x + h * seed
        model.setContinuousStates(point.ctypes.data_as(DOUBLES), 4)
        values.append(np.array(model.getFloat64(unknowns)))
    np.testing.assert_allclose((values[0] - values[1]) / 2e-6, exact, rtol=1e-7, atol=1e-7)
    by_effort = model.getDirectionalDerivative(unknowns, [numbers["tau.link1"]], [1.0])
    assert by_effort[2:] == [0.0, 0.0] and by_effort[0] > 0
    model.terminate()
    model.freeInstance()


def derivatives_of(description):
    """Numbers of all unknowns and knowns that derivatives may have."""
    variables = description.modelVariables[1:]  # all but time
    states = [x.derivative.valueReference for x in variables if x.derivative is not None]
    rates = [x.valueReference for x in variables if x.derivative is not None]
    outputs = [x.valueReference for x in variables if x.causality == "output"]
    given = [x.valueReference for x in variables if x.causality in ("input", "parameter")]
    return sorted({*states, *rates, *outputs}), sorted({*states, *given})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["arm", "hopper", "engine", "body", "law"])
def test_adjoint_derivatives_are_the_transpose_of_directional_ones(which, kind, tmp_path, request):
    """J^T w by one call, J by the columns of directional derivatives: of every unknown by every known."""
    if which == "body":  # a quaternion that is not unit, as between the steps of an importer
        file = lb.export_fmu(tmp_path / "body.fmu", lb.models.free_rigid_body(), v0=[3, -2, 1, 0.1, 0.2, 0.3])
    elif which == "law":
        law = lb.compiler.trace(lambda q, K: {"tau": -K * q * q, "sum": K @ q}, {"q": 2, "K": 2}, "law")
        file = lb.export_fmu(tmp_path / "law.fmu", law, parameters={"K": [3.0, 4.0], "q": [0.5, -0.7]})
    else:
        fixture = {"arm": "arm", "hopper": "hopping", "engine": "driven"}[which]
        file = next(x for x in request.getfixturevalue(fixture) if isinstance(x, Path))
    model, numbers = unpacked(file, tmp_path, kind)
    unknowns, knowns = derivatives_of(read_model_description(str(file)))
    if which == "body" and kind == "ModelExchange":
        model.updateDiscreteStates()
        model.enterContinuousTimeMode()
        x = np.array(model.getFloat64(sorted(numbers[n] for n in numbers if n[:2] in ("q.", "v."))))
        x[:4] = [1.2, 0.1, -0.3, 0.2]
        model.setContinuousStates(x.ctypes.data_as(DOUBLES), len(x))
    J = np.array([model.getDirectionalDerivative(unknowns, [k], [1.0]) for k in knowns]).T
    w = np.random.default_rng(0).normal(size=len(unknowns))
    gradient = np.array(model.getAdjointDerivative(unknowns, knowns, w, len(knowns)))
    assert np.abs(J).max() > 0.1
    # In a slider-crank in space constraints depend on each other: difference quotients of its accelerations
    # agree with derivatives by either way to 1e-7 of the largest one.
    accuracy = 1e-6 if which == "engine" else 1e-10
    np.testing.assert_allclose(gradient, w @ J, rtol=accuracy, atol=accuracy * np.abs(J).max())
    # some of them, in another order, and one twice
    some = [knowns[-1], knowns[0], knowns[-1]]
    again = model.getAdjointDerivative([unknowns[-1]], some, [2.0], len(some))
    np.testing.assert_allclose(again, 2 * J[-1, [-1, 0, -1]], rtol=accuracy, atol=accuracy * np.abs(J).max())
    model.freeInstance()


def test_derivatives_of_other_variables_are_refused(hopping, tmp_path):
    file, _ = hopping
    model, numbers = unpacked(file, tmp_path)
    guard = next(numbers[name] for name in numbers if name.startswith("guard."))
    for unknown, known in ((guard, numbers["q.base.y"]), (numbers["der(q.base.y)"], guard)):
        with pytest.raises(Exception, match="fmi3GetAdjointDerivative"):
            model.getAdjointDerivative([unknown], [known], [1.0])
    model.freeInstance()


def test_parameters_have_the_units_of_their_quantities(tmp_path):
    """By names of `robot.parameters`, also of a hybrid system; a gain of one's own has none."""
    slide = Joint("joint1", Prismatic([1, 0, 0]), damping=1.0)
    hinge = Joint("joint2", Revolute([0, 1, 0]), damping=1.0)
    tree = (
        lb.TreeBuilder("crane")
        .add("joint1", slide, lb.SpatialInertia.sphere(2.0, 0.1))
        .add("joint2", hinge, lb.SpatialInertia.sphere(1.0, 0.1), "joint1")
        .build()
    )
    kinds = ["mass", "center", "inertia", "position", "orientation", "damping", "armature", "stiffness"]
    free = [f"joint2.{kind}" for kind in kinds] + ["joint1.damping", "joint1.stiffness", "gravity"]
    robot = lb.Robot(tree).with_parameters(*free, {"K": 3.0})
    expected = {
        "joint2.mass": "kg", "joint2.center[1]": "m", "joint2.inertia[4]": "kg m2",
        "joint2.position[3]": "m", "joint2.orientation[1]": None, "joint2.damping": "N m s/rad",
        "joint2.armature": "kg m2", "joint2.stiffness": "N m/rad", "gravity[3]": "m/s2",
        "joint1.damping": "N s/m", "joint1.stiffness": "N/m", "K": None,
    }  # fmt: skip
    file = lb.export_fmu(tmp_path / "crane.fmu", robot, binaries=())
    system = lb.hybrid.robot_system(robot, Fall(-10.0))
    hybrid = lb.export_fmu(tmp_path / "hybrid.fmu", system, binaries=())
    for x in (file, hybrid):
        assert validate_fmu(str(x)) == []
        description = read_model_description(str(x))
        units = {v.name: v.unit for v in description.modelVariables}
        assert {name: units[name] for name in expected} == expected
        # a unit says how it is made of those of SI
        (damping,) = [u for u in description.unitDefinitions if u.name == "N m s/rad"]
        b = damping.baseUnit
        assert (b.kg, b.m, b.s, b.rad, b.K) == (1, 2, -1, -1, 0)


def test_states_are_kept_and_several_instances_do_not_mix(arm, tmp_path):
    _, file = arm
    model, numbers = unpacked(file, tmp_path)
    other, _ = unpacked(file, tmp_path)
    q = [numbers["q.link1"]]
    kept = model.getFMUState()
    saved = model.serializeFMUState(kept)
    model.updateDiscreteStates()
    model.enterContinuousTimeMode()
    x = np.array([1.0, 2.0, 3.0, 4.0])
    model.setContinuousStates(x.ctypes.data_as(DOUBLES), 4)
    assert model.getFloat64(q) == [1.0] and other.getFloat64(q) == [0.4]
    model.setFMUState(kept)
    assert model.getFloat64(q) == [0.4]
    model.freeFMUState(kept)
    again = other.deserializeFMUState(saved)
    other.setFMUState(again)
    assert other.getFloat64(q) == [0.4]
    other.freeFMUState(again)
    for instance in (model, other):
        instance.terminate()
        instance.freeInstance()


def test_wrong_calls_are_refused_with_a_reason(arm, tmp_path):
    _, file = arm
    model, numbers = unpacked(file, tmp_path)
    with pytest.raises(Exception, match="fmi3GetFloat64"):
        model.getFloat64([10_000])
    with pytest.raises(Exception, match="fmi3SetFloat64"):
        model.setFloat64([numbers["speed"]], [1.0])  # an output
    with pytest.raises(Exception, match="fmi3SetFloat64"):
        model.setFloat64([numbers["q.link1"]], [1.0])  # a state, after initialization
    model.setFloat64([numbers["link2.mass"]], [2.0])  # tunable
    model.freeInstance()


def test_sources_have_no_warnings_and_bytes_do_not_depend_on_the_day(arm, hopping, tmp_path):
    for file in (arm[1], hopping[0]):
        assert compiled_clean(file, "-Wno-overlength-strings") == ""
    robot = lb.load("double_pendulum")
    one, other = (
        lb.export_fmu(tmp_path / x / "a.fmu", robot, binaries={})
        for x in (_made(tmp_path, "1"), _made(tmp_path, "2"))
    )
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert not any(name.startswith("binaries") for name in archive.namelist())


def _made(folder, name):
    (folder / name).mkdir()
    return name


def test_what_cannot_be_exported_is_refused(tmp_path):
    robot, file = lb.load("double_pendulum"), tmp_path / "a.fmu"
    with pytest.raises(ModelError, match="kinds is"):
        lb.export_fmu(file, robot, kinds="scheduled")
    with pytest.raises(LiebodyError, match="radau5"):
        lb.export_fmu(file, robot, method="radau5")
    with pytest.raises(ModelError, match="inputs and memory belong to hybrid systems"):
        lb.export_fmu(file, robot, inputs="tau")
    with pytest.raises(ModelError, match="there is no parameter 'E_dis'"):
        lb.export_fmu(file, hopper(), inputs="E_dis")
    with pytest.raises(ModelError, match="outputs belongs to robots"):
        lb.export_fmu(file, hopper(), outputs=lambda t, q, v, u: {})
    block = lb.TreeBuilder("ball").add("ball", lb.groups.Free(), lb.SpatialInertia.sphere(2.0, 0.1)).build()
    with pytest.raises(ModelError, match="steps of its own"):
        lb.export_fmu(file, TimeStepping(block, Contact("ball", radius=0.1, stiffness=1e6, friction=0.5)))
    with pytest.raises(ShapeError, match="one state"):
        lb.export_fmu(file, robot, q0=np.zeros((3, 2)))
    with pytest.raises(LiebodyError, match="model is 'double_pendulum', expected Robot"):
        lb.export_fmu(file, "double_pendulum")
    with pytest.raises(CompilerError, match="x86_64-beos"):
        lb.export_fmu(file, robot, binaries={"x86_64-beos": ["no-such-compiler"]})
    with pytest.raises(LiebodyError, match="cannot write"):
        lb.export_fmu(tmp_path / "none" / "a.fmu", robot, binaries={})


def test_the_command_line_exports_fmus(tmp_path):
    result = CliRunner().invoke(main, ["export", "double_pendulum", "--to", "fmu", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert validate_fmu(str(tmp_path / "double_pendulum.fmu")) == []
