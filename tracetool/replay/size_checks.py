"""Sizes of operator tables that no operator can have: parts of one, uneven heads, more than memories hold."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.families.registry import families
from tracetool.tables.schema import load_schema

#: Sizes that a whole operator counts; no other is as large as they may be.
_VOLUMES: Final = frozenset({"bytes", "elements"})
#: No other size is beyond this: as many values of a byte are more than most GPUs hold. [1]
_MOST: Final = 1e11
#: Sizes that another size of an operator's rows is a multiple of, by operator.
_MULTIPLES: Final = {
    operator.op: operator.multiple_of for family in families().values() for operator in family.table
}


def check_sizes(name: str, columns: pl.DataFrame) -> None:
    """Raise BadInput where a row's sizes cannot be those of an operator.

    Parameters
    ----------
    name : str
        The table's name for the message.
    columns : DataFrame
        Columns of an operator table, numbers as float64.
    """
    schema = load_schema("operator_table").columns
    sizes = [c.name for c in schema if c.type == "int64" and c.name in columns.columns]
    for column in sizes:
        values = columns[column]
        if (part := _true(values != values.floor())).any():
            row, value = _first(part, values)
            fix = f"state a whole number, e.g. {round(value)}"
            raise BadInput.in_file(name, f"row {row}, column {column}: {value:.10g} is not whole", fix)
        if column not in _VOLUMES and (vast := _true(values > _MOST)).any():
            row, value = _first(vast, values)
            fault = f"row {row}, column {column}: {value:g} is more than any GPU holds"
            raise BadInput.in_file(name, fault, f"state {_MOST:g} or less")
    _check_multiples(name, columns)
    _check_causal(name, columns)


def _check_multiples(name: str, columns: pl.DataFrame) -> None:
    """Raise BadInput where heads of queries are not divided evenly over those of keys."""
    for op, multiples in _MULTIPLES.items():
        for column, part in multiples.items():
            if not {column, part} <= set(columns.columns):
                continue
            uneven = _true((columns["op"] == op) & (columns[column] % columns[part] != 0.0))
            if uneven.any():
                row, value = _first(uneven, columns[column])
                divisor = columns[part][row - 1]
                fault = f"row {row}, column {part}: {column}, {value:g}, is no multiple of {divisor:g}"
                raise BadInput.in_file(name, fault, f"state {part} that divides {column}")


def _check_causal(name: str, columns: pl.DataFrame) -> None:
    """Raise BadInput where causal attention meets fewer tokens than ask: the first ones would see none."""
    if not {"causal", "q_len", "kv_len"} <= set(columns.columns):
        return
    blind = _true((columns["causal"] > 0.0) & (columns["kv_len"] < columns["q_len"]))
    if blind.any():
        row, value = _first(blind, columns["kv_len"])
        queries = columns["q_len"][row - 1]
        fault = f"row {row}, column kv_len: {value:g} is less than q_len, {queries:g}, and the row is causal"
        raise BadInput.in_file(name, fault, "kv_len counts the queries' own tokens, too; causal 0 sees all")


def _true(mask: pl.Series) -> pl.Series:
    return mask.fill_null(value=False)


def _first(mask: pl.Series, values: pl.Series) -> tuple[int, float]:
    """Return the first true row, counted from 1, and the value there."""
    place = int(mask.arg_true()[0])
    return place + 1, float(values[place])
