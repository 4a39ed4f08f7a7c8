"""Registers and spilled bytes of robots' kernels by architecture: the table tests/golden/registers.txt.

    cd tests && python -m device.budgets     # writes it anew

A test compares the kernels with it. Numbers are upper bounds; devices give out registers eight at a time, so
they are rounded up to multiples of eight.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from device import nvrtc
from found import description

import liebody as lb

TABLE = Path(__file__).parents[1] / "golden" / "registers.txt"
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


def table() -> dict[Key, tuple[int, int]]:
    """Registers and spilled bytes by kernel."""
    rows = (line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {(r, c, t, int(a)): (int(registers), int(spilled)) for r, c, t, a, registers, spilled in rows}


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
    main()
