"""`python -m liebody_check orbit.json`: the theorem, or why the certificate is refused (exit status 1)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import Refused, check


def main(paths: list[str]) -> int:
    if not paths:
        print("python -m liebody_check orbit.json ...", file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        try:
            print(check(json.loads(Path(path).read_text(encoding="utf-8"))).theorem)
        except (Refused, OSError, ValueError) as error:
            print(f"{path}: refused: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
