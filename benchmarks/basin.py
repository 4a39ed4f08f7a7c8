"""The basin of attraction of a hopping robot: where its starts end, and how long it takes beside MuJoCo.

    python benchmarks/basin.py                         the map, its picture, and the race
    python benchmarks/basin.py --grid 32               a coarser map
    python benchmarks/basin.py --only steps            which steps are fine enough
    python benchmarks/basin.py --only race --rounds 7

The hopper with a knee of Feurstein (2021), with the second controller and the parameters of experiments IV
to VI, starts 0.3 m above the floor, the knee at 102 deg and nothing turning, with 128 angles of the leg and
128 forward speeds. Experiments IV and V are two of these starts. Each hops for 20 s, and ends in a gait, by a
fall, or in neither. `lb.gaits.basin` runs them, by `lb.sweep`: processes, SIMD lanes, a store that survives
kills. It finds the gaits by itself; there are two.

Beside it MuJoCo simulates the same hopper: two slides, a hinge and a knee, the same masses. Its own soft
contacts cannot express this floor, whose horizontal spring has an anchor and acts while the vertical force is
held at zero (without that the hopper turns over). So that both compute the same motion, floor and controller
are C in closed form, MuJoCo's control callback, compiled by the compiler that ours are compiled by; the
loop over the steps is C too, and no Python runs in it. That spares MuJoCo the detection of collisions and the
solver of constraints, which are switched off. It is allowed our steps, short ones after touch-downs. Events
are not located, but the step in flight is cut short as the foot comes down; what that costs in accuracy is in
the table of steps. Both run on one thread, alternately, with the same starts, with the same steps and, once
more, each with the cheapest for some 1 ms; what counts are simulated seconds per second of processor
time. MuJoCo's numbers do not depend on how many it simulates; ours are of ensembles, or of one hopper alone:
`--only race --members 1`.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from machine import absent, describe, keep, spent, unless_quick

import liebody as lb
from liebody.compiler.native.build import find_compiler
from liebody.contact import Contact
from liebody.gaits import Attractor, Basin
from liebody.hybrid import Apex, Fall, RobotSystem, controller_2, robot_system

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "hopping.json"
KNEE, HEIGHT, T_END = 1.7802, 0.3, 20.0  # of the knee and the base at the start; end             [rad, m, s]
GAINS = {"K_r": 2200.0, "r_des": 0.1410659, "D_r": 20.0, "K_p": 6.0, "K_E": 10.0, "E_des": 2.8382}
STEPS = {"step": 4e-4, "stance_step": 2e-5, "landing_step": 4e-6, "landing": 2e-4}  # as Contact has them  [s]
# the cheapest found with which the first six apexes of experiment V come to about 1 ms; Euler's are
# shorter, and it is still cheaper than RK4
COARSE = {
    "liebody": {"step": 1.2e-3, "stance_step": 3e-5, "landing_step": 8e-6, "landing": 2e-4},
    "MuJoCo, RK4": {"step": 8e-4, "stance_step": 3e-5, "landing_step": 8e-6, "landing": 1e-4},
    "MuJoCo, Euler": {"step": 2e-4, "stance_step": 1e-5, "landing_step": 2e-6, "landing": 2e-4},
}
LEAN, SPEED = (-45.0, 75.0), (-0.6, 1.4)  # of the map                                            [deg, m/s]
EVERY = 0.05  # between samples of the race                                                              [s]
FORWARD, IN_PLACE, OTHER, FALL_FORWARDS, FALL_BACKWARDS, OVERTURNED, NOT_FINITE = range(7)
ENDS = (
    "hops forwards",
    "hops in place",
    "has not settled",
    "falls forwards",
    "falls backwards",
    "turns over",
    "not finite",
)
ALONG = [[0, 1, 0, 0]]  # the symmetry of gaits: translations
SCALE = [
    0.5,
    1,
    0.1,
    0.2,
    5,
    1,
    1,
    5,
]  # of states at apexes: angle, x, y, knee, and of their rates   [rad, m, s]


@functools.cache
def hopper(steps: tuple[float, ...] = tuple(STEPS.values())) -> RobotSystem:
    """The robot with controller and floor; it has fallen where its centre of mass is below 3 cm."""
    return robot_system(
        lb.models.revolute_hopper(),
        controller_2("foot", **GAINS),
        Contact("foot", settling=0.05),
        Apex(),
        Fall(0.03),
        **dict(zip(STEPS, steps, strict=True)),
        ledger=False,
    )


def starts(p: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """States of the hopper at the start, (n, 4) each.

    lean   angle of the leg, from straight down, positive with the foot ahead, (n,)                    [deg]
    speed  forwards, (n,)                                                                              [m/s]
    """
    lean, speed = np.broadcast_arrays(*np.atleast_1d(p["lean"], p["speed"]))
    angle = np.radians(lean) - np.pi / 2 - leg()
    zero = np.zeros_like(angle)
    q = np.stack([angle, zero, zero + HEIGHT, zero + KNEE], axis=-1)
    return q, np.stack([zero, np.cos(angle) * speed, -np.sin(angle) * speed, zero], axis=-1)


@functools.cache
def leg() -> float:
    """Angle of the leg from the x axis of the base, at the start."""
    robot, q = lb.models.revolute_hopper(), np.array([0.0, 0, 0, KNEE])
    x, _, z = robot.pose(q, "foot")[:3, 3] - robot.center_of_mass(q)
    return float(np.arctan2(z, x))


def map_of(axes: Mapping[str, Any], store: str | Path, **sweeping: Any) -> Basin:
    """Where the starts of a grid end; the gaits are found on the way."""
    return lb.gaits.basin(
        hopper(), axes, starts, store, section="apex", t_end=T_END, symmetries=ALONG, scale=SCALE,
        tolerance=5e-3, longest=1, units={"lean": "deg", "speed": "m/s"}, **sweeping,
    )  # fmt: skip


def leaning(found: Basin) -> np.ndarray:
    """Angles of the leg at the ends, whole turns included, had the knee not moved                    [deg]"""
    return np.degrees(found.q[..., 0] + np.pi / 2 + leg())


def ends(found: Basin) -> np.ndarray:
    """Indices of ENDS."""
    lean = leaning(found)
    fall = np.where(lean > 0, FALL_BACKWARDS, FALL_FORWARDS)
    fall[np.abs(lean) > 150] = OVERTURNED
    fall[~np.isfinite(lean)] = NOT_FINITE
    gaits = [FORWARD if Hops(x).stride > 0.05 else IN_PLACE for x in found.attractors]
    return np.where(found.outcome == 0, fall, np.array([OTHER, OTHER, *gaits])[found.outcome])


class Hops:
    """Two hops of a gait from an apex on: height [m] and knee, its lowest place [m], stride [m], the run."""

    def __init__(self, gait: Attractor) -> None:
        robot, t_end = lb.models.revolute_hopper(), 2 * gait.period
        self.run = hopper().simulate(gait.q[0], gait.v[0], t_end=t_end, record_every=gait.period / 400)
        com, knee = robot.center_of_mass(self.run.q), robot.pose(self.run.q, "shank")[:, 2, 3]
        self.height, self.knee = float(com[0, 2]), float(knee.min())
        self.stride, self.period = float(com[-1, 0] - com[0, 0]) / 2, gait.period


def grid(n: int) -> dict[str, np.ndarray]:
    return {"lean": np.linspace(*LEAN, n), "speed": np.linspace(*SPEED, n)}


# -- MuJoCo -------------------------------------------------------------------------------------------------

BASE, THIGH, SHANK, LENGTH = 0.835, 0.122, 0.050, 0.12
UPPER = BASE + THIGH
MIDDLE = THIGH * LENGTH / 2 / UPPER
TURNING = BASE * THIGH / UPPER * (LENGTH / 2) ** 2
MJCF = f"""
<mujoco>
  <option gravity="0 0 -9.81" integrator="RK4"> <flag contact="disable" constraint="disable"/> </option>
  <compiler angle="radian"/>
  <worldbody>
    <body>
      <joint type="slide" axis="1 0 0"/>
      <joint type="slide" axis="0 0 1"/>
      <joint type="hinge" axis="0 -1 0"/>
      <inertial pos="{MIDDLE} 0 0" mass="{UPPER}" diaginertia="1e-12 {TURNING} {TURNING}"/>
      <body pos="{LENGTH} 0 0">
        <joint type="hinge" axis="0 -1 0"/>
        <inertial pos="{LENGTH / 2} 0 0" mass="{SHANK}" diaginertia="1e-12 1e-12 1e-12"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
LAW = r"""
#include <math.h>
#include <mujoco/mujoco.h>

/* Feurstein (2021), section 4.3, in closed form: points at a e1 + b e2 from the centre of mass, e1 along the
   thigh, e2 along the shank; the centre at A e1 + B e2 from the base */
static const double L = 0.12, M0 = 0.835, M1 = 0.122, M2 = 0.050, G = 9.81, K = 1e4, D = 1e3,
    K_r = %(K_r)r, r_des = %(r_des)r, D_r = %(D_r)r, K_p = %(K_p)r, K_E = %(K_E)r, E_des = %(E_des)r;
static double A, B, P, Q, R, anchor, left, since;
static int touching;

static void law(const mjModel *m, mjData *d) {
    const double th = d->qpos[2], q = d->qpos[3], w = d->qvel[2], qd = d->qvel[3], all = M0 + M1 + M2;
    const double c1 = cos(th), s1 = sin(th), c2 = cos(th + q), s2 = sin(th + q);
    const double c = c1 * c2 + s1 * s2, s = c1 * s2 - s1 * c2, fa = L - A, fb = L - B;
    const double r = sqrt(fa * fa + fb * fb + 2 * fa * fb * c), dr = -fa * fb * s / r, rd = dr * qd;
    const double dpsi = (fb * fb + fa * fb * c) / (r * r);
    const double alpha = atan2(fa * c1 + fb * c2, -(fa * s1 + fb * s2));
    const double cz = d->qpos[1] + A * s1 + B * s2;
    const double ux = d->qvel[0] - A * s1 * w - B * s2 * (w + qd);
    const double uz = d->qvel[1] + A * c1 * w + B * c2 * (w + qd);
    const double H11 = P + R + 2 * Q * c, H12 = R + Q * c;
    const double E = 0.5 * all * (ux * ux + uz * uz) + 0.5 * (H11 * w * w + 2 * H12 * w * qd + R * qd * qd)
        + all * G * cz + 0.5 * K_r * (r - r_des) * (r - r_des);
    const double tau_r = -K_r * (r - r_des) - (touching ? 0 : D_r * rd) - K_E * (E - E_des) * rd;
    const double tau_p = touching ? -K_p * alpha : 0;
    double *tau = d->qfrc_applied;
    tau[0] = tau[1] = 0;
    tau[2] = tau_p;
    tau[3] = dr * tau_r + dpsi * tau_p;
    if (touching) {
        const double x = d->qpos[0] + L * (c1 + c2), z = d->qpos[1] + L * (s1 + s2);
        const double xd = d->qvel[0] - L * (s1 * w + s2 * (w + qd));
        const double zd = d->qvel[1] + L * (c1 * w + c2 * (w + qd));
        const double Fx = -K * (x - anchor) - D * xd, Fz = fmax(-K * z - D * zd, 0);
        tau[0] += Fx;
        tau[1] += Fz;
        tau[2] += L * ((c1 + c2) * Fz - (s1 + s2) * Fx);
        tau[3] += L * (c2 * Fz - s2 * Fx);
    }
}

/* To t_end; times and heights of the first apexes. Returns 1 where the robot fell. */
int hop(mjModel *m, mjData *d, double t_end, double flight, double stance, double fresh, double landing,
        double *apexes, int most, int *number) {
    const double all = M0 + M1 + M2;
    A = (M1 * L / 2 + M2 * L) / all;
    B = M2 * L / 2 / all;
    const double a[3] = {-A, L / 2 - A, L - A}, b[3] = {-B, -B, L / 2 - B}, mass[3] = {M0, M1, M2};
    P = Q = R = 0;
    for (int k = 0; k < 3; k++) {
        P += mass[k] * a[k] * a[k];
        Q += mass[k] * a[k] * b[k];
        R += mass[k] * b[k] * b[k];
    }
    double before = 0, height = 0, at = 0;
    int fell = 0;
    mjcb_control = law;
    left = since = -1e9;
    touching = *number = 0;
    while (d->time < t_end - 1e-12 && !fell) {
        const double th = d->qpos[2], q = d->qpos[3], w = d->qvel[2], qd = d->qvel[3], t = d->time;
        const double c1 = cos(th), s1 = sin(th), c2 = cos(th + q), s2 = sin(th + q);
        const double x = d->qpos[0] + L * (c1 + c2), z = d->qpos[1] + L * (s1 + s2);
        const double zd = d->qvel[1] + L * (c1 * w + c2 * (w + qd));
        const double uz = d->qvel[1] + A * c1 * w + B * c2 * (w + qd), cz = d->qpos[1] + A * s1 + B * s2;
        const int now = !(z > 0);
        if (now && !touching) {
            since = t;
            if (t - left > 0.05) anchor = x;
        }
        if (!now && touching) left = t;
        touching = now;
        if (before > 0 && uz <= 0 && *number < most) {
            const double part = before / (before - uz);
            apexes[2 * *number] = at + part * (t - at);
            apexes[2 * *number + 1] = height + 0.5 * before * part * (t - at);
            ++*number;
        }
        before = uz, height = cz, at = t;
        fell = !(cz > 0.03);
        double h = touching ? (t - since < landing ? fresh : stance) : flight;
        if (!touching && zd < 0) h = fmin(h, fmax(fresh, 0.9 * z / -zd));
        m->opt.timestep = fmin(h, t_end - t);
        mj_step(m, d);
    }
    mjcb_control = 0;
    return fell;
}
"""


class MuJoCo:
    """The same hopper in MuJoCo, its law and its loop in C."""

    def __init__(self, integrator: str = "RK4") -> None:
        try:
            import mujoco
        except ModuleNotFoundError as error:
            absent(error)

        compiler = find_compiler()
        if compiler is None:
            raise SystemExit("the law of MuJoCo's hopper is C, and there is no compiler")
        self.mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_string(MJCF.replace("RK4", integrator))
        self._folder = tempfile.TemporaryDirectory()
        source, library = Path(self._folder.name, "law.c"), Path(self._folder.name, "law.so")
        source.write_text(LAW % GAINS)
        home = Path(mujoco.__file__).parent
        options = ["-O3", "-march=native", "-fPIC", "-shared", f"-I{home / 'include'}"]
        links = [str(next(home.glob("libmujoco.so*"))), f"-Wl,-rpath,{home}", "-lm"]
        subprocess.run([*compiler.command, *options, source, "-o", library, *links], check=True)
        self._hop = ctypes.CDLL(str(library)).hop
        pointer, real = ctypes.c_void_p, ctypes.c_double
        self._hop.argtypes = [pointer] * 2 + [real] * 5 + [pointer, ctypes.c_int, pointer]

    def hop(
        self, q: np.ndarray, v: np.ndarray, t_end: float = T_END, steps: Mapping[str, float] = STEPS
    ) -> tuple[float, bool, np.ndarray]:
        """Simulated seconds, whether it fell, and apexes (k, 2): times and heights."""
        data = self.mujoco.MjData(self.model)
        c, s = np.cos(q[0]), np.sin(q[0])
        data.qpos[:] = q[1], q[2], q[0], q[3]
        data.qvel[:] = c * v[1] - s * v[2], s * v[1] + c * v[2], v[0], v[3]
        apexes, number, h = np.zeros((200, 2)), ctypes.c_int(), [steps[name] for name in STEPS]
        room = apexes.ctypes.data, len(apexes), ctypes.addressof(number)
        fell = self._hop(self.model._address, data._address, t_end, *h, *room)
        return data.time, bool(fell), apexes[: number.value]


# -- what it prints -----------------------------------------------------------------------------------------


def finer(k: float) -> dict[str, float]:
    """The steps, divided by k."""
    return {name: h if name == "landing" else h / k for name, h in STEPS.items()}


def errors(apexes: np.ndarray) -> tuple[float, float]:
    """Of times and heights of the first six apexes of experiment V, against located events and 2e-6 s."""
    golden = json.loads(GOLDEN.read_text())["rev_V"]
    if len(apexes) < 6:
        return np.nan, np.nan
    wanted = np.stack([golden["tAP"][:6], golden["cy"][:6]], axis=1)
    time_off, height_off = np.abs(apexes[:6] - wanted).max(axis=0)
    return float(time_off), float(height_off)


def compare_steps() -> None:
    q, v, robot = np.array([-1.9938, 0, HEIGHT, KNEE]), np.zeros(4), lb.models.revolute_hopper()
    print(
        "\nexperiment V, apexes 1 to 6: largest errors of times and heights; simulated s per s of processor"
    )
    heads = ("flight", "stance", "landing", "time [s]", "height [m]", "speed")
    print(f"    {'':16s}" + "".join(f"{x:>10s}" for x in heads))
    engines = {"MuJoCo, RK4": MuJoCo(), "MuJoCo, Euler": MuJoCo("Euler")}
    for name in ("liebody", *engines):
        for h in (*(finer(k) for k in (4, 2, 1, 0.5)), COARSE[name]):
            start = time.process_time()
            if name in engines:
                _, _, apexes = engines[name].hop(q, v, 3.0, h)
            else:
                hopper().simulate(q, v, t_end=EVERY, record_every=EVERY, threads=1)  # compiles
                start = time.process_time()
                run = hopper().simulate(q, v, t_end=3.0, record_every=EVERY, threads=1, parameters=h)
            taken = time.process_time() - start
            if name not in engines:
                log = run.events.of("apex")
                heights = [robot.center_of_mass(x)[2] for x in log.q]
                apexes = np.stack([log.t, heights], axis=1)
            off = errors(apexes)
            row = "".join(f"{h[x]:10.1e}" for x in ("step", "stance_step", "landing_step"))
            words = f"{'falls':>20s}" if np.isnan(off[0]) else f"{off[0]:10.1e}{off[1]:10.1e}"
            print(f"    {name:16s}{row}{words}{3 / taken:10.1f}")


def race(rounds: int, members: int) -> None:
    """All at the same starts, drawn from the map, on one thread."""
    rng = np.random.default_rng(0)
    p = {"lean": rng.uniform(*LEAN, members), "speed": rng.uniform(*SPEED, members)}
    q, v = starts(p)
    rk4, euler = MuJoCo(), MuJoCo("Euler")

    def ours(steps: Mapping[str, float]) -> tuple[float, np.ndarray]:
        options = {"record_every": EVERY, "most_events": 0, "threads": 1, "parameters": steps}
        run = hopper().simulate(q, v, t_end=T_END, **options)
        return float(run.end_times.sum()), run.ends == ""

    def theirs(engine: MuJoCo, steps: Mapping[str, float]) -> tuple[float, np.ndarray]:
        found = [engine.hop(*start, steps=steps) for start in zip(q, v, strict=True)]
        return sum(x[0] for x in found), np.array([not x[1] for x in found])

    cases = {
        "liebody": lambda: ours(STEPS),
        "MuJoCo, RK4, same steps": lambda: theirs(rk4, STEPS),
        "liebody, coarse": lambda: ours(COARSE["liebody"]),
        "MuJoCo, RK4, coarse": lambda: theirs(rk4, COARSE["MuJoCo, RK4"]),
        "MuJoCo, Euler": lambda: theirs(euler, COARSE["MuJoCo, Euler"]),
    }
    hopper().simulate(q[:1], v[:1], t_end=EVERY, record_every=EVERY, threads=1)  # compiles
    rates: dict[str, list[float]] = {name: [] for name in cases}
    stand: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name, case in cases.items():
            start = time.process_time()
            seconds, stand[name] = case()
            rates[name].append(seconds / (time.process_time() - start))
    print(
        f"\n{members} starts of {T_END:g} s, one thread: simulated s per s of processor, median of {rounds}"
    )
    for name, found in rates.items():
        keep(name, rate=found)
        same = int(np.count_nonzero(stand[name] == stand["liebody"]))
        print(f"    {name:24s} {statistics.median(found):8.1f}    {same} of {members} end as the first")
    for one, other in (
        ("liebody", "MuJoCo, RK4, same steps"),
        ("liebody, coarse", "MuJoCo, RK4, coarse"),
        ("liebody, coarse", "MuJoCo, Euler"),
    ):
        ratios = [x / y for x, y in zip(rates[one], rates[other], strict=True)]
        keep(f"{one} / {other}", ratio=ratios)
        print(f"    {one} / {other}: {statistics.median(ratios):.1f}")


def make_map(n: int, store: str | None, workers: int, picture: str | None) -> None:
    import basin  # so that the workers find this module by its name

    with tempfile.TemporaryDirectory() as folder:
        place = store or str(Path(folder, "basin.zarr"))
        begins = not Path(place).exists()
        begun, busy = time.perf_counter(), spent()
        found = basin.map_of(grid(n), place, workers=workers)
        wall, busy = time.perf_counter() - begun, spent() - busy
    if begins:
        rate = f"{n * n / wall:.1f} runs/s, {n * n / busy:.1f} runs and {found.end_times.sum() / busy:.0f}"
        print(f"\n{n} x {n} starts, {workers} workers: {wall:.0f} s, {busy:.0f} s of processor time")
        print(f"    {rate} simulated s per s of processor time")
        print(f"    at this rate 128 x 128 take {busy * (128 / n) ** 2 / 60:.1f} minutes of processor time")
    end, turned = ends(found), np.abs(leaning(found)) > 180
    print(f"\n{'end':24s} {'starts':>6s}")
    for k, name in enumerate(ENDS):
        here = end == k
        more = ""
        if k in (FORWARD, IN_PLACE) and here.any():
            more = f"{np.count_nonzero(here & turned)} after a somersault"
        if FALL_FORWARDS <= k < NOT_FINITE and here.any():
            t = found.end_times[here]
            more = f"after {np.median(t):.1f} s (median), {t.max():.1f} s at most"
        print(f"    {name:20s} {here.sum():6d}  {here.mean():6.1%}  {more}")
    for gait in map(Hops, found.attractors):
        print(
            f"a gait: {1e3 * gait.stride:.1f} mm in {1e3 * gait.period:.1f} ms, its centre of mass up to "
            f"{1e3 * gait.height:.1f} mm, lowest place of the knee {1e3 * gait.knee:.0f} mm"
        )
    if picture:
        draw(found, end, turned, picture)


def draw(found: Basin, end: np.ndarray, turned: np.ndarray, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = ["#1f77b4", "#e07b00", "#6a3d9a", "#f4f4f4", "#e3e3e3", "#cfcfcf", "#000000"]
    figure = plt.figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplot_mosaic([["map", FORWARD], ["map", IN_PLACE]], width_ratios=[1.9, 1])
    ax = axes["map"]
    lean, speed = found.axes["lean"], found.axes["speed"]
    style: dict[str, Any] = {"shading": "nearest", "rasterized": True}
    ax.pcolormesh(lean, speed, end.T, cmap=ListedColormap(colours), vmin=-0.5, vmax=6.5, **style)
    turned = turned & (end <= IN_PLACE)
    shade = np.ma.masked_where(~turned.T, np.ones(end.T.shape))
    ax.pcolormesh(lean, speed, shade, cmap=ListedColormap(["#00000066"]), **style)
    for angle, name in ((-0.001, "IV"), (29.999, "V")):
        ax.plot(angle, 0, "o", ms=7, mfc="white", mec="black")
        ax.annotate(name, (angle, 0), xytext=(6, 6), textcoords="offset points", weight="bold")
    ax.set(
        xlabel="angle of the leg at the start [deg], foot ahead > 0",
        ylabel="forward speed at the start [m/s]",
    )
    shares = [f"{ENDS[k]} ({np.mean(end == k):.1%})" for k in range(7)]
    handles = [
        Patch(facecolor=colours[k], edgecolor="0.6", label=shares[k]) for k in range(7) if np.any(end == k)
    ]
    if turned.any():
        handles.append(Patch(facecolor="#16537e", edgecolor="0.6", label="darker: after a somersault"))
    ax.legend(handles=handles, loc="upper left", fontsize=8, framealpha=0.95)
    ax.set_title(
        f"Where {end.shape[0]} x {end.shape[1]} starts from 0.3 m end within {T_END:g} s", fontsize=10
    )
    robot = lb.models.revolute_hopper()
    for hops in map(Hops, found.attractors):
        gait = FORWARD if hops.stride > 0.05 else IN_PLACE
        t, q, every = hops.run.t, hops.run.q, round(0.03 / hops.run.t[1])
        ax = axes[gait]
        for i in range(0, len(t), every):
            points = [robot.pose(q[i], frame)[:3, 3] for frame in ("base", "shank", "foot")]
            x, z = np.array([[p[0] - q[0, 1], p[2]] for p in points]).T
            # the one in place is drawn against time, so that its postures do not cover each other
            shift = 0.0 if gait == FORWARD else 0.45 * t[i]
            fade = 0.35 + 0.65 * i / len(t)
            ax.plot(100 * (x + shift), 100 * z, "-", color=colours[gait], alpha=fade, lw=1.3)
            ax.plot(100 * (x[0] + shift), 100 * z[0], "o", color=colours[gait], alpha=fade, ms=5)
        ax.axhline(0, color="0.3", lw=1)
        ax.set(aspect="equal", ylabel="height [cm]")
        drawn = "every 30 ms" if gait == FORWARD else "every 30 ms, moved apart"
        ax.set_title(
            f"{ENDS[gait]}: {1e3 * hops.stride:.1f} mm in {1e3 * hops.period:.0f} ms, "
            f"centre of mass up to {100 * hops.height:.1f} cm\n({drawn})",
            fontsize=7,
        )
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--grid", type=int, default=unless_quick(128, 4), help="starts along an axis of the map"
    )
    parser.add_argument("--only", choices=("map", "steps", "race"), help="only a part")
    parser.add_argument("--rounds", type=int, default=unless_quick(3, 1), help="of the race")
    parser.add_argument("--members", type=int, default=unless_quick(24, 2), help="starts of the race")
    parser.add_argument("--workers", type=int, default=2, help="processes of the sweep")
    parser.add_argument("--store", help="folder of the map's results (Zarr), kept")
    parser.add_argument("--picture", default="basin.png", help="file of the picture; '' for none")
    args = parser.parse_args()
    print(describe("numpy", *(() if args.only == "map" else ("mujoco",))))
    if args.only in (None, "steps"):
        compare_steps()
    if args.only in (None, "race"):
        race(args.rounds, args.members)
    if args.only in (None, "map"):
        make_map(args.grid, args.store, args.workers, args.picture)


if __name__ == "__main__":
    main()
