"""How many cases of one model look on the console: one table, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from tracetool.core import number_text
from tracetool.core.number_text import counted
from tracetool.report.sentences import cell_width, open_console, say
from tracetool.report.terminal.prediction import number

if TYPE_CHECKING:
    import polars as pl


class Grid(Protocol):
    """Output of many cases of one model."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per case, with throughput of one GPU and fronts."""

    @property
    def best(self) -> pl.DataFrame:
        """One row per goal."""

    @property
    def varied(self) -> tuple[str, ...]:
        """Columns that differ."""

    @property
    def latency(self) -> str:
        """Column of the time a case is judged by."""

    @property
    def energy(self) -> str:
        """Column of the energy a case is judged by."""

    @property
    def unit(self) -> str:
        """Unit of throughput."""


#: Cases shown; where there are more, those on a front.
_SHOWN: Final = 40
#: Column of the marks that the line on them explains.
_FRONT: Final = "front"
_HEADS: Final = {
    "clock_mhz": "clock MHz",
    "mem_clock_mhz": "mem MHz",
    "power_cap_w": "cap W",
    "host_us": "host us",
    "token_budget": "budget",
    "itl_ms": "ITL ms",
    "ttft_ms": "TTFT ms",
    "step_ms": "step ms",
}


def print_explored(grid: Grid, title: str) -> None:
    """Print the cases in the order of their latency, and the best case of each goal."""
    import polars as pl

    from tracetool.report.layout import Table, fit

    screen = open_console()
    valid = grid.frame.filter(pl.col("error").is_null())
    notable = pl.col("pareto_latency") | pl.col("pareto_throughput") | (pl.col("goals") != "")
    shown = valid if valid.height <= _SHOWN else valid.filter(notable)
    shown = _thinned(shown.sort(grid.latency, maintain_order=True))
    latency = _latency_head(grid).rpartition(" ")[0]
    marks = f"L: unbeaten in energy and {latency}, T: in energy and throughput, *: best of a goal"
    table = Table(title=title)
    _add_columns(table, grid)
    for row in shown.to_dicts():
        fronts = ("L" if row["pareto_latency"] else "") + ("T" if row["pareto_throughput"] else "")
        table.add_row(*_cells(row, grid), f"{row['power_w']:.0f}", f"{fronts} *" if row["goals"] else fronts)
    explained = _FRONT in (column.heading for column, _ in fit(table.columns, screen.width)[0])
    if in_title := explained and cell_width(f"{title}; {marks}") <= screen.width:
        table.title = f"{title}; {marks}"
    screen.print(table)
    if explained and not in_title:
        say(screen, marks, "dim")
    if shown.height < valid.height:
        say(screen, f"{counted(valid.height - shown.height, 'more case')} (use -o FILE or --json)", "dim")
    table = Table(title="Best cases: of all, or within the slowdown allowed", all_with="--json")
    table.add_column("goal", rank=0)
    _add_columns(table, grid, fronts=False)
    goals: dict[tuple[str, ...], list[str]] = {}
    for row in grid.best.to_dicts():
        goal, cells = str(row["goal"]).replace("least energy, ", ""), tuple(_cells(row, grid))
        table.add_row(goal, *cells)
        goals.setdefault(cells, []).append(goal)
    screen.print(table)
    for names in goals.values():
        if len(names) > 1:
            say(screen, f"the same case is best for {', '.join(names[:-1])} and {names[-1]}")


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """Return so many rows as are shown, evenly over the order, those of a goal among them."""
    import polars as pl

    if frame.height <= _SHOWN:
        return frame
    keep = {round(place * (frame.height - 1) / (_SHOWN - 1)) for place in range(_SHOWN)}
    return (
        frame.with_row_index("_place")
        .filter(pl.col("_place").is_in(sorted(keep)) | (pl.col("goals") != ""))
        .drop("_place")
    )


def _latency_head(grid: Grid) -> str:
    """Return the head of the time cases are judged by: of images or videos it is a whole batch's."""
    batch = grid.latency == "step_ms" and "generate" in grid.frame["mode"]
    return "batch ms" if batch else _HEADS[grid.latency]


def _add_columns(table: Any, grid: Grid, *, fronts: bool = True) -> None:
    for name in grid.varied:
        table.add_column(_HEADS.get(name, name), justify="right", rank=0)
    table.add_column(f"J/{grid.unit.removesuffix('s')} (90 %)", justify="right", rank=1)
    table.add_column(_latency_head(grid), justify="right", rank=2)
    table.add_column(f"{grid.unit}/s/GPU", justify="right", rank=2)
    if fronts:
        table.add_column("W", justify="right", rank=5)
        table.add_column(_FRONT, justify="left", rank=3)


def _cells(row: Mapping[str, Any], grid: Grid) -> Sequence[str]:
    low, high = (number_text.number(row[f"{grid.energy}_{end}"], 3) for end in ("low", "high"))
    time = row[grid.latency]  # none between tokens where requests put out one
    stated = (f"{number(row[grid.energy])} ({low}..{high})", "" if time is None else number(time))
    varied = [row[name] for name in grid.varied]
    shown = [value if isinstance(value, str) else f"{value:g}" for value in varied]
    return [*shown, *stated, number(row["throughput_per_gpu"])]
