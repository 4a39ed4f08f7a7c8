"""Checks of a release, in the order of `make release`; each ends with an error that says what to do.

    python tests/release.py version              one version in all files, a dated changelog, all committed
    python tests/release.py contents build/dist  sdist and wheel hold what is tracked, of listed kinds only
    python tests/release.py try build/dist       the wheel works in a fresh environment, with tests/foreign

`version` compares the version with `--tag v0.3.0`, too, and `[project.urls]` with `--repository https://...`.
`contents --write` writes the list of kinds, tests/distribution.txt, anew. It has folders with the endings of
their files: a new module of a room changes nothing, and an image or a library that slips into a room does.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "distribution.txt"
BUILT = {".gitignore", "PKG-INFO", "pyproject.toml"}  # what hatchling adds to an sdist by itself
README_BLOCK = re.compile(r"^```python\n(.*?)^```\n+```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
TUTORIAL = "docs/tutorials/arm.md"  # the first one
FOREIGN = ROOT / "tests" / "foreign"
USE_OF_FOREIGN = """
import numpy as np
import liebody as lb
from liebody.bodies import joint_named

print(lb.load("arm.sdf").mass_matrix([0.0, 0.0])[1, 1].round(12))
pendulum = lb.load("double_pendulum")
run = lb.simulate(pendulum, [1.0, 0.5], t_end=0.1, dt=1e-3, method="heun3", forces="drag")
print(run.metadata["method"], run.metadata["forces"])
solution = lb.solve_ivp(lambda t, g: np.array([1.0, 2.0, 0.0]), (0, 1), np.eye(3).ravel(), "heisenberg")
print(solution.q[-1].round(9).tolist())
print(lb.TreeBuilder("press").add("nut", "leadscrew", lb.SpatialInertia.sphere(1.0, 0.1)).build().nv)
"""
PRINTED_BY_FOREIGN = """1.0
heun3 Drag
[1.0, 1.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0]
1
"""


class Refused(SystemExit):
    """A release that cannot be, with what to do about it."""


# -- the version ---------------------------------------------------------------------------------------------


def versions(root: Path) -> dict[str, str]:
    """The version by the file that says it."""
    patterns = {
        "src/liebody/__init__.py": r'^__version__ = "(.*)"$',
        "CITATION.cff": r"^version: (.*)$",
        "docs/used-for.md": r"^  version = \{(.*)\},$",
        "CHANGELOG.md": r"^## \[(\d[^\]]*)\]",  # the newest section stands first
    }
    found = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise Refused(f"{name} says no version, expected a line such as {pattern}")
        found[name] = match[1]
    return found


def agreed(root: Path) -> str:
    """The version that all files say."""
    found = versions(root)
    if len(set(found.values())) > 1:
        said = ", ".join(f"{version} in {name}" for name, version in found.items())
        raise Refused(f"the versions differ: {said}. Write one into all of them")
    return next(iter(found.values()))


def dated(changelog: str, version: str) -> str:
    """The date of a version's section of the changelog."""
    title = re.search(rf"^## \[{re.escape(version)}\] - (.*)$", changelog, re.MULTILINE)
    if title is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", title[1]):
        said = "nothing" if title is None else repr(title[1])
        raise Refused(f"CHANGELOG.md: the date of {version} is {said}, expected YYYY-MM-DD")
    return title[1]


def named_by(tag: str, version: str) -> None:
    if tag != f"v{version}":
        raise Refused(f"the tag is {tag!r}, and the version {version}: expected the tag v{version}")


def at_home(project: dict[str, Any], repository: str) -> None:
    """Whether the metadata lead to the repository that the release is built in."""
    written = project.get("urls", {}).get("Repository")
    if written != repository:
        raise Refused(
            f"[project.urls] of pyproject.toml has Repository = {written!r}, and this release is built in "
            f'{repository}: write Repository = "{repository}"'
        )


def committed(root: Path) -> None:
    changed = git(root, "status", "--porcelain")
    if changed:
        raise Refused(f"these files are not as committed, commit them or remove them:\n{changed}")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(
            f"git {words[0]}: {done.stderr.strip()}. A release is made in a clone of the repository"
        )
    return done.stdout.rstrip("\n")


# -- contents ------------------------------------------------------------------------------------------------


def expected(root: Path) -> dict[str, set[str]]:
    """Files of sdist and wheel: the tracked ones that pyproject.toml names, and what the builder adds."""
    hatch = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    tracked = git(root, "ls-files").splitlines()
    packages = hatch["targets"]["wheel"]["packages"]
    included = hatch["targets"]["sdist"]["include"]
    wheel = {f.removeprefix("src/") for f in tracked if any(f.startswith(f"{p}/") for p in packages)}
    sdist = {f for f in tracked if any(f == name or f.startswith(f"{name}/") for name in included)}
    info = f"liebody-{agreed(root)}.dist-info"
    added = {
        f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    return {"sdist": sdist | BUILT, "wheel": wheel | added}


def archives(folder: Path, version: str) -> tuple[Path, Path]:
    """Sdist and wheel of a version, the only files of a folder."""
    sdist, wheel = folder / f"liebody-{version}.tar.gz", folder / f"liebody-{version}-py3-none-any.whl"
    present = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if present != sorted([sdist.name, wheel.name]):
        raise Refused(f"{folder} holds {present}, expected {sdist.name} and {wheel.name}: make dist")
    return sdist, wheel


def held(sdist: Path, wheel: Path) -> dict[str, set[str]]:
    """The files of both archives; those of the sdist without its outer folder."""
    with tarfile.open(sdist) as tar:
        members = tar.getmembers()
    odd = [member.name for member in members if not (member.isfile() or member.isdir())]
    if odd:
        raise Refused(f"the sdist has links or devices: {odd}")
    outer = sdist.name.removesuffix(".tar.gz") + "/"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    return {"sdist": {m.name.removeprefix(outer) for m in members if m.isfile()}, "wheel": names}


def differences(expected: Iterable[str], present: Iterable[str]) -> list[str]:
    """A line for each thing that is missing or too much."""
    missing = sorted(set(expected) - set(present))
    more = sorted(set(present) - set(expected))
    return [*(f"- {name}" for name in missing), *(f"+ {name}" for name in more)]


def kinds(files: dict[str, set[str]]) -> str:
    """The list: folders of an archive with the endings of their files; files at the top by their names."""
    lines = set()
    for archive, names in files.items():
        for name in names:
            path = PurePosixPath(re.sub(r"^liebody-[^/]*\.dist-info", "liebody.dist-info", name))
            at_top = len(path.parts) == 1
            lines.add(f"{archive} {path}" if at_top else f"{archive} {path.parent}/*{path.suffix}")
    return "\n".join(sorted(lines)) + "\n"


def check_contents(folder: Path, write: bool = False) -> dict[str, set[str]]:
    files = held(*archives(folder, agreed(ROOT)))
    wanted = expected(ROOT)
    for archive, names in files.items():
        wrong = differences(wanted[archive], names)
        if wrong:
            raise Refused(f"the {archive} differs from the tracked files (-: missing):\n" + "\n".join(wrong))
    listed = kinds(files)
    if write:
        LIST.write_text(listed, encoding="utf-8")
    wrong = differences(LIST.read_text(encoding="utf-8").splitlines(), listed.splitlines())
    if wrong:
        raise Refused(
            "kinds of files differ from tests/distribution.txt (+: new). If they belong there: python "
            f"tests/release.py contents {folder} --write\n" + "\n".join(wrong)
        )
    return files


# -- a fresh environment -------------------------------------------------------------------------------------


def try_wheel(wheel: Path) -> None:
    """Install the wheel into an environment of its own, and use it there.

    The first examples of README print what it says; the first tutorial and `liebody demo` run; and another
    package, tests/foreign, adds one of each thing that packages can add.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = README_BLOCK.findall(readme.partition("needs the extra")[0])
    if not examples:
        raise Refused("README.md has no block of Python with its output below")
    tutorial = CELL.findall((ROOT / TUTORIAL).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        empty = folder / "empty"
        empty.mkdir()
        environment = {key: x for key, x in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment |= {"LIEBODY_CACHE": str(folder / "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment |= {"MPLBACKEND": "agg"}

        def run(*words: str) -> str:
            command = [str(programs / words[0]), *words[1:]]
            done = subprocess.run(
                command, cwd=empty, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise Refused(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
            return done.stdout

        def expect(code: str, text: str, what: str) -> None:
            printed = run("python", "-c", code)
            if printed != text:
                raise Refused(f"{what} printed\n{printed}expected\n{text}")

        run("python", "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[plot]", str(FOREIGN))
        home = run("python", "-c", "import liebody; print(liebody.__file__)")
        if not Path(home.strip()).is_relative_to(folder.resolve()):
            raise Refused(f"liebody is imported from {home.strip()}, not from the wheel")
        code, text = map("".join, zip(*examples, strict=True))
        expect(code, text, "the first examples of README.md")
        run("python", "-c", "\n".join(tutorial))
        run("liebody", "info", "double_pendulum")
        run("liebody", "demo", "--out", "demo")
        if not (empty / "demo" / "demo.png").is_file():
            raise Refused("liebody demo wrote no demo.png")
        (empty / "arm.sdf").write_bytes((FOREIGN / "arm.sdf").read_bytes())
        expect(USE_OF_FOREIGN, PRINTED_BY_FOREIGN, "the package of tests/foreign")
        if "shoulder" not in run("liebody", "info", "arm.sdf"):
            raise Refused("liebody info does not read arm.sdf")
        if run("liebody", "travel", "4") != "0.02 m\n":
            raise Refused("liebody travel 4 does not say 0.02 m")
        run("liebody", "export", "arm.sdf", "--to", "rust", "--out", "rust")
        if "pub fn forward_dynamics" not in (empty / "rust" / "arm.rs").read_text(encoding="utf-8"):
            raise Refused("liebody export --to rust wrote no forward_dynamics")


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    named = commands.add_parser("version")
    named.add_argument("--tag")
    named.add_argument("--repository", help="address, which [project.urls] has to have")
    contents = commands.add_parser("contents")
    contents.add_argument("folder", type=Path)
    contents.add_argument("--write", action="store_true")
    commands.add_parser("try").add_argument("folder", type=Path)
    asked = parser.parse_args(words)
    version = agreed(ROOT)
    if asked.command == "version":
        dated((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        committed(ROOT)
        if asked.tag is not None:
            named_by(asked.tag, version)
        if asked.repository is not None:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            at_home(project, asked.repository)
        print(f"version {version} everywhere, and nothing uncommitted")
    elif asked.command == "contents":
        for archive, names in check_contents(asked.folder, asked.write).items():
            print(f"{archive}: {len(names)} files, all tracked, of the kinds in tests/{LIST.name}")
    else:
        _, wheel = archives(asked.folder, version)
        try_wheel(wheel)
        print(f"{wheel.name} works in a fresh environment")


if __name__ == "__main__":
    main(sys.argv[1:])
