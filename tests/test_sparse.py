"""Sparse Jacobians of functions and programs, and what implicit methods do with them on long chains."""

import numpy as np
import pytest

from liebody import scalars
from liebody.base.errors import IntegrationError, ShapeError
from liebody.bodies import SpatialInertia
from liebody.compiler import Program, trace, traced
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.programs.sparse import derivative, differentiable, sparse_jacobian
from liebody.groups import SE3, SO3, Product, SO3xR3, Spherical
from liebody.integrators import GeneralizedAlpha, MechanicalEquations, RadauIIA, Variational
from liebody.mechanisms.constrained import SystemBuilder

HALF = np.array([0, 0, 0.5])


def dense(function, x, *rest):
    """Output and Jacobian of a function or program at x, from its sparse Jacobian."""
    places, both = sparse_jacobian(function, "x")
    r, values = (compile_numpy(both) if isinstance(both, Program) else both)(x, *rest)
    D = np.zeros((len(r), len(x)))
    for (i, j), value in zip(places, np.atleast_1d(values), strict=True):
        D[i, j] = value
    return r, D


def coupled(x, p):
    """Neighbours in a row, in an expression with every kind of operation of mechanics."""
    n = len(x)
    left, right = np.concatenate([[0.3], x[:-1]]), np.concatenate([x[1:], [p[0]]])
    product = 2.5 * x * left - scalars.sin(right) / (2 + p[1] * x * x)
    roots = scalars.sqrt(1 + product * product)
    return np.array([scalars.where(y < 0.1, a, b) + k for k, y, a, b in zip(range(n), x, product, roots)])


def test_the_derivative_of_a_program_is_that_of_its_straight_line():
    shapes, rng = {"x": 60, "p": 2}, np.random.default_rng(0)
    program, straight = traced(coupled, shapes, "r", loops=True), trace(coupled, shapes, "r")
    assert isinstance(program, Program) and differentiable(program)
    for _ in range(5):
        x, p = rng.standard_normal(60), rng.standard_normal(2)
        for found, expected in zip(dense(program, x, p), dense(straight, x, p), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    assert sparse_jacobian(program, "x").places == sparse_jacobian(straight, "x").places


def test_programs_are_differentiated_again_and_again():
    def polynomial(s, a):
        return a * s * s * s + s / (1 + a)

    shapes, a = {"s": (), "a": 40}, np.linspace(0.5, 2, 40)
    program = traced(polynomial, shapes, "p", loops=True)
    expected = [3 * a * 0.49 + 1 / (1 + a), 6 * a * 0.7, 6 * a, 0 * a]
    for values in expected:
        program = derivative(program, "s")
        np.testing.assert_allclose(compile_numpy(program)(0.7, a), values, rtol=1e-15)


def test_the_text_of_a_derivative_does_not_grow():
    sizes = []
    for n in (50, 200):
        _, both = sparse_jacobian(traced(coupled, {"x": n, "p": 2}, "r", loops=True), "x")
        sizes.append([len(both.passes), sum(len(step.parts[0].function.nodes) for step in both.passes)])
    assert sizes[0] == sizes[1]


# -- chains of ball joints --------------------------------------------------------------------------------


def chain(bodies, group=SO3xR3):
    """group, M, Q, g of bodies of 1 kg and 1 m on ball joints, and a bent start at rest."""
    space = group is SO3xR3

    def weight(t, q, v, u):
        forces = [np.array([0, 0, -9.81]) if space else SO3.element(x[:4]).T @ [0, 0, -9.81]
                  for x in np.reshape(q, (bodies, 7))]  # fmt: skip
        return np.concatenate([np.concatenate([np.zeros(3, int), F]) for F in forces])

    def joints(q):
        gaps, end = [], np.zeros(3, int)
        for x in np.reshape(q, (bodies, 7)):
            arm = SO3.element(x[:4]) @ HALF
            gaps.append(x[4:] + arm - end)
            end = x[4:] - arm
        return np.concatenate(gaps)

    q, end = [], np.zeros(3)
    for i in range(bodies):
        x = SO3.integrate(SO3.neutral(), [0.2 * np.sin(i), 0.3 * np.cos(i), 0.1])
        arm = SO3.element(x) @ HALF
        q.append(np.concatenate([x, end - arm]))
        end = end - 2 * arm
    M = np.diag([1 / 12, 1 / 12, 1e-3, 1, 1, 1] * bodies)
    return (Product(*[group] * bodies), M, weight, joints), np.concatenate(q)


METHODS = [GeneralizedAlpha(0.9), Variational(), Variational("cay"), RadauIIA(1)]


@pytest.mark.parametrize(("method", "group"), list(zip(METHODS, [SO3xR3, SE3] * 2, strict=True)), ids=repr)
@pytest.mark.many
def test_newton_matrices_of_long_chains_are_loops_and_exact(method, group):
    """Against central differences of the residual, in the order that the phase has."""
    system, q = chain(40, group)
    flow = method.flow(*system)
    phase = flow.functions[0][0]
    assert isinstance(phase.both, Program)
    rng = np.random.default_rng(1)
    shapes = {key: x.shape for key, x in phase.both.inputs.items()}
    given = {key: 1e-3 * rng.standard_normal(shape) for key, shape in shapes.items()} | {"h": np.array(1e-3)}
    given["y"] = np.concatenate([q, rng.standard_normal(flow.point - len(q))])
    x, *rest = given.values()
    r, values = compile_numpy(phase.both)(x, *rest)
    np.testing.assert_allclose(compile_numpy(phase.residual)(x, *rest), r, rtol=1e-13, atol=1e-13)
    D = np.zeros((len(x), len(x)))
    D[tuple(np.transpose(phase.places))] = values
    e = 1e-5 * np.eye(len(x))
    ends = [
        compile_numpy(phase.residual)(x + s * e, *(np.broadcast_to(a, (len(x), *a.shape)) for a in rest))
        for s in (1, -1)
    ]
    np.testing.assert_allclose(D, (ends[0] - ends[1]).T / 2e-5, atol=1e-7)


@pytest.mark.wide
def test_text_does_not_grow_with_a_chain():
    """But for tables, which are lines of their own."""
    method = Variational()
    lines = [
        [
            line
            for line in method.flow(*chain(bodies)[0]).source().splitlines()
            if not line.startswith("static const")
        ]
        for bodies in (60, 90)
    ]
    assert len(lines[0]) == len(lines[1])


def test_long_chains_start_as_short_ones_do():
    """In floats with sparse equations and pivots, and traced: one motion."""
    system, q = chain(12)
    v = 1e-7 * np.ones(72)  # within what a start may violate
    flow = GeneralizedAlpha(0.8).flow(*system)
    assert flow._plainly(1) and not flow._plainly(2)
    alone, both = flow.start(q, v, 0.0, 1e-3), flow.start(np.tile(q, (2, 1)), v, 0.0, 1e-3)
    np.testing.assert_allclose(alone[0], both[1], rtol=1e-11, atol=1e-11)


def test_the_jerk_of_constraints_is_that_of_the_motion():
    """J d2v/dt2 by a difference of J(q) v along q exp(s v + s^2 dv/2), whose velocity is v + s dv to s^2."""
    (group, M, Q, g), q = chain(3)
    system, rng = MechanicalEquations(group, M, Q, g), np.random.default_rng(3)
    v, dv = rng.standard_normal((2, 18))

    def rate(s):
        return system.constraint_rate(group.integrate(q, s * v + 0.5 * s * s * dv), v + s * dv)

    e = 1e-3
    second = (-rate(2 * e) + 16 * rate(e) - 30 * rate(0) + 16 * rate(-e) - rate(-2 * e)) / (12 * e * e)
    np.testing.assert_allclose(system.constraint_jerk(q, v, dv), -second, atol=1e-6)
    first = (rate(-2 * e) - 8 * rate(-e) + 8 * rate(e) - rate(2 * e)) / (12 * e)
    bias = first - system.constraint_rate(q, dv)
    np.testing.assert_allclose(system.constraint_bias(0.0, q, v), bias, atol=1e-9)


def test_dependent_constraints_of_a_long_chain_are_refused():
    (group, M, Q, g), q = chain(20)
    flow = GeneralizedAlpha(0.9).flow(group, M, Q, lambda q: np.concatenate([g(q), g(q)[30:32]]))
    assert flow._plainly(1)
    with pytest.raises(IntegrationError, match="depend on each other"):
        flow.start(q, np.zeros(group.dim), 0.0, 1e-3)


@pytest.mark.parametrize("method", METHODS[:2], ids=repr)
@pytest.mark.wide
def test_a_long_chain_falls_by_the_laws(method):
    """Energy, and the constraints to round-off, on 60 bodies."""
    system, q = chain(60)
    M, heights = np.diag(system[1]), slice(6, None, 7)
    motion = method.flow(*system).run(q, np.zeros(360), 0.02, 1e-3)
    energy = 0.5 * (motion.v**2) @ M + 9.81 * motion.q[:, heights].sum(axis=1)
    assert np.abs(motion.v[-1]).max() > 0.1
    np.testing.assert_allclose(energy, energy[0], rtol=2e-6)
    assert max(np.abs(system[3](x)).max() for x in motion.q) < 1e-12


@pytest.mark.parametrize("group", ["SE3", "SO3xR3"])
def test_a_system_gives_its_jacobian_by_blocks(group):
    """As many entries as its blocks have, whatever the number of bodies; the matrix is dg/dq."""
    builder, parent = SystemBuilder("chain"), "world"
    for k in range(12):
        builder.body(
            f"b{k}",
            SpatialInertia(1.0, rotational=np.full(3, 0.01)),
            [0.2 * k + 0.1, 0, 0],
            configuration=group,
        )
        builder.joint(f"j{k}", Spherical(), parent, f"b{k}", [0.1 * (k > 0), 0, 0], [-0.1, 0, 0])
        parent = f"b{k}"
    system = builder.build()
    q, v = system.guess, np.random.default_rng(0).normal(size=system.nv)
    given = system.mechanics()
    blocks = given["J"](q)
    assert len(blocks) <= 2 * system.nc / 3  # two of (3, 6) for each joint
    J = np.zeros((system.nc, system.nv))
    for i, j, block in blocks:
        J[i : i + 3, j : j + 6] = block
    h = 1e-6
    moved = [given["g"](system.group.integrate(q, s * v)) for s in (h, -h)]
    np.testing.assert_allclose(J @ v, (moved[0] - moved[1]).astype(float) / (2 * h), atol=1e-8)
    equations, x = MechanicalEquations(**given), np.arange(1.0, 1 + system.nc)
    np.testing.assert_allclose(equations.jacobian(q), J)
    np.testing.assert_allclose(equations.constraint_rate(q, v), J @ v, atol=1e-13)
    np.testing.assert_allclose(equations.reaction(q, x), x @ J, atol=1e-13)
    assert [block.shape for _, _, block in given["M"]] == [(6, 6)] * len(system.bodies)
    p = equations.momentum(q, v)
    assert 0.5 * v @ p == pytest.approx(system.kinetic_energy(q, v), rel=1e-14)
    np.testing.assert_allclose(equations.solve_mass(q, p), v, rtol=1e-13)
    with pytest.raises(ShapeError, match=r"M on .* has shape \(66, 66\), expected \(72, 72\)"):
        MechanicalEquations(**{**given, "M": given["M"][1:]})


def twice_jointed(bodies, times):
    """A chain on ball joints whose first joint is there this many times."""
    builder, parent = SystemBuilder(), "world"
    for k in range(bodies):
        inertia = SpatialInertia(1.0, rotational=np.full(3, 0.01))
        builder.body(f"b{k}", inertia, [0.2 * k + 0.1, 0, 0])
        for again in range(times if k == 0 else 1):
            builder.joint(f"j{k}.{again}", Spherical(), parent, f"b{k}", [0.1 * (k > 0), 0, 0], [-0.1, 0, 0])
        parent = f"b{k}"
    return builder.build()


@pytest.mark.parametrize("method", [GeneralizedAlpha(0.8), Variational()], ids=str)
@pytest.mark.many
def test_equations_of_steps_with_redundant_constraints_are_loops(method):
    """Their text does not grow with the bodies, nor does M or J stand in a matrix of zeros."""
    lengths = []
    for bodies in (12, 24):
        (phase, *_), _ = method.flow(**twice_jointed(bodies, 2).mechanics()).functions
        assert isinstance(phase.both, Program)
        lengths.append(phase.both.length)
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("method", [GeneralizedAlpha(0.8), Variational()], ids=str)
@pytest.mark.wide
def test_loops_with_redundant_constraints_move_as_those_without(method):
    """A joint that is there twice carries half of its force in each."""
    runs = []
    for times in (1, 2):
        system = twice_jointed(12, times)
        runs.append(method.flow(**system.mechanics()).run(system.guess, np.zeros(system.nv), 0.05, 5e-3))
    once, twice = runs
    np.testing.assert_allclose(twice.q, once.q, atol=1e-9)
    np.testing.assert_allclose(twice.v, once.v, atol=1e-7)
    forces = once.multipliers[:, :3]
    np.testing.assert_allclose(twice.multipliers[:, :6], 0.5 * np.tile(forces, 2), atol=1e-4)
    assert np.abs(forces).max() > 1
