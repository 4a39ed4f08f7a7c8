"""Identification: the coverage of its intervals, and its time beside `mujoco.sysid` on the same data.

    python benchmarks/identification.py [fits]

Coverage: of so many synthetic recordings (1000), each with its own noise, how often do intervals of 95 %
contain the true values? By `fit`, through simulations of a double pendulum, and by `linear`, from efforts of
an arm.

Time: the arm with five armatures of mujoco.sysid's own integration test, moved by the same efforts. One
recording, made with MuJoCo's Runge-Kutta method and steps of 0.2 ms, with noise of 1 mrad. Both programs find
the armatures from twice their values, by their defaults: MuJoCo with the integrator and step of its model,
liebody with rkmk4 and 10 ms. Processor time of all threads, alternated.
"""

from __future__ import annotations

import contextlib
import io
import sys

import numpy as np
from machine import absent, describe, met, seconds, unless_quick

import liebody as lb
from liebody.identification import Recording, base_parameters, fit, linear
from liebody.scalars import cos, sin

FITS = unless_quick(1000, 4)
ROUNDS = unless_quick(5, 1)
NORMAL = 1.959964  # of intervals of 95 %
LEAST, MOST = 0.93, 0.97
GOAL = 20.0  # times the time of liebody
NOISE = 1e-3  # rad
DURATION = unless_quick(2.0, 0.2)
FREQUENCIES = np.array([0.5, 0.7, 0.4, 0.9, 0.6])  # Hz
PHASES = np.array([0, 0.5, 1.0, 1.5, 2.0])
EFFORTS = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
ARMATURES = np.array([0.5, 0.4, 0.3, 0.2, 0.1])

LINK = """
<body name="link{i}" pos="0 0 {at}">
  <inertial pos="0 0 {center}" mass="{mass}" diaginertia="{across} {across} {along}"/>
  <joint name="joint{i}" type="hinge" axis="{axis}" armature="{armature}" damping="{damping}"/>
"""
LINKS = [
    {"at": 0.1, "center": 0.05, "mass": 1.0, "across": 0.01, "along": 0.005, "axis": "0 0 1"},
    {"at": 0.1, "center": 0.05, "mass": 0.8, "across": 0.008, "along": 0.004, "axis": "0 1 0"},
    {"at": 0.1, "center": 0.05, "mass": 0.6, "across": 0.006, "along": 0.003, "axis": "0 1 0"},
    {"at": 0.1, "center": 0.04, "mass": 0.4, "across": 0.004, "along": 0.002, "axis": "0 0 1"},
    {"at": 0.08, "center": 0.03, "mass": 0.2, "across": 0.002, "along": 0.001, "axis": "0 1 0"},
]


def arm() -> str:
    """The arm of mujoco.sysid's integration test, without its shapes, which nothing touches."""
    bodies = "".join(
        LINK.format(i=i, armature=armature, damping=2 * armature, **link)
        for i, (link, armature) in enumerate(zip(LINKS, ARMATURES, strict=True), start=1)
    )
    joints = range(1, len(LINKS) + 1)
    motors = "".join(f'<motor name="act{i}" joint="joint{i}"/>' for i in joints)
    sensors = "".join(f'<jointpos name="joint{i}_pos" joint="joint{i}"/>' for i in joints)
    return (
        '<mujoco model="arm"><compiler angle="radian"/>'
        '<option integrator="implicitfast" timestep="0.002"><flag contact="disable"/></option>'
        f"<worldbody>{bodies}{'</body>' * len(LINKS)}</worldbody>"
        f"<actuator>{motors}</actuator><sensor>{sensors}</sensor></mujoco>"
    )


def report(label: str, inside: int, count: int) -> None:
    """A line of coverage."""
    share = inside / count
    print(f"{label:44s} {100 * share:6.2f} % of {count}   93 to 97: {met(LEAST <= share <= MOST)}")


def coverage_of_fits(fits: int) -> None:
    """Masses of a double pendulum, from its angles."""
    robot = lb.load("double_pendulum")
    true = {"link1.mass": 1.2, "link2.mass": 0.8}
    t = np.linspace(0, 2, 81)
    q0 = np.array([0.5, 0.2])

    def push(t, q, v):
        return np.array([5 * sin(3 * t), 2 * cos(2 * t)])

    exact = lb.simulate(robot, q0, t_end=2.0, dt=0.01, t_eval=t, tau=push, parameters=true, progress=False).q
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(fits):
        q = exact + 2e-3 * rng.normal(size=exact.shape)
        found = fit(robot, Recording(t, {"q": q}, {"q": 2e-3}, q0=q0, tau=push), [*true], dt=0.01)
        inside += sum(abs(found.values[k] - x) < NORMAL * found.deviations[k] for k, x in true.items())
    report("masses of a pendulum, by simulations", inside, 2 * fits)


def coverage_of_linear(fits: int) -> None:
    """All base parameters of a PUMA 560 and its damping, from efforts."""
    robot = lb.models.puma560()
    rng = np.random.default_rng(1)
    q = robot.random(rng, 100)
    v, a = 2 * rng.normal(size=(2, 100, 6))
    exact = robot.inverse_dynamics(q, v, a) + 0.3 * v
    base = base_parameters(robot, [f"link{k}" for k in range(2, 7)], losses="damping")
    pi = np.concatenate([robot.inertial_parameters[10:], np.full(6, 0.3)])
    tau = exact + rng.normal(size=(fits, *exact.shape))
    found = linear(robot, q, v, a, tau, losses="damping", noise=1.0, consistent=False)
    errors = (found.coordinates - pi) @ base.K.T
    inside = int(np.sum(np.abs(errors) < NORMAL * found.deviations_of(base.K)))
    report("base parameters of a PUMA 560, from efforts", inside, len(base.names) * fits)


def beside_mujoco() -> None:
    """Five armatures by both programs, alternated."""
    try:
        import mujoco
        from mujoco import rollout, sysid
    except ModuleNotFoundError as error:
        absent(error)
    if not hasattr(sysid, "optimize"):
        print("mujoco.sysid lacks packages: pip install 'mujoco[sysid]'. Nothing is measured beside it")
        return

    def efforts(t):
        return EFFORTS * np.sin(2 * np.pi * np.multiply.outer(t, FREQUENCIES) + PHASES)

    def tau(t, q, v):
        return EFFORTS * sin(2 * np.pi * FREQUENCIES * t + PHASES)

    # The recording, by steps of 0.2 ms
    spec = mujoco.MjSpec.from_string(arm())
    exact = mujoco.MjSpec.from_string(arm())
    exact.option.timestep = 2e-4
    exact.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model = exact.compile()
    data = mujoco.MjData(model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    times = np.arange(round(DURATION / 2e-4)) * 2e-4
    state, _ = rollout.rollout(model, data, start, efforts(times))
    every = 50  # 10 ms
    t = state[0, every - 1 :: every, 0]
    q = state[0, every - 1 :: every, 1:6] + NOISE * np.random.default_rng(2).normal(size=(len(t), 5))

    def theirs():
        parameters = sysid.ParameterDict()
        for i, x in enumerate(ARMATURES, start=1):
            parameters.add(
                sysid.Parameter(
                    f"armature{i}",
                    nominal=2 * x,
                    min_value=0.001,
                    max_value=2.0,
                    modifier=lambda s, p, name=f"joint{i}": setattr(s.joint(name), "armature", p.value[0]),
                )
            )
        names = [f"joint{i}_pos" for i in range(1, 6)]
        steps = np.arange(round(DURATION / 2e-3) + 1) * 2e-3
        sequences = sysid.ModelSequences(
            "arm", spec, "measured", start, sysid.TimeSeries(steps, efforts(steps)),
            sysid.TimeSeries.from_names(t, q, spec.compile(), names),
        )  # fmt: skip
        residual = sysid.build_residual_fn(models_sequences=[sequences])
        with contextlib.redirect_stdout(io.StringIO()):  # a table of iterations
            found, _ = sysid.optimize(
                initial_params=parameters, residual_fn=residual, optimizer="mujoco", verbose=False
            )
        return np.array([found[f"armature{i}"].value[0] for i in range(1, 6)])

    robot = lb.load(arm())
    names = [f"joint{i}.armature" for i in range(1, 6)]
    at = np.concatenate([[0.0], t])
    measured = np.concatenate([np.full((1, 5), np.nan), q])
    recording = Recording(at, {"q": measured}, {"q": NOISE}, q0=np.zeros(5), tau=tau)
    guess = dict(zip(names, 2 * ARMATURES, strict=True))

    def ours():
        return fit(robot, recording, names, dt=0.01, start=guess)

    def misfit(armatures):
        """Root mean square of the residuals [rad], by the model with small steps."""
        tried = mujoco.MjSpec.from_string(arm())
        tried.option.timestep = 2e-4
        tried.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
        for i, x in enumerate(armatures, start=1):
            tried.joint(f"joint{i}").armature = x
        other = tried.compile()
        state, _ = rollout.rollout(other, mujoco.MjData(other), start, efforts(times))
        return float(np.sqrt(np.mean((state[0, every - 1 :: every, 1:6] - q) ** 2)))

    found = ours()
    by_ours = np.array([found.values[name] for name in names])
    by_theirs = theirs()
    print(f"true      {ARMATURES}")
    print(f"liebody   {by_ours.round(5)}  rms of residuals {1e3 * misfit(by_ours):.5f} mrad")
    print(f"mujoco    {by_theirs.round(5)}  rms of residuals {1e3 * misfit(by_theirs):.5f} mrad")
    pairs = np.array([[seconds(call) for call in (ours, theirs)] for _ in range(ROUNDS)])
    ratio = float(np.median(pairs[:, 1] / pairs[:, 0]))
    a, b = 1e3 * np.median(pairs, axis=0)
    print(
        f"liebody {a:.1f} ms, mujoco.sysid {b:.1f} ms, ratio {ratio:.1f}  >= {GOAL:g}: {met(ratio >= GOAL)}"
    )


if __name__ == "__main__":
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else FITS
    print(describe("mujoco", "numpy"))
    coverage_of_linear(fits)
    coverage_of_fits(fits)
    beside_mujoco()
