"""The double pendulum on paper, and as a function that runs without this library.

Masses and lengths are symbols of SymPy, and the equations of motion are the ones of the textbook. The
same closed form is printed as a Python function, run, and compared with the compiled kernels. Then it is
compared with Lagrange's equations, which this script derives from the two energies alone.

    python examples/equations_of_a_double_pendulum.py

prints

    Matrix([[l1**2*(m1 + m2) + l2*m2*(2*l1*cos(q2) + l2), l2*m2*(l1*cos(q2) + l2)],
            [l2*m2*(l1*cos(q2) + l2), l2**2*m2]])
    tau2 = a1*l2*m2*(l1*cos(q2) + l2) + a2*l2**2*m2 + g*l2*m2*sin(q1 + q2) + l1*l2*m2*v1**2*sin(q2)
    centrifugal: -l1*l2*m2*sin(q2) v2^2 in tau1; Coriolis: -2*l1*l2*m2*sin(q2) v1 v2
    Lagrange's equations minus these: 0, 0
    printed function and kernel differ by less than 1e-12: True
"""

import numpy as np
import sympy

import liebody as lb


def lagrange(eq):
    """d/dt dL/dv - dL/dq, from the energies alone."""
    L, q, v, a = eq.kinetic - eq.potential, eq.q, eq.v, eq.a
    found = []
    for i in range(2):
        momentum = sympy.diff(L, v[i])
        rate = sum(sympy.diff(momentum, q[j]) * v[j] + sympy.diff(momentum, v[j]) * a[j] for j in range(2))
        found.append(rate - sympy.diff(L, q[i]))
    return found


def main():
    masses, lengths = sympy.symbols("m1 m2", positive=True), sympy.symbols("l1 l2", positive=True)
    eq = lb.equations(lb.models.double_pendulum(masses, lengths))
    print(f"Matrix([{list(eq.M[0, :])},\n        {list(eq.M[1, :])}])")
    print(f"tau2 = {eq.equations[1].rhs}")
    products = eq.velocity_products()
    print(
        f"centrifugal: {products.centrifugal[0, 1]} v2^2 in tau1; Coriolis: {products.coriolis[0, 0]} v1 v2"
    )

    differences = [
        sympy.expand(sympy.expand_trig(x - y)) for x, y in zip(lagrange(eq), eq.efforts, strict=True)
    ]
    print("Lagrange's equations minus these:", ", ".join(map(str, differences)))

    module: dict = {}
    exec(eq.python("tau"), module)
    q, v, a = np.array([0.3, -0.8]), np.array([1.0, 2.0]), np.array([-0.5, 0.7])
    printed = module["double_pendulum"](q, v, a, g=9.81, l1=0.5, l2=0.4, m1=2.0, m2=1.5)
    kernel = lb.models.double_pendulum((2.0, 1.5), (0.5, 0.4)).inverse_dynamics(q, v, a)
    print(
        "printed function and kernel differ by less than 1e-12:",
        bool(np.allclose(printed, kernel, atol=1e-12)),
    )
    return differences


if __name__ == "__main__":
    main()
