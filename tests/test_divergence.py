"""Runs that diverge and states beyond all measure: our own words or IEEE 754, and no warning of NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import IntegrationError
from liebody.bodies import SpatialInertia
from liebody.compiler.native import build, libraries
from liebody.groups import SE2, SE3, SO3, Product, R, Spherical
from liebody.hybrid import HybridSystem
from liebody.integrators import solve_ivp
from liebody.simulation.simulate import CalledEfforts, DivergedMembers

GROWING = Product(SO3, R(3))  # attitude and angular velocity
START = np.array([1.0, 0, 0, 0, 1, 2, 3])


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalledEfforts)
        yield


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


def looked_at(run, tmp_path):
    """Everything that is said of a run."""
    for name in (
        "energy",
        "energy_change",
        "energy_drift",
        "quaternion_error",
        "finite",
        "violations",
        "rate",
    ):
        getattr(run, name, None)
    run.save(tmp_path / "run.nc")
    assert type(run).load(tmp_path / "run.nc").summary() == run.summary()


def pumped(t, q, v):
    return 300.0 * v


def pumped_by_floats(t, q, v):
    return 300.0 * np.array([float(x) for x in v])


@pytest.mark.parametrize(
    ("method", "tau"), [("rkmk4", pumped), ("rkmk4", pumped_by_floats), ("half-explicit3", pumped)]
)
@pytest.mark.parametrize("model", ["double_pendulum", "heavy_top"])
@pytest.mark.many
def test_a_run_that_diverges_says_so_in_words_alone(way, model, method, tau):
    robot = lb.load(model)
    with pytest.raises(IntegrationError, match="not finite after t ="):
        lb.simulate(robot, v0=np.ones(robot.nv), t_end=4.0, dt=1e-2, method=method, tau=tau)


@pytest.mark.parametrize("model", ["double_pendulum", "heavy_top"])
def test_members_that_diverge_have_energies_all_the_same(way, model, tmp_path):
    robot = lb.load(model)
    starts = np.outer([1e-3, 1.0, 1e150, 1e200], np.ones(robot.nv))
    with pytest.warns(DivergedMembers):
        run = lb.simulate(robot, v0=starts, t_end=0.1, dt=1e-2)
    assert run.kinetic[2, 0] > 1e290 and np.isinf(run.kinetic[3, 0])
    looked_at(run, tmp_path)


@pytest.mark.parametrize("size", [1e100, 1e200, 1e308])
def test_functions_of_a_robot_follow_ieee_754_on_velocities_of_any_size(way, size):
    robot = lb.load("heavy_top")
    q, w = robot.neutral(), np.array([size, -size, size])
    for names, arrays in (
        (("inverse_dynamics", "forward_dynamics"), (q, w, w)),
        (("bias", "kinetic_energy", "energy", "coriolis_matrix", "twists", "integrate"), (q, w)),
    ):
        for name in names:
            one = getattr(robot, name)(*arrays)
            many = getattr(robot, name)(*(np.tile(x, (3, 1)) for x in arrays))
            np.testing.assert_array_equal(np.isfinite(many[1]), np.isfinite(one), err_msg=name)


def test_a_system_with_constraints_that_diverges_says_so_in_words_alone(way, tmp_path):
    builder = lb.SystemBuilder("top", gravity=(0, 0, 0))
    builder.body("top", SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09]), pose=[0.5, 0, 0])
    builder.joint("pivot", Spherical(), "world", "top", on_child=[-0.5, 0, 0])
    builder.wrench("push", lambda t, T, V: 300.0 * V, "top")
    system = builder.build()
    w = np.array([0, 20.0, 10])
    v0 = system.velocities(system.guess, {"top": [*w, *np.cross(w, [0.5, 0, 0])]})
    with pytest.raises(IntegrationError, match="not finite after t =") as error:
        lb.simulate(system, v0=v0, t_end=1.0, dt=5e-3)
    looked_at(error.value.run, tmp_path)


def test_a_hybrid_system_that_diverges_is_marked(way):
    system = HybridSystem(
        SO3,
        lambda t, q, v, z, p: p.rate * v,
        parameters={"rate": 1.0},
        guards=lambda t, q, v, z, p: {"half": q[0] - 0.5},
        update=lambda t, q, v, z, p, happened: z,
        outputs=lambda t, q, v, z, p: {"square": v @ v},
    )
    run = system.simulate(
        [1.0, 0, 0, 0], [1.0, 2, 3], t_end=3.0, dt=0.1, record_every=0.5, parameters={"rate": [0.0, 1e60]}
    )
    assert run.ends.tolist() == ["", "a value is not finite"]


# -- solve_ivp ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [SO3, SE3, SE2], ids=repr)
def test_motion_beyond_all_measure_ends_in_words_alone(group):
    def F(t, q):
        return np.full(group.dim, 1e200)

    with pytest.raises(IntegrationError, match=r"the state at t = 0\.1 is not finite"):
        solve_ivp(F, (0, 1), group.neutral(), group, dt=0.1)
    run = solve_ivp(F, (0, 1), group.neutral(), group)
    assert run.status == -1 and run.message.startswith("the motion turns by 1") and run.t.tolist() == [0]


@pytest.mark.parametrize(
    "options", [{"dt": 0.01}, {}, {"dt": 0.01, "method": "radau3"}, {"method": "gauss4"}]
)
def test_velocities_that_grow_end_in_words_alone(options):
    def F(t, q):
        with np.errstate(over="ignore"):
            return np.concatenate([q[4:], q[4:] ** 3])

    def level(t, q):
        return q[0]

    try:
        run = solve_ivp(F, (0, 1), START, GROWING, events=level, dense_output=True, **options)
    except IntegrationError as error:
        assert "finite" in str(error) or "Newton" in str(error)
    else:
        assert run.status == -1 and run.t[-1] == pytest.approx(1 / 18, rel=1e-3)  # v' = v^3 from 3 on
        assert np.isfinite(run.sol(run.t)).all()


def test_what_the_users_own_functions_warn_of_is_heard():
    with pytest.raises(RuntimeWarning, match="overflow encountered in square"):
        solve_ivp(lambda t, x: np.square(1e200 + x), (0, 1), [0.0], R(1), dt=0.1)
    with pytest.raises(RuntimeWarning, match="invalid value encountered in sqrt"):
        solve_ivp(
            lambda t, x: x, (0, 1), [1.0], R(1), dt=0.1, events=lambda t, x: np.sqrt(0.5 - t) if t else 1
        )
