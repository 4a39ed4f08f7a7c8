"""Two builds of nearly the same step, ANYmal without and with limits, counted in assembly for AVX-512.

    python benchmarks/two_builds.py [-march=icelake-server] [other options of gcc ...]

The steps are those of benchmarks/mujoco_steps.py over 8 lanes, compiled with the library's options, for
skylake-avx512 in place of this processor; nothing that is compiled here runs, so any x86 machine will do.
Counts are of the functions that each stage calls (field in pieces, advance, pull), without their cold parts:

bytes      of code of all functions, cold parts and the loop included
spilled    vectors stored in a function's own frame, loaded from it, and read there as operands
frames     bytes by which each piece of the field, and the field itself, lower the stack pointer
upper      instructions that name zmm16 to zmm31
aliased    loads of the field whose address equals that of one of the last 56 stores modulo 4096 but not in
           full. Places on the stack are known relative to each other, state and result are not: the least,
           median and largest of 40 random places
lines      lines of 64 bytes of the stack that the field touches
"""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

from machine import describe, unless_quick
from robots import path

import liebody as lb
from liebody.compiler.native import build

MEMORY = re.compile(r"(-?\d*)\((%r\w+)\)")
HOT = re.compile(r"(field|advance|pull)(?!.*cold)")
IN_FLIGHT = 56  # stores that Skylake keeps until they reach the cache
PLACES = unless_quick(40, 4)
OTHERS = ("state", "efforts", "result")
Address = tuple[str, int]  # what it is relative to, and the distance
Access = tuple[bool, str, int]  # whether it stores, and its address


def source(limits: bool) -> str:
    """C source of the steps over 8 lanes."""
    file, floating = path("anymal")
    robot = lb.load(file, floating=floating, mimic=False)
    joints = {"limits"} if limits else "ideal"
    lb.simulate(robot, dt=1e-3, t_end=1e-3, joints=joints, progress=False)
    (mechanism,) = robot.flows.values()
    (flow,) = mechanism.flows.values()
    return flow.source(8)


def assembly(text: str, options: list[str]) -> tuple[dict[str, list[str]], int]:
    """The instructions of each function, and the bytes of all."""
    compiler = build.find_compiler()
    assert compiler
    target = next((x for x in options if x.startswith("-march=")), "-march=skylake-avx512")
    flags = [target if x == "-march=native" else x for x in build.FLAGS]
    with tempfile.TemporaryDirectory() as folder:
        name = str(Path(folder) / "step")
        Path(f"{name}.c").write_text(text)
        command = [*compiler.command, *flags, *options]
        subprocess.run([*command, "-S", "-o", f"{name}.s", f"{name}.c"], check=True)
        subprocess.run([*compiler.command, "-c", "-o", f"{name}.o", f"{name}.s"], check=True)
        sizes = subprocess.run(["size", "-A", f"{name}.o"], capture_output=True, text=True, check=True).stdout
        lines = Path(f"{name}.s").read_text().splitlines()
    functions: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if label := re.match(r"([A-Za-z_][\w.]*):", line):
            name = label[1]
            functions[name] = []
        elif name and line.startswith("\t") and not line.startswith("\t."):
            functions[name].append(line.strip())
    return functions, sum(map(int, re.findall(r"^\.text\S*\s+(\d+)", sizes, re.M)))


def accesses(functions: dict[str, list[str]], name: str, registers: dict[str, Address]) -> list[Access]:
    """The vectors that a function without loops loads and stores, in order, and those of its pieces."""
    result: list[Access] = []
    for line in functions[name]:
        operation, _, rest = line.partition("\t")
        operands = [x.strip() for x in re.split(r",(?![^()]*\))", rest)]
        base, offset = registers["%rsp"]
        if operation == "pushq":
            registers["%rsp"] = (base, offset - 8)
        elif operation == "movq" and operands[0].startswith("%r") and operands[1].startswith("%r"):
            registers[operands[1]] = registers.get(operands[0], ("", 0))
        elif operation == "andq" and operands[1] == "%rsp":
            registers["%rsp"] = (base, offset // 64 * 64)
        elif operation == "subq" and operands[1] == "%rsp":
            registers["%rsp"] = (base, offset - int(operands[0][1:]))
        elif operation == "leaq" and (place := MEMORY.fullmatch(operands[0])):
            base, offset = registers.get(place[2], ("", 0))
            registers[operands[1]] = (base, offset + int(place[1] or 0))
        elif operation == "call" and operands[0].startswith("field_"):
            result += accesses(functions, operands[0], registers | {"%rsp": (base, offset - 8)})
        elif "%zmm" in line and (place := MEMORY.search(line)):
            base, offset = registers.get(place[2], ("", 0))
            stores = operation.startswith("vmov") and bool(MEMORY.fullmatch(operands[-1]))
            if base:
                result.append((stores, base, offset + int(place[1] or 0)))
    return result


def aliased(order: list[Access], places: dict[str, int]) -> int:
    """How many loads share the last 12 bits of their address with an earlier store to another address."""
    stores: deque[int] = deque(maxlen=IN_FLIGHT)
    count = 0
    for is_store, base, offset in order:
        address = places[base] + offset
        if is_store:
            stores.append(address)
        elif address not in stores:
            count += any((address - x) % 4096 < 64 or (x - address) % 4096 < 64 for x in stores)
    return count


def count(label: str, options: list[str], limits: bool) -> None:
    functions, size = assembly(source(limits), options)
    hot = [line for name, lines in functions.items() if HOT.match(name) for line in lines]
    own = [line for line in hot if "%zmm" in line and re.search(r"\(%r[sb]p\)", line)]
    stored = sum(bool(re.match(r"vmov\w+\s+%zmm", line)) for line in own)
    loaded = sum(bool(re.match(r"vmov\w+\s+-?\d*\(", line)) for line in own)
    upper = sum(bool(re.search(r"zmm(1[6-9]|2\d|3[01])\b", line)) for line in hot)
    frames = [
        sum(int(x) for line in lines for x in re.findall(r"^subq\t\$(\d+), %rsp", line))
        for name, lines in sorted(functions.items())
        if name.startswith("field") and HOT.match(name)
    ]
    field = next(name for name in functions if re.match(r"field(?!_)", name))
    start = {"%rsp": ("stack", -8), "%rdi": ("state", 0), "%rsi": ("efforts", 0), "%rdx": ("result", 0)}
    order = accesses(functions, field, start)
    lines = len({offset // 64 for _, base, offset in order if base == "stack"})
    rng = random.Random(0)
    counts = sorted(
        aliased(
            order, {"stack": 0} | {x: (k << 24) + 64 * rng.randrange(64) for k, x in enumerate(OTHERS, 1)}
        )
        for _ in range(PLACES)
    )
    print(
        f"{label:8s} {len(hot):12d} {size:7d}  {stored:4d}{loaded:5d}{len(own) - stored - loaded:5d}"
        f"  {upper:5d}  {counts[0]:4d}{statistics.median_low(counts):5d}{counts[-1]:5d}  {lines:5d}  {frames}"
    )


def main(options: list[str]) -> None:
    print(describe())
    print(
        f"{'':8s} {'instructions':>12s} {'bytes':>7s}  {'spilled':>14s}  {'upper':>5s}  {'aliased':>14s}",
        end="",
    )
    print("  lines  frames")
    count("ideal", options, False)
    count("limits", options, True)


if __name__ == "__main__":
    main(sys.argv[1:])
