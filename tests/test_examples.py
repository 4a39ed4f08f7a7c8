"""The examples do what their pages say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_computed_torque_converges_with_the_true_model_and_not_with_a_wrong_one(capsys):
    errors = load("computed_torque").main()
    assert errors["true model"][-1] < 1e-10
    assert 1e-4 < errors["hand 30 % lighter"][-1] < 1e-2
    assert capsys.readouterr().out.count("controller compiled") == 2


def test_a_rolling_disc_keeps_its_integrals_and_does_not_slip(tmp_path):
    found = load("rolling_disc").main(str(tmp_path / "disc.png"))
    assert found.slip.max() < 1e-12 and np.ptp(found.energy) < 1e-9
    assert np.abs(found.foot[:, 2]).max() < 1e-12
    order = np.argsort(found.tilt)  # several times to and fro: each rate is one curve over the tilt
    for rate in found.rates[:, 1:].T:
        curve = np.polynomial.Chebyshev.fit(found.tilt[order], rate[order], 12)
        assert np.abs(curve(found.tilt) - rate).max() < 1e-9
    assert found.tilt.min() < found.tilt[0] - 0.1


def test_the_arm_is_identified_as_well_as_its_noise_allows_and_one_call_compiles(capsys):
    found = load("identify_arm").main()
    errors, deviations = found["errors"], found["deviations"]
    assert errors[0].max() > 0.2 and (errors[-1] < 4 * deviations).all()
    assert deviations.max() < 0.01
    assert capsys.readouterr().out.count("friction") == 6
