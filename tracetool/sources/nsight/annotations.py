"""NVTX: operators with shapes where ``torch.autograd.profiler.emit_nvtx`` wrote them, ranges else."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracetool.sources.columns import clean_text

Read = Callable[..., pl.DataFrame]
_I = pl.Int64()
_PUSH_POP, _START_END, _MARK = 59, 60, 34
_COLUMNS = {"start": _I, "end": _I, "eventType": _I, "text": pl.String(), "textId": _I, "globalTid": _I}
_MASK = (1 << 24) - 1


def split_operators(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split named intervals into framework operators and other ranges.

    Notes
    -----
    ``emit_nvtx`` writes ``NAME, seq = N, op_id = N, sizes = [[..], ..], input_op_ids = [..]``, each
    part optional. A name of the ``aten::`` kind without parts is an operator too.
    """
    text = pl.col("name")
    is_operator = text.str.contains(r"(?:, (?:seq|op_id) = \d+)|, sizes = \[|^aten::\w+$")
    operators = frame.filter(is_operator).with_columns(
        name=text.str.extract(r"^(.*?)(?:, (?:seq|op_id|sizes|input_op_ids) = .*)?$", 1),
        input_dims=text.str.extract(r", sizes = (\[.*?\])(?:, input_op_ids = .*)?$", 1),
        sequence=text.str.extract(r", seq = (\d{1,18})", 1).cast(_I, strict=False),
        external_id=pl.lit(None, dtype=_I),
    )
    return operators, frame.filter(~is_operator)


def read_annotations(read: Read, named: Callable[..., pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return operators and ranges of ``NVTX_EVENTS``."""
    frame = read("NVTX_EVENTS", _COLUMNS, ("eventType", (_PUSH_POP, _START_END, _MARK)))
    frame = named(frame, "textId", "registered")
    frame = frame.with_columns(name=clean_text(pl.coalesce("text", pl.col("registered").cast(pl.String))))
    end = pl.when(pl.col("eventType") == _MARK).then(pl.col("start")).otherwise(pl.col("end"))
    frame = frame.select(
        "name",
        start_ns=pl.col("start"),
        duration_ns=end - pl.col("start"),
        process=(pl.col("globalTid") // (1 << 24)) & _MASK,
        thread=pl.col("globalTid") & _MASK,
    )
    frame = frame.drop_nulls(["name", "start_ns", "duration_ns"]).filter(pl.col("duration_ns") >= 0)
    return split_operators(frame)
