"""What every command prints: one JSON document, or a table at most 100 columns wide."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from tracetool.report.escape import json_log, visible
from tracetool.report.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100


def console(*, stderr: bool = False) -> Console:
    """Return a console at most 100 columns wide that honours NO_COLOR and pipes."""
    from rich.console import Console, ConsoleOptions, RenderableType  # a tenth of the start of a command that
    from rich.segment import Segment  # prints nothing

    class Screen(Console):
        """Shows every character of a text; only its own styles reach the terminal."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for part in super().render(renderable, options):
                text = part.text
                if part.control or text.replace("\n", "").isprintable():
                    yield part
                else:
                    yield part._replace(text="\n".join(map(visible, text.split("\n"))))

    wide = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return Screen(
        stderr=stderr,
        highlight=False,
        soft_wrap=False,
        width=min(wide.width, WIDTH) if wide.is_terminal else WIDTH,
    )


def print_json(document: Any) -> None:
    """Print one JSON document on standard output; NaN and infinities become null."""
    sys.stdout.write(json_log(json.dumps(plain(document), ensure_ascii=False, default=str)) + "\n")


JSON_OPTION = typer.Option(
    False, "--json", help="Print one JSON document on standard output and nothing else."
)
QUIET_OPTION = typer.Option(False, "--quiet", "-q", help="Print errors only.")
