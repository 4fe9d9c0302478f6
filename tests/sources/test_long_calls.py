"""A host call or range longer than any run is kept apart, so that the run it is left out of can be read."""

from __future__ import annotations

import polars as pl
import pytest

from tracetool.sources.checks import check_intervals
from tracetool.tables.table_list import LONGEST_NS, impossible_figure


@pytest.mark.parametrize(("duration", "kept"), [(LONGEST_NS, 1), (LONGEST_NS + 1, 0), (2**62, 0), (-1, 0)])
def test_a_host_interval_is_kept_where_the_run_may_hold_it(duration: int, kept: int) -> None:
    calls = check_intervals(pl.DataFrame({"name": ["a"], "start_ns": [5], "duration_ns": [duration]}))
    assert calls.height == kept
    assert not impossible_figure("host_calls", calls)
