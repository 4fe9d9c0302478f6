"""Windows whose energy is asked, held against the log that measures them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.measure.requested_windows import read_requested_windows, windows_note

EPOCH_US = 1_700_000_000_000_000
LOG = pl.DataFrame({"time_ns": (EPOCH_US + np.arange(0, 5_000_000, 20_000)) * 1000, "power_w": [300.0] * 250})


def _table(folder: Path, *windows: tuple[float, float]) -> Path:
    file = folder / "windows.csv"
    pl.DataFrame(windows, schema=["start_us", "end_us"], orient="row").write_csv(file)
    return file


@pytest.mark.parametrize(
    ("scale", "fix"),
    [
        (1e-3, "are its times in milliseconds?"), (1e-6, "are its times in seconds?"),
        (1.001, "give windows of this run"),
    ],
)  # fmt: skip
def test_windows_wholly_outside_the_log_are_refused_with_the_likely_unit(
    tmp_path: Path, scale: float, fix: str
) -> None:
    file = _table(tmp_path, *(((EPOCH_US + s * 1e6) * scale, (EPOCH_US + (s + 1) * 1e6) * scale)
                              for s in (1, 2)))  # fmt: skip
    with pytest.raises(BadInput, match="no window overlaps the power log") as fault:
        read_requested_windows(file, LOG)
    assert fix in str(fault.value.fix)


def test_windows_of_which_one_overlaps_are_read(tmp_path: Path) -> None:
    file = _table(tmp_path, (EPOCH_US + 1_000_000, EPOCH_US + 2_000_000), (5, 6))
    assert read_requested_windows(file, LOG).height == 2


def test_windows_without_energy_are_counted() -> None:
    def note(*energies: float | None) -> tuple[str, ...]:
        return windows_note(pl.DataFrame({"energy_j": energies}, schema={"energy_j": pl.Float64}))

    assert note(3.0, 4.0) == windows_note(None) == ()
    assert note(3.0, None) == ("1 of 2 windows reaches beyond the power log: without energy",)
    assert note(None, None, 1.0) == ("2 of 3 windows reach beyond the power log: without energy",)
