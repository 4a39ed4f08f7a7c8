"""Mechanisms to look at: what a page holds, what a film shows, and what a browser makes of it."""

from __future__ import annotations

import base64
import functools
import html
import io
import json
import re
import subprocess
import sys
import warnings
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from constrained_models import four_bar, three_bar
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import liebody as lb
from liebody.base.errors import LiebodyError, MissingPackage, ModelError, ShapeError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.bodies.labels import labels
from liebody.cli import main
from liebody.contact import Boxes, Contact, HeightField, TimeStepping
from liebody.groups import SO3, Free, Prismatic, Product, R, Revolute
from liebody.hybrid import robot_system
from liebody.mechanisms.constrained import ClosedTree, Closure
from liebody.view import ViewWarning, view
from liebody.view.drawing import drawing_of, with_at_most
from liebody.view.meshes import (
    AROUND,
    arrow,
    box,
    capsule,
    cylinder,
    divided,
    of_file,
    simplified,
    sphere,
    welded,
)

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import robots  # noqa: E402

LARGEST = 5_000_000


# -- something of each kind --------------------------------------------------------------------------------


def described(name):
    file, floating = robots.path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lb.load(file, floating=floating)


def pendulum(members=()):
    robot = lb.models.double_pendulum()
    q = np.array([1.5, 0.4]) + 0.1 * np.arange(np.prod(members, dtype=int)).reshape(*members, 1)
    return robot, lb.simulate(robot, q, t_end=1.0, dt=1e-2, record_every=0.05)


def ur5():
    robot = described("ur5")
    q = np.array([0.3, -1.2, 1.0, -0.6, 0.5, 0.1])
    return robot, lb.simulate(robot, q, t_end=0.5, dt=1e-2, record_every=0.05)


def anymal():
    robot = described("anymal")
    q = robot.neutral()
    q[6] = 0.6
    return robot, lb.simulate(robot, q, t_end=0.2, dt=1e-2, record_every=0.02)


def closed_loop():
    tree = ClosedTree(four_bar(), [Closure("C", Revolute([0, 1, 0]), "end", "tip")])
    return tree, lb.simulate(tree, tree.assemble(np.array([-1.0, 0.3, -1.2])), t_end=1.0, dt=1e-2)


def absolute():
    system, v = three_bar("SE3")
    return system, lb.simulate(system, system.guess, v, t_end=0.3, dt=1e-2)


def hopper():
    robot = lb.models.prismatic_hopper()
    system = robot_system(robot, Contact("foot", stiffness=2e3, damping=20.0), step=1e-3, stance_step=1e-4)
    run = system.simulate([-np.pi / 2, 0, 0.3, 0.15], t_end=0.3, record_every=0.01)
    return system, run


def field():
    J = np.array([1.0, 2.0, 3.0])

    def velocity(t, q):
        return np.concatenate([q[4:], np.cross(J * q[4:], q[4:]) / J])

    start = np.concatenate([SO3.neutral(), [0.01, 2.0, 0.01]])
    run = lb.solve_ivp(velocity, (0, 9), start, Product(SO3, R(3)), t_eval=np.linspace(0, 9, 50))
    return lb.RigidBody(SO3, np.diag(J)), run


def free_body():
    robot = lb.models.free_rigid_body()
    return robot, lb.simulate(robot, robot.neutral(), [0.1, 2, 0.1, 0, 0, 0], t_end=1.0, dt=1e-2)


KINDS = {
    "pendulum": pendulum,
    "ensemble": functools.partial(pendulum, (3,)),
    "URDF with meshes": ur5,
    "floating, with meshes": anymal,
    "closed loop": closed_loop,
    "absolute coordinates": absolute,
    "hopper": hopper,
    "field on SO(3)": field,
    "free body": free_body,
}


@functools.cache
def made(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewWarning)
        system, run = KINDS[kind]()
        return view(system, run), system, run


kinds = pytest.mark.parametrize("kind", KINDS)


# -- pages ------------------------------------------------------------------------------------------------


class References(HTMLParser):
    """What a page would load: by src, href and the like, by styles; and its policy on that."""

    def __init__(self, page):
        super().__init__()
        self.found, self.policy, self._in = [], "", None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self._in = tag
        given = dict(attributes)
        self.found += [v for k, v in attributes if k in ("src", "href", "srcset", "data", "poster", "action")]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_data(self, text):
        if self._in == "style":
            self.found += re.findall(r"url\(|@import", text)


def read(page):
    """The data of a page, with its arrays."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    packed = zlib.decompress(base64.b64decode(re.search(r'id="bytes">(.*?)</script>', page, re.S)[1]))

    def array(place):
        return np.frombuffer(packed, "<" + place["kind"], place["length"], place["at"])

    return data, array


@kinds
@pytest.mark.many
def test_a_page_is_one_file_below_5_MB_that_loads_nothing(kind):
    page = made(kind)[0].html
    assert len(page.encode()) < LARGEST
    references = References(page)
    assert references.found == []
    assert references.policy.startswith("default-src 'none'; script-src 'unsafe-inline'")
    outside = set(re.findall(r"https?://[^\s\"'`)]+", page))
    assert outside <= {"http://www.w3.org/1999/xhtml"}, "a name of XML, which nobody loads"


def test_references_are_found():
    page = '<link href="http://a"><script src="b.js"></script><style>p { background: url(c) }</style>'
    assert References(page).found == ["http://a", "b.js", "url("]


def test_a_page_holds_the_poses_of_the_run():
    shown, _, run = made("pendulum")
    data, array = read(shown.html)
    poses = array(data["poses"]).reshape(1, len(run.t), data["bodies"], 7)
    np.testing.assert_array_equal(array(data["t"]), run.t)
    knee = np.stack([np.sin(run.q[:, 0]), 0 * run.t, -np.cos(run.q[:, 0])], axis=-1)  # at the end of link 1
    np.testing.assert_allclose(poses[0, :, 2, :3], knee, atol=1e-6)
    tip = knee + np.stack([np.sin(run.q.sum(1)), 0 * run.t, -np.cos(run.q.sum(1))], axis=-1)
    np.testing.assert_allclose(poses[0, :, -1, :3], (knee + tip) / 2, atol=1e-6)  # centre of two equal masses
    np.testing.assert_allclose(np.linalg.norm(poses[..., 3:], axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(array(data["energies"]["kinetic"]), run.kinetic, rtol=1e-6, atol=1e-6)


def test_forces_of_a_contact_are_in_the_page():
    shown, _, run = made("hopper")
    data, array = read(shown.html)
    forces = array(data["forces"][0][2]).reshape(-1, 3)
    np.testing.assert_allclose(forces, run.outputs["floor_force"][:, 0], rtol=1e-6, atol=1e-6)
    assert forces[:, 2].max() > 1


def test_members_stand_side_by_side_or_as_ghosts():
    _, robot, run = made("ensemble")
    apart, together = view(robot, run).scene, view(robot, run, ghosts=True).scene
    np.testing.assert_array_equal(
        together.poses[:, :, 0], np.broadcast_to(np.eye(4), together.poses[:, :, 0].shape)
    )
    gaps = np.diff(apart.poses[:, 0, 0, 0, 3])
    width = np.ptp(together.poses[:, :, 1:, 0, 3])
    assert np.all(gaps > width)
    assert together.faint and not apart.faint
    assert len(view(robot, run, members=2).scene.poses) == 2


@pytest.mark.parametrize("with_system", [True, False])
def test_members_with_parameters_are_where_their_own_lengths_put_them(with_system, tmp_path):
    robot = lb.models.double_pendulum()
    second = robot.tree.bodies[1].joint.name
    given = {f"{second}.position": [[0.0, 0, -1.0], [0.0, 0, -2.0]]}
    run = lb.simulate(robot, [0.3, 0.2], t_end=0.1, dt=0.01, parameters=given)
    view = lb.view(robot, run, ghosts=True) if with_system else run.view(ghosts=True)
    for i, poses in enumerate(view.scene.poses):
        lengths = np.linalg.norm(poses[:, 2, :3, 3] - poses[:, 1, :3, 3], axis=-1)
        np.testing.assert_allclose(lengths, 1.0 + i, atol=1e-12)
    assert "bodies have the size" in view.scene.note
    one = run.member(1).view().scene
    np.testing.assert_allclose(one.poses[0], view.scene.poses[1], atol=1e-12)
    assert "size" not in one.note
    run.save(tmp_path / "run.nc")
    again = lb.view(robot, lb.Run.load(tmp_path / "run.nc"), ghosts=True)
    np.testing.assert_allclose(again.scene.poses, view.scene.poses, atol=1e-12)


def test_a_member_that_ended_keeps_its_last_state():
    robot, run = pendulum()
    q = run.q.copy()
    q[7:] = np.nan
    shown = view(robot, lb.Run(run.t, q, run.v, run.kinetic, run.potential, run.coordinates, run.dofs)).scene
    np.testing.assert_array_equal(
        shown.poses[0, 7:], np.broadcast_to(shown.poses[0, 6], shown.poses[0, 7:].shape)
    )


def test_long_runs_are_thinned_until_they_fit():
    robot = lb.models.planar_chain(8)
    t, energy = np.linspace(0, 1, 40_000), np.zeros((8, 40_000))
    q = np.broadcast_to(t[:, None], (8, 40_000, 8))
    run = lb.Run(t, q, np.zeros(q.shape), energy, energy, *labels(robot.tree))
    assert len(view(robot, run).html) < LARGEST


def test_names_are_text_whatever_they_are():
    tree = TreeBuilder("</script><img src=x>").add("body", Free(), SpatialInertia.sphere(1.0, 0.1)).build()
    page = view(tree).html
    assert "<img" not in page
    assert read(page)[0]["title"] == tree.name


def test_a_notebook_shows_the_page_in_a_frame():
    shown = made("pendulum")[0]
    cell = shown._repr_html_()
    assert html.unescape(re.search(r'srcdoc="(.*?)"', cell, re.S)[1]) == shown.html


def test_the_library_is_the_one_that_the_makefile_names_with_its_licence():
    text = (ROOT / "src/liebody/view/vendor/three.min.js").read_text()
    version = re.search(r"^THREE = (\S+)", (ROOT / "Makefile").read_text(), re.M)[1]
    assert text.startswith(f"/* {version}\nThe MIT License")
    assert "Permission is hereby granted" in text


# -- shapes -----------------------------------------------------------------------------------------------


def volume(mesh):
    """Of what a closed surface encloses, positive if its faces are seen from outside."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return np.einsum("ni,ni->", a, np.cross(b, c)) / 6


def turned(profile):
    """Volume of a profile turned about z in AROUND facets: frusta over regular polygons."""
    r, z = np.array(profile).T
    frusta = np.diff(z) * (r[1:] ** 2 + r[1:] * r[:-1] + r[:-1] ** 2) / 3
    return AROUND / 2 * np.sin(2 * np.pi / AROUND) * frusta.sum()


ARROW = [(0, 0), (0.025, 0), (0.025, 0.8), (0.07, 0.8), (0, 1)]
BALL = [(np.cos(x), np.sin(x)) for x in np.linspace(-np.pi / 2, np.pi / 2, AROUND // 2 + 1)]


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        (box(), 1.0),
        (cylinder(), turned([(1, -0.5), (1, 0.5)])),
        (sphere(), turned(BALL)),
        (arrow(), turned(ARROW)),
    ],
)
def test_surfaces_are_closed_and_seen_from_outside(mesh, expected):
    assert volume(mesh) == pytest.approx(expected, rel=1e-9)
    edges = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert np.all(counts == 2)
    assert volume(divided(mesh, 0.1)) == pytest.approx(volume(mesh), rel=1e-9)


def test_vertices_are_one_only_where_they_are_close_however_far_away_the_mesh_is():
    small = box()._replace(vertices=1e-3 * box().vertices + [0.5, -0.7, 900.0])
    for mesh in (welded(small, 1e-8), simplified(small, 100)):
        assert len(mesh.vertices) == 8 and len(mesh.faces) == 12


def test_a_simplified_mesh_has_fewer_faces_and_nearly_the_same_volume():
    fine = welded(divided(sphere(), 0.05), 1e-6)
    coarse = simplified(fine, 1500)
    assert len(fine.faces) > 5000 and 300 < len(coarse.faces) <= 1500
    assert volume(coarse) == pytest.approx(volume(fine), rel=0.05)


@pytest.mark.wide
def test_meshes_are_simplified_when_there_are_too_many_triangles_and_the_page_says_so():
    page = made("floating, with meshes")[0].html
    assert re.search(r"meshes simplified from \d{6} to \d+ triangles", read(page)[0]["note"])
    solids, total = with_at_most(drawing_of(described("ur5")).solids, 20_000)
    left = sum(len(mesh.faces) for mesh in {id(s.mesh): s.mesh for s in solids}.values())
    assert left <= 20_000 < total


def test_a_body_without_meshes_is_the_ellipsoid_of_its_inertia():
    inertia = SpatialInertia(2.5, [0.1, -0.2, 0.3], np.diag([0.4, 0.5, 0.6]))
    tree = TreeBuilder("body").add("body", Free(), inertia).build()
    (solid,) = [s for s in drawing_of(tree).solids if s.layer == "bodies"]
    A = solid.placement[:3, :3]
    Sigma = 2.5 / 5 * A @ A.T  # int x x^T dm of the solid ellipsoid {A u, |u| < 1}
    np.testing.assert_allclose(
        np.trace(Sigma) * np.eye(3) - Sigma, inertia.rotational, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_array_equal(solid.placement[:3, 3], inertia.com)


def test_a_sliding_joint_is_a_rod_between_the_bodies():
    tree = TreeBuilder("slider").add("car", Prismatic([1, 0, 0]), SpatialInertia.point(1.0)).build()
    assert [(rod.a, rod.b) for rod in drawing_of(tree).rods] == [(0, 1)]


def test_meshes_of_a_description_have_their_place_and_colours():
    robot = described("ur5")
    drawing = drawing_of(robot)
    shapes = [s for s in robot.tree.description.shapes if s.role == "visual"]
    reach = {"upper_arm_link": (-0.065, 0.484), "forearm_link": (-0.058, 0.431)}  # z in the files [m]
    assert {shape.link for shape in shapes} >= set(reach)
    for name, (low, high) in reach.items():
        parts = [s for s in drawing.solids if s.layer == "bodies" and s.body == robot.tree.frame(name).body]
        z = np.concatenate(
            [(s.mesh.vertices @ s.placement[:3, :3].T + s.placement[:3, 3])[:, 2] for s in parts]
        )
        assert z.min() == pytest.approx(low, abs=1e-2) and z.max() == pytest.approx(high, abs=1e-2)
    assert len({s.color for s in drawing.solids if s.layer == "bodies"}) > 3


def test_a_mesh_whose_texture_is_missing_is_drawn_without_it():
    """The feet of ANYmal name an image that is not there, and are 0.36 m long."""
    robot = described("anymal")
    path = next(s.path for s in robot.tree.description.shapes if s.link == "LF_ADAPTER" and s.path)
    z = np.concatenate([mesh.vertices[:, 2] for mesh, _ in of_file(path)])
    assert 0.3 < np.ptp(z) < 0.45


def test_meshes_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "empty.stl").write_text("solid empty\nendsolid empty\n")
    (tmp_path / "robot.urdf").write_text(
        """<robot name="r"><link name="a">
        <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
        <visual><geometry><mesh filename="empty.stl"/></geometry></visual>
        <visual><geometry><mesh filename="absent.stl"/></geometry></visual></link></robot>"""
    )
    robot = lb.load(tmp_path / "robot.urdf", floating=True)
    with pytest.warns(ViewWarning, match=r"are not shown: empty.stl \(.*\), absent.stl"):
        assert drawing_of(robot).solids[0].mesh is sphere()


def test_without_trimesh_inertias_are_drawn_and_a_warning_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.warns(ViewWarning, match="trimesh is not installed; for meshes: pip install trimesh,"):
        drawing = drawing_of(described("ur5"))
    assert sum(s.layer == "bodies" and s.mesh is sphere() for s in drawing.solids) >= 6


def test_without_pillow_films_say_what_to_install_and_pages_need_nothing(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    shown = lb.models.puma560().view()
    shown.save(tmp_path / "puma.html")
    with pytest.raises(MissingPackage, match="pip install pillow, or liebody with its extra 'view'"):
        shown.save(tmp_path / "puma.png")


def test_primitive_shapes_of_a_description_are_drawn_in_their_size():
    text = """<robot name="r"><link name="a">
      <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
      <visual><geometry><box size="1 2 3"/></geometry>
        <material name="m"><color rgba="1 0 0 1"/></material></visual>
      <visual><origin xyz="0 0 1"/><geometry><cylinder radius="0.5" length="4"/></geometry></visual>
      <visual><geometry><sphere radius="0.25"/></geometry></visual></link></robot>"""
    solids = [s for s in drawing_of(lb.load(text, floating=True)).solids if s.layer == "bodies"]
    assert [np.diag(s.placement)[:3].tolist() for s in solids] == [[1, 2, 3], [0.5, 0.5, 4], [0.25] * 3]
    assert solids[0].color == "#ff0000" and solids[1].placement[2, 3] == 1


# -- films ------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_film_is_800_wide_and_moves(tmp_path):
    _, _, run = made("pendulum")
    run.view().save(tmp_path / "run.gif", seconds=1.1)
    with Image.open(tmp_path / "run.gif") as film:
        assert film.size == (800, 450) and film.n_frames > 20
        frames = []
        for k in (0, film.n_frames // 2):
            film.seek(k)
            frames.append(np.asarray(film.convert("RGB")).astype(int))
    assert (np.abs(frames[1] - frames[0]).max(axis=-1) > 60).sum() > 1000
    assert (tmp_path / "run.gif").stat().st_size < 2_000_000


def test_a_film_is_written_as_mp4(tmp_path):
    made("pendulum")[0].save(tmp_path / "run.mp4", width=160, seconds=0.5)
    assert (tmp_path / "run.mp4").read_bytes()[4:8] == b"ftyp"


def test_a_bar_counts_the_frames_of_a_film_that_takes_long(tmp_path, monkeypatch, capsys):
    shown, terminal = made("pendulum")[0], io.StringIO()
    terminal.isatty = lambda: True

    def said(path, on=None, **options):
        """What saving a view writes to standard error; `on` a terminal, or not."""
        with monkeypatch.context() as patch:
            if on:
                patch.setattr(sys, "stderr", terminal)
            shown.save(tmp_path / path, **options)
        text = terminal.getvalue() if on else capsys.readouterr().err
        terminal.truncate(0)
        return text

    film = {"width": 64, "seconds": 0.2, "fps": 20}
    for path in ("run.gif", "run.mp4"):
        assert re.search(r"100%.*4/4 .* frames/s\]", said(path, **film, progress=True))
        assert said(path, **film) == said(path, on=terminal, **film, progress=False) == ""
    assert said("run.gif", on=terminal, **film) == ""  # it has not taken a second
    monkeypatch.setattr("liebody.base.progress.DELAY", 1e-9)
    assert "4/4" in said("run.gif", on=terminal, **film)
    assert said("run.png", width=64, progress=True) == said("run.html", progress=True) == ""


def test_programs_without_standard_error_simulate_and_save_films(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)  # as of pythonw on Windows
    run = lb.simulate(lb.load("double_pendulum"), [0.4, -0.9], t_end=0.1, dt=1e-2)
    run.view().save(tmp_path / "run.gif", width=64, seconds=0.1)
    assert (tmp_path / "run.gif").read_bytes()[:3] == b"GIF"


def test_names_of_a_picture_point_at_what_they_name():
    """At the picture's places of centres of mass, joints and frames, by the camera of the picture."""
    robot, q = lb.load("revolute_hopper"), [-2.5, 0, 0.26, 1.8]
    figure = robot.view(q).figure(("bodies", "joints", "frames"), width=320, height=240)
    (axis,) = figure.axes
    assert axis.images[0].get_array().shape == (240, 320, 3)
    named = {text.get_text(): np.array(text.xy) for text in axis.texts}
    assert set(named) == {"base", "knee", "shank", "foot"}
    poses = robot.poses(q)
    coms = [T[:3, :3] @ body.inertia.com + T[:3, 3] for T, body in zip(poses, robot.tree.bodies, strict=True)]
    places = {
        "base": coms[0],
        "shank": coms[1],
        "knee": poses[1, :3, 3],
        "foot": robot.pose(q, "foot")[:3, 3],
    }
    down = {name: (-x[2], named[name][1]) for name, x in places.items()}
    assert sorted(down, key=lambda name: down[name][0]) == sorted(down, key=lambda name: down[name][1])
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axis.texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    with pytest.raises(LiebodyError, match="no names of 'links'; there are bodies, joints, frames"):
        robot.view(q).figure(("links",))


def test_what_is_nearer_hides_what_is_behind(tmp_path):
    builder = TreeBuilder("two").add("near", Free(), SpatialInertia.sphere(1.0, 0.5))
    robot = lb.Robot(builder.add("far", Free(), SpatialInertia.sphere(1.0, 0.5)).build())
    q = np.concatenate([robot.neutral()[:7], robot.neutral()[7:]])
    shown = view(robot, q)
    eye = shown.scene.camera / np.linalg.norm(shown.scene.camera)
    middles = []
    for sign in (1, -1):
        q[4:7], q[11:14] = sign * 0.6 * eye, -sign * 0.6 * eye
        view(robot, q).save(tmp_path / "two.png", width=160)
        pixel = np.asarray(Image.open(tmp_path / "two.png"))[45, 80].astype(int)
        middles.append("blue" if pixel[2] > pixel[0] else "orange")
    assert middles == ["blue", "orange"]


# -- ways to get there ------------------------------------------------------------------------------------


def test_a_run_saves_itself_as_a_page_and_knows_its_robot(tmp_path):
    _, robot, run = made("pendulum")
    run.save(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text() == run.view().html == view(robot, run).html
    run.save(tmp_path / "run.nc")
    loaded = lb.Run.load(tmp_path / "run.nc")
    with pytest.raises(LiebodyError, match=r"does not know its system; give it, run.view\(robot\)"):
        loaded.view()
    assert read(loaded.view(robot).html)[0]["t"] == read(run.view().html)[0]["t"]


def test_runs_with_constraints_and_members_of_batches_know_their_system():
    assert made("closed loop")[2].view().scene.drawing.name == "four-bar"
    assert made("absolute coordinates")[2].view().scene.drawing.name == "three-bar"
    assert made("ensemble")[2].member(1).view().scene.poses.shape[0] == 1


def test_a_robot_shows_itself(tmp_path, monkeypatch):
    robot = lb.models.puma560()
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda page: opened.append(page) or True)
    path = robot.view([0, -0.8, 0.4, 0.3, 0.5, 0]).show()
    assert opened == [path.as_uri()] and path.read_text().startswith("<!DOCTYPE html>")
    assert robot.view(robot.random(0, 3)).scene.poses.shape[:2] == (3, 1)


def test_where_there_is_no_browser_the_page_is_named(monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda page: False)
    with pytest.warns(UserWarning, match=r"there is no browser to open; the page is .*view\.html"):
        lb.models.double_pendulum().view().show()


def test_the_command_line_writes_pages_and_opens_them(tmp_path, monkeypatch):
    _, _, run = made("pendulum")
    run.save(tmp_path / "run.nc")
    for arguments in (["double_pendulum"], ["double_pendulum", str(tmp_path / "run.nc")]):
        result = CliRunner().invoke(main, ["view", *arguments, "--out", str(tmp_path / "page.html")])
        assert result.exit_code == 0, result.output
        assert len(read((tmp_path / "page.html").read_text())[0]["energies"]) == 2 * (len(arguments) - 1)
    save = ["simulate", "double_pendulum", "--t-end", "0.1", "--save", str(tmp_path / "sim.html")]
    assert CliRunner().invoke(main, save).exit_code == 0 and (tmp_path / "sim.html").is_file()
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda page: opened.append(page) or True)
    assert CliRunner().invoke(main, ["view", "double_pendulum"]).exit_code == 0
    assert len(opened) == 1


def test_what_cannot_be_shown_is_refused(tmp_path):
    _, robot, run = made("pendulum")
    with pytest.raises(ModelError, match="cannot be drawn: expected a Robot"):
        view(3)
    with pytest.raises(ModelError, match="no motions in space"):
        view(R(3))
    with pytest.raises(ShapeError, match=r"q has shape \(1,\), expected"):
        robot.view([0.0])
    with pytest.raises(ModelError, match="there is no frame 'toe'; there are tip"):
        run.view(trace=["toe"])
    with pytest.raises(LiebodyError, match=r"views are saved as .html, .gif, .mp4 or .png"):
        run.view().save(tmp_path / "run.avi")
    with pytest.raises(LiebodyError, match="a film needs a motion"):
        robot.view().save(tmp_path / "robot.gif")
    with pytest.raises(ShapeError, match=r"q has shape \(0, .*, expected"):
        robot.view(np.zeros((0, robot.nq)))
    with pytest.raises(LiebodyError, match=r"there is no folder .*nowhere; make it first"):
        run.view().save(tmp_path / "nowhere" / "run.mp4")


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("run.png", {"width": 0}, "width is 0, expected a whole number, 2 or more"),
        ("run.png", {"height": 80.5}, "height is 80.5, expected a whole number"),
        ("run.png", {"layers": ["frame"]}, "there is no layer 'frame'; known are .* did you mean 'frames'"),
        ("run.png", {"at": np.nan}, "at is nan, expected a finite number"),
        ("run.gif", {"fps": 0}, "fps is 0, expected a positive number"),
        ("run.mp4", {"seconds": -1.0}, "seconds is -1.0, expected a positive number"),
        ("run.gif", {"at": 1.0}, "unexpected keyword argument 'at'"),
        ("run.png", {"seconds": 2.0}, "unexpected keyword argument 'seconds'"),
        ("run.html", {"width": 400}, "a page has no width; leave them out"),
    ],
)
def test_options_that_a_file_cannot_have_are_refused(path, options, words, tmp_path):
    with pytest.raises((LiebodyError, TypeError), match=words):
        made("pendulum")[0].save(tmp_path / path, **options)
    assert not (tmp_path / path).exists()


@pytest.mark.parametrize("merge_fixed", [True, False], ids=["no body", "bodies that do not move"])
def test_mechanisms_without_freedom_are_drawn(merge_fixed, tmp_path):
    text = '<robot name="post"><link name="a">{}</link><link name="b"/>'
    text += '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>'
    ball = '<visual><geometry><sphere radius="0.1"/></geometry></visual>'
    size = []
    for shapes in ("", ball):
        shown = lb.load(text.format(shapes), merge_fixed=merge_fixed).view()
        shown.save(tmp_path / "post.png", width=64)
        picture = np.asarray(Image.open(tmp_path / "post.png").convert("RGB")).reshape(-1, 3)
        size.append(len(np.unique(picture, axis=0)))
        assert "post" in shown.html and shown.figure(width=160)
    assert size[1] > size[0]


def test_one_name_is_as_good_as_a_list_of_it(tmp_path):
    shown, _, run = made("pendulum")
    shown.save(tmp_path / "one.png", width=64, layers="frames")
    shown.save(tmp_path / "list.png", width=64, layers=["frames"])
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "list.png").read_bytes()
    assert run.view(trace="tip").scene.traces[0][0] == run.view(trace=["tip"]).scene.traces[0][0]
    texts = [len(shown.figure(x, width=160).axes[0].texts) for x in ("bodies", ["bodies"])]
    assert texts[0] == texts[1] > 0


# -- in a browser -----------------------------------------------------------------------------------------


def in_chromium(address, tmp_path, *wanted):
    """What a headless Chromium without a network prints; its console says nothing."""
    options = "--headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --hide-scrollbars"
    off = ["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:1", "--enable-logging=stderr"]
    shape = ["--window-size=800,500", "--virtual-time-budget=4000", f"--user-data-dir={tmp_path / 'profile'}"]
    command = ["chromium", *options.split(), *off, *shape, *wanted, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def screenshot(address, tmp_path):
    picture = tmp_path / "picture.png"
    in_chromium(address, tmp_path, f"--screenshot={picture}")
    return np.asarray(Image.open(picture).convert("RGB")).astype(int)


def is_drawn(picture):
    """Whether there are many colours, and none nearly everywhere."""
    colours, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    return len(colours) > 50 and counts.max() < 0.995 * counts.sum()


@pytest.mark.browser
@kinds
def test_a_browser_without_a_network_shows_it_and_it_moves(kind, tmp_path):
    shown = made(kind)[0]
    page = tmp_path / "page.html"
    shown.save(page)
    t = shown.scene.t
    times = t[0], t[0] + 0.7 * (t[-1] - t[0])
    first, later = (screenshot(f"{page.as_uri()}#t={x}", tmp_path)[70:330, 150:600] for x in times)
    assert is_drawn(first) and is_drawn(later)
    assert (np.abs(later - first).max(axis=-1) > 40).sum() > 200


@pytest.mark.browser
def test_a_page_plays_by_itself(tmp_path):
    made("pendulum")[0].save(tmp_path / "page.html")
    found = in_chromium((tmp_path / "page.html").as_uri(), tmp_path, "--dump-dom")
    clock = float(re.search(r'<output id="clock">([\d.]+) s', found)[1])
    assert 0 < clock <= 1


@pytest.mark.browser
def test_arrow_keys_turn_a_page_and_plus_comes_nearer(tmp_path):
    """Another picture after each key; back and forth again give the first one."""
    made("pendulum")[0].save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()

    def after(*keys):
        event = 'new KeyboardEvent("keydown", {key, bubbles: true})'
        press = (
            f'{json.dumps(keys)}.forEach((key) => document.querySelector("canvas").dispatchEvent({event}))'
        )
        script = f"<script>setTimeout(() => {press}, 1500)</script>"  # the page is unpacked first
        (tmp_path / "pressed.html").write_text(page.replace("</body>", f"{script}</body>"))
        return screenshot(f"{(tmp_path / 'pressed.html').as_uri()}#t=0.5", tmp_path)[70:330, 150:600]

    first = after()
    for keys in (["ArrowLeft"] * 9, ["ArrowUp"] * 9, ["+"] * 9):
        assert (np.abs(after(*keys) - first).max(axis=-1) > 40).sum() > 200
    back = after("ArrowLeft", "ArrowUp", "+", "-", "ArrowDown", "ArrowRight")
    assert (np.abs(back - first).max(axis=-1) > 40).sum() < 20


@pytest.mark.browser
def test_a_cell_of_a_notebook_shows_the_mechanism(tmp_path):
    (tmp_path / "cell.html").write_text(made("URDF with meshes")[0]._repr_html_(), encoding="utf-8")
    assert is_drawn(screenshot((tmp_path / "cell.html").as_uri(), tmp_path)[70:330, 150:600])


def test_capsules_of_an_mjcf_are_drawn_with_their_ends():
    for slenderness in (0.0, 1.5, 8.0):
        vertices, faces = capsule(slenderness)
        a, b, c = np.moveaxis(vertices[faces], 1, 0)
        volume = np.einsum("ni,ni->", a, np.cross(b, c)) / 6
        assert volume == pytest.approx(np.pi * (slenderness + 4 / 3), rel=3 * (np.pi / AROUND) ** 2)
        assert np.ptp(vertices[:, 2]) == pytest.approx(2 + slenderness)
    pytest.importorskip("mujoco")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = lb.load(ROOT / "tests" / "mjcf" / "arm.xml")
    kinds = [shape.kind for shape in robot.tree.description.shapes]
    assert "capsule" in kinds
    assert "plane" in kinds
    drawn = drawing_of(robot.tree).solids
    lengths = [np.ptp(solid.mesh.vertices[:, 2]) for solid in drawn]
    assert any(length > 2.5 for length in lengths)  # in radii: no ball


def standing(ground):
    """A sphere over a ground, for time stepping."""
    ball = lb.models.free_rigid_body()
    floor = Contact(
        ball.tree.bodies[0].name, stiffness=1e5, damping=1e3, friction=0.5, radius=0.05, ground=ground
    )
    return TimeStepping(ball, floor)


def ground_of(drawing):
    (solid,) = (x for x in drawing.solids if x.layer == "ground")
    return solid.mesh.vertices @ solid.placement[:3, :3].T + solid.placement[:3, 3]


def test_forces_of_time_stepping_and_boxes_are_shown():
    """A ball falls on a large box, which pictures are not made to fit."""
    system = standing(Boxes(((0, 0, 0.1), (50, 50, 0.1))))
    run = system.simulate([1, 0, 0, 0, 0, 0, 0.3], t_end=0.3, dt=1e-2)
    scene = view(system, run).scene
    ((body, point, forces),) = scene.forces
    assert body == 1 and not point.any()
    np.testing.assert_array_equal(forces[0], run.outputs["floor_force"][:, 0])
    assert forces[0, :, 2].max() > 0
    v = ground_of(scene)
    np.testing.assert_allclose((v.min(axis=0), v.max(axis=0)), [(-50, -50, 0), (50, 50, 0.2)], atol=1e-12)
    assert np.linalg.norm(scene.camera) < 10 and scene.floor == 0
    lengths = scene.arrow_scale * np.linalg.norm(forces[0], axis=-1)
    assert 0.1 * scene.size < lengths[-1] < 0.8 * scene.size  # at rest, whatever the impact was


def test_height_fields_are_shown_to_where_they_begin_again():
    x, y, z = ground_of(drawing_of(standing(HeightField([[0.0, 0.1, 0.0], [0.2, 0.0, 0.1]], (0.5, 0.25))))).T
    assert (x.max(), y.max()) == (1.0, 0.75)
    np.testing.assert_array_equal([z[(x == 0.5) & (y == 0.25)], z[(x == 1.0) & (y == 0.25)]], [[0.0], [0.1]])
    np.testing.assert_array_equal(z[y == 0.0], z[y == 0.75])
