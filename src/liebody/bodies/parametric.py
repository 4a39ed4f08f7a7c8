"""Parameters of robots and constrained systems: their numbers have names, and may be free."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from ..base.arguments import short, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ArgumentError, ModelError, ShapeError
from ..compiler import Guard
from ..compiler.graph.graph import graph_of
from ..compiler.programs.layout import FlatLayout, Named, ensemble_of, word_of
from ..scalars import Array
from .parameters import Parameter

NO_SYMBOLS: Mapping[str, Any] = {}


class Parameters(Named):
    """{name: Parameter} of all possible parameters; `free` are the names of the free ones."""

    def __init__(self, known: Mapping[str, Parameter], free: Sequence[str]) -> None:
        super().__init__(known)
        self.free = tuple(free)

    def __repr__(self) -> str:
        width = max(map(len, self._values), default=0)
        return "\n".join(
            f"{'*' if name in self.free else ' '} {name:{width}}  {x.shape!s:5} {x.value.tolist()} {x.unit}"
            for name, x in self._values.items()
        )

    def refuse(self, name: str, owner: str) -> NoReturn:
        """Raise ModelError for a name that is unknown."""
        near = difflib.get_close_matches(name, self._values, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "its `parameters` lists them."
        raise ModelError(
            f"{owner} has no parameter {name!r}; {hint} One of your own, such as a gain, is called by a word "
            "and declared with its value, {'K_p': 5.0}"
        )


class Parametric:
    """Base of mechanisms whose numbers have names: free ones are inputs of compiled code, others constants.

    layout   the order of the free ones in an array
    symbols  SymPy's symbols among the numbers, by their words; they are free, without a value by default

    A subclass says which numbers it has, `own_parameters`, and makes its copies with others, `varied`.
    """

    name: Any
    layout = FlatLayout("parameter", {})
    symbols: Mapping[str, Any] = NO_SYMBOLS

    def own_parameters(self) -> dict[str, Parameter]:
        """The possible parameters, with their present values."""
        raise NotImplementedError

    def varied(self, values: Mapping[str, Array], first: Self | None) -> Self:
        """A copy of this one, which has no free parameters, with these values of parameters.

        first  one with the same free parameters, whose kernels it takes
        """
        raise NotImplementedError

    @property
    def plain(self) -> Self:
        """The same without free parameters, and with its own values."""
        plain: Self = vars(self).get("_plain", self)
        return plain

    @cached_property
    def _variants(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def parameters(self) -> Parameters:
        """The possible parameters, {name: Parameter} with shapes, units and values; free ones are marked."""
        of_mechanism = self.own_parameters()
        of_user = {
            name: Parameter(name, x) for name, x in self.layout.defaults.items() if name not in of_mechanism
        }
        return Parameters({**of_mechanism, **of_user}, tuple(self.layout.defaults))

    def with_parameters(self, *given: str | Mapping[str, Any]) -> Self:
        """The same with free parameters: numbers that every call may be given anew, without compiling.

            arm = robot.with_parameters("wrist_3_link.mass", "wrist_3_link.center")
            arm.inverse_dynamics(q, v, a, parameters={"wrist_3_link.mass": np.linspace(0.1, 2.0, 1000)})

        given  names of `parameters`, or {name: value}, then the values by default. A name that is not among
               them, a word, is a parameter of your own, such as a gain, and needs a value

        Every call of a robot takes `parameters`: {name: values (..., *shape)}, whose leading axes broadcast
        with the leading axes of the arrays, or one array (..., np), as `packed` gives it, which is faster
        (inertias in it are checked by `packed` alone). Kernels have that array as their last input,
        "parameters"; `derivatives(name, wrt="parameters")` differentiates by it. Names that are left out take
        their default values. A plain robot takes `parameters` as well, and frees the ones that are named.
        `tree`, `mass`, `to_urdf` and other attributes belong to the default values.

        Raises ModelError for a name that is unknown, and for values that no mechanism can have: masses that
        are not positive, inertias of no body, axes and quaternions without norm 1, negative losses.
        """
        values = dict(self.layout.defaults)
        for one in given:
            if not isinstance(one, (str, Mapping)):
                raise ArgumentError(f"parameters are {short(one)}, expected names, or a dictionary by name")
            values.update(one if isinstance(one, Mapping) else {one: self._nominal(one)})
        if foreign := [name for name in values if not isinstance(name, str)]:
            raise ArgumentError(f"the parameter {short(foreign[0])} has no name; give a dictionary of texts")
        known = self.plain.parameters
        names = [name for name in known if name in values] + [name for name in values if name not in known]
        for name in names:
            if name not in known and not name.isidentifier():
                known.refuse(name, self.name)
        layout = FlatLayout("parameter", {name: values[name] for name in names}, needed=self.symbols)
        for name, x in layout.defaults.items():
            if name in known and x.shape != known[name].shape:
                raise wrong_shape(
                    name, x.shape, f"{known[name].shape}; batches of values are given to the calls"
                )
        # one prototype for each set of free parameters keeps the compiled code; copies with other default
        # values share it
        key = key_of(layout)
        variants = self.plain._variants
        if key not in variants:
            nominal = {name: known[name].value if name in known else values[name] for name in names}
            variants[key] = self.plain._freed(FlatLayout("parameter", nominal, needed=self.symbols), None)
        first = variants[key]
        same = all(
            np.array_equal(layout.defaults[name], x, equal_nan=True)
            for name, x in first.layout.defaults.items()
        )
        return first if same else self.plain._freed(layout, first)

    def _nominal(self, name: str) -> Array:
        """The own value of a parameter."""
        if name not in self.parameters:
            self.parameters.refuse(name, self.name)
        return self.parameters[name].value

    def _freed(self, layout: FlatLayout, first: Self | None) -> Self:
        """This plain one with free parameters, and the compiled code of `first`, which has the same ones."""
        known = self.parameters
        checks = {name: known[name].checked for name in layout.defaults if name in known}
        # Write and read the defaults once: axes and quaternions among them are then of norm 1 to round-off.
        layout = FlatLayout("parameter", layout.defaults, checks, needed=self.symbols)
        layout.defaults = layout.named(layout.values(layout.defaults, ()))
        # Only values that differ change the copy: parameters of one's own are no numbers of the mechanism,
        # and NaN stands for symbols without a value.
        differ = {
            name: x
            for name, x in layout.defaults.items()
            if name in known and not np.array_equal(x, known[name].value) and not np.isnan(x).any()
        }
        variant = self.varied(differ, first)
        vars(variant).update(_plain=self, layout=layout)  # frozen dataclasses refuse assignments
        return variant

    def guarded(self, guard: Guard, name: str) -> Guard:
        """The guard, which checks the free parameters as well: an input of this name."""
        if not self.layout.size:
            return guard
        known = self.plain.parameters
        # Kernels check signs entry by entry, but norms of whole vectors: the first place of each vector, and
        # its length. Reversed, so that the first place is the one that stays.
        entries = self.layout.entries
        places = [(k, known[x]) for k, x in enumerate(entries.values()) if x in known]
        signs = [(name, k, x.sign) for k, x in places if x.sign]
        units = {x.name: (name, k, x.value.size) for k, x in reversed(places) if x.is_unit}
        return replace(
            guard, unit=(*guard.unit, *units.values()), signs=tuple(signs), labels={name: tuple(entries)}
        )

    @property
    def prototype(self) -> Self:
        """The mechanism with the same free parameters that keeps the simulations of all of them."""
        return self.plain._variants.setdefault(key_of(self.layout), self) if self.layout.size else self

    @cached_property
    def values(self) -> Array:
        """The values of the free parameters by default, (np,)."""
        return self.layout.write(self.layout.defaults.values()).astype(float)

    def freed(self, parameters: Any) -> Self:
        """The same, or, if it has no free parameters, the variant in which the named ones are free."""
        if parameters is None or self.layout.size:
            return self
        if hasattr(parameters, "_fields"):
            return self.with_parameters(*[x for x in self.parameters if word_of(x) in parameters._fields])
        if not isinstance(parameters, Mapping):
            raise ModelError(
                f"{self.name} has no free parameters, and values come without names; give {{name: values}}, "
                "or make one with with_parameters(names)"
            )
        return self.with_parameters(*parameters)

    def packed(self, parameters: Any = None) -> Array:
        """Values of the free parameters (..., np), checked: of {name: values}, or of an array (..., np).

        Symbols of a trace are not checked. Raises ModelError and ShapeError, as `with_parameters` says.
        """
        if parameters is None:
            return self._complete(self.values)
        values = parameters
        if hasattr(parameters, "_fields"):  # what traced functions take
            fields = self.layout.fields.items()
            values = {name: getattr(parameters, x) for name, x in fields if x in parameters._fields}
        if not isinstance(values, Mapping):
            flat = np.asarray(values)
            if flat.shape[-1:] != (self.layout.size,):
                raise ShapeError(
                    f"parameters have shape {flat.shape}, expected (..., {self.layout.size}) or names and "
                    f"values of {', '.join(self.layout.defaults)}"
                )
            values = self.layout.named(flat)
        self.layout.check(values)
        # In a trace: values that were left out are constants of the graph, nothing can be checked.
        if graph_of([np.asarray(x) for x in values.values()]):
            return self.layout.write({**self.layout.defaults, **values}.values())
        return self._complete(self.layout.values(values, ensemble_of(self.layout.batches(values))))

    def _complete(self, flat: Array) -> Array:
        """Values (..., np), of symbols of the tree too; raises ModelError."""
        values = self.layout.named(flat) if self.symbols else {}
        missing = [name for name in self.symbols if np.isnan(values[name]).any()]
        if missing:
            raise ModelError(
                f"{self.name} has no value of its symbols {', '.join(missing)}; give "
                f"parameters={{{missing[0]!r}: ...}}, or values for all calls by with_parameters"
            )
        return flat


def key_of(layout: FlatLayout) -> tuple[Any, ...]:
    """Names and shapes of free parameters: mechanisms with the same key share compiled code."""
    return tuple((name, x.shape) for name, x in layout.defaults.items())
