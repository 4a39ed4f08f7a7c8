"""From a robot to its first result: tracing, compiling, and finding an earlier process's kernel in the cache.

    python benchmarks/startup.py

Each row is measured in fresh processes with a cache folder of their own: the first compiles, the second
finds. Processor time of Python and of the compiler, from the loaded robot to the first result of a single
call and of a batch; reading the URDF and importing are not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe, keep, unless_quick
from robots import path

CASES = [("ur5", "inverse_dynamics"), ("ur5", "forward_dynamics"), ("panda", "inverse_dynamics"),
         ("anymal", "forward_dynamics"), ("talos", "inverse_dynamics"), ("talos", "forward_dynamics"),
         ("talos", "mass_matrix")]  # fmt: skip

CHILD = """
import json, sys, warnings
sys.path.insert(0, sys.argv[3])
import numpy as np
import liebody as lb
from machine import spent
from robots import path
warnings.simplefilter("ignore")
file, floating = path(sys.argv[1])
robot, name = lb.load(file, floating=floating), sys.argv[2]
q = robot.random(0, 256)
arrays = (q,) if name == "mass_matrix" else (q, np.ones((256, robot.nv)), np.ones((256, robot.nv)))
start = spent()
kernel = robot.kernel(name)
kernel(*(x[0] for x in arrays))
single = spent() - start
start = spent()
kernel(*arrays)
batch = spent() - start
start = spent()
lb.Robot(robot.tree).kernel(name).function
print(json.dumps([single, batch, spent() - start]))
"""


def main() -> None:
    print(describe("example-robot-data"))
    print(
        f"{'seconds':28s} {'trace':>7s} {'compile, one':>13s} {'batch':>7s} {'found, one':>11s} {'batch':>7s}"
    )
    path(CASES[0][0])  # ends here where the files are not installed
    for robot, function in unless_quick(CASES, CASES[:1]):
        with tempfile.TemporaryDirectory() as cache:
            rows = []
            for _ in range(2):
                done = subprocess.run(
                    [sys.executable, "-c", CHILD, robot, function, str(Path(__file__).parent)],
                    env={**os.environ, "LIEBODY_CACHE": cache}, capture_output=True, text=True, check=True,
                )  # fmt: skip
                rows.append(json.loads(done.stdout))
        (single, batch, trace), (found, found_batch, _) = rows
        keep(f"{robot} {function}, compiled", seconds=single)
        keep(f"{robot} {function}, found", seconds=found)
        print(
            f"{robot + ' ' + function:28s} {trace:7.3f} {single:13.2f} {batch:7.2f} "
            f"{found:11.3f} {found_batch:7.3f}"
        )


if __name__ == "__main__":
    main()
