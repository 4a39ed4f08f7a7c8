"""The bundled models: published numbers, closed forms, and what stays constant."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from click.testing import CliRunner
from scipy.integrate import solve_ivp

import liebody as lb
from liebody import dynamics, models
from liebody.base.errors import DescriptionError, LiebodyError, ModelError
from liebody.cli import main
from liebody.compiler import trace

MODELS = {
    "double_pendulum": models.double_pendulum,
    "double_pendulum on balls": lambda: models.double_pendulum(spherical=True),
    "spherical_pendulum": models.spherical_pendulum,
    "planar_chain": lambda: models.planar_chain(5),
    "free_rigid_body": models.free_rigid_body,
    "heavy_top": models.heavy_top,
    "puma560": models.puma560,
    "space_robot": models.space_robot,
}


@pytest.mark.parametrize("name", MODELS)
def test_mass_matrices_are_positive_definite(name):
    tree = MODELS[name]().tree
    for seed in range(5):
        q = tree.group.random(np.random.default_rng(seed))
        assert np.linalg.eigvalsh(dynamics.mass_matrix(tree, q)).min() > 1e-6


@pytest.mark.parametrize(
    "name", ["double_pendulum", "double_pendulum on balls", "spherical_pendulum", "planar_chain"]
)
def test_pendulums_hang_straight_down_at_rest_and_that_is_the_lowest_they_get(name):
    tree = MODELS[name]().tree
    q = tree.group.neutral()
    np.testing.assert_allclose(dynamics.gravity_forces(tree, q), 0, atol=1e-15)
    tip = dynamics.frame_pose(tree, q, "tip")[:3, 3]
    np.testing.assert_allclose(tip[:2], 0, atol=1e-15)
    lowest = dynamics.potential_energy(tree, q)
    for seed in range(5):
        assert dynamics.potential_energy(tree, tree.group.random(np.random.default_rng(seed))) > lowest


PLANAR = {
    *("double_pendulum", "planar_chain"),
    *("prismatic_hopper", "revolute_hopper", "two_joint_hopper", "three_joint_hopper"),
}


@pytest.mark.parametrize("name", models.names())
@pytest.mark.many
def test_bundled_models_fall_as_the_conventions_say(name):
    """Along the world's -z (the space robot: not at all); planar ones move in the world's x, z plane."""
    robot = getattr(models, name)(*[4] * (name == "planar_chain"))
    gravity = np.array([0, 0, 0 if name == "space_robot" else -9.81])
    np.testing.assert_array_equal(robot.gravity_vector, gravity)
    rng = np.random.default_rng(0)
    q, v = robot.random(rng), rng.standard_normal(robot.nv)
    R = robot.poses(q)[:, :3, :3]
    omega, velocity = np.einsum("nij,nkj->kni", R, robot.twists(q, v).reshape(len(R), 2, 3))
    out_of_plane = [np.abs(omega[:, [0, 2]]).max(), np.abs(velocity[:, 1]).max()]
    assert (max(out_of_plane) < 1e-12) == (name in PLANAR)
    if name in PLANAR:
        base = robot.tree.bodies[0].placement[:3, :3]
        np.testing.assert_array_equal(base.T @ gravity, [0, -9.81, 0])


# -- the Puma -----------------------------------------------------------------------------------------------

NOMINAL = np.array([0, np.pi / 4, np.pi, 0, np.pi / 4, 0])

MASS_MATRIX = [
    [3.6594, -0.4044, 0.1006, -0.0025, 0, 0],
    [-0.4044, 4.4137, 0.3509, 0, 0.0024, 0],
    [0.1006, 0.3509, 0.9378, 0, 0.0015, 0],
    [-0.0025, 0, 0, 0.1925, 0, 0],
    [0, 0.0024, 0.0015, 0, 0.1713, 0],
    [0, 0, 0, 0, 0, 0.1941],
]
"""At the nominal configuration: P. Corke, Robotics, Vision and Control, 2nd edition, section 9.2.2."""


def test_the_puma_has_the_mass_matrix_and_the_gravity_load_of_the_book():
    tree = models.puma560().tree
    np.testing.assert_allclose(dynamics.mass_matrix(tree, NOMINAL), MASS_MATRIX, atol=5.1e-5)
    load = dynamics.gravity_forces(tree, NOMINAL)
    np.testing.assert_allclose(load, [0, 31.6399, 6.0351, 0, 0.0283, 0], atol=5.1e-5)


def test_the_puma_reaches_where_its_denavit_hartenberg_parameters_say():
    tree = models.puma560().tree
    pose = dynamics.frame_pose(tree, np.zeros(6), "tool")
    np.testing.assert_allclose(pose[:3, 3], [0.4318 + 0.0203, -0.15005, 0.4318], atol=1e-15)
    np.testing.assert_array_equal(pose[:3, :3], np.eye(3))


def test_motors_of_the_puma_can_be_left_out():
    with_motors, without = models.puma560().tree, models.puma560(motors=False).tree
    difference = dynamics.mass_matrix(with_motors, NOMINAL) - dynamics.mass_matrix(without, NOMINAL)
    gears = np.array([62.6111, 107.815, 53.7063, 76.0364, 71.923, 76.686])
    np.testing.assert_allclose(difference, np.diag(gears**2 * ([200e-6] * 3 + [33e-6] * 3)), atol=1e-14)
    assert not any(body.joint.damping.any() or body.joint.friction.any() for body in without.bodies)


# -- the space robot ----------------------------------------------------------------------------------------


def test_the_space_robot_floats_without_gravity_unless_it_is_asked_to_fall():
    robot = models.space_robot()
    assert robot.gravity_vector.tolist() == lb.load("space_robot").gravity_vector.tolist() == [0, 0, 0]
    assert lb.load("space_robot", gravity=(0, 0, -1.62)).gravity_vector[2] == -1.62
    assert lb.load("puma560").gravity_vector[2] == lb.load(robot.tree).gravity_vector[2] == -9.81


def test_the_space_robot_is_what_its_page_says():
    tree = models.space_robot().tree
    assert (tree.nv, tree.mass) == (13, pytest.approx(88 + 16))
    np.testing.assert_allclose(dynamics.frame_pose(tree, tree.group.neutral(), "hand")[:3, 3], [0, 0, 1.8])
    at_home = dynamics.frame_pose(tree, tree.group.neutral(), "link1")[:3, 3]
    np.testing.assert_allclose(at_home, [0, 0, 0.4])
    np.testing.assert_allclose(tree.bodies[0].inertia.com, 0, atol=1e-16)
    assert not tree.findings()
    loaded = models.space_robot(payload=5.0).tree
    assert loaded.mass == pytest.approx(tree.mass + 5)
    np.testing.assert_allclose(
        loaded.mass * dynamics.center_of_mass(loaded, loaded.group.neutral()),
        tree.mass * dynamics.center_of_mass(tree, tree.group.neutral()) + [0, 0, 5 * 1.9],
    )


# -- closed forms -----------------------------------------------------------------------------------------


def test_the_double_pendulum_is_the_one_of_the_textbook():
    """Lagrange's equations of two point masses at angles from the vertical, derived by SymPy."""
    m1, m2, l1, l2, g = 1.3, 0.7, 0.9, 1.2, 9.81
    t = sp.symbols("t")
    q = [sp.Function("q1")(t), sp.Function("q2")(t)]
    x1, y1 = l1 * sp.sin(q[0]), -l1 * sp.cos(q[0])
    x2, y2 = x1 + l2 * sp.sin(q[0] + q[1]), y1 - l2 * sp.cos(q[0] + q[1])
    T = m1 * (x1.diff(t) ** 2 + y1.diff(t) ** 2) / 2 + m2 * (x2.diff(t) ** 2 + y2.diff(t) ** 2) / 2
    L = T - g * (m1 * y1 + m2 * y2)
    equations = [L.diff(x.diff(t)).diff(t) - L.diff(x) for x in q]
    values = np.random.default_rng(0).normal(size=(3, 2))
    numbers = [(x.diff(t, k), values[k][i]) for k in (2, 1, 0) for i, x in enumerate(q)]
    expected = [float(equation.subs(numbers)) for equation in equations]
    tree = models.double_pendulum((m1, m2), (l1, l2)).tree
    np.testing.assert_allclose(dynamics.inverse_dynamics(tree, *values), expected, rtol=1e-13)


def test_a_chain_of_one_rod_is_the_compound_pendulum():
    tree = models.planar_chain(1, length=0.8, mass=1.7).tree
    q = np.array([0.6])
    np.testing.assert_allclose(dynamics.mass_matrix(tree, q), [[1.7 * 0.8**2 / 3]], rtol=1e-14)
    np.testing.assert_allclose(dynamics.gravity_forces(tree, q), [1.7 * 9.81 * 0.4 * np.sin(0.6)], rtol=1e-14)


def test_the_free_body_obeys_eulers_equations():
    I, rng = np.array([1.0, 2.0, 3.0]), np.random.default_rng(1)
    tree = models.free_rigid_body(2.5, I).tree
    q, v, a = tree.group.random(rng), rng.normal(size=6), rng.normal(size=6)
    tau = dynamics.inverse_dynamics(tree, q, v, a, gravity=(0, 0, 0))
    np.testing.assert_allclose(tau[:3], I * a[:3] + np.cross(v[:3], I * v[:3]), atol=1e-14)
    np.testing.assert_allclose(tau[3:], 2.5 * (a[3:] + np.cross(v[:3], v[3:])), atol=1e-14)


def _rates(tree):
    """y' of y = (quaternion, omega) of one ball joint."""

    def rates(_t, y):
        (w, x, yy, z), omega = y[:4], y[4:]
        turn = 0.5 * np.array([[-x, -yy, -z], [w, -z, yy], [z, w, -x], [-yy, x, w]]) @ omega
        q = y[:4] / np.linalg.norm(y[:4])
        return np.concatenate([turn, dynamics.forward_dynamics(tree, q, omega, np.zeros(3))])

    return rates


@pytest.mark.wide
def test_the_heavy_top_reaches_the_reference_of_the_benchmark():
    """omega_y in the world after 2 s; the benchmark gives nine digits."""
    tree = models.heavy_top().tree
    y0 = np.array([1, 0, 0, 0, 0, 150, -4.61538])
    run = solve_ivp(_rates(tree), (0, 2), y0, method="DOP853", rtol=1e-10, atol=1e-10)
    q = run.y[:4, -1] / np.linalg.norm(run.y[:4, -1])
    omega = dynamics.frame_pose(tree, q, "top")[:3, :3] @ run.y[4:, -1]
    assert omega[1] == pytest.approx(-106.163804141, abs=1e-4)


def test_the_spherical_pendulum_keeps_energy_and_vertical_momentum():
    tree = models.spherical_pendulum(1.2, 0.7, 0.1).tree
    y0 = np.concatenate([tree.group.random(np.random.default_rng(2)), [0.4, -0.8, 1.5]])
    run = solve_ivp(_rates(tree), (0, 2), y0, rtol=1e-10, atol=1e-10)

    def conserved(y):
        q = y[:4] / np.linalg.norm(y[:4])
        energy = dynamics.kinetic_energy(tree, q, y[4:]) + dynamics.potential_energy(tree, q)
        momentum = dynamics.frame_pose(tree, q, "ball")[:3, :3] @ dynamics.mass_matrix(tree, q) @ y[4:]
        return energy, momentum[2]

    np.testing.assert_allclose(conserved(run.y[:, -1]), conserved(run.y[:, 0]), rtol=1e-7)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: models.planar_chain(0), ["n is 0", "whole number, 1 or more"]),
        (lambda: models.planar_chain(2.5), ["n is 2.5", "whole number"]),
        (lambda: models.planar_chain(2, length="long"), ["planar_chain: length is 'long'", "symbols"]),
        (lambda: models.double_pendulum(masses=(1, 2, 3)), ["masses has shape (3,)", "expected (2,)"]),
        (lambda: models.double_pendulum(lengths=1), ["lengths has shape ()", "expected (2,)"]),
        (lambda: models.prismatic_hopper((1,)), ["prismatic_hopper: masses has shape (1,)", "(2,)"]),
        (lambda: models.revolute_hopper((1, 2)), ["revolute_hopper: masses has shape (2,)", "(3,)"]),
        (lambda: models.revolute_hopper(length=None), ["revolute_hopper: length is None", "symbols"]),
        (lambda: models.spherical_pendulum(length="x"), ["spherical_pendulum: length is 'x'", "symbols"]),
        (lambda: models.puma560("no"), ["puma560: motors is 'no'", "True or False"]),
        (lambda: models.double_pendulum(masses=(1, -2)), ["link2", "mass -2", "negative"]),
        (lambda: models.heavy_top(mass=0, inertia=(0, 0, 0)), ["top", "without any inertia"]),
        (lambda: models.free_rigid_body(inertia=(1, 1, 3)), ["triangle inequality"]),
    ],
)
def test_parameters_that_cannot_be_are_refused(call, words):
    with pytest.raises(LiebodyError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


def test_parameters_can_be_symbols_of_a_trace():
    values, q = np.array([1.3, 0.7, 0.9, 1.2]), np.array([0.3, 0.8])

    def mass_matrix(p, q):
        return dynamics.mass_matrix(models.double_pendulum(p[:2], p[2:]).tree, q)

    traced = trace(mass_matrix, {"p": (4,), "q": (2,)})
    np.testing.assert_allclose(traced(values, q), mass_matrix(values, q), rtol=1e-14, atol=1e-14)

    def gravity(p, q):
        return dynamics.gravity_forces(models.spherical_pendulum(p[0], p[1], p[2]).tree, q)

    q = np.array([0.5, 0.5, -0.5, 0.5])
    traced = trace(gravity, {"p": (3,), "q": (4,)})
    np.testing.assert_allclose(traced(values[:3], q), gravity(values, q), rtol=1e-14, atol=1e-14)


def test_an_unknown_name_is_told_what_there_is_and_what_may_be_meant():
    with pytest.raises(
        DescriptionError, match=r"no model 'ur55'.*'ur5_description'.*known are double_pendulum"
    ):
        lb.load("ur55")
    with pytest.raises(DescriptionError, match="did you mean 'puma560'"):
        lb.load("Pumma560")
    assert set(models.names()) < set(models.__all__) and "names" not in models.names()
    assert CliRunner().invoke(main, ["info", "heavy_tip"]).output.count("did you mean 'heavy_top'")


def test_robots_of_example_robot_data_have_names(monkeypatch, tmp_path):
    """Of files and folders; a name that two files have is nobody's."""
    robots = tmp_path / "cmeel.prefix/share/example-robot-data/robots"
    for file in ("ur_description/ur5_robot", "ur_description/ur3", "walker_description/robots/leg-v2",
                 "old_description/twin", "new_description/twin"):  # fmt: skip
        (robots / file).parent.mkdir(parents=True, exist_ok=True)
        (robots / f"{file}.urdf").write_text(lb.models.planar_chain(2).to_urdf())
    installed = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: installed)
    for name in ("ur5", "ur5_robot", "ur3", "walker", "leg-v2", "old", "new"):
        assert lb.load(name).nq == 2
    for name in ("twin", "ur", "robots"):
        with pytest.raises(DescriptionError, match=f"no model '{name}'"):
            lb.load(name)


def test_robots_of_robot_descriptions_have_names(monkeypatch, tmp_path):
    """A stand-in for the package, which fetches a file when the module of a robot is imported."""
    file = tmp_path / "arm.urdf"
    file.write_text(lb.models.planar_chain(6).to_urdf())
    fetched = {
        "robot_descriptions": {"__path__": [], "__spec__": ModuleSpec("robot_descriptions", None)},
        "robot_descriptions._descriptions": {"DESCRIPTIONS": {"arm_description": None}},
        "robot_descriptions.arm_description": {"URDF_PATH": str(file)},
    }
    for name, contents in fetched.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    assert lb.load("arm_description").nq == 6
    assert "6 bodies" in CliRunner().invoke(main, ["info", "arm_description"]).output
    with pytest.raises(DescriptionError, match=r"has no 'harm_description'.*did you mean 'arm_description'"):
        lb.load("harm_description")
    with pytest.raises(DescriptionError, match="did you mean 'arm_description'"):
        lb.load("arm_descr")


def test_robots_that_cannot_be_fetched_are_told_with_the_reason(monkeypatch, tmp_path):
    """As git says it without a network; a module that such a robot's own module lacks is named, too."""
    package = tmp_path / "robot_descriptions"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_descriptions.py").write_text('DESCRIPTIONS = {"arm_description": None}')
    error = "class GitCommandError(Exception): pass\n"
    (package / "arm_description.py").write_text(
        f'{error}raise GitCommandError("git clone failed\\n stderr: no host")'
    )
    (package / "leg_description.py").write_text("import no_such_git")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("robot_descriptions")]:
        monkeypatch.delitem(sys.modules, name)
    words = "cannot get 'arm_description', GitCommandError: git clone failed; stderr: no host. .*the network"
    with pytest.raises(DescriptionError, match=words):
        lb.load("arm_description")
    result = CliRunner().invoke(main, ["info", "arm_description"])
    assert result.exit_code == 2 and "check the network" in result.stderr
    with pytest.raises(
        DescriptionError, match=r"cannot get 'leg_description', ModuleNotFoundError: .*no_such_git"
    ):
        lb.load("leg_description")
    with pytest.raises(DescriptionError, match="has no 'harm_description'"):
        lb.load("harm_description")
    for name in [name for name in sys.modules if name.startswith("robot_descriptions")]:
        del sys.modules[name]


@pytest.mark.parametrize("options", [{"floating": True}, {"merge_fixed": False}])
def test_options_of_reading_are_refused_where_nothing_is_read(options):
    for source in ("double_pendulum", lb.load("double_pendulum").tree):
        with pytest.raises(ModelError, match="floating and reading options apply to descriptions only"):
            lb.load(source, **options)
    with pytest.raises(DescriptionError):
        lb.load("x" * 5000)  # longer than names of files may be
