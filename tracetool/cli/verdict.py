"""What ``diff`` and ``check`` print and write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tracetool.cli.guarded import unguarded
from tracetool.report.view import View


def finish(view: View, out: Sequence[Path], *, as_json: bool, quiet: bool, annotate: bool) -> None:
    """Write a report's files and print it once, as JSON or for people."""
    from tracetool.cli.output import console, print_json
    from tracetool.report.console import annotation_lines, show_view
    from tracetool.report.save import save_view

    for path in out:
        save_view(view, path)
    if as_json:
        print_json(view.document)
        return
    if not quiet:
        show_view(view, console())
    if annotate:
        for line in annotation_lines(view):
            print(line, file=unguarded(sys.stdout))
