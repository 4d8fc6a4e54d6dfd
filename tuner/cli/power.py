"""The command that gives power caps back: `restore-power`."""

from __future__ import annotations

import typer

from tuner import wiring


def restore_power_command() -> None:
    """Says card by card what became of it."""
    told = wiring.restore_power(wiring.machine_cards())
    typer.echo("\n".join(told) if told else "no run has left a power cap changed")
