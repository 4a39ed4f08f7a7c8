"""What arrives with `pip install .`, and how soon it is of use: packages, megabytes, seconds, and the goals.

    python benchmarks/install.py

Builds the wheel of this repository, makes a fresh virtual environment in a temporary folder, installs the
wheel there without extras, and works with it: import, and a URDF to its first inverse dynamics, with an empty
cache of kernels. Downloads count. `import liebody` imports its names when they are asked for, so that the
time of those that most programs ask for stands beside it. Imports are measured in processor time, to which
other work on the machine adds little: medians of fresh processes, as everywhere but in the last two rows,
which are the least of three.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from machine import unless_quick

ROOT = Path(__file__).parents[1]
PROCESSES = unless_quick(11, 1)
MOST_PACKAGES, MOST_MEGABYTES, LONGEST_IMPORT, LONGEST_START = 12, 200, 0.2, 20.0

IMPORT = "import time; t = time.process_time(); import liebody{}; print(time.process_time() - t)"
FIRST_DYNAMICS = """
import liebody as lb
body = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
robot = lb.load(f'''<robot name="arm"><link name="base"/><link name="upper">{body}</link>
<link name="lower">{body}</link>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/></joint>
<joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/></joint></robot>''')
print(robot.inverse_dynamics([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]))
"""


def megabytes(folder: Path) -> float:
    """What the files of a folder take, in 10^6 bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def packages(folder: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in folder.glob("*.dist-info")}


def seconds(python: Path, code: str, folder: str) -> float:
    """Wall time of a fresh process with an empty cache."""
    environment = {**os.environ, "LIEBODY_CACHE": tempfile.mkdtemp(dir=folder)}
    start = time.perf_counter()
    subprocess.run([python, "-c", code], env=environment, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def processor(python: Path, names: str, folder: str) -> float:
    """Median processor time of an import, with what is asked for after it, in fresh processes."""
    command = [python, "-c", IMPORT.format(names)]
    times = [subprocess.run(command, cwd=folder, check=True, capture_output=True) for _ in range(PROCESSES)]
    return statistics.median(float(done.stdout) for done in times)


def row(what: str, value: float, form: str, most: float | None = None) -> None:
    """Print a number beside its goal."""
    goal = "" if most is None else f"at most {most:g}" + ("" if value <= most else ", MISSED")
    print(f"{what:52s} {value:10{form}}   {goal}".rstrip())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "fresh", with_pip=True)
        python = Path(folder) / "fresh" / "bin" / "python"
        (library,) = (Path(folder) / "fresh" / "lib").glob("python*/site-packages")
        before, empty = packages(library), megabytes(library)
        pip = [python, "-m", "pip", "-q"]
        if subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, str(ROOT)], check=False).returncode:
            raise SystemExit("pip could not build the wheel: it needs an index of packages, such as PyPI")
        start = time.perf_counter()
        wheels = [str(file) for file in Path(folder).glob("liebody-*.whl")]
        if subprocess.run([*pip, "install", *wheels], check=False).returncode:
            raise SystemExit("pip could not install the wheel: it needs an index of packages, such as PyPI")
        installing = time.perf_counter() - start
        arrived = packages(library) - before
        size = megabytes(library) - empty
        imports = processor(python, "", folder)
        used = processor(python, "; liebody.load, liebody.simulate", folder)
        first = min(seconds(python, FIRST_DYNAMICS, folder) for _ in range(3))
    print(f"Python {sys.version.split()[0]}: {', '.join(sorted(arrived))}\n")
    row("packages, liebody among them", len(arrived), "d", MOST_PACKAGES)
    row("size, with bytecode [MB]", size, ".1f", MOST_MEGABYTES)
    row("import liebody [s of processor]", imports, ".3f", LONGEST_IMPORT)
    row("  and its load and simulate, NumPy with them", used, ".3f")
    row("from the wheel to the first inverse dynamics [s]", installing + first, ".1f", LONGEST_START)
    row("  of it: a process that imports, compiles, computes", first, ".2f")


if __name__ == "__main__":
    main()
