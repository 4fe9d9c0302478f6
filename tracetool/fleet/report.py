"""A fleet's answers on one page, and the difference of two data sets."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted, number
from tracetool.fleet import queries
from tracetool.fleet.storage import Place
from tracetool.report.pictures.power_swing import PREDICTED_INK
from tracetool.report.pictures.svg import Drawing as Picture
from tracetool.report.pictures.svg import label_that_fits
from tracetool.report.sentences import shorten_names
from tracetool.report.view import Block, Drawing, Grid, Line

#: Bars of a picture, rows of a table of the page.
_BARS: Final = 12
_ROWS: Final = 20
_WIDTH, _ROW, _NAMES = 900.0, 24.0, 330.0
#: Letters of a name beside a bar.
_LETTERS: Final = 42
#: Questions of the page in order: what energy is summed by, and what it is called.
_SUMS: Final = (
    ("kernel", "Kernels of most energy"), ("family", "Energy by family"), ("gpu", "Energy by GPU"),
    ("month", "Energy by month"), ("job", "Jobs of most energy"),
)  # fmt: skip


def changes(base: Place, head: Place, by: str) -> pl.DataFrame:
    """Return the energy of two data sets side by side, the largest change first.

    Their errors are taken as independent: of one sensor or one model they are partly shared, and the interval
    of ``energy_more_pct`` is then too wide. ``verdict`` is ``more`` or ``less`` where that interval excludes
    no change, else ``inconclusive``; names of one data set alone are ``only base`` or ``only head``.

    Raises
    ------
    BadInput
        If nothing was attributed, or there is no such column or label.
    """
    columns = ("name", "energy_j", "energy_low_j", "energy_high_j", "time_ms", "launches")
    one, two = (queries.energy(place, by).select(columns) for place in (base, head))
    joined = one.join(two, on="name", how="full", coalesce=True, suffix="_head")
    before, after = pl.col("energy_j"), pl.col("energy_j_head")
    ratio = after / before
    reach = ratio * (_half("") ** 2 + _half("_head") ** 2).sqrt()
    rows = joined.select(
        "name", before.alias("base_energy_j"), after.alias("head_energy_j"),
        (after - before).alias("energy_more_j"), (100.0 * (ratio - 1.0)).alias("energy_more_pct"),
        (100.0 * (ratio - 1.0 - reach)).alias("energy_more_low_pct"),
        (100.0 * (ratio - 1.0 + reach)).alias("energy_more_high_pct"),
        (100.0 * (pl.col("time_ms_head") / pl.col("time_ms") - 1.0)).alias("longer_pct"),
        pl.col("launches").alias("base_launches"), pl.col("launches_head").alias("head_launches"),
    )  # fmt: skip
    return rows.with_columns(_verdict("base_energy_j", "head_energy_j").alias("verdict")).sort(
        pl.col("energy_more_j").abs(), "name", descending=[True, False], nulls_last=True
    )


def _verdict(before: str, after: str) -> pl.Expr:
    """Return the verdict by the columns of the answer."""
    more, less = pl.col("energy_more_low_pct") > 0, pl.col("energy_more_high_pct") < 0
    return (
        pl.when(pl.col(before).is_null())
        .then(pl.lit("only head"))
        .when(pl.col(after).is_null())
        .then(pl.lit("only base"))
        .when(more)
        .then(pl.lit("more"))
        .when(less)
        .then(pl.lit("less"))
        .otherwise(pl.lit("inconclusive"))
    )


def _half(suffix: str) -> pl.Expr:
    low, high = pl.col(f"energy_low_j{suffix}"), pl.col(f"energy_high_j{suffix}")
    return 0.5 * (high - low) / pl.col(f"energy_j{suffix}")


def savings_title(slowdown: float) -> str:
    """Return what the savings within a slowdown [1] are called."""
    return f"Energy that clocks would save within {100.0 * slowdown:g} % more time"


def page(place: Place) -> tuple[pl.DataFrame, tuple[Block, ...]]:
    """Return the figures of a fleet's page, and its blocks: a picture and a table for each question.

    Raises
    ------
    BadInput
        If nothing was attributed.
    """
    job_table = queries.jobs(place)
    labels = [c for c in job_table.columns if c not in queries.OF_JOBS]
    kernels = counted(int(job_table["kernels"].sum()), "kernel")
    blocks: list[Block] = [Line(f"{counted(job_table.height, 'job')}, {kernels}", "headline")]
    answers = []
    for by, title in (*((label, f"Energy by {label}") for label in labels), *_SUMS):
        rows = queries.energy(place, by)
        answers.append(rows.insert_column(0, pl.Series("question", [title] * rows.height, dtype=pl.String)))
        blocks += _answer(title, rows, "energy_j", "J")
    for title, unit in (("GPUs by energy at equal work", "%"), (savings_title(queries.SLOWDOWN), "J")):
        try:
            rows = queries.outliers(place) if unit == "%" else queries.savings(place, queries.SLOWDOWN)
        except BadInput as error:
            blocks.append(Line(f"{title}: {error.line()}", "note"))
            continue
        if rows.height:
            blocks += _answer(title, rows, "energy_more_pct" if unit == "%" else "saved_energy_j", unit)
    return pl.concat(answers, how="diagonal_relaxed"), tuple(blocks)


def _answer(title: str, rows: pl.DataFrame, figure: str, unit: str) -> list[Block]:
    stated = rows[figure].count()
    caption = f"{title} [{unit}]: {min(stated, _BARS)} of {rows.height}; lines are 90 % intervals"
    answer = rows.drop("question", strict=False)  # the question is its title
    table = Grid(answer, title, _ROWS, headers={"share": "of all"})  # of all jobs, not of one run
    return [Drawing(_bars(title, rows, figure, unit), caption), table]


def _bars(title: str, rows: pl.DataFrame, figure: str, unit: str) -> str:
    """Return bars of the first rows with their 90 % intervals."""
    stem, _, end = figure.rpartition("_")
    shown = rows.filter(pl.col(figure).is_not_null()).head(_BARS)
    ends = [shown[f"{stem}_{e}_{end}"].to_list() for e in ("low", "high")]
    low = min([0.0, *(v for v in ends[0] if v is not None)])
    high = max([0.0, *(v for v in ends[1] if v is not None)]) or 1.0
    scale = (_WIDTH - _NAMES - 90.0) / (high - low or 1.0)
    caption = f"The first {shown.height} of {rows.height}; lines are 90 % intervals. [{unit}]"
    picture = Picture(_WIDTH, _ROW * (shown.height + 1), title, caption)
    zero = _NAMES - scale * low
    names = [str(name or "(no name)") for name in shown["name"].to_list()]
    labels = shorten_names(names, _LETTERS)
    for at, (name, label, value, least, most) in enumerate(
        zip(names, labels, shown[figure].to_list(), *ends, strict=True)
    ):
        y = _ROW * at + 4.0
        text = label_that_fits(label, _NAMES - 12.0)
        picture.text(_NAMES - 8.0, y + 13.0, text, font_size=12.0, text_anchor="end", fill="currentColor")
        start = zero + scale * min(value, 0.0)
        picture.mark(
            "rect", name, x=start, y=y, width=scale * abs(value), height=16.0, fill=PREDICTED_INK,
            fill_opacity=0.55,
        )  # fmt: skip
        if least is not None and most is not None:
            where = {"x1": zero + scale * least, "x2": zero + scale * most, "y1": y + 8.0, "y2": y + 8.0}
            picture.mark("line", **where, stroke="currentColor", stroke_width=1.5)
        right = zero + scale * max(value, most or value, 0.0)
        picture.text(right + 6.0, y + 13.0, f"{number(value, 3)} {unit}", font_size=12.0, fill="currentColor")
    return picture.svg()
