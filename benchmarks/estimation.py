"""The invariant filter on 1000 walks of ANYmal: consistency, drift beside a plain EKF, and its time.

    python benchmarks/estimation.py [picture.png]

ANYmal trots along a curve. The attitude at the start is known to 2 degrees, or to 30. Every run has noise,
biases and slipping feet of its own, drawn from the densities that the filters are given. Both filters are
compiled from the same functions, with the same rows and the same noise:

    invariant   the filter of the library: errors are those of SE_6(3)
    plain       as filters of quaternions have it: the rotation by R_true = R exp(theta), velocity, position
                and contacts by differences

NEES is the mean over runs of e^T P^-1 e / 15, each filter's own e and P: 1 is consistent, above 1 a filter
trusts itself too much. Drift is the root mean square, over the length of the way, of the error of the way
that was walked, seen in the estimated heading: nothing measures the heading itself.

GTSAM, where it is installed (`pip install gtsam`), has a filter of the same paper with biases that it
knows, a state of 21 errors beside our 27. It is given a run without biases, and compared with ours in time
and place.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any, NamedTuple

import numpy as np
from machine import describe, keep, seconds, unless_quick

import liebody as lb
from liebody.compiler import Kernel, trace
from liebody.control import FilterNoise, FilterState, InvariantFilter
from liebody.control.estimation.equations import FilterEquations, update
from liebody.groups import SO3, quaternions, rotations
from liebody.scalars.linear import dot, product, symmetric

RUNS, STEPS, DT = unless_quick(1000, 8), unless_quick(2000, 40), 5e-3  # 10 s
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
NOISE = {  # a sensor of some 20 dollars; feet that roll
    "gyroscope": 2e-3,
    "accelerometer": 2e-2,
    "contact": 1e-2,
    "encoder": 2e-3,
    "gyroscope_bias": 1e-4,
    "accelerometer_bias": 1e-3,
}
STARTS = {  # deviations of (theta, v, p, b_g, b_a)
    "2 deg": np.repeat([np.radians(2), 0.1, 0.01, 0.005, 0.05], 3),
    "30 deg": np.repeat([np.radians(30), 1.0, 0.1, 0.005, 0.05], 3),
}
STAND = np.tile([0.0, 0.6, -1.1], 4) * np.array([1, 1, 1, 1, 1, 1, 1, -1, -1, 1, -1, -1])
PERIOD, LIFT = 0.5, 0.08  # s of a stride; m
RECORDED = 20  # steps between records
ROUNDS = unless_quick(9, 1)
DEG = 180 / np.pi


# -- the walk -----------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Truth at all times (steps + 1, ...), and the measurements of the steps (steps, runs, ...)."""

    base: np.ndarray  # (steps + 1, 7), of all runs
    twist: np.ndarray  # (steps + 1, 6)
    bias: np.ndarray
    gyroscope: np.ndarray
    accelerometer: np.ndarray
    joints: np.ndarray
    touching: np.ndarray
    way: float  # length


def matrices(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", R, x)


def series(m: int, u: np.ndarray) -> np.ndarray:
    """Sum of [u]^k/(k + m)!, (3, 3)."""
    U = np.cross(u, np.eye(3)).T
    term = np.eye(3) / (2 if m == 2 else 1)
    total = term
    for k in range(1, 15):
        term = U @ term / (k + m)
        total = total + term
    return total


def walk(estimator: InvariantFilter, runs: int, steps: int, rng: Any, biases: Any) -> Data:
    """Walks along one course of the base; feet slip, and sensors err, differently in each.

    biases  deviation of the biases at the start (6,); they do not drift where it is zero
    """
    kinematics = trace(
        lambda joints: {
            "h": np.stack([h for h, _ in estimator.equations.kinematics(joints)]),
            "J": np.stack([J for _, J in estimator.equations.kinematics(joints)]),
        },
        {"joints": 12},
        "kinematics",
    )
    legs = Kernel(kinematics)
    hips, _ = legs(STAND)
    joints = np.tile(STAND, (runs, 1))

    def reached(joints: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Joints (runs, 12) with feet at these places (runs, 4, 3) of the base, by Newton's method."""
        for _ in range(12):
            h, J = legs(joints)
            off = targets - h
            if np.abs(off).max() < 1e-13:
                return joints
            own = np.stack([J[:, i, :, 3 * i : 3 * i + 3] for i in range(4)], axis=1)
            joints = joints + np.linalg.solve(own, off[..., None])[..., 0].reshape(-1, 12)
        raise ArithmeticError(f"a foot does not reach its place, by {np.abs(off).max():.1e} m")

    def velocity(t: float) -> np.ndarray:
        """Of the base in the world: along a curve, with the bounce of a trot."""
        turn, bounce = 0.3 * t, 2 * np.pi * 2 / PERIOD
        ramp = min(1.0, t)
        along = ramp * np.array([0.4 * np.cos(turn), 0.4 * np.sin(turn), 0.0])
        return along + ramp * np.array([0, 0, 0.05 * np.cos(bounce * t)])

    R, p = np.eye(3), np.array([0.0, 0.0, 0.55])
    v = velocity(0.0)
    d = p + hips + np.zeros((runs, 4, 3))
    standing = np.ones(4, bool)
    drifts = np.any(biases)
    bias = biases * rng.standard_normal((runs, 6))
    g = estimator.robot.gravity_vector
    rows: dict[str, list[Any]] = {name: [] for name in Data._fields if name != "way"}
    way = 0.0

    def note(omega: np.ndarray) -> None:
        rows["base"].append(np.concatenate([SO3.coordinates(R), p]))
        rows["twist"].append(np.concatenate([omega, R.T @ v]))
        rows["bias"].append(bias)

    note(np.zeros(3))
    for k in range(steps):
        t = k * DT
        sway = np.array([0.25, 0.2, 0.0]) * min(1.0, t) * np.sin(2 * np.pi / PERIOD * t + np.array([0, 1, 0]))
        omega = sway + np.array([0, 0, 0.3])
        # the specific force that leads to the velocity of the course after this step
        f = np.linalg.solve(R @ series(1, omega * DT), (velocity(t + DT) - v) / DT - g)
        scale = 1 / np.sqrt(DT)
        for name, x, b in (("gyroscope", omega, bias[:, :3]), ("accelerometer", f, bias[:, 3:])):
            rows[name].append(x + b + NOISE[name] * scale * rng.standard_normal((runs, 3)))
        p = p + v * DT + g * DT**2 / 2 + R @ series(2, omega * DT) @ f * DT**2
        v, way = v + g * DT + R @ series(1, omega * DT) @ f * DT, way + DT * np.linalg.norm(v[:2])
        R = R @ series(0, omega * DT)
        if drifts:
            walks = np.repeat([NOISE["gyroscope_bias"], NOISE["accelerometer_bias"]], 3)
            bias = bias + walks * np.sqrt(DT) * rng.standard_normal((runs, 6))
        # a trot: diagonal legs stand in turn, with a short time on all four
        phase = (t + DT) / PERIOD % 1
        first = phase < 0.55
        second = phase >= 0.5 or phase < 0.05
        touching = np.array([first, second, second, first]) if t > 0.2 else np.ones(4, bool)
        slipped = d + NOISE["contact"] * np.sqrt(DT) * rng.standard_normal((runs, 4, 3))
        ahead = R @ (0.5 * PERIOD / 2 * (R.T @ v) * [1, 1, 0])
        landing = p + hips @ R.T + ahead
        landing = np.where((standing & touching)[:, None], landing, landing * [1, 1, 0])
        swing = np.where(touching, 0.0, LIFT)
        placed = np.concatenate(
            [np.tile(landing[:, :2], (runs, 1, 1)), np.tile(swing[:, None], (runs, 1, 1))], -1
        )
        d = np.where((standing & touching)[:, None], slipped, placed)
        standing = touching
        joints = reached(joints, matrices(R.T, d - p))
        rows["joints"].append(joints + NOISE["encoder"] * rng.standard_normal(joints.shape))
        rows["touching"].append(touching)
        note(omega)
    return Data(**{name: np.array(x) for name, x in rows.items()}, way=way)


# -- the filters --------------------------------------------------------------------------------------------


class PlainEquations(FilterEquations):
    """The same step, corrected in plain errors: R exp(theta), and differences of vectors."""

    def to_plain(self, x: Any, inverse: bool = False) -> Any:
        """T (n, n) with plain errors = T (xi, db): theta = R^T xi_R, dy = xi_y - [y] xi_R."""
        R, vectors = self.group.parts(self.group.element(x))
        T = np.eye(self.size, dtype=int).astype(object)
        T[:3, :3] = R if inverse else R.T
        for i, y in enumerate(vectors):
            at = slice(3 + 3 * i, 6 + 3 * i)
            T[at, :3] = SO3.hat(y) @ R if inverse else -SO3.hat(y)
        return T

    def turned(self, T: Any, P: Any) -> Any:
        left = product(T, P)
        return symmetric(len(P), lambda i, j: dot(left[i], T[j]))

    def correct(self, x: Any, bias: Any, P: Any, places: Any, held: Any, of: Any) -> Any:
        X = self.group
        R, (_, p, *contacts) = X.parts(X.element(x))
        P = self.turned(self.to_plain(x), P)
        delta = np.zeros(self.size, int)
        for i, (h, J) in enumerate(places):
            # R h - (d - p) = dd - dp + [d - p] R theta
            H = np.zeros((3, self.size), int).astype(object)
            H[:, :3] = SO3.hat(contacts[i] - p) @ R
            H[:, 6:9] = -np.eye(3, dtype=int)
            H[:, self.contact(i)] = np.eye(3, dtype=int)
            residual = R @ h - (contacts[i] - p) - product(H, delta)
            delta, P = update(delta, P, H, residual, self.kinematic_noise(R, J, of), held[i])
        q = SO3.normalize(SO3.integrate(x[:4], delta[:3]))
        x = np.concatenate([q, x[4:] + delta[3:-6]])
        return x, bias + delta[-6:], self.turned(self.to_plain(x, inverse=True), P)


class PlainFilter(InvariantFilter):
    """The plain EKF, with the calls of the other one."""

    def __init__(self, robot: lb.Robot, feet: Any, *, noise: FilterNoise) -> None:
        super().__init__(robot, feet, noise=noise)
        own = self.equations
        plain = PlainEquations(own.tree, own.imu, own.feet, own.gravity)
        self._kernels["step"] = Kernel(trace(plain.step, self._shapes["step"], "plain_step"))


def plain_error(state: FilterState, data: Data, k: int) -> np.ndarray:
    """(theta, dv, dp, db) of plain errors, (runs, 15); the IMU is at the base."""
    R, R_true = rotations(state.x[:, :4]), rotations(data.base[k, :4])
    theta = np.array([SO3.log(x) for x in np.swapaxes(R, -1, -2) @ R_true])
    v_true = R_true @ data.twist[k, 3:]
    parts = [theta, v_true - state.x[:, 4:7], data.base[k, 4:] - state.x[:, 7:10], data.bias[k] - state.bias]
    return np.concatenate(parts, axis=-1)


def plain_nees(state: FilterState, data: Data, k: int) -> np.ndarray:
    """e^T P^-1 e (runs,) in plain errors."""
    e = plain_error(state, data, k)
    P = state.covariance  # its rotation is in the axes of the world: R theta
    e[:, :3] = matrices(rotations(state.x[:, :4]), e[:, :3])
    return np.einsum("ni,ni->n", e, np.linalg.solve(P, e[..., None])[..., 0])


def begun(estimator: InvariantFilter, data: Data, deviation: np.ndarray, rng: Any) -> FilterState:
    """The start of all runs: the truth, less errors with these deviations. Known biases are zero."""
    runs = data.bias.shape[1]
    e = deviation * rng.standard_normal((runs, 15))
    R = rotations(data.base[0, :4])
    turned = np.array([SO3.exp(-x) for x in e[:, :3]]) @ R
    v = R @ data.twist[0, 3:] - e[:, 3:6]
    q = np.concatenate([quaternions(turned), data.base[0, 4:] - e[:, 6:9], data.joints[0]], axis=-1)
    twist = np.concatenate([np.zeros((runs, 3)), matrices(np.swapaxes(turned, -1, -2), v)], axis=-1)
    rates = np.zeros((runs, estimator.joints))
    return estimator.start(q, np.concatenate([twist, rates], axis=-1), np.diag(deviation**2))


class Outcome(NamedTuple):
    t: np.ndarray
    nees: np.ndarray  # (records, runs), over 15
    drift: np.ndarray  # error of the way (records, runs), m
    heading: np.ndarray  # rad
    tilt: np.ndarray  # rad


def followed(estimator: InvariantFilter, state: FilterState, data: Data) -> Outcome:
    rows: list[Any] = []
    first = state.q[:, 4:7]
    for k in range(len(data.gyroscope) + 1):
        if k:
            samples = (
                data.gyroscope[k - 1],
                data.accelerometer[k - 1],
                data.joints[k - 1],
                data.touching[k - 1],
            )
            state = estimator.step(state, *samples, DT, threads=2)
        if k % RECORDED == 0:
            if isinstance(estimator, PlainFilter):
                nees = plain_nees(state, data, k)
            else:
                q = np.concatenate([data.base[k], np.zeros(estimator.joints)])
                nees = state.nees(q, data.twist[k], data.bias[k])
            off = rotations(data.base[k, :4]) @ np.swapaxes(rotations(state.q[:, :4]), -1, -2)
            vectors = np.array([SO3.log(R) for R in off])
            # the way so far, turned by the error of the heading, which nothing measures
            turn = np.zeros((len(vectors), 3))
            turn[:, 2] = vectors[:, 2]
            way = matrices(np.array([SO3.exp(x) for x in turn]), state.q[:, 4:7] - first)
            drift = np.linalg.norm(way - (data.base[k, 4:] - data.base[0, 4:]), axis=-1)
            rows.append((k * DT, nees / 15, drift, vectors[:, 2], np.linalg.norm(vectors[:, :2], axis=-1)))
    return Outcome(*map(np.array, zip(*rows, strict=True)))


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


# -- GTSAM --------------------------------------------------------------------------------------------------


def beside_gtsam(robot: lb.Robot) -> None:
    """One run without biases by GTSAM's filter and ours: time of a step, and errors of the place."""
    try:
        import gtsam
    except ModuleNotFoundError:
        print("GTSAM is not installed here (pip install gtsam): no comparison")
        return
    sigma = 5e-3  # m, of a foot's place in both: GTSAM takes a constant covariance
    noise = FilterNoise(
        gyroscope=NOISE["gyroscope"],
        accelerometer=NOISE["accelerometer"],
        contact=NOISE["contact"],
        encoder=1e-9,
        kinematics=sigma,
    )
    estimator = InvariantFilter(robot, FEET, noise=noise)
    data = walk(estimator, 1, STEPS, np.random.default_rng(3), np.zeros(6))
    deviation = np.concatenate([STARTS["2 deg"][:9], np.zeros(6)])
    state = begun(estimator, data, deviation, np.random.default_rng(4))
    legs = Kernel(
        trace(
            lambda joints: np.stack([h for h, _ in estimator.equations.kinematics(joints)]),
            {"joints": 12},
            "feet",
        )
    )

    def theirs() -> Any:
        params = gtsam.LeggedEstimatorParams()
        params.preintegrationParams = gtsam.PreintegrationParams.MakeSharedU(9.81)
        params.preintegrationParams.setGyroscopeCovariance(np.eye(3) * NOISE["gyroscope"] ** 2)
        params.preintegrationParams.setAccelerometerCovariance(np.eye(3) * NOISE["accelerometer"] ** 2)
        params.preintegrationParams.setIntegrationCovariance(np.eye(3) * 1e-12)
        params.body_P_imu = gtsam.Pose3()
        params.footholdProcessSigma = NOISE["contact"]
        params.footholdInitSigma = sigma
        params.contactCovariance = np.eye(3) * sigma**2
        params.useRobustContactNoise = False
        params.useFullContactInitialization = False
        start = state.x[0]
        R = rotations(start[:4])
        P = np.zeros((21, 21))
        # rotation, position, velocity in the axes of the body, then the feet
        variance = deviation**2
        P[range(9), range(9)] = variance[[0, 1, 2, 6, 7, 8, 3, 4, 5]]
        P[range(9, 21), range(9, 21)] = deviation[6] ** 2 + sigma**2
        nav = gtsam.NavState(gtsam.Rot3(R), start[7:10], start[4:7])
        return gtsam.LeggedInvariantEKF(nav, start[10:].reshape(4, 3).T, P, params, list(FEET))

    feet = legs(data.joints[:, 0])
    before = np.zeros(4, bool)
    contacts = []
    for k in range(STEPS):
        active = []
        for i in np.flatnonzero(data.touching[k]):
            contact = gtsam.ContactMeasurement()
            contact.foot, contact.bodyPoint, contact.touchdown = int(i), feet[k, i], bool(not before[i])
            active.append(contact)
        before = data.touching[k]
        contacts.append(active)
    single = [np.ascontiguousarray(x[:, 0]) for x in (data.gyroscope, data.accelerometer, data.joints)]
    first = FilterState(
        estimator, *[x[0] for x in (state.x, state.bias, state.P, state.standing, state.joints, state.rate)]
    )

    def run_ours() -> Any:
        own = first
        for k in range(STEPS):
            own = estimator.step(own, single[0][k], single[1][k], single[2][k], data.touching[k], DT)
        return own

    def run_theirs() -> Any:
        other = theirs()
        for k in range(STEPS):
            other.predict(single[0][k], single[1][k], DT)
            other.processContacts(contacts[k])
        return other

    own, other = run_ours(), run_theirs()
    ratios, times = [], []
    for _ in range(ROUNDS):
        a, b = (seconds(call) / STEPS * 1e6 for call in (run_ours, run_theirs))
        times.append((a, b))
        ratios.append(b / a)
    a, b = (statistics.median(x) for x in zip(*times, strict=True))
    keep("a run beside GTSAM, a step", seconds=[1e-6 * ours for ours, _ in times], ratio=ratios)
    print(
        f"GTSAM's LeggedInvariantEKF, a run of {STEPS} steps without biases: a step "
        f"takes {a:.1f} us ours, {b:.1f} us theirs, median of ratios {statistics.median(ratios):.1f}"
    )
    estimate = other.estimate()
    truth = data.base[-1, 4:]
    start = np.linalg.norm(state.x[0, 7:10] - data.base[0, 4:])
    ends = [np.linalg.norm(x - truth) for x in (own.x[7:10], estimate.x(0))]
    print(
        f"    error of the place after {data.way:.1f} m, from {start * 100:.1f} cm at the start: "
        f"{ends[0] * 100:.1f} cm ours, {ends[1] * 100:.1f} cm theirs"
    )


# -- the script ---------------------------------------------------------------------------------------------


def timed(estimator: InvariantFilter, state: FilterState, data: Data) -> None:
    """Time of a step, one at a time and in a batch."""
    one = FilterState(
        estimator, *[x[0] for x in (state.x, state.bias, state.P, state.standing, state.joints, state.rate)]
    )
    samples = data.gyroscope[0], data.accelerometer[0], data.joints[0], data.touching[0]
    single = [x[0] if x.ndim > 1 else x for x in samples]

    def alone() -> Any:
        return estimator.step(one, *single, DT)

    def together() -> Any:
        return estimator.step(state, *samples, DT)

    alone()
    together()
    per_step = statistics.median(seconds(alone, unless_quick(500, 2)) for _ in range(ROUNDS))
    per_batch = statistics.median(seconds(together, unless_quick(3, 1)) for _ in range(ROUNDS))
    keep("a step alone", seconds=per_step)
    keep("a step of 1000", seconds=per_batch / len(state.x))
    operations = sum(estimator.kernel("step").operations.values())
    print(
        f"a step of {operations} operations: {per_step * 1e6:.1f} us alone, "
        f"{per_batch / len(state.x) * 1e6:.2f} us each of {len(state.x)} (one thread)"
    )


def main(path: str | None = None) -> dict[str, dict[str, Outcome]]:
    print(describe("gtsam"))
    robot = lb.load("anymal_c_simple", floating=True)
    noise = FilterNoise(**NOISE)
    filters = {
        "invariant": InvariantFilter(robot, FEET, noise=noise),
        "plain": PlainFilter(robot, FEET, noise=noise),
    }
    outcomes: dict[str, dict[str, Outcome]] = {}
    for name, deviation in STARTS.items():
        rng = np.random.default_rng(1)
        data = walk(filters["invariant"], RUNS, STEPS, rng, deviation[9:])
        outcomes[name] = {}
        print(f"start known to {name}, {RUNS} runs of {STEPS} steps, {data.way:.1f} m")
        for kind, estimator in filters.items():
            state = begun(estimator, data, deviation, np.random.default_rng(2))
            found = outcomes[name][kind] = followed(estimator, state, data)
            lost = np.count_nonzero(~np.isfinite(found.nees[-1]))
            shown = [round(s * (len(found.t) - 1)) for s in (0.02, 0.1, 0.5, 1)]
            values = ", ".join(f"{found.nees[i].mean():.2f} at {found.t[i]:.1f} s" for i in shown)
            heading, tilt = (rms(x[-1]) * DEG for x in (found.heading, found.tilt))
            print(
                f"    {kind:10} NEES {values}; drift {rms(found.drift[-1]) / data.way:.1%} of the way, "
                f"heading {heading:.2f} deg, tilt {tilt:.2f} deg; {lost} lost"
            )
    timed(filters["invariant"], begun(filters["invariant"], data, STARTS["2 deg"], rng), data)
    beside_gtsam(robot)
    if path:
        draw(path, outcomes)
    return outcomes


def draw(path: str, outcomes: dict[str, dict[str, Outcome]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    colors = {"invariant": "C0", "plain": "C1"}
    for start, kinds in outcomes.items():
        dashes = "-" if start == "30 deg" else ":"
        for kind, x in kinds.items():
            label = f"{kind}, start known to {start}"
            axes[0].semilogy(x.t, x.nees.mean(axis=1), dashes, color=colors[kind], label=label)
            axes[1].semilogy(x.t, np.sqrt(np.mean(x.tilt**2, axis=1)) * DEG, dashes, color=colors[kind])
    axes[0].axhline(1, color="0.8", zorder=0)
    axes[0].set(xlabel="t [s]", ylabel="$e^T P^{-1} e$ / 15, mean of all runs")
    axes[1].set(xlabel="t [s]", ylabel="error of roll and pitch, rms [deg]")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
