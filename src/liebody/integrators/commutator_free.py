"""Commutator-free methods on any Lie group, the methods of Crouch and Grossman among them.

Where a Runge-Kutta-Munthe-Kaas method adds velocities in the algebra, and corrects by dexp^-1, these compose
exponentials of combinations of velocities:

    g_i = g exp(h sum_j alpha_ij^1 k_j) exp(h sum_j alpha_ij^2 k_j) ...,    k_i = F(t + c_i h, g_i),

and the result in the same way with weights beta. No dexp^-1 is needed; the price is more exponentials per
step (Celledoni, Marthinsen, Owren, Future Gener. Comput. Syst. 19 (2003)). Methods of Crouch and Grossman (J.
Nonlinear Sci. 3 (1993)) have a single velocity in each exponential.

The order is a matter of *ordered* rooted trees, since velocities at different points do not commute. Let a
word of trees stand for the differential operator that applies their elementary differentials one after the
other. Then exp(v_1) exp(v_2) ... is a series of words, the exact flow is one, and the order is p if they
agree for every word with at most p nodes (Munthe-Kaas, BIT 38 (1998); Owren, J. Phys. A 39 (2006)). A
`CommutatorFree` verifies this when it is made, in exact fractions, as a `Tableau` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, prod
from typing import Any, ClassVar

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError
from .tableaux import ROUNDED, Entry, fraction, is_rounded, misses, nonzero

Word = tuple[Any, ...]  # of ordered trees, each of them the word of the trees that hang from its root
Velocities = dict[tuple[int, Word], Fraction]
Combination = tuple[tuple[int, float], ...]  # of velocities: pairs (stage, coefficient)


def words(nodes: int) -> Iterator[Word]:
    """All words of ordered trees with `nodes` nodes: 1, 1, 2, 5, 14, 42, ... of them."""
    # Catalan's recursion: the last tree has a root and a word of branches, a shorter word precedes it.
    if nodes == 0:
        yield ()
    for last in range(1, nodes + 1):
        for branches in words(last - 1):
            for first in words(nodes - last):
                yield (*first, branches)


def size(word: Word) -> int:
    """Number of nodes."""
    return sum(1 + size(tree) for tree in word)


@cache
def exact(word: Word) -> Fraction:
    """The coefficient of a word in the flow.

    The derivative by s is the coefficient of the word without its last tree, times the last tree's.
    """
    return exact(word[:-1]) * exact(word[-1]) / size(word) if word else Fraction(1)


def composed(word: Word, factors: Sequence[Callable[[Word], Fraction]]) -> Fraction:
    """The coefficient of a word in exp(v_1) exp(v_2) ..., each v given by its coefficient of a tree."""
    if not factors:
        return Fraction(not word)
    # exp(v) is the sum of v^m/m!, and v^m the words of m trees. So the last m trees of the word come from
    # the last exponential, the others from the exponentials before it, summed over all m.
    return sum(
        (
            composed(word[: len(word) - m], factors[:-1])
            * prod((factors[-1](tree) for tree in word[len(word) - m :]), start=Fraction(1, factorial(m)))
            for m in range(len(word) + 1)
        ),
        Fraction(0),
    )


@dataclass(frozen=True, eq=False, repr=False)
class CommutatorFree:
    """A commutator-free method, verified on construction.

    name     how it is called
    stages   for each stage the coefficients of its exponentials: rows alpha_i^1, alpha_i^2, ..., each with
             at most i entries; the first stage has none
    weights  rows beta^1, beta^2, ... of the result
    order    of the result
    source   where it was published

    Entries are fractions, as int, Fraction or text like "1/4", and then every condition must hold exactly;
    with a float or a decimal among them, up to 1e-12.

    Errors: IntegrationError, naming the condition that does not hold.
    """

    name: str
    stages: Sequence[Sequence[Sequence[Entry]]]
    weights: Sequence[Sequence[Entry]]
    order: int
    source: str = ""

    pulls_back: ClassVar[bool] = False
    embedded_order: ClassVar[int | None] = None
    error_weights: ClassVar[Combination] = ()
    interpolant: ClassVar[None] = None
    fsal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rows = [*(row for stage in self.stages for row in stage), *self.weights]
        slack = ROUNDED if any(is_rounded(x) for row in rows for x in row) else Fraction(0)
        # An explicit method: stage i may use the velocities 0 to i - 1 only.
        for i, stage in enumerate([*self.stages, self.weights]):
            if any(len(row) > i for row in stage):
                raise IntegrationError(
                    f"method {self.name!r}: stage {i} combines the velocities of the {i} stages before it, "
                    "and no more; leave entries out at the end"
                )
        # Conditions of ordered trees: one for each word, at most 1 + 2 + 5 + 14 of them up to order 4. The
        # result is a word series, so a comparison of coefficients is necessary and sufficient.
        result = self._factors(self.weights, {})
        for nodes in range(1, self.order + 1):
            for word in words(nodes):
                defect = composed(word, result) - exact(word)
                if misses(defect, slack):
                    raise IntegrationError(
                        f"method {self.name!r} is said to be of order {self.order}, but misses the condition "
                        f"of the ordered trees {word} with {nodes} nodes by {float(defect):.3g}; compare its "
                        "entries with its source"
                    )

    def _factors(
        self, rows: Sequence[Sequence[Entry]], known: Velocities
    ) -> list[Callable[[Word], Fraction]]:
        """For each exponential, the coefficient of a tree in its argument.

        known  {(stage, tree): the tree's coefficient in k_stage}, which is the coefficient in g_stage of the
               word that the tree's branches make
        """

        # `velocity` and `composed` call each other, always on a smaller word and an earlier stage. Each value
        # is needed for many words: `known` keeps it, without which the cost would be exponential.
        def velocity(stage: int, tree: Word) -> Fraction:
            if (stage, tree) not in known:
                known[stage, tree] = composed(tree, self._factors(self.stages[stage], known))
            return known[stage, tree]

        def argument(row: Sequence[Entry]) -> Callable[[Word], Fraction]:
            terms = [(j, fraction(x)) for j, x in enumerate(row) if fraction(x)]
            return lambda tree: sum((x * velocity(j, tree) for j, x in terms), Fraction(0))

        return [argument(row) for row in rows]

    @cached_property
    def c(self) -> tuple[float, ...]:
        """Nodes: the sums of the coefficients of each stage."""
        return tuple(float(sum(fraction(x) for row in stage for x in row)) for stage in self.stages)

    @cached_property
    def paths(self) -> tuple[tuple[int, tuple[Combination, ...]], ...]:
        """How to reach each stage, and at last the result: from the point of an earlier one, by exponentials.

        A stage whose first exponentials are all exponentials of an earlier stage begins there; other stages
        begin at stage 0.
        """
        # A reused point saves its exponentials: of cf4 the last stage starts from the second one, and a step
        # has five exponentials instead of six (Celledoni, Marthinsen, Owren).
        points = [
            tuple(nonzero([float(fraction(x)) for x in row]) for row in stage)
            for stage in [*self.stages, self.weights]
        ]
        paths = []
        for i, point in enumerate(points):
            start = max(
                (j for j in range(i) if point[: len(points[j])] == points[j]),
                key=lambda j: len(points[j]),
                default=0,
            )
            paths.append((start, point[len(points[start]) :] if i else ()))
        return tuple(paths)

    def __repr__(self) -> str:
        exponentials = sum(len(path) for _, path in self.paths)
        return (
            f"CommutatorFree({self.name!r}, order {self.order}, {len(self.stages)} stages, "
            f"{exponentials} exponentials)"
        )


DATA: dict[str, dict[str, Any]] = {
    "cf3": {
        "stages": [[], [["1/3"]], [[0, "2/3"]]],
        "weights": [["1/3"], ["-1/12", 0, "3/4"]],
        "order": 3,
        "source": "Celledoni, Marthinsen, Owren, Future Gener. Comput. Syst. 19 (2003)",
    },
    "cf4": {
        "stages": [[], [["1/2"]], [[0, "1/2"]], [["1/2"], ["-1/2", 0, 1]]],
        "weights": [["1/4", "1/6", "1/6", "-1/12"], ["-1/12", "1/6", "1/6", "1/4"]],
        "order": 4,
        "source": "Celledoni, Marthinsen, Owren, Future Gener. Comput. Syst. 19 (2003)",
    },
    "crouch-grossman2": {
        "stages": [[], [["1/2"]]],
        "weights": [[0, 1]],
        "order": 2,
        "source": "Crouch, Grossman, J. Nonlinear Sci. 3 (1993)",
    },
    "crouch-grossman3": {
        "stages": [[], [["3/4"]], [["119/216"], [0, "17/108"]]],
        "weights": [["13/51"], [0, "-2/3"], [0, 0, "24/17"]],
        "order": 3,
        "source": "Crouch, Grossman, J. Nonlinear Sci. 3 (1993)",
    },
    "crouch-grossman4": {
        "stages": [
            [],
            [["0.8177227988124852"]],
            [["0.3199876375476427"], [0, "0.0659864263556022"]],
            [["0.9214417194464946"], [0, "0.4997857776773573"], [0, 0, "-1.0969984448371582"]],
            [
                ["0.3552358559023322"],
                [0, "0.2390958372307326"],
                [0, 0, "1.3918565724203246"],
                [0, 0, 0, "-1.1092979392113565"],
            ],
        ],
        "weights": [
            ["0.1370831520630755"],
            [0, "-0.0183698531564020"],
            [0, 0, "0.7397813985370780"],
            [0, 0, 0, "-0.1907142565505889"],
            [0, 0, 0, 0, "0.3322195591068374"],
        ],
        "order": 4,
        "source": "Jackiewicz, Marthinsen, Owren, Adv. Comput. Math. 13 (2000)",
    },
}


@cache
def commutator_free(name: str) -> CommutatorFree:
    """The method "cf3", "cf4", "crouch-grossman4", ... by its name."""
    return CommutatorFree(name=name, **DATA[name])
