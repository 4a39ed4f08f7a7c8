"""Feurstein (2021) in symbols: lemmas and propositions in SymPy, exactly zero or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sympy

from liebody import equations

from ..report import Verdict, rows_of
from .robots import hopper


def vanishes(*expressions: Any) -> bool:
    """Whether rational expressions of sines and cosines are the number zero, by s^2 + c^2 = 1."""
    return all(_is_zero(x) for e in expressions for x in (list(e) if hasattr(e, "shape") else [e]))


def _is_zero(x: Any) -> bool:
    x = sympy.sympify(x)
    pairs = []
    for k, angle in enumerate(sorted({f.args[0] for f in x.atoms(sympy.sin, sympy.cos)}, key=str)):
        s, c = sympy.symbols(f"s_{k} c_{k}")
        x = x.xreplace({sympy.sin(angle): s, sympy.cos(angle): c})
        pairs.append((s, c))
    if any(power.exp.is_negative for power in x.atoms(sympy.Pow)):
        x = sympy.fraction(sympy.together(x))[0]
    names = sorted(x.free_symbols - {p[0] for p in pairs}, key=str)
    if not names:
        return bool(x == 0)
    ring, *_ = sympy.ring([*(p[0] for p in pairs), *names, *(p[1] for p in pairs if p[1] not in names)], "QQ")
    polynomial = ring.from_expr(x)
    relations = [ring.from_expr(s**2 + c**2 - 1) for s, c in pairs]
    return bool((polynomial.rem(relations) if relations else polynomial) == 0)


class SymbolicRobot:
    """A body in the plane with a hinge or slider, or two hinges, in symbols, by the thesis' formulas.

    Made of (2.23), (2.43), (2.51), (3.37)-(3.41) and derivatives of SymPy; nothing of the library is in it.
    """

    def __init__(self, joints: str, numbers: bool = False) -> None:
        self.n = len(joints)
        names = " ".join(f"q{i}" for i in range(1, self.n + 1))
        self.q = sympy.symbols(names, real=True, seq=True)
        self.rates = sympy.Matrix(sympy.symbols(names.replace("q", "u"), real=True, seq=True))
        self.nu = sympy.Matrix(sympy.symbols("omega v_x v_y", real=True))
        self.theta = sympy.Symbol("theta", real=True)
        m, inertia, l = (sympy.symbols(f"{x}0:{self.n + 1}", positive=True) for x in ("m", "I", "l"))
        r = sympy.symbols(f"r0:{self.n + 1}", positive=True)
        if numbers:  # any rational ones
            each = range(self.n + 1)
            m, inertia, l, r = ([sympy.Rational(3 * i + k + 2, 3) for k in each] for i in range(4))
        self.mass = sum(m)
        H, poses = sympy.eye(3), [sympy.eye(3)]
        for q, kind, length in zip(self.q, joints, l, strict=False):
            H = H * _planar_pose(0, length, 0)
            H = H * (_planar_pose(q, 0, 0) if kind == "R" else _planar_pose(0, 0, q))
            poses.append(H)
        self.A, self.J, self.Lam = [], [], []
        center = sympy.zeros(2, 1)
        for pose, mj, Ij, rj in zip(poses, m, inertia, r, strict=True):
            inverse = _planar_inverse(pose)
            self.A.append(_planar_Ad(inverse))
            columns = [_planar_vee((inverse * pose.diff(q)).applyfunc(_short)) for q in self.q]
            self.J.append(sympy.Matrix.hstack(*columns))
            self.Lam.append(sympy.Matrix([[Ij + mj * rj**2, 0, mj * rj], [0, mj, 0], [mj * rj, 0, mj]]))
            center += mj * (pose[:2, 2] + pose[:2, 0] * rj)
        self.center = center / self.mass
        self.Mbb = self._sum(lambda A, J, L: A.T * L * A)
        self.Mbq = self._sum(lambda A, J, L: A.T * L * J)
        self.Mqq = self._sum(lambda A, J, L: J.T * L * J)

    def _sum(self, term: Callable[[Any, Any, Any], Any]) -> Any:
        terms = [term(*x) for x in zip(self.A, self.J, self.Lam, strict=True)]
        return sum(terms[1:], terms[0]).applyfunc(_short)

    def rate(self, X: Any) -> Any:
        """dX/dt of a function of the joints."""
        total = X * 0
        for q, u in zip(self.q, self.rates, strict=True):
            total += X.diff(q) * u
        return total

    @property
    def hamel(self) -> tuple[Any, Any, Any, Any]:
        """(3.39) by blocks."""
        a_b, x = _planar_ad(self.nu), self.rates
        M_b_q = sympy.Matrix.vstack(*[self.nu.T * self.Mbb.diff(q) for q in self.q])
        M_bq_q = sympy.Matrix.vstack(*[self.nu.T * self.Mbq.diff(q) for q in self.q])
        M_q_q = sympy.Matrix.vstack(*[x.T * self.Mqq.diff(q) for q in self.q])
        rbb, rbq, rqq = self.rate(self.Mbb), self.rate(self.Mbq), self.rate(self.Mqq)
        upper = rbb - a_b.T * self.Mbb, rbq - a_b.T * self.Mbq
        return *upper, rbq.T - M_b_q / 2, rqq - M_bq_q - M_q_q / 2

    @property
    def passive(self) -> tuple[Any, Any, Any, Any]:
        """(3.41) by blocks."""

        def block(left: str, right: str) -> Any:
            def term(A: Any, J: Any, L: Any) -> Any:
                a = _planar_ad(A * self.nu + J * self.rates)
                F, G = {"A": A, "J": J}[left], {"A": A, "J": J}[right]
                return F.T * (L * a - a.T * L) * G + F.T * L * self.rate(G)

            terms = [term(*x) for x in zip(self.A, self.J, self.Lam, strict=True)]
            return sum(terms[1:], terms[0])

        return block("A", "A"), block("A", "J"), block("J", "A"), block("J", "J")


def _short(x: Any) -> Any:
    """With sin^2 = 1 - cos^2, expanded."""
    x = sympy.expand(x)
    return sympy.expand(
        x.replace(
            lambda y: y.is_Pow and y.exp == 2 and y.base.func == sympy.sin,
            lambda y: 1 - sympy.cos(y.base.args[0]) ** 2,
        )
    )


def _planar_pose(angle: Any, x: Any, y: Any) -> Any:
    c, s = sympy.cos(angle), sympy.sin(angle)
    return sympy.Matrix([[c, -s, x], [s, c, y], [0, 0, 1]])


def _planar_inverse(H: Any) -> Any:
    turn = H[:2, :2].T
    return sympy.Matrix.vstack(sympy.Matrix.hstack(turn, -turn * H[:2, 2]), sympy.Matrix([[0, 0, 1]]))


def _planar_Ad(H: Any) -> Any:
    """A = [1, 0; -S o, R] of SE(2)."""
    return sympy.Matrix([[1, 0, 0], [H[1, 2], H[0, 0], H[0, 1]], [-H[0, 2], H[1, 0], H[1, 1]]])


def _planar_ad(u: Any) -> Any:
    """a = [0, 0; -S v, omega S]."""
    return sympy.Matrix([[0, 0, 0], [u[2], 0, -u[0]], [-u[1], u[0], 0]])


def _planar_hat(u: Any) -> Any:
    return sympy.Matrix([[0, -u[0], u[1]], [u[0], 0, u[2]], [0, 0, 0]])


def _planar_vee(U: Any) -> Any:
    return sympy.Matrix([U[1, 0], U[0, 2], U[1, 2]])


class Symbolic(NamedTuple):
    """A statement in symbols; `zero` whether all of it is the number zero, as it has to be if it holds."""

    number: str
    claim: str
    says: str
    zero: bool

    @property
    def verdict(self) -> Verdict:
        claim = f"{self.number.partition('#')[0]}, {self.claim}"
        return Verdict(claim, self.says, self.zero == (self.says == "holds"))


def symbolic_checks() -> list[Symbolic]:
    """Lemmas and propositions in SymPy, for every pose, twist, mass and length."""
    robots = _symbolic_robot("R") | _symbolic_robot("P")
    return statements(_symbolic_plane() | _symbolic_space() | robots | _symbolic_frames())


def statements(zero: dict[str, bool]) -> list[Symbolic]:
    """The rows of symbols.md that were looked at."""
    rows = rows_of(__package__, "symbols")
    found = (row for row in rows if row["number"] in zero)
    return [Symbolic(row["number"], row["claim"], row["verdict"], zero[row["number"]]) for row in found]


def _symbolic_plane() -> dict[str, bool]:
    """Lemmas 2.3 to 2.11 on SE(2)."""
    coordinates = sympy.symbols("theta_a x_a y_a theta_b x_b y_b", real=True)
    speeds = sympy.symbols("p1:7", real=True)
    H, G = _planar_pose(*coordinates[:3]), _planar_pose(*coordinates[3:])
    inverse = _planar_inverse

    def rate(X: Any) -> Any:
        return sum((X.diff(x) * u for x, u in zip(coordinates, speeds, strict=True)), X * 0)

    def twist(H: Any) -> Any:
        return _planar_vee(inverse(H) * rate(H))

    A_xy, A_zy = _planar_Ad(H), _planar_Ad(inverse(G))
    nu_xy, nu_yz, nu_xz = twist(H), twist(G), twist(H * G)
    nu_yx = twist(inverse(H))
    u = sympy.Matrix(sympy.symbols("u1:4", real=True))
    w = sympy.Matrix(sympy.symbols("w1:4", real=True))
    Ad, ad, hat, vee = _planar_Ad, _planar_ad, _planar_hat, _planar_vee
    return {
        "2.10, L 2.10": vanishes(A_xy * u - vee(H * hat(u) * inverse(H))),
        "2.11, L 2.11": vanishes(ad(u) * w - vee(hat(u) * hat(w) - hat(w) * hat(u))),
        "L 2.3–2.5": vanishes(
            Ad(H * G) - A_xy * Ad(G), nu_xz - A_zy * nu_xy - nu_yz, rate(A_xy) - A_xy * ad(nu_xy)
        ),
        "L 2.6, 2.8, 2.9": vanishes(
            Ad(inverse(H)) * A_xy - sympy.eye(3),
            ad(u) * u,
            ad(nu_xz) - A_zy * ad(nu_xy) * Ad(G) - ad(nu_yz),
            ad(u) * w + ad(w) * u,
        ),
        "L 2.7": vanishes(ad(nu_yx) * A_xy + A_xy * ad(nu_xy)),
        "L 2.7#2": vanishes(ad(nu_yx) + ad(nu_xy)),
    }


def _symbolic_space() -> dict[str, bool]:
    """Lemmas 2.10, 2.11, (2.36) and (A.6) on SE(3), orientations by quaternions of any length."""

    def vector(name: str) -> Any:
        return sympy.Matrix(sympy.symbols(f"{name}1:4", real=True))

    def wedge(x: Any) -> Any:
        return sympy.Matrix([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])

    def hat(w: Any, v: Any) -> Any:
        return sympy.Matrix(sympy.BlockMatrix([[wedge(w), v], [sympy.zeros(1, 3), sympy.zeros(1, 1)]]))

    def stacked(w: Any, v: Any) -> Any:
        """[v^..] of (2.34), (2.35), linear first."""
        return sympy.Matrix(sympy.BlockMatrix([[w, v], [sympy.zeros(3), w]]))

    a, b, o = vector("a"), vector("b"), vector("o")
    x, v = vector("x"), vector("v")
    e0 = sympy.Symbol("e0", real=True)
    e = vector("e")
    size = e0**2 + e.dot(e)
    Rot = sympy.eye(3) + 2 * (e0 * wedge(e) + wedge(e) ** 2) / size
    H = sympy.Matrix(sympy.BlockMatrix([[Rot, o], [sympy.zeros(1, 3), sympy.ones(1, 1)]]))
    H_inverse = sympy.Matrix(sympy.BlockMatrix([[Rot.T, -Rot.T * o], [sympy.zeros(1, 3), sympy.ones(1, 1)]]))
    big = H * hat(x, v) * H_inverse
    by_matrix = stacked(Rot, wedge(o) * Rot) * sympy.Matrix.vstack(v, x)
    small = hat(a, b) * hat(x, v) - hat(x, v) * hat(a, b)
    by_little = stacked(wedge(a), wedge(b)) * sympy.Matrix.vstack(v, x)
    other = stacked(wedge(x), wedge(v)) * sympy.Matrix.vstack(b, a)

    def vee(U: Any) -> Any:
        return sympy.Matrix([U[0, 3], U[1, 3], U[2, 3], U[2, 1], U[0, 2], U[1, 0]])

    return {
        "2.34, L 2.10": vanishes(by_matrix - vee(big)),
        "2.35, L 2.11": vanishes(by_little - vee(small), by_little + other),
        "A.6a–f": vanishes(
            wedge(a) * b + wedge(b) * a,
            wedge(a) * wedge(b) - wedge(b) * wedge(a) - wedge(a.cross(b)),
            a.cross(b).dot(x) - a.dot(b.cross(x)),
            Rot * wedge(a) * Rot.T - wedge(Rot * a),
        ),
    }


def _symbolic_robot(kind: str) -> dict[str, bool]:
    """Lemmas 3.1 to 3.3 and the propositions of chapter 3 for a planar base with one joint."""
    r = SymbolicRobot(kind)
    nu, x, q = r.nu, r.rates, r.q[0]
    A, J = r.A[1], r.J[1]
    J_rate, A_rate = r.rate(J), r.rate(A)
    a_bj = _planar_ad(J * x)
    A_q, J_q = A.diff(q) * nu, J.diff(q) * x[0]
    C_b, C_bq, C_qb, C_q = r.hamel
    P_b, P_bq, P_qb, P_q = r.passive
    rbb, rbq, rqq = r.rate(r.Mbb), r.rate(r.Mbq), r.rate(r.Mqq)
    N, D = r.Mbb.adjugate() * r.Mbq, r.Mbb.det()  # m = N / D; everything is multiplied by D
    links = zip(r.A, r.J, r.Lam, strict=True)
    terms = [Aj.T * L * _planar_ad(Aj * nu + Jj * x) * (Jj * D - Aj * N) for Aj, Jj, L in links]
    Cxy = P_bq * D + (rbb - P_b) * N - rbq * D
    Cyx = P_qb * D - N.T * P_b
    # the frame at the centre of mass, aligned: R_ib o_bc moves with R_ib (v + omega S o + o')
    spin = sympy.Matrix([[0, -1], [1, 0]])
    o_rate = nu[1:, 0] + nu[0] * spin * r.center + r.rate(r.center)
    nu_cb = nu - sympy.Matrix([0, *o_rate])  # A_cb^-1 nu_c: R_ic = 1, nothing of it turns
    a_cb, a_b = _planar_ad(nu_cb), _planar_ad(nu)
    h_b = r.Mbb * nu + r.Mbq * x
    A_bc = _planar_Ad(_planar_pose(0, *r.center))  # up to R_ib, which turns the momentum alone
    I_c = (A_bc.T * r.Mbb * A_bc)[0, 0]
    locked = nu * D + N * x
    sum_ = (C_b - r.Mbb * a_cb) * locked
    I_rate = r.rate(sympy.Matrix([[I_c]]))[0, 0] * locked[0]
    moved = A_bc.T * sum_ - sympy.Matrix([I_rate, 0, 0])
    zero = {
        "L 3.1": vanishes(A_rate + a_bj * A),
        "L 3.2, 3.3": vanishes(J_q - J_rate - a_bj * J, A_q - _planar_ad(A * nu) * J),
        "Prop. 3.1.1": vanishes((C_b - P_b) * nu + (C_bq - P_bq) * x, (C_qb - P_qb) * nu + (C_q - P_q) * x),
        "3.82": vanishes(rbb - P_b - P_b.T, rbq - P_bq - P_qb.T, rqq - P_q - P_q.T),
        "3.39": vanishes(rbb - C_b - C_b.T),
        "Prop. 3.2.1": vanishes((a_cb - a_b).T * h_b),
        "Prop. 3.3.1": vanishes(C_bq * D + (rbb - C_b) * N - rbq * D),
        "Prop. 3.3.1#2": vanishes((a_cb - a_b).T * r.Mbb),
        "Prop. 3.3.2": vanishes(Cxy - sum(terms[1:], terms[0]), Cyx + Cxy.T),
        "3.84": vanishes(Cyx - Cxy.T),
        "3.95": vanishes(moved),
        "3.95#2": vanishes(A_bc.T * sum_),
    }
    return {f"{number}#{kind}": value for number, value in zero.items()}


def _symbolic_frames() -> dict[str, bool]:
    """Integrability: one joint always, two hinges not; the angle of the hopper."""
    r = SymbolicRobot("RR", numbers=True)
    m = r.Mbb.adjugate() * r.Mbq / r.Mbb.det()
    center = r.center
    turning = m[0, 0].diff(r.q[1]) - m[0, 1].diff(r.q[0])
    spin = sympy.Matrix([[0, -1], [1, 0]])
    T = [m[1:, i] for i in range(2)]
    linear = T[0].diff(r.q[1]) - T[1].diff(r.q[0]) + m[0, 0] * spin * T[1] - m[0, 1] * spin * T[0]
    point: dict[Any, Any] = {}  # exact: sines and cosines are fractions there
    for q, (opposite, adjacent, long) in zip(r.q, ((3, 4, 5), (5, 12, 13)), strict=True):
        point |= {sympy.sin(q): sympy.Rational(opposite, long), sympy.cos(q): sympy.Rational(adjacent, long)}
    at = (linear + spin * center * turning).xreplace(point)
    eq = equations(hopper())
    slope = sympy.diff(eq.locked_angle, eq.q[3]) - eq.connection[0, 0]
    grid = max(abs(float(slope.subs(eq.q[3], x).evalf(30))) for x in (0.3, 1.7802, 4.0, -7.5))
    return {
        "3.73, L 3.4": turning.xreplace(point) == 0,
        "3.73": all(x == 0 for x in at),
        "3.76": grid < 1e-12,
    }
