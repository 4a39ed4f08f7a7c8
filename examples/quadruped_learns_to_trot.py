"""ANYmal learns to trot at commanded velocities, from nothing, in less than a minute, with NumPy alone.

    python examples/quadruped_learns_to_trot.py [folder] [updates] [members]

1024 members are lanes of one compiled loop (`lb.stepper`), with friction and masses of their own. They try
actions, and proximal policy optimization (PPO) makes those more likely that did better than expected. Then
256 others, which nobody learnt from, walk for 10 s. The folder gets the weights, the learning curve, a film,
and the controller as C99. If MuJoCo is installed, the policy also walks there.

    observation  what legged_gym's robots see, and a clock: `observe`
    action       set-points of the joints are POSE + REACH action, held for 20 ms
    reward       velocity as commanded, feet up and down by the clock; costs: `Trot.reward`
    policy       normal distribution; its mean is a network with two layers of 64 tanh

Schulman et al. (2017), "Proximal policy optimization algorithms"; Schulman et al. (2016), "High-dimensional
continuous control using generalized advantage estimation"; Rudin et al. (2022), "Learning to walk in minutes
using massively parallel deep reinforcement learning", the source of observations, most rewards and the rate.
"""

from __future__ import annotations

import os

# Threads of linear algebra do not help small networks, and take processors from the simulation.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ctypes
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import JointPD

# the robot, and how it is driven
LEGS = ("LF", "RF", "LH", "RH")
FEET = [f"{leg}_FOOT" for leg in LEGS]
RADIUS = 0.02  # of the feet, m
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
START, HEIGHT = 0.56, 0.55  # of the base over the ground, in this pose and in the trot, m
K, D = 80.0, 2.0  # gains of the drives, N m/rad, N m s/rad
REACH = 0.4  # rad for an action of 1
DT, STEP = 0.02, 4e-3  # of actions and of time stepping, s

# the task
PERIOD = 0.5  # of the clock, s
OFFSET = np.array([0, 0.5, 0.5, 0])  # diagonal feet swing together
COMMANDS = np.array([[-0.3, 0.8], [-0.2, 0.2], [-0.4, 0.4]])  # velocities along x and y, m/s; yaw rate, rad/s
COMMANDED = 250  # actions until a member gets another command
TRIED = (0.35, 1.25), (0.7, 1.4)  # ranges in learning: friction; mass of the base over its own
TESTED = (0.5, 1.25), (0.8, 1.3)  # and when they walk
SPEEDS = 0.3, 0.5  # at which they walk, m/s

# PPO
UPDATES, MEMBERS, ROLLOUT = 120, 1024, 24
EPOCHS, BATCHES = 3, 4  # of each rollout
GAMMA, LAMBDA = 0.99, 0.95  # discount; decay of generalized advantage estimation
CLIP, KL = 0.2, 0.02  # of the ratio of probabilities; divergence to which the learning rate is adapted
RATE, RATES = 1e-3, (1e-5, 1e-2)  # learning rate at first, and its bounds
DEVIATION, ENTROPY = 0.6, 0.003  # of the actions at first; weight of the entropy
NORM = 1.0  # of a gradient, at most
OBSERVATIONS, HIDDEN, ACTIONS = 50, (64, 64), 12

f32 = np.float32


# -- the task ------------------------------------------------------------------------------------------------


def upwards(q):
    """The world's z in the axes of the base, (..., 3)."""
    w, x, y, z = np.moveaxis(q[..., :4], -1, 0)
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1)


def fallen(q):
    """Which members lean by more than 60 degrees, or lie."""
    return (upwards(q)[:, 2] < 0.5) | (q[:, 6] < 0.3)


def observe(q, v, command, phase, action):
    """Observation (..., 50): velocity, turning, up, command, joints, their rates, last action, clock.

    Numbers in, numbers out; symbols in, symbols out: `controller` is made of it.
    """
    clock = 2 * np.pi * phase
    return np.concatenate(
        [
            2 * v[..., 3:6], 0.25 * v[..., :3], upwards(q), 2 * command,
            q[..., 7:] - POSE, 0.05 * v[..., 6:], action, np.sin(clock), np.cos(clock),
        ],
        axis=-1,
    )  # fmt: skip


class Trot:
    """Members that are told how fast to trot. One that falls starts anew, with another friction and load.

    ranges    of friction and load, from which each member draws its own
    command   velocity along x and y, yaw rate, of each member, (members, 3); given, it does not change
    """

    def __init__(self, members, rng, ranges=TRIED, command=None, threads=2):
        robot = lb.load("anymal_c_simple", floating=True).with_parameters("base.mass")
        drives = JointPD(K=K, q_des=POSE, D=D, gravity_compensation=False)
        floor = Contact(*FEET, stiffness=1e5, damping=1e3, friction=0.8, radius=RADIUS)
        self.system = TimeStepping(robot, drives, floor, step=STEP, ledger=False)
        self.sim = lb.stepper(self.system, dt=DT, members=members, threads=threads)
        self.rng = rng
        self.ranges = ranges
        self.given = command
        self.q0 = np.concatenate([robot.neutral()[:7], POSE])
        self.q0[6] = START
        # arrays of all members, whose rows `_begin` draws
        everyone = np.ones(members, bool)
        self.friction, self.mass = np.empty((2, members))
        self.command = np.empty((members, 3))
        self.phase = np.empty((members, 1))
        self.action = np.empty((members, ACTIONS))
        self.air = np.empty((members, len(FEET)))  # time since a foot touched, s
        self.left = rng.integers(1, COMMANDED + 1, members)  # actions until the next command
        self.state = self.sim.start(*self._begin(everyone), self.parameters(everyone))

    def parameters(self, members=slice(None)):
        return {"floor_friction": self.friction[members], "base.mass": self.mass[members]}

    def _begin(self, members):
        """Draw the rest of an episode for these members (a mask); q and v at its start."""
        n = np.count_nonzero(members)
        own = self.system.parameters.defaults["base.mass"]
        frictions, loads = self.ranges
        self.friction[members] = self.rng.uniform(*frictions, n)
        self.mass[members] = own * self.rng.uniform(*loads, n)
        self.phase[members, 0] = self.rng.random(n)
        self.action[members] = 0
        self.air[members] = 0
        self._tell(members)
        q = np.tile(self.q0, (n, 1))
        q[:, 7:] += self.rng.uniform(-0.1, 0.1, (n, ACTIONS))
        return q, self.rng.uniform(-0.2, 0.2, (n, 6 + ACTIONS))

    def _tell(self, members):
        commands = self.rng.uniform(*COMMANDS.T, (np.count_nonzero(members), 3))
        self.command[members] = commands if self.given is None else self.given

    def observe(self):
        return observe(self.state.q, self.state.v, self.command, self.phase, self.action).astype(f32)

    def step(self, action):
        """Rewards (members,) of actions (members, 12), and which members fell."""
        old = self.state
        targets = POSE + REACH * action
        self.state = self.sim.step(old, {"pd_q_des": targets, **self.parameters()})
        self.phase = (self.phase + DT / PERIOD) % 1.0
        lost = self.state.ended | fallen(self.state.q)
        reward = np.where(lost, -1.0, self.reward(old, action))
        self.air = np.where(self.state.touching, 0.0, self.air + DT)
        self.action = action
        self.left -= 1
        if (again := self.left == 0).any():
            self._tell(again)
            self.left[again] = COMMANDED
        if lost.any():
            q, v = self._begin(lost)
            self.state = self.sim.reset(self.state, lost, q, v, self.parameters(lost))
        return reward, lost

    def reward(self, old, action):
        """What an action earns in 20 ms: three kinds of merit, less costs."""
        q, v, touching = self.state.q, self.state.v, self.state.touching
        torque = K * (POSE + REACH * action - q[:, 7:]) - D * v[:, 6:]
        swing = (self.phase + OFFSET) % 1.0 < 0.5
        rates = {
            "velocity": 1.5 * np.exp(-square(v[:, 3:5] - self.command[:, :2]) / 0.1),
            "yaw": 0.75 * np.exp(-np.square(v[:, 2] - self.command[:, 2]) / 0.25),
            "clock": 2.5 * (touching != swing).mean(axis=1),
            "vertical": -2.0 * np.square(v[:, 5]),
            "turning": -0.05 * square(v[:, :2]),
            "tilt": -3.0 * square(upwards(q)[:, :2]),
            "height": -20.0 * np.square(q[:, 6] - HEIGHT),
            "torque": -1e-5 * square(torque),
            "acceleration": -2.5e-7 * square((v[:, 6:] - old.v[:, 6:]) / DT),
            "change": -0.005 * square(action - self.action),
        }
        landing = touching & (self.air > 0)
        return DT * sum(rates.values()) + 0.05 * ((self.air - 0.2) * landing).sum(axis=1)


def square(x):
    """Sum of squares along the last axis."""
    return np.square(x).sum(axis=-1)


# -- networks ------------------------------------------------------------------------------------------------


def random_layers(rng, sizes, last):
    """Layers (W, b) of a network; `last` scales the weights of the last one."""
    layers = []
    for m, n in pairwise(sizes):
        W = rng.standard_normal((m, n), f32) / f32(np.sqrt(m))
        layers.append((W, np.zeros(n, f32)))
    layers[-1][0][:] *= f32(last)
    return layers


def hidden(layers, x):
    """The input and the values of each hidden layer."""
    values = [x]
    for W, b in layers[:-1]:
        values.append(np.tanh(values[-1] @ W + b))
    return values


def output(layers, x):
    """Output of the network for x (..., m), which may be symbols."""
    W, b = layers[-1]
    return hidden(layers, x)[-1] @ W + b


def backwards(layers, values, dy):
    """Gradient by the weights W, b of each layer, from the gradient by the output (back-propagation)."""
    gradient = []
    for (W, _), x in zip(reversed(layers), reversed(values)):
        gradient = [x.T @ dy, dy.sum(axis=0), *gradient]
        dy = (dy @ W.T) * (1 - x * x)
    return gradient


class Adam:
    """Kingma and Ba (2015), with gradients of norm NORM at most. `step` changes the arrays in place."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.mean = [np.zeros_like(x) for x in arrays]
        self.variance = [np.zeros_like(x) for x in arrays]
        self.steps = 0

    def step(self, gradient, rate):
        norm = np.sqrt(sum(np.square(g).sum() for g in gradient))
        scale = f32(min(1.0, NORM / norm))
        self.steps += 1
        rate = f32(rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps))
        for x, g, m, s in zip(self.arrays, gradient, self.mean, self.variance, strict=True):
            m += f32(0.1) * (scale * g - m)
            s += f32(0.001) * (np.square(scale * g) - s)
            x -= rate * m / (np.sqrt(s) + f32(1e-8))


# -- proximal policy optimization ----------------------------------------------------------------------------


class Learnt(NamedTuple):
    """What `learn` returns.

    layers      (W, b) of the policy's mean
    deviations  of its actions, (12,)
    history     (updates, 4): seconds, steps of all members, reward per second, falls per second
    snapshots   layers at first, after a third of the updates, and at the end
    """

    layers: list
    deviations: np.ndarray
    history: np.ndarray
    snapshots: list


def log_probability(z, log_deviation):
    """Of actions mean + deviation z, without the constant."""
    return -0.5 * square(z) - log_deviation.sum()


def advantages(reward, value, lost):
    """Generalized advantage estimation, (k, members), of values (k + 1, members).

    delta_k = r_k + gamma V_{k+1} - V_k,    A_k = delta_k + gamma lambda A_{k+1};  after a fall V and A are 0
    """
    A = np.zeros_like(value)
    for k in reversed(range(len(reward))):
        on = GAMMA * ~lost[k]
        A[k] = reward[k] + on * value[k + 1] - value[k] + on * LAMBDA * A[k + 1]
    return A[:-1]


class Batch(NamedTuple):
    """Rows of a rollout: observations, actions, advantages, returns; and the policy that acted.

    old_mean of the actions, (n, 12); old_log, their log deviations, (12,); old_probability, log p, (n,)
    """

    observation: np.ndarray
    action: np.ndarray
    A: np.ndarray
    returns: np.ndarray
    old_mean: np.ndarray
    old_log: np.ndarray
    old_probability: np.ndarray


def policy_gradient(actor, log_deviation, x):
    """Gradient of PPO's loss by the actor and by the log deviations, and the divergence from the old policy.

    loss = -mean(min(r A, clip(r, 1 - CLIP, 1 + CLIP) A)) - ENTROPY sum(log_deviation),    r = p / old p
    """
    values = hidden(actor, x.observation)
    mean = values[-1] @ actor[-1][0] + actor[-1][1]
    deviation = np.exp(log_deviation)
    z = (x.action - mean) / deviation
    r = np.exp(log_probability(z, log_deviation) - x.old_probability)
    # where the clipped term is the smaller one, it is constant
    free = np.where(x.A > 0, r < 1 + CLIP, r > 1 - CLIP)
    slope = -(free * r * x.A / len(r))[:, None]  # of the loss by log p
    gradient = backwards(actor, values, slope * z / deviation)
    by_log_deviation = (slope * (z * z - 1)).sum(axis=0) - ENTROPY

    # Kullback-Leibler divergence of the old normal distribution from the new one
    shift = (x.old_mean - mean) / deviation
    variances = np.exp(2 * (x.old_log - log_deviation))
    divergence = 0.5 * (variances - 1 - np.log(variances) + shift * shift).sum(axis=1).mean()
    return gradient, by_log_deviation, divergence


def value_gradient(critic, x):
    """Gradient of half the mean square by which the critic misses the returns."""
    values = hidden(critic, x.observation)
    miss = values[-1] @ critic[-1][0] + critic[-1][1] - x.returns[:, None]
    return backwards(critic, values, miss / len(miss))


def learn(updates=UPDATES, members=MEMBERS, seed=0):
    rng = np.random.default_rng(seed)
    task = Trot(members, rng)
    actor = random_layers(rng, [OBSERVATIONS, *HIDDEN, ACTIONS], last=0.01)
    critic = random_layers(rng, [OBSERVATIONS, *HIDDEN, 1], last=1.0)
    log_deviation = np.full(ACTIONS, np.log(DEVIATION), f32)
    adam = Adam([x for layer in actor + critic for x in layer] + [log_deviation])
    rate = RATE

    observations = np.empty((ROLLOUT + 1, members, OBSERVATIONS), f32)
    actions = np.empty((ROLLOUT, members, ACTIONS), f32)
    rewards = np.empty((ROLLOUT, members), f32)
    lost = np.empty((ROLLOUT, members), bool)
    history, snapshots = [], []
    begin = time.perf_counter()
    for update in range(updates):
        if update in (0, updates // 3):
            snapshots.append([(W.copy(), b.copy()) for W, b in actor])

        # all members act by the policy as it is
        observations[0] = task.observe()
        for k in range(ROLLOUT):
            mean = output(actor, observations[k])
            actions[k] = mean + np.exp(log_deviation) * rng.standard_normal(mean.shape, f32)
            rewards[k], lost[k] = task.step(actions[k].astype(float))
            observations[k + 1] = task.observe()

        # how much better than expected was each action?
        value = output(critic, observations)[..., 0]
        A = advantages(rewards, value, lost)
        returns = (A + value[:-1]).ravel()
        A = ((A - A.mean()) / A.std()).ravel()
        o, a = observations[:-1].reshape(-1, OBSERVATIONS), actions.reshape(-1, ACTIONS)
        mean, log = output(actor, o), log_deviation.copy()
        probability = log_probability((a - mean) / np.exp(log), log)

        # make the better ones more likely
        for _ in range(EPOCHS):
            for at in np.array_split(rng.permutation(len(o)), BATCHES):
                batch = Batch(o[at], a[at], A[at], returns[at], mean[at], log, probability[at])
                gradient, by_log_deviation, divergence = policy_gradient(actor, log_deviation, batch)
                rate = rate / 1.5 if divergence > 2 * KL else rate * 1.5 if divergence < KL / 2 else rate
                rate = min(max(rate, RATES[0]), RATES[1])
                adam.step([*gradient, *value_gradient(critic, batch), by_log_deviation], rate)

        seconds = time.perf_counter() - begin
        steps = (update + 1) * ROLLOUT * members
        history.append((seconds, steps, rewards.mean() / DT, lost.mean() / DT))
        if (update + 1) % 10 == 0 or update == updates - 1:
            print(f"{seconds:5.1f} s, {steps:9,d} steps: reward {history[-1][2]:6.3f} /s, "
                  f"{history[-1][3]:.3f} falls /s, rate {rate:.0e}", flush=True)  # fmt: skip
    snapshots.append(actor)
    return Learnt(actor, np.exp(log_deviation), np.array(history), snapshots)


# -- what was learnt -----------------------------------------------------------------------------------------


class Walk(NamedTuple):
    """Members that walk at one speed: which stay up; t, q and velocities along x, (actions, members, ...)."""

    up: np.ndarray
    t: np.ndarray
    q: np.ndarray
    vx: np.ndarray

    def errors(self, speed):
        """Of each member's mean velocity after a fifth of the time; root mean square of all times  [m/s]."""
        steady = self.vx[self.t > 0.2 * self.t[-1]]
        return np.abs(steady.mean(axis=0) - speed), np.sqrt(np.square(steady - speed).mean())


def walk(layers, speed, members=256, seconds=10.0, seed=1):
    """Members with frictions and loads of their own, told to walk at this speed along x, without noise."""
    task = Trot(members, np.random.default_rng(seed), TESTED, command=[speed, 0, 0])
    up = np.ones(members, bool)
    q, vx = [], []
    t = DT * np.arange(1, round(seconds / DT) + 1)
    for _ in t:
        _, lost = task.step(output(layers, task.observe()).astype(float))
        up &= ~lost
        q.append(task.state.q)
        vx.append(task.state.v[:, 3])
    return Walk(up, t, np.array(q), np.array(vx))


def walk_in_mujoco(layers, speed, members=64, seconds=10.0, seed=2):
    """The same in MuJoCo, from the equations of the same robot: its own contacts, solver and integrator."""
    import mujoco

    from liebody.io import mujoco_layout

    rng = np.random.default_rng(seed)
    robot = lb.load("anymal_c_simple", floating=True)
    spec = mujoco.MjSpec.from_string(robot.to_mjcf())
    plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    for name in FEET:
        frame = robot.tree.frames[name]
        spec.body(robot.tree.bodies[frame.body - 1].name).add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0], pos=frame.placement[:3, 3],
            contype=0, conaffinity=1, friction=[0, 0, 0], mass=0,
        )  # fmt: skip
    for body in robot.tree.bodies[1:]:  # tau = K (ctrl - q) - D v
        spec.add_actuator(
            target=body.joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED, gainprm=[K, *[0] * 9],
            biastype=mujoco.mjtBias.mjBIAS_AFFINE, biasprm=[0, -K, -D, *[0] * 7],
        )  # fmt: skip
    spec.option.timestep, spec.option.integrator = 2e-3, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    base = spec.body("base")
    own = base.mass
    models = []
    for friction, load in zip(*(rng.uniform(*limits, members) for limits in TESTED), strict=True):
        plane.friction = [friction, 0, 0]  # the larger one of two geoms acts
        base.mass = load * own
        models.append(spec.compile())
    layout = mujoco_layout(robot.tree, models[0])
    simulations = [(model, mujoco.MjData(model)) for model in models]
    start = np.concatenate([robot.neutral()[:7], POSE])
    start[6] = START
    for _, data in simulations:
        data.qpos[:] = layout.to_q(start)

    phase = rng.random((members, 1))
    action = np.zeros((members, ACTIONS))
    command = np.tile([speed, 0.0, 0.0], (members, 1))
    up = np.ones(members, bool)
    all_q, vx = [], []
    t = DT * np.arange(1, round(seconds / DT) + 1)
    for _ in t:
        theirs = [np.array([getattr(data, x) for _, data in simulations]) for x in ("qpos", "qvel")]
        q = layout.from_q(theirs[0])
        v = layout.from_v(*theirs)
        action = output(layers, observe(q, v, command, phase, action))
        phase = (phase + DT / PERIOD) % 1.0
        for (model, data), target in zip(simulations, POSE + REACH * action, strict=True):
            data.ctrl[:] = target
            mujoco.mj_step(model, data, nstep=round(DT / model.opt.timestep))
        up &= ~fallen(q)
        all_q.append(q)
        vx.append(v[:, 3])
    return Walk(up, t, np.array(all_q), np.array(vx))


@lb.compiler.repeated
def neuron(x, w, b):
    return np.tanh(x @ w + b)


def controller(layers):
    """The policy as a function of what a robot measures: Python, from which `export_c` prints C.

    Its neurons are marked as repeats, so that C has a loop over them, and their weights in a table.
    """
    *inner, (W, b) = [(W.astype(float), b.astype(float)) for W, b in layers]

    def control(q, v, command, phase, action):
        x = observe(q, v, command, phase, action)
        for weights, biases in inner:
            x = np.array([neuron(x, *each) for each in zip(weights.T, biases, strict=True)])
        action = x @ W + b
        return {"next_action": action, "set_points": POSE + REACH * action}

    return control


def as_c(layers, folder):
    """Write trot.c, trot.h and their test; how much C and Python differ, None without a compiler.

    `trot_controller(q, v, command, phase, action, next_action, set_points)` holds the weights as constants.
    """
    function = controller(layers)
    shapes = {"q": 7 + ACTIONS, "v": 6 + ACTIONS, "command": 3, "phase": 1, "action": ACTIONS}
    lb.export_c(folder, "trot", [lb.compiler.traced(function, shapes, "controller", loops=[neuron])])
    library = Path(folder).resolve() / "trot.so"
    try:
        command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", "trot.c", "-o", str(library), "-lm"]
        subprocess.run(command, cwd=folder, check=True)
    except FileNotFoundError:
        return None
    in_c = ctypes.CDLL(str(library)).trot_controller
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(100):
        arguments = [rng.standard_normal(n) for n in shapes.values()]
        results = [np.empty(ACTIONS), np.empty(ACTIONS)]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in arguments + results]
        in_c(*pointers)
        expected = function(*arguments)
        worst = max(worst, *(np.abs(x - y).max() for x, y in zip(results, expected.values(), strict=True)))
    return worst


def draw(history, walks, file):
    """The learning curve, and velocities of the members that walk."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    _, steps, reward, _ = history.T
    left.plot(steps / 1e6, reward)
    left.set(xlabel="steps of 20 ms, in millions", ylabel="reward per second", ylim=0)
    for k, (speed, x) in enumerate(walks.items()):
        low, middle, high = np.percentile(x.vx, [5, 50, 95], axis=1)
        right.fill_between(x.t, low, high, color=f"C{k}", alpha=0.3, lw=0)
        right.plot(x.t, middle, f"C{k}", lw=1, label=f"told {speed} m/s: {x.up.sum()} of {len(x.up)} stay up")
        right.axhline(speed, color="k", ls=":", lw=1)
    right.set(
        xlabel="t in s", ylabel="velocity along x in m/s", ylim=(-0.1, 0.8), title="median, and 5 to 95 %"
    )
    right.legend(loc="lower right")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def film(snapshots, file, speed=0.5, seconds=4.0, fps=10, width=480, height=240):
    """The policy at first, after a third of the updates, and at the end, side by side, told the same."""
    q = np.concatenate([walk(layers, speed, 1, seconds).q for layers in snapshots], axis=1)
    # all turned to the right by 90 degrees, so that they walk beside each other
    w, x, y, z = np.moveaxis(q[..., :4], -1, 0)
    q[..., :4] = np.sqrt(0.5) * np.stack([w + z, x + y, y - x, z - w], axis=-1)
    q[..., 4:6] = np.stack([q[..., 5], -q[..., 4]], axis=-1)
    robot = lb.load("anymal_c_simple", floating=True)
    run = lb.Run.from_states(robot, DT * np.arange(len(q)), np.moveaxis(q, 1, 0), np.zeros((3, len(q), 18)))
    run.view(trace=[]).save(file, seconds=seconds, fps=fps, width=width, height=height)


def main(folder="trot", updates=UPDATES, members=MEMBERS, tested=256, seconds=10.0):
    warnings.simplefilter("ignore", UserWarning)  # of what the description leaves open
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    learnt = learn(int(updates), int(members))
    weights = {f"{kind}{k}": x for k, layer in enumerate(learnt.layers) for kind, x in zip("Wb", layer)}
    np.savez(folder / "trot.npz", **weights)
    walks = {speed: walk(learnt.layers, speed, tested, seconds) for speed in SPEEDS}
    for speed, x in walks.items():
        report(f"told {speed} m/s", speed, x)
    print(f"{time.perf_counter() - begin:.0f} s from nothing")

    theirs = None
    if find_spec("mujoco"):
        theirs = walk_in_mujoco(learnt.layers, SPEEDS[-1], tested // 4, seconds)
        report(f"in MuJoCo, told {SPEEDS[-1]} m/s", SPEEDS[-1], theirs)
    differs = as_c(learnt.layers, folder)
    if differs is not None:
        print(f"trot.c and Python differ by {differs:.0e}")
    if find_spec("matplotlib"):  # the extra `plot`
        draw(learnt.history, walks, folder / "learning.png")
    return learnt, walks, theirs, differs


def report(name, speed, x):
    errors, deviation = x.errors(speed)
    print(f"{name}: {x.up.sum()} of {len(x.up)} stay up, their mean velocities miss it by "
          f"{errors.mean():.3f} m/s, at all times by {deviation:.3f} m/s (root mean square)")  # fmt: skip


if __name__ == "__main__":
    learnt = main(*sys.argv[1:])[0]
    print("a film takes as long as the learning ...")
    film(learnt.snapshots, Path(*sys.argv[1:2] or ["trot"]) / "trot.gif")
