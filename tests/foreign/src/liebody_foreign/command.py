"""A command of `liebody`: how far a nut on a leadscrew travels."""

import click

from liebody.bodies import joint_named


@click.command()
@click.argument("turns", type=float)
@click.option("--lead", type=float, default=0.005, help="Travel in a turn [m].")
def travel(turns: float, lead: float) -> None:
    """Print how far a nut on a leadscrew travels in some TURNS."""
    joint = joint_named("leadscrew", lead=lead)
    click.echo(f"{joint.pose([6.283185307179586 * turns])[2, 3]:.6g} m")
