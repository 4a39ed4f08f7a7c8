"""Proofs of periodic orbits beside those of CAPD: processor time, width of the period, box of uniqueness.

    python benchmarks/proofs_capd.py                         (with capd-config on the path)

CAPD (Kapela, Mrozek, Wilczak, Zgliczynski 2021) is a C++ library that encloses Poincare maps and their
derivatives. `proofs_capd.cpp` proves the orbits with it, by the interval Newton operator of the map. Both
programs prove one fixed point in the largest box that they can, then narrow it, and bound the period and the
multipliers. liebody's box is one of all nodes of the orbit, CAPD's one of the points on the section.

Each proof is the second one of a fresh process, in alternation, without compilers. CAPD's order of Taylor's
formula is the fastest of ORDERS for each orbit; liebody's is the default. The checker is not in the figures:
CAPD has none.

CAPD is built by cmake (github.com/CAPDGroup/CAPD); its `capd-config` says how to compile with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import describe, keep, unless_quick
from proofs import roessler, van_der_pol

from liebody.gaits import prove, prove_field

HERE = Path(__file__).parent
ROUNDS = unless_quick(9, 2)
ORDERS = unless_quick((8, 12, 16, 20, 25, 30), (20,))
PERIODS = {"van_der_pol_1": 6.66, "van_der_pol_3": 8.859, "van_der_pol_10": 19.078}
STARTS = {
    "roessler_1": ([0, -8.38094, 0.02959], 5.8811),
    "roessler_2": ([0, -5.42407, 0.0310812], 11.7586),
    "roessler_3": ([0, -6.2334, 0.03055], 17.5158),
}


class Proof(NamedTuple):
    """What a program prints about its proof."""

    seconds: float
    radius: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def ours(name: str) -> None:
    """Proves an orbit twice, and prints seconds of the second proof, radius, and bounds of the period."""
    if name in STARTS:
        start, period = STARTS[name]

        def call() -> Any:
            return prove_field(roessler, start, period)
    else:
        orbit = van_der_pol(float(name.rpartition("_")[2]), PERIODS[name])

        def call() -> Any:
            return prove(orbit)

    call()  # compiles
    before = time.process_time()
    certificate = call()
    print(time.process_time() - before, certificate.radius, *map(repr, certificate.period))


def proof_of(*command: Any) -> Proof | None:
    """The result of a process; None where it proved nothing."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    return Proof(*map(float, done.stdout.split()[:4])) if done.returncode == 0 else None


def built(config: str, folder: Path) -> Path:
    """The program of CAPD."""
    flags = [
        subprocess.run([config, option], capture_output=True, text=True, check=True).stdout.split()
        for option in ("--cflags", "--libs")
    ]
    program = folder / "proofs_capd"
    subprocess.run(["g++", *flags[0], HERE / "proofs_capd.cpp", *flags[1], "-o", program], check=True)
    return program


def compare(name: str, program: Path) -> None:
    """A line about one orbit."""
    tried = {order: proof_of(program, name, order) for order in ORDERS}
    known = {order: proof.seconds for order, proof in tried.items() if proof is not None}
    if not known:
        print(f"{name:16} CAPD proves nothing with the orders {', '.join(map(str, ORDERS))}")
        return
    order = min(known, key=lambda k: known[k])
    rounds = []
    for _ in range(ROUNDS):
        pair = proof_of(sys.executable, __file__, "ours", name), proof_of(program, name, order)
        assert pair[0] is not None and pair[1] is not None
        assert pair[0].low <= pair[1].high and pair[1].low <= pair[0].high  # one orbit
        rounds.append(pair)
    a, b = (np.array([pair[k].seconds for pair in rounds]) for k in (0, 1))
    keep(name, seconds=a, ratio=b / a)
    keep(f"{name}, CAPD", seconds=b)
    mine, theirs = rounds[-1]
    low, ratio, high = np.percentile(b / a, [25, 50, 75])
    print(
        f"{name:16} {np.median(a):8.3f} s {np.median(b):8.3f} s  ratio {ratio:.3g} [{low:.3g}, {high:.3g}], "
        f"order {order}; period +- {mine.width / 2:.1e}, {theirs.width / 2:.1e}; "
        f"alone within {mine.radius:.0e}, {theirs.radius:.0e}"
    )


def main() -> None:
    if sys.argv[1:2] == ["ours"]:
        ours(sys.argv[2])
        return
    config = shutil.which("capd-config")
    if config is None:
        print(
            "CAPD is not installed here: build github.com/CAPDGroup/CAPD, and put its capd-config on the "
            "path. proofs_capd.py measures nothing without it"
        )
        return
    print(describe("numpy"))
    print(f"{'orbit':16} {'liebody':>10} {'CAPD':>10}")
    with tempfile.TemporaryDirectory() as folder:
        program = built(config, Path(folder))
        for name in [*PERIODS, *STARTS]:
            compare(name, program)


if __name__ == "__main__":
    main()
