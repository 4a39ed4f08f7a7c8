"""Write C99 source of kernels for controllers: source, header, self-test and a file for CMake."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base.arguments import checked, short
from ..base.concurrency import cached_property
from ..base.errors import ArgumentError, LiebodyError, ModelError, pass_on_signals, warn
from ..base.public import version
from ..base.texts import path_of
from ..compiler import Function, Kernel, Minimizer, Program
from ..compiler.graph.graph import FUNCTIONS
from ..compiler.native import build
from ..compiler.native.build import digest
from ..compiler.native.kernel import is_single as is_single  # public here
from ..compiler.printers.c import c99_names, constant_table, identifier, literal, number_type
from ..compiler.printers.costs import BYTES_PER_STATEMENT, memory_of
from ..compiler.printers.minimizer import minimizer_c99, minimizer_numpy
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.printers.program import callable_c99
from ..compiler.runtime import runtime
from ..scalars import Array

STATES = 3  # random states in the self-test
DRAWS = 20  # of arguments, to find results that are finite
TOLERANCE = 1e-9  # relative difference of this machine's numbers and the C compiler's
LEAST_FLOAT = 1e-5  # relative tolerance of floats, at least
MEASURED = 100  # states in which float32 is compared with float64
KEPT = 0.1  # of the largest result: where floats differ by more, the self-test does not compare them
UNKNOWN = 1e-2  # relative tolerance of floats that were not compared, for want of a compiler
COARSE = 1e-3  # of the largest result: a larger difference of float32 from float64 gives a warning
TIMES_ROUND_OFF = 10.0  # the tolerance as a multiple of the round-off of our own kernel in floats

Exportable = Kernel | Function | Program
Functions = Iterable[Exportable | tuple[str, Exportable]] | Mapping[str, Exportable]
Sample = Callable[[str, tuple[int, ...], np.random.Generator], Array]


def normal(argument: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A random value of an argument of any function."""
    return rng.standard_normal(shape)


@dataclass(frozen=True)
class About:
    """Additions to a header beside its functions: sentences, sizes, and samples of arguments.

    lines   sentences, of a line each
    sizes   numbers that get a `#define`, by name
    sample  (argument, shape, generator) -> a random value of an argument, for the self-test
    """

    lines: Sequence[str] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    sample: Sample = normal


class InaccurateFloats(UserWarning):
    """A controller that is exported in float32 differs from the one in float64 by more than `COARSE`."""


class Difference(NamedTuple):
    """The largest difference of results in float32 from those in float64, and by the largest result."""

    absolute: float
    relative: float

    @classmethod
    def of(cls, floats: Any, doubles: Any) -> Difference:
        """Of results over many states; NaN and infinity differ by infinity."""
        floats, doubles = (np.asarray(x, float) for x in (floats, doubles))
        largest = np.abs(np.nan_to_num(floats - doubles, nan=np.inf)).max(initial=0.0)
        return cls(float(largest), float(largest / max(np.abs(doubles).max(initial=0.0), 1e-300)))

    def __str__(self) -> str:
        part = f" ({self.relative:.0e} of the largest)" if self.relative <= 1 else ""
        return f"{self.absolute:.0e}{part}"


def host_library(text: str) -> ctypes.CDLL | None:
    """Exported text as a library of this machine; None without a compiler."""
    compiler = build.find_compiler()
    return build.library(build.Source([text], name="exported C"), compiler) if compiler else None


def warn_if_coarse(what: str, difference: Difference) -> None:
    """An `InaccurateFloats` warning where a difference is larger than a `COARSE` part."""
    if not difference.relative <= COARSE:
        warn(
            f"{what} in float32 differ from those in float64 by up to {difference}; export with "
            "dtype=numpy.float64, or make the problem less stiff",
            InaccurateFloats,
        )


class ExportedPart(Protocol):
    """Functions of an exported file, of one type of numbers: their text, declaration and self-test.

    key          names the part in the self-test
    real         "double" or "float"
    text         of C99, behind the header of the file and math.h
    names        of arrays whose numbers of entries become macros
    comparisons  calls that the self-test makes
    """

    key: str
    real: str
    text: str
    comparisons: int

    @property
    def names(self) -> list[str]: ...

    def declaration(self, macros: Sequence[str]) -> str:
        """For the header; `macros` has a name for the size of each array of `names`."""

    def case(self) -> str:
        """`static void test_<key>(void)`, which runs the functions and compares their results."""


@checked
def export_c(
    folder: str | Path,
    name: str,
    functions: Functions,
    *,
    dtype: Any = np.float64,
    about: About | None = None,
) -> list[Path]:
    """Write C99 source of traced functions to `folder`: for a filter, an observer, a controller, a model.

        lb.export_c("out", "filter", [lb.compiler.trace(step, {"x": 2, "y": (), "gain": ()}, "step")])

    name       prefix of all names in C; characters that C does not allow become _
    functions  kernels, functions or programs; pairs of a name in C and such; or a mapping from names to such
    dtype      float64: the arguments are `double`; float32: `float`
    about      additions to the header; see `About`

    The files are `<name>.c`, `<name>.h`, `<name>_test.c`, which compares the functions with numbers of this
    library at random arguments, and `CMakeLists.txt`, which builds a library and the test. The C needs math.h
    alone; it allocates nothing, keeps no state, and compilers that are asked for all warnings, -Wconversion
    included, have none. Returns the paths.

    Raises LiebodyError for an empty list of functions and for other types than float64 and float32.
    """
    about = about or About()
    prefix = c_prefix(name)
    single = is_single(dtype)
    exported = [
        _Exported(prefix, key, f, single, about.sample) for key, f in named_functions(functions).items()
    ]
    if sum(x.work > 0 for x in exported) > 1:
        raise ModelError("two of the functions solve quadratic programs; export each to a folder of its own")
    # the solver has macros of its own: nothing stands behind it
    exported.sort(key=lambda x: x.work)
    rules = _RULES.format(real=exported[0].real, bytes=BYTES_PER_STATEMENT)
    return write_c(folder, prefix, exported, about, rules)


def c_prefix(name: str) -> str:
    """The prefix of names in C that is made of a name, in lower case."""
    prefix = word_of_c(name).lower()
    # an identifier of C begins with a letter
    return prefix if prefix[:1].isalpha() else f"robot_{prefix}".rstrip("_")


def write_c(
    folder: str | Path, prefix: str, exported: Sequence[ExportedPart], about: About, rules: str
) -> list[Path]:
    """Write source, header, self-test and CMakeLists.txt of these parts; returns the paths.

    rules  text of the header about arguments, results and memory
    """
    # all texts exist before the first file is written: an error leaves no half of an export
    includes = f'#include "{prefix}.h"\n\n#include <math.h>\n\n'
    source = includes + "\n".join(x.text for x in exported)
    texts = {
        f"{prefix}.c": source,
        f"{prefix}.h": _header(prefix, about, exported, digest(source)[:16], rules),
        f"{prefix}_test.c": _test(prefix, exported),
        "CMakeLists.txt": runtime("export.cmake").replace("@NAME@", prefix),
    }
    return write_texts(folder, texts)


def write_texts(folder: str | Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files of these names into a folder, which is made if it is missing; returns their paths."""
    folder = path_of("the folder", folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="ascii")
    except (OSError, ValueError) as error:  # the latter of names with a null character
        pass_on_signals(error)
        raise LiebodyError(f"cannot write into {str(folder)!r}: {error}") from None
    return [folder / file for file in texts]


def named_functions(functions: Functions) -> dict[str, Exportable]:
    """The functions by their names in C, which differ; LiebodyError where there are none."""
    items = functions.items() if isinstance(functions, Mapping) else functions
    named: dict[str, Exportable] = {}
    pairs = (x if isinstance(x, tuple) and len(x) == 2 else (getattr(x, "name", ""), x) for x in items)
    for key, function in pairs:
        if not isinstance(key, str) or not isinstance(function, Exportable):
            raise ArgumentError(
                f"{short(key)}: {short(function)} cannot be exported; give kernels, functions or programs, "
                "or a name for each"
            )
        # functions of one name, such as a jacobian of two frames, get numbers
        word = word_of_c(key)
        number = 1
        while (name := word if number == 1 else f"{word}_{number}") in named:
            number += 1
        named[name] = function
    if not named:
        raise LiebodyError("no functions to export; name at least one, such as inverse_dynamics")
    return named


def word_of_c(text: str) -> str:
    """The text as a word of C, of ASCII letters, digits and underscores."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")


def c_comment(text: str) -> str:
    """The text made safe for a comment of C: names in descriptions may hold anything."""
    text = text.encode("ascii", "replace").decode().replace("?", "_")  # ?? begins a trigraph
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "_")


class _Exported:
    """A function as it goes into the files."""

    comparisons = STATES

    def __init__(self, prefix: str, key: str, given: Exportable, single: bool, sample: Sample) -> None:
        self.key = key
        self.real = "float" if single else "double"
        self.kernel = given if isinstance(given, Kernel) else Kernel(given)
        self.function = self.kernel.function
        self.name = identifier(f"{prefix}_{key}")
        self.work = 0  # how many numbers of working memory it takes
        if isinstance(self.function, Minimizer):
            self.text, self.work = minimizer_c99(self.function, self.name, single)
        else:
            self.name, *_ = c99_names(self.function, self.name)
            self.text = callable_c99(self.function, self.name, single)
        # the prototype's names of arguments; they differ from the inputs' names where C reserves a word
        shapes = [*self.kernel.inputs.values(), *self.kernel.outputs.values()]
        shapes += [(self.work,)] * (self.work > 0)
        head = next(x for x in self.text.splitlines() if x.startswith(f"void {self.name}("))
        declared = head[head.index("(") + 1 : -1].split(", ") if shapes else []
        self.arguments = list(zip(declared, shapes, strict=True))
        self.single = single
        self.sample = sample
        self.differences: list[Difference] = []
        if single and self.work:
            self.differences = self._measured()

    @property
    def names(self) -> list[str]:
        """The names of arguments and results in C."""
        return [declared.split("*")[-1] for declared, _ in self.arguments]

    def _measured(self) -> list[Difference]:
        """How each result in float32 differs from that in float64, by the text itself; [] without a compiler.

        A warning says so where the first result is coarse.
        """
        library = host_library(f"#include <math.h>\n{self.text}")
        if library is None:
            return []
        rng = np.random.default_rng(1)
        pairs: list[list[tuple[Array, Array]]] = [[] for _ in self.kernel.outputs]
        for _ in range(MEASURED):
            values, results = self._state(rng)
            floats = [np.zeros(max(1, y.size), np.float32) for y in results]
            arrays = [*(x.astype(np.float32) for x in values), *floats, np.zeros(self.work, np.float32)]
            getattr(library, self.name)(*(ctypes.c_void_p(x.ctypes.data) for x in arrays))
            for pair, y, double in zip(pairs, floats, results, strict=True):
                pair.append((y[: double.size], double.ravel()))
        differences = [Difference.of(*zip(*pair, strict=True)) for pair in pairs]
        warn_if_coarse(f"{next(iter(self.kernel.outputs))} of {self.name}", differences[0])
        return differences

    def _precision(self) -> list[str]:
        """Lines about results in float32."""
        if not self.single:
            return []
        if not self.differences:
            return ["Floats were not compared with doubles: there was no C compiler."]
        told = zip(self.kernel.outputs, self.differences, strict=True)
        head = f"Results differ from those of doubles in {MEASURED} states by up to"
        return [head, *(f"  {name}: {x}" for name, x in told)]

    def declaration(self, macros: Sequence[str]) -> str:
        """The prototype with its documentation; `macros` are names of the arguments' sizes."""
        text = [c_comment(line) for line in (self.kernel.__doc__ or "").strip().splitlines()]
        text.append(_counted(self.function.operations))
        if isinstance(self.function, Minimizer):
            most = self.function.most_iterations
            text.append(f"before and behind a quadratic program, which takes {most} iterations")
            text.append("at most, and memcpy and memset of string.h; work is memory of the caller, with any")
            text.append("contents, and nothing is kept in it")
            text += self._precision()
            text.append(f"bytes: work {self.work * number_type(self.single).size}, {self._memory()[7:]}")
        else:
            text.append(self._memory())
        lines = [f"/* {self.key}", *(f"   {line}".rstrip() for line in text)]
        lines[-1] += " */"
        sizes = [math.prod(shape) for _, shape in self.arguments]
        lines += [f"#define {macro} {size}" for macro, size in zip(macros, sizes, strict=True)]
        lines.append(f"void {self.name}(" + ("" if self.arguments else "void);"))
        for k, (declared, shape) in enumerate(self.arguments):
            end = ");" if k == len(self.arguments) - 1 else ","
            lines.append(f"    {declared}{end}  /* {' x '.join(map(str, shape)) or '1'} */")
        return "\n".join([*lines, ""])

    def _memory(self) -> str:
        """A line about stack and code; `_RULES` says what the numbers mean."""
        (memory,) = memory_of(self.text, number_type(self.single), self.name)
        tables = f", tables {memory.tables}" if memory.tables else ""
        return f"bytes: stack {memory.stack} (unoptimised {memory.unoptimised}), code {memory.code}{tables}"

    def case(self) -> str:
        """A C function that runs this one at random states."""
        rng = np.random.default_rng(0)
        lines = [f"static void test_{self.key}(void)", "{"]
        for state in range(STATES):
            values, results = self._state(rng)
            names = [f"in{state}_{k}" for k in range(len(values))]
            lines += [self._table(n, x) for n, x in zip(names, values, strict=True)]
            for k, y in enumerate(results):
                lines.append(self._table(f"expected{state}_{k}", y))
                lines.append(f"    {self.real} out{state}_{k}[{max(1, y.size)}];")
                names.append(f"out{state}_{k}")
            if self.work:
                lines.append(f"    static {self.real} work{state}[{self.work}];")
                names.append(f"work{state}")
            lines.append(f"    {self.name}({', '.join(names)});")
            for k, (y, tolerance) in enumerate(zip(results, self._tolerances(values, results), strict=True)):
                if tolerance is None:
                    lines.append(f"    (void)expected{state}_{k};")
                    continue
                words = f'"{self.key}", out{state}_{k}, expected{state}_{k}, {y.size}, {literal(tolerance)}'
                lines.append(f"    compare({words});")
        return "\n".join([*lines, "}", ""])

    @cached_property
    def _reference(self) -> Callable[..., Any]:
        """The function in NumPy."""
        if isinstance(self.function, Function):
            return self.function
        if isinstance(self.function, Minimizer):
            return minimizer_numpy(self.function)
        return compile_numpy(self.function)

    def _state(self, rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
        """Arguments that `real` holds, and the results in double; finite ones, if DRAWS find any."""
        for _ in range(DRAWS):
            values = [np.asarray(self.sample(k, s, rng), float) for k, s in self.kernel.inputs.items()]
            # rounded to floats first, so that the C compiler and the reference have the same arguments
            values = [x.astype(np.float32).astype(float) if self.single else x for x in values]
            results = [np.asarray(y, float) for y in _listed(self._reference(*values))]
            if all(np.isfinite(y).all() for y in results):
                break
        return values, results

    def _tolerances(self, values: Sequence[Array], results: Sequence[Array]) -> list[float | None]:
        """The relative tolerance of each result, None to leave it out; for floats from our own round-off."""
        if not self.single:
            return [TOLERANCE] * len(results)
        if self.work:
            if not self.differences:
                return [UNKNOWN] * len(results)
            # counts and small rests, such as a gap, have no digits that floats keep; the first result counts
            return [
                max(LEAST_FLOAT, float(f"{TIMES_ROUND_OFF * x.relative:.1e}"))
                if x.relative < KEPT or not k
                else None
                for k, x in enumerate(self.differences)
            ]
        # the round-off of our own kernel in floats shows how much the operations amplify it
        ours = _listed(Kernel(self.function, dtype=np.float32)(*values))
        sizes = [max(1.0, np.abs(y).max(initial=0.0)) for y in results]
        off = [np.abs(x - y).max(initial=0.0) / size for x, y, size in zip(ours, results, sizes, strict=True)]
        return [max(LEAST_FLOAT, float(f"{TIMES_ROUND_OFF * x:.1e}")) for x in off]

    def _table(self, name: str, values: Array) -> str:
        """The text of a constant array."""
        numbers = (literal(float(x), "f" if self.single else "") for x in np.ravel(values))
        return f"    {constant_table(self.real, name, numbers)}"


def _counted(operations: Mapping[str, int]) -> str:
    """How many operations there are, of which kinds."""
    kinds: dict[str, int] = {}
    for operation, count in operations.items():
        kind = next((name for name, members in _KINDS.items() if operation in members), "compare or select")
        kinds[kind] = kinds.get(kind, 0) + count
    listed = ", ".join(f"{kind} {kinds[kind]}" for kind in (*_KINDS, "compare or select") if kind in kinds)
    return f"{sum(operations.values())} operations{': ' if listed else ''}{listed}"


_KINDS = {
    "multiply": {"mul"},
    "add or subtract": {"add", "sub"},
    "negate": {"neg"},
    "divide": {"div"},
    "square root": {"sqrt"},
    "sine or cosine": {"sin", "cos"},
    "other functions": FUNCTIONS - {"sin", "cos"},
}


def _listed(results: Any) -> list[Array]:
    return list(results) if isinstance(results, tuple) else [results]


def _header(prefix: str, about: About, exported: Sequence[ExportedPart], code: str, rules: str) -> str:
    """The text of the header. Macros are numbered by underscores where two would be one word."""
    macros = dict.fromkeys([f"{prefix}_H".upper()])

    def macro(*words: str) -> str:
        # two names may become one word in capitals, as q1 and Q1 do
        name = "_".join([prefix, *words]).upper()
        while name in macros:
            name += "_"
        macros[name] = None
        return name

    guard = next(iter(macros))
    lines = [f"/* {prefix}: C99 generated by liebody {version()}."]
    lines += [f"   {c_comment(line)}".rstrip() for line in ["", *about.lines]]
    of_code = macro("HASH")
    rules = f"{rules}\n{of_code} changes when the source does. */"
    lines += [f"   {line}".rstrip() for line in rules.splitlines()]
    defines = [f'#define {macro("LIEBODY")} "{version()}"', f'#define {of_code} "{code}"']
    defines += [f"#define {macro(size)} {value}" for size, value in about.sizes.items()]
    opened = ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    closed = ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    declared = [x.declaration([macro(x.key, name, "SIZE") for name in x.names]) for x in exported]
    head = [f"#ifndef {guard}", f"#define {guard}", "", *lines, *defines, ""]
    return "\n".join([*head, *opened, *declared, *closed])


_RULES = """
Arrays are row-major arrays of {real}, whose shapes stand beside them; ..._SIZE is how many
numbers they hold. Units are SI. Quaternions are (w, x, y, z). Twists and wrenches have the
angular part first. Velocities are left-trivialised: those of a free or spherical joint are in
the axes of its body.
Results come last, and are written completely. They must not overlap with arguments, nor with
each other; arguments may overlap.
The functions allocate nothing, keep no state, and call math.h alone: they are re-entrant, and
threads may call them at once. Arguments are not checked; quaternions must be unit.
Operations are those of one call. Bytes of stack are those of intermediate results which are
needed at once in the order of the text; compilers that optimise change the order, and mostly
take up to twice as many and 256 more. The second number and 512 more are a bound, which
compilers that do not optimise come near. What math.h takes is added. Bytes of code are an
estimate, {bytes} for each operation and result, for Thumb-2 with a floating-point unit that has
{real}; calls in place of such a unit take 2 to 2.5 times as many. Tables are constants."""


def _test(prefix: str, exported: Sequence[ExportedPart]) -> str:
    """The text of the program that compares the functions in C with our numbers."""
    return "\n".join(
        [
            f"/* Compares {prefix}.c with numbers of the library that generated it. */",
            f'#include "{prefix}.h"',
            f"#define REAL {exported[0].real}",
            "",
            runtime("compare.h"),
            *(x.case() for x in exported),
            "int main(void)",
            "{",
            *(f"    test_{x.key}();" for x in exported),
            f'    return report("{prefix}", {sum(x.comparisons for x in exported)});',
            "}",
            "",
        ]
    )
