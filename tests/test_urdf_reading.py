"""Which descriptions are read, refused, or read with a warning; and inertias from collision geometry."""

import itertools
import math
import struct
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import DescriptionError, ModelError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.dynamics import mass_matrix
from liebody.groups import Free, Prismatic, Revolute
from liebody.io import AssumedDynamics, UnusedElements, load_urdf, read_urdf
from liebody.io.meshes import read_stl
from liebody.io.report import report

ORIGIN = '<origin xyz="0.1 0 0"/>'
MASS = '<mass value="2"/>'
INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
INERTIAL = f"<inertial>{ORIGIN}{MASS}{INERTIA}</inertial>"
AXIS = '<axis xyz="0 0 1"/>'
LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'


def hinged(link=INERTIAL, joint=AXIS + LIMIT, rest="", name='name="r"', kind="revolute"):
    """A robot of two links; line 2 is the first, line 3 the second, line 4 the joint."""
    return (
        f'<robot {name}>\n<link name="a">{INERTIAL}</link>\n<link name="b">{link}</link>\n'
        f'<joint name="j" type="{kind}"><parent link="a"/><child link="b"/>{joint}</joint>\n{rest}</robot>'
    )


def visual(inside):
    return hinged(f"{INERTIAL}<visual>{inside}</visual>")


BOX = '<geometry><box size="1 1 1"/></geometry>'
COLORED = '<material name="red"><color rgba="1 0 0 1"/></material>'

IDLE = {
    # what dynamics do not depend on -> its kind
    "a mesh that is missing": (visual('<geometry><mesh filename="none.stl"/></geometry>'), None),
    "a mesh outside, by package": (
        visual('<geometry><mesh filename="package://p/../../x.stl"/></geometry>'),
        "mesh outside the package folder",
    ),
    "a mesh without file": (visual("<geometry><mesh/></geometry>"), "link/visual that cannot be read"),
    "a mesh scale of two numbers": (
        visual('<geometry><mesh filename="x.stl" scale="1 1"/></geometry>'),
        "link/visual that cannot be read",
    ),
    "two geometries": (visual(BOX + BOX), "link/visual that cannot be read"),
    "a collision of words": (
        hinged(f'{INERTIAL}<collision><geometry><sphere radius="large"/></geometry></collision>'),
        "link/collision that cannot be read",
    ),
    "a second material": (
        visual(BOX + COLORED + '<material name="blue"/>'),
        "link/visual/material beside another",
    ),
    "a color of three numbers": (
        visual(BOX + '<material name="red"><color rgba="1 0 0"/></material>'),
        "link/visual/material that cannot be read",
    ),
    "two materials of a name": (hinged(rest=COLORED + COLORED), None),
    "a color of the robot's that is none": (
        hinged(rest='<material name="red"><color/></material>'),
        "material that cannot be read",
    ),
    "an empty name": (hinged(name='name=""'), "@name that is not a name"),
    "a name that is none": (hinged(name='name="r%s"'), "@name that is not a name"),
    "no name": (hinged(name=""), None),
    "limits exchanged": (
        hinged(joint=AXIS + '<limit lower="1" upper="-1" effort="1" velocity="1"/>'),
        "joint/limit with lower above upper",
    ),
    "a limit that is nan": (
        hinged(joint=AXIS + '<limit lower="nan" upper="1"/>'),
        "joint/limit that cannot be read",
    ),
    "a negative effort limit": (
        hinged(joint=AXIS + '<limit lower="-1" upper="1" effort="-1"/>'),
        "joint/limit@effort below zero",
    ),
    "a negative velocity limit": (
        hinged(joint=AXIS + '<limit lower="-1" upper="1" velocity="-1"/>'),
        "joint/limit@velocity below zero",
    ),
    "a second limit": (hinged(joint=AXIS + LIMIT + LIMIT), "joint/limit beside another"),
    "blank lines before the declaration": ('\n\n <?xml version="1.0"?>\n' + hinged(), None),
    "a byte order mark": ("\ufeff" + hinged(), None),
}


def as_file(text, folder):
    file = folder / "robot.urdf"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", IDLE)
def test_what_dynamics_do_not_depend_on_refuses_nothing_and_is_counted(name, tmp_path):
    text, kind = IDLE[name]
    plain = load_urdf(hinged())
    for source in (text, text.encode(), as_file(text, tmp_path)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = load_urdf(source)
        assert tree.description.unused == ({} if kind is None else {kind: 1})
        assert mass_matrix(tree, np.zeros(1)) == mass_matrix(plain, np.zeros(1))
        if kind is not None:
            assert kind in str(report(tree))
            with pytest.warns(UnusedElements, match=kind):
                load_urdf(source, unused=True)


def test_limits_that_contradict_themselves_are_none():
    text = hinged(joint=AXIS + '<limit lower="1" upper="-1" effort="-1" velocity="2"/>')
    joint = load_urdf(text).joint("j")
    assert (joint.lower, joint.upper, joint.effort_limit) == (-math.inf, math.inf, math.inf)
    assert joint.velocity_limit == 2


def test_a_kind_is_counted_once_however_often_it_occurs():
    bad = '<visual><geometry><mesh filename="x.stl" scale="1 1"/></geometry></visual>'
    tree = load_urdf(hinged(INERTIAL + 7 * bad))
    assert tree.description.unused == {"link/visual that cannot be read": 7}
    with pytest.warns(UnusedElements) as caught:
        load_urdf(hinged(INERTIAL + 7 * bad), unused=True)
    assert len(caught) == 1


def test_a_shape_beside_a_bad_one_is_kept_with_the_first_of_its_materials():
    bad = '<visual><geometry><sphere radius="nan"/></geometry></visual>'
    good = f'<visual>{BOX}{COLORED}<material name="blue"><color rgba="0 0 1 1"/></material></visual>'
    (shape,) = load_urdf(hinged(INERTIAL + bad + good)).description.shapes
    assert (shape.kind, shape.color) == ("box", (1, 0, 0, 1))


@pytest.mark.parametrize("part", ["<axis/>", '<axis xyz="0 1"/>', AXIS + AXIS, '<dynamics damping="x"/>'])
def test_what_a_fixed_joint_says_of_motion_is_not_used(part):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = load_urdf(hinged(joint=part, kind="fixed"), floating=True)
    assert sum(tree.description.unused.values()) == 1 and tree.mass == 4


# -- what dynamics depend on, and a file leaves open ------------------------------------------------------

POINT = SpatialInertia.point(2, [0.1, 0, 0])
STATED = SpatialInertia(2, [0.1, 0, 0], np.eye(3))
MORE = '<inertial><mass value="7"/></inertial>'

ASSUMED = {
    # what the file leaves open -> how it is read, its line, the inertia and the axis that result
    "no mass": (
        hinged(f"<inertial>{ORIGIN}{INERTIA}</inertial>"),
        "an <inertial> without <mass> is none (1 time, line 3)",
        SpatialInertia(),
    ),
    "no inertia": (
        hinged(f"<inertial>{ORIGIN}{MASS}</inertial>"),
        "a <mass> without <inertia> is that of a point (1 time, line 3)",
        POINT,
    ),
    "a second inertial": (
        hinged(INERTIAL + MORE + MORE),
        "of several <inertial> in a <link> the first counts (2 times, line 3)",
        STATED,
    ),
    "a second mass": (
        hinged(f'<inertial>{ORIGIN}{MASS}<mass value="7"/>{INERTIA}</inertial>'),
        "of several <mass> in a <inertial> the first counts (1 time, line 3)",
        STATED,
    ),
    "a second inertia": (
        hinged(f"<inertial>{ORIGIN}{MASS}{INERTIA}{INERTIA.replace('1', '3')}</inertial>"),
        "of several <inertia> in a <inertial> the first counts (1 time, line 3)",
        STATED,
    ),
    "a second axis": (
        hinged(joint=AXIS + '<axis xyz="1 0 0"/>' + LIMIT),
        "of several <axis> in a <joint> the first counts (1 time, line 4)",
        STATED,
    ),
    "a second origin": (
        hinged(joint=f'{AXIS}<origin xyz="1 2 3"/><origin xyz="4 5 6"/>' + LIMIT),
        "of several <origin> in a <joint> the first counts (1 time, line 4)",
        STATED,
    ),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_what_a_file_leaves_open_is_read_as_urdfdom_reads_it_and_said(name, tmp_path):
    text, said, inertia = ASSUMED[name]
    for source in (text, text.encode(), as_file(text, tmp_path)):
        with pytest.warns(AssumedDynamics) as caught:
            tree = load_urdf(source, check=False)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert said in str(caught[0].message)
        assert said in str(report(tree))
    np.testing.assert_allclose(tree.body("b").inertia.matrix(), inertia.matrix(), atol=1e-15)
    assert tree.joint("j").group == Revolute((0, 0, 1))

    pinocchio = pytest.importorskip("pinocchio")
    model = pinocchio.buildModelFromXML(text)
    theirs = model.inertias[1]
    ours = tree.body("b").inertia
    assert theirs.mass == ours.mass and np.allclose(theirs.inertia, ours.rotational, atol=1e-15)
    assert np.allclose(theirs.lever, ours.com if ours.mass else 0, atol=1e-15)
    assert np.allclose(model.jointPlacements[1].translation, tree.body("b").placement[:3, 3])


def test_products_of_inertia_that_are_not_stated_are_zero_and_that_is_said():
    with pytest.warns(AssumedDynamics, match=r"products of inertia .* are zero \(1 time, line 3\)"):
        tree = load_urdf(hinged(f'<inertial>{MASS}<inertia ixx="1" iyy="2" izz="2.5"/></inertial>'))
    np.testing.assert_array_equal(tree.body("b").inertia.rotational, np.diag([1, 2, 2.5]))


def test_a_moving_joint_without_direction_is_refused_as_mujoco_refuses_it():
    """urdfdom goes on with the axis (0, 0, 0)."""
    with pytest.raises(DescriptionError, match=r"line 4: no attribute 'xyz' in <axis>.*Remedy: add xyz="):
        load_urdf(hinged(joint="<axis/>" + LIMIT))
    mujoco = pytest.importorskip("mujoco")
    with pytest.raises(ValueError, match="xyz"):
        mujoco.MjModel.from_xml_string(hinged(joint="<axis/>" + LIMIT))


def test_lines_are_those_of_the_file_also_after_blank_lines(tmp_path):
    text = "\n \n\n" + hinged(INERTIAL.replace('"2"', '"x"'))
    for source in (text, text.encode(), as_file(text, tmp_path)):
        with pytest.raises(DescriptionError, match=r"line 6: value='x'"):
            load_urdf(source)
    with pytest.raises(DescriptionError, match=r"line 4: malformed XML"):
        load_urdf("\n\n\n<robot name=r>")


# -- floating bases ---------------------------------------------------------------------------------------


def test_a_robot_that_floats_already_is_told_so():
    text = (
        f'<robot name="r"><link name="map"/><link name="base">{INERTIAL}</link>'
        '<joint name="afloat" type="floating"><parent link="map"/><child link="base"/></joint></robot>'
    )
    assert load_urdf(text).nv == 6
    for check in (True, "warn", False):
        with pytest.raises(
            ModelError, match=r"already floats, by its joint 'afloat'\. Remedy: load it without"
        ):
            lb.load(text, floating=True, check=check)
    carrier = text.replace('<link name="map"/>', f'<link name="map">{INERTIAL}</link>')
    assert load_urdf(carrier, floating=True).nv == 12  # a ship with a boat


# -- followers --------------------------------------------------------------------------------------------


def _calls(function):
    """How many calls of functions, of Python and of C, it makes."""
    count = itertools.count()

    def profile(_frame, event, _argument):
        if event in ("call", "c_call"):
            next(count)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return next(count)


def _followers(n):
    links = "".join(f'<link name="l{i}">{INERTIAL}</link>' for i in range(n + 1))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/>'
        + (f'<mimic joint="j{i + 1}" multiplier="-1" offset="0.5"/></joint>' if i < n - 1 else "</joint>")
        for i in range(n)
    )
    return f'<robot name="r">{links}{joints}</robot>'


def _built(n):
    builder = TreeBuilder()
    for i in range(n):
        mimic = Mimic(f"j{i + 1}", -1, 0.5) if i < n - 1 else None
        builder.add(f"l{i}", Joint(f"j{i}", Revolute((0, 0, 1)), mimic=mimic), STATED)
    return builder


@pytest.mark.wide
def test_followers_in_a_row_are_read_in_proportion_to_their_number():
    tree = load_urdf(_followers(1001))
    assert tree.nv == 1
    q = np.array([0.2])
    coordinates = [float(body.joint_coordinates(q)[0]) for body in tree.bodies]
    assert coordinates[-2:] == [0.5 - 0.2, 0.2] and coordinates[0] == pytest.approx(0.2)
    for call in (lambda n: read_urdf(_followers(n)), lambda n: _built(n).build(check=False)):
        small, large = (_calls(lambda n=n, call=call: call(n)) for n in (100, 400))
        assert large < 4.2 * small

    assert read_urdf(_followers(3000)).links[1].joint.mimic == Mimic("j1", -1, 0.5)


@pytest.mark.parametrize("n", [2, 5])
def test_followers_in_a_circle_are_refused_by_the_builder(n):
    builder = TreeBuilder()
    for i in range(n):
        builder.add(f"l{i}", Joint(f"j{i}", Prismatic((0, 0, 1)), mimic=Mimic(f"j{(i + 1) % n}")), STATED)
    with pytest.raises(ModelError, match=r"j0, j1.* in a circle"):
        builder.build()


# -- inertias from collision geometry ---------------------------------------------------------------------

FROM = {"inertia": "from collision geometry"}
SIZES = {"box": 'size="0.1 0.2 0.3"', "cylinder": 'radius="0.1" length="0.4"', "sphere": 'radius="0.2"'}


def collision(shape, place='xyz="0.1 -0.2 0.3" rpy="0.3 0.2 -0.4"'):
    return f"<collision><origin {place}/><geometry>{shape}</geometry></collision>"


def test_shapes_filled_with_matter_have_the_inertia_of_textbooks():
    ball = 1000 * 4 / 3 * math.pi * 0.2**3
    can = 1000 * math.pi * 0.1**2 * 0.4
    expected = {
        "box": SpatialInertia(6, [0, 0, 0], [0.5 * 0.13, 0.5 * 0.1, 0.5 * 0.05]),
        "sphere": SpatialInertia(ball, [0, 0, 0], [0.4 * ball * 0.04] * 3),
        "cylinder": SpatialInertia(can, [0, 0, 0], [can * (0.01 / 4 + 0.16 / 12)] * 2 + [can * 0.005]),
    }
    for kind, size in SIZES.items():
        found = load_urdf(hinged(collision(f"<{kind} {size}/>", 'xyz="0 0 0"')), **FROM).body("b").inertia
        np.testing.assert_allclose(found.matrix(), expected[kind].matrix(), rtol=1e-14, atol=1e-15)


def test_links_that_state_no_inertia_have_that_of_their_shapes_as_in_mujoco():
    mujoco = pytest.importorskip("mujoco")
    shapes = "".join(collision(f"<{kind} {size}/>") for kind, size in SIZES.items())
    text = hinged(shapes + collision('<sphere radius="0.1"/>', 'xyz="0.5 0 0"'))
    tree = load_urdf(text, **FROM, density=1000.0)
    model = mujoco.MjModel.from_xml_string(text)
    ours, theirs = tree.body("b").inertia, model.body("b")
    assert ours.mass == pytest.approx(theirs.mass[0], rel=1e-12)
    np.testing.assert_allclose(ours.com, theirs.ipos, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(ours.rotational)[::-1], np.sort(theirs.inertia)[::-1], rtol=1e-9
    )
    heavy = load_urdf(text, **FROM, density=3000.0).body("b").inertia
    np.testing.assert_allclose(heavy.matrix(), 3 * ours.matrix(), rtol=1e-14)


def test_inertias_that_are_stated_stay_and_zeros_are_none():
    shape = collision(f"<box {SIZES['box']}/>")
    stated = load_urdf(hinged(INERTIAL + shape), **FROM).body("b").inertia
    np.testing.assert_array_equal(stated.matrix(), STATED.matrix())
    zero = '<inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'
    for none in ("", zero):
        assert load_urdf(hinged(none + shape), **FROM).body("b").inertia.mass == pytest.approx(6)


def test_motions_without_inertia_are_refused_with_the_links_and_the_option_that_helps():
    text = hinged(collision(f"<box {SIZES['box']}/>"))
    with pytest.raises(ModelError) as error:
        load_urdf(text)
    words = [
        "'b' moves by joint 'j'",
        "links that state no inertia: 'b' (line 3)",
        'take those of links without from their shapes, inertia="from collision geometry"',
    ]
    assert all(word in str(error.value) for word in words), str(error.value)
    with pytest.raises(ModelError) as error:
        load_urdf(hinged(""))  # there are no shapes, so the option is not named
    assert "geometry" not in str(error.value) and 'check="warn"' in str(error.value)


def test_an_inertia_of_no_body_is_refused_with_the_link_that_states_it_and_not_its_carrier_alone():
    bad = INERTIAL.replace('ixx="1"', 'ixx="-9"')
    weld = '<joint name="weld" type="fixed"><parent link="b"/><child link="c"/></joint>'
    with pytest.raises(ModelError) as error:
        load_urdf(hinged(rest=f'<link name="c">{bad}</link>{weld}'))
    words = ["body 'b': rotational", "links that state the inertia of no body: 'c' (line 5)", 'check="warn"']
    assert all(word in str(error.value) for word in words), str(error.value)


def cube():
    """The 12 triangles of the unit cube in the first octant, anticlockwise from outside; exact numbers."""
    faces = []
    for axis, side in itertools.product(range(3), (0, 1)):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        corners = np.zeros((4, 3))
        corners[:, axis] = side
        corners[[1, 2], u] = corners[[2, 3], v] = 1
        corners = corners if side else corners[::-1]
        faces += [corners[[0, 1, 2]], corners[[0, 2, 3]]]
    return np.array(faces)


def icosphere(levels):
    """A ball of triangles, each cut into four `levels` times."""
    points = [np.array(p, float) for p in itertools.product((-1, 0, 1), repeat=3) if sum(map(abs, p)) == 1]
    triangles = [t for t in itertools.permutations(points, 3) if np.linalg.det(t) > 0 and abs(np.sum(t)) <= 3]
    triangles = np.unique(
        np.array([np.roll(t, -min(range(3), key=lambda i, t=t: tuple(t[i])), axis=0) for t in triangles]),
        axis=0,
    )
    for _ in range(levels):
        a, b, c = triangles.transpose(1, 0, 2)
        ab, bc, ca = ((x + y) / np.linalg.norm(x + y, axis=1)[:, None] for x, y in ((a, b), (b, c), (c, a)))
        triangles = np.concatenate(
            [np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )
    return triangles


def binary_stl(triangles, comment=b"solid in name only"):
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *t.ravel(), 0) for t in triangles)
    return comment.ljust(80) + struct.pack("<I", len(triangles)) + body


def text_stl(triangles):
    facets = "".join(
        "facet normal 0 0 0\n outer loop\n"
        + "".join(f"  vertex {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in t)
        + " endloop\nendfacet\n"
        for t in triangles
    )
    return f"solid cube\n{facets}endsolid cube\n".encode()


def test_a_tetrahedron_has_its_exact_inertia():
    """Over the corners 0, e1, e2, e3: volume 1/6, int x = 1/24, int x x = 1/60, int x y = 1/120."""
    o, x, y, z = np.zeros(3), *np.eye(3)
    found = SpatialInertia.polyhedron(120.0, [(o, y, x), (o, x, z), (o, z, y), (x, y, z)])
    m, h, Sigma = found.moments
    assert m == pytest.approx(20, rel=1e-15)
    np.testing.assert_allclose(h, 120 * float(Fraction(1, 24)) * np.ones(3), rtol=1e-14)
    np.testing.assert_allclose(Sigma, 120 * (np.eye(3) / 60 + (1 - np.eye(3)) / 120), rtol=1e-14)


def test_solids_of_triangles_obey_the_laws_of_inertia():
    """A cube is a box, halves add up, inside out changes nothing, and what is far away moves along."""
    whole = SpatialInertia.polyhedron(3.0, cube())
    box = SpatialInertia.box(3.0, (1, 1, 1), (0.5, 0.5, 0.5))
    np.testing.assert_allclose(whole.matrix(), box.matrix(), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(
        SpatialInertia.polyhedron(3.0, cube()[:, ::-1]).matrix(), box.matrix(), rtol=1e-14, atol=1e-15
    )
    lower, upper = cube() * [1, 1, 0.25], cube() * [1, 1, 0.75] + [0, 0, 0.25]
    halves = SpatialInertia.polyhedron(3.0, lower) + SpatialInertia.polyhedron(3.0, upper)
    np.testing.assert_allclose(halves.matrix(), box.matrix(), rtol=1e-14, atol=1e-15)
    T = Free().pose(Free().normalize(np.array([0.3, -0.5, 0.7, 0.2, 30.0, -20.0, 10.0])))
    turned = SpatialInertia.polyhedron(3.0, cube() @ T[:3, :3].T + T[:3, 3])
    np.testing.assert_allclose(turned.rotational, box.shift(T).rotational, atol=1e-12)
    np.testing.assert_allclose(turned.com, box.shift(T).com, rtol=1e-12)


def test_a_ball_of_triangles_converges_to_the_sphere_in_second_order():
    exact = SpatialInertia.sphere(1000 * 4 / 3 * math.pi, 1.0).rotational[0, 0]
    errors = [
        exact - SpatialInertia.polyhedron(1000.0, icosphere(level)).rotational[0, 0] for level in (2, 3, 4)
    ]
    assert all(3.5 < a / b < 4.5 for a, b in itertools.pairwise(errors))


@pytest.mark.parametrize("written", [binary_stl, text_stl])
def test_meshes_of_collisions_count_with_their_scale(written, tmp_path):
    (tmp_path / "cube.stl").write_bytes(written(cube()))
    mesh = collision('<mesh filename="cube.stl" scale="0.1 0.2 -0.3"/>', 'xyz="1 0 0"')
    found = load_urdf(as_file(hinged(mesh), tmp_path), **FROM).body("b").inertia
    box = SpatialInertia.box(6.0, (0.1, 0.2, 0.3), (1.05, 0.1, -0.15))
    np.testing.assert_allclose(found.matrix(), box.matrix(), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(read_stl(tmp_path / "cube.stl"), cube())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (binary_stl(cube()[:-1]), "line 3: .* not closed: 3 edges without a neighbour"),
        (binary_stl(cube()[[0, 1, 2, 3, 4]]), "not closed"),
        (binary_stl(np.concatenate([cube(), cube()[:, ::-1]])), "encloses no volume"),
        (binary_stl(cube())[:-1], "'m.stl' is not a whole STL file"),
        (text_stl(cube())[:-100], "not a whole STL file|not closed"),
        (binary_stl(cube() * np.nan), "not a whole STL file"),
        (b"", "not a whole STL file"),
        (None, "'m.stl' was not found"),
    ],
)
def test_meshes_that_enclose_nothing_are_refused_where_their_inertia_is_asked_for(content, words, tmp_path):
    if content is not None:
        (tmp_path / "m.stl").write_bytes(content)
    file = as_file(hinged(collision('<mesh filename="m.stl"/>')), tmp_path)
    with pytest.raises(DescriptionError, match=words):
        load_urdf(file, **FROM)
    assert read_urdf(file).shapes[0].kind == "mesh"  # without the option it is a shape for viewers


@pytest.mark.parametrize(
    ("shape", "words"),
    [('<sphere radius="x"/>', "line 3: radius='x'"), ("<cone/>", "no shape to take an inertia from")],
)
def test_a_collision_that_cannot_be_read_is_refused_where_its_inertia_is_asked_for(shape, words):
    assert read_urdf(hinged(collision(shape))).shapes == ()
    with pytest.raises(DescriptionError, match=words):
        load_urdf(hinged(collision(shape)), **FROM)
