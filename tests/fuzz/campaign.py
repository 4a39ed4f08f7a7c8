"""What the fuzz scripts share: cases by number, a count or a time, and the numbers that failed.

    python tests/fuzz/stores.py --seed 1 --count 1000
    python tests/fuzz/stores.py --minutes 60

A case is a function of a random generator. It fails by an exception; its number repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator


def run(case: Callable[[random.Random], object], first: int, count: int, seconds: float = 1e9) -> list[int]:
    """The numbers of the cases that failed, each reported; no new one is begun after so many seconds."""
    failed, begin = [], time.monotonic()
    for number in range(first, first + count):
        if time.monotonic() - begin > seconds:
            break
        try:
            case(random.Random(number))
        except Exception:
            failed.append(number)
            print(f"-- case {number}: --count 1 --seed {number}", traceback.format_exc(limit=-4), sep="\n")
    return failed


def main(case: Callable[[random.Random], object]) -> None:
    """The command line of a script."""
    options = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    options.add_argument("--seed", type=int, default=0, help="number of the first case")
    options.add_argument("--count", type=int, default=10**9)
    options.add_argument("--minutes", type=float, default=1.0)
    given = options.parse_args()
    begin, cases = time.monotonic(), 0

    def counted(random: random.Random) -> None:
        nonlocal cases
        cases += 1
        case(random)

    failed = run(counted, given.seed, given.count, 60 * given.minutes)
    print(f"{cases} cases, {len(failed)} failed in {time.monotonic() - begin:.1f} s")
    sys.exit(bool(failed))


def damages(random: random.Random, content: bytes, others: list[bytes]) -> Iterator[bytes | None]:
    """What may become of a file: None if it is removed."""
    n = len(content)
    at, bit = random.randrange(n) if n else 0, 1 << random.randrange(8)
    flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :] if n else b"?"
    yield from (flipped, content[:at], content + random.randbytes(3), random.randbytes(n + 1), b"", None)
    yield from (b"\0" * n, random.choice(others))
