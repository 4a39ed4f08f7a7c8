"""Environments: gymnasium's own checks, and members of a vector that do what single environments do."""

import warnings

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ShapeError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Boxes, HeightField
from liebody.groups import Free, Prismatic

gymnasium = pytest.importorskip("gymnasium", reason="the test extra `gymnasium` is not installed")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

import liebody.interop.gym  # noqa: E402

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
NAME = "liebody.interop.gym:liebody/Hopper-v0"


@pytest.fixture(scope="module")
def task():
    return liebody.interop.gym.Hopper(horizon=25)


def test_gymnasium_has_nothing_to_say_about_an_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(NAME)
        check_env(env.unwrapped)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_members_of_a_vector_are_single_environments(task, mode):
    n = 6
    ours = liebody.interop.gym.VectorEnv(task, n, mode)
    theirs = SyncVectorEnv([lambda: liebody.interop.gym.Env(task)] * n, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is mode
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    rng, ended = np.random.default_rng(0), np.zeros(2, int)
    results = [envs.reset(seed=3) for envs in (ours, theirs)]
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for _ in range(60):
        action = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        results = [envs.step(action) for envs in (ours, theirs)]
        for a, b in zip(results[0][:4], results[1][:4], strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        infos, others = results[0][4], results[1][4]
        assert infos.keys() == others.keys()
        if "final_obs" in infos:
            np.testing.assert_array_equal(infos["_final_obs"], others["_final_obs"])
            for a, b in zip(infos["final_obs"], others["final_obs"], strict=True):
                assert (a is None) is (b is None)
                if a is not None:
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        done = results[0][2] | results[0][3]
        ended += [np.count_nonzero(results[0][2]), np.count_nonzero(results[0][3])]
        if mode is AutoresetMode.DISABLED and done.any():
            results = [envs.reset(options={"reset_mask": done.copy()})[0] for envs in (ours, theirs)]
            np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-9)
    assert (ended > 0).all()  # some fell, others were cut


def test_256_environments_by_name():
    envs = gymnasium.make_vec(NAME, num_envs=256)
    observation, _ = envs.reset(seed=0)
    assert observation.shape == (256, 9)
    for _ in range(30):
        observation, reward, *_ = envs.step(envs.action_space.sample())
        assert observation in envs.observation_space and np.isfinite(reward).all()


def test_a_trunk_at_rest_that_lets_go_of_nothing_stands_for_a_while(task):
    """With the crouch as target the drives carry the weight: the hip sinks by less than 2 cm in 0.1 s."""
    env = liebody.interop.gym.Env(task)
    first, _ = env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(np.zeros(2, np.float32))
    assert abs(observation[0] - first[0]) < 0.02


def test_observations_are_what_the_robot_says(task):
    robot, env = lb.models.two_joint_hopper(), liebody.interop.gym.Env(task)
    env.reset(seed=1)
    for _ in range(5):
        observation, *_ = env.step(np.array([0.5, -0.5], np.float32))
    state = env._episodes.state
    q, v = state.q[0], state.v[0]
    T = robot.pose(q, "base")
    twist = robot.jacobian(q, "base", "mixed") @ v
    np.testing.assert_allclose(observation[0], T[2, 3])
    np.testing.assert_allclose(observation[4:6], twist[[3, 5]], atol=1e-12)
    np.testing.assert_allclose(observation[[1, 2, 3, 6, 7, 8]], [*q[[0, 3, 4]], *v[[0, 3, 4]]])


def test_what_an_environment_cannot_take_is_refused(task):
    envs = liebody.interop.gym.VectorEnv(task, 3, "Disabled")
    envs.reset(seed=0)
    with pytest.raises(ShapeError, match=r"reset_mask.*3 truth values"):
        envs.reset(options={"reset_mask": np.ones(2, bool)})
    with pytest.raises(ShapeError, match="2 seeds for 3"):
        envs.reset(seed=[1, 2])
    np.testing.assert_array_equal(envs.reset(seed=np.int64(5))[0], envs.reset(seed=5)[0])
    done = np.zeros(3, bool)
    while not done.any():
        _, _, lost, cut, _ = envs.step(np.ones((3, 2), np.float32))
        done = lost | cut
    with pytest.raises(ShapeError, match="reset_mask"):
        envs.step(np.ones((3, 2), np.float32))


@pytest.fixture(scope="module")
def walker():
    """Arguments of a `Walker`: a plate on three legs, on random ground."""
    builder = TreeBuilder("monopod").add("base", Free(), SpatialInertia.box(2.0, (0.6, 0.6, 0.05)))
    builder.add("leg", Prismatic([0, 0, 1]), SpatialInertia.point(0.2), parent="base", placement=[0, 0, -0.2])
    for i, (x, y) in enumerate([(-1, -1), (-1, 1), (1, 0)]):
        builder.frame(f"foot{i}", "leg", [0.2 * x, 0.2 * y, -0.1])
    heights = 0.02 * np.random.default_rng(0).random((4, 4))
    feet, ground = ["foot0", "foot1", "foot2"], HeightField(heights, spacing=0.3)
    given = {"robot": lb.Robot(builder.build()), "feet": feet, "pose": [0.0], "K": 500.0, "D": 20.0}
    return {**given, "ground": ground, "horizon": 30}


def test_a_walker_on_steps_begins_over_them_and_not_within(walker):
    steps = Boxes.steps(rise=0.1, run=0.3, count=4, start=-0.5)
    task = liebody.interop.gym.Walker(**{**walker, "ground": steps})
    rng, robot, inside = np.random.default_rng(0), walker["robot"], 0
    for q, _ in (task.begin(rng) for _ in range(50)):
        q[7:] = walker["pose"]  # joints vary at the start
        feet = [robot.pose(q, foot)[:3, 3] for foot in walker["feet"]]
        assert min(steps.over(x, None)[0] for x in feet) > -1e-12
        inside += any(steps.over(x - [0, 0, steps.top - 1e-3], None)[0] < 0 for x in feet)
        assert not task.is_lost(q, None)
    assert inside > 20  # at the height of the plane, these would be within steps


@pytest.mark.wide
def test_a_walker_by_name_is_an_environment_and_4096_are_a_vector(walker):
    name = "liebody.interop.gym:liebody/Walker-v0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, **walker).unwrapped)
        envs = gymnasium.make_vec(name, num_envs=4096, threads=2, **walker)
    observation, _ = envs.reset(seed=0)
    assert observation.shape == (4096, 12) and np.ptp(observation[:, 9]) > 0.05  # each starts differently
    for _ in range(35):
        observation, reward, lost, *_ = envs.step(envs.action_space.sample())
        assert observation in envs.observation_space and np.isfinite(reward).all()
    assert lost.mean() < 0.01


@pytest.mark.wide
def test_a_walker_on_random_ground_stands_and_its_members_are_single_environments(walker):
    task = liebody.interop.gym.Walker(**walker)
    envs, one = liebody.interop.gym.VectorEnv(task, 5), liebody.interop.gym.Env(task)
    ours, _ = envs.reset(seed=3)
    theirs, _ = one.reset(seed=4)
    np.testing.assert_array_equal(ours[1], theirs)
    assert ours[:, 0].std() == 0 and np.ptp(envs._episodes.state.q[:, 4]) > 0.1  # at places of their own
    for _ in range(29):
        ours, reward, lost, cut, _ = envs.step(np.zeros((5, 1), np.float32))
        theirs, alone, *_ = one.step(np.zeros(1, np.float32))
        np.testing.assert_allclose(ours[1], theirs, atol=1e-12)
        assert not lost.any() and reward[1] == pytest.approx(alone)
    assert (np.abs(reward - 1) < 0.1).all() and (ours[:, 3] > 0.99).all()  # they stand upright
    *_, cut, _ = envs.step(np.zeros((5, 1), np.float32))
    assert cut.all()
