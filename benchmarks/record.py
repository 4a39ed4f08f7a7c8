"""Records of speed: run benchmarks, keep what they measure, and write it where README and docs quote it.

    python benchmarks/record.py dynamics startup    runs both, adds a run to the record of each, writes pages
    python benchmarks/record.py                     runs all that have a record and find their peers
    python benchmarks/record.py --write             writes pages from the records as they are
    python benchmarks/record.py --check             says what stands in pages otherwise than in records

A run has the commit, processor, load, compiler, versions, and of each label median and quartiles. Its
`source` is `measured`, or says where a figure was printed before there were records. Nothing is taken out
of a record: docs/speed.md draws how figures went from commit to commit.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import history
from machine import QUICK
from quotes import RECORDS, ROOT, Quote, others, pages, quotes, runs_of, unquoted, written

HERE = Path(__file__).parent
ARGUMENTS = {"basin": ["--only", "race"]}


def measured(name: str) -> dict[str, Any] | None:
    """Run a script; None if it measured nothing because a peer is missing."""
    script = HERE / f"{name}.py"
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "kept.jsonl")
        command = [sys.executable, str(script), *ARGUMENTS.get(name, [])]
        done = subprocess.run(command, env={**os.environ, "BENCHMARK_KEPT": str(kept)}, check=False)
        lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    if done.returncode or not any("label" in line for line in lines):
        print(f"{name}: nothing was measured, exit status {done.returncode}")
        return None
    return run_of(lines)


def run_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A run, of the lines that a script has kept: its environment, and its figures by label."""
    environment = dict(next(line["environment"] for line in lines if "environment" in line))
    figures = {
        line["label"]: {name: x for name, x in line.items() if name != "label"}
        for line in lines
        if "label" in line
    }
    line = environment.pop("compiler")
    compiler = next((name for name in ("clang", "zig") if name in line), "gcc")
    number = re.search(r"\d+\.\d+", line)
    return {
        "source": "measured",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **environment,
        "compiler": f"{compiler} {number[0]}" if number else "none",
        "figures": figures,
    }


def add(name: str, run: dict[str, Any]) -> None:
    """One more run in the file of a record."""
    path = RECORDS / f"{name}.json"
    command = " ".join([f"python benchmarks/{name}.py", *ARGUMENTS.get(name, [])])
    table = {"command": command, "runs": [*runs_of(name), run]}
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def as_recorded() -> dict[Path, str]:
    """The pages as the records want them: figures in their places, and the history of all."""
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}
    for quote in quotes():
        path = ROOT / quote.page
        texts.setdefault(path, path.read_text(encoding="utf-8"))
        texts[path] = written(texts[path], quote, runs_of(quote.record))
    return {**texts, **history.pages()}


def problems() -> list[str]:
    """What is wrong with the pages, in words."""
    lost = []
    for quote in quotes():
        try:
            written((ROOT / quote.page).read_text(encoding="utf-8"), quote, runs_of(quote.record))
        except (KeyError, ValueError) as error:
            lost.append(str(error))
    if lost:
        return lost
    found = [
        f"{path.relative_to(ROOT)} is not as the records have it: python benchmarks/record.py --write"
        for path, text in as_recorded().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    of_page: dict[str, list[Quote]] = {}
    for quote in quotes():
        of_page.setdefault(quote.page, []).append(quote)
    for path in pages():
        page = path.relative_to(ROOT).as_posix()
        missing = unquoted(path.read_text(encoding="utf-8"), of_page.get(page, []), others().get(page, []))
        found += [f"{page}: no record has written: {text}" for text in missing]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="of benchmarks; all with a record if none is given")
    parser.add_argument("--write", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true", help="run and write nothing")
    chosen = parser.parse_args()
    if chosen.check:
        found = problems()
        print("\n".join(found) or "pages say what the records have")
        raise SystemExit(bool(found))
    if QUICK and not chosen.write:
        parser.error("BENCHMARK_QUICK is set, and numbers of short runs mean nothing: unset it")
    if not chosen.write:
        recorded = sorted(path.stem for path in RECORDS.glob("*.json"))
        for name in chosen.names or [name for name in recorded if (HERE / f"{name}.py").exists()]:
            run = measured(name)
            if run:
                add(name, run)
    for path, text in as_recorded().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
