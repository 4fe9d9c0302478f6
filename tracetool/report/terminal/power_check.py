"""How a checked power log looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from tracetool.measure.power_check.check import CheckedPower

_STYLES: Final = {"good": "bold", "usable": "bold yellow", "unusable": "bold red"}


def print_checked_power(checked: CheckedPower, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the verdict, then a line per check, the worst first; GPUs with the same result share one."""
    screen = open_console()
    say(screen, f"Power log: {checked.verdict}", _STYLES[checked.verdict])
    for verdict, check, result in checked.results():
        say(screen, f"  {verdict:<9} {check}: {result}")
    for path in written:
        say(screen, f"wrote {path}")
