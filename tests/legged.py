"""Legged robots: a biped of our own, and others of the package example-robot-data, where it is installed."""

from __future__ import annotations

import numpy as np
from found import tree_of

from liebody.bodies import Tree
from liebody.io import load_urdf

FEET = {"biped": "left_foot", "bolt": "FR_FOOT", "solo12": "FL_FOOT"}
"""Names, and a foot of each; the biped is always there."""
FILES = {"bolt": "bolt_description/robots/bolt.urdf", "solo12": "solo_description/robots/solo12.urdf"}


def _link(name: str, mass: float, center: str, inertia: str) -> str:
    words = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia.split(), strict=True)
    moments = " ".join(f'{word}="{x}"' for word, x in words)
    origin = f'<origin xyz="{center}"/><mass value="{mass}"/>'
    return f'<link name="{name}"><inertial>{origin}<inertia {moments}/></inertial></link>'


def _joint(name: str, parent: str, child: str, origin: str, axis: str) -> str:
    kind = "revolute" if axis else "fixed"
    turning = f'<axis xyz="{axis}"/><limit lower="-2" upper="2" effort="30" velocity="10"/>' if axis else ""
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{origin}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{turning}</joint>'


def biped_urdf() -> str:
    """A pelvis with two legs of a rolling and a pitching hip and a knee; left and right differ."""
    parts = [_link("pelvis", 4.0, "0.02 -0.01 0.1", "0.05 0.002 -0.003 0.04 0.001 0.03")]
    for side, y in (("left", 0.1), ("right", -0.11)):
        parts += [
            _link(f"{side}_hip", 0.4, f"0.01 {y / 9} -0.02", "1e-3 1e-4 0 9e-4 0 8e-4"),
            _link(f"{side}_thigh", 1.1, "0.01 0.02 -0.14", "0.012 0.001 0.0005 0.011 -0.0004 0.003"),
            _link(f"{side}_shank", 0.7, "-0.01 0 -0.12", "0.008 0 0.0003 0.0075 0 0.0012"),
            f'<link name="{side}_foot"/>',
            _joint(f"{side}_roll", "pelvis", f"{side}_hip", f"0.01 {y} 0", "1 0 0"),
            _joint(f"{side}_pitch", f"{side}_hip", f"{side}_thigh", f"0 {y / 5} -0.03", "0 1 0"),
            _joint(f"{side}_knee", f"{side}_thigh", f"{side}_shank", "0 0 -0.3", "0 1 0"),
            _joint(f"{side}_sole", f"{side}_shank", f"{side}_foot", "0.02 0 -0.28", ""),
        ]
    return f'<robot name="biped">{"".join(parts)}</robot>'


def legged(name: str, floating: bool = True) -> Tree:
    """A robot of FEET; skips the test where its description is not installed."""
    if name == "biped":
        return load_urdf(biped_urdf(), floating=floating)
    return tree_of(FILES[name], floating=floating, check=False)


def small_state(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, v, a of a tree: joints within a radian, rates of about 1."""
    rng = np.random.default_rng(tree.nv)
    u = rng.uniform(-1, 1, tree.nv)
    return tree.group.integrate(tree.group.neutral(), u), *rng.normal(size=(2, tree.nv))
