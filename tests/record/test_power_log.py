"""The power log: what the writer promises, what the reader makes of whole, cut and damaged ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracetool.core.errors import BadInput
from tracetool.record.clocks import read_pair
from tracetool.record.log_file import LogFile
from tracetool.record.summary import summarize
from tracetool.record.update_period import Found, change_period_s, poll_period_s
from tracetool.sources.detect import detect
from tracetool.sources.format import ReadOptions
from tracetool.tables.schema import load_schema

DEVICES = [
    {
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-1",
        "bus": "0000:01",
        "fields": ["instant_mw"],
    },
    {
        "index": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-2",
        "bus": "0000:02",
        "fields": ["instant_mw"],
    },
]
BOOT, OFFSET = 5_000_000_000_000, 1_700_000_000_000_000_000


def write(path: Path, count: int = 40, *, end: bool = True) -> bytes:
    """Write a log of two GPUs as the sampler does and return its bytes."""
    log = LogFile(path)
    pair = {"boot_ns": BOOT, "utc_ns": BOOT + OFFSET, "half_width_ns": 200, "monotonic_ns": BOOT}
    log.note(
        "start", **pair, vendor="nvidia", driver="570.1", poll_s=0.02, local_offset_s=3600, devices=DEVICES
    )
    for i in range(count):
        for device in (0, 1):
            values = {
                "instant_mw": 100_000 + 1000 * i + device,
                "energy_uj": 2_000_000 * i,
                "clock_mhz": 1755,
                "throttle": "0x1",
            }
            log.reading(BOOT + 20_000_000 * i, 40_000, device, values)
    if end:
        log.note("end", **pair, readings=2 * count, jitter_us={"count": count}, dropped=0)
    log.close()
    return path.read_bytes()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    write(path)
    name, found = detect(path)
    assert name == "tracetool_power"
    trace = found.read(path, ReadOptions())
    assert trace.clock.domain == "boot"
    assert trace.clock.to_utc_ns == OFFSET
    assert trace.clock.local_offset_ns == 3600 * 10**9
    assert trace.devices["uuid"].to_list() == ["GPU-1", "GPU-2"]
    first = trace.telemetry.filter(device=0)
    assert first["power_w"].to_list() == pytest.approx([100.0 + i for i in range(40)])
    assert first["energy_j"].to_list() == pytest.approx([2.0 * i for i in range(40)])
    assert set(first["power_kind"]) == {"instant"}
    assert set(first["field"]) == {"power.draw.instant"}
    assert not trace.rejected
    assert not trace.warnings
    columns = set(load_schema("telemetry").polars())
    assert set(trace.telemetry.columns) <= columns


def test_a_log_without_its_end_says_so_and_gives_all_it_has(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    write(path, end=False)
    trace = detect(path)[1].read(path, ReadOptions())
    assert trace.telemetry.height == 80
    assert "killed" in trace.warnings[0]


def test_a_reading_whose_last_number_lost_its_end_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    path.write_bytes(write(path, end=False)[:-2])
    trace = detect(path)[1].read(path, ReadOptions())
    assert trace.telemetry.height == 79
    assert [r.height for r in trace.rejected] == [1]


def test_a_clock_that_was_set_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    write(path, end=False)
    log = LogFile(path)
    log.note("clock", boot_ns=BOOT + 1, utc_ns=BOOT + OFFSET + 30_000_000, half_width_ns=100)
    log.close()
    trace = detect(path)[1].read(path, ReadOptions())
    assert any("moved by 30.0 ms" in w for w in trace.warnings)
    assert trace.clock.error_ns >= 15e6


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("log") / "power.log", 6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 4000), at=st.integers(0, 4000), byte=st.integers(0, 255))
def test_any_damage_gives_a_table_or_one_line(
    cut: int, at: int, byte: int, whole: bytes, tmp_path: Path
) -> None:
    damaged = bytearray(whole[: len(whole) - cut % len(whole)])
    damaged[at % len(damaged)] = byte
    path = tmp_path / "power.log"
    path.write_bytes(bytes(damaged))
    try:
        trace = detect(path, "telemetry")[1].read(path, ReadOptions())
    except BadInput as error:
        assert "\n" not in error.line()
        return
    assert trace.telemetry.height <= 12
    assert trace.telemetry["time_ns"].null_count() == 0


def test_a_full_disk_is_written_to_again_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    log = LogFile(path)
    full, kept = os.open("/dev/full", os.O_WRONLY), log._file
    log._file = full
    for i in range(5):
        log.reading(i, 1, 0, {"instant_mw": i})
    assert log.waiting == 5
    assert log.refused
    log._file = kept
    os.close(full)
    log.close()
    assert [line.split(",")[0] for line in path.read_text("utf-8").splitlines()[1:]] == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]


def test_pairs_are_tight() -> None:
    assert read_pair().half_width_ns < 1_000_000


def test_a_period_needs_changes() -> None:
    assert change_period_s(range(1000), [1] * 1000) is None
    assert change_period_s(
        [1_000_000 * i for i in range(400)], [i // 25 for i in range(400)]
    ) == pytest.approx(0.025)


def test_polls_leave_time_to_others() -> None:
    """Reading may take a quarter of the time at most, however quick the sensor."""
    slow = Found({"instant_mw": 0.005}, read_s=0.010, reads=100)
    assert poll_period_s([slow]) == pytest.approx(0.040)
    assert poll_period_s([slow, slow]) == pytest.approx(0.080)


@pytest.mark.parametrize(
    ("disk_full", "cause"), [(True, "the disk took no more of it"), (False, "its writer was killed")]
)
def test_a_log_without_an_end_says_why(disk_full: bool, cause: str, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"what": "recording"}\n')
    write(tmp_path / "power.log", 4)
    text = (tmp_path / "power.log").read_text()
    (tmp_path / "power.log").write_text("".join(x for x in text.splitlines(True) if '"end"' not in x)[:-5])
    assert f"the power log has no end: {cause}" in summarize(tmp_path, disk_full=disk_full).warnings
