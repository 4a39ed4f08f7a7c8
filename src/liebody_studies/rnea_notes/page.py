"""The RNEA notes, recomputed: the recursion of two links term by term, and what to correct in it.

The notes write recursive Newton-Euler in the frames of the centres of mass: joint i has the screw (z_i, b_i)
in link i, and T = (R, p) = T_{i,i-1} = exp(-[A_i] theta_i) M_{i,i-1} carries velocities of link i - 1 into
link i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from liebody import dynamics
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.groups import SE3, SO3, Revolute
from liebody.scalars.linear import cross, skew
from liebody.symbolic import equations, shortest

from .. import compare
from ..compare import Array, apart
from ..drawing import bars
from ..report import EXACT, Check, Correction, Report, Verdict, checks_of, correction_rows, corrections_of

Sizes = dict[str, tuple[float | None, float]]  # of a slip by its number: as printed, as corrected
SKEW = ("christoffel", "ploen", "coadjoint", "feurstein")
FORMS = (*SKEW, "newton-euler", "hamel")
REST = np.zeros(3)
UP = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])  # the arm's plane stands upright


class Chain(compare.Chain):
    """Links in a row with their frames at the centres of mass, as the notes have them.

    A_i is `axis(i)`, M_ij is `home(i, j)`.
    """

    @classmethod
    def random(cls, rng: np.random.Generator, n: int = 2) -> Chain:
        """Axes that are neither parallel nor principal."""
        homes = [SE3.motion(SO3.element(SO3.random(rng)), rng.normal(size=3)) for _ in range(n)]
        axes, points = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        screws = [np.concatenate([z, -cross(z, r)]) for z, r in zip(axes, points, strict=True)]
        second = [s @ s.T for s in rng.normal(size=(n, 3, 3))]
        moments = [np.trace(s) * np.eye(3) - s for s in second]
        masses = rng.uniform(0.5, 2, n)
        inertias = (SpatialInertia(m, REST, I) for m, I in zip(masses, moments, strict=True))
        return cls(np.array(screws), np.array(homes), tuple(inertias))

    def transform(self, i: int, angle: float) -> Array:
        """T_{i,i-1} = exp(-[A_i] theta_i) M_{i,i-1}."""
        return SE3.exp(-self.axis(i) * angle) @ self.home(i, i - 1)

    def links(self, angles: Array) -> list[tuple[Any, ...]]:
        """(R, p, z, b, m, I) of each link, R and p being those of T_{i,i-1}."""
        found = []
        for i, angle in enumerate(angles):
            A, (R, p) = self.axis(i), SE3.parts(self.transform(i, angle))
            found.append((R, p, A[:3], A[3:], self.inertias[i].mass, self.inertias[i].rotational))
        return found


def recursion(links: Any, rates: Array, accelerations: Array, fall: Array = REST) -> dict[str, Any]:
    """Section 7 of the notes, corrected, in components; numbers or symbols. Keys: w1, v1, dw1, dv1, n1, ...

    The base accelerates by -fall. Forces come back to link i by R' = R_{i,i+1}, p' = p_{i,i+1}, the inverse
    of T_{i+1,i}.
    """
    w, v, dw, dv = REST, REST, REST, -np.asarray(fall)
    found: dict[str, Any] = {}
    for i, (R, p, z, b, _, _) in enumerate(links, start=1):
        rate, acceleration = rates[i - 1], accelerations[i - 1]
        w, v = R @ w + rate * z, cross(p, R @ w) + R @ v + rate * b
        dw, dv = (
            R @ dw + rate * cross(w, z) + acceleration * z,
            cross(p, R @ dw) + R @ dv + rate * (cross(v, z) + cross(w, b)) + acceleration * b,
        )
        found.update({f"w{i}": w, f"v{i}": v, f"dw{i}": dw, f"dv{i}": dv})
    n, f, R, p = REST, REST, np.eye(3), REST
    for i in range(len(links), 0, -1):
        _, _, z, b, m, I = links[i - 1]
        w, v, dw, dv = (found[f"{key}{i}"] for key in ("w", "v", "dw", "dv"))
        n, f = (
            R.T @ n + cross(-R.T @ p, R.T @ f) + I @ dw + cross(w, I @ w),
            R.T @ f + m * dv + m * cross(w, v),
        )
        found.update({f"n{i}": n, f"f{i}": f, f"tau{i}": n @ z + f @ b})
        R, p = links[i - 1][:2]
    return found


# -- what to correct, and what is right ---------------------------------------------------------------------


def corrections(seed: int = 0) -> list[Correction]:
    """Each slip of the notes with the size it has for a random chain, its correction beside it."""
    rng = np.random.default_rng(seed)
    chain, three = Chain.random(rng), Chain.random(rng, 3)
    q, v = rng.uniform(-2, 2, 3), rng.normal(size=3)
    sizes = _of_transforms(three, q, v) | _of_the_second_link(chain, q[:2], v[:2]) | _of_frames(rng)
    sizes["4-14"] = None, max(power_defect(three, q, v, form) for form in FORMS)
    return corrections_of(__package__, sizes)


def _of_transforms(three: Chain, q: Array, v: Array) -> Sizes:
    """4-1, 4-2: on three links, where M_{i,i+1} exists for the second."""
    V1, joint = three.axis(0) * v[0], three.axis(1) * v[1]
    V2 = dynamics.body_twists(three.tree, q, v)[1]
    step = apart(SE3.Ad(three.transform(1, q[1])) @ V1 + joint, V2)
    literal = SE3.Ad(SE3.exp(-three.axis(1) * q[1]) @ three.home(1, 2)) @ V1 + joint
    unsigned = SE3.Ad(SE3.exp(three.axis(1) * q[1]) @ three.home(1, 0)) @ V1 + joint
    return {"4-1": (apart(literal, V2), step), "4-2": (apart(unsigned, V2), step)}


def _of_the_second_link(chain: Chain, q: Array, v: Array) -> Sizes:
    """4-3 to 4-10."""
    links, still = chain.links(q), np.zeros(2)
    x = recursion(links, v, still)  # no acceleration of the joints, no gravity
    lifted = recursion(links, v, still, (0, 0, -9.81))
    free = dynamics.inverse_dynamics(chain.tree, q, v, still, gravity=(0, 0, 0))
    falling = dynamics.inverse_dynamics(chain.tree, q, v, still)
    (_, _, z1, b1, _, I1), (R, p, z2, b2, m2, I2) = links
    (t1, t2), w2, Rz, Rb, zero = v, x["w2"], R @ z1, R @ b1, np.zeros((3, 3))

    T = SE3.motion(R, p)
    Ri, pi = SE3.parts(SE3.inverse(T))
    transposed = SE3.Ad(T).T  # how a wrench comes back
    printed = np.block([[R, skew(p) @ R], [zero, R]])
    mended = np.block([[Ri, skew(pi) @ Ri], [zero, Ri]])

    Iw = cross(w2, I2 @ w2)
    expanded = t1**2 * cross(Rz, I2 @ Rz) + t1 * t2 * cross(z2, I2 @ Rz)
    as_printed = expanded + t1 * t2 * cross(Rz, z2)
    corrected = expanded + t1 * t2 * cross(Rz, I2 @ z2) + t2**2 * cross(z2, I2 @ z2)
    vxz = cross(x["v2"], z2)
    lever = t1 * cross(cross(p, Rz), z2)
    turning = cross(Rz, cross(p, Rz)) + R @ cross(z1, b1)
    tau2 = t1**2 * (z2 @ cross(Rz, I2 @ Rz) + m2 * b2 @ turning)
    forces = t1**2 * (cross(Rz, cross(p, Rz)) + cross(p, Rz)) + t1 * t2 * (R @ cross(z1, b1))
    tau2_printed = z2 @ as_printed + m2 * b2 @ forces
    return {
        "4-3": (apart(printed, transposed), apart(mended, transposed)),
        "4-4": (apart(0 * w2, x["dw2"]), apart(t1 * t2 * cross(Rz, z2), x["dw2"])),
        "4-5": (apart([x["tau1"], x["tau2"]], falling), apart([lifted["tau1"], lifted["tau2"]], falling)),
        "4-6": (apart(Iw, x["n2"]), apart(I2 @ x["dw2"] + Iw, x["n2"])),
        "4-7": (apart(as_printed, Iw), apart(corrected, Iw)),
        "4-8": (
            apart(t2 * lever + t1 * t2 * cross(Rz, z2) + t2**2 * cross(b2, z2), vxz),
            apart(lever + t1 * cross(Rb, z2) + t2 * cross(b2, z2), vxz),
        ),
        "4-9": (apart(tau2_printed, free[1]), apart(tau2, free[1])),
        "4-10": (None, max(abs(b1 @ cross(z1, b1)), abs(z1 @ cross(z1, I1 @ z1)) / np.abs(I1).max())),
    }


def _of_frames(rng: np.random.Generator) -> Sizes:
    """4-11: spatial and body twist of a moving frame; 4-12: power; 4-13: adjoints."""
    body, T, step = rng.normal(size=6), SE3.exp(rng.normal(size=6)), 1e-30
    rate = (T @ (np.eye(4) + 1j * step * SE3.hat(body))).imag / step
    spatial_twist, body_twist = SE3.vee(rate @ SE3.inverse(T)), SE3.vee(SE3.inverse(T) @ rate)
    wrench, twist = rng.normal(size=6), rng.normal(size=6)
    power, inverse = wrench @ twist, SE3.Ad(SE3.inverse(T)).T
    carried = (SE3.Ad(T).T @ wrench) @ (SE3.Ad(SE3.inverse(T)) @ twist)
    return {
        "4-11": (apart(spatial_twist, body), apart(body_twist, body)),
        "4-12": (None, abs(carried - power) / abs(power)),
        "4-13": (apart(SE3.Ad(T).T, inverse), apart(np.linalg.inv(SE3.Ad(T)).T, inverse)),
    }


def power_defect(chain: Chain, q: Array, v: Array, form: str) -> float:
    """|v^T (dM/dt - 2 C) v| relative to its terms."""
    N = mass_rate_minus_2c(chain, q, v, form)
    return float(abs(v @ N @ v) / (np.abs(N).max() * (v @ v) + 1e-300))


def mass_rate_minus_2c(chain: Chain, q: Array, v: Array, form: str) -> Array:
    """dM/dt - 2 C (n, n), with the derivative of M by a complex step."""
    step = 1e-30
    rate = dynamics.mass_matrix(chain.tree, q + 1j * step * v).imag / step
    return rate - 2 * dynamics.coriolis_matrix(chain.tree, q, v, form)


def right_as_printed(seed: int = 1) -> list[Check]:
    """What the notes print correctly."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    angles, rates = rng.uniform(-2, 2, 2), rng.normal(size=2)
    links = chain.links(angles)
    x = recursion(links, rates, np.zeros(2))
    (_, _, z1, b1, _, _), (R, p, z2, b2, _, _) = links
    t1, t2 = rates
    Rz, Rb = R @ z1, R @ b1
    squares = {
        "11": cross(Rz, cross(p, Rz)) + R @ cross(z1, b1),
        "12": cross(Rz, b2) + cross(z2, cross(p, Rz)) + cross(z2, Rb),
        "22": cross(z2, b2),
    }
    total = t1**2 * squares["11"] + t1 * t2 * squares["12"] + t2**2 * squares["22"]
    V, F, a, b, c = rng.normal(size=6), rng.normal(size=6), *rng.normal(size=(3, 3))
    X, Y = SE3.exp(rng.normal(size=6)), SE3.exp(rng.normal(size=6))
    Q = X[:3, :3]
    n, f, w, u = F[:3], F[3:], V[:3], V[3:]
    r, step = cross(z2, b2), 1e-30  # r is the point of the axis next to the centre of mass
    rate = SE3.Ad(SE3.compose(X, np.eye(4) + 1j * step * SE3.hat(V))).imag / step
    world = chain.homes[1] @ SE3.inverse(chain.homes[0])
    off = {
        "2.1": apart(dynamics.body_twists(chain.tree, np.zeros(2), np.eye(2)[0])[0], chain.axis(0)),
        "1.2": apart(chain.homes[0] @ chain.home(0, 1), chain.homes[1]),
        "3.1": apart(SE3.Ad(world) @ SE3.Ad(SE3.inverse(world)), np.eye(6)),
        "3.3": apart(np.concatenate([-cross(w, n) - cross(u, f), -cross(w, f)]), SE3.ad(V).T @ F),
        "5.2": apart(-cross(z2, r), b2),
        "10.2": apart(total, cross(x["w2"], x["v2"])),
        "Appendix": apart(skew(a) @ skew(b), np.outer(b, a) - a @ b * np.eye(3)),
        "Appendix#2": apart(Q @ skew(a) @ Q.T, skew(Q @ a)),
        "Appendix#3": apart([c @ cross(a, b), b @ cross(c, a)], np.full(2, a @ cross(b, c))),
        "Appendix#4": apart(SE3.Ad(X) @ SE3.Ad(Y), SE3.Ad(X @ Y)),
        "Appendix#5": apart(SE3.Ad(X) @ SE3.ad(V), rate),
    }
    return checks_of(__package__, off)


# -- the planar arm of section 8 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanarArm:
    """Two links in a plane, in symbols: length l1, centres of mass at r1, r2, moments I1, I2 about them.

    links      (R, p, z, b, m, I) of the notes, as `recursion` takes them
    equations  of the same arm by `liebody.symbolic`
    """

    links: list[tuple[Any, ...]]
    equations: Any
    fall: Array

    @cached_property
    def variables(self) -> dict[str, Any]:
        """Everything in the recursion, by the corrected notes."""
        eq = self.equations
        return recursion(self.links, list(eq.v), list(eq.a), self.fall)

    @cached_property
    def difference(self) -> list[Any]:
        """tau of the notes minus tau of the library, in normal form; zero if they agree."""
        taus = [self.variables[f"tau{i}"] for i in (1, 2)]
        return [shortest(a - b) for a, b in zip(taus, self.equations.efforts, strict=True)]

    def table(self, name: str) -> dict[str, Any]:
        """A variable by accelerations, products of velocities, and gravity: column -> short expressions."""
        eq, x = self.equations, self.variables[name]
        (t1, t2), (a1, a2) = eq.v, eq.a
        g = next(p for p in eq.parameters if p.name == "g")
        columns = {
            r"\dot\theta_1": t1, r"\dot\theta_2": t2, r"\ddot\theta_1": a1, r"\ddot\theta_2": a2,
            r"\dot\theta_1^2": t1**2, r"\dot\theta_1\dot\theta_2": t1 * t2, r"\dot\theta_2^2": t2**2, "g": g,
        }  # fmt: skip
        rows = [sympy.Poly(sympy.expand(entry), a1, a2, t1, t2, g) for entry in np.ravel(x)]
        found = {
            key: [shortest(row.coeff_monomial(product)) for row in rows] for key, product in columns.items()
        }
        return found if np.ndim(x) else {key: entries[0] for key, entries in found.items()}


def planar_arm() -> PlanarArm:
    """The 2-link planar arm of section 8."""
    m1, m2, l1, r1, r2, I1, I2, g = sympy.symbols("m1 m2 l1 r1 r2 I1 I2 g", positive=True)
    builder, hinge = TreeBuilder("planar_arm"), Revolute((0, 0, 1))
    builder.add("link1", hinge, SpatialInertia(m1, [r1, 0, 0], [0, 0, I1]), placement=UP)
    builder.add("link2", hinge, SpatialInertia(m2, [r2, 0, 0], [0, 0, I2]), "link1", [l1, 0, 0])
    tree, angles = builder.build(), sympy.symbols("theta1 theta2", real=True)
    rates = [[sympy.Symbol(rf"\{d}{{\theta}}_{{{k}}}", real=True) for k in (1, 2)] for d in ("dot", "ddot")]
    eq = equations(tree, gravity=(0, 0, -g), q=angles, v=rates[0], a=rates[1])
    links = []
    for angle, r, before, m, I in zip(angles, (r1, r2), (0, l1 - r1), (m1, m2), (I1, I2), strict=True):
        c, s = sympy.cos(angle), sympy.sin(angle)
        R = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], dtype=object)
        p = -R @ np.array([before, 0, 0], dtype=object) - np.array([r, 0, 0], dtype=object)
        z, b = np.array([0, 0, 1], dtype=object), np.array([0, r, 0], dtype=object)  # b = -z x (-r, 0, 0)
        links.append((R, p, z, b, m, np.diag([0, 0, I]).astype(object)))
    return PlanarArm(links, eq, np.array([0, -g, 0], dtype=object))


# -- the page -----------------------------------------------------------------------------------------------


def study() -> Report:
    """The report."""
    found, second = corrections(), second_link(7).items()
    values = {
        "lengths": [_recursion_of(n, rng) for rng in [np.random.default_rng(5)] for n in (2, 3, 6)],
        "corrections": correction_rows(found),
        "bars": bars(found, 1e-18, 1e4),
        "right": [
            [c.label, c.printed, c.off, Verdict(c.printed, c.says, c.confirmed)] for c in right_as_printed()
        ],
        "second": [[f"${x}$", off, Verdict(f"${x}$ in full", "holds", off < EXACT)] for x, off in second],
        "forms": form_rows(),
    }
    return Report.from_template(__package__, values | planar())


def _recursion_of(n: int, rng: np.random.Generator) -> list[Any]:
    """The corrected recursion beside `inverse_dynamics`, on 20 chains of n links."""
    worst = 0.0
    for _ in range(20):
        chain = Chain.random(rng, n)
        q, v, a = rng.uniform(-3, 3, n), rng.normal(size=n), rng.normal(size=n)
        x = recursion(chain.links(q), v, a, (0, 0, -9.81))
        tau = dynamics.inverse_dynamics(chain.tree, q, v, a)
        worst = max(worst, apart([x[f"tau{i}"] for i in range(1, n + 1)], tau))
    return [n, worst, Verdict(f"the corrected recursion, {n} links", "holds", worst < 1e-10)]


NAMES = {
    "w1": r"\omega_1", "v1": "v_1", "dw1": r"\dot\omega_1", "dv1": r"\dot v_1", "w2": r"\omega_2",
    "v2": "v_2", "dw2": r"\dot\omega_2", "dv2": r"\dot v_2", "n2": "n_2", "f2": "f_2", "tau2": r"\tau_2",
    "tau1": r"\tau_1",
}  # fmt: skip


def planar() -> dict[str, Any]:
    """The planar arm's variables term by term, and its closed form, in LaTeX."""
    arm = planar_arm()
    eq = arm.equations
    matrices = eq.latex("M", "C", "g").replace("(q, v)", r"(\theta, \dot\theta)").replace("(q)", r"(\theta)")
    products = eq.velocity_products()

    def tex(x: Any) -> str:
        return str(sympy.latex(x, symbol_names=dict(eq.symbol_names)))

    return {
        "terms": [_terms(arm, name, left) for name, left in NAMES.items()],
        "closed": [*matrices.splitlines(), *eq.latex("kinetic", "potential").splitlines()],
        "difference": ", ".join(map(str, arm.difference)),
        "one_arm": all(x == 0 for x in arm.difference),
        "centrifugal": tex(products.centrifugal),
        "coriolis": tex(products.coriolis),
    }


def _terms(arm: PlanarArm, name: str, left: str) -> str:
    """A variable as the sum of its terms; vectors along z, or in x and y."""
    vector = name[0] in "vf" or name.startswith("dv")
    words = []
    for product, entries in arm.table(name).items():
        if isinstance(entries, list):
            entries = sympy.Matrix(entries[:2]) if vector else entries[2]
        if entries != 0 * entries:
            words.append(_term(product, entries))
    if name.startswith("tau"):
        second = rf"\\ &\quad {_joined(words[2:], '+')}"
        return rf"\begin{{aligned}} {left} &= {_joined(words[:2])} {second} \end{{aligned}}"
    return f"{left} = {_joined(words)}"


def _term(product: str, coefficient: Any) -> str:
    """coefficient times product, in LaTeX, with its sign."""
    if not isinstance(coefficient, sympy.MatrixBase):
        if coefficient.is_Add:
            return rf"\left({sympy.latex(coefficient)}\right) {product}"
        if abs(coefficient) == 1:
            return ("-" if coefficient == -1 else "") + product
    return f"{sympy.latex(coefficient)}\\, {product}"


def _joined(terms: list[str], before: str = "") -> str:
    """A sum of terms, which bring their minus signs along."""
    text = ""
    for term in terms:
        sign = "" if term.startswith("-") else "+" if text or before else ""
        text += f" {sign} {term}"
    return text.strip()


def second_link(seed: int) -> dict[str, float]:
    """How far the three formulas of the section above are from the recursion, for a random chain."""
    rng = np.random.default_rng(seed)
    chain, (t1, t2) = Chain.random(rng), rng.normal(size=2)
    links = chain.links(rng.uniform(-2, 2, 2))
    x = recursion(links, (t1, t2), np.zeros(2))
    (_, _, z1, b1, _, _), (R, p, z2, b2, m, I) = links
    u = R @ z1
    turning = cross(u, cross(p, u)) + R @ cross(z1, b1)
    mixed = I @ cross(u, z2) + cross(u, I @ z2) + cross(z2, I @ u)
    n = t1**2 * cross(u, I @ u) + t1 * t2 * mixed + t2**2 * cross(z2, I @ z2)
    f = m * (t1**2 * turning + 2 * t1 * t2 * cross(u, b2) + t2**2 * cross(z2, b2))
    tau = t1**2 * (z2 @ cross(u, I @ u) + m * b2 @ turning)
    return {"n_2": apart(n, x["n2"]), "f_2": apart(f, x["f2"]), r"\tau_2": apart(tau, x["tau2"])}


def form_rows() -> list[list[Any]]:
    """Whether dM/dt - 2 C is skew, and without power, for every form of C of three random links."""
    rng = np.random.default_rng(3)
    chain, q, v = Chain.random(rng, 3), rng.uniform(-2, 2, 3), rng.normal(size=3)
    rows = []
    for form in FORMS:
        N = mass_rate_minus_2c(chain, q, v, form)
        skewness = float(np.abs(N + N.T).max() / np.abs(N).max())
        power = power_defect(chain, q, v, form)
        is_skew = form in SKEW
        claim = f"`{form}`: {'skew' if is_skew else 'not skew'}, and without power"
        agrees = (skewness < EXACT) == is_skew and power < EXACT
        rows.append([f"`{form}`", skewness, power, Verdict(claim, "holds", agrees)])
    return rows
