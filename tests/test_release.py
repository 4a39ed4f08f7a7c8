"""What a release is checked for: versions, contents, metadata; and that the checks see mistakes."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import release

PROJECT = release.tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = release.ROOT / ".github" / "workflows"
IN_A_CLONE = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="an sdist has no workflows")


def versioned(folder, package="0.3.0", citation="0.3.0", changelog="0.3.0"):
    """A folder with the files that say a version."""
    (folder / "src/liebody").mkdir(parents=True)
    (folder / "src/liebody/__init__.py").write_text(f'__version__ = "{package}"\n')
    (folder / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {citation}\n")
    (folder / "docs").mkdir()
    (folder / "docs/used-for.md").write_text(f"@software{{liebody,\n  version = {{{citation}}},\n}}\n")
    (folder / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [{changelog}] - unreleased\n\n## [0.1.0] - old\n"
    )
    return folder


def test_one_version_stands_in_all_files():
    assert release.agreed(release.ROOT) == release.versions(release.ROOT)["CHANGELOG.md"]


@pytest.mark.parametrize("file", ["package", "citation", "changelog"])
def test_versions_that_differ_are_refused(tmp_path, file):
    with pytest.raises(release.Refused, match=r"differ: .*0\.2\.9 in"):
        release.agreed(versioned(tmp_path, **{file: "0.2.9"}))


def test_a_version_that_is_missing_is_refused(tmp_path):
    (versioned(tmp_path) / "CITATION.cff").write_text("cff-version: 1.2.0\n")
    with pytest.raises(release.Refused, match=r"CITATION\.cff says no version"):
        release.agreed(tmp_path)


@pytest.mark.parametrize("date", ["unreleased", "2026-1-5", "2026-01-05 or later"])
def test_a_release_has_a_date(date):
    with pytest.raises(release.Refused, match=f"is '{date}', expected YYYY-MM-DD"):
        release.dated(f"## [0.3.0] - {date}\n", "0.3.0")
    assert release.dated("## [0.3.0] - 2026-01-05\n", "0.3.0") == "2026-01-05"
    with pytest.raises(release.Refused, match="is nothing"):
        release.dated("## [0x3.0] - 2026-01-05\n", "0.3.0")


def test_a_tag_names_its_version():
    release.named_by("v0.3.0", "0.3.0")
    with pytest.raises(release.Refused, match=r"expected the tag v0\.3\.0"):
        release.named_by("0.3.0", "0.3.0")


def test_metadata_lead_to_the_repository_of_the_release():
    here = "https://example.org/robots/liebody"
    release.at_home({"urls": {"Repository": here}}, here)
    for project in ({}, {"urls": {"Repository": "https://example.org/elsewhere"}}):
        with pytest.raises(release.Refused, match=f'write Repository = "{here}"'):
            release.at_home(project, here)


def test_files_that_are_not_committed_are_refused(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    with pytest.raises(release.Refused, match="in a clone"):
        release.committed(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    release.committed(tmp_path)
    (tmp_path / "left.txt").write_text("over")
    with pytest.raises(release.Refused, match=r"left\.txt"):
        release.committed(tmp_path)


# -- contents -----------------------------------------------------------------------------------------------


def archives(folder, names, link=False):
    """An sdist and a wheel with files of these names."""
    sdist, wheel = folder / "liebody-0.3.0.tar.gz", folder / "liebody-0.3.0-py3-none-any.whl"
    with tarfile.open(sdist, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(f"liebody-0.3.0/{name}"), io.BytesIO())
        if link:
            entry = tarfile.TarInfo("liebody-0.3.0/link")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/hosts"
            tar.addfile(entry)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return sdist, wheel


def test_archives_are_read_by_the_names_of_their_files(tmp_path):
    pair = archives(tmp_path, ["README.md", "src/liebody/run.h"])
    assert release.archives(tmp_path, "0.3.0") == pair
    names = {"README.md", "src/liebody/run.h"}
    assert release.held(*pair) == {"sdist": names, "wheel": names}


def test_other_archives_and_links_are_refused(tmp_path):
    pair = archives(tmp_path, ["README.md"], link=True)
    with pytest.raises(release.Refused, match="links or devices"):
        release.held(*pair)
    (tmp_path / "liebody-0.2.0.tar.gz").touch()
    with pytest.raises(release.Refused, match="make dist"):
        release.archives(tmp_path, "0.3.0")


def test_the_list_has_folders_with_endings():
    files = {"sdist": {"README.md", "src/a/x.py", "src/a/y.py"}, "wheel": {"liebody-0.3.0.dist-info/WHEEL"}}
    assert release.kinds(files) == "sdist README.md\nsdist src/a/*.py\nwheel liebody.dist-info/*\n"
    assert release.differences(["a", "b"], ["b", "c"]) == ["- a", "+ c"]


@pytest.mark.skipif(not (release.ROOT / ".git").exists(), reason="an sdist is no clone")
def test_the_list_is_that_of_the_tracked_files():
    """Without building: a new kind of file is in the list when it is committed."""
    listed = release.LIST.read_text(encoding="utf-8").splitlines()
    assert release.differences(listed, release.kinds(release.expected(release.ROOT)).splitlines()) == []


# -- what runs it -------------------------------------------------------------------------------------------


@IN_A_CLONE
def test_the_classifiers_have_the_pythons_that_the_workflow_runs():
    workflow = (WORKFLOWS / "test.yml").read_text(encoding="utf-8")
    pythons = {x for row in re.findall(r"python: \[(.*)\]", workflow) for x in re.findall(r"\d\.\d+", row)}
    name = "Programming Language :: Python :: 3."
    classified = {"3." + x.removeprefix(name) for x in PROJECT["classifiers"] if x.startswith(name)}
    assert classified == pythons
    assert PROJECT["requires-python"] == ">=" + min(pythons, key=lambda x: int(x[2:]))


@IN_A_CLONE
def test_one_job_alone_may_publish_after_the_others():
    workflow = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    before, publish = workflow.split("\n  publish:\n")
    assert "id-token" not in before and "write" not in before
    assert "needs: [test, build]" in publish and "environment: pypi" in publish
    assert "password" not in workflow and "secrets." not in workflow
    commands = re.findall(r"run: (?:python )?(tests/release\.py \w+|make \w+)", workflow)
    assert commands == ["tests/release.py version", "make dist", "tests/release.py try"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_release_checks_before_it_builds():
    command = ["make", "--dry-run", "release", "CHECKS=", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=release.ROOT, capture_output=True, text=True, check=True)
    steps = [
        r"release\.py version",
        r"-m build .*dist",
        r"-m build .*again",
        "diff -r",
        "twine check --strict",
    ]
    steps += [r"release\.py contents", r"release\.py try", "git tag"]
    places = [re.search(step, done.stdout).start() for step in steps]
    assert places == sorted(places)


@pytest.mark.slow
@pytest.mark.skipif(
    not (find_spec("build") and find_spec("twine")), reason="build or twine are not installed"
)
def test_a_release_is_built_and_works_in_a_fresh_environment():
    build = ["make", "dist", f"PYTHON={sys.executable}"]
    use = [sys.executable, "tests/release.py", "try", "build/dist"]
    for command in (build, use):
        done = subprocess.run(command, cwd=release.ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@IN_A_CLONE
def test_the_readme_speaks_of_the_systems_that_the_workflow_runs():
    workflow = (WORKFLOWS / "test.yml").read_text(encoding="utf-8")
    runs = {name for name in ("ubuntu", "macos", "windows") if f"{name}-latest" in workflow}
    readme = (release.ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## What it does not do\n")[2].partition("\n## ")[0]
    said = {"ubuntu": "Linux", "macos": "macOS", "windows": "Windows"}
    assert {name for name, word in said.items() if word in section} == runs
    classifiers = {
        x.rpartition(" :: ")[2] for x in PROJECT["classifiers"] if x.startswith("Operating System")
    }
    assert classifiers == {"Linux"}  # the system of which runs are known
