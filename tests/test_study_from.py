"""Reports, and the study of From (2012): the page is whole, and its numbers bear out what it says."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from html.parser import HTMLParser
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
import sympy
from click.testing import CliRunner

import liebody_studies
from liebody.base.errors import LiebodyError
from liebody.cli import main
from liebody.groups import SE3, SO3
from liebody.mechanisms import RigidBody
from liebody_studies import STUDIES, reproduce
from liebody_studies.command import reproduce as reproduce_command
from liebody_studies.formulas import Typesetter
from liebody_studies.from_2012 import checks, groups, motions
from liebody_studies.from_2012 import page as from_2012
from liebody_studies.report import Part, Report, Verdict, number

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def report():
    return from_2012.study()


class Tags(HTMLParser):
    """Checks that tags close in order; keeps attributes by tag."""

    VOID = frozenset({"meta", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse(html):
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags.seen


# -- the study ----------------------------------------------------------------------------------------------


def test_every_verdict_is_borne_out(report):
    assert [v.claim for v in report.verdicts if not v.confirmed] == []
    counts = Counter(v.says for v in report.verdicts)
    assert counts == {"holds": 48, "misprint": 22, "imprecise": 7, "wrong": 1}


def test_the_page_needs_nothing_else(report):
    html = report.html
    seen = parse(html)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in seen}
    pairs = [pair for _, attributes in seen for pair in attributes.items()]
    targets = [value for key, value in pairs if key.endswith(("href", "src"))]
    assert targets and all(target.startswith("#") for target in targets)
    ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets} <= set(ids)
    assert "not confirmed" not in html and "NOT borne out" not in html
    assert html.count("<figure>") == 3 and len(html) < 1_000_000


@pytest.mark.parametrize("row", groups.ROWS, ids=lambda row: row.name)
def test_rows_of_table_1(row):
    """The matrices shown are those of the group: hat gives the bracket ad, and coad_p v = -ad_v^T p."""
    ours = groups.table_row(row)
    ad, coad, hat = ours["ad"], ours["coad"], ours["hat"]
    n = ad.rows
    v = [sympy.Symbol(c, real=True) for c in "uvwpqr"]
    used = [s for s in v if s in hat.free_symbols]
    assert len(used) == n
    p = sympy.Matrix(sympy.symbols(f"p_1:{n + 1}", real=True))
    velocity = sympy.Matrix(used)
    assert (coad * velocity + ad.T * p).applyfunc(sympy.expand).is_zero_matrix
    other = sympy.Matrix(sympy.symbols(f"y_1:{n + 1}", real=True))
    as_other = dict(zip(used, other))
    bracket = hat * hat.subs(as_other) - hat.subs(as_other) * hat
    of_ad = hat.subs(dict(zip(used, ad * other)), simultaneous=True)
    assert (bracket - of_ad).applyfunc(sympy.expand).is_zero_matrix


def test_misprints_of_table_1_are_those_that_are_listed():
    differ = {}
    for row in groups.ROWS:
        ours = groups.table_row(row)
        for key in ("hat", "ad", "coad"):
            text = getattr(row, key)
            if text is not None and groups.printed(text) != ours[key]:
                differ.setdefault(row.name.strip("$"), []).append(key)
    hats = (r"\mathbb{R}^3", r"\mathbb{R}", "H(h)", "SO(2)")
    assert differ == {"SO(3)": ["coad"]} | {name: ["hat"] for name in hats}
    assert groups.printed(groups.ROWS[4].coad) == -groups.table_row(groups.ROWS[4])["coad"]


def test_errata_are_all_there_and_repaired():
    errata = checks.errata()
    assert [e.number for e in errata] == [f"0-{k}" for k in range(1, 23)]
    for e in errata:
        assert e.after < 1e-12, e.number
        assert e.remark if e.before is None else e.before > 0.01, e.number


def test_the_derivation_holds():
    assert {c.printed: c.off for c in checks.derivation_checks() if not c.confirmed} == {}
    for seed in range(3):
        assert max(checks.lagrange_check(np.random.default_rng(seed))) < 1e-9


@pytest.mark.parametrize(("name", "group"), groups.theorem_groups(), ids=lambda x: str(x))
def test_the_theorem_holds(name, group):
    for seed in range(3):
        size, *errors = groups.theorem_errors(group, seed)
        assert max(errors) < 1e-11
        bracket = any(np.any(group.ad(e)) for e in np.eye(group.dim))
        assert (size > 1e-3) == bracket


def test_duindam_and_stramigioli_2008_is_wrong():
    rng = np.random.default_rng(14)
    M, v = groups.random_matrix(rng, 3), rng.standard_normal(3)
    C = checks.duindam_stramigioli_2008(SO3, M, v)
    assert np.allclose(C, -RigidBody(SO3, M).coriolis(v), atol=1e-12)  # the wrong sign
    M, v = groups.random_matrix(rng, 6), rng.standard_normal(6)
    C = checks.duindam_stramigioli_2008(SE3, M, v)
    assert np.allclose(C, -SE3.ad(M @ v).T, atol=1e-12)  # (F-36)
    right = RigidBody(SE3, M).coriolis(v)
    assert abs(v @ C @ v) > 0.01 * np.abs(C).max() and abs(v @ right @ v) < 1e-12 * np.abs(right).max()


def test_the_counter_example_makes_energy():
    _, energy, momentum = motions.counter_example_motion()
    assert np.ptp(energy["right"]) < 1e-6 < 0.1 < np.ptp(energy["wrong"])
    assert momentum["right"].max() < 1e-6 < 0.1 < momentum["wrong"].max()
    wrong, right = motions.counter_example_symbols()
    assert (wrong + right).applyfunc(sympy.expand).is_zero_matrix and not right.is_zero_matrix


# -- the registry and the command ---------------------------------------------------------------------------


def test_reproduce_writes_the_page(tmp_path, monkeypatch):
    small = Report("Small", "Nobody (1900)")
    monkeypatch.setattr(from_2012, "study", lambda: small)
    path = reproduce("from-2012", tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "from-2012.html"
    assert path.read_text() == small.html
    result = CliRunner().invoke(reproduce_command, ["from-2012", "--out", str(tmp_path)])
    assert result.exit_code == 0 and result.stdout == f"wrote {tmp_path / 'from-2012.html'}\n"


def test_the_command_is_an_entry_point():
    """`liebody reproduce` comes with the package, not with the library."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    (command,) = (EntryPoint(k, v, "") for k, v in project["entry-points"]["liebody.commands"].items())
    assert command.name == "reproduce" and command.load() is reproduce_command
    assert {
        path.name for path in Path(liebody_studies.__file__).parent.iterdir() if (path / "page.py").exists()
    } == set(STUDIES.values())


def test_commands_of_other_packages_are_found(monkeypatch):
    found = EntryPoints([EntryPoint("reproduce", "liebody_studies.command:reproduce", "liebody.commands")])
    monkeypatch.setattr("importlib.metadata.entry_points", found.select)
    listed = CliRunner().invoke(main, ["--help"]).output
    assert "Recompute a paper" in listed and "Joints, masses" in listed
    assert CliRunner().invoke(main, ["reproduce", "--help"]).exit_code == 0
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints().select)
    assert CliRunner().invoke(main, ["reproduce", "--help"]).exit_code == 2


def test_unknown_studies_are_refused(tmp_path):
    with pytest.raises(LiebodyError, match="rnea-notes"):
        reproduce("newton-1687", tmp_path)
    result = CliRunner().invoke(reproduce_command, ["newton-1687"])
    assert result.exit_code == 2 and all(name in result.output for name in STUDIES)


def test_studies_say_what_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LiebodyError, match=r"sympy, .*for studies: pip install sympy"):
        reproduce("from-2012", tmp_path)


# -- reports ------------------------------------------------------------------------------------------------


def test_a_report_shows_what_went_in():
    from matplotlib import pyplot

    r = Report("A & B", "Someone < else")
    for name in ("One", "Two", "Three"):
        r.section(name)
    r.text("Let $x_1 < 2$ and `a < b`.", "Second.")
    r.formula(r"\dot x = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}^\top x", "(1)")
    verdict = Verdict("claim <1>", "misprint", bool(np.bool_(True)))
    r.table([["a\nb", 0.5, 12, None, True, verdict]], ["text", "$x$", "n", "none", "flag", ""], "Caption")
    figure, axis = pyplot.subplots()
    axis.plot([1, 2])
    r.figure(figure, "A figure")
    assert not pyplot.fignum_exists(figure.number)
    r.code("if a < b:\n    pass")
    r.claims(verdict, Verdict("not so", "holds", False))
    html = r.html
    parse(html)
    for part in (
        "<title>A &amp; B</title>", "Someone &lt; else", '<a href="#s2">Two</a>', '<h2 id="s3">Three</h2>',
        "<code>a &lt; b</code>", "a<br>b", '<td class="number">0.50</td>', '<td class="number">12</td>',
        "<td>yes</td>", '<span class="badge slip">misprint</span>', "not confirmed: holds",
        "NOT borne out by the numbers: not so",
        "<figcaption>A figure</figcaption>", "if a &lt; b:\n    pass", "<caption>Caption</caption>",
    ):  # fmt: skip
        assert part in html, part
    assert r.confirmed is False and html == r.html


def test_a_template_is_filled():
    table = "| x | |\n|---|---|\n| {{rows}} |\n| four | [holds: good] |\n: So {{a[x]:.2f}}."
    part = Part("### {{a[name]}}\n\n" + table,
                {"a": {"name": "Sums", "x": 0.125}, "rows": [["2 + 2", 4]], "good": True})  # fmt: skip
    r = Report("A", "B")
    r.part(Part("{{inner}}\n\n- [misprint: bad] It says\n  5.\n- [holds: good] It is {{n}}.",
                {"inner": part, "bad": False, "good": True, "n": 4}))  # fmt: skip
    html = r.html
    parse(html)
    for text in ("<h3>Sums</h3>", "<td>2 + 2</td>", "<caption>So 0.12.</caption>", "It says 5.", "It is 4."):
        assert text in html, text
    assert [(v.claim, v.confirmed) for v in r.verdicts] == [
        ("four", True),
        ("It says 5.", False),
        ("It is 4.", True),
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [("It is {{n}}.", "names 'n'"), ("- [holds: n] four", "names 'n'"), ("- [x] four", "has no verdict")],
)
def test_templates_refuse_names_without_values(template, message):
    with pytest.raises(ValueError, match=message):
        Report("A", "B").part(Part(template, {}))


def test_reports_refuse_what_does_not_fit():
    r = Report("A", "B")
    with pytest.raises(ValueError, match="under 2 headings"):
        r.table([["one"]], ["a", "b"])
    with pytest.raises(ValueError, match="expected one of holds"):
        Verdict("claim", "maybe", True)
    with pytest.raises(ValueError, match=r"\\nonsense"):
        r.formula(r"\nonsense{x}")


@pytest.mark.parametrize(
    ("x", "text"),
    [(0, "0"), (3, "3"), (-2.0, "−2"), (0.12345, "0.12"), (123.4, "123"), (1.26e-15, "1.3·10<sup>−15</sup>"),
     (-0.25, "−0.25"), (6.1e7 + 0.5, "6.1·10<sup>7</sup>"), (float("nan"), "nan"),
     (np.float64(2e-9), "2.0·10<sup>−9</sup>")],
)  # fmt: skip
def test_numbers_have_two_digits(x, text):
    assert number(x) == text


FORMULAS = [
    r"M\dot v + \widetilde{\mathrm{ad}}_{(Mv)} v = \tau",
    r"\left[\begin{matrix}a & \begin{matrix} b \\ c \end{matrix}\\0 & d\end{matrix}\right]^{\top}_{2}",
    r"\begin{aligned} x &= 1 \\ y + z &= \tfrac{1}{2} \end{aligned}",
    r"f = \begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases}",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix} \begin{vmatrix} a & b \\ c & d \end{vmatrix}",
    sympy.latex(sympy.Matrix([[sympy.sqrt(sympy.Symbol("x")) / 3, sympy.Symbol("I_xy")]])),
    sympy.latex(sympy.Integral(sympy.exp(-(sympy.Symbol("x") ** 2)), sympy.Symbol("x"))),
]


@pytest.fixture
def page():
    report = Report("t", "s")
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n: "
    report.part(Part(table + "[folded] The numbers.\n\n" + table + "Seen.", {}))
    return report.html


def test_folded_tables_show_their_caption(page):
    assert page.count("<details><summary>The numbers.</summary>") == 1
    assert page.count("</table></div></details>") == 1
    assert page.count("<caption>Seen.</caption>") == 1 and "[folded]" not in page


@pytest.mark.parametrize("latex", FORMULAS)
def test_formulas_are_drawn_inside_their_box(latex):
    setter = Typesetter()
    svg = setter.svg(latex)
    seen = parse(svg)
    x, y, width, height = (float(t) for t in dict(seen)["svg"]["viewbox"].split())
    assert width > 30 and height > 30
    glyphs = [a for tag, a in seen if tag == "use"]
    assert glyphs
    for a in glyphs:
        at = re.match(r"translate\(([-\d.e]+) ([-\d.e]+)\)", a["transform"])
        assert x - 1 <= float(at[1]) <= x + width and y - 1 <= float(at[2]) <= y + height + 1
    ids = {a["id"] for tag, a in parse(setter.glyphs) if tag == "path"}
    assert {a["href"][1:] for a in glyphs} == ids


def test_glyphs_are_stored_once():
    setter = Typesetter()
    setter.svg("x + x")
    once = len(setter.glyphs)
    setter.svg(r"\begin{bmatrix} x & x \\ + & x \end{bmatrix}")
    assert len(setter.glyphs) == once


def test_a_matrix_is_as_large_as_its_rows():
    heights = []
    for rows in (1, 2, 4):
        body = r" \\ ".join(["a & b"] * rows)
        svg = Typesetter().svg(rf"\begin{{bmatrix}} {body} \end{{bmatrix}}")
        heights.append(float(re.search(r'viewBox="\S+ \S+ \S+ (\S+)"', svg)[1]))
        assert svg.count("<use") == 2 * rows
    assert heights[2] - heights[1] == pytest.approx(2 * (heights[1] - heights[0]), rel=0.02)


@pytest.mark.parametrize(
    ("latex", "message"),
    [
        (r"\begin{bmatrix} 1", "no end"),
        (r"\begin{tikz} 1 \end{tikz}", "environment tikz"),
        (r"\frac{1}", "not understood"),
        (r"\left( x", "not understood"),
    ],
)
def test_formulas_that_are_none_are_refused(latex, message):
    with pytest.raises(ValueError, match=message):
        Typesetter().svg(latex)
