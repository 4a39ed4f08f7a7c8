"""Coriolis matrices by their laws: on random trees of every joint type, on real robots, beside Pinocchio.

Time derivatives are exact: a motion q(s) = integrate(q, s v) is traced and differentiated at s = 0.
"""

import re
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from found import descriptions
from random_trees import (
    JOINTS,
    MECHANISMS,
    WEIGHT,
    close,
    random_inertia,
    random_mechanism,
    random_placement,
    random_state,
    random_tree,
)

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import LiebodyError, ModelError
from liebody.bodies import Joint, TreeBuilder
from liebody.compiler import jacobian, jvp, trace
from liebody.dynamics.coriolis import FORMS, CoriolisForm
from liebody.groups import (
    SE3,
    Cylindrical,
    Free,
    Helical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    SpatialTranslation,
    Spherical,
)
from liebody.io import load_urdf, pinocchio_layout

coriolis = import_module("liebody.dynamics.coriolis")
SKEW = ("christoffel", "ploen", "coadjoint", "feurstein")


@pytest.fixture(params=MECHANISMS, scope="module")
def mechanism(request):
    rng = np.random.default_rng(sum(map(ord, request.param)) + 3)
    tree = random_mechanism(rng, request.param)
    return tree, rng, *random_state(rng, tree), rng.normal(size=tree.nv)


def true_rate(tree, q, v):
    """dM/dt, by differentiating the graph of M along the motion."""
    moving = trace(lambda s: dyn.mass_matrix(tree, tree.group.integrate(q, s * v)), {"s": ()})
    return jvp(moving, "s")(0.0, 1.0)


def without_rotors(tree, M):
    """M without armature, which has no gyroscopic moments in these equations."""
    rotors = np.zeros(tree.nv)
    for body in tree.bodies:
        rotors[body.dofs] += body.armature
    return M - np.diag(rotors)


def chain(seed, *groups):
    """Bodies in a row, and a state with two velocities."""
    rng, builder, parent = np.random.default_rng(seed), TreeBuilder("chain"), "world"
    for k, group in enumerate(groups):
        builder.add(f"link{k}", group, random_inertia(rng), parent, random_placement(rng))
        parent = f"link{k}"
    tree = builder.build()
    return tree, *random_state(rng, tree)


CHAIN = chain(
    4, Revolute([0, 0, 1]), Revolute([1, 2, 0]), Prismatic([0, 1, 0]), Spherical(), Helical([1, 0, 0], 0.3)
)


# -- the laws of the forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_times_the_velocity_gives_the_same_efforts(mechanism, form):
    tree, _, q, v, *_ = mechanism
    close(dyn.coriolis_matrix(tree, q, v, form) @ v, dyn.bias_forces(tree, q, v, gravity=(0, 0, 0)))


def test_the_rate_of_the_mass_matrix(mechanism):
    """Against the derivative of the graph of M, and against central differences."""
    tree, _, q, v, *_ = mechanism
    exact, rate = true_rate(tree, q, v), dyn.mass_matrix_derivative(tree, q, v)
    np.testing.assert_array_equal(rate, rate.T)
    close(rate, exact)
    h = 1e-5
    forth, back = (dyn.mass_matrix(tree, tree.group.integrate(q, s * v)) for s in (h, -h))
    close(rate, (forth - back) / (2 * h), 1e-7)


@pytest.mark.parametrize("form", SKEW)
@pytest.mark.many
def test_skew_forms_share_the_rate_of_the_mass_matrix(mechanism, form):
    """dM/dt - 2 C + (dM/dt - 2 C)^T = 0 by the true rate: no derivative of ours is used."""
    tree, _, q, v, *_ = mechanism
    N = true_rate(tree, q, v) - 2 * dyn.coriolis_matrix(tree, q, v, form)
    close(N, -N.T, size=max(np.linalg.norm(N), 1e-3))  # of its norm; slides alone have N = 0


@pytest.mark.parametrize("form", ["newton-euler", "hamel"])
def test_the_other_forms_are_not_skew(form):
    tree, q, v, _ = CHAIN
    rate, C = dyn.mass_matrix_derivative(tree, q, v), dyn.coriolis_matrix(tree, q, v, form)
    N = rate - 2 * C
    assert np.linalg.norm(N + N.T) > 0.1 * np.linalg.norm(N)
    assert abs(v @ N @ v) < 1e-12 * np.abs(v) @ np.abs(N) @ np.abs(v)  # which holds for any C


def test_the_default_is_torsion_free(mechanism):
    """C(v) w - C(w) v = M [v, w], with the bracket of the joints' groups; without rotors."""
    tree, _, q, v, _, w = mechanism
    close(torsion(tree, q, v, w, "christoffel"), np.zeros(tree.nv), size=max(1.0, v @ v))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "christoffel"])
def test_the_other_forms_have_torsion(form):
    tree, q, v, w = CHAIN
    assert np.linalg.norm(torsion(tree, q, v, w, form)) > 0.1


def torsion(tree, q, v, w, form):
    M = without_rotors(tree, dyn.mass_matrix(tree, q))
    C_v, C_w = dyn.coriolis_matrix(tree, q, v, form), dyn.coriolis_matrix(tree, q, w, form)
    return C_v @ w - C_w @ v - M @ (tree.group.ad(v) @ w)


@pytest.mark.many
def test_coriolis_matrices_are_linear_in_the_velocity(mechanism):
    tree, _, q, v, _, w = mechanism
    for form in FORMS:
        C = [dyn.coriolis_matrix(tree, q, x, form) for x in (v, w, 2 * v - 3 * w)]
        close(2 * C[0] - 3 * C[1], C[2])


def test_where_all_joints_commute_the_default_is_made_of_christoffel_symbols():
    """Gamma_ijk = (d_i M_kj + d_j M_ki - d_k M_ij) / 2, C_kj = sum Gamma_ijk v_i: Ploen (1999), (2), (3)."""
    axes = np.random.default_rng(11).normal(size=(6, 3))
    joints = (Prismatic(axes[0]), Revolute(axes[1]), Helical(axes[2], 0.4), PlanarTranslation(axes[3]))
    tree, q, v, _ = chain(
        5, *joints, Cylindrical(axes[4], axes[5]), SpatialTranslation(), Revolute([0, 0, 1])
    )
    dM = jacobian(trace(lambda q: dyn.mass_matrix(tree, q), {"q": tree.nq}), "q")(q)  # [k, j, i]: d_i M_kj
    symbols = 0.5 * (dM + dM.transpose(0, 2, 1) - dM.transpose(2, 1, 0))
    close(dyn.christoffel_symbols(tree, q), symbols)
    close(dyn.coriolis_matrix(tree, q, v), symbols @ v)
    for form in SKEW[1:]:
        assert np.linalg.norm(dyn.coriolis_matrix(tree, q, v, form) - symbols @ v) > 0.01


def test_the_symbols_of_any_tree_make_up_its_coriolis_matrix(mechanism):
    tree, _, q, v, _, w = mechanism
    symbols = dyn.christoffel_symbols(tree, q)
    for x in (v, w):
        close(symbols @ x, dyn.coriolis_matrix(tree, q, x))


@pytest.mark.many
def test_hamels_form_is_the_boltzmann_hamel_equations(mechanism):
    """dM/dt - ad_v^T M - R, row i of R being v^T (X_i M) / 2, by derivatives of graphs along the group."""
    tree, _, q, v, *_ = mechanism
    M = without_rotors(tree, dyn.mass_matrix(tree, q))
    moving = trace(lambda u: dyn.mass_matrix(tree, tree.group.integrate(q, u)), {"u": tree.nv})
    slopes = jacobian(moving, "u")(np.zeros(tree.nv))  # (i, j, k): of M_ij along e_k
    expected = slopes @ v - tree.group.ad(v).T @ M - 0.5 * np.einsum("i,ijk->kj", v, slopes)
    close(dyn.coriolis_matrix(tree, q, v, "hamel"), expected)


def test_the_base_rows_of_hamels_form_for_a_floating_base():
    """C_b = dM_bb/dt - ad_nu^T M_bb, C_bq = dM_bq/dt - ad_nu^T M_bq: nothing depends on the base's pose."""
    tree, q, v, _ = chain(6, Free(), Revolute([0, 0, 1]), Spherical(), Prismatic([1, 1, 0]))
    M, rate = dyn.mass_matrix(tree, q), dyn.mass_matrix_derivative(tree, q, v)
    close(dyn.coriolis_matrix(tree, q, v, "hamel")[:6], rate[:6] - SE3.ad(v[:6]).T @ M[:6])


def test_the_default_does_not_feel_how_fast_a_floating_base_translates():
    tree, q, v, _ = chain(7, Free(), Revolute([0, 0, 1]), Spherical())
    faster = v + 100 * np.eye(tree.nv)[4]
    np.testing.assert_array_equal(dyn.coriolis_matrix(tree, q, v), dyn.coriolis_matrix(tree, q, faster))
    change = dyn.coriolis_matrix(tree, q, v, "coadjoint") - dyn.coriolis_matrix(tree, q, faster, "coadjoint")
    assert np.linalg.norm(change) > 1


def test_ploens_matrix_is_the_default_plus_half_the_trace_of_each_inertia():
    """C_ploen - C_christoffel = sum over the bodies of J_w^T [tr(I) omega / 2] J_w."""
    rng = np.random.default_rng(14)
    tree = random_tree(rng, ["revolute", "spherical", "helical", "free", "cylindrical"], followers=1)
    q, v, _ = random_state(rng, tree)
    extra = np.zeros((tree.nv, tree.nv))
    for body in tree.bodies:
        J = dyn.frame_jacobian(tree, q, body.name)[:3]
        w = np.trace(body.inertia.moments.I) / 2 * (J @ v)
        extra += J.T @ np.cross(w, J, axisb=0).T
    close(dyn.coriolis_matrix(tree, q, v, "ploen"), dyn.coriolis_matrix(tree, q, v) + extra)


@pytest.mark.parametrize("form", FORMS)
def test_one_free_body(form):
    """The body's own matrices, -ad^T J, Proposition 1, ad~_p, and their like."""
    rng = np.random.default_rng(15)
    tree = TreeBuilder().add("body", Free(), random_inertia(rng)).build()
    q, V, _ = random_state(rng, tree)
    J = tree.bodies[0].inertia.matrix()
    m, h, _ = moments = tree.bodies[0].inertia.moments
    ad, W, H = SE3.ad(V), SE3.ad(V)[:3, :3], SE3.ad(np.concatenate([h, h]))[:3, :3]
    p = J @ V
    coad = np.array([-SE3.ad(e).T @ p for e in np.eye(6)]).T  # ad~_p e = -ad_e^T p
    expected = {
        "christoffel": (-ad.T @ J + J @ ad + coad) / 2,
        "ploen": np.block([[W @ moments.I + moments.I @ W, H @ W], [-W @ H, m * W]]),
        "coadjoint": coad,
        "feurstein": J @ ad - ad.T @ J,
        "newton-euler": -ad.T @ J,
        "hamel": -ad.T @ J,
    }
    close(dyn.coriolis_matrix(tree, q, V, form), expected[form])


def test_the_planar_double_pendulum_reads_as_in_the_textbook():
    """C = -m2 l1 l2 sin(q2) [[v2, v1 + v2], [-v1, 0]]: Spong, Hutchinson, Vidyasagar (2006), section 7.3."""
    robot = lb.models.double_pendulum(masses=(1.3, 0.7), lengths=(0.9, 1.1))
    q, v = np.array([0.4, 0.8]), np.array([1.2, -0.7])
    a, b = v
    expected = -0.7 * 0.9 * 1.1 * np.sin(q[1]) * np.array([[b, a + b], [-a, 0]])
    close(dyn.coriolis_matrix(robot.tree, q, v), expected)


# -- forms are data --------------------------------------------------------------------------------------


def skew_seventh(J, V):
    """The form "feurstein" with half of what distinguishes it from "coadjoint"."""
    ad = SE3.ad(V)
    return 0.25 * (J @ ad - ad.T @ J) + 0.75 * SE3.coad(J @ V)


def plain_seventh(J, V):
    """Not skew, and not made of dJ/dt."""
    ad = SE3.ad(V)
    return 0.5 * J @ ad - ad.T @ J


SEVENTH = {
    "skew": CoriolisForm(skew_seventh, skew_bodies=True),
    "plain": CoriolisForm(plain_seventh),
}


@pytest.mark.parametrize("kind", SEVENTH)
def test_every_algorithm_takes_a_form_that_it_does_not_know_by_name(kind, mechanism, monkeypatch):
    """A seventh form, by its definition alone: all laws that its fields promise, in all that take a form."""
    monkeypatch.setattr(coriolis, "FORMS", {**FORMS, "seventh": SEVENTH[kind]})
    tree, _, q, v, a, w = mechanism
    C_b = [SEVENTH[kind].body_matrix(b.inertia.matrix(), V) for b, V in zip(tree.bodies, twists(tree, q, v))]
    jacobians = [dyn.frame_jacobian(tree, q, body.name) for body in tree.bodies]
    rates = [dyn.frame_jacobian_rate(tree, q, v, body.name) for body in tree.bodies]
    expected = sum(
        (
            J.T @ (b.inertia.matrix() @ dJ + C @ J)
            for b, J, dJ, C in zip(tree.bodies, jacobians, rates, C_b, strict=True)
        ),
        np.zeros((tree.nv, tree.nv)),
    )
    M, rate, C = dyn.mass_and_coriolis(tree, q, v, "seventh")
    close(C, expected)
    close(C, dyn.coriolis_matrix(tree, q, v, "seventh"))
    close(rate, dyn.mass_matrix_derivative(tree, q, v))
    if SEVENTH[kind].skew:
        close(C + C.T, rate)
    close(dyn.factorization(tree, q, v).C("seventh"), C, 1e-12)
    g = dyn.gravity_forces(tree, q, WEIGHT)
    if not any(np.any(body.armature) for body in tree.bodies):
        Y = dyn.passive_regressor(tree, q, v, w, a, WEIGHT, "seventh")
        close(Y @ dyn.inertial_parameters(tree), M @ a + C @ w + g)


def twists(tree, q, v):
    return np.reshape(dyn.body_twists(tree, q, v), (-1, 6))


@pytest.mark.parametrize("kind", SEVENTH)
def test_equations_of_a_floating_base_and_in_symbols_take_a_seventh_form(kind, monkeypatch):
    monkeypatch.setattr(coriolis, "FORMS", {**FORMS, "seventh": SEVENTH[kind]})
    tree, q, v, _ = chain(8, Free(), Revolute([0, 0, 1]), Prismatic([1, 1, 0]))
    C = dyn.coriolis_matrix(tree, q, v, "seventh")
    M_w, C_w, _ = dyn.transformed_dynamics(tree, q, v, "momentum", "identity", "seventh")
    blocks = dyn.decoupled_dynamics(tree, q, v, "momentum", "identity", "seventh")
    parts = np.block([[blocks.Cx, blocks.Cxy], [blocks.Cyx, blocks.Cy]])
    close(C_w, parts)
    T, T_rate = (
        f(tree, q, *x, "momentum", "identity")
        for f, x in ((dyn.decoupling_transform, ()), (dyn.decoupling_transform_rate, (v,)))
    )
    close(C_w @ T @ v + M_w @ T_rate @ v, np.linalg.solve(T.T, C @ v))
    if SEVENTH[kind].skew:
        close(blocks.Cyx, -blocks.Cxy.T)

    sympy = pytest.importorskip("sympy")
    eq = lb.equations(lb.models.double_pendulum(), "seventh")
    state = dict(zip((*eq.q, *eq.v), (0.4, 0.8, 1.2, -0.7), strict=True))
    C = dyn.coriolis_matrix(eq.tree, np.array([0.4, 0.8]), np.array([1.2, -0.7]), "seventh")
    close(np.array(sympy.Matrix(eq.C).subs(state), float), np.asarray(C, float))


@pytest.mark.parametrize("name", FORMS)
def test_the_fields_of_a_form_are_facts(name):
    """C_b V = -ad_V^T J V, B = C_b - J ad_V, and what the flags say, of one body and of trees."""
    form, rng = FORMS[name], np.random.default_rng(21)
    V, inertia = rng.normal(size=6), random_inertia(rng)
    J, ad, C_b = inertia.matrix(), SE3.ad(V), form.body_matrix(inertia.matrix(), V)
    close(C_b @ V, -ad.T @ J @ V)
    definition = CoriolisForm(form.body_matrix).operator
    for x in rng.normal(size=(3, 2, 3)):
        for method in ("times", "transpose_times"):
            closed, defined = (getattr(f(inertia.moments, *V.reshape(2, 3)), method)(*x)
                               for f in (form.operator, definition))  # fmt: skip
            close(np.concatenate(closed), np.concatenate(defined))
    assert form.skew_bodies == bool(np.linalg.norm(C_b + C_b.T) < 1e-14 * np.linalg.norm(C_b))
    tree, q, v, _ = chain(7, Free(), Revolute([0, 0, 1]), Spherical())
    _, rate, C = dyn.mass_and_coriolis(tree, q, v, name)
    N = rate - 2 * C
    assert form.skew == bool(np.linalg.norm(N + N.T) < 1e-12 * np.linalg.norm(N))
    if form.moving_origin:  # B of a base that translates may leave its velocity out
        faster = v + 100 * np.eye(tree.nv)[4]
        np.testing.assert_array_equal(C, dyn.coriolis_matrix(tree, q, faster, name))


@pytest.mark.parametrize("name", FORMS)
def test_forms_by_the_kinetic_energy_take_any_inertias_that_have_it(name):
    """Base moments are those of other bodies with the same kinetic energy: C is the same or another one."""
    tree, q, v, _ = CHAIN
    C = dyn.coriolis_matrix(tree, q, v, name)
    same = with_other_moments(tree, q, v, name)
    assert FORMS[name].by_kinetic_energy == bool(np.abs(C - same).max() < 1e-12)


def with_other_moments(tree, q, v, name):
    """C with the moments of the other kind: base moments in place of the bodies', and the reverse."""
    flag = not FORMS[name].by_kinetic_energy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coriolis, "FORMS", {**FORMS, name: replace(FORMS[name], by_kinetic_energy=flag)})
        return dyn.coriolis_matrix(tree, q, v, name)


@pytest.mark.parametrize("name", ["levi-civita", "", "Christoffel", None, 3, ["christoffel"]])
def test_an_unknown_form_is_refused_everywhere(name):
    tree, q, v, w = chain(8, Free(), Revolute([0, 0, 1]))
    pendulum = lb.models.double_pendulum()
    for call in (
        lambda: dyn.coriolis_matrix(tree, q, v, name),
        lambda: dyn.mass_and_coriolis(tree, q, v, name),
        lambda: dyn.transformed_dynamics(tree, q, v, form=name),
        lambda: dyn.decoupled_dynamics(tree, q, v, form=name),
        lambda: dyn.factorization(tree, q, v).C(name),
        lambda: dyn.factorization(tree, q, v).body_coriolis(name),
        lambda: dyn.passive_regressor(tree, q, v, w, w, form=name),
        lambda: lb.equations(pendulum).coriolis(name),
        lambda: lb.equations(pendulum, name),
        lambda: pendulum.coriolis_matrix(np.zeros(2), np.zeros(2), form=name),
        lambda: pendulum.kernel("coriolis_matrix", form=name),
    ):
        with pytest.raises(LiebodyError, match=r"form .*(is unknown; use one of christoffel|expected text)"):
            call()


# -- what controllers build from them --------------------------------------------------------------------


def test_passive_inverse_dynamics_is_made_of_M_C_and_g(mechanism):
    tree, _, q, v, a_r, v_r = mechanism
    M, C, g = dyn.mass_matrix(tree, q), dyn.coriolis_matrix(tree, q, v), dyn.gravity_forces(tree, q, WEIGHT)
    close(dyn.passive_inverse_dynamics(tree, q, v, v_r, a_r, WEIGHT), M @ a_r + C @ v_r + g)
    together = dyn.passive_inverse_dynamics(tree, q, v, v, a_r, WEIGHT)
    close(together, dyn.inverse_dynamics(tree, q, v, a_r, WEIGHT))


def test_the_transpose_without_the_matrix(mechanism):
    tree, _, q, v, _, w = mechanism
    C = dyn.coriolis_matrix(tree, q, v)
    close(dyn.coriolis_transpose_times(tree, q, v, w), C.T @ w)
    close(dyn.coriolis_transpose_times(tree, q, v), C.T @ v)


def test_momentum_changes_by_effort_weight_and_the_transpose(mechanism):
    """d(M v)/dt = tau + C^T v - g."""
    tree, _, q, v, a, _ = mechanism
    moving = trace(lambda s: dyn.mass_matrix(tree, tree.group.integrate(q, s * v)) @ (v + s * a), {"s": ()})
    rate = jvp(moving, "s")(0.0, 1.0)
    tau, g = dyn.inverse_dynamics(tree, q, v, a, WEIGHT), dyn.gravity_forces(tree, q, WEIGHT)
    close(rate, tau + dyn.coriolis_transpose_times(tree, q, v) - g)


@pytest.mark.many
def test_three_in_one_call(mechanism):
    tree, _, q, v, *_ = mechanism
    for form in FORMS:
        M, rate, C = dyn.mass_and_coriolis(tree, q, v, form)
        close(M, dyn.mass_matrix(tree, q))
        close(rate, dyn.mass_matrix_derivative(tree, q, v))
        close(C, dyn.coriolis_matrix(tree, q, v, form))


@pytest.mark.many
def test_a_trace_computes_what_the_floats_do(mechanism):
    tree, _, q, v, a, w = mechanism
    shapes = {"q": tree.nq, "v": tree.nv, "a": tree.nv, "w": tree.nv}
    for function in (
        lambda q, v, a, w: np.stack([dyn.coriolis_matrix(tree, q, v, form) for form in FORMS]),
        lambda q, v, a, w: dyn.mass_matrix_derivative(tree, q, v),
        lambda q, v, a, w: dyn.passive_inverse_dynamics(tree, q, v, w, a),
        lambda q, v, a, w: dyn.coriolis_transpose_times(tree, q, v, w),
    ):
        close(trace(function, shapes)(q, v, a, w), function(q, v, a, w))


def test_trees_without_motion_have_empty_matrices():
    tree = TreeBuilder().add("rock", JOINTS["fixed"](None), random_inertia(np.random.default_rng(0))).build()
    none = np.zeros(0)
    assert dyn.coriolis_matrix(tree, none, none).shape == (0, 0)
    assert dyn.mass_matrix_derivative(tree, none, none).shape == (0, 0)
    assert dyn.christoffel_symbols(tree, none).shape == (0, 0, 0)
    assert dyn.coriolis_transpose_times(tree, none, none).shape == (0,)


def arm():
    """Six revolute joints with right-angled placements, dense inertias."""
    rng, builder, parent = np.random.default_rng(0), TreeBuilder("arm"), "world"
    quarter = SE3.exp(np.array([np.pi / 2, 0, 0, 0, 0, 0]))
    for k in range(6):
        placement = SE3.motion((quarter if k % 2 else np.eye(4))[:3, :3], [0, 0.1, 0.4])
        builder.add(f"link{k}", Revolute([0, 0, 1]), random_inertia(rng), parent, placement)
        parent = f"link{k}"
    return builder.build()


def test_operations_stay_few():
    """Guards against losing structure: additions and multiplications of an arm, a few above today's."""
    tree = arm()

    def count(function, *arguments):
        operations = trace(function, dict.fromkeys(arguments, 6)).operations
        return operations["add"] + operations["sub"] + operations["mul"]

    assert count(lambda q, v: dyn.coriolis_matrix(tree, q, v), "q", "v") <= LIMITS["C"]
    assert count(lambda q, v: dyn.mass_matrix_derivative(tree, q, v), "q", "v") <= LIMITS["dM"]
    assert count(lambda q, v: dyn.coriolis_transpose_times(tree, q, v), "q", "v") <= LIMITS["C^T v"]
    passive = count(
        lambda q, v, v_r, a_r: dyn.passive_inverse_dynamics(tree, q, v, v_r, a_r), "q", "v", "v_r", "a_r"
    )
    assert passive <= LIMITS["passive"]


@pytest.mark.parametrize(("column", "name"), [(0, "ur5_robot"), (1, "anymal")])
def test_the_page_states_the_operations_that_there_are(column, name):
    """The tables of docs/coriolis.md, to 2 %."""
    files = [file for file in descriptions() if file.stem == name and "anymal_c" not in str(file)]
    if not files:
        pytest.skip("the test extra `example-robot-data` is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = load_urdf(files[0], floating=name == "anymal")
    page = (Path(__file__).parents[1] / "docs" / "coriolis.md").read_text()
    rows = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in page.splitlines() if line.startswith("| ")]
    stated = {row[0].strip("`"): row[4 + column] for row in rows if row[0].strip("`") in FORMS}
    calls = [re.match(r"`(\w+)\((.*)\)`", row[1]) for row in rows]
    stated |= {c[0]: row[2 + column] for c, row in zip(calls, rows, strict=True) if c and row[2 + column]}
    assert len(stated) == len(FORMS) + 7
    for key, operations in stated.items():
        if key in FORMS:
            algorithm, arguments, options = dyn.coriolis_matrix, ["q", "v"], {"form": key}
        else:
            words = re.findall(r"\w+", key)
            algorithm, arguments, options = getattr(dyn, words[0]), words[1:], {}
        shapes = {x: tree.nq if x == "q" else tree.nv for x in arguments}
        found = trace(lambda *x, f=algorithm, o=options: f(tree, *x, **o), shapes).operations
        assert int(operations) == pytest.approx(sum(found.values()), rel=0.02), key


LIMITS = {"C": 1260, "dM": 1190, "C^T v": 340, "passive": 660}


# -- a robot's calls -------------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_robot_computes_them_in_batches():
    robot = lb.Robot(
        TreeBuilder("two")
        .add("a", Joint("a", Revolute([0, 1, 0]), armature=0.1), random_inertia(np.random.default_rng(1)))
        .add("b", Spherical(), random_inertia(np.random.default_rng(2)), "a", [0.1, 0.2, 0.3])
        .build(),
        gravity=WEIGHT,
    )
    rng = np.random.default_rng(3)
    q = robot.random(rng, 5)
    v, v_r, a_r = rng.normal(size=(3, 5, robot.nv))
    M, C, g = robot.mass_matrix(q), robot.coriolis_matrix(q, v), robot.gravity(q)

    def times(A, x):
        return (A @ x[..., None])[..., 0]

    close(times(C, v) + g, robot.bias(q, v))
    for form in FORMS:
        close(times(robot.coriolis_matrix(q, v, form=form), v) + g, robot.bias(q, v))
    close(robot.coriolis_matrix(q[0], v[0], "ploen"), dyn.coriolis_matrix(robot.tree, q[0], v[0], "ploen"))
    close(robot.mass_matrix_derivative(q, v), C + np.swapaxes(C, -1, -2))
    for ours, expected in zip(robot.mass_and_coriolis(q, v), (M, C + np.swapaxes(C, -1, -2), C), strict=True):
        close(ours, expected)
    close((robot.christoffel_symbols(q) @ v[:, None, :, None])[..., 0], C)
    close(robot.passive_inverse_dynamics(q, v, v_r, a_r), times(M, a_r) + times(C, v_r) + g)
    close(robot.coriolis_transpose_times(q, v), times(np.swapaxes(C, -1, -2), v))
    close(robot.coriolis_transpose_times(q, v, v_r), times(np.swapaxes(C, -1, -2), v_r))
    close(robot.coriolis_matrix(q[0], v[0]), C[0])  # by the entry of the generated library
    close(robot.coriolis_matrix(q[0], v[0], form="hamel") @ v[0], times(C, v)[0])
    with pytest.raises(ModelError, match="'levi-civita'"):
        robot.coriolis_matrix(q, v, form="levi-civita")


# -- real robots -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=descriptions(), ids=lambda file: file.stem)
def file(request):
    return request.param


@pytest.fixture(scope="module", params=[False, True], ids=["fixed", "floating"])
def real_robot(request, file):
    """Its file, tree and state, and its C of the default form; alex's hands mimic joints that it lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = load_urdf(
            file, floating=request.param, check=False, mimic=file.name != "alex_psyonic_hands.urdf"
        )
    q, v, _ = random_state(np.random.default_rng(8), tree)
    return file, tree, q, v, dyn.coriolis_matrix(tree, q, v)


@pytest.mark.many
def test_laws_hold_for_real_robots(real_robot):
    """dM/dt = C + C^T to 1e-12 of its norm; dM/dt by a central difference; C v by recursive Newton-Euler."""
    _, tree, q, v, C = real_robot
    rate, efforts = dyn.mass_matrix_derivative(tree, q, v), dyn.bias_forces(tree, q, v, gravity=(0, 0, 0))
    forth, back = (dyn.mass_matrix(tree, tree.group.integrate(q, s * v)) for s in (1e-5, -1e-5))
    close(rate, (forth - back) / 2e-5, 1e-8)
    for form in SKEW:
        C_form = C if form == "christoffel" else dyn.coriolis_matrix(tree, q, v, form)
        close(C_form + C_form.T, rate, size=np.linalg.norm(rate - 2 * C_form))
        close(C_form @ v, efforts, size=np.linalg.norm(efforts))


def test_pinocchio_agrees_on_real_robots(real_robot):
    """To 1e-10. Where joints mimic others, Pinocchio's move freely: v_pin = B v, C = B^T C_pin B."""
    pin = pytest.importorskip("pinocchio")
    file, tree, q, v, C = real_robot
    root = (pin.JointModelFreeFlyer(),) if tree.bodies and tree.bodies[0].joint.group == Free() else ()
    model = pin.buildModelFromUrdf(str(file), *root)
    layout = pinocchio_layout(tree, model)
    B = np.array([layout.to_v(q, e) for e in np.eye(tree.nv)]).T.reshape(model.nv, tree.nv)
    theirs = pin.computeCoriolisMatrix(model, model.createData(), layout.to_q(q), B @ v)
    close(C, B.T @ theirs @ B, 1e-10, size=max(np.linalg.norm(C), 1e-6))


# -- beside Pinocchio ------------------------------------------------------------------------------------

CONSTANT = ["revolute", "revolute-z", "prismatic", "prismatic-x", "helical", "spherical"]
CONSTANT += ["spatial-translation", "planar", "free"]
PIN_MECHANISMS = {
    **{kind: [kind, "revolute-z", kind] for kind in CONSTANT},
    "arm": ["revolute-z", "revolute", "revolute-z", "revolute-z", "revolute", "revolute-z", "revolute-z"],
    "humanoid": ["free", *["revolute-z"] * 8, "revolute", "prismatic-x", "spherical"],
    "every": CONSTANT,
}


@pytest.mark.parametrize("name", PIN_MECHANISMS)
def test_pinocchio_agrees_on_the_default(name):
    """Joints with a constant motion subspace, bodies numbered depth-first."""
    pin = pytest.importorskip("pinocchio")
    from test_dynamics import Beside, pin_tree

    rng = np.random.default_rng(sum(map(ord, name)) + 2)
    tree = pin_tree(rng, PIN_MECHANISMS[name])
    other, (q, v, _) = Beside(tree), random_state(rng, tree)
    C = pin.computeCoriolisMatrix(other.model, other.data, other.q(q), other.v(v))
    close(other.v(other.v(dyn.coriolis_matrix(tree, q, v)).T).T, C, 1e-13)
