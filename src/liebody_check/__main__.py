"""`python -m liebody_check orbit.json`: the theorem, or why the certificate is refused (exit status 1).

The exit status is 2 if this machine cannot compute the steps in C that `--steps c` asks for.

--steps c  computes the bounds of steps in C, for orbits of thousands of steps
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import Refused, Unavailable, check


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m liebody_check", description="Checks certificates of periodic orbits."
    )
    parser.add_argument("--steps", choices=("python", "c"), default="python", help="the program of steps")
    parser.add_argument("paths", nargs="+", metavar="orbit.json")
    given = parser.parse_args(arguments)
    status = 0
    for path in given.paths:
        try:
            print(check(json.loads(Path(path).read_text(encoding="utf-8")), steps=given.steps).theorem)
        except (Refused, OSError, ValueError) as error:
            print(f"{path}: refused: {error}", file=sys.stderr)
            status = 1
        except Unavailable as error:
            print(f"{path}: not checked: {error}", file=sys.stderr)
            return 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
