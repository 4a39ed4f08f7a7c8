"""The versions that readers of a hosted site choose from: python docs/site/versions.py FOLDER ADDRESS

FOLDER has a folder for each version, v0.3.0 or dev. Writes `versions.json`, which the selector of every page
reads, newest first, and `index.html`, which leads to the newest release, or to `dev` before there is one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def versions(names: list[str]) -> list[str]:
    """The names of versions: dev first, then releases, newest first. Other names are none."""
    releases = [name for name in names if RELEASE.fullmatch(name)]
    releases.sort(key=lambda name: [int(x) for x in RELEASE.fullmatch(name).groups()], reverse=True)  # type: ignore[union-attr]
    return [*(["dev"] if "dev" in names else []), *releases]


def write(folder: Path, address: str) -> None:
    """versions.json and index.html of the site whose root has this address."""
    names = versions([path.name for path in folder.iterdir() if path.is_dir()])
    if not names:
        raise SystemExit(f"{folder} has no folder of a version, such as dev or v0.3.0")
    first = next((name for name in names if name != "dev"), "dev")
    root = address.rstrip("/")
    entries = [
        {"name": f"{name} (newest)" if name == first != "dev" else name, "version": name,
         "url": f"{root}/{name}/", "preferred": name == first}
        for name in names
    ]  # fmt: skip
    (folder / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><title>liebody</title>'
        f'<meta http-equiv="refresh" content="0; url={first}/"><a href="{first}/">liebody {first}</a>\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
