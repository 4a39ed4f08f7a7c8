"""Derivatives of every algorithm, and of any traced function, beside differences in forty digits."""

import mpmath
import numpy as np
import pytest
from precise import OPERATIONS
from random_trees import JOINTS, WEIGHT, close, random_tree

import liebody as lb
from liebody.codegen import Expr, Function, trace
from liebody.robot import kernels_of
from liebody.robot.algorithm import CONFIGURATIONS

EPS = mpmath.mpf("1e-12")  # in 40 digits: differences of second order are right to about 1e-24


def precisely(function, *arrays):
    """The entries of the outputs of a traced function, in the digits of mpmath."""
    values = {}
    for symbols, array in zip(function.inputs.values(), arrays, strict=True):
        values.update(zip(symbols.flat, map(mpmath.mpf, np.ravel(array).tolist()), strict=True))
    for node in function.nodes:
        if node.op != "input":
            values[node] = OPERATIONS[node.op](*(values.get(x, x) if type(x) is Expr else x for x in node.args))
    found = [x for y in function.outputs.values() for x in y.flat]
    return np.array([values[x] if type(x) is Expr else mpmath.mpf(x) for x in found])


def flat(results):
    """All numbers of one result, or of several."""
    return np.concatenate([np.ravel(x) for x in (results if isinstance(results, tuple) else (results,))])


def rows(results, count, size):
    """Jacobians of `count` arrays of these sizes, for results one after the other, as one matrix."""
    blocks = [np.reshape(x, (-1, n)) for x, n in zip(results, [*size] * count, strict=True)]
    k = len(size)
    return np.vstack([np.hstack(blocks[k * i : k * i + k]) for i in range(count)])


def robot_of(*kinds, followers=0, seed=8, rotors=True):
    """A robot whose first joint carries all others, with free gravity, and mass and centre of its last body."""
    trees = (
        random_tree(np.random.default_rng(k), kinds, followers, rotors) for k in range(1000 * seed, 10**6)
    )
    tree = next(x for x in trees if [body.parent for body in x.bodies].count(0) == 1)
    name = tree.bodies[-1].name
    return lb.Robot(tree, WEIGHT).with_parameters("gravity", f"{name}.mass", f"{name}.center")


def moved(robot, names, arrays, directions, by):
    """Arrays along directions, configurations along the group, in the digits of mpmath."""
    along = trace(robot.group.integrate, {"q": robot.nq, "u": robot.nv}, "moved")
    result = []
    for name, x in zip(names, arrays, strict=True):
        u = directions.get(name)
        if u is None:
            result.append(x)
        elif name in CONFIGURATIONS:
            result.append(precisely(along, x, [by * mpmath.mpf(y) for y in u]))
        else:
            result.append([mpmath.mpf(y) + by * mpmath.mpf(d) for y, d in zip(x.flat, u.flat, strict=True)])
    return result


def sample(robot, kernel, rng):
    arrays = [robot._sample(name, shape, rng) for name, shape in kernel.inputs.items()]
    directions = {
        name: rng.normal(size=robot.nv if name in CONFIGURATIONS else x.shape)
        for name, x in zip(kernel.inputs, arrays, strict=True)
    }
    return arrays, directions


TABLE = kernels_of(lb.Robot)
LARGE = {"forward_dynamics_wrenches", *(name for name in TABLE if "dynamics_derivatives" in name)}
WITH_ROTORS = ("inverse_dynamics", "forward_dynamics", "mass", "bias", "kinetic", "hamiltonian")


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x in LARGE)) for x in TABLE])
def test_derivatives_of_every_algorithm_are_those_of_differences_in_forty_digits(name):
    """By all its arrays at once: Jacobians, and products with them; of random trees, in turn of all joints."""
    algorithm, _ = TABLE[name]
    at = [*TABLE].index(name)
    kinds = "free", [*JOINTS][at % len(JOINTS)], [*JOINTS][1:][at // 3 % 11], "revolute"
    robot = robot_of(*kinds, followers=at % 2, seed=at, rotors=name.startswith(WITH_ROTORS))
    words = {"frame": "frame-0", "task": lambda q: np.array([[0] * 6 + [1] * (robot.nv - 6)])}
    options = {key: words[key] for key in algorithm.options if key in words}
    if "damping" in algorithm.options:
        options["damping"] = True
    rng = np.random.default_rng(at)
    kernel = robot.kernel(name, **options)
    arrays, directions = sample(robot, kernel, rng)
    by = tuple(directions)
    function = kernel.function if isinstance(kernel.function, Function) else kernel.function.unroll()
    with mpmath.workdps(40):
        ends = (precisely(function, *moved(robot, by, arrays, directions, s * EPS)) for s in (1, -1))
        expected = np.array([float(x) for x in np.subtract(*ends) / (2 * EPS)])
    u, weights = [*directions.values()], [rng.normal(size=s) for s in kernel.outputs.values()]
    along = flat(robot.derivatives(name, by, "jvp", **options).function(*arrays, *u))
    close(along, expected, 1e-9)
    back = robot.derivatives(name, by, "vjp", **options).function(*arrays, *weights)
    size = np.linalg.norm(flat(tuple(weights))) * np.linalg.norm(along)
    assert abs(flat(tuple(weights)) @ along - flat(back) @ flat(tuple(u))) <= 1e-12 * max(1, size)
    if sum(np.prod(s, dtype=int) for s in kernel.outputs.values()) <= 400:
        J = robot.derivatives(name, by, **options).function(*arrays)
        J = rows(J if isinstance(J, tuple) else (J,), len(kernel.outputs), [x.size for x in u])
        close(J @ flat(tuple(u)), expected, 1e-9)
        close(flat(tuple(weights)) @ J, flat(back), 1e-12)
