"""What every command prints: one JSON document, or tables and sentences that fit the terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from tracetool.core.escape import json_log
from tracetool.report.plain import plain

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, ``COLUMNS`` or else 100; plain where ``NO_COLOR`` is set."""
    from tracetool.report.sentences import open_console

    return open_console(stderr=stderr)


class Printed:
    """What this process has printed so far: an error adds no second document."""

    document = False


def print_json(document: Any) -> None:
    """Print one JSON document on standard output; NaN and infinities become null."""
    Printed.document = True
    sys.stdout.write(json_log(json.dumps(plain(document), ensure_ascii=False, default=str)) + "\n")


JSON_OPTION = typer.Option(
    False, "--json", help="Print one JSON document on standard output and nothing else; an error is one too."
)
QUIET_OPTION = typer.Option(False, "--quiet", "-q", help="Print errors only.")
