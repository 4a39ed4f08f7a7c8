"""Figures of matplotlib that notebooks show by themselves."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

__all__ = ["Picture"]


class Picture(Figure):
    """A figure that shows itself as the last line of a notebook's cell.

    A plain `Figure` is shown there only where matplotlib's inline mode is on. No display is needed, and
    pyplot does not know of it, so that it is shown once.
    """

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png", dpi=self.dpi)
        return written.getvalue()
