"""How a forecast looks on the console."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracetool.core.number_text import number as significant
from tracetool.core.number_text import share
from tracetool.forecast.case import COLUMNS
from tracetool.report.sentences import open_console, say
from tracetool.report.terminal.forecast_grid import Grid, print_explored
from tracetool.report.terminal.prediction import number
from tracetool.report.terminal.trace_comparison import ComparedSides, print_compared

if TYPE_CHECKING:
    import polars as pl


class CheckedModel(Protocol):
    """Output of a model beside torch's counts of it."""

    @property
    def frame(self) -> pl.DataFrame:
        """A row per quantity."""

    @property
    def library(self) -> str:
        """Library whose model was counted."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on quantities that were not compared."""


class Forecasted(Protocol):
    """Output of one case or many."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per case."""

    @property
    def single(self) -> bool:
        """Whether the cases are of one model."""

    @property
    def parts(self) -> pl.DataFrame:
        """Operators of the model."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Further facts of the model."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""

    @property
    def title(self) -> str:
        """Title: the case that was requested."""

    @property
    def compared(self) -> ComparedSides | None:
        """One case against a trace."""

    @property
    def checked(self) -> CheckedModel | None:
        """Model beside torch's counts."""

    @property
    def grid(self) -> Grid | None:
        """The best cases, where several of one model were requested."""


#: Figures as people read them, in the order they are printed.
_LABELS: Final = (
    ("energy_per_token_j", "energy per output token", "J"),
    ("energy_per_item_j", "energy per request", "J"),
    ("power_w", "power, all GPUs", "W"),
    ("step_ms", "step", "ms"),
    ("ttft_ms", "time to first token", "ms"),
    ("itl_ms", "time between tokens", "ms"),
    ("tokens_per_s", "output tokens per second", "1/s"),
    ("memory_gib", "memory of a GPU", "GiB"),
)
_OTHER_LABELS: Final = {
    "train": {
        "energy_per_token_j": "energy per token",
        "energy_per_item_j": "energy per sequence",
        "tokens_per_s": "tokens per second",
    },
    "prefill": {
        "energy_per_token_j": "energy per first token",
        "energy_per_item_j": "energy per prompt",
        "tokens_per_s": "prompts per second",
    },
    "generate": {"energy_per_item_j": "energy per image or video", "step_ms": "time of a batch"},
    "pass": {"energy_per_item_j": "energy per item", "step_ms": "pass"},
}
_OPERATORS_SHOWN: Final = 12


def print_forecast(forecasted: Forecasted, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the figures, where the energy goes, and what they rest on; of many cases a table."""
    screen = open_console()
    if forecasted.single:
        _print_one(forecasted)
    elif forecasted.grid is not None:
        print_explored(forecasted.grid, forecasted.title)
    else:
        _print_cases(forecasted.frame)
    notes = forecasted.notes
    if forecasted.checked is not None:
        _print_checked(forecasted.checked)
        notes += forecasted.checked.notes
    for note in notes:
        say(screen, f"note: {note}")
    for path in written:
        say(screen, f"wrote {path}")


def _print_one(forecasted: Forecasted) -> None:
    from tracetool.report.layout import Table

    screen = open_console()
    record = forecasted.frame.to_dicts()[0]
    grid = Table(title=forecasted.title, all_with="--json")
    for head in ("", "forecast", "90 % interval"):
        grid.add_column(head, justify="left" if not head else "right")
    for cells in figure_rows(record):
        grid.add_row(*cells)
    screen.print(grid)
    for text in fact_sentences(record, forecasted.facts):
        say(screen, text)
    if forecasted.compared is not None:
        print_compared(forecasted.compared)
        return
    _print_families(forecasted.parts, "batch" if record.get("mode") == "generate" else "step")
    _print_operators(forecasted.parts)


def _print_checked(checked: CheckedModel) -> None:
    from tracetool.report.layout import Table

    title = (
        f"The model beside torch's meta device, {checked.library} (one pass of 2 x 256 tokens or 2 pictures)"
    )
    grid = Table(title=title, all_with="--json")
    for head in ("quantity", "unit", "forecast", "torch", "difference"):
        grid.add_column(head, justify="left" if head in ("quantity", "unit") else "right")
    for row in checked.frame.to_dicts():
        figures = (f"{row[side]:.6g}" for side in ("forecast", "torch"))
        grid.add_row(row["quantity"], row["unit"], *figures, f"{100 * row['difference']:+.2f} %")
    open_console().print(grid)


def figure_rows(record: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the figures of one case: name, figure with unit, ends of its 90 % interval."""
    labels = _OTHER_LABELS.get(str(record.get("mode")), {})
    return [
        (
            labels.get(name, usual),
            f"{number(record[name])} {unit}",
            f"{number(record[f'{name}_low'])} to {number(record[f'{name}_high'])}",
        )
        for name, usual, unit in _LABELS
        if record[name] is not None
    ]


def fact_sentences(record: Mapping[str, Any], facts: Mapping[str, float]) -> list[str]:
    """Return what else is known of one case, a sentence each."""
    said = [f"{100 * record['covered']:.0f} % of the kernels' time rests on kernels measured on this GPU"]
    if record["largest_batch"] is not None:
        said.append(f"largest batch that fits: {record['largest_batch']:.0f}")
    if rate := facts.get("prompt_tokens_per_s"):
        said.append(f"prompt tokens: {number(rate)} per second, {number(record['power_w'] / rate)} J each")
    if "mixed_share" in facts:
        said.append(
            f"{significant(100 * facts['mixed_share'], 2)} % of the steps take in prompts: "
            f"{number(facts['mixed_step_ms'])} ms, others {number(facts['decode_step_ms'])} ms"
        )
    return said


def _print_families(operators: pl.DataFrame, work: str) -> None:
    import polars as pl

    from tracetool.report.layout import Table

    grid = Table(title=f"Where the joules go (one {work} of one GPU)", all_with="--json")
    for head in ("family", "energy J", "of energy", "time ms", "of time"):
        grid.add_column(head, justify="left" if head == "family" else "right")
    sums = operators.group_by("family", maintain_order=True).agg(
        pl.col("energy_j").sum(), pl.col("time_ms").sum(), pl.col("energy_share_pct").sum()
    )
    total_ms = float(operators["time_ms"].sum()) or 1.0
    for row in sums.sort("energy_j", descending=True).to_dicts():
        grid.add_row(
            str(row["family"]),
            number(row["energy_j"]),
            f"{share(row['energy_share_pct'])} %",
            number(row["time_ms"]),
            f"{share(100 * row['time_ms'] / total_ms)} %",
        )
    open_console().print(grid)


def _print_operators(operators: pl.DataFrame) -> None:
    from rich.markup import escape

    from tracetool.report.layout import Table

    grid = Table(title="Operators of most energy", all_with="--json")
    for head in ("module", "energy J", "of energy", "time ms", "launches", "shape", "basis"):
        grid.add_column(head, justify="left" if head in ("module", "shape", "basis") else "right")
    for row in operators.head(_OPERATORS_SHOWN).to_dicts():
        grid.add_row(
            escape(str(row["module"])),
            number(row["energy_j"]),
            f"{share(row['energy_share_pct'])} %",
            number(row["time_ms"]),
            f"{row['launches']:.4g}",
            escape(str(row["shape"])),
            escape(str(row["basis"])),
        )
    open_console().print(grid)


#: Ends of intervals: the console leaves all but those of energies to files.
_ENDS: Final = ("_low", "_high")


def _print_cases(frame: pl.DataFrame) -> None:
    """Print a table of cases: the columns in which cases differ, energies, then the rest; models by name."""
    import polars as pl

    from tracetool.report.console import show_table

    shown = [
        c
        for c in frame.columns
        if frame[c].null_count() < frame.height and (c.startswith("energy") or not c.endswith(_ENDS))
    ]
    case_columns = [c for c in shown if c in COLUMNS]
    telling = [c for c in case_columns if c == "model" or frame[c].n_unique() > 1]
    paths = frame["model"].cast(pl.String)
    names = paths.str.split("/").list.last().str.strip_suffix(".json")
    if names.n_unique() == paths.n_unique():
        frame = frame.with_columns(names.alias("model"))
    figures = [c for c in shown if c not in telling and c not in case_columns]
    figures.sort(key=lambda c: not c.startswith("energy"))
    alike = [c for c in case_columns if c not in telling]
    show_table(frame.select(*telling, *figures, *alike), title="Forecasts (90 % interval)", about=telling)
