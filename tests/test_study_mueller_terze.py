"""The study of Mueller and Terze (2013): golden numbers, references, misprints, and a page that is whole."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.groups import SE3, SO3
from liebody_studies import reproduce as write
from liebody_studies.command import reproduce
from liebody_studies.mueller_terze import errata, figures, golden, integrators, runs, stabilized
from liebody_studies.mueller_terze import page as study
from liebody_studies.mueller_terze.golden import GOLDEN
from liebody_studies.mueller_terze.runs import (
    BASIC,
    EXAMPLES,
    FLOATING,
    FURTHER,
    GROUPS,
    HEAVY,
    PENDULUM,
    RK4,
    THREE_BAR,
    Setup,
    peak,
    setup,
    top_motion,
)
from liebody_studies.report import Part, Report

pytestmark = pytest.mark.wide

SCHEMES = {s.name: s for s in (*BASIC, *FURTHER, *runs.REST)}


@pytest.fixture(scope="module")
def long_runs():
    return {(e, g): setup(e, g).run(t_end=5.0) for e in EXAMPLES for g in GROUPS}


# -- numbers ------------------------------------------------------------------------------------------------


def test_every_golden_number_is_met(long_runs):
    rows = golden.golden_rows(long_runs)
    assert len(rows) == sum(5 + 4 * sum(g is not None for g in x.violation) - 2 for x in GOLDEN.values())
    assert [row for row in rows if not golden.near(*row[4:2:-1], row[5])] == []
    for (example, group), known in GOLDEN.items():
        for (joint, _), expected in zip(example.joints, known.violation, strict=True):
            if expected is None:
                assert group == "SE3" and joint != "j2"
                assert peak(long_runs[example, group].violation(joint)) < 1e-11


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_errors_against_references_are_golden_and_of_order_four(example):
    steps, attitudes, places = golden.CONVERGENCE[example]
    for group, place in zip(GROUPS, places, strict=True):
        found = [
            runs.errors(setup(example, group).run(dt=h, t_end=0.5, every=round(0.5 / h)), example)
            for h in steps
        ]
        np.testing.assert_allclose([a for a, _ in found], attitudes, rtol=0.02)
        assert found[steps.index(1e-3)][1] == pytest.approx(place, rel=0.02)
        assert np.log2(found[-2][0] / found[-1][0]) == pytest.approx(4, abs=0.4)


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_references_start_where_the_examples_do(example):
    """After a tenth of a millisecond, the reference is the start moved by its velocities."""
    system, v = example.build(["SE3"] * example.bodies)
    dt = 1e-4
    R, r = runs.reference(example, dt)
    moved = system.poses(system.moved_with(system.guess, v, dt))
    np.testing.assert_allclose(R, moved[:, :3, :3], atol=5e-5)
    np.testing.assert_allclose(r, moved[:, :3, 3], atol=5e-6)


@pytest.mark.parametrize("seed", range(3))
def test_printed_equations_of_motion_are_those_of_the_library(seed):
    found = errata.equation_checks(seed)
    assert [number for number, *_ in found] == ["(40)", "(42)", "(50), (53)", "(61), (64)"]
    assert max(off for *_, off in found) < 1e-12


# -- misprints ----------------------------------------------------------------------------------------------


def test_every_erratum_is_there_and_shows(long_runs):
    found = errata.slips(long_runs)
    assert [k for k in range(1, 13) if not found[f"e{k}"]] == []
    page = Part.of(study.__package__, "page", {}).text
    says = re.findall(
        r"^\| 1‑(\d+) .*\[(holds|misprint|imprecise|wrong): e\[e(\d+)\]\] \|$", page, flags=re.M
    )
    assert [(int(number), int(name)) for number, _, name in says] == [(k, k) for k in range(1, 13)]


def test_the_literal_constraint_is_unstable_whatever_the_step():
    """delta'' = [w]^2 delta grows by resonance: a property of the equation, not of the method."""
    rates = [
        errata.growth_rate(m.t, m.pivot)
        for m in (top_motion(3.0, h, constraint="(39) literally") for h in (1e-3, 5e-4))
    ]
    assert rates == pytest.approx([18, 18], rel=0.15)
    for steady in ("(40)", "(53)"):
        assert peak(top_motion(3.0, constraint=steady).pivot) < 1e-12


@pytest.mark.parametrize(
    ("pull", "order"),
    [("dexp^-1", 4), ("none", 2), ("wrong sign", 2), ("1 + ad/2", 3), ("1 + ad/2 + ad^2/12", 4)],
)
def test_only_attitudes_see_a_wrong_dexp(pull, order):
    steps = np.array([5e-4, 2.5e-4])
    found = [runs.attitude_error(top_motion(0.5, h, pull=pull)) for h in steps]
    assert np.log2(found[0] / found[1]) == pytest.approx(order, abs=0.4)
    motion = top_motion(1.0, pull=pull)
    assert peak(motion.pivot) < 1e-12
    assert peak(motion.drift) == pytest.approx(2.80042e-8, rel=1e-4)


def test_the_variants_of_the_top_are_the_library_where_nothing_is_changed():
    ours, run = top_motion(0.1), setup(HEAVY, "SE3").run(t_end=0.1)
    R, r = run.poses()
    np.testing.assert_allclose(ours.R, R[:, 0], atol=1e-12)
    np.testing.assert_allclose(ours.r, r[:, 0], atol=1e-12)
    np.testing.assert_allclose(ours.drift, run.drift, atol=1e-13)


def test_printed_formulas_are_what_they_are_said_to_be():
    w, v = np.array([0.3, -0.5, 0.2]), np.array([1.0, 0.4, -0.7])
    turn = np.asarray(SO3.exp(w), float)
    np.testing.assert_allclose(
        runs.printed_translation(w, v, turn), SE3.exp(np.r_[w, v])[:3, 3].astype(float), atol=1e-15
    )
    u = np.r_[w, v]
    exact = errata.series_of_dexp_inverse(u)
    np.testing.assert_allclose(runs.printed_dexp_inverse(u), exact, atol=1e-12)
    np.testing.assert_allclose(SE3.dexp_inverse(u).astype(float), exact, atol=1e-14)
    unit = np.array([0.6, 0.8, 0.0])  # (9) is right where |omega| = 1, and nowhere else
    np.testing.assert_allclose(runs.printed_exponential(unit).astype(float), SO3.exp(unit), atol=1e-15)
    assert np.abs(runs.printed_exponential(w).astype(float) - turn).max() > 0.05


# -- which motions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", errata.SUBGROUPS)
def test_motions_in_a_subgroup_stay_there_on_SE3(name):
    assert errata.leaves_the_subgroup(name, "SE3") < 1e-13


def test_a_common_drift_changes_the_result_on_SE3_alone():
    still, fast = errata.common_drift(0.0, (0.0, 0.0, 1.0)), errata.common_drift(100.0, (0.0, 0.0, 1.0))
    assert fast["SE3"] == pytest.approx((4.0e-9, 1.5e-6), rel=0.05)
    assert fast["SO3xR3"] == pytest.approx(still["SO3xR3"], rel=0.02)


def test_a_slow_body_is_nearly_the_ground():
    errors = [errata.on_a_moving_body(w, "SE3") for w in (0.0, 0.01, 0.1)]
    assert errors[0] < 1e-14 and errors[2] / errors[1] == pytest.approx(10, rel=0.05)


def test_the_tailored_choice(long_runs):
    place = setup(PENDULUM, "auto")
    assert [b.group.name for b in place.system.bodies] == ["SE3", "SO3xR3"]
    assert peak(place.run(t_end=5.0).violation("j1")) < 1e-11
    costs = [errata.cost(PENDULUM, g) for g in ("SO3xR3", "auto", "SE3")]
    assert costs == sorted(costs) and len(set(costs)) == 3
    for example, group in ((HEAVY, "SE3"), (FLOATING, "SO3xR3"), (THREE_BAR, "SE3")):
        tailored = setup(example, "auto").run(t_end=0.1)
        np.testing.assert_array_equal(tailored.q, long_runs[example, group].q[:101])


# -- integrators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["rkmk1", "cf4", "crouch-grossman4", "half-explicit4", "generalized-alpha 0.9", "implicit-midpoint"],
)
def test_the_pivot_is_exact_on_SE3_with_any_integrator(name):
    run = setup(HEAVY, "SE3").run(SCHEMES[name], 1e-3, 0.25)
    assert np.isfinite(run.q).all() and peak(run.violation("pivot")) < 1e-12


def test_gauss_methods_keep_the_energy_of_the_top_on_SE3_alone():
    drift = {g: peak(setup(HEAVY, g).run(SCHEMES["implicit-midpoint"], 1e-3, 0.25).drift) for g in GROUPS}
    assert drift["SE3"] < 1e-13 and drift["SO3xR3"] > 1e-5


def test_performance_measures_orders_and_times():
    found = integrators.performance(FLOATING, "SO3xR3", SCHEMES["rkmk3"], steps=(2e-3, 1e-3, 5e-4))
    assert found.order == pytest.approx(3, abs=0.1) and np.isnan(found.ground) and found.between < 1e-7
    assert np.all(found.work[:, 1] > 0) and found.attitude == found.work[1, 2]
    _, seconds, error, _ = found.work.T
    assert integrators.time_to(found, error[1]) == pytest.approx(seconds[1])
    assert integrators.time_to(found, 2 * error[0]) == seconds[0] and np.isnan(
        integrators.time_to(found, 1e-15)
    )


def test_a_run_that_is_lost_is_shown_until_then():
    run = setup(HEAVY, "SO3xR3").run(SCHEMES["rkmk1"], 4e-3, 1.0)
    assert 10 < len(run.t) < 251 and np.isfinite(run.q).all() and np.isfinite(peak(run.worst))
    found = integrators.performance(HEAVY, "SO3xR3", SCHEMES["rkmk1"], steps=(4e-3, 1e-3))
    assert np.isnan(found.work[0, 2:]).all() and np.isfinite(found.work[1]).all()


def test_every_family_is_run_on_every_example():
    for example in EXAMPLES:
        assert {s.family for s in runs.schemes(example)} == set(runs.FAMILIES)
        orders = [s.order for s in runs.schemes(example) if s.family == runs.RKMK]
        assert set(orders) == set(range(1, 9))
        taking = {s.family for s in runs.stabilized_schemes(example, full=True)}
        assert taking == {runs.RKMK, runs.FREE, runs.GROSSMAN, runs.GAUSS}
    page = Part.of(study.__package__, "page", {}).text
    assert all(f"| {family} | yes" in page for family in runs.FAMILIES)
    assert set(runs.schemes(PENDULUM, full=True)) == set(SCHEMES.values()) > set(runs.schemes(HEAVY))
    assert set(integrators.SHOWN) <= {s.name for s in runs.schemes(HEAVY)}
    jobs = {(place.example, place.groups, s.family, s.stabilization) for place, s in study.jobs(False)}
    for example in EXAMPLES:
        for group in GROUPS:
            found = {(f, by) for e, g, f, by in jobs if e is example and g == (group,) * example.bodies}
            assert found >= {(f, "none") for f in runs.FAMILIES}
            assert found >= {
                (f, by) for f in (runs.RKMK, runs.FREE, runs.GROSSMAN) for by in stabilized.STABILIZERS
            }


def test_methods_in_one_library_do_what_simulate_does():
    place = setup(FLOATING, "SE3")
    for name in ("rkmk4", "cf4"):
        for by in ("none", "projection"):
            ours = place.timed(SCHEMES[name].stabilized(by), 1e-3, 0.05)[0]
            run = lb.simulate(
                place.system, place.q, place.v, t_end=0.05, dt=1e-3, method=name, stabilization=by,
                record_every=1e-3,
            )  # fmt: skip
            np.testing.assert_allclose(ours.q, run.q, rtol=0, atol=1e-14)
            np.testing.assert_allclose(ours.v, run.v, rtol=0, atol=1e-12)
    assert place.library(SCHEMES["rkmk4"]) == place.library(SCHEMES["cf3"])
    assert place.library(SCHEMES["cf4"]) != place.library(SCHEMES["cf4"].stabilized("projection"))


def test_a_projected_collocation_method_ends_on_the_constraints():
    place, scheme = setup(HEAVY, "SO3xR3"), SCHEMES["implicit-midpoint"]
    plain = place.timed(scheme, 1e-3, 0.1, times=1)[0]
    projected = place.timed(scheme.stabilized("projection"), 1e-3, 0.1, times=1)[0]
    assert peak(plain.worst) > 1e-5 and peak(projected.worst) < 1e-15
    assert runs.errors(projected, HEAVY)[0] < 0.1


def test_stabilisation_moves_the_attitude_on_the_product_alone():
    """Positions that drift become moments; on SE(3) the joint is exact, and there is nothing to correct."""
    for group, same in (("SE3", True), ("SO3xR3", False)):
        plain = stabilized.stabilized(HEAVY, group, RK4)
        for by in stabilized.STABILIZERS:
            x = stabilized.stabilized(HEAVY, group, RK4.stabilized(by))
            assert not x.lost and (abs(x.attitude / plain.attitude - 1) < 1e-4) == same
            assert max(x.joints.values()) < (1e-14 if same or by == "projection" else 1e-5)
    assert stabilized.stabilized(HEAVY, "SO3xR3", SCHEMES["rkmk1"]).lost  # more energy than there was


# -- the page -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page():
    """The page with two integrators per example instead of all, and its pictures drawn by their captions."""
    few, captions = (RK4, SCHEMES["cf4"]), []

    def some(example, full=False):
        return few

    def caption(report, figure, text=""):
        assert all(axis.lines for axis in figure.axes)
        captions.append(text)

    fresh = cache(Setup)  # libraries of few methods are none for other tests
    numbers = defaultdict(lambda: 1.0)  # of claims that need all integrators
    with pytest.MonkeyPatch.context() as patch:
        for module in (study, runs, errata, golden, integrators, stabilized):
            for name, new in (("setup", fresh), ("schemes", some), ("stabilized_schemes", some)):
                if hasattr(module, name):
                    patch.setattr(module, name, new)
        patch.setattr(integrators, "what_holds", lambda found: numbers)
        patch.setattr(integrators, "accuracy_by_group", lambda found: numbers | {"rows": []})
        patch.setattr(Report, "figure", caption)
        report = study.study()
    return report, captions


def test_the_page_holds_everything(page):
    report, captions = page
    assert report.confirmed, [v.claim for v in report.verdicts if not v.confirmed]
    words = Counter(v.says for v in report.verdicts)
    assert words["wrong"] == 3 and words["misprint"] == 5 and words["holds"] > 35
    numbers = [int(m[1]) for m in (re.match(r"Figure (\d+): ", c) for c in captions) if m]
    assert numbers == [2, 3, 5, 6, 7, 9, 10, 12, 13, 14, 15]
    drawn = [int(m[1]) for m in (re.match(r"Figure (\d+), drawn from the model", c) for c in captions) if m]
    assert drawn == [1, 4, 8, 11]
    assert len(captions) == len(numbers) + len(drawn) + 5 + 4 + 4 * len(EXAMPLES)
    html = re.sub(r"<svg.*?</svg>", "", report.html, flags=re.S)
    assert not re.search(r"\bnan\b|\binf\b|not confirmed", html)


def test_pictures_show_what_they_compare(long_runs):
    pair = [long_runs[PENDULUM, g] for g in GROUPS]
    figure = figures.violation_figure(pair, "j1")
    left, right = (axis.lines[0].get_ydata() for axis in figure.axes)
    assert left.max() < 1e-11 < 1e-7 < right.max() == pytest.approx(peak(pair[1].violation("j1")))
    figure = figures.energy_figure(pair)
    scale = float(re.search(r"10\^\{(-\d+)\}", figure.axes[0].get_ylabel())[1])
    assert figure.axes[0].lines[0].get_ydata()[-1] * 10**scale == pytest.approx(pair[0].drift[-1])


def test_the_command_writes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "study", lambda: Report("Small", "Nobody (1900)"))
    assert write("mueller-terze-2013", tmp_path).name == "mueller-terze-2013.html"
    result = CliRunner().invoke(reproduce, ["mueller-terze-2013", "--out", str(tmp_path)])
    assert result.exit_code == 0 and "mueller-terze-2013.html" in result.stdout


def test_setups_of_different_groups_do_not_share_what_is_compiled():
    mixed = Setup(PENDULUM, ("SO3xR3", "SE3"))
    assert [b.group.name for b in mixed.system.bodies] == ["SO3xR3", "SE3"]
    assert mixed.system.flows is not setup(PENDULUM, "SE3").system.flows
