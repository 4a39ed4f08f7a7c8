"""Random mechanisms, and how their numbers are compared.

Trees of every joint type about any axis, with rotors, damping, frames and joints that follow others.
"""

from __future__ import annotations

import numpy as np

from liebody.bodies import Joint, Mimic, SpatialInertia, Tree, TreeBuilder
from liebody.groups import (
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)


def _axis(rng):
    """A coordinate axis with either sign, or any direction."""
    return rng.choice([-1, 1]) * np.eye(3)[rng.integers(3)] if rng.random() < 0.5 else rng.normal(size=3)


def _point(rng):
    return rng.normal(size=3) if rng.random() < 0.5 else np.zeros(3)


JOINTS = {
    "fixed": lambda rng: Fixed(),
    "prismatic": lambda rng: Prismatic(_axis(rng)),
    "revolute": lambda rng: Revolute(_axis(rng), _point(rng)),
    "helical": lambda rng: Helical(_axis(rng), rng.normal(), _point(rng)),
    "planar-translation": lambda rng: PlanarTranslation(_axis(rng)),
    "cylindrical": lambda rng: Cylindrical(_axis(rng), _point(rng)),
    "planar": lambda rng: Planar(_axis(rng), _point(rng)),
    "spatial-translation": lambda rng: SpatialTranslation(),
    "spherical": lambda rng: Spherical(_point(rng)),
    "schoenflies": lambda rng: Schoenflies(_axis(rng), _point(rng)),
    "planar-helical": lambda rng: PlanarHelical(_axis(rng), rng.normal(), _point(rng)),
    "free": lambda rng: Free(),
}
MECHANISMS = {
    **{kind: [kind, "revolute", kind] for kind in JOINTS},
    "floating": ["free", "revolute", "prismatic", "revolute", "spherical"],
    "every-joint": list(JOINTS),
    "every-joint-floating": ["free", *JOINTS],
    "chain-with-followers": ["revolute", "prismatic", "revolute"],
    "floating-with-followers": ["free", "revolute", "spherical", "helical", "prismatic"],
}
FEWER_MECHANISMS = (*JOINTS, "every-joint-floating", "floating-with-followers")
WEIGHT = (0.3, -0.2, -9.81)  # gravity that no axis is aligned with


def random_inertia(rng) -> SpatialInertia:
    """A body of positive mass in every direction, its frame away from the centre of mass."""
    points = rng.normal(size=(3, 3)) * 0.3
    second = points @ points.T + 0.02 * np.eye(3)  # int r r^T dm about the centre of mass
    return SpatialInertia(
        rng.uniform(0.5, 2), rng.normal(size=3) * 0.3, np.trace(second) * np.eye(3) - second
    )


def random_placement(rng):
    """A pose; sometimes with a right-angled rotation, a rotation about a coordinate axis, or none."""
    kind = rng.integers(4)
    if kind == 0:
        R = np.eye(3)
    elif kind == 1:
        R = np.round(
            SO3.exp(np.pi / 2 * np.eye(3)[rng.integers(3)]) @ SO3.exp(np.pi / 2 * np.eye(3)[rng.integers(3)])
        )
    elif kind == 2:
        R = SO3.exp(rng.normal() * np.eye(3)[rng.integers(3)])
        R = np.where(np.abs(R) < 1e-15, 0.0, R)
    else:
        R = SO3.element(SO3.random(rng))
    return SE3.motion(R, rng.normal(size=3) * (rng.random(3) < 0.7))


def random_tree(rng, joints, followers: int = 0, rotors: bool = True) -> Tree:
    """A tree with these joints (names in JOINTS), hung on random bodies, and joints that follow others.

    Bodies are numbered depth-first by the builder, so the order of the joints in the tree may differ.
    """
    builder, names, leaders = TreeBuilder("random"), ["world"], []
    for k, kind in enumerate(joints):
        group, name = JOINTS[kind](rng), f"{kind}-{k}"
        rotor = (
            {"armature": rng.uniform(0, 0.3, group.dim), "damping": rng.uniform(0, 0.5, group.dim)}
            if rotors
            else {}
        )
        parent = names[-1] if rng.random() < 0.5 else names[rng.integers(len(names))]
        builder.add(
            name, Joint(name + "-joint", group, **rotor), random_inertia(rng), parent, random_placement(rng)
        )
        names.append(name)
        if (group.dim, group.nq) == (1, 1):
            leaders.append(name + "-joint")
    for k in range(followers):
        kind = ["revolute", "prismatic", "helical"][rng.integers(3)]
        mimic = Mimic(leaders[rng.integers(len(leaders))], rng.normal(), rng.normal())
        joint = Joint(
            f"follower-{k}", JOINTS[kind](rng), armature=0.1 if rotors else 0.0, damping=0.2, mimic=mimic
        )
        builder.add(
            f"follower-{k}",
            joint,
            random_inertia(rng),
            names[rng.integers(len(names))],
            random_placement(rng),
        )
        names.append(f"follower-{k}")
        leaders.append(f"follower-{k}")
    for k in range(2):
        builder.frame(f"frame-{k}", names[rng.integers(1, len(names))], random_placement(rng))
    return builder.build()


def random_mechanism(rng, name, rotors: bool = True) -> Tree:
    """One of MECHANISMS; three joints follow others where its name says so."""
    return random_tree(rng, MECHANISMS[name], followers=3 if "followers" in name else 0, rotors=rotors)


def random_state(rng, tree):
    """q, v, a of a tree."""
    return tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)


def close(actual, expected, gate=1e-12, size=None):
    """|actual - expected| <= gate * the size of all that is compared, which is at least 1."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    size = size or max(1.0, np.linalg.norm(expected), np.linalg.norm(actual))
    error = np.linalg.norm(actual - expected) / size
    assert error <= gate, f"relative error {error:.2e}"
