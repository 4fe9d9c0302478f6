"""Output of every command: one JSON document, or tables and sentences that fit the terminal.

Commands to a CI runner are the one thing printed as it is.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tracetool.cli.progress import verbose_step
from tracetool.cli.safe_output import unguarded
from tracetool.cli.streams import takes_any_text
from tracetool.core.escape import json_log
from tracetool.report.json_values import plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tracetool.api.diff import Comparison
    from tracetool.api.result import Result


def print_annotations(compared: Comparison) -> None:
    """Print a line per broken limit that the runner shows beside the change."""
    for line in compared.annotations():
        print(line, file=unguarded(sys.stdout))


class Printed:
    """Output that this process has printed so far: an error adds no second document."""

    document = False


def print_json(document: Any) -> None:
    """Print one JSON document on standard output; NaN and infinities become null."""
    _print_document(json.dumps(plain(document), ensure_ascii=False, default=str))


def emit(result: Result, *, as_json: bool, quiet: bool = False, written: Iterable[Path | None] = ()) -> None:
    """Print a result once: as its document, for people, or not at all.

    Parameters
    ----------
    result : Result
        What the command's function returned.
    as_json, quiet : bool
        The command's options.
    written : iterable of Path or None
        Files it was written to, None where one was not asked for.
    """
    if as_json:
        _print_document(result.to_json())
    elif not quiet:
        result.show([path for path in written if path is not None])


def save(result: Result, out: Path | None) -> None:
    """Write a result where that was asked for."""
    if out is not None:
        verbose_step(f"writing {out}")
        result.save(out)


def check_out(out: Path | None, *, judged: bool = False) -> None:
    """Refuse an output file before the work; ``judged`` says whether the command judges figures by limits.

    Raises
    ------
    BadInput
        If its extension is not known or its folder is absent.
    """
    if out is not None:
        from tracetool.report.save import check_output

        check_output(out, judged=judged)


def _print_document(text: str) -> None:
    Printed.document = True
    text = json_log(text)
    if not text.isascii() and not takes_any_text(sys.stdout.encoding):
        text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(text + "\n")
