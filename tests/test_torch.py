"""The function of autograd that a page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"


@pytest.mark.slow  # PyTorch is too large for the test environment
def test_the_function_of_autograd_passes_its_check():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    (block,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(block, PAGE.name, "exec"), {"__name__": "__document__"})
