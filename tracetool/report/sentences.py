"""How wide the terminal is, and sentences that fit it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TextIO

from tracetool.core.escape import visible
from tracetool.report.short_names import cell_width

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a pipe that states none.
PIPE_WIDTH: Final = 100
_NARROWEST: Final = 20


def stated_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of ``COLUMNS``, else of the terminal behind ``stream``; None where neither tells."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text) > 0:
        return max(int(text), _NARROWEST)
    target = stream or sys.stdout
    try:
        if not target.isatty():
            return None
        columns = os.get_terminal_size(target.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return None
    return max(columns, _NARROWEST) if columns else None


def open_console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, ``COLUMNS`` or else 100; plain where ``NO_COLOR`` is set."""
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

    width = stated_width(sys.stderr if stderr else sys.stdout)
    return Screen(
        stderr=stderr,
        highlight=False,
        width=width or PIPE_WIDTH,
        soft_wrap=width is None,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def wrapped(text: str, width: int, console: Console | None = None) -> list[str]:
    """Return a sentence as lines of at most ``width``, the later ones indented; no word is cut.

    A console with ``soft_wrap`` (a pipe that states no width) gets it as one line: a search finds it whole.
    """
    if (console is not None and console.soft_wrap) or cell_width(text) <= width:
        return [text]
    return textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    ) or [""]


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence, wrapped where the console states its width."""
    from rich.text import Text

    for line in wrapped(text, console.width, console):
        console.print(Text(line, style=style), soft_wrap=True)
