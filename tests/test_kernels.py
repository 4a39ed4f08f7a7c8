"""Kernels: single calls, batches of any layout, outputs, threads, guards, errors, memory."""

import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import weakref
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import liebody as lb
from liebody import scalars
from liebody.base.errors import ArgumentError, ConfigurationError, GraphError, ModelError, ShapeError
from liebody.compiler import Guard, Kernel, Program, trace
from liebody.compiler.native import build, entry, libraries

needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")


def function(m, x, s):
    """A matrix, a vector and a scalar in; a matrix with constants, a vector and a scalar out."""
    y = scalars.sin(x) @ m * s
    return {"A": np.block([[m, np.zeros((3, 1), int)], [y[None, :], np.ones((1, 1))]]), "y": y, "e": y @ y}


TRACED = trace(function, {"m": (3, 5), "x": 3, "s": ()}, "f")
SHAPES = {"m": (3, 5), "x": (3,), "s": ()}


def expected(m, x, s):
    y = np.einsum("...i,...ij->...j", np.sin(x), m) * np.asarray(s)[..., None]
    zeros, ones = np.zeros((*y.shape[:-1], 3, 1)), np.ones((*y.shape[:-1], 1, 1))
    m = np.broadcast_to(m, (*y.shape[:-1], 3, 5))
    A = np.concatenate([np.concatenate([m, zeros], -1), np.concatenate([y[..., None, :], ones], -1)], -2)
    return A, y, np.einsum("...i,...i->...", y, y)


def arguments(*batch, seed=0, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*batch, *shape)) for shape in shapes.values()]


def assert_close(actual, desired, rtol=1e-13):
    assert len(actual) == len(desired)
    for a, d in zip(actual, desired, strict=True):
        assert np.shape(a) == np.shape(d)
        np.testing.assert_allclose(a, d, rtol=rtol, atol=rtol)


@pytest.fixture(params=["compiled", "NumPy source"])
def make(request, monkeypatch):
    """How kernels are made: with the compiler, and without one."""
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    return Kernel


@pytest.fixture
def f(make):
    return make(TRACED)


# -- batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "batch", [(), (1,), (0,), (3, 0), (2,), (7,), (8,), (9,), (67,), (130,), (3, 7), (2, 1, 33)]
)
def test_any_leading_axes(f, batch):
    x = arguments(*batch)
    assert_close(f(*x), expected(*x))


@pytest.mark.parametrize(
    ("m", "x", "s"),
    [
        ((), (90,), ()),
        ((90,), (1,), (1,)),
        ((5, 1), (18,), ()),
        ((5, 1, 1), (3, 1), (1, 1, 6)),
        ((1, 1), (), ()),
    ],
)
def test_leading_axes_broadcast(f, m, x, s):
    values = [arguments(*batch)[i] for i, batch in enumerate((m, x, s))]
    batch = np.broadcast_shapes(m, x, s)
    assert_close(
        f(*values), expected(*(np.broadcast_to(v, (*batch, *SHAPES[k])) for k, v in zip(SHAPES, values)))
    )


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim > 1 else np.repeat(a, 2)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "rows apart": lambda a: np.repeat(a, 3, axis=0)[::3],
    "rows in a wider array": lambda a: np.concatenate([a, a], axis=-1)[..., : a.shape[-1]],
    "axes swapped": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, -1)), -1, 0),
    "big-endian": lambda a: a.astype(">f8"),
    "float32": lambda a: a.astype(np.float32),
    "integers": lambda a: (10 * a).astype(int),
    "objects": lambda a: a.astype(object),
    "lists": lambda a: a.tolist(),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), offset=1).reshape(a.shape),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "zero strides": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("batch", [(5,), (70,), (10, 7)])
def test_inputs_of_any_layout_and_type(f, name, batch):
    x = [LAYOUTS[name](a) for a in arguments(*batch)]
    assert_close(f(*x), expected(*(np.asarray(a, float) for a in x)))


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "zero strides"])
def test_single_states_of_any_layout_and_type(f, name):
    m, x, s = arguments()
    m, x = LAYOUTS[name](m), LAYOUTS[name](x)
    assert_close(f(m, x, s), expected(np.asarray(m, float), np.asarray(x, float), s))


def test_subclasses_of_arrays_are_arrays(f):
    m, x, s = arguments()
    assert_close(f(m.view(np.recarray), x, s), expected(m, x, s))
    assert_close(f(m, np.ma.array(x), np.float64(s)), expected(m, x, s))
    assert_close(f(m, x, float(s)), expected(m, x, s))
    assert_close(f(m, x, s[None][0]), expected(m, x, s))


def test_scalar_outputs_are_scalars_whatever_the_way(f):
    x = arguments()
    assert type(f(*x)[2]) is type(f.general(*x)[2]) is np.float64
    energy = Kernel(trace(lambda x: x @ x, {"x": 2}, "energy"))
    assert type(energy(np.ones(2))) is type(energy([1, 1])) is np.float64
    assert energy(np.ones((4, 2))).shape == (4,)
    out = np.zeros(())
    assert energy(np.ones(2), out=out) is out and out == 2


def test_float32_kernels(make):
    f = make(TRACED, dtype=np.float32)
    for batch in [(), (5,), (67,)]:
        x = arguments(*batch)
        results = f(*x)
        assert all(y.dtype == np.float32 for y in results)
        assert_close(results, expected(*x), rtol=3e-6)
    with pytest.raises(GraphError, match="float16"):
        make(TRACED, dtype=np.float16)


@pytest.mark.parametrize("batch", [(), (3,), (80,)])
def test_functions_without_inputs_or_operations(make, batch):
    constant = make(trace(lambda: np.array([1.0, 2.0]), {}, "constant"))
    np.testing.assert_array_equal(constant(), [1, 2])
    x = np.random.default_rng(0).standard_normal((*batch, 3))
    np.testing.assert_array_equal(make(trace(lambda x: x, {"x": 3}, "identity"))(x), x)
    np.testing.assert_array_equal(
        make(trace(lambda x: np.zeros(4), {"x": 3}, "zero"))(x), np.zeros((*batch, 4))
    )
    assert make(trace(lambda x: np.zeros((0, 3)), {"x": 3}, "empty"))(x).shape == (*batch, 0, 3)
    nothing = make(trace(lambda x, none: (x, none), {"x": 3, "none": (0, 2)}, "both"))
    assert [y.shape for y in nothing(x, np.zeros((*batch, 0, 2)))] == [(*batch, 3), (*batch, 0, 2)]
    assert make(trace(lambda x: (), {"x": 3}, "silent"))(x) == ()


# -- out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (3,), (130,)])
def test_results_go_to_out(f, batch):
    x = arguments(*batch)
    right = expected(*x)
    plain = tuple(np.full(y.shape, np.nan) for y in right)
    strided = tuple(np.full((*y.shape, 2), np.nan)[..., 1] for y in right)
    single = tuple(np.full(y.shape, np.nan, np.float32) for y in right)
    fortran = tuple(np.full(y.shape, np.nan, order="F") for y in right)
    unaligned = tuple(np.frombuffer(bytearray(8 * y.size + 1), offset=1).reshape(y.shape) for y in right)
    for out in (plain, strided, fortran, unaligned):
        returned = f(*x, out=out)
        assert all(a is b for a, b in zip(returned, out, strict=True))
        assert_close(out, right)
    assert_close(f(*x, out=list(single)), right, rtol=1e-5)


@pytest.mark.parametrize("batch", [(), (4,), (130,)])
def test_out_may_overlap_with_inputs(make, batch):
    g = make(trace(lambda a, b: b[::-1] + 2 * a, {"a": 6, "b": 6}, "g"))
    memory = np.random.default_rng(0).standard_normal((*batch, 6))
    right = memory[..., ::-1] + 2 * memory
    assert g(memory, memory, out=memory) is memory
    np.testing.assert_allclose(memory, right)
    line = np.random.default_rng(0).standard_normal(6 * 131 + 3)
    n = max(1, *batch) if batch else 1
    a, out = line[: 6 * n].reshape(*batch, 6), line[3 : 6 * n + 3].reshape(*batch, 6)  # shifted by half a row
    right = a[..., ::-1] + 2 * a
    g(a, a, out=out)
    np.testing.assert_allclose(out, right)


def test_a_subclass_is_filled_as_an_array(make):
    g = make(trace(lambda x: np.outer(x, x), {"x": 3}, "g"))
    out = np.zeros((3, 3)).view(np.recarray)
    assert g(np.arange(3.0), out=out) is out
    np.testing.assert_array_equal(np.asarray(out), np.outer(range(3), range(3)))


def test_bad_out_is_refused_with_both_shapes(f):
    x = arguments(4)
    A, y, e = expected(*x)
    with pytest.raises(ShapeError, match=r"out for y has shape \(4, 4\), expected \(4, 5\)"):
        f(*x, out=(A, y[:, :4], e))
    with pytest.raises(ShapeError, match=r"3 outputs \(A, y, e\), out has 2"):
        f(*x, out=(A, y))
    with pytest.raises(ShapeError, match=r"3 outputs \(A, y, e\), out has 1"):
        f(*x, out=5)
    with pytest.raises(ShapeError, match="out for e is a list, expected an array"):
        f(*x, out=(A, y, [0.0] * 4))
    for kind in (int, bool, "U5"):
        with pytest.raises(
            ShapeError, match=r"out for y holds .*, which would lose digits; expected float64"
        ):
            f(*x, out=(A, y.astype(kind), e))
    y.flags.writeable = False
    with pytest.raises(ShapeError, match="out for y is read-only"):
        f(*x, out=(A, y, e))


# -- threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", [1, 5, 16, 67, 1000])
def test_results_are_the_same_for_any_number_of_threads(make, n, single):
    f = make(TRACED, dtype=np.float32 if single else np.float64)
    f(*arguments(200))  # from here on, all batches run over lanes
    x = arguments(n)
    one = f(*x, threads=1)
    for threads in (2, 3, 8, 1000):
        for a, b in zip(f(*x, threads=threads), one, strict=True):
            np.testing.assert_array_equal(a, b)


@needs_compiler
def test_a_thread_without_memory_is_not_lost_among_others():
    k, calls = Kernel(TRACED), []

    def run(rows, *_):
        calls.append(rows)
        return -1 if len(calls) == 1 else 0

    k._loops[True] = SimpleNamespace(run=run)
    with pytest.raises(MemoryError, match="f: no memory"):
        k(*arguments(200), threads=2)


@needs_compiler
def test_batches_release_the_interpreter_lock():
    f = Kernel(trace(lambda x: scalars.exp(scalars.exp(scalars.sin(x))), {"x": 40}, "slow"))
    x, out = np.random.default_rng(0).standard_normal((40_000, 40)), np.empty((40_000, 40))
    f(x, out=out)
    ticks, running = [], threading.Event()

    def run():
        running.set()
        f(x, out=out)
        running.clear()

    worker = threading.Thread(target=run)
    worker.start()
    running.wait()
    while running.is_set():
        ticks.append(time.perf_counter())
        time.sleep(1e-4)
    worker.join()
    assert len(ticks) > 5  # Python code ran while the batch did


@needs_compiler
def test_kernels_are_called_from_many_threads_at_once():
    f = Kernel(TRACED)
    x = arguments(50)
    right = f(*x)
    wrong = []

    def run():
        for i in range(200):
            results = f(*x) if i % 10 == 0 else f(*(a[i % 50] for a in x))
            desired = right if i % 10 == 0 else [y[i % 50] for y in right]
            wrong.extend(0 for a, b in zip(results, desired) if not np.allclose(a, b, rtol=1e-12))

    workers = [threading.Thread(target=run) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# -- errors -------------------------------------------------------------------------------------------------


def test_wrong_shapes_are_refused_with_both_shapes(f):
    m, x, s = arguments()
    with pytest.raises(ShapeError, match=r"f takes 3 arrays \(m, x, s\), got 2"):
        f(m, x)
    with pytest.raises(ShapeError, match=r"x has shape \(4,\), expected \(3,\)"):
        f(m, np.zeros(4), s)
    with pytest.raises(ShapeError, match=r"m has shape \(5, 3\), expected \(3, 5\)"):
        f(m.T, x, s)
    with pytest.raises(ShapeError, match=r"x has shape \(\), expected \(3,\)"):
        f(m, 1.0, s)
    with pytest.raises(ShapeError, match=r"broadcast.*m \(4, 3, 5\), x \(7, 3\), s \(\)"):
        f(np.zeros((4, 3, 5)), np.zeros((7, 3)), s)


@pytest.mark.parametrize(
    "x", [["a", "b", "c"], [1j, 0, 0], [[1], [2, 3], 4], [None, object(), 1], ["1", "2", "3"]]
)
def test_what_is_no_array_of_numbers_is_refused(f, x):
    m, _, s = arguments()
    with pytest.raises(ShapeError, match="x cannot be read as an array of float64"):
        f(m, x, s)


@pytest.mark.parametrize("given", [3, lambda q: q, lambda: 3])
def test_what_makes_no_kernel_is_refused_with_what_does(given):
    with pytest.raises(GraphError, match=r"made of .*, expected a traced function, as Kernel\(trace\("):
        Kernel(given)


def test_a_guard_checks_entries_that_there_are():
    for guard in (
        Guard(("z",)),
        Guard(unit=[("z", 0, 4)]),
        Guard(unit=[("x", 0, 4)]),
        Guard(signs=[("z", 0, ">")]),
        Guard(signs=[("x", 3, ">=")]),
    ):
        with pytest.raises(
            GraphError, match=r"f: the guard checks .* and the inputs are m \(3, 5\), x \(3,\)"
        ):
            Kernel(TRACED, guard=guard)


@pytest.mark.parametrize("general", [False, True])
def test_unknown_keywords_are_refused_by_name(f, general):
    x = arguments()
    call = f.general if general else f
    with pytest.raises(TypeError, match="dtype"):
        call(*x, dtype=float)
    with pytest.raises(TypeError, match="dtype"):
        call(*x, out=None, dtype=float)


@pytest.mark.parametrize("name", ["q'", "q\n", 'q"; system("rm")', "", "1q"])
def test_names_are_identifiers(make, name):
    for traced in (
        trace(lambda q: q, {name: 2}, "f"),
        trace(lambda q: {name: q}, {"q": 2}, "f"),
        trace(lambda q: q, {"q": 2}, name or "\n"),
    ):
        with pytest.raises(GraphError, match="use letters, digits and _"):
            make(traced)


# -- guards -------------------------------------------------------------------------------------------------

GUARD = Guard(("q", "m"), (("q", 1, 4),))
ORIENTED = trace(lambda q, m: q[1:5] * m[0, 1], {"q": 6, "m": (2, 2)}, "oriented")


def oriented(*batch):
    q = np.zeros((*batch, 6))
    q[..., 3] = 1
    return q, np.ones((*batch, 2, 2))


CASES = [  # batch, where, what is written there, words
    ((), (2,), np.nan, r"q\[2\] is nan, expected a finite number"),
    ((1,), (0, 2), np.inf, r"q\[2\] is inf"),
    ((7,), (5, 5), -np.inf, r"q\[5\] of state 5 is -inf"),
    ((3, 70), (2, 5, 0), np.nan, r"q\[0\] of state \(2, 5\) is nan"),
    ((), (3,), 2.0, r"quaternion q\[1:5\] has norm 2, expected 1 .order w, x, y, z.; normalize"),
    ((3, 70), (1, 69, 3), 0.0, r"quaternion q\[1:5\] of state \(1, 69\) has norm 0"),
]


@pytest.mark.parametrize(("batch", "where", "value", "words"), CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_guard_names_the_entry_and_the_state(make, batch, where, value, words, dtype, threads):
    f = make(ORIENTED, dtype=dtype, guard=GUARD)
    q, m = oriented(*batch)
    f(q, m, threads=threads)
    q[where] = value
    with pytest.raises(ConfigurationError, match=words):
        f(q, m, threads=threads)
    with pytest.raises(ConfigurationError, match=words):
        f(q, m, out=np.zeros((*batch, 4)), threads=threads)


def test_a_guard_names_entries_of_matrices_and_shared_rows(make):
    f = make(ORIENTED, guard=GUARD)
    q, m = oriented(9)
    m = m[0]
    m[1, 0] = np.nan
    with pytest.raises(ConfigurationError, match=r"m\[1, 0\] is nan"):
        f(q, m)


@pytest.mark.parametrize("n", [1, 9, 200])
def test_a_guard_holds_signs_and_axes_and_names_them_as_it_was_told(make, n):
    labels = {"p": ("mass", "loss", "axis[0]", "axis[1]", "axis[2]")}
    guard = Guard(("p",), (("p", 2, 3),), signs=(("p", 0, ">"), ("p", 1, ">=")), labels=labels)
    f = make(trace(lambda p: p[:1], {"p": 5}, "f"), guard=guard)
    p = np.tile([1.0, 0.0, 0.0, 0.6, -0.8], (n, 1))
    assert np.array_equal(f(p), p[:, :1])
    state = f" of state {n - 1}" if n > 1 else ""
    for place, value, error, words in [
        (0, 0.0, ModelError, f"f: p[0] (mass){state} is 0.0, expected a positive number"),
        (1, -1e-300, ModelError, f"f: p[1] (loss){state} is -1e-300, expected zero or more"),
        (4, 0.0, ConfigurationError, f"f: the vector p[2:5] (axis){state} has norm 0.6, expected 1;"),
        (0, np.nan, ConfigurationError, f"f: p[0] (mass){state} is nan, expected a finite number"),
    ]:
        wrong = p.copy()
        wrong[-1, place] = value
        with pytest.raises(error, match=re.escape(words)):
            f(wrong)


def test_a_guard_is_not_deceived_by_an_out_that_overlaps(make):
    f = make(trace(lambda q: np.zeros(6), {"q": 6}, "g"), guard=Guard(("q",)))
    q = np.ones((300, 6))
    q[17, 2] = np.nan
    with pytest.raises(ConfigurationError, match=r"q\[2\] of state 17"):
        f(q, out=q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_quaternion_at_the_tolerance_never_passes_in_silence(make, dtype):
    """Either results are computed, all of them, or there is an error, however sums are rounded."""
    f = make(ORIENTED, dtype=dtype, guard=GUARD)
    rng = np.random.default_rng(0)
    for _ in range(300):
        q, m = oriented(11)
        q[:, 1:5] = rng.standard_normal((11, 4))
        q[:, 1:5] /= np.linalg.norm(q[:, 1:5], axis=1, keepdims=True)
        q[:, 1:5] *= np.sqrt(1 + GUARD.tolerance * (1 + 1e-9 * rng.standard_normal()))
        out = np.full((11, 4), np.nan)
        try:
            f(q, m, out=out)
        except ConfigurationError:
            continue
        assert np.isfinite(out).all()


# -- the low-latency entry ----------------------------------------------------------------------------------


@needs_compiler
def test_the_entry_is_a_built_in_function_here():
    assert entry.available()
    assert type(Kernel(TRACED).call).__name__ == "builtin_function_or_method"


@needs_compiler
@pytest.mark.parametrize("arrays, axes", [(1, 1), (32, 1), (33, 1), (1, 16), (1, 17)])
def test_kernels_of_many_arrays_and_axes_give_what_others_do(arrays, axes):
    """The entry has room for 32 arrays of 16 axes; calls of larger kernels go the long way."""
    shape, names = (2,) + (1,) * (axes - 1), [f"x{i}" for i in range(arrays)]
    f = Kernel(trace(lambda *x: tuple(i + y for i, y in enumerate(x)), dict.fromkeys(names, shape), "f"))
    for batch in ((), (3,)):
        given = [np.full((*batch, *shape), float(i)) for i in range(arrays)]
        found = f.call(*given)
        for i, y in enumerate(found if arrays > 1 else [found]):
            assert y.shape == (*batch, *shape) and (y == 2 * i).all()


@needs_compiler
def test_results_that_are_kept_go_with_their_kernel():
    f = Kernel(trace(lambda x: 2 * x, {"x": 4}, "f"))
    y = f(np.ones(4))
    seen = weakref.ref(y)
    del y
    assert seen() is not None
    del f
    gc.collect()
    assert seen() is None


@needs_compiler
@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y,
        lambda y: y[1:],
        lambda y: y.T,
        memoryview,
        lambda y: np.asarray(memoryview(y))[::-1],
        lambda y: {"y": (y,)},
    ],
    ids=["itself", "view", "transpose", "buffer", "array of a buffer", "in a tuple"],
)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_results_that_somebody_holds_never_change(hold, batch):
    """The entry writes into arrays of earlier calls, but only into those that nobody refers to."""
    f = Kernel(trace(lambda x: (2 * x, x + 1), {"x": 4}, "f"))
    f.call(np.zeros((100, 4)))
    held, copies = [], []
    for i in range(20):
        y, z = f.call(np.full((*batch, 4), float(i)))
        assert (y == 2 * i).all() and (z == i + 1).all() and y is not z
        held += [hold(y), hold(z)] if i % 3 else []
        copies += [2 * i, i + 1] if i % 3 else []
        del y, z
    for thing, value in zip(held, copies, strict=True):
        thing = thing["y"][0] if isinstance(thing, dict) else thing
        assert (np.asarray(thing) == value).all()


@needs_compiler
def test_results_that_were_changed_by_their_owner_do_not_come_back():
    f = Kernel(trace(lambda x: 2 * x, {"x": 4}, "f"))

    def reshape(y):
        y.shape = (2, 2)

    def lock(y):
        y.flags.writeable = False

    def retype(y):
        with warnings.catch_warnings():  # NumPy means to forbid it some day
            warnings.simplefilter("ignore")
            y.dtype = np.int64

    watched = []
    for change in (reshape, lock, retype, lambda y: watched.append(weakref.ref(y)), lambda y: None) * 3:
        y = f.call(np.arange(4.0))
        assert y.shape == (4,) and y.dtype == float and y.flags.writeable and y.flags.owndata
        np.testing.assert_array_equal(y, [0, 2, 4, 6])
        assert all(reference() is not y for reference in watched)
        change(y)
        del y


@needs_compiler
@pytest.mark.wide
def test_the_entry_leaves_no_memory_behind():
    f = Kernel(ORIENTED, guard=GUARD)
    several = Kernel(TRACED)
    q, m = oriented()
    x = arguments()
    bad, out = np.full(6, np.nan), np.zeros(4)
    batch = oriented(3)

    f.call(*oriented(100))  # both loops are there
    lists, many, results = (q.tolist(), m.tolist()), oriented(100), np.zeros((100, 4))

    def everything(n):
        for _ in range(n):
            f.call(q, m)
            f.call(q, m, out=out)
            f.call(*lists)
            f.call(*batch, threads=1)
            several.call(*x)
        for _ in range(n // 100):
            f.call(*many)
            f.call(*many, out=results)
            for arrays in ((bad, m), (q, m, m), (q[:3], m)):
                with pytest.raises(ValueError):
                    f.call(*arrays)
            with pytest.raises(TypeError):
                f.call(q, m, nonsense=1)

    def held():
        """Bytes asked for by calls in this file: by the entry, but not for the interpreter's free lists."""
        gc.collect()
        snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
        return sum(trace.size for trace in snapshot.traces)

    everything(300)
    gc.collect()
    counts = [sys.getrefcount(a) for a in (q, m, out, *x, f.call, f)]
    tracemalloc.start()
    sizes = [held()]
    for _ in range(4):
        everything(25_000)
        sizes.append(held())
    tracemalloc.stop()
    assert [sys.getrefcount(a) for a in (q, m, out, *x, f.call, f)] == counts
    # a leak shows in every round, with 8 bytes for each of 250 batches at the least
    assert min(np.diff(sizes)) < 2_000


@needs_compiler
@pytest.mark.parametrize("first", ["a state", "a small batch", "a large batch"])
def test_the_entry_takes_states_batches_and_lists(first):
    """Whichever loop was compiled first, all that the entry can take is what the portable way gives."""
    f, q, m = Kernel(ORIENTED), *oriented(130)
    f(*{"a state": (q[0], m[0]), "a small batch": (q[:3], m[:3]), "a large batch": (q, m)}[first])
    given = [
        (q[0], m[0]), (q[0].tolist(), m[0]), (q[0], tuple(m[0])), (q[:5], m[:5]), (q, m), (q[:7], m[0]),
        (q[0], m[:9]), (q[:120].reshape(2, 3, 20, -1), m[:120].reshape(2, 3, 20, 2, 2)), (q[:1], m[:1]),
        (q[:4].tolist(), m[:4]), (q[::2], m[::2]), (q[:6, ::-1], m[:6]), (q[:0], m[:0]),
        (q[:1], m[:5]), (np.float32(q[:3]), m[:3]), (np.asfortranarray(q), m),
    ]  # fmt: skip
    for arrays in given:
        expected = f.general(*arrays)
        for _ in range(2):  # a loop that was missing is there the second time
            found = f.call(*arrays)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        out = np.full_like(expected, np.nan)
        assert f.call(*arrays, out=out, threads=1) is out
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-13)
    rows = np.zeros((130, max(q.shape[1], 4)))
    rows[:, : q.shape[1]] = q
    assert np.array_equal(
        f.call(q, m, out=rows[:, :4]), f.general(q, m)
    )  # `out` overlaps nothing but has gaps


@needs_compiler
@pytest.mark.parametrize("batch", [(), (5,), (2, 50)])
def test_the_entry_writes_several_results_into_arrays_of_a_tuple(batch, monkeypatch):
    """What it cannot take, as arrays that overlap with inputs or do not fit, goes the long way."""
    f, x = Kernel(TRACED), arguments(*batch)
    expected = f(*x)
    out = tuple(np.full(np.shape(y), np.nan) for y in expected)
    overlapping = x[0].copy()
    part = overlapping.reshape(-1)[: out[1].size].reshape(out[1].shape)
    found = f.call(overlapping, *x[1:], out=(out[0], part, out[2]))
    assert_close(found, expected, 0)
    with pytest.raises(ShapeError, match="out for y has shape"):
        f.call(*x, out=(out[0], out[0], out[2]))
    with pytest.raises(ShapeError, match="f has 3 outputs"):
        f.call(*x, out=out[:2])
    if entry.available():
        monkeypatch.setattr(Kernel, "general", lambda *given, **options: pytest.fail("the long way"))
        f = Kernel(TRACED)
        f(*x) if batch == () else f.loops(int(np.prod(batch)))
        counts = [sys.getrefcount(y) for y in (out, *out)]
        assert f.call(*x, out=out) is out
        assert [sys.getrefcount(y) for y in (out, *out)] == counts
        assert_close(out, expected, 0)


@needs_compiler
def test_results_may_overwrite_inputs_of_batches():
    f = Kernel(trace(lambda x: np.array([x[1], x[0], x[2] * x[0]]), {"x": 3}, "swapped"))
    for n in (1, 5, 100):
        x = np.random.default_rng(0).normal(size=(n + 1, 3))
        expected = f(x[:-1])
        f.call(x[:-1], out=x[1:])  # shifted by a row
        np.testing.assert_array_equal(x[1:], expected)


@needs_compiler
def test_two_entries_of_one_library_keep_their_own_ways_out():
    f = Kernel(TRACED)
    one, two = f.entry(lambda *arrays: "one"), f.entry(lambda *arrays: "two")
    assert one("other") == "one" and two("other") == "two"
    assert_close(one(*arguments()), expected(*arguments()))


@needs_compiler
def test_kernels_are_let_go():
    f = Kernel(trace(lambda x: 3 * x, {"x": 3}, "f"))
    f(np.ones(3)), f(np.ones((100, 3)))
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def run_in_a_process(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


SMALL_KERNELS = """
import gc, itertools, os, shutil, sys, tempfile
import numpy as np
from liebody.compiler import Kernel, trace
from liebody.compiler.native import cache

function = trace(lambda x: np.sin(x) * 3.0, {"x": 3}, "f")
folder, numbers, opened, always = tempfile.mkdtemp(), itertools.count(), cache._load, 0

def load_a_copy(path):
    copy = f"{folder}/{next(numbers)}.so"  # a library of its own each time, without the time of a compiler
    shutil.copy(path, copy)
    library = opened(copy)
    os.unlink(copy)
    return library

cache._load = load_a_copy

def maps():
    with open("/proc/self/maps") as lines:
        return sum(folder in line for line in lines) - always

def kernel():
    f = Kernel(function)
    assert np.allclose(f(np.ones(3)), np.sin(np.ones(3)) * 3.0)
    return f

kernel()
gc.collect()
always = maps()  # of what all kernels share
"""


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="counts the maps of a process of Linux")
@pytest.mark.parametrize("count", [100, pytest.param(3000, marks=pytest.mark.wide)])
def test_thousands_of_kernels_come_and_go_within_few_maps(count):
    """Libraries are unloaded with the last that holds them: a kernel, or its entry."""
    least, held, entries, none = map(
        int,
        run_in_a_process(
            SMALL_KERNELS
            + f"count = {count}"
            + """
most = 0
for k in range(count):
    kernel()
    if k % 50 == 0:
        gc.collect()
        most = max(most, maps())
held = [kernel() for _ in range(10)]
gc.collect()
print(most, maps())
entries = [f.call for f in held]
held.clear()
gc.collect()
print(maps())
assert all(np.allclose(call(np.ones((5, 3))), 3 * np.sin(np.ones((5, 3)))) for call in entries)
entries.clear()
gc.collect()
print(maps())
"""
        ),
    )
    assert least == none == 0 and held == entries >= 10


@needs_compiler
def test_a_library_outlives_whatever_may_still_call_it():
    """In a circle that the collector takes apart, `__del__` of an object may call a kernel of the circle."""
    told = run_in_a_process(
        SMALL_KERNELS
        + """
class Last:
    def __init__(self):
        f = kernel()
        self.call, self.again, self.library, self.me = f.call, f, f._loops[False], self

    def __del__(self):
        print(np.isclose(self.call(np.ones(3))[0], 3 * np.sin(1.0)), self.again(np.ones((2, 3))).shape[0])

for _ in range(20):
    Last()
gc.collect()
print(maps())
"""
    )
    assert told == ["True", "2"] * 20 + ["0"]


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="needs fork, and Linux")
def test_a_forked_child_closes_what_it_opened_and_nothing_else():
    told = run_in_a_process(
        SMALL_KERNELS
        + """
f = kernel()
before = maps()
child = os.fork()
del f
gc.collect()
if not child:
    inherited = maps()
    g = kernel()
    more = maps() > inherited
    del g
    gc.collect()
    print(inherited == before, more, maps() == inherited, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(maps())
"""
    )
    assert told == ["True", "True", "True", "0"]


@needs_compiler
def test_the_collector_does_not_track_what_keeps_a_library_open():
    held = Kernel(TRACED)
    held(*arguments())
    (library,) = held._loops.values()
    assert not gc.is_tracked(vars(library)["held_open"])


@needs_compiler
@pytest.mark.parametrize("way", ["call", "general", "out", "threads", "buffer", "float32"])
def test_the_size_of_a_batch_alone_decides_its_digits(way):
    """Whatever was computed before: each batch by a kernel of its own, and all by one, up and down."""
    kind = np.float32 if way == "float32" else np.float64
    x = np.random.default_rng(0).normal(size=(130, 3)).astype(kind)
    function = trace(
        lambda x: np.array([x @ x * x[0] + x[1] * x[2], scalars.sin(x[0] * x[1])]), {"x": 3}, "f"
    )

    def computed(f, n):
        if way == "buffer":
            return f.buffer(n)(x[:n]).copy()
        if way == "out":
            return f(x[:n], out=np.empty((n, 2))).copy()
        if way == "threads":
            return f(x[:n], threads=3).copy()
        return (f.general if way == "general" else f)(x[:n]).copy()

    sizes = [1, 2, 5, 7, 8, 9, 31, 40, 63, 64, 65, 130]
    alone = {n: computed(Kernel(function, dtype=kind), n) for n in sizes}
    for order in (sizes, sizes[::-1], [40, 130, 40, 2, 9, 1]):
        f = Kernel(function, dtype=kind)
        for n in order:
            np.testing.assert_array_equal(computed(f, n), alone[n])
        f(x[0])
        for n in order:
            np.testing.assert_array_equal(computed(f, n), alone[n])


def test_kernels_say_what_they_are(make):
    f = make(lambda: TRACED, doc="What it does.")
    assert f.operations == TRACED.operations
    assert repr(f) == "Kernel f(m[3, 5], x[3], s[])"
    assert f.source.startswith(
        "#include <math.h>\n\nvoid f(const double *m, const double *x, const double *s, double *A,"
    )
    assert f.__doc__ == "What it does."
    assert f.inputs == SHAPES and f.outputs == {"A": (4, 6), "y": (5,), "e": ()}


@pytest.mark.parametrize("size", [3, 9, 30], ids=lambda n: f"{n}x{n}")
@pytest.mark.many
def test_a_buffer_fills_constant_entries_once_and_gives_what_a_call_gives(size):
    def sparse(x):
        rows = np.zeros((size, size), int).astype(object)
        rows[0] = x
        rows[:, size // 2] = x[::-1] * 2.0
        rows[-1, -1] = 5.0
        return rows, x[:1]

    kernel = Kernel(trace(sparse, {"x": size}, "sparse"))
    rng = np.random.default_rng(0)
    for count in (1, 5, 64, 131):
        buffer = kernel.buffer(count)
        for _ in range(3):
            x = rng.standard_normal((count, size))
            for ours, expected in zip(buffer(x), kernel(x), strict=True):
                np.testing.assert_array_equal(ours, expected)
                assert not ours.flags.writeable
    with pytest.raises(ShapeError, match=r"batch of shape \(2,\).*for \(131,\)"):
        buffer(np.zeros((2, size)))
    single = kernel.buffer()
    np.testing.assert_array_equal(single(x[0])[0], kernel(x[0])[0])


def test_buffers_check_batches_and_threads_as_calls_do(f):
    for batch in ((-1,), (2.0,), ("3",)):
        with pytest.raises(
            ArgumentError, match=r"the shape of a batch is .*, expected whole numbers, 0 or more"
        ):
            f.buffer(*batch)
    with pytest.raises(ArgumentError, match="threads is 0, expected a whole number, 1 or more"):
        f.buffer(2)(*arguments(2), threads=0)


def test_a_number_is_taken_where_a_scalar_is_expected():
    kernel = Kernel(trace(lambda t, q: q * t, {"t": (), "q": 3}, "scaled"))
    q = np.array([1.0, 2.0, 3.0])
    for t in (0.5, np.float64(0.5), np.asarray(0.5), np.float32(0.5), Fraction(1, 2)):
        np.testing.assert_array_equal(kernel(t, q), 0.5 * q)
        np.testing.assert_array_equal(kernel.call(t, q), 0.5 * q)
    np.testing.assert_array_equal(kernel.call(2, q), 2 * q)
    with pytest.raises(ShapeError, match="q has shape"):
        kernel.call(0.5, 0.5)


@pytest.mark.wide
def test_kernels_are_pickled_by_what_they_are_made_of():
    """Traced functions as lists of nodes, however deep; those of robots by their algorithm."""

    def deep(x, y):
        x = scalars.sin(x)
        for _ in range(3000):
            x = 0.75 * x + y
        return {"a": x[::-1] * 2, "b": np.stack([x, [1.0, 0.0]])}

    kernels = {
        Kernel(trace(deep, {"x": 2, "y": ()}, "deep")): (np.array([0.3, 0.7]), 0.5),
        lb.models.double_pendulum().kernel("mass_matrix"): (np.array([0.3, 0.7]),),
        lb.models.double_pendulum().derivatives("gravity"): (np.array([0.3, 0.7]),),
        lb.models.free_rigid_body().kernel("normalize", np.float32): (np.full(7, 0.5, np.float32),),
    }
    for k, arguments in kernels.items():
        again = pickle.loads(pickle.dumps(k))
        assert (again.name, again.inputs, again.outputs) == (k.name, k.inputs, k.outputs)
        expected, found = k(*arguments), again(*arguments)
        several = isinstance(expected, tuple)
        for x, y in zip(expected, found) if several else [(expected, found)]:
            np.testing.assert_array_equal(y, x)
        assert again.dtype == k.dtype and again.__doc__ == k.__doc__
    with pytest.raises(ConfigurationError):
        again(np.zeros(7))


@pytest.mark.parametrize(("places", "lanes"), [(1000, 8), (12_000, 8), (40_000, 1)])
def test_programs_run_over_lanes_unless_their_results_would_leave_the_caches(places, lanes):
    program = Program("pairs", {"x": places})
    twice = trace(lambda x: np.array([x + x, x * x]), {"x": ()}, "twice")
    program.output("y", program.apply(twice, program.cells("x")))
    assert Kernel(program)._source(8).units[0].startswith(f"#define LANES {lanes}\n")
