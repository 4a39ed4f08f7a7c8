"""Native functions of NVIDIA Warp: compiled by NVRTC and interpreted; run by Warp where it is installed."""

import importlib.util
import sys

import numpy as np
import pytest
from device import nvrtc, ptx

import liebody as lb
from liebody import scalars
from liebody.base.errors import GraphError, LiebodyError, ModelError
from liebody.compiler import trace
from liebody.control import QuadraticProgram

# What the text takes of Warp, in its words: arrays, and the address of an entry.
WARP = """
namespace wp {
template <typename T> struct array_t { T *data; long long strides[3]; };
template <typename T> __device__ T *address(array_t<T> &a, int i) {
    return (T *)((char *)a.data + i * a.strides[0]);
}
template <typename T> __device__ T *address(array_t<T> &a, int i, int j) { return address(a, i) + j; }
template <typename T> __device__ T *address(array_t<T> &a, int i, int j, int k) {
    return address(a, i) + j + k;
}
"""


def functions(q, K):
    below = (q[0] < q[1]) & ~(q[1] <= 0.0)
    return {
        "y": K @ np.sin(q) + scalars.where(below, scalars.minimum(q[0], q[1]), scalars.absolute(q[0])),
        "s": scalars.arctan2(q[0], q[1]) + scalars.sign(q[1]) * scalars.sqrt(scalars.maximum(q[0], 0.5)),
    }


LAW = trace(functions, {"q": 2, "K": (2, 2)}, "law")


def imported(file):
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class StandIn:
    """The names of Warp that a module uses; a native function is its snippet and its arguments."""

    float32, float64 = "float", "double"

    @staticmethod
    def array(dtype, ndim):
        return dtype, ndim

    @staticmethod
    def func_native(snippet):
        return lambda function: (snippet, function.__annotations__)


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_snippets_compile_and_compute(tmp_path, monkeypatch, dtype):
    monkeypatch.setitem(sys.modules, "warp", StandIn)
    file = lb.export_warp(tmp_path, "my laws", [LAW], dtype=dtype)
    assert file == tmp_path / "my_laws.py"
    snippet, takes = imported(file).law
    real = takes["q"][0]
    assert takes == {"i": int, "q": (real, 2), "K": (real, 3), "y": (real, 2), "s": (real, 1)}
    keys = [key for key in takes if key != "i"]
    formal = ", ".join(f"array_t<{real}> &{key}" for key in keys)
    made = "".join(f"wp::array_t<{real}> {key}_ = {{{key}, {{{key}_row}}}};" for key in keys)
    pairs = ", ".join(f"{real} *{key}, long long {key}_row" for key in keys)
    source = f"""{WARP}
__device__ void law(int i, {formal}) {{ {snippet} }}
}}
extern "C" __global__ void kernel({pairs}) {{
    {made}
    wp::law(threadIdx.x, q_, K_, y_, s_);
}}
"""
    rng = np.random.default_rng(0)
    q, K = (rng.standard_normal(shape).astype(dtype) for shape in ((6, 2), (6, 2, 2)))
    y, s = np.zeros((6, 2), dtype), np.zeros(6, dtype)
    arguments = [z for x in (q, K, y, s) for z in (x, x.strides[0])]
    ptx.launch(ptx.Program(nvrtc.ptx(source)), "kernel", 1, 6, arguments)
    for result, exact in zip((y, s), lb.compiler.Kernel(LAW)(q.astype(float), K.astype(float)), strict=True):
        np.testing.assert_allclose(result, exact, rtol=0, atol=16 * np.finfo(dtype).eps)


def test_names_are_none_of_python_and_warp(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "warp", StandIn)
    words = trace(lambda *x: sum(x), dict.fromkeys(["lambda", "is", "x0", "i", "wp"], ()), "from")
    module = imported(lb.export_warp(tmp_path, "f", {"import": words, "wp": words}))
    assert list(module.import_[1])[:6] == ["i", "lambda_", "is_", "x0_", "i_", "wp_"]
    assert module.wp is StandIn and list(module.wp_[1])[5] == "wp__"


def test_functions_of_robots_compute_in_warp(tmp_path, monkeypatch):
    wp = pytest.importorskip("warp", reason="Warp is not installed: its functions were not run")
    robot = lb.models.puma560()
    file = robot.export_warp(tmp_path, ["forward_dynamics"])
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    module = imported(file)
    arrays = wp.array(dtype=wp.float64, ndim=2)

    def all_states(q: arrays, v: arrays, tau: arrays, a: arrays):
        module.forward_dynamics(wp.tid(), q, v, tau, a)

    kernel = wp.Kernel(all_states)
    rng = np.random.default_rng(0)
    given = rng.standard_normal((3, 20, 6))
    on_cpu = [wp.array(x, dtype=wp.float64, device="cpu") for x in given]
    a = wp.zeros((20, 6), dtype=wp.float64, device="cpu")
    wp.launch(kernel, dim=20, inputs=[*on_cpu, a], device="cpu")
    exact = robot.forward_dynamics(*given)
    np.testing.assert_allclose(a.numpy(), exact, rtol=0, atol=1e-11 * np.abs(exact).max())


def test_wrong_exports_are_refused_with_a_remedy(tmp_path):
    with pytest.raises(LiebodyError, match="expected float64 or float32"):
        lb.export_warp(tmp_path, "f", [LAW], dtype=np.int32)
    with pytest.raises(ModelError, match="no function of Warp"):
        lb.export_warp(tmp_path, "f", [QuadraticProgram(2, 0, 1).kernel])
    large = trace(lambda x: x * np.ones((2, 2, 2, 2)), {"x": ()}, "large")
    with pytest.raises(GraphError, match="4 axes, and arrays of Warp have 4 with the rows"):
        lb.export_warp(tmp_path, "f", [large])
    with pytest.raises(ModelError, match=r"'Import', which is a keyword of Python.*import_functions"):
        lb.export_warp(tmp_path, "Import", [LAW])
    with pytest.raises(ModelError, match="name is 'warp', which is the name of Warp"):
        lb.export_warp(tmp_path, "warp", [LAW])
    assert list(tmp_path.iterdir()) == []
