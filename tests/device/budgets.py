"""Registers and spilled bytes of robots' kernels by architecture: the table tests/golden/registers.txt.

    cd tests && python -m device.budgets             # writes it anew
    cd tests && python -m device.budgets marches     # that of marches through time, marches.txt beside it

A test compares the kernels with it. Numbers are upper bounds; devices give out registers eight at a time, so
they are rounded up to multiples of eight.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from device import nvrtc
from found import description

import liebody as lb
from liebody.simulation.setup import flow_of, guards_of, mechanism_of, method_of
from liebody.stepping.loop import Way

TABLE = Path(__file__).parents[1] / "golden" / "registers.txt"
MARCHES = TABLE.with_name("marches.txt")
LOOPS = {"steps": False, "events": True}  # steps of one length by RKMK4, and with an event that is located
CALLS = ["inverse_dynamics", "forward_dynamics", "mass_matrix", "bias", "poses"]
FILES = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "anymal": "anymal_b_simple_description/robots/anymal.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
}
Key = tuple[str, str, str, int]  # robot, call, type of numbers, architecture


def robot(name: str) -> lb.Robot:
    return lb.load(str(description(FILES[name])), floating=name in ("anymal", "talos"))


def source(model: lb.Robot, call: str, dtype: str, layout: str = "rows") -> str:
    """The CUDA text of one call of a robot."""
    with tempfile.TemporaryDirectory() as folder:
        return model.export_cuda(folder, {call: call}, dtype=dtype, layout=layout).read_text()


def measured(
    name: str, calls: list[str], dtype: str, architecture: int
) -> Iterator[tuple[Key, nvrtc.Resources]]:
    """What ptxas says of the kernels of a robot. Raises nvrtc.CompileError where NVRTC or ptxas warn."""
    model = robot(name)
    for call in calls:
        code = nvrtc.ptx(source(model, call, dtype), architecture)
        (resources,) = nvrtc.resources(code, architecture).values()
        yield (name, call, dtype, architecture), resources


def of_march(name: str, loop: str, dtype: str, architecture: int = 90) -> nvrtc.Resources:
    """What ptxas says of a robot's simulation, with joints="ideal"."""
    mechanism = mechanism_of(robot(name), (), "ideal", 1e-3)
    flow = flow_of(mechanism, method_of("rkmk4"), None, None, False, dtype == "float32")
    if LOOPS[loop]:
        sizes = mechanism.nq + mechanism.nv, mechanism.nu
        flow = flow.watching(guards_of(mechanism, {"event": lambda t, q, v: q[0]}, *sizes))
    code = nvrtc.ptx(flow.device_source(Way(march=LOOPS[loop])), architecture)
    (resources,) = nvrtc.resources(code, architecture).values()
    return resources


def table(file: Path = TABLE) -> dict[Key, tuple[int, int]]:
    """Registers and spilled bytes by kernel."""
    rows = (line.split() for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return {(r, c, t, int(a)): (int(registers), int(spilled)) for r, c, t, a, registers, spilled in rows}


def write_marches() -> None:
    lines = ["# robot loop numbers architecture registers spilled-bytes (upper bounds; device/budgets.py)"]
    for name in ("ur5", "panda", "anymal"):
        for loop in LOOPS:
            for dtype in ("float64", "float32"):
                x = of_march(name, loop, dtype)
                registers = min(x.registers + -x.registers % 8, 255)
                lines.append(f"{name} {loop} {dtype} 90 {registers} {x.spilled}")
                print(lines[-1], f"stack {x.stack}", flush=True)
    MARCHES.write_text("\n".join(lines) + "\n")


def main() -> None:
    lines = ["# robot call numbers architecture registers spilled-bytes (upper bounds; device/budgets.py)"]
    for name in FILES:
        for dtype in ("float64", "float32"):
            for architecture in nvrtc.ARCHITECTURES:
                for key, x in measured(name, CALLS, dtype, architecture):
                    words = [*map(str, key), str(x.registers + -x.registers % 8), str(x.spilled)]
                    lines.append(" ".join(words))
                    print(lines[-1], flush=True)
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_marches() if sys.argv[1:] == ["marches"] else main()
