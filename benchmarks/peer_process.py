"""A peer in a process of its own, in another environment: it answers lines of JSON. Standard library only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


class Peer:
    """The process of a script that serves a peer: `peer("method", *arguments)` is a call there.

    python  the interpreter of the peer's environment
    script  its path; with the argument `serve` it ends in `serve` of this module
    """

    def __init__(self, python: str, script: str) -> None:
        # Eigen would share large products among threads, which spin.
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([python, script, "serve"], env=alone, **pipes)

    def __call__(self, *request: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended without an answer, with status {self.process.wait()}")
        return json.loads(answer)


def serve(peer: Any) -> None:
    """Answer lines of JSON, [method, arguments], by calls of an object's methods."""
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(peer, method)(*arguments)), flush=True)
