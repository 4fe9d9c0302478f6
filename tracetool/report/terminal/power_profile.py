"""How the power profile of a kernel looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tracetool.measure.fingrav.campaign import Profiled, context_table, summary
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say


def print_profiled(profiled: Profiled, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print what the profile rests on, its curves, and power by what ran before."""
    fine, screen = profiled.profile, open_console()
    golden = int(fine.golden.sum())
    say(
        screen,
        f"{profiled.kernel}: {fine.duration_s * 1e6:.1f} us, {golden} of {fine.runs} runs golden"
        f" (margin {fine.guide.margin:.0%}); steady from execution {fine.sse + 1} (time) and"
        f" {fine.ssp + 1} (power)",
    )
    for note in profiled.notes:
        say(screen, note)
    show_table(summary(profiled), console=screen)
    among = context_table(profiled)
    if among is not None:
        show_table(among, title="by what ran before", console=screen)
    for path in written:
        say(screen, f"wrote {path}")
