"""The script that runs the tests as on other processors: what it limits, what it skips, when it fails."""

from __future__ import annotations

import platform
import subprocess
import sys

import processors
import pytest

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="its levels are those of x86-64")


@x86_64
def test_a_process_computes_as_on_a_processor_of_the_level():
    found = processors.features()
    for level, words in zip(processors.LEVELS, ("128 bits, NumPy with no more", "256 bits", "512 bits")):
        if all(found.get(name) for name in level.needs):
            command = [sys.executable, "-c", processors.REPORT]
            done = subprocess.run(
                command, env=processors.environment(level), capture_output=True, text=True, check=False
            )
            assert words in done.stdout and done.stderr == "", done
            assert not any(f" {name}" in done.stdout for name in ("AVX512", "X86_V4") if "512" not in words)


def test_levels_that_the_machine_lacks_are_skipped_with_a_word(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processors, "features", lambda: {"AVX2": True, "FMA3": True})
    monkeypatch.setattr(processors, "run", lambda level: ran.append(level.name) or 0)
    assert processors.main([]) == 0 and ran == ["x86-64", "x86-64-v3"]
    assert "== x86-64-v4\nskipped: this machine has no AVX512_SKX" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"AVX2": True, "FMA3": True}, {"x86-64": "SELECTED", "x86-64-v3": "UNMARKED"}),
        ({"AVX2": True, "FMA3": True, "AVX512_SKX": True}, {"x86-64": "SELECTED", "x86-64-v4": "UNMARKED"}),
        ({}, {"x86-64": "SELECTED UNMARKED"}),
    ],
)
def test_the_lowest_and_the_highest_level_may_share_the_tests(monkeypatch, capsys, features, expected):
    names = {id(processors.SELECTED): "SELECTED", id(processors.UNMARKED): "UNMARKED"}
    ran = {}

    def run(level, lists):
        ran[level.name] = " ".join(names[id(x)] for x in lists)
        return 0

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processors, "features", lambda: features)
    monkeypatch.setattr(processors, "run", run)
    assert processors.main(["--shares"]) == 0 and ran == expected
    skipped = "skipped: the levels above and below share the tests" in capsys.readouterr().out
    assert skipped == ("AVX512_SKX" in features)


def test_other_processors_are_left_with_a_word(monkeypatch, capsys):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert processors.main([]) == 0
    assert capsys.readouterr().out == "this processor is aarch64, not x86-64: nothing is run\n"


def test_a_level_that_fails_fails_the_script(monkeypatch, capsys):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processors, "features", lambda: {"AVX2": True, "FMA3": True})
    monkeypatch.setattr(processors, "run", lambda level: int(level.name == "x86-64-v3"))
    assert processors.main([]) == 1
    assert capsys.readouterr().out.endswith("failed as on x86-64-v3\n")


@pytest.mark.parametrize("fails", [processors.SELECTED, processors.UNMARKED])
def test_a_level_fails_where_either_part_of_its_tests_fails(monkeypatch, fails):
    def ran(command, **options):
        return subprocess.CompletedProcess(command, int(f"tests/{fails[0]}" in command))

    monkeypatch.setattr(processors, "environment", lambda level: {})
    monkeypatch.setattr(subprocess, "run", ran)
    assert processors.run(processors.LEVELS[0]) == 1
    monkeypatch.setattr(subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 0))
    assert processors.run(processors.LEVELS[0]) == 0


def test_what_is_selected_and_left_out_is_there():
    chosen = [*processors.SELECTED, *processors.UNMARKED]
    assert len({*chosen}) == len(chosen)
    tests = {name: (processors.TESTS / name).read_text(encoding="utf-8") for name in chosen}
    for name in processors.LEFT_OUT:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}" in tests[file], name
