"""One truth about what makes a family's work known: readers of traces and tables agree with the counters."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.registry import count_work, families, known_shape
from tracetool.hardware.load import load_gpu
from tracetool.kernels import structure
from tracetool.replay.operator_tables import as_columns, read_table
from tracetool.replay.table_checks import OPERATORS

#: What other columns the trace's reader looks at.
_TOLD = ("call_elements", "call_stream_elements", "call_m", "call_q_len")
#: Columns a row may hold, of any family.
COLUMNS = sorted({
    *(c for family in families().values() for wanted in family.needs for c in wanted),
    *("kv_len", "split_k", "kernel_h", "kernel_w", "elements", "rows", "cols", "bytes"),
})  # fmt: skip
#: Complete sets, and each of them less one column.
SETS = sorted({
    *(w for f in families().values() for w in f.needs),
    *(tuple(c for c in w if c != gone) for f in families().values() for w in f.needs for gone in w),
    ("channels", "height", "filters"), ("channels", "height", "width", "filters"),
    ("q_len", "heads", "head_dim"), ("elements",), ("rows", "cols"), ("elements", "split_k"),
    ("elements", "cols"),
})  # fmt: skip


def _frame(family: str, *sets: tuple[str, ...], priced_as: str | None = None) -> pl.DataFrame:
    """Return a kernel of the family for each set of columns that it states."""
    n = len(sets)
    numbers = {c: [16.0 if c in columns else None for columns in sets] for c in (*COLUMNS, *_TOLD)}
    texts = {"family": [family] * n, "priced_as": [priced_as] * n, "main": [False] * n, "inferred": [""] * n}
    return pl.DataFrame(
        {**texts, **numbers},
        schema_overrides={**dict.fromkeys(numbers, pl.Float64), "priced_as": pl.String},
    )


def _needs_met(frame: pl.DataFrame) -> list[bool]:
    stated = frame.with_columns(pl.lit("operator").alias("shape_source"))
    return [bool(known) for known in known_shape(as_columns(stated, stated["family"]))]


def _stated(frame: pl.DataFrame) -> list[bool]:
    return (structure._sources(frame)["shape_source"] != "none").to_list()


@pytest.mark.parametrize("family", sorted(families()))
def test_a_trace_states_a_shape_exactly_where_the_counter_can_count(family: str) -> None:
    frame = _frame(family, *SETS)
    stated, met = _stated(frame), _needs_met(frame)
    assert [columns for columns, one, other in zip(SETS, stated, met, strict=True) if one != other] == []
    assert len(stated) == len(SETS)


@pytest.mark.parametrize(("priced_as", "expected"), [("reduction", True), (None, False)])
def test_a_helper_is_known_by_what_the_family_that_prices_it_needs(
    priced_as: str | None, expected: bool
) -> None:
    frame = _frame("attention", ("elements",), priced_as=priced_as)
    assert _needs_met(frame) == _stated(frame) == [expected]


def test_a_compiled_reduction_without_its_loop_sizes_is_known_by_its_elements() -> None:
    call = {"operator_name": "triton_red_fused_sum_0", "input_dims": "[[4096, 4096], [4096]]"}
    signature = {
        "name": "triton_red_fused_sum_0",
        "kind": "kernel",
        **call,
        "input_types": '["float", "float"]',
    }
    row = structure.describe(pl.DataFrame([signature])).row(0, named=True)
    assert (row["family"], row["elements"], row["shape_source"]) == ("reduction", 4096 * 4096, "operator")


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_a_table_row_of_the_columns_it_needs_can_be_counted(op: str) -> None:
    record = OPERATORS[op]
    row: dict[str, object] = {"op": op, **dict.fromkeys(record.needs, 16)}
    if record.dtype:
        row["dtype"] = "bf16"
    rows = read_table(pl.DataFrame([row])).rows
    assert known_shape(rows).all()
    work = count_work(rows, load_gpu("h100-sxm"))
    assert (work.dram_bytes > 0).all()


def test_prefill_without_keys_attends_to_itself_and_decode_must_say_how_many() -> None:
    row = {"op": "attention", "dtype": "bf16", "batch": 2, "q_len": 256, "heads": 8, "head_dim": 64}
    alone, stated = (read_table(pl.DataFrame([r])).rows for r in (row, {**row, "kv_len": 256}))
    gpu = load_gpu("h100-sxm")
    assert count_work(alone, gpu).useful_flops[0] == count_work(stated, gpu).useful_flops[0] > 0
    with pytest.raises(BadInput, match="kv_len"):
        read_table(pl.DataFrame([{**row, "q_len": 1}]))
    with pytest.raises(BadInput, match=r"row 2.*kv_len"):
        read_table(pl.DataFrame([{**row, "kv_len": 256}, {**row, "phase": "decode", "kv_len": None}]))


@pytest.mark.parametrize("gone", ["kernel_h", "kernel_w", "width"])
def test_a_convolution_without_its_window_or_width_is_not_counted(gone: str) -> None:
    shape = ("batch", "channels", "height", "width", "filters", "kernel_h", "kernel_w")
    columns = {c: np.array([16.0]) for c in shape if c != gone}
    columns |= {
        "dtype": np.array(["bf16"], dtype=object),
        "shape_source": np.array(["operator"], dtype=object),
    }
    assert not known_shape(OperatorColumns(np.array(["conv"], dtype=object), columns)).any()
