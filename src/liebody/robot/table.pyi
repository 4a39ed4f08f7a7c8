"""Written by `python -m liebody.robot.reference` from the table of algorithms; do not edit."""

from liebody.bodies.tree import Frame
from liebody.dynamics.decoupling import Decoupled
from liebody.dynamics.hamiltonian import HamiltonianRates
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from typing import Any

class Algorithms:
    def normalize(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """The configuration (nq,) next to q whose quaternions are unit.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def integrate(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """q exp(v), (nq,): where the constant velocity v leads from q in unit time.

        q  configuration, (nq,)
        v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def difference(self, q0: ArrayLike, q1: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """log(q0^-1 q1), (nv,): the velocity that leads from q0 to q1 in unit time; configurations (nq,).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def interpolate(self, q0: ArrayLike, q1: ArrayLike, s: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """q0 exp(s log(q0^-1 q1)), (nq,): the path from q0 (s = 0) to q1 (s = 1); s is a scalar.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrenches: ArrayLike | None = None, damping: bool = False, base_motion: ArrayLike | None = None, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Joint efforts tau = M(q) a + C(q, v) v + g(q) - J^T F_ext, by recursive Newton-Euler, O(n).

        q            configuration, (nq,)
        v, a         velocity and acceleration, left-trivialised, (nv,)        [rad/s, m/s], [rad/s2, m/s2]
        wrenches     external wrench on each body in its own frame, (n, 6)     [N m, N]; none if None
        damping      whether to add the joints' damping, D v; armature is always part of M
        base_motion  twist V_0 and its rate dV_0/dt of what the robot stands on, in its axes, (2, 6)
                     [rad/s, m/s; rad/s2, m/s2]; at rest if None. Gravity is in these axes, too: where they have
                     turned by R, dV_0/dt + (0, g - R^T g) is to be given
        returns      (nv,)                                                     [N m, N]

        Ploen (1999), eqs (13)-(18); Featherstone (2008), table 5.1. The linear acceleration is a point's: a
        + omega x v in terms of the twist (Luh, Walker and Paul 1980), so linear velocities never enter; the
        motion of a body's points about its origin is U = [alpha] + [omega]^2 (Khalil and Kleinfinger 1987), its
        wrench f = m a + U h, n = vec(U Sigma) + h x a. The bodies carry the tree's base moments, which give the
        same efforts.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def joint_wrenches(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrenches: ArrayLike | None = None, base_motion: ArrayLike | None = None, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """F (n, 6): what each joint transmits to its body, a wrench in the body's axes at its origin, O(n).

            F_i = J_i dV_i/dt - ad(V_i)^T J_i V_i - F_ext,i + sum over children c of Ad(T_c^-1)^T F_c

        Arguments as in `inverse_dynamics`, whose efforts are S^T F and what rotors and damping add. The rest of F
        is the reaction of what guides the joint: what its bearings carry.  [N m, N]

        Ploen (1999), eq. (17); Luh, Walker and Paul (1980).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, wrenches: ArrayLike | None = None, damping: bool = False, base_motion: ArrayLike | None = None, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Accelerations a = M(q)^-1 (tau - C(q, v) v - g(q) + J^T F_ext), left-trivialised, O(n).

        q            configuration, (nq,)
        v            velocity, left-trivialised, (nv,)                         [rad/s, m/s]
        tau          joint efforts, (nv,)                                      [N m, N]
        wrenches     external wrench on each body in its own frame, (n, 6)     [N m, N]; none if None
        damping      whether the joints' damping takes D v from the efforts; armature is always part of M
        base_motion  as in `inverse_dynamics`, (2, 6); at rest if None
        returns      (nv,)                                                     [rad/s2, m/s2]

        Articulated-body algorithm: Featherstone (2008), table 7.1, with articulated inertias [[A, B], [B^T, C]]
        by their 3 x 3 blocks. As in `inverse_dynamics` the linear acceleration belongs to a point, so linear
        velocities never enter. Trees with joints that follow others go by the mass matrix and its sparse L^T D L
        factors.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def mass_matrix(self, q: ArrayLike, layout: str = 'full', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """M(q) (nv, nv), symmetric positive definite, with the joints' armature on its diagonal.

        q       configuration, (nq,)
        layout  "full"; "packed" (nv (nv+1)/2,): the columns of the upper triangle one after the other, LAPACK's
                packed storage, M_ij at i + j (j+1)/2; or "nonzeros": of those, what is not zero in every
                configuration, at `mass_matrix_pattern`

        Composite-rigid-body algorithm: M_ij = S_i^T F_j, where F_j = I_j^c S_j is the wrench that moves all
        behind joint j as one rigid body, carried to the frame of i, an ancestor of j. Featherstone (2008), table
        6.2, with the ten moments of each composite body instead of a 6 x 6 inertia. Only one triangle is
        computed.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def bias(self, q: ArrayLike, v: ArrayLike, wrenches: ArrayLike | None = None, damping: bool = False, base_motion: ArrayLike | None = None, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """C(q, v) v + g(q) - J^T F_ext (nv,): the efforts that make the acceleration zero.

        Arguments as in `inverse_dynamics`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def gravity(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """g(q) (nv,): the efforts that hold the tree at rest. Arguments as in `inverse_dynamics`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def kinetic_energy(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Any:
        """T = v^T M(q) v / 2, summed over the bodies and the joints' armatures; a scalar.  [J]

        q  configuration, (nq,)
        v  velocity, left-trivialised, (nv,)

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def potential_energy(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Any:
        """U = -gravity . (sum of m c), zero where the centre of mass lies in the world's origin; a scalar.  [J]

        q        configuration, (nq,)

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def legendre_transform(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """p = dL/dv = M(q) v (nv,): the conjugate momenta, rotors included. O(n).  [kg m2/s, kg m/s]

        q, v  configuration (nq,) and velocity, left-trivialised, (nv,)

        The base's part is its momentum h_b, the joints' h_q. Feurstein (2021), eqs (3.33), (3.34).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def inverse_legendre_transform(self, q: ArrayLike, p: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """v = dH/dp = M(q)^-1 p (nv,), of the momenta p (nv,) of `legendre_transform`; O(n).  [rad/s, m/s]

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def hamiltonian(self, q: ArrayLike, p: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """H(q, p) = p^T M(q)^-1 p / 2 + U(q), the energy; a scalar. Feurstein (2021), eq. (3.35).  [J]

        q, p     configuration (nq,) and momenta (nv,)

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def hamiltonian_dynamics(self, q: ArrayLike, p: ArrayLike, tau: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> HamiltonianRates:
        """v = M(q)^-1 p and dp/dt = ad_v^T p - dH/dq + tau = C(q, v)^T v - g(q) + tau, each (nv,), O(n).

        q, p     configuration (nq,) and momenta, as `legendre_transform` gives them, (nv,)
        tau      joint efforts, (nv,)                                          [N m, N]

        dH/dq is taken along the group, at fixed p. Rotors, numbers on the diagonal of M, have no part in
        ad_v^T p. Feurstein (2021), eq. (3.36).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike, form: str = 'christoffel', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """C(q, v) (nv, nv) with C v + g the efforts at no acceleration; recursive, O(n d) at depth d.

        q     configuration, (nq,)
        v     velocity, left-trivialised, (nv,)                                [rad/s, m/s]
        form  which of the matrices that give the same C v:

              "christoffel"   dM/dt - 2 C is skew-symmetric, and C(v) w - C(w) v = M [v, w] with the bracket of
                              the joints' groups: M^-1 C(v) w is the Levi-Civita connection of the kinetic energy
                              on left-invariant fields. Where these are fields of coordinates (all groups commute)
                              C is made of Christoffel's symbols, Ploen (1999), eqs (2), (3)
              "ploen"         the bodies' matrices of Ploen's Proposition 1; skew, depends on the choice of the
                              bodies' frames
              "coadjoint"     the bodies' matrices ad~ of the momentum, From (2012), eq. (75); skew likewise
              "feurstein"     the bodies' matrices J ad_V - ad_V^T J, Feurstein (2021), eq. (3.41); skew
                              likewise
              "newton-euler"  the bodies' matrices -ad_V^T J, Ploen eq. (25); dM/dt - 2 C is not skew
              "hamel"         dM/dt - ad_v^T M - (v^T X_i M) / 2, the Boltzmann-Hamel equations of the joints'
                              groups; not skew

        The joints' armature has no part in C: rotors have no gyroscopic moments. In "christoffel" the law with
        the bracket holds for M without it, wherever it acts on joints whose motions do not commute.

        Raises ModelError for an unknown form.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def mass_matrix_derivative(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dM/dt (nv, nv) while q moves with v, symmetric: C + C^T of the skew forms. Recursive, O(n d).

        d/dt (S_i^T J S_j) of all that joint j carries, seen from the world, where dS/dt = ad_V S and dJ/dt =
        -ad_V^T J - J ad_V. Ploen (1999), eq. (28), without forming its factors.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def mass_and_coriolis(self, q: ArrayLike, v: ArrayLike, form: str = 'christoffel', *, parameters: Any = None, out: Any = None, threads: int = 1) -> tuple[Array, Array, Array]:
        """M, dM/dt and C in one recursion, each (nv, nv); arguments as in `coriolis_matrix`.

        Forms that are neither skew nor made of dJ/dt take a second recursion for dM/dt.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def christoffel_symbols(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Gamma (nv, nv, nv) with C(q, v) = Gamma @ v for the form "christoffel":  C_kj = sum_i Gamma_kji v_i.

        Gamma_kji = <e_k, nabla_i e_j> of the kinetic energy's connection in the left-invariant frame e; Gamma_kji
        - Gamma_kij = (M [e_i, e_j])_k, and zero for velocities of different joints. With commuting joints it is
        Ploen (1999), eq. (3): (d_i M_kj + d_j M_ki - d_k M_ij) / 2.

        As d_i J_j = omega_i x J_j where joint j sits on i, the symbols are omega_i . int J_j x J_k dm.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def passive_inverse_dynamics(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """M(q) a_r + C(q, v) v_r + g(q) (nv,) with the form "christoffel", without forming C, O(n).

        q         configuration, (nq,)
        v         velocity, left-trivialised, (nv,)                            [rad/s, m/s]
        v_r, a_r  reference velocity and its rate, (nv,)                       [rad/s, m/s], [rad/s2, m/s2]

        The feedforward of passivity-based controllers: with tau = this - K s, s = v - v_r, the energy s^T M s / 2
        falls, because dM/dt - 2 C is skew. Slotine and Li (1987). With v_r = v it is `inverse_dynamics`.
        Recursive Newton-Euler on the reference velocities u_r + omega_r x r of the bodies' points, which change
        at the rate a_r + U r, U = [alpha_r] + [omega_r] [omega].

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def coriolis_transpose_times(self, q: ArrayLike, v: ArrayLike, w: ArrayLike | None = None, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """C(q, v)^T w (nv,) with the form "christoffel", without forming C, O(n).

        q  configuration, (nq,)
        v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]
        w  (nv,); v if None

        Momentum observers need C^T v: the generalized momentum p = M v has the rate dp/dt = tau + C^T v - g,
        because dM/dt = C + C^T. De Luca and Mattone (2003). Here (C^T w)_i = S_i^T ad_V_i^T F_i + omega_i . k_i
        with the momentum F_i that the velocities w give to all that joint i carries, and k = int r' x J_r w dm,
        which is zero for w = v.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def inverse_dynamics_regressor(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Y (nv, 10 n) with Y pi = M(q) a + C(q, v) v + g(q); arguments as in `inverse_dynamics`.

        pi are (m, h, I_xx, I_xy, I_xz, I_yy, I_yz, I_zz) of each body about its frame's origin, without armature,
        in the order of `inertial_parameters`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def passive_regressor(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, form: str = 'christoffel', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Y (nv, 10 n) with Y pi = M(q) a_r + C(q, v) v_r + g(q), C of the given form; O(n d).

        Arguments as in `passive_inverse_dynamics`, which computes Y pi for the tree's own parameters (and adds
        the armature). With it the adaptive controller tau = Y pi^ - K s, dpi^/dt = -Gamma Y^T s, s = v - v_r,
        tracks with unknown parameters: Slotine and Li (1987). Atkeson, An and Hollerbach (1986) for v_r = v.

        form  of `coriolis_matrix`, other than "hamel". Those but the default depend on the choice of the bodies'
              frames: their columns combine in other ways than `base_parameters` tells

        Raises ModelError for another form.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupling_transform(self, q: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """T (nv, nv) of (3.80): (v_x, v_y) = T v, with T^-T M T^-1 block-diagonal.

        q  configuration, (nq,)
        x  T_x of the base: "locked", "centroidal", "momentum", a matrix (k, k), a function of q, or a pair of
           functions T_x(q), dT_x/dt(q, v)
        y  T_y of the joints: "identity", "normalized", a `Task`, a matrix (n, n), or functions likewise

        See docs/floating-bases.md. A function is compiled once for each function object: keep and reuse it.

        Raises ModelError for a tree without a floating base, for a singular locked inertia, and for unknown or
        singular choices; ShapeError for choices of the wrong shape. In traces, where nothing is known of
        values, the inverse of a singular choice is NaN.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupling_transform_inverse(self, q: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """T^-1 = [T_x^-1, -m T_y^-1; 0, T_y^-1] (nv, nv); arguments as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupling_transform_rate(self, q: ArrayLike, v: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dT/dt (nv, nv) while q moves with v (nv,); other arguments as in `decoupling_transform`.

        From dM/dt and the groups' brackets in closed form; for functions of q, from their graph.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupled_velocity(self, q: ArrayLike, v: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(v_x, v_y) = T v, (nv,): external and internal velocity; arguments as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def velocity_from_decoupled(self, q: ArrayLike, w: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """v = T^-1 w (nv,), with w = (v_x, v_y); other arguments as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupled_efforts(self, q: ArrayLike, tau: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(F_x, F_y) = T^-T tau (nv,): F_x works on the external motion alone, F_y on the internal one.

        F_x = T_x^-T F_b does not contain the joints' efforts: they cannot change the external motion. Arguments
        as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def efforts_from_decoupled(self, q: ArrayLike, F: ArrayLike, x: Any = 'locked', y: Any = 'identity', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """tau = T^T F (nv,), with F = (F_x, F_y); other arguments as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def transformed_dynamics(self, q: ArrayLike, v: ArrayLike, x: Any = 'locked', y: Any = 'identity', form: str = 'christoffel', *, parameters: Any = None, out: Any = None, threads: int = 1) -> tuple[Array, Array, Array]:
        """M, C (nv, nv) and g (nv,) of the equations in the velocities w = T v.

        M_w = T^-T M T^-1, C_w = T^-T C T^-1 - M_w (dT/dt) T^-1, g_w = T^-T g (Feurstein, 3.77).

        q, v     configuration (nq,) and velocity (nv,)
        x, y     which T_x and T_y, as in `decoupling_transform`
        form     of C, as in `coriolis_matrix`

        `decoupled_dynamics` gives the same by blocks, with fewer operations.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def decoupled_dynamics(self, q: ArrayLike, v: ArrayLike, x: Any = 'locked', y: Any = 'identity', form: str = 'hamel', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Decoupled:
        """The equations of external and internal motion, by blocks of the base and of the joints.

        Feurstein (3.81):

            Mx = T_x^-T Mbb T_x^-1,                    My = T_y^-T (Mqq - Mbq^T m) T_y^-1
            Cx  = T_x^-T (C_b - Mbb T_x^-1 T_x') T_x^-1
            Cxy = T_x^-T (C_bq - C_b m - Mbb m') T_y^-1
            Cyx = T_y^-T (C_qb - m^T C_b) T_x^-1
            Cy  = T_y^-T (C_q - C_qb m - m^T C_bq + m^T C_b m) T_y^-1 - My T_y' T_y^-1
            gx  = T_x^-T g_b,                          gy = T_y^-T (g_q - m^T g_b)

        Arguments as in `transformed_dynamics`. With the form "hamel", Cxy = 0 for any T_x and T_y. The skew forms
        have Cyx = -Cxy^T, and Mx' = Cx + Cx^T, My' = Cy + Cy^T: passive in each part (3.84). With x = "momentum",
        Cx v_x + Cxy v_y = 0 (3.85) in every form, so that Mx v_x' = F_x - gx: only what acts from outside changes
        the momentum. This is not so for "centroidal".

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def internal_inertia(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Mqq - Mbq^T Mbb^-1 Mbq (n, n): the inertia that the joints' motion has while the base gives way.

        q  configuration, (nq,)

        The kinetic energy is the external motion's plus q'^T (this) q' / 2. In (3.81) it is M_y of T_y = 1.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def internal_jacobian(self, q: ArrayLike, task: Any, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """J_int = J_q - J_b Mbb^-1 Mbq (r, n): the task's velocity by the joints, while the base gives way.

        The task moves with  J_b nu_b + J_q q' = J_ext v_x + J_int q',  J_ext from `external_jacobian`. This is
        the generalized Jacobian of Umetani and Yoshida (1989); Feurstein (3.96).

        q     configuration, (nq,)
        task  name of a frame or body (its body twist, r = 6), a `Task`, or a function q -> (r, nv)

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def internal_jacobian_rate(self, q: ArrayLike, v: ArrayLike, task: Any, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dJ_int/dt (r, n) while q moves with v (nv,); other arguments as in `internal_jacobian`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def external_jacobian(self, q: ArrayLike, task: Any, x: Any = 'centroidal', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """J_ext = J_b T_x^-1 (r, k): the task's velocity by the external one, v_x.

        `task` as in `internal_jacobian`, `x` as in `decoupling_transform`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def external_internal_velocity(self, q: ArrayLike, v: ArrayLike, task: Any, x: Any = 'centroidal', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(external, internal) velocity (k + r,):  T_x (nu_b + m q')  and  J_int q'  (Feurstein, 3.96).

        The matrix of this map is I = [T_x, T_x m; 0, J_int]. Arguments as in `external_jacobian`; v (nv,).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def momentum(self, q: ArrayLike, v: ArrayLike, frame: str | Frame | Array = 'world', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(l, p) (6,) of all bodies about the origin of a frame and in its axes; O(n).  [N m s, N s]

        q      configuration, (nq,)
        v      velocity, left-trivialised, (nv,)                               [rad/s, m/s]
        frame  a Frame, the name of a frame or body, or a pose (4, 4) in the world

        h_x = Ad(H_bx)^T h_b, with the frame's pose H_bx in the frame where h_b is summed. Feurstein (2021), eqs
        (3.65), (3.67), (3.69). In the world it changes by outer wrenches alone; in frames that move, see
        `momentum_rate_in_frame`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_momentum(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """h_G = (l, p) (6,) about the centre of mass, in the world's axes; O(n), without A.  [N m s, N s]

        q  configuration, (nq,)
        v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

        Raises ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_momentum_matrix(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """A(q) (6, nv) with `centroidal_momentum` = A v; composite bodies inwards, poses outwards, O(n).

        q  configuration, (nq,)

        Orin, Goswami and Lee (2013). Its lower half is the mass times `center_of_mass_jacobian`. Raises
        ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_momentum_matrix_derivative(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dA/dt (6, nv) while q moves with v (nv,); O(n).

        With the composite inertias J and the twists V of the bodies, all seen from the world, a column J S
        changes by (J ad_V + dJ/dt) S; what is about the centre of mass moves with it.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_momentum_bias(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(dA/dt) v (6,): the rate of the centroidal momentum at dv/dt = 0; O(n), without dA/dt.  [N m, N]

        Arguments as in `centroidal_momentum`. Wensing and Orin (2016), "Improved computation of the humanoid
        centroidal dynamics and application for whole-body control".

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_momentum_rate(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dh_G/dt = A a + (dA/dt) v (6,), by recursive Newton-Euler; O(n).  [N m, N]

        a  acceleration, dv/dt, (nv,)                                          [rad/s2, m/s2]

        It is the resultant of all wrenches from outside about the centre of mass, weight included. Raises
        ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_inertia(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """diag(I_c, m 1) (6, 6): the inertia of all bodies, joints locked, about c in the world's axes; O(n).

        The same as A_cb^-T Mbb A_cb^-1 of a free base, Feurstein (2021), eq. (3.93). Raises ModelError for a tree
        without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def centroidal_velocity(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """(I_c^-1 l, p / m) (6,): the average velocity of all bodies, h_G by the centroidal inertia; O(n).

        In the world's axes, at the centre of mass. For a floating robot it is the locked velocity, moved there.
        Orin, Goswami and Lee (2013). Raises ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def base_momentum(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """h_b = Mbb nu_b + Mbq q' (k,): the momentum at the base, in the dual of its algebra; O(n).

        q  configuration, (nq,)
        v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

        S^T of the momentum of all bodies about the base, in its axes [N m s, N s]. Feurstein, eq. (3.65). A
        floating base is a first joint of two degrees of freedom or more that carries all bodies; raises
        ModelError for other trees. See docs/floating-bases.md.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def locked_inertia(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Mbb(q) (k, k): the inertia of all bodies about the base, the joints locked; O(n).

        Feurstein, eq. (2.51a); about the centre of mass it is `centroidal_inertia`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def locked_velocity(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """nu_b^loc = nu_b + Mbb^-1 Mbq q' (k,): how the base would move if the joints locked at once; O(n).

        Arguments as in `base_momentum`. The kinetic energy is (nu_loc^T Mbb nu_loc + q'^T (Mqq - Mbq^T Mbb^-1
        Mbq) q') / 2. Feurstein, eq. (3.66). Raises ModelError where Mbb is singular.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def mechanical_connection(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """m(q) = Mbb^-1 Mbq (k, n): without momentum the joints' velocities q' move the base by nu_b = -m q'.

        q  configuration, (nq,); of the base nothing depends

        Column i is the velocity that the locked robot would have with the momentum of all bodies that joint i
        carries, moving at q'_i = 1. O(n).
        Feurstein, eq. (3.70). Raises ModelError where Mbb is singular.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def connection_curvature(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """B(q) (k, n, n) of the mechanical connection, antisymmetric in its last two indices; O(n^2).

        q  configuration, (nq,); of the base nothing depends

        B[:, i, j] = d_j m_i - d_i m_j + [m_i, m_j] (+ m([e_i, e_j]) where joint motions do not commute), by the
        sum over the bodies above: nothing is differentiated. Feurstein, eq. (3.72). It is zero exactly if the
        locked frame is a function of q; otherwise closed paths of the joints turn the base. Raises ModelError for
        a tree without a floating base, and where Mbb is singular.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def locked_inertia_derivative(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """D_i Mbb = d_i Mbb + ad(m_i)^T Mbb + Mbb ad(m_i), (n, k, k): the locked inertia along the connection.

        q  configuration, (nq,); of the base nothing depends

        External and internal energy are exchanged by it: without forces d/dt (nu^T Mbb nu)/2 = -nu^T (sum of D_i
        Mbb q_i') nu/2 with the locked velocity nu, in any coordinates that decouple M (docs/symmetries.md).
        Raises ModelError for a tree without a floating base, and where Mbb is singular.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def inverse_dynamics_derivatives(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrenches: ArrayLike | None = None, damping: bool = False, *, parameters: Any = None, out: Any = None, threads: int = 1) -> tuple[Array, Array, Array]:
        """d tau/dq, d tau/dv and d tau/da = M, each (nv, nv).

        The derivative by q is along the group: d/de tau(q exp(e u), v, a) = (d tau/dq) u.
        Arguments as in `inverse_dynamics`; the wrenches stay what they are in the bodies' frames.

        Carpentier and Mansard (2018), and Singh, Russo and Wensing (2022), in the bodies' frames: recursion over
        pairs of a joint and its ancestors, O(n d) at depth d.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def forward_dynamics_derivatives(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, wrenches: ArrayLike | None = None, damping: bool = False, *, parameters: Any = None, out: Any = None, threads: int = 1) -> tuple[Array, Array, Array]:
        """da/dq, da/dv and da/dtau = M^-1, each (nv, nv); by q along the group.

        With the derivatives of tau(q, v, a) at the acceleration a of these efforts, M da/dq = -d tau/dq, and so
        by v; solved column by column with the factors of M, which are as sparse as the tree. Nine columns
        of a base that moves freely are known.
        Arguments as in `forward_dynamics`; the wrenches stay what they are in the bodies' frames.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def poses(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Poses T of all bodies in the world, (n, 4, 4), at q (nq,), in the order of `tree.bodies`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def twists(self, q: ArrayLike, v: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Twists V = (omega, v) of all bodies in their own axes, (n, 6), at q (nq,) and v (nv,).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def pose(self, q: ArrayLike, frame: str | Frame, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Pose T (4, 4) of a frame in the world, at the configuration q (nq,).

        frame  a Frame, or the name of a frame or body

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def twist(self, q: ArrayLike, v: ArrayLike, frame: str | Frame, representation: str = 'body', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Twist (6,) of a frame, angular first: J v.  [rad/s, m/s]

        Arguments and J as in `jacobian`.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def jacobian(self, q: ArrayLike, frame: str | Frame, representation: str = 'body', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Jacobian J (6, nv) of a frame, angular first: its twist is J v.

        frame           a Frame, or the name of a frame or body
        representation  "body": in the frame's axes, at its origin; "world": in the world's axes, at the world's
                        origin; "mixed": in the world's axes, at the frame's origin

        The column of joint i is Ad(T_fi) S_i in the frame's axes. Lynch and Park (2017), eq. (5.18).

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def jacobian_rate(self, q: ArrayLike, v: ArrayLike, frame: str | Frame, representation: str = 'body', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """dJ/dt (6, nv) while q moves with v (nv,); other arguments, and J, as in `jacobian`.

        With the twist V_i of the body that joint i moves, d/dt Ad(T_fi) S_i = ad(Ad(T_fi) V_i - V_f) Ad(T_fi) S_i
        in the frame's axes; in the world's it is ad(V_i) of the column, and "mixed" adds omega_f x to both
        halves.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def acceleration(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, frame: str | Frame, representation: str = 'body', *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """Time derivative (6,) of `twist` in its representation: J a + (dJ/dt) v.  [rad/s2, m/s2]

        a  acceleration, dv/dt, (nv,); other arguments as in `jacobian`

        The linear part is the acceleration of the frame's origin as a point in "mixed" (Pinocchio's
        getFrameClassicalAcceleration), and the rate of the twist in "body" and "world".

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def center_of_mass(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """The centre of mass of all bodies, in the world, (3,).  [m]

        Raises ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """

    def center_of_mass_jacobian(self, q: ArrayLike, *, parameters: Any = None, out: Any = None, threads: int = 1) -> Array:
        """J (3, nv) with the velocity J v of the centre of mass.

        Its columns are the momentum of all that a joint carries, moved by it as one rigid body, by total mass.
        Raises ModelError for a tree without mass.

        Leading axes of arrays are batches, which broadcast; `parameters`, `out`, `threads` as of `Robot`.
        """
