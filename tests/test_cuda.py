"""CUDA kernels: their text, what they take of a device, and their PTX, interpreted, beside the host's C.

The interpreter (device/ptx.py) stands for a device. Results are compared to the bit where no products and
sums are fused: sines, cosines and angles are the library's own on both sides. Other functions (tan, exp, log,
hyperbolic and inverse ones) are NVIDIA's, whose last digit differs from that of the host's math library.
"""

import copy
from fractions import Fraction

import numpy as np
import pytest
from device import budgets, nvrtc, ptx
from native import compiled

import liebody as lb
from liebody import scalars
from liebody.base.errors import ArgumentError, GraphError, LiebodyError, ModelError
from liebody.compiler import trace
from liebody.compiler.graph.graph import evaluate
from liebody.compiler.native import build
from liebody.compiler.printers import cuda
from liebody.compiler.printers.cuda import cuda_kernel, cuda_names, cuda_prelude
from liebody.control import QuadraticProgram

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")
UNFUSED = (*build.FLAGS, "-ffp-contract=off")  # the host's compiler does not fuse products and sums either
THREADS = 32


def compiled_program(function, dtype, layout="rows", fused=False):
    """The PTX of a function, as a program of the interpreter."""
    single = dtype == np.float32
    text = cuda_prelude(single) + cuda_kernel(function, "kernel", single, layout)
    return ptx.Program(nvrtc.ptx(text, 90, fused))


def on_device(program, function, arrays, dtype, layout="rows"):
    """Results (n, size) of the interpreted kernel, and which instructions it executed."""
    n = len(arrays[0])

    def turned(x):
        return x if layout == "rows" else x.T

    given = [np.ascontiguousarray(turned(x.astype(dtype))) for x in arrays]
    results = [
        np.ascontiguousarray(turned(np.full((n, y.size), 7.0, dtype))) for y in function.outputs.values()
    ]
    executed = ptx.launch(program, "kernel", 2, THREADS, [n, *given, *results])
    return [np.ascontiguousarray(turned(y)) for y in results], executed


def on_host(function, arrays, dtype):
    """Results (n, size) of the C of this library, which fuses nothing."""
    shapes = [(len(x), *like.shape) for x, like in zip(arrays, function.inputs.values())]
    call = compiled(function, single=dtype == np.float32, flags=UNFUSED)
    status, results = call(*(x.reshape(s) for x, s in zip(arrays, shapes)))
    assert status == 0
    return [y.reshape(len(y), -1) for y in results]


def states(function, n, floating=False):
    """Random arguments (n, size); configurations of floating robots begin with a unit quaternion."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, max(x.size, 1))) for x in function.inputs.values()]
    if floating:
        arrays[0][:, :4] /= np.linalg.norm(arrays[0][:, :4], axis=1, keepdims=True)
    return arrays


def assert_same_bits(ours, theirs):
    for x, y in zip(ours, theirs, strict=True):
        assert not (x == 7.0).all()
        nan = np.isnan(x)  # of which the payload is free
        np.testing.assert_array_equal(nan, np.isnan(y))
        np.testing.assert_array_equal(x[~nan], y[~nan])
        np.testing.assert_array_equal(np.signbit(x[~nan]), np.signbit(y[~nan]))


# -- text ---------------------------------------------------------------------------------------------------


def test_a_file_names_kernels_shapes_and_launches(tmp_path):
    f = trace(lambda q, M: {"y": M @ q, "z": q[0] * M}, {"q": 2, "M": (2, 2)}, "step")
    file = lb.export_cuda(tmp_path, "my filter", [f, ("other", f)])
    assert file == tmp_path / "my_filter.cu"
    text = file.read_text()
    takes = "int64_t n, const real *restrict q, const real *restrict M, real *restrict y, real *restrict z"
    for name in ("my_filter_step", "my_filter_other"):
        assert f'extern "C" __global__ void __launch_bounds__(160) {name}({takes})' in text
        assert f"{name}<<<blocks, 160, 0, stream>>>(n, q, M, y, z);" in text
    assert "M  n x 2 x 2" in text and "#define SINGLE 0" in text
    columns = lb.export_cuda(tmp_path, "filter", {"step": f}, dtype="float32", layout="columns").read_text()
    assert "M  2 x 2 x n" in columns and "#define SINGLE 1" in columns


def test_robots_document_their_coordinates_in_the_file(tmp_path):
    robot = lb.models.double_pendulum()
    text = robot.export_cuda(
        tmp_path, ["gravity", ("pose", {"frame": robot.tree.bodies[-1].name})]
    ).read_text()
    assert f"Robot {robot.name}" in text and "q[1]" in text
    assert f"void __launch_bounds__(160) {robot.name}_gravity(" in text


def test_wrong_exports_are_refused_with_a_remedy(tmp_path):
    f = trace(lambda x: 2 * x, {"x": 2}, "twice")
    with pytest.raises(ArgumentError, match=r"expected 'rows', .* or 'columns'"):
        lb.export_cuda(tmp_path, "f", [f], layout="fortran")
    with pytest.raises(LiebodyError, match="expected float64 or float32"):
        lb.export_cuda(tmp_path, "f", [f], dtype=np.int32)
    with pytest.raises(LiebodyError, match="name at least one"):
        lb.export_cuda(tmp_path, "f", [])
    with pytest.raises(ModelError, match="no kernel for devices"):
        lb.export_cuda(tmp_path, "f", [QuadraticProgram(2, 0, 1).kernel])
    (tmp_path / "file").write_text("")
    with pytest.raises(LiebodyError, match="cannot write into"):
        lb.export_cuda(tmp_path / "file", "f", [f])
    assert [x.name for x in tmp_path.iterdir()] == ["file"]  # an error leaves no half of an export


def test_tables_in_the_memory_of_the_host_are_refused(tmp_path):
    f = trace(lambda p, x: scalars.lookup(p, x), {"p": (), "x": ()}, "f")
    with pytest.raises(GraphError, match="give its values as numbers while tracing"):
        lb.export_cuda(tmp_path, "f", [f])


def test_names_of_arguments_never_collide_with_words_of_cuda():
    f = trace(
        lambda n, blockIdx, real, q: n + blockIdx * real * q,
        dict.fromkeys(["n", "blockIdx", "real", "q"], ()),
    )
    assert cuda_names(f)[1] == ["n_", "blockIdx_", "real_", "q"]


# -- what kernels take of a device --------------------------------------------------------------------------

BUDGETS = [
    pytest.param(*key, marks=[] if (key[0], key[2]) == ("ur5", 90) else pytest.mark.wide)
    for key in [(r, t, a) for r in budgets.FILES for t in ("float64", "float32") for a in nvrtc.ARCHITECTURES]
]


@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype", "architecture"), BUDGETS)
def test_kernels_compile_without_warnings_within_their_registers(name, dtype, architecture):
    bounds = budgets.table()
    for key, x in budgets.measured(name, budgets.CALLS, dtype, architecture):
        registers, spilled = bounds[key]
        assert x.registers <= registers, key
        assert x.spilled <= spilled, key


def test_registers_of_arms_and_of_quadrupeds_suffice():
    table = budgets.table()
    assert len(table) == len(budgets.FILES) * len(budgets.CALLS) * 2 * len(nvrtc.ARCHITECTURES)
    assert {key[0] for key, (_, spilled) in table.items() if spilled} <= {"talos"}
    assert max(spilled for _, spilled in table.values()) < 64


# -- the interpreter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fused_multiply_adds_round_once(dtype):
    rng = np.random.default_rng(1)
    a, b, c = ((rng.standard_normal(400) * 10.0 ** rng.integers(-9, 9, 400)).astype(dtype) for _ in range(3))
    c[::3] = -(a * b)[::3]  # of these only the rounding error of the product remains
    for x, y, z, result in zip(a, b, c, ptx.fused(a, b, c)):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        neighbours = [result, *(np.nextafter(result, dtype(end)) for end in (-np.inf, np.inf))]
        errors = [abs(Fraction(float(w)) - exact) for w in neighbours]
        assert errors[0] == min(errors)


KERNELS = """
extern "C" __global__ void steps(long long n, const double *x, double *y) /* Collatz: threads part */
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long k = (long long)x[i], count = 0;
    while (k != 1) {
        if (k % 2) k = 3 * k + 1;
        else k /= 2;
        count++;
    }
    y[i] = (double)count;
}
extern "C" __global__ void turn(long long n, const double *x, double *y) /* within blocks of 32 */
{
    __shared__ double tile[32];
    tile[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
}
extern "C" __global__ void beyond(long long n, const double *x, double *y)
{
    y[threadIdx.x + n] = x[threadIdx.x];
}
extern "C" __global__ void crooked(long long n, const double *x, double *y)
{
    *(double *)((char *)y + 4 * threadIdx.x) = x[threadIdx.x];
}
"""


@needs_nvrtc
def test_threads_part_and_meet_share_memory_and_keep_to_their_arrays():
    program = ptx.Program(nvrtc.ptx(KERNELS))
    x = np.arange(1.0, 65.0)
    y = np.zeros(64)
    ptx.launch(program, "steps", 2, 32, [64, x, y])
    counts = []
    for k in range(1, 65):
        count = 0
        while k != 1:
            k = 3 * k + 1 if k % 2 else k // 2
            count += 1
        counts.append(count)
    assert y.tolist() == counts
    ptx.launch(program, "turn", 2, 32, [64, x, y])
    np.testing.assert_array_equal(y, x.reshape(2, 32)[:, ::-1].ravel())
    with pytest.raises(ptx.Fault, match="outside of its array"):
        ptx.launch(program, "beyond", 1, 32, [33, x, y])
    with pytest.raises(ptx.Fault, match="not a multiple of 8 bytes"):
        ptx.launch(program, "crooked", 1, 32, [64, x, y])


OTHERS = {
    "add": "sub", "sub": "add", "mul": "sub", "and": "or", "xor": "and", "div": "mul", "sqrt": "neg",
    "lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "leu": "gt", "neg": "abs", "rcp": "neg",
}  # fmt: skip


def mutations(instruction):
    """The ways in which an instruction is changed."""
    name, *parts = instruction.name.split(".")
    changed = copy.deepcopy(instruction)
    if name in OTHERS and (parts[-1] in ("f64", "b64") or parts[-1] == "s64"):
        words = [
            OTHERS[name],
            *(x for x in parts if not (x == "lo" or (x == "rn" and OTHERS[name] in ("neg", "abs")))),
        ]
        changed.name = ".".join(words)
        yield changed
    if name == "setp" and parts[0] in OTHERS:
        changed.name = ".".join([name, OTHERS[parts[0]], *parts[1:]])
        yield changed
    if name in ("sub", "div", "selp") and instruction.operands[1] != instruction.operands[2]:
        changed = copy.deepcopy(instruction)
        changed.operands[1:3] = changed.operands[2:0:-1]
        yield changed
    if name in ("ld", "st") and "param" not in parts:
        changed = copy.deepcopy(instruction)
        k = 1 if name == "ld" else 0
        place, _, offset = changed.operands[k][1:-1].partition("+")
        changed.operands[k] = f"[{place}+{int(offset or 0) + 8}]"
        yield changed
    for k, operand in enumerate(instruction.operands):
        if operand.startswith("0d") and operand[2:] != "0" * 16:
            changed = copy.deepcopy(instruction)
            changed.operands[k] = f"0d{int(operand[2:], 16) ^ (1 << 51):016X}"
            yield changed
    if instruction.guard:
        changed = copy.deepcopy(instruction)
        changed.guard = changed.guard[1:] if changed.guard[0] == "!" else "!" + changed.guard
        yield changed


@needs_nvrtc
def test_changed_instructions_change_results():
    """Mutations of every kind of instruction are found: the interpreter neither skips nor repairs anything.

    The branches to the reduction of large angles are left out: it gives the same bits for all angles.
    """
    function = budgets.robot("ur5").kernel("mass_matrix").function
    arrays = states(function, 70)
    program = compiled_program(function, np.float64)
    (right,), executed = on_device(program, function, arrays, np.float64)
    body = program.routines["kernel"].body
    assert {name for name, _ in executed} == {"kernel"}
    bound = "0d41286A00000000"  # 8e5, LARGE of runtime/lanes.h
    rare = {x.operands[0] for x in body if any(operand.startswith(bound) for operand in x.operands)}
    rng = np.random.default_rng(0)
    chosen = {}
    for _, k in sorted(executed):
        if not rare.isdisjoint([body[k].guard.lstrip("!"), *body[k].operands[:1]]):
            continue
        for number, mutant in enumerate(mutations(body[k])):
            chosen.setdefault((body[k].name, number), []).append((k, mutant))
    survivors = []
    count = 0
    for kind in sorted(chosen):
        some = chosen[kind]
        for k, mutant in (some[i] for i in rng.permutation(len(some))[:4]):
            original = body[k]
            body[k] = mutant
            count += 1
            try:
                (wrong,), _ = on_device(program, function, arrays, np.float64)
                if np.array_equal(right, wrong):
                    survivors.append((original, mutant))
            except ptx.Fault:
                pass
            body[k] = original
    assert count >= 40
    assert survivors == []


# -- PTX beside C -------------------------------------------------------------------------------------------

ROBOTS = [
    pytest.param(name, dtype, marks=[] if name == "ur5" else pytest.mark.wide)
    for name in ("ur5", "panda", "anymal")
    for dtype in (np.float64, np.float32)
]


@needs_nvrtc
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize(("name", "dtype"), ROBOTS)
def test_kernels_of_robots_equal_c_to_the_bit(name, dtype, layout):
    robot = budgets.robot(name)
    for call in budgets.CALLS:
        function = robot.kernel(call).function.unroll()
        arrays = [x.astype(dtype) for x in states(function, 70, name == "anymal")]  # more than threads
        ours, _ = on_device(compiled_program(function, dtype, layout), function, arrays, dtype, layout)
        assert_same_bits(ours, on_host(function, arrays, dtype))


@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype"), ROBOTS)
def test_fused_kernels_are_as_exact_as_c(name, dtype):
    """Errors are at most four times those of C that fuses nothing, both from arithmetic of 64 digits.

    Both are in units of round-off of the largest entry: no smaller error than one such unit is asked for.
    """
    robot = budgets.robot(name)
    for call in ("inverse_dynamics", "forward_dynamics", "mass_matrix"):
        function = robot.kernel(call).function.unroll()
        arrays = [x.astype(dtype) for x in states(function, 8, name == "anymal")]
        (ours,), _ = on_device(compiled_program(function, dtype, fused=True), function, arrays, dtype)
        (theirs,) = on_host(function, arrays, dtype)
        exact = in_long_doubles(function, arrays)
        scale = np.abs(exact).max() * np.finfo(dtype).eps
        assert np.abs(ours - exact).max() <= 4 * max(np.abs(theirs - exact).max(), scale)
        assert not np.array_equal(ours, theirs)


def in_long_doubles(function, arrays):
    """The first result (n, size) of a function, in numbers of 64 digits."""
    rows = []
    for state in zip(*arrays):
        values = {}
        for symbols, x in zip(function.inputs.values(), state):
            values.update(zip(symbols.flat, x.astype(np.longdouble)))
        evaluate(function.nodes, values)
        (y,) = function.outputs.values()
        rows.append([values.get(x, x) for x in y.flat])
    return np.array(rows, np.longdouble)


@needs_nvrtc
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_of_lanes_equal_c_to_the_bit(dtype):
    """Sines and cosines of angles of any size, angles of points, and what selects, compares and rounds."""

    def functions(x, y):
        smaller = scalars.where((x < y) & ~(y < 0.0), x * y, scalars.minimum(x, y))
        return np.array([
            scalars.sin(x), scalars.cos(x), scalars.arctan2(y, x), scalars.sqrt(x * x), smaller,
            scalars.maximum(x, y), scalars.sign(x), scalars.floor(y), scalars.absolute(y), x / y,
        ])  # fmt: skip

    function = trace(functions, {"x": (), "y": ()}, "functions")
    rng = np.random.default_rng(2)
    sizes = 10.0 ** rng.uniform(-8, 6 if dtype == np.float32 else 15, (60, 2))
    x, y = (sizes * rng.choice([-1.0, 1.0], (60, 2))).astype(dtype).T[:, :, None]
    x[:4, 0] = 0.0, -0.0, np.inf, 1e30
    ours, _ = on_device(compiled_program(function, dtype), function, [x, y], dtype)
    assert_same_bits(ours, on_host(function, [x, y], dtype))


@needs_nvrtc
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_long_programs_stay_loops(layout, monkeypatch):
    robot = lb.models.planar_chain(120)
    program = robot.kernel("inverse_dynamics").function
    assert isinstance(program, lb.compiler.Program)
    monkeypatch.setattr(cuda, "LOOPS_ABOVE", 0)
    arrays = states(program, 40)
    (ours,), _ = on_device(compiled_program(program, np.float64, layout), program, arrays, np.float64, layout)
    exact = robot.inverse_dynamics(*arrays)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-12 * np.abs(exact).max())
