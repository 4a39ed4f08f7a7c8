"""The documentation site: formulas as LaTeX, a page for every public name, guides whose calls exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

import liebody as lb
from liebody.dynamics.kinematics import REPRESENTATIONS
from liebody.runs import ConstrainedRun

SITE = Path(__file__).parents[1] / "docs" / "site"
sys.path.insert(0, str(SITE))
import notebooks  # noqa: E402
import reference  # noqa: E402
import versions  # noqa: E402
import views  # noqa: E402
from formulas import formula, pieces  # noqa: E402

GUIDES = sorted((SITE.parent / "guides").glob("*.md"))
PAGES = [SITE.parents[1] / "README.md", *sorted(SITE.parent.glob("*.md")), *GUIDES]

FORMULAS = {
    "dv/dt": r"\mathrm{d}v / \mathrm{d}t",
    "V = S v": r"V = S \, v",
    "M dv/dt + C(v) v = tau": r"M \, \mathrm{d}v / \mathrm{d}t + C\left( v \right) \, v = \tau",
    "-ad_v^T M v": r"-\operatorname{ad}_{v}^{T} \, M \, v",
    "C(v) = ad~_(M v)": r"C\left( v \right) = \widetilde{\operatorname{ad}}_{M \, v}",
    "omega' + omega x I omega": r"\omega' + \omega \times I \, \omega",
    "A x + B du": r"A \, x + B \, \mathrm{d}u",
    "SO(3) x R^3": r"\mathrm{SO}(3) \times R^{3}",
    "g = [R p; 0 1]": r"g = \begin{bmatrix} R & p \\ 0 & 1 \end{bmatrix}",
    "S_i^T ad_V_i^T F_i": r"S_{i}^{T} \, \operatorname{ad}_{V_i}^{T} \, F_{i}",
    "v . M v / 2 + m |v|^2 / 2": r"v \cdot M \, v / 2 + m \, \left| v \right|^{2} / 2",
    "F = -k (x - rest)": r"F = -k \, \left( x - \mathrm{rest} \right)",
    "int r r^T dm": r"\int \, r \, r^{T} \, \mathrm{d}m",
    "d/dt (S_i^T J S_j)": r"\mathrm{d} / \mathrm{d}t \, \left( S_{i}^{T} \, J \, S_{j} \right)",
    "h = 2.5e-3 v_s": r"h = 2.5 \cdot 10^{-3} \, v_{s}",
    "sqrt(u . u) <= 1": r"\sqrt{u \cdot u} \le 1",
}
PROSE = [
    "a body on a group, or I and a friend",
    "poses (4, 4), translations (3,), or None",
    "velocities (nv,) [rad/s, m/s], and t_end or t_eval",
    'one of "a + b" and `x = y`',
    "left-trivialised, one-sided, a 6 x 6 inertia",
    "tau (dim,) is collocated with v",
    "returns as is: 1.5 m/s",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_latex(text):
    assert formula(text) == (FORMULAS[text], len(text))


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_found_in_sentences(text):
    found = list(pieces(f"This is {text}, where it holds."))
    assert found == [("text", "This is "), ("formula", FORMULAS[text]), ("text", ", where it holds.")]


@pytest.mark.parametrize("text", PROSE)
def test_prose_has_no_formulas(text):
    assert [piece for kind, piece in pieces(text) if kind == "formula"] == []


def test_tables_of_arguments_are_read():
    """Names alone, several names for one meaning, names longer than the column: one row for each."""
    table = """mass     [kg]
A, b, c  coefficients, weights,
         nodes                                              [s]
forces, joints, stabilization   as in `simulate`
rest     where it is relaxed"""
    assert reference._rows(table.splitlines()) == [
        ("mass", "", "[kg]"),
        ("A, b, c", "coefficients, weights, nodes", "[s]"),
        ("forces, joints, stabilization", "as in `simulate`", ""),
        ("rest", "where it is relaxed", ""),
    ]


def test_equations_and_code_are_no_tables():
    """Two equations on a line, a sentence that ends in an equation, code with comments in a column."""
    for lines in (
        ["Q = H + F^T V F,    q = g + F^T v"],
        ["Bracket (dim, dim):   hat(ad(u) w) = hat(u) hat(w) - hat(w) hat(u)"],
        ["labels_of(robot)[0].names    # of coordinates", "labels_of(robot)[1].units    # of velocities"],
        ["class Affine(LieGroup):    # of the line"],
        ["subject to    A x <= b"],
    ):
        assert reference._rows(lines) == []
    for lines in (
        ['"ploen"   by Proposition 1', '"hamel"   in quasi-velocities'],
        ["contact (n,)   whether points touch", "anchor (n, k)  where they stick"],
        ["<element>_work    work of each element", "<element>_<loss>  its losses"],
    ):
        assert len(reference._rows(lines)) == 2


def test_listings_with_blank_lines_stay_whole():
    page = reference.Reference(reference.public_names())
    lines = page.convert(inspect.getdoc(lb.optimal_control))
    assert sum(line == ".. code-block:: python" for line in lines) == 1
    assert not any("``Q = " in line or "``sum_k" in line for line in lines)


def test_robots_begin_with_what_users_call():
    names = [name for _, name, _ in reference.ordered(lb.Robot)]
    assert {"inverse_dynamics", "mass_matrix", "coriolis_matrix"} <= set(names[:20])
    assert names.index("own_parameters") > names.index("to_urdf")


@pytest.mark.parametrize("function", [lb.simulate, lb.linearize, lb.optimal_control, lb.export_fmu])
def test_each_argument_has_a_row(function):
    """A parameter that begins a line of the docstring begins a row of a table on its page."""
    docstring = inspect.getdoc(function)
    rows = [row for paragraph in reference._paragraphs(docstring) for row in reference._rows(paragraph)]
    keys = {name for key, _, _ in rows for name in key.split(", ")}
    lines = {name for line in docstring.splitlines() for name in re.split(r"  | \{", line)[0].split(", ")}
    missing = (lines & set(inspect.signature(function).parameters)) - keys
    assert keys and not missing


def test_every_public_name_has_a_page():
    pages = reference.pages()
    linked = "\n".join(pages.values())
    missing = []
    for package in reference.PACKAGES:
        module = importlib.import_module(package)
        for name in reference.names_of(module):
            if not inspect.ismodule(getattr(module, name)) and f":py:obj:`{name} <" not in linked:
                missing.append(f"{package}.{name}")
    assert missing == []
    names = reference.public_names()
    assert [name.path for name in names if f"{name.path}.rst" not in pages] == []
    assert len({file.lower() for file in pages}) > 250


def test_the_methods_of_a_robot_have_their_formulas():
    page = reference.Reference(reference.public_names()).page(reference.Name("liebody", "Robot", lb.Robot))
    methods = re.findall(r"py:method:: (\w+)\(", page)
    assert {"inverse_dynamics", "jacobian", "coriolis_matrix", "random"} <= set(methods)
    assert r":math:`\tau = M\left( q \right) \, a + C\left( q, v \right) \, v" in page


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_calls_of_guides_exist(guide):
    """In a table of two columns the right one is ours."""
    owners = {
        "lb": lb,
        "robot": lb.Robot,
        "run": ConstrainedRun,
        "builder": lb.SystemBuilder,
        "system": lb.System,
    }
    rows = re.findall(r"^\|[^|]*\|(.*)\|$", guide.read_text(), re.MULTILINE)
    spans = " ".join(span for row in rows for span in row.split("`")[1::2])
    calls = re.findall(r"(?<![\w.\"])(\w+)\.(\w+)", spans)
    known = [(owner, name) for owner, name in calls if owner in owners]
    absent = [(o, n) for o, n in known if not hasattr(owners[o], n) and n not in _fields(owners[o])]
    assert absent == [] and (known or guide.name == "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_calls_that_pages_name_can_be_made(page):
    """Calls of robots and of the package in code spans have arguments and representations that there are."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S))
    assert {span: problem for span in spans if (problem := _problem_of(span))} == {}


def test_calls_that_cannot_be_made_are_seen():
    assert "representation" in _problem_of('robot.jacobian(q, "body", "hybrid")')
    assert "missing" in _problem_of("f(robot.inverse_dynamics(q, v))")
    assert "unexpected" in _problem_of("robot.mass_matrix(q, speed=3)")
    assert _problem_of('robot.jacobian(q, "body", "mixed")') is None


def _problem_of(span):
    """What stands against a call in a code span; None if nothing does, or if it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(span)))
    except SyntaxError:
        return None
    for node in nodes:
        function = node.func if isinstance(node, ast.Call) else None
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            continue
        owner = {"lb": lb, "robot": lb.load("double_pendulum")}.get(function.value.id)
        some = any(isinstance(x, ast.Constant) and x.value is ... for x in node.args)  # f(q, ...)
        if owner is None or some or not callable(getattr(owner, function.attr, None)):
            continue
        try:
            given = {key.arg: key.value for key in node.keywords}
            bound = inspect.signature(getattr(owner, function.attr)).bind(*node.args, **given).arguments
        except TypeError as error:
            return str(error)
        chosen = bound.get("representation")
        if isinstance(chosen, ast.Constant) and chosen.value not in REPRESENTATIONS:
            return f"the representation is {chosen.value!r}"
    return None


def _fields(owner):
    return {name for base in getattr(owner, "__mro__", ()) for name in getattr(base, "__annotations__", {})}


TUTORIALS = sorted((SITE.parent / "tutorials").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.name)
def test_code_of_tutorials_fits_the_page(page):
    """The text column of the site shows 78 characters of code."""
    cells = CELL.findall(page.read_text(encoding="utf-8"))
    assert cells or page.name == "index.md"
    assert [line for cell in cells for line in cell.splitlines() if len(line) > 78] == []


@pytest.mark.parametrize(
    "page", [page for page in TUTORIALS if page.name != "index.md"], ids=lambda page: page.name
)
def test_notebooks_of_tutorials_have_the_code_of_their_pages(page):
    nbformat = pytest.importorskip("nbformat", reason="the extra `docs` is not installed")
    text = page.read_text(encoding="utf-8")
    made = nbformat.from_dict(notebooks.notebook(text))
    nbformat.validate(made)
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    assert len(code) == len(CELL.findall(text)) and all(text.count(source) == 1 for source in code)
    assert not any(".md)" in cell.source or "{doc}" in cell.source for cell in made.cells)
    assert "Download" in notebooks.with_link(f"tutorials/{page.stem}", text)


def test_options_of_cells_and_links_stay_out_of_notebooks():
    page = (
        "---\na: b\n---\n# Title\n\nSee [one](../one.md), {doc}`two <../two>`.\n\n"
        "```{code-cell}\n:tags: [x]\nx = 1\n```\n"
    )
    text, code = notebooks.notebook(page)["cells"]
    assert text["source"] == "# Title\n\nSee one, two." and code["source"] == "x = 1"


WORDS = (
    "domain randomization|end effector|inertia tensor|prescribed motion|GPU|mimic|operational space|RNEA|MPC"
)


@pytest.mark.parametrize("word", WORDS.split("|"))
def test_words_of_others_lead_to_pages(word):
    page = (SITE.parent / "words.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| [^|]*\b{word}\b[^|]*\|[^|]+\|(.*)\|$", page, re.MULTILINE)
    assert re.search(r"\]\([\w-]+\.md", row)


def test_landing_page_and_gallery_show_views_in_place_of_films():
    """Each view stands on one page, with words; its frame is loaded late, and has a name and a picture."""
    pages = {name: (SITE.parent / name).read_text(encoding="utf-8") for name in ("index.md", "gallery.md")}
    shown = [name for text in pages.values() for name in re.findall(r"^```\{view\} (\w+)\n\w", text, re.M)]
    assert sorted(shown) == sorted(views.VIEWS)
    assert [
        name for name, text in pages.items() if re.search(r"\.(gif|mp4)\b(?!`)", _without_tables(text))
    ] == []
    frame = views.figure("cat", 'A "cat" falls', "../")
    assert 'src="../views/cat.html" loading="lazy" title="A &quot;cat&quot; falls"' in frame
    assert "url(../views/cat.png)" in frame and 'alt="A &quot;cat&quot; falls"' in frame


def _without_tables(text):
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)


def test_a_view_is_a_page_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "VIEWS", {"pendulum": lambda: lb.load("double_pendulum").view()})
    views.write(tmp_path / "views")
    assert sorted(path.name for path in (tmp_path / "views").iterdir()) == ["pendulum.html", "pendulum.png"]
    assert (tmp_path / "views" / "pendulum.html").stat().st_size < 1_000_000


def test_versions_are_listed_newest_first_and_the_root_leads_to_the_newest_release(tmp_path):
    with pytest.raises(SystemExit, match="no folder of a version"):
        versions.write(tmp_path, "https://example.org/liebody")
    (tmp_path / "dev").mkdir()
    versions.write(tmp_path, "https://example.org/liebody")
    assert "url=dev/" in (tmp_path / "index.html").read_text()
    for name in ("v0.9.0", "v0.10.0", "v0.2.1", ".git"):
        (tmp_path / name).mkdir()
    versions.write(tmp_path, "https://example.org/liebody/")
    entries = json.loads((tmp_path / "versions.json").read_text())
    assert [entry["version"] for entry in entries] == ["dev", "v0.10.0", "v0.9.0", "v0.2.1"]
    assert [entry["url"] for entry in entries if entry["preferred"]] == [
        "https://example.org/liebody/v0.10.0/"
    ]
    assert "url=v0.10.0/" in (tmp_path / "index.html").read_text()
