"""Explicit Runge-Kutta methods as data that checks itself.

A method is a Butcher tableau: stages k_i = f(t + c_i h, y + h sum_j A_ij k_j), result y + h sum_i b_i k_i.
It has order p if and only if for every rooted tree with at most p nodes

    sum_i b_i weight_i(tree) = 1 / density(tree)

(Butcher 1963; Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", theorem II.2.13). A
`Tableau` verifies all of these when it is made, in exact fractions, for its weights, its embedded weights,
and its interpolant. So a mistyped digit cannot get past the constructor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError

RootedTree = tuple[Any, ...]  # the sorted tuple of the trees that hang from its root; () is one node
Weights = dict[RootedTree, list[Any]]  # exact numbers, one for each stage
Entry = int | float | str | Fraction

ROUNDED = Fraction(1, 10**12)  # largest defect of a condition on coefficients that are published as decimals


def with_one_more_leaf(tree: RootedTree) -> Iterator[RootedTree]:
    """The rooted trees made from `tree` by hanging a leaf from one of its nodes."""
    yield tuple(sorted((*tree, ())))
    for i, branch in enumerate(tree):
        for grown in with_one_more_leaf(branch):
            yield tuple(sorted((*tree[:i], grown, *tree[i + 1 :])))


@cache
def rooted_trees(order: int) -> tuple[RootedTree, ...]:
    """All rooted trees with `order` nodes: 1, 1, 2, 4, 9, 20, 48, ... of them."""
    if order == 1:
        return ((),)
    return tuple(sorted({grown for tree in rooted_trees(order - 1) for grown in with_one_more_leaf(tree)}))


def nodes(tree: RootedTree) -> int:
    """Number of nodes, |tree|."""
    return 1 + sum(map(nodes, tree))


def density(tree: RootedTree) -> int:
    """gamma(tree) = |tree| times the product of the densities of its branches."""
    return nodes(tree) * prod(map(density, tree))


def stage_weights(A: Sequence[Sequence[Any]], order: int) -> Weights:
    """weight_i(tree) = product over its branches of sum_j A_ij weight_j(branch), for trees up to an order."""
    # Trees in the order of their size: the branches of a tree are smaller, so their sums are there. `sums`
    # keeps A weight(tree), which every tree with this branch needs.
    weights: Weights = {}
    sums: Weights = {}
    for p in range(1, order + 1):
        for tree in rooted_trees(p):
            factors = zip(*(sums[branch] for branch in tree)) if tree else ((),) * len(A)
            weights[tree] = [prod(factor, start=Fraction(1)) for factor in factors]
            sums[tree] = [dot(row, weights[tree]) for row in A]
    return weights


def dot(row: Sequence[Any], column: Sequence[Any]) -> Any:
    """sum_i row_i column_i, exactly."""
    return sum((a * x for a, x in zip(row, column, strict=True) if a), Fraction(0))


@dataclass(frozen=True, eq=False, repr=False)
class ButcherTableau:
    """Coefficients A (s, s), weights b (s,), nodes c (s,) of a Runge-Kutta method, and its order.

    Subclasses read entries as exact numbers, in which conditions are checked.
    """

    name: str
    A: Any
    b: Any
    c: Any
    order: int

    def _exact(self, entry: Any) -> Any:
        """The value of an entry; raises IntegrationError."""
        raise NotImplementedError

    def _row(self, row: Sequence[Any], what: str = "weights") -> list[Any]:
        """Exact values of the entries of a row, with zeros up to the number of stages."""
        s = len(self.c)
        self._require(len(row) <= s, f"it has {len(row)} {what} for {s} stages")
        return [self._exact(x) for x in [*row, *["0"] * (s - len(row))]]

    def _check(self, slack: Fraction, highest: int = 0) -> tuple[list[list[Any]], list[Any], Weights]:
        """A, b and the weights of trees up to an order; conditions may be missed by less than `slack`."""
        s = len(self.c)
        self._require(
            len(self.A) == s and all(len(row) <= s for row in [*self.A, self.b]),
            f"{s} nodes go with {s} rows of A, each with at most {s} entries, and as many weights",
        )
        A = [self._row(row) for row in self.A]
        b = self._row(self.b)
        c = self._row(self.c)
        # c = A 1 makes a method treat t like a component of y. The order conditions assume it.
        for i, row in enumerate(A):
            total = sum(row)
            self._require(not misses(total - c[i], slack), f"row {i} of A sums to {total}, not to c = {c[i]}")
        weights = stage_weights(A, max(self.order, highest))
        self._require_order(weights, b, self.order, "weights b", slack)
        self._set(A=A, b=b, c=c)
        return A, b, weights

    def _require_order(self, weights: Weights, b: list[Any], order: int, what: str, slack: Fraction) -> None:
        # 1, 1, 2, 4, 9, 20, 48, 115 trees with 1 to 8 nodes: 200 conditions for order 8.
        for tree, weight in weights.items():
            if nodes(tree) <= order:
                defect = dot(b, weight) - Fraction(1, density(tree))
                self._require(
                    not misses(defect, slack),
                    f"the {what} are said to be of order {order}, but miss the order condition of the tree "
                    f"{tree} with {nodes(tree)} nodes by {float(defect):.3g}",
                )

    def _require(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise IntegrationError(f"tableau {self.name!r}: {otherwise}; compare its entries with its source")

    def _set(self, **exact: Any) -> None:
        # The dataclass is frozen, but fields change once, from text to floats, after all checks.
        for field, value in exact.items():
            array = np.array(value, dtype=float)
            array.setflags(write=False)
            object.__setattr__(self, field, array)

    @property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.b)


@dataclass(frozen=True, eq=False, repr=False)
class Tableau(ButcherTableau):
    """An explicit Runge-Kutta method, verified on construction.

    name            how it is called
    A               coefficients, (s, s), strictly lower triangular
    b               weights, (s,); at the end of rows and weights, zeros may be left out
    c               nodes, (s,); each the sum of its row of A
    order           of the result with weights b
    embedded        second weights, (s,), whose result differs from the first by an estimate of its error
    embedded_order  of the result with the embedded weights
    interpolant     P, (s, d): the weights sum_m P_im theta^(m+1) give the solution at t + theta h, with a
                    local error of h^order; where there is none, dense output is made from the slopes at both
                    ends
    source          where it was published

    Entries are fractions, as int, Fraction or text like "9/40", and then every condition must hold exactly;
    with a float or a decimal like "0.161" among them, up to 1e-12. The fields are read-only float arrays
    afterwards.

    Errors: IntegrationError, naming the condition that does not hold.
    """

    embedded: Any = None
    embedded_order: int | None = None
    interpolant: Any = None
    source: str = ""

    pulls_back: ClassVar[bool] = True
    """Velocities are pulled back to the algebra by dexp^-1, and added there."""

    def __post_init__(self) -> None:
        rows = [*self.A, self.b, self.c]
        rows += [] if self.embedded is None else [self.embedded]
        rows += [] if self.interpolant is None else self.interpolant
        # One decimal among the entries makes every condition inexact.
        slack = ROUNDED if any(is_rounded(x) for row in rows for x in row) else Fraction(0)
        A, b, weights = self._check(slack, self.embedded_order or 0)
        self._require(
            not any(any(row[i:]) for i, row in enumerate(A)),
            "an explicit method has entries of A below the diagonal only",
        )
        if self.embedded is not None:
            hat = self._row(self.embedded, "embedded weights")
            low = self.embedded_order
            # With equal orders the difference of the results would not estimate the error of either.
            if low is None or low == self.order:
                raise IntegrationError(
                    f"tableau {self.name!r}: embedded_order must differ from order {self.order}, not be {low}"
                )
            self._require_order(weights, hat, low, "embedded weights", slack)
            self._set(embedded=hat)
        if self.interpolant is not None:
            P = [[fraction(x) for x in row] for row in self.interpolant]
            self._require(len(P) == len(b), f"its interpolant has {len(P)} rows for {len(b)} stages")
            self._require_interpolant(weights, b, P, slack)
            self._set(interpolant=P)

    def _exact(self, entry: Entry) -> Fraction:
        return fraction(entry)

    def _require_interpolant(
        self, weights: Weights, b: list[Fraction], P: list[list[Fraction]], slack: Fraction
    ) -> None:
        """sum_im weight_i(tree) P_im theta^(m+1) = theta^|tree|/density(tree), for each power of theta."""
        # At theta = 1 the interpolant is the result, so that dense output is continuous. Trees with fewer
        # nodes than the order give a local error of h^order within the step.
        ends = [sum(row) - weight for row, weight in zip(P, b, strict=True)]
        self._require(
            not any(misses(end, slack) for end in ends), "its interpolant does not end at the weights b"
        )
        for tree, weight in weights.items():
            if nodes(tree) < self.order:
                for m, column in enumerate(zip(*P, strict=True), start=1):
                    wanted = Fraction(1, density(tree)) if m == nodes(tree) else 0
                    defect = dot(column, weight) - wanted
                    self._require(
                        not misses(defect, slack),
                        f"its interpolant misses the tree {tree} at theta^{m} by {float(defect):.3g}",
                    )

    @cached_property
    def fsal(self) -> bool:
        """First same as last: the last stage is taken at the result, and is the first of the next step."""
        return bool(np.array_equal(self.A[-1], self.b))

    @cached_property
    def rows(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """The entries of A that are not zero: for each stage, pairs (j, A_ij) of plain numbers."""
        return tuple(nonzero(row) for row in self.A)

    @cached_property
    def weights(self) -> tuple[tuple[int, float], ...]:
        """The weights that are not zero, as pairs (i, b_i) of plain numbers."""
        return nonzero(self.b)

    @cached_property
    def error_weights(self) -> tuple[tuple[int, float], ...]:
        """The weights of the error estimate that are not zero, as pairs (i, b_i - embedded_i)."""
        return nonzero(self.b - self.embedded) if self.embedded is not None else ()

    @cached_property
    def paths(self) -> tuple[tuple[int, tuple[tuple[tuple[int, float], ...], ...]], ...]:
        """How a step reaches each stage, and at last the result: from its start, by one exponential."""
        return ((0, ()), *((0, (row,)) for row in self.rows[1:]), (0, (self.weights,)))

    def __repr__(self) -> str:
        embedded = "" if self.embedded_order is None else f"({self.embedded_order})"
        return f"Tableau({self.name!r}, order {self.order}{embedded}, {self.stages} stages)"


def nonzero(row: Any) -> tuple[tuple[int, float], ...]:
    """The entries of a row that are not zero, with their places."""
    return tuple((j, a) for j, a in enumerate(np.asarray(row).tolist()) if a != 0)


def is_rounded(entry: Entry) -> bool:
    return isinstance(entry, float) or "." in str(entry)


def misses(defect: Any, slack: Fraction) -> bool:
    """Whether a condition with this defect, an exact number, is missed by as much as `slack` or more."""
    return bool(defect) and not abs(float(defect)) < slack


def fraction(entry: Entry) -> Fraction:
    """The value of an entry; raises IntegrationError."""
    try:
        return Fraction(entry)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise IntegrationError(f"{entry!r} is no entry of a tableau, such as 9/40") from None


def printed(text: str) -> dict[str, dict[str, Any]]:
    """Arguments of tableaux by name, from their printed form, with an empty line between two of them.

    A line "name option=value option ...: source", lines "c_i | A_i1 A_i2 ...", a line "| b_1 b_2 ...", one
    with embedded weights, and the rows of an interpolant "P | P_i1 P_i2 ...", where there are such.
    """
    tableaux = {}
    for table in text.strip().split("\n\n"):
        head, *lines = table.splitlines()
        options, _, source = head.partition(": ")
        name, *words = options.split()
        arguments: dict[str, Any] = {"source": " ".join(source.split()), "c": [], "A": []}
        for key, _, value in (word.partition("=") for word in words):
            arguments[key] = int(value) if value else True  # an option without a value is a flag
        weights = []
        P = []
        # Left of the bar stands the node of a row of A, P for the interpolant, or nothing for weights.
        for left, _, right in (line.partition("|") for line in lines):
            node = left.strip()
            row = right.split()
            if not node:
                weights.append(row)
            elif node == "P":
                P.append(row)
            else:
                arguments["c"].append(node)
                arguments["A"].append(row)
        arguments |= dict(zip(("b", "embedded"), weights))
        tableaux[name] = arguments | ({"interpolant": P} if P else {})
    return tableaux


DATA = printed(
    """
euler order=1: Euler (1768)
  0 |
    | 1

midpoint order=2: Runge (1895)
  0   |
  1/2 | 1/2
      | 0 1

heun order=2 embedded_order=1: Heun (1900), with Euler's method embedded
  0 |
  1 | 1
    | 1/2 1/2
    | 1   0

ralston order=2: Ralston (1962)
  0   |
  2/3 | 2/3
      | 1/4 3/4

rk3 order=3: Kutta (1901)
  0   |
  1/2 | 1/2
  1   | -1  2
      | 1/6 2/3 1/6

ssprk3 order=3: Shu, Osher (1988): strong stability preserving
  0   |
  1   | 1
  1/2 | 1/4 1/4
      | 1/6 1/6 2/3

rk4 order=4: Kutta (1901)
  0   |
  1/2 | 1/2
  1/2 | 0   1/2
  1   | 0   0   1
      | 1/6 1/3 1/3 1/6

rk38 order=4: Kutta (1901), the 3/8 rule
  0   |
  1/3 | 1/3
  2/3 | -1/3 1
  1   | 1   -1  1
      | 1/8 3/8 3/8 1/8

bogacki-shampine order=3 embedded_order=2: Bogacki, Shampine, Appl. Math. Lett. 2 (1989)
  0   |
  1/2 | 1/2
  3/4 | 0    3/4
  1   | 2/9  1/3 4/9
      | 2/9  1/3 4/9 0
      | 7/24 1/4 1/3 1/8

dormand-prince order=5 embedded_order=4: Dormand, Prince, J. Comp. Appl. Math. 6 (1980); interpolant: \
    Shampine, Math. Comp. 46 (1986)
  0    |
  1/5  | 1/5
  3/10 | 3/40       9/40
  4/5  | 44/45      -56/15      32/9
  8/9  | 19372/6561 -25360/2187 64448/6561 -212/729
  1    | 9017/3168  -355/33     46732/5247 49/176  -5103/18656
  1    | 35/384     0           500/1113   125/192 -2187/6784    11/84
       | 35/384     0           500/1113   125/192 -2187/6784    11/84    0
       | 5179/57600 0           7571/16695 393/640 -92097/339200 187/2100 1/40
  P    | 1 -8048581381/2820520608   8663915743/2820520608    -12715105075/11282082432
  P    | 0 0                        0                        0
  P    | 0 131558114200/32700410799 -68118460800/10900136933 87487479700/32700410799
  P    | 0 -1754552775/470086768    14199869525/1410260304   -10690763975/1880347072
  P    | 0 127303824393/49829197408 -318862633887/49829197408 701980252875/199316789632
  P    | 0 -282668133/205662961     2019193451/616988883     -1453857185/822651844
  P    | 0 40617522/29380423        -110615467/29380423      69997945/29380423

tsitouras order=5 embedded_order=4: Tsitouras, Comp. Math. Appl. 62 (2011)
  0     |
  0.161 | 0.161
  0.327 | -0.008480655492356989 0.335480655492357
  0.9   | 2.8971530571054935 -6.359448489975075 4.3622954328695815
  0.9800255409045097 | 5.325864828439257 -11.748883564062828 7.4955393428898365 -0.09249506636175525
  1     | 5.86145544294642 -12.92096931784711 8.159367898576159 -0.071584973281401 \
          -0.028269050394068383
  1     | 0.09646076681806523 0.01 0.4798896504144996 1.379008574103742 -3.290069515436081 \
          2.324710524099774
        | 0.09646076681806523 0.01 0.4798896504144996 1.379008574103742 -3.290069515436081 \
          2.324710524099774
        | 0.09824077787029101 0.010816434459656747 0.4720087724042376 1.5237195812770048 \
          -3.872426680888636 2.7827926300289607 -1/66
  P                  | 1 -2.763706197274826  2.9132554618219126 -1.0530884977290216
  P                  | 0 0.1317              -0.2234            0.1017
  P                  | 0 3.9302962368947516  -5.941033872131505 2.490627285651253
  P                  | 0 -12.411077166933676 30.33818863028232  -16.548102889244902
  P                  | 0 37.50931341651104   -88.1789048947664  47.37952196281928
  P                  | 0 -27.896526289197286 65.09189467479366  -34.87065786149661
  P                  | 0 1.5                 -4                 2.5

butcher6 order=6: Butcher, J. Austral. Math. Soc. 4 (1964)
  0   |
  1/3 | 1/3
  2/3 | 0      2/3
  1/3 | 1/12   1/3   -1/12
  1/2 | -1/16  9/8   -3/16 -3/8
  1/2 | 0      9/8   -3/8  -3/4  1/2
  1   | 9/44   -9/11 63/44 18/11 0     -16/11
      | 11/120 0     27/40 27/40 -4/15 -4/15 11/120

verner65 order=6 embedded_order=5: Verner, SIAM J. Numer. Anal. 15 (1978)
  0    |
  1/6  | 1/6
  4/15 | 4/75        16/75
  2/3  | 5/6         -8/3    5/2
  5/6  | -165/64     55/6    -425/64      85/96
  1    | 12/5        -8      4015/612     -11/36   88/255
  1/15 | -8263/15000 124/75  -643/680     -81/250  2484/10625  0
  1    | 3501/1720   -300/43 297275/52632 -319/2322 24068/84065 0    3850/26703
       | 3/40        0       875/2244     23/72    264/1955    0    125/11592  43/616
       | 13/160      0       2375/5984    5/16     12/85       3/44 0          0

fehlberg7 order=7: Fehlberg, NASA TR R-287 (1968): the method of order 7 of his pair 7(8)
  0    |
  2/27 | 2/27
  1/9  | 1/36      1/12
  1/6  | 1/24      0    1/8
  5/12 | 5/12      0    -25/16 25/16
  1/2  | 1/20      0    0      1/4      1/5
  5/6  | -25/108   0    0      125/108  -65/27    125/54
  1/6  | 31/300    0    0      0        61/225    -2/9    13/900
  2/3  | 2         0    0      -53/6    704/45    -107/9  67/90     3
  1/3  | -91/108   0    0      23/108   -976/135  311/54  -19/60    17/6  -1/12
  1    | 2383/4100 0    0      -341/164 4496/1025 -301/82 2133/4100 45/82 45/164 18/41
       | 41/840    0    0      0        0         34/105  9/35      9/35  9/280  9/280 41/840

dop853 order=8 embedded_order=5: Dormand, Prince; coefficients and embedded weights of Hairer, Norsett, \
    Wanner (1993), code DOP853
  0 |
  0.0526001519587677318785587544488 | 0.0526001519587677318785587544488
  0.0789002279381515978178381316732 | 0.0197250569845378994544595329183 \
      0.0591751709536136983633785987549
  0.11835034190722739672675719751 | 0.0295875854768068491816892993775 0 \
      0.0887627564304205475450678981324
  0.28164965809277260327324280249 | 0.241365134159266685502369798665 0 \
      -0.884549479328286085344864962717 0.924834003261792003115737966543
  0.333333333333333333333333333333 | 0.037037037037037037037037037037 0 0 \
      0.170828608729473871279604482173 0.125467687566822425016691814123
  0.25 | 0.037109375 0 0 0.170252211019544039314978060272 0.0602165389804559606850219397283 \
      -0.017578125
  0.307692307692307692307692307692 | 0.0370920001185047927108779319836 0 0 \
      0.170383925712239993810214054705 0.107262030446373284651809199168 \
      -0.0153194377486244017527936158236 0.00827378916381402288758473766002
  0.651282051282051282051282051282 | 0.624110958716075717114429577812 0 0 \
      -3.36089262944694129406857109825 -0.868219346841726006818189891453 \
      27.5920996994467083049415600797 20.1540675504778934086186788979 \
      -43.4898841810699588477366255144
  0.6 | 0.477662536438264365890433908527 0 0 -2.48811461997166764192642586468 \
      -0.590290826836842996371446475743 21.2300514481811942347288949897 \
      15.2792336328824235832596922938 -33.2882109689848629194453265587 \
      -0.0203312017085086261358222928593
  0.857142857142857142857142857142 | -0.93714243008598732571704021658 0 0 \
      5.18637242884406370830023853209 1.09143734899672957818500254654 \
      -8.14978701074692612513997267357 -18.5200656599969598641566180701 \
      22.7394870993505042818970056734 2.49360555267965238987089396762 \
      -3.0467644718982195003823669022
  1 | 2.27331014751653820792359768449 0 0 -10.5344954667372501984066689879 \
      -2.00087205822486249909675718444 -17.9589318631187989172765950534 \
      27.9488845294199600508499808837 -2.85899827713502369474065508674 \
      -8.87285693353062954433549289258 12.3605671757943030647266201528 \
      0.643392746015763530355970484046
    | 0.0542937341165687622380535766363 0 0 0 0 4.45031289275240888144113950566 \
      1.89151789931450038304281599044 -5.8012039600105847814672114227 \
      0.31116436695781989440891606237 -0.152160949662516078556178806805 \
      0.201365400804030348374776537501 0.0447106157277725905176885569043
    | 0.0411736891223738815055525466763 0 0 0 0 5.67546933912861332216170925866 \
      2.38727684897175057456422398564 -7.4655811424655713184287418377 \
      0.66149321570779357609756479137 -0.486340068375533557585910690905 \
      0.119442194318914635909069111371 0.0670659235916588857765328353543
"""
)

SHORT_NAMES = {
    "rkmk1": "euler",
    "rkmk2": "midpoint",
    "rkmk3": "rk3",
    "rkmk4": "rk4",
    "rkmk5": "dormand-prince",
    "rkmk6": "butcher6",
    "rkmk7": "fehlberg7",
    "rkmk8": "dop853",
    "rkmk23": "bogacki-shampine",
    "rkmk45": "dormand-prince",
    "rkmk56": "verner65",
}


@cache
def _verified(name: str) -> Tableau:
    return Tableau(name=name, **DATA[name])


def tableau(name: str | Tableau) -> Tableau:
    """The tableau called "rk4" or "rkmk-rk4", or by a short name such as "rkmk45"; a `Tableau` is itself.

    Errors: IntegrationError for a name that is not known; it lists those that are.
    """
    if isinstance(name, Tableau):
        return name
    key = SHORT_NAMES.get(str(name), str(name).removeprefix("rkmk-"))
    if key not in DATA:
        raise IntegrationError(f"no tableau {name!r}; there are {', '.join([*SHORT_NAMES, *DATA])}")
    return _verified(key)
