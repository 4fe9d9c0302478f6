"""Throttled shares of kernels from a log's reasons, or from its clocks and powers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.measure.throttled_share import throttle_log, throttle_note, throttle_record, throttled_time
from tracetool.measure.timeline import Timeline, build_timeline

MS = 1_000_000


def _log(columns: dict[str, list], every_ms: int = 20) -> pl.DataFrame:
    n = len(next(iter(columns.values())))
    times = [every_ms * MS * i for i in range(n)]
    empty = {
        "throttle_reasons": pl.Series([None] * n, dtype=pl.String),
        "clock_mhz": pl.Series([None] * n, dtype=pl.Float64),
        "power_limit_w": pl.Series([None] * n, dtype=pl.Float64),
        "power_w": pl.Series([100.0] * n),
    }
    return pl.DataFrame({"time_ns": times, "device": 0, **empty}).with_columns(
        **{name: pl.Series(values) for name, values in columns.items()}
    )


def _work(*spans_s: tuple[float, float, int], classes: int = 2) -> Timeline:
    start, end, label = (np.array(v) for v in zip(*spans_s, strict=True))
    return build_timeline(start.astype(float), end.astype(float), label.astype(np.int64), classes)


def test_reasons_tell_which_kernels_ran_throttled() -> None:
    # Capped from 0.4 to 0.8 s of 1 s; idle (0x1) and application clocks (0x2) are no throttling.
    reasons = ["0x1" if i < 10 else "0x2" if i < 20 else "0x4" if i <= 40 else "0x0" for i in range(51)]
    log = throttle_log(_log({"throttle_reasons": reasons}), 0, 0, np.nan)
    assert log is not None
    found = throttled_time(log, _work((0.0, 0.2, 0), (0.45, 0.75, 1), (0.9, 1.0, 0)))
    np.testing.assert_allclose(found.share, [0.0, 1.0], atol=1e-9)
    half = throttled_time(log, _work((0.2, 0.6, 0), (0.6, 1.0, 1)))
    np.testing.assert_allclose(half.share, [0.525, 0.525], atol=0.001)
    assert (half.low <= half.share).all()
    assert (half.high >= half.share).all()
    np.testing.assert_allclose(half.high - half.low, 0.05, atol=1e-9)  # one period each in 0.4 s
    record = throttle_record(log, half, np.array([0.4, 0.4]))
    assert record is not None
    assert record["throttled_share"] == pytest.approx(0.525)
    assert record["reasons"] == {"power cap": pytest.approx(21 / 51)}
    assert throttle_note(record, 0, log) == (
        "GPU 0: throttled for 52 % of kernel time (90 %: 50 to 55 %), from 51 readings of throttle reasons:"
        " power cap 41 %"
    )


def test_without_reasons_a_low_clock_at_the_limit_is_throttled() -> None:
    clock = [1410.0] * 10 + [1200.0] * 10 + [600.0] * 10
    power = [200.0] * 10 + [395.0] * 10 + [90.0] * 10  # at last it idles: slow, but not at the limit
    columns = {"clock_mhz": clock, "power_w": power}
    log = throttle_log(_log(columns), 0, 0, 400.0)
    assert log is not None
    assert log.lowered.tolist() == [False] * 10 + [True] * 10 + [False] * 10
    # A limit in the log comes before the GPU's.
    higher = throttle_log(_log({**columns, "power_limit_w": [500.0] * 30}), 0, 0, 400.0)
    assert higher is not None
    assert not higher.lowered.any()


def test_a_log_that_tells_nothing_gives_nothing() -> None:
    assert throttle_log(_log({"power_w": [1.0, 2.0]}), 0, 0, 400.0) is None
    assert throttle_log(_log({"clock_mhz": [1.0, 2.0]}), 0, 0, np.nan) is None
    log = throttle_log(_log({"throttle_reasons": ["0x4"] * 5}), 0, 0, np.nan)
    assert log is not None
    outside = throttled_time(log, _work((5.0, 6.0, 0), (7.0, 8.0, 1)))
    assert np.isnan(outside.share).all()
    assert throttle_record(log, outside, np.ones(2)) is None


def test_a_moment_of_several_rows_is_read_from_the_row_that_states_it() -> None:
    # Logs of several fields hold a row for each at one moment; only some state reasons, or a clock.
    reasons = _log({"throttle_reasons": ["0x0", "0x0", "0x4", "0x4", "0x4"], "power_w": [None] * 5})
    clocks = _log({"clock_mhz": [1980.0, 1980.0, 1500.0, 1500.0, 1500.0], "power_w": [400.0] * 5})
    power = _log({"power_w": [400.0] * 5})
    for stated, basis in ((reasons, "reasons"), (clocks, "clock and power")):
        later = pl.concat([power, stated.select(power.columns)], how="vertical_relaxed")
        log = throttle_log(later, 0, 0, 400.0)
        assert log is not None
        assert log.basis == basis
        assert log.lowered.tolist() == [False, False, True, True, True]
