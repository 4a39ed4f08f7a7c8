"""MJCF models of others in liebody and in MuJoCo: how many are read, refused, and equal.

    python -m venv ../mjcf && ../mjcf/bin/pip install ".[mjcf]"
    ../mjcf/bin/pip install --no-deps dm_control gymnasium robosuite    # for their models alone
    ../mjcf/bin/python benchmarks/mjcf.py                               # all of them
    ../mjcf/bin/python benchmarks/mjcf.py --only humanoid --no-motion   # some, without trajectories
    ../mjcf/bin/python benchmarks/mjcf.py robot.xml ...                 # files of your own

Every model of dm_control's suite, of gymnasium, and of robosuite's robots, grippers and bases. At random
states, relative to the largest entry: mass matrix M, bias forces (with gravity), poses and Jacobians of all
bodies. Followers are bound, so MuJoCo's M is taken between motions that keep its equalities.

Then a motion of 1 s in steps of the model's own length, with springs and damping, from the pose of the
drawing, at small velocities; contacts, limits, equalities, dry friction, fluids, tendons and controls are
switched off in MuJoCo, and joints follow no others. MuJoCo's RK4 is, from 4.0 on, the method of Munthe-Kaas;
ours is rkmk4: by `simulate`, or by `solve_ivp` on SO(3) x R^3 for bodies on free joints, where MuJoCo steps
them. If MuJoCo's motion is unstable, so that another one from a start 1e-15 beside it does not stay next to
it, the step is halved for both; after five times without success, springs and damping are left out, which are
stiff for an explicit method.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import absent, unless_quick

import liebody as lb
from liebody import dynamics, mechanisms
from liebody.groups import SO3, Free, Product, R, SO3xR3
from liebody.io import DoubtfulInertia, MjcfTree, UnusedElements, load_mjcf, mujoco_layout

try:
    import mujoco
except ModuleNotFoundError as error:
    absent(error)

Array = np.ndarray
SOURCES = {
    "dm_control": ("suite/*.xml",),
    "gymnasium": ("envs/mujoco/assets/*.xml",),
    "robosuite": (
        "models/assets/robots/*/*.xml",
        "models/assets/grippers/*.xml",
        "models/assets/bases/*.xml",
    ),
}
STATES, T_END, SLOW = 3, 1.0, 0.1
GATE = 1e-9
HALVINGS = 6  # lengths of steps that are tried
BESIDE = 1e-15  # between the starts of two motions that tell whether they are stable


class Errors(NamedTuple):
    """The largest differences, relative to the largest entry; of the motion in coordinates."""

    M: float
    bias: float
    poses: float
    jacobians: float
    motion: float = 0.0
    remark: str = ""

    @property
    def equal(self) -> bool:
        """Whether all are below the gate."""
        return max(self[:5]) < GATE


def compiled(source: str | Path) -> Any:
    """The `mujoco.MjModel` of a file or a text, which moves freely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = str(source)
        read = mujoco.MjSpec.from_string if text.lstrip().startswith("<") else mujoco.MjSpec.from_file
        model = read(text).compile()
    bits = mujoco.mjtDisableBit
    model.opt.disableflags |= int(bits.mjDSBL_CONSTRAINT) | int(bits.mjDSBL_ACTUATION)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.density = model.opt.viscosity = 0
    for name in ("stiffness", "damping", "stiffnesspoly", "dampingpoly", "armature"):
        getattr(model, f"tendon_{name}", np.zeros(0))[...] = 0
    model.jnt_stiffness[model.jnt_type < 2] = 0  # springs of balls and free joints are not read
    return model


def mass_matrix(model: Any, data: Any) -> Array:
    M = np.zeros((model.nv, model.nv))
    for row, unit in zip(M, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, unit)
    return M


def differences(tree: MjcfTree, model: Any, states: int = STATES) -> Errors:
    """M, bias, poses and Jacobians of the bodies of both at random states."""
    layout, data, rng = mujoco_layout(tree, model), mujoco.MjData(model), np.random.default_rng(0)
    names = [model.body(i).name or f"body number {i}" for i in range(model.nbody)]
    worst = np.zeros(4)
    for _ in range(states):
        q, v = tree.group.random(rng), rng.normal(size=tree.nv)
        data.qpos, data.qvel = layout.to_q(q), layout.to_v(q, v)
        mujoco.mj_forward(model, data)
        G = layout.to_v(q, np.eye(tree.nv)).T  # their velocities of ours
        theirs = mass_matrix(model, data)
        still = layout.to_a(q, v, np.zeros(tree.nv))
        poses, frames = [np.zeros((3, 4))], [np.zeros((3, 4))]
        rates, jacobians = [np.zeros((6, tree.nv))], [np.zeros((6, tree.nv))]
        for i in range(1, model.nbody):
            turns, moves = np.zeros((3, model.nv)), np.zeros((3, model.nv))
            mujoco.mj_jacBody(model, data, moves, turns, i)
            T = np.array(dynamics.frame_pose(tree, q, names[i]), float)
            J = np.array(dynamics.frame_jacobian(tree, q, names[i]), float)
            poses.append(np.column_stack([data.xmat[i].reshape(3, 3), data.xpos[i]]))
            frames.append(T[:3])
            rates.append(np.vstack([turns, moves]) @ G)
            jacobians.append(np.vstack([T[:3, :3] @ J[:3], T[:3, :3] @ J[3:]]))
        pairs = [
            (G.T @ theirs @ G, dynamics.mass_matrix(tree, q)),
            (G.T @ (theirs @ still + data.qfrc_bias), dynamics.bias_forces(tree, q, v, tuple(tree.gravity))),
            (np.array(poses), np.array(frames)),
            (np.array(rates), np.array(jacobians)),
        ]
        worst = np.maximum(worst, [relative(np.asarray(b, float), a) for a, b in pairs])
    return Errors(*worst)


def relative(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3))


def motion(tree: MjcfTree, model: Any, t_end: float = T_END) -> tuple[float, str]:
    """The largest difference of coordinates on the way, relative to the largest one if that is beyond 1.

    returns  it, and a remark where the motion is not that of the model's own step with all its forces
    """
    layout, rng = mujoco_layout(tree, model), np.random.default_rng(1)
    start = tree.reference, SLOW * rng.normal(size=tree.nv)
    own = round(t_end / model.opt.timestep)
    for resisted in (True, False):
        if not resisted:
            model.dof_damping[:] = model.jnt_stiffness[:] = 0
        for halvings in range(HALVINGS):
            steps = own * 2**halvings
            theirs = moved_by_mujoco(model, layout.to_q(start[0]), layout.to_v(*start), steps, t_end)
            if theirs is not None:
                ours = layout.to_q(moved(tree, start, steps, t_end, resisted))
                remark = f"step / {2**halvings} " * (halvings > 0) + "undamped" * (not resisted)
                return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())), remark
    return np.inf, "MuJoCo's motion is unstable"


def moved_by_mujoco(model: Any, qpos: Array, qvel: Array, steps: int, t_end: float) -> Array | None:
    """qpos after each step; None for a motion that is unstable."""
    h, model.opt.timestep, motions = model.opt.timestep, t_end / steps, []
    for apart in (0.0, BESIDE):
        data, found = mujoco.MjData(model), [qpos]
        data.qpos, data.qvel = qpos, qvel + apart
        while len(found) <= steps and not data.warning.number.any():
            mujoco.mj_step(model, data)
            found.append(data.qpos.copy())
        motions.append(np.array(found))
    model.opt.timestep = h
    stable = all(len(found) > steps for found in motions) and np.abs(np.subtract(*motions)).max() < GATE
    return motions[0] if stable else None


def moved(tree: MjcfTree, start: tuple[Array, Array], steps: int, t_end: float, resisted: bool) -> Array:
    """q after each step, by liebody's method rkmk4."""
    robot, h = lb.Robot(tree, tree.gravity), t_end / steps
    forces = (mechanisms.JointSpring(),) if resisted else ()
    joints = {"armature", "damping"} if resisted else {"armature"}
    if not any(isinstance(body.joint.group, Free) for body in tree.bodies):
        options = {"t_end": t_end, "dt": h, "record_every": h, "progress": False}
        return lb.simulate(robot, *start, method="rkmk4", forces=forces, joints=joints, **options).q

    # MuJoCo steps free bodies on SO(3) x R^3, so their velocities are (omega, dp/dt), not (omega, v)
    free = [b for b in tree.bodies if isinstance(b.joint.group, Free)]
    factors = [SO3xR3 if b in free else b.joint.group for b in tree.bodies if b.joint.dim]
    laws = (*forces, mechanisms.JointDamping()) if resisted else ()

    def turned(q: Array, v: Array, way: int) -> Array:
        """Linear velocities of free bodies from their own axes to the world's (way 1), or back (-1)."""
        out = v.copy()
        for body in free:
            R = SO3.element(q[body.coordinates][:4])
            out[body.dofs][3:] = (R if way > 0 else R.T) @ v[body.dofs][3:]
        return out

    def field(t: float, y: Array) -> Array:
        q, w = y[: tree.nq], y[tree.nq :]
        v = turned(q, w, -1)
        tau = sum((np.asarray(law.on_tree(tree, t, q, v), float) for law in laws), np.zeros(tree.nv))
        a = robot.forward_dynamics(q, v, tau)
        for body in free:  # d/dt (R v) = R (a + omega x v)
            omega, u = v[body.dofs][:3], v[body.dofs][3:]
            a[body.dofs][3:] += np.cross(omega, u)
        return np.concatenate([w, turned(q, a, 1)])

    y0 = np.concatenate([start[0], turned(*start, 1)])
    solution = lb.solve_ivp(field, (0.0, t_end), y0, Product(*factors, R(tree.nv)), "rkmk4", dt=h)
    return solution.q[:, : tree.nq]


def compare(source: str | Path, with_motion: bool = True) -> Errors:
    """All differences of one model."""
    with warnings.catch_warnings():
        for category in (UnusedElements, DoubtfulInertia):
            warnings.simplefilter("ignore", category)
        bound = load_mjcf(source, check="warn")
        free = load_mjcf(source, check="warn", mimic=False) if bound.has_mimics else bound
    model = compiled(source)
    errors = differences(bound, model)
    if not with_motion or not free.nv:
        return errors
    size, remark = motion(free, model)
    return errors._replace(motion=size, remark=remark)


def folder_of(package: str) -> Path | None:
    """Where a package lies, without importing it; None where it is not installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="models, instead of those of the packages")
    parser.add_argument("--only", default="", help="models whose path has this text")
    parser.add_argument("--no-motion", action="store_true", help="no trajectories")
    chosen = parser.parse_args()
    mujoco.set_mju_user_warning(lambda message: None)  # of motions that are unstable; they are counted here
    sources: dict[str, list[Path]] = {"files": chosen.files}
    if not chosen.files:
        found = {name: folder_of(name) for name in SOURCES}
        if missing := [name for name, folder in found.items() if folder is None]:
            print(f"not installed: {', '.join(missing)} (see the head of this script)")
        sources = {
            name: sorted(path for pattern in SOURCES[name] for path in folder.glob(pattern))
            for name, folder in found.items()
            if folder
        }
    print(f"liebody {lb.__version__}, MuJoCo {mujoco.__version__}; differences, equal below {GATE:g}")
    print(f"{'':44}{'nv':>4}" + "".join(f"{name:>11}" for name in Errors._fields[:5]))
    totals, refused = {}, []
    for package, paths in sources.items():
        paths = [path for path in paths if chosen.only in str(path)][: unless_quick(None, 2)]
        read = equal = 0
        for path in paths:
            label = f"{package}: {path.parent.name}/{path.stem}"
            try:
                model = compiled(path)
                errors = compare(path, not chosen.no_motion)
            except (lb.LiebodyError, ValueError) as error:
                refused.append(f"{label}: {' '.join(str(error).split(': ', 1)[-1].split())}")
                continue
            read += 1
            equal += errors.equal
            numbers = "".join(f"{x:11.1e}" for x in errors[:5])
            remark = errors.remark if errors.equal else f"differs {errors.remark}"
            print(f"{label[:44]:44}{model.nv:4}{numbers}  {remark}".rstrip(), flush=True)
        totals[package] = f"{len(paths)} models, {read} read, {len(paths) - read} refused, {equal} equal"
    for package, text in totals.items():
        print(f"{package}: {text}")
    for reason in refused:
        print(f"refused: {reason}")


if __name__ == "__main__":
    sys.exit(main())
