"""Tubes of closed trees: closed forms and solutions of 25 digits, and starts on the closures."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest
from test_enclosures import inside, motion
from test_velocity_constraints import sleigh_in_joints

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, ModelError
from liebody.compiler import exactly
from liebody.enclosures import EnclosureError
from liebody.enclosures.closed_trees import eliminated, motion_of_closed_tree, pivots
from liebody.enclosures.sets import Moved
from liebody.groups import Revolute, Spherical
from liebody.mechanisms.constrained import ClosedTree, Closure

HINGE = Revolute([0, 1, 0])
ACROSS = 1.5  # between the pivots on the ground
ANGLE = 0.625


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(30):
        yield


def link(mass, place, inertia=0.25):
    return lb.SpatialInertia(mass, [place, 0, 0], rotational=np.diag([inertia] * 3))


def parallelogram():
    """Two cranks of length 1 and a coupler that does not turn: d2q/dt2 = g cos q, as the masses are."""
    tree = (
        lb.TreeBuilder("parallelogram")
        .add("crank", HINGE, link(1.0, 0.5))
        .add("coupler", HINGE, link(2.0, 0.5), "crank", [1.0, 0, 0])
        .add("rocker", HINGE, link(1.0, 0.5), placement=[ACROSS, 0, 0])
        .frame("end", "coupler", [ACROSS, 0, 0])
        .frame("tip", "rocker", [1.0, 0, 0])
        .build()
    )
    return ClosedTree(tree, [Closure("pin", HINGE, "end", "tip")])


def swings(t, angle=ANGLE, rate=0.5, g=9.81):
    """(q, dq/dt) of the parallelogram."""
    y = motion(lambda t, y: [y[1], mp.mpf(g) * mp.cos(y[0])], [mp.mpf(angle), mp.mpf(rate)], t, 12)
    signs = 1, -1, 1
    return [s * y[0] for s in signs] + [s * y[1] for s in signs]


START = [ANGLE, -ANGLE, ANGLE], [0.5, -0.5, 0.5]


def test_a_tube_from_one_state_contains_the_motion_of_25_digits():
    tube = lb.enclose(parallelogram(), *START, 0.4)
    for t in (0.1, 0.25, 0.4):
        assert inside(tube.at(t), swings(t))
    assert tube.width < 1e-11 and tube.names[:3] == ["crank", "coupler", "rocker"]
    again = pickle.loads(pickle.dumps(tube))
    assert np.array_equal(again.at(0.2), tube.at(0.2))


def test_a_tube_from_a_box_contains_motions_from_all_starts_on_the_closures():
    """The other angles follow from that of the crank."""
    r = 1e-5
    q0 = [(ANGLE - r, ANGLE + r), *START[0][1:]]
    tube = lb.enclose(parallelogram(), q0, START[1], 0.3)
    assert np.allclose(np.ptp(tube.ends[0], axis=1)[:3], 2 * r, rtol=0.05)
    ends = []
    for part in (-1, -0.3, 0.5, 1):
        ends.append(swings(0.3, mp.mpf(ANGLE) + part * mp.mpf(r)))
        assert inside(tube.ends[-1], ends[-1])
    spread = [float(b - a) for a, b in zip(ends[0], ends[-1])]
    assert (np.ptp(tube.ends[-1], axis=1) < 2.5 * np.abs(spread)).all()


def test_parameters_may_have_bounds():
    tube = lb.enclose(parallelogram(), *START, 0.3, parameters={"gravity[2]": ("-9.811", "-9.809")})
    for g in ("9.809", "9.8103", "9.811"):
        assert inside(tube.ends[-1], swings(0.3, g=mp.mpf(g)))
    assert 1e-4 < tube.width < 1e-3


def test_efforts_act():
    """The effort of the crank: 3 d2q/dt2 = 3 g cos q + tau."""
    tube = lb.enclose(parallelogram(), *START, 0.2, tau=lambda t, q, v: np.array([-3.0 * v[0], 0, 0]))
    y = motion(lambda t, y: [y[1], mp.mpf(9.81) * mp.cos(y[0]) - y[1]], [mp.mpf(ANGLE), mp.mpf(0.5)], 0.2, 12)
    assert inside(tube.ends[-1][[0, 3]], y)


def ball_jointed_pair():
    """Two bodies on ball joints, tied by a rod: rotations in space."""
    tree = (
        lb.TreeBuilder("pair")
        .add("left", Spherical(), link(1.0, 0.5))
        .add("right", Spherical(), link(1.5, 0.5), placement=[0, 1.0, 0])
        .frame("a", "left", [1.0, 0, 0])
        .frame("b", "right", [1.2, 0, 0])
        .build()
    )
    return ClosedTree(tree, [Closure("rod", 0.9, "a", "b")])


def spatial_loop():
    """A ball joint in a loop whose last pin locks rotations: its equations have conditions."""
    tree = (
        lb.TreeBuilder("spatial loop")
        .add("crank", HINGE, link(1.0, 0.5))
        .add("coupler", Spherical(), link(2.0, 1.0), "crank", [1.0, 0, 0])
        .add("rocker", HINGE, link(1.0, 0.7), placement=[2.2, 0, 0])
        .frame("end", "coupler", [2.0, 0, 0])
        .frame("tip", "rocker", [1.5, 0, 0])
        .build()
    )
    return ClosedTree(tree, [Closure("pin", HINGE, "end", "tip")])


@pytest.mark.parametrize(
    ("made", "guess", "speed"),
    [
        (ball_jointed_pair, [1, 0, 0, 0, 1, 0, 0, 0], [0.3, 0.5, 0.1, 0.2, 0.4, 0.0]),
        (spatial_loop, [-1.0, 1, 0, 0.25, 0, -2.0], [1.0, 0, 0, 0, 0]),
    ],
)
def test_loops_in_space_keep_their_closures_and_energy(made, guess, speed):
    closed = made()
    q = closed.assemble(closed.group.normalize(np.array(guess, float)))
    v = closed.consistent_velocities(q, speed)
    tube = lb.enclose(closed, q, v, 0.1)
    assert tube.width < 1e-11
    run = lb.simulate(closed, q, v, t_end=0.1, dt=1e-4, method="rkmk8")
    middles = tube.ends[-1].mean(axis=-1)
    assert np.abs(np.concatenate([run.q[-1], run.v[-1]]) - middles).max() < 1e-11
    norms = [tube.bounds(lambda t, q, v, k=k: q[k : k + 4] @ q[k : k + 4]) for k in closed.group.quaternions]
    residual = tube.bounds(lambda t, q, v: closed.loop_rows(q, v, t).rate)
    assert all(low <= 1 <= high and high - low < 1e-10 for low, high in norms)
    assert (residual[0] <= 0).all() and (residual[1] >= 0).all() and np.ptp(residual, axis=0).max() < 1e-10


def test_a_knife_edge_follows_chaplygins_closed_form():
    """du/dt = a w^2, dw/dt = -(m a / (J + m a^2)) u w (Neimark and Fufaev 1972, chapter 2)."""
    w0, u0, t = 2.0, -0.5, 0.75
    tube = lb.enclose(sleigh_in_joints(), [0, 0, 0], [w0, u0, 0], t)
    m, J, a = map(mp.mpf, (2.0, 0.3, 0.4))
    share = m * a / (J + m * a * a)

    def field(t, y):
        angle, w, u = y[0], *y[3:]
        return [w, u * mp.cos(angle), u * mp.sin(angle), -share * u * w, a * w * w]

    _, x, y, w, u = motion(field, [0, 0, 0, mp.mpf(w0), mp.mpf(u0)], t, 12)
    assert inside(tube.ends[-1][[3, 4, 5]], [w, u, 0]) and tube.width < 1e-11
    places = tube.bounds(lambda t, q, v: np.array(q))
    assert places[0][1] <= x <= places[1][1] and places[0][2] <= y <= places[1][2]


def test_states_off_the_closures_are_refused():
    closed = parallelogram()
    with pytest.raises(ConfigurationError, match=r"violates constraint 'pin'.*assemble"):
        lb.enclose(closed, [ANGLE, -0.6, ANGLE], START[1], 0.1)
    with pytest.raises(ConfigurationError, match=r"breaks constraint 'pin'.*consistent_velocities"):
        lb.enclose(closed, START[0], [0.5, 0.5, 0.5], 0.1)


def test_more_bounds_than_free_entries_are_refused():
    box = [(x - 1e-3, x + 1e-3) for x in START[0]]
    with pytest.raises(ConfigurationError, match="give bounds for fewer entries than crank, coupler, rocker"):
        lb.enclose(parallelogram(), box, START[1], 0.1)


def test_boxes_that_are_too_large_are_refused():
    q0 = [(ANGLE - 0.6, ANGLE + 0.6), *START[0][1:]]
    with pytest.raises(ConfigurationError, match=r"not decided in the box: .*smaller box"):
        lb.enclose(parallelogram(), q0, START[1], 0.1)


def test_arguments_of_robots_are_refused():
    with pytest.raises(ModelError, match="joints is 'real', which a Robot takes"):
        lb.enclose(parallelogram(), *START, 0.1, joints="real")
    with pytest.raises(ModelError, match=r"parallelogram has no parameter 'mass'"):
        lb.enclose(parallelogram(), *START, 0.1, parameters={"mass": (1, 2)})
    with pytest.raises(ArgumentError, match="a Robot, a ClosedTree"):
        lb.enclose(3, *START, 0.1)


def test_elimination_takes_independent_rows_and_columns():
    random = np.random.default_rng(0)
    J = random.normal(size=(3, 5))
    J = np.stack([J[0], J[1], J[0] - 2 * J[1], J[2], 0 * J[0]])
    rows, columns = pivots(J)
    assert len(rows) == len(columns) == 3 and 4 not in rows and len({0, 1, 2} & set(rows)) == 2
    A, B = J[np.ix_(rows, columns)], random.normal(size=(3, 2))
    assert np.allclose(eliminated(A, B).astype(float), np.linalg.solve(A, B), atol=1e-13)
    assert len(pivots(np.zeros((2, 3)))[0]) == 0


def test_a_driven_linkage_follows_its_drive():
    """No entry is free: the drive and the closures determine all of them at each time."""

    def angle(t):
        return ANGLE + 0.5 * np.sin(3 * t)

    driven = parallelogram().with_prescribed({"crank": angle})
    tube = lb.enclose(driven, START[0], [1.5, -1.5, 1.5], 0.3)
    t = mp.mpf(0.3)
    q, v = mp.mpf(ANGLE) + mp.sin(3 * t) / 2, mp.cos(3 * t) * 3 / 2
    assert inside(tube.ends[-1], [q, -q, q, v, -v, v]) and tube.width < 1e-12


def test_decimals_in_quotes_are_single_values():
    tube = lb.enclose(parallelogram(), ["0.6", "-0.6", "0.6"], ["0.5", "-0.5", "0.5"], 0.2)
    assert inside(tube.ends[-1], swings(0.2, mp.mpf("0.6"))) and tube.width < 1e-11


def test_a_singular_start_is_refused():
    """The flat parallelogram, from where two motions go on; its closures are dependent only there."""
    with pytest.raises(
        EnclosureError, match="more of their equations are independent there than at the start"
    ):
        lb.enclose(parallelogram(), [0, 0, 0], START[1], 0.2)


def crossed(angle):
    """The other position of the parallelogram at this angle of the crank: mirrored at a diagonal."""
    crank, ground = np.exp(-1j * angle), ACROSS + 0j  # x - iz
    along = (ground - crank) / abs(ground - crank)
    tip = crank + along**2 * ACROSS
    return [angle, -np.angle(tip - crank) - angle, -np.angle(tip - ground)]


def test_a_set_with_two_positions_keeps_both():
    """Newton's method finds one solution near the centre of a set; the motion may be the other one."""
    closed, angle = parallelogram(), 2.5
    positions = np.array([[angle, -angle, angle], crossed(angle)])
    assert all(np.abs(closed.residuals(0.0, q, np.zeros(3))[0]).max() < 1e-14 for q in positions)
    _, ties = motion_of_closed_tree(closed, positions[0], np.zeros(3), None, {}, 0.0)
    n = 7
    around = np.zeros((n, 2))
    around[:3] = 1.01 * np.abs(positions[1] - positions[0])[:, None]
    centre = np.concatenate([positions[0], np.zeros(n - 3)])
    moved = Moved(centre, np.eye(n), np.zeros(n), exactly(np.eye(n)), around, np.zeros((n, 2)))
    box = ties.tied(moved).box(ties.library)[:3] * [-1, 1]
    assert all(inside(box, q) for q in positions)
