"""The example of a sweep does what its page says."""

import numpy as np
import pytest
from found import load_example


@pytest.mark.wide
def test_pendulums_stand_on_their_heads_where_the_linear_equation_says(tmp_path, capsys):
    example, picture = load_example("sweep_of_a_pendulum"), tmp_path / "sweep.png"
    ds = example.main(str(picture), str(tmp_path / "s.zarr"), n=24, t_end=4.0, workers=0)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "of 576 stand for 4 s" in capsys.readouterr().out
    trace = example.monodromy_trace(ds.frequency.values, ds.amplitude.values[:, None])
    standing = (ds.status == 1).values
    # within the edges all stand; below the lower edge all but those close to it fall
    assert standing[np.abs(trace) < 1.99].all()
    lower = ds.amplitude.values[:, None] < 0.05
    assert not standing[(trace > 2.2) & lower].any()
    assert not standing[trace < -8].any()
    kapitza = (2 * np.pi * ds.frequency * ds.amplitude) ** 2 / (2 * example.GRAVITY * example.LENGTH)
    fast = (ds.frequency > 25) & (ds.amplitude < 0.05)
    assert standing[(fast & (kapitza > 1.3)).T.values].all()
    assert not standing[(fast & (kapitza < 0.8)).T.values].any()
    assert (ds.cause.values[~standing] == "stopped").all()
    assert np.abs(ds.q.values[standing, -1, 0]).max() < np.pi / 2


def test_the_trace_of_a_period_without_shaking_is_that_of_a_falling_pendulum():
    example = load_example("sweep_of_a_pendulum")
    rate = np.sqrt(example.GRAVITY / example.LENGTH)
    np.testing.assert_allclose(
        example.monodromy_trace(np.array([5.0]), 0.0), 2 * np.cosh(rate / 5), rtol=1e-7
    )
