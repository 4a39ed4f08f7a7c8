"""Environments: gymnasium's own checks, and members of a vector that do what single environments do."""

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ArgumentError, ModelError, ShapeError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.contact import Boxes, Contact, HeightField
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
    for q in (task.begin(rng).q for _ in range(50)):
        q[7:] = walker["pose"]  # joints vary at the start
        feet = [robot.pose(q, foot)[:3, 3] for foot in walker["feet"]]
        assert min(steps.over(x, None)[0] for x in feet) > -1e-12
        inside += any(steps.over(x - [0, 0, steps.top - 1e-3], None)[0] < 0 for x in feet)
        assert not task.is_lost(SimpleNamespace(q=q))
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


# -- what tasks know -----------------------------------------------------------------------------------------


class Standing(liebody.interop.gym.Walker):
    """A walker that is told a velocity, counts in its own memory, and holds its pose."""

    period = 0.25

    def begin(self, rng):
        episode = super().begin(rng)
        q, v = self.q0.copy(), np.zeros(len(self.pose) + 6)
        memory = {"calls": 0, "offset": rng.uniform(size=2)}
        return replace(episode, q=q, v=v, command=rng.uniform(-1, 1, 3), phase=0.9, memory=memory)

    def remember(self, before, after):
        return {**after.memory, "calls": after.memory["calls"] + 1}


RANGES = {"base.mass": (1.0, 3.0), "floor_friction": (0.3, 1.0), "pd_K": (400.0, 600.0)}


@pytest.fixture(scope="module")
def standing(walker):
    robot = walker["robot"].with_parameters("base.mass")
    given = {**walker, "robot": robot, "ground": None, "horizon": 400, "step": 2e-3}
    return Standing(**given, ranges=RANGES)


def test_members_stand_on_forces_of_their_own_weight_which_an_episode_draws(standing):
    envs = liebody.interop.gym.VectorEnv(standing, 6)
    envs.reset(seed=2)
    for _ in range(300):
        envs.step(np.zeros((6, 1)))
    state = envs.state
    for name, (low, high) in RANGES.items():
        values = state.parameters[name]
        assert (
            values.shape == (6,) and len({*values}) == 6 and (values >= low).all() and (values <= high).all()
        )
    masses = state.parameters["base.mass"] + 0.2  # with the leg
    forces = state.contact_forces
    assert forces.shape == (6, 3, 3) and state.touching.all()
    np.testing.assert_allclose(forces[..., 2].sum(axis=1), 9.81 * masses, rtol=1e-4)
    np.testing.assert_array_equal(forces, state.outputs["floor_force"])
    # the drive of the leg carries the base: K times its stretch at rest
    np.testing.assert_allclose(
        state.parameters["pd_K"] * np.abs(state.q[:, 7]), 9.81 * state.parameters["base.mass"], rtol=1e-3
    )


def test_the_state_of_a_task_has_actions_command_clock_and_memory(standing):
    envs = liebody.interop.gym.VectorEnv(standing, 3, "Disabled")
    envs.reset(seed=2)
    start = envs.state
    assert start.command.shape == (3, 3) and (start.steps == 0).all() and not start.action.any()
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 3, 1))
    for action in actions:
        envs.step(action)
    state = envs.state
    np.testing.assert_array_equal(state.action, actions[4])
    np.testing.assert_array_equal(state.last_action, actions[3])
    np.testing.assert_array_equal(state.command, start.command)
    np.testing.assert_array_equal(state.memory["offset"], start.memory["offset"])
    assert state.memory["calls"].tolist() == state.steps.tolist() == [5, 5, 5]
    np.testing.assert_allclose(state.phase, (0.9 + 5 * 0.02 / 0.25) % 1.0)
    mask = np.array([False, True, False])
    envs.reset(options={"reset_mask": mask})
    again = envs.state
    assert again.steps.tolist() == [5, 0, 5] and again.memory["calls"].tolist() == [5, 0, 5]
    assert again.action[1] == 0 and (again.command[1] != state.command[1]).all()
    for name in ("q", "v", "action", "command", "phase", "air_time", "touching"):
        np.testing.assert_array_equal(getattr(again, name)[~mask], getattr(state, name)[~mask])


def test_feet_in_the_air_count_their_time(standing):
    """Thrown upwards at 1 m/s, feet that touched come back after 2 v/g."""
    env = liebody.interop.gym.Env(standing)
    env.reset(seed=0)
    for _ in range(20):
        env.step(np.zeros(1))
    assert (env.state.air_time == 0).all() and env.state.touching.all()
    v = env.state.v[0].copy()
    v[5] += 1.0
    env.replace(v=v)
    assert env.state.touching.all()  # a push leaves the memory of the contacts
    times = []
    for _ in range(15):
        env.step(np.zeros(1))
        times.append(env.state.air_time[0].max())
    assert max(times) == pytest.approx(2 / 9.81, abs=0.04) and times[-1] == 0.0


def test_members_that_begin_anew_touch_no_others(standing):
    one, other = (liebody.interop.gym.VectorEnv(standing, 9, "Disabled") for _ in range(2))
    for envs in (one, other):
        envs.reset(seed=5)
    mask = np.arange(9) % 4 == 1
    actions = np.random.default_rng(1).uniform(-1, 1, (12, 9, 1))
    for k, action in enumerate(actions):
        if k == 6:
            one.reset(options={"reset_mask": mask})
        results = [envs.step(action) for envs in (one, other)]
        if k >= 6:
            for a, b in zip(results[0][:4], results[1][:4], strict=True):
                np.testing.assert_array_equal(a[~mask], b[~mask])
            np.testing.assert_array_equal(one.state.system._y[~mask], other.state.system._y[~mask])
    assert not np.array_equal(one.state.q[mask], other.state.q[mask])


def test_states_of_tasks_are_checkpoints(standing):
    envs = liebody.interop.gym.VectorEnv(standing, 3)
    envs.reset(seed=1)
    envs.step(np.ones((3, 1)))
    system, again = pickle.loads(pickle.dumps((envs.state.system, envs.state)))
    np.testing.assert_array_equal(again.q, envs.state.q)
    np.testing.assert_array_equal(again.contact_forces, envs.state.contact_forces)
    following = system.stepper.step(system, {**envs.state.parameters, "pd_q_des": [0.1]})
    sim = envs.state.system.stepper
    expected = sim.step(envs.state.system, {**envs.state.parameters, "pd_q_des": [0.1]})
    np.testing.assert_array_equal(following._y, expected._y)


class Tensor:
    """An array of another library: all that others know of it is DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __getitem__(self, where):
        return Tensor(self.array[where])


def test_arrays_of_other_libraries_come_and_go_without_a_copy(standing):
    ours = liebody.interop.gym.VectorEnv(standing, 3)
    shown = []

    def convert(array):
        shown.append(array)
        return np.from_dlpack(array)

    theirs = liebody.interop.gym.VectorEnv(standing, 3, convert=convert)
    _, (b, _) = (envs.reset(seed=1) for envs in (ours, theirs))
    assert np.shares_memory(b, shown[-1]) and shown[-1].flags.writeable
    action = np.random.default_rng(0).uniform(-1, 1, (3, 1)).astype(np.float32)
    kept = b.copy()
    *results, _ = theirs.step(Tensor(action))
    for x, y, z in zip(ours.step(action)[:4], results, shown[-4:], strict=True):
        np.testing.assert_array_equal(x, y)
        assert np.shares_memory(y, z)
    np.testing.assert_array_equal(b, kept)  # no later step writes into what was returned
    with pytest.raises(ShapeError, match=r"actions have shape \(3,\), expected \(3, 1\)"):
        theirs.step(Tensor(action[:, 0]))


def test_pictures_of_environments_are_arrays(standing):
    pytest.importorskip("PIL", reason="the extra `view` is not installed")
    envs = liebody.interop.gym.VectorEnv(standing, 2, render_mode="rgb_array")
    env = gymnasium.make(NAME, render_mode="rgb_array")
    env.reset(seed=0)
    envs.reset(seed=0)
    picture = env.render()
    first, second = envs.render()
    for x in (picture, first, second):
        assert x.shape == (360, 480, 3) and x.dtype == np.uint8
        assert 0.01 < (np.abs(x.astype(int) - [244, 246, 248]).max(axis=-1) > 40).mean() < 0.9
    assert env.unwrapped.metadata["render_fps"] == 100
    assert liebody.interop.gym.Env(standing).render() is None
    with pytest.raises(ArgumentError, match="render_mode is 'human', expected None or 'rgb_array'"):
        liebody.interop.gym.Env(standing, "human")


def test_what_a_task_gives_wrongly_is_refused(standing):
    envs = liebody.interop.gym.VectorEnv(standing, 2)
    with pytest.raises(ModelError, match=r"has not begun; call reset\(\) first"):
        envs.step(np.zeros((2, 1)))

    class Random(Standing):
        def begin(self, rng):
            episode = super().begin(rng)
            return replace(episode, memory={f"x{rng.integers(10**6)}": 0.0})

    task = Random.__new__(Random)
    vars(task).update(vars(standing))
    with pytest.raises(ModelError, match="begin gave the memory x"):
        liebody.interop.gym.VectorEnv(task, 2).reset(seed=0)


# -- feet ----------------------------------------------------------------------------------------------------

SHANK = 0.213


def quadruped():
    """Four legs whose feet are spheres without names at the ends of the calves, as of many MJCFs."""
    legs = []
    for name, x, y in (("FL", 0.19, 0.12), ("FR", 0.19, -0.12), ("RL", -0.19, 0.12), ("RR", -0.19, -0.12)):
        legs.append(
            f'<body name="{name}_thigh" pos="{x} {y} 0"><joint name="{name}_hip" axis="0 1 0"/>'
            '<geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="1"/>'
            f'<body name="{name}_calf" pos="0 0 -{SHANK}"><joint name="{name}_knee" axis="0 1 0"/>'
            '<geom type="cylinder" fromto="0 0 0 0 0 -0.2" size="0.012" mass="0.2"/>'
            f'<geom size="0.022" pos="0 0 -{SHANK}" mass="0.04"/></body></body>'
        )
    base = '<body name="trunk"><freejoint/><geom type="box" size="0.19 0.05 0.05" mass="7"/>'
    text = f"<mujoco><worldbody>{base}{''.join(legs)}</body></worldbody></mujoco>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lb.Robot(lb.io.load_mjcf(text))


CALVES = [f"{leg}_calf" for leg in ("FL", "FR", "RL", "RR")]
POSE = np.tile([0.8, -1.5], 4)
GAINS = {"K": 80.0, "D": 2.0}


@pytest.fixture(scope="module")
def nameless():
    pytest.importorskip("mujoco", reason="the extra `mjcf` is not installed")
    robot = quadruped()
    feet = Contact.of_collisions(robot, *CALVES, kinds=["sphere"], friction=0.8, stiffness=1e5, damping=1e3)
    return robot, feet


def test_spheres_without_names_are_feet_at_the_height_of_the_pose(nameless):
    robot, feet = nameless
    task = liebody.interop.gym.Walker(robot, feet, POSE, **GAINS)
    # along z: the cosines of thigh and calf, and the radius
    assert task.height == pytest.approx(SHANK * (np.cos(0.8) + np.cos(0.7)) + 0.022, abs=1e-12)
    envs = liebody.interop.gym.VectorEnv(task, 4)
    envs.reset(seed=0)
    for _ in range(60):
        observation, _, lost, *_ = envs.step(np.zeros((4, 8)))
    state = envs.state
    assert not lost.any() and state.touching.shape == (4, 4) and state.touching.all()
    weight = 9.81 * sum(body.inertia.mass for body in robot.tree.bodies)
    np.testing.assert_allclose(state.contact_forces[..., 2].sum(axis=1), weight, rtol=1e-2)
    assert (np.abs(observation[:, 0] - task.height) < 0.03).all()


def test_a_walker_that_would_stand_on_its_knees_is_refused(nameless):
    robot, feet = nameless
    with pytest.raises(
        ModelError, match=r"shape of '.._calf' reaches 0\.185 m below the lowest foot, '.._calf'"
    ):
        liebody.interop.gym.Walker(robot, CALVES, POSE, **GAINS)
    with pytest.raises(ModelError, match="over the base, expected below it"):
        liebody.interop.gym.Walker(robot, feet, np.tile([3.0, 0.0], 4), **GAINS)


def test_what_a_walker_cannot_take_is_refused(nameless, walker):
    robot, feet = nameless
    with pytest.raises(ModelError, match="there are friction beside them; give these to the contacts"):
        liebody.interop.gym.Walker(robot, feet, POSE, **GAINS, friction=0.3)
    with pytest.raises(
        ShapeError, match=r"pose has shape \(3,\), expected the coordinates of the joints \(8,\)"
    ):
        liebody.interop.gym.Walker(robot, feet, np.zeros(3), **GAINS)
    with pytest.raises(ModelError, match="no parameter 'floor_fricton'"):
        liebody.interop.gym.Walker(robot, feet, POSE, **GAINS, ranges={"floor_fricton": (0, 1)})
    with pytest.raises(ModelError, match="expected a floating base"):
        liebody.interop.gym.Walker(lb.load("double_pendulum"), ["link1"], [0.0, 0.0], **GAINS)
