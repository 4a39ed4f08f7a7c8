"""Optimal control: derivatives against simulations, plans against laws and other ways to find them."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp

import liebody as lb
from liebody.codegen import shooting
from liebody.errors import GraphError, LiebodyError, ModelError, ShapeError
from liebody.optimal_control.problem import EULER

H = 0.05


def swing(**options):
    robot = lb.load("double_pendulum")

    def stage(q, v, u):
        return np.concatenate([0.1 * v, 0.3 * u])

    def terminal(q, v):
        return np.concatenate([3 * (q - np.array([1.0, -0.5])), v])

    options = {"dt": H, "stage": stage, "terminal": terminal, "method": EULER, **options}
    return lb.optimal_control(robot, **options)


def total(problem, plan, u):
    """The cost of the motion that u makes, by NumPy on numbers of any kind."""
    f = problem._step
    q, v, cost, p = plan.q[0], plan.v[0], 0, np.zeros(1)
    for now in u:
        cost = cost + problem._stage(q, v, now, p)[0]
        q, v = f.next(q, v, now)
    return cost + problem._terminal(q, v, p)[0]


def slopes(problem, plan):
    """d cost / du by complex steps, which lose no digits."""
    found = np.zeros_like(plan.u)
    for i in np.ndindex(plan.u.shape):
        u = plan.u.astype(complex)
        u[i] += 1e-30j
        found[i] = total(problem, plan, u).imag / 1e-30
    return found


def test_the_gradient_of_the_cost_vanishes_at_the_optimum():
    problem = swing()
    plan = problem.solve([0.2, 0.1], knots=20)
    assert plan.converged and plan.gap == 0
    start = problem.solve([0.2, 0.1], knots=20, iterations=0)
    assert np.abs(slopes(problem, start)).max() > 0.1
    assert np.abs(slopes(problem, plan)).max() < 1e-5
    assert abs(total(problem, plan, plan.u) - plan.cost) < 1e-12 * plan.cost
