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
    """Falls to both sides, both gaits; with those of experiments IV and V, at 0 and 30 deg."""
    axes = {"lean": [-40.0, -0.001, 29.999], "speed": [-0.5, 0.0, 0.6]}
    ds = lb.sweep(basin.hop, axes, tmp_path / "basin.zarr", workers=0)
    back, ahead, on, still = basin.FALL_BACKWARDS, basin.FALL_FORWARDS, basin.FORWARD, basin.IN_PLACE
    assert ds.end.values.tolist() == [[back, back, ahead], [back, still, on], [back, on, on]]
    fell = ds.end.values >= basin.FALL_FORWARDS
    assert np.all((ds.cause.values == "stopped") == fell) and np.all(ds.status.values == 1 + fell)
    assert np.all(ds.end_time.values[fell] < 3) and np.all(ds.end_time.values[~fell] == basin.T_END)


@pytest.mark.wide
def test_the_gaits_are_those_of_the_golden_numbers():
    """Experiment VI repeats with 0.3719972 s and 0.0877652 m; the knee stays above the floor only there."""
    found = basin.hop({"lean": np.array([29.999, -0.001]), "speed": np.zeros(2)})
    assert found["end"].tolist() == [basin.FORWARD, basin.IN_PLACE]
    assert found["period"][0] == pytest.approx(0.3719972, abs=1e-6)
    assert found["stride"][0] == pytest.approx(0.0877652, abs=1e-5)
    assert found["height"][0] == pytest.approx(0.24776922, abs=1e-6)
    assert found["knee"][0] > 0.06 and found["knee"][1] < -0.02


def test_mujoco_hops_alike():
    """The first six apexes of experiment V; without located events they come to some 1e-4 s."""
    pytest.importorskip("mujoco")
    q, v = basin.starts(29.999, 0.0)
    t, fell, apexes = basin.MuJoCo().hop(q[0], v[0], 3.0)
    off = basin.errors(apexes)
    assert t == pytest.approx(3.0) and not fell
    assert 1e-5 < off[0] < 2e-3 and off[1] < 5e-4
