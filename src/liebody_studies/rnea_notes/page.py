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
from liebody.bodies import SpatialInertia, Tree, TreeBuilder
from liebody.equations import equations, shortest
from liebody.groups import SE3, SO3, Revolute
from liebody.linear import cross, skew

from ..report import EXACT, Correction, Report

Array = Any
SKEW = ("christoffel", "ploen", "coadjoint", "feurstein")
FORMS = (*SKEW, "newton-euler", "hamel")
REST = np.zeros(3)
UP = np.array(
    [[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
)  # the plane of the arm stands upright


class Chain:
    """Links in a row with their frames at the centres of mass, as the notes have them.

    screws    space screws of the joints at home, (n, 6)
    homes     poses M_{0i} of the links at home, (n, 4, 4)
    masses    (n,);  inertias  (n, 3, 3) about the centres of mass
    """

    def __init__(self, screws: Array, homes: Array, masses: Array, inertias: Array) -> None:
        self.screws, self.homes = np.asarray(screws), np.asarray(homes)
        self.masses, self.inertias = np.asarray(masses), np.asarray(inertias)

    @classmethod
    def random(cls, rng: np.random.Generator, n: int = 2) -> Chain:
        """Axes that are neither parallel nor principal."""
        homes = [SE3.motion(SO3.element(SO3.random(rng)), rng.normal(size=3)) for _ in range(n)]
        axes, points = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        screws = [np.concatenate([z, -cross(z, r)]) for z, r in zip(axes, points, strict=True)]
        shapes = rng.normal(size=(n, 3, 3))
        second = [s @ s.T for s in shapes]
        inertias = [np.trace(s) * np.eye(3) - s for s in second]
        return cls(screws, homes, rng.uniform(0.5, 2, n), inertias)

    @cached_property
    def tree(self) -> Tree:
        """The same mechanism for the algorithms of this library."""
        inertias = [SpatialInertia(m, REST, I) for m, I in zip(self.masses, self.inertias, strict=True)]
        return Tree.from_screws(self.screws, self.homes, inertias)

    def axis(self, i: int) -> Array:
        """A_i = Ad(M_{0i}^-1) S_i."""
        return SE3.Ad(SE3.inverse(self.homes[i])) @ self.screws[i]

    def home(self, i: int, j: int) -> Array:
        """M_{ij} = M_{0i}^-1 M_{0j}; link -1 is the base."""
        M = [*self.homes, np.eye(4)]
        return SE3.inverse(M[i]) @ M[j]

    def transform(self, i: int, angle: float) -> Array:
        """T_{i,i-1} = exp(-[A_i] theta_i) M_{i,i-1}."""
        return SE3.exp(-self.axis(i) * angle) @ self.home(i, i - 1)

    def links(self, angles: Array) -> list[tuple[Any, ...]]:
        """(R, p, z, b, m, I) of each link, R and p being those of T_{i,i-1}."""
        found = []
        for i, angle in enumerate(angles):
            A, (R, p) = self.axis(i), SE3.parts(self.transform(i, angle))
            found.append((R, p, A[:3], A[3:], self.masses[i], self.inertias[i]))
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


def apart(x: Any, y: Any) -> float:
    """The largest difference, relative to the size of y."""
    return float(np.max(np.abs(np.asarray(x) - y)) / max(np.max(np.abs(y)), 1e-300))


def corrections(seed: int = 0) -> list[Correction]:
    """Each slip of the notes with the size it has for a random chain, its correction beside it."""
    rng = np.random.default_rng(seed)
    chain, three = Chain.random(rng), Chain.random(rng, 3)
    angles, rates, still = rng.uniform(-2, 2, 3), rng.normal(size=3), np.zeros(3)
    links = chain.links(angles[:2])
    x = recursion(links, rates[:2], still[:2])  # no acceleration of the joints, no gravity
    (_, _, z1, b1, _, I1), (R, p, z2, b2, m2, I2) = links
    t1, t2 = rates[:2]
    w2, Rz, Rb = x["w2"], R @ z1, R @ b1

    q, v = angles[:2], rates[:2]
    free = dynamics.inverse_dynamics(chain.tree, q, v, still[:2], gravity=(0, 0, 0))
    falling = dynamics.inverse_dynamics(chain.tree, q, v, still[:2])
    lifted = recursion(links, v, still[:2], (0, 0, -9.81))

    # 4-1, 4-2: the transform, on three links, where M_{i,i+1} exists for the second
    V1 = three.axis(0) * rates[0]
    pair = three.tree
    V2 = dynamics.body_twists(pair, angles, rates)[1]
    step = SE3.Ad(three.transform(1, angles[1])) @ V1 + three.axis(1) * rates[1]
    literal = SE3.Ad(SE3.exp(-three.axis(1) * angles[1]) @ three.home(1, 2)) @ V1 + three.axis(1) * rates[1]
    unsigned = SE3.Ad(SE3.exp(three.axis(1) * angles[1]) @ three.home(1, 0)) @ V1 + three.axis(1) * rates[1]

    # 4-3: how a wrench comes back
    T = SE3.motion(R, p)
    transposed = SE3.Ad(T).T
    zero = np.zeros((3, 3))
    printed = np.block([[R, skew(p) @ R], [zero, R]])
    Ri, pi = SE3.parts(SE3.inverse(T))

    Iw = cross(w2, I2 @ w2)
    expanded = t1**2 * cross(Rz, I2 @ Rz) + t1 * t2 * cross(z2, I2 @ Rz)
    as_printed = expanded + t1 * t2 * cross(Rz, z2)
    corrected = expanded + t1 * t2 * cross(Rz, I2 @ z2) + t2**2 * cross(z2, I2 @ z2)
    vxz = cross(x["v2"], z2)
    lever = t1 * cross(cross(p, Rz), z2)
    turning = cross(Rz, cross(p, Rz)) + R @ cross(z1, b1)
    tau2 = t1**2 * (z2 @ cross(Rz, I2 @ Rz) + m2 * b2 @ turning)
    tau2_printed = (
        z2 @ as_printed
        + m2 * t1**2 * b2 @ cross(Rz, cross(p, Rz))
        + m2 * t1**2 * b2 @ cross(p, Rz)
        + m2 * t1 * t2 * b2 @ (R @ cross(z1, b1))
    )

    # 4-11: spatial and body twist of a moving frame
    body = rng.normal(size=6)
    moving, step_size = SE3.exp(rng.normal(size=6)), 1e-30
    rate = (moving @ (np.eye(4) + 1j * step_size * SE3.hat(body))).imag / step_size
    spatial_twist, body_twist = SE3.vee(rate @ SE3.inverse(moving)), SE3.vee(SE3.inverse(moving) @ rate)

    # 4-12: power
    wrench, twist = rng.normal(size=6), rng.normal(size=6)
    power = wrench @ twist
    carried = (SE3.Ad(moving).T @ wrench) @ (SE3.Ad(SE3.inverse(moving)) @ twist)

    inverse = SE3.Ad(SE3.inverse(moving)).T
    return [
        Correction(
            "4-1",
            r"$T_{i,i+1} = e^{-[A_i]\theta_i} M_{i,i+1}$",
            r"$T_{i,i-1} = e^{-[A_i]\theta_i} M_{i,i-1}$",
            apart(literal, V2),
            apart(step, V2),
            where="4 (2–4), 5, 7",
        ),
        Correction(
            "4-2",
            "from link i to link i − 1; “the negative sign handles the direction convention”",
            r"$T_{i,i-1}$ carries from i − 1 to i; $e^{-[A_i]\theta_i}$ is the inverse motion of the joint",
            apart(unsigned, V2),
            apart(step, V2),
            "imprecise",
            where="4 (2)",
        ),
        Correction(
            "4-3",
            r"$\mathrm{Ad}_{T_{i+1,i}}^T$ with $R_{i+1,i}$ and $[p_{i+1,i}] R_{i+1,i}$; $R_{21} n_2 + "
            r"[p_{21}] R_{21} f_2$",
            r"the same with $(i, i+1)$: $R_{12} n_2 + [p_{12}] R_{12} f_2$",
            apart(printed, transposed),
            apart(np.block([[Ri, skew(pi) @ Ri], [zero, Ri]]), transposed),
            where="6.2, 7, 8.2, 10.4",
        ),
        Correction(
            "4-4",
            r"$\dot\omega_2 = 0$ if $\ddot\theta = 0$",
            r"$\dot\omega_2 = \dot\theta_1 \dot\theta_2\, (R_{21} z_1 \times z_2)$",
            apart(0 * w2, x["dw2"]),
            apart(t1 * t2 * cross(Rz, z2), x["dw2"]),
            "wrong",
            where="9.1",
        ),
        Correction(
            "4-5",
            r"$\dot v_0 = 0$, so that gravity never enters",
            r"$\dot v_0 = -g$",
            apart([x["tau1"], x["tau2"]], falling),
            apart([lifted["tau1"], lifted["tau2"]], falling),
            "wrong",
            where="8.3, 9",
        ),
        Correction(
            "4-6",
            r"$n_2 = \omega_2 \times I_2 \omega_2$",
            r"$n_2 = I_2 \dot\omega_2 + \omega_2 \times I_2 \omega_2$",
            apart(Iw, x["n2"]),
            apart(I2 @ x["dw2"] + Iw, x["n2"]),
            "wrong",
            where="10.1",
        ),
        Correction(
            "4-7",
            r"$\dot\theta_1 \dot\theta_2 (R_{21} z_1 \times z_2)$, and $z_2 \times z_2 = 0$",
            r"$\dot\theta_1 \dot\theta_2 (R_{21} z_1 \times I_2 z_2)$, and $\dot\theta_2^2\, z_2 "
            r"\times I_2 z_2$, zero only for a principal axis",
            apart(as_printed, Iw),
            apart(corrected, Iw),
            where="10.1",
        ),
        Correction(
            "4-8",
            r"$\dot\theta_1 \dot\theta_2 (p \times R z_1) \times z_2 + \dot\theta_1 \dot\theta_2 (R "
            r"z_1 \times z_2) + \dot\theta_2^2\, b_2 \times z_2$",
            r"$v_2 \times z_2 = \dot\theta_1 (p \times R z_1) \times z_2 + \dot\theta_1 (R b_1 \times z_2) + "
            r"\dot\theta_2\, b_2 \times z_2$",
            apart(t2 * lever + t1 * t2 * cross(Rz, z2) + t2**2 * cross(b2, z2), vxz),
            apart(lever + t1 * cross(Rb, z2) + t2 * cross(b2, z2), vxz),
            where="10.2",
        ),
        Correction(
            "4-9",
            r"$\tau_2$ with products $\dot\theta_1 \dot\theta_2$, and $m_2 \dot\theta_1^2 b_2^T (p_{21} "
            r"\times R_{21} z_1)$",
            r"$\tau_2 = \dot\theta_1^2 \{z_2 \cdot (R z_1 \times I_2 R z_1) + m_2 b_2 \cdot [R z_1 "
            r"\times (p \times R z_1) + R (z_1 \times b_1)]\}$",
            apart(tau2_printed, free[1]),
            apart(tau2, free[1]),
            "wrong",
            where="10.3",
        ),
        Correction(
            "4-10",
            r"often $z_1 \times b_1 \perp b_1$",
            r"always; and $z_1 \cdot (z_1 \times I_1 z_1) = 0$, so that $\tau_1$ has no term of link 1",
            None,
            max(abs(b1 @ cross(z1, b1)), abs(z1 @ cross(z1, I1 @ z1)) / np.abs(I1).max()),
            "imprecise",
            where="10.5",
        ),
        Correction(
            "4-11",
            r"Ad comes from $\dot T T^{-1}$, the body velocity",
            r"$\dot T T^{-1}$ is the spatial twist; that of the body is $T^{-1} \dot T$",
            apart(spatial_twist, body),
            apart(body_twist, body),
            "wrong",
            where="3.1",
        ),
        Correction(
            "4-12",
            r"wrenches come from the dual space $T^* T^{-1}$",
            r"from $se(3)^*$, the power $F^T V$ being the same in every frame",
            None,
            abs(carried - power) / abs(power),
            where="2.2",
        ),
        Correction(
            "4-13",
            r"$(\mathrm{Ad}_T)^T = \mathrm{Ad}_{T^{-1}}^T \neq \mathrm{Ad}_T^{-T}$",
            r"$\mathrm{Ad}_{T^{-1}}^T = \mathrm{Ad}_T^{-T} \neq (\mathrm{Ad}_T)^T$",
            apart(SE3.Ad(moving).T, inverse),
            apart(np.linalg.inv(SE3.Ad(moving)).T, inverse),
            "wrong",
            where="Appendix",
        ),
        Correction(
            "4-14",
            r"$\dot M - 2C$ is skew for certain definitions of C",
            r"right; and $\dot\theta^T (\dot M - 2C) \dot\theta = 0$ for every C with the right $C "
            r"\dot\theta$",
            None,
            max(power_defect(three, angles, rates, form) for form in FORMS),
            "holds",
            where="11",
        ),
    ]


def power_defect(chain: Chain, q: Array, v: Array, form: str) -> float:
    """|v^T (dM/dt - 2 C) v| relative to its terms."""
    N = mass_rate_minus_2c(chain, q, v, form)
    return float(abs(v @ N @ v) / (np.abs(N).max() * (v @ v) + 1e-300))


def mass_rate_minus_2c(chain: Chain, q: Array, v: Array, form: str) -> Array:
    """dM/dt - 2 C (n, n), with the derivative of M by a complex step."""
    step = 1e-30
    rate = dynamics.mass_matrix(chain.tree, q + 1j * step * v).imag / step
    return rate - 2 * dynamics.coriolis_matrix(chain.tree, q, v, form)


def right_as_printed(seed: int = 1) -> list[tuple[str, str, float]]:
    """(section, formula, discrepancy) of what the notes print correctly."""
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
    r = cross(z2, b2)  # the point of the axis next to the centre of mass
    products = SE3.Ad(X @ Y)
    step = 1e-30
    rate = SE3.Ad(SE3.compose(X, np.eye(4) + 1j * step * SE3.hat(V))).imag / step
    world = chain.homes[1] @ SE3.inverse(chain.homes[0])
    return [
        ("2.1", r"$A_i = \mathrm{Ad}_{M_{0,i}^{-1}} S_i$", apart(_free_twist(chain), chain.axis(0))),
        (
            "1.2",
            r"$M_{i,i+1} = M_{0,i}^{-1} M_{0,i+1}$",
            apart(chain.homes[0] @ chain.home(0, 1), chain.homes[1]),
        ),
        (
            "3.1",
            r"$\mathrm{Ad}_T^{-1} = \mathrm{Ad}_{T^{-1}}$",
            apart(SE3.Ad(world) @ SE3.Ad(SE3.inverse(world)), np.eye(6)),
        ),
        (
            "3.3",
            r"$\mathrm{ad}_V^T F = (-[\omega] n - [v] f,\; -[\omega] f)$",
            apart(np.concatenate([-cross(w, n) - cross(u, f), -cross(w, f)]), SE3.ad(V).T @ F),
        ),
        ("5.2", r"$b_i = -z_i \times r$", apart(-cross(z2, r), b2)),
        (
            "10.2",
            r"the table of $\omega_2 \times v_2$ by powers of $\dot\theta$",
            apart(total, cross(x["w2"], x["v2"])),
        ),
        (
            "Appendix",
            r"$[a][b] = b a^T - (a^T b)\, 1$",
            apart(skew(a) @ skew(b), np.outer(b, a) - a @ b * np.eye(3)),
        ),
        ("Appendix", r"$[R a] = R [a] R^T$", apart(Q @ skew(a) @ Q.T, skew(Q @ a))),
        (
            "Appendix",
            r"$a^T [b] c = c^T [a] b = b^T [c] a$",
            apart([c @ cross(a, b), b @ cross(c, a)], np.full(2, a @ cross(b, c))),
        ),
        (
            "Appendix",
            r"$\mathrm{Ad}_{T_1 T_2} = \mathrm{Ad}_{T_1} \mathrm{Ad}_{T_2}$",
            apart(SE3.Ad(X) @ SE3.Ad(Y), products),
        ),
        (
            "Appendix",
            r"$\frac{d}{dt} \mathrm{Ad}_T = \mathrm{Ad}_T\, \mathrm{ad}_V$ with $V = T^{-1} \dot T$",
            apart(SE3.Ad(X) @ SE3.ad(V), rate),
        ),
    ]


def _free_twist(chain: Chain) -> Array:
    """The twist of the first link at unit rate, by the library."""
    return dynamics.body_twists(chain.tree, np.zeros(2), np.array([1.0, 0.0]))[0]


# -- the planar arm of section 8 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanarArm:
    """Two links in a plane, in symbols: length l1, centres of mass at r1, r2, moments I1, I2 about them.

    links      (R, p, z, b, m, I) of the notes, as `recursion` takes them
    equations  of the same arm by `liebody.equations`
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
    tree = (
        TreeBuilder("planar_arm")
        .add("link1", Revolute((0, 0, 1)), SpatialInertia(m1, [r1, 0, 0], [0, 0, I1]), placement=UP)
        .add("link2", Revolute((0, 0, 1)), SpatialInertia(m2, [r2, 0, 0], [0, 0, I2]), "link1", [l1, 0, 0])
        .build()
    )
    angles, rates = sympy.symbols("theta1 theta2", real=True), []
    for dots in (r"\dot{\theta}_", r"\ddot{\theta}_"):
        rates.append([sympy.Symbol(f"{dots}{{{k}}}", real=True) for k in (1, 2)])
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
    report = Report(
        "Recursive Newton-Euler by Lie algebra: the notes, recomputed",
        "Recursive Newton-Euler Algorithm: Lie Algebra Formulation. Working notes on the spatial dynamics "
        "formulation of RNEA.",
    )
    found = corrections()
    _recursion(report)
    _planar(report)
    _corrections(report, found)
    _in_full(report)
    _properties(report)
    return report


def _recursion(report: Report) -> None:
    report.section("The recursion, with its corrections")
    report.text(
        "Frames lie at the centres of mass. $A_i = (z_i, b_i)$ is the screw of joint i in link i, "
        "$T_{i,i-1} = (R, p)$ carries velocities of link i − 1 into link i, and $(R', p')$ is its "
        "inverse for link i + 1. Gravity enters as an acceleration of the base."
    )
    for formula in (
        r"T_{i,i-1} = e^{-[A_i]\theta_i} M_{i,i-1}, \qquad \dot v_0 = -g",
        r"\omega_i = R\, \omega_{i-1} + \dot\theta_i z_i, \qquad v_i = p \times R\, \omega_{i-1} + R\, "
        r"v_{i-1} + \dot\theta_i b_i",
        r"\dot\omega_i = R\, \dot\omega_{i-1} + \dot\theta_i\, \omega_i \times z_i + \ddot\theta_i z_i",
        r"\dot v_i = p \times R\, \dot\omega_{i-1} + R\, \dot v_{i-1} + \dot\theta_i (v_i \times z_i + "
        r"\omega_i \times b_i) + \ddot\theta_i b_i",
        r"n_i = R' n_{i+1} + p' \times R' f_{i+1} + I_i \dot\omega_i + \omega_i \times I_i \omega_i",
        r"f_i = R' f_{i+1} + m_i \dot v_i + m_i\, \omega_i \times v_i, \qquad \tau_i = n_i \cdot z_i + "
        r"f_i \cdot b_i",
    ):
        report.formula(formula)
    rows = []
    rng = np.random.default_rng(5)
    for n in (2, 3, 6):
        worst = 0.0
        for _ in range(20):
            chain = Chain.random(rng, n)
            q, v, a = rng.uniform(-3, 3, n), rng.normal(size=n), rng.normal(size=n)
            x = recursion(chain.links(q), v, a, (0, 0, -9.81))
            tau = dynamics.inverse_dynamics(chain.tree, q, v, a)
            worst = max(worst, apart([x[f"tau{i}"] for i in range(1, n + 1)], tau))
        rows.append([n, worst, report.verdict(f"the corrected recursion, {n} links", "holds", worst < 1e-10)])
    report.table(
        rows, ["links", "largest relative difference", ""],
        "The corrected recursion beside `inverse_dynamics` on the same random chains, 20 of each length.",
    )  # fmt: skip


def _planar(report: Report) -> None:
    arm = planar_arm()
    eq = arm.equations
    report.section("Two links in a plane, term by term")
    report.text(
        r"The example of section 8: link 1 has the length $l_1$; the centres of mass lie $r_1, r_2$ "
        r"beyond the joints; "
        r"$I_1, I_2$ are moments about them. The recursion above, run on symbols; vectors are in the axes of "
        r"their link, $\omega$ and n along z, v and f in x and y."
    )
    names = {
        "w1": r"\omega_1", "v1": "v_1", "dw1": r"\dot\omega_1", "dv1": r"\dot v_1", "w2": r"\omega_2",
        "v2": "v_2",
        "dw2": r"\dot\omega_2", "dv2": r"\dot v_2", "n2": "n_2", "f2": "f_2", "tau2": r"\tau_2",
        "tau1": r"\tau_1",
    }  # fmt: skip

    def in_plane(entries: Any, name: str) -> Any:
        if not isinstance(entries, list):
            return entries
        vector = name[0] in "vf" or name.startswith("dv")
        return sympy.Matrix(entries[:2]) if vector else entries[2]

    for name, left in names.items():
        terms = [(key, in_plane(entries, name)) for key, entries in arm.table(name).items()]
        words = [_term(key, x) for key, x in terms if x != 0 * x]
        if name.startswith("tau"):
            report.formula(
                rf"\begin{{aligned}} {left} &= {_joined(words[:2])} \\ &\quad {_joined(words[2:], '+')} "
                rf"\end{{aligned}}"
            )
        else:
            report.formula(f"{left} = {_joined(words)}")
    report.text("The same arm, by `liebody.equations`, in closed form:")
    for line in eq.latex("M", "C", "g").splitlines():
        report.formula(
            line.replace("M(q)", r"M(\theta)")
            .replace("C(q, v)", r"C(\theta, \dot\theta)")
            .replace("g(q)", r"g(\theta)")
        )
    for line in eq.latex("kinetic", "potential").splitlines():
        report.formula(line)
    report.claims(
        report.verdict(
            r"$\tau_1, \tau_2$ of the table and of the closed form are the same expressions: their "
            f"difference is {arm.difference[0]}, {arm.difference[1]}",
            "holds",
            all(x == 0 for x in arm.difference),
        )
    )
    products = eq.velocity_products()
    report.text(
        "Section 9 asks for the terms quadratic in velocities: centrifugal ones, with "
        r"$\dot\theta_1^2, \dot\theta_2^2$, and Coriolis ones, with $\dot\theta_1 \dot\theta_2$ "
        "(`Equations.velocity_products`):"
    )

    def tex(x: Any) -> str:
        return str(sympy.latex(x, symbol_names=dict(eq.symbol_names)))

    report.formula(
        rf"C(\theta, \dot\theta)\,\dot\theta = {tex(products.centrifugal)}"
        r"\left[\begin{matrix}\dot\theta_1^2\\ \dot\theta_2^2\end{matrix}\right] + "
        rf"{tex(products.coriolis)}\,\dot\theta_1\dot\theta_2"
    )


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


def _corrections(report: Report, found: list[Correction]) -> None:
    report.section("What to correct")
    report.text(
        "A chain of random links whose axes are neither parallel nor principal: the errors vanish for "
        "planar arms, which is why they are easily overlooked. $R, p$ stand for $R_{21}, p_{21}$. "
        "“Off” is the largest difference from the truth, relative to its size, as printed and as "
        "corrected. Without gravity and accelerations of the joints where sections 9 and 10 of the "
        "notes leave them out."
    )
    rows: list[list[Any]] = []
    for c in found:
        verdict = report.verdict(f"{c.number}: {c.printed}", c.says, c.confirmed)
        rows.append([c.number.replace("-", "\u2011"), c.where, "printed", c.printed, c.before, verdict])
        rows.append(["", "", "correct", c.correct, c.after, ""])
    report.table(rows, ["", "section", "", "", "off", ""])
    report.figure(
        _bars(found),
        "The errors as printed (amber) and after correction (blue); exact zeros stand at the lower edge.",
    )
    report.section("Right as printed", level=3)
    rows = []
    for where, formula, off in right_as_printed():
        rows.append([where, formula, off, report.verdict(formula, "holds", off < EXACT)])
    report.table(rows, ["section", "formula", "off", ""])


def _bars(found: list[Correction]) -> Any:
    from matplotlib.figure import Figure

    shown = [c for c in found if c.before is not None]
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots()
    places = np.arange(len(shown))
    floor = 1e-17
    before = [c.before for c in shown]
    after = [max(c.after, floor) for c in shown]
    axes.vlines(places, after, before, color="#d8dde3", linewidth=2, zorder=1)  # type: ignore[arg-type]
    axes.scatter(places, before, color="#d9921a", label="as printed")  # type: ignore[arg-type]
    axes.scatter(places, after, color="#1f5fa8", label="corrected")
    axes.set_yscale("log")
    axes.set_ylim(floor / 10, 1e4)
    axes.set_xticks(places, [c.number for c in shown])
    axes.set_ylabel("relative error")
    axes.axhline(EXACT, color="#5b6470", linewidth=0.8, linestyle=":")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    return figure


def _in_full(report: Report) -> None:
    report.section("The second effort in full")
    report.text(
        r"With $\ddot\theta = 0$ and without gravity, section 10 corrected reads as follows. The "
        r"products $\dot\theta_1 \dot\theta_2$ and $\dot\theta_2^2$ are in $n_2$ and $f_2$, and leave "
        r"$\tau_2$: a joint feels no Coriolis force of its own rate."
    )
    for formula in (
        r"n_2 = \dot\theta_1^2\, R z_1 \times I_2 R z_1 + \dot\theta_1 \dot\theta_2 [I_2 (R z_1 \times "
        r"z_2) + R z_1 \times I_2 z_2 + z_2 \times I_2 R z_1] + \dot\theta_2^2\, z_2 \times I_2 z_2",
        r"f_2 / m_2 = \dot\theta_1^2 [R z_1 \times (p \times R z_1) + R (z_1 \times b_1)] + 2 "
        r"\dot\theta_1 \dot\theta_2\, R z_1 \times b_2 + \dot\theta_2^2\, z_2 \times b_2",
        r"\tau_2 = \dot\theta_1^2 \{z_2 \cdot (R z_1 \times I_2 R z_1) + m_2 b_2 \cdot [R z_1 \times "
        r"(p \times R z_1) + R (z_1 \times b_1)]\}",
    ):
        report.formula(formula)
    off = second_link(7)
    report.table(
        [[f"${k}$", x, report.verdict(f"${k}$ in full", "holds", x < EXACT)] for k, x in off.items()],
        ["", "off, random chain", ""],
    )


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


def _properties(report: Report) -> None:
    report.section("Structure")
    report.text(
        r"Section 11: M is symmetric; $\dot M - 2C$ is skew for certain C; $\dot\theta^T (\dot M - 2C) "
        r"\dot\theta = 0$. "
        "The last holds for every form of C, the middle one not. Three random links:"
    )
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
        rows.append([f"`{form}`", skewness, power, report.verdict(claim, "holds", agrees)])
    report.table(rows, ["form of C", r"$\dot M - 2C$ plus its transpose", "power", ""])
