"""PyTorch's events, however odd: a table or one line, and the same table however the file is cut."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.sources.makers import kineto_document, kineto_events
from tracetool.core.errors import BadInput
from tracetool.core.progress import Silent
from tracetool.sources.assemble import check_trace
from tracetool.sources.format import Trace
from tracetool.sources.pytorch import events as event_reader
from tracetool.sources.pytorch import tables
from tracetool.sources.pytorch.trace import read_trace

_ODD: list[Any] = [
    None, [], {}, "x", "", -1, 1e300, 2**63, 2**70, 1.5, "7", "stream 7", [1, 2], [1, 2, 3], ["a", None, 3],
    "a\0b", "\x1b[31m", "1.7e3", {"a": 1}, [[1, 2], [3]], 1e16, -5.5,
]  # fmt: skip
#: Whether these are times since 1970 depends on what stands beside them.
_STAMPS = [True, 1700000000000000.125, "1700000000000000.123"]


def _changes(odd: list[Any]) -> st.SearchStrategy[list[tuple[int, bool, int, Any]]]:
    one = st.tuples(st.integers(0, 10**6), st.booleans(), st.integers(0, 10**6), st.sampled_from(odd))
    return st.lists(one, min_size=1, max_size=12)


def _read(document: object, chunk: int = 1 << 18) -> Trace:
    text = json.dumps(document).encode()
    blocks = (text[at : at + chunk] for at in range(0, len(text), chunk))
    return read_trace(Path("t.json"), blocks, Silent())


def _changed(changes: list[tuple[int, bool, int, Any]]) -> list[Any]:
    events: list[Any] = copy.deepcopy(kineto_events())
    for which, inside, key, value in changes:
        event = events[which % len(events)]
        args = event.get("args")
        fields = args if inside and isinstance(args, dict) and args else event
        fields[sorted(fields)[key % len(fields)]] = copy.deepcopy(value)
    return events


@settings(max_examples=120, deadline=None)
@given(changes=_changes(_ODD + _STAMPS), bare=st.booleans(), alone=st.booleans())
def test_odd_fields_give_rows_or_one_line(
    changes: list[tuple[int, bool, int, Any]], bare: bool, alone: bool
) -> None:
    events = _changed(changes)[: 1 if alone else None]
    try:
        trace = check_trace(_read(events if bare else kineto_document(events)), Path("t.json"))
    except BadInput:
        return
    for frame in (trace.activities, trace.host_calls, trace.operators, trace.ranges):
        if frame.height:
            assert frame["start_ns"].null_count() == 0
            assert frame.select(pl.col("duration_ns").min()).item() >= 0


@settings(max_examples=25, deadline=None)
@given(changes=_changes(_ODD), chunk=st.integers(64, 900), at_once=st.integers(1, 9))
def test_how_the_file_is_cut_does_not_show(
    changes: list[tuple[int, bool, int, Any]], chunk: int, at_once: int
) -> None:
    document = kineto_document([e for _ in range(3) for e in _changed(changes)])
    with pytest.MonkeyPatch.context() as patch:
        whole = _read(document)
        patch.setattr("tracetool.sources.pytorch.trace.CHUNK_BYTES", chunk)
        patch.setattr(tables, "EVENTS_AT_ONCE", at_once)
        cut = _read(document, chunk)
    for part in ("host_calls", "operators", "ranges", "devices"):
        assert_frame_equal(getattr(cut, part), getattr(whole, part))
    assert cut.activities.height == whole.activities.height
    assert cut.activities["name"].to_list() == whole.activities["name"].to_list()


@pytest.mark.parametrize(
    ("length", "told"), [(None, 0), ("soon", 0), (1e16, None), ("1e16", None), (2.0005, 2001)]
)
def test_a_length_out_of_bounds_is_none(length: object, told: int | None) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": "1709748230123456.789"}
    operators = _read([{**event, "dur": length}]).operators
    assert operators.row(0)[:2] == (1709748230123456789, told)


def test_what_stands_before_the_events_may_be_long() -> None:
    document = {"notes": "x" * (3 << 18), **kineto_document(kineto_events())}
    assert _read(document).activities.height == _read(kineto_document(kineto_events())).activities.height
    assert event_reader.LONGEST_HEADER > 3 << 18


@pytest.mark.parametrize("shift", range(0, 64, 9))
def test_a_key_cut_in_two_is_found_after_a_long_header(shift: int) -> None:
    events = kineto_events()
    document = {"notes": "x" * (3 * event_reader.LONGEST_KEY + shift), **kineto_document(events)}
    assert _read(document, 64).activities.height == _read(kineto_document(events)).activities.height


def test_a_kernel_launched_before_the_profiler_has_no_operator() -> None:
    events: list[Any] = [e for e in kineto_events() if e["name"] != "Memcpy HtoD"]
    orphan = copy.deepcopy(next(e for e in events if e.get("cat") == "kernel"))
    # Kineto's id of it is its correlation, the number of an operator that launched another kernel.
    orphan["args"] |= {"External id": 71, "correlation": 71}
    orphan["ts"] += 500
    rows = check_trace(_read(kineto_document([*events, orphan])), Path("t.json")).activities
    of_correlation = dict(rows.select("correlation", "operator").iter_rows())
    assert of_correlation[71] is None
    assert of_correlation[501] == 1
