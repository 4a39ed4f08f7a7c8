"""The laws of a Coriolis matrix, law by law and joint by joint: liebody and its peers.

    python benchmarks/laws.py                        every library that is importable here
    python benchmarks/laws.py --peer pinocchio       one library, as JSON, measured in this interpreter
    python benchmarks/laws.py --environments DIR     every library, each in its own environment DIR/NAME, made
                                                     by `python -m venv` and pip where it is not there
    python benchmarks/laws.py --full                 with the tables of all residuals

On random mechanisms of each joint type (`peers.tree_of`: two joints of the type and two hinges, a tree),
on a fixed and on a floating base, at random states, in the library's own layout of q and v:

    1  M is symmetric and positive definite
    2  C(q, v) v = h - g, the library's own bias and gravity forces
    3  dM/dt = C + C^T along the motion, dM/dt by differences of the library's own M
    4  C(v) w - C(w) v = M [v, w], the bracket that of the library's own velocities: zero where they are rates
       of coordinates

Residuals are norms relative to the sum of the norms of what is compared; a table shows the worst. A law is
said to hold below 1e-9. dM/dt is extrapolated (Romberg) from central differences with five steps from 1/16 to
1/256; its error is estimated by the last correction.

Laws 3 and 4 determine C, so a failure is looked into before it is called one. Three controls, which know
nothing of C, must hold where a law is said to fail:

    energy   v^T M w is the kinetic energy of the links' poses, differenced along the library's motions
    bracket  the bracket is that of the velocities, by second differences of the poses
    bias     h - g = dM/dt v - p [v, .] - grad(v^T M v) / 2 with p = M v, from M alone

and law 4 is tried with the brackets of other conventions (none, the opposite, those of other representations
of a base's velocity).
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers import BASE, PEERS, Array, pseudo_inertia, random_links, tree_of, version_of

QUICK = bool(os.environ.get("BENCHMARK_QUICK"))  # as in machine.py, which needs liebody

HOLDS = 1e-9
STEPS = [2.0**-k for k in range(4, 9)]
LAWS = ("M", "C v", "dM/dt", "torsion")
CONTROLS = ("energy", "bracket", "bias")
ROOT = Path(__file__).resolve().parents[1]


def slope(function: Callable[[float], Array]) -> tuple[Array, float]:
    """d function/dt at t = 0, and the size of the last correction."""
    row = [(function(h) - function(-h)) / (2 * h) for h in STEPS]
    for k in range(1, len(STEPS)):
        before = row[-1]
        row = [b + (b - a) / (4**k - 1) for a, b in itertools.pairwise(row)]
    return row[-1], float(np.linalg.norm(row[-1] - before))


def relative(residual: Array, *compared: Array) -> float:
    size = sum(np.linalg.norm(x) for x in compared)
    return float(np.linalg.norm(residual) / size) if size > 1e-12 else float(np.linalg.norm(residual))


def measure(peer: Any, x: Any, v: Array, w: Array) -> dict[str, float]:
    """Residuals of the laws at a state x with velocities v and w."""
    M, C, h, g = peer.terms(x, v)
    C_w = peer.terms(x, w)[1]
    rate, error = slope(lambda t: peer.mass(peer.move(x, v, t)))
    torsion = C @ w - C_w @ v

    def law_4(structure: Array) -> float:
        bracket = M @ (structure @ w @ v)
        return relative(torsion - bracket, C @ w, C_w @ v, bracket)

    least = np.linalg.eigvalsh((M + M.T) / 2)[0]
    return {
        "M": max(relative(M - M.T, M), max(0.0, -least / np.linalg.norm(M))),
        "C v": relative(C @ v - (h - g), C @ v, h - g),
        "dM/dt": relative(rate - C - C.T, rate, C, C),
        "torsion": law_4(peer.structure),
        "error of dM/dt": error / (np.linalg.norm(rate) + 2 * np.linalg.norm(C)),
        **{f"torsion, bracket {name}": law_4(other) for name, other in peer.others.items()},
    }


def controls(peer: Any, x: Any, v: Array, w: Array, bodies: list[Array]) -> dict[str, float]:
    """Residuals of the controls; bodies: pseudo-inertias of the links whose poses the library gives."""
    M, _, h, g = peer.terms(x, v)
    rate = slope(lambda t: peer.mass(peer.move(x, v, t)))[0]
    moved = {
        name: slope(lambda t, u=u: peer.poses(peer.move(x, u, t)))[0]
        for name, u in {"v": v, "w": w, "[v, w]": peer.structure @ w @ v}.items()
    }
    pairs = zip(moved["v"], moved["w"], bodies, strict=True)
    energy = sum(np.trace(a @ P @ b.T) for a, b, P in pairs)
    found = {"energy": relative(v @ M @ w - energy, np.abs(v) @ np.abs(M) @ np.abs(w))}

    def second(a: Array, b: Array) -> Array:
        """a(b(poses))"""
        return slope(lambda s: slope(lambda t: peer.poses(peer.move(peer.move(x, a, s), b, t)))[0])[0]

    vw, wv = second(v, w), second(w, v)
    found["bracket"] = relative(vw - wv - moved["[v, w]"], vw, wv)
    p = M @ v
    gradient = [slope(lambda t, e=e: v @ peer.mass(peer.move(x, e, t)) @ v)[0] for e in np.eye(peer.nv)]
    expected = rate @ v - np.einsum("k,kij,i->j", p, peer.structure, v) - 0.5 * np.array(gradient)
    found["bias"] = relative(h - g - expected, h - g, rate @ v)
    return found


def prepare(
    peer: Any, joints: Sequence[tuple[int, str]], base: str, variant: str, seed: int
) -> tuple[Any, ...]:
    """A random mechanism of a library, a state x, v, w and the bodies of its links."""
    rng = np.random.default_rng([seed, *str(joints).encode()])
    links = random_links(rng, joints, seed % 3)
    mechanism = peer(links, base == "floating", variant)
    x, (v, w) = mechanism.random(rng), rng.normal(size=(2, mechanism.nv))
    bodies = [(link.mass, link.com, link.inertia) for link in links]
    return (
        mechanism,
        x,
        v,
        w,
        [pseudo_inertia(*body) for body in ([BASE] if base == "floating" else []) + bodies],
    )


def run(name: str) -> dict[str, Any]:
    """Worst residuals of a library: a row for each type of joint, base and variant."""
    peer, rows, notes = PEERS[name], [], set()
    bases = [("fixed", variant) for variant in peer.on_fixed_base]
    bases += [("floating", variant) for variant in peer.on_floating_base]
    for kind in peer.kinds:
        for base, variant in bases[:1] if QUICK else bases:
            worst: dict[str, float] = {}
            for seed in range(1 if QUICK else peer.seeds):
                mechanism, x, v, w, bodies = prepare(peer, tree_of(kind), base, variant, seed)
                found = measure(mechanism, x, v, w) | controls(mechanism, x, v, w, bodies)
                worst = {key: float(np.maximum(value, worst.get(key, 0.0))) for key, value in found.items()}
                notes.add(getattr(mechanism, "note", ""))
            rows.append({"joint": kind, "base": base, "variant": variant, **worst})
    return {"peer": name, "version": version_of(peer), "notes": sorted(notes - {""}), "rows": rows}


# -- tables -------------------------------------------------------------------------------------------------


def verdicts(row: dict[str, Any]) -> dict[str, float]:
    """The laws that a row breaks."""
    return {law: row[law] for law in LAWS if not row[law] < HOLDS}


def summary(reports: list[dict[str, Any]]) -> str:
    """A row for each type of joint, a column for each library: the worst of all laws, or the broken ones."""
    lines = [
        "| joint | " + " | ".join(f"{r['peer']} {r['version']}" for r in reports) + " |",
        "|---|" + "---|" * len(reports),
    ]
    for joint in dict.fromkeys(row["joint"] for report in reports for row in report["rows"]):
        cells = [_cell([row for row in report["rows"] if row["joint"] == joint]) for report in reports]
        lines.append(f"| {joint} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]]) -> str:
    """Worst over bases and variants, apart where they differ in what holds."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(verdicts(row)), []).append(row)
    if len(groups) < 2:
        return _told(_worst(rows)) if rows else ""
    bases = [{row["base"] for row in group} for group in groups.values()]
    key = "variant" if set.intersection(*bases) else "base"
    labels = [", ".join(dict.fromkeys(row[key] for row in group)) for group in groups.values()]
    return "; ".join(f"{n}: {_told(_worst(g))}" for n, g in zip(labels, groups.values(), strict=True))


def _worst(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {law: float(np.max([row[law] for row in rows])) for law in LAWS}


def _told(row: dict[str, float]) -> str:
    broken = verdicts(row)
    if not broken:
        return f"{max(row.values()):.0e}"
    return "**" + ", ".join(f"{law} {value:.1g}" for law, value in broken.items()) + "**"


def full(report: dict[str, Any]) -> str:
    """All residuals of a library."""
    columns = [*LAWS, *CONTROLS, "error of dM/dt"]
    lines = [
        f"## {report['peer']} {report['version']}",
        "",
        "| joint | base | variant | " + " | ".join(columns) + " |",
        "|---|---|---|" + "---|" * len(columns),
    ]
    for row in report["rows"]:
        cells = [f"**{row[c]:.1e}**" if not row[c] < HOLDS else f"{row[c]:.1e}" for c in columns]
        lines.append(f"| {row['joint']} | {row['base']} | {row['variant']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def findings(report: dict[str, Any]) -> list[str]:
    """What is to be said of the broken laws: the controls, and law 4 with other brackets."""
    found = list(report["notes"])
    for row in report["rows"]:
        if not verdicts(row):
            continue
        others = {k.removeprefix("torsion, bracket "): x for k, x in row.items() if k.startswith("torsion, ")}
        holding = [name for name, x in others.items() if x < HOLDS and not row["torsion"] < HOLDS]
        found.append(
            f"{row['joint']}, {row['base']} {row['variant']}".rstrip()
            + f": {', '.join(verdicts(row))} broken, worst control {max(row[c] for c in CONTROLS):.0e}"
            + (f"; law 4 holds with the bracket {', '.join(holding)}" if holding else "")
        )
    return found


# -- where each library is measured -------------------------------------------------------------------------


def importable(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def in_environment(name: str, folder: Path) -> dict[str, Any]:
    """The report of a library from its own environment, which is made or completed first."""
    python = folder / name / "bin" / "python"
    source = str(ROOT) if name == "liebody" else PEERS[name].package
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", source], check=True)
    command = [python, __file__, "--peer", name]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", choices=PEERS, help="print the report of this library as JSON")
    parser.add_argument("--environments", type=Path, metavar="DIR", help="one environment for each library")
    parser.add_argument("--full", action="store_true", help="print all residuals too")
    chosen = parser.parse_args()
    if chosen.peer:
        print(json.dumps(run(chosen.peer)))
        return
    reports = []
    for name in PEERS:
        if chosen.environments:
            try:
                reports.append(in_environment(name, chosen.environments))
            except subprocess.CalledProcessError as error:
                print(f"{name}: left out, {error}\n{error.stderr or ''}", file=sys.stderr)
        elif importable(name):
            reports.append(run(name))
        else:
            print(f"{name}: left out, it is not installed here", file=sys.stderr)
    print(summary(reports))
    print()
    for report in reports:
        for line in findings(report):
            print(f"- {report['peer']}: {line}")
    if chosen.full:
        for report in reports:
            print(f"\n{full(report)}")


if __name__ == "__main__":
    main()
