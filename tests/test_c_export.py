"""C for controllers: what is exported compiles without a warning, and computes what its header says."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import liebody as lb
from liebody import scalars
from liebody.compiler import Program, trace
from liebody.compiler.graph.graph import OPERATIONS
from liebody.compiler.native import build
from liebody.compiler.printers.c import DOUBLE, PIECE
from liebody.compiler.printers.costs import memory_of
from liebody.robot import kernels_of
from liebody.scalars import exp, maximum, minimum, sqrt

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")

STRICT = "-std=c99 -Wall -Wextra -Werror -pedantic -Wconversion -Wdouble-promotion -Wfloat-equal".split()
ARM = "arm-none-eabi-gcc"
# What is compiled for a processor without an operating system, and what runs in the emulator of one.
MICROCONTROLLER = "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard".split()
EMULATED = "-mcpu=cortex-a9 -mfpu=vfpv3 -mfloat-abi=hard --specs=rdimon.specs".split()
TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def self_test(paths, folder, *options):
    """Compiles source and test with every warning an error, and returns the finished test."""
    command = [*build.find_compiler().command, *STRICT, *(options or ["-O1"])]
    return run_self_test(command, [], paths, folder)


def run_self_test(command, emulator, paths, folder):
    sources = [path for path in paths if path.suffix == ".c"]
    program = folder / "selftest"
    done = subprocess.run([*command, "-o", program, *sources, "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return subprocess.run([*emulator, program], capture_output=True, text=True)


def loaded(paths, folder, *options):
    """The exported functions as a library."""
    command = [*build.find_compiler().command, *STRICT, "-fPIC", "-shared", *(options or ["-O1"])]
    subprocess.run([*command, "-o", folder / "exported.so", paths[0], "-lm"], check=True)
    return ctypes.CDLL(str(folder / "exported.so"))


def called(function, *arrays, shape, dtype=np.float64):
    """The result of an exported function that has one."""
    given, out = [np.ascontiguousarray(x, dtype) for x in arrays], np.full(shape, np.nan, dtype)
    function(*(ctypes.c_void_p(x.ctypes.data) for x in (*given, out)))
    return out


def pendulum():
    return lb.load("double_pendulum")


def feedback(robot):
    """A controller with gains and a limit as arguments, traced."""

    def law(q, v, q_d, K, D, most):
        tau = K * (q_d - q) - D * v + robot.gravity(q)
        return {"tau": minimum(maximum(tau, -most), most)}

    n = robot.nv
    return trace(law, {"q": robot.nq, "v": n, "q_d": n, "K": n, "D": n, "most": ()}, "feedback")


@TYPES
def test_calls_with_options_derivatives_controllers_and_steps_pass_their_own_test(dtype, tmp_path):
    robot = pendulum()
    step = lb.stepper(robot, dt=1e-3).function()
    derivative = robot.derivatives("pose", frame="tip")
    functions = [
        ("jacobian", {"frame": "tip"}),
        ("pose", {"frame": "tip"}),
        derivative,
        feedback(robot),
        step,
    ]
    paths = robot.export_c(tmp_path, functions, dtype=dtype)
    done = self_test(paths, tmp_path)
    assert done.returncode == 0 and "15 comparisons" in done.stdout, done.stdout


def test_options_and_parameters_reach_the_c(tmp_path):
    robot, rng = pendulum(), np.random.default_rng(0)
    functions = {
        "J_mixed": ("jacobian", {"frame": "tip", "representation": "mixed"}),
        "J_body": ("jacobian", {"frame": "tip"}),
        "law": feedback(robot),
    }
    library = loaded(robot.export_c(tmp_path, functions), tmp_path)
    q, v, q_d, K, D = rng.normal(size=(5, 2))
    for name, representation in (("J_mixed", "mixed"), ("J_body", "body")):
        found = called(getattr(library, f"double_pendulum_{name}"), q, shape=(6, 2))
        np.testing.assert_allclose(found, robot.jacobian(q, "tip", representation), atol=1e-14)
    for most in (0.3, 100.0):
        found = called(library.double_pendulum_law, q, v, q_d, K, D, [most], shape=(2,))
        tau = np.clip(K * (q_d - q) - D * v + robot.gravity(q), -most, most)
        np.testing.assert_allclose(found, tau, atol=1e-14)


@TYPES
@pytest.mark.parametrize("name", ["double_pendulum", "revolute_hopper"])
@pytest.mark.many
def test_every_function_of_the_table_is_exported_without_a_warning(name, dtype, tmp_path):
    robot = lb.load(name)
    known = kernels_of(type(robot))
    names = [key for key, (algorithm, _) in known.items() if algorithm.is_complete and can_be(robot, key)]
    assert len(names) > 30
    done = self_test(robot.export_c(tmp_path, names, dtype=dtype), tmp_path, "-O0")
    assert done.returncode == 0, done.stdout


def every_operation(x, y):
    """One result for each operation of the graph that has a rule in C."""
    a, b = x
    condition = (a < b) & ~(a <= 0.5) | (b == a)
    angles = [scalars.sin(a), scalars.cos(a), scalars.tan(a), scalars.arctan2(a, b), scalars.hypot(a, b)]
    angles += [scalars.arcsin(a), scalars.arccos(a)]
    growth = [scalars.exp(a), scalars.log(b), sqrt(b), scalars.sinh(a), scalars.cosh(a), scalars.tanh(b)]
    choices = [scalars.where(condition, a, b), minimum(a, b), maximum(a, 2.0), scalars.sign(a)]
    choices += [scalars.absolute(b), scalars.floor(a), scalars.interp(y, [0.0, 1.0, 2.5], [1.0, 2.0, 4.0])]
    return {"all": np.stack([*angles, *growth, *choices, a + b, a - b, a * b, a / b, -a])}


@TYPES
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_operation_is_exported_without_a_warning(compiler, dtype, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    function = trace(every_operation, {"x": 2, "y": ()}, "every")
    assert set(OPERATIONS) == set(function.operations)
    loops = lb.models.planar_chain(60).kernel("inverse_dynamics")
    paths = lb.export_c(tmp_path, "every", [function, loops, cut_selection()], dtype=dtype)
    assert re.search(r" \? 1\.0f? : 0\.0f?;\n", paths[0].read_text())  # a condition in the work array
    done = run_self_test([compiler, *STRICT, "-O1"], [], paths, tmp_path)
    assert done.returncode == 0 and "9 comparisons" in done.stdout, done.stdout


def cut_selection():
    """A function of several pieces in C, where a condition of the first piece is read in the last."""

    def selected(x):
        condition = x[0] < x[1]
        y = x
        for _ in range(PIECE // 4):
            y = np.stack([y[0] * y[1] + x[0], y[1] - 0.1 * y[0]]) / 2
        return {"y": scalars.where(condition, y[0], y[1])}

    return trace(selected, {"x": 2}, "selected")


def can_be(robot, name):
    """Whether this robot has the function: an arm has no external motion."""
    try:
        return robot.kernel(name).function is not None
    except lb.LiebodyError:
        return False


@pytest.mark.wide
def test_loops_with_runs_of_like_places_are_exported(tmp_path):
    import misra  # which takes its functions from here

    paths = misra.star().export_c(tmp_path, ["inverse_dynamics", "forward_dynamics"])
    assert "int run = 0;" in paths[0].read_text()
    done = self_test(paths, tmp_path)
    assert done.returncode == 0, done.stdout


@TYPES
@pytest.mark.many
def test_programs_with_loops_are_exported_as_such(dtype, tmp_path):
    robot = lb.models.planar_chain(80)
    assert isinstance(robot.kernel("inverse_dynamics").function, Program)
    done = self_test(robot.export_c(tmp_path, ["inverse_dynamics", "mass_matrix"], dtype=dtype), tmp_path)
    assert done.returncode == 0, done.stdout


def test_floats_are_floats_throughout(tmp_path):
    text = pendulum().export_c(tmp_path, ["forward_dynamics", "poses"], dtype=np.float32)[0].read_text()
    assert "float *q" in text and "sinf(" in text
    assert not re.search(r"double |\bsin\(|\bcos\(|\d\.\d+(e-?\d+)?(?![\df])", text)


@TYPES
def test_the_self_test_can_fail(dtype, tmp_path):
    paths = pendulum().export_c(tmp_path, ["gravity"], dtype=dtype)
    text = paths[0].read_text()
    assert "9.81" in text
    paths[0].write_text(text.replace("9.81", "9.8103"))
    done = self_test(paths, tmp_path)
    assert done.returncode == 1 and "expected" in done.stdout


def test_results_that_are_not_numbers_are_compared(tmp_path):
    def beyond(x):
        return {"root": sqrt(-1 - x * x), "huge": exp(800 + x * x), "other": -exp(800 + x * x)}

    paths = lb.export_c(tmp_path, "not numbers", [trace(beyond, {"x": 3}, "beyond")])
    assert "NAN" in paths[2].read_text()
    assert self_test(paths, tmp_path).returncode == 0
    paths[0].write_text(paths[0].read_text().replace("sqrt(", "fabs("))
    assert self_test(paths, tmp_path).returncode == 1


HOSTILE = "arm */ int x; /* \\ ??/ \u00e9 #error \\"  # line ends are refused before


def test_names_of_a_description_stay_in_comments(tmp_path):
    tree = lb.TreeBuilder(HOSTILE)
    joint = lb.Joint(f"{HOSTILE} joint", lb.groups.Revolute([0, 0, 1]))
    tree.add(f"{HOSTILE} body", joint, lb.SpatialInertia.box(1.0, [1, 2, 3]))
    tree.frame(f"{HOSTILE} frame", f"{HOSTILE} body", np.eye(4))
    robot = lb.Robot(tree.build())
    paths = robot.export_c(tmp_path, ["mass_matrix", ("pose", {"frame": f"{HOSTILE} frame"})])
    done = self_test(paths, tmp_path, "-O0", "-trigraphs")
    assert done.returncode == 0, done.stdout


def test_functions_whose_names_become_equal_in_c_are_told_apart(tmp_path):
    first = trace(lambda x, X: {"y": x + X, "Y": x - X}, {"x": 2, "X": 2}, "f")
    second = trace(lambda x: 2 * x, {"x": 3}, "f")
    paths = lb.export_c(tmp_path, "twice", [first, second, ("f 2", second), ("lgamma_r", second)])
    header = paths[1].read_text()
    names = re.findall(r"^void (\w+)\(", header, re.MULTILINE)
    macros = re.findall(r"^#define (\w+) ", header, re.MULTILINE)
    assert len(set(names)) == 4 and len(set(macros)) == len(macros)
    assert self_test(paths, tmp_path).returncode == 0


def test_the_prefix_may_make_a_name_that_c_has(tmp_path):
    paths = lb.export_c(tmp_path, "lgamma", [trace(lambda x: 2 * x, {"x": 3}, "r")])
    assert self_test(paths, tmp_path).returncode == 0


def test_the_header_says_what_the_functions_take_and_give(tmp_path):
    robot = lb.load("revolute_hopper", gravity=(0, 0, -1.62))
    header = robot.export_c(tmp_path, [("pose", {"frame": "foot"})])[1].read_text()
    for words in (
        "free fall (0, 0, -1.62) m/s2",
        "q[0]  base.angle [rad]",
        "v[3]  knee [rad/s]",
        "base, shank",
        "Frame foot on shank",
        "frame = 'foot'",
        "#define REVOLUTE_HOPPER_NQ 4",
        "#define REVOLUTE_HOPPER_POSE_FOOT_POSE_OUT_SIZE 16",
        "must not overlap",
        "re-entrant",
        f'LIEBODY "{lb.__version__}"',
    ):
        assert words in header


COUNTED = (
    r"^   (\d+) operations(.*)\n"
    r"   bytes: stack (\d+) \(unoptimised (\d+)\), code (\d+)(?:, tables (\d+))? \*/$"
)


def counted(header):
    """(operations, their kinds, stack, unoptimised, code, tables) as a header states them, by function."""
    names = re.findall(r"^void (\w+)\(", header, re.MULTILINE)
    rows = re.findall(COUNTED, header, re.MULTILINE)
    return {
        name: (int(n), kinds, *(int(x or 0) for x in numbers))
        for name, (n, kinds, *numbers) in zip(names, rows, strict=True)
    }


def test_headers_state_operations_and_bytes(tmp_path):
    """y = sin(x0) x1 + 2 x1: of three values before the sum two are needed at once, the products."""
    one = trace(lambda x: scalars.sin(x[0]) * x[1] + 2 * x[1], {"x": 2}, "one")
    none = trace(lambda x: x[0], {"x": 2}, "none")
    table = trace(lambda x: scalars.interp(x, [0.0, 1.0, 2.5], [1.0, 2.0, 4.0]), {"x": ()}, "table")
    for dtype, size in ((np.float64, 8), (np.float32, 4)):
        header = lb.export_c(tmp_path, "f", [one, none, table], dtype=dtype)[1].read_text()
        found = counted(header)
        kinds = ": multiply 2, add or subtract 1, sine or cosine 1"
        assert found["f_one"] == (4, kinds, 2 * size, 4 * size, 7 * 5, 0)  # a result is a statement, too
        assert found["f_none"] == (0, "", 0, 0, 7, 0)
        assert "compare or select" in found["f_table"][1]
        assert found["f_table"][-1] >= 6 * size


def test_work_arrays_and_the_deepest_call_are_counted():
    text = """
static const double f_table0[] = {1.0, 2.0, 3.0};
static const int f_table1[] = {1, 2};
static void f_0(const double *x, double *w)
{
    const double t1 = x[0] * x[1];
    const double t2 = t1 * x[1];
    const double t3 = t2 * f_table0[f_table1[0]];
    w[0] = t3;
}

static void f_1(const double *x, double *y, const double *w)
{
    double a0[5];
    a0[4] = w[0];
    y[0] = a0[4];
}

void f(const double *x, double *y)
{
    double w[30];
    f_0(x, w);
    f_1(x, y, w);
}
"""
    whole, part = memory_of(text, DOUBLE, "f", "f_0")
    assert whole == (8 * 35, 8 * 35, 7 * 6, 3 * 8 + 2 * 4)
    assert part[:2] == (8 * 1, 8 * 3)


M7 = "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-d16 -mfloat-abi=hard".split()
REORDERED = ("planar_chain_kinetic_energy",)  # GCC computes the 80 angles first, and keeps them
BUILDS = {  # compiler, and (least, most) bytes of code as multiples of what the header states, by type
    "gcc": (["gcc"], {}),
    "cortex-m4": ([ARM, *MICROCONTROLLER], {np.float32: (0.6, 1.2), np.float64: (1.2, 2.6)}),
    "cortex-m7": ([ARM, *M7], {np.float32: (0.6, 1.2), np.float64: (0.6, 1.2)}),
}


@pytest.mark.slow
@TYPES
@pytest.mark.parametrize("build_of", BUILDS)
def test_compiled_functions_take_the_stack_and_code_that_headers_state(build_of, dtype, tmp_path):
    """The second number is a bound, and the first, where it is large, half to twice of what is taken."""
    command, code = BUILDS[build_of]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    keys = ["forward_dynamics", "kinetic_energy", "bias_base_motion", "forward_dynamics_derivatives"]
    robots = {"arm": (lb.load("puma560"), keys), "chain": (lb.models.planar_chain(80), keys[:2])}
    for name, (robot, functions) in robots.items():
        source, header, *_ = robot.export_c(tmp_path / name, functions, dtype=dtype)
        stated = counted(header.read_text())
        for level in ("-O0", "-O1", "-O2", "-Os"):
            options = ["-std=c99", level, "-fstack-usage", "-c", "-o", "exported.o", source.name]
            subprocess.run([*command, *options], cwd=source.parent, check=True)
            lines = (source.parent / "exported.su").read_text().splitlines()
            frames = {x.split("\t")[0].split(":")[-1]: int(x.split("\t")[1]) for x in lines}
            for key, (_, _, stack, unoptimised, *_) in stated.items():
                parts = [frames[x] for x in frames if re.match(rf"{key}_\d", x)]
                taken = frames[key] + max(parts, default=0)
                assert taken <= unoptimised + 512, (key, level)
                assert taken >= stack / 2 or stack < 500, (key, level)
                if level != "-O0" and key not in REORDERED:
                    assert taken <= 2 * stack + 256, (key, level)
            if level == "-O2" and code:
                nm = [f"{ARM.removesuffix('gcc')}nm", "-S", "exported.o"]
                done = subprocess.run(nm, cwd=source.parent, capture_output=True, text=True, check=True)
                sizes = [
                    (x.split()[3], int(x.split()[1], 16))
                    for x in done.stdout.splitlines()
                    if "T" in x.upper()
                ]
                total = sum(size for symbol, size in sizes if "table" not in symbol)
                least, most = code[dtype]
                assert least < total / sum(row[4] for row in stated.values()) < most


PAGE = (Path(__file__).parents[1] / "docs" / "c.md").read_text()
A_STATE = np.random.default_rng(5).normal(size=(3, 6))  # q, v, tau of the arm
CPP_MAIN = """
#include <cstdio>
int main() {
    const puma560::Vector q{Q}, v{V}, tau{TAU};
    for (double x : puma560::forward_dynamics(q, v, tau)) std::printf("%.17g\\n", x);
}
"""
RUST_MAIN = """
fn main() {
    for x in puma560::forward_dynamics(&[Q], &[V], &[TAU]) { println!("{:e}", x); }
}
"""
WRAPPERS = {  # the main program, and the command that links it with the exported functions
    "cpp": (CPP_MAIN, "g++ -std=c++11 -Wall -Wextra -Werror -pedantic main.cpp puma560.o -o main".split()),
    "rust": (RUST_MAIN, "rustc -D warnings main.rust -C link-arg=puma560.o -o main".split()),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", WRAPPERS)
def test_wrappers_of_the_page_call_the_exported_functions(language, tmp_path):
    main, command = WRAPPERS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (wrapper,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for word, values in zip(("Q", "V", "TAU"), A_STATE, strict=True):
        main = re.sub(rf"\b{word}\b", ", ".join(map(repr, values.tolist())), main)
    robot = lb.load("puma560")
    robot.export_c(tmp_path, ["forward_dynamics"])
    (tmp_path / f"main.{language}").write_text(wrapper + main)
    compiler = [*build.find_compiler().command, *STRICT, "-O1", "-c", "puma560.c"]
    for step in (compiler, command):
        done = subprocess.run(step, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    found = np.array(done.stdout.split(), float)
    np.testing.assert_allclose(found, robot.forward_dynamics(*A_STATE), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not installed")
def test_cppcheck_finds_the_deviations_from_misra_that_the_page_states_and_no_others(tmp_path):
    import misra  # which takes its functions from here

    stated = re.findall(r"^\| ([\d.]+) \((?:advisory|required)\) \|", PAGE, re.MULTILINE)
    found = [x for source in misra.exported(tmp_path) for x in misra.findings(source)]
    assert list(misra.by_rule(found)) == stated


def test_the_hash_is_that_of_what_is_computed(tmp_path):
    def code(**options):
        header = lb.load("double_pendulum", **options).export_c(tmp_path, ["gravity"])[1].read_text()
        return re.search(r'_HASH "(\w+)"', header)[1]

    assert code() == code() != code(gravity=(0, 0, -1.62))


def test_a_type_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(lb.LiebodyError, match=r"int32.*float64 or float32"):
        pendulum().export_c(tmp_path, ["gravity"], dtype=np.int32)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        (3, "functions is 3, expected"),
        ([3], "'': 3 cannot be exported; give kernels, functions or programs"),
        ({1: trace(lambda x: x, {"x": 1}, "f")}, "1: .* cannot be exported; .* a name for each"),
        ([("f", "gravity")], "'f': 'gravity' cannot be exported"),
    ],
)
def test_what_is_no_function_is_not_exported(functions, words, tmp_path):
    with pytest.raises(lb.LiebodyError, match=words):
        lb.export_c(tmp_path, "f", functions)
    with pytest.raises(lb.LiebodyError, match="float64 or float32, not in 'decimal'"):
        lb.export_c(tmp_path, "f", [], dtype="decimal")


def test_headers_explain_what_a_function_takes_and_nothing_else(tmp_path):
    robot = lb.load(
        "revolute_hopper"
    )  # on a free base, where wrenches and motions of what it stands on may be
    names = [key for key, (algorithm, _) in kernels_of(type(robot)).items() if algorithm.is_complete]
    names = [key for key in names if can_be(robot, key)]
    header = robot.export_c(tmp_path, names)[1].read_text()
    told = 0
    for key in names:
        algorithm, given = kernels_of(type(robot))[key]
        (text,) = re.findall(rf"^/\* {key}\n.*?\*/", header, re.MULTILINE | re.DOTALL)
        for name in algorithm.optional:
            left_out = re.search(rf"^   without .*\b{name}\b", text, re.MULTILINE)
            assert bool(left_out) == (name not in given), text
            if name not in given:
                assert not re.search(rf"^   {name}  ", text, re.MULTILINE), text
                told += 1
    assert told > 10


CMAKE = pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
FIRMWARE = """
cmake_minimum_required(VERSION 3.10)
project(firmware C)
ADDED
add_library(controller controller.c)
target_link_libraries(controller PRIVATE LIBRARIES)
"""
CONTROLLER = """
#include "double_pendulum.h"
#include "filter.h"
void control(const double *q, double *tau) { double x; double_pendulum_gravity(q, tau); filter_f(q, &x); }
"""


def cmake(folder, *commands):
    for command in commands:
        done = subprocess.run(["cmake", *command.split()], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def exports(folder):
    """Two exports, one beside the other, as they lie in a firmware."""
    pendulum().export_c(folder / "double_pendulum", ["gravity", "forward_dynamics"])
    lb.export_c(folder / "filter", "filter", [trace(lambda x: x[0] + x[1], {"x": 2}, "f")])
    return "double_pendulum", "filter"


@pytest.mark.slow
@CMAKE
def test_cmake_builds_library_and_test(tmp_path):
    pendulum().export_c(tmp_path, ["gravity", "forward_dynamics"])
    cmake(tmp_path, "-S . -B build", "--build build")
    command = ["ctest", "--test-dir", "build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "100% tests passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.wide
@CMAKE
@pytest.mark.parametrize("cross", [True, False])
def test_exports_are_parts_of_a_firmware_that_builds_no_program_of_theirs(cross, tmp_path):
    names = exports(tmp_path)
    added = "\n".join(f"add_subdirectory({name})" for name in names)
    text = FIRMWARE.replace("ADDED", added).replace("LIBRARIES", " ".join(f"liebody::{x}" for x in names))
    (tmp_path / "CMakeLists.txt").write_text(text)
    (tmp_path / "controller.c").write_text(CONTROLLER)
    bare = "-DCMAKE_SYSTEM_NAME=Generic -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY "
    bare += "-DCMAKE_EXE_LINKER_FLAGS=-nostdlib"  # programs cannot be linked, as on a microcontroller
    cmake(tmp_path, f"-S . -B build {bare if cross else ''}", "--build build")
    assert len(list(tmp_path.glob("build/**/*liebody_*.a"))) == 2
    assert not list(tmp_path.glob("build/**/*_test*"))
    text = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert not re.search(r"^CMAKE_BUILD_TYPE:.*Release", text, re.MULTILINE)  # the firmware's own choice


@pytest.mark.wide
@CMAKE
def test_exports_are_installed_and_found(tmp_path):
    names = exports(tmp_path)
    for name in names:
        cmake(
            tmp_path / name,
            "-S . -B build",
            "--build build",
            f"--install build --prefix {tmp_path / 'there'}",
        )
    firmware = tmp_path / "firmware"
    firmware.mkdir()
    found = "\n".join(f"find_package(liebody_{name} REQUIRED)" for name in names)
    text = FIRMWARE.replace("ADDED", found).replace("LIBRARIES", " ".join(f"liebody::{x}" for x in names))
    (firmware / "CMakeLists.txt").write_text(text)
    (firmware / "controller.c").write_text(CONTROLLER)
    shutil.rmtree(tmp_path / "double_pendulum")  # what was installed needs nothing else
    cmake(firmware, f"-S . -B build -DCMAKE_PREFIX_PATH={tmp_path / 'there'}", "--build build")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(ARM) is None, reason=f"{ARM} is not installed (gcc-arm-none-eabi)")
@pytest.mark.skipif(shutil.which("qemu-arm") is None, reason="qemu-arm is not installed (qemu-user)")
@TYPES
def test_what_is_exported_runs_on_arm(dtype, tmp_path):
    robot = lb.load("puma560")
    step = lb.stepper(robot, dt=1e-3).function()
    functions = ["forward_dynamics", ("pose", {"frame": robot.tree.bodies[-1].name}), feedback(robot), step]
    paths = robot.export_c(tmp_path, functions, dtype=dtype)
    small = [ARM, *STRICT, *MICROCONTROLLER, "-O2", "-c", "-o", tmp_path / "small.o", paths[0]]
    done = subprocess.run(small, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    command = [ARM, *STRICT, *EMULATED, "-O2"]
    done = run_self_test(command, ["qemu-arm", "-cpu", "cortex-a9"], paths, tmp_path)
    assert done.returncode == 0 and "12 comparisons" in done.stdout, done.stdout + done.stderr
    paths[0].write_text(paths[0].read_text().replace("9.81", "9.82"))
    done = run_self_test(command, ["qemu-arm", "-cpu", "cortex-a9"], paths, tmp_path)
    assert done.returncode == 1 and "expected" in done.stdout
