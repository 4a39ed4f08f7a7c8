"""Ploen's global factors against the recursions, on trees of every joint type, and in symbols."""

import functools

import numpy as np
import pytest
from random_trees import (
    FEWER_MECHANISMS,
    JOINTS,
    WEIGHT,
    close,
    random_inertia,
    random_mechanism,
    random_state,
    random_tree,
)

from liebody import dynamics as dyn
from liebody.base.errors import ModelError
from liebody.bodies import TreeBuilder
from liebody.compiler import jvp, trace
from liebody.dynamics.coriolis import FORMS, body_forms
from liebody.groups import SE3

tight = functools.partial(close, gate=1e-13)


@pytest.fixture(params=FEWER_MECHANISMS, scope="module")
def mechanism(request):
    rng = np.random.default_rng(sum(map(ord, request.param)) + 5)
    tree = random_mechanism(rng, request.param)
    q, v, _ = random_state(rng, tree)
    return tree, q, v, dyn.factorization(tree, q, v)


def test_the_mass_matrix_and_the_weight(mechanism):
    """(24), (26)."""
    tree, q, _, factors = mechanism
    tight(factors.M, dyn.mass_matrix(tree, q))
    tight(factors.M, dyn.jacobian_mass_matrix(tree, q))
    tight(factors.g(WEIGHT), dyn.gravity_forces(tree, q, WEIGHT))


def test_the_stacked_twists(mechanism):
    """V = G S v, (19)."""
    tree, q, v, factors = mechanism
    tight(factors.V, factors.G @ factors.S @ v)
    tight(factors.V.reshape(-1, 6), dyn.body_twists(tree, q, v))


def test_G_is_the_inverse_and_holds_the_relative_poses(mechanism):
    tree, q, _, factors = mechanism
    tight((np.eye(len(factors.G)) - factors.Gamma) @ factors.G, np.eye(len(factors.G)))
    tight(np.linalg.matrix_power(factors.Gamma, len(tree.bodies)), np.zeros_like(factors.Gamma))
    poses = dyn.body_poses(tree, q)
    for i, body in enumerate(tree.bodies):
        on_the_way = {ancestor.index for ancestor in tree.ancestors(body.index)}
        for j in range(len(tree.bodies)):
            block = factors.G[6 * i : 6 * i + 6, 6 * j : 6 * j + 6]
            expected = SE3.Ad(SE3.inverse(poses[i]) @ poses[j]) if j + 1 in on_the_way else np.zeros((6, 6))
            close(block, expected, 1e-12)


def test_stacked_rates_and_wrenches_are_those_of_the_recursion_on_a_base_that_moves(mechanism):
    """(20), (21), (22), and (19) with V_0."""
    tree, q, v, _ = mechanism
    a, V_0, rate = np.random.default_rng(11).normal(size=(3, max(tree.nv, 6)))
    a, V_0, rate = a[: tree.nv], V_0[:6], rate[:6]
    moving = dyn.factorization(tree, q, v, V_0)
    tight(moving.V, moving.G @ (moving.S @ v + moving.P_0 @ V_0))
    against_fall = rate - np.array([0, 0, 0, *WEIGHT])
    F = moving.F(a, against_fall)
    motion = np.array([V_0, rate])
    close(F.reshape(-1, 6), dyn.joint_wrenches(tree, q, v, a, WEIGHT, base_motion=motion), 1e-12)
    tau = dyn.inverse_dynamics(tree, q, v, a, WEIGHT, base_motion=motion)
    close(moving.S.T @ F + moving.rotors * a, tau, 1e-12)
    still = dyn.factorization(tree, q, v)
    rates = still.V_rate(a, np.zeros(6)).reshape(-1, 6)
    for body, found in zip(tree.bodies, rates, strict=True):
        close(found, dyn.frame_acceleration(tree, q, v, a, body.name), 1e-12)


@pytest.mark.parametrize("form", body_forms())
def test_coriolis_matrices_are_those_of_the_recursion(mechanism, form):
    """(25), (37)."""
    tree, q, v, factors = mechanism
    close(factors.C(form), dyn.coriolis_matrix(tree, q, v, form), 1e-12)


def test_the_bodies_matrices_share_one_product(mechanism):
    *_, factors = mechanism
    product = factors.ad_V @ factors.J @ factors.V
    for form in body_forms():
        C_b = factors.body_coriolis(form)
        close(C_b @ factors.V, product, 1e-12)
        skew = np.linalg.norm(C_b + C_b.T) <= 1e-14 * np.linalg.norm(C_b)
        assert skew == FORMS[form].skew or not np.linalg.norm(factors.V)


def test_the_rates_of_G_and_M(mechanism):
    """(27), (28), against derivatives of the graphs along the motion."""
    tree, q, v, factors = mechanism

    def moving(function):
        f = trace(lambda s: function(dyn.factorization(tree, tree.group.integrate(q, s * v), v)), {"s": ()})
        return jvp(f, "s")(0.0, 1.0)

    if len(tree.bodies) < 5:
        close(factors.G_rate, moving(lambda f: f.G), 1e-12)
    close(factors.M_rate, dyn.jacobian_mass_matrix_derivative(tree, q, v), 1e-12)
    close(factors.M_rate, dyn.mass_matrix_derivative(tree, q, v), 1e-12)


def test_proposition_2(mechanism):
    """dM/dt - 2 C = N - N^T - 2 S^T G^T C_b G S, (29): skew as the bodies' matrices are."""
    *_, factors = mechanism
    GS = factors.G @ factors.S
    for form in body_forms():
        rest = factors.M_rate - 2 * factors.C(form)
        close(rest, factors.N - factors.N.T - 2 * GS.T @ factors.body_coriolis(form) @ GS, 1e-12)


def test_in_symbols():
    rng = np.random.default_rng(1)
    tree = random_tree(rng, ["revolute", "spherical", "prismatic"])
    q, v, _ = random_state(rng, tree)
    shapes = {"q": tree.nq, "v": tree.nv}
    function = trace(lambda q, v: dyn.factorization(tree, q, v).C("ploen"), shapes)
    tight(function(q, v), dyn.coriolis_matrix(tree, q, v, "ploen"))


def test_a_form_of_no_body_is_refused():
    tree = TreeBuilder().add("a", JOINTS["free"](None), random_inertia(np.random.default_rng(0))).build()
    with pytest.raises(ModelError, match=r"'hamel' .* use one of christoffel, ploen"):
        dyn.factorization(tree, tree.group.neutral(), np.ones(6)).C("hamel")
