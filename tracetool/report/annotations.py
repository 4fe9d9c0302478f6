"""Workflow annotations: one line per broken threshold that a CI runner shows beside the change.

References
----------
.. [1] GitHub, "Workflow commands for GitHub Actions": at most ten errors and ten warnings a step are shown.
"""

from __future__ import annotations

from typing import Final

from tracetool.core import escape
from tracetool.report.view import View

_MOST: Final = 10
_COMMANDS: Final = {"failed": "error", "skipped": "warning"}


def annotation_lines(view: View) -> list[str]:
    """Return the commands, worst first; beyond ten of a kind the last one says how many more there are."""
    commands = []
    for outcome, command in _COMMANDS.items():
        cases = [c for c in view.cases if c.outcome == outcome]
        for i, case in enumerate(cases[:_MOST]):
            more = f" (and {len(cases) - _MOST} more)" if i == _MOST - 1 and len(cases) > _MOST else ""
            title = escape.command_property(escape.name(f"{case.group}: {case.name}"))
            message = escape.command_value(escape.name(case.message, 1000) + more)
            commands.append(f"::{command} title={title}::{message}")
    return commands
