"""Inverse kinematics: an arm draws a circle with its tool upright; at which heights can it reach all of it?

    python examples/inverse_kinematics.py

Each search for a point of the circle starts from the configuration of the point before, so that the arm
moves without a jump. Then the circle is lifted: all its points at all heights are one batch, within the
limits of the joints.
"""

from __future__ import annotations

import numpy as np

import liebody as lb

CENTRE, RADIUS, POINTS = np.array([0.45, 0.1, 0.1]), 0.12, 60
HEIGHTS = np.linspace(-0.2, 1.0, 13)
DOWNWARDS = np.diag([1.0, -1.0, -1.0])  # the tool's z axis


def circle(points):
    """Poses (points, 4, 4) of the tool along a circle, pointing down."""
    angle = np.linspace(0, 2 * np.pi, points)
    T = np.tile(np.eye(4), (points, 1, 1))
    T[:, :3, :3] = DOWNWARDS
    T[:, :3, 3] = CENTRE + RADIUS * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    return T


def draw(robot, poses):
    """Configurations along the poses, each searched from the one before."""
    q = lb.inverse_kinematics(robot, {"tool": poses[0]}).q
    path = []
    for T in poses:
        found = lb.inverse_kinematics(robot, {"tool": T}, q, restarts=0)
        assert found.converged, f"{found.reason}, {found.residual:.3g} away"
        q = found.q
        path.append(q)
    return np.array(path)


def main():
    robot = lb.models.puma560()
    poses = circle(POINTS)
    path = draw(robot, poses)
    error = np.abs(robot.pose(path, "tool") - poses).max()
    step = np.abs(np.diff(path, axis=0)).max()
    print(f"circle of {POINTS} poses: error {error:.1e}, largest step of a joint {step:.3f} rad")

    lifted = np.tile(poses[::6], (len(HEIGHTS), 1, 1, 1))
    lifted[..., 2, 3] += HEIGHTS[:, None]
    found = lb.inverse_kinematics(robot, {"tool": lifted})
    for height, whole, away in zip(
        HEIGHTS, found.converged.all(axis=1), found.residual.max(axis=1), strict=True
    ):
        print(f"{height:+.1f} m  {'within reach' if whole else f'out of reach by {away:.3f}'}")
    return error, step, found


if __name__ == "__main__":
    main()
