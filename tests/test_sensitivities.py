"""Derivatives through simulations: tangents beside differences of the same code, adjoints beside tangents."""

import pickle
import sys

import cloudpickle
import numpy as np
import pytest
from random_trees import WEIGHT, random_state, random_tree
from test_linearize import closed_four_bar, hanging_body, sleigh
from test_variations import bouncing

import liebody as lb
from liebody.base.errors import IntegrationError, ModelError, ShapeError
from liebody.compiler.native import libraries
from liebody.groups import Prismatic, R, Revolute
from liebody.hybrid import HybridSystem
from liebody.mechanisms import JointDamping
from liebody.simulation.simulate import CalledEfforts
from liebody.stepping import recurrence

PENDULUM = lb.load("double_pendulum")
Q0, V0 = np.array([0.4, -0.9]), np.array([0.2, 0.5])
TIMES = np.linspace(0, 0.5, 6)
TAU = np.random.default_rng(0).normal(size=(6, 2))


def effort(t, q, v, u):
    return u @ u + t * (v @ v)


def slopes(function, n, h=1e-3):
    """The Jacobian (., n) at 0 by central differences of sixth order."""
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}

    def column(e):
        return sum(w * (function(k * h * e) - function(-k * h * e)) for k, w in weights.items()) / h

    return np.stack([column(e) for e in np.eye(n)], axis=-1)


def agrees(mechanism, given, options, names=("q0", "v0", "tau")):
    """Tangents beside differences of the same simulations, and adjoints and products beside tangents.

    given  q0, v0, tau, parameters, which vary; returns the derivatives
    """
    group, rng = mechanism.group, np.random.default_rng(1)
    s = lb.sensitivities(mechanism, **given, **options)
    rows = s.run.q.shape[0]
    weights = [rng.normal(size=(rows, k)) for k in (group.dim, mechanism.nv)]
    weights += [rng.normal(size=rows)] if "running" in options else []
    gradient = s.vjp(*weights)

    def changed(name, x):
        base = given["parameters"][name] if name in given.get("parameters", {}) else given[name]
        if name == "q0":
            return {"q0": group.integrate(base, x)}
        if isinstance(base, tuple):
            return {name: (base[0], base[1] + x)}
        return {name: base + x} if name in given else {"parameters": {**given["parameters"], name: base + x}}

    def motion(change):
        other = lb.sensitivities(mechanism, **{**given, **change}, **options)
        q = np.stack([group.difference(*x) for x in zip(s.run.q, other.run.q, strict=True)])
        return joined([q, other.run.v, other.integral])

    def joined(parts):
        return np.concatenate([x.reshape(rows, -1) for x in parts if x is not None], axis=1)

    for name, among_all in zip(names, s.tangents([*names]), strict=True):
        D = s.tangents(name)
        np.testing.assert_allclose(among_all.q, D.q, rtol=1e-12, atol=1e-13)
        shape = D.q.shape[2:]
        flat = [x.reshape(rows, -1, int(np.prod(shape))) for x in D if x is not None]
        J = np.concatenate(flat, axis=1)
        expected = slopes(lambda x, n=name, k=shape: motion(changed(n, x.reshape(k))), J.shape[-1])
        assert np.abs(J - expected).max() <= 1e-7 * max(1.0, np.abs(expected).max())
        dual = np.einsum("ti,tic->c", joined(weights), J)
        back = gradient.parameters[name] if name in gradient.parameters else getattr(gradient, name)
        assert np.abs(dual - np.ravel(back)).max() <= 1e-12 * max(1.0, np.abs(dual).max())
        x = rng.normal(size=shape)
        along = joined(s.jvp(**({name: x} if name in given else {"parameters": {name: x}})))
        assert np.abs(along - J @ np.ravel(x)).max() <= 1e-12 * max(1.0, np.abs(along).max())
    return s


STATE = {"q0": Q0, "v0": V0}
SHORT = {"t_end": 0.5, "dt": 0.025, "record_every": 0.125}


@pytest.mark.parametrize(
    ("method", "hold"),
    [
        ("rkmk4", "zero"),
        ("cf4", "linear"),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in (("rkmk4", "linear"), ("rkmk45", "zero"))),
    ],
)
def test_derivatives_of_explicit_methods_are_those_of_the_steps(method, hold):
    given = {**STATE, "tau": (TIMES, TAU)}
    agrees(PENDULUM, given, {**SHORT, "method": method, "hold": hold, "running": effort})


def test_samples_within_steps_and_a_last_shorter_step_are_differentiated():
    options = {"t_end": 0.5, "dt": 0.037, "running": effort}
    given = {**STATE, "tau": (np.linspace(0.05, 0.45, 6), TAU)}
    for hold in ("zero", "linear"):
        agrees(PENDULUM, given, {**options, "hold": hold})


@pytest.mark.parametrize(
    "kinds", [["free", "revolute"], pytest.param(["planar", "spherical"], marks=pytest.mark.slow)]
)
@pytest.mark.many
def test_orientations_are_differentiated_along_their_groups(kinds):
    rng = np.random.default_rng(2)
    tree = random_tree(rng, kinds)
    q, v, tau = random_state(rng, tree)
    agrees(lb.Robot(tree, WEIGHT), {"q0": q, "v0": v, "tau": tau}, {"t_end": 0.2, "dt": 0.05})


@pytest.mark.parametrize(
    "method",
    [
        "generalized-alpha",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("radau3", "gauss4", "variational")),
    ],
)
@pytest.mark.many
def test_derivatives_of_implicit_methods_are_those_of_their_equations(method):
    """With efforts that jump, where generalized-alpha begins anew."""
    pendulum = lb.Robot(
        lb.TreeBuilder("pendulum").add("bob", Revolute([0, 1, 0]), lb.SpatialInertia.sphere(2.0, 0.3)).build()
    )
    given = {"q0": np.array([0.3]), "v0": np.array([1.0]), "tau": (TIMES, TAU[:, :1])}
    agrees(pendulum, given, {**SHORT, "method": method, "running": effort})


@pytest.mark.parametrize(
    ("made", "method"),
    [
        pytest.param(closed_four_bar, "rkmk4", marks=pytest.mark.slow),
        pytest.param(closed_four_bar, "generalized-alpha", marks=pytest.mark.slow),
        pytest.param(hanging_body, "rkmk4", marks=pytest.mark.slow),
        (sleigh, "rkmk4"),
        pytest.param(sleigh, "half-explicit4", marks=pytest.mark.slow),
    ],
)
@pytest.mark.many
def test_constrained_motions_are_differentiated_along_what_obeys(made, method):
    mechanism, q, v = made()
    options = {"t_end": 0.2, "dt": 0.02, "method": method}
    tau = 0.3 + np.arange(mechanism.nu)
    given = {"q0": q, "v0": v, "tau": tau}
    names = ("tau",) if mechanism.nu else ()
    s = agrees(mechanism, given, options, names=names)
    n, T = mechanism.nv, lb.linearize(mechanism, q, v).basis
    D = [np.concatenate([x.q[-1], x.v[-1]]) for x in (s.tangents("q0"), s.tangents("v0"))]
    found = np.concatenate(D, axis=1) @ T

    def end(x):
        state = mechanism.group.integrate(q, T[:n] @ x), v + T[n:] @ x
        for _ in range(6):
            state = mechanism.project(*state)
        run = lb.simulate(mechanism, *state, tau=tau, **options)
        return np.concatenate([mechanism.group.difference(s.run.q[-1], run.q[-1]), run.v[-1]])

    expected = slopes(end, T.shape[1])
    assert np.abs(found - expected).max() < 1e-7 * max(1.0, np.abs(expected).max())


@pytest.mark.wide
def test_parameters_and_gains_are_differentiated():
    def drive(t, q, v, p):
        return np.stack([-p.K * q[0] - p.D * v[0], p.bias])

    def cost(t, q, v, u, p):
        return u @ u + p.K * (q @ q)

    names = {"K": 3.0, "D": 0.2, "bias": -0.3, f"{PENDULUM.tree.bodies[1].name}.mass": 1.3}
    given = {**STATE, "tau": drive, "parameters": names}
    s = agrees(PENDULUM, given, {**SHORT, "running": cost}, names=("q0", "v0", *names))
    assert s.vjp(v=np.ones((5, 2))).tau is None
    members = lb.sensitivities(
        PENDULUM, **STATE, tau=drive, running=cost, **SHORT, parameters={**names, "K": [2.0, 3.0]}
    )
    for name in names:
        one, both = (x.gradient(end=lambda q, v: q @ v)[1].parameters[name] for x in (s, members))
        np.testing.assert_allclose(both[1], one, rtol=1e-12)
    with pytest.raises(ModelError, match=r"no derivatives by 'tau'; known are q0, v0, link2.mass"):
        s.tangents("tau")


def test_members_are_differentiated_as_if_they_were_alone():
    q0 = Q0 + 0.1 * np.arange(3)[:, None]
    together = lb.sensitivities(PENDULUM, q0, V0, tau=(TIMES, TAU), running=effort, **SHORT)
    value, g = together.gradient(end=lambda q, v: q @ v)
    D = together.tangents("tau")
    for i in range(3):
        alone = lb.sensitivities(PENDULUM, q0[i], V0, tau=(TIMES, TAU), running=effort, **SHORT)
        of_one, h = alone.gradient(end=lambda q, v: q @ v)
        np.testing.assert_allclose(value[i], of_one, rtol=1e-13)
        np.testing.assert_allclose(D.q[i], alone.tangents("tau").q, atol=1e-13)
        for a, b in zip(g[:3], h[:3], strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-12)


def test_long_motions_are_differentiated_from_checkpoints(monkeypatch):
    """In segments of three steps, forwards and backwards, to the same numbers but for round-off."""
    made = lambda: lb.sensitivities(PENDULUM, **STATE, tau=(TIMES, TAU), running=effort, **SHORT)  # noqa: E731
    whole = made()
    assert np.isfinite(whole.gradient()[0])
    monkeypatch.setattr(sys.modules["liebody.simulation.sensitivities"], "SEGMENT", 3 * 80 * 5 * (5 + 2))
    parts = made()
    assert len(whole._motion.segments) == 1 and len(parts._motion.segments) == 7
    for a, b in (
        (parts.integral, whole.integral),
        (parts.tangents("tau").v, whole.tangents("tau").v),
        *zip(parts.gradient()[1][:3], whole.gradient()[1][:3], strict=True),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_without_a_compiler_the_derivatives_are_the_same(monkeypatch):
    options = {**STATE, "tau": (TIMES, TAU), "running": effort, **SHORT}
    _, expected = lb.sensitivities(PENDULUM, **options).gradient()
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    monkeypatch.setattr(recurrence, "_flow", recurrence._flow.__wrapped__)
    _, found = lb.sensitivities(lb.load("double_pendulum"), **options).gradient()
    for a, b in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("method", "order"),
    [
        ("rkmk4", 4),
        ("cf3", 3),
        *(
            pytest.param(*x, marks=pytest.mark.wide)
            for x in (("rkmk2", 2), ("rkmk5", 5), ("radau3", 3), ("gauss4", 4), ("generalized-alpha", 2))
        ),
    ],
)
def test_the_integral_of_the_running_cost_has_the_order_of_the_method(method, order):
    """Of a cost that is no energy, beside rkmk8 with short steps; that of efforts' power is the work."""

    def integral(dt, method=method, running=effort):
        tau = TIMES * 2, TAU
        s = lb.sensitivities(PENDULUM, Q0, V0, t_end=1.0, dt=dt, tau=tau, running=running, method=method)
        return s.integral[-1], s.run.energy[-1] - s.run.energy[0]

    exact, _ = integral(0.005, "rkmk8")
    coarse, fine = (integral(dt)[0] - exact for dt in (0.02, 0.01))
    assert abs(fine) < 2e-3 * abs(exact) and np.log2(coarse / fine) > order - 0.25
    work, gained = integral(0.01, "rkmk8", lambda t, q, v, u: u @ v)
    assert work == pytest.approx(gained, rel=1e-10)


@pytest.mark.wide
@pytest.mark.parametrize("method", ["rkmk4", "half-explicit4"])
def test_the_integral_of_constrained_motions_has_the_order_of_the_method(method):
    mechanism, q, v = closed_four_bar()

    def integral(dt, method=method):
        options = {"t_end": 0.4, "dt": dt, "method": method, "running": lambda t, q, v, u: v @ v}
        return lb.sensitivities(mechanism, q, v, **options).integral[-1]

    exact = integral(0.0025, "rkmk8")
    coarse, fine = (integral(dt) - exact for dt in (0.02, 0.01))
    assert abs(np.log2(coarse / fine)) > 3.5 or abs(fine) < 1e-12 * abs(exact)


def test_where_a_throw_lands_depends_on_its_start_as_in_the_textbook():
    """x = x0 + vx t, z = z0 + vz t - g t^2/2: exact by steps of order 2 and more."""
    tree = lb.TreeBuilder("point")
    tree.add("x", Prismatic([1, 0, 0])).add(
        "ball", Prismatic([0, 0, 1]), lb.SpatialInertia.sphere(1.0, 0.1), "x"
    )
    ball, t = lb.Robot(tree.build()), 0.7
    s = lb.sensitivities(ball, [0, 1.0], [3.0, 2.0], t_end=t, dt=0.1)
    value, g = s.gradient(end=lambda q, v: 2 * q[0] + q[1])
    np.testing.assert_allclose(value, 2 * 2.1 + 1 + 1.4 - 9.81 * t * t / 2, rtol=1e-13)
    np.testing.assert_allclose(g.q0, [2, 1], rtol=1e-13)
    np.testing.assert_allclose(g.v0, [2 * t, t], rtol=1e-13)
    np.testing.assert_allclose(g.tau, [t * t, t * t / 2], rtol=1e-12)


def test_costs_at_samples_and_forces_are_differentiated():
    options = {**SHORT, "forces": [JointDamping()], "tau": TAU[0]}
    s = lb.sensitivities(PENDULUM, Q0, V0, **options)
    target = np.array([0.1, 0.2])

    def miss(t, q, v):
        return (q - target) @ (q - target) * (1 + t)

    value, g = s.gradient(samples=miss)
    expected = sum(miss(t, q, v) for t, q, v in zip(s.run.t, s.run.q, s.run.v, strict=True))
    assert abs(value - expected) < 1e-12

    def of(x):
        return np.array([lb.sensitivities(PENDULUM, Q0 + x, V0, **options).gradient(samples=miss)[0]])

    np.testing.assert_allclose(g.q0, slopes(of, 2)[0], atol=1e-8)


def test_hybrid_systems_are_differentiated_by_the_same_call():
    """A ball that bounces: through the event, where velocities jump."""
    ball = bouncing()
    q0, v0 = np.array([1.0]), np.array([-1.0])
    options = {"t_end": 1.5, "record_every": 0.5}
    s = lb.sensitivities(ball, q0, v0, parameters={"restitution": 0.7}, **options)

    def end(x):
        run = ball.simulate(q0 + x[:1], v0 + x[1:2], parameters={"restitution": 0.7 + x[2]}, **options)
        return np.array([run.q[-1, 0], run.v[-1, 0]])

    expected = slopes(end, 3)
    D = s.tangents("q0"), s.tangents("v0"), s.tangents("restitution")
    found = np.array([[x.q[-1].item(), x.v[-1].item()] for x in D]).T
    np.testing.assert_allclose(found, expected, atol=1e-8)
    assert len(s.run.events.t) > 0
    value, g = s.gradient(end=lambda q, v: 3 * q[0] + v[0])
    weights = np.array([3.0, 1.0])
    gradient = [g.q0.item(), g.v0.item(), g.parameters["restitution"].item()]
    np.testing.assert_allclose(gradient, weights @ found, rtol=1e-12)
    assert value == 3 * s.run.q[-1, 0] + s.run.v[-1, 0]


def test_samples_of_a_hybrid_system_are_held_as_is_said():
    """dv/dt = u t between two samples: linear in time, so v = u t^2/2, and zero where samples are held."""
    cart = HybridSystem(R(1), lambda t, q, v, z, p: np.array([p.u]), parameters={"u": 0.0, "m": 1.0})
    sampled, options = {"u": (np.array([0.0, 1.0]), np.array([0.0, 3.0]))}, {"t_end": 1.0, "dt": 0.25}
    for hold, speed in (("linear", 1.5), ("zero", 0.0)):
        s = lb.sensitivities(cart, [0.0], sampled=sampled, hold=hold, record_every=0.5, **options)
        np.testing.assert_allclose(s.run.v[-1], speed, atol=1e-15)


@pytest.mark.parametrize("method", ["rkmk4", pytest.param("variational", marks=pytest.mark.wide)])
def test_motions_with_derivatives_can_be_sent_to_other_processes(method):
    given = {**STATE, "tau": TAU[0], "t_end": 0.2, "dt": 0.05, "running": effort, "method": method}
    s = lb.sensitivities(PENDULUM, **given)
    before = pickle.dumps(s), cloudpickle.dumps(s)
    value, g = s.gradient(end=lambda q, v: q @ q)
    for sent in (*before, pickle.dumps(s), cloudpickle.dumps(s)):
        again = pickle.loads(sent)
        other, h = again.gradient(end=lambda q, v: q @ q)
        assert other == value and np.array_equal(again.run.q, s.run.q)
        for x, y in zip(h[:3], g[:3], strict=True):
            np.testing.assert_array_equal(x, y)


def test_what_cannot_be_differentiated_is_refused():
    with (
        pytest.warns(CalledEfforts),
        pytest.raises(IntegrationError, match="what can only be called is not differentiated"),
    ):
        lb.sensitivities(PENDULUM, Q0, t_end=0.1, dt=0.01, tau=lambda t, q, v: np.array([float(q[0]), 0.0]))
    s = lb.sensitivities(PENDULUM, Q0, t_end=0.1, dt=0.05)
    with pytest.raises(ModelError, match="there is no integral"):
        s.vjp(integral=np.ones(3))
    with pytest.raises(ShapeError, match=r"q has shape \(2, 2\), expected \(3, 2\)"):
        s.vjp(q=np.ones((2, 2)))
    for given in ([1.0], 1.0):  # is not (1, 1)
        with pytest.raises(ShapeError, match=r"q0 has shape .*, expected \(2,\)"):
            s.jvp(q0=given)
    with pytest.raises(ModelError, match=r"no derivatives by 'mass'; known are q0, v0, tau"):
        s.tangents("mass")
    with pytest.raises(ModelError, match="tau is given for a hybrid system, which does not take it"):
        lb.sensitivities(bouncing(), np.ones(1), t_end=0.1, tau=np.zeros(1))
    for name, given in (("forces", [JointDamping()]), ("joints", "real"), ("stabilization", "project")):
        with pytest.raises(ModelError, match=f"{name} is given for a hybrid system"):
            lb.sensitivities(bouncing(), np.ones(1), t_end=0.1, **{name: given})
    with pytest.raises(ShapeError, match=r"the result of running has shape \(2,\), expected one number"):
        lb.sensitivities(PENDULUM, Q0, t_end=0.1, dt=0.05, running=lambda t, q, v, u: u)
    with pytest.raises(IntegrationError, match="dt is None, expected a positive number"):
        lb.sensitivities(PENDULUM, Q0, t_end=0.1)
    with pytest.raises(IntegrationError, match="let samples lie at ends of steps"):
        samples = np.array([0.0, 0.03]), np.zeros((2, 2))
        lb.sensitivities(PENDULUM, t_end=0.1, dt=0.05, tau=samples, method="generalized-alpha")
