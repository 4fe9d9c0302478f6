"""How a forecast against a trace looks on the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracetool.core.number_text import counted, number
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    import polars as pl


class ComparedSides(Protocol):
    """Output of a forecast against a trace."""

    @property
    def frame(self) -> pl.DataFrame:
        """A row per piece of work."""

    @property
    def steps(self) -> float:
        """Steps of the forecast in the trace."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Sums of both sides. [us]"""


_SHOWN: Final = 30


def print_compared(compared: ComparedSides) -> None:
    """Print matched work, largest first, then what each side has alone."""
    import polars as pl

    from tracetool.report.layout import Table

    screen, facts = open_console(), compared.facts
    matched = compared.frame.filter(pl.col("ratio").is_not_null())
    table = Table(
        title=f"Against the trace, one of {compared.steps:.4g} steps (90 % interval)", all_with="-o FILE"
    )
    table.add_column("operator", rank=0)
    for head, rank in (("predicted us", 1), ("measured us", 1), ("ratio", 1), ("launches", 3)):
        table.add_column(head, justify="right", rank=rank)
    table.add_column("shape", rank=4)
    table.add_column("match", rank=5)
    for row in matched.head(_SHOWN).to_dicts():
        table.add_row(*_cells(row))
    screen.print(table)
    if matched.height > _SHOWN:
        say(screen, f"{counted(matched.height - _SHOWN, 'more row')} (use -o FILE)", "dim")
    _print_alone(compared.frame, "forecast only", "operator", "predicted_us")
    _print_alone(compared.frame, "trace only", "kernel", "measured_us")
    measured, predicted = facts["measured_us"], facts["predicted_us"]
    shares = [facts[f"measured_{match}_us"] / measured for match in ("sizes", "family", "trace_only")]
    say(
        screen,
        f"kernels of a step: {number(predicted)} us predicted, {number(measured)} us measured, ratio "
        f"{predicted / measured:.2f}; of the measured time {100 * shares[0]:.0f} % match by sizes, "
        f"{100 * shares[1]:.0f} % by family, {100 * shares[2]:.0f} % by nothing",
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    from rich.markup import escape

    low, high = number(row["predicted_us_low"], 3), number(row["predicted_us_high"], 3)
    name = row["operator"] if row["match"] == "sizes" else f"{row['family']}, sizes not in the trace"
    predicted, measured = row["predicted_launches"], row["measured_launches"]
    return [
        escape(str(name)), f"{number(row['predicted_us'])} ({low}..{high})", number(row["measured_us"]),
        f"{row['ratio']:.2f}", f"{predicted:.4g}/{measured:.4g}", escape(row["shape"]), row["match"],
    ]  # fmt: skip


def _print_alone(frame: pl.DataFrame, match: str, name: str, time: str) -> None:
    from rich.markup import escape

    from tracetool.report.layout import Table

    alone = frame.filter(match=match)
    if not alone.height:
        return
    share = 100 * float(alone[time].sum()) / (float(frame[time].sum()) or 1.0)
    table = Table(title=f"{match.capitalize()}: {share:.0f} % of its time", all_with="-o FILE")
    for head in (name, "us", "launches", "family", "shape"):
        table.add_column(head, justify="right" if head in ("us", "launches") else "left")
    launches = time.replace("_us", "_launches")
    for row in alone.head(_SHOWN // 2).to_dicts():
        table.add_row(
            escape(str(row[name])), number(row[time]), f"{row[launches]:.4g}", row["family"], row["shape"]
        )
    open_console().print(table)
    if alone.height > _SHOWN // 2:
        say(open_console(), f"{counted(alone.height - _SHOWN // 2, 'more row')} (use -o FILE)", "dim")
