"""What a traced function is printed as: a printer is a table of rules, from operations to text or calls."""

from collections.abc import Callable, Mapping
from typing import Any


def on(module: Any, rules: Mapping[str, str | Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Operations by name, where some rules name functions of a module."""
    return {op: getattr(module, rule) if isinstance(rule, str) else rule for op, rule in rules.items()}
