"""Newton's law of restitution in time stepping: bouncing balls, cradles, and energy that is never gained."""

import numpy as np
import pytest

from liebody.base.errors import ModelError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Contact, SphereContact, TimeStepping
from liebody.groups import Planar, Prismatic
from liebody.hybrid import robot_system

G, HEIGHT = 9.81, 0.5


@pytest.fixture(scope="module")
def bouncing():
    """Balls of the restitution 0, 0.5, 0.8, 1, dropped with steps of 1 and 0.25 ms: system and run."""
    tree = TreeBuilder("ball").add("ball", Prismatic([0, 0, 1]), SpatialInertia.point(2.0)).build()
    system = TimeStepping(tree, Contact("ball", stiffness=1e8, damping=1e5, friction=0.0, restitution=0.5))
    given = {"floor_restitution": [[0.0], [0.5], [0.8], [1.0]], "step": [1e-3, 2.5e-4]}
    return system, system.simulate([HEIGHT], t_end=3.0, record_every=1e-3, parameters=given)


@pytest.mark.parametrize(("member", "e"), [(1, 0.5), (2, 0.8), (3, 1.0)])
def test_a_ball_bounces_at_the_times_and_to_the_heights_of_newtons_law(bouncing, member, e):
    """Impacts at t_1 (1 + 2 e + ... + 2 e^k), and heights e^(2 k) H between them."""
    _, run = bouncing
    fall, impact = np.sqrt(2 * HEIGHT / G), np.sqrt(2 * G * HEIGHT)
    bounces = np.arange(1, 4)
    times = fall * (1 + 2 * np.cumsum(e ** np.arange(4)) - 2)[:4]
    for step, h in enumerate((1e-3, 2.5e-4)):
        z, v = run.q[member, step, :, 0], run.v[member, step, :, 0]
        up = np.flatnonzero((v[:-1] < 0) & (v[1:] > 0))[:4]
        assert np.abs(run.t[up] - times[: len(up)]).max() < 1e-3 + 5 * h
        for k in bounces:
            tops = z[up[k - 1] : up[k]].max()
            assert abs(tops - e ** (2 * k) * HEIGHT) < 2 * k * h * impact
    assert run.q.min() > -5e-5


def test_bounces_come_to_rest_below_the_threshold(bouncing):
    """The sum of all times of flight is finite, t_1 (1 + e) / (1 - e)."""
    _, run = bouncing
    end = np.sqrt(2 * HEIGHT / G) * (1 + 0.5) / (1 - 0.5)
    z = run.q[1, 1, :, 0]
    assert np.abs(z[run.t > end + 0.02]).max() < 1e-6 < z[np.abs(run.t - (end - 0.1)) < 1e-3].max()


def test_without_restitution_a_ball_comes_to_rest_as_one_that_has_none(bouncing):
    """With e = 0, too, it falls on an exact parabola; semi-implicit Euler is off by h g t / 2."""
    system, run = bouncing
    plain = TimeStepping(system.tree, Contact("ball", stiffness=1e8, damping=1e5, friction=0.0))
    same = plain.simulate([HEIGHT], t_end=3.0, record_every=1e-3, parameters={"step": [1e-3, 2.5e-4]})
    falls = run.t < np.sqrt(2 * HEIGHT / G) - 2e-3
    np.testing.assert_allclose(
        run.q[0, :, falls, 0].T, np.tile(HEIGHT - G * run.t[falls] ** 2 / 2, (2, 1)), atol=1e-12
    )
    for k, h in enumerate((1e-3, 2.5e-4)):
        assert np.abs(same.q[k] - run.q[0, k]).max() < h * G * run.t[falls][-1]
    np.testing.assert_allclose(run.q[0, :, -1], same.q[:, -1], atol=1e-12)


def test_heights_are_not_gained_by_a_perfect_bounce(bouncing):
    system, run = bouncing
    assert run.q[3].max() < HEIGHT * (1 + 1e-12)
    for member in np.ndindex(4, 2):
        book = system.ledger(run, member)
        assert book.losses["floor_normal"] > -1e-12
        h = (1e-3, 2.5e-4)[member[1]]
        assert abs(book.residual) < 10 * h * book.throughput


@pytest.mark.wide
def test_newtons_cradle_passes_the_speed_on_where_its_balls_do_not_touch_and_shares_it_where_they_do():
    """Balls with gaps meet two at a time: (0, 0, 1). At one time Newton's law has (-1, 2, 2) / 3."""
    builder = TreeBuilder("cradle")
    for i in range(3):
        builder.add(f"ball{i}", Prismatic([1, 0, 0]), SpatialInertia.point(1.0))
    pairs = [("ball0", "ball1"), ("ball1", "ball2")]
    law = {"stiffness": 1e10, "damping": 1e7, "restitution": 1.0}
    system = TimeStepping(builder.build(), SphereContact(*pairs, radius=0.1, **law), sweeps=40)
    q0 = [[0, 0.21, 0.42], [0, 0.21, 0.41]]
    run = system.simulate(q0, [1.0, 0, 0], t_end=0.1, dt=1e-3)
    np.testing.assert_allclose(run.v[0, -1], [0, 0, 1], atol=1e-4)
    np.testing.assert_allclose(run.v[1, -1], np.array([-1, 2, 2]) / 3, atol=1e-3)
    np.testing.assert_allclose(run.v.sum(axis=-1), 1, atol=1e-12)
    assert run.kinetic.max() <= 0.5 + 1e-12


@pytest.mark.wide
def test_a_rod_that_hits_with_friction_gains_no_energy():
    """Kane's pendulum has shown that Newton's law with friction may: here rods would, by up to a quarter."""
    rod = TreeBuilder("rod").add("rod", Planar([0, -1, 0]), SpatialInertia.rod(1.0, 1.0))
    tree = rod.frame("tip", "rod", [0, 0, -0.5]).build()
    law = {"stiffness": 1e8, "damping": 1e5, "friction": 0.5, "restitution": 0.9}
    system = TimeStepping(tree, Contact("tip", **law), newton=8, sweeps=3, gravity=(0, 0, 0))
    rng = np.random.default_rng(5)
    tilt, spin, vx, vz = rng.uniform([-1.4, -8, -4, -4], [1.4, 8, 4, -0.5], (400, 4)).T
    s, c = np.sin(tilt), np.cos(tilt)
    q0 = np.stack([tilt, 0.5 * c + 1e-3, 0 * tilt], axis=1)
    v0 = np.stack([spin, s * vx + c * vz, c * vx - s * vz], axis=1)
    run = system.simulate(q0, v0, t_end=0.02, dt=1e-3, record_every=1e-3)
    hit = run.outputs["floor_force"][..., 2].max(axis=(1, 2)) > 0
    assert hit.sum() > 100
    energy = run.kinetic[hit] / run.kinetic[hit, :1]
    assert np.diff(energy, axis=1).max() < 1e-12


def test_restitution_is_for_time_stepping_and_between_nothing_and_all():
    tree = TreeBuilder("ball").add("ball", Prismatic([0, 0, 1]), SpatialInertia.point(2.0)).build()
    with pytest.raises(ModelError, match=r"restitution is 1\.5"):
        Contact("ball", friction=0.5, restitution=1.5)
    with pytest.raises(ModelError, match="time stepping"):
        robot_system(tree, Contact("ball", friction=0.5, restitution=0.5))
