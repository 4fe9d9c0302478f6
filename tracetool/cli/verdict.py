"""Workflow commands: the one thing that a CI runner must get as it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracetool.cli.guarded import unguarded

if TYPE_CHECKING:
    from tracetool.api.verdict import Comparison


def print_annotations(compared: Comparison) -> None:
    """Print a line per broken limit that the runner shows beside the change."""
    for line in compared.annotations():
        print(line, file=unguarded(sys.stdout))
