"""How a run that was just read looks on the console."""

from __future__ import annotations

from collections.abc import Sequence

from tracetool.report.sentences import open_console


def show_run(summary: str, warnings: Sequence[str]) -> None:
    """Print what a run holds on standard output and its warnings on standard error."""
    from rich.markup import escape

    for warning in warnings:
        open_console(stderr=True).print(f"note: {escape(warning)}", soft_wrap=True)
    open_console().print(escape(summary), soft_wrap=True)
