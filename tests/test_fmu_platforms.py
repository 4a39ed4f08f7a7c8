"""Libraries of FMUs for other platforms: their formats and exported functions, and runs in an emulator."""

import importlib.util
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import liebody as lb
from liebody.base.errors import CompilerError, ModelError
from liebody.cli import main
from liebody.compiler.native import cross_compiler

fmpy = pytest.importorskip("fmpy", reason="FMPy, which checks FMUs, is not installed")
from fmpy.validation import validate_fmu  # noqa: E402

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="the extra `compiler` is missing"
)
# Platform: file, format and number of the processor (ELF's e_machine, PE's Machine, Mach-O's cputype).
PLATFORMS = {
    "x86_64-linux": ("arm.so", "ELF", 62),
    "aarch64-linux": ("arm.so", "ELF", 183),
    "x86_64-darwin": ("arm.dylib", "Mach-O", 0x01000007),
    "aarch64-darwin": ("arm.dylib", "Mach-O", 0x0100000C),
    "x86_64-windows": ("arm.dll", "PE", 0x8664),
}
Q0, V0 = [0.4, -0.3], [1.0, 2.0]


def functions_of_the_standard():
    """The names of all functions of FMI 3.0, from the standard's header, which FMPy has."""
    header = Path(fmpy.__file__).parent / "c-code" / "fmi3Functions.h"
    names = set(re.findall(r"fmi3FullName\((fmi3\w+)\)", header.read_text()))
    assert len(names) > 70
    return names


# -- formats of libraries, each read by its specification ----------------------------------------------------


def read(form, data, place):
    """Numbers of the bytes of a file, least byte first."""
    return struct.unpack_from("<" + form, data, place)


def text_at(data, place):
    return data[place : data.index(b"\0", place)].decode()


def elf(data):
    """(processor, exported names): the defined global symbols of the section of type SHT_DYNSYM."""
    assert data[:6] == b"\x7fELF\x02\x01"  # 64 bits, least byte first
    (machine,), (first,) = read("H", data, 18), read("Q", data, 40)
    size, count = read("HH", data, 58)
    sections = [read("IIQQQQIIQQ", data, first + k * size) for k in range(count)]
    names = set()
    for _, kind, _, _, place, length, link, *_ in sections:
        if kind != 11:
            continue
        for at in range(place, place + length, 24):
            name, info, _, section = read("IBBH", data, at)
            if section and info >> 4 == 1:
                names.add(text_at(data, sections[link][4] + name))
    return machine, names


def portable_executable(data):
    """(processor, exported names): those of the export directory."""
    (head,) = read("I", data, 0x3C)
    assert data[:2] == b"MZ" and data[head : head + 4] == b"PE\0\0"
    machine, count = read("HH", data, head + 4)
    (optional,) = read("H", data, head + 20)
    assert read("H", data, head + 24) == (0x20B,)  # PE32+
    sections = [read("IIII", data, head + 24 + optional + 40 * k + 8) for k in range(count)]

    def place(address):
        return next(
            address - start + raw for size, start, _, raw in sections if start <= address < start + size
        )

    directory = place(*read("I", data, head + 24 + 112))
    (number,), (table,) = read("I", data, directory + 24), read("I", data, directory + 32)
    pointers = read(f"{number}I", data, place(table))
    return machine, {text_at(data, place(pointer)) for pointer in pointers}


def mach_o(data):
    """(processor, exported names): the defined external symbols of LC_SYMTAB, without their underscore."""
    magic, processor, _, kind, count = read("IIIII", data, 0)
    assert (magic, kind) == (0xFEEDFACF, 6)  # 64 bits, MH_DYLIB
    names, at = set(), 32
    for _ in range(count):
        command, size = read("II", data, at)
        if command == 2:
            symbols, number, strings = read("III", data, at + 8)
            for k in range(number):
                name, flags = read("IB", data, symbols + 16 * k)
                if flags & 0x1F == 0x0F:  # N_SECT and N_EXT, without N_PEXT
                    names.add(text_at(data, strings + name).removeprefix("_"))
        at += size
    return processor, names


OF_LINKERS = {"_mh_dylib_header", "__dso_handle"}  # which every library of macOS has
READERS = {"ELF": elf, "PE": portable_executable, "Mach-O": mach_o}


def exported(folder, **options):
    return lb.export_fmu(folder / "arm.fmu", lb.load("double_pendulum"), q0=Q0, v0=V0, dt=1e-3, **options)


def libraries(file):
    """The compiled libraries of an FMU, by their places."""
    with zipfile.ZipFile(file) as archive:
        return {x: archive.read(x) for x in archive.namelist() if x.startswith("binaries/")}


# -- tests ---------------------------------------------------------------------------------------------------


# At its first use, Zig compiles the libraries of Windows.
MARKED = [pytest.param(x, marks=pytest.mark.slow if "windows" in x else pytest.mark.wide) for x in PLATFORMS]


@needs_zig
@pytest.mark.parametrize("platform", MARKED)
def test_a_library_has_the_format_of_its_platform_and_all_functions(platform, tmp_path):
    name, form, processor = PLATFORMS[platform]
    file = exported(tmp_path, binaries=platform)
    made = libraries(file)
    assert list(made) == [f"binaries/{platform}/{name}"]
    (data,) = made.values()
    machine, names = READERS[form](data)
    assert machine == processor
    assert names - OF_LINKERS == functions_of_the_standard()
    assert validate_fmu(str(file)) == []
    assert libraries(exported(tmp_path, binaries=[platform])) == made  # the same bytes again


def test_libraries_of_several_platforms_share_an_archive(tmp_path):
    """A platform's own command takes the place of the cross-compiler."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("neither gcc nor clang of Linux is installed")
    file = exported(tmp_path, binaries={"x86_64-linux": [compiler], "x86_64-linux-old": [compiler, "-DOLD"]})
    assert list(libraries(file)) == ["binaries/x86_64-linux/arm.so", "binaries/x86_64-linux-old/arm.so"]
    for data in libraries(file).values():
        assert elf(data)[1] == functions_of_the_standard()


def test_platforms_without_a_compiler_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"no platform 'x86_64-window'.*mean 'x86_64-windows'"):
        exported(tmp_path, binaries="x86_64-window")
    with pytest.raises(ModelError, match="the command for x86_64-windows is empty"):
        exported(tmp_path, binaries={"x86_64-windows": []})
    monkeypatch.setitem(sys.modules, "ziglang", None)  # as if it were not installed
    with pytest.raises(CompilerError, match=r"x86_64-windows: .*pip install ziglang, or give the command"):
        exported(tmp_path, binaries="x86_64-windows")
    assert not (tmp_path / "arm.fmu").exists()
    assert libraries(exported(tmp_path, binaries=())) == {}


URDF = """<robot name="pendulum"><link name="base"/><link name="rod"><inertial><origin xyz="0 0 -0.5"/>
<mass value="2"/><inertia ixx="0.2" iyy="0.2" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint>
</robot>"""


def test_the_command_line_makes_an_fmu_of_a_description(tmp_path):
    source = tmp_path / "pendulum.urdf"
    source.write_text(URDF)
    command = ["export", str(source), "--to", "fmu", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    file = tmp_path / "pendulum.fmu"
    assert validate_fmu(str(file)) == []
    start = {"q.hinge": 0.7}
    found = fmpy.simulate_fmu(str(file), stop_time=0.5, output_interval=0.1, start_values=start)
    run = lb.simulate(lb.load(URDF), [0.7], t_end=0.5, dt=1e-3, record_every=0.1)
    np.testing.assert_allclose(found["q.hinge"], run.q[:, 0], atol=1e-12)
    result = CliRunner().invoke(main, [*command, "--binaries", "x86_64-beos"])
    assert result.exit_code == 2 and "no platform 'x86_64-beos'" in result.output
    result = CliRunner().invoke(main, [*command, "--to", "c", "--binaries", "x86_64-linux"])
    assert result.exit_code == 2 and "--binaries is for FMUs" in result.output


MAIN = """
#include <stdio.h>
int main(void) {
    fmi3Instance c = fmi3InstantiateCoSimulation("one", TOKEN, 0, false, false, false, false, 0, 0, 0, 0, 0);
    bool events, ends, early;
    double t = 0, x[STATES];
    if (!c || fmi3EnterInitializationMode(c, false, 0, 0, false, 0)) return 2;
    if (fmi3ExitInitializationMode(c)) return 3;
    for (int i = 0; i < 10; i++)
        if (fmi3DoStep(c, t, 0.01, true, &events, &ends, &early, &t)) return 4;
    if (fmi3GetContinuousStates(c, x, STATES)) return 5;
    for (int i = 0; i < STATES; i++) printf("%.17g\\n", x[i]);
    fmi3FreeInstance(c);
    return 0;
}
"""


@pytest.mark.slow
@needs_zig
@pytest.mark.parametrize(
    ("target", "emulator"), [("aarch64-linux-musl", "qemu-aarch64"), ("x86_64-windows-gnu", "wine")]
)
def test_the_source_computes_the_same_elsewhere(target, emulator, tmp_path, monkeypatch):
    """A program of another system makes an instance, and takes ten steps of Co-Simulation."""
    command = shutil.which(emulator) or (shutil.which("wine64") if emulator == "wine" else None)
    if command is None:
        pytest.skip(f"{emulator}, to run it, is not installed")
    monkeypatch.setenv("WINEPREFIX", str(tmp_path / "wine"))
    monkeypatch.setenv("WINEDEBUG", "-all")
    with zipfile.ZipFile(exported(tmp_path, binaries=())) as archive:
        (tmp_path / "arm.c").write_text(archive.read("sources/arm.c").decode() + MAIN)
    options = ["-std=c99", "-O2", "-ffp-contract=off", "-o", "arm.exe", "arm.c", "-lm"]
    done = subprocess.run([*cross_compiler(target), *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([command, str(tmp_path / "arm.exe")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = np.array([float(line) for line in done.stdout.split()])
    run = lb.simulate(lb.load("double_pendulum"), Q0, V0, t_end=0.1, dt=1e-3)
    np.testing.assert_allclose(found, np.concatenate([run.q[-1], run.v[-1]]), rtol=1e-12)


# A program of Windows that loads the library of an FMU, given its path and token, and takes the same steps.
LOADER = """
#include <windows.h>
#include <stdbool.h>
#include <stdio.h>
typedef void *(*Instantiate)(const char *, const char *, const char *, bool, bool, bool, bool,
                             const unsigned *, size_t, void *, void *, void *);
typedef int (*Enter)(void *, bool, double, double, bool, double);
typedef int (*Leave)(void *);
typedef int (*Step)(void *, double, double, bool, bool *, bool *, bool *, double *);
typedef int (*States)(void *, double *, size_t);
#define FUNCTION(kind, name) ((kind)(void *)GetProcAddress(library, name))
int main(int count, char **words) {
    HMODULE library = count == 3 ? LoadLibraryA(words[1]) : 0;
    bool events, ends, early;
    double t = 0, x[4];
    if (!library) return 1;
    void *c = FUNCTION(Instantiate, "fmi3InstantiateCoSimulation")("one", words[2], 0, false, false, false,
                                                                   false, 0, 0, 0, 0, 0);
    if (!c || FUNCTION(Enter, "fmi3EnterInitializationMode")(c, false, 0, 0, false, 0)) return 2;
    if (FUNCTION(Leave, "fmi3ExitInitializationMode")(c)) return 3;
    for (int i = 0; i < 10; i++)
        if (FUNCTION(Step, "fmi3DoStep")(c, t, 0.01, true, &events, &ends, &early, &t)) return 4;
    if (FUNCTION(States, "fmi3GetContinuousStates")(c, x, 4)) return 5;
    for (int i = 0; i < 4; i++) printf("%.17g\\n", x[i]);
    return 0;
}
"""


@pytest.mark.slow
@needs_zig
def test_the_library_for_windows_computes_the_same_in_wine(tmp_path, monkeypatch):
    """A program loads the library as an importer does, and takes ten steps of Co-Simulation."""
    wine = shutil.which("wine") or shutil.which("wine64")
    if wine is None:
        pytest.skip("Wine, to run it, is not installed")
    monkeypatch.setenv("WINEPREFIX", str(tmp_path / "wine"))
    monkeypatch.setenv("WINEDEBUG", "-all")
    file = exported(tmp_path, binaries="x86_64-windows")
    token = fmpy.read_model_description(str(file)).instantiationToken
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path / "arm")
    (tmp_path / "loader.c").write_text(LOADER)
    options = ["-std=c99", "-O1", "-o", "loader.exe", "loader.c"]
    command = [*cross_compiler("x86_64-windows-gnu"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = "arm/binaries/x86_64-windows/arm.dll"
    call = [wine, "loader.exe", library, token]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = np.array([float(line) for line in done.stdout.split()])
    run = lb.simulate(lb.load("double_pendulum"), Q0, V0, t_end=0.1, dt=1e-3)
    np.testing.assert_allclose(found, np.concatenate([run.q[-1], run.v[-1]]), rtol=1e-12)
