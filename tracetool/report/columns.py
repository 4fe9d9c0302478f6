"""Columns as people read them: headings with units, numbers with as many digits as they deserve."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from tracetool.core import escape
from tracetool.core.number_text import number, share
from tracetool.report.layout import rank_of

#: Unit suffixes of column names, of two that fit the longer first, and how people write them.
UNITS: Final = {
    "_per_s": "1/s", "_bytes": "B", "_gib": "GiB", "_mhz": "MHz", "_pct": "%", "_ns": "ns", "_us": "µs",
    "_ms": "ms", "_mj": "mJ",
    "_kj": "kJ", "_pj": "pJ", "_s": "s", "_w": "W", "_j": "J", "_g": "g", "_c": "°C", "_v": "V",
}  # fmt: skip
#: Larger units, tried when every figure of a column is large or small.
_LADDERS: Final = (
    (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)),
    (("pJ", 1e-12), ("µJ", 1e-6), ("mJ", 1e-3), ("J", 1.0), ("kJ", 1e3), ("MJ", 1e6)),
    (("µg", 1e-6), ("mg", 1e-3), ("g", 1.0), ("kg", 1e3), ("t", 1e6)),
    (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)),
)
#: Columns that people read in other words: shares say of what they are, rates their unit.
_WORDS: Final = {
    "share": "of run", "time share": "of time", "kernel share": "of kernels", "device": "GPU",
    "tflops": "TFLOP/s", "tbps": "TB/s", "flop per byte": "FLOP/B", "gflop per joule": "GFLOP/J",
    "roofline share": "of roof",
}  # fmt: skip
#: Longer texts may break into lines; shorter ones keep theirs. [letters]
_LONG: Final = 32
#: A figure with its unit or its interval, or a range of two, written out already.
_FIGURE: Final = re.compile(
    r"(\?|[-+]?[\d,.]+(e[-+]?\d+)?( \S{1,5})?( to [-+]?[\d,.]+(e[-+]?\d+)?( \S{1,5})?)?"
    r"( \([-+\d,.e]+\))?)?"
)


@dataclass(frozen=True)
class Shown:
    """One column ready to print: heading and cells as text, cells still unescaped."""

    heading: str
    cells: list[str]
    numeric: bool
    rank: int = 0
    column: str = ""  # of the table

    @property
    def style(self) -> str:
        """How a page sets the column: figures (``n``), names too long for a line (``long``), short texts."""
        if self.numeric:
            return "n"
        return "long" if max(map(len, self.cells), default=0) > _LONG else "short"


def split_unit(column: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit (empty where it states none).

    >>> split_unit("energy_mj"), split_unit("bound"), split_unit("tokens_per_s")
    (('energy', 'mJ'), ('bound', ''), ('tokens', '1/s'))
    """
    for suffix, unit in UNITS.items():
        if column.endswith(suffix) and len(column) > len(suffix):
            return column[: -len(suffix)], unit
    return column, ""


def _scale(unit: str, values: list[float]) -> tuple[str, float]:
    finite = [abs(v) for v in values if v and math.isfinite(v)]
    ladder = next((ladder for ladder in _LADDERS if any(unit == u for u, _ in ladder)), None)
    if ladder is None or not finite:
        return unit, 1.0
    size_of_unit = next(size for u, size in ladder if u == unit)
    largest = max(finite) * size_of_unit
    best = [(u, size) for u, size in ladder if largest >= size] or [ladder[0]]
    return best[-1][0], size_of_unit / best[-1][1]


def _places(values: list[float]) -> int | None:
    """Return the decimals of a column, small ones aligned: four digits of its largest, five above 1."""
    finite = [abs(v) for v in values if v and math.isfinite(v)]
    if not finite:
        return None
    size = math.floor(math.log10(max(finite)))
    return max(0, min(6, (4 if size >= 0 else 3) - size))


def _without_noise(values: list[float | None], unit: str) -> list[float | None]:
    """Return a column's figures, those as small as rounding errors as zero."""
    largest = max((abs(v) for v in values if v and math.isfinite(v)), default=0.0)
    least = max(1e-9 * largest, 1e-12 if unit in ("J", "s", "W") else 0.0)
    return [0.0 if v is not None and abs(v) < least else v for v in values]


def _ends(column: str, names: set[str]) -> tuple[str, str] | None:
    """Return the columns of a figure's interval, ``energy_low_j`` or ``energy_j_low``; None without."""
    base, unit = split_unit(column)
    suffix = column[len(base) :] if unit else ""
    both = ((f"{base}_low{suffix}", f"{base}_high{suffix}"), (f"{column}_low", f"{column}_high"))
    return next((ends for ends in both if names.issuperset(ends)), None)


def show_columns(frame: pl.DataFrame, headers: Mapping[str, str], width: int) -> list[Shown]:
    """Return the columns of a table as text.

    ``headers`` gives headings by column; one without a unit in brackets gets the column's.
    A figure with ``_low`` and ``_high`` beside it is shown with its interval in one column. Beside a
    column ``unit``, figures without one but shares have that of their row: each is rounded by itself. Texts
    are made printable and cut to ``width``; the caller escapes them for its output.
    """
    columns: list[Shown] = []
    names = set(frame.columns)
    for column in frame.columns:
        base, unit = split_unit(column)
        if ends := _ends(column, names):
            shown = _with_interval(frame, (column, *ends), headers.get(column), unit, base)
        elif _is_end(column, names):
            continue
        elif not unit and "unit" in names and frame[column].dtype.is_float() and not base.endswith("share"):
            shown = _of_many_units(frame[column], headers.get(column), base)
        else:
            shown = _plain(frame[column], headers.get(column), unit, base, width)
        columns.append(replace(shown, rank=rank_of(column), column=column))
    return _with_named_rows(columns)


def with_entries(columns: list[Shown]) -> list[Shown]:
    """Return the columns without those that hold nothing in any row; the first stays."""
    return [c for i, c in enumerate(columns) if i == 0 or not c.cells or any(c.cells)]


def _with_named_rows(columns: list[Shown]) -> list[Shown]:
    """Return the columns, the first of texts never left out where no other names the rows."""
    texts = [at for at, shown in enumerate(columns) if not shown.numeric]
    if texts and not any(columns[at].rank == 0 for at in texts):
        columns[texts[0]] = replace(columns[texts[0]], rank=0)
    return columns


def _is_end(column: str, names: set[str]) -> bool:
    base, unit = split_unit(column)
    suffix = column[len(base) :] if unit else ""
    for end in ("_low", "_high"):
        if base.endswith(end):
            stem = base[: -len(end)]
            if {f"{stem}{suffix}", f"{stem}_low{suffix}", f"{stem}_high{suffix}"} <= names:
                return True
    return False


def _heading(base: str, unit: str) -> str:
    words = base.replace("_", " ")
    words = _WORDS.get(words, words)
    return f"{words} [{unit}]" if unit else words


def _with_interval(
    frame: pl.DataFrame, columns: tuple[str, str, str], header: str | None, unit: str, base: str
) -> Shown:
    value, low, high = ([None if v is None else float(v) for v in frame[c].to_list()] for c in columns)
    states_unit = header is not None and "[" in header
    shown_unit, factor = (unit, 1.0) if states_unit else _scale(unit, [v for v in value if v is not None])
    places = _places([v * factor for v in value if v is not None])
    cells = []
    for v, a, b in zip(value, low, high, strict=True):
        if v is None:
            cells.append("")
            continue
        shown = number(v * factor, 4, places)
        ends = [] if a is None or b is None else [number(end * factor, 3, places) for end in (a, b)]
        alike = shown[0] in "<>" and set(ends) == {shown}  # all three round to zero
        cells.append(f"{shown} ({ends[0]}..{ends[1]})" if ends and not alike else shown)
    return Shown(_headed(header, base, shown_unit), cells, True)


def _headed(header: str | None, base: str, unit: str) -> str:
    """Return the heading: the one given, whole where it states a unit, else with the unit."""
    return header if header and "[" in header else _heading(header or base, unit)


def _of_many_units(column: pl.Series, header: str | None, base: str) -> Shown:
    """Return a column whose unit is another in each row: every figure is rounded by itself."""
    cells = [
        f"{v:,.0f}" if v is not None and math.isfinite(v) and v == round(v, 0) else number(v)
        for v in column.to_list()
    ]
    return Shown(_headed(header, base, ""), cells, True)


def _percent(value: float | None, *, of_whole: bool) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    return share(value) if of_whole else f"{round(value, 1) + 0.0:,.1f}"


def _plain(column: pl.Series, header: str | None, unit: str, base: str, width: int) -> Shown:
    values = column.to_list()
    if column.dtype.is_float() or (column.dtype.is_integer() and unit in ("ns", "B")):
        floats = _without_noise([None if v is None else float(v) for v in values], unit)
        states_unit = header is not None and "[" in header
        shown_unit, factor = (
            (unit, 1.0) if states_unit else _scale(unit, [v for v in floats if v is not None])
        )
        scaled = [None if v is None else v * factor for v in floats]
        if not unit and base.endswith("share"):
            percents = [None if v is None else 100 * v for v in floats]
            return Shown(_headed(header, base, "%"), [_percent(v, of_whole=True) for v in percents], True)
        if unit == "%":
            of_whole = base.endswith("share")
            return Shown(_headed(header, base, unit), [_percent(v, of_whole=of_whole) for v in scaled], True)
        if all(v is None or v == round(v, 0) for v in scaled if v is None or math.isfinite(v)):
            cells = [number(v) if v is None or not math.isfinite(v) else f"{v:,.0f}" for v in scaled]
            return Shown(_headed(header, base, shown_unit), cells, True)
        places = _places([v for v in scaled if v is not None])
        cells = [number(v, 4, places) for v in scaled]
        return Shown(_headed(header, base, shown_unit), cells, True)
    heading = _headed(header, base, unit)
    if column.dtype.is_integer():
        return Shown(heading, ["" if v is None else f"{v:,}" for v in values], True)
    if column.dtype == pl.Boolean:
        return Shown(heading, ["" if v is None else "yes" if v else "no" for v in values], False)
    texts = ["" if v is None else v if isinstance(v, str) else str(v) for v in values]
    figures = any(texts) and all(_FIGURE.fullmatch(t) for t in texts)
    return Shown(heading, [escape.name(t, width) for t in texts], figures)
