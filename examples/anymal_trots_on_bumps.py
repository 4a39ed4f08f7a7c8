"""ANYmal trots over bumps that it does not see, and is pushed: controller and filter at 1 kHz in Python.

    python examples/anymal_trots_on_bumps.py [picture.png]

The loop of each millisecond has four parts, and the first three know only what sensors measure:

    filter      `liebody.control.InvariantFilter` estimates where the robot is, by an IMU with noise and
                biases, by encoders with noise, and by switches of feet that carry more than 20 N
    gait        diagonal legs swing in turn; each foot steps to where the robot will need it (Raibert 1986)
    controller  `liebody.control.WholeBody` computes efforts of the joints for the trunk and the swinging feet
    robot       time stepping of ANYmal (from the package example-robot-data) on a random `HeightField`

The trunk keeps its height over the feet and its attitude, and moves forwards at 0.4 m/s. After 2.5 s a force
pushes it to the side for a tenth of a second.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody.contact import Contact, HeightField, TimeStepping
from liebody.control import FilterNoise, InvariantFilter, MotionTask, Support, WholeBody
from liebody.groups import SO3, rotations
from liebody.hybrid import Element, Feedback

LEGS = ("LF", "RF", "LH", "RH")
FEET = [f"{leg}_FOOT" for leg in LEGS]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
DT, MU = 1e-3, 0.7
BUMPS, SPACING = 0.04, 0.2  # height of the bumps and distance of their points, m
START, END, PUSH = 2.5, 2.6, 250.0  # of the push, s and N
SCENES = ((2.4, "before the push"), (END, "pushed to the side"), (3.0, "after it"))  # of the picture, s
SPEED, WALK = 0.4, 0.5  # m/s, and when the robot starts to walk, s
CARRIES = 20.0  # N, of a foot that its switch reports

PERIOD, SWING = 0.5, 0.24  # of a cycle and of a leg in the air, s
PAIR = np.array([0, 1, 1, 0])  # LF and RH, RF and LH
CLEARANCE = 0.08  # of a foot at the top of its swing, m
SEARCH = 0.4  # speed at which a foot that is late goes down, m/s
REACH = 0.08  # by how much further a foot steps for each m/s that the robot is too fast, s
SWAY = 0.2  # m/s, of the velocity about its mean over half a cycle, which no foot steps after

NOISE = FilterNoise(
    gyroscope=1e-3,
    accelerometer=2e-2,
    gyroscope_bias=1e-4,
    accelerometer_bias=1e-3,
    encoder=5e-4,
    contact=0.01,
)
BIASES = np.repeat([0.01, 0.1], 3)  # deviations of those of gyroscope and accelerometer
RATES = 0.01  # deviation of measured joint velocities, rad/s


class Push(Element):
    """A force on the origin of the trunk, a parameter."""

    driven = False

    def __init__(self) -> None:
        super().__init__()
        self.name = "push"
        self.parameters = {"force": np.zeros(3)}

    def attach(self, tree):
        self.at = tree.frame("base")

    def forces(self, s, z, p):
        return [(self.at, p.force)]


class Sensors:
    """What IMU and encoders measure between two states of the simulation, with noise and biases."""

    def __init__(self, robot: lb.Robot, rng: np.random.Generator) -> None:
        self.gravity = robot.gravity_vector
        self.rng = rng
        self.bias = BIASES * rng.standard_normal(6)

    def _draw(self, deviation, n: int) -> np.ndarray:
        return deviation * self.rng.standard_normal(n)

    def imu(self, old, new) -> tuple[np.ndarray, np.ndarray]:
        """Gyroscope and accelerometer: the constant values that lead from one state to the next."""
        R_old, R_new = rotations(old.q[:4]), rotations(new.q[:4])
        u = SO3.log(R_old.T @ R_new)
        change = R_new @ new.v[3:6] - R_old @ old.v[3:6] - self.gravity * DT
        force = np.linalg.solve(SO3.dexp(u), R_old.T @ change) / DT
        drift = np.repeat([float(NOISE.gyroscope_bias), float(NOISE.accelerometer_bias)], 3)
        self.bias = self.bias + self._draw(drift * np.sqrt(DT), 6)
        gyroscope = u / DT + self.bias[:3] + self._draw(NOISE.gyroscope / np.sqrt(DT), 3)
        return gyroscope, force + self.bias[3:] + self._draw(NOISE.accelerometer / np.sqrt(DT), 3)

    def joints(self, state) -> tuple[np.ndarray, np.ndarray]:
        """Angles and velocities of the joints."""
        return state.q[7:] + self._draw(NOISE.encoder, 12), state.v[6:] + self._draw(RATES, 12)


def quintic(s: float, length: float) -> np.ndarray:
    """From 0 to 1 at the share s of a time, at rest at both ends: value, rate and acceleration."""
    s = np.clip(s, 0.0, 1.0)
    rate = 30 * s * s * (1 - s) ** 2 / length
    return np.array([s**3 * (10 - 15 * s + 6 * s * s), rate, 60 * s * (1 - s) * (1 - 2 * s) / length**2])


class Trot:
    """Which feet stand and where the others should be: by a clock, the estimated state and the switches."""

    def __init__(self, robot: lb.Robot, q: np.ndarray) -> None:
        self.robot = robot
        feet = np.array([robot.pose(q, foot)[:3, 3] for foot in FEET])
        self.height = q[6] - feet[:, 2].mean()  # of the trunk over the feet
        self.places = feet[:, :2] - feet[:, :2].mean(axis=0)  # of the feet, about the centre of mass
        self.mean_velocity = np.zeros(2)
        self.stands = np.ones(4, bool)
        self.cycle = np.full(4, -1)  # number of the last swing of each leg
        self.lifted = np.zeros(4)  # when it began
        self.start = feet.copy()  # where it began
        self.ground = feet[:, 2].copy()  # heights at which the feet stood last

    def switch(self, t: float, places: np.ndarray, carries: np.ndarray) -> None:
        """Lifts feet that are due, if the other pair stands; sets feet down that feel the ground."""
        cycle = np.floor((t - WALK) / PERIOD - 0.5 * PAIR).astype(int)
        for i in range(4):
            if self.stands[i]:
                self.ground[i] += 0.05 * (places[i, 2] - self.ground[i])
                if cycle[i] > self.cycle[i] and self.stands[PAIR != PAIR[i]].all():
                    self.stands[i] = False
                    self.cycle[i] = cycle[i]
                    self.lifted[i] = t
                    self.start[i] = places[i]
            elif carries[i] and t - self.lifted[i] > SWING / 2:
                self.stands[i] = True
                self.ground[i] = places[i, 2]

    def targets(self, t: float, q: np.ndarray, v: np.ndarray, carries: np.ndarray) -> dict[str, Any]:
        """Parameters of the controller."""
        self.switch(t, np.array([self.robot.pose(q, foot)[:3, 3] for foot in FEET]), carries)
        R = rotations(q[:4])
        velocity = self.without_sway((R @ v[3:6])[:2])
        wanted = np.array([wanted_speed(t), 0.0])
        forwards = R[:2, 0] / np.hypot(*R[:2, 0])
        turn = np.array([[forwards[0], -forwards[1]], [forwards[1], forwards[0]]])
        center = self.robot.center_of_mass(q)[:2]
        values = {"velocity.target": wanted, "height.target": self.ground.mean() + self.height}
        for i, foot in enumerate(FEET):
            values[f"{foot}.active"] = float(self.stands[i])
            values[f"{foot}.weight"] = float(not self.stands[i])
            if not self.stands[i]:
                # The trunk passes the foot in the middle of its stance. A foot further ahead slows it down.
                rest = max(SWING - (t - self.lifted[i]), 0.0)
                ahead = velocity * (rest + (PERIOD - SWING) / 2) + REACH * (velocity - wanted)
                values |= self.swing(i, t, center + turn @ self.places[i] + np.clip(ahead, -0.3, 0.3))
        return values

    def without_sway(self, velocity: np.ndarray) -> np.ndarray:
        """The mean velocity, and what goes beyond the sway of a trot, as after a push.

        Over two feet the trunk sways away from the line between them. Feet that step after the sway hold this
        line ahead of the centre of mass, and slow the robot down, here by 0.04 m/s.
        """
        self.mean_velocity = self.mean_velocity + DT / (PERIOD / 2) * (velocity - self.mean_velocity)
        return velocity - np.clip(velocity - self.mean_velocity, -SWAY, SWAY)

    def swing(self, i: int, t: float, end: np.ndarray) -> dict[str, np.ndarray]:
        """Place, rate and acceleration of a foot on its way to `end`; a late foot searches the ground."""
        since = t - self.lifted[i]
        x = quintic(since / SWING, SWING)[:, None] * (end - self.start[i, :2])
        ground = self.ground.mean()
        top = max(self.start[i, 2], ground) + CLEARANCE
        if since < SWING / 2:
            z = quintic(2 * since / SWING, SWING / 2) * (top - self.start[i, 2]) + [self.start[i, 2], 0, 0]
        else:
            z = quintic(2 * since / SWING - 1, SWING / 2) * (ground - top) + [top, 0, 0]
        if since > SWING:
            z -= [SEARCH * (since - SWING), SEARCH, 0]
        x[0] += self.start[i, :2]
        words = ("target", "rate", "acceleration")
        return {f"{FEET[i]}.{word}": np.append(x[k], z[k]) for k, word in enumerate(words)}


def wanted_speed(t: Any) -> Any:
    """Forwards, m/s: the robot stands, then speeds up within half a second."""
    return SPEED * np.clip((np.asarray(t) - WALK) / 0.5, 0, 1)


def controller_of(robot: lb.Robot) -> WholeBody:
    """Trunk, swinging feet and posture, on four feet that may carry."""

    def height(q, v, p):
        return robot.pose(q, "base")[2:3, 3] - p.target

    def velocity(q, v, p):
        return (robot.pose(q, "base")[:3, :3] @ v[3:6])[:2] - p.target

    tasks = [
        MotionTask.orientation(robot, "base", kp=200.0, weight=10.0),
        MotionTask("height", height, {"target": 0.0}, kp=150.0, weight=10.0),
        MotionTask("velocity", velocity, {"target": np.zeros(2)}, kp=25.0, weight=20.0),
        *(MotionTask.position(robot, foot, kp=900.0, weight=0.0) for foot in FEET),
        MotionTask.posture(robot, kp=20.0, weight=0.01),
    ]
    return WholeBody(robot, tasks, [Support(foot, friction=0.8 * MU) for foot in FEET])


class Walk(NamedTuple):
    """What happened, a row for each millisecond: states at its end, commands and times within it."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    estimated_q: np.ndarray
    estimated_v: np.ndarray
    tau: np.ndarray
    status: np.ndarray
    stands: np.ndarray
    seconds: np.ndarray

    @property
    def velocity(self) -> np.ndarray:
        """Of the trunk, in the world."""
        return np.einsum("kij,kj->ki", rotations(self.q[:, :4]), self.v[:, 3:6])

    @property
    def estimated_velocity(self) -> np.ndarray:
        return np.einsum("kij,kj->ki", rotations(self.estimated_q[:, :4]), self.estimated_v[:, 3:6])

    @property
    def tilt(self) -> np.ndarray:
        """Angle of the trunk from upright, in degrees."""
        return np.degrees(np.arccos(np.clip(rotations(self.q[:, :4])[:, 2, 2], -1, 1)))

    @property
    def drift(self) -> np.ndarray:
        """Distance of the estimated trunk from the true one, m."""
        return np.linalg.norm(self.estimated_q[:, 4:7] - self.q[:, 4:7], axis=1)


def walk(seed: int = 0, t_end: float = 5.0, push: float = PUSH) -> tuple[Walk, np.ndarray]:
    """A run on terrain, and with sensors, that the seed chooses; it ends if the trunk falls. Heights, too."""
    rng = np.random.default_rng(seed)
    robot = lb.load("anymal_c_simple", floating=True)
    heights = BUMPS * rng.random((40, 40))
    plant = TimeStepping(
        robot,
        Feedback(lambda s, p: p.tau, tau=np.zeros(12)),
        Contact(*FEET, stiffness=1e6, damping=1e4, friction=MU, ground=HeightField(heights, SPACING)),
        Push(),
        ledger=False,
    )
    sim = lb.stepper(plant, dt=DT)
    q0 = robot.neutral()
    q0[7:] = POSE
    q0[6] = -min(robot.pose(q0, foot)[2, 3] for foot in FEET) + BUMPS
    state = sim.start(q0)

    sensors = Sensors(robot, rng)
    estimator = InvariantFilter(robot, FEET, noise=NOISE)
    deviation = np.concatenate([np.repeat([0.03, 0.05, 0.01], 3), BIASES])
    estimate = estimator.start(q0, np.zeros(robot.nv), np.diag(deviation**2))
    controller = controller_of(robot)
    trot = Trot(robot, q0)
    joints, rates = sensors.joints(state)
    carries = np.zeros(4, bool)
    stood = np.zeros(4)  # for how long each foot has carried
    rows = []
    while state.t < t_end - DT / 2 and state.q[6] > 0.3:
        # the controller: from the estimate to efforts
        begin = time.perf_counter()
        q, v = estimate.q, estimate.v(rates)
        values = trot.targets(state.t, q, v, carries)
        u = controller(q, v, values | {"posture.target": POSE})
        seconds = time.perf_counter() - begin
        # the robot
        force = np.array([0.0, push if START <= state.t < END else 0.0, 0.0])
        last = state
        state = sim.step(state, {"tau": u.tau[6:], "push_force": force})
        # the sensors and the filter. A foot helps the filter once it has carried for 5 ms
        gyroscope, accelerometer = sensors.imu(last, state)
        joints, rates = sensors.joints(state)
        carries = state.memory.floor_reaction[:, 0] > CARRIES
        stood = np.where(carries & trot.stands, stood + DT, 0.0)
        begin = time.perf_counter()
        estimate = estimator.step(estimate, gyroscope, accelerometer, joints, stood > 0.005, DT)
        seconds += time.perf_counter() - begin
        states = state.q, state.v, estimate.q, estimate.v(rates)
        rows.append((state.t, *states, u.tau[6:], u.status, trot.stands.copy(), seconds))
    return Walk(*(np.array(x) for x in zip(*rows, strict=True))), heights


def main(picture: str | None = None, seed: int | str = 0, t_end: float = 5.0) -> Walk:
    found, heights = walk(int(seed), t_end)
    late = found.t > WALK + 1
    speed = found.velocity[late, 0].mean()
    print(f"speed {speed:.3f} m/s of {SPEED} m/s, the trunk leans by {found.tilt.max():.1f} degrees at most")
    print(f"the place is off by {100 * found.drift[-1]:.1f} cm after {found.q[-1, 4]:.2f} m")
    print(f"efforts up to {np.abs(found.tau).max():.0f} N m; {np.sum(found.status == 2)} did not converge")
    median = 1e6 * np.median(found.seconds)
    print(f"gait, controller and filter take {median:.0f} us of each millisecond (median)")
    if picture:
        draw(found, heights, picture)
    return found


def draw(found: Walk, heights: np.ndarray, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 6), layout="constrained")
    grid = figure.add_gridspec(3, 5)
    speed, effort, place = (figure.add_subplot(grid[k, :3]) for k in range(3))
    for k, name in enumerate(("forwards", "sideways")):
        speed.plot(found.t, found.velocity[:, k], color=f"C{k}", label=name)
        speed.plot(found.t, found.estimated_velocity[:, k], color=f"C{k}", ls=":", lw=1.5)
    speed.plot(found.t, wanted_speed(found.t), "k--", lw=0.8, label="wanted")
    speed.set(ylabel="velocity in m/s", xticklabels=[])
    speed.legend(ncols=3, loc="upper left", frameon=False, fontsize=8)
    for k, name in enumerate(("hip, sideways", "hip, forwards", "knee")):
        effort.plot(found.t, np.abs(found.tau[:, k::3]).max(axis=1), lw=0.7, label=name)
    effort.set(ylabel="largest efforts in N m", xticklabels=[], ylim=(0, 130))
    effort.axhline(80, color="k", ls="--", lw=0.8)
    effort.legend(ncols=3, loc="upper left", frameon=False, fontsize=8)
    for k, axis in enumerate("xyz"):
        error = found.estimated_q[:, 4 + k] - found.q[:, 4 + k]
        place.plot(found.t, 1e3 * error, label=axis)
    place.set(ylabel="estimate - truth in mm", xlabel="t in s")
    place.legend(ncols=3, loc="upper left", frameon=False, fontsize=8)
    for axes in (speed, effort, place):
        axes.axvspan(START, END, color="0.85")

    robot = lb.load("anymal_c_simple", floating=True)
    for k, (t, title) in enumerate(SCENES):
        scene = figure.add_subplot(grid[k, 3:], projection="3d", computed_zorder=False)
        draw_robot(scene, robot, found.q[np.argmin(np.abs(found.t - t))], heights)
        scene.set_title(f"{title}, {t:.1f} s", fontsize=9, pad=-4)
        if START < t <= END:
            scene.quiver(*found.q[np.argmin(np.abs(found.t - t)), 4:7], 0, 0.5, 0, color="k", zorder=6)
    figure.savefig(picture, dpi=110)


def draw_robot(scene: Any, robot: lb.Robot, q: np.ndarray, heights: np.ndarray) -> None:
    """Legs and trunk as lines, on the bumps around them."""
    i, j = (np.round(x / SPACING).astype(int) + np.arange(-4, 5) for x in q[4:6])
    field = heights[np.ix_(i % len(heights), j % len(heights))]
    surface = np.meshgrid(SPACING * i, SPACING * j, indexing="ij")
    scene.plot_surface(*surface, field, cmap="YlGn", vmin=-0.02, vmax=0.1, zorder=0)
    hips = []
    for leg in LEGS:
        links = [robot.pose(q, f"{leg}_{link}")[:3, 3] for link in ("HAA", "HFE", "KFE", "FOOT")]
        scene.plot(*np.array(links).T, "C3", lw=2, zorder=5)
        hips.append(links[0])
    scene.plot(*np.array([hips[k] for k in (0, 1, 3, 2, 0)]).T, "C3", lw=2, zorder=5)
    ends = ((SPACING * (k[0] - 0.1), SPACING * (k[-1] + 0.1)) for k in (i, j))
    scene.set(**dict(zip(("xlim", "ylim"), ends, strict=True)), zlim=(-0.02, 0.6))
    scene.set_box_aspect((1.6, 1.6, 0.6), zoom=1.35)
    scene.set(xticks=np.arange(np.ceil(q[4] - 0.8), q[4] + 0.8), yticks=[-0.5, 0.5], zticks=[0, 0.5])
    scene.set_xlabel("x in m", fontsize=8, labelpad=-9)
    scene.set_ylabel("y in m", fontsize=8, labelpad=-9)
    scene.tick_params(labelsize=7, pad=-3)
    scene.view_init(20, -60)


if __name__ == "__main__":
    main(*sys.argv[1:])
