"""Long tables are predicted in blocks; where they are cut changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.gpu_data import operators
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import UNITS, Prediction
from tracetool.core.records import put_rows, unfilled, with_rows
from tracetool.hardware.load import load_gpu
from tracetool.model import blocks, predict
from tracetool.model.predict import predict_rows


def _many(times: int) -> OperatorColumns:
    """Return the rows of every family several times over."""
    rows = operators()
    return rows.take(np.tile(np.arange(len(rows)), times))


def _arrays(predicted: Prediction) -> dict[str, np.ndarray]:
    timing, work = predicted.timing, predicted.timing.work
    records = {"": vars(predicted), "timing": vars(timing), "work": vars(work)}
    records |= {"parts": dict(predicted.parts_j), "busy": dict(timing.busy_s)}
    named = {f"{record}.{name}": values for record, of in records.items() for name, values in of.items()}
    return {name: values for name, values in named.items() if isinstance(values, np.ndarray)}


def test_a_table_in_blocks_is_predicted_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, gpu = _many(14), load_gpu("h100-sxm")
    clocks = np.array([900.0, 1410.0, 1980.0])
    whole = predict_rows(rows, gpu, clocks, power_cap_w=320.0)
    assert whole.throttled.any()
    assert not whole.throttled.all()
    monkeypatch.setattr(predict, "PLANNED_ROWS", 23)
    monkeypatch.setattr(blocks, "PLANNED_ROWS", 23)
    monkeypatch.setattr(blocks, "SETTLED_NUMBERS", 21)
    in_blocks = predict_rows(rows, gpu, clocks, power_cap_w=320.0)
    expected, got = _arrays(whole), _arrays(in_blocks)
    assert expected.keys() == got.keys()
    for name, values in expected.items():
        assert np.array_equal(values, got[name]), name


def test_as_many_numbers_are_settled_at_once_whatever_the_clocks() -> None:
    for clocks in (1, 10, 100):
        assert (
            blocks.SETTLED_NUMBERS - clocks < clocks * blocks.settled_rows(clocks) <= blocks.SETTLED_NUMBERS
        )
    assert blocks.settled_rows(10 * blocks.SETTLED_NUMBERS) == 1


def test_busy_times_are_of_the_clocks_that_the_cap_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, gpu, clocks = _many(14), load_gpu("h100-sxm"), np.array([900.0, 1980.0])
    monkeypatch.setattr(predict, "PLANNED_ROWS", 23)
    monkeypatch.setattr(blocks, "PLANNED_ROWS", 23)
    found = predict_rows(rows, gpu, clocks, power_cap_w=320.0)
    row = int(np.flatnonzero(found.throttled[:, 1] & (found.timing.work.l2_bytes > 0))[0])
    busy = found.timing.busy_s
    assert set(busy) == set(UNITS)
    assert len(busy) == len(UNITS)
    alone = predict_rows(rows.take(np.array([row])), gpu, found.clock_mhz[row]).timing
    for unit in UNITS:
        assert busy[unit].shape == found.clock_mhz.shape
        assert np.allclose(busy[unit][row], alone.busy_s[unit][0], rtol=1e-12)
    by_hand = found.timing.work.l2_bytes[row] / gpu.l2_bytes_per_clock / (found.clock_mhz[row] * 1e6)
    assert np.allclose(busy["l2"][row], np.minimum(by_hand, found.timing.duration_s[row]), rtol=1e-12)


def test_what_a_block_raises_is_raised() -> None:
    def refuse(block: slice) -> object:
        raise ZeroDivisionError(str(block))

    with pytest.raises(ZeroDivisionError, match=r"slice\(0, 5"):
        blocks.predicted_in_blocks(5, refuse)  # type: ignore[arg-type]


def test_rows_are_put_into_every_array_of_a_record() -> None:
    gpu = load_gpu("h100-sxm")
    rows = _many(1)
    slow, fast = (predict_rows(rows, gpu, np.array([mhz])).timing for mhz in (900.0, 1980.0))
    some = np.array([0, 2])
    mixed = with_rows(fast, some, predict_rows(rows.take(some), gpu, np.array([900.0])).timing)
    for name in ("duration_s", "core_s", "sm_active"):
        made, of_fast, of_slow = (getattr(t, name) for t in (mixed, fast, slow))
        assert np.array_equal(made[some], of_slow[some])
        assert np.array_equal(np.delete(made, some, 0), np.delete(of_fast, some, 0))
    assert not np.shares_memory(mixed.duration_s, fast.duration_s)
    empty = unfilled(fast, 2 * len(rows))
    put_rows(empty, slice(0, len(rows)), fast)
    put_rows(empty, slice(len(rows), 2 * len(rows)), slow)
    assert np.array_equal(empty.busy_s["dram"], np.concatenate([fast.busy_s["dram"], slow.busy_s["dram"]]))
    assert empty.basis.tolist() == [*fast.basis, *slow.basis]


def test_rows_are_written_only_where_they_differ() -> None:
    gpu, rows = load_gpu("h100-sxm"), _many(1)
    slow, fast = (predict_rows(rows, gpu, np.array([mhz, mhz])).timing for mhz in (900.0, 1980.0))
    duration, every = fast.duration_s, np.arange(len(rows))
    kept = duration.copy()
    copied = with_rows(fast, every, slow)
    assert copied.low is fast.low
    assert copied.work.dram_bytes is fast.work.dram_bytes
    assert np.array_equal(duration, kept)
    written = with_rows(fast, every, slow, in_place=True)
    assert written.duration_s is duration
    assert np.array_equal(duration, slow.duration_s)
    seen = np.broadcast_to(fast.fixed_s[:, None], duration.shape)  # cannot be written to
    assert np.array_equal(with_rows(seen, every, slow.duration_s, in_place=True), slow.duration_s)
    assert np.array_equal(seen[:, 0], fast.fixed_s)


def test_what_no_clock_changes_is_kept_once_in_a_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "PLANNED_ROWS", 23)
    monkeypatch.setattr(blocks, "PLANNED_ROWS", 23)
    timing = predict_rows(_many(14), load_gpu("h100-sxm"), np.array([900.0, 1980.0])).timing
    for values in (timing.low, timing.high, timing.memory_s):
        assert values.shape == timing.duration_s.shape
        assert values.strides[1] == 0
    assert not timing.busy_s["fp64"].any()
