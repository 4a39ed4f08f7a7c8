"""The examples do what their pages say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

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
