"""Controllers as one C file: the calls of the exported text are those of Python."""

import copy
import ctypes
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_c_export import STRICT, run_self_test, self_test

import liebody as lb
from liebody.base.errors import IntegrationError, ModelError
from liebody.compiler.native import build
from liebody.scalars import Table
from liebody.stepping import STATUSES

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")

NUMBERS = ("cost", "gap", "violation", "gradient", "penalty")
COUNTS = ("status", "iterations", "linearisations")
BEGIN = np.array([0.5, 0.1])
AARCH64 = ("aarch64-linux-gnu-gcc", "qemu-aarch64")  # Debian: gcc-aarch64-linux-gnu, qemu-user
CORTEX_M7 = ("arm-none-eabi-gcc", "qemu-system-arm")  # gcc-arm-none-eabi, libnewlib-arm-none-eabi
MAIN = """
#include "swing.h"
#include <stdio.h>
static swing_mpc_memory memory;
int main(void)
{
    double q[2] = {0.5, 0.1}, v[2] = {0.0, 0.0}, goal[2] = {2.5, 0.2}, u[2];
    swing_mpc_result result;
    swing_mpc_reset(&memory);
    for (int k = 0; k < 20; k++) {
        swing_mpc(&memory, q, v, goal, 0, u, &result);
        printf("%.17g %.17g %.17g %d %d\\n", u[0], u[1], result.cost, result.status, result.linearisations);
        for (int i = 0; i < 2; i++) {
            q[i] = memory.x[4 + i];
            v[i] = memory.x[6 + i] + 1e-4 * (k % 3 - 1);
        }
    }
    return 0;
}
"""


def needs(tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} not installed")


def problem(goal=(2.5, 0.2), speed=1.5, effort=0.3, **options):
    """A double pendulum that swings to a goal, with bounds of inputs, speeds, and a plane for its tip."""
    robot = lb.models.double_pendulum()

    def stage(q, v, u, p):
        return np.concatenate([q - p.goal, 0.1 * v, effort * u])

    def height(q, *others):
        return np.cos(q[0]) + np.cos(q[0] + q[1])

    def rates(q, v, *others):
        return v

    defaults = {
        "dt": 0.02,
        "terminal": lambda q, v, p: np.concatenate([3 * (q - p.goal), v]),
        "limits": 15.0,
        "parameters": {"goal": list(goal)},
        "stage_constraints": [(rates, -speed, speed), (height, -1.9, 1.95)],
        "terminal_constraints": [(height, 1.2, 3.0)],
    }
    return lb.optimal_control(robot, stage=stage, **(defaults | options))


class Exported:
    """A controller in C with memory of its own, of any contents; behind its end nothing may be written."""

    def __init__(self, paths, folder, inputs, own, single=False):
        compiler = build.find_compiler().command
        name, header = paths[0].stem, paths[1].read_text()
        library = folder / f"{name}.so"
        subprocess.run(
            [*compiler, *STRICT, "-O1", "-fPIC", "-shared", "-o", library, paths[0], "-lm"], check=True
        )
        functions = ctypes.CDLL(str(library))
        self.real, self.c_real = (np.float32, ctypes.c_float) if single else (np.float64, ctypes.c_double)
        fields = [(key, ctypes.c_int) for key in COUNTS] + [(key, self.c_real) for key in NUMBERS]
        self.kind = type("Result", (ctypes.Structure,), {"_fields_": fields})
        self.size = int(re.search(r"bytes: memory (\d+)", header)[1])
        self.call, self.inputs, self.own = getattr(functions, f"{name}_mpc"), inputs, own
        self.forget = getattr(functions, f"{name}_mpc_reset")
        self.reset()

    def reset(self):
        self.memory = np.full(self.size + 8, 255, np.uint8)
        self.forget(self.pointer(self.memory))

    @staticmethod
    def pointer(x):
        return ctypes.c_void_p(x.ctypes.data)

    def __call__(self, q, v, p=None, apart=0):
        u, result = np.full(self.inputs, np.nan, self.real), self.kind()
        arrays = [np.ascontiguousarray(x, self.real) for x in (q, v, *([p] if self.own else []))]
        apart = [ctypes.c_int(apart)] if self.own else []
        passed = [self.pointer(x) for x in (self.memory, *arrays)]
        status = self.call(*passed, *apart, self.pointer(u), ctypes.byref(result))
        assert status == result.status and (self.memory[self.size :] == 255).all()
        return u, result


def exported(controller, folder, **options):
    paths = controller.export_c(folder, BEGIN, np.zeros(2), name="swing", **options)
    single = options.get("dtype") == np.float32
    return paths, Exported(paths, folder, controller.problem.nu, controller.problem.layout.size, single)


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    """A controller of two steps a call, its files, and the same in C."""
    controller = problem().mpc(20, iterations=2)
    return controller, *exported(controller, tmp_path_factory.mktemp("swing"))


def loop(controller, ours, calls=20, parameters=None, noise=1e-4, beside=1e-10):
    """A closed loop near the plans; the differences of inputs and costs, all plans, and the controller."""
    follower = copy.copy(controller)
    follower.reset()
    rng = np.random.default_rng(1)
    group = controller.problem.mechanism.group
    p = controller.problem.layout.values(parameters or {}, ())
    q, v = BEGIN, np.zeros(2)
    differences, plans = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(calls):
            inputs = follower(q, v, parameters)
            plan = follower.plan
            u, result = ours(q, v, p)
            assert result.status == [*STATUSES].index(plan.status)
            assert (result.iterations, result.linearisations) == (plan.iterations, len(plan.history))
            differences.append(np.abs(u - inputs).max() / np.abs(inputs).max())
            differences.append(abs(result.cost / plan.cost - 1))
            # both are what is left of the search, a hundredth of the state
            assert abs(result.violation - plan.violation) + abs(result.gap - plan.gap) < beside
            plans.append(plan)
            q = group.integrate(plan.q[1], noise * rng.standard_normal(2))
            v = plan.v[1] + 10 * noise * rng.standard_normal(2)
    return np.array(differences), plans, follower


def changes_by_last_digits(controller, plans):
    """What the last digits of the states change of inputs along the same motion."""
    follower = copy.copy(controller)
    follower.reset()
    rng = np.random.default_rng(2)
    changes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for plan in plans:
            near = (np.nextafter(x, x + rng.choice([-1.0, 1.0], x.shape)) for x in (plan.q[0], plan.v[0]))
            changes.append(np.abs(follower(*near) - plan.u[0]).max() / np.abs(plan.u[0]).max())
    return np.array(changes)


def test_twenty_calls_of_the_c_file_are_those_of_python(swing, tmp_path):
    """With active constraints; the first call searches from inputs of zero, later ones make two steps.

    Numbers are equal to 1e-12, except where the last digits of the state change as much.
    """
    controller, paths, ours = swing
    ours.reset()
    assert [x.name for x in paths] == ["swing.c", "swing.h", "swing_test.c", "CMakeLists.txt"]
    done = self_test(paths, tmp_path, "-O2")
    assert done.returncode == 0 and "10 comparisons" in done.stdout, done.stdout
    differences, plans, _ = loop(controller, ours)
    assert sum(np.abs(plan.multipliers.stage).max() > 0.1 for plan in plans) > 4
    assert max(len(plan.history) for plan in plans[1:]) == 2
    assert np.median(differences) < 1e-13
    assert differences.max() < max(1e-12, 10 * changes_by_last_digits(controller, plans).max())


def test_searches_that_take_what_they_need_and_bounds_of_inputs_are_those_of_python(tmp_path):
    """Penalties of 1e6 amplify round-off: the bound is 1e-8 here; all decisions are the same."""
    controller = problem(limits=5.0).mpc(20)
    _, ours = exported(controller, tmp_path)
    differences, plans, follower = loop(controller, ours, 5, beside=1e-7)
    assert np.abs(plans[0].u).max() == 5.0
    assert differences.max() < 1e-8
    # a goal for each knot that jumps, so that the call has to search anew
    names = {"goal": np.linspace([2.5, 0.2], [0.5, 0.5], 21)}
    q, v = plans[-1].q[1], plans[-1].v[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = follower(q, v, names)
    u, result = ours(q, v, names["goal"], apart=2)
    assert len(follower.plan.history) == result.linearisations > 4
    np.testing.assert_allclose(u, inputs, atol=1e-7)


@pytest.mark.parametrize("hessian", ["gauss-newton", "exact"])
@pytest.mark.wide
def test_slack_and_problems_without_constraints_and_parameters_are_exported(hessian, tmp_path):
    robot = lb.models.double_pendulum()

    def stage(q, v, u):
        return np.concatenate([q - [2.5, 0.2], 0.1 * v, 0.3 * u])

    options = {"dt": 0.02, "stage": stage, "hessian": hessian}
    free = lb.optimal_control(robot, **options)
    soft = lb.optimal_control(robot, stage_constraints=[(lambda q, v, u: v, -0.3, 0.3, 0.05)], **options)
    for name, case in (("free", free), ("soft", soft)):
        controller = case.mpc(10, iterations=3)
        paths, ours = exported(controller, tmp_path / name)
        assert self_test(paths, tmp_path / name).returncode == 0
        differences, plans, _ = loop(controller, ours, 8)
        assert differences.max() < 1e-9
    assert plans[-1].violations[0].amount > 1e-3 and plans[-1].violation == 0


def test_states_that_are_no_numbers_leave_inputs_of_the_last_plan_and_a_status(swing):
    *_, ours = swing
    ours.reset()
    goal = np.array([2.5, 0.2])
    failed = [*STATUSES].index("failed")
    u, result = ours([np.nan, 0.0], np.zeros(2), goal)
    assert result.status == failed and (u == 0).all()
    u, result = ours(BEGIN, np.zeros(2), goal)  # it begins anew
    assert result.status == 0 and result.linearisations > 2
    after, result = ours(BEGIN, [0.0, np.inf], goal)
    assert result.status == failed and np.isfinite(after).all() and np.abs(after - u).max() < 3
    u, result = ours(BEGIN, np.zeros(2), goal)
    assert result.status != failed and np.isfinite(u).all()


def test_calls_at_a_held_state_keep_improving_one_plan(swing):
    """It is not moved on: two steps a call converge and stay, in Python and in C."""
    controller, _, ours = swing
    ours.reset()
    follower = copy.copy(controller)
    follower.reset()
    goal = np.array([2.5, 0.2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(30):
            inputs = follower(BEGIN, np.zeros(2))
            u, result = ours(BEGIN, np.zeros(2), goal)
            np.testing.assert_allclose(u, inputs, atol=1e-6)  # the tolerance of the search
    assert result.status == 0
    best = controller.problem.solve(BEGIN, knots=20, tolerance=1e-12)
    assert follower.plan.converged and follower.plan.violation < 1e-6
    np.testing.assert_allclose(inputs, best.u[0], atol=1e-4)
    assert follower.plan.cost <= best.cost * (1 + 1e-6)
    # a state that has moved by a third of the way counts as held, two thirds as the next knot
    plan = follower.plan
    knots = [np.concatenate([plan.q[k], plan.v[k]]) for k in (0, 1)]
    shifts = [controller.problem.elapsed(*knots, knots[0] + x * (knots[1] - knots[0])) for x in (0.3, 0.7)]
    assert shifts == [0, 1]


def test_a_first_plan_is_found_where_inputs_of_zero_lead_nowhere(tmp_path):
    """The Euler step is unstable at such speeds: angles overflow. The search begins with states that stay."""
    fast = problem(dt=0.05, method="semi-implicit-euler", limits=200.0, stage_constraints=[],
                   terminal_constraints=[])  # fmt: skip
    v = np.array([18.0, -18.0])
    with pytest.raises(IntegrationError, match="inputs u lead to a motion that is not finite"):
        fast.solve(BEGIN, v, knots=20, u=np.zeros(2))
    plan = fast.solve(BEGIN, v, knots=20, tolerance=1e-6)
    assert plan.converged and plan.gap == 0 and np.abs(plan.v).max() < 30
    held = fast.solve(BEGIN, v, knots=20, q=BEGIN, v=v, tolerance=1e-6)  # the same, by guesses of states
    np.testing.assert_array_equal(plan.u, held.u)
    controller = fast.mpc(20)
    _, ours = exported(controller, tmp_path)
    u, result = ours(BEGIN, v, np.array([2.5, 0.2]))
    assert result.status == 0
    np.testing.assert_allclose(u, plan.u[0], rtol=1e-6)


def test_the_memory_holds_all_that_a_controller_knows(swing):
    """A copy of it goes on as the original; another motion has another one."""
    *_, ours = swing
    ours.reset()
    goal = np.array([2.5, 0.2])
    ours(BEGIN, np.zeros(2), goal)
    kept = ours.memory.copy()
    u, _ = ours(BEGIN, np.array([0.1, 0.0]), goal)
    ours(BEGIN + 1, np.zeros(2), goal)
    ours.memory = kept
    again, _ = ours(BEGIN, np.array([0.1, 0.0]), goal)
    assert (again == u).all()


@pytest.mark.wide
def test_the_header_states_bounds_and_bytes(tmp_path):
    controller = problem().mpc(20, iterations=2, first_iterations=50)
    paths, ours = exported(controller, tmp_path)
    header = paths[1].read_text()
    assert "Linearisations: at most 200 in the first call, 2 in later ones." in header
    assert "goal: from 0" in header and "#define SWING_MPC_KNOTS 20" in header
    program = tmp_path / "size.c"
    program.write_text(
        '#include "swing.h"\n#include <stdio.h>\n'
        'int main(void) { printf("%d", (int)sizeof(swing_mpc_memory)); return 0; }\n'
    )
    command = build.find_compiler().command
    subprocess.run([*command, *STRICT, "-o", tmp_path / "size", program], check=True)
    done = subprocess.run([tmp_path / "size"], capture_output=True, text=True, check=True)
    assert int(done.stdout) == ours.size
    assert "malloc" not in paths[0].read_text() and "static " in paths[0].read_text()
    frames = ["-fstack-usage", "-O2", "-c", "-o", tmp_path / "swing.o", paths[0]]
    subprocess.run([*command, *STRICT, *frames], check=True)
    lines = (tmp_path / "swing.su").read_text().splitlines()
    functions = dict(x.split(":")[-1].split("\t")[:2] for x in lines)
    # the deepest call: control, an iteration, the models of knots; a part of it may be inlined
    calls = ["swing_mpc", "control", "improve", "iterate_and_count", "iterate", "run_knot", "knot_model"]
    deepest = sum(int(functions.get(x, 0)) for x in calls)
    stated = int(re.search(r"stack (\d+)", header)[1])
    assert stated / 2 <= deepest <= 2 * stated + 256


@pytest.mark.wide
def test_floats_are_compared_with_doubles_when_they_are_exported(tmp_path):
    controller = problem(speed=4.0, effort=0.1, terminal_constraints=[]).mpc(20, iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lb.io.InaccurateFloats)
        paths, ours = exported(controller, tmp_path, dtype=np.float32)
    stated = re.search(r"doubles by up to (\S+) \((\S+) of the largest\), in 20 calls", paths[1].read_text())
    assert 0 < float(stated[2]) < 1e-3
    assert self_test(paths, tmp_path, "-O2").returncode == 0
    follower = copy.copy(controller)
    follower.reset()
    goal = np.array([2.5, 0.2], np.float32)
    begin = BEGIN.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = follower(begin.astype(float), np.zeros(2), {"goal": goal.astype(float)})
    u, _ = ours(begin, np.zeros(2), goal)
    assert 0 < np.abs(u - inputs).max() < 4 * float(stated[1])


@pytest.mark.wide
def test_floats_that_are_too_coarse_give_a_warning_and_a_short_self_test(tmp_path):
    """Penalties of 1e6 and more leave no digit of inputs in float32."""
    controller = problem(limits=5.0, speed=1.0, effort=0.01).mpc(20, iterations=2)
    with pytest.warns(
        lb.io.InaccurateFloats, match=r"inputs of swing_mpc in float32 differ from those in float64"
    ):
        paths = controller.export_c(tmp_path, BEGIN, np.zeros(2), name="swing", dtype=np.float32)
    assert self_test(paths, tmp_path).returncode == 0


@pytest.mark.slow
@needs(AARCH64)
def test_numbers_on_aarch64_are_those_of_this_machine(tmp_path):
    """Twenty calls in a loop: the same decisions, and inputs and costs to 1e-12 of the largest."""
    controller = problem().mpc(20, iterations=2)
    paths = controller.export_c(tmp_path, BEGIN, np.zeros(2), name="swing")
    done = run_self_test([AARCH64[0], *STRICT, "-O2", "-static"], [AARCH64[1]], paths, tmp_path)
    assert done.returncode == 0 and "10 comparisons" in done.stdout, done.stdout + done.stderr
    program = tmp_path / "main.c"
    program.write_text(MAIN)
    rows = []
    for command, emulator in (
        ([*build.find_compiler().command, *STRICT, "-O2"], []),
        ([AARCH64[0], *STRICT, "-O2", "-static"], [AARCH64[1]]),
    ):
        target = tmp_path / "loop"
        subprocess.run([*command, "-o", target, program, paths[0], "-lm"], check=True)
        done = subprocess.run([*emulator, target], capture_output=True, text=True, check=True)
        rows.append(np.array([line.split() for line in done.stdout.splitlines()], float))
    host, emulated = rows
    assert host.shape == (20, 5) and (host[:, 3:] == emulated[:, 3:]).all()
    assert (np.abs(host - emulated).max(axis=0) < 1e-12 * np.abs(host).max(axis=0).clip(1)).all()


@pytest.mark.slow
@needs(CORTEX_M7)
def test_a_call_on_a_cortex_m7_is_that_of_python_and_its_instructions_are_counted(tmp_path):
    """The program on the board compares inputs with those of Python; `measured` raises if they differ."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    import microcontroller

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solver = microcontroller.predictive(tmp_path, knots=8)
    instructions, stack, code = microcontroller.solver_on_board(tmp_path, "mpc", solver)
    stated = re.search(r"stack (\d+), code (\d+), tables (\d+)", solver.files[1].read_text())
    assert 1e5 < instructions < 1e7
    assert int(stated[1]) / 2 < stack < 2 * int(stated[1]) + 256
    assert 0.6 < code / (int(stated[2]) + int(stated[3])) < 1.7
    # the comparison can fail
    solver.files[0].write_text(solver.files[0].read_text().replace("9.81", "9.82"))
    with pytest.raises(RuntimeError, match="qemu-system-arm ends with 1"):
        microcontroller.solver_on_board(tmp_path, "mpc", solver)


def test_what_cannot_be_exported_is_refused(tmp_path):
    table = problem(parameters={"goal": [2.5, 0.2], "shape": Table(np.zeros(4))})
    with pytest.raises(ModelError, match="parameters shape are tables"):
        table.mpc(5).export_c(tmp_path)
    with pytest.raises(lb.LiebodyError, match="dtype is int32, expected float64 or float32"):
        problem().mpc(5).export_c(tmp_path, dtype=np.int32)
