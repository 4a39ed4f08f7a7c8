"""The descriptions in an FMU: modelDescription.xml with its variables, buildDescription.xml of its source."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ...base.public import version
from .model import Model

# Units in base units of SI, as FMI writes them.
UNITS: dict[str, dict[str, int]] = {
    "1": {},
    "rad": {"rad": 1},
    "rad/s": {"rad": 1, "s": -1},
    "rad/s2": {"rad": 1, "s": -2},
    "1/s": {"s": -1},
    "m": {"m": 1},
    "m/s": {"m": 1, "s": -1},
    "m/s2": {"m": 1, "s": -2},
    "s": {"s": 1},
    "N": {"kg": 1, "m": 1, "s": -2},
    "N m": {"kg": 1, "m": 2, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
    "kg": {"kg": 1},
    "kg m2": {"kg": 1, "m": 2},
    "N/m": {"kg": 1, "s": -2},
    "N s/m": {"kg": 1, "s": -1},
    "N m/rad": {"kg": 1, "m": 2, "s": -2, "rad": -1},
    "N m s/rad": {"kg": 1, "m": 2, "s": -1, "rad": -1},
}
CAPABILITIES: dict[str, Any] = {
    "canGetAndSetFMUState": "true",
    "canSerializeFMUState": "true",
    "providesDirectionalDerivatives": "true",
    "providesAdjointDerivatives": "true",
}


def model_description(
    model: Model, identifier: str, token: str, kinds: Collection[str], t_end: float, dt: float
) -> bytes:
    """modelDescription.xml. A variable's number is its place in the list, from 1; time has number 0."""
    root = Element(
        "fmiModelDescription",
        fmiVersion="3.0",
        modelName=model.name,
        instantiationToken=token,
        generationTool=f"liebody {version()}",
        variableNamingConvention="structured",
    )
    if "me" in kinds:
        SubElement(
            root,
            "ModelExchange",
            modelIdentifier=identifier,
            needsCompletedIntegratorStep="true",
            **CAPABILITIES,
        )
    if "cs" in kinds:
        SubElement(
            root,
            "CoSimulation",
            modelIdentifier=identifier,
            canHandleVariableCommunicationStepSize="true",
            providesIntermediateUpdate="true",
            **CAPABILITIES,
        )
    used = {x.unit for x in model.variables if x.unit in UNITS}
    if used:
        units = SubElement(root, "UnitDefinitions")
        for name in sorted(used):
            SubElement(
                SubElement(units, "Unit", name=name), "BaseUnit", {k: str(n) for k, n in UNITS[name].items()}
            )
    categories = SubElement(root, "LogCategories")
    SubElement(categories, "Category", name="logStatusError")
    SubElement(root, "DefaultExperiment", startTime="0", stopTime=repr(t_end), stepSize=repr(dt))
    variables = SubElement(root, "ModelVariables")
    SubElement(
        variables,
        "Float64",
        name="time",
        valueReference="0",
        causality="independent",
        variability="continuous",
    )
    first = {x.name: k for k, x in model.of_kind("state")}
    for number, x in enumerate(model.variables, start=1):
        SubElement(variables, "Float64", _attributes(model, number, x.name, first))
    structure = SubElement(root, "ModelStructure")
    unknowns = [k for k, _ in model.of_kind("state", "output")]
    for k in unknowns:
        SubElement(structure, "Output", valueReference=str(k))
    rates = [k for k, _ in model.of_kind("rate")]
    for k in rates:
        SubElement(structure, "ContinuousStateDerivative", valueReference=str(k))
    computed = [k for k, x in model.of_kind("output") if x.start is None]
    for k in sorted([*computed, *rates]):
        SubElement(structure, "InitialUnknown", valueReference=str(k))
    for k, _ in model.of_kind("guard"):
        SubElement(structure, "EventIndicator", valueReference=str(k))
    return _text(root)


def _attributes(model: Model, number: int, name: str, states: dict[str, int]) -> dict[str, str]:
    """The attributes of a variable."""
    x = model.variables[number - 1]
    attributes = {"name": name, "valueReference": str(number)}
    exact = {} if x.start is None else {"initial": "exact", "start": repr(float(x.start))}
    calculated = {"initial": "calculated"}
    kinds: dict[str, dict[str, str]] = {
        "state": {"causality": "output", "variability": "continuous", **exact},
        "rate": {"causality": "local", "variability": "continuous", **calculated},
        "memory": {"causality": "local", "variability": "discrete", **(exact or calculated)},
        "input": {"causality": "input", "variability": "continuous", "start": repr(float(x.start or 0.0))},
        "parameter": {"causality": "parameter", "variability": "tunable", **exact},
        "output": {"causality": "output", "variability": "continuous", **calculated},
        "guard": {"causality": "local", "variability": "continuous", **calculated},
    }
    attributes |= kinds[x.kind]
    if x.kind == "rate":
        attributes["derivative"] = str(states[name[len("der(") : -1]])
    if x.unit in UNITS:
        attributes["unit"] = x.unit
    return attributes


def build_description(identifier: str, file: str) -> bytes:
    """buildDescription.xml: how importers compile the source."""
    root = Element("fmiBuildDescription", fmiVersion="3.0")
    configuration = SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    sources = SubElement(configuration, "SourceFileSet", language="C99")
    SubElement(sources, "SourceFile", name=file)
    return _text(root)


def _text(root: Element) -> bytes:
    indent(root)
    return bytes(tostring(root, encoding="UTF-8", xml_declaration=True))
