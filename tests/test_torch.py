"""Functions of PyTorch: kernels of CUDA devices that PyTorch differentiates.

PyTorch is no package of the tests' extras. Where it is installed, its tensors of the CPU stand in for those
of a device, and the interpreter of PTX for the driver (device/fake.py).
"""

import numpy as np
import pytest
from device import nvrtc
from device.fake import Interpreter

import liebody as lb
from liebody.base.errors import DeviceError
from liebody.compiler import trace
from liebody.compiler.native import device_arrays, device_queue

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its functions were not run")
pytestmark = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is installed")

from liebody.interop.torch import function  # noqa: E402

STREAM = 3


@pytest.fixture
def cpu(monkeypatch):
    """The interpreter as a driver that takes tensors of the CPU; they have no streams, so one is made up."""
    interpreter = Interpreter(device_type=1)
    monkeypatch.setattr(device_queue, "driver", lambda: interpreter)
    library = device_arrays.LIBRARIES["torch"]._replace(stream=lambda array: STREAM)
    monkeypatch.setitem(device_arrays.LIBRARIES, "torch", library)
    return interpreter


def law(q, v, K):
    return {"tau": np.sin(q) - K * v, "power": (K * v * v).sum()}


LAW = trace(law, {"q": 3, "v": 3, "K": 3}, "law")


def tensors(*shapes, seed=0, **options):
    rng = np.random.default_rng(seed)
    options = {"dtype": torch.float64, "requires_grad": True, **options}
    return [torch.tensor(rng.standard_normal(shape), **options) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors_go_in_and_come_back(cpu, dtype):
    q, v, K = tensors((4, 3), (4, 3), (3,), dtype=dtype)
    tau, power = function(LAW)(q, v, K)
    assert tau.dtype == power.dtype == dtype and tau.requires_grad
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(tau, torch.sin(q) - K * v, rtol=0, atol=8 * eps)
    torch.testing.assert_close(power, (K * v * v).sum(-1), rtol=0, atol=16 * eps)
    assert cpu.launches == [(0, 1, 160, STREAM)] and cpu.waits == []


def test_gradients_and_their_derivatives_are_those_of_the_formula(cpu):
    inputs = tensors((4, 3), (4, 3), (3,))  # K is shared by the batch: its gradient is the sum
    f = function(LAW)
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_only_gradients_that_are_asked_for_are_computed(cpu):
    f = function(LAW)
    q, v, K = tensors((3,), (3,), (3,), requires_grad=False)
    K.requires_grad = True
    f(q, v, K)[0].sum().backward()
    torch.testing.assert_close(K.grad, -v)
    assert q.grad is None and list(f._products) == [(2,)]


def test_gradients_of_robots_are_those_of_finite_differences(cpu):
    robot = lb.models.puma560()
    f = function(robot.kernel("forward_dynamics"))
    q, v, tau = tensors((2, 6), (2, 6), (2, 6))
    torch.testing.assert_close(
        f(q, v, tau).detach().numpy(), robot.forward_dynamics(*(x.detach().numpy() for x in (q, v, tau)))
    )
    assert torch.autograd.gradcheck(f, (q, v, tau))


def test_tensors_of_the_cpu_are_refused(monkeypatch):
    monkeypatch.setattr(device_queue, "driver", Interpreter)
    q, v, K = tensors((3,), (3,), (3,))
    with pytest.raises(DeviceError, match=r"q is a torch.Tensor in memory of the CPU"):
        function(LAW)(q, v, K)


def test_what_is_no_tensor_is_refused_by_name(cpu):
    q, v, K = tensors((3,), (3,), (3,))
    with pytest.raises(TypeError, match=r"law: v is a numpy.ndarray, expected a torch.Tensor on a CUDA"):
        function(LAW)(q, v.detach().numpy(), K)
