"""Shapes, types and scalars of framework calls as list columns: from the profilers' JSON text, and to text.

PyTorch writes a list per argument: a tensor's sizes, or the sizes of each tensor of a list of tensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import polars as pl

_DIMS: Final = pl.List(pl.List(pl.Int64()))
_LIST_DIMS: Final = pl.List(pl.List(pl.List(pl.Int64())))
_TEXTS: Final = pl.List(pl.String())
_LARGEST: Final = 1 << 63


def dims_of(text: str) -> list[list[int | None] | None] | None:
    """Return the sizes of each argument, None where it is no tensor, and None for a size that is no number.

    >>> dims_of('[[4, 8], [], [[2, 3], [4]], "x"]')
    [[4, 8], [], None, None]
    """
    arguments = _list(text)
    return None if arguments is None else [None if _is_nested(a) else _sizes(a) for a in arguments]


def list_dims_of(text: str) -> list[list[list[int | None] | None] | None] | None:
    """Return the sizes of each tensor of the arguments that are lists of tensors; None where none is one.

    >>> list_dims_of("[[4, 8], [[2, 3], [4]]]"), list_dims_of("[[4, 8]]")
    ([None, [[2, 3], [4]]], None)
    """
    arguments = _list(text) or []
    groups = [[_sizes(v) for v in a] if _is_nested(a) else None for a in arguments]
    return groups if any(groups) else None


def texts_of(text: str) -> list[str | None] | None:
    """Return a list of texts; what is none is spelled, null stays None.

    >>> texts_of('["float", "", 1, null]')
    ['float', '', '1', None]
    """
    values = _list(text)
    return None if values is None else [None if v is None else str(v) for v in values]


#: Per list column: the text it comes from, how it is read, and its type.
_READ: Final[dict[str, tuple[str, Callable[[str], Any], pl.DataType]]] = {
    "input_dims": ("input_dims", dims_of, _DIMS),
    "input_list_dims": ("input_dims", list_dims_of, _LIST_DIMS),
    "input_types": ("input_types", texts_of, _TEXTS),
    "concrete_inputs": ("concrete_inputs", texts_of, _TEXTS),
}


def from_text(column: str, frame: pl.DataFrame) -> pl.Expr | None:
    """Return the expression that reads a list column from JSON text, None where there is no such text."""
    if column not in _READ:
        return None
    source, read, kind = _READ[column]
    if source not in frame.columns or isinstance(frame.schema[source], pl.List):
        return None

    def decoded(texts: pl.Series) -> pl.Series:
        distinct = texts.unique()
        values = [None if t is None else read(t) for t in distinct.cast(pl.String).to_list()]
        table = pl.DataFrame({"text": distinct, "value": pl.Series(values, dtype=kind)})
        rows = pl.DataFrame({"text": texts})
        joined = rows.join(table, on="text", how="left", nulls_equal=True, maintain_order="left")
        return joined["value"].alias(column)

    return pl.col(source).map_batches(decoded, return_dtype=kind, is_elementwise=True).alias(column)


def as_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the list columns of calls, read where they are text, null where absent."""
    lists = []
    for column, (_, _, kind) in _READ.items():
        expression = from_text(column, frame)
        if expression is not None:
            lists.append(expression)
        elif column not in frame.columns:
            lists.append(pl.lit(None, dtype=kind).alias(column))
    return frame.with_columns(lists)


def shape_texts(signatures: pl.DataFrame) -> pl.Series:
    """Return shapes and types of each signature's call as profilers spell them, empty where absent."""
    columns = ("input_dims", "input_list_dims", "input_types")
    texts = [_spelled(*row) for row in as_lists(signatures).select(columns).iter_rows()]
    return pl.Series("shapes", texts, dtype=pl.String)


def _spelled(dims: list[Any] | None, groups: list[Any] | None, types: list[Any] | None) -> str:
    merged = dims
    if dims is not None and groups is not None:
        merged = [d if g is None else g for d, g in zip(dims, groups, strict=True)]
    return " ".join(json.dumps(part) for part in (merged, types) if part is not None)


def _list(text: str) -> list[Any] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, list) else None


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, list) for v in value)


def _sizes(value: object) -> list[int | None] | None:
    if not isinstance(value, list):
        return None
    return [
        v if isinstance(v, int) and not isinstance(v, bool) and -_LARGEST <= v < _LARGEST else None
        for v in value
    ]
