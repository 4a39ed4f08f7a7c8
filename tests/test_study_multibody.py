"""The benchmarks of multibody dynamics: models against published digits and equations of one coordinate."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.mechanisms.constrained import ClosedTree, System
from liebody_studies.command import reproduce
from liebody_studies.multibody_benchmarks import models as mb
from liebody_studies.multibody_benchmarks import page
from liebody_studies.report import Part, Report

pytestmark = pytest.mark.wide


def last(model, t_end, dt, method="rkmk4"):
    """What is looked at, at the end."""
    run = lb.simulate(model.mechanism, model.q, model.v, t_end=t_end, dt=dt, method=method, tau=model.tau,
                      record_every=t_end)  # fmt: skip
    return model.measure(run)[-1]


def test_heavy_top_converges_to_published_velocity():
    assert abs(mb.heavy_top_reference(np.array([0.0, 2.0]))[-1, 1] - mb.TOP_PUBLISHED) < 1e-8
    assert abs(last(mb.heavy_top("SE3"), 2.0, 1e-3, "rkmk8")[1] - mb.TOP_PUBLISHED) < 1e-8


def test_slider_crank_follows_the_equation_of_its_crank():
    joint, absolute = mb.slider_crank()
    assert isinstance(joint.mechanism, ClosedTree) and isinstance(absolute.mechanism, System)
    assert (joint.mechanism.report(joint.q).freedom, absolute.mechanism.report(absolute.q).freedom) == (1, 1)
    reference = mb.slider_crank_reference(np.array([0.0, 0.5]))[-1]
    assert abs(reference[0]) > 0.01
    for model in (joint, absolute):
        assert np.allclose(last(model, 0.5, 5e-4), reference, atol=1e-9)


@pytest.mark.filterwarnings("ignore::liebody.SingularPosition")  # there they are
def test_four_bars_follow_a_pendulum_through_singular_positions():
    times = np.array([0.0, 1.5])  # the rods lie in one line at 0.42 and 1.01 s
    reference = mb.four_bars_reference(times)[-1]
    for model in mb.four_bars():
        assert np.allclose(last(model, 1.5, 1e-3), reference, atol=1e-7)
    assert (
        abs(mb.four_bars_reference(np.array([0.0, 10.0]))[-1, 0] - 0.3284581) < 5e-8
    )  # Exudyn, extrapolated


def test_more_four_bars_are_a_heavier_pendulum():
    joint, _ = mb.four_bars(3)
    assert joint.mechanism.report(joint.q).freedom == 1
    assert np.allclose(last(joint, 0.3, 1e-3), mb.four_bars_reference(np.array([0, 0.3]), 3)[-1], atol=1e-9)


def test_andrews_squeezer_starts_and_ends_as_published():
    joint, absolute = mb.andrews()
    order = mb.andrews_order(joint.mechanism.tree)
    a, multipliers = joint.mechanism.accelerations(joint.q, joint.v, joint.tau(0.0, joint.q, None))
    assert np.allclose(a[order][:2], mb.ANDREWS_ACCELERATIONS, rtol=1e-13)
    assert np.allclose(multipliers[:2], mb.ANDREWS_MULTIPLIERS, rtol=1e-13)
    _, same = absolute.mechanism.accelerations(absolute.q, absolute.v, absolute.tau(0.0, absolute.q, None))
    assert np.allclose(same[-6:], multipliers, atol=1e-9)
    assert np.allclose(last(joint, 0.03, 2e-5), mb.ANDREWS_END, rtol=0, atol=1e-8)


def test_bricards_mechanism_has_one_freedom_and_known_angles():
    joint, absolute = mb.bricard()
    for model in (joint, absolute):
        report = model.mechanism.report(model.q)
        assert (report.freedom, report.redundancy) == (1, 1)
    run = lb.simulate(absolute.mechanism, absolute.q, absolute.v, t_end=1.0, dt=2e-3, record_every=0.1)
    places = absolute.measure(run)
    run = lb.simulate(joint.mechanism, joint.q, joint.v, t_end=1.0, dt=2e-3, record_every=0.1)
    assert np.allclose(joint.measure(run), places, atol=1e-8)
    assert np.ptp(places, axis=0).min() > 0.1
    cosines = np.array([mb.bricard_cosines(joint.mechanism.tree, q) for q in run.q])
    assert np.allclose(cosines[:, :2], cosines[:, 2:], atol=1e-12)
    assert np.allclose(cosines[:, 0] * cosines[:, 1] + cosines[:, 0] + cosines[:, 1], 0, atol=1e-12)


def test_governor_is_the_same_in_joint_and_absolute_coordinates():
    joint, absolute = mb.governor_tree(), mb.governor()
    stiff = last(joint, 0.5, 5e-3, "radau5")
    assert abs(stiff[0] - 0.5) > 1e-3
    assert np.allclose(last(joint, 0.5, 5e-5), stiff, atol=1e-8)
    assert np.allclose(last(absolute, 0.5, 5e-5), stiff, atol=1e-8)


def test_results_compare_with_references():
    model = mb.heavy_top("SE3")
    times = np.linspace(0, 0.1, 3)
    reference = mb.heavy_top_reference(times)
    result = page.simulated(model, times, reference, "rkmk4", 1e-3)
    assert 1e-7 < result.error < 1e-2 and result.violation < 1e-14
    off = page.simulated(model, times, reference + [0, 1.0, 0], "rkmk4", 1e-3)
    assert off.error == pytest.approx(1.0, abs=1e-2)
    rungs = page.ladder(model, times, "rkmk4", (2e-3, 1e-3, 5e-4))
    assert rungs[0].error > 10 * rungs[1].error > 0 == rungs[2].error


def test_reproduce_writes_the_page(tmp_path, monkeypatch):
    """The whole page takes half a minute: its first section."""
    text = Part.of(page.__package__, "page", {}).text
    section = text[text.index("## Heavy top") : text.index("## Spatial")]
    report = Report("Benchmarks", "Heavy top")
    report.part(Part(section, {"top": page.heavy_top(), "caption": page.CAPTION}))
    monkeypatch.setattr(page, "study", lambda: report)
    result = CliRunner().invoke(reproduce, ["multibody-benchmarks", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    html = (tmp_path / "multibody-benchmarks.html").read_text()
    assert "Heavy top" in html and "<svg" in html and "http" not in html.split("</style>")[1].split("<svg")[0]
    assert "NOT borne out" not in html and report.confirmed and len(report.verdicts) == 2
