"""The parameters of a robot as a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from ..bodies import Parameter
from ..errors import ModelError


class Parameters(Mapping[str, Parameter]):
    """{name: Parameter} of all that may be a parameter of a robot; `free` are the names of those that are."""

    def __init__(self, known: Mapping[str, Parameter], free: Sequence[str]) -> None:
        self._known, self.free = known, tuple(free)

    def __getitem__(self, name: str) -> Parameter:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        width = max(map(len, self._known), default=0)
        return "\n".join(
            f"{'*' if name in self.free else ' '} {name:{width}}  {x.shape!s:5} {x.value.tolist()} {x.unit}"
            for name, x in self._known.items()
        )

    def refuse(self, name: str, robot: str) -> NoReturn:
        """Raise ModelError for a name that is unknown."""
        near = difflib.get_close_matches(name, self._known, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "robot.parameters lists them"
        raise ModelError(
            f"{robot} has no parameter {name!r}; {hint} One of your own, such as a gain, is called by a word "
            "and declared with its value, {'K_p': 5.0}"
        )
