"""The command `liebody reproduce`, which liebody finds as an entry point of the group `liebody.commands`."""

from __future__ import annotations

from pathlib import Path

import click

from . import STUDIES
from . import reproduce as reproduce_

PAPERS = "\n".join(["\b", "Papers:", *(f"  {name}" for name in sorted(STUDIES))])


@click.command(epilog=PAPERS)
@click.argument("name", type=click.Choice(sorted(STUDIES)), metavar="PAPER")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=".", show_default="here",
    help="Folder for the report; made if it is not there.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Also what takes minutes more, of studies that have such a part.")
def reproduce(name: str, out: Path, full: bool) -> None:
    """Recompute a paper and write a report.

    One HTML file with the paper's tables, formulas and claims beside the numbers of this library, and what of
    it is a misprint. Needs SymPy and more, and says what.

    \b
    Examples:
      liebody reproduce from-2012
      liebody reproduce from-2012 --out studies/
    """
    click.echo(f"wrote {reproduce_(name, out, full)}")
