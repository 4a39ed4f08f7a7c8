"""Compiles large traced functions, with their derivatives, for calls by CasADi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import CompilerError, GraphError, require
from ..graph.derivatives import jacobian, vjp
from ..graph.graph import Expr, Function
from ..printers.c import c99, c99_names, constant_table, enumeration, identifier
from ..printers.casadi_source import rows_columns
from ..runtime import runtime
from . import build


def to_casadi_external(function: Function, order: int = 2) -> Any:
    """`function` as a `casadi.Function` of compiled code, with the names and shapes of `to_casadi`.

    Where C or math.h uses the function's name, an underscore follows it.

    order  up to which derivatives are compiled with it: 2 for solvers that use Hessians, 1 for others, or 0

    Jacobians have no structural zeros; gradients of weighted sums, of which Hessians are made, cost a few
    times the function. The code is for this processor; `map` may call it from several threads.

    Raises ShapeError and MissingPackage as `to_casadi`, CompilerError without a compiler of C.
    """
    require("functions of CasADi", "casadi", extra="casadi")
    import casadi

    if order not in (0, 1, 2):
        raise GraphError(f"{function.name}: derivatives of order {order!r}, expected 0, 1 or 2")
    compiler = build.find_compiler()
    if compiler is None:
        raise CompilerError(f"{function.name} is to be compiled, and there is no C compiler; {build.ADVICE}")
    build.check_numbers(compiler)
    # CasADi finds derivatives by the names of functions in the library: jac_f, adj1_f, jac_adj1_f.
    name, *_ = c99_names(function)
    first = External(name, function.inputs, function.outputs)
    externals = [first]
    if not any(x.size for x in function.inputs.values()):
        order = 0  # there are no inputs to differentiate by
    if order:
        externals += [first.jacobian(), first.adjoint()]
    if order > 1:
        externals.append(externals[-1].jacobian())
    total = sum(sum(x.function.operations.values()) for x in externals)
    flags = build.FLAGS if total < build.LONG else build.LONG_FLAGS
    units = build.Source([x.source() for x in externals], flags, name=name)
    # `_name` is documented by ctypes as the name that a library was opened by: here, its path
    return casadi.external(first.name, build.library(units, compiler)._name)


@dataclass
class External:
    """A function in the form of CasADi's C interface, which finds derivatives by their names.

    inputs   arrays of symbols, or of zeros for inputs that nothing depends on
    sparse   whether structural zeros of results are left out
    """

    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    sparse: bool = False

    @property
    def function(self) -> Function:
        """The function of its symbols."""
        inputs = {key: x for key, x in self.inputs.items() if x.dtype == object}
        return Function(self.name, inputs, self.outputs)

    @property
    def _unread(self) -> dict[str, Any]:
        """Derivatives have the function's results as arguments, and ours do not read them."""
        return {f"out_{key}": np.zeros(y.shape) for key, y in self.outputs.items()}

    def jacobian(self) -> External:
        """By each input, a matrix for each output: rows and columns are entries in CasADi's order."""
        function = self.function
        blocks = {}
        for key, y in self.outputs.items():
            for wrt, x in self.inputs.items():
                blocks[f"jac_{key}_{wrt}"] = np.zeros((y.size, x.size))
        for wrt, x in function.inputs.items():
            by = jacobian(function, wrt, "forward").outputs.values()
            for (key, y), J in zip(self.outputs.items(), by, strict=True):
                rows, columns = (np.arange(z.size).reshape(z.shape).T.ravel() for z in (y, x))
                blocks[f"jac_{key}_{wrt}"] = J.reshape(y.size, x.size)[np.ix_(rows, columns)]
        return External(f"jac_{self.name}", self.inputs | self._unread, blocks, sparse=True)

    def adjoint(self) -> External:
        """The gradient of the sum of results times weights."""
        function = self.function
        reverse = vjp(function, [*function.inputs])
        weights = [*reverse.inputs.values()][len(function.inputs) :]
        named = {f"adj_{key}": w for key, w in zip(self.outputs, weights, strict=True)}
        gradients = {
            f"adj_{key}": g for key, g in zip(function.inputs, reverse.outputs.values(), strict=True)
        }
        return External(f"adj1_{self.name}", self.inputs | self._unread | named, gradients)

    def source(self) -> str:
        """A translation unit in C."""
        # CasADi passes matrices by columns, and only their stored entries. So arrays are transposed here, and
        # `read` and `written` are the vectors of the entries that exist.
        taken = [x.T.ravel()[: x.size if x.dtype == object else 0] for x in self.inputs.values()]
        kept = [self._kept(y) for y in self.outputs.values()]
        results = [y.T[mask.T] for y, mask in zip(self.outputs.values(), kept, strict=True)]
        read = {f"x{k}": x for k, x in enumerate(taken) if len(x)}
        written = {f"y{k}": y for k, y in enumerate(results) if len(y)}
        patterns = {
            "input": [
                self._pattern(k, x, np.full(x.shape, x.dtype == object)) for k, x in self.inputs.items()
            ],
            "output": [self._pattern(k, y, m) for (k, y), m in zip(self.outputs.items(), kept, strict=True)],
        }
        sizes = [len(y) for y in results]
        dimensions = {"INPUTS": len(taken), "OUTPUTS": len(results), "MOST_RESULTS": sum(sizes)}
        lines = [
            "#include <math.h>",
            "typedef long long casadi_int;",
            f"#define FUNCTION(suffix) {self.name}##suffix",
            enumeration(dimensions | {"MOST_INPUT": max([1, *map(len, taken)])}),
            constant_table("int", "output_size", sizes),
        ]
        for kind, names in (("input", self.inputs), ("output", self.outputs)):
            words = (f'"{identifier(key)}"' for key in names)
            tables = [f"{kind}_{k}" for k in range(len(names))]
            lines.append(constant_table("char *const", f"{kind}_names", words))
            lines += [constant_table("casadi_int", *x) for x in zip(tables, patterns[kind], strict=True)]
            lines.append(constant_table("casadi_int *const", f"{kind}_patterns", tables))
        arguments = [*(f"in[{x[1:]}]" for x in read), *(f"out[{y[1:]}]" for y in written)]
        call = f"    {self.name}_values({', '.join(arguments)});\n" if written else ""
        values = c99(Function(f"{self.name}_values", read, written)) if written else ""
        # CasADi's interface is in double, whatever kernels compute in.
        return "\n".join(
            [
                *lines,
                runtime("casadi.h"),
                values,
                f"int {self.name}(const double **arg, double **res, casadi_int *iw, double *w, int k) {{",
                "    const double *in[INPUTS + 1];",
                "    double *out[OUTPUTS + 1];",
                f"    arrays(arg, res, w, in, out);\n{call}    return 0;\n}}\n",
            ]
        )

    def _kept(self, y: Any) -> Any:
        """Which entries of a result are stored, as a mask."""
        stored = [not self.sparse or type(x) is Expr or x != 0.0 for x in y.flat]
        return np.array(stored, bool).reshape(y.shape)

    def _pattern(self, key: str, array: Any, stored: Any) -> list[int]:
        """CasADi's sparsity of a matrix: rows, columns, beginnings of columns, and rows of stored entries."""
        rows, columns = rows_columns(self.name, key, array)
        by_columns = stored.reshape(rows, columns).T
        begins = np.cumsum([0, *by_columns.sum(axis=1)])
        return [rows, columns, *map(int, begins), *map(int, np.nonzero(by_columns)[1])]
