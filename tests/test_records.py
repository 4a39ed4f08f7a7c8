"""Figures of speed: pages say what the records have, and speeds that no record has written are found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import history  # noqa: E402
import machine  # noqa: E402
import quotes  # noqa: E402
import record  # noqa: E402
from quotes import Quote, number, speeds, unquoted, written  # noqa: E402

RUN = {
    "source": "measured",
    "date": "2026-11-28",
    "processor": "AMD EPYC",
    "lanes": 8,
    "cores": 2,
    "load": 0.5,
    "commit": "0123abc",
    "compiler": "gcc 12.2",
    "versions": {"liebody": "0.2.0", "pin": "4.1.0"},
    "figures": {
        "ur5": {
            "seconds": {"median": 2.15e-8, "quartiles": [2.1e-8, 2.2e-8], "rounds": 15},
            "ratio": {"median": 44.2},
        },
        "top": {"rate": {"median": 2_375_953.0}},
    },
}  # fmt: skip
OLDER = {**RUN, "figures": {"ur5": {"seconds": {"median": 3e-8}}, "arm": {"seconds": {"median": 0.002}}}}
QUOTE = Quote("page.md", "some", "a call takes {ur5: ns} ns,\n  {ur5: ratio} times as fast")
PAGE = "On one core a call takes 30 ns, 17.6\ntimes as fast. Then more."


def test_pages_say_what_the_records_have_and_no_other_speeds():
    assert record.problems() == []


def test_every_record_has_runs_of_one_form_in_the_order_of_their_dates():
    for name, table in history.records().items():
        runs, command = table["runs"], table["command"]
        assert runs, name
        assert command is None or (ROOT / command.split()[1]).is_file(), name
        assert all(set(run) == set(RUN) for run in runs), name
        assert all(run["figures"] for run in runs), name
        assert [run["date"] for run in runs] == sorted(run["date"] for run in runs), name
        quantities = {key for run in runs for figures in run["figures"].values() for key in figures}
        assert quantities <= {"seconds", "ratio", "rate"}
        assert all(run["source"] == "measured" or "as printed in" in run["source"] for run in runs)


def test_new_figures_are_written_where_old_ones_were():
    assert written(PAGE, QUOTE, [OLDER, RUN]) == PAGE.replace("30", "22").replace("17.6", "44")
    assert written(written(PAGE, QUOTE, [RUN]), QUOTE, [RUN]) == written(PAGE, QUOTE, [RUN])


def test_the_newest_run_with_all_fields_is_quoted():
    quote = Quote("page.md", "some", "takes {ur5: ns} ns, {arm: ms} ms")
    assert written("It takes 1 ns, 1 ms", quote, [OLDER, RUN]) == "It takes 30 ns, 2.0 ms"
    with pytest.raises(KeyError, match=r"no run of some has all fields.*'arm'"):
        written("It takes 1 ns, 1 ms", quote, [RUN])


def test_fields_of_a_run_and_rates_are_printed():
    fields = "{processor}, {lanes} lanes, {compiler}, {version of pin}, {commit}: "
    quote = Quote("page.md", "some", fields + "{top: million} million, {top: rate} or {top: rate3}")
    page = "Intel Xeon, 4 lanes, clang 19.1, 4.0.0, fc82976: 3.2 million, 3,200,000 or 3,200,000"
    expected = "AMD EPYC, 8 lanes, gcc 12.2, 4.1.0, 0123abc: 2.4 million, 2,400,000 or 2,380,000"
    assert written(page, quote, [RUN]) == expected


def test_a_quote_that_a_page_no_longer_has_names_the_remedy():
    with pytest.raises(ValueError, match=r"page.md has 0 places of .*quotes.toml as the page was changed"):
        written("Something else.", QUOTE, [RUN])
    with pytest.raises(ValueError, match="2 places"):
        written(PAGE + PAGE, QUOTE, [RUN])


@pytest.mark.parametrize("field", ["ur5", "ur5: hours", "ur5: ns-2"])
def test_fields_of_no_form_are_refused(field):
    with pytest.raises(ValueError, match="expected 'label: form'"):
        quotes.printed(field, RUN)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(451.3, 2, "451"), (97.2, 2, "97"), (7.94, 2, "7.9"), (0.158, 2, "0.16"), (1.96, 2, "2.0"),
     (9.96, 2, "10"), (1047.4, 2, "1,047"), (15.63, 3, "15.6"), (0.0996, 2, "0.10"), (0.4187, 1, "0.4")],
)  # fmt: skip
def test_numbers_have_their_significant_digits(value, digits, text):
    assert number(value, digits) == text


def test_rates_are_rounded():
    assert number(432_123, 2, rounded=True) == "430,000" and number(8.84, 2, rounded=True) == "8.8"


@pytest.mark.parametrize(
    "text",
    [
        "It takes 30 ns.",
        "| UR5 | 0.16 us, 8.0 x |",
        "three, or 12 times as fast as MuJoCo",
        "it is 3 times faster",
        "3.2 million steps per second",
        "Hessians compile in 16 s.",
        "The map took 5.3 minutes with two workers.",
        "A call of the\ncontroller takes 0.5 ms.",
    ],
)
def test_speeds_are_seen(text):
    assert len(speeds(text)) >= 1
    assert unquoted(text, [], []) != []
    assert unquoted(text, [], [text]) == []


@pytest.mark.parametrize(
    "text",
    [
        "3 x 3 matrices, 128 x 128 starts",
        "with steps of 1 ms, the robot falls at 4.2 s",
        "a product of 0.5 kg m2",
        "```python\nprint('30 ns')\n```",
        "times 3 of the sort",
    ],
)
def test_other_figures_are_no_speeds(text):
    assert speeds(text) == []


def test_a_fragment_that_no_page_has_is_no_excuse():
    with pytest.raises(ValueError, match="no page text '40 ns'"):
        unquoted("It takes 30 ns.", [], ["40 ns"])


def test_what_a_script_keeps_becomes_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "KEPT", str(tmp_path / "kept"))
    assert "numpy" in machine.describe("numpy")
    machine.keep("ur5", seconds=[3.0, 1.0, 2.0, 5.0, 4.0], ratio=7.0)
    run = record.run_of([json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()])
    assert set(run) == set(RUN) and "numpy" in run["versions"]
    assert run["figures"] == {
        "ur5": {"seconds": {"median": 3.0, "quartiles": [2.0, 4.0], "rounds": 5}, "ratio": {"median": 7.0}}
    }


def test_the_history_draws_a_line_for_each_robot():
    runs = history.records()["dynamics"]["runs"]
    drawn = history.picture(runs)
    assert drawn.count("<polyline") == len(history.PANELS) * len(history.COLORS)
    assert all(run["commit"][:7] in drawn for run in runs)
