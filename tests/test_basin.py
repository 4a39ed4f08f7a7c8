"""The benchmark that draws the basin of attraction: ends that are known, and the hopper in MuJoCo."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import liebody as lb

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import basin


@pytest.mark.wide
def test_a_corner_of_the_map(tmp_path):
    """Falls to both sides, both gaits; with those of experiments IV and V, at 0 and 30 deg.

    Of the gaits, VI repeats with 0.3719972 s and 0.0877652 m; the knee stays above the floor only there.
    """
    axes = {"lean": [-40.0, -0.001, 29.999], "speed": [-0.5, 0.0, 0.6]}
    found = basin.map_of(axes, tmp_path / "basin.zarr", workers=0, progress=False)
    end = basin.ends(found)
    back, ahead, on, still = basin.FALL_BACKWARDS, basin.FALL_FORWARDS, basin.FORWARD, basin.IN_PLACE
    assert end.tolist() == [[back, back, ahead], [back, still, on], [back, on, on]]
    fell = end >= basin.FALL_FORWARDS
    assert np.all(found.end_times[fell] < 3) and np.all(found.end_times[~fell] == basin.T_END)
    com = lb.models.revolute_hopper().center_of_mass(found.q)[..., 2]
    assert np.all((com[fell] < 0.03) & (com[fell] > 0.0295)) and np.all(com[~fell] > 0.1)  # where it ended
    on, still = map(basin.Hops, found.attractors)  # the one with more starts first
    assert on.period == pytest.approx(0.3719972, abs=1e-6)
    assert on.stride == pytest.approx(0.0877652, abs=1e-5)
    assert on.height == pytest.approx(0.24776922, abs=1e-6)
    assert on.knee > 0.06 and still.knee < -0.02 and still.stride < 0


def test_mujoco_hops_alike():
    """The first six apexes of experiment V; without located events they come to some 1e-4 s."""
    pytest.importorskip("mujoco")
    q, v = basin.starts({"lean": 29.999, "speed": 0.0})
    t, fell, apexes = basin.MuJoCo().hop(q[0], v[0], 3.0)
    off = basin.errors(apexes)
    assert t == pytest.approx(3.0) and not fell
    assert 1e-5 < off[0] < 2e-3 and off[1] < 5e-4
